"""The table of docs/hosts.md: the results in each agent. A run of some agents only changes their columns."""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from billhook.agents.base import can
from clients.agents import AGENTS
from clients.cases import BY_NAME, CASES
from clients.proving import KnownValue
from clients.running import TESTS

DOCUMENT: Final = TESTS.parent / "docs" / "hosts.md"
_ORDER: Final = (
    "claude",
    "claude-sdk",
    "codex",
    "gemini",
    "qwen",
    "copilot",
    "copilot-claude",
    "opencode",
    "pi",
    "cline",
    "openclaw",
    "hermes",
)
TITLES: Final = {name: AGENTS[name].title for name in _ORDER}
KNOWN: Final[Mapping[tuple[str, str], str]] = {
    ("codex", "guard-build"): "`codex exec` itself refuses `rm -rf`",
    ("gemini", "recipe-write"): "Gemini CLI itself refuses to write a `.env`",
    **{("hermes", name): "held until the next prompt" for name in ("context", "context-after", "replace-output")},
    **{("openclaw", name): "OpenClaw gives its own reason" for name in ("ask", "guard-ask")},
    ("hermes", "keep-going"): "Hermes runs this hook only after it has edited code",
    ("hermes", "recipe-tests-fixed"): "Hermes itself also sends its model back, twice",
    **{("hermes", name): "Hermes can't refuse a prompt" for name in ("prompt", "missing-prompt")},
    ("hermes", "too-late"): "0.19.0 ignores `fail_closed`",
}
"""Known differences of agents from the capability table, with the reason."""

Columns = dict[str, dict[str, str]]
_FIELDS: Final = {
    "rewrite": "rewrite_input",
    "recipe-uv": "rewrite_input",
    "context": "context",
    "context-after": "context",
    "replace-output": "replace_output",
    "ask": "ask",
    "guard-ask": "ask",
    "stop": "stop",
}


def cell(seen: KnownValue) -> str:
    """The result; with what an answer became if the agent can't express it; in bold if a promise was not kept."""
    if not seen.kept:
        known = KNOWN.get((seen.host, seen.case))
        return f"{seen.seen}: {known}" if known else f"**{seen.seen}**, not: {seen.promised}"
    field = _FIELDS.get(seen.case)
    rounded = can(AGENTS[seen.host].speaks, BY_NAME[seen.case].needs).becomes(field) if field else ""
    return f"{seen.seen} ({rounded})" if rounded else seen.seen


def failed(seen: KnownValue) -> bool:
    """Whether a promise was not kept, and this is not a known difference."""
    return not seen.kept and (seen.host, seen.case) not in KNOWN


def write(results: Iterable[KnownValue], versions: Mapping[str, str]) -> None:
    """Writes the results into the document, between its marks."""
    text = DOCUMENT.read_text()
    columns = _read(between(text, "cases"))
    for seen in results:
        title = f"{TITLES[seen.host]} {versions[seen.host]}"
        old = next((name for name in columns if _bare(name) == TITLES[seen.host]), None)
        if old != title:
            columns.pop(old or "", None)
            columns[title] = {}
        columns[title][BY_NAME[seen.case].title] = cell(seen)
    DOCUMENT.write_text(put_between(text, "cases", _table(columns)))


def between(text: str, mark: str) -> str:
    """The text between two marks of the document."""
    found = re.search(rf"<!-- {mark} -->\n(.*?)<!-- end of {mark} -->", text, re.DOTALL)
    return found[1] if found else ""


def put_between(text: str, mark: str, new: str) -> str:
    """The document with new text between two marks."""
    start, end = f"<!-- {mark} -->\n", f"<!-- end of {mark} -->"
    head, _, rest = text.partition(start)
    return head + start + new + end + rest.partition(end)[2]


def _bare(title: str) -> str:
    return re.sub(r" [\d.]+$", "", title)


def _read(table: str) -> Columns:
    rows = [[part.strip() for part in line.strip().strip("|").split("|")] for line in table.splitlines() if "|" in line]
    if len(rows) < 2:
        return {}
    titles, body = rows[0][1:], rows[2:]
    return {title: {row[0]: row[at + 1] for row in body} for at, title in enumerate(titles)}


def _table(columns: Columns) -> str:
    order = list(TITLES.values())
    titles = sorted(columns, key=lambda title: order.index(_bare(title)))
    lines = [["what the hook does", *titles], ["---"] * (len(titles) + 1)]
    for case in CASES:
        lines.append([case.title, *(columns[title].get(case.title) or "–" for title in titles)])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
