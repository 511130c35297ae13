"""Read every accepted shape of file into `HookDeclaration` records."""

import os
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final, cast

from msgspec.structs import replace

from billhook.config import sources
from billhook.config.builtin_hooks import OptionError, read_options
from billhook.config.declaration import (
    ADOPTED,
    BUILTINS,
    CONDITIONS,
    ENTRY,
    HANDLER,
    MISTAKEN,
    NATIVE,
    RESERVED,
    HookDeclaration,
    Layer,
    Shape,
    checked_name,
    field_of,
    needs_consent,
)
from billhook.config.entry import EntryReader, FileContext
from billhook.config.nodes import GATE_WORDS, FieldNodes, Node, Read, read_text
from billhook.config.sources import Builtin, FileRead, is_billhook
from billhook.core import client_env
from billhook.core.dialect_traits import MEANINGS
from billhook.core.events import EVENTS
from billhook.core.text import Finding, folded, nearest, suggestion

_DIALECT_OF: Final[dict[Shape, str]] = {
    "strings": "claw",
    "flat": "claw-text",
    "nested": "claude",
    "hooks.json": "lesson",
    "yaml": "claude",
}
OWN_KEYS: Final = (
    *("hooks", "builtins", "guard", "permissions", "approvals", "settings"),
    *("parallelExecution", "warm", "dialect", "timeout", "version", "tests", "fleet"),
)
SWITCHES: Final = ("disableAllHooks", "allowedHttpHookUrls", "httpHookAllowedEnvVars")
_TOP: Final = {folded(key): key for key in (*OWN_KEYS, *SWITCHES)} | {"handlers": "hooks"}

_LOSSES: Final = frozenset({"BH104", "BH106", "BH107"})  # findings after which a part of the file is missing


def read_file(file: str, layer: Layer, folder: str, text: bytes | None = None) -> FileRead:
    """Read one file. Never raises for its content. `text`: a content that is used instead."""
    source = sources.SourceFile(file, layer, folder)
    try:
        largest = sources.LARGEST_OF_A_PROJECT if needs_consent(layer) else sources.LARGEST
        text = sources.read_bytes(file, largest) if text is None else text
    except (OSError, ValueError) as error:
        finding = _not_opened(file, error)
        return FileRead(source=source, findings=(finding,), readable=False, mentions_gate=True, lost_permissions=True)
    values = read_text(text, file, largest)
    read = shape(values, source)
    lost = not read.readable or any(finding.code in _LOSSES for finding in read.findings)
    if not lost:
        return read
    permissions = len(text) > largest or b"permissions" in text.replace(b"\0", b"")  # UTF-16 has zeros in between
    # whether the text mentions gates more often than the part that could be read
    lost_gate = len(GATE_WORDS.findall(text)) > (0 if values.node is None else values.node.gate_words)
    return replace(read, mentions_gate=read.mentions_gate or lost_gate, lost_permissions=permissions)


def _not_opened(file: str, error: OSError | ValueError) -> Finding:
    at = sources.obstacle(file)
    if isinstance(error, FileNotFoundError) and os.path.exists(at):
        at = file  # all folders exist: the file is missing
    why = (getattr(error, "strerror", "") or str(error)).lower()
    in_home = client_env.expanduser("~").startswith(at)
    if os.path.islink(at) and not os.path.exists(at):
        why, hint = f"the link leads to `{os.readlink(at)}`: {why}", "fix or remove the link"
    elif isinstance(error, PermissionError):
        hint = f"fix its permissions (`ls -ld {at}` shows them){', or set HOME to your own folder' * in_home}"
    else:
        hint = "fix or remove it" if at == file else "replace it with a folder, or remove it"
    return Finding("BH101", f"it can't be opened: {why}", at, int(at == file), int(at == file), hint)


def shape(read: Read, source: sources.SourceFile) -> FileRead:
    """The hooks and settings of a file, from its values."""
    if read.node is None:
        return FileRead(source=source, findings=read.findings, readable=False)
    reader = _ShapeReader(read.node, source)
    reader.findings += read.findings
    return reader.result()


def _looks_like_hook(node: Node) -> bool:
    return isinstance(node.value, FieldNodes) and any(field_of(str(key.value)) == "events" for key, _ in node.value)


def _places(fields: FieldNodes) -> dict[str, tuple[int, int]]:
    """Line and column of each key."""
    return {folded(str(key.value)): (key.line, key.column) for key, _ in fields}


