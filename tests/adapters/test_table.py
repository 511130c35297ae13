"""The table in docs/adapters.md is what each framework does, measured cell by cell."""

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from adapters.claude_client import QUIET, CanaryRun, claude
from adapters.driving import DRIVES, Drive, KnownValue, Watched, bash
from billhook import Engine, Hook, ask, deny, inject, keep_going, on, rewrite, stop
from billhook.adapters.claude_agent_sdk import hooks
from clients.script import Call, Script, Step
from clients.scripted_model import serving

PAGE = Path(__file__).parent.parent.parent / "docs" / "adapters.md"
WAYS = {
    "langchain": {"": "langchain", "`ainvoke`": "langchain async"},
    "openai_agents": {"": "openai_agents", "`Runner`": "openai_agents, Runner", "streamed": "openai_agents, streamed"},
    "pydantic_ai": {"": "pydantic_ai", "`run_stream`": "pydantic_ai, streamed"},
}
"""Ways to run an agent; differences from the first way are in the cell, too."""


def documented() -> dict[tuple[str, str], str]:
    """The cells of the table, by row and column."""
    lines = [line.strip("|").split("|") for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    table = [[cell.strip() for cell in line] for line in lines]
    head = next(line for line in table if "`langchain`" in line)
    rows = table[table.index(head) + 1 :]
    return {
        (row[0], column.strip("`")): cell
        for row in rows
        if len(row) == len(head)
        for column, cell in zip(head[1:], row[1:], strict=True)
    }


def hook(event: str, answer: Any) -> Hook:
    """A hook that returns the same answer once, and then none."""
    left = [answer]

    @on(event, name="scripted")
    def scripted(event: Any) -> Any:
        return left.pop() if left else None

    return scripted


def yes(holds: bool) -> str:
    return "yes" if holds else "no"


def ending(seen: KnownValue, reason: str) -> str:
    """How a run ends that a hook has ended."""
    if seen.error is None:
        return "the reason is the answer" if seen.reported == reason else f"it ended with {seen.reported}"
    return f"`{type(seen.error).__name__}`"


class LogFault(Engine):
    async def fire(self, event: Any, *, deadline: float | None = None) -> Any:
        if getattr(event, "hook_event_name", "") == "PreToolUse":
            raise RuntimeError("a bug in the engine")
        return await super().fire(event, deadline=deadline)


def gate(how: str) -> Hook:
    @on("PreToolUse", on_failure="deny", timeout=0.05)
    async def failing(event: Any) -> None:
        if how == "raises":
            raise RuntimeError("a bug")
        await asyncio.sleep(60)

    return failing


def _deny(drive: Drive) -> str:
    seen = drive([hook("PreToolUse", deny("no reason"))], bash("ls"))
    return yes(seen.ran == [] and seen.results[0][0] == "no reason")


def _rewrite_input(drive: Drive) -> str:
    return yes(drive([hook("PreToolUse", rewrite(input={"command": "pwd"}))], bash("ls")).ran == ["pwd"])


def _rewrite_output(drive: Drive) -> str:
    return yes(drive([hook("PostToolUse", rewrite(output="***"))], bash("ls")).results[0][0] == "***")


def _context(drive: Drive) -> str:
    events = ("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse")
    told = "\n".join(drive([hook(event, inject(f"at {event}")) for event in events], bash("ls")).told)
    return yes(all(f"at {event}" in told for event in events))


def _ask(drive: Drive) -> str:
    careful = [hook("PreToolUse", ask("sure"))]
    answers = [drive(careful, bash("ls"), ask=lambda question, reply=reply: reply).ran for reply in (True,)]
    return yes(answers == [["ls"]])


def _nobody(drive: Drive) -> str:
    seen = drive([hook("PreToolUse", ask("sure"))], bash("ls"))
    return "denied" if seen.ran == [] and "sure" in seen.results[0][0] else "no"


def _prompt(drive: Drive) -> str:
    seen = drive([hook("UserPromptSubmit", deny("not that"))], bash("ls"))
    return ending(seen, "not that") if seen.told == [] else "no"


def _stop(drive: Drive) -> str:
    seen = drive([hook("PostToolUse", stop("enough"))], bash("ls", "ls"))
    return ending(seen, "enough") if seen.ran == ["ls"] else "no"


def _keep_going(drive: Drive) -> str:
    return yes(drive([hook("Stop", keep_going("more"))], bash()).reported == "done again")


def _fires(event: str, *commands: str, script: Any = None) -> Callable[[Drive], str]:
    return lambda drive: yes(event in drive([], bash(*commands) if script is None else script).events)


def _failing_gate(drive: Drive) -> str:
    seen = [drive([gate(how)], bash("ls")) for how in ("raises", "hangs")]
    return "denied" if all(one.ran == [] and one.lines for one in seen) else "no"


def _crash(drive: Drive) -> str:
    return "not run" if drive(LogFault([]), bash("ls")).ran == [] else "no"


MEASURED: dict[str, Callable[[Drive], str]] = {
    "deny a call": _deny,
    "rewrite its input": _rewrite_input,
    "rewrite its output": _rewrite_output,
    "add context": _context,
    "ask, with a user": _ask,
    "ask, without a user": _nobody,
    "refuse a prompt": _prompt,
    "stop the run": _stop,
    "keep going at Stop": _keep_going,
    "PostToolUseFailure": _fires("PostToolUseFailure", "fail"),
    "SessionStart": _fires("SessionStart"),
    "SessionEnd": _fires("SessionEnd"),
    "SessionEnd of a run that raises": _fires("SessionEnd", script=[]),
    "StopFailure": _fires("StopFailure", script=[]),
    "a gate that raises or hangs": _failing_gate,
    "an internal error of billhook": _crash,
}


@pytest.mark.parametrize("adapter", WAYS)
@pytest.mark.parametrize("row", MEASURED)
def test_the_table(row: str, adapter: str) -> None:
    """A cell has the measured result, and the differences between the ways to run the agent."""
    found = {how: MEASURED[row](DRIVES[name]) for how, name in WAYS[adapter].items()}
    others: dict[str, list[str]] = {}
    for how, cell in found.items():
        if cell != found[""]:
            others.setdefault(cell, []).append(how)
    cell = "; ".join([found[""], *(f"{', '.join(ways)}: {cell}" for cell, ways in others.items())])

    assert cell == documented()[row, adapter]


def test_the_table_is_whole() -> None:
    """Every row is measured, for every adapter."""
    assert {row for row, _ in documented()} == set(MEASURED) == set(CLAUDE)
    assert {column for _, column in documented()} == {"claude_agent_sdk", *WAYS}


# -- the Claude Agent SDK, with its real Claude Code


Run = Callable[..., CanaryRun]


def _there(ran: CanaryRun, name: str = "made") -> bool:
    return (ran.folder / name).exists()


def _claude_deny(run: Run) -> str:
    ran = run([hook("PreToolUse", deny("no reason"))])
    return yes(not _there(ran) and "no reason" in ran.results[0])


def _claude_context(run: Run) -> str:
    events = ("UserPromptSubmit", "PreToolUse", "PostToolUse")
    ran = run([hook(event, inject(f"at {event}")) for event in events])
    return yes(all(ran.model_saw(f"at {event}") for event in events))


def _claude_ask(run: Run) -> str:
    from claude_agent_sdk import PermissionResultAllow

    async def can_use_tool(tool: str, given: Any, context: Any) -> Any:
        return PermissionResultAllow()

    return yes(_there(run([hook("PreToolUse", ask("sure"))], can_use_tool=can_use_tool)))


def _claude_prompt(run: Run) -> str:
    ran = run([hook("UserPromptSubmit", deny("not that"))])
    return "the reason is the answer" if ran.asked == [] and "not that" in ran.reported else "no"


def _claude_stop(run: Run) -> str:
    ran = run([hook("PostToolUse", stop("enough"))])
    return "the answer is empty" if (len(ran.asked), ran.reported) == (1, "") else "no"


def _claude_fires(event: str, *commands: str) -> Callable[[Run], str]:
    def measured(run: Run) -> str:
        watched = Watched([])
        run(watched.engine, *commands)
        return yes(event in watched.events)

    return measured


CLAUDE: dict[str, Callable[[Run], str]] = {
    "deny a call": _claude_deny,
    "rewrite its input": lambda run: yes(
        _there(run([hook("PreToolUse", rewrite(input={"command": "touch other"}))]), "other")
    ),
    "rewrite its output": lambda run: yes(run([hook("PostToolUse", rewrite(output="***"))]).results == ["***"]),
    "add context": _claude_context,
    "ask, with a user": _claude_ask,
    "ask, without a user": lambda run: yes(_there(run([hook("PreToolUse", ask("sure"))]))).replace("no", "denied"),
    "refuse a prompt": _claude_prompt,
    "stop the run": _claude_stop,
    "keep going at Stop": lambda run: yes(run([hook("Stop", keep_going("more"))]).reported == "done again"),
    "PostToolUseFailure": _claude_fires("PostToolUseFailure", "false"),
    "SessionStart": _claude_fires("SessionStart"),
    "SessionEnd": _claude_fires("SessionEnd"),
    "SessionEnd of a run that raises": _claude_fires("SessionEnd"),
    "StopFailure": _claude_fires("StopFailure"),
    "a gate that raises or hangs": lambda run: (
        "no" if any(_there(run([gate(how)])) for how in ("raises", "hangs")) else "denied"
    ),
    "an internal error of billhook": lambda run: "no" if _there(run(LogFault([]))) else "not run",
}


@pytest.mark.slow
@pytest.mark.parametrize("row", MEASURED)
def test_the_column_of_the_claude_agent_sdk(row: str, tmp_path: Path) -> None:
    """The same for what the SDK's own Claude Code does."""
    number = iter(range(9))

    def run(given: Any, *commands: str, **options: Any) -> CanaryRun:
        folder = tmp_path / str(next(number))
        folder.mkdir()
        return claude(folder, hooks(given), commands or ["touch made"], **options)

    assert CLAUDE[row](run) == documented()[row, "claude_agent_sdk"]


SAMPLES = re.findall(r"```python\n(.*?)```\n+```text\n(.*?)```", PAGE.read_text(), re.DOTALL)


def printed(code: str) -> str:
    """What a sample prints."""
    lines: list[str] = []
    names: dict[str, Any] = {"__name__": "__main__", "print": lambda *words: lines.append(" ".join(map(str, words)))}
    exec(compile(code, str(PAGE), "exec"), names)
    return "\n".join(lines)


@pytest.mark.parametrize("number", [0, 1, 2])
def test_samples_print_what_the_page_shows(number: int) -> None:
    """Each sample runs, and prints the block behind it."""
    code, shown = SAMPLES[number]

    assert printed(code) == shown.rstrip("\n")


@pytest.mark.slow
def test_the_sample_of_the_claude_agent_sdk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last one, with a model that follows the script."""
    (code, shown), remove = SAMPLES[3], Call("Bash", {"command": "rm -r build", "description": "as told"})
    monkeypatch.chdir(tmp_path)
    with serving(Script([Step(calls=(remove,)), Step("I may not.")])) as model:
        for name, value in {**QUIET, "HOME": str(tmp_path), "ANTHROPIC_BASE_URL": model.url}.items():
            monkeypatch.setenv(name, value)
        assert printed(code) == shown.rstrip("\n")
