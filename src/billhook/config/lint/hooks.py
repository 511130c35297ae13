"""Checks of one hook: timeouts, gates and answers without effect (BH501 to BH503, BH510, BH513), addresses, shell
lines, tests that are never true (BH301, BH305), variables and results (BH212, BH214); and for `billhook check --host`,
what an agent can't honour of it: missing events, answers that it ignores or changes, and time limits.
"""

import functools
import importlib.util
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final
from urllib.parse import SplitResult, parse_qsl, urlsplit

import msgspec
from msgspec.structs import replace

from billhook.agents import AGENTS, own_name
from billhook.agents.base import CAPABILITIES, can
from billhook.agents.child import HOOK_VARIABLES
from billhook.config import actions
from billhook.config.build import each_test
from billhook.config.declaration import (
    BUILTINS,
    EVENT_VARIABLES,
    Exec,
    FixedAnswer,
    HookDeclaration,
    Mask,
    Python,
    Rewrite,
    RunAction,
    UnsupportedAction,
    Url,
    spelling,
)
from billhook.config.lint import at_event, edit, finding, kinds, listed
from billhook.config.lint.commands import LONGEST, head_of, scripts
from billhook.config.permissions import MODES
from billhook.config.sources import agent_of
from billhook.core.answer_schema import SUPPORTED_FIELDS
from billhook.core.dialect_traits import meanings
from billhook.core.events import EVENTS, Block
from billhook.core.match import compile_matcher
from billhook.core.text import Finding, install_command, joined, nearest
from billhook.runners.webhook import loopback


def _milliseconds(hook: HookDeclaration) -> Iterator[Finding]:
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
        message = f"`timeout` is in seconds, not milliseconds: {seconds:g} is {spoken}"
        mended = int(seconds / 1000) if seconds % 1000 == 0 else seconds / 1000
        yield finding(hook, "BH501", "timeout", message, edit(hook, "timeout", mended))


_SHORTEST = 200  # milliseconds; a command can hardly start in less, so seconds were meant


def _background_gate(hook: HookDeclaration) -> Iterator[Finding]:
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


def _nothing_to_block(hook: HookDeclaration) -> Iterator[Finding]:
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
    elif not _refuses(hook):
        message = f"nothing can be blocked on {names}: `{spelt}` only marks the result as an error"
        yield finding(hook, "BH503", "on_failure", message, f"{_blocking(hook)}, or remove `{spelt}`")


def _nothing_to_refuse(hook: HookDeclaration) -> Iterator[Finding]:
    events = kinds(hook)
    if not _refuses(hook) or not events or len(events) < len(hook.events) or any(kind.can_block for kind in events):
        return
    effects = {_EFFECTS[kind.block] for kind in events}
    effect = effects.pop() if len(effects) == 1 else "at most its text is shown"
    message = f"nothing can be blocked on {listed(list(hook.events))}: {effect}"
    told = any(kind.block is Block.MODEL or kind.__name__ == "SessionStart" for kind in events)
    hint = _blocking(hook) + (", or use `inject` to tell the model" if told else "")
    yield finding(hook, "BH503", "action", message, hint)


def _blocking(hook: HookDeclaration) -> str:
    """A hint that moves a hook to an event that can be blocked."""
    about_tools = any(kind.match_field == "tool_name" for kind in kinds(hook))
    return at_event(hook, "PreToolUse") if about_tools else "use an event that can be blocked, such as PreToolUse"


def _refuses(hook: HookDeclaration) -> bool:
    return isinstance(hook.action, FixedAnswer) and hook.action.decision in ("deny", "ask")


_EFFECTS = {
    Block.MODEL: "the text only goes to the model",
    Block.USER: "the text is only shown to the user",
    Block.IGNORED: "nothing comes of it",
}


def lint_dialects(hooks: Sequence[HookDeclaration]) -> Iterator[Finding]:
    """BH507: the same exit code has different meanings in one file."""
    seen: dict[str, list[HookDeclaration]] = {}
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


def lint_url(hook: HookDeclaration) -> Iterator[Finding]:
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


def lint_variables(hook: HookDeclaration, given: frozenset[str] = frozenset()) -> Iterator[Finding]:
    """Variables that no agent sets: they are empty, and the hook checks nothing. `given`: those that the file sets."""
    if not isinstance(hook.action, RunAction) or hook.action.shell == "powershell" or len(hook.action.text) > LONGEST:
        return
    native = hook.shape == "yaml"
    text = actions.for_shell(hook.action.text, "")[0] if native else hook.action.text
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


