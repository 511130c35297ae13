"""`billhook explain`: which hooks would run for an event, and why others are skipped. Nothing is run.

`billhook explain ID`: a past decision, under the configuration of that time, and what would happen today.
"""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from billhook.cli import screen
from billhook.cli.events.query import LogScope
from billhook.cli.events.show import by_id, found, whole
from billhook.cli.fire import build_event
from billhook.cli.list import facts_of, failure_rule
from billhook.cli.options import complete_among, config_option, event_named, flag, loaded, tool_options
from billhook.cli.times import ago, shown_time
from billhook.config import explain, loader
from billhook.config.config import Config, as_data, read_snapshot
from billhook.config.declaration import needs_consent
from billhook.config.override import pause_of
from billhook.core import strictjson, tools
from billhook.core.answers import Answer, Decision
from billhook.core.errors import UsageError
from billhook.core.events import EVENTS, Event
from billhook.core.text import counted, nearest, one_line, suggestion, visible
from billhook.effects.effect import Effect
from billhook.testing.judge import Judgement, Judges, event_of, judged_then
from billhook.testing.replay import PastEvent, PastHook, look_back

_INDENT = 5
_MOST_EFFECTS = 10
_MOST_OTHERS = 8  # hooks for other events that are named
_RECORD = re.compile(r"[0-9A-Fa-f]{8,32}|[1-9][0-9]{0,17}")
_OPTIONS = ("--tool", "--input", "--config", "--all", "--json", "--help")


@click.command(
    "explain",
    context_settings={"ignore_unknown_options": True},  # the options of a command that was not quoted
    epilog="""\b
Examples:
  billhook explain 'git push --force'
  billhook explain PreToolUse --tool Write --input '{"file_path": "a.py"}'
  billhook explain SessionStart --input '{"source": "resume"}'
  billhook explain 12
  billhook explain 0199f3c81d2a

Exit code: 0, whatever the verdict is; 2 usage.""",
)
@click.argument("about", metavar="EVENT|COMMAND|ID", nargs=-1, shell_complete=complete_among(EVENTS))
@tool_options
@config_option
@flag("--all", "everything", "Also show the hooks that listen for other events.")
@flag("--json", "as_json", "Print one line of JSON.")
def verb(
    about: tuple[str, ...],
    tool: str | None,
    input_: str | None,
    configs: tuple[str, ...],
    everything: bool,
    as_json: bool,
) -> int:
    """Show which hooks would run for an event, and why others are skipped. No hook runs.

    The argument is the name of an event, or a shell command (short for PreToolUse of Bash). It can also be a record of
    the event log: its number, or at least the first eight digits of its id. Then the output shows how that decision
    was made, under the configuration of that time, and what would happen today.
    """
    is_record = len(about) == 1 and tool is None and input_ is None and _RECORD.fullmatch(about[0])
    if is_record and explain_record(about[0].lower(), configs, as_json=as_json):
        return 0
    config = loaded(configs)
    found = explain.explain(config, _event(about, tool, input_, config))
    screen.report(as_json, _screen(found, everything), _as_data(found, everything))
    if not as_json and not config.entries:
        theirs = any(needs_consent(read.source.layer) for read in config.sources)
        no_file = "no hooks are configured here; `billhook init` creates a first file"
        screen.hint(screen.unreadable(config) or ("the files here contain no hooks" if theirs else no_file))
    return 0


def _event(about: Sequence[str], tool: str | None, input_: str | None, config: Config) -> Event:
    if not about:
        raise UsageError("name an event or a command", hint="billhook explain 'git push --force'")
    name = event_named(about[0], config)
    if len(about) > 1:
        raise _too_many(about, name)
    if not name:
        _refuse_slips(about[0], tool, input_)
        name, tool, input_ = "PreToolUse", "Bash", strictjson.dumps({"command": about[0]})
    elif name in EVENTS and tool is None and "tool_name" in EVENTS[name].__struct_fields__:
        raise UsageError(f"{name} needs a tool", hint=f"billhook explain {name} --tool Bash")
    nothing: dict[str, Any] = dict.fromkeys(("output", "error", "session", "cwd", "whole"))
    return build_event({**nothing, "event": name, "tool": tool, "input_": input_})


