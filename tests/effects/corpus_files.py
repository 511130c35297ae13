"""The corpus: labelled commands in YAML files, one group per key.

`command` or `tool` and `input`: the call. `effects`: each `kind:scope`, as found in the repository below /tmp.
`decision`: what the guard answers. `wanted`: what it should answer, where that differs; it counts as a miss in the
score. `files`: a small tree to create first. `at`: `root` where the decision holds at the project's root only, `temp`
where it holds for a repository below /tmp only.
"""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import yaml

FOLDER = Path(__file__).parent / "corpus"
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Case(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One call and what the guard makes of it."""

    effects: list[str]
    decision: str
    command: str = ""
    tool: str = "Bash"
    input: dict[str, Any] = {}
    files: dict[str, str] = {}
    wanted: str = ""
    at: str = ""

    def given(self, home: str) -> dict[str, Any]:
        """The tool's input."""
        if self.command:
            return {"command": self.command}
        text = msgspec.json.encode(self.input).decode().replace("HOME", home)
        return msgspec.json.decode(text, type=dict[str, Any])

    @property
    def is_right(self) -> bool:
        """Whether it is stopped if it should be, and only then."""
        return (self.decision == "none") == ((self.wanted or self.decision) == "none")


@cache
def groups() -> dict[str, list[Case]]:
    """The cases by group."""
    found: dict[str, list[Case]] = {}
    for path in sorted(FOLDER.glob("*.yaml")):
        loaded = yaml.load(path.read_text(), _LOADER)
        for name, cases in loaded.items():
            found.setdefault(name, []).extend(msgspec.convert(cases, list[Case]))
    return found


def dangerous() -> Iterator[Case]:
    """Commands of the shell that are stopped, and that need no files; letters that look like others need to be seen."""
    for cases in groups().values():
        plain = (case for case in cases if case.command.isascii() and not case.files)
        yield from (case for case in plain if case.command and case.decision != "none")
