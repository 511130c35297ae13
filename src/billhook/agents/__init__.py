"""The dialects: one explicit table. Adding one is a row of meanings, a codec, and a line here.

A hook runs at every tool call and speaks one of them: each codec is imported when somebody asks for it by name.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from billhook.errors import UsageError

if TYPE_CHECKING:
    from billhook.agents.child import Call, Dialect, Written
    from billhook.agents.claude import CLAUDE, SPEC
    from billhook.agents.names import canonical_event

_MADE_IN: Final = {
    "claude": "claude",
    "spec": "claude",
    "claw": "seeds",
    "claw-text": "seeds",
    "lesson": "seeds",
    "codex": "codex",
    "gemini": "gemini",
    "qwen": "qwen",
    "copilot": "copilot",
    "cursor": "cursor",
    "universal": "universal",
}
"""By name: the module that has it, in its own `DIALECTS`."""

AGENTS: Final = ("claude", "codex", "gemini", "qwen", "copilot", "cursor")  # the dialects that coding agents speak


class _Dialects(Mapping[str, "Dialect"]):
    """All dialects by name. Lives as long as the process; looking at the names imports nothing."""

    def __init__(self) -> None:
        self._made: dict[str, Dialect] = {}

    def __getitem__(self, name: str) -> "Dialect":
        made = self._made.get(name)
        if made is None:
            from importlib import import_module

            made = self._made[name] = import_module(f"{__name__}.{_MADE_IN[name.partition(':')[0]]}").DIALECTS[name]
        return made

    def __contains__(self, name: object) -> bool:
        return name in _MADE_IN

    def __iter__(self) -> Iterator[str]:
        return iter(_MADE_IN)

    def __len__(self) -> int:
        return len(_MADE_IN)


DIALECTS: Mapping[str, "Dialect"] = _Dialects()


def dialect(name: str) -> "Dialect":
    """A dialect by name; UsageError names the ones that exist."""
    try:
        return DIALECTS[name]
    except KeyError:
        raise UsageError(f"no dialect `{name}`", hint=f"one of {', '.join(DIALECTS)}") from None


def __getattr__(name: str) -> object:
    """What only those pay for who use it."""
    if name == "canonical_event":
        from billhook.agents.names import canonical_event

        return canonical_event
    if name in ("CLAUDE", "SPEC"):
        return DIALECTS[name.lower()]
    if name in ("Call", "Dialect", "Written"):
        from billhook.agents import child

        return getattr(child, name)
    raise AttributeError(f"module `{__name__}` has no `{name}`")


__all__ = ["AGENTS", "CLAUDE", "DIALECTS", "SPEC", "Call", "Dialect", "Written", "canonical_event", "dialect"]
