"""Programs that only record their calls: they replace `rm` and `curl`, so that a failing guard destroys nothing."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Final

from clients.agents import Place
from clients.running import plain_environment

_STARTUP_FILES: Final = (".profile", ".bashrc", ".zprofile")
"""Login shells set PATH again in /etc/profile: each of these files puts the recorders first again."""


def recorder_files(place: Place, programs: Sequence[str]) -> Mapping[str, str]:
    """The recorders and the shells' startup files, by their paths below the root."""
    line = f'#!/bin/sh\nprintf "%s\\n" "${{0##*/}} $*" >> {shlex.quote(str(place.root / "recorded"))}\n'
    startup = f"export PATH={shlex.quote(str(place.root / 'bin'))}:$PATH\n"
    return {f"bin/{program}": line for program in programs} | {f"home/{name}": startup for name in _STARTUP_FILES}


def recorder_path(place: Place) -> str:
    """PATH with the recorders first."""
    return f"{place.root / 'bin'}:{plain_environment(place)['PATH']}"


def recorded(place: Place) -> list[str]:
    """The recorded commands, in order."""
    path = place.root / "recorded"
    return path.read_text().splitlines() if path.exists() else []
