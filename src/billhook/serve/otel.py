"""The process that exports verdicts with the OpenTelemetry SDK: traces, metrics and logs over OTLP.

Reads one `VerdictSummary` per line from stdin until it ends. The standard `OTEL_*` variables apply. Prints its counts
as a line of JSON, once per second. While the SDK can't take more, nothing is read, so that the daemon counts what
is dropped.
"""

import importlib
import json
import logging
import os
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any, Final

import msgspec
from opentelemetry import trace
from opentelemetry._logs import SeverityNumber
from opentelemetry.context import Context
from opentelemetry.metrics import Histogram, Meter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import Span, Status, StatusCode

from billhook import __version__
from billhook.serve.sidecar import VerdictSummary

_NAME: Final = "billhook"
_MOST_SESSIONS: Final = 256
_FLUSH: Final = 5.0  # seconds for the last export
_PAUSE: Final = 0.05
_INTERVAL: Final = 1.0  # seconds between two reports of the counts
_SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_OBJECTIONS: Final = ("deny", "ask", "defer")


class CountingExporter:
    """An exporter of the SDK that counts what it exported, and what it could not."""

    def __init__(self, exporter: Any) -> None:
        self._exporter = exporter
        self.done = self.failed = 0

    def export(self, batch: Any, *args: Any, **options: Any) -> Any:
        size = len(batch) if isinstance(batch, Sequence) else 1
        try:
            result = self._exporter.export(batch, *args, **options)
            self.failed += 0 if result.name == "SUCCESS" else size
            return result
        except BaseException:
            self.failed += size
            raise
        finally:
            self.done += size

    def __getattr__(self, name: str) -> Any:
        return getattr(self._exporter, name)


class SessionIds(RandomIdGenerator):
    """All spans of a session are one trace, also if several daemons report them."""

    session = ""

    def generate_trace_id(self) -> int:
        return (
            int.from_bytes(sha256(self.session.encode()).digest()[:16]) if self.session else super().generate_trace_id()
        )


class SessionSpans:
    """The open spans of one session."""

    def __init__(self, span: Span) -> None:
        self.span = span
        self.turn: Span | None = None
        self.tools: dict[str, Span] = {}
        self.last = 0

    def end_turn(self, at: int) -> None:
        for tool in self.tools.values():  # no event told its end
            tool.end(at)
        self.tools.clear()
        if self.turn is not None:
            self.turn.end(at)
            self.turn = None

    def end(self, at: int) -> None:
        self.end_turn(at)
        self.span.end(at)


class Traces:
    """Spans of sessions, turns, tool calls and hooks."""

    def __init__(self, provider: TracerProvider, ids: SessionIds) -> None:
        self._tracer = provider.get_tracer(_NAME, __version__)
        self._ids = ids
        self._sessions: OrderedDict[str, SessionSpans] = OrderedDict()

    def add(self, one: VerdictSummary) -> None:
        ended, began = _nanoseconds(one.ended), _nanoseconds(one.ended - one.ms / 1000)
        session = self._session(one, began)
        session.last = ended
        if one.event == "UserPromptSubmit":
            session.end_turn(began)
            session.turn = self._span(f"invoke_agent {one.agent}", session.span, began, _turn(one))
        above = self._tool(session, one, began) or session.turn or session.span
        self._hooks(one, above, began)
        self._end_what_ended(session, one, above, ended)

    def close(self) -> None:
        for session in self._sessions.values():
            session.end(session.last)
        self._sessions.clear()

    def _session(self, one: VerdictSummary, began: int) -> SessionSpans:
        found = self._sessions.pop(one.session, None)
        if found is None:
            self._ids.session = one.session
            about = {
                "gen_ai.conversation.id": one.session,
                "gen_ai.agent.name": one.agent,
                "billhook.project": one.project,
            }
            found = SessionSpans(self._tracer.start_span("session", Context(), start_time=began, attributes=about))
            if len(self._sessions) >= _MOST_SESSIONS:
                oldest = self._sessions.popitem(last=False)[1]
                oldest.end(oldest.last)
        self._sessions[one.session] = found
        return found

    def _tool(self, session: SessionSpans, one: VerdictSummary, began: int) -> Span | None:
        """The span of the event's tool call."""
        if not one.tool:
            return None
        name = one.call or one.tool
        if one.event == "PreToolUse" or name not in session.tools:
            unfinished = session.tools.pop(name, None)
            if unfinished is not None:
                unfinished.end(began)
            session.tools[name] = self._span(
                f"execute_tool {one.tool}", session.turn or session.span, began, _tool_call(one)
            )
        return session.tools[name]

    def _hooks(self, one: VerdictSummary, above: Span, began: int) -> None:
        at = began
        for hook in one.hooks:
            until = at + int(hook.ms * 1e6)
            about = {
                "billhook.hook": hook.hook,
                "billhook.event": one.event,
                "billhook.status": hook.status,
                "billhook.decision": hook.decision,
                "billhook.failed_open": hook.failed_open,
            }
            span = self._span(f"hook {hook.hook}", above, at, about)
            if hook.status not in ("ok", "background"):
                span.set_status(Status(StatusCode.ERROR, hook.status))
            span.end(until)
            at = until

    def _end_what_ended(self, session: SessionSpans, one: VerdictSummary, above: Span, ended: int) -> None:
        refused = one.decision == "deny" or one.stop
        if one.decision != "none" or one.failed_open or one.stop:
            above.set_attributes({"billhook.decision": one.decision, "billhook.failed_open": one.failed_open})
            if one.reason:
                above.set_attribute("billhook.reason", one.reason)
        if one.tool and (one.event.startswith("PostToolUse") or (one.event == "PreToolUse" and refused)):
            if refused or one.event == "PostToolUseFailure":
                above.set_status(Status(StatusCode.ERROR, "denied" if refused else "failed"))
            above.end(ended)
            session.tools.pop(one.call or one.tool, None)
        elif one.event == "Stop" and not one.keep_going:
            session.end_turn(ended)
        elif one.event == "SessionEnd":
            session.end(ended)
            del self._sessions[one.session]

    def _span(self, name: str, above: Span, began: int, about: dict[str, Any]) -> Span:
        parent = trace.set_span_in_context(above, Context())
        return self._tracer.start_span(name, parent, start_time=began, attributes=about)


