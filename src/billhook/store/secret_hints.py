"""Which searches are worth their time: most events hold none of the words and pieces that all secrets come with.

The whole event is looked at once, as encoded JSON: its words against the words that rules know, in one comparison of
sets. That is much quicker than looking for each prefix in turn.
"""

import functools
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import msgspec

from billhook.later import pattern
from billhook.store.secret_patterns import PATTERNS, Pattern, matching, seen
from billhook.store.secret_shapes import KEY_BODIES, SHAPES, Span, key_bodies, private_keys, shaped


class Rule(msgspec.Struct, frozen=True):
    """A search, the pieces of text without one of which it finds nothing, and words that come with each of them."""

    find: Callable[[str], Iterator[Span]]
    hints: tuple[str, ...]
    words: tuple[str, ...] = ()
    shown: str = ""  # how documents show what it finds
    looks_at: tuple[str, ...] = ()  # the pieces of text at each of which it looks, if that are not its hints
    pattern: Pattern | None = None  # an expression that tells more than hints, which other texts have as well

    @property
    def pieces(self) -> tuple[str, ...]:
        return self.looks_at or self.hints


READERS: Final = (
    *("--password-stdin", "--with-token", "chpasswd", "sudo -S", "passwd --stdin", "--pass-stdin"),
    *("secret put", "secret create", "secret set", "secrets create", "secrets versions add"),
)
"""What reads a password from its standard input."""
_PROGRAM_WORDS: Final = (
    *("curl", "http", "sshpass", "redis", "login", "sqlcmd", "zip", "unzip", "7z", "7za", "7zz", "openssl"),
    *("mysql", "mysqldump", "mysqladmin", "mysqlimport", "mysqlshow", "mysqlsh", "mysqlcheck", "mariadb"),
    *("mongo", "mongosh", "mongodump", "mongorestore", "mongoexport", "mongoimport"),
    *("smbclient", "lftp", "secret", "keytool", "jarsigner", "SecureString"),
    *("ldapsearch", "ldapadd", "ldapmodify", "ldapdelete", "ldapwhoami", "ldappasswd"),
)


class Flag(msgspec.Struct, frozen=True):
    """A flag whose value is secret, in calls of some programs."""

    programs: tuple[str, ...]
    flag: str
    shown: str  # how documents show it
    value: "re.Pattern[str]" = pattern(r"[ \t]{0,8}+(\\?[\"']?)([^\s\"';|&<>\\]++)")


USER_VALUE: Final = r"[ \t=]{0,8}+(\\?[\"']?)[^\s:\"'\\]{0,200}+:([^\s\"'\\]++)"
USER: Final = pattern(USER_VALUE)
_GLUED: Final = pattern(r"(\\?[\"']?)([^\s\"';|&<>\\]++)")
_APART: Final = pattern(r"[ \t]{1,8}+(\\?[\"']?)([^\s\"';|&<>\\-][^\s\"';|&<>\\]*+)")
_AFTER_NAME: Final = pattern(r"[ \t=]{1,8}+(\\?[\"']?)([^\s\"';|&<>\\]++)")
_PAIR: Final = pattern(r"[ \t]{0,8}+(\\?[\"']?)([^\s\"';|&<>\\=@]++=[^\s\"'|&<>\\]++)")
_PERCENT: Final = pattern(r"[ \t=]{0,8}+(\\?[\"']?)[^\s%\"'\\]{1,200}+%([^\s\"'\\]++)")
_COMMA: Final = pattern(r"[ \t]{0,8}+(\\?[\"']?)[^\s,\"'\\]{1,200}+,([^\s\"'\\]++)")
_LITERAL: Final = pattern(r"[ \t=]{1,8}+(\\?[\"']?)[^\s=\"'\\]{1,200}+=([^\s\"'\\]++)")

