"""The environment of a login shell, from a snapshot: the same variables as with `sh -lc`, without its cost each time.

A snapshot has only variables. It has no functions, umask, limits or side effects of a profile; a hook that needs them
uses the real login shell. A profile that prints, exits or hangs can't break a command: then the environment stays as
given, and `problem` has the reason.
"""

import os
import sys
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING

import msgspec

from billhook.core.answers import Exit
from billhook.core.lazy import lazy_module
from billhook.runners import process
from billhook.runners.process_tree import MARKER

if TYPE_CHECKING:
    import asyncio
else:
    asyncio = lazy_module("asyncio")

_SHELLS_OWN = ("_", "SHLVL", "PWD", "OLDPWD", MARKER)
_SCRIPT = 'printf "\\n%s\\n" "$0"; exec /usr/bin/env -0'
_FOLDER = "/etc/profile.d"
_SETTLED = 2.0  # seconds: a change in the same clock tick as the listing would be missed
_MOST_SNAPSHOTS = 16
_RETRY = 60.0  # seconds after which a failed snapshot is tried again, even if no profile changed


class LoginEnvironment(msgspec.Struct, frozen=True):
    """The login environment for one base environment; kept until a profile changes. `problem` is empty on success."""

    variables: dict[str, str]
    problem: str
    taken: float


_Key = tuple[object, ...]
_listed: dict[_Key, list[str]] = {}
_lock = threading.Lock()
_snapshots: dict[_Key, "LoginEnvironment | Future[LoginEnvironment]"] = {}
"""Snapshots that are complete, and those in progress."""


async def environment(base: Mapping[str, str], *, seconds: float = 10) -> Mapping[str, str]:
    """The environment of a command under `sh -lc`, when that is started with `base`.

    The login shell runs at the first call, and again when a profile changed; concurrent callers, in any loop or
    thread, share one run. Files that a profile reads are not watched. Don't change the result.
    """
    return (await _snapshot(base, seconds)).variables


def problem(base: Mapping[str, str]) -> str:
    """Why `environment(base)` is only `base`; empty if it is not, or was never used."""
    snapshot = _cached(base)
    return snapshot.problem if snapshot else ""


def known(base: Mapping[str, str]) -> Mapping[str, str] | None:
    """The value of `environment(base)`, if it is available without waiting."""
    snapshot = _cached(base)
    return None if snapshot is None or _is_stale(snapshot) else snapshot.variables


def _cached(base: Mapping[str, str]) -> LoginEnvironment | None:
    found = _snapshots.get(_key(base))
    return found if isinstance(found, LoginEnvironment) else None


async def _snapshot(base: Mapping[str, str], seconds: float) -> LoginEnvironment:
    if sys.platform == "win32":
        return LoginEnvironment(dict(base), "", 0)
    while True:
        key = _key(base)
        found, mine = _claim(key)
        if isinstance(found, LoginEnvironment):
            return found
        if mine:
            return await _fill(key, found, base, seconds)
        try:
            # A cancelled waiter does not cancel the others: the future counts as running.
            return await asyncio.wrap_future(found)
        except _AbandonedError:
            continue


class _AbandonedError(Exception):
    """The caller that took the snapshot was cancelled: the next caller takes it."""


def _claim(key: _Key) -> tuple["LoginEnvironment | Future[LoginEnvironment]", bool]:
    """The snapshot for a key, and whether the caller has to take it."""
    with _lock:
        found = _snapshots.get(key)
        if found is not None and not (isinstance(found, LoginEnvironment) and _is_stale(found)):
            return found, False
        _snapshots.pop(key, None)
        while len(_snapshots) >= _MOST_SNAPSHOTS:
            del _snapshots[next(iter(_snapshots))]
        future = _snapshots[key] = Future[LoginEnvironment]()
        future.set_running_or_notify_cancel()
        return future, True


def _is_stale(snapshot: LoginEnvironment) -> bool:
    return bool(snapshot.problem) and time.monotonic() - snapshot.taken > _RETRY


async def _fill(
    key: _Key, future: "Future[LoginEnvironment]", base: Mapping[str, str], seconds: float
) -> LoginEnvironment:
    try:
        snapshot = await _take(base, seconds)
        with _lock:
            if _snapshots.get(key) is future:
                _snapshots[key] = snapshot
        future.set_result(snapshot)
        return snapshot
    finally:
        if not future.done():
            with _lock:
                if _snapshots.get(key) is future:
                    del _snapshots[key]
            future.set_exception(_AbandonedError())


async def _take(base: Mapping[str, str], seconds: float) -> LoginEnvironment:
    # The marker separates the output of a profile from the variables.
    marker = os.urandom(8).hex()
    ended = await process.run(("/bin/sh", "-lc", _SCRIPT, marker), stdin=b"", env=base, cwd="/", seconds=seconds)
    _, found, output = ended.stdout.partition(f"\n{marker}\n".encode())
    if ended.code != 0 or not found or ended.truncated:
        return LoginEnvironment(dict(base), _why(ended, bool(found), seconds), time.monotonic())
    pairs = (os.fsdecode(pair).partition("=") for pair in output.split(b"\0") if b"=" in pair)
    variables = {name: value for name, _, value in pairs if name not in _SHELLS_OWN}
    variables |= {name: base[name] for name in _SHELLS_OWN if name in base}
    return LoginEnvironment(variables, "", time.monotonic())


def _why(ended: Exit, began: bool, seconds: float) -> str:
    if ended.start_error:
        return f"the login shell could not be started: {ended.start_error}"
    if ended.timed_out:
        return f"the login shell did not end within {seconds:g} s; look for a profile that waits for input"
    if ended.truncated:
        return "the login shell printed too much"
    how = f"exit code {ended.code}" if ended.code is not None else f"signal {ended.signal}"
    printed = ended.stderr_text.strip().splitlines()
    place = "`/usr/bin/env -0` failed" if began else "a profile ended the login shell before its command"
    return f"{place} ({how}{': ' + printed[-1] if printed else ''})"


def _key(base: Mapping[str, str]) -> _Key:
    home = base.get("HOME", "")
    folder = _identity(_FOLDER)
    files = "/etc/profile", f"{home}/.profile", *_profiles(folder)
    return (folder, *map(_identity, files), _variables(base))


def _variables(base: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    """A whole environment. If nothing changed, the same object as in the last call, which makes comparing fast."""
    global _last  # noqa: PLW0603
    before, made = _last
    if base != before:
        made = frozenset(base.items())
        _last = dict(base), made
    return made


_last: tuple[dict[str, str], frozenset[tuple[str, str]]] = {}, frozenset()


def _profiles(folder: _Key) -> list[str]:
    """The files in /etc/profile.d, listed again only if the folder changed: listing takes longest."""
    found = _listed.get(folder)
    if found is None:
        try:
            changed = os.stat(_FOLDER).st_mtime
            found = [f"{_FOLDER}/{name}" for name in sorted(os.listdir(_FOLDER))]
        except OSError:
            return []
        if time.time() - changed > _SETTLED:
            _listed.clear()
            _listed[folder] = found
    return found


def _identity(path: str) -> _Key:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return (path,)
    return path, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
