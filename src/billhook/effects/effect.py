"""What a tool call would do: the records that rules, the guard and hooks read, and what the guard protects."""

from typing import Final, Literal, get_args

import msgspec

UNKNOWN: Final = "\0"
"""The part of a word that only the shell knows: `a$X` reads as `a` + UNKNOWN. No argument can contain a NUL."""

Kind = Literal[
    "read", "write", "overwrite", "delete", "permissions", "device",
    "discard", "rewrite-history", "push", "force-push", "drop-recovery",
    "run-remote", "run-opaque", "privilege", "persist", "kill",
    "read-secret", "upload", "remote-shell",
    "destroy-infra", "destroy-data", "destroy-container", "publish",
    "disarm",
]  # fmt: skip
Scope = Literal["project", "temp", "home", "outside", "system", "remote", "unknown"]
Weight = Literal["light", "normal", "heavy"]

KINDS: Final[tuple[str, ...]] = get_args(Kind)
SCOPES: Final[tuple[str, ...]] = get_args(Scope)


class Effect(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that a tool call would do."""

    kind: Kind
    target: str = ""  # a resolved path, an address, a branch, a resource; UNKNOWN inside for what the call doesn't show
    scope: Scope = "unknown"
    via: tuple[str, ...] = ()  # how it is reached: ("sudo", "sh -c", "rm")
    certain: bool = True  # False: it depends on something that the call doesn't show; `why` names it
    why: str = ""
    cause: str = ""  # the part of the call that does it, as written
    weight: Weight = "normal"
    """`light`: routine, such as one file, or a push with a lease. `heavy`: all at once, forced, in production."""
    recursive: bool = False  # what is below the target as well, or all that a pattern matches
    names: tuple[str, ...] = ()  # of what is below only files of such names: `find -name '*.pyc' -delete`
    folder: str = ""  # where git works, of an effect on a repository: `git -C x` works in x

    @property
    def shown(self) -> str:
        """The target as people read it."""
        return self.target.replace(UNKNOWN, "<unknown>")


class Command(msgspec.Struct, frozen=True, omit_defaults=True):
    """One command that a call would run, its words expanded as far as the call shows their values."""

    name: str  # without its folder: `rm` for `/bin/rm`
    args: tuple[str, ...] = ()
    cwd: str = ""  # the folder it runs in; UNKNOWN where the call doesn't show it
    via: tuple[str, ...] = ()  # the wrappers that run it, outermost first
    text: str = ""  # as written
    program: str = ""  # the command word as given, with its folder
    assignments: tuple[str, ...] = ()  # variables set for it alone: `A=1 cmd`
    reads: tuple[str, ...] = ()  # files that its redirections read
    writes: tuple[str, ...] = ()  # files that its redirections truncate
    appends: tuple[str, ...] = ()
    stdin: str | None = None  # the text on its standard input, where the call shows it
    origins: frozenset[str] = frozenset()  # where its arguments come from: "remote", "decoded", "secret", "computed"
    fed: frozenset[str] = frozenset()  # the same for its standard input
    piped: bool = False  # its standard input is the output of another command
    shown: bool = True  # its output reaches the model: it goes to no file and into no other program
    folders: tuple[str, ...] = ()  # further folders that it may run in
    certain: bool = True
    why: str = ""

    @property
    def words(self) -> tuple[str, ...]:
        """The command and its arguments."""
        return (self.name, *self.args)


class ProtectedPaths(msgspec.Struct, frozen=True, eq=False):
    """What must not be changed unseen. All paths are absolute, and need not exist."""

    files: tuple[str, ...] = ()  # our configuration in all layers, and approved scripts
    folders: tuple[str, ...] = ()  # Everything below is configuration: `.billhook/`
    state: tuple[str, ...] = ()  # approvals, state and log: the parts of the state root that are ours alone
    names: frozenset[str] = frozenset()
    """Tails that are configuration wherever a project may be, such as `.claude/settings.json`: in the event's working
    folder, in any folder above it, and in any folder that holds `.git`. One that begins with a dot is in any folder of
    the project; a `src/hooks.yaml` with no such file beside it is just a file."""
    programs: tuple[str, ...] = ()
    """`billhook-hook` and `billhook`: as settings name them, as PATH finds them, and beside the interpreter.
    Of these, and of what follows, links are followed already."""
    interpreters: tuple[str, ...] = ()
    """What runs them. Its path is an ordinary argument, so only programs that are known to write count."""
    packages: tuple[str, ...] = ()  # everything below is billhook's own code
    sites: tuple[str, ...] = ()  # Folders in which a `*.pth` file or a `sitecustomize` runs before billhook does
    search_path: tuple[str, ...] = ()  # folders in which a new `billhook-hook` would be found first
    elsewhere: tuple[str, ...] = ()  # approved files of other projects
    approved: tuple[str, ...] = ()
    """Approved files of this project, those of `elsewhere` left out: git commands must not change them unseen."""
    compares: bool = True  # whether git commands are compared with the repository as it is now
