"""Entries of agents' files that are billhook itself: loaded as hooks, they would only call us again."""

import os
import re
from collections.abc import Sequence
from typing import Final

from billhook.config.declared import Action, Exec, Run, Url
from billhook.core.dialect_traits import MEANINGS
from billhook.effects import shell


def is_billhook(action: Action | None) -> bool:
    """Whether it runs billhook as an agent's hook, and nothing else."""
    match action:
        case Run(text) if "billhook" in text:
            commands = [command.words for command in shell.parse(_IF_MISSING.sub("", text)).commands if command.words]
            asked = [words for words in commands if words[:2] != ("command", "-v")]  # is it installed?
            return bool(asked) and all(map(_calls_us, asked))
        case Exec(argv):
            return _calls_us(argv)
        case Url(url):
            return _OUR_ADDRESS.fullmatch(url) is not None
        case _:
            return False


def _calls_us(words: Sequence[str]) -> bool:
    """`billhook-hook`, `billhook hook --as ...`, also through `python -m`, `uvx` and their like; not a local file."""
    if not words or words[0].startswith((".", "~")):
        return False
    names = [os.path.basename(word) for word in words]
    if names[0] in _RUNNERS or names[0].startswith("python"):
        at = next((i for i, name in enumerate(names) if name in ("billhook", "billhook-hook")), len(names))
        names = names[at:]
    if names[:1] == ["billhook-hook"]:
        return True
    return names[:2] == ["billhook", "hook"] and any(name.startswith("--as") for name in names)


_OUR_ADDRESS: Final = re.compile(
    rf"https?://(?:127\.0\.0\.1|localhost|\[::1\])(?::\d+)?/hook/(?:{'|'.join(MEANINGS)})(?:\?.*)?"
)
"""Where the daemon answers agents over HTTP: asked by ourselves, it would ask the same hooks once more."""
_IF_MISSING: Final = re.compile(r"\Acommand -v [^|&;]+ >/dev/null 2>&1 \|\| (?:exit 0|\{ .+? \}); (?=exec )", re.DOTALL)
"""What an entry says that acts where billhook is missing, before it runs billhook."""
_RUNNERS: Final = frozenset({"uvx", "uv", "pipx", "env", "exec"})
