"""`billhook test`: runs the test cases of rules, in a scratch copy of the project."""

import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from billhook.cli.check import annotation, finding_data, finding_lines
from billhook.cli.options import flag, option, usage
from billhook.cli.screen import filled, hanging, hint, progress, report, shown_path, write
from billhook.config.cases import Case
from billhook.core.errors import BillhookError, UsageError
from billhook.core.text import Finding, counted, flat, visible
from billhook.testing import runner
from billhook.testing.runner import CaseResult, CaseStatus, Suite

_ORDER: tuple[CaseStatus, ...] = ("passed", "failed", "not approved", "skipped")
_COLOURS = {"passed": "green", "failed": "red", "not approved": "yellow"}
_LABEL = 11


@usage("""\b
Examples:
  billhook test                       run all tests of this project
  billhook test -k push               only those that contain `push`
  billhook test --coverage            show what no test exercises
  billhook test --mutate              show which changes no test notices
  billhook test ours.hooktest.yaml --junit report.xml

Exit code: 0 all pass; 1 a test fails, or (--mutate) a change goes unnoticed;
2 broken files, no tests, or hooks that are not approved.""")
@click.argument("files", nargs=-1, metavar="[FILE ...]", type=click.Path(exists=True, dir_okay=False))
@option("-k", "text", "TEXT", "Run only tests whose line in the output contains this text.")
@flag("--user", "Also test your own hooks.yaml.")
@flag("--coverage", "Show hooks, cells of the guard's table and permission rules without a test.")
@flag("--mutate", "Change one thing in hooks.yaml at a time, and show changes that no test notices.")
@flag("--watch", "Run again whenever a file changes.")
@option("--junit", "FILE", "Write a report in JUnit's format.")
@flag("--github", "Print failures as annotations for GitHub Actions.")
@flag("--json", "as_json", "Print one line of JSON for each test, and one with the totals.")
def verb(files: tuple[str, ...], watch: bool, **given: Any) -> int:
    """Run the tests of your hooks: `tests:` in hooks.yaml, and *.hooktest.yaml files beside it.

    The hooks run in a temporary copy of the project, with a separate home folder, state and log. Hooks that run code
    run only if they are approved, and without network if the system can do that. Hooks that call a URL do not run.
    """
    if not watch:
        return _run(files, **given)
    if given["as_json"]:
        raise UsageError("--watch is for a terminal", hint="leave out --json")
    while True:
        before = _times(files, given["user"])
        try:
            _run(files, **given)
        except BillhookError as error:
            write(f"error: {visible(str(error))}", err=True)
        write(click.style("\nwaiting for changes; Ctrl-C ends", dim=True))
        while _times(files, given["user"]) == before:
            time.sleep(0.3)
        click.clear()


def _run(files: Sequence[str], *, text: str | None, user: bool, junit: str | None, **given: Any) -> int:
    began = time.perf_counter()
    suite = runner.suite(files, user=user)
    as_json, github = given["as_json"], given["github"]
    if suite.findings:
        wrong = [{"type": "finding", **finding_data(one)} for one in suite.findings]
        report(as_json, _broken(suite.findings, github), *wrong)
        if junit:
            _write_junit(junit, [_as_error(one) for one in suite.findings], 0.0)
        return 2
    cases = suite.cases if text is None else runner.select(suite.cases, text)
    if not cases:
        if suite.cases:
            raise UsageError(f"no test contains `{text}`", hint="without -k all tests run")
        raise UsageError("no tests here", hint='add some to hooks.yaml: `tests: [{bash: "git push", expect: ask}]`')
    with progress("tests") as tick:
        results = runner.run_cases(suite, cases, tick, exercised=given["coverage"])
    told = (line for one in results for line in _report_lines(one, github))
    report(as_json, told, *({"type": "test", **_result_data(one)} for one in results))
    statuses = {one.status for one in results}
    code = 1 if "failed" in statuses else 2 if "not approved" in statuses else 0
    if given["coverage"]:
        from billhook.testing.coverage import coverage

        found = coverage(suite, results)
        report(as_json, found.lines(), {"type": "coverage", **found.data()})
    if given["mutate"]:
        code = max(code, _mutate(suite, results, as_json))
    sums, took = Counter(one.status for one in results), time.perf_counter() - began
    if junit:
        _write_junit(junit, results, took)
    parts = [click.style(f"{sums[name]} {name}", fg=_COLOURS.get(name)) for name in _ORDER if sums[name]]
    left = runner.network_left(suite)
    warning = [f"note: hooks could use the network: {left}"] if left else []
    totals = {"seconds": round(took, 3), "network": left or None}
    report(as_json, [*warning, f"{', '.join(parts)} in {took:.1f} s"], {"type": "summary", **sums, **totals})
    if sums["not approved"] and not as_json:
        hint("some hooks run programs and are not approved: `billhook trust` shows them")
    return code


