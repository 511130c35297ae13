"""The permission rules that allow one call that the guard stops."""

from collections.abc import Sequence
from typing import Final

from billhook.core import tools
from billhook.core.errors import RuleError
from billhook.core.events import Event
from billhook.effects import shell
from billhook.effects.rules import Rule, covers
from billhook.effects.tool_inputs import tool_input

_MOST_RULES: Final = 3
_LONGEST: Final = 200
_NO_RULE: Final = "No permission rule can allow exactly this call; the user can run it in their own terminal."
_LONGEST_LINE: Final = 4_096


def rules_for(event: Event) -> tuple[str, ...]:
    """Rules that allow exactly this call. Empty where no rule can, for example for a line with a redirection."""
    name = tools.canonical(getattr(event, "tool_name", ""))
    given = getattr(event, "tool_input", None)
    if name.startswith("mcp__"):
        return (name,) if is_told_by_name(name, given) and Rule.parse(name).is_naming else ()
    command = tools.command_of(name, given)
    if command is not None and len(command) > _LONGEST_LINE:  # its rules would be too long or too many
        return ()
    wanted = _commands(command) if command is not None else list(tools.paths_of(name, given))
    rules = tuple(dict.fromkeys(f"{name}({text})" for text in wanted))
    if len(rules) > _MOST_RULES or any(len(rule) > _LONGEST or not rule.isprintable() for rule in rules):
        return ()
    try:
        allows = covers(map(Rule.parse, rules), name, given, event.cwd)
    except RuleError:
        return ()
    return rules if allows else ()


def how_to_allow(rules: Sequence[str], place: str) -> str:
    """The sentence for the user: the rules, and where to add them."""
    named = " and ".join(f"`{rule}`" for rule in rules)
    return f"To allow it, the user can add {named} to {place}." if rules else _NO_RULE


def is_told_by_name(name: str, given: object) -> bool:
    """Whether the name of a tool tells what a call does. A tool that runs shell lines, code or SQL may do anything."""
    said = tool_input(name, given)
    return not (said.lines or said.code or said.sql)


def _commands(line: str) -> list[str]:
    """Each command of a line as a pattern that matches it alone."""
    texts = [" ".join((*one.assignments, *one.words)) for one in shell.parse(line).commands if not one.transparent]
    return [text.replace("\\", "\\\\").replace("*", "\\*") for text in texts if text]
