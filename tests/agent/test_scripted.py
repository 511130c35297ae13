"""The scripted model, and the names of models."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from billhook.agent.conversation import Message, Text, ToolUse, assistant, user
from billhook.agent.models import Completion, ModelError, ModelRequest, ToolSpec, open_model
from billhook.agent.script import ScriptedModel
from billhook.core.errors import UsageError
from billhook.core.text import install_command
from billhook.session import ToolResult

BASH = ToolSpec("Bash", "Runs a command.", {"type": "object", "properties": {"command": {"type": "string"}}})
LS = {"name": "Bash", "input": {"command": "ls"}}


def request(*messages: Message, tools: tuple[ToolSpec, ...] = (BASH,), agent: str = "main") -> ModelRequest:
    return ModelRequest("Be brief.", messages or (user("list the files"),), tools, agent)


def ask(model: ScriptedModel, wanted: ModelRequest | None = None) -> Message:
    return completion(model, wanted).message


def completion(model: ScriptedModel, wanted: ModelRequest | None = None) -> Completion:
    return asyncio.run(model.complete(wanted or request(), lambda piece: None))


def script(folder: Path, text: str, name: str = "turns.yaml") -> str:
    file = folder / name
    file.write_text(text, "utf-8")
    return str(file)


FORMS: dict[str, tuple[Any, Message]] = {
    "a tool": ({"tool": LS}, assistant(ToolUse("toolu_0001", "Bash", {"command": "ls"}))),
    "a flat tool": (
        {"tool": "Bash", "input": LS["input"]},
        assistant(ToolUse("toolu_0001", "Bash", {"command": "ls"})),
    ),
    "a tool without input": ({"tool": "TodoWrite"}, assistant(ToolUse("toolu_0001", "TodoWrite", {}))),
    "an id": ({"tool": {"name": "Read", "id": "mine"}}, assistant(ToolUse("mine", "Read", {}))),
    "a flat id": ({"tool": "Read", "id": "mine"}, assistant(ToolUse("mine", "Read", {}))),
    "several": (
        {"tools": [LS, {"name": "Read", "input": {"file_path": "a"}, "id": "r"}, {"name": "Read"}]},
        assistant(
            ToolUse("toolu_0001", "Bash", {"command": "ls"}),
            ToolUse("r", "Read", {"file_path": "a"}),
            ToolUse("toolu_0002", "Read", {}),
        ),
    ),
    "text": ({"text": "done"}, assistant("done")),
    "text and a tool": (
        {"text": "look", "tool": {"name": "Read"}},
        assistant("look", ToolUse("toolu_0001", "Read", {})),
    ),
    "empty": ({"text": ""}, assistant()),
    "nested input": (
        {"tool": {"name": "X", "input": {"a": [1, {"b": None}], "c": True}}},
        assistant(ToolUse("toolu_0001", "X", {"a": [1, {"b": None}], "c": True})),
    ),
}


@pytest.mark.parametrize(("turn", "reported"), FORMS.values(), ids=FORMS)
def test_each_form_of_a_turn(turn: dict[str, Any], reported: Message, tmp_path: Path) -> None:
    """A turn is the same in Python, in JSON and in YAML."""
    assert ask(ScriptedModel([turn])) == reported
    assert ask(ScriptedModel.read(script(tmp_path, json.dumps([turn]), "turns.json"))) == reported
    assert ask(ScriptedModel.read(script(tmp_path, json.dumps({"turns": [turn]}), "mapping.json"))) == reported
    assert ask(ScriptedModel.read(script(tmp_path, "- " + json.dumps(turn) + "\n"))) == reported


def test_the_lines_that_people_write(tmp_path: Path) -> None:
    """Block style works as the manual shows it, and the file can have any name."""
    text = "- tool: {name: Bash, input: {command: ls}}\n- text: |\n    two\n    lines\n- text: done\n"
    model = open_model(f"scripted:{script(tmp_path, text, 'turns')}", {})
    assert model.name == f"scripted:{tmp_path / 'turns'}"
    assert isinstance(model, ScriptedModel)
    assert ask(model).tool_uses == [ToolUse("toolu_0001", "Bash", {"command": "ls"})]
    assert [ask(model).text, ask(model).text] == ["two\nlines\n", "done"]


def test_after_the_last_turn_it_reports_the_end() -> None:
    """A script that is over is never an error."""
    model = ScriptedModel([{"text": "one"}])
    assert [ask(model).text for _ in range(4)] == ["one", *["The script has ended."] * 3]


def test_every_caller_takes_the_next_turn() -> None:
    """One cursor for all, and a list of its own for an agent that is named."""
    model = ScriptedModel({"turns": [{"text": "1"}, {"text": "2"}], "agents": {"reviewer": [{"text": "mine"}]}})
    reported = [ask(model, request(agent=agent)).text for agent in ("main", "reviewer", "explorer", "main", "reviewer")]
    assert reported == ["1", "mine", "2", "The script has ended.", "The script has ended."]


def test_a_call_without_tools_gets_a_summary_and_takes_no_turn() -> None:
    """The summary is the same each time, and names what was asked and used."""
    model = ScriptedModel([{"text": "one"}])
    history = (user("tidy\nup"), assistant("ok", ToolUse("t1", "Bash", {}), ToolUse("t2", "Bash", {})))
    summaries = {ask(model, request(*history, tools=())).text for _ in range(2)}
    assert summaries == {"Summary of 2 messages. The first was: tidy up. Tools used: Bash."}
    assert ask(model).text == "one"


def test_every_request_is_kept() -> None:
    """What the model was told can be looked at afterwards, refused calls included."""
    model = ScriptedModel([{"error": "overloaded"}, {"text": "ok"}])
    first, second = request(user("a")), request(user("b"), tools=())
    with pytest.raises(ModelError):
        ask(model, first)
    ask(model, second)
    assert model.requests == [first, second]


def test_ids_are_never_given_twice() -> None:
    """Ids of a resumed conversation are not used again, by any of its agents; neither are those that are given."""
    model = ScriptedModel([{"tools": [LS, LS]}, {"tool": {"name": "Read", "id": "mine"}}, {"tool": LS}, {"tool": LS}])
    before = (user("x"), assistant(ToolUse("toolu_0001", "Bash", {}), ToolUse("mine", "Bash", {})))
    first = ask(model, request(*before, user(ToolResult("toolu_0001", ""), ToolResult("mine", ""))))
    rest = [ask(model, request(agent="explorer")), ask(model), ask(model)]
    assert [use.id for one in (first, *rest) for use in one.tool_uses] == [
        "toolu_0002",
        "toolu_0003",
        "mine_2",
        "toolu_0004",
        "toolu_0005",
    ]


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        ("overloaded", "overloaded", "the script returned the error `overloaded`"),
        ({"kind": "rate_limit", "message": "slow down"}, "rate_limit", "slow down"),
        ({"message": "odd"}, "unknown", "odd"),
    ],
)
def test_an_error_turn_raises(error: Any, kind: str, message: str) -> None:
    """The call fails with the kind and the message of the script, and the next one goes on."""
    model = ScriptedModel([{"error": error}, {"text": "on"}])
    with pytest.raises(ModelError, match=message) as caught:
        ask(model)
    assert caught.value.kind == kind
    assert ask(model).text == "on"


def test_text_is_sent_in_pieces() -> None:
    """The pieces are the text, in order."""
    pieces: list[str] = []
    answer = asyncio.run(ScriptedModel([{"text": "all is well", "tool": "Read"}]).complete(request(), pieces.append))
    assert len(pieces) > 1 and "".join(pieces) == "all is well"
    assert answer.message.content[0] == Text("all is well")


def test_usage_grows_with_input_and_output() -> None:
    """About a token for four characters."""
    model = ScriptedModel([{"text": "a"}, {"text": "b" * 4000}])
    small, large = completion(model), completion(model, request(user("c" * 8000)))
    assert 10 < small.usage.input_tokens < 200 and 2000 < large.usage.input_tokens < 2200
    assert small.usage.output_tokens < 50 and 1000 < large.usage.output_tokens < 1050


def test_text_that_is_no_utf8_is_counted_too() -> None:
    """A lone surrogate in a tool's result does not end the conversation."""
    assert completion(ScriptedModel([]), request(user("\ud800"))).usage.input_tokens > 0


