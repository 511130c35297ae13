"""`billhook add` and `billhook remove`, as a person types them."""

import json
import shlex
from pathlib import Path

import pytest
import yaml
from inline_snapshot import snapshot

from billhook.config import edit_yaml
from billhook.config.recipes import find, shipped
from billhook.core.errors import UsageError
from cli.place import Place
from cli.terminal import Ended
from recipes.cases import Scratch

OURS = """\
title: No deploys on Fridays
purpose: ours
hooks:
  # A person does that.
  no-deploys:
    events: PreToolUse
    if: Bash(./deploy *)
    deny: Not today
tests:
  - {bash: ./deploy now, expect: deny, by: no-deploys}
show: {bash: ./deploy now}
"""
HOSTILE = [
    "x\n    run: touch hacked",
    'x"\n  evil: {events: Stop, run: touch hacked}',
    "x', run: touch hacked, a: '",
    "x # comment",
    "x: {y: z}",
    "- x",
    "*alias",
    "&anchor x",
    "!!python/object/apply:os.system [touch hacked]",
    "$(touch hacked); touch hacked `touch hacked`",
    "'; touch hacked; '",
    "${command}",
    "yes",
    "[a, b",
    "\u2028x",
    "\x1b[2J",
    "x\x85y: z",
    "a" * 2000,
    "",
    " ",
]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def person(place: Place, *words: str) -> Ended:
    """What a person gets who types this in a terminal, with --yes."""
    return place.typing(*words, "--yes", answers=[])


def hooks(place: Place) -> Path:
    return place.project / ".billhook" / "hooks.yaml"


def test_the_list(place: Place) -> None:
    """Every recipe in one line, by purpose; no line is wider than the screen."""
    done = place.run("add")

    assert done.code == 0
    assert all(len(line) <= 80 for line in done.out.splitlines())
    assert [line.split()[0] for line in done.out.splitlines() if line.startswith("  ")] == [
        one.name for one in shipped()
    ]
    assert len(place.run("add", "--json").out.splitlines()) == len(shipped())


def test_the_user_is_asked(place: Place) -> None:
    """What is added is shown; then it runs, because it is approved."""
    done = place.typing("add", "no-verify", answers=[("[y/N]", "y\n")])

    assert done.screen == snapshot("""\
no-verify: Deny git's --no-verify and other ways to skip git hooks

hooks:
  # billhook add no-verify
  # `git push -n` is a dry run, and allowed.
  no-verify:
    events: PreToolUse
    when:
      runs:
        - git commit|merge|push|pull|rebase|am --no-verify
        - git commit|am -n
        - git -c core.hooksPath
        - git config core.hooksPath|core.hookspath *
        - git config set core.hooksPath|core.hookspath *
    deny: Git hooks run in this project. Fix what they find instead of skipping them.
tests:
  - {bash: git commit --no-verify -m x, expect: deny, only: no-verify}
  - {bash: git commit -anm x, expect: deny, only: no-verify}
  - {bash: git -c core.hooksPath=/dev/null commit -m x, expect: deny, only: no-verify}
  - {bash: "git commit -m 'drop --no-verify and -n'", expect: none, only: no-verify}
  - {bash: git push -n, expect: none, only: no-verify}

add this to .billhook/hooks.yaml? [y/N] added to .billhook/hooks.yaml and approved

see it work:
  billhook fire PreToolUse --tool Bash --input '{"command": "git commit --no-verify -m x"}'
-- exit 0
""")
    assert place.run("trust").code == 0
    fired = place.run("fire", "PreToolUse", "--tool", "Bash", "--input", '{"command": "git commit -n"}', "--json")
    assert (fired.code, fired.verdict["decision"]) == (1, "deny")


@pytest.mark.parametrize("answer", ["n\n", "\n", "what\n"])
def test_the_user_declines(place: Place, answer: str) -> None:
    """Then nothing is written."""
    assert place.typing("add", "no-verify", answers=[("[y/N]", answer)]).code == 1
    assert not hooks(place).exists()


def test_without_a_terminal(place: Place) -> None:
    """The user can't be asked, so nothing is written."""
    done = place.alone("add", "no-verify")

    assert done.code == 1 and "run it yourself in a terminal" in done.err
    assert not hooks(place).exists()


