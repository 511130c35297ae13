"""`billhook daemon run|start|stop|status`: the process that keeps engines in memory."""

import functools
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import click
import msgspec

from billhook import __version__
from billhook.cli.screen import beside, error_text, note, report, write, write_json
from billhook.cli.times import ago, shown_time
from billhook.core.errors import UsageError
from billhook.core.text import suggestion
from billhook.serve import control
from billhook.serve.protocol import DaemonStatus
from billhook.store.files import state_root

_NOTICE = 1.0  # seconds of waiting after which the user is told why
_IDLE = 3600.0

_EPILOG = """\b
Examples:
  billhook daemon status
  billhook daemon start --idle-exit 600
  billhook daemon run --http 127.0.0.1:8123

\b
The daemon stops after an hour without requests, and when billhook is upgraded.

Exit code: 0 done, 1 `status`: not running, 2 usage or failure."""


class _Commands(click.Group):
    """Suggests the nearest command for a mistyped one, and lists all if there is none."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args:
            raise UsageError("no command was given", hint=f"use one of {', '.join(self.commands)}")
        if args[0] not in self.commands and not args[0].startswith("-"):
            raise UsageError(f"no command `{args[0]}`", hint=suggestion(args[0], self.commands))
        return super().parse_args(ctx, args)


_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group(cls=_Commands, epilog=_EPILOG)
def verb() -> None:
    """The daemon keeps hooks in memory, so that an event costs little more than starting a process.

    There is one daemon for each user and state folder (BILLHOOK_HOME). `billhook-hook` sends events to it. If the
    daemon is not running, that program runs the hooks itself for this event and starts the daemon for the next.
    """


def _idle(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    with suppress(ValueError):
        if value is None or 0 <= float(value) < 1e9:
            return None if value is None else float(value)
    raise UsageError(f"--idle-exit `{value}` is not a number of seconds", hint="as in --idle-exit 600; 0 means never")


def _address(ctx: click.Context, param: click.Parameter, value: str | None) -> str:
    from billhook.serve.control import address

    if value is not None:
        address(value)
    return value or ""


_IDLE_HELP = "Stop after this many seconds without a request; 0: never.  [default: 3600; 0 with --http]"


def _with_options(command: Callable[..., Any]) -> Callable[..., Any]:
    @click.option("--http", metavar="HOST:PORT", callback=_address, help="Also listen for HTTP, at a loopback address.")
    @click.option("--exposed", is_flag=True, help="Allow an address for --http that other machines can reach.")
    @click.option("--idle-exit", "idle", metavar="S", callback=_idle, help=_IDLE_HELP)
    @_json_option
    @functools.wraps(command)
    def checked(http: str, exposed: bool, **given: Any) -> Any:
        if exposed and not http:
            raise UsageError("--exposed needs --http", hint="add --http HOST:PORT")
        return command(http=http, exposed=exposed, **given)

    return checked


@verb.command()
@_with_options
@click.option("--detached", is_flag=True, hidden=True)
@click.option("--again", is_flag=True, hidden=True)
def run(http: str, exposed: bool, idle: float | None, as_json: bool, detached: bool, again: bool) -> int:
    """Run the daemon in the foreground. Ctrl-C or TERM stops it once pending requests finish."""
    from billhook.serve import daemon

    daemon.ensure_utf8()
    root = state_root()
    where = control.folder_of(root) / control.SOCKET

    def tell() -> None:
        if as_json:
            write_json({"running": True, "socket": str(where)})
        else:
            note(f"listening at {where} (stop it with Ctrl-C)")

    ready = daemon.let_go_of_streams if detached else tell
    idle = idle if idle is not None else 0.0 if http else _IDLE
    try:
        why = daemon.run(root, idle=idle, http=http, exposed=exposed, again=again, detached=detached, ready=ready)
    except control.AlreadyError:
        if detached:
            return control.ALREADY_RUNNING
        raise UsageError(
            "the daemon is already running", hint="`billhook daemon status` shows it, `billhook daemon stop` stops it"
        ) from None
    if not detached and not as_json:
        note(f"stopped: {why}")
    return 0


@verb.command()
@_with_options
@click.option("--quiet", is_flag=True, help="Print only errors; don't wait if another process is starting it.")
def start(http: str, exposed: bool, idle: float | None, as_json: bool, quiet: bool) -> int:
    """Start the daemon in the background, and wait until it is running. If it is running already with these options,
    nothing happens.

    Without options, the options of the last daemon apply, unless `billhook daemon stop` stopped it.
    """
    options = [*(["--http", http] if http else []), *(["--exposed"] if exposed else [])]
    options += ["--idle-exit", str(idle)] if idle is not None else []
    waiting = (lambda: None) if quiet else _waiting("the daemon to start")
    with _report_if_silent(as_json):
        found, now = control.start(state_root(), options, waiting, patient=not quiet)
    if found is not None:
        if not quiet:
            _report_started(found, now, as_json)
        _compare(found, http, idle, quiet)
    return 0


def _report_started(found: DaemonStatus, now: bool, as_json: bool) -> None:
    if as_json:
        write_json(_as_data(found, started=now))
        return
    write(f"{'started' if now else 'already running'}: process {found.pid}, {found.socket}")
    if found.http:
        write(f"HTTP: {_address_shown(found)}")
    if found.telemetry:
        write(f"telemetry: {_telemetry(found.telemetry)}")
    if found.version != __version__:
        note(f"the daemon is billhook {found.version}, this is {__version__}; `billhook daemon stop` stops it")


def _compare(found: DaemonStatus, http: str, idle: float | None, quiet: bool) -> None:
    """Compare a daemon that was already running with the options. Raises UsageError if it does not listen at the
    address of --http: settings with that address would not work."""
    if http and not _listens_at(found.http, http):
        where = f"listens for HTTP at {found.http}, not at {http}" if found.http else "does not listen for HTTP"
        hint = "stop it with `billhook daemon stop`, then start it with --http"
        raise UsageError(f"the daemon is already running (process {found.pid}) and {where}", hint=hint)
    if idle is not None and idle != found.idle_exit and not quiet:
        has = f"{found.idle_exit:g} s" if found.idle_exit else "0 (never)"
        note(f"the idle exit of the running daemon is {has}, not {idle:g}; `billhook daemon stop` stops it")


def _listens_at(url: str, wanted: str) -> bool:
    """Whether a daemon's address is the wanted one; port 0 means any port."""
    from billhook.serve.control import address

    if not url:
        return False
    (host, port), (ours, number) = address(wanted), address(url.removeprefix("http://"))
    return port in (0, number) and _resolved(host) == _resolved(ours)


