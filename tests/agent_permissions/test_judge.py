"""The agent's permissions: rules, modes, decisions of hooks and the user's answers, in their order."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from billhook.agent.permissions import READING, AgentPermissions
from billhook.agent.tools import Workspace
from billhook.config.permissions import MODES, Kind, PlacedRule, Rules
from billhook.core.answers import Decision
from billhook.core.errors import BillhookError, UsageError
from billhook.core.text import Finding
from billhook.effects.rules import Rule
from billhook.session import Ruling

NONE, ALLOW, ASK, DENY = Decision.NONE, Decision.ALLOW, Decision.ASK, Decision.DENY
LS = ("Bash", {"command": "ls"})
PUSH = ("Bash", {"command": "git push"})


def inside(text: str) -> bool:
    """A workspace that is the whole folder /w."""
    return text == "/w" or (text.startswith("/w/") and "/../" not in text)


def listed(kind: Kind, *texts: str, folder: str = "/w") -> tuple[PlacedRule, ...]:
    return tuple(
        PlacedRule(Rule.parse(text), "user", f".claude/settings.json:{line}", folder, kind, text)
        for line, text in enumerate(texts, 4)
    )


def rules(allow: tuple[str, ...] = (), ask: tuple[str, ...] = (), deny: tuple[str, ...] = (), **more: Any) -> Rules:
    return Rules(allow=listed("allow", *allow), ask=listed("ask", *ask), deny=listed("deny", *deny), **more)


def permissions(**lists: Any) -> AgentPermissions:
    return AgentPermissions(rules(**lists), inside)


def judged(
    policy: AgentPermissions,
    call: tuple[str, dict[str, Any]],
    mode: str = "default",
    hook: Decision = NONE,
    cwd: str = "/w",
) -> Ruling:
    return policy.judge(call[0], call[1], cwd=cwd, mode=mode, hook=hook)


def test_a_denial_names_its_rule_and_place() -> None:
    """The model and the log get the rule and its place."""
    ruling = judged(permissions(deny=("Bash(rm *)",)), ("Bash", {"command": "ls && rm x"}))
    assert ruling.decision is DENY
    assert ruling.reason == "denied by permissions.deny `Bash(rm *)` (.claude/settings.json:4)"
    assert ruling.by == "permissions.deny `Bash(rm *)`"


def test_a_question_names_its_rule_and_only_the_person_answers() -> None:
    """An ask rule is firm: a hook's answer to PermissionRequest does not count for it."""
    ruling = judged(permissions(ask=("Bash(git push *)",)), PUSH)
    assert ruling.decision is ASK and ruling.firm and ruling.rememberable
    assert "permissions.ask `Bash(git push *)` (.claude/settings.json:4)" in ruling.reason


def test_what_no_rule_knows_is_asked_and_a_hook_may_answer() -> None:
    """Without any rule."""
    ruling = judged(permissions(), LS)
    assert ruling.decision is ASK and not ruling.firm and ruling.rememberable
    assert ruling.reason == "Bash needs permission: no rule allows it"


READ = ("Read", {"file_path": "/w/a"})
READ_OUTSIDE = ("Read", {"file_path": "/etc/passwd"})
EDIT = ("Edit", {"file_path": "a", "old_string": "x", "new_string": "y"})
EDIT_OUTSIDE = ("Write", {"file_path": "/etc/passwd", "content": ""})
EDIT_HOME = ("Write", {"file_path": "~/x", "content": ""})
TODO: tuple[str, dict[str, Any]] = ("TodoWrite", {"todos": []})
OTHER = ("mcp__x__y", {"a": 1})

