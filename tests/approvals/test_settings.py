"""`approvals:` and `approve: queue` in files: what is accepted, where, and where it is shown."""

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from approvals.asking import ASKS, QUEUED
from billhook.approvals import ApprovalSettings, Channel
from billhook.config import load_config
from billhook.config.schema import schema
from cli.place import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


ACCEPTED = [
    ("true", ApprovalSettings()),
    ("", ApprovalSettings()),
    ("{time: 30s}", ApprovalSettings(seconds=30)),
    ("{time: 90}", ApprovalSettings(seconds=90)),
    ("{channels: []}", ApprovalSettings(channels=())),
    ("{channels: desktop}", ApprovalSettings()),
    ("{channels: {slack: $A, who: Ann}}", ApprovalSettings((Channel("slack", "$A", who="Ann"),))),
    (
        "{channels: [desktop, {ntfy: 'https://n/t'}]}",
        ApprovalSettings((Channel("desktop"), Channel("ntfy", "https://n/t"))),
    ),
    ("{channels: {webhook: 'https://h', secret: $S}}", ApprovalSettings((Channel("webhook", "https://h", "$S"),))),
    ("{link: 'https://host.example'}", ApprovalSettings(link="https://host.example")),
    ("false", ApprovalSettings(channels=(), seconds=0)),
]
REFUSED = [
    ("7", "`approvals` must be a mapping"),
    ("{chanels: desktop}", "`approvals` has no key `chanels`"),
    ("{channels: phone}", "a channel must be `desktop`"),
    ("{channels: {slak: $A}}", "a channel has no key `slak`"),
    ("{channels: {slack: $A, ntfy: $B}}", "a channel has one of"),
    ("{channels: {webhook: 'https://h'}}", "a webhook needs a `secret`"),
    ("{channels: {slack: 'http://example.com/x'}}", "without encryption"),
    ("{channels: {slack: 'ftp://example.com/x'}}", "the address can't be used"),
    ("{channels: {slack: 5}}", "must be a string"),
    ("{time: soon}", "`time` can't be `soon`"),
    ("{time: 2h}", "`time` can't be `2h`"),
    ("{time: [5m]}", "`time` can't be a list"),
]


@pytest.mark.parametrize(("text", "wanted"), ACCEPTED)
def test_accepted(place: Place, monkeypatch: pytest.MonkeyPatch, text: str, wanted: ApprovalSettings) -> None:
    monkeypatch.setenv("HOME", str(place.home))
    place.own(f"approvals: {text}\n{ASKS}")
    config = load_config(place.project)
    assert config.approvals == wanted and not config.problems
    jsonschema.validate(yaml.safe_load(f"approvals: {text}\n{ASKS}"), schema("hooks"))


@pytest.mark.parametrize(("text", "problem"), REFUSED)
def test_refused(place: Place, monkeypatch: pytest.MonkeyPatch, text: str, problem: str) -> None:
    """The mistake is shown; questions still wait, so that it answers none of them."""
    monkeypatch.setenv("HOME", str(place.home))
    place.own(f"approvals: {text}\n{ASKS}")
    config = load_config(place.project)
    assert config.approvals == ApprovalSettings(channels=())
    assert [problem in one.message for one in config.problems] == [True]
    assert place.run("check").code == 1


def test_a_project_can_not_set_it(place: Place) -> None:
    """A repository must not decide who is asked, or where questions are sent."""
    place.file("hooks.yaml", f"approvals: {{channels: {{slack: 'https://evil.example'}}}}\n{ASKS}")
    ended = place.run("check")
    assert ended.code == 1 and "BH215" in ended.out and "can't set `approvals`" in ended.out


@pytest.mark.parametrize("value", ["page", "true", "[queue]"])
def test_other_values_of_approve_break_the_hook(place: Place, value: str) -> None:
    place.own(QUEUED.replace("approve: queue", f"approve: {value}"))
    ended = place.run("check")
    assert ended.code == 1 and "`approve` can't be" in ended.out


def test_it_is_shown(place: Place) -> None:
    """In list, explain and the schema."""
    place.own(QUEUED)
    assert "approve: queue" in place.run("list").out
    listed = [json.loads(line) for line in place.run("list", "--json").out.splitlines()]
    assert {one["name"]: one["approve"] for one in listed if one["name"] in ("push", "guard")} == {
        "push": "queue",
        "guard": None,
    }
    assert "approve: queue" in place.run("explain", "git push").out
    jsonschema.validate(yaml.safe_load(QUEUED), schema("hooks"))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(yaml.safe_load(QUEUED.replace("queue", "page")), schema("hooks"))


def test_it_is_part_of_what_is_approved(place: Place) -> None:
    """A project that adds it to an approved hook has changed that hook."""
    place.file("hooks.yaml", ASKS)
    ended = place.typing("trust", answers=[("?", "y\n")])
    assert ended.code == 0, ended
    place.file("hooks.yaml", QUEUED)
    assert "changed" in place.run("list").out


def test_trying_hooks_never_waits(place: Place) -> None:
    """`fire`, `test` and `replay` give the ask itself."""
    place.own(f"approvals: true\n{QUEUED}tests:\n  - {{bash: git push, expect: ask, by: push}}\n")
    assert "ask" in place.run("fire", "PreToolUse", "--tool", "Bash", "--input", '{"command": "git push"}').out
    ended = place.run("test")
    assert ended.code == 0, ended


@pytest.mark.parametrize(
    ("own", "seconds"),
    [(f"approvals: {{time: 4m}}\n{ASKS}", 240), (QUEUED, 300), (f"approvals: false\n{QUEUED}", 300)],
)
def test_install_gives_people_time(place: Place, own: str, seconds: int) -> None:
    """The agent's timeout is longer than the longest wait, which a hook with `approve: queue` also has."""
    place.own(own)
    ended = place.alone("install", "claude", "--user")
    assert ended.code == 0, ended
    settings = json.loads((place.home / ".claude" / "settings.json").read_text())
    (entry,) = settings["hooks"]["PreToolUse"]
    assert seconds < entry["hooks"][0]["timeout"] < seconds + 10
    assert f"--deadline {seconds // 10}" in entry["hooks"][0]["command"]
    assert "questions wait" not in place.run("doctor", "claude").out


def test_the_doctor_compares_the_times(place: Place) -> None:
    """Entries that are older than `approvals:` end a wait early."""
    assert place.alone("install", "claude", "--user").code == 0
    place.own(f"approvals: {{time: 10m}}\n{ASKS}")
    found = " ".join(place.run("doctor", "claude").out.split())
    assert "questions wait 58 s for a person, not 600 s as configured" in found
