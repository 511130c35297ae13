"""A shell command parsed: the commands it runs, unwrapped; used by rules and guards.

`parse("sudo sh -c 'git push' && ls")` lists `sudo sh -c 'git push'`, `sh -c 'git push'`, `git push` and `ls`: wrappers
and what they run. It reads text and runs nothing: variables are not known, files not opened, aliases not followed.
What was not understood, or was too deep or too long, makes `complete` false; then a rule has to err on the safe side.
A net against accidents; a sandbox is the wall.
"""

import functools
import itertools
import posixpath
import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec

from billhook.effects import script
from billhook.effects.effect import UNKNOWN
from billhook.effects.programs import (
    DECLARES,
    INTERPRETERS,
    SHELLS,
    TRANSPARENT,
    WRAPPERS,
    Options,
    Prefix,
    Wrapper,
    program,
)
from billhook.effects.script import ScriptCommand, ScriptRedirect, evaluates

MAX_DEPTH: Final = 16
MAX_COMMANDS: Final = 20_000
MAX_STEPS: Final = script.MAX_STEPS
MAX_TEXT: Final = 8 << 20

_READS: Final = frozenset({"<", "<<", "<<-", "<<<"})
_NOWHERE: Final = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty", "/dev/fd/1", "/dev/fd/2"})


class Redirect(msgspec.Struct, frozen=True):
    """One redirection. `target` is a path after quote removal, a descriptor for `>&1`, the delimiter for `<<`."""

    operator: str
    target: str

    @property
    def writes(self) -> bool:
        """Whether a file is created, cut or changed by it; `/dev/null` and its like are none."""
        if self.operator in _READS or self.target in _NOWHERE:
            return False
        return not (self.operator in (">&", "<&") and (self.target.rstrip("-").isdigit() or self.target == "-"))


class SimpleCommand(msgspec.Struct, frozen=True):
    """One command that would run, its words after quote removal.

    `UNKNOWN` inside a word is a part that only the shell knows: variables, substitutions, brace expansion, and
    patterns in the command word. Without words it is a line of assignments or redirections alone.
    """

    words: tuple[str, ...]
    assignments: tuple[str, ...] = ()
    redirects: tuple[Redirect, ...] = ()
    via: tuple[str, ...] = ()  # the wrappers it was reached through, outermost first: `("sudo", "sh")`
    transparent: bool = False  # it does nothing but run another command that is listed as well: `timeout 5 ls`

    @property
    def text(self) -> str:
        """The words joined by one blank."""
        return " ".join(self.words)

    @property
    def name(self) -> str:
        """The command word without its folder: `rm` for `/bin/rm`."""
        return posixpath.basename(self.words[0]) if self.words else ""

    @property
    def dynamic(self) -> bool:
        """Whether the command word itself is unknown: `$CMD x`."""
        return bool(self.words) and UNKNOWN in self.words[0]

    @property
    def placed(self) -> bool:
        """Whether it is known where the command lies: not so for `/t*/rm x`."""
        return not (self.words and "/" in self.words[0] and set(self.words[0]) & set("*?["))

    @property
    def written(self) -> tuple[str, ...]:
        """The files its redirections write."""
        return tuple(redirect.target for redirect in self.redirects if redirect.writes)


class ParsedLine(msgspec.Struct, frozen=True):
    """What a line runs. `complete` false: something was not understood or over a limit; `commands` may lack some."""

    commands: tuple[SimpleCommand, ...]
    complete: bool

    @property
    def written(self) -> tuple[str, ...]:
        """The files that redirections anywhere in the line write."""
        return tuple(dict.fromkeys(target for command in self.commands for target in command.written))


def parse(command: str, max_steps: int = MAX_STEPS) -> ParsedLine:
    """The commands that `command` runs. Never raises, whatever the text; time is linear in its length and bounded."""
    return _parse_short(command) if len(command) <= 4096 else _Unwrapping(command, max_steps).parsed()


