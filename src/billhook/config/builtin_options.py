"""The options of built-ins: their spellings and values, and which files may set them.

A project's file can only tighten: it may record more, never less.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from billhook.config.nodes import FieldNodes, Node
from billhook.core.text import folded, suggestion
from billhook.effects.effect import KINDS, SCOPES

DECISIONS: Final = ("allow", "ask", "deny")
PRESETS: Final = ("standard", "strict", "off")
LARGEST_LIMITS: Final = 50  # limits that one file may set: each is checked before every tool call


class WrongError(Exception):
    """An option with an invalid value; the hint has valid ones."""

    def __init__(self, message: str, hint: str, node: Node, code: str = "BH203") -> None:
        super().__init__(message)
        self.code, self.hint, self.node = code, hint, node


class OptionKind(msgspec.Struct, frozen=True):
    """The values that an option may have."""

    read: Callable[[str, Node], Any]  # its value from a node of a file; raises WrongError
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
            raise WrongError(f"`{name}` must be {wanted}, not {node.kind}", f"write {wanted}", node)
        return node.value

    return OptionKind(read, schema)


def _number(least: float, *, whole: bool = False) -> OptionKind:
    below, wanted = (1 << 62, "a whole number") if whole else (1e15, "a number")

    def read(name: str, node: Node) -> Any:
        value: Any = node.value
        if not node.is_a("a number") or (whole and isinstance(value, float)) or not least <= value < below:
            shown = f"{least}" if whole else f"{least:g}"
            message = f"`{name}` must be {wanted} of at least {shown}, not {_shown(node)}"
            raise WrongError(message, f"write {wanted}", node)
        return value

    return OptionKind(read, {"type": "integer" if whole else "number", "minimum": least})


def _one_of(**words: Any) -> OptionKind:
    def read(name: str, node: Node) -> Any:
        if isinstance(node.value, str) and node.value.lower() in words:
            return words[node.value.lower()]
        listed = ", ".join(words)
        raise WrongError(f"`{name}` must be one of {listed}, not {_shown(node)}", f"use one of {listed}", node)

    return OptionKind(read, {"enum": list(words)})


def _texts(name: str, node: Node) -> tuple[str, ...]:
    values = [one.value for one in node.value] if isinstance(node.value, tuple) else [node.value]
    if not all(isinstance(value, str) and value for value in values):
        raise WrongError(f"`{name}` must be a list of names", "write them as [one, two]", node)
    return tuple(map(str, values))


def _folder(name: str, node: Node) -> str:
    import os.path

    path = os.path.expanduser(str(_TEXT.read(name, node)))
    if not os.path.isabs(path):
        hint = "write a path that begins with / or ~"
        raise WrongError(f"`{name}` must be an absolute path, not {_shown(node)}", hint, node)
    return path


def _rule(name: str, node: Node) -> str:
    from billhook.core.errors import RuleError
    from billhook.effects.rules import condition

    text: str = _TEXT.read(name, node)
    try:
        condition(text)
    except RuleError as error:
        raise WrongError(f"`{name}`: {error.message}", error.hint or "such as `Bash(git push *)`", node) from None
    return text


_FLAG: Final = _plain("true or false", {"type": "boolean"})
_TEXT: Final = _plain("a string", {"type": "string"})
_OF_A_LIMIT: Final[dict[str, OptionKind]] = {
    "rule": OptionKind(
        _rule, {"description": "Which calls count, such as `Bash(git push *)`; all without it.", "type": "string"}
    ),
    "at_most": _number(0, whole=True),
    "per": _one_of(turn="turn", session="session", minute="minute"),
    "of": _one_of(calls="calls", minutes="minutes"),
    "then": _one_of(deny="deny", ask="ask", block="deny"),
    "reason": _TEXT,
}
_PRESET: Final = _one_of(**{name: name for name in PRESETS})
_SUCH_AS: Final = "such as {rule: Bash, at_most: 5, per: turn}"


def _limits(name: str, node: Node) -> tuple[dict[str, Any], ...]:
    many = node.value if isinstance(node.value, tuple) else (node,)
    if len(many) > LARGEST_LIMITS:
        raise WrongError(f"`{name}` has {len(many)} limits; at most {LARGEST_LIMITS} are allowed", "merge some", node)
    return tuple(_limit(one) for one in many)


def _limit(node: Node) -> dict[str, Any]:
    if not isinstance(node.value, FieldNodes):
        raise WrongError(f"a limit must be a mapping, not {node.kind}", _SUCH_AS, node)
    limit: dict[str, Any] = {}
    for key, value in node.value:
        known = _known(key, _OF_A_LIMIT, f"a limit has no `{key.value}`")
        limit[known] = _OF_A_LIMIT[known].read(known, value)
    for needed in ("at_most", "per"):
        if needed not in limit:
            raise WrongError(f"a limit needs `{needed}`", _SUCH_AS, node)
    if limit.get("of") == "minutes" and limit["per"] == "minute":
        raise WrongError(
            "a limit of minutes must be per turn or session", "such as {at_most: 60, of: minutes, per: session}", node
        )
    return limit


LIMIT: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        **{key: kind.schema for key, kind in _OF_A_LIMIT.items()},
        "atMost": _OF_A_LIMIT["at_most"].schema,
        "then": {"enum": ["deny", "ask"]},
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
            raise WrongError(f"`guard` has no option `{key.value}`", hint, key, "BH202")
        if value.value not in DECISIONS:
            message = f"`{key.value}` must be one of {', '.join(DECISIONS)}, not {_shown(value)}"
            raise WrongError(message, f"use one of {', '.join(DECISIONS)}, or {{shadow: deny}} to try one", value)
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


def read_options(builtin: str, fields: FieldNodes) -> tuple[dict[str, Any], list[WrongError]]:
    """The options of a file, by their internal names; and an error for each invalid one."""
    known = {option.name: option.kind for option in OPTIONS[builtin]}
    if builtin == "rate-limit" and any(folded(str(key.value)) in ("atmost", "per", "rule") for key, _ in fields):
        first = fields.pairs[0][0]  # one limit, without a list around it
        fields = FieldNodes(((Node("limits", first.line, first.column), Node(fields, first.line, first.column)),))
    if builtin == "guard":
        fields = _guard_fields(fields)
        known = {name: known[name] for name in ("preset", "cells", "shadow")}
    settled: dict[str, Any] = {}
    wrong: list[WrongError] = []
    for key, value in fields:
        try:
            name = _known(key, known, f"`{builtin}` has no option `{key.value}`")
            if value.value is not None:
                found = known[name].read(name, value)
                settled[name] = {**settled.get(name, {}), **found} if isinstance(found, dict) else found
        except WrongError as error:
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
    raise WrongError(message, hint, key, "BH202")


def _shown(node: Node) -> str:
    return f"`{node.value}`" if isinstance(node.value, str | int | float) else node.kind


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
