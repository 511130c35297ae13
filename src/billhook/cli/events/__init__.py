"""`billhook events`: ask the log. Without a command it shows the events; each command is a module of its own."""

import importlib
from typing import Any

import click
from click.shell_completion import CompletionItem

from billhook.cli.events.view import view

COMMANDS = {
    "list": "The sessions of this project, with what happened in each.",
    "search": "The events in which a text occurs.",
    "show": "One event in full.",
    "files": "The files that tools read and wrote.",
    "stats": "How often and how long each hook ran, the slowest first.",
    "rename": "Give a session a name.",
    "verify": "Check that nothing in the log was changed, removed or added.",
    "export": "The log's own lines, to keep or to send elsewhere.",
}
"""Every command with its one line of help."""

_MODULES = {"list": "sessions", "rename": "sessions", "search": "show", "files": "stats", "verify": "export"}
"""The module of a command, where that has another name. It holds a click command called `NAME_verb`."""

_EPILOG = """\b
Examples:
  billhook events . --last 5
  billhook events --decision deny,ask --since 1d
  billhook events --hook my-guard --since 22:00     why did it not fire?
  billhook events jolly-squid --tool Bash --json | jq .input.command
  billhook events search "turn-tracker"
  billhook events --follow

\b
Exit code: 0 also when nothing matches and when Ctrl-C ends --follow,
1 findings of `verify`, 2 usage or a log that can't be read."""


class _View(click.Command):
    """Shows as `billhook events`, because that is what people type."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        above = parent.parent if parent is not None else None
        return super().make_context(parent.info_name if parent else info_name, args, parent=above, **extra)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return ["[SESSION]", "[OPTIONS]"]


class _EventsGroup(click.Group):
    """A group whose first word may also be a session. Modules are imported when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name == "":
            return _VIEW
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"{__name__}.{_MODULES.get(cmd_name, cmd_name)}")
        found: click.Command = getattr(module, f"{cmd_name}_verb")
        return found

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        asks_help = args[:1] in (["-h"], ["--help"])
        completes = ctx.resilient_parsing and not args
        return super().parse_args(
            ctx, args if asks_help or completes or (args and args[0] in COMMANDS) else ["", *args]
        )  # fmt: skip

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        return [*super().shell_complete(ctx, incomplete), *_VIEW.shell_complete(ctx, incomplete)]

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return ["[SESSION]", "[OPTIONS]"]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        _VIEW.format_options(ctx, formatter)
        self.format_commands(ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands (`billhook events COMMAND --help` tells more)"):
            formatter.write_dl(list(COMMANDS.items()))


_VIEW = _View(
    "events",
    callback=view,
    params=[
        click.Argument(["sessions"], metavar="[SESSION]", nargs=-1),
        *reversed(getattr(view, "__click_params__", [])),
    ],
    help=view.__doc__,
    epilog=_EPILOG,
)

verb = _EventsGroup("events", help=view.__doc__, epilog=_EPILOG, add_help_option=True)
