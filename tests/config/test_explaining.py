"""Why a hook would run or would be skipped; checked against what an engine really does."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from billhook import Decision
from billhook.config import load_config
from billhook.config.builtin_hooks import StandIn
from billhook.config.config import rows
from billhook.config.explain import ExplainedHook, Explanation, explain
from billhook.core.dialect_traits import MEANINGS, meanings
from billhook.core.events import Event, parse
from billhook.core.hook import Context
from billhook.core.match import compile_matcher
from billhook.effects.rules import Rule
from config.project import Project

OWN = "~/.config/billhook/hooks.yaml"


def event(name: str = "PreToolUse", tool: str = "Bash", **more: Any) -> Event:
    about: dict[str, Any] = {"hook_event_name": name, "session_id": "s", "cwd": "/project"}
    if "ToolUse" in name:
        about |= {"tool_name": tool, "tool_input": {"command": "git push -f"}, "tool_response": "done"}
    return parse({**about, **more})


def command(text: str) -> Event:
    return event(tool_input={"command": text})


def explained(project: Project, about: Event, **options: Any) -> Explanation:
    return explain(project.load(**options), about)


def one(project: Project, hooks: str, about: Event, file: str = OWN) -> ExplainedHook:
    """The explanation of the only hook."""
    project.write(file, hooks)
    found = explained(project, about)
    (only,) = (*found.hooks, *found.others)
    return only


def hook(**fields: Any) -> str:
    lines = "".join(
        f"    {key}: {value}\n" for key, value in ({"events": "PreToolUse", "run": "'true'"} | fields).items()
    )
    return f"hooks:\n  it:\n{lines}"


@pytest.mark.parametrize(
    ("fields", "about", "why", "fix"),
    [
        pytest.param(
            {"match": "bash"},
            event(),
            "`bash` never matches: in the dialect `claude` the tool is called `Bash`",
            "write `match: Bash`",
            id="a name of another dialect",
        ),
        pytest.param(
            {"match": "BASH"},
            event(),
            "`BASH` never matches: the tool is called `Bash`; matchers are case-sensitive",
            "write `match: Bash`",
            id="case",
        ),
        pytest.param(
            {"match": "mytool"},
            event(tool="MyTool"),
            "`match: mytool` does not match `MyTool`: `claude` is case-sensitive",
            "write `match: MyTool`",
            id="case of a tool of one's own",
        ),
        pytest.param(
            {"match": "Write|Edit"},
            event(),
            "`match: Write|Edit` does not match `Bash`",
            "",
            id="another tool",
        ),
        pytest.param(
            {"match": "mcp__.*"},
            event(),
            "`match: mcp__.*` does not match `Bash`",
            "",
            id="an expression",
        ),
        pytest.param(
            {"match": "mcp__github"},
            event(tool="mcp__github__push"),
            "`mcp__github` is not a tool: the tools of a server are called `mcp__github__...`",
            "write `match: mcp__github__.*`",
            id="a server",
        ),
        pytest.param(
            {"match": "Bash(git *)"},
            event(),
            "`Bash(git *)` is a rule, and a matcher is compared only with the name of the tool: it never matches",
            "write `match: Bash` and `if: Bash(git *)`",
            id="a rule as a matcher",
        ),
        pytest.param(
            {"match": "write_file", "dialect": "lesson"},
            event(),
            "`match: write_file` does not match `Bash` or `bash`",
            "",
            id="exact names",
        ),
        pytest.param(
            {"match": "write_*|edit_file", "dialect": "claw"},
            event(),
            "`match: write_*|edit_file` does not match `Bash` or `bash`",
            "",
            id="wildcards",
        ),
        pytest.param(
            {"events": "SessionStart", "match": "resume"},
            event("SessionStart", source="startup"),
            "`match: resume` does not match `startup`",
            "",
            id="a source",
        ),
        pytest.param(
            {"if": "Bash(terraform destroy *)"},
            command("git push && ls"),
            "`if: Bash(terraform destroy *)` does not match `git push` and `ls`",
            "",
            id="a rule about another command",
        ),
        pytest.param(
            {"if": "Bash(git push --force *)"},
            command("git push -f"),
            "`if: Bash(git push --force *)` does not match `git push -f`",
            "write `if: Bash(git push *)`, which also matches the other spellings",
            id="another spelling",
        ),
        pytest.param(
            {"if": "Write(*.py)"},
            event(),
            "`if: Write(*.py)` is for `Write`, and this is `Bash`",
            "",
            id="a rule about another tool",
        ),
        pytest.param(
            {"if": "bsh(git *)"},
            event(),
            "`if: bsh(git *)` is for `bsh`, and this is `Bash`",
            "write `if: Bash(git *)`",
            id="a rule about no tool",
        ),
        pytest.param(
            {"if": "Edit(src/**)"},
            event(tool="Write", tool_input={"file_path": "/project/docs/a.md"}),
            "`if: Edit(src/**)` does not match `/project/docs/a.md`",
            "",
            id="a rule about another path",
        ),
        pytest.param(
            {"events": "Stop", "if": "Bash"},
            event("Stop", stop_hook_active=False),
            "`if: Bash` is a rule for tool calls, and Stop has no tool",
            "",
            id="a rule where there is no tool",
        ),
        pytest.param(
            {"events": "SessionStart", "dialect": "lesson"},
            event("SessionStart", source="clear"),
            "in the dialect `lesson`, SessionStart fires only for `resume` and `startup`, not for `clear`",
            "",
            id="a source that the dialect leaves out",
        ),
        pytest.param(
            {"background": "true", "gate": "true"},
            event(),
            "it is a gate in the background, and PreToolUse waits for its answer: it counts as failed",
            "remove `background: true`",
            id="in the background of a gate",
        ),
        pytest.param(
            {"events": "[Stop, PostToolUse]"},
            event(),
            "it listens for `Stop` and `PostToolUse`, not `PreToolUse`",
            "",
            id="another event",
        ),
        pytest.param(
            {"enabled": "false"},
            event(),
            "it is switched off: `enabled: false` in {file}:2",
            "remove `enabled: false`",
            id="switched off",
        ),
        pytest.param(
            {"timeout": "soon"},
            event(),
            "it can't be used: `timeout` must be a number, not a string",
            "write a number",
            id="broken",
        ),
        pytest.param(
            {"if": "Bash(git"},
            event(),
            "it can't be used: unbalanced parenthesis in `Bash(git`",
            "write `Tool` or `Tool(specifier)`, ending in `)`",
            id="a broken rule",
        ),
        pytest.param(
            {"run": "'${NO_SUCH_VARIABLE}'", "match": "${NO_SUCH_VARIABLE}"},
            event(),
            "the variable `NO_SUCH_VARIABLE` is not set",
            "set it, or give a default: `${NO_SUCH_VARIABLE:-...}`",
            id="an unset variable",
        ),
    ],
)
def test_why_not(project: Project, fields: dict[str, str], about: Event, why: str, fix: str) -> None:
    """The condition that failed, and the edit that would change it."""
    found = one(project, hook(**fields), about)

    assert not found.runs and not found.blocks and found.order is None
    assert found.reasons[0].why == why.replace("{file}", str(project.path(OWN)))
    assert found.reasons[0].fix == fix


def test_two_conditions(project: Project) -> None:
    """Both are reported when both fail, so that the user fixes both at once."""
    found = one(project, hook(match="Write", **{"if": "Write(*.py)"}), event())

    assert [reason.condition for reason in found.reasons] == ["match", "if"]


def test_what_json_files_should_hold(project: Project) -> None:
    """The edit is spelt as the file spells it."""
    text = '{"hooks": {"PreToolUse": [{"matcher": "bash", "hooks": [{"type": "command", "command": "true"}]}]}}'

    assert one(project, text, event(), "~/.claude/settings.json").fix == 'write `"matcher": "Bash"`'


def test_not_approved_and_changed(project: Project) -> None:
    """A hook that is not approved is skipped; a gate that changed blocks what either version would have checked."""
    project.write("hooks.yaml", hook(gate="true", match="Bash"))
    (new,) = explained(project, event()).hooks
    project.approve()
    (approved,) = explained(project, event()).hooks
    project.write("hooks.yaml", hook(gate="true", match="Write"))
    (before,), (now,) = (explained(project, event(tool=tool)).hooks for tool in ("Bash", "Write"))
    (neither,) = explained(project, event(tool="Read")).hooks

    assert (new.reasons[0].condition, new.blocks) == ("new", False)
    assert new.fix == "`billhook trust it` shows it and asks for approval"
    assert approved.runs and approved.order == 1
    assert [(one.runs, one.blocks, one.order) for one in (before, now)] == [(False, True, 1)] * 2
    assert [reason.condition for reason in neither.reasons] == ["changed", "match"] and not neither.blocks


def test_broken_gates_block(project: Project) -> None:
    """A broken gate blocks, and the outlook is a deny."""
    project.write(OWN, hook(gate="true", timeout="soon", match="Bash"))
    found = explained(project, event())

    assert found.hooks[0].blocks and (found.outlook.decision, found.outlook.by) == ("deny", ("it",))
    assert not explained(project, event(tool="Read")).hooks[0].blocks


def test_a_file_that_cannot_be_read_blocks(project: Project) -> None:
    """It may contain gates."""
    project.write(OWN, "hooks: {it: {gate: true, run: [}")

    (found,) = explained(project, event()).hooks
    assert found.blocks and str(project.path(OWN)) in found.why


def test_the_same_hook_in_two_layers(project: Project) -> None:
    """It runs once, and the reason of the second names the file of the first."""
    project.write(OWN, hook())
    project.write("hooks.yaml", hook())
    project.approve()

    first, second = explained(project, event()).hooks
    assert first.runs and second.reasons[0].condition == "same" and str(project.path(OWN)) in second.why


def test_only_a_switch(project: Project) -> None:
    """An entry that only switches off another hook is not shown as a hook."""
    project.write(OWN, hook() + "  other:\n    enabled: false\n")

    found = explained(project, event())
    assert [one.row.name for one in (*found.hooks, *found.others)] == ["it"]


def test_order_deadline_and_failure(project: Project) -> None:
    """In running order, each with its time and what its failure does."""
    project.write(
        OWN,
        "hooks:\n"
        "  last: {events: PreToolUse, run: 'true', priority: 200}\n"
        "  second: {events: PreToolUse, run: 'true', after: [first], gate: true, timeout: 5}\n"
        "  first: {events: PreToolUse, run: 'true', on_failure: ask, dialect: lesson}\n",
    )
    found = explained(project, event())

    assert [(one.row.name, one.order, one.seconds, one.default, one.failure) for one in found.hooks] == [
        ("first", 1, 30.0, True, "if it fails, the user is asked"),
        ("second", 2, 5.0, False, "if it fails, the action is denied"),
        ("last", 3, 600.0, True, "if it fails, the action continues"),
    ]
    assert (found.outlook.gates, found.outlook.fail_open) == (("first", "second"), ("last",))
    assert (found.outlook.open, found.outlook.certain) == (("first", "second", "last"), False)


@pytest.mark.parametrize(
    ("name", "rule", "failure"),
    [
        pytest.param("PostToolUse", "allow", "if it fails, the error is shown", id="after the tool"),
        pytest.param(
            "PostToolUse", "deny", "if it fails, the result is marked as an error", id="a gate after the tool"
        ),
        pytest.param("Stop", "deny", "if it fails, the error is shown and the agent stops as usual", id="stop"),
    ],
)
def test_failures_elsewhere(project: Project, name: str, rule: str, failure: str) -> None:
    """What a failure does depends on the event."""
    assert one(project, hook(events=name, on_failure=rule), event(name)).failure == failure


def test_known_answers(project: Project) -> None:
    """Fixed answers in a file are always the same, so the verdict can be known in advance."""
    project.write(
        OWN,
        "hooks:\n"
        "  asks: {events: PreToolUse, if: Bash(git *), ask: really?}\n"
        "  denies: {events: PreToolUse, if: Bash(rm *), deny: never}\n"
        "  runs: {events: PreToolUse, if: Bash(git push *), run: 'true'}\n",
    )

    def outlook(text: str) -> tuple[str, bool, tuple[str, ...], tuple[str, ...]]:
        found = explained(project, command(text)).outlook
        return found.decision.value, found.certain, found.by, found.open

    assert outlook("ls") == ("none", True, (), ())
    assert outlook("git log") == ("ask", True, ("asks",), ())
    assert outlook("git push") == ("ask", False, ("asks",), ("runs",))
    assert outlook("git push; rm x") == ("deny", True, ("denies",), ())  # `runs` is not reached


def test_guard_is_known(project: Project) -> None:
    """The answer of the built-in guard is known: it only reads the event."""
    calls = [command("ls"), command("billhook trust --all")]
    found = [explained(project, call, builtins=True).hooks[-1].answer for call in calls]

    assert [answer.decision for answer in found if answer is not None] == ["none", "deny"]


def test_a_gate_whose_file_cannot_be_read_blocks_only_its_calls(project: Project) -> None:
    """The rules count with which it was approved, also in the explanation."""
    file = "hooks.yaml"
    project.write(file, "hooks:\n  no-push: {events: PreToolUse, if: Bash(git push *), deny: never}\n")
    project.approve()
    project.write(file, "hooks:\n  no-push: {events: [PreToolUse\n")
    for text in ("ls", "git push -f"):
        found = explained(project, command(text))
        blocked = project.fire(command=text).decision is Decision.DENY
        assert [one.blocks for one in found.hooks if one.row.name == "no-push"] == [blocked]
        assert blocked is (text != "ls")


def test_a_matcher_that_cannot_be_read(project: Project) -> None:
    """It matches everything, and that is noted."""
    found = one(project, hook(match="'Bash('"), event())

    assert found.runs and "matches everything" in found.notes[0]


def test_nothing_is_run(project: Project) -> None:
    """Hooks that would leave a trace leave none."""
    trace = project.folder / "trace"
    project.write(OWN, hook(run=f"touch {trace}") + f"  two:\n    events: PreToolUse\n    exec: [touch, {trace}]\n")

    assert all(one.runs for one in explained(project, event()).hooks)
    assert not trace.exists()


PATTERNS = ["Bash", "bash", "Write|Edit", "write_file", "*", "Ba.*", "B*", "mcp__.*", "(", "Read,Bash", "^Bash$", ""]
RULES = ["", "Bash", "Bash(git *)", "Bash(rm *)", "Write(*.py)", "mcp__x", "Edit"]
TOOLS = ["Bash", "bash", "Write", "write_file", "Read", "mcp__x__y", "MyTool"]


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    hooks=st.lists(
        st.tuples(st.sampled_from(PATTERNS), st.sampled_from(RULES), st.sampled_from([*MEANINGS])),
        min_size=1,
        max_size=4,
    ),
    tool=st.sampled_from(TOOLS),
    text=st.sampled_from(["git push -f", "ls", "rm -rf /", "$X y"]),
)
def test_explain_agrees_with_the_engine(
    project: Project, hooks: list[tuple[str, str, str]], tool: str, text: str
) -> None:
    """Exactly the hooks that an engine runs are shown as running, and every proposed edit works."""
    entries = {
        f"h{i}": {"events": "PreToolUse", "match": match, "inject": f"h{i}", "dialect": dialect}
        | ({"if": rule} if rule else {})
        for i, (match, rule, dialect) in enumerate(hooks)
    }
    project.write(OWN, {"hooks": entries})
    config, about = project.load(), event(tool=tool, tool_input={"command": text})

    verdict = config.engine().fire_sync(about)
    found = explain(config, about)

    ran = [outcome.hook for outcome in verdict.outcomes if outcome.status.value == "ok"]
    assert [one.row.name for one in found.hooks if one.runs] == ran
    for one_ in found.hooks:
        for reason in one_.reasons:
            assert reason.why and proposed(reason.fix, reason.condition, one_, about)


def proposed(fix: str, condition: str, about: ExplainedHook, happened: Event) -> bool:
    """Whether a proposed value does what it is proposed for."""
    start, _, value = fix.removeprefix("write `").partition(": ")
    value = value.partition("`")[0].strip('"')
    if not fix.startswith("write `"):
        return True
    if condition == "if":
        return Rule.parse(value).strikes(happened.tool_name, happened.tool_input, happened.cwd)  # type: ignore[attr-defined]
    assert start == "match"
    tool: str = happened.target or ""
    row = meanings(about.row.dialect)
    from billhook.core import tools

    names = {tool, tools.canonical(tool), *([tools.called(tool, row.naming)] if row.naming != "canonical" else [])}
    return compile_matcher(value, row.matching, "PreToolUse").matches(*names)


def test_rows_are_complete(project: Project) -> None:
    """Every configured hook has exactly one row, whatever became of it; those without effect come last."""
    project.write(OWN, hook() + "  off: {events: Stop, run: 'true', enabled: false}\n  odd: {events: Stop, run: []}\n")
    project.write("hooks.yaml", hook(run="ls") + "  mine: {events: Stop, run: 'true', gate: true}\n")
    config = load_config(project.folder, home=project.root)

    found = rows(config)

    assert [(row.name, row.state, row.effect, row.trust) for row in found] == [
        *((name, "runs", "runs", "built-in") for name in BUILT_IN[:-1]),
        ("user/it", "runs", "runs", "own"),
        (BUILT_IN[-1], "runs", "runs", "built-in"),
        ("project/it", "new", "nothing", "not approved"),
        ("mine", "new", "nothing", "not approved"),
        ("off", "off", "nothing", "own"),
        ("odd", "broken", "nothing", "own"),
    ]


BUILT_IN = ("metrics", "turn-tracker", "session-naming", "event-logger", "guard")

KEYS = ["events", "match", "if", "run", "exec", "deny", "gate", "timeout", "after", "dialect", "enabled", "background"]
VALUES = st.one_of(
    st.sampled_from(["PreToolUse", "Stop", "Bash", "Bash(git *)", "(", "", "it", "claw", "${X}", "\x1b[0m", "a|b,c"]),
    st.booleans(),
    st.none(),
    st.integers(-1, 3),
    st.lists(st.sampled_from(["PreToolUse", "it", "ls", "h0"]), max_size=2),
)


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    hooks=st.lists(st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=6), max_size=4),
    mine=st.booleans(),
    name=st.sampled_from(["PreToolUse", "Stop", "SessionStart"]),
)
def test_whatever_a_file_holds(project: Project, hooks: list[dict[str, Any]], mine: bool, name: str) -> None:
    """Every hook has one row and one explanation, and those for which an engine blocks are shown as blocking."""
    project.path("hooks.yaml").unlink(missing_ok=True)
    project.path(OWN).unlink(missing_ok=True)
    entries = {f"h{i}": {"events": name, **fields} for i, fields in enumerate(hooks)}
    project.write(OWN if mine else "hooks.yaml", {"hooks": entries})
    config, about = project.load(), event(name, source="startup")

    found = explain(config, about)

    shown = rows(config)
    assert sum(row.declared is not None for row in shown) == len(config.entries)
    assert len(found.hooks) + len(found.others) == sum(not row.switch for row in shown)
    steps = [step for step in config.plan.steps(about) if isinstance(step.run, StandIn) and step.run.blocks]
    struck = [step for step in steps if step.hook.condition is None or step.hook.condition(Context(about, []))]
    assert bool(struck) == any(one.blocks for one in found.hooks)
