"""Who consented to what: which declared hooks may run, and what changed since they were approved.

What comes with a repository is data until its user approved exactly that content. A gate that was approved and then
changed is worse than one that was never there, because people rely on it: it blocks what it would have judged.
"""

import functools
import os
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar, Literal

import msgspec

from billhook.config.declaration import Declared, needs_consent
from billhook.config.fingerprint import (
    COVERS,
    FileMark,
    Fingerprint,
    approval_of,
    definition,
    fingerprint,
    holds,
    same_content,
)
from billhook.config.sources import FileSnapshot
from billhook.core.answers import Reply, Status
from billhook.core.errors import BillhookError, UsageError
from billhook.core.hook import Context
from billhook.store.approvals import Approval, Approvals
from billhook.store.files import StoreError, state_root

if TYPE_CHECKING:
    from billhook.config.config import Config, Entry
    from billhook.config.permissions import Waiting

Trust = Literal["approved", "all", "none"]
Standing = Literal["own", "approved", "new", "changed"]


class Consent(msgspec.Struct, frozen=True, dict=True):
    """How one declared hook stands."""

    standing: Standing
    """`own`: from a file of the user's; `new`: never approved; `changed`: approved once, but not like this."""
    loaded: Fingerprint | None = None
    """The hook and its files when it was loaded; None where nothing of that definition was ever approved."""
    before: Approval | None = None  # what was approved, when it has changed since
    of: Declared | None = None  # the hook, where it needs consent
    look: FileSnapshot | None = None  # what the hooks of one load share when their files are looked at after all

    @property
    def given(self) -> bool:
        return self.standing in ("own", "approved")

    @functools.cached_property
    def fingerprint(self) -> Fingerprint | None:
        """What an approval would be about; None where none is needed. Looks at the hook's files, which takes time."""
        return self.loaded if self.loaded is not None or self.of is None else fingerprint(self.of, self.look)

    @property
    def looked_at(self) -> tuple[FileMark, ...]:
        """The files as far as they were looked at: what is known of this hook is true while they are the same."""
        print_ = self.loaded or self.__dict__.get("fingerprint")
        return () if print_ is None else print_.marks


_OWN = Consent("own")


def consents(entries: Sequence[Declared], approvals: Approvals, trust: Trust) -> list[Consent]:
    """How each of the hooks stands, in their order. Files are looked at only for definitions that were approved once:
    what a clone brings must not delay anything."""
    if trust == "all":
        return [_OWN for _ in entries]
    look, later = FileSnapshot(), FileSnapshot()
    files = {entry.file for entry in entries if needs_consent(entry.layer)}
    known = {file: approvals.of_file(file) if trust == "approved" else [] for file in files}
    found = [
        _consent(entry, known[entry.file], look, later) if needs_consent(entry.layer) else _OWN for entry in entries
    ]
    _find_changed(entries, found, known)
    return found


def _consent(entry: Declared, known: Sequence[Approval], look: FileSnapshot, later: FileSnapshot) -> Consent:
    now = definition(entry)
    if not any(one.definition == now for one in known):
        return Consent("new", of=entry, look=later)
    loaded = fingerprint(entry, look)
    return Consent("approved" if any(one.hash == loaded.hash for one in known) else "new", loaded, of=entry)


def _find_changed(
    entries: Sequence[Declared], found: list[Consent], approvals: Mapping[str, Sequence[Approval]]
) -> None:
    by_file: dict[str, list[int]] = defaultdict(list)
    for i, consent in enumerate(found):
        if consent.standing == "new":
            by_file[entries[i].file].append(i)
    for file, places in by_file.items():
        known = [one for one in approvals[file] if one.of_hook]
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
    return consent.loaded.hash if consent.standing == "approved" and consent.loaded is not None else ""


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
    events = [(one, one.definition.get("events")) for one in nameless]
    same_event = [one for one, some in events if not some or not entry.events or set(some) & set(entry.events)]
    alike = [one for one in nameless if one.name == entry.name]
    both = [one for one in alike if one in same_event]
    return next(iter([*both, *same_event, *alike]), None)


def what_changed(declared: Declared, consent: Consent) -> str:
    """What of a hook is not as it was approved, in a few words."""
    before = consent.before
    assert before is not None
    approved = before.covered
    files = approved if consent.loaded is None else {mark.path: mark.sha256 for mark in consent.loaded.files}
    differ = [path for path in {**approved, **files} if approved.get(path, "") != files.get(path, "")]
    same = before.definition == definition(declared)
    if same and differ and before.covers < COVERS and not [path for path in differ if path in approved]:
        return f"approvals now cover more files ({len(differ)} of this hook); nothing else has"
    parts = [] if same else ["its definition"]
    parts += [os.path.relpath(path, declared.folder) for path in differ[:3]]
    return f"{', '.join(parts) or 'it'} {'have' if len(parts) > 1 else 'has'}"


