"""Permission rules of settings files: their places, which of them apply, and rules that can't be read."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from billhook import approve
from billhook.config import Config
from billhook.config.permissions import PlacedRule, named_tools, rules_of
from billhook.config.shapes import read_file
from billhook.config.trust import ChangedError, approve_rules
from billhook.core.errors import UsageError
from billhook.store.approvals import Approvals
from config.project import Project, codes

SETTINGS = """\
{
  "model": "x",
  "permissions": {
    "allow": ["Bash(ls *)",
              "Edit(src/**)"],
    "ask": ["Bash(git push *)"],
    "deny": [
      "Bash(rm *)"
    ],
    "additionalDirectories": ["../x"]
  }
}
"""


def texts(rules: tuple[PlacedRule, ...]) -> list[str]:
    return [str(one.rule) for one in rules]


def lists(config: Config) -> tuple[list[str], list[str], list[str]]:
    rules = config.permissions
    return texts(rules.allow), texts(rules.ask), texts(rules.deny)


def permissions(**lists: Any) -> dict[str, Any]:
    return {"permissions": lists}


def approve_all(project: Project) -> None:
    for waiting in project.load().permissions.pending:
        approve_rules(waiting, project.root)


def test_places(project: Project) -> None:
    """Each rule has its layer, file, line and column, and a short form of its place."""
    path = project.write("~/.claude/settings.json", SETTINGS)
    rules = project.load().permissions
    found = [
        (str(one.rule), one.kind, one.layer, one.line, one.column) for one in (*rules.allow, *rules.ask, *rules.deny)
    ]
    assert found == [
        ("Bash(ls *)", "allow", "user", 4, 15),
        ("Edit(src/**)", "allow", "user", 5, 15),
        ("Bash(git push *)", "ask", "user", 6, 13),
        ("Bash(rm *)", "deny", "user", 8, 7),
    ]
    assert rules.deny[0].file == str(path) and rules.deny[0].folder == str(project.folder)
    assert rules.deny[0].shown == "permissions.deny `Bash(rm *)` (~/.claude/settings.json:8)"
    assert rules.problems == () and rules.fatal == () and rules.pending == ()


@pytest.mark.parametrize(
    ("file", "layer", "shown"),
    [
        ("~/.claude/settings.json", "user", "~/.claude/settings.json:3"),
        (".claude/settings.json", "project", ".claude/settings.json:3"),
        (".claude.json", "project", ".claude.json:3"),
        (".claude/settings.local.json", "local", ".claude/settings.local.json:3"),
        ("hooks.yaml", "project", "hooks.yaml:3"),
        ("~/.config/billhook/hooks.yaml", "user", "~/.config/billhook/hooks.yaml:3"),
        (".billhook/hooks.local.yaml", "local", ".billhook/hooks.local.yaml:3"),
    ],
)
def test_every_file(project: Project, file: str, layer: str, shown: str) -> None:
    """Settings files of every layer, and hooks.yaml."""
    yaml = file.endswith("yaml")
    project.write(file, "permissions:\n  deny:\n    - Bash(rm *)\n" if yaml else permissions(deny=["Bash(rm *)"]))
    config = project.load()
    (rule,) = config.permissions.deny
    assert (rule.layer, codes(config)) == (layer, [])
    assert rule.place == (shown if yaml else shown.replace(":3", ":4"))


def test_a_file_that_is_named(project: Project) -> None:
    """A --config file belongs to the user: its allow rules count."""
    path = project.write("other.yaml", "permissions: {allow: [Bash(ls)], default_mode: acceptEdits}\n")
    config = project.load(files=[path])
    assert lists(config) == (["Bash(ls)"], [], []) and config.permissions.mode == "acceptEdits"


def test_layers_add_up(project: Project) -> None:
    """The most trusted layer first; two blocks in one file both count."""
    project.write("~/.claude/settings.json", permissions(deny=["A"], allow=["B"]))
    project.write(
        ".claude/settings.json", '{"permissions": {"deny": ["C"]}, "permissions": {"deny": ["D"], "ask": ["E"]}}'
    )
    project.write(".claude/settings.local.json", permissions(deny=["F"]))
    assert lists(project.load()) == (["B"], ["E"], ["A", "C", "D", "F"])


# -- trust


def test_allow_rules_of_a_project_wait_for_approval(project: Project) -> None:
    """Ignored, then approved, then changed: more rules need a new approval, fewer do not."""
    project.write(".claude/settings.json", SETTINGS)
    assert lists(project.load()) == ([], ["Bash(git push *)"], ["Bash(rm *)"])
    (waiting,) = project.load().permissions.pending
    assert waiting.shown == "permissions.allow of .claude/settings.json" and waiting.before is None
    assert texts(waiting.rules) == ["Bash(ls *)", "Edit(src/**)"]

    approve_rules(waiting, project.root)
    assert texts(project.load().permissions.allow) == ["Bash(ls *)", "Edit(src/**)"]

    project.write(".claude/settings.json", SETTINGS.replace('"Edit(src/**)"', '"Edit(src/**)", "Bash"'))
    assert project.load().permissions.allow == ()
    (waiting,) = project.load().permissions.pending
    assert waiting.before == ("Bash(ls *)", "Edit(src/**)") and len(waiting.rules) == 3

    project.write(".claude/settings.json", permissions(allow=["Edit(src/**)"]))
    assert texts(project.load().permissions.allow) == ["Edit(src/**)"]
    project.write(".claude/settings.json", permissions(allow=["bash(ls *)", "Edit(src/**)", "Edit(src/**)"]))
    assert len(project.load().permissions.allow) == 3


def test_one_consent_for_each_file(project: Project) -> None:
    """An approval is bound to its file, even if another file has the same rules."""
    for name in (".claude/settings.json", ".claude/settings.local.json"):
        project.write(name, permissions(allow=["Bash"]))
    first, second = project.load().permissions.pending
    assert first.hash != second.hash
    approve_rules(first, project.root)
    config = project.load()
    assert [one.layer for one in config.permissions.allow] == ["project"]
    assert [one.layer for one in config.permissions.pending] == ["local"]


def test_trust_all_and_none(project: Project) -> None:
    """As for hooks: `all` allows everything this once, `none` ignores approvals."""
    project.write(".claude/settings.json", permissions(allow=["Bash"], deny=["Read"]))
    assert lists(project.load(trust="all")) == (["Bash"], [], ["Read"])
    assert project.load(trust="all").permissions.pending == ()
    approve_all(project)
    assert lists(project.load(trust="none")) == ([], [], ["Read"])
    assert len(project.load(trust="none").permissions.pending) == 1


def test_approved_by_hash(project: Project) -> None:
    """`approve(hash)` of the library."""
    project.write(".claude/settings.json", permissions(allow=["Bash"]))
    (waiting,) = project.load().permissions.pending
    approve(waiting.hash, cwd=project.folder, home=project.root)
    assert texts(project.load().permissions.allow) == ["Bash"]
    with pytest.raises(UsageError):
        approve(waiting.hash, cwd=project.folder, home=project.root)


def test_only_what_was_shown_is_approved(project: Project) -> None:
    """A file whose allow rules changed in between is not approved; other parts may change."""
    project.write(".claude/settings.json", permissions(allow=["Bash(ls)"]))
    (waiting,) = project.load().permissions.pending
    project.write(".claude/settings.json", permissions(allow=["Bash(ls)", "Bash"]))
    with pytest.raises(ChangedError):
        approve_rules(waiting, project.root)
    project.write(".claude/settings.json", permissions(allow=["Bash(ls)"], deny=["Read"]))
    approve_rules(waiting, project.root)
    assert texts(project.load().permissions.allow) == ["Bash(ls)"]


def test_a_forged_approval_does_not_count(project: Project, tmp_path: Path) -> None:
    """Records that others may write are ignored, as for hooks; so is a record for another file."""
    project.write(".claude/settings.json", permissions(allow=["Bash"]))
    approve_all(project)
    (folder,) = (project.root / "billhook" / "approvals").iterdir()
    folder.chmod(0o777)
    assert project.load().permissions.allow == ()
    folder.chmod(0o700)
    assert texts(project.load().permissions.allow) == ["Bash"]
    project.write(".claude.json", permissions(allow=["Bash"]))
    (waiting,) = project.load().permissions.pending
    other = folder.parent / Approvals(project.root)._of(waiting.file).name
    shutil.copytree(folder, other)
    assert len(project.load().permissions.pending) == 1


def test_hooks_and_rules_are_approved_separately(project: Project) -> None:
    """A nameless hook of a file whose rules were approved is new, not changed; and the other way round."""
    hooks = {"PreToolUse": [{"hooks": [{"type": "command", "command": "true"}]}]}
    project.write(".claude/settings.json", {"hooks": hooks, **permissions(allow=["Bash"])})
    approve_all(project)
    (entry,) = project.load().entries
    assert entry.state == "new"
    project.approve()
    project.write(".claude/settings.json", {"hooks": hooks, **permissions(allow=["Bash", "Read"])})
    (entry,) = project.load().entries
    assert entry.state == "runs" and project.load().permissions.pending[0].before == ("Bash",)


# -- modes


@pytest.mark.parametrize(
    ("user", "of_project", "mode", "found"),
    [
        ("", "", "default", []),
        ("acceptEdits", "", "acceptEdits", []),
        ("bypassPermissions", "", "bypassPermissions", []),
        ("", "plan", "plan", []),
        ("", "dontAsk", "dontAsk", []),
        ("acceptEdits", "plan", "plan", []),
        ("plan", "dontAsk", "plan", []),
        ("", "acceptEdits", "default", ["BH215"]),
        ("", "bypassPermissions", "default", ["BH215"]),
        ("plan", "bypassPermissions", "plan", ["BH215"]),
        ("acceptEdits", "default", "acceptEdits", []),
        ("plann", "", "default", ["BH206"]),
        ("hosts-own", "", "default", []),
    ],
)
def test_modes(project: Project, user: str, of_project: str, mode: str, found: list[str]) -> None:
    """The user's mode counts; a project can only tighten it."""
    if user:
        project.write("~/.claude/settings.json", permissions(defaultMode=user))
    if of_project:
        project.write(".claude/settings.json", permissions(defaultMode=of_project))
    rules = project.load().permissions
    assert (rules.mode, [one.code for one in rules.problems], rules.fatal) == (mode, found, ())


