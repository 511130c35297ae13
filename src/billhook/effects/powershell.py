"""PowerShell and cmd.exe as lines for a shell, so that the same tables judge both.

`Remove-Item -Recurse C:\\x` becomes `rm -r C:/x`: a row names a program and the commands that do the same. The words of
any other program stay. One pass over the text; nothing is run.
"""

import re
import shlex
from collections.abc import Sequence
from typing import Final

from billhook.effects.table import word_set

_ROWS: Final = {
    "rm": "remove-item ri rd rmdir del erase rm", "mv": "move-item mi move rename-item rni ren mv",
    "cp": "copy-item cpi copy xcopy cp", "cat": "get-content gc type cat", "tee": "set-content sc out-file",
    "tee -a": "add-content ac", "truncate -s 0": "clear-content clc",
    "eval": "invoke-expression iex start-process saps start",
    "curl": "invoke-webrequest iwr invoke-restmethod irm start-bitstransfer curl wget",
    "ls": "get-childitem gci dir ls", "ls -d": "get-item gi resolve-path",
    "cd": "set-location sl chdir push-location pushd cd", "touch": "new-item ni",
    "echo": "write-output write-host write", "grep": "select-string sls findstr",
    "true": "invoke-command icm start-job add-type new-object set-variable", "shutdown": "stop-computer",
    "reboot": "restart-computer", "kill": "stop-process spps kill", "pkill": "taskkill", "pgrep": "get-process gps",
    "systemctl stop": "stop-service spsv remove-service suspend-service", "systemctl enable": "new-service set-service",
    "crontab -e": "register-scheduledtask unregister-scheduledtask register-scheduledjob",
    "wipefs -a": "format-volume clear-disk initialize-disk remove-partition",
    "useradd": "new-localuser remove-localuser disable-localuser set-localuser add-localgroupmember",
    "ufw disable": "set-netfirewallprofile disable-netfirewallrule remove-netfirewallrule",
    "setenforce 0": "set-mppreference add-mppreference", "reg delete": "remove-itemproperty clear-itemproperty",
    "wevtutil cl": "clear-eventlog remove-eventlog",
    "az group delete": "remove-azresourcegroup remove-azvm remove-azstorageaccount",
}  # fmt: skip
"""A program, and the cmdlets, aliases and commands of cmd.exe that do the same."""
_PROGRAMS: Final = {name: program for program, names in _ROWS.items() for name in names.split()}
_OF_CMD: Final = word_set("rd rmdir del erase copy xcopy move ren type dir taskkill findstr")
"""Commands whose options begin with a slash."""
_WITH_DATA: Final = word_set("value encoding erroraction ea itemtype type method headers exclude totalcount tail first")
"""Parameters whose value names no file."""
_OPTIONS: Final = {"outfile": "-o", "infile": "-T", "body": "-d", "filter": "-name", "include": "-name"}
_EACH: Final = frozenset({"foreach-object", "foreach", "%"})
_FILTERS: Final = frozenset({"where-object", "where", "?", "select-object", "select", "sort-object", "out-string"})
_KEYWORDS: Final = word_set("if else elseif while do until try catch finally return throw switch begin process end")
_CALLS: Final = (
    (r"\[(?:System\.)?IO\.(?:File|Directory)\]::Delete\(", "(Remove-Item -Recurse "),
    (r"\[(?:System\.)?IO\.File\]::Read\w+\(", "(Get-Content "),
    (r"\[(?:System\.)?IO\.File\]::(?:Write|Append)\w+\(", "(Set-Content "),
    (r"\[scriptblock\]::Create\(", "(Invoke-Expression "),
    (r"(?:\$\w+|\(New-Object[^()]{0,200}\))\.Download\w+\(", "(irm "),
    (r"\)\.Delete\(", ") | Remove-Item -Recurse; ("),
    (r"\bforeach\s*\(\s*\$(\w+)\s+in\s+([^{}]{0,300})\)\s*\{", r"$\1 = (\2); {"),
)
"""Methods and loops as cmdlets."""
_KNOWN: Final = {
    "home": "~", "userprofile": "~", "homepath": "~", "temp": "/tmp", "tmp": "/tmp", "null": "/dev/null", "true": "",
    "false": "", "systemdrive": "C:/", "systemroot": "C:/Windows", "windir": "C:/Windows", "programfiles": "C:/",
    "programdata": "C:/", "psitem": "$_", "appdata": "~/AppData", "localappdata": "~/AppData",
}  # fmt: skip
_VARIABLE = re.compile(r"\$\{?(?:env:)?(\w+)\}?(?:\.\w+)*|%(\w+)%")
_TOKEN = re.compile(
    r"""(?P<comment><\#.*?(?:\#>|\Z)|(?<![^\s;{(|])\#[^\n]*)|(?P<single>'(?:[^']|'')*(?:'|\Z))
    |(?P<double>"(?:[^"`]|`.|"")*(?:"|\Z))|(?P<end>\n|;|&&|\|\||&)|(?P<pipe>\|)|(?P<open>[$@]?\(|@?\{)|(?P<close>[)}])
    |(?P<redirect>[\d*]?>>?(?:&\d)?)|(?P<blank>[\s,]+)|(?P<plain>(?:`.|[^\s'"`;|&(){},<>])+)""",
    re.VERBOSE | re.DOTALL,
)
_WORDS: Final = ("single", "double", "plain")
_PARAMETER = re.compile(r"-\w+(?:$|:)")
_MOST_OPEN: Final = 32  # parentheses and blocks inside each other