def test_several_tasks_share_the_cursor() -> None:
    """Asked at once, each gets a turn of its own."""

    async def all_at_once(model: ScriptedModel) -> list[Completion]:
        return await asyncio.gather(*(model.complete(request(), lambda piece: None) for _ in range(20)))

    done = asyncio.run(all_at_once(ScriptedModel([{"tool": LS, "text": str(n)} for n in range(20)])))
    assert sorted(int(one.message.text) for one in done) == list(range(20))
    assert len({one.message.tool_uses[0].id for one in done}) == 20


FAULTS: dict[str, tuple[str, str, str, str]] = {
    "an unknown key": (
        "- text: a\n- txet: b\n",
        "",
        "$[1]: object contains unknown field `txet`",
        "did you mean `text`?",
    ),
    "an unknown key of a tool": (
        "- tool:\n    name: Bash\n    inputs: {}\n",
        "",
        "$[0].tool: object contains unknown field `inputs`",
        "did you mean `input`?",
    ),
    "an unknown key at the top": ("turn: []\n", "", "$: object contains unknown field `turn`", "did you mean `turns`?"),
    "no name": ("- tool: {input: {}}\n", "", "$[0].tool: object missing required field `name`", "as in"),
    "an empty name": ("- tool: ''\n", "", "$[0]: a tool has no `name`", "as in"),
    "an input that is text": ("- tool: {name: A, input: ls}\n", "", "$[0].tool.input: expected `object`", ""),
    "an input of no tool": ("- text: a\n  input: {a: 1}\n", "", "$[0]: `input` or `id` without a tool", ""),
    "a second input": ("- tool: {name: A}\n  input: {a: 1}\n", "", "$[0]: `input` or `id` without a tool", ""),
    "tools that are no list": ("- tools: {name: A}\n", "", "$[0].tools: expected `array`, got `object`", ""),
    "a number as text": ("- text: 12\n", "", "$[0].text: expected `str | null`, got `int`", "put it in quotes"),
    "a plain text": ("- text: a\n- done\n", "", "$[1]: expected `object`, got `str`", "as in `- text: done`"),
    "an empty turn": ("- {}\n", "", "$[0]: the turn is empty", "add a `text`"),
    "a string for a list": ("turns: done\n", "", "$.turns: expected `array`, got `str`", ""),
    "an unknown error": (
        "- error: overlooked\n",
        "",
        "$[0].error: unknown kind `overlooked`",
        "did you mean `overloaded`?",
    ),
    "an error and text": ("- error: unknown\n  text: b\n", "", "$[0]: an `error` must be a separate turn", ""),
    "an agent without turns": ("agents: {a: 1}\n", "", "$.agents[...]: expected `array`, got `int`", ""),
    "broken YAML": ("- text: a\n- tool: {name: Bash\n", ":3:1", "without a `,` or its `}`", "add the"),
    "a key twice": ("- text: a\n  text: b\n", ":2:3", "duplicate key `text`", "remove or rename one"),
}


