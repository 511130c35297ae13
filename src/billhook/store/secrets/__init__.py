"""Recognising secrets: the shapes of well-known tokens, the names of secrets, and which searches are necessary.

A shape is found by the prefix that its provider chose for this purpose. Every search jumps from prefix to prefix and
continues after the text that it checked, so it is linear for any text. docs/redaction.md contains the table, and a test
compares the two.

Most events contain no hint of a secret. Every search has an expression (`look`) for text that it may match. All of them
are one RE2 set, which is compared with the whole event, as encoded JSON, in one pass.
"""

import functools
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Any, Final

import msgspec

from billhook.core.lazy import pattern

Span = tuple[int, int]


class Shape(msgspec.Struct, frozen=True):
    """A kind of token: one of the prefixes, then at least `least` characters of `body` that pass `check`."""

    name: str
    prefixes: tuple[str, ...]
    least: int
    body: str = "A-Za-z0-9_-"
    check: Callable[[str], bool] = lambda body: True
    keeps_prefix: bool = False  # for URLs and headers: only the text after the prefix is redacted

    @property
    def look(self) -> str:
        """A short expression that matches wherever there is such a token."""
        begins = "" if self.prefixes[0][0] in _SHAPE_SIGNS else WORD_BEGINS
        return f"{begins}{either(self.prefixes)}[{self.body}]{{{min(self.least, 8)}}}"


def either(texts: Iterable[str]) -> str:
    """An expression that matches one of some texts."""
    return f"(?:{'|'.join(map(re.escape, texts))})"


WORD_BEGINS: Final = r"(?:\A|[^A-Za-z0-9]|\\[nrtbf]|\\u[0-9a-fA-F]{4}|%(?s:.{2,7})|\[[0-9;]{0,7}m)"
"""Characters that may come before a word as in `begins`, also in encoded JSON."""


def _is_random(body: str) -> bool:
    """Long parts with a digit are random; `sk-container-id-1` is a name."""
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


def looks_random(text: str) -> bool:
    """Whether it looks like a generated key: letters and digits alternate more often than in words, paths and dates."""
    if not 16 <= len(text) <= 4096 or not _ENCODED.fullmatch(text):
        return False
    text = text[:_ENOUGH]
    kinds = ["digit" if one.isdigit() else "capital" if one.isupper() else "small" for one in text if one.isalnum()]
    turns = sum(kind != before for kind, before in pairwise(kinds))
    return len(set(kinds)) > 1 and "digit" in kinds and turns >= len(text) / 5


_ENCODED: Final = pattern(r"[A-Za-z0-9+/_=.-]++")
_ENOUGH: Final = 64  # characters that are enough to recognise random text

_ALNUM: Final = "A-Za-z0-9"
_HEX: Final = "0-9a-f"
_BASE64: Final = "A-Za-z0-9+/="

