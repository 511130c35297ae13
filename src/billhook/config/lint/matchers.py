"""Matchers and rules that don't do what they seem to do: BH301 to BH309.

Users can have tools of their own, so only a name that is similar to a known tool is a finding. The values of sources,
triggers and similar fields are all known.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from billhook.config.declaration import FixedAnswer, HookDeclaration
from billhook.config.lint import Edit, at_event, edit, finding, kinds, listed
from billhook.config.permissions import PlacedRule, Rules
from billhook.config.sources import agent_of
from billhook.core.dialect_traits import Meanings, meanings
from billhook.core.errors import RuleError
from billhook.core.events import EVENTS, Event
from billhook.core.match import NARROW, Matcher, compile_matcher
from billhook.core.text import Finding, folded
from billhook.core.tools import NAMINGS, called, canonical
from billhook.effects import shell
from billhook.effects.rules import Rule

_TOOLS = """
    Agent AskUserQuestion Bash BashOutput CronCreate CronDelete CronList Edit EnterPlanMode EnterWorktree
    ExitPlanMode ExitWorktree Glob Grep KillShell LS LSP ListMcpResourcesTool Monitor MultiEdit NotebookEdit
    NotebookRead PowerShell Read ReadMcpResourceTool SendMessage Skill SlashCommand StructuredOutput Task
    TaskCreate TaskGet TaskList TaskOutput TaskStop TaskUpdate TeamCreate TeamDelete TodoRead TodoWrite ToolSearch
    WebFetch WebSearch Write