@pytest.mark.parametrize(("text", "place", "message", "hint"), FAULTS.values(), ids=FAULTS)
def test_a_bad_file_is_refused(text: str, place: str, message: str, hint: str, tmp_path: Path) -> None:
    """The error has the file, the JSON path, the problem and a hint."""
    file = script(tmp_path, text)
    with pytest.raises(UsageError) as caught:
        ScriptedModel.read(file)
    assert caught.value.place.startswith(f"{file}{place}")
    assert message in caught.value.message
    assert caught.value.hint and hint in caught.value.hint


NO_SCRIPTS = {
    "nothing": (b"", "the script is empty"),
    "a comment": (b"# later\n", "the script is empty"),
    "an empty mapping": (b"{}\n", "the script is empty"),
    "a program": (b"\x7fELF\x02\x01\x00\xff", "this is a binary file, not a script"),
    "a picture": (b"\x89PNG\r\n\x1a\n\x00\x00", "this is a binary file, not a script"),
}


@pytest.mark.parametrize(("content", "message"), NO_SCRIPTS.values(), ids=NO_SCRIPTS)
def test_a_file_that_holds_no_script(content: bytes, message: str, tmp_path: Path) -> None:
    """It is refused in words that fit, with what a script is."""
    (tmp_path / "turns.yaml").write_bytes(content)
    with pytest.raises(UsageError) as caught:
        open_model(f"scripted:{tmp_path}/turns.yaml", {})
    assert (caught.value.message, caught.value.place) == (message, f"{tmp_path}/turns.yaml")
    assert caught.value.hint.startswith("a script is a YAML or JSON list of turns")


