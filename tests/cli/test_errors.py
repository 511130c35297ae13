"""Command lines that make no sense: `error:`, a blank line, `hint:`, exit 2."""

from pathlib import Path

import pytest
from inline_snapshot import snapshot

from cli.folder import Folder
from cli.terminal import billhook

PRE = ("PreToolUse", "--tool", "Bash")
EVENT = '{"hook_event_name":"PreToolUse","tool_name":"Bash"'


def complaint(*arguments: str, stdin: bytes = b"") -> str:
    ended = billhook(*arguments, stdin=stdin)
    assert (ended.code, ended.out) == (2, ""), ended
    return ended.err


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(("fier",), id="unknown verb"),
        pytest.param(("fire", "--tol", "x"), id="unknown option"),
        pytest.param(("daemon",), id="no command"),
        pytest.param(("schema", "--json"), id="an option where there is none"),
        pytest.param(("agent", "Fix the tests"), id="a prompt without -p"),
        pytest.param(("rule", "BH999"), id="unknown code"),
        pytest.param(("fire",), id="no event"),
        pytest.param(("fire", "PreToolUse"), id="no tool"),
        pytest.param(("fire", "PreToolUse", "Stop"), id="two events"),
        pytest.param(("fire", *PRE, "--tool"), id="an option without its value"),
        pytest.param(("fire", *PRE, "--dialect", "claud"), id="unknown dialect"),
        pytest.param(("fire", *PRE, "--on-failure", "maybe"), id="unknown word"),
        *(
            pytest.param(("fire", *PRE, "--timeout", word), id=f"--timeout {word}")
            for word in ("x", "0", "-1", "nan", "inf", "")
        ),
        pytest.param(("fire", *PRE, "--exec", ""), id="empty --exec"),
        pytest.param(("fire", *PRE, "--exec", "  "), id="blank --exec"),
        pytest.param(("fire", *PRE, "--exec", "a 'b"), id="--exec with an open quotation"),
        pytest.param(("fire", *PRE, "--input", "{bad"), id="broken --input"),
        pytest.param(("fire", *PRE, "--input", ""), id="empty --input"),
        pytest.param(("fire", *PRE, "--input", '{"a":1} x'), id="more after --input"),
        pytest.param(("fire", *PRE, "--input", '{"a":1,"a":2}'), id="a key given twice"),
        pytest.param(("fire", *PRE, "--input", "[" * 5000), id="nested without end"),
        pytest.param(("fire", *PRE, "--input", "@/does/not/exist"), id="no such file"),
        pytest.param(("fire", *PRE, "--input", "@/"), id="a directory"),
        pytest.param(("fire", *PRE, "--input", "@"), id="no file name"),
        pytest.param(("fire", "PostToolUse", "--tool", "Bash", "--output", "@/does/not/exist"), id="--output, no file"),
        pytest.param(("fire", *PRE, "--input", "@-", "--event", "@-"), id="standard input twice"),
        pytest.param(("fire", "Stop", "--input", "3"), id="--input for an event without a tool"),
        pytest.param(("fire", "--event", "{}"), id="an event without a name"),
        pytest.param(("fire", "--event", "[]"), id="an event that is no object"),
        pytest.param(("fire", "--event", '{"hook_event_name":3}'), id="a name that is no text"),
        pytest.param(("fire", "--event", '{"a":'), id="broken --event"),
        pytest.param(("fire", "--event", EVENT + "}"), id="a field is missing"),
        pytest.param(("fire", "--event", EVENT + ',"tool_input":{},"cwd":3}'), id="a field of the wrong type"),
        pytest.param(("fire", "Stop", "--event", EVENT + "}"), id="two names"),
    ],
)
def test_anatomy(arguments: tuple[str, ...]) -> None:
    """Every error has a message, and after a blank line a hint."""
    text = complaint(*arguments, stdin=b"{}")
    assert text.startswith("error: ")
    what, _, hint = text.partition("\n\n")
    assert hint.startswith("hint: ") and len(hint) > 10
    assert len(what) > 10 and not what.removesuffix("...").endswith(".")


@pytest.mark.parametrize("name", ["PreToolUse", "Stop", "SubagentStop", "PreModelSwitch"])
def test_missing_fields_have_a_path(name: str) -> None:
    """An event that lacks a field which a guard judges by names its JSON path; others have defaults."""
    if name in ("Stop", "SubagentStop"):
        assert billhook("fire", "--event", f'{{"hook_event_name":"{name}"}}').code == 0
    else:
        assert "missing field at `$." in complaint("fire", "--event", f'{{"hook_event_name":"{name}"}}')


