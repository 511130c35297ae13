"""Checks of what a hook answers and depends on: answers without effect at an event (BH510), tests of `when` that are
never true (BH301, BH305), unclosed variables (BH214), results of hooks that don't run before (BH212), and fixed answers
at every event (BH513).
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from msgspec.structs import replace

from billhook.agents import AGENTS
from billhook.config.declaration import (
    BUILTINS,
    EVENT_VARIABLES,
    Declared,
    Exec,
    Mask,
    Python,
    Rewrite,
    RunAction,
    Say,
    Url,
    spelling,
)
from billhook.config.lint import at_event, edit, finding, kinds, listed
from billhook.config.permissions import MODES
from billhook.core.answer_schema import HEARD
from billhook.core.events import EVENTS, Block
from billhook.core.text import Finding, nearest

_KEEPS_GOING: Final = frozenset(name for name, kind in EVENTS.items() if kind.block is Block.KEEP_GOING)
_STOPS: Final = frozenset(EVENTS) - {name for name, fields in HEARD.items() if "continue" not in fields}
_HONOURED: Final = {
    "keep_going": _KEEPS_GOING,
    "stop": _STOPS,
    "rewrite": frozenset({"PreToolUse", "PermissionRequest"}),
    "mask": frozenset({"PostToolUse"}),
}
"""The events at which an answer has an effect."""
_USUAL: Final = {"keep_going": "Stop", "stop": "PreToolUse", "rewrite": "PreToolUse", "mask": "PostToolUse"}


def lint_answer(hook: Declared) -> Iterator[Finding]:
    """BH510: an answer that an event ignores."""
    key = _answer_key(hook)
    honoured = _HONOURED.get(key)
    ignored = [kind.__name__ for kind in kinds(hook) if honoured is not None and kind.__name__ not in honoured]
    if honoured is None or not ignored:
        return
    left = [name for name in hook.events if name not in ignored]
    message = f"`{key}` has no effect at {listed(ignored)}"
    yield finding(hook, "BH510", "action", message, at_event(hook, *(left or [_USUAL[key]])))


def _answer_key(hook: Declared) -> str:
    match hook.action:
        case Say(decision):
            return decision
        case Rewrite():
            return "rewrite"
        case Mask():
            return "mask"
        case _:
            return ""


_TAKEN_BY: Final = {"options": Python, "interpreter": Python, "headers": Url, "allowed_env": Url}
_NAMED: Final = {Python: "python", Url: "url"}


def lint_settings(hook: Declared) -> Iterator[Finding]:
    """BH510: settings of a function or an address beside another action."""
    for field, action in _TAKEN_BY.items():
        if field in hook.places and not isinstance(hook.action, action):
            key = spelling(field, json=hook.shape != "yaml")
            message = f"`{key}` has no effect here: it is a setting of `{_NAMED[action]}`"
            yield finding(hook, "BH510", field, message, f"remove `{key}`")


def lint_everywhere(hook: Declared) -> Iterator[Finding]:
    """BH513, a note: a hook without `events` denies or asks at every event, unless a condition is about tool calls."""
    limits = hook.conditions
    about_calls = hook.match or limits.rules or limits.effects or limits.paths.read or limits.paths.write
    if hook.events or "events" in hook.places or about_calls or _answer_key(hook) not in ("deny", "ask"):
        return
    word = "denies" if _answer_key(hook) == "deny" else "asks"
    message = f"{hook.subject} has no `events`, so it {word} at every event, also at prompts and Stop"
    yield replace(finding(hook, "BH513", "action", message, at_event(hook, "PreToolUse")), note=True)


# -- tests of `when`


def lint_tests(hook: Declared) -> Iterator[Finding]:
    """Tests that can't be true. Those in `any` and `not` are left out: the others decide there."""
    tests = dict(hook.conditions.when)
    yield from _no_prompt(hook) if "prompt" in tests else ()
    for name, known in (("agent", tuple(AGENTS)), ("permission_mode", MODES)):
        for value in tests.get(name, ()):
            yield from _unknown_value(hook, name, value, known)


