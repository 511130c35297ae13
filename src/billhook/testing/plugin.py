"""The pytest plugin: collects the test cases of rules, and has fixtures for hooks in Python.

It collects `*.hooktest.yaml`, and `tests:` of `.billhook/hooks.yaml`. A test of your own hooks replaces the fixture
`billhook_engine` with an engine that has them, and calls `fire`:

    @pytest.fixture
    def billhook_engine():
        return Engine([no_force_push])

    def test_it(fire):
        assert fire("git push --force").denied
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:  # a run without such tests imports nothing of billhook
    from billhook.config.cases import Case
    from billhook.core.answers import Verdict
    from billhook.engine.engine import Engine
    from billhook.testing.runner import CaseResult, CaseRunner

_SUFFIXES = (".hooktest.yaml", ".hooktest.yml")
_FOLDER = ".billhook"


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """pytest skips folders whose name begins with a dot."""
    return False if collection_path.name == _FOLDER and collection_path.is_dir() else None


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> "HookCases | None":
    own = file_path.parent.name == _FOLDER and file_path.name in ("hooks.yaml", "hooks.yml")
    wanted = own or file_path.name.endswith(_SUFFIXES)
    return HookCases.from_parent(parent, path=file_path) if wanted else None


class HookCases(pytest.File):
    """One file with cases."""

    def collect(self) -> "Iterable[HookCase]":
        from billhook.config.cases import cases_in

        cases, findings = cases_in(str(self.path))
        if findings:
            raise self.CollectError("\n".join(f"{one.place}: {one.message}; {one.hint}" for one in findings))
        for case in cases:
            yield HookCase.from_parent(self, name=f"{case.title}[{case.line}]", case=case)


class HookCase(pytest.Item):
    """One case, run as `billhook test` does."""

    def __init__(self, *, case: "Case", **given: Any) -> None:
        super().__init__(**given)
        self.case = case

    def runtest(self) -> None:
        result = _judge(self.config, self.path.parent)(self.case)
        if result.status in ("skipped", "not approved"):
            pytest.skip(", ".join(result.notes))
        if result.status == "failed":
            raise HookCaseError(result)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if not isinstance(excinfo.value, HookCaseError):
            return super().repr_failure(excinfo, style)
        found = excinfo.value.result
        # pytest's summary has the first line
        return "\n".join([*found.problems, f"got {found.got}", *found.why, f"{self.path}:{self.case.line}"])

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, self.case.line - 1, self.name


class HookCaseError(Exception):
    """A case failed."""

    def __init__(self, result: "CaseResult") -> None:
        super().__init__("; ".join(result.problems))
        self.result = result


# -- one scratch copy for each project


_OPEN = pytest.StashKey[tuple[ExitStack, "dict[str, CaseRunner]"]]()
_JUDGES = pytest.StashKey["dict[str, Callable[[Case], CaseResult]]"]()


def _judge(config: pytest.Config, folder: Path) -> "Callable[[Case], CaseResult]":
    """Judges the cases of the project that a folder is in."""
    from billhook.testing import runner

    stack, _ = config.stash.setdefault(_OPEN, (ExitStack(), {}))
    judges = config.stash.setdefault(_JUDGES, {})
    if str(folder) not in judges:
        scratch = stack.enter_context(runner.scratch_folder())
        suite = runner.suite(cwd=str(folder))
        judges[str(folder)] = stack.enter_context(runner.case_judge(suite, scratch))
    return judges[str(folder)]


def _runner(config: pytest.Config, folder: Path) -> "CaseRunner":
    """The runner of the project that a folder is in."""
    from billhook.testing import runner

    stack, runners = config.stash.setdefault(_OPEN, (ExitStack(), {}))
    if str(folder) not in runners:
        scratch = stack.enter_context(runner.scratch_folder())
        runners[str(folder)] = runner.make_runner(runner.suite(cwd=str(folder)), scratch)
    return runners[str(folder)]


def pytest_unconfigure(config: pytest.Config) -> None:
    if _OPEN in config.stash:
        config.stash[_OPEN][0].close()


@pytest.fixture
def billhook_engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> "Iterator[Engine]":
    """An engine with the hooks of the project, in a scratch copy, which is the working directory meanwhile. Replace it
    to test hooks of your own."""
    runner = _runner(request.config, request.config.rootpath)
    with runner.scratch.entered(), monkeypatch.context() as patch:
        patch.chdir(runner.scratch.project)
        yield runner.config.engine(host="pytest", approvals=False)
        runner.scratch.forget()
        runner.scratch.restore()


@pytest.fixture
def fire(billhook_engine: "Engine") -> "Callable[..., Verdict]":
    """Fires a call at `billhook_engine`: a shell command, a call as in `tests:`, or an event. Returns the verdict."""
    from functools import partial

    from billhook.testing.expectations import fire_call

    return partial(fire_call, billhook_engine)