def is_cmdlet(word: str) -> bool:
    """Whether a command word is a cmdlet, which no other shell has: `Remove-Item`."""
    return "-" in word and word.lower() in _PROGRAMS


def translated(text: str) -> list[tuple[str, str]]:
    """Each statement as written, with the line for a shell that does the same."""
    for pattern, cmdlet in _CALLS:
        text = re.sub(pattern, cmdlet, text, flags=re.IGNORECASE)
    frames = [_StatementList(text, 0)]
    for token in _TOKEN.finditer(text):
        kind, frame = str(token.lastgroup), frames[-1]
        if kind == "open" and len(frames) < _MOST_OPEN:
            frames.append(_StatementList(text, token.end()))
        elif kind == "close" and len(frames) > 1:
            frames.pop().close(token[0], token.start(), frames[-1])
        else:
            frame.take(kind, token[0], token.end())
    while len(frames) > 1:
        frames.pop().close("}", len(text), frames[-1])
    frames[0].end(len(text))
    return frames[0].statements


class _StatementList:
    """One list of statements: the whole text, or what is inside of parentheses or a block."""

    def __init__(self, source: str, begin: int) -> None:
        self.source, self.begin = source, begin
        self.statements: list[tuple[str, str]] = []
        self.stages: list[str] = []
        self.words: list[str] = []
        self.later: list[tuple[str, str]] = []  # the statements of a block, which run after this one
        self.block = ""  # what a stage does for each object
        self.calls = self.joins = False

    def take(self, kind: str, text: str, end: int) -> None:
        if kind == "end" and text == "&" and not self.words and not self.stages:
            self.calls = True
        elif kind == "end":
            self.end(end)
        elif kind == "pipe":
            self._stage()
        elif kind == "redirect":
            self._add(re.sub(r"^\*", "", text))
        elif kind in _WORDS:
            self._add(_word(kind, text), joins=self.joins)
        self.joins = kind in _WORDS

    def _add(self, word: str, *, joins: bool = False) -> None:
        self.words.append(self.words.pop() + word if joins else word)

    def end(self, at: int) -> None:
        """The end of a statement at a place of the source."""
        self._stage()
        if self.stages:
            self.statements.append((self.source[self.begin : at].strip(" \t\n;&"), " | ".join(self.stages)))
        self.statements += self.later
        self.begin, self.stages, self.later = at, [], []

    def close(self, sign: str, at: int, outer: "_StatementList") -> None:
        """The end of parentheses, whose value is a word of the statement around them, or of a block."""
        self.end(at)
        if sign == ")":
            outer._add(f"$({'; '.join(line for _, line in self.statements)})")
        elif outer.words and outer.words[0].lower() in _EACH:
            outer.block = "; ".join(line for _, line in self.statements)
        else:
            outer.later += self.statements

    def _stage(self) -> None:
        words, calls, piped = self.words, self.calls, bool(self.stages)
        if self.block:
            self.stages.append(f"while read _; do {self.block}; done")
        elif line := _line(words, calls=calls, piped=piped):
            self.stages.append(line)
        self.words, self.block, self.calls, self.joins = [], "", False, False


