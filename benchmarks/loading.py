"""Goal 23: loading a configuration of 200 hooks again when nothing has changed."""

import os
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from billhook.config import Config, load_config, loader, trust
from billhook.config.trust import approve_entry
from billhook.effects import shell
from harness import Bar, Case, Goal, Trial

HOOKS = 200
_PASSES = 40
_SCRIPT = """#!/bin/sh
# hook {number}
. "$(dirname "$0")/common.sh"
command=$(jq -r .tool_input.command)
case $command in *"rm -rf /"*) refuse {number} ;; esac
"""
_COMMON = 'refuse() { echo "hook $1 refuses" >&2; exit 2; }\n'


async def load_again() -> AsyncGenerator[Trial, None]:
    with approved_project(HOOKS) as load:
        config = load()
        assert len(config.entries) == HOOKS and {entry.state for entry in config.entries} == {"runs"}
        assert load() is config, "it must not be loaded again if nothing has changed"
        cases: dict[str, Case] = {"load again": timed(load), "first load": timed(load, forget)}
        yield Trial(f"{HOOKS} hooks", cases, [Bar("load again", "first load", 1 / 20)], _PASSES)


def timed(load: Callable[[], Config], before: Callable[[], None] | None = None) -> Case:
    """Loading as a case; the call of `before` is not measured."""

    async def case(count: int) -> float:
        taken = 0
        for _ in range(count):
            if before is not None:
                before()
            began = time.perf_counter_ns()
            load()
            taken += time.perf_counter_ns() - began
        return taken

    return case


def forget() -> None:
    """Clear the caches, as in a process that has loaded nothing yet. Modules stay imported: they are not measured."""
    loader._cache.clear()
    trust._known.clear()
    shell._parse_short.cache_clear()


@contextmanager
def approved_project(hooks: int) -> Iterator[Callable[[], Config]]:
    """How to load a project whose hooks are all approved, with a temporary home folder."""
    with tempfile.TemporaryDirectory() as folder, own_home(Path(folder, "home")) as home:
        project = Path(folder, "project")
        make_project(project, hooks)
        time.sleep(0.05)  # a file that was just written is not cached

        def load() -> Config:
            return load_config(project, home=home / "state")

        for entry in load().pending:
            approve_entry(entry, home / "state")
        yield load


def make_project(project: Path, hooks: int) -> None:
    scripts = project / "scripts"
    scripts.mkdir(parents=True)
    (project / ".git").mkdir()
    (scripts / "common.sh").write_text(_COMMON)
    lines = ["hooks:"]
    for number in range(hooks):
        script = scripts / f"hook-{number}.sh"
        script.write_text(_SCRIPT.format(number=number))
        script.chmod(0o755)
        lines += [f"  - name: hook-{number}", "    events: PreToolUse", "    match: Bash"]
        lines += [f"    run: ./scripts/{script.name} --quiet"]
    (project / "hooks.yaml").write_text("\n".join(lines) + "\n")


@contextmanager
def own_home(home: Path) -> Iterator[Path]:
    """The user's own hooks are not measured, and nothing is written to the user's home."""
    names = ("HOME", "XDG_CONFIG_HOME", "BILLHOOK_HOME")
    before = {name: os.environ.pop(name) for name in names if name in os.environ}
    home.mkdir(mode=0o700)
    os.environ["HOME"] = str(home)
    try:
        yield home
    finally:
        del os.environ["HOME"]
        os.environ.update(before)


GOALS = (Goal(23, f"Loading {HOOKS} unchanged hooks again", load_again),)
