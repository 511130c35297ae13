"""Layers add up, consent determines what runs, and a loaded configuration does not change."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from billhook import Decision, Hook, Status
from billhook.config import load, load_config
from billhook.config.trust import ChangedError, approve, approve_entry
from billhook.core.errors import UsageError
from billhook.core.events import PreToolUse
from config.project import Project, codes, entry, states

DENY = "hooks:\n  {name}:\n    events: PreToolUse\n    deny: refused by {name}\n"
USER = "~/.config/billhook/hooks.yaml"


def statuses(verdict: Any) -> dict[str, str]:
    return {outcome.hook: outcome.status.value for outcome in verdict.outcomes}


# -- layers ------------------------------------------------------------------------------------------------------


def test_layers_add_up(project: Project) -> None:
    """The same name in two layers: both run, shown as layer/name."""
    project.write(USER, "hooks:\n  a: {events: PreToolUse, inject: user}\n")
    project.write("hooks.yaml", "hooks:\n  a: {events: PreToolUse, inject: project}\n")
    project.approve()
    verdict = project.fire()
    assert verdict.context == ("user", "project")
    assert list(statuses(verdict)) == ["user/a", "project/a"]


@pytest.mark.parametrize("layer", ["project", "local"])
def test_no_layer_below_switches_off_hooks_of_the_user(project: Project, layer: str) -> None:
    """Neither `enabled: false` nor `disableAllHooks` reaches a more trusted layer, and the attempt is a finding."""
    project.write(USER, DENY.format(name="guard"))
    name = "hooks.yaml" if layer == "project" else ".billhook/hooks.local.yaml"
    project.write(name, "disableAllHooks: true\nhooks:\n  guard: {enabled: false}\n")
    project.approve()
    assert project.fire().decision is Decision.DENY
    assert codes(project.load()) == ["BH215"]


def test_the_user_switches_off_hooks_of_layers_below(project: Project) -> None:
    """One hook by its name, or all."""
    project.write("hooks.yaml", DENY.format(name="noisy") + "  other: {events: PreToolUse, inject: here}\n")
    project.approve()
    project.write(USER, "hooks:\n  noisy: {enabled: false}\n")
    config = project.load()
    assert states(config) == {"noisy": "off", "other": "runs"}
    assert f"enabled: false` in {project.path(USER)}:2" in entry(config, "noisy").why
    project.write(USER, "disableAllHooks: true\n")
    assert states(project.load()) == {"noisy": "off", "other": "off"}


def test_one_hook_switched_off_in_place(project: Project) -> None:
    """`enabled: false` on the hook itself."""
    project.write("hooks.yaml", "hooks:\n  a: {events: PreToolUse, deny: no way, enabled: false}\n")
    config = project.load()
    assert states(config) == {"a": "off"} and config.pending == ()


def test_identical_hooks_run_once_with_the_strictest_rule(project: Project) -> None:
    """The user's copy stays; an approved copy of a layer below can only make it stricter."""
    project.write(USER, "hooks:\n  mine: {events: PreToolUse, run: exit 9}\n")
    project.write("hooks.yaml", "hooks:\n  theirs: {events: PreToolUse, run: exit 9, gate: true}\n")
    assert project.fire().decision is Decision.NONE  # not approved: no effect
    project.approve()
    verdict = project.fire()
    assert verdict.decision is Decision.DENY and list(statuses(verdict)) == ["mine"]
    assert states(project.load()) == {"mine": "runs", "theirs": "same"}


def test_parallel_counts_only_if_no_layer_above_relies_on_order(project: Project) -> None:
    """A project can't make the user's hooks run in parallel."""
    project.write("hooks.yaml", "parallelExecution: true\nhooks:\n  a: {events: Stop, run: x}\n")
    assert project.load().parallel is False  # none of its hooks is approved
    project.approve()
    assert project.load().parallel is True
    project.write(USER, "hooks:\n  b: {events: Stop, run: x}\n")
    assert project.load().parallel is False
    project.write(USER, "parallelExecution: true\nhooks:\n  b: {events: Stop, run: x}\n")
    assert project.load().parallel is True
    project.write(USER, "parallelExecution: false\n")
    assert project.load().parallel is False