def _too_many(about: Sequence[str], name: str) -> UsageError:
    if name or about[0].startswith("-"):
        odd = about[1] if name else about[0]
        remedy = f"{suggestion(odd, _OPTIONS)} (see `billhook explain --help`)"
        return UsageError(f"unexpected argument `{odd}`", hint=remedy)
    quoted = " ".join(about).replace("'", "'\\''")
    return UsageError(f"expected one argument, got {len(about)}", hint=f"quote it: billhook explain '{quoted}'")


def _refuse_slips(text: str, tool: str | None, input_: str | None) -> None:
    """Refuse text that looks like a misspelt event: it would be taken for a shell command."""
    near = nearest(text, EVENTS, 0.75) if text.isidentifier() else ""
    if near:
        raise UsageError(f"unknown event `{text}`", hint=f"did you mean `{near}`?")
    if tool is not None or input_ is not None:
        given = "--tool" if tool is not None else "--input"
        remedy = f"name the event (billhook explain PreToolUse --tool ...), or leave {given} out"
        raise UsageError(f"`{text}` is not an event, and {given} can't be used with a command", hint=remedy)
    if not text.strip():
        raise UsageError("the command is empty", hint="billhook explain 'git push --force'")


def _as_data(found: explain.Explanation, everything: bool) -> dict[str, Any]:
    shown = (*found.hooks, *found.others) if everything else found.hooks
    about = "kind scope weight certain why? via cause recursive names"
    return {
        "event": found.event.hook_event_name,
        "tool": getattr(found.event, "tool_name", None),
        "effects": [{"target": effect.shown, **screen.picked(effect, about)} for effect in found.effects],
        "hooks": [_hook_data(one) for one in shown],
        "waves": found.waves,
        "other_events": [one.row.name for one in found.others if not one.silent],
        "verdict": {
            **screen.picked(found.outlook, "decision certain by"),
            "depends_on": found.outlook.open,
            **screen.picked(found.outlook, "gates fail_open"),
        },
    }


def _hook_data(one: explain.ExplainedHook) -> dict[str, Any]:
    return {
        "name": one.row.name,
        **screen.picked(one, "runs blocks"),
        "failed": [reason.condition for reason in one.reasons],
        **screen.picked(one, "why? fix? order"),
        "deadline": one.seconds,
        "on_failure_means": one.failure or None,
        "says": None if one.answer is None else screen.picked(one.answer, "decision reason context"),
        "notes": one.notes,
        **{key: value for key, value in as_data(one.row).items() if key not in ("name", "why", "effect")},
        "hash": one.row.exact_hash or None,
        **({"policy": one.row.policy} if one.row.policy else {}),
    }


def _screen(found: explain.Explanation, everything: bool) -> Iterator[str]:
    yield from _title(heading(found.event))
    yield from _effects(found.effects)
    deciding = [one for one in found.hooks if not one.silent]
    for place, one in enumerate(deciding, 1):
        yield from ("", *_hook(one, place))
    if not deciding:
        yield from ("", f"no hook listens for {one_line(found.event.hook_event_name, 60)}")
    others = [one for one in found.others if not one.silent]
    for one in others if everything else ():
        yield from ("", *_hook(one, 0))
    if others and not everything:
        yield from ("", *screen.filled(_others(others), 0))
    if silent := [one.row.name for one in found.hooks if one.silent]:
        yield ""
        yield from _styled(screen.filled(f"built-ins that only observe: {', '.join(silent)}", 0), dim=True)
    yield from ("", *_conclusion(found))


def _others(others: Sequence[explain.ExplainedHook]) -> str:
    listen = "listens" if len(others) == 1 else "listen"
    named = ", ".join(f"{one.row.name} ({', '.join(one.row.events)})" for one in others[:_MOST_OTHERS])
    more = f", and {len(others) - _MOST_OTHERS} more" if len(others) > _MOST_OTHERS else ""
    return f"{counted(len(others), 'hook')} {listen} for other events: {named}{more}; --all shows them"


