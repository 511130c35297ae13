"""Changes to an agent's file by `install` and `uninstall`: they are planned first, then made, with a backup."""

import errno
import functools
import hashlib
import itertools
import json
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal

import msgspec

from billhook.agents import NARROWER, canonical_event
from billhook.agents.base import Agent, Scope
from billhook.cli.install import entries
from billhook.cli.install.entries import AdoptedHook, Adoption, AdoptionTarget, moved_into, notes_about
from billhook.config import sources
from billhook.config.declaration import Layer, needs_consent
from billhook.config.edit_json import Document, at_path, decoded, items, measured
from billhook.config.edit_yaml import names_in, with_hooks, without_sections
from billhook.config.loader import load_config
from billhook.config.nodes import MAX_BYTES
from billhook.core.errors import BillhookError, UsageError
from billhook.core.events import EVENTS
from billhook.core.text import suggestion
from billhook.store import files

State = Literal["installed", "updated", "already", "removed", "absent"]


class FileChange(msgspec.Struct, frozen=True):
    """One file, before and after; None: no such file."""

    path: str
    real: str  # the file that is written: links are followed
    before: bytes | None
    after: bytes | None


class InstallBackup(msgspec.Struct, frozen=True, kw_only=True):
    host: str
    scope: Scope
    file: str
    existed: bool  # whether the file existed before
    after: str  # the hash of the file with billhook's entries
    made: tuple[str, ...] = ()  # folders that were created for it
    moved: AdoptionTarget | None = None


class InstallChange(msgspec.Struct, frozen=True, kw_only=True):
    """What installing or uninstalling does to one agent."""

    target: "Target"
    state: State
    files: tuple[FileChange, ...]  # the agent's own file, the hooks.yaml if handlers are moved, and the companions
    events: tuple[str, ...] = ()  # events for which the agent calls billhook then, by its names
    adopted: tuple[str, ...] = ()  # the hook names of moved handlers
    notes: tuple[str, ...] = ()
    kept: InstallBackup | None = None  # the record of the installation
    restore: bytes | None = None  # the agent's file without billhook's entries
    yaml_restore: bytes | None = None  # the hooks.yaml without the moved handlers

    @property
    def file(self) -> str:
        return self.files[0].path


class Target:
    """An agent's file, and the record of the installation in it."""

    def __init__(self, host: Agent, scope: Scope, project: str, root: Path) -> None:
        self.host, self.scope, self.project, self.root = host, scope, project, root
        self.path = host.file(scope, project)
        if scope == "project" and not host.project_file:
            raise UsageError(f"{host.title} has no project settings", hint="use --user for your own settings")
        self.real = behind(self.path, scope, project)
        self.data = content(self.real)
        self.shelf = BackupFolder(root, host, scope, self.real)
        self.record = self.shelf.record()
        self.untouched = self.record is not None and digest(self.data) == self.record.after
        """It was not changed since `install` wrote it."""

    @functools.cached_property
    def moved(self) -> AdoptionTarget | None:
        """The handlers adopted from it: by the record, or by the hooks.yaml if another user installed it."""
        if self.record is not None or not entries.written_handlers(measured(self.text()), self.host):
            return self.record.moved if self.record is not None else None
        real = behind(hooks_file(self.scope, self.project), self.scope, self.project)
        data = content(real)
        return moved_into(real, data, self.host) if data is not None else None

    def text(self) -> str:
        """Its settings as JSON. Raises FaultyFileError."""
        text = self.settings(self.data)
        entries.checked(text, self.host, self.path)
        return text

    def settings(self, data: bytes | None) -> str:
        try:
            text = self.host.format.read((data or b"").decode("utf-8", "surrogateescape"))
        except BillhookError as error:
            raise BillhookError(error.message, place=self.path, hint=error.hint) from None
        return decoded(text.encode("utf-8", "surrogateescape"), self.path)

    def file(self, settings: str) -> bytes:
        text = (self.data or b"").decode("utf-8", "surrogateescape")
        written = self.host.format.write(settings, text)
        return (written if written == settings else _in_style_of(text, written)).encode()

    def clean(self) -> str:
        text = self.text()
        if not entries.written_handlers(measured(text), self.host):
            return text
        return entries.without(text, self.host, lambda one: entries.is_written(one.data), self._original())

    def _original(self) -> str | None:
        data = self.shelf.restored() if self.record is not None and self.record.existed else None
        return self.settings(data) if data is not None else None

    def restored(self) -> bytes | None:
        """The file after uninstalling; None: the file is removed."""
        if self.untouched and self.record is not None:
            return self.shelf.restored() if self.record.existed else None
        if self.moved is None and (self.data is None or not entries.written_handlers(measured(self.text()), self.host)):
            return self.data
        text = put_back(self.clean(), self.host, self.moved.handlers if self.moved else ())
        text = as_it_was(text, self._original() if self.moved else None, self.host)
        mine, root = self.record is not None and not self.record.existed, measured(text).root
        empty = root is None or (not items(root) and text.strip("\ufeff \t\r\n") == text[root.start : root.end])
        return None if (mine or self.host.own_file) and empty else self.file(text)

    def change(self, after: bytes | None) -> FileChange:
        return FileChange(self.path, self.real, self.data, after)

    def companions(self) -> list[FileChange]:
        """The files beside it, as `install` writes them. Raises BillhookError for another's file with that name."""
        changes = [self._companion(name, text.encode()) for name, text in self.host.companions]
        for one in changes:
            if self.record is None and one.before not in (None, one.after):
                raise BillhookError("billhook did not write this file", place=one.path, hint="move it away")
        return changes

    def without_companions(self) -> Iterator[FileChange]:
        """Their removal; a file that has other content stays."""
        for name, text in self.host.companions:
            one = self._companion(name, None)
            if one.before == text.encode():
                yield one

    def _companion(self, name: str, after: bytes | None) -> FileChange:
        path = os.path.join(os.path.dirname(self.path), name)
        real = behind(path, self.scope, self.project)
        return FileChange(path, real, content(real), after)


