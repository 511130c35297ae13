"""What a hook does, read from its entry."""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from billhook.config import read_conditions
from billhook.config.declaration import (
    ACTIONS,
    TYPES,
    Action,
    AnswerKind,
    Exec,
    Mask,
    NotYet,
    Python,
    Rewrite,
    RunAction,
    Say,
    Url,
)
from billhook.config.nodes import FieldNodes, Node
from billhook.core import strictjson
from billhook.core.lazy import later
from billhook.core.match import expression
from billhook.core.text import suggestion

if TYPE_CHECKING:
    from billhook.config import variables
    from billhook.config.entry import EntryReader
else:
    variables = later("billhook.config.variables")


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
        return NotYet(kind)
    given: list[str] = [field for field in ACTIONS if field in entry.seen]
    wanted = {"command": "run", "http": "url"}.get(kind or "")
    if len(given) != 1 or wanted not in (None, given[0]):
        _not_one_action(entry, given, wanted)
        return None
    return _MAKERS[given[0]](entry) if given[0] in _MAKERS else _say(entry, cast("AnswerKind", given[0]))


def _not_one_action(entry: "EntryReader", given: list[str], wanted: str | None) -> None:
    if wanted and wanted not in given:
        name = entry.spelt(wanted)
        message, hint = f"`{name}` is missing", f"add `{name}`"
    elif not given:
        message = f"{entry.subject} has no action"
        hint = f"add one of {', '.join(entry.spelt(field) for field in ACTIONS if field in entry.known)}"
    else:
        actions = ", ".join(f"`{entry.spelt(field)}`" for field in given)
        message = f"{entry.subject} has more than one action: {actions}"
        hint = "keep one of them, and write a second hook for the other"
    entry.find("BH204", message, entry.seen.get(given[1]) if len(given) > 1 else None, hint=hint, fatal=True)


def _run(entry: "EntryReader") -> Action | None:
    node = entry.seen["run"]
    if isinstance(node.value, tuple):
        hint = '{"command": "program", "args": ["argument"]}' if entry.where.json else "exec: [program, argument]"
        entry.find("BH203", "`run` must be a string, not a list", node, hint=f"write `{hint}`", fatal=True)
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
    if entry.shape == "yaml" and "${" in text and (inner := variables.nested(text)):
        message = f"`{inner}` runs its text as a program, which must not contain values of the event (`${{...}}`)"
        hint = "put the command into a script; it gets the event on stdin"
        entry.find("BH219", message, node, hint=hint, fatal=True)


def _choice(entry: "EntryReader", field: str, known: tuple[str, ...]) -> str:
    node = entry.seen.get(field)
    if node is not None and node.value is False and "no" in known:
        return "no"  # YAML reads a bare `no` as a boolean
    word = entry.text(field)
    if word is None or word in known:
        return word or ""
    message = f"`{entry.spelt(field)}` can't be `{word}`"
    entry.find("BH206", message, entry.seen[field], hint=suggestion(word, known), fatal=True)
    return ""


def _exec(entry: "EntryReader") -> Action | None:
    node = entry.seen["exec"]
    argv = entry.texts("exec")
    if isinstance(node.value, str):
        entry.find("BH203", "`exec` must be a list, not a string", node, hint=_as_list(node.value), fatal=True)
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
        entry.find("BH206", problem, entry.seen["python"], hint=hint, fatal=True)
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
        entry.find("BH206", "`url` must begin with http:// or https://", entry.seen["url"], hint=hint, fatal=True)
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


def _say(entry: "EntryReader", decision: "AnswerKind") -> Action | None:
    node = entry.seen[decision]
    limit = USUAL_LIMIT if decision == "keep_going" else 0
    if decision in _SOURCES and isinstance(node.value, FieldNodes):
        return _said_by(entry, decision, node.value, limit)
    if decision not in _NEEDS_TEXT and node.value is True:  # `deny: true`: no reason is given
        return Say(decision, "")
    return None if (text := _filled(entry, decision)) is None else Say(decision, text, limit=limit)


def _said_by(entry: "EntryReader", decision: "AnswerKind", fields: FieldNodes, limit: int) -> Action | None:
    """`inject: {file: NOTES.md}`, `keep_going: {command: scripts/test, limit: 3}`."""
    given: dict[str, Any] = {}
    for key, value in fields:
        name = str(key.value)
        fits = isinstance(value.value, int) and value.value > 0 if name == "limit" else isinstance(value.value, str)
        if name not in _SOURCES[decision]:
            hint = suggestion(name, _SOURCES[decision], f"one of {', '.join(_SOURCES[decision])}")
            entry.find("BH202", f"unknown key `{name}` in `{decision}`", key, hint=hint, fatal=True)
        elif not fits or not value.value:
            wanted = "a number above 0" if name == "limit" else "a string"
            entry.find("BH203", f"`{decision}.{name}` must be {wanted}", value, hint=f"write {wanted}", fatal=True)
        given[name] = value.value
    if not entry.broken and not {"file", "command", "text"} & given.keys():
        _still_empty(entry, decision)
    if {"file", "command"} <= given.keys():
        message = f"`{decision}` has both a file and a command"
        entry.find("BH204", message, entry.seen[decision], hint="keep one of them", fatal=True)
    if entry.broken:
        return None
    said = {name: str(given.get(name, "")) for name in ("text", "file", "command")}
    _check_shell_text(entry, said["command"], entry.seen[decision])
    return Say(decision, **said, limit=given.get("limit", limit))


def _rewrite(entry: "EntryReader") -> Action | None:
    """`rewrite: {timeout: 60000}`, or `{command: {pip: uv pip}}` for programs of a shell line."""
    node = entry.seen["rewrite"]
    if not isinstance(node.value, FieldNodes) or not node.value.pairs:
        hint = "for example `rewrite: {command: {pip: uv pip}}`"
        entry.find("BH203", f"`rewrite` must be a mapping of fields, not {node.kind}", node, hint=hint, fatal=True)
        return None
    fields: list[tuple[str, Any]] = []
    programs: list[tuple[str, str]] = []
    for key, value in node.value:
        if key.value == "command" and isinstance(value.value, FieldNodes):
            programs += ((str(old.value), str(new.value)) for old, new in value.value)
        elif isinstance(value.value, FieldNodes | tuple):
            message = f"`rewrite.{key.value}` must be one value, not {value.kind}"
            entry.find("BH203", message, value, hint="a Python function can write whole structures", fatal=True)
        else:
            fields.append((str(key.value), value.value))
    return Rewrite(tuple(fields), tuple(programs))


def _mask(entry: "EntryReader") -> Action | None:
    """`mask: [expressions]`, or `mask: secrets` for everything that redaction recognizes."""
    patterns = read_conditions.texts(entry, entry.seen["mask"], "mask")
    for text in patterns:
        try:
            expression(text)
        except Exception as error:
            entry.find(
                "BH206",
                f"the expression `{text}` can't be used: {read_conditions.why(error)}",
                entry.seen["mask"],
                hint="fix the expression (RE2 syntax)",
                fatal=True,
            )
    return Mask(patterns) if patterns else None


def _filled(entry: "EntryReader", field: str) -> str | None:
    text = entry.text(field)
    if text is None:
        _still_empty(entry, field)
    return text


def _still_empty(entry: "EntryReader", field: str) -> None:
    if not entry.broken:
        message = f"`{entry.spelt(field)}` is empty"
        entry.find("BH204", message, entry.seen[field], hint="write a value", fatal=True)


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