def test_a_bad_list_is_refused_as_well() -> None:
    """The JSON path names the turn."""
    with pytest.raises(UsageError, match=r"^\$\[1\]: object contains unknown field `txt`\n\nhint: did you mean `text`"):
        ScriptedModel([{"text": "a"}, {"txt": "b"}])


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """The path is named, and what it should hold."""
    with pytest.raises(UsageError, match=r"none\.yaml: No such file or directory\n\nhint: a script is"):
        open_model(f"scripted:{tmp_path}/none.yaml", {})


NAMES: dict[str, tuple[str, dict[str, str], str, str]] = {
    "a near miss": ("scriptd:x", {}, "unknown model `scriptd:x`", "did you mean `scripted:`?"),
    "an unknown service": ("gemini:x", {}, "unknown model `gemini:x`", "one of scripted:FILE, anthropic:MODEL"),
    "a bare claude": ("claude-sonnet-5-5", {}, "unknown model", "did you mean `anthropic:claude-sonnet-5-5`?"),
    "a bare gpt": ("gpt-5", {}, "unknown model", "did you mean `openai:gpt-5`?"),
    "no file": ("scripted", {}, "`scripted` needs a file", "scripted:turns.yaml"),
    "no name and no key": ("", {"MODEL_ID": "x"}, "no model", "scripted:FILE"),
    "no key": (
        "anthropic:x",
        {"OPENAI_API_KEY": "k"},
        "no key: ANTHROPIC_API_KEY",
        "ANTHROPIC_API_KEY or ANTHROPIC_AUTH",
    ),
    "an empty key": ("openai:x", {"OPENAI_API_KEY": ""}, "no key: OPENAI_API_KEY", "set OPENAI_API_KEY"),
}


@pytest.mark.parametrize(("name", "env", "message", "hint"), NAMES.values(), ids=NAMES)
def test_a_name_that_is_no_model(name: str, env: dict[str, str], message: str, hint: str) -> None:
    """The error has a hint with valid names."""
    with pytest.raises(UsageError) as caught:
        open_model(name, env)
    assert message in caught.value.message
    assert hint in caught.value.hint


@pytest.mark.parametrize("service", ["anthropic", "openai"])
def test_a_missing_extra_is_named(service: str) -> None:
    """Without its package a service can't be used; the error contains the command that installs it."""
    code = (
        f"import sys; sys.modules[{service!r}] = None\n"
        "from billhook.agent.models import open_model\nfrom billhook.core.errors import UsageError\n"
        f"try: open_model('{service}:m', {{'{service.upper()}_API_KEY': 'k'}})\n"
        "except UsageError as error: print(error.message, error.hint, sep=' / ')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == f"`{service}:m` needs the package `{service}` / {install_command(service)}\n"


def test_a_scripted_model_loads_no_service() -> None:
    """No SDK is imported for a script, or for the names."""
    code = (
        "import sys, billhook.agent.script as s; s.ScriptedModel([])\n"
        "print([name for name in ('anthropic', 'openai', 'httpx', 'httpx2', 'pydantic') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[]\n"
