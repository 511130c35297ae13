"""The policy in force is the layer `fleet`, between the managed file and those of the user."""

import os
import time
from pathlib import Path
from typing import Any

import pytest

from billhook.config.config import Config
from billhook.config.fleet_policy import AppliedPolicy, note_contact, silence, write, write_rules
from billhook.config.loader import load_config
from billhook.config.notices import fleet as fleet_notices
from billhook.core.answers import Verdict
from billhook.core.events import PreToolUse
from fleet.conftest import RULES

LOOSE = """
hooks:
  allow-all: {events: PreToolUse, match: Bash, allow: "fine"}
  script: {events: PreToolUse, run: ./x.sh, on_failure: deny}
  own-rule: {enabled: false}
  reads-file: {events: UserPromptSubmit, inject: {file: ~/.netrc}}
  reads-variable: {events: PreToolUse, if: Bash(ls *), deny: "${AWS_SECRET_ACCESS_KEY:-}"}
  rewrites: {events: PreToolUse, match: Bash, rewrite: {command: make}}
  posts: {events: PreToolUse, url: "https://example.com/x"}
disableAllHooks: true
guard: "off"
permissions: {allow: [Bash], deny: ["Bash(rm *)"]}
"""


class Host:
    """A state root with a policy in force, and a project."""

    def __init__(self, root: Path, project: Path) -> None:
        self.root, self.project = root, project

    def obey(self, rules: str = RULES, shadow: str = "", **fields: Any) -> None:
        files = {"file": write_rules(self.root, rules), "shadow": write_rules(self.root, shadow) if shadow else ""}
        given = {"sequence": 7, **files, **fields}
        write(self.root, AppliedPolicy("acme", "h1", "SHA256:abc", **given))

    def load(self) -> Config:
        return load_config(self.project, home=self.root, layers=["fleet", "user", "project"])

    def verdict(self, command: str) -> Verdict:
        event = PreToolUse(tool_name="Bash", tool_input={"command": command}, session_id="s", cwd=str(self.project))
        return self.load().engine().fire_sync(event)


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("home", "project"):
        (tmp_path / name).mkdir()
    return Host(tmp_path / "root", tmp_path / "project")


def user_rules(text: str) -> None:
    folder = Path(os.environ["HOME"], ".config", "billhook")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "hooks.yaml").write_text(text)


def states(config: Config) -> dict[str, str]:
    return {entry.shown: entry.state for entry in config.entries}


def test_its_rules_decide(host: Host) -> None:
    """As soon as the record of the policy changes."""
    assert host.verdict("git push origin x").decision != "deny"

    host.obey()

    assert host.verdict("git push origin x").reason == "pull requests only"


def test_the_user_cant_switch_it_off(host: Host) -> None:
    user_rules("hooks:\n  no-push: {enabled: false}\n")
    host.obey()

    config = host.load()

    assert [finding.code for finding in config.problems] == ["BH215"]
    assert host.verdict("git push origin x").decision == "deny"


def test_it_only_tightens(host: Host) -> None:
    """Without --managed nothing of the user is switched off, nothing is allowed, and nothing runs."""
    user_rules("hooks:\n  own-rule: {events: PreToolUse, match: Bash, deny: never}\n")
    host.obey(LOOSE)

    config = host.load()

    assert states(config) == {"own-rule": "runs"}
    assert host.verdict("ls").reason == "never"
    assert config.permissions.allow == () and len(config.permissions.deny) == 1
    assert {finding.code for finding in config.problems} == {"BH215"}


def test_a_managed_host_obeys_everything(host: Host) -> None:
    user_rules("hooks:\n  own-rule: {events: PreToolUse, match: Bash, deny: never}\n")
    host.obey(LOOSE.replace("disableAllHooks: true\n", ""), managed=True)

    config = host.load()

    assert states(config)["fleet/own-rule" if "fleet/own-rule" in states(config) else "own-rule"] == "off"
    assert states(config)["script"] == "runs" and states(config)["allow-all"] == "runs"
    assert len(config.permissions.allow) == 1


def test_the_guard_gets_stricter_only(host: Host) -> None:
    """The user's `strict` stays, and the fleet's cells count."""
    user_rules("guard: strict\n")
    host.obey("guard: {preset: standard, push: deny}\nhooks: {}\n")

    assert host.verdict("git push origin x").decision == "deny"
    assert host.load().builtins["guard"].options["preset"] == "strict"


def test_the_next_policy_decides_nothing(host: Host) -> None:
    """In the shadow stage, its new and changed hooks run in shadow mode."""
    host.obey(shadow=RULES + "  no-rm: {events: PreToolUse, if: Bash(rm *), deny: keep it}\n")

    verdict = host.verdict("rm x")

    assert verdict.decision != "deny"
    found = {one.hook: one for one in verdict.outcomes if one.hook.startswith("next-")}
    assert list(found) == ["next-no-rm"]
    assert host.verdict("git push origin x").reason == "pull requests only"


@pytest.mark.parametrize("rule", ["keep", "deny"])
def test_an_expired_policy_follows_its_rule(host: Host, rule: str) -> None:
    """Also if it expires while its configuration is in memory."""
    end = time.time() + 0.4
    host.obey(valid_until=end, on_expiry=rule)
    assert host.verdict("ls").decision != "deny"

    time.sleep(0.5)

    verdict = host.verdict("ls")
    assert (verdict.decision == "deny") is (rule == "deny")
    assert "has expired" in verdict.reason or rule == "keep"
    assert host.verdict("git push origin x").decision == "deny"
    assert "has expired" in next(fleet_notices(host.load())).text


def test_a_damaged_record_denies(host: Host) -> None:
    host.obey()
    (host.root / "billhook" / "fleet" / "policy.json").write_text("{")

    assert host.verdict("ls").decision == "deny"


def test_how_long_there_was_no_contact(host: Host) -> None:
    """A host that is offline shows the age of its policy."""
    host.obey()
    assert silence(host.root) == "ever"
    note_contact(host.root)
    assert silence(host.root) == ""

    os.utime(host.root / "billhook" / "fleet" / "contact", (0, time.time() - 7300))

    assert silence(host.root) == "2 h"


def test_missing_rules_deny(host: Host) -> None:
    host.obey()
    for file in (host.root / "billhook" / "fleet").glob("rules-*"):
        file.unlink()

    assert host.verdict("ls").decision == "deny"
