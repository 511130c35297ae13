"""What well-known tokens look like, wherever they stand: by the prefixes that their makers gave them for that.

Every search jumps from prefix to prefix and goes on behind what it looked at: linear, whatever the text is.
docs/redaction.md prints this table, and a test keeps the two together.
"""

import functools
import re
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

Span = tuple[int, int]


class Shape(msgspec.Struct, frozen=True):
    """A kind of token: one of the prefixes, then at least `least` characters of `body` that pass `check`."""

    name: str
    prefixes: tuple[str, ...]
    least: int
    body: str = "A-Za-z0-9_-"
    check: Callable[[str], bool] = lambda body: True


def _random(body: str) -> bool:
    """Long stretches with a digit are random; `sk-container-id-1` is a name."""
    return any(len(part) >= 16 and _mixed(part) for part in body.replace("_", "-").split("-"))


def _mixed(body: str) -> bool:
    return not body.isalpha() or not (body.islower() or body.isupper())


def _has_digit(body: str) -> bool:
    return any(letter.isdigit() for letter in body)


def _has_digit_and_letter(body: str) -> bool:
    return _has_digit(body) and not body.isdigit()


def _two_parts(body: str) -> bool:
    parts = body.split(".")
    return len(parts) >= 2 and len(parts[0]) >= 8 and len(parts[1]) >= 8


_ALNUM: Final = "A-Za-z0-9"
_HEX: Final = "0-9a-f"

SHAPES: Final = (
    Shape("Anthropic, OpenAI, OpenRouter", ("sk-ant-", "sk-proj-", "sk-svcacct-", "sk-admin-", "sk-or-"), 16),
    Shape("OpenAI and others", ("sk-",), 16, check=_random),
    Shape("GitHub", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), 20, _ALNUM),
    Shape("GitHub, fine-grained", ("github_pat_",), 20, "A-Za-z0-9_"),
    Shape("GitLab", ("glpat-", "glptt-", "gldt-", "glrt-", "glcbt-", "glsoat-"), 16, "A-Za-z0-9_.-"),
    Shape("Slack", ("xoxa-", "xoxb-", "xoxe-", "xoxe.", "xoxo-", "xoxp-", "xoxr-", "xoxs-", "xapp-"), 10,
          "A-Za-z0-9.-", _has_digit),
    Shape("AWS key id", ("AKIA", "ASIA"), 16, "A-Z0-9", lambda body: len(body) == 16),
    Shape("Google API key", ("AIza",), 30),
    Shape("Google OAuth", ("ya29.", "GOCSPX-"), 16, "A-Za-z0-9_.-"),
    Shape("JWT", ("eyJ",), 17, "A-Za-z0-9_.-", _two_parts),
    Shape("npm", ("npm_",), 30, _ALNUM),
    Shape("PyPI", ("pypi-",), 32, check=_random),
    Shape("Hugging Face", ("hf_",), 20, _ALNUM, _mixed),
    Shape("Stripe", ("sk_live_", "rk_live_", "sk_test_", "rk_test_", "whsec_"), 16, "A-Za-z0-9+/="),
    Shape("SendGrid", ("SG.",), 32, "A-Za-z0-9_.-", _two_parts),
    Shape("Shopify", ("shpat_", "shpss_", "shpca_", "shppa_"), 32, _HEX),
    Shape("DigitalOcean", ("dop_v1_", "doo_v1_", "dor_v1_"), 40, _HEX),
    Shape("Databricks", ("dapi",), 32, "0-9a-f-"),
    Shape("HashiCorp Vault", ("hvs.", "hvb."), 24),
    Shape("Docker", ("dckr_pat_",), 20),
    Shape("Groq, xAI, Perplexity, Replicate", ("gsk_", "xai-", "pplx-", "r8_"), 30, _ALNUM, _has_digit),
    Shape("Linear, Notion, Supabase, Netlify", ("lin_api_", "ntn_", "sbp_", "nfp_"), 30, _ALNUM, _has_digit),
    Shape("Grafana, New Relic, Sentry", ("glsa_", "glc_", "NRAK-", "sntrys_", "sntryu_"), 24, "A-Za-z0-9_+/=",
          _has_digit),
    Shape("Atlassian", ("ATATT3", "ATCTT3"), 40, "A-Za-z0-9_=.-"),
    Shape("Postman", ("PMAK-",), 30, "0-9a-f-"),
    Shape("age", ("AGE-SECRET-KEY-1",), 40, "A-Z0-9"),
    Shape("Slack web hook", ("hooks.slack.com/services/", "hooks.slack.com/workflows/"), 20, "A-Za-z0-9/"),
    Shape("Discord web hook", ("discord.com/api/webhooks/", "discordapp.com/api/webhooks/"), 40, "A-Za-z0-9_/-"),
    Shape("A bearer token", ("Bearer ", "bearer ", "BEARER "), 12, "A-Za-z0-9._~+/=-", _has_digit_and_letter),
    Shape("Azure signature", ("?sig=", "&sig=", ";sig="), 20, "A-Za-z0-9%+/=_-"),
    Shape("Signed address of AWS and Google", ("X-Amz-Signature=", "X-Amz-Credential=", "X-Goog-Signature=",
          "X-Goog-Credential="), 16, "A-Za-z0-9%+/=_.@-"),
)  # fmt: skip
"""Each kind of token. The prefix of the last five kinds is kept, the rest of the token is not."""

