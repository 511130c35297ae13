"""Python hooks that follow each other take one request to their worker, and behave as if each had its own."""

import asyncio
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from billhook import Engine, Hook, PreToolUse, Verdict, python
from billhook.core.answers import NOTHING, Decision, Outcome, Status
from billhook.core.events import Event
from billhook.core.hook import Context
from billhook.engine import plan
from billhook.runners.worker import Worker, close
from config.project import Project

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="workers are tested on Linux")

EVENT = PreToolUse(tool_name="Bash", tool_input={"command": "ls", "list": [1]}, session_id="s", cwd="/")

POLICY = """
import os, sys, threading, time
import helper
from billhook import Answer, allow, ask, deny, inject, notify, stop

def note(ctx):
    with open("runs.txt", "a") as file:
        file.write(ctx.options["name"] + " ")

def quiet(event, ctx): note(ctx)
def answers(event, ctx): note(ctx); return notify("hi") if ctx.options["name"] > "h2" else inject("context")
def large(event, ctx): note(ctx); return notify("x" * 300_000)
def allows(event, ctx): note(ctx); return allow("fine")
def asks(event, ctx): note(ctx); return ask("sure?")
def denies(event, ctx): note(ctx); return deny("no")
def stops(event, ctx): note(ctx); return stop("enough")
def rewrites(event, ctx): note(ctx); return Answer(updated_input={"command": "ls " + ctx.options["name"]})
def raises(event, ctx): note(ctx); raise ValueError("boom")
def prints_and_raises(event, ctx): note(ctx); print(ctx.options["name"]); raise ValueError("boom")
def prints(event, ctx): note(ctx); print("printed by", ctx.options["name"])
def floods(event, ctx): note(ctx); print("x" * 200_000)
def exits(event, ctx): note(ctx); sys.exit(3)
def dies(event, ctx): note(ctx); os._exit(4)
def returns_nan(event, ctx): note(ctx); return Answer(data=float("nan"))
def moves(event, ctx): note(ctx); os.chdir("/"); os.umask(0o077); os.environ["LEFT"] = "over"
def leaves_a_thread(event, ctx): note(ctx); threading.Thread(target=time.sleep, args=(0.5,), daemon=True).start()
def edits(event, ctx): note(ctx); open("helper.py", "w").write("x = 'edited'")

def stores(event, ctx):
    note(ctx)
    ctx.state.setdefault("all", []).append(ctx.options["name"])
    ctx.state[ctx.options["name"]] = {"deep": [1.5, None]}
    ctx.env["SEEN"] = ctx.options["name"]
    return Answer(data={"list": [ctx.options["name"]]})

def forgets(event, ctx):
    note(ctx)
    for values in (ctx.state, ctx.env):
        for key in list(values)[:1]:
            del values[key]

def stores_objects(event, ctx): note(ctx); ctx.state["odd"] = object(); ctx.env["odd"] = 3
def stores_equal_keys(event, ctx): note(ctx); ctx.state["twice"] = {1: "a", "1": "b"}

def changes_what_it_got(event, ctx):
    note(ctx)
    event.tool_input["list"].append(2)
    for outcome in ctx.results.values():
        if isinstance(outcome.data, dict):
            outcome.data["changed"] = True

def views(event, ctx):
    note(ctx)
    results = {name: [str(one.status), one.hook, one.source, one.dialect, str(one.answer.decision), one.answer.message,
                      one.data, one.error, list(one.lost), one.failed_open] for name, one in ctx.results.items()}
    mask = os.umask(0); os.umask(mask)
    place = [os.getcwd(), mask, os.environ.get("LEFT"), helper.x, event.tool_input, ctx.session_name, ctx.turn_id]
    return Answer(data={"results": results, "state": ctx.state, "env": ctx.env, "place": place})
"""
BEHAVIOURS = [line.split("(")[0].removeprefix("def ") for line in POLICY.splitlines() if line.startswith("def ")][1:]
CHEAP = [name for name in BEHAVIOURS if name not in ("exits", "dies", "leaves_a_thread", "edits")]


def no_result(ctx: Context) -> bool:
    return not ctx.results


def odd(ctx: Context) -> bool:
    """A condition that depends on earlier hooks."""
    return len(ctx.results) % 2 == 1


class Member(NamedTuple):
    """One hook of a list."""

    does: str
    condition: Any = None
    on_failure: Any = "allow"
    always: bool = False
    shadow: bool = False
    reviewed: bool = False


def waive(event: Event, outcome: Outcome) -> Outcome:
    return msgspec.structs.replace(outcome, answer=NOTHING)


