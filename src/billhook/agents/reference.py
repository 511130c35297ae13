"""The reference's protocol: event JSON on stdin, JSON or an exit code back. Also `spec`, its in-process variant."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from billhook.agents import child
from billhook.core import dialect_traits as rows
from billhook.core import events, strictjson, tools
from billhook.core.answers import NOTHING, UNSET, Answer, Decision, Exit, Reply, Status
from billhook.core.dialect_traits import Meanings
from billhook.core.errors import ContradictionError, StrictJSONError
from billhook.core.events import Event
from billhook.core.hook import Context
from billhook.core.lazy import lazy_module

if TYPE_CHECKING:
    from billhook.agents import downgrade
    from billhook.agents import stdout as printing
    from billhook.agents.stdout import StdoutContent
    from billhook.core import answer_json, answer_schema
else:
    answer_json = lazy_module("billhook.core.answer_json")
    answer_schema = lazy_module("billhook.core.answer_schema")
    downgrade = lazy_module("billhook.agents.downgrade")
    printing = lazy_module("billhook.agents.stdout")

_SILENT = child.ExitResult(child.exits(0), ())  # an empty answer, on every event


class JsonDialect(msgspec.Struct, frozen=True):
    """`claude` and `spec`: the whole event on stdin, the answer as JSON on stdout."""

    meanings: Meanings
    exit_2_blocks: bool = True
    text_is_fine: bool = True  # plain text on stdout is not a failure (and is context on some events)

    @property
    def event_names(self) -> Mapping[str, str]:
        """The events of the reference; both names are equal."""
        return {name: name for name in events.EVENTS}

    def write_call(self, ctx: Context) -> child.ChildCall:
        return child.ChildCall(child.event_line(ctx.event, self.meanings), child.environment(ctx, self.meanings))

    def read_exit(self, event: Event, exit: Exit) -> Reply:  # noqa: A002
        return child.evidence(self._read(event, exit), exit)

    def read_response(self, event: Event, status: int, body: bytes) -> Reply:
        """How an HTTP endpoint answered: JSON as on stdout, but a status alone never blocks and text is a failure."""
        strict = replace(self, exit_2_blocks=False, text_is_fine=False)
        fine = 200 <= status < 300
        reply = strict._read(event, Exit(code=0 if fine else 1, stdout=body))
        if reply.status is Status.OK:
            return reply
        return replace(reply, error=reply.error.replace("stdout", "the body", 1) if fine else f"HTTP status {status}")

    def read_call(self, stdin: bytes, env: Mapping[str, str]) -> Event:
        event = events.decode_all(stdin)
        why = tools.contradictory_event(event.payload)
        if why:
            raise ContradictionError(why)
        return event

    def write_exit(self, event: Event, answer: Answer) -> child.ExitResult:
        if answer == NOTHING:
            return _SILENT
        plain = _plain(answer)
        if plain is None:
            return self._write(event, answer)
        # Without rewrites and extras, the output depends only on the event's name.
        said = (self.meanings.name, event.hook_event_name, *plain)
        known = _written.get(said)
        if known is None:
            known = self._write(event, answer)
            if len(_written) >= 512:
                _written.clear()
            _written[said] = known
        return known

    def _write(self, event: Event, answer: Answer) -> child.ExitResult:
        if answer.stop and answer.decision is not Decision.DENY and event.hook_event_name in _WAITING:
            # `continue: false` ends the run after the call that waits for the answer, so it needs a deny, too.
            reason = answer.stop_reason or answer.reason or "a hook stopped the run"
            firm = self._write(event, replace(answer, decision=Decision.DENY, reason=reason))
            return child.ExitResult(firm.exit, ("a stop became a deny and a stop", *firm.lost))
        shaped, change = answer, ""
        if self.exit_2_blocks and answer.updated_output is not UNSET:
            shaped, change = downgrade.shape_output(event, answer)
        output, lost = answer_json.write_output(event, shaped, self.meanings)
        if change:
            lost.append(change)
        stdout = strictjson.dumps(output) + "\n" if output else ""
        return child.checked_result(self, event, answer, child.exits(0, stdout), lost)

    def _read(self, event: Event, exit: Exit) -> Reply:  # noqa: A002
        if exit.start_error:
            return self._failed(event, exit)
        out = printing.printed(exit)
        reply = Reply() if out.output is None else answer_json.read_output(event, out.output, self.meanings)
        readable = out.output is not None and reply.status is Status.OK
        objection = printing.objection_in(exit, event, self.meanings) if out.output is None else None
        if exit.code == 2 and self.exit_2_blocks:
            return self._block(event, exit, out, reply if readable else objection or Reply())
        if objection is not None:
            return objection
        if readable and reply.answer.objects:
            return reply  # a complete deny counts with any exit code
        if child.cut(exit) and exit.code is not None:
            return child.TOO_LONG
        if readable and self._json_counts(event, exit):
            return reply  # JSON takes precedence
        if exit.code == 0:
            if out.broken or out.output is not None:
                return Reply(status=Status.FAILED, error=out.broken or reply.error)
            return self._text(event, out.text)
        return self._failed(event, exit, out.broken or reply.error)

    def _json_counts(self, event: Event, exit: Exit) -> bool:  # noqa: A002
        """Valid JSON counts with any exit code, but any code other than 0 fails WorktreeCreate."""
        if exit.code == 0:
            return True
        return self.exit_2_blocks and exit.code is not None and event.hook_event_name != "WorktreeCreate"

    def _block(self, event: Event, exit: Exit, out: "StdoutContent", reply: Reply) -> Reply:  # noqa: A002
        """Exit 2 always blocks. The JSON's reason is used if it blocks, too, and its other fields."""
        said = reply.answer
        if said.decision is Decision.DENY or (said != NOTHING and _blocks_with_reason(event, out.output)):
            return reply
        told = exit.stderr_text.strip() or out.plain
        block = answer_json.blocked(event, told, self.meanings)
        if block.status is not Status.OK and said.objects:
            return reply
        made = block.answer
        others = {
            "context": self.meanings.join.join(text for text in (said.context, made.context) if text),
            "message": "\n".join(text for text in (said.message, made.message) if text),
            "stop": said.stop or made.stop,
            "stop_reason": said.stop_reason or made.stop_reason,
            "updated_output": said.updated_output,
            "extras": {} if event.hook_event_name == "MessageDisplay" else said.extras,  # the original is shown
            "quiet": said.quiet,
        }
        return replace(
            block,
            answer=replace(made, **others),
            error=block.error or child.launch_note(exit),
            lost=(*block.lost, *reply.lost),
        )

    def _text(self, event: Event, text: str) -> Reply:
        if not text:
            return Reply()
        if not self.text_is_fine:
            return Reply(status=Status.FAILED, error=f"stdout is not JSON: {strictjson.preview(text)}")
        if event.hook_event_name == "WorktreeCreate":
            path = text.splitlines()[-1].strip()
            return Reply(answer=Answer(extras={"worktreePath": path}))
        return Reply(answer=Answer(context=text) if event.text_is_context else NOTHING)

    def _failed(self, event: Event, exit: Exit, answer: str = "") -> Reply:  # noqa: A002
        reply = child.failed(exit, answer)
        if self.exit_2_blocks and (event.hook_event_name, reply.status) in _NEVER_OPEN:
            return replace(reply, on_failure="deny")
        return reply


