"""`billhook check`: screens, formats, the checked files, exit codes."""

import contextlib
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from inline_snapshot import snapshot

from billhook.cli.check import verb
from billhook.config import load_config
from cli.folder import Folder
from cli.terminal import Ended, billhook, environment, on_terminal
from config.logged import content, said, write

SETTINGS = """\
{
  // formatting
  "hooks": {
    "PreToolUse": [
      {"matcher": "bash", "hooks": [{"type": "command", "command": "./guard.sh", "timeout": 5000}]}
    ],
    "PostToolUsed": [{"hooks": [{"type": "command", "command": "true"}]}],
    "PostToolUse": [{"matcher": "Write", "hooks": [{"type": "command", "command": "true", "timout": 20}]}],
  }
}
"""
HOOKS = """\
hooks:
  no-force:
    events: PreToolUse
    if: Bash(git push --force *)
    deny: No forced pushes
  lint:
    events: PostToolUse
    run: 'true'
    after: [no-forc]
"""
CLEAN = "hooks:\n  note: {events: Stop, run: 'true'}\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with faults in two files, and an empty home."""
    folder = tmp_path / "project"
    (folder / ".claude").mkdir(parents=True)
    (tmp_path / "home").mkdir()
    (folder / ".claude" / "settings.json").write_text(SETTINGS)
    (folder / "hooks.yaml").write_text(HOOKS)
    return folder


def check(project: Path, *arguments: str, cwd: Path | None = None) -> Ended:
    home = str(project.parent / "home")
    env = environment(HOME=home, BILLHOOK_HOME=home, XDG_CONFIG_HOME=None)
    return billhook("check", *arguments, env=env, cwd=cwd or project)


def inside(project: Path, *arguments: str, cwd: Path | None = None) -> Ended:
    """Run the check in this process."""
    home = str(project.parent / "home")
    with contextlib.chdir(cwd or project):
        env = {"HOME": home, "BILLHOOK_HOME": home, "XDG_CONFIG_HOME": None}
        done = CliRunner(env=env).invoke(verb, arguments, standalone_mode=False, catch_exceptions=False)
    return Ended(done.return_value, done.stdout, done.stderr)


def found(project: Path, *arguments: str, cwd: Path | None = None) -> list[tuple[str, str, int]]:
    """Code, file and line of each finding."""
    lines = inside(project, "--json", *arguments, cwd=cwd).out.splitlines()
    return [(one["code"], one["file"], one["line"]) for one in map(json.loads, lines)]


def test_findings(project: Path) -> None:
    """Sorted by file and line, each with its hint, and counted."""
    screen = check(project).screen.replace(os.path.realpath(project), "<project>")
    assert screen == snapshot("""\
.claude/settings.json:5:19: BH301 `bash` never matches: in the dialect `claude` the tool is called `Bash`
  hint: write `"matcher": "Bash"`
.claude/settings.json:5:68: BH401 `./guard.sh` does not exist
  hint: create it, or correct the path (relative to <project>)
.claude/settings.json:5:93: BH501 `timeout` is in seconds, not milliseconds: 5000 is 83 minutes
  hint: write `"timeout": 5`
.claude/settings.json:7:5: BH201 unknown event `PostToolUsed`
  hint: did you mean `PostToolUse`?
.claude/settings.json:8:91: BH202 unknown key `timout`
  hint: did you mean `timeout`?
hooks.yaml:4:9: BH306 `Bash(git push --force *)` misses `git push x --force`, `git push -f x` and `git push x -f`
  hint: write `if: Bash(git push *)`, which matches all of them
hooks.yaml:9:12: BH212 hook `lint` runs after `no-forc`, but no hook has that name
  hint: did you mean `no-force`?

7 findings in 2 files
-- exit 1
""")


def test_nothing_found(project: Path) -> None:
    """A clean configuration."""
    (project / ".claude" / "settings.json").unlink()
    (project / "hooks.yaml").write_text(CLEAN)
    assert check(project).screen == snapshot("""\
no findings in 1 hook of 1 file
-- exit 0
""")


