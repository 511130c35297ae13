"""What is known about the words of programs: their options, and which of the words are run, read or written.

Two tables name the programs that run others: `INTERPRETERS` run a script or code, `WRAPPERS` run a command.
"""

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from billhook.effects.effect import UNKNOWN

if TYPE_CHECKING:
    from billhook.effects.shell import SimpleCommand


class Options:
    """A command's words told apart: its options with their values, and its operands."""

    __slots__ = ("names", "operands", "options")

    def __init__(self, words: Sequence[str], valued: frozenset[str] = frozenset()) -> None:
        self.options: list[tuple[str, str]] = []  # ("-r", ""), ("--out", "x"); letters one by one
        self.operands: list[str] = []
        rest = iter(words)
        for word in rest:
            if word == "--":
                self.operands += rest
            elif word.startswith("--") or (word in valued and len(word) > 1):
                name, equals, value = word.partition("=")
                if f"{name}:2" in valued:  # it takes two words: `jq --arg NAME VALUE`
                    value = f"{next(rest, '')} {next(rest, '')}"
                elif not equals and name in valued:
                    value = next(rest, "")
                self.options.append((name, value))
            elif word.startswith("-") and len(word) > 1:
                self._letters(word, valued, rest)
            else:
                self.operands.append(word)
        self.names = {name for name, value in self.options if value != "false"}

    def _letters(self, word: str, valued: frozenset[str], rest: Iterator[str]) -> None:
        name, equals, value = word.partition("=")
        if equals:  # `-auto-approve=true`
            self.options.append((name, value))
        self.options.append((word, ""))  # `-delete`: a long option of programs that use one dash
        for letter in dict.fromkeys(word[1:]):  # each once: a word may be very long
            if f"-{letter}" in valued:
                self.options.append((f"-{letter}", word[word.index(letter, 1) + 1 :] or next(rest, "")))
                return
            self.options.append((f"-{letter}", ""))

    def has(self, *names: str) -> bool:
        """Whether an option was given; a long one may be cut short, as GNU programs accept it."""
        return not self.names.isdisjoint(names) or any(
            len(option) > 4 and option[:2] == "--" and any(name.startswith(option) for name in names)
            for option in self.names - _WHOLE
        )

    def values(self, *names: str) -> list[str]:
        return [value for option, value in self.options if option in names and value]


_WHOLE: Final = frozenset({"--force", "--delete", "--prune", "--list", "--recursive", "--no-verify", "--all"})
"""Options that are whole although others begin with them: `--force` is not `--force-create`."""


class Wrapper(msgspec.Struct, frozen=True):
    """How to find what a wrapper or an interpreter runs among its words."""

    valued: str = ""  # short options that take a value, attached or as the next word
    long: str = ""  # long options that take a value as the next word, separated by blanks; `bind:2` takes two
    operands: int = 0  # how many words come before the command: the duration of `timeout`
    ends: str = ""  # options that are followed by something other than a command: `env -S`, `flock -c`, `python -c`
    later: str = ""  # options with which code follows after all options: `sh -c -x CODE`, `sudo -s -u me CODE`
    detached: bool = False  # values are never attached to a letter, and options may begin with `+`: shells
    flags: str = ""  # long options that take no value, where all others do
    optional: bool = False  # one more word may come before the command
    assignments: bool = False  # `A=1` may come before the command
    fed: bool = False  # further arguments come from elsewhere
    joined: bool = False  # the words are joined and given to a shell


