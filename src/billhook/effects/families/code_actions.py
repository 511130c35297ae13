"""What the calls of code do, whatever the language: one method for each word of `CALLS` in `languages.py`.

Readers of a syntax find the calls and the values that the text shows; nothing is run.
"""

import base64
import posixpath
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Union

import msgspec

from billhook.effects.effect import UNKNOWN, Effect, Kind, Scope, Weight
from billhook.effects.families.databases import effects_of_sql
from billhook.effects.families.languages import Language, calls_of
from billhook.effects.families.network import is_here
from billhook.effects.places import absolute
from billhook.effects.secret_files import is_secret_file
from billhook.effects.table import Call

Value = Union[str, bytes, int, tuple["Value", ...], None]  # noqa: UP007, `|` takes no forward reference

LARGEST_CODE: Final = 64 * 1024
DEEPEST: Final = 4  # code inside code, functions inside functions
MOST_ITEMS: Final = 32
_SHELLS: Final = frozenset({"sh", "bash", "zsh", "dash", "ksh"})
_HARMLESS_DEVICES: Final = ("/dev/null", "/dev/std", "/dev/tty", "/dev/zero", "/dev/fd", "/dev/shm")
_TARGETS: Final = frozenset({"path", "src", "dst", "file", "name", "args", "cmd", "text"})
"""Names under which calls take what they act on."""
_ON_PATHS: Final[Mapping[str, tuple[tuple[Kind, int], ...]]] = {
    "delete": (("delete", 0),),
    "delete_tree": (("delete", 0),),
    "move": (("delete", 0), ("overwrite", 1)),
    "copy": (("overwrite", 1),),
    "link": (("write", 1),),
    "overwrite": (("overwrite", 0),),
    "write": (("write", 0),),
    "permissions": (("permissions", 0),),
}
"""What is done to the paths at which places of the arguments."""
_ENDLESS = re.compile(r"\bwhile\s*\(?\s*(?:1|True|true)\b|\bloop\b|\bfor\s*\(\s*;\s*;")


class Seen(NamedTuple):
    """What a text shows of a value."""

    value: Value = None  # None: not known
    name: str = ""  # of a module or a function: `os.system`
    origins: frozenset[str] = frozenset()  # where it comes from: "remote", "decoded", "secret"


NOTHING: Final = Seen()
Named = Mapping[str, Seen]


