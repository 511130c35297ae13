"""What is not installed is named with a command that fits the way billhook was installed."""

import sys
from pathlib import Path

import pytest

from billhook.core.text import install_command, packages_of

UV = '[tool]\nrequirements = [{ name = "billhook"%s }]\nentrypoints = []\n'
PIPX = '{"main_package": {"package": "billhook"}}'
INSTALLED: dict[str, tuple[dict[str, str], str]] = {
    "uv tool": ({"uv-receipt.toml": UV % ""}, "uv tool install 'billhook[http]'"),
    "uv tool with an extra": (
        {"uv-receipt.toml": UV % ', extras = ["serve"]'},
        "uv tool install 'billhook[http,serve]'",
    ),
    "uv tool from a folder": (
        {"uv-receipt.toml": UV % ', directory = "/src/billhook"'},
        "uv tool install '/src/billhook[http]'",
    ),
    "uv tool, a receipt that is damaged": ({"uv-receipt.toml": "["}, "uv tool install 'billhook[http]'"),
    "pipx": ({"pipx_metadata.json": PIPX}, "pipx inject billhook httpx"),
    "pip": ({}, "/x/bin/python -m pip install 'billhook[http]'"),
}


@pytest.mark.parametrize(("files", "command"), INSTALLED.values(), ids=INSTALLED.keys())
def test_the_command_fits(tmp_path: Path, files: dict[str, str], command: str) -> None:
    """By what the installer left in the environment."""
    prefix = tmp_path / "billhook"
    prefix.mkdir()
    for name, text in files.items():
        (prefix / name).write_text(text)

    assert install_command("http", str(prefix), "/x/bin/python") == command


def test_without_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Environments that uv makes have none."""
    monkeypatch.setitem(sys.modules, "pip", None)

    assert install_command("http", str(tmp_path), "/x/python") == "uv pip install --python /x/python 'billhook[http]'"


def test_packages_of_an_extra() -> None:
    """As the package's metadata has them."""
    assert packages_of("http") == ["httpx"]
    assert {"starlette", "uvicorn"} <= set(packages_of("serve"))