def _as_error(one: Finding) -> CaseResult:
    case = Case({"name": one.message}, one.file, one.line)
    return CaseResult(case=case, status="not approved", problems=(one.hint,))


def _mutate(suite: Suite, results: Sequence[CaseResult], as_json: bool) -> int:
    from billhook.testing.coverage import lines, survivors

    if any(one.status == "failed" for one in results):
        raise UsageError("--mutate needs tests that pass", hint="fix the failing tests first")
    with progress("mutants") as tick:
        found = survivors(suite, [one.case for one in results if one.status == "passed"], tick)
    report(as_json, lines(found), *({"type": "mutant", **one.data()} for one in found.survivors))
    return int(found.unnoticed > 0)


def _times(files: Sequence[str], user: bool) -> dict[str, int]:
    """The times of all files that tests read: those with cases, and those of the copy."""
    suite = runner.suite(files, user=user)
    paths = {*suite.files, *suite.rules, *suite.original.files}
    return {path: os.stat(path).st_mtime_ns for path in sorted(paths) if os.path.exists(path)}


# Screens:
def _report_lines(one: CaseResult, github: bool) -> Iterator[str]:
    place = f"{shown_path(one.case.file)}:{one.case.line}"
    if one.status == "skipped":
        yield from filled(f"skipped {place}: {', '.join(one.notes)}", 0)
    if one.status in ("passed", "skipped"):
        return
    if github:
        text = "; ".join((*one.problems, *one.why, *one.notes))
        yield annotation(Finding("billhook test", f"{one.case.title}: {text}", one.case.file, one.case.line))
        return
    yield f"{click.style(one.status, fg=_COLOURS[one.status])} {place}  {flat(one.case.title)}"
    yield from _labelled("", one.problems)
    yield from _labelled("got", [one.got] if one.got else [])
    yield from _labelled("why", one.why)
    yield from _labelled("note", one.notes)
    yield ""


def _labelled(label: str, texts: Sequence[str]) -> Iterator[str]:
    for text in texts:
        first, *rest = hanging(text, _LABEL if label else 2)
        yield f"{f'  {label}'.ljust(_LABEL)}{first.lstrip()}" if label else first
        yield from rest
        label = label and " "


def _broken(findings: Sequence[Finding], github: bool) -> Iterator[str]:
    for one in findings:
        yield from [annotation(one)] if github else finding_lines(one)
    files = ", ".join(dict.fromkeys(shown_path(one.file) for one in findings))
    yield f"{counted(len(findings), 'problem')} in {files}; no test ran"


def _result_data(one: CaseResult) -> dict[str, Any]:
    data: dict[str, Any] = msgspec.to_builtins(one)
    case = data.pop("case")
    del data["exercised"]
    head = {"file": case["file"], "line": case["line"], "title": one.case.title, "expect": case["data"].get("expect")}
    return {**head, **data, "seconds": round(one.seconds, 4)}


def _write_junit(file: str, results: Sequence[CaseResult], took: float) -> None:
    """The report that CI servers read: one suite, one case for each test."""
    from xml.etree.ElementTree import Element, SubElement, indent, tostring

    sums = Counter(one.status for one in results)
    numbers = {"tests": len(results), "failures": sums["failed"], "errors": sums["not approved"]}
    suite = Element("testsuite", {"name": "billhook", "time": f"{took:.3f}", "skipped": str(sums["skipped"])})
    suite.attrib |= {name: str(number) for name, number in numbers.items()}
    for one in results:
        name = visible(f"{one.case.title} [{one.case.line}]")  # servers merge cases of the same name
        about = {"name": name, "classname": shown_path(one.case.file), "time": f"{one.seconds:.3f}"}
        case = SubElement(suite, "testcase", {**about, "file": one.case.file, "line": str(one.case.line)})
        if kind := {"failed": "failure", "not approved": "error", "skipped": "skipped"}.get(one.status):
            told = visible("; ".join((*one.problems, *one.notes)))
            SubElement(case, kind, {"message": told}).text = visible("\n".join(one.why))
    indent(suite)
    try:
        Path(file).write_bytes(tostring(suite, "utf-8", xml_declaration=True))
    except OSError as error:
        raise UsageError(
            f"--junit {file} can't be written: {(error.strerror or '').lower()}", hint="check the path"
        ) from None
