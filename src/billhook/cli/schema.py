"""`billhook schema`: JSON Schema for editors."""

import json

import click

from billhook.cli.screen import say
from billhook.core.errors import UsageError
from billhook.core.text import suggest

_KINDS = ("hooks", "settings")


@click.command(
    "schema",
    epilog="""\b
Examples:
  billhook schema > .billhook/hooks.schema.json
  billhook schema settings

\b
In hooks.yaml, editors find it by this line:
  # yaml-language-server: $schema=./hooks.schema.json""",
)
@click.argument("kind", metavar="[hooks|settings]", default="hooks")
def verb(kind: str) -> int:
    """Print the JSON Schema of hooks.yaml, or of the hooks in settings files."""
    if kind not in _KINDS:
        raise UsageError(f"no schema of `{kind}`", hint=suggest(kind, _KINDS))
    from billhook.config.schema import schema

    say(json.dumps(schema("settings" if kind == "settings" else "hooks"), indent=2))
    return 0
