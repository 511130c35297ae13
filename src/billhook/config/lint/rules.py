"""BH306: a rule about one spelling of a command that has several. `Bash(rm -rf *)` does not see `rm -fr`.

From the rule a command is made that it sees, and from that the same command in its usual other spellings. One that
neither this rule nor the rules of the hooks beside it see is a finding.
"""

from collections.abc import Iterator, Sequence

import msgspec

from billhook.config.declaration import Declared, Say
from billhook.config.lint.codes import edit, finding, listed
from billhook.config.lint.matchers import LONGEST, TOOLS, slip_of
from billhook.config.permissions import Permitted, Rules
from billhook.core.errors import RuleError
from billhook.core.text import Finding
from billhook.effects.rules import Rule


class CommandDeed(msgspec.Struct, frozen=True):
    """One thing that a command is told to do, and how that is spelt."""

    command: tuple[str, ...]
    spellings: tuple[str, ...]  # options that mean the same
    anywhere: bool = False  # they may stand before and after the other words
    whole: str = ""  # the rule that sees them all, if it is not `command *`


MOST = 100  # Rules that are held against each other. Who has more has them from a generator.

DEEDS = (
    CommandDeed(("git", "push"), ("--force", "-f"), anywhere=True),
    CommandDeed(("git", "reset"), ("--hard",), anywhere=True),
    CommandDeed(("git", "commit"), ("--no-verify", "-n"), anywhere=True),
    CommandDeed(("git", "clean"), ("-fd", "-df", "-f -d", "-d -f")),
    CommandDeed(("git", "clean"), ("-fdx", "-xdf", "-dfx", "-f -d -x")),
    CommandDeed(("git", "branch"), ("-D", "--delete --force", "-d -f")),
    CommandDeed(("rm",), ("-rf", "-fr", "-r -f", "-f -r", "--recursive --force")),
    CommandDeed(("chmod",), ("777", "0777", "a+rwx")),
    CommandDeed(("npm", "install"), ("-g", "--global"), anywhere=True),
    CommandDeed(("docker", "system", "prune"), ("-af", "-fa", "-a -f", "--all --force")),
    CommandDeed(("terraform", "apply"), ("-auto-approve", "--auto-approve"), anywhere=True),
)


def lint_rules(hooks: Sequence[Declared]) -> Iterator[Finding]:
    """What the rules of all hooks leave out. Hooks that want the same event help each other."""
    judging = (hook for hook in hooks if not (isinstance(hook.action, Say) and hook.action.decision == "allow"))
    rules = [(hook, rule) for hook in judging if (rule := _shell_rule(hook.when)) is not None][:MOST]
    for hook, rule in rules:
        events = set(hook.events)
        beside = [other for one, other in rules if not events or not one.events or events.intersection(one.events)]
        for deed, command in _seen_by(rule):
            variants = _variants(deed, command)
            missed = [spelt for spelt in variants if not any(_sees(other, spelt) for other in beside)]
            if missed:
                message = f"`{hook.when}` does not see {listed(missed[:3])}"
                whole = edit(hook, "when", f"Bash({deed.whole or ' '.join(deed.command) + ' *'})")
                hint = f"`{whole}` sees them all; or add a hook for each"
                yield finding(hook, "BH306", "when", message, hint, whole.value)
                break


def _shell_rule(text: str) -> Rule | None:
    try:
        rule = Rule.parse(text) if text and len(text) <= LONGEST else None
    except RuleError:
        return None
    return rule if rule is not None and rule.tool == "Bash" and rule.specifier else None


def _sees(rule: Rule, command: str) -> bool:
    return rule.strikes("Bash", {"command": command})


def _seen_by(rule: Rule) -> Iterator[tuple[CommandDeed, list[str]]]:
    """The deeds that a rule is about, each with a command that it sees: `git push --force x`."""
    specifier = rule.specifier or ""
    specifier = f"{specifier[:-2]} *" if specifier.endswith(":*") else specifier
    words = [word for word in ("x" if word == "*" else word.replace("*", "") for word in specifier.split()) if word]
    for deed in DEEDS:
        if tuple(words[: len(deed.command)]) == deed.command and _place(deed, words) and _sees(rule, " ".join(words)):
            yield deed, words


def _place(deed: CommandDeed, words: list[str]) -> tuple[int, int] | None:
    for spelling in sorted(deed.spellings, key=len, reverse=True):
        wanted = spelling.split()
        for start in range(len(deed.command), len(words)):
            if words[start : start + len(wanted)] == wanted:
                return start, len(wanted)
    return None


def _variants(deed: CommandDeed, words: list[str]) -> list[str]:
    place = _place(deed, words)
    assert place is not None
    start, length = place
    command, before, after = list(deed.command), words[len(deed.command) : start], words[start + length :]
    found: dict[str, None] = {}
    for spelling in deed.spellings:
        options = spelling.split()
        orders = [[*before, *options, *after]]
        if deed.anywhere:
            orders += [[*options, *before, *after], [*before, *after, *options]]
        found |= dict.fromkeys(" ".join((*command, *order)) for order in orders)
    return list(found)


# Permission rules that never have an effect:


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
