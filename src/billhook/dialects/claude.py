"""The reference's protocol: event JSON on stdin, JSON or an exit code back. Also `spec`, its in-process cousin."""

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from billhook import events, strictjson, tools
from billhook.answers import NOTHING, Answer, Decision, Reply, Status
from billhook.dialects.base import (
    Call,
    Written,
    environment,
    evidence,
    exits,
    failed,
    launch_note,
    line,
    objection_in,
    printed,
)
from billhook.errors import StrictJSONError
from billhook.events import Event
from billhook.exits import Exit
from billhook.hook import Context
from billhook.meanings import Meanings
from billhook.outputs import blocked, read_output, write_output


class JsonDialect(msgspec.Struct, frozen=True):
    """`claude` and `spec`: the whole event on stdin, the answer as JSON on stdout."""

    meanings: Meanings
    exit_2_blocks: bool = True
    text_is_fine: bool = True
    """Plain text on stdout is no failure (and context on some events)."""

    def write_call(self, ctx: Context) -> Call:
        payload = ctx.event.payload
        if "tool_name" in payload:
            payload = {**payload, "tool_name": tools.canonical(str(payload["tool_name"]))}
        return Call(line(payload), environment(ctx, self.meanings))

    def read_exit(self, event: Event, exit: Exit) -> Reply:  # noqa: A002
        return evidence(self._read(event, exit), exit)

    def read_call(self, stdin: bytes, env: Mapping[str, str]) -> Event:
        event = events.decode(stdin)
        event.payload  # noqa: B018 - decode all of it here, where a fault still is a malformed event
        return event

    def write_exit(self, event: Event, answer: Answer) -> Written:
        output, lost = write_output(event, answer, self.meanings)
        return Written(exits(0, strictjson.dumps(output) + "\n" if output else ""), tuple(lost))

    def _read(self, event: Event, exit: Exit) -> Reply:  # noqa: A002
        if exit.start_error:
            return failed(exit)
        out = printed(exit)
        reply = Reply() if out.output is None else read_output(event, out.output, self.meanings)
        readable = out.output is not None and reply.status is Status.OK
        if exit.code == 2 and self.exit_2_blocks:
            return self._block(event, exit, reply if readable else Reply(), out.plain)
        if readable and (exit.code == 0 or reply.answer.objects or (self.exit_2_blocks and exit.code is not None)):
            return reply  # JSON decides; and a whole deny denies however the hook ended
        objection = objection_in(out.text, event, self.meanings) if not readable else None
        if objection is not None:
            return objection
        if exit.code == 0:
            if out.broken or out.output is not None:
                return Reply(status=Status.FAILED, error=out.broken or reply.error)
            return self._text(event, out.text)
        return self._failed(event, exit)

    def _block(self, event: Event, exit: Exit, reply: Reply, text: str) -> Reply:  # noqa: A002
        """Exit 2 blocks whatever the JSON says; its reason is used when the JSON blocks too, and its other fields."""
        said = reply.answer
        if said.objects or said.keep_going:
            return reply
        told = exit.stderr_text.strip() or text
        block = blocked(event, told, self.meanings)
        others = {
            "message": "\n".join(part for part in (said.message, block.answer.message) if part),
            "context": self.meanings.join.join(part for part in (said.context, block.answer.context) if part),
            "extras": said.extras,
            "quiet": said.quiet,
        }
        return replace(
            block,
            answer=replace(block.answer, **others),
            error=block.error or launch_note(exit),
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

    def _failed(self, event: Event, exit: Exit) -> Reply:  # noqa: A002
        reply = failed(exit)
        if event.hook_event_name == "WorktreeCreate" and exit.code is not None:
            reason = reply.error
            return Reply(answer=Answer(decision=Decision.DENY, reason=reason), error=reason)
        if event.hook_event_name == "PreModelSwitch" and exit.timed_out:
            return replace(reply, on_failure="deny")  # the one event on which the reference does not fail open
        return reply


def promised(stdout: bytes, promises: list[dict[str, object]]) -> bool:
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
