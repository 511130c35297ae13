"""Warm interpreters need a process that adopts orphans; other tests in the same process must not find it so."""

import sys
from collections.abc import Iterator

import pytest

from billhook.runners import process_tree, warm
from orphans import children, collect_orphans


@pytest.fixture(scope="module", autouse=True)
def _adopting() -> Iterator[None]:
    if sys.platform != "linux":
        yield
        return
    before = children()
    process_tree.adopt_orphans()
    assert process_tree.adopting()
    yield
    warm.close()
    process_tree.settle()
    collect_orphans(before)
    process_tree._prctl(process_tree._SET_CHILD_SUBREAPER, 0)
    process_tree._adopting = False