SHAPES: Final = (
    Shape("Anthropic, OpenAI, OpenRouter", ("sk-ant-", "sk-proj-", "sk-svcacct-", "sk-admin-", "sk-or-"), 16),
    Shape("OpenAI and others", ("sk-",), 16, check=_is_random),
    Shape("Langfuse", ("sk-lf-",), 30, "0-9a-f-"),
    Shape("ElevenLabs", ("sk_",), 40, _HEX),
    Shape("Cerebras, NVIDIA, Pinecone, Tavily", ("csk-", "nvapi-", "pcsk_", "tvly-"), 24, check=_has_digit),
    Shape("LangSmith", ("lsv2_pt_", "lsv2_sk_"), 32, "0-9a-f_"),
    Shape("Firecrawl, E2B", ("fc-", "e2b_"), 32, _HEX),
    Shape("GitHub", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), 20, _ALNUM),
    Shape("GitHub, fine-grained", ("github_pat_",), 20, "A-Za-z0-9_"),
    Shape("GitLab", ("glpat-", "glptt-", "gldt-", "glrt-", "glcbt-", "glsoat-", "glagent-", "glft-", "glimt-",
          "glffct-", "gloas-", "GR1348941"), 16, "A-Za-z0-9_.-"),
    Shape("Slack", ("xoxa-", "xoxb-", "xoxc-", "xoxd-", "xoxe-", "xoxe.", "xoxo-", "xoxp-", "xoxr-", "xoxs-", "xapp-"),
          10, "A-Za-z0-9.%-", _has_digit),
    Shape("AWS key id", ("AKIA", "ASIA"), 16, "A-Z0-9", lambda body: len(body) == 16),
    Shape("AWS session token", ("IQoJb3JpZ2lu", "FQoGZXIvYXdz", "FwoGZXIvYXdz"), 40, _BASE64),
    Shape("AWS Bedrock", ("ABSKQmVkcm9ja",), 40, _BASE64),
    Shape("Alibaba", ("LTAI",), 16, _ALNUM, _has_digit_and_letter),
    Shape("Google API key", ("AIza",), 30),
    Shape("Google OAuth", ("ya29.", "GOCSPX-"), 16, "A-Za-z0-9_.-"),
    Shape("Google refresh token", ("1//0",), 30),
    Shape("JWT", ("eyJ",), 17, "A-Za-z0-9_.-", _two_parts),
    Shape("Grafana, older", ("eyJrIjoi",), 40, _BASE64),
    Shape("npm", ("npm_",), 30, _ALNUM),
    Shape("PyPI", ("pypi-",), 32, check=_is_random),
    Shape("RubyGems", ("rubygems_",), 40, _HEX),
    Shape("Clojars, ReadMe, Neon", ("CLOJARS_", "rdme_", "napi_"), 40, "a-z0-9"),
    Shape("Hugging Face", ("hf_",), 20, _ALNUM, _mixed),
    Shape("Stripe", ("sk_live_", "rk_live_", "sk_test_", "rk_test_", "whsec_"), 16, "A-Za-z0-9+/="),
    Shape("Square", ("sq0atp-", "sq0csp-", "sq0csb-"), 20),
    Shape("Square, Facebook", ("EAA",), 50, check=_has_digit),
    Shape("SendGrid", ("SG.",), 32, "A-Za-z0-9_.-", _two_parts),
    Shape("Brevo", ("xkeysib-", "xsmtpsib-"), 40, "A-Za-z0-9-"),
    Shape("Shopify", ("shpat_", "shpss_", "shpca_", "shppa_"), 32, _HEX),
    Shape("Shippo", ("shippo_live_", "shippo_test_"), 32, _HEX),
    Shape("EasyPost", ("EZAK", "EZTK"), 50, _ALNUM),
    Shape("DigitalOcean", ("dop_v1_", "doo_v1_", "dor_v1_"), 40, _HEX),
    Shape("Heroku", ("HRKU-",), 30, check=_has_digit),
    Shape("Fly", ("fo1_", "fm1a_", "fm1r_", "fm2_"), 40, "A-Za-z0-9+/=_-"),
    Shape("Doppler", ("dp.pt.", "dp.st.", "dp.ct.", "dp.sa.", "dp.scim.", "dp.audit."), 40, "A-Za-z0-9_.-"),
    Shape("PlanetScale", ("pscale_pw_", "pscale_tkn_", "pscale_oauth_"), 30, "A-Za-z0-9_=.-"),
    Shape("Vercel, Render, Prefect, PostHog", ("vcp_", "vck_", "vci_", "rnd_", "pnu_", "pnb_", "phx_"), 24, _ALNUM,
          _has_digit),
    Shape("Vercel blob", ("vercel_blob_rw_",), 30, "A-Za-z0-9_"),
    Shape("Databricks", ("dapi",), 32, "0-9a-f-"),
    Shape("HashiCorp Vault", ("hvs.", "hvb.", "hvr."), 24),
    Shape("Docker", ("dckr_pat_", "dckr_oat_"), 20),
    Shape("Artifactory", ("AKCp", "cmVmdGtu"), 56, _ALNUM),
    Shape("HubSpot", ("pat-na1-", "pat-na2-", "pat-eu1-", "pat-ap1-"), 36, "0-9a-f-"),
    Shape("Duffel, Yandex", ("duffel_live_", "duffel_test_", "AQVN"), 32, check=_has_digit),
    Shape("Groq, xAI, Perplexity, Replicate, Infracost", ("gsk_", "xai-", "pplx-", "r8_", "ico-"), 30, _ALNUM,
          _has_digit),
    Shape("Linear, Notion, Supabase, Netlify", ("lin_api_", "lin_oauth_", "ntn_", "sbp_", "nfp_"), 30, _ALNUM,
          _has_digit),
    Shape("Notion, older", ("secret_",), 43, _ALNUM, lambda body: len(body) == 43 and _has_digit(body)),
    Shape("Supabase secret", ("sb_secret_",), 20),
    Shape("Grafana, New Relic, Sentry", ("glsa_", "glc_", "NRAK-", "NRII-", "sntrys_", "sntryu_"), 24,
          "A-Za-z0-9_+/=-", _has_digit),
    Shape("Dynatrace", ("dt0c01.", "dt0s16."), 60, "A-Z0-9."),
    Shape("Atlassian", ("ATATT3", "ATCTT3", "ATBB", "ATTA"), 32, "A-Za-z0-9_=.-", _has_digit),
    Shape("Postman", ("PMAK-",), 30, "0-9a-f-"),
    Shape("Figma, Contentful, Typeform", ("figd_", "CFPAT-", "tfp_"), 40, "A-Za-z0-9_.=-"),
    Shape("Pulumi, Sonar, Buildkite", ("pul-", "sqp_", "squ_", "sqa_", "bkua_"), 40, _HEX),
    Shape("Sourcegraph, CircleCI", ("sgp_", "CCIPAT_", "CCIPRJ_"), 40, "A-Za-z0-9_"),
    Shape("Tailscale", ("tskey-",), 24, "A-Za-z0-9-", _has_digit),
    Shape("1Password", ("ops_eyJ",), 100, "A-Za-z0-9+/=_-"),
    Shape("age", ("AGE-SECRET-KEY-1",), 40, "A-Z0-9"),
    Shape("A password's hash", ("$2a$", "$2b$", "$2y$", "$5$", "$6$", "$y$", "$argon2id$"), 30, "A-Za-z0-9./$=,+"),
    Shape("Slack web hook", ("slack.com/services/", "slack.com/workflows/", "slack.com/triggers/"), 20,
          "A-Za-z0-9/", keeps_prefix=True),
    Shape("Discord web hook", ("discord.com/api/webhooks/", "discordapp.com/api/webhooks/",
          *(f"discord.com/api/v{version}/webhooks/" for version in range(6, 12))), 40, "A-Za-z0-9_/-",
          keeps_prefix=True),
    Shape("Other web hooks", ("zapier.com/hooks/catch/", "office.com/webhookb2/",
          "office.com/webhook/", "ifttt.com/trigger/", "feishu.cn/open-apis/bot/v2/hook/",
          "larksuite.com/open-apis/bot/v2/hook/"), 12, "A-Za-z0-9/_@-", keeps_prefix=True),
    Shape("A bearer token", ("Bearer ", "bearer ", "BEARER "), 12, "A-Za-z0-9._~+/=-", _has_digit_and_letter,
          keeps_prefix=True),
    Shape("Azure signature", ("?sig=", "&sig=", ";sig="), 20, "A-Za-z0-9%+/=_-", keeps_prefix=True),
    Shape("Signed address of AWS and Google", ("X-Amz-Signature=", "X-Amz-Credential=", "X-Goog-Signature=",
          "X-Goog-Credential="), 16, "A-Za-z0-9%+/=_.@-", keeps_prefix=True),
    Shape("GitHub's mask", ("::add-mask::",), 4, "!-~", keeps_prefix=True),
)  # fmt: skip
"""Each kind of token. A row belongs here if its prefix is rare in other texts, otherwise into `PATTERNS`."""