SHELLS: Final = frozenset(
    {"sh", "bash", "zsh", "dash", "ksh", "mksh", "ash", "fish", "rbash", "yash", "posh", "csh", "tcsh"}
) | {"nu", "elvish", "xonsh"}
_SHELL: Final = Wrapper("oO", "rcfile init-file init-command", ends="--command", later="-c", detached=True)
INTERPRETERS: Final[dict[str, Wrapper]] = {
    **dict.fromkeys(SHELLS, _SHELL),
    "python": Wrapper("WX", ends="-c -m"),
    "node": Wrapper("rC", "require import loader conditions", ends="-e --eval --print", later="-p"),
    "ruby": Wrapper("IrCE", ends="-e"),
    "perl": Wrapper("IM", ends="-e -E"),
    "php": Wrapper("dc", ends="-r"),
    **dict.fromkeys(("lua", "luajit", "Rscript", "R", "osascript", "julia", "groovy"), Wrapper("l", ends="-e")),
    **dict.fromkeys(("elixir", "iex"), Wrapper("rS", "require", ends="-e --eval")),
    **dict.fromkeys(("pwsh", "powershell", "cmd"), Wrapper(ends="-c -C")),
    **dict.fromkeys(("tsx", "ts-node"), Wrapper("rCPO", "require project", ends="-e --eval --print", later="-p")),
    **dict.fromkeys(("tclsh", ".", "source"), Wrapper()),
}
"""Programs that run a script, or the text behind an option."""
ALSO_INTERPRET: Final[dict[str, Wrapper]] = {
    "emacs": Wrapper("lf", "load funcall", ends="--eval"),
    **dict.fromkeys(("bun", "deno"), Wrapper("r", ends="-e --eval --print", later="-p")),
}
"""Programs that run code among other things: the first operand of most of their calls is no script."""
PYTHON = re.compile(r"(?:python|pypy)[0-9.]*w?(?:\.exe)?")

_PLAIN: Final = """
nohup spawn builtin setsid unbuffer linux32 linux64 busybox toybox firejail entr chronic catchsegv shx ts tini dumb-init
"""
_LOADERS: Final = "ld-linux-x86-64.so.2 ld-linux.so.2 ld-linux-aarch64.so.1 ld-musl-x86_64.so.1 ld-musl-aarch64.so.1"
WRAPPERS: Final[dict[str, Wrapper]] = {
    **dict.fromkeys(_PLAIN.split(), Wrapper()),
    "sudo": Wrapper(
        valued="CDghpRrTtUu",
        long="user group host prompt chdir chroot role type other-user command-timeout close-from",
        later="-s -i --shell --login",
        assignments=True,
    ),
    "doas": Wrapper("Cu", later="-s"),
    "env": Wrapper("uCaP", "unset chdir argv0", ends="-S --split-string", assignments=True),
    "timeout": Wrapper("ks", "kill-after signal", 1),
    "nice": Wrapper("n", "adjustment"),
    "ionice": Wrapper("cnpPu", "class classdata pid pgid uid"),
    "chrt": Wrapper("pTPD", "sched-runtime sched-period sched-deadline", 1),
    "taskset": Wrapper(operands=1),
    "time": Wrapper("fo", "format output", assignments=True),
    "command": Wrapper(ends="-v -V"),
    "exec": Wrapper("a"),
    "stdbuf": Wrapper("ioe", "input output error"),
    "strace": Wrapper("abeEIoOpPsSuUX", "attach trace expr output user env string-limit"),
    "flock": Wrapper("wE", "timeout wait conflict-exit-code", 1, ends="-c --command"),
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
    "systemd-run": Wrapper("pEuHMt", "property setenv unit host machine slice description service-type uid gid nice"),
    "systemd-inhibit": Wrapper("", "what who why mode"),
    "pkexec": Wrapper("", "user"),
    "fakeroot": Wrapper("lfisb", "lib faked"),
    "caffeinate": Wrapper("tw"),
    "ltrace": Wrapper("aADeFlnopsuwxX", "align config debug indent output user where library"),
    "watch": Wrapper("nq", "interval equexit", joined=True),
    "dtach": Wrapper("aAcnNepr"),
    "abduco": Wrapper("acnAe"),
    "sshpass": Wrapper("pfdP"),
    "rlwrap": Wrapper("bCdfgHilmpPqst"),
    "dbus-run-session": Wrapper("", "config-file dbus-daemon"),
    "bwrap": Wrapper(
        "",
        "bind:2 ro-bind:2 dev-bind:2 bind-try:2 ro-bind-try:2 dev-bind-try:2 symlink:2 setenv:2 file:2 bind-data:2 "
        "ro-bind-data:2 chmod:2 dev proc tmpfs mqueue dir chdir unsetenv hostname uid gid lock-file sync-fd args "
        "seccomp perms size cap-add cap-drop argv0 info-fd exec-label file-label",
    ),
    "numactl": Wrapper("NmiCpP", "cpunodebind membind interleave physcpubind preferred"),
    "valgrind": Wrapper("", "tool log-file suppressions"),
    "perf": Wrapper("eoFcpCtuID", "event output pid cpu delay", 1),
    "cross-env": Wrapper(assignments=True),
    "cross-env-shell": Wrapper(assignments=True, joined=True),
    "env-cmd": Wrapper("fre", "file rc-file environments"),
    "systemd-nspawn": Wrapper("DMiupEU", "directory machine image user bind bind-ro setenv property chdir"),
    "cgexec": Wrapper("g"),
    "chpst": Wrapper("uUbe/CnlLmdopfcrt"),
    **dict.fromkeys(("proxychains", "proxychains4"), Wrapper("f")),
    **dict.fromkeys(("torsocks", "torify"), Wrapper("uaP", "user pass address port")),
    "xvfb-run": Wrapper("efnps", "error-file auth-file server-num server-args xauth-protocol wait"),
    "arch": Wrapper("e", optional=True),
    "xcrun": Wrapper("", "sdk toolchain"),
    "sem": Wrapper("j", "jobs id timeout", joined=True),
    **dict.fromkeys(("gosu", "su-exec", "s6-setuidgid", "setuidgid", "envdir"), Wrapper(operands=1)),
    **dict.fromkeys(_LOADERS.split(), Wrapper("", "library-path preload argv0 audit")),
    "wsl": Wrapper("du", "distribution user cd shell-type exec"),
    "proot": Wrapper("rbwq", "rootfs bind cwd"),
    "faketime": Wrapper(operands=1),
    "flatpak-spawn": Wrapper("", "env directory"),
    "tsp": Wrapper("DLNO"),
    "watchexec": Wrapper("wefiso", "watch exts filter ignore signal on-busy-update"),
    "direnv": Wrapper(operands=2),
    "xargs": Wrapper("adEILnPsJRS", "arg-file delimiter max-args max-procs max-chars process-slot-var", fed=True),
    "parallel": Wrapper(
        "aIjnNLdSC", "jobs arg-file max-args delimiter colsep joblog results sshlogin workdir tmpdir timeout", fed=True
    ),
}

