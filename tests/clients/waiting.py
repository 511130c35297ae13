"""What a person waits: the time of one tool call in real Claude Code with ten hooks, asked in different ways.

A tool call lasts from the model's answer with the call to the next request with its result. The ways alternate, so
that other load on the machine affects all of them.
"""

import itertools
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from clients.agents import AGENTS, Place, find, version
from clients.proving import BILLHOOK
from clients.running import Run, run
from clients.script import Script, Step
from clients.table import DOCUMENT, between, put_between

HOOKS: Final = 10
ROUND: Final = 20
"""Tool calls of one run of the agent. The first is not counted, nor is the last, which proves that hooks run."""
NONE: Final = "no hook at all"
PLAIN: Final = "ten plain Claude Code hooks"
_SHELL: Final = "grep -q forbidden && { echo 'forbidden by {name}' >&2; exit 2; }; exit 0"
_PYTHON: Final = """\
import json, sys

event = json.load(sys.stdin)
if "forbidden" in event["tool_input"].get("command", ""):
    print("forbidden", file=sys.stderr)
    sys.exit(2)
"""
_FUNCTION: Final = """\
from billhook import deny


def guard(event):
    return deny("forbidden") if "forbidden" in event.tool_input.get("command", "") else None
"""


class Way(msgspec.Struct, frozen=True):
    """One way to have the ten hooks asked."""

    title: str
    hooks: Callable[[str, Place], dict[str, str]]
    installed: bool = False
    environ: Mapping[str, str] = {}


def _plain(kind: str, place: Place) -> dict[str, str]:
    """Settings with the ten hooks, without billhook."""
    files = {}
    commands = []
    for number in range(HOOKS):
        name = f"guard-{number}.{'py' if 'Python' in kind else 'sh'}"
        files[f"home/hooks/{name}"] = _PYTHON if name.endswith("py") else _SHELL.replace("{name}", name) + "\n"
        commands.append(f"{sys.executable if name.endswith('py') else 'sh'} {place.home}/hooks/{name}")
    hooks = [{"type": "command", "command": command, "timeout": 30} for command in commands]
    settings = {"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": hooks}]}}
    return files | {"home/.claude/settings.json": json.dumps(settings, indent=2) + "\n"}


def _functions(kind: str, place: Place) -> dict[str, str]:
    """The same checks as Python functions, which the daemon keeps in memory."""
    hook = "{events: PreToolUse, match: Bash, python: 'guards:guard', timeout: 30}"
    hooks = "".join(f"  guard-{number}: {hook}\n" for number in range(HOOKS))
    return {
        "home/.config/billhook/guards.py": _FUNCTION,
        "home/.config/billhook/hooks.yaml": f"hooks:\n{hooks}",
    }


_ALONE: Final = {"BILLHOOK_NO_DAEMON": "1"}
_WAYS: Final = (
    Way(PLAIN, _plain),
    Way("the same ten in billhook, with its daemon", _plain, installed=True),
    Way("the same ten in billhook, without a daemon", _plain, installed=True, environ=_ALONE),
)
WAYS: Final[Mapping[str, Sequence[Way]]] = {
    "none": (Way(NONE, lambda kind, place: {}),),
    "ten shell commands": _WAYS,
    "ten Python scripts": (
        *_WAYS,
        Way("the same checks as Python functions in billhook, with its daemon", _functions, installed=True),
    ),
}


def measure(calls: int) -> Iterator[str]:
    """Measures, prints the results, and writes them to the document."""
    agent = AGENTS["claude"]
    binary = find(agent)
    if binary is None:
        yield "Claude Code: not here (scripts/clients --install gets it)"
        return
    load = os.getloadavg()[0]
    times: dict[tuple[str, str], list[float]] = {(kind, way.title): [] for kind, ways in WAYS.items() for way in ways}
    while any(len(held) < calls for held in times.values()):
        for kind, ways in WAYS.items():
            for way in ways:
                times[kind, way.title] += _round(way, kind, binary)
        yield f"{min(map(len, times.values()))} of {calls} calls each way"
    lines = _table(times)
    about = (
        f"Claude Code {version(agent, binary)}, {calls} calls each way, {os.cpu_count()} processors, "
        f"load average {load:.1f} before and {os.getloadavg()[0]:.1f} after, Python {sys.version.split()[0]}.\n\n"
    )
    text = DOCUMENT.read_text()
    if between(text, "wait"):
        DOCUMENT.write_text(put_between(text, "wait", about + "".join(f"{line}\n" for line in lines)))
    yield about.strip()
    yield from lines


def _round(way: Way, kind: str, binary: Path) -> list[float]:
    """The times of one run, in milliseconds."""
    with tempfile.TemporaryDirectory(prefix="bh-", ignore_cleanup_errors=True) as folder:
        place = Place(Path(folder).resolve())
        shell = AGENTS["claude"].shell
        steps = [Step(calls=[shell(command)]) for command in [*["true"] * (ROUND + 1), "touch forbidden"]]
        install = [[BILLHOOK, "install", "claude", "--user", "--adopt"], [BILLHOOK, "daemon", "start"]]
        ran = run(
            Run(
                "claude",
                str(binary),
                str(place.root),
                Script([*steps, Step("all done")]),
                environ=way.environ,
                files=way.hooks(kind, place),
                before=install[: 1 if way.environ else 2] if way.installed else [],
                after=[[BILLHOOK, "daemon", "stop", "--force"]] if way.installed else [],
                seconds=300,
            )
        )
        guarded = not (place.project / "forbidden").exists()
    asked = [request for request in ran.asked if request.main]
    spans = [(after.came - before.answered) * 1000 for before, after in itertools.pairwise(asked)]
    if len(spans) != ROUND + 2 or guarded != (way.title != NONE):
        raise RuntimeError(f"{way.title}: {len(spans)} calls, {guarded=}: {ran.stdout[-500:]}{ran.stderr[-500:]}")
    return spans[1:-1]


def _table(times: Mapping[tuple[str, str], Sequence[float]]) -> list[str]:
    lines = ["| hooks | how they run | p50 | p99 | p50 against plain |", "| --- | --- | --- | --- | --- |"]
    for (kind, title), spans in times.items():
        plain = times.get((kind, PLAIN))
        ratio = f"{statistics.median(spans) / statistics.median(plain):.2f}" if plain else ""
        lines.append(f"| {kind} | {title} | {statistics.median(spans):.0f} ms | {_p99(spans):.0f} ms | {ratio} |")
    return lines


def _p99(spans: Sequence[float]) -> float:
    return sorted(spans)[min(len(spans) - 1, int(len(spans) * 0.99))]