def _turn(one: VerdictSummary) -> dict[str, Any]:
    about = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": one.agent}
    return {**about, "gen_ai.conversation.id": one.session, **({"billhook.turn": one.turn} if one.turn else {})}


def _tool_call(one: VerdictSummary) -> dict[str, Any]:
    about = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": one.tool, "gen_ai.tool.type": "function"}
    call = {"gen_ai.tool.call.id": one.call} if one.call else {}
    return {**about, **call, "gen_ai.conversation.id": one.session, "billhook.decision": one.decision}


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1e9)


class VerdictMetrics:
    """Counters and durations."""

    def __init__(self, provider: MeterProvider) -> None:
        meter = provider.get_meter(_NAME, __version__)
        self._decisions = meter.create_counter("billhook.decisions", "{verdict}", "Verdicts, by decision")
        self._failed_open = meter.create_counter("billhook.failed_open", "{hook}", "Hooks that failed and were ignored")
        self._verdicts = _histogram(meter, "billhook.verdict.duration", "From the event to the verdict")
        self._hooks = _histogram(meter, "billhook.hook.duration", "One hook")

    def add(self, one: VerdictSummary) -> None:
        about = {"event": one.event, "agent": one.agent}
        decided = {**about, "decision": one.decision, **({"tool": one.tool} if one.tool else {})}
        self._decisions.add(1, decided)
        self._verdicts.record(one.ms / 1000, about)
        for hook in one.hooks:
            self._hooks.record(hook.ms / 1000, {"hook": hook.hook, "status": hook.status})
            if hook.failed_open:
                self._failed_open.add(1, {"hook": hook.hook, "event": one.event})


def _histogram(meter: Meter, name: str, description: str) -> Histogram:
    return meter.create_histogram(name, "s", description, explicit_bucket_boundaries_advisory=_SECONDS)


class VerdictLogs:
    """One record for each verdict that objects, stops, or follows a hook that failed open."""

    def __init__(self, provider: LoggerProvider) -> None:
        self._logger = provider.get_logger(_NAME, __version__)
        self.made = 0

    def add(self, one: VerdictSummary) -> None:
        if one.decision not in _OBJECTIONS and not one.failed_open and not one.stop:
            return
        self.made += 1
        about = {"event": one.event, "tool": one.tool, "agent": one.agent, "session": one.session, "id": one.id}
        hooks = [hook.hook for hook in one.hooks if hook.decision == one.decision or hook.failed_open]
        what = " ".join(filter(None, [one.decision, one.tool or one.event]))
        self._logger.emit(
            timestamp=_nanoseconds(one.ended),
            severity_number=SeverityNumber.WARN,
            severity_text="WARN",
            event_name="billhook.verdict",
            body=f"{what}: {one.reason}" if one.reason else what,
            attributes={f"billhook.{name}": value for name, value in about.items() if value}
            | {"billhook.decision": one.decision, "billhook.hooks": hooks, "billhook.failed_open": one.failed_open},
        )


class LastProblem(logging.Handler):
    """The last warning of the SDK."""

    text = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.text = record.getMessage()[:300]


