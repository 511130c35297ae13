"""The conditions that a file can name: `if`, `effect`, `paths`, `branch`, `when`, `once` and `cooldown`.

Each is a frozen record that takes a context and returns whether the condition is true. `once` and `cooldown` also store
that the hook runs, so they come last. `why` explains why a condition is not true, for `billhook explain`.
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from billhook.config.declaration import Conditions, Declared, PathGlobs
from billhook.core.errors import RuleError
from billhook.core.hook import Condition, Context
from billhook.core.lazy import later
from billhook.effects.conditions import AfterEffect, AnyOf, HasEffect, is_readable
from billhook.effects.effect import Command
from billhook.effects.rules import condition
from billhook.store.state import FileState, Value

if TYPE_CHECKING:
    from billhook.builtins import guard, session_notes
    from billhook.core import match
    from billhook.effects import call_patterns, gitstate
    from billhook.store import redaction
else:
    match, gitstate = later("billhook.core.match"), later("billhook.effects.gitstate")
    call_patterns, redaction = later("billhook.effects.call_patterns"), later("billhook.store.redaction")
    session_notes, guard = later("billhook.builtins.session_notes"), later("billhook.builtins.guard")

Tests = tuple[tuple[str, Any], ...]
_TEST_NAMES = "file_exists changed_files runs commit_message prompt has_secret agent permission_mode results.NAME.FIELD"
TESTS: Final = tuple(_TEST_NAMES.split())
GROUPS: Final = ("all", "any", "not")
PERIODS: Final = ("session", "turn", "project")
_RUNS: Final = "runs"  # the kind of record with the hooks that ran in a session or project


def made(declared: Declared, state: FileState | None) -> Iterator[Condition]:
    """The conditions of a hook, the cheapest first and those that store something last. Without a state, those that
    need one are left out."""
    wanted, folder = declared.conditions, declared.folder
    if wanted.rules:
        rules = tuple(map(condition, wanted.rules))
        yield rules[0] if len(rules) == 1 else AnyOf(rules)
    if wanted.branch:
        yield OnBranch(wanted.branch, dict(wanted.when).get("runs", ()))
    if wanted.effects:
        yield HasEffect(wanted.effects)
    if paths := paths_of(declared):
        yield paths
    if wanted.when and state is not None:
        yield EventTests(wanted.when, folder, state)
    if wanted.after_effects:
        yield AfterEffect(wanted.after_effects)
    if (wanted.once or wanted.cooldown) and state is not None:
        yield NotAgain(f"{declared.name} {declared.file}", wanted.once, wanted.cooldown, folder, state)


def paths_of(declared: Declared) -> "OnPaths | None":
    """The condition `paths` of a hook, where it has one."""
    paths = declared.conditions.paths
    return OnPaths(paths.read, paths.write, declared.folder) if paths != PathGlobs() else None


def readable(wanted: Conditions) -> Conditions:
    """The conditions that can be read: without the others a broken gate blocks more, not less."""
    rules = wanted.rules if all(map(_is_rule, wanted.rules)) else ()
    effects, after = ((names if is_readable(names) else ()) for names in (wanted.effects, wanted.after_effects))
    paths = wanted.paths if all((*wanted.paths.read, *wanted.paths.write)) else PathGlobs()
    branch = wanted.branch if all(wanted.branch) else ()
    return Conditions(rules=rules, effects=effects, after_effects=after, paths=paths, branch=branch)


def _is_rule(text: str) -> bool:
    try:
        condition(text)
    except RuleError:
        return False
    return True


def of_approved(was: Mapping[str, Any]) -> Conditions:
    """The conditions that a hook had when it was approved."""
    data = {key: was[key] for key in ("effects", "after_effects", "paths", "branch") if key in was}
    rules, paths = was.get("if") or (), data.get("paths")
    data |= {"if": [rules] if isinstance(rules, str) else rules}
    data |= {"paths": {"read": paths, "write": paths}} if isinstance(paths, list) else {}
    try:
        return msgspec.convert(data, Conditions)
    except msgspec.ValidationError:
        return Conditions()


# -- what a call is about


class OnPaths(msgspec.Struct, frozen=True):
    """True where a call reads or writes one of these files, by a tool or in a shell. Equal when the globs are."""

    read: tuple[str, ...]
    write: tuple[str, ...]
    folder: str

    def __call__(self, ctx: Context) -> bool:
        return next(self.selected(ctx), None) is not None

    def selected(self, ctx: Context) -> Iterator[str]:
        """The files of a call that the globs select."""
        if not self.read and _writes_nothing(ctx):
            return  # most calls: no effects need to be computed
        globs = {"read": self.read, "write": self.write}
        for path, use in call_patterns.used(ctx.event, self.folder):
            if globs[use] and call_patterns.selects_path(globs[use], path, self.folder):
                yield path

    def why(self, ctx: Context) -> str:
        used = list(dict.fromkeys(path for path, _ in call_patterns.used(ctx.event, self.folder)))
        globs = f"`paths: {', '.join(dict.fromkeys((*self.read, *self.write)))}`"
        if not used:
            return f"the call reads or writes no file ({globs})"
        more = f" and {len(used) - 1} more do" if used[1:] else " does"
        return f"`{used[0]}`{more} not match {globs}"


def _writes_nothing(ctx: Context) -> bool:
    event = ctx.event
    return guard.harmless(getattr(event, "tool_name", None) or "", getattr(event, "tool_input", None))


class OnBranch(msgspec.Struct, frozen=True):
    """True where the branch that is checked out, there where a command runs, has one of these names."""

    names: tuple[str, ...]
    runs: tuple[str, ...] = ()  # of the commands that `when: {runs: ...}` names, where it does

    def __call__(self, ctx: Context) -> bool:
        return any(branch == "*" or _selected(self.names, branch) for branch in branches(ctx, self.runs))

    def why(self, ctx: Context) -> str:
        found = ", ".join(f"`{branch}`" for branch in branches(ctx, self.runs)) or "none"
        return f"branch {', '.join(self.names)}: the branch is {found}"


def branches(ctx: Context, runs: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The branches that git commands of a call work on: `git -C`, `cd` and `git switch` before them count, and a push
    works on the branch that it pushes to; `*` is every branch. Of other events and calls, the branch that is checked
    out in the event's folder."""
    found: dict[str, None] = {}
    switched: dict[str, str] = {}
    commands = [command for command in getattr(ctx.event, "commands", ()) if command.name == "git"]
    for command in commands or [Command("git", cwd=ctx.cwd)]:
        words = call_patterns.words_of(command)
        root = _repository(words.folder)
        if target := _switched_to(words):
            switched[root] = target
        elif not runs or call_patterns.selects_command(runs, command):
            pushed = call_patterns.pushed_branches(words) if words.operands[:1] == ["push"] else [""]
            here = switched.get(root) or (gitstate.current_branch(root) if root else "")
            found |= dict.fromkeys(one or here for one in pushed)
    return tuple(filter(None, found))


