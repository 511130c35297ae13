"""The guard's reasons: what would happen, which part of the call causes it, what to do instead, what would allow it.

The model reads this. The guard allows everything that it advises.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from billhook.core import tools
from billhook.core.errors import RuleError
from billhook.core.events import Event
from billhook.effects import shell
from billhook.effects.effect import Effect
from billhook.effects.rules import Rule, covers
from billhook.effects.tool_inputs import tool_input

if TYPE_CHECKING:
    from billhook.builtins.guard import EffectVerdict

_MOST_REASONS: Final = 3
_MOST_FILES: Final = 3
_MOST_WARNED: Final = 64
_LONGEST: Final = 120
_CONTROL: Final = frozenset(";|&\n")

_BY_USER: Final = "Ask the user to run this in their own terminal."
_TO_A_BRANCH: Final = "Push to another branch, and let the user merge it: `git push origin HEAD:BRANCH`."

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
    "push": "push {target} to a remote",
    "run-remote": "run code from the network that has not been read",
    "remote-shell": "give another machine a shell on this one",
    "run-opaque": "run code that can't be read before it runs",
    "privilege": "give a container or program access to the whole machine",
    "persist": "change what runs automatically from now on ({target})",
    "kill": "end processes that this session did not start ({target})",
    "read-secret": "show the secrets in {target} to the model",
    "upload": "send secrets to {target}",
    "destroy-infra": "destroy infrastructure ({target})",
    "destroy-data": "destroy data ({target})",
    "destroy-container": "delete container data ({target})",
    "publish": "publish {target}",
    "disarm": "change {target}, which billhook's hooks depend on",
}
_WITHOUT_TARGET: Final = {
    "force-push": "overwrite a remote branch",
    "push": "push to a remote",
    "rewrite-history": "rewrite history",
    "permissions": "change the settings of this machine",
    "publish": "publish a package",
    "device": "write to a device",
    "upload": "send secrets to another machine",
}
INSTEAD: Final[dict[str, str]] = {
    "delete": "Delete only what you made, by its path inside the project, or ask the user to run this.",
    "overwrite": "Write to a file in the project or in a temporary folder instead.",
    "write": "Write to a file in the project, and let the user install it.",
    "permissions": "Change the permissions of single files in the project instead: `chmod u+w FILE`.",
    "device": _BY_USER,
    "discard": "Commit or stash the work first: `git stash push -u -m wip`.",
    "rewrite-history": "Make a new commit instead, or a branch first: `git branch backup`.",
    "drop-recovery": "Leave it: git removes unreachable objects after some weeks. `git reflog` shows what is there.",
    "force-push": "Use `git push --force-with-lease origin BRANCH`, or push to another branch: "
    "`git push origin HEAD:BRANCH`.",
    "push": "Commit the work, and let the user push it.",
    "run-remote": "Download it first (`curl -fsSLo install.sh URL`), read it, then run the file.",
    "remote-shell": "Ask the user to open the connection.",
    "run-opaque": "Write the commands as plain text, or put them into a file and run that.",
    "privilege": 'Mount only the folder that is needed: `-v "$PWD:/work"`.',
    "persist": "Show the user the change, and let them make it.",
    "kill": "End single processes by their number: `kill PID`.",
    "read-secret": "Read a template such as `.env.example`, or let the program load it: `set -a; . ./.env; COMMAND`.",
    "upload": "Leave the secret out, or ask the user to send it.",
    "destroy-infra": _BY_USER,
    "destroy-data": f"List what it would delete first. {_BY_USER}",
    "destroy-container": "Remove the container and keep its volumes, or let the user run it.",
    "publish": "Make a dry run first, and let the user publish.",
    "disarm": "Ask the user to change it.",
}


class Words(NamedTuple):
    """The reason for some commands, in place of the reason for all effects of a kind."""

    kind: str
    commands: str  # programs, or programs with a word that follows: `crontab -r`; `|` between them
    happens: str = ""  # "": as for the kind
    instead: str = ""


SPECIAL: Final = (
    Words("force-push", "git --mirror|git --all|git --branches", "overwrite all remote branches", _TO_A_BRANCH),
    Words("delete", "apt|apt-get|dnf|yum|brew|pacman|apk|zypper|dpkg|rpm|snap|flatpak|port",
          "remove {target} from this machine", _BY_USER),
    Words("permissions", "iptables|ip6tables|nft|ufw|firewall-cmd|pfctl", "change the firewall of this machine",
          _BY_USER),
    Words("permissions", "umount", "unmount {target}", _BY_USER),
    Words("permissions", "mount", "mount over {target}", _BY_USER),
    Words("permissions", "setenforce|setsebool|aa-teardown|aa-disable|aa-complain|apparmor_parser|spctl|csrutil",
          "switch off a protection of this machine", _BY_USER),
    Words("permissions", "sysctl|modprobe|rmmod|insmod|ip|route|ifconfig|ifdown|nmcli|rfkill|tc|netsh",
          "change the kernel or the network of this machine", _BY_USER),
    Words("persist", "userdel|useradd|usermod|adduser|deluser|groupadd|groupdel|passwd|chpasswd|visudo|chsh|gpasswd",
          "change the user accounts of this machine ({target})", _BY_USER),
    Words("persist", "crontab -r|crontab -ri", "remove all scheduled jobs of the user",
          f"`crontab -l` shows them. {_BY_USER}"),
    Words("persist", "systemctl|service|launchctl|update-rc.d|chkconfig",
          "change the services of this machine ({target})", _BY_USER),
    Words("kill", "shutdown|reboot|halt|poweroff|init|telinit|systemctl reboot|systemctl poweroff|systemctl halt",
          "shut down this machine", _BY_USER),
    Words("kill", "systemctl|service|launchctl|rc-service", "stop services of this machine ({target})", _BY_USER),
    Words("kill", "fork bomb", "start commands without end",
          "Let each round end before the next one: `for i in 1 2 3; do COMMAND; done`."),
    Words("kill", "aws|gcloud|az", "stop machines that others may use ({target})", _BY_USER),
    Words("permissions", "aws|gcloud|gsutil|kubectl|oc", "change who has access to {target}", _BY_USER),
    Words("read-secret", "echo|printf", instead="Use it where it is needed. `test -n \"$NAME\" && echo set` shows that "
          "it is set."),
    Words("destroy-data", "psql|mysql|mariadb|sqlite3|sqlcmd|duckdb|clickhouse-client|cockroach|usql|mycli|pgcli",
          instead="Limit it to single rows (`DELETE ... WHERE`), or let the user run it after a backup."),
    Words("destroy-data", "redis-cli|valkey-cli", "delete all keys of a database",
          "Delete single keys (`redis-cli DEL KEY`), or let the user run it."),
    Words("destroy-data", "aws s3", instead="List what it would delete (`--dryrun`), and let the user run it."),
    Words("destroy-infra", "terraform|tofu|terragrunt",
          instead="Show what it would destroy (`terraform plan -destroy`), and let the user run it."),
    Words("destroy-infra", "kubectl", instead="Make a dry run (`--dry-run=client`), and let the user run it."),
    Words("drop-recovery", "git stash", "delete stashed work",
          "`git stash list` shows the stashes, `git stash apply` restores the last one. Ask the user to delete one."),
    Words("drop-recovery", "git branch", "delete the branch {target}, even if its commits are nowhere else",
          "Use `git branch -d BRANCH`, which refuses to delete commits that are not merged."),
    Words("drop-recovery", "git update-ref|git symbolic-ref", "delete {target}, even if its commits are nowhere else",
          "Delete a merged branch with `git branch -d BRANCH`, which refuses to lose commits."),
)  # fmt: skip


def reason(judged: "list[EffectVerdict]", line: str = "") -> str:
    """The guard's reason for a call: its worst effects, then the advice for the first of them.

    `line` is the call itself. An effect that comes from elsewhere, such as a script, names what runs it."""
    told = [each for each in judged[:_MOST_WARNED] if not _was_read(each, judged)]
    shown = list(dict.fromkeys(sentence(each, line) for each in told))
    more = f" And {len(shown) - _MOST_REASONS} more effects." if len(shown) > _MOST_REASONS else ""
    discards = [each for each in told if each.keeps and each.effect.kind == told[0].effect.kind == "discard"]
    first = max(discards, key=lambda each: "--all" in each.keeps, default=told[0])  # which keeps what all of them lose
    return f"{' '.join(shown[:_MOST_REASONS])}{more} {instead(first)}".rstrip()


def _was_read(judged: "EffectVerdict", others: "list[EffectVerdict]") -> bool:
    """Whether decoded text was read nevertheless: then other effects describe what it does."""
    effect = judged.effect
    decoded = effect.kind == "run-opaque" and "decoded" in effect.why
    return decoded and any(each.effect.via[:1] == effect.via[-1:] for each in others if each is not judged)


def sentence(judged: "EffectVerdict", line: str = "") -> str:
    """`git reset --hard` would discard 3 modified files (`src/a.py`, ...)."""
    effect = judged.effect
    if effect.kind == "disarm":
        return effect.why + "."
    would = "would" if effect.certain else "may"
    what = _happens(effect).format(target=_target(effect), lost=_lost(judged) or "uncommitted work")
    lost = f", with {_lost(judged)}" if judged.lost and effect.kind != "discard" else ""
    why = f" ({effect.why})" if effect.why and not effect.certain else ""
    return f"{_cause(effect, line)} {would} {what}{lost}{why}."


def _cause(effect: Effect, line: str) -> str:
    """The part of the call that causes the effect; for a script or a recipe, also the command that runs it."""
    cause = _short(effect.cause or " ".join(effect.via))
    if not cause:
        return "This call"
    above = effect.via[:-1]
    if not above or not line or " ".join(effect.cause.split()) in " ".join(line.split()):
        return f"`{cause}`"
    is_plain = len(line) <= _LONGEST and _CONTROL.isdisjoint(line)
    return f"`{cause}`, which `{_short(line if is_plain else above[-1])}` runs,"


def _happens(effect: Effect) -> str:
    special = _special(effect)
    if effect.kind == "force-push" and _deletes(effect):
        return "delete the remote branch {target}"
    text = special.happens if special and special.happens else HAPPENS[effect.kind]
    if effect.shown:
        return text
    plain = text.replace(" ({target})", "")
    return plain if plain != text or "{target}" not in text else _WITHOUT_TARGET.get(effect.kind, text)


def _special(effect: Effect) -> Words | None:
    words = effect.cause.split()
    program = "".join(effect.via[-1:])
    keys = {program, *(f"{program} {word}" for word in words)}
    found = (row for row in SPECIAL if row.kind == effect.kind and not keys.isdisjoint(row.commands.split("|")))
    return next(found, None)


def _deletes(effect: Effect) -> bool:
    """Whether a push deletes the branch: `git push origin --delete x`, `git push origin :x`."""
    words = effect.cause.split()
    return not {"--delete", "-d", f":{effect.target}", f":refs/heads/{effect.target}"}.isdisjoint(words)


def instead(judged: "EffectVerdict") -> str:
    effect = judged.effect
    special = _special(effect)
    if effect.kind == "discard":
        return _before_discarding(judged)
    if effect.kind == "delete" and effect.scope == "project":
        return _before_deleting(judged)
    if effect.kind == "force-push" and _deletes(effect):
        return "Ask the user to delete it."
    if effect.kind == "force-push" and effect.weight == "heavy":
        return _TO_A_BRANCH
    if effect.kind == "read-secret" and ".env" not in effect.target and not special:
        return "Let the program that needs the file read it. `ls -l FILE` shows that it exists."
    if effect.kind == "disarm" and not effect.target:
        return ""  # billhook's own verbs and packages: the reason already names who can run them
    return special.instead if special else INSTEAD[effect.kind]


def _before_discarding(judged: "EffectVerdict") -> str:
    if judged.keeps:
        return f"Keep the work first: `{judged.keeps}`."
    if judged.effect.certain:
        return _BY_USER
    return "Stash instead: `git stash push -u -m wip` leaves the same files and keeps the work."


def _before_deleting(judged: "EffectVerdict") -> str:
    if judged.keeps:
        return f"Keep the work first (`{judged.keeps}`), or delete single files by name."
    if not judged.effect.certain:
        return "Use `git rm -r FOLDER`, which refuses to delete changed files."
    if judged.lost and not judged.in_git:
        return "Nothing can restore it. Delete single files by name, or ask the user to run this."
    if ".git" in judged.effect.target.split("/"):
        return f"It holds all commits, branches and stashes. {_BY_USER}"
    return "Delete the folders that you mean by name, such as `rm -rf build`. `.git` holds all commits and stashes."


def _target(effect: Effect) -> str:
    return f"`{_short(effect.shown)}`" if effect.shown else "it"


def _lost(judged: "EffectVerdict") -> str:
    names = judged.lost
    if not names:
        return ""
    if not judged.in_git:
        return "content that no repository holds"
    count = f"{len(names)} file{'s' if len(names) != 1 else ''} with uncommitted work"
    shown = ", ".join(f"`{_short(name)}`" for name in names[:_MOST_FILES])
    return f"{count} ({shown}{', …' if len(names) > _MOST_FILES else ''})"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"


# the permission rules that allow one call that the guard stops

_MOST_RULES: Final = 3
_LONGEST_RULE: Final = 200
_NO_RULE: Final = "No permission rule can allow exactly this call; the user can run it in their own terminal."
_LONGEST_LINE: Final = 4_096


def rules_for(event: Event) -> tuple[str, ...]:
    """Rules that allow exactly this call. Empty where no rule can, for example for a line with a redirection."""
    name = tools.canonical(getattr(event, "tool_name", ""))
    given = getattr(event, "tool_input", None)
    if name.startswith("mcp__"):
        return (name,) if is_known_by_name(name, given) and Rule.parse(name).is_naming else ()
    command = tools.command_of(name, given)
    if command is not None and len(command) > _LONGEST_LINE:  # its rules would be too long or too many
        return ()
    wanted = _commands(command) if command is not None else list(tools.paths_of(name, given))
    rules = tuple(dict.fromkeys(f"{name}({text})" for text in wanted))
    if len(rules) > _MOST_RULES or any(len(rule) > _LONGEST_RULE or not rule.isprintable() for rule in rules):
        return ()
    try:
        allows = covers(map(Rule.parse, rules), name, given, event.cwd)
    except RuleError:
        return ()
    return rules if allows else ()


def how_to_allow(rules: Sequence[str], place: str) -> str:
    """The sentence for the user: the rules, and where to add them."""
    named = " and ".join(f"`{rule}`" for rule in rules)
    return f"To allow it, the user can add {named} to {place}." if rules else _NO_RULE


def is_known_by_name(name: str, given: object) -> bool:
    """Whether the name of a tool tells what a call does. A tool that runs shell lines, code or SQL may do anything."""
    said = tool_input(name, given)
    return not (said.lines or said.code or said.sql)


def _commands(line: str) -> list[str]:
    """Each command of a line as a pattern that matches it alone."""
    texts = [" ".join((*one.assignments, *one.words)) for one in shell.parse(line).commands if not one.transparent]
    return [text.replace("\\", "\\\\").replace("*", "\\*") for text in texts if text]
