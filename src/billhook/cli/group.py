"""The verbs as a click group: imports the module of a verb when it is used, and formats all errors alike.

Also `billhook completion`, which describes this group to a shell.
"""

import difflib
import errno
import importlib
import os
import re
import sys
from collections.abc import Mapping
from typing import ClassVar

import click
from click.shell_completion import CompletionItem, get_completion_class

from billhook import __version__
from billhook.cli.main import GROUPS, HIDDEN, VERBS
from billhook.cli.screen import error_text, fitted, hint, not_written, width, write
from billhook.core.errors import BillhookError, UsageError
from billhook.core.text import suggestion

_UNWRITTEN = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Errors of writing. Here they come from standard output: verbs handle those of files themselves."""

_EXTRA = re.compile(r"Got unexpected extra arguments? \((.*)\)", re.DOTALL)
_AS_PROMPT = "a prompt needs -p, as in: billhook agent -p 'Fix the tests'"
_COMPLETING = "_BILLHOOK_COMPLETE"  # the variable in which a completion script tells what to complete

_SYNONYMS = {
    "init": "new create setup start",
    "uninstall or remove": "rm delete disable off disconnect",
    "install": "on hooks connect",
    "add": "recipe recipes",
    "test, fire or explain": "try simulate tests pytest",
    "fire": "run trigger exec send",
    "check": "validate lint verify",
    "list": "ls show",
    "trust --revoke": "revoke unapprove distrust untrust",
    "--help": "help man usage",
    "--version": "version",
    "trust": "approve enable allow accept",
    "events": "logs history audit tail",
    "doctor": "diagnose debug health status",
    "explain": "why which",
    "check --explain": "code codes rules",
    "agent": "chat ask",
    "daemon": "serve server restart stop",
    "completion": "complete completions autocomplete",
}
"""Verbs, each with words that users may try instead."""


def _verb_hint(name: str) -> str:
    """A hint about an unknown verb: the verb for that word, else one with a similar spelling, else all verbs."""
    for verbs, words in _SYNONYMS.items():
        if name.lower() in words.split():
            *first, last = verbs.replace(" or ", ", ").split(", ")
            return f"did you mean {', '.join(f'`{verb}`' for verb in first)}{' or ' if first else ''}`{last}`?"
    if near := difflib.get_close_matches(name.lower(), VERBS, 1, 0.75):
        return f"did you mean `{near[0]}`?"
    return f"one of {', '.join(VERBS)}"


class LazyCommands(click.Group):
    """Imports the module of a command when that command is used: start-up must be fast."""

    lines: Mapping[str, str]  # every command with its one line of help
    hidden_lines: ClassVar[Mapping[str, str]] = {}  # commands that are not listed
    package: str
    modules: ClassVar[Mapping[str, str]] = {}  # the module of a command, where that has another name

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.lines)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.lines and cmd_name not in self.hidden_lines:
            return None
        module = importlib.import_module(f"{self.package}.{self.modules.get(cmd_name, cmd_name)}")
        found: click.Command = getattr(module, f"{cmd_name}_verb", None) or module.verb
        return found

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The commands that begin so, without an import of any of them, and the options of the group."""
        commands = [CompletionItem(name, help=line) for name, line in self.lines.items() if name.startswith(incomplete)]
        return [*commands, *click.Command.shell_complete(self, ctx, incomplete)]


class Verbs(LazyCommands):
    lines, hidden_lines, package = VERBS, HIDDEN, "billhook.cli"
    modules: ClassVar = {
        "completion": "group",
        "rule": "check",
        "schema": "check",
        "log": "events",
        "uninstall": "install",
        **dict.fromkeys(("init", "remove"), "add"),
        **dict.fromkeys(("allow-once", "pause", "resume", "shadow", "promote"), "override"),
    }

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in VERBS and name not in HIDDEN and not name.startswith("-"):
            raise UsageError(f"no command `{name}`", hint=f"{_verb_hint(name)} (see `billhook --help`)")
        return super().resolve_command(ctx, args)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return ["[COMMAND]", "[OPTIONS]"]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from billhook.agents import AGENTS

        width = max(map(len, VERBS))
        agents = ", ".join(agent.title.removesuffix(" CLI") for agent in list(AGENTS.values())[:2])
        for title, verbs in GROUPS.items():
            lines = [(f"{name:<{width}}", line.format(agents=agents)) for name, line in verbs.items()]
            with formatter.section(title):
                formatter.write_dl(lines)


