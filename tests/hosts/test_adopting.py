"""`--adopt`: an agent's handlers become hooks that do the same, and are restored unchanged."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from billhook.agents import AGENTS
from billhook.agents.base import Scope
from billhook.config import load_config
from billhook.config.edit_yaml import with_hooks
from billhook.core.errors import BillhookError
from hosts.installed import Home

COMMENTED = """\
# our hooks
hooks:            # all of them
  # the first
  mine:
    events: Stop
    run: echo hi  # a tail

  other:
    events: Stop
    run: |
      echo 1
      echo 2

# behind them
settings: {timeout: 30}
"""
TWO: dict[str, list[dict[str, Any]]] = {
    "PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "./guard.sh", "timeout": 7}]}],
    "Stop": [{"hooks": [{"type": "command", "command": "make test"}]}],
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    found = Home(tmp_path)
    monkeypatch.setenv("HOME", str(found.home))
    return found


def hooks_of(home: Home) -> dict[str, Any]:
    """The hooks in the project's hooks.yaml, by name, without their origin."""
    found: dict[str, Any] = yaml.safe_load((home.project / ".billhook" / "hooks.yaml").read_text())["hooks"]
    return {name: {key: value for key, value in one.items() if key != "x-adopted"} for name, one in found.items()}


def claude(**handler: Any) -> dict[str, Any]:
    return {"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", **handler}]}]}}


@pytest.mark.parametrize(
    ("handler", "hook"),
    [
        pytest.param({"command": "./a.sh", "timeout": 5}, {"run": "./a.sh", "timeout": 5}, id="a command"),
        pytest.param({"command": "x"}, {"run": "x", "timeout": 600}, id="the time that the agent gives"),
        pytest.param({"command": "x", "timeout": 0.5}, {"run": "x", "timeout": 0.5}, id="half a second"),
        pytest.param(
            {"command": "x", "args": ["a b"]}, {"exec": ["x", "a b"], "timeout": 600}, id="a program and its arguments"
        ),
        pytest.param({"command": "x", "onFailure": "block"}, {"run": "x", "timeout": 600, "gate": True}, id="a gate"),
        pytest.param(
            {"command": "x", "async": True, "if": "Bash(git *)", "statusMessage": "looking"},
            {"run": "x", "if": "Bash(git *)", "background": True, "title": "looking", "timeout": 600},
            id="what is called otherwise",
        ),
        pytest.param(
            {"type": "http", "url": "https://x.test/h", "headers": {"A": "$B"}, "allowedEnvVars": ["B"]},
            {"url": "https://x.test/h", "headers": {"A": "$B"}, "allowedEnvVars": ["B"], "timeout": 600},
            id="an address",
        ),
    ],
)
def test_a_handler_as_a_hook(home: Home, handler: dict[str, Any], hook: dict[str, Any]) -> None:
    """Every field is translated, and the result is a valid file."""
    home.write(json.dumps(claude(**handler)))
    assert len(home.install(adopt=True).adopted) == 1
    (found,) = hooks_of(home).values()
    assert found == {"events": "PreToolUse", "match": "Bash", **hook}
    config = load_config(home.project, home=home.root, builtins=False)
    assert [one for one in config.problems if one.file.endswith("hooks.yaml")] == []


