"""Commands that can't run, or that others can change: BH401 to BH405, BH511."""

import errno
import os
import shlex
import shutil
import stat
from collections.abc import Iterator

from billhook.config.declared import Declared
from billhook.config.findings import Finding, nearest
from billhook.config.lint.files import Named, named
from billhook.config.lint.found import finding
from billhook.spawn import diagnose
from billhook.unwrap import SHELLS

_WINDOWS = os.name == "nt"


def lint_command(hook: Declared) -> Iterator[Finding]:
    """What is wrong with the programs and scripts that a hook names."""
    for one in named(hook):
        if hook.layer in ("managed", "user") and one.of_project:
            yield _anybodys_script(hook, one)
        elif not one.path:
            yield from _in_path(hook, one)
        else:
            yield from _at_path(hook, one)


def _anybodys_script(hook: Declared, one: Named) -> Finding:
    owner = "the user's own hook" if hook.layer == "user" else "a managed hook"
    message = f"{owner} runs `{one.word}` of whichever project is open"
    home = "~/.claude/hooks" if hook.layer == "user" else "/etc/billhook"
    hint = f"put the script where no project can change it: `{home}/{os.path.basename(one.word)}`"
    return finding(hook, "BH511", "action", message, hint)


def _in_path(hook: Declared, one: Named) -> Iterator[Finding]:
    if shutil.which(one.word) is not None:
        return
    beside = os.path.join(hook.folder, one.word)
    near = nearest(one.word, SHELLS | {"python3", "node", "ruby", "jq", "git", "grep", "npx", "perl"}, 0.8)
    if os.path.isfile(beside):
        hint = f"write `./{one.word}`: the project's folder is not searched"
    elif near and shutil.which(near):
        hint = f"did you mean `{near}`?"
    else:
        hint = f"install `{one.word}`, or give its full path"
    yield finding(hook, "BH403", "action", f"`{one.word}` is not on PATH", hint)


def _at_path(hook: Declared, one: Named) -> Iterator[Finding]:
    if not os.path.exists(one.path):
        yield finding(hook, "BH401", "action", f"`{one.word}` does not exist", _where_it_is(hook, one))
        return
    if os.path.isdir(one.path):
        yield finding(hook, "BH401", "action", f"`{one.word}` is a folder", "name the script in it")
        return
    if not os.path.isfile(one.path):
        return  # a pipe or a device: looking into it could take for ever
    if one.direct and not os.access(one.path, os.X_OK):
        hint = f"chmod +x {shlex.quote(one.path)}"
        yield finding(hook, "BH402", "action", f"`{one.word}` is not executable", hint)
    yield from _cannot_start(hook, one)
    yield from _writable(hook, one)


def _where_it_is(hook: Declared, one: Named) -> str:
    """A file of the same or a near name, in that folder or in those where hooks usually lie."""
    folder, name = os.path.split(one.path)
    for place in (folder, *(os.path.join(hook.folder, sub) for sub in (".claude/hooks", "scripts", "hooks", ""))):
        try:
            names = os.listdir(place)[:1000]
        except OSError:
            continue
        near = name if name in names else nearest(name, names, 0.8)
        if near and os.path.isfile(os.path.join(place, near)):
            inside = os.path.relpath(os.path.join(place, near), hook.folder)
            return f"did you mean `{os.path.join(place, near) if inside.startswith('..') else './' + inside}`?"
    from_where = f"; it starts from {hook.folder}" if one.of_project and hook.folder else ""
    return f"create it, or mend the path{from_where}"


def _cannot_start(hook: Declared, one: Named) -> Iterator[Finding]:
    convert = f"sed -i 's/\\r$//' {shlex.quote(one.path)}"
    if one.direct:
        found = diagnose([one.path], os.environ, None) if os.access(one.path, os.X_OK) else None
        # a shell reads a script without `#!` itself; without a shell it can't start
        if found and not (one.by_shell and found[0] == errno.ENOEXEC):
            what, _, remedy = found[1].partition("; ")
            message = what.replace(f"`{one.path}`", f"`{one.word}`")
            yield finding(hook, "BH405", "action", message, convert if remedy.startswith("convert") else remedy)
    elif one.by_shell and _crlf(one.path):
        yield finding(hook, "BH405", "action", f"`{one.word}` has Windows line ends (CRLF)", convert)


def _crlf(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return b"\r\n" in file.read(4096)
    except OSError:
        return False


def _writable(hook: Declared, one: Named) -> Iterator[Finding]:
    if _WINDOWS:
        return
    folder = os.path.dirname(one.path)
    for path, what in ((one.path, f"`{one.word}`"), (folder, f"the folder of `{one.word}`")):
        try:
            mode = os.stat(path).st_mode
        except OSError:
            continue
        # in a sticky folder such as /tmp nobody can replace another's file
        if mode & stat.S_IWOTH and not (stat.S_ISDIR(mode) and mode & stat.S_ISVTX):
            hint = f"chmod o-w {shlex.quote(path)}"
            yield finding(hook, "BH404", "action", f"everybody can write to {what}", hint)