"""
TOOLS = frozenset(_TOOLS.split())  # the tools of the reference agent, without those of MCP servers
_ELSEWHERE = {
    **dict.fromkeys(("run_shell_command", "run_terminal_cmd", "execute_command", "exec_command"), "Bash"),
    **dict.fromkeys(("local_shell", "shell"), "Bash"),
    **dict.fromkeys(("apply_patch", "replace_in_file", "str_replace_editor"), "Edit"),
    "write_to_file": "Write",
    "read_many_files": "Read",
    "search_file_content": "Grep",
    "list_directory": "LS",
    "google_web_search": "WebSearch",
}
"""The names of these tools in other agents."""


VALUES = {
    "SessionStart": "startup resume clear compact fork",
    "SessionEnd": "clear resume logout prompt_input_exit bypass_permissions_disabled other",
    "Setup": "init maintenance",
    "PreCompact": "manual auto",
    "PostCompact": "manual auto",
    "ConfigChange": "user_settings project_settings local_settings policy_settings skills",
    "InstructionsLoaded": "session_start nested_traversal path_glob_match include compact",
    "DirectoryAdded": "slash_command register_repo_root",
    "Notification": "permission_prompt idle_prompt auth_success elicitation_dialog elicitation_url_dialog "
    "elicitation_complete elicitation_response agent_needs_input agent_completed quota_auto_resume_fired "
    "quota_auto_resume_stale quota_auto_resume_disabled",
    "StopFailure": "authentication_failed oauth_org_not_allowed account_on_hold verification_required billing_error "
    "rate_limit overloaded invalid_request model_not_found server_error max_output_tokens cloud_credential_error "
    "unknown",
}
"""The values of the matched field of an event."""

LONGEST = 4096  # Characters of a matcher or rule that is checked. No person writes longer ones.
_NAME = re.compile(r"[A-Za-z0-9_-]+")
_RULE = re.compile(r"\s*([A-Za-z_]\w*)\((.+)\)\s*")
_GLOB_STAR = re.compile(r"(?<![\\])(?<!\\.)[A-Za-z0-9_]\*")  # `Bash*`, but not `\w*`, `.*`, `(a)*` or `[ab]*`
_REGEX_SIGNS = re.compile(r"\.\*|\.\+|[\^$()\\]|\[[^\]]*\]")
_FOREIGN = {
    "exact": (re.compile(rf"[*|,]|{_REGEX_SIGNS.pattern}"), "one exact name, or `*`"),
    "glob": (re.compile(r"\||\.\*|\.\+|[\^$()\\]"), "one exact name or a glob"),
}
"""Characters without a meaning in a way of matching, and what it supports."""


def lint_match(hook: HookDeclaration) -> Iterator[Finding]:
    """Check `match` and `if`. An unreadable pattern was reported when it was loaded."""
    if hook.match not in (None, "", "*", ".*") and not hook.part and len(hook.match) <= LONGEST:
        looks = (_ignored, _condition, _empty_alternative, _wrong_language, _never)
        yield from next((found for look in looks if (found := look(hook))), [])
    wanted = hook.conditions
    rules = [rule for rule in wanted.rules if len(rule) <= LONGEST]
    if rules:
        without = _without_tools(hook, "rules", "`if` is a rule for tool calls")
        yield from without or (found for rule in rules for found in _rule_never(hook, rule))
    if wanted.effects:
        yield from _without_tools(hook, "effects", "`effect` is for tool calls")


# BH304, BH305: events without anything to match


def _ignored(hook: HookDeclaration) -> list[Finding]:
    if not hook.events or any(kind.match_field for kind in kinds(hook)) or len(kinds(hook)) < len(hook.events):
        return []
    message = f"{_takes(hook)} no matcher: `{hook.match}` is ignored"
    return [finding(hook, "BH304", "match", message, f"remove `{edit(hook, 'match', hook.match)}`")]


def _takes(hook: HookDeclaration) -> str:
    """`PreToolUse` takes, or `PreToolUse` and `Stop` take."""
    return f"{listed(list(hook.events))} {'take' if len(hook.events) > 1 else 'takes'}"


def _without_tools(hook: HookDeclaration, field: str, what: str) -> list[Finding]:
    bare = [kind.__name__ for kind in kinds(hook) if kind.match_field != "tool_name"]
    if not bare:
        return []
    there = "" if len(bare) == len(hook.events) else " there"
    have = "have" if len(bare) > 1 else "has"
    message = f"{what}, and {listed(bare)} {have} none: the hook never runs{there}"
    with_tools = [kind.__name__ for kind in kinds(hook) if kind.match_field == "tool_name"]
    return [finding(hook, "BH305", field, message, at_event(hook, *(with_tools or ["PreToolUse"])))]


# BH308, BH309: neither a list of names nor the intended expression


_CONDITION = re.compile(r"[=!]=|=~|\btool_(?:name|input)\b|\btool\.\w|\bmatches\b")
_TOOL_IS = re.compile(r"\btool(?:_name|\.name)?\s{0,9}={2,3}\s{0,9}\\?[\"']([\w-]{1,64})")
_WHOLE_TEST = re.compile(_TOOL_IS.pattern + r"\\?[\"']|\b(?:and|or)\b")
_NEGATION = re.compile(r"!=|\bnot\b|![\s(]{0,9}tool(?:_name)?\s{0,9}=", re.I)
_EMPTY = re.compile(r"^\||(?<!\\)\|$|\|\||(?<!\\)\((?:\?:)?\||\|\)|(?<!\\)\((?:\?:)?\)")
_NO_TOOL = "0"  # not a tool: a pattern that matches it matches everything


def _about_tools(hook: HookDeclaration) -> bool:
    return not hook.events or any(kind.match_field == "tool_name" for kind in kinds(hook))


def _condition(hook: HookDeclaration) -> list[Finding]:
    """`tool == "Bash" && ...`: a matcher is compared with the tool's name, and nothing in it is evaluated."""
    pattern, row = hook.match or "", meanings(hook.dialect)
    if not _CONDITION.search(pattern) or not _about_tools(hook):
        return []
    matcher = compile_matcher(pattern, row.matching, "PreToolUse")
    effect = "it matches only by chance" if _hits_a_tool(matcher, row) else "it never matches"
    effect = "it matches every tool" if matcher.matches(_NO_TOOL) else effect
    named = dict.fromkeys(_TOOL_IS.findall(pattern))
    tools = [_suggested_tool(name, row) or name for name in named]
    hint: str = edit(hook, "match", "|".join(tools)) if row.matching in _LISTS or len(tools) == 1 else "name one tool"
    hint = (
        f"name the tools, as in `{edit(hook, 'match', 'Bash|Write')}`"
        if _NEGATION.search(pattern) or not tools
        else hint
    )
    rule = edit(hook, "rules", f"{(*tools, 'Bash')[0]}(...)")
    more = re.search(r"\w", _WHOLE_TEST.sub("", pattern))  # than the tool: the hint must not lose it
    if more and not _NEGATION.search(pattern):
        write = f"write `{hint}`" if isinstance(hint, Edit) else hint
        hint = f"{write}, and the rest of the condition as `{rule}`, or check it in the hook"
        if re.search(r"\|\||\bor\b", pattern):
            hint = "write one hook for each part of the condition"
    message = f"`{pattern}` is a condition, and a matcher is compared with the tool's name: {effect}"
    return [finding(hook, "BH308", "match", message, hint)]


