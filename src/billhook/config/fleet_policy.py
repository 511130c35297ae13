"""The policy of a fleet as this host applies it: files in the state folder, which become the layer `fleet`.

The link verifies policies and writes these files. Loading the configuration only reads them.
"""

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec
from msgspec.structs import replace

from billhook.config.declaration import FixedAnswer, HookDeclaration, Mask
from billhook.config.layers import reads_environment
from billhook.config.sources import FLEET_RECORD, FileRead, SourceFile
from billhook.store.files import StoreError, read_bytes, remove, sha256, write_atomically

_LARGEST: Final = 64 << 10
_CONTACT: Final = "contact"  # its time is that of the last contact
_SILENT: Final = 60  # seconds without contact that are usual
_UNITS: Final = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))
_NEXT: Final = "next"  # the prefix of the hooks of the next policy


class AppliedPolicy(msgspec.Struct, frozen=True, omit_defaults=True):
    """The policy in force on this host."""

    org: str
    host: str
    signer: str  # the fingerprint of the key that signed it
    sequence: int = 0  # 0: the host was enrolled, and has no policy yet
    file: str = ""  # the rules in force, a file beside this record
    shadow: str = ""  # the rules of the next policy, which run in shadow mode
    stage: str = ""  # `shadow` or `candidate` during a rollout
    managed: bool = False
    valid_until: float = 0.0
    on_expiry: Literal["keep", "deny"] = "keep"
    refused: str = ""  # why a newer document was refused
    damaged: str = ""  # why this record can't be read; never stored

    @property
    def expires(self) -> float:
        """When this policy expires; 0 if it does not, or has expired."""
        return 0.0 if self.expired else self.valid_until

    @property
    def expired(self) -> bool:
        return 0 < self.valid_until < time.time()

    @property
    def denies(self) -> str:
        """Why every call is denied; empty: it is not."""
        if self.damaged:
            return f"the fleet's policy can't be read: {self.damaged}"
        return f"{self.title} has expired" if self.expired and self.on_expiry == "deny" else ""

    @property
    def problem(self) -> str:
        """What the user should know; empty if all is well."""
        if self.damaged or (self.expired and self.on_expiry == "deny"):
            return f"{self.denies}, so every call is denied"
        expired = f"{self.title} has expired, and stays in force" if self.expired else ""
        return f"a newer policy of {self.org} was refused: {self.refused}" if self.refused else expired

    @property
    def title(self) -> str:
        return f"policy {self.sequence} of {self.org}" if self.sequence else f"no policy of {self.org} yet"

    @property
    def signed(self) -> str:
        """The policy and its signer, for screens."""
        return f"{self.title}, signed by {self.signer}"

    def sources(self, root: Path, project: str) -> Iterator[SourceFile]:
        """The files of the layer `fleet`."""
        for name, shadow in ((self.file, False), (self.shadow, True)):
            if name:
                yield SourceFile(str(folder(root) / name), "fleet", project, not self.managed, shadow)

    def limited(self, reads: Iterable[FileRead], files: Sequence[SourceFile]) -> list[FileRead]:
        """What was read, with the layer `fleet` as far as this host obeys it."""
        places = {file.path: file for file in files}
        found = [replace(read, source=places[read.source.path]) for read in reads]
        now = [entry for read in found if read.source.layer == "fleet" for entry in read.entries]
        return [_obeyed(read, now) if read.source.layer == "fleet" else read for read in found]


def _obeyed(read: FileRead, now: Sequence[HookDeclaration]) -> FileRead:
    if read.source.limited:
        read = _tightening(read)
    return _in_shadow(read, now) if read.source.shadow else read


def _tightening(read: FileRead) -> FileRead:
    """Without everything that could loosen the user's rules, or run code."""
    kept, findings = [], list(read.findings)
    for entry in read.entries:
        why = loosens(entry)
        kept += [] if why else [entry]
        if why:
            message = f"{entry.subject} of the fleet's policy {why}: only a host that was enrolled as managed uses it"
            finding = entry.finding("BH215", "action", message, "leave and enrol again, with --managed")
            findings.append(replace(finding, note=True))
    return replace(
        read,
        entries=tuple(kept),
        findings=tuple(findings),
        disable_all=False,
        parallel=False if read.parallel is False else None,
        allowed_urls=None,
        allowed_header_env=None,
    )


