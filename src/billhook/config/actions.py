"""What a hook does, read from its entry: exactly one of a command, a program, a function, an address or an answer."""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, Literal, cast

from billhook.config.declared import Action, Exec, NotYet, Python, Run, Say, Url
from billhook.config.findings import suggestion
from billhook.config.keys import ACTIONS, TYPES
from billhook.config.nodes import Fields

if TYPE_CHECKING:
    from billhook.config.entry import Entry


Decision = Literal["deny", "ask", "allow", "inject"]


def read_action(entry: "Entry") -> Action | None:
    """What the entry does; None when it is broken, which it then says."""
    kind = entry.text("type") if "type" in entry.seen else None
    if kind is not None and kind not in TYPES:
        hint, note = suggestion(kind, TYPES), entry.of_unknown_agent()
        entry.find("BH206", f"unknown type `{kind}`", entry.seen["type"], hint=hint, fatal=True, note=note)
        return None
    if kind in ("mcp_tool", "prompt", "agent"):
        hint = "use a command, an HTTP endpoint or a Python function instead"
        message = f"hooks of type `{kind}` are not run yet"
        if entry.where.agent:
            message, hint = f"hooks of type `{kind}` are run by the agent itself, and not by billhook", ""
        entry.find("BH207", message, entry.seen["type"], hint=hint, note=bool(entry.where.agent))
        return NotYet(kind)
    given: list[str] = [field for field in ACTIONS if field in entry.seen]
    wanted = {"command": "run", "http": "url"}.get(kind or "")
    if len(given) != 1 or wanted not in (None, given[0]):
        _not_one_action(entry, given, wanted)
        return None
    make = _MAKERS.get(given[0])
    return make(entry) if make is not None else _say(entry, cast("Decision", given[0]))


def _not_one_action(entry: "Entry", given: list[str], wanted: str | None) -> None:
    if wanted and wanted not in given:
        name = entry.spelt(wanted)
        message, hint = f"no `{name}`", f"add it: `{name}` says what to run"
    elif not given:
        message = "it does nothing"
        hint = f"say what: one of {', '.join(entry.spelt(field) for field in ACTIONS if field in entry.known)}"
    else:
        message = f"it does more than one thing: {', '.join(f'`{entry.spelt(field)}`' for field in given)}"
        hint = "keep one of them; write another hook for the other"
    entry.find("BH204", message, entry.seen.get(given[1]) if len(given) > 1 else None, hint=hint, fatal=True)


def _run(entry: "Entry") -> Action | None:
    node = entry.seen["run"]
    if isinstance(node.value, tuple):
        hint = '{"command": "program", "args": ["argument"]}' if entry.where.json else "exec: [program, argument]"
        entry.find("BH203", "a list is no shell command", node, hint=f"write `{hint}`", fatal=True)
        return None
    text = _filled(entry, "run")
    if text is None:
        return None
    if "args" in entry.seen:
        if "shell" in entry.seen:
            hint = "remove `shell`, or put all of it into `command`"
            entry.find("BH510", "`shell` has no effect together with `args`", entry.seen["shell"], hint=hint)
        return Exec((text, *entry.texts("args")))
    shell_name = _choice(entry, "shell", ("bash", "powershell", "sh"))
    login = _choice(entry, "login", ("auto", "exact", "no"))
    return Run(text, "" if shell_name == "sh" else shell_name, cast("Literal['auto', 'exact', 'no']", login or "auto"))


def _choice(entry: "Entry", field: str, known: tuple[str, ...]) -> str:
    node = entry.seen.get(field)
    if node is not None and node.value is False and "no" in known:
        return "no"  # a bare `no` is a text to everybody but YAML
    word = entry.text(field)
    if word is None or word in known:
        return word or ""
    message = f"`{entry.spelt(field)}` is `{word}`"
    entry.find("BH206", message, entry.seen[field], hint=suggestion(word, known), fatal=True)
    return ""


def _exec(entry: "Entry") -> Action | None:
    node = entry.seen["exec"]
    argv = entry.texts("exec")
    if isinstance(node.value, str):
        entry.find("BH203", "`exec` must be a list, not a string", node, hint=_as_list(node.value), fatal=True)
        return None
    if not argv or not argv[0]:
        _still_empty(entry, "exec")
        return None
    return Exec(argv)


def _python(entry: "Entry") -> Action | None:
    target = _filled(entry, "python")
    if target is None:
        return None
    from billhook.worker import problem_with

    problem = "" if "${" in target else problem_with(target)
    if problem:
        hint = "name a function: `python: policies.guard:check`"
        entry.find("BH206", problem, entry.seen["python"], hint=hint, fatal=True)
        return None
    return Python(target, entry.text("interpreter") or "")


def _url(entry: "Entry") -> Action | None:
    url = _filled(entry, "url")
    if url is None:
        return None
    if not url.lower().startswith(("http://", "https://")) and "${" not in url:
        hint = "write the whole address: `https://example.com/hook`"
        entry.find("BH206", "the address is neither http:// nor https://", entry.seen["url"], hint=hint, fatal=True)
    return Url(url, tuple(_headers(entry)), entry.texts("allowed_env"))


def _headers(entry: "Entry") -> Iterator[tuple[str, str]]:
    node = entry.seen.get("headers")
    if node is None or node.value is None:
        return
    pairs = node.value.pairs if isinstance(node.value, Fields) else None
    if pairs is None or not all(isinstance(value.value, str) for _, value in pairs):
        entry.wrong_type("headers", node, "a mapping whose values are texts")
        return
    yield from ((str(key.value), str(value.value)) for key, value in pairs)


def _say(entry: "Entry", decision: "Decision") -> Action | None:
    node = entry.seen[decision]
    if decision != "inject" and node.value is True:  # `deny: true`: no reason is given
        return Say(decision, "")
    text = _filled(entry, decision)
    return None if text is None else Say(decision, text)


def _filled(entry: "Entry", field: str) -> str | None:
    text = entry.text(field)
    if text is None:
        _still_empty(entry, field)
    return text


def _still_empty(entry: "Entry", field: str) -> None:
    if not entry.broken:
        message = f"`{entry.spelt(field)}` is empty"
        entry.find("BH204", message, entry.seen[field], hint="say what it does", fatal=True)


def _as_list(text: str) -> str:
    import json
    import shlex

    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()
    return f"write `exec: {json.dumps(words, ensure_ascii=False)}`, or `run:` for a shell command"


_MAKERS: Final[Mapping[str, Callable[["Entry"], Action | None]]] = {
    "run": _run,
    "exec": _exec,
    "python": _python,
    "url": _url,
}
