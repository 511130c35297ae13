"""The help of every command: usage lines, examples and groups."""

from collections.abc import Iterator

import click
import pytest
from inline_snapshot import snapshot

from billhook.cli.group import billhook as group
from billhook.cli.main import GROUPS, HIDDEN, VERBS
from cli.terminal import billhook, environment


def commands(parent: click.Group, *path: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command with its words, those of groups included."""
    ctx = click.Context(parent)
    for name in parent.list_commands(ctx):
        found = parent.get_command(ctx, name)
        assert found is not None
        yield (*path, name), found
        if isinstance(found, click.Group):
            yield from commands(found, *path, name)


ALL = dict(commands(group))
NAMES = [" ".join(words) for words in ALL]
CHECKED = {("install",), ("uninstall",), ("explain",)}
"""Commands whose argument click does not require: they report themselves, with a better hint, that it is missing."""


def test_usage_lines() -> None:
    """What may be left out is in brackets."""
    lines = [billhook(*words, "--help").out.split("\n\n")[0] for words in ALL]
    assert "\n".join([billhook("--help").out.split("\n\n")[0], *lines]) == snapshot("""\
Usage: billhook [COMMAND] [OPTIONS]
Usage: billhook init [OPTIONS]
Usage: billhook install [OPTIONS] AGENT ...
Usage: billhook uninstall [OPTIONS] AGENT ...
Usage: billhook doctor [OPTIONS] [AGENT ...]
Usage: billhook demo [OPTIONS]
Usage: billhook add [OPTIONS] [NAME|FILE|FOLDER ...]
Usage: billhook remove [OPTIONS] NAME|FILE|FOLDER ...
Usage: billhook list [OPTIONS]
Usage: billhook explain [OPTIONS] EVENT|COMMAND|ID
Usage: billhook fire [OPTIONS] [EVENT]
Usage: billhook test [OPTIONS] [FILE ...]
Usage: billhook check [OPTIONS] [PATH ...]
Usage: billhook replay [OPTIONS]
Usage: billhook trust [OPTIONS] [NAME|HASH ...]
Usage: billhook shadow [OPTIONS]
Usage: billhook promote [OPTIONS] NAME
Usage: billhook agent [OPTIONS]
Usage: billhook events [SESSION] [OPTIONS]
Usage: billhook events list [OPTIONS]
Usage: billhook events search [OPTIONS] QUERY
Usage: billhook events show [OPTIONS] NR|ID
Usage: billhook events save [OPTIONS] NR|ID
Usage: billhook events files [OPTIONS] [SESSION]
Usage: billhook events stats [OPTIONS] [SESSION]
Usage: billhook events rename [OPTIONS] SESSION NAME
Usage: billhook events verify [OPTIONS]
Usage: billhook events export [OPTIONS] [SESSION]
Usage: billhook ui [OPTIONS]
Usage: billhook approvals [OPTIONS] [COMMAND] [ARGS]...
Usage: billhook approvals allow [OPTIONS] CODE|ID
Usage: billhook approvals deny [OPTIONS] CODE|ID
Usage: billhook allow-once [OPTIONS] CODE ...
Usage: billhook pause [OPTIONS] [TIME]
Usage: billhook resume [OPTIONS]
Usage: billhook fleet [OPTIONS] COMMAND [ARGS]...
Usage: billhook fleet dev [OPTIONS]
Usage: billhook fleet init [OPTIONS] [ORG]
Usage: billhook fleet enrol [OPTIONS] URL CREDS
Usage: billhook fleet leave [OPTIONS]
Usage: billhook fleet status [OPTIONS]
Usage: billhook fleet publish [OPTIONS] FILE
Usage: billhook fleet rollout [OPTIONS] [next|end]
Usage: billhook fleet events [OPTIONS]
Usage: billhook fleet verify [OPTIONS] HOST
Usage: billhook fleet approvals [OPTIONS] [COMMAND] [ARGS]...
Usage: billhook fleet approvals allow [OPTIONS] CODE|ID
Usage: billhook fleet approvals deny [OPTIONS] CODE|ID
Usage: billhook hook [OPTIONS] [EVENT]
Usage: billhook daemon [OPTIONS] COMMAND [ARGS]...
Usage: billhook daemon run [OPTIONS]
Usage: billhook daemon start [OPTIONS]
Usage: billhook daemon status [OPTIONS]
Usage: billhook daemon stop [OPTIONS]
Usage: billhook schema [OPTIONS] [hooks|settings]
Usage: billhook completion [OPTIONS] bash|zsh|fish\
""")


@pytest.mark.parametrize("words", ALL, ids=NAMES)
def test_optional_arguments_are_in_brackets(words: tuple[str, ...]) -> None:
    command = ALL[words]
    for one in (param for param in command.params if isinstance(param, click.Argument)):
        shown = one.make_metavar(click.Context(command))
        assert shown.startswith("[") == (not one.required and words not in CHECKED), shown


@pytest.mark.parametrize("words", sorted(CHECKED))
def test_a_missing_argument_is_reported(words: tuple[str, ...]) -> None:
    ended = billhook(*words)
    assert ended.code == 2 and "hint: " in ended.err


def test_groups() -> None:
    """Every verb is in one group, and hidden names are in none."""
    assert list(GROUPS) == ["Start", "Write hooks", "Run and watch", "Plumbing"]
    assert sum(map(len, GROUPS.values())) == len(VERBS)
    assert not HIDDEN.keys() & VERBS.keys()


def test_events_has_few_commands() -> None:
    assert len([words for words in ALL if words[:1] == ("events",) and len(words) == 2]) <= 10


@pytest.mark.parametrize("arguments", [(), ("list",), ("--json", "--last", "1")])
def test_log_is_events(arguments: tuple[str, ...]) -> None:
    """`billhook log` is another name for `billhook events`."""
    assert billhook("log", *arguments) == billhook("events", *arguments)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("chekc", "check"),
        ("instal", "install"),
        ("evnts", "events"),
        ("logs", "events"),
        ("simulate", "test"),
        ("approve", "trust"),
        ("codes", "check --explain"),
        ("autocomplete", "completion"),
        ("help", "--help"),
    ],
)
def test_a_wrong_command_gets_a_suggestion(typed: str, meant: str) -> None:
    ended = billhook(typed)
    assert (ended.code, f"did you mean `{meant}`" in ended.err) == (2, True), ended.err


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_the_first_help_fits(columns: int) -> None:
    """Also in a narrow terminal, and never wider than 80 columns."""
    lines = billhook("--help", env=environment(COLUMNS=str(columns))).out.splitlines()
    assert max(map(len, lines)) <= min(columns, 80)