@pytest.mark.parametrize(
    ("host", "text", "hook"),
    [
        pytest.param(
            "gemini",
            {
                "BeforeTool": [
                    {
                        "matcher": "run_shell_command|write_f.*",
                        "sequential": True,
                        "hooks": [{"name": "looker", "type": "command", "command": "x", "timeout": 2500}],
                    }
                ]
            },
            {
                "looker": {
                    "events": "PreToolUse",
                    "match": "run_shell_command|write_f.*|Bash|Write",
                    "run": "x",
                    "dialect": "gemini",
                    "timeout": 2.5,
                }
            },
            id="gemini",
        ),
        pytest.param(
            "qwen",
            {"Stop": [{"hooks": [{"type": "command", "command": "x"}]}]},
            {"x": {"events": "Stop", "run": "x", "dialect": "qwen", "timeout": 60}},
            id="qwen",
        ),
        *(
            pytest.param(
                "qwen",
                {"Stop": [{"hooks": [{"type": "command", "command": "x", "timeout": written}]}]},
                {"x": {"events": "Stop", "run": "x", "dialect": "qwen", "timeout": seconds}},
                id=f"qwen, {written}",
            )
            for written, seconds in ((60, 60), (999, 999), (1000, 1), (60000, 60))
        ),
        pytest.param(
            "codex",
            {"PostToolUse": [{"matcher": "apply_patch", "hooks": [{"type": "command", "command": "x", "timeout": 9}]}]},
            {"x": {"events": "PostToolUse", "match": "apply_patch", "run": "x", "dialect": "codex", "timeout": 9}},
            id="codex",
        ),
        pytest.param(
            "cursor",
            {"preToolUse": [{"command": "x", "matcher": "Shell", "failClosed": True}]},
            {
                "x": {
                    "events": "PreToolUse",
                    "match": "Shell|Bash",
                    "run": "x",
                    "dialect": "cursor",
                    "timeout": 60,
                    "gate": True,
                }
            },
            id="cursor",
        ),
        pytest.param(
            "copilot",
            {"agentStop": [{"type": "command", "bash": "x", "timeoutSec": 3}]},
            {"x": {"events": "Stop", "run": "x", "dialect": "copilot", "timeout": 3}},
            id="copilot",
        ),
    ],
)
def test_handlers_of_other_agents(home: Home, host: str, text: dict[str, Any], hook: dict[str, Any]) -> None:
    """Their events, units and tools get billhook's names, and their answers are read in their dialect."""
    data = json.dumps({"version": 1, "hooks": text})
    file = home.write(data, host)
    home.install(host, adopt=True)
    assert hooks_of(home) == hook
    home.uninstall(host)
    assert file.read_text() == data


def started_together(home: Home) -> list[str]:
    """The hooks that start at the same time as their neighbours."""
    return [hook.name for hook in load_config(home.project, home=home.root, trust="all").hooks if hook.together]


def test_they_run_as_the_agent_ran_them(home: Home) -> None:
    """At the same time if the agent starts them so, else one after the other."""
    home.write(json.dumps({"hooks": TWO}))
    home.install(adopt=True)
    assert len(started_together(home)) == 2
    home.uninstall()
    entries = [{"type": "command", "bash": "x"}, {"type": "command", "bash": "y"}]
    home.write(json.dumps({"version": 1, "hooks": {"preToolUse": entries}}), "copilot")
    home.install("copilot", adopt=True)
    assert started_together(home) == ["guard", "make"]  # those are in the settings of Claude Code again


def test_a_group_that_is_sequential(home: Home) -> None:
    """One such group orders all hooks of its event, as in the agent; hooks of other events start together."""
    one, two, three, four = ({"type": "command", "command": name} for name in ("one", "two", "three", "four"))
    before = [{"matcher": "a", "sequential": True, "hooks": [one]}, {"matcher": "b", "hooks": [two]}]
    home.write(json.dumps({"hooks": {"BeforeTool": before, "AfterTool": [{"hooks": [three, four]}]}}), "gemini")
    home.install("gemini", adopt=True)
    assert started_together(home) == ["three", "four"]


@pytest.mark.parametrize(
    ("text", "together"),
    [
        ("hooks:\n  a: {events: Stop, run: x}\n  b: {events: SessionStart, run: x}\n", True),
        ("# top\r\nhooks:\r\n  a: {events: Stop, run: x}\r\n", True),
        ("version: 1\n", True),
        ("hooks:\n  a: {events: Stop, run: x}\n  b: {events: [PreToolUse, stop], run: x, priority: 5}\n", True),
        ("hooks:\n- {name: a, events: Stop, run: x}\n", True),
        ("hooks:\n  Stop:\n  - x\n", True),
        ("parallelExecution: false\nhooks:\n  a: {events: Stop, run: x}\n", False),
        ("settings: {parallelExecution: false}\nhooks:\n  a: {events: Stop, run: x}\n", False),
    ],
)
def test_in_a_file_that_is_there(home: Home, text: str, together: bool) -> None:
    """The adopted hooks start together, unless the file runs all hooks one after the other. Its own hooks keep their
    order."""
    path = home.project / ".billhook" / "hooks.yaml"
    path.parent.mkdir()
    path.write_bytes(text.encode())
    home.write(json.dumps({"hooks": TWO}))
    change = home.install(adopt=True)
    assert len(started_together(home)) == (2 if together else 0)
    assert not load_config(home.project, home=home.root, trust="all").parallel
    assert change.notes == ()
    path.write_bytes(path.read_bytes() + b"# later\n")
    assert home.uninstall().notes == ()
    assert path.read_bytes() == text.encode() + b"# later\n"


