"""A process without network: everything that it starts from then on reaches only a loopback interface of its own.

Only Linux can do this. An unprivileged process needs a user namespace, which some kernels and containers refuse.
"""

import functools
import os
import platform
import sys
from pathlib import Path
from typing import Final

_NEW_USER: Final = 0x10000000
_NEW_NETWORK: Final = 0x40000000
_SET_FLAGS: Final = 0x8914  # the ioctl SIOCSIFFLAGS
_UP: Final = 1
_NAME_BYTES, _REQUEST_BYTES = 16, 40


def cut_off() -> None:
    """Cut this process off. It must have one thread. Raises OSError; then it may be unusable: `refusal` tries first."""
    try:
        _unshare(_NEW_NETWORK)
    except PermissionError:
        _unshare_as_user()
    _start_loopback()


@functools.cache
def refusal() -> str:
    """Why this system can't cut a process off; empty if it can. A child process tries it."""
    if sys.platform != "linux":
        return f"{platform.system()} can't cut a process off from the network"
    child = os.fork()
    if child == 0:
        os._exit(_attempt())
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return f"the system refuses a network namespace: {os.strerror(code).lower()}" if code else ""


def _attempt() -> int:
    """The error number; 0 if it worked."""
    try:
        cut_off()
    except OSError as error:
        return error.errno or 1
    return 0


def _unshare(what: int) -> None:
    import ctypes

    if ctypes.CDLL(None, use_errno=True).unshare(what):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _unshare_as_user() -> None:
    """With a new user namespace, in which this process has the same user and group as before."""
    user, group = os.geteuid(), os.getegid()
    _unshare(_NEW_USER | _NEW_NETWORK)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")


def _start_loopback() -> None:
    """Hooks may start a server of their own, as test suites do."""
    import fcntl
    import socket

    request = b"lo".ljust(_NAME_BYTES, b"\0") + _UP.to_bytes(2, sys.byteorder)
    with socket.socket() as channel:
        fcntl.ioctl(channel, _SET_FLAGS, request.ljust(_REQUEST_BYTES, b"\0"))
