"""What a command runs in its turn: `sudo git push` runs `git push`, `sh -c '...'` runs a text, `xargs rm` runs `rm`.

One table row per wrapper. Where an option is not known the doubt is kept: both readings are returned.
"""

import itertools
import posixpath
import re
from typing import Final

import msgspec

from billhook.script import UNKNOWN, Command, Redirect, evaluates


class Inside(msgspec.Struct):
    """What a command runs: further commands, further texts for a shell, and whether that is all of it."""

    commands: list[Command] = []
    texts: list[str] = []
    complete: bool = True


class Wrapper(msgspec.Struct, frozen=True):
    """How to find the command among a wrapper's words."""

    valued: str = ""
    """Short options that take a value, attached or as the next word."""
    long: str = ""
    """Long options that take a value as the next word, parted by blanks."""
    operands: int = 0
    """How many words stand before the command: the duration of `timeout`."""
    optional: bool = False
    """One more word may stand before the command."""
    assignments: bool = False
    """`A=1` may stand before the command."""
    fed: bool = False
    """Further arguments come from elsewhere."""
    joined: bool = False
    """The words are joined and given to a shell."""


_PLAIN: Final = Wrapper()
WRAPPERS: Final[dict[str, Wrapper]] = {
    "sudo": Wrapper(
        valued="CDghpRrTtUu",
        long="user group host prompt chdir chroot role type other-user command-timeout close-from",
        assignments=True,
    ),
    "doas": Wrapper("Cu"),
    "env": Wrapper("uCa", "unset chdir argv0", assignments=True),
    "timeout": Wrapper("ks", "kill-after signal", 1),
    "nice": Wrapper("n", "adjustment"),
    "ionice": Wrapper("cnpPu", "class classdata pid pgid uid"),
    "chrt": Wrapper("pTPD", "sched-runtime sched-period sched-deadline", 1),
    "taskset": Wrapper("", "", 1),
    "nohup": _PLAIN,
    "time": Wrapper("fo", "format output", assignments=True),
    "command": _PLAIN,
    "builtin": _PLAIN,
    "exec": Wrapper("a"),
    "setsid": _PLAIN,
    "stdbuf": Wrapper("ioe", "input output error"),
    "unbuffer": _PLAIN,
    "strace": Wrapper("abeEIoOpPsSuUX", "attach trace expr output user env string-limit"),
    "flock": Wrapper("wE", "timeout wait conflict-exit-code", 1),
    "chroot": Wrapper("", "userspec groups", 1),
    "setpriv": Wrapper(
        "",
        "reuid ruid euid regid rgid egid groups inh-caps ambient-caps bounding-set securebits pdeathsig ptracer "
        "selinux-label apparmor-profile landlock-access landlock-rule seccomp-filter",
    ),
    "unshare": Wrapper("RSGwl", "propagation setgroups setuid setgid root wd map-user map-group map-users map-groups"),
    "nsenter": Wrapper("tSG", "target setuid setgid"),
    "prlimit": Wrapper("po", "pid output"),
    "setarch": Wrapper(optional=True),
    "linux32": _PLAIN,
    "linux64": _PLAIN,
    "systemd-run": Wrapper("pEuHMt", "property setenv unit host machine slice description service-type uid gid nice"),
    "systemd-inhibit": Wrapper("", "what who why mode"),
    "pkexec": Wrapper("", "user"),
    "fakeroot": Wrapper("lfisb", "lib faked"),
    "caffeinate": Wrapper("tw"),
    "ltrace": Wrapper("aADeFlnopsuwxX", "align config debug indent output user where library"),
    "watch": Wrapper("nq", "interval equexit", joined=True),
    "busybox": _PLAIN,
    "toybox": _PLAIN,
    "xargs": Wrapper("adEILnPsJRS", "arg-file delimiter max-args max-procs max-chars process-slot-var", fed=True),
    "parallel": Wrapper(
        "aIjnNLdSC", "jobs arg-file max-args delimiter colsep joblog results sshlogin workdir tmpdir timeout", fed=True
    ),
}
_RUNUSER: Final = Wrapper("ugGsw", "user group supp-group shell whitelist-environment")
TRANSPARENT: Final = frozenset({"timeout", "nice", "ionice", "nohup", "time", "stdbuf", "command", "builtin"})
"""Wrappers that add nothing to what they run: an allow rule need not name them."""

_EVALUATES: Final = frozenset(
    {"[", "test", "let", "read", "printf", "declare", "typeset", "local", "export", "readonly", "unset", "wait"}
    | {"getopts", "mapfile", "readarray"}
)
"""Builtins that take a word for a variable's name or a number, and run what its subscript says."""

SHELLS: Final = frozenset({"sh", "bash", "zsh", "dash", "ksh", "mksh", "ash", "fish", "rbash", "yash", "posh"})
_SHELL_VALUED: Final = frozenset({"--rcfile", "--init-file", "-o", "+o", "-O", "+O", "--init-command", "-C"})
_STDIN: Final = frozenset({"-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"})
_EXECUTES: Final = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")


