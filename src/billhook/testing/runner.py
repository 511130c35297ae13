"""Run test cases with the real engine in a scratch copy of a project, and judge their verdicts.

Hooks that run code need an approval, as everywhere, and reach no network, if the system can cut them off. Hooks that
call a URL don't run. Rules with fixed answers need no approval here: they change nothing. The copy has its own home
folder and state, and is made once. Each worker has a copy of that copy, and restores it after a case that changed
something.
"""

import functools
import linecache
import os
import platform
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

import msgspec
from msgspec.structs import replace

from billhook.agents import AGENTS, DIALECTS
from billhook.builtins.guard import Guard
from billhook.builtins.rate_limit import NAME as RATE_LIMIT
from billhook.config import build, sources
from billhook.config.approval_scope import NAMES as BUILD_FILES
from billhook.config.cases import Case, case_files, cases_in, event_of, unknown_hooks
from billhook.config.config import Config, Entry
from billhook.config.declaration import (
    BUILTINS,
    Exec,
    FixedAnswer,
    HookDeclaration,
    Layer,
    Python,
    RunAction,
    Url,
    needs_consent,
)
from billhook.config.explain import ExplainedHook, explain
from billhook.config.loader import Instead, load_config, load_instead
from billhook.config.recorder import encoded
from billhook.config.referenced_files import named
from billhook.config.sources import FileSnapshot, of_claude_code
from billhook.config.trust import holds
from billhook.core import strictjson
from billhook.core.answers import Outcome, Status, Verdict, fold
from billhook.core.errors import BillhookError, UsageError
from billhook.core.events import Event, parse
from billhook.core.text import Finding
from billhook.effects import gitstate
from billhook.effects.conditions import cell_of
from billhook.effects.gitstate import UnreadableError
from billhook.effects.rules import Rule
from billhook.engine.plan import Plan
from billhook.testing.expectations import deciders, differences, forms, outcome_of

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor


# -- the scratch copy


MOST_FILES: Final = 5_000
MOST_BYTES: Final = 64 << 20
"""A larger project is not copied as a whole: only its hook files, and the scripts that hooks name."""
_REMOVED: Final = ("GIT_", "BILLHOOK_", "CLAUDE", "XDG_", "HOOK_")
_MARKS: Final = frozenset({mark for agent in AGENTS.values() for mark in agent.marks} | {"AI_AGENT", "AUGMENT_AGENT"})
_CODE_OF_GIT: Final = (".git/config", ".git/hooks", ".git/info")
_SETTINGS: Final = "[user]\n\tname = billhook test\n\temail = test@localhost\n[core]\n\thooksPath = /dev/null\n"


class Original(msgspec.Struct, frozen=True):
    """The folders that are copied, and which of their files."""

    project: str  # empty outside of a project
    home: str
    files: tuple[str, ...]  # absolute paths in the project or in the home folder
    is_repository: bool = False
    covered: frozenset[str] = frozenset()
    """The scripts that hooks run: no case replaces them. Build files, such as a Makefile, are input of a command that
    cases need to vary."""

    @property
    def inner(self) -> str:
        """The place of the project in a copy. A project below the home folder stays below it: scopes depend on that."""
        if not self.project:
            return "home/project"
        below = self.project.startswith(self.home + "/")
        return f"home/{os.path.relpath(self.project, self.home)}" if below else "project"

    def place_in(self, copy: Path, path: str) -> Path:
        """The place of a file in a copy."""
        if self.project and path.startswith(self.project + "/"):
            return copy / self.inner / os.path.relpath(path, self.project)
        return copy / "home" / os.path.relpath(path, self.home)


