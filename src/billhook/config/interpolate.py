"""`${VAR}` and `${VAR:-default}` in hooks.yaml, put in when a hook is about to be made and never before it may run.

Text that a shell reads is left alone: the shell knows both forms itself, and a value that was put into its text could
become code.
"""

import re
from collections.abc import Callable, Mapping

import msgspec

from billhook.config.declared import Action, Declared, Exec, Python, Say, Url
from billhook.later import pattern

_VARIABLE = pattern(r"\$(\$)?\{([A-Za-z_][A-Za-z0-9_]*)(?::-((?:[^{}\\]|\\.)*))?\}")


class UnsetError(Exception):
    """A variable that is not set, and has no default."""


class Values:
    """The variables of one load. Notes which were asked for, so that a cached result knows what it depends on."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env
        self.used: dict[str, str | None] = {}

    def fill(self, text: str, folder: str = "") -> str:
        """The text with its variables put in; `$${VAR}` stays as `${VAR}`. UnsetError names one that is missing."""
        return _VARIABLE.sub(lambda found: self._value(found, folder), text) if "${" in text else text

    def _value(self, found: re.Match[str], folder: str) -> str:
        escaped, name, default = found.groups()
        if escaped:
            return found[0][1:]
        if name == "CLAUDE_PROJECT_DIR":  # the hook's own project, whatever is set outside
            return folder
        value = self.used[name] = self._env.get(name)
        if value or (value is not None and default is None):
            return value
        if default is None:
            raise UnsetError(name)
        return str(default)


def interpolated(declared: Declared, values: Values) -> Declared:
    """The hook with its variables put in. Only hooks.yaml has them; elsewhere the text means itself."""
    if declared.shape != "yaml":
        return declared

    def fill(text: str) -> str:
        return values.fill(text, declared.folder)

    return msgspec.structs.replace(
        declared,
        action=_filled(declared.action, fill),
        match=None if declared.match is None else fill(declared.match),
        when=fill(declared.when),
        title=fill(declared.title),
    )


def _filled(action: Action | None, fill: Callable[[str], str]) -> Action | None:
    match action:
        case Exec(argv):
            return Exec(tuple(fill(word) for word in argv))
        case Python(target, interpreter):
            return Python(fill(target), fill(interpreter))
        case Url(url, headers, allowed_env):
            return Url(fill(url), headers, allowed_env)  # headers take only what is allowed to them, at each call
        case Say(decision, text):
            return Say(decision, fill(text))
        case _:
            return action
