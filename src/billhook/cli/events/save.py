"""`billhook events save`: a recorded event as a test case, or as a `billhook fire` command."""

import shlex
from pathlib import Path
from typing import Any, Final

import click

from billhook.cli.events import query
from billhook.cli.events.show import found, whole
from billhook.cli.options import flag, option
from billhook.cli.screen import hint, note, report, shown_path
from billhook.config import edit_yaml
from billhook.config.cases import EXPECTED
from billhook.core import tools
from billhook.core.errors import UsageError
from billhook.core.events import EVENTS
from billhook.core.strictjson import dumps
from billhook.core.text import visible
from billhook.store.log.record import Record
from billhook.testing.past import decided_by, judged_then

_SHORT: Final = {"Bash": ("bash", "command"), "Read": ("read", "file_path")}
"""Tools with a short form in test cases: its key, and the field of the input."""
_OF_RUN: Final = ("session_id", "transcript_path", "tool_use_id", "cwd", "permission_mode", "agent_id", "agent_type")
"""Fields that belong to that run, and not to a test."""


@click.command(
    "save",
    epilog="""\b
Examples:
  billhook events save 12                          a `billhook fire` command
  billhook events save 12 --as-test                a test case for hooks.yaml
  billhook events save 12 --as-test --to .billhook/hooks.yaml

Exit code: 0 done, 2 usage, or no such record.""",
)
@click.argument("id_", metavar="NR|ID")
@flag("--as-test", "A test case, with the recorded decision as the expected one.")
@option("--name", "N", "The name of the test case.")
@option("--to", "file", "FILE", "Append the test case to this file; implies --as-test.")
@flag("--json", "as_json", "Print one line of JSON: the test case, or the event.")
def verb(id_: str, as_test: bool, name: str | None, file: str | None, as_json: bool) -> int:
    """Print a recorded event as a `billhook fire` command, or as a test case.

    Secrets stay redacted. If one was removed from this event, the decision may differ, and a note reports that.
    """
    record = _record(id_)
    payload, notes = _payload(record)
    if file is None and not as_test:
        report(as_json, [command_of(payload)], payload, whole=True)
    else:
        case = case_of(record, payload, name or "")
        text = f"- {dumps(case)}"
        if file is not None:
            _append(Path(file), text)
        report(as_json, [f"added to {visible(shown_path(file))}: {text}" if file else text], case, whole=True)
        if record.event not in EVENTS:
            hint(f"`{record.event}` is not an event of an agent: the case can't be tested")
    for one in notes:
        note(one)
    return 0


def saved(id_: str) -> tuple[dict[str, Any], list[str]]:
    """A recorded event as an agent sends it, and what may differ from the original."""
    return _payload(_record(id_))


def _record(id_: str) -> Record:
    record, problem = whole(*found(id_, query.here()))
    if problem:
        raise UsageError(problem, hint="`billhook events verify` checks the log")
    if record.note is not None or record.event == "Trust":
        raise UsageError(f"record {id_} is not an event of an agent", hint="`billhook events` lists the records")
    return record


def _payload(record: Record) -> tuple[dict[str, Any], list[str]]:
    notes = []
    if record.redacted:
        notes.append("secrets were removed from this event, so hooks may decide differently")
    if record.tool is not None and record.input is None:
        notes.append("the input of the tool was not recorded, so hooks may decide differently")
    return record.payload, notes


def command_of(payload: dict[str, Any]) -> str:
    """The command that fires the event again."""
    return f"billhook fire --event {shlex.quote(dumps(payload))}"


def case_of(record: Record, payload: dict[str, Any], name: str = "") -> dict[str, Any]:
    """A test case that expects the recorded decision. Decisions of the agent itself are not in the log."""
    case: dict[str, Any] = {"name": name} if name else {}
    case |= _call(record, payload)
    word = judged_then(record).word
    case["expect"] = word if word in EXPECTED else "none"
    by = next(iter(decided_by(record)), "")
    return {**case, **({"by": by} if by else {})}


def _call(record: Record, payload: dict[str, Any]) -> dict[str, Any]:
    key, field = _SHORT.get(record.tool or "", ("", ""))
    given = record.input if isinstance(record.input, dict) else {}
    if record.event == "PreToolUse" and key and isinstance(given.get(field), str):
        text = given[field] if key == "bash" else tools.path_of(record.tool or "", given) or given[field]
        return {key: str(text).removeprefix(f"{record.cwd}/")}
    if record.event == "UserPromptSubmit" and isinstance(given.get("prompt"), str):
        return {"prompt": given["prompt"]}
    return {"event": {field: value for field, value in payload.items() if field not in _OF_RUN}}


def _append(file: Path, text: str) -> None:
    """Add a case at the end of `tests`. Raises BillhookError if that needs an edit by hand."""
    before = file.read_bytes() if file.exists() else None
    file.write_bytes(edit_yaml.with_sections(before, str(file), {"tests": text}))
