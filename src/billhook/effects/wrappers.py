"""What a command runs in its turn: `sudo git push` runs `git push`, `sh -c '...'` runs a text, `xargs rm` runs `rm`.

One table row per wrapper. Where an option is not known the doubt is kept: both readings are returned.
"""

import itertools
import posixpath
import re
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from billhook.effects.effect import UNKNOWN
from billhook.effects.script import ScriptCommand, ScriptRedirect, evaluates


class InnerCommands(msgspec.Struct):
    """What a command runs: further commands, further texts for a shell, and whether that is all of it."""

    commands: list[ScriptCommand] = []
    texts: list[str] = []
    complete: bool = True


class Wrapper(msgspec.Struct, frozen=True):
    """How to find the command among a wrapper's words."""

    valued: str = ""  # short options that take a value, attached or as the next word
    long: str = ""  # long options that take a value as the next word, parted by blanks
    operands: int = 0  # how many words stand before the command: the duration of `timeout`
    optional: bool = False  # one more word may stand before the command
    assignments: bool = False  # `A=1` may stand before the command
    fed: bool = False  # further arguments come from elsewhere
    joined: bool = False  # the words are joined and given to a shell


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
    "spawn": _PLAIN,
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
    "dtach": Wrapper("aAcnNepr"),
    "abduco": Wrapper("acnAe"),
    "sshpass": Wrapper("pfdP"),
    "rlwrap": Wrapper("bCdfgHilmpPqst"),
    "dbus-run-session": Wrapper("", "config-file dbus-daemon"),
    "firejail": _PLAIN,
    "bwrap": Wrapper("", "", optional=True),
    "proot": Wrapper("rbwq", "rootfs bind cwd"),
    "faketime": Wrapper("", "", 1),
    "flatpak-spawn": Wrapper("", "env directory"),
    "tsp": Wrapper("DLNO"),
    "entr": _PLAIN,
    "watchexec": Wrapper("wefiso", "watch exts filter ignore signal on-busy-update"),
    "direnv": Wrapper("", "", 2),
    "xargs": Wrapper("adEILnPsJRS", "arg-file delimiter max-args max-procs max-chars process-slot-var", fed=True),
    "parallel": Wrapper(
        "aIjnNLdSC", "jobs arg-file max-args delimiter colsep joblog results sshlogin workdir tmpdir timeout", fed=True
    ),
}
_SCREEN: Final = Wrapper("cehpsStT")
_SSH: Final = Wrapper("BbcDEeFIiJLlmOopQRSWw", "", 1)
_RUNUSER: Final = Wrapper("ugGsw", "user group supp-group shell whitelist-environment")
TRANSPARENT: Final = frozenset({"timeout", "nice", "ionice", "nohup", "time", "stdbuf", "command", "builtin"})
"""Wrappers that add nothing to what they run: an allow rule need not name them."""

