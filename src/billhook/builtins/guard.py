"""The guard: a table from effects to decisions, on by default.

It denies what is certain and can't be undone, asks about what may be intended, and allows everything else. The
table is data: a row is an effect and its weight, a column is a scope. An effect without a row is allowed.
"""

import functools
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar, Final

import msgspec

from billhook.core import tools
from billhook.core.answers import NOTHING, Answer, ask, deny
from billhook.core.events import Event
from billhook.core.hook import Context, Hook, Source
from billhook.core.lazy import lazy_module
from billhook.effects.effect import Effect, ProtectedPaths

if TYPE_CHECKING:
    from billhook.builtins import advice, disarm, impact
    from billhook.effects import analysis, rules, secret_files
    from billhook.effects.rules import Rule
else:
    analysis, advice = lazy_module("billhook.effects.analysis"), lazy_module("billhook.builtins.advice")
    disarm, impact = lazy_module("billhook.builtins.disarm"), lazy_module("billhook.builtins.impact")
    rules, secret_files = lazy_module("billhook.effects.rules"), lazy_module("billhook.effects.secret_files")

NAME: Final = "guard"
PRIORITY: Final = 1000
DECISIONS: Final = ("allow", "ask", "deny")

STANDARD: Final = """
effect             weight  project  temp   home   outside  system  remote  unknown
delete             light   -        -      ask    ask      deny    -       -
delete             normal  -        -      ask    ask      deny    ask     ask
delete             heavy   ask      -      deny   deny     deny    deny    ask
overwrite          light   -        -      ask    ask      deny    -       -
overwrite          normal  -        -      ask    ask      deny    ask     ask
overwrite          heavy   ask      -      deny   deny     deny    deny    ask
write              any     -        -      -      -        ask     -       -
permissions        light   -        -      -      -        ask     -       -
permissions        normal  -        -      ask    ask      deny    ask     ask
permissions        heavy   ask      -      deny   deny     deny    deny    ask
device             any     deny everywhere
discard            normal  ask      -      ask    ask      ask     ask     ask
discard            heavy   ask everywhere
rewrite-history    normal  ask everywhere
rewrite-history    heavy   deny everywhere
drop-recovery      normal  ask everywhere
drop-recovery      heavy   deny everywhere
force-push         normal  ask everywhere
force-push         heavy   deny everywhere
run-remote         any     deny everywhere
remote-shell       any     deny everywhere
run-opaque         normal  ask everywhere
run-opaque         heavy   deny everywhere
privilege          normal  ask everywhere
persist            normal  -        -      ask    ask      deny    ask     ask
persist            heavy   ask      ask    ask    ask      deny    ask     ask
kill               normal  ask everywhere
kill               heavy   deny everywhere
read-secret        normal  ask everywhere
read-secret        heavy   deny everywhere
upload             heavy   deny everywhere
destroy-infra      normal  ask everywhere
destroy-infra      heavy   deny everywhere
destroy-data       normal  ask everywhere
destroy-data       heavy   deny everywhere
destroy-container  normal  ask everywhere
destroy-container  heavy   ask everywhere
publish            any     ask everywhere
disarm             normal  ask everywhere
disarm             heavy   deny everywhere
"""
_UNCERTAIN_IN_STRICT: Final = frozenset(
    {"delete", "discard", "overwrite", "run-opaque", "destroy-data", "destroy-infra"}
)
_OWN_LAYERS: Final = ("user", "fleet", "managed")
_RANK: Final = {"-": 0, "allow": 0, "ask": 1, "deny": 2}

Table = Mapping[tuple[str, str, str], str]


@functools.cache
def standard() -> Table:
    """The table by effect, weight and scope."""
    head, *rows = (line.split() for line in STANDARD.strip().splitlines())
    found: dict[tuple[str, str, str], str] = {}
    for kind, weight, *cells in rows:
        everywhere = cells[1:] == ["everywhere"]
        for scope, decision in zip(head[2:], cells[:1] * len(head[2:]) if everywhere else cells, strict=True):
            for each in ("light", "normal", "heavy") if weight == "any" else (weight,):
                found[kind, each, scope] = decision
    return found


