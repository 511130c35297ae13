"""The files that configuration comes from, a snapshot of the file system for one load, in which each file is read once,
and the entries of a file that call billhook or that an agent runs itself.
"""

import errno
import itertools
import os
import re
import stat
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from billhook.agents import EVERY_AGENT, reader_of
from billhook.config.declaration import (
    LAYERS,
    Action,
    Exec,
    HookDeclaration,
    Layer,
    RunAction,
    UnsupportedAction,
    Url,
    needs_consent,
)
from billhook.config.nodes import Node
from billhook.core import client_env
from billhook.core.dialect_traits import MEANINGS
from billhook.core.errors import UsageError
from billhook.core.lazy import pattern
from billhook.core.text import Finding, folded
from billhook.store.files import state_root

if TYPE_CHECKING:
    from billhook.config.fleet_policy import AppliedPolicy
    from billhook.config.referenced_files import KnownVariables
    from billhook.config.trust import FileMark


SETTLED: Final = 20_000_000  # nanoseconds after which the file system's clock has certainly advanced
MAX_CACHED: Final = 64 << 10
MAX_ALL_CACHED: Final = 8 << 20
MAX_DEEP: Final = 64

Identity = tuple[int, ...]  # device, inode, size, mtime and ctime of a file
IDENTITY: Final = attrgetter("st_dev", "st_ino", "st_size", "st_mtime_ns", "st_ctime_ns")


class Content(msgspec.Struct, frozen=True):
    """The content of a regular file."""

    data: bytes = b""
    identity: Identity = ()  # empty if it is not reliable: the file was changed just now, or while it was read


class FileSnapshot:
    """The files at one moment, for one load. Changes after that may not be seen."""

    def __init__(self) -> None:
        self.marks: dict[tuple[str, str], FileMark] = {}
        self.texts: dict[tuple[str, str, str], KnownVariables] = {}  # shell texts by folder, script and text
        self.path_folders: dict[str, list[tuple[str, bool]]] = {}
        self.pattern_seconds = 0.0  # the time that patterns took so far
        self.moving: set[str] = set()  # folders that changed just before they were listed: their times are not reliable
        self._states: dict[str, os.stat_result | None] = {}
        self._names: dict[str, frozenset[str] | None] = {}
        self._listed: dict[str, tuple[os.DirEntry[str], ...] | None] = {}
        self._real: dict[str, str] = {}
        self._contents: dict[str, Content] = {}
        self._room = MAX_ALL_CACHED

    def real(self, path: str) -> str:
        """The real path, as `os.path.realpath`; folders are resolved only once."""
        real = self._real.get(path)
        if real is None:
            folder, name = os.path.split(path)
            if name in ("", ".", "..") or path.count("/") > MAX_DEEP or os.sep != "/" or os.path.islink(path):
                real = os.path.realpath(path)
            else:
                real = os.path.join(self.real(folder), name)
            self._real[path] = real
        return real

    def state(self, path: str) -> os.stat_result | None:
        """The result of `stat`; None if the path does not exist or can't be accessed."""
        if path not in self._states:
            self._states[path] = state(path)
        return self._states[path]

    def regular(self, path: str) -> bool:
        found = self.state(path)
        return found is not None and stat.S_ISREG(found.st_mode)

    def folder(self, path: str) -> bool:
        found = self.state(path)
        return found is not None and stat.S_ISDIR(found.st_mode)

    def names(self, folder: str) -> frozenset[str] | None:
        """The names in a folder; None if it can't be listed. A name that is missing here may still exist if the file
        system ignores case."""
        if folder not in self._names:
            try:
                self._names[folder] = frozenset(os.listdir(folder))
            except (OSError, ValueError) as error:
                self._names[folder] = frozenset() if isinstance(error, FileNotFoundError) else None
        return self._names[folder]

    def listed(self, folder: str, at_most: int) -> tuple["os.DirEntry[str]", ...] | None:
        """The entries of a folder, in order; None if it can't be listed, or has more than `at_most`. The state of the
        folder is read before, so that later changes show in its times."""
        if folder not in self._listed:
            before, self._listed[folder] = self.state(folder), None
            if before is None or not stat_settled(before):
                self.moving.add(folder)
            with suppress(OSError, ValueError), os.scandir(folder) as entries:
                found = list(itertools.islice(entries, at_most + 1))
                if len(found) <= at_most:
                    self._listed[folder] = tuple(sorted(found, key=attrgetter("name")))
        return self._listed[folder]

    def read(self, path: str, limit: int) -> Content:
        """The content of a regular file; empty if it is missing, longer than `limit` or not regular. Never waits."""
        known = self._contents.get(path)
        if known is not None and len(known.data) <= limit:
            return known
        content = _content(path, limit)
        if 0 < len(content.data) <= min(MAX_CACHED, self._room):
            self._room -= len(content.data)
            self._contents[path] = content
        return content