def test_the_agent_waits_as_long_as_they_may_take(home: Home) -> None:
    """The timeout of the entry covers the slowest hook."""
    slow = {"type": "command", "command": "x", "timeout": 300}
    home.write(json.dumps({"hooks": {"PreToolUse": [{"hooks": [slow]}]}}))
    home.install(adopt=True)
    (group,) = json.loads(home.file().read_text())["hooks"]["PreToolUse"]
    assert group["hooks"][0]["timeout"] == 302
    assert "--deadline 300000" in group["hooks"][0]["command"]


@pytest.mark.parametrize(
    ("hooks", "why"),
    [
        pytest.param({"Stop": [{"hooks": [{"type": "prompt", "prompt": "ok?"}]}]}, "type `prompt`", id="a prompt"),
        pytest.param({"Stop": [{"hooks": [{"type": "command"}]}]}, "has no command", id="nothing to run"),
        pytest.param(
            {"Stop": [{"hooks": [{"type": "command", "command": "x", "asyncRewake": True}]}]},
            "billhook does not support `asyncRewake`",
            id="it wakes the agent",
        ),
        pytest.param(
            {"FutureEvent": [{"hooks": [{"type": "command", "command": "x"}]}]},
            "does not support this event",
            id="an unknown event",
        ),
        pytest.param(
            {"Stop": [{"hooks": [{"type": "command", "command": "x", "env": {}}]}]}, "`env`", id="an unknown key"
        ),
        pytest.param(
            {"Stop": [{"matcher": ["a"], "hooks": [{"type": "command", "command": "x"}]}]},
            "`matcher`",
            id="a bad matcher",
        ),
        pytest.param(
            {"Stop": [{"hooks": [{"type": "command", "command": "billhook hook --as claude"}]}]},
            "calls billhook",
            id="billhook itself",
        ),
    ],
)
def test_what_stays(home: Home, hooks: dict[str, Any], why: str) -> None:
    """A handler that a hooks.yaml can't express stays in the agent's file, with a note; the others are moved."""
    mine = {"hooks": [{"type": "command", "command": "mine"}]}
    home.write(json.dumps({"hooks": {**hooks, "PreToolUse": [mine]}}))
    change = home.install(adopt=True)
    assert change.adopted == ("mine",)
    assert why in " ".join(change.notes)
    event = next(iter(hooks))
    assert json.loads(home.file().read_text())["hooks"][event][0] == hooks[event][0]


def test_names(home: Home) -> None:
    """The same command twice, a name that exists, and the name of a built-in."""
    home.project.joinpath(".billhook").mkdir()
    home.project.joinpath(".billhook", "hooks.yaml").write_text("hooks:\n  lint: {events: Stop, run: x}\n")
    commands = ["./lint.sh", "./lint.sh -v", "./metrics", "ruff check"]
    entries = [{"hooks": [{"type": "command", "command": one}]} for one in commands]
    home.write(json.dumps({"hooks": {"Stop": entries}}))
    assert home.install(adopt=True).adopted == ("lint-stop", "lint-stop-2", "metrics-stop", "ruff")


