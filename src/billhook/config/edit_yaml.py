"""Add hooks to a hooks.yaml, or remove them, and leave all comments as they are."""

from typing import TYPE_CHECKING, Any, Final

from billhook.config.edit_json import FaultyFileError, faultless
from billhook.core.errors import BillhookError, UsageError
from billhook.core.text import folded

if TYPE_CHECKING:
    import yaml

_FIRST: Final = "# Hooks for agents. `billhook list` shows what runs, `billhook check` finds mistakes.\n"
_MOVED: Final = _FIRST + "# `billhook uninstall` restores hooks with `x-adopted` to the agent's settings.\n"
_KEYS: Final = ("hooks", "handlers")


def with_hooks(data: bytes | None, file: str, hooks: dict[str, dict[str, Any]]) -> tuple[bytes, str]:
    """The file with these hooks, and the section that was added. Raises as `with_sections`."""
    (block,) = blocks_of(data, file, hooks)
    return with_sections(_MOVED.encode() if data is None else data, file, {"hooks": block}), block


def blocks_of(
    data: bytes | None, file: str, hooks: dict[str, dict[str, Any]], *, apart: bool = False
) -> tuple[str, ...]:
    """The section with these hooks as `with_hooks` adds it to the file; or one section for each hook."""
    listed = isinstance(_hooks(plain(data, file)) if data else None, list)
    groups = [{name: fields} for name, fields in hooks.items()] if apart else [hooks]
    return tuple(_dumped([{"name": name, **one[name]} for name in one] if listed else one) for one in groups)


def _hooks(data: dict[str, Any]) -> Any:
    return next((data[key] for key in _KEYS if key in data), None)


def names_in(data: bytes | None, file: str) -> set[str]:
    """The names of the hooks in a file."""
    found = (_hooks(plain(data, file)) if data is not None else None) or {}
    if isinstance(found, list):
        return {str(one.get("name") or one.get("id")) for one in found if isinstance(one, dict)}
    return set(found)


def hooks_in(data: bytes | None, file: str) -> dict[str, dict[str, Any]]:
    """The hooks of a file that have a name, as they are written."""
    found = (_hooks(plain(data, file)) if data else None) or {}
    if isinstance(found, list):
        named = [dict(one) for one in found if isinstance(one, dict) and "name" in one]
        return {str(one.pop("name")): one for one in named}
    return {str(name): one for name, one in found.items() if isinstance(one, dict)}


def _dumped(value: object) -> str:
    import yaml

    class Dumper(yaml.SafeDumper):
        """Writes strings with several lines as blocks."""

    def text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
        # some characters are line endings in YAML only, and would split lines
        style = '"' if any(one in value for one in "\x85\u2028\u2029") else "|" if "\n" in value else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Dumper.add_representer(str, text)
    return str(yaml.dump(value, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=1 << 20, indent=2))


def plain(data: bytes, file: str) -> dict[str, Any]:
    """The whole content of a file, as plain data. Raises FaultyFileError."""
    node = faultless(data, file, file)
    found = node.plain() if node is not None else {}
    if not isinstance(found, dict):
        raise FaultyFileError("the file is no mapping", place=f"{file}:1", hint="write `hooks:` and names below it")
    return found


def _last(node: "yaml.Node") -> "yaml.Node":
    """The scalar, or the flow collection, that ends a block."""
    import yaml

    while isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        node = last[1] if isinstance(node, yaml.MappingNode) else last
        if isinstance(node, yaml.ScalarNode) and node.value == "" and not node.style and isinstance(last, tuple):
            node = last[0]  # `key:` without a value
    return node


def _line_end(text: str, node: "yaml.Node | None") -> int:
    """The start of the line after a node; the end of the text if there is none."""
    if node is None:
        return len(text)
    at: int = node.end_mark.index
    if node.end_mark.column == 0 and at and text[at - 1] == "\n":  # a block string, which ends with its last line
        at = len(text[:at].rstrip("\r\n \t"))
    end = text.find("\n", at)
    return len(text) if end < 0 else end + 1


# -- sections of text, with their comments


_OURS: Final = 2  # columns below a key that was added with its first entry
_THEIRS: Final = 4  # columns below an empty key that was there before: removing the entries keeps that key