@pytest.mark.parametrize(
    ("value", "disabled", "found"),
    [("disable", True, []), (True, True, []), ("off", True, ["BH206"]), (None, False, []), (False, False, [])],
)
@pytest.mark.parametrize("file", ["~/.claude/settings.json", ".claude/settings.json"])
def test_bypass_disabled(project: Project, file: str, value: object, disabled: bool, found: list[str]) -> None:
    """From any file, because it tightens; an unknown value disables, too."""
    project.write(file, permissions(disableBypassPermissionsMode=value))
    rules = project.load().permissions
    assert (rules.bypass_disabled, [one.code for one in rules.problems]) == (disabled, found)


# -- what can't be read


@pytest.mark.parametrize(
    ("text", "tools"),
    [
        ("Bash(rm *", ["Bash"]),
        ("bash(rm *", ["Bash"]),
        ("Bash(rm *) or Edit(x)", ["Bash", "Edit"]),
        ("Bash(rm *), mcp__a__b(x)", ["Bash", "mcp__a__b"]),
        ("Bash|Edit", ["Bash", "Edit"]),
        ("Bash Edit", ["Bash", "Edit"]),
        ("Bash()", ["Bash"]),
        ("WebFetch(example.com)", ["WebFetch"]),
        ("Bash)", ["Bash"]),
        ("mcp__x__*(", ["mcp__x__*"]),
    ],
)
@pytest.mark.parametrize("kind", ["deny", "ask"])
def test_an_unreadable_rule_asks_about_its_tool(project: Project, kind: str, text: str, tools: list[str]) -> None:
    """It is never dropped: every call of the tools that it seems to be about is asked about."""
    project.write(".claude/settings.json", permissions(**{kind: [text, "Task"]}))
    rules = project.load().permissions
    assert named_tools(text) == tools
    assert [one.rule.tool for one in rules.ask if one.unread] == tools
    (finding,) = rules.problems
    assert finding.code == "BH208" and finding.hint and (finding.line, finding.column) == (4, 7)
    assert rules.fatal == () and "Task" in texts(getattr(rules, kind))


