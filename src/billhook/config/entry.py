"""One entry of a file, read into a `Declared`: the same for every shape. What is wrong with it becomes findings."""

import math
import re
from typing import Final, cast

import msgspec

from billhook.answers import OnFailure
from billhook.config.actions import read_action
from billhook.config.declared import Declared, Layer, Shape
from billhook.config.findings import Finding, folded, nearest
from billhook.config.keys import ACTIONS, FAILURE_RULES, OF_OTHERS, field_of, spelling
from billhook.config.naming import made_name
from billhook.config.nodes import Fields, Node
from billhook.errors import RuleError
from billhook.events import EVENTS
from billhook.match import compile_matcher
from billhook.meanings import MEANINGS, meanings
from billhook.rules import Rule

_EVENTS_BY_FOLD: Final = {folded(name): name for name in EVENTS}
_MAY_REPEAT: Final = frozenset({"title", "name", "background"})
"""Fields that two keys may fill: a title and a description, `async` and `asyncRewake`."""
_NAMES = re.compile(r"[\w\- ,|]*", re.ASCII)
MOST_EXPRESSIONS: Final = 200
"""Expressions in one file that are compiled: it may be a file that nobody approved, and compiling takes its time."""


class Where(msgspec.Struct, frozen=True):
    """The file that is being read, and what holds for all of it."""

    file: str
    layer: Layer
    folder: str
    dialect: str = ""
    """What the file says for all its hooks; empty: what follows from the shape."""
    timeout: float | None = None
    expressions: list[int] = msgspec.field(default_factory=lambda: [MOST_EXPRESSIONS])
    """How many matchers of this file may still be compiled."""

    @property
    def json(self) -> bool:
        return not self.file.endswith((".yaml", ".yml"))


