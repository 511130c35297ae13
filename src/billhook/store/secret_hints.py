"""Which searches are worth their time: most events hold none of the words and pieces that all secrets come with.

The whole event is looked at once, as encoded JSON: its words against the words that rules know, in one comparison of
sets. That is much quicker than looking for each prefix in turn.
"""

import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec

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
_PROGRAMS: Final = (
    *("curl", "http ", "sshpass", "redis-cli", "login", "sqlcmd", "zip", "7z", "openssl", "mysql", "mariadb", "mongo"),
    *("ldap", "unzip", "smbclient", "lftp", "gh secret", "create secret"),
    *("keytool", "jarsigner", "SecureString", "keyvault secret set"),
)
_PROGRAM_WORDS: Final = (
    *("curl", "http", "sshpass", "redis", "login", "sqlcmd", "zip", "unzip", "7z", "7za", "7zz", "openssl"),
    *("mysql", "mysqldump", "mysqladmin", "mysqlimport", "mysqlshow", "mysqlsh", "mysqlcheck", "mariadb"),
    *("mongo", "mongosh", "mongodump", "mongorestore", "mongoexport", "mongoimport"),
    *("smbclient", "lftp", "secret", "keytool", "jarsigner", "SecureString"),
    *("ldapsearch", "ldapadd", "ldapmodify", "ldapdelete", "ldapwhoami", "ldappasswd"),
)
_FLAGS: Final = (
    "-u",
    "--user",
    "-U",
    "--proxy-user",
    "-b",
    "-a",
    "-p",
    "--pass",
    "-w",
    "-P",
    "pass:",
    "-k",
    "--oauth2-bearer",
    "--body",
    "--from-literal",
    "-storepass",
    "-keypass",
    "--value",
)


def _later(name: str) -> Callable[[str], Iterator[Span]]:
    """A search of `secret_commands`, which is imported when it is needed: most calls don't."""

    def find(text: str) -> Iterator[Span]:
        from billhook.store import secret_commands

        found: Iterator[Span] = getattr(secret_commands, name)(text)
        return found

    return find


FLAGS_RULE: Final = Rule(_later("flags"), _PROGRAMS, _PROGRAM_WORDS, looks_at=_FLAGS)
COMMANDS: Final = (
    FLAGS_RULE,
    Rule(_later("clustered"), ("curl",), ("curl",), "curl -sSu bob:x"),
    Rule(_later("addresses"), ("://",), (), "https://bob:x@host"),
    Rule(_later("fed"), ("<<<",), (), "docker login --password-stdin <<< x"),
    Rule(
        _later("echoed"),
        READERS,
        ("stdin", "token", "chpasswd", "sudo", "secret", "secrets"),
        "echo x | docker login --password-stdin",
    ),
    Rule(_later("registry_logins"), ("auth",), ("auth",), '"auth": "eDp4eDp4eA=="'),
    Rule(
        _later("positional"),
        ("htpasswd", "vault login"),
        ("htpasswd", "vault"),
        "htpasswd -b file bob x, vault login x",
    ),
    Rule(_later("telegram_tokens"), (":AA",), (), "123456789:AA..."),
    Rule(_later("identified"), ("IDENTIFIED ", "identified "), (), "IDENTIFIED BY 'x'"),
    Rule(_later("kubernetes_secrets"), ("Secret",), ("Secret",), "kind: Secret"),
)
RULES: Final = (
    *(Rule(functools.partial(shaped, shape), shape.prefixes) for shape in SHAPES),
    *COMMANDS,
    Rule(private_keys, ("-----BEGIN ",)),
    Rule(key_bodies, ("-----END ", *KEY_BODIES)),
    *(
        Rule(functools.partial(matching, pattern), pattern.hints, pattern=None if pattern.rare else pattern)
        for pattern in PATTERNS
    ),
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
    """Tells whether there is anything at all worth trying in a text, in one pass over it: where the library for that is
    loaded anyway, as in a daemon. Loading it takes longer than many looks."""
    import re2

    known, _ = _by_hint()
    parts = [b"(?i:%b)" % b"|".join(re2.escape(encoded) for _, encoded in triggers)]
    parts += [*_piece_expressions(), *map(re2.escape, _ODD)]
    parts.append(rb"(?:\A|[^A-Za-z0-9]|\\[nrt])(?:%b)(?:[^A-Za-z0-9]|\z)" % b"|".join(map(re2.escape, known)))
    search: Callable[[bytes], object] = re2.compile(b"|".join(parts)).search
    return search


@functools.cache
def _any_piece() -> Callable[[bytes], object]:
    """Tells in one pass whether any piece is in a text, or anything that an expression could match."""
    import re2

    search: Callable[[bytes], object] = re2.compile(b"|".join(_piece_expressions())).search
    return search


def _piece_expressions() -> list[bytes]:
    import re2

    pieces = [re2.escape(piece) for piece, _ in _by_hint()[1]]
    return [*pieces, *(b"(?:%b)" % pattern.look.encode() for pattern in PATTERNS if not pattern.rare)]


def _rules(data: bytes) -> Sequence[Rule]:
    for odd in _ODD:
        if odd in data:
            return [
                rule
                for rule, hints in _encoded_hints()
                if any(map(data.__contains__, hints)) and not (rule.pattern and not seen(rule.pattern)(data))
            ]
    known, pieces = _by_hint()
    found: list[tuple[int, ...]] = []
    if ("re2" not in sys.modules and len(data) < _WORTH_LOADING) or _any_piece()(data):
        found += [numbers for piece, numbers in pieces if piece in data]
        found += [
            (number,)
            for number, hints, pattern in _by_pattern()
            if any(map(data.__contains__, hints)) and seen(pattern)(data)
        ]
    for escape in _ESCAPES:
        data = data.replace(escape, b" ")
    words = data.translate(_TO_WORDS).split()
    if not known.keys().isdisjoint(words):
        found += [known[word] for word in known.keys() & set(words)]
    return [RULES[number] for number in sorted({number for numbers in found for number in numbers})]


@functools.cache
def _by_hint() -> tuple[dict[bytes, tuple[int, ...]], list[tuple[bytes, tuple[int, ...]]]]:
    """The rules by a word that every text with one of their hints has; else by the hint itself."""
    words: dict[bytes, tuple[int, ...]] = {}
    pieces: dict[bytes, tuple[int, ...]] = {}
    for number, rule in enumerate(RULES):
        for hint in () if rule.pattern else rule.words or rule.hints:
            word = hint if rule.words else _whole_word(hint)
            kind, key = (words, word) if word else (pieces, hint)
            kind[key.encode()] = (*kind.get(key.encode(), ()), number)
    return words, list(pieces.items())


@functools.cache
def _encoded_hints() -> list[tuple[Rule, tuple[bytes, ...]]]:
    return [(rule, tuple(hint.encode() for hint in rule.hints)) for rule in RULES]


@functools.cache
def _by_pattern() -> list[tuple[int, tuple[bytes, ...], Pattern]]:
    """The rules with an expression: their number, their hints and the expression."""
    return [(number, hints, rule.pattern) for number, (rule, hints) in enumerate(_encoded_hints()) if rule.pattern]


def _whole_word(hint: str) -> str:
    """The first word of a hint, if the hint says that it ends there; a rule asks itself where it begins."""
    rest = hint.lstrip(_SIGNS)
    length = len(rest) - len(rest.lstrip(_ALNUM))
    return rest[:length] if 2 <= length < len(rest) else ""
