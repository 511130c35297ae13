"""The built-ins that an engine gets, their options, and what the guard protects.

A project's file can only tighten: it may record more, never less.
"""

import functools
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from billhook.agents import TABLE
from billhook.builtins import trackers
from billhook.config import sources
from billhook.config.declaration import Exec, FixedAnswer, HookDeclaration, Python, RunAction
from billhook.config.nodes import FieldNodes, Node
from billhook.config.recorder import SessionLookup
from billhook.config.sources import Builtin, FileSnapshot
from billhook.core import client_env
from billhook.core.answers import Outcome, Reply, Status, Verdict
from billhook.core.errors import UsageError
from billhook.core.events import Event
from billhook.core.hook import Context, Hook, Source
from billhook.core.lazy import pattern
from billhook.core.text import folded, suggestion
from billhook.effects.effect import KINDS, SCOPES, ProtectedPaths
from billhook.store.approvals import Approvals
from billhook.store.files import state_root
from billhook.store.state import FileState

if TYPE_CHECKING:
    from billhook.builtins.guard import GuardSettings
    from billhook.config.config import Entry
    from billhook.config.override import Pause
    from billhook.effects.rules import Rule


class StandIn(msgspec.Struct, frozen=True):
    """Runs in place of a hook that can't be used or may not run. It blocks or is skipped, and reports why."""

    why: str
    of: str = ""  # the hook that it replaces: two stand-ins are never the same hook
    blocks: bool = True

    def __call__(self, ctx: Context) -> Reply:
        return Reply(status=Status.COULD_NOT_START if self.blocks else Status.SKIPPED, error=self.why)


# The files and settings of the guard:


_OTHERS = [row for name, row in TABLE.items() if name != "claude"]
_AGENTS = tuple(file for row in _OTHERS for file in (*row.files, *row.beside))
"""Files in which other agents have the entry that calls billhook, in a project and in the home folder."""
_IN_PROJECT, _IN_HOME = ([f"{row.folders[at]}/billhook.json" for row in _OTHERS if row.folders] for at in (0, 1))
_SETTINGS = frozenset({"settings.json", "billhook.json", *(os.path.basename(file) for file in _AGENTS)})
NAMES = frozenset({*sources.PROJECT_FILES, *sources.LOCAL_FILES, *_AGENTS, *_IN_PROJECT})


def guard_settings(said: Builtin, reads: Sequence[sources.FileRead]) -> "GuardSettings":
    """The guard's table from the user's files, and their allow rules."""
    from billhook.builtins.guard import GuardSettings

    options = filled("guard", said.options)
    preset = max(options["preset"], options["project_preset"], key=("off", "standard", "strict").index)
    allowed: tuple[Rule, ...] = ()
    if any(read.permissions for read in reads):
        from billhook.config.permissions import own_allow_rules

        allowed = own_allow_rules(reads)
    place = f"`permissions: {{allow: [...]}}` in {sources.own_file()}"
    return GuardSettings(preset, options["cells"], options["project_cells"], allowed, place, options["shadow"])


def guard(
    preset: str = "standard",
    *,
    cells: Mapping[str, str] | None = None,
    allow: Iterable[str] = (),
    cwd: str | os.PathLike[str] = "",
) -> Hook:
    """The guard for your own engine, without configuration files: `Engine([*hooks, guard()])`.

    `cells` change its table as `guard:` in a file does, `allow` are permission rules for calls that it ignores, `cwd`
    is the project. Raises UsageError, and RuleError for a rule that can't be read.
    """
    from billhook.builtins import guard as builtin
    from billhook.config.permissions import naming_rules
    from billhook.effects.rules import Rule

    given = dict(cells or {})
    for cell, decision in given.items():
        if hint := unknown_cell(cell):
            raise UsageError(f"the guard has no cell `{cell}`", hint=hint)
        _reject_unknown(f"`{cell}`", decision, DECISIONS)
    _reject_unknown("`preset`", preset, PRESETS)
    root = state_root()
    paths = protected(sources.find(os.path.realpath(cwd or client_env.getcwd())), root, (), Approvals(root))
    return builtin.guard(paths, builtin.GuardSettings(preset, given, {}, naming_rules(map(Rule.parse, allow))))


