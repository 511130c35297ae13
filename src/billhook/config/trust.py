"""What is approved: a hash over a hook's definition and the contents of the files that determine what it runs.

Missing files and folders in which more files may appear are not part of the hash, but they have marks. As soon as such
a file appears it is part of the hash, and the hash differs.
"""

import functools
import itertools
import os
import stat
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import msgspec

from billhook.config import sources
from billhook.config.declaration import Action, HookDeclaration, Python, needs_consent
from billhook.config.sources import MAX_CACHED, FileSnapshot, Identity, stat_identity
from billhook.core.answers import Outcome, Reply, Status
from billhook.core.errors import BillhookError, UsageError
from billhook.core.hook import Context
from billhook.core.lazy import lazy_module
from billhook.store.approvals import Approval, Approvals
from billhook.store.files import StoreError, state_root

if TYPE_CHECKING:
    import json

    from billhook.config import approval_scope
    from billhook.config.approval_scope import Kind
    from billhook.config.config import Config, Entry
    from billhook.config.permissions import PendingRules
else:
    json = lazy_module("json")
    approval_scope = lazy_module("billhook.config.approval_scope")


MAX_FILE = 256 << 20  # longer files are identified by their size and times alone
MAX_TEXT = 64 << 10
MAX_ALL_TEXT = 256 << 10
_CACHED = 4096
_SYSTEM = ("/bin/", "/sbin/", "/usr/", "/lib", "/opt/", "/nix/", "/etc/")


COVERS = 2  # Which files an approval covers. 1: the named files; 2: also the code files in the folders of the scripts.


class FileMark(msgspec.Struct, frozen=True):
    """One file or folder as it was found. Without `identity` it did not exist."""

    path: str
    sha256: str  # empty: missing, unreadable or not a file
    identity: tuple[int, ...] = ()  # device, inode, size, mtime and ctime; of a link: those of its target
    target: str = ""  # its real path
    kind: Literal["file", "code", "all", "plain"] = "file"
    """`code` and `all`: a folder, and which of its names matter; `sha256` is the hash of these names.
    `plain`: a file that is not covered as long as it is not code."""


class Fingerprint(msgspec.Struct, frozen=True):
    """A hook and its files at one moment."""

    hash: str
    files: tuple[FileMark, ...] = ()  # all covered files, the named ones first
    others: tuple[FileMark, ...] = ()
    """Folders in which more files may appear, and files that may become code. Not part of the hash."""
    trees: dict[str, int] = {}  # by folder: how many of the files are covered because they are in it
    uncovered: tuple[str, ...] = ()  # what the hook may run and the hash does not cover, each with the reason

    @property
    def marks(self) -> tuple[FileMark, ...]:
        """Everything that must be unchanged."""
        return (*self.files, *self.others)

    @property
    def named(self) -> tuple[FileMark, ...]:
        """The files that are covered because the hook names them."""
        return self.files[: len(self.files) - sum(self.trees.values())]


def definition(declared: HookDeclaration) -> dict[str, Any]:
    """Everything that determines what a hook does, in one spelling, as JSON; without its line in the file."""
    return {
        "file": declared.file,
        **({"name": declared.name} if declared.named else {}),
        "does": _does(declared.action),
        "events": sorted(set(declared.events)),
        "match": declared.match,
        **({"part": declared.part} if declared.part else {}),
        "if": "",
        **_plain(_in_one_order(declared.conditions.as_data())),
        "priority": _number(declared.priority),
        "after": sorted(set(declared.after)),
        "timeout": _number(declared.timeout),
        "on_failure": declared.on_failure,
        "background": declared.background,
        "dialect": declared.dialect,
        **({"always": True} if declared.always else {}),
        **({"shadow": True} if declared.shadow else {}),
        **({} if declared.warm else {"warm": False}),
        **({"approve": "queue"} if declared.approve else {}),
        **({} if declared.enabled else {"enabled": False}),
    }


