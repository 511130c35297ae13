"""A collector: an HTTP server that decodes what OTLP exporters send."""

import gzip
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

_KINDS: dict[str, Any] = {
    "/v1/traces": ExportTraceServiceRequest,
    "/v1/metrics": ExportMetricsServiceRequest,
    "/v1/logs": ExportLogsServiceRequest,
}


class Collector:
    """What was received. `status` and `pause` make it refuse, or slow."""

    def __init__(self) -> None:
        self.received: list[Any] = []
        self.bytes = b""
        self.status, self.pause = 200, 0.0
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def spans(self) -> list[Any]:
        traces = [one for one in self.received if isinstance(one, ExportTraceServiceRequest)]
        scopes = [scope for one in traces for top in one.resource_spans for scope in top.scope_spans]
        return [span for scope in scopes for span in scope.spans]

    @property
    def logs(self) -> list[Any]:
        logs = [one for one in self.received if isinstance(one, ExportLogsServiceRequest)]
        scopes = [scope for one in logs for top in one.resource_logs for scope in top.scope_logs]
        return [log for scope in scopes for log in scope.log_records]

    @property
    def metrics(self) -> dict[str, Any]:
        """The newest state of each."""
        found = [one for one in self.received if isinstance(one, ExportMetricsServiceRequest)]
        scopes = [scope for one in found for top in one.resource_metrics for scope in top.scope_metrics]
        return {metric.name: metric for scope in scopes for metric in scope.metrics}

    def take(self, path: str, body: bytes) -> int:
        time.sleep(self.pause)
        self.bytes += body
        if self.status == 200:
            self.received.append(_KINDS[path].FromString(body))
        return self.status


def attributes(one: Any) -> dict[str, Any]:
    """Those of a span, a log record or a data point."""
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in one.attributes}


@contextmanager
def collecting() -> Iterator[Collector]:
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            whole = gzip.decompress(body) if self.headers.get("content-encoding") == "gzip" else body
            self.send_response(collector.take(self.path, whole))
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *args: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    collector.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
