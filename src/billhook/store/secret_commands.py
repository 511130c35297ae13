"""Secrets that a command line gives no name: `curl -u bob:x`, `mysql -px`, `https://bob:x@host`, `sudo -S <<< x`.

Each search jumps from one telling piece of text to the next and looks a bounded way around it.
"""

import functools
import re
from collections.abc import Iterator
from typing import Final

import msgspec

from billhook.store.secret_hints import READERS
from billhook.store.secret_shapes import begins
from billhook.store.secret_texts import closing, is_placeholder

Span = tuple[int, int]


class Flag(msgspec.Struct, frozen=True):
    """A flag whose value is secret, in calls of some programs. Documented as `programs flag`."""

    programs: tuple[str, ...]
    flag: str
    shown: str
    value: str = r"[ \t]{0,8}+(\\?[\"']?)([^\s\"';|&<>\\]++)"


_USER: Final = r"[ \t=]{0,8}+(\\?[\"']?)[^\s:\"'\\]{0,200}+:([^\s\"'\\]++)"
_GLUED: Final = r"(\\?[\"']?)([^\s\"';|&<>\\]++)"
_APART: Final = r"[ \t]{1,8}+(\\?[\"']?)([^\s\"';|&<>\\-][^\s\"';|&<>\\]*+)"

_AFTER_NAME: Final = r"[ \t=]{1,8}+(\\?[\"']?)([^\s\"';|&<>\\]++)"
_PAIR: Final = r"[ \t]{0,8}+(\\?[\"']?)([^\s\"';|&<>\\=@]++=[^\s\"'|&<>\\]++)"

FLAGS: Final = (
    Flag(("curl",), "-u", "curl -u bob:x", _USER),
    Flag(("curl",), "--user", "curl --user bob:x", _USER),
    Flag(("curl",), "-U", "curl -U bob:x", _USER),
    Flag(("curl",), "--proxy-user", "curl --proxy-user bob:x", _USER),
    Flag(("curl",), "-b", "curl -b sid=x", _PAIR),
    Flag(("http ",), "-a", "http -a bob:x", _USER),
    Flag(("mysql", "mariadb"), "-p", "mysql -px", _GLUED),
    Flag(("sshpass",), "-p", "sshpass -p x"),
    Flag(("redis-cli",), "-a", "redis-cli -a x", _APART),
    Flag(("redis-cli",), "--pass", "redis-cli --pass x", _APART),
    Flag(("login",), "-p", "docker login -p x", _APART),
    Flag(("mongo",), "-p", "mongosh -p x", _APART),
    Flag(("ldap",), "-w", "ldapsearch -w x", _APART),
    Flag(("sqlcmd", "zip", "unzip"), "-P", "sqlcmd -P x, zip -P x"),
    Flag(("7z",), "-p", "7z -px", _GLUED),
    Flag(("openssl",), "pass:", "openssl -passin pass:x", _GLUED),
    Flag(("openssl",), "-k", "openssl enc -k x", _APART),
    Flag(("curl",), "--oauth2-bearer", "curl --oauth2-bearer x", _APART),
    Flag(("smbclient",), "-U", "smbclient -U bob%x", r"[ \t=]{0,8}+(\\?[\"']?)[^\s%\"'\\]{1,200}+%([^\s\"'\\]++)"),
    Flag(("lftp",), "-u", "lftp -u bob,x", r"[ \t]{0,8}+(\\?[\"']?)[^\s,\"'\\]{1,200}+,([^\s\"'\\]++)"),
    Flag(("keytool", "jarsigner"), "-storepass", "keytool -storepass x", _APART),
    Flag(("keytool", "jarsigner"), "-keypass", "keytool -keypass x", _APART),
    Flag(("SecureString", "keyvault secret set"), "--value", "az keyvault secret set --value x", _AFTER_NAME),
    Flag(("gh secret",), "--body", "gh secret set NAME --body x", _AFTER_NAME),
    Flag(("gh secret",), "-b", "gh secret set NAME -b x"),
    Flag(
        ("create secret",),
        "--from-literal",
        "kubectl create secret generic NAME --from-literal=k=x",
        r"[ \t=]{1,8}+(\\?[\"']?)[^\s=\"'\\]{1,200}+=([^\s\"'\\]++)",
    ),
)
_BACK: Final = 512  # how far before a flag its program may stand