class _Unwrapping:
    """One parse: the texts still to be read, the commands found, what is left of the budget."""

    def __init__(self, command: str, max_steps: int = MAX_STEPS) -> None:
        self.texts: deque[tuple[str, tuple[str, ...], int]] = deque([(command, (), 0)])
        self.found: dict[SimpleCommand, None] = {}
        self.steps = max_steps
        self.characters = MAX_TEXT
        self.complete = True

    def parsed(self) -> ParsedLine:
        while self.texts:
            text, via, depth = self.texts.popleft()
            self.characters -= len(text)
            if depth > MAX_DEPTH or self.characters < 0 or len(self.found) > MAX_COMMANDS or self.steps <= 0:
                self.complete = False
                continue
            read = script.read(text, self.steps)
            self.steps -= read.steps
            self.complete = self.complete and read.complete
            self.texts.extend((inner, (*via, "`"), depth + 1) for inner in read.backticks)
            for command in read.commands:
                self.unwrap(command, via, depth)
        return ParsedLine(tuple(self.found), self.complete)

    def unwrap(self, command: script.ScriptCommand, via: tuple[str, ...], depth: int) -> None:
        commands = deque([(command, via, depth)])
        while commands:
            command, via, depth = commands.popleft()
            if len(self.found) > MAX_COMMANDS or depth > MAX_DEPTH:
                self.complete = False
                return
            inner = unwrapped(command)
            self.complete = self.complete and inner.complete
            self.add(command, via, bool(inner.commands))
            if inner.commands or inner.texts:
                inner_via = (*via, posixpath.basename(command.words[0]))
                commands.extend((each, inner_via, depth + 1) for each in inner.commands)
                self.texts.extend((text, inner_via, depth + 1) for text in inner.texts)

    def add(self, command: script.ScriptCommand, via: tuple[str, ...], wraps: bool) -> None:
        redirects = tuple(Redirect(redirect.operator, redirect.target) for redirect in command.redirects)
        only_wraps = wraps and transparent(command.words)
        self.found.setdefault(SimpleCommand(command.words, command.assignments, redirects, via, only_wraps))


@functools.lru_cache(maxsize=1024)
def _parse_short(command: str) -> ParsedLine:
    """Several rules judge one line, so the last lines are kept; long ones are not worth the memory."""
    return _Unwrapping(command).parsed()


# What wrappers and interpreters run: `sudo git push` runs `git push`, `sh -c '...'` runs code, `xargs rm` runs `rm`.
# How their words are read is in `programs.py`. Where an option is not known, both readings are returned.


class InnerCommands(msgspec.Struct):
    """What a command runs: further commands, further texts for a shell, and whether that is all of it."""

    commands: list[ScriptCommand] = []
    texts: list[str] = []
    complete: bool = True


RUN_INPUT: Final = frozenset({"at", "batch", "crontab"})
_SCHEDULE = re.compile(r"^[ \t]*(?:@\w+|(?:[\d*/,-]+[ \t]+){5})[ \t]*", re.M)
_STDIN_FILES: Final = frozenset({"-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"})
_RUN_VARIABLES = re.compile(
    r"GIT_(?:SEQUENCE_)?EDITOR|GIT_PAGER|GIT_SSH_COMMAND|GIT_SSH|GIT_ASKPASS|GIT_EXTERNAL_DIFF|GIT_PROXY_COMMAND|EDITOR"
    r"|VISUAL|PAGER|MANPAGER|LESSOPEN|BROWSER|PROMPT_COMMAND|SSH_ASKPASS|FZF_DEFAULT_COMMAND"
)
"""Variables whose value other programs run."""


def unwrapped(command: ScriptCommand) -> InnerCommands:
    """What `command` runs besides itself, one level deep."""
    if not command.words:
        return _with_variables(InnerCommands(), command.assignments)
    name = program(command.words)
    found = _READ[name](command) if name in _READ else InnerCommands()
    set_here = (*command.assignments, *command.words[1:]) if name in DECLARES else command.assignments
    return _with_variables(found, set_here)


def _with_variables(found: InnerCommands, set_here: tuple[str, ...]) -> InnerCommands:
    """Commands in the values of variables, which other programs run: `GIT_EDITOR='...' git commit`."""
    pairs = (word.partition("=") for word in set_here)
    texts = [value for name, _, value in pairs if _is_line(value) and _RUN_VARIABLES.fullmatch(name)]
    return InnerCommands(found.commands, [*found.texts, *texts], found.complete) if texts else found


def _is_line(text: str) -> bool:
    """Whether a value is more than the name of a program."""
    return not set(" \t\n;|&$`").isdisjoint(text.strip())


def _text(text: str) -> InnerCommands:
    return InnerCommands(texts=[text] if text.strip() else [])


def files_run(words: Sequence[str]) -> list[str]:
    """Files whose text a command runs: `at -f x now`, `crontab x`, `tmux source-file x`."""
    operands = [word for word in words[1:] if not word.startswith("-")]
    if words[0] == "crontab":
        return operands[:1] if len(words) == 2 else []
    if words[0] not in ("at", "batch", "tmux"):
        return []
    after = ("-f", "source-file", "source")
    return [word for before, word in itertools.pairwise(words) if before in after]


def cron_lines(text: str) -> str:
    """The lines of a table of cron without the times before them."""
    return _SCHEDULE.sub("", text)