def text_of(value: Value) -> str:
    """A value as a text, UNKNOWN where it is not known."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value if isinstance(value, str) else UNKNOWN if value is None else str(value)


def origins_of(seen: Iterable[Seen]) -> frozenset[str]:
    return frozenset().union(*(each.origins for each in seen))


def _flat(values: Iterable[Value]) -> Iterator[str]:
    for value in values:
        yield from _flat(value) if isinstance(value, tuple) else (text_of(value),)


class CodeReader:
    """One text of code, and all that it does."""

    def __init__(self, language: Language, call: Call) -> None:
        self.language, self.call = language, call
        self.calls = calls_of(language.name)
        self.effects: list[Effect] = []
        self.shell: list[str] = []  # lines that it gives to a shell
        self.understood = self.certain = True
        self.depth = 0
        self.text = self._folder = ""
        self._done: set[str] = set()
        self._secrets: list[str] = []
        self._databases: list[str] = []

    def read(self, text: str) -> None:
        """Read a whole text."""
        self.text = text
        try:
            self.run(text)
        except (RecursionError, MemoryError):
            self.understood = False
        if self._done >= {"socket", "attach"}:
            self._add("remote-shell", scope="remote")

    def run(self, text: str) -> None:
        """Read a text, the whole or one that it runs in turn."""
        raise NotImplementedError

    def act(self, does: str, args: Sequence[Seen], named: Named) -> Seen:
        """Note what a call does, and tell what is known of its result."""
        self._done.add(does)
        given = [*args, *(seen for name, seen in named.items() if name in _TARGETS)]
        if does in _ON_PATHS:
            self._change(does, given, named)
            return NOTHING
        action = getattr(self, f"_on_{does}", None)
        result: Seen = (action(given, named) if action else None) or NOTHING
        return result._replace(origins=origins_of([*args, *named.values(), result]))

    def _add(self, kind: Kind, target: str = "", scope: Scope = "unknown", weight: Weight = "normal") -> None:
        self.effects.append(self.call.effect(kind, target, scope=scope, weight=weight, certain=self.certain))

    # ----- files

    def _change(self, does: str, args: list[Seen], named: Named) -> None:
        recursive = does == "delete_tree" or bool(named.get("recursive", NOTHING).value)
        for kind, place in _ON_PATHS[does]:
            every = self.language.bare and len(_ON_PATHS[does]) == 1 and not place  # `unlink "a", "b"`
            targets = args if every else args[place : place + 1]
            for word in [*_flat(each.value for each in targets)][:MOST_ITEMS] or ([] if place else [UNKNOWN]):
                self._on_path(kind, word, recursive=recursive)

    def _on_path(self, kind: Kind, word: str, *, recursive: bool = False, weight: Weight | None = None) -> None:
        if kind in ("overwrite", "write") and self.path(word).startswith("/dev/"):
            if self.path(word).startswith(_HARMLESS_DEVICES):
                return
            kind, weight = "device", "normal"
        self.effects += self.call.on_path(
            kind, word, recursive=recursive, itself=kind == "delete", certain=self.certain, weight=weight
        )

    def path(self, word: str) -> str:
        return absolute(word, self.call.command.cwd, self.call.world)

    def _on_open(self, args: list[Seen], named: Named) -> Seen | None:
        path = text_of(args[0].value) if args else UNKNOWN
        mode = text_of((named.get("mode") or [*args, NOTHING, NOTHING][1]).value)
        if path.startswith("|"):  # Ruby's `open("|command")`
            self.shell.append(path[1:])
        elif not {"w", "a", "x", "+"} & set(mode):
            return self._on_read(args, named)._replace(value=path)  # it stands for the content until that is read
        else:
            self._on_path("overwrite" if "w" in mode else "write", path)
        return None

    def _on_perl_open(self, args: list[Seen], named: Named) -> Seen | None:
        """`open(my $f, ">", path)`, `open(F, ">path")`, `open(F, "command |")`."""
        given = "".join(text_of(each.value) for each in args[1:3])
        path = given.strip("+<>|- ")
        if "|" in given:
            self.shell.append(path)
        elif given.startswith(">"):
            self._on_path("write" if given.startswith(">>") else "overwrite", path)
        return self._on_read([Seen(path)], named) if given.startswith("<") else None

    def _on_read(self, args: list[Seen], named: Named) -> Seen:
        path = args[0].value if args else None
        if not isinstance(path, str) or not path.strip(UNKNOWN):
            return NOTHING
        if "://" in path:
            return Seen(origins=frozenset({"remote"}))
        if is_secret_file(self.path(path)):
            self._secrets.append(path)
            # of other languages too little is followed to tell whether a secret is only loaded
            self._on_path("read-secret", path, weight="light" if self.language.name == "python" else self._shown)
            return Seen(origins=frozenset({"secret"}))
        self._on_path("read", path)
        return self._on_content(args, named)

    def _on_content(self, args: list[Seen], named: Named) -> Seen:
        """The text of a file that was opened."""
        path = args[0].value
        return Seen(self.call.world.fs.read(self.path(path), LARGEST_CODE) if isinstance(path, str) else None)

    @property
    def _shown(self) -> Weight:
        return "normal" if self.call.command.shown else "light"

    def _on_print(self, args: list[Seen], named: Named) -> None:
        if "secret" in origins_of([*args, *named.values()]):
            for path in self._secrets:
                self._on_path("read-secret", path, weight=self._shown)

    def _on_extract(self, args: list[Seen], named: Named) -> None:
        self._on_path("write", text_of(args[1].value) if args[1:] else ".")

    def _on_delete_chosen(self, args: list[Seen], named: Named) -> None:
        why = "the program chooses what it deletes"
        self.effects.append(self.call.effect("delete", UNKNOWN, certain=False, why=why))

    def _on_chdir(self, args: list[Seen], named: Named) -> None:
        cwd = self.path(text_of(args[0].value)) if args else UNKNOWN
        command = msgspec.structs.replace(self.call.command, cwd=cwd, folders=())
        self.call = Call(command, self.call.world, self.call.scopes, frozenset())
        self._folder = f"cd {shlex.quote(cwd)} && "

    # ----- processes and code

    def _on_shell(self, args: list[Seen], named: Named) -> None:
        """A command is the first argument, as a text or as a list."""
        self._on_run(args[:1], named)

    def _on_exec(self, args: list[Seen], named: Named) -> None:
        """`execvp("rm", ["rm", "-rf", "x"])`: the program, then its name again."""
        listed = [each for each in args[1:] if isinstance(each.value, tuple)]
        words = [*_flat(each.value for each in listed[:1] or args[1:])]
        self._on_run([*args[:1], *map(Seen, words[1:])], named)

    def _on_spawn(self, args: list[Seen], named: Named) -> None:
        self._on_exec(args[1:], named)

    def _on_run(self, args: list[Seen], named: Named) -> None:
        """A command is all the arguments, or the first where that is a whole line."""
        words = [word for word in _flat(each.value for each in args) if word]
        if words and (" " in words[0].strip() or "shell" in named):
            del words[1:]
        line = words[0] if len(words) == 1 else shlex.join(words)
        if line.strip(UNKNOWN + "' "):
            self.shell.append(self._folder + line)
            given = text_of(named.get("input", Seen("")).value)
            if given and posixpath.basename(line.split()[0]) in _SHELLS:
                self.shell.append(self._folder + given)
            return
        self.understood = False
        if origins_of(args) & {"remote", "decoded"}:
            self._computed(origins_of(args))

    def _on_code(self, args: list[Seen], named: Named) -> None:
        code = args[0] if args else NOTHING
        if code.value is None or UNKNOWN in text_of(code.value) or self.depth > DEEPEST:
            self.understood = False
            self._computed(code.origins)
            return
        if "decoded" in code.origins:
            self._computed(frozenset({"decoded"}))
        self.depth += 1
        self.run(text_of(code.value))
        self.depth -= 1

    def _on_code_last(self, args: list[Seen], named: Named) -> None:
        self._on_code(args[-1:], named)

    def _computed(self, origins: frozenset[str]) -> None:
        """What is run is decoded or computed, or comes from elsewhere."""
        if "remote" in origins:
            self._add("run-remote", scope="remote")
            return
        why = "the code is decoded first" if "decoded" in origins else "the code is computed"
        self.effects.append(self.call.effect("run-opaque", certain=self.certain and bool(origins), why=why))

    def _on_kill(self, args: list[Seen], named: Named) -> None:
        everything = any(text_of(each.value) == "-1" for each in args)
        self._add("kill", weight="heavy" if everything else "light")

    def _on_fork(self, args: list[Seen], named: Named) -> None:
        if _ENDLESS.search(self.text):
            self._add("kill", "every process: a fork bomb")

    def _on_opaque(self, args: list[Seen], named: Named) -> None:
        self.understood = False

    # ----- data

    def _on_download(self, args: list[Seen], named: Named) -> Seen:
        if "secret" in origins_of([*args, *named.values()]) or {"data", "json", "files"} & named.keys():
            self._on_upload(args, named)
        return Seen(None, "", frozenset({"remote"}))

    def _on_upload(self, args: list[Seen], named: Named) -> Seen:
        address = text_of(args[0].value) if args else UNKNOWN
        origins = origins_of([*args, *named.values()]) | self.call.command.origins
        if not is_here(address):
            self._add("upload", address, "remote", "heavy" if "secret" in origins else "light")
        return Seen(None, "", frozenset({"remote"}))

    def _on_connect(self, args: list[Seen], named: Named) -> None:
        self._databases += [text_of(each.value) for each in args[1:2]]

    def _on_sql(self, args: list[Seen], named: Named) -> None:
        for text in args[1:2]:
            self.effects += effects_of_sql(self.call, text_of(text.value), self._databases)

    def _on_device(self, args: list[Seen], named: Named) -> None:
        self._add("device")

    def _on_drop(self, args: list[Seen], named: Named) -> None:
        self._add("destroy-data", scope="remote")

    def _on_destroy(self, args: list[Seen], named: Named) -> None:
        self._add("destroy-infra", scope="remote")

    # ----- values

    def _on_decode(self, args: list[Seen], named: Named) -> Seen:
        """`atob("...")`, `Buffer.from("...", "hex")`, `pack("H*", "...")`: the longest argument is the data."""
        data = max((text_of(each.value) for each in args), key=len, default=UNKNOWN)
        return Seen(_decoded(data), "", frozenset({"decoded"}))

    def _on_value(self, args: list[Seen], named: Named) -> Seen:
        return args[0] if args else NOTHING

    def _on_home(self, args: list[Seen], named: Named) -> Seen:
        return Seen("~")


def _decoded(data: str) -> Value:
    for decode in (bytes.fromhex, base64.b64decode):
        try:
            return decode(data).decode() if UNKNOWN not in data else None
        except ValueError:
            continue
    return None