def _resolved(host: str) -> str:
    """The first address of a host name: `localhost` is a loopback address."""
    import socket

    try:
        return str(socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][4][0])
    except (OSError, UnicodeError):
        return host.lower()


@verb.command()
@click.option("--force", is_flag=True, help="Kill it, with all its processes; pending requests get no answer.")
@_json_option
def stop(force: bool, as_json: bool) -> int:
    """Stop the daemon once pending requests finish. Also waits for background hooks, at most 30 s. Does nothing if the
    daemon is not running."""
    with _report_if_silent(as_json):
        pid = control.stop(state_root(), _waiting("the daemon to stop"), force=force)
    text = f"stopped: process {pid}" if pid else "the daemon is not running"
    report(as_json, [text], {"stopped": bool(pid), "pid": pid or None})
    return 0


@verb.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def status(as_json: bool) -> int:
    """Show whether the daemon is running, and its state."""
    try:
        with _report_if_silent(as_json):
            found = control.query_status(state_root())
    except control.SilentError as error:
        if not as_json:
            write(error_text(error), err=True)
        return 1
    rows = list(_rows(found)) if found is not None else []
    width = max((len(name) for name, _ in rows), default=0)
    lines = [line for name, text in rows for line in beside(f"{name:<{width}}  ", text)]
    report(as_json, lines or ["the daemon is not running"], _as_data(found))
    return 0 if found is not None else 1


def _rows(found: DaemonStatus) -> Iterator[tuple[str, str]]:
    yield "running", f"process {found.pid}, billhook {found.version}"
    if found.leaving:
        yield "stopping", found.leaving
    yield "since", f"{shown_time(found.since)} ({ago(found.since)})"
    yield "requests", f"{found.requests:,}, {found.busy:,} in progress"
    yield "memory", f"{found.memory / 1e6:.1f} MB" if found.memory else "unknown"
    if not found.idle_exit:
        yield "idle exit", "never"
    else:
        left = "" if found.idle_left is None else f" (in {found.idle_left:.0f} s)"
        yield "idle exit", f"after {found.idle_exit:g} s without a request{left}"
    yield "socket", found.socket
    if found.http:
        yield "HTTP", _address_shown(found)
    if found.telemetry:
        yield "telemetry", _telemetry(found.telemetry)
    if found.fleet:
        yield "fleet", _fleet(found.fleet)
    yield "log", found.log


def _address_shown(found: DaemonStatus) -> str:
    return f"{found.http} (for the page that `billhook ui` opened)" if found.only_page else found.http


def _telemetry(status: Mapping[str, int | str]) -> str:
    counts = ", ".join(f"{name} {status[name]:,}" for name in ("sent", "dropped", "failed") if name in status)
    return ": ".join(filter(None, [f"{status['endpoint']} ({counts})", str(status.get("problem", ""))]))


def _fleet(link: Mapping[str, Any]) -> str:
    problems = [str(value) for name, value in link.items() if name.endswith("problem") and value]
    state = f"connected, policy {link.get('sequence', 0)}" if link.get("connected") else "not connected"
    return ": ".join([f"{link['host']} of {link['org']} ({state})", *problems[:1]])


def _as_data(found: DaemonStatus | None, **more: bool) -> dict[str, Any]:
    return {"running": found is not None, **more, **(msgspec.to_builtins(found) if found is not None else {})}


@contextmanager
def _report_if_silent(as_json: bool) -> Iterator[None]:
    """Print JSON before the error if the daemon does not respond: it is not usable."""
    try:
        yield
    except control.SilentError as error:
        if as_json:
            write_json({"running": False, "silent": True, "pid": error.pid or None})
        raise


def _waiting(for_what: str) -> Callable[[], None]:
    texts, end = [f"waiting for {for_what} ..."], time.monotonic() + _NOTICE

    def tell() -> None:
        if texts and time.monotonic() > end:
            note(texts.pop())

    return tell
