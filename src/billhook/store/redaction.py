"""Redact secrets in the event log: a keyed digest replaces each.

A long text must not delay a verdict, so the work for one event is limited. The work is counted, not timed, so that the
same event always gives the same result. Text beyond the limit is redacted completely: nothing unsearched is written.
"""

import functools
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from billhook.core.lazy import lazy_module, pattern
from billhook.store.files import StoreError, create_once, read_bytes
from billhook.store.secrets import FLAGS_RULE, RULES, SecretNames, SecretSearch, Span, looks_random, may_be_key

if TYPE_CHECKING:
    import hashlib
else:
    hashlib = lazy_module("hashlib")

MOST_CHARACTERS: Final = 4_000_000  # of all texts of one event together
MOST_SECRETS: Final = 2_000  # that are redacted one by one
MOST_ITEMS: Final = 50_000  # of all lists and objects together
MOST_STEPS: Final = 200_000_000  # a step is a character that is compared with something: about a nanosecond
NAME_STEPS: Final = 6_000  # the cost of checking a word like `token` and the text after it
PIECE_STEPS: Final = 3_000  # the cost of checking a piece of text like `ghp_`
_SHORT: Final = 4096  # A string up to this length may use the whole budget; a longer one leaves some for the others.
_FEW: Final = 64


