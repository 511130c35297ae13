"""Collect the processes that a test left to this process."""

import time

from billhook.runners import process_tree


def children() -> set[str]:
    return {*(process_tree._children() or ())}


def collect_orphans(before: set[str]) -> None:
    """Wait until the forks have ended and are collected: no other code does that after the test."""
    end = time.monotonic() + 5
    while children() - before and time.monotonic() < end:
        process_tree.reap_orphans()
        time.sleep(0.005)
