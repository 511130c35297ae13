"""The values of options, the configuration of a verb, and verbs that are for people only."""

import math
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

import click

from billhook.agents.around import agent_around
from billhook.config import loader
from billhook.config.config import Config
from billhook.core import strictjson
from billhook.core.errors import StrictJSONError, UsageError
from billhook.core.events import EVENTS
from billhook.core.text import suggestion
from billhook.serve.hook_server import canonical

Verb = Callable[..., Any]


def refuse_agents(what: str, why: str = "only the user can approve hooks", otherwise: str = "") -> None:
    """Raises UsageError inside an agent: it must not approve, add, remove or test the hooks that judge it."""
    if agent := agent_around():
        raise UsageError(f"{what} is refused here: this runs inside {agent}, and {why}", hint=_by_hand(otherwise))


def _by_hand(otherwise: str) -> str:
    return "run it yourself in a terminal" + (f"; {otherwise} works everywhere" if otherwise else "")


def at_terminal() -> bool:
    """Whether a person can be asked: what is typed comes from a terminal, and what is printed goes to one."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stdout is not None and sys.stdout.isatty()


def refuse_programs(what: str, why: str, otherwise: str = "") -> None:
    """Raises UsageError inside an agent, and where there is no terminal: a program can't agree in a person's place."""
    refuse_agents(what, why, otherwise)
    if not at_terminal():
        raise UsageError(f"{what} is refused here: stdin and stdout must be a terminal", hint=_by_hand(otherwise))


# The values of options:
_WIDEST_CHOICE = 30  # columns of the words of an option in the help; more are listed in its text
_QUOTING = {
    "--input": 'quote it for the shell, as in --input \'{"command": "ls"}\'',
    "--event": 'quote it for the shell, as in --event \'{"hook_event_name": "Stop"}\'',
}


def usage(epilog: str) -> Callable[[Verb], click.Command]:
    """Makes a verb of a function: its docstring is its help, with this text (examples, exit codes) at the end."""
    return click.command(epilog=epilog)


def flag(*declared: str) -> Callable[[Verb], Verb]:
    """An option without a value: its names, then its help."""
    return click.option(*declared[:-1], is_flag=True, help=declared[-1])


def option(*declared: str, **settings: Any) -> Callable[[Verb], Verb]:
    """An option with a value: its names, the placeholder of the value, and its help."""
    *names, metavar, text = declared
    return click.option(*names, metavar=metavar, help=text, **settings)


def choice(words: Sequence[str], *declared: str) -> Callable[[Verb], Verb]:
    """An option that takes one of a few words, by default the first: its names, then its help."""
    settings = {"default": words[0], "show_default": True, "callback": among(words)}
    settings["shell_complete"] = complete_among(words)
    *names, text = declared
    if len("|".join(words)) <= _WIDEST_CHOICE:
        return option(*names, "|".join(words), text, **settings)
    return option(*names, "NAME", f"{text} One of {', '.join(words)}.", **settings)


def with_options(options: Iterable[Callable[[Verb], Verb]], verb: Verb) -> Verb:
    """The verb with these options, the first one first in its help."""
    for one in reversed(list(options)):
        verb = one(verb)
    return verb


def among(words: Sequence[str]) -> Callable[[click.Context, click.Parameter, str | None], str | None]:
    """Checks that a value is one of these words. The error suggests the nearest word."""

    def check(ctx: click.Context, param: click.Parameter, given: str | None) -> str | None:
        if given is not None and given not in words:
            raise UsageError(f"unknown {param.opts[0]} `{given}`", hint=suggestion(given, words))
        return given

    return check


def complete_among(words: Iterable[str]) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Completes a value to one of these words."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        return [word for word in words if word.startswith(incomplete)]

    return complete


def tool_options(verb: Verb) -> Verb:
    """`--tool NAME` and `--input JSON`: the tool of an event, and its input."""
    text = "The tool's input; for events without a tool, fields of the event."
    verb = option("--input", "input_", "JSON|@FILE|@-", text)(verb)
    return option("--tool", "NAME", "The tool, by its name in any supported agent.")(verb)


def seconds(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """Reads a positive number of seconds."""
    with suppress(ValueError):
        if value is None or 0 < float(value) < math.inf:
            return None if value is None else float(value)
    option = param.opts[0]
    raise UsageError(f"{option} `{value}` is not a positive number of seconds", hint=f"as in {option} 2.5")


def words(texts: Iterable[str]) -> tuple[str, ...]:
    """The words of an option that may be repeated, separated by commas."""
    return tuple(word for text in texts for part in text.split(",") if (word := part.strip()))


def text_of(value: str, option: str) -> str:
    """An option's value, or the content of the file that it names with @."""
    if not value.startswith("@"):
        # In a locale other than UTF-8, Python can't decode the bytes of the command line; JSON is always UTF-8.
        return os.fsencode(value).decode("utf-8", "surrogateescape")
    try:
        return _bytes_of(value[1:]).decode("utf-8", "replace").removeprefix("\ufeff")
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"{option} {value}: {why}", hint="@FILE reads a file, @- standard input") from None


def json_of(text: str, option: str, value: str) -> Any:
    """Parses text of any size as JSON. UsageError names the place. `value` is the word of the command line."""
    try:
        return strictjson.loads(text, max_depth=400, max_bytes=None)
    except StrictJSONError as error:
        message = f"{option} is not JSON: {error.message}: {strictjson.preview(text)}"
        if value.startswith("@"):
            raise UsageError(message, place=value, hint="the file must contain exactly one JSON document") from None
        raise UsageError(message, hint=_QUOTING[option]) from None


_taken: list[str] = []


def _bytes_of(path: str) -> bytes:
    if path != "-":
        with open(path, "rb") as file:
            return file.read()
    if sys.stdin is None:
        raise ValueError("standard input is closed")
    if _taken:
        raise ValueError("standard input was already read for another option")
    _taken.append(path)
    return sys.stdin.buffer.read()


# The configuration of a verb, and the names of events as users type them:
def config_option(verb: Verb) -> Verb:
    """`--config FILE`: a further file with hooks."""
    text = "Also use this file with hooks. May be repeated."
    return option("--config", "configs", "FILE", text, multiple=True)(verb)


def loaded(files: Iterable[str]) -> Config:
    """The configuration of the working directory. UsageError if a named file does not exist."""
    named = list(files)
    for file in named:
        if not os.path.isfile(file):
            raise UsageError(f"--config `{file}`: no such file", hint="name a settings file or a hooks.yaml")
    return loader.load_for_cwd(".", named)


def guarding(files: Iterable[str]) -> Config:
    """The same for a verb that acts: also UsageError if a named file can't be read. Such a verb must not continue
    without the hooks that the user named."""
    config = loaded(files)
    for read in config.unreadable:
        if read.source.layer == "explicit":
            finding = read.findings[0]
            raise UsageError(finding.message, place=finding.place, hint=finding.hint or "`billhook check` shows all")
    return config


def event_named(text: str, config: Config) -> str:
    """The canonical name of an event in any spelling; empty for an unknown event.

    Events that only a configured hook names are known, too.
    """
    return canonical(text) or (text if any(text in entry.declared.events for entry in config.entries) else "")


def checked_event(text: str, config: Config) -> str:
    """The canonical name of an event. UsageError suggests the nearest name."""
    if name := event_named(text, config):
        return name
    raise UsageError(f"no event `{text}`", hint=suggestion(text, EVENTS))