def _is_invented(name: str, hook: HookDeclaration) -> bool:
    if name in os.environ or (name in HOOK_VARIABLES and meanings(hook.dialect).hook_variables):
        return False
    if name in _SET_BY_BILLHOOK and not (hook.shape == "nested" and agent_of(hook.file)):
        return False
    return _INVENTED.fullmatch(name) is not None


def _never_set(hook: HookDeclaration, name: str, word: str) -> Finding:
    where = f" in {word}" if word else ""
    message = f"no agent sets `${name}`{where}: it is empty"
    if name.startswith(("CLAUDE_PROJECT_", "CLAUDE_WORKSPACE")):
        return finding(hook, "BH406", "action", message, "use `$CLAUDE_PROJECT_DIR`")
    asked = next((query for words, query in _FIELDS if words.search(name)), ".tool_input")
    own = asked.removesuffix(" // empty").rpartition(".")[2].replace("tool_name", "tool")
    if hook.shape == "yaml" and not word and own in actions.NAMES:
        return finding(hook, "BH406", "action", message, f"write `${{{own}}}`")
    hint = f"set it first: `{name}=$(jq -r '{asked}')`"
    if asked == ".tool_input":  # JSON, which no command takes as a file name
        hint = f"set it to the field that you need: `{name}=$(jq -r '.tool_input.command')` or `.tool_input.file_path`"
        if hook.shape == "yaml" and not word:
            hint = "write `${file_path}` for the file, `${command}` for the command"
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


def lint_bash(hook: HookDeclaration) -> Iterator[Finding]:
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


# -- what a hook answers and depends on


_KEEPS_GOING: Final = frozenset(name for name, kind in EVENTS.items() if kind.block is Block.KEEP_GOING)
_STOPS: Final = frozenset(EVENTS) - {name for name, fields in SUPPORTED_FIELDS.items() if "continue" not in fields}
_HONOURED: Final = {
    "keep_going": _KEEPS_GOING,
    "stop": _STOPS,
    "rewrite": frozenset({"PreToolUse", "PermissionRequest"}),
    "mask": frozenset({"PostToolUse"}),
}
"""The events at which an answer has an effect."""
_USUAL: Final = {"keep_going": "Stop", "stop": "PreToolUse", "rewrite": "PreToolUse", "mask": "PostToolUse"}


def lint_answer(hook: HookDeclaration) -> Iterator[Finding]:
    """BH510: an answer that an event ignores."""
    key = _answer_key(hook)
    honoured = _HONOURED.get(key)
    ignored = [kind.__name__ for kind in kinds(hook) if honoured is not None and kind.__name__ not in honoured]
    if honoured is None or not ignored:
        return
    left = [name for name in hook.events if name not in ignored]
    message = f"`{key}` has no effect at {listed(ignored)}"
    yield finding(hook, "BH510", "action", message, at_event(hook, *(left or [_USUAL[key]])))


def _answer_key(hook: HookDeclaration) -> str:
    match hook.action:
        case FixedAnswer(decision):
            return decision
        case Rewrite():
            return "rewrite"
        case Mask():
            return "mask"
        case _:
            return ""


_FIELD_OF: Final = {"options": Python, "interpreter": Python, "headers": Url, "allowed_env": Url}
_NAMED: Final = {Python: "python", Url: "url"}


def lint_settings(hook: HookDeclaration) -> Iterator[Finding]:
    """BH510: settings of a function or an address beside another action."""
    for field, action in _FIELD_OF.items():
        if field in hook.places and not isinstance(hook.action, action):
            key = spelling(field, json=hook.shape != "yaml")
            message = f"`{key}` has no effect here: it is a setting of `{_NAMED[action]}`"
            yield finding(hook, "BH510", field, message, f"remove `{key}`")


def lint_everywhere(hook: HookDeclaration) -> Iterator[Finding]:
    """BH513, a note: a hook without `events` denies or asks at every event, unless a condition is about tool calls."""
    limits = hook.conditions
    about_calls = hook.match or limits.rules or limits.effects or limits.paths.read or limits.paths.write
    if hook.events or "events" in hook.places or about_calls or _answer_key(hook) not in ("deny", "ask"):
        return
    word = "denies" if _answer_key(hook) == "deny" else "asks"
    message = f"{hook.subject} has no `events`, so it {word} at every event, also at prompts and Stop"
    yield replace(finding(hook, "BH513", "action", message, at_event(hook, "PreToolUse")), note=True)


# -- tests of `when`


