"""The policy of a fleet as this host applies it: files in the state folder, which become the layer `fleet`.

The link verifies policies and writes these files. Loading the configuration only reads them.
"""

import os
import time
from pathlib import Path
from typing import Final, Literal

import msgspec

from billhook.store.files import StoreError, read_bytes, remove, sha256, write_atomically

_FILE: Final = "policy.json"
_LARGEST: Final = 64 << 10


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

    @property
    def expired(self) -> bool:
        return 0 < self.valid_until < time.time()

    @property
    def title(self) -> str:
        return f"policy {self.sequence} of {self.org}" if self.sequence else f"no policy of {self.org} yet"


def folder(root: Path) -> Path:
    """The folder of the fleet's files on a host. The guard protects it, with the rest of billhook's state."""
    return root / "billhook" / "fleet"


def enrolment_file(root: Path) -> str:
    """The enrolment of this host: its URL, credentials and pinned key. The link and `billhook fleet` read it."""
    return os.path.join(root, "billhook", "fleet", "enrolment.json")


def record_file(root: Path) -> str:
    """The record of the policy in force. It changes whenever that policy does."""
    return os.path.join(root, "billhook", "fleet", _FILE)


def applied(root: Path) -> AppliedPolicy | None:
    """The policy in force; None if this is not a host of a fleet. Raises StoreError."""
    path = folder(root) / _FILE
    data = read_bytes(path, _LARGEST, root=root, private=True)
    if data is None:
        return None
    try:
        return msgspec.json.decode(data, type=AppliedPolicy)
    except msgspec.DecodeError as error:
        raise StoreError(
            f"the policy is damaged: {error}", place=str(path), hint="`billhook fleet leave` ends it"
        ) from None


def write(root: Path, policy: AppliedPolicy) -> None:
    """Bring a policy into force. Raises StoreError."""
    write_atomically(folder(root) / _FILE, msgspec.json.encode(policy), root=root, private=True)
    for path in folder(root).glob("rules-*.yaml"):
        if path.name not in (policy.file, policy.shadow):
            remove(path, root=root)


def write_rules(root: Path, rules: str) -> str:
    """Write a file of rules, before the record that names it. Raises StoreError."""
    name = f"rules-{sha256(rules.encode()).hexdigest()[:16]}.yaml"
    write_atomically(folder(root) / name, rules.encode(), root=root, private=True)
    return name
