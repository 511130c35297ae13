"""What makes this machine a host of a fleet: its credentials, and what it pinned when it was enrolled."""

from pathlib import Path
from typing import Final

import msgspec

from billhook.config.fleet_policy import enrolment_file, folder
from billhook.core.errors import UsageError
from billhook.fleet.subjects import FleetSubjects, Role
from billhook.store.files import StoreError, read_bytes, remove, write_atomically

_LARGEST: Final = 64 << 10


class FleetCredentials(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file of credentials, which `billhook fleet init` writes."""

    org: str
    name: str  # the host's id, or the name of a reader or admin
    seed: str  # the private key with which it logs in
    policy_key: str  # the public key that signs policies
    role: Role = "host"
    tags: tuple[str, ...] = ()

    @property
    def subjects(self) -> FleetSubjects:
        return FleetSubjects(self.org)


class Enrolment(FleetCredentials, frozen=True, omit_defaults=True):
    """The same, with what the owner of the machine agreed to."""

    url: str = ""
    managed: bool = False  # the policy may loosen the user's rules and run commands, as a managed file
    ca: str = ""  # a file with certificates of authorities


def enrolment(root: Path) -> Enrolment | None:
    """The enrolment of this host, if there is one. Raises StoreError."""
    path = Path(enrolment_file(root))
    data = read_bytes(path, _LARGEST, root=root, private=True)
    if data is None:
        return None
    try:
        return msgspec.json.decode(data, type=Enrolment)
    except msgspec.DecodeError as error:
        hint = "`billhook fleet leave` removes it"
        raise StoreError(f"the enrolment is damaged: {error}", place=str(path), hint=hint) from None


def enrol(root: Path, record: Enrolment) -> None:
    """Make this machine a host. Raises StoreError."""
    write_atomically(Path(enrolment_file(root)), msgspec.json.encode(record), root=root, private=True)


def leave(root: Path) -> bool:
    """Remove the enrolment and the policy; False if there was none. Raises StoreError."""
    found = remove(Path(enrolment_file(root)), root=root)
    for path in folder(root).glob("*"):
        remove(path, root=root)
    return found


def read_credentials(path: Path) -> FleetCredentials:
    """A file of credentials. Raises UsageError."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=FleetCredentials)
    except OSError as error:
        raise UsageError(f"can't read the credentials: {error.strerror or error}", place=str(path)) from None
    except msgspec.DecodeError as error:
        hint = "use a file that `billhook fleet init` wrote"
        raise UsageError(f"these are no credentials: {error}", place=str(path), hint=hint) from None
