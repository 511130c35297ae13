"""`billhook explain`: whole screens, exit code included."""

import json
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from cli.folder import Folder

HOOKS = """\
hooks:
  no-destroy:
    events: PreToolUse
    if: Bash(terraform destroy *)
    deny: Destroying infrastructure needs a human
  scan:
    events: PreToolUse
    match: Write|Edit
    run: ./scan.sh
    gate: true
  guard:
    events: PreToolUse
    match: bash
    run: ./guard.sh
  push:
    events: PreToolUse
    if: Bash(git push --force *)
    ask: Does the team know?
  audit:
    events: [PreToolUse, PostToolUse]
    run: ./audit.sh
    timeout: 5
  lint:
    events: PostToolUse
    match: Write|Edit
    run: ./lint.sh
"""


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


@pytest.fixture
def approved(folder: Folder) -> Folder:
    """All of it is approved."""
    folder.write(".billhook/hooks.yaml", HOOKS)
    for name in ("scan", "guard", "audit", "lint"):
        folder.script(f"{name}.sh")
    folder.approve()
    return folder


def test_a_command(approved: Folder) -> None:
    """Every hook for it: whether it runs, why not, and what would change that."""
    assert approved.screen("explain", "git push -f && ls") == snapshot("""\
PreToolUse Bash: git push -f && ls

  effects
     force-push:remote  by `git push -f`

  1  audit  runs
     ./audit.sh
     5 s   on_failure allow: if it fails, the action continues
     .billhook/hooks.yaml:19

  2  built-in/guard  runs
     answer: ask: `git push -f` would overwrite a remote branch. Use `git push
       --force-with-lease origin BRANCH`, or push to another branch: `git push
       origin HEAD:BRANCH`.
     note: To allow it, the user can add `Bash(git push -f)` and `Bash(ls)` to
       `permissions: {allow: [...]}` in ~/.config/billhook/hooks.yaml.
     60 s   gate: if it fails, the action is denied   built-in

  -  no-destroy  skipped: `if: Bash(terraform destroy *)` does not match `git
       push -f` and `ls`
     deny: Destroying infrastructure needs a human
     .billhook/hooks.yaml:2

  -  scan  skipped: `match: Write|Edit` does not match `Bash`
     ./scan.sh
     .billhook/hooks.yaml:6

  -  guard  skipped: `bash` never matches: in the dialect `claude` the tool is
       called `Bash`
     to change that: write `match: Bash`
     ./guard.sh
     .billhook/hooks.yaml:11

  -  push  skipped: `if: Bash(git push --force *)` does not match `git push -f`
       and `ls`
     to change that: write `if: Bash(git push *)`, which also matches the other
       spellings
     ask: Does the team know?
     .billhook/hooks.yaml:15

1 hook listens for other events: lint (PostToolUse); --all shows them

built-ins that only observe: metrics, turn-tracker, event-logger

verdict: ask, by built-in/guard, unless one of these is stricter: audit
blocked if any of these gates fails: built-in/guard
not blocked if any of these fails: audit
-- exit 0
""")


def test_a_command_that_is_denied(approved: Folder) -> None:
    """A fixed answer is known in advance."""
    found = json.loads(approved.billhook("explain", "terraform destroy x", "--json").out)

    assert found["verdict"] == {
        "decision": "deny",
        "certain": True,
        "by": ["no-destroy"],
        "depends_on": [],
        "gates": [],
        "fail_open": [],
    }
    assert {one["name"]: one["failed"] for one in found["hooks"] if one["name"] in ("audit", "built-in/guard")} == {
        "audit": ["not reached"],
        "built-in/guard": ["not reached"],
    }


def test_always_and_background(folder: Folder) -> None:
    """A hook with `always` runs after a deny; the answer of a background hook never counts."""
    hook = "{events: PreToolUse, run: 'true'"
    deny = "  no-rm: {events: PreToolUse, if: Bash(rm *), deny: Not here}\n"
    later = f"  audit: {hook}, always: true}}\n  send: {hook}, background: true, priority: 10}}\n"
    folder.write("~/.config/billhook/hooks.yaml", f"hooks:\n{deny}{later}  scan: {hook}}}\n")

    found = json.loads(folder.billhook("explain", "rm a", "--json").out)
    asked = json.loads(folder.billhook("explain", "ls", "--json").out)

    runs = {one["name"]: one["runs"] for one in found["hooks"]}
    assert (runs["send"], runs["no-rm"], runs["audit"], runs["scan"]) == (True, True, True, False)
    assert found["verdict"]["depends_on"] == ["audit"]
    assert asked["verdict"]["depends_on"] == ["audit", "scan"]


