# ruff: noqa: E101, E501 (screens are as wide as what is on them)
"""`billhook install` and `uninstall` for a new user."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from billhook.agents import AGENTS
from billhook.cli.install import verb as install
from billhook.core.errors import UsageError
from cli.place import Place
from cli.terminal import Ended, on_terminal

VARIABLES = ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "COPILOT_HOME", "UV_CACHE_DIR")


class Person(Place):
    """A user with an installed billhook, and nothing else."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        (self.project / ".git").mkdir()
        self.bin = folder / "bin"
        self.bin.mkdir()
        (self.bin / "billhook-hook").symlink_to(Path(sys.executable).with_name("billhook-hook"))

    def env(self, **changes: str | None) -> dict[str, str]:
        ours: dict[str, str | None] = {**dict.fromkeys(VARIABLES), "PATH": f"{self.bin}:/usr/bin:/bin"}
        return super().env(**{**ours, **changes})

    def install(self, *arguments: str, **changes: str | None) -> Ended:
        """In the user's settings, unless --project is given."""
        program = () if "--project" in arguments or "--program" in arguments else ("--program", str(self.bin))
        return self.alone("install", *arguments, *program, **changes)

    def settings(self, name: str = ".claude/settings.json") -> Path:
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path


@pytest.fixture
def me(tmp_path: Path) -> Person:
    return Person(tmp_path)


def steady(me: Person, ended: Ended) -> str:
    """The screen, without the digest of the path."""
    return re.sub(r"-[0-9a-f]{12}/", "-<digest>/", ended.screen)


def test_claude(me: Person) -> None:
    """Install, install again, with fewer events, and uninstall."""
    file = me.settings()
    file.write_text('{\n  "model": "opus" // the best\n}\n')
    assert steady(me, me.install("claude", "--events", "PreToolUse,Stop")) == snapshot("""\
--- ~/.claude/settings.json
+++ ~/.claude/settings.json
@@ -1,3 +1,28 @@
 {
-  "model": "opus" // the best
+  "model": "opus", // the best
+  "hooks": {
+    "PreToolUse": [
+      {
+        "hooks": [
+          {
+            "type": "command",
+            "command": "command -v <here>/bin/billhook-hook >/dev/null 2>&1 || { echo 'billhook is not installed at <here>/bin/billhook-hook. Install it again (in a checkout of billhook: uv tool install . && billhook install claude).' >&2; exit 2; }; exec <here>/bin/billhook-hook --as claude --deadline 58000 --from user",
+            "timeout": 60,
+            "onFailure": "block"
+          }
+        ]
+      }
+    ],
+    "Stop": [
+      {
+        "hooks": [
+          {
+            "type": "command",
+            "command": "exec <here>/bin/billhook-hook --as claude --deadline 58000 --from user",
+            "timeout": 60
+          }
+        ]
+      }
+    ]
+  }
 }

Claude Code: installed in ~/.claude/settings.json; it calls billhook for
  PreToolUse, Stop
  backup: ~/.claude/billhook/installed/claude-user-<digest>/settings.json.before

next
  billhook doctor claude
-- exit 0
""")
    assert me.install("claude", "--events", "Stop", "--events", "pre_tool_use").screen == snapshot("""\
Claude Code: already installed in ~/.claude/settings.json; nothing was changed
-- exit 0
""")
    assert steady(me, me.install("claude", "--events", "PreToolUse")) == snapshot("""\
--- ~/.claude/settings.json
+++ ~/.claude/settings.json
@@ -12,17 +12,6 @@
           }
         ]
       }
-    ],
-    "Stop": [
-      {
-        "hooks": [
-          {
-            "type": "command",
-            "command": "exec <here>/bin/billhook-hook --as claude --deadline 58000 --from user",
-            "timeout": 60
-          }
-        ]
-      }
     ]
   }
 }

Claude Code: updated in ~/.claude/settings.json; it calls billhook for
  PreToolUse
  backup: ~/.claude/billhook/installed/claude-user-<digest>/settings.json.before

next
  billhook doctor claude
-- exit 0
""")
    assert steady(me, me.alone("uninstall", "claude")) == snapshot("""\
--- ~/.claude/settings.json
+++ ~/.claude/settings.json
@@ -1,17 +1,3 @@
 {
-  "model": "opus", // the best
-  "hooks": {
-    "PreToolUse": [
-      {
-        "hooks": [
-          {
-            "type": "command",
-            "command": "command -v <here>/bin/billhook-hook >/dev/null 2>&1 || { echo 'billhook is not installed at <here>/bin/billhook-hook. Install it again (in a checkout of billhook: uv tool install . && billhook install claude).' >&2; exit 2; }; exec <here>/bin/billhook-hook --as claude --deadline 58000 --from user",
-            "timeout": 60,
-            "onFailure": "block"
-          }
-        ]
-      }
-    ]
-  }
+  "model": "opus" // the best
 }

Claude Code: removed billhook's entries from ~/.claude/settings.json; the file is byte for byte as before
-- exit 0
""")
    assert file.read_text() == '{\n  "model": "opus" // the best\n}\n'
    assert me.alone("uninstall", "claude").screen == snapshot("""\
Claude Code: not installed in ~/.claude/settings.json; nothing was changed
-- exit 0
""")


