"""The options of built-ins: their spellings, what each may be, and who may set it.

A file of the project can only tighten: it may ask for more to be recorded, never for less.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from billhook.config.findings import folded, nearest
from billhook.config.nodes import Fields, Node

LARGEST_LIMITS: Final = 50  # limits that one file may set: each is looked at before every tool call


class WrongError(Exception):
    """An option that can't be what it is set to; the hint says what it could be."""

    def __init__(self, message: str, hint: str, node: Node, code: str = "BH203") -> None:
        super().__init__(message)
        self.code = code
        self.hint = hint
        self.node = node


class Option(msgspec.Struct, frozen=True):
    """One option of a built-in."""

    name: str
    default: Any
    read: Callable[[str, Node], Any]  # its value from what a file says; raises WrongError
    schema: dict[str, Any]  # the same for editors
    by_project: Callable[[Any], bool] = lambda value: True  # whether a file of the project may set this value
    adds_up: bool = False  # every file adds to it; otherwise the most trusted one decides


def _flag(name: str, node: Node) -> bool:
    if not isinstance(node.value, bool):
        raise WrongError(f"`{name}` must be true or false, not {node.kind}", "write true or false", node)
    return node.value


def _number(least: float) -> Callable[[str, Node], float]:
    def read(name: str, node: Node) -> float:
        value = node.value
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value < 1e15:
            raise WrongError(f"`{name}` is {_shown(node)}; it must be a number from {least:g} on", "write one", node)
        return value

    return read


def _whole(least: int) -> Callable[[str, Node], int]:
    def read(name: str, node: Node) -> int:
        value = node.value
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 1 << 62:
            raise WrongError(
                f"`{name}` is {_shown(node)}; it must be a whole number from {least} on", "write one", node
            )
        return value

    return read


def _one_of(**words: Any) -> Callable[[str, Node], Any]:
    def read(name: str, node: Node) -> Any:
        if isinstance(node.value, str) and node.value.lower() in words:
            return words[node.value.lower()]
        listed = ", ".join(dict.fromkeys(words))
        raise WrongError(f"`{name}` is {_shown(node)}; it must be one of {listed}", f"one of {listed}", node)

    return read


def _texts(name: str, node: Node) -> tuple[str, ...]:
    values = [one.value for one in node.value] if isinstance(node.value, tuple) else [node.value]
    if not all(isinstance(value, str) and value for value in values):
        raise WrongError(f"`{name}` must be a list of names", "write them as [one, two]", node)
    return tuple(map(str, values))


def _text(name: str, node: Node) -> str:
    if not isinstance(node.value, str):
        raise WrongError(f"`{name}` must be a string, not {node.kind}", "write a string", node)
    return node.value


def _folder(name: str, node: Node) -> str:
    import os.path

    path = os.path.expanduser(_text(name, node))
    if not os.path.isabs(path):
        hint = "write a path that begins with / or ~"
        raise WrongError(f"`{name}` is {_shown(node)}; it must be an absolute path", hint, node)
    return path


def _rule(name: str, node: Node) -> str:
    from billhook.errors import RuleError
    from billhook.rules import condition

    text = _text(name, node)
    try:
        condition(text)
    except RuleError as error:
        raise WrongError(f"`{name}`: {error.message}", error.hint or "such as `Bash(git push *)`", node) from None
    return text


_OF_A_LIMIT: Final[dict[str, Callable[[str, Node], Any]]] = {
    "rule": _rule,
    "at_most": _whole(0),
    "per": _one_of(turn="turn", session="session", minute="minute"),
    "then": _one_of(deny="deny", ask="ask", block="deny"),
    "reason": _text,
}


def _limits(name: str, node: Node) -> tuple[dict[str, Any], ...]:
    many = node.value if isinstance(node.value, tuple) else (node,)
    if len(many) > LARGEST_LIMITS:
        raise WrongError(f"`{name}` has {len(many)} limits; at most {LARGEST_LIMITS} are taken", "merge some", node)
    return tuple(_limit(one) for one in many)


def _limit(node: Node) -> dict[str, Any]:
    if not isinstance(node.value, Fields):
        raise WrongError(
            f"a limit must be a mapping, not {node.kind}", "such as {rule: Bash, at_most: 5, per: turn}", node
        )
    limit: dict[str, Any] = {}
    for key, value in node.value:
        known = next((one for one in _OF_A_LIMIT if folded(one) == folded(str(key.value))), "")
        if not known:
            raise _unknown(f"a limit has no `{key.value}`", str(key.value), tuple(_OF_A_LIMIT), key)
        limit[known] = _OF_A_LIMIT[known](known, value)
    for needed in ("at_most", "per"):
        if needed not in limit:
            raise WrongError(f"a limit needs `{needed}`", "such as {rule: Bash, at_most: 5, per: turn}", node)
    return limit


