"""Build the hook that an engine runs from its declaration, or the hook that replaces it."""

from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from billhook.agents import AGENTS
from billhook.config import conditions
from billhook.config.builtin_hooks import StandIn
from billhook.config.declaration import Action, Declared, Exec, Mask, Python, Rewrite, RunAction, Say, Url
from billhook.config.trust import Consent, Consented
from billhook.core.answers import Answer, Decision, OnFailure
from billhook.core.dialect_traits import MEANINGS
from billhook.core.events import EVENTS
from billhook.core.hook import Condition, Handler, Hook, Source
from billhook.core.lazy import later
from billhook.effects.conditions import all_of
from billhook.runners.command import CommandRunner, CoveredFiles, command, execute, literal
from billhook.store.approvals import Approval
from billhook.store.state import FileState

if TYPE_CHECKING:
    from billhook.config import actions
else:
    actions = later("billhook.config.actions")


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


def build(declared: Declared, consent: Consent, limits: Limits, state: FileState) -> Hook:
    """The hook, ready to run."""
    run = _handler(declared, limits, state)
    if isinstance(run, CommandRunner):
        run = replace(run, warm=declared.warm and limits.warm, covered=_covered(declared, consent))
    if consent.loaded is not None and consent.loaded.marks and consent.of is not None:
        # only hooks that run programs name files
        run = Consented(run, consent.of, consent.loaded, declared.gate)  # type: ignore[arg-type]
    hook = _hook(declared, run, declared.on_failure, state, background=declared.background)
    return replace(hook, shadow=True) if declared.shadow else hook


def _covered(declared: Declared, consent: Consent) -> CoveredFiles | None:
    """The files of an approval, under their own names and those to which links lead."""
    if consent.loaded is None:
        return None
    files = {path: mark.sha256 for mark in consent.loaded.files for path in (mark.path, mark.target) if mark.sha256}
    return CoveredFiles(declared.folder, tuple(files.items()))


def refusal(declared: Declared, why: str) -> Hook:
    """Replaces a gate that can't be used: blocks the events that the gate would have judged, and all events if its
    conditions can't be read. Never raises, and waits for no other hook."""
    judged = replace(declared, conditions=conditions.readable(declared.conditions), after=(), timeout=None)
    return _hook(judged, StandIn(why, f"{declared.place} {declared.name}"), "deny")


def refusal_of(before: Approval, now: Declared, why: str) -> Hook:
    """Replaces a gate that has changed since it was approved: blocks the events that the approved gate would have
    judged. Conditions that the record does not have, or has from another version, are ignored."""
    was = before.definition
    judged = replace(
        now,
        name=before.name,
        events=tuple(was.get("events", ())),
        match=was.get("match"),
        part=was.get("part", ""),
        conditions=conditions.of_approved(was),
        dialect=was["dialect"] if was.get("dialect") in MEANINGS else now.dialect,
    )
    return refusal(judged, why)


def absence(declared: Declared, why: str) -> Hook:
    """Replaces a hook that may not run: it is skipped, with the reason."""
    judged = replace(declared, conditions=conditions.readable(declared.conditions))
    return _hook(judged, StandIn(why, f"{declared.place} {declared.name}", blocks=False), "allow")


GATED = tuple(name for name, kind in EVENTS.items() if kind.gates)  # the events that wait for an answer


def _hook(
    declared: Declared,
    run: Handler,
    on_failure: OnFailure,
    state: FileState | None = None,
    *,
    background: bool = False,
) -> Hook:
    match, when = _conditions(declared, state)
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


def _conditions(declared: Declared, state: FileState | None) -> tuple[str | None, Condition | None]:
    found: list[Condition] = []
    match = declared.match
    if declared.part:
        from billhook.config.entry import Part, tools_of

        match = tools_of(declared.part)
        found.append(Part(declared.part, declared.match or ""))
    return match, all_of([*found, *conditions.made(declared, state)])


def _handler(declared: Declared, limits: Limits, state: FileState) -> Handler:
    dialect, folder = declared.dialect, declared.folder
    if declared.part and dialect in AGENTS and AGENTS[dialect].parts:
        dialect = f"{dialect}:{declared.part}"
    match declared.action:
        case RunAction(text, shell, login):
            runner = command(text, dialect=dialect, login=login, shell=shell, cwd=folder)
            if declared.shape != "yaml" or "${" not in text or not actions.used_in(text):
                return runner
            return actions.with_values(runner, *actions.for_shell(text, shell), paths=conditions.paths_of(declared))
        case Exec(argv):
            # No shell reads arguments, so the only variable that they may contain is replaced here.
            spelt = "${CLAUDE_PROJECT_DIR}", "$CLAUDE_PROJECT_DIR"
            words = [word.replace(spelt[0], folder).replace(spelt[1], folder) for word in argv]
            runner = execute(words, dialect=dialect, cwd=folder)
            told = declared.shape == "yaml" and any("${" in word and actions.used_in(word) for word in words)
            return replace(runner, fill=actions.Fill(conditions.paths_of(declared))) if told else runner
        case Python(target, interpreter, options):
            from billhook.runners.worker import python

            function = python(target, folder=declared.module_folder, interpreter=interpreter, dialect=dialect)
            return replace(function, options=options) if options else function
        case Url(url, headers, allowed_env):
            from billhook.runners.webhook import webhook

            names = [name for name in allowed_env if all(name in some for some in limits.header_env)]
            return webhook(url, headers=headers, allowed_env=names, allowed_urls=limits.for_url(url), dialect=dialect)
        case Say("deny" | "ask" | "allow" as decision, text) if "${" not in text:
            return literal(Answer(decision=Decision(decision), reason=text))
        case Say() | Rewrite() | Mask():
            return actions.handler(declared, state)
        case _:
            raise AssertionError(f"nothing to build from {declared.action!r}")


def runs(action: Action | None) -> bool:
    """Whether hooks with this action can run."""
    return isinstance(action, RunAction | Exec | Python | Url | Say | Rewrite | Mask)