def with_sections(data: bytes | None, file: str, sections: dict[str, str]) -> bytes:
    """The file with more sections. Raises FaultyFileError, and BillhookError if it had to be rewritten."""
    import yaml

    before = plain(data, file) if data else {}
    mark, text = _text(_FIRST.encode() if data is None else data)
    try:
        for key, block in sections.items():
            text = _with_block(text, file, key, block)
    except yaml.YAMLError:  # the whole file is in brackets
        _check(False, "added", file)
    after = (mark + text).encode()
    _check(plain(after, file) == _merged(before, sections, file), "added", file)
    return after


def without_sections(data: bytes, file: str, sections: dict[str, str]) -> bytes | None:
    """The file as it was before these sections were added; None if there was none. Raises LookupError if the added text
    was changed or is missing, or if the file can't be read."""
    import yaml

    try:
        mark, text = _text(data)
        for key, block in reversed(sections.items()):
            text = _without_block(text, key, block)
        after = (mark + text).encode()
        if not _is_rest(plain(after, file) if after else {}, plain(data, file), sections):
            raise LookupError(file)
    except (BillhookError, UnicodeError, yaml.YAMLError) as error:
        raise LookupError(file) from error
    return None if text in (_FIRST, _MOVED) else after


def without_hooks(data: bytes, file: str, names: set[str]) -> bytes:
    """The file without these hooks and without the tests that name them."""
    mark, text = _text(data)
    before = plain(data, file)
    for key in ("tests", *_KEYS):
        text = _without_entries(text, key, names)
    after = (mark + text).encode()
    wanted = {key: value for key, value in before.items() if key not in ("tests", *_KEYS)}
    rest = {key: value for key, value in plain(after, file).items() if key not in ("tests", *_KEYS)}
    _check(rest == wanted and not names & names_in(after, file), "removed", file)
    return after


def _check(same: bool, done: str, file: str) -> None:
    if not same:
        hint = "write `hooks:` and its entries on separate lines, or edit the file by hand"
        raise BillhookError(f"hooks can't be {done} without rewriting the whole file", place=file, hint=hint)


def _text(data: bytes) -> tuple[str, str]:
    """The byte order mark, if there is one, and the text."""
    text = data.decode()
    return ("\ufeff", text[1:]) if text.startswith("\ufeff") else ("", text)


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _merged(before: dict[str, Any], sections: dict[str, str], file: str) -> dict[str, Any]:
    """The content of a file with sections added, as data."""
    import yaml

    after = dict(before)
    for key, block in sections.items():
        name = next((one for one in _KEYS if key == "hooks" and one in before), key)
        old, new = before.get(name), yaml.safe_load(block)
        if isinstance(old, dict) and isinstance(new, dict) and old.keys() & new.keys():
            message = f"`{sorted(old.keys() & new.keys())[0]}` is already in `{name}`"
            raise UsageError(message, place=file, hint="change it there, or add the recipe by hand: --print shows it")
        _check(old is None or type(old) is type(new), "added", file)
        after[name] = [*(old or ()), *new] if isinstance(new, list) else {**(old or {}), **new}
    return after


def _is_rest(after: dict[str, Any], before: dict[str, Any], sections: dict[str, str]) -> bool:
    """Whether `after` is `before` without exactly the content of the sections."""
    import yaml

    left = dict(before)
    for key, block in sections.items():
        name = next((one for one in _KEYS if key == "hooks" and one in before), key)
        gone = yaml.safe_load(block)
        if isinstance(gone, dict):
            left[name] = {one: value for one, value in before[name].items() if gone.get(one) != value}
        else:
            left[name] = list(before[name])
            for case in gone:
                left[name].remove(case)
    return {key: value for key, value in left.items() if value} == {key: one for key, one in after.items() if one}


