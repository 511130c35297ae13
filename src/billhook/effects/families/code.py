"""What code given to an interpreter does: `python -c`, `node -e`, here-documents, small scripts.

Python is read in `python_code.py`. The other languages are read token by token: calls of known names, with the
arguments that are literal; what is computed makes an effect uncertain.
"""

import base64
import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from billhook.effects.effect import UNKNOWN, Effect, Kind
from billhook.effects.families.python_code import LARGEST_CODE, PythonReader
from billhook.effects.secret_files import is_secret_file
from billhook.effects.table import Call, word_set

MOST_TOKENS: Final = 40  # of one call's arguments
MOST_CALLS: Final = 2_000  # and assignments
LONGEST_VALUE: Final = 4_096  # of a variable
_LANGUAGES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("python", "python2", "python3", "py", "pypy", "pypy3", "ipython"), "python"),
    **dict.fromkeys(("node", "nodejs", "deno", "bun", "js", "javascript", "tsx", "ts-node"), "js"),
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk"), "awk"),
    **dict.fromkeys(("lua", "luajit"), "lua"),
    **dict.fromkeys(("powershell", "pwsh"), "powershell"),
    **dict.fromkeys(("osascript", "applescript"), "osascript"),
}


def effects_of_code(
    language: str, text: str, call: Call, args: tuple[str, ...] = ()
) -> tuple[list[Effect], list[str], bool]:
    """Its effects, the shell texts that it runs, and whether all of it was understood."""
    if len(text) > LARGEST_CODE:
        return [], [], False
    language = _LANGUAGES.get(language, re.sub(r"[\d.]+$", "", language))
    if _LANGUAGES.get(language, language) == "python":
        reader = PythonReader(call, args)
        reader.read(text)
        return reader.effects, reader.shell, reader.understood
    found = _Literals(language, call)
    found.read(text)
    return found.effects, found.shell, found.understood


class _Meaning(msgspec.Struct, frozen=True):
    """What the calls of one language do, by their names."""

    acts: Mapping[str, tuple[Kind, int]]  # name -> kind, and which argument is the path
    shell: frozenset[str]
    code: frozenset[str]
    comment: str
    recursive: frozenset[str] = frozenset()
    bare: bool = False  # a call needs no parentheses: `unlink "x"`


def _kinds(delete: str = "", overwrite: str = "", write: str = "", second: str = "") -> dict[str, tuple[Kind, int]]:
    found: dict[str, tuple[Kind, int]] = {}
    found |= dict.fromkeys(delete.split(), ("delete", 0))
    found |= dict.fromkeys(overwrite.split(), ("overwrite", 0))
    found |= dict.fromkeys(write.split(), ("write", 0))
    return found | dict.fromkeys(second.split(), ("overwrite", 1))