@pytest.mark.parametrize(
    "text",
    [
        COMMENTED,
        COMMENTED.replace("\n", "\r\n"),
        "\ufeff" + COMMENTED,
        COMMENTED.rstrip("\n"),
        "hooks:\n",
        "hooks:   # none yet\n# end\n",
        "# only a comment\n",
        "version: 1\n",
        "",
        "handlers:\n    a: {events: Stop, run: x}\n",
        "hooks:\n- name: a\n  events: Stop\n  run: x\n# end\n",
        "hooks:\n  - name: a\n    events: Stop\n    run: x",
        "hooks:\n  PreToolUse:\n    - hooks: [{type: command, command: y}]\n",
        "hooks:\n  a:\n    events: Stop\n    run: >-\n      folded\n      text\n\n\nsettings:\n  timeout: 3\n",
        "hooks:\n  a:\n    events: Stop\n    deny:\nbuiltins:\n",
    ],
    ids=lambda text: repr(text[:24]),
)
def test_comments_survive(home: Home, text: str) -> None:
    """In an existing hooks.yaml of any form nothing else changes, and uninstalling restores the same bytes."""
    path = home.project / ".billhook" / "hooks.yaml"
    path.parent.mkdir()
    path.write_bytes(text.encode())
    file = home.write(json.dumps({"hooks": TWO}))
    home.install(adopt=True)
    after = path.read_bytes().decode()
    position = 0
    for line in text.removeprefix("\ufeff").split("\n"):
        position = after.find(line.rstrip("\r]}")[:7], position)
        assert position >= 0, line
    read = load_config(home.project, home=home.root, builtins=False)
    names = [one.declared.name for one in read.entries if one.declared.file == str(path)]
    assert names[-2:] == ["guard", "make"]
    home.uninstall()
    assert path.read_bytes() == text.encode()
    assert json.loads(file.read_text()) == {"hooks": TWO}


def test_a_hooks_yaml_that_was_changed(home: Home) -> None:
    """Later changes of the user stay, and only the moved hooks are removed. Rewritten hooks are named."""
    path = home.project / ".billhook" / "hooks.yaml"
    path.parent.mkdir()
    path.write_text(COMMENTED)
    home.write(json.dumps({"hooks": TWO}))
    home.install(adopt=True)
    path.write_text(path.read_text() + "# later\n")
    assert home.uninstall().notes == ()
    assert path.read_text() == COMMENTED + "# later\n"
    home.install(adopt=True)
    path.write_text(path.read_text().replace("./guard.sh", "./better.sh"))
    (note,) = home.uninstall().notes
    assert "remove these restored hooks from it yourself: guard, make" in note
    assert json.loads(home.file().read_text()) == {"hooks": TWO}


def test_an_agents_file_that_was_changed(home: Home) -> None:
    """Handlers are restored to it, each once, beside later changes."""
    file = home.write(json.dumps({"hooks": TWO}, indent=2))
    home.install(adopt=True)
    data = json.loads(file.read_text())
    data["model"] = "new"
    data["hooks"]["Stop"].append(TWO["Stop"][0])
    file.write_text(json.dumps(data, indent=2))
    home.uninstall()
    assert json.loads(file.read_text()) == {"hooks": TWO, "model": "new"}


def test_adopting_twice(home: Home) -> None:
    """Handlers that are added later are moved by a second install, and all of them are restored."""
    file = home.write(json.dumps({"hooks": {"Stop": TWO["Stop"]}}, indent=2))
    home.install(adopt=True)
    assert home.install(adopt=True).state == "already"
    assert home.install().state == "already", "what was moved stays moved"
    data = json.loads(file.read_text())
    data["hooks"]["PreToolUse"] += TWO["PreToolUse"]
    file.write_text(json.dumps(data, indent=2))
    assert home.install(adopt=True).adopted == ("guard",)
    assert list(hooks_of(home)) == ["make", "guard"]
    home.uninstall()
    assert json.loads(file.read_text()) == {"hooks": TWO}
    assert not (home.project / ".billhook").exists()


@pytest.mark.parametrize(("scope", "other", "option"), [("user", "project", "--project "), ("project", "user", "")])
def test_nothing_to_adopt(home: Home, scope: Scope, other: Scope, option: str) -> None:
    """The note names the file without hooks, and the command that moves those of the agent's other file."""
    empty = home.file("claude", scope)
    full = home.write(json.dumps({"hooks": TWO}), scope=other)
    command = f"`billhook install claude {option}--adopt`"
    (note,) = home.install(scope=scope, adopt=True).notes
    assert note == f"{empty} has no hooks to move; {command} moves those in {full}"
    home.install(scope=other, adopt=True)
    assert home.install(scope=scope, adopt=True).notes == (f"{empty} has no hooks to move",)


