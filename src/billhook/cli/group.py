"""The verbs as a click group: finds the verb's module and lets errors look the same everywhere."""

import difflib
import errno
import importlib
import os
import re
import sys
from collections.abc import Mapping
from typing import ClassVar

import click

from billhook import __version__
from billhook.cli.main import GROUPS, VERBS
from billhook.cli.screen import error_text, hint, not_written, say
from billhook.core.errors import BillhookError, UsageError
from billhook.core.text import suggest

_UNWRITTEN = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""What only output can run into: verbs read files, and write none."""


_EXTRA = re.compile(r"Got unexpected extra arguments? \((.*)\)", re.DOTALL)
_AS_PROMPT = "a prompt needs -p, as in: billhook agent -p 'Fix the tests'"


_MEANT = {
    "init": "new create setup start",
    "uninstall or remove": "rm delete disable off",
    "install": "on hooks connect",
    "add": "recipe recipes",
    "fire, explain or check": "test try simulate",
    "fire": "run trigger exec send",
    "check": "validate lint verify",
    "list": "ls show",
    "trust --revoke": "revoke unapprove distrust untrust",
    "--help": "help man usage",
    "--version": "version",
    "trust": "approve enable allow accept",
    "events": "log logs history audit tail replay",
    "doctor": "diagnose debug health status",
    "explain": "why which",
    "rule": "code codes",
    "agent": "chat ask",
    "daemon": "serve server restart stop",
}
"""What people look for under another name."""


def _meant(name: str) -> str:
    """A hint about a verb that does not exist: what people mean by the word, else a spelling, else all verbs."""
    for verbs, words in _MEANT.items():
        if name.lower() in words.split():
            *first, last = verbs.replace(" or ", ", ").split(", ")
            return f"did you mean {', '.join(f'`{verb}`' for verb in first)}{' or ' if first else ''}`{last}`?"
    if near := difflib.get_close_matches(name.lower(), VERBS, 1, 0.75):
        return f"did you mean `{near[0]}`?"
    return f"one of {', '.join(VERBS)}"


class LazyCommands(click.Group):
    """Imports a command's module only when that command is used: start-up is felt."""

    lines: Mapping[str, str]  # every command with its one line of help
    package: str
    modules: ClassVar[Mapping[str, str]] = {}  # the module of a command, where that has another name

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.lines)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.lines:
            return None
        module = importlib.import_module(f"{self.package}.{self.modules.get(cmd_name, cmd_name)}")
        found: click.Command = getattr(module, f"{cmd_name}_verb", None) or module.verb
        return found


class Verbs(LazyCommands):
    lines, package = VERBS, "billhook.cli"
    modules: ClassVar = {"rule": "check", "schema": "check", "uninstall": "install", "remove": "add"}

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in VERBS and not name.startswith("-"):
            raise UsageError(f"no verb `{name}`", hint=f"{_meant(name)} (`billhook --help` tells more)")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from billhook.agents import AGENTS

        width = max(map(len, VERBS))
        agents = ", ".join(agent.title.removesuffix(" CLI") for agent in list(AGENTS.values())[:3])
        for title, verbs in GROUPS.items():
            lines = [(f"{name:<{width}}", line.format(agents=agents)) for name, line in verbs.items()]
            with formatter.section(title):
                formatter.write_dl(lines)


@click.command(
    cls=Verbs,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="""\b
Try:
  billhook init
  billhook explain 'git push --force'
  billhook fire PreToolUse --tool Bash --run 'echo no >&2; exit 2'

\b
Exit code: 0 fine, 1 findings (a deny, a problem), 2 usage or broken input,
3 a fault of billhook's own; `billhook hook` answers as its agent has it.""",
)
@click.option("--json", "as_json", is_flag=True, help="Without a verb: print where it stands here as JSON.")
@click.version_option(__version__, prog_name="billhook", message="%(prog)s %(version)s")
@click.pass_context
def billhook(ctx: click.Context, as_json: bool) -> int | None:
    """The hook system for AI agents: one event in, one verdict out.

    Without a verb it says where it stands in this folder, and what to do next.
    """
    if ctx.invoked_subcommand is None:
        from billhook.cli.status import show

        return show(as_json=as_json)
    if as_json:
        verb = ctx.invoked_subcommand
        raise UsageError("--json stands before the verb", hint=f"billhook {verb} --json ...")
    return None


def run() -> None:
    """Run the verb that the command line names, and end."""
    try:
        code = billhook.main(standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
    except SystemExit as ended:
        # Click ends so after a completion, and with 1 when whoever read our output has seen enough.
        code = ended.code if "_BILLHOOK_COMPLETE" in os.environ else 0
    except (click.ClickException, BillhookError) as error:
        say(error_text(_in_our_words(error)), err=True)
        code = 2
    except (click.Abort, KeyboardInterrupt):
        code = 130
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _UNWRITTEN:
            not_written(error)
            sys.exit(2)
        if os.environ.get("BILLHOOK_DEBUG"):
            raise
        say(f"error: a fault of billhook's own: {type(error).__name__}: {error}", err=True)
        hint("BILLHOOK_DEBUG=1 shows where; please report it")
        code = 3
    sys.exit(code if isinstance(code, int) else 0)


def _in_our_words(error: click.ClickException | BillhookError) -> BillhookError:
    """What click found wrong, with the anatomy of our errors; and no error of ours without a hint."""
    verb = sys.argv[1] if sys.argv[1:2] and sys.argv[1] in VERBS else ""
    path = f"billhook {verb}".strip()
    if isinstance(error, BillhookError):
        error.hint = error.hint or f"`{path} --help` shows how it is meant"
        return error
    ctx = getattr(error, "ctx", None)
    path = ctx.command_path if ctx else path
    if isinstance(error, click.NoSuchOption):
        known = [name for param in (ctx.command.params if ctx else ()) for name in param.opts if name.startswith("--")]
        near = suggest(error.option_name, known) if known else "it has no options"
        return UsageError(f"no option `{error.option_name}`", hint=f"{near} (`{path} --help` tells more)")
    message = error.format_message().rstrip(".").replace("'", "`")
    extra = _EXTRA.fullmatch(message)
    if extra:
        remedy = _AS_PROMPT if verb == "agent" else f"`{path} --help` shows how it is meant"
        return UsageError(f"unexpected argument `{extra[1]}`", hint=remedy)
    return UsageError(message[:1].lower() + message[1:], hint=f"`{path} --help` shows how it is meant")