class Consented(msgspec.Struct, frozen=True):
    """A handler whose files are looked at before each call: what changed since it was loaded does not run."""

    run: Callable[[Context], Awaitable[Reply]]
    declared: Declared
    fingerprint: Fingerprint
    gate: bool
    keeps_time: ClassVar[bool] = True

    async def __call__(self, ctx: Context) -> Reply:
        for mark in self.fingerprint.marks:
            if not holds(mark) and not same_content(mark) and not self._is_the_same(mark):
                why = f"{mark.path} has changed since it was approved; `billhook trust` shows how"
                return Reply(status=Status.COULD_NOT_START if self.gate else Status.SKIPPED, error=why)
        return await self.run(ctx)

    def _is_the_same(self, mark: FileMark) -> bool:
        """Whether what came into a folder changes nothing: a hook may write beside itself while others wait."""
        return mark.kind != "file" and fingerprint(self.declared).hash == self.fingerprint.hash


# Approval by the user: exactly what was shown, or nothing.


class ChangedError(BillhookError):
    """What was to be approved is no longer what was shown."""


def approve_entry(entry: "Entry", root: str | os.PathLike[str], how: str = "") -> Approval:
    """Approve one hook as it was when its hash was first asked for; ChangedError when it, or a file that it names, is
    not the same any more. `how` is announced in the agent: `from a terminal`."""
    now = fingerprint(entry.declared)
    if now.hash != entry.hash:
        raise _changed(f"`{entry.shown}`", entry.declared.place)
    before = entry.consent.before
    return _add(approval_of(entry.declared, now, before.hash if before else ""), root, how)


def approve_rules(waiting: "Waiting", root: str | os.PathLike[str], how: str = "") -> Approval:
    """Approve the allow rules of one file as they were loaded; ChangedError when they are not the same any more."""
    from billhook.config.permissions import approval_of_rules, waiting_now

    if waiting_now(waiting) != waiting.hash:
        raise _changed(waiting.shown, waiting.file)
    return _add(approval_of_rules(waiting), root, how)


def _changed(what: str, place: str) -> ChangedError:
    hint = "look at it again: `billhook trust`"
    return ChangedError(f"{what} was changed while it was being looked at", place=place, hint=hint)


def _add(approval: Approval, root: str | os.PathLike[str], how: str) -> Approval:
    approval = msgspec.structs.replace(approval, how=how)
    Approvals(state_root(root)).add(approval)
    return approval


def approve(
    hash: str,  # noqa: A002 (the word that everything else has for it)
    *,
    cwd: str | os.PathLike[str] | None = None,
    home: str | os.PathLike[str] | None = None,
) -> Approval:
    """Approve the pending hook with this hash in a folder, or the allow rules of a file; `load_config(cwd).pending` and
    `.permissions.pending` list them."""
    from billhook.config.loader import load_config

    config = load_config(cwd, home=home, builtins=False)
    entry = next((one for one in config.pending if one.hash == hash), None)
    rules = next((one for one in config.permissions.pending if one.hash == hash), None)
    how = "by a Python program"
    if entry is not None:
        approval = approve_entry(entry, config.root, how)
    elif rules is not None:
        approval = approve_rules(rules, config.root, how)
    else:
        raise UsageError(
            f"no hook that waits for approval in {config.project} has the hash `{hash}`",
            hint="`billhook trust` shows them; for another folder: `approve(hash, cwd=...)`",
        )
    record_trust("approved", [approval], config)
    return approval


def record_trust(
    action: Literal["approved", "revoked", "acknowledged"],
    approvals: Iterable[Approval],
    config: "Config",
    **more: object,
) -> str:
    """Write into the event log what was approved or revoked; why it can't be, nothing when it is there."""
    from billhook.config.loader import load_config
    from billhook.config.notices import remember
    from billhook.core.answers import Verdict
    from billhook.core.errors import UnrecordedError
    from billhook.core.events import parse

    hooks = [{"name": one.name, "file": one.file, "hash": one.hash, "how": one.how} for one in approvals]
    loaded = load_config(config.folder or config.project, home=config.root)
    with suppress(StoreError):  # the log tells of state that can't be written
        remember(loaded)
    recording = loaded.recording
    if recording is None or not (hooks or more):
        return ""
    about = {"hook_event_name": TRUST, "session_id": "", "cwd": config.folder, "action": action, "hooks": hooks, **more}
    try:
        recording.observer("trust")(Verdict(parse(about)))
    except UnrecordedError as error:
        return error.message
    return ""


TRUST = "Trust"  # the event that the log has for an approval
