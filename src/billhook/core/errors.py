"""The exceptions. `message` describes the problem in the user's words, `place` tells where it is, `hint` is the edit or
command that fixes it."""


class BillhookError(Exception):
    """The base of all our errors. `str(error)` is the whole message with place and hint."""

    def __init__(self, message: str, *, place: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.place = place
        self.hint = hint

    def __str__(self) -> str:
        text = f"{self.place}: {self.message}" if self.place else self.message
        return f"{text}\n\nhint: {self.hint}" if self.hint else text


class EventError(BillhookError):
    """An invalid event. `path` is the JSON path of the error, for example `$.tool_name`."""

    def __init__(self, message: str, *, path: str = "$", place: str = "", hint: str = "") -> None:
        super().__init__(f"{message} at `{path}`", place=place, hint=hint)
        self.path = path


class ContradictionError(EventError):
    """An event in which two spellings of one field differ. It is refused even if no gate would judge it."""


class StrictJSONError(BillhookError):
    """Text that is not exactly one JSON document."""


class RuleError(BillhookError):
    """A permission rule that can't be read."""


class PlanError(BillhookError):
    """Hooks that can't be put in order."""


class UnrecordedError(BillhookError):
    """A verdict that an observer could not record. `hook` is the hook that fails for it. `deny`: the event is denied;
    otherwise it continues, and the failure is shown."""

    def __init__(self, message: str, *, hook: str, deny: bool, place: str = "", hint: str = "") -> None:
        super().__init__(message, place=place, hint=hint)
        self.hook = hook
        self.deny = deny


class UsageError(BillhookError):
    """Wrong use: a bad command line, or bad arguments."""
