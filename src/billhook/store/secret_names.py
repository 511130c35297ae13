"""Which names stand for secrets: `password`, `API_KEY`, `clientSecret`, `x-auth-token`; not `max_tokens`, `author`.

A name is taken apart into words, however it is written (snake, camel, kebab, dots, spaces), and judged by whole words.
docs/redaction.md prints these lists, and a test keeps the two together.
"""

import functools
from collections.abc import Iterable
from typing import Final

from billhook.later import pattern


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


class Names:
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
