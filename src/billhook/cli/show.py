"""What people see: verdicts and errors as text. Colour only on a terminal, and nothing that a hook could smuggle in."""

import errno
import os
import unicodedata
from typing import Any

import click
import msgspec

from billhook import strictjson
from billhook.answers import FAILURES, UNSET, Outcome, Status, Verdict
from billhook.errors import BillhookError
from billhook.store.record import Said

_COLOURS = {
    "deny": "red",
    "ask": "yellow",
    "defer": "yellow",
    "allow": "green",
    "failed": "yellow",
    "timed out": "yellow",
    "could not start": "yellow",
}
_LONGEST = 2000  # characters of one text on the screen; the rest is counted


def say(text: str, *, err: bool = False) -> None:
    """Print at once. Colour goes away when the output is no terminal, and where NO_COLOR or TERM=dumb ask for it."""
    plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    try:
        click.echo(text, err=err, color=False if plain else None)
    except OSError:
        if not err:
            raise
        _hang_up(2)  # there is nobody to complain to


def say_json(*values: Any) -> None:
    """Print each record or value as one line of JSON."""
    for value in values:
        say(strictjson.dumps(msgspec.to_builtins(value)))


def picked(one: Any, names: str) -> dict[str, Any]:
    """Some attributes of a record, for JSON; one whose name ends in `?` is None when it is empty."""
    keys = ((name.rstrip("?"), name.endswith("?")) for name in names.split())
    return {name: (getattr(one, name) or None) if optional else getattr(one, name) for name, optional in keys}


def hint(text: str) -> None:
    """What to do next, on standard error."""
    say(f"\nhint: {text}", err=True)


def not_written(error: OSError) -> None:
    """Standard output took no more: say so, unless whoever read it has just seen enough."""
    _hang_up(1)
    if error.errno != errno.EPIPE:
        remedy = "make room there, or send it elsewhere"
        say(f"error: the output could not be written: {error.strerror}\n\nhint: {remedy}", err=True)


def _hang_up(stream: int) -> None:
    """Let what is still buffered go nowhere: else the interpreter stumbles over it at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream)
    os.close(nowhere)


def note(text: str) -> None:
    """Something that the user ought to know, beside what was asked for."""
    say(f"note: {safe(text)}", err=True)


def safe(text: str) -> str:
    """Hook text for a terminal: control characters, escape sequences and bidi overrides become visible escapes."""
    return text if text.isascii() and text.isprintable() else "".join(_visible(char) for char in text)


def _visible(char: str) -> str:
    if char.isprintable() or char in "\n\t" or unicodedata.category(char) == "Zs":
        return char
    code = ord(char)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"


def error_text(error: BillhookError) -> str:
    """`error:` what and where, a blank line, `hint:` the remedy."""
    return safe(f"error: {error}")


def verdict_text(verdict: Verdict, titles: dict[str, str]) -> str:
    """Each hook with status, time and reason, then the verdict."""
    tool = getattr(verdict.about, "tool_name", "")
    lines = [click.style(_shortened(f"{verdict.event} {tool}"), bold=True), ""]
    shown = [outcome for outcome in verdict.outcomes if not _routine(outcome) and not _left_out(outcome)]
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
    """A built-in that did its work and has nothing to say."""
    silent = outcome.status is Status.OK and not outcome.lost and not outcome.error
    return outcome.source == "built-in" and silent and _word(outcome) == "no objection"


def _left_out(outcome: Outcome) -> bool:
    """A built-in that was not needed any more, because somebody denied: what it does for the log is done all the
    same."""
    return outcome.source == "built-in" and outcome.status is Status.SKIPPED


def _hook_lines(outcome: Outcome, title: str, width: int) -> list[str]:
    took = "" if outcome.status is Status.SKIPPED else f"{outcome.duration_ms:.1f} ms"
    first = f"  {safe(outcome.hook):<{width}}  {_coloured(_word(outcome), 15)}  {took:>10}"
    indent = " " * (width + 4)
    lines = [f"{first}  {click.style(_shortened(title), dim=True)}".rstrip()]
    said = outcome.answer.reason or outcome.answer.stop_reason
    if said and outcome.status not in FAILURES:
        lines += _hanging(indent, said)
    if outcome.error:
        lines += _hanging(indent, outcome.error)
    if outcome.failed_open:
        lines += _hanging(indent, "went on without its answer (on_failure: allow)")
    for lost in outcome.lost:
        lines += _hanging(indent, f"note: {lost}")
    return lines


def _word(outcome: Outcome) -> str:
    answer = outcome.answer
    return word_of(
        Said(
            hook=outcome.hook,
            status=outcome.status.value,
            decision=answer.decision.value,
            stop=answer.stop,
            keep_going=answer.keep_going,
            context=answer.context,
            message=answer.message,
            rewrote_input=answer.updated_input is not None,
            rewrote_output=answer.updated_output is not UNSET,
        )
    )


def word_of(said: Said) -> str:
    """What a hook did, in a word or two: its decision when it has one, else how asking it went."""
    if said.status != "ok":
        return said.status.replace("_", " ")
    if said.stop:
        return "stop"
    if said.keep_going:
        return "keep going"
    if said.decision != "none":
        return said.decision
    if said.rewrote_input:
        return "rewrote input"
    if said.rewrote_output:
        return "rewrote output"
    if said.context:
        return "told the model"
    return "told the user" if said.message else "no objection"


def _verdict_lines(verdict: Verdict) -> list[str]:
    word = verdict.decision.value
    quiet = word == "none" and not (verdict.keep_going or verdict.stop or verdict.failed_open)
    lines = [f"{click.style('verdict ', bold=True)}  {_coloured(word)}{' (no objection)' if quiet else ''}"]
    facts = [("reason", verdict.reason)]
    facts += [("to model", text) for text in verdict.context]
    facts += [("to user", text) for text in verdict.messages if not verdict.quiet]
    if verdict.tool_input is not None:
        facts.append(("input", strictjson.compact(verdict.tool_input)))
    if verdict.tool_output is not UNSET:
        facts.append(("output", strictjson.compact(verdict.tool_output)))
    if verdict.extras:
        facts.append(("extras", strictjson.compact(verdict.extras)))
    if verdict.keep_going:
        facts.append(("agent", "keeps going"))
    if verdict.stop:
        facts.append(("agent", f"stops: {verdict.stop_reason}".removesuffix(": ")))
    if verdict.failed_open:
        hooks = "1 hook" if verdict.failed_open == 1 else f"{verdict.failed_open} hooks"
        facts.append(("open", f"{hooks} failed and let the event pass"))
    for label, text in facts:
        if text:
            first, *rest = _hanging("", text)
            lines += [f"{label:<8}  {first}", *(f"          {line}".rstrip() for line in rest)]
    return lines


def _hanging(indent: str, text: str) -> list[str]:
    shown = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}\n... {len(text) - _LONGEST:,} more characters"
    return [(indent + line).rstrip() for line in safe(shown).split("\n")]


def _shortened(text: str, width: int = 60) -> str:
    one_line = safe(" ".join(text[: 20 * width].split()))
    return one_line if len(one_line) <= width else one_line[: width - 3] + "..."


def _coloured(word: str, width: int = 0) -> str:
    return click.style(f"{word:<{width}}", fg=_COLOURS.get(word))
