"""Checks of one hook: timeouts, gates without effect (BH501 to BH503, BH510), addresses, shell lines, and findings from
the event log.
"""

import functools
import importlib.util
import os
import re
from collections.abc import Iterator, Sequence
from typing import Final
from urllib.parse import SplitResult, parse_qsl, urlsplit

import msgspec

from billhook.agents import AGENTS
from billhook.agents.child import HOOK_VARIABLES
from billhook.config import variables
from billhook.config.declaration import Declared, Exec, RunAction, Say, Url
from billhook.config.history import NOT_WANTED, HookHistory, Quiet, Slow
from billhook.config.lint import at_event, edit, finding, kinds, listed
from billhook.config.lint.commands import LONGEST, scripts
from billhook.config.sources import agent_of
from billhook.core.answers import SkipReason
from billhook.core.dialect_traits import meanings
from billhook.core.events import Block
from billhook.core.text import Finding, install_command
from billhook.runners.webhook import loopback


def _milliseconds(hook: Declared) -> Iterator[Finding]:
    seconds = hook.timeout
    if seconds is None:
        return
    agent = agent_of(hook.file)
    units = AGENTS[agent].unit_per_second if agent in AGENTS else 1
    if units > 1:
        written = seconds * units
        if written < _SHORTEST:
            message = f"`timeout` is in milliseconds here: the hook is ended after {written:g} ms"
            yield finding(hook, "BH501", "timeout", message, edit(hook, "timeout", round(written * 1000)))
    # 1500 and 30000 look like milliseconds; 1800, 3600 and 7200 are whole minutes and may be intended
    elif seconds >= 1000 and (seconds % 500 == 0 or (seconds > 10_000 and seconds % 3600 != 0)):
        spoken = f"{seconds / 3600:.1f} hours" if seconds >= 7200 else f"{seconds / 60:.0f} minutes"
        message = f"`timeout` is in seconds: {seconds:g} is {spoken}"
        mended = int(seconds / 1000) if seconds % 1000 == 0 else seconds / 1000
        yield finding(hook, "BH501", "timeout", message, edit(hook, "timeout", mended))


_SHORTEST = 200  # milliseconds; a command can hardly start in less, so seconds were meant


def _too_late(hook: Declared) -> Iterator[Finding]:
    if not hook.background:
        return
    field = "background" if "background" in hook.places else "rewake"
    waiting = [kind.__name__ for kind in kinds(hook) if kind.gates] if hook.events else ["PreToolUse"]
    if hook.gate:
        effect = f"{listed(waiting)} waits for its answer, so the gate always fails"
        effect = effect if waiting else "it can't block anything"
        hint = f"remove `{edit(hook, field, True)}`"
        yield finding(hook, "BH502", field, f"a gate can't run in the background: {effect}", hint)
    if "rewake" in hook.places and hook.shape == "yaml":
        message = "`asyncRewake` has no effect here: billhook can't wake an agent"
        hint = "replace `asyncRewake` with `background: true`"
        yield finding(hook, "BH510", "rewake", message, hint)


def _nothing_to_block(hook: Declared) -> Iterator[Finding]:
    events = kinds(hook)
    if not hook.gate or not events or len(events) < len(hook.events) or hook.background:
        return
    # A fixed `deny` is a gate without the key.
    if "on_failure" not in hook.places or any(kind.can_block and kind.block is not Block.KEEP_GOING for kind in events):
        return
    word = "block" if hook.shape != "yaml" and hook.on_failure == "deny" else hook.on_failure
    spelt = edit(hook, "gate", True) if "gate" in hook.places else edit(hook, "on_failure", word)
    names = listed(list(hook.events))
    if any(kind.block is Block.KEEP_GOING for kind in events):
        message = f"`{spelt}` has no effect on {names}: a failure never keeps an agent going"
        yield finding(hook, "BH510", "on_failure", message, f"remove `{spelt}`")
    elif not _says_no(hook):
        message = f"nothing can be blocked on {names}: `{spelt}` only marks the result as an error"
        yield finding(hook, "BH503", "on_failure", message, f"{_blocking(hook)}, or remove `{spelt}`")