@pytest.mark.parametrize("words", [("add", "no-verify", "--yes"), ("add", "no-verify", "--yes", "--json")])
def test_yes_is_a_persons_word(place: Place, words: tuple[str, ...]) -> None:
    """A program without a terminal can't agree in a person's place; the text is open to it."""
    done = place.alone(*words)

    assert done.code == 2 and "must be a terminal" in done.err and "--print" in done.err
    assert not hooks(place).exists()


def test_yes_of_remove_is_a_persons_word(place: Place) -> None:
    """The hooks stay."""
    assert person(place, "add", "no-verify").code == 0
    before = hooks(place).read_bytes()
    done = place.alone("remove", "no-verify", "--yes")

    assert done.code == 2 and "must be a terminal" in done.err
    assert hooks(place).read_bytes() == before


@pytest.mark.parametrize(
    "words", [("add", "no-verify"), ("add", "no-verify", "--yes"), ("remove", "no-verify", "--yes")]
)
def test_an_agent_is_refused(place: Place, words: tuple[str, ...]) -> None:
    """It must not change the hooks that judge it; it may look at recipes."""
    place.file(".billhook/hooks.yaml", OURS_ADDED)
    before = hooks(place).read_bytes()
    done = place.run(*words, CLAUDECODE="1")

    assert done.code == 2 and "is refused here: this runs inside Claude Code" in done.err
    assert hooks(place).read_bytes() == before
    assert place.run("add", "no-verify", "--print", CLAUDECODE="1").code == 0


OURS_ADDED = "hooks:\n  no-verify: {events: Stop, inject: x}\n"


def test_add_twice(place: Place) -> None:
    """The second time changes nothing and reports that; other values conflict."""
    assert person(place, "add", "protect-paths").code == 0
    before = hooks(place).read_bytes()
    again = person(place, "add", "protect-paths")
    other = person(place, "add", "protect-paths", "--set", "paths=x")

    assert (again.code, again.out) == (0, "protect-paths is in .billhook/hooks.yaml already; nothing was changed\n")
    assert other.code == 1 and "in .billhook/hooks.yaml already, with its defaults, or it was" in other.out
    assert hooks(place).read_bytes() == before


def test_remove_byte_for_byte(place: Place) -> None:
    """The project's own file, with values of a person's own; a file that was made for it is gone again."""
    own = place.file("hooks.yaml", "# mine\nhooks:\n  a:   {events: Stop, inject: x}   # kept")
    own.chmod(0o640)
    before = own.read_bytes()
    assert person(place, "add", "protect-paths", "--set", "paths=a b,'c").code == 0
    assert not hooks(place).exists() and b"protect-paths" in own.read_bytes()
    assert person(place, "remove", "protect-paths").code == 0
    assert (own.read_bytes(), own.stat().st_mode & 0o777) == (before, 0o640)

    own.unlink()
    assert person(place, "add", "no-verify", "use-uv").code == 0
    assert person(place, "remove", "no-verify", "use-uv").code == 0
    assert list(place.project.iterdir()) == []


def test_remove_accepts_a_missing_recipe(place: Place) -> None:
    """A gate that a person removed is not reported as gone, and its approval is taken back."""
    assert person(place, "add", "no-verify", "git-context").code == 0
    assert person(place, "remove", "no-verify").code == 0

    assert "no-verify" not in place.run("fire", "Stop", "--json").err
    assert "no-verify" not in place.run("trust", "--list").out


def test_remove_what_was_edited(place: Place) -> None:
    """The difference is shown, and the hook with its tests goes."""
    assert person(place, "add", "no-verify").code == 0
    text = hooks(place).read_text().replace("Git hooks run", "Our hooks run")
    hooks(place).write_text(text + "  - {bash: ls, expect: none}\n")
    done = place.typing("remove", "no-verify", answers=[("[y/N]", "y\n")])

    assert done.code == 0 and "-    deny: Our hooks run" in done.out
    assert yaml.safe_load(hooks(place).read_text()) == {"tests": [{"bash": "ls", "expect": "none"}]}


def test_remove_what_is_not_there(place: Place) -> None:
    """Exit code 1."""
    done = person(place, "remove", "no-verify")

    assert done.code == 1 and "is not in .billhook/hooks.yaml" in done.out


