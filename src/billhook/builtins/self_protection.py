"""The gate that keeps an agent from disarming its guards."""

from collections.abc import Mapping
from typing import ClassVar, Final

import msgspec

from billhook.core import tools
from billhook.core import tools as spellings
from billhook.core.answers import NOTHING, Answer, deny
from billhook.core.events import Event
from billhook.core.hook import Context, Hook, Source
from billhook.effects.protected_paths import Protected

NAME: Final = "self-protection"
PRIORITY: Final = 1000


def self_protection(protected: Protected) -> Hook:
    """The built-in gate over all tool calls; last in order, and not passed when it fails or is not reached in time."""
    return Hook(
        name=NAME,
        title="guards billhook's own files",
        run=SelfProtection(protected),
        events=("PreToolUse",),
        priority=PRIORITY,
        on_failure="deny",
        dialect="spec",
        source=Source(layer="built-in"),
    )


class SelfProtection(msgspec.Struct, frozen=True):
    """What the gate does. Links and folders are looked up at every call."""

    protected: Protected
    at_once: ClassVar[bool] = True
    """A slow hook before it must neither keep it from looking nor make it deny what is harmless."""

    def __call__(self, ctx: Context) -> Answer:
        name, given = tools.canonical(getattr(ctx.event, "tool_name", "")), getattr(ctx.event, "tool_input", None)
        if isinstance(given, Mapping) and (why := spellings.contradiction(name, given, ctx.event.cwd)):
            return deny(why)
        if name in READING_TOOLS:
            return NOTHING
        line = _plain_line(ctx.event)
        if line in _harmless or line.partition(" ")[0] in TELLERS:
            return NOTHING

        from billhook.builtins.disarm import does_nothing, judged  # few calls need this analysis

        answer, found = judged(ctx.event, self.protected)
        if line and answer is NOTHING and does_nothing(found):
            if len(_harmless) >= _MOST_LINES:
                _harmless.clear()
            _harmless.add(line)
        return answer


_WORD: Final = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_+-"
_TOLD = """
basename cat cut df dirname du echo false grep head id ls nl ps pwd readlink realpath stat tac tail true uname wc which
whoami
"""
TELLERS: Final = frozenset(_TOLD.split())
"""Programs that write nothing whatever their words are: seen at one look, which is all that most calls need."""
_harmless: set[str] = set()
"""Plain lines that write nothing, wherever they run: agents say the same few again and again."""
_MOST_LINES: Final = 1024


def _plain_line(event: Event) -> str:
    """The line that a call runs, if that is all there is to it and it means the same in every folder."""
    given = getattr(event, "tool_input", None)
    if type(given) is not dict or not tools.is_shell(getattr(event, "tool_name", "")):
        return ""
    if not tools.ARGUMENTS.isdisjoint(given):  # the words of the command are in a field of their own
        return ""
    line = given.get("command")
    return line if isinstance(line, str) and len(line) <= 500 and _is_plain(line) else ""


def _is_plain(line: str) -> bool:
    """One command and its words: nothing that a shell would put in another's place, and no path to a program."""
    name, *words = line.split(" ")
    return (
        name[:1].isalpha()
        and not name.strip(_WORD)
        and all(words)
        and not "".join(words).strip(_WORD + ",:=@./")
        and len(words) <= 50
    )


READING_TOOLS: Final = frozenset({"Glob", "Grep", "LS", "Read", "TodoRead", "WebFetch", "WebSearch"})
"""Tools that write no file of their input; `touched.py` knows more of them."""