class RedactionBudget:
    """The remaining budget for one event. Lives as long as one call of the redactor."""

    def __init__(self) -> None:
        self.characters = MOST_CHARACTERS
        self.secrets = MOST_SECRETS
        self.items = MOST_ITEMS
        self.steps = MOST_STEPS

    def room(self, length: int) -> int:
        """How many characters of a string of this length may be searched; they are subtracted. Fewer than possible for
        a string that is too long, so that the result still fits if it is redacted again."""
        left = self.characters
        if length > (left if length <= _SHORT else left - left // 16):
            length = left - left // 8
        self.characters -= length
        return length

    def take_items(self, count: int) -> bool:
        """Whether a list or an object of so many items may be searched."""
        if count > (self.items if count <= _FEW else self.items - self.items // 16):
            return False
        self.items -= count
        return True

    def take_steps(self, steps: int, *, most: bool = False) -> bool:
        """Whether so many steps are left; `most`: an eighth is reserved for the other texts."""
        if steps > (self.steps - self.steps // 8 if most else self.steps):
            return False
        self.steps -= steps
        return True


# The key of the digests:

KEY_BYTES: Final = 32


def kept_key(root: Path, name: str = "redaction.key") -> bytes:
    """The user's key, created if it is missing: concurrent processes get the same one. Raises StoreError."""
    path = root / "billhook" / name
    read = functools.partial(read_bytes, path, KEY_BYTES, root=root, private=True)
    found = read()
    if found is None:
        create_once(path, os.urandom(KEY_BYTES), root=root)
    for _ in range(20):  # without hard links, another process may be about to write it
        found = found or read()
        if found:
            break
        time.sleep(0.005)
    if found is None or len(found) != KEY_BYTES:
        size = 0 if found is None else len(found)
        raise StoreError(
            f"the key has {size} bytes instead of {KEY_BYTES}", place=str(path), hint=f"remove it: rm {path}"
        )
    return found


@functools.cache
def own_key() -> bytes:
    """A key that only this process has."""
    return os.urandom(KEY_BYTES)


# Redaction:

TOO_LONG: Final = ", too long to search"  # in the mark of a string that was not searched
_MARKS: Final = pattern(rf"\[redacted [0-9]{{1,12}} chars [0-9a-f]{{12}}(?:{TOO_LONG})?\]")
_MARK_BEGINS: Final = "[redacted "
_SCHEMA: Final = frozenset(
    {"type", "title", "description", "format", "minLength", "maxLength", "pattern", "nullable", "required"}
)
"""An object with only these keys is a schema: it describes a secret and contains none."""
_NAME_FIELDS: Final = ("name", "key", "header", "field", "Name", "Key")
_HEADERS: Final = frozenset({"authorization", "proxy-authorization", "cookie", "set-cookie", "x-api-key"})
_ROUNDS: Final = 8  # more than any known text needs, including hostile ones
_LONG: Final = 64 << 10  # characters of a string that gets only two rounds: a hostile megabyte would take seconds
_SHORTEST: Final = 16  # characters of an object's key that could contain a secret
_LOOK: Final = 40  # steps per character for finding the rules that may match
_CALL: Final = 64  # steps of one comparison with a short text
_ARGUMENT: Final = 12_000
_MOST_FOUND: Final = 2 * MOST_SECRETS  # by one rule in one text, including marks
_WORTH_LOADING: Final = 16 << 10
"""Bytes from which on a search for each hint takes longer than loading the library that finds all of them at once."""
_LONGEST_WORD: Final = 512
"""Characters by which a string may be cut back to its last space, so that no part of a token is left."""


class RedactedValue(msgspec.Struct, frozen=True):
    """A value without its secrets, and how many texts were redacted."""

    value: Any
    texts: int


class Redactor:
    """Redacts secrets. Several threads may use it. Never raises for any value; a value that is already redacted is not
    changed. The key is read when the first secret is found."""

    def __init__(self, key: bytes | None = None, *, root: Path | None = None, more_keys: Iterable[str] = ()) -> None:
        self._key = key
        self._root = root
        self._names = SecretNames(more_keys)
        self.count = 0  # how many texts were redacted so far, by all calls
        self.problem: StoreError | None = None
        """Why the user's key can't be used. Then a key of this process is used: secrets are still redacted, but equal
        ones have equal digests only within this process."""

    def value(self, value: Any) -> Any:
        """A copy without its secrets; the value itself if it has none. Tuples may become lists."""
        return self.redacted(value).value

    def text(self, text: str) -> str:
        """Text without its secrets."""
        return str(self.redacted(text).value)

    def redacted(self, value: Any) -> RedactedValue:
        """As `value`, with the number of redacted texts."""
        data = _as_bytes(value)
        if data is not None and len(data) > MOST_CHARACTERS:
            data = None
        rules, triggers = possible_rules(data, self._names)
        if not rules and not triggers:
            return RedactedValue(value, 0)
        work = _Pass(self._digest, self._names, rules, triggers)
        copy = work.copied(value)
        self.count += work.count
        return RedactedValue(copy if work.count else value, work.count)

    def _digest(self, data: bytes) -> str:
        if self._key is None:
            self._key = self._found_key()
        return hashlib.blake2b(data, key=self._key[:64], digest_size=6).hexdigest()

    def _found_key(self) -> bytes:
        try:
            return own_key() if self._root is None else kept_key(self._root)
        except StoreError as error:
            self.problem = error
            return own_key()


def redactor(root: Path, *, more_keys: Iterable[str] = ()) -> Redactor:
    """A redactor with the user's key, `billhook/redaction.key` below `root`, which is created on first use."""
    return Redactor(root=root, more_keys=more_keys)


def possible_rules(
    data: bytes | None, names: SecretNames, among: Sequence[SecretSearch] = RULES
) -> tuple[Sequence[SecretSearch], Sequence[str]]:
    """The rules and triggers that may match some text; all of them if the text is unknown."""
    if data is None:
        return RULES, names.triggers
    if "re2" not in sys.modules and len(data) < _WORTH_LOADING:
        text = data.decode("utf-8", "surrogatepass")
        low = text.lower()
        return [rule for rule in among if rule.may_find(text)], [one for one in names.triggers if one in low]
    found = names.looks(data)
    if len(found) == 1:
        return (), ()
    if not found:  # RE2 ran out of memory for so many at once
        return RULES, names.triggers
    rules = [RULES[number] for number in sorted(found) if number < len(RULES)]
    return rules, [trigger for number, trigger in enumerate(names.triggers, len(RULES)) if number in found]


class _Pass:
    def __init__(
        self, digest: Callable[[bytes], str], names: SecretNames, rules: Sequence[SecretSearch], triggers: Sequence[str]
    ) -> None:
        from billhook.store.secrets import assignments  # only a few events get here

        self._named = assignments.named
        self._stays = assignments.stays
        self._digest = digest
        self._names = names
        self._rules = rules
        self._triggers = triggers
        self._flags = FLAGS_RULE in rules
        self._left = RedactionBudget()
        self.count = 0

    def copied(self, top: Any) -> Any:
        """The copy. Without recursion, so any depth is possible."""
        todo: list[tuple[Any, Any, bool]] = []
        copy = self._placed(top, "", False, todo)
        while todo:
            source, target, below = todo.pop()
            fill = self._object if isinstance(source, dict) else self._list
            fill(source, target, below, todo)
        return copy

    def _object(self, source: dict[Any, Any], target: dict[Any, Any], below: bool, todo: list[Any]) -> None:
        told = not below and bool(self._triggers) and "value" in source and self._is_named_secret(source)
        secret_fields = _fields_of_secrets(source)
        for key, one in source.items():
            if not isinstance(key, str):
                target[key] = self._placed(one, "", below, todo)
                continue
            hidden = below or self._is_secret(key, one) or (told and key == "value") or key in secret_fields
            target[self._in_text(key) if len(key) >= _SHORTEST else key] = self._placed(one, key, hidden, todo)

    def _is_named_secret(self, source: dict[Any, Any]) -> bool:
        """Whether it is `{"name": "API_KEY", "value": ...}`."""
        names = [name for field in _NAME_FIELDS if isinstance(name := source.get(field), str)]
        return any(self._names_secret(name, source["value"]) for name in names)

    def _names_secret(self, name: str, value: Any) -> bool:
        return name in self._names or (isinstance(value, str) and may_be_key(name) and looks_random(value))

    def _is_secret(self, key: str, value: Any) -> bool:
        if self._triggers and self._names_secret(key, value):
            return not (isinstance(value, dict) and value and value.keys() <= _SCHEMA)
        return key in ("auth", "_auth") and isinstance(value, str) and _looks_encoded(value)

    def _list(self, source: Iterable[Any], target: list[Any], below: bool, todo: list[Any]) -> None:
        first = before = None
        for one in source:
            if isinstance(one, str) and isinstance(before, str) and not below:
                target.append(self._argument(one, before, first))
            else:
                target.append(self._placed(one, "", below, todo))
            first, before = (one if first is None else first), one

    def _argument(self, text: str, before: str, first: Any) -> str:
        """One word of a command that is a list: `["curl", "-u", "bob:x"]`."""
        option = before.lstrip("-") if self._triggers and before[:1] == "-" and "=" not in before else ""
        if self._names_secret(option, text):
            return text if text[:1] == "-" else self._hidden(text, before)
        if before is first and before.lower() in _HEADERS:
            return self._hidden(text, before)
        if self._flags and isinstance(first, str) and len(first) < 256 and len(before) < 256:
            if not self._left.take_steps(_ARGUMENT + len(text) * 8):
                return self._mark(text, TOO_LONG)
            command = f"{first} {before if before is not first else ''} "
            for start, _ in FLAGS_RULE.find(command + text):
                if start >= len(command):
                    at = start - len(command)
                    return text[:at] + self._mark(text[at:])
        return self._in_text(text)

    def _placed(self, value: Any, name: str, hidden: bool, todo: list[Any]) -> Any:
        """The copy of a value; its items are added to the list of pending work."""
        if isinstance(value, str):
            return self._hidden(value, name) if hidden else self._in_text(value)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int | float):
            return self._mark(_number(value)) if hidden else value
        if not isinstance(value, dict | list | tuple | set | frozenset):
            value = _plain(value)
            if not isinstance(value, dict | list):
                return self._placed(value, name, hidden, todo)
        if not self._left.take_items(len(value)):
            return self._mark(_as_text(value), TOO_LONG)
        copy: Any = {} if isinstance(value, dict) else []
        todo.append((value, copy, hidden))
        return copy

    def _hidden(self, text: str, name: str) -> str:
        return text if self._stays(name, text) or _is_mark(text) else self._mark(text)

    def _in_text(self, text: str) -> str:
        if _is_mark(text):
            return text
        room = self._left.room(len(text))
        if room < len(text):
            room = _back_to_space(text, room)
            return (self._in_rules(text[:room]) if room else "") + self._mark(text[room:], TOO_LONG)
        return self._in_rules(text)

    def _in_rules(self, text: str) -> str:
        """Redact it, if one of the rules may match."""
        if not self._left.take_steps((len(text) + _CALL) * _LOOK):
            return self._mark(text, TOO_LONG)
        rules, triggers = possible_rules(text.encode("utf-8", "surrogatepass"), self._names, self._rules)
        return self._searched(text, rules, triggers) if rules or triggers else text

    def _searched(self, text: str, rules: Sequence[SecretSearch], triggers: Sequence[str]) -> str:
        """Repeat while something is found: text that was hidden by a secret may be a secret itself."""
        for number in range(_ROUNDS if len(text) < _LONG else 2):
            room = self._affordable(text, rules, triggers)
            if room < len(text):
                if number:
                    break  # it was searched, but there is no budget for another round
                room = _back_to_space(text, room)
                text = text[:room] + self._mark(text[room:], TOO_LONG)
            clean = self._without(text, self._spans(text, rules, triggers)) if room else text
            if clean == text:
                break
            text = clean
        return text

    def _affordable(self, text: str, rules: Sequence[SecretSearch], triggers: Sequence[str]) -> int:
        """How many characters of a string the budget for one search covers."""
        low = _lower(text) if triggers else ""
        pieces = [piece for rule in rules for piece in rule.pieces]
        room = len(text)
        while room:
            steps = (room + _CALL) * (len(triggers) + len(pieces))
            if self._left.steps > 2 * steps and self._left.take_steps(steps):
                steps += sum(low.count(trigger, 0, room) for trigger in triggers) * NAME_STEPS
                steps += sum(text.count(piece, 0, room) for piece in pieces) * PIECE_STEPS
                if self._left.take_steps(steps, most=True):
                    break
            room //= 2
        return room

    def _spans(self, text: str, rules: Sequence[SecretSearch], triggers: Sequence[str]) -> list[Span]:
        """The matches in order. The last one is all text beyond the limit of one rule."""
        found = [rule.find(text) for rule in rules if any(hint in text for hint in rule.hints)]
        low = _lower(text) if triggers else ""
        found += [self._named(text, low, trigger, self._names) for trigger in triggers if trigger in low]
        spans: list[Span] = []
        for one in found:
            listed = list(islice(one, _MOST_FOUND))
            if len(listed) == _MOST_FOUND:
                listed[-1] = listed[-1][0], len(text)
            spans += listed
        return _joined(spans)

    def _without(self, text: str, spans: list[Span]) -> str:
        if _MARK_BEGINS in text:
            spans = _outside(spans, [mark.span() for mark in _MARKS.finditer(text)], text)
        most = self._left.secrets
        end = spans[most][0] if len(spans) > most else len(text)
        pieces, done = [], 0
        for start, stop in spans[:most]:
            pieces += [text[done:start], self._mark(text[start:stop])]
            done = stop
        self._left.secrets -= min(most, len(spans))
        pieces.append(text[done:end])
        if end < len(text):
            pieces.append(self._mark(text[end:], TOO_LONG))
        return "".join(pieces)

    def _mark(self, text: str, why: str = "") -> str:
        if not text:
            return ""
        self.count += 1
        return f"[redacted {len(text)} chars {self._digest(text.encode('utf-8', 'surrogatepass'))}{why}]"


def _back_to_space(text: str, room: int) -> int:
    """Where to cut a string that is searched up to `room`: not within a word, because half a secret is not found."""
    floor = max(0, room - _LONGEST_WORD)
    cut = max(text.rfind(space, floor, room) for space in " \n\t")
    return cut + 1 if cut >= 0 else floor


def _joined(spans: list[Span]) -> list[Span]:
    joined: list[Span] = []
    for start, end in sorted(span for span in spans if span[0] < span[1]):
        if joined and start < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def _outside(spans: list[Span], marks: list[Span], text: str) -> list[Span]:
    """The parts of spans that are not redacted yet, without parts that are only punctuation."""
    left: list[Span] = []
    at = 0
    for start, end in spans:
        while at < len(marks) and marks[at][1] <= start:
            at += 1
        mark, rest = at, start
        while mark < len(marks) and marks[mark][0] < end:
            left.append((rest, marks[mark][0]))
            rest = max(rest, marks[mark][1])
            mark += 1
        left.append((rest, end))
    return [(start, end) for start, end in left if any(one.isalnum() for one in text[start:end])]


def _is_mark(text: str) -> bool:
    return text.startswith(_MARK_BEGINS) and _MARKS.fullmatch(text) is not None


def _lower(text: str) -> str:
    """In lower case with the same length: one Turkish capital would become two characters."""
    return text.lower() if text.isascii() else text.replace("\u0130", "I").lower()


def _fields_of_secrets(source: dict[Any, Any]) -> tuple[str, ...]:
    """The fields that are secret because of the kind of object: a Kubernetes Secret, a JSON web key."""
    if source.get("kind") == "Secret":
        return ("data", "stringData")
    return ("d", "p", "q", "dp", "dq", "qi", "k") if "kty" in source else ()


def _looks_encoded(value: str) -> bool:
    return len(value) >= 12 and not value.isalpha() and value.replace("+", "").replace("/", "").rstrip("=").isalnum()


_ENCODER: Final = msgspec.json.Encoder(enc_hook=str)


def _as_bytes(value: Any) -> bytes | None:
    """The whole value as JSON text; None if it can't be encoded: too deep, a lone surrogate, not JSON."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    try:
        return _ENCODER.encode(value)
    except Exception:
        return None


def _as_text(value: Any) -> str:
    data = _as_bytes(value)
    return f"{len(value)} items" if data is None else data.decode("utf-8", "replace")


def _number(value: float) -> str:
    try:
        return str(value)
    except ValueError:  # an integer of more than 4,300 digits
        return hex(int(value))


def _plain(value: Any) -> Any:
    """The text that the log contains for a value that is not JSON."""
    try:
        made = msgspec.to_builtins(value, enc_hook=str)
        return made if isinstance(made, str | int | float | dict | list | None) else str(made)
    except Exception:
        pass
    try:
        return str(value)
    except Exception:
        return f"<{type(value).__name__}>"