def _nothing_to_refuse(hook: Declared) -> Iterator[Finding]:
    events = kinds(hook)
    if not _says_no(hook) or not events or len(events) < len(hook.events) or any(kind.can_block for kind in events):
        return
    effects = {_EFFECTS[kind.block] for kind in events}
    effect = effects.pop() if len(effects) == 1 else "at most its text is shown"
    message = f"nothing can be blocked on {listed(list(hook.events))}: {effect}"
    told = any(kind.block is Block.MODEL or kind.__name__ == "SessionStart" for kind in events)
    hint = _blocking(hook) + (", or use `inject` to tell the model" if told else "")
    yield finding(hook, "BH503", "action", message, hint)


def _blocking(hook: Declared) -> str:
    """A hint that moves a hook to an event that can be blocked."""
    about_tools = any(kind.match_field == "tool_name" for kind in kinds(hook))
    return at_event(hook, "PreToolUse") if about_tools else "use an event that can be blocked, such as PreToolUse"


def _says_no(hook: Declared) -> bool:
    return isinstance(hook.action, Say) and hook.action.decision in ("deny", "ask")


_EFFECTS = {
    Block.MODEL: "the text only goes to the model",
    Block.USER: "the text is only shown to the user",
    Block.IGNORED: "nothing comes of it",
}


def lint_dialects(hooks: Sequence[Declared]) -> Iterator[Finding]:
    """BH507: the same exit code has different meanings in one file."""
    seen: dict[str, list[Declared]] = {}
    for hook in hooks:
        others = seen.setdefault(hook.file, [])
        runs = hook.file and isinstance(hook.action, RunAction | Exec)
        if not runs or hook.dialect in {one.dialect for one in others}:
            continue
        if others:
            message = f"`{hook.dialect}` and `{others[0].dialect}` in one file: exit codes mean different things"
            hint = f"move it to another file, or write it in the shape of line {others[0].line}"
            yield finding(hook, "BH507", "dialect", message, hint)
        others.append(hook)


# HTTP hooks that can't be sent (BH403), and addresses that expose data:


_SECRET = re.compile(r"(?:api|access|auth|secret|private)?[_-]?(?:key|token|secret|password|passwd|pwd|auth|sig)", re.I)


def lint_url(hook: Declared) -> Iterator[Finding]:
    """Check the address of an HTTP hook. No finding repeats a secret."""
    if not isinstance(hook.action, Url):
        return
    if importlib.util.find_spec("httpx") is None:
        message = "an HTTP hook needs the package `httpx`, which is not installed; it can't be run"
        found = finding(hook, "BH403", "action", message, install_command("http"))
        # In an agent's settings file, the agent sends the request: this is only a note.
        yield msgspec.structs.replace(found, note=bool(agent_of(hook.file)))
    try:
        parts = urlsplit(hook.action.url)
        host = parts.hostname or ""
    except ValueError:
        return
    local = host.endswith(".localhost") or loopback(host)
    if parts.scheme.lower() == "http" and host and "$" not in host and not local:
        message = f"plain http to `{host}`: others on the network can read events and forge answers"
        yield finding(hook, "BH508", "action", message, "change `http://` to `https://`")
    secret = _secret(parts)
    if secret:
        message = f"the address contains {secret}, which everyone who can read the file or a log sees"
        header = 'headers: {Authorization: "Bearer $TOKEN"}` and `allowedEnvVars: [TOKEN]'
        if hook.shape != "yaml":
            header = '"headers": {"Authorization": "Bearer $TOKEN"}, "allowedEnvVars": ["TOKEN"]'
        yield finding(hook, "BH509", "action", message, f"send it as a header: `{header}`")


def _secret(parts: SplitResult) -> str:
    credentials = parts.netloc.rpartition("@")[0]
    if credentials and not credentials.lstrip(":").startswith("$"):
        return "a user name and password" if ":" in credentials else "a user name"
    names = [name for name, value in parse_qsl(parts.query) if _SECRET.fullmatch(name) and not value.startswith("$")]
    return f"a secret (`{names[0]}`)" if names else ""


# Findings from the event log, about hooks without any other finding:


def lint_log(facts: HookHistory, warn_ms: float | None) -> Iterator[Finding]:
    """A note for each hook that never ran, and for each that is slow."""
    yield from (_never_fired(one, one.row.declared) for one in facts.quiet if one.row.declared is not None)
    yield from (_slow(one, one.row.declared, warn_ms or 0.0) for one in facts.slow if one.row.declared is not None)