def _reject_unknown(name: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise UsageError(f"unknown value of {name}: `{value}`", hint=f"use one of {', '.join(known)}")


def protected(
    found: sources.FoundSources, root: Path, entries: Sequence["Entry"], approvals: Approvals
) -> ProtectedPaths:
    """The files that the guard protects, existing or not: a new file would be a new layer. Files with approvals in
    folders below are protected, too: they apply as soon as an agent works there."""
    folders = dict.fromkeys([found.project, *(file.folder for file in found.files)])
    files = [os.path.join(folder, name) for folder in folders for name in sorted(NAMES)]
    files += [file.path for file in found.files] + [sources.MANAGED, *sources.user_files()]
    home = client_env.expanduser("~")
    files += [os.path.join(home, name) for name in (*_AGENTS, *_IN_HOME)]
    loaded = {file.path for file in found.files}
    every = approvals.all()
    below = [one for one in every if one.file.startswith(found.project + os.sep) and one.file not in loaded]
    approved = [path for one in below for path in (one.file, *one.files)]
    files += approved
    others = [one for one in every if one.file not in loaded and one not in below]
    settings = [path for path in files if path.startswith(home + os.sep) and os.path.basename(path) in _SETTINGS]
    look = FileSnapshot()
    files += [path for entry in entries if entry.consent.state != "new" for path in _named(entry, look)]
    own_folders = {folder for path in sources.user_files() if (folder := os.path.dirname(path)).endswith("/billhook")}
    for entry in entries:
        if entry.consent.state in ("approved", "changed"):
            approved += [entry.declared.file, *_named(entry, look)]
    installed = installation()
    return ProtectedPaths(
        files=tuple(dict.fromkeys(files)),
        folders=(*(os.path.join(folder, ".billhook") for folder in folders), *sorted(own_folders)),
        programs=programs(settings),
        interpreters=installed.interpreters,
        packages=(*installed.packages, *source_package(found.project)),
        sites=installed.sites,
        search_path=search_path(),
        elsewhere=tuple(dict.fromkeys(path for one in others for path in (one.file, *one.files))),
        approved=tuple(dict.fromkeys(approved)),
        # an agent that could write a pause would switch off its own guard
        state=(*(str(root / name) for name in ("billhook", "turns", "hooks")), sources.pause_file()),
        names=NAMES,
    )


def _named(entry: "Entry", look: FileSnapshot) -> list[str]:
    """The files that a hook names: an edit could disarm a gate of the user as well as an approved one. An edit of
    another file in their folders invalidates the approval, and a gate then denies."""
    consent = entry.consent
    if consent.loaded is not None:
        return [mark.path for mark in consent.loaded.named]
    if consent.before is not None:
        return [*consent.before.files]
    action = entry.declared.action
    if not isinstance(action, RunAction | Exec | Python):
        return []
    folder = entry.declared.module_folder if isinstance(action, Python) else entry.declared.folder
    from billhook.config.referenced_files import named

    return list(named(action, folder, look).files)


# The installation of billhook, which the guard protects, too:


PROGRAMS = ("billhook-hook", "billhook")
_LARGEST = 1 << 20
_IN_SETTINGS = pattern(
    r"""(?:'(/[^'\n]*?/billhook(?:-hook)?)'|(?<![\w'])(/[^\s"'\\;|&]*/billhook(?:-hook)?))(?![\w/-])"""
)


class Installation(msgspec.Struct, frozen=True):
    """The files of this process's installation."""

    programs: tuple[str, ...]
    interpreters: tuple[str, ...]
    packages: tuple[str, ...]
    sites: tuple[str, ...]


@functools.cache
def installation() -> Installation:
    """The installation that this process runs from."""
    beside = os.path.dirname(sys.executable)
    programs = [path for name in PROGRAMS if os.path.lexists(path := os.path.join(beside, name))]
    sites = [path for path in sys.path if os.path.basename(path) in ("site-packages", "dist-packages")]
    packages = [os.path.join(site, name) for site in sites for name in _names_in(site) if _is_ours(name)]
    if os.path.basename(sys.prefix) == "billhook":  # uv tool and pipx make an environment for each program
        packages.append(sys.prefix)
    return Installation(
        tuple(programs), _with_links((sys.executable,)), _with_links(packages), _with_links(filter(None, sites))
    )


def programs(settings: Iterable[str]) -> tuple[str, ...]:
    """The programs that agents run: those in their settings, on PATH, and beside the interpreter."""
    on_path = ([os.path.join(folder, name) for folder in _path()] for name in PROGRAMS)
    found = [next(filter(os.path.exists, paths), "") for paths in on_path]
    named = [named for file in settings for named in _named_in(file)]
    return _with_links(os.path.abspath(one) for one in (*named, *found, *installation().programs) if one)


def _path() -> list[str]:
    return [folder for folder in client_env.environ().get("PATH", "").split(":") if folder.startswith("/")]


def search_path() -> tuple[str, ...]:
    """The folders of PATH, and the targets of links."""
    return _with_links(_path())


def _named_in(file: str) -> list[str]:
    try:
        with open(file, encoding="utf-8", errors="replace") as opened:
            text = opened.read(_LARGEST)
    except (OSError, ValueError):
        return []
    return [one or other for one, other in _IN_SETTINGS.findall(text)] if "billhook" in text else []


def source_package(project: str) -> tuple[str, ...]:
    """The package, if it is installed from a source tree; () in that tree, where edits are normal."""
    package = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    inside = os.path.join(os.path.realpath(project), "")
    return () if package.startswith(inside) or package in installation().packages else (package,)


def _names_in(folder: str) -> list[str]:
    with suppress(OSError):
        return sorted(os.listdir(folder))
    return []


def _is_ours(name: str) -> bool:
    return name == "billhook" or (name.startswith("billhook-") and name.endswith(("-info", ".egg")))


def _with_links(paths: Iterable[str]) -> tuple[str, ...]:
    listed = [path.rstrip("/") or "/" for path in paths]
    placed = [os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path)) for path in listed]
    return tuple(dict.fromkeys([*listed, *placed, *map(os.path.realpath, listed)]))


