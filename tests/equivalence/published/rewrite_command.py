#!/usr/bin/env python3
"""PreToolUse: make commands safer: quiet package managers, no pagers, a timeout for tests."""

import enum
import json
import shlex
import sys
from collections.abc import Callable, Sequence

Words = Sequence[str]
RULES: list[tuple[str, Callable[[Words], Words]]] = []


class Risk(enum.IntEnum):
    NONE = 0
    LOW = 1
    HIGH = 2


def rule(program: str):
    def register(function):
        RULES.append((program, function))
        return function

    return register


@rule("git")
def no_pager(words: Words) -> Words:
    return words if "--no-pager" in words else [words[0], "--no-pager", *words[1:]]


@rule("npm")
def quiet(words: Words) -> Words:
    return [*words, "--no-fund", "--no-audit"] if "install" in words or "i" in words else words


@rule("pytest")
def limited(words: Words) -> Words:
    return ["timeout", "300", *words]


def risk(words: Words) -> Risk:
    if "sudo" in words:
        return Risk.HIGH
    return Risk.LOW if any(word.startswith(">") for word in words) else Risk.NONE


event = json.load(sys.stdin)
command = event["tool_input"]["command"]
words: Words = shlex.split(command, comments=True)
for program, change in RULES:
    if words and words[0] == program:
        words = change(words)
if risk(words) is Risk.HIGH:
    print("sudo is not allowed here", file=sys.stderr)
    sys.exit(Risk.HIGH)
if (better := shlex.join(words)) != command:
    output = {"hookEventName": "PreToolUse", "permissionDecision": "ask", "updatedInput": {"command": better}}
    print(json.dumps({"hookSpecificOutput": output}))
