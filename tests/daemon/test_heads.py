"""The daemon exports heads of the log by itself; with them, `verify` finds what the chain of hashes can't show."""

import hashlib
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from billhook.serve import control
from billhook.store.files import log_folder
from daemon.running import Home, eventually, home_in

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the tests around the daemon look into /proc")

OPTIONS = "builtins:\n  event-logger:\n    options: {export_head_to: %s, export_head_every: 1}\n"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with home_in(tmp_path) as one:
        (tmp_path / "share").mkdir()
        one.own(OPTIONS % (tmp_path / "share"))
        yield one


def heads_of(home: Home) -> list[str]:
    return [line for file in (home.project.parent / "share").glob("*.heads") for line in file.read_text().splitlines()]


def log_of(home: Home) -> Path:
    return log_folder(home.root, str(home.project)) / "hooks.jsonl"


def recorded(home: Home) -> Path:
    """A log of four records, the last of which is in an exported head; no daemon runs any more."""
    daemon = home.start()
    for _ in range(4):
        assert home.ask().code == 0
    eventually(lambda: any(line.startswith("4:") for line in heads_of(home)), 30)
    daemon.terminate()
    daemon.wait()
    assert verified(home) == (0, "")
    return log_of(home)


def verified(home: Home) -> tuple[int, str]:
    ended = home.billhook("events", "verify", "--json", cwd=home.project)
    return ended.returncode, " ".join(one["what"] for one in json.loads(ended.stdout)["findings"])


def rewritten(lines: list[bytes]) -> list[bytes]:
    """Every deny that was there is gone, and all hashes are right again."""
    made, before = [], ""
    for line in lines:
        text = re.sub(rb'"prev":"[0-9a-f]*"', b'"prev":"%s"' % before.encode(), line.replace(b'"none"', b'"allow"'))
        text = text[: text.rindex(b',"hash":')]
        before = hashlib.sha256(text).hexdigest()
        made.append(text + b',"hash":"%s"}\n' % before.encode())
    return made


ATTACKS: dict[str, tuple[Callable[[list[bytes]], list[bytes] | None], str]] = {
    "the end is cut off": (lambda lines: lines[:2], "the log was truncated: the exported head, record 4"),
    "the end is cut off and it went on": (lambda lines: [*lines[:3], *rewritten(lines)[3:]], "does not match record 3"),
    "all of it is rewritten": (rewritten, "the log was rewritten up to here"),
    "it is emptied": (lambda lines: [], "it has no record"),
    "it is removed": (lambda lines: None, "it has no record"),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_attacks_on_the_log_are_found(home: Home, name: str) -> None:
    """Nothing was exported by hand, and `verify` is given no head; the copy below the state root is of no help."""
    attack, reported = ATTACKS[name]
    log = recorded(home)
    changed = attack(log.read_bytes().splitlines(keepends=True))
    log.unlink() if changed is None else log.write_bytes(b"".join(changed))

    code, findings = verified(home)
    assert code == 1 and reported in findings


def test_a_head_is_never_replaced(home: Home) -> None:
    """A log that was cut back and goes on gets new heads; the old ones still tell."""
    log = recorded(home)
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:1]))
    daemon = home.start()
    for _ in range(5):
        assert home.ask().code == 0
    eventually(lambda: any(line.startswith("6:") for line in heads_of(home)), 30)
    daemon.terminate()
    daemon.wait()

    code, findings = verified(home)
    assert code == 1 and "record 4: it does not match the exported head" in findings


def test_a_folder_that_is_gone_is_reported(home: Home) -> None:
    """Events are answered as before; the daemon's log, `doctor` and `verify` name the folder."""
    recorded(home)
    share = home.project.parent / "share"
    share.rename(share.with_name("unmounted"))
    daemon = home.start()
    assert home.ask().code == 0
    eventually(lambda: b"the head of a log was not exported" in (home.folder / control.LOG).read_bytes(), 30)
    daemon.terminate()
    daemon.wait()

    assert not share.exists()
    for verb in (("events", "verify"), ("doctor", "claude")):
        ended = home.billhook(*verb, cwd=home.project)
        assert str(share) in ended.stdout + ended.stderr and ended.returncode != 0


def test_heads_that_are_overdue_are_shown(home: Home) -> None:
    """Records that no daemon exported, after the interval."""
    recorded(home)
    for file in (home.project.parent / "share").glob("*.heads"):
        os.utime(file, (1, 1))
    home.billhook("fire", "Stop", cwd=home.project)

    for verb in ((), ("doctor", "claude")):
        assert "is of record 4" in " ".join(home.billhook(*verb, cwd=home.project).stdout.split())
