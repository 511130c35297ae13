"""What stands in for a hook that can't be asked, or may not be."""

import msgspec

from billhook.answers import Reply, Status
from billhook.hook import Context


class Refusal(msgspec.Struct, frozen=True):
    """Can't be asked, and says why."""

    why: str
    of: str = ""  # whose place it takes: two of them are never the same hook

    def __call__(self, ctx: Context) -> Reply:
        return Reply(status=Status.COULD_NOT_START, error=self.why)


class Absence(msgspec.Struct, frozen=True):
    """Is not asked, and says why."""

    why: str
    of: str = ""

    def __call__(self, ctx: Context) -> Reply:
        return Reply(status=Status.SKIPPED, error=self.why)