class Folder:
    """A project with the policy, and the hooks of a test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "policy.py").write_text(POLICY)
        (folder / "helper.py").write_text("x = 'as it was'")

    def hook(self, place: int, member: Member, **options: Any) -> Hook:
        run = python(f"policy:{member.does}", folder=str(self.folder))
        return Hook(
            name=f"h{place}",
            run=msgspec.structs.replace(run, options=json.dumps({"name": f"h{place}"})),
            condition=member.condition,
            on_failure=member.on_failure,
            always=member.always,
            shadow=member.shadow,
            review=waive if member.reviewed else None,
            **{"timeout": 60, **options},
        )

    def engine(self, *members: Member | str) -> Engine:
        named = [Member(one) if isinstance(one, str) else one for one in members]
        return Engine([self.hook(place, one) for place, one in enumerate(named)])

    def run(self, engine: Engine) -> tuple[Any, ...]:
        """Everything that one event does: what ran, and the verdict without its times."""
        (self.folder / "runs.txt").write_text("")
        verdict = engine.fire_sync(EVENT)
        ran = (self.folder / "runs.txt").read_text().split()
        if (self.folder / "helper.py").read_text() != "x = 'as it was'":
            (self.folder / "helper.py").write_text("x = 'as it was'")
        return ran, verdict.decision, verdict.reason, verdict.context, verdict.messages, verdict.stop, outcomes(verdict)


def outcomes(verdict: Verdict) -> list[Any]:
    return [msgspec.to_builtins(msgspec.structs.replace(one, duration_ms=0)) for one in verdict.outcomes]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Folder]:
    yield Folder(tmp_path_factory.mktemp("batches"))
    close()


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The requests that workers get."""
    sent: list[bytes] = []
    send = Worker.send

    def counted(worker: Worker, request: bytes, number: int) -> None:
        sent.append(request)
        send(worker, request, number)

    monkeypatch.setattr(Worker, "send", counted)
    return sent


def both_ways(folder: Folder, members: Sequence[Member | str]) -> tuple[Any, ...]:
    """The same event with one request for all hooks, and with one for each; both must be equal."""
    together = folder.run(folder.engine(*members))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "_following", lambda steps: {})
        alone = folder.run(folder.engine(*members))
    assert together == alone
    return together


LISTS: dict[str, list[Member | str]] = {
    "answers of every kind": ["answers", "large", "allows", "stores", "stores", "prints", "views"],
    "state and environment": ["stores", "stores", "forgets", "stores_objects", "views", "forgets", "views"],
    "what is changed in place": ["stores", "views", "changes_what_it_got", "views", "moves", "views"],
    "a deny": ["quiet", "denies", "quiet", Member("views", always=True), Member("quiet", always=True)],
    "a stop": ["stores", "stops", Member("views", always=True)],
    "an ask": ["asks", "views", "asks", "views"],
    "rewrites": [Member("views", on_failure="deny"), "rewrites", "views", "rewrites", "views"],
    "failures that are open": ["stores", "raises", "views", "prints_and_raises", "views", "returns_nan", "views"],
    "a failure that asks": ["stores", Member("raises", on_failure="ask"), "views"],
    "a failure that blocks": ["stores", Member("exits", on_failure="deny"), "quiet", Member("views", always=True)],
    "a death": ["stores", "dies", "views"],
    "what another printed": ["prints", "prints", "prints_and_raises", "floods", "prints_and_raises", "raises"],
    "an answer that can't be read": ["quiet", "stores_equal_keys", "views"],
    "an edited module": ["views", "edits", "views", "views"],
    "a thread that runs on": ["quiet", "leaves_a_thread", "views"],
    "conditions": [
        Member("quiet", no_result),
        "stores",
        Member("quiet", no_result),
        "stores",
        Member("answers", odd),
        Member("answers", odd),
        "stores",
        "views",
    ],
    "shadow and reviews": [Member("denies", shadow=True), "stores", Member("denies", reviewed=True), "views"],
    "a function that is missing": ["stores", "missing", "views"],
}


@pytest.mark.parametrize("case", LISTS)
def test_the_same_as_alone(folder: Folder, case: str) -> None:
    """Hooks run in the same order, see the same, and the verdict is the same."""
    both_ways(folder, LISTS[case])


MEMBERS = st.builds(
    Member,
    st.sampled_from(CHEAP),
    st.sampled_from([None, None, None, None, no_result, odd]),
    st.sampled_from(["allow", "allow", "deny", "ask"]),
    st.booleans(),
    *[st.sampled_from([False, False, False, True])] * 2,
)


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(MEMBERS, min_size=1, max_size=8))
def test_any_list_is_the_same_as_alone(folder: Folder, members: list[Member]) -> None:
    """The same for lists that no person would think of."""
    both_ways(folder, members)


# How many requests