def _in_style_of(text: str, written: str) -> str:
    """A file that was written as a whole, with the byte order mark and the line ends of the text before."""
    lines = written.removeprefix("\ufeff").replace("\r\n", "\n")
    windows = text.count("\r\n") == text.count("\n") > 0
    return ("\ufeff" if text.startswith("\ufeff") else "") + (lines.replace("\n", "\r\n") if windows else lines)


def put_back(text: str, host: Agent, adopted: Iterable[AdoptedHook]) -> str:
    """The text with adopted handlers added back, unless they are there already."""
    there = [(one.event, one.data) for one in entries.handlers(measured(text), host)]
    for one in adopted:
        data = one.entry["hooks"][0] if host.grouped(one.event) else one.entry
        if (one.event, data) not in there:
            text = entries.with_entries(text, host, {one.event: one.entry}, one.under)
    return text


def as_it_was(text: str, original: str | None, host: Agent) -> str:
    """The text with the original bytes of its `hooks`, if it has the same handlers."""
    if original is None:
        return text
    now, before = measured(text), measured(original)
    here, there = at_path(now, [host.hooks_key]), at_path(before, [host.hooks_key])
    if here is None or there is None or _each(now, host) != _each(before, host):
        return text
    return text[: here.start] + original[there.start : there.end] + text[here.end :]


def _each(document: Document, host: Agent) -> list[str]:
    return sorted(
        json.dumps([one.event, one.group, one.data], sort_keys=True) for one in entries.handlers(document, host)
    )


