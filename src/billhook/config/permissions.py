"""Permission rules of settings files, for an agent: `permissions.allow`, `ask` and `deny`, and the mode to start in.

Deny and ask rules apply from every file. Allow rules of a project's file apply only after their exact list was
approved, as for hooks. A deny or ask rule is never dropped: if it can't be read, every call of its tool is asked about,
and if its tool is unknown, no agent starts (`Rules.fatal`).
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple

import msgspec

from billhook.config.config import Config, Entry
from billhook.config.declaration import Conditions, FixedAnswer, Layer, needs_consent
from billhook.config.nodes import FieldNodes, Node, one_line, quoted
from billhook.config.sources import FileRead, agent_of, shown_path
from billhook.config.trust import Trust
from billhook.core import tools
from billhook.core.errors import RuleError
from billhook.core.text import Finding, folded, nearest, suggestion
from billhook.effects.rules import Glob, Rule, command_globs
from billhook.store.approvals import Approval, Approvals

Kind = Literal["allow", "ask", "deny"]
KINDS: Final[tuple[Kind, ...]] = ("allow", "ask", "deny")
MODES: Final = ("bypassPermissions", "acceptEdits", "default", "dontAsk", "plan")
"""The permission modes, the loosest first."""
OF_A_PROJECT: Final = ("dontAsk", "plan")  # the modes that a project's file may set
NAME: Final = "permissions.allow"  # the name of the approval of a file's allow rules

_LONGEST_TEXT: Final = 200
_NAMED: Final = re.compile(r"([\w*][\w*-]*)\s*(?=\()")
_LISTED: Final = re.compile(r"[\w*][\w*-]*")


class PlacedRule(msgspec.Struct, frozen=True):
    """One rule and its place."""

    rule: Rule
    layer: Layer
    place: str  # file and line for messages: `.claude/settings.json:4`
    folder: str = ""  # the project: relative paths in the rule start there
    kind: Kind = "allow"  # the list that contains it
    text: str = ""  # as in the file, on one line
    unread: bool = False  # it can't be read, so every call of its tool is asked about
    file: str = ""
    line: int = 0
    column: int = 0

    @property
    def shown(self) -> str:
        """`permissions.deny `Bash(rm *)` (.claude/settings.json:4)`."""
        why = ", which can't be read" if self.unread else ""
        return f"permissions.{self.kind} `{self.text or self.rule}` ({self.place}){why}"


class PendingRules(msgspec.Struct, frozen=True, kw_only=True):
    """The allow rules of one file of a project that wait for approval. They are approved together."""

    file: str
    layer: Layer
    folder: str
    rules: tuple[PlacedRule, ...]
    hash: str  # the key of their approval
    before: tuple[str, ...] | None = None  # the rules that were approved last, if the file has more now

    @property
    def shown(self) -> str:
        """`permissions.allow of .claude/settings.json`."""
        return f"{NAME} of {shown_path(self.file, self.folder)}"


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of all files. The lists contain only rules in force, those of the most trusted layer first."""

    allow: tuple[PlacedRule, ...] = ()
    ask: tuple[PlacedRule, ...] = ()
    deny: tuple[PlacedRule, ...] = ()
    mode: str = "default"  # the mode to start in, unless the caller chooses another
    bypass_disabled: bool = False  # the mode bypassPermissions is refused
    pending: tuple[PendingRules, ...] = ()
    problems: tuple[Finding, ...] = ()
    fatal: tuple[Finding, ...] = ()  # unreadable rules that may deny or ask: no agent starts until they are fixed

    @property
    def waiting(self) -> str:
        """A sentence about the allow rules that wait for approval, on one line; empty if there are none."""
        names = ", ".join(one.shown for one in self.pending)
        text = f"{names}: the rules have no effect until you approve them (`billhook trust`)" if names else ""
        return one_line(text, 2 * _LONGEST_TEXT)


def rules_of(reads: Sequence[FileRead], root: Path, trust: Trust) -> Rules:
    """The permission rules of files, the most trusted first. `root` is the folder of the approvals."""
    files = [_PermissionFile(read) for read in reads]
    approvals = Approvals(root)
    allow: list[PlacedRule] = []
    pending: list[PendingRules] = []
    for file in files:
        waiting = None if trust == "all" else _waiting(file, approvals if trust == "approved" else None)
        if waiting is None:
            allow += file.rules["allow"]
        else:
            pending.append(waiting)
    mode, refused = _mode(files)
    return Rules(
        allow=tuple(allow),
        ask=tuple(one for file in files for one in file.rules["ask"]),
        deny=tuple(one for file in files for one in file.rules["deny"]),
        mode=mode,
        bypass_disabled=any(file.bypass_disabled for file in files),
        pending=tuple(pending),
        problems=(*(finding for file in files for finding in file.findings), *refused),
        fatal=tuple(finding for file in files for finding in file.fatal),
    )