def flags(text: str) -> Iterator[Span]:
    """Values of flags that are secret only in calls of one program."""
    for flag in FLAGS:
        if not any(program in text for program in flag.programs):
            continue
        at = text.find(flag.flag)
        while at >= 0:
            after = at + len(flag.flag)
            if text[at - 1 : at] in _BEFORE_A_FLAG and _called(text, at, flag.programs):
                found = _pattern(flag.value).match(text, after)
                if found and _is_secret(flag, found[2]):
                    after = _end(text, found)
                    yield found.start(2), after
            at = text.find(flag.flag, after)


def clustered(text: str) -> Iterator[Span]:
    """`curl -sSu bob:x`: the flag behind others in one word."""
    at, done = text.find("curl"), 0
    while at >= 0:
        done, end = max(at, done), at + _BACK
        for found in _pattern(_CLUSTER + _USER).finditer(text, done, end):
            secret = not found[2].isdigit() and not is_placeholder(found[2])
            if secret and _called(text, found.start(), ("curl",)):
                yield found.start(2), _end(text, found)
        done = end
        at = text.find("curl", at + 4)


_CLUSTER: Final = r"(?<=[ \t\n'\"])-[A-Za-z]{1,8}u"


def _end(text: str, found: "re.Match[str]") -> int:
    """Where a value ends: at its closing quote, if one opened it."""
    if found[1][-1:] not in ("'", '"'):
        return found.end(2)
    return closing(text, found.start(2), found[1][-1], len(found[1]) - 1)[0]


_BEFORE_A_FLAG: Final = frozenset(" \t\n'\"")


def _is_secret(flag: Flag, value: str) -> bool:
    if value.isdigit() and flag.value is _USER:
        return False  # user and group by number
    return not is_placeholder(value)


def _called(text: str, at: int, programs: tuple[str, ...]) -> bool:
    """Whether one of the programs stands before this flag in the same command."""
    floor = max(0, at - _BACK)
    before = text[floor:at]
    for found in {before.rfind(program) for program in programs}:
        if found >= 0 and begins(text, floor + found) and not _pattern(r"[;|&]|(?<!\\)\n").search(before, found):
            return True
    return False


def addresses(text: str) -> Iterator[Span]:
    """Passwords in addresses, `https://bob:x@host`, and tokens that stand alone there."""
    at = text.find("://")
    while at >= 0:
        start = at + 3
        found = _pattern(_AUTHORITY).match(text, start)
        end = found.end() if found else start
        span = _userinfo(text, start, end)
        if span:
            yield span
        at = text.find("://", max(end, start))


_AUTHORITY: Final = r"[^\s/?#\"'`<>\\]*+"
_SLOPPY: Final = r"[^\s\"'`<>\\@]{1,128}@"


def _userinfo(text: str, start: int, end: int) -> Span | None:
    last = text.rfind("@", start, end)
    colon = text.find(":", start, end)
    if last < 0:
        return _sloppy(text, colon, end)
    if colon < 0 or colon > last:
        user = text[start:last]
        return (start, last) if len(user) >= 20 and user.isalnum() and not user.isalpha() else None
    password = text[colon + 1 : last]
    return None if is_placeholder(password) else (colon + 1, last)


def _sloppy(text: str, colon: int, end: int) -> Span | None:
    """A password with a slash or a question mark in it, which does not belong into an address as it is."""
    if colon < 0 or text[end : end + 1] not in ("/", "?", "#") or text[colon + 1 : end].isdigit() or colon + 1 == end:
        return None
    found = _pattern(_SLOPPY).match(text, colon + 1)
    return (colon + 1, found.end() - 1) if found and not is_placeholder(found[0][:-1]) else None


