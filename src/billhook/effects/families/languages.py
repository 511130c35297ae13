"""The languages whose code is read: how each is written (`LANGUAGES`), and what their calls do (`CALLS`).

A new language is one entry, and the names of its calls. How its interpreter's command line names the code is a row of
`INTERPRETERS` or `ALSO_INTERPRET` in `effects/programs.py`.
"""

import functools
import posixpath
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from billhook.effects.effect import UNKNOWN, Effect, Kind, Scope, Weight
from billhook.effects.families.databases import effects_of_sql
from billhook.effects.families.network import is_here
from billhook.effects.places import absolute
from billhook.effects.secret_files import is_secret_file
from billhook.effects.table import Call


class Language(msgspec.Struct, frozen=True):
    """How one language is written."""

    name: str
    programs: str = ""  # its interpreters, where they have other names
    comment: str = r"\#[^\n]*"
    bare: bool = False  # a call needs no parentheses: `unlink "x"`
    ticks: bool = False  # code in backticks is a command
    redirects: bool = False  # `print > "file"`, `print | "command"`
    processes: str = ""  # only code with one of these words starts processes
    texts: Mapping[str, str] = {}  # what statements that are no calls do -> a pattern; its group is the argument


_SLASHES: Final = r"//[^\n]*|/\*.*?(?:\*/|\Z)"
_QUOTE: Final = r"""['"]"""
_QUOTED: Final = r"""['"]([^'"\n]*)['"]"""
_TEXT: Final = r'"((?:[^"\\]|\\.)*)"'
_SQL: Final = (
    r"(?i)(?:\.|->|::)\$?(?:query|execute|exec|run|raw|statement|unprepared|none|any|execute_?raw|execute_?update"
    r"|(?:execute|query)raw(?:unsafe)?)!?[( `]\s*['\"`]?\s*((?:drop|truncate|delete\s+from|update|alter)\s[^'\"`]*)"
)
"""SQL that is given to any object: `db.query("DROP TABLE x")`."""

LANGUAGES: Final = (
    Language("python", "py pypy ipython"),
    Language(
        "js",
        "javascript node nodejs deno bun tsx ts-node",
        _SLASHES,
        processes="child_process|Deno|Bun|cluster",
        texts={
            "delete_tree": rf"\brequire\({_QUOTE}rimraf{_QUOTE}\)(?:\.sync)?\(\s*{_QUOTED}",
            "sql": _SQL,
            "drop": r"\b\w+\.(dropDatabase|flush(?:all|All|db|Db))\(",
        },
    ),
    Language(
        "ruby",
        comment=r"\#[^\n{]*",
        bare=True,
        ticks=True,
        texts={"drop": r"\b([A-Z]\w*(?:::\w+)*\.(?:destroy_all|delete_all))\b", "sql": _SQL},
    ),
    Language(
        "perl",
        bare=True,
        ticks=True,
        texts={"delete_tree": rf"\bfind\s*\(\s*sub\s*\{{[^{{}}]*\b(?:unlink|rmdir)\b[^{{}}]*\}}\s*,\s*{_QUOTED}"},
    ),
    Language(
        "php",
        comment=rf"\#[^\n]*|{_SLASHES}",
        ticks=True,
        texts={
            "drop": r"\b([A-Z]\w*::(?:truncate|query\(\)->delete)|DB::table\([^()]*\)->(?:truncate|delete))\(\)",
            "sql": _SQL,
        },
    ),
    Language("lua", "luajit", comment=r"--[^\n]*"),
    Language("r", "R Rscript"),
    Language("julia", ticks=True),
    Language("elixir", "iex"),
    Language("groovy", comment=_SLASHES),
    Language(
        "awk",
        "gawk mawk nawk",
        redirects=True,
        texts={
            "read": rf"\bgetline\s+(?:\w+\s*)?<\s*{_TEXT}",
            "socket": r"/inet/(\w+)/",
            "attach": r"\bgetline\s+(\w+)(?=.{0,120}?[({;]\s*\1\s*\|&?\s*getline)",  # a command that it was sent
        },
    ),
    Language(
        "tcl",
        "tclsh wish",
        texts={
            "run": r"\bexec\s+([^\n;\]]+)",
            "delete_tree": r"\bfile\s+delete\s+(?:-force\s+)?(?:--\s+)?([^\s;\]]+)",
        },
    ),
    Language(
        "emacs",
        comment=r";[^\n]*",
        texts={
            "run": rf"\((?:async-)?shell-command(?:-to-string)?\s+{_TEXT}",
            "delete": rf"\(delete-file\s+{_TEXT}",
            "delete_tree": rf"\(delete-directory\s+{_TEXT}",
        },
    ),
    Language(
        "applescript",
        "osascript",
        comment=r"--[^\n]*",
        texts={
            "run": rf"\bdo shell script {_TEXT}",
            "delete_tree": r"\b(?:delete|empty (?:the )?trash|move .{0,80} to trash)\b()",
        },
    ),
)