def test_nothing_to_adopt_beside_a_damaged_file(home: Home) -> None:
    """A problem of the other file does not stop the installation."""
    home.write("{", scope="user")
    change = home.install(adopt=True)
    assert (change.state, change.notes) == ("installed", (f"{home.file('claude', 'project')} has no hooks to move",))


@pytest.mark.parametrize("first", ["claude", "codex"])
def test_two_agents(home: Home, first: str) -> None:
    """Two agents' handlers in one hooks.yaml are restored in either order, and nothing is left."""
    text = json.dumps({"hooks": TWO})
    for host in ("claude", "codex"):
        home.write(text, host)
        home.install(host, adopt=True)
    assert list(hooks_of(home)) == ["guard", "make", "guard-pre-tool-use", "make-stop"]
    for host in (first, "codex" if first == "claude" else "claude"):
        home.uninstall(host)
        assert home.file(host).read_text() == text
    assert not (home.project / ".billhook").exists()


def test_into_the_users_file(home: Home) -> None:
    """Handlers in the user's settings are moved to the user's hooks.yaml."""
    file = home.write(json.dumps({"hooks": TWO}), scope="user")
    home.install(scope="user", adopt=True)
    path = home.home / ".config" / "billhook" / "hooks.yaml"
    assert list(yaml.safe_load(path.read_text())["hooks"]) == ["guard", "make"]
    home.uninstall(scope="user")
    assert not path.exists() and not (home.home / ".config").exists()
    assert file.read_text() == json.dumps({"hooks": TWO})


@pytest.mark.parametrize(
    "text",
    ["hooks: [\n", "- a\n", "hooks: text\n", "a: 1\n\tb: 2\n"],
)
def test_an_unreadable_hooks_yaml(home: Home, text: str) -> None:
    """Nothing is moved, and neither file changes."""
    path = home.project / ".billhook" / "hooks.yaml"
    path.parent.mkdir()
    path.write_text(text)
    file = home.write(json.dumps({"hooks": TWO}))
    with pytest.raises(BillhookError) as error:
        home.install(adopt=True)
    assert error.value.place.startswith(str(path)) and error.value.hint
    assert (path.read_text(), file.read_text()) == (text, json.dumps({"hooks": TWO}))


def test_nothing_to_move(home: Home) -> None:
    """Without other handlers, no hooks.yaml is created."""
    for host in AGENTS:
        home.install(host, "project" if AGENTS[host].project_file else "user", adopt=True)
    assert not (home.project / ".billhook").exists()


def test_odd_texts_in_yaml() -> None:
    """Any command is the same after the file is read."""
    texts = [
        "a: b # c",
        "x\ny\n",
        " lead",
        "trail ",
        "'q'",
        '"q"',
        "yes",
        "1",
        "@x",
        "%x",
        "!x",
        "*x",
        "é🦀",
        "\t",
        "a\\b",
    ]
    hooks = {f"h{number}": {"events": "Stop", "run": text} for number, text in enumerate(texts)}
    for data in (None, b"hooks:\n  a: {events: Stop, run: x}\n"):
        after, _ = with_hooks(data, "hooks.yaml", hooks)
        found = yaml.safe_load(after)["hooks"]
        assert {name: found[name] for name in hooks} == hooks


STYLES = {
    "no hooks.yaml": None,
    "a mapping": "# mine\nhooks:\n    own:   # c\n        events: Stop\n        run: echo own\n",
    "a list": "hooks:\n- name: own\n  events: Stop\n  run: echo own\n",
    "with CRLF": "hooks:\r\n  own: {events: Stop, run: x}\r\nsettings: {timeout: 30}\r\n",
}


