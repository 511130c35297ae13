"""Which names stand for secrets, and which searches are worth their time: most events have no word that secrets have.

The whole event is looked at once, as encoded JSON: its words against the words that rules know, in one comparison of
sets. That is much quicker than looking for each prefix in turn.
"""

import functools
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import msgspec

from billhook.core.lazy import pattern
from billhook.store.secrets.shapes import (
    KEY_BODIES,
    PATTERNS,
    SHAPES,
    SecretPattern,
    Span,
    key_bodies,
    matching,
    private_keys,
    seen,
    shaped,
)


class SecretSearch(msgspec.Struct, frozen=True):
    """A search, the pieces of text without one of which it finds nothing, and words that come with each of them."""

    find: Callable[[str], Iterator[Span]]
    hints: tuple[str, ...]
    words: tuple[str, ...] = ()
    shown: str = ""  # how documents show what it finds
    looks_at: tuple[str, ...] = ()  # the pieces of text at each of which it looks, if that are not its hints
    pattern: SecretPattern | None = None  # an expression that tells more than hints, which other texts have as well

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
        from billhook.store.secrets import commands

        found: Iterator[Span] = getattr(commands, name)(text)
        return found

    return find


FLAGS_RULE: Final = SecretSearch(
    _later("flags"),
    tuple(dict.fromkeys(program for flag in FLAGS for program in flag.programs)),
    _PROGRAM_WORDS,
    looks_at=tuple(dict.fromkeys(flag.flag for flag in FLAGS)),
)
_READER_WORDS: Final = ("stdin", "token", "chpasswd", "sudo", "secret", "secrets")
_POSITIONAL: Final = "htpasswd -b file bob x, vault login x"
COMMANDS: Final = (
    FLAGS_RULE,
    SecretSearch(_later("clustered"), ("curl",), ("curl",), "curl -sSu bob:x"),
    SecretSearch(_later("addresses"), ("://",), (), "https://bob:x@host"),
    SecretSearch(_later("fed"), ("<<<",), (), "docker login --password-stdin <<< x"),
    SecretSearch(_later("echoed"), READERS, _READER_WORDS, "echo x | docker login --password-stdin"),
    SecretSearch(_later("registry_logins"), ("auth",), ("auth",), '"auth": "eDp4eDp4eA=="'),
    SecretSearch(_later("positional"), ("htpasswd", "vault login"), ("htpasswd", "vault"), _POSITIONAL),
    SecretSearch(_later("telegram_tokens"), (":AA",), (), "123456789:AA..."),
    SecretSearch(_later("identified"), ("IDENTIFIED ", "identified "), (), "IDENTIFIED BY 'x'"),
    SecretSearch(_later("kubernetes_secrets"), ("Secret",), ("Secret",), "kind: Secret"),
)
RULES: Final = (
    *(SecretSearch(functools.partial(shaped, shape), shape.prefixes) for shape in SHAPES),
    *COMMANDS,
    SecretSearch(private_keys, ("-----BEGIN ",)),
    SecretSearch(key_bodies, ("-----END ", *KEY_BODIES)),
    *(SecretSearch(functools.partial(matching, one), one.hints, pattern=None if one.rare else one) for one in PATTERNS),
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


def worth_trying(
    data: bytes | None, triggers: Sequence[tuple[str, bytes]]
) -> tuple[Sequence[SecretSearch], Sequence[str]]:
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


def _rules(data: bytes) -> Sequence[SecretSearch]:
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


def _keys(rule: SecretSearch) -> Iterator[tuple[str, str]]:
    """Each hint of a rule, and the word that comes with it, if any."""
    if rule.words:
        return zip(rule.words, rule.words, strict=True)
    return ((hint, "" if rule.pattern else _whole_word(hint)) for hint in rule.hints)


def _whole_word(hint: str) -> str:
    """The first word of a hint, if the hint says that it ends there; a rule asks itself where it begins."""
    rest = hint.lstrip(_SIGNS)
    length = len(rest) - len(rest.lstrip(_ALNUM))
    return rest[:length] if 2 <= length < len(rest) else ""


# Which names stand for secrets:


def words(text: str) -> frozenset[str]:
    """A set of words, written as a text."""
    return frozenset(text.split())


WORDS: Final = words(
    "password passwords passwd passphrase passphrases passcode secret secrets token apikey apikeys credential "
    "credentials creds cookie cookies authorization jwt pwd authtoken accesstoken refreshtoken bearertoken apitoken "
    "idtoken identitytoken secretkey accesskey privatekey sessionkey authkey sshpass rediscli"
)
"""One of these words in a name makes it a secret's."""
ENDINGS: Final = ("password", "passwd", "passphrase", "apikey")
"""So does a word that ends so: `PGPASSWORD`, `dbpassword`."""
BEFORE_KEY: Final = words(
    "api access secret private session signing signature encryption decryption auth master account storage app "
    "application license shared preshared service hmac aes jwt role admin deploy functions subscription fernet client"
)
"""`key` and `keys` after one of these: `private_key`, `AccountKey`."""
HARMLESS_BEFORE_KEY: Final = words(
    "public publishable pub primary foreign sort partition cache hash map lookup index unique composite group routing "
    "row column object bucket idempotency correlation message event record item dedup deduplication shard document "
    "doc entity host known content file blob image asset block tree site restore build commit surrogate natural range "
    "etag lock"
)
"""`key` with one of these words in the name is not secret. Any other is if what it is given looks random."""
BEFORE_PASS: Final = words(
    "db database user admin root smtp mail email mysql pg postgres redis ftp sftp ldap proxy auth login http basic ssh "
    "sudo vault wifi keystore app account service registry docker git mongo mqtt amqp imap vpn api client "
    "server master become ansible"
)
"""`pass` after one of these: `DB_PASS`."""
BEFORE_TOKENS: Final = words("access auth refresh api bearer")
"""`tokens` after one of these. Other `tokens` are counted, not kept secret."""
HARMLESS_LAST: Final = words(
    "file files path paths dir directory folder filename name names id ids identifier count counts counter "
    "limit limits length len size type types kind url uri endpoint host port domain env var variable expiry "
    "expires expire expired expiration ttl age at time timestamp date format field fields column policy "
    "policies rule rules required optional enabled disabled valid invalid validity verified validation "
    "validator stdin prompt manager store provider version usage used budget index position offset stream ref "
    "refs reference arn class bucket source scope scopes mode min max error errors status exists strength "
    "check checker generator handler factory algorithm alg issuer audience rotation reset changed updated "
    "created missing page form label placeholder title description regex pattern patterns scan scanner "
    "scanning detector detection guard hook option options config configuration settings setting params "
    "parameters schema test tests spec parser lexer map embedding embeddings rate price cost costs secure "
    "samesite httponly banner consent jar prefix suffix chars owner user username redacted per stdout review "
    "protection mgr end start begin update method methods"
)
"""A name that ends with one of these is about a secret and is none: `password_file`, `token_count`."""
HARMLESS_FIRST: Final = words("has is no use uses show require requires needs forgot enable allow skip")
"""A name that begins with one of these is a switch: `has_token`."""
BEFORE_TOKEN_HARMLESS: Final = words(
    "next page continuation pad eos bos unk sep mask cls first last current per cancellation prev previous "
    "special stop lookahead sync"
)
"""`token` after one of these is a place in a list or a piece of text: `next_token`, `eos_token`."""
TRIGGERS: Final = ("pass", "pwd", "secret", "token", "key", "cred", "cookie", "authorization", "jwt", "rediscli", "psk")
"""Every name that counts has one of these in it, in small letters."""

_HARMLESS_NAMES: Final = frozenset({"PWD", "OLDPWD", "Pass", "PASS", "keys", "key"})
_SPLIT: Final = pattern(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_LONGEST: Final = 256  # no name that anybody gave is longer; only its end is looked at


@functools.lru_cache(maxsize=4096)
def words_of(name: str) -> tuple[str, ...]:
    """The words of a name in small letters, numbers left out."""
    return tuple(word.lower() for word in _SPLIT.findall(name[-_LONGEST:]))


@functools.lru_cache(maxsize=4096)
def is_secret(name: str) -> bool:
    """Whether what has this name is secret."""
    words = words_of(name)
    if not words or name in _HARMLESS_NAMES or words[-1] in HARMLESS_LAST or words[0] in HARMLESS_FIRST:
        return False
    if "." in name and "token" not in words_of(name.rpartition(".")[2]):
        words = tuple(word for word in words if word != "token")  # `token.kind` is a part of a parser's token
    return words == ("psk",) or any(_counts(words[at - 1] if at else "", word) for at, word in enumerate(words))


@functools.lru_cache(maxsize=4096)
def may_be_key(name: str) -> bool:
    """Whether what has this name is secret if it looks random: `STRIPE_KEY`, `fernetKey`; not `CACHE_KEY`."""
    words = words_of(name)
    return len(words) > 1 and words[-1] == "key" and HARMLESS_BEFORE_KEY.isdisjoint(words)


def _counts(before: str, word: str) -> bool:
    if word in {"key", "keys"}:
        return before in BEFORE_KEY
    if word == "pass":
        return before in BEFORE_PASS
    if word == "tokens":
        return before in BEFORE_TOKENS
    if word == "token":
        return before not in BEFORE_TOKEN_HARMLESS
    return word in WORDS or word.endswith(ENDINGS)


class SecretNames:
    """The names that count for one user: ours and the ones that the user added. Lives as long as its redactor."""

    def __init__(self, more: Iterable[str] = ()) -> None:
        added = [words_of(name) for name in more]
        self._added = frozenset("".join(words) for words in added if words)
        longest = {max(words, key=len) for words in added if words}
        triggers = (*TRIGGERS, *sorted(longest.difference(TRIGGERS)))
        self.triggers = tuple((trigger, trigger.encode()) for trigger in triggers)
        """What to look for in small letters: a text without any of them names no secret."""

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        return is_secret(name) or (bool(self._added) and "".join(words_of(name)) in self._added)