def plan_install(
    target: Target, events: Iterable[str], options: entries.EntryOptions, *, adopt: bool, seconds: Mapping[str, float]
) -> InstallChange:
    """The changes of `install`. `events` are canonical names, `seconds` the timeouts of configured hooks."""
    host = target.host
    clean = target.clean()
    adoption, moving = _adoption(target, clean) if adopt else (None, None)
    names = list(events)
    if adoption is not None:
        names += [event for event in adoption.seconds if event not in names]
        seconds = {**seconds, **{event: max(seconds.get(event, 0), n) for event, n in adoption.seconds.items()}}
        # empty containers stay, so that `hooks` and its events keep their places
        clean = entries.without(clean, host, lambda one: one in adoption.picked, clean) if adoption.picked else clean
    wanted = entries.entries_for(host, names, msgspec.structs.replace(options, seconds=seconds))
    found = entries.written_handlers(measured(target.text()), host)
    beside = target.companions()
    notes = (*notes_about(target.path, measured(clean), host), *(adoption.staying if adoption else ()))
    there = entries.holds(measured(target.text()), host, wanted) and target.file(target.text()) == target.data
    there = there and all(one.before == one.after for one in beside)
    if there and not (adoption and adoption.picked):
        same = (target.change(target.data),)
        return InstallChange(target=target, state="already", files=same, events=tuple(wanted), notes=notes)
    if target.untouched and target.moved is None and not (adoption and adoption.picked):
        clean = target.settings(target.restored())  # byte for byte the file before the installation
    after = target.file(entries.with_entries(clean, host, wanted))
    if not entries.holds(entries.checked(target.settings(after), host, target.path), host, wanted):
        raise BillhookError(
            "can't add entries to this file", place=target.path, hint="write its `hooks` in the usual form"
        )
    return InstallChange(
        target=target,
        state="updated" if found else "installed",
        files=(target.change(after), *([moving[0]] if moving else ()), *beside),
        events=tuple(wanted),
        adopted=tuple(adoption.hooks) if adoption else (),
        notes=notes,
        kept=_backup_record(target, after, moving[1] if moving else target.moved),
        restore=target.restored(),
        yaml_restore=_yaml_without(target, moving[0].before) if moving else None,
    )


def _backup_record(target: Target, after: bytes, moved: AdoptionTarget | None) -> InstallBackup:
    return InstallBackup(
        host=target.host.name,
        scope=target.scope,
        file=target.real,
        existed=target.restored() is not None,
        after=digest(after),
        made=target.record.made if target.record is not None else (),
        moved=moved,
    )


def hooks_file(scope: Scope, project: str) -> str:
    of_project = [os.path.join(project, ".billhook", name) for name in ("hooks.yaml", "hooks.yml")]
    paths = sources.user_files()[1:] if scope == "user" else of_project
    return next((path for path in paths if os.path.lexists(path)), paths[0])


def _adoption(target: Target, clean: str) -> tuple[Adoption, tuple[FileChange, AdoptionTarget] | None]:
    path = hooks_file(target.scope, target.project)
    real = behind(path, target.scope, target.project)
    data = content(real)
    adoption = Adoption(target.host, entries.handlers(measured(clean), target.host), names_in(data, path))
    if not adoption.picked:
        if not adoption.staying:
            adoption.staying.append(f"{target.path} has no hooks to move{_adoptable_elsewhere(target)}")
        return adoption, None
    after, piece = with_hooks(data, path, adoption.hooks)
    before = target.moved or AdoptionTarget(file=real, existed=True, after="", pieces=(), handlers=())
    moved = AdoptionTarget(
        file=real,
        existed=_yaml_without(target, data) is not None,
        after=digest(after),
        pieces=(*before.pieces, piece),
        handlers=(*before.handlers, *adoption.handlers),
        made=before.made,
    )
    return adoption, (FileChange(path, real, data, after), moved)


def _adoptable_elsewhere(target: Target) -> str:
    """The command that moves the hooks of the agent's other settings file, if there are any."""
    scope: Scope = "user" if target.scope == "project" else "project"
    try:
        other = Target(target.host, scope, target.project, target.root)
        found = Adoption(other.host, entries.handlers(measured(other.clean()), other.host), set()).picked
    except BillhookError:  # a problem of the other file must not stop this installation
        return ""
    if not found or other.real == target.real:
        return ""
    option = "--project " if scope == "project" else ""
    command = f"billhook install {target.host.name} {option}--adopt"
    return f"; `{command}` moves those in {other.path}"


def _yaml_without(target: Target, data: bytes | None) -> bytes | None:
    if target.moved is None:
        return data
    change = _unmoved(target, target.moved, [])
    return change.after if change is not None else None


def plan_uninstall(target: Target) -> InstallChange:
    restored = target.restored()
    notes: list[str] = []
    changes = [target.change(restored)]
    if target.moved is not None and (back := _unmoved(target, target.moved, notes)) is not None:
        changes.append(back)
    changes += target.without_companions() if restored is None else ()
    names = tuple(one.name for one in target.moved.handlers) if target.moved else ()
    state: State = "absent" if all(one.before == one.after for one in changes) else "removed"
    return InstallChange(target=target, state=state, files=tuple(changes), notes=tuple(notes), adopted=names)


