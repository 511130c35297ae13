"""Consent, given by whoever runs billhook: exactly what was shown is approved, or nothing."""

import os
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Literal

import msgspec

from billhook.config.config import Config, Entry
from billhook.config.fingerprint import approval_of, fingerprint
from billhook.config.loader import load_config
from billhook.config.notices import remember
from billhook.config.permissions import Waiting, approval_of_rules, waiting_now
from billhook.core.errors import BillhookError, UsageError
from billhook.store.approvals import Approval, Approvals
from billhook.store.files import StoreError, state_root


class ChangedError(BillhookError):
    """What was to be approved is no longer what was shown."""


def approve_entry(entry: Entry, root: str | os.PathLike[str], how: str = "") -> Approval:
    """Approve one hook as it was when its hash was first asked for; ChangedError when it, or a file that it names, is
    not the same any more. `how` is announced in the agent: `from a terminal`."""
    now = fingerprint(entry.declared)
    if now.hash != entry.hash:
        raise _changed(f"`{entry.shown}`", entry.declared.place)
    before = entry.consent.before
    return _add(approval_of(entry.declared, now, before.hash if before else ""), root, how)


def approve_rules(waiting: Waiting, root: str | os.PathLike[str], how: str = "") -> Approval:
    """Approve the allow rules of one file as they were loaded; ChangedError when they are not the same any more."""
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
    config: Config = load_config(cwd, home=home, builtins=False)
    waiting: list[Entry | Waiting] = [*config.pending, *config.permissions.pending]
    pending = [one for one in waiting if one.hash == hash]
    if not pending:
        raise UsageError(
            f"no hook that waits for approval in {config.project} has the hash `{hash}`",
            hint="`billhook trust` shows them; for another folder: `approve(hash, cwd=...)`",
        )
    one, how = pending[0], "by a Python program"
    approve_one: Any = approve_entry if isinstance(one, Entry) else approve_rules
    approval: Approval = approve_one(one, config.root, how)
    record_trust("approved", [approval], config)
    return approval


def record_trust(
    action: Literal["approved", "revoked", "acknowledged"],
    approvals: Iterable[Approval],
    config: Config,
    **more: object,
) -> str:
    """Write into the event log what was approved or revoked; why it can't be, nothing when it is there."""
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
