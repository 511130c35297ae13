"""What one file contains."""

from typing import Any

import msgspec

from billhook.config.declaration import Declared
from billhook.config.nodes import Node
from billhook.config.sources import SourceFile
from billhook.core.text import Finding


class Builtin(msgspec.Struct, frozen=True):
    """What a file says about one built-in."""

    name: str
    enabled: bool | None = None
    options: dict[str, Any] = {}  # what is set, by our names for the options
    line: int = 0
    column: int = 0
    broken: str = ""  # what is wrong with its options: a guard among the built-ins must not go on without them


class FileRead(msgspec.Struct, frozen=True, kw_only=True):
    """All that one file says."""

    source: SourceFile
    entries: tuple[Declared, ...] = ()
    findings: tuple[Finding, ...] = ()
    readable: bool = True
    variables: frozenset[str] = frozenset()  # what the file's `env` sets for every hook of an agent
    says_gate: bool = False  # there seems to be a gate in what could not be read
    parallel: bool | None = None
    disable_all: bool = False
    builtins: tuple[Builtin, ...] = ()
    allowed_urls: tuple[str, ...] | None = None
    allowed_header_env: tuple[str, ...] | None = None
    permissions: tuple[tuple[Node, Node], ...] = ()
    """Every `permissions` of the file, also misspelt, as it stands there: `permitting` reads them."""
    lost_permissions: bool = False  # rules may have been in what could not be read
    places: dict[str, tuple[int, int]] = {}
