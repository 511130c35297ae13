"""Consent, given by whoever runs billhook: exactly what was shown is approved, or nothing."""

import os

import msgspec

from billhook.config.fingerprint import approval_of, fingerprint
from billhook.config.loaded import Config, Entry
from billhook.config.loading import load_config
from billhook.config.permitting import Waiting, approval_of_rules, waiting_now
from billhook.errors import BillhookError, UsageError
from billhook.store.approvals import Approval, Approvals
from billhook.store.files import state_root


class ChangedError(BillhookError):
    """What was to be approved is no longer what was shown."""


def approve_entry(entry: Entry, root: str | os.PathLike[str]) -> Approval:
    """Approve one hook as it was loaded; ChangedError when it, or a file that it names, is not the same any more."""
    now = fingerprint(entry.declared)
    if now.hash != entry.hash:
        raise ChangedError(
            f"`{entry.shown}` was changed while it was being looked at",
            place=entry.declared.place,
            hint="look at it again: `billhook trust`",
        )
    before = entry.consent.before
    approval = msgspec.structs.replace(approval_of(entry.declared, now), replaces=before.hash if before else "")
    Approvals(state_root(root)).add(approval)
    return approval


def approve_rules(waiting: Waiting, root: str | os.PathLike[str]) -> Approval:
    """Approve the allow rules of one file as they were loaded; ChangedError when they are not the same any more."""
    if waiting_now(waiting) != waiting.hash:
        raise ChangedError(
            f"{waiting.shown} was changed while it was being looked at",
            place=waiting.file,
            hint="look at it again: `billhook trust`",
        )
    approval = approval_of_rules(waiting)
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
    for entry in config.pending:
        if entry.hash == hash:
            return approve_entry(entry, config.root)
    for waiting in config.permissions.pending:
        if waiting.hash == hash:
            return approve_rules(waiting, config.root)
    raise UsageError(
        f"no hook that waits for approval in {config.project} has the hash `{hash}`",
        hint="`billhook trust` shows them; for another folder: `approve(hash, cwd=...)`",
    )