def _no_prompt(hook: Declared) -> Iterator[Finding]:
    bare = [kind.__name__ for kind in kinds(hook) if "prompt" not in kind.__struct_fields__]
    if bare:
        there = "" if len(bare) == len(hook.events) else " there"
        left = [name for name in hook.events if name not in bare]
        message = f"`when.prompt` needs a prompt, and {listed(bare)} has none: the hook never runs{there}"
        yield finding(hook, "BH305", "when", message, at_event(hook, *(left or ["UserPromptSubmit"])))


def _unknown_value(hook: Declared, name: str, value: str, known: Sequence[str]) -> Iterator[Finding]:
    """A name that no agent has. One that is far from all of them may be of a host that billhook does not know."""
    bare = value.removeprefix("!")
    if bare in known or re.search(r"[*?\[]", bare):
        return
    near = nearest(bare, known)
    hint = f"did you mean `{near}`?" if near else f"use one of {', '.join(known)}, or ignore this for another host"
    message = f"`when.{name}: {value}` is never {'false' if value != bare else 'true'}: no agent has this value"
    yield replace(finding(hook, "BH301", "when", message, hint), note=not near)


# -- variables and results


_UNCLOSED: Final = re.compile(rf"(?<!\$)\$\{{({'|'.join(sorted(EVENT_VARIABLES))}|results\.[\w.-]+)(?=[^\w.:}}-]|$)")
_RESULT: Final = re.compile(r"(?<!\$)\$\{results\.([\w-]+)\.")


def _texts(hook: Declared) -> Iterator[str]:
    """The strings of a hook in which `${...}` is filled in."""
    match hook.action:
        case RunAction(text):
            yield text
        case Exec(argv):
            yield from argv
        case Say(_, text, _, command):
            yield from (text, command)
        case Rewrite(fields, programs):
            yield from (str(value) for _, value in (*fields, *programs))


def lint_references(hook: Declared) -> Iterator[Finding]:
    """BH214: a `${` without its `}`."""
    for text in _texts(hook) if hook.shape == "yaml" else ():
        if found := _UNCLOSED.search(text):
            message = f"`{found[0]}` is not closed, so it is not replaced by a value"
            yield finding(hook, "BH214", "action", message, f"write `{found[0]}}}`")
            return


def lint_results(hooks: Sequence[Declared]) -> Iterator[Finding]:
    """BH212: a hook that uses the result of another one, which does not run before it."""
    for place, hook in enumerate(hooks):
        for name in dict.fromkeys(_results_of(hook)):
            if name in BUILTINS or name in hook.after or "/" in name:
                continue
            same = [(at, other) for at, other in enumerate(hooks) if other.name == name and _meet(hook, other)]
            if not same:
                yield _no_such_result(hook, name, [other.name for other in hooks if other is not hook])
            elif not any((other.priority, at) < (hook.priority, place) for at, other in same):
                message = f"{hook.subject} uses the result of `{name}`, which runs after it"
                yield finding(hook, "BH212", "action", message, f"add `{edit(hook, 'after', name)}`")


def _results_of(hook: Declared) -> Iterator[str]:
    for text in _texts(hook) if hook.shape == "yaml" else ():
        yield from _RESULT.findall(text)
    yield from _tested(hook.conditions.when)


def _tested(tests: Sequence[tuple[str, Any]]) -> Iterator[str]:
    for name, wanted in tests:
        if name.startswith("results."):
            yield name.split(".")[1]
        elif name == "not":
            yield from _tested(wanted)
        elif name in ("all", "any"):
            for inner in wanted:
                yield from _tested(inner)


def _meet(hook: Declared, other: Declared) -> bool:
    """Whether both listen for some event."""
    return not hook.events or not other.events or bool({*hook.events} & {*other.events})


def _no_such_result(hook: Declared, name: str, known: Sequence[str]) -> Finding:
    near = nearest(name, known)
    hint = f"did you mean `{near}`?" if near and near != name else f"add a hook named `{name}` for the same event"
    message = f"{hook.subject} uses the result of `{name}`, but no hook of that name runs before it"
    return finding(hook, "BH212", "action", message, hint)


CHECKS: Final = (lint_answer, lint_settings, lint_everywhere, lint_tests, lint_references)