def _styled(lines: Iterable[str], **style: bool) -> Iterator[str]:
    return (click.style(line, **style) for line in lines)


def _title(text: str) -> Iterator[str]:
    return _styled(screen.few(screen.hanging(text, 0), 2), bold=True)


def _effects(effects: Sequence[Effect]) -> Iterator[str]:
    """What the call would do, and which part of it does each of these."""
    if not effects:
        return
    yield from ("", "  effects")
    cells = [f"{effect.kind}:{effect.scope}" for effect in effects[:_MOST_EFFECTS]]
    column = max(map(len, cells))
    for cell, effect in zip(cells, effects, strict=False):
        above = dict.fromkeys(effect.via[:-1])  # a script appears as a command and as a file
        via = f", via {', '.join(above)}" if above else ""
        unsure = f", not certain{f': {effect.why}' if effect.why else ''}" if not effect.certain else ""
        about = f"{effect.shown} " if effect.shown else ""
        text = f"{about}by `{effect.cause or ' '.join(effect.via)}`{via}{unsure}"
        yield from screen.beside(f"     {cell:<{column}}  ", text, below=9)
    if len(effects) > _MOST_EFFECTS:
        yield f"     and {len(effects) - _MOST_EFFECTS} more (--json shows all)"


def heading(event: Event) -> str:
    """The event in one line: what it is about."""
    tool, given = getattr(event, "tool_name", ""), getattr(event, "tool_input", None)
    about = tools.subject_of(tool, given) if tool else event.target
    head = f"{event.hook_event_name} {tool}".strip()
    return f"{head}: {about}" if about else head


def _hook(one: explain.ExplainedHook, place: int) -> Iterator[str]:
    word, colour = ("runs", "green") if one.runs else ("blocks", "red") if one.blocks else ("skipped", "yellow")
    word = word if one.reached else "not reached"
    number = f"{place}" if one.order is not None else "-"
    yield from _headed(number, one.row.name, word, colour, one.reasons[0].why if one.reasons else "")
    yield from _reasons(one)
    if one.row.layer != "built-in" and one.answer is None:
        yield from screen.hanging(one.row.what, _INDENT)
    if one.answer is not None:
        label = "would answer" if one.row.shadow else "answer"
        yield from screen.hanging(f"{label}: {_answer(one.answer)}", _INDENT)
    for text in one.notes:
        yield from screen.hanging(f"note: {text}", _INDENT)
    yield from screen.facts(_facts(one), _INDENT)


def _headed(number: str, name: str, word: str, colour: str, why: str) -> Iterator[str]:
    """`-  scan  skipped: REASON`; a long reason continues on the next line."""
    head = f"  {number:<2} {click.style(screen.shown_name(name), fg='cyan')}  {click.style(word, fg=colour)}"
    text = visible(screen.with_shown_paths(" ".join(why.split())))
    yield from screen.wrapped(f"{head}: {text}" if why else head, screen.width(), _INDENT + 2)


def _reasons(one: explain.ExplainedHook) -> Iterator[str]:
    """How to change the first reason, which is in the heading; then every other reason."""
    for place, reason in enumerate(one.reasons):
        if place:
            yield from screen.hanging(f"also: {reason.why}", _INDENT)
        if reason.fix:
            yield from screen.hanging(f"to change that: {reason.fix}", _INDENT)
    if one.blocks:
        yield from screen.filled("until then, every call that it would check is denied", _INDENT)


def _answer(answer: Answer) -> str:
    if answer.decision is Decision.NONE:
        return f"to the model: {answer.context}" if answer.context else "no objection"
    word = answer.decision.value
    return f"{word}: {answer.reason}" if answer.reason else word


def _facts(one: explain.ExplainedHook) -> Iterator[str]:
    row, configured = one.row, one.row.layer != "built-in"
    yield from facts_of(row, ("part match conditions " if one.runs else "") + ("dialect" if configured else ""))
    if one.runs and one.failure:
        default = f" (default of {row.dialect})" if one.default and configured else ""
        yield from (f"{one.seconds:g} s{default}",) if one.seconds is not None else ()
        yield f"{failure_rule(row.on_failure)}: {one.failure}"
    yield from facts_of(row, "always shadow approve policy source")


