"""`billhook check`, with the explanations of its codes, and `billhook schema`: JSON Schema for editors."""

import difflib
import json
import os
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click
import msgspec

from billhook import __version__
from billhook.agents import AGENTS, TABLE
from billhook.agents.base import Agent, able
from billhook.agents.transcripts import READERS
from billhook.cli.install import agent_named
from billhook.cli.install.entries import checked, parse, times, written_handlers
from billhook.cli.options import choice, complete_among, flag, option, usage, words
from billhook.cli.screen import filled, hint, note, noting, picked, report, shown_path, write
from billhook.config import loader, sources
from billhook.config.builtin_hooks import filled as filled_options
from billhook.config.builtin_hooks import guard_settings
from billhook.config.config import Config
from billhook.config.declaration import HookDeclaration
from billhook.config.history import budget_of, facts, lint_log, log_of
from billhook.config.lint import Section, is_note, lint, sections
from billhook.config.lint.hooks import Host, HostLimit, limits
from billhook.config.lint.matchers import lint_permissions
from billhook.config.loader import load_config
from billhook.core import strictjson
from billhook.core.errors import BillhookError, UsageError
from billhook.core.text import Finding, counted, nearest, one_line, suggestion, visible

# The formats of findings: text, JSON, annotations of GitHub, SARIF. For `billhook check` and `billhook test`:
Format = Callable[[Sequence[Finding], int, int], str]


def as_text(findings: Sequence[Finding], hooks: int, files: int) -> str:
    """One line for each, with its hint below it, and a summary."""
    lines = [line for finding in findings for line in finding_lines(finding)]
    notes = [finding for finding in findings if is_note(finding)]
    touched = {finding.file for finding in findings if not is_note(finding)}
    if len(notes) < len(findings):
        last = f"{counted(len(findings) - len(notes), 'finding')} in {counted(len(touched), 'file')}"
    else:
        last = f"no findings in {counted(hooks, 'hook')} of {counted(files, 'file')}"
    return "\n".join([*lines, *([""] if lines else []), last + (f"; {counted(len(notes), 'note')}" if notes else "")])


def finding_lines(finding: Finding) -> Iterator[str]:
    """Its place, code and message; below it, its hint."""
    place = ":".join(
        str(part) for part in (_one_line(shown_path(finding.file, home=False)), finding.line, finding.column) if part
    )
    start = click.style(f"{place}:", bold=True) + " " if place else ""
    yield f"{start}{click.style(finding.code, fg='yellow')} {_one_line(finding.message)}"
    if finding.hint:
        yield f"  {click.style('hint:', fg='cyan')} {_one_line(finding.hint)}"


def _one_line(text: str) -> str:
    return visible(text.replace("\\\n", "\\\\n").replace("\n", "\\n").replace("\t", "\\t"))


def finding_data(one: Finding) -> dict[str, object]:
    """A finding for programs."""
    data = picked(one, "code message file line? column? hint? hook? note")
    return {**data, "file": shown_path(one.file, home=False) or None, "note": is_note(one)}


def annotation(one: Finding) -> str:
    """One annotation. GitHub expects paths relative to the workspace."""
    workspace = os.environ.get("GITHUB_WORKSPACE")
    file = os.path.relpath(one.file, workspace) if workspace and one.file else shown_path(one.file, home=False)
    given = {"file": file, "line": one.line, "col": one.column, "title": one.code}
    properties = ",".join(f"{name}={_escaped(str(value), ':,')}" for name, value in given.items() if value)
    return f"::{'notice' if is_note(one) else 'error'} {properties}::{_escaped(_with_hint(one))}"


def _escaped(text: str, more: str = "") -> str:
    for char in f"%\r\n{more}":
        text = text.replace(char, f"%{ord(char):02X}")
    return visible(text)


def as_sarif(findings: Sequence[Finding], hooks: int, files: int) -> str:
    """One run of SARIF 2.1.0; only the rules that were found are described."""
    codes = sorted({finding.code for finding in findings})
    rules = [_rule(code, sections().get(code)) for code in codes]
    run = {
        "tool": {"driver": {"name": "billhook", "version": __version__, "rules": rules}},
        "columnKind": "unicodeCodePoints",
        "results": [_result(finding, codes.index(finding.code)) for finding in findings],
    }
    whole = {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]}
    return json.dumps(whole, indent=2)


def _rule(code: str, section: Section | None) -> dict[str, object]:
    if section is None:
        return {"id": code}
    words = "".join(char if char.isalnum() else " " for char in section.title.replace("'", "")).split()
    return {
        "id": code,
        "name": "".join(word[0].upper() + word[1:] for word in words),
        "shortDescription": {"text": section.title},
        "fullDescription": {"text": section.summary},
        "help": {"text": section.text, "markdown": section.text},
    }