class Entry:
    """One entry while it is read. `declared()` is the result, `findings` what was wrong on the way."""

    def __init__(self, where: Where, node: Node, shape: Shape, *, name: str = "", group: "Entry | None" = None) -> None:
        self.where, self.node, self.shape, self.name, self.group = where, node, shape, name, group
        self.findings: list[Finding] = []
        self.broken = ""
        self.seen: dict[str, Node] = {}
        self.spellings: set[str] = set()
        self.known: frozenset[str] = frozenset()
        """The fields that an entry of this shape may have."""
        self.looks_like_gate = False

    # -- complaints

    def find(self, code: str, message: str, node: Node | None = None, *, hint: str = "", fatal: bool = False) -> None:
        at = node or self.node
        named = self.name
        self.findings.append(Finding(code, message, self.where.file, at.line, at.column, hint, named))
        if fatal and not self.broken:
            self.broken = message

    def spelt(self, field: str) -> str:
        return spelling(field, json=self.where.json)

    # -- reading keys and values

    def take(self, known: frozenset[str]) -> None:
        """Sort the entry's pairs by field; what we don't know is reported with what was likely meant."""
        assert isinstance(self.node.value, Fields)
        self.known = known
        for key, value in self.node.value:
            text = str(key.value)
            field = field_of(text)
            if field in known:
                self._see(field, text, key, value)
            elif text not in OF_OTHERS and not text.startswith(("x-", "$", "//", "_")):
                self._unknown_key(key, text, known)
                self.looks_like_gate |= isinstance(value.value, tuple | Fields) and value.gate_words > 0

    def _see(self, field: str, text: str, key: Node, value: Node) -> None:
        """Take a value. The same key twice, in one spelling or two, leaves open which of both was meant."""
        if field in self.seen and field not in _MAY_REPEAT:
            # whoever said once that it is a gate meant one
            self.looks_like_gate |= field in ("gate", "on_failure") and {self.seen[field].value, value.value} != {False}
            message = f"`{text}` is there twice, or another spelling of it"
            if text not in self.spellings:  # else whoever read the file has said it
                self.find("BH105", message, key, hint="keep one of them")
            self.broken = self.broken or message
        self.spellings.add(text)
        if field == "name":
            if self.name and value.value != self.name:  # an id and a name: the name is what people see
                self.seen.setdefault("title", value)
        else:
            self.seen[field] = value

    def _unknown_key(self, key: Node, text: str, known: frozenset[str]) -> None:
        names = {self.spelt(field): field for field in sorted(known)}
        near = nearest(text, names)
        if text in ("on", "yes", "true") and "events" in known:
            near = "events"
        elif field_of(text):
            near = ""
        hint = f"did you mean `{near}`?" if near else f"known here: {', '.join(names)}"
        self.find("BH202", f"unknown key `{text}`", key, hint=hint)
        # A mistyped `gate` must not leave a guard open that was meant to be closed.
        self.looks_like_gate |= names.get(near) in ("gate", "on_failure")

    def text(self, field: str, *, empty: bool = False) -> str | None:
        node = self.seen.get(field)
        if node is None or node.value is None:
            return None
        if not isinstance(node.value, str):
            self.wrong_type(field, node, "text")
            return None
        if not node.value.strip() and not empty:
            self.find("BH203", f"`{self.spelt(field)}` is empty", node, hint="fill it in, or remove it", fatal=True)
            return None
        return node.value

    def number(self, field: str) -> float | None:
        node = self.seen.get(field)
        if node is None or node.value is None:
            return None
        if isinstance(node.value, bool) or not isinstance(node.value, int | float):
            self.wrong_type(field, node, "a number")
            return None
        if not math.isfinite(node.value):
            self.wrong_type(field, node, "a finite number")
            return None
        return node.value

    def flag(self, field: str, default: bool) -> bool:
        node = self.seen.get(field)
        if node is None or node.value is None:
            return default
        if not isinstance(node.value, bool):
            self.wrong_type(field, node, "true or false")
            return default
        return node.value

    def texts(self, field: str) -> tuple[str, ...]:
        """One text or a list of them."""
        node = self.seen.get(field)
        if node is None or node.value is None:
            return ()
        if isinstance(node.value, str):
            return (node.value,)
        if isinstance(node.value, tuple) and all(isinstance(item.value, str) for item in node.value):
            return tuple(cast(str, item.value) for item in node.value)
        self.wrong_type(field, node, "text or a list of texts")
        return ()

    def wrong_type(self, field: str, node: Node, wanted: str) -> None:
        name = self.spelt(field)
        hint = f"write {wanted}"
        if wanted == "text" and isinstance(node.value, bool | int | float):
            hint = f'put it in quotes: `{name}: "{node.value}"`'
        self.find("BH203", f"`{name}` is {node.kind}; it must be {wanted}", node, hint=hint, fatal=True)

    # -- the parts of a hook

    def events(self) -> tuple[str, ...]:
        names = self.texts("events")
        if not names and not self.broken:
            node = self.seen.get("events")
            what = "`events` names no event" if node is not None else "no `events`"
            self.find("BH204", what, node, hint="name them: `events: PreToolUse`", fatal=True)
        return self.checked_events(names, self.seen.get("events"))

    def checked_events(self, names: tuple[str, ...], node: Node | None) -> tuple[str, ...]:
        found: dict[str, None] = {}
        bad: list[str] = []
        for name in names:
            known = _EVENTS_BY_FOLD.get(folded(name))
            near = "" if known else nearest(name, EVENTS, 0.75)
            if not known:
                hint = f"did you mean `{near}`?" if near else "it is only fired by agents that have such an event"
                self.find("BH201", f"unknown event `{name}`", _item(node, name), hint=hint)
            if near:
                bad.append(name)
            found[known or near or name] = None
        if bad and len(bad) == len(names) and not self.broken:
            self.broken = f"unknown event `{bad[0]}`"
        elif bad:
            for name in bad:
                found.pop(nearest(name, EVENTS, 0.75), None)
        return tuple(found)

    def on_failure(self) -> OnFailure:
        rule: OnFailure = "allow"
        node = self.seen.get("on_failure")
        if node is not None and node.value is not None:
            word = str(node.value)
            if not isinstance(node.value, str):
                self.wrong_type("on_failure", node, "text")
                rule = "deny"
            elif word.lower() not in FAILURE_RULES:
                near = nearest(word, FAILURE_RULES)
                hint = f"did you mean `{near}`?" if near else "one of allow, deny (also spelt block), ask"
                self.find("BH206", f"`{self.spelt('on_failure')}` is `{word}`", node, hint=hint, fatal=True)
                rule = "deny"  # whoever writes the key means to be strict
            else:
                rule = FAILURE_RULES[word.lower()]
        gate = self.seen.get("gate")
        if gate is not None and gate.value is not None:
            if not isinstance(gate.value, bool):
                self.wrong_type("gate", gate, "true or false")
            if gate.value is not False and rule == "allow":
                if node is not None:
                    message = f"`gate` and `{self.spelt('on_failure')}` contradict each other"
                    self.find("BH206", message, gate, hint="keep one of them; until then the stricter counts")
                rule = "deny"
        if node is None and gate is None and rule == "allow":  # whoever says no in so many words means it
            rule = "deny" if "deny" in self.seen else "ask" if "ask" in self.seen else rule
        return "deny" if self.looks_like_gate and rule == "allow" else rule

    def dialect(self, shape_default: str) -> str:
        node = self.seen.get("dialect")
        word = self.text("dialect")
        if word is None:
            return self.where.dialect or shape_default
        if word in MEANINGS:
            return word
        near = nearest(word, MEANINGS)
        hint = f"did you mean `{near}`?" if near else f"one of {', '.join(MEANINGS)}"
        self.find("BH205", f"unknown dialect `{word}`", node, hint=hint, fatal=True)
        return shape_default

    def timeout(self) -> float | None:
        seconds = self.number("timeout")
        if seconds is None:
            return self.where.timeout
        if not 0 < seconds < 1e9:
            self.find(
                "BH206",
                f"`timeout` is {seconds:g}; it must be a positive number of seconds, less than a billion",
                self.seen["timeout"],
                hint="for example `timeout: 20`",
                fatal=True,
            )
            return None
        return float(seconds)

    def match(self, dialect: str, events: tuple[str, ...]) -> str | None:
        pattern = self.text("match", empty=True)
        if not pattern:
            return pattern
        if not _NAMES.fullmatch(pattern):
            self.where.expressions[0] -= 1
            if self.where.expressions[0] < 0:
                hint = "write plain names where they do, or split the file"
                message = f"more than {MOST_EXPRESSIONS} matchers of this file are expressions; it matches everything"
                self.find("BH209", message, self.seen["match"], hint=hint)
                return None
        matching = meanings(dialect).matching
        problem = compile_matcher(pattern, matching, events[0] if len(events) == 1 else "").problem
        if problem:
            hint = "mend the expression; until then the hook is asked about everything"
            self.find("BH209", f"the matcher `{pattern}` can't be used: {problem}", self.seen["match"], hint=hint)
        return pattern

    def rule(self) -> str:
        text = self.text("when")
        if text is None:
            return ""
        try:
            Rule.parse(text)
        except RuleError as error:
            self.find("BH208", error.message, self.seen["when"], hint=error.hint, fatal=True)
        return text

    # -- all of it

    def declared(self, events: tuple[str, ...] | None, shape_default: str, known: frozenset[str]) -> Declared:
        """The whole entry. `events` None: the entry itself names them."""
        self.take(known)
        enabled = self.flag("enabled", True)
        only_off = not enabled and not any(field in self.seen for field in (*ACTIONS, "type"))
        on_failure = self.on_failure()
        dialect = self.dialect(shape_default)
        if events is None:
            events = () if only_off else self.events()
        action = None if only_off else read_action(self)
        match = self.match(dialect, events)
        if match is None and self.group is not None:
            match = self.group.match(dialect, events)
            self.findings += self.group.findings
            self.broken = self.broken or self.group.broken
            self.group.findings = []
        priority = self.number("priority")
        after = self.texts("after")
        background = self.flag("background", False) | self.flag("rewake", False)
        if "once" in self.seen:
            self.find("BH510", "`once` has no effect here", self.seen["once"], hint="remove it")
        title = self.text("title") or ""
        return Declared(
            name=self.name or made_name(action),
            named=bool(self.name),
            title=title,
            action=None if self.broken else action,
            events=events,
            match=match,
            when=self.rule(),
            priority=100 if priority is None else priority,
            after=after,
            timeout=self.timeout(),
            on_failure=on_failure,
            background=background,
            dialect=dialect,
            enabled=enabled,
            broken=self.broken,
            layer=self.where.layer,
            file=self.where.file,
            line=self.node.line,
            column=self.node.column,
            folder=self.where.folder,
            shape=self.shape,
            places=self.places(),
        )

    def places(self) -> dict[str, tuple[int, int]]:
        seen = {**(self.group.seen if self.group else {}), **self.seen}
        places = {field: (node.line, node.column) for field, node in seen.items()}
        for field in ACTIONS:
            if field in places:
                places["action"] = places[field]
        if "gate" in places:
            places.setdefault("on_failure", places["gate"])
        return places


def _item(node: Node | None, text: str) -> Node | None:
    """The place of one text of a list."""
    if node is not None and isinstance(node.value, tuple):
        return next((item for item in node.value if item.value == text), node)
    return node
