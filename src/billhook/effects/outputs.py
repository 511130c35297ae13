"""What a command prints, as far as the line shows it: texts, lists of files as patterns, and where it comes from."""

import base64
import binascii
import posixpath
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Final

from billhook.effects.effect import UNKNOWN, Command
from billhook.effects.families.reading import READS, ReaderSyntax, listed, only_names
from billhook.effects.programs import Options
from billhook.effects.run import EMPTY, LONGEST_VALUE, MOST_FIELDS, NOTHING, Run, Value
from billhook.effects.script import ansi_c
from billhook.effects.secret_files import is_secret_file
from billhook.effects.table import word_set

FILTERS: Final = READS.keys() - word_set("source . split cmp") | word_set("gunzip gzip sed tee uniq xxd zstd")
"""Programs that print what they read, more or less."""
TEMPORARY: Final = "/tmp/billhook-mktemp"  # the path that represents the file of `mktemp`
DOWNLOADS: Final = word_set("curl wget fetch http https xh aria2c lwp-request GET nc ncat iwr irm")
PACKERS: Final = frozenset({"tar", "zip", "7z", "gpg"})
_MOST_PACKED: Final = 32  # words that are looked at
_COMPUTE: Final = word_set("python python3 node perl ruby php awk gawk lua deno bun eval sh bash")
_GREPS: Final = frozenset({"grep", "egrep", "fgrep", "rg"})
_SELECT: Final = frozenset({"grep", "egrep", "fgrep", "sort", "uniq", "head", "tail", "tac"})
_NO_FILES: Final = ReaderSyntax(9)
_FILES_OF: Final = {"sed": ReaderSyntax(1, instead="-e -f --expression --file"), "tee": _NO_FILES}
"""How filters that are in no table of readers read files."""
_PRINT_NOTHING: Final = word_set(": true false mkdir rm cd test [ sleep touch chmod")
_PRINT_SETTINGS: Final = frozenset({"ssh-agent", "dircolors", "resize", "tset"})
_SETTINGS: Final = word_set("init hook env shellenv completion completions docker-env shell.bash shell.zsh activate")
"""`direnv hook bash`, `brew shellenv`: subcommands that print settings for a shell."""
SETTINGS: Final = "settings"
"""Origin of what they print: harmless for the shell that evaluates it, and not known where it is a word."""
PROCESSES: Final = "processes:"
"""Origin of what `ps` and `pgrep` print; behind it the words that select them."""
_LIST_PROCESSES: Final = frozenset({"ps", "pgrep", "pidof"})
_SELECTS_PROCESSES = re.compile(r"-?p?\d|-[CGptgs]|--(?!no-headers|sort|format)")
_PRINT_OPERAND: Final = ("realpath", "readlink", "which", "type", "command")
_ECHO_OPTION = re.compile(r"-[neE]+")
_DIRECTIVE = re.compile(r"%(?:%|[-+ 0#]*\d*(?:\.\d+)?[a-zA-Z])")
_TELLING: Final = "*secret* *token* *password* *passwd* *_key* *_pass* *apikey* *database_url* *credential* *private*"
"""How names of secret variables look."""
_SHOWN: Final = "yaml json* go-template* custom-columns* -oyaml -ojson* -o=* --output=yaml --output=json* --output=go*"
_SECRETS: Final[tuple[tuple[str, str], ...]] = (
    ("gpg", "--export-secret-keys --export-secret-key --export-secret-subkeys"),
    ("gcloud auth print-access-token", ""), ("gcloud auth print-identity-token", ""),
    ("gcloud secrets versions access", ""), ("security find-generic-password", "-w* -g*"),
    ("security find-internet-password", "-w* -g*"), ("security dump-keychain", ""), ("pass show", ""), ("op read", ""),
    ("op item get", "--reveal --fields"), ("kubectl get secret", _SHOWN),
    ("kubectl get secrets", _SHOWN),
    ("aws configure get", "aws_secret_access_key aws_session_token aws_access_key_id"),
    ("aws secretsmanager get-secret-value", ""), ("aws ssm get-parameter", "--with-decryption"),
    ("aws ssm get-parameters", "--with-decryption"), ("aws ssm get-parameters-by-path", "--with-decryption"),
    ("az keyvault secret show", ""), ("az account get-access-token", ""), ("vault kv get", ""), ("vault read", ""),
    ("gh auth token", ""), ("gh auth status", "-t --show-token"), ("heroku auth:token", ""), ("heroku config", ""),
    ("heroku config:get", _TELLING), ("doppler secrets", ""), ("bw get", "password item"), ("secret-tool lookup", ""),
    ("docker exec", "env printenv"), ("printenv", _TELLING), ("kubectl config view", "--raw"),
    ("terraform state pull", ""), ("terraform output", _TELLING), ("tofu output", _TELLING),
    ("pulumi config", "--show-secrets"), ("pulumi stack output", "--show-secrets"),
    ("sops -d", ""), ("sops decrypt", ""), ("sops --decrypt", ""), ("ansible-vault view", ""),
    ("infisical export", ""), ("infisical secrets get", ""),
    ("chamber export", ""), ("chamber read", ""), ("bw list", "items"), ("lpass show", ""), ("keyring get", ""),
    ("git credential fill", ""), ("gcloud auth application-default print-access-token", ""),
    ("az storage account keys list", ""), ("aws sts get-session-token", ""), ("aws sts assume-role", ""),
    ("aws iam create-access-key", ""), ("aws ecr get-login-password", ""), ("age -d", ""), ("age --decrypt", ""),
    ("npm config get", "*_auth* *_password*"),
)  # fmt: skip
"""Commands that print secrets: their first words, and words of which one must be there as well, in lower case."""


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
    return name in FILTERS and word_set(_reading(name).quiet).isdisjoint(words)


