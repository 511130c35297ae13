"""Programs of the family files."""

from collections.abc import Mapping
from typing import Final

from billhook.effects.table import Reader, Row

ROWS: Final[tuple[Row, ...]] = ()
READERS: Final[Mapping[str, Reader]] = {}
