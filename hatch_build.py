"""The build hook: `billhook-hook`, compiled into a platform wheel, or as a shell script into a pure one.

Runs for every wheel, editable or not. BILLHOOK_NO_COMPILER=1 makes the pure wheel even if there is a compiler.
"""

import os
import platform
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
"""Without a C library: alone.h replaces it."""
PORTABLE = ["-DBILLHOOK_PORTABLE"]


class ClientBuildHook(BuildHookInterface):  # type: ignore[type-arg,misc]
    """Runs once per wheel, editable or not."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel" or sys.platform == "win32":
            return
        self.folder = Path(tempfile.mkdtemp(prefix="billhook-build-"))
        program = self.folder / NAME
        source = Path(self.root) / "src" / "billhook" / "serve" / "client" / "client.c"
        if compiled(source, program, self.metadata.version):
            build_data |= {"pure_python": False, "tag": f"py3-none-{platform_tag()}"}
        else:
            shutil.copy(source.with_name("launcher.sh"), program)
        program.chmod(0o755)
        build_data["shared_scripts"][str(program)] = NAME

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if hasattr(self, "folder"):
            shutil.rmtree(self.folder, ignore_errors=True)


def platform_tag() -> str:
    """On macOS the compiler builds only for this machine, whatever Python was built for."""
    if sys.platform == "darwin":
        return f"macosx_{platform.mac_ver()[0].partition('.')[0]}_0_{platform.machine()}"
    return sysconfig.get_platform().replace("-", "_").replace(".", "_")


def compiled(source: Path, program: Path, version: str) -> bool:
    """Compile; returns whether the program runs. On Linux: without a C library if that works, else static, else
    dynamic. Each starts faster than the next."""
    if os.environ.get("BILLHOOK_NO_COMPILER"):
        return False
    kinds = [["-s", *ALONE], ["-s", "-static"], ["-s"]] if sys.platform == "linux" else [PORTABLE]
    for compiler in filter(None, (os.environ.get("CC"), "cc", "gcc", "clang")):
        for kind in kinds:
            words = [*compiler.split(), "-O2", *kind, f'-DBILLHOOK_VERSION="{version}"']
            try:
                subprocess.run([*words, "-o", program, source], check=True, capture_output=True, timeout=120)
                if runs(program):
                    return True
            except (OSError, subprocess.SubprocessError):
                continue
    return False


def runs(program: Path) -> bool:
    """Whether the client runs: it must report that it finds no billhook. A broken client would allow every call."""
    env = {"PATH": str(program.parent)}
    seen = subprocess.run([program], env=env, input=b"", capture_output=True, timeout=30, check=False)
    return seen.returncode == 2 and seen.stderr.startswith(b"billhook: ")