def inside(command: Command) -> Inside:
    """What `command` runs besides itself, one level deep."""
    words = command.words
    if not words:
        return Inside()
    name = posixpath.basename(words[0])
    if name in SHELLS:
        return _shell(command)
    if name in WRAPPERS:
        return _wrapped(command, name, WRAPPERS[name])
    if name in ("find", "fd"):
        return _found(command)
    if name == "eval":
        return _text(" ".join(words[2:] if words[1:2] == ("--",) else words[1:]))
    if name == "runuser" and any(word.startswith(("-u", "--user")) for word in words):
        return _wrapped(command, name, _RUNUSER)
    if name in ("su", "runuser", "script", "sg", "newgrp"):
        return _option_c(command, name)
    if name == "trap":
        operands = [word for word in words[1:] if word != "--"]
        return _text(operands[0]) if operands and not operands[0].startswith("-") else Inside()
    if name in (".", "source"):
        read = words[1] if len(words) > 1 else ""
        return Inside(complete=not (_descriptor(read) or UNKNOWN in read))
    if name in _EVALUATES and (name != "printf" or " ".join(words[1:2]).startswith("-v")):
        calls_back = name in ("mapfile", "readarray") and any(word.startswith("-C") for word in words)
        return Inside(complete=not calls_back and not any(map(evaluates, words)))
    return Inside()


def transparent(words: tuple[str, ...]) -> bool:
    """Whether the wrapper adds nothing to what it runs. `time` does with any option but `-p`: `-o` writes a file."""
    if words[0] != "time":
        return words[0] in TRANSPARENT
    options = itertools.takewhile(lambda word: word.startswith("-"), words[1:])
    return all(word in ("-p", "--") for word in options)


def _text(text: str) -> Inside:
    return Inside(texts=[text] if text.strip() else [])


def _wrapped(command: Command, name: str, wrapper: Wrapper) -> Inside:
    words = command.words
    found = Inside()
    assignments: list[str] = []
    at, operands, replaced = 1, wrapper.operands, ""
    doubtful = False
    while at < len(words):
        word = words[at]
        if word == "--" or (name == "env" and word == "-"):
            at += 1
            if not wrapper.assignments and not operands:
                break
            continue
        if word.startswith("-") and len(word) > 1:
            option, _, value = word.partition("=")
            if name == "env" and (option == "--split-string" or (option[1] != "-" and "S" in option)):
                split = value if option == "--split-string" else word.partition("S")[2]
                text = " ".join((split, *words[at + 1 :]))
                return Inside(texts=[f"env {text}"], complete="\\" not in text and "$" not in text)
            if name == "command" and option in ("-v", "-V", "-vp", "-pv"):
                return Inside()
            if name == "flock" and option in ("-c", "--command"):
                return _text(" ".join(words[at + 1 : at + 2]))
            if name in ("sudo", "doas") and option in ("-s", "-i", "--shell", "--login"):
                rest = words[at + 1 :]
                if not rest and (command.piped or command.redirects):
                    return _from_stdin(command)
                return Inside([_like(command, rest, assignments)] if rest else [], [" ".join(rest)] if rest else [])
            if name in ("xargs", "parallel") and option[:2] in ("-I", "-i", "-J"):
                replaced = option[2:] or (words[at + 1] if option[:2] != "-i" and at + 1 < len(words) else "{}")
            takes, doubt = _takes_next(word, option, wrapper)
            doubtful = doubtful or doubt
            at += 1 + takes
            continue
        if wrapper.assignments and _assigns(name, word):
            assignments.append(word)
        elif operands:
            operands -= 1
        else:
            break
        at += 1
    found.complete = not any(UNKNOWN in word and not _ASSIGNMENT.match(word) for word in words[1:at])
    starts = [at, at + 1] if doubtful or wrapper.optional else [at]
    for start in starts:
        inner = words[start:]
        if not inner:
            continue
        if wrapper.joined:
            found.texts.append(" ".join(inner))
        if wrapper.fed:
            inner = tuple(word.replace(replaced or "{}", UNKNOWN) for word in inner)
            inner = inner if replaced else (*inner, UNKNOWN)
            if name == "parallel":
                found.texts.append(" ".join(inner))
        found.commands.append(_like(command, inner, assignments))
    if wrapper.fed and not words[at:] and name == "parallel":
        found.complete = False  # each line it reads is a command
    return found


def _assigns(name: str, word: str) -> bool:
    """Whether a word before the command is an assignment; to `env` and `sudo` whatever has a `=` is, as `a-b=1`."""
    if name == "time":
        return _ASSIGNMENT.match(word) is not None
    return "=" in word and not (name == "sudo" and word.startswith("/"))


def _takes_next(word: str, option: str, wrapper: Wrapper) -> tuple[int, bool]:
    """Whether an option's value is the next word, and whether that is only a guess."""
    if word.startswith("--"):
        if "=" in word:
            return 0, False
        name = option[2:]
        longs = wrapper.long.split()
        # a long option may be cut short
        return (1, False) if any(long.startswith(name) for long in longs) else (0, True)
    for place, letter in enumerate(word[1:], 1):
        if letter in wrapper.valued:
            return (1 if place == len(word) - 1 else 0), False
    return 0, UNKNOWN in word