_FLAG: Final = {"type": "boolean"}
LIMIT: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "rule": {"description": "Which calls count, such as `Bash(git push *)`; all without it.", "type": "string"},
        **{key: {"type": "integer", "minimum": 0} for key in ("at_most", "atMost")},
        "per": {"enum": ["turn", "session", "minute"]},
        "then": {"enum": ["deny", "ask"]},
        "reason": {"type": "string"},
    },
    "additionalProperties": False,
}
OPTIONS: Final[Mapping[str, Sequence[Option]]] = {
    "self-protection": (),
    "turn-tracker": (
        Option("preserve_on_resume", True, _flag, _FLAG),
        Option("inject_context", False, _flag, _FLAG),
    ),
    "session-naming": (),
    "event-logger": (
        Option("include_input", True, _flag, _FLAG, bool),
        Option("include_output", True, _flag, _FLAG, bool),
        Option("redact", True, _flag, _FLAG, bool),
        Option("redact_keys", (), _texts, {"type": ["array", "string"], "items": {"type": "string"}}, adds_up=True),
        Option(
            "on_log_failure",
            "warn",
            _one_of(warn="warn", deny="deny", block="deny"),
            {"enum": ["warn", "deny", "block"]},
            lambda to: to == "deny",
        ),
        Option("max_bytes", 64 << 20, _whole(64 << 10), {"type": "integer", "minimum": 64 << 10}, lambda value: False),
        Option("sync", False, _flag, _FLAG, bool),
        Option("export_head_to", "", _folder, {"type": "string"}, lambda value: False),
        Option("export_head_every", 300, _number(1), {"type": "number", "minimum": 1}, lambda value: False),
    ),
    "metrics": (Option("warn_ms", 1000, _number(0), {"type": "number", "minimum": 0}),),
    "rate-limit": (Option("limits", (), _limits, {"anyOf": [LIMIT, {"type": "array", "items": LIMIT}]}, adds_up=True),),
}
"""Every built-in with its options."""


def read_options(builtin: str, fields: Fields) -> tuple[dict[str, Any], list[WrongError]]:
    """What a file sets, by our names; and what is wrong with the rest."""
    known = {option.name: option for option in OPTIONS[builtin]}
    if builtin == "rate-limit" and _is_one_limit(fields):
        first = fields.pairs[0][0]
        fields = Fields(((Node("limits", first.line, first.column), Node(fields, first.line, first.column)),))
    settled: dict[str, Any] = {}
    wrong: list[WrongError] = []
    for key, value in fields:
        name = next((one for one in known if folded(one) == folded(str(key.value))), "")
        try:
            if not name:
                raise _unknown(f"`{builtin}` has no option `{key.value}`", str(key.value), tuple(known), key)
            if value.value is not None:
                settled[name] = known[name].read(name, value)
        except WrongError as error:
            wrong.append(error)
    return settled, wrong


def _is_one_limit(fields: Fields) -> bool:
    """One limit may stand there without a list around it."""
    return any(folded(str(key.value)) in ("atmost", "per", "rule") for key, _ in fields)


def _unknown(message: str, name: str, known: tuple[str, ...], node: Node) -> WrongError:
    near = nearest(name, known)
    hint = f"did you mean `{near}`?" if near else f"known here: {', '.join(known)}" if known else "remove it"
    return WrongError(message, hint, node, "BH202")


def _shown(node: Node) -> str:
    return f"`{node.value}`" if isinstance(node.value, str | int | float) else node.kind


def refused(builtin: str, settings: Mapping[str, Any]) -> list[str]:
    """Which of these options a file of the project can't set."""
    return [one.name for one in OPTIONS[builtin] if one.name in settings and not one.by_project(settings[one.name])]


def merged(builtin: str, trusted: Mapping[str, Any], less: Mapping[str, Any]) -> dict[str, Any]:
    """Options of two files, the more trusted one first."""
    both = {**less, **trusted}
    for option in OPTIONS[builtin]:
        if option.adds_up and option.name in trusted and option.name in less:
            both[option.name] = (*trusted[option.name], *less[option.name])
    return both


def filled(builtin: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Every option, with what is set or its default."""
    return {option.name: settings.get(option.name, option.default) for option in OPTIONS[builtin]}