def test_print(place: Place) -> None:
    """Only the text, which is a hooks.yaml; nothing is written."""
    done = place.run("add", "no-verify", "--print")

    assert [*yaml.safe_load(done.out)] == ["hooks", "tests"]
    assert list(place.project.iterdir()) == []


def test_user(place: Place) -> None:
    """In the person's own file, which needs no approval."""
    own = place.own("hooks:\n  a: {events: Stop, inject: x}\n")
    before = own.read_bytes()
    assert person(place, "add", "no-verify", "--user").code == 0
    assert b"no-verify" in own.read_bytes() and not hooks(place).exists()
    assert place.run("fire", "PreToolUse", "--tool", "Bash", "--input", '{"command": "git commit -n"}').code == 1
    assert person(place, "remove", "no-verify", "--user").code == 0
    assert own.read_bytes() == before


@pytest.mark.parametrize("word", ["ours/no-deploys.yaml", "./ours", "ours/"])
def test_by_path(place: Place, word: str) -> None:
    """A file, or each file of a folder; removed by the same word."""
    place.file("ours/no-deploys.yaml", OURS)
    added = person(place, "add", word)
    fired = place.run("fire", "PreToolUse", "--tool", "Bash", "--input", '{"command": "./deploy now"}', "--json")

    assert added.code == 0 and fired.verdict["decision"] == "deny"
    assert person(place, "remove", word).code == 0
    assert not hooks(place).exists()


def test_by_path_removed_by_name(place: Place) -> None:
    """The name of its file is enough; values that it was added with are known from its comment."""
    text = OURS.replace("purpose: ours", "purpose: ours\nparameters:\n  why: {default: x, about: why}")
    place.file("ours/guard.yaml", text.replace("Not today", "<why>"))
    assert person(place, "add", "./ours/guard.yaml", "--set", "why=On Monday").code == 0
    assert "On Monday" in hooks(place).read_text()
    assert person(place, "remove", "guard").code == 0
    assert not hooks(place).exists()


def test_a_recipe_without_an_event(place: Place) -> None:
    """What shows it is then a command that shows which hooks there are."""
    place.file("ours/one.yaml", OURS.partition("show:")[0])
    done = person(place, "add", "ours/one.yaml")

    assert done.code == 0 and done.out.endswith("see it work:\n  billhook explain ls\n")


def test_a_folder_is_listed(place: Place) -> None:
    """Its recipes in one line each, then each is shown."""
    place.file("ours/no-deploys.yaml", OURS)
    place.file("ours/no-tags.yaml", OURS.replace("deploy", "tag"))
    done = place.typing("add", "./ours", answers=[("[y/N]", "y\n"), ("[y/N]", "n\n")])

    assert done.out.startswith("ours\n  no-deploys  No deploys on Fridays\n  no-tags ")
    assert [*yaml.safe_load(hooks(place).read_text())["hooks"]] == ["no-deploys"]


def test_a_recipe_with_a_script_waits(place: Place) -> None:
    """The script was not shown, so `trust` shows it; escape sequences of a recipe do nothing."""
    place.file("run.sh", "#!/bin/sh\ntrue\n", 0o755)
    text = (
        OURS.replace("deny: Not today", "run: ./run.sh")
        .replace("No deploys", '"\\e[2JNo deploys')
        .replace("Fridays", 'Fridays"')
    )
    place.file("ours/one.yaml", text)
    done = person(place, "add", "ours/one.yaml")

    assert done.code == 0 and "review with `billhook trust`" in " ".join(done.out.split()) and "\x1b" not in done.out
    assert place.run("trust").code == 1


@pytest.mark.parametrize(
    "text",
    ["", "[]", "title: x\n", "title: x\npurpose: y\nhooks: {a: {events: Stop, inject: x}}\n", "\x00", "a: &a [*a]",
     OURS.replace("show: {bash: ./deploy now}", "show: {bash: [ls]}"), OURS.replace("show: {bash:", "show: {first:"),
     OURS + "script: x\n", OURS.replace("title: ", "title: [x] #"), OURS.replace("{bash: ./deploy now}", "{event: x}"),
     "title: x\npurpose: y\nhooks:\n- {name: a}\n"],
)  # fmt: skip
def test_not_a_recipe(tmp_path: Path, text: str) -> None:
    """The file is named, with a hint."""
    file = tmp_path / "one.yaml"
    file.write_text(text)
    with pytest.raises(UsageError, match="not a recipe") as caught:
        find(str(file))

    assert caught.value.place == str(file) and caught.value.hint