def prints_secret(words: Sequence[str]) -> bool:
    """Whether a command prints what a password store, a key ring or a cloud keeps secret."""
    for begin, needed in _SECRETS_OF.get(words[0], ()):
        if tuple(words[: len(begin)]) == begin:
            rest = [word.lower() for word in words[len(begin) :]]
            return not needed or any(fnmatchcase(word, pattern) for word in rest for pattern in needed)
    return False


def output(command: Command, fed: Value, run: Run) -> Value:
    """What a command prints. UNKNOWN where the line doesn't show it."""
    words = command.words
    printer = _PRINTERS.get(command.name)
    text = printer(words, run) if printer else None
    if text is not None:
        return Value(text, command.origins if command.name in ("echo", "printf") else NOTHING)
    if words[0] in _PRINT_NOTHING:
        return EMPTY
    if words[:2] == ("git", "diff"):
        return Value(UNKNOWN, frozenset({"changes"}))
    if words[0] in _PRINT_SETTINGS or not _SETTINGS.isdisjoint(words[1:3]):
        return Value(UNKNOWN, frozenset({SETTINGS}))
    if listing := " ".join(listed(words)):
        return Value(listing)
    if command.name in DOWNLOADS and command.args:
        return Value(UNKNOWN, frozenset({"remote"}))
    return _filtered(words, fed, run)


def _filtered(words: tuple[str, ...], fed: Value, run: Run) -> Value:
    name = words[0]
    if name == "tee" or words in (("cat",), ("xargs",)):
        return fed
    if name in FILTERS and (files := _files(words)):
        return _of_files(words, files, run)
    if prints_secret(words) or (name in PACKERS and _packs_secret(words[1:_MOST_PACKED], run)):
        return Value(UNKNOWN, frozenset({"secret"}))
    if name in ("env", "printenv") or (len(words) == 1 and name in ("set", "export", "declare")):
        return Value(UNKNOWN, frozenset({"environment"}))
    if name in _LIST_PROCESSES or (name in _GREPS and PROCESSES in fed.origins and "-v" not in words):
        return Value(UNKNOWN, _processes(words))
    if name.endswith("awk") and PROCESSES in fed.origins and "".join(_operands(words)[:1]).strip()[:1] != "{":
        return Value(UNKNOWN, frozenset({PROCESSES}))  # it selects some
    decoded = frozenset({"decoded"}) if decodes(words) else NOTHING
    if fed.known and fed.text and (text := transformed(words, fed.text)) is not None:
        return Value(text, fed.origins | decoded)
    if fed.known and name in _SELECT:
        return fed  # some of its lines
    if prints_input(words):
        return Value(UNKNOWN, fed.origins | decoded)
    computed = frozenset({"computed"}) if name in _COMPUTE else NOTHING
    return Value(UNKNOWN, computed | (fed.origins & {"remote", "decoded"}))


def _processes(words: Sequence[str]) -> frozenset[str]:
    """Numbers of processes: where they come from is what `pkill` needs to end the same ones."""
    if words[0] == "ps":  # without a selection every process, of which `.` is a pattern
        every = not any(map(_SELECTS_PROCESSES.match, words[1:]))
        return frozenset({PROCESSES, PROCESSES + "."} if every else {PROCESSES})
    if words[0] in _GREPS:  # `[n]ode` is the name for which grep doesn't find itself
        words = (words[0], "-f", "".join(_operands(words)[:1]).replace("[", "").replace("]", ""))
    return frozenset({PROCESSES, PROCESSES + shlex.join(words[1:])})


