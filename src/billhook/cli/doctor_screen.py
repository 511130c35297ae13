"""What `billhook doctor` shows."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import click

from billhook import __version__
from billhook.agents.base import Agent
from billhook.cli.ages import ago
from billhook.cli.table import filled, shown_path
from billhook.hosts.doctor import Report
from billhook.hosts.doctor_finding import Finding, all_well
from billhook.text import one_line

_COLOURS: Final = {"ok": "green", "unknown": None, "warn": "yellow", "fail": "red"}
_WORDS: Final = {"unknown": "?"}
_INDENT: Final = 19
_LONGEST_PATH: Final = 300


def screen(project: str, general: Sequence[Finding], reports: Sequence[Report]) -> Iterator[str]:
    """Every agent with its findings, the daemon, and the sum of it."""
    head = click.style(f"billhook {__version__}", bold=True)
    yield f"{head} in {one_line(shown_path(project, here=False), _LONGEST_PATH)}"
    for report in reports:
        yield ""
        yield click.style(report.host.title, bold=True)
        yield from lines(report.findings)
    yield ""
    yield click.style("billhook itself", bold=True)
    yield from lines(general)
    yield ""
    yield _sum([*general, *(one for report in reports for one in report.findings)])


def lines(findings: Iterable[Finding]) -> Iterator[str]:
    """A line or more for each finding, and its remedy below it."""
    for one in findings:
        word = click.style(f"{_WORDS.get(one.level, one.level):<5}", fg=_COLOURS[one.level])
        first, *rest = filled(with_age(one.text), _INDENT)
        yield f"  {word} {one.about:<10} {first.strip()}"
        yield from rest
        if one.remedy:
            yield from filled(f"-> {one.remedy}", _INDENT)


def with_age(text: str) -> str:
    """A time of the log as people say it."""
    said, found, when = text.partition(" last asked at ")
    return f"{said} last asked {ago(when)}" if found else text


def _sum(findings: Sequence[Finding]) -> str:
    levels = [one.level for one in findings]
    if all_well(findings):
        return click.style("all is well", fg="green")
    counts = [f"{levels.count(level)} {level}" for level in ("fail", "warn") if level in levels]
    return ", ".join(counts)


def beginning(project: str, reports: Sequence[Report], step: str) -> Iterator[str]:
    """What to do where no agent asks billhook."""
    yield f"no agent asks billhook in {one_line(shown_path(project, here=False), _LONGEST_PATH)}"
    yield ""
    if reports:
        yield "found here"
        for report in reports:
            programs = [one.text for one in report.findings if one.about == "program"]
            yield from filled(f"{report.host.title}: {programs[0]}", 2)
        yield from _problems(reports)
    else:
        yield "no coding agent was found: none is on PATH, none has a folder in your home"
    yield ""
    yield "begin with"
    names = " ".join(report.host.name for report in reports) or "claude"
    yield f"  billhook install {names}"
    yield f"  {step}"


def _problems(reports: Sequence[Report]) -> Iterator[str]:
    """Files that are broken are worth a word even then."""
    wrong = [one for report in reports for one in report.findings if not one.well and "not installed" not in one.text]
    yield from ([""] if wrong else [])
    yield from lines(wrong)


def as_data(project: str, general: Sequence[Finding], reports: Sequence[Report]) -> dict[str, Any]:
    """The same for programs."""
    return {
        "version": __version__,
        "project": project,
        "ok": bool(reports) and all_well(general) and all(report.well for report in reports),
        "daemon": [_finding(one) for one in general],
        "agents": [
            {
                "agent": report.host.name,
                "title": report.host.title,
                "ok": report.well,
                "installed": [
                    {"scope": one.scope, "file": one.path, "events": list(one.events)} for one in report.installed
                ],
                "findings": [_finding(one) for one in report.findings],
            }
            for report in reports
        ],
    }


def proved(found: Sequence[tuple[Agent, Finding]], *, asked: bool) -> bool:
    """Whether hooks have fired: in every agent that was asked for, or in all of those here that can be started."""
    levels = [one.level for _, one in found]
    return "ok" in levels and all(level == "ok" or (level == "unknown" and not asked) for level in levels)


def canary_data(project: str, found: Sequence[tuple[Agent, Finding]], *, asked: bool) -> dict[str, Any]:
    """What came of starting agents, for programs."""
    return {
        "project": project,
        "ok": proved(found, asked=asked),
        "agents": [{"agent": host.name, **_finding(one)} for host, one in found],
    }


def _finding(one: Finding) -> dict[str, str]:
    return {"level": one.level, "about": one.about, "text": one.text, "remedy": one.remedy}