_SHAPE_SIGNS: Final = "?&;"  # a prefix that begins with one of these needs no check for the beginning of a word
_AFTER_KEY_ID: Final = pattern(
    r"[\s,:;|\"'\\]{1,8}+(?:[A-Za-z_ ]{1,40}+[\"'\\]{0,4}+[\s=:,|\"'\\]{1,8}+)?([A-Za-z0-9/+]{40})(?![^\W_])"
)
"""The secret that often follows an AWS key id directly; it has no prefix."""


def shaped(shape: Shape, text: str) -> Iterator[Span]:
    """Where such tokens are in a string."""
    body = _body(shape.body)
    for prefix in shape.prefixes:
        at = text.find(prefix)
        while at >= 0:
            end = start = at + len(prefix)
            if prefix[0] in _SHAPE_SIGNS or begins(text, at):
                found = body.match(text, start)
                end = found.end() if found else start
                tail = text[start:end].rstrip(".")
                if (
                    len(tail) >= shape.least
                    and tail.strip("xX")
                    and not token_continues(text, end)
                    and shape.check(tail)
                ):
                    yield (start if shape.keeps_prefix else at), start + len(tail)
                    if shape.name == "AWS key id" and (after := _AFTER_KEY_ID.match(text, end)):
                        yield after.span(1)
            at = text.find(prefix, end)