_CARRIERS_WORDS = (
    "tmux byobu zellij xterm uxterm urxvt rxvt st konsole alacritty kitty foot ghostty terminator tilix wezterm "
    "gnome-terminal xfce4-terminal mate-terminal lxterminal x-terminal-emulator concurrently nodemon machinectl mosh "
    "lxc multipass toolbox distrobox distrobox-enter vagrant start-stop-daemon hyperfine xdotool ydotool wtype"
)
_CARRIERS: Final = frozenset(_CARRIERS_WORDS.split())
"""Multiplexers, terminals and the like: a word of theirs that has blanks in it is a line for a shell."""
_MARKERS: Final = frozenset({"--", "-e", "-x", "--execute", "--command"})
"""What stands before the command of a terminal."""
_TYPES: Final = frozenset({"send-keys", "send", "write-chars", "write", "type", "send-text", "set-buffer", "setb"})
_TMUX = re.compile(
    r"(?:new|neww|run|if|send|splitw|popup|display-popup|bind|setb"
    r"|(?:new|run|if|send|split|respawn|pipe|set|bind|source)-[a-z]+)\s"
)
"""Commands of tmux itself, which others of its commands take as one word."""
_TEXT_OPTIONS: Final[dict[str, tuple[str, ...]]] = {
    "npm": ("-c", "--call"),
    "npx": ("-c", "--call"),
    "nix-shell": ("--run", "--command"),
    "ansible": ("-a", "--args"),
    "tar": ("--checkpoint-action", "--to-command", "--rsh-command", "-I", "--use-compress-program"),
    "rsync": ("-e", "--rsh"),
    "split": ("--filter",),
    "sort": ("--compress-program",),
    "man": ("-P", "--pager"),
    "zip": ("-TT", "--unzip-command"),
    "expect": ("-c",),
}
"""Programs besides shells that run the text behind an option."""
_ESCAPES: Final = frozenset(
    {"vi", "vim", "nvim", "view", "ex", "less", "more", "gdb", "lldb", "psql", "mysql", "mariadb", "sqlite3", "expect"}
    | {"ipython", "ftp", "sftp"}
)
"""Programs that hand a line of theirs to a shell: `vim -c '!...'`, `gdb -ex 'shell ...'`."""
_ESCAPE = re.compile(r"(?:\+?:?!|\\!|(?:\.?shell|\.system|system|spawn)\s)\s*(.*)", re.DOTALL)
_KEYS = re.compile(r"(?:Enter|Return|Escape|Space|Tab|KPEnter|(?:[CM]-.)+|\^[A-Z])(?:\s|$)")
_CONTAINERS: Final = frozenset({"docker", "podman", "nerdctl", "docker-compose", "kubectl", "oc"})
_CONTAINER_FLAGS_WORDS = (
    "--rm --init --privileged --publish-all --read-only --interactive --tty --detach --quiet --no-deps --build "
    "--no-healthcheck --oom-kill-disable --use-aliases --service-ports --no-TTY --stdin"
)
_CONTAINER_FLAGS: Final = frozenset(_CONTAINER_FLAGS_WORDS.split())
_CONTAINER_VALUED: Final = "aceghlmpuvwn"
_INSIDE: Final = "/inside-a-container"  # where paths are put that are those of a container, and none of this machine
_LOCAL = re.compile(r"(?:[^@]*@)?(?:localhost|ip6-localhost|127\.[\d.]+|0\.0\.0\.0|\[?::1\]?)\.?", re.I)
_GIT_RUNS = re.compile(
    r"alias\.|core\.(?:pager|editor|fsmonitor|sshcommand|gitproxy|askpass)|sequence\.editor|diff\.|difftool\.|merge\."
    r"|mergetool\.|pager\.|gpg\.|credential\.|filter\.|interactive\.|browser\.|man\.|trailer\.|uploadpack\.|ssh\.",
    re.I,
)
"""Settings of git whose value is a command."""
_RUN_VARIABLES = re.compile(
    r"GIT_(?:SEQUENCE_)?EDITOR|GIT_PAGER|GIT_SSH_COMMAND|GIT_SSH|GIT_ASKPASS|GIT_EXTERNAL_DIFF|GIT_PROXY_COMMAND|EDITOR"
    r"|VISUAL|PAGER|MANPAGER|LESSOPEN|BROWSER|PROMPT_COMMAND|SSH_ASKPASS|FZF_DEFAULT_COMMAND"
)
"""Variables whose value other programs run."""

_RUNNERS: Final = frozenset(
    {("uv", "run"), ("poetry", "run"), ("pipenv", "run"), ("pdm", "run"), ("hatch", "run"), ("rye", "run")}
    | {("deno", "run"), ("bun", "run"), ("pipx", "run"), ("pnpm", "exec"), ("pnpm", "dlx"), ("yarn", "exec")}
    | {("npx",), ("pnpx",), ("bunx",), ("uvx",), ("bun",), ("bundle", "exec"), ("npm", "exec"), ("npm", "x")}
    | {("yarn", "dlx"), ("conda", "run"), ("mise", "exec"), ("doppler", "run"), ("dotenv", "run")}
)
_RUNNER_NAMES: Final = frozenset(name for name, *_ in _RUNNERS)
_RUNNER_VALUED: Final = frozenset(
    {"--with", "--with-requirements", "--with-editable", "--python", "-p", "--project", "--directory", "--env-file"}
    | {"--extra", "--group", "--index", "--package", "--config", "-c", "--import-map", "--from", "--cwd"}
)
RUN_INPUT: Final = frozenset({"at", "batch", "crontab"})
_SCHEDULE = re.compile(r"^[ \t]*(?:@\w+|(?:[\d*/,-]+[ \t]+){5})[ \t]*", re.M)

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


