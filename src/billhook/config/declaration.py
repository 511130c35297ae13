"""A hook as a file declares it: plain data, before anything is looked up, interpolated or run.

All readers of configuration return `HookDeclaration` records, whatever the shape of the file. Trust, lint, the screens
and the code that builds runnable hooks start from them.
"""

import itertools
import os
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, get_args

import msgspec

from billhook.core.answers import OnFailure
from billhook.core.hook import listens
from billhook.core.lazy import pattern
from billhook.core.text import Finding, folded

Layer = Literal["managed", "fleet", "user", "explicit", "project", "local"]
LAYERS: tuple[Layer, ...] = ("managed", "fleet", "user", "explicit", "project", "local")  # most trusted first

Shape = Literal["strings", "flat", "nested", "hooks.json", "yaml"]
AnswerKind = Literal["deny", "ask", "allow", "inject", "notify", "keep_going", "stop"]
Scalar: TypeAlias = str | int | float | bool | None


class RunAction(msgspec.Struct, frozen=True, tag="run"):
    """A shell command."""

    text: str
    shell: str = ""  # `bash` or `powershell` if the file has it; empty: the shell of the dialect
    login: Literal["auto", "exact", "no"] = "auto"


class Exec(msgspec.Struct, frozen=True, tag="exec"):
    """A program and its arguments."""

    argv: tuple[str, ...]


class Python(msgspec.Struct, frozen=True, tag="python"):
    """`module:function`, in a worker process."""

    target: str
    interpreter: str = ""
    options: str = ""  # for the function, as JSON


class Url(msgspec.Struct, frozen=True, tag="url"):
    """An HTTP endpoint."""

    url: str
    headers: tuple[tuple[str, str], ...] = ()
    allowed_env: tuple[str, ...] = ()  # the variables that headers may contain


class FixedAnswer(msgspec.Struct, frozen=True, tag="say", omit_defaults=True):
    """A fixed answer: its text, or a file or a command whose content or output is the text."""

    decision: AnswerKind
    text: str
    file: str = ""  # `inject: {file: NOTES.md}`
    command: str = ""  # `inject: {command: git log -3}`, `keep_going: {command: scripts/test}`
    limit: int = 0  # for `keep_going`: how often in one turn


class Rewrite(msgspec.Struct, frozen=True, tag="rewrite"):
    """A change of the input: new values of its fields, and programs to replace in a shell command."""

    fields: tuple[tuple[str, Scalar], ...] = ()
    programs: tuple[tuple[str, str], ...] = ()  # `pip` becomes `uv pip`


class Mask(msgspec.Struct, frozen=True, tag="mask"):
    """Removes what these expressions match from the output."""

    patterns: tuple[str, ...]


EVENT_VARIABLES: Final = frozenset(
    [
        "tool",
        "command",
        "file_path",
        "file_paths",
        "message",
        "branch",
        "reason",
        "prompt",
        "event",
        "agent",
        "session",
        "cwd",
        "project",
    ]
)
"""Names in `${...}` whose values come from the event; `actions.py` has the values."""


class UnsupportedAction(msgspec.Struct, frozen=True, tag="not-yet"):
    """A handler of a type that is not supported yet: `mcp_tool`, `prompt`, `agent`."""

    kind: str


Action: TypeAlias = RunAction | Exec | Python | Url | FixedAnswer | Rewrite | Mask | UnsupportedAction


class PathGlobs(msgspec.Struct, frozen=True, omit_defaults=True):
    """Files that a call reads or writes, as globs relative to the project's folder; `!` excludes."""

    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()


class Conditions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename={"rules": "if"}):
    """The conditions of a hook besides its events and `match`: all of them must be true."""

    rules: tuple[str, ...] = ()  # one of them matches
    effects: tuple[str, ...] = ()  # the call would have one of these
    after_effects: tuple[str, ...] = ()  # one of these was seen in the session before
    paths: PathGlobs = PathGlobs()
    branch: tuple[str, ...] = ()
    when: tuple[tuple[str, Any], ...] = ()  # tests by name, each with the expected value
    once: str = ""  # per session, turn or project
    cooldown: float = 0.0  # seconds

    def as_data(self) -> dict[str, Any]:
        """The conditions that are set, by their names on screens and in records."""
        data: dict[str, Any] = {key: value for key, value in msgspec.to_builtins(self).items() if value}
        if len(self.rules) == 1:
            data["if"] = self.rules[0]
        if self.paths.read == self.paths.write != ():
            data["paths"] = list(self.paths.read)
        return data | ({"when": plain_tests(self.when)} if self.when else {})