def lint_tests(hook: HookDeclaration) -> Iterator[Finding]:
    """Tests that can't be true. Those in `any` and `not` are left out: the others decide there."""
    tests = dict(hook.conditions.when)
    yield from _no_prompt(hook) if "prompt" in tests else ()
    for name, known in (("agent", tuple(AGENTS)), ("permission_mode", MODES)):
        for value in tests.get(name, ()):
            yield from _unknown_value(hook, name, value, known)


def _no_prompt(hook: HookDeclaration) -> Iterator[Finding]:
    bare = [kind.__name__ for kind in kinds(hook) if "prompt" not in kind.__struct_fields__]
    if bare:
        there = "" if len(bare) == len(hook.events) else " there"
        left = [name for name in hook.events if name not in bare]
        message = f"`when.prompt` needs a prompt, and {listed(bare)} has none: the hook never runs{there}"
        yield finding(hook, "BH305", "when", message, at_event(hook, *(left or ["UserPromptSubmit"])))


def _unknown_value(hook: HookDeclaration, name: str, value: str, known: Sequence[str]) -> Iterator[Finding]:
    """A name that no agent has. One that is far from all of them may be of a host that billhook does not know."""
    bare = value.removeprefix("!")
    if bare in known or re.search(r"[*?\[]", bare):
        return
    near = nearest(bare, known)
    hint = f"did you mean `{near}`?" if near else f"use one of {', '.join(known)}, or ignore this for another host"
    message = f"`when.{name}: {value}` is never {'false' if value != bare else 'true'}: no agent has this value"
    yield replace(finding(hook, "BH301", "when", message, hint), note=not near)


# -- variables and results


_UNCLOSED: Final = re.compile(rf"(?<!\$)\$\{{({'|'.join(sorted(EVENT_VARIABLES))}|results\.[\w.-]+)(?=[^\w.:}}-]|$)")
_RESULT: Final = re.compile(r"(?<!\$)\$\{results\.([\w-]+)\.")


def _texts(hook: HookDeclaration) -> Iterator[str]:
    """The strings of a hook in which `${...}` is filled in."""
    match hook.action:
        case RunAction(text):
            yield text
        case Exec(argv):
            yield from argv
        case FixedAnswer(_, text, _, command):
            yield from (text, command)
        case Rewrite(fields, programs):
            yield from (str(value) for _, value in (*fields, *programs))


def lint_references(hook: HookDeclaration) -> Iterator[Finding]:
    """BH214: a `${` without its `}`."""
    for text in _texts(hook) if hook.shape == "yaml" else ():
        if found := _UNCLOSED.search(text):
            message = f"`{found[0]}` is not closed, so it is not replaced by a value"
            yield finding(hook, "BH214", "action", message, f"write `{found[0]}}}`")
            return


def lint_results(hooks: Sequence[HookDeclaration]) -> Iterator[Finding]:
    """BH212: a hook that uses the result of another one, which does not run before it."""
    for place, hook in enumerate(hooks):
        for name in dict.fromkeys(_results_of(hook)):
            if name in BUILTINS or name in hook.after or "/" in name:
                continue
            same = [(at, other) for at, other in enumerate(hooks) if other.name == name and _meet(hook, other)]
            if not same:
                yield _no_such_result(hook, name, [other.name for other in hooks if other is not hook])
            elif not any((other.priority, at) < (hook.priority, place) for at, other in same):
                message = f"{hook.subject} uses the result of `{name}`, which runs after it"
                yield finding(hook, "BH212", "action", message, f"add `{edit(hook, 'after', name)}`")


def _results_of(hook: HookDeclaration) -> Iterator[str]:
    for text in _texts(hook) if hook.shape == "yaml" else ():
        yield from _RESULT.findall(text)
    yield from (name.split(".")[1] for name, _ in each_test(hook.conditions.when) if name.startswith("results."))


def _meet(hook: HookDeclaration, other: HookDeclaration) -> bool:
    """Whether both listen for some event."""
    return not hook.events or not other.events or bool({*hook.events} & {*other.events})


def _no_such_result(hook: HookDeclaration, name: str, known: Sequence[str]) -> Finding:
    near = nearest(name, known)
    hint = f"did you mean `{near}`?" if near and near != name else f"add a hook named `{name}` for the same event"
    message = f"{hook.subject} uses the result of `{name}`, but no hook of that name runs before it"
    return finding(hook, "BH212", "action", message, hint)


CHECKS: Final = (
    *(_milliseconds, _background_gate, _nothing_to_block, _nothing_to_refuse, lint_url, lint_bash),
    *(lint_answer, lint_settings, lint_everywhere, lint_tests, lint_references),
)


# -- what an agent can't honour: each limit is one sentence


