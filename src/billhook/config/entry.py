"""One entry of a file, read into a `HookDeclaration`: its action, its fields, and the events that it is for."""

import re
from typing import Any, Final, cast

import msgspec

from billhook.agents import AGENTS
from billhook.config import read_hook
from billhook.config.declaration import (
    ACTIONS,
    CONDITIONS,
    DECISIVE,
    DECISIVE_IN_OURS,
    GATE_LIKE,
    LIMITS,
    MISTAKEN,
    NARROWING,
    OF_OTHERS,
    TYPES,
    Conditions,
    HookDeclaration,
    Layer,
    Shape,
    field_of,
    made_name,
    spelling,
)
from billhook.config.nodes import FieldNodes, Node
from billhook.core.answers import OnFailure
from billhook.core.dialect_traits import MEANINGS, meanings
from billhook.core.errors import RuleError
from billhook.core.events import EVENTS, Event
from billhook.core.hook import FAILURE_RULES, Context
from billhook.core.match import compile_matcher, expression, printable
from billhook.core.text import Finding, folded, nearest, suggestion
from billhook.effects.conditions import checked
from billhook.effects.rules import Rule

_SUBJECTS: Final = {"Read": "Read", "Edit|MultiEdit|Write": "Write"}
"""What the agent compares a matcher with, by tools; `Tab...` if the editor reads or edits, not the model."""


def tools_of(part: str) -> str:
    """The matcher for the tools of a part."""
    from billhook.agents import tools_of

    return tools_of().get(part, "")


class Part(msgspec.Struct, frozen=True):
    """The condition of a hook for a part of an event. Two are equal if name and pattern are."""

    name: str
    pattern: str = ""

    def __call__(self, ctx: Context) -> bool:
        if not self._is_about(ctx.event):
            return False
        return self.pattern in ("", "*", ".*") or self._matches(ctx.event)

    def _is_about(self, event: Event) -> bool:
        sent = event.payload.get("original_event_name")
        # An agent that has the part sends it as a separate event; completions in the editor are in no other event.
        alone = isinstance(sent, str) and bool(tools_of(sent))
        return sent == self.name or not (alone or "conversation_id" in event.payload or "Tab" in self.name)

    def _subject(self, event: Event) -> str:
        given: Any = getattr(event, "tool_input", None)
        if tools_of(self.name) == "Bash":
            return str(given.get("command", "")) if isinstance(given, dict) else ""
        called = event.payload.get("original_tool_name") or getattr(event, "tool_name", "")
        kind = _SUBJECTS.get(tools_of(self.name), str(called))
        return f"Tab{kind}" if "Tab" in self.name else kind

    def _matches(self, event: Event) -> bool:
        try:
            return bool(expression(self.pattern).search(printable(self._subject(event))))
        except Exception:  # an unreadable expression matches everything, as in `match`
            return True


# One entry of a file, read into a `HookDeclaration`:


_EVENTS_BY_FOLD: Final = {folded(name): name for name in EVENTS}
_MAY_REPEAT: Final = frozenset({"title", "name", "background"})
"""Fields that two keys may fill: a title and a description, `async` and `asyncRewake`."""
_GATES: Final = frozenset({"gate", "on_failure", "deny", "ask"})
_NAMES = re.compile(r"[\w\- ,|]*", re.ASCII)
MOST_EXPRESSIONS: Final = 200
"""Expressions that are compiled in one file. Compiling takes time, and the file may not be approved."""


class FileContext(msgspec.Struct, frozen=True):
    """The file that is being read, and its settings for all hooks."""

    file: str
    layer: Layer
    folder: str
    dialect: str = ""  # the file's dialect for all its hooks; empty: the default of the shape
    timeout: float | None = None
    expressions: list[int] = msgspec.field(default_factory=lambda: [MOST_EXPRESSIONS])
    """How many matchers of this file may still be compiled."""
    warm: bool | None = None  # whether Python scripts may run in warm interpreters
    agent: str = ""  # the agent that the file belongs to: `sources.agent_of`

    @property
    def of_another(self) -> bool:
        """Whether the file belongs to an agent with its own event and key names."""
        return self.agent in AGENTS and self.agent != "claude"

    @property
    def json(self) -> bool:
        return not self.file.endswith((".yaml", ".yml"))


