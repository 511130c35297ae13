"""Why no hook saw a call: what the log, the entries and the agent's settings make likely."""

from collections.abc import Iterable
from typing import Final

from billhook.agents.base import Agent
from billhook.agents.transcripts import Call
from billhook.hosts.coverage_log import Seen
from billhook.hosts.doctor_finding import Finding


class Reasons:
    """Says of one call after another why it was not seen."""

    def __init__(
        self, host: Agent, seen: Seen, findings: Iterable[Finding], events: Iterable[str], *, logged: bool
    ) -> None:
        """`findings` and `events` are what the doctor found now; `logged`: the event log is switched on."""
        self._host, self._seen, self._logged = host, seen, logged
        self._events = set(events)
        self._keeping = next(
            (one.text for one in findings if not one.well and one.about in ("installed", "trust", "daemon")), ""
        )

    def why(self, call: Call, *, ended: bool) -> str:
        """The likeliest reason. `ended`: the transcript has what the tool said."""
        host, seen = self._host, self._seen
        if call.elsewhere:
            return "it runs at the model's own service, where no hook is asked"
        if call.tool in host.unhooked:
            return f"{host.title} asks no hook about {call.tool}"
        if not self._logged:
            return "the event log is switched off, so what was judged is not known"
        if not seen.first:
            return f"nothing that {host.title} did was ever logged here{self._now()}"
        if call.time < seen.first:
            return f"before {host.title} first asked billhook here"
        if call.session in seen.asking:
            return self._in_a_session_that_asked(call, ended)
        if call.session in seen.sessions:
            return "that session asked about other events, and not before tool calls" + self._not_installed()
        return f"that session asked nobody{self._now() or _COMMON}"

    def _now(self) -> str:
        return f"; now: {self._keeping}" if self._keeping else ""

    def _not_installed(self) -> str:
        missing = self._events and "PreToolUse" not in self._events
        return f": {self._host.spellings['PreToolUse']} is not among the installed events" if missing else ""

    def _in_a_session_that_asked(self, call: Call, ended: bool) -> str:
        began, last = self._seen.ends[call.session]
        if call.agent and call.agent not in self._seen.agents:
            return "in a subagent that asked nobody"
        if call.time < began:
            return "before the entries were read in that session"
        if call.time > last:
            return "after the last event that came from that session: entries were removed or switched off, or it ended"
        if not ended:
            return "it was stopped, before it began or while it ran"
        return "other calls of that session were judged; the hook could not start, or was too late"


_COMMON: Final = (
    ": it began before the entries were written, with hooks switched off, in a folder not yet trusted, "
    "or with another home"
)
