"""Three recipes in real agents: a fresh project and HOME, `billhook add NAME`, `billhook install`, and nothing else."""

import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from billhook.agents.base import can
from clients.agents import Agent, Place
from clients.case import Case
from clients.recording import recorded
from clients.running import CanaryRun
from clients.script import Call, Script, Step

_TERMINAL: Final = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))"
_ADD: Final = f"""
add() {{ sleep 0.1; {shlex.quote(sys.executable)} -c '{_TERMINAL}' billhook add "$@" --yes </dev/null >&2; echo $?; }}
status=$(add "$@" &)
exit "$status"
"""
"""`billhook add` is refused inside an agent, and this suite may run in one: init becomes the parent process. `--yes`
needs a terminal."""
_PROTECTED: Final = ".env"
_WORKFLOW: Final = ".github/workflows/ci.yml"
_OTHER: Final = "src/env.py"
_TESTS: Final = "test -e fixed || { echo test_parser failed; exit 1; }\n"
_LIMIT: Final = 2
_ASIDE: Final = "If nothing durable should be saved, make no file changes"
"""Qwen Code asks its model this after the work, for its memory: this is not a turn of the conversation."""

Calls = Callable[[Agent, Path], Sequence[Call]]


def _adding(*words: str, files: Mapping[str, str] | None = None) -> list[list[str]]:
    """The commands that create a repository with these files in its first commit, and add a recipe."""
    settings = ["git config user.name tester", "git config user.email tester@example.org"]
    lines = ["set -e", "git init -q", *settings, "mkdir -p src .github/workflows"]
    for name, text in {_WORKFLOW: "on: push\n", **(files or {})}.items():
        lines.append(f"printf %s {shlex.quote(text)} > {name}")
    lines += ["git add .", "git commit -q -m first"]
    return [["sh", "-c", "\n".join(lines)], ["sh", "-c", _ADD, "sh", *words]]


# -- protect-paths


def _each(calls: Calls) -> Callable[[Agent, Path], Script]:
    """One turn of the model for each call."""
    return lambda agent, project: Script([*(Step(calls=[call]) for call in calls(agent, project)), Step("all done")])


def _writing(name: str) -> Calls:
    return lambda agent, project: [agent.write(f"{project}/{name}", "written")]


def _editing(agent: Agent, project: Path) -> Sequence[Call]:
    """Claude Code only edits files that it has read."""
    path = f"{project}/{_WORKFLOW}"
    return [agent.read(path), agent.edit(path, "on: push", "on: pull_request")]


def _appending(agent: Agent, project: Path) -> Sequence[Call]:
    return [agent.shell(f"echo A=1 >> {_PROTECTED}")]


def _changed(ran: CanaryRun, place: Place) -> str:
    """`told`: the model read the recipe's reason."""
    workflow = (place.project / _WORKFLOW).read_text() != "on: push\n"
    written = workflow or any((place.project / name).exists() for name in (_PROTECTED, _OTHER))
    result = "written" if written else "not run"
    return f"{result}, told" if ran.model_saw("is protected in this project") else result


def _protecting(name: str, title: str, calls: Calls, promised: str) -> Case:
    return Case(
        name=f"recipe-{name}",
        title=f"`add protect-paths`: {title}",
        promised=lambda host: promised,
        seen=_changed,
        calls=_each(calls),
        before=_adding("protect-paths"),
    )


# -- use-uv


def _installing(agent: Agent, project: Path) -> Sequence[Call]:
    return [agent.shell("cd src && pip install rich")]


def _installed(ran: CanaryRun, place: Place) -> str:
    """`told` only counts if the call is denied: then the model must read the right command."""
    run = {(): "not run", ("pip install rich",): "run", ("uv pip install rich",): "rewritten run"}
    result = run.get(tuple(recorded(place)), "both run")
    return f"{result}, told" if result == "not run" and ran.model_saw("uv pip install rich") else result


def _rewritten(host: str) -> str:
    return "rewritten run" if can(host, "PreToolUse").rewrite_input else "not run, told"


_UV: Final = Case(
    name="recipe-uv",
    title="`add use-uv`: `pip install` in a project with a `uv.lock`",
    promised=_rewritten,
    seen=_installed,
    calls=_each(_installing),
    before=_adding("use-uv", files={"uv.lock": ""}),
    recorded=("pip", "uv"),
)
_WITHOUT_UV: Final = msgspec.structs.replace(
    _UV,
    name="recipe-no-uv",
    title="`add use-uv`: `pip install` without a `uv.lock`",
    promised=lambda host: "run",
    before=_adding("use-uv"),
)


# -- tests-before-stop


def _breaking(agent: Agent, project: Path) -> Script:
    """The model changes a file and never fixes the tests."""
    words = [Step(f"finished, attempt {number}") for number in range(_LIMIT + 3)]
    return Script([Step(calls=[agent.write(f"{project}/parser.txt", "broken")]), *words])


def _fixing(agent: Agent, project: Path) -> Script:
    """The model changes a file, and fixes the tests when it has to continue."""
    change, fix = (agent.write(f"{project}/{name}", "written") for name in ("parser.txt", "fixed"))
    return Script([Step(calls=[change]), Step("finished"), Step(calls=[fix]), Step("finished again")])


def _idling(agent: Agent, project: Path) -> Script:
    """The model changes nothing."""
    return Script([Step("finished"), Step("finished again")])


def _sent_back(ran: CanaryRun, place: Place) -> str:
    """How often the agent had to continue: one turn of its model wrote each file, and one ended the work."""
    wrote = [name for name in ("parser.txt", "fixed") if (place.project / name).exists()]
    aside = sum(1 for request in ran.asked if request.main and _ASIDE in str(request.body))
    times = ran.turns - aside - len(wrote) - 1
    said = [{1: "sent back once", 2: "sent back twice"}.get(times, f"sent back {times} times")] if times else []
    said += ["told"] if ran.model_saw("test_parser failed") else []
    return ", ".join([*said, "stopped" if ran.exit == 0 else "did not stop"])


def _going_on(words: str) -> Callable[[str], str]:
    return lambda host: words if can(host, "Stop").keep_going else "stopped"


_FAILING: Final = Case(
    name="recipe-tests",
    title=f"`add tests-before-stop`, at most {_LIMIT} times: a file changed, the tests keep failing",
    promised=_going_on("sent back twice, told, stopped"),
    seen=_sent_back,
    calls=_breaking,
    before=_adding(
        "tests-before-stop",
        *("--set", "command=sh run-tests.sh", "--set", f"limit={_LIMIT}"),
        files={"run-tests.sh": _TESTS},
    ),
    needs="Stop",
)

RECIPE_CASES: Final = (
    _protecting("write", f"a new `{_PROTECTED}`", _writing(_PROTECTED), "not run, told"),
    _protecting("edit", f"an edit of `{_WORKFLOW}`", _editing, "not run, told"),
    _protecting("shell", f"`echo A=1 >> {_PROTECTED}`", _appending, "not run, told"),
    _protecting("other", "a new file that is not protected", _writing(_OTHER), "written"),
    _UV,
    _WITHOUT_UV,
    _FAILING,
    msgspec.structs.replace(
        _FAILING,
        name="recipe-tests-fixed",
        title="the same: the tests are fixed when the agent is sent back",
        promised=_going_on("sent back once, told, stopped"),
        calls=_fixing,
    ),
    msgspec.structs.replace(
        _FAILING,
        name="recipe-tests-idle",
        title="the same: no file changed",
        promised=lambda host: "stopped",
        calls=_idling,
    ),
)
