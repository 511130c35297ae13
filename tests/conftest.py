"""The same start for every run of the suite: default signals, and a temporary home."""

import atexit
import gc
import os
import shutil
import signal
import sys
import tempfile
from typing import Any

from hypothesis import HealthCheck, settings

# No test measures time: a busy machine is no failure.
settings.register_profile("billhook", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("billhook")

# Python ignores two signals itself, and 32 and 33 belong to the C library.
_KEPT = {getattr(signal, "SIGPIPE", 0), getattr(signal, "SIGXFSZ", 0), 32, 33}

# `nohup`, and a shell for its background jobs, let us inherit ignored signals, and so would every process that a test
# starts. At module level, because each worker of pytest-xdist is a process of its own.
for _number in signal.valid_signals() - _KEPT:
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, signal.default_int_handler if _number == signal.SIGINT else signal.SIG_DFL)

# Thousands of tests start Python: without bytecode on disk, each start would compile billhook again.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# The developer's own hooks, state and log are neither read nor changed by tests.
_HOME = tempfile.mkdtemp(prefix="billhook-home-")
atexit.register(shutil.rmtree, _HOME, ignore_errors=True)
os.environ["HOME"] = _HOME
for _name in ("BILLHOOK_HOME", "XDG_CONFIG_HOME", "CLAUDE_PROJECT_DIR", "CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT"):
    os.environ.pop(_name, None)


def pytest_collection_finish() -> None:
    """Exclude imported modules from garbage collection: otherwise each run scans half a gigabyte."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print what slow tests have measured (`record_property("measured", ...)`) at the end of the run."""
    for outcome in ("passed", "failed"):
        for report in terminalreporter.stats.get(outcome, ()):
            for name, text in getattr(report, "user_properties", ()):
                if name == "measured":
                    terminalreporter.write_line(text)
