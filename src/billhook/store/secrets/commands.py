"""Secrets without a name in command lines: `curl -u bob:x`, `mysql -px`, `https://bob:x@host`, `sudo -S <<< x`.

Each search jumps from one hint to the next and reads a limited distance around it.
"""

import re
from collections.abc import Iterator
from typing import Final

from billhook.core.lazy import pattern
from billhook.store.secrets import FLAGS, READERS, USER, USER_VALUE, Flag, Span, begins, places
from billhook.store.secrets.assignments import closing, is_placeholder

_BACK: Final = 512  # how far before a flag its program may be
_BEFORE_A_FLAG: Final = frozenset(" \t\n'\"")
_CLUSTER: Final = pattern(r"(?<=[ \t\n'\"])-[A-Za-z]{1,8}u" + USER_VALUE)
_COMMAND_ENDS: Final = pattern(r"[;|&]|(?<!\\)\n")


def flags(text: str) -> Iterator[Span]:
    """Values of flags that are secret only in calls of one program."""
    for flag in FLAGS:
        for at in places(text, flag.flag) if any(program in text for program in flag.programs) else ():
            if text[at - 1 : at] in _BEFORE_A_FLAG and _called(text, at, flag.programs):
                found = flag.value.match(text, at + len(flag.flag))
                if found and _is_secret(flag, found[2]):
                    yield found.start(2), _end(text, found)


def clustered(text: str) -> Iterator[Span]:
    """`curl -sSu bob:x`: the flag after others in one word."""
    done = 0
    for at in places(text, "curl"):
        for found in _CLUSTER.finditer(text, max(at, done), at + _BACK):
            secret = not found[2].isdigit() and not is_placeholder(found[2])
            if secret and _called(text, found.start(), ("curl",)):
                yield found.start(2), _end(text, found)
        done = at + _BACK


def _end(text: str, found: "re.Match[str]") -> int:
    """The end of a value: its closing quote, if it begins with a quote."""
    if found[1][-1:] not in ("'", '"'):
        return found.end(2)
    return closing(text, found.start(2), found[1][-1], len(found[1]) - 1)[0]


def _is_secret(flag: Flag, value: str) -> bool:
    if value.isdigit() and flag.value is USER:
        return False  # user and group by number
    return not is_placeholder(value)


def _called(text: str, at: int, programs: tuple[str, ...]) -> bool:
    """Whether one of the programs comes before this flag in the same command."""
    floor = max(0, at - _BACK)
    before = text[floor:at]
    for found in {before.rfind(program) for program in programs}:
        if found >= 0 and begins(text, floor + found) and not _COMMAND_ENDS.search(before, found):
            return True
    return False


def addresses(text: str) -> Iterator[Span]:
    """Passwords in URLs, `https://bob:x@host`, and tokens without a user name."""
    for found in _AUTHORITY.finditer(text):
        span = _userinfo(text, *found.span(1))
        if span:
            yield span


_AUTHORITY: Final = pattern(r"://([^\s/?#\"'`<>\\]*+)")
_SLOPPY: Final = pattern(r"[^\s\"'`<>\\@]{1,128}@")


def _userinfo(text: str, start: int, end: int) -> Span | None:
    last = text.rfind("@", start, end)
    colon = text.find(":", start, end)
    if last < 0:
        return _sloppy(text, colon, end)
    if colon < 0 or colon > last:
        user = text[start:last]
        return (start, last) if len(user) >= 20 and user.isalnum() and not user.isalpha() else None
    return None if is_placeholder(text[colon + 1 : last]) else (colon + 1, last)


def _sloppy(text: str, colon: int, end: int) -> Span | None:
    """A password that contains a slash or a question mark, which a URL should escape."""
    if colon < 0 or text[end : end + 1] not in ("/", "?", "#") or text[colon + 1 : end].isdigit() or colon + 1 == end:
        return None
    found = _SLOPPY.match(text, colon + 1)
    return (colon + 1, found.end() - 1) if found and not is_placeholder(found[0][:-1]) else None


def fed(text: str) -> Iterator[Span]:
    """The input of a program that reads a secret: `docker login --password-stdin <<< x`."""
    for found in _HERE.finditer(text):
        before = text[max(0, found.start() - 200) : found.start()].lower()
        before = before[max(before.rfind(mark) for mark in ("\n", ";", "&&", "|")) + 1 :]
        end = _end(text, found)
        if any(word in before for word in _ASKING) and not is_placeholder(text[found.start(2) : end]):
            yield found.start(2), end


_HERE: Final = pattern(r"<<<[ \t]{0,8}+\$?(\\{0,15}+[\"']|)([^\s\"';|&<>\\]++)")
_ASKING: Final = ("pass", "token", "secret", "login", "stdin", "sudo", "key", "auth")


def echoed(text: str) -> Iterator[Span]:
    """The output of `echo` to a program that reads a password from its standard input."""
    for at in (at for reader in READERS for at in places(text, reader)):
        floor = max(0, at - 400)
        before = text[floor:at]
        start = max(before.rfind("echo"), before.rfind("printf"))
        found = _ECHOED.match(before, start) if start >= 0 else None
        group = found.lastindex if found else None
        if found and group and not is_placeholder(found[group]):
            yield floor + found.start(group), floor + found.end(group)


