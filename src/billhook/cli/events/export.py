"""`billhook events verify`, `export` and `save`: whether the log was changed, its raw lines, one event again."""

import os
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click

from billhook.cli.events import show_nothing
from billhook.cli.events.query import Filters, Slice, chosen, filter_options, here, slice_options
from billhook.cli.events.show import found, whole
from billhook.cli.options import flag, loaded, option, usage
from billhook.cli.screen import filled, hint, note, picked, report, shown_path, table_width, with_shown_paths
from billhook.config import edit_yaml
from billhook.config.cases import EXPECTED
from billhook.config.cases import event_of as case_event
from billhook.config.config import Config
from billhook.core import tools
from billhook.core.errors import BillhookError, UsageError
from billhook.core.events import EVENTS, parse
from billhook.core.strictjson import dumps
from billhook.core.text import counted, visible
from billhook.effects.conditions import cell_of
from billhook.store.files import StoreError
from billhook.store.log import Record
from billhook.store.log.verify import Head, VerifyResult, export, export_head, exported, exported_head, verify
from billhook.testing.judge import decided_by, event_of, judged_then

_SHOWN = 20  # findings on the screen; `--json` has more


def _head(ctx: click.Context, param: click.Parameter, value: str | None) -> Head | None:
    if value is None:
        return None
    try:
        return Head.from_text(value)
    except ValueError as error:
        raise UsageError(f"--expect: {error}", hint="give the output of `billhook events verify --head`") from None


@usage("""\b
Examples:
  billhook events verify
  billhook events verify --head > /mnt/elsewhere/head
  billhook events verify --expect "$(cat /mnt/elsewhere/head)"

Exit code: 0 nothing was changed, 1 something was changed,
removed, moved or added, 2 usage or a log that can't be read.""")
@flag("--head", "wants_head", "Print the head, SEQ:HASH, to store elsewhere; from now on the log must contain it.")
@option("--expect", "SEQ:HASH", "A head that the log must contain.  [default: all exported heads]", callback=_head)
@flag("--json", "as_json", "Print one line of JSON.")
def verify_verb(wants_head: bool, expect: Head | None, as_json: bool) -> int:
    """Check that every record of this project's log is unchanged, and that none is missing, moved or added.

    Each record contains the hash of the one before. Rewriting the whole log, or cutting off its end, is only detected
    with a head that was exported earlier: by the daemon, to the folder `export_head_to`, or with --head.
    """
    reader = here().reader()
    target = head_folder()
    heads = [expect] if expect else []
    if not heads:  # all exported heads: the one printed last, and those in the folder for heads
        printed = exported_head(reader.folder, reader.root)
        heads = [one.head for one in exported(Path(target), reader.folder)] if target else []
        heads += [printed] if printed else []
    expected = max(heads, key=lambda head: head.seq, default=None)
    found = verify(reader.folder, reader.root, expected=heads)
    if found.ok and wants_head and found.head is not None:
        try:
            export_head(reader.folder, reader.root, found.head)
            if target:
                export(Path(target), reader.folder, reader.root)
        except StoreError as error:  # the head is printed anyway
            note(str(error))
    if wants_head and found.ok and found.head is None and not as_json:
        raise UsageError("the log is empty, so it has no head", hint="`billhook events` explains what writes records")
    lines = [str(found.head)] if wants_head and found.ok else _screen(found, expected, target)
    report(as_json, lines, _as_data(found, expected))
    return 0 if found.ok else 1


def head_folder() -> str:
    """The configured folder for exported heads; empty if there is none. A broken configuration must not prevent the
    check of the log."""
    from billhook.config.builtin_hooks import filled

    try:
        config = loaded(())
        return str(filled("event-logger", config.builtins["event-logger"].options)["export_head_to"])
    except BillhookError as error:
        note(f"can't read the configuration, so exported heads are not checked: {error.message}")
        return ""


def _as_data(found: VerifyResult, expected: Head | None) -> dict[str, object]:
    return {
        **picked(found, "ok records files first_seq"),
        "head": str(found.head) if found.head else None,
        "expected": str(expected) if expected else None,
        **picked(found, "torn foreign"),
        "findings": [{"file": str(one.file), **picked(one, "line seq what")} for one in found.findings],
        "more_findings": found.more,
    }