@pytest.mark.parametrize("bad", ["", "(rm *)", "  ", "| |", 7, None, {"Bash": "rm"}, ["Bash"]])
def test_a_rule_without_a_tool_is_fatal(project: Project, bad: object) -> None:
    """In deny and ask: no agent starts. In allow it allows nothing, and is a finding."""
    project.write("~/.claude/settings.json", permissions(deny=[bad, "Bash"]))
    rules = project.load().permissions
    assert rules.fatal == rules.problems and len(rules.fatal) == 1 and texts(rules.deny) == ["Bash"]
    project.write("~/.claude/settings.json", permissions(allow=[bad, "Bash"]))
    rules = project.load().permissions
    assert rules.fatal == () and len(rules.problems) == 1 and texts(rules.allow) == ["Bash"]


SHAPES: dict[str, tuple[str, list[str], bool, list[str]]] = {
    # the file, codes, whether it is fatal, rules that still deny
    "nothing": ('{"permissions": null}', [], False, []),
    "empty": ('{"permissions": {"deny": [], "allow": null}}', [], False, []),
    "a string for a list": ('{"permissions": {"deny": "Bash(rm *)"}}', ["BH203"], False, ["Bash(rm *)"]),
    "a mapping for a list": ('{"permissions": {"deny": {"a": 1}}}', ["BH203"], True, []),
    "allow is a string": ('{"permissions": {"allow": "Bash"}}', ["BH203"], False, []),
    "allow is a mapping": ('{"permissions": {"allow": {}}}', ["BH203"], False, []),
    "a list for all": ('{"permissions": ["Bash"]}', ["BH203"], True, []),
    "a typo": ('{"permission": {"deny": ["Bash"]}}', ["BH202"], True, []),
    "a typo in a list": ('{"permissions": {"denys": ["Bash"]}}', ["BH202"], True, []),
    "a typo in allow": ('{"permissions": {"allows": ["Bash"]}}', ["BH202"], False, []),
    "other spelling": ('{"Permissions": {"Deny": ["Bash"]}}', [], False, ["Bash"]),
    "keys of the agent": ('{"permissions": {"additionalDirectories": [], "disableAutoMode": "x"}}', [], False, []),
}


