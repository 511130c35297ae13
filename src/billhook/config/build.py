"""Build the hook that an engine runs from its declaration, or the hook that replaces it; and its conditions: `if`,
`effect`, `paths`, `branch`, `when`, `once` and `cooldown`.

Each condition is a frozen record that takes a context and returns whether it is true. `once` and `cooldown` also store
that the hook runs, so they come last.
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace

from billhook.agents import AGENTS
from billhook.config import sources
from billhook.config.builtin_hooks import StandIn
from billhook.config.config import Entry
from billhook.config.declaration import (
    Action,
    Conditions,
    Exec,
    FixedAnswer,
    HookDeclaration,
    Mask,
    PathGlobs,
    Python,
    Rewrite,
    RunAction,
    Url,
)
from billhook.config.trust import ApprovedHook, Consent
from billhook.core import client_env
from billhook.core.answers import Answer, Decision, OnFailure
from billhook.core.dialect_traits import MEANINGS
from billhook.core.errors import RuleError
from billhook.core.events import EVENTS
from billhook.core.hook import Condition, Context, Handler, Hook, Source
from billhook.core.lazy import lazy_module, pattern
from billhook.effects.conditions import AfterEffect, AnyOf, HasEffect, all_of, is_readable
from billhook.effects.effect import Command
from billhook.effects.rules import condition
from billhook.runners.command import CommandRunner, CoveredFiles, command, execute, literal
from billhook.store.approvals import Approval
from billhook.store.state import FileState, Value

if TYPE_CHECKING:
    from billhook.builtins import guard, session_notes
    from billhook.config import actions
    from billhook.core import match
    from billhook.effects import call_patterns, gitstate
    from billhook.store import redaction
else:
    actions = lazy_module("billhook.config.actions")
    match, gitstate = lazy_module("billhook.core.match"), lazy_module("billhook.effects.gitstate")
    call_patterns, redaction = lazy_module("billhook.effects.call_patterns"), lazy_module("billhook.store.redaction")
    session_notes, guard = lazy_module("billhook.builtins.session_notes"), lazy_module("billhook.builtins.guard")


class Limits(msgspec.Struct, frozen=True):
    """Settings for all hooks. Allow-lists of HTTP hooks: each list must allow a URL or variable."""

    urls: tuple[tuple[str, ...], ...] = ()
    header_env: tuple[tuple[str, ...], ...] = ()
    warm: bool = True  # no file of the user has `warm: false`

    def for_url(self, url: str) -> tuple[str, ...] | None:
        """The list that applies to a URL: one that does not allow it, if there is any."""
        from billhook.runners.webhook import address_allowed

        against = (some for some in self.urls if not address_allowed(url, some))
        return next(against, self.urls[-1] if self.urls else None)


def build(declared: HookDeclaration, consent: Consent, limits: Limits, state: FileState) -> Hook:
    """The hook, ready to run."""
    run = _handler(declared, limits, state)
    if isinstance(run, CommandRunner):
        run = replace(run, warm=declared.warm and limits.warm, covered=_covered(declared, consent))
    if consent.loaded is not None and consent.loaded.marks and consent.of is not None:
        # only hooks that run programs name files
        run = ApprovedHook(run, consent.of, consent.loaded, declared.gate)  # type: ignore[arg-type]
    hook = _hook(declared, run, declared.on_failure, state, background=declared.background)
    return replace(hook, shadow=True) if declared.shadow else hook


def _covered(declared: HookDeclaration, consent: Consent) -> CoveredFiles | None:
    """The files of an approval, under their own names and those to which links lead."""
    if consent.loaded is None:
        return None
    files = {path: mark.sha256 for mark in consent.loaded.files for path in (mark.path, mark.target) if mark.sha256}
    return CoveredFiles(declared.folder, tuple(files.items()))


def refusal(declared: HookDeclaration, why: str) -> Hook:
    """Replaces a gate that can't be used: blocks the events that the gate would have judged, and all events if its
    conditions can't be read. Never raises, and waits for no other hook."""
    judged = replace(declared, conditions=_readable(declared.conditions), after=(), timeout=None)
    return _hook(judged, StandIn(why, f"{declared.place} {declared.name}"), "deny")


def refusal_of(before: Approval, now: HookDeclaration, why: str) -> Hook:
    """Replaces a gate that has changed since it was approved: blocks the events that the approved gate would have
    judged. Conditions that the record does not have, or has from another version, are ignored."""
    was = before.definition
    judged = replace(
        now,
        name=before.name,
        events=tuple(was.get("events", ())),
        match=was.get("match"),
        part=was.get("part", ""),
        conditions=_approved_conditions(was),
        dialect=was["dialect"] if was.get("dialect") in MEANINGS else now.dialect,
    )
    return refusal(judged, why)


