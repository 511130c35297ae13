#!/usr/bin/env -S python3 -u
"""PreToolUse guard: look for credentials in what the agent is about to write."""

from __future__ import annotations

import json
import math
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Rule:
    name: str
    pattern: re.Pattern[str]
    entropy: float = 0.0


RULES = (
    Rule("AWS access key", re.compile(r"\bAKIA[0-9A-Z]{16}\b")),
    Rule("GitHub token", re.compile(r"\bgh[pousr]_[A-Za-z0-9]{36}\b")),
    Rule("private key", re.compile(r"-----BEGIN (?:RSA |EC |OPENSSH )?PRIVATE KEY-----")),
    Rule("assigned secret", re.compile(r"(?i)(?:secret|token|password)\s*[:=]\s*['\"]([^'\"]{12,})['\"]"), 3.0),
)


def entropy(text: str) -> float:
    counts = Counter(text)
    return -sum(n / len(text) * math.log2(n / len(text)) for n in counts.values())


def scan(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        for rule in RULES:
            for match in rule.pattern.finditer(line):
                found = match.group(match.lastindex or 0)
                if entropy(found) >= rule.entropy:
                    yield number, rule.name


def texts(tool_input: dict) -> Iterator[str]:
    for key in ("content", "new_string", "command"):
        if isinstance(tool_input.get(key), str):
            yield tool_input[key]
    for edit in tool_input.get("edits", []):
        yield edit["new_string"]


event = json.loads(sys.stdin.read())
findings = [f"line {line}: {name}" for text in texts(event["tool_input"]) for line, name in scan(text)]
if findings:
    sys.exit("\n".join(["Possible secrets:", *findings])) if "--warn" in sys.argv else None
    sys.stderr.write("Possible secrets:\n" + "\n".join(findings) + "\n")
    raise SystemExit(2)
print(f"checked {sum(map(len, texts(event['tool_input'])))} characters")