CALLS: Final[Mapping[str, str]] = {
    "delete": """
        os.remove os.unlink os.rmdir os.removedirs .unlink .rmdir unlink rmdir unlinkSync rmSync rmdirSync removeSync
        js:rm js:remove julia:rm file.remove groovy:.delete File.rm File.rmdir File.delete File.unlink FileUtils.rm
        FileUtils.rm_f FileUtils.remove Dir.rmdir Dir.delete Dir.unlink""",
    "delete_tree": """
        shutil.rmtree .rmtree rmtree remove_tree rimraf rimrafSync rimraf.sync emptyDirSync .deleteDir File.rm_rf rm_rf
        FileUtils.rm_r FileUtils.rm_rf FileUtils.rmtree FileUtils.remove_dir FileUtils.remove_entry
        FileUtils.remove_entry_secure""",
    "move": """
        os.rename os.replace os.renames shutil.move python:.rename python:.replace rename renameSync perl:move julia:mv
        move_uploaded_file file.rename File.rename FileUtils.mv .renameTo""",
    "copy": """
        shutil.copy shutil.copy2 shutil.copyfile copyFileSync copyFile cpSync perl:copy php:copy julia:cp file.copy
        File.cp File.cp_r FileUtils.cp FileUtils.cp_r FileUtils.copy""",
    "link": "shutil.copytree os.symlink os.link",
    "overwrite": """
        os.truncate .write_text .write_bytes writeFileSync writeFile createWriteStream truncateSync truncate
        writeTextFileSync writeTextFile outputFileSync Bun.write file_put_contents File.write IO.write File.truncate
        File.binwrite julia:write awk:print>""",
    "write": """
        os.mkdir os.makedirs os.mkfifo .touch .symlink_to .hardlink_to appendFileSync appendFile mkdirSync perl:mkdir
        php:mkdir php:touch julia:touch mkpath FileUtils.touch FileUtils.mkdir_p File.mkdir File.mkdir_p
        File.touch awk:print>>""",
    "permissions": "os.chmod os.chown shutil.chown os.lchmod .chmod chmodSync chownSync php:chmod",
    "mode": "perl:chmod File.chmod FileUtils.chmod FileUtils.chmod_R",
    "extract": ".extractall .extract",
    "open": "open io.open codecs.open gzip.open .open fopen File.open",
    "perl_open": "perl:open",
    "read": """
        .read_text .read_bytes readFileSync readFile readTextFileSync readTextFile Bun.file File.read File.readlines
        dotenv.dotenv_values dotenv_values
        File.foreach IO.read IO.readlines file_get_contents readfile slurp readLines julia:read""",
    "content": ".read .readline",
    "run": """
        os.system os.popen pty.spawn commands.getoutput
        asyncio.create_subprocess_shell asyncio.create_subprocess_exec
        subprocess.run subprocess.call subprocess.Popen subprocess.check_call subprocess.check_output
        subprocess.getoutput subprocess.getstatusoutput os.execl os.execlp os.execle os.execv os.execvp os.execve
        os.execvpe os.posix_spawn os.posix_spawnp system exec execSync spawn spawnSync execFile execFileSync
        Deno.Command popen capture2 capture2e capture3 shell_exec passthru proc_open pcntl_exec os.execute io.popen
        system2 r:shell System.cmd System.shell os.cmd groovy:.execute awk:|""",
    "spawn": "python:.system os.spawnl os.spawnlp os.spawnle os.spawnv os.spawnvp os.spawnve",
    "code": """
        python:exec eval code.interact runpy.run_string runInThisContext runInNewContext instance_eval class_eval
        php:assert loadstring lua:load lua:dofile include_string Code.eval_string Eval.me evaluate""",
    "code_last": "Function create_function",
    "chdir": "os.chdir process.chdir Dir.chdir perl:chdir php:chdir",
    "kill": """
        os.kill os.killpg process.kill Deno.kill Process.kill perl:kill posix_kill""",
    "fork": "os.fork os.forkpty fork Process.fork pcntl_fork",
    "download": """
        requests.get httpx.get urllib.request.urlopen urllib.request.urlretrieve urllib.urlopen urllib2.urlopen .urlopen
        .recv .send .sendall .sendto .sendmail .send_message .storbinary .storlines fetch axios axios.get axios.post
        js:get URI.open Net.HTTP.get perl:get LWP.Simple.get curl_exec""",
    "upload": "requests.post requests.put requests.patch requests.request httpx.post httpx.put httpx.patch",
    "decode": """
        base64.b64decode base64.urlsafe_b64decode base64.decodebytes base64.b32decode base64.b16decode base64.b85decode
        bytes.fromhex bytearray.fromhex binascii.unhexlify binascii.a2b_hex binascii.a2b_base64 codecs.decode .decode
        zlib.decompress gzip.decompress marshal.loads pickle.loads atob Buffer.from Base64.decode64 decode64
        Base64.strict_decode64 Base64.urlsafe_decode64 .unpack .unpack1 decode_base64 perl:pack base64_decode hex2bin
        Base.decode64 Base.decode16 .decodeBase64 .decodeHex ruby:.pack""",
    "print": "print sys.stdout.write sys.stderr.write pprint.pprint",
    "connect": ".connect .create_engine",
    "sql": "python:.execute .executescript .executemany ruby:.execute js:.execute .query .exec_query .executeUpdate",
    "drop": ".drop_all .drop_database .flushall .flushdb .dropDatabase python:.delete",
    "destroy": "boto3.delete_ boto3.terminate_",
    "socket": "socket.socket socket.create_connection",
    "attach": "os.dup2 .fileno",
    "opaque": "os.open",
}
"""What calls do, and their names: `code_actions.py` tells what each word means.

A name counts as a whole, `os.remove`, or by its last part if only that is listed: `rmSync` for `fs.rmSync`. The value
before a name with a dot is its first argument: `.unlink` for `Path("x").unlink()`. `perl:` before a name: only in this
language.
"""