def _repository(folder: str) -> str:
    """The repository that a folder is in, "" where it is not known."""
    known = folder.startswith("/") and "\0" not in folder
    root = gitstate.repository(folder) if known else None
    return root[0] if root is not None else ""


def _switched_to(words: "call_patterns.CommandWords") -> str:
    """The branch that `git switch x` or `git checkout -b x` changes to; `git checkout FILE` changes to none."""
    verb, target, *more = (*words.operands, "", "")
    makes = words.options.has("-b", "-B", "-c", "-C", "--create", "--orphan")
    if verb == "switch" or (verb == "checkout" and makes):
        return target
    is_file = any(more) or os.path.lexists(os.path.join(words.folder, target))
    return target if verb == "checkout" and not is_file else ""


def _selected(globs: Iterable[str], name: str) -> bool:
    """Whether the last glob that matches a name is one without `!`. If all have one, other names are selected."""
    from billhook.effects.rules import glob

    globs = tuple(globs)
    chosen = all(text.startswith("!") for text in globs)
    for text in globs:
        if glob(text.removeprefix("!")).matches(name):
            chosen = not text.startswith("!")
    return chosen


# -- `when`


class EventTests(msgspec.Struct, frozen=True):
    """Tests of the event, the project and earlier results: all of them must be true."""

    tests: Tests
    folder: str
    state: FileState

    def __call__(self, ctx: Context) -> bool:
        return all(self.holds(name, wanted, ctx) for name, wanted in self.tests)

    def holds(self, name: str, wanted: Any, ctx: Context) -> bool:
        if name in GROUPS:
            return self._group(name, wanted, ctx)
        if name.startswith("results."):
            return _is_result(name, wanted, ctx)
        return _TESTS[name](self, wanted, ctx)

    def _group(self, name: str, wanted: Any, ctx: Context) -> bool:
        if name == "not":
            return not self._with(wanted)(ctx)
        inner = (self._with(one)(ctx) for one in wanted)
        return all(inner) if name == "all" else any(inner)

    def _with(self, tests: Tests) -> "EventTests":
        return msgspec.structs.replace(self, tests=tests)

    def why(self, ctx: Context) -> str:
        for name, wanted in self.tests:
            if not self.holds(name, wanted, ctx):
                from billhook.config.declaration import plain_tests

                test = msgspec.json.encode(plain_tests(((name, wanted),))).decode()
                return f"when {test} is not true here"
        return ""


def _file_exists(when: EventTests, globs: tuple[str, ...], ctx: Context) -> bool:
    return any(call_patterns.exists(text, when.folder) for text in globs)


