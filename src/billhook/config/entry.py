"""One entry of a file, read into a `Declared`: the same for every shape. What is wrong with it becomes findings."""

import math
import os
import re
from collections.abc import Callable, Mapping
from typing import Final, Literal, cast

import msgspec

from billhook import shell
from billhook.answers import OnFailure
from billhook.config.declared import Action, Declared, Exec, Layer, NotYet, Python, Run, Say, Shape, Url
from billhook.config.findings import Finding, folded, nearest
from billhook.config.keys import ACTIONS, OF_OTHERS, field_of, spelling
from billhook.config.nodes import Fields, Node
from billhook.errors import RuleError
from billhook.events import EVENTS
from billhook.match import compile_matcher
from billhook.meanings import MEANINGS, meanings
from billhook.rules import Rule

BUILTINS: Final = ("self-protection", "turn-tracker", "session-naming", "event-logger", "metrics", "rate-limit")
"""Names that no file can give away."""

_RULES: Final[dict[str, OnFailure]] = {
    "allow": "allow",
    "continue": "allow",
    "ask": "ask",
    "deny": "deny",
    "block": "deny",
}
_TYPES: Final = ("command", "http", "mcp_tool", "prompt", "agent")
_EVENTS_BY_FOLD: Final = {folded(name): name for name in EVENTS}
_TARGET = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*", re.ASCII)
_LONGEST_NAME: Final = 200


class Where(msgspec.Struct, frozen=True):
    """The file that is being read, and what holds for all of it."""

    file: str
    layer: Layer
    folder: str
    dialect: str = ""
    """What the file says for all its hooks; empty: what follows from the shape."""
    timeout: float | None = None

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
        for key, value in self.node.value:
            text = str(key.value)
            field = field_of(text)
            if field in known:
                self.seen[field] = value
            elif text not in OF_OTHERS and not text.startswith(("x-", "$", "//", "_")):
                self._unknown_key(key, text, known)

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
        if isinstance(node.value, bool) or not isinstance(node.value, int | float) or not math.isfinite(node.value):
            self.wrong_type(field, node, "a number")
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
            elif word.lower() not in _RULES:
                near = nearest(word, _RULES)
                hint = f"did you mean `{near}`?" if near else "one of allow, deny (also spelt block), ask"
                self.find("BH206", f"`{self.spelt('on_failure')}` is `{word}`", node, hint=hint, fatal=True)
                rule = "deny"  # whoever writes the key means to be strict
            else:
                rule = _RULES[word.lower()]
        gate = self.seen.get("gate")
        if gate is not None and gate.value is not None:
            if not isinstance(gate.value, bool):
                self.wrong_type("gate", gate, "true or false")
            if gate.value is not False and rule == "allow":
                rule = "deny"
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
                f"`timeout` is {seconds:g}; it must be a positive number of seconds",
                self.seen["timeout"],
                hint="for example `timeout: 20`",
                fatal=True,
            )
            return None
        return float(seconds)

    def match(self, dialect: str, events: tuple[str, ...]) -> str | None:
        pattern = self.text("match", empty=True)
        if pattern:
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

    # -- what it does

    def action(self) -> Action | None:
        kind = self.text("type") if "type" in self.seen else None
        if kind is not None and kind not in _TYPES:
            near = nearest(kind, _TYPES)
            hint = f"did you mean `{near}`?" if near else f"one of {', '.join(_TYPES)}"
            self.find("BH206", f"unknown type `{kind}`", self.seen["type"], hint=hint, fatal=True)
            return None
        if kind in ("mcp_tool", "prompt", "agent"):
            hint = "use a command, an HTTP endpoint or a Python function instead"
            self.find("BH207", f"hooks of type `{kind}` are not run yet", self.seen["type"], hint=hint)
            return NotYet(kind)
        given: list[str] = [field for field in ACTIONS if field in self.seen]
        wanted = {"command": "run", "http": "url"}.get(kind or "")
        if len(given) != 1 or wanted not in (None, given[0]):
            self._not_one_action(given, wanted)
            return None
        return _MAKERS[given[0]](self)

    def _not_one_action(self, given: list[str], wanted: str | None) -> None:
        if wanted and wanted not in given:
            name = self.spelt(wanted)
            message, hint = f"no `{name}`", f"add it: `{name}` says what to run"
        elif not given:
            message = "it does nothing"
            hint = f"say what: one of {', '.join(self.spelt(field) for field in ACTIONS)}"
        else:
            message = f"it does more than one thing: {', '.join(f'`{self.spelt(field)}`' for field in given)}"
            hint = "keep one of them; write another hook for the other"
        self.find("BH204", message, self.seen.get(given[1]) if len(given) > 1 else None, hint=hint, fatal=True)

    def run(self) -> Action | None:
        node = self.seen["run"]
        if isinstance(node.value, tuple):
            self.find("BH203", "a list is no shell command", node, hint="write `exec: [program, argument]`", fatal=True)
            return None
        text = self.text("run")
        if text is None:
            self._still_empty("run")
            return None
        if "args" in self.seen:
            if "shell" in self.seen:
                hint = "remove `shell`, or put all of it into `command`"
                self.find("BH510", "`shell` has no effect together with `args`", self.seen["shell"], hint=hint)
            return Exec((text, *self.texts("args")))
        shell_name = self.choice("shell", ("bash", "powershell", "sh"))
        login = self.choice("login", ("auto", "exact", "no"))
        return Run(
            text, "" if shell_name == "sh" else shell_name, cast("Literal['auto', 'exact', 'no']", login or "auto")
        )

    def choice(self, field: str, known: tuple[str, ...]) -> str:
        word = self.text(field)
        if word is None or word in known:
            return word or ""
        near = nearest(word, known)
        hint = f"did you mean `{near}`?" if near else f"one of {', '.join(known)}"
        self.find("BH206", f"`{self.spelt(field)}` is `{word}`", self.seen[field], hint=hint, fatal=True)
        return ""

    def exec(self) -> Action | None:
        node = self.seen["exec"]
        argv = self.texts("exec")
        if isinstance(node.value, str):
            self.find("BH203", "`exec` is text; it must be a list", node, hint=_as_list(node.value), fatal=True)
            return None
        if not argv or not argv[0]:
            self._still_empty("exec")
            return None
        return Exec(argv)

    def python(self) -> Action | None:
        target = self.text("python")
        if target is None:
            self._still_empty("python")
            return None
        if not _TARGET.fullmatch(target):
            hint = "name a function: `python: policies.guard:check`"
            self.find("BH206", f"`{target}` is not `module:function`", self.seen["python"], hint=hint, fatal=True)
            return None
        return Python(target, self.text("interpreter") or "")

    def url(self) -> Action | None:
        url = self.text("url")
        if url is None:
            self._still_empty("url")
            return None
        if not url.lower().startswith(("http://", "https://")) and "${" not in url:
            hint = "write the whole address: `https://example.com/hook`"
            self.find("BH206", "the address is neither http:// nor https://", self.seen["url"], hint=hint, fatal=True)
        headers: list[tuple[str, str]] = []
        node = self.seen.get("headers")
        if node is not None and node.value is not None:
            pairs = node.value.pairs if isinstance(node.value, Fields) else None
            if pairs is None or not all(isinstance(value.value, str) for _, value in pairs):
                self.wrong_type("headers", node, "a mapping from names to texts")
            else:
                headers = [(str(key.value), str(value.value)) for key, value in pairs]
        return Url(url, tuple(headers), self.texts("allowed_env"))

    def say(self, decision: Literal["deny", "ask", "allow", "inject"]) -> Action | None:
        node = self.seen[decision]
        if decision != "inject" and node.value is True:  # `deny: true`: no reason is given
            return Say(decision, "")
        text = self.text(decision)
        if text is None:
            self._still_empty(decision)
            return None
        return Say(decision, text)

    def _still_empty(self, field: str) -> None:
        if not self.broken:
            message = f"`{self.spelt(field)}` is empty"
            self.find("BH204", message, self.seen[field], hint="say what it does", fatal=True)

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
        action = None if only_off else self.action()
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


