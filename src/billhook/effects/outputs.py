"""What a command prints, as far as the line shows it: texts, lists of files as patterns, and where it comes from."""

import itertools
import posixpath
from collections.abc import Iterator, Sequence
from typing import Final

from billhook.effects import values
from billhook.effects.effect import UNKNOWN
from billhook.effects.places import World, absolute
from billhook.effects.secret_files import is_secret_file
from billhook.effects.values import NOTHING, Value

_FILTERS = """
awk base64 bat batcat cat column cut expand fold gawk grep egrep fgrep gunzip gzip head hexdump iconv jq less more nl od
openssl paste pr rev rg sed sort strings tac tail tee tr uniq xxd yq zcat zstd
"""
FILTERS: Final = frozenset(_FILTERS.split())
"""Programs that print what they read, more or less."""
TEMPORARY: Final = "/tmp/billhook-mktemp"  # stands for what `mktemp` makes
DOWNLOADS: Final = frozenset(
    {"curl", "wget", "fetch", "http", "https", "xh", "aria2c", "lwp-request", "GET", "nc", "ncat"}
)
_INTERPRETERS: Final = frozenset(
    {"python", "python3", "node", "perl", "ruby", "php", "awk", "gawk", "lua", "deno", "bun"}
)
PACKERS: Final = frozenset({"tar", "zip", "7z", "gpg"})
_SELECT: Final = frozenset({"grep", "egrep", "fgrep", "sort", "uniq", "head", "tail", "tac"})
_SILENT: Final = frozenset({"-q", "-c", "-l", "-L", "--quiet", "--silent", "--count", "--files-with-matches"})
_SECRETS: Final[tuple[tuple[str, str], ...]] = (
    ("gpg", "--export-secret-keys --export-secret-key --export-secret-subkeys"),
    ("gcloud auth print-access-token", ""), ("gcloud auth print-identity-token", ""),
    ("gcloud secrets versions access", ""), ("security find-generic-password", "-w -g"),
    ("security find-internet-password", "-w -g"), ("security dump-keychain", ""), ("pass show", ""), ("op read", ""),
    ("op item get", "--reveal --fields"), ("kubectl get secret", "-o --output -oyaml -ojson"),
    ("kubectl get secrets", "-o --output -oyaml -ojson"),
    ("aws configure get", "aws_secret_access_key aws_session_token aws_access_key_id"),
    ("aws secretsmanager get-secret-value", ""), ("aws ssm get-parameter", "--with-decryption"),
    ("aws ssm get-parameters", "--with-decryption"), ("aws ssm get-parameters-by-path", "--with-decryption"),
    ("az keyvault secret show", ""), ("az account get-access-token", ""), ("vault kv get", ""), ("vault read", ""),
    ("gh auth token", ""), ("gh auth status", "-t --show-token"), ("heroku auth:token", ""), ("heroku config", ""),
    ("heroku config:get", ""), ("doppler secrets", ""), ("bw get", "password item"), ("secret-tool lookup", ""),
    ("docker exec", "env printenv"),
)  # fmt: skip
"""Commands that print secrets: their first words, and words of which one must be there as well."""
_SETTINGS: Final = frozenset(
    {
        "init",
        "hook",
        "env",
        "shellenv",
        "completion",
        "completions",
        "docker-env",
        "shell.bash",
        "shell.zsh",
        "activate",
    }
)
"""`direnv hook bash`, `brew shellenv`: subcommands that print settings for a shell."""


def _by_program() -> dict[str, list[tuple[tuple[str, ...], frozenset[str]]]]:
    found: dict[str, list[tuple[tuple[str, ...], frozenset[str]]]] = {}
    for first, needed in _SECRETS:
        begin = tuple(first.split())
        found.setdefault(begin[0], []).append((begin, frozenset(needed.split())))
    return found


_SECRETS_OF: Final = _by_program()


def prints_input(words: Sequence[str]) -> bool:
    """Whether a command of a pipeline passes on what it reads, so that a reader of the line's output sees it."""
    name = posixpath.basename(words[0]) if words else ""
    return name in FILTERS and not (name in ("grep", "egrep", "fgrep", "rg") and _SILENT.intersection(words[1:]))


def prints_secret(words: Sequence[str]) -> bool:
    """Whether a command prints what a password store, a key ring or a cloud keeps secret."""
    for begin, needed in _SECRETS_OF.get(words[0], ()):
        if tuple(words[: len(begin)]) == begin and (not needed or not needed.isdisjoint(words)):
            return True
    return False