TRANSPARENT: Final = frozenset({"timeout", "nice", "ionice", "nohup", "time", "stdbuf", "command", "builtin"})
"""Wrappers that add nothing to what they run: an allow rule need not name them."""
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")


class Prefix:
    """The words of a wrapper before what it runs, read one by one; that begins `at` a word."""

    def __init__(self, words: tuple[str, ...], wrapper: Wrapper) -> None:
        self.words, self.wrapper, self.name = words, wrapper, program(words)
        self.at, self.operands = 1, wrapper.operands
        self.assignments: list[str] = []
        self.ending = ""  # the option that is followed by something other than a command
        self.value = ""  # of that option
        self.doubtful = False  # an option is not known: it may take the next word
        self.ended = False
        while self.at < len(words) and not self.ended:
            self._take(words[self.at])

    def _take(self, word: str) -> None:
        if word == "--" or (word == "-" and self.name == "env"):
            self.at += 1
            self.ended = not self.wrapper.assignments and not self.operands
        elif (word.startswith("-") and len(word) > 1) or (word.startswith("+") and self.wrapper.detached):
            self.at += 1
            self._take_long(word) if word.startswith("--") else self._take_letters(word)
        elif self.wrapper.assignments and self._assigns(word):
            self.at += 1
            self.assignments.append(word)
        elif self.operands:
            self.at += 1
            self.operands -= 1
        else:
            self.ended = True

    def _take_letters(self, word: str) -> None:
        ends, later = self.wrapper.ends.split(), self.wrapper.later.split()
        for letter in dict.fromkeys(word[1:]):
            option, attached = word[0] + letter, word[word.index(letter, 1) + 1 :]
            if option in ends:
                self._end(option, attached)
                return
            if option in later:
                self.ending = option
            if letter in self.wrapper.valued and not self.wrapper.detached:
                self.at += not attached
                return
            self.at += word.count(letter) if letter in self.wrapper.valued else 0
        self.doubtful = self.doubtful or UNKNOWN in word

    def _take_long(self, word: str) -> None:
        name, equals, value = word[2:].partition("=")
        if f"--{name}" in self.wrapper.ends.split():
            self._end(f"--{name}", value)
        elif f"--{name}" in self.wrapper.later.split():
            self.ending = f"--{name}"
        elif self.wrapper.flags:
            self.at += not equals and name not in self.wrapper.flags.split()
        elif not equals:
            takes = any(long.startswith(name) for long in self.wrapper.long.split())  # it may be cut short
            self.at += takes + (f"{name}:2" in self.wrapper.long.split())
            self.doubtful = self.doubtful or not takes

    def _end(self, option: str, attached: str) -> None:
        self.ending, self.ended = option, True
        self.value = attached or " ".join(self.words[self.at : self.at + 1])

    def _assigns(self, word: str) -> bool:
        """Whether a word is an assignment; to `env` and `sudo` whatever has a `=` is, as `a-b=1`."""
        if self.name == "time":
            return _ASSIGNMENT.match(word) is not None
        return "=" in word and not (self.name == "sudo" and word.startswith("/"))

    @property
    def rest(self) -> tuple[str, ...]:
        """The words behind: the command that a wrapper runs."""
        return self.words[self.at :]

    @property
    def known(self) -> bool:
        """Whether all of its words are; the value of a variable doesn't matter."""
        return not any(UNKNOWN in word and not _ASSIGNMENT.match(word) for word in self.words[1 : self.at])