def test_the_most_trusted_layer_sets_builtins(project: Project) -> None:
    """A project may set options that the user did not set; it can't switch a built-in off."""
    project.write(USER, "builtins:\n  turn-tracker: {options: {inject_context: true}}\n  session-naming: false\n")
    project.write(
        "hooks.yaml",
        "builtins:\n  turn-tracker: {enabled: false, options: {inject_context: false, preserve_on_resume: true}}\n"
        "  session-naming: {enabled: true}\n  guard: {enabled: false}\n",
    )
    config = project.load()
    tracker = config.builtins["turn-tracker"]
    assert (tracker.enabled, tracker.options) == (None, {"inject_context": True, "preserve_on_resume": True})
    assert config.builtins["session-naming"].enabled is False
    assert codes(config) == ["BH215", "BH215"]


def test_allow_lists_for_http_only_narrow(project: Project) -> None:
    """The list of every layer must allow the URL."""
    project.write("~/.claude/settings.json", {"allowedHttpHookUrls": ["https://good.example/*"]})
    project.write(".claude/settings.json", {"allowedHttpHookUrls": ["*"]})
    project.write("hooks.yaml", "hooks:\n  h: {events: PreToolUse, url: 'https://bad.example/x', gate: true}\n")
    project.approve()
    verdict = project.fire()
    assert verdict.decision is Decision.DENY and "not an allowed address" in str(verdict.reason)


# -- consent -----------------------------------------------------------------------------------------------------


def test_nothing_of_a_project_runs_before_it_is_approved(project: Project) -> None:
    """Before approval hooks are skipped and named; after it they run. Approval is per hook."""
    marker = project.folder / "ran"
    project.write(
        "hooks.yaml", f"hooks:\n  a: {{events: PreToolUse, run: 'touch {marker}'}}\n" + DENY[7:].format(name="b")
    )
    config = project.load()
    assert states(config) == {"a": "new", "b": "new"} and len(config.pending) == 2
    verdict = project.fire()
    assert verdict.decision is Decision.NONE and statuses(verdict) == {"a": "skipped", "b": "skipped"}
    assert not marker.exists()
    approve(entry(config, "a").hash, cwd=project.folder, home=project.root)
    assert states(project.load()) == {"a": "runs", "b": "new"}
    project.fire()
    assert marker.exists()


def test_trust_all_and_none(project: Project) -> None:
    """For users of the library: everything this once, or nothing from the project."""
    project.write("hooks.yaml", DENY.format(name="a"))
    assert project.fire(trust="all").decision is Decision.DENY
    project.approve()
    assert project.fire(trust="none").decision is Decision.NONE
    with pytest.raises(UsageError, match="unknown value of `trust`: `some`"):
        project.load(trust="some")


def test_one_byte_of_a_script(project: Project) -> None:
    """It affects only that hook: a gate denies, another hook is skipped, until it is approved again."""
    project.script("gate.sh", "exit 0")
    project.script("plain.sh", "exit 0")
    project.script("other.sh", 'echo \'{"systemMessage": "other"}\'')
    project.write(
        "hooks.yaml",
        "hooks:\n  gate: {events: PreToolUse, match: Bash, run: ./gate.sh, gate: true}\n"
        "  plain: {events: PreToolUse, run: ./plain.sh}\n  other: {events: PreToolUse, run: ./other.sh}\n",
    )
    project.approve()
    assert statuses(project.fire()) == {"gate": "ok", "plain": "ok", "other": "ok"}
    project.script("plain.sh", "exit 0 ")
    verdict = project.fire()
    assert verdict.decision is Decision.NONE and verdict.messages == ("other",)
    assert statuses(verdict) == {"gate": "ok", "plain": "skipped", "other": "ok"}
    project.script("gate.sh", "exit 0 ")
    verdict = project.fire()
    assert verdict.decision is Decision.DENY and "gate.sh has changed since it was approved" in str(verdict.reason)
    assert project.fire("Write").decision is Decision.NONE  # it never judged that
    assert sorted(project.approve()) == ["gate", "plain"]
    assert statuses(project.fire()) == {"gate": "ok", "plain": "ok", "other": "ok"}