CASES: dict[str, tuple[dict[str, Any], tuple[str, dict[str, Any]], str, Decision, Decision]] = {
    # lists, call, mode, the hook's decision, the result
    "deny beats allow": ({"deny": ("Bash(git push *)",), "allow": ("Bash",)}, PUSH, "default", NONE, DENY),
    "deny beats ask": ({"deny": ("Bash",), "ask": ("Bash",)}, PUSH, "default", NONE, DENY),
    "deny beats a hook": ({"deny": ("Bash",)}, PUSH, "default", ALLOW, DENY),
    "deny beats bypass": ({"deny": ("Bash",)}, PUSH, "bypassPermissions", ALLOW, DENY),
    "deny beats reading": ({"deny": ("Read",)}, READ, "default", NONE, DENY),
    "deny beats acceptEdits": ({"deny": ("Edit(a)",)}, EDIT, "acceptEdits", NONE, DENY),
    "ask beats allow": ({"ask": ("Bash(git push *)",), "allow": ("Bash",)}, PUSH, "default", NONE, ASK),
    "ask beats a hook": ({"ask": ("Bash(git push *)",)}, PUSH, "default", ALLOW, ASK),
    "ask beats bypass": ({"ask": ("Bash",)}, PUSH, "bypassPermissions", NONE, ASK),
    "ask beats reading": ({"ask": ("Read(a)",)}, READ, "default", NONE, ASK),
    "ask beats acceptEdits": ({"ask": ("Edit",)}, EDIT, "acceptEdits", NONE, ASK),
    "ask of another command": ({"ask": ("Bash(git push *)",), "allow": ("Bash(ls)",)}, LS, "default", NONE, ALLOW),
    "a hook asks": ({"allow": ("Bash",)}, LS, "default", ASK, ASK),
    "a hook asks, bypass": ({}, LS, "bypassPermissions", ASK, ASK),
    "a hook asks, dontAsk": ({"allow": ("Bash",)}, LS, "dontAsk", ASK, DENY),
    "a hook allows": ({}, LS, "default", ALLOW, ALLOW),
    "a hook allows, dontAsk": ({}, LS, "dontAsk", ALLOW, ALLOW),
    "a hook allows, plan": ({}, LS, "plan", ALLOW, DENY),
    "bypass": ({}, LS, "bypassPermissions", NONE, ALLOW),
    "bypass outside": ({}, EDIT_OUTSIDE, "bypassPermissions", NONE, ALLOW),
    "bypass refused": ({"bypass_disabled": True}, LS, "bypassPermissions", NONE, ASK),
    "allowed": ({"allow": ("Bash(ls *)",)}, LS, "default", NONE, ALLOW),
    "allowed in part": ({"allow": ("Bash(ls *)",)}, ("Bash", {"command": "ls; rm x"}), "default", NONE, ASK),
    "allowed together": (
        {"allow": ("Bash(ls *)", "Bash(wc *)")},
        ("Bash", {"command": "ls | wc -l"}),
        "default",
        NONE,
        ALLOW,
    ),
    "allowed, dontAsk": ({"allow": ("Bash(ls *)",)}, LS, "dontAsk", NONE, ALLOW),
    "allowed, plan": ({"allow": ("Bash(ls *)",)}, LS, "plan", NONE, DENY),
    "allowed edit": ({"allow": ("Edit(*.py)",)}, ("Write", {"file_path": "b/x.py"}), "default", NONE, ALLOW),
    "not that edit": ({"allow": ("Edit(*.py)",)}, EDIT, "default", NONE, ASK),
    "reading": ({}, READ, "default", NONE, ALLOW),
    "reading, plan": ({}, READ, "plan", NONE, ALLOW),
    "reading, dontAsk": ({}, READ, "dontAsk", NONE, ALLOW),
    "reading relative": ({}, ("Read", {"file_path": "a/b"}), "default", NONE, ALLOW),
    "reading outside": ({}, READ_OUTSIDE, "default", NONE, ASK),
    "reading outside, dontAsk": ({}, READ_OUTSIDE, "dontAsk", NONE, DENY),
    "reading home": ({}, ("Read", {"file_path": "~/.ssh/id"}), "default", NONE, ASK),
    "reading a list": ({}, ("Read", {"file_path": ["a"]}), "default", NONE, ASK),
    "reading two paths": ({}, ("Read", {"file_path": "a", "path": "/etc/x"}), "default", NONE, ASK),
    "searching here": ({}, ("Grep", {"pattern": "x"}), "default", NONE, ALLOW),
    "searching elsewhere": ({}, ("Glob", {"pattern": "../*"}), "default", NONE, ASK),
    "a list of work": ({}, TODO, "plan", NONE, ALLOW),
    "by a seed's name": ({}, ("read_file", {"path": "a"}), "default", NONE, ALLOW),
    "editing": ({}, EDIT, "default", NONE, ASK),
    "editing, acceptEdits": ({}, EDIT, "acceptEdits", NONE, ALLOW),
    "editing outside, acceptEdits": ({}, EDIT_OUTSIDE, "acceptEdits", NONE, ASK),
    "editing home, acceptEdits": ({}, EDIT_HOME, "acceptEdits", NONE, ASK),
    "editing nothing, acceptEdits": ({}, ("Edit", {}), "acceptEdits", NONE, ASK),
    "editing, dontAsk": ({}, EDIT, "dontAsk", NONE, DENY),
    "editing, plan": ({}, EDIT, "plan", NONE, DENY),
    "asked in plan": ({"ask": ("Edit",)}, EDIT, "plan", ASK, DENY),
    "bash, acceptEdits": ({}, LS, "acceptEdits", NONE, ASK),
    "another tool": ({}, OTHER, "default", NONE, ASK),
    "another tool, plan": ({}, OTHER, "plan", NONE, DENY),
    "another tool, dontAsk": ({}, OTHER, "dontAsk", NONE, DENY),
    "another tool, allowed": ({"allow": ("mcp__x",)}, OTHER, "default", NONE, ALLOW),
    "an unknown mode": ({}, LS, "yolo", NONE, ASK),
}