def _composed(text: str, key: str) -> "tuple[yaml.Node | None, yaml.Node | None]":
    """A key of the file and its value, as nodes."""
    import yaml

    root = yaml.compose(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    pairs = root.value if isinstance(root, yaml.MappingNode) else []
    names = _KEYS if key == "hooks" else (key,)
    return next(((one, value) for one, value in reversed(pairs) if one.value in names), (None, None))


def _with_block(text: str, file: str, key: str, block: str) -> str:
    import yaml

    newline = _newline(text)
    ended = not text or text.endswith("\n")
    text += "" if ended else newline
    found, value = _composed(text, key)
    if found is None or value is None:
        gap = newline if text else ""
        text += f"{gap}{key}:{newline}{_indented(block, _OURS, newline)}"
    elif isinstance(value, yaml.ScalarNode) and value.value == "":
        text = _inserted(text, _line_end(text, found), _indented(block, found.start_mark.column + _THEIRS, newline))
    elif isinstance(value, yaml.ScalarNode):
        place = f"{file}:{value.start_mark.line + 1}"
        raise FaultyFileError(f"`{key}` must contain entries", place=place, hint="put them on separate lines below it")
    else:
        wanted = yaml.SequenceNode if block.startswith("- ") else yaml.MappingNode
        _check(isinstance(value, wanted) and not value.flow_style, "added", file)
        piece = _indented(block, value.start_mark.column, newline)
        gap = newline if isinstance(value, yaml.MappingNode) else ""
        text = _inserted(text, _line_end(text, _last(value)), gap + piece)
    return text if ended else text.removesuffix(newline)


def _inserted(text: str, at: int, piece: str) -> str:
    return text[:at] + piece + text[at:]


def _indented(block: str, column: int, newline: str) -> str:
    return "".join((" " * column + line).rstrip() + newline for line in block.splitlines())


def _without_block(text: str, key: str, block: str) -> str:
    """The text without a block that was added. Raises LookupError if it is not there exactly once, unchanged."""
    newline = _newline(text)
    ended = text.endswith("\n")
    text += "" if ended else newline
    for column in range(16, -1, -1):
        piece = newline + _indented(block, column, newline)
        if (newline + text).count(piece) == 1:
            at = (newline + text).index(piece)
            text = _cut(text, at, at + len(piece) - len(newline), key, column)
            return text if ended else text.removesuffix(newline)
    raise LookupError(key)


def _cut(text: str, start: int, end: int, key: str, column: int) -> str:
    """Remove lines, with the empty line before them; and the key above, if it was added for them."""
    newline = _newline(text)
    found, _ = _composed(text, key)
    first = found is not None and _line_end(text, found) == start
    indent = column - (found.start_mark.column if found is not None else 0)
    if text[:start].endswith(newline * 2) and key != "tests":
        start -= len(newline)
    elif first and indent == _OURS and text.startswith(newline + " ", end):
        end += len(newline)
    text = text[:start] + text[end:]
    found, value = _composed(text, key)
    if found is None or value is None or not first or indent != _OURS or value.value:
        return text
    at, end = found.start_mark.index, _line_end(text, found)
    at -= len(newline) if text[:at].endswith(newline * 2) or text[:at] == newline else 0
    return text[:at] + text[end:]


def _without_entries(text: str, key: str, names: set[str]) -> str:
    """The text without the hooks of these names, or the tests about them, and their comments from a recipe."""
    import yaml

    while True:
        _, value = _composed(text, key)
        nodes = value.value if isinstance(value, yaml.CollectionNode) and not value.flow_style else ()
        spans = [one if isinstance(one, tuple) else (one, one) for one in nodes]
        found = [(first, last) for first, last in spans if _is_about(first, last, key, names)]
        if not found:
            return text
        start = text.rfind("\n", 0, found[0][0].start_mark.index) + 1
        end = _line_end(text, _last(found[0][1]))
        text = _cut(text, _comment_above(text, start), end, key, _OURS)


def _is_about(first: "yaml.Node", last: "yaml.Node", key: str, names: set[str]) -> bool:
    import yaml

    if first is not last:
        return key in _KEYS and first.value in names
    fields = {one.value: value.value for one, value in last.value} if isinstance(last, yaml.MappingNode) else {}
    wanted = ("by", "without", "only") if key == "tests" else ("name",)
    return any(fields.get(one) in names for one in wanted)


def _comment_above(text: str, start: int) -> int:
    """The start of a recipe's comment that ends at this place; the place itself if there is none."""
    lines = text[:start].splitlines(keepends=True)
    taken = 0
    while taken < len(lines) and lines[-1 - taken].lstrip().startswith("#"):
        taken += 1
    comment = "".join(lines[len(lines) - taken :])
    return start - len(comment) if "billhook add " in comment else start


# -- shadow mode: a hook or a cell of the guard comes into force


def promoted_hook(data: bytes, file: str, name: str) -> bytes:
    """The file without `shadow: true` of this hook. Raises BillhookError if that needs an edit by hand."""
    mark, text = _text(data)
    _, hooks = _composed(text, "hooks")
    fields = _fields_of(hooks, name)
    key, value = next((pair for pair in fields if folded(str(pair[0].value)) == "shadow"), (None, None))
    if key is None or value is None:
        raise _by_hand(file, "remove `shadow: true` of the hook")
    start, end = key.start_mark.index, value.end_mark.index
    line = text.rfind("\n", 0, start) + 1
    if not text[line:start].strip():
        after = text[:line] + text[_line_end(text, value) :]
    else:  # between brackets, with a comma before or after it
        before, rest = text[:start].rstrip(), text[end:].lstrip()
        after = before.removesuffix(",") + text[end:] if before.endswith(",") else text[:start] + _after_comma(rest)
    wanted, found = _hook_data(plain(data, file), name), _hook_data(plain((mark + after).encode(), file), name)
    if {field: one for field, one in wanted.items() if folded(field) != "shadow"} != found:
        raise _by_hand(file, "remove `shadow: true` of the hook")
    return (mark + after).encode()


def promoted_cell(data: bytes, file: str, cell: str) -> bytes:
    """The file with `discard: deny` in place of `discard: {shadow: deny}`. Raises BillhookError, as above."""
    mark, text = _text(data)
    _, cells = _composed(text, "guard")
    pairs = cells.value if cells is not None and isinstance(cells.value, list) else []
    key, value = next((pair for pair in pairs if pair[0].value == cell), (None, None))
    wanted = plain(data, file)
    decision = _decision(wanted, cell)
    if key is None or value is None or not decision:
        raise _by_hand(file, f"write `{cell}: DECISION` in place of its `shadow`")
    inner = value.value[-1][1]
    end = value.end_mark.index if value.flow_style else inner.end_mark.index
    after = f"{mark}{text[: key.end_mark.index]}: {decision}{text[end:]}".encode()
    if plain(after, file) != {**wanted, "guard": {**wanted["guard"], cell: decision}}:
        raise _by_hand(file, f"write `{cell}: {decision}` in place of its `shadow`")
    return after


def _decision(data: dict[str, Any], cell: str) -> str:
    cells = data.get("guard")
    tried = cells.get(cell) if isinstance(cells, dict) else None
    return str(tried["shadow"]) if isinstance(tried, dict) and [*tried] == ["shadow"] else ""


def _fields_of(hooks: "yaml.Node | None", name: str) -> "list[tuple[yaml.Node, yaml.Node]]":
    import yaml

    pairs = hooks.value if isinstance(hooks, yaml.MappingNode) else []
    items = hooks.value if isinstance(hooks, yaml.SequenceNode) else []
    found = [value for key, value in pairs if key.value == name] + [one for one in items if _is_called(one, name)]
    return found[0].value if len(found) == 1 and isinstance(found[0], yaml.MappingNode) else []


def _is_called(node: "yaml.Node", name: str) -> bool:
    import yaml

    fields = node.value if isinstance(node, yaml.MappingNode) else []
    return any(key.value in ("name", "id") and value.value == name for key, value in fields)


def _hook_data(data: dict[str, Any], name: str) -> dict[str, Any]:
    hooks = _hooks(data)
    items = [one for one in hooks if name in (one.get("name"), one.get("id"))] if isinstance(hooks, list) else []
    return dict(items[0] if items else hooks[name]) if hooks else {}


def _after_comma(text: str) -> str:
    return text.removeprefix(",").lstrip(" ")


def _by_hand(file: str, what: str) -> BillhookError:
    return BillhookError("the file can't be edited automatically", place=file, hint=f"edit it by hand: {what}")