def test_in_parallel_a_deny_skips_later_groups(folder: Folder) -> None:
    """Hooks of the same group start together, so they run even if one of them denies."""
    hook = "{events: PreToolUse, run: 'true'"
    hooks = f"  no-rm: {{events: PreToolUse, deny: Not here}}\n  scan: {hook}}}\n  report: {hook}, after: scan}}\n"
    folder.write("~/.config/billhook/hooks.yaml", f"parallelExecution: true\nhooks:\n{hooks}")

    found = json.loads(folder.billhook("explain", "ls", "--json").out)

    runs = {one["name"]: one["runs"] for one in found["hooks"]}
    assert (runs["no-rm"], runs["scan"], runs["report"], runs["guard"]) == (True, True, False, False)


def test_hooks_that_start_together(folder: Folder) -> None:
    """The hooks of an agent's settings that start at the same time; after the deny of one, the hook behind them is not
    reached, and the others of its wave are."""
    handlers = [{"type": "command", "command": f"./{name}.sh"} for name in ("lint", "scan", "log")]
    folder.write(".claude/settings.json", json.dumps({"hooks": {"PreToolUse": [{"hooks": handlers}]}}))
    folder.write(".billhook/hooks.yaml", "hooks:\n  report: {events: PreToolUse, run: ./report.sh}\n")
    folder.approve()

    screen = folder.screen("explain", "ls")
    found = json.loads(folder.billhook("explain", "ls", "--json").out)

    assert "these start at the same time, as their agent would start them: lint, scan, log\n" in screen
    assert [wave for wave in found["waves"] if len(wave) > 1] == [["lint", "scan", "log"]]
    assert found["waves"][-2:] == [["report"], ["guard"]]


def test_a_tool(approved: Folder) -> None:
    """An event with its tool and input; hooks for other events with --all."""
    given = ("PreToolUse", "--tool", "write_file", "--input", '{"file_path": "a.py"}', "--all")

    assert approved.screen("explain", *given) == snapshot("""\
PreToolUse Write: a.py

  effects
     write:project  a.py by `Write`

  1  scan  runs
     ./scan.sh
     match Write|Edit   600 s (default of claude)
     gate: if it fails, the action is denied   .billhook/hooks.yaml:6

  2  audit  runs
     ./audit.sh
     5 s   on_failure allow: if it fails, the action continues
     .billhook/hooks.yaml:19

  3  built-in/guard  runs
     answer: no objection
     60 s   gate: if it fails, the action is denied   built-in

  -  no-destroy  skipped: `if: Bash(terraform destroy *)` is for `Bash`, and
       this is `Write`
     deny: Destroying infrastructure needs a human
     .billhook/hooks.yaml:2

  -  guard  skipped: `match: bash` does not match `Write`
     ./guard.sh
     .billhook/hooks.yaml:11

  -  push  skipped: `if: Bash(git push --force *)` is for `Bash`, and this is
       `Write`
     ask: Does the team know?
     .billhook/hooks.yaml:15

  -  lint  skipped: it listens for `PostToolUse`, not `PreToolUse`
     ./lint.sh
     .billhook/hooks.yaml:23

built-ins that only observe: metrics, turn-tracker, event-logger

verdict: depends on the answers of scan, audit
blocked if any of these gates fails: scan, built-in/guard
not blocked if any of these fails: audit
-- exit 0
""")


def test_an_event_that_blocks_nothing(approved: Folder) -> None:
    """After the tool has run, nothing is blocked."""
    assert approved.screen("explain", "post_tool_use", "--tool", "Read") == snapshot("""\
PostToolUse Read

  1  audit  runs
     ./audit.sh
     5 s   on_failure allow: if it fails, the error is shown
     .billhook/hooks.yaml:19

  -  lint  skipped: `match: Write|Edit` does not match `Read`
     ./lint.sh
     .billhook/hooks.yaml:23

5 hooks listen for other events: no-destroy (PreToolUse), scan (PreToolUse),
guard (PreToolUse), push (PreToolUse), built-in/guard (PreToolUse); --all shows
them

built-ins that only observe: metrics, turn-tracker, event-logger

verdict: depends on the answers of audit
-- exit 0
""")


