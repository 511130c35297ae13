"""`billhook explain`: which hooks an event would get, and why the others not. Nothing is run.

`billhook explain ID`: a past decision, under the configuration of that moment, and what would happen today.
"""

import os
import re
from collections.abc import Iterator, Sequence
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
from billhook.config.config import Config, as_data, kept
from billhook.core import strictjson, tools
from billhook.core.answers import Decision
from billhook.core.errors import UsageError
from billhook.core.events import EVENTS, Event
from billhook.core.text import counted, nearest, one_line, suggest
from billhook.effects.effect import Effect
from billhook.store.log.record import OutcomeRecord

_INDENT = 5
_MOST_EFFECTS = 10
_RECORD = re.compile(r"[0-9A-Fa-f]{8,32}|[1-9][0-9]{0,17}")
_OPTIONS = ("--tool", "--input", "--config", "--all", "--json", "--help")


@click.command(
    "explain",
    context_settings={"ignore_unknown_options": True},  # those of a command that was not quoted
    epilog="""\b
Examples:
  billhook explain 'git push --force'
  billhook explain PreToolUse --tool Write --input '{"file_path": "a.py"}'
  billhook explain SessionStart --input '{"source": "resume"}'
  billhook explain 12
  billhook explain 0199f3c81d2a""",
)
@click.argument("about", metavar="EVENT|COMMAND|ID", nargs=-1, shell_complete=complete_among(EVENTS))
@tool_options
@config_option
@flag("--all", "everything", "Show the hooks for other events, too.")
@flag("--json", "as_json", "Print one line of JSON.")
def verb(
    about: tuple[str, ...],
    tool: str | None,
    input_: str | None,
    configs: tuple[str, ...],
    everything: bool,
    as_json: bool,
) -> int:
    """Say which hooks would be asked about an event, and why the others not, without running anything.

    The argument is the name of an event, or a shell command, which stands for PreToolUse of Bash. It may also be a
    record of the event log, by its number or by the first eight digits of its id or more: then the decision of that
    time is explained, under the configuration of that time, and what would happen today.
    """
    is_record = len(about) == 1 and tool is None and input_ is None and _RECORD.fullmatch(about[0])
    if is_record and explain_record(about[0].lower(), configs, as_json=as_json):
        return 0
    config = loaded(configs)
    found = explain.explain(config, _event(about, tool, input_, config))
    screen.report(as_json, _screen(found, everything), _as_data(found, everything))
    if not as_json and not config.entries:
        no_file = "no hooks are configured here; `billhook init` writes a first file"
        screen.hint(screen.unreadable(config) or ("the files here contain no hooks" if config.sources else no_file))
    return 0


def _event(about: Sequence[str], tool: str | None, input_: str | None, config: Config) -> Event:
    if not about:
        raise UsageError("which event, or which command?", hint="billhook explain 'git push --force'")
    name = event_named(about[0], config)
    if len(about) > 1:
        raise _too_many(about, name)
    if not name:
        _refuse_slips(about[0], tool, input_)
        name, tool, input_ = "PreToolUse", "Bash", strictjson.dumps({"command": about[0]})
    elif name in EVENTS and tool is None and "tool_name" in EVENTS[name].__struct_fields__:
        raise UsageError(f"{name} is about a tool: which one?", hint=f"billhook explain {name} --tool Bash")
    nothing: dict[str, Any] = dict.fromkeys(("output", "error", "session", "cwd", "whole"))
    return build_event({**nothing, "event": name, "tool": tool, "input_": input_})


def _too_many(about: Sequence[str], name: str) -> UsageError:
    if name or about[0].startswith("-"):
        odd = about[1] if name else about[0]
        remedy = f"{suggest(odd, _OPTIONS)} (`billhook explain --help` tells more)"
        return UsageError(f"`{odd}` is too much", hint=remedy)
    quoted = " ".join(about).replace("'", "'\\''")
    return UsageError("that is more than one argument", hint=f"quote it: billhook explain '{quoted}'")


def _refuse_slips(text: str, tool: str | None, input_: str | None) -> None:
    """A shell command is taken for one only when it is hardly the name of an event."""
    near = nearest(text, EVENTS, 0.75) if text.isidentifier() else ""
    if near:
        raise UsageError(f"no event `{text}`", hint=f"did you mean `{near}`?")
    if tool is not None or input_ is not None:
        given = "--tool" if tool is not None else "--input"
        remedy = f"name the event (billhook explain PreToolUse --tool ...), or leave {given} out"
        raise UsageError(f"`{text}` is no event, and {given} does not go with a command", hint=remedy)
    if not text.strip():
        raise UsageError("the command is empty", hint="billhook explain 'git push --force'")


