"""JSON Schema for hooks.yaml and for the hooks of settings files, made from the tables that the readers use.

It is for editors: it knows every key in both spellings and says what each is for. `billhook check` knows more.
"""

import re
from typing import Any, Final, Literal

from billhook.agents import AGENTS
from billhook.agents.names import tools_of
from billhook.config.builtin_options import LIMIT, OPTIONS
from billhook.config.declaration import (
    ACTIONS,
    BUILTINS,
    ENTRY,
    FAILURE_RULES,
    HANDLER,
    NATIVE,
    OF_OTHERS,
    SPELLINGS,
    TYPES,
)
from billhook.config.permissions import MODES
from billhook.config.shapes import OWN_KEYS, SWITCHES
from billhook.core.dialect_traits import MEANINGS
from billhook.core.events import EVENTS

Kind = Literal["hooks", "settings"]
Schema = dict[str, Any]

_TEXT: Final[Schema] = {"type": "string", "pattern": r"\S"}
_TEXTS: Final[Schema] = {"type": "array", "items": {"type": "string"}}
_FLAG: Final[Schema] = {"type": "boolean"}
_NOT_RUN: Final = ("mcp_tool", "prompt", "agent")
_KINDS: Final = {
    "allow": "Rules for calls that run without asking",
    "ask": "Rules for calls that a person is asked about",
    "deny": "Rules for calls that never run",
}
_COMMENTS: Final = r"^(x-|\$|//|_)"  # keys that are nobody's business


def _ref(definition: str) -> Schema:
    return {"$ref": f"#/$defs/{definition}"}


def _field(about: str, kind: Schema | None = None, **more: Any) -> Schema:
    return {"description": about, **(kind or {}), **more}


def _answer(what: str) -> Schema:
    return _field(f"{what}; the text is the reason. `true`: without one.", anyOf=[_TEXT, {"const": True}])


def _either(about: str) -> Schema:
    return _field(about, anyOf=[{"type": "string"}, _TEXTS])


def _match(pattern: str) -> Schema:
    return {"type": "string", "pattern": pattern}


_EVENT: Final[Schema] = {"anyOf": [_ref("event"), {"const": "*"}]}

FIELDS: Final[dict[str, Schema]] = {
    "events": _field(
        "The event or events that it listens for; `*`: all. It may be left out beside `match` or `if`: then it listens"
        " for all.",
        anyOf=[_EVENT, {"type": "array", "minItems": 1, "items": _EVENT}],
    ),
    "match": _field(
        "A pattern for the tool's name, or for the source, trigger or reason that an event has instead. How it is read"
        " depends on the dialect; under `claude`: a name, a list as in `Write|Edit`, or a regular expression.",
        type="string",
    ),
    "when": _field("A rule about the tool call: `Bash(git push *)`. Else the hook is not asked.", _TEXT),
    "run": _field("A shell command. It starts in the project's folder.", _TEXT),
    "exec": _field("A program and its arguments, without a shell.", _TEXTS, minItems=1),
    "python": _field(
        "A Python function, as `module:function`. It runs in a worker process.",
        _match(r"^[A-Za-z_][\w.]*:[A-Za-z_][\w.]*$"),
    ),
    "url": _field("An HTTP endpoint: the event is posted to it as JSON.", _match(r"^[Hh][Tt][Tt][Pp][Ss]?://|\$\{")),
    "deny": _answer("Always deny"),
    "ask": _answer("Always ask the person"),
    "allow": _answer("Always allow"),
    "inject": _field("Always tell the model this text.", _TEXT),
    "priority": _field("Lower numbers run first.", type="number", default=100),
    "after": _either("The name or names of hooks that run before it."),
    "timeout": _field(
        "Seconds. Else the dialect's default for the event.", type="number", exclusiveMinimum=0, exclusiveMaximum=1e9
    ),
    "gate": _field("It does not fail open: short for `on_failure: deny`.", _FLAG),
    "on_failure": _field(
        "What it counts as when it fails, is late or can't start.", default="allow", enum=list(FAILURE_RULES)
    ),
    "background": _field("It answers later: nothing waits for it.", _FLAG),
    "always": _field("It also runs after another hook denied: a logger, an auditor.", _FLAG),
    "rewake": _field("As `async`: billhook can't wake an agent.", _FLAG),
    "dialect": _field(
        "What it is sent, and what its exit codes mean. Else it follows from the shape of the file.",
        enum=list(MEANINGS),
    ),
    "enabled": _field("false switches off the hook of that name.", _FLAG, default=True),
    "title": _field("What people read.", _TEXT),
    "headers": _field(
        "Headers for `url`. `$VAR` is put in for the variables that are allowed.",
        type="object",
        additionalProperties={"type": "string"},
    ),
    "allowed_env": _either("The variables that may be put into `headers`."),
    "interpreter": _field("The Python that runs a `python` hook; it must have billhook.", _TEXT),
    "login": _field(
        "Whether the command gets the environment of a login shell; `exact`: a real one.", enum=["auto", "exact", "no"]
    ),
    "shell": _field("The shell that runs the command.", enum=["bash", "powershell", "sh"]),
    "args": _either("Arguments: the command is then a program, and no shell reads it."),
    "once": _field("Has no effect here.", _FLAG),
    "type": _field(
        f"What the handler is. {', '.join(f'`{kind}`' for kind in _NOT_RUN)} are not run yet.", enum=list(TYPES)
    ),
    "name": _field("What it is called.", type="string", minLength=1, maxLength=200),
}
"""The value of each field, by our name for it."""

