"""`billhook VERB ...`: finds the verb's module and lets errors look the same everywhere.

Exit codes of all verbs: 0 fine, 1 findings (a deny, a problem), 2 usage or broken input, 3 a fault of ours, 130 Ctrl-C.
"""

import difflib
import importlib
import sys

import click

from billhook import __version__
from billhook.cli.show import error_text
from billhook.errors import BillhookError, UsageError

VERBS = {
    "fire": "Fire one event at hooks given on the command line and show the verdict.",
}
"""Every verb with its one line of help. The module of the same name holds a click command called `verb`."""


class Verbs(click.Group):
    """Imports a verb's module only when that verb is used: start-up is felt."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        found: click.Command = importlib.import_module(f"billhook.cli.{cmd_name.replace('-', '_')}").verb
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in VERBS and not name.startswith("-"):
            near = difflib.get_close_matches(name, VERBS, 1, 0.5)
            hint = f"did you mean `billhook {near[0]}`?" if near else "`billhook --help` lists the verbs"
            raise UsageError(f"no verb `{name}`", hint=hint)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl(list(VERBS.items()))


@click.command(
    cls=Verbs,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="""\b
Try:
  billhook fire PreToolUse --tool Bash --input '{"command": "ls"}' --run 'echo no >&2; exit 2'""",
)
@click.version_option(__version__, prog_name="billhook", message="%(prog)s %(version)s")
@click.pass_context
def billhook(ctx: click.Context) -> None:
    """The hook system for AI agents: one event in, one verdict out."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main() -> None:
    """The console script."""
    try:
        code = billhook.main(standalone_mode=False)
    except click.ClickException as error:
        ctx = getattr(error, "ctx", None)
        hint = f"{ctx.command_path} --help" if ctx else "billhook --help"
        print(error_text(UsageError(error.format_message().rstrip("."), hint=hint)), file=sys.stderr)
        code = 2
    except (click.Abort, KeyboardInterrupt):
        code = 130
    except BillhookError as error:
        print(error_text(error), file=sys.stderr)
        code = 2
    except BrokenPipeError:
        code = 0  # whoever read our output has seen enough
        sys.stderr.close()
    except Exception as error:
        print(f"error: a fault of billhook's own: {type(error).__name__}: {error}", file=sys.stderr)
        print("\nhint: BILLHOOK_DEBUG=1 shows where; please report it", file=sys.stderr)
        import os

        if os.environ.get("BILLHOOK_DEBUG"):
            raise
        code = 3
    sys.exit(code if isinstance(code, int) else 0)


if __name__ == "__main__":
    main()
