"""Hostile output: no exception, no hang, and a complete deny denies, with anything around it."""

import json
import random
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from billhook.agents import AGENTS, DIALECTS
from billhook.core.answers import NOTHING, Decision, Exit, Reply, Status
from strategies import SAMPLES, names, sample

GATED = sample("PreToolUse")
SEEDS = ("claude", "spec", "claw", "claw-text", "lesson")
DENIES: list[dict[str, Any]] = [
    {"decision": "block", "reason": "no"},
    {"decision": "block"},
    {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny"}},
    {
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": 'a "quoted" } reason { with braces é \u4e2d \U0001f600',
        },
        "systemMessage": "m",
    },
    {"continue": False, "stopReason": "over"},
    {"success": True, "block": True, "blockReason": "no"},
    {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow"}, "decision": "block"},
]
ENDS: list[dict[str, Any]] = [
    *({"code": code} for code in (0, 0, 0, 1, 2, 3, 126, 127, 255)),
    *({"signal": signal} for signal in (6, 9, 11, 15)),
    {"timed_out": True},
]

BANNERS = [
    b"Now using node v20\n",
    b'{"level":"info","msg":"shim"}\n',
    b"it's \"quoted\n",
    b"{",
    b'{"',
    b'{"a":',
    b"[[[",
    b"}}}",
    b"\\",
    b'"',
    b"\xff\xfe\x00",
    b"\x1b[31mred\x1b[0m",
    b"\xef\xbb\xbf",
    b"{}",
    b"null",
    b'{"decision":"approve"}\n',
    b'{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow"}}',
    b"\0\0",
    b"```json\n",
    b"data: ",
    b"\r\n\r\n",
]


def garbage(dice: random.Random) -> bytes:
    kind = dice.randrange(4)
    if kind == 0:
        return dice.choice(BANNERS)
    if kind == 1:
        return dice.randbytes(dice.randrange(40))
    if kind == 2:
        return bytes(dice.choices(b'{}[]":,\\ntruefalse0 \n', k=dice.randrange(60)))
    return dice.choice(BANNERS) * dice.randrange(1, 50)


def spaced(dice: random.Random, document: dict[str, Any]) -> str:
    return json.dumps(document, ensure_ascii=dice.random() < 0.5, indent=dice.choice([None, None, 2, "\t"]))


def escaped(dice: random.Random, document: dict[str, Any]) -> str:
    """The same document with letters written as escapes."""
    text = json.dumps(document, ensure_ascii=False)
    return "".join(f"\\u{ord(c):04x}" if c.isascii() and c.isalpha() and c not in "truefalsn" else c for c in text)


def doubled(dice: random.Random, document: dict[str, Any]) -> str:
    """The deny and its opposite under the same key."""
    text = json.dumps(document)
    if text.startswith('{"decision": "block"'):
        other, key = '"approve"', '"decision"'
    elif text.startswith('{"continue": false'):
        other, key = "true", '"continue"'
    else:
        key = text[1 : text.index(":")]
        other = text[text.index(":") + 1 : -1].replace("deny", "allow") if text.count(":") == 3 else "null"
    return f"{{{key}: {other}, {text[1:]}" if dice.random() < 0.5 else f"{text[:-1]}, {key}: {other}}}"


def with_field(dice: random.Random, document: dict[str, Any]) -> str:
    """A field that only a lenient reader takes."""
    text = json.dumps(document)
    depth = dice.choice([1, 10, 64, 65, 200, 900, 1000, 5000, 100_000])
    field = dice.choice(["NaN", "-Infinity", "1e999", "7" * 5000, "[" * depth + "]" * depth, '"a\nb"', '"\\ud800"'])
    return f'{{"x": {field}, {text[1:]}' if dice.random() < 0.5 else f'{text[:-1]}, "x": {field}}}'


def nested(dice: random.Random, document: dict[str, Any]) -> str:
    """Inside something that is not one document."""
    depth = dice.choice([1, 2, 63, 64, 100, 1000, 100_000])
    opening, closing = dice.choice([("[", "]"), ("{", "}"), ('{"a":[', "]}"), ("[{", "}]")])
    return opening * depth + json.dumps(document) + closing * dice.choice([0, depth, depth + 1]) + "x"


SPEAKERS: list[Callable[[random.Random, dict[str, Any]], str]] = [
    *(spaced, spaced, spaced, spaced, spaced, spaced, escaped, escaped, doubled, doubled, with_field, nested)
]


def hostile(dice: random.Random) -> tuple[bytes, bool]:
    """Some output, and whether it contains a complete deny."""
    text = dice.choice(SPEAKERS)(dice, dice.choice(DENIES))
    document = text.encode("utf-8", "surrogatepass")
    kind = dice.randrange(10)
    if kind < 5:
        return garbage(dice) + document + garbage(dice), True
    if kind == 5:
        return document, True
    if kind == 6:
        return text.encode(dice.choice(["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-8-sig"]), "replace"), True
    if kind == 7:
        return document[: dice.randrange(len(document))], False  # cut
    if kind == 8:
        mutated = bytearray(document)
        for _ in range(dice.randrange(1, 4)):
            mutated[dice.randrange(len(mutated))] = dice.randrange(256)
        return bytes(mutated), False
    return garbage(dice) + garbage(dice) + garbage(dice), False


def read(name: str, stdout: bytes, end: dict[str, Any]) -> Reply:
    return DIALECTS[name].read_exit(GATED, Exit(stdout=stdout, stderr=b"e", **end))


@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 12))])
def test_a_whole_deny_denies_in_any_garbage(seed: int) -> None:
    """12,000 generated outputs, 4,000 of them always, each through the seeds' dialects and every tenth through all: a
    whole deny is never lost."""
    dice = random.Random(seed)
    for turn in range(1000):
        stdout, holds_deny = hostile(dice)
        end = dice.choice(ENDS)
        for name in DIALECTS if turn % 10 == 0 else SEEDS:
            reply = read(name, stdout, end)
            assert not holds_deny or (reply.status is Status.OK and reply.answer.objects), (name, end, stdout[:2000])


