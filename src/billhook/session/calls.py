"""One tool call, from PreToolUse to the result that the model gets.

The order of the result's text is that of seed 000's sample: the tool's output, a blank line, feedback of the hooks
before it, a blank line, feedback of the hooks after it. Whether a hook's feedback is part of the result depends on its
dialect; the context of other hooks is sent to the model separately.
"""

import asyncio
import copy
import inspect
import os
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import msgspec
from msgspec.structs import replace

from billhook.core import strictjson, tools
from billhook.core.answers import UNSET, Decision, Outcome, Verdict
from billhook.core.dialect_traits import meanings
from billhook.core.errors import RuleError, StrictJSONError, UsageError
from billhook.core.events import PermissionDenied, PermissionRequest, PostToolUse, PostToolUseFailure, PreToolUse
from billhook.effects.rules import Rule, covers

if TYPE_CHECKING:
    from billhook.session.session import Session


class Result(NamedTuple):
    """What the model gets for a tool call."""

    text: str
    is_error: bool


def merge_feedback(output: str, before: Verdict | None, after: Verdict | None, *, is_error: bool = False) -> Result:
    """The output with the feedback of the hooks before and after it. Without feedback it is unchanged."""
    sections: list[str] = []
    denied = False
    for verdict in (before, after):
        if verdict is None:
            continue
        outcomes = [outcome for outcome in verdict.outcomes if meanings(outcome.dialect).feedback is not None]
        denies = verdict is after and any(outcome.answer.decision is Decision.DENY for outcome in outcomes)
        denied = denied or denies
        sections += _sections(outcomes, " (denied)" if denies else "")
    if not sections:
        return Result(output, is_error or denied)
    between = "" if not output.strip() else "\n" if output.endswith("\n") else "\n\n"
    return Result((between and output) + between + "\n\n".join(sections), is_error or denied)


def denied_result(verdict: Verdict) -> Result:
    """The result of a denied call, in the dialect of the hook that denied it."""
    for outcome in verdict.outcomes:
        if outcome.answer.objects:
            reason = verdict.reason or f"denied by hook `{outcome.hook}`"
            form = meanings(outcome.dialect).denied
            label = form.partition("{reason}")[0].rstrip(": ")
            # A reason that already begins with the label gets no second one.
            return Result(reason if label and reason.startswith(label) else form.format(reason=reason), True)
    return Result(verdict.reason or "denied", True)


def _sections(outcomes: Sequence[Outcome], mark: str) -> list[str]:
    """One section per label: the feedback of all hooks of that dialect, line by line."""
    by_label: dict[str, list[str]] = {}
    for outcome in outcomes:
        answer = outcome.answer
        texts = [answer.context, answer.reason if answer.decision is Decision.DENY else ""]
        by_label.setdefault(meanings(outcome.dialect).feedback or "", []).extend(text for text in texts if text)
    return [(f"{label}{mark}:\n" if label else "") + "\n".join(texts) for label, texts in by_label.items() if texts]


# Time limits of a session.

HURRY: Final = 5.0  # seconds for the hooks after an interrupt, and at the session's end


async def awaited(value: Any) -> Any:
    """The value, awaited if necessary: callers may pass sync or async functions."""
    return await value if inspect.isawaitable(value) else value


# Permissions beside the hooks:

MODES: Final = ("default", "acceptEdits", "plan", "dontAsk", "bypassPermissions", "auto")


class Ruling(msgspec.Struct, frozen=True):
    """The permissions' decision about a call: ALLOW, ASK or DENY."""

    decision: Decision
    reason: str = ""
    by: str = ""  # what decided: a rule, a mode
    firm: bool = False  # it asks, and only the user may allow it: no hook can answer instead
    rememberable: bool = True  # the user may allow it for the whole session


class Permissions(Protocol):
    """The rules beside the hooks."""

    def judge(self, tool_name: str, tool_input: dict[str, Any], *, cwd: str, mode: str, hook: Decision) -> Ruling:
        """Decide about a call, with its input as rewritten; `hook` is the decision of the hooks: NONE, ALLOW or ASK."""
        ...

    def remember(self, tool_name: str, tool_input: dict[str, Any], *, cwd: str) -> None:
        """The user allowed it for the whole session."""
        ...


