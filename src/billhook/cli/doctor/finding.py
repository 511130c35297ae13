"""One thing that the doctor has to say."""

from collections.abc import Iterable
from typing import Literal

import msgspec

Level = Literal["ok", "unknown", "warn", "fail"]
About = Literal["program", "installed", "trust", "daemon", "hooks", "log", "canary", "coverage"]


class DoctorFinding(msgspec.Struct, frozen=True):
    """What was looked at, how it is, and what mends it."""

    level: Level
    """`warn`: something is left unjudged, or may be. `fail`: the agent does not ask billhook, or gets no answer."""
    about: About
    text: str
    remedy: str = ""  # what a person types or does; nothing where all is well

    @property
    def well(self) -> bool:
        return self.level in ("ok", "unknown")


def all_well(findings: Iterable[DoctorFinding]) -> bool:
    """Whether nothing has to be mended."""
    return all(one.well for one in findings)