def fed(text: str) -> Iterator[Span]:
    """What is fed to a program that asks for a secret: `docker login --password-stdin <<< x`."""
    at = text.find("<<<")
    while at >= 0:
        after = at + 3
        before = text[max(0, at - 200) : at].lower()
        before = before[max(before.rfind(mark) for mark in ("\n", ";", "&&", "|")) + 1 :]
        found = _pattern(_HERE).match(text, after)
        if found and any(word in before for word in _ASKING):
            end = _end(text, found)
            if not is_placeholder(text[found.start(2) : end]):
                yield found.start(2), end
                after = end
        at = text.find("<<<", after)


_HERE: Final = r"[ \t]{0,8}+\$?(\\{0,15}+[\"']|)([^\s\"';|&<>\\]++)"
_ASKING: Final = ("pass", "token", "secret", "login", "stdin", "sudo", "key", "auth")
_ECHOED: Final = (
    r"\b(?:echo|printf)[ \t]{1,4}(?:-[A-Za-z]{1,4}[ \t]{1,4})?"
    r"(?:\\?[\"'](?:%s(?:\\n)?\\?[\"'][ \t]{1,4}\\?[\"']?)?([^\"'\\|]{1,300})|([^\s\"'|;&]{1,300}))"
    r"(?:\\n)?\\?[\"']?[ \t]{0,4}\|[^|;\n]{0,100}$"
)


def echoed(text: str) -> Iterator[Span]:
    """What `echo` gives to a program that reads a password from its standard input."""
    for reader in READERS:
        at = text.find(reader)
        while at >= 0:
            floor = max(0, at - 400)
            before = text[floor:at]
            start = max(before.rfind("echo"), before.rfind("printf"))
            found = _pattern(_ECHOED).match(before, start) if start >= 0 else None
            group = found.lastindex if found else None
            if found and group and not is_placeholder(found[group]):
                yield floor + found.start(group), floor + found.end(group)
            at = text.find(reader, at + len(reader))


def registry_logins(text: str) -> Iterator[Span]:
    """`"auth": "..."` of Docker's config.json and `_auth=...` of .npmrc."""
    at = text.find("auth")
    while at >= 0:
        found = _pattern(
            r"auth(?:\\{0,15}+[\"']\s{0,8}+:\s{0,8}+\\{0,15}+[\"']|[ \t]?=[ \t]?)([A-Za-z0-9+/_=]{8,}+)"
        ).match(text, at)
        if found and len(found[1]) < 12 and text[at - 1 : at] != "_":
            found = None
        if found and text[at - 1 : at] in ('"', "'", "_") and (found[1].endswith("=") or not found[1].isalpha()):
            yield found.span(1)
        at = text.find("auth", found.end() if found else at + 4)


def positional(text: str) -> Iterator[Span]:
    """`htpasswd -b file bob x`, `vault login x`."""
    for word, pattern in (("htpasswd", _HTPASSWD), ("vault login", _VAULT)):
        at = text.find(word)
        while at >= 0:
            found = _pattern(pattern).match(text, at + len(word))
            if found and begins(text, at) and not is_placeholder(found["x"]):
                yield found.span("x")
            at = text.find(word, found.end() if found else at + len(word))


_HTPASSWD: Final = (
    r"(?=[^\n;|&]{0,60}?[ \t]-[A-Za-z]{0,6}b)(?P<n>(?=[^\n;|&]{0,60}?[ \t]-[A-Za-z]{0,6}n))?"
    r"(?:[ \t]{1,4}+-[A-Za-z]{1,8}+(?:[ \t]{1,4}+[0-9]{1,2}(?=[ \t]))?+){1,4}+"
    r"(?(n)|[ \t]{1,4}+[^\s;|&<>]{1,200}+)[ \t]{1,4}+[^\s;|&<>]{1,200}+[ \t]{1,4}+[\"']?(?P<x>[^\s\"';|&<>]{1,300}+)"
)
_VAULT: Final = (
    r"(?:[ \t]{1,4}+-[\w-]{1,30}+(?:=\S{1,100}+)?){0,4}+[ \t]{1,4}+[\"']?"
    r"(?P<x>(?=[^\s0-9]{0,60}+[0-9])[^\s=\"';|&<>]{8,300}+)(?!=)"
)