def test_all_installed_events(me: Person) -> None:
    """Without --events: the events for guards, loggers and built-ins, and for configured hooks."""
    me.own("hooks:\n  done:\n    events: [TaskCompleted, Stop]\n    run: make test\n    timeout: 300\n")
    ended = me.install("claude", "--json")
    data = json.loads(ended.out)
    assert data["events"] == [*AGENTS["claude"].events, "TaskCompleted"]
    written = json.loads(me.settings().read_text())["hooks"]
    assert {event: group[0]["hooks"][0]["timeout"] for event, group in written.items()} == {
        **dict.fromkeys(AGENTS["claude"].events, 60),
        "SessionEnd": 2,
        "Stop": 302,
        "TaskCompleted": 302,
    }
    me.own("hooks: {}\n")
    assert "already installed" in me.install("claude").out, "hooks of another folder may need it"


def test_codex(me: Person) -> None:
    """It needs the user's trust, and has a second file with hooks."""
    me.settings(".codex/config.toml").write_text("[features]\nhooks = false\n[[hooks.Stop]]\n")
    assert steady(me, me.install("codex", "--events", "PreToolUse")) == snapshot("""\
~/.codex/hooks.json (new), the entry for PreToolUse:
  {"hooks":[{"type":"command","command":"command -v <here>/bin/billhook-hook >/dev/null 2>&1 || { echo 'billhook is not installed at <here>/bin/billhook-hook. Install it again (in a checkout of billhook: uv tool install . && billhook install codex).' >&2; exit 2; }; exec <here>/bin/billhook-hook --as codex --deadline 58000 --from user","timeout":60}]}

Codex: installed in ~/.codex/hooks.json; it calls billhook for
  PreToolUse

next
  Codex runs new hooks only after you trust them: start it, type /hooks, and trust billhook's
  billhook doctor codex
-- stderr
note: ~/.codex/config.toml disables hooks: set `hooks = true` below [features], otherwise Codex does not run billhook
note: ~/.codex/config.toml has other hooks; Codex runs them beside billhook, and they are not changed
-- exit 0
""")
    assert steady(me, me.alone("uninstall", "codex")) == snapshot("""\
~/.codex/hooks.json (removed), the entry for PreToolUse:
  {"hooks":[{"type":"command","command":"command -v <here>/bin/billhook-hook >/dev/null 2>&1 || { echo 'billhook is not installed at <here>/bin/billhook-hook. Install it again (in a checkout of billhook: uv tool install . && billhook install codex).' >&2; exit 2; }; exec <here>/bin/billhook-hook --as codex --deadline 58000 --from user","timeout":60}]}

Codex: removed ~/.codex/hooks.json, which contained only billhook's entries
-- exit 0
""")
    assert sorted(path.name for path in (me.home / ".codex").iterdir()) == ["config.toml"]


def test_gemini(me: Person) -> None:
    """Milliseconds, other event names, and a file in which hooks are disabled."""
    file = me.settings(".gemini/settings.json")
    file.write_text('{"hooksConfig":{"enabled":false}}')
    assert steady(me, me.install("gemini", "--events", "PreToolUse")) == snapshot("""\
--- ~/.gemini/settings.json
+++ ~/.gemini/settings.json
@@ -1 +1 @@
-{"hooksConfig":{"enabled":false}}
\\ No newline at end of file
+{"hooksConfig":{"enabled":false},"hooks":{"BeforeTool":[{"sequential":true,"hooks":[{"name":"billhook","type":"command","command":"command -v <here>/bin/billhook-hook >/dev/null 2>&1 || { echo 'billhook is not installed at <here>/bin/billhook-hook. Install it again (in a checkout of billhook: uv tool install . && billhook install gemini).' >&2; exit 2; }; exec <here>/bin/billhook-hook --as gemini --deadline 58000 --from user","timeout":60000}]}]}}
\\ No newline at end of file

Gemini CLI: installed in ~/.gemini/settings.json; it calls billhook for
  BeforeTool
  backup: ~/.claude/billhook/installed/gemini-user-<digest>/settings.json.before

next
  billhook doctor gemini
-- stderr
note: ~/.gemini/settings.json:1 disables all hooks (`hooksConfig.enabled`): Gemini CLI will not call billhook
-- exit 0
""")
    assert steady(me, me.alone("uninstall", "gemini")) == snapshot("""\
--- ~/.gemini/settings.json
+++ ~/.gemini/settings.json
@@ -1 +1 @@
-{"hooksConfig":{"enabled":false},"hooks":{"BeforeTool":[{"sequential":true,"hooks":[{"name":"billhook","type":"command","command":"command -v <here>/bin/billhook-hook >/dev/null 2>&1 || { echo 'billhook is not installed at <here>/bin/billhook-hook. Install it again (in a checkout of billhook: uv tool install . && billhook install gemini).' >&2; exit 2; }; exec <here>/bin/billhook-hook --as gemini --deadline 58000 --from user","timeout":60000}]}]}}
\\ No newline at end of file
+{"hooksConfig":{"enabled":false}}
\\ No newline at end of file

Gemini CLI: removed billhook's entries from ~/.gemini/settings.json; the file is byte for byte as before
-- exit 0
""")
    assert file.read_text() == '{"hooksConfig":{"enabled":false}}'