@click.command(
    cls=Verbs,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="""\b
Examples:
  billhook                             show the status
  billhook init                        write first hooks
  billhook explain 'git push --force'  try a command
  billhook install claude              connect Claude

Exit code: 0 success; 1 a denial by `fire`, a finding, or not done; 2 usage
or broken input; 3 internal error. `billhook hook` exits as its agent expects.""",
)
@click.option("--json", "as_json", is_flag=True, help="Without a command: print the status as JSON.")
@click.version_option(__version__, prog_name="billhook", message="%(prog)s %(version)s")
@click.pass_context
def billhook(ctx: click.Context, as_json: bool) -> int | None:
    """The hook system for AI agents: one event in, one verdict out.

    Without a command it shows the status of this folder, and what to do next.
    """
    if ctx.invoked_subcommand is None:
        from billhook.cli.status import show

        return show(as_json=as_json)
    if as_json:
        verb = ctx.invoked_subcommand
        raise UsageError("--json must come after the command", hint=f"billhook {verb} --json ...")
    return None


class WrappedHelp(click.HelpFormatter):
    """Help whose examples fit the terminal, too: click does not break them."""

    def getvalue(self) -> str:
        return fitted(super().getvalue(), width())


def run() -> None:
    """Run the verb of the command line, and exit."""
    click.Context.formatter_class = WrappedHelp
    try:
        code = billhook.main(standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
    except SystemExit as ended:
        # Click exits so after a completion, and with 1 when the reader of our output has closed the pipe.
        code = ended.code if _COMPLETING in os.environ else 0
    except (click.ClickException, BillhookError) as error:
        write(error_text(_with_hint(error)), err=True)
        code = 2
    except (click.Abort, KeyboardInterrupt):
        code = 130
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _UNWRITTEN:
            not_written(error)
            sys.exit(2)
        if os.environ.get("BILLHOOK_DEBUG"):
            raise
        write(f"error: internal error: {type(error).__name__}: {error}", err=True)
        hint("set BILLHOOK_DEBUG=1 to see the traceback, and please report it")
        code = 3
    sys.exit(code if isinstance(code, int) else 0)


def _with_hint(error: click.ClickException | BillhookError) -> BillhookError:
    """An error of click in the form of ours. Every error has a hint."""
    verb = sys.argv[1] if sys.argv[1:2] and sys.argv[1] in VERBS else ""
    path = f"billhook {verb}".strip()
    if isinstance(error, BillhookError):
        error.hint = error.hint or f"`{path} --help` shows the usage"
        return error
    ctx = getattr(error, "ctx", None)
    path = ctx.command_path if ctx else path
    if isinstance(error, click.NoSuchOption):
        known = [name for param in (ctx.command.params if ctx else ()) for name in param.opts if name.startswith("--")]
        near = suggestion(error.option_name, known) if known else "this command has no options"
        return UsageError(f"no option `{error.option_name}`", hint=f"{near} (see `{path} --help`)")
    message = error.format_message().rstrip(".").replace("'", "`")
    extra = _EXTRA.fullmatch(message)
    if extra:
        remedy = _AS_PROMPT if verb == "agent" else f"`{path} --help` shows the usage"
        return UsageError(f"unexpected argument `{extra[1]}`", hint=remedy)
    return UsageError(message[:1].lower() + message[1:], hint=f"`{path} --help` shows the usage")


# `billhook completion`:
SHELLS = ("bash", "zsh", "fish")


def _shells(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return [shell for shell in SHELLS if shell.startswith(incomplete)]


@click.command(
    "completion",
    epilog="""\b
Add one line to the profile of your shell, then open a new shell:
  bash  ~/.bashrc                   eval "$(billhook completion bash)"
  zsh   ~/.zshrc, after compinit    eval "$(billhook completion zsh)"
  fish  ~/.config/fish/config.fish  billhook completion fish | source

Exit code: 0 printed, 2 unknown shell.""",
)
@click.argument("shell", metavar="bash|zsh|fish", shell_complete=_shells)
def completion_verb(shell: str) -> int:
    """Print the completion script for a shell: commands, options and their values.

    bash must be 4.4 or newer.
    """
    found = get_completion_class(shell) if shell in SHELLS else None
    if found is None:
        raise UsageError(f"no completion for `{shell}`", hint=suggestion(shell, SHELLS))
    write(found(billhook, {}, "billhook", _COMPLETING).source().rstrip("\n"), whole=True)
    return 0