def transparent(words: tuple[str, ...]) -> bool:
    """Whether the wrapper adds nothing to what it runs. `time` does with any option but `-p`: `-o` writes a file."""
    if words[0] != "time":
        return words[0] in TRANSPARENT
    options = itertools.takewhile(lambda word: word.startswith("-"), words[1:])
    return all(word in ("-p", "--") for word in options)


# wrappers


def _wrapped(command: ScriptCommand) -> InnerCommands:
    name = program(command.words)
    prefix = Prefix(command.words, WRAPPERS[name])
    if prefix.ending:
        return _ENDINGS[name](command, prefix)
    found = _commands(command, prefix)
    if not prefix.wrapper.fed:
        return found
    found.commands = [_like(one, _fed(one.words, prefix), []) for one in found.commands]
    if name == "parallel":
        return _parallel(found)
    return found


def _commands(command: ScriptCommand, prefix: Prefix) -> InnerCommands:
    """The command behind a prefix, and the other reading where it may begin one word later."""
    later = prefix.doubtful or prefix.wrapper.optional
    starts = [prefix.words[at:] for at in ((prefix.at, prefix.at + 1) if later else (prefix.at,))]
    commands = [_like(command, words, prefix.assignments) for words in starts if words]
    texts = [" ".join(words) for words in starts if words and prefix.wrapper.joined]
    return InnerCommands(commands, texts, prefix.known)


def _like(command: ScriptCommand, words: tuple[str, ...], assignments: Sequence[str] = ()) -> ScriptCommand:
    """A command run by `command`: it reads what that one would have read."""
    return ScriptCommand(words, (*command.assignments, *assignments), command.redirects, command.piped, command.feeder)


def _fed(words: tuple[str, ...], prefix: Prefix) -> tuple[str, ...]:
    """The words of a command with what is not known yet: in place of `{}`, or at the end."""
    mark = placeholder(prefix.words[: prefix.at])
    words = tuple(word.replace(mark or "{}", UNKNOWN) for word in words)
    return words if mark else (*words, UNKNOWN)


def placeholder(words: Sequence[str]) -> str:
    """The placeholder for an argument: `xargs -I {}`, `xargs -i`, `xargs --replace`."""
    mark = ""
    for word, following in itertools.pairwise((*words, "")):
        if word[:2] in ("-I", "-J", "-i"):
            mark = word[2:] or (following if word[1] != "i" else "{}")
        elif word.startswith("--replace"):
            mark = word.partition("=")[2] or "{}"
    return mark


def _parallel(found: InnerCommands) -> InnerCommands:
    """GNU parallel gives a line to a shell; without a command, each line that it reads is one."""
    each = [one.words for one in found.commands]
    texts = [text for words in each for text in (words[1:-1] if words[0] == ":::" else _template(words))]
    return InnerCommands(found.commands, texts, found.complete and bool(each))


def _template(words: tuple[str, ...]) -> list[str]:
    """The line of GNU parallel, without the arguments that follow `:::`; plain words are a command as they are."""
    own = words[: words.index(":::")] if ":::" in words else words
    return [" ".join(own if UNKNOWN in "".join(own) else (*own, UNKNOWN))] if any(map(_is_line, own)) else []


def _split_string(command: ScriptCommand, prefix: Prefix) -> InnerCommands:
    """`env -S 'A=1 rm x'`: the words of a string."""
    rest = prefix.rest if prefix.rest[:1] != (prefix.value,) else prefix.rest[1:]
    text = " ".join((prefix.value, *rest))
    return InnerCommands(texts=[f"env {text}"], complete="\\" not in text and "$" not in text)


def _in_shell(command: ScriptCommand, prefix: Prefix) -> InnerCommands:
    """`sudo -s ...`: the remaining words are a line for a shell; without them the shell reads its standard input."""
    if prefix.rest:
        inner = _like(command, prefix.rest, prefix.assignments)
        return InnerCommands([inner], [" ".join(prefix.rest)], prefix.known)
    return _from_stdin(command) if command.piped or command.redirects else InnerCommands()


_ENDINGS: Final[dict[str, Callable[[ScriptCommand, Prefix], InnerCommands]]] = {
    "env": _split_string,
    "sudo": _in_shell,
    "doas": _in_shell,
    "flock": lambda _, prefix: _text(prefix.value),
    "command": lambda _, prefix: InnerCommands(),  # it only shows where a program is
}
"""How the words behind such an option are read (`Wrapper.ends`, `Wrapper.later`)."""


_EXECUTES: Final = frozenset({"-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec", "--exec-batch"})


