"""`billhook VERB ...`: the console script.

Exit codes of all verbs: 0 fine, 1 findings (a deny, a problem), 2 usage or broken input, 3 a fault of ours,
128 and its number a signal (130 Ctrl-C). `billhook hook` answers as a hook does, and has a failure rule of its own.
"""

import sys
from typing import NoReturn

GROUPS: dict[str, dict[str, str]] = {
    "Daily": {
        "init": "Write a first file with hooks that work.",
        "add": "Add a recipe: hooks for one purpose, ready to use.",
        "remove": "Take a recipe out again.",
        "install": "Let {agents} and others ask billhook.",
        "uninstall": "Take billhook out of an agent's settings again.",
        "doctor": "Say whether agents really ask billhook here, and what keeps them from it.",
        "list": "Show every hook in the order in which it runs.",
        "check": "Find what is wrong with the hooks here, and how to mend it.",
        "explain": "Say which hooks an event or a command would get, and why.",
        "fire": "Fire one event at the configured hooks, or at given ones, and show the verdict.",
        "agent": "Run an agent among your hooks: one prompt, or a chat.",
        "trust": "Show the hooks that came with this project, and approve them.",
        "events": "Ask the log: what happened, who decided, which hooks failed.",
    },
    "Looking up": {
        "demo": "Watch an agent at work among hooks, without a key.",
        "rule": "Say what a code of `check` means.",
    },
    "Plumbing": {
        "hook": "Be a hook: an event on stdin, the verdict in an agent's dialect.",
        "daemon": "Keep hooks warm: run, start, stop and status of the daemon.",
        "schema": "Print the JSON Schema of hooks.yaml or of settings files, for editors.",
    },
}
"""Every verb with its one line of help, in the order in which `--help` shows them; `{agents}` are the titles of some.
The module of the same name holds a click command called `verb`."""

VERBS = {name: line for group in GROUPS.values() for name, line in group.items()}


def main() -> None:
    """The console script. As a hook it starts at every tool call, so it goes past all that a person needs."""
    if sys.argv[1:2] == ["hook"] and not {"-h", "--help"} & set(sys.argv[2:]):
        _be_a_hook(sys.argv[2:])
    from billhook.cli.group import run

    run()


def _be_a_hook(argv: list[str]) -> NoReturn:
    import gc

    gc.disable()  # what start-up makes stays until the end, which is near
    from billhook.cli.fast_import import import_lightly

    import_lightly()
    from billhook.cli.hook import main as answer

    code = answer(argv)
    _end(code)


def _end(code: int) -> NoReturn:
    """End without taking everything apart, which costs as much as answering did."""
    if "threading" in sys.modules and sys.modules["threading"].active_count() > 1:
        sys.exit(code)  # somebody still works: Python knows whom to wait for
    import atexit
    import os

    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):  # there is none, or nobody reads it
            pass
    os._exit(code & 0xFF)


if __name__ == "__main__":
    main()
