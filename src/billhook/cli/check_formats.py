"""Findings as people and machines read them: text, lines of JSON, GitHub's annotations, SARIF."""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

import click

from billhook import __version__, strictjson
from billhook.cli.show import picked
from billhook.config.findings import Finding
from billhook.config.lint.codes import Section, is_note, sections
from billhook.text import counted, visible

Format = Callable[[Sequence[Finding], int, int], str]


def shown(file: str) -> str:
    """A path as people write it: relative when it is below the folder that we are in."""
    try:
        here = os.path.realpath(os.getcwd())
    except FileNotFoundError:
        return file
    return os.path.relpath(file, here) if file.startswith(here.rstrip("/") + "/") else file


def as_text(findings: Sequence[Finding], hooks: int, files: int) -> str:
    """One line each, the hint below it, and a last line that counts."""
    lines = [line for finding in findings for line in _lines(finding)]
    notes = [finding for finding in findings if is_note(finding)]
    touched = {finding.file for finding in findings if not is_note(finding)}
    if len(notes) < len(findings):
        last = f"{counted(len(findings) - len(notes), 'finding')} in {counted(len(touched), 'file')}"
    else:
        last = f"no findings in {counted(hooks, 'hook')} of {counted(files, 'file')}"
    return "\n".join([*lines, *([""] if lines else []), last + (f"; {counted(len(notes), 'note')}" if notes else "")])


def _lines(finding: Finding) -> Iterator[str]:
    place = ":".join(str(part) for part in (_one_line(shown(finding.file)), finding.line, finding.column) if part)
    start = click.style(f"{place}:", bold=True) + " " if place else ""
    yield f"{start}{click.style(finding.code, fg='yellow')} {_one_line(finding.message)}"
    if finding.hint:
        yield f"  {click.style('hint:', fg='cyan')} {_one_line(finding.hint)}"


def _one_line(text: str) -> str:
    return visible(text.replace("\\\n", "\\\\n").replace("\n", "\\n").replace("\t", "\\t"))


def as_json(findings: Sequence[Finding], hooks: int, files: int) -> str:
    """One object a line, nothing else."""
    return "\n".join(strictjson.dumps(_data(finding)) for finding in findings)


def _data(finding: Finding) -> dict[str, object]:
    about = picked(finding, "code message file line? column? hint? hook? note")
    return {**about, "file": shown(finding.file) or None, "note": is_note(finding)}


def as_github(findings: Sequence[Finding], hooks: int, files: int) -> str:
    """Annotations that a workflow of GitHub shows beside the lines."""
    return "\n".join(_annotation(finding) for finding in findings)


def _annotation(finding: Finding) -> str:
    given = {"file": shown(finding.file), "line": finding.line, "col": finding.column, "title": finding.code}
    properties = ",".join(f"{name}={_escaped(str(value), ':,')}" for name, value in given.items() if value)
    return f"::{'notice' if is_note(finding) else 'error'} {properties}::{_escaped(_with_hint(finding))}"


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
        place: dict[str, object] = {"artifactLocation": {"uri": _uri(shown(finding.file))}}
        if finding.line:
            place["region"] = {"startLine": finding.line, "startColumn": max(finding.column, 1)}
        result["locations"] = [{"physicalLocation": place}]
    return result


def _uri(path: str) -> str:
    if os.path.isabs(path):
        return Path(path).as_uri()
    return quote(path.replace(os.sep, "/").encode("utf-8", "surrogateescape"))


FORMATS: dict[str, Format] = {"text": as_text, "json": as_json, "github": as_github, "sarif": as_sarif}
