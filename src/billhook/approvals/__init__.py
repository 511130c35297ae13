"""Questions that wait for a person: the queue on disk, the wait for an answer, channels, and signed links.

Imports: core, runners, store.
"""

from typing import Final

import msgspec

KINDS: Final = ("desktop", "webhook", "ntfy", "slack")


class Channel(msgspec.Struct, frozen=True):
    """One way to reach a person. `$VAR` in the address and the secret are variables of the environment."""

    kind: str
    to: str = ""  # the address
    secret: str = ""  # signs the messages of a webhook
    who: str = ""  # who gets its messages: the name that is recorded with the answer


class ApprovalSettings(msgspec.Struct, frozen=True):
    """`approvals:` in a file of the user. With `approvals: false` there is no time: no question waits."""

    channels: tuple[Channel, ...] = (Channel("desktop"),)
    seconds: float = 300.0  # the longest wait
    link: str = ""  # the address of the daemon as people reach it; without it, messages have no links