def original_of(config: Config, *, whole: bool) -> Original:
    """What is copied for a configuration. `whole`: the project with all its files, unless it is too large."""
    project, home = config.project, os.path.realpath(os.path.expanduser("~"))
    look = FileSnapshot()
    found = [read.source.path for read in config.sources]
    references = [named(one.declared.action, one.declared.folder, look) for one in config.entries]
    scripts = [
        path for one in references for path in (*one.files, *(file for tree in one.trees.values() for file in tree))
    ]
    in_repository = whole and os.path.exists(os.path.join(project, ".git"))
    files = dict.fromkeys([*found, *scripts, *(_listed(project) if in_repository else ())])
    folders = tuple(f"{folder}/" for folder in (project if whole else "", home) if len(folder) > 1)
    inside = tuple(path for path in files if path.startswith(folders) and "/.git/" not in path)
    covered = frozenset(path for path in scripts if os.path.basename(path) not in BUILD_FILES)
    return Original(project if whole else "", home, inside, in_repository, covered)


def _listed(project: str) -> list[str]:
    """The tracked files and the new ones that are not ignored; none if they are too many or too large."""
    words = ("ls-files", "-z", "--cached", "--others", "--exclude-standard")
    try:
        names = gitstate.run_git(project, *words, seconds=20).split("\0")
        paths = [os.path.join(project, name) for name in dict.fromkeys(names) if name]
        sizes = [os.lstat(path).st_size for path in paths if os.path.lexists(path)]
    except (OSError, UnreadableError):
        return []
    return paths if len(paths) <= MOST_FILES and sum(sizes) <= MOST_BYTES else []


def copy_original(original: Original, copy: Path) -> None:
    """Make the first copy. It is a repository on the same branch if the project is one."""
    project = copy / original.inner
    project.mkdir(parents=True)
    (copy / "home").mkdir(exist_ok=True)
    for path in original.files:
        _copy_file(path, original.place_in(copy, path))
    (copy / "home" / ".gitconfig").write_text(_SETTINGS)
    if original.is_repository and shutil.which("git"):
        branch = gitstate.current_branch(original.project)
        for words in (f"init -q -b {branch or 'main'}", "add -A", "commit -q --allow-empty --no-verify -m copy"):
            _git(project, copy / "home", words)
        if not branch:
            _git(project, copy / "home", "checkout -q --detach")


def _copy_file(path: str, target: Path) -> None:
    try:
        mode = os.lstat(path).st_mode
        if stat.S_ISLNK(mode) and os.path.isabs(os.readlink(path)):
            return  # it would lead out of the copy
        if stat.S_ISREG(mode) or stat.S_ISLNK(mode):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target, follow_symlinks=False)
    except FileNotFoundError:
        return  # named by a hook or tracked by git, but deleted
    except OSError as error:
        hint = "check its permissions"
        raise UsageError(
            f"it can't be copied: {(error.strerror or str(error)).lower()}", place=path, hint=hint
        ) from None