_TOP: Final[dict[str, Schema]] = {
    "hooks": {"description": "The hooks."},
    "builtins": _ref("builtins"),
    "permissions": _ref("permissions"),
    "settings": _ref("settings"),
    "parallelExecution": {
        **_FLAG,
        "description": "Run hooks at once that don't wait for each other. Counts only where no more trusted file says "
        "false.",
    },
    "dialect": FIELDS["dialect"],
    "timeout": FIELDS["timeout"],
    "version": {"type": ["integer", "string"], "description": "The version of the format: 1."},
    "disableAllHooks": {**_FLAG, "description": "Switch off all hooks of this layer and of less trusted ones."},
    "allowedHttpHookUrls": {**_TEXTS, "description": "The addresses that hooks may post to; `*` stands for anything."},
    "httpHookAllowedEnvVars": {**_TEXTS, "description": "The variables that headers may hold, in any hook."},
}
"""The keys of a file."""


def schema(kind: Kind) -> Schema:
    """The schema of one kind of file, as plain data."""
    return _hooks_file() if kind == "hooks" else _settings_file()


def _hooks_file() -> Schema:
    hooks = _ref("hooks")
    top = {**_TOP, "hooks": hooks}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "hooks.yaml of billhook",
        "description": "Hooks for AI agents: which events they want, and what they do.",
        "type": "object",
        "properties": {**_spelt_top(top), "handlers": {**hooks, "description": "The same as `hooks`."}},
        "patternProperties": {_COMMENTS: True},
        "additionalProperties": False,
        "$defs": {
            **_definitions(NATIVE),
            "hooks": {
                "description": "Hooks by name, or a list of hooks that name themselves.",
                "anyOf": [
                    {
                        "type": "object",
                        "properties": dict.fromkeys(_events(), _ref("named")),
                        "additionalProperties": _ref("hook"),
                    },
                    {"type": "array", "items": _ref("hook")},
                    {"type": "null"},
                ],
            },
            "named": {"if": {"type": "array"}, "then": _entries(), "else": _ref("hook")},
            "hook": _hook(),
        },
    }


def _settings_file() -> Schema:
    """Other keys are other people's."""
    lists = {name: {"description": _about(name), **_entries()} for name in _events()}
    top = {**_TOP, "hooks": _field("Lists of hooks by event.", _mapping(lists))}
    del top["settings"]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Hooks in a settings file, as billhook reads them",
        "description": "For .claude/settings.json, .claude/settings.local.json, .claude.json and .hooks.json.",
        "type": "object",
        "properties": _spelt_top(top),
        "$defs": _definitions(ENTRY),
    }