def test_screens() -> None:
    """The most usual complaints, whole."""
    usual = [
        ("fier",),
        ("fire", "--tol", "x"),
        ("fire", "PreToolUse"),
        ("fire", *PRE, "--dialect", "claud"),
        ("fire", *PRE, "--dialect", "xyz"),
        ("fire", *PRE, "--timeout", "soon"),
        ("fire", *PRE, "--input", "{command: ls}"),
        ("fire", "--event", EVENT + "}"),
    ]
    assert "\n".join(complaint(*arguments) for arguments in usual) == snapshot("""\
error: no command `fier`

hint: did you mean `fire`? (see `billhook --help`)

error: no option `--tol`

hint: did you mean `--tool`? (see `billhook fire --help`)

error: PreToolUse needs a tool

hint: billhook fire PreToolUse --tool Bash ...

error: unknown --dialect `claud`

hint: did you mean `claude`?

error: unknown --dialect `xyz`

hint: one of claude, spec, claw, claw-text, lesson, codex, gemini, qwen, copilot, cursor, opencode, hermes, antigravity, devin, droid, goose, kiro, pi, windsurf, cline, crush, openclaw, amp, universal

error: --timeout `soon` is not a positive number of seconds

hint: as in --timeout 2.5

error: --input is not JSON: expecting property name enclosed in double quotes at line 1 column 2: {command: ls}

hint: quote it for the shell, as in --input '{"command": "ls"}'

error: --event: missing field at `$.tool_input`

hint: `billhook fire PreToolUse ...` without --event uses sample values
""")  # noqa: E501


def test_a_file_is_named(tmp_path: Path) -> None:
    """What was read from a file is complained about with the file's name and the place in it."""
    (tmp_path / "broken.json").write_text('{\n  "a": 1,\n}')
    (tmp_path / "event.json").write_text('{"hook_event_name": "UserPromptSubmit"}')
    broken = complaint("fire", *PRE, "--input", f"@{tmp_path}/broken.json")
    assert f"@{tmp_path}/broken.json: --input is not JSON" in broken
    assert "at line 3 column 1" in broken
    assert f"@{tmp_path}/event.json: missing field at `$.prompt`" in complaint(
        "fire", "--event", f"@{tmp_path}/event.json"
    )


def test_control_characters_in_complaints() -> None:
    """A complaint can't be made to act on the terminal."""
    assert "\033" not in complaint("fire", *PRE, "--dialect", "\033[31mred")
    assert "\033" not in complaint("\033[31mred")


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("try", "`test`, `fire` or `explain`"),
        ("delete", "`uninstall` or `remove`"),
        ("logs", "`events`"),
        ("approve", "`trust`"),
        ("run", "`fire`"),
        ("new", "`init`"),
        ("recipes", "`add`"),
        ("chekc", "`check`"),
    ],
)
def test_a_verb_that_does_not_exist(word: str, hint: str) -> None:
    """A close spelling, else what people mean by the word."""
    ended = billhook(word)

    assert ended.code == 2 and f"hint: did you mean {hint}?" in ended.err


def test_a_verb_that_is_like_none_lists_all() -> None:
    """No far-fetched guess."""
    assert "hint: one of init, install," in billhook("xyzzy").err


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


@pytest.mark.parametrize(
    ("verb", "meant"),
    [("lint", "check"), ("help", "--help"), ("version", "--version"), ("revoke", "trust --revoke"), ("lsit", "list")],
)
def test_a_verb_that_is_known_under_another_name(verb: str, meant: str) -> None:
    """What people mean by a word comes before words that are spelt alike."""
    assert f"hint: did you mean `{meant}`?" in complaint(verb)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("nosuch.yaml", "hooks are in .billhook/hooks.yaml"),
        ("hoks.yaml", "did you mean `.billhook/hooks.yaml`?"),
        (".billhook/hook.yaml", "did you mean `.billhook/hooks.yaml`?"),
        ("sub/nosuch.yaml", "name a settings file, a hooks.yaml, or the folder of a project"),
    ],
)
def test_check_of_a_file_that_does_not_exist(folder: Folder, name: str, hint: str) -> None:
    """Only a name that is close is proposed."""
    folder.write(".billhook/hooks.yaml", "hooks: {}\n")
    folder.write("sub/a.txt", "")
    folder.write(".git/HEAD", "")
    assert f"hint: {hint}\n" in folder.billhook("check", name).err


@pytest.mark.parametrize(
    "arguments",
    [("list",), ("explain", "ls"), ("fire", *PRE), ("trust",), ("doctor",), ()],
    ids=" ".join,
)
def test_a_broken_file(folder: Folder, arguments: tuple[str, ...]) -> None:
    """Every verb points at the file that is broken, and none proposes to write a first one."""
    folder.write(".billhook/hooks.yaml", "hooks:\n  a:\n    events: [PreToolUse\n    deny: x\n")
    ended = folder.billhook(*arguments)
    shown = ended.out + ended.err
    assert ".billhook/hooks.yaml:4" in shown or arguments == ("doctor",)
    assert "billhook check" in shown
    assert "init" not in shown
