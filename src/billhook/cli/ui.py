"""`billhook ui`: open the page in a browser."""

import html
import webbrowser
from pathlib import Path

import click

from billhook.cli.options import flag, option, refuse_agents
from billhook.cli.screen import note, report
from billhook.serve import control
from billhook.store.files import state_root, write_atomically


@click.command(
    "ui",
    epilog="""\b
Examples:
  billhook ui --no-open        print the link only, for example over ssh
  billhook ui --fleet acme     all hosts of a fleet

Exit code: 0 done, 2 usage or failure.""",
)
@flag("--no-open", "Print the link only.")
@option("--fleet", "fleet", "FOLDER", "All hosts of this organisation, until Ctrl-C.", default="")
@option(
    "--as",
    "member",
    "NAME",
    "With --fleet: the member whose credentials to use, such as an approver.",
    default="reader",
)
@flag("--json", "as_json", "Print one line of JSON, and open nothing.")
def verb(no_open: bool, fleet: str, member: str, as_json: bool) -> int:
    """Open a page with the running sessions, their events, the hooks, and the questions that wait for you.

    The page is served by the daemon on this machine, which is started if it is not running. The link works once, for
    two minutes; then the browser has a cookie until the daemon stops, at most for 12 hours. Docs: docs/ui.md.
    """
    refuse_agents("`billhook ui`", "only a person can answer questions")
    if fleet:
        from billhook.cli.fleet.events import serve

        return serve(Path(fleet), member, lambda root, url: _show(root, url, no_open, as_json))
    root = state_root()
    control.start(root, [], lambda: None)
    _show(root, control.page_link(root).url, no_open, as_json)
    return 0


def _show(root: Path, url: str, no_open: bool, as_json: bool) -> None:
    report(as_json, [url], {"url": url, "valid_seconds": 120})
    if not (no_open or as_json) and not _open(root, url):
        note("no browser could be opened; open the link yourself")


def _open(root: Path, url: str) -> bool:
    """Open the link through a private file, so that its code is in no list of processes."""
    path = control.folder_of(root) / control.PAGE_FILE
    page = f'<!doctype html><meta http-equiv="refresh" content="0;url={html.escape(url)}"><title>billhook</title>'
    write_atomically(path, page.encode(), root=root)
    return webbrowser.open(path.as_uri())