def output(words: tuple[str, ...], stdin: Value, cwd: str, world: World) -> Value:
    """What a command prints. UNKNOWN where the line doesn't show it."""
    name = words[0]
    if name == "echo":
        return Value(values.echo(words[1:]))
    if name == "printf":
        return Value(values.printf(words[1:]))
    if name in ("basename", "dirname", "realpath", "readlink"):
        path = values.path_program(words)
        return Value(path or UNKNOWN)
    simple = _simple(words, cwd, world)
    if simple is not None:
        return Value(simple)
    if listing := " ".join(listed(words)):
        return Value(listing)
    if name in DOWNLOADS and len(words) > 1:
        return Value(UNKNOWN, frozenset({"remote"}))
    return _filtered(words, stdin, cwd, world)


def _simple(words: Sequence[str], cwd: str, world: World) -> str | None:
    name = words[0]
    if name == "pwd":
        return cwd
    if name == "mktemp":
        return TEMPORARY
    if name == "whoami" or tuple(words) == ("id", "-un"):
        return posixpath.basename(world.home)
    if tuple(words[:3]) == ("git", "rev-parse", "--show-toplevel"):
        return world.roots[0] if world.roots else cwd
    if name in ("which", "type", "command") and len(words) > 1 and not words[-1].startswith("-"):
        return words[-1]
    if name == "seq" and all(word.isdigit() and len(word) < 6 for word in words[1:]) and 1 < len(words) <= 3:
        first, last = (int(words[1]), int(words[2])) if len(words) == 3 else (1, int(words[1]))
        return "\n".join(map(str, range(first, last + 1)[: values.MOST_FIELDS]))
    if _SETTINGS.intersection(words[1:3]) or name in ("ssh-agent", "dircolors", "resize", "tset"):
        return ""  # settings for the shell that evaluates them
    if name in (":", "true", "false", "mkdir", "rm", "cd", "test", "[", "sleep", "touch", "chmod"):
        return ""
    return None


def _filtered(words: tuple[str, ...], stdin: Value, cwd: str, world: World) -> Value:
    """A filter, a decoder, or a program that nothing is known of."""
    name = words[0]
    files = _files(words) if name in FILTERS else []
    if files:
        return _of_files(words, files, cwd, world)
    if name in PACKERS and any(
        is_secret_file(f"{absolute(word, cwd, world)}{end}") for word in words[1:] for end in ("", "/_", "/credentials")
    ):
        return Value(UNKNOWN, frozenset({"secret"}))
    if prints_secret(words):
        return Value(UNKNOWN, frozenset({"secret"}))
    if name in ("env", "printenv") or (len(words) == 1 and name in ("set", "export")):
        return Value(UNKNOWN, frozenset({"environment"}))
    if stdin.known and stdin.text:
        text = values.decoded(words, stdin.text)
        if text is not None:
            return Value(text, stdin.origins | ({"decoded"} if _decodes(words) else NOTHING))
    if stdin.known and name in _SELECT:
        return stdin  # some of its lines
    if not prints_input(words):
        computed = {"computed"} if name in _INTERPRETERS or name in ("eval", "sh", "bash") else set[str]()
        return Value(UNKNOWN, frozenset(computed | (stdin.origins & {"remote", "decoded"})))
    return Value(UNKNOWN, stdin.origins | (frozenset({"decoded"}) if _decodes(words) else NOTHING))


def _decodes(words: Sequence[str]) -> bool:
    letters = {letter for word in words[1:] if word[:1] == "-" and word[1:2] != "-" for letter in word[1:]}
    if words[0] in ("gunzip", "zcat"):
        return True
    return words[0] in ("base64", "openssl", "xxd", "gzip", "zstd") and bool({"d", "D", "r"} & letters)


def _files(words: Sequence[str]) -> list[str]:
    """The files that a filter reads: its operands, without the pattern or program that comes first."""
    operands = [word for word in words[1:] if not word.startswith("-")]
    first = words[0] in ("grep", "egrep", "fgrep", "rg", "sed", "awk", "gawk", "jq", "yq", "tr", "openssl")
    given = first and not any(word in ("-e", "-f", "--expression", "--file") for word in words)
    if words[0] in ("head", "tail", "cut", "sort", "fold", "column", "tee", "tr", "openssl"):
        operands = [word for word in operands if "/" in word or "." in word] if words[0] not in ("tee", "tr") else []
    return operands[1:] if given else operands