def test_qwen(me: Person) -> None:
    """In a project, for all its users."""
    assert steady(me, me.install("qwen", "--project", "--events", "PreToolUse,Stop")) == snapshot("""\
.qwen/settings.json (new), the entry for PreToolUse:
  {"sequential":true,"hooks":[{"name":"billhook","type":"command","command":"command -v billhook-hook >/dev/null 2>&1 || { echo 'billhook guards this project, and is not installed here. Install it (in a checkout of billhook: uv tool install .), and try again.' >&2; exit 2; }; exec billhook-hook --as qwen --deadline 58000 --from project","timeout":60000}]}

Qwen Code: installed in .qwen/settings.json; it calls billhook for
  PreToolUse, Stop

next
  Qwen Code reads a project's hooks only in trusted folders: start it there once, and trust the folder
  git add .qwen/settings.json
  billhook doctor qwen
-- exit 0
""")
    assert steady(me, me.alone("uninstall", "qwen", "--project")) == snapshot("""\
.qwen/settings.json (removed), the entry for PreToolUse:
  {"sequential":true,"hooks":[{"name":"billhook","type":"command","command":"command -v billhook-hook >/dev/null 2>&1 || { echo 'billhook guards this project, and is not installed here. Install it (in a checkout of billhook: uv tool install .), and try again.' >&2; exit 2; }; exec billhook-hook --as qwen --deadline 58000 --from project","timeout":60000}]}

Qwen Code: removed .qwen/settings.json, which contained only billhook's entries
-- exit 0
""")
    assert not (me.project / ".qwen").exists()


def test_copilot(me: Person) -> None:
    """A separate file, and a refusal in its format."""
    ended = me.install("copilot", "--project", "--events", "PreToolUse", "--if-missing", "allow")
    assert steady(me, ended) == snapshot("""\
.github/hooks/billhook.json (new), the entry for preToolUse:
  {"type":"command","bash":"command -v billhook-hook >/dev/null 2>&1 || { echo 'billhook is not installed here, so its hooks do not run. Install it: in a checkout of billhook: uv tool install .' >&2; exit 0; }; exec billhook-hook --as copilot --deadline 58000 --from project preToolUse","timeoutSec":60}

Copilot: installed in .github/hooks/billhook.json; it calls billhook for
  preToolUse

next
  Copilot reads a project's hooks only in trusted folders: start it there once, and trust the folder
  git add .github/hooks/billhook.json
  billhook doctor copilot
-- exit 0
""")
    assert steady(me, me.install("copilot", "--project", "--events", "preToolUse")) == snapshot("""\
--- .github/hooks/billhook.json
+++ .github/hooks/billhook.json
@@ -4,7 +4,7 @@
     "preToolUse": [
       {
         "type": "command",
-        "bash": "command -v billhook-hook >/dev/null 2>&1 || { echo 'billhook is not installed here, so its hooks do not run. Install it: in a checkout of billhook: uv tool install .' >&2; exit 0; }; exec billhook-hook --as copilot --deadline 58000 --from project preToolUse",
+        "bash": "command -v billhook-hook >/dev/null 2>&1 || { echo '{\\"permissionDecision\\": \\"deny\\", \\"permissionDecisionReason\\": \\"billhook guards this project, and is not installed here. Install it (in a checkout of billhook: uv tool install .), and try again.\\", \\"hookSpecificOutput\\": {\\"hookEventName\\": \\"PreToolUse\\", \\"permissionDecision\\": \\"deny\\", \\"permissionDecisionReason\\": \\"billhook guards this project, and is not installed here. Install it (in a checkout of billhook: uv tool install .), and try again.\\"}}'; exit 0; }; exec billhook-hook --as copilot --deadline 58000 --from project preToolUse",
         "timeoutSec": 60
       }
     ]

Copilot: updated in .github/hooks/billhook.json; it calls billhook for
  preToolUse

next
  Copilot reads a project's hooks only in trusted folders: start it there once, and trust the folder
  git add .github/hooks/billhook.json
  billhook doctor copilot
-- exit 0
""")
    assert steady(me, me.alone("uninstall", "copilot", "--project")) == snapshot("""\
.github/hooks/billhook.json (removed), the entry for preToolUse:
  {"type":"command","bash":"command -v billhook-hook >/dev/null 2>&1 || { echo '{\\"permissionDecision\\": \\"deny\\", \\"permissionDecisionReason\\": \\"billhook guards this project, and is not installed here. Install it (in a checkout of billhook: uv tool install .), and try again.\\", \\"hookSpecificOutput\\": {\\"hookEventName\\": \\"PreToolUse\\", \\"permissionDecision\\": \\"deny\\", \\"permissionDecisionReason\\": \\"billhook guards this project, and is not installed here. Install it (in a checkout of billhook: uv tool install .), and try again.\\"}}'; exit 0; }; exec billhook-hook --as copilot --deadline 58000 --from project preToolUse","timeoutSec":60}

Copilot: removed .github/hooks/billhook.json, which contained only billhook's entries
-- exit 0
""")
    assert not (me.project / ".github").exists()