def absence(declared: HookDeclaration, why: str) -> Hook:
    """Replaces a hook that may not run: it is skipped, with the reason."""
    judged = replace(declared, conditions=_readable(declared.conditions))
    return _hook(judged, StandIn(why, f"{declared.place} {declared.name}", blocks=False), "allow")


GATED = tuple(name for name, kind in EVENTS.items() if kind.gates)  # the events that wait for an answer


def _hook(
    declared: HookDeclaration,
    run: Handler,
    on_failure: OnFailure,
    state: FileState | None = None,
    *,
    background: bool = False,
) -> Hook:
    match, when = _match_and_condition(declared, state)
    return Hook(
        name=declared.name,
        run=run,
        events=declared.events,
        title=declared.title or declared.does,
        match=match,
        condition=when,
        priority=declared.priority,  # type: ignore[arg-type]
        after=declared.after,
        timeout=declared.timeout,
        on_failure=on_failure,
        background=background,
        always=declared.always,
        dialect=declared.dialect,
        source=Source(layer=declared.layer, file=declared.file, line=declared.line),
    )


def _match_and_condition(declared: HookDeclaration, state: FileState | None) -> tuple[str | None, Condition | None]:
    found: list[Condition] = []
    match = declared.match
    if declared.part:
        from billhook.config.entry import Part, tools_of

        match = tools_of(declared.part)
        found.append(Part(declared.part, declared.match or ""))
    return match, all_of([*found, *_conditions_of(declared, state)])


def _handler(declared: HookDeclaration, limits: Limits, state: FileState) -> Handler:
    dialect, folder = declared.dialect, declared.folder
    if declared.part and dialect in AGENTS and AGENTS[dialect].parts:
        dialect = f"{dialect}:{declared.part}"
    match declared.action:
        case RunAction(text, shell, login):
            runner = command(text, dialect=dialect, login=login, shell=shell, cwd=folder)
            if declared.shape != "yaml" or "${" not in text or not actions.used_in(text):
                return runner
            return actions.with_values(runner, *actions.for_shell(text, shell), paths=paths_of(declared))
        case Exec(argv):
            # No shell reads arguments, so the only variable that they may contain is replaced here.
            spelt = "${CLAUDE_PROJECT_DIR}", "$CLAUDE_PROJECT_DIR"
            words = [word.replace(spelt[0], folder).replace(spelt[1], folder) for word in argv]
            runner = execute(words, dialect=dialect, cwd=folder)
            told = declared.shape == "yaml" and any("${" in word and actions.used_in(word) for word in words)
            return replace(runner, fill=actions.EventValues(paths_of(declared))) if told else runner
        case Python(target, interpreter, options):
            from billhook.runners.worker import python

            function = python(target, folder=declared.module_folder, interpreter=interpreter, dialect=dialect)
            return replace(function, options=options, warm=declared.warm and limits.warm)
        case Url(url, headers, allowed_env):
            from billhook.runners.webhook import webhook

            names = [name for name in allowed_env if all(name in some for some in limits.header_env)]
            return webhook(url, headers=headers, allowed_env=names, allowed_urls=limits.for_url(url), dialect=dialect)
        case FixedAnswer("deny" | "ask" | "allow" as decision, text) if "${" not in text:
            return literal(Answer(decision=Decision(decision), reason=text))
        case FixedAnswer() | Rewrite() | Mask():
            return actions.handler(declared, state)
        case _:
            raise AssertionError(f"nothing to build from {declared.action!r}")


def runs(action: Action | None) -> bool:
    """Whether hooks with this action can run."""
    return isinstance(action, RunAction | Exec | Python | Url | FixedAnswer | Rewrite | Mask)


# -- hooks that start at the same time: those that an agent's own settings contain, if that agent would start them so
#
# Such hooks were written for an agent without an order. Hooks with an order of their own (`priority`, `after`), hooks
# that read the results of others, and hooks that rewrite run alone, at their place.


_DEPENDS = pattern(r"\bupdated(?:Input|(?:MCP)?ToolOutput)\b|\bBILLHOOK_RESULTS\b|\$\{results\.")
_MOST_FILES = 20  # files of one command that are searched
_LARGEST = 256 << 10  # bytes of each


def with_waves(entries: Sequence[Entry]) -> list[Entry]:
    """The entries; hooks that start together with their neighbours name the agent that would do so."""
    found = [entry.declared for entry in entries if entry.hook is not None and entry.declared.agent in AGENTS]
    in_order = {(one.agent, event) for one in found if one.sequential for event in one.events}
    seen: set[object] = set()
    marked = list(entries)
    for place, entry in enumerate(entries) if len(found) > 1 else ():
        one = entry.declared
        command = (one.agent, one.action, one.events)
        alone = any((one.agent, event) in in_order for event in one.events) or not _starts_with_others(one)
        if command not in seen and not alone:  # equal commands at the same time may disturb each other
            marked[place] = entry.with_hook(together=one.agent)
        seen.add(command)
    return marked


