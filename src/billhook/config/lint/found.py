"""What every lint needs: a finding at the place of a field, and an edit spelt as the file's shape spells it."""

import json

from billhook.config.declared import Declared
from billhook.config.findings import Finding
from billhook.events import EVENTS, Event

_JSON_KEYS = {"match": "matcher", "when": "if", "on_failure": "onFailure", "background": "async"}
_YAML_KEYS = {"when": "if"}


def finding(hook: Declared, code: str, field: str, message: str, hint: str) -> Finding:
    """A finding at the place of one of the hook's fields, or of the hook where the file has no such field."""
    line, column = hook.places.get(field) or (hook.line, hook.column)
    return Finding(code, message, hook.file, line, column, hint, hook.name)


def edit(hook: Declared, field: str, value: object) -> str:
    """The line that the file should hold: `match: Bash` or `"matcher": "Bash"`."""
    if hook.shape != "yaml":
        return f"{json.dumps(_JSON_KEYS.get(field, field))}: {json.dumps(value, ensure_ascii=False)}"
    text = json.dumps(value) if not isinstance(value, str) or _needs_quotes(value) else value
    return f"{_YAML_KEYS.get(field, field)}: {text}"


def _needs_quotes(text: str) -> bool:
    """Whether YAML would not read the text as it stands."""
    return text[:1] in "*&!%@`{}[],?-|>#\"' " or ": " in text or " #" in text or text.endswith((":", " "))


def kinds(hook: Declared) -> list[type[Event]]:
    """The events that it names, those that have a type."""
    return [EVENTS[name] for name in hook.events if name in EVENTS]


def listed(words: list[str]) -> str:
    """`a`, `b` and `c`."""
    quoted = [f"`{word}`" for word in words]
    return " and ".join([", ".join(quoted[:-1]), quoted[-1]] if len(quoted) > 1 else quoted)