def _definitions(fields: frozenset[str]) -> Schema:
    titles = " and ".join(agent.title for agent in AGENTS.values() if agent.narrower)
    return {
        **{field: value for field, value in FIELDS.items() if field in fields},
        "other": {"description": "Of a handler that is not run yet."},
        "event": {
            "description": f"The name of an event; {titles} has some of its own.",
            "enum": [*_events(), *tools_of()],
        },
        "builtins": _field(
            "What holds for built-in hooks.",
            _mapping({form: _builtin(name) for name in BUILTINS for form in (name, *_forms(name.replace("-", "_")))}),
        ),
        "permissions": {
            "description": "Which tool calls of an agent run without asking, are asked about, or denied.",
            "type": ["object", "null"],
            "properties": {
                **{kind: {**_TEXTS, "description": f"{what}: `Bash(git push *)`."} for kind, what in _KINDS.items()},
                **{
                    key: {"type": "string", "description": f"The mode to start in: one of {', '.join(MODES)}."}
                    for key in ("defaultMode", "default_mode")
                },
            },
        },
        "settings": _field(
            "What holds for all hooks of this file.",
            _mapping(_spelt_top({key: _TOP[key] for key in ("timeout", "dialect", "parallelExecution")})),
        ),
        "entry": {
            "description": "A shell command, a hook, or a group of handlers with one matcher.",
            "if": {"type": "string"},
            "then": _TEXT,
            "else": {
                "if": {"required": ["hooks"]},
                "then": _ref("group"),
                "else": {**_object(ENTRY), "oneOf": _one_action(ENTRY)},
            },
        },
        "group": {
            "type": "object",
            "properties": {
                "hooks": {"type": "array", "items": _ref("handler")},
                **dict.fromkeys(spellings("match"), _ref("match")),
            },
            "patternProperties": {_COMMENTS: True},
            "additionalProperties": False,
        },
        "handler": {**_object(HANDLER), "oneOf": _one_action(HANDLER)},
    }


def _mapping(properties: Schema, **more: Any) -> Schema:
    """A mapping that may be left empty, with these keys only."""
    return {"type": ["object", "null"], "properties": properties, "additionalProperties": False, **more}


def _hook() -> Schema:
    """It names events or has a condition, and does one thing; one that is switched off need not."""
    names = (name for field in ("events", "match", "when") for name in spellings(field))
    wants = {"anyOf": [{"required": [name]} for name in names]}
    return {
        **_object(NATIVE),
        "if": {"properties": {"enabled": {"const": False}}, "required": ["enabled"]},
        "else": {"allOf": [wants, {"oneOf": _one_action(NATIVE)}]},
    }


def _object(fields: frozenset[str]) -> Schema:
    properties = {name: _ref(field) for field in SPELLINGS if field in fields for name in spellings(field)}
    others = dict.fromkeys(sorted(OF_OTHERS), _ref("other"))
    return {
        "type": "object",
        "properties": {**properties, **others},
        "patternProperties": {_COMMENTS: True},
        "additionalProperties": False,
    }


def _one_action(fields: frozenset[str]) -> list[Schema]:
    does = [{"required": [name]} for field in ACTIONS if field in fields for name in spellings(field)]
    return [*does, {"properties": {"type": {"enum": list(_NOT_RUN)}}, "required": ["type"]}]


def _entries() -> Schema:
    return {"type": "array", "items": _ref("entry")}


def spellings(field: str) -> list[str]:
    """Every key that means a field: `onFailure` and `on_failure`."""
    return list(dict.fromkeys(form for spelt in SPELLINGS[field] for form in _forms(spelt)))


def _forms(name: str) -> tuple[str, ...]:
    return name, _snake(name), _camel(name)


def _spelt_top(keys: dict[str, Schema]) -> Schema:
    return {form: value for key, value in keys.items() for form in (key, _snake(key))}


def _events() -> list[str]:
    return [form for name in EVENTS for form in (name, _snake(name))]


def _about(event: str) -> str:
    known = EVENTS.get(event) or EVENTS[event.title().replace("_", "")]
    return (known.__doc__ or "").strip().split("\n")[0]


def _builtin(name: str) -> Schema:
    options = {form: one.schema for one in OPTIONS[name] for form in (one.name, _camel(one.name))}
    if name == "rate-limit":  # one limit may stand there without a list around it
        options |= LIMIT["properties"]
    return _mapping({"enabled": _FLAG, "options": _mapping(options)}, type=["object", "boolean", "null"])


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


KEYS: Final = frozenset({*OWN_KEYS, *SWITCHES})
"""The keys that a file may have at its top, by our name; `handlers` is another word for `hooks`."""