@pytest.mark.parametrize(
    ("does", "expected"), [("quiet", 1), ("answers", 1), ("stores", 1), ("asks", 10), ("raises", 10)]
)
def test_one_request(folder: Folder, requests: list[bytes], does: str, expected: int) -> None:
    """Ten hooks take one request; a hook whose answer may change what follows is the last of its request."""
    engine = folder.engine(*[does] * 10)
    assert len(engine.fire_sync(EVENT).outcomes) == 10
    assert len(requests) == expected


def test_a_condition_is_judged_when_its_hook_is_due(folder: Folder, requests: list[bytes]) -> None:
    """Earlier hooks may change what a condition depends on, so a hook with one has its own request."""
    hooks: list[Member | str] = ["quiet", "quiet", Member("quiet", no_result), Member("quiet", odd), "quiet", "quiet"]
    engine = folder.engine(*hooks)
    statuses = [outcome.status.value for outcome in engine.fire_sync(EVENT).outcomes]
    assert statuses == ["ok", "ok", "skipped", "ok", "ok", "ok"]
    assert len(requests) == 3


def test_listeners_are_told_before_a_hook_starts(folder: Folder, requests: list[bytes]) -> None:
    """With listeners, each hook has its own request."""
    engine = folder.engine("quiet", "quiet", "quiet")
    told: list[Any] = []
    engine.listen(told.append)
    assert folder.run(engine)[0] == ["h0", "h1", "h2"]
    assert len(requests) == 3 and len(told) == 6


def test_other_projects_have_other_requests(folder: Folder, tmp_path: Path, requests: list[bytes]) -> None:
    """One request is for one project and one interpreter; a hook of another kind ends it, too."""
    (tmp_path / "own.py").write_text("def f(event): pass")
    other = Hook(name="other", run=python("own:f", folder=str(tmp_path)))
    inside = Hook(name="inside", run=lambda ctx: None)
    first, second = folder.hook(1, Member("quiet")), folder.hook(2, Member("quiet"))
    assert [one.status for one in Engine([first, other, second]).fire_sync(EVENT).outcomes] == [Status.OK] * 3
    assert len(requests) == 3
    Engine([first, inside, second]).fire_sync(EVENT)
    assert len(requests) == 5


# Time

HANGS = {"sleeps": "time.sleep(1e9)", "loops in C": "sum(range(10**15))"}


@pytest.mark.parametrize("case", HANGS)
def test_each_hook_has_its_own_deadline(tmp_path: Path, requests: list[bytes], case: str) -> None:
    """A hook that hangs times out alone: answers before it count, and the hooks after it run."""
    code = f"import time\ndef fine(event): return {{'systemMessage': 'fine'}}\ndef hangs(event):\n    {HANGS[case]}\n"
    (tmp_path / "policy.py").write_text(code)
    targets = ["fine", "fine", "hangs", "fine"]
    hooks = [
        Hook(name=f"h{i}", run=python(f"policy:{name}", folder=str(tmp_path)), timeout=1 if name == "hangs" else 60)
        for i, name in enumerate(targets)
    ]
    verdict = Engine(hooks).fire_sync(EVENT)
    assert [one.status.value for one in verdict.outcomes] == ["ok", "ok", "timed_out", "ok"]
    assert verdict.context == ("fine", "fine", "fine") and len(requests) == 2
    assert "no answer in time" in verdict.outcomes[2].error
    close()


def test_the_deadline_of_the_event(folder: Folder, tmp_path: Path) -> None:
    """Hooks that can't start before the event's deadline don't, and the one that runs then is ended."""
    (tmp_path / "policy.py").write_text(
        "import time\ndef f(event):\n    open('runs.txt', 'a').write('x')\n    time.sleep(0.4)\n"
    )
    hooks = [Hook(name=f"h{i}", run=python("policy:f", folder=str(tmp_path)), timeout=60 + i) for i in range(6)]
    engine = Engine(hooks)
    engine.fire_sync(EVENT)  # starts the worker
    (tmp_path / "runs.txt").unlink()
    verdict = asyncio.run(engine.fire(EVENT, deadline=1.0))
    statuses = [one.status.value for one in verdict.outcomes]
    ran = len((tmp_path / "runs.txt").read_text())
    assert statuses[0] == "ok" and statuses[-1] == "timed_out"
    assert ran == statuses.count("ok") + 1
    assert "before it could start" in verdict.outcomes[-1].error
    close()


def test_an_answer_after_its_deadline_is_the_last(tmp_path: Path, requests: list[bytes]) -> None:
    """A function that swallows the signals of its deadline and returns late is not followed in the same worker: the
    next hook runs once."""
    code = """
import signal, time
def late(event):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    end = time.monotonic() + 0.55
    while time.monotonic() < end: pass
def next(event): open('runs.txt', 'a').write('x')
"""
    (tmp_path / "policy.py").write_text(code)
    late, after = (Hook(name=name, run=python(f"policy:{name}", folder=str(tmp_path))) for name in ("late", "next"))
    engine = Engine([after, msgspec.structs.replace(late, timeout=0.5), msgspec.structs.replace(after, name="last")])
    statuses = [one.status.value for one in engine.fire_sync(EVENT).outcomes]
    assert statuses == ["ok", "timed_out", "ok"]
    assert (tmp_path / "runs.txt").read_text() == "xx" and len(requests) == 2
    close()