def _unmoved(target: Target, moved: AdoptionTarget, notes: list[str]) -> FileChange | None:
    data = content(moved.file)
    if data is None:
        return None
    if digest(data) == moved.after:
        return FileChange(moved.file, moved.file, data, target.shelf.yaml() if moved.existed else None)
    after: bytes | None = data
    left = False
    for piece in reversed(moved.pieces):
        try:
            after = without_sections(after or b"", moved.file, {"hooks": piece})
        except LookupError:
            left = True
    if left:
        names = ", ".join(one.name for one in moved.handlers)
        notes.append(f"{moved.file} was changed; remove these restored hooks from it yourself: {names}")
    return FileChange(moved.file, moved.file, data, after)


def carry_out(change: InstallChange) -> None:
    """Make the change. The backup is saved before anything is written."""
    if change.state == "already":
        return
    if change.state in ("removed", "absent"):
        _take_out(change)
        return
    target = change.target
    assert change.kept is not None
    # The first backup stays as long as only `install` has changed the file.
    before = None if target.untouched else target.data
    target.shelf.save(change.kept, before, change.restore, change.yaml_restore)
    made = {}
    for one in reversed(change.files):  # moved handlers are added before they are removed
        assert one.after is not None
        made[one.real] = replace(one.real, one.after, target.scope, one.before)
    moved = change.kept.moved
    if moved is not None and made.get(moved.file):
        moved = msgspec.structs.replace(moved, made=tuple(made[moved.file]))
    others = [folders for real, folders in made.items() if moved is None or real != moved.file]
    folders = tuple(itertools.chain(*others)) or change.kept.made
    target.shelf.save(msgspec.structs.replace(change.kept, made=folders, moved=moved))


def _take_out(change: InstallChange) -> None:
    target, kept = change.target, change.target.record
    for one in change.files:
        if one.before == one.after:
            continue
        if one.after is not None:
            replace(one.real, one.after, target.scope, one.before)
            continue
        made = list(kept.made) if kept is not None else []  # folders to remove with the file, if they are empty
        if kept is not None and kept.moved is not None and one.real == kept.moved.file:
            made = list(kept.moved.made) or [os.path.dirname(one.real)]
        remove(one.real, one.before, made)
    if kept is not None:
        target.shelf.forget()


# The events for which an agent calls billhook, and their timeouts.
_MARGIN = 2.0
_OF_A_PROJECT: tuple[Layer, ...] = ("project", "local")


class RequiredEvents:
    """The events and timeouts that configured hooks need, added to the agent's usual events."""

    def __init__(self, target: Target) -> None:
        host = target.host
        self.events = list(host.events)
        self.seconds: dict[str, float] = {}
        for event, seconds in (*_configured(target), *_installed(target)):
            if event not in host.spellings:
                continue
            if host.spellings[event] not in [host.spellings[one] for one in self.events]:
                self.events.append(event)
            if seconds > self.seconds.get(event, 0):
                self.seconds[event] = seconds


def _configured(target: Target) -> list[tuple[str, float]]:
    """The events of hooks that apply here and that the agent doesn't run itself, with their timeouts.

    Hooks that are not approved don't affect the user's settings: they may come from a clone.
    """
    own = target.scope == "user"
    config = load_config(target.project, layers=None if own else _OF_A_PROJECT, builtins=False, host=target.host.name)
    hooks = [
        one.declared
        for one in config.entries
        if one.state != "elsewhere" and not (own and needs_consent(one.declared.layer) and not one.consent.given)
    ]
    found: list[tuple[str, float]] = []
    for one in (one for one in hooks if one.enabled and not one.ours):
        wanted = [
            name for name in target.host.spellings if name in one.events or (name in EVENTS and one.handles(name))
        ]
        found += [(name, one.timeout or 0) for name in ([one.part] if one.part else wanted)]
    if seconds := config.question_seconds(queued=any(one.approve for one in hooks)):
        found.append(("PreToolUse", seconds))  # a person needs longer than a hook
    return found


