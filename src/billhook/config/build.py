"""From what a file declares to a hook that an engine runs, or to what takes its place."""

import msgspec
from msgspec.structs import replace

from billhook.agents import AGENTS
from billhook.config.builtin_hooks import StandIn
from billhook.config.declaration import Action, Declared, Exec, Python, RunAction, Say, Url
from billhook.config.trust import Consent, Consented
from billhook.core.answers import Answer, Decision, OnFailure
from billhook.core.dialect_traits import MEANINGS
from billhook.core.errors import RuleError
from billhook.core.events import EVENTS
from billhook.core.hook import Condition, Handler, Hook, Source
from billhook.effects.conditions import AfterEffect, HasEffect, all_of, is_readable
from billhook.effects.rules import condition
from billhook.runners.command import command, execute, literal
from billhook.store.approvals import Approval


class Limits(msgspec.Struct, frozen=True):
    """What all HTTP hooks may do: each of these lists has to agree."""

    urls: tuple[tuple[str, ...], ...] = ()
    header_env: tuple[tuple[str, ...], ...] = ()

    def for_url(self, url: str) -> tuple[str, ...] | None:
        """The list that decides about an address: one that doesn't name it, if there is any."""
        from billhook.runners.webhook import address_allowed

        against = (some for some in self.urls if not address_allowed(url, some))
        return next(against, self.urls[-1] if self.urls else None)


def build(declared: Declared, consent: Consent, limits: Limits) -> Hook:
    """The hook, ready to run."""
    run = _handler(declared, limits)
    if consent.loaded is not None and consent.loaded.marks and consent.of is not None:
        # only what runs programs names files
        run = Consented(run, consent.of, consent.loaded, declared.gate)  # type: ignore[arg-type]
    return _hook(declared, run, declared.on_failure, background=declared.background)


def refusal(declared: Declared, why: str) -> Hook:
    """What stands in for a gate that can't be used: it blocks what the gate would have judged, and everything where
    that can't be told. Never raises, and waits for no other hook."""
    judged = replace(
        declared,
        when=_readable_rule(declared.when),
        effects=_readable_effects(declared.effects),
        after_effects=_readable_effects(declared.after_effects),
        after=(),
        timeout=None,
    )
    return _hook(judged, StandIn(why, f"{declared.place} {declared.name}"), "deny")


def refusal_of(before: Approval, now: Declared, why: str) -> Hook:
    """What stands in for a gate that has changed since it was approved: it blocks what *that* would have judged. What
    the record doesn't have, or has from another version, narrows nothing."""
    was = before.definition
    judged = replace(
        now,
        name=before.name,
        events=tuple(was.get("events", ())),
        match=was.get("match"),
        part=was.get("part", ""),
        when=was.get("if", ""),
        effects=tuple(was.get("effects", ())),
        after_effects=tuple(was.get("after_effects", ())),
        dialect=was["dialect"] if was.get("dialect") in MEANINGS else now.dialect,
    )
    return refusal(judged, why)


def absence(declared: Declared, why: str) -> Hook:
    """What stands in for a hook that may not run: it does nothing, and says why."""
    return _hook(declared, StandIn(why, f"{declared.place} {declared.name}", blocks=False), "allow")


GATED = tuple(name for name, kind in EVENTS.items() if kind.gates)  # the events that wait for an answer


def _hook(declared: Declared, run: Handler, on_failure: OnFailure, *, background: bool = False) -> Hook:
    match, when = _conditions(declared)
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


def _conditions(declared: Declared) -> tuple[str | None, Condition | None]:
    found: list[Condition] = []
    match = declared.match
    if declared.part:
        from billhook.config.entry import Part, tools_of

        match = tools_of(declared.part)
        found.append(Part(declared.part, declared.match or ""))
    found += [condition(declared.when)] if declared.when else []
    found += [HasEffect(declared.effects)] if declared.effects else []
    found += [AfterEffect(declared.after_effects)] if declared.after_effects else []
    return match, all_of(found)


def _readable_rule(when: str) -> str:
    """The rule of `if`; nothing, which is everything, where it can't be read."""
    try:
        condition(when)
    except RuleError:
        return ""
    return when


def _readable_effects(wanted: tuple[str, ...]) -> tuple[str, ...]:
    """The effects of `effect`; none, which is every call, where one of them can't be read."""
    return wanted if is_readable(wanted) else ()


def _handler(declared: Declared, limits: Limits) -> Handler:
    dialect, folder = declared.dialect, declared.folder
    if declared.part and dialect in AGENTS and AGENTS[dialect].parts:
        dialect = f"{dialect}:{declared.part}"
    match declared.action:
        case RunAction(text, shell, login):
            return command(text, dialect=dialect, login=login, shell=shell, cwd=folder)
        case Exec(argv):
            # Arguments are no shell's text: the one variable that they may hold is put in here.
            spelt = "${CLAUDE_PROJECT_DIR}", "$CLAUDE_PROJECT_DIR"
            words = [word.replace(spelt[0], folder).replace(spelt[1], folder) for word in argv]
            return execute(words, dialect=dialect, cwd=folder)
        case Python(target, interpreter):
            from billhook.runners.worker import python

            return python(target, folder=declared.module_folder, interpreter=interpreter, dialect=dialect)
        case Url(url, headers, allowed_env):
            from billhook.runners.webhook import webhook

            names = [name for name in allowed_env if all(name in some for some in limits.header_env)]
            return webhook(url, headers=headers, allowed_env=names, allowed_urls=limits.for_url(url), dialect=dialect)
        case Say(decision, text):
            inject = decision == "inject"
            return literal(Answer(context=text) if inject else Answer(decision=Decision(decision), reason=text))
        case _:
            raise AssertionError(f"nothing to build from {declared.action!r}")


def runs(action: Action | None) -> bool:
    """Whether there is something that can be asked."""
    return isinstance(action, RunAction | Exec | Python | Url | Say)