def _packs_secret(words: Sequence[str], run: Run) -> bool:
    """Whether an archive of what words name holds a secret file; one that leaves files out may leave out these."""
    paths = [] if any(word.startswith(("--exclude", "-x")) for word in words) else map(run.path, words)
    return any(
        is_secret_file(path + end)
        for path in paths
        for end in ("", "/_", "/credentials", *(f"/{name}" for name in run.world.fs.names(path)))
    )


def _files(words: Sequence[str]) -> list[str]:
    """The files that a filter reads: its operands, without the pattern or program that comes first."""
    how = _reading(words[0])
    options = Options(words[1:], word_set(how.values))
    skipped = 0 if how.instead and options.has(*word_set(how.instead)) else how.skip
    return options.operands[skipped:] + options.values(*word_set(how.files))


def _reading(name: str) -> ReaderSyntax:
    return READS.get(name) or _FILES_OF.get(name, ReaderSyntax())


def _of_files(words: Sequence[str], files: list[str], run: Run) -> Value:
    paths = [run.path(file) for file in files]
    if words[0] == "cat" and len(words) == 2:
        return run.files.content(paths[0])
    call = run.interpreter.call(Command(words[0], tuple(words[1:]))).with_values(_reading(words[0]).values)
    secret = {"secret"} if any(map(is_secret_file, paths)) and not only_names(call) else set[str]()
    decoded = {"decoded"} if decodes(words) else set[str]()
    plain = words[0] in ("cat", "tac", "head", "tail")
    # a part of a file that can be read does no more than all of it
    whole = plain and len(paths) == 1 and (words[0] in ("cat", "tac") or run.world.fs.kind(paths[0]) == "file")
    packed = "file" if whole else "packed" if decoded else "lines"
    return Value(UNKNOWN, frozenset(secret | decoded | {f"{packed}:{path}" for path in paths[:4]}))


# programs whose words show what they print


def _echo(words: Sequence[str], run: Run) -> str:
    at = 1
    while at < len(words) and _ECHO_OPTION.fullmatch(words[at]):
        at += 1
    options, text = "".join(words[1:at]), " ".join(words[at:])
    if "e" in options or "\\x" in text or "\\0" in text:
        text = ansi_c(text)
    return text if "n" in options else f"{text}\n"


