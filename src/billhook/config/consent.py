"""Who consented to what: which declared hooks may run, and what changed since they were approved.

What comes with a repository is data until its user approved exactly that content. A gate that was approved and then
changed is worse than one that was never there, because people rely on it: it blocks what it would have judged.
"""

import os
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, ClassVar, Literal

import msgspec

from billhook.answers import Reply, Status
from billhook.config.declared import Declared, needs_consent
from billhook.config.fingerprint import FileMark, Fingerprint, definition, fingerprint, same_content, unchanged
from billhook.config.looking import Look
from billhook.hook import Context
from billhook.store.approvals import Approval, Approvals

Trust = Literal["approved", "all", "none"]
Standing = Literal["own", "approved", "new", "changed"]


class Consent(msgspec.Struct, frozen=True):
    """How one declared hook stands."""

    standing: Standing
    """`own`: from a file of the user's; `new`: never approved; `changed`: approved once, but not like this."""
    fingerprint: Fingerprint | None = None
    before: Approval | None = None
    """What was approved, when it has changed since."""

    @property
    def given(self) -> bool:
        return self.standing in ("own", "approved")


_OWN = Consent("own")


def consents(entries: Sequence[Declared], approvals: Approvals, trust: Trust) -> list[Consent]:
    """How each of the hooks stands, in their order."""
    look = Look()
    prints = [fingerprint(entry, look) if needs_consent(entry.layer) and trust != "all" else None for entry in entries]
    approved = _approved(entries, prints, approvals) if trust == "approved" else set()
    found = [
        _OWN if one is None else Consent("approved" if (entry.file, one.hash) in approved else "new", one)
        for entry, one in zip(entries, prints, strict=True)
    ]
    if trust == "approved":
        _find_changed(entries, found, approvals)
    return found


def _approved(
    entries: Sequence[Declared], prints: Sequence[Fingerprint | None], approvals: Approvals
) -> set[tuple[str, str]]:
    """The files and hashes that are approved; each file's approvals are opened once."""
    hashes: dict[str, list[str]] = defaultdict(list)
    for entry, one in zip(entries, prints, strict=True):
        if one is not None:
            hashes[entry.file].append(one.hash)
    return {(file, one) for file, some in hashes.items() for one in approvals.approved(file, some)}


def _find_changed(entries: Sequence[Declared], found: list[Consent], approvals: Approvals) -> None:
    """Pair hooks that are not approved with what was approved in their place."""
    by_file: dict[str, list[int]] = defaultdict(list)
    for i, consent in enumerate(found):
        if consent.standing == "new":
            by_file[entries[i].file].append(i)
    for file, places in by_file.items():
        known = [one for one in approvals.of_file(file) if one.of_hook]
        in_force = _related(
            {hash_of(one) for one, entry in zip(found, entries, strict=True) if entry.file == file}, known
        )
        gone = [one for one in known if one.hash not in in_force]
        for i in places:
            before = _predecessor(entries[i], gone)
            if before is not None:
                gone.remove(before)
                found[i] = msgspec.structs.replace(found[i], standing="changed", before=before)


def hash_of(consent: Consent) -> str:
    """The hash under which the hook is approved now; nothing when it isn't."""
    return consent.fingerprint.hash if consent.standing == "approved" and consent.fingerprint is not None else ""


def _related(current: Iterable[str], known: Sequence[Approval]) -> set[str]:
    """The approvals in force, and those that they replaced or that replaced them on another branch."""
    related = set(current) - {""}
    size = -1
    while size != len(related):
        size = len(related)
        for one in known:
            if one.hash in related and one.replaces:
                related.add(one.replaces)
            elif one.replaces in related:
                related.add(one.hash)
    return related


def _predecessor(entry: Declared, gone: Sequence[Approval]) -> Approval | None:
    """What was approved in this hook's place: the same name, or, without names, the same event in the same file."""
    if entry.named:
        return next((one for one in gone if one.definition.get("name") == entry.name), None)
    nameless = [one for one in gone if "name" not in one.definition]
    same_event = [one for one in nameless if _share(one.definition.get("events"), entry)]
    alike = [one for one in nameless if one.name == entry.name]
    both = [one for one in alike if one in same_event]
    return next(iter([*both, *same_event, *alike]), None)


def _share(events: Any, entry: Declared) -> bool:
    return not events or not entry.events or not set(events).isdisjoint(entry.events)


def what_changed(declared: Declared, consent: Consent) -> str:
    """What of a hook is not as it was approved, in a few words."""
    before, now = consent.before, consent.fingerprint
    assert before is not None and now is not None
    files = {mark.path: mark.sha256 for mark in now.files}
    differ = [path for path in {**before.files, **files} if before.files.get(path, "") != files.get(path, "")]
    parts = [] if before.definition == definition(declared) else ["its definition"]
    parts += [os.path.relpath(path, declared.folder) for path in differ[:3]]
    return f"{', '.join(parts) or 'it'} {'have' if len(parts) > 1 else 'has'}"


class Consented(msgspec.Struct, frozen=True):
    """A handler whose files are looked at before each call: what changed since it was loaded does not run."""

    run: Callable[[Context], Awaitable[Reply]]
    marks: tuple[FileMark, ...]
    gate: bool
    keeps_time: ClassVar[bool] = True

    async def __call__(self, ctx: Context) -> Reply:
        for mark in self.marks:
            if not unchanged(mark) and not same_content(mark):
                why = f"{mark.path} has changed since it was approved; `billhook trust` shows how"
                return Reply(status=Status.COULD_NOT_START if self.gate else Status.SKIPPED, error=why)
        return await self.run(ctx)