class Question(msgspec.Struct, frozen=True):
    tool_name: str
    tool_input: dict[str, Any]
    reason: str = ""
    by: str = ""
    rememberable: bool = True


Reply = bool | str
Ask = Callable[[Question], Reply | Awaitable[Reply]]
"""Gets the user's answer: True or "once", "session" (and don't ask again), False or "no"."""


class HookPermissions:
    """For a loop without rules: only hooks decide, and a call without an objection runs."""

    def judge(self, tool_name: str, tool_input: dict[str, Any], *, cwd: str, mode: str, hook: Decision) -> Ruling:
        if hook is Decision.ASK:
            return Ruling(Decision.ASK, firm=True, rememberable=False)
        return Ruling(Decision.ALLOW)

    def remember(self, tool_name: str, tool_input: dict[str, Any], *, cwd: str) -> None:
        pass


# Rules that PermissionRequest hooks add for a session (`updatedPermissions`), and the suggestions that they get.

_PATTERN: Final = frozenset("*?[]{}()\\:!\n")  # characters that would make a rule match other calls


class GrantedRules:
    """The rules that hooks added, for this session and its subagents only: no file is written."""

    def __init__(self) -> None:
        self._rules: dict[str, list[Rule]] = {"allow": [], "ask": [], "deny": []}

    def update(self, updates: Any) -> str:
        """Apply `updatedPermissions`, all or nothing: the new mode, or an empty string. Raises RuleError."""
        rules = {behavior: list(some) for behavior, some in self._rules.items()}
        mode = ""
        for one in updates if isinstance(updates, list) else [updates]:
            if not isinstance(one, Mapping):
                raise RuleError("an entry of `updatedPermissions` is not an object")
            if one.get("type") == "setMode":
                mode = str(one.get("mode"))
                if mode not in MODES:
                    raise RuleError(f"`updatedPermissions` sets an unknown mode `{mode}`")
            else:
                _change(rules, one)
        self._rules = rules
        return mode

    def applied(self, ruling: Ruling, name: str, tool_input: dict[str, Any], cwd: str) -> Ruling:
        """A ruling combined with these rules. An allow rule never overrides other rules, or a hook that asks."""
        for rule in self._rules["deny"]:
            if rule.strikes(name, tool_input, cwd):
                return Ruling(Decision.DENY, f"denied by `{rule}`, a rule that a hook added", _BY)
        for rule in self._rules["ask"]:
            if ruling.decision is Decision.ALLOW and rule.strikes(name, tool_input, cwd):
                return Ruling(
                    Decision.ASK, f"{name} needs permission: `{rule}`, a rule that a hook added", _BY, firm=True
                )
        may_allow = self._rules["allow"] and ruling.decision is Decision.ASK and not ruling.firm
        if may_allow and covers(self._rules["allow"], name, tool_input, cwd):
            return Ruling(Decision.ALLOW, by=_BY)
        return ruling


_BY: Final = "a hook, for this session"


def suggestions(name: str, tool_input: dict[str, Any], cwd: str) -> list[dict[str, Any]]:
    """The suggestion that allows exactly this call without a question; empty if no rule can express that."""
    command, path = tools.command_of(name, tool_input), tools.path_of(name, tool_input)
    content = command if command is not None else path and "/" + os.path.join(cwd, path)
    if content is not None and (not content.strip() or _PATTERN & set(content)):
        return []
    rule = {"toolName": name, **({"ruleContent": content} if content else {})}
    return [{"type": "addRules", "rules": [rule], "behavior": "allow", "destination": "session"}]


def _change(rules: dict[str, list[Rule]], one: Mapping[str, Any]) -> None:
    kind, behavior, listed = one.get("type"), one.get("behavior"), one.get("rules")
    if kind not in ("addRules", "replaceRules", "removeRules") or behavior not in rules or not isinstance(listed, list):
        raise RuleError(f"`updatedPermissions` of type `{kind}` is not supported here")
    meant = [_rule(each) for each in listed]
    kept = [] if kind == "replaceRules" else [rule for rule in rules[str(behavior)] if rule not in meant]
    rules[str(behavior)] = kept if kind == "removeRules" else kept + meant


