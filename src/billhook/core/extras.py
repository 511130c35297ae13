"""How to install an optional dependency of billhook, the way billhook itself was installed."""

import importlib.metadata
import importlib.util
import re
import shlex
import sys
from pathlib import Path
from typing import Any, Final

_RECEIPT: Final = "uv-receipt.toml"  # `uv tool install` leaves it in the environment that it makes
_METADATA: Final = "pipx_metadata.json"  # so does pipx


def install_command(extra: str, prefix: str = sys.prefix, program: str = sys.executable) -> str:
    """The command that installs the extra, such as `pipx inject billhook httpx`."""
    if (Path(prefix) / _RECEIPT).is_file():
        return f"uv tool install {shlex.quote(_for_uv(Path(prefix) / _RECEIPT, extra))}"
    if (Path(prefix) / _METADATA).is_file():
        return f"pipx inject {shlex.quote(Path(prefix).name)} {' '.join(packages_of(extra))}"
    wanted = shlex.quote(f"billhook[{extra}]")
    if importlib.util.find_spec("pip") is None:
        return f"uv pip install --python {shlex.quote(program)} {wanted}"
    return f"{shlex.quote(program)} -m pip install {wanted}"


def packages_of(extra: str) -> list[str]:
    """The packages of an extra."""
    try:
        needed = importlib.metadata.requires("billhook") or []
    except importlib.metadata.PackageNotFoundError:
        needed = []
    of_it = re.compile(rf"extra == ['\"]{re.escape(extra)}['\"]")
    return [re.split(r"[<>=!~;\[ ]", one, maxsplit=1)[0] for one in needed if of_it.search(one)] or [extra]


def _for_uv(receipt: Path, extra: str) -> str:
    """The requirement that the tool was installed with, and the extra: `billhook[http,serve]`, or a folder."""
    known = _requirement(receipt)
    extras = sorted({*known.get("extras", ()), extra})
    source = known.get("directory") or known.get("editable") or "billhook"
    return f"{source}[{','.join(extras)}]"


def _requirement(receipt: Path) -> dict[str, Any]:
    import tomllib

    try:
        listed = tomllib.loads(receipt.read_text(encoding="utf-8"))["tool"]["requirements"]
        return next((one for one in listed if isinstance(one, dict) and one.get("name") == "billhook"), {})
    except (OSError, ValueError, KeyError, TypeError):
        return {}
