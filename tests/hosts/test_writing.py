"""Agents' files on disk: links, modes, errors, and concurrent changes."""

import os
import stat
from pathlib import Path

import pytest

from billhook.agents import AGENTS
from billhook.cli.install.entries import EntryOptions
from billhook.cli.install.plan import carry_out, plan_install, plan_uninstall
from billhook.config.edit_json import FaultyFileError
from billhook.core.errors import BillhookError
from hosts.installed import Home


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    found = Home(tmp_path)
    monkeypatch.setenv("HOME", str(found.home))
    for host in AGENTS.values():
        if host.home_variable:
            monkeypatch.delenv(host.home_variable, raising=False)
    return found


def test_a_linked_dotfile(home: Home) -> None:
    """A link of a dotfile manager stays a link; its target is written, and restored."""
    real = home.folder / "dotfiles" / "claude.json"
    real.parent.mkdir()
    real.write_text('{"model": "a"}')
    link = home.file(scope="user")
    link.parent.mkdir(parents=True)
    link.symlink_to(real)
    home.install(scope="user")
    assert link.is_symlink() and "billhook-hook" in real.read_text()
    home.uninstall(scope="user")
    assert link.is_symlink() and real.read_text() == '{"model": "a"}'


def test_a_linked_folder(home: Home) -> None:
    """The same when the whole folder is linked."""
    (home.folder / "dotfiles").mkdir()
    (home.home / ".codex").symlink_to(home.folder / "dotfiles")
    home.install("codex", "user")
    assert (home.folder / "dotfiles" / "hooks.json").exists()
    home.uninstall("codex", "user")
    assert list((home.folder / "dotfiles").iterdir()) == []
    assert (home.home / ".codex").is_symlink()


@pytest.mark.parametrize("what", ["file", "folder"])
def test_a_link_out_of_a_project(home: Home, what: str) -> None:
    """A repository can't make billhook write a file elsewhere."""
    precious = home.folder / "precious"
    precious.mkdir()
    (precious / "settings.json").write_text("{}")
    if what == "folder":
        (home.project / ".claude").symlink_to(precious)
    else:
        (home.project / ".claude").mkdir()
        home.file().symlink_to(precious / "settings.json")
    with pytest.raises(BillhookError, match="leads out of the project"):
        home.install()
    assert (precious / "settings.json").read_text() == "{}"


def test_a_link_to_nowhere(home: Home) -> None:
    """A link is refused if its target's folder is missing; if only the file is missing, it is created."""
    link = home.file(scope="user")
    link.parent.mkdir(parents=True)
    link.symlink_to(home.folder / "gone" / "x.json")
    with pytest.raises(BillhookError, match="which does not exist"):
        home.install(scope="user")
    (home.folder / "gone").mkdir()
    home.install(scope="user")
    assert (home.folder / "gone" / "x.json").exists()
    home.uninstall(scope="user")
    assert link.is_symlink() and not (home.folder / "gone" / "x.json").exists()


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o400, 0o755])
def test_the_mode_stays(home: Home, mode: int) -> None:
    """The umask does not change it."""
    file = home.write("{}")
    file.chmod(mode)
    before = os.umask(0o077)
    try:
        home.install()
        assert stat.S_IMODE(file.stat().st_mode) == mode
        home.uninstall()
    finally:
        os.umask(before)
    assert stat.S_IMODE(file.stat().st_mode) == mode


def test_modes_of_new_files(home: Home) -> None:
    """The user's files are private; for a project's, the umask applies."""
    home.install(scope="user")
    assert stat.S_IMODE(home.file(scope="user").stat().st_mode) == 0o600
    home.install()
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(home.file().stat().st_mode) == 0o666 & ~mask


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        (b'{"a": 1,\n "b" 2}', ":2:2", "this key has no `:`"),
        (b'{\n  "hooks": {\n', ":2:12", "is never closed"),
        (b'{"a": 1}\n{"b": 2}', ":2:1", "second document"),
        (b"[]", ":1", "not a mapping"),
        (b'"text"', ":1", "not a mapping"),
        (b'{"model": "x",\n "hooks": []}', ":2", "`hooks` is not a mapping"),
        (b'{"hooks": null}', ":1", "`hooks` is not a mapping"),
        (b'{"hooks": {\n"PreToolUse": {}}}', ":2", "`PreToolUse` is not a list"),
        (b'{"a": "\xff"}', ":1:8", "not UTF-8"),
        ('{"a": 1}'.encode("utf-16"), "", "UTF-16"),
        (b'{"a": NaN}', ":1:7", "NaN"),
        (b"{" * 100, "", "nested deeper"),
        (b"<<<<<<< HEAD\n{}\n=======\n{}\n>>>>>>> x\n", ":1:1", ""),
    ],
    ids=lambda value: value.decode("utf-8", "replace")[:20] if isinstance(value, bytes) else "",
)
def test_an_unreadable_file(home: Home, text: bytes, place: str, message: str) -> None:
    """It is refused with its path and a hint, and no byte of it changes."""
    file = home.write(text)
    for do in (home.install, home.uninstall):
        with pytest.raises(FaultyFileError) as error:
            do()
        assert error.value.place.startswith(f"{file}{place}"), error.value.place
        assert message in error.value.message and error.value.hint
        assert file.read_bytes() == text
    assert list(file.parent.iterdir()) == [file]


