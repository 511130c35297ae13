"""`python: module:function`: the arguments of the function, and the findings if it can't be used."""

from pathlib import Path
from typing import Any

import pytest

from billhook import Context, Engine, PreToolUse, Status, inject, load, on
from cli.place import Place

EVENT = PreToolUse(tool_name="Bash", tool_input={"command": "ls"}, session_id="s")
FILE = "hooks:\n  h: {events: PreToolUse, python: 'rules:check', dialect: spec}\n"
ANSWERS = "return {'hookSpecificOutput': {'hookEventName': 'PreToolUse', 'additionalContext': type(%s).__name__}}"


@pytest.mark.parametrize(
    ("signature", "first"),
    [
        ("(event)", "PreToolUse"),
        ("(event, ctx)", "PreToolUse"),
        ("(ctx)", "Context"),
        ("(context)", "Context"),
        ("(ctx, strict=True)", "Context"),
        ("(event, strict=True)", "PreToolUse"),
        ("(*args)", "PreToolUse"),
    ],
)
@pytest.mark.parametrize("kind", ["def", "async def"])
def test_the_arguments_of_a_function(tmp_path: Path, signature: str, first: str, kind: str) -> None:
    """The same in a worker and in the program."""
    place = Place(tmp_path)
    name = "args[0]" if "*" in signature else signature.strip("()").partition(",")[0]
    source = f"{kind} check{signature}:\n    {ANSWERS % name}\n"
    file = place.own(FILE)
    (file.parent / "rules.py").write_text(source)
    told = load(place.project, files=[file], home=tmp_path / "state").fire_sync(EVENT)
    assert told.context == (first,), told.outcomes
    assert place.run("check").code == 0
    names: dict[str, Any] = {}
    exec(source, names)
    assert Engine([on(PreToolUse)(names["check"])]).fire_sync(EVENT).context == (first,)
    assert Engine([on(PreToolUse, thread=True)(names["check"])]).fire_sync(EVENT).context == (first,)


def test_a_decorated_function_of_the_context() -> None:
    @on(PreToolUse)
    def check(ctx: Context) -> Any:
        return inject(ctx.event_type)

    assert Engine([check]).fire_sync(EVENT).context == ("PreToolUse",)


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("def check(): pass", "it takes no arguments"),
        ("def check(a, b, c): pass", "it requires 3 arguments"),
        ("async def check(a, b, c, d=1): pass", "it requires 3 arguments"),
        ("def check(event, *, level): pass", "it requires the keyword `level`"),
        ("def check(event)\n    pass", "rules.py:1"),
        ("check = 5", "it is not a function"),
        ("check: dict = {}", "it is not a function"),
        ("check = lambda a, b, c: None", "it requires 3 arguments"),
        ("check = lambda ctx: None", ""),
        ("check = None\nif True:\n    def check(event): pass", ""),
        ("check = None\ndef begin():\n    global check\n    check = print\nbegin()", ""),
        ("def check(event, ctx): pass", ""),
        ("def check(event, ctx, options): pass", ""),
        ("def check(event, *, options): pass", ""),
        ("def check(options): pass", ""),
        ("def check(event, level=1, options=None): pass", ""),
        ("def check(*args): pass", ""),
        ("def check(event, level=1, *, strict=False, **more): pass", ""),
        ("import os, json, helper, billhook\ndef check(event): pass", ""),
        ("from functools import cache\n@cache\ndef check(): pass", ""),
        ("def check(): pass\ncheck = lambda event: None", ""),
    ],
)
def test_check_finds_functions_that_can_not_be_used(tmp_path: Path, source: str, problem: str) -> None:
    """From the source alone: the module is not imported."""
    place = Place(tmp_path)
    file = place.own(FILE)
    mark = tmp_path / "imported"
    (file.parent / "rules.py").write_text(f"{source}\nopen({str(mark)!r}, 'w')\n")
    (file.parent / "helper.py").write_text(f"open({str(mark)!r}, 'w')\n")
    ended = place.run("check")
    assert ended.code == (1 if problem else 0), ended
    assert problem in ended.out and (not problem or "BH405" in ended.out)
    assert not mark.exists()


def test_a_function_that_can_not_be_called_fails(tmp_path: Path) -> None:
    place = Place(tmp_path)
    file = place.own(FILE)
    (file.parent / "rules.py").write_text("def check(): pass\n")
    told = load(place.project, files=[file], home=tmp_path / "state").fire_sync(EVENT)
    assert told.outcomes[-1].status is Status.FAILED or any(one.status is Status.FAILED for one in told.outcomes)
