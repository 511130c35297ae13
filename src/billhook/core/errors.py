"""The exceptions. A message says what is wrong in the user's words, `place` where, `hint` the edit or command that
repairs it."""


class BillhookError(Exception):
    """What every error of ours is. `str(error)` is the whole message, place and hint included."""

    def __init__(self, message: str, *, place: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.place = place
        self.hint = hint

    def __str__(self) -> str:
        text = f"{self.place}: {self.message}" if self.place else self.message
        return f"{text}\n\nhint: {self.hint}" if self.hint else text


class EventError(BillhookError):
    """An event that is not one. `path` is the JSON path of the fault, `$.tool_name` for example."""

    def __init__(self, message: str, *, path: str = "$", place: str = "", hint: str = "") -> None:
        super().__init__(f"{message} at `{path}`", place=place, hint=hint)
        self.path = path


class ContradictionError(EventError):
    """An event in which two spellings of one field differ. It is refused whether or not a gate would judge it."""


class StrictJSONError(BillhookError):
    """Text that is not exactly one JSON document."""


class RuleError(BillhookError):
    """A permission rule that can't be read."""


class PlanError(BillhookError):
    """Hooks that can't be put in order."""


class UnrecordedError(BillhookError):
    """A verdict that an observer had to record and could not. `hook` is who it counts for, `deny` whether the event is
    refused for that; otherwise it goes on, and everybody can see that it was not recorded."""

    def __init__(self, message: str, *, hook: str, deny: bool, place: str = "", hint: str = "") -> None:
        super().__init__(message, place=place, hint=hint)
        self.hook = hook
        self.deny = deny


class UsageError(BillhookError):
    """A command line that makes no sense."""
