"""Whether a tool may run: modes, rules, and the question to the user."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, Literal

import msgspec

from billhook.config.permissions import MODES, PlacedRule, Rules
from billhook.core import strictjson, tools
from billhook.core.answers import Decision
from billhook.core.errors import BillhookError, UsageError
from billhook.core.text import suggestion, visible
from billhook.effects.rules import EDITS, READS, covers
from billhook.session.calls import Question, Ruling

_LONGEST: Final = 4000
"""Characters of one text. Of a longer text both ends are shown, with the number of characters between them."""
_WORDS: Final[dict[str, Literal["once", "session", "no"]]] = {
    **dict.fromkeys(("y", "yes", "once", "1"), "once"),
    **dict.fromkeys(("s", "session", "2"), "session"),
    **dict.fromkeys(("n", "no", "3", ""), "no"),
}


def question_text(question: Question) -> str:
    """The call, the reason of the question, and the possible answers. Text of the model is escaped, and after a bar."""
    lines = [f"Allow this {visible(question.tool_name)} call?"]
    for label, text in _facts(question.tool_name, question.tool_input):
        lines += [f"  {label}:"] if label else []
        lines += [f"  | {line}" for line in visible(_shortened(text)).split("\n")]
    if question.reason:
        lines.append(f"why: {_one_line(question.reason)}")
    lines.append("[y] yes, once")
    lines += [f"[s] yes, for this session: {_covered(question)}"] if question.rememberable else []
    lines.append("[n] no (also Enter and Ctrl-D)")
    return "\n".join(lines)


def expected(question: Question) -> str:
    """The message for an invalid answer."""
    return f"invalid answer; type {'y, s or n' if question.rememberable else 'y or n'} (Enter: no)"


def _covered(question: Question) -> str:
    """What an answer for the session covers, as in `AgentPermissions.remember`."""
    if tools.is_shell(question.tool_name):
        return "exactly this command, in this folder"
    if tools.paths_of(question.tool_name, question.tool_input):
        return "this tool anywhere in the workspace; outside of it, only this file"
    return "every use of this tool"


def read_answer(line: str, *, rememberable: bool = True) -> Literal["once", "session", "no"] | None:
    """The meaning of an answer; None: it is invalid, ask again. An empty answer means no."""
    answer = _WORDS.get(line.strip().lower())
    return None if answer == "session" and not rememberable else answer


def _facts(tool_name: str, tool_input: dict[str, Any]) -> list[tuple[str, str]]:
    """The fields of the call with their labels; the command of a shell has no label."""
    command = tools.command_of(tool_name, tool_input)
    facts = [("", command)] if command is not None else []
    rest = {name: value for name, value in tool_input.items() if command is None or name != "command"}
    for name, value in rest.items():
        facts.append((_one_line(name), value if isinstance(value, str) else strictjson.compact(value)))
    return facts or [("", "(no input)")]


def _shortened(text: str) -> str:
    if len(text) <= _LONGEST:
        return text
    half = _LONGEST // 2
    return f"{text[:half]}\n... {len(text) - 2 * half:,} characters not shown ...\n{text[-half:]}"


def _one_line(text: str) -> str:
    return " ".join(visible(_shortened(text)).split())


# Permissions:

READING: Final = READS | {"Task", "SendMessage", "TaskOutput", "TodoWrite"}
"""Tools that change nothing by themselves. The calls of a subagent are checked one by one."""

_NO_MATTER: Final = frozenset({"command", "description", "timeout", "run_in_background"})
"""Fields of a shell call that don't change the effect of the command; the command itself comes first."""