class _ShapeReader:
    def __init__(self, node: Node, source: sources.SourceFile) -> None:
        self.node, self.source = node, source
        self.findings: list[Finding] = []
        self.entries: list[HookDeclaration] = []
        self.top: dict[str, Node] = {}
        self.hooks: list[Node] = []
        """Every `hooks` of the file: a duplicate key must not switch off the hooks of the other."""
        self.permissions: list[tuple[Node, Node]] = []
        self.variables: frozenset[str] = frozenset()
        self.lost_gate = False
        self.damaged = False  # its `hooks` can't be read
        self.native = source.path.endswith((".yaml", ".yml"))
        self.lesson = os.path.basename(source.path) == ".hooks.json"
        self.agent = sources.agent_of(source.path)
        self.where = FileContext(source.path, source.layer, source.folder, agent=self.agent)

    def find(self, code: str, message: str, node: Node, hint: str, hook: str = "") -> None:
        self.findings.append(Finding(code, message, self.source.path, node.line, node.column, hint, hook))

    def result(self) -> FileRead:
        if not isinstance(self.node.value, FieldNodes):
            message = f"the file must contain a mapping, not {self.node.kind}"
            self.find("BH203", message, self.node, "begin with `hooks:`")
            # in a project such a file may belong to another program
            gate = self.node.gate_words > 0 and not needs_consent(self.source.layer)
            return FileRead(source=self.source, findings=tuple(self.findings), readable=False, mentions_gate=gate)
        self._take_top(self.node.value)
        self.where = self._for_all()
        self._check_tests()
        for hooks in self.hooks:
            self._hooks(hooks)
        self._name_all()
        return FileRead(
            source=self.source,
            entries=tuple(self.entries),
            parallel=self._flag("parallelExecution"),
            warm=self.where.warm,
            disable_all=self._flag("disableAllHooks") is True,
            builtins=tuple(self._builtins()),
            allowed_urls=self._texts("allowedHttpHookUrls"),
            allowed_header_env=self._texts("httpHookAllowedEnvVars"),
            approvals=self.top.get("approvals") if self.native else None,
            permissions=tuple(self.permissions),
            places={key: (node.line, node.column) for key, node in self.top.items()},
            variables=self.variables,
            mentions_gate=self.lost_gate,
            readable=not self.damaged,
            findings=tuple(self.findings),  # last: all of the above may add findings
        )

    # -- settings for the whole file

    def _take_top(self, fields: FieldNodes) -> None:
        """Unknown keys in a settings file belong to the agent; in our files they are mistakes."""
        for key, value in fields:
            known = _TOP.get(folded(str(key.value)))
            if key.value == "env" and isinstance(value.value, FieldNodes):
                self.variables = frozenset(str(name.value) for name, _ in value.value)
            if known == "permissions" or nearest(str(key.value), ("permissions",), 0.9):
                self.permissions.append((key, value))
            if known == "settings" and self.native and isinstance(value.value, FieldNodes):
                self._take_top(value.value)
            elif known is not None:
                self.top[known] = value
                if known == "hooks" and value.value is not None:
                    self.hooks.append(value)
            elif (self.native or self.lesson) and not str(key.value).startswith(("x-", "$", "//", "_")):
                others = f"known here: {', '.join(OWN_KEYS)}"
                others = "if it is a hook, indent it below `hooks:`" if _looks_like_hook(value) else others
                hint = suggestion(str(key.value), OWN_KEYS, others)
                self.lose(Node(FieldNodes(((key, value),)), key.line, key.column))
                self.damaged |= nearest(str(key.value), OWN_KEYS) in ("hooks", "dialect", "builtins")
                self.find("BH202", f"unknown key `{key.value}`", key, hint)
            elif key.value in EVENTS and isinstance(value.value, tuple):
                self.lose(value)
                hint = f'wrap it: {{"hooks": {{"{key.value}": [...]}}}}'
                self.find("BH202", f"`{key.value}` is outside of `hooks`: none of it runs", key, hint)
            elif nearest(str(key.value), ("hooks",), 0.8):
                self.lose(value)
                self.damaged = True
                self.find("BH202", f"unknown key `{key.value}`", key, "did you mean `hooks`?")

    def lose(self, node: Node, message: str = "", hint: str = "", hook: str = "") -> None:
        """Note that a part of the file can't be used, and whether it seems to contain a gate."""
        self.lost_gate |= node.gate_words > 0
        if message:
            self.find("BH203", message, node, hint, hook)

    def _for_all(self) -> FileContext:
        dialect, timeout = "", None
        node = self.top.get("dialect")
        if node is not None and node.value is not None:
            if isinstance(node.value, str) and node.value in MEANINGS:
                dialect = node.value
            else:
                word = isinstance(node.value, str)
                message = f"unknown dialect `{node.value}`" if word else f"`dialect` must be a string, not {node.kind}"
                self.find("BH205", message, node, suggestion(str(node.value), MEANINGS))
                self.damaged = True  # the answers of its hooks would be read in the wrong dialect
        node = self.top.get("timeout") if self.native or self.lesson else None
        if node is not None and node.value is not None:
            if node.is_a("a number") and 0 < (seconds := float(node.plain())) < 1e9:
                timeout = seconds
            else:
                self.find("BH203", "`timeout` must be a positive number of seconds", node, "for example `timeout: 20`")
        if not dialect and self.where.of_another:
            dialect = self.agent
        warm = self._flag("warm") if self.native else None
        return replace(self.where, dialect=dialect, timeout=timeout, warm=warm)

    def _check_tests(self) -> None:
        """`tests` has no effect on hooks, but must be readable. In settings files the key is ignored."""
        node = self.top.get("tests") if self.native else None
        if node is not None:
            from billhook.config.cases import read_cases

            self.findings += read_cases(node, self.source.path)[1]

    def _is_a(self, wanted: str, name: object, node: Node, hint: str = "") -> bool:
        """Whether a value is of a kind; if not, that is reported."""
        if not node.is_a(wanted):
            self.find("BH203", f"`{name}` must be {wanted}, not {node.kind}", node, hint or f"write {wanted}")
        return node.is_a(wanted)

    def _flag(self, key: str) -> bool | None:
        node = self.top.get(key)
        if node is None or node.value is None or not self._is_a("true or false", key, node):
            return None
        return node.value is True

    def _texts(self, key: str) -> tuple[str, ...] | None:
        """An allow-list of strings. If it can't be read, it allows nothing."""
        node = self.top.get(key)
        if node is None:
            return None
        return tuple(node.plain()) if self._is_a("a list of strings", key, node, "until then it allows nothing") else ()

    def _guard(self, node: Node) -> Iterator[Builtin]:
        """`guard: strict`, or a mapping of its options."""
        value = node
        if node.value is False or isinstance(node.value, str):
            value = Node(FieldNodes(((Node("preset", node.line, node.column), node),)), node.line, node.column)
        if isinstance(value.value, FieldNodes):
            options, wrong = read_options("guard", value.value)
            for error in wrong:
                said = str(error)
                if value is not node:  # `guard: strict` without the key `preset`
                    said = said.replace("`preset` must be one of", "`guard` must be a mapping or one of", 1)
                self.find(error.code, said, error.node, error.hint)
            broken = str(wrong[0]) if wrong else ""
            yield Builtin("guard", None, options, node.line, node.column, broken, _places(value.value))
        elif value.value not in (None, True):  # YAML reads `on` as a boolean, too
            self._is_a("a mapping", "guard", value, "write `guard: strict`, or `preset: strict` below it")

    def _builtins(self) -> Iterator[Builtin]:
        if (guard := self.top.get("guard")) is not None:
            yield from self._guard(guard)
        node = self.top.get("builtins")
        if node is None or node.value is None:
            return
        fields = node.value if self._is_a("a mapping", "builtins", node, "name them: `turn-tracker:`") else ()
        for key, value in cast("FieldNodes", fields):
            name = next((known for known in BUILTINS if folded(known) == folded(str(key.value))), "")
            if name:
                yield self._builtin(name, key, value)
                continue
            message = f"unknown built-in `{key.value}`"
            self.find("BH202", message, key, suggestion(str(key.value), BUILTINS))
            if nearest(str(key.value), BUILTINS) == "rate-limit":
                yield Builtin("rate-limit", None, {}, key.line, key.column, message)

    def _builtin(self, name: str, key: Node, value: Node) -> Builtin:
        enabled: bool | None = None
        options: dict[str, Any] = {}
        wrong: list[OptionError] = []
        places: dict[str, tuple[int, int]] = {}
        if isinstance(value.value, bool):
            enabled = value.value
        elif isinstance(value.value, FieldNodes):
            for inner, node in value.value:
                match folded(str(inner.value)):
                    case "enabled" if isinstance(node.value, bool):
                        enabled = node.value
                    case "options" if isinstance(node.value, FieldNodes):
                        options, wrong = read_options(name, node.value)
                        places = _places(node.value)
                    case "options" if node.value is None:
                        pass
                    case "enabled" | "options" as word:
                        self._is_a("true or false" if word == "enabled" else "a mapping", inner.value, node)
                    case _:
                        hint = "known here: enabled, options"
                        self.find("BH202", f"unknown key `{inner.value}`", inner, hint)
        elif value.value is not None:
            self._is_a("a mapping", name, value, "write `enabled: true` below it")
        for error in wrong:
            self.find(error.code, str(error), error.node, error.hint)
        if name == "guard" and enabled is False:
            enabled, options = None, {**options, "preset": "off"}  # a part of the guard always stays on
        return Builtin(name, enabled, options, key.line, key.column, str(wrong[0]) if wrong else "", places)

    # -- the hooks

    def _hooks(self, node: Node) -> None:
        if isinstance(node.value, tuple) and self.native:
            for item in node.value:
                self._listed(item)
            return
        if not isinstance(node.value, FieldNodes):
            self.lose(node, f"`hooks` must be a mapping, not {node.kind}", "put names or events below it")
            self.damaged = True
            return
        for key, value in node.value:
            if self.native and not isinstance(value.value, tuple):
                self._native(key, value)
            else:
                self._event_list(key, value)

    def _native(self, key: Node, value: Node) -> None:
        """`name: {events: ..., run: ...}`."""
        name = str(key.value)
        if not isinstance(value.value, FieldNodes):
            message = f"hook `{name}` must be a mapping, not {value.kind}"
            self.lose(value, message, "write `events:` and `run:` below it", name)
            # Only its name can be read: an approved gate with that name counts as changed.
            file, layer, folder = self.source.path, self.source.layer, self.source.folder
            broken = HookDeclaration(name=name, named=True, broken=message, file=file, layer=layer, folder=folder)
            self.entries.append(replace(broken, line=key.line, column=key.column))
            return
        node = Node(value.value, key.line, key.column)  # a hook begins at its name
        self._add(EntryReader(self.where, node, "yaml", name=name), None, NATIVE, key)

    def _listed(self, item: Node) -> None:
        if not isinstance(item.value, FieldNodes):
            self.lose(item, f"an entry must be a mapping, not {item.kind}", "write `name:` and `events:`")
            return
        if item.value.get("events", "event") is None:
            self.lose(item)
        name = item.value.get("id") or item.value.get("name")
        text = name.value if name is not None and isinstance(name.value, str) else ""
        self._add(EntryReader(self.where, item, "yaml", name=text), None, NATIVE, name or item)

    def _event_list(self, key: Node, value: Node) -> None:
        """`Event: [entries]`, as in a settings file."""
        if not isinstance(value.value, tuple):
            hint = f'put it into a list: "{key.value}": [...]'
            self.lose(value, f"`{key.value}` must be a list, not {value.kind}", hint)
            return
        for item in value.value:
            for entry, known in self._entries_of(item):
                self._add(entry, key, known, None)

    def _entries_of(self, item: Node) -> Iterator[tuple[EntryReader, frozenset[str]]]:
        if isinstance(item.value, str):
            pair = (Node("command", item.line, item.column), item)
            shape: Shape = "hooks.json" if self.lesson else "strings"
            yield EntryReader(self.where, Node(FieldNodes((pair,)), item.line, item.column), shape), ENTRY
        elif isinstance(item.value, FieldNodes) and item.value.get("hooks") is not None:
            yield from self._group(item, item.value)
        elif isinstance(item.value, FieldNodes):
            if not self.lesson and not self.where.of_another and item.value.get("type") is not None:
                hint = 'wrap it: {"hooks": [...]}; without that it is read as `claw-text`'
                self.find("BH216", "a handler with `type` is outside of `hooks`", item, hint)
            yield EntryReader(self.where, item, "hooks.json" if self.lesson else "flat"), ENTRY
        else:
            hint = 'write a command as a string, or {"command": ...}'
            self.lose(item, f"an entry must be a string or a mapping, not {item.kind}", hint)

    def _group(self, item: Node, fields: FieldNodes) -> Iterator[tuple[EntryReader, frozenset[str]]]:
        """`{"matcher": ..., "hooks": [handlers]}`."""
        group = EntryReader(self.where, item, "nested")
        for key, value in fields:
            match folded(str(key.value)):
                case _ if str(key.value).startswith(("x-", "$", "//", "_")):
                    pass
                case "matcher" | "match":
                    group.seen["match"] = value
                case "hooks":
                    pass
                case "onfailure" | "timeout" | "if" | "async" | "effect" | "effects" | "aftereffect" as word:
                    hint = "put it on each handler inside `hooks`"
                    message = f"`{key.value}` has no effect on a matcher group"
                    group.find("BH510", message, key, hint=hint, fatal=word == "if" or "effect" in word)
                    group.looks_like_gate |= word == "onfailure"
                case word if near := nearest(word, ("matcher", "hooks"), 0.8):
                    self.lose(value)
                    group.find("BH202", f"unknown key `{key.value}`", key, hint=f"did you mean `{near}`?", fatal=True)
                case word if word in MISTAKEN:
                    lost = word in CONDITIONS
                    group.find("BH202", f"unknown key `{key.value}`", key, hint=MISTAKEN[word], fatal=lost)
                case _:
                    pass  # a comment: agents ignore it
        self.findings += group.findings
        group.findings = []
        handlers = fields.get("hooks")
        if handlers is None or not isinstance(handlers.value, tuple):
            at = handlers or item
            self.lose(at, f"`hooks` must be a list of handlers, not {at.kind}", 'write "hooks": [{...}]')
            return
        for handler in handlers.value:
            if isinstance(handler.value, FieldNodes):
                yield EntryReader(self.where, handler, "nested", group=group), HANDLER
            else:
                hint = 'write {"type": "command", "command": ...}'
                self.lose(handler, f"a handler must be a mapping, not {handler.kind}", hint)

    def _add(self, entry: EntryReader, event: Node | None, known: frozenset[str], name: Node | None) -> None:
        if len(self.entries) >= sources.MOST_HOOKS and needs_consent(self.source.layer):
            if not self.damaged:
                message = f"the file has more than {sources.MOST_HOOKS:,} hooks"
                self.find("BH103", message, entry.node, "move some of them to another file")
            self.damaged = self.lost_gate = True
            return
        events = None if event is None else entry.checked_events((str(event.value),), event)
        default = "lesson" if self.lesson else _DIALECT_OF[entry.shape]
        declared = entry.declared(events, default, known)
        if name is not None:
            problem = checked_name(declared.name) or ("a built-in has that name" if declared.name in RESERVED else "")
            if problem:
                entry.find("BH210", f"a hook can't be called `{declared.name}`: {problem}", name, hint="rename it")
                declared = replace(declared, broken=problem, action=None)
        self.findings += entry.findings
        if is_billhook(declared.action):  # the entry that `billhook install` added would only call billhook again
            declared = replace(declared, ours=True)
        agent, sequential = self._written_for(entry)
        self.entries.append(replace(declared, agent=agent, sequential=sequential))

    def _written_for(self, entry: EntryReader) -> tuple[str, bool]:
        """The agent that a hook was written for, and whether its settings order the hooks of the event."""
        if self.native:
            mark = entry.node.value.get(ADOPTED) if isinstance(entry.node.value, FieldNodes) else None
            text = mark.value if mark is not None and isinstance(mark.value, str) else ""
            return text.partition(" ")[0], '"sequential": true' in text
        group = entry.group.node.value if entry.group is not None else None
        flag = group.get("sequential") if isinstance(group, FieldNodes) else None
        in_claudes_shape = entry.shape == "nested" or self.where.of_another
        return self.agent if in_claudes_shape else "", flag is not None and flag.value is True

    def _name_all(self) -> None:
        taken = Counter(entry.name for entry in self.entries if entry.named)
        seen: Counter[str] = Counter()
        for i, entry in enumerate(self.entries):
            if entry.named and taken[entry.name] > 1:
                seen[entry.name] += 1
                if seen[entry.name] > 1:
                    message = f"duplicate hook name `{entry.name}`"
                    self.findings.append(entry.finding("BH211", "name", message, "rename one of them"))
            elif not entry.named:
                seen[entry.name] += 1
                number = seen[entry.name] + taken[entry.name]
                if number > 1:
                    self.entries[i] = replace(entry, name=f"{entry.name}-{number}")