def test_cursor(me: Person) -> None:
    """With its setting for failing hooks."""
    file = me.settings(".cursor/hooks.json")
    text = '{\n\t"version": 1,\n\t"hooks": {\n\t\t"stop": [{"command": "./mine"}]\n\t}\n}'
    file.write_text(text)
    assert steady(me, me.install("cursor", "--events", "PreToolUse,Stop")) == snapshot("""\
--- ~/.cursor/hooks.json
+++ ~/.cursor/hooks.json
@@ -1,6 +1,13 @@
 {
 	"version": 1,
 	"hooks": {
-		"stop": [{"command": "./mine"}]
+		"stop": [{"command": "./mine"}, {"command": "exec <here>/bin/billhook-hook --as cursor --deadline 58000 --from user", "timeout": 60}],
+		"preToolUse": [
+			{
+				"command": "command -v <here>/bin/billhook-hook >/dev/null 2>&1 || { echo '{\\"permission\\": \\"deny\\", \\"user_message\\": \\"billhook is not installed at <here>/bin/billhook-hook. Install it again (in a checkout of billhook: uv tool install . && billhook install cursor).\\", \\"agent_message\\": \\"billhook is not installed at <here>/bin/billhook-hook. Install it again (in a checkout of billhook: uv tool install . && billhook install cursor).\\"}'; exit 0; }; exec <here>/bin/billhook-hook --as cursor --deadline 58000 --from user",
+				"timeout": 60,
+				"failClosed": true
+			}
+		]
 	}
 }
\\ No newline at end of file

Cursor: installed in ~/.cursor/hooks.json; it calls billhook for
  preToolUse, stop
  backup: ~/.claude/billhook/installed/cursor-user-<digest>/hooks.json.before

next
  restart Cursor, and check Settings, Hooks for billhook
  billhook doctor cursor
-- exit 0
""")
    assert steady(me, me.alone("uninstall", "cursor")) == snapshot("""\
--- ~/.cursor/hooks.json
+++ ~/.cursor/hooks.json
@@ -1,13 +1,6 @@
 {
 	"version": 1,
 	"hooks": {
-		"stop": [{"command": "./mine"}, {"command": "exec <here>/bin/billhook-hook --as cursor --deadline 58000 --from user", "timeout": 60}],
-		"preToolUse": [
-			{
-				"command": "command -v <here>/bin/billhook-hook >/dev/null 2>&1 || { echo '{\\"permission\\": \\"deny\\", \\"user_message\\": \\"billhook is not installed at <here>/bin/billhook-hook. Install it again (in a checkout of billhook: uv tool install . && billhook install cursor).\\", \\"agent_message\\": \\"billhook is not installed at <here>/bin/billhook-hook. Install it again (in a checkout of billhook: uv tool install . && billhook install cursor).\\"}'; exit 0; }; exec <here>/bin/billhook-hook --as cursor --deadline 58000 --from user",
-				"timeout": 60,
-				"failClosed": true
-			}
-		]
+		"stop": [{"command": "./mine"}]
 	}
 }
\\ No newline at end of file

Cursor: removed billhook's entries from ~/.cursor/hooks.json; the file is byte for byte as before
-- exit 0
""")
    assert file.read_text() == text


@pytest.mark.parametrize(
    ("called", "name"),
    [("agy", "antigravity"), ("Factory Droid", "droid"), ("Crush", "crush"), ("Claude Code", "claude")],
)
def test_other_names(me: Person, called: str, name: str) -> None:
    """An agent's product name, or another one that its users know."""
    change = json.loads(me.install(called, "--dry-run", "--json").out)
    assert change["agent"] == name
    assert name in {agent["agent"] for agent in json.loads(me.alone("doctor", called, "--json").out)["agents"]}
    assert me.alone("check", "--host", called).code == 0