def inside(command: ScriptCommand) -> InnerCommands:
    """What `command` runs besides itself, one level deep."""
    found = _inside(command)
    set_here = (*command.assignments, *(command.words[1:] if command.words[:1] in _EXPORTS else ()))
    texts = [
        value
        for name, equals, value in (word.partition("=") for word in set_here)
        if equals and _is_line(value) and _RUN_VARIABLES.fullmatch(name)
    ]
    return InnerCommands(found.commands, [*found.texts, *texts], found.complete) if texts else found


_EXPORTS: Final = (("export",), ("declare",), ("typeset",))


def _is_line(text: str) -> bool:
    """Whether a value is more than the name of a program."""
    return not set(" \t\n;|&$`").isdisjoint(text.strip())


def _inside(command: ScriptCommand) -> InnerCommands:
    words = command.words
    if not words:
        return InnerCommands()
    name = posixpath.basename(words[0])
    if name in SHELLS:
        return _shell(command)
    if name in WRAPPERS:
        return _wrapped(command, name, WRAPPERS[name])
    if name in ("find", "fd", "fdfind"):
        return _found(command)
    if name == "git":
        return InnerCommands(texts=list(_git_lines(words)))
    if name == "ssh":
        return _remote(command)
    if name == "screen":
        return _screen(command)
    if name in _CONTAINERS:
        return _container(command)
    if name in _CARRIERS:
        return _carried(command, name)
    if name == "socat":
        carried = (re.match(r"(?:EXEC|SYSTEM|SHELL):([^,]*)", word, re.I) for word in words[1:])
        return InnerCommands(texts=[found[1] for found in carried if found])
    if name in _TEXT_OPTIONS and (texts := list(_option_texts(words, _TEXT_OPTIONS[name]))):
        return InnerCommands(texts=texts)
    if name in _ESCAPES:
        return InnerCommands(texts=[found[1] for word in words[1:] if (found := _ESCAPE.match(word))])
    if name == "eval":
        return _text(" ".join(words[2:] if words[1:2] == ("--",) else words[1:]))
    if name == "runuser" and any(word.startswith(("-u", "--user")) for word in words):
        return _wrapped(command, name, _RUNUSER)
    if name in ("su", "runuser", "script", "sg", "newgrp"):
        return _option_c(command, name)
    if name == "trap":
        operands = [word for word in words[1:] if word != "--"]
        return _text(operands[0]) if operands and not operands[0].startswith("-") else InnerCommands()
    if name in (".", "source"):
        read = words[1] if len(words) > 1 else ""
        return InnerCommands(complete=not (_descriptor(read) or UNKNOWN in read))
    if name in _EVALUATES and (name != "printf" or " ".join(words[1:2]).startswith("-v")):
        calls_back = name in ("mapfile", "readarray") and any(word.startswith("-C") for word in words)
        return InnerCommands(complete=not calls_back and not any(map(evaluates, words)))
    return InnerCommands()


def _option_texts(words: Sequence[str], options: tuple[str, ...]) -> Iterator[str]:
    """The values of options, as the next word or behind `=`, that are lines; `exec=` is tar's word for one."""
    for word, following in itertools.pairwise((*words, "")):
        option, equals, value = word.partition("=")
        if option in options:
            text = (value if equals else following).removeprefix("exec=")
            if _is_line(text):
                yield text


def run_by(words: tuple[str, ...]) -> tuple[str, ...]:
    """What `uv run ...` and its like run; nothing for other commands. `-m` and a module for Python's."""
    name = posixpath.basename(words[0]) if words else ""
    if name not in _RUNNER_NAMES:
        return ()
    taken = next((n for n in (2, 1) if (name, *words[1:n]) in _RUNNERS and len(words) > n), 0)
    if not taken:
        return ()
    at = taken
    while at < len(words) and words[at].startswith("-") and words[at] != "--":
        if words[at] in ("-m", "--module"):
            return ("-m", *words[at + 1 :])
        at += 2 if words[at] in _RUNNER_VALUED else 1
    return words[at + 1 :] if words[at : at + 1] == ("--",) else words[at:]


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


# carriers


