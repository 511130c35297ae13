"""Secrets whose beginning says nothing: by an expression for the whole of them, or by what is around them.

An expression is searched only where one of its hints is, and works for `re` and for RE2: every repetition is bounded
or at the end, so the search is linear. docs/redaction.md prints this table, and a test keeps the two together.
"""

import functools
import re
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from billhook.later import pattern
from billhook.store.secret_shapes import Span, begins, goes_on, looks_random


class Pattern(msgspec.Struct, frozen=True):
    """A kind of secret: the pieces of text without one of which there is none, and the expression for it.

    What its first group matches is taken out, without a group all of it; `check` may keep it.
    """

    name: str
    hints: tuple[str, ...]
    expression: str
    check: Callable[[str], bool] = lambda secret: True

    rare: bool = False  # whether its hints are rare in other texts: then nothing has to be looked at but them

    @property
    def look(self) -> str:
        """A short expression that matches wherever the other does: RE2 is slow with many long repetitions."""
        expression = _LEADING.sub(r"\1", self.expression)
        cut = _LONG_REPETITION.search(expression)
        if cut:
            least = int(cut[1] or cut[2])
            expression = expression[: cut.start()] + f"{{{min(least, 8)}}}"
        return expression + ")" * (expression.count("(") - expression.count(")"))


_UUID: Final = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_IN_ADDRESS: Final = "[?&;#](?:amp;)?"
_VALUE: Final = "=([A-Za-z0-9._~%+/=-]{16,})"


def _random(secret: str) -> bool:
    """Percent escapes are no reason to keep it."""
    return looks_random(secret.replace("%", "/").replace("~", "-"))


