"""What `add` writes into a file, `remove` takes out again: byte for byte, whatever the file was like."""

import itertools

import pytest
import yaml

from billhook.config import edit_yaml
from billhook.core.errors import BillhookError
from recipes.cases import RECIPES

SOME = ["no-verify", "format-after-edit", "session-limits"]
OWN = "hooks:\n  own:  # mine\n    events: Stop\n    inject: x\n"
FILES = {
    "missing": None,
    "empty": "",
    "comments": "# a word\n\n# another\n",
    "no hooks": "version: 1\n",
    "no line end": "version: 1",
    "own hook": OWN,
    "own hook, no line end": OWN.rstrip("\n"),
    "own hook, comments behind": f"{OWN}\n  # other: {{events: Stop}}\n\n# the end\n",
    "handlers": OWN.replace("hooks", "handlers"),
    "empty hooks": "hooks:\n",
    "empty hooks, blank lines": "version: 1\n\nhooks:\n\n  # an example\n\nparallelExecution: false\n",
    "hooks in the middle": f"version: 1\n{OWN}parallelExecution: false\n",
    "tests": f"{OWN}\ntests:\n  - {{bash: ls, expect: none}}\n",
    "tests first": f"tests:\n- bash: ls\n  expect: none\n{OWN}",
    "deep": "hooks:\n        own:\n          events: Stop\n          inject: |\n            a\n\n            b\n\n",
    "CRLF": OWN.replace("\n", "\r\n"),
    "mark": "\ufeff" + OWN,
    "built-ins": "builtins:\n  metrics: {options: {warn_ms: 5}}\n" + OWN,
}


@pytest.mark.parametrize("order", [*itertools.permutations(SOME)])
@pytest.mark.parametrize("name", FILES)
def test_back_byte_for_byte(name: str, order: tuple[str, ...]) -> None:
    """Three recipes, added in one order and removed in this one and its opposite."""
    text = FILES[name]
    before = None if text is None else text.encode()
    for leaving in (order, order[::-1]):
        data = before
        for one in order:
            data = edit_yaml.with_sections(data, "hooks.yaml", RECIPES[one].sections({}))
        for one in leaving:
            assert data is not None
            data = edit_yaml.without_sections(data, "hooks.yaml", RECIPES[one].sections({}))
        assert data == before


@pytest.mark.parametrize("name", FILES)
def test_nothing_else_changes(name: str) -> None:
    """What was there means the same; every line of it is still there."""
    text = FILES[name] or ""
    data = edit_yaml.with_sections(text.encode(), "hooks.yaml", RECIPES["no-verify"].sections({}))
    before, after = yaml.safe_load(text) or {}, yaml.safe_load(data)

    assert {*text.splitlines()} <= {*data.decode().splitlines()}
    key = "handlers" if "handlers" in before else "hooks"
    assert {name: one for name, one in after[key].items() if name != "no-verify"} == (before.get(key) or {})
    assert after["tests"][: len(before.get("tests", []))] == before.get("tests", [])


ONE = "{name: a, events: Stop, inject: x}"
LAYOUTS = [f"hooks: [{ONE}]\n", "hooks: {a: {events: Stop, inject: x}}\n", "{hooks: }\n", f"hooks:\n  - {ONE}\n"]
LAYOUTS += ["tests: [{bash: ls}]\nhooks:\n", "hooks: x\n"]


@pytest.mark.parametrize("text", LAYOUTS)
def test_other_layouts_are_refused(text: str) -> None:
    """A file that would have to be rewritten stays unchanged, with a hint."""
    with pytest.raises(BillhookError) as caught:
        edit_yaml.with_sections(text.encode(), "hooks.yaml", RECIPES["no-verify"].sections({}))

    assert caught.value.hint


def test_an_edited_recipe_is_taken_out() -> None:
    """Where it is, with its comment and its tests; comments of others stay."""
    data = edit_yaml.with_sections(OWN.encode(), "hooks.yaml", RECIPES["no-verify"].sections({}))
    edited = (
        data.replace(b"events: PreToolUse\n", b"events: PreToolUse\n    priority: 5\n")
        + b"  - {bash: ls, expect: none}\n"
    )
    with pytest.raises(LookupError):
        edit_yaml.without_sections(edited, "hooks.yaml", RECIPES["no-verify"].sections({}))

    after = edit_yaml.without_hooks(edited, "hooks.yaml", {"no-verify"})

    assert after.decode() == f"{OWN}\ntests:\n  - {{bash: ls, expect: none}}\n"


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_back(name: str) -> None:
    """With its defaults, in a new file and behind a hook."""
    for before in (None, OWN.encode()):
        sections = RECIPES[name].sections({})
        data = edit_yaml.with_sections(before, "hooks.yaml", sections)
        assert edit_yaml.without_sections(data, "hooks.yaml", sections) == before
