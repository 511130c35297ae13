"""Ed25519 keys: those that sign policies, and those with which members log in to the server."""

import base64
import binascii
import os
from typing import Final

from billhook.core.errors import UsageError

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