def _with_hint(finding: Finding) -> str:
    return f"{finding.message}\nhint: {finding.hint}" if finding.hint else finding.message


def _result(finding: Finding, index: int) -> dict[str, object]:
    result: dict[str, object] = {
        "ruleId": finding.code,
        "ruleIndex": index,
        "level": "note" if is_note(finding) else "error" if finding.code < "BH3" else "warning",
        "message": {"text": _with_hint(finding)},
    }
    if finding.file:
        path = shown_path(finding.file, home=False)
        relative = quote(path.replace(os.sep, "/").encode("utf-8", "surrogateescape"))
        uri = Path(path).as_uri() if os.path.isabs(path) else relative
        place: dict[str, object] = {"artifactLocation": {"uri": uri}}
        if finding.line:
            place["region"] = {"startLine": finding.line, "startColumn": max(finding.column, 1)}
        result["locations"] = [{"physicalLocation": place}]
    return result


FORMATS: dict[str, Format] = {
    "text": as_text,
    "json": lambda findings, hooks, files: "\n".join(strictjson.dumps(finding_data(one)) for one in findings),
    "github": lambda findings, hooks, files: "\n".join(map(annotation, findings)),
    "sarif": as_sarif,
}


# `billhook check --host NAME`:
class HostReport(msgspec.Struct, frozen=True):
    host: Agent
    hooks: tuple[HookDeclaration, ...]  # the examined hooks
    found: tuple[HostLimit, ...]
    left: int = 0  # hooks that the agent runs itself
    built_in: tuple[str, ...] = ()  # the limits of built-ins


def hosted(host: Agent, hooks: Sequence[HookDeclaration], left: int, projects: Iterable[str]) -> HostReport:
    """The limits of these hooks in an agent, in the order of the files."""
    installed = _deadlines(host, projects)

    def seconds(event: str, wanted: float) -> float:
        there = times(host, event, wanted)[1] / 1000
        return min(there, installed.get(event, there))

    agent = Host(host.name, host.title, seconds)
    return HostReport(host, tuple(hooks), tuple(limit for hook in hooks for limit in limits(hook, agent)), left)


def limits_of_builtins(config: Config, host: Agent) -> Iterator[str]:
    """What an agent can't do for the guard and for limits, as sentences."""
    event, asks = host.spellings.get("PreToolUse", "PreToolUse"), able(host, "PreToolUse").ask
    if guard_settings(config.builtins["guard"], config.sources).judges and not asks:
        yield f"on {event} the guard's ask becomes deny; the reason contains a rule that would allow the call"
    limits = filled_options("rate-limit", config.builtins["rate-limit"].options)["limits"]
    if not asks and any(one.get("then") == "ask" for one in limits):
        yield f"on {event} the ask of rate-limit becomes deny"
    if host.name not in READERS and any(one.get("of") in ("tokens", "cost") for one in limits):
        yield "limits of tokens and cost have no effect: billhook can't read tokens in its transcripts"


def _deadlines(host: Agent, projects: Iterable[str]) -> dict[str, float]:
    canonical = {own: event for event, own in host.spellings.items()}
    found: dict[str, float] = {}
    for file in {host.file("user", ""), *(host.file("project", project) for project in projects)}:
        try:
            with open(file, encoding="utf-8") as opened:
                handlers = written_handlers(checked(host.format.read(opened.read()), host, file), host)
        except (OSError, ValueError, BillhookError):
            continue
        for handler in handlers:
            call, event = parse(handler.data), canonical.get(handler.event)
            if call is not None and event:
                found[event] = min(call.deadline / 1000, found.get(event, 1e9))
    return found


def _screen(one: HostReport) -> Iterator[str]:
    yield click.style(f"{one.host.title}: {_support(one)}", bold=True)
    for hook in one.hooks:
        found = [
            limit for limit in one.found if (limit.file, limit.line, limit.hook) == (hook.file, hook.line, hook.name)
        ]
        if found:
            place = f"{shown_path(hook.file)}:{hook.line}" if hook.line else shown_path(hook.file)
            yield f"  {click.style(one_line(hook.name, 100), fg='cyan')}  {visible(place)}"
        for limit in found:
            for line in filled(limit.sentence, 4):
                yield click.style(line, fg="yellow") if limit.sure else line
    if one.built_in:
        yield f"  {click.style('built-ins', fg='cyan')}"
    for text in one.built_in:
        yield from filled(text, 4)
    if one.left:
        yield from filled(f"{one.host.title} itself runs {counted(one.left, 'more hook')}", 2)


