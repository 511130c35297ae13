"""The cases for each real agent: a hook, the model's tool calls, and the expected result by the capability table.

A result is a few words (`not run, told`), which are compared with the words that the table promises.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from billhook.agents import AGENTS as HOSTS
from billhook.agents.base import CAPABILITIES, can
from clients.agents import Agent, Place
from clients.case import Case
from clients.guard_cases import GUARD_CASES
from clients.recipe_cases import RECIPE_CASES
from clients.running import CanaryRun
from clients.script import Script, Step

WORDS: Final = "these are the words of the hook"
"""The text of hooks: a reason, context, or an output."""
OUTPUT: Final = "what the command printed"


def _one_command(agent: Agent, project: Path) -> Script:
    command = f"touch {project}/original; echo {OUTPUT}"
    return Script([Step(calls=[agent.shell(command)]), Step("one thing is done"), Step("another thing is done")])


def _one_file(agent: Agent, project: Path) -> Script:
    return Script([Step(calls=[agent.write(f"{project}/secret.txt", "written")]), Step("one thing is done")])


def _only_words(agent: Agent, project: Path) -> Script:
    return Script([Step("one thing is done"), Step("another thing is done")])


def _tool(ran: CanaryRun, place: Place, words: str = WORDS) -> str:
    """Which command was run, whether the model was told, and whether the model was called again."""
    made = [name for name in ("original", "rewritten", "secret.txt") if (place.project / name).exists()]
    run = {(): "not run", ("original",): "run", ("rewritten",): "rewritten run", ("secret.txt",): "written"}
    result = [run.get(tuple(made), "both run")]
    result += ["told"] if ran.model_saw(words) else []
    return ", ".join(result + ({0: ["never asked"], 1: ["ended"]}.get(ran.turns, [])))


def _rewriting(ran: CanaryRun, place: Place) -> str:
    """`told` only counts if the call is denied: then the model must read the rewritten command."""
    return _tool(ran, place, "touch rewritten").replace("rewritten run, told", "rewritten run")


def _output(ran: CanaryRun, place: Place) -> str:
    kept = "kept" if ran.model_saw(OUTPUT + "\\n") or ran.model_saw(f'"{OUTPUT}') else "replaced"
    return f"output {kept}, told" if ran.model_saw(WORDS) else f"output {kept}"


def _prompt(ran: CanaryRun, place: Place) -> str:
    if not ran.turns:
        return "model not called"
    return "model called, told" if ran.model_saw(WORDS, after=0) else "model called"


def _went_on(ran: CanaryRun, place: Place) -> str:
    if ran.turns < 2:
        return "stopped"
    return "continued, told" if ran.model_saw(WORDS) else "continued"


def _always(words: str) -> Callable[[str], str]:
    return lambda host: words


def _rewrite(host: str) -> str:
    return "rewritten run" if can(host, "PreToolUse").rewrite_input else "not run, told"


def _stop(host: str) -> str:
    return "not run, ended" if can(host, "PreToolUse").stop else "not run, told"


def _replaced(host: str) -> str:
    return _told(host, "output replaced" if can(host, "PostToolUse").replace_output else "output kept")


def _told(host: str, words: str = "run") -> str:
    """With context that an event of this agent can carry; if none can, it is lost."""
    return f"{words}, told" if any(row.context for row in CAPABILITIES[host].values()) else words


def _kept_going(host: str) -> str:
    return "continued, told" if can(host, "Stop").keep_going else "stopped"


def _prompt_context(host: str) -> str:
    """Deferred context comes with the next event that can carry it; without a tool call there is none."""
    return "model called, told" if can(host, "UserPromptSubmit").context else "model called"


def _fixed(event: str, answer: str, **more: str) -> str:
    lines = [f"  {name}: {value}" for name, value in more.items()]
    return (
        "\n".join(["hooks:", "  one:", f"    events: {event}", f"    {answer}", *(f"  {line}" for line in lines)])
        + "\n"
    )


def _printing(event: str, fields: str) -> str:
    return _fixed(event, f"run: >-\n      printf '%s' '{fields}'")


_MISSING: Final = "uv tool install ."
_DAEMON: Final = '"$(cat "$HOME/.claude/billhook/daemon/lock")"'
_STARTED: Final = [["billhook", "daemon", "start"]]  # the agent's first call would only start it for the next one
_NEW_OUTPUT: Final = (
    f'{{"stdout": "{WORDS}", "stderr": "", "interrupted": false, "isImage": false, "noOutputExpected": false}}'
)
_ALLOWED: Final = (
    '{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow", '
    '"permissionDecisionReason": "nothing against it"}}'
)
_REWRITTEN: Final = (
    '{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow", '
    f'"permissionDecisionReason": "{WORDS}", "updatedInput": {{"command": "touch rewritten"}}}}}}'
)

CASES: Final = (
    Case(
        name="allow",
        title="no hook objects",
        hooks=_fixed("PreToolUse", "deny: never asked", **{"if": "Bash(rm *)"}),
        promised=_always("run"),
        seen=_tool,
        calls=_one_command,
    ),
    Case(
        name="approve",
        title="allow before a command",
        hooks=_printing("PreToolUse", _ALLOWED),
        promised=_always("run"),
        seen=_tool,
        calls=_one_command,
    ),
    Case(
        name="deny",
        title="deny before a command",
        hooks=_fixed("PreToolUse", f"deny: {WORDS}", **{"if": "Bash(touch *)"}),
        promised=_always("not run, told"),
        seen=_tool,
        calls=_one_command,
    ),
    Case(
        name="deny-write",
        title="deny before a file is written, with `match: Write`",
        hooks=_fixed("PreToolUse", f"deny: {WORDS}", **{"if": "Write(secret.txt)"}),
        promised=_always("not run, told"),
        seen=_tool,
        calls=_one_file,
    ),
    Case(
        name="rewrite",
        title="rewrite of a command",
        hooks=_printing("PreToolUse", _REWRITTEN),
        promised=_rewrite,
        seen=_rewriting,
        calls=_one_command,
    ),
    Case(
        name="context",
        title="context before a command",
        hooks=_fixed("PreToolUse", f"inject: {WORDS}"),
        promised=_told,
        seen=_tool,
        calls=_one_command,
    ),
    Case(
        name="context-after",
        title="context after a command",
        hooks=_fixed("PostToolUse", f"inject: {WORDS}"),
        promised=_told,
        seen=_tool,
        calls=_one_command,
        needs="PostToolUse",
    ),
    Case(
        name="replace-output",
        title="rewrite of an output",
        hooks=_printing(
            "PostToolUse",
            f'{{"hookSpecificOutput": {{"hookEventName": "PostToolUse", "updatedToolOutput": {_NEW_OUTPUT}}}}}',
        ),
        promised=_replaced,
        seen=_output,
        calls=_one_command,
        needs="PostToolUse",
    ),
    Case(
        name="ask",
        title="ask, without a user",
        hooks=_fixed("PreToolUse", f"ask: {WORDS}"),
        promised=_always("not run, told"),
        seen=_tool,
        calls=_one_command,
    ),
    Case(
        name="stop",
        title="stop before a command",
        hooks=_printing("PreToolUse", f'{{"continue": false, "stopReason": "{WORDS}"}}'),
        promised=_stop,
        seen=_tool,
        calls=_one_command,
    ),
    Case(
        name="keep-going",
        title="continue once at Stop",
        hooks=_fixed("Stop", f"run: '[ -e asked ] || {{ touch asked; echo {WORDS} >&2; exit 2; }}'"),
        promised=_kept_going,
        seen=_went_on,
        calls=_only_words,
        needs="Stop",
    ),
    Case(
        name="prompt",
        title="deny of a prompt",
        hooks=_fixed("UserPromptSubmit", f"deny: {WORDS}"),
        promised=_always("model not called"),
        seen=_prompt,
        calls=_only_words,
        needs="UserPromptSubmit",
    ),
    Case(
        name="prompt-context",
        title="context with a prompt",
        hooks=_fixed("UserPromptSubmit", f"inject: {WORDS}"),
        promised=_prompt_context,
        seen=_prompt,
        calls=_only_words,
        needs="UserPromptSubmit",
    ),
    Case(
        name="session-context",
        title="context when a session starts",
        hooks=_fixed("SessionStart", f"inject: {WORDS}"),
        promised=_always("model called, told"),
        seen=_prompt,
        calls=_only_words,
        needs="SessionStart",
    ),
    Case(
        name="crash",
        title="a gate that crashes",
        hooks=_fixed("PreToolUse", "run: kill -9 $$", gate="true"),
        promised=_always("not run, told"),
        seen=lambda ran, place: _tool(ran, place, "killed by signal"),
        calls=_one_command,
    ),
    Case(
        name="hang",
        title="a gate that hangs",
        hooks=_fixed("PreToolUse", "run: sleep 30", gate="true"),
        promised=_always("not run, told"),
        seen=lambda ran, place: _tool(ran, place, "no answer"),
        calls=_one_command,
        times=(2000, 15),
    ),
    Case(
        name="too-late",
        title="the same, with a deadline longer than the agent's timeout",
        hooks=_fixed("PreToolUse", "run: sleep 12", gate="true"),
        promised=lambda host: "not run" if HOSTS[host].fail_closed else "run",
        seen=lambda ran, place: _tool(ran, place, "never in a request"),
        calls=_one_command,
        times=(60_000, 2),
    ),
    Case(
        name="daemon-killed",
        before=_STARTED,
        title="daemon killed while a gate runs",
        hooks=_fixed("PreToolUse", f"run: kill -9 {_DAEMON}; sleep 30", gate="true"),
        promised=_always("not run, told"),
        seen=lambda ran, place: _tool(ran, place, "billhook"),
        calls=_one_command,
    ),
    Case(
        name="daemon-stopped",
        before=_STARTED,
        title="daemon stopped while a gate runs",
        hooks=_fixed("PreToolUse", f"run: kill -STOP {_DAEMON}; sleep 30", gate="true"),
        promised=_always("not run, told"),
        seen=lambda ran, place: _tool(ran, place, "billhook"),
        calls=_one_command,
        times=(2000, 15),
    ),
    Case(
        name="no-daemon",
        title="deny without a daemon",
        hooks=_fixed("PreToolUse", f"deny: {WORDS}"),
        promised=_always("not run, told"),
        seen=_tool,
        calls=_one_command,
        environ={"BILLHOOK_NO_DAEMON": "1"},
    ),
    Case(
        name="missing",
        title="billhook is missing, before a command",
        promised=_always("not run, told"),
        seen=lambda ran, place: _tool(ran, place, _MISSING),
        calls=_one_command,
        missing=True,
    ),
    Case(
        name="missing-prompt",
        title="billhook is missing, at a prompt",
        promised=_always("model not called"),
        seen=_prompt,
        calls=_only_words,
        needs="UserPromptSubmit",
        missing=True,
    ),
    *GUARD_CASES,
    *RECIPE_CASES,
)
BY_NAME: Final = {case.name: case for case in CASES}