class Exporter:
    """The three signals. Lives as long as the process."""

    def __init__(self) -> None:
        resource = Resource.create()
        if str(resource.attributes["service.name"]).startswith("unknown_service"):  # the SDK's default
            resource = resource.merge(Resource({"service.name": _NAME}))
        ids = SessionIds()
        self.spans, self.metrics, self.logs = (_exporter(one) for one in ("trace", "metric", "_log"))
        self._tracing = TracerProvider(resource=resource, id_generator=ids)
        self._logging = LoggerProvider(resource=resource)
        readers = [] if self.metrics is None else [PeriodicExportingMetricReader(self.metrics)]  # type: ignore[arg-type]
        self._metering = MeterProvider(metric_readers=readers, resource=resource)
        if self.spans is not None:
            self._tracing.add_span_processor(BatchSpanProcessor(self.spans))  # type: ignore[arg-type]
        if self.logs is not None:
            self._logging.add_log_record_processor(BatchLogRecordProcessor(self.logs))  # type: ignore[arg-type]
        self.traces = Traces(self._tracing, ids)
        self.counters, self.records = VerdictMetrics(self._metering), VerdictLogs(self._logging)
        self.ended = EndedSpans()
        self._tracing.add_span_processor(self.ended)
        self._problem = LastProblem(logging.WARNING)
        logging.getLogger("opentelemetry").addHandler(self._problem)
        self._room = {kind: int(os.environ.get(f"OTEL_{kind}_MAX_QUEUE_SIZE") or 2048) // 2 for kind in ("BSP", "BLRP")}

    def add(self, one: VerdictSummary) -> None:
        self.traces.add(one)
        self.counters.add(one)
        self.records.add(one)

    @property
    def has_room(self) -> bool:
        """Whether the queues of the SDK, which drop spans when they are full, are at most half full."""
        spans = 0 if self.spans is None else self.ended.count - self.spans.done
        logs = 0 if self.logs is None else self.records.made - self.logs.done
        return spans <= self._room["BSP"] and logs <= self._room["BLRP"]

    @property
    def counts(self) -> dict[str, Any]:
        exporters = [one for one in (self.spans, self.metrics, self.logs) if one is not None]
        sent = sum(one.done - one.failed for one in exporters)
        failed = sum(one.failed for one in exporters)
        return {"sent": sent, "failed": failed, "problem": self._problem.text if failed else ""}

    def close(self) -> None:
        """Export the rest."""
        self.traces.close()
        self._tracing.shutdown()
        self._logging.shutdown()
        self._metering.shutdown()


class EndedSpans(SpanProcessor):
    """Counts the spans that were handed to the exporter's queue."""

    count = 0

    def on_end(self, span: ReadableSpan) -> None:
        self.count += 1


def _exporter(signal: str) -> CountingExporter | None:
    """The OTLP exporter for a signal, in the protocol of `OTEL_EXPORTER_OTLP_PROTOCOL`; None if it is off, or if no
    endpoint is named for it."""
    plural = {"trace": "TRACES", "metric": "METRICS", "_log": "LOGS"}[signal]
    endpoints = (f"OTEL_EXPORTER_OTLP_{plural}_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
    default = "otlp" if any(map(os.environ.get, endpoints)) else "none"
    if (os.environ.get(f"OTEL_{plural}_EXPORTER") or default).lower() == "none":
        return None
    spelt = os.environ.get(f"OTEL_EXPORTER_OTLP_{plural}_PROTOCOL") or os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL")
    protocol = "grpc" if spelt == "grpc" else "http"
    module = importlib.import_module(f"opentelemetry.exporter.otlp.proto.{protocol}.{signal}_exporter")
    name = {"trace": "OTLPSpanExporter", "metric": "OTLPMetricExporter", "_log": "OTLPLogExporter"}[signal]
    return CountingExporter(getattr(module, name)())


def main(lines: Iterable[bytes] = sys.stdin.buffer) -> None:
    try:
        exporter = Exporter()
    except Exception as error:
        _print_counts({"sent": 0, "failed": 0, "problem": f"{type(error).__name__}: {error}"})
        time.sleep(_FLUSH)
        return
    threading.Thread(target=_report_counts, args=[exporter], daemon=True).start()
    decoder = msgspec.json.Decoder(VerdictSummary)
    for line in lines:
        while not exporter.has_room:
            time.sleep(_PAUSE)
        exporter.add(decoder.decode(line))
    late = threading.Timer(_FLUSH, os._exit, [1])
    late.daemon = True
    late.start()
    exporter.close()


def _report_counts(exporter: Exporter) -> None:
    while True:
        _print_counts(exporter.counts)
        time.sleep(_INTERVAL)


def _print_counts(counts: dict[str, Any]) -> None:
    try:
        os.write(1, json.dumps(counts).encode() + b"\n")
    except OSError:  # the daemon has ended, or does not read
        pass


if __name__ == "__main__":
    main()