@pytest.mark.parametrize(("lists", "call", "mode", "hook", "decision"), CASES.values(), ids=CASES)
def test_order(
    lists: dict[str, Any], call: tuple[str, dict[str, Any]], mode: str, hook: Decision, decision: Decision
) -> None:
    """Mode by rule by a hook's decision by tool."""
    ruling = judged(permissions(**lists), call, mode, hook)
    assert ruling.decision is decision, ruling
    assert ruling.reason or decision is ALLOW
    assert ruling.by or (decision is ASK and not ruling.firm)


# -- what the person allowed for the session


def test_a_command_is_remembered_word_for_word() -> None:
    """One more command in the line, another folder, or a field that changes its effect: the user is asked again."""
    policy = permissions()
    policy.remember(*LS, cwd="/w")
    assert judged(policy, LS).decision is ALLOW
    assert judged(policy, ("Bash", {"command": "ls", "timeout": 5, "description": "look"})).decision is ALLOW
    assert judged(policy, ("bash", {"command": "ls"})).decision is ALLOW
    for other in ("ls; rm x", "ls ", "ls\nrm x", "ls -l", "rm x"):
        assert judged(policy, ("Bash", {"command": other})).decision is ASK, other
    assert judged(policy, LS, cwd="/w/sub").decision is ASK
    assert judged(policy, ("Bash", {"command": "ls", "env": {"PATH": "."}})).decision is ASK


def test_an_edit_is_remembered_for_its_tool_in_the_workspace() -> None:
    """The person let Edit go on; Write and what lies outside are still asked."""
    policy = permissions()
    policy.remember(*EDIT, cwd="/w")
    assert judged(policy, ("Edit", {"file_path": "/w/other"})).decision is ALLOW
    assert judged(policy, ("Edit", {"file_path": "/etc/x"})).decision is ASK
    assert judged(policy, ("Edit", {"file_path": "../x"})).decision is ASK
    assert judged(policy, ("Write", {"file_path": "/w/other"})).decision is ASK


def test_outside_of_the_workspace_one_file_is_remembered() -> None:
    """Who may read one file out there may not read another."""
    policy = permissions()
    policy.remember(*READ_OUTSIDE, cwd="/w")
    assert judged(policy, READ_OUTSIDE).decision is ALLOW
    assert judged(policy, ("Read", {"file_path": "/etc/shadow"})).decision is ASK


def test_another_tool_is_remembered_as_such() -> None:
    """Whatever its input."""
    policy = permissions()
    policy.remember(*OTHER, cwd="/w")
    assert judged(policy, ("mcp__x__y", {"a": 2})).decision is ALLOW
    assert judged(policy, ("mcp__x__z", {"a": 1})).decision is ASK


def test_an_answer_silences_the_ask_rules_that_were_there() -> None:
    """An ask rule is silent after a yes for the session; one that the person was not told of is not, nor is a hook."""
    policy = permissions(ask=("Edit(/w/secrets/**)", "Bash(git push *)"))
    policy.remember(*PUSH, cwd="/w")
    assert judged(policy, PUSH).decision is ALLOW
    assert judged(policy, PUSH, hook=ASK).decision is ASK
    assert not judged(policy, PUSH, hook=ASK).rememberable
    policy.remember(*EDIT, cwd="/w")
    secret = ("Edit", {"file_path": "secrets/key"})
    assert judged(policy, secret).decision is ASK
    policy.remember(*secret, cwd="/w")
    assert judged(policy, secret).decision is ALLOW