def places(text: str, piece: str) -> Iterator[int]:
    """Where a piece of text is."""
    at = text.find(piece)
    while at >= 0:
        yield at
        at = text.find(piece, at + len(piece))


def begins(text: str, at: int) -> bool:
    """Whether a word begins here: also after `\\n` in JSON, `%3D`, or a terminal's colour code."""
    before = text[at - 1] if at else " "
    if not (before.isascii() and before.isalnum()):
        return True
    if (at >= 2 and text[at - 2] == "\\" and before in "nrt") or (at >= 3 and text[at - 3] == "%"):
        return True
    _, bracket, colour = text[max(0, at - 9) : at - 1].rpartition("[")
    return before == "m" and bool(bracket) and not colour.strip("0123456789;")


def token_continues(text: str, end: int) -> bool:
    """Whether letters or digits follow that the token can't have: then it is something else."""
    after = text[end : end + 1]
    return after.isascii() and after.isalnum()


@functools.cache
def _body(characters: str) -> re.Pattern[str]:
    return re.compile(f"[{characters}]*+")


def private_keys(text: str) -> Iterator[Span]:
    """Blocks of private keys, from BEGIN to END; without an END as far as the text looks like a key."""
    begin = _BEGIN
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


def key_bodies(text: str) -> Iterator[Span]:
    """Private keys without their BEGIN line: by the beginning of their encoding, or backwards from their END line."""
    for prefix in KEY_BODIES:
        at = text.find(prefix)
        while at >= 0:
            read = _BODY.match(text, at) if begins(text, at) and _is_private(prefix, text, at) else None
            if read and read.end() - at >= 40:
                yield at, at + len(read[0].rstrip(_AROUND_A_BODY))
            at = text.find(prefix, max(read.end() if read else 0, at + len(prefix)))
    yield from _bodies_before_end(text)


def _is_private(prefix: str, text: str, at: int) -> bool:
    """Certificates and public keys also begin with `MII`, and any block with `LS0t`: those are not redacted."""
    if prefix == "MII":
        return bool(_DER_VERSION.match(text, at))
    return prefix != _ENCODED_BEGIN or any(one in text[at : at + 80] for one in _ENCODED_PRIVATE)


def _bodies_before_end(text: str) -> Iterator[Span]:
    done = 0
    at = text.find("-----END ")
    while at >= 0:
        if _END_PRIVATE.match(text, at):
            read = _BODY_BACK.match(text[max(done, at - _LONGEST_BLOCK) : at][::-1])
            body = read[0].rstrip(_AROUND_A_BODY.rstrip("-")) if read else ""
            if len(body) >= 24:
                yield at - len(body), at
        done = at + 9
        at = text.find("-----END ", done)


def _end_of_block(text: str, after: int, next_end: int) -> int:
    """The end of the block whose BEGIN line ends at `after`; `after` itself, if nothing in it looks like a key."""
    closed = _END.match(text, next_end) if next_end - after <= _LONGEST_BLOCK else None
    if closed and text.find("-----BEGIN ", after, next_end) < 0:
        return closed.end() if _KEY_LIKE.search(text, after, next_end) else after
    read = _BODY.match(text, after)
    if not read or not (read[1] or _KEY_LIKE.search(text, after, read.end())):
        return after
    return after + len(read[0].rstrip(_AROUND_A_BODY))


def _next_end(text: str, after: int, known: int) -> int:
    """The position of the next END, or the length of the text; a known position is not searched again."""
    if known >= after:
        return known
    found = text.find("-----END ", after)
    return len(text) if found < 0 else found