# Hooks that the user can override (`config/override.py`, which is loaded when a hook objects):


class Review(msgspec.Struct, frozen=True):
    """The review of one hook's objections: they may be paused, or allowed once."""

    hook: str
    project: str
    state: FileState
    is_guard: bool
    once: bool  # its objections have a code
    pause: "Pause | None"

    def __call__(self, event: Event, outcome: Outcome) -> Outcome:
        from billhook.config.override import reviewed

        return reviewed(self, event, outcome)

    def settle(self, verdict: Verdict) -> None:
        """After a verdict: what the user allowed once is used up only by a call that passes."""
        if verdict.denied or verdict.stop:
            from billhook.config.override import restore_unused

            restore_unused(self.state, verdict)


class Reviews(msgspec.Struct, frozen=True):
    """The reviews of one configuration."""

    project: str
    state: FileState
    in_agent: bool  # calls of an agent have codes; test events have none
    pause: "Pause | None"

    def added(self, hook: Hook, declared: HookDeclaration | None = None) -> Hook:
        """The hook, with a review if the user can override it: never a hook of the managed layer."""
        guard = is_the_guard(hook)
        action = declared.action if declared is not None else None
        once = self.in_agent and (guard or (isinstance(action, FixedAnswer) and action.decision in ("deny", "ask")))
        names = (hook.name, declared.name if declared is not None else hook.name.removeprefix("built-in/"))
        pause = self.pause if self.pause is not None and self.pause.covers(*names) else None
        if hook.source.layer in ("managed", "fleet") or hook.shadow or not (once or pause is not None):
            return hook
        review = Review(hook.name, self.project, self.state, guard, once, pause)
        return msgspec.structs.replace(hook, review=review)