def _installed(target: Target) -> list[tuple[str, float]]:
    """The events and timeouts that are installed already: hooks of another folder may need them."""
    host = target.host
    found = []
    for one in entries.written_handlers(measured(target.text()), host):
        event = next((name for name, own in host.spellings.items() if own == one.event), "")
        number = one.data.get(host.timeout_key)
        seconds = host.meanings.in_seconds(number) if isinstance(number, int | float) else 0
        usual = host.ending[0] if event == "SessionEnd" else entries.SECONDS
        found.append((event, seconds - _MARGIN if seconds > usual else 0.0))
    return found


def chosen_events(host: Agent, words: Iterable[str]) -> list[str]:
    """The canonical names of events that the user named, in any agent's spelling. Raises UsageError."""
    found: dict[str, str] = {}
    for word in _split(words):
        event = canonical_event(word)
        if not event:
            known = [*host.spellings, *host.spellings.values()]
            hint = suggestion(word, known, f"{host.title} has {', '.join(host.spellings)}")
            raise UsageError(f"no event `{word}`", hint=hint)
        if event not in host.spellings:
            raise UsageError(f"{host.title} has no event `{event}`", hint=f"it has {', '.join(host.spellings)}")
        found.setdefault(host.spellings[event], event)
    if not found:
        raise UsageError("--events needs at least one event", hint="as in --events PreToolUse,Stop; or leave it out")
    return list(found.values())


def widened(host: Agent, words: Iterable[str]) -> list[str]:
    """Notes on named events that are narrower than the installed one."""
    named = {word.lower() for word in _split(words)}
    narrower = [(name, event) for name, event in NARROWER.get(host.name, {}).items() if name.lower() in named]
    return [
        f"{name} is installed as {host.spellings[event]}, which is fired for every tool" for name, event in narrower
    ]


def _split(words: Iterable[str]) -> list[str]:
    return [part for given in words for part in given.replace(",", " ").split()]


# Agents' files on disk:
_NEW: Final = {"user": 0o600, "project": 0o666}
"""The mode of a new file: private for the user's file; for a project's, the umask applies."""


def behind(file: str, scope: Scope, project: str) -> str:
    """The file that is written: links are followed, but not out of a project. Raises BillhookError."""
    real = os.path.realpath(file)
    if scope == "project" and not real.startswith(os.path.join(os.path.realpath(project), "")):
        hint = "replace the link with a file in the project"
        raise BillhookError(f"this link leads out of the project, to {real}", place=file, hint=hint)
    if os.path.islink(file) and not os.path.isdir(os.path.dirname(real)):
        hint = "fix or remove the link"
        raise BillhookError(f"this is a link to {real}, which does not exist", place=file, hint=hint)
    return real