def _found(command: ScriptCommand) -> InnerCommands:
    found: list[list[str]] = []
    inner, complete = False, True
    before = "-"  # an unknown word counts as the first folder, or as the value of a test
    for word in command.words[1:]:
        if inner and word not in (";", "+"):
            found[-1].append(word.replace("{}", UNKNOWN))
        elif word.partition("=")[0] in _EXECUTES:
            found.append(word.split("=", 1)[1:])
            inner = True
        else:
            complete = complete and (inner or not _hides(word, before))
            inner = False
        before = word
    if program(command.words) != "find":  # fd puts what it finds at the end
        found = [words if any(UNKNOWN in word for word in words) else [*words, UNKNOWN] for words in found if words]
    return InnerCommands([ScriptCommand(tuple(words)) for words in found if words], complete=complete)


def _hides(word: str, before: str) -> bool:
    """Whether a word of find may be a test or an action that the line doesn't show."""
    return word == ";" or (UNKNOWN in word and (word[0] == "-" or before[:1] != "-"))


# shells


def _shell(command: ScriptCommand) -> InnerCommands:
    """A shell: the code after `-c`, its standard input, or a script file."""
    prefix = Prefix(command.words, INTERPRETERS["sh"])
    own, first = prefix.words[1 : prefix.at], " ".join(prefix.rest[:1])
    if not _SHELL_HELP.isdisjoint(own):
        return InnerCommands()
    if any(UNKNOWN in word for word in own) or not _RUNS_FIRST.isdisjoint(own):
        return InnerCommands(complete=False)
    if prefix.ending:
        return _text(prefix.value or first)
    if not first or first in _STDIN_FILES or any(re.match(r"[-+]\w*s", word) for word in own):
        return _from_stdin(command)
    # a file it will read is left as it is, except one that a command writes while it reads
    return InnerCommands(complete=UNKNOWN not in first and not _descriptor(first))


_SHELL_HELP: Final = frozenset({"--version", "--help"})
_RUNS_FIRST: Final = frozenset({"-C", "--init-command"})
"""Options of fish whose value is code that it runs first."""


def _eval(command: ScriptCommand) -> InnerCommands:
    words = command.words[1:]
    return _text(" ".join(words[1:] if words[:1] == ("--",) else words))


def _trap(command: ScriptCommand) -> InnerCommands:
    operands = [word for word in command.words[1:] if word != "--"]
    return _text(operands[0]) if operands and not operands[0].startswith("-") else InnerCommands()


def _source(command: ScriptCommand) -> InnerCommands:
    read = " ".join(command.words[1:2])
    return InnerCommands(complete=not (_descriptor(read) or UNKNOWN in read))


_EVALUATES: Final = DECLARES.union(
    ("[", "test", "let", "read", "printf", "unset", "wait", "getopts", "mapfile", "readarray")
)
"""Builtins that read a word as a variable's name or a number, and run the code in its subscript."""


def _evaluated(command: ScriptCommand) -> InnerCommands:
    name, words = program(command.words), command.words
    if name == "printf" and not " ".join(words[1:2]).startswith("-v"):
        return InnerCommands()
    calls_back = name in ("mapfile", "readarray") and any(word.startswith("-C") for word in words)
    return InnerCommands(complete=not calls_back and not any(map(evaluates, words)))


def _descriptor(path: str) -> bool:
    """Whether a path names what a descriptor reads, and no file."""
    return path in _STDIN_FILES or path.startswith("/dev/fd/") or (path.startswith("/proc/") and "/fd/" in path)


def _from_stdin(command: ScriptCommand) -> InnerCommands:
    """The text that a shell reads from its standard input, if the line itself contains it."""
    if last := _stdin(command):
        if last.body is not None:
            return _text(last.body)
        known = last.operator in ("<", "<>") and UNKNOWN not in last.target and not _descriptor(last.target)
        return InnerCommands(complete=known)
    text = _printed(command.feeder) if command.piped and command.feeder else None
    return InnerCommands(complete=False) if text is None else _text(text)


def _stdin(command: ScriptCommand) -> ScriptRedirect | None:
    """The redirection that standard input comes from: the last one of descriptor 0."""
    for redirect in reversed(command.redirects):
        number, operator = redirect.descriptor, redirect.operator
        if (number and not number.strip("0")) or (not number and operator.startswith("<")):
            return redirect
    return None


def _printed(command: ScriptCommand) -> str | None:
    """What a command prints, if the line itself contains it: `echo`, plain `printf`, `cat` of a here-document."""
    name, words = program(command.words), command.words
    if name == "echo":
        text = " ".join(itertools.dropwhile(re.compile(r"-[neE]+").fullmatch, words[1:]))
        return None if "\\" in text else text
    if name == "printf" and len(words) > 1:
        form, rest = words[1].replace("\\n", "\n"), words[2:]
        if form in ("%s", "%s\n", "%b", "%b\n") and rest and not any("\\" in word for word in rest):
            return form[2:].join(rest)
        return None if "%" in form or "\\" in form else form
    last = _stdin(command) if name == "cat" and len(words) == 1 else None
    return last.body if last else None