def _content(path: str, limit: int) -> Content:
    try:
        with opened(path) as (file, found):
            if found.st_size > limit:
                return Content()
            before = stat_identity(found) if stat_settled(found) else ()
            data = b"".join(parts(file, limit))
            whole = len(data) == found.st_size and stat_identity(os.fstat(file)) == before
            return Content(data, before if whole else ())
    except (OSError, ValueError):
        return Content()


@contextmanager
def opened(path: str) -> Iterator[tuple[int, os.stat_result]]:
    """A regular file to read from, and its state. Raises OSError for a pipe or a device, which could block."""
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(None, "it is a folder" if stat.S_ISDIR(found.st_mode) else "it is not a regular file")
        yield file, found
    finally:
        os.close(file)


def parts(file: int, limit: int) -> Iterator[bytes]:
    """The content of an open file, up to a number of bytes: some files in /proc never end."""
    while limit > 0 and (part := os.read(file, min(limit, MAX_CACHED))):
        yield part
        limit -= len(part)


def state(path: str) -> os.stat_result | None:
    """The current result of `stat`; None if the path does not exist or can't be accessed."""
    try:
        return os.stat(path)
    except (OSError, ValueError):
        return None


def stat_settled(found: os.stat_result) -> bool:
    """Whether the file's next change will show in its times, whose clock is coarse."""
    return not -SETTLED < time.time_ns() - found.st_ctime_ns < SETTLED


def stat_identity(found: os.stat_result | None) -> Identity:
    """Changes whenever the file changes; empty if there is no file."""
    return () if found is None else IDENTITY(found)


# The files that configuration comes from:


MANAGED = "/etc/billhook/hooks.yaml"
FLEET_RECORD = ("billhook", "fleet", "policy.json")
"""The record of the fleet's policy, below the state root. It changes whenever that policy does."""
PROJECT_FILES = (
    ".claude/settings.json",
    ".claude.json",
    ".hooks.json",
    "hooks.yaml",
    "hooks.yml",
    ".claude/hooks.yaml",
    ".claude/hooks.yml",
    ".billhook/hooks.yaml",
    ".billhook/hooks.yml",
)
LOCAL_FILES = (".claude/settings.local.json", ".billhook/hooks.local.yaml", ".billhook/hooks.local.yml")
_OF_PROJECTS: Final[tuple[tuple[Layer, tuple[str, ...]], ...]] = (("project", PROJECT_FILES), ("local", LOCAL_FILES))
PLUGIN_FILE = "hooks/hooks.json"
"""The hooks of a plugin. Several agents have plugins, and one file may be for all of them."""
LARGEST = 1 << 20
LARGEST_OF_A_PROJECT = 256 << 10
"""Bytes. A larger file is not configuration, and reading a file that is not approved must not delay other hooks."""

MOST_HOOKS = 2_000  # hooks in one file of a project, for the same reason


class SourceFile(msgspec.Struct, frozen=True):
    """One file that may declare hooks."""

    path: str
    layer: Layer
    folder: str  # the project: relative paths in the file start there
    limited: bool = False  # a policy of a fleet that can only tighten
    shadow: bool = False  # the next policy of a fleet: its hooks decide nothing

    @property
    def tightens(self) -> bool:
        """Whether its settings can only make those of the user stricter."""
        return self.limited or needs_consent(self.layer)


