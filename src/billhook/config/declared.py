"""A hook as a file declares it: plain data, before anything is looked up, interpolated or run.

Everything that reads configuration ends in `Declared`, whatever the shape of the file; everything that judges it
(trust, lint, the screens) and everything that makes it run begins there.
"""

import os
import re
from typing import Literal, TypeAlias

import msgspec

from billhook.answers import OnFailure
from billhook.hook import listens

Layer = Literal["managed", "user", "explicit", "project", "local"]
LAYERS: tuple[Layer, ...] = ("managed", "user", "explicit", "project", "local")  # most trusted first
FROM_REPOSITORY: frozenset[Layer] = frozenset({"project", "local"})
"""The layers that come with a repository: what they declare needs consent."""

Shape = Literal["strings", "flat", "nested", "hooks.json", "yaml"]


class Run(msgspec.Struct, frozen=True, tag="run"):
    """A shell command."""

    text: str
    shell: str = ""  # Empty: what the dialect uses. `bash` or `powershell` where the file says so.
    login: Literal["auto", "exact", "no"] = "auto"


class Exec(msgspec.Struct, frozen=True, tag="exec"):
    """A program and its arguments."""

    argv: tuple[str, ...]


class Python(msgspec.Struct, frozen=True, tag="python"):
    """`module:function`, in a worker process."""

    target: str
    interpreter: str = ""


class Url(msgspec.Struct, frozen=True, tag="url"):
    """An HTTP endpoint."""

    url: str
    headers: tuple[tuple[str, str], ...] = ()
    allowed_env: tuple[str, ...] = ()  # the variables that may be put into headers


class Say(msgspec.Struct, frozen=True, tag="say"):
    """Always the same answer."""

    decision: Literal["deny", "ask", "allow", "inject"]
    text: str


class NotYet(msgspec.Struct, frozen=True, tag="not-yet"):
    """A handler that we know, but don't run: `mcp_tool`, `prompt`, `agent`."""

    kind: str


Action: TypeAlias = Run | Exec | Python | Url | Say | NotYet


class Declared(msgspec.Struct, frozen=True, kw_only=True):
    """One hook of one file."""

    name: str
    named: bool = False  # the file gives the name; else it was made from what the hook does
    title: str = ""
    action: Action | None = None  # none: it is broken, or only switches another one off
    events: tuple[str, ...] = ()  # canonical names; none: every event
    match: str | None = None
    part: str = ""
    """An agent's own name for a part of the event, such as Cursor's `beforeShellExecution`: then it gets and gives what
    that agent's hooks do there, and `match` is a pattern for what that event is about."""
    when: str = ""  # the rule of `if`
    priority: int | float = 100
    after: tuple[str, ...] = ()
    timeout: float | None = None
    on_failure: OnFailure = "allow"
    background: bool = False
    always: bool = False
    dialect: str = "claude"
    enabled: bool = True
    broken: str = ""  # Why it can't be used. A broken gate blocks what it would have judged.
    layer: Layer = "explicit"
    file: str = ""  # absolute
    line: int = 0
    column: int = 0
    folder: str = ""  # what its relative paths start from: the project, absolute
    shape: Shape = "yaml"
    ours: bool = False
    """It is billhook itself, installed into an agent's file: never run, only here in case it took a gate's place."""
    places: dict[str, tuple[int, int]] = {}
    """Line and column of its values, by field: `match`, `when`, `timeout`, `action`, `on_failure`, `events` ..."""

    @property
    def gate(self) -> bool:
        """It does not fail open."""
        return self.on_failure != "allow"

    def wants(self, event: str) -> bool:
        """Whether it listens for events of this name."""
        return listens(self.events, self.dialect, event)

    @property
    def module_folder(self) -> str:
        """Where Python modules are looked up: in the project for its own hooks, else beside the file. A clone must not
        put a module of its own in the place of a user's."""
        return self.folder if needs_consent(self.layer) else os.path.dirname(self.file)

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file

    @property
    def does(self) -> str:
        """What it does, in one line."""
        match self.action:
            case Run(text):
                return text
            case Exec(argv):
                import shlex

                return shlex.join(argv)
            case Python(target):
                return f"python {target}"
            case Url(url):
                return f"POST {without_secrets(url)}"
            case Say(decision, text):
                return f"{decision}: {text}"
            case NotYet(kind):
                return f"{kind} (not run yet)"
            case _:
                return "switched off" if not self.enabled and not self.broken else "nothing that can run"


def without_secrets(url: str) -> str:
    """An address as it may be shown: a password in it and the values of its query are not."""
    url = re.sub(r"(?<=://)[^/?#@]*@", "***@", url, count=1)
    return re.sub(r"(?<==)[^&#]+", "***", url) if "?" in url else url


def needs_consent(layer: Layer) -> bool:
    """Whether what this layer declares came with a repository, and needs consent."""
    return layer in FROM_REPOSITORY