def _like(command: Command, words: tuple[str, ...], assignments: list[str]) -> Command:
    """A command run by `command`: it reads what that one would have read."""
    return Command(words, (*command.assignments, *assignments), command.redirects, command.piped, command.feeder)


def _found(command: Command) -> Inside:
    found = Inside()
    inner: list[str] | None = None
    before = "-"  # an unknown word is believed to be the first folder, or the value of a test
    for word in command.words[1:]:
        if inner is not None and word in (";", "+"):
            found.commands.append(Command(tuple(inner)))
            inner = None
        elif inner is not None:
            inner.append(word.replace("{}", UNKNOWN))
        elif word in _EXECUTES or word in ("-x", "-X", "--exec", "--exec-batch"):
            inner = []
        elif word == ";" or (UNKNOWN in word and (word[0] == "-" or before[:1] != "-")):
            found.complete = False
        before = word
    if inner:
        found.commands.append(Command(tuple(inner)))
    return found


def _option_c(command: Command, name: str) -> Inside:
    words = command.words
    for place, word in enumerate(words[1:], 1):
        if word in ("-c", "--command", "--session-command") or (
            word[:1] == "-" and word[1:2] != "-" and word.endswith("c")
        ):
            return _text(" ".join(words[place + 1 : place + 2]))
        if word.startswith(("--command=", "--session-command=")):
            return _text(word.partition("=")[2])
        if word.startswith("-c"):
            return _text(word[2:])
    # a shell that reads what it is given; `sg group command` needs no option
    return Inside(complete=not (command.piped or _stdin(command) or UNKNOWN in "".join(words) or name == "sg"))


def _shell(command: Command) -> Inside:
    words = command.words
    at, runs_text, reads = 1, False, False
    while at < len(words) and words[at][:1] in ("-", "+") and words[at] != "-":
        word = words[at]
        at += 1
        if word == "--":
            break
        if word in ("--version", "--help"):
            return Inside()
        if word.startswith("--"):
            at += word in _SHELL_VALUED
            if word.startswith("--command"):  # fish
                return _text(word.partition("=")[2] or " ".join(words[at : at + 1]))
            continue
        letters = word[1:]
        if UNKNOWN in word or set(letters[:-1]) & set("oO"):  # `-oc pipefail ...`
            return Inside(complete=False)
        runs_text = runs_text or (word[0] == "-" and "c" in letters)
        reads = reads or "s" in letters
        at += letters[-1:] in ("o", "O")
    operand = words[at] if at < len(words) else None
    if any(UNKNOWN in word for word in words[1:at]) or {"-C", "--init-command"} & set(words[1:at]):
        return Inside(complete=False)
    if runs_text:
        return _text(operand or "")
    if reads or operand is None or operand in _STDIN:
        return _from_stdin(command)
    # a file it will read is left as it is, except one that a command writes while it reads
    return Inside(complete=UNKNOWN not in operand and not _descriptor(operand))


def _descriptor(path: str) -> bool:
    """Whether a path names what a descriptor reads, and no file."""
    return path in _STDIN or path.startswith("/dev/fd/") or (path.startswith("/proc/") and "/fd/" in path)


def _from_stdin(command: Command) -> Inside:
    """The text a shell reads from its standard input, if the line itself says it."""
    if last := _stdin(command):
        if last.body is not None:
            return _text(last.body)
        known = last.operator in ("<", "<>") and UNKNOWN not in last.target and not _descriptor(last.target)
        return Inside(complete=known)
    text = _printed(command.feeder) if command.piped and command.feeder else None
    return Inside(complete=False) if text is None else _text(text)


def _stdin(command: Command) -> Redirect | None:
    """The redirection that standard input comes from: the last one of descriptor 0."""
    for redirect in reversed(command.redirects):
        number, operator = redirect.descriptor, redirect.operator
        if (number and not number.strip("0")) or (not number and operator.startswith("<")):
            return redirect
    return None


def _printed(command: Command) -> str | None:
    """What a command prints, where the line itself says it: `echo`, plain `printf`, `cat` of a here-document."""
    words = command.words
    name = posixpath.basename(words[0]) if words else ""
    if name == "echo":
        at = 1
        while at < len(words) and re.fullmatch(r"-[neE]+", words[at]):
            at += 1
        text = " ".join(words[at:])
        return None if "\\" in text else text
    if name == "printf" and len(words) > 1:
        form, rest = words[1].replace("\\n", "\n"), words[2:]
        if form in ("%s", "%s\n", "%b", "%b\n") and rest and not any("\\" in word for word in rest):
            return form[2:].join(rest)
        return None if "%" in form or "\\" in form else form
    if name == "cat" and len(words) == 1:
        last = _stdin(command)
        return last.body if last else None
    return None
