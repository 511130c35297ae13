"""Hooks more in a hooks.yaml, and all of its comments as they are."""

import json
import re
from typing import TYPE_CHECKING, Any, Final

from billhook.config.edit_json import FaultyFileError, faultless
from billhook.core.errors import BillhookError
from billhook.core.text import folded

if TYPE_CHECKING:
    import yaml

_HEAD: Final = "# Hooks that an agent's own file had. `billhook uninstall` puts them back there.\n"
_PARALLEL: Final = "parallelExecution: true\n"
_KEYS: Final = ("hooks", "handlers")


def with_hooks(
    data: bytes | None, file: str, hooks: dict[str, dict[str, Any]], *, parallel: bool
) -> tuple[bytes, tuple[str, ...]]:
    """The file with these hooks, and the texts that were added.

    `parallel`: they ran at once. A new file says so, and one that is there when it has no other opinion and none of its
    hooks can rely on an order. Raises FaultyFileError, and BillhookError where it had to be written anew.
    """
    if data is None or not data.strip():
        head = _HEAD + (_PARALLEL if parallel else "")
        piece = rendered(hooks, "  ", "\n")
        return f"{head}hooks:\n{piece}".encode(), (piece,)
    before = _read(data, file)
    mark = "\ufeff" if data.startswith(b"\xef\xbb\xbf") else ""
    text = data.decode("utf-8-sig")
    at, piece = _place(text, file, hooks)
    new = text[:at] + piece + text[at:]
    pieces: tuple[str, ...] = (piece,)
    if parallel and not says_parallel(data, file) and not _relies_on_order(before):
        said = _PARALLEL.replace("\n", "\r\n" if "\r\n" in text else "\n")
        if line := re.search(r"^(?:hooks|handlers)[ \t]*:", new, re.MULTILINE):
            new, pieces = new[: line.start()] + said + new[line.start() :], (piece, said)
    after = (mark + new).encode()
    _same_otherwise(before, _read(after, file), hooks, file)
    return after, pieces


def _relies_on_order(said: dict[str, Any]) -> bool:
    """Whether two of a file's hooks may meet, or one depends on another's place."""
    hooks = _hooks(said) or {}
    if not isinstance(hooks, dict) or not all(isinstance(one, dict) for one in hooks.values()):
        return True
    events: list[str] = []
    for one in hooks.values():
        wanted = one.get("events", one.get("event"))
        events += wanted if isinstance(wanted, list) else [str(wanted)]
        if {folded(str(key)) for key in one} & {"after", "dependson", "priority"}:
            return True
    names = [folded(str(event)) for event in events]
    return len(set(names)) < len(names) or "none" in names


def _hooks(said: dict[str, Any]) -> Any:
    return next((said[key] for key in _KEYS if key in said), None)


def is_bare(text: str) -> bool:
    """Whether nothing is left of a file that was made for hooks of an agent."""
    return text.removeprefix(_HEAD).removeprefix(_PARALLEL) == "hooks:\n" and text.startswith(_HEAD)


def names_in(data: bytes | None, file: str) -> set[str]:
    """What the hooks of a file are called."""
    found = (_hooks(_read(data, file)) if data is not None else None) or {}
    if isinstance(found, list):
        return {str(one.get("name") or one.get("id")) for one in found if isinstance(one, dict)}
    return set(found)


def hooks_in(data: bytes, file: str) -> dict[str, dict[str, Any]]:
    """The hooks of a file that have a name, as they are written."""
    found = _hooks(_read(data, file)) or {}
    if isinstance(found, list):
        named = [dict(one) for one in found if isinstance(one, dict) and "name" in one]
        return {str(one.pop("name")): one for one in named}
    return {str(name): one for name, one in found.items() if isinstance(one, dict)}


def pieces_of(data: bytes, hooks: dict[str, dict[str, Any]]) -> tuple[str, ...]:
    """The text of each of these hooks, as `with_hooks` would have added it; what is written otherwise is not found."""
    text = data.decode("utf-8", "surrogateescape")
    newline = "\r\n" if "\r\n" in text else "\n"
    pieces = []
    for name, fields in hooks.items():
        one = {name: fields}
        flowing = [_flowed(one, listed=listed) for listed in (False, True)]
        forms = [form(one, " " * indent, newline) for form in (rendered, _listed) for indent in range(8, -1, -1)]
        forms += [comma + said for comma in (", ", "") for said in flowing]
        pieces.append(next((form for form in forms if text.count(form) == 1), forms[0]))
    return tuple(pieces)


def says_parallel(data: bytes | None, file: str) -> bool:
    """Whether a file says how its hooks run: at once, or in turn."""
    said = _read(data, file) if data is not None else {}
    settings = said.get("settings")
    return "parallelExecution" in said or (isinstance(settings, dict) and "parallelExecution" in settings)