def _of_files(words: Sequence[str], files: list[str], cwd: str, world: World) -> Value:
    paths = [absolute(file, cwd, world) for file in files]
    secret = {"secret"} if any(map(is_secret_file, paths)) else set[str]()
    decoded = {"decoded"} if _decodes(words) else set[str]()
    plain = words[0] in ("cat", "tac", "head", "tail")
    packed = "file" if plain and len(paths) == 1 else "packed" if decoded else "lines"
    return Value(UNKNOWN, frozenset(secret | decoded | {f"{packed}:{path}" for path in paths[:4]}))


# programs that list files


def listed(words: Sequence[str]) -> Iterator[str]:
    """The files that a command lists, as patterns: `./**/*.pyc` for `find . -name '*.pyc'`."""
    name = words[0]
    if name == "find":
        starts, names = find_starts(words), find_names(words) or ("",)
        yield from (f"{start}/**/{each}".rstrip("/") for start in starts for each in names)
    elif name in ("fd", "fdfind"):
        yield from _fd(words)
    elif name == "ls":
        yield from _ls(words)
    elif name == "git" and tuple(words[1:2]) == ("ls-files",):
        named = [word for word in words[2:] if not word.startswith("-")]
        yield from (f"**/{each}" if "/" not in each else each for each in named or ["*"])
    elif name == "git" and tuple(words[1:2]) == ("grep",) and _lists_names(words):
        yield from _grep(words[1:])
    elif name in ("grep", "rg", "egrep", "ag") and _lists_names(words):
        yield from _grep(words)


def find_starts(words: Sequence[str]) -> list[str]:
    end = next((place for place, word in enumerate(words[1:], 1) if word[:1] in ("-", "(", "!")), len(words))
    options = [word for word in words[1:end] if word not in ("-H", "-L", "-P")]
    return options or ["."]


def find_names(tests: Sequence[str]) -> tuple[str, ...]:
    """The names that every branch of the expression asks for; none: one of them takes whatever there is."""
    branches: list[list[str]] = [[]]
    negated, before = False, ""
    for word in tests:
        if word in ("-o", "-or", ","):
            branches.append([])
        elif before in ("-name", "-iname", "-path", "-ipath", "-wholename") and not negated:
            path = word.rstrip("/*") if "path" in before or "whole" in before else word
            branches[-1].append(posixpath.basename(path) or "*")
        if word.startswith(("-exec", "-ok")):
            break
        negated = word in ("!", "-not") or (negated and word in ("-name", "-iname", "-path", "-ipath"))
        before = word
    return tuple(name for branch in branches for name in branch) if all(branches) else ()


_FD_VALUES: Final = frozenset(
    ["-t", "--type", "-d", "--max-depth", "-E", "--exclude", "-S", "--size", "-c", "--color", "-j", "--threads"]
)


def _fd(words: Sequence[str]) -> Iterator[str]:
    operands, ending = [], ""
    for before, word in itertools.pairwise(words):
        if word in ("-x", "-X", "--exec", "--exec-batch"):
            break
        if before in ("-e", "--extension"):
            ending = f".{word}"
        elif before not in _FD_VALUES and not word.startswith("-"):
            operands.append(word)
    pattern = f"*{operands[0]}*" if operands and operands[0] != "." else "*"
    for start in operands[1:] or ["."]:
        yield f"{start}/**/{pattern.rstrip('*') if ending else pattern}{'*' if ending else ''}{ending}".replace(
            "**.", "*."
        )


def _ls(words: Sequence[str]) -> Iterator[str]:
    operands = [word for word in words[1:] if not word.startswith("-")]
    flags = "".join(word[1:] for word in words[1:] if word.startswith("-") and not word.startswith("--"))
    yield from operands if "d" in flags else []
    if "d" not in flags:
        for operand in operands:
            yield operand if set(operand) & set("*?[") or "." in posixpath.basename(operand) else f"{operand}/*"
        if not operands:
            yield "*"
            if "a" in flags or "A" in flags:
                yield ".[!.]*"


def _lists_names(words: Sequence[str]) -> bool:
    letters = "".join(word[1:] for word in words[1:] if word[:1] == "-" and word[1:2] != "-")
    return "l" in letters or "L" in letters or "--files-with-matches" in words or "--files" in words


def _grep(words: Sequence[str]) -> Iterator[str]:
    operands = [word for word in words[1:] if not word.startswith("-")]
    starts = operands[1:] or ["."]
    names = [word.partition("=")[2] for word in words if word.startswith("--include=")] or [""]
    for start in starts:
        plain = "." in posixpath.basename(start.rstrip("/")) and start not in (".", "..", "./")
        yield from [start] if plain else [f"{start.rstrip('/')}/**/{name}".rstrip("/") for name in names]