class GuardSettings(msgspec.Struct, frozen=True):
    """Settings from the user's files, and then from the project's."""

    preset: str = "standard"
    cells: Mapping[str, str] = {}  # `discard` or `delete:home` -> allow, ask or deny
    tightened: Mapping[str, str] = {}  # by a project: never looser than the table
    allowed: "tuple[Rule, ...]" = ()  # the user's own allow rules that name what they allow
    rules_in: str = "`guard(allow=[...])`"  # where such a rule is added, for people
    shadow: Mapping[str, str] = {}  # cells in shadow mode: recorded, and not in force

    @property
    def judges(self) -> bool:
        """Whether more than the row `disarm` is in use."""
        cells = (*self.cells.values(), *self.tightened.values())
        return self.preset != "off" or any(decision != "allow" for decision in cells)


class EffectVerdict(msgspec.Struct, frozen=True):
    """One effect and what the guard decides about it."""

    effect: Effect
    decision: str  # ask or deny
    lost: tuple[str, ...] = ()  # files whose content would be gone
    keeps: str = ""  # the command that saves their content, so that the call is allowed
    in_git: bool = True  # False: no repository has them


def decision_of(effect: Effect, settings: GuardSettings) -> str:
    """The table's decision about an effect: `-`, `ask` or `deny`."""
    found = standard().get((effect.kind, effect.weight, effect.scope), "-")
    if effect.kind == "disarm":
        return "deny" if settings.preset == "strict" else found
    preset = settings.preset
    if found == "deny" and not effect.certain and preset == "standard":
        found = "ask"
    if preset == "strict":
        unsure = not effect.certain and effect.kind in _UNCERTAIN_IN_STRICT
        found = "deny" if found == "ask" else "ask" if found == "-" and unsure else found
    elif preset == "off":
        found = "-"
    return _with_cells(found, effect, settings)


def _with_cells(found: str, effect: Effect, settings: GuardSettings) -> str:
    """The user's cells replace the table's; a project's only tighten."""
    for cell in (effect.kind, f"{effect.kind}:{effect.scope}"):
        if (own := settings.cells.get(cell)) and (
            own == "allow" or found != "-" or ":" in cell or effect.weight != "light"
        ):
            found = own
    for cell in (effect.kind, f"{effect.kind}:{effect.scope}"):
        wanted = settings.tightened.get(cell, "-")
        if _RANK[wanted] > _RANK[found]:
            found = wanted
    return "-" if found == "allow" else found


def guard(protected: ProtectedPaths, settings: GuardSettings | None = None) -> Hook:
    """The built-in gate for all tool calls. It runs last, so that the reasons of configured hooks reach the model."""
    return Hook(
        name=NAME,
        title="stops what can't be undone, and protects billhook's files",
        run=Guard(protected, settings or GuardSettings()),
        events=("PreToolUse",),
        priority=PRIORITY,
        on_failure="deny",
        dialect="spec",
        source=Source(layer="built-in"),
    )


def shadow_cells(hook: Hook) -> Iterator[Hook]:
    """A hook in shadow mode for each such cell of the guard: it records what the cell would change."""
    run = hook.run
    assert isinstance(run, Guard)
    for cell, decision in run.settings.shadow.items():
        yield msgspec.structs.replace(
            hook,
            name=f"{NAME}/{cell}",
            title=f"{cell}: {decision}",
            run=ShadowCell(run.protected, run.settings, cell, decision),
            on_failure="allow",
            shadow=True,
        )