class AgentPermissions:
    """The rules of one agent and its subagents, and what the user allowed for the session."""

    def __init__(self, rules: Rules, inside: Callable[[str], bool]) -> None:
        """`inside`: whether an absolute path is in the workspace, with links followed. Raises BillhookError if a rule
        that may deny something can't be read: `rules.fatal`."""
        for found in rules.fatal[:1]:
            raise BillhookError(
                f"permission rules can't be read, and one of them may deny something: {found.message}",
                place=found.place,
                hint=found.hint or "fix the file; `billhook check` shows the problem",
            )
        self._rules, self._inside = rules, inside
        self._remembered: dict[tuple[str, ...], frozenset[PlacedRule]] = {}
        """What the user allowed for the session, and the ask rules at that time."""

    def starting_mode(self, asked: str | None = None) -> str:
        """The initial mode: the user's choice, otherwise that of the files. Raises UsageError if it is not allowed."""
        mode = asked or self._rules.mode
        if mode not in MODES:
            raise UsageError(f"no permission mode `{mode}`", hint=suggestion(mode, MODES))
        if mode == "bypassPermissions" and self._rules.bypass_disabled:
            if asked:
                why = "a settings file contains `disableBypassPermissionsMode`"
                raise UsageError(f"the permission mode `{mode}` is not allowed: {why}", hint="choose another mode")
            return "default"
        return mode

    def judge(self, tool_name: str, tool_input: dict[str, Any], *, cwd: str, mode: str, hook: Decision) -> Ruling:
        """The ruling for a call; `hook` is the decision of the hooks."""
        ruling = self._judged(_PermissionCall.of(tool_name, tool_input, cwd), mode, hook)
        if mode == "dontAsk" and ruling.decision is Decision.ASK:
            return Ruling(Decision.DENY, f"{ruling.reason} (the mode dontAsk denies instead of asking)", "mode dontAsk")
        return ruling

    def remember(self, tool_name: str, tool_input: dict[str, Any], *, cwd: str) -> None:
        """Allow it for the session: this command line, this tool in the workspace, or this file outside of it."""
        call = _PermissionCall.of(tool_name, tool_input, cwd)
        key = self._key(call)
        if key is not None:
            known = frozenset(self._struck(self._rules.ask, call))
            self._remembered[key] = self._remembered.get(key, frozenset()) | known

    def _judged(self, call: "_PermissionCall", mode: str, hook: Decision) -> Ruling:
        for denied in self._struck(self._rules.deny, call):
            return Ruling(Decision.DENY, f"denied by {denied.shown}", _by(denied))
        if mode == "plan" and call.name not in READING:
            return Ruling(Decision.DENY, f"the mode plan allows no changes, and {call.name} may make some", "mode plan")
        return self._must_ask(call, hook) or self._may_run(call, mode, hook) or self._unruled(call)

    def _must_ask(self, call: "_PermissionCall", hook: Decision) -> Ruling | None:
        """An ask rule that the user's answer for the session does not cover, or a hook that asks."""
        key = self._key(call)
        answered = self._remembered.get(key, frozenset()) if key is not None else frozenset()
        open_rules = [one for one in self._struck(self._rules.ask, call) if one not in answered]
        if hook is Decision.ASK:
            reason = f"{call.name} needs permission: a hook asks"
            return Ruling(Decision.ASK, reason, "hook", firm=True, rememberable=False)
        for one in open_rules:
            reason = f"{call.name} needs permission: {one.shown}"
            return Ruling(Decision.ASK, reason, _by(one), firm=True, rememberable=key is not None)
        return None

    def _may_run(self, call: "_PermissionCall", mode: str, hook: Decision) -> Ruling | None:
        if hook is Decision.ALLOW:
            return Ruling(Decision.ALLOW, by="hook")
        if mode == "bypassPermissions" and not self._rules.bypass_disabled:
            return Ruling(Decision.ALLOW, by="mode bypassPermissions")
        if self._key(call) in self._remembered:
            return Ruling(Decision.ALLOW, by="the user, for this session")
        if by := self._allowed(call):
            return Ruling(Decision.ALLOW, by=by)
        if call.name in READING and self._at_home(call):
            return Ruling(Decision.ALLOW, by="it only reads")
        if mode == "acceptEdits" and call.name in EDITS and self._at_home(call) and _is_plain(call.paths):
            return Ruling(Decision.ALLOW, by="mode acceptEdits")
        return None

    def _unruled(self, call: "_PermissionCall") -> Ruling:
        why = "no rule allows it"
        if call.paths and not self._at_home(call):
            why += ", and the path is outside the workspace"
        return Ruling(Decision.ASK, f"{call.name} needs permission: {why}", rememberable=self._key(call) is not None)

    def _struck(self, rules: Sequence[PlacedRule], call: "_PermissionCall") -> Iterator[PlacedRule]:
        """The matching rules. A relative path is tried from the project and from the agent's folder, so `cd` evades no
        rule."""
        for one in rules:
            if one.rule.strikes(call.name, call.given, call.cwd) or (
                one.folder not in ("", call.cwd) and one.rule.strikes(call.name, call.input, one.folder)
            ):
                yield one

    def _allowed(self, call: "_PermissionCall") -> str:
        """The rules that allow the call: one alone, or several together; empty if it is not covered."""
        for folder, group in self._allow_groups(call):
            if covers([one.rule for one in group], call.name, call.input, folder):
                alone = (one for one in group if one.rule.covers(call.name, call.input, folder))
                return next((_by(one) for one in alone), "permissions.allow")
        return ""

    def _allow_groups(self, call: "_PermissionCall") -> Iterable[tuple[str, list[PlacedRule]]]:
        """The allow rules that may cover a call together, by the base of their relative paths."""
        if tools.is_shell(call.name):
            return [(call.cwd, list(self._rules.allow))]
        groups: dict[str, list[PlacedRule]] = {}
        for one in self._rules.allow:
            groups.setdefault(one.folder or call.cwd, []).append(one)
        return groups.items()

    def _at_home(self, call: "_PermissionCall") -> bool:
        """Whether all its paths are in the workspace, as far as they are known."""
        return not call.odd and all(path.startswith("/") and self._inside(path) for path in call.paths)

    def _key(self, call: "_PermissionCall") -> tuple[str, ...] | None:
        """What one answer for the session covers; None: only the call itself."""
        if tools.is_shell(call.name):
            command = call.input.get("command")
            rest = {name: value for name, value in call.input.items() if name not in _NO_MATTER}
            return (call.name, command, call.cwd, strictjson.compact(rest)) if isinstance(command, str) else None
        if call.odd:
            return None
        if not call.paths:
            return (call.name,)
        if self._at_home(call):
            return (call.name, "inside the workspace")
        try:
            return (call.name, *(os.path.realpath(os.path.expanduser(path)) for path in call.paths))
        except (OSError, ValueError):  # not a valid path
            return None