# The built-ins of an engine, with the settings of the files:


BUILTIN_EVENTS: Final[Mapping[str, tuple[str, ...]]] = {
    "metrics": (),
    "turn-tracker": trackers.EVENTS,
    "session-naming": ("SessionStart",),
    "rate-limit": ("PreToolUse",),
}
"""The built-ins that can be switched off, and the events that they listen for; empty: every event."""


class Builtins:
    """The built-ins of one configuration, except for the guard, which needs the whole configuration."""

    def __init__(self, root: Path, project: str, settings: Mapping[str, Builtin]) -> None:
        self.settings = settings
        self.state = FileState(root)
        self.project = project
        self.knowing = SessionLookup(self.state, project, self._on("session-naming"), self._on("turn-tracker"))

    def _on(self, name: str) -> bool:
        settings = self.settings[name]
        configured = name != "rate-limit" or settings.options.get("limits") or settings.broken
        return bool(configured) and settings.enabled is not False

    @property
    def names(self) -> frozenset[str]:
        """The names of all built-ins of an engine."""
        return frozenset({"guard", *(name for name in self.settings if self._on(name))})

    @property
    def trackers(self) -> tuple[str, ...]:
        """The built-ins that other hooks rely on."""
        return tuple(name for name in ("turn-tracker", "session-naming", "event-logger") if self._on(name))

    def hooks(self) -> list[Hook]:
        """Ordinary hooks, in the order of their priorities."""
        names = ("metrics", "turn-tracker", "session-naming", "rate-limit", "event-logger")
        return [self._build(name, filled(name, self.settings[name].options)) for name in names if self._on(name)]

    def _build(self, name: str, options: dict[str, Any]) -> Hook:
        if name == "metrics":
            return trackers.metrics(**options)
        if name == "turn-tracker":
            return trackers.turn_tracker(self.state, **options)
        if name == "session-naming":
            from billhook.store.sessions import Sessions

            return trackers.session_naming(Sessions(self.state), self.project)
        if name == "event-logger":
            return trackers.event_logger()
        from billhook.builtins.rate_limit import RateLimit, rate_limit

        if broken := self.settings[name].broken:
            reply = Reply(status=Status.COULD_NOT_START, error=f"its options can't be used: {broken}")
            # it fails closed: a mistake in its options must not switch the limits off
            return Hook(
                name=name,
                title="replaces limits that can't be used",
                run=lambda ctx: reply,
                events=("PreToolUse",),
                priority=15,
                on_failure="deny",
                source=Source(layer="built-in"),
            )
        limits = msgspec.convert(options["limits"], list[RateLimit])
        return rate_limit(self.state, limits, self.project, tokens=_tokens_used)


def _tokens_used(kept: dict[str, Any], transcript: str, session: str) -> Mapping[str, Sequence[int]]:
    from billhook.agents.token_use import tokens_used

    return tokens_used(kept, transcript, session)


def is_the_guard(hook: Hook) -> bool:
    """Whether a hook is the built-in guard; a hook of a file may have the same name."""
    return hook.source.layer == "built-in" and hook.name.endswith("guard")


def is_guard_off(hook: Hook) -> bool:
    """Whether a hook is the guard, and the user switched it off as far as possible."""
    from billhook.builtins.guard import Guard

    return isinstance(hook.run, Guard) and not hook.run.settings.judges


# The options of built-ins, as files set them:


DECISIONS: Final = ("allow", "ask", "deny")
PRESETS: Final = ("standard", "strict", "off")
LARGEST_LIMITS: Final = 50  # limits that one file may set: each is checked before every tool call


class OptionError(Exception):
    """An option with an invalid value; the hint has valid ones."""

    def __init__(self, message: str, hint: str, node: Node, code: str = "BH203") -> None:
        super().__init__(message)
        self.code, self.hint, self.node = code, hint, node


class OptionKind(msgspec.Struct, frozen=True):
    """The values that an option may have."""

    read: Callable[[str, Node], Any]  # its value from a node of a file; raises OptionError
    schema: dict[str, Any]  # the same for editors


class Option(msgspec.Struct, frozen=True):
    """One option of a built-in."""

    name: str
    default: Any
    kind: OptionKind
    by_project: Callable[[Any], bool] = lambda value: True  # whether a project's file may set this value
    adds_up: bool = False  # every file adds to it; otherwise the most trusted one decides


def _plain(wanted: str, schema: dict[str, Any]) -> OptionKind:
    def read(name: str, node: Node) -> Any:
        if not node.is_a(wanted):
            raise OptionError(f"`{name}` must be {wanted}, not {node.kind}", f"write {wanted}", node)
        return node.value

    return OptionKind(read, schema)


def _number(least: float, *, whole: bool = False) -> OptionKind:
    below, wanted = (1 << 62, "a whole number") if whole else (1e15, "a number")

    def read(name: str, node: Node) -> Any:
        value: Any = node.value
        if not node.is_a("a number") or (whole and isinstance(value, float)) or not least <= value < below:
            shown = f"{least}" if whole else f"{least:g}"
            message = f"`{name}` must be {wanted} of at least {shown}, not {node.shown}"
            raise OptionError(message, f"write {wanted}", node)
        return value

    return OptionKind(read, {"type": "integer" if whole else "number", "minimum": least})


def _one_of(**words: Any) -> OptionKind:
    def read(name: str, node: Node) -> Any:
        if isinstance(node.value, str) and node.value.lower() in words:
            return words[node.value.lower()]
        listed = ", ".join(words)
        raise OptionError(f"`{name}` must be one of {listed}, not {node.shown}", f"use one of {listed}", node)

    return OptionKind(read, {"enum": list(words)})


def _texts(name: str, node: Node) -> tuple[str, ...]:
    values = [one.value for one in node.value] if isinstance(node.value, tuple) else [node.value]
    if not all(isinstance(value, str) and value for value in values):
        raise OptionError(f"`{name}` must be a list of names", "write them as [one, two]", node)
    return tuple(map(str, values))


def _folder(name: str, node: Node) -> str:
    import os.path

    path = os.path.expanduser(str(_TEXT.read(name, node)))
    if not os.path.isabs(path):
        hint = "write a path that begins with / or ~"
        raise OptionError(f"`{name}` must be an absolute path, not {node.shown}", hint, node)
    return path


def _rule(name: str, node: Node) -> str:
    from billhook.core.errors import RuleError
    from billhook.effects.rules import condition

    text: str = _TEXT.read(name, node)
    try:
        condition(text)
    except RuleError as error:
        raise OptionError(f"`{name}`: {error.message}", error.hint or "such as `Bash(git push *)`", node) from None
    return text


_FLAG: Final = _plain("true or false", {"type": "boolean"})
_TEXT: Final = _plain("a string", {"type": "string"})
_PRICE_FIELDS: Final = ("input", "output", "cache_read", "cache_write")