def test_not_approved(folder: Folder) -> None:
    """A hook that waits for approval is skipped; every reason is shown."""
    folder.write("hooks.yaml", HOOKS[: HOOKS.index("  guard:")])

    assert folder.screen("explain", "terraform destroy") == snapshot("""\
PreToolUse Bash: terraform destroy

  effects
     destroy-infra:remote  by `terraform destroy`

  1  guard  runs
     answer: ask: `terraform destroy` would destroy infrastructure. Show what it
       would destroy (`terraform plan -destroy`), and let the user run it.
     note: To allow it, the user can add `Bash(terraform destroy)` to
       `permissions: {allow: [...]}` in ~/.config/billhook/hooks.yaml.
     60 s   gate: if it fails, the action is denied   built-in

  -  no-destroy  skipped: it is not approved
     to change that: `billhook trust no-destroy` shows it and asks for approval
     deny: Destroying infrastructure needs a human
     hooks.yaml:2

  -  scan  skipped: it is not approved
     to change that: `billhook trust scan` shows it and asks for approval
     also: `match: Write|Edit` does not match `Bash`
     ./scan.sh
     hooks.yaml:6

built-ins that only observe: metrics, turn-tracker, event-logger

verdict: ask, by guard
blocked if any of these gates fails: guard
-- exit 0
""")


def test_changed_gate(approved: Folder) -> None:
    """A gate that changed blocks what it would have checked."""
    approved.script("scan.sh", "exit 1")

    screen = approved.screen("explain", "PreToolUse", "--tool", "Write")

    assert screen[screen.index("scan") : screen.index("  -  ")] == snapshot("""\
scan  blocks: scan.sh has changed since it was approved
     to change that: `billhook trust scan` shows the change and asks for
       approval
     until then, every call that it would check is denied
     ./scan.sh
     .billhook/hooks.yaml:6

""")
    assert "audit  not reached: `scan` denies" in screen
    assert "verdict: deny, by scan\n" in screen


def test_nothing_is_configured(folder: Folder) -> None:
    """The built-ins run, and a hint shows how to begin."""
    assert folder.screen("explain", "rm -rf build") == snapshot("""\
PreToolUse Bash: rm -rf build

  effects
     delete:project  build by `rm -rf build`

  1  guard  runs
     answer: no objection
     60 s   gate: if it fails, the action is denied   built-in

built-ins that only observe: metrics, turn-tracker, event-logger

verdict: none (no objection): the agent's permissions decide
blocked if any of these gates fails: guard
-- stderr

hint: no hooks are configured here; `billhook init` creates a first file
-- exit 0
""")


def test_touching_its_own_files(folder: Folder) -> None:
    """The answer of the guard is known."""
    assert folder.screen("explain", "rm .billhook/hooks.yaml") == snapshot("""\
PreToolUse Bash: rm .billhook/hooks.yaml

  effects
     delete:project  .billhook/hooks.yaml by `rm .billhook/hooks.yaml`

  1  guard  runs
     answer: ask: This changes `.billhook/hooks.yaml`, which billhook's hooks
       depend on (configuration, or an approved script). Ask the user to change
       it.
     60 s   gate: if it fails, the action is denied   built-in

built-ins that only observe: metrics, turn-tracker, event-logger

verdict: ask, by guard
blocked if any of these gates fails: guard
-- stderr

hint: no hooks are configured here; `billhook init` creates a first file
-- exit 0
""")


def test_an_event_that_no_hook_listens_for(approved: Folder) -> None:
    """The output has a line about that."""
    assert approved.screen("explain", "Stop") == snapshot("""\
Stop

no hook listens for Stop

7 hooks listen for other events: no-destroy (PreToolUse), scan (PreToolUse),
guard (PreToolUse), push (PreToolUse), audit (PreToolUse, PostToolUse), lint
(PostToolUse), built-in/guard (PreToolUse); --all shows them

built-ins that only observe: metrics, turn-tracker, event-logger

verdict: none (no objection)
-- exit 0
""")


def test_session_sources(folder: Folder) -> None:
    """Fields of the event are given with --input."""
    folder.write("~/.claude/settings.json", {"dialect": "lesson", "hooks": {"SessionStart": ["echo hi"]}})
    starts = [folder.billhook("explain", "SessionStart", "--json")]
    starts += [folder.billhook("explain", "SessionStart", "--input", '{"source": "clear"}', "--json")]

    hooks = [hook for ended in starts for hook in json.loads(ended.out)["hooks"] if hook["layer"] == "user"]
    assert [(hook["runs"], hook["failed"]) for hook in hooks] == [(True, []), (False, ["source"])]


