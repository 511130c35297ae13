"""What people see: verdicts and errors as text. Colour only on a terminal, and nothing that a hook could smuggle in."""

import unicodedata

import click

from billhook.answers import FAILURES, Outcome, Status, Verdict
from billhook.errors import BillhookError

_COLOURS = {
    "deny": "red",
    "ask": "yellow",
    "defer": "yellow",
    "allow": "green",
    "failed": "yellow",
    "timed out": "yellow",
    "could not start": "yellow",
}


def safe(text: str) -> str:
    """Hook text for a terminal: control characters, escape sequences and bidi overrides become visible escapes."""
    return "".join(_visible(char) for char in text)


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
    lines = [click.style(f"{verdict.event}{tool and ' ' + safe(tool)}", bold=True), ""]
    width = max((len(outcome.hook) for outcome in verdict.outcomes), default=0)
    for outcome in verdict.outcomes:
        lines += _hook_lines(outcome, titles.get(outcome.hook, ""), width)
    if not verdict.outcomes:
        lines.append("  no hook wanted this event")
    lines += ["", *_verdict_lines(verdict)]
    return "\n".join(lines)


def _hook_lines(outcome: Outcome, title: str, width: int) -> list[str]:
    word = _word(outcome)
    took = "" if outcome.status is Status.SKIPPED else f"{outcome.duration_ms:.1f} ms"
    first = f"  {safe(outcome.hook):<{width}}  {_coloured(word, 15)}  {took:>9}"
    indent = " " * (width + 4)
    lines = [f"{first}  {click.style(_shortened(title), dim=True)}".rstrip()]
    said = outcome.answer.reason or outcome.answer.stop_reason
    if said and outcome.status not in FAILURES:
        lines += _hanging(indent, said)
    if outcome.error:
        lines += _hanging(indent, outcome.error)
    if outcome.failed_open:
        lines += _hanging(indent, "went on without its answer (on_failure: allow)")
    for note in outcome.lost:
        lines += _hanging(indent, f"note: {note}")
    return lines


def _word(outcome: Outcome) -> str:
    """One word for what a hook did: its decision when it has one, else how asking it went."""
    answer = outcome.answer
    if outcome.status is not Status.OK:
        return outcome.status.replace("_", " ")
    if answer.stop:
        return "stop"
    if answer.keep_going:
        return "keep going"
    if answer.decision.value != "none":
        return answer.decision.value
    if answer.updated_input is not None:
        return "rewrote"
    return "spoke" if answer.context or answer.message else "no objection"


def _verdict_lines(verdict: Verdict) -> list[str]:
    lines = [f"{click.style('verdict ', bold=True)}  {_coloured(verdict.decision.value)}"]
    facts = [("reason", verdict.reason)]
    facts += [("to model", text) for text in verdict.context]
    facts += [("to user", text) for text in verdict.messages]
    if verdict.tool_input is not None:
        facts.append(("input", repr(verdict.tool_input)))
    if verdict.keep_going:
        facts.append(("agent", "keeps going"))
    if verdict.stop:
        facts.append(("agent", f"stops: {verdict.stop_reason}"))
    if verdict.failed_open:
        facts.append(("open", f"{verdict.failed_open} hook(s) failed and were let pass"))
    for label, text in facts:
        if text:
            first, *rest = safe(text).split("\n")
            lines += [f"{label:<8}  {first}", *(f"          {line}" for line in rest)]
    return lines


def _hanging(indent: str, text: str) -> list[str]:
    return [indent + line for line in safe(text).split("\n")]


def _shortened(text: str, width: int = 60) -> str:
    one_line = safe(" ".join(text.split()))
    return one_line if len(one_line) <= width else one_line[: width - 3] + "..."


def _coloured(word: str, width: int = 0) -> str:
    return click.style(f"{word:<{width}}", fg=_COLOURS.get(word))
