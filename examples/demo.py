"""The first minute: a guard, a logger and an annotator meet five events; a clone brings a hook. See scripts/demo."""

import json
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import click

from billhook import (
    Context,
    Engine,
    Event,
    Hook,
    PostToolUse,
    PreToolUse,
    SessionStart,
    Stop,
    Verdict,
    approve,
    command,
    inject,
    keep_going,
    load_config,
    on,
)
from billhook.answers import Answer
from billhook.cli.show import verdict_text

GUARD = """\
#!/bin/sh
# A guard is any program: the event is on stdin, exit 2 denies, stderr says why.
case "$HOOK_TOOL_INPUT" in
  *"rm -rf"*) echo "rm -rf is not for agents" >&2; exit 2 ;;
esac
"""


def hooks(scratch: Path) -> list[Hook]:
    script = scratch / "guard.sh"
    script.write_text(GUARD)
    script.chmod(0o755)
    guard = Hook(
        name="guard",
        title="./guard.sh",
        run=command(shlex.quote(str(script)), dialect="claude"),
        events=("PreToolUse",),
        match="Bash",
        dialect="claude",
        on_failure="deny",  # a guard that crashes must not wave things through
    )

    @on(title="a Python function: one line per event", priority=50)
    def logger(event: Event) -> None:
        with (scratch / "events.jsonl").open("a") as log:
            log.write(json.dumps(event.payload) + "\n")

    @on(SessionStart, PostToolUse, Stop, title="a Python function: tells the model things")
    async def annotator(event: SessionStart | PostToolUse | Stop, ctx: Context) -> Answer | None:
        if isinstance(event, SessionStart):
            return inject("House rule: run the tests before you say that you are done.")
        if isinstance(event, PostToolUse):
            return inject(f"{event.tool_input['file_path']} has no test yet.")
        return None if event.stop_hook_active else keep_going("Run the tests first.")

    return [guard, logger, annotator]


def events(cwd: str) -> list[tuple[str, Event]]:
    path = f"{cwd}/app.py"
    return [
        ("A session starts", SessionStart(cwd=cwd, session_id="demo", source="startup")),
        (
            "The agent lists files",
            PreToolUse(cwd=cwd, session_id="demo", tool_name="Bash", tool_input={"command": "ls -la"}),
        ),
        (
            "The agent wants to delete the build folder",
            PreToolUse(cwd=cwd, session_id="demo", tool_name="Bash", tool_input={"command": "rm -rf build"}),
        ),
        (
            "The agent has written a file",
            PostToolUse(
                cwd=cwd, session_id="demo", tool_name="Write", tool_input={"file_path": path}, tool_response="written"
            ),
        ),
        ("The agent thinks that it is done", Stop(cwd=cwd, session_id="demo")),
    ]


CONFIG = """\
hooks:
  no-destroy:
    events: PreToolUse
    if: Bash(terraform destroy *)
    deny: Destroying infrastructure needs a human
"""


def clone(scratch: Path) -> None:
    """Hooks that come with a repository are data until somebody approves them."""
    project, state = scratch / "clone", scratch / "state"
    (project / ".git").mkdir(parents=True)
    (project / "hooks.yaml").write_text(CONFIG)
    event = PreToolUse(
        cwd=str(project), session_id="demo", tool_name="Bash", tool_input={"command": "cd infra && terraform destroy x"}
    )
    options: dict[str, Any] = {"layers": ["project"], "home": state}
    for what in ("6. A cloned repository brings a hook: nobody approved it", "7. The same, after `billhook trust`"):
        config = load_config(project, **options)
        text = verdict_text(config.engine().fire_sync(event), {hook.name: hook.title for hook in config.hooks})
        click.echo(f"{what}\n" + "\n".join(f"   {line}".rstrip() for line in text.splitlines()) + "\n")
        for pending in config.pending:
            approve(pending.hash, cwd=project, home=state)
    click.echo("8. The event log has both: `billhook events` (and `billhook explain 1` says why the first passed)")
    argv = [sys.executable, "-m", "billhook", "events", "--human"]
    env = {**os.environ, "BILLHOOK_HOME": str(state)}
    shown = subprocess.run(argv, cwd=project, env=env, capture_output=True, text=True, check=True).stdout
    click.echo("\n".join(f"   {line}".rstrip() for line in shown.splitlines()) + "\n")


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="billhook-demo-") as folder:
        scratch = Path(folder)
        verdicts: list[Verdict] = []
        engine = Engine(hooks(scratch), observers=[verdicts.append])
        titles = {hook.name: hook.title for hook in engine.hooks}
        for number, (what, event) in enumerate(events(folder), 1):
            click.echo(f"{number}. {what}")
            text = verdict_text(engine.fire_sync(event), titles)
            click.echo("\n".join(f"   {line}".rstrip() for line in text.replace(folder, ".").splitlines()) + "\n")
        lines = (scratch / "events.jsonl").read_text().splitlines()
        clone(scratch)
    denied = sum(verdict.denied for verdict in verdicts)
    click.echo(f"{len(verdicts)} events, {denied} denied, {len(lines)} lines logged.\n")
    program = shlex.quote(os.path.relpath(Path(sys.executable).parent / "billhook"))
    click.echo(NEXT.format(billhook=program, here=shlex.quote(os.path.relpath(__file__))))


NEXT = """\
Try next:
  {billhook} init
  {billhook} fire PreToolUse --tool Bash --input '{{"command": "ls"}}' --run 'echo "not today" >&2; exit 2'
  {billhook} fire Stop --run 'echo "tests fail" >&2; exit 2' --json
  {here} is this program; docs/life-of-an-event.md follows one event through the code."""

if __name__ == "__main__":
    main()