FLAGS: Final = (
    Flag(("curl",), "-u", "curl -u bob:x", USER),
    Flag(("curl",), "--user", "curl --user bob:x", USER),
    Flag(("curl",), "-U", "curl -U bob:x", USER),
    Flag(("curl",), "--proxy-user", "curl --proxy-user bob:x", USER),
    Flag(("curl",), "-b", "curl -b sid=x", _PAIR),
    Flag(("http ",), "-a", "http -a bob:x", USER),
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
    Flag(("smbclient",), "-U", "smbclient -U bob%x", _PERCENT),
    Flag(("lftp",), "-u", "lftp -u bob,x", _COMMA),
    Flag(("keytool", "jarsigner"), "-storepass", "keytool -storepass x", _APART),
    Flag(("keytool", "jarsigner"), "-keypass", "keytool -keypass x", _APART),
    Flag(("SecureString", "keyvault secret set"), "--value", "az keyvault secret set --value x", _AFTER_NAME),
    Flag(("gh secret",), "--body", "gh secret set NAME --body x", _AFTER_NAME),
    Flag(("gh secret",), "-b", "gh secret set NAME -b x"),
    Flag(("create secret",), "--from-literal", "kubectl create secret generic NAME --from-literal=k=x", _LITERAL),
)


def _later(name: str) -> Callable[[str], Iterator[Span]]:
    """A search of `secret_commands`, which is imported when it is needed: most calls don't."""

    def find(text: str) -> Iterator[Span]:
        from billhook.store import secret_commands

        found: Iterator[Span] = getattr(secret_commands, name)(text)
        return found

    return find


FLAGS_RULE: Final = Rule(
    _later("flags"),
    tuple(dict.fromkeys(program for flag in FLAGS for program in flag.programs)),
    _PROGRAM_WORDS,
    looks_at=tuple(dict.fromkeys(flag.flag for flag in FLAGS)),
)
_READER_WORDS: Final = ("stdin", "token", "chpasswd", "sudo", "secret", "secrets")
_POSITIONAL: Final = "htpasswd -b file bob x, vault login x"
COMMANDS: Final = (
    FLAGS_RULE,
    Rule(_later("clustered"), ("curl",), ("curl",), "curl -sSu bob:x"),
    Rule(_later("addresses"), ("://",), (), "https://bob:x@host"),
    Rule(_later("fed"), ("<<<",), (), "docker login --password-stdin <<< x"),
    Rule(_later("echoed"), READERS, _READER_WORDS, "echo x | docker login --password-stdin"),
    Rule(_later("registry_logins"), ("auth",), ("auth",), '"auth": "eDp4eDp4eA=="'),
    Rule(_later("positional"), ("htpasswd", "vault login"), ("htpasswd", "vault"), _POSITIONAL),
    Rule(_later("telegram_tokens"), (":AA",), (), "123456789:AA..."),
    Rule(_later("identified"), ("IDENTIFIED ", "identified "), (), "IDENTIFIED BY 'x'"),
    Rule(_later("kubernetes_secrets"), ("Secret",), ("Secret",), "kind: Secret"),
)
RULES: Final = (
    *(Rule(functools.partial(shaped, shape), shape.prefixes) for shape in SHAPES),
    *COMMANDS,
    Rule(private_keys, ("-----BEGIN ",)),
    Rule(key_bodies, ("-----END ", *KEY_BODIES)),
    *(Rule(functools.partial(matching, one), one.hints, pattern=None if one.rare else one) for one in PATTERNS),
)
_ALNUM: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_SIGNS: Final = "-?&;"
_TO_WORDS: Final = bytes(one if chr(one) in _ALNUM else 32 for one in range(256))
_ESCAPES: Final = (b"\\n", b"\\r", b"\\t")
"""What JSON writes for a line's end would be taken for a letter of the word behind it."""
_ODD: Final = (b"%", b"\\u", b"\x1b", b"33[", b"x1b[")
"""Other things that hide where a word begins: percent escapes, colours of a terminal. Then each hint is looked for."""


_WORTH_LOADING: Final = 16 << 10
"""Bytes in which looking for each piece in turn takes longer than loading the library that looks for all of them."""