PATTERNS: Final = (
    Pattern("Discord bot", ("MT", "Mj", "Mz", "MD", "ND", "NT", "Nj", "Nz", "OD", "OT"),
            r"[MNO][DTjz][AEIMQUYcgk][wxyz0-5][A-Za-z0-9]{18,24}\.[A-Za-z0-9_-]{6,7}\.[A-Za-z0-9_-]{27,40}"),
    Pattern("Discord MFA", ("mfa.",), r"mfa\.[A-Za-z0-9_-]{80,}", rare=True),
    Pattern("Twilio key", ("SK",), "SK[0-9a-f]{32}"),
    Pattern("Twilio token after its account", ("AC",),
            r"AC[0-9a-f]{32}[\s,:;|\"'\\=]{1,8}(?:[A-Za-z_]{1,24}[\s=:\"'\\]{1,8})?([0-9a-f]{32})"),
    Pattern("Mailchimp", tuple(f"-us{digit}" for digit in range(1, 10)), "[0-9a-f]{32}-us[0-9]{1,2}"),
    Pattern("Mailgun", ("key-",), "key-[0-9a-f]{32}"),
    Pattern("Resend", ("re_",), "re_[A-Za-z0-9]{8}_[A-Za-z0-9]{20,}"),
    Pattern("Terraform Cloud", (".atlasv1.",), r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{40,}", rare=True),
    Pattern("Facebook app", tuple(f"{digit}{bar}" for bar in ("|", "%7C") for digit in range(10)),
            r"[0-9]{15,16}(?:\||%7C)([A-Za-z0-9_-]{27,40})", looks_random),
    Pattern("Asana", ("0/", "1/", "2/"), "[0-9]/[0-9]{13,20}(?:/[0-9]{13,20})?:[0-9a-f]{32}"),
    Pattern("Airtable", ("pat",), r"pat[A-Za-z0-9]{14}\.[0-9a-f]{64}"),
    Pattern("Azure client secret", ("Q~",), "[A-Za-z0-9_~.-]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}", rare=True),
    Pattern("Azure DevOps and others", ("JQQJ99",), "[A-Za-z0-9]{52}JQQJ99[A-Za-z0-9]{20,30}", rare=True),
    Pattern("Azure storage and others", ("+ASt", "+ABa", "+AMC", "ACDb"),
            r"[A-Za-z0-9+/]{76}(?:\+ASt|\+ABa|\+AMC|ACDb)[A-Za-z0-9+/]{6}==", rare=True),
    Pattern("Azure functions", ("AzFu",), "[A-Za-z0-9_-]{44}AzFu[A-Za-z0-9_-]{8}==", rare=True),
    Pattern("New Relic license", ("NRAL",), "[0-9a-f]{32,36}(?:FFFF)?NRAL", rare=True),
    Pattern("Firebase messaging", (":APA91b",), "[A-Za-z0-9_-]{11,22}:APA91b[A-Za-z0-9_-]{100,}", rare=True),
    Pattern("LaunchDarkly, Plaid", ("sdk-", "api-", "mob-", "access-"),
            f"(?:sdk|api|mob|access-(?:production|sandbox|development))-{_UUID}"),
    Pattern("Cloudflare origin", ("v1.0-",), r"v1\.0-[0-9a-f]{24}-[0-9a-f]{100,}"),
    Pattern("crates.io", ("cio",), "cio[A-Za-z0-9]{32}", looks_random),
    Pattern("NuGet", ("oy2",), "oy2[a-z0-9]{43}"),
    Pattern("Dropbox", ("sl.",), r"sl\.[A-Za-z0-9_.=-]{100,}"),
    Pattern("OpenShift", ("sha256~",), "sha256~[A-Za-z0-9_-]{43}"),
    Pattern("Session in an address", ("ession", "ESSION", "SESS", "sess", "sid=", "SID="),
            f"{_IN_ADDRESS}(?i:j?session_?-?id|phpsessid|session|sess|sid){_VALUE}", _random),
    Pattern("Session of a web server", ("SESSID=", "SESSIONID=", "SessionId=", "connect.sid=", "sessionid=",
            "_session="),
            f"(?:PHPSESSID|JSESSIONID|ASP\\.NET_SessionId|connect\\.sid|sessionid|_session){_VALUE}", _random),
    Pattern("Session in a header", ("ession-I",), r"[Xx]-[Ss]ession-I[Dd]:\s{0,4}([A-Za-z0-9._~%+/=-]{16,})", _random),
    Pattern("Fernet", ("ernet",),
            r"[Ff]ernet\W{1,8}(?:key\s{0,2}=\s{0,2})?b?\\{0,7}[\"']?([A-Za-z0-9_-]{43}=)"),
    Pattern("Personal access token by its name", ("_PAT",),
            r"_PAT\\{0,7}[\"']?\s{0,2}[=:]\s{0,2}\\{0,7}[\"']?([A-Za-z0-9_-]{20,})", looks_random),
    Pattern("Key in an address", ("key=", "code=", "ignature=", "appid=", "auth=", "hmac=", "sign="),
            f"{_IN_ADDRESS}(?:key|code|[sS]ignature|appid|auth|hmac|sign){_VALUE}", _random),
    Pattern("Password file of PostgreSQL", (":54", ":*:", ".pgpass"),
            r":(?:[0-9]{4,5}|\*):[A-Za-z_*][^:\s\"']{0,60}:[A-Za-z_*][^:\s\"']{0,60}:([^:\s\"'\\]{3,})"),
    Pattern("JSON web key", ("kty",),
            r"[\"'](?:d|p|q|dp|dq|qi|k)\\{0,7}[\"']\s{0,8}:\s{0,8}\\{0,7}[\"']([A-Za-z0-9_-]{20,})", rare=True),
    Pattern("PuTTY key", ("Private-Lines:",),
            r"Private-Lines: [0-9]{1,3}((?:\s|\\{1,7}[rn]|[A-Za-z0-9+/=]{20,100})+)", rare=True),
    Pattern("wandb login", ("wandb login",), r"wandb login (?:-[^\s]{1,40} ){0,4}([0-9a-f]{40})", rare=True),
)  # fmt: skip
"""Each kind. A row belongs here if its hints are common in other texts, or if it has no beginning of its own."""


def matching(kind: Pattern, text: str) -> Iterator[Span]:
    """Where such secrets are in a text."""
    for found in _compiled(kind.expression).finditer(text):
        start, end = found.span(found.re.groups)
        if text[found.start()] in _SIGNS or begins(text, found.start()):
            end = start + len(text[start:end].rstrip(".\\\r\n "))
            if not goes_on(text, end) and kind.check(text[start:end]):
                yield start, end


_SIGNS: Final = "?&;#:_\"'"  # an expression that matches one of these first says itself that a word begins
_WORD_BEGINS: Final = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt])|(?<=%[0-9A-Fa-f]{2})|(?<=[0-9]m))"
"""RE2 can't look behind; for `re` it keeps long runs of letters from being tried at each of them."""


@functools.cache
def seen(kind: Pattern) -> Callable[[bytes], object]:
    """Tells whether there may be one in encoded data."""
    return re.compile(kind.expression.encode()).search


@functools.cache
def _compiled(source: str) -> re.Pattern[str]:
    return re.compile(_WORD_BEGINS + source if _LEADING.match(source) else source)


_LEADING: Final = pattern(r"^(\[[^]]*\])\{[0-9,]+\}")
_LONG_REPETITION: Final = pattern(r"\{([0-9]{1,3}),(?:[6-9]|[0-9]{2,3})?\}|\{([6-9]|[0-9]{2,3})\}")