def found_here(me: Person) -> Path:
    """Codex, Gemini CLI and Qwen Code; the file of the last one is broken."""
    (me.home / ".gemini" / "tmp").mkdir(parents=True)
    (me.home / ".claude").mkdir()
    codex = me.bin / "codex"
    codex.write_text("#!/bin/sh\n")
    codex.chmod(0o755)
    broken = me.settings(".qwen/settings.json")
    broken.write_text("{\n  oops\n}")
    return broken


def test_all(me: Person) -> None:
    """Every agent on this machine, or none: a file that can't be changed stops the whole installation."""
    broken = found_here(me)
    before = dict(tree(me.home))
    ended = me.install("all")
    assert (ended.code, ended.err) == snapshot(
        (
            2,
            """\
error: <here>/home/.qwen/settings.json:2:3: `oops` is not in double quotes

hint: write `"oops"`

hint: nothing was written: fix that, or name the agents to install
""",
        )
    )
    assert dict(tree(me.home)) == before
    broken.unlink()
    broken.parent.rmdir()
    ended = me.install("all", "--json")
    states = {data["agent"]: (data["state"], data.get("why", "")) for data in map(json.loads, ended.out.splitlines())}
    assert {name for name, (state, _) in states.items() if state == "installed"} == {"codex", "gemini"}
    assert {state for state, _ in states.values()} == {"installed", "skipped"} and set(states) == set(AGENTS)
    assert states["claude"][1] == "not found: no `claude` on PATH, none of its files in <here>/home/.claude"
    assert states["copilot"][1] == "not found: no `copilot` on PATH, no <here>/home/.copilot"
    assert me.install("all", "--events", "Stop", "--dry-run").out.count("would update") == 2
    broken.parent.mkdir()
    broken.write_text("{}")
    out = me.alone("uninstall", "all")
    assert (out.code, [line for line in out.out.splitlines() if ": " in line and line[0].isupper()]) == snapshot(
        (
            0,
            [
                "Claude Code: not installed in ~/.claude/settings.json; nothing was changed",
                "Codex: removed ~/.codex/hooks.json, which contained only billhook's entries",
                "Gemini CLI: removed ~/.gemini/settings.json, which contained only billhook's entries",
                "Qwen Code: not installed in ~/.qwen/settings.json; nothing was changed",
                "Copilot: not installed in ~/.copilot/hooks/billhook.json; nothing was changed",
                "Cursor: not installed in ~/.cursor/hooks.json; nothing was changed",
                "OpenCode: not installed in ~/.config/opencode/plugins/billhook.js; nothing was changed",
                "Hermes: not installed in ~/.hermes/config.yaml; nothing was changed",
                "Antigravity: not installed in ~/.gemini/config/hooks.json; nothing was changed",
                "Devin: not installed in ~/.config/devin/config.json; nothing was changed",
                "Factory Droid: not installed in ~/.factory/settings.json; nothing was changed",
                "Goose: not installed in ~/.agents/plugins/billhook/hooks/hooks.json; nothing was changed",
                "Kiro: not installed in ~/.kiro/hooks/billhook.json; nothing was changed",
                "Windsurf: not installed in ~/.codeium/windsurf/hooks.json; nothing was changed",
                "Cline: not installed in ~/Documents/Cline/Hooks/PreToolUse; nothing was changed",
                "Crush: not installed in ~/.config/crush/crush.json; nothing was changed",
                "OpenClaw: not installed in ~/.openclaw/plugins/billhook/index.js; nothing was changed",
                "Amp: not installed in ~/.config/amp/plugins/billhook.ts; nothing was changed",
            ],
        )
    )


def test_all_asks_once(me: Person) -> None:
    """In a terminal: after all changes were shown. With no, nothing is written; `--yes` asks nothing."""
    found_here(me).unlink()
    words, question = ("install", "all", "--program", str(me.bin)), "? [y/N] "
    declined = me.typing(*words, answers=[(question, "n\n")]).out
    assert declined.count(f"Change the settings of Codex, Gemini CLI, Qwen Code{question}") == 1
    assert declined.index("the entry for BeforeTool") < declined.index("Change the settings")
    assert "nothing was written" in declined and not (me.home / ".codex").exists()
    agreed = me.typing(*words, answers=[(question, "y\n")]).out
    assert "Codex: installed in" in agreed and "Qwen Code: installed in" in agreed
    unasked = me.typing(*words, "--events", "Stop", "--yes", answers=[]).out
    assert question not in unasked and "Codex: updated" in unasked