def loosens(entry: HookDeclaration) -> str:
    """What makes a host ignore this hook, unless it is managed; empty: nothing."""
    if entry.switch:
        return "switches off another one"
    if entry.broken or isinstance(entry.action, Mask):
        return ""
    if not isinstance(entry.action, FixedAnswer) or entry.action.command or entry.action.file:
        return "runs code, reads files, sends data or changes calls"
    if reads_environment(repr((entry.action, entry.match, entry.conditions.rules))):
        return "reads variables of this machine"
    return "allows calls" if entry.action.decision == "allow" else ""


def _in_shadow(read: FileRead, now: Sequence[HookDeclaration]) -> FileRead:
    """The hooks that the next policy changes, in shadow mode. Its settings are not tried."""
    same = {_content(entry) for entry in now if not entry.file.endswith(os.path.basename(read.source.path))}
    new = [one for one in read.entries if not one.switch and not one.broken and _content(one) not in same]
    entries = tuple(replace(one, name=f"{_NEXT}-{one.name}", named=True, shadow=True) for one in new)
    return FileRead(source=read.source, entries=entries)


def _content(entry: HookDeclaration) -> str:
    return repr(replace(entry, file="", line=0, column=0, places={}))


def folder(root: Path) -> Path:
    """The folder of the fleet's files on a host. The guard protects it, with the rest of billhook's state."""
    return root.joinpath(*FLEET_RECORD[:-1])


def enrolment_file(root: Path) -> str:
    """The enrolment of this host: its URL, credentials and pinned key. The link and `billhook fleet` read it."""
    return str(folder(root) / "enrolment.json")


def policy_of(root: Path) -> AppliedPolicy | None:
    """The policy in force. A record that can't be read is a policy that denies everything."""
    try:
        return applied(root)
    except StoreError as error:
        return AppliedPolicy("", "", "", damaged=error.message)


def applied(root: Path) -> AppliedPolicy | None:
    """The policy in force; None if this is not a host of a fleet. Raises StoreError."""
    path = root.joinpath(*FLEET_RECORD)
    data = read_bytes(path, _LARGEST, root=root, private=True)
    if data is None:
        return None
    try:
        return msgspec.json.decode(data, type=AppliedPolicy)
    except msgspec.DecodeError as error:
        hint = "`billhook fleet leave` removes it"
        raise StoreError(f"the record of the fleet's policy is damaged: {error}", place=str(path), hint=hint) from None


def last_contact(root: Path) -> float:
    """When this host was last sure that it has the newest policy; 0: never."""
    try:
        return (folder(root) / _CONTACT).stat().st_mtime
    except OSError:
        return 0.0


def note_contact(root: Path) -> None:
    """This host has the newest policy now. Raises StoreError."""
    write_atomically(folder(root) / _CONTACT, b"", root=root, durable=False)


def silence(root: Path) -> str:
    """For how long this host has had no contact to its fleet, in words; empty if it has."""
    at = last_contact(root)
    seconds = int(time.time() - at)
    if not at:
        return "ever"
    return age(seconds) if seconds > _SILENT else ""


def age(seconds: float) -> str:
    """`4 s`, `3 min`."""
    length, unit = next((one for one in _UNITS if seconds >= one[0]), _UNITS[-1])
    return f"{max(0, int(seconds)) // length} {unit}"


def write(root: Path, policy: AppliedPolicy) -> None:
    """Bring a policy into force. The files of the last one stay: another process may be loading them. Raises
    StoreError."""
    before = policy_of(root) or policy
    write_atomically(root.joinpath(*FLEET_RECORD), msgspec.json.encode(policy), root=root, private=True)
    for path in folder(root).glob("rules-*.yaml"):
        if path.name not in (policy.file, policy.shadow, before.file, before.shadow):
            remove(path, root=root)


def write_rules(root: Path, rules: str) -> str:
    """Write a file of rules, before the record that names it. Raises StoreError."""
    name = rules_name(rules)
    write_atomically(folder(root) / name, rules.encode(), root=root, private=True)
    return name


def rules_name(rules: str) -> str:
    """The name of the file with these rules, on every host: it is part of the source of their hooks in records."""
    return f"rules-{sha256(rules.encode()).hexdigest()[:16]}.yaml"