def _prices(name: str, node: Node) -> dict[str, dict[str, float]]:
    hint = 'such as {"*": {input: 3, output: 15}}, for a million tokens'
    if not isinstance(node.value, FieldNodes):
        raise OptionError(f"`{name}` must be a mapping, not {node.kind}", hint, node)
    found: dict[str, dict[str, float]] = {}
    for model, price in node.value:
        if not isinstance(price.value, FieldNodes):
            raise OptionError(f"the price of `{model.value}` must be a mapping, not {price.kind}", hint, price)
        given = {
            _known(key, dict.fromkeys(_PRICE_FIELDS, _PRICE), f"a price has no `{key.value}`"): value
            for key, value in price.value
        }
        found[str(model.value)] = {field: _PRICE.read(field, value) for field, value in given.items()}
        if not {"input", "output"} <= given.keys():
            raise OptionError(f"the price of `{model.value}` needs `input` and `output`", hint, price)
    return found


_PRICE: Final = _number(0)
_PRICES: Final = OptionKind(
    _prices,
    {
        "description": "For a cost: the prices of a million tokens, by model (globs).",
        "type": "object",
        "additionalProperties": {
            "type": "object",
            "properties": dict.fromkeys((*_PRICE_FIELDS, "cacheRead", "cacheWrite"), _PRICE.schema),
            "required": ["input", "output"],
            "additionalProperties": False,
        },
    },
)
_OF_A_LIMIT: Final[dict[str, OptionKind]] = {
    "rule": OptionKind(
        _rule, {"description": "Which calls count, such as `Bash(git push *)`; all without it.", "type": "string"}
    ),
    "at_most": _number(0),
    "per": _one_of(turn="turn", session="session", minute="minute", hour="hour", day="day"),
    "of": _one_of(calls="calls", minutes="minutes", tokens="tokens", cost="cost"),
    "prices": _PRICES,
    "then": _one_of(deny="deny", ask="ask", block="deny"),
    "scope": _one_of(session="session", fleet="fleet"),
    "offline": _one_of(local="local", deny="deny", block="deny"),
    "reason": _TEXT,
}
_WINDOWS: Final = ("minute", "hour", "day")  # of limits of the fleet
_PRESET: Final = _one_of(**{name: name for name in PRESETS})
_PRICED: Final = 'such as {at_most: 5, of: cost, per: session, prices: {"*": {input: 3, output: 15}}}'
_SUCH_AS: Final = "such as {rule: Bash, at_most: 5, per: turn}"


def _limits(name: str, node: Node) -> tuple[dict[str, Any], ...]:
    many = node.value if isinstance(node.value, tuple) else (node,)
    if len(many) > LARGEST_LIMITS:
        raise OptionError(f"`{name}` has {len(many)} limits; at most {LARGEST_LIMITS} are allowed", "merge some", node)
    return tuple(_limit(one) for one in many)


def _limit(node: Node) -> dict[str, Any]:
    if not isinstance(node.value, FieldNodes):
        raise OptionError(f"a limit must be a mapping, not {node.kind}", _SUCH_AS, node)
    limit: dict[str, Any] = {}
    for key, value in node.value:
        known = _known(key, _OF_A_LIMIT, f"a limit has no `{key.value}`")
        limit[known] = _OF_A_LIMIT[known].read(known, value)
    for needed in ("at_most", "per"):
        if needed not in limit:
            raise OptionError(f"a limit needs `{needed}`", _SUCH_AS, node)
    _check_unit(limit, node)
    return limit


def _check_unit(limit: Mapping[str, Any], node: Node) -> None:
    """Raises WrongError for keys that don't fit the unit."""
    unit = limit.get("of", "calls")
    hint = f"such as {{at_most: 60, of: {unit}, per: session}}"
    if unit == "minutes" and limit["per"] == "minute":
        raise OptionError("a limit of minutes must be per turn or session", hint, node)
    if unit in ("tokens", "cost") and limit["per"] != "session":
        raise OptionError(f"a limit of {unit} must be per session", hint, node)
    if unit != "cost" and limit["at_most"] % 1:
        raise OptionError(
            f"`at_most` must be a whole number, not `{limit['at_most']}`", "only a cost may be a part", node
        )
    if (unit == "cost") != bool(limit.get("prices")):
        raise OptionError("a limit of cost needs `prices`, and no other has them", _PRICED, node)
    example = "such as {at_most: 100, per: minute, scope: fleet}"
    if limit.get("scope") == "fleet" and (limit["per"] not in _WINDOWS or limit.get("of", "calls") != "calls"):
        raise OptionError("a limit of the fleet must be of calls per minute, hour or day", example, node)
    if limit.get("scope") != "fleet" and limit["per"] in _WINDOWS[1:]:
        raise OptionError(f"`per: {limit['per']}` is for limits of the fleet", example, node)
    if "offline" in limit and limit.get("scope") != "fleet":
        raise OptionError("`offline` is for limits of the fleet", "add scope: fleet", node)