def fingerprint(declared: HookDeclaration, look: FileSnapshot | None = None) -> Fingerprint:
    """The hook as it is now. Equal hashes mean the same definition and contents. Hooks of one load share a `look`."""
    from billhook.config.referenced_files import named  # not needed if nothing changed

    look = look or FileSnapshot()
    folder = os.path.abspath(declared.folder)
    real = look.real(folder)
    inside = real.rstrip("/") + "/"
    found = named(declared.action, folder, look)
    files = (*found.files, *itertools.chain.from_iterable(found.trees.values()))
    for path in files:
        if (path, inside) not in look.marks:
            look.marks[path, inside] = _mark(path, inside, look)
    marks = tuple(look.marks[path, inside] for path in files)
    present = sorted(_covered(mark, folder, real) for mark in marks if mark.identity)
    covered = json.dumps({"version": 1, "definition": definition(declared), "files": present}, sort_keys=True)
    others = (
        *(_folder_mark(path, kind, look) for path, kind in found.watched.items()),
        *(FileMark(path, "", stat_identity(look.state(path)), kind="plain") for path in found.plain),
    )
    trees = {path: len(some) for path, some in found.trees.items()}
    return Fingerprint(_sha256(covered.encode("ascii")), marks, others, trees, found.uncovered)


def unchanged(mark: FileMark) -> bool:
    """Whether the file is still the marked one, by one `stat`. If False, its content must be compared."""
    return stat_identity(sources.state(mark.path)) == mark.identity


def holds(mark: FileMark) -> bool:
    """As `unchanged`, but compares the content of what hooks change by writing beside themselves: folders, and files
    that are not covered."""
    return unchanged(mark) or (mark.kind != "file" and same_content(mark))


def same_content(mark: FileMark) -> bool:
    """Whether the file has the same content as when it was marked, and a link the same target. Reads the file."""
    if mark.kind in ("code", "all"):
        return _names(mark.path, mark.kind, FileSnapshot()) == mark.sha256
    if mark.kind == "plain":
        return not approval_scope.counts(mark.path, sources.state(mark.path))
    by_target = bool(mark.target) and mark.sha256 == _by_target(mark.target)
    now = _mark(mark.path, "" if by_target else "/", FileSnapshot())
    if mark.identity and not mark.sha256:
        return now.identity == mark.identity  # it can't be read, so there is no content to compare
    return (now.sha256, now.target, not now.identity) == (mark.sha256, mark.target, not mark.identity)


def approval_of(declared: HookDeclaration, fp: Fingerprint, replaces: str = "") -> Approval:
    """The record that approves exactly this. The contents of its files are stored to show changes later. `replaces` is
    the hash of the approval that it replaces."""
    from datetime import UTC, datetime

    return Approval(
        hash=fp.hash,
        file=declared.file,
        name=declared.name,
        definition=definition(declared),
        gate=declared.gate,
        files={mark.path: mark.sha256 for mark in fp.named},
        beside={mark.path: mark.sha256 for mark in fp.files[len(fp.named) :]},
        links=_links(fp),
        contents=_texts(fp),
        replaces=replaces,
        covers=COVERS,
        approved_at=datetime.now(UTC).isoformat(timespec="microseconds"),
    )


def changes(old: Approval, declared: HookDeclaration, fp: Fingerprint) -> list[str]:
    """The difference between the approved state and the current one, as the lines of a unified diff."""
    lines = list(_changed_keys(old.definition, definition(declared)))
    texts = _texts(fp)
    now = {mark.path: mark.sha256 for mark in fp.files}
    links = _links(fp)
    approved = old.covered
    for path in dict.fromkeys((*approved, *now)):
        before, after = approved.get(path, ""), now.get(path, "")
        if before and after and old.links.get(path, path) != links.get(path, path):
            lines.append(f"{path} now leads to {links.get(path, path)}")
        if before != after:
            lines += _file_changes(path, bool(before), bool(after), old.contents.get(path), texts.get(path))
    return lines


