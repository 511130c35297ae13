"""What `billhook hook --help` shows. The verb itself goes past click, because it starts at every tool call."""

import sys

import click

from billhook.cli.hook import main
from billhook.serve.hook_server import DIALECTS


@click.command(
    "hook",
    epilog="""\b
Example, in an agent's settings:
  {"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "billhook hook --as claude"}]}]}}

\b
When the event or the configuration can't be read, the event's name is mistyped,
its folder is gone, hooks call billhook in a circle, or billhook fails:
  --on-failure deny   the event is denied, in the dialect's words
  --on-failure allow  it passes
  neither             it is denied as soon as a gate is configured for it, else it passes;
                      both can be seen on stderr

\b
A hook that answers later may end within its time-out, after the verdict; its answer has no reader.""",
)
@click.argument("event", required=False, metavar="EVENT")
@click.option("--as", "dialect", metavar="|".join(DIALECTS), help="The agent's dialect.  [default: claude]")
@click.option("--on-failure", metavar="allow|deny", help="What a failure of billhook's own does.")
@click.option("--config", metavar="FILE", multiple=True, help="One more configuration file. May be repeated.")
@click.option("--deadline", metavar="MS", help="Milliseconds for all hooks together, below the agent's own time-out.")
@click.option(
    "--from",
    "source",
    metavar="user|project",
    help="Whose file the entry stands in: the same call through both is judged once.",
)
def verb(**given: object) -> int:
    """Be a hook: read one event as JSON on stdin, ask the configured hooks, and answer on stdout, stderr and exit code.

    EVENT names the event for agents whose JSON does not, in the agent's spelling or in ours. Case, `_` and `-` in it
    don't matter.
    """
    return main(sys.argv[2:])
