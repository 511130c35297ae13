"""The names of secrets, and which searches are necessary: most events contain no hint of a secret.

Every search has an expression (`look`) for text that it may match. All of them are one RE2 set, which is compared with
the whole event, as encoded JSON, in one pass.
"""

import functools
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import msgspec

from billhook.core.lazy import pattern
from billhook.store.secrets.shapes import (
    KEY_BODIES,
    PATTERNS,
    SHAPES,
    WORD_BEGINS,
    SecretPattern,
    Shape,
    Span,
    either,
    key_bodies,
    matching,
    private_keys,
    shaped,
)


class SecretSearch(msgspec.Struct, frozen=True):
    """A search, and the hints without which it finds nothing."""

    find: Callable[[str], Iterator[Span]]
    hints: tuple[str, ...]  # pieces of text without one of which it finds nothing
    look: str = ""  # an expression that matches wherever it finds something; empty: one of the hints
    shown: str = ""  # an example for the documentation
    looks_at: tuple[str, ...] = ()  # the pieces of text at which it starts, if these are not its hints
    kind: Shape | SecretPattern | None = None  # the row of a table that it searches for

    @property
    def pieces(self) -> tuple[str, ...]:
        return self.looks_at or self.hints

    @property
    def expression(self) -> str:
        """The expression that decides whether the search is necessary."""
        return (self.kind.look if self.kind else self.look) or either(self.hints)

    def may_find(self, text: str) -> bool:
        """The same without RE2: an expression is used only if most texts contain the hints."""
        if not any(hint in text for hint in self.hints):
            return False
        return not isinstance(self.kind, SecretPattern) or bool(re.search(self.expression, text))


READERS: Final = (
    *("--password-stdin", "--with-token", "chpasswd", "sudo -S", "passwd --stdin", "--pass-stdin"),
    *("secret put", "secret create", "secret set", "secrets create", "secrets versions add"),
)
"""Programs that read a password from standard input."""


class Flag(msgspec.Struct, frozen=True):
    """A flag whose value is secret, in calls of some programs."""

    programs: tuple[str, ...]
    flag: str
    shown: str  # an example for the documentation
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
    """A search of `commands`, which is imported only when it is needed: most calls don't need it."""

    def find(text: str) -> Iterator[Span]:
        from billhook.store.secrets import commands

        found: Iterator[Span] = getattr(commands, name)(text)
        return found

    return find


_PROGRAMS: Final = tuple(dict.fromkeys(program for flag in FLAGS for program in flag.programs))
FLAGS_RULE: Final = SecretSearch(
    _later("flags"),
    _PROGRAMS,
    WORD_BEGINS + either(_PROGRAMS),
    looks_at=tuple(dict.fromkeys(flag.flag for flag in FLAGS)),
)
_POSITIONAL: Final = "htpasswd -b file bob x, vault login x"
COMMANDS: Final = (
    FLAGS_RULE,
    SecretSearch(_later("clustered"), ("curl",), WORD_BEGINS + "curl", "curl -sSu bob:x"),
    SecretSearch(_later("addresses"), ("://",), "://[^\\s\"'`<>]*@", "https://bob:x@host"),
    SecretSearch(_later("fed"), ("<<<",), shown="docker login --password-stdin <<< x"),
    SecretSearch(_later("echoed"), READERS, shown="echo x | docker login --password-stdin"),
    SecretSearch(_later("registry_logins"), ("auth",), "[\"'_]auth", '"auth": "eDp4eDp4eA=="'),
    SecretSearch(_later("positional"), ("htpasswd", "vault login"), shown=_POSITIONAL),
    SecretSearch(_later("telegram_tokens"), (":AA",), shown="123456789:AA..."),
    SecretSearch(_later("identified"), ("IDENTIFIED ", "identified "), shown="IDENTIFIED BY 'x'"),
    SecretSearch(_later("kubernetes_secrets"), ("Secret",), shown="kind: Secret"),
)
RULES: Final = (
    *(SecretSearch(functools.partial(shaped, one), one.prefixes, kind=one) for one in SHAPES),
    *COMMANDS,
    SecretSearch(private_keys, ("-----BEGIN ",)),
    SecretSearch(key_bodies, ("-----END ", *KEY_BODIES)),
    *(SecretSearch(functools.partial(matching, one), one.hints, kind=one) for one in PATTERNS),
)