def _file_changes(path: str, before: bool, after: bool, old: str | None, new: str | None) -> list[str]:
    if not after:
        return [f"{path} is gone"]
    if not before:
        return [f"{path} is new", *_diff("", new or "", path)]
    if old is None or new is None:
        return [f"binary or long file {path} changed"]
    return _diff(old, new, path)


def _diff(old: str, new: str, name: str) -> list[str]:
    import difflib

    if old == new:
        return []
    was, now = f"{name} (approved)", f"{name} (now)"
    return list(difflib.unified_diff(_lines(old), _lines(new), was, now, lineterm="")) or [
        f"{name}: only its line endings differ"
    ]


def _lines(text: str) -> list[str]:
    """The lines as an editor counts them: a carriage return or a separator inside a line is a character, and shown."""
    return text.removesuffix("\n").split("\n") if text else []


def _changed_keys(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    """What differs between two definitions, about as it is written in a file: `- ask: "Push?"`."""
    before, after = written_fields(old), written_fields(new)
    for key in dict.fromkeys((*before, *after)):
        if before.get(key, _ABSENT) != after.get(key, _ABSENT):
            for sign, fields in (("-", before), ("+", after)):
                if key in fields:
                    yield f"{sign} {key}: {json.dumps(fields[key], sort_keys=True, ensure_ascii=False)}"


_ABSENT = object()


_MAIN = ("text", "argv", "target", "url", "patterns")  # the field of an action that a file has under its verb


def written_fields(definition: Mapping[str, Any]) -> dict[str, Any]:
    """A definition with the fields of its action, about as a file has them: `run: ./lint.sh`, `url.headers: ...`."""
    does = definition.get("does")
    action = dict(does) if isinstance(does, dict) else {}
    kind = action.pop("type", "action")
    kind = action.pop("decision", kind)  # a fixed answer: `deny`
    main = next((action.pop(key) for key in _MAIN if key in action), None)
    more = {f"{kind}.{key}": value for key, value in action.items()}  # a hook has other keys of these names
    return {str(kind): main, **more, **{key: value for key, value in definition.items() if key != "does"}}


def _links(fp: Fingerprint) -> dict[str, str]:
    return {mark.path: mark.target for mark in fp.files if mark.identity and mark.target != mark.path}


def _texts(fp: Fingerprint) -> dict[str, str]:
    found: dict[str, str] = {}
    left = MAX_ALL_TEXT
    for mark in fp.files:
        text = text_of(mark, min(left, MAX_TEXT))
        if text is not None:
            found[mark.path] = text
            left -= mark.identity[2]
    return found


def text_of(mark: FileMark, limit: int) -> str | None:
    """The content of a file, as it was marked; None if it is missing, long or binary, or has changed since."""
    if not mark.sha256 or mark.identity[2] > limit:
        return None
    data = FileSnapshot().read(mark.path, limit).data
    if _sha256(data) != mark.sha256 or b"\0" in data:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _covered(mark: FileMark, folder: str, real_folder: str) -> list[str]:
    """The part of the hash for one file. An unreadable file is identified by its size and times."""
    content = mark.sha256 or "unreadable " + " ".join(map(str, mark.identity[2:]))
    target = _within(mark.target, real_folder)
    path = _within(mark.path, folder)
    return [path, content, target if target != path else ""]


def _within(path: str, folder: str) -> str:
    """The path relative to the folder if it is inside, so that a checkout may be moved as a whole."""
    return path[len(folder) + 1 :] if path.startswith(folder.rstrip("/") + "/") and folder != "/" else path


def _folder_mark(path: str, kind: "Kind", look: FileSnapshot) -> FileMark:
    names = _names(path, kind, look)
    # a folder that changed just before it was listed is listed again every time
    return FileMark(path, names, (-1,) if path in look.moving else stat_identity(look.state(path)), path, kind)


def _names(folder: str, kind: "Kind", look: FileSnapshot) -> str:
    return _sha256(approval_scope.relevant_names(folder, kind, look).encode("utf-8", "surrogateescape"))


def _mark(path: str, inside: str, look: FileSnapshot) -> FileMark:
    """The mark of a file. Reads its content unless that is known.

    A link out of the folder `inside` to a system program, as in a virtual environment, is identified by its target:
    a system update does not change the hook.
    """
    found = _settled(path, look)
    if found is None:
        return FileMark(path, "", (), "")
    target = look.real(path)
    if target != path and target.startswith(_SYSTEM) and not (inside and target.startswith(inside)):
        return FileMark(path, _by_target(target), stat_identity(found), target)
    if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_FILE:
        return FileMark(path, "", stat_identity(found), target)
    of, sha256 = _hashed(path, stat_identity(found), look)
    return FileMark(path, sha256, of, target)


def _by_target(target: str) -> str:
    return _sha256(b"system " + os.fsencode(target))


def _sha256(data: bytes) -> str:
    import hashlib  # loads a cryptographic library, which is not needed if no hook needs approval

    return hashlib.sha256(data).hexdigest()


_known: dict[Identity, str] = {}


def _hashed(path: str, wanted: Identity, look: FileSnapshot) -> tuple[Identity, str]:
    """The hash of a file, and the identity of what was hashed. Remembered, because hooks share scripts."""
    if wanted in _known:
        return wanted, _known[wanted]
    content = look.read(path, MAX_CACHED) if wanted[2] <= MAX_CACHED else sources.Content()
    if content.identity == wanted:
        return wanted, _remembered(wanted, _sha256(content.data))
    try:
        with sources.opened(path) as (file, found):
            before = stat_identity(found)
            sha256 = _digest(file, found.st_size)
            after = stat_identity(os.fstat(file))
    except (OSError, ValueError):
        return wanted, ""
    if before == after == wanted:
        return wanted, _remembered(wanted, sha256)
    # written while it was read: times that no file has force the next check to compare the content
    return (*before[:3], 0, 0), sha256


def _digest(file: int, size: int) -> str:
    """The hash of a file of that size; empty if the file is longer: some files in /proc never end."""
    import hashlib

    digest = hashlib.sha256()
    for part in sources.parts(file, size + 1):
        digest.update(part)
        size -= len(part)
    return digest.hexdigest() if size >= 0 else ""


def _remembered(of: Identity, sha256: str) -> str:
    if len(_known) >= _CACHED:
        _known.clear()
    _known[of] = sha256
    return sha256


def _settled(path: str, look: FileSnapshot) -> os.stat_result | None:
    """The state of a file whose next change will show in its times. Waits briefly if it changed just now."""
    found = look.state(path)
    if found is None or sources.stat_settled(found):
        return found
    age = time.time_ns() - found.st_ctime_ns
    time.sleep(max(0, sources.SETTLED - age) / 1e9)
    return sources.state(path)


def _number(value: float | None) -> int | float | None:
    """30.0 and 30 are the same number."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _does(action: Action | None) -> Any:
    """An action as it is in records; fields that were added later are left out if they are empty."""
    data = _plain(msgspec.to_builtins(action))
    if isinstance(action, Python) and not action.options:
        del data["options"]
    return data


def _in_one_order(conditions: dict[str, Any]) -> dict[str, Any]:
    """The conditions, with those lists sorted whose order does not matter."""
    return conditions | {key: sorted(conditions[key]) for key in ("effects", "after_effects") if key in conditions}


def _plain(value: Any) -> Any:
    """Tuples as lists, so that values that were read from disk compare equal."""
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value


# Which hooks the user has consented to:


Trust = Literal["approved", "all", "none"]
ApprovalState = Literal["own", "approved", "new", "changed"]


class Consent(msgspec.Struct, frozen=True, dict=True):
    """Whether one declared hook is approved."""

    state: ApprovalState
    """`own`: from a file of the user; `new`: never approved; `changed`: approved once, and changed since."""
    loaded: Fingerprint | None = None
    """The hook and its files when it was loaded; None if no hook with that definition was ever approved."""
    before: Approval | None = None  # the earlier approval, if the hook has changed since
    of: HookDeclaration | None = None  # the hook, if it needs consent
    look: FileSnapshot | None = None  # shared by the hooks of one load when their files are read later

    @property
    def given(self) -> bool:
        return self.state in ("own", "approved")

    @functools.cached_property
    def fingerprint(self) -> Fingerprint | None:
        """What an approval would cover; None if none is needed. Reads the hook's files, which takes time."""
        return self.loaded if self.loaded is not None or self.of is None else fingerprint(self.of, self.look)

    @property
    def looked_at(self) -> tuple[FileMark, ...]:
        """The files that were read so far. As long as they are unchanged, this consent is valid."""
        print_ = self.loaded or self.__dict__.get("fingerprint")
        return () if print_ is None else print_.marks


_OWN = Consent("own")


def consents(entries: Sequence[HookDeclaration], approvals: Approvals, trust: Trust) -> list[Consent]:
    """The consent of each hook, in their order. Files are read only for definitions that were approved once: the files
    of a fresh clone must not delay anything."""
    if trust == "all":
        return [_OWN for _ in entries]
    look, fresh = FileSnapshot(), FileSnapshot()
    files = {entry.file for entry in entries if needs_consent(entry.layer)}
    known = {file: approvals.of_file(file) if trust == "approved" else [] for file in files}
    found = [
        _consent(entry, known[entry.file], look, fresh) if needs_consent(entry.layer) else _OWN for entry in entries
    ]
    _find_changed(entries, found, known)
    return found


def _consent(entry: HookDeclaration, known: Sequence[Approval], look: FileSnapshot, fresh: FileSnapshot) -> Consent:
    now = definition(entry)
    if not any(one.definition == now for one in known):
        return Consent("new", of=entry, look=fresh)
    loaded = fingerprint(entry, look)
    return Consent("approved" if any(one.hash == loaded.hash for one in known) else "new", loaded, of=entry)


def _find_changed(
    entries: Sequence[HookDeclaration], found: list[Consent], approvals: Mapping[str, Sequence[Approval]]
) -> None:
    by_file: dict[str, list[int]] = defaultdict(list)
    for i, consent in enumerate(found):
        if consent.state == "new":
            by_file[entries[i].file].append(i)
    for file, places in by_file.items():
        known = [one for one in approvals[file] if one.of_hook]
        approved = [
            one.loaded.hash
            for one, entry in zip(found, entries, strict=True)
            if entry.file == file and one.state == "approved" and one.loaded is not None
        ]
        in_force = _related(approved, known)
        gone = [one for one in known if one.hash not in in_force]
        for i in places:
            before = _predecessor(entries[i], gone)
            if before is not None:
                gone.remove(before)
                found[i] = msgspec.structs.replace(found[i], state="changed", before=before)


def _related(current: Iterable[str], known: Sequence[Approval]) -> set[str]:
    """The approvals in force, those that they replaced, and those that replaced them on another branch."""
    related = set(current)
    size = -1
    while size != len(related):
        size = len(related)
        for one in known:
            if one.hash in related and one.replaces:
                related.add(one.replaces)
            elif one.replaces in related:
                related.add(one.hash)
    return related


def _predecessor(entry: HookDeclaration, gone: Sequence[Approval]) -> Approval | None:
    """The earlier approval of this hook: with the same name or, without names, for the same event in the same file."""
    if entry.named:
        return next((one for one in gone if one.definition.get("name") == entry.name), None)
    nameless = [one for one in gone if "name" not in one.definition]
    events = [(one, one.definition.get("events")) for one in nameless]
    same_event = [one for one, some in events if not some or not entry.events or set(some) & set(entry.events)]
    alike = [one for one in nameless if one.name == entry.name]
    both = [one for one in alike if one in same_event]
    return next(iter([*both, *same_event, *alike]), None)


def what_changed(declared: HookDeclaration, consent: Consent) -> str:
    """Which parts of a hook changed since its approval, in a few words."""
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


class ApprovedHook(msgspec.Struct, frozen=True):
    """A handler whose files are checked before each call: if they changed since it was loaded, it does not run."""

    run: Callable[[Context], Awaitable[Reply]]
    declared: HookDeclaration
    fingerprint: Fingerprint
    gate: bool
    keeps_time: ClassVar[bool] = True

    @property
    def batch_key(self) -> Any:
        """For a Python function; see `PythonHook`."""
        return getattr(self.run, "batch_key", None)

    def batch_call(self, outcome: Outcome, seconds: float) -> bytes:
        """The same as that of the function, with the files that must be unchanged when it starts."""
        files = [(mark.path, mark.identity) for mark in self.fingerprint.marks]
        return self.run.batch_call(outcome, seconds, files)  # type: ignore[attr-defined,no-any-return]

    async def __call__(self, ctx: Context) -> Reply:
        for mark in self.fingerprint.marks:
            if holds(mark) or same_content(mark):
                continue
            # a new file in a folder may be harmless: a hook may write beside itself while others wait
            if mark.kind == "file" or fingerprint(self.declared).hash != self.fingerprint.hash:
                why = f"{mark.path} has changed since it was approved; `billhook trust` shows how"
                return Reply(status=Status.COULD_NOT_START if self.gate else Status.SKIPPED, error=why)
        return await self.run(ctx)


# Approval by the user: exactly what was shown.


class ChangedError(BillhookError):
    """The hook or rules changed after they were shown to the user."""


def approve_entry(entry: "Entry", root: str | os.PathLike[str], how: str = "") -> Approval:
    """Approve one hook as it was when its hash was first computed. Raises ChangedError if the hook, or a file that it
    names, has changed since. `how` is announced in the agent: `from a terminal`."""
    now = fingerprint(entry.declared)
    if now.hash != entry.hash:
        raise _changed(f"`{entry.shown}`", entry.declared.place)
    before = entry.consent.before
    return _add(approval_of(entry.declared, now, before.hash if before else ""), root, how)


def approve_rules(waiting: "PendingRules", root: str | os.PathLike[str], how: str = "") -> Approval:
    """Approve the allow rules of one file as they were loaded. Raises ChangedError if they have changed since."""
    from billhook.config.permissions import approval_of_rules, waiting_now

    if waiting_now(waiting) != waiting.hash:
        raise _changed(waiting.shown, waiting.file)
    return _add(approval_of_rules(waiting), root, how)


def _changed(what: str, place: str) -> ChangedError:
    hint = "review it again: `billhook trust`"
    return ChangedError(f"{what} was changed during the review", place=place, hint=hint)


def _add(approval: Approval, root: str | os.PathLike[str], how: str) -> Approval:
    approval = msgspec.structs.replace(approval, how=how)
    Approvals(state_root(root)).add(approval)
    return approval


def approve(
    hash: str,  # noqa: A002 (its name everywhere else)
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
            f"no pending hook in {config.project} has the hash `{hash}`",
            hint="`billhook trust` shows pending hooks; for another folder: `approve(hash, cwd=...)`",
        )
    record_trust("approved", [approval], config)
    return approval


TrustAction = Literal[
    "approved", "revoked", "acknowledged", "promoted", "allowed once", "paused", "resumed", "enrolled", "left the fleet"
]


def record_trust(
    action: TrustAction,
    approvals: Iterable[Approval],
    config: "Config",
    **more: object,
) -> str:
    """Record in the event log what was approved or revoked. Returns the reason if that fails, else an empty string."""
    from billhook.config.loader import load_config
    from billhook.config.notices import remember
    from billhook.core.answers import Verdict
    from billhook.core.errors import UnrecordedError
    from billhook.core.events import parse

    hooks = [{"name": one.name, "file": one.file, "hash": one.hash, "how": one.how} for one in approvals]
    loaded = load_config(config.folder or config.project, home=config.root)
    with suppress(StoreError):  # state that can't be written is reported by the log
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


TRUST = "Trust"  # the name of the event that records an approval in the log