class FoundSources(msgspec.Struct, frozen=True):
    """The project of a folder, and every file that applies in the folder."""

    project: str
    files: tuple[SourceFile, ...]  # existing files, and those that the caller named; most trusted first
    probed: tuple[tuple[str, Identity], ...]
    """Every path that was checked, with its identity at that time: as long as none changes, the result is valid."""
    passed: tuple[tuple[str, bool], ...] = ()
    """The folders above, and whether they are world-writable: that determines where the project ends."""
    folder: str = ""
    fleet: "AppliedPolicy | None" = None


def find(
    cwd: str | os.PathLike[str] | None = None,
    *,
    files: Iterable[str | os.PathLike[str]] = (),
    layers: Iterable[Layer] = LAYERS,
    root: Path | None = None,
) -> FoundSources:
    """The files that apply in a folder. `files` are the explicit layer, `root` is the folder of billhook's state."""
    wanted = frozenset(layers)
    if unknown := wanted - set(LAYERS):
        raise UsageError(f"unknown layer `{min(unknown)}`", hint=f"use one of {', '.join(LAYERS)}")
    here = os.path.realpath(cwd if cwd is not None else client_env.getcwd())
    home = _real_home()
    probe = _Probe()
    folders = project_folders(here, home, probe) if wanted & {"project", "local"} else [here]
    project = folders[0]
    ours = [SourceFile(path, layer, project) for layer, path in _own_files(home)]
    users = {os.path.join(home, ".claude.json"), *(file.path for file in ours)}
    theirs = [
        SourceFile(path, layer, folder)
        for layer, names in _OF_PROJECTS
        for folder in folders
        for name in names
        if (path := os.path.join(folder, name)) not in users
    ]
    found = [file for file in (*ours, *theirs) if file.layer in wanted and probe.exists(file.path)]
    probe.exists(pause_file())
    root = root or state_root()
    fleet = _fleet(root, probe) if "fleet" in wanted else None
    if fleet is not None:  # a missing file of rules blocks, as one that can't be read
        found += fleet.sources(root, project)
    for named in [os.fspath(path) for path in files] if "explicit" in wanted else []:
        found.append(SourceFile(os.path.realpath(client_env.abspath(named)), "explicit", project))
        if not probe.exists(found[-1].path):  # a missing file must not count as an empty configuration
            raise UsageError(f"no file `{named}`", hint="name a configuration file that exists")
    found.sort(key=lambda file: LAYERS.index(file.layer))
    return FoundSources(project, tuple(found), tuple(probe.seen.items()), tuple(probe.passed.items()), here, fleet)


_NO_FOLDER: Final = ((-errno.ENOENT,), (-errno.ENOTDIR,))


def _fleet(root: Path, probe: "_Probe") -> "AppliedPolicy | None":
    """The policy of the fleet, if this machine is a host of one."""
    path = os.path.join(root, *FLEET_RECORD)
    if not probe.exists(path) or probe.seen[path] in _NO_FOLDER:
        return None
    from billhook.config.fleet_policy import policy_of

    return policy_of(root)


def user_files() -> list[str]:
    """The user's files, existing or not."""
    return [path for layer, path in _own_files(_real_home()) if layer == "user"]


def pause_file() -> str:
    """The file of `billhook pause`, beside the user's hooks.yaml: it applies like a setting of the user."""
    return os.path.join(os.path.dirname(user_files()[-1]), "paused.json")


def own_file() -> str:
    """The user's hooks.yaml, for messages: `~/.config/billhook/hooks.yaml`."""
    path, home = next(path for path in user_files() if path.endswith("/hooks.yaml")), _real_home().rstrip("/")
    return f"~{path.removeprefix(home)}" if path.startswith(f"{home}/") else path


def _real_home() -> str:
    """The real path of the home folder; as it is written if it can't be accessed, so that this is reported."""
    home = client_env.expanduser("~")
    unreachable = os.path.isabs(home) and min(identity(home), default=0) < 0
    return home if unreachable else os.path.realpath(home)