def _as_data(found: explain.Explanation, everything: bool) -> dict[str, Any]:
    shown = (*found.hooks, *found.others) if everything else found.hooks
    return {
        "event": found.event.hook_event_name,
        "tool": getattr(found.event, "tool_name", None),
        "effects": [_effect_data(effect) for effect in found.effects],
        "hooks": [_hook_data(one) for one in shown],
        "other_events": [one.row.name for one in found.others if not one.silent],
        "verdict": outlook_data(found.outlook),
    }


def outlook_data(outlook: explain.Outlook) -> dict[str, Any]:
    """What can be said about the verdict, as JSON."""
    return {
        **screen.picked(outlook, "decision certain by"),
        "depends_on": outlook.open,
        **screen.picked(outlook, "gates fail_open"),
    }


def _hook_data(one: explain.Explained) -> dict[str, Any]:
    return {
        "name": one.row.name,
        **screen.picked(one, "runs blocks"),
        "failed": [reason.condition for reason in one.reasons],
        **screen.picked(one, "why? fix? order"),
        "deadline": one.seconds,
        "on_failure_means": one.failure or None,
        "says": None if one.says is None else screen.picked(one.says, "decision reason context"),
        "notes": one.notes,
        **{key: value for key, value in as_data(one.row).items() if key not in ("name", "why", "effect")},
        "hash": one.row.exact_hash or None,
    }


def _screen(found: explain.Explanation, everything: bool) -> Iterator[str]:
    yield click.style(heading(found.event), bold=True)
    yield from _effects(found.effects)
    spoken = [one for one in found.hooks if not one.silent]
    for place, one in enumerate(spoken, 1):
        yield ""
        yield from _hook(one, place)
    if not spoken:
        yield from ("", f"no hook wants {one_line(found.event.hook_event_name, 60)}")
    others = [one for one in found.others if not one.silent]
    for one in others if everything else ():
        yield ""
        yield from _hook(one, 0)
    if others and not everything:
        want = "wants" if len(others) == 1 else "want"
        named = ", ".join(f"{one.row.name} ({', '.join(one.row.events)})" for one in others[:8])
        more = f", and {len(others) - 8} more" if len(others) > 8 else ""
        yield ""
        yield from screen.filled(
            f"{counted(len(others), 'hook')} {want} other events: {named}{more} (--all shows why)", 0
        )
    if silent := [one.row.name for one in found.hooks if one.silent]:
        yield from ("", click.style(f"built in, without a say: {', '.join(silent)}", dim=True))
    yield ""
    yield from _conclusion(found)


def _effects(effects: Sequence[Effect]) -> Iterator[str]:
    """What the call would do, and which part of it does that."""
    if not effects:
        return
    yield from ("", "  effects")
    cells = [f"{effect.kind}:{effect.scope}" for effect in effects[:_MOST_EFFECTS]]
    column = max(map(len, cells))
    for cell, effect in zip(cells, effects, strict=False):
        above = dict.fromkeys(effect.via[:-1])  # a script is named as a command and as a file
        via = f", via {', '.join(above)}" if above else ""
        unsure = f", not certain{f': {effect.why}' if effect.why else ''}" if not effect.certain else ""
        about = f"{effect.shown} " if effect.shown else ""
        text = f"{about}by `{effect.cause or ' '.join(effect.via)}`{via}{unsure}"
        first, *rest = screen.filled(text, column + 7)
        yield f"     {cell:<{column}}  {first.lstrip()}"
        yield from rest
    if len(effects) > _MOST_EFFECTS:
        yield f"     and {len(effects) - _MOST_EFFECTS} more (--json shows all)"


def _effect_data(effect: Effect) -> dict[str, Any]:
    return {"target": effect.shown, **screen.picked(effect, "kind scope weight certain why? via cause recursive names")}


def heading(event: Event) -> str:
    """The event in one line: what it is about."""
    tool, given = getattr(event, "tool_name", ""), getattr(event, "tool_input", None)
    about = tools.command_of(tool, given) if tool else event.target
    about = about or (tools.path_of(tool, given) if tool else None)
    head = f"{event.hook_event_name} {tool}".strip()
    return one_line(f"{head}: {about}" if about else head, screen.width())