def _is_plain(paths: tuple[str, ...]) -> bool:
    """Whether there are files, and none is git's: a hook or a setting there is code that runs later."""
    try:
        return bool(paths) and not any(".git" in os.path.realpath(path).split(os.sep) for path in paths)
    except (OSError, ValueError):  # not a valid path
        return False


def _by(one: PlacedRule) -> str:
    return f"permissions.{one.kind} `{one.text or one.rule}`"


class _PermissionCall(msgspec.Struct, frozen=True):
    name: str
    given: dict[str, Any]
    input: dict[str, Any]  # with absolute paths, from the agent's folder
    cwd: str
    paths: tuple[str, ...]
    odd: bool  # a path has the wrong type, or can't be resolved

    @classmethod
    def of(cls, tool_name: str, tool_input: dict[str, Any], cwd: str) -> "_PermissionCall":
        name = tools.canonical(tool_name)
        paths = tuple(_absolute(path, cwd) for path in tools.paths_of(name, tool_input))
        placed = dict(tool_input)
        if name in EDITS or name in READS:  # for other tools the rules see the input unchanged
            for key in {"file_path", "path", "notebook_path"} & tool_input.keys():
                value = tool_input[key]
                placed[key] = _absolute(value, cwd) if isinstance(value, str) else value
        if not paths and name in _SEARCHES:
            paths, placed["path"] = (cwd,), cwd
        pattern = tool_input.get(_SEARCHES.get(name, ""))  # the pattern of a search may leave the folder
        away = isinstance(pattern, str) and (".." in pattern or "{" in pattern or pattern.startswith(("/", "~")))
        odd = tools.odd_paths(tool_input) or away
        return cls(name, tool_input, placed, cwd, paths, odd)


_SEARCHES: Final = {"Glob": "pattern", "Grep": "glob", "LS": ""}
"""Tools that search the agent's folder by default, and the field that may lead them elsewhere."""


def _absolute(path: str, cwd: str) -> str:
    return path if not path or path.startswith("~") else os.path.join(cwd, path)
