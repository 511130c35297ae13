"""What is served, as OpenAPI 3.1: `openapi.json` beside this file, with what only the running server knows."""

import json
from pathlib import Path
from typing import Any

from billhook import __version__


def described(url: str) -> dict[str, Any]:
    """The whole description; `url` is where the server is."""
    description: dict[str, Any] = json.loads(Path(__file__).with_name("openapi.json").read_text(encoding="utf-8"))
    description["info"]["version"] = __version__
    description["servers"] = [{"url": url}]
    return description
