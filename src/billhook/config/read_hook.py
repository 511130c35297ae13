"""What a hook does and when, read from its entry: the action, `paths`, `when`, `once` and `cooldown`.

Each mistake is reported at its place in the file.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from billhook.config.build import GROUPS, PERIODS, TESTS, Tests
from billhook.config.declaration import (
    ACTIONS,
    TYPES,
    Action,
    AnswerKind,
    Exec,
    FixedAnswer,
    Mask,
    PathGlobs,
    Python,
    Rewrite,
    RunAction,
    UnsupportedAction,
    Url,
)
from billhook.config.nodes import FieldNodes, Node
from billhook.core import strictjson
from billhook.core.lazy import lazy_module
from billhook.core.match import expression
from billhook.core.text import folded, suggestion

if TYPE_CHECKING:
    from billhook.config import actions
    from billhook.config.entry import EntryReader
else:
    actions = lazy_module("billhook.config.actions")


def read_action(entry: "EntryReader") -> Action | None:
    """The action of an entry; None if it is broken, which is then in `entry.broken`."""
    kind = entry.text("type") if "type" in entry.seen else None
    if kind is not None and kind not in TYPES:
        hint, note = suggestion(kind, TYPES), entry.of_unknown_agent()
        entry.find("BH206", f"unknown type `{kind}`", entry.seen["type"], hint=hint, fatal=True, note=note)
        return None
    if kind in ("mcp_tool", "prompt", "agent"):
        hint = "use a command, an HTTP endpoint or a Python function instead"
        message = f"hooks of type `{kind}` are not supported yet"
        if entry.where.agent:
            message, hint = f"hooks of type `{kind}` are run by the agent, not by billhook", ""
        entry.find("BH207", message, entry.seen["type"], hint=hint, note=bool(entry.where.agent))
        return UnsupportedAction(kind)
    given: list[str] = [field for field in ACTIONS if field in entry.seen]
    wanted = {"command": "run", "http": "url"}.get(kind or "")
    if len(given) != 1 or wanted not in (None, given[0]):
        _not_one_action(entry, given, wanted)
        return None
    return _MAKERS[given[0]](entry) if given[0] in _MAKERS else _answer_action(entry, cast("AnswerKind", given[0]))


def _not_one_action(entry: "EntryReader", given: list[str], wanted: str | None) -> None:
    if wanted and wanted not in given:
        name = entry.spelt(wanted)
        message, hint = f"`{name}` is missing", f"add `{name}`"
    elif not given and entry.meant_action:  # reported as an unknown key
        entry.broken = entry.broken or f"unknown key `{entry.meant_action}`"
        return
    elif not given:
        message = f"{entry.subject} has no action"
        hint = f"add one of {', '.join(entry.spelt(field) for field in ACTIONS if field in entry.known)}"
    else:
        actions = ", ".join(f"`{entry.spelt(field)}`" for field in given)
        message = f"{entry.subject} has more than one action: {actions}"
        hint = "keep one of them, and write a second hook for the other"
    entry.refuse("BH204", message, entry.seen.get(given[1]) if len(given) > 1 else None, hint)


def _run(entry: "EntryReader") -> Action | None:
    node = entry.seen["run"]
    if isinstance(node.value, tuple):
        hint = '{"command": "program", "args": ["argument"]}' if entry.where.json else "exec: [program, argument]"
        entry.refuse("BH203", "`run` must be a string, not a list", node, f"write `{hint}`")
        return None
    text = _filled(entry, "run")
    if text is None:
        return None
    _check_shell_text(entry, text, node)
    if "args" in entry.seen:
        if "shell" in entry.seen:
            hint = "remove `shell`, or put all of it into `command`"
            entry.find("BH510", "`shell` has no effect together with `args`", entry.seen["shell"], hint=hint)
        return Exec((text, *entry.texts("args")))
    shell_name = _choice(entry, "shell", ("bash", "powershell", "sh"))
    login = _choice(entry, "login", ("auto", "exact", "no"))
    shell_name = "" if shell_name == "sh" else shell_name
    return RunAction(text, shell_name, cast("Literal['auto', 'exact', 'no']", login or "auto"))


def _check_shell_text(entry: "EntryReader", text: str, node: Node) -> None:
    """A value of an event must not become the program of a shell inside of the shell."""
    if entry.shape == "yaml" and "${" in text and (inner := actions.nested(text)):
        message = f"`${{...}}` can't be used in code that `{inner}` runs: the value would become part of the code"
        hint = "put the command into a script; it gets the event on stdin"
        entry.refuse("BH219", message, node, hint)


def _choice(entry: "EntryReader", field: str, known: tuple[str, ...]) -> str:
    node = entry.seen.get(field)
    if node is not None and node.value is False and "no" in known:
        return "no"  # YAML reads a bare `no` as a boolean
    word = entry.text(field)
    if word is None or word in known:
        return word or ""
    message = f"`{entry.spelt(field)}` can't be `{word}`"
    entry.refuse("BH206", message, entry.seen[field], suggestion(word, known))
    return ""


def _exec(entry: "EntryReader") -> Action | None:
    node = entry.seen["exec"]
    argv = entry.texts("exec")
    if isinstance(node.value, str):
        entry.refuse("BH203", "`exec` must be a list, not a string", node, _as_list(node.value))
        return None
    if not argv or not argv[0]:
        _still_empty(entry, "exec")
        return None
    _check_shell_text(entry, " ".join(argv), node)
    return Exec(argv)


def _python(entry: "EntryReader") -> Action | None:
    target = _filled(entry, "python")
    if target is None:
        return None
    from billhook.runners.worker import problem_with

    problem = "" if "${" in target else problem_with(target)
    if problem:
        hint = "name a function: `python: policies.guard:check`"
        entry.refuse("BH206", problem, entry.seen["python"], hint)
        return None
    return Python(target, entry.text("interpreter") or "", _options(entry))


def _options(entry: "EntryReader") -> str:
    """`options`, for the function: a mapping of anything."""
    node = entry.seen.get("options")
    if node is None or node.value is None:
        return ""
    if not isinstance(node.value, FieldNodes):
        entry.wrong_type("options", node, "a mapping")
        return ""
    return strictjson.dumps(node.plain())


def _url(entry: "EntryReader") -> Action | None:
    url = _filled(entry, "url")
    if url is None:
        return None
    if not url.lower().startswith(("http://", "https://")) and "${" not in url:
        hint = "write the whole URL: `https://example.com/hook`"
        entry.refuse("BH206", "`url` must begin with http:// or https://", entry.seen["url"], hint)
    return Url(url, tuple(_headers(entry)), entry.texts("allowed_env"))


def _headers(entry: "EntryReader") -> Iterator[tuple[str, str]]:
    node = entry.seen.get("headers")
    if node is None or node.value is None:
        return
    if isinstance(node.value, FieldNodes) and all(isinstance(value.value, str) for _, value in node.value):
        yield from ((str(key.value), str(value.value)) for key, value in node.value)
    else:
        entry.wrong_type("headers", node, "a mapping whose values are strings")


_NEEDS_TEXT: Final = ("inject", "notify", "keep_going")
_SOURCES: Final = {"inject": ("file", "command"), "keep_going": ("command", "text", "limit")}
"""What may be used instead of a string."""
USUAL_LIMIT: Final = 3  # times in one turn that an agent is kept going


def _answer_action(entry: "EntryReader", decision: "AnswerKind") -> Action | None:
    node = entry.seen[decision]
    limit = USUAL_LIMIT if decision == "keep_going" else 0
    if decision in _SOURCES and isinstance(node.value, FieldNodes):
        return _answer_from(entry, decision, node.value, limit)
    if decision not in _NEEDS_TEXT and node.value is True:  # `deny: true`: no reason is given
        return FixedAnswer(decision, "")
    return None if (text := _filled(entry, decision)) is None else FixedAnswer(decision, text, limit=limit)


def _answer_from(entry: "EntryReader", decision: "AnswerKind", fields: FieldNodes, limit: int) -> Action | None:
    """`inject: {file: NOTES.md}`, `keep_going: {command: scripts/test, limit: 3}`."""
    given: dict[str, Any] = {}
    for key, value in fields:
        name = str(key.value)
        fits = isinstance(value.value, int) and value.value > 0 if name == "limit" else isinstance(value.value, str)
        if name not in _SOURCES[decision]:
            hint = suggestion(name, _SOURCES[decision], f"one of {', '.join(_SOURCES[decision])}")
            entry.refuse("BH202", f"unknown key `{name}` in `{decision}`", key, hint)
        elif not fits or not value.value:
            wanted = "a number above 0" if name == "limit" else "a string"
            entry.refuse("BH203", f"`{decision}.{name}` must be {wanted}", value, f"write {wanted}")
        given[name] = value.value
    if not entry.broken and not {"file", "command", "text"} & given.keys():
        _still_empty(entry, decision)
    if {"file", "command"} <= given.keys():
        message = f"`{decision}` has both a file and a command"
        entry.refuse("BH204", message, entry.seen[decision], "keep one of them")
    if entry.broken:
        return None
    said = {name: str(given.get(name, "")) for name in ("text", "file", "command")}
    _check_shell_text(entry, said["command"], entry.seen[decision])
    return FixedAnswer(decision, **said, limit=given.get("limit", limit))


def _rewrite(entry: "EntryReader") -> Action | None:
    """`rewrite: {timeout: 60000}`, or `{command: {pip: uv pip}}` for programs of a shell line."""
    node = entry.seen["rewrite"]
    if not isinstance(node.value, FieldNodes) or not node.value.pairs:
        hint = "for example `rewrite: {command: {pip: uv pip}}`"
        entry.refuse("BH203", f"`rewrite` must be a mapping of fields, not {node.kind}", node, hint)
        return None
    fields: list[tuple[str, Any]] = []
    programs: list[tuple[str, str]] = []
    for key, value in node.value:
        if key.value == "command" and isinstance(value.value, FieldNodes):
            programs += ((str(old.value), str(new.value)) for old, new in value.value)
        elif isinstance(value.value, FieldNodes | tuple):
            message = f"`rewrite.{key.value}` must be one value, not {value.kind}"
            entry.refuse("BH203", message, value, "a Python function can write whole structures")
        else:
            fields.append((str(key.value), value.value))
    return Rewrite(tuple(fields), tuple(programs))


def _mask(entry: "EntryReader") -> Action | None:
    """`mask: [expressions]`, or `mask: secrets` for everything that redaction recognizes."""
    patterns = texts(entry, entry.seen["mask"], "mask")
    for text in patterns:
        _check_expression(entry, text, "BH206", entry.seen["mask"])
    return Mask(patterns) if patterns else None


def _filled(entry: "EntryReader", field: str) -> str | None:
    text = entry.text(field)
    if text is None:
        _still_empty(entry, field)
    return text


def _still_empty(entry: "EntryReader", field: str) -> None:
    if not entry.broken:
        message = f"`{entry.spelt(field)}` is empty"
        entry.refuse("BH204", message, entry.seen[field], "write a value")


def _as_list(text: str) -> str:
    import json
    import shlex

    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()
    return f"write `exec: {json.dumps(words, ensure_ascii=False)}`, or `run:` for a shell command"


_MAKERS: Final[Mapping[str, Callable[["EntryReader"], Action | None]]] = {
    "run": _run,
    "exec": _exec,
    "python": _python,
    "url": _url,
    "rewrite": _rewrite,
    "mask": _mask,
}


# -- conditions


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
            entry.refuse("BH202", f"unknown key `{name}` in `paths`", key, hint)
        found[name] = texts(entry, value, f"paths.{name}")
    if not found:
        entry.refuse("BH203", "`paths` is empty", node, "fill it in, or remove it")
    return PathGlobs(found.get("read", ()), found.get("write", ()))


def texts(entry: "EntryReader", node: Node, name: str) -> tuple[str, ...]:
    """One string or a list of strings, none of them empty."""
    values = (node,) if isinstance(node.value, str) else node.value
    found = tuple(str(one.value) for one in values) if isinstance(values, tuple) else ()
    if found and all(isinstance(one.value, str) and one.value.strip() for one in values):  # type: ignore[union-attr]
        return found
    is_empty = node.value in ("", ()) or node.is_a("a list of strings")
    message = f"`{name}` is empty" if is_empty else f"`{name}` must be a string or a list of strings, not {node.kind}"
    entry.refuse("BH203", message, node, "write a string, or several in `[...]`")
    return ()


def _check_expression(entry: "EntryReader", text: str, code: str, node: Node, *, negatable: bool = False) -> None:
    try:
        expression(text.removeprefix("!") if negatable else text)
    except Exception as error:
        why = error.args[0] if error.args else error
        why = why.decode("utf-8", "replace") if isinstance(why, bytes) else why  # RE2's message is bytes
        entry.refuse(code, f"the expression `{text}` can't be used: {why}", node, "fix the expression (RE2 syntax)")


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
        entry.refuse("BH206", f"`once` can't be {node.shown}", node, hint)
    return ""


def cooldown(entry: "EntryReader") -> float:
    """`cooldown: 30s`, `5m`, or a number of seconds."""
    node = entry.seen.get("cooldown")
    if node is None or node.value is None:
        return 0.0
    seconds = seconds_in(node)
    if not seconds:
        hint = "for example `cooldown: 30s`, `5m` or `2h`"
        entry.refuse("BH206", f"`cooldown` can't be {node.shown}", node, hint)
    return seconds


def seconds_in(node: Node) -> float:
    """A length of time, as in `30s`, `5m` or a number of seconds; 0 for anything else."""
    read = _TIME.fullmatch(str(node.value).lower()) if not isinstance(node.value, bool) else None
    if read is None or read[2] not in _UNITS or not 0 < float(read[1]) < 1e9:
        return 0.0
    return float(read[1]) * _UNITS[read[2]]


def approve(entry: "EntryReader") -> bool:
    """`approve: queue`: the hook's asks wait in the queue."""
    node = entry.seen.get("approve")
    if node is None or node.value is None:
        return False
    if node.value != "queue":
        entry.refuse("BH206", f"`approve` can't be {node.shown}", node, "write `approve: queue`, or remove it")
    return node.value == "queue"


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
        entry.refuse("BH218", message, node, hint)
        return ()
    return tuple(_test(entry, key, value, where) for key, value in node.value)


