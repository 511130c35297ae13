"""`billhook test`: what a case can express, how it is judged, and that nothing else changes."""

import json
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from billhook.testing.runner import network_refusal
from cli.terminal import PROGRAM
from rules.place import RULES, RulesPlace, tree


@pytest.fixture
def place(tmp_path: Path) -> RulesPlace:
    return RulesPlace(tmp_path)


def test_all_pass(place: RulesPlace) -> None:
    place.rules("""
  - {bash: git push origin main, expect: ask, by: push-gate}
  - {bash: git status, expect: none, without: push-gate}
  - {write: .env, expect: deny, reason: Not the}
  - {bash: echo x >> .env, expect: deny, effects: [write:project]}
""")
    done = place.run("test")

    assert done.code == 0, done
    assert done.out.strip().startswith("4 passed in ")


@pytest.mark.parametrize("how", ["tracked", "named by a hook"])
def test_a_deleted_file_is_not_copied(place: RulesPlace, how: str) -> None:
    """It ended the whole run."""
    place.rules("  - {write: .env, expect: deny}\n", RULES + "  gone: {events: Stop, run: ./gone.sh}\n")
    if how == "tracked":
        place.file("gone.sh", "exit 0\n")
        subprocess.run(["git", "init", "-q"], cwd=place.project, check=True)
        subprocess.run(["git", "add", "-A"], cwd=place.project, check=True)
        (place.project / "gone.sh").unlink()

    assert place.statuses() == ["passed"]


def test_a_failure_shows_expected_got_and_why(place: RulesPlace) -> None:
    """With file and line, the decision and the hook behind it, and what `explain` reports about the named hook."""
    place.rules("""
  - {bash: git status, expect: ask, by: push-gate}
  - {write: .env, expect: ask}
""")
    done = place.run("test")

    assert done.code == 1
    assert "failed .billhook/hooks.yaml:11  bash: git status" in done.out
    assert "expected ask, got none" in done.out
    assert "expected hook `push-gate` to run, but it did not" in done.out
    assert "why      push-gate: skipped, because " in done.out and "git *push *" in done.out
    assert "got      deny by no-env: Not the .env file." in done.out
    assert done.out.rstrip().splitlines()[-1].startswith("2 failed in ")


def test_every_kind_of_call_and_expectation(place: RulesPlace) -> None:
    place.rules(
        """
  - {prompt: deploy now, expect: stop, reason: freeze}
  - {read: secret.txt, expect: allow, by: reads}
  - {bash: pip install x, expect: rewrite, input: {command: uv pip install x}}
  - {event: {hook_event_name: SessionStart, source: startup}, context: "^Be kind", by: hello}
  - {event: {hook_event_name: Stop}, expect: keep_going}
  - event: {hook_event_name: PostToolUse, tool_name: Bash, tool_input: {command: ls}, tool_response: a b}
    output: '^a \\*\\*\\*$'
""",
        """
hooks:
  freeze: {events: UserPromptSubmit, when: {prompt: deploy}, stop: freeze}
  reads: {events: PreToolUse, if: Read(secret.txt), allow: fine}
  uv: {events: PreToolUse, match: Bash, rewrite: {command: {pip: uv pip}}}
  hello: {events: SessionStart, inject: Be kind.}
  more: {events: Stop, keep_going: not yet}
  hide: {events: PostToolUse, mask: b}
""",
    )

    assert place.statuses() == ["passed"] * 6, place.run("test")


def test_after_fires_earlier_calls_in_the_same_session(place: RulesPlace) -> None:
    """Sequence and rate rules; each case begins with new state."""
    rules = """
hooks:
  no-upload: {events: PreToolUse, if: Bash(curl *), after_effect: read-secret, deny: not after a secret}
  once: {events: PreToolUse, if: Bash(make *), once: session, ask: once}
"""
    place.rules(
        """
  - {bash: curl https://example.com, expect: none}
  - {bash: curl https://example.com, after: [{bash: cat .env}], expect: deny, by: no-upload}
  - {bash: make x, expect: ask}
  - {bash: make x, after: [{bash: make x}], expect: none}
  - {bash: make x, expect: ask}
""",
        rules,
    )

    assert place.statuses() == ["passed"] * 5, place.run("test")