def content(real: str) -> bytes | None:
    """The content of a file; None if it does not exist. Raises BillhookError if it can't be read."""
    try:
        data = sources.read_bytes(real, MAX_BYTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _explained("read", real, error) from error
    if len(data) > MAX_BYTES:
        raise BillhookError(
            f"the file has more than {MAX_BYTES:,} bytes", place=real, hint="this is not a settings file"
        )
    return data


def replace(real: str, data: bytes, scope: Scope, expected: bytes | None) -> list[str]:
    """Replace `expected` with `data` atomically, with the same mode; returns the folders that were created.

    Raises BillhookError; then nothing was changed.
    """
    if content(real) != expected:
        hint = "run it again"
        raise BillhookError("the file was changed by another process; nothing was written", place=real, hint=hint)
    folder, missing, made = os.path.dirname(real), list[str](), list[str]()
    while not os.path.isdir(folder):
        missing.insert(0, folder)
        folder = os.path.dirname(folder)
    try:
        for one in missing:
            os.mkdir(one, 0o700 if scope == "user" else 0o777)
            made.append(one)
        _write(real, data, scope)
    except OSError as error:
        unmake(made)
        raise _explained("write", real, error) from error
    return made


def _write(real: str, data: bytes, scope: Scope) -> None:
    folder, name = os.path.split(real)
    draft = os.path.join(folder, f".{name}.{os.urandom(6).hex()}")
    mode = _NEW[scope] | (_NEW[scope] >> 2 & 0o111 if data.startswith(b"#!") else 0)  # a script can be executed
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    try:
        with open(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            with suppress(FileNotFoundError):  # keep mode and owner of the existing file
                found, mine = os.stat(real), os.fstat(descriptor)
                os.fchmod(descriptor, stat.S_IMODE(found.st_mode))
                with suppress(OSError):  # only root may give files away
                    if (found.st_uid, found.st_gid) != (mine.st_uid, mine.st_gid):
                        os.fchown(descriptor, found.st_uid, found.st_gid)
            os.fsync(descriptor)
        os.rename(draft, real)
    except BaseException:
        with suppress(OSError):
            os.unlink(draft)
        raise
    _sync(folder)


def remove(real: str, expected: bytes | None, made: list[str]) -> None:
    """Remove a file, and the folders that were created for it if they are empty. Raises BillhookError."""
    if content(real) != expected:
        raise BillhookError("the file was changed by another process", place=real, hint="run it again")
    try:
        os.unlink(real)
        _sync(os.path.dirname(real))
    except OSError as error:
        raise _explained("remove", real, error) from error
    unmake(made)


def unmake(made: list[str]) -> None:
    """Remove empty folders, the innermost first."""
    for folder in reversed(made):
        with suppress(OSError):
            os.rmdir(folder)


def _sync(folder: str) -> None:
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _explained(doing: str, real: str, error: OSError) -> BillhookError:
    hint = _HINTS.get(error.errno or 0, "check the permissions of the file and of its folder")
    return BillhookError(f"can't {doing} the file: {error.strerror or error}", place=real, hint=hint)


_HINTS: Final = {
    errno.ENOSPC: "free some space on that disk",
    errno.EROFS: "that disk is read-only: edit the original of the file",
    errno.ENOTDIR: "there is a file where a folder is needed: move it away",
    errno.EBUSY: "the file is a mount point: edit the original",
    errno.ELOOP: "the links form a circle: fix them",
}


# The backups of `install`, in the user's state:
_LARGEST: Final = 4 << 20
_RECORD: Final = "record.json"
_BEFORE: Final = "before"
_RESTORE: Final = "restore"
_YAML: Final = "hooks.yaml"


def digest(data: bytes | None) -> str:
    return hashlib.sha256(data).hexdigest() if data is not None else ""


class BackupFolder:
    """The backup of one agent's file, in a folder of the user's state."""

    def __init__(self, root: Path, host: Agent, scope: Scope, file: str) -> None:
        key = hashlib.sha256(os.fsencode(file)).hexdigest()[:12]
        self.root, self.name = root, os.path.basename(file)
        self.folder = root / "billhook" / "installed" / f"{host.name}-{scope}-{key}"

    @property
    def backup(self) -> Path:
        """The file just before the last change."""
        return self.folder / f"{self.name}.{_BEFORE}"

    def record(self) -> InstallBackup | None:
        """The record of the installation; None if there is none. Raises BillhookError if it is damaged."""
        data = files.read_bytes(self.folder / _RECORD, _LARGEST, root=self.root)
        if data is None:
            return None
        try:
            return msgspec.json.decode(data, type=InstallBackup)
        except msgspec.MsgspecError:
            hint = f"remove {self.folder}; `billhook uninstall` then still removes the entries"
            message = "the record of this installation is damaged"
            raise BillhookError(message, place=str(self.folder), hint=hint) from None

    def restored(self) -> bytes | None:
        """The file without billhook's entries; None if that is unknown."""
        return files.read_bytes(self.folder / _RESTORE, _LARGEST, root=self.root)

    def yaml(self) -> bytes | None:
        """The hooks.yaml before handlers were moved there; None if there was none."""
        return files.read_bytes(self.folder / _YAML, _LARGEST, root=self.root)

    def save(
        self, kept: InstallBackup, before: bytes | None = None, restore: bytes | None = None, yaml: bytes | None = None
    ) -> None:
        """Save the record and the given files. Raises StoreError; then nothing may be changed."""
        for name, data in ((self.backup.name, before), (_RESTORE, restore), (_YAML, yaml)):
            if data is not None:
                self._write(name, data)
        self._write(_RECORD, msgspec.json.format(msgspec.json.encode(kept)) + b"\n")

    def forget(self) -> None:
        """Remove what is only needed to restore the file; the backup stays."""
        for name in (_RECORD, _RESTORE, _YAML):
            files.remove(self.folder / name, root=self.root)

    def _write(self, name: str, data: bytes) -> None:
        files.write_atomically(self.folder / name, data, root=self.root)
