"""The text of a tool's result once hooks have had their say.

Seed 000's sample decides the order: the tool's output, a blank line, what the hooks before it said, a blank line, what
the hooks after it said. Which hooks speak inside the result is a matter of their dialect; the context of the others
reaches the model on its own.
"""

from collections.abc import Sequence
from typing import NamedTuple

from billhook.core.answers import Decision, Outcome, Verdict
from billhook.core.dialect_traits import meanings


class Result(NamedTuple):
    """What the model gets for a tool call."""

    text: str
    is_error: bool


def merge_feedback(output: str, before: Verdict | None, after: Verdict | None, *, is_error: bool = False) -> Result:
    """The output with the feedback of the hooks before and after it. Without feedback it stays as it is."""
    sections: list[str] = []
    denied = False
    for verdict in (before, after):
        if verdict is None:
            continue
        outcomes = [outcome for outcome in verdict.outcomes if meanings(outcome.dialect).feedback is not None]
        denies = verdict is after and any(outcome.answer.decision is Decision.DENY for outcome in outcomes)
        denied = denied or denies
        sections += _sections(outcomes, " (denied)" if denies else "")
    if not sections:
        return Result(output, is_error or denied)
    between = "" if not output.strip() else "\n" if output.endswith("\n") else "\n\n"
    return Result((between and output) + between + "\n\n".join(sections), is_error or denied)


def denied_result(verdict: Verdict) -> Result:
    """The result of a call that was denied, in the words of the dialect of the hook that denied it."""
    for outcome in verdict.outcomes:
        if outcome.answer.objects:
            reason = verdict.reason or f"denied by hook `{outcome.hook}`"
            form = meanings(outcome.dialect).denied
            label = form.partition("{reason}")[0].rstrip(": ")
            # A reason that begins with the label does not get it a second time: the hook wrote it, or said nothing.
            return Result(reason if label and reason.startswith(label) else form.format(reason=reason), True)
    return Result(verdict.reason or "denied", True)


def _sections(outcomes: Sequence[Outcome], mark: str) -> list[str]:
    """One section per label: all that hooks of that dialect said, line by line."""
    by_label: dict[str, list[str]] = {}
    for outcome in outcomes:
        answer = outcome.answer
        texts = [answer.context, answer.reason if answer.decision is Decision.DENY else ""]
        by_label.setdefault(meanings(outcome.dialect).feedback or "", []).extend(text for text in texts if text)
    return [(f"{label}{mark}:\n" if label else "") + "\n".join(texts) for label, texts in by_label.items() if texts]