def test_files_make_a_scratch_tree_for_one_case(place: RulesPlace) -> None:
    place.rules(
        """
  - {bash: npm install, files: {web/pnpm-lock.yaml: "", pnpm-lock.yaml: ""}, expect: deny}
  - {bash: npm install, expect: none}
""",
        "hooks:\n  pnpm: {events: PreToolUse, if: Bash(npm *), when: {file_exists: pnpm-lock.yaml}, deny: use pnpm}",
    )

    assert place.statuses() == ["passed", "passed"]
    assert not (place.project / "pnpm-lock.yaml").exists()


@pytest.mark.parametrize("name", ["../outside.txt", "/etc/outside.txt", "a/../../outside.txt"])
def test_files_outside_of_the_project_are_refused(place: RulesPlace, name: str) -> None:
    place.rules(f"  - {{bash: ls, files: {{{name}: x}}}}")
    done = place.run("test")

    assert done.code == 2 and "`files` must be paths below the project" in done.out


def test_no_case_writes_through_a_link(place: RulesPlace) -> None:
    """A link in the project that leads elsewhere: the file behind it stays as it is."""
    place.rules("  - {bash: ls, files: {link/x.txt: changed, also: changed}}")
    outside = place.folder / "outside"
    outside.mkdir()
    (outside / "x.txt").write_text("kept")
    (place.project / "link").symlink_to("../../outside")
    (place.project / "also").symlink_to(outside / "x.txt")
    subprocess.run(["git", "init", "-q"], cwd=place.project, check=True)
    place.run("test")

    assert (outside / "x.txt").read_text() == "kept"


@pytest.mark.parametrize("name", ["check.sh", ".git/config", ".git/hooks/post-checkout"])
def test_no_case_replaces_code_that_an_approved_hook_runs(place: RulesPlace, name: str) -> None:
    place.file("check.sh", "#!/bin/sh\nexit 0\n", 0o755)
    marker = place.folder / "marker"
    place.rules(
        f"  - {{bash: ls, files: {{{name}: 'touch {marker}'}}, expect: none}}",
        "hooks:\n  check: {events: PreToolUse, run: sh check.sh}",
    )
    place.approve()
    done = place.run("test")

    assert done.code == 1 and f"a test can't write `{name}`" in done.out, done
    assert not marker.exists()


def test_a_case_brings_its_makefile(place: RulesPlace) -> None:
    """In place of that of the project, for a hook that runs `make`."""
    place.file("Makefile", "test:\n\t@true\n")
    place.rules(
        """
  - {event: {hook_event_name: Stop}, files: {Makefile: "test:\\n\\t@echo broken; false\\n"}, reason: broken}
  - {event: {hook_event_name: Stop}, expect: none}
""",
        "hooks:\n  tests: {events: Stop, keep_going: {command: make test}}",
    )
    place.approve()

    assert place.statuses() == ["passed", "passed"], place.run("test")


# -- commands


COMMAND = "hooks:\n  gate: {events: PreToolUse, match: Bash, run: sh gate.sh}\n"
GATE = 'echo ran >> log.txt; echo ran >> "$HOME/log.txt"; wc -l < log.txt >&2; exit 2\n'


def test_commands_need_an_approval(place: RulesPlace) -> None:
    """The other cases still run, and the exit code is 2 if nothing else is wrong."""
    place.file("gate.sh", GATE)
    place.rules("  - {bash: ls, expect: deny, by: gate}\n  - {write: a.txt, expect: none}", COMMAND)
    done = place.run("test")

    assert done.code == 2
    assert "`gate` is not approved: run `billhook trust`" in done.out
    assert "1 passed, 1 not approved in" in done.out


def test_approved_commands_really_run_and_the_copy_is_restored(place: RulesPlace) -> None:
    place.file("gate.sh", GATE)
    place.rules("  - {bash: ls, expect: deny, by: gate, reason: '^1$'}\n" * 3, COMMAND)
    place.approve()

    assert place.statuses() == ["passed"] * 3, place.run("test")
    assert not (place.project / "log.txt").exists() and not (place.home / "log.txt").exists()