def rendered(hooks: dict[str, dict[str, Any]], indent: str, newline: str) -> str:
    """Hooks as YAML, each with its name in a line of its own."""
    return "".join(_dumped({name: fields}, indent, newline) for name, fields in hooks.items())


def _listed(hooks: dict[str, dict[str, Any]], indent: str, newline: str) -> str:
    return _dumped([{"name": name, **fields} for name, fields in hooks.items()], indent, newline)


def _dumped(value: object, indent: str, newline: str) -> str:
    import yaml

    class Dumper(yaml.SafeDumper):
        """Texts of several lines as lines."""

    def text(dumper: yaml.SafeDumper, said: str) -> yaml.ScalarNode:
        # some characters are line ends for YAML alone, and would tear the lines apart
        style = '"' if any(one in said for one in "\x85\u2028\u2029") else "|" if "\n" in said else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", said, style=style)

    Dumper.add_representer(str, text)
    lines = yaml.dump(value, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=1 << 20, indent=2).split("\n")
    return "".join((indent + line).rstrip() + newline for line in lines[:-1])


def _read(data: bytes, file: str) -> dict[str, Any]:
    node = faultless(data, file, file)
    plain = node.plain() if node is not None else {}
    if not isinstance(plain, dict):
        raise FaultyFileError("the file is no mapping", place=f"{file}:1", hint="write `hooks:` and names below it")
    return plain


def _place(text: str, file: str, hooks: dict[str, dict[str, Any]]) -> tuple[int, str]:
    """Where hooks are added, and what."""
    import yaml

    newline = "\r\n" if "\r\n" in text else "\n"
    root = yaml.compose(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    key, value = _hooks_of(root)
    if key is None or value is None:
        at = _line_end(text, _last(root) if isinstance(root, yaml.MappingNode) and root.value else None)
        piece = "hooks:" + newline + rendered(hooks, "  ", newline)
    elif isinstance(value, yaml.ScalarNode) and value.value == "":
        at, piece = _line_end(text, key), rendered(hooks, " " * (key.start_mark.column + 2), newline)
    elif isinstance(value, yaml.ScalarNode):
        place = f"{file}:{value.start_mark.line + 1}"
        raise FaultyFileError("`hooks` is no mapping", place=place, hint="put names or events below it")
    elif getattr(value, "flow_style", False):
        flowed = _flowed(hooks, listed=isinstance(value, yaml.SequenceNode))
        return value.end_mark.index - 1, (", " if value.value else "") + flowed
    else:
        render = _listed if isinstance(value, yaml.SequenceNode) else rendered
        at, piece = _line_end(text, _last(value)), render(hooks, " " * value.start_mark.column, newline)
    return at, (newline if at and text[at - 1] != "\n" else "") + piece


def _flowed(hooks: dict[str, dict[str, Any]], *, listed: bool) -> str:
    """Hooks for between brackets, where JSON is YAML."""
    value = [{"name": name, **fields} for name, fields in hooks.items()] if listed else hooks
    return json.dumps(value, ensure_ascii=False)[1:-1]


def _hooks_of(root: "yaml.Node | None") -> "tuple[yaml.Node | None, yaml.Node | None]":
    """The key and the value of the hooks, where there are any."""
    pairs = getattr(root, "value", None)
    found = reversed(pairs) if isinstance(pairs, list) else ()
    return next(((key, value) for key, value in found if key.value in _KEYS), (None, None))


def _last(node: "yaml.Node") -> "yaml.Node":
    """The scalar, or the flow collection, that ends a block."""
    import yaml

    while isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        node = last[1] if isinstance(node, yaml.MappingNode) else last
        if isinstance(node, yaml.ScalarNode) and node.value == "" and not node.style and isinstance(last, tuple):
            node = last[0]  # `key:` and nothing behind it
    return node


def _line_end(text: str, node: "yaml.Node | None") -> int:
    """Where the line after a node begins; the end of the text where there is none."""
    if node is None:
        return len(text)
    at: int = node.end_mark.index
    if node.end_mark.column == 0 and at and text[at - 1] == "\n":  # a block of text, which ends with its last line
        at = len(text[:at].rstrip("\r\n \t"))
    end = text.find("\n", at)
    return len(text) if end < 0 else end + 1


def _same_otherwise(before: dict[str, Any], after: dict[str, Any], hooks: dict[str, Any], file: str) -> None:
    """Make sure that nothing but these hooks came in."""
    key = next((key for key in _KEYS if key in after), "hooks")
    old, new = before.get(key), after.get(key)
    if isinstance(new, list):
        same = new == [*(old if isinstance(old, list) else ()), *({"name": name, **hooks[name]} for name in hooks)]
    else:
        same = new == {**(old if isinstance(old, dict) else {}), **hooks}
    rest = {name: value for name, value in after.items() if name != "parallelExecution" or name in before}
    if not same or {**before, key: new} != {**rest, key: new}:
        hint = "write its `hooks:` in lines of their own, a name in each"
        raise BillhookError("hooks can't be added without writing the file anew", place=file, hint=hint)