class EntryReader:
    """One entry while it is read. `declared()` returns the result, `findings` are the mistakes found meanwhile."""

    def __init__(
        self, where: FileContext, node: Node, shape: Shape, *, name: str = "", group: "EntryReader | None" = None
    ) -> None:
        self.where, self.node, self.shape, self.name, self.group = where, node, shape, name, group
        self.findings: list[Finding] = []
        self.broken = ""
        self.seen: dict[str, Node] = {}
        self.spellings: set[str] = set()
        self.known: frozenset[str] = frozenset()  # the fields that an entry of this shape may have
        self.looks_like_gate = False
        self.meant_action = ""  # an unknown key that looks like one of an action

    # -- findings

    def find(
        self,
        code: str,
        message: str,
        node: Node | None = None,
        *,
        hint: str = "",
        fatal: bool = False,
        note: bool = False,
    ) -> None:
        at = node or self.node
        self.findings.append(Finding(code, message, self.where.file, at.line, at.column, hint, self.name, note))
        if fatal and not self.broken:
            self.broken = message

    def refuse(self, code: str, message: str, node: Node | None = None, hint: str = "") -> None:
        """A mistake that makes the hook unusable."""
        self.find(code, message, node, hint=hint, fatal=True)

    @property
    def subject(self) -> str:
        """The hook as the subject of a sentence."""
        return f"hook `{self.name}`" if self.name else "this hook"

    def spelt(self, field: str) -> str:
        return spelling(field, json=self.where.json)

    # -- reading keys and values

    def take(self, known: frozenset[str]) -> None:
        """Sort the entry's pairs by field. Unknown keys are reported with a suggestion."""
        assert isinstance(self.node.value, FieldNodes)
        self.known = known
        own = AGENTS[self.where.agent].own_keys if self.where.of_another else {}
        unknown: list[tuple[Node, str, Node]] = []
        for key, value in self.node.value:
            text = str(key.value)
            field = own.get(text) or field_of(text)
            if field in known:
                self._store(field, text, key, value)
            elif not text.startswith(("x-", "$", "//", "_")):
                unknown.append((key, text, value))
        for key, text, value in unknown:
            if text in OF_OTHERS and "type" in self.seen:
                continue
            self._unknown_key(key, text, known)
            self.looks_like_gate |= isinstance(value.value, tuple | FieldNodes) and value.gate_words > 0

    def _store(self, field: str, text: str, key: Node, value: Node) -> None:
        """Store a value. If a key is there twice, in one spelling or two, its value is ambiguous."""
        if field in self.seen and field not in _MAY_REPEAT:
            # one of the two values makes it a gate, so a gate was meant
            self.looks_like_gate |= field in ("gate", "on_failure") and {self.seen[field].value, value.value} != {False}
            message = f"`{text}` is given twice, or in two spellings"
            if text not in self.spellings:  # else the reader of the file has reported it
                self.find("BH105", message, key, hint="keep one of them")
            self.broken = self.broken or message
        self.spellings.add(text)
        if field == "name":
            if self.name and value.value != self.name:  # an id and a name: the name becomes the title
                self.seen.setdefault("title", value)
        else:
            self.seen[field] = value

    def _unknown_key(self, key: Node, text: str, known: frozenset[str]) -> None:
        names = {self.spelt(field): field for field in sorted(known)}
        of_agent = self.shape in ("nested", "flat")
        near = nearest(text, names, 0.8 if of_agent else 0.6)
        if text in ("on", "yes", "true") and "events" in known:
            near = "events"
        elif field_of(text):
            near = ""
        if self.where.of_another and text in AGENTS[self.where.agent].read_keys:
            return
        mistaken = MISTAKEN.get(folded(text), "") if of_agent or folded(text) in NARROWING else ""
        if of_agent and not (near or mistaken or field_of(text) or folded(text) in CONDITIONS):
            return
        hint = f"did you mean `{near}`?" if near else f"known here: {', '.join(names)}"
        self.meant_action = self.meant_action or (text if names.get(near) in ACTIONS else "")
        lost = self._loses(text, names, CONDITIONS if of_agent else NARROWING)
        note = self.of_unknown_agent()
        self.find("BH202", f"unknown key `{text}`", key, hint=mistaken or hint, fatal=lost and not note, note=note)
        # A mistyped `gate` must not leave a guard open that was meant to be closed.
        self.looks_like_gate |= names.get(near) in _GATES or (not of_agent and folded(text) in GATE_LIKE)

    def _loses(self, text: str, names: dict[str, str], narrowing: frozenset[str]) -> bool:
        """Whether the hook has another meaning without this key."""
        decisive = DECISIVE_IN_OURS if self.shape in ("yaml", "hooks.json") else DECISIVE
        absent = {name: field for name, field in names.items() if field not in self.seen}
        return absent.get(nearest(text, absent, 0.8)) in decisive or folded(text) in narrowing

    def of_unknown_agent(self) -> bool:
        """Whether this is a plugin's handler of an unknown type: it may be for an agent that is unknown here."""
        assert isinstance(self.node.value, FieldNodes)
        kind = self.node.value.get("type")
        text = kind.value if kind is not None else ""
        return self.where.agent == "plugin" and isinstance(text, str) and text != "" and not nearest(text, TYPES)

    def read(self, field: str, *wanted: str) -> Any:
        """The value of a field that must be of all these kinds; None if it is missing or of another kind."""
        node = self.seen.get(field)
        if node is None or node.value is None:
            return None
        for kind in wanted:
            if not node.is_a(kind):
                self.wrong_type(field, node, kind)
                return None
        return node.value

    def text(self, field: str, *, empty: bool = False) -> str | None:
        text: str | None = self.read(field, "a string")
        if text is None or text.strip() or empty:
            return text
        hint = "fill it in, or remove it"
        self.refuse("BH203", f"`{self.spelt(field)}` is empty", self.seen[field], hint)
        return None

    def number(self, field: str) -> float | None:
        return cast("float | None", self.read(field, "a number", "a finite number"))

    def flag(self, field: str, default: bool = False) -> bool:
        flag: bool | None = self.read(field, "true or false")
        return default if flag is None else flag

    def texts(self, field: str) -> tuple[str, ...]:
        """One string or a list of them."""
        node = self.seen.get(field)
        if node is None or node.value is None:
            return ()
        if node.is_a("a string") or node.is_a("a list of strings"):
            return (node.value,) if isinstance(node.value, str) else tuple(node.plain())
        items = node.value if isinstance(node.value, tuple) else ()
        odd = next((one for one in items if not one.is_a("a string")), node)
        self.wrong_type(field, odd, "a string or a list of strings")
        return ()

    def wrong_type(self, field: str, node: Node, wanted: str) -> None:
        name = self.spelt(field)
        hint = f"write {wanted}"
        if wanted == "a string" and isinstance(node.value, bool | int | float):
            hint = f'put it in quotes: `{name}: "{self._word_at(node)}"`'
        self.refuse("BH203", f"`{name}` must be {wanted}, not {node.kind}", node, hint)

    def _word_at(self, node: Node) -> str:
        """A value as it is written in the file: YAML reads `no` as false."""
        try:
            with open(self.where.file, encoding="utf-8", errors="replace") as file:
                line = file.read().splitlines()[node.line - 1]
        except (OSError, IndexError):
            return str(node.value).lower()
        found = re.match(r"[^\s,\]}#]+", line[node.column - 1 :])
        return found[0] if found else str(node.value).lower()

    # -- the parts of a hook

    def events(self) -> tuple[str, ...]:
        names, node = self.texts("events"), self.seen.get("events")
        if "*" in names or (node is None and self.seen.keys() & {"match", *LIMITS}):
            return ()  # every event for which the condition is true
        if not names and not self.broken:
            what = "`events` is empty" if node is not None else f"{self.subject} has no `events`"
            hint = 'write `events: PreToolUse`, or `events: "*"` for all events'
            self.refuse("BH204", what, node, hint)
        return self.checked_events(names, node)

    def checked_events(self, names: tuple[str, ...], node: Node | None) -> tuple[str, ...]:
        found: dict[str, None] = {}
        bad: list[str] = []
        for name in names:
            known = self._own_event(name) or _EVENTS_BY_FOLD.get(folded(name)) or self._agents_own(name)
            near = "" if known else nearest(name, EVENTS, 0.75)
            if self.where.of_another and not self._own_event(name):
                self._not_its_event(name, _item(node, name))
            elif not known:
                hint = (
                    f"did you mean `{near}`?"
                    if near
                    else "no known agent fires it: correct the name, or ignore this if your own agent does"
                )
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

    def _own_event(self, name: str) -> str:
        """The meaning of an agent's event name in this file: our name for it if there is one, else the same name."""
        if self.where.agent != "plugin" and not self.where.of_another:
            return ""
        from billhook.agents import canonical_event, declared_event, is_own_name

        if self.where.of_another:
            return declared_event(self.where.agent, name)
        return (canonical_event(name) or name) if is_own_name(name) else ""

    def _agents_own(self, name: str) -> str:
        """The name, if it is an agent's name for a part of an event or for an event that only it has, in hooks.yaml."""
        from billhook.agents import others, tools_of

        ours = self.shape == "yaml" and not self.where.of_another
        return name if ours and (name in tools_of() or name in others()) else ""

    def _part(self, events: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
        """The part of an event, and the event. A part must be the only event, because it determines the format."""
        if self.shape != "yaml" or all(name in EVENTS for name in events):
            return "", events
        from billhook.agents import tools_of, whole

        parts = [name for name in events if name in tools_of()]
        if parts and len(events) > 1:
            what = f"`{parts[0]}` must be the only event of its hook"
            self.refuse("BH204", what, self.seen.get("events"), "write a hook for each event")
        alone = parts[0] if len(events) == 1 and parts else ""
        return alone, tuple(dict.fromkeys(whole(name) for name in events)) if parts else events

    def _not_its_event(self, name: str, node: Node | None) -> None:
        from billhook.agents import canonical_event

        agent = AGENTS[self.where.agent]
        meant = agent.event_names.get(canonical_event(name)) or name
        hint = suggestion(meant, agent.event_names.values(), "remove it, or use an event that it has")
        self.find("BH201", f"{agent.title} has no event `{name}`", node, hint=hint)

    def on_failure(self) -> OnFailure:
        rule: OnFailure = "allow"
        node = self.seen.get("on_failure")
        if node is not None and node.value is not None:
            word = str(node.value)
            if not isinstance(node.value, str):
                self.wrong_type("on_failure", node, "a string")
                rule = "deny"
            elif word.lower() not in FAILURE_RULES:
                hint = suggestion(word, FAILURE_RULES, "one of allow, deny (also spelt block), ask")
                self.refuse("BH206", f"`{self.spelt('on_failure')}` can't be `{word}`", node, hint)
                rule = "deny"  # the key shows that a strict hook was meant
            else:
                rule = FAILURE_RULES[word.lower()]
        gate = self.seen.get("gate")
        if gate is not None and gate.value is not None:
            if not isinstance(gate.value, bool):
                self.wrong_type("gate", gate, "true or false")
            if gate.value is not False and rule == "allow":
                if node is not None:
                    message = f"`gate` and `{self.spelt('on_failure')}` contradict each other"
                    self.find("BH206", message, gate, hint="keep one of them; until then the stricter one applies")
                rule = "deny"
        if node is None and gate is None and rule == "allow":  # a fixed `deny` or `ask` also applies on failure
            rule = "deny" if "deny" in self.seen else "ask" if "ask" in self.seen else rule
        return "deny" if self.looks_like_gate and rule == "allow" else rule

    def dialect(self, shape_default: str) -> str:
        node = self.seen.get("dialect")
        word = self.text("dialect")
        if word is None:
            return self.where.dialect or shape_default
        if word in MEANINGS:
            return word
        self.refuse("BH205", f"unknown dialect `{word}`", node, suggestion(word, MEANINGS))
        return shape_default

    def timeout(self) -> float | None:
        seconds = self.number("timeout")
        if seconds is None:
            return self.where.timeout
        if not 0 < seconds < 1e9:
            message = f"`timeout` is {seconds:g}; it must be a positive number of seconds, less than a billion"
            self.refuse("BH206", message, self.seen["timeout"], "for example `timeout: 20`")
            return None
        return meanings(self.where.agent).in_seconds(seconds) if self.where.of_another else seconds

    def match(self, dialect: str, events: tuple[str, ...]) -> str | None:
        pattern = self.text("match", empty=True)
        if not pattern:
            return pattern
        if not _NAMES.fullmatch(pattern):
            self.where.expressions[0] -= 1
            if self.where.expressions[0] < 0:
                hint = "use plain names where possible, or split the file"
                message = f"more than {MOST_EXPRESSIONS} matchers of this file are expressions: this one matches all"
                self.find("BH209", message, self.seen["match"], hint=hint)
                return None
        matching = meanings(dialect).matching
        problem = compile_matcher(pattern, matching, events[0] if len(events) == 1 else "").problem
        if problem:
            hint = "fix the expression; until then the hook runs for every tool"
            self.find("BH209", f"the matcher `{pattern}` can't be used: {problem}", self.seen["match"], hint=hint)
        return pattern

    def filled_texts(self, field: str) -> tuple[str, ...]:
        """One string or several that limit a hook. An empty value is an error, because it does not mean everything."""
        node, texts = self.seen.get(field), self.texts(field)
        if node is not None and not all(text.strip() for text in texts or ("",)) and not self.broken:
            self.refuse("BH203", f"`{self.spelt(field)}` is empty", node, "fill it in, or remove it")
        return texts

    def rules(self) -> tuple[str, ...]:
        """The rules of `if`: one of them must match."""
        texts = self.filled_texts("rules")
        for text in texts if not self.broken else ():
            try:
                Rule.parse(text)
            except RuleError as error:
                self.refuse("BH208", error.message, _item(self.seen["rules"], text), error.hint)
        return texts

    def conditions(self) -> Conditions:
        """The conditions that limit the hook to some of its events."""
        return Conditions(
            rules=self.rules(),
            effects=self.effects("effects"),
            after_effects=self.effects("after_effects"),
            paths=read_hook.paths(self),
            branch=self.filled_texts("branch"),
            when=read_hook.when(self),
            once=read_hook.once(self),
            cooldown=read_hook.cooldown(self),
        )

    def effects(self, field: str) -> tuple[str, ...]:
        """The effects that a hook is limited to, each as `kind` or `kind:scope`."""
        node, names = self.seen.get(field), self.filled_texts(field)
        found: dict[str, None] = {}
        for name in names:
            try:
                found[checked(name)] = None
            except RuleError as error:
                self.refuse("BH217", error.message, _item(node, name), error.hint)
                found[name] = None
        return tuple(found)

    # -- the whole entry

    def declared(self, events: tuple[str, ...] | None, shape_default: str, known: frozenset[str]) -> HookDeclaration:
        """The whole entry. `events` is None if the entry itself has them."""
        self.take(known)
        if self.group is not None:
            self.broken = self.broken or self.group.broken
            self.looks_like_gate |= self.group.looks_like_gate
        enabled = self.flag("enabled", True)
        only_off = not enabled and not any(field in self.seen for field in (*ACTIONS, "type"))
        on_failure = self.on_failure()
        dialect = self.dialect(shape_default)
        if events is None:
            events = () if only_off else self.events()
        action = None if only_off else read_hook.read_action(self)
        part, events = self._part(events)
        match = self.match(dialect, events)
        if match is None and self.group is not None:
            match = self.group.match(dialect, events)
            self.findings += self.group.findings
            self.broken = self.broken or self.group.broken
            self.group.findings = []
        priority = self.number("priority")
        after = self.texts("after")
        background = self.flag("background") | self.flag("rewake")
        title = self.text("title") or ""
        conditions, timeout = self.conditions(), self.timeout()
        return HookDeclaration(
            name=self.name or made_name(action),
            named=bool(self.name),
            title=title,
            action=None if self.broken else action,
            events=events,
            match=match,
            part=part,
            conditions=conditions,
            priority=100 if priority is None else priority,
            after=after,
            timeout=timeout,
            on_failure=on_failure,
            background=background,
            always=self.flag("always"),
            shadow=self.flag("shadow"),
            warm=self.flag("warm", self.where.warm is not False),
            approve=read_hook.approve(self),
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
    if node is not None and isinstance(node.value, tuple):
        return next((item for item in node.value if item.value == text), node)
    return node