def test_the_environment_of_commands(place: RulesPlace) -> None:
    """The user's variables, but none that leads to the user's files, to a repository or to an agent."""
    rules = "hooks:\n  env: {events: PreToolUse, run: 'env >&2; exit 2'}\n"
    place.rules("  - {bash: ls, expect: deny, reason: 'OURS=1'}\n  - {bash: ls, reason: no such line}", rules)
    place.approve()
    found = place.lines(OURS="1", GIT_INDEX_FILE="/x", CLAUDECODE="1", XDG_CONFIG_HOME=str(place.home / ".config"))[1]
    shown = found[1]["problems"][0]

    assert [one["status"] for one in found[:2]] == ["passed", "failed"]
    assert "PATH=" in shown and "billhook-test-" in shown.partition("BILLHOOK_HOME=")[2]
    assert not [name for name in ("GIT_INDEX_FILE", "CLAUDECODE", "XDG_CONFIG_HOME") if name in shown]


def test_a_changed_script_is_not_approved(place: RulesPlace) -> None:
    place.file("gate.sh", GATE)
    place.rules("  - {bash: ls, expect: deny}", COMMAND)
    place.approve()
    place.file("gate.sh", f"{GATE}# changed\n")

    assert place.statuses() == ["not approved"]


def test_a_python_hook_runs_in_the_copy(place: RulesPlace) -> None:
    place.file("ours.py", "from billhook import deny\n\ndef judge(event):\n    open('x', 'w')\n    return deny('no')\n")
    place.rules(
        "  - {bash: ls, expect: deny, reason: '^no$'}", "hooks:\n  py: {events: PreToolUse, python: ours:judge}"
    )
    place.approve()

    assert place.statuses() == ["passed"], place.run("test")
    assert not (place.project / "x").exists()


def test_urls_are_not_called(place: RulesPlace) -> None:
    """A case that does not pass without the endpoint is skipped, and one without a decision: the endpoint could make
    one. A case with a decision reports it."""
    place.rules(
        "  - {bash: ls, expect: none}\n  - {bash: ls, by: web}\n  - {bash: ls, expect: none, only: other}\n"
        "  - {bash: git push, expect: ask, by: other}",
        "hooks:\n  web: {events: PreToolUse, url: 'http://127.0.0.1:9/x'}\n"
        "  other: {events: PreToolUse, if: Bash(git push *), ask: Push?}",
    )
    place.approve()
    code, lines = place.lines()

    assert code == 0 and [one["status"] for one in lines[:4]] == ["skipped", "skipped", "passed", "passed"], lines
    assert lines[0]["notes"] == lines[3]["notes"] == ["`web` did not run: it calls a URL, and tests use no network"]
    assert "skipped .billhook/hooks.yaml:5: `web` did not run: it calls a URL" in place.run("test").out


@pytest.mark.parametrize("more", ["background", "shadow"])
def test_a_url_that_decides_nothing_leaves_tests_as_they_are(place: RulesPlace, more: str) -> None:
    place.rules(
        "  - {bash: ls, expect: none}",
        f"hooks:\n  web: {{events: PreToolUse, url: 'http://127.0.0.1:9/x', {more}: true}}",
    )
    place.approve()

    assert place.statuses() == ["passed"]


# -- the network

CONNECT = "import socket\nsocket.create_connection(('127.0.0.1', {port}), 5).close()\n"
SERVE = (
    "import socket\nserver = socket.create_server(('127.0.0.1', 0))\nsocket.create_connection(server.getsockname())\n"
)