def _never_fired(quiet: Quiet, hook: Declared) -> Finding:
    occurred = ", ".join(f"`{event}` occurred {_times(count)}" for event, count in quiet.events.items())
    unfit = sum(count for why, count in quiet.reasons.items() if why in NOT_WANTED)
    behind = sum(quiet.reasons.values()) - unfit
    field = "match" if hook.match and SkipReason.CONDITION_FALSE not in quiet.reasons else "rules"
    value = hook.match if field == "match" else " ".join(hook.conditions.rules[:1])
    what = f"`{edit(hook, field, value)}`" if value else "its condition"
    if not behind:
        why = f", and {what} did not match"
    elif not unfit:
        why = f", and {'each time ' * (behind > 1)}{_ended_by(quiet)} before it could run"
    else:
        why = f"; {what} did not match {_times(unfit)}, and {_times(behind)} {_ended_by(quiet)} before it could run"
    last = " the last time" if sum(quiet.events.values()) > 1 else ""
    right = (
        "for a guard against rare cases this is normal"
        if unfit
        else "to run also for denied calls, it needs a smaller `priority`"
    )
    hint = f"`billhook explain {quiet.last}` shows why it was skipped{last}; {right}"
    return finding(
        hook, "BH601", field if unfit else "priority", f"{hook.subject} has never run: {occurred}{why}", hint
    )


def _ended_by(quiet: Quiet) -> str:
    ended = [why for why in quiet.reasons if why not in NOT_WANTED]
    return " or ".join([*ended[:3], *(["others"] if len(ended) > 3 else [])])


def _times(count: int) -> str:
    return "once" if count == 1 else "twice" if count == 2 else f"{count:,} times"


def _slow(slow: Slow, hook: Declared, warn_ms: float) -> Finding:
    runs, took = slow.stats.runs, f"{slow.stats.p95 or 0.0:,.0f} ms"
    spoken = f"the slowest of {runs} runs took {took}" if runs > 1 else f"its one run took {took}"
    if runs >= 20:  # with fewer runs the 95th percentile is the longest
        spoken = f"one run in twenty takes {took} or more"
    message = f"{hook.subject} is slow: {spoken}, and the latency budget is {warn_ms:,.0f} ms"
    later = "" if hook.gate else ", run it in the background"
    hint = f"make it faster{later}, or raise `warn_ms` of the built-in `metrics`"
    return finding(hook, "BH602", "action", message, hint)


# Shell lines that can't work where they run (BH406, BH407). Quoted text, comments and here-documents are blanked out
# first, because the shell does not read them.


# -- BH406: variables that look as if an agent set them

_INVENTED: Final = re.compile(
    r"CLAUDE_(?:TOOL|FILE|HOOK|EVENT|INPUT|OUTPUT|PROMPT|USER_PROMPT|USER_MESSAGE|MESSAGE|NOTIFICATION|COMMAND|BASH"
    r"|EDIT|EDITED|RESPONSE|RESULT|ARG|ARGS|ARGUMENTS|MODIFIED|CHANGED|CURRENT|LAST|TRANSCRIPT|SESSION|CONVERSATION"
    r"|STDIN|PAYLOAD|MATCHER|SUBAGENT|STOP|CWD|WORKING)(?:_\w+)?S?"
    r"|CLAUDE_PROJECT_(?!DIR$)\w+|CLAUDE_WORKSPACE\w*"
    rf"|(?:{'|'.join(AGENTS).upper()})_(?:TOOL|FILE|HOOK|EVENT|INPUT|PROMPT|COMMAND)(?:_\w+)?"
    r"|(?:TOOL|HOOK)_(?:NAME|INPUT|OUTPUT|RESULT|RESPONSE|ARG|ARGS|PARAMS|JSON|DATA|PAYLOAD|EVENT|FILE|COMMAND)(?:_\w+)?"
    r"|HOOK_TOOL_\w+|TOOL_USE_ID|STDIN_JSON|STDIN|EVENT_JSON|INPUT_JSON|HOOK_EVENT_NAME"
    r"|FILE_?PATHS?|FILES?|(?:EDITED|CHANGED|MODIFIED|TARGET)_FILES?(?:_PATHS?)?|ARGUMENTS"
    r"|file_?[pP]aths?|files?|tool_(?:name|input|response|result|output|use_id)|toolInput|toolName"
)
"""Names that look like values of the event. Any other unknown variable may be set by the user."""
_SET_BY_BILLHOOK: Final = frozenset(
    f"CLAUDE_{name}" for name in ("SESSION_ID", "SESSION_NAME", "TURN_ID", "TURN_SEQUENCE", "EVENT_TYPE", "CWD")
)
_USED: Final = re.compile(r"(?<!\\)\$(?:\{#?([A-Za-z_]\w*)(\}|:?[-=+?])?|([A-Za-z_]\w*))")
_ASSIGNED: Final = re.compile(
    r"(?:^|[\s;&|({`])(?:(?:export|local|readonly|declare|typeset|set)\s+(?:-\w+\s+)*)?([A-Za-z_]\w*)\+?="
    r"|\bfor\s+([A-Za-z_]\w*)\b|\b(?:read|mapfile|readarray|getopts)\b([^;|&\n<)]*)|\bprintf\s+-v\s+([A-Za-z_]\w*)"
)
_IN_CODE: Final = re.compile(r"(?:environ(?:\.get)?[\[(]|getenv\(|process\.env[.\[]|ENV\[)\s{0,9}[\"']?(CLAUDE_\w+)")
_READS_STDIN: Final = re.compile(
    r"\bjq\b|\bcat\b(?!\s*<<)|/dev/stdin|\bstdin\b|\bread\b|\binput\(|fs\.readFileSync\(0|STDIN"
)
_FIELDS: Final = (
    (re.compile(r"transcript", re.I), ".transcript_path"),
    (re.compile(r"file|path|edited|changed|modified", re.I), ".tool_input.file_path // empty"),
    (re.compile(r"command|bash", re.I), ".tool_input.command // empty"),
    (re.compile(r"tool_?(?:use_?)?name|matcher", re.I), ".tool_name"),
    (re.compile(r"session", re.I), ".session_id"),
    (re.compile(r"cwd|working", re.I), ".cwd"),
    (re.compile(r"prompt", re.I), ".prompt"),
    (re.compile(r"message|notification", re.I), ".message"),
    (re.compile(r"output|result|response", re.I), ".tool_response"),
    (re.compile(r"event", re.I), ".hook_event_name"),
)
"""The field of the event for a name."""