def test_nothing_there(project: Path) -> None:
    """No configuration at all."""
    (project / ".claude" / "settings.json").unlink()
    (project / "hooks.yaml").unlink()
    assert check(project).screen == snapshot("""\
no findings in 0 hooks of 0 files
-- stderr

hint: `billhook init` creates hooks.yaml with example hooks
-- exit 0
""")


def test_select_and_ignore(project: Path) -> None:
    """Codes and prefixes of codes, several at once, in any case; --ignore wins."""
    assert [code for code, _, _ in found(project, "--select", "BH3")] == ["BH301", "BH306"]
    assert [code for code, _, _ in found(project, "--select", "bh3,BH501", "--ignore", "BH306")] == ["BH301", "BH501"]
    assert [code for code, _, _ in found(project, "--select", "BH3", "--select", "BH212")] == [
        "BH301",
        "BH306",
        "BH212",
    ]
    quiet = inside(project, "--ignore", "BH2,BH3,BH4,BH5")
    assert (quiet.code, quiet.out) == (0, "no findings in 5 hooks of 2 files\n")


def test_github(project: Path) -> None:
    """Annotations."""
    assert check(project, "--format", "github", "--select", "BH202").screen == snapshot("""\
::error file=.claude/settings.json,line=8,col=91,title=BH202::unknown key `timout`%0Ahint: did you mean `timeout`?
-- exit 1
""")


def test_github_escapes(project: Path) -> None:
    """File names and messages can't end an annotation or start another."""
    folder = project / "a,b:c%d"
    folder.mkdir()
    (folder / "hooks.yaml").write_text('hooks:\n  h: {events: PostToolUse, run: "./x%0A::error::y\\n./z"}\n')
    lines = inside(project, "--format", "github", str(folder / "hooks.yaml")).out.splitlines()
    assert len(lines) == 2
    assert all(line.startswith("::error file=a%2Cb%3Ac%25d/hooks.yaml,line=2,col=") for line in lines)
    assert "::`./x%250A::error::y` does not exist%0Ahint: " in lines[1]


def test_json(project: Path) -> None:
    """One object per line; `--json` is short for it."""
    ended = inside(project, "--format", "json", "--select", "BH301")
    assert ended.code == 1
    assert json.loads(ended.out) == snapshot(
        {
            "code": "BH301",
            "message": "`bash` never matches: in the dialect `claude` the tool is called `Bash`",
            "file": ".claude/settings.json",
            "line": 5,
            "column": 19,
            "hint": 'write `"matcher": "Bash"`',
            "hook": "guard",
            "note": False,
        }
    )
    assert inside(project, "--json", "--select", "BH301").out == ended.out
    clean = inside(project, "--json", "--select", "BH1")
    assert (clean.out, clean.code) == ("", 0)


def test_sarif(project: Path) -> None:
    """SARIF 2.1.0: the rules of the results, relative addresses, regions that count from 1."""
    ended = inside(project, "--format", "sarif")
    log: dict[str, Any] = json.loads(ended.out)
    assert ended.code == 1
    assert log["version"] == "2.1.0" and log["$schema"].endswith("sarif-2.1.0.json")
    (run,) = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert run["tool"]["driver"]["name"] == "billhook"
    assert [rule["id"] for rule in rules] == sorted({rule["id"] for rule in rules})
    assert all(rule["shortDescription"]["text"] and rule["name"].isalnum() for rule in rules)
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in ("error", "warning") and result["message"]["text"]
        place = result["locations"][0]["physicalLocation"]
        assert place["artifactLocation"]["uri"] in ("hooks.yaml", ".claude/settings.json")
        assert place["region"]["startLine"] >= 1 and place["region"]["startColumn"] >= 1
    assert len(run["results"]) == len(inside(project, "--json").out.splitlines())


def test_sarif_of_nothing(project: Path) -> None:
    """An empty list of results is still a complete log."""
    log = json.loads(inside(project, "--format", "sarif", "--select", "BH1").out)
    assert log["runs"][0]["results"] == [] and log["runs"][0]["tool"]["driver"]["rules"] == []