def _git(project: Path, home: Path, words: str) -> None:
    env = {**environment(home), "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(
        ["git", *words.split(" ")], cwd=project, env=env, stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    if done.returncode:
        why = done.stderr.decode("utf-8", "replace").strip()
        raise UsageError(f"can't make a scratch repository: {why}", hint="check that git works here")


def environment(home: Path) -> dict[str, str]:
    """This process's variables, without those that lead to the user's files, a repository or an agent."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith(_REMOVED) and name not in _MARKS}
    return {**kept, "HOME": str(home)}


Mark = tuple[int, ...]


class Scratch:
    """The copy of one worker."""

    def __init__(self, original: Original, source: Path, folder: Path) -> None:
        self.original, self.source, self.folder = original, source, folder
        self.home, self.project = folder / "home", folder / original.inner
        self.state = folder.with_name(f"{folder.name}-state")
        shutil.copytree(source, folder, symlinks=True)
        self._marks = dict(_marks(folder))

    @contextmanager
    def entered(self) -> Iterator[None]:
        """This process works with the home folder and state of the copy."""
        before = dict(os.environ)
        inside = environment(self.home) | {"BILLHOOK_HOME": str(self.state)}
        os.environ.clear()
        os.environ.update(inside)
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(before)

    def moved(self, text: str) -> str:
        """Replace paths of the project by those of the copy."""
        return text.replace(self.original.project, str(self.project)) if self.original.project else text

    def shown(self, text: str) -> str:
        """Replace paths of the copy by the real ones."""
        text = text.replace(str(self.project), self.original.project or "~/project")
        return text.replace(str(self.home), self.original.home)

    def write(self, files: Mapping[str, str]) -> None:
        """Write the files of a case. Raises UsageError for one that would be outside, or that an approval covers."""
        for name, text in files.items():
            path, real = self.project / name, os.path.join(self.original.project, name)
            inside = os.path.realpath(path.parent).startswith(os.path.realpath(self.project))
            of_git = os.path.normpath(name).startswith(_CODE_OF_GIT)
            if not inside or real in self.original.covered or of_git:
                why = "that an approved hook runs" if real in self.original.covered else "outside of the project"
                why = "from which git runs programs" if of_git else why
                raise UsageError(f"a test can't write `{name}`, a file {why}", hint="use another name")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
            path.write_text(text, encoding="utf-8")

    def forget(self) -> None:
        """Remove the state: the next case begins with new sessions."""
        for above, _, files in os.walk(self.state):  # empty folders stay: to remove them takes much longer
            for name in files:
                os.unlink(os.path.join(above, name))

    def restore(self) -> None:
        """Undo every change of the copy."""
        now = dict(_marks(self.folder))
        for path in sorted(now.keys() - self._marks.keys(), reverse=True):
            _remove(path)
        changed = [path for path, mark in self._marks.items() if now.get(path) != mark]
        for path in changed:
            self._renew(path)
        self._marks |= _marks_of(changed)

    def _renew(self, path: str) -> None:
        source = self.source / os.path.relpath(path, self.folder)
        if source.is_dir() and not source.is_symlink():
            if os.path.islink(path) or not os.path.isdir(path):
                _remove(path)
                os.mkdir(path)
            return
        _remove(path)
        shutil.copy2(source, path, follow_symlinks=False)


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)
    elif os.path.lexists(path):
        os.unlink(path)


def _marks(folder: Path) -> Iterator[tuple[str, Mark]]:
    """Every file and folder below a folder, folders first, each with what changes when it does."""
    for above, folders, files in os.walk(folder):
        paths = [os.path.join(above, name) for name in (*folders, *files)]
        yield from _marks_of(paths).items()


def _marks_of(paths: Iterable[str]) -> dict[str, Mark]:
    found = {path: os.lstat(path) for path in paths if os.path.lexists(path)}
    return {
        path: (one.st_mode,) if stat.S_ISDIR(one.st_mode) else (one.st_mode, *sources.IDENTITY(one))
        for path, one in found.items()
    }


# -- test cases


T = TypeVar("T")
R = TypeVar("R")
CaseStatus = Literal["passed", "failed", "skipped", "not approved"]
NOT_APPROVED: Final = "not approved: run `billhook trust`"
_NO_NETWORK: Final = "it calls a URL, and tests use no network"
_SECONDS: Final = 20.0  # for hooks in the background
_MOST_REASONS: Final = 6


class CaseCoverage(msgspec.Struct, frozen=True):
    """What one case exercises, for coverage: each name with whether it applied to the call."""

    hooks: dict[str, bool] = {}
    cells: dict[str, str] = {}  # cells of the guard's table, with its decision; `-`: allowed
    rules: dict[str, bool] = {}  # permission rules, by their place


class CaseResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one case."""

    case: Case
    status: CaseStatus
    got: str = ""
    problems: tuple[str, ...] = ()  # how the verdict differs from what is expected
    why: tuple[str, ...] = ()  # which hooks ran or were skipped, and the reason
    notes: tuple[str, ...] = ()  # what the agent is not told, and hooks that never run in tests
    seconds: float = 0.0
    exercised: CaseCoverage = CaseCoverage()


class Suite(msgspec.Struct, frozen=True, kw_only=True):
    """The cases of a folder, and what they run with."""

    cases: tuple[Case, ...]
    findings: tuple[Finding, ...]  # mistakes in the files with cases
    files: tuple[str, ...]
    real: Config  # the configuration in its real place: only approvals and paths are taken from it
    layers: tuple[Layer, ...]
    rules: tuple[str, ...] = ()  # further files with hooks that the user named
    original: Original


def suite(files: Sequence[str] = (), *, user: bool = False, cwd: str = "") -> Suite:
    """The cases of a project, or of the given files. `user`: with the user's own hooks."""
    whole = load_config(cwd or None, layers=("project", "local"), builtins=False)
    in_project = bool(whole.sources) or os.path.exists(os.path.join(whole.project, ".git"))
    own = user or (not whole.sources and not files)
    layers: tuple[Layer, ...] = ("user", "project", "local") if own else ("project", "local")
    named = tuple(os.path.abspath(file) for file in files)
    rules = tuple(file for file in named if _has_hooks(file) and file not in [one.source.path for one in whole.sources])
    real = load_config(cwd or None, files=rules, layers=(*layers, "explicit"), builtins=False)
    places = [read.source.path for read in real.sources if own or read.source.layer != "user"]
    found = list(named) or case_files(places, [os.path.join(real.project, ".billhook")])
    cases, wrong = zip(*map(cases_in, found), strict=True) if found else ((), ())
    unreadable = [read.findings for read in real.unreadable]  # without these files no result would mean anything
    tests = tuple(case for some in cases for case in some)
    names = {form for one in real.entries for form in (one.declared.name, *forms(one.shown))} | {*BUILTINS}
    unknown = list(unknown_hooks(tests, names))
    return Suite(
        cases=tests,
        findings=tuple(dict.fromkeys(finding for found in (*wrong, *unreadable, unknown) for finding in found)),
        files=tuple(found),
        real=real,
        layers=layers,
        rules=rules,
        original=original_of(real, whole=in_project),
    )


def _has_hooks(file: str) -> bool:
    from billhook.config.edit_yaml import hooks_in

    try:
        return bool(hooks_in(Path(file).read_bytes(), file))
    except (OSError, BillhookError, ValueError):
        return False


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A temporary folder that only this user can read."""
    folder = Path(os.path.realpath(tempfile.mkdtemp(prefix="billhook-test-")))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


Progress = Callable[[int, int], None]  # called with how many of how many are done
_LEAST: Final = 8  # cases of one worker: a smaller number is faster without further processes
_runner: "CaseRunner"  # of a worker process
_worker = ExitStack()


def run_cases(suite: Suite, cases: Sequence[Case], tick: Progress, *, exercised: bool = False) -> list[CaseResult]:
    """The results in the order of the cases."""
    return in_workers(suite, functools.partial(CaseRunner.judge, exercised=exercised), cases, tick, least=_LEAST)


def in_workers(
    suite: Suite, work: "Callable[[CaseRunner, T], R]", pieces: Sequence[T], tick: Progress, *, least: int
) -> list[R]:
    """Do each piece of work with the runner of a worker process. With less work than `least` for each of two workers,
    this process does it."""
    workers = min(os.cpu_count() or 1, len(pieces) // least)
    results: list[R] = []
    with scratch_folder() as folder, ExitStack() as stack:
        copy_original(suite.original, folder / "original")
        if workers < 2 and not _works_apart(suite):
            runner = make_runner(suite, folder)
            stack.enter_context(runner.scratch.entered())
            done: Iterator[R] = map(functools.partial(work, runner), pieces)
        else:
            done = stack.enter_context(_pool(max(workers, 1), suite, folder)).map(
                functools.partial(_in_worker, work), pieces
            )
        for result in done:
            results.append(result)
            tick(len(results), len(pieces))
    return results


def network_left(suite: Suite) -> str:
    """Why programs of hooks reach the network in these tests; empty if they don't, or if no hook runs one."""
    return network_refusal() if any(runs_code(one.declared) for one in suite.real.entries) else ""


def _works_apart(suite: Suite) -> bool:
    """Whether worker processes without network are needed: hooks run programs, and the system can cut them off."""
    return any(runs_code(one.declared) for one in suite.real.entries) and not network_refusal()


@contextmanager
def case_judge(suite: Suite, folder: Path) -> Iterator[Callable[[Case], CaseResult]]:
    """Judges single cases as `run_cases` does: in a worker process, if hooks run programs."""
    with ExitStack() as stack:
        if _works_apart(suite):
            copy_original(suite.original, folder / "original")
            pool = stack.enter_context(_pool(1, suite, folder))
            yield lambda case: pool.submit(_in_worker, CaseRunner.judge, case).result()
        else:
            runner = make_runner(suite, folder)
            yield lambda case: _judge_entered(runner, case)


def _judge_entered(runner: "CaseRunner", case: Case) -> CaseResult:
    with runner.scratch.entered():
        return runner.judge(case)


def _pool(workers: int, suite: Suite, folder: Path) -> "ProcessPoolExecutor":
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    return ProcessPoolExecutor(workers, get_context("fork"), _begin, (suite, folder, _works_apart(suite)))


def _begin(suite: Suite, folder: Path, apart: bool) -> None:
    """Set up a worker process. Its folder is removed with the others."""
    global _runner  # noqa: PLW0603 (a worker process has one)
    if apart:
        cut_off()
    _runner = make_runner(suite, folder, str(os.getpid()))
    _worker.enter_context(_runner.scratch.entered())


def _in_worker(work: "Callable[[CaseRunner, T], R]", piece: T) -> R:
    return work(_runner, piece)


def make_runner(suite: Suite, folder: Path, name: str = "0") -> "CaseRunner":
    """A runner with its own copy of the first copy. It works while its scratch copy is entered."""
    if not (folder / "original").exists():
        copy_original(suite.original, folder / "original")
    scratch = Scratch(suite.original, folder / "original", folder / name)
    with scratch.entered():
        return CaseRunner(suite, scratch)


# -- the rules as tests run them


def runs_code(declared: HookDeclaration) -> bool:
    """Whether a hook starts a program."""
    action = declared.action
    return isinstance(action, RunAction | Exec | Python) or (isinstance(action, FixedAnswer) and bool(action.command))


def with_entries(config: Config, change: Callable[[Entry], Entry]) -> Config:
    """The configuration with changed entries. An entry without a hook is not part of the plan."""
    changed = [(one, change(one)) for one in config.entries]
    instead = {id(old.hook): new.hook for old, new in changed if old.hook is not None and new is not old}
    hooks = tuple(
        hook for hook in (instead.get(id(old), None if id(old) in instead else old) for old in config.hooks) if hook
    )
    return replace(config, entries=tuple(new for _, new in changed), hooks=hooks, plan=Plan(hooks))


def _narrowed(config: Config, only: str | list[str] | None) -> Config:
    """Only these hooks, and built-ins that decide nothing: what other rules decide makes no difference then."""
    if only is None:
        return config
    names = {only} if isinstance(only, str) else set(only)
    observe = {"metrics", "turn-tracker", "session-naming", "event-logger"}
    hooks = tuple(one for one in config.hooks if forms(one.name) & names or one.name in observe)
    kept = {one.name for one in hooks}
    hooks = tuple(replace(one, after=tuple(name for name in one.after if name in kept)) for one in hooks)
    entries = tuple(one if forms(one.shown) & names else replace(one, hook=None) for one in config.entries)
    return replace(config, hooks=hooks, entries=entries, plan=Plan(hooks))


def _as_tested(config: Config, suite: Suite, scratch: Scratch) -> Config:
    """Without a log, without hooks that need an approval they don't have, and without URLs."""
    approved = {
        (str(suite.original.place_in(scratch.folder, one.declared.file)), one.shown)
        for one in suite.real.entries
        if one.consent.given and all(map(holds, one.consent.looked_at))
    }

    def tested(entry: Entry) -> Entry:
        declared = entry.declared
        if isinstance(declared.action, Url) and entry.state == "runs":
            return replace(entry, hook=replace(build.absence(declared, _NO_NETWORK), name=entry.shown))
        if not runs_code(declared) or not needs_consent(declared.layer) or entry.state != "runs":
            return entry
        if (declared.file, entry.shown) in approved:
            return entry
        why = "Claude Code runs it itself" if of_claude_code(declared) else NOT_APPROVED
        return replace(entry, state="new", why=why, hook=replace(build.absence(declared, why), name=entry.shown))

    silent = replace(config.builtins["event-logger"], enabled=False)
    return with_entries(replace(config, builtins={**config.builtins, "event-logger": silent}), tested)


class CaseRunner:
    """Runs cases one after the other in one scratch copy. The configuration is loaded once."""

    def __init__(self, suite: Suite, scratch: Scratch) -> None:
        self.suite, self.scratch = suite, scratch
        self.config = self.configured({})
        self._sessions = 0

    def configured(self, instead: Instead) -> Config:
        """The rules as tests run them, with other contents of some files."""
        layers: tuple[Layer, ...] = (*self.suite.layers, "explicit")
        loaded = load_instead(str(self.scratch.project), instead, self.suite.rules, layers=layers)
        return _as_tested(loaded, self.suite, self.scratch)

    def place(self, file: str) -> str:
        """The place of a file with rules: in the copy, unless the user named it."""
        return file if file in self.suite.rules else str(self.suite.original.place_in(self.scratch.folder, file))

    def judge(
        self, case: Case, config: Config | None = None, *, exercised: bool = False, why: bool = True
    ) -> CaseResult:
        """The result of a case under these rules, or under a changed configuration. `why`: explain a failure."""
        config = _narrowed(config or self.config, case.data.get("only"))
        needs = case.data.get("needs")
        if needs and shutil.which(needs) is None:
            return CaseResult(case=case, status="skipped", notes=(f"`{needs}` is not installed",))
        began = time.perf_counter()
        try:
            with self.fired(case, config) as (event, verdict):
                seen = self._exercised(event, verdict, config) if exercised else CaseCoverage()
                effects = [cell_of(one) for one in getattr(event, "effects", ())] if "effects" in case.data else []
                wanted = case.data.get("permission")
                got = permission_of(event, config) if wanted else wanted
        except BillhookError as error:
            return CaseResult(case=case, status="failed", problems=(self.scratch.shown(str(error).partition("\n")[0]),))
        told, lost = as_shown(verdict, case.data.get("agent", ""))
        problems = [*differences(case.data, told, effects, deciders(verdict))]
        if got != wanted:
            problems.append(f"expected the permission rules to decide {wanted}, got {got}")
        waiting = [one.hook for one in verdict.outcomes if one.error == NOT_APPROVED]
        silent = [one.hook for one in verdict.outcomes if one.error == _NO_NETWORK]  # their answers are unknown
        status: CaseStatus = "not approved" if waiting else "passed"
        if not waiting and (problems or (outcome_of(told) == "none" and _may_answer(silent, config))):
            status = "skipped" if silent else "failed"
        notes = [f"`{name}` is {NOT_APPROVED}" for name in waiting]
        notes += [f"`{name}` did not run: {_NO_NETWORK}" for name in silent]
        reasons = self._why(case, config) if why and status == "failed" else ()
        return CaseResult(
            case=case,
            status=status,
            got=self.scratch.shown(_in_words(told)),
            problems=() if waiting else tuple(map(self.scratch.shown, problems)),
            why=tuple(map(self.scratch.shown, reasons)),
            notes=(*notes, *lost),
            seconds=time.perf_counter() - began,
            exercised=seen,
        )

    @contextmanager
    def fired(self, case: Case, config: Config) -> Iterator[tuple[Event, Verdict]]:
        """The call of a case and its verdict, after the earlier calls of its session. Afterwards the copy is as
        before. Raises BillhookError."""
        unchanged = False
        try:
            event = self._event(case.data, self._prepare(case, config))
            verdict = self._fire(event, case, config)
            unchanged = not ({"after", "files"} & case.data.keys() or _ran_code(verdict, config))
            yield event, verdict
        finally:
            self._undo(everything=not unchanged)

    def _fire(self, event: Event, case: Case, config: Config) -> Verdict:
        """The verdict; hooks that answer later have answered."""
        engine = config.engine(host=case.data.get("agent") or "claude", approvals=False)
        verdict = engine.fire_sync(event)
        engine.background.settle(_SECONDS)
        return verdict

    def _prepare(self, case: Case, config: Config) -> str:
        """Write the files of a case, and fire its earlier calls. Returns the session."""
        self._sessions += 1
        session = f"test-{self._sessions}"
        self.scratch.write(case.data.get("files", {}))
        for call in case.data.get("after", ()):
            self._fire(self._event(call, session), case, config)
        return session

    def _event(self, call: Mapping[str, Any], session: str) -> Event:
        base = {"session_id": session, "transcript_path": "", "cwd": str(self.scratch.project)}
        return parse({**base, **strictjson.loads(self.scratch.moved(strictjson.dumps(event_of(call))))})

    def _undo(self, *, everything: bool) -> None:
        self.scratch.forget()
        if everything:
            self.scratch.restore()

    def _why(self, case: Case, config: Config) -> tuple[str, ...]:
        """What `billhook explain` reports about the hook that the case names and those that answer, or about all."""
        try:
            found = explain(config, self._event(case.data, self._prepare(case, config)))
        finally:
            self._undo(everything=True)
        own = [one for one in found.hooks if one.row.layer != "built-in" or not one.silent]
        names = {case.data[key] for key in ("by", "without") if key in case.data}
        if not names:
            return tuple(map(_reason, own[:_MOST_REASONS]))
        named = [one for one in (*own, *found.others) if names & forms(one.row.name)]
        missing = names.difference(*(forms(one.row.name) for one in named))
        answering = [one for one in own if one not in named and one.answer is not None and not one.silent]
        return (*map(_reason, (*named, *answering)), *(f"no hook is called `{name}`" for name in sorted(missing)))

    def _exercised(self, event: Event, verdict: Verdict, config: Config) -> CaseCoverage:
        """Which hooks, cells and permission rules applied to a call, and which did not."""
        skipped = [one for one in verdict.outcomes if one.status is Status.SKIPPED]
        ran = {one.hook for one in verdict.outcomes if one not in skipped}
        ended = {one.hook for one in skipped if one.skipped and one.skipped.by}
        tool, given = getattr(event, "tool_name", ""), getattr(event, "tool_input", None)
        wanting = [one for one in config.entries if one.hook is not None and one.hook.handles(verdict.event)]
        about = {one.shown for one in wanting if _is_about(one.declared, tool)} | ran
        hooks = {one.shown: one.shown in ran for one in wanting if one.shown in about - ended}
        limited = [one.answer.has_content for one in verdict.outcomes if one.hook == RATE_LIMIT]
        hooks |= {RATE_LIMIT: limited[0]} if limited else {}
        if verdict.event != "PreToolUse":
            return CaseCoverage(hooks)
        rules = config.permissions
        struck = {one.shown: one.rule.strikes(tool, given, event.cwd) for one in (*rules.deny, *rules.ask)}
        struck |= {one.shown: one.rule.covers(tool, given, event.cwd) for one in rules.allow}
        struck = {self.scratch.shown(place): hit for place, hit in struck.items()}
        return CaseCoverage(hooks, dict(_cells(event, config)), struck)


def as_shown(verdict: Verdict, agent: str) -> tuple[Verdict, list[str]]:
    """The verdict as an agent understands it, and what it is not told. Without an agent: the verdict itself."""
    if not agent:
        return verdict, []
    dialect = DIALECTS[agent]
    written = encoded(verdict, dialect).written
    answer = dialect.read_exit(verdict.about, written.exit).answer
    told = replace(fold(verdict.about, [Outcome(agent, answer=answer)]), raw_outcomes=verdict.raw_outcomes)
    held = ["context is held for a later event"] if written.held else []
    return told, [f"{agent}: {one}" for one in (*written.lost, *held)]


def _may_answer(names: Iterable[str], config: Config) -> bool:
    """Whether one of these hooks could decide something if it ran."""
    deciding = {one.shown for one in config.entries if not (one.declared.background or one.declared.shadow)}
    return not deciding.isdisjoint(names)


def _ran_code(verdict: Verdict, config: Config) -> bool:
    code = {one.shown for one in config.entries if runs_code(one.declared)}
    return any(one.hook in code and one.status is not Status.SKIPPED for one in verdict.outcomes)


def permission_of(event: Event, config: Config) -> str:
    """What the permission rules of the files decide about a call; `none` if no rule is about it."""
    tool, given = getattr(event, "tool_name", ""), getattr(event, "tool_input", None)
    rules = config.permissions
    if event.hook_event_name != "PreToolUse":
        return "none"
    for kind, some in (("deny", rules.deny), ("ask", rules.ask)):
        if any(one.rule.strikes(tool, given, event.cwd) for one in some):
            return kind
    return "allow" if any(one.rule.covers(tool, given, event.cwd) for one in rules.allow) else "none"


def _in_words(verdict: Verdict) -> str:
    """`deny by push-gate: not on Fridays`."""
    word, strong = outcome_of(verdict), deciders(verdict)
    by = f" by {', '.join(strong)}" if strong else ""
    reason = verdict.reason or verdict.stop_reason or (verdict.context or ("",))[0]
    return f"{word}{by}{f': {reason}' if reason else ''}"


def _reason(one: ExplainedHook) -> str:
    if one.reasons:
        return f"{one.row.name}: skipped, because {one.why}"
    answer = f", and answers {one.answer.decision}" if one.answer is not None else ""
    return f"{one.row.name}: runs{answer}"


def _is_about(declared: HookDeclaration, tool: str) -> bool:
    """Whether one of its rules is about the tool: that `Bash(git push *)` does not apply to a Write tells nothing."""
    rules = () if declared.broken else declared.conditions.rules
    return not rules or any(Rule.parse(text).names(tool) for text in rules)


def _cells(event: Event, config: Config) -> Iterator[tuple[str, str]]:
    """The cells of the guard's table that a call reaches, with the decisions."""
    for hook in config.hooks:
        if isinstance(hook.run, Guard):
            effects = getattr(event, "effects", ())
            yield from ((cell_of(effect), "-") for effect in effects)
            judged = hook.run.judged(effects, event.cwd)
            yield from ((cell_of(one.effect), one.decision) for one in reversed(judged))


def select(cases: Iterable[Case], text: str) -> list[Case]:
    """The cases whose title, fields or line in the file contain these words."""
    wanted = text.lower()
    return [
        one
        for one in cases
        if wanted in f"{one.title} {strictjson.dumps(one.data)} {linecache.getline(one.file, one.line)}".lower()
    ]


# -- a process without network: what it starts from then on reaches only a loopback interface of its own (Linux only)
_NEW_USER: Final = 0x10000000
_NEW_NETWORK: Final = 0x40000000
_SET_FLAGS: Final = 0x8914  # the ioctl SIOCSIFFLAGS
_UP: Final = 1
_NAME_BYTES, _REQUEST_BYTES = 16, 40


def cut_off() -> None:
    """Cut this process off. It must have one thread. Raises OSError; then it may be unusable: `network_refusal` tries
    it first."""
    try:
        _unshare(_NEW_NETWORK)
    except PermissionError:
        _unshare_as_user()
    _start_loopback()


@functools.cache
def network_refusal() -> str:
    """Why this system can't cut a process off; empty if it can. A child process tries it."""
    if sys.platform != "linux":
        return f"{platform.system()} can't cut a process off from the network"
    child = os.fork()
    if child == 0:
        os._exit(_attempt())
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return f"the system refuses a network namespace: {os.strerror(code).lower()}" if code else ""


def _attempt() -> int:
    """The error number; 0 if it worked."""
    try:
        cut_off()
    except OSError as error:
        return error.errno or 1
    return 0


def _unshare(what: int) -> None:
    import ctypes

    if ctypes.CDLL(None, use_errno=True).unshare(what):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _unshare_as_user() -> None:
    """With a new user namespace, in which this process has the same user and group as before."""
    user, group = os.geteuid(), os.getegid()
    _unshare(_NEW_USER | _NEW_NETWORK)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")


def _start_loopback() -> None:
    """Hooks may start a server of their own, as test suites do."""
    import fcntl
    import socket

    request = b"lo".ljust(_NAME_BYTES, b"\0") + _UP.to_bytes(2, sys.byteorder)
    with socket.socket() as channel:
        fcntl.ioctl(channel, _SET_FLAGS, request.ljust(_REQUEST_BYTES, b"\0"))