def _rule(given: Any) -> Rule:
    if not isinstance(given, Mapping) or not isinstance(given.get("toolName"), str):
        raise RuleError("a rule of `updatedPermissions` has no tool")
    content = given.get("ruleContent")
    return Rule.parse(f"{given['toolName']}({content})" if content else given["toolName"])


# One tool call, from PreToolUse to the result that the model gets:


class ToolResult(msgspec.Struct, frozen=True, tag_field="type", tag="tool_result"):
    """What the model gets for a tool call: always exactly one for each use."""

    tool_use_id: str
    content: str
    is_error: bool = False


class Call(msgspec.Struct, frozen=True):
    """A tool call after the hooks. Run it with `tool_input`, unless it already has a `result`."""

    tool_use_id: str
    tool_name: str
    tool_input: dict[str, Any]  # as rewritten
    before: Verdict
    result: ToolResult | None = None  # if set, it must not run, and the model gets this
    began: float = 0.0
    sent: tuple[Any, str] | None = None
    """The input as the model wrote it, and its text; None if it was rewritten, or is unknown."""

    @property
    def fields(self) -> dict[str, Any]:
        """The common fields of a call's events."""
        return {"tool_name": self.tool_name, "tool_input": self.tool_input, "tool_use_id": self.tool_use_id}


SentInput = str | dict[str, Any]  # a tool's input as the model wrote it: its JSON text, or the decoded object

Execute = Callable[[dict[str, Any]], Any]
"""Runs a tool with its input, and may be async: returns a string or a JSON value, and raises if the tool failed."""

INTERRUPTS = (asyncio.CancelledError, KeyboardInterrupt, SystemExit)  # these end more than the tool


