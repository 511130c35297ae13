"""The doctor's findings: each fault in an agent's file or settings is one finding with a remedy."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from billhook.agents import AGENTS
from billhook.agents.codex import snake, trusted_hash
from billhook.cli.doctor import AgentReport, examined
from billhook.cli.doctor.checks import DaemonState, SettingsPair
from hosts.installed import Home

Change = Callable[[Home], object]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    found = Home(tmp_path)
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    (bin_ / "billhook-hook").symlink_to(Path(sys.executable).with_name("billhook-hook"))
    for host in AGENTS.values():
        (bin_ / host.program).symlink_to("/bin/true")
    monkeypatch.setenv("HOME", str(found.home))
    monkeypatch.setenv("PATH", f"{bin_}:/usr/bin:/bin")
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "COPILOT_HOME", "GEMINI_CLI_TRUST_WORKSPACE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(found.project)
    return found


def report(home: Home, host: str) -> AgentReport:
    return examined(AGENTS[host], str(home.project), home.root, DaemonState(home.root))


def put(path: Path, text: str | dict[str, object]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text if isinstance(text, str) else json.dumps(text))
    return path


def replaced(host: str, old: str, new: str) -> Change:
    """The project's file with one text in place of another."""

    def change(home: Home) -> None:
        path = home.file(host)
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    return change


def no_program(home: Home) -> None:
    (home.folder / "bin" / "billhook-hook").unlink()


def another_program(home: Home) -> None:
    no_program(home)
    for name, text in (("billhook-hook", "#!/bin/sh\n"), ("billhook", "#!/bin/sh\necho billhook 0.0.1\n")):
        put(home.folder / "bin" / name, text).chmod(0o755)


def not_executable(home: Home) -> None:
    no_program(home)
    path = put(home.folder / "bin" / "billhook-hook", "#!/bin/sh\n")
    replaced("claude", "exec billhook-hook", f"exec {path}")(home)


def wants_notification(home: Home) -> None:
    put(
        home.home / ".config" / "billhook" / "hooks.yaml",
        "hooks:\n  told:\n    events: Notification\n    run: 'true'\n",
    )


def a_broken_hook(home: Home) -> None:
    put(home.home / ".config" / "billhook" / "hooks.yaml", "hooks:\n  odd:\n    events: PreToolUse\n    runn: 'true'\n")


def a_new_hook(home: Home) -> None:
    put(home.project / ".billhook" / "hooks.yaml", "hooks:\n  new:\n    events: PreToolUse\n    run: 'true'\n")


def claude_json(trusted: bool, *, above: bool = False) -> Change:
    def change(home: Home) -> None:
        folder = home.project.parent if above else home.project
        put(home.home / ".claude.json", {"projects": {str(folder): {"hasTrustDialogAccepted": trusted}}})

    return change


def setting(name: str, text: str | dict[str, object]) -> Change:
    return lambda home: put(home.folder / name, text)


CASES = [
    # host, what is changed after `install --project`, level, about, words, remedy
    ("claude", no_program, "fail", "installed", "is not on PATH here; every tool call is denied", "uv tool inst"),
    ("claude", not_executable, "fail", "installed", "is not executable", "chmod +x "),
    ("claude", another_program, "warn", "installed", "another billhook", "billhook install claude --project"),
    (
        "claude",
        replaced("claude", "--deadline 58000", "--deadline 60000"),
        "fail",
        "installed",
        "must be shorter",
        "billhook",
    ),
    (
        "claude",
        replaced("claude", "try again.", "try."),
        "warn",
        "installed",
        "differ from those",
        "billhook install claude",
    ),
    (
        "claude",
        replaced("claude", "--as claude", "--as codex"),
        "fail",
        "installed",
        "another agent, codex",
        "billhook",
    ),
    ("claude", replaced("claude", "{", "{,"), "fail", "installed", "settings.json:1", ""),
    (
        "claude",
        replaced("claude", '"PreToolUse"', '"Setup"'),
        "warn",
        "installed",
        "no tool call is judged",
        "billhook",
    ),
    (
        "claude",
        wants_notification,
        "warn",
        "installed",
        "events that are not installed: Notification",
        "billhook install claude",
    ),
    ("claude", a_broken_hook, "warn", "hooks", "runn", "billhook check"),
    ("claude", a_new_hook, "warn", "hooks", "1 hook waits for your approval", "billhook trust"),
    ("claude", claude_json(True), "ok", "trust", "trusts this folder", ""),
    ("claude", claude_json(True, above=True), "ok", "trust", "trusts this folder", ""),
    ("claude", claude_json(False), "warn", "trust", "does not trust this folder", "start `claude` here"),
    (
        "claude",
        setting("home/project/.claude/settings.local.json", {"disableAllHooks": True}),
        "fail",
        "trust",
        "disables all hooks",
        "change that setting",
    ),
    ("claude", setting("home/.claude/settings.json", {"disableAllHooks": True}), "fail", "installed", "disables", "ch"),
    ("gemini", lambda home: None, "fail", "trust", "does not trust this folder, and reads no hooks", "start `gemini`"),
    (
        "gemini",
        lambda home: put(home.home / ".gemini/trustedFolders.json", {str(home.project): "TRUST_FOLDER"}),
        "ok",
        "trust",
        "trusts this folder",
        "",
    ),
    (
        "gemini",
        lambda home: put(
            home.home / ".gemini/trustedFolders.json",
            {str(home.home / "other"): "TRUST_PARENT", str(home.project): "DO_NOT_TRUST"},
        ),
        "fail",
        "trust",
        "does not trust this folder",
        "start `gemini`",
    ),
    (
        "gemini",
        setting("home/.gemini/settings.json", {"security": {"folderTrust": {"enabled": False}}}),
        "ok",
        "trust",
        "trusts every folder",
        "",
    ),
    ("qwen", lambda home: None, "ok", "trust", "trusts every folder", ""),
    (
        "qwen",
        setting("home/.qwen/settings.json", {"security": {"folderTrust": {"enabled": True}}}),
        "fail",
        "trust",
        "does not trust",
        "start `qwen`",
    ),
    ("copilot", lambda home: None, "fail", "trust", "does not trust this folder", "start `copilot`"),
    (
        "copilot",
        lambda home: put(home.home / ".copilot/config.json", {"trusted_folders": [str(home.home)]}),
        "ok",
        "trust",
        "trusts this folder",
        "",
    ),
    ("codex", lambda home: None, "fail", "trust", "does not trust this folder", "start `codex` here"),
    ("codex", lambda home: None, "fail", "trust", "skips 9 of 9 entries", "/hooks"),
    ("cursor", lambda home: None, "unknown", "trust", "don't show whether it trusts", ""),
    (
        "codex",
        setting("home/.codex/config.toml", "[features]\nhooks = false\n"),
        "fail",
        "installed",
        "disables hooks",
        "change that setting",
    ),
]