def _carried(command: ScriptCommand, name: str) -> InnerCommands:
    """The lines that a multiplexer or a terminal is given: each word that has blanks, or all that follows `--`."""
    words = [word.partition("=")[2] if word.startswith("--") else word for word in command.words[1:]]
    lines = [_KEYS.sub("", word).replace("\\n", "\n") for word in words if _is_line(word)]
    marker = next((place for place, word in enumerate(command.words) if word in _MARKERS), 0)
    rest = command.words[marker + 1 :] if marker else ()
    commands = [_like(command, rest, [])] if rest and not lines else []
    if not _TYPES.isdisjoint(words):
        return InnerCommands(texts=[*([" ".join(lines)] if lines else []), _typed(words)])
    return InnerCommands(commands, [f"tmux {line}" if name == "tmux" and _TMUX.match(line) else line for line in lines])


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
_NAMED_KEYS: Final = {
    "Enter": "\n",
    "Return": "\n",
    "KPEnter": "\n",
    "C-m": "\n",
    "C-j": "\n",
    "Space": " ",
    "Tab": " ",
}


def _screen(command: ScriptCommand) -> InnerCommands:
    if "-X" in command.words:
        line = " ".join(command.words[command.words.index("-X") + 2 :])
        return _text(line.replace("\\n", "\n").replace("^M", "\n"))
    return _wrapped(command, "screen", _SCREEN)


def _remote(command: ScriptCommand) -> InnerCommands:
    """On this machine a line is run as any other; on another one, only what concerns us there is looked at."""
    found = _wrapped(command, "ssh", _SSH)
    line = " ".join(word for inner in found.commands[:1] for word in inner.words)
    if not found.commands:
        found = _from_stdin(command) if command.piped or command.redirects else InnerCommands()
    else:
        found = InnerCommands(found.commands, [line], found.complete)
    proxies = [
        value
        for name, _, value in (word.partition("=") for word in command.words)
        if name.removeprefix("-o") in ("ProxyCommand", "LocalCommand") and _is_line(value) and "%h" not in value
    ]
    if proxies:
        return InnerCommands(texts=proxies)
    local = any(_LOCAL.fullmatch(word) for word in command.words[1:])
    ours = any("billhook" in word for inner in found.commands for word in inner.words) or "billhook" in "".join(
        found.texts
    )
    return found if local or ours else InnerCommands()


def remote_words(command: ScriptCommand) -> tuple[str, ...]:
    """The words that `ssh host ...` runs on another machine."""
    found = _wrapped(command, "ssh", _SSH)
    return found.commands[0].words if found.commands else ()


def _container(command: ScriptCommand) -> InnerCommands:
    """What runs in a container, with the paths that it shares with this machine in this machine's words."""
    words = command.words
    verb = next((place for place, word in enumerate(words[1:6], 1) if word in ("run", "exec", "create")), 0)
    if not verb:
        return InnerCommands()
    at, folder = verb + 1, ""
    while at < len(words) and words[at].startswith("-") and words[at] != "--":
        word = words[at]
        name, equals, value = word.partition("=")
        takes = name not in _CONTAINER_FLAGS if word.startswith("--") else word[-1] in _CONTAINER_VALUED
        if name in ("-w", "--workdir"):
            folder = value if equals else " ".join(words[at + 1 : at + 2])
        at += 1 + (takes and not equals)
    inner = words[at + 1 :]
    inner = inner[1:] if inner[:1] == ("--",) else inner
    if not inner:
        return InnerCommands()
    shared = mounts(words)
    here = tuple(_outside(word, shared) for word in inner)
    place = _outside(folder, shared) if folder else ""
    if words[verb] != "exec" and not _has_volume(words):  # what is only in a new container ends with it
        here = tuple(word.replace(_INSIDE, f"/tmp{_INSIDE}") for word in here)
    here = ("env", "-C", place, *here) if place and not place.startswith(_INSIDE) else here
    return InnerCommands([_like(command, here, [])])


def _has_volume(words: Sequence[str]) -> bool:
    """Whether a container is given a volume by its name, `-v data:/data`, or those of another container."""
    pairs = itertools.pairwise(words)
    named = any(option in ("-v", "--volume") and re.match(r"[\w-]+:/", value) for option, value in pairs)
    return named or any(word.startswith(("--volumes-from", "--mount")) and "type=bind" not in word for word in words)