def test_during_a_run(project: Project) -> None:
    """The configuration is a snapshot, but an approved script that changes later does not run."""
    project.script("gate.sh", "exit 0")
    project.write("hooks.yaml", "hooks:\n  gate: {events: PreToolUse, run: ./gate.sh, gate: true}\n")
    project.approve()
    engine = project.load().engine()
    event = PreToolUse(tool_name="Bash", tool_input={"command": "ls"}, cwd=str(project.folder))
    assert engine.fire_sync(event).decision is Decision.NONE
    project.write("hooks.yaml", "hooks: {}\n")
    assert len(engine.fire_sync(event).outcomes) == 1
    os.utime(project.path("gate.sh"))  # touched, the same content
    assert engine.fire_sync(event).decision is Decision.NONE
    project.script("gate.sh", "exit 0 # changed")
    assert engine.fire_sync(event).decision is Decision.DENY


CHANGES: dict[str, str] = {
    "the command": "{events: PreToolUse, match: Bash, run: 'true', gate: true}",
    "the matcher is narrowed": "{events: PreToolUse, match: Nothing, run: ./gate.sh, gate: true}",
    "not a gate any more": "{events: PreToolUse, match: Bash, run: ./gate.sh}",
    "another event": "{events: Stop, match: Bash, run: ./gate.sh, gate: true}",
    "the timeout": "{events: PreToolUse, match: Bash, run: ./gate.sh, gate: true, timeout: 0.001}",
    "broken": "{events: PreToolUse, match: 5, run: ./gate.sh}",
}


@pytest.mark.parametrize("row", CHANGES)
def test_a_gate_that_was_changed_in_its_file(project: Project, row: str) -> None:
    """It denies the events that the approved gate judged, whatever it is now."""
    project.script("gate.sh", "exit 0")
    project.write("hooks.yaml", "hooks:\n  g: {events: PreToolUse, match: Bash, run: ./gate.sh, gate: true}\n")
    project.approve()
    assert project.fire().decision is Decision.NONE
    project.write("hooks.yaml", f"hooks:\n  g: {CHANGES[row]}\n")
    assert states(project.load()) == {"g": "changed"}
    assert project.fire().decision is Decision.DENY


def test_a_nameless_gate_that_was_changed(project: Project) -> None:
    """In a settings file hooks have no names: an entry in the place of an approved gate counts as that gate."""

    def settings(*commands: str) -> dict[str, Any]:
        handlers = [{"type": "command", "command": one, "onFailure": "block"} for one in commands]
        return {"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": handlers}]}}

    project.write(".claude/settings.json", settings("exit 0"))
    project.approve()
    project.write(".claude/settings.json", settings("true"))
    assert project.fire().decision is Decision.DENY
    project.approve()
    assert project.fire().decision is Decision.NONE
    project.write(".claude/settings.json", settings("true", "echo new"))  # an additional hook beside an approved one
    assert sorted(states(project.load()).values()) == ["new", "runs"]
    assert project.fire().decision is Decision.NONE
    project.write(".claude/settings.json", settings("exit 0"))  # another branch: still approved
    assert project.fire().decision is Decision.NONE


def test_moving_and_reordering_needs_no_new_approval(project: Project) -> None:
    """Approval depends on content, not on lines."""
    one, two = "  a: {events: Stop, run: x}\n", "  b: {run: y, events: [Stop]}\n"
    project.write("hooks.yaml", f"hooks:\n{one}{two}")
    project.approve()
    project.write("hooks.yaml", f"# moved\n\nhooks:\n{two}{one}")
    assert states(project.load()) == {"b": "runs", "a": "runs"}


def test_only_what_was_shown_is_approved(project: Project) -> None:
    """A change between the review and the approval is refused."""
    project.script("a.sh", "exit 0")
    project.write("hooks.yaml", "hooks:\n  a: {events: Stop, run: ./a.sh}\n")
    (pending,) = project.load().pending
    assert pending.hash
    project.script("a.sh", "exit 0; evil")
    with pytest.raises(ChangedError):
        approve_entry(pending, project.root)
    assert states(project.load()) == {"a": "new"}


