"""Goals 24 and 25: the effects of a call are found quickly, and the guard costs little."""

import itertools
import os
import shlex
import subprocess
import tempfile
import time
from collections.abc import AsyncGenerator, Callable

from billhook import Hook, PreToolUse, effects_of
from billhook.builtins.guard import guard
from billhook.core.hook import Context
from billhook.effects.effect import ProtectedPaths
from harness import LOOPS, Bar, Case, Goal, Trial

_PLAIN = """
ls -la src
git status --short
git diff HEAD~1 -- src/app.py
git add -A && git commit -m "Fix the parser"
git push origin feature
git push --force-with-lease origin feature
npm install && npm test
pytest -q tests/test_app.py -k parser
cd build && cmake .. && make -j4
rm -rf build dist
cat src/app.py | head -50
grep -rn "TODO" src --include='*.py'
find . -name '*.pyc' -delete
docker compose up -d
curl -fsSL https://example.com/data.json -o data.json
sed -i 's/old/new/g' src/app.py
for f in *.md; do wc -l "$f"; done
python -c "import sys; print(sys.version)"
mkdir -p out && cp -r assets out/
sudo apt-get install -y jq
"""
LINES = [line for line in _PLAIN.strip().splitlines() for _ in range(10)]
"""Two hundred typical commands."""


async def effects() -> AsyncGenerator[Trial, None]:
    with tempfile.TemporaryDirectory() as folder:
        cases: dict[str, Case] = {
            "effects_of 200 commands": _rounds(lambda: [effects_of(event) for event in _events(folder)]),
            "shlex.split of the same": _rounds(lambda: [shlex.split(line) for line in LINES]),
        }
        yield Trial("200 commands", cases, [Bar("effects_of 200 commands", "shlex.split of the same", 15)], 20)


async def guarding() -> AsyncGenerator[Trial, None]:
    with tempfile.TemporaryDirectory() as folder:
        _make_repository(folder)
        judge = _judging(guard(ProtectedPaths()), folder)
        cases: dict[str, Case] = {"the guard, one event": judge, "/bin/true": _starting}
        yield Trial("one event", cases, [Bar("the guard, one event", "/bin/true", 0.25)], LOOPS)


def _events(folder: str) -> list[PreToolUse]:
    """New events each time: an event caches its effects."""
    return [PreToolUse(tool_name="Bash", tool_input={"command": line}, cwd=folder) for line in LINES]


def _rounds(work: Callable[[], object]) -> Case:
    async def case(count: int) -> float:
        began = time.perf_counter_ns()
        for _ in range(count):
            work()
        return time.perf_counter_ns() - began

    return case


def _judging(hook: Hook, folder: str) -> Case:
    async def case(count: int) -> float:
        given = list(itertools.islice(itertools.cycle(_events(folder)), min(count, len(LINES))))
        began = time.perf_counter_ns()
        for event in itertools.islice(itertools.cycle(given), count):
            hook.run(Context(event, []))
        return time.perf_counter_ns() - began

    return case


def _make_repository(folder: str) -> None:
    subprocess.run(["git", "init", "-q", folder], check=True)


async def _starting(count: int) -> float:
    began = time.perf_counter_ns()
    for _ in range(count):
        _start()
    return time.perf_counter_ns() - began


def _start() -> None:
    os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)


GOALS = (
    Goal(24, "Effects of 200 typical commands", effects),
    Goal(25, "The guard's cost for one event", guarding),
)
