"""The dialects: one explicit table. Adding one is a row of meanings, a codec, and a line here."""

from collections.abc import Mapping

from billhook import meanings as rows
from billhook.dialects.base import Call, Dialect, Written
from billhook.dialects.claude import JsonDialect
from billhook.dialects.exitcodes import AFTER, BEFORE, ELSE, FAILED, ExitCodeDialect
from billhook.errors import UsageError

CLAUDE = JsonDialect(rows.CLAUDE)

SPEC = JsonDialect(rows.SPEC, exit_2_blocks=False, text_is_fine=False)

CLAW = ExitCodeDialect(
    meanings=rows.CLAW,
    codes={
        BEFORE: {0: "feedback", 2: "deny"},
        AFTER: {0: "feedback", 2: "deny"},
        ELSE: {0: "feedback", 2: "deny"},
    },
    text=("stdout", "stderr"),
    default_reason="{event} hook denied tool `{tool}`",
)

CLAW_TEXT = ExitCodeDialect(
    meanings=rows.CLAW_TEXT,
    codes={
        BEFORE: {0: "feedback", 2: "deny"},
        AFTER: {0: "feedback"},  # informational: it can't block
        FAILED: {0: "feedback"},
        ELSE: {0: "feedback", 2: "deny"},
    },
    text=("stdout", "stderr"),
    input_as_text=True,
    default_reason="{event} hook denied tool `{tool}`",
)

LESSON = ExitCodeDialect(
    meanings=rows.LESSON,
    codes={
        BEFORE: {0: "nothing", 1: "deny", 2: "inject"},
        AFTER: {0: "nothing", 2: "inject"},
        ELSE: {0: "nothing", 2: "inject"},
    },
    text=("stderr",),
    default_reason="Blocked by hook",
)

DIALECTS: Mapping[str, Dialect] = {
    "claude": CLAUDE,
    "spec": SPEC,
    "claw": CLAW,
    "claw-text": CLAW_TEXT,
    "lesson": LESSON,
}


def dialect(name: str) -> Dialect:
    """A dialect by name; UsageError names the ones that exist."""
    try:
        return DIALECTS[name]
    except KeyError:
        raise UsageError(f"no dialect `{name}`", hint=f"one of {', '.join(DIALECTS)}") from None


__all__ = ["DIALECTS", "Call", "Dialect", "Written", "dialect"]