def printf(words: Sequence[str]) -> str:
    """What `printf FORMAT ARGUMENTS` prints; the format is used again while arguments are left."""
    if not words:
        return ""
    form, rest = ansi_c(words[0]), iter(words[1:])
    slots = sum(1 for found in _DIRECTIVE.finditer(form) if found[0] != "%%")
    rounds = max(1, -(-(len(words) - 1) // slots)) if slots else 1
    filled = (_DIRECTIVE.sub(lambda found: _formatted(found[0], rest), form) for _ in range(min(rounds, MOST_FIELDS)))
    return "".join(filled)[:LONGEST_VALUE]


def _formatted(directive: str, rest: Iterator[str]) -> str:
    kind = directive[-1]
    if kind == "%":
        return "%"
    value = next(rest, "")
    if kind == "b":
        return ansi_c(value)
    return format(int(value), kind) if kind in "xXo" and value.isdigit() and len(value) < 10 else value


def _basename(words: Sequence[str], run: Run) -> str:
    path, *suffix = _operands(words) or [UNKNOWN]
    return posixpath.basename(path.rstrip("/")).removesuffix("".join(suffix[:1]))


def _dirname(words: Sequence[str], run: Run) -> str:
    path = (_operands(words) or [UNKNOWN])[0]
    return posixpath.dirname(path.rstrip("/")) or (UNKNOWN if path == UNKNOWN else ".")


def _operands(words: Sequence[str]) -> list[str]:
    return [word for word in words[1:] if not word.startswith("-")]


def _git(words: Sequence[str], run: Run) -> str | None:
    if tuple(words[1:3]) != ("rev-parse", "--show-toplevel"):
        return None
    return run.world.roots[0] if run.world.roots else run.state.cwd


def _seq(words: Sequence[str], run: Run) -> str | None:
    numbers = [int(word) for word in words[1:] if word.isdigit() and len(word) < 6]
    if not 1 <= len(numbers) <= 2 or len(numbers) < len(words) - 1:
        return None
    first, last = numbers if len(numbers) == 2 else (1, *numbers)
    return "\n".join(map(str, range(first, last + 1)[:MOST_FIELDS]))


_PRINTERS: Final[dict[str, Callable[[Sequence[str], Run], str | None]]] = {
    "echo": _echo,
    "printf": lambda words, run: printf(words[1:]),
    "basename": _basename,
    "dirname": _dirname,
    "pwd": lambda words, run: run.state.cwd,
    "mktemp": lambda words, run: TEMPORARY,
    "whoami": lambda words, run: posixpath.basename(run.world.home),
    "id": lambda words, run: posixpath.basename(run.world.home) if "-un" in words else None,
    "git": _git,
    **dict.fromkeys(_PRINT_OPERAND, lambda words, run: (_operands(words) or [UNKNOWN])[-1]),
    "seq": _seq,
    "yes": lambda words, run: (" ".join(words[1:]) or "y") + "\n",
}


# filters whose input is known: decoders, `tr`, `sed`, `rev` and similar programs

_ROT13: Final = str.maketrans(
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", "NOPQRSTUVWXYZABCDEFGHIJKLMnopqrstuvwxyzabcdefghijklm"
)
_DECODERS: Final = {
    **dict.fromkeys(("base64", "gbase64", "base32"), frozenset("dD")),
    **dict.fromkeys(("openssl", "gzip", "zstd"), frozenset("d")),
    "xxd": frozenset("r"),
}
"""Programs that decode with one of these letters."""
_SUBSTITUTION = re.compile(r"s([/|#,])([^/|#,*.\[\]\\^$]*)\1([^/|#,\\&]*)\1(g?)")
_TR_OPTION = re.compile(r"-[cCdst]+")
_SET_RANGE = re.compile(r"([!-~])-([!-~])")


def transformed(words: Sequence[str], text: str) -> str | None:
    """The output of a filter for some text; None if it is not a known filter, or the text is not its input."""
    transform = _TRANSFORMS.get(words[0])
    try:
        return transform(words, text) if transform else None
    except (ValueError, binascii.Error):
        return None


def decodes(words: Sequence[str]) -> bool:
    """Whether a command decodes or unpacks what it reads."""
    if words[0] in ("gunzip", "zcat"):
        return True
    options = _DECODERS.get(words[0])
    return options is not None and (not options.isdisjoint(letters(words)) or "--decode" in words)


def letters(words: Sequence[str]) -> str:
    """The letters of a command's short options."""
    return "".join(word[1:] for word in words[1:] if word[:1] == "-" and word[1:2] != "-")


def _decoded(words: Sequence[str], text: str) -> str | None:
    if not decodes(words):
        return None
    if words[0] == "xxd":
        data = bytes.fromhex(text) if "p" in letters(words) else None
    elif words[0] == "base32":
        data = base64.b32decode(text.strip())
    else:
        data = base64.b64decode(text, validate=False)
    return None if data is None else data.decode("utf-8", "replace").replace("\0", "")


def _openssl(words: Sequence[str], text: str) -> str | None:
    return None if {"base64", "-base64", "-a"}.isdisjoint(words) else _decoded(words, text)


def _rot13(words: Sequence[str], text: str) -> str | None:
    return text.translate(_ROT13) if words[0] == "rot13" or list(words[1:2]) == ["13"] else None


def _sed(words: Sequence[str], text: str) -> str | None:
    found = _SUBSTITUTION.fullmatch(words[-1])
    return text.replace(found[2], found[3], -1 if found[4] else 1) if found and found[2] else None


def _tr(words: Sequence[str], text: str) -> str | None:
    sets = [ansi_c(_spelt(word)) for word in words[1:] if not _TR_OPTION.fullmatch(word)]
    if "-d" in words and len(sets) == 1:
        return text.translate(dict.fromkeys(map(ord, sets[0])))
    if len(sets) != 2 or not sets[1] or len(sets) != len(words) - 1:
        return None
    old, new = sets
    return text.translate(str.maketrans(old, new.ljust(len(old), new[-1])[: len(old)]))


def _spelt(word: str) -> str:
    """A set of `tr` with its ranges spelt out."""
    word = word.replace("[:upper:]", "A-Z").replace("[:lower:]", "a-z").replace("[:space:]", " \\t\\n")
    return _SET_RANGE.sub(lambda found: "".join(map(chr, range(ord(found[1]), ord(found[2]) + 1))), word)


_TRANSFORMS: Final[dict[str, Callable[[Sequence[str], str], str | None]]] = {
    **dict.fromkeys(("base64", "gbase64", "base32", "xxd"), _decoded),
    "openssl": _openssl,
    "rev": lambda words, text: "\n".join(line[::-1] for line in text.split("\n")),
    "tac": lambda words, text: "\n".join(reversed(text.strip("\n").split("\n"))) + "\n",
    "rot13": _rot13,
    "caesar": _rot13,
    "tr": _tr,
    "sed": _sed,
    **dict.fromkeys(("head", "tail", "cat", "sort", "uniq"), lambda words, text: text if len(words) == 1 else None),
}