def telegram_tokens(text: str) -> Iterator[Span]:
    """`123456789:AA...`, also behind `bot` in an address."""
    at = text.find(":AA")
    while at >= 0:
        left = text[max(0, at - 11) : at]
        digits = len(left) - len(left.rstrip("0123456789"))
        found = _pattern(r":AA[A-Za-z0-9_-]{30,40}+").match(text, at)
        if found and 8 <= digits <= 10:
            yield at - digits, found.end()
        at = text.find(":AA", found.end() if found else at + 3)


def identified(text: str) -> Iterator[Span]:
    """`IDENTIFIED BY 'x'` of SQL."""
    for word in ("IDENTIFIED ", "identified "):
        at = text.find(word)
        while at >= 0:
            found = _pattern(_IDENTIFIED, re.I).match(text, at + len(word))
            if found:
                yield found.span(2)
            at = text.find(word, found.end() if found else at + len(word))


_IDENTIFIED: Final = r"(?:WITH [\w'\"]{1,40}+ )?BY (?:PASSWORD )?\\?(['\"])([^'\"\\]{1,500})"


def kubernetes_secrets(text: str) -> Iterator[Span]:
    """All values below `data:` and `stringData:` of a Kubernetes Secret, in YAML and JSON, before or after `kind:`."""
    done = 0
    found = _pattern(_KIND_SECRET).search(text)
    while found:
        start = max(done, text.rfind("\n---", done, found.start()), found.start() - _MANIFEST)
        stop = text.find("\n---", found.end(), found.end() + _MANIFEST)
        done = min(len(text), found.end() + _MANIFEST) if stop < 0 else stop
        for block in _pattern(_DATA_IN_YAML).finditer(text, start, done):
            yield from (line.span(1) for line in _pattern(_LINE_OF_DATA).finditer(text, *block.span("lines")))
        for block in _pattern(_DATA_IN_JSON).finditer(text, start, done):
            values = _pattern(_VALUE_IN_JSON).finditer(text, *block.span(1))
            yield from (value.span(value.lastindex or 1) for value in values)
        found = _pattern(_KIND_SECRET).search(text, done)


_MANIFEST: Final = 64 << 10  # how far from `kind: Secret` its data may be
_KIND_SECRET: Final = r"kind\\{0,7}[\"']?\s{0,4}:\s{0,4}\\{0,7}[\"']?Secret\b"
_DATA_IN_YAML: Final = (
    r"(?:(?<=\n)|(?<=\\n)|^)(?P<indent>[ ]{0,40}+)(?:data|stringData):[ \t]{0,8}+(?:#[^\n\\]*+)?+"
    r"(?P<lines>(?:(?:\r?\n|\\n)(?P=indent)[ ]++[^\n\\]*+)++)"
)
_LINE_OF_DATA: Final = r"(?:\n|\\n)[ ]++(?:[\w.-]{1,253}+:(?=\s|\\|$))?+[ \t]*+[|>\"']?([^\s\\\"'|>][^\n\\\"']*+)"
_DATA_IN_JSON: Final = r"(?:data|stringData)\\{0,7}[\"']?\s{0,4}:\s{0,4}\{([^{}]*+)\}"
_VALUE_IN_JSON: Final = r":\s{0,4}(?:\\{0,7}[\"']([^\"'\\]++)|([^\s\\\"',][^\s,]*+))"


@functools.cache
def _pattern(source: str, flags: int = 0) -> re.Pattern[str]:
    return re.compile(source, flags)
