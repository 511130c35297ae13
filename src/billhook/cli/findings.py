"""The formats of findings: text, JSON, annotations of GitHub, SARIF. For `billhook check` and `billhook test`."""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

import click

from billhook import __version__
from billhook.cli.screen import picked, shown_path
from billhook.config.lint import Section, is_note, sections
from billhook.core import strictjson
from billhook.core.text import Finding, counted, visible

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