def _empty_alternative(hook: HookDeclaration) -> list[Finding]:
    pattern = hook.match or ""
    if meanings(hook.dialect).matching != "claude" or not _EMPTY.search(pattern) or not kinds(hook):
        return []
    matcher = compile_matcher(pattern, "claude", hook.events[0])
    if matcher.problem or (matcher.expression and not matcher.matches(_NO_TOOL)):
        return []
    effect = "which matches everything" if matcher.expression else "which matches everything in a regular expression"
    wanted = _without_empty(pattern)
    hint = edit(hook, "match", wanted) if wanted else f"remove `{edit(hook, 'match', pattern)}`"
    return [finding(hook, "BH309", "match", f"`{pattern}` has an empty alternative, {effect}", hint)]


def _without_empty(pattern: str) -> str:
    for sign, plain in ((r"\|{2,}", "|"), (r"(\((?:\?:)?)\|", r"\1"), (r"\|\)", ")"), (r"\((?:\?:)?\)", "")):
        pattern = re.sub(rf"(?<!\\){sign}", plain, pattern)
    left = compile_matcher(pattern := re.sub(r"^\||(?<!\\)\|$", "", pattern), "claude", "PreToolUse")
    return "" if left.problem or left.matches(_NO_TOOL) else pattern


# BH303: the pattern language of another dialect


def _wrong_language(hook: HookDeclaration) -> list[Finding]:
    row, pattern = meanings(hook.dialect), hook.match or ""
    fields = {kind.match_field for kind in kinds(hook)}
    if row.matching == "claude":
        if not hook.events or fields - {None}:
            return _rule_for_regex(hook, pattern) or _glob_for_regex(hook, pattern)
        return []
    foreign, syntax = _FOREIGN.get(row.matching, (_REGEX_SIGNS, "names and `*`, separated by `|`"))
    if not foreign.search(pattern):
        return []
    message = f"`{pattern}` is read by `{row.name}` as {syntax}, so it never matches"
    return [finding(hook, "BH303", "match", message, _translated(hook, row, pattern))]


def _rule_for_regex(hook: HookDeclaration, pattern: str) -> list[Finding]:
    """`Write(*.py)`: no expression either, so it matches everything. (One that is an expression never matches.)"""
    rule = _RULE.fullmatch(pattern)
    if not rule or canonical(rule[1]) not in TOOLS or not compile_matcher(pattern, "claude", "PreToolUse").problem:
        return []
    message = f"`{pattern}` is a rule, and a matcher is compared only with the name of the tool"
    return [finding(hook, "BH303", "match", message, _two_edits(hook, rule[1], pattern))]


def _two_edits(hook: HookDeclaration, tool: str, rule: str) -> str:
    return f"write `{edit(hook, 'match', canonical(tool))}` and `{edit(hook, 'rules', rule)}`"


def _glob_for_regex(hook: HookDeclaration, pattern: str) -> list[Finding]:
    if not (_GLOB_STAR.search(pattern) or pattern.startswith("*")) or ".*" in pattern or "(" in pattern:
        return []
    mended = "|".join(part.strip().replace(".", r"\.").replace("*", ".*") for part in pattern.split("|"))
    effect = f"`{hook.dialect}` reads a regular expression: `*` repeats the letter before it"
    message = f"`{pattern}` is a glob, and {effect}"
    return [finding(hook, "BH303", "match", message, edit(hook, "match", mended))]