def _support(one: HostReport) -> str:
    """How many hooks the agent supports. The numbers add up to the hooks that are listed below it."""
    places = {(limit.file, limit.line, limit.hook) for limit in one.found}
    limited = len({(limit.file, limit.line, limit.hook) for limit in one.found if limit.sure})
    maybe = len(places) - limited
    if not places:
        every = {0: "no hooks", 1: "its only hook is supported"}
        return every.get(len(one.hooks), f"all {len(one.hooks)} hooks are supported")
    of = counted(len(one.hooks), "hook")
    if not limited:
        return f"{maybe} of {of} may not be fully supported"
    also = f", {maybe} more may not be" if maybe else ""
    return f"{limited} of {of} {'is' if limited == 1 else 'are'} not fully supported{also}"


def _data(host: Agent, limit: HostLimit) -> dict[str, object]:
    return {
        "host": host.name,
        **picked(limit, "hook file line? events"),
        "file": shown_path(limit.file, home=False) or None,
        "host_events": [host.spellings.get(event) for event in limit.events],
        **picked(limit, "wants becomes sure"),
        "message": limit.sentence,
    }


# `billhook check`:
_UNREAD = ("BH101", "BH102", "BH103")  # a file could not be opened or read at all, so its content is unknown
_EXPLAIN_HELP = "Explain the code of a finding, such as BH301. Without CODE, list all codes."


def _complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return [code for code in sections() if code.startswith(incomplete.upper())]


class CheckResult(msgspec.Struct, frozen=True):
    findings: tuple[Finding, ...]
    hooks: int
    files: int


@usage(f"""\b
Examples:
  billhook check
  billhook check --explain BH301
  billhook check .claude/settings.json hooks.yaml
  billhook check --ignore BH306,BH5 ../other-project
  billhook check --format github
  billhook check --json | jq -r .code | sort | uniq -c
  billhook check --host {[*AGENTS][1]}

Exit code: 0 no findings, or only notes; 1 findings; 2 a file can't be
read. With --host: 1 if this agent does not support something that a hook
needs.""")
@click.argument("paths", nargs=-1, metavar="[PATH ...]")
@choice([*FORMATS], "--format", "format_", "How findings are printed.")
@option("--select", "CODES", "Only these codes or prefixes of codes: BH3,BH506.", multiple=True)
@option("--ignore", "CODES", "All except these codes or prefixes of codes.", multiple=True)
@option("--host", "NAME", f"Show what this agent does not support: {', '.join([*AGENTS][:3])} ..., or all.")
@option("--explain", "[CODE]", _EXPLAIN_HELP, is_flag=False, flag_value="", shell_complete=_complete)
@flag("--json", "as_json", "The same as --format json.")
def verb(
    paths: tuple[str, ...],
    format_: str,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    host: str | None,
    explain: str | None,
    as_json: bool,
) -> int:
    """Check the hooks for problems and suggest fixes. No hook is run.

    The event log adds notes about hooks that never ran, and about slow hooks.

    PATH is a file, or the folder of a project. Without PATH, everything that applies here is checked, your own files
    included.
    """
    if explain is not None:
        return _explain(explain, as_json=as_json or format_ == "json")
    wanted, unwanted = _codes(select, "--select"), _codes(ignore, "--ignore")
    if host is not None:
        if wanted or unwanted or format_ not in ("text", "json"):
            raise UsageError("--host can only be combined with --json", hint="leave out the other options")
        return _for_host(host, paths, as_json=as_json or format_ == "json")
    found = checked_hooks(paths)
    kept = [one for one in found.findings if one.code.startswith(wanted or ("",)) and not one.code.startswith(unwanted)]
    text = FORMATS["json" if as_json else format_](kept, found.hooks, found.files)
    if text:
        write(text, whole=as_json or format_ != "text")
    if format_ == "text" and not as_json:
        if not found.files:
            hint("`billhook init` creates hooks.yaml with example hooks")
        # allow rules that are not approved are valid, but have no effect
        for waiting in filter(None, (loader.load_for_cwd(folder).permissions.waiting for folder in _folders(paths))):
            hint(waiting)
    unread = any(one.code in _UNREAD for one in found.findings)
    return 2 if unread else 1 if any(not is_note(one) for one in kept) else 0