def own_allow_rules(reads: Sequence[FileRead]) -> tuple[Rule, ...]:
    """The allow rules of the user's files that name what they allow; `Bash` and `Bash(*)` name nothing."""
    own = [_PermissionFile(read) for read in reads if read.permissions and not read.source.tightens]
    return naming_rules(one.rule for file in own for one in file.rules["allow"])


def naming_rules(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """The rules that name what they allow."""
    return tuple(rule for rule in rules if rule.is_naming)


def waiting_now(waiting: PendingRules) -> str:
    """The hash of the allow rules that the file has now. It differs from `waiting.hash` after a change."""
    from billhook.config.shapes import read_file

    now = _PermissionFile(read_file(waiting.file, waiting.layer, waiting.folder))
    return rules_hash(waiting.file, _texts(now.rules["allow"]))


def approval_of_rules(waiting: PendingRules) -> Approval:
    """The record that approves exactly these rules."""
    from datetime import UTC, datetime

    return Approval(
        hash=waiting.hash,
        file=waiting.file,
        name=NAME,
        definition={"permissions": {"allow": list(_texts(waiting.rules))}},
        gate=False,
        approved_at=datetime.now(UTC).isoformat(timespec="microseconds"),
    )


def approved_rules(approval: Approval) -> tuple[str, ...]:
    """The rules that a record approves; none for the record of a hook."""
    permissions = approval.definition.get("permissions")
    rules = permissions.get("allow") if isinstance(permissions, dict) else None
    return tuple(one for one in rules if isinstance(one, str)) if isinstance(rules, list) else ()


def in_force(approval: Approval, reads: Iterable[FileRead]) -> bool:
    """Whether the allow rules that a file has now are among those of a record."""
    now = [set(_texts(_PermissionFile(read).rules["allow"])) for read in reads if read.source.path == approval.file]
    return any(rules and rules <= set(approved_rules(approval)) for rules in now)


def rules_hash(file: str, rules: Sequence[str]) -> str:
    """The key of an approval of these rules; `rules` are sorted."""
    import hashlib
    import json

    covered = {"version": 1, "file": file, "permissions": {"allow": list(rules)}}
    return hashlib.sha256(json.dumps(covered, sort_keys=True).encode("ascii")).hexdigest()


def _texts(rules: Iterable[PlacedRule]) -> tuple[str, ...]:
    return tuple(sorted({str(one.rule) for one in rules}))


def _waiting(file: "_PermissionFile", approvals: Approvals | None) -> PendingRules | None:
    """The allow rules of a file, unless an approved list contains all of them: removing rules only tightens."""
    rules, source = file.rules["allow"], file.source
    if not rules or not needs_consent(source.layer):
        return None
    now = _texts(rules)
    known = [] if approvals is None else [one for one in approvals.of_file(source.path) if not one.of_hook]
    if any(set(now) <= set(approved_rules(one)) for one in known):
        return None
    return PendingRules(
        file=source.path,
        layer=source.layer,
        folder=source.folder,
        rules=tuple(rules),
        hash=rules_hash(source.path, now),
        before=approved_rules(known[0]) if known else None,
    )


def _mode(files: Sequence["_PermissionFile"]) -> tuple[str, list[Finding]]:
    """The mode of the most trusted file, or a stricter one of a less trusted file; and findings for ignored modes."""
    mode, refused = "", []
    for file in files:
        named, node = file.mode, file.mode_node
        if not named or node is None:
            continue
        if file.source.tightens and named not in OF_A_PROJECT:
            if named != "default":
                message = f"a {file.source.layer} file can't start agents in the mode `{named}`"
                path, hint = file.source.path, "remove it, or set it in your own settings file"
                note = bool(agent_of(path))  # the agent that the file belongs to decides by itself
                refused.append(Finding("BH215", message, path, node.line, node.column, hint, note=note))
        elif not mode or MODES.index(named) > MODES.index(mode):
            mode = named
    return mode or "default", refused


class _PermissionFile:
    """The rules and modes of one file."""

    def __init__(self, read: FileRead) -> None:
        self.source = read.source
        self.rules: dict[Kind, list[PlacedRule]] = {kind: [] for kind in KINDS}
        self.mode = ""
        self.mode_node: Node | None = None
        self.bypass_disabled = False
        self.findings: list[Finding] = []
        self.fatal: list[Finding] = []  # findings after which a deny or ask rule may be missing
        if read.lost_permissions:
            self.fatal += read.findings[:1]
        for key, value in read.permissions:
            self._block(key, value)
        if read.source.limited:
            self.rules["allow"].clear()

    def _find(self, code: str, message: str, node: Node, hint: str, *, fatal: bool = False) -> None:
        found = Finding(code, message, self.source.path, node.line, node.column, hint)
        self.findings.append(found)
        if fatal:
            self.fatal.append(found)

    def _block(self, key: Node, value: Node) -> None:
        if folded(str(key.value)) != "permissions":
            self._find("BH202", f"unknown key `{key.value}`", key, "did you mean `permissions`?", fatal=True)
        elif isinstance(value.value, FieldNodes):
            for inner, node in value.value:
                self._key(inner, node)
        elif value.value is not None:
            hint = "put `allow`, `ask` and `deny` below it"
            self._find("BH203", f"`permissions` must be a mapping, not {value.kind}", value, hint, fatal=True)

    def _key(self, key: Node, value: Node) -> None:
        """Other keys belong to the agent, unless they look like a misspelt key of ours."""
        match folded(str(key.value)):
            case ("allow" | "ask" | "deny") as kind:
                self._list(kind, value)
            case "defaultmode" if value.value is not None:
                self._default_mode(value)
            case "disablebypasspermissionsmode" if value.value not in (None, False):
                self.bypass_disabled = True
                if value.value not in ("disable", True):
                    self._find("BH206", "`disableBypassPermissionsMode` must be `disable`", value, "write `disable`")
            case name if near := nearest(name, KINDS, 0.8):
                self._find("BH202", f"unknown key `{key.value}`", key, f"did you mean `{near}`?", fatal=near != "allow")

    def _default_mode(self, node: Node) -> None:
        word = node.value if isinstance(node.value, str) else ""
        if word in MODES:
            self.mode, self.mode_node = word, node
        elif nearest(word, MODES, 0.8) or self.source.path.endswith((".yaml", ".yml")):  # or a mode of the agent
            hint = suggestion(word, MODES, cutoff=0.8)
            self._find("BH206", f"unknown permission mode {quoted(str(node.plain()))}", node, hint)

    def _list(self, kind: Kind, node: Node) -> None:
        if node.value is None:
            return
        items = node.value if isinstance(node.value, tuple) else (node,)
        if items == (node,):
            message = f"`{kind}` must be a list of rules, not {node.kind}"
            lost = kind != "allow" and not isinstance(node.value, str)
            hint = f"write `{kind}: [{json.dumps(node.value)}]`" if isinstance(node.value, str) else "write a list"
            self._find("BH203", message, node, hint, fatal=lost)
            if kind == "allow" or lost:
                return
        for item in items:
            self._rule(kind, item)

    def _rule(self, kind: Kind, node: Node) -> None:
        if not isinstance(node.value, str):
            message = f"a rule of `{kind}` must be a string, not {node.kind}"
            self._find("BH203", message, node, "write it as `Bash(git push *)`", fatal=kind != "allow")
            return
        try:
            self.rules[kind].append(self._permitted(Rule.parse(node.value), kind, node))
        except RuleError as error:
            self._unread(kind, node, error)

    def _unread(self, kind: Kind, node: Node, error: RuleError) -> None:
        """An unreadable allow rule is ignored. For an unreadable deny or ask rule, all calls of its tools ask."""
        message = one_line(error.message, 2 * _LONGEST_TEXT)  # it may contain a piece of the file
        if kind == "allow":
            self._find("BH208", message, node, error.hint)
            return
        names = named_tools(str(node.value))
        if names:
            what = " and ".join(f"`{name}`" for name in names[:3])
            message += f"; until it is fixed, every call of {what} needs approval"
        self._find("BH208", message, node, error.hint, fatal=not names)
        self.rules["ask"] += [self._permitted(Rule(name), kind, node, unread=True) for name in names]

    def _permitted(self, rule: Rule, kind: Kind, node: Node, *, unread: bool = False) -> PlacedRule:
        path, layer, folder = self.source.path, self.source.layer, self.source.folder
        place, text = f"{shown_path(path, folder)}:{node.line}", one_line(str(node.value), _LONGEST_TEXT)
        return PlacedRule(rule, layer, place, folder, kind, text, unread, path, node.line, node.column)


def named_tools(text: str) -> list[str]:
    """The tools that an unreadable rule seems to be about, by their canonical names."""
    listed = _LISTED.findall(text.partition("(")[0])
    return list(dict.fromkeys(tools.canonical(name) for name in (*listed, *_NAMED.findall(text))))


# -- rules as regular expressions, for the settings of agents without hooks
#
# Toward deny: a pattern that denies or asks also matches inside a longer line, one that allows matches only a whole
# line that certainly is one command.


_ANY_PLAIN: Final = r"[^;&|<>$`(){}\n]*"  # nothing that starts another command, or writes a file
_BEFORE: Final = r"(?:^|[;&|(\s/])"
_PATHS: Final = ("Write", "Edit")
_DOMAIN: Final = re.compile(r"domain:([\w.-]+)")


class RuleExport(NamedTuple):
    """By tool and by kind the regular expressions; and the rules that can't be expressed, each with the reason."""

    patterns: dict[str, dict[str, list[str]]]
    left: list[str]


def exported(config: Config, tools_there: Iterable[str]) -> RuleExport:
    """The rules of a configuration, for an agent that has rules for these tools."""
    found = RuleExport({}, [])
    for name, kind, text in _rules(config, found.left):
        try:
            rule = Rule.parse(text)
            tool, patterns = _patterns(rule, kind, frozenset(tools_there))
        except (RuleError, _InexpressibleError) as error:
            found.left.append(f"{name}: {error}")
            continue
        found.patterns.setdefault(tool, {}).setdefault(kind, []).extend(patterns)
    return found


def _rules(config: Config, left: list[str]) -> Iterator[tuple[str, str, str]]:
    """Each literal rule: what it is called on screens, its kind and its text. Other hooks are added to `left`."""
    permissions = rules_of(config.sources, Path(config.root), config.trust)
    for one in (*permissions.deny, *permissions.ask, *permissions.allow):
        yield one.shown, one.kind, str(one.rule)
    for entry in config.entries:
        if entry.state in ("new", "changed", "broken"):
            left.append(f"{_shown(entry)}: it does not run (`billhook list`)")
        if entry.state != "runs" or entry.declared.shadow:
            continue
        action, conditions = entry.declared.action, entry.declared.conditions
        if not isinstance(action, FixedAnswer) or action.decision not in ("deny", "ask", "allow"):
            left.append(f"{_shown(entry)}: it runs a program, or does more than decide")
        elif conditions != Conditions(rules=conditions.rules) or not conditions.rules:
            left.append(f"{_shown(entry)}: it has conditions other than rules such as `Bash(git push *)` in `if`")
        else:
            yield from ((_shown(entry), action.decision, text) for text in conditions.rules)


def _shown(entry: Entry) -> str:
    return f"`{entry.declared.name}` ({entry.declared.file}:{entry.declared.line})"


class _InexpressibleError(Exception):
    """The reason why a rule can't be a regular expression."""


def _patterns(rule: Rule, kind: str, there: frozenset[str]) -> tuple[str, list[str]]:
    if rule.tool not in there:
        raise _InexpressibleError(f"the agent has no rules for `{rule.tool}`")
    text = rule.specifier
    if text is None or not text.strip("* "):
        return rule.tool, [".*"]
    if tools.is_shell(rule.tool):
        return rule.tool, [_command(one, kind) for one in command_globs(text)]
    if rule.tool in _PATHS and kind != "allow" and not text.startswith(("~", "../")):
        return rule.tool, [_path(text)]
    if (domain := _DOMAIN.fullmatch(text)) is not None:
        return rule.tool, [rf"^https?://{re.escape(domain[1])}(?:[:/?#]|$)"]
    raise _InexpressibleError(f"`{rule}` depends on the folder, or has no equal as a regular expression")


def _command(glob: Glob, kind: str) -> str:
    if kind == "allow":
        return "^" + _ANY_PLAIN.join(map(_literal, glob.pieces)) + "$"
    return _BEFORE + ".*".join(map(_literal, glob.pieces)) + (r"(?:$|[\s;&|)])" if glob.pieces[-1] else "")


def _literal(text: str) -> str:
    return re.escape(text).replace(r"\ ", " ")


def _path(text: str) -> str:
    """`src/**/x` as `(?:^|/)src/(?:.*/)?x$`: an agent may name a file from its project, or from the root."""
    *folders, last = text.lstrip("/").removesuffix("/").split("/")
    last = "**" if last == "**" or text.endswith("/") else last
    folders += text.strip("/").split("/")[-1:] if text.endswith("/") else []
    above = "".join("(?:.*/)?" if name == "**" else f"{_segment(name)}/" for name in folders)
    return ("^/" if text.startswith("/") else "(?:^|/)") + above + (".*" if last == "**" else _segment(last)) + "$"


def _segment(name: str) -> str:
    return _literal(name).replace(r"\*", "[^/]*").replace(r"\?", "[^/]")