@pytest.mark.parametrize(("text", "found", "fatal", "denied"), SHAPES.values(), ids=SHAPES)
def test_shapes(project: Project, text: str, found: list[str], fatal: bool, denied: list[str]) -> None:
    """Values in place of lists of rules."""
    project.write("~/.claude/settings.json", text)
    rules = project.load().permissions
    assert [one.code for one in rules.problems] == found
    assert bool(rules.fatal) is fatal and texts(rules.deny) == denied and rules.allow == ()


@pytest.mark.parametrize(
    ("text", "fatal"),
    [
        (b'{"permissions": {"deny": ["Bash"', True),
        (b'{"permissions": {"deny": ["Bash" "Read"]}}', True),
        ('{"permissions": {"deny": ["Bash"'.encode("utf-16"), True),
        (b'\xff{"permissions": {}}', True),
        (b'{"permissions": ' + b" " * 300_000 + b"{}}", True),
        (b" " * 300_000, True),
        (b'{"hooks": {', False),
        (b'{"permissions": {"deny": ["Bash"]}}', False),
    ],
    ids=["cut off", "no comma", "utf-16", "no utf-8", "large", "large and empty", "of hooks", "sound"],
)
def test_a_damaged_file_that_mentions_permissions_is_fatal(project: Project, text: bytes, fatal: bool) -> None:
    """The lost part may contain a deny rule."""
    path = project.write(".claude/settings.json", "")
    path.write_bytes(text)
    assert bool(project.load().permissions.fatal) is fatal


def test_a_file_that_can_not_be_opened_is_fatal(project: Project) -> None:
    """Its content is unknown."""
    (project.folder / ".claude" / "settings.json").mkdir(parents=True)
    (finding,) = project.load().permissions.fatal
    assert finding.code == "BH101"


def test_hooks_do_not_read_permissions(project: Project) -> None:
    """A mistake in permission rules does not affect the hooks of the file."""
    project.write("~/.claude/settings.json", permissions(deny=["", 7], defaultMode="plann"))
    config = project.load()
    assert config.problems == () and config.engine() is not None
    assert len(config.permissions.fatal) == 2


def test_what_a_message_quotes_is_one_line(project: Project) -> None:
    """A rule with line breaks or escapes can't inject text into a screen or the model's input."""
    project.write(
        ".claude/settings.json", permissions(deny=["Bash(rm\n\x1b[2J)", "Read(\n" + "x" * 900 + ")", "Bash(\nx"])
    )
    rules = project.load().permissions
    shown = [one.shown for one in (*rules.deny, *rules.ask)] + [one.message for one in rules.problems]
    assert len(shown) == 4
    assert all(text.isprintable() and len(text) < 700 for text in shown)
    assert rules.deny[0].rule.specifier == "rm\n\x1b[2J"


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.sampled_from(("Bash", "Bash(rm *", "", "plan", "disable", "A|B")),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(("allow", "ask", "deny", "denny", "defaultMode", "x")), inner, max_size=4)
    ),
    max_leaves=8,
)


@given(json_values, st.sampled_from(("user", "project")))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_any_content(tmp_path: Path, value: object, layer: Any) -> None:
    """Never raises; no entry of a deny or ask list is lost: it denies, asks or is fatal."""
    import json

    path = tmp_path / "settings.json"
    path.write_text(json.dumps({"permissions": value}))
    rules = rules_of([read_file(str(path), layer, str(tmp_path))], tmp_path / "state", "approved")
    assert layer == "user" or rules.allow == ()
    if not isinstance(value, dict):
        assert value is None or rules.fatal
        return
    for kind in ("deny", "ask"):
        for text in value.get(kind) or () if isinstance(value.get(kind), list) else ():
            assert (isinstance(text, str) and text in {one.text for one in (*rules.deny, *rules.ask)}) or rules.fatal