def _hook(one: explain.Explained, place: int) -> Iterator[str]:
    word, colour = ("asked", "green") if one.runs else ("blocks", "red") if one.blocks else ("not asked", "yellow")
    number = f"{place}" if one.order is not None else "-"
    name = click.style(one_line(one.row.name, screen.width() - 20), fg="cyan")
    yield f"  {number:<2} {name}  {click.style(word, fg=colour)}"
    if one.row.layer != "built-in" and one.says is None:
        yield " " * _INDENT + one_line(one.row.what, screen.width() - _INDENT)
    for reason in one.reasons:
        yield from screen.filled(reason.why, _INDENT)
        if reason.fix:
            yield from screen.hanging(f"to change that: {reason.fix}", _INDENT)
    if one.blocks:
        yield from screen.filled("what it would have judged is denied until then", _INDENT)
    if one.says is not None:
        answer, word = one.says, one.says.decision.value
        nothing = f"to the model: {answer.context}" if answer.context else "no objection"
        decided = f"{word}: {answer.reason}" if answer.reason else word
        yield from screen.hanging(f"says: {nothing if answer.decision is Decision.NONE else decided}", _INDENT)
    for text in one.notes:
        yield from screen.hanging(f"note: {text}", _INDENT)
    yield from screen.facts(_facts(one), _INDENT)


def _facts(one: explain.Explained) -> Iterator[str]:
    row, configured = one.row, one.row.layer != "built-in"
    yield from facts_of(row, ("part match conditions " if one.runs else "") + ("dialect" if configured else ""))
    if one.runs and one.failure:
        default = f" (default of {row.dialect})" if one.default and configured else ""
        yield from (f"{one.seconds:g} s{default}",) if one.seconds is not None else ()
        yield f"{failure_rule(row.on_failure)}: {one.failure}"
    yield from facts_of(row, "always source")


def _conclusion(found: explain.Explanation) -> Iterator[str]:
    outlook = found.outlook
    yield from (click.style(line, bold=True) for line in screen.filled(verdict_line(outlook, found.event), 0))
    if outlook.gates:
        yield from screen.filled(f"held up if one of these gates fails: {', '.join(outlook.gates)}", 0)
    if outlook.fail_open:
        yield from screen.filled(
            f"passes if these fail, unless another hook objects: {', '.join(outlook.fail_open)}", 0
        )
    if found.parallel and len(outlook.open) > 1:
        yield "hooks that don't wait for each other run at once (parallelExecution)"


def verdict_line(outlook: explain.Outlook, event: Event) -> str:
    """What can be said about the verdict."""
    by = ", ".join(outlook.by)
    if outlook.decision is Decision.DENY:
        others = ", whatever the other hooks say" if outlook.open else ""
        return f"verdict: deny{others}, because of {by}"
    if outlook.by:
        stricter = f", unless one of these is stricter: {', '.join(outlook.open)}" if outlook.open else ""
        return f"verdict: {outlook.decision.value}, because of {by}{stricter}"
    if outlook.open:
        return f"verdict: depends on what is answered by {', '.join(outlook.open)}"
    decides = ": the agent's own permissions decide" if event.gates and hasattr(event, "tool_name") else ""
    return f"verdict: none (no objection){decides}"


# A past decision:
_COLOURS = {"deny": "red", "stop": "red", "ask": "yellow", "defer": "yellow"}
_FEWEST = 8  # digits by which an id is named


def explain_record(digits: str, configs: Sequence[str], *, as_json: bool) -> bool:
    """Explain the decision whose id begins so, or whose number that is. False: there is none, and the digits were meant
    otherwise; a number is no command."""
    config = loaded(configs)
    here = LogScope(config.project, Path(config.root))
    match = by_id(digits, here, notes=False) if len(digits) >= _FEWEST else None
    if match is None and digits.isdecimal() and not digits.startswith("0"):
        match = found(digits, here)
        if match[1].record.note is not None:
            raise UsageError(f"record {digits} is about the log itself: nothing was decided", hint="name another one")
    if match is None:
        screen.note(f"no record of the log has an id that begins with `{digits}`, so this is about a command")
        return False
    record, _ = whole(*match)
    if record.project and record.project != config.project:
        config = loader.load_for_cwd(record.cwd or record.project, [os.path.abspath(file) for file in configs])
    past = explain.look_back(record, kept(Path(config.root), record.config), config)
    screen.report(as_json, _past_screen(past), _past_data(past))
    return True


def _past_data(past: explain.Past) -> dict[str, Any]:
    record, names = past.record, "name standing why? decided own said then"
    about = "id seq time event tool input session_id session_name turn_id cwd project host decision reason"
    return {
        **screen.picked(record, about),
        "decided_by": past.by,
        **screen.picked(record, "failed_open judged duration_ms config?"),
        "config_known": past.known,
        "hooks": [
            {**screen.picked(one, names), "today": None if one.today is None else screen.picked(one.today, "runs why?")}
            for one in past.hooks
        ],
        "today": {
            "added": past.added,
            "removed": past.removed,
            "verdict": outlook_data(past.today.outlook) if past.today is not None else None,
            "not_known": past.untold,
        },
    }


