"""`billhook approvals`: the questions that wait for a person, and their answers."""

import getpass
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import click

from billhook.agents.around import agent_around
from billhook.approvals.queue import OPEN, WINDOW, AnsweredError, Questions, QueuedQuestion, watcher
from billhook.cli.options import Verb, at_terminal, flag, option, refuse_programs, with_options
from billhook.cli.screen import note, report, shown_path, write, write_json
from billhook.core.text import counted, visible
from billhook.store.files import state_root

_WHY = "only a person can answer"
_INTERVAL = 0.1
_MOST_LINES = 60  # of what a call would write
_EPILOG = """\b
Examples:
  billhook approvals                  what waits for an answer
  billhook approvals --watch          show each new question, and prompt for the answer
  billhook approvals allow K7QF2M
  billhook approvals deny K7QF2M --reason "use a branch"

Exit code: 0 done, 1 someone else answered first, 2 usage, or refused."""


@click.group(epilog=_EPILOG, invoke_without_command=True)
@flag("--watch", "Keep running, and show each new question. In a terminal, prompt for the answer.")
@flag("--all", "every", "Also show the finished questions of the last day.")
@flag("--json", "as_json", "Print one line of JSON for each question.")
@click.pass_context
def verb(ctx: click.Context, watch: bool, every: bool, as_json: bool) -> int:
    """Show the questions that wait for a person, and answer them.

    A question is a call for which a hook answered `ask`, in an agent that can't show the question (docs/approvals.md).
    Without an answer in time the call is denied. An answer that comes later still counts if the agent repeats the call.

    Only a person can answer: `allow` and `deny` are refused inside an agent, and without a terminal.
    """
    if ctx.invoked_subcommand is not None:
        return 0
    questions = Questions(state_root())
    if watch:
        return _watch(questions, as_json)
    found = [one for one in questions.all() if every or one.state in OPEN]
    lines = ["\n".join(lines_of(one)) for one in found] or ["no question waits for an answer"]
    report(as_json, lines, *(one.shown for one in found))
    return 0


def with_answers(group: click.Group, answer: Callable[..., int], *more: Callable[[Verb], Verb]) -> None:
    """Add `allow` and `deny` to a group. `answer` gets a name, whether the call is allowed, and the other options."""

    def allow(name: str, **given: Any) -> int:
        """Allow the call of a question: exactly this call, once."""
        return answer(name, True, **given)

    def deny(name: str, **given: Any) -> int:
        """Deny the call of a question."""
        return answer(name, False, **given)

    reason = option("--reason", "why", "TEXT", "Why; the model reads it.", default="")
    as_json = flag("--json", "as_json", "Print one line of JSON.")
    codes = "Exit code: 0 done, 1 someone else answered first, 2 usage, or refused."
    named = click.argument("name", metavar="CODE|ID")
    group.command(epilog=codes)(with_options((named, *more, as_json), allow))
    group.command(epilog=codes)(with_options((named, reason, *more, as_json), deny))


def _answer(name: str, allowed: bool, as_json: bool, why: str = "") -> int:
    refuse_programs(f"`billhook approvals {'allow' if allowed else 'deny'}`", _WHY)
    questions = Questions(state_root())
    try:
        one = questions.answer(name, allowed, getpass.getuser(), "terminal", why)
    except AnsweredError as error:
        report(as_json, [visible(error.message)], error.question.shown)
        return 1
    late = time.time() > one.until and allowed
    told = f"the agent may repeat the call within {WINDOW / 60:g} min" if late else "the agent continues"
    report(
        as_json,
        [f"{'allowed' if allowed else 'denied'}: {visible(one.call)}", *([told] if allowed else [])],
        one.shown,
    )
    return 0


with_answers(verb, _answer)


def _watch(questions: Questions, as_json: bool) -> int:
    """Show questions as they come, until Ctrl-C. An answer from somewhere else is shown, too."""
    answers = not as_json and at_terminal() and not agent_around()
    states: dict[str, str] = {}
    stamp: tuple[int, ...] | None = None
    note("waiting for questions (stop with Ctrl-C)")
    watching = watcher(state_root())
    if answers:
        watching.acquire()
    while True:
        if (now := questions.stamp()) != stamp:
            stamp = now
            for one in _changed(questions, states):
                write_json(one.shown) if as_json else write("\n".join(lines_of(one)))
                if answers and one.state == "waiting" and not _prompt(one):
                    return 0
        time.sleep(_INTERVAL)


def _changed(questions: Questions, states: dict[str, str]) -> Iterator[QueuedQuestion]:
    """The questions whose state is new; at the start, those that wait."""
    for one in questions.all():
        before, states[one.id] = states.get(one.id), one.state
        if one.state == "waiting" if before is None else one.answer and before == "waiting":
            yield one


def _prompt(one: QueuedQuestion) -> bool:
    """Ask the person at the terminal; anything but a clear answer leaves the question open. False: end of input."""
    write("allow? [y = allow, n = deny, Enter = later, Ctrl-D = stop]")
    line = sys.stdin.readline()
    word = line.strip().lower()
    if word in ("y", "yes", "n", "no"):
        _answer(one.id, word.startswith("y"), False)
    return bool(line)


def lines_of(one: QueuedQuestion) -> Iterator[str]:
    left = max(0, one.until - time.time())
    words = {
        "waiting": f"{left:.0f} s left to answer",
        "late": "denied without an answer; an allow is for the next equal call",
    }
    who = f" by {one.by or 'someone'} ({one.via})" if one.answer else ""
    yield f"{one.code}  {visible(one.call)}"
    content = visible(one.content).split("\n") if one.content else []
    yield from (f"        {line}" for line in content[:_MOST_LINES])
    if len(content) > _MOST_LINES:
        yield f"        ... ({counted(len(content) - _MOST_LINES, 'more line')}; the page shows them)"
    yield f"        {visible(one.reason)}" if one.reason else f"        asked by {', '.join(map(visible, one.hooks))}"
    yield f"        {one.agent} in {visible(shown_path(one.project))}; {words.get(one.state, one.state)}{visible(who)}"
    if one.hint and one.state == "waiting":
        yield f"        hint: {one.hint}"