# programs that run the text behind an option, or a line of theirs

_TEXT_OPTIONS: Final[dict[str, str]] = {
    "npm": "-c --call",
    "npx": "-c --call",
    "nix-shell": "--run --command",
    "ansible": "-a --args",
    "tar": "--checkpoint-action --to-command --rsh-command -I --use-compress-program",
    "rsync": "-e --rsh",
    "split": "--filter",
    "sort": "--compress-program",
    "man": "-P --pager",
    "zip": "-TT --unzip-command",
}


def _option_texts(command: ScriptCommand) -> InnerCommands:
    """The values of options that are lines; `exec=` is tar's word for one."""
    values = _values(command.words[1:], _TEXT_OPTIONS[program(command.words)])
    return InnerCommands(texts=[text for value in values if _is_line(text := value.removeprefix("exec="))])


def _values(words: Sequence[str], options: str) -> list[str]:
    names = options.split()
    return Options(words, frozenset(names)).values(*names)


_RUNUSER: Final = Wrapper("ugGsw", "user group supp-group shell whitelist-environment")


def _other_user(command: ScriptCommand) -> InnerCommands:
    """su, script, sg: the code after `-c`, or a shell that reads its input; `runuser -u x` is a wrapper."""
    name, words = program(command.words), command.words
    if name == "runuser" and any(word.startswith(("-u", "--user")) for word in words):
        return _commands(command, Prefix(words, _RUNUSER))
    if texts := _values(words[1:], "-c --command --session-command"):
        return _text(texts[0])
    if name == "sg" and len(words) > 2:  # it needs no option
        return _text(words[2])
    return InnerCommands(complete=not (command.piped or _stdin(command) or UNKNOWN in "".join(words) or name == "sg"))


def _capsh(command: ScriptCommand) -> InnerCommands:
    """What follows `--` are the words of a shell."""
    words = command.words
    return InnerCommands([_like(command, ("bash", *words[words.index("--") + 1 :]))] if "--" in words else [])


_ESCAPES_WORDS: Final = "vi vim nvim view ex less more gdb lldb psql mysql mariadb sqlite3 expect ipython ftp sftp"
_PROGRAM = re.compile(r"\bPROGRAM\s+'([^']*)'", re.I)
"""What `COPY t FROM PROGRAM '...'` runs, on the machine of the server."""
_EDITOR = re.compile(r"\b(?:system|systemlist|jobstart|termopen|os\.execute)\(\s*(['\"])(.*)\1")
"""What `vim -c 'call system("...")'` runs."""
_ESCAPE = re.compile(r"(?:\+?:?!|\\!|(?:\.?shell|\.system|system|spawn)\s)\s*(.*)", re.DOTALL)


def _escapes(command: ScriptCommand) -> InnerCommands:
    """The lines that a program hands to a shell: `vim -c '!...'`, `gdb -ex 'shell ...'`."""
    texts = [found[1] for word in command.words[1:] if (found := _ESCAPE.match(word) or _PROGRAM.search(word))]
    texts += [found[2] for word in command.words[1:] if (found := _EDITOR.search(word))]
    scripts = _values(command.words[1:], "-c") if program(command.words) == "expect" else []
    return InnerCommands(texts=[*filter(_is_line, scripts)] or texts)


def _socat(command: ScriptCommand) -> InnerCommands:
    carried = (re.match(r"(?:EXEC|SYSTEM|SHELL):([^,]*)", word.replace("\\", ""), re.I) for word in command.words[1:])
    return InnerCommands(texts=[found[1] for found in carried if found])


# multiplexers and terminals

_CARRIERS_WORDS = (
    "tmux byobu zellij xterm uxterm urxvt rxvt st konsole alacritty kitty foot ghostty terminator tilix wezterm "
    "gnome-terminal xfce4-terminal mate-terminal lxterminal x-terminal-emulator concurrently nodemon machinectl mosh "
    "lxc multipass toolbox distrobox distrobox-enter vagrant start-stop-daemon hyperfine xdotool ydotool wtype"
)
_CARRIERS: Final = frozenset(_CARRIERS_WORDS.split())
"""Multiplexers, terminals and the like: a word of theirs that has blanks in it is a line for a shell."""
_MARKERS: Final = frozenset({"--", "-e", "-x", "--execute", "--command"})
"""The option before the command of a terminal."""
_TYPES: Final = frozenset({"send-keys", "send", "write-chars", "write", "type", "send-text", "set-buffer", "setb"})
_TMUX = re.compile(
    r"(?:new|neww|run|if|send|splitw|popup|display-popup|bind|setb"
    r"|(?:new|run|if|send|split|respawn|pipe|set|bind|source)-[a-z]+)\s"
)
"""Commands of tmux itself, which others of its commands take as one word."""
_KEYS = re.compile(r"(?:Enter|Return|Escape|Space|Tab|KPEnter|(?:[CM]-.)+|\^[A-Z])(?:\s|$)")


