from collections.abc import Iterator

import pytest

from billhook.runners import process_tree, warm
from orphans import children, collect_orphans


@pytest.fixture
def adopting() -> Iterator[None]:
    """As in the daemon: this process is the parent of all orphans. Undone afterwards."""
    before = children()
    process_tree.adopt_orphans()
    yield
    warm.close()
    process_tree.settle()
    collect_orphans(before)
    process_tree._prctl(process_tree._SET_CHILD_SUBREAPER, 0)
    process_tree._adopting = False