def worth_trying(data: bytes | None, triggers: Sequence[tuple[str, bytes]]) -> tuple[Sequence[Rule], Sequence[str]]:
    """The rules and triggers that could find something in a text; all of them if the text is not known."""
    if data is None:
        return RULES, [trigger for trigger, _ in triggers]
    if "re2" in sys.modules and not quick_look(tuple(triggers))(data):
        return (), ()
    low = data.lower()
    return _rules(data), [trigger for trigger, encoded in triggers if encoded in low]


@functools.lru_cache(maxsize=8)
def quick_look(triggers: tuple[tuple[str, bytes], ...]) -> Callable[[bytes], object]:
    """Tells in one pass whether a text has anything worth trying. Only where RE2 is loaded anyway, as in a daemon:
    loading it takes longer than many looks."""
    import re2

    parts = [b"(?i:%b)" % b"|".join(re2.escape(encoded) for _, encoded in triggers)]
    parts += [*_piece_expressions(), *map(re2.escape, _ODD)]
    parts.append(rb"(?:\A|[^A-Za-z0-9]|\\[nrt])(?:%b)(?:[^A-Za-z0-9]|\z)" % b"|".join(map(re2.escape, _words())))
    search: Callable[[bytes], object] = re2.compile(b"|".join(parts)).search
    return search


@functools.cache
def _any_piece() -> Callable[[bytes], object]:
    """Tells in one pass whether any piece is in a text, or anything that an expression could match."""
    import re2

    search: Callable[[bytes], object] = re2.compile(b"|".join(_piece_expressions())).search
    return search


def _piece_expressions() -> list[bytes]:
    """One for each piece; for a rule with an expression of its own, that: its hints are in most texts."""
    import re2

    common = {number for number, rule in enumerate(RULES) if rule.pattern}
    pieces = [re2.escape(piece) for piece, numbers in _pieces().items() if not common.issuperset(numbers)]
    return [*pieces, *(b"(?:%b)" % rule.pattern.look.encode() for rule in RULES if rule.pattern)]


def _rules(data: bytes) -> Sequence[Rule]:
    found: set[int] = set()
    if any(odd in data for odd in _ODD):
        found.update(*(numbers for hint, numbers in _hints().items() if hint in data))
    else:
        if ("re2" not in sys.modules and len(data) < _WORTH_LOADING) or _any_piece()(data):
            found.update(*(numbers for piece, numbers in _pieces().items() if piece in data))
        parted = functools.reduce(lambda text, escape: text.replace(escape, b" "), _ESCAPES, data)
        known, words = _words(), parted.translate(_TO_WORDS).split()
        if not known.keys().isdisjoint(words):
            found.update(*(known[word] for word in known.keys() & set(words)))
    rules = [RULES[number] for number in sorted(found)]
    return [rule for rule in rules if rule.pattern is None or seen(rule.pattern)(data)]


_Index = dict[bytes, tuple[int, ...]]  # the numbers of rules by a text


@functools.cache
def _words() -> _Index:
    """The rules by a word that every text with one of their hints has."""
    return _index((number, word) for number, rule in enumerate(RULES) for hint, word in _keys(rule) if word)


@functools.cache
def _pieces() -> _Index:
    """The other rules, by the hint itself."""
    return _index((number, hint) for number, rule in enumerate(RULES) for hint, word in _keys(rule) if not word)


@functools.cache
def _hints() -> _Index:
    return _index((number, hint) for number, rule in enumerate(RULES) for hint in rule.hints)


def _index(pairs: Iterable[tuple[int, str]]) -> _Index:
    made: _Index = {}
    for number, text in pairs:
        made[text.encode()] = (*made.get(text.encode(), ()), number)
    return made


def _keys(rule: Rule) -> Iterator[tuple[str, str]]:
    """Each hint of a rule, and the word that comes with it, if any."""
    if rule.words:
        return zip(rule.words, rule.words, strict=True)
    return ((hint, "" if rule.pattern else _whole_word(hint)) for hint in rule.hints)


def _whole_word(hint: str) -> str:
    """The first word of a hint, if the hint says that it ends there; a rule asks itself where it begins."""
    rest = hint.lstrip(_SIGNS)
    length = len(rest) - len(rest.lstrip(_ALNUM))
    return rest[:length] if 2 <= length < len(rest) else ""