_MAKERS: Final[Mapping[str, Callable[[Entry], Action | None]]] = {
    "run": Entry.run,
    "exec": Entry.exec,
    "python": Entry.python,
    "url": Entry.url,
    "deny": lambda entry: entry.say("deny"),
    "ask": lambda entry: entry.say("ask"),
    "allow": lambda entry: entry.say("allow"),
    "inject": lambda entry: entry.say("inject"),
}


def _item(node: Node | None, text: str) -> Node | None:
    """The place of one text of a list."""
    if node is not None and isinstance(node.value, tuple):
        return next((item for item in node.value if item.value == text), node)
    return node


def _as_list(text: str) -> str:
    import json
    import shlex

    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()
    return f"write `exec: {json.dumps(words, ensure_ascii=False)}`, or `run:` for a shell command"


def made_name(action: Action | None) -> str:
    """A name for a hook that has none: what it runs, without folder and suffix."""
    match action:
        case Run(text):
            return _program(shell.parse(text[:4096])) or "command"
        case Exec(argv):
            return _stem(argv[0]) or "command"
        case Python(target):
            return target.rpartition(":")[2]
        case Url(url):
            from urllib.parse import urlsplit

            try:
                return urlsplit(url).hostname or "http"
            except ValueError:
                return "http"
        case Say(decision):
            return decision
        case NotYet(kind):
            return kind
        case _:
            return "hook"


_INTERPRETERS = re.compile(r"(?:ba|z|da|k)?sh|python[\d.]*|node|ruby|perl|php|deno|bun|uv|npx|env|run|exec|sudo")


def _program(parsed: shell.Parsed) -> str:
    """The script that a line runs, or its first program."""
    first = ""
    for command in parsed.commands:
        for word in command.words:
            stem = _stem(word)
            if not stem or word.startswith("-") or "\0" in word:
                continue
            if not _INTERPRETERS.fullmatch(stem):
                return stem
            first = first or stem
    return first


def _stem(word: str) -> str:
    stem = os.path.splitext(os.path.basename(word.replace("\0", "")))[0]
    return re.sub(r"[^\w.+-]+", "-", stem).strip("-.")[:_LONGEST_NAME]


def checked_name(name: str) -> str:
    """Why a name can't be one; nothing when it can."""
    if not name.strip() or len(name) > _LONGEST_NAME or not name.isprintable():
        return "a name is printable, and has at most 200 characters"
    return ""


__all__ = ["BUILTINS", "Entry", "Where", "checked_name", "made_name"]