def test_an_approval_is_for_one_file(project: Project, tmp_path: Path) -> None:
    """The same hook in another project must be approved there."""
    project.write("hooks.yaml", DENY.format(name="a"))
    project.approve()
    other = tmp_path / "other"
    (other / ".git").mkdir(parents=True)
    (other / "hooks.yaml").write_text(DENY.format(name="a"))
    assert states(project.load(cwd=other)) == {"a": "new"}


# -- bad entries and bad files ---------------------------------------------------------------------------------------


def test_a_bad_gate_blocks_what_it_would_have_judged(project: Project) -> None:
    """Until it is fixed or removed; an unapproved one has no effect."""
    bad = "hooks:\n  g: {events: PreToolUse, match: Bash, rum: ./x.sh, gate: true}\n"
    project.write("hooks.yaml", bad)
    assert project.fire().decision is Decision.NONE
    project.approve()
    verdict = project.fire()
    assert verdict.decision is Decision.DENY and "unknown key `rum`" in str(verdict.reason)
    assert project.fire("Write").decision is Decision.NONE
    project.write("hooks.yaml", "hooks: {}\n")
    assert project.fire().decision is Decision.NONE
    project.write(USER, bad)
    assert project.fire().decision is Decision.DENY


def test_a_handler_that_is_not_supported_yet(project: Project) -> None:
    """It is reported; with onFailure block it blocks."""
    handler = {"type": "prompt", "prompt": "fine?"}
    project.write("~/.claude/settings.json", {"hooks": {"PreToolUse": [{"hooks": [handler]}]}})
    config = project.load()
    assert states(config) == {"prompt": "not yet"} and codes(config) == ["BH207"]
    assert project.fire().decision is Decision.NONE
    handler["onFailure"] = "block"
    project.write("~/.claude/settings.json", {"hooks": {"PreToolUse": [{"hooks": [handler]}]}})
    assert project.fire().decision is Decision.DENY


UNREADABLE: dict[str, tuple[dict[str, str], str]] = {
    # files, the decision about a Bash call
    "the user's, nothing else": ({"~/.claude/settings.json": "{"}, "none"),
    "the user's, it speaks of a gate": ({"~/.claude/settings.json": '{"onFailure": "block"'}, "deny"),
    "the user's, beside a gate": (
        {"~/.claude/settings.json": "{", USER: "hooks:\n  g: {events: PreToolUse, run: exit 0, gate: true}\n"},
        "deny",
    ),
    "the user's, beside a gate for another event": (
        {"~/.claude/settings.json": "{", USER: "hooks:\n  g: {events: PreCompact, run: exit 0, gate: true}\n"},
        "none",
    ),
    "a clone's, beside the user's gate": (
        {".claude/settings.json": '{"onFailure"', USER: "hooks:\n  g: {events: PreToolUse, run: exit 0, gate: true}\n"},
        "none",
    ),
}


@pytest.mark.parametrize("row", UNREADABLE)
def test_a_file_that_cannot_be_read(project: Project, row: str) -> None:
    """It blocks the events that a gate in it may have judged: a missing brace does not switch off a gate."""
    files, decision = UNREADABLE[row]
    for name, text in files.items():
        project.write(name, text)
    config = project.load()
    assert [read.source.path for read in config.unreadable] == [str(project.path(next(iter(files))))]
    assert config.problems and project.fire().decision.value == decision


def test_an_approved_gate_whose_file_is_broken(project: Project) -> None:
    """An agent can't disarm a gate by removing a brace."""
    project.write("hooks.yaml", "hooks:\n  g: {events: PreToolUse, match: Bash, run: exit 0, gate: true}\n")
    project.approve()
    project.write("hooks.yaml", "hooks:\n  g: {events: PreToolUse, match: Bash, run: exit 0, gate: tr\n")
    verdict = project.fire()
    assert verdict.decision is Decision.DENY and "can't be read" in str(verdict.reason)