_LITERALS: Final = {"inject": ("context",), "notify": ()}  # the others have the same name in both tables
_ANSWERS: Final = {
    "allow": "allow",
    "deny": "deny",
    "ask": "ask",
    "rewrite_input": "rewritten input",
    "replace_output": "rewritten output",
    "context": "context",
    "stop": "stop",
    "keep_going": "request to keep going",
    "quiet": "`suppressOutput`",
}
_RETURNS: Final = {
    "deny": "deny",
    "ask": "ask",
    "rewrite_input": "a rewritten input",
    "replace_output": "a rewritten output",
    "context": "context",
    "stop": "stop",
    "keep_going": "a request to keep going",
}
"""What any hook may return. An ignored allow changes nothing, so it is left out."""
_VALUE: Final = r"\\?[\"']?\s{0,9}[:=,]\s{0,9}\\?[\"']?"
_EVIDENCE: Final = {
    "ask": re.compile(rf"permissionDecision{_VALUE}ask\b|\b(?:return|billhook\.)\s{{0,9}}ask\("),
    "rewrite_input": re.compile(r"\bupdatedInput\b|\brewrite\(\s{0,9}input"),
    "replace_output": re.compile(r"\bupdated(?:MCP)?ToolOutput\b|\brewrite\(\s{0,9}output"),
    "context": re.compile(r"\badditionalContext\b|\b(?:return|billhook\.)\s{0,9}inject\("),
    "stop": re.compile(rf"\bcontinue{_VALUE}[Ff]alse\b|\b(?:return|billhook\.)\s{{0,9}}stop\("),
}
"""Text in a script that shows this answer."""
_QUIET: Final = re.compile(rf"\bsuppressOutput{_VALUE}[Tt]rue\b")
_EVENT: Final = re.compile(r"\b[A-Z][a-z]+[A-Z]\w+\b")
_REFUSED: Final = (Block.DENY, Block.NOT_HONOURED)


class Host(msgspec.Struct, frozen=True):
    """The agent whose limits are checked."""

    name: str
    title: str  # its name for people
    seconds: Callable[[str, float], float]
    """How many seconds a hook can take for an event in that agent, given the event and the hook's timeout."""

    def calls(self, event: str) -> str:
        """The agent's name of an event."""
        return own_name(self.name, event) or event


class HostLimit(msgspec.Struct, frozen=True):
    """One part of a hook that an agent can't honour."""

    hook: str
    file: str
    line: int
    events: tuple[str, ...]  # our names of the events
    wants: tuple[str, ...]  # `ask`, `deny`, `context` ...; or `event`, or `timeout`
    becomes: str
    sure: bool  # the hook certainly uses it; if False, it may
    sentence: str


def limits(hook: HookDeclaration, agent: Host) -> list[HostLimit]:
    """Everything that this agent can't honour of a hook; certain limits come first."""
    missing = [event for event in hook.events if event not in CAPABILITIES[agent.name]]
    found = [*_missing(hook, agent, missing)]
    events = [event for event in hook.events or CAPABILITIES[agent.name] if event not in missing]
    known = _known(hook)
    found += _losses(hook, agent, events, known or (), sure=True)
    if hook.gate and hook.on_failure not in (known or ()):
        found += _losses(hook, agent, filter(_refusable, events), (hook.on_failure,), sure=True)
    if _QUIET.search("\n".join(_sources(hook))):
        found += _losses(hook, agent, events, ("quiet",), sure=True)
    found += _partly(hook, agent, events, known or ())
    if known is None:
        found += _losses(hook, agent, events, [want for want in _RETURNS if want != hook.on_failure], sure=False)
    return [*found, *_timeouts_too_long(hook, agent, events)]


def _known(hook: HookDeclaration) -> tuple[str, ...] | None:
    """The answers that the hook returns; None if they are unknown."""
    match hook.action:
        case FixedAnswer(decision):
            return _LITERALS.get(decision, (decision,))
        case Rewrite():
            return ("rewrite_input",)
        case Mask():
            return ("replace_output",)
        case RunAction() | Exec() | Python():
            whole = "\n".join(_sources(hook))
            return tuple(want for want, words in _EVIDENCE.items() if words.search(whole)) or None
        case Url():
            return None
        case UnsupportedAction() | None:
            return ()


def _sources(hook: HookDeclaration) -> Iterator[str]:
    """The hook's command, and the scripts and the module that it names."""
    if isinstance(hook.action, RunAction):
        yield hook.action.text
    if isinstance(hook.action, RunAction | Exec):
        yield from (text for _, text in scripts(hook))
    if isinstance(hook.action, Python):
        module = os.path.join(hook.module_folder, hook.action.target.partition(":")[0].replace(".", "/"))
        yield from map(head_of, (f"{module}.py", f"{module}/__init__.py"))