def lint_variables(hook: Declared, given: frozenset[str] = frozenset()) -> Iterator[Finding]:
    """Variables that no agent sets: they are empty, and the hook checks nothing. `given`: those that the file sets."""
    if not isinstance(hook.action, RunAction) or hook.action.shell == "powershell" or len(hook.action.text) > LONGEST:
        return
    native = hook.shape == "yaml"
    text = variables.for_shell(hook.action.text, "")[0] if native else hook.action.text
    if name := next((name for name in _unset(text) if name not in given and _is_invented(name, hook)), ""):
        yield _never_set(hook, name, "")
        return
    for one, text in scripts(hook):
        if not _READS_STDIN.search(text):  # a script that reads stdin gets the event there
            found = [*_unset(text), *_IN_CODE.findall(text)]
            name = next((name for name in found if name.startswith("CLAUDE_") and _is_invented(name, hook)), "")
            if name and name not in given:
                yield _never_set(hook, name, one.word)
                return


def _is_invented(name: str, hook: Declared) -> bool:
    if name in os.environ or (name in HOOK_VARIABLES and meanings(hook.dialect).hook_variables):
        return False
    if name in _SET_BY_BILLHOOK and not (hook.shape == "nested" and agent_of(hook.file)):
        return False
    return _INVENTED.fullmatch(name) is not None


def _never_set(hook: Declared, name: str, word: str) -> Finding:
    where = f" in {word}" if word else ""
    message = f"no agent sets `${name}`{where}: it is empty"
    if name.startswith(("CLAUDE_PROJECT_", "CLAUDE_WORKSPACE")):
        return finding(hook, "BH406", "action", message, "use `$CLAUDE_PROJECT_DIR`")
    asked = next((query for words, query in _FIELDS if words.search(name)), ".tool_input")
    own = asked.removesuffix(" // empty").rpartition(".")[2].replace("tool_name", "tool")
    if hook.shape == "yaml" and not word and own in variables.NAMES:
        return finding(hook, "BH406", "action", message, f"write `${{{own}}}`")
    hint = f"set it first: `{name}=$(jq -r '{asked}')`"
    return finding(hook, "BH406", "action", f"{message}; the event comes as JSON on stdin", hint)


