"""Count the open file descriptors of the test process."""

import gc
import os


def open_descriptors() -> int:
    """The number of open descriptors, without those that earlier tests left to the garbage collector.

    Compare with `<=`: another test's thread may close one in the meantime.
    """
    gc.collect()
    return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