def test_cancelled(tmp_path: Path) -> None:
    """An event that is cancelled while a later hook of the request runs ends the worker."""
    code = """
import os, time
def quick(event): open('pid.txt', 'w').write(str(os.getpid()))
def slow(event):
    open('reached', 'w').close()
    time.sleep(1e9)
"""
    (tmp_path / "policy.py").write_text(code)
    hooks = [Hook(name=name, run=python(f"policy:{name}", folder=str(tmp_path))) for name in ("quick", "slow")]

    async def cancel() -> None:
        task = asyncio.create_task(Engine(hooks).fire(EVENT))
        while not (tmp_path / "reached").exists():  # noqa: ASYNC110 - another process tells
            await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    pid, end = int((tmp_path / "pid.txt").read_text()), time.monotonic() + 5
    while os.path.exists(f"/proc/{pid}") and time.monotonic() < end:
        time.sleep(0.02)
    assert not os.path.exists(f"/proc/{pid}")


# Approval


CHANGES = {
    "its module": ("open('two.py', 'a').write('#')", "two.py"),
    "a module that it imports": ("open('helper.py', 'w').write('x = 2')", "helper.py"),
    "a module that it will import": ("open('lazy.py', 'w').write('x = 2')", "lazy.py"),
}


@pytest.mark.parametrize("case", CHANGES)
def test_code_that_changed_since_its_approval_does_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, requests: list[bytes], case: str
) -> None:
    """A hook that changes the code of the next one, in the same request, does not make it run."""
    project = Project(tmp_path, monkeypatch)
    change, changed = CHANGES[case]
    project.write("one.py", f"def check(event):\n    {change}\n")
    project.write(
        "two.py", "import helper\ndef check(event):\n    import lazy\n    open('ran.txt', 'a').write(str(lazy.x))\n"
    )
    project.write("helper.py", "x = 1")
    project.write("lazy.py", "x = 1")
    hooks = {name: {"events": "PreToolUse", "python": f"{name}:check", "on_failure": "deny"} for name in ("one", "two")}
    project.write(".billhook/hooks.yaml", json.dumps({"hooks": hooks}))
    assert sorted(project.approve()) == ["one", "two"]
    verdict = project.fire()
    assert len(requests) == 1 and b"two:check" in requests[0]
    assert verdict.decision is Decision.DENY and f"{changed} has changed since it was approved" in verdict.reason
    assert not (project.folder / "ran.txt").exists()
    close()


def test_garbage_before_an_answer(tmp_path: Path) -> None:
    """A hook that writes into the worker's pipe fails; the hooks after it run once, in whichever worker."""
    code = """
import os
def dirty(event):
    for fd in range(3, 300):
        try: os.write(fd, b"garbage")
        except OSError: pass
def after(event): open('runs.txt', 'a').write('x')
"""
    (tmp_path / "policy.py").write_text(code)
    hooks = [Hook(name=f"h{i}", run=python("policy:after", folder=str(tmp_path)), timeout=60 + i) for i in range(4)]
    dirty = Hook(name="dirty", run=python("policy:dirty", folder=str(tmp_path)))
    engine = Engine([hooks[0], dirty, *hooks[1:]])
    for _ in range(10):
        (tmp_path / "runs.txt").unlink(missing_ok=True)
        statuses = [one.status.value for one in engine.fire_sync(EVENT).outcomes]
        assert statuses[:2] == ["ok", "failed"]
        assert statuses.count("ok") <= len((tmp_path / "runs.txt").read_text()) <= 4
    close()


def test_durations(tmp_path: Path) -> None:
    """A hook has the time that it ran, although its owner was busy with something else when it ended."""
    (tmp_path / "policy.py").write_text("import time\ndef quick(event): pass\ndef slow(event): time.sleep(0.1)\n")
    quick, slow = (Hook(name=name, run=python(f"policy:{name}", folder=str(tmp_path))) for name in ("quick", "slow"))
    busy = 2.0

    async def fire() -> Verdict:
        asyncio.get_running_loop().call_later(0.05, time.sleep, busy)
        return await engine.fire(EVENT)

    engine = Engine([quick, slow])
    engine.fire_sync(EVENT)  # starts the worker
    verdict = asyncio.run(fire())
    assert verdict.duration_ms >= busy * 1000
    assert 100 <= verdict.outcomes[1].duration_ms < busy * 1000 / 2
    close()