@pytest.fixture
def port() -> Iterator[int]:
    """Of a server outside of the tests."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.mark.skipif(bool(network_refusal()), reason=network_refusal())
@pytest.mark.parametrize("cases", [1, 20])
def test_programs_reach_no_network(place: RulesPlace, port: int, cases: int) -> None:
    """With one worker process and with several. A server that a program starts itself can be reached."""
    place.file("connect.py", CONNECT.format(port=port))
    place.file("serve.py", SERVE)
    place.rules(
        "  - {bash: ls, expect: deny, by: gate}\n" * cases,
        "hooks:\n  gate: {events: PreToolUse, run: 'python3 serve.py && ! python3 connect.py && exit 2'}",
    )
    place.approve()
    code, lines = place.lines()

    assert (code, lines[-1]["passed"], lines[-1]["network"]) == (0, cases, None), lines


@pytest.mark.skipif(bool(network_refusal()), reason=network_refusal())
def test_python_hooks_reach_no_network(place: RulesPlace, port: int) -> None:
    code = f"import socket\nfrom billhook import deny\n\ndef judge(event):\n    try:\n        {{}}\n{' ' * 4}"
    connect = f"socket.create_connection(('127.0.0.1', {port}))"
    place.file("ours.py", f"{code.format(connect)}except OSError:\n        return deny('no network')\n")
    place.rules(
        "  - {bash: ls, expect: deny, reason: no network}",
        "hooks:\n  py: {events: PreToolUse, python: ours:judge}",
    )
    place.approve()

    assert place.statuses() == ["passed"], place.run("test")


def test_a_system_that_refuses_is_named_once(place: RulesPlace) -> None:
    """Here a limit of its user namespace refuses. Rules without programs report nothing."""
    place.file("gate.sh", GATE)
    place.rules("  - {bash: ls, expect: deny, by: gate}\n  - {bash: ls, expect: deny}", COMMAND)
    place.approve()
    limited = 'echo 0 > /proc/sys/user/max_net_namespaces && exec "$0" "$@"'
    words = ["unshare", "--user", "--map-root-user", "sh", "-c", limited, PROGRAM, "test"]
    if subprocess.run([*words[:5], limited, "true"], check=False, capture_output=True).returncode:
        pytest.skip("user namespaces are refused here")
    shown, as_json = (
        subprocess.run([*words, *more], cwd=place.project, env=place.env(), capture_output=True, text=True, check=False)
        for more in ([], ["--json"])
    )

    assert shown.stdout.count("note: hooks could use the network: the system refuses a network namespace: ") == 1, shown
    assert json.loads(as_json.stdout.splitlines()[-1])["network"].startswith("the system refuses"), as_json
    place.rules("  - {write: .env, expect: deny}")
    assert place.lines()[1][-1]["network"] is None


# -- nothing else changes


def test_home_state_log_and_project_stay(place: RulesPlace) -> None:
    """Both trees are byte for byte the same, also after failures, coverage and mutants."""
    place.file("gate.sh", GATE)
    subprocess.run(["git", "init", "-q"], cwd=place.project, check=True)
    rules = COMMAND + RULES.strip().removeprefix("hooks:\n")
    place.rules("  - {bash: ls, expect: deny}\n  - {write: .env, expect: deny}\n  - {write: a, expect: none}", rules)
    place.approve()
    before = tree(place.home), tree(place.project)
    for more in ((), ("--coverage",), ("--mutate",), ("--user",), ("-k", "env")):
        assert place.run("test", *more).code < 2

    assert (tree(place.home), tree(place.project)) == before


def test_no_temporary_folder_is_left(place: RulesPlace) -> None:
    place.rules("  - {bash: ls, expect: none}\n" * 20)
    (place.folder / "tmp").mkdir()
    place.run("test", TMPDIR=str(place.folder / "tmp"))

    assert list((place.folder / "tmp").iterdir()) == []


# -- a repository


def git(place: RulesPlace, *words: str) -> None:
    names = ("-c", "user.name=A", "-c", "user.email=a@example.com")
    subprocess.run(["git", *names, *words], cwd=place.project, check=True, capture_output=True)


def test_the_copy_is_a_repository_on_the_same_branch(place: RulesPlace) -> None:
    """Tracked and new files are there, ignored ones are not, and work that a command would discard is known."""
    place.rules(
        """
  - {bash: git commit -m x, expect: deny, reason: topic/one}
  - {bash: git checkout -- kept.txt, files: {kept.txt: changed}, expect: ask, by: guard, effects: [discard]}
  - {bash: git checkout -- kept.txt, expect: none}
  - {bash: cat new.txt, expect: deny, by: new}
  - {bash: cat ignored.txt, expect: none}
""",
        """
hooks:
  branch: {events: PreToolUse, if: Bash(git commit *), branch: "topic/*", deny: "on ${branch}"}
  new: {events: PreToolUse, if: Bash(cat new.txt), when: {file_exists: new.txt}, deny: new}
  ignored: {events: PreToolUse, if: Bash(cat ignored.txt), when: {file_exists: ignored.txt}, deny: there}