def _for_host(name: str, paths: Sequence[str], *, as_json: bool) -> int:
    """Show the limits of hooks in one agent, or in all; the exit code."""
    about, unread = [], False
    for host in list(AGENTS.values()) if name == "all" else [agent_named(name, "all")]:
        configs = [_loaded(path, host.name) for path in paths or (None,)]
        entries = {_key(entry.declared): entry for config in configs for entry in config.entries}
        active = [entry for entry in entries.values() if entry.state not in ("off", "same")]
        hooks = [_in_its_layer(entry.declared) for entry in active if entry.state != "elsewhere"]
        one = hosted(host, hooks, len(active) - len(hooks), {config.project for config in configs})
        notes = dict.fromkeys(text for config in configs for text in limits_of_builtins(config, host))
        about.append(msgspec.structs.replace(one, built_in=tuple(notes)))
        unread = any(config.unreadable for config in configs)
    lines = ["\n\n".join("\n".join(_screen(one)) for one in about)]
    report(as_json, lines, *(_data(one.host, limit) for one in about for limit in one.found))
    if unread:
        note("a file can't be read, so its hooks are missing here: `billhook check` shows why")
    return 2 if unread else 1 if any(limit.sure for one in about for limit in one.found) else 0


def checked_hooks(paths: Sequence[str], *, with_log: bool = True) -> CheckResult:
    """The findings of the loader and the linter in these files and projects; without any, in all that applies here.
    `with_log`: also findings from the event log."""
    configs = [_loaded(path) for path in paths or (None,)]
    entries = {_key(entry.declared): entry for config in configs for entry in config.entries}
    findings = [finding for config in configs for finding in config.problems]
    tops = {read.source.path: read.places for config in configs for read in config.sources}
    hooks = [_in_its_layer(entry.declared) for entry in entries.values() if entry.state != "off"]
    variables = {read.source.path: read.variables for config in configs for read in config.sources}
    findings += lint([_placed(hook, tops.get(hook.file, {})) for hook in hooks], variables)
    for rules in (config.permissions for config in configs):
        findings += [*rules.problems, *lint_permissions(rules)]
    if with_log:
        named = {(hook.file, hook.name) for hook in hooks}
        findings += [one for folder in _folders(paths) for one in _of_the_log(folder, named)]
    distinct = {(one.code, one.file, one.line, one.column, one.message): one for one in findings}
    twice = {(one.file, one.line, one.column) for one in findings if one.code == "BH105"}
    # a duplicate key is also a duplicate name: one finding is enough
    kept = [one for one in distinct.values() if one.code != "BH211" or (one.file, one.line, one.column) not in twice]
    ordered = sorted(kept, key=lambda one: (one.file, one.line, one.column, one.code))
    reads = (read for config in configs for read in config.sources)
    files = {read.source.path for read in reads if not read.entries or not all(one.ours for one in read.entries)}
    return CheckResult(tuple(ordered), len(entries), len(files))


def _folders(paths: Sequence[str]) -> list[str]:
    """The projects whose logs are checked, too: a file alone has no log."""
    return [path for path in paths if os.path.isdir(path)] if paths else ["."]


def _of_the_log(folder: str, looked_at: Container[object]) -> list[Finding]:
    """The findings of a project's event log about the checked hooks."""
    config = loader.load_for_cwd(folder)
    with noting("the event log is not checked"):
        log = log_of(config)
        found = lint_log(facts(log, config), budget_of(config)) if log is not None else ()
        return [one for one in found if (one.file, one.hook) in looked_at]
    return []


def _loaded(path: str | None, host: str = "") -> Config:
    """The configuration of a path: a file of a project, or a project's folder; without a path, all that applies here.
    Nothing is run, so nothing needs approval."""
    # only the names of variables, not their values: the checked hooks are not approved
    env = dict.fromkeys(os.environ, "x")
    given: dict[str, Any] = {"builtins": False, "trust": "all", "env": env, "host": host}
    if path is None:
        try:
            return load_config(**given)
        except FileNotFoundError:
            raise UsageError("the working directory no longer exists", hint="change to a folder that exists") from None
    if os.path.isdir(path):
        return load_config(path, layers=("project", "local"), **given)
    if not os.path.exists(path):
        raise UsageError(f"`{path}` does not exist", hint=_beside(path))
    return load_config(project_of(path), files=[path], **given)


def project_of(file: str) -> str:
    """The folder to which paths in a file are relative."""
    real = os.path.realpath(file)
    folder = os.path.dirname(real)
    agent = sources.agent_of(real)
    if agent in TABLE and TABLE[agent].folders:
        return os.path.dirname(os.path.dirname(folder))
    return os.path.dirname(folder) if agent or os.path.basename(folder) in (".claude", ".billhook") else folder