@settings(max_examples=500, deadline=None)
@given(names, st.binary(max_size=200), st.sampled_from(ENDS), st.sampled_from(list(DIALECTS)))
def test_any_bytes_are_read(event: str, stdout: bytes, end: dict[str, Any], name: str) -> None:
    """Whatever a child prints on whatever event, there is a reply."""
    reply = DIALECTS[name].read_exit(sample(event), Exit(stdout=stdout, stderr=stdout[::-1], **end))

    assert isinstance(reply, Reply)


@pytest.mark.parametrize("end", ENDS[3:], ids=str)
@pytest.mark.parametrize("name", DIALECTS)
def test_a_deny_document_denies_however_the_hook_ended(name: str, end: dict[str, Any]) -> None:
    """With any exit code, signal or timeout, a complete deny on stdout denies."""
    for document in DENIES:
        reply = read(name, json.dumps(document).encode(), end)
        assert reply.status is Status.OK and reply.answer.objects


@pytest.mark.parametrize("name", DIALECTS)
def test_an_allow_document_does_not_count_when_the_hook_was_ended(name: str) -> None:
    """Output of a hook that was killed or timed out counts only if it objects."""
    allow = {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow"}}
    for end in ({"signal": 9}, {"timed_out": True}):
        reply = read(name, json.dumps(allow).encode(), end)
        assert (reply.answer, reply.status is Status.OK) == (NOTHING, False)


DENY = b'{"decision":"block","reason":"no"}'
MIB = 1 << 20
LARGE: dict[str, tuple[bytes, bool]] = {
    "1 MiB of {": (b"{" * MIB, False),
    "1 MiB of [": (b"[" * MIB, False),
    '1 MiB of {"': (b'{"' * (MIB // 2), False),
    '1 MiB of {"a":': (b'{"a":' * (MIB // 5), False),
    "1 MiB of quotes": (b'{"' + b'"' * MIB, False),
    "1 MiB of backslashes": (b'{"' + b"\\" * MIB, False),
    "1 MiB of NUL": (b"{" + b"\0" * MIB, False),
    "100,000 documents": (b'{"a":1}' * 100_000, False),
    "100,000 keys": (b"{" + b",".join(b'"k%d":1' % n for n in range(100_000)) + b"}", False),
    "40,000 documents that nearly deny": (b'{"x":"decision"}' * 40_000, False),
    "braces around a deny": (b"{" * (MIB // 2) + DENY + b"}" * (MIB // 2), True),
    "open objects before a deny": (b'{"a":' * (MIB // 6) + DENY, True),
    "open strings before a deny": (b'{"' * (MIB // 2 - 100) + DENY, True),
    "lines of braces before a deny": (b'{"\n' * (MIB // 3 - 100) + DENY, True),
    "text, then braces, then a deny": (b"x" * (MIB * 7 // 8) + b'{"' * (MIB // 17) + DENY, True),
    "documents before a deny": (b'{"a":1}' * 100_000 + DENY, True),
    "halves of a deny before a deny": (b'{"decision":"block",' * 50_000 + DENY, True),
    "a deny before 1 MiB": (DENY + b"x" * MIB, True),
    "a deny with 100,000 other keys": (b"{" + b'"k%d":1,' * 100_000 % tuple(range(100_000)) + DENY[1:], True),
    "a deny with 100,000 levels": (b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"," + DENY[1:], True),
    "a deny inside 100,000 levels": (b"[" * 100_000 + DENY + b"]" * 100_000, True),
    "a deny inside 1,000 objects": (b'{"a":' * 1000 + DENY + b"}" * 1000, True),
    "a deny in UTF-16 after 1 MiB": (b" \0" * (MIB // 2) + DENY.decode().encode("utf-16-le"), True),
}


@pytest.mark.parametrize("what", LARGE)
@pytest.mark.parametrize("name", ["claude", "claw", "lesson"])
def test_a_megabyte_of_anything_is_read_in_bounded_time(name: str, what: str) -> None:
    """The largest output that is kept takes about a second at most, and a deny in it denies."""
    stdout, holds_deny = LARGE[what]
    began = time.process_time()
    reply = read(name, stdout, {"code": 0})

    assert time.process_time() - began < 5  # a fraction of a second, and tests beside it don't count
    assert (reply.status is Status.OK and reply.answer.objects) == holds_deny


@pytest.mark.parametrize(
    "stdout",
    [
        pytest.param(b'{"decision":"block","reason":"no"', id="cut"),
        pytest.param(b'{"decision":"block",,"reason":"no"}', id="a comma too many"),
        pytest.param(b"{'decision':'block'}", id="single quotes"),
        pytest.param(b'{"decision":"approve"}{"decision":"approve"}', id="two documents that approve"),
        pytest.param(b'{"a":NaN}', id="NaN"),
        pytest.param(b'{"a":1,"a":2}', id="duplicate keys"),
        pytest.param(b"{" * 100, id="braces"),
    ],
)
@pytest.mark.parametrize("name", ["claude", "claw", "claw-text", "lesson"])
def test_what_tried_to_be_json_is_a_failure_not_feedback(name: str, stdout: bytes) -> None:
    """Anything that looks like JSON and is not one valid document is a failure; in the dialects in which text is
    feedback, if it has a key of the protocol in it."""
    reply = read(name, stdout, {"code": 0})
    if name != "claude" and b"decision" not in stdout:
        assert (reply.status, reply.answer.objects) == (Status.OK, False)
        return

    assert (reply.status, reply.answer) == (Status.FAILED, NOTHING)
    assert reply.error.startswith("stdout is not one JSON document")


@pytest.mark.parametrize("names", [SEEDS, pytest.param([*AGENTS][1:], marks=pytest.mark.slow)], ids=["seeds", "agents"])
@pytest.mark.parametrize("event", SAMPLES)
def test_no_garbage_deny_is_lost_on_any_event_that_gates(event: str, names: tuple[str, ...]) -> None:
    """On each event that waits for an answer, its own deny document is found in garbage, too."""
    if not sample(event).gates:
        return
    reported: dict[str, Any] = {"decision": "block", "reason": "no"}
    if event == "PermissionRequest":
        reported = {"hookSpecificOutput": {"hookEventName": event, "decision": {"behavior": "deny", "message": "no"}}}
    for stdout in (b"banner\n%s", b'{"a":1}%s', b"%s}", b"{" * 600_000 + b'"%s', b'{"a":' * 30_000 + b"%s"):
        for name in names:
            ended = Exit(code=0, stdout=stdout.replace(b"%s", json.dumps(reported).encode()))
            reply = DIALECTS[name].read_exit(sample(event), ended)
            assert reply.answer.decision is Decision.DENY, (name, stdout[:20])