LIMIT: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        **{key: kind.schema for key, kind in _OF_A_LIMIT.items()},
        "atMost": _OF_A_LIMIT["at_most"].schema,
        "then": {"enum": ["deny", "ask"]},
        "offline": {"enum": ["local", "deny"]},
    },
    "additionalProperties": False,
}
_NEVER: Final = lambda value: False


def _guard_fields(fields: FieldNodes) -> FieldNodes:
    """The fields of `guard:`. Every key but `preset` is a cell of the table, such as `delete:home: deny`. YAML reads
    `off` as a boolean."""
    pairs: list[tuple[Node, Node]] = []
    for key, value in fields:
        if folded(str(key.value)) == "preset":
            pairs.append((key, Node("off", value.line, value.column) if value.value is False else value))
        else:
            tried = value.value.get("shadow") if isinstance(value.value, FieldNodes) else None
            cell = FieldNodes(((key, value if tried is None else tried),))
            option = "cells" if tried is None else "shadow"  # `discard: {shadow: deny}`
            pairs.append((Node(option, key.line, key.column), Node(cell, key.line, key.column)))
    return FieldNodes(tuple(pairs))


def unknown_cell(cell: str) -> str:
    """A hint if the name of a cell of the guard's table is invalid; empty for a cell that can be set."""
    kind, colon, scope = cell.partition(":")
    if kind == "disarm":
        return "the protection of billhook itself can't be changed"
    if kind in KINDS and (scope in SCOPES if colon else True):
        return ""
    known = [f"{one}:{each}" for one in KINDS for each in SCOPES] if colon else KINDS
    return suggestion(cell, known, f"an effect, or effect:scope with one of {', '.join(SCOPES)}")


def _cells(name: str, node: Node) -> dict[str, str]:
    """The guard's table: effects, or effects in a scope, each with a decision."""
    found: dict[str, str] = {}
    for key, value in node.value if isinstance(node.value, FieldNodes) else ():
        if hint := unknown_cell(str(key.value)):
            raise OptionError(f"`guard` has no option `{key.value}`", hint, key, "BH202")
        if value.value not in DECISIONS:
            message = f"`{key.value}` must be one of {', '.join(DECISIONS)}, not {value.shown}"
            raise OptionError(message, f"use one of {', '.join(DECISIONS)}, or {{shadow: deny}} to try one", value)
        found[str(key.value)] = str(value.value)
    return found