_MEANINGS: Final[Mapping[str, _Meaning]] = {
    "js": _Meaning(
        _kinds(
            "rmSync rm rmdirSync rmdir unlinkSync unlink rimraf rimrafSync removeSync remove emptyDirSync",
            "writeFileSync writeFile createWriteStream truncateSync truncate writeTextFileSync outputFileSync",
            "appendFileSync appendFile mkdirSync",
            "renameSync rename copyFileSync copyFile cpSync",
        ),
        word_set("exec execSync spawn spawnSync execFile execFileSync fork"),
        word_set("eval Function runInThisContext runInNewContext"),
        r"//[^\n]*|/\*.*?(?:\*/|\Z)",
        word_set("rimraf rimrafSync removeSync emptyDirSync"),
    ),
    "ruby": _Meaning(
        _kinds(
            "File.delete File.unlink FileUtils.rm FileUtils.rm_f FileUtils.rm_r FileUtils.rm_rf FileUtils.rmtree rm_rf "
            "FileUtils.remove_dir FileUtils.remove_entry FileUtils.remove_entry_secure Dir.rmdir Dir.delete Dir.unlink "
            "FileUtils.remove",
            "File.write IO.write File.truncate File.binwrite",
            "FileUtils.touch FileUtils.mkdir_p",
            "File.rename FileUtils.mv FileUtils.cp FileUtils.cp_r FileUtils.copy",
        ),
        word_set("system exec spawn popen capture2 capture2e capture3 Kernel.system Kernel.exec"),
        word_set("eval instance_eval class_eval"),
        r"\#[^\n{]*",
        word_set("FileUtils.rm_r FileUtils.rm_rf FileUtils.rmtree FileUtils.remove_dir FileUtils.remove_entry rm_rf"),
        bare=True,
    ),
    "perl": _Meaning(
        _kinds("unlink rmdir rmtree remove_tree File.Path.rmtree", "truncate", "mkdir", "rename copy move"),
        word_set("system exec"),
        word_set("eval"),
        r"\#[^\n]*",
        word_set("rmtree remove_tree File.Path.rmtree"),
        bare=True,
    ),
    "php": _Meaning(
        _kinds("unlink rmdir", "file_put_contents", "touch mkdir", "rename copy move_uploaded_file"),
        word_set("system exec shell_exec passthru popen proc_open pcntl_exec"),
        word_set("eval assert create_function"),
        r"//[^\n]*|\#[^\n]*|/\*.*?(?:\*/|\Z)",
    ),
    "lua": _Meaning(
        _kinds("os.remove", "", "", "os.rename"),
        word_set("os.execute io.popen"),
        word_set("loadstring load dofile"),
        r"--[^\n]*",
    ),
    "Rscript": _Meaning(
        _kinds("unlink file.remove", "writeLines", "", "file.rename file.copy"),
        word_set("system system2 shell"),
        word_set("eval parse"),
        r"\#[^\n]*",
    ),
    "julia": _Meaning(_kinds("rm", "write", "touch mkpath", "mv cp"), word_set("run"), word_set("eval"), r"\#[^\n]*"),
    "awk": _Meaning({}, word_set("system"), frozenset(), r"\#[^\n]*"),
}
_DECODERS: Final = word_set(
    "atob Buffer.from Base64.decode64 Base64.strict_decode64 decode64 base64_decode decode_base64"
)
_FILE_READS: Final = word_set(
    "readFileSync readFile readTextFileSync readTextFile File.read File.readlines IO.read IO.readlines "
    "file_get_contents readfile File.open fopen slurp Bun.file"
)
_SOCKET = re.compile(r"\b(?:fsockopen|TCPSocket|PF_INET|AF_INET|inet_aton|net\.(?:connect|Socket|createConnection))\b")
_SHELL_PATH = re.compile(r"(?:/bin/(?:ba|z|da)?sh|cmd\.exe)\b")
_REMOTE_READS: Final = word_set("fetch get axios URI.open open-uri urlopen LWP file_get_contents curl_exec")
_TOKEN: Final = r"""
    (?P<comment>{comment})
  | (?P<quoted>(?:%[xqQ]|\bq[qx]?)(?:\[[^\]]*(?:\]|\Z) | \([^\)]*(?:\)|\Z) | \{{[^\}}]*(?:\}}|\Z)) )
  | (?P<string>"(?:[^"\\]|\\.)*(?:"|\\?\Z) | '(?:[^'\\]|\\.)*(?:'|\\?\Z) )
  | (?P<ticks>`(?:[^`\\]|\\.)*(?:`|\\?\Z))
  | (?P<name>[$@]?[A-Za-z_][\w]*(?:(?:\.|::|->)[A-Za-z_]\w*[!?]?)*)
  | (?P<number>\d+)
  | (?P<sign>>>|\|&|<<|[^\s])
"""
_PATTERNS: Final = {
    name: re.compile(_TOKEN.format(comment=meaning.comment), re.VERBOSE | re.DOTALL)
    for name, meaning in _MEANINGS.items()
}
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)", re.DOTALL)
_INSIDE = re.compile(r"[#$]\{[^}]*\}|(?<!\\)\$[A-Za-z_]\w*")


class _Token(msgspec.Struct, frozen=True):
    kind: str
    text: str


def _unescaped(text: str) -> str:
    def plain(found: re.Match[str]) -> str:
        sign = found[1]
        return chr(int(sign[1:], 16)) if len(sign) > 1 else {"n": "\n", "t": "\t"}.get(sign, sign)

    return _ESCAPE.sub(plain, text)


