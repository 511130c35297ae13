"""The text of every code: the sections of codes.md, which comes with the package."""

import functools
import re
from pathlib import Path

import msgspec

from billhook.config.findings import Finding


class Section(msgspec.Struct, frozen=True):
    """What one code means: `## BH301 A matcher that can never match`, and what stands below it."""

    code: str
    title: str
    text: str  # without the heading

    @property
    def summary(self) -> str:
        """The first paragraph, as one line."""
        return " ".join(self.text.partition("\n\n")[0].split())


def is_note(finding: Finding) -> bool:
    """Whether it is worth knowing, but no fault of a file; such as everything that the event log says."""
    return finding.note or finding.code.startswith("BH6")


@functools.cache
def page() -> str:
    return Path(__file__).with_name("codes.md").read_text(encoding="utf-8")


@functools.cache
def sections() -> dict[str, Section]:
    """Every code, in the order of the page."""
    parts = re.split(r"^## (BH\d+) (.+)\n", page(), flags=re.MULTILINE)[1:]
    found = [
        Section(*three) for three in zip(parts[::3], parts[1::3], (text.strip() for text in parts[2::3]), strict=True)
    ]
    return {section.code: section for section in found}
