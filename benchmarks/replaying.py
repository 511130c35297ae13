"""Goal 26: a log of 100,000 records is judged again, by the guard and by rules with fixed answers.

The records are those of a few hundred typical commands and files, as in real logs. How long it takes if no command
occurs twice is reported, too.
"""

import math
import os
import random
import tempfile
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from billhook.core import strictjson
from billhook.store.files import log_folder
from billhook.store.log import Record, RecordFilter
from billhook.store.log.eventlog import CURRENT, make_line
from billhook.store.log.reader import LogReader
from billhook.testing import replay
from billhook.testing.judge import Judges
from guarding import LINES
from harness import Bar, Case, Goal, Trial
from log_reading import timed

_RECORDS = 100_000
_UNIQUE = 5_000
_FEW = 2_000
_PASSES = 5
_RULES = """
hooks:
  - {name: push-gate, events: PreToolUse, if: "Bash(git push *)", ask: "Push?"}
  - {name: no-env, events: PreToolUse, if: "Write(.env)", deny: "Edit .env yourself."}
  - {name: no-npm, events: PreToolUse, if: "Bash(npm *)", deny: "Use pnpm."}
  - {name: docs, events: PreToolUse, paths: "docs/**", inject: "Short sentences."}
"""


async def replaying() -> AsyncGenerator[Trial, None]:
    few = int(os.environ.get("BILLHOOK_BENCH_PASSES") or _PASSES) < 3
    for name, number, unique in (("typical", _RECORDS, False), ("every command once", _UNIQUE, True)):
        with _project(_FEW if few else number, unique) as (reader, project):
            cases: dict[str, Case] = {
                "replay": timed(lambda reader=reader, project=project: _replayed(reader, project)),  # type: ignore[misc]
                "msgspec decoding": timed(lambda reader=reader: _decoded(reader)),  # type: ignore[misc]
            }
            count = _decoded(reader)
            assert _replayed(reader, project).events == count
            bar = Bar("replay", "msgspec decoding", math.inf if unique else 10)
            yield Trial(f"{count:,} records, {name}", cases, [bar], _PASSES)


def _replayed(reader: LogReader, project: str) -> replay.ReplayResult:
    records = (entry.record for entry in reader.forward(RecordFilter(project=project)))
    return replay.replay(records, Judges())


def _decoded(reader: LogReader) -> int:
    decode, count = msgspec.json.Decoder(Record).decode, 0
    for path in reader.files():
        with path.open("rb") as file:
            for line in file:
                count += decode(line).note is None
    return count


@contextmanager
def _project(number: int, unique: bool) -> Iterator[tuple[LogReader, str]]:
    """A project with rules and a log. The home folder is a new one, so that no rules of the user count."""
    before = {name: os.environ.get(name) for name in ("HOME", "BILLHOOK_HOME", "XDG_CONFIG_HOME")}
    with tempfile.TemporaryDirectory(prefix="billhook-bench-") as folder:
        home, project = Path(folder, "home"), Path(os.path.realpath(folder), "shop")
        (project / ".git").mkdir(parents=True)
        (project / ".billhook").mkdir()
        (project / ".billhook" / "hooks.yaml").write_text(_RULES)
        os.environ |= {"HOME": str(home), "BILLHOOK_HOME": str(home / "state"), "XDG_CONFIG_HOME": ""}
        home.mkdir()
        log = write_log(home / "state", str(project), _records(str(project), number, unique))
        try:
            yield LogReader(log, home / "state"), str(project)
        finally:
            for name, value in before.items():
                os.environ.pop(name, None) if value is None else os.environ.update({name: value})


def write_log(root: Path, project: str, records: Iterable[dict[str, Any]]) -> Path:
    """Write a log with the lines of the real writer; returns its folder."""
    folder, prev = log_folder(root, project), ""
    folder.mkdir(mode=0o700, parents=True)
    with (folder / CURRENT).open("wb") as file:
        for seq, record in enumerate(records, 1):
            line, prev = make_line(seq, prev, strictjson.encode(record))
            file.write(line)
    return folder


def _records(project: str, number: int, unique: bool) -> Iterator[dict[str, Any]]:
    chance = random.Random(26)
    return (_record(chance, project, count, f" # {count}" if unique else "") for count in range(number))


def _record(chance: random.Random, project: str, count: int, end: str) -> dict[str, Any]:
    tool, given = chance.choice(_CALLS)(chance, project, end)
    session = f"{count // 400:08x}-5a17-4c1e-9d2b-3f0c8e6b7a91"
    second = count // 10
    clock = f"{second // 3600 % 24:02}:{second // 60 % 60:02}:{second % 60:02}.{count % 10}00000"
    event = chance.choice(("PreToolUse", "PostToolUse"))
    shown = {"dialect": "spec", "status": "ok", "decision": "none", "source": "built-in", "duration_ms": 0.4}
    return {
        "id": f"{count:032x}",
        "time": f"2026-01-{1 + second // 86400 % 28:02}T{clock}Z",
        "mono": 100.0 + count,
        "event": event,
        "session_id": session,
        "session_name": "brave-otter",
        "turn_id": f"{session}:{1 + count // 20 % 20}",
        "tool": tool,
        "tool_use_id": f"toolu_{count:012d}",
        "cwd": project,
        "project": project,
        "host": "claude",
        "decision": "none",
        "duration_ms": 1.5,
        "redacted": 0,
        "input": given,
        **({"output": {"stdout": "done", "stderr": ""}} if event == "PostToolUse" else {}),
        "outcomes": [{"hook": name, **shown} for name in ("metrics", "turn-tracker", "event-logger", "guard")],
        "not_asked": {"push-gate": "condition false", "no-env": "did not match"},
    }


_CALLS = (
    lambda chance, project, end: ("Bash", {"command": chance.choice(LINES) + end, "description": "does it"}),
    lambda chance, project, end: ("Read", {"file_path": f"{project}/src/part{chance.randrange(150)}.py"}),
    lambda chance, project, end: (
        "Edit",
        {"file_path": f"{project}/docs/page{chance.randrange(50)}.md", "old_string": f"a{end}", "new_string": "b"},
    ),
    lambda chance, project, end: ("Grep", {"pattern": f"word{chance.randrange(80)}{end}", "path": "src"}),
)
GOALS = (Goal(26, "Replaying a log", replaying),)
