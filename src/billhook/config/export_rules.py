"""Rules as regular expressions, for the settings of agents without hooks; and those that can't be expressed so.

Toward deny: a pattern that denies or asks also matches inside a longer line, one that allows matches only a whole line
that certainly is one command.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from billhook.config.config import Config, Entry
from billhook.config.declaration import Conditions, FixedAnswer
from billhook.config.permissions import rules_of
from billhook.core import tools
from billhook.core.errors import RuleError
from billhook.effects.rules import Glob, Rule, command_globs

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
