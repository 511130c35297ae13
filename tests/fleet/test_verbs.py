"""From nothing to a host that obeys, with the verbs that people type."""

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from billhook.config.fleet_policy import enrolment_file
from cli.place import Place
from cli.terminal import PROGRAM, Ended
from fleet.conftest import RULES
from fleet.hosts import eventually

POLICY = RULES + "tests:\n  - {bash: git push origin x, expect: deny, by: no-push}\n  - {bash: ls, expect: none}\n"
NEXT = POLICY.replace("tests:", "  no-ls:\n    events: PreToolUse\n    if: Bash(ls -l)\n    deny: use ls\ntests:")
STAGES = "fleet:\n  valid: 30d\n  on_expiry: deny\n  stages: [shadow, 'tag:canary', 100%]\n"
CALL = {"session_id": "s", "hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_use_id": "t"}


@contextmanager
def cluster(place: Place, nodes: int) -> Iterator[dict[str, Any]]:
    """`billhook fleet dev`, until the block ends."""
    argv = [PROGRAM, "fleet", "dev", "--json", "--nodes", str(nodes)]
    running = subprocess.Popen(argv, env=place.env(), stdout=subprocess.PIPE, cwd=place.project)
    try:
        assert running.stdout is not None
        found: dict[str, Any] = json.loads(running.stdout.readline())
        yield found
    finally:
        running.send_signal(signal.SIGTERM)
        running.communicate(timeout=20)
    assert running.returncode == 0
    assert not Path(found["folder"]).exists()


class Machine:
    """A host with its daemon, and the administrator's terminal."""

    def __init__(self, place: Place, dev: dict[str, Any]) -> None:
        self.place, self.dev = place, dev

    def run(self, *arguments: str, stdin: bytes = b"") -> Ended:
        return self.place.alone(*arguments) if not stdin else self.place.run(*arguments, stdin=stdin)

    def admin(self, *arguments: str) -> Ended:
        return self.place.alone("fleet", *arguments, BILLHOOK_FLEET=self.dev["folder"])

    def enrol(self, *options: str, answer: str = "y\n") -> Ended:
        given = ["fleet", "enrol", self.dev["url"], f"{self.dev['folder']}/host-1.creds", *options]
        return self.place.typing(*given, answers=[("[y/N]", answer)])

    def decision(self, command: str) -> str:
        """What the agent gets for a call."""
        call = {**CALL, "cwd": str(self.place.project), "tool_input": {"command": command}}
        ended = self.place.run("hook", "--as", "claude", stdin=json.dumps(call).encode())
        output = json.loads(ended.out or "{}").get("hookSpecificOutput", {})
        return str(output.get("permissionDecision", "none"))

    def has(self, sequence: int) -> bool:
        return bool(json.loads(self.run("fleet", "status", "--json").out).get("sequence") == sequence)


@contextmanager
def machine(place: Place, nodes: int) -> Iterator[Machine]:
    with cluster(place, nodes) as dev:
        host = Machine(place, dev)
        try:
            yield host
        finally:
            host.run("daemon", "stop")


def enrol_and_obey(host: Machine) -> None:
    """The owner of a host enrols it, the administrator publishes, and the host obeys within seconds."""
    place = host.place
    rules = place.file("policy.yaml", POLICY)
    assert host.enrol(answer="n\n").code == 1 and not Path(enrolment_file(place.home / ".claude")).exists()
    ended = host.enrol()
    assert ended.code == 0 and "It will obey" in ended.out and "SHA256:" in ended.out, ended
    assert host.run("daemon", "start").code == 0

    ended = host.admin("publish", str(rules))
    assert (ended.code, ended.out) == (0, "published: policy 1\n"), ended
    eventually(lambda: host.decision("git push origin x") == "deny", 10)


def show_policy(host: Machine) -> None:
    """Every screen shows the policy and its signer."""
    assert host.run("fleet", "status").code == 0
    listed = [json.loads(line) for line in host.run("list", "--json").out.splitlines()]
    assert [one["policy"].partition(",")[0] for one in listed if one["layer"] == "fleet"] == ["policy 1 of dev"]
    assert "policy 1 of dev, signed by SHA256:" in " ".join(host.run("explain", "git push origin x").out.split())
    assert "policy 1 of dev (tightens only)" in host.run("doctor").out


def roll_out(host: Machine) -> None:
    """The next policy goes through its stages; then the host leaves."""
    rules = host.place.file("policy.yaml", NEXT + STAGES)
    assert "stage shadow" in host.admin("publish", str(rules)).out
    eventually(lambda: host.has(2))
    assert host.decision("ls -l") == "none"
    eventually(lambda: "deny 1 time: next-no-ls" in host.admin("rollout").out, 15)
    for stage in ("stage tag:canary: policy 3\n", "in force on all hosts: policy 4\n"):
        ended = host.admin("rollout", "next", "--yes")
        assert ended.code == 0 and ended.out.endswith(stage), ended
    eventually(lambda: host.decision("ls -l") == "deny", 10)
    eventually(lambda: "host-1" in host.admin("status").out)

    assert host.place.typing("fleet", "leave", answers=[("[y/N]", "y\n")]).code == 0
    assert host.decision("ls -l") == "none"
    logged = [json.loads(line) for line in host.run("events", "--event", "Trust", "--json").out.splitlines()]
    assert [one["payload"]["action"] for one in logged] == ["enrolled", "left the fleet"]


def test_with_one_server(tmp_path: Path) -> None:
    with machine(Place(tmp_path), 1) as host:
        enrol_and_obey(host)


@pytest.mark.slow
def test_with_three_servers(tmp_path: Path) -> None:
    with machine(Place(tmp_path), 3) as host:
        enrol_and_obey(host)
        show_policy(host)
        roll_out(host)


def test_a_policy_with_problems_is_not_published(tmp_path: Path) -> None:
    """Mistakes and failed tests are shown with their line; nothing is signed."""
    place = Place(tmp_path)
    assert place.alone("fleet", "init", "acme", "--fleet", "acme").code == 0
    cases = {
        POLICY.replace("expect: none", "expect: deny"): (1, "failed policy.yaml:8"),
        POLICY + "fleet: {stages: [half]}\n": (2, "no stage `half`"),
    }
    for text, (code, told) in cases.items():
        place.file("policy.yaml", text)
        ended = place.alone("fleet", "publish", "policy.yaml", "--fleet", "acme")
        assert ended.code == code and told in ended.err, ended


def test_leaving_with_damaged_files(tmp_path: Path) -> None:
    """It always works: otherwise a damaged policy would deny every call for ever."""
    place = Place(tmp_path)
    folder = Path(enrolment_file(place.home / ".claude")).parent
    folder.mkdir(parents=True)
    for name in ("enrolment.json", "policy.json"):
        (folder / name).write_text("{")
    assert "can't be read" in place.run("explain", "ls").out

    ended = place.typing("fleet", "leave", answers=[("[y/N]", "y\n")])

    assert ended.code == 0 and "left the fleet" in ended.out, ended
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("verb", [("enrol", "nats://127.0.0.1:1", "x.creds"), ("leave",), ("publish", "x.yaml")])
def test_only_a_person_decides(tmp_path: Path, verb: tuple[str, ...]) -> None:
    """Not an agent, and for the trust in a fleet not a program without a terminal."""
    place = Place(tmp_path)
    place.file("x.creds", "{}")
    place.file("x.yaml", RULES)

    ended = place.run("fleet", *verb, CLAUDECODE="1")

    assert ended.code == 2 and "is refused here" in ended.err, ended