def _unset(text: str) -> list[str]:
    """The variables that a shell text uses and does not set, in order, without those that have a default."""
    plain = blanked(text, double=False)
    assigned = {
        name
        for found in _ASSIGNED.finditer(plain)
        for group in found.groups()
        if group
        for name in re.findall(r"[A-Za-z_]\w*", group)
    }
    used = (found[1] or found[3] for found in _USED.finditer(plain) if found[2] in (None, "}") or not found[1])
    return [name for name in dict.fromkeys(used) if name not in assigned]


# -- BH407: syntax of bash

_START: Final = r"(?:^|[;&|({\n`]|\$\(|\b(?:if|elif|while|until|then|else|do)\s|!\s)\s{0,99}"
_OF_BASH: Final[tuple[tuple[str, re.Pattern[str]], ...]] = (
    ("[[ ]]", re.compile(_START + r"\[\[\s")),
    ("<<<", re.compile(r"<<<")),
    ("&>", re.compile(r"(?<![0-9&>])&>(?!&)")),
    ("<( )", re.compile(r"(?<![<$])[<>]\((?!\()")),
    ("an array", re.compile(r"(?:^|[\s;&|({])[A-Za-z_]\w*\+?=\(")),
    ("function", re.compile(_START + r"function\s+\w")),
    ("source", re.compile(_START + r"source\s+\S")),
    ("==", re.compile(_START + r"(?:\[\s|test\s)[^];|&\n]{0,300}\s==\s")),
    ("a brace expansion", re.compile(r"(?<![$\w{])\{\w+\.\.\w+\}")),
    ("shopt", re.compile(_START + r"(?:shopt|declare|typeset|mapfile|readarray|pushd|popd|let)\s")),
)
_EXPANSIONS: Final = re.compile(
    r"\$\{(?:PIPESTATUS\b[^}]{0,50}|BASH_\w+[^}]{0,50}|![A-Za-z_]\w*|[A-Za-z_]\w*(?:\[[^]]{0,50}\]|//?[^}]{0,200}|\^\^?|,,?|:\d[^}]{0,50}|@\w))\}"
)
_LIKE_BASH: Final = frozenset({"bash", "zsh", "ksh", "ksh93", "mksh", "busybox", "ash", "rbash"})


def lint_bash(hook: Declared) -> Iterator[Finding]:
    """Bash in a line that `sh` runs, where `sh` is another shell."""
    if not isinstance(hook.action, RunAction) or hook.action.shell or len(hook.action.text) > LONGEST:
        return
    if agent_of(hook.file) not in ("", "claude", "plugin"):
        return  # other agents may use another shell
    name = _sh()
    found = _bash_in(hook.action.text) if name and name not in _LIKE_BASH else ""
    if found:
        message = f"{found} needs bash, and `sh` runs this line (`sh` is `{name}` on this machine)"
        yield finding(
            hook, "BH407", "action", message, f"add `{edit(hook, 'shell', 'bash')}`, or write the line for `sh`"
        )


def _bash_in(text: str) -> str:
    plain = blanked(text, double=True)
    name = next((name for name, sign in _OF_BASH if sign.search(plain)), "")
    if name:
        return f"`{name}`" if " " not in name or name[0] in "[<" else name
    expansion = _EXPANSIONS.search(blanked(text, double=False))
    return f"`{expansion[0]}`" if expansion else ""


@functools.cache
def _sh() -> str:
    return os.path.basename(os.path.realpath("/bin/sh")) if os.path.exists("/bin/sh") else ""


# -- the parts of shell text that the shell interprets


_QUOTED: Final = re.compile(
    r"""\\.|'[^']*'|"(?:[^"\\]|\\.)*"|(?:(?<=\s)|^)\#[^\n]*|<<-?\s*([\"']?)(\w+)\1[^\n]*\n.*?^\s*\2$""", re.S | re.M
)


def blanked(text: str, *, double: bool) -> str:
    """The text with quoted text, comments and here-documents blanked out; `double`: what is in double quotes, too,
    except for the commands in `$(...)` there."""

    def blank(found: re.Match[str]) -> str:
        part = found[0]
        if part[0] == '"' and not double:
            return part
        if part[0] == '"':
            inner = re.findall(r"\$\([^()]*(?:\([^()]*\)[^()]*)*\)", part)
            return '""' + " ".join(inner) + " " if inner else '""'
        return "''" if part[0] == "'" else " " if part[0] != "\\" else "x"

    return _QUOTED.sub(blank, text)


CHECKS: Final = (_milliseconds, _too_late, _nothing_to_block, _nothing_to_refuse, lint_url, lint_bash)