def test_not_a_file(home: Home) -> None:
    """A folder, a pipe, or a file in place of a folder: a clear error, at once."""
    home.file().mkdir(parents=True)
    os.mkfifo(_below(home.file("gemini")))
    (home.project / ".qwen").write_text("")
    for host, message in (("claude", "it is a folder"), ("gemini", "not a regular file"), ("qwen", "Not a directory")):
        with pytest.raises(BillhookError, match=message) as error:
            home.install(host)
        assert error.value.hint


def test_codex_has_a_second_file(home: Home) -> None:
    """Its settings about hooks are reported; one that can't be read, such as a pipe, does not block."""
    second = home.project / ".codex" / "config.toml"
    second.parent.mkdir()
    for text, words in (
        ("model = 'x'\n", ""),
        ("[hooks.state]\n", ""),
        ("[features]\nhooks = false\n", "disables hooks"),
        ("[[hooks.Stop]]\n", "has other hooks"),
        ("model = \n", "can't be read"),
    ):
        second.write_text(text)
        notes = " ".join(home.install("codex").notes)
        assert words in notes and bool(notes) == bool(words)
    second.unlink()
    os.mkfifo(second)
    assert "can't be read" in " ".join(home.install("codex").notes)


def _below(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def test_too_large(home: Home) -> None:
    """A file that is too large for settings is not read to its end."""
    home.write(b'{"a": "' + b"x" * (1 << 20) + b'"}')
    with pytest.raises(BillhookError, match="bytes"):
        home.install()


@pytest.mark.parametrize("doing", ["install", "uninstall"])
def test_a_concurrent_change(home: Home, doing: str) -> None:
    """A change of another program after the file was read is not overwritten."""
    file = home.write("{}")
    if doing == "uninstall":
        home.install()
        change = plan_uninstall(home.target())
    else:
        change = plan_install(home.target(), ["Stop"], EntryOptions(scope="project"), adopt=False, seconds={})
    file.write_text('{"theirs": 1}')
    with pytest.raises(BillhookError, match="was changed by another process"):
        carry_out(change)
    assert file.read_text() == '{"theirs": 1}'
    assert home.install().state == "installed"
    home.uninstall()
    assert file.read_text() == '{"theirs": 1}'


def test_a_full_disk(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that can't be written completely stays unchanged, and no other file is left."""
    import resource

    file = home.write('{"model": "a"}')
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    change = plan_install(
        home.target(), AGENTS["claude"].events, EntryOptions(scope="project"), adopt=False, seconds={}
    )
    resource.setrlimit(resource.RLIMIT_FSIZE, (600, limits[1]))
    try:
        with pytest.raises(BillhookError):
            carry_out(change)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert file.read_text() == '{"model": "a"}'
    assert list(file.parent.iterdir()) == [file]


def test_a_damaged_record(home: Home) -> None:
    """A damaged record is reported, with a fix."""
    change = home.install()
    (change.target.shelf.folder / "record.json").write_text("{")
    with pytest.raises(BillhookError, match="damaged") as error:
        home.uninstall()
    assert str(change.target.shelf.folder) in error.value.hint


@pytest.mark.parametrize(
    ("host", "variable", "inside"),
    [
        ("claude", "CLAUDE_CONFIG_DIR", "settings.json"),
        ("codex", "CODEX_HOME", "hooks.json"),
        ("gemini", "GEMINI_CLI_HOME", ".gemini/settings.json"),
        ("copilot", "COPILOT_HOME", "hooks/billhook.json"),
    ],
)
def test_an_agent_that_lives_elsewhere(
    home: Home, monkeypatch: pytest.MonkeyPatch, host: str, variable: str, inside: str
) -> None:
    """The variable that moves an agent's folder is respected."""
    elsewhere = home.folder / "elsewhere"
    monkeypatch.setenv(variable, str(elsewhere))
    home.install(host, "user")
    assert (elsewhere / inside).exists()
    home.uninstall(host, "user")
    assert not elsewhere.exists()


def test_crlf_behind_a_comment(home: Home) -> None:
    """After a last element with a comma and a comment, new lines have the file's line endings."""
    text = '{\n  "hooks": {\n    "Stop": [\n      {"hooks": []}, // tail\n    ], // last\n  }, // all\n}\n'
    file = home.write(text.replace("\n", "\r\n"))
    home.install(events=["PreToolUse", "Stop"])
    written = file.read_bytes()
    assert written.count(b"\n") == written.count(b"\r\n") == written.count(b"\r") > 7
    home.uninstall()
    assert file.read_bytes() == text.replace("\n", "\r\n").encode()


@pytest.mark.parametrize("host", ["gemini", "qwen"])
def test_billhook_is_disabled_by_its_name(home: Home, host: str) -> None:
    """Agents that can disable single hooks would not call it."""
    home.write('{\n  "hooksConfig": {"disabled": ["other", "billhook"]}\n}', host)
    (note,) = home.install(host).notes
    assert ":2 disables billhook's hooks (`hooksConfig.disabled`)" in note
    home.write('{"hooksConfig": {"disabled": ["other"]}}', host)
    assert not home.install(host).notes
