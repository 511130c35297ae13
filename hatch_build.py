"""The build hook: the place where one small C program will be compiled into the wheel.

There is nothing to compile yet, so every wheel is pure Python.
"""

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ClientBuildHook(BuildHookInterface):  # type: ignore[type-arg,misc]
    """Runs once per wheel, editable or not."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        build_data["pure_python"] = True