class _Literals:
    """A text read token by token."""

    def __init__(self, language: str, call: Call) -> None:
        self.language, self.call = language, call
        self.effects: list[Effect] = []
        self.shell: list[str] = []
        self.understood = True
        self._variables: dict[str, str] = {}
        self._depth = self._calls = 0

    def read(self, text: str) -> None:
        if self.language == "powershell":
            self._powershell(text)
        elif self.language == "osascript":
            self._osascript(text)
        elif self.language in _MEANINGS:
            self._meaning = _MEANINGS[self.language]
            self._tokens(text)
            if _SOCKET.search(text) and _SHELL_PATH.search(text):
                self.effects.append(self.call.effect("remote-shell", scope="remote"))
        else:
            self.understood = False

    # ----- languages with calls

    def _tokens(self, text: str) -> None:
        pattern = _PATTERNS[self.language]
        tokens = [_Token(m.lastgroup or "", m[0]) for m in pattern.finditer(text) if m.lastgroup != "comment"]
        processes = self.language != "js" or "child_process" in text or "Deno" in text or "Bun" in text
        for place, token in enumerate(tokens):
            following = tokens[place + 1 : place + 2]
            if token.kind == "name":
                self._name(token.text, tokens, place, following, processes=processes)
            elif token.text.startswith(("%x", "qx", "`")) and token.kind != "sign" and self.language != "js":
                self.shell.append(self._literal(token))
            elif self.language == "awk":
                self._awk(tokens, place)

    def _name(self, name: str, tokens: list[_Token], place: int, following: list[_Token], *, processes: bool) -> None:
        self._calls += 1
        if self._calls > MOST_CALLS:
            self.understood = False
            return
        sign = following[0].text if following else ""
        if sign == "=" and [t.text for t in tokens[place + 2 : place + 3]] != ["="]:
            value, _ = self._argument(tokens, place + 2)
            self._variables[name] = value if len(value) <= LONGEST_VALUE else UNKNOWN
            return
        opened = sign == "("
        if not opened and not (self._meaning.bare and following and following[0].kind in ("string", "name", "quoted")):
            return
        self._called(
            name,
            list(self._arguments(tokens, place + 1 + opened)),
            tokens[place : place + MOST_TOKENS],
            processes=processes,
        )

    def _called(self, full: str, args: list[str], rest: list[_Token], *, processes: bool) -> None:
        meaning = self._meaning
        full = full.replace("::", ".").replace("->", ".")
        name = full if full in meaning.acts or "." not in full else full.rpartition(".")[2]
        if self.language == "ruby" and "." not in full and name not in meaning.shell | meaning.code | {"rm_rf", "open"}:
            return
        if name in meaning.acts:
            kind, place = meaning.acts[name]
            self._act(kind, name, args, place, {token.text for token in rest[:24]})
        elif (name in meaning.shell or full in meaning.shell) and processes:
            self._starts(args, rest)
        elif name in meaning.code:
            self._code(args, rest)
        elif name in _FILE_READS or full in _FILE_READS:
            self._reads(args)
        elif name in ("open", "fopen", "File.open") or full in ("File.open", "io.open"):
            self._opens(args)

    def _act(self, kind: Kind, name: str, args: list[str], place: int, words: set[str]) -> None:
        if place >= len(args) and place:
            return
        recursive = name in self._meaning.recursive or ("recursive" in words and "false" not in words)
        targets = args[place:] if self._meaning.bare and not place else args[place : place + 1]
        if place:  # a rename: the old name is gone
            self.effects += (
                self.call.on_path("delete", args[0], itself=True) if "ename" in name or name == "move" else ()
            )
        for word in targets or [UNKNOWN]:
            self.effects += self.call.on_path(kind, word, recursive=recursive, itself=kind == "delete")

    def _reads(self, args: list[str]) -> None:
        """`readFileSync(".env")`: one line of code that reads a secret is there to show or to send it."""
        for path in args[:1]:
            if is_secret_file(path) and self.call.command.shown:
                self.effects.append(self.call.effect("read-secret", path))

    def _opens(self, args: list[str]) -> None:
        """`fopen(path, "w")`, and Perl's `open(my $f, ">", path)` and `open(F, ">path")`."""
        if self.language == "perl":
            signs = "".join(args[1:2]).strip()
            path = args[2] if len(args) > 2 else signs.lstrip("+<>| ")
            if signs.startswith(("|", "-|")) or signs.endswith("|"):
                self.shell.append((args[2] if len(args) > 2 else signs).strip("| "))
            elif signs.startswith(">"):
                self.effects += self.call.on_path("write" if signs.startswith(">>") else "overwrite", path)
        elif len(args) > 1 and args[1][:1] in ("w", "a"):
            self.effects += self.call.on_path("overwrite" if args[1].startswith("w") else "write", args[0])
        elif args and args[0].startswith("|"):
            self.shell.append(args[0][1:])

    def _starts(self, args: list[str], rest: list[_Token]) -> None:
        words = [word for word in args if word]
        text = words[0] if len(words) == 1 else shlex.join(words)
        if words and words[0].strip(UNKNOWN):
            self.shell.append(text)
        else:
            self._computed(rest)

    def _code(self, args: list[str], rest: list[_Token]) -> None:
        text = args[-1] if args else UNKNOWN
        self._depth += 1
        if UNKNOWN in text or self._depth > 4:
            self._computed(rest)
        else:
            self._tokens(text)
        self._depth -= 1

    def _computed(self, rest: list[_Token]) -> None:
        """Code or a command that the text computes, or gets from elsewhere."""
        names = {token.text.rpartition(".")[2] for token in rest[:40]} | {token.text for token in rest[:40]}
        self.understood = False
        if names & _REMOTE_READS:
            self.effects.append(self.call.effect("run-remote", scope="remote"))
        elif names & _DECODERS or rest[0].text in self._meaning.code:
            decoded = bool(names & _DECODERS)
            self.effects.append(self.call.effect("run-opaque", certain=decoded, why="the code is computed"))

    def _arguments(self, tokens: list[_Token], place: int) -> Iterator[str]:
        """The arguments of a call, each as its literal text; UNKNOWN for what is computed."""
        last = min(len(tokens), place + MOST_TOKENS)
        while place < last:
            before = place
            value, place = self._argument(tokens, place)
            if place > before:
                yield value
            if place >= len(tokens) or tokens[place].text != ",":
                return
            place += 1

    def _argument(self, tokens: list[_Token], place: int) -> tuple[str, int]:
        """One argument: literals and variables that are put together; lists are given as their first parts."""
        value, depth = "", 0
        last = min(len(tokens), place + MOST_TOKENS)
        while place < last:
            token = tokens[place]
            if token.text in ("[", "(", "{", "<"):
                depth += 1
            elif token.text in ("]", ")", "}", ">") and depth:
                depth -= 1
            elif token.text in (",", ";") or (not depth and token.text in (")", "]", "}")):
                break
            elif token.text in _DECODERS or token.text.rpartition(".")[2] in _DECODERS:
                return self._decoded(tokens, place)
            elif token.kind in ("string", "ticks", "quoted"):
                value += self._literal(token)
            elif token.kind == "name" and token.text not in ("glob", "Dir.glob", "my", "or", "die", "if", "each"):
                value += self._variables.get(token.text, UNKNOWN)
            elif token.kind == "number":
                value += token.text
            elif token.text not in ("+", ".", "*", "?", "/", "[", "]"):
                value += UNKNOWN if token.text not in ("|", "&", "=") else ""
            place += 1
        return value, place

    def _decoded(self, tokens: list[_Token], place: int) -> tuple[str, int]:
        """`atob("...")`, `Buffer.from("...", "base64").toString()`."""
        literal = next((t for t in tokens[place : place + 3] if t.kind == "string"), None)
        last = min(len(tokens), place + MOST_TOKENS)
        while place < last and tokens[place].text not in (";", "}"):
            place += 1
        try:
            return (base64.b64decode(self._literal(literal)).decode() if literal else UNKNOWN), place
        except ValueError:
            return UNKNOWN, place

    def _literal(self, token: _Token) -> str:
        text = token.text
        if token.kind == "quoted":
            return re.sub(r"^(?:%[xqQ]|q[qx]?).", "", text)[:-1]
        inner = _unescaped(text[1:-1])
        return inner if text[0] == "'" else _INSIDE.sub(self._variable, inner) if self.language != "awk" else inner

    def _variable(self, found: re.Match[str]) -> str:
        name = found[0].strip("#{}")
        return self._variables.get(name, self._variables.get(name.lstrip("$#{"), UNKNOWN))

    def _awk(self, tokens: list[_Token], place: int) -> None:
        """`print > "file"`, `print | "command"`, `"command" | getline`."""
        token, after = tokens[place], tokens[place + 1 : place + 2]
        if not after:
            return
        statement = [t.text for t in tokens[max(place - 12, 0) : place]]
        prints = "print" in statement or "printf" in statement
        if token.text in (">", ">>") and after[0].kind == "string" and prints:
            self.effects += self.call.on_path("overwrite" if token.text == ">" else "write", self._literal(after[0]))
        elif token.text == "|" and after[0].kind == "string":
            self.shell.append(self._literal(after[0]))
        elif token.kind == "string" and [t.text for t in tokens[place + 1 : place + 3]] == ["|", "getline"]:
            self.shell.append(self._literal(token))

    # ----- languages of commands

    def _osascript(self, text: str) -> None:
        self.shell += [_unescaped(found) for found in re.findall(r'do shell script "([^"\\]*(?:\\.[^"\\]*)*)"', text)]
        if re.search(r"\b(?:delete|empty (?:the )?trash|move .{0,80} to trash)\b", text):
            self.effects.append(
                self.call.effect("delete", UNKNOWN, certain=False, why="Finder chooses what it deletes")
            )
        self.understood = "do shell script" not in text or bool(self.shell)

    def _powershell(self, text: str) -> None:
        for statement in re.split(r"[;\n]", re.sub(r"#[^\n]*", "", text)):
            self._pipeline([part.strip(" (){}") for part in statement.split("|")])

    def _pipeline(self, parts: list[str]) -> None:
        source = parts[0]
        for part in parts:
            words = _POWERSHELL_WORD.findall(part)
            verb = words[0].lower() if words else ""
            if verb in ("iex", "invoke-expression"):
                remote = _DOWNLOADS.search(" ".join(parts).lower())
                self.effects.append(self.call.effect("run-remote" if remote else "run-opaque"))
            elif verb in _CMDLETS:
                self._cmdlet(_CMDLETS[verb], words[1:], source if part is not source else "")

    def _cmdlet(self, kind: Kind, words: list[str], source: str) -> None:
        options = [word.lower() for word in words if word.startswith("-")]
        if any(option.startswith("-whatif") for option in options):
            return
        if kind in ("kill", "device"):
            self.effects.append(self.call.effect(kind, " ".join(words), weight="light" if kind == "kill" else "normal"))
            return
        targets = [word.strip("'\"") for word in words if not word.startswith("-")]
        if not targets and source:
            targets = [word.strip("'\"") for word in _POWERSHELL_WORD.findall(source)[1:] if not word.startswith("-")]
        recursive = "-recurse" in source.lower() or any(
            "-recurse".startswith(option) for option in options if option[1:]
        )
        for word in targets[:1] or [UNKNOWN]:
            path = re.sub(r"^\$(?:HOME|env:HOME|env:USERPROFILE)", "~", word.replace("\\", "/"))
            self.effects += self.call.on_path(kind, UNKNOWN if "$" in path else path, recursive=recursive)


_POWERSHELL_WORD = re.compile(r"\"[^\"]*\"|'[^']*'|[^\s\"',]+")
_DOWNLOADS = re.compile(r"\b(?:iwr|irm|invoke-webrequest|invoke-restmethod|downloadstring|curl|wget)\b")
_CMDLETS: Final[Mapping[str, Kind]] = {
    **dict.fromkeys(("remove-item", "ri", "rm", "rmdir", "del", "erase", "rd"), "delete"),
    **dict.fromkeys(("set-content", "sc", "out-file", "clear-content", "clc"), "overwrite"),
    **dict.fromkeys(("add-content", "ac", "new-item", "ni"), "write"),
    **dict.fromkeys(("format-volume", "clear-disk", "initialize-disk"), "device"),
    **dict.fromkeys(("stop-process", "spps", "kill"), "kill"),
}