def _test(entry: "EntryReader", key: Node, value: Node, where: str) -> tuple[str, Any]:
    text = str(key.value)
    name = text if text.startswith("results.") else _NAMES.get(folded(text), "")
    if not name or name == "results.NAME.FIELD" or (name.startswith("results.") and name.count(".") < 2):
        hint = suggestion(text, (*TESTS, *GROUPS), f"one of {', '.join((*TESTS, *GROUPS))}")
        entry.refuse("BH218", f"unknown test `{text}` in `when`", key, hint)
        return text, ()
    if name == "not":
        return name, _tests(entry, value, name)
    if name in GROUPS:
        return name, _group(entry, value, name)
    return name, _condition_value(entry, name, value)


def _group(entry: "EntryReader", node: Node, name: str) -> tuple[Tests, ...]:
    if not isinstance(node.value, tuple) or not node.value:
        hint = f"write `{name}: [{{file_exists: a}}, {{file_exists: b}}]`"
        message = f"`{name}` is empty" if node.value == () else f"`{name}` must be a list of tests, not {node.kind}"
        entry.refuse("BH218", message, node, hint)
        return ()
    return tuple(_tests(entry, one, name) for one in node.value)


def _condition_value(entry: "EntryReader", name: str, node: Node) -> Any:
    if name in ("changed_files", "has_secret") and isinstance(node.value, bool):
        return node.value
    if name.startswith("results."):
        values = node.value if isinstance(node.value, tuple) else (node,)
        return tuple(one.value for one in values if not isinstance(one.value, FieldNodes | tuple))
    if name == "has_secret":
        entry.refuse("BH218", f"`{name}` must be true or false", node, f"write `{name}: true`")
        return True
    found = texts(entry, node, name)
    for text in found if name in ("prompt", "commit_message") else ():
        _check_expression(entry, text, "BH218", node, negatable=name == "commit_message")
    if name == "runs" and not all(text.lstrip("!")[:1].isalnum() for text in found):
        hint = 'for example `runs: [git push, "!git push --dry-run"]`'
        entry.refuse("BH218", "`runs` names no program", node, hint)
    return found
