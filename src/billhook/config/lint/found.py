"""What every lint needs: a finding at the place of a field, and an edit spelt as the file's shape spells it."""

import json

from billhook.config.declared import Declared
from billhook.config.findings import Finding
from billhook.events import EVENTS, Event

_JSON_KEYS = {"match": "matcher", "when": "if", "on_failure": "onFailure", "background": "async"}
_YAML_KEYS = {"when": "if"}


class Edit(str):
    """A line of a file, and the value in it."""

    value: str


def finding(hook: Declared, code: str, field: str, message: str, hint: str, edit: str = "") -> Finding:
    """A finding at the place of one of the hook's fields, or of the hook where the file has no such field. `edit`: the
    value that the hint proposes; a hint that is an `Edit` has it."""
    line, column = hook.places.get(field) or (hook.line, hook.column)
    edit = hint.value if isinstance(hint, Edit) else edit
    return Finding(code, message, hook.file, line, column, str(hint), hook.name, edit=edit)


def edit(hook: Declared, field: str, value: object) -> Edit:
    """The line that the file should hold: `match: Bash` or `"matcher": "Bash"`."""
    if hook.shape != "yaml":
        line = Edit(f"{json.dumps(_JSON_KEYS.get(field, field))}: {json.dumps(value, ensure_ascii=False)}")
    else:
        text = json.dumps(value) if not isinstance(value, str) or _needs_quotes(value) else value
        line = Edit(f"{_YAML_KEYS.get(field, field)}: {text}")
    line.value = str(value)
    return line


def _needs_quotes(text: str) -> bool:
    return text[:1] in "*&!%@`{}[],?-|>#\"' " or ": " in text or " #" in text or text.endswith((":", " "))


def kinds(hook: Declared) -> list[type[Event]]:
    """The events that it names, those that have a type."""
    return [EVENTS[name] for name in hook.events if name in EVENTS]


def listed(words: list[str]) -> str:
    """`a`, `b` and `c`."""
    quoted = [f"`{word}`" for word in words]
    return " and ".join([", ".join(quoted[:-1]), quoted[-1]] if len(quoted) > 1 else quoted)