@functools.cache
def language_of_program(program: str) -> Language | None:
    """The language that an interpreter reads: Python for `python3.12`."""
    names = {program, re.sub(r"[\d.]+$", "", program)}
    return next((each for each in LANGUAGES if names & {each.name, *each.programs.split()}), None)


@functools.cache
def calls_of(language: str) -> dict[str, str]:
    """What the calls of one language do, by their names."""
    found = {name: does for does, names in CALLS.items() for name in names.split()}
    own = {name.partition(":")[2]: does for name, does in found.items() if name.startswith(f"{language}:")}
    return {name: does for name, does in found.items() if ":" not in name} | own


# What the calls of code do, whatever the language: the meaning of each word of `CALLS`.

LARGEST_CODE: Final = 64 * 1024
DEEPEST: Final = 4  # code inside code, functions inside functions
MOST_WORDS: Final = 64  # of one command, or paths of one call
_SHELLS: Final = frozenset({"sh", "bash", "zsh", "dash", "ksh"})
_HARMLESS_DEVICES: Final = ("/dev/null", "/dev/std", "/dev/tty", "/dev/zero", "/dev/fd", "/dev/shm")
_TARGETS: Final = frozenset({"path", "src", "dst", "file", "name", "args", "cmd", "text"})
"""Names under which calls take what they act on."""
_ON_PATHS: Final[Mapping[str, Sequence[tuple[Kind, int]]]] = {
    "delete": [("delete", 0)],
    "delete_tree": [("delete", 0)],
    "move": [("delete", 0), ("overwrite", 1)],
    "copy": [("overwrite", 1)],
    "link": [("write", 1)],
    "overwrite": [("overwrite", 0)],
    "write": [("write", 0)],
    "permissions": [("permissions", 0)],
    "mode": [("permissions", 1)],
}
"""What is done to the paths at which places of the arguments."""
# what a call does by itself, whatever its arguments are
_AT_ONCE: Final[Mapping[str, tuple[Kind, Scope]]] = {
    "drop": ("destroy-data", "remote"),
    "destroy": ("destroy-infra", "remote"),
}
# where the result of a call comes from
_ORIGINS: Final = {"decode": frozenset({"decoded"}), "download": frozenset({"remote"}), "upload": frozenset({"remote"})}
_PRINTED = re.compile(r"\bprint\s*\{?\s*\$?\w+\s*\}?\s+(['\"])((?:(?!\1).)*)\1", re.DOTALL)
"""What perl prints into a handle: `print F "..."`."""
_ENDLESS = re.compile(r"\bwhile\s*\(?\s*(?:1|True|true)\b|\bloop\s*(?:do\b|\{)|\bfor\s*\(\s*;\s*;")


