"""The path of billhook-hook in the user's settings, and the agents on this machine."""

import os
import sys
from pathlib import Path

import pytest

from billhook.cli.install import entries
from billhook.core.errors import UsageError


@pytest.mark.parametrize(
    ("path", "word"),
    [
        ("~/.local/bin/billhook-hook", ""),
        ("~/.local/share/uv/tools/billhook/bin/billhook-hook", ""),
        ("~/.local/share/pipx/venvs/billhook/bin/billhook-hook", ""),
        ("/opt/billhook/bin/billhook-hook", ""),
        ("/usr/bin/billhook-hook", ""),
        ("~/.cache/uv/archive-v0/x1/bin/billhook-hook", "cache"),
        ("~/.cache/uv/environments-v2/x/bin/billhook-hook", "cache"),
        ("~/.cache/pipx/ab/bin/billhook-hook", "cache"),
        ("~/.local/pipx/.cache/ab/bin/billhook-hook", "cache"),
        ("/elsewhere/uv-cache/archive-v0/x/bin/billhook-hook", "cache"),
        ("/tmp/venv/bin/billhook-hook", "temporary"),
        ("/var/tmp/venv/bin/billhook-hook", "temporary"),
        ("/scratch/venv/bin/billhook-hook", "temporary"),
    ],
)
def test_throw_away(path: str, word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs of uvx, `pipx run` and temporary environments are temporary; installed ones are not."""
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("UV_CACHE_DIR", "/elsewhere/uv-cache")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr("tempfile.tempdir", "/scratch")
    found = entries.throw_away(path.replace("~", "/home/me"))
    assert word in found and bool(found) == bool(word)


def program(folder: Path) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "billhook-hook"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


def test_a_permanent_program_on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From a temporary environment, a permanent program on PATH is used; without one, install is refused."""
    monkeypatch.setattr("billhook.cli.install.entries._SCRATCH", (str(tmp_path / "scratch"),))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    thrown, stays = program(tmp_path / "scratch" / "bin"), program(tmp_path / "stays")
    monkeypatch.setattr(sys, "executable", os.path.join(os.path.dirname(thrown), "python"))
    monkeypatch.setenv("PATH", os.path.dirname(stays))
    assert entries.lasting_program() == stays
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(UsageError, match="temporary folder") as error:
        entries.lasting_program()
    assert "uv tool install ." in error.value.hint
    os.unlink(thrown)
    with pytest.raises(UsageError, match="there is no `billhook-hook`"):
        entries.lasting_program()


def test_the_link_on_path_outlives_its_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a tool is linked into ~/.local/bin, the path of the link is used."""
    monkeypatch.setattr("billhook.cli.install.entries._SCRATCH", ())
    monkeypatch.setattr("tempfile.tempdir", "/nowhere")
    real = program(tmp_path / "tools")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "billhook-hook").symlink_to(real)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "tools" / "python"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert entries.lasting_program() == str(tmp_path / "bin" / "billhook-hook")


def test_a_program_that_was_named(tmp_path: Path) -> None:
    """By its path or its folder; anything else is refused."""
    path = program(tmp_path / "bin")
    assert entries.chosen_program(path) == entries.chosen_program(str(tmp_path / "bin")) == path
    for wrong in (str(tmp_path), "/bin/sh", str(tmp_path / "gone" / "billhook-hook")):
        with pytest.raises(UsageError, match="not an executable billhook-hook"):
            entries.chosen_program(wrong)


def test_agents_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By their program, their folder, or files in the project; billhook's state in ~/.claude does not count."""
    home, project, bin_ = tmp_path / "home", tmp_path / "project", tmp_path / "bin"
    for folder in (
        home / ".claude" / "hooks",
        home / ".gemini" / "tmp",
        project / ".cursor",
        project / ".github",
        bin_,
    ):
        folder.mkdir(parents=True)
    (bin_ / "codex").write_text("#!/bin/sh\n")
    (bin_ / "codex").chmod(0o755)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", str(bin_))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "COPILOT_HOME"):
        monkeypatch.delenv(name, raising=False)
    seen = entries.agents_here("user", str(project))
    assert [name for name, how in seen.items() if how] == ["codex", "gemini"]
    seen = entries.agents_here("project", str(project))
    assert [name for name, how in seen.items() if how] == ["codex", "gemini", "cursor"]
    (home / ".claude" / "settings.json").write_text("{}")
    assert entries.agents_here("user", str(project))["claude"]


def test_agents_with_the_names_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Antigravity's files are in Gemini CLI's folder, and `goose` is also a program for database migrations."""
    for folder in (tmp_path / ".gemini" / "config", tmp_path / "bin"):
        folder.mkdir(parents=True)
    (tmp_path / ".gemini" / "GEMINI.md").write_text("")  # both read it
    (tmp_path / "bin" / "goose").write_text("#!/bin/sh\n")
    (tmp_path / "bin" / "goose").chmod(0o755)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv("GEMINI_CLI_HOME", raising=False)
    seen = entries.agents_here("user", str(tmp_path))
    assert [name for name, how in seen.items() if how] == ["antigravity"]
    (tmp_path / ".config" / "goose").mkdir(parents=True)
    (tmp_path / ".gemini" / "settings.json").write_text("{}")
    seen = entries.agents_here("user", str(tmp_path))
    assert [name for name, how in seen.items() if how] == ["gemini", "antigravity", "goose"]