class ToolCalls:
    """The tool calls of one session. Lives as long as the session."""

    def __init__(self, session: "Session") -> None:
        self.session = session
        self._used: set[str] = set()
        self._open: set[str] = set()

    # -- before the tool

    async def before(
        self, name: str, tool_input: dict[str, Any], tool_use_id: str, sent: SentInput | None = None
    ) -> Call:
        if self.session.has_ended:
            raise UsageError("the session has ended", hint="call tools inside `async with Session(...)`")
        use = tool_use_id or f"toolu_{uuid.uuid4().hex[:24]}"
        if use in self._used:
            raise UsageError(f"the tool use `{use}` was already checked", hint="use a new id for each tool call")
        self._used.add(use)
        if self.session.stopped is not None:  # after a stop no more tools run, and no hooks for them
            event = self.session.event(PreToolUse, tool_name=name, tool_input=tool_input, tool_use_id=use)
            return self._refused(Call(use, name, tool_input, Verdict(event)), f"not run: {self.session.stopped}")
        call = await self._judged(use, name, tool_input, _as_sent(sent))
        if call.result is None:
            call = await self._permitted(call)
        if call.result is None and self.session.stopped is not None:  # meanwhile, by the hooks of another call
            call = self._refused(call, f"not run: {self.session.stopped}")
        if call.result is None:
            self._open.add(use)
        return replace(call, began=time.monotonic())

    async def _judged(
        self, use: str, name: str, tool_input: dict[str, Any], sent: tuple[Any, str] | None = None
    ) -> Call:
        """PreToolUse. A deny or a defer ends it here."""
        # Hooks get a copy: changes that they make to it must not reach the tool.
        shown = copied(tool_input)
        verdict = await self.session.ask_hooks(
            PreToolUse, tool_name=name, tool_input=shown, tool_use_id=use, sent_input=sent
        )
        final = tool_input if verdict.tool_input is None else verdict.tool_input
        call = Call(use, name, final, verdict, sent=sent if final == tool_input else None)
        if verdict.denied:
            return self._refused(call, denied_result(verdict).text)
        if verdict.decision is Decision.DEFER:
            self.session.stop_run(verdict.reason or f"a hook deferred the call of {name}")
            return self._refused(call, verdict.reason or "deferred: the call was left pending and did not run")
        return call

    def _refused(self, call: Call, why: str) -> Call:
        self.session.keep_context(call.before.outcomes)
        return replace(call, result=ToolResult(call.tool_use_id, why, True))

    # -- permission

    async def _permitted(self, call: Call) -> Call:
        try:
            ruling = self._ruling(call)
            match ruling.decision:
                case Decision.ALLOW:
                    return call
                case Decision.ASK:
                    return await self._request_permission(call, ruling)
                case _:
                    return await self._denied(call, ruling.reason or f"{call.tool_name} is not permitted")
        except Exception as error:  # broken rules deny
            return self._refused(call, f"the permissions failed: {shown(error)}")

    def _ruling(self, call: Call) -> Ruling:
        session, said = self.session, call.before.decision
        name = tools.canonical(call.tool_name)
        ruling = session.permissions.judge(
            name, call.tool_input, cwd=session.cwd, mode=session.permission_mode, hook=said
        )
        ruling = session.granted.applied(ruling, name, call.tool_input, session.cwd)
        if said is Decision.ASK and ruling.decision is Decision.ASK:
            by = ", ".join(f"hook `{one.hook}`" for one in call.before.outcomes if one.answer.decision is Decision.ASK)
            reason = call.before.reason or ruling.reason
            return replace(ruling, reason=reason, by=by or ruling.by, firm=True, rememberable=False)
        return ruling

    async def _request_permission(self, call: Call, ruling: Ruling) -> Call:
        """PermissionRequest hooks may answer instead of the user; otherwise the user answers."""
        session = self.session
        name = tools.canonical(call.tool_name)
        offered = suggestions(name, call.tool_input, session.cwd) if ruling.rememberable else []
        request = await session.fire(
            PermissionRequest,
            tool_name=call.tool_name,
            tool_input=call.tool_input,
            permission_suggestions=offered or None,
        )
        if request.denied:
            return self._refused(call, denied_result(request).text)
        if session.stopped is not None:
            return self._refused(call, session.stopped)
        if request.decision is Decision.ALLOW and not ruling.firm:
            updates = (request.extras or {}).get("updatedPermissions")
            try:
                mode = "" if updates is None else session.granted.update(updates)
                session.permission_mode = mode or session.permission_mode
            except RuleError as error:  # the rule may have been meant to deny something
                return await self._denied(call, f"a hook's `updatedPermissions` can't be used: {error.message}")
            rewritten = request.tool_input
            return call if rewritten in (None, call.tool_input) else await self._judged_again(call, rewritten)
        if session.ask is None:
            why = ruling.reason or f"{call.tool_name} needs permission"
            return await self._denied(call, f"{why} (no user can be asked) {call.before.how_to_allow}".rstrip())
        await session.notify(f"{call.tool_name} needs your permission", type="permission_prompt", title="Permission")
        if session.stopped is not None:
            return self._refused(call, session.stopped)
        return await self._answered(call, ruling)

    async def _answered(self, call: Call, ruling: Ruling) -> Call:
        session = self.session
        assert session.ask is not None
        question = Question(call.tool_name, call.tool_input, ruling.reason, ruling.by, ruling.rememberable)
        try:
            answer = await awaited(session.ask(question))
        except Exception as error:
            return await self._denied(call, f"the user could not be asked: {shown(error)}")
        if answer is True or answer in ("once", "yes", "session"):
            if answer == "session" and ruling.rememberable:
                session.permissions.remember(tools.canonical(call.tool_name), call.tool_input, cwd=session.cwd)
            return call
        why = f" ({ruling.reason})" if ruling.reason else ""
        return self._refused(call, f"The user was asked and declined{why}.")

    async def _judged_again(self, call: Call, rewritten: dict[str, Any]) -> Call:
        """A hook allowed a rewritten input: hooks and rules check that one, too."""
        again = await self._judged(call.tool_use_id, call.tool_name, rewritten)
        if again.result is not None:
            return again
        if again.tool_input != rewritten:
            return await self._denied(again, "a hook rewrote an input again that was already allowed as rewritten")
        ruling = self._ruling(again)
        if ruling.decision is Decision.DENY or (ruling.decision is Decision.ASK and ruling.firm):
            return await self._denied(again, ruling.reason or f"{call.tool_name} is not permitted as rewritten")
        return again

    async def _denied(self, call: Call, reason: str) -> Call:
        verdict = await self.session.fire(PermissionDenied, **call.fields, reason=reason)
        retry = (verdict.extras or {}).get("retry") is True
        return self._refused(call, f"{reason}\nA hook allows you to try again." if retry else reason)

    # -- the tool

    async def run(self, call: Call, execute: Execute) -> ToolResult:
        """Run an allowed call. An interrupt is raised again after its hooks have run."""
        cancelled = _cancellations()
        try:
            output = await awaited(execute(copied(call.tool_input)))
        except INTERRUPTS as error:
            if isinstance(error, asyncio.CancelledError) and _cancellations() == cancelled:
                return await self.after(call, None, shown(error), False)  # the tool cancelled something itself
            await self.after(call, None, interruption(error), True)
            raise
        except Exception as error:
            return await self.after(call, None, shown(error), False)
        return await self.after(call, output, None, False)

    # -- after the tool

    async def after(self, call: Call, output: Any, error: str | None, is_interrupt: bool) -> ToolResult:
        if call.tool_use_id not in self._open:
            raise UsageError(
                f"the tool use `{call.tool_use_id}` already has its result, or must not run",
                hint="call `after_tool` once for each `before_tool` without a result",
            )
        self._open.discard(call.tool_use_id)
        took = round((time.monotonic() - call.began) * 1e3, 3)
        about = {**call.fields, "sent_input": call.sent, "duration_ms": took}
        if error is not None:
            said = str(error)
            about |= {"deadline": HURRY if is_interrupt else None, "error": said, "is_interrupt": is_interrupt}
            verdict = await self.session.ask_hooks(PostToolUseFailure, **about)
            return self._merged(call, verdict, said, is_error=True)
        verdict = await self.session.ask_hooks(PostToolUse, tool_response=output, **about)
        shown = output if verdict.tool_output is UNSET else verdict.tool_output
        return self._merged(call, verdict, text_of(shown), is_error=False)

    def _merged(self, call: Call, after: Verdict, text: str, *, is_error: bool) -> ToolResult:
        merged = merge_feedback(text, call.before, after, is_error=is_error)
        content, is_error = merged.text, merged.is_error
        for outcome in _alone(after.outcomes):
            if outcome.answer.decision is Decision.DENY:  # after the action: the model gets the reason
                content, is_error = "\n\n".join(filter(str.strip, (content, outcome.answer.reason))), True
        self.session.keep_context(_alone((*call.before.outcomes, *after.outcomes)))
        return ToolResult(call.tool_use_id, content, is_error)