class KnownValue(NamedTuple):
    """The known part of a value."""

    value: Any = None  # a string, bytes, a number or a tuple of such; None: unknown
    name: str = ""  # of a module or a function: `os.system`
    origins: frozenset[str] = frozenset()  # where it comes from: "remote", "decoded", "secret"

    @property
    def text(self) -> str:
        """The value as a string, with UNKNOWN for its unknown parts."""
        return text_of(self.value)


class CodeCall(NamedTuple):
    """A call that does something."""

    args: Sequence[KnownValue]
    named: Mapping[str, KnownValue]
    origins: frozenset[str]

    def text(self, place: int, default: str = UNKNOWN) -> str:
        return self.args[place].text if place < len(self.args) else default

    @property
    def words(self) -> list[str]:
        return [word for word in _flat(each.value for each in self.args) if word][:MOST_WORDS]

    @property
    def line(self) -> str:
        """The command that it runs: all arguments up to a list, or the first where that is a whole line."""
        lists = [place for place, each in enumerate(self.args, 1) if isinstance(each.value, tuple)]
        words = self._replace(args=self.args[: lists[0]]).words if lists else self.words
        if words and " " in words[0].strip():
            return words[0]
        if len(words) > 1 and posixpath.basename(words[0]) == words[1]:  # `execvp("rm", ["rm", "-rf", "x"])`
            del words[1]
        return words[0] if len(words) == 1 else shlex.join(words)


