"""Installs in a temporary home, inside this process: like `billhook install`, without its screen."""

from collections.abc import Iterable
from pathlib import Path

from billhook.agents import AGENTS
from billhook.agents.base import Scope
from billhook.cli.install.entries import EntryOptions, IfMissing
from billhook.cli.install.plan import InstallChange, RequiredEvents, Target, carry_out, plan_install, plan_uninstall


class Home:
    """A home, a project and a state root. Lives as long as its test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home, self.project, self.root = folder / "home", folder / "home" / "project", folder / "state"
        (self.project / ".git").mkdir(parents=True)

    def target(self, host: str = "claude", scope: Scope = "project") -> Target:
        return Target(AGENTS[host], scope, str(self.project), self.root)

    def file(self, host: str = "claude", scope: Scope = "project") -> Path:
        return Path(AGENTS[host].file(scope, str(self.project)))

    def write(self, data: bytes | str, host: str = "claude", scope: Scope = "project") -> Path:
        path = self.file(host, scope)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        return path

    def install(
        self,
        host: str = "claude",
        scope: Scope = "project",
        *,
        events: Iterable[str] | None = None,
        adopt: bool = False,
        if_missing: IfMissing = "deny",
    ) -> InstallChange:
        target = self.target(host, scope)
        options = EntryOptions(scope=scope, if_missing=if_missing)
        wanted = target.host.events if events is None else events
        needs = RequiredEvents(target).seconds if adopt or target.moved else {}
        change = plan_install(target, wanted, options, adopt=adopt, seconds=needs)
        carry_out(change)
        return change

    def uninstall(self, host: str = "claude", scope: Scope = "project") -> InstallChange:
        change = plan_uninstall(self.target(host, scope))
        carry_out(change)
        return change