OPTIONS: Final[Mapping[str, Sequence[Option]]] = {
    "guard": (
        Option("preset", "standard", _PRESET, lambda preset: preset != "off"),
        Option("cells", {}, OptionKind(_cells, {"type": "object"})),
        Option("shadow", {}, OptionKind(_cells, {})),
        Option("project_preset", "off", _PRESET),
        Option("project_cells", {}, OptionKind(_cells, {})),
    ),
    "turn-tracker": (Option("preserve_on_resume", True, _FLAG), Option("inject_context", False, _FLAG)),
    "session-naming": (),
    "event-logger": (
        Option("include_input", True, _FLAG, bool),
        Option("include_output", True, _FLAG, bool),
        Option("redact", True, _FLAG, bool),
        Option(
            "redact_keys",
            (),
            OptionKind(_texts, {"type": ["array", "string"], "items": {"type": "string"}}),
            adds_up=True,
        ),
        Option("on_log_failure", "warn", _one_of(warn="warn", deny="deny", block="deny"), lambda to: to == "deny"),
        Option("max_bytes", 64 << 20, _number(64 << 10, whole=True), _NEVER),
        Option("sync", False, _FLAG, bool),
        Option("export_head_to", "", OptionKind(_folder, {"type": "string"}), _NEVER),
        Option("export_head_every", 300, _number(1), _NEVER),
    ),
    "metrics": (Option("warn_ms", 1000, _number(0)),),
    "rate-limit": (
        Option("limits", (), OptionKind(_limits, {"anyOf": [LIMIT, {"type": "array", "items": LIMIT}]}), adds_up=True),
    ),
}
"""Every built-in with its options."""


def read_options(builtin: str, fields: FieldNodes) -> tuple[dict[str, Any], list[OptionError]]:
    """The options of a file, by their internal names; and an error for each invalid one."""
    known = {option.name: option.kind for option in OPTIONS[builtin]}
    if builtin == "rate-limit" and any(folded(str(key.value)) in ("atmost", "per", "rule") for key, _ in fields):
        first = fields.pairs[0][0]  # one limit, without a list around it
        fields = FieldNodes(((Node("limits", first.line, first.column), Node(fields, first.line, first.column)),))
    if builtin == "guard":
        fields = _guard_fields(fields)
        known = {name: known[name] for name in ("preset", "cells", "shadow")}
    settled: dict[str, Any] = {}
    wrong: list[OptionError] = []
    for key, value in fields:
        try:
            name = _known(key, known, f"`{builtin}` has no option `{key.value}`")
            if value.value is not None:
                found = known[name].read(name, value)
                settled[name] = {**settled.get(name, {}), **found} if isinstance(found, dict) else found
        except OptionError as error:
            wrong.append(error)
    return settled, wrong


def tightening(builtin: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """A project's options, without those that it can't set. The guard's get the prefix `project_`: they must never be
    looser than the user's options. Cells in shadow mode decide nothing, so any file may have them."""
    loose = refused(builtin, settings)
    kept = {name: value for name, value in settings.items() if name not in loose}
    if "cells" in kept:
        kept["cells"] = {cell: decision for cell, decision in kept["cells"].items() if cell not in loose}
    prefix = "project_" if builtin == "guard" else ""
    return {name if name == "shadow" else f"{prefix}{name}": value for name, value in kept.items()}


def _known(key: Node, known: Mapping[str, OptionKind], message: str) -> str:
    name = str(key.value)
    for one in known:
        if folded(one) == folded(name):
            return one
    hint = suggestion(name, known, f"known here: {', '.join(known)}" if known else "remove it")
    raise OptionError(message, hint, key, "BH202")


def refused(builtin: str, settings: Mapping[str, Any]) -> list[str]:
    """The options, and the cells of the guard's table, that a project's file can't set to these values."""
    options = [one.name for one in OPTIONS[builtin] if one.name in settings and not one.by_project(settings[one.name])]
    return [*options, *(cell for cell, decision in settings.get("cells", {}).items() if decision == "allow")]


def merged(builtin: str, trusted: Mapping[str, Any], less: Mapping[str, Any]) -> dict[str, Any]:
    """Options of two files, the more trusted one first."""
    both = {**less, **trusted}
    for option in OPTIONS[builtin]:
        if isinstance(option.default, dict):
            both[option.name] = {**less.get(option.name, {}), **trusted.get(option.name, {})}
        if option.adds_up and option.name in trusted and option.name in less:
            both[option.name] = (*trusted[option.name], *less[option.name])
    return both


def filled(builtin: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Every option with its value or default."""
    return {option.name: settings.get(option.name, option.default) for option in OPTIONS[builtin]}
