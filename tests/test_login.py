"""The login environment: taken once, from profiles that behave badly."""

import asyncio
import os
import sys
import threading
from pathlib import Path

import pytest

from billhook.runners import login

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no login shell")


@pytest.fixture
def base(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "KEPT": "as it was", "PWD": "/somewhere", "SHLVL": "7"}


def profile(base: dict[str, str], text: str) -> None:
    """Write a profile that also counts how often it was read."""
    Path(base["HOME"], ".profile").write_text(f'echo run >> "$HOME/runs"\n{text}\n')


def runs(base: dict[str, str]) -> int:
    path = Path(base["HOME"], "runs")
    return len(path.read_text().splitlines()) if path.exists() else 0


def environment(base: dict[str, str], seconds: float = 10) -> dict[str, str]:
    return dict(asyncio.run(login.environment(base, seconds=seconds)))


def test_a_profile_sets_changes_and_unsets(base: dict[str, str]) -> None:
    """What a profile does to variables is what a command gets."""
    base["GONE"] = "x"
    profile(base, "export NEW='two\nlines = 2' PATH=\"$HOME/bin:$PATH\"\nunset GONE\nPRIVATE=1")
    result = environment(base)
    assert result["NEW"] == "two\nlines = 2"
    assert result["PATH"].startswith(base["HOME"] + "/bin:")
    assert result["KEPT"] == "as it was"
    assert "GONE" not in result and "PRIVATE" not in result
    assert login.problem(base) == ""


def test_the_shells_own_variables_are_not_taken(base: dict[str, str]) -> None:
    """What the snapshot's shell sets for itself stays as it was given."""
    profile(base, "")
    result = environment(base)
    assert (result["PWD"], result["SHLVL"]) == ("/somewhere", "7")
    assert not {"_", "OLDPWD", "BILLHOOK_CHILD"} & set(result)


def test_it_is_the_same_as_the_real_one(base: dict[str, str]) -> None:
    """A real login shell gives a command the same variables."""
    profile(base, "export A=1 PATH=/opt/bin:$PATH")
    argv = ("/bin/sh", "-lc", "exec /usr/bin/env -0")
    from billhook.runners.process import run

    ended = asyncio.run(run(argv, stdin=b"", env=base, seconds=10))
    real = dict(os.fsdecode(pair).split("=", 1) for pair in ended.stdout.split(b"\0") if pair)
    own = ("_", "SHLVL", "PWD", "OLDPWD", "BILLHOOK_CHILD")
    mine = environment(base)
    assert {k: v for k, v in mine.items() if k not in own} == {k: v for k, v in real.items() if k not in own}


def test_values_of_any_bytes(base: dict[str, str]) -> None:
    """A value that is not UTF-8 survives."""
    base["ODD"] = os.fsdecode(b"\xff\xfe")
    profile(base, "export MORE=$ODD")
    assert environment(base)["MORE"] == base["ODD"]


def test_it_is_taken_once(base: dict[str, str]) -> None:
    """The second call runs no shell; a changed profile or base does."""
    profile(base, "export A=1")
    assert environment(base)["A"] == environment(base)["A"] == "1"
    assert runs(base) == 1
    profile(base, "export A=22")
    assert environment(base)["A"] == "22"
    assert runs(base) == 2
    environment({**base, "OTHER": "1"})
    assert runs(base) == 3


def test_noise_is_ignored(base: dict[str, str]) -> None:
    """A profile may print what it likes, even what looks like variables."""
    profile(base, "echo Welcome; printf 'A=evil\\0'; echo oops >&2; export A=good")
    assert environment(base)["A"] == "good"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("exit 3", "exit code 3"),
        ("exec true", "exit code 0"),
        ("echo broken >&2; exit 1", "broken"),
        ("kill -9 $$", "signal 9"),
        ("head -c 2000000 /dev/zero", "printed too much"),
        ("unset nothing; ) syntax", "exit code 2"),
    ],
)
def test_a_profile_that_ends_the_shell(base: dict[str, str], text: str, words: str) -> None:
    """Then the environment is the given one, and the reason is kept."""
    profile(base, text)
    assert environment(base) == base
    assert words in login.problem(base)
    environment(base)
    assert runs(base) == 1