CLAUDE = JsonDialect(rows.CLAUDE)
SPEC = JsonDialect(rows.SPEC, exit_2_blocks=False, text_is_fine=False)
DIALECTS = {"claude": CLAUDE, "spec": SPEC}

_written: dict[tuple[object, ...], child.ExitResult] = {}  # A cache of outputs: most answers are the same few.


def _plain(answer: Answer) -> tuple[object, ...] | None:
    """The key of an answer in the cache, if it is short, without objects and not in the background."""
    if answer.updated_input is not None or answer.updated_output is not UNSET:
        return None
    if answer.extras or answer.data is not None or answer.background:
        return None
    reason, context, message, stop_reason = answer.reason, answer.context, answer.message, answer.stop_reason
    if len(reason) + len(context) + len(message) + len(stop_reason) > 1024:
        return None
    flags = (answer.keep_going, answer.stop, answer.quiet)
    return answer.decision, reason, context, answer.objection, message, stop_reason, flags


def _blocks_with_reason(event: Event, output: dict[str, Any] | None) -> bool:
    if output is None or "decision" not in answer_schema.SUPPORTED_FIELDS.get(
        event.hook_event_name, answer_schema.UNIVERSAL
    ):
        return False
    return output.get("decision") == "block" and bool(output.get("reason"))


_WAITING = ("PreToolUse", "PermissionRequest")  # events on which a call waits for the answer
_NEVER_OPEN = {
    ("PreModelSwitch", Status.TIMED_OUT),
    ("WorktreeCreate", Status.FAILED),
    ("WorktreeCreate", Status.TIMED_OUT),
    ("WorktreeCreate", Status.COULD_NOT_START),
}
"""Events on which the reference does not fail open."""


def announces_async(stdout: bytes, promises: list[dict[str, object]]) -> bool:
    """Whether the first line that a running command printed is `{"async": true, ...}`; it is added to `promises`."""
    first, newline, _ = stdout.partition(b"\n")
    if not newline or b'"async"' not in first:
        return False
    try:
        said = strictjson.loads(first)
    except StrictJSONError:
        return False
    if not isinstance(said, dict) or said.get("async") is not True:
        return False
    promises.append(said)
    return True