def _outside(word: str, shared: list[tuple[str, str, bool]]) -> str:
    for source, target, _ in shared:
        if word == target or word.startswith(target.rstrip("/") + "/"):
            return source.rstrip("/") + word[len(target.rstrip("/")) :]
    if _is_line(word):
        return _ABSOLUTE.sub(lambda found: _outside(found[0], shared), word)
    if not word.startswith("/") or "bin/" in word or word.startswith("/dev/"):
        return word
    return (UNKNOWN if "billhook" in word else _INSIDE) + word  # other folders may be shared that the line doesn't name


_ABSOLUTE = re.compile(r"(?<![\w.$~@:/-])/[^\s;|&<>()'\"`]*")


def mounts(words: Sequence[str]) -> list[tuple[str, str, bool]]:
    """Folders of this machine that a container is given: the folder, its path inside, and whether it may be written."""
    found = []
    for place, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name in ("-v", "--volume", "--mount"):
            value = value if equals else " ".join(words[place + 1 : place + 2])
        elif word.startswith("-v") and not word.startswith("-ve"):
            value = word[2:]
        else:
            continue
        if name == "--mount":
            fields = dict(field.partition("=")[::2] for field in value.split(","))
            source = fields.get("source") or fields.get("src") or ""
            target = fields.get("target") or fields.get("destination") or fields.get("dst") or ""
            options = "ro" if {"readonly", "ro"} & set(fields) else ""
        else:
            source, target, options = (*value.split(":", 2), "", "")[:3]
        if source.startswith(("/", ".", "~", UNKNOWN)) and target:
            found.append((source, target, "ro" not in options.split(",")))
    return found


def _git_lines(words: tuple[str, ...]) -> Iterator[str]:
    """The commands that git runs: `rebase -x`, `bisect run`, `submodule foreach`, aliases, editors and pagers."""
    at = 1
    while at < len(words) and words[at].startswith("-"):
        if words[at] in ("-c", "-C", "--git-dir", "--work-tree", "--namespace"):
            at += 1
            setting, _, value = " ".join(words[at : at + 1]).partition("=")
            if words[at - 1] == "-c" and _GIT_RUNS.match(setting) and _is_line(value):
                yield value.lstrip("!")
        at += 1
    verb, rest = " ".join(words[at : at + 1]), words[at + 1 :]
    operands = [word for word in rest if not word.startswith("-")]
    if verb == "config" and len(operands) > 1 and _GIT_RUNS.match(operands[-2]) and _is_line(operands[-1]):
        yield operands[-1].lstrip("!")
    if verb == "bisect" and operands[:1] == ["run"]:
        yield _quoted(rest[rest.index("run") + 1 :])
    if verb == "submodule" and "foreach" in operands:
        line = [
            word for word in rest[rest.index("foreach") + 1 :] if word not in ("--recursive", "--quiet", "-q", "--")
        ]
        yield line[0] if len(line) == 1 else _quoted(line)
    options = _GIT_OPTIONS.get(verb, ())
    for place, word in enumerate(rest):
        for option in options:
            if word == option:
                yield " ".join(rest[place + 1 : place + 2])
            elif word.startswith(option + "=") or (option[1] != "-" and word.startswith(option)):
                yield word[len(option) :].lstrip("=")


def _quoted(words: Sequence[str]) -> str:
    """Words as one line; what is not known stays so."""
    import shlex

    return " ".join(word if UNKNOWN in word else shlex.quote(word) for word in words)


_REMOTE_PROGRAMS: Final = ("--upload-pack", "--receive-pack", "--exec")
_GIT_OPTIONS: Final[dict[str, tuple[str, ...]]] = {
    "rebase": ("-x", "--exec"),
    "difftool": ("-x", "--extcmd"),
    "grep": ("-O", "--open-files-in-pager"),
    "filter-branch": (
        "--setup",
        *(f"--{each}-filter" for each in ("tree", "index", "msg", "env", "parent", "commit", "tag-name")),
    ),
} | dict.fromkeys(
    ("fetch", "pull", "push", "clone", "ls-remote", "archive", "fetch-pack", "send-pack"), _REMOTE_PROGRAMS
)
"""Options of git whose value is a command."""


def transparent(words: tuple[str, ...]) -> bool:
    """Whether the wrapper adds nothing to what it runs. `time` does with any option but `-p`: `-o` writes a file."""
    if words[0] != "time":
        return words[0] in TRANSPARENT
    options = itertools.takewhile(lambda word: word.startswith("-"), words[1:])
    return all(word in ("-p", "--") for word in options)


