"""`billhook VERB ...`: the console script.

Exit codes of all verbs: 0 success, 1 a denial by `fire`, a finding or not done, 2 usage or broken input, 3 internal
error, 128 plus its number for a signal (130 for Ctrl-C). `billhook hook` exits as its agent expects.
"""

import sys
from types import ModuleType
from typing import Any, NoReturn

GROUPS: dict[str, dict[str, str]] = {
    "Start": {
        "init": "Create hooks.yaml with four example hooks.",
        "install": "Add billhook to an agent's settings: {agents} ...",
        "uninstall": "Remove billhook from an agent's settings.",
        "doctor": "Check that agents call billhook, and suggest fixes.",
        "demo": "Watch an agent work with hooks. Needs no API key.",
    },
    "Write hooks": {
        "add": "Add a recipe: ready-made hooks for one purpose.",
        "remove": "Remove a recipe.",
        "list": "Show all hooks in the order in which they run.",
        "explain": "Show which hooks would run for a command or an event, and why.",
        "fire": "Send a test event to the hooks, and show the verdict.",
        "test": "Run the tests of your hooks.",
        "check": "Check the hooks for problems and suggest fixes.",
        "replay": "Show which past events the current hooks would decide differently.",
        "trust": "Review the hooks of this project and approve them.",
        "shadow": "Show what hooks in shadow mode would have decided.",
        "promote": "Activate a hook that is in shadow mode.",
    },
    "Run and watch": {
        "agent": "Run an agent with your hooks: one prompt, or a chat.",
        "events": "Query the event log: what happened, and what hooks decided.",
        "ui": "Open the page: sessions, events, hooks, and questions.",
        "approvals": "Show and answer the questions that wait for you.",
        "allow-once": "Allow one denied call, once.",
        "pause": "Pause hooks for a few minutes.",
        "resume": "End a pause.",
        "fleet": "Share one policy and one audit stream between machines.",
    },
    "Plumbing": {
        "hook": "Answer one event on stdin, as the hook of an agent.",
        "daemon": "Control the daemon that keeps hooks loaded.",
        "schema": "Print the JSON Schema of hooks.yaml or of settings files.",
        "completion": "Print the completion script for bash, zsh or fish.",
    },
}
"""Every verb with its one line of help, in the order of `--help`. `{agents}` is replaced by the titles of some agents.
The module of the same name has a click command called `verb`."""

VERBS = {name: line for group in GROUPS.values() for name, line in group.items()}
HIDDEN = {"log": "The same as `events`.", "rule": "The same as `check --explain`."}
"""Further names that work, and that `--help` does not list."""


def main() -> None:
    """The console script. A hook starts at every tool call, so it skips everything that only people need."""
    if sys.argv[1:2] == ["hook"] and not {"-h", "--help"} & set(sys.argv[2:]):
        _answer_as_hook(sys.argv[2:])
    from billhook.cli.group import run

    run()


def _answer_as_hook(argv: list[str]) -> NoReturn:
    import gc

    gc.disable()  # the process ends soon, and needs everything until then
    import_lightly()
    from billhook.cli.hook import main as answer

    code = answer(argv)
    _end(code)


def _end(code: int) -> NoReturn:
    """Exit without the interpreter's cleanup, which takes as long as the answer did."""
    if "threading" in sys.modules and sys.modules["threading"].active_count() > 1:
        sys.exit(code)  # a thread still works: Python waits for it
    import atexit
    import os

    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):  # the stream is closed, or its reader is gone
            pass
    os._exit(code & 0xFF)


def import_lightly() -> None:
    """Import pathlib, and msgspec without its dependencies for types that no event has.

    Half of a hook's start-up would be indirect imports: typing_extensions, which repeats `typing`; JSON Schema; a
    second `datetime` in Python; `uuid` and `decimal` for values that JSON does not have. Those that are used later are
    imported then. The stand-ins are removed afterwards, and no module is changed. Only a process that is just a hook
    calls this: no other code runs in it.
    """
    if "msgspec" in sys.modules:
        return
    stand_ins = {name: module for name, module in _stub_modules().items() if name not in sys.modules}
    sys.modules.update(stand_ins)  # type: ignore[arg-type]  # None means: no such module
    try:
        import pathlib  # noqa: F401

        import msgspec  # noqa: F401
    except Exception:  # another version needs more: import it the usual way
        for name in [name for name in sys.modules if name == "pathlib" or name.partition(".")[0] == "msgspec"]:
            del sys.modules[name]
    finally:
        for name, module in stand_ins.items():
            if sys.modules.get(name, module) is module:
                sys.modules.pop(name, None)


def _stub_modules() -> dict[str, ModuleType | None]:
    return {
        "typing_extensions": None,
        "uuid": _module("uuid", UUID=_Nothing, SafeUUID=_Nothing),
        "decimal": _module("decimal", Decimal=_Nothing),
        "datetime": _datetime(),
        "urllib.parse": _module("urllib.parse", quote_from_bytes=_lazy_function("urllib.parse", "quote_from_bytes")),
        **{name: _LazyModule(name) for name in ("msgspec.inspect", "msgspec.toml", "msgspec.yaml")},
        "msgspec._json_schema": _module(
            "msgspec._json_schema",
            schema=_lazy_function("msgspec._json_schema", "schema"),
            schema_components=_lazy_function("msgspec._json_schema", "schema_components"),
        ),
    }


def _module(name: str, **names: Any) -> ModuleType:
    module = ModuleType(name)
    module.__dict__.update(names)
    return module


def _datetime() -> ModuleType | None:
    import importlib

    try:
        return importlib.import_module("_datetime")
    except ImportError:
        return importlib.import_module("datetime")


class _Nothing:
    unknown = None


def _lazy_function(module: str, name: str) -> Any:
    """A function that imports itself when it is called."""

    def call(*arguments: Any, **named: Any) -> Any:
        import importlib

        return getattr(importlib.import_module(module), name)(*arguments, **named)

    return call


class _LazyModule(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        import importlib

        return getattr(importlib.import_module(self.__name__), name)


if __name__ == "__main__":
    main()