def _conclusion(found: explain.Explanation) -> Iterator[str]:
    outlook = found.outlook
    line = verdict_line(outlook, found.event)
    if pause := pause_of(loaded(())):
        yield from screen.filled(f"{pause}: until then, denials and asks have no effect", 0)
        line = line.replace("verdict:", "verdict without the pause:", 1)
    yield from _styled(screen.filled(line, 0), bold=True)
    if outlook.decision is Decision.DENY:
        return
    if outlook.gates:
        yield from screen.filled(f"blocked if any of these gates fails: {', '.join(outlook.gates)}", 0)
    if outlook.fail_open:
        yield from screen.filled(f"not blocked if any of these fails: {', '.join(outlook.fail_open)}", 0)
    if found.parallel and len(outlook.open) > 1:
        yield from screen.filled("hooks that don't depend on each other run in parallel (parallelExecution)", 0)
    for wave in found.waves if not found.parallel else ():
        if len(wave) > 1:
            text = f"these start at the same time, as their agent would start them: {', '.join(wave)}"
            yield from screen.filled(text, 0)


def verdict_line(outlook: explain.Forecast, event: Event) -> str:
    """What is known about the verdict."""
    by = ", ".join(outlook.by)
    if outlook.decision is Decision.DENY:
        others = ", whatever the other hooks answer" if outlook.open else ""
        return f"verdict: deny, by {by}{others}"
    if outlook.by:
        stricter = f", unless one of these is stricter: {', '.join(outlook.open)}" if outlook.open else ""
        return f"verdict: {outlook.decision.value}, by {by}{stricter}"
    if outlook.open:
        return f"verdict: depends on the answers of {', '.join(outlook.open)}"
    decides = ": the agent's permissions decide" if event.gates and hasattr(event, "tool_name") else ""
    return f"verdict: none (no objection){decides}"


# A past decision:
_FEWEST = 8  # digits of an id that must be given


def explain_record(digits: str, configs: Sequence[str], *, as_json: bool) -> bool:
    """Explain the decision whose id begins with these digits, or that has this number. False: there is no such record,
    and the digits may be a command."""
    config = loaded(configs)
    here = LogScope(config.project, Path(config.root))
    match = by_id(digits, here, notes=False) if len(digits) >= _FEWEST else None
    if match is None and digits.isdecimal() and not digits.startswith("0"):
        match = found(digits, here)
        if match[1].record.note is not None:
            message = f"record {digits} is a note about the log: it has no decision"
            raise UsageError(message, hint="`billhook events` lists the records")
    if match is None:
        screen.note(f"no record of the log has an id that begins with `{digits}`: explaining the command `{digits}`")
        return False
    record, _ = whole(*match)
    if record.project and record.project != config.project:
        config = loader.load_for_cwd(record.cwd or record.project, [os.path.abspath(file) for file in configs])
    past = look_back(record, read_snapshot(Path(config.root), record.config))
    today = Judges(files=[os.path.abspath(file) for file in configs]).of(record.cwd, record.host).judge_single(record)
    screen.report(as_json, _past_screen(past, today), _past_data(past, today))
    return True


def _past_data(past: PastEvent, today: Judgement) -> dict[str, Any]:
    record, names = past.record, "name standing why? decided own said then"
    about = "id seq time event tool input session_id session_name turn_id cwd project host decision reason"
    return {
        **screen.picked(record, about),
        "decided_by": past.by,
        **screen.picked(record, "failed_open judged duration_ms config?"),
        "config_known": not past.unknown,
        "hooks": [screen.picked(one, names) for one in past.hooks],
        "today": {
            "decision": today.word,
            "by": today.by,
            "reason": today.reason or None,
            "not_known": [doubt.why for doubt in today.open],
        },
    }


