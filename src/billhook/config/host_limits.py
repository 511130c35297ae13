"""What an agent can't honour of a hook: missing events, answers that it ignores or changes, and time limits.

Each limit is one sentence for `billhook check --host`.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec

from billhook.agents import AGENTS, own_name
from billhook.agents.base import CAPABILITIES, can
from billhook.config.declaration import Declared, Exec, Mask, NotYet, Python, Rewrite, RunAction, Say, Url
from billhook.config.lint.commands import head_of, scripts
from billhook.core.dialect_traits import meanings
from billhook.core.events import EVENTS, Block
from billhook.core.match import compile_matcher

_LITERALS: Final = {"inject": ("context",), "notify": ()}  # the others have the same name in both tables
_ANSWERS: Final = {
    "allow": "allow",
    "deny": "deny",
    "ask": "ask",
    "rewrite_input": "rewritten input",
    "replace_output": "rewritten output",
    "context": "context",
    "stop": "stop",
    "keep_going": "request to keep going",
    "quiet": "`suppressOutput`",
}
_RETURNS: Final = {
    "deny": "deny",
    "ask": "ask",
    "rewrite_input": "a rewritten input",
    "replace_output": "a rewritten output",
    "context": "context",
    "stop": "stop",
    "keep_going": "a request to keep going",
}
"""What any hook may return. An ignored allow changes nothing, so it is left out."""
_VALUE: Final = r"\\?[\"']?\s{0,9}[:=,]\s{0,9}\\?[\"']?"
_EVIDENCE: Final = {
    "ask": re.compile(rf"permissionDecision{_VALUE}ask\b|\b(?:return|billhook\.)\s{{0,9}}ask\("),
    "rewrite_input": re.compile(r"\bupdatedInput\b|\brewrite\(\s{0,9}input"),
    "replace_output": re.compile(r"\bupdated(?:MCP)?ToolOutput\b|\brewrite\(\s{0,9}output"),
    "context": re.compile(r"\badditionalContext\b|\b(?:return|billhook\.)\s{0,9}inject\("),
    "stop": re.compile(rf"\bcontinue{_VALUE}[Ff]alse\b|\b(?:return|billhook\.)\s{{0,9}}stop\("),
}
"""Text in a script that shows this answer."""
_QUIET: Final = re.compile(rf"\bsuppressOutput{_VALUE}[Tt]rue\b")
_EVENT: Final = re.compile(r"\b[A-Z][a-z]+[A-Z]\w+\b")
_REFUSED: Final = (Block.DENY, Block.NOT_HONOURED)


class Host(msgspec.Struct, frozen=True):
    """The agent whose limits are checked."""

    name: str
    title: str  # its name for people
    seconds: Callable[[str, float], float]
    """How many seconds a hook can take for an event in that agent, given the event and the hook's timeout."""

    def calls(self, event: str) -> str:
        """The agent's name of an event."""
        return own_name(self.name, event) or event


class HostLimit(msgspec.Struct, frozen=True):
    """One part of a hook that an agent can't honour."""

    hook: str
    file: str
    line: int
    events: tuple[str, ...]  # our names of the events
    wants: tuple[str, ...]  # `ask`, `deny`, `context` ...; or `event`, or `timeout`
    becomes: str
    sure: bool  # the hook certainly uses it; if False, it may
    sentence: str


def limits(hook: Declared, agent: Host) -> list[HostLimit]:
    """Everything that this agent can't honour of a hook; certain limits come first."""
    missing = [event for event in hook.events if event not in CAPABILITIES[agent.name]]
    found = [*_missing(hook, agent, missing)]
    events = [event for event in hook.events or CAPABILITIES[agent.name] if event not in missing]
    known = _known(hook)
    found += _losses(hook, agent, events, known or (), sure=True)
    if hook.gate and hook.on_failure not in (known or ()):
        found += _losses(hook, agent, filter(_refusable, events), (hook.on_failure,), sure=True)
    if _QUIET.search("\n".join(_texts(hook))):
        found += _losses(hook, agent, events, ("quiet",), sure=True)
    found += _partly(hook, agent, events, known or ())
    if known is None:
        found += _losses(hook, agent, events, [want for want in _RETURNS if want != hook.on_failure], sure=False)
    return [*found, *_late(hook, agent, events)]


def _known(hook: Declared) -> tuple[str, ...] | None:
    """The answers that the hook returns; None if they are unknown."""
    match hook.action:
        case Say(decision):
            return _LITERALS.get(decision, (decision,))
        case Rewrite():
            return ("rewrite_input",)
        case Mask():
            return ("replace_output",)
        case RunAction() | Exec() | Python():
            whole = "\n".join(_texts(hook))
            return tuple(want for want, words in _EVIDENCE.items() if words.search(whole)) or None
        case Url():
            return None
        case NotYet() | None:
            return ()


