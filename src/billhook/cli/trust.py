"""`billhook trust`: what came with a repository runs only after its user has read it and said yes."""

import re
import shutil
import sys
from collections.abc import Sequence

import click

from billhook.cli.chosen import chosen
from billhook.cli.inside_agent import agent_around
from billhook.cli.lookalikes import marked
from billhook.cli.show import hint, note, say, say_json
from billhook.cli.table import unreadable
from billhook.cli.trust_permissions import rules_called, rules_summary
from billhook.cli.trust_screen import Pending, as_data, covered_texts, screen, unseen
from billhook.cli.trusted import acknowledge_gone, list_approvals, revoke
from billhook.config import Config, configured, load_config
from billhook.config.approving import ChangedError, approve_entry, approve_rules, record_trust
from billhook.config.permitting import Waiting
from billhook.errors import UsageError
from billhook.store.approvals import Approval
from billhook.text import counted, suggest

_WHOLE = re.compile(r"[0-9a-f]{64}")
_CHOICES = """\
y       approve exactly what is shown
n       leave it as it is; so does Enter
v       view the other code files that are covered
q       stop here
?       show this help
unseen  approve it although a file that it names can't be shown"""


@click.command(
    "trust",
    epilog="""\b
Examples:
  billhook trust                    show each hook that waits, and ask
  billhook trust lint no-destroy    only these
  billhook trust --all --yes        approve everything that waits here
  billhook trust --list             what was approved here
  billhook trust --revoke lint      take an approval back
  billhook trust --acknowledge      stop reporting gates that are gone

\b
Exit code: 0 done, nothing waits any more; 1 something still waits; 2 usage, or refused.""",
)
@click.argument("hooks", nargs=-1, metavar="[NAME|HASH ...]")
@click.option("--all", "everything", is_flag=True, help="Every hook that waits; with --list, every project.")
@click.option("--yes", is_flag=True, help="Approve what is named, or --all, without asking.")
@click.option(
    "--revoke", "revoking", is_flag=True, help="Take approvals back: of what is named, or --all of this project."
)
@click.option("--acknowledge", is_flag=True, help="Stop reporting gates that are no longer in force.")
@click.option("--list", "listing", is_flag=True, help="Show what was approved.")
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON for each hook.")
def verb(
    hooks: tuple[str, ...],
    everything: bool,
    yes: bool,
    revoking: bool,
    acknowledge: bool,
    listing: bool,
    as_json: bool,
) -> int:
    """Show the hooks that came with this project and wait for approval, each in full, and ask about each; and likewise
    the permission rules of its settings files that let an agent's calls run without asking.

    Exactly what is shown is approved: a hook's definition, the files that it names, and the code files beside its
    scripts. When one of them changes, the hook waits again, and a gate blocks what it would have judged until then. A
    whole HASH approves without asking.
    """
    if hooks and everything:
        raise UsageError("name hooks, or say --all", hint="leave one of them out")
    config = load_config(builtins=False)
    if listing:
        return list_approvals(config, hooks, everywhere=everything, as_json=as_json)
    if revoking:
        _refuse_agents("--revoke")
        return revoke(config, hooks, everything=everything, as_json=as_json)
    if acknowledge:
        _refuse_agents("--acknowledge")
        return acknowledge_gone(config, hooks, as_json=as_json)
    if yes and not hooks and not everything:
        raise UsageError("--yes approves what?", hint="name hooks, or say --all")
    whole = [word for word in hooks if _WHOLE.fullmatch(word)]
    if yes or whole:
        _refuse_agents("--yes" if yes else "a hash")
    wanted = _wanted(config, hooks)
    sure = wanted if yes else [one for one in wanted if one.hash in whole]
    return _Going(config, wanted, sure, as_json=as_json).through()


def _refuse_agents(what: str) -> None:
    if agent := agent_around():
        raise UsageError(
            f"{what} is refused here: this runs inside {agent}, and consent is a person's to give",
            hint="run it yourself, in a terminal of your own",
        )


def _wanted(config: Config, words: Sequence[str]) -> list[Pending]:
    """What waits and was named; all of it when nothing was."""
    if not words:
        return [*config.pending, *config.permissions.pending]
    found: dict[int, Pending] = {}
    for word in words:
        entries = chosen(config, word)
        if not entries and (rules := rules_called(config, word)) is not None:
            if not rules:
                note(f"`{word}` is approved already")
            found |= {id(one): one for one in rules}
            continue
        if not entries:
            names = [entry.shown for entry in config.entries if entry.hash]
            hint = suggest(word, names) if names else "no hook of this project needs approval"
            raise UsageError(f"no hook of this project is called `{word}`", hint=hint)
        pending = [entry for entry in entries if entry.pending]
        if not pending:
            note(f"`{word}` is {'switched off' if entries[0].state == 'off' else 'approved already'}")
        found |= {id(entry): entry for entry in pending}
    return list(found.values())