def _carried(command: ScriptCommand) -> InnerCommands:
    """The lines that a multiplexer or a terminal is given: each word that has blanks, or all that follows `--`."""
    words = [word.partition("=")[2] if word.startswith("--") else word for word in command.words[1:]]
    lines = [_KEYS.sub("", word).replace("\\n", "\n") for word in words if _is_line(word)]
    marker = next((place for place, word in enumerate(command.words) if word in _MARKERS), 0)
    rest = command.words[marker + 1 :] if marker else ()
    commands = [_like(command, rest)] if rest and not lines else []
    in_tmux = program(command.words) == "tmux"
    if not _TYPES.isdisjoint(words):
        return InnerCommands(texts=[*([" ".join(lines)] if lines else []), _typed(words)])
    return InnerCommands(commands, [f"tmux {line}" if in_tmux and _TMUX.match(line) else line for line in lines])


def _typed(words: Sequence[str]) -> str:
    """What is typed: tmux puts nothing between the words, and names some keys."""
    at = next(place for place, word in enumerate(words) if word in _TYPES)
    typed, before = [], ""
    for word in words[at + 1 :]:
        if word in _NAMED_KEYS or not (word.startswith("-") or before in _TYPING_VALUES or _KEYS.fullmatch(word)):
            typed.append(_NAMED_KEYS.get(word, word))
        before = word
    return "".join(typed)


_TYPING_VALUES: Final = frozenset({"-t", "-N", "-c", "-b", "--delay", "--window", "--match"})
_NAMED_KEYS: Final = dict.fromkeys(("Enter", "Return", "KPEnter", "C-m", "C-j"), "\n") | {"Space": " ", "Tab": " "}
_SCREEN: Final = Wrapper("cehpsStT")


def _screen(command: ScriptCommand) -> InnerCommands:
    if "-X" in command.words:
        line = " ".join(command.words[command.words.index("-X") + 2 :])
        return _text(line.replace("\\n", "\n").replace("^M", "\n"))
    return _commands(command, Prefix(command.words, _SCREEN))


# other machines

_SSH: Final = Wrapper("BbcDEeFIiJLlmOopQRSWw", operands=1)
_ELSEWHERE: Final[dict[str, Wrapper]] = {
    "ssh": _SSH,
    "pdsh": Wrapper("wxgtulfRF"),
    **dict.fromkeys(
        ("pssh", "parallel-ssh"), Wrapper("hHlptoeOxX", "hosts host user par timeout outdir errdir options")
    ),
    "clush": Wrapper("wgxXlftuoB", "user fanout group exclude"),
    "fab": Wrapper("HiuIc", "hosts user identity"),
    "salt": Wrapper("tbc", "timeout batch", 2),
    "salt-ssh": Wrapper("tbc", "timeout", 2),
    "adb": Wrapper("stHP", operands=1),
}
"""Programs that run a line on other machines."""
_ELSEWHERE_TEXTS: Final = {
    "gcloud": "--command",
    "az": "--scripts",
    "aws": "--parameters",
    **dict.fromkeys(("fly", "flyctl"), "-C --command"),
}
"""Programs that take it as the value of an option."""
_LOCAL = re.compile(r"(?:[^@]*@)?(?:localhost|ip6-localhost|127\.[\d.]+|0\.0\.0\.0|\[?::1\]?)\.?", re.I)


def _remote(command: ScriptCommand) -> InnerCommands:
    """On this machine a line is run as any other; on another one, only what concerns us there is looked at."""
    pairs = (word.partition("=") for word in command.words)
    proxies = [value for name, _, value in pairs if _OPTION.sub("", name) in _PROXIES and _is_line(value)]
    if any("%h" not in value for value in proxies):
        return InnerCommands(texts=[value for value in proxies if "%h" not in value])
    found = _commands(command, Prefix(command.words, _SSH))
    if found.commands:
        found.texts = [" ".join(found.commands[0].words)]
    else:
        found = _from_stdin(command) if command.piped or command.redirects else InnerCommands()
    local = any(_LOCAL.fullmatch(word) for word in command.words[1:])
    ours = any("billhook" in text for text in (*found.texts, *(" ".join(one.words) for one in found.commands)))
    return found if local or ours else InnerCommands()


