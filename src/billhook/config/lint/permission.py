"""Permission rules that never have an effect: BH301 and BH307."""

from collections.abc import Iterator, Sequence

from billhook.config.findings import Finding
from billhook.config.lint.match import TOOLS, slip_of
from billhook.config.permitting import Permitted, Rules


def lint_permissions(rules: Rules) -> Iterator[Finding]:
    """What the lists say that nothing comes of."""
    for one in (*rules.allow, *rules.ask, *rules.deny):
        yield from _no_such_tool(one)
    yield from _outdone(rules.allow, rules.deny, "deny")
    yield from _outdone(rules.allow, [one for one in rules.ask if not one.unread], "ask")
    yield from _outdone([one for one in rules.ask if not one.unread], rules.deny, "deny")


def _no_such_tool(one: Permitted) -> Iterator[Finding]:
    """Names that differ from a known one by a slip; others may be tools of somebody's own."""
    name = one.rule.tool
    if "*" in name or name.startswith("mcp__") or name in TOOLS:
        return
    meant = next((tool for tool in sorted(TOOLS) if len(tool) > 3 and slip_of(name, tool)), None)
    if meant is not None:
        message = f"`{name}` never matches: there is a tool `{meant}`"
        hint = f"write `{one.text.replace(name, meant, 1)}`"
        yield Finding("BH301", message, one.file, one.line, one.column, hint)


def _outdone(rules: Sequence[Permitted], stricter: Sequence[Permitted], kind: str) -> Iterator[Finding]:
    by_rule = {(other.rule.tool, other.rule.specifier): other for other in reversed(stricter)}
    for one in rules:
        other = by_rule.get((one.rule.tool, one.rule.specifier)) or by_rule.get((one.rule.tool, None))
        if other is not None:
            message = f"`{one.text}` has no effect: `{kind}` has `{other.text}` ({other.place})"
            yield Finding("BH307", message, one.file, one.line, one.column, "remove it here: the stricter list decides")
