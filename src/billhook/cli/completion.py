"""`billhook completion`: the script that makes a shell complete billhook's commands and options."""

import click
from click.shell_completion import get_completion_class

from billhook.cli.options import complete_among
from billhook.cli.screen import say
from billhook.core.errors import UsageError
from billhook.core.text import suggest

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_BILLHOOK_COMPLETE"
"""The variable in which the script tells billhook what to complete."""


@click.command(
    "completion",
    epilog="""\b
Add one line to the profile of your shell, then open a new shell:
  bash  ~/.bashrc                   eval "$(billhook completion bash)"
  zsh   ~/.zshrc, after compinit    eval "$(billhook completion zsh)"
  fish  ~/.config/fish/config.fish  billhook completion fish | source

Exit code: 0 printed, 2 unknown shell.""",
)
@click.argument("shell", metavar="bash|zsh|fish", shell_complete=complete_among(SHELLS))
def verb(shell: str) -> int:
    """Print the completion script for a shell: commands, options and their values.

    bash must be 4.4 or newer.
    """
    from billhook.cli.group import billhook

    found = get_completion_class(shell) if shell in SHELLS else None
    if found is None:
        raise UsageError(f"no completion for `{shell}`", hint=suggest(shell, SHELLS))
    say(found(billhook, {}, "billhook", VARIABLE).source().rstrip("\n"), whole=True)
    return 0