@pytest.mark.parametrize(("host", "change", "level", "about", "words", "remedy"), CASES)
def test_one_finding(home: Home, host: str, change: Change, level: str, about: str, words: str, remedy: str) -> None:
    """The fault is found, and its remedy is named."""
    home.install(host)
    change(home)
    found = [one for one in report(home, host).findings if (one.level, one.about) == (level, about)]
    assert any(words in one.text and remedy in one.remedy for one in found), report(home, host).findings


def test_a_good_installation(home: Home) -> None:
    """A plain installation in the user's settings has no problem; nor has one whose hooks need more time."""
    put(
        home.home / ".config" / "billhook" / "hooks.yaml",
        "hooks:\n  slow:\n    events: Stop\n    run: 'true'\n    timeout: 300\n",
    )
    for host in ("claude", "gemini", "qwen", "copilot", "cursor"):
        home.install(host, "user", adopt=True)
        assert report(home, host).well, report(home, host).findings


def test_entries_that_install_did_not_write(home: Home) -> None:
    """An entry with `billhook hook` calls billhook; the finding recommends `install`."""
    entry = {"hooks": [{"type": "command", "command": "billhook hook --as claude"}]}
    home.write(json.dumps({"hooks": {"PreToolUse": [entry]}}))
    found = report(home, "claude")
    assert [one.events for one in found.installed] == [("PreToolUse",)]
    (warned,) = [one for one in found.findings if not one.well]
    assert "did not write the calls of billhook in line 1" in warned.text
    assert warned.remedy == "billhook install claude --project, and remove those calls"
    home.install()
    assert "also calls billhook" in str(report(home, "claude").findings)


def codex_state(home: Home, **changed: str) -> str:
    """What Codex writes when the user trusts billhook's entries; `changed` has other hashes."""
    one = SettingsPair(AGENTS["codex"], str(home.project), home.root).installed[0]
    rows = [f'[projects."{home.project}"]\ntrust_level = "trusted"\n']
    for entry in one.entries:
        key = f"{one.path}:{snake(entry.event)}:{entry.at}:{entry.inner}"
        hash_ = changed.get(entry.event, trusted_hash(entry))
        rows.append(f'[hooks.state."{key}"]\ntrusted_hash = "{hash_}"\n')
    return "".join(rows)


def test_codex_trust(home: Home) -> None:
    """Every entry that Codex trusts is counted; Codex does not run one that was changed or disabled."""
    home.install("codex")
    file = put(home.home / ".codex" / "config.toml", codex_state(home))
    assert report(home, "codex").well, report(home, "codex").findings
    file.write_text(codex_state(home, Stop="sha256:0"))
    assert "skips 1 of 9 entries" in str(report(home, "codex").findings)
    file.write_text(codex_state(home).replace("[hooks.state.", "[other.", 1))
    assert "1 not trusted yet" in str(report(home, "codex").findings)
    file.write_text(codex_state(home) + "enabled = false\n")
    assert "1 switched off" in str(report(home, "codex").findings)