def text_of(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return str(value) if isinstance(value, str | int) else UNKNOWN


def origins_of(seen: Iterable[KnownValue]) -> frozenset[str]:
    return frozenset().union(*(each.origins for each in seen if each.origins))


def _flat(values: Iterable[Any]) -> Iterator[str]:
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
        self.gave_up = False  # it is too long
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
            self.effects.append(self.call.effect("remote-shell", scope="remote"))

    def run(self, text: str) -> None:
        """Read the whole code, or code that it runs."""
        raise NotImplementedError

    def act(self, does: str, args: Sequence[KnownValue], named: Mapping[str, KnownValue], name: str = "") -> KnownValue:
        """Note what a call does; its result, as far as that is known."""
        self._done.add(does)
        origins = origins_of([*args, *named.values()]) | _ORIGINS.get(does, frozenset())
        call = CodeCall([*args, *(seen for key, seen in named.items() if key in _TARGETS)], named, origins)
        result: KnownValue | None = None
        if does in _ON_PATHS:
            self._change(does, call)
        elif does in _AT_ONCE:
            kind, scope = _AT_ONCE[does]
            self._add(kind, name, scope)
        elif action := getattr(self, f"_on_{does}", None):
            result = action(call)
        return KnownValue(result.value, "", result.origins | origins) if result else KnownValue(origins=origins)

    def _add(self, kind: Kind, target: str = "", scope: Scope = "unknown", weight: Weight = "normal") -> None:
        self.effects.append(self.call.effect(kind, target, scope=scope, weight=weight, certain=self.certain))

    # ----- files

    def _change(self, does: str, call: CodeCall) -> None:
        recursive = does == "delete_tree" or bool(call.named.get("recursive", KnownValue()).value)
        for kind, place in _ON_PATHS[does]:
            every = does.startswith("delete") and self.language.bare  # `unlink "a", "b"`
            args = [arg for arg in call.args if not arg.text.startswith("-")]  # `rm("-rf", "x")`
            given = args if every else args[place : place + 1]
            words = call._replace(args=given).words
            for word in words or ([] if place else [UNKNOWN]):
                self._on_path(kind, word, recursive=recursive)

    def _on_path(self, kind: Kind, word: str, *, recursive: bool = False, weight: Weight | None = None) -> None:
        if kind in ("overwrite", "write") and self._path(word).startswith("/dev/"):
            kind, weight = "device", "normal"
        if kind == "device" and self._path(word).startswith(_HARMLESS_DEVICES):
            return
        self.effects += self.call.on_path(
            kind, word, recursive=recursive, itself=kind == "delete", certain=self.certain, weight=weight
        )

    def _path(self, word: str) -> str:
        return absolute(word, self.call.command.cwd, self.call.world)

    def _on_open(self, call: CodeCall) -> KnownValue | None:
        mode = call.named["mode"].text if "mode" in call.named else call.text(1, "r")
        return self._open(call.text(0), mode)

    def _on_perl_open(self, call: CodeCall) -> KnownValue | None:
        """`open(my $f, ">", path)`, `open(F, ">path")`, `open(F, "command |")`."""
        given = call.text(1, "") + call.text(2, "")
        path, mode = given.strip("+<>|- "), "a" if given.startswith(">>") else "w" if given.startswith(">") else "r"
        if given.startswith("|") and posixpath.basename(path) in _SHELLS:
            self.shell += [found[2] for found in _PRINTED.finditer(self.text)]
        return self._open("|" + path if "|" in given else path, mode)

    def _open(self, path: str, mode: str) -> KnownValue | None:
        if path.startswith("|"):
            self.shell.append(path[1:])
        elif {"w", "a", "x", "+"} & set(mode):
            self._on_path("overwrite" if "w" in mode else "write", path)
        else:
            return self._reads(path)._replace(value=path)  # the path represents the content until that is read
        return None

    def _on_read(self, call: CodeCall) -> KnownValue:
        return self._reads(call.text(0))

    def _reads(self, path: str) -> KnownValue:
        if "://" in path:
            return KnownValue(origins=frozenset({"remote"}))
        if is_secret_file(self._path(path)):
            self._secrets.append(path)
            # of other languages too little is followed to tell whether a secret is only loaded
            self._on_path("read-secret", path, weight="light" if self.language.name == "python" else self._shown)
            return KnownValue(origins=frozenset({"secret"}))
        if path.strip(UNKNOWN):
            self._on_path("read", path)
        return self._content(path)

    def _on_content(self, call: CodeCall) -> KnownValue:
        return self._content(call.text(0))

    def _content(self, path: str) -> KnownValue:
        """The text of a file; a secret must not become a part of what is shown."""
        fs = self.call.world.fs
        full = fs.real(self._path(path))
        return KnownValue(None if is_secret_file(full) else fs.read(full, LARGEST_CODE))

    @property
    def _shown(self) -> Weight:
        return "normal" if self.call.command.shown else "light"

    def _on_print(self, call: CodeCall) -> None:
        for path in self._secrets if "secret" in call.origins else ():
            self._on_path("read-secret", path, weight=self._shown)

    def _on_extract(self, call: CodeCall) -> None:
        self._on_path("write", call.text(1, "."))

    def _on_chdir(self, call: CodeCall) -> None:
        command = msgspec.structs.replace(self.call.command, cwd=self._path(call.text(0)), folders=())
        self.call = Call(command, self.call.world, self.call.scopes, frozenset())
        self._folder = f"cd {shlex.quote(command.cwd)} && "

    # ----- processes and code

    def _on_run(self, call: CodeCall) -> None:
        line = call.line
        if posixpath.basename(line.removesuffix(" -i").strip()) in _SHELLS:
            self._done.add("attach")  # a shell without a script, on whatever its streams are
        if line.strip(UNKNOWN + "' "):
            self.shell.append(self._folder + line)
            if "input" in call.named and posixpath.basename(line.split()[0]) in _SHELLS:
                self.shell.append(self._folder + call.named["input"].text)
            return
        self.understood = False
        if call.origins & {"remote", "decoded"}:
            self._computed(call.origins)

    def _on_spawn(self, call: CodeCall) -> None:
        """Its first argument is no part of the command."""
        self._on_run(call._replace(args=call.args[1:]))

    def _on_code(self, call: CodeCall, place: int = 0) -> None:
        code = call.text(place)
        origins = origins_of(call.args)
        known = UNKNOWN not in code and self.depth <= DEEPEST
        if not known or "decoded" in origins:
            self._computed(origins)
        if not known:
            self.understood = False
            return
        self.depth += 1
        self.run(code)
        self.depth -= 1

    def _on_code_last(self, call: CodeCall) -> None:
        self._on_code(call, len(call.args) - 1)

    def _computed(self, origins: frozenset[str]) -> None:
        if "remote" in origins:
            self._add("run-remote", scope="remote")
            return
        why = "the code is decoded first" if "decoded" in origins else "the code is computed"
        self.effects.append(self.call.effect("run-opaque", certain=self.certain and bool(origins), why=why))

    def _on_opaque(self, _: CodeCall) -> None:
        self.understood = False

    def _on_kill(self, call: CodeCall) -> None:
        self._add("kill", weight="heavy" if "-1" in call.words else "light")

    def _on_fork(self, _: CodeCall) -> None:
        if _ENDLESS.search(self.text):
            self._add("kill", "every process: a fork bomb")

    # ----- data

    def _on_download(self, call: CodeCall) -> None:
        if "secret" in call.origins or {"data", "json", "files"} & call.named.keys():
            self._on_upload(call)

    def _on_upload(self, call: CodeCall) -> None:
        if not is_here(call.text(0)):
            secret = "secret" in call.origins | self.call.command.origins
            self._add("upload", call.text(0), "remote", "heavy" if secret else "light")

    def _on_connect(self, call: CodeCall) -> None:
        self._databases.append(call.text(1, ""))

    def _on_sql(self, call: CodeCall) -> None:
        self.effects += effects_of_sql(self.call, call.text(1, "") or call.text(0), self._databases)
