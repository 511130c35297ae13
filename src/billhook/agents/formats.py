"""Settings that are not a file of JSON: inside a program, and in YAML."""

import json
import os
import shlex
import textwrap
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from billhook.agents.base import SettingsFormat
from billhook.core.errors import BillhookError

_WRITTEN: Final = ("exec ", "command -v ")  # the beginnings of commands that `install` writes


class InProgram(SettingsFormat):
    """Settings between two marks of a program, which `install` writes as a whole."""

    begin: str
    end: str
    hint = "move it elsewhere: billhook needs a file of this name"

    def read(self, text: str) -> str:
        inside = self.begin in text and self.end in text
        if text.strip() and not inside:
            raise BillhookError("billhook did not write this file", hint=self.hint)
        return text.partition(self.begin)[2].partition(self.end)[0]

    def filled(self, program: str, settings: str) -> str:
        """The program, which is beside this module, with these settings."""
        before, begin, after = source(program).partition(self.begin)
        return before + begin + settings + self.end + after.partition(self.end)[2]


def source(program: str) -> str:
    """A program that is beside this module."""
    with open(os.path.join(os.path.dirname(__file__), program), encoding="utf-8") as file:
        return file.read()


class InYaml(SettingsFormat):
    """The `hooks` of a YAML file, written as JSON; other parts of the file are unchanged. The agent starts commands
    without a shell, so those that `install` writes get one."""

    def read(self, text: str) -> str:
        _, hooks, _ = _parted(text)
        return json.dumps({"hooks": _each(hooks, without_shell)}, indent=2, default=str) + "\n" if hooks else ""

    def write(self, settings: str, text: str) -> str:
        before, _, after = _parted(text)
        hooks = _each((json.loads(settings) if settings.strip() else {}).get("hooks", {}), with_shell)
        written = textwrap.indent(json.dumps(hooks, indent=2, ensure_ascii=False), "  ").lstrip()
        return before + (f"hooks: {written}\n" if hooks else "") + after


def _parted(text: str) -> tuple[str, dict[str, Any], str]:
    """The text before the hooks of a YAML file, the hooks, and the text after them. Raises BillhookError."""
    import yaml

    try:
        root, said = yaml.compose(text, Loader=yaml.SafeLoader), yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise BillhookError(f"can't read the file: {error}", hint="fix the file") from None
    pairs = root.value if isinstance(root, yaml.MappingNode) else []
    if pairs and isinstance(root, yaml.MappingNode) and root.flow_style:
        raise BillhookError("the file is one `{...}`", hint="write each key on its own line")
    for key, value in pairs:
        if key.value == "hooks":
            end = value.end_mark.index
            kept = text[key.start_mark.index : end].rstrip()
            while kept.rpartition("\n")[2].lstrip().startswith("#"):  # comments about the next key
                kept = kept.rpartition("\n")[0].rstrip()
            rest = text[key.start_mark.index + len(kept) :]
            hooks = said["hooks"] if isinstance(said["hooks"], dict) else {}
            return text[: key.start_mark.index], hooks, rest.removeprefix("\r").removeprefix("\n")
    return text + ("\n" if text and not text.endswith("\n") else ""), {}, ""


def _each(hooks: dict[str, Any], change: Callable[[str], str]) -> dict[str, Any]:
    def changed(entry: Any) -> Any:
        command = entry.get("command") if isinstance(entry, dict) else None
        return {**entry, "command": change(command)} if isinstance(command, str) else entry

    return {event: [*map(changed, some)] if isinstance(some, list) else some for event, some in hooks.items()}


def with_shell(command: str) -> str:
    """The command for an agent that starts it without a shell."""
    return f"sh -c {shlex.quote(command)}" if command.startswith(_WRITTEN) else command


def without_shell(command: str) -> str:
    words: list[str] = []
    with suppress(ValueError):
        words = shlex.split(command) if command.startswith("sh -c ") else []
    return words[2] if len(words) == 3 and words[2].startswith(_WRITTEN) else command