def test_openclaw_loads_the_plugin(home: Home) -> None:
    """Only with both files beside it, and three settings that name it."""
    folder = "~/.openclaw/plugins/billhook"
    settings = {"load": {"paths": [folder]}, "allow": ["billhook"], "entries": {"billhook": {"enabled": True}}}
    home.install("openclaw", "user")
    assert folder in str(report(home, "openclaw").findings) and not report(home, "openclaw").well
    file = put(home.home / ".openclaw" / "openclaw.json", {"plugins": settings})
    assert report(home, "openclaw").well, report(home, "openclaw").findings
    for name in settings:
        put(file, {"plugins": {**settings, name: {}}})
        assert f'openclaw.json: "{name}":' in str(report(home, "openclaw").findings)
    put(file, {"plugins": settings})
    for name in ("package.json", "openclaw.plugin.json"):
        (file.parent / "plugins" / "billhook" / name).unlink()
        assert f"{name} beside it is missing" in str(report(home, "openclaw").findings)


def test_goose_loads_the_plugin(home: Home) -> None:
    """A folder of that name in a project replaces the user's plugin, and settings can disable it."""
    home.install("goose", "user")
    assert not goose_findings(home)
    (home.project / ".agents/plugins/billhook").mkdir(parents=True)
    assert ["of the project instead of your plugin" in text for text in goose_findings(home)] == [True]
    home.install("goose")
    assert not goose_findings(home)
    for place in (home.home / ".config/goose/settings.json", home.project / ".config/goose/settings.local.json"):
        put(place, {"disabledPlugins": ["other", "billhook"]})
        assert ["disables billhook's plugin" in text for text in goose_findings(home)] == [True]
        place.unlink()


def goose_findings(home: Home) -> list[str]:
    return [one.text for one in report(home, "goose").findings if one.about == "trust"]


def test_the_hash_of_codex() -> None:
    """The same hash as in Codex 0.166, for an entry whose trust it asked for."""
    from billhook.cli.install.entries import Handler

    data = {"type": "command", "command": "exec billhook-hook --as codex --deadline 58000", "timeout": 60}
    assert trusted_hash(Handler("PreToolUse", 0, 0, data, {}, 1)) == HASH


HASH = "sha256:aa11b025f00e8068d2ab50ea18740a5506a6e2a13fe2ecc458213360659bf9db"


def test_copilot_through_claudes_file(home: Home) -> None:
    """Copilot reads the project's Claude Code settings, so an installation there is enough."""
    home.install("claude")
    found = report(home, "copilot")
    assert [one.host.name for one in found.installed] == ["claude"]
    assert "installed for Claude Code; Copilot also reads this file" in str(found.findings)


def test_a_daemon_that_does_not_respond(home: Home) -> None:
    """A daemon that accepts calls and does not answer is found, with the way to stop it."""
    import socket

    from billhook.serve import control

    folder = control.ensure_folder(home.root)
    with socket.socket(socket.AF_UNIX) as listening:
        here = os.getcwd()
        os.chdir(folder)
        listening.bind(control.SOCKET)
        os.chdir(here)
        listening.listen()
        found = list(DaemonState(home.root).findings())
    assert [(one.level, one.remedy) for one in found] == [("fail", "billhook daemon stop --force")]


def test_no_daemon_at_the_address_of_entries(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries that use HTTP need a daemon at that address, and its token in the agent's environment."""
    monkeypatch.setenv("BILLHOOK_TOKEN", "x")
    listens = list(DaemonState(home.root).listens(["http://127.0.0.1:8123"]))
    assert [one.remedy for one in listens] == ["billhook daemon start --http 127.0.0.1:8123"]
    monkeypatch.delenv("BILLHOOK_TOKEN")
    assert "BILLHOOK_TOKEN is not set here" in str(list(DaemonState(home.root).listens(["http://127.0.0.1:8123"])))


def test_a_program_that_is_missing(home: Home, tmp_path: Path) -> None:
    """Entries for an agent that can't be started here; Cursor is an editor, and needs no program on PATH."""
    for host, level in [("claude", "warn"), ("codex", "warn"), ("cursor", "unknown")]:
        (tmp_path / "bin" / AGENTS[host].program).unlink()
        home.install(host, "user")
        (found,) = [one for one in report(home, host).findings if one.about == "program"]
        assert found.level == level and AGENTS[host].program in found.text


def test_settings_that_an_organisation_sent(home: Home) -> None:
    """Claude Code's remote settings can disable hooks, like the managed ones."""
    home.install("claude", "user")
    for key in ("disableAllHooks", "allowManagedHooksOnly"):
        put(home.home / ".claude" / "remote-settings.json", {key: True})
        assert [one.level for one in report(home, "claude").findings if key in one.text] == ["fail"]


@pytest.mark.parametrize(
    "entry",
    [
        {"matcher": 5, "hooks": [{"type": "command", "command": "true"}]},
        {"hooks": [{"type": "comand", "command": "true"}]},
        {"hooks": [{"type": "command"}]},
        {"matcher": "Bash", "command": "true"},
        "true",
    ],
)
def test_one_invalid_entry(home: Home, entry: object) -> None:
    """Claude Code skips the whole file for it, with billhook's entries."""
    home.write(json.dumps({"hooks": {"Stop": [entry]}}))
    home.install()
    (found,) = [one for one in report(home, "claude").findings if "skips the whole file" in one.text]
    assert found.level == "warn" and ".claude/settings.json:" in found.text