def _own_files(home: str) -> Iterator[tuple[Layer, str]]:
    yield "managed", MANAGED
    yield "user", os.path.join(home, ".claude", "settings.json")
    configuration = client_env.environ().get("XDG_CONFIG_HOME") or ""
    if not os.path.isabs(configuration):  # relative paths are ignored, as the XDG specification requires
        configuration = os.path.join(home, ".config")
    for name in ("hooks.yaml", "hooks.yml"):
        yield "user", os.path.join(configuration, "billhook", name)


def project_folders(here: str, home: str, probe: "_Probe | None" = None) -> list[str]:
    """The project, and the folders between it and `here` that also have hook files; the project is first.

    The project is the outermost folder with `.git`, so that gates still apply after `cd` into a nested repository;
    without `.git`, the nearest folder with hook files; without those, the folder itself. Never the home folder or a
    folder above it, and never a world-writable folder, unless it is `here`.
    """
    probe = probe or _Probe()
    up = [here]
    for parent in Path(here).parents:
        above = str(parent)
        if home == above or home.startswith(above.rstrip("/") + "/") or probe.is_world_writable(above):
            break
        up.append(above)
    names = (*PROJECT_FILES, *LOCAL_FILES)
    with_hooks = [folder for folder in up if any(probe.exists(f"{folder}/{name}") for name in names)]
    repositories = [folder for folder in up if probe.exists(f"{folder}/.git")]
    top = repositories[-1] if repositories else with_hooks[0] if with_hooks else here
    below = [folder for folder in reversed(up) if len(folder) > len(top) and folder in with_hooks]
    return [top, *below]


def shown_path(path: str, folder: str) -> str:
    """A path for messages: relative to a folder, or to the home folder, if it is in one of them."""
    home = os.path.realpath(client_env.expanduser("~"))
    for base, prefix in ((folder, ""), (home, "~/")):
        if len(base) > 1 and path.startswith(base + "/"):
            return prefix + path[len(base) + 1 :]
    return path


def is_world_writable(folder: str) -> bool:
    """Whether every user may create files there, as in /tmp: such a folder is not part of a project."""
    try:
        return bool(os.stat(folder).st_mode & stat.S_IWOTH)
    except FileNotFoundError:
        return True
    except OSError:  # the folders above it may belong to the project
        return False


class _Probe:
    def __init__(self) -> None:
        self.seen: dict[str, Identity] = {}
        self.passed: dict[str, bool] = {}

    def is_world_writable(self, folder: str) -> bool:
        self.passed[folder] = is_world_writable(folder)
        return self.passed[folder]

    def exists(self, path: str) -> bool:
        if path not in self.seen:
            self.seen[path] = identity(path)
        return self.seen[path] != ()


def agent_of(path: str) -> str:
    """The agent that a file belongs to, by the file's name; `plugin`: any agent with plugins; else empty."""
    return reader_of(*os.path.split(path)) or ("plugin" if path.endswith(f"/{PLUGIN_FILE}") else "")


def identity(path: str) -> Identity:
    """Changes whenever the file changes: device, inode, size, times. Empty if there is no file. If it can't be
    accessed, the last number is the system's error, negated."""
    is_link = False
    try:
        found = os.lstat(path)
        is_link = stat.S_ISLNK(found.st_mode)
        found = os.stat(path) if is_link else found
    except (OSError, ValueError) as error:
        if isinstance(error, FileNotFoundError) and not is_link:  # the usual case: most files don't exist
            above = os.path.dirname(path)
            return () if os.path.exists(above) or os.path.exists(obstacle(above)) else (-errno.ENOENT,)
        return () if path.startswith(_NO_HOME) else (-(getattr(error, "errno", None) or errno.EINVAL),)
    # the times of a folder are not relevant here
    return (found.st_dev, found.st_ino) if stat.S_ISDIR(found.st_mode) else stat_identity(found)


_NO_HOME = "/dev/null/"  # HOME is sometimes set to /dev/null, so that a program has no home folder