class _Going:
    """Going through what waits, one decision for each."""

    def __init__(self, config: Config, wanted: list[Pending], sure: list[Pending], *, as_json: bool) -> None:
        self.config, self.wanted, self.as_json = config, wanted, as_json
        self.sure = {id(one) for one in sure}
        self.approved: list[Pending] = []
        self.approvals: list[Approval] = []
        self.changed = False
        self.over = False
        self.agent = ""
        self.asks = not as_json and sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()
        if self.asks and (agent := agent_around()):
            self.asks, self.agent = False, agent

    def through(self) -> int:
        for text in configured.doubts(self.config):
            note(f"approvals that can't be believed don't count: {text}")
        for number, one in enumerate(self.wanted, 1):
            if not self.as_json:
                self._show(screen(one, number, len(self.wanted)) + "\n")
            agreed = id(one) in self.sure or (self.asks and not self.over and self._answered(one))
            approved = not self.over and agreed and self._approve(one)
            if self.as_json:
                say_json(as_data(one, approved))
            if self.over:
                break
        return self._end()

    def _answered(self, one: Pending) -> bool:
        hidden = unseen(one)
        while True:
            match _asked(f"approve {marked(one.shown)}? [y/N/v/q/?] "):
                case "y" | "yes" if hidden:
                    say(f"not shown: {', '.join(map(marked, hidden))}; `unseen` approves it all the same")
                case "y" | "yes":
                    return True
                case "unseen" if hidden:
                    return True
                case "v" | "view" if not isinstance(one, Waiting):
                    self._show(covered_texts(one))
                case "" | "n" | "no":
                    return False
                case "q" | "quit":
                    self.over = True
                    return False
                case _:
                    say(_CHOICES)

    def _show(self, text: str) -> None:
        """Through a pager where it does not fit on the screen of somebody who is asked."""
        if self.asks and text.count("\n") >= shutil.get_terminal_size().lines:
            click.echo_via_pager(text)
        else:
            say(text)

    def _approve(self, one: Pending) -> bool:
        how = "with `billhook trust --yes`" if id(one) in self.sure else "from a terminal"
        try:
            approve = approve_rules if isinstance(one, Waiting) else approve_entry
            approval = approve(one, self.config.root, how)  # type: ignore[arg-type]
        except ChangedError as error:
            self.changed = True
            say(f"not approved: {marked(str(error))}\n", err=True)
            return False
        self.approved.append(one)
        self.approvals.append(approval)
        if id(one) in self.sure and (hidden := unseen(one)):
            note(f"{one.shown} was approved without showing {', '.join(hidden)}: binary, long or changing")
        if not self.as_json:
            say(click.style(f"approved {marked(one.shown)}", fg="green") + "\n")
        return True

    def _end(self) -> int:
        """Look again, and say what runs now."""
        if unrecorded := record_trust("approved", self.approvals, self.config):
            note(f"the approval is not in the event log: {unrecorded}")
        now = load_config(builtins=False)
        hashes = {one.hash for one in self.wanted}
        waiting: list[Pending] = [*now.pending, *now.permissions.pending]
        left = [one for one in waiting if one.hash in hashes]
        if not self.as_json:
            hooks = sum(not isinstance(one, Waiting) for one in self.approved)
            say("\n".join([_summary(now, hooks), *rules_summary(now)]))
        if text := self._hint(left):
            hint(text)
        return 1 if left or self.changed else 0

    def _hint(self, left: Sequence[Pending]) -> str:
        if not left or self.approved or self.over or self.asks:
            return ""
        if self.agent:
            return f"this runs inside {self.agent}, and consent is a person's to give: run it in a terminal of your own"
        return "run it in a terminal to be asked about each; --yes approves what is named, `--all --yes` everything"


def _asked(question: str) -> str:
    """One answer from the terminal; what was typed before the question was there is no answer to it."""
    import termios

    click.echo(question, nl=False)
    termios.tcflush(sys.stdin, termios.TCIFLUSH)
    line = sys.stdin.readline()
    if not line:
        click.echo()
    return line.strip().lower() if line else "q"


def _summary(now: Config, approved: int) -> str:
    """What runs now, and what still waits."""
    theirs = [entry for entry in now.entries if entry.hash]
    if not theirs:
        return unreadable(now) or "no hook here needs approval: none came with this project"
    run = [entry.shown for entry in theirs if entry.state == "runs"]
    parts = [f"{counted(approved, 'hook')} approved"] if approved else []
    parts.append(f"{counted(len(run), 'hook')} of this project {'runs' if len(run) == 1 else 'run'}")
    text = "; ".join(parts) + (f": {', '.join(map(marked, run))}" if run else "")
    waiting = [entry.shown for entry in now.pending]
    if not waiting:
        return text if now.permissions.pending else f"{text}\nnothing waits for approval"
    wait = "waits" if len(waiting) == 1 else "wait"
    return f"{text}\n{counted(len(waiting), 'hook')} {wait}: {', '.join(map(marked, waiting))}"