_PROXIES: Final = ("ProxyCommand", "LocalCommand", "KnownHostsCommand")

_OPTION = re.compile(r"^-[A-Za-z]*?o")  # `-vo ProxyCommand=...`


def remote_words(command: ScriptCommand) -> tuple[str, ...]:
    """The words that `ssh host ...` and its like run on other machines."""
    name = program(command.words)
    if name in _ELSEWHERE_TEXTS:
        values = _values(command.words[1:], _ELSEWHERE_TEXTS[name])
        return tuple(value.removeprefix("commands=").strip("[]\"'") for value in values if _is_line(value))
    return Prefix(command.words, _ELSEWHERE[name]).rest if name in _ELSEWHERE else ()


# containers

_CONTAINERS: Final = ("docker", "podman", "nerdctl", "docker-compose", "kubectl", "oc")
_CONTAINER: Final = Wrapper(
    "aceghlmpuvwn",
    flags="rm init privileged publish-all read-only interactive tty detach quiet no-deps build no-healthcheck "
    "oom-kill-disable use-aliases service-ports no-TTY stdin",
)
_CONTAINER_VALUED: Final = frozenset(
    ["--volume", "--mount", "--workdir", "--entrypoint", "--volumes-from", *(f"-{each}" for each in _CONTAINER.valued)]
)
_VERBS: Final = ("run", "exec", "create", "debug")
_INSIDE: Final = "/inside-a-container"  # where paths are put that are those of a container, and none of this machine


def in_container(path: str) -> bool:
    """Whether a path is one of a container, whose files can't be read here."""
    return path.startswith((_INSIDE, f"/tmp{_INSIDE}"))


def _container(command: ScriptCommand) -> InnerCommands:
    """What runs in a container, with the paths that it shares with this machine in this machine's words."""
    words = command.words
    verb = next((place for place, word in enumerate(words[1:6], 1) if word in _VERBS), 0)
    own = Prefix(words[verb:], _CONTAINER)
    options = Options(own.words[: own.at], _CONTAINER_VALUED)
    inner = _behind_dashes(own.rest[1:], anywhere=program(words) in ("kubectl", "oc"))
    inner = (*options.values("--entrypoint")[-1:], *inner)
    if not verb or not inner:
        return InnerCommands()
    shared = mounts(words)
    here = tuple(_outside(word, shared) for word in inner)
    if words[verb] not in ("exec", "debug") and not _has_volume(
        options
    ):  # what is only in a new container ends with it
        here = tuple(word.replace(_INSIDE, f"/tmp{_INSIDE}") for word in here)
    for folder in options.values("-w", "--workdir")[-1:]:
        place = _outside(folder, shared)
        here = here if place.startswith(_INSIDE) else ("env", "-C", place, *here)
    return InnerCommands([_like(command, here)])


def _behind_dashes(words: tuple[str, ...], *, anywhere: bool) -> tuple[str, ...]:
    """The words after `--`, which kubectl accepts after further options."""
    if words[:1] == ("--",) or (anywhere and "--" in words):
        return words[words.index("--") + 1 :]
    return words


def _has_volume(options: Options) -> bool:
    """Whether a container is given a volume by its name, `-v data:/data`, or those of another container."""
    named = any(re.match(r"[\w-]+:/", value) for value in options.values("-v", "--volume"))
    others = options.values("--mount", "--volumes-from")
    return named or any("type=bind" not in value for value in others)


def _outside(word: str, shared: list[tuple[str, str, bool]]) -> str:
    for source, target, _ in shared:
        if word == target or word.startswith(target.rstrip("/") + "/"):
            return source.rstrip("/") + word[len(target.rstrip("/")) :]
    if _is_line(word):
        return _ABSOLUTE.sub(lambda found: _outside(found[0], shared), word)
    if not word.startswith("/") or "bin/" in word or word.startswith("/dev/"):
        return word
    if word.startswith(("/tmp/", "/var/tmp/")):
        return f"/tmp{_INSIDE}{word}"
    return (UNKNOWN if "billhook" in word else _INSIDE) + word  # other folders may be shared that the line doesn't name


_ABSOLUTE = re.compile(r"(?<![\w.$~@:/-])/[^\s;|&<>()'\"`]*")


def mounts(words: Sequence[str]) -> list[tuple[str, str, bool]]:
    """Folders of this machine that a container is given: the folder, its path inside, and whether it may be written."""
    options = Options(words, _CONTAINER_VALUED)
    volumes = [(*value.split(":", 2), "", "")[:3] for value in options.values("-v", "--volume")]
    volumes += [_mount(value) for value in options.values("--mount")]
    return [
        (source, target, "ro" not in how.split(","))
        for source, target, how in volumes
        if source.startswith(("/", ".", "~", UNKNOWN)) and target
    ]