def _screen(found: VerifyResult, expected: Head | None, target: str) -> Iterator[str]:
    for one in found.findings[:_SHOWN]:
        file = shown_path(str(one.file), here=False)
        place = f"{file}:{one.line}" if one.line else file
        yield f"{click.style(visible(place), fg='red')}: {visible(with_shown_paths(one.what))}"
    hidden = max(0, len(found.findings) - _SHOWN) + found.more
    if hidden:
        yield f"and {hidden:,} more (--json lists {'them' if not found.more else 'the first thousand'})"
    yield from [""] if found.findings else []
    yield from _summary(found, expected, target)


def _summary(found: VerifyResult, expected: Head | None, target: str) -> Iterator[str]:
    size = f"{counted(found.records, 'record')} in {counted(found.files, 'file')}"
    if not found.ok or found.head is None:
        findings = f"{size}: {counted(len(found.findings) + found.more, 'finding')}"
        yield findings if not found.ok else "the log is empty: there is nothing to check"
        return
    yield f"{size}: {click.style('unchanged', fg='green')}"
    if found.torn:
        yield f"{counted(found.torn, 'incomplete line')} of crashed processes; noted at the time, and no record is lost"
    yield f"head {found.head}"
    if expected is None:
        remedy = (
            "store this head elsewhere (`billhook events verify --head`), or set the option `export_head_to` of the "
            "built-in `event-logger`"
        )
        if target:
            remedy = f"the daemon stores the head in {shown_path(target)}; `billhook events verify --head` does so now"
        text = "without a stored head, a log whose end was cut off, or that was rewritten as a whole, can't be detected"
        yield from filled(f"{text}; {remedy}", 0, table_width())
    else:
        yield f"the log contains the head that was exported at record {expected.seq}"


# `billhook events export`:
@usage("""\b
Examples:
  (umask 077; billhook events export > audit.jsonl)
  billhook events export jolly-squid --since 1d | gzip > session.jsonl.gz""")
@click.argument("sessions", metavar="[SESSION]", nargs=-1)
@filter_options
@slice_options("all")
def export_verb(filters: Filters, part: Slice) -> int:
    """Print the lines of the log byte for byte, one JSON object per line, oldest first.

    Without filters, this is the whole log of this project, with the records that the log has about itself, so that the
    chain of hashes can be checked elsewhere. Large fields that are stored in separate files are not included;
    `billhook events --json` prints complete records.
    """
    logs = chosen(filters, here())
    if not logs.count():
        return show_nothing(logs, in_json=True)
    whole = filters == Filters() and part.end is None and not part.offset
    aside = 0
    for entry in logs.chosen(part, notes=whole):
        sys.stdout.buffer.write(entry.line + b"\n")
        aside += entry.record.side is not None
    sys.stdout.buffer.flush()
    if aside:
        what = "1 record has a part" if aside == 1 else f"{aside} records have parts"
        note(f"{what} in separate files, which are not exported; `billhook events --json` prints complete records")
    if logs.foreign:
        note(f"skipped {counted(logs.foreign, 'line')} that billhook did not write")
    return 0


# `billhook events save`:
_SHORT: Final = {"Bash": ("bash", "command"), "Read": ("read", "file_path")}
"""Tools with a short form in test cases: its key, and the field of the input."""
_OF_RUN: Final = ("session_id", "transcript_path", "tool_use_id", "cwd", "permission_mode", "agent_id", "agent_type")
"""Fields that belong to that run, and not to a test."""


@usage("""\b
Examples:
  billhook events save 12                          a `billhook fire` command
  billhook events save 12 --as-test                a test case for hooks.yaml
  billhook events save 12 --as-test --to .billhook/hooks.yaml

Exit code: 0 done, 2 usage, or no such record.""")
@click.argument("id_", metavar="NR|ID")
@flag("--as-test", "A test case, with the recorded decision as the expected one.")
@option("--name", "N", "The name of the test case.")
@option("--to", "file", "FILE", "Append the test case to this file; implies --as-test.")
@flag("--json", "as_json", "Print one line of JSON: the test case, or the event.")
def save_verb(id_: str, as_test: bool, name: str | None, file: str | None, as_json: bool) -> int:
    """Print a recorded event as a `billhook fire` command, or as a test case.

    Secrets stay redacted. If one was removed from this event, the decision may differ, and a note reports that. A test
    case has paths that are valid elsewhere, relative or with ~, if hooks judge it the same.
    """
    record = _record(id_)
    payload, notes = _payload(record)
    if file is None and not as_test:
        report(as_json, [command_of(payload)], payload, whole=True)
    else:
        case = case_of(record, payload, name or "")
        text = f"- {dumps(case)}"
        if file is not None:
            path = Path(file)
            before = path.read_bytes() if path.exists() else None
            path.write_bytes(edit_yaml.with_sections(before, str(path), {"tests": text}))
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
    record, problem = whole(*found(id_, here()))
    if problem:
        raise UsageError(problem, hint="`billhook events verify` checks the log")
    if record.note is not None or record.event == "Trust":
        raise UsageError(f"record {id_} is not an event of an agent", hint="`billhook events` lists the records")
    return record