_LONGEST_BLOCK: Final = 64 << 10
_AROUND_A_BODY: Final = " \t\r\n\"'\\,|>-"
_BEGIN: Final = pattern(r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
_END: Final = pattern(r"-----END [A-Z0-9 ]{1,80}-----")
_END_PRIVATE: Final = pattern(r"-----END (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
_ENCODED_BEGIN: Final = "LS0tLS1CRUdJTi"
_ENCODED_PRIVATE: Final = ("UFJJVkFURSBLRV", "BSSVZBVEUgS0VZ", "QUklWQVRFIEtFW")
"""`PRIVATE KEY` in base64, for each offset."""
KEY_BODIES: Final = (
    *("MII", "MHcCAQEE", "MHQCAQEE", "MIGkAgEB", "MIHcAgEB", "MIGHAgEA", "MIG2AgEA", "MIHuAgEA", "MIGEAgEA"),
    *("MC4CAQAwBQYDK2V", "MFECAQEwBQYDK2V", "MFMCAQEwBQYDK2V", "b3BlbnNzaC1rZXktdjE", _ENCODED_BEGIN),
)
"""The beginnings of private keys in base64: RSA, EC, Ed25519, OpenSSH's format, and a whole PEM file."""
_DER_VERSION: Final = pattern(r"MII[A-Za-z0-9+/]{2}[AQgw]IBA")  # only private keys have a version there
_KEY_LIKE: Final = pattern(r"[A-Za-z0-9+/=]{24}")
_FILL: Final = r"(?:\\++[nrt]|[\s\"'+,|>→-]|\\)"
_BODY: Final = pattern(
    rf"(?:{_FILL}|(?:Proc-Type|DEK-Info|Version|Comment):[^\n\\]*+|[0-9]{{1,6}}+(?=[\t→:|])[\t→:|]"
    rf"|[A-Za-z0-9+/=]{{24,}}+)*+([A-Za-z0-9+/=]{{1,23}}+(?=\s*+(?:$|\.\.\.|…|\[)|[\"'\\]))?"
)
_BODY_BACK: Final = pattern(
    r"(?:[nrt]\\++|[\s\"'+,|>→\\])*+(?:=?[A-Za-z0-9]{4}=(?=\s|n\\))?+(?:[A-Za-z0-9+/=]{1,39}+(?![A-Za-z0-9+/=]))?+"
    r"(?:[nrt]\\++|[\s\"'+,|>→\\]|[\t→:|][0-9]{1,6}+(?=\s)|[A-Za-z0-9+/=]{40,}+)*+"
)
"""A block, read from its end to its beginning: only the last line may be short."""


# Secrets without a telling prefix:


class SecretPattern(msgspec.Struct, frozen=True):
    """A kind of secret: hints, at least one of which it contains, and an expression. The first group of the expression
    is redacted, without a group the whole match; `check` may reject a match."""

    name: str
    hints: tuple[str, ...]
    expression: str
    check: Callable[[str], bool] = lambda secret: True

    rare: bool = False  # whether its hints are rare in other texts: then a hint is enough to start the search

    @property
    def look(self) -> str:
        """A shorter expression that matches wherever the full one does: RE2 is slow with many long repetitions."""
        if self.rare:
            return ""
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
    """Whether it looks random. Percent escapes don't matter."""
    return looks_random(secret.replace("%", "/").replace("~", "-"))


PATTERNS: Final = (
    SecretPattern("Discord bot", ("MT", "Mj", "Mz", "MD", "ND", "NT", "Nj", "Nz", "OD", "OT"),
            r"[MNO][DTjz][AEIMQUYcgk][wxyz0-5][A-Za-z0-9]{18,24}\.[A-Za-z0-9_-]{6,7}\.[A-Za-z0-9_-]{27,40}"),
    SecretPattern("Discord MFA", ("mfa.",), r"mfa\.[A-Za-z0-9_-]{80,}", rare=True),
    SecretPattern("Twilio key", ("SK",), "SK[0-9a-f]{32}"),
    SecretPattern("Twilio token after its account", ("AC",),
            r"AC[0-9a-f]{32}[\s,:;|\"'\\=]{1,8}(?:[A-Za-z_]{1,24}[\s=:\"'\\]{1,8})?([0-9a-f]{32})"),
    SecretPattern("Mailchimp", tuple(f"-us{digit}" for digit in range(1, 10)), "[0-9a-f]{32}-us[0-9]{1,2}"),
    SecretPattern("Mailgun", ("key-",), "key-[0-9a-f]{32}"),
    SecretPattern("Resend", ("re_",), "re_[A-Za-z0-9]{8}_[A-Za-z0-9]{20,}"),
    SecretPattern("Terraform Cloud", (".atlasv1.",), r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{40,}", rare=True),
    SecretPattern("Facebook app", tuple(f"{digit}{bar}" for bar in ("|", "%7C") for digit in range(10)),
            r"[0-9]{15,16}(?:\||%7C)([A-Za-z0-9_-]{27,40})", looks_random),
    SecretPattern("Asana", ("0/", "1/", "2/"), "[0-9]/[0-9]{13,20}(?:/[0-9]{13,20})?:[0-9a-f]{32}"),
    SecretPattern("Airtable", ("pat",), r"pat[A-Za-z0-9]{14}\.[0-9a-f]{64}"),
    SecretPattern("Azure client secret", ("Q~",), "[A-Za-z0-9_~.-]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}", rare=True),
    SecretPattern("Azure DevOps and others", ("JQQJ99",), "[A-Za-z0-9]{52}JQQJ99[A-Za-z0-9]{20,30}", rare=True),
    SecretPattern("Azure storage and others", ("+ASt", "+ABa", "+AMC", "ACDb"),
            r"[A-Za-z0-9+/]{76}(?:\+ASt|\+ABa|\+AMC|ACDb)[A-Za-z0-9+/]{6}==", rare=True),
    SecretPattern("Azure functions", ("AzFu",), "[A-Za-z0-9_-]{44}AzFu[A-Za-z0-9_-]{8}==", rare=True),
    SecretPattern("New Relic license", ("NRAL",), "[0-9a-f]{32,36}(?:FFFF)?NRAL", rare=True),
    SecretPattern("Firebase messaging", (":APA91b",), "[A-Za-z0-9_-]{11,22}:APA91b[A-Za-z0-9_-]{100,}", rare=True),
    SecretPattern("LaunchDarkly, Plaid", ("sdk-", "api-", "mob-", "access-"),
            f"(?:sdk|api|mob|access-(?:production|sandbox|development))-{_UUID}"),
    SecretPattern("Cloudflare origin", ("v1.0-",), r"v1\.0-[0-9a-f]{24}-[0-9a-f]{100,}"),
    SecretPattern("crates.io", ("cio",), "cio[A-Za-z0-9]{32}", looks_random),
    SecretPattern("NuGet", ("oy2",), "oy2[a-z0-9]{43}"),
    SecretPattern("Dropbox", ("sl.",), r"sl\.[A-Za-z0-9_.=-]{100,}"),
    SecretPattern("OpenShift", ("sha256~",), "sha256~[A-Za-z0-9_-]{43}"),
    SecretPattern("Session in an address", ("ession", "ESSION", "SESS", "sess", "sid=", "SID="),
            f"{_IN_ADDRESS}(?i:j?session_?-?id|phpsessid|session|sess|sid){_VALUE}", _random),
    SecretPattern("Session of a web server", ("SESSID=", "SESSIONID=", "SessionId=", "connect.sid=", "sessionid=",
            "_session="),
            f"(?:PHPSESSID|JSESSIONID|ASP\\.NET_SessionId|connect\\.sid|sessionid|_session){_VALUE}", _random),
    SecretPattern("Session in a header", ("ession-I",),
            r"[Xx]-[Ss]ession-I[Dd]:\s{0,4}([A-Za-z0-9._~%+/=-]{16,})", _random),
    SecretPattern("Fernet", ("ernet",),
            r"[Ff]ernet\W{1,8}(?:key\s{0,2}=\s{0,2})?b?\\{0,7}[\"']?([A-Za-z0-9_-]{43}=)"),
    SecretPattern("Personal access token by its name", ("_PAT",),
            r"_PAT\\{0,7}[\"']?\s{0,2}[=:]\s{0,2}\\{0,7}[\"']?([A-Za-z0-9_-]{20,})", looks_random),
    SecretPattern("Key in an address", ("key=", "code=", "ignature=", "appid=", "auth=", "hmac=", "sign="),
            f"{_IN_ADDRESS}(?:key|code|[sS]ignature|appid|auth|hmac|sign){_VALUE}", _random),
    SecretPattern("Password file of PostgreSQL", (":54", ":*:", ".pgpass"),
            r":(?:[0-9]{4,5}|\*):[A-Za-z_*][^:\s\"']{0,60}:[A-Za-z_*][^:\s\"']{0,60}:([^:\s\"'\\]{3,})"),
    SecretPattern("JSON web key", ("kty",),
            r"[\"'](?:d|p|q|dp|dq|qi|k)\\{0,7}[\"']\s{0,8}:\s{0,8}\\{0,7}[\"']([A-Za-z0-9_-]{20,})", rare=True),
    SecretPattern("PuTTY key", ("Private-Lines:",),
            r"Private-Lines: [0-9]{1,3}((?:\s|\\{1,7}[rn]|[A-Za-z0-9+/=]{20,100})+)", rare=True),
    SecretPattern("wandb login", ("wandb login",), r"wandb login (?:-[^\s]{1,40} ){0,4}([0-9a-f]{40})", rare=True),
)  # fmt: skip
"""Each kind. A row belongs here if its hints are common in other texts, or if it has no prefix."""


def matching(kind: SecretPattern, text: str) -> Iterator[Span]:
    """Where such secrets are in a string."""
    for found in _compiled(kind.expression).finditer(text):
        start, end = found.span(found.re.groups)
        if text[found.start()] in _SIGNS or begins(text, found.start()):
            end = start + len(text[start:end].rstrip(".\\\r\n "))
            if not token_continues(text, end) and kind.check(text[start:end]):
                yield start, end


_SIGNS: Final = "?&;#:_\"'"  # an expression that begins with one of these needs no check for the beginning of a word
_BEGINS: Final = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt])|(?<=%[0-9A-Fa-f]{2})|(?<=[0-9]m))"
"""RE2 has no lookbehind. For `re` it prevents an attempt at each letter of a long word."""