def test_json(approved: Folder) -> None:
    """One object, each hook with all that `list --json` knows."""
    ended = approved.billhook("explain", "git push -f", "--json")
    found: dict[str, Any] = json.loads(ended.out)

    assert ended.code == 0 and ended.out.count("\n") == 1
    assert (found["event"], found["tool"], found["other_events"]) == ("PreToolUse", "Bash", ["lint"])
    assert [(hook["name"], hook["order"], hook["runs"]) for hook in found["hooks"]] == [
        ("metrics", 1, True),
        ("turn-tracker", 2, True),
        ("event-logger", 3, True),
        ("audit", 4, True),
        ("built-in/guard", 5, True),
        ("no-destroy", None, False),
        ("scan", None, False),
        ("guard", None, False),
        ("push", None, False),
    ]
    guard = found["hooks"][7]
    assert (guard["failed"], guard["fix"]) == (["match"], "write `match: Bash`")
    assert guard["source"] == f"{approved.project}/.billhook/hooks.yaml:11"


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        pytest.param((), "name an event or a command", "billhook explain 'git push --force'", id="nothing"),
        pytest.param(("PreToolUze",), "unknown event `PreToolUze`", "did you mean `PreToolUse`?", id="mistyped event"),
        pytest.param(
            ("PreToolUse",),
            "PreToolUse needs a tool",
            "billhook explain PreToolUse --tool Bash",
            id="no tool",
        ),
        pytest.param(
            ("rm", "-rf", "--x", "/"),
            "expected one argument, got 4",
            "quote it: billhook explain 'rm -rf --x /'",
            id="not quoted",
        ),
        pytest.param(
            ("Stop", "--jsn"),
            "unexpected argument `--jsn`",
            "did you mean `--json`? (see `billhook explain --help`)",
            id="mistyped option",
        ),
        pytest.param(
            ("git push", "--tool", "Bash"),
            "`git push` is not an event, and --tool can't be used with a command",
            "name the event (billhook explain PreToolUse --tool ...), or leave --tool out",
            id="a command and a tool",
        ),
        pytest.param((" ",), "the command is empty", "billhook explain 'git push --force'", id="an empty command"),
        pytest.param(
            ("PreToolUse", "--tool", "Bash", "--input", "{"),
            "--input is not JSON: ",
            'quote it for the shell, as in --input \'{"command": "ls"}\'',
            id="broken input",
        ),
        pytest.param(
            ("ls", "--config", "no.yaml"),
            "--config `no.yaml`: no such file",
            "name a settings file or a hooks.yaml",
            id="no such file",
        ),
    ],
)
def test_slips(folder: Folder, arguments: tuple[str, ...], message: str, hint: str) -> None:
    """A mistake is answered with what helps, and exit code 2."""
    ended = folder.billhook("explain", *arguments)

    assert (ended.code, ended.out) == (2, "")
    assert ended.err.endswith(f"\n\nhint: {hint}\n")
    assert ended.err.startswith(f"error: {message}")


def test_words_that_are_commands(folder: Folder) -> None:
    """A single word that is hardly an event is a command."""
    assert folder.screen("explain", "ls").startswith("PreToolUse Bash: ls\n")


def test_hostile_hooks(folder: Folder) -> None:
    """Nothing from a file or from the command reaches the terminal as an escape sequence."""
    evil = "\x1b]0;owned\x07\u202e\n\r" + "A" * 300
    hook = {"events": "PreToolUse", "run": evil, "match": evil, "if": f"Bash({evil})"}
    folder.write("~/.config/billhook/hooks.yaml", {"hooks": {"ok": hook, "no": {**hook, "timeout": evil}}})

    ended = folder.billhook("explain", f"echo {evil}", "--all")

    assert ended.code == 0
    assert not set("\x1b\x07\u202e\r") & set(ended.out + ended.err)


def test_nothing_runs(folder: Folder) -> None:
    """Hooks that would leave a trace leave none."""
    folder.write("~/.config/billhook/hooks.yaml", "hooks: {it: {events: PreToolUse, run: touch trace}}")
    folder.billhook("explain", "ls")

    assert not (folder.project / "trace").exists()
