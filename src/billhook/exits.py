"""How a child process ended, and how we end as somebody's child: one record for both directions."""

import msgspec


class Exit(msgspec.Struct, frozen=True, kw_only=True):
    """What a child returned, or what we return as a child. Exactly one of `code`, `signal`, `timed_out` and
    `start_error` tells how it ended. Output is bytes as printed, cut at a cap; `truncated` says that there was more."""

    code: int | None = None
    signal: int | None = None
    stdout: bytes = b""
    stderr: bytes = b""
    truncated: bool = False
    timed_out: bool = False
    start_error: str = ""  # why the child could not be started, with the name of the errno; empty when it started
    lost: bool = False
    """The exit status was collected by somebody else (a host that ignores SIGCHLD): how it ended is unknown."""

    @property
    def stdout_text(self) -> str:
        return self.stdout.decode("utf-8", "replace")

    @property
    def stderr_text(self) -> str:
        return self.stderr.decode("utf-8", "replace")