def test_a_profile_that_hangs(base: dict[str, str]) -> None:
    """A profile that waits is ended, and the problem names it."""
    profile(base, "sleep 60")
    assert environment(base, 0.3) == base
    assert "did not end within 0.3 s" in login.problem(base)


def test_a_failure_is_tried_again(base: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A failure does not last for ever."""
    monkeypatch.setattr(login, "_RETRY", 0.0)
    profile(base, "[ -e $HOME/second ] || { touch $HOME/second; exit 1; }; export A=1")
    assert environment(base) == base
    assert environment(base)["A"] == "1"


def test_no_home_and_no_profile(base: dict[str, str]) -> None:
    """Without a profile, or without a home, there is still an environment."""
    assert environment(base)["KEPT"] == "as it was"
    del base["HOME"]
    assert environment(base)["KEPT"] == "as it was"


def test_an_environment_that_can_not_be_passed(base: dict[str, str]) -> None:
    """Variables that no process can have are a reason, not an exception."""
    base["BAD"] = "a\0b"
    assert environment(base) == base
    assert "EINVAL" in login.problem(base)


def test_callers_share_one_snapshot(base: dict[str, str]) -> None:
    """Many callers in many threads, several in each loop, cause one run."""
    profile(base, "sleep 0.2; export A=1")
    results: list[str] = []

    def work() -> None:
        async def main() -> None:
            found = await asyncio.gather(*(login.environment(base) for _ in range(4)))
            results.extend(each["A"] for each in found)

        asyncio.run(main())

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == ["1"] * 32
    assert runs(base) == 1


def test_a_cancelled_caller_leaves_the_others_alone(base: dict[str, str]) -> None:
    """When the caller that takes the snapshot is cancelled, another takes it; a cancelled waiter affects no other."""
    profile(base, "sleep 0.3; export A=1")

    async def main() -> None:
        first, waiter, last = (asyncio.create_task(login.environment(base)) for _ in range(3))
        await asyncio.sleep(0.1)
        waiter.cancel()
        first.cancel()
        done = await asyncio.gather(first, waiter, last, return_exceptions=True)
        assert [type(each) for each in done[:2]] == [asyncio.CancelledError] * 2
        assert not isinstance(done[2], BaseException) and done[2]["A"] == "1"

    asyncio.run(main())
    assert runs(base) == 2


def test_the_cache_is_bounded(base: dict[str, str]) -> None:
    """Old snapshots make room."""
    for number in range(20):
        environment({**base, "N": str(number)})
    assert len(login._snapshots) <= 16


def test_what_is_known_needs_no_waiting(base: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot that was taken is there at once, until a profile changes or it failed too long ago."""
    profile(base, "export A=1")
    assert login.known(base) is None
    assert login.known(dict(environment(base))) is None
    assert login.known(base) == environment(base)
    profile(base, "exit 3")
    assert login.known(base) is None
    assert environment(base) == base == login.known(base)
    monkeypatch.setattr(login, "_RETRY", 0.0)
    assert login.known(base) is None


@pytest.mark.parametrize("settled", [True, False], ids=["a folder of last year", "a folder that just changed"])
def test_new_files_in_profile_d(base: dict[str, str], monkeypatch: pytest.MonkeyPatch, settled: bool) -> None:
    """The folder is listed again when it changed, and each file in it is looked at."""
    folder = Path(base["HOME"], "profile.d")
    folder.mkdir()
    (folder / "a.sh").touch()
    if settled:
        os.utime(folder, (1_700_000_000, 1_700_000_000))
    monkeypatch.setattr(login, "_FOLDER", str(folder))
    first = login._key(base)
    assert login._key(base) == first
    (folder / "b.sh").touch()
    second = login._key(base)
    (folder / "b.sh").write_text("export B=1")
    assert len({first, second, login._key(base)}) == 3