def _translated(hook: HookDeclaration, row: Meanings, pattern: str) -> str:
    bare = re.sub(r"[\^$()]", "", pattern)
    names = [name.strip().replace(".*", "*").replace(".+", "*") for name in re.split(r"[|,]", bare)]
    if row.matching == "wildcard":
        return edit(hook, "match", "|".join(names))
    if len(names) > 1:
        return f"write one hook for each of {listed(names)}"
    if row.matching == "glob":
        return edit(hook, "match", names[0])
    return f"name one tool, as in `{edit(hook, 'match', called('Bash', row.naming))}`"


# BH301, BH302: names that no tool or field has


def _never(hook: HookDeclaration) -> list[Finding]:
    pattern = hook.match or ""
    wanted = [kind for kind in kinds(hook) if kind.match_field] if hook.events else []
    if not wanted or len(kinds(hook)) < len(hook.events):
        return []
    row = meanings(hook.dialect)
    matchers = {kind: compile_matcher(pattern, row.matching, kind.__name__) for kind in wanted}
    if any(matcher.problem or matcher.everything for matcher in matchers.values()):
        return []
    about_tools = all(kind.match_field == "tool_name" for kind in wanted)
    rule = _RULE.fullmatch(pattern)
    if about_tools and rule and not _hits_a_tool(matchers[wanted[0]], row) and canonical(rule[1]) in TOOLS:
        message = f"`{pattern}` is a rule, and a matcher is compared only with the name of the tool: it never matches"
        return [finding(hook, "BH301", "match", message, _two_edits(hook, rule[1], pattern))]
    if {kind.__name__ for kind in wanted} <= NARROW and "," in pattern and _NAME_LIST.fullmatch(pattern):
        message = f"`{pattern}` never matches: {_takes(hook)} lists separated by `|`"
        return [finding(hook, "BH301", "match", message, edit(hook, "match", re.sub(r"\s*[,|]\s*", "|", pattern)))]
    return _wrong_signs(hook, wanted, row) or [
        *_bare_servers(hook, row, about_tools),
        *_unknown_names(hook, wanted, row),
    ]


_NAME_LIST = re.compile(r"[A-Za-z0-9_]+(?:\s*[,|]\s*[A-Za-z0-9_]+)+")


_SLASHED = re.compile(r"/(.+)/([a-z]*)")
_LISTS = ("claude", "wildcard")  # ways of matching that read `a|b` as two names
_SIGNS = re.compile(r"\s{0,9}[;&+/]\s{0,9}|\s{1,9}(?:or|and)\s{1,9}|\s+")
"""Separators of names elsewhere, which are part of a name here."""


def _wrong_signs(hook: HookDeclaration, wanted: list[type[Event]], row: Meanings) -> list[Finding]:
    """`Bash;Edit`, `Bash Edit`, `/Bash/`. Only where all names are known."""
    pattern = hook.match or ""
    if not all(_real_names(kind, row) for kind in wanted):
        return []
    slashed = _SLASHED.fullmatch(pattern)
    if slashed:
        message = f"`{pattern}` never matches: the slashes are taken as part of the name"
        mended = ("(?i)" if "i" in slashed[2] else "") + slashed[1]
        names = _names_in(slashed[1])
        plain = all(map(_NAME.fullmatch, names))
        hint = _listing(hook, names, wanted, row) if plain else edit(hook, "match", mended)
        return [finding(hook, "BH301", "match", message, hint)]
    names = _names_in(pattern)
    parted = [item.strip() for item in re.split(r"[|,]", pattern) if len(_names_in(item)) > 1]
    real = {name for kind in wanted for name in _real_names(kind, row)}
    known = {folded(name) for name in names} & {folded(name) for name in real}
    if not parted or not known or not all(map(_NAME.fullmatch, names)):
        return []
    matchers = [compile_matcher(item, row.matching, kind.__name__) for item in parted for kind in wanted]
    if any(matcher.matches(name) for matcher in matchers for name in real):
        return []  # an expression that matches after all: `Web+Fetch`
    why = "names are separated by `|`" if row.matching in _LISTS else f"`{row.name}` reads it as one name"
    message = f"`{parted[0]}` never matches: {why}"
    return [finding(hook, "BH301", "match", message, _listing(hook, names, wanted, row))]


def _listing(hook: HookDeclaration, names: list[str], wanted: list[type[Event]], row: Meanings) -> str:
    names = list(dict.fromkeys(names))
    text = "|".join(_suggested(name, wanted, row) or name for name in names)
    return edit(hook, "match", text) if row.matching in _LISTS or len(names) == 1 else _translated(hook, row, text)