def _texts(hook: Declared) -> Iterator[str]:
    """The hook's command, and the scripts and the module that it names."""
    if isinstance(hook.action, RunAction):
        yield hook.action.text
    if isinstance(hook.action, RunAction | Exec):
        yield from (text for _, text in scripts(hook))
    if isinstance(hook.action, Python):
        module = os.path.join(hook.module_folder, hook.action.target.partition(":")[0].replace(".", "/"))
        yield from map(head_of, (f"{module}.py", f"{module}/__init__.py"))


def _missing(hook: Declared, agent: Host, events: list[str]) -> Iterator[HostLimit]:
    if events:
        several = len(events) > 1
        missing = f"{agent.title} has no {'events' if several else 'event'} {_and(events)}"
        sentence = f"{missing}, so the hook never runs for {'them' if several else 'it'}"
        yield _limit(hook, events, ("event",), "never fires", sentence, sure=True)


def _losses(
    hook: Declared, agent: Host, events: Iterable[str], wants: Iterable[str], *, sure: bool
) -> Iterator[HostLimit]:
    """Answers that the hook returns, or may return, and the agent can't honour. Equal losses share one sentence."""
    alike: dict[str, dict[str, list[str]]] = {}
    for event in events:
        for want in wants:
            clause = _becomes(agent, event, want, sure=sure)
            if clause:
                alike.setdefault(clause, {}).setdefault(want, []).append(event)
    for clause, by_want in alike.items():
        together: dict[tuple[str, ...], list[str]] = {}
        for want, where in by_want.items():
            together.setdefault(tuple(where), []).append(want)
        for on, lost in together.items():
            yield _loss(hook, agent, on, lost, clause, sure=sure)


def _loss(hook: Declared, agent: Host, on: tuple[str, ...], lost: list[str], clause: str, *, sure: bool) -> HostLimit:
    place = f"on {agent.title}'s {_and(list(dict.fromkeys(agent.calls(event) for event in on)))}"
    if sure:
        sentence = f"{place} its {_and([_ANSWERS[want] for want in lost])} {clause}"
    else:
        sentence = f"if it returns {_and([_RETURNS[want] for want in lost], 'or')} {place}, that {clause}"
    return _limit(hook, on, tuple(lost), clause, sentence, sure=sure)


def _becomes(agent: Host, event: str, want: str, *, sure: bool) -> str:
    """What the agent does with this answer; empty if it honours it, or if it has no meaning for this event."""
    able, usual = can(agent.name, event), can("claude", event)
    clause = able.becomes(want)
    if not clause or (want == "deny" and not _refusable(event) and clause == usual.becomes(want)):
        return ""
    means_something = getattr(usual, want) or (want == "deny" and _refusable(event))
    if not sure and (not means_something or "anyway" in clause):
        return ""
    spelt = _EVENT.sub(lambda found: agent.calls(found[0]), clause)
    return f"is {spelt}" if spelt.startswith("held") else spelt


def _partly(hook: Declared, agent: Host, events: list[str], known: tuple[str, ...]) -> Iterator[HostLimit]:
    """A rewritten input of which the agent uses only a part. Hooks that rewrite shell commands are not affected."""
    taken = AGENTS[agent.name].taken_over if agent.name in AGENTS else ""
    matcher = compile_matcher(hook.match, meanings(hook.dialect).matching, "PreToolUse")
    shell_only = all(rule.startswith("Bash") for rule in hook.conditions.rules or ("",))
    files = not shell_only and any(map(matcher.matches, ("Write", "Edit", "apply_patch")))
    if taken and files and "rewrite_input" in known and "PreToolUse" in events:
        place = f"on {agent.title}'s {agent.calls('PreToolUse')}"
        sentence = f"if it rewrites more than {taken} {place}, that becomes deny"
        yield _limit(hook, ["PreToolUse"], ("rewrite_input",), "becomes deny", sentence, sure=False)


def _refusable(event: str) -> bool:
    """Whether a refusal prevents something."""
    return event in EVENTS and EVENTS[event].block in _REFUSED


def _late(hook: Declared, agent: Host, events: list[str]) -> Iterator[HostLimit]:
    """A timeout that is longer than the agent's."""
    for event in events if hook.timeout is not None and not hook.background else ():
        assert hook.timeout is not None
        there = agent.seconds(event, hook.timeout)
        if hook.timeout > there:
            ended = "the call is denied" if hook.gate and can(agent.name, event).deny else "the hook counts as failed"
            too_long = f"its timeout of {hook.timeout:g} s is too long for {agent.title}'s {agent.calls(event)}"
            sentence = f"{too_long}: after {there:g} s {ended}"
            yield _limit(hook, [event], ("timeout",), f"ended after {there:g} s", sentence, sure=True)


def _limit(
    hook: Declared, events: Iterable[str], wants: tuple[str, ...], becomes: str, sentence: str, *, sure: bool
) -> HostLimit:
    return HostLimit(hook.name, hook.file, hook.line, tuple(events), wants, becomes, sure, sentence)


def _and(words: list[str], last: str = "and") -> str:
    return f" {last} ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