""",
    )
    for name, text in {"kept.txt": "one\n", "new.txt": "", "ignored.txt": "", ".gitignore": "ignored.txt\n"}.items():
        place.file(name, text)
    git(place, "init", "-q", "-b", "topic/one")
    git(place, "add", "kept.txt", ".gitignore")
    git(place, "commit", "-q", "-m", "first")

    assert place.statuses(GIT_DIR="/nonexistent") == ["passed"] * 5, place.run("test")


def test_a_detached_head_has_no_branch(place: RulesPlace) -> None:
    place.rules(
        "  - {bash: git commit -m x, expect: none}",
        "hooks:\n  branch: {events: PreToolUse, branch: '*', deny: never}",
    )
    git(place, "init", "-q")
    git(place, "commit", "-q", "--allow-empty", "-m", "first")
    git(place, "checkout", "-q", "--detach")

    assert place.statuses() == ["passed"], place.run("test")


# -- agents, programs, layers


def test_the_answer_as_an_agent_gets_it(place: RulesPlace) -> None:
    """Codex can't ask: its user would see a deny. What is lost is reported."""
    place.rules("  - {bash: git push, agent: codex, expect: deny}\n  - {bash: git push, agent: claude, expect: ask}")
    code, lines = place.lines()

    assert code == 0, lines
    assert any("codex: ask became a deny" in note for note in lines[0]["notes"]) and lines[1]["notes"] == []


def test_a_missing_program_skips(place: RulesPlace) -> None:
    place.rules("  - {bash: git push, needs: no-such-program, expect: deny}\n  - {bash: ls, needs: sh, expect: none}")
    done = place.run("test")

    assert done.code == 0
    assert "skipped .billhook/hooks.yaml:11: `no-such-program` is not installed" in done.out
    assert "1 passed, 1 skipped in" in done.out


def test_the_users_own_rules_only_with_user(place: RulesPlace) -> None:
    place.own(
        "hooks:\n  mine: {events: PreToolUse, if: Bash(ls *), deny: mine}\ntests:\n  - {bash: ls x, expect: deny}\n"
    )
    place.rules("  - {bash: ls x, expect: none}")

    assert place.statuses() == ["passed"]
    assert place.statuses("--user") == ["passed", "failed"]


def test_outside_of_a_project_the_users_own_rules_are_tested(place: RulesPlace) -> None:
    """Their scripts are copied, too; they need no approval."""
    script = place.home / ".config" / "billhook" / "mine.sh"
    script.write_text("exit 2\n")
    place.own(
        f"hooks:\n  mine: {{events: PreToolUse, run: sh {script}}}\ntests:\n  - {{bash: ls, expect: deny, by: mine}}\n"
    )

    assert place.statuses() == ["passed"], place.run("test")


def test_files_of_cases(place: RulesPlace) -> None:
    """Beside hooks.yaml, as a list or below `tests`; or given as arguments."""
    place.rules("  - {bash: ls, expect: none}")
    place.file(".billhook/more.hooktest.yaml", "- {bash: git push, expect: ask}\n")
    place.file(".billhook/other.hooktest.yaml", "tests:\n  - {write: .env, expect: deny}\n")
    place.file("elsewhere/a.hooktest.yaml", "- {write: .env, expect: ask}\n")

    assert place.statuses() == ["passed"] * 3
    assert place.statuses("elsewhere/a.hooktest.yaml") == ["failed"]
    assert place.statuses("-k", "GIT PUSH") == ["passed"]


def test_a_named_file_with_hooks_is_tested(place: RulesPlace) -> None:
    examples = Path(__file__).parents[2] / "examples" / "rules"
    shutil.copy(examples / "protect-files.yaml", place.project / "ours.yaml")

    assert set(place.statuses("ours.yaml")) == {"passed"}, place.run("test", "ours.yaml")


def test_a_large_project_is_not_copied_as_a_whole(place: RulesPlace) -> None:
    """Only its hook files and the scripts that they name."""
    place.file("gate.sh", "test ! -e many && exit 2\n")
    place.rules("  - {bash: ls, expect: deny, by: gate}", COMMAND)
    place.approve()
    git(place, "init", "-q")
    (place.project / "many").mkdir()
    for number in range(5_001):
        (place.project / "many" / str(number)).touch()

    assert place.statuses() == ["passed"], place.run("test")