def obstacle(path: str) -> str:
    """The reason why a path can't be opened: the innermost part of it that exists."""
    while not os.path.lexists(path) and os.path.dirname(path) != path:
        path = os.path.dirname(path)
    return path


def settled(found: Identity) -> bool:
    """Whether a file is old enough that another change would show in its times, whose clock is coarse."""
    return len(found) < 5 or time.time_ns() - max(found[3:]) > SETTLED


def read_bytes(path: str, largest: int = LARGEST) -> bytes:
    """The content of a file, up to one byte more than the largest. Raises OSError for a pipe or a device."""
    with opened(path) as (file, _):
        return b"".join(parts(file, largest + 1))


# The content of one file:


class Builtin(msgspec.Struct, frozen=True):
    """The settings of one built-in in a file."""

    name: str
    enabled: bool | None = None
    options: dict[str, Any] = {}  # the options that are set, by their internal names
    line: int = 0
    column: int = 0
    broken: str = ""  # the mistake in its options: a built-in that blocks calls must not run without them
    places: dict[str, tuple[int, int]] = {}  # line and column of its options, in small letters

    def place_of(self, option: str) -> tuple[int, int]:
        return self.places.get(folded(option), (self.line, self.column))


class FileRead(msgspec.Struct, frozen=True, kw_only=True):
    """The whole content of one file."""

    source: SourceFile
    entries: tuple[HookDeclaration, ...] = ()
    findings: tuple[Finding, ...] = ()
    readable: bool = True
    variables: frozenset[str] = frozenset()  # variables that the file's `env` sets for every hook of an agent
    mentions_gate: bool = False  # the unreadable part seems to contain a gate
    parallel: bool | None = None
    warm: bool | None = None
    disable_all: bool = False
    builtins: tuple[Builtin, ...] = ()
    allowed_urls: tuple[str, ...] | None = None
    allowed_header_env: tuple[str, ...] | None = None
    approvals: Node | None = None  # `approvals:`, read by `approver.py`
    permissions: tuple[tuple[Node, Node], ...] = ()
    """Every `permissions` of the file, also misspelt ones, as nodes: `permissions.py` reads them."""
    lost_permissions: bool = False  # the unreadable part may contain permission rules
    places: dict[str, tuple[int, int]] = {}


# Entries that run billhook: loaded as hooks, they would only call billhook again.


def is_billhook(action: Action | None) -> bool:
    """Whether an action runs billhook as an agent's hook, and nothing else."""
    match action:
        case RunAction(text) if "billhook" in text:
            from billhook.effects import shell  # most events don't need the shell parser

            commands = [command.words for command in shell.parse(_IF_MISSING.sub("", text)).commands if command.words]
            called = [words for words in commands if words[:2] != ("command", "-v")]  # which tests for a program
            return bool(called) and all(map(_calls_us, called))
        case Exec(argv):
            return _calls_us(argv)
        case Url(url):
            return _OUR_ADDRESS.fullmatch(url) is not None
        case _:
            return False


def _calls_us(words: Sequence[str]) -> bool:
    """`billhook-hook`, `billhook hook --as ...`, also through `python -m`, `uvx` and others; not a local file."""
    if not words or words[0].startswith((".", "~")):
        return False
    names = [os.path.basename(word) for word in words]
    if names[0] in _RUNNERS or names[0].startswith("python"):
        at = next((i for i, name in enumerate(names) if name in ("billhook", "billhook-hook")), len(names))
        names = names[at:]
    if names[:1] == ["billhook-hook"]:
        return True
    return names[:2] == ["billhook", "hook"] and any(name.startswith("--as") for name in names)


_OUR_ADDRESS: Final = pattern(
    rf"https?://(?:127\.0\.0\.1|localhost|\[::1\])(?::\d+)?/hook/(?:{'|'.join(MEANINGS)})(?:\?.*)?"
)
"""The address at which the daemon answers agents over HTTP: if billhook called it, the same hooks would run again."""
_IF_MISSING: Final = pattern(r"\Acommand -v [^|&;]+ >/dev/null 2>&1 \|\| (?:exit 0|\{ .+? \}); (?=exec )", re.DOTALL)
"""The beginning of an entry that handles a missing billhook, before it runs billhook."""
_RUNNERS: Final = frozenset({"uvx", "uv", "pipx", "env", "exec"})


