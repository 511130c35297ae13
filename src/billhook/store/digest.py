"""SHA-256. The library behind `hashlib` takes longer to load than a hook takes to answer: in a process that answers one
event, the interpreter's own reckons the few digests that this needs. For who has a loop, and serves many, it pays."""

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING or "_hashlib" in sys.modules or "asyncio" in sys.modules:
    from hashlib import sha256
else:
    try:
        from _sha2 import sha256
    except ImportError:
        try:
            from _sha256 import sha256  # before Python 3.12
        except ImportError:
            from hashlib import sha256

__all__ = ["sha256"]