def _starts_with_others(one: HookDeclaration) -> bool:
    ordered = one.after or one.conditions.when or "priority" in one.places
    together = one.agent in AGENTS and AGENTS[one.agent].parallel and not ordered
    return together and not any(map(_DEPENDS.search, _texts(one)))


def _texts(one: HookDeclaration) -> Iterator[str]:
    words: Sequence[str] = ()
    if isinstance(one.action, RunAction):
        yield one.action.text
        words = one.action.text.replace('"', "").replace("'", "").split()
    elif isinstance(one.action, Exec):
        words = one.action.argv
    paths = (_path(word, one.folder) for word in words if "/" in word or "." in word)
    for path in [path for path in paths if os.path.isfile(path)][:_MOST_FILES]:
        try:
            yield sources.read_bytes(path, _LARGEST).decode("utf-8", "replace")
        except OSError:  # it can't run either
            pass


def _path(word: str, folder: str) -> str:
    for spelt in ("${CLAUDE_PROJECT_DIR}", "$CLAUDE_PROJECT_DIR"):
        word = word.replace(spelt, folder)
    for spelt in ("${HOME}", "$HOME"):
        word = word.replace(spelt, "~")
    return os.path.join(folder, client_env.expanduser(word))


# -- conditions


Tests = tuple[tuple[str, Any], ...]
_TEST_NAMES = "file_exists changed_files runs commit_message prompt has_secret agent permission_mode results.NAME.FIELD"
TESTS: Final = tuple(_TEST_NAMES.split())
GROUPS: Final = ("all", "any", "not")
PERIODS: Final = ("session", "turn", "project")
_RUNS: Final = "runs"  # the kind of record with the hooks that ran in a session or project


def _conditions_of(declared: HookDeclaration, state: FileState | None) -> Iterator[Condition]:
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
        yield Cooldown(f"{declared.name} {declared.file}", wanted.once, wanted.cooldown, folder, state)


def paths_of(declared: HookDeclaration) -> "OnPaths | None":
    """The condition `paths` of a hook, where it has one."""
    paths = declared.conditions.paths
    return OnPaths(paths.read, paths.write, declared.folder) if paths != PathGlobs() else None


def _readable(wanted: Conditions) -> Conditions:
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


def _approved_conditions(was: Mapping[str, Any]) -> Conditions:
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
    for one in commands or [Command("git", cwd=ctx.cwd)]:
        words = call_patterns.words_of(one)
        root = _repository(words.folder)
        if target := _switched_to(words):
            switched[root] = target
        elif not runs or call_patterns.selects_command(runs, one):
            pushed = call_patterns.pushed_branches(words) if words.operands[:1] == ["push"] else [""]
            here = switched.get(root) or (gitstate.current_branch(root) if root else "")
            found |= dict.fromkeys(name or here for name in pushed)
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
                from billhook.config.declaration import in_words, plain_tests

                return f"`when: {name}` is false: {in_words(plain_tests(((name, wanted),))[name])}"
        return ""


def each_test(tests: Tests) -> Iterator[tuple[str, Any]]:
    """The tests, those inside of groups included, each with its expected value."""
    for name, wanted in tests:
        if name in GROUPS:
            for inner in (wanted,) if name == "not" else wanted:
                yield from each_test(inner)
        else:
            yield name, wanted


def _changed_files(when: EventTests, globs: tuple[str, ...] | bool, ctx: Context) -> bool:
    """Whether files changed since the session began; `false`: whether none did."""
    changed = session_notes.changed_files(when.state, ctx.session_id, when.folder)
    if isinstance(globs, bool):
        return bool(changed) is globs
    return any(call_patterns.selects_path(globs, os.path.join(when.folder, name), when.folder) for name in changed)


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


def agent_of(ctx: Context) -> str:
    """The agent that sent the event, by its name in `--host`."""
    return ctx.env.get("BILLHOOK_AGENT", "").removeprefix("http:")


_TESTS: Final[Mapping[str, Callable[[EventTests, Any, Context], bool]]] = {
    "file_exists": lambda when, globs, ctx: any(call_patterns.exists(text, when.folder) for text in globs),
    "changed_files": _changed_files,
    "runs": lambda when, patterns, ctx: any(
        call_patterns.selects_command(patterns, one) for one in getattr(ctx.event, "commands", ())
    ),
    "commit_message": _commit_message,
    "prompt": _prompt,
    "has_secret": _has_secret,
    "agent": lambda when, names, ctx: _selected(names, agent_of(ctx)),
    "permission_mode": lambda when, names, ctx: _selected(names, str(getattr(ctx.event, "permission_mode", "") or "")),
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


class Cooldown(msgspec.Struct, frozen=True):
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