def operand(words: tuple[str, ...], interpreter: Wrapper) -> tuple[str, str | None, str]:
    """The script among an interpreter's words, or the code given in its place, or the module."""
    own = Prefix(("", *words), interpreter)
    if own.ending and own.ending not in interpreter.later.split():
        return ("", None, own.value) if own.ending == "-m" else ("", own.value, "")
    first = " ".join(own.rest[:1])
    if own.ending:
        return "", first, ""
    return first if first != "-" else "", None, ""


_RUNNER: Final = Wrapper(
    "pc",
    "with with-requirements with-editable python project directory env-file extra group index package config "
    "import-map from cwd",
    ends="-m --module",
)
_RUNNERS_WORDS: Final = """
uv run, uvx, poetry run, pipenv run, pdm run, hatch run, rye run, pipx run, deno run, bun run, bun, bunx, npx, npm exec,
npm x, pnpm exec, pnpm dlx, pnpx, yarn exec, yarn dlx, bundle exec, mise exec, mise x, asdf exec, doppler run, op run,
infisical run, teller run, dotenv run
"""
_NIX: Final = "file override-input profile option inputs-from max-jobs cores log-format"
RUNNERS: Final[dict[tuple[str, ...], Wrapper]] = {
    **{tuple(runner.split()): _RUNNER for runner in _RUNNERS_WORDS.split(",")},
    **{(name, "run"): Wrapper("np", "name prefix cwd") for name in ("conda", "mamba", "micromamba")},
    **{
        (name, "exec"): Wrapper("dn", "duration region", 1) for name in ("aws-vault", "chamber", "saml2aws", "envchain")
    },
    **{("nix", verb): Wrapper("f", _NIX, 8, ends="-c --command") for verb in ("develop", "shell")},
    ("dotenv",): Wrapper("efvp", "file export"),
    ("heroku", "run"): Wrapper("ars", "app remote size"),
    ("railway", "run"): Wrapper("esp", "environment service project"),
}
"""Programs that run a command, or a file of the project, in a separate environment."""
_RUNNER_NAMES: Final = frozenset(name for name, *_ in RUNNERS)
_INSTALLED_WORDS: Final = """
prisma drizzle-kit typeorm sequelize sequelize-cli knex mikro-orm supabase wrangler vercel netlify firebase sst cdk
cdktf serverless sls amplify rimraf shx cross-env dotenv tsx ts-node lerna changeset semantic-release release-it np
"""
INSTALLED: Final = frozenset(_INSTALLED_WORDS.split())
"""Programs that a project installs for itself, and that its package manager runs by their names: `pnpm prisma ...`."""


