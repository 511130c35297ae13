"""docs/redaction.md lists what the code looks for: no more, and no less."""

import re
from pathlib import Path

import pytest

from billhook.store.secrets import (
    BEFORE_KEY,
    BEFORE_PASS,
    BEFORE_TOKEN_HARMLESS,
    BEFORE_TOKENS,
    COMMANDS,
    ENDINGS,
    FLAGS,
    HARMLESS_BEFORE_KEY,
    HARMLESS_FIRST,
    HARMLESS_LAST,
    PATTERNS,
    SHAPES,
    WORDS,
    is_secret,
)

PAGE = (Path(__file__).parents[2] / "docs" / "redaction.md").read_text()
NAMES = {
    "words that make a secret": WORDS,
    "endings": frozenset(ENDINGS),
    "before key": BEFORE_KEY,
    "harmless before key": HARMLESS_BEFORE_KEY,
    "before pass": BEFORE_PASS,
    "before tokens": BEFORE_TOKENS,
    "harmless last": HARMLESS_LAST,
    "harmless first": HARMLESS_FIRST,
    "harmless before token": BEFORE_TOKEN_HARMLESS,
}


@pytest.mark.parametrize("words", NAMES.values(), ids=NAMES.keys())
def test_the_page_lists_the_names(words: frozenset[str]) -> None:
    """docs/redaction.md has each list as the code has it, sorted, in one line of code."""
    assert f"`{' '.join(sorted(words))}`" in PAGE.replace("\n", " ")


def test_the_page_lists_the_shapes() -> None:
    """Each kind of token, its prefixes and how much has to follow them is a row of the page; no other row is."""
    rows = [f"| {s.name} | {', '.join(f'`{p.strip()}`' for p in s.prefixes)} | {s.least} |" for s in SHAPES]

    assert [line for line in PAGE.splitlines() if line.startswith("| ") and line.endswith(" |")][-len(rows) :] == rows


def test_the_page_lists_the_patterns() -> None:
    """Each kind of secret that is known by more than its beginning is named, and no other is."""
    listed = PAGE.partition("These are recognised by an expression for the whole token:")[2].partition(".\n")[0]

    assert " ".join(listed.split()) == "; ".join(pattern.name for pattern in PATTERNS)


@pytest.mark.parametrize("shown", [one.shown for one in (*FLAGS, *COMMANDS) if one.shown])
def test_the_page_shows_what_has_no_name(shown: str) -> None:
    """Each form of a command that is known is shown."""
    assert f"`{shown}`" in PAGE


def test_the_examples_of_names() -> None:
    """The page's statements about names are true."""
    for line in ("secret", "not secret"):
        listed = re.search(rf"^- {line}: (.*)$", PAGE, re.M)
        assert listed
        for name in re.findall(r"`([^`]+)`", listed[1]):
            assert is_secret(name) == (line == "secret"), name
