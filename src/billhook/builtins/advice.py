"""The guard's words: what would happen, which part of the call does it, and what to do instead.

The model reads this. Each advice is something that the guard itself lets through.
"""

from typing import TYPE_CHECKING, Final

from billhook.effects.effect import Effect

if TYPE_CHECKING:
    from billhook.builtins.guard import Judged

_MOST_REASONS: Final = 3
_MOST_FILES: Final = 3
_LONGEST: Final = 120

HAPPENS: Final[dict[str, str]] = {
    "delete": "delete {target}",
    "overwrite": "overwrite {target}",
    "write": "write to {target}",
    "permissions": "change the permissions of {target}",
    "device": "write to the device {target}",
    "discard": "discard {lost}",
    "rewrite-history": "rewrite the history of {target}",
    "drop-recovery": "remove what git keeps for recovery ({target})",
    "force-push": "overwrite the remote branch {target}",
    "run-remote": "run code from the network that has not been read",
    "remote-shell": "give another machine a shell on this one",
    "run-opaque": "run code that can't be read before it runs",
    "privilege": "give a container or program access to the whole machine",
    "persist": "change what runs later by itself ({target})",
    "kill": "end processes it did not start ({target})",
    "read-secret": "show the secrets in {target} to the model",
    "upload": "send secrets to {target}",
    "destroy-infra": "destroy infrastructure ({target})",
    "destroy-data": "destroy data ({target})",
    "destroy-container": "delete container data ({target})",
    "publish": "publish {target}",
    "disarm": "change {target}, which billhook's hooks depend on",
}
_WITHOUT_TARGET: Final = {"force-push": "overwrite a remote branch", "rewrite-history": "rewrite history"}
INSTEAD: Final[dict[str, str]] = {
    "delete": "Delete only what you made, by its path inside the project, or ask the user to run this.",
    "overwrite": "Write to a file in the project or in a temporary folder instead.",
    "write": "Write to a file in the project, and let the user install it.",
    "permissions": "Change the permissions of single files in the project instead: `chmod u+w FILE`.",
    "device": "Ask the user to run this in a terminal of their own.",
    "discard": "Commit or stash them first: `git stash push -u -m wip`.",
    "rewrite-history": "Make a new commit instead, or a branch first: `git branch backup`.",
    "drop-recovery": "Leave it: git removes it by itself later. `git stash list` and `git reflog` show what is there.",
    "force-push": "Push to a branch of your own: `git push origin HEAD:BRANCH`, or use `--force-with-lease` there.",
    "run-remote": "Download it first (`curl -fsSLo install.sh URL`), read it, then run the file.",
    "remote-shell": "Ask the user to open the connection.",
    "run-opaque": "Write the commands out as they are, or put them into a file and run that.",
    "privilege": 'Mount only the folder that is needed: `-v "$PWD:/work"`.',
    "persist": "Show the user the line, and let them add it.",
    "kill": "End the process by its number: `kill PID`.",
    "read-secret": "Read a template such as `.env.example`, or let the program load it: `set -a; . ./.env; COMMAND`.",
    "upload": "Leave the secret out, or ask the user to send it.",
    "destroy-infra": "Show what it would do first (a plan or a dry run), and let the user run it.",
    "destroy-data": "Make a backup and limit it (`DELETE ... WHERE`), or let the user run it.",
    "destroy-container": "Remove the container and keep its volumes, or let the user run it.",
    "publish": "Make a dry run first, and let the user publish.",
    "disarm": "Ask the user to change it.",
}


def reason(judged: "list[Judged]") -> str:
    """What the guard says about a call: its worst effects, then the advice for the first of them."""
    shown = list(dict.fromkeys(map(sentence, judged)))
    more = f" And {len(shown) - _MOST_REASONS} more effects." if len(shown) > _MOST_REASONS else ""
    return f"{' '.join(shown[:_MOST_REASONS])}{more} {instead(judged[0])}".rstrip()


def sentence(judged: "Judged") -> str:
    """`git reset --hard` would discard 3 modified files (`src/a.py`, ...)."""
    effect = judged.effect
    if effect.kind == "disarm":
        return effect.why + "."
    would = "would" if effect.certain else "may"
    text = HAPPENS[effect.kind]
    if not effect.shown:
        text = _WITHOUT_TARGET.get(effect.kind, text.replace(" ({target})", ""))
    what = text.format(target=_target(effect), lost=_lost(judged) or "uncommitted work")
    lost = f", with {_lost(judged)}" if judged.lost and effect.kind != "discard" else ""
    why = f" ({effect.why})" if effect.why and not effect.certain else ""
    return f"`{_short(effect.cause or ' '.join(effect.via))}` {would} {what}{lost}{why}."


def instead(judged: "Judged") -> str:
    effect = judged.effect
    if effect.kind == "delete" and effect.scope == "project":
        if judged.lost:
            return "Commit or stash it first (`git stash push -u -m wip`), or delete single files by name."
        return "Delete the folders that you mean by name, such as `rm -rf build`."
    if effect.kind == "disarm" and not effect.target:
        return ""  # billhook's own verbs and packages: the sentence says who can run it
    return INSTEAD[effect.kind]


def _target(effect: Effect) -> str:
    return f"`{_short(effect.shown)}`" if effect.shown else "it"


def _lost(judged: "Judged") -> str:
    names = judged.lost
    if not names:
        return ""
    count = f"{len(names)} file{'s' if len(names) != 1 else ''} with uncommitted work"
    shown = ", ".join(f"`{_short(name)}`" for name in names[:_MOST_FILES])
    return f"{count} ({shown}{', …' if len(names) > _MOST_FILES else ''})"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"