def _names_in(text: str) -> list[str]:
    return [name for item in re.split(r"[|,]", text) for name in _SIGNS.split(item.strip()) if name]


def _real_names(kind: type[Event], row: Meanings) -> set[str]:
    if kind.match_field == "tool_name":
        return {name for tool in TOOLS for name in _names_of(tool, row)}
    return set(_values(kind, row))


def _hits_a_tool(matcher: Matcher, row: Meanings) -> bool:
    return any(matcher.matches(*_names_of(tool, row)) for tool in TOOLS)


def _names_of(tool: str, row: Meanings) -> tuple[str, ...]:
    """The names of a tool in a dialect; the canonical name always works."""
    return (tool,) if row.naming == "canonical" else (tool, called(tool, row.naming))


def _bare_servers(hook: HookDeclaration, row: Meanings, about_tools: bool) -> list[Finding]:
    pattern = hook.match or ""
    names = _plain_names(pattern, whole=True)
    servers = [name for name in names if re.fullmatch(r"mcp(?:__?\w*)?", name) and "__" not in name[5:].rstrip("_")]
    if not about_tools or not servers:
        return []
    every = ".*" if row.matching == "claude" else "*"
    mended = list(dict.fromkeys(f"{name.rstrip('_')}__{every}" if name in servers else name for name in names))
    text = mended[0] if len(mended) == 1 else "|".join(mended)
    if row.matching == "claude" and len(mended) > 1:
        text = f"^({text})$"  # a list with an expression in it is one expression, and would match parts of names
    are, example = "is" if len(servers) == 1 else "are", f"{servers[0].rstrip('_')}__..."
    message = f"{listed(servers)} {are} not a tool: the tools of a server are called `{example}`"
    return [finding(hook, "BH302", "match", message, edit(hook, "match", text))]


def _unknown_names(hook: HookDeclaration, wanted: list[type[Event]], row: Meanings) -> Iterator[Finding]:
    pattern = hook.match or ""
    names = _plain_names(pattern)
    meant = {name: _suggested(name, wanted, row) for name in names}
    mended = pattern
    for name, known in meant.items():
        if known:
            mended = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", known, mended)
    mended = _each_once(mended)
    plugin = agent_of(hook.file) == "plugin"
    for name, known in meant.items():
        if name in EVENTS and _about_tools(hook):
            message = f"`{name}` is an event, not a tool: it never matches"
            yield finding(hook, "BH301", "match", message, _moved(hook, name))
        elif known is None or (plugin and (name in _ELSEWHERE or any(name in names for names in NAMINGS.values()))):
            continue
        elif known in names and (folded(name) == folded(known) or known in (_ELSEWHERE.get(name), canonical(name))):
            continue  # both spellings are given on purpose
        elif known:
            yield finding(hook, "BH301", "match", _slip(name, known, wanted, row), edit(hook, "match", mended))
        else:
            values = ", ".join(dict.fromkeys(value for kind in wanted for value in _values(kind, row)))
            elsewhere = any(name in VALUES.get(kind.__name__, "").split() for kind in wanted)
            here = f" in the dialect `{row.name}`" if elsewhere else ""
            message = (
                f"`{name}` is not a {wanted[0].match_field} of {listed(list(hook.events))}{here}: it never matches"
            )
            yield finding(hook, "BH301", "match", message, f"one of {values}")


def _moved(hook: HookDeclaration, event: str) -> str:
    if event in hook.events:
        left = [name for name in _plain_names(hook.match or "") if name not in EVENTS]
        if not left and isinstance(hook.action, FixedAnswer) and hook.action.decision == "allow":
            return "name the tools that it allows"  # without a matcher it would allow every call
        return edit(hook, "match", "|".join(left)) if left else f"remove `{edit(hook, 'match', hook.match)}`"
    return f"{at_event(hook, event)} and remove `{edit(hook, 'match', hook.match)}`"


def _each_once(pattern: str) -> str:
    head, inner, tail = re.fullmatch(r"(\^?\(?(?:\?:)?)(.*?)(\)?\$?)", pattern, re.S).groups()  # type: ignore[union-attr]
    if re.search(r"[()\[\\]", inner):
        return pattern
    return head + "|".join(dict.fromkeys(inner.split("|"))) + tail


