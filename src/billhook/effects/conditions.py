"""Conditions on what a call would do: `effect: [delete:outside, discard]` of a hook, and conditions put together."""

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from billhook.core.errors import RuleError
from billhook.core.text import suggestion
from billhook.effects.effect import KINDS, SCOPES, Effect

ABLE: Final = tuple(kind for kind in KINDS if kind != "disarm")
"""The effects that a hook can name; `disarm` is the guard's own row, which no hook needs to repeat."""
_LISTED: Final = "`billhook check --explain BH217` lists all effects"


class HasEffect(msgspec.Struct, frozen=True):
    """True if a call has one of these effects: `discard` anywhere, or `delete:outside`. Equal if the effects are."""

    wanted: tuple[str, ...]

    def __call__(self, ctx: object) -> bool:
        """Whether `ctx.event` has such an effect; an event without a tool has none."""
        return any(has_effect(effect, self.wanted) for effect in effects_in(ctx))


class AfterEffect(msgspec.Struct, frozen=True):
    """True if an earlier call of the session had one of these effects. Equal if the effects are."""

    wanted: tuple[str, ...]

    def __call__(self, ctx: object) -> bool:
        """Whether the session of `ctx` has done so; raises where that is not known: then a gate does not pass."""
        seen: frozenset[str] | None = getattr(ctx, "seen_effects", None)
        if seen is None:
            raise LookupError("the event names no session whose earlier calls are known")
        return any(cell in self.wanted or cell.partition(":")[0] in self.wanted for cell in seen)


class AnyOf(msgspec.Struct, frozen=True):
    """Several rules in one `if`: true if one of them is."""

    conditions: tuple[Callable[..., object], ...]

    def __call__(self, ctx: object) -> bool:
        return any(condition(ctx) for condition in self.conditions)


class All(msgspec.Struct, frozen=True):
    """Several conditions of one hook: it runs if all of them are true. Equal if they are."""

    conditions: tuple[Callable[..., object], ...]

    def __call__(self, ctx: object) -> bool:
        return all(condition(ctx) for condition in self.conditions)


def all_of(conditions: Iterable[Callable[..., object]]) -> Callable[..., object] | None:
    """One condition out of several; None out of none."""
    found = tuple(conditions)
    return All(found) if len(found) > 1 else found[0] if found else None


def single(condition: Callable[..., object]) -> tuple[Callable[..., object], ...]:
    """The parts of a condition."""
    return condition.conditions if isinstance(condition, All) else (condition,)


def effects_in(ctx: object) -> tuple[Effect, ...]:
    """What the call of `ctx.event` would do, its input as rewritten so far."""
    found: tuple[Effect, ...] = getattr(getattr(ctx, "event", None), "effects", ())
    return found


def has_effect(effect: Effect, wanted: tuple[str, ...]) -> bool:
    """Whether a list of kinds, and of kinds in a scope, has this effect."""
    return effect.kind in wanted or cell_of(effect) in wanted


def cell_of(effect: Effect) -> str:
    """`delete:outside`: how lists, tables and sessions name an effect."""
    return f"{effect.kind}:{effect.scope}"


def checked(text: str) -> str:
    """`kind` or `kind:scope` in its one spelling; raises RuleError."""
    kind, colon, scope = (part.strip() for part in text.strip().partition(":"))
    if kind == "disarm":
        raise RuleError("no hook can be about `disarm`", hint="remove it: the guard always stops what disarms billhook")
    if kind not in ABLE:
        raise RuleError(f"unknown effect `{kind}`", hint=suggestion(kind, ABLE, _LISTED))
    if colon and scope not in SCOPES:
        raise RuleError(f"unknown scope `{scope}`", hint=suggestion(scope, SCOPES, f"one of {', '.join(SCOPES)}"))
    return f"{kind}:{scope}" if colon else kind


def is_readable(wanted: Iterable[str]) -> bool:
    """Whether each of these names an effect."""
    try:
        return all(checked(text) for text in wanted)
    except RuleError:
        return False