CONDITION_KEYS: Final = Conditions.__struct_encode_fields__  # the keys of `as_data`
_LABELS: Final = {"effects": "effect", "after_effects": "after effect"}


def conditions_in_words(data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The conditions of `as_data`, each as a label and a description for people."""
    for key in CONDITION_KEYS:
        if data.get(key):
            yield _LABELS.get(key, key), in_words(data[key])


def in_words(wanted: Any) -> str:
    """The value of a condition for people."""
    if isinstance(wanted, list | tuple):
        return ", ".join(map(in_words, wanted))
    if isinstance(wanted, dict):
        return ", ".join(f"{key} {in_words(value)}" for key, value in wanted.items())
    return f"{wanted:g} s" if isinstance(wanted, float) else str(wanted)


def plain_tests(tests: tuple[tuple[str, Any], ...]) -> dict[str, Any]:
    """The tests of `when` as they are written in a file."""
    return {name: _plain_test(name, wanted) for name, wanted in tests}


def _plain_test(name: str, wanted: Any) -> Any:
    if name == "not":
        return plain_tests(wanted)
    if name in ("all", "any"):
        return [plain_tests(one) for one in wanted]
    return wanted[0] if isinstance(wanted, tuple) and len(wanted) == 1 else wanted


class HookFields(msgspec.Struct, frozen=True, kw_only=True):
    """When and how a hook runs, and its place: the same in a declaration and on every screen."""

    events: tuple[str, ...] = ()  # canonical names; none: every event
    match: str | None = None
    part: str = ""
    """An agent's name for a part of the event, such as `beforeShellExecution`: the hook then uses that agent's format
    for the event, and `match` is a pattern for the subject of that event."""
    conditions: Conditions = Conditions()
    priority: int | float = 100
    after: tuple[str, ...] = ()
    timeout: float | None = None
    on_failure: OnFailure = "allow"
    background: bool = False
    always: bool = False
    shadow: bool = False
    warm: bool = True  # a Python script may run in a warm interpreter
    approve: bool = False  # `approve: queue`: its asks wait in the queue
    dialect: str = "claude"
    layer: str = ""
    file: str = ""  # absolute
    line: int = 0


class HookDeclaration(HookFields, frozen=True, kw_only=True):
    """One hook of one file."""

    name: str
    named: bool = False  # the name is from the file; else it was made from the action
    title: str = ""
    action: Action | None = None  # None: it is broken, or only switches another hook off
    enabled: bool = True
    broken: str = ""  # the reason why it can't be used; a broken gate blocks the events that it would have judged
    layer: Layer = "explicit"
    column: int = 0
    folder: str = ""  # the project, absolute: its relative paths start there
    shape: Shape = "yaml"
    agent: str = ""  # the agent whose settings have it, or had it before it was adopted
    sequential: bool = False  # these settings make that agent run the hooks of its event one after the other
    ours: bool = False
    """It is billhook itself, installed into an agent's file. It never runs, but it may have replaced a gate."""
    places: dict[str, tuple[int, int]] = {}
    """Line and column of its values, by field: `match`, `when`, `timeout`, `action`, `on_failure`, `events` ..."""

    @property
    def gate(self) -> bool:
        """Whether it fails closed. A hook in shadow mode decides nothing."""
        return self.on_failure != "allow" and not self.shadow

    def handles(self, event: str) -> bool:
        """Whether the hook listens for events of this name."""
        return listens(self.events, self.dialect, event)

    @property
    def module_folder(self) -> str:
        """The folder of Python modules: the project for its hooks, else the folder of the file. A clone must not
        replace a module of the user."""
        return self.folder if needs_consent(self.layer) else os.path.dirname(self.file)

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file

    @property
    def switch(self) -> bool:
        """Whether it only switches another hook off."""
        return self.action is None and not self.enabled and not self.broken

    def finding(self, code: str, field: str, message: str, hint: str, edit: str = "") -> Finding:
        """A finding at the place of one of its fields, or of the hook if the file has no such field."""
        place = self.places.get(field) or (self.line, self.column)
        return Finding(code, message, self.file, *place, hint, self.name, edit=edit)

    @property
    def subject(self) -> str:
        """The hook as the subject of a sentence."""
        return f"hook `{self.name}`" if self.named else "this hook"

    @property
    def does(self) -> str:
        """What it does, in one line."""
        match self.action:
            case RunAction(text):
                return text
            case Exec(argv):
                import shlex

                return shlex.join(argv)
            case Python(target):
                return f"python {target}"
            case Url(url):
                return f"POST {without_secrets(url)}"
            case FixedAnswer(decision, text, file, command):
                return f"{decision}: {text or file or command}"
            case Rewrite(fields, programs):
                pairs = (f"{name}: {value}" for name, value in (*fields, *programs))
                return f"rewrite: {', '.join(pairs)}"
            case Mask(patterns):
                return f"mask: {', '.join(patterns)}"
            case UnsupportedAction(kind):
                return f"{kind} (not supported yet)"
            case _:
                return "switched off" if self.switch else "can't be used"


def without_secrets(url: str) -> str:
    """A URL for screens, without its password and the values of its query."""
    url = re.sub(r"(?<=://)[^/?#@]*@", "***@", url, count=1)
    return re.sub(r"(?<==)[^&#]+", "***", url) if "?" in url else url


def needs_consent(layer: Layer) -> bool:
    """Whether the hooks of this layer came with a repository, and need consent."""
    return layer in ("project", "local")


# The names of hooks:


_LONGEST_NAME: Final = 200


def made_name(action: Action | None, event: str = "") -> str:
    """A name for a hook that has none: its script, else the tool that it calls, else its event and first program."""
    match action:
        case RunAction(text):
            from billhook.effects import shell  # only if a name must be made

            return _of_commands([command.words for command in shell.parse(text[:4096]).commands], event)
        case Exec(argv):
            return _of_commands([argv], event)
        case Python(target):
            return target.rpartition(":")[2]
        case Url(url):
            from urllib.parse import urlsplit

            try:
                return urlsplit(url).hostname or "http"
            except ValueError:
                return "http"
        case FixedAnswer(decision):
            return decision
        case Rewrite() | Mask():
            return str(action.__struct_config__.tag)
        case UnsupportedAction(kind):
            return kind
        case _:
            return "hook"


def free_name(stem: str, event: str, taken: Container[str]) -> str:
    """The name; with the event if another hook has it; with a number if that is taken, too."""
    for name in (stem, f"{stem}-{_kebab(event)}" if event else stem):
        if name not in taken:
            return name
    return next(f"{name}-{number}" for number in itertools.count(2) if f"{name}-{number}" not in taken)


_INTERPRETERS = pattern(
    r"(?:ba|z|da|k)?sh|python[\d.]*|py|node|ruby|perl|php|deno|bun|uv|uvx|npx|bunx|pnpx|tsx|ts-node|env|run|exec|dlx"
    r"|sudo|cd|pwsh|powershell|timeout|nohup|nice|time|command|go|npm|pnpm|yarn|poetry|pipx|pipenv|hatch|rye"
)
"""They run another program, which gives the name."""
_WORDS: Final = """
    awk cat cp curl cut date echo export eval exit false find gh git grep head jq kill ls mkdir mv printf pwd
    read return rg rm sed set sleep sort source tail tee test touch tr trap true uniq unset wc wget which xargs
    [ [[ . : if then else fi for while until do done case esac in !
"""
_EVERYDAY: Final = frozenset(_WORDS.split())  # they tell little about the purpose of a hook
_SCRIPT: Final = pattern(r".+\.(?:sh|bash|zsh|py|js|mjs|cjs|ts|mts|cts|rb|pl|php|ps1|go|lua|fish|exe|bat|cmd)")
_GENERAL: Final = frozenset({"main", "index", "hook", "hooks", "run", "cli", "__main__", "script", "mod"})
_FOLDERS: Final = frozenset({"hooks", "scripts", "src", "dist", "bin", "lib", "tools", "build", "out", "cmd", ""})
_NAME = pattern(r"[\w.+@-]+")


def _of_commands(commands: Sequence[Sequence[str]], event: str) -> str:
    script = next((name for words in commands for word in words if (name := _script(word))), "")
    if script:
        return script
    for words in commands:
        name = _tool(words)
        if name and name not in _EVERYDAY:
            return name
    first = next((stem for words in commands for word in words[:1] if (stem := _stem(word))), "command")
    return f"{_kebab(event)}-{first}" if event else first


def _script(word: str) -> str:
    """The name of a script, or of a program that is given by its path; for a `main.py` the name of its folder."""
    path = word.rstrip("/")
    folder, name = os.path.split(path)
    if not (_SCRIPT.fullmatch(name) or (folder and _stem(name) and not path.startswith(_SYSTEM))) or "://" in path:
        return ""
    stem, above = _stem(name), _stem(os.path.basename(folder))
    return above if stem in _GENERAL and above not in _FOLDERS else "" if _INTERPRETERS.fullmatch(stem) else stem


def _tool(words: Sequence[str]) -> str:
    words = list(words)
    for place, word in enumerate(words):
        if word == "-m" and place and place + 1 < len(words):
            return _stem(words[place + 1].rpartition(".")[2])
        if word.startswith("-") and word[1:2] in "ce" and not word.startswith("--"):
            return ""  # the other arguments are code
        stem = _stem(word)
        if stem and not _INTERPRETERS.fullmatch(stem):
            return stem
        if not stem and not word.startswith("-"):
            return ""
    return ""


_SYSTEM: Final = ("/bin/", "/usr/bin/", "/usr/local/bin/", "/opt/homebrew/bin/", "/dev/", "/tmp/", "/etc/", "/System/")


def _stem(word: str) -> str:
    """The name of a file without its folder, suffix and version; empty if the word is not a name."""
    name = os.path.basename(word)
    name = name[:1] + name[1:].partition("@")[0]
    stem = (os.path.splitext(name)[0] if _SCRIPT.fullmatch(name) else name).strip("-.")
    return stem[:_LONGEST_NAME] if _NAME.fullmatch(stem) and not name.startswith("-") else ""


def _kebab(event: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", event).lower()


def checked_name(name: str) -> str:
    """Why a name is invalid; empty if it is valid."""
    if not name.strip() or len(name) > _LONGEST_NAME or not name.isprintable():
        return "a name must be printable and have at most 200 characters"
    return ""


# The keys of each shape, in every spelling, and their internal names:


_ORDER: Final = """
    events match rules effects after_effects paths branch when once cooldown run exec python url deny ask allow inject
    notify rewrite mask keep_going stop priority after timeout gate on_failure background rewake always shadow warm
    approve dialect enabled title headers allowed_env interpreter options login shell args type name
"""
_OTHER_SPELLINGS: Final[dict[str, tuple[str, ...]]] = {
    "events": ("events", "event"),
    "match": ("match", "matcher"),
    "rules": ("if",),
    "effects": ("effect", "effects"),
    "after_effects": ("after_effect", "after_effects"),
    "run": ("run", "command"),
    "after": ("after", "dependsOn"),
    "background": ("background", "async"),
    "rewake": ("asyncRewake",),
    "title": ("title", "description", "statusMessage"),
    "allowed_env": ("allowedEnvVars",),
    "name": ("name", "id"),
}
SPELLINGS: Final = {field: _OTHER_SPELLINGS.get(field, (field,)) for field in _ORDER.split()}
"""Our fields, each with its keys in files; case, `_` and `-` make no difference."""
_FIELDS: Final = {folded(spelling): field for field, all_ in SPELLINGS.items() for spelling in all_}

ANSWER_KINDS: Final[tuple[str, ...]] = get_args(AnswerKind)
ACTIONS: Final = ("run", "exec", "python", "url", *ANSWER_KINDS, "rewrite", "mask")
LIMITS: Final = ("rules", "effects", "after_effects", "paths", "branch", "when", "once", "cooldown")
"""Fields that limit a hook to some of its events."""
NATIVE: Final = frozenset(SPELLINGS)
_OURS: Final = {
    "python",
    "exec",
    *ANSWER_KINDS,
    "rewrite",
    "mask",
    "paths",
    "branch",
    "when",
    "cooldown",
    "shadow",
    "warm",
    "approve",
}
HANDLER: Final = NATIVE - {"events", "match", "interpreter", "options"} - _OURS  # one handler of a nested group
ENTRY: Final = HANDLER | {"match"}  # one entry of a flat list
OF_OTHERS: Final = frozenset({"server", "tool", "input", "prompt", "model", "continueOnBlock"})
"""Keys of handlers that are not supported yet."""
_NOT_BLOCKING: Final = 'no agent reads it: exit code 2 blocks, and `"onFailure": "block"` makes a failure block, too'
_STILL_RUNS: Final = "no agent reads it, and the hook runs: remove the entry to switch it off"
_IN_COMMAND: Final = "no agent reads it: put it into the command"
_MISTAKEN: Final = {
    "did you mean `command`?": "hook hookPath script cmd shellCommand",
    "did you mean `matcher`?": "tools toolName toolNames toolMatcher toolFilter",
    "did you mean `if`?": "pattern filePattern condition conditions when onlyIf only ifNot unless except exclude"
    " excludes include includes ignore where filter paths globs",
    "did you mean `timeout`? It is in seconds": "timeoutMs timeoutSec timeoutSeconds timeout_millis",
    _NOT_BLOCKING: "blocking block failClosed blockOnFailure continueOnError exitOnFailure",
    _STILL_RUNS: "enabled disabled disable active",
    _IN_COMMAND: "env environment cwd workingDirectory workdir",
}
MISTAKEN: Final = {folded(word): hint for hint, words in _MISTAKEN.items() for word in words.split()}
"""Keys that people rely on and no agent reads, with the fix. Other unknown keys in an agent's file are comments."""

CONDITIONS: Final = frozenset({"condition", "conditions", "when", "onlyif", "ifnot", "unless", "where"})
"""Other words for `if`: a hook with one of them is meant for some calls only."""
NARROWING: Final = (
    CONDITIONS | {word for word, hint in MISTAKEN.items() if hint.endswith(("`if`?", "`matcher`?"))} | {"tool"}
)
"""Keys that limit a hook in other tools. In hooks.yaml they break the hook, because without them it always runs."""
GATE_LIKE: Final = frozenset(map(folded, f"{_MISTAKEN[_NOT_BLOCKING]} denies denied forbid refuse reject".split()))
"""Keys that suggest that the hook should block a call."""
DECISIVE: Final = frozenset({*LIMITS, "match", "gate", "on_failure"})
"""Fields without which a hook has another meaning, in every file. In our own files there are more:"""
DECISIVE_IN_OURS: Final = DECISIVE | {*ACTIONS, "events", "dialect", "args", "interpreter", "shell"}

ADOPTED: Final = "x-adopted"
"""The key of an adopted hook that holds its agent, event and original entry: `uninstall` needs it in a clone of the
repository."""
TYPES: Final = ("command", "http", "mcp_tool", "prompt", "agent")  # the kinds of handlers in a nested group
BUILTINS: Final = ("guard", "turn-tracker", "session-naming", "event-logger", "metrics", "rate-limit")
RESERVED: Final = frozenset(BUILTINS) - {"guard"}
"""Names that no file can use. Many people call a hook `guard`: the built-in is then `built-in/guard`."""


def field_of(key: str) -> str:
    """The internal name of a key; empty if it is unknown."""
    return _FIELDS.get(folded(key), "")


def spelling(field: str, *, json: bool) -> str:
    """The spelling of a field in a file of that kind, for hints."""
    first = SPELLINGS[field][int(json and field in ("match", "run", "background"))]
    return camel(first) if json else first


def camel(name: str) -> str:
    """A name as JSON spells it: `onFailure`."""
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)