def test_all_reports_what_was_written_before_a_failure(me: Person) -> None:
    """A file that can be read but not written is found when the others are written already."""
    found_here(me).unlink()
    (me.home / ".factory").symlink_to("/proc/self")
    ended = me.install("all")
    assert ended.code == 2 and "can't write the file" in ended.err
    told = " ".join(ended.err.split())
    assert "written before that: ~/.codex/hooks.json, ~/.gemini/settings.json, ~/.qwen/settings.json" in told
    assert (me.home / ".codex" / "hooks.json").exists()


def test_all_without_agents(me: Person) -> None:
    """No agent was found: exit code 1."""
    ended = me.install("all")
    assert ended.screen == snapshot("""\
skipped, not found here: Claude Code, Codex, Gemini CLI, Qwen Code, Copilot,
Cursor, OpenCode, Hermes, Antigravity, Devin, Factory Droid, Goose, Kiro, pi,
Windsurf, Cline, Crush, OpenClaw, Amp
-- stderr

hint: install one by its name: `billhook install claude`
-- exit 1
""")


def tree(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield str(path.relative_to(folder)), path.read_bytes()


@pytest.mark.parametrize("scope", ["--user", "--project"])
def test_dry_run_changes_nothing(me: Person, scope: str) -> None:
    """No byte changes: not by install, uninstall or --adopt."""
    hooks = '{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "make test"}]}]}}'
    me.settings().write_text(hooks)
    me.file(".claude/settings.json", hooks)
    before = dict(tree(me.folder))
    for _ in range(2):
        ended = me.install("claude", scope, "--adopt", "--dry-run")
        assert ended.code == 0 and "nothing was written (--dry-run)" in ended.out and "+  make:" in ended.out
        assert dict(tree(me.folder)) == before
    assert me.install("claude", scope).code == 0
    before = dict(tree(me.folder))
    assert "would remove" in me.alone("uninstall", "claude", scope, "--dry-run").out
    assert dict(tree(me.folder)) == before


def test_adopting_in_a_project(me: Person) -> None:
    """The team's hooks still run, approved for the user who moved them; uninstall restores every file."""
    me.file(".claude/guard.sh", "#!/bin/sh\necho 'no pushes' >&2\nexit 2\n", 0o755)
    hook = '{"type": "command", "command": "\\"$CLAUDE_PROJECT_DIR\\"/.claude/guard.sh", "timeout": 5}'
    group = '{"matcher": "Bash", "hooks": [' + hook + "]}"
    me.file(".claude/settings.json", '{\n  "hooks": {"PreToolUse": [' + group + "]}\n}\n")
    before = dict(tree(me.project))
    assert steady(me, me.install("claude", "--project", "--adopt", "--events", "PreToolUse")) == snapshot("""\
--- .claude/settings.json
+++ .claude/settings.json
@@ -1,3 +1,14 @@
 {
-  "hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "\\"$CLAUDE_PROJECT_DIR\\"/.claude/guard.sh", "timeout": 5}]}]}
+  "hooks": {"PreToolUse": [
+    {
+      "hooks": [
+        {
+          "type": "command",
+          "command": "command -v billhook-hook >/dev/null 2>&1 || { echo '{\\"permissionDecision\\": \\"deny\\", \\"permissionDecisionReason\\": \\"billhook guards this project, and is not installed here. Install it (in a checkout of billhook: uv tool install .), and try again.\\", \\"permission\\": \\"deny\\", \\"user_message\\": \\"billhook guards this project, and is not installed here. Install it (in a checkout of billhook: uv tool install .), and try again.\\", \\"agent_message\\": \\"billhook guards this project, and is not installed here. Install it (in a checkout of billhook: uv tool install .), and try again.\\"}'; echo 'billhook guards this project, and is not installed here. Install it (in a checkout of billhook: uv tool install .), and try again.' >&2; exit 2; }; exec billhook-hook --as claude --deadline 58000 --from project",
+          "timeout": 60,
+          "onFailure": "block"
+        }
+      ]
+    }
+  ]}
 }

--- /dev/null
+++ .billhook/hooks.yaml
@@ -0,0 +1,10 @@
+# Hooks for agents. `billhook list` shows what runs, `billhook check` finds mistakes.
+# `billhook uninstall` restores hooks with `x-adopted` to the agent's settings.
+
+hooks:
+  guard:
+    events: PreToolUse
+    match: Bash
+    run: '"$CLAUDE_PROJECT_DIR"/.claude/guard.sh'
+    timeout: 5
+    x-adopted: 'claude PreToolUse {"matcher": "Bash", "hooks": [{"type": "command", "command": "\\"$CLAUDE_PROJECT_DIR\\"/.claude/guard.sh", "timeout": 5}]}'

Claude Code: installed in .claude/settings.json; it calls billhook for
  PreToolUse
  1 hook moved to .billhook/hooks.yaml: guard
  backup: ~/.claude/billhook/installed/claude-project-<digest>/settings.json.before

next
  git add .claude/settings.json
  git add .billhook/hooks.yaml
  other users: billhook trust (the moved hooks are approved for you only)
  billhook doctor claude
-- exit 0
""")
    fired = me.run("fire", "PreToolUse", "--tool", "Bash", "--input", '{"command": "git push"}', "--json")
    assert (fired.verdict["decision"], fired.verdict["reason"]) == ("deny", "no pushes")
    assert me.run("trust").code == 0
    out = me.alone("uninstall", "claude", "--project")
    assert "1 hook restored: guard" in out.out
    assert dict(tree(me.project)) == before


def test_what_was_written_works(me: Person) -> None:
    """A shell runs the command of the file, as the agent does: the deny is printed and logged."""
    me.own("hooks:\n  no:\n    events: PreToolUse\n    if: Bash(rm *)\n    deny: not here\n")
    me.install("claude")
    command = json.loads(me.settings().read_text())["hooks"]["PreToolUse"][0]["hooks"][0]["command"]
    event = {"hook_event_name": "PreToolUse", "session_id": "s", "cwd": str(me.project), "tool_name": "Bash"}
    told = json.dumps({**event, "tool_input": {"command": "rm x"}})
    env = {**me.env(), "PATH": "/nowhere", "BILLHOOK_NO_DAEMON": "1"}  # as if started from a desktop: nothing on PATH
    ended = subprocess.run(["/bin/sh", "-c", command], input=told, text=True, capture_output=True, env=env, check=False)
    assert "not here" in ended.stdout + ended.stderr
    assert me.run("events", "--json").out.count('"seq"') == 1
    me.run("daemon", "stop")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "no agent was named"),
        (("cluade",), "did you mean `claude`?"),
        (("claude", "--events", "PreToolUsed"), "did you mean `PreToolUse`?"),
        (("codex", "--events", "Notification"), "Codex has no event `Notification`"),
        (("claude", "--user", "--project"), "--user and --project can't be combined"),
        (("claude", "--events", ""), "--events needs at least one event"),
        (("claude", "--events", " , "), "--events needs at least one event"),
        (("vscode",), "it reads those of Copilot and of Claude Code"),
        (("VS Code",), "name `copilot` or `claude`"),
        (("claude", "--if-missing", "ask"), "unknown --if-missing `ask`"),
        (("claude", "--project", "--http"), "--http is for your own settings"),
        (("claude", "--project", "--program", "/bin"), "--program is for your own settings"),
        (("claude", "--program", "/bin/sh"), "not an executable billhook-hook"),
        (("codex", "--http"), "Codex can't use --http: it has no HTTP hooks"),
        (("copilot", "--http"), "supports https addresses only"),
        (("qwen", "--http"), "allows a call if an HTTP hook fails"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_refused(
    me: Person,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A mistake gets a suggestion, and nothing is written."""
    for name, value in me.env().items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(me.project)
    before = dict(tree(me.home))
    if not {"--project", "--program"} & set(arguments):
        arguments = (*arguments, "--program", str(me.bin))
    try:
        code = install.main([*arguments, "--dry-run"], prog_name="billhook install", standalone_mode=False)
        error = capsys.readouterr().err
    except UsageError as raised:
        code, error = 2, str(raised)
    assert code == 2
    assert message in error and "hint: " in error
    assert dict(tree(me.home)) == before


def test_http(me: Person) -> None:
    """Claude Code calls the daemon itself, with the token from its environment; SessionStart has no HTTP hooks."""
    ended = me.install("claude", "--http", "--events", "PreToolUse,SessionStart")
    written = json.loads(me.settings().read_text())["hooks"]
    assert written["PreToolUse"] == snapshot(
        [
            {
                "hooks": [
                    {
                        "type": "http",
                        "url": "http://127.0.0.1:8123/hook/claude?on_failure=deny&deadline=58000",
                        "headers": {
                            "Authorization": "Bearer $BILLHOOK_TOKEN",
                            "X-Billhook-Project": "$CLAUDE_PROJECT_DIR",
                        },
                        "allowedEnvVars": ["BILLHOOK_TOKEN", "CLAUDE_PROJECT_DIR"],
                        "timeout": 60,
                        "onFailure": "block",
                    }
                ]
            }
        ]
    )
    assert written["SessionStart"][0]["hooks"][0]["type"] == "command"
    assert ended.out.split("next\n")[1] == snapshot("""\
  billhook daemon start --http 127.0.0.1:8123
  and in the shell that starts the agent:
  export BILLHOOK_TOKEN="$(cat <here>/home/.claude/billhook/daemon/token)"
  billhook doctor claude
""")
    assert me.install("claude", "--http", "--events", "PreToolUse,SessionStart").out.startswith("Claude Code: already")
    me.alone("uninstall", "claude")
    assert not me.settings().exists()


@pytest.mark.parametrize("verb", ["install", "uninstall"])
def test_inside_an_agent(me: Person, verb: str) -> None:
    """An agent can't install or uninstall hooks; --dry-run works."""
    me.settings().write_text("{}")
    ended = me.alone(verb, "claude", CLAUDECODE="1")
    assert (ended.code, me.settings().read_text()) == (2, "{}")
    assert f"{verb} is refused here: this runs inside Claude Code" in ended.err
    arguments = ["--program", str(me.bin)] if verb == "install" else []
    assert me.alone(verb, "claude", "--dry-run", *arguments, CLAUDECODE="1").code == 0


def test_the_home_folder_is_not_a_project(me: Person) -> None:
    """--project there would write into the user's settings."""
    me.project = me.home
    ended = me.install("claude", "--project")
    assert (ended.code, "the home folder is not a project" in ended.err) == (2, True)


def test_the_root_is_not_a_project(me: Person) -> None:
    """--project there would write into the files of the whole machine."""
    me.project = Path("/")
    ended = me.install("gemini", "--project", "--dry-run")
    assert (ended.code, "/ is not a project" in ended.err) == (2, True)


def test_a_program_in_a_cache(me: Person) -> None:
    """A program in a cache is accepted if it is named, with a note."""
    cache = me.home / ".cache" / "uv" / "bin"
    cache.mkdir(parents=True)
    (cache / "billhook-hook").symlink_to(me.bin / "billhook-hook")
    ended = me.install("claude", "--program", str(cache), "--dry-run", "--events", "Stop")
    assert ended.code == 0 and "is in a cache" in ended.err


def test_a_narrower_event_is_widened(me: Person) -> None:
    """For a narrower event of Cursor, the whole event is installed, with a note."""
    ended = me.install("cursor", "--events", "beforeShellExecution", "--dry-run")
    assert "note: beforeShellExecution is installed as preToolUse, which is fired for every tool" in ended.err


def test_from_a_temporary_environment(me: Person) -> None:
    """A temporary path is not written into settings; a permanent one may be named."""
    venv = me.folder / "venv" / "bin"
    venv.mkdir(parents=True)
    for name in ("python", "billhook-hook"):
        (venv / name).symlink_to(Path(sys.executable).with_name(name))
    code = "import sys; sys.executable = sys.argv.pop(1); from billhook.cli.main import main; main()"
    env = {**me.env(), "TMPDIR": str(me.folder), "PATH": "/usr/bin:/bin"}
    argv = [sys.executable, "-c", code, str(venv / "python"), "install", "claude", "--dry-run"]
    ended = subprocess.run(argv, env=env, cwd=me.project, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert "entries in your settings would soon point to a missing file" in ended.stderr
    assert "uv tool install ." in ended.stderr
    named = subprocess.run([*argv, "--program", str(me.bin)], env=env, cwd=me.project, capture_output=True, check=False)
    assert named.returncode == 0


def test_installed_elsewhere(me: Person) -> None:
    """If it is installed in another file, that file is named."""
    me.install("claude", "--project", "--events", "Stop")
    ended = me.alone("uninstall", "claude")
    assert ended.code == 0
    assert "note: billhook is installed in .claude/settings.json: `billhook uninstall claude --project`" in ended.err


def test_without_billhook_on_path(me: Person) -> None:
    """A note tells that the entries of a project would refuse calls here."""
    ended = me.install("claude", "--project", "--dry-run", "--events", "Stop", PATH="/usr/bin:/bin")
    assert "`billhook-hook` is not on PATH here" in ended.err


def test_entries_that_install_did_not_write(me: Person) -> None:
    """Another entry that calls billhook is not changed, but reported."""
    text = '{"hooks": {"Stop": [\n  {"hooks": [{"type": "command", "command": "billhook hook --as claude"}]}]}}'
    me.settings().write_text(text)
    ended = me.install("claude", "--events", "Stop")
    where = "~/.claude/settings.json:2"
    assert ended.err == f"note: {where} also calls billhook, in an entry that `install` did not write; remove it\n"
    me.alone("uninstall", "claude")
    assert me.settings().read_text() == text


def test_colour_only_on_a_terminal(me: Person) -> None:
    """A diff in green and red on a terminal, and plain text in pipes."""
    me.settings().write_text("{}")
    arguments = ("install", "claude", "--dry-run", "--events", "Stop", "--program", str(me.bin))
    assert "\x1b[" not in me.run(*arguments).out
    assert "\x1b[32m+" in on_terminal(*arguments, HOME=str(me.home)).out


def test_help(me: Person) -> None:
    """A description and examples."""
    ended = me.run("install", "--help")
    assert ended.code == 0 and "Examples:" in ended.out and "--project" in ended.out