def test_missing_names_and_cycles(project: Project) -> None:
    """They break only the hooks that are part of them; built-ins may always be named."""
    project.write(
        USER,
        "hooks:\n  a: {events: PreToolUse, inject: a, after: [b]}\n  b: {events: PreToolUse, inject: b, after: a}\n"
        "  c: {events: PreToolUse, inject: c, after: [missing]}\n"
        "  d: {events: PreToolUse, inject: d, after: [turn-tracker]}\n"
        "  e: {events: PreToolUse, inject: e, after: [d], priority: 1}\n"
        "  f: {events: PreToolUse, inject: f, after: [f]}\n",
    )
    config = project.load()
    assert states(config) == {"a": "broken", "b": "broken", "c": "broken", "d": "runs", "e": "runs", "f": "broken"}
    assert sorted(codes(config)) == ["BH212", "BH213", "BH213", "BH213"]
    assert "a -> b -> a" in [one.message.partition(": ")[2] for one in config.problems]
    assert project.fire().context == ("d", "e")


def test_a_gate_in_a_cycle_blocks(project: Project) -> None:
    """It can't run, so it fails closed."""
    project.write(USER, "hooks:\n  a: {events: PreToolUse, run: x, gate: true, after: [a]}\n")
    assert project.fire().decision is Decision.DENY


# -- variables -----------------------------------------------------------------------------------------------------