def _text(text: str) -> InnerCommands:
    return InnerCommands(texts=[text] if text.strip() else [])


def _wrapped(command: ScriptCommand, name: str, wrapper: Wrapper) -> InnerCommands:
    words = command.words
    found = InnerCommands()
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
                return InnerCommands(texts=[f"env {text}"], complete="\\" not in text and "$" not in text)
            if name == "command" and option in ("-v", "-V", "-vp", "-pv"):
                return InnerCommands()
            if name == "flock" and option in ("-c", "--command"):
                return _text(" ".join(words[at + 1 : at + 2]))
            if name in ("sudo", "doas") and option in ("-s", "-i", "--shell", "--login"):
                rest = words[at + 1 :]
                if not rest and (command.piped or command.redirects):
                    return _from_stdin(command)
                return InnerCommands(
                    [_like(command, rest, assignments)] if rest else [], [" ".join(rest)] if rest else []
                )
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
                found.texts += inner[1:-1] if inner[0] == ":::" else [" ".join(inner)]
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


def _like(command: ScriptCommand, words: tuple[str, ...], assignments: list[str]) -> ScriptCommand:
    """A command run by `command`: it reads what that one would have read."""
    return ScriptCommand(words, (*command.assignments, *assignments), command.redirects, command.piped, command.feeder)


def _found(command: ScriptCommand) -> InnerCommands:
    found = InnerCommands()
    inner: list[str] | None = None
    before = "-"  # an unknown word is believed to be the first folder, or the value of a test
    for word in command.words[1:]:
        if inner is not None and word in (";", "+"):
            found.commands.append(ScriptCommand(tuple(inner)))
            inner = None
        elif inner is not None:
            inner.append(word.replace("{}", UNKNOWN))
        elif word in _EXECUTES or word in ("-x", "-X", "--exec", "--exec-batch"):
            inner = []
        elif word.startswith(("--exec=", "--exec-batch=")):
            inner = [word.partition("=")[2]]
        elif word == ";" or (UNKNOWN in word and (word[0] == "-" or before[:1] != "-")):
            found.complete = False
        before = word
    if inner:
        found.commands.append(ScriptCommand(tuple(inner)))
    if posixpath.basename(command.words[0]) != "find":  # fd puts what it finds at the end
        each = (one.words for one in found.commands)
        ended = [words if any(UNKNOWN in word for word in words) else (*words, UNKNOWN) for words in each]
        found.commands = [ScriptCommand(words) for words in ended]
    return found


def _option_c(command: ScriptCommand, name: str) -> InnerCommands:
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
    return InnerCommands(complete=not (command.piped or _stdin(command) or UNKNOWN in "".join(words) or name == "sg"))


def _shell(command: ScriptCommand) -> InnerCommands:
    words = command.words
    at, runs_text, reads = 1, False, False
    while at < len(words) and words[at][:1] in ("-", "+") and words[at] != "-":
        word = words[at]
        at += 1
        if word == "--":
            break
        if word in ("--version", "--help"):
            return InnerCommands()
        if word.startswith("--"):
            at += word in _SHELL_VALUED
            if word.startswith("--command"):  # fish
                return _text(word.partition("=")[2] or " ".join(words[at : at + 1]))
            continue
        letters = word[1:]
        if UNKNOWN in word or set(letters[:-1]) & set("oO"):  # `-oc pipefail ...`
            return InnerCommands(complete=False)
        runs_text = runs_text or (word[0] == "-" and "c" in letters)
        reads = reads or "s" in letters
        at += letters[-1:] in ("o", "O")
    operand = words[at] if at < len(words) else None
    if any(UNKNOWN in word for word in words[1:at]) or {"-C", "--init-command"} & set(words[1:at]):
        return InnerCommands(complete=False)
    if runs_text:
        return _text(operand or "")
    if reads or operand is None or operand in _STDIN:
        return _from_stdin(command)
    # a file it will read is left as it is, except one that a command writes while it reads
    return InnerCommands(complete=UNKNOWN not in operand and not _descriptor(operand))


def _descriptor(path: str) -> bool:
    """Whether a path names what a descriptor reads, and no file."""
    return path in _STDIN or path.startswith("/dev/fd/") or (path.startswith("/proc/") and "/fd/" in path)


def _from_stdin(command: ScriptCommand) -> InnerCommands:
    """The text a shell reads from its standard input, if the line itself says it."""
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