def _payload(record: Record) -> tuple[dict[str, Any], list[str]]:
    notes = []
    if record.redacted:
        notes.append(_without_secrets(record))
    if record.tool is not None and record.input is None:
        notes.append("the input of the tool was not recorded, so hooks may decide differently")
    return record.payload, notes


def _without_secrets(record: Record) -> str:
    """Whether the hooks of today decide differently about the event without its secrets."""
    from billhook.config.explain import explain
    from billhook.config.loader import load_for_cwd

    event, head = event_of(record), "secrets were removed from this event"
    found = explain(load_for_cwd(record.cwd), event).outlook if event is not None else None
    if found is None or found.open:
        return f"{head}, so hooks may decide differently"
    if found.decision == record.decision:
        return f"{head}; hooks decide the same without them"
    return f"{head}, and hooks decide {found.decision} without them, not {record.decision}: put in a made-up secret"


def command_of(payload: dict[str, Any]) -> str:
    return f"billhook fire --event {shlex.quote(dumps(payload))}"


def case_of(record: Record, payload: dict[str, Any], name: str = "") -> dict[str, Any]:
    """A test case that expects the recorded decision. Decisions of the agent itself are not in the log."""
    case: dict[str, Any] = {"name": name} if name else {}
    case |= _portable(_call(record, payload), record)
    word = judged_then(record).word
    case["expect"] = word if word in EXPECTED else "none"
    by = next(iter(decided_by(record)), "")
    return {**case, **({"by": by} if by else {})}


def _call(record: Record, payload: dict[str, Any]) -> dict[str, Any]:
    key, field = _SHORT.get(record.tool or "", ("", ""))
    given = record.input if isinstance(record.input, dict) else {}
    if record.event == "PreToolUse" and key and isinstance(given.get(field), str):
        return {key: str(given[field] if key == "bash" else tools.path_of(record.tool or "", given) or given[field])}
    if record.event == "UserPromptSubmit" and isinstance(given.get("prompt"), str):
        return {"prompt": given["prompt"]}
    return {"event": {field: value for field, value in payload.items() if field not in _OF_RUN}}


_BEFORE_PATH: Final = r"""(?<![^\s"'`=:,;|&<>()])"""
_BEFORE_HOME: Final = r"(?<![^\s<>])"  # elsewhere, a shell does not expand `~`
_AFTER_PATH: Final = r"""(?![^\s"'`=:,;|&<>()/])"""


def _portable(call: dict[str, Any], record: Record) -> dict[str, Any]:
    """The call with paths below the project relative, and those below the home folder with `~`, as far as today's
    hooks judge it the same. Tests run in the project's folder, whose path differs in other checkouts."""
    from billhook.config.actions import each_text
    from billhook.config.loader import load_for_cwd

    config, home = load_for_cwd(record.cwd), os.path.expanduser("~")
    project = re.compile(f"{_BEFORE_PATH}{re.escape(config.project)}(?:(/)(?=[\\w.])|/?{_AFTER_PATH})")
    own = re.compile(f"{_BEFORE_HOME}{re.escape(home)}{_AFTER_PATH}")
    relative = each_text(call, lambda text: project.sub(lambda found: "" if found[1] else ".", text))
    short = each_text(relative, lambda text: own.sub("~", text))
    wanted = _judgement(call, record.cwd, config)
    same = (one for one in (short, relative) if _judgement(one, config.project, config) == wanted)
    return next(same, call)


def _judgement(call: dict[str, Any], cwd: str, config: Config) -> Any:
    """What is known about the hooks and permission rules for this call, without running anything."""
    from billhook.config.explain import explain
    from billhook.testing.runner import permission_of

    base = {"session_id": "saved", "transcript_path": "", "cwd": cwd}
    try:
        event = parse({**base, **case_event(call)})
    except BillhookError:
        return None
    found = explain(config, event)
    hooks = [(one.row.name, one.runs, one.answer and one.answer.decision) for one in found.hooks]
    others = [one.row.name for one in found.others]
    effects = [cell_of(one) for one in getattr(event, "effects", ())]
    return hooks, others, found.outlook, effects, permission_of(event, config)
