"""JSON Schema for hooks.yaml and for the hooks of settings files, from schema.yaml and the tables of the readers.

It is for editors: it has every key in both spellings, with a description. `billhook check` checks more.
"""

import re
from pathlib import Path
from typing import Any, Final, Literal

import yaml

from billhook.agents import AGENTS, tools_of
from billhook.config import declaration
from billhook.config.builtin_hooks import LIMIT, OPTIONS
from billhook.config.declaration import ENTRY, NATIVE, SPELLINGS, camel
from billhook.core.dialect_traits import MEANINGS
from billhook.core.events import EVENTS
from billhook.core.hook import FAILURE_RULES
from billhook.effects.conditions import ABLE
from billhook.effects.effect import SCOPES

Kind = Literal["hooks", "settings"]
Schema = dict[str, Any]

_NOT_RUN: Final = ("mcp_tool", "prompt", "agent")


def sections() -> dict[str, Schema]:
    """The content of schema.yaml, with the lists that come from tables."""
    found: dict[str, Schema] = yaml.safe_load(Path(__file__).with_name("schema.yaml").read_text(encoding="utf-8"))
    for field, words in (("dialect", MEANINGS), ("on_failure", FAILURE_RULES), ("type", declaration.TYPES)):
        found["fields"][field]["enum"] = list(words)
    for field in ("effects", "after_effects"):
        text, many = found["fields"][field]["anyOf"]
        text["pattern"] = many["items"]["pattern"] = rf"^({'|'.join(ABLE)})(:({'|'.join(SCOPES)}))?$"
    titles = " and ".join(agent.title for agent in AGENTS.values() if agent.narrower)
    found["parts"]["event"] |= {
        "description": f"The name of an event; {titles} has additional events.",
        "enum": [*_events(), *tools_of()],
    }
    found["parts"]["builtins"]["properties"] = {
        form: _builtin(name) for name in declaration.BUILTINS for form in (name, *_forms(name.replace("-", "_")))
    }
    return found


def schema(kind: Kind) -> Schema:
    """The schema of one kind of file, as plain data."""
    found = sections()
    file: Schema = found["files"][kind]
    top = found["top"]
    own = file["properties"]
    if kind == "hooks":
        file["$defs"]["hooks"]["anyOf"][0]["properties"] = dict.fromkeys(_events(), _ref("named"))
        own_parts = {**file["$defs"], "hook": _hook(found["object"])}
    else:  # other keys belong to the agent
        about = {form: kind.__doc__ or "" for name, kind in EVENTS.items() for form in (name, _snake(name))}
        listed = {"type": "array", "items": _ref("entry")}
        own["hooks"]["properties"] = {
            name: {"description": text.strip().split("\n")[0], **listed} for name, text in about.items()
        }
        own_parts = {}
        del top["settings"], top["tests"], top["fleet"]
    file["properties"] = {**{form: value for key, value in top.items() for form in (key, _snake(key))}, **own}
    fields, parts = NATIVE if kind == "hooks" else ENTRY, found["parts"]
    parts["entry"]["else"]["else"] = _one_of(found["object"], ENTRY)
    file["$defs"] = {
        **{field: value for field, value in found["fields"].items() if field in fields},
        **parts,
        "handler": _one_of(found["object"], declaration.HANDLER),
        **own_parts,
    }
    return file


def _ref(definition: str) -> Schema:
    return {"$ref": f"#/$defs/{definition}"}


def _hook(object_: Schema) -> Schema:
    """A hook with events or a condition, and one action; neither is required if it is switched off."""
    names = (name for field in ("events", "match", *declaration.LIMITS) for name in spellings(field))
    listens = {"anyOf": [{"required": [name]} for name in names]}
    hook = _one_of(object_, NATIVE)
    does = {"oneOf": hook.pop("oneOf")}
    off = {"properties": {"enabled": {"const": False}}, "required": ["enabled"]}
    return {**hook, "if": off, "else": {"allOf": [listens, does]}}


def _one_of(object_: Schema, fields: frozenset[str]) -> Schema:
    """A mapping with these fields and exactly one action."""
    properties = {name: _ref(field) for field in SPELLINGS if field in fields for name in spellings(field)}
    does = [{"required": [name]} for field in declaration.ACTIONS if field in fields for name in spellings(field)]
    not_run = {"properties": {"type": {"enum": list(_NOT_RUN)}}, "required": ["type"]}
    return {
        **object_,
        "properties": properties | dict.fromkeys(sorted(declaration.OF_OTHERS), _ref("other")),
        "oneOf": [*does, not_run],
    }


def spellings(field: str) -> list[str]:
    """Every key that means a field: `onFailure` and `on_failure`."""
    return list(dict.fromkeys(form for spelt in SPELLINGS[field] for form in _forms(spelt)))


def _forms(name: str) -> tuple[str, ...]:
    return name, _snake(name), camel(name)


def _events() -> list[str]:
    return [form for name in EVENTS for form in (name, _snake(name))]


def _builtin(name: str) -> Schema:
    options = {form: one.kind.schema for one in OPTIONS[name] for form in (one.name, camel(one.name))}
    if name == "rate-limit":  # a single limit needs no list around it
        options |= LIMIT["properties"]
    inner = {"type": ["object", "null"], "properties": options, "additionalProperties": False}
    if name == "guard":
        inner = {"$ref": "#/$defs/guard"}
    properties = {"enabled": {"type": "boolean"}, "options": inner}
    return {"type": ["object", "boolean", "null"], "properties": properties, "additionalProperties": False}


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