def test_variables(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """`${VAR}`, `${VAR:-default}`, and `$${VAR}` for a literal `${VAR}`."""
    monkeypatch.setenv("WHO", "you")
    monkeypatch.delenv("UNSET", raising=False)
    project.write(USER, "hooks:\n  a: {events: PreToolUse, inject: 'hi ${WHO} ${UNSET:-me} ${UNSET:-} $${WHO} $WHO'}\n")
    assert project.fire().context == ("hi you me  ${WHO} $WHO",)
    monkeypatch.setenv("WHO", "them")
    assert project.fire().context == ("hi them me  ${WHO} $WHO",)


def test_a_variable_that_is_not_set(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hook can't be used; a gate blocks."""
    monkeypatch.delenv("UNSET", raising=False)
    project.write(USER, "hooks:\n  a: {events: PreToolUse, exec: ['${UNSET}/x']}\n")
    config = project.load()
    assert states(config) == {"a": "broken"} and codes(config) == ["BH214"]
    project.write(USER, "hooks:\n  a: {events: PreToolUse, exec: ['${UNSET}/x'], gate: true}\n")
    assert project.fire().decision is Decision.DENY


def test_variables_are_not_read_before_approval(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables that an unapproved file names are not looked up."""
    monkeypatch.setenv("SECRET", "s3cret")
    project.write("hooks.yaml", "hooks:\n  a: {events: PreToolUse, title: '${SECRET}', deny: '${SECRET}'}\n")
    config = project.load()
    assert "s3cret" not in repr(config.hooks) and "s3cret" not in project.fire().to_json()


def test_a_shell_replaces_its_variables(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """A value can't become code."""
    monkeypatch.setenv("EVIL", "x; touch evil")
    project.write(USER, 'hooks:\n  a: {events: SessionStart, run: \'echo "${EVIL}" "${NO:-none}"\'}\n')
    assert project.fire(event="SessionStart").context == ("x; touch evil none",)
    assert not (project.folder / "evil").exists()


# -- working directory-----------------------------------------------------------------------------------------------


def test_relative_commands_start_from_the_project(project: Project) -> None:
    """In every working directory of the agent; and the project's folder is in the environment."""
    project.script("tools/where.sh", 'echo "$PWD $CLAUDE_PROJECT_DIR $CLAUDE_CWD"')
    project.write("hooks.yaml", "hooks:\n  a: {events: SessionStart, run: ./tools/where.sh}\n")
    project.write(
        ".billhook/hooks.yaml",
        "hooks:\n  b: {events: SessionStart, exec: [tools/where.sh, '${CLAUDE_PROJECT_DIR:-x}']}\n",
    )
    project.approve()
    below = project.folder / "src"
    below.mkdir()
    engine = project.load(cwd=below).engine()
    verdict = engine.fire_sync({"hook_event_name": "SessionStart", "source": "startup", "cwd": str(below)})
    assert verdict.context == (f"{project.folder} {project.folder} {below}",) * 2


def test_the_shell_that_is_named(project: Project) -> None:
    """`shell: bash` is bash."""
    project.write(USER, "hooks:\n  a: {events: SessionStart, run: 'echo ${BASH_VERSION:+bash}', shell: bash}\n")
    assert project.fire(event="SessionStart").context == ("bash",)


def test_python_hooks(project: Project) -> None:
    """`python: module:function`, approved with what it imports."""
    project.write("policies/__init__.py", "")
    project.write("policies/words.py", 'NO = "not this"\n')
    project.write(
        "policies/guard.py",
        "from billhook import deny\nfrom policies.words import NO\n\ndef check(event):\n"
        "    if 'rm' in event.tool_input['command']:\n        return deny(NO)\n",
    )
    project.write(
        "hooks.yaml", "hooks:\n  p: {events: PreToolUse, match: Bash, python: 'policies.guard:check', gate: true}\n"
    )
    project.approve()
    assert project.fire(command="ls").decision is Decision.NONE
    assert project.fire(command="rm x").reason == "not this"
    project.write("policies/words.py", 'NO = "or that"\n')
    verdict = project.fire(command="ls")
    assert verdict.decision is Decision.DENY and "policies/words.py has changed" in str(verdict.reason)


# -- as a library ----------------------------------------------------------------------------------------------------


def test_a_product_with_its_own_files(project: Project) -> None:
    """It names its files and its state root, and nothing under ~/.claude is touched."""
    project.write("~/.claude/settings.json", {"hooks": {"PreToolUse": ["exit 2"]}})
    mine = project.write("product/rules.yaml", DENY.format(name="mine"))
    engine = load(project.folder, files=[mine], home=project.root)
    names = [hook.name for hook in engine.hooks]
    assert names == ["metrics", "turn-tracker", "session-naming", "event-logger", "mine", "guard"]
    assert sorted(path.name for path in (project.home / ".claude").iterdir()) == ["settings.json"]
    assert [hook.name for hook in load(project.folder, files=[mine], builtins=False, home=project.root).hooks] == [
        "mine"
    ]


def test_the_managed_layer_is_known(project: Project) -> None:
    """Layers can be selected by name."""
    project.write("hooks.yaml", DENY.format(name="a"))
    assert states(project.load(layers=["managed", "user"])) == {}
    assert states(project.load(layers=["project"])) == {"a": "new"}


def test_the_state_root_of_the_environment(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """BILLHOOK_HOME, or ~/.claude."""
    assert load_config(project.folder).root == str(project.home / ".claude")
    monkeypatch.setenv("BILLHOOK_HOME", str(project.root))
    assert load_config(project.folder).root == str(project.root)


# -- the cached configuration ------------------------------------------------------------------------------------


def test_an_unchanged_configuration_is_not_loaded_again(project: Project) -> None:
    """The same object, until one of its inputs changes."""
    project.script("a.sh", "exit 0")
    file = project.write("hooks.yaml", "hooks:\n  a: {events: Stop, run: ./a.sh}\n")
    for path in (file, project.path("a.sh")):
        os.utime(path, (1, 1))
    _let_it_settle()
    first = project.load()
    assert project.load() is first
    project.approve()
    _let_it_settle()
    approved = project.load()
    assert approved is not first and project.load() is approved
    project.write("hooks.local.yml", "")  # not one of our files
    assert project.load() is approved
    project.write(".billhook/hooks.local.yaml", "")
    assert project.load() is not approved


def _let_it_settle() -> None:
    """Older than the coarsest clock of a file system."""
    import time

    time.sleep(0.03)


def test_every_change_is_seen(project: Project) -> None:
    """Even if a file is written again at once, with the same size."""
    for text in ("abc", "abd", "abe", "abf") * 5:
        project.write(USER, f"hooks:\n  a: {{events: PreToolUse, inject: {text}}}\n")
        assert project.fire().context == (text,)


def test_the_whole_configuration_is_plain(project: Project) -> None:
    """`list --json` and the log need plain data."""
    project.write("hooks.yaml", DENY.format(name="a"))
    (one,) = project.load().pending
    assert (one.declared.layer, one.declared.line, len(one.hash)) == ("project", 2, 64)
    json.dumps(one.declared.places)


def test_a_missing_script_of_an_approved_hook(project: Project) -> None:
    """A missing script has a separate status, for approved hooks too."""
    project.write("hooks.yaml", "hooks:\n  a: {events: PreToolUse, run: ./missing.sh}\n")
    project.approve()
    (outcome,) = project.fire().outcomes
    assert outcome.status is Status.COULD_NOT_START and outcome.failed_open


def test_the_project_that_was_approved_is_the_one_that_runs(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """`$CLAUDE_PROJECT_DIR` of another project in the environment does not redirect an approved command."""
    elsewhere = project.folder.parent / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "a.sh").write_text("#!/bin/sh\necho evil\n")
    (elsewhere / "a.sh").chmod(0o755)
    project.script("a.sh", "echo good")
    project.write("hooks.yaml", "hooks:\n  a: {events: SessionStart, run: '\"$CLAUDE_PROJECT_DIR\"/a.sh'}\n")
    project.approve()
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(elsewhere))
    assert project.fire(event="SessionStart").context == ("good",)


@pytest.mark.parametrize("value", [".inf", ".nan", "1e999", "true", "'5'"])
def test_invalid_numbers(project: Project, value: str) -> None:
    """A priority or a timeout that can't be compared breaks only its own hook."""
    project.write(USER, f"hooks:\n  a: {{events: Stop, run: x, priority: {value}}}\n  b: {{events: Stop, run: x}}\n")
    assert states(project.load()) == {"a": "broken", "b": "runs"}


def test_expressions_of_one_file_are_counted(project: Project) -> None:
    """An unapproved file can't delay other hooks with many expressions. Plain names are not limited."""
    many = "".join(f"  h{i}: {{events: PreToolUse, match: 'x{i}.*', deny: x}}\n" for i in range(203))
    names = "".join(f"  n{i}: {{events: PreToolUse, match: 'Tool{i}|Other', deny: x}}\n" for i in range(300))
    project.write("hooks.yaml", f"hooks:\n{names}{many}")
    assert codes(project.load()) == ["BH209"] * 3
    project.write("hooks.yaml", "hooks:\n  a: {events: Stop, match: '(?:\\pL{1,900}x)', deny: x}\n")
    assert codes(project.load()) == ["BH209"]


def test_the_size_of_a_projects_file(project: Project) -> None:
    """A file that is too large can't be read; the user's file may be larger."""
    text = "hooks:\n  a: {events: PreToolUse, deny: x}\n" + "# " + "x" * 300_000 + "\n"
    project.write("hooks.yaml", text)
    assert codes(project.load()) == ["BH103"]
    project.write("hooks.yaml", "")
    project.write(USER, text)
    assert project.fire().decision is Decision.DENY


def test_a_fixed_deny_fails_closed_by_default(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """A `deny` or `ask` that can't be used blocks; with `on_failure: allow` it does not."""
    monkeypatch.delenv("UNSET", raising=False)
    for slip in ("deny: no", "deny: '${UNSET}'", "ask: [sure]"):
        project.write(USER, f"hooks:\n  a: {{events: PreToolUse, match: Bash, {slip}}}\n")
        assert project.fire().decision is Decision.DENY, slip
        assert project.fire("Write").decision is Decision.NONE, slip
        project.write(USER, f"hooks:\n  a: {{events: PreToolUse, match: Bash, {slip}, on_failure: allow}}\n")
        assert project.fire().decision is Decision.NONE, slip


def test_hooks_of_the_caller(project: Project) -> None:
    """They run among the configured hooks, by priority; they can't have the names of built-ins."""
    project.write(USER, DENY.format(name="mine"))
    early = Hook(name="early", run=lambda ctx: None, priority=7)
    names = [hook.name for hook in load(project.folder, home=project.root, hooks=[early]).hooks]
    assert names.index("turn-tracker") < names.index("early") < names.index("session-naming") < names.index("mine")
    with pytest.raises(UsageError, match="the name of a built-in"):
        load(project.folder, home=project.root, hooks=[Hook(name="turn-tracker", run=lambda ctx: None)])