_PREFIX_KEPT: Final = frozenset(shape.name for shape in SHAPES[-5:])
_SIGNS: Final = "?&;"
"""A prefix that begins with one of these says itself that a word begins."""
_SECRET_AFTER_ID: Final = (
    r"[\s,:;|\"'\\]{1,8}+(?:[A-Za-z_ ]{1,40}+[\"'\\]{0,4}+[\s=:,|\"'\\]{1,8}+)?([A-Za-z0-9/+]{40})"
)


def shaped(shape: Shape, text: str) -> Iterator[Span]:
    """Where such tokens stand in a text."""
    body = _body(shape.body)
    for prefix in shape.prefixes:
        at = text.find(prefix)
        while at >= 0:
            start = at + len(prefix)
            end = start
            if prefix[0] in _SIGNS or begins(text, at):
                found = body.match(text, start)
                end = found.end() if found else start
                tail = text[start:end].rstrip(".")
                if len(tail) >= shape.least and not _goes_on(text, end) and shape.check(tail):
                    yield (start if shape.name in _PREFIX_KEPT else at), start + len(tail)
                    if shape.name == "AWS key id":
                        yield from _secret_after(text, end)
            at = text.find(prefix, end)


def begins(text: str, at: int) -> bool:
    """Whether a word begins here: also after `\\n` as JSON writes it, `%3D`, a terminal's colour."""
    before = text[at - 1] if at else " "
    if not (before.isascii() and before.isalnum()):
        return True
    if (at >= 2 and text[at - 2] == "\\" and before in "nrt") or (at >= 3 and text[at - 3] == "%"):
        return True
    _, bracket, colour = text[max(0, at - 9) : at - 1].rpartition("[")
    return before == "m" and bool(bracket) and not colour.strip("0123456789;")


def _goes_on(text: str, end: int) -> bool:
    """Whether letters or digits follow that the token can't have: then it is something else."""
    after = text[end : end + 1]
    return after.isascii() and after.isalnum()


def _secret_after(text: str, end: int) -> Iterator[Span]:
    """The secret that often follows an AWS key id directly has no shape of its own."""
    found = _pattern(_SECRET_AFTER_ID).match(text, end)
    if found and not text[found.end() : found.end() + 1].isalnum():
        yield found.span(1)


@functools.cache
def _body(characters: str) -> re.Pattern[str]:
    return re.compile(f"[{characters}]*+")


@functools.cache
def _pattern(source: str) -> re.Pattern[str]:
    return re.compile(source)


def private_keys(text: str) -> Iterator[Span]:
    """Blocks of private keys, from BEGIN to END; without an END as far as it reads like one."""
    begin = _pattern(_BEGIN)
    next_end = 0
    at = text.find("-----BEGIN ")
    while at >= 0:
        after = at + 11
        found = begin.match(text, at)
        if found:
            after = found.end()
            next_end = _next_end(text, after, next_end)
            end = _end_of_block(text, after, next_end)
            if end > after:
                yield at, end
                after = end
        at = text.find("-----BEGIN ", after)


def _end_of_block(text: str, after: int, next_end: int) -> int:
    """Where the block ends whose BEGIN line ends at `after`; there, if nothing in it looks like a key."""
    closed = _pattern(_END).match(text, next_end) if next_end - after <= _LONGEST_BLOCK else None
    if closed and text.find("-----BEGIN ", after, next_end) < 0:
        return closed.end() if _pattern(_KEY_LIKE).search(text, after, next_end) else after
    read = _pattern(_BODY).match(text, after)
    if not read or not (read[1] or _pattern(_KEY_LIKE).search(text, after, read.end())):
        return after
    return after + len(read[0].rstrip(" \t\r\n\"'\\,|>-"))


def _next_end(text: str, after: int, known: int) -> int:
    """Where the next END stands, the length of the text if there is none; what is known is not searched again."""
    if known >= after:
        return known
    found = text.find("-----END ", after)
    return len(text) if found < 0 else found


_LONGEST_BLOCK: Final = 64 << 10
_BEGIN: Final = r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
_END: Final = r"-----END [A-Z0-9 ]{1,80}-----"
_KEY_LIKE: Final = r"[A-Za-z0-9+/=]{24}"
_FILL: Final = r"(?:\\++[nrt]|[\s\"'+,|>→-]|\\)"
_BODY: Final = (
    rf"(?:{_FILL}|(?:Proc-Type|DEK-Info|Version|Comment):[^\n\\]*+|[0-9]{{1,6}}+(?=[\t→:|])[\t→:|]"
    rf"|[A-Za-z0-9+/=]{{24,}}+)*+([A-Za-z0-9+/=]{{1,23}}+(?=\s*+(?:$|\.\.\.|…|\[)|[\"'\\]))?"
)
