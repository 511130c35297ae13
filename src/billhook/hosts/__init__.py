"""The coding agents that billhook can be installed into: where each keeps its hooks, and in which words.

A host is the agent as a program with files; the dialect of the same name is how one speaks to it. Everything that
differs between agents when entries are written stands in this table, and nowhere else.
"""

import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

import msgspec

from billhook import caller
from billhook.agents.names import EVENT_NAMES, NARROWER, TITLES

Shape = Literal["nested", "flat"]
Scope = Literal["user", "project"]


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """One coding agent."""

    name: str  # what `--as` and `install` call it
    title: str  # what people call it
    program: str  # the executable that is looked for on PATH
    project_file: str  # where the entries of a project stand, relative to the project
    user_file: str  # where those of the user stand, relative to the home folder
    home_variable: str = ""
    """The environment variable that moves the agent's own folder elsewhere; empty when it has none."""
    home_is: Literal["folder", "home"] = "folder"
    """What that variable names: the folder of `user_file` itself, or the home folder that it lies in."""
    shape: Shape  # `nested`: event, groups with a matcher, handlers in `hooks`. `flat`: event, handlers.
    head: Mapping[str, int] = MappingProxyType({})  # keys that a new file needs beside `hooks`
    own_file: bool = False  # whether the file is billhook's alone: the agent reads every file of that folder
    command_key: str = "command"
    typed: bool = True  # whether an entry says `"type": "command"`
    timeout_key: str = "timeout"
    unit_per_second: int  # 1: the agent counts its time-outs in seconds; 1000: in milliseconds
    default_timeout: float  # seconds that the agent gives a hook which says nothing
    longest: Mapping[str, float] = MappingProxyType({})
    """Events that the agent gives no more time than this, in seconds, whatever an entry says."""
    ending: tuple[float, int] = (5, 4500)
    """What SessionEnd gets when no hook needs more: the time-out in seconds, and our deadline in milliseconds."""
    fail_closed: tuple[str, str | bool] | None = None
    """The agent's own switch, key and value, that refuses when a hook fails; None when it has none."""
    also_refused: frozenset[str] = frozenset()  # events besides the usual ones that only this agent lets one refuse
    named: bool = False  # whether an entry may have a `name`
    group: Mapping[str, bool] = MappingProxyType({})  # what the group of an entry says beside its handlers
    http: bool = False  # whether a hook may be an HTTP request
    no_http: frozenset[str] = frozenset()  # events that take no HTTP hook
    spellings: Mapping[str, str]
    """Every event it has: the canonical name, and what it is called in this agent's file. Narrower events, and those
    that only it has, by its own name."""
    events: tuple[str, ...]  # the canonical names of what `install` writes when nothing else is said
    event_argument: bool = False  # whether the entry has to say the event's name, because the payload doesn't
    refusals: Mapping[str, Mapping[str, str | bool]] = MappingProxyType({})
    """Events on which a refusal has to be JSON at exit code 0, and its fields but for the reason, which stands where
    the value is empty; everywhere else it is exit code 2 with the reason on stderr."""
    shared_refusals: Mapping[str, tuple[Mapping[str, str | bool], int]] = MappingProxyType({})
    """The same for a project's file that other agents read as well: fields, and exit code; at 2 also on stderr."""
    parallel: bool = True  # whether it runs the hooks of one event at once
    traces: tuple[str, ...] = ("",)
    """Files and folders below its own folder by which one sees that somebody uses it; empty: the folder itself."""
    marks: tuple[str, ...]  # variables in the environment of what it runs, by which it can be told from the others

    def file(self, scope: Scope, project: str) -> str:
        """The file of the entries, as an absolute path."""
        if scope == "project":
            return os.path.join(project, self.project_file)
        return os.path.join(self.home(), self.user_file.partition("/")[2])

    def home(self) -> str:
        """The agent's own folder of this user, existing or not."""
        moved = caller.environ().get(self.home_variable) if self.home_variable else None
        if moved and self.home_is == "folder":
            return caller.abspath(caller.expanduser(moved))
        return os.path.join(caller.abspath(caller.expanduser(moved or "~")), self.user_file.partition("/")[0])


_USUAL: Final = (
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "SubagentStart",
    "SubagentStop",
    "PreCompact",
    "Stop",
    "SessionEnd",
)
"""What guards, loggers and built-ins need; further events are written when a configured hook wants them."""


def _usual(host: str, *without: str) -> tuple[str, ...]:
    """The usual events, as far as an agent has them, and each of its own names once."""
    own = {EVENT_NAMES[host][name]: name for name in reversed(_USUAL) if name in EVENT_NAMES[host]}
    return tuple(name for name in _USUAL if name in own.values() and name not in without)