def test_sarif_escapes_addresses(project: Path) -> None:
    """Spaces and special characters in a path are escaped; a file elsewhere has an absolute address."""
    file = project.parent / "a b#c" / "hooks.yaml"
    file.parent.mkdir()
    file.write_text("hooks: 5\n")
    for cwd, uri in ((project.parent, "a%20b%23c/hooks.yaml"), (project, file.resolve().as_uri())):
        log = json.loads(inside(project, "--format", "sarif", str(file), cwd=cwd).out)
        assert log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == uri


def test_a_file(project: Path) -> None:
    """Only that file, as a file of its project: `./guard.sh` is searched beside `.claude`."""
    (project / "guard.sh").write_text("#!/bin/sh\n")
    (project / "guard.sh").chmod(0o755)
    codes = [code for code, file, _ in found(project, ".claude/settings.json") if file == ".claude/settings.json"]
    assert codes == ["BH301", "BH501", "BH201", "BH202"]
    assert found(project, "hooks.yaml", "hooks.yaml") == [("BH306", "hooks.yaml", 4), ("BH212", "hooks.yaml", 9)]


def test_a_file_of_another_name(project: Path) -> None:
    """Any file can be named; its shape follows from its suffix."""
    (project / "draft.yml").write_text(HOOKS)
    assert found(project, "draft.yml") == [("BH306", "draft.yml", 4), ("BH212", "draft.yml", 9)]


def test_a_folder(project: Path) -> None:
    """Another project; the user's files are not checked."""
    user = project.parent / "home" / ".claude" / "settings.json"
    user.parent.mkdir()
    user.write_text('{"hooks": {"PostToolUse": ["./x.sh"]}}')
    elsewhere = project.parent / "home"
    assert {file for _, file, _ in found(project, str(project), cwd=elsewhere)} == {
        os.path.realpath(project / "hooks.yaml"),
        os.path.realpath(project / ".claude" / "settings.json"),
    }
    assert ("BH511", os.path.realpath(user), 1) in found(project)
    assert ("BH511", os.path.realpath(user), 1) in found(project, str(user))