def _past_screen(past: PastEvent, today: Judgement) -> Iterator[str]:
    event, record = event_of(past.record), past.record
    yield from _title(heading(event) if event is not None else f"{record.event} {record.tool or ''}")
    session, turn = record.session_name or record.session_id[:36], record.turn_id.rpartition(":")[2]
    about = {"record": record.id, "session": session, "turn": turn, "called by": record.host}
    known = [f"{label} {text}" for label, text in about.items() if text]
    yield from screen.facts([known[0], f"{shown_time(record.time)} ({ago(record.time)})", *known[1:]], 2)
    shown = [one for one in past.hooks if not _silent(one)]
    column = screen.name_column(one.name for one in shown)
    for one in shown:
        yield from ("", *_considered(one, column))
    if not shown:
        yield from ("", "no hook listened for it" if past.record.judged else "no hook ran")
    # A gate that runs again after a rewrite is there twice.
    names_shown = {one.name for one in shown}
    if silent := {
        one.name: one.said for one in past.hooks if _silent(one) and one.said and one.name not in names_shown
    }:
        yield ""
        names = ", ".join(f"{name} ({outcome.duration_ms:.1f} ms)" for name, outcome in silent.items())
        yield from _styled(screen.filled(f"built-ins with no objection: {names}", 0), dim=True)
    yield from ("", *_styled(screen.filled(f"verdict: {_decision(past)}", 0), bold=True))
    yield from screen.filled(f"reason: {record.reason}", 0) if record.reason else ()
    if record.failed_open and record.judged:
        yield f"{counted(record.failed_open, 'hook')} failed open"
    yield from ("", *_today(past, today))


def _silent(one: PastHook) -> bool:
    return one.said is not None and one.said.source == "built-in" and screen.word_of(one.said) == "no objection"


def _considered(one: PastHook, column: int) -> Iterator[str]:
    said = one.said
    if said is None:
        name = click.style(screen.shown_name(one.name), fg="cyan")
        yield from screen.beside(f"  {name}{' ' * (column - screen.cells(one.name))}  ", f"skipped: {one.why}", below=6)
    else:
        rule = f"counted as {said.decision} (its on_failure rule)"
        more = [
            one.why,
            f"to model: {said.context}" if said.context else None,
            f"to user: {said.message}" if said.message else None,
            rule if said.status != "ok" and said.decision != "none" else None,
        ]
        yield from screen.outcome_lines(said, column, "decided" if one.decided else "", more)
    if one.then is not None:
        dialect = "dialect" if one.then.get("layer") != "built-in" else ""
        source = "source" if one.then.get("file") else ""
        names = f"match conditions {dialect} on_failure trust {source}"
        yield from screen.facts(facts_of(one.then, names), screen.text_indent(column))
    elif one.own:
        yield from screen.facts(["a hook of the calling program"], screen.text_indent(column))


def _decision(past: PastEvent) -> str:
    record = past.record
    if not record.judged:
        did = "the event continued" if record.decision == "none" else f"the answer was {record.decision}"
        return f"no hook ran; {did}"
    by = f", by {', '.join(past.by)}" if past.by else ""
    what = f"{record.decision} (no objection)" if record.decision == "none" and not by else record.decision
    did = ", and the agent was stopped" if record.stop else ", and the agent kept going" if record.keep_going else ""
    return f"{what}{by}{did}, after {record.duration_ms:.1f} ms"


def _today(past: PastEvent, today: Judgement) -> Iterator[str]:
    """What the rules of today would decide: `billhook replay` for one event."""
    yield click.style("Today", bold=True)
    same = " (the same)" if today.word == judged_then(past.record).word else ""
    by = f", by {', '.join(today.by)}" if today.by else ""
    lines = [] if today.open else [f"verdict: {today.word.replace('_', ' ')}{by}{same}"]
    lines += [f"reason: {today.reason}"] if today.reason and not same and not today.open else []
    lines += [f"not known: the verdict: {doubt.why}" for doubt in today.open]
    lines += [f"not known: the configuration of that time: {past.unknown}"] if past.unknown else []
    for line in lines:
        yield from screen.hanging(line, 2)