def _missing(hook: HookDeclaration, agent: Host, events: list[str]) -> Iterator[HostLimit]:
    if events:
        several = len(events) > 1
        missing = f"{agent.title} has no {'events' if several else 'event'} {joined(events)}"
        sentence = f"{missing}, so the hook never runs for {'them' if several else 'it'}"
        yield _limit(hook, events, ("event",), "never fires", sentence, sure=True)


def _losses(
    hook: HookDeclaration, agent: Host, events: Iterable[str], wants: Iterable[str], *, sure: bool
) -> Iterator[HostLimit]:
    """Answers that the hook returns, or may return, and the agent can't honour. Equal losses share one sentence."""
    alike: dict[str, dict[str, list[str]]] = {}
    for event in events:
        for want in wants:
            clause = _becomes(agent, event, want, sure=sure)
            if clause:
                alike.setdefault(clause, {}).setdefault(want, []).append(event)
    for clause, by_want in alike.items():
        together: dict[tuple[str, ...], list[str]] = {}
        for want, where in by_want.items():
            together.setdefault(tuple(where), []).append(want)
        for on, lost in together.items():
            yield _loss(hook, agent, on, lost, clause, sure=sure)


def _loss(
    hook: HookDeclaration, agent: Host, on: tuple[str, ...], lost: list[str], clause: str, *, sure: bool
) -> HostLimit:
    place = f"on {agent.title}'s {joined(list(dict.fromkeys(agent.calls(event) for event in on)))}"
    if sure:
        sentence = f"{place} its {joined([_ANSWERS[want] for want in lost])} {clause}"
    else:
        sentence = f"if it returns {joined([_RETURNS[want] for want in lost], 'or')} {place}, that {clause}"
    return _limit(hook, on, tuple(lost), clause, sentence, sure=sure)


def _becomes(agent: Host, event: str, want: str, *, sure: bool) -> str:
    """What the agent does with this answer; empty if it honours it, or if it has no meaning for this event."""
    able, usual = can(agent.name, event), can("claude", event)
    clause = able.becomes(want)
    if not clause or (want == "deny" and not _refusable(event) and clause == usual.becomes(want)):
        return ""
    means_something = getattr(usual, want) or (want == "deny" and _refusable(event))
    if not sure and (not means_something or "anyway" in clause):
        return ""
    spelt = _EVENT.sub(lambda found: agent.calls(found[0]), clause)
    return f"is {spelt}" if spelt.startswith("held") else spelt


def _partly(hook: HookDeclaration, agent: Host, events: list[str], known: tuple[str, ...]) -> Iterator[HostLimit]:
    """A rewritten input of which the agent uses only a part. Hooks that rewrite shell commands are not affected."""
    taken = AGENTS[agent.name].taken_over if agent.name in AGENTS else ""
    matcher = compile_matcher(hook.match, meanings(hook.dialect).matching, "PreToolUse")
    shell_only = all(rule.startswith("Bash") for rule in hook.conditions.rules or ("",))
    files = not shell_only and any(map(matcher.matches, ("Write", "Edit", "apply_patch")))
    if taken and files and "rewrite_input" in known and "PreToolUse" in events:
        place = f"on {agent.title}'s {agent.calls('PreToolUse')}"
        sentence = f"if it rewrites more than {taken} {place}, that becomes deny"
        yield _limit(hook, ["PreToolUse"], ("rewrite_input",), "becomes deny", sentence, sure=False)


def _refusable(event: str) -> bool:
    return event in EVENTS and EVENTS[event].block in _REFUSED


def _timeouts_too_long(hook: HookDeclaration, agent: Host, events: list[str]) -> Iterator[HostLimit]:
    for event in events if hook.timeout is not None and not hook.background else ():
        assert hook.timeout is not None
        there = agent.seconds(event, hook.timeout)
        if hook.timeout > there:
            ended = "the call is denied" if hook.gate and can(agent.name, event).deny else "the hook counts as failed"
            too_long = f"its timeout of {hook.timeout:g} s is too long for {agent.title}'s {agent.calls(event)}"
            sentence = f"{too_long}: after {there:g} s {ended}"
            yield _limit(hook, [event], ("timeout",), f"ended after {there:g} s", sentence, sure=True)


def _limit(
    hook: HookDeclaration, events: Iterable[str], wants: tuple[str, ...], becomes: str, sentence: str, *, sure: bool
) -> HostLimit:
    return HostLimit(hook.name, hook.file, hook.line, tuple(events), wants, becomes, sure, sentence)