def _past_screen(past: explain.Past) -> Iterator[str]:
    event, record = explain.event_of(past.record), past.record
    title = heading(event) if event is not None else one_line(f"{record.event} {record.tool or ''}", screen.width())
    yield click.style(title, bold=True)
    session, turn = record.session_name or record.session_id[:36], record.turn_id.rpartition(":")[2]
    about = {"record": record.id, "session": session, "turn": turn, "asked by": record.host}
    known = [f"{label} {text}" for label, text in about.items() if text]
    yield from screen.facts([known[0], f"{shown_time(record.time)} ({ago(record.time)})", *known[1:]], 2)
    spoken = [one for one in past.hooks if not _silent(one)]
    for place, one in enumerate(spoken, 1):
        yield ""
        yield from _considered(one, place)
    if not spoken:
        yield from ("", "no hook wanted it" if past.record.judged else "no hook was asked")
    # a gate that is asked again after a rewrite is there twice
    names_spoken = {one.name for one in spoken}
    if silent := {
        one.name: one.said for one in past.hooks if _silent(one) and one.said and one.name not in names_spoken
    }:
        yield ""
        names = ", ".join(f"{name} ({said.duration_ms:.1f} ms)" for name, said in silent.items())
        yield from (click.style(line, dim=True) for line in screen.filled(f"built in, no objection: {names}", 0))
    yield ""
    yield from (click.style(line, bold=True) for line in screen.filled(f"verdict: {_decision(past)}", 0))
    yield from screen.filled(f"reason: {record.reason}", 0) if record.reason else ()
    if record.failed_open and record.judged:
        yield f"{counted(record.failed_open, 'hook')} failed and let the event pass"
    yield ""
    yield from _today(past)


def _silent(one: explain.Considered) -> bool:
    return one.said is not None and one.said.source == "built-in" and screen.word_of(one.said) == "no objection"


def _considered(one: explain.Considered, place: int) -> Iterator[str]:
    word: str = one.standing
    number, took, colour = "-", "", "yellow"
    if one.said is not None:
        word, number, took = screen.word_of(one.said), str(place), f"  {one.said.duration_ms:.1f} ms"
        colour = _COLOURS.get(word, "green") if one.said.status == "ok" else "yellow"
    name = click.style(one_line(one.name, screen.width() - 40), fg="cyan")
    decided = "  decided" if one.decided else ""
    yield f"  {number:<2} {name}  {click.style(word, fg=colour)}{took}{click.style(decided, bold=True)}"
    texts = [one.why, *(_said(one.said) if one.said is not None else ())]
    yield from (line for text in texts if text for line in screen.filled(text, _INDENT))
    if one.then is not None:
        dialect = "dialect" if one.then.get("layer") != "built-in" else ""
        source = "source" if one.then.get("file") else ""
        names = f"match conditions {dialect} on_failure trust {source}"
        yield from screen.facts(facts_of(one.then, names), _INDENT)
    elif one.own:
        yield from screen.facts(["a hook of the program that asked"], _INDENT)


def _said(said: OutcomeRecord) -> Iterator[str | None]:
    yield from (said.reason, said.error, *said.lost)
    yield f"to model: {said.context}" if said.context else None
    yield f"to user: {said.message}" if said.message else None
    if said.status != "ok" and said.decision != "none":
        yield f"counted as {said.decision}, as its failure rule says"
    yield "the event went on without its answer" if said.failed_open else None


def _decision(past: explain.Past) -> str:
    record = past.record
    if not record.judged:
        did = "the event passed" if record.decision == "none" else f"the answer was {record.decision}"
        return f"never judged; {did}"
    because = f", because of {', '.join(past.by)}" if past.by else ""
    what = f"{record.decision} (no objection)" if record.decision == "none" and not because else record.decision
    did = ", and the agent was stopped" if record.stop else ", and the agent went on" if record.keep_going else ""
    return f"{what}{because}{did}, after {record.duration_ms:.1f} ms"


def _today(past: explain.Past) -> Iterator[str]:
    yield click.style("Today", bold=True)
    lines = [f"{name}: removed" for name in past.removed]
    lines += [f"{one.name}: {text}" for one in past.hooks if (text := _outcome(one))]
    lines += [f"{name}: added" for name in past.added]
    if past.today is not None:
        lines.append(verdict_line(past.today.outlook, past.today.event))
    lines += [f"not known: {text}" for text in past.untold]
    for line in lines:
        yield from screen.hanging(line, 2)


def _outcome(one: explain.Considered) -> str:
    """What would become of a hook today, where that is not what became of it then."""
    if one.today is None:
        return ""
    if one.standing in ("asked", "background") and not one.today.runs:
        return f"it would not be asked: {one.today.why}"
    own_condition = one.standing == "not asked" or one.why.startswith("condition")
    return "it would be asked" if own_condition and one.today.runs else ""
