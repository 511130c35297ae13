"""The program of a warm parent: runs in the interpreter that a hook names, and becomes each script that it runs.

All its code is in `warm_fork.py`. This file is `__main__`, which will be the script's: none of its names is there when
the script has begun, and each of its objects would be destroyed in each call.
"""

_FRESH = dict(globals())  # `__main__` as a script finds it
import sys  # noqa: E402

_BEFORE = frozenset(sys.modules)
_PATH = __file__.replace("warm_main.py", "warm_fork.py")
_NAMES = {"__name__": "billhook_warm", "__file__": _PATH}
with open(_PATH, "rb") as _file:
    exec(compile(_file.read(), _PATH, "exec"), _NAMES)
with _NAMES["ScriptGuard"]():  # type: ignore[operator]
    exec(*_NAMES["serve"]({**_FRESH, "__doc__": None}, _BEFORE))  # type: ignore[operator]
