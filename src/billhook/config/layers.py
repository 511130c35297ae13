"""Layers add up. A less trusted one can only tighten: it can't switch off, loosen or shorten what a more trusted one
set, whatever it says."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from billhook.config import builtin_options
from billhook.config.declared import LAYERS, Declared, Layer, needs_consent
from billhook.config.fields import BUILTINS
from billhook.config.shapes import Builtin, FileRead
from billhook.core.text import Finding

if TYPE_CHECKING:
    from billhook.config.build import Limits

ALWAYS_ON = frozenset({"self-protection"})  # no file switches these off
_STRICTNESS = {"allow": 0, "ask": 1, "deny": 2}


def rank(layer: Layer) -> int:
    """0 is the most trusted."""
    return LAYERS.index(layer)


def switched_off(reads: Sequence[FileRead]) -> tuple[list[Declared], list[str], list[Finding]]:
    """All entries; for each, why it is switched off, if it is; and the attempts that came from a layer which can't.

    An entry that a file of the project switches off says so itself from here on (`enabled`): that somebody switched off
    what was approved is a change like any other, and of a gate one that has to be approved.
    """
    entries = [entry for read in reads for entry in read.entries]
    off: dict[int, tuple[Layer, str]] = {}
    findings: list[Finding] = []
    for read in reads:
        if read.disable_all:
            line, _ = read.places.get("disableAllHooks", (1, 1))
            why = f"`disableAllHooks` in {read.source.path}:{line}"
            for i, entry in enumerate(entries):
                if rank(entry.layer) >= rank(read.source.layer):
                    off.setdefault(i, (read.source.layer, why))
    by_name: dict[str, list[int]] = defaultdict(list)
    for i, entry in enumerate(entries):
        by_name[entry.name].append(i)
    for i, switch in enumerate(entries):
        if switch.enabled or switch.broken:
            continue
        why = f"`enabled: false` in {switch.place}"
        off.setdefault(i, (switch.layer, why))
        for j in by_name[switch.name] if switch.named and switch.action is None else ():
            entry = entries[j]
            if rank(entry.layer) >= rank(switch.layer):
                off.setdefault(j, (switch.layer, why))
            elif entry.enabled:
                line, column = switch.places.get("enabled", (switch.line, switch.column))
                what = f"`{entry.name}` of the {entry.layer} layer ({entry.place})"
                message, hint = f"a {switch.layer} file can't switch off {what}", "switch it off there, or remove this"
                findings.append(Finding("BH215", message, switch.file, line, column, hint, switch.name))
    for i, (layer, _) in off.items():
        if needs_consent(layer) and entries[i].enabled:
            entries[i] = msgspec.structs.replace(entries[i], enabled=False)
    return entries, [off[i][1] if i in off else "" for i in range(len(entries))], findings


def parallel(reads: Sequence[FileRead]) -> bool:
    """Whether hooks run at once. A file's `true` counts only where every more trusted file that declares hooks says so,
    too: run at once, hooks see the original input only, and that would loosen those that rely on their order."""
    for layer in reversed(LAYERS):
        own = [read for read in reads if read.source.layer == layer]
        if not any(read.parallel for read in own) or any(read.parallel is False for read in own):
            continue
        above = [read for read in reads if rank(read.source.layer) < rank(layer)]
        if all(read.parallel is True or (read.parallel is None and not read.entries) for read in above):
            return True
    return False


def builtin_settings(reads: Sequence[FileRead]) -> tuple[dict[str, Builtin], list[Finding]]:
    """What holds for each built-in: the most trusted file that says something of a key decides it. What a project
    asks for counts only where it tightens."""
    settled = {name: Builtin(name) for name in BUILTINS}
    findings: list[Finding] = []
    for read in sorted(reads, key=lambda read: rank(read.source.layer)):
        for said in read.builtins:
            so_far = settled[said.name]
            enabled = said.enabled
            if enabled is False and (said.name in ALWAYS_ON or needs_consent(read.source.layer)):
                who = "no file" if said.name in ALWAYS_ON else f"no {read.source.layer} file"
                message = f"{who} can switch off the built-in `{said.name}`"
                hint = "remove it" if said.name in ALWAYS_ON else "switch it off in your own hooks.yaml"
                findings.append(Finding("BH215", message, read.source.path, said.line, said.column, hint))
                enabled = None
            of_project = needs_consent(read.source.layer)
            kept = dict(said.options)
            for option in builtin_options.refused(said.name, kept) if of_project else ():
                message = f"a {read.source.layer} file can't set `{option}` of `{said.name}` to that"
                hint = "remove it, or set it in your own hooks.yaml"
                findings.append(Finding("BH215", message, read.source.path, said.line, said.column, hint))
                del kept[option]
            settled[said.name] = msgspec.structs.replace(
                so_far,
                enabled=so_far.enabled if so_far.enabled is not None else enabled,
                options=builtin_options.merged(said.name, so_far.options, kept),
                broken=so_far.broken or ("" if of_project else said.broken and f"{read.source.path}: {said.broken}"),
            )
    return settled, findings


def limits(reads: Iterable[FileRead], layer: Layer) -> "Limits":
    """The allow-lists for the HTTP hooks of a layer: that layer's and every more trusted one's have to agree."""
    from billhook.config.build import Limits

    reads = list(reads)
    urls: list[tuple[str, ...]] = []
    header_env: list[tuple[str, ...]] = []
    for above in LAYERS[: rank(layer) + 1]:
        own = [read for read in reads if read.source.layer == above]
        lists = [read.allowed_urls for read in own if read.allowed_urls is not None]
        names = [read.allowed_header_env for read in own if read.allowed_header_env is not None]
        if lists:
            urls.append(tuple(pattern for some in lists for pattern in some))
        if names:
            header_env.append(tuple(name for some in names for name in some))
    return Limits(tuple(urls), tuple(header_env))


def what(entry: Declared) -> tuple[object, ...]:
    """What makes two hooks of different layers the very same one."""
    when = (entry.events, entry.match, entry.when, entry.background, entry.always)
    return (entry.action, when, entry.dialect, entry.folder)


def stricter(one: Declared, other: Declared) -> Declared:
    """The first, with the stricter failure rule of both."""
    if _STRICTNESS[other.on_failure] <= _STRICTNESS[one.on_failure]:
        return one
    return msgspec.structs.replace(one, on_failure=other.on_failure)