def run_by(words: tuple[str, ...]) -> tuple[str, ...]:
    """What `uv run ...` and its like run; nothing for other commands. `-m` and a module for Python's."""
    name = program(words)
    if name not in _RUNNER_NAMES:
        return ()
    own = next((n for n in (2, 1) if (name, *words[1:n]) in RUNNERS and len(words) > n), 0)
    if not own:
        rest = Prefix(words, Wrapper("CFw", "filter dir cwd workspace")).rest
        return rest if rest[:1] and rest[0] in INSTALLED else ()
    prefix = Prefix(words[own - 1 :], RUNNERS[name, *words[1:own]])
    return ("-m", *prefix.rest) if prefix.ending in ("-m", "--module") else prefix.rest


# files that a command reads, writes or runs

SUFFIXES: Final = (".sh", ".bash", ".zsh", ".py", ".pyw", ".js", ".mjs", ".cjs", ".ts", ".mts", ".rb", ".pl", ".php")
"""What the names of scripts end in."""
_WRITERS: Final = frozenset({"tee", "touch", "truncate", "rm", "rmdir", "unlink", "mv", "mkdir", "logger", "mktemp"})
_COPIERS: Final = frozenset({"cp", "install", "ln"})
DECLARES: Final = frozenset({"export", "local", "declare", "typeset", "readonly"})
_READ_NOTHING_WORDS: Final = """
echo printf [ test [[ : true false exit return kill type which cd pushd unset set shift trap read ls chmod
"""
_READ_NOTHING: Final = DECLARES.union(_READ_NOTHING_WORDS.split())
READS_PROGRAM: Final = frozenset({"awk", "gawk", "mawk", "sed", "jq", "make"})
"""Programs whose commands are in the file after `-f`."""
RUNS_PROJECT: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(("make", "gmake"), ("Makefile", "makefile", "GNUmakefile")),
    "just": ("justfile", "Justfile", ".justfile"),
    "task": ("Taskfile.yml", "Taskfile.yaml"),
    "rake": ("Rakefile",),
    **dict.fromkeys(("npm", "npx", "pnpm", "yarn", "bun", "bunx"), ("package.json",)),
    "deno": ("deno.json", "deno.jsonc"),
    "composer": ("composer.json",),
    "nox": ("noxfile.py",),
    "tox": ("tox.ini",),
    "pre-commit": (".pre-commit-config.yaml",),
    "direnv": (".envrc",),
    **dict.fromkeys(("docker-compose", "podman-compose"), ("compose.yaml", "docker-compose.yml")),
    **dict.fromkeys(("pytest", "jest", "vitest", "cargo", "go", "gradle", "mvn", "dotnet", "mix", "rspec"), ()),
    **dict.fromkeys(("docker", "podman"), ()),
}
"""Programs that run code of the project by themselves, and the files of the project in which that is written."""
_LOADS_WORDS: Final = """
BASH_ENV ENV ZDOTDIR PYTHONSTARTUP PYTHONHOME PYTHONUSERBASE NODE_OPTIONS NODE_PATH RUBYOPT RUBYLIB PERL5LIB PERLLIB
PERL5OPT LUA_PATH LUA_INIT CLASSPATH JAVA_TOOL_OPTIONS LD_PRELOAD LD_LIBRARY_PATH DYLD_INSERT_LIBRARIES PATH
GIT_CONFIG_GLOBAL GIT_EXEC_PATH GIT_SSH_COMMAND
"""
LOADS: Final = frozenset(_LOADS_WORDS.split())
"""Variables that tell programs which files to load or run, or where to look for them."""
_GIVE: Final = frozenset({"cat", "tac", "head", "tail", "sort", "ls", "find", "fd", "run-parts", "parallel", "xargs"})
_PRINT: Final = frozenset({"echo", "printf"})
_HELP: Final = frozenset({"--version", "-V", "-v", "--help", "-h"})
_FIND: Final = frozenset({"-H", "-L", "-P"})