_ALL: Final = (
    Host(
        name="claude",
        title=TITLES["claude"],
        program="claude",
        project_file=".claude/settings.json",
        user_file=".claude/settings.json",
        home_variable="CLAUDE_CONFIG_DIR",
        shape="nested",
        unit_per_second=1,
        default_timeout=600,
        longest={"SessionEnd": 60},
        ending=(2, 1200),  # it gives 1.5 seconds to all of SessionEnd, unless an entry says more
        fail_closed=("onFailure", "block"),
        http=True,
        no_http=frozenset({"SessionStart", "Setup"}),
        # Copilot loses the reason at exit code 2, and lets a prompt pass; Cursor has words of its own.
        shared_refusals={
            "PreToolUse": (
                {
                    "permissionDecision": "deny",
                    "permissionDecisionReason": "",
                    "permission": "deny",
                    "user_message": "",
                    "agent_message": "",
                },
                2,
            ),
            "UserPromptSubmit": ({"decision": "block", "reason": ""}, 0),
        },
        # billhook keeps its own state in that folder, too, so the folder alone says nothing
        traces=("settings.json", "projects", "plugins", "statsig", "../.claude.json"),
        spellings=EVENT_NAMES["claude"],
        events=_usual("claude"),
        marks=("CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT"),
    ),
    Host(
        name="codex",
        title=TITLES["codex"],
        program="codex",
        project_file=".codex/hooks.json",
        user_file=".codex/hooks.json",
        home_variable="CODEX_HOME",
        shape="nested",
        unit_per_second=1,
        default_timeout=600,
        longest={"SessionEnd": 3},
        ending=(3, 2500),
        spellings=EVENT_NAMES["codex"],
        events=_usual("codex"),
        marks=("CODEX_THREAD_ID", "CODEX_SANDBOX", "CODEX_SANDBOX_NETWORK_DISABLED", "CODEX_CI"),
    ),
    Host(
        name="gemini",
        title=TITLES["gemini"],
        program="gemini",
        project_file=".gemini/settings.json",
        user_file=".gemini/settings.json",
        home_variable="GEMINI_CLI_HOME",
        home_is="home",
        shape="nested",
        unit_per_second=1000,
        default_timeout=60,
        named=True,
        # In turn, and we are the last: other hooks may rewrite what we judge.
        group={"sequential": True},
        spellings=EVENT_NAMES["gemini"],
        # It says PreCompress at every turn, compacted or not: only for hooks that want it.
        events=_usual("gemini", "PreCompact"),
        marks=("GEMINI_CLI", "GEMINI_PROJECT_DIR", "GEMINI_SESSION_ID"),
    ),
    Host(
        name="qwen",
        title=TITLES["qwen"],
        program="qwen",
        project_file=".qwen/settings.json",
        user_file=".qwen/settings.json",
        shape="nested",
        unit_per_second=1000,
        default_timeout=60,
        named=True,
        # In turn, and we are the last: other hooks may rewrite what we judge.
        group={"sequential": True},
        spellings=EVENT_NAMES["qwen"],
        events=_usual("qwen"),
        marks=("QWEN_CODE", "QWEN_PROJECT_DIR"),
    ),
    Host(
        name="copilot",
        title=TITLES["copilot"],
        program="copilot",
        project_file=".github/hooks/billhook.json",
        user_file=".copilot/hooks/billhook.json",
        home_variable="COPILOT_HOME",
        shape="flat",
        head={"version": 1},
        own_file=True,
        command_key="bash",
        timeout_key="timeoutSec",
        unit_per_second=1,
        default_timeout=30,
        spellings=EVENT_NAMES["copilot"],
        events=_usual("copilot"),
        event_argument=True,
        refusals={
            "PreToolUse": {"permissionDecision": "deny", "permissionDecisionReason": ""},
            "UserPromptSubmit": {"decision": "block", "reason": ""},
        },
        parallel=False,
        marks=("COPILOT_PROJECT_DIR", "COPILOT_CLI", "COPILOT_AGENT_SESSION_ID"),
    ),
    Host(
        name="cursor",
        title=TITLES["cursor"],
        program="cursor-agent",
        project_file=".cursor/hooks.json",
        user_file=".cursor/hooks.json",
        shape="flat",
        head={"version": 1},
        typed=False,
        unit_per_second=1,
        default_timeout=60,
        fail_closed=("failClosed", True),
        also_refused=frozenset({"SubagentStart"}),
        refusals={
            "PreToolUse": {"permission": "deny", "user_message": "", "agent_message": ""},
            "UserPromptSubmit": {"continue": False, "user_message": ""},
            "SubagentStart": {"permission": "deny", "user_message": ""},
        },
        spellings={
            **EVENT_NAMES["cursor"],
            **{name: name for name in NARROWER["cursor"]},
            **{name: name for name in ("afterAgentResponse", "afterAgentThought", "workspaceOpen")},
        },
        events=_usual("cursor"),
        marks=("CURSOR_AGENT", "CURSOR_VERSION", "CURSOR_PROJECT_DIR"),
    ),
)
HOSTS: Final[Mapping[str, Host]] = MappingProxyType({host.name: host for host in _ALL})  # every agent, by its name