def _slip(name: str, known: str, wanted: list[type[Event]], row: Meanings) -> str:
    if any(kind.match_field == "tool_name" for kind in wanted):
        if known.startswith("mcp__"):
            return f"`{name}` never matches: the tools of MCP servers begin with `mcp__`; case counts"
        if row.naming == "canonical" and known in (canonical(name), _ELSEWHERE.get(name)):
            return f"`{name}` never matches: in the dialect `{row.name}` the tool is called `{known}`"
        why = "matchers are case-sensitive" if name.lower() == known.lower() else "check the spelling"
        return f"`{name}` never matches: the tool is called `{known}`; {why}"
    return f"`{name}` never matches: {wanted[0].match_field} can be `{known}`"


def _plain_names(pattern: str, *, whole: bool = False) -> list[str]:
    """The names in a list, also in `^(Bash|Write)$` and `Bash.*`; none if the pattern contains anything else."""
    bare = pattern.removeprefix("(?i)") if whole else re.sub(r"^\^?\(?(?:\?:)?|\)?\$?$", "", pattern)
    parts = [part.strip() for part in re.split(r"[|,]", bare)]
    if not whole:
        parts = [re.sub(r"^\^|\$$|\.[*+]$", "", part) for part in parts]
    return [part for part in parts if part] if all(not part or _NAME.fullmatch(part) for part in parts) else []


def _suggested(name: str, wanted: Iterable[type[Event]], row: Meanings) -> str | None:
    """The known name that was probably meant; empty if there is none; None if the name is fine."""
    answers = [_suggested_on(kind, name, row) for kind in wanted]
    return None if None in answers else next((answer for answer in answers if answer), "")


def _suggested_on(kind: type[Event], name: str, row: Meanings) -> str | None:
    if kind.match_field == "tool_name":
        return _suggested_tool(name, row)
    values = _values(kind, row)
    if not values or name in values or (row.matching == "wildcard" and name.lower() in values):
        return None
    near = next((value for value in values if slip_of(name, value)), "")
    # New kinds of notifications come with every release: an unknown one may be real.
    return near or (None if kind.__name__ == "Notification" and name not in TOOLS else "")


def _values(kind: type[Event], row: Meanings) -> list[str]:
    values = VALUES.get(kind.__name__, "").split()
    if kind.__name__ == "SessionStart" and row.session_sources is not None:
        return [value for value in values if value in row.session_sources]
    return values


def _suggested_tool(name: str, row: Meanings) -> str | None:
    if name.lower().startswith("mcp__"):
        return None if name.startswith("mcp__") or row.matching == "wildcard" else f"mcp__{name[5:]}"
    if _hits_a_tool(compile_matcher(name, row.matching, "PreToolUse"), row):
        return None
    if canonical(name) != name:
        return canonical(name)
    if row.name == "claude" and name in _ELSEWHERE:
        return _ELSEWHERE[name]
    near = next((tool for tool in sorted(TOOLS) if folded(name) == folded(tool)), None)
    return near or _slipped_tool(name)


def _slipped_tool(name: str) -> str | None:
    return next((tool for tool in sorted(TOOLS) if len(tool) > 3 and slip_of(name, tool)), None)


def slip_of(name: str, known: str) -> bool:
    """Whether a name is a known one in other case, or with one letter wrong, extra, missing or swapped."""
    name, known = folded(name), folded(known)
    if name == known or abs(len(name) - len(known)) > 1:
        return name == known
    start = next((i for i, pair in enumerate(zip(name, known, strict=False)) if pair[0] != pair[1]), len(known))
    a, b = name[start:], known[start:]
    return a[1:] == b or a == b[1:] or a[1:] == b[1:] or (a[:2] == b[1::-1] and a[2:] == b[2:])


# the rule of `if`


