"""Whether the daemon answers, and whether it is the one that entries ask."""

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from billhook import __version__
from billhook.agents.base import Agent
from billhook.cli.doctor.entries import path_of
from billhook.cli.doctor.finding import Finding
from billhook.cli.doctor.plugins import plugin_hooks
from billhook.cli.install.entries import TOKEN_VARIABLE
from billhook.config import loader
from billhook.config.config import Config, Row, rows
from billhook.config.history import Look, log_of
from billhook.config.known_gates import missing
from billhook.config.notices import gone_text
from billhook.core import client_env
from billhook.core.errors import BillhookError
from billhook.serve import control
from billhook.serve.protocol import Status
from billhook.store import log_heads
from billhook.store.files import StoreError, log_folder


class Daemon:
    """The daemon of a state root, asked once."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.status: Status | None = None
        self.error: BillhookError | None = None
        began = time.monotonic()
        try:
            self.status = control.ask(root)
        except BillhookError as error:
            self.error = error
        self.seconds = time.monotonic() - began

    def findings(self) -> Iterator[Finding]:
        if self.error is not None:
            place = f" ({self.error.place})" if self.error.place else ""
            yield Finding("fail", "daemon", f"{self.error.message}{place}", "billhook daemon stop --force")
            return
        if self.status is None:
            yield Finding("ok", "daemon", "none runs; the next event starts one")
            return
        found = self.status
        text = f"process {found.pid} answers ({self.seconds * 1000:.0f} ms), billhook {found.version}"
        if found.version != __version__:
            yield Finding("warn", "daemon", f"{text}; this is {__version__}", "billhook daemon stop")
        elif found.leaving:
            yield Finding("ok", "daemon", f"{text}; it ends ({found.leaving}), and the next event starts another")
        else:
            yield Finding("ok", "daemon", text)

    def listens(self, addresses: Iterable[str]) -> Iterator[Finding]:
        """Whether it is where entries ask over HTTP; nothing when none does."""
        own = self.status.http.rstrip("/") if self.status is not None else ""
        asked = list(dict.fromkeys(addresses))
        if asked and not client_env.environ().get(TOKEN_VARIABLE):
            text = f"{TOKEN_VARIABLE} is not set here; an agent that is started without it is refused"
            remedy = f'export {TOKEN_VARIABLE}="$(cat {self._root / "billhook" / "daemon" / "token"})"'
            yield Finding("unknown", "daemon", text, remedy)
        for address in asked:
            if address != own:
                text = f"entries ask {address}, and no daemon listens there"
                remedy = f"billhook daemon start --http {address.partition('://')[2]}"
                yield Finding("fail", "daemon", text, remedy)


# Which hooks apply inside an agent, and when it last asked.


_NEWEST: Final = 8 << 20  # bytes of the log that are looked at, from its end


class Applying(msgspec.Struct, frozen=True):
    """The configured hooks, by what becomes of them in an agent."""

    run: int
    blocks: int  # stand in for what can't be used, and refuse
    waiting: int  # not approved
    itself: int  # the agent runs these
    never: int  # for events that the agent has not
    idle: int  # switched off, or not running for another reason
    built_in: int


def applying(host: Agent, config: Config) -> Applying:
    """Count them."""
    found = rows(config)
    own = [row for row in found if row.layer != "built-in" and not row.switch]
    active = [row for row in own if row.effect != "nothing"]
    never = [row for row in active if _never(row, host)]
    idle = [row for row in own if row.effect == "nothing"]
    waiting = [row for row in idle if row.state in ("new", "changed")]
    itself = [row for row in idle if row.state == "elsewhere"]
    blocks = [row for row in active if row.effect == "blocks"]
    return Applying(
        run=len(active) - len(never) - len(blocks),
        blocks=len(blocks),
        waiting=len(waiting),
        itself=len(itself),
        never=len(never),
        idle=len(idle) - len(waiting) - len(itself),
        built_in=len([row for row in found if row.layer == "built-in"]),
    )


def _never(row: Row, host: Agent) -> bool:
    return bool(row.events) and not any(event in host.spellings for event in row.events)


def hook_findings(host: Agent, project: str) -> Iterator[Finding]:
    """What applies, what waits, and what is wrong."""
    config = loader.load_for_cwd(project, host=host.name)
    found = applying(host, config)
    yield Finding("ok", "hooks", _counted(found, host))
    if host.name == "claude" and (others := plugin_hooks(project)):
        plugins = ", ".join(dict.fromkeys(one.plugin for one in others))
        what = "1 hook of a plugin is" if len(others) == 1 else f"{len(others)} hooks of plugins are"
        yield Finding("ok", "hooks", f"{what} run by Claude Code itself: {plugins}")
    if found.waiting:
        what = "1 hook waits" if found.waiting == 1 else f"{found.waiting} hooks wait"
        yield Finding("warn", "hooks", f"{what} for your approval, and don't run", "billhook trust")
    if found.blocks:
        what = (
            "1 hook can't be used and refuses"
            if found.blocks == 1
            else f"{found.blocks} hooks can't be used and refuse"
        )
        yield Finding("warn", "hooks", f"{what} what it would have judged", "billhook check")
    for one in missing(config):
        text = gone_text(one, config).partition(" If that")[0]
        yield Finding("warn", "hooks", text, "restore it, or: billhook trust --acknowledge")
    if config.problems:
        first = config.problems[0]
        number = "1 problem" if len(config.problems) == 1 else f"{len(config.problems)} problems"
        yield Finding("warn", "hooks", f"{number}, the first: {first.place}: {first.message}", "billhook check")


def _counted(found: Applying, host: Agent) -> str:
    parts = [f"{found.run} of yours run" if found.run != 1 else "1 of yours runs"]
    parts += [f"{found.built_in} built in"] if found.built_in else []
    parts += [f"{found.itself} run by {host.title} itself"] if found.itself else []
    parts += [f"{found.never} for events that {host.title} has not"] if found.never else []
    parts += [f"{found.idle} not running"] if found.idle else []
    return ", ".join(parts)


def is_logged(host: Agent, project: str) -> bool:
    """Whether what that agent asks is written down."""
    setting = loader.load_for_cwd(project, host=host.name).builtins.get("event-logger")
    return setting is None or setting.enabled is not False


def last_asked(host: Agent, config: Config) -> str:
    """The time of the newest record that this agent brought; empty when the end of the log has none."""
    log = log_of(config)
    if log is None:
        return ""
    return next((record.time for record in Look(log, config.project, _NEWEST) if record.host == host.name), "")


def head_findings(project: str, root: Path) -> Iterator[Finding]:
    """Whether the heads of the log are exported, where the user wants that."""
    recording = loader.load_for_cwd(project).recording
    target = recording.options["export_head_to"] if recording else ""
    if recording is None or not target:
        return
    folder = log_folder(root, project)
    try:
        wrong = log_heads.overdue(Path(target), folder, root, recording.options["export_head_every"])
    except StoreError as error:
        yield Finding("warn", "log", f"no head can be exported: {error.message} ({error.place})", error.hint)
        return
    if wrong:
        yield Finding("warn", "log", wrong, "billhook events verify --head")
    else:
        yield Finding("ok", "log", f"heads are exported to {target}")


def log_findings(host: Agent, project: str) -> Iterator[Finding]:
    """Whether the agent ever asked."""
    config = loader.load_for_cwd(project, host=host.name)
    if not is_logged(host, project):
        yield Finding("unknown", "log", "the event log is switched off, so nobody can tell when it last asked")
        return
    try:
        when = last_asked(host, config)
    except StoreError as error:
        yield Finding("warn", "log", f"the event log can't be read: {error.message} ({error.place})", error.hint)
        return
    if when:
        yield Finding("ok", "log", f"{host.title} last asked at {when}")
    else:
        provable = host.start is not None and path_of(host)
        remedy = f"billhook doctor {host.name} --canary" if provable else ""
        yield Finding("unknown", "log", f"{host.title} has not asked yet in this project", remedy)
