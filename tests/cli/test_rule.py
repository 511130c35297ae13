"""`billhook check --explain`, and the page of codes: every example on it gives its finding."""

import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from billhook.cli.check import checked_hooks
from billhook.config import lint as lint_codes
from billhook.config.lint import sections
from billhook.core.text import Finding
from billhook.effects.conditions import ABLE
from billhook.effects.effect import SCOPES
from cli.terminal import billhook

ROOT = Path(__file__).parent.parent.parent
BLOCK = re.compile(r"(Bad|Fixed|With)(?:, `([^`]+)`)?:\n\n```(\w+)\n(.*?)```", re.S)


def test_one_code() -> None:
    """The section of a code, which may be given in any case."""
    assert billhook("check", "--explain", "bh302").screen == snapshot("""\
BH302 A matcher that names an MCP server, not its tools

`mcp__memory` is read as a plain name, and no tool has that name: the tools of
the server are called `mcp__memory__...`. `mcp__` alone has the same problem.

Bad, `hooks.yaml`:
    hooks:
      h:
        events: PostToolUse
        match: mcp__memory
        run: 'true'

Fixed, `hooks.yaml`:
    hooks:
      h:
        events: PostToolUse
        match: mcp__memory__.*
        run: 'true'
-- exit 0
""")


def test_an_unknown_code() -> None:
    """The nearest one is named."""
    assert billhook("check", "--explain", "BH31").screen == snapshot("""\
-- stderr
error: no code `BH31`

hint: did you mean `BH301`?
-- exit 2
""")
    assert billhook("check", "--explain", "xyz").screen == snapshot("""\
-- stderr
error: no code `xyz`

hint: `billhook check --explain` lists all codes
-- exit 2
""")


def test_all_codes() -> None:
    """One line each."""
    lines = billhook("check", "--explain").out.splitlines()
    assert [line.split()[0] for line in lines] == list(sections())
    assert lines == sorted(lines)
    assert "BH301 A matcher that can never match" in lines


def test_json() -> None:
    """One object a line, with the whole text."""
    found = [json.loads(line) for line in billhook("check", "--explain", "--json").out.splitlines()]
    assert [one["code"] for one in found] == list(sections())
    only = json.loads(billhook("check", "--explain", "BH506", "--json").out)
    assert only == next(one for one in found if one["code"] == "BH506")
    assert only["title"] == "A blocking hook that fails open" and "gate: true" in only["text"]


def test_the_old_name() -> None:
    """`billhook rule` works as before, and help does not list it."""
    assert billhook("rule", "BH302") == billhook("check", "--explain", "BH302")
    assert billhook("rule", "--json") == billhook("check", "--explain", "--json")
    assert "  rule " not in billhook("--help").out


def test_the_page_is_up_to_date() -> None:
    """docs/codes.md is the page that comes with the package, and `scripts/docs` writes it."""
    assert (ROOT / "docs" / "codes.md").read_text(encoding="utf-8") == lint_codes.page()
    assert runpy.run_path(str(ROOT / "scripts" / "docs"))["lint_codes"].page() == lint_codes.page()


def test_every_code_that_is_given_has_a_section() -> None:
    """No finding sends its reader to a section that is not there, and no section is about nothing."""
    package = ROOT / "src" / "billhook"
    given = {code for file in package.rglob("*.py") for code in re.findall(r'"(BH\d{3})"', file.read_text())}
    assert given == set(sections())


@pytest.mark.parametrize("code", sections())
def test_sections_are_short(code: str) -> None:
    """A section fits on a screen."""
    section = sections()[code]
    assert section.summary and section.title[0].isupper()
    assert len(section.text.splitlines()) <= 40


def test_every_effect_and_scope_is_listed() -> None:
    """The hint about an unknown effect refers to this section."""
    listed = set(re.findall(r"`([a-z-]+)`", sections()["BH217"].text))
    assert {*ABLE, *SCOPES} <= listed


def put(kind: str, name: str, text: str, project: Path, home: Path) -> None:
    """Apply a block of the page: a file, or commands."""
    if kind == "console":
        commands = "\n".join(line.removeprefix("$ ") for line in text.splitlines())
        env = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
        subprocess.run(["/bin/sh", "-ec", commands], cwd=project, check=True, env=env)
        return
    file = home / name[2:] if name.startswith("~/") else project / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


@pytest.mark.skipif(sys.platform == "win32", reason="the examples use a POSIX shell")
@pytest.mark.parametrize("code", sections())
def test_the_examples_are_real(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bad example has exactly that finding, and the fixed one has none."""
    project, home = tmp_path / "project", tmp_path / "home"
    project.mkdir()
    home.mkdir()
    monkeypatch.chdir(project)
    for name in ("HOME", "BILLHOOK_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(home))
    phases: list[list[Finding]] = []
    for phase in re.split(r"(?=^Fixed)", sections()[code].text, flags=re.MULTILINE):
        for _, name, kind, text in BLOCK.findall(phase):
            put(kind, name, text, project, home)
        phases.append(list(checked_hooks(()).findings))

    bad, fixed = phases
    assert {one.code for one in bad} == {code}, bad
    assert all(one.file and one.line and one.column and one.hint for one in bad)
    assert fixed == []