@functools.lru_cache(maxsize=8)
def _looks(triggers: tuple[str, ...]) -> Callable[[bytes], list[int]]:
    import re2

    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.log_errors = False
    looks: Any = re2.Set.SearchSet(options)
    for rule in RULES:
        looks.Add(rule.expression)
    for trigger in triggers:
        looks.Add(f"(?i:{trigger})")
    looks.Add(r"\z")  # only the end of the text: an expression that matches everywhere would be slower
    looks.Compile()
    match: Callable[[bytes], list[int]] = looks.Match
    return match


# The names of secrets:


def words(text: str) -> frozenset[str]:
    """A set of words from one string."""
    return frozenset(text.split())


WORDS: Final = words(
    "password passwords passwd passphrase passphrases passcode secret secrets token apikey apikeys credential "
    "credentials creds cookie cookies authorization jwt pwd authtoken accesstoken refreshtoken bearertoken apitoken "
    "idtoken identitytoken secretkey accesskey privatekey sessionkey authkey sshpass rediscli"
)
"""A name that contains one of these words is the name of a secret."""
ENDINGS: Final = ("password", "passwd", "passphrase", "apikey")
"""The same for a word with one of these endings: `PGPASSWORD`, `dbpassword`."""
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
"""`key` with one of these words in the name is not secret. Any other key is secret if its value looks random."""
BEFORE_PASS: Final = words(
    "db database user admin root smtp mail email mysql pg postgres redis ftp sftp ldap proxy auth login http basic ssh "
    "sudo vault wifi keystore app account service registry docker git mongo mqtt amqp imap vpn api client "
    "server master become ansible"
)
"""`pass` after one of these: `DB_PASS`."""
BEFORE_TOKENS: Final = words("access auth refresh api bearer")
"""`tokens` after one of these. Other `tokens` are counts, not secrets."""
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
"""A name that ends with one of these is about a secret, but its value is not secret: `password_file`, `token_count`."""
HARMLESS_FIRST: Final = words("has is no use uses show require requires needs forgot enable allow skip")
"""A name that begins with one of these is a switch: `has_token`."""
BEFORE_TOKEN_HARMLESS: Final = words(
    "next page continuation pad eos bos unk sep mask cls first last current per cancellation prev previous "
    "special stop lookahead sync"
)
"""`token` after one of these is a position in a list or a piece of text: `next_token`, `eos_token`."""
TRIGGERS: Final = ("pass", "pwd", "secret", "token", "key", "cred", "cookie", "authorization", "jwt", "rediscli", "psk")
"""Every name of a secret contains one of these, in lower case."""

_HARMLESS_NAMES: Final = frozenset({"PWD", "OLDPWD", "Pass", "PASS", "keys", "key"})
_SPLIT: Final = pattern(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_LONGEST: Final = 256  # characters of a name; of longer ones only the end is checked


@functools.lru_cache(maxsize=4096)
def words_of(name: str) -> tuple[str, ...]:
    """The words of a name in lower case, without numbers."""
    return tuple(word.lower() for word in _SPLIT.findall(name[-_LONGEST:]))


@functools.lru_cache(maxsize=4096)
def is_secret(name: str) -> bool:
    """Whether the value of this name is secret."""
    words = words_of(name)
    if not words or name in _HARMLESS_NAMES or words[-1] in HARMLESS_LAST or words[0] in HARMLESS_FIRST:
        return False
    if "." in name and "token" not in words_of(name.rpartition(".")[2]):
        words = tuple(word for word in words if word != "token")  # `token.kind` is a part of a parser's token
    return words == ("psk",) or any(_counts(words[at - 1] if at else "", word) for at, word in enumerate(words))


@functools.lru_cache(maxsize=4096)
def may_be_key(name: str) -> bool:
    """Whether the value of this name is secret if it looks random: `STRIPE_KEY`, `fernetKey`; not `CACHE_KEY`."""
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
    """The names of secrets for one user: the built-in ones and the user's. Lives as long as its redactor."""

    def __init__(self, more: Iterable[str] = ()) -> None:
        added = [words_of(name) for name in more]
        self._added = frozenset("".join(words) for words in added if words)
        longest = {max(words, key=len) for words in added if words}
        self.triggers = (*TRIGGERS, *sorted(longest.difference(TRIGGERS)))
        """Triggers in lower case: text without any of them contains no name of a secret."""

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        return is_secret(name) or (bool(self._added) and "".join(words_of(name)) in self._added)

    @functools.cached_property
    def looks(self) -> Callable[[bytes], list[int]]:
        """Returns the numbers of the rules and triggers that may match a string; the last number matches every text."""
        return _looks(self.triggers)