def _rule_never(hook: HookDeclaration, text: str) -> list[Finding]:
    try:
        rule = Rule.parse(text)
    except RuleError:
        return []
    if better := corrected_rule(text):
        message = f"`{rule.tool}` never matches: there is a tool `{Rule.parse(better).tool}`"
        hint = edit(hook, "rules", with_rule(hook, text, better))
        return [finding(hook, "BH301", "rules", message, hint, better)]
    known = "*" in rule.tool or rule.tool.startswith("mcp__") or rule.tool in TOOLS
    return _contradiction(hook, rule) if known and len(hook.conditions.rules) == 1 else []


def corrected_rule(text: str) -> str:
    """The rule with the tool that it probably means; empty where its tool is known or may be the user's own."""
    try:
        tool = Rule.parse(text).tool
    except RuleError:
        return ""
    known = "*" in tool or tool.startswith("mcp__") or tool in TOOLS
    meant = None if known else _suggested_tool(tool, meanings("claude"))
    return text.replace(tool, meant, 1) if meant else ""


def with_rule(hook: HookDeclaration, old: str, new: str) -> str | list[str]:
    """The new value of `if`: the rules with one of them replaced."""
    rules = [new if rule == old else rule for rule in hook.conditions.rules]
    return rules[0] if len(rules) == 1 else rules


def _contradiction(hook: HookDeclaration, rule: Rule) -> list[Finding]:
    row = meanings(hook.dialect)
    matcher = compile_matcher(hook.match, row.matching, "PreToolUse")
    tools = [tool for tool in TOOLS if rule.names(tool)]
    if matcher.everything or not tools or any(matcher.matches(*_names_of(tool, row)) for tool in tools):
        return []
    if not _hits_a_tool(matcher, row):  # the matcher itself is wrong, or for unknown tools
        return []
    message = f"`{hook.match}` and `{hook.conditions.rules[0]}` are about different tools: the hook never runs"
    return [finding(hook, "BH301", "rules", message, edit(hook, "match", rule.tool))]


# BH306: a rule for one spelling of a command that has several. `Bash(rm -rf *)` does not match `rm -fr`.
# A command that the rule matches is generated from it, and then written in the other usual spellings. A spelling that
# neither this rule nor the rules of other hooks match is a finding.


class CommandAction(msgspec.Struct, frozen=True):
    """One operation of a command, and its spellings."""

    command: tuple[str, ...]
    spellings: tuple[str, ...]  # options that mean the same
    anywhere: bool = False  # they may come before and after the other words


MOST = 100  # Rules that are compared with each other. Longer lists are generated.

DEEDS = (
    CommandAction(("git", "push"), ("--force", "-f"), anywhere=True),
    CommandAction(("git", "reset"), ("--hard",), anywhere=True),
    CommandAction(("git", "commit"), ("--no-verify", "-n"), anywhere=True),
    CommandAction(("git", "clean"), ("-fd", "-df", "-f -d", "-d -f")),
    CommandAction(("git", "clean"), ("-fdx", "-xdf", "-dfx", "-f -d -x")),
    CommandAction(("git", "branch"), ("-D", "--delete --force", "-d -f")),
    CommandAction(("rm",), ("-rf", "-fr", "-r -f", "-f -r", "--recursive --force")),
    CommandAction(("chmod",), ("777", "0777", "a+rwx")),
    CommandAction(("npm", "install"), ("-g", "--global"), anywhere=True),
    CommandAction(("docker", "system", "prune"), ("-af", "-fa", "-a -f", "--all --force")),
    CommandAction(("terraform", "apply"), ("-auto-approve", "--auto-approve"), anywhere=True),
)


def lint_rules(hooks: Sequence[HookDeclaration]) -> Iterator[Finding]:
    """Spellings that the rules of all hooks for an event miss."""
    judging = (hook for hook in hooks if not (isinstance(hook.action, FixedAnswer) and hook.action.decision == "allow"))
    said = [(hook, text) for hook in judging for text in hook.conditions.rules]
    rules = [(hook, text, rule) for hook, text in said if (rule := _shell_rule(text)) is not None][:MOST]
    for hook, text, rule in rules:
        events = set(hook.events)
        beside = [other for one, _, other in rules if not events or not one.events or events.intersection(one.events)]
        for deed, variants in _commands_matched(rule):
            missed = [spelt for spelt in variants if not any(_matches_command(other, spelt) for other in beside)]
            if missed:
                message = f"`{text}` misses {listed(missed[:3])}"
                better = f"Bash({' '.join(deed.command)} *)"
                hint = f"write `{edit(hook, 'rules', with_rule(hook, text, better))}`, which matches all of them"
                yield finding(hook, "BH306", "rules", message, hint, better)
                break