class Guard(msgspec.Struct, frozen=True):
    """What the gate does. Files and folders are looked up at every call."""

    protected: ProtectedPaths
    settings: GuardSettings
    at_once: ClassVar[bool] = True
    """A slow hook before it must neither skip its checks nor make it deny harmless calls."""
    runs_last: ClassVar[bool] = True
    """It judges the input as rewritten, and gets what the user's hooks allowed."""

    def __call__(self, ctx: Context) -> Answer:
        event = ctx.event
        given = getattr(event, "tool_input", None)
        name = tools.canonical(getattr(event, "tool_name", ""))
        if isinstance(given, Mapping) and (why := tools.contradiction(name, given, event.cwd)):
            return deny(why)
        if harmless(name, given):
            return NOTHING
        found = analysis.analysis_of(event)
        ours = disarm.disarm_effect(found, self.protected)
        judged = self.judged((*found.effects, ours) if ours else found.effects, event.cwd)
        if not judged or (not ours and self.is_allowed(ctx, name)):
            return NOTHING
        reason = advice.reason(judged, tools.command_of(name, given) or "")
        answer = deny(reason) if any(each.decision == "deny" for each in judged) else ask(reason)
        return answer if ours else msgspec.structs.replace(answer, data=self.allowing(event))

    def allowing(self, event: Event) -> dict[str, object]:
        """The rules that would allow a call, and the sentence with them (`Verdict.how_to_allow`)."""
        found = advice.rules_for(event)
        return {"allow": found, "how_to_allow": advice.how_to_allow(found, self.settings.rules_in)}

    def judged(self, effects: tuple[Effect, ...], cwd: str) -> list[EffectVerdict]:
        """What the table stops, the strictest first."""
        impacts = impact.impacts_of((effect for effect in effects if effect.kind != "read"), cwd)
        found = [EffectVerdict(each[0], decision_of(each[0], self.settings), each[1]) for each in impacts]
        stopped = [impact.with_rescue(each, cwd) for each in found if each.decision != "-"]
        return sorted(stopped, key=lambda each: -_RANK[each.decision])

    def is_allowed(self, ctx: Context, name: str) -> bool:
        """Whether the user allowed this very call, by one of their rules or hooks.

        `Bash` or `Bash(*)` only spares prompts: such a rule is not about this call.
        """
        given = getattr(ctx.event, "tool_input", None)
        if self.settings.allowed and rules.covers(self.settings.allowed, name, given, ctx.event.cwd):
            return not name.startswith("mcp__") or advice.is_known_by_name(name, given)
        answers = ctx.results.values() if ctx.results else ()
        return any(one.answer.decision == "allow" and one.source.startswith(_OWN_LAYERS) for one in answers)


class ShadowCell(Guard, frozen=True):
    """One cell in shadow mode: its answer is what would differ if the cell were in force."""

    cell: str
    decision: str

    def __call__(self, ctx: Context) -> Answer:
        event, given = ctx.event, getattr(ctx.event, "tool_input", None)
        name = tools.canonical(getattr(event, "tool_name", ""))
        if harmless(name, given):
            return NOTHING
        tried = msgspec.structs.replace(self.settings, cells={**self.settings.cells, self.cell: self.decision})
        found = Guard(self.protected, tried).judged(analysis.analysis_of(event).effects, event.cwd)
        judged = [each for each in found if decision_of(each.effect, self.settings) != each.decision]
        if not judged or self.is_allowed(ctx, name):
            return NOTHING
        reason = advice.reason(judged, tools.command_of(name, given) or "")
        return deny(reason) if any(each.decision == "deny" for each in judged) else ask(reason)


# Calls that are harmless at a glance:

_WORD: Final = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_+-"
_PRINTING_PROGRAMS = """
basename cd date df dirname du echo false file git id ls ps pwd pytest readlink realpath stat true uname wc which whoami
"""
_PRINTERS: Final = frozenset(_PRINTING_PROGRAMS.split())
_GIT: Final = frozenset({"status", "diff", "log", "show", "add", "blame", "fetch", "remote", "describe", "rev-parse"})


def harmless(name: str, given: object) -> bool:
    """Whether a call is one plain command that only prints: most calls need no more than this check."""
    if name != "Bash" or type(given) is not dict or not tools.ARGUMENTS.isdisjoint(given):
        return False
    line = given.get("command")
    if not isinstance(line, str) or len(line) > 500:
        return False
    words = line.split(" ")
    if words[0] not in _PRINTERS or not all(words) or "".join(words).strip(_WORD + ",:=@./"):
        return False
    if words[0] == "date":
        return len(words) == 1  # `date -s` sets the clock
    return words[0] != "git" or _git_only_prints(words)


def _git_only_prints(words: list[str]) -> bool:
    """Whether git only prints, and not the content of a file that may have secrets."""
    if len(words) < 2 or words[1] not in _GIT:
        return False
    return not any(
        word.startswith(("--o", "--u")) or secret_files.is_secret_file(word.rpartition(":")[2]) for word in words[2:]
    )