_ECHOED: Final = pattern(
    r"\b(?:echo|printf)[ \t]{1,4}(?:-[A-Za-z]{1,4}[ \t]{1,4})?"
    r"(?:\\?[\"'](?:%s(?:\\n)?\\?[\"'][ \t]{1,4}\\?[\"']?)?([^\"'\\|]{1,300})|([^\s\"'|;&]{1,300}))"
    r"(?:\\n)?\\?[\"']?[ \t]{0,4}\|[^|;\n]{0,100}$"
)


def registry_logins(text: str) -> Iterator[Span]:
    """`"auth": "..."` in Docker's config.json and `_auth=...` in .npmrc."""
    for found in _LOGIN.finditer(text):
        if len(found[1]) >= (8 if found[0][0] == "_" else 12) and not found[1].isalpha():
            yield found.span(1)


_LOGIN: Final = pattern(
    r"[\"'_]auth(?:\\{0,15}+[\"']\s{0,8}+:\s{0,8}+\\{0,15}+[\"']|[ \t]?=[ \t]?)([A-Za-z0-9+/_=]{8,}+)"
)


def positional(text: str) -> Iterator[Span]:
    """`htpasswd -b file bob x`, `vault login x`."""
    for word, form in (("htpasswd", _HTPASSWD), ("vault login", _VAULT)):
        for at in places(text, word):
            found = form.match(text, at + len(word))
            if found and begins(text, at) and not is_placeholder(found["x"]):
                yield found.span("x")


_HTPASSWD: Final = pattern(
    r"(?=[^\n;|&]{0,60}?[ \t]-[A-Za-z]{0,6}b)(?P<n>(?=[^\n;|&]{0,60}?[ \t]-[A-Za-z]{0,6}n))?"
    r"(?:[ \t]{1,4}+-[A-Za-z]{1,8}+(?:[ \t]{1,4}+[0-9]{1,2}(?=[ \t]))?+){1,4}+"
    r"(?(n)|[ \t]{1,4}+[^\s;|&<>]{1,200}+)[ \t]{1,4}+[^\s;|&<>]{1,200}+[ \t]{1,4}+[\"']?(?P<x>[^\s\"';|&<>]{1,300}+)"
)
_VAULT: Final = pattern(
    r"(?:[ \t]{1,4}+-[\w-]{1,30}+(?:=\S{1,100}+)?){0,4}+[ \t]{1,4}+[\"']?"
    r"(?P<x>(?=[^\s0-9]{0,60}+[0-9])[^\s=\"';|&<>]{8,300}+)(?!=)"
)


def telegram_tokens(text: str) -> Iterator[Span]:
    """`123456789:AA...`, also after `bot` in a URL."""
    return (found.span() for found in _TELEGRAM.finditer(text))


_TELEGRAM: Final = pattern(r"(?<![0-9])[0-9]{8,10}+:AA[A-Za-z0-9_-]{30,40}+")


def identified(text: str) -> Iterator[Span]:
    """`IDENTIFIED BY 'x'` in SQL."""
    for at in (at for word in ("IDENTIFIED ", "identified ") for at in places(text, word)):
        found = _IDENTIFIED.match(text, at + 11)
        if found:
            yield found.span(2)


_IDENTIFIED: Final = pattern(r"(?:WITH [\w'\"]{1,40}+ )?BY (?:PASSWORD )?\\?(['\"])([^'\"\\]{1,500})", re.I)


def kubernetes_secrets(text: str) -> Iterator[Span]:
    """All values below `data:` and `stringData:` of a Kubernetes Secret, in YAML and JSON, before or after `kind:`."""
    done = 0
    found = _KIND_SECRET.search(text)
    while found:
        start = max(done, text.rfind("\n---", done, found.start()), found.start() - _MANIFEST)
        stop = text.find("\n---", found.end(), found.end() + _MANIFEST)
        done = min(len(text), found.end() + _MANIFEST) if stop < 0 else stop
        for block in _DATA_IN_YAML.finditer(text, start, done):
            yield from (line.span(1) for line in _LINE_OF_DATA.finditer(text, *block.span("lines")))
        for block in _DATA_IN_JSON.finditer(text, start, done):
            yield from (value.span(value.lastindex or 1) for value in _VALUE_IN_JSON.finditer(text, *block.span(1)))
        found = _KIND_SECRET.search(text, done)


_MANIFEST: Final = 64 << 10  # how far from `kind: Secret` its data may be
_KIND_SECRET: Final = pattern(r"kind\\{0,7}[\"']?\s{0,4}:\s{0,4}\\{0,7}[\"']?Secret\b")
_DATA_IN_YAML: Final = pattern(
    r"(?:(?<=\n)|(?<=\\n)|^)(?P<indent>[ ]{0,40}+)(?:data|stringData):[ \t]{0,8}+(?:#[^\n\\]*+)?+"
    r"(?P<lines>(?:(?:\r?\n|\\n)(?P=indent)[ ]++[^\n\\]*+)++)"
)
_LINE_OF_DATA: Final = pattern(
    r"(?:\n|\\n)[ ]++(?:[\w.-]{1,253}+:(?=\s|\\|$))?+[ \t]*+[|>\"']?([^\s\\\"'|>][^\n\\\"']*+)"
)
_DATA_IN_JSON: Final = pattern(r"(?:data|stringData)\\{0,7}[\"']?\s{0,4}:\s{0,4}\{([^{}]*+)\}")
_VALUE_IN_JSON: Final = pattern(r":\s{0,4}(?:\\{0,7}[\"']([^\"'\\]++)|([^\s\\\"',][^\s,]*+))")