def _as_sent(sent: SentInput | None) -> tuple[Any, str] | None:
    """The input as the model wrote it, and its text. Raises UsageError if it is not a JSON object."""
    if not isinstance(sent, str):
        return None if sent is None else (copied(sent), "")
    hint = "pass the input's text as the model wrote it"
    try:
        value = strictjson.loads(sent, max_bytes=None)
    except StrictJSONError as error:
        raise UsageError(f"`sent` is not JSON: {error.message}", hint=hint) from None
    if not isinstance(value, dict):
        raise UsageError("`sent` is not a JSON object", hint=hint)
    return value, sent


def copied(tool_input: dict[str, Any]) -> dict[str, Any]:
    """A copy of an input for code that may change it."""
    return copy.deepcopy(tool_input)


def interruption(error: BaseException) -> str:
    """The error text of an interrupt, for hooks."""
    return f"interrupted: {shown(error)}" if isinstance(error, SystemExit) else "interrupted"


def shown(error: BaseException) -> str:
    """An error as text; also if its `str` raises."""
    try:
        return str(error) or type(error).__name__
    except Exception:
        return type(error).__name__


def _cancellations() -> int:
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


def text_of(output: Any) -> str:
    """An output as text for the model."""
    if isinstance(output, str):
        return output
    for write in (strictjson.compact, str):
        try:
            return "" if output is None else write(output)
        except Exception:  # it contains itself, is too deep, or its `str` raises
            continue
    return f"[this {type(output).__name__} can't be shown]"


def _alone(outcomes: tuple[Outcome, ...]) -> tuple[Outcome, ...]:
    """The outcomes whose feedback is not part of the tool's result, by their dialect."""
    return tuple(outcome for outcome in outcomes if meanings(outcome.dialect).feedback is None)