def test_approval_is_not_needed(project: Path) -> None:
    """Nothing is run, so hooks without approval are checked, and stay unapproved."""
    (project / "guard.sh").write_text(f"#!/bin/sh\ntouch {project}/ran\n")
    (project / "guard.sh").chmod(0o755)
    assert check(project).code == 1
    assert not (project / "ran").exists()
    assert list((project.parent / "home").rglob("*")) == []


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(("hoks.yaml",), id="no such file"),
        pytest.param(("--select", "BH9"), id="no such code"),
        pytest.param(("--ignore", "BH301,BH31x"), id="no such code among others"),
        pytest.param(("--format", "jsn"), id="no such format"),
    ],
)
def test_usage(project: Path, arguments: tuple[str, ...]) -> None:
    """Wrong usage gets a suggestion, and exit code 2."""
    ended = check(project, *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("error: ") and "\n\nhint: did you mean `" in ended.err


def test_what_cannot_be_opened(project: Path) -> None:
    """Exit code 2, and all other findings are still shown."""
    (project / ".hooks.json").mkdir()
    ended = check(project, "--ignore", "BH2,BH3,BH4,BH5")
    assert ended.screen == snapshot("""\
.hooks.json:1:1: BH101 it can't be opened: it is a folder
  hint: fix or remove it

1 finding in 1 file
-- exit 2
""")
    assert inside(project, "--select", "BH3").code == 2


@pytest.mark.parametrize(
    ("file", "head", "fixed"),
    [
        pytest.param("hooks.yaml", "settings: {timeout: 30000}\n", "write `timeout: 30`", id="settings"),
        pytest.param("hooks.yaml", "timeout: 1500\n", "write `timeout: 1.5`", id="top"),
        pytest.param(".hooks.json", '{"timeout": 30000,\n', 'write `"timeout": 30`', id="lesson"),
    ],
)
def test_milliseconds_for_a_whole_file(project: Path, file: str, head: str, fixed: str) -> None:
    """BH501 once, at the top of the file, however many hooks inherit it."""
    hooks = (
        "hooks:\n  a: {events: Stop, run: ls, timeout: 5}\n  b: {events: Stop, run: ls}\n  c: {events: Stop, run: ls}\n"
    )
    if file == ".hooks.json":
        hooks = '"hooks": {"Stop": [{"command": "ls"}, {"command": "ls -l"}]}}'
    for old in (project / ".claude" / "settings.json", project / "hooks.yaml"):
        old.unlink()
    (project / file).write_text(head + hooks)
    (finding,) = [json.loads(line) for line in inside(project, "--json").out.splitlines()]
    place = (1, head.index(": ", head.index("timeout")) + 3)
    assert (finding["code"], finding["hint"], finding["line"], finding["column"]) == ("BH501", fixed, *place)
    (project / file).write_text(re.sub(r"\d+", "60", head) + hooks)
    assert inside(project).code == 0


@pytest.mark.parametrize(
    ("text", "code", "exit_code"),
    [
        pytest.param(b"# caf\xe9\nhooks: {}\n", "BH102", 2, id="no text"),
        pytest.param(b"#" * 300_000, "BH103", 2, id="too large"),
        pytest.param(b"hooks: [\n", "BH104", 1, id="a syntax error"),
    ],
)
def test_what_cannot_be_read(project: Path, text: bytes, code: str, exit_code: int) -> None:
    """An unreadable file is never clean, whatever is selected; the valid parts of a faulty file are read."""
    (project / ".claude" / "settings.json").unlink()
    (project / "hooks.yaml").write_bytes(text)
    ended = inside(project, "--json")
    assert ended.code == exit_code
    assert code in {json.loads(line)["code"] for line in ended.out.splitlines()}
    assert inside(project, "--select", "BH5").code == (2 if exit_code == 2 else 0)


@pytest.mark.parametrize(
    ("file", "text", "line"),
    [
        pytest.param(
            ".claude/settings.json",
            '{"hooks": {"PreToolUse": [\n5,\n"true"]}}',
            2,
            id="strings",
        ),
        pytest.param(".claude.json", '{"hooks": {"Stop": [\n{"comand": "x"},\n{"command": "true"}]}}', 2, id="flat"),
        pytest.param(
            ".claude/settings.json",
            '{"hooks": {"Stop": [{"hooks": [\n{"type": "commnd", "command": "x"},\n'
            '{"type": "command", "command": "true"}]}]}}',
            2,
            id="nested",
        ),
        pytest.param(".hooks.json", '{"hooks": {"Stop": [\n{"command": 5},\n{"command": "true"}]}}', 2, id="lesson"),
        pytest.param("hooks.yaml", f"{CLEAN}  bad:\n    events: Stop\n    run: [x]\n", 5, id="yaml"),
    ],
)
def test_one_bad_entry_in_each_shape(project: Path, file: str, text: str, line: int) -> None:
    """Its file, line and column are named, and the next entry is still loaded."""
    for old in (project / ".claude" / "settings.json", project / "hooks.yaml"):
        old.unlink()
    (project / file).write_text(text)
    ended = inside(project, "--json")
    findings = [json.loads(one) for one in ended.out.splitlines()]
    assert ended.code == 1
    assert findings and all(one["file"] == file and one["column"] for one in findings)
    assert {one["line"] for one in findings} == {line}
    config = load_config(project, home=project.parent / "home", layers=("project",), trust="all")
    assert [entry.declared.does for entry in config.entries if entry.state == "runs"] == ["true"]


def test_hostile_text(project: Path) -> None:
    """The content of a file can't control the terminal, nor add lines."""
    (project / ".claude" / "settings.json").unlink()
    (project / "hooks.yaml").write_text('hooks:\n  h: {events: Stop, run: "./a\\e[31mb\\nc", "x\\ny: z": 1}\n')
    ended = check(project)
    assert "\x1b" not in ended.out and ended.code == 1
    assert all(line.startswith(("hooks.yaml:", "  hint: ")) for line in ended.out.splitlines()[:-2])


def test_colour_only_on_a_terminal(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pipes get no colour."""
    monkeypatch.chdir(project)
    home = str(project.parent / "home")
    assert "\x1b[" in on_terminal("check", HOME=home, BILLHOOK_HOME=home).out
    assert "\x1b[" not in on_terminal("check", HOME=home, BILLHOOK_HOME=home, NO_COLOR="1").out
    assert "\x1b[" not in check(project).out


def test_help(project: Path) -> None:
    """`billhook check --help`."""
    assert check(project, "--help").screen == snapshot("""\
Usage: billhook check [OPTIONS] [PATH ...]

  Check the hooks for problems and suggest fixes. No hook is run.

  The event log adds notes about hooks that never ran, and about slow hooks.

  PATH is a file, or the folder of a project. Without PATH, everything that
  applies here is checked, your own files included.

Options:
  --format text|json|github|sarif
                                  How findings are printed.  [default: text]
  --select CODES                  Only these codes or prefixes of codes:
                                  BH3,BH506.
  --ignore CODES                  All except these codes or prefixes of codes.
  --host NAME                     Show what this agent does not support:
                                  claude, codex, gemini ..., or all.
  --explain [CODE]                Explain the code of a finding, such as
                                  BH301. Without CODE, list all codes.
  --json                          The same as --format json.
  -h, --help                      Show this message and exit.

  Examples:
    billhook check
    billhook check --explain BH301
    billhook check .claude/settings.json hooks.yaml
    billhook check --ignore BH306,BH5 ../other-project
    billhook check --format github
    billhook check --json | jq -r .code | sort | uniq -c
    billhook check --host codex

  Exit code: 0 no findings, or only notes; 1 findings; 2 a file can't be read.
  With --host: 1 if this agent does not support something that a hook needs.
-- exit 0
""")


@pytest.mark.parametrize("format_", ["text", "json", "github", "sarif"])
def test_hostile_file_names(project: Path, format_: str) -> None:
    """A name with invalid bytes, an escape and a newline: no format breaks, and the terminal is not affected."""
    folder = os.fsencode(project) + b"/a\xff\x1b[31m\nb"
    os.mkdir(folder)
    with open(folder + b"/hooks.yaml", "wb") as file:
        file.write(b"hooks: 5\n")
    home = str(project.parent / "home")
    ended = billhook("check", "--format", format_, folder, env=environment(HOME=home, BILLHOOK_HOME=home), cwd=project)
    assert (ended.code, ended.err) == (1, "")
    assert "\x1b" not in ended.out
    assert len(ended.out.splitlines()) == {"text": 4, "json": 1, "github": 1}.get(format_, len(ended.out.splitlines()))


# -- notes from the event log


QUIET = "hooks:\n  every: {events: PreToolUse, run: 'true'}\n  never: {events: PreToolUse, match: Write, run: 'true'}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """A clean project whose log shows a hook that never ran, and a slow one."""
    folder = Folder(tmp_path)
    folder.write("~/.config/billhook/hooks.yaml", QUIET)
    project = os.path.realpath(folder.project)
    outcomes = [said("every", duration_ms=1500.0)]
    records = [content(project, outcomes=outcomes, not_asked={"never": "did not match"}) for _ in range(12)]
    write(folder.home / ".claude", project, records)
    return folder


def test_notes(folder: Folder) -> None:
    """They are shown and counted separately, and don't fail the check."""
    folder.project.joinpath("hooks.yaml").write_text(QUIET)
    folder.approve()
    folder.write("~/.config/billhook/hooks.yaml", "hooks: {}\n")
    text = re.sub(r"explain [0-9a-f]{32}", "explain ID", folder.screen("check"))

    assert text == snapshot("""\
hooks.yaml:2:36: BH602 hook `every` is slow: the slowest of 12 runs took 1,500 ms, and the latency budget is 1,000 ms
  hint: make it faster, run it in the background, or raise `warn_ms` of the built-in `metrics`
hooks.yaml:3:38: BH601 hook `never` has never run: `PreToolUse` occurred 12 times, and `match: Write` did not match
  hint: `billhook explain ID` shows why it was skipped the last time; for a hook against rare cases this is normal

no findings in 2 hooks of 2 files; 2 notes
-- exit 0
""")


def test_notes_beside_findings(folder: Folder) -> None:
    """Findings still fail the check."""
    folder.write("hooks.yaml", "hooks:\n  odd: {events: PreToolUse, match: bash, run: 'true'}\n")
    ended = folder.billhook("check")

    assert ended.code == 1
    assert ended.out.endswith("1 finding in 1 file; 2 notes\n")


def test_notes_are_selected_like_findings(folder: Folder) -> None:
    """By their codes."""
    found = [json.loads(line) for line in folder.billhook("check", "--json").out.splitlines()]
    ignored = folder.billhook("check", "--ignore", "BH6")
    one = folder.billhook("check", "--select", "BH602", "--json")

    assert [(finding["code"], finding["hook"]) for finding in found] == [("BH602", "every"), ("BH601", "never")]
    assert (ignored.code, ignored.out) == (0, "no findings in 2 hooks of 1 file\n")
    assert (one.code, one.out.count("\n")) == (0, 1)


def test_notes_in_other_formats(folder: Folder) -> None:
    """A notice, and the level of a note."""
    github = folder.billhook("check", "--format", "github")
    sarif = json.loads(folder.billhook("check", "--format", "sarif").out)

    assert [line.partition(" ")[0] for line in github.out.splitlines()] == ["::notice", "::notice"]
    assert {result["level"] for result in sarif["runs"][0]["results"]} == {"note"}
    assert github.code == 0


def test_a_folder_has_a_log(folder: Folder, tmp_path: Path) -> None:
    """The log of a named project adds notes about its files; a file alone has no log."""
    folder.write("hooks.yaml", "hooks:\n  late: {events: PreToolUse, match: Write, run: ':'}\n")
    folder.approve()
    project = os.path.realpath(folder.project)
    write(folder.home / ".claude", project, [content(project, not_asked={"late": "did not match"})])
    of_folder = folder.billhook("check", str(folder.project), "--json", cwd=tmp_path)
    of_file = folder.billhook("check", str(folder.project / "hooks.yaml"), "--json", cwd=tmp_path)

    assert [json.loads(line)["hook"] for line in of_folder.out.splitlines()] == ["late"]
    assert of_file.out == ""


def test_a_log_that_cannot_be_read(folder: Folder) -> None:
    """The check continues without it."""
    (log,) = (folder.home / ".claude" / "hooks").rglob("hooks.jsonl")
    log.unlink()
    log.mkdir()
    ended = folder.billhook("check")

    assert (ended.code, ended.out) == (0, "no findings in 2 hooks of 1 file\n")
    assert ended.err.startswith("note: the event log is not checked")


NOT_STRINGS = {
    "deny: no": ("a boolean", 'deny: "no"'),
    "deny: Off": ("a boolean", 'deny: "Off"'),
    "run: on": ("a boolean", 'run: "on"'),
    "inject: 42": ("a number", 'inject: "42"'),
}


@pytest.mark.parametrize("action", NOT_STRINGS)
def test_words_that_yaml_reads_as_other_types(project: Path, action: str) -> None:
    """The actual type, the expected type, and the corrected line."""
    (project / "hooks.yaml").write_text(f"hooks:\n  a:\n    events: PreToolUse\n    {action}\n")
    one = json.loads(inside(project, "--json", "--select", "BH203").out)
    kind, fixed = NOT_STRINGS[action]
    assert one["message"] == f"`{action.partition(':')[0]}` must be a string, not {kind}"
    assert (one["line"], one["hint"]) == (4, f"put it in quotes: `{fixed}`")
