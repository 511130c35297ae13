"""What people see: lines, hints, errors, rows of facts and verdicts."""

import errno
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import click
import msgspec

from billhook.cli.signals import hang_up
from billhook.core import strictjson
from billhook.core.answers import FAILURES, UNSET, Outcome, Status, Verdict
from billhook.core.errors import BillhookError
from billhook.core.text import Finding, counted, one_line, visible
from billhook.store.files import StoreError
from billhook.store.log.record import OutcomeRecord

if TYPE_CHECKING:
    from billhook.config.config import Config


# Rows of facts on a screen that has a width.
_WIDEST = 120
_LONGEST = 1000  # characters of one text: a path is shown whole, and no file fills the screen
_GAP = "   "


def width() -> int:
    """Columns to fill: those of the terminal, 80 where there is none; long lines are hard to read."""
    return max(40, min(shutil.get_terminal_size().columns, _WIDEST))


def filled(text: str, indent: int, columns: int | None = None) -> Iterator[str]:
    """A text in lines that fit, broken at blanks, each with its indent."""
    room = max(20, (columns or width()) - indent)
    line = ""
    flat = visible(with_shown_paths(" ".join(text[: 2 * _LONGEST].split())))
    for word in (flat if len(flat) <= _LONGEST else flat[:_LONGEST] + " ...").split(" "):
        if line and len(line) + 1 + len(word) > room:
            yield " " * indent + line
            line = word
        else:
            line = f"{line} {word}".strip()
    yield " " * indent + line


def hanging(text: str, indent: int) -> Iterator[str]:
    """A text in lines that fit, all but the first with two more columns of indent."""
    first, *rest = filled(text, indent)
    yield first
    yield from ("  " + line for line in rest)


def facts(items: Iterable[str], indent: int) -> Iterator[str]:
    """Short facts beside each other, as many in a line as fit; one that is too long has a line of its own."""
    room = width() - indent
    line = ""
    for item in (one_line(item, _LONGEST) for item in items):
        if line and len(line) + len(_GAP) + len(item) > room:
            yield " " * indent + line
            line = ""
        line = f"{line}{_GAP}{item}" if line else item
    if line:
        yield " " * indent + line


def name_lines(rows: Sequence[tuple[str, str]], indent: int = 2) -> Iterator[str]:
    """Names with a text beside each, in two columns. A text that is too long is cut."""
    column = max((len(visible(name)) for name, _ in rows), default=0)
    for name, text in rows:
        room = max(20, width() - indent - column - 2)
        yield f"{' ' * indent}{visible(name):<{column}}  {one_line(text, room)}".rstrip()