@pytest.mark.parametrize("host", ["claude", "cursor"])
@pytest.mark.parametrize("own", STYLES.values(), ids=STYLES.keys())
def test_another_user_uninstalls(home: Home, host: str, own: str | None) -> None:
    """A user adopts and commits; another user, who only has the repository, can still restore the hooks."""
    flat = {"preToolUse": [{"command": "./guard.sh", "matcher": "Shell"}], "stop": [{"command": "a\nb\u2028"}]}
    said = {"hooks": TWO} if host == "claude" else {"version": 1, "hooks": flat}
    file = home.write(json.dumps(said, indent=2) + "\n", host)
    yaml_file = home.project / ".billhook" / "hooks.yaml"
    if own is not None:
        yaml_file.parent.mkdir()
        yaml_file.write_bytes(own.encode())
    home.install(host, adopt=True)
    shutil.rmtree(home.root)
    change = home.uninstall(host)
    assert (change.state, len(change.adopted), change.notes) == ("removed", 2, ())
    assert json.loads(file.read_text()) == said
    assert yaml_file.exists() == (own is not None)
    if own is not None:
        assert yaml_file.read_text() == own.replace("\r\n", "\n")
    assert home.uninstall(host).state == "absent"


def test_another_user_uninstalls_rewritten_hooks(home: Home) -> None:
    """The original hook is restored, and the rewritten one is named: nothing is lost."""
    file = home.write(json.dumps({"hooks": TWO}))
    home.install(adopt=True)
    shutil.rmtree(home.root)
    yaml_file = home.project / ".billhook" / "hooks.yaml"
    yaml_file.write_text(yaml_file.read_text().replace("timeout: 7", "timeout: 8"))
    (note,) = home.uninstall().notes
    assert "guard" in note and json.loads(file.read_text()) == {"hooks": TWO}
    assert list(hooks_of(home)) == ["guard"]


def test_the_order_of_keys(home: Home) -> None:
    """`hooks` and its events keep their places when handlers are moved, and when they are restored after a change."""
    stop = '"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "./x.sh"}]}]}'
    home.write(f'{{\r\n  "z": 1,\r\n  {stop},\r\n  "a": 2\r\n}}')
    home.install(adopt=True)
    assert list(json.loads(home.file().read_text())) == ["z", "hooks", "a"]
    home.file().write_bytes(home.file().read_bytes().replace(b'"a": 2', b'"a": 3'))
    home.uninstall()
    text = home.file().read_bytes().decode()
    assert (
        list(json.loads(text)) == ["z", "hooks", "a"]
        and text.startswith('{\r\n  "z": 1,')
        and text.endswith('"a": 3\r\n}')
    )


SPACED = """\
{
  "hooks": {
    "PreToolUse": [
      { "matcher": "Bash", "hooks": [ {"type": "command", "command": "./g.sh"}, {"type": "prompt", "prompt": "x"} ] },
      {"matcher": "Edit", "hooks": [{"type": "command", "command": "./e.sh"},
        {"type": "command", "command": "./f.sh"}]}
    ],
    "Stop": [{"hooks": [{"type": "command", "command": "make test"}]}]
  },
  "env": {"A": "1"}
}
"""


def test_hooks_are_restored_byte_for_byte(home: Home) -> None:
    """Also if another part of the file was changed since; that change stays."""
    file = home.write(SPACED)
    assert len(home.install(adopt=True).adopted) == 4
    file.write_text(file.read_text().replace('"A": "1"', '"A": "2", "B": "3"'))
    home.uninstall()
    assert file.read_text() == SPACED.replace('"A": "1"', '"A": "2", "B": "3"')


def test_a_hook_of_kiro_that_is_enabled_moves(home: Home) -> None:
    """`enabled: true` is the default; a disabled hook stays."""
    action = {"type": "command", "command": "./mine.sh"}
    one = {"name": "mine", "trigger": "PreToolUse", "matcher": "shell", "action": action, "timeout": 5, "enabled": True}
    text = json.dumps({"version": "v1", "hooks": [one, {**one, "name": "off", "enabled": False}]})
    file = home.write(text, "kiro")
    moved = home.install("kiro", adopt=True)
    assert hooks_of(home)["mine"]["run"] == "./mine.sh" and len(moved.adopted) == 1
    assert any("`enabled`" in note for note in moved.notes)
    home.uninstall("kiro")
    assert file.read_text() == text