def _mount(value: str) -> tuple[str, str, str]:
    """`type=bind,source=/a,target=/b,readonly` as `/a`, `/b`, `ro`."""
    fields = dict(field.partition("=")[::2] for field in value.split(","))
    source = fields.get("source") or fields.get("src") or ""
    target = fields.get("target") or fields.get("destination") or fields.get("dst") or ""
    return source, target, "ro" if {"readonly", "ro"} & set(fields) else ""


# git

_GIT: Final = Wrapper("cC", "git-dir work-tree namespace")
_GIT_RUNS = re.compile(
    r"alias\.|core\.(?:pager|editor|fsmonitor|sshcommand|gitproxy|askpass)|sequence\.editor|diff\.|difftool\.|merge\."
    r"|mergetool\.|pager\.|gpg\.|credential\.|filter\.|interactive\.|browser\.|man\.|trailer\.|uploadpack\.|ssh\.",
    re.I,
)
"""Settings of git whose value is a command."""
_REMOTE_VERBS: Final = "fetch pull push clone ls-remote archive fetch-pack send-pack"
_REMOTE_PROGRAMS: Final = "--upload-pack --receive-pack --exec"
_GIT_OPTIONS: Final[dict[str, str]] = {
    "rebase": "-x --exec",
    "difftool": "-x --extcmd",
    "grep": "-O --open-files-in-pager",
    "filter-branch": "--setup --tree-filter --index-filter --msg-filter --env-filter --parent-filter --commit-filter "
    "--tag-name-filter",
    **dict.fromkeys(_REMOTE_VERBS.split(), _REMOTE_PROGRAMS),
}
"""Options of git whose value is a command."""


def _git(command: ScriptCommand) -> InnerCommands:
    """The commands that git runs: `rebase -x`, `bisect run`, `submodule foreach`, aliases, editors and pagers."""
    words = command.words
    at = Prefix(words, _GIT).at
    verb, rest = " ".join(words[at : at + 1]), words[at + 1 :]
    texts = [*_git_settings(words[1:at], verb, rest)]
    if verb == "bisect" and "run" in rest:
        texts.append(_quoted(rest[rest.index("run") + 1 :]))
    if verb == "submodule" and "foreach" in rest:
        line = [word for word in rest[rest.index("foreach") + 1 :] if word not in _FOREACH]
        texts.append(line[0] if len(line) == 1 else _quoted(line))
    return InnerCommands(texts=texts + (_values(rest, _GIT_OPTIONS[verb]) if verb in _GIT_OPTIONS else []))


_FOREACH: Final = ("--recursive", "--quiet", "-q", "--")


def _git_settings(own: Sequence[str], verb: str, rest: Sequence[str]) -> Iterator[str]:
    """The values of settings that are commands: `git -c alias.x='!...' x`, `git config core.pager '...'`."""
    settings = [value.partition("=")[::2] for value in Options(own, frozenset({"-c", "-C"})).values("-c")]
    operands = [word for word in rest if not word.startswith("-")]
    if verb == "config" and len(operands) > 1:
        settings.append((operands[-2], operands[-1]))
    return (value.lstrip("!") for name, value in settings if _GIT_RUNS.match(name) and _is_line(value))


def _quoted(words: Sequence[str]) -> str:
    """Words as one line; what is not known stays so."""
    import shlex

    return " ".join(word if UNKNOWN in word else shlex.quote(word) for word in words)


_READ: Final[dict[str, Callable[[ScriptCommand], InnerCommands]]] = {
    **dict.fromkeys(_EVALUATES, _evaluated),
    **dict.fromkeys(_CARRIERS, _carried),
    **dict.fromkeys(_CONTAINERS, _container),
    **dict.fromkeys(_TEXT_OPTIONS, _option_texts),
    **dict.fromkeys(_ESCAPES_WORDS.split(), _escapes),
    **dict.fromkeys(("su", "runuser", "script", "sg", "newgrp"), _other_user),
    **dict.fromkeys(("find", "fd", "fdfind"), _found),
    **dict.fromkeys((".", "source"), _source),
    **dict.fromkeys(WRAPPERS, _wrapped),
    **dict.fromkeys(SHELLS, _shell),
    "capsh": _capsh,
    "eval": _eval,
    "git": _git,
    "screen": _screen,
    "socat": _socat,
    "ssh": _remote,
    "trap": _trap,
}
"""The function that reads the words of a program that runs others."""
