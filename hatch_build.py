"""The build hook: `billhook-hook`, compiled into a platform wheel, or as a launcher for Python into a pure one.

Runs for every wheel, editable or not. BILLHOOK_NO_COMPILER=1 asks for the pure wheel where there is a compiler.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NAME = "billhook-hook"
ALONE = ["-static", "-nostdlib", "-DBILLHOOK_ALONE", "-U_FORTIFY_SOURCE", "-fno-builtin", "-fno-stack-protector"]
"""Without a C library: client_alone.h stands in for it."""

# Installers write the interpreter's path into `#!python`, but drop its options, and start-up without them costs half as
# much again. So a shell looks for the interpreter, and the client comes from where installers have compiled it: Python
# compiles a script anew each time.
LAUNCHER = """\
#!/bin/sh
''':'
me=$0
[ -L "$me" ] && me=$(readlink -f -- "$me")
here=${me%/*}
[ -d /dev/stdin ] && exec </dev/null # Python does not start with a folder there
for python in "$here/python" "$here/python3" python3; do
    command -v "$python" >/dev/null 2>&1 && exec "$python" -I -S "$me" "$@"
done
exec "$here/billhook" hook "$@"
'''
import posix, sys
bin = sys.argv[0].rpartition("/")[0]
python = "python%d.%d" % sys.version_info[:2]
places = [bin + "/../lib/" + python + "/site-packages", bin + "/../lib64/" + python + "/site-packages",
          bin + "/../local/lib/" + python + "/dist-packages", bin + "/../lib/python3/dist-packages"]
sys.path += [place + "/billhook/daemon" for place in SOURCE + places]
try:
    from client import main
except BaseException:  # another way of installing, or another Python: slower, and as right
    posix.execv(bin + "/billhook", ["billhook", "hook", *sys.argv[1:]])
posix._exit(main())
"""


class ClientBuildHook(BuildHookInterface):  # type: ignore[type-arg,misc]
    """Runs once per wheel, editable or not."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel" or sys.platform == "win32":
            return
        self.folder = Path(tempfile.mkdtemp(prefix="billhook-build-"))
        program = self.folder / NAME
        source = Path(self.root) / "src" / "billhook" / "daemon" / "client.c"
        if compiled(source, program, self.metadata.version):
            platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
            build_data |= {"pure_python": False, "tag": f"py3-none-{platform}"}
        else:
            # Of an editable install the package is where its source is.
            places = [str(source.parents[2])] if version == "editable" else []
            program.write_text(LAUNCHER.replace("SOURCE", repr(places)), encoding="utf-8")
        program.chmod(0o755)
        build_data["shared_scripts"][str(program)] = NAME

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if hasattr(self, "folder"):
            shutil.rmtree(self.folder, ignore_errors=True)


def compiled(source: Path, program: Path, version: str) -> bool:
    """Whether there is now a program that runs: without a C library where that works, else static, else as it comes.
    Each starts faster than the next."""
    if sys.platform != "linux" or os.environ.get("BILLHOOK_NO_COMPILER"):
        return False
    for compiler in filter(None, (os.environ.get("CC"), "cc", "gcc", "clang")):
        for link in (ALONE, ["-static"], []):
            words = [*compiler.split(), "-O2", "-s", *link, f'-DBILLHOOK_VERSION="{version}"']
            try:
                subprocess.run([*words, "-o", program, source], check=True, capture_output=True, timeout=120)
                if runs(program):
                    return True
            except (OSError, subprocess.SubprocessError):
                continue
    return False


def runs(program: Path) -> bool:
    """A client that can't run would let every call pass: it has to say that it finds no billhook."""
    env = {"PATH": str(program.parent)}
    seen = subprocess.run([program], env=env, input=b"", capture_output=True, timeout=30, check=False)
    return seen.returncode == 2 and seen.stderr.startswith(b"billhook: ")
