"""The configuration that a verb works with, and the names of events as people type them."""

import os
from collections.abc import Callable, Iterable
from typing import Any

import click

from billhook.answering.received import canonical
from billhook.config import configured
from billhook.config.loaded import Config
from billhook.errors import UsageError
from billhook.events import EVENTS
from billhook.text import suggest


def config_option(verb: Callable[..., Any]) -> Callable[..., Any]:
    """`--config FILE`: one more file of hooks, beside those that are found."""
    option = click.option(
        "--config",
        "configs",
        metavar="FILE",
        multiple=True,
        help="One more file with hooks, beside those that are found here. May be repeated.",
    )
    return option(verb)


def loaded(files: Iterable[str]) -> Config:
    """What applies in the folder that we are in; UsageError when a file that was named is not there."""
    named = list(files)
    for file in named:
        if not os.path.isfile(file):
            raise UsageError(f"--config `{file}`: there is no such file", hint="name a settings file or a hooks.yaml")
    return configured.load(".", named)


def guarding(files: Iterable[str]) -> Config:
    """The same for a verb that acts: UsageError, with the place, when a file that was named can't be read. Who names
    one wants its hooks, and must not go on without them."""
    config = loaded(files)
    for read in config.unreadable:
        if read.source.layer == "explicit":
            finding = read.findings[0]
            raise UsageError(finding.message, place=finding.place, hint=finding.hint or "`billhook check` shows all")
    return config


def event_named(text: str, config: Config) -> str:
    """The canonical name of an event, in whatever spelling; nothing when it is none.

    Events that only configured hooks know count, too.
    """
    known = canonical(text)
    if known:
        return known
    return text if any(text in entry.declared.events for entry in config.entries) else ""


def checked_event(text: str, config: Config) -> str:
    """The canonical name of an event; UsageError with the nearest when there is none."""
    name = event_named(text, config)
    if not name:
        raise UsageError(f"no event `{text}`", hint=suggest(text, EVENTS))
    return name