def test_what_is_remembered_is_no_plan() -> None:
    """In the mode plan nothing is changed, even after an answer for the session; nor does it override a deny rule."""
    policy = permissions(deny=("Bash(git push *)",))
    for call in (EDIT, PUSH):
        policy.remember(*call, cwd="/w")
    assert judged(policy, EDIT, "plan").decision is DENY
    assert judged(policy, EDIT, "dontAsk").decision is ALLOW
    assert judged(policy, PUSH).decision is DENY


@pytest.mark.parametrize(
    "call",
    [
        ("Bash", {"command": ["ls"]}),
        ("Bash", {}),
        ("Edit", {"file_path": ["a"]}),
        ("Read", {"file_path": "/a\0b"}),
        ("Glob", {"pattern": "{a,/etc}"}),
    ],
    ids=["list", "none", "path", "nul", "braces"],
)
def test_what_can_not_be_remembered(call: tuple[str, dict[str, Any]]) -> None:
    """If the paths of a call are unknown, the answer is for that call only, and so is the question."""
    policy = permissions()
    ruling = judged(policy, call)
    assert ruling.decision is ASK and not ruling.rememberable
    policy.remember(*call, cwd="/w")
    assert judged(policy, call).decision is ASK


# -- where rules and calls start from


def test_cd_leaves_no_rule_behind() -> None:
    """Relative paths in rules start at the project, those in calls where the agent is."""
    policy = permissions(deny=("Read(sub/secret)",), allow=("Edit(src/**)",))
    for cwd, path in (("/w", "sub/secret"), ("/w/sub", "secret"), ("/w/sub/x", "../secret"), ("/w/a", "/w/sub/secret")):
        assert judged(policy, ("Read", {"file_path": path}), cwd=cwd).decision is DENY, (cwd, path)
    assert judged(policy, ("Edit", {"file_path": "x"}), cwd="/w/src").decision is ALLOW
    assert judged(policy, ("Edit", {"file_path": "src/x"}), cwd="/w/vendored").decision is ASK


def test_a_search_counts_as_reading_where_the_agent_is() -> None:
    """A search without a folder searches the working directory."""
    policy = permissions(deny=("Read(sub/**)",))
    assert judged(policy, ("Grep", {"pattern": "x"}), cwd="/w/sub").decision is DENY
    assert judged(policy, ("Grep", {"pattern": "x"}), cwd="/w/other").decision is ALLOW


def test_rules_of_several_folders() -> None:
    """Each file's rules start from its own project; commands of one line may be covered from several files."""
    both = Rules(
        allow=(
            *listed("allow", "Edit(a/**)", "Bash(ls *)"),
            *listed("allow", "Edit(a/**)", "Bash(wc *)", folder="/w/inner"),
        )
    )
    policy = AgentPermissions(both, inside)
    assert judged(policy, ("Edit", {"file_path": "/w/inner/a/x"})).decision is ALLOW
    assert judged(policy, ("Edit", {"file_path": "/w/a/x"})).decision is ALLOW
    assert judged(policy, ("Edit", {"file_path": "/w/b/a/x"})).decision is ASK
    assert judged(policy, ("Bash", {"command": "ls | wc"})).by == "permissions.allow"


def test_in_a_real_workspace(tmp_path: Path) -> None:
    """Links that lead out are out, for reading and for edits."""
    (tmp_path / "w").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "w" / "link").symlink_to(tmp_path / "out")
    cwd = str(tmp_path / "w")
    policy = AgentPermissions(Rules(), Workspace(cwd).inside)
    for path, read, edit in (("a", ALLOW, ALLOW), ("link/a", ASK, ASK), ("../out/a", ASK, ASK)):
        assert judged(policy, ("Read", {"file_path": path}), cwd=cwd).decision is read
        assert judged(policy, ("Write", {"file_path": path}), "acceptEdits", cwd=cwd).decision is edit


# -- starting


def test_modes_to_start_in() -> None:
    """The user's choice, otherwise the mode in the files."""
    policy = permissions(mode="plan")
    assert policy.starting_mode() == "plan" and policy.starting_mode("acceptEdits") == "acceptEdits"
    with pytest.raises(UsageError, match="did you mean `plan`"):
        policy.starting_mode("plann")
    assert permissions(mode="bypassPermissions").starting_mode() == "bypassPermissions"