# Hooks that an agent runs itself: inside it, billhook skips those entries, so that no hook runs twice.


_FILES: Final = ("/.claude/settings.json", "/.claude/settings.local.json")


class HostAgent(msgspec.Struct, frozen=True, cache_hash=True):
    """The agent that hooks are loaded for."""

    host: str = ""  # its name; empty: no agent that runs hooks itself
    project: str = ""
    """The folder whose settings it reads, from its variables. If it is empty or does not exist, the folder is unknown,
    and may be any folder above."""
    sure: bool = True
    """False: the caller uses that agent's format, but may be another program that runs no hooks. Then only files in
    which billhook is installed count as the agent's."""
    over_http: bool = False
    """It calls over HTTP, without variables. If not sure, it is confirmed if one of its files has billhook's URL."""


def _reads_these(host: str) -> bool:
    return host == "claude" or (host in EVERY_AGENT and bool(EVERY_AGENT[host].reads_claude))


def inside(host: "str | HostAgent", environ: Mapping[str, str]) -> HostAgent:
    """The agent of that name, in the project that its variables name."""
    if isinstance(host, HostAgent):
        return host
    return HostAgent(host, environ.get("CLAUDE_PROJECT_DIR", "")) if _reads_these(host) else HostAgent()


def seen(host: str, environ: Mapping[str, str], *, over_http: bool) -> HostAgent:
    """The same for a caller that uses that agent's format: it is Claude Code if its variables are set."""
    if host != "claude" or environ.get("CLAUDECODE") or environ.get("CLAUDE_CODE_ENTRYPOINT"):
        return inside(host, environ)
    return HostAgent("claude", environ.get("CLAUDE_PROJECT_DIR", ""), sure=False, over_http=over_http)


def confirmed(agent: HostAgent, reads: Iterable[FileRead]) -> HostAgent:
    """The agent; over HTTP it is sure if one of the files has billhook's URL."""
    if agent.sure or not agent.over_http:
        return agent
    installed = any(entry.ours and isinstance(entry.action, Url) for read in reads for entry in read.entries)
    return msgspec.structs.replace(agent, sure=installed)


def runs_itself(agent: HostAgent, declared: HookDeclaration, read: FileRead, home: str) -> str:
    """`run by Claude Code itself`, if the agent runs an entry of a file; else empty."""
    nested = declared.shape == "nested" and not declared.ours
    if not _reads_these(agent.host) or not nested or not _reads(agent, declared, home):
        return ""
    sure = agent.sure or any(entry.ours for entry in read.entries)
    return f"run by {EVERY_AGENT[agent.host].title} itself" if sure else ""


def of_claude_code(declared: HookDeclaration) -> bool:
    """Whether it is an entry of Claude Code's settings, which Claude Code runs itself."""
    return declared.shape == "nested" and not declared.ours and declared.file.endswith(_FILES)


def is_claudes(declared: HookDeclaration, host: str) -> bool:
    """The same inside an agent: only agents that read that file run the entry."""
    return of_claude_code(declared) and (not host or _reads_these(host.removeprefix("http:")))


def adopting_command(declared: HookDeclaration) -> str:
    """The command that moves an entry of Claude Code's settings to billhook; empty if `install` can't edit the file
    or move the entry."""
    if isinstance(declared.action, UnsupportedAction) or not declared.file.endswith(_FILES[0]):
        return ""
    return f"billhook install claude {'' if declared.layer == 'user' else '--project '}--adopt"


def _reads(agent: HostAgent, declared: HookDeclaration, home: str) -> bool:
    folder = next((declared.file.removesuffix(name) for name in _FILES if declared.file.endswith(name)), "")
    if not folder:
        return False
    if folder == home:
        return agent.host == "claude" or "user" in EVERY_AGENT[agent.host].reads_claude
    return not os.path.isdir(agent.project) or os.path.realpath(agent.project) == folder