def _shell_rule(text: str) -> Rule | None:
    try:
        rule = Rule.parse(text) if text and len(text) <= LONGEST else None
    except RuleError:
        return None
    return rule if rule is not None and rule.tool == "Bash" and rule.specifier else None


def _matches_command(rule: Rule, command: str) -> bool:
    return rule.strikes("Bash", {"command": command})


def _commands_matched(rule: Rule) -> Iterator[tuple[CommandAction, list[str]]]:
    """The operations that a rule is for, each with all spellings of a command that it matches."""
    specifier = rule.specifier or ""
    specifier = f"{specifier[:-2]} *" if specifier.endswith(":*") else specifier
    words = [word for word in ("x" if word == "*" else word.replace("*", "") for word in specifier.split()) if word]
    for deed in DEEDS:
        about = tuple(words[: len(deed.command)]) == deed.command and _matches_command(rule, " ".join(words))
        if about and (variants := _variants(deed, words[len(deed.command) :])):
            yield deed, variants


def other_spelling(text: str, command: str) -> str:
    """A rule that also matches this command, where it is another spelling of what the rule is for; else empty."""
    rule = _shell_rule(text)
    commands = [one.words for one in shell.parse(command).commands] if rule is not None else []
    for deed, _ in _commands_matched(rule) if rule is not None else ():
        if any(_is_spelt(deed, words) for words in commands):
            return f"Bash({' '.join(deed.command)} *)"
    return ""


def _is_spelt(deed: CommandAction, words: Sequence[str]) -> bool:
    count = len(deed.command)
    given = set(words[count:])
    return tuple(words[:count]) == deed.command and any(given.issuperset(one.split()) for one in deed.spellings)


def _variants(deed: CommandAction, words: list[str]) -> list[str]:
    """The command with its options in every spelling and place; none if it has no such options."""
    for wanted in sorted(map(str.split, deed.spellings), key=len, reverse=True):
        for start in range(len(words)):
            if words[start : start + len(wanted)] == wanted:
                return list(dict.fromkeys(_spelt(deed, words[:start], words[start + len(wanted) :])))
    return []


def _spelt(deed: CommandAction, before: list[str], after: list[str]) -> Iterator[str]:
    for options in map(str.split, deed.spellings):
        orders = [[*before, *options, *after]]
        if deed.anywhere:
            orders += [[*options, *before, *after], [*before, *after, *options]]
        yield from (" ".join((*deed.command, *order)) for order in orders)


# Permission rules without effect:


def lint_permissions(rules: Rules) -> Iterator[Finding]:
    """Rules of the lists that have no effect."""
    for one in (*rules.allow, *rules.ask, *rules.deny):
        yield from _no_such_tool(one)
    ask = [one for one in rules.ask if not one.unread]
    yield from _outdone((*rules.allow, *ask), rules.deny, "deny")
    yield from _outdone(rules.allow, ask, "ask")


def _no_such_tool(one: PlacedRule) -> Iterator[Finding]:
    """Names that are similar to a known one; others may be tools of the user."""
    name = one.rule.tool
    meant = None if "*" in name or name.startswith("mcp__") or name in TOOLS else _slipped_tool(name)
    if meant is not None:
        message = f"`{name}` never matches: there is a tool `{meant}`"
        hint = f"write `{one.text.replace(name, meant, 1)}`"
        yield Finding("BH301", message, one.file, one.line, one.column, hint)


def _outdone(rules: Sequence[PlacedRule], stricter: Sequence[PlacedRule], kind: str) -> Iterator[Finding]:
    by_rule = {(other.rule.tool, other.rule.specifier): other for other in reversed(stricter)}
    for one in rules:
        other = by_rule.get((one.rule.tool, one.rule.specifier)) or by_rule.get((one.rule.tool, None))
        if other is not None:
            message = f"`{one.text}` has no effect: `{kind}` has `{other.text}` ({other.place})"
            yield Finding("BH307", message, one.file, one.line, one.column, "remove it: the stricter list decides")


CHECKS = (lint_match,)
