"""`paths`, `when`, `once` and `cooldown` of an entry, each checked and reported at its place in the file."""

import re
from typing import TYPE_CHECKING, Any, Final

from billhook.config.conditions import GROUPS, PERIODS, TESTS, Tests
from billhook.config.declaration import PathGlobs
from billhook.config.nodes import FieldNodes, Node
from billhook.core.match import expression
from billhook.core.text import folded, suggestion

if TYPE_CHECKING:
    from billhook.config.entry import EntryReader

_UNITS: Final = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
_TIME: Final = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-z]*)\s*")
_NAMES: Final = {folded(name): name for name in (*TESTS, *GROUPS)}


def paths(entry: "EntryReader") -> PathGlobs:
    """`paths: [globs]`, for reading and writing alike, or `{read: [...], write: [...]}`."""
    node = entry.seen.get("paths")
    if node is None or not isinstance(node.value, FieldNodes):
        globs = entry.filled_texts("paths")
        return PathGlobs(globs, globs)
    found: dict[str, tuple[str, ...]] = {}
    for key, value in node.value:
        name = str(key.value)
        if name not in ("read", "write"):
            hint = suggestion(name, ("read", "write"), "`read` or `write`")
            entry.find("BH202", f"unknown key `{name}` in `paths`", key, hint=hint, fatal=True)
        found[name] = texts(entry, value, f"paths.{name}")
    if not found:
        entry.find("BH203", "`paths` is empty", node, hint="fill it in, or remove it", fatal=True)
    return PathGlobs(found.get("read", ()), found.get("write", ()))


def texts(entry: "EntryReader", node: Node, name: str) -> tuple[str, ...]:
    """One string or a list of strings, none of them empty."""
    values = (node,) if isinstance(node.value, str) else node.value
    found = tuple(str(one.value) for one in values) if isinstance(values, tuple) else ()
    if found and all(isinstance(one.value, str) and one.value.strip() for one in values):  # type: ignore[union-attr]
        return found
    is_empty = node.value in ("", ()) or node.is_a("a list of strings")
    message = f"`{name}` is empty" if is_empty else f"`{name}` must be a string or a list of strings, not {node.kind}"
    entry.find("BH203", message, node, hint="write a string, or several in `[...]`", fatal=True)
    return ()


def why(error: Exception) -> str:
    """RE2's message about an expression, which is bytes."""
    message = error.args[0] if error.args else error
    return message.decode("utf-8", "replace") if isinstance(message, bytes) else str(message)


def once(entry: "EntryReader") -> str:
    """`once: session`, `turn` or `project`. The `once: true` in an agent's file has a meaning only for that agent."""
    node = entry.seen.get("once")
    if node is None or node.value is None:
        return ""
    if isinstance(node.value, str) and node.value in PERIODS and entry.shape == "yaml":
        return node.value
    if entry.shape != "yaml":
        entry.find("BH510", "`once` has no effect here", node, hint="remove it")
    else:
        hint = suggestion(str(node.value), PERIODS, f"one of {', '.join(PERIODS)}")
        entry.find("BH206", f"`once` can't be `{node.value}`", node, hint=hint, fatal=True)
    return ""


def cooldown(entry: "EntryReader") -> float:
    """`cooldown: 30s`, `5m`, or a number of seconds."""
    node = entry.seen.get("cooldown")
    if node is None or node.value is None:
        return 0.0
    read = _TIME.fullmatch(str(node.value).lower()) if not isinstance(node.value, bool) else None
    if read is None or read[2] not in _UNITS or not 0 < float(read[1]) < 1e9:
        entry.find(
            "BH206",
            f"`cooldown` can't be `{node.value}`",
            node,
            hint="for example `cooldown: 30s`, `5m` or `2h`",
            fatal=True,
        )
        return 0.0
    return float(read[1]) * _UNITS[read[2]]


def when(entry: "EntryReader") -> Tests:
    """The tests of `when`, each with its expected value."""
    node = entry.seen.get("when")
    return _tests(entry, node, "when") if node is not None else ()


def _tests(entry: "EntryReader", node: Node, where: str) -> Tests:
    if not isinstance(node.value, FieldNodes) or not node.value.pairs:
        is_empty = node.value is None or isinstance(node.value, FieldNodes)
        message = f"`{where}` is empty" if is_empty else f"`{where}` must be a mapping of tests, not {node.kind}"
        hint = f"for example `{where}: {{file_exists: uv.lock}}`"
        if isinstance(node.value, str) and "(" in node.value:
            hint = f"a rule about the tool call belongs under `if`: `if: {node.value}`"
        entry.find("BH218", message, node, hint=hint, fatal=True)
        return ()
    return tuple(_test(entry, key, value, where) for key, value in node.value)


def _test(entry: "EntryReader", key: Node, value: Node, where: str) -> tuple[str, Any]:
    text = str(key.value)
    name = text if text.startswith("results.") else _NAMES.get(folded(text), "")
    if not name or name == "results.NAME.FIELD" or (name.startswith("results.") and name.count(".") < 2):
        hint = suggestion(text, (*TESTS, *GROUPS), f"one of {', '.join((*TESTS, *GROUPS))}")
        entry.find("BH218", f"unknown test `{text}` in `when`", key, hint=hint, fatal=True)
        return text, ()
    if name == "not":
        return name, _tests(entry, value, name)
    if name in GROUPS:
        return name, _group(entry, value, name)
    return name, _wanted(entry, name, value)


def _group(entry: "EntryReader", node: Node, name: str) -> tuple[Tests, ...]:
    if not isinstance(node.value, tuple) or not node.value:
        hint = f"write `{name}: [{{file_exists: a}}, {{file_exists: b}}]`"
        message = f"`{name}` is empty" if node.value == () else f"`{name}` must be a list of tests, not {node.kind}"
        entry.find("BH218", message, node, hint=hint, fatal=True)
        return ()
    return tuple(_tests(entry, one, name) for one in node.value)


def _wanted(entry: "EntryReader", name: str, node: Node) -> Any:
    if name in ("changed_files", "has_secret") and isinstance(node.value, bool):
        return node.value
    if name.startswith("results."):
        values = node.value if isinstance(node.value, tuple) else (node,)
        return tuple(one.value for one in values if not isinstance(one.value, FieldNodes | tuple))
    if name == "has_secret":
        entry.find("BH218", f"`{name}` must be true or false", node, hint=f"write `{name}: true`", fatal=True)
        return True
    found = texts(entry, node, name)
    for text in found if name in ("prompt", "commit_message") else ():
        try:
            expression(text.removeprefix("!") if name == "commit_message" else text)
        except Exception as error:
            entry.find(
                "BH218",
                f"the expression `{text}` can't be used: {why(error)}",
                node,
                hint="fix the expression (RE2 syntax)",
                fatal=True,
            )
    if name == "runs" and not all(text.lstrip("!")[:1].isalnum() for text in found):
        hint = 'for example `runs: [git push, "!git push --dry-run"]`'
        entry.find("BH218", "`runs` names no program", node, hint=hint, fatal=True)
    return found