def program(words: tuple[str, ...]) -> str:
    """The command word without its folder, and without the ending that Windows adds."""
    name = words[0].rpartition("/")[2].removesuffix(".exe") if words else ""
    return "node" if name == "nodejs" else name


def variable_words(command: "SimpleCommand") -> tuple[str, ...]:
    """The words that may set variables: `X=1`, and the arguments of `export` and similar builtins."""
    return (*command.assignments, *command.words[1:]) if program(command.words) in DECLARES else command.assignments


def runs_what_it_is_given(command: "SimpleCommand") -> bool:
    """Whether a command runs a file or code that is unknown before it runs: `xargs sh`, `... | sh`, `"$f"`."""
    name = program(command.words)
    if not command.words or UNKNOWN in command.words[0] or name in ("run-parts", "parallel"):
        return bool(command.words)
    if name == "eval":
        return any(UNKNOWN in word for word in command.words)
    interpreter = "python" if PYTHON.fullmatch(name) else name
    if interpreter not in INTERPRETERS:
        return False
    if any(redirect.operator.startswith("<") for redirect in command.redirects) or _HELP.intersection(command.words):
        return False
    script, code, module = operand(command.words[1:], INTERPRETERS[interpreter])
    if code is not None or module:
        return UNKNOWN in (code or "")
    return not script or UNKNOWN in script


def given_words(words: tuple[str, ...]) -> Iterator[str]:
    """The words that name what a command hands on to others: its contents, or its name."""
    name = program(words)
    if name in _PRINT:
        yield from (word for word in words[1:] if set(word) & set("*?["))
    elif name == "find":
        yield from itertools.takewhile(lambda word: word[:1] not in "-(!", (w for w in words[1:] if w not in _FIND))
    elif name in _GIVE:
        yield from (word for word in words[1:] if not word.startswith("-"))


def read_words(words: tuple[str, ...]) -> Iterator[str]:
    """The words that may name a file that the command reads; the words of a wrapped command are separate."""
    name = program(words)
    if name in _READ_NOTHING or name in WRAPPERS:
        return
    written = set(written_words(words))
    for word in words[1:]:
        if word in written:
            continue
        yield word
        if word.startswith("-"):
            yield word.partition("=")[2]
            yield word[2:]
        elif word.startswith(("@", "if=")):  # curl's and dd's ways
            yield word.removeprefix("@").removeprefix("if=")


def written_words(words: tuple[str, ...]) -> tuple[str, ...]:
    """The words that name what the command writes, moves or removes."""
    name = program(words)
    if name in _COPIERS:
        return words[-1:]
    edits = name == "sed" and any(word.startswith(("-i", "--in-place")) for word in words)
    return words[1:] if name in _WRITERS or edits else ()


def language_of(name: str) -> str:
    """The language of an interpreter, as far as we read it."""
    if PYTHON.fullmatch(name):
        return "python"
    return "shell" if name in SHELLS or name in (".", "source") else ""


def kind(path: str, shebang: str, told: str) -> str:
    """`python`, `shell` or something else: as told, by its name or by its first line.

    Told that it is a `program`: without another sign, the shell itself runs it.
    """
    if told in ("python", "shell", "module", "none"):
        return told
    if path.endswith((".py", ".pyw")):
        return "python"
    if path.endswith((".sh", ".bash", ".zsh")):
        return "shell"
    if not shebang:
        return "shell" if told == "program" else ""
    names = [word.rpartition("/")[2] for word in shebang.removeprefix("#!").split()]
    if "uv" in names:
        return "python"
    return next((language for language in map(language_of, names) if language), "")