def command_lines(commands: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Commands to type, each with its purpose beside it; below it where the screen is too narrow for that."""
    column = max(len(command) for command, _ in commands)
    beside = all(column + len(purpose) + 4 <= width() for _, purpose in commands)
    for command, purpose in commands:
        shown = click.style(command, fg="cyan") + (" " * (column - len(command)) if beside else "")
        yield f"  {shown}  {purpose}" if beside else f"  {shown}"
        yield from () if beside else filled(purpose, 6)


def shown_path(path: str, *, here: bool = True, home: bool = True) -> str:
    """A path as people write it: relative when it lies below this folder, with `~` when below their own."""
    for folder, prefix in _folders()[0 if here else 1 : 2 if home else 1]:
        if path.startswith(folder + "/"):
            return prefix + path[len(folder) + 1 :]
    return path


def with_shown_paths(text: str) -> str:
    """A sentence, its paths as people write them."""
    for folder, prefix in _folders():
        if folder in text:
            text = re.sub(rf"(?<![\w/.~-]){re.escape(folder)}/", prefix, text)
    return text


def first_problem(problems: Iterable[Finding]) -> str:
    """Where to begin: file and line of the first problem that is no mere note; empty without one."""
    return next((with_shown_paths(f"{one.file}:{one.line}") for one in problems if not one.note), "")


def unreadable(config: "Config") -> str:
    """A hint for a configuration that has a problem and no hooks; empty without a problem."""
    where = first_problem(config.problems)
    return f"no hook could be read: fix {where} first; `billhook check` shows all problems" if where else ""


def _folders() -> list[tuple[str, str]]:
    """This folder and the home folder, with what stands for each; the root is too much to leave out."""
    return [(folder if len(folder) > 1 else "//", prefix) for folder, prefix in ((_real("."), ""), (_real("~"), "~/"))]


def _real(folder: str) -> str:
    with suppress(OSError):
        return os.path.realpath(os.path.expanduser(folder))
    return ""


# What people see:
_LEFT_OUT = ("built-in", Status.SKIPPED)
_COLOURS = {"deny": "red", "allow": "green"} | dict.fromkeys(
    ("ask", "defer", "failed", "timed out", "could not start"), "yellow"
)
_WIDTH = 60  # columns of a title
_SHOW_LONGEST = 2000  # characters of one text on the screen; the rest is counted


def say(text: str, *, err: bool = False) -> None:
    """Print at once. Colour goes away when the output is no terminal, and where NO_COLOR or TERM=dumb ask for it."""
    plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    try:
        click.echo(text, err=err, color=False if plain else None)
    except OSError:
        if not err:
            raise
        hang_up(2)  # there is nobody to complain to


def say_json(*values: Any) -> None:
    """Print each record or value as one line of JSON."""
    for value in values:
        say(strictjson.dumps(msgspec.to_builtins(value)))


def report(as_json: bool, lines: Iterable[str], *values: Any) -> None:
    """Print the values for programs, each as a line of JSON, or these lines for people."""
    if as_json:
        say_json(*values)
    elif text := "\n".join(lines):
        say(text)


def picked(one: Any, names: str) -> dict[str, Any]:
    """Some attributes of a record, for JSON; one whose name ends in `?` is None when it is empty."""
    keys = ((name.rstrip("?"), name.endswith("?")) for name in names.split())
    return {name: (getattr(one, name) or None) if optional else getattr(one, name) for name, optional in keys}


def hint(text: str) -> None:
    """What to do next, on standard error."""
    say(f"\nhint: {text}", err=True)


def not_written(error: OSError) -> None:
    """Standard output took no more: say so, unless whoever read it has just seen enough."""
    hang_up(1)  # else the interpreter stumbles at its end over what is still buffered
    if error.errno != errno.EPIPE:
        remedy = "make room there, or send it elsewhere"
        say(f"error: the output could not be written: {error.strerror}\n\nhint: {remedy}", err=True)


def note(text: str) -> None:
    """Something that the user ought to know, beside what was asked for."""
    say(f"note: {visible(text)}", err=True)


@contextmanager
def noting(what: str) -> Iterator[None]:
    """A note about a part of billhook's own files that can't be read, in place of the error."""
    try:
        yield
    except StoreError as error:
        note(f"{what}: {error.message} ({error.place})")


def error_text(error: BillhookError) -> str:
    """`error:` what and where, a blank line, `hint:` the remedy."""
    return visible(f"error: {error}")


def verdict_text(verdict: Verdict, titles: dict[str, str]) -> str:
    """Each hook with status, time and reason, then the verdict."""
    tool = getattr(verdict.about, "tool_name", "")
    lines = [click.style(one_line(f"{verdict.event} {tool}", _WIDTH), bold=True), ""]
    # a built-in that was skipped after a deny has still written to the log
    shown = [one for one in verdict.outcomes if not _routine(one) and (one.source, one.status) != _LEFT_OUT]
    width = max((len(outcome.hook) for outcome in shown), default=0)
    for outcome in shown:
        lines += _hook_lines(outcome, titles.get(outcome.hook, ""), width)
    if not shown:
        lines.append("  no hook of yours wanted this event" if verdict.outcomes else "  no hook wanted this event")
    # a gate that is asked again after a rewrite is there twice
    spoke = {outcome.hook for outcome in shown}
    routine = dict.fromkeys(one.hook for one in verdict.outcomes if _routine(one) and one.hook not in spoke)
    if routine:
        lines.append(click.style(f"  built in, no objection: {', '.join(routine)}", dim=True))
    lines += ["", *_verdict_lines(verdict)]
    return "\n".join(lines)


def _routine(outcome: Outcome) -> bool:
    silent = outcome.status is Status.OK and not outcome.lost and not outcome.error
    return outcome.source == "built-in" and silent and _word(outcome) == "no objection"


def _hook_lines(outcome: Outcome, title: str, width: int) -> list[str]:
    took = "" if outcome.status is Status.SKIPPED else f"{outcome.duration_ms:.1f} ms"
    first = f"  {visible(outcome.hook):<{width}}  {_coloured(_word(outcome), 15)}  {took:>10}"
    indent = " " * (width + 4)
    lines = [f"{first}  {click.style(one_line(title, _WIDTH), dim=True)}".rstrip()]
    said = outcome.answer.reason or outcome.answer.stop_reason
    texts = [said if outcome.status not in FAILURES else None, outcome.error]
    texts += ["went on without its answer (on_failure: allow)" if outcome.failed_open else None]
    texts += [f"note: {lost}" for lost in outcome.lost]
    return lines + [line for text in texts if text for line in _hanging(indent, text)]


def _word(outcome: Outcome) -> str:
    answer = outcome.answer
    said = OutcomeRecord(
        hook=outcome.hook,
        status=outcome.status.value,
        decision=answer.decision.value,
        rewrote_input=answer.updated_input is not None,
        rewrote_output=answer.updated_output is not UNSET,
        **picked(answer, "stop keep_going context message"),
    )
    return word_of(said)


def word_of(said: OutcomeRecord) -> str:
    """What a hook did, in a word or two: its decision when it has one, else how asking it went."""
    if said.status != "ok":
        return said.status.replace("_", " ")
    words = {
        "stop": said.stop,
        "keep going": said.keep_going,
        said.decision: said.decision != "none",
        "rewrote input": said.rewrote_input,
        "rewrote output": said.rewrote_output,
        "told the model": said.context,
        "told the user": said.message,
    }
    return next((word for word, applies in words.items() if applies), "no objection")


def _verdict_lines(verdict: Verdict) -> list[str]:
    word = verdict.decision.value
    quiet = word == "none" and not (verdict.keep_going or verdict.stop or verdict.failed_open)
    lines = [f"{click.style('verdict ', bold=True)}  {_coloured(word)}{' (no objection)' if quiet else ''}"]
    values = {
        "input": UNSET if verdict.tool_input is None else verdict.tool_input,
        "output": verdict.tool_output,
        "extras": verdict.extras or UNSET,
    }
    facts = [
        ("reason", verdict.reason),
        *(("to model", text) for text in verdict.context),
        *(("to user", text) for text in verdict.messages if not verdict.quiet),
        *((name, strictjson.compact(value)) for name, value in values.items() if value is not UNSET),
        ("agent", "keeps going" if verdict.keep_going else ""),
        ("agent", f"stops: {verdict.stop_reason}".removesuffix(": ") if verdict.stop else ""),
    ]
    if verdict.failed_open:
        facts.append(("open", f"{counted(verdict.failed_open, 'hook')} failed and let the event pass"))
    for label, text in facts:
        if text:
            first, *rest = _hanging("", text)
            lines += [f"{label:<8}  {first}", *(f"          {line}".rstrip() for line in rest)]
    return lines


def _hanging(indent: str, text: str) -> list[str]:
    if len(text) > _SHOW_LONGEST:
        text = f"{text[:_SHOW_LONGEST]}\n... {len(text) - _SHOW_LONGEST:,} more characters"
    return [(indent + line).rstrip() for line in visible(text).split("\n")]


def _coloured(word: str, width: int = 0) -> str:
    return click.style(f"{word:<{width}}", fg=_COLOURS.get(word))