def test_bypass_is_refused() -> None:
    """Where a file disables it: as a wish with an error, as a default silently, and in any case without effect."""
    policy = permissions(mode="bypassPermissions", bypass_disabled=True)
    assert policy.starting_mode() == "default"
    with pytest.raises(UsageError, match="disableBypassPermissionsMode"):
        policy.starting_mode("bypassPermissions")
    assert judged(policy, LS, "bypassPermissions").decision is ASK


def test_no_start_without_rules_that_may_deny() -> None:
    """An unreadable deny rule is not ignored."""
    fatal = Finding("BH208", "the rule is empty", "/w/s.json", 3, 5, "name a tool")
    with pytest.raises(BillhookError, match=r"/w/s\.json:3:5: .*the rule is empty"):
        AgentPermissions(Rules(fatal=(fatal,)), inside)


# -- whatever happens

TOOLS = ("Bash", "Read", "Write", "Edit", "Grep", "Glob", "Task", "WebFetch", "TodoWrite", "mcp__a__b", "mine")
SPECIFIERS = ("", "(*)", "(ls *)", "(rm *)", "(git push *)", "(a)", "(src/**)", "(/etc/**)", "(~/**)")
COMMANDS = ("ls", "rm x", "ls; rm x", "git push", "$(x)", "echo 'rm", "", "ls > a", "sudo rm x")
PATHS = ("a", "src/x", "/etc/passwd", "~/x", "../x", "/w/a", "", "\0", "\ud800", "/w/src")

texts = st.builds(
    lambda tool, specifier: tool if tool == "WebFetch" else tool + specifier,
    st.sampled_from(TOOLS),
    st.sampled_from(SPECIFIERS),
)
lists = st.lists(texts, max_size=4).map(tuple)
values = st.one_of(st.sampled_from(PATHS), st.none(), st.integers(), st.lists(st.sampled_from(PATHS), max_size=2))
inputs = st.dictionaries(st.sampled_from(("file_path", "path", "pattern", "x")), values, max_size=3)
calls = st.one_of(
    st.tuples(st.just("Bash"), st.fixed_dictionaries({"command": st.sampled_from(COMMANDS)})),
    st.tuples(st.sampled_from(TOOLS), inputs),
)
hooks = st.sampled_from((NONE, ALLOW, ASK))
modes = st.sampled_from(MODES)
cwds = st.sampled_from(("/w", "/w/src", "/", ""))


@given(lists, lists, lists, calls, st.lists(calls, max_size=4), modes, hooks, cwds)
def test_nothing_beats_a_deny_rule_or_loosens_an_ask_rule(
    allow: tuple[str, ...],
    ask: tuple[str, ...],
    deny: tuple[str, ...],
    call: tuple[str, dict[str, Any]],
    remembered: list[tuple[str, dict[str, Any]]],
    mode: str,
    hook: Decision,
    cwd: str,
) -> None:
    """A deny rule that strikes denies, whatever mode, hook and memory; an ask rule that strikes is never allowed by
    a hook or by bypassPermissions; a hook's question is never answered by anything here."""
    policy = permissions(allow=allow, ask=ask, deny=deny)
    decision = judged(policy, call, mode, hook, cwd).decision
    if any(Rule.parse(text).strikes(*call, cwd) for text in ask):
        assert decision in (ASK, DENY)
    for one in remembered:
        policy.remember(*one, cwd=cwd)
    after = judged(policy, call, mode, hook, cwd).decision
    if any(Rule.parse(text).strikes(*call, cwd) for text in deny):
        assert decision is DENY and after is DENY
    if hook is ASK:
        assert decision in (ASK, DENY) and after in (ASK, DENY)
    if mode == "dontAsk":
        assert ASK not in (decision, after)
    if mode == "plan" and call[0] not in READING:
        assert decision is DENY and after is DENY


@given(lists, calls, calls, modes, cwds)
@example((), ("Bash", {"command": "ls"}), ("Write", {"file_path": "\0"}), "acceptEdits", "/w")
def test_only_what_was_remembered(
    ask: tuple[str, ...],
    reported: tuple[str, dict[str, Any]],
    call: tuple[str, dict[str, Any]],
    mode: str,
    cwd: str,
) -> None:
    """A yes to one command line makes no other one run."""
    before = judged(permissions(ask=ask), call, mode, NONE, cwd).decision
    policy = permissions(ask=ask)
    policy.remember(*reported, cwd=cwd)
    after = judged(policy, call, mode, NONE, cwd).decision
    if call[0] == "Bash" and call[1].get("command") != reported[1].get("command"):
        assert after is before
