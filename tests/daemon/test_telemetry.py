"""The daemon reports its verdicts to an OpenTelemetry collector, and never waits for it."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from billhook.serve import control
from daemon.otlp_receiver import Collector, attributes, collecting
from daemon.running import Home, eventually, home_in

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the tests around the daemon look into /proc")

OWN = """\
hooks:
  no-push: {events: PreToolUse, if: "Bash(git push *)", deny: "no pushes with ghp_0123456789abcdefghijABCDEFGHIJ012345"}
  lame: {events: PostToolUse, run: "exit 7"}
"""
DASHBOARD = Path(__file__).parents[2] / "examples" / "telemetry" / "grafana.json"
SECRET = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
FAST = {"OTEL_BSP_SCHEDULE_DELAY": "100", "OTEL_BLRP_SCHEDULE_DELAY": "100", "OTEL_METRIC_EXPORT_INTERVAL": "300"}


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with home_in(tmp_path) as one:
        one.own(OWN)
        yield one


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as one:
        yield one


def variables(home: Home, url: str, **more: str) -> dict[str, str]:
    return home.env(OTEL_EXPORTER_OTLP_ENDPOINT=url, **FAST, **more)


def run_a_session(home: Home) -> None:
    """A prompt, a call that runs, a call that is denied, and the end."""
    call = {"tool_use_id": "call-1", "tool_input": {"command": "ls private"}}
    home.ask(home.event("SessionStart", source="startup"))
    home.ask(home.event("UserPromptSubmit", prompt="a prompt of the user"))
    home.ask(home.event("PreToolUse", **call))
    home.ask(home.event("PostToolUse", **call, tool_response="an output"))
    denied = home.ask(home.event("PreToolUse", tool_use_id="call-2", tool_input={"command": "git push origin main"}))
    assert denied.denied
    home.ask(home.event("Stop", stop_hook_active=False))
    home.ask(home.event("SessionEnd", reason="other"))


def by_name(spans: list[Any]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for span in spans:
        found.setdefault(span.name, []).append(span)
    return found


def test_a_session_is_one_trace_of_turns_calls_and_hooks(home: Home, collector: Collector) -> None:
    home.start(env=variables(home, collector.url))
    run_a_session(home)
    eventually(lambda: "session" in by_name(collector.spans), 30)
    spans = by_name(collector.spans)
    (session,), (turn,) = spans["session"], spans["invoke_agent claude"]
    runs, denied = sorted(spans["execute_tool Bash"], key=lambda span: int(span.start_time_unix_nano))
    (rule,) = spans["hook no-push"]
    (lame,) = spans["hook lame"]
    assert len({span.trace_id for span in collector.spans}) == 1
    assert turn.parent_span_id == session.span_id and not session.parent_span_id
    assert {runs.parent_span_id, denied.parent_span_id} == {turn.span_id}
    assert (rule.parent_span_id, lame.parent_span_id) == (denied.span_id, runs.span_id)
    assert attributes(session)["gen_ai.conversation.id"] == "s1"
    assert attributes(runs)["gen_ai.tool.call.id"] == "call-1"
    assert attributes(runs)["gen_ai.operation.name"] == "execute_tool"
    assert attributes(denied)["billhook.decision"] == "deny" and denied.status.code == 2
    assert attributes(lame)["billhook.failed_open"] is True and lame.status.message == "failed"
    for span in collector.spans:
        assert span.end_time_unix_nano >= span.start_time_unix_nano


def test_metrics_and_logs(home: Home, collector: Collector) -> None:
    home.start(env=variables(home, collector.url))
    run_a_session(home)
    eventually(lambda: len(collector.logs) == 2 and "billhook.failed_open" in collector.metrics, 30)
    points = collector.metrics["billhook.decisions"].sum.data_points
    denies = [point.as_int for point in points if attributes(point)["decision"] == "deny"]
    assert denies == [1]
    assert collector.metrics["billhook.verdict.duration"].unit == "s"
    failed = collector.metrics["billhook.failed_open"].sum.data_points
    assert [(attributes(point)["hook"], point.as_int) for point in failed] == [("lame", 1)]
    texts = sorted(log.body.string_value for log in collector.logs)
    assert texts[0].startswith("deny Bash: no pushes with ")
    assert texts[1] == "none Bash"


def in_prometheus(metric: Any) -> dict[str, set[str]]:
    """The names under which Prometheus has a metric of OTLP, with their labels: dots are underscores, counters end with
    `total`, units other than counts are part of the name."""
    kind = metric.WhichOneof("data")
    name = "_".join([*metric.name.split("."), *({"s": ["seconds"]}.get(metric.unit, []))])
    points = getattr(metric, kind).data_points
    labels = {key.replace(".", "_") for point in points for key in attributes(point)}
    return {f"{name}_total": labels} if kind == "sum" else {f"{name}_bucket": labels | {"le"}}


def test_the_dashboard_shows_what_is_exported(home: Home, collector: Collector) -> None:
    """Each metric and each label in the queries of the example exists."""
    home.start(env=variables(home, collector.url))
    run_a_session(home)
    names = ("decisions", "failed_open", "verdict.duration", "hook.duration")
    eventually(lambda: {f"billhook.{name}" for name in names} <= set(collector.metrics), 30)
    known = {name: labels for one in collector.metrics.values() for name, labels in in_prometheus(one).items()}
    dashboard = json.loads(DASHBOARD.read_text())
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    queries += [one["query"] for one in dashboard["templating"]["list"] if one["type"] == "query"]
    assert len(queries) >= 6
    for query in queries:
        (metric,) = set(re.findall(r"\bbillhook_\w+", query))
        grouped = [name for names in re.findall(r"by \(([^)]*)\)", query) for name in names.split(", ")]
        used = {*grouped, *re.findall(r"(\w+)=~?\"", query), *re.findall(r"label_values\(\w+, (\w+)\)", query)}
        assert metric in known and used <= known[metric], query
    assert set(known) == {name for query in queries for name in re.findall(r"\bbillhook_\w+", query)}


def test_only_the_signals_that_have_an_endpoint_are_sent(home: Home, collector: Collector) -> None:
    """The SDK would send the others to port 4318 of this machine."""
    traces = home.env(OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=f"{collector.url}/v1/traces", **FAST)
    home.start(env={**traces, "OTEL_RESOURCE_ATTRIBUTES": "service.name=agents,team=red"})
    run_a_session(home)
    eventually(lambda: "session" in by_name(collector.spans), 30)
    eventually(lambda: (status := home.status()) is not None and status.telemetry.get("sent"))
    status = home.status()
    assert status is not None and status.telemetry["failed"] == 0
    assert not collector.logs and not collector.metrics
    assert {attributes(one.resource_spans[0].resource)["service.name"] for one in collector.received} == {"agents"}


@pytest.mark.parametrize("name", ["", "mine"])
def test_the_service_has_a_name(home: Home, collector: Collector, name: str) -> None:
    """Our own, or the one that is set."""
    home.start(env=variables(home, collector.url, **({"OTEL_SERVICE_NAME": name} if name else {})))
    home.ask(home.event())
    eventually(lambda: collector.metrics, 30)
    tops = [top for one in collector.received for top in getattr(one, "resource_metrics", ())]
    assert {attributes(top.resource)["service.name"] for top in tops} == {name or "billhook"}


def test_neither_inputs_nor_secrets_are_sent(home: Home, collector: Collector) -> None:
    home.start(env=variables(home, collector.url))
    run_a_session(home)
    eventually(lambda: "session" in by_name(collector.spans) and len(collector.logs) == 2, 30)
    for text in (SECRET, "ls private", "git push", "a prompt of the user", "an output"):
        assert text.encode() not in collector.bytes


def test_without_an_endpoint_nothing_is_sent(home: Home) -> None:
    home.start(env=home.env(OTEL_SERVICE_NAME="mine"))
    run_a_session(home)
    status = home.status()
    assert status is not None and status.telemetry == {}


@pytest.mark.parametrize("fault", ["dead", "refuses", "slow", "exporter stopped", "exporter killed"])
def test_verdicts_don_t_depend_on_the_collector(home: Home, collector: Collector, fault: str) -> None:
    """More events than fit into pipe and queues: all are judged, and what was not sent is counted."""
    collector.status, collector.pause = (503 if fault == "refuses" else 200), (5.0 if fault == "slow" else 0.0)
    url = "http://127.0.0.1:9" if fault == "dead" else collector.url
    daemon = home.start(env=variables(home, url, OTEL_BSP_MAX_QUEUE_SIZE="64", OTEL_BSP_MAX_EXPORT_BATCH_SIZE="32"))
    exporter = exporter_of(daemon.pid)
    if fault.startswith("exporter"):
        os.kill(exporter, signal.SIGSTOP if fault == "exporter stopped" else signal.SIGKILL)
    long_name = "x" * 4000
    for number in range(400):
        push = home.event(session_id=f"{long_name}{number % 3}", tool_input={"command": "git push origin main"})
        assert home.ask(push).denied
    status = home.status(daemon.pid)
    assert status is not None and int(status.telemetry["dropped"]) > 0
    assert len(home.records()) == 400
    if fault == "exporter stopped":
        os.kill(exporter, signal.SIGKILL)


def exporter_of(daemon: int) -> int:
    def found() -> list[int]:
        argv = ["pgrep", "-f", "billhook.serve.otel", "-P", str(daemon)]
        ended = subprocess.run(argv, capture_output=True, check=False)
        return list(map(int, ended.stdout.split()))

    eventually(found, 10)
    return found()[0]


def test_status_shows_where_it_is_sent_and_how_much(home: Home, collector: Collector) -> None:
    home.start(env=variables(home, collector.url.replace("//", "//user:password@")))
    run_a_session(home)

    def is_sent() -> bool:
        status = home.status()
        return status is not None and int(status.telemetry.get("sent", 0)) > 0

    eventually(is_sent, 30)
    shown = home.billhook("daemon", "status").stdout
    assert f"telemetry  {collector.url}" in shown.replace("\n", " ")
    assert "password" not in shown + home.billhook("daemon", "status", "--json").stdout


def test_a_daemon_that_an_agent_starts_uses_the_user_s_collector(home: Home, collector: Collector) -> None:
    """A project can set variables of an agent: they must not send reports elsewhere."""
    elsewhere = variables(home, "http://127.0.0.1:9")
    home.billhook("daemon", "start", "--quiet", env=elsewhere)
    status = home.status()
    assert status is not None and status.telemetry == {}
    home.billhook("daemon", "stop")
    home.billhook("daemon", "start", env=variables(home, collector.url))
    os.kill(control.holder(home.folder), signal.SIGKILL)
    eventually(lambda: not control.holder(home.folder), 10)
    home.billhook("daemon", "start", "--quiet", env=elsewhere)
    status = home.status()
    assert status is not None and status.telemetry["endpoint"] == collector.url


def test_the_extra_is_named_if_it_is_missing(home: Home, tmp_path: Path) -> None:
    code = (
        "import sys, importlib.util; find = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *rest: None if name == 'opentelemetry' else find(name, *rest)\n"
        "from billhook.cli.main import main; sys.exit(main())"
    )
    home.start(env=variables(home, "http://127.0.0.1:9"), program=(sys.executable, "-c", code))
    shown = json.loads(home.billhook("daemon", "status", "--json").stdout)
    assert "needs the extra `otel`" in shown["telemetry"]["problem"]
    assert home.ask(home.event(tool_input={"command": "git push origin main"})).denied


def test_the_exporter_ends_with_the_daemon(home: Home, collector: Collector) -> None:
    daemon = home.start(env=variables(home, collector.url))
    exporter = exporter_of(daemon.pid)
    run_a_session(home)
    daemon.terminate()
    daemon.wait()
    eventually(lambda: not os.path.exists(f"/proc/{exporter}"), 30)
    assert "session" in by_name(collector.spans)