def _changed_files(when: EventTests, globs: tuple[str, ...] | bool, ctx: Context) -> bool:
    """Whether files changed since the session began; `false`: whether none did."""
    changed = session_notes.changed_files(when.state, ctx.session_id, when.folder)
    if isinstance(globs, bool):
        return bool(changed) is globs
    return any(call_patterns.selects_path(globs, os.path.join(when.folder, name), when.folder) for name in changed)


def _runs(when: EventTests, patterns: tuple[str, ...], ctx: Context) -> bool:
    return any(call_patterns.selects_command(patterns, command) for command in getattr(ctx.event, "commands", ()))


def _commit_message(when: EventTests, patterns: tuple[str, ...], ctx: Context) -> bool:
    """Whether a commit has a message that matches; after `!`, one that does not."""
    found = map(call_patterns.commit_message, getattr(ctx.event, "commands", ()))
    texts = [text for text in found if text is not None]
    return any((match.expression(one.removeprefix("!")).search(text) is None) is one.startswith("!")
               for one in patterns for text in texts)  # fmt: skip


def _prompt(when: EventTests, patterns: tuple[str, ...], ctx: Context) -> bool:
    text = getattr(ctx.event, "prompt", None)
    return isinstance(text, str) and any(match.expression(one).search(text) for one in patterns)


def _has_secret(when: EventTests, wanted: bool, ctx: Context) -> bool:
    """Whether the prompt, the tool's input or its output contains something that the event log would redact."""
    told = [getattr(ctx.event, field, None) for field in ("prompt", "tool_input", "tool_response")]
    return (redaction.redactor(when.state.root).redacted(told).texts > 0) is wanted


def _agent(when: EventTests, names: tuple[str, ...], ctx: Context) -> bool:
    return _selected(names, agent_of(ctx))


def agent_of(ctx: Context) -> str:
    """The agent that sent the event, by its name in `--host`."""
    return ctx.env.get("BILLHOOK_AGENT", "").removeprefix("http:")


def _permission_mode(when: EventTests, names: tuple[str, ...], ctx: Context) -> bool:
    return _selected(names, str(getattr(ctx.event, "permission_mode", "") or ""))


_TESTS: Final[Mapping[str, Callable[[EventTests, Any, Context], bool]]] = {
    "file_exists": _file_exists,
    "changed_files": _changed_files,
    "runs": _runs,
    "commit_message": _commit_message,
    "prompt": _prompt,
    "has_secret": _has_secret,
    "agent": _agent,
    "permission_mode": _permission_mode,
}


def _is_result(name: str, wanted: tuple[Any, ...], ctx: Context) -> bool:
    value = result(name, ctx)
    return any(bool(value) is one if isinstance(one, bool) else value == one for one in wanted)


def result(name: str, ctx: Context) -> Any:
    """`results.NAME.data.x`: a result of an earlier hook of this event; None if there is no such result."""
    _, hook, *path = name.split(".")
    outcome = ctx.find(hook)
    value: Any = None if outcome is None else outcome.to_dict()
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


# -- how often


class NotAgain(msgspec.Struct, frozen=True):
    """True the first time in a session, turn or project, and when the last time is long enough ago; notes the time."""

    hook: str
    once: str
    cooldown: float
    folder: str
    state: FileState
    clock: Callable[[], float] = time.time

    def __call__(self, ctx: Context) -> bool:
        free: list[bool] = []

        def change(record: Value | None) -> Value | None:
            turn = _turn(record, ctx)
            free.append(self._is_free((record or {}).get(self.hook), turn))
            return {**(record or {}), self.hook: {"at": self.clock(), "turn": turn}} if free[0] else None

        self.state.update(_RUNS, self._key(ctx), change)
        return free[0]

    def why(self, ctx: Context) -> str:
        """Why it would not run; "" where it would. Notes nothing."""
        record = self.state.read(_RUNS, self._key(ctx)) or {}
        last, turn = record.get(self.hook), _turn(record, ctx)
        if self._is_free(last, turn):
            return ""
        ran = self._ran(last, turn)
        return f"it ran in this {self.once} before" if ran else f"it ran less than {self.cooldown:g} s ago"

    def _key(self, ctx: Context) -> str:
        if self.once == "project" or not self.once:
            return f"project {self.folder}"
        if not ctx.session_id:
            raise LookupError("the event has no session, so it is unknown whether the hook ran before")
        return ctx.session_id

    def _is_free(self, last: Any, turn: str) -> bool:
        if not isinstance(last, dict):
            return True
        return not self._ran(last, turn) and not 0 <= self.clock() - float(last.get("at", 0)) < self.cooldown

    def _ran(self, last: Any, turn: str) -> bool:
        return bool(self.once) and (self.once != "turn" or last.get("turn") == turn)


def _turn(record: Value | None, ctx: Context) -> str:
    """A turn ends when the agent stops, and at the next prompt where a person interrupted it."""
    return f"{ctx.turn_id} {session_notes.prompts_in(record)}"
