"""Members of a fleet: their subjects and streams, keys and credentials, and the enrolment of this machine."""

import base64
import binascii
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from billhook.config.fleet_policy import enrolment_file, folder
from billhook.core.errors import UsageError
from billhook.store.files import StoreError, read_bytes, remove, write_atomically

Role = Literal["host", "reader", "approver", "admin"]
"""A reader reads everything; an approver also answers questions."""
POLICY: Final = "billhook_policy"
HOSTS: Final = "billhook_hosts"
AUDIT: Final = "billhook_audit"
LIMITS: Final = "billhook_limits"
"""The names of the streams. Each organisation has an account of its own, in which nothing else is."""
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_DAY: Final = 86_400 * 10**9


def checked_name(name: str, what: str) -> str:
    """A name that is one token of a subject. Raises UsageError."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"`{name}` can't be the name of {what}", hint="use a-z, 0-9 and `-`, at most 63 characters")
    return name


class FleetSubjects:
    """The subjects of one organisation."""

    def __init__(self, org: str) -> None:
        self.org = org
        self.base = f"billhook.{org}"
        self.audits = f"{self.base}.audit"  # of all hosts, without the host
        self.policy = f"{self.base}.policy.current"

    def host(self, host: str) -> str:
        """The last report of a host: its version, policy and lag."""
        return f"{self.base}.host.{host}"

    def audit(self, host: str) -> str:
        """The records of a host's event logs; each log has a subject below this one."""
        return f"{self.audits}.{host}"

    def limit(self, name: str) -> str:
        """The counter of a shared limit."""
        return f"{self.base}.limit.{name}"

    def approval(self, host: str, id: str) -> str:  # noqa: A002 (its name in the record)
        """A question of a host, and its answers."""
        return f"{self.base}.approval.{host}.{id}"

    def streams(self, replicas: int) -> Mapping[str, dict[str, Any]]:
        """The configuration of each stream."""
        common: dict[str, Any] = {"num_replicas": replicas, "allow_direct": True, "deny_purge": False}
        return {
            POLICY: {**common, "subjects": [f"{self.base}.policy.>"], "max_msgs_per_subject": 64, "deny_delete": True},
            HOSTS: {**common, "subjects": [f"{self.base}.host.>"], "max_msgs_per_subject": 1},
            AUDIT: {**common, "subjects": [f"{self.audits}.>"], "deny_delete": True, "deny_purge": True},
            LIMITS: {**common, "subjects": [f"{self.base}.limit.>"], "allow_msg_counter": True, "max_age": _DAY},
        }

    def permissions(self, role: Role, name: str) -> dict[str, list[str]]:
        """What a member may publish and subscribe to."""
        inbox = f"{inbox_prefix(name)}.>"
        if role == "admin":
            return {"publish": [">"], "subscribe": [">"]}
        if role in ("reader", "approver"):
            reads = ["STREAM.INFO.>", "STREAM.NAMES", "DIRECT.GET.>", "CONSUMER.CREATE.>", "CONSUMER.DELETE.>"]
            reads += ["CONSUMER.INFO.>", "CONSUMER.MSG.NEXT.>"]
            publish = [f"$JS.API.{one}" for one in reads]
            publish += [f"{self.approval('*', '*')}.answer"] if role == "approver" else []
            return {"publish": publish, "subscribe": [inbox, f"{self.base}.>"]}
        publish = [self.host(name), f"{self.audit(name)}.>", self.limit(">"), self.approval(name, ">")]
        publish += [f"$JS.API.DIRECT.GET.{POLICY}.{self.policy}", f"$JS.API.DIRECT.GET.{LIMITS}.{self.limit('>')}"]
        publish += [f"$JS.API.STREAM.INFO.{LIMITS}", f"$JS.API.DIRECT.GET.{AUDIT}.{self.audit(name)}.>"]
        own = f"{AUDIT}.{name}"  # the consumer with which a host reads its own records
        publish += [f"$JS.API.CONSUMER.CREATE.{own}.{self.audit(name)}.>", f"$JS.API.CONSUMER.MSG.NEXT.{own}"]
        publish += [f"$JS.API.CONSUMER.DELETE.{own}"]
        return {"publish": publish, "subscribe": [inbox, f"{self.base}.policy.>", self.approval(name, ">")]}


def inbox_prefix(name: str) -> str:
    """Where a member gets its replies: no other member can read them."""
    return f"_INBOX_{name}"


# Ed25519 keys: those that sign policies, and those with which members log in to the server.

_USER: Final = 20 << 3


def new_seed() -> str:
    """A new private key."""
    return base64.b64encode(os.urandom(32)).decode()


def public_key(seed: str) -> str:
    """The public key of a private one."""
    return base64.b64encode(_private(seed).public_key().public_bytes_raw()).decode()


def sign(seed: str, data: bytes) -> bytes:
    """The signature of some bytes."""
    signature: bytes = _private(seed).sign(data)
    return signature


def verifies(public: str, data: bytes, signature: bytes) -> bool:
    """Whether a signature is valid."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(_raw(public)).verify(signature, data)
    except (InvalidSignature, ValueError):
        return False
    return True


def fingerprint(public: str) -> str:
    """A public key as people compare it: `SHA256:...`."""
    from billhook.store.files import sha256

    return f"SHA256:{base64.b64encode(sha256(_raw(public)).digest()).decode().rstrip('=')}"


def server_key(seed: str) -> str:
    """The public key in the notation of NATS (an nkey of a user): `U...`."""
    body = bytes([_USER]) + _raw(public_key(seed))
    return base64.b32encode(body + binascii.crc_hqx(body, 0).to_bytes(2, "little")).decode().rstrip("=")


def from_server_key(key: str) -> str:
    """The public key of an nkey, as `public_key` returns it."""
    return base64.b64encode(base64.b32decode(key + "=" * (-len(key) % 8))[1:33]).decode()


def _private(seed: str):  # type: ignore[no-untyped-def]  # the library is imported only where it is used
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(_raw(seed))


def _raw(text: str) -> bytes:
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError:
        data = b""
    if len(data) != 32:
        raise UsageError("a key is damaged", hint="create new credentials: `billhook fleet init`")
    return data


# What makes this machine a host of a fleet: its credentials, and what it pinned when it was enrolled.

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
