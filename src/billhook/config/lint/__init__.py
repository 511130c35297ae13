"""What a configuration can be read as, but was hardly meant as: BH3xx, BH4xx and BH5xx.

`lint` looks at hooks as files declare them. It reads the scripts that they name, and runs nothing.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from billhook.config.declaration import Declared, Exec, RunAction
from billhook.config.lint.codes import finding
from billhook.config.lint.commands import lint_command, lint_exits, lint_module
from billhook.config.lint.hooks import lint_timing, lint_url
from billhook.config.lint.matchers import lint_match
from billhook.config.lint.rules import lint_rules
from billhook.config.lint.shell_text import lint_bash, lint_variables
from billhook.core.text import Finding

_OF_ONE: tuple[Callable[[Declared], Iterable[Finding]], ...] = (
    lint_match,
    lint_command,
    lint_module,
    lint_timing,
    lint_exits,
    lint_url,
    lint_bash,
)


def lint(entries: Sequence[Declared], variables: Mapping[str, frozenset[str]] = MappingProxyType({})) -> list[Finding]:
    """Every finding, sorted by place, but for hooks that are switched off or broken. `variables`: by file, those that
    it sets for all its hooks."""
    hooks = [entry for entry in entries if entry.enabled and entry.action is not None]
    found = [finding for hook in hooks for look in _OF_ONE for finding in look(hook)]
    found += [one for hook in hooks for one in lint_variables(hook, variables.get(hook.file, frozenset()))]
    found += lint_rules(hooks)
    found += _two_dialects(hooks)
    # one matcher of a group is the matcher of all its handlers
    distinct = {(one.code, one.file, one.line, one.column, one.message): one for one in reversed(found)}
    return sorted(distinct.values(), key=lambda one: (one.file, one.line, one.column, one.code))


def _two_dialects(hooks: Sequence[Declared]) -> Iterator[Finding]:
    """BH507: the same exit code means one thing here and another thing some lines below."""
    seen: dict[str, list[Declared]] = {}
    for hook in hooks:
        others = seen.setdefault(hook.file, [])
        if (
            not hook.file
            or not isinstance(hook.action, RunAction | Exec)
            or hook.dialect in {one.dialect for one in others}
        ):
            continue
        if others:
            message = f"`{hook.dialect}` and `{others[0].dialect}` in one file: exit codes mean different things"
            hint = f"move it to a file of its own, or speak one dialect in all of it, as line {others[0].line} does"
            yield finding(hook, "BH507", "dialect", message, hint)
        others.append(hook)
