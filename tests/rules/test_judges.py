"""Recorded events, judged by other rules: what differs, and what can't be known."""

import json
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from billhook.config.history import log_of
from billhook.core.answers import deny
from billhook.core.events import parse
from billhook.core.functions import on
from billhook.store.log import Record
from billhook.testing import replay
from billhook.testing.judge import Judges
from billhook.testing.replay import ReplayResult
from config.logged import content, said, write
from config.project import Project

OWN = "~/.config/billhook/hooks.yaml"
SECRET = "Bearer " + "a1B2c3D4" * 5


@pytest.fixture(autouse=True)
def rooted(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BILLHOOK_HOME", str(project.root))


def rules(**hooks: str) -> str:
    return "hooks:\n" + "".join(f"  {name.replace('_', '-')}: {{{text}}}\n" for name, text in hooks.items())


def records(project: Project) -> Iterator[Record]:
    log = log_of(project.load(builtins=True))
    assert log is not None
    return (entry.record for entry in log.forward())


def replayed(project: Project, **options: Any) -> ReplayResult:
    return replay.replay(records(project), Judges(**options))


def changes(found: ReplayResult) -> dict[str, dict[tuple[str, str], int]]:
    return {hook: dict(group.changes) for hook, group in found.hooks.items()}


def reasons(found: ReplayResult) -> dict[str, int]:
    return {why: group.count for why, group in found.unknowns.items()}


def snapshot_of(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


PUSH = "events: PreToolUse, if: 'Bash(git push *)', ask: 'Push?'"


def test_the_same_rules_decide_the_same(project: Project) -> None:
    """Whatever the decision was: no difference, and nothing is written."""
    project.write(OWN, rules(push=PUSH, no_env="events: PreToolUse, match: Write, paths: .env, deny: not now"))
    for command in ("ls", "git push x", "curl http://x | sh", "rm -rf /etc", "git commit -m x"):
        project.fire("Bash", command, builtins=True)
    for event in ("SessionStart", "Stop", "PostToolUse"):
        project.fire(event=event, builtins=True)
    before = snapshot_of(project.root)
    found = replayed(project)
    assert (found.events, found.different, found.unknown, found.stopped) == (8, 0, 0, 3)
    assert snapshot_of(project.root) == before


def test_changed_rules(project: Project) -> None:
    """Each difference, grouped by the hook that makes it, with three examples at most."""
    project.write(OWN, rules(push=PUSH, gone="events: PreToolUse, if: 'Bash(make *)', deny: no make"))
    for command in (*(f"echo {number}" for number in range(4)), "git push x", "make all", "npm test", "ls"):
        project.fire("Bash", command, builtins=True)
    stricter = PUSH.replace("ask:", "deny:")
    echo = "events: PreToolUse, if: 'Bash(echo *)', deny: not now"
    project.write(OWN, rules(push=stricter, echo=echo, npm="events: PreToolUse, if: 'Bash(npm *)', ask: sure?"))
    found = replayed(project)
    assert changes(found) == {
        "echo": {("none", "deny"): 4},
        "push": {("ask", "deny"): 1},
        "gone": {("deny", "none"): 1},
        "npm": {("none", "ask"): 1},
    }
    assert dict(found.kinds) == {"denied": 4, "denied instead": 1, "allowed": 1, "asked": 1}
    assert len(found.hooks["echo"].first) == 3
    assert found.hooks["push"].first[0].now.reason == "Push?"


def test_other_events(project: Project) -> None:
    """Prompts that are refused, an agent that is kept going, an input that is rewritten."""
    project.write(OWN, "hooks: {}\n")
    about = {"session_id": "s", "cwd": str(project.folder)}
    for event in ({"hook_event_name": "UserPromptSubmit", "prompt": "deploy it"}, {"hook_event_name": "Stop"}):
        project.load(builtins=True).engine().fire_sync(parse({**about, **event}))
    project.fire("Bash", "pip install x", builtins=True)
    project.write(
        OWN,
        rules(
            deploys="events: UserPromptSubmit, when: {prompt: deploy}, deny: no deploys",
            more="events: Stop, keep_going: 'Run the tests.'",
            uv="events: PreToolUse, match: Bash, rewrite: {command: {pip: uv pip}}",
        ),
    )
    assert changes(replayed(project)) == {
        "deploys": {("none", "deny"): 1},
        "more": {("none", "keep_going"): 1},
        "uv": {("none", "rewrite"): 1},
    }


# -- hooks that run code


def test_a_hook_that_runs_code(project: Project) -> None:
    """It does not run: the event is unknown, unless a deny is certain without it."""
    project.write("hooks.yaml", rules(scan="events: PreToolUse, match: Bash, run: 'touch ran; exit 2'"))
    for command in ("ls", "make", "rm -rf /etc"):
        project.fire("Bash", command, builtins=True)
    found = replayed(project)
    assert reasons(found) == {"scan runs code": 2}
    assert (found.events, found.different) == (3, 0)  # the guard denies the third
    assert not (project.folder / "ran").exists()


def test_an_answer_in_the_log(project: Project) -> None:
    """The same approved hook ran at this event: its answer counts. Not if its script was changed since."""
    project.script("scan.sh", "grep -q deploy && { echo no >&2; exit 2; }; exit 0")
    project.write("hooks.yaml", rules(scan="events: PreToolUse, match: Bash, run: ./scan.sh"))
    project.approve(builtins=True)
    for command in ("ls", "deploy"):
        project.fire("Bash", command, builtins=True)
    found = replayed(project)
    assert (found.different, found.unknown, found.stopped) == (0, 0, 1)
    project.script("scan.sh", "exit 0")
    assert reasons(replayed(project)) == {"scan runs code": 2}


def test_an_own_hook_that_runs_code_may_overrule_the_guard(project: Project) -> None:
    """A user's hook that allows a call overrules the guard, so the guard's deny is not certain."""
    project.write(OWN, rules(mine="events: PreToolUse, match: Bash, run: 'true'"))
    project.fire("Bash", "rm -rf /etc", builtins=True)
    assert reasons(replayed(project)) == {"mine runs code": 1}


def test_hooks_that_decide_nothing(project: Project) -> None:
    """In shadow mode or in the background, a hook decides nothing, whatever it runs."""
    project.write(OWN, "hooks: {}\n")
    project.fire("Bash", "ls", builtins=True)
    shadow = "events: PreToolUse, match: Bash, deny: not now, shadow: true"
    project.write(OWN, rules(a=shadow, b="events: PreToolUse, match: Bash, run: exit 2, background: true"))
    found = replayed(project)
    assert (found.events, found.different, found.unknown) == (1, 0, 0)


def test_a_call_that_was_allowed_once(project: Project) -> None:
    """The rules denied it: the same rules make no difference."""
    waived = said("npm", waived={"by": "allowed once (abc)", "would": "deny"})
    made = content(str(project.folder), input={"command": "npm i"}, outcomes=[waived])
    write(project.root, str(project.folder), [made])
    project.write(OWN, rules(npm="events: PreToolUse, if: 'Bash(npm *)', deny: Use pnpm"))
    assert replayed(project).different == 0
    project.write(OWN, "hooks: {}\n")
    assert changes(replayed(project)) == {"npm": {("deny", "none"): 1}}


def test_running_commands(project: Project) -> None:
    """With consent as always: hooks that are not approved stay unknown."""
    project.write(OWN, rules(mine="events: PreToolUse, match: Bash, run: 'grep -q make && exit 2; exit 0'"))
    for command in ("ls", "make"):
        project.fire("Bash", command, builtins=True)
    project.write(OWN, rules(mine="events: PreToolUse, match: Bash, run: 'grep -q ls && exit 2; exit 0'"))
    found = replayed(project, run_commands=True)
    assert changes(found) == {"mine": {("none", "deny"): 1, ("deny", "none"): 1}} and found.unknown == 0
    project.write(OWN, "hooks: {}\n")
    project.write("hooks.yaml", rules(theirs="events: PreToolUse, match: Bash, run: 'exit 2'"))
    assert reasons(replayed(project, run_commands=True)) == {"theirs runs code": 2}


def test_hooks_of_the_calling_program(project: Project) -> None:
    """They are in no file: their answers stay as they were."""
    project.write(OWN, "hooks: {}\n")
    own = on("PreToolUse", name="own")(lambda event: deny("not here"))
    event = {"hook_event_name": "PreToolUse", "session_id": "s", "cwd": str(project.folder), "tool_name": "Bash"}
    project.load(builtins=True).engine(hooks=[own]).fire_sync(parse({**event, "tool_input": {"command": "ls"}}))
    found = replayed(project)
    assert (found.events, found.different, found.unknown) == (1, 0, 0)


# -- what depends on its time


def test_redacted_text(project: Project) -> None:
    """Unknown where a rule looks at it; the content of a written file is not looked at."""
    project.write(OWN, rules(push=PUSH))
    project.fire("Bash", f"curl -H 'Authorization: {SECRET}' http://x", builtins=True)
    event = {"hook_event_name": "PreToolUse", "session_id": "s", "cwd": str(project.folder), "tool_name": "Write"}
    given = {"file_path": "a.txt", "content": f"Authorization: {SECRET}"}
    project.load(builtins=True).engine().fire_sync(parse({**event, "tool_input": given}))
    assert all(record.redacted for record in records(project))
    assert reasons(replayed(project)) == {"a part of its input was redacted": 1}


def test_the_branch_of_that_time(project: Project) -> None:
    """A new hook with `branch` is unknown where its other conditions are true; an unchanged one answered then."""
    hook = "events: PreToolUse, if: 'Bash(git commit *)', branch: main, deny: no commits on main"
    (project.folder / ".git").rmdir()
    subprocess.run(["git", "init", "-q", "-b", "main", str(project.folder)], check=True)
    project.write(OWN, rules(other=PUSH))
    project.fire("Bash", "git commit -m x", builtins=True)
    project.fire("Bash", "ls", builtins=True)
    project.write(OWN, rules(main=hook))
    assert reasons(replayed(project)) == {"main: a condition depends on files of that time": 1}
    project.fire("Bash", "git commit -m x", builtins=True)
    subprocess.run(["git", "-C", str(project.folder), "symbolic-ref", "HEAD", "refs/heads/work"], check=True)
    found = replayed(project)
    assert (found.unknown, found.stopped, found.different) == (1, 1, 0)


def test_uncommitted_work_of_that_time(project: Project) -> None:
    """The guard's answer in the log counts where its settings are the same; else it is unknown."""
    (project.folder / ".git").rmdir()
    git = ["git", "-C", str(project.folder), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", "init", "-q", str(project.folder)], check=True)
    project.write("app.py", "1\n")
    subprocess.run([*git, "add", "-A"], check=True)
    subprocess.run([*git, "commit", "-qm", "x"], check=True)
    project.write("app.py", "2\n")
    assert project.fire("Bash", "git checkout app.py", builtins=True).decision == "ask"
    subprocess.run([*git, "commit", "-qam", "y"], check=True)
    found = replayed(project)
    assert (found.different, found.unknown, found.stopped) == (0, 0, 1)
    project.write(OWN, "guard: {force-push: deny}\n")
    assert reasons(replayed(project)) == {"the guard's answer depends on the files of that time (discard)": 1}


def test_an_allow_rule_that_was_removed(project: Project) -> None:
    """The log's answer does not count then: the guard was overruled."""
    project.write(OWN, "permissions: {allow: ['Bash(git stash drop)']}\n")
    project.fire("Bash", "git stash drop", builtins=True)
    project.write(OWN, "hooks: {}\n")
    assert replayed(project).unknown == 1


def test_a_folder_that_is_gone(project: Project) -> None:
    """Where a path leads from there is unknown; a command without effects is judged."""
    gone = str(project.folder / "gone")
    made = [content(str(project.folder), cwd=gone, input={"command": text}) for text in ("rm -rf ../x", "ls")]
    write(project.root, str(project.folder), made)
    assert reasons(replayed(project)) == {"its folder no longer exists": 1}


@pytest.mark.parametrize("tests", ["file_exists: go.mod", "changed_files: '**'", "not: {file_exists: go.mod}"])
def test_tests_of_files(project: Project, tests: str) -> None:
    project.write(OWN, "hooks: {}\n")
    project.fire("Bash", "ls", builtins=True)
    project.write(OWN, rules(a=f"events: PreToolUse, when: {{{tests}}}, deny: not now"))
    assert replayed(project).unknown == 1


def test_a_hook_that_only_informs_leaves_no_doubt(project: Project) -> None:
    project.write(OWN, "hooks: {}\n")
    project.fire("Bash", "ls", builtins=True)
    project.write(OWN, rules(a="events: PreToolUse, when: {file_exists: go.mod}, inject: Go"))
    assert replayed(project).unknown == 0


def test_records_without_input(project: Project) -> None:
    project.write(OWN, "builtins: {event-logger: {options: {include_input: false}}}\n")
    project.fire("Bash", "ls", builtins=True)
    assert reasons(replayed(project)) == {"the log does not have its input": 1}


# -- hooks with a memory


def at(second: int, session: str, command: str, turn: int = 1, **more: Any) -> dict[str, Any]:
    when = f"2026-03-01T10:{second // 60:02}:{second % 60:02}.000000Z"
    fields = {"time": when, "session_id": session, "turn_id": f"{session}:{turn}", "input": {"command": command}}
    return {**fields, **more}


def judged(project: Project, text: str, *made: dict[str, Any]) -> list[str]:
    """The decisions of rules about some events, in order."""
    project.write(OWN, text)
    log = write(project.root, str(project.folder), [content(str(project.folder), **one) for one in made])
    judges = Judges()
    return [judges.of(str(project.folder), "claude").judge(entry.record).word for entry in log.forward()]


def test_once_and_cooldown(project: Project) -> None:
    """In the order of the log, by session, at the time of the events."""
    events = [at(0, "a", "ls"), at(5, "b", "ls"), at(20, "a", "ls"), at(31, "a", "ls", 2)]
    once = rules(a="events: PreToolUse, match: Bash, once: session, ask: sure?")
    assert judged(project, once, *events) == ["ask", "ask", "none", "none"]
    cool = rules(a="events: PreToolUse, match: Bash, cooldown: 30, ask: sure?")
    assert judged(project, cool, *events)[:4] == ["ask", "none", "none", "ask"]


def test_rate_limits(project: Project) -> None:
    """Per turn and per minute, by the recorded turns and times."""
    events = [at(0, "a", "curl x"), at(5, "a", "curl x"), at(6, "a", "curl x", 2), at(70, "b", "ls")]
    limit = "builtins: {{rate-limit: {{options: {{limits: [{{rule: 'Bash(curl *)', at_most: 1, per: {}}}]}}}}}}\n"
    assert judged(project, limit.format("turn"), *events) == ["none", "deny", "none", "none"]
    assert judged(project, limit.format("session"), *events)[:4] == ["none", "deny", "deny", "none"]


def test_limits_of_tokens(project: Project) -> None:
    """The tokens of that time are not known: only the same limits have their recorded answers."""
    limits = "builtins: {{rate-limit: {{options: {{at_most: {}, of: tokens, per: session}}}}}}\n"
    line = {"message": {"id": "1", "model": "m", "usage": {"input_tokens": 15}}}
    transcript = project.write("transcript.jsonl", json.dumps(line) + "\n")
    project.write(OWN, limits.format(20))
    engine = project.load(builtins=True).engine()
    for _ in range(2):
        engine.fire_sync(
            {
                "hook_event_name": "PreToolUse",
                "session_id": "s",
                "cwd": str(project.folder),
                "transcript_path": str(transcript),
                "tool_name": "Bash",
                "tool_input": {"command": "ls"},
            }
        )
        line["message"]["id"] = "2"
        transcript.write_text(transcript.read_text() + json.dumps(line) + "\n")
    assert [one.decision for one in records(project)] == ["none", "deny"]
    assert replayed(project).unknown == 0
    project.write(OWN, limits.format(5))
    assert [*replayed(project).unknowns] == ["rate-limit depends on the tokens at that time"]


def test_after_an_effect(project: Project) -> None:
    text = rules(a="events: PreToolUse, effect: [upload, write], after_effect: [read-secret], deny: not after secrets")
    text = "guard: off\n" + text
    found = judged(project, text, at(0, "a", "echo 1 > x"), at(1, "a", "cat .env"), at(2, "a", "echo 1 > x"))
    assert found == ["none", "none", "deny"]


def test_results_of_a_hook_that_runs_code(project: Project) -> None:
    """Its data are not in the log: a hook that depends on them is unknown, unless it is the same hook."""
    data = """run: "echo '{\\"data\\": {\\"x\\": \\"big\\"}}'", dialect: spec"""
    first = f"events: PreToolUse, match: Bash, {data}"
    later = "events: PreToolUse, match: Bash, after: [first], when: {results.first.data.x: big}, ask: sure?"
    project.write("hooks.yaml", rules(first=first, later=later))
    project.approve(builtins=True)
    assert project.fire("Bash", "ls", builtins=True).decision == "ask"
    found = replayed(project)
    assert (found.different, found.unknown) == (0, 0)
    project.write("hooks.yaml", rules(first=first, later=later.replace("ask:", "deny:")))
    found = replayed(project)
    assert (found.different, reasons(found)) == (0, {"later: a condition depends on a hook that runs code": 1})


# -- other rules


def test_rules_of_a_file(project: Project) -> None:
    """In place of the project's hooks.yaml; the user's own rules stay."""
    project.write(OWN, rules(push=PUSH))
    project.write("hooks.yaml", rules(old="events: PreToolUse, if: 'Bash(make *)', deny: not now"))
    project.approve(builtins=True)
    for command in ("make x", "git push x", "npm x"):
        project.fire("Bash", command, builtins=True)
    new = project.write("new.yaml", rules(new="events: PreToolUse, if: 'Bash(npm *)', deny: not now"))
    found = replayed(project, instead=replay.rules_from(str(new), str(project.folder)))
    assert changes(found) == {"old": {("deny", "none"): 1}, "new": {("none", "deny"): 1}}
    assert Judges().of(str(project.folder), "").unapproved == []


def test_rules_of_a_revision(project: Project) -> None:
    """The project's files as they were committed; a file that did not exist then is left out."""
    (project.folder / ".git").rmdir()
    git = ["git", "-C", str(project.folder), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", "init", "-q", str(project.folder)], check=True)
    project.write(".billhook/hooks.yaml", rules(old="events: PreToolUse, if: 'Bash(make *)', deny: not now"))
    subprocess.run([*git, "add", "-A"], check=True)
    subprocess.run([*git, "commit", "-qm", "x"], check=True)
    project.write(".billhook/hooks.yaml", "hooks: {}\n")
    project.write("hooks.yaml", rules(later="events: PreToolUse, if: 'Bash(ls *)', deny: not now"))
    for command in ("make x", "ls -l"):
        project.fire("Bash", command, builtins=True)
    then = replayed(project, instead=replay.rules_from("HEAD", str(project.folder)))
    assert changes(then) == {"old": {("none", "deny"): 1}}
    assert changes(replayed(project)) == {"later": {("none", "deny"): 1}}


# -- many records


def generated(project: Project, number: int) -> dict[str, int]:
    """A log with so many records, and how many of them each new rule strikes."""
    sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
    from replaying import write_log

    struck = {"push": 0, "npm": 0, "env": 0}

    def made() -> Iterator[dict[str, Any]]:
        folder = str(project.folder)
        for count in range(number):
            command = f"echo {count % 700}"
            if count % 1009 == 7:
                struck["push"], command = struck["push"] + 1, f"git push origin b{count % 5}"
            elif count % 1511 == 9:
                struck["npm"], command = struck["npm"] + 1, "npm install"
            tool, given = "Bash", {"command": command}
            if count % 3001 == 11:
                struck["env"] += 1
                tool, given = "Write", {"file_path": f"{folder}/.env", "content": "x"}
            yield content(folder, id=f"{count:032x}", tool=tool, input=given, outcomes=[said("guard")])

    write_log(project.root, str(project.folder), made())
    return struck


CHANGED = rules(
    push=PUSH,
    npm="events: PreToolUse, if: 'Bash(npm *)', deny: Use pnpm",
    env="events: PreToolUse, if: 'Write(.env)', deny: not now",
)


@pytest.mark.parametrize("number", [8_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_a_generated_log(project: Project, number: int) -> None:
    """Exactly the prepared differences, and memory does not grow with the log."""
    struck = generated(project, number)
    project.write(OWN, CHANGED)
    replayed(project)  # imports and caches
    tracemalloc.start()
    found = replayed(project)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert {hook: group.count for hook, group in found.hooks.items()} == struck
    assert (found.events, found.unknown) == (number, 0)
    assert peak < 8e6, peak