def test_json(place: Place) -> None:
    """One line for each recipe, with the command that shows it."""
    done = json.loads(person(place, "add", "no-verify", "--json").out)

    assert (done["recipe"], done["added"], done["hooks"]) == ("no-verify", True, ["no-verify"])
    assert shlex.split(done["show"])[:3] == ["billhook", "fire", "PreToolUse"]
    assert json.loads(person(place, "remove", "no-verify", "--json").out)["removed"] is True


@pytest.mark.parametrize(
    "words",
    [
        ("no-such",),
        ("no-verify", "--set", "a=b"),
        ("protect-paths", "--set", "paths"),
        ("session-limits", "--set", "calls=0"),
        ("session-limits", "--set", "calls=many"),
        ("event-webhook", "--set", "url=javascript:x"),
        ("event-webhook", "--set", "url=example.com"),
        ("event-webhook", "--set", "events=Nope"),
        ("event-webhook", "--set", "events=Stop,Nope"),
        ("conventional-commits", "--set", "types=feat("),
        ("protect-paths", "--set", "paths=[]"),
        ("no-commits-to-main", "--set", "branches=,"),
        ("tests-before-stop", "--set", "limit=-1"),
        ("./missing.yaml",),
    ],
)
def test_usage(place: Place, words: tuple[str, ...]) -> None:
    """Exit code 2 with a hint, and nothing is written."""
    done = person(place, "add", *words)

    assert done.code == 2 and "hint:" in done.out, done
    assert list(place.project.iterdir()) == []
    assert place.run("add", *words, "--print").code == 2


def test_a_default_that_cannot_work_is_not_added(place: Place) -> None:
    """Without a Makefile, `make test` would send the agent back at every stop: the command must be set."""
    done = person(place, "add", "tests-before-stop")

    assert done.code == 2 and "this project has no Makefile, so `make test` can't work" in done.out, done
    assert "hint: set the command: --set command=" in done.out
    assert list(place.project.iterdir()) == []
    assert person(place, "add", "tests-before-stop", "--set", "command=npm test").code == 0


PARAMETERS = [("event-log", "file"), ("protect-paths", "paths"), ("notify-desktop", "title")]


@pytest.mark.parametrize("value", HOSTILE)
@pytest.mark.parametrize(("name", "parameter"), PARAMETERS)
def test_hostile_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, parameter: str, value: str) -> None:
    """A value stays one value of YAML and one word of a shell, or it is refused; what is added can be removed."""
    recipe = next(one for one in shipped() if one.name == name)
    if not value.isprintable() or not value.strip() or len(value) > 1000:
        with pytest.raises(UsageError, match="can't be set to this value"):
            recipe.sections({parameter: value})
        return
    sections = recipe.sections({parameter: value})
    text = edit_yaml.with_sections(None, "hooks.yaml", sections).decode()
    scratch = Scratch(tmp_path, text, monkeypatch)
    said = yaml.safe_load(text)
    scratch.fire(scratch.event({"event": {"hook_event_name": "Notification", "message": "x"}}))

    assert [*said["hooks"]] == [name] and {*said} <= {"hooks", "tests"}
    assert {*said["hooks"][name]} == {*yaml.safe_load(recipe.texts["hooks"])[name]}
    assert edit_yaml.without_sections(text.encode(), "hooks.yaml", sections) is None
    assert not list(tmp_path.rglob("hacked"))


def test_a_hostile_value_on_the_command_line(place: Place) -> None:
    """It goes in and comes out again."""
    value = "file=a b'; touch hacked; $(touch hacked) # \\ \" .log"
    assert person(place, "add", "event-log", "--set", value).code == 0
    assert place.run("fire", "Stop").code == 0
    assert [path.name for path in place.project.iterdir() if path.name != ".billhook"] == [value.partition("=")[2]]
    assert person(place, "remove", "event-log").code == 0
    assert not hooks(place).exists()
