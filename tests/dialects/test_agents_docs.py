"""The tables of docs/dialects.md match the data."""

from pathlib import Path

import pytest

from billhook.agents import AGENTS, EVENT_NAMES, NARROWER
from billhook.agents.base import CAPABILITIES, FIELDS, Capabilities
from billhook.core.dialect_traits import MEANINGS
from billhook.core.tools import NAMINGS

PAGE = (Path(__file__).parents[2] / "docs" / "dialects.md").read_text("utf-8")
COLUMNS = ("event", *(field.replace("_", " ") for field in FIELDS))


def line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def cells(row: Capabilities) -> list[str]:
    return ["yes" if getattr(row, field) else row.instead.get(field, "-") for field in FIELDS]


def capabilities(agent: str) -> str:
    """The table of one agent: what it can be told on each event, and what becomes of the rest."""
    lines = [line(*COLUMNS), "|" + "---|" * len(COLUMNS)]
    for event, row in CAPABILITIES[agent].items():
        own = EVENT_NAMES[agent][event]
        lines.append(line(event if own == event else f"{event} (`{own}`)", *cells(row)))
    for own, row in AGENTS[agent].narrower_capabilities.items():
        lines.append(line(f"{NARROWER[agent][own]} (`{own}`)", *cells(row)))
    return "\n".join(lines)


def tools(agent: str) -> str:
    """What an agent calls the tools, by billhook's names."""
    owns: dict[str, list[str]] = {}
    for own, name in NAMINGS[agent].items():
        owns.setdefault(name, []).append(f"`{own}`")
    return ", ".join(f"`{name}` {' '.join(owns[name])}" for name in sorted(owns))


@pytest.mark.parametrize("agent", AGENTS)
def test_the_capabilities_of_an_agent_are_documented(agent: str) -> None:
    """A reader sees what the codec does, before it matters."""
    assert f"\n### {AGENTS[agent].title}\n" in PAGE
    assert f"\n\n{capabilities(agent)}\n" in PAGE


@pytest.mark.parametrize("agent", [name for name in AGENTS if name in NAMINGS])
def test_the_names_of_tools_are_documented(agent: str) -> None:
    """A reader finds a tool under the name that an agent has for it."""
    assert f"| {AGENTS[agent].title} | {tools(agent)} |" in PAGE


@pytest.mark.parametrize("agent", AGENTS)
def test_the_time_of_an_agent_is_documented(agent: str) -> None:
    """Time units differ, and a timeout that is a thousand times too short lets every call through."""
    row = MEANINGS[agent]
    unit = "milliseconds" if row.time_per_second == 1000 else "seconds"
    if row.milliseconds_from:
        unit = f"below {row.milliseconds_from}: seconds; else milliseconds"

    assert f"| {AGENTS[agent].title} | {unit} | {row.timeout:g} s |" in PAGE