@functools.cache
def _compiled(source: str) -> re.Pattern[str]:
    return re.compile(_BEGINS + source if _LEADING.match(source) else source)


_LEADING: Final = pattern(r"^(\[[^]]*\])\{[0-9,]+\}")
_LONG_REPETITION: Final = pattern(r"\{([0-9]{1,3}),(?:[6-9]|[0-9]{2,3})?\}|\{([6-9]|[0-9]{2,3})\}")


# The names of secrets, and which searches are necessary.


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


def _lazy_search(name: str) -> Callable[[str], Iterator[Span]]:
    """A search of `commands`, which is imported only when it is needed: most calls don't need it."""

    def find(text: str) -> Iterator[Span]:
        from billhook.store.secrets import commands

        found: Iterator[Span] = getattr(commands, name)(text)
        return found

    return find


_PROGRAMS: Final = tuple(dict.fromkeys(program for flag in FLAGS for program in flag.programs))
FLAGS_RULE: Final = SecretSearch(
    _lazy_search("flags"),
    _PROGRAMS,
    WORD_BEGINS + either(_PROGRAMS),
    looks_at=tuple(dict.fromkeys(flag.flag for flag in FLAGS)),
)
COMMANDS: Final = (
    FLAGS_RULE,
    SecretSearch(_lazy_search("clustered"), ("curl",), WORD_BEGINS + "curl", "curl -sSu bob:x"),
    SecretSearch(_lazy_search("addresses"), ("://",), "://[^\\s\"'`<>]*@", "https://bob:x@host"),
    SecretSearch(_lazy_search("fed"), ("<<<",), shown="docker login --password-stdin <<< x"),
    SecretSearch(_lazy_search("echoed"), READERS, shown="echo x | docker login --password-stdin"),
    SecretSearch(_lazy_search("registry_logins"), ("auth",), "[\"'_]auth", '"auth": "eDp4eDp4eA=="'),
    SecretSearch(
        _lazy_search("positional"), ("htpasswd", "vault login"), shown="htpasswd -b file bob x, vault login x"
    ),
    SecretSearch(_lazy_search("telegram_tokens"), (":AA",), shown="123456789:AA..."),
    SecretSearch(_lazy_search("identified"), ("IDENTIFIED ", "identified "), shown="IDENTIFIED BY 'x'"),
    SecretSearch(_lazy_search("kubernetes_secrets"), ("Secret",), shown="kind: Secret"),
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