def _word(kind: str, text: str) -> str:
    """A word as a shell writes it: backslashes are slashes, and known variables have their values."""
    if kind == "single":
        return shlex.quote(text[1:].removesuffix("'").replace("''", "'").replace("\\", "/"))
    plain = re.sub(r"`(.)", r"\1", text.strip('"') if kind == "double" else text.replace("^", "")).replace("\\", "/")
    parts: list[str] = []
    at = 0
    for found in _VARIABLE.finditer(plain):
        name = found[1] or found[2]
        parts += (_quoted(plain[at : found.start()]), _KNOWN.get(name.lower(), f"${{{name}}}"))
        at = found.end()
    return "".join((*parts, _quoted(plain[at:]))) or "''"


def _quoted(text: str) -> str:
    return re.sub(r"[^\w@%+=:,./*?\[\]~-]", lambda found: f"\\{found[0]}" if found[0] != "\n" else "'\n'", text)


def _line(words: Sequence[str], *, calls: bool, piped: bool) -> str:
    """One command of a pipe for a shell; "" if it does nothing."""
    if words and words[0].lower() in _KEYWORDS:
        words = words[1:]
    if not words or words[0].lower() == "function":
        return ""
    name, *rest = words
    if rest[:1] in (["="], ["+="]):
        value = _line(rest[1:], calls=False, piped=False)
        plain = "$" if rest[1:] and (rest[1][0] in "$~'\\/" or len(rest) == 2) else ""
        return f"{name.strip('${}')}={rest[1] if plain else f'$({value})'}" if name.startswith("$") else ""
    if name[0] in "$'\\" and not calls:
        return "echo " + " ".join(words)
    program = _PROGRAMS.get(name.lower())
    if name.lower() in _FILTERS:
        return "cat"
    if program is None:
        return " ".join(("eval", *words) if name.startswith("$(") else words)
    return _command(program, rest, name.lower(), piped=piped)


def _command(program: str, words: Sequence[str], name: str, *, piped: bool) -> str:
    """A cmdlet as a program: without its own options, and with the objects that are piped to it."""
    found: list[str] = []
    options, skips = "", False
    for word in words:
        option = word.lower().lstrip("-").partition(":")[0]
        if word.startswith("/") and name in _OF_CMD and len(word) < 4:
            options += " -r" if word.lower() == "/s" else ""
        elif not _PARAMETER.match(word):
            found += [] if skips else [word]
        elif option == "whatif":
            return "true"
        elif option in _OPTIONS:
            found.append(_OPTIONS[option])
        elif option in ("rf", "fr") or (option and "recurse".startswith(option)):
            options += " -r"
        elif option == "name" and program == "kill":
            program = "pkill"
        skips = option in _WITH_DATA and word[0] == "-"
    if program.startswith("tee"):
        found = found[:1]
    if program == "ls" and (options or "-name" in found):
        program = "find"
    if program not in ("rm", "cp", "mv"):
        options = ""
    takes_piped = piped and program in ("rm", "cp", "mv", "eval", "cat", "kill", "truncate -s 0") and not found
    line = " ".join((program + options, *(word.removesuffix(".exe") if program == "pkill" else word for word in found)))
    return line if not takes_piped else "sh" if program == "eval" else f"xargs {line}"