def _beside(path: str) -> str:
    """A hint with a similar file in the same folder."""
    folder, name = os.path.split(path)
    names: list[str] = []
    with suppress(OSError):
        names = os.listdir(folder or ".")
    there = [one for one in sources.PROJECT_FILES if os.path.exists(os.path.join(folder, one))]
    known = {one: one for one in names[:1000]} | {os.path.basename(one): one for one in there}
    if near := difflib.get_close_matches(name, known, 1, 0.7):
        return f"did you mean `{os.path.join(folder, known[near[0]])}`?"
    if there:
        return f"hooks are in {', '.join(os.path.join(folder, one) for one in there)}"
    return "name a settings file, a hooks.yaml, or the folder of a project"


def _in_its_layer(declared: HookDeclaration) -> HookDeclaration:
    """The user's file keeps its layer if it is named on the command line."""
    if declared.layer == "explicit" and declared.file in sources.user_files():
        return msgspec.structs.replace(declared, layer="user")
    return declared


def _placed(declared: HookDeclaration, top: Mapping[str, tuple[int, int]]) -> HookDeclaration:
    """A wrong timeout at the top of a file is reported there, once, and not for each hook."""
    if declared.timeout is None or "timeout" in declared.places or "timeout" not in top:
        return declared
    return msgspec.structs.replace(declared, places={**declared.places, "timeout": top["timeout"]})


def _key(declared: HookDeclaration) -> tuple[Any, ...]:
    return declared.file, declared.line, declared.column, declared.name


def _codes(given: Iterable[str], option: str) -> tuple[str, ...]:
    """Codes and prefixes of codes, separated by commas. Raises UsageError for an unknown one."""
    found = tuple(word.upper() for word in words(given))
    for word in found:
        if not any(code.startswith(word) for code in sections()):
            near = suggestion(word, sections())
            remedy = near if near.startswith("did") else "`billhook check --explain` lists all codes"
            raise UsageError(f"{option}: no code begins with `{word}`", hint=remedy)
    return found


# `billhook check --explain`:
@click.command("rule", hidden=True)
@click.argument("code", required=False, metavar="[CODE]", shell_complete=_complete)
@flag("--json", "as_json", "Print one line of JSON for each code.")
def rule_verb(code: str | None, as_json: bool) -> int:
    """The same as `billhook check --explain [CODE]`."""
    return _explain(code or "", as_json=as_json)


def _explain(code: str, *, as_json: bool) -> int:
    """Print what a code means and how to fix the finding; without a code, a line for each."""
    known = sections()
    word = f"BH{code}" if code.isdigit() else code.upper()
    if code and word not in known:
        near = nearest(word, known) if len(word) != len("BH301") else ""  # every whole code is near to some other
        remedy = f"did you mean `{near}`?" if near else "`billhook check --explain` lists all codes"
        raise UsageError(f"no code `{code}`", hint=remedy)
    chosen = [known[word]] if code else list(known.values())
    whole = ["", *_paragraphs(chosen[0].text)] if code else []
    heads = (f"{click.style(one.code, bold=True)} {one.title}" for one in chosen)
    report(as_json, [*heads, *whole], *(picked(one, "code title text") for one in chosen))
    if not code and not as_json:
        hint("`billhook check --explain CODE` explains one code")
    return 0


def _paragraphs(text: str) -> Iterator[str]:
    """Markdown for a terminal: paragraphs that fit, and code with an indent in place of its fences."""
    for number, part in enumerate(re.split(r"^```.*\n?", text, flags=re.MULTILINE)):
        if number % 2:
            yield from (f"    {line}".rstrip() for line in part.splitlines())
            continue
        for place, paragraph in enumerate(filter(None, part.strip().split("\n\n"))):
            yield from (*([""] if number or place else []), *filled(paragraph, 0))


# `billhook schema`:
_KINDS = ("hooks", "settings")


@usage("""\b
Examples:
  billhook schema > .billhook/hooks.schema.json
  billhook schema settings

\b
This line in hooks.yaml tells editors where the schema is:
  # yaml-language-server: $schema=./hooks.schema.json""")
@click.argument("kind", metavar="[hooks|settings]", default="hooks", shell_complete=complete_among(_KINDS))
def schema_verb(kind: str) -> int:
    """Print the JSON Schema of hooks.yaml, or of the hooks in settings files."""
    from billhook.config.schema import schema

    if kind not in _KINDS:
        raise UsageError(f"no schema `{kind}`", hint=suggestion(kind, _KINDS))
    write(json.dumps(schema("settings" if kind == "settings" else "hooks"), indent=2))
    return 0
