"""What holds for the models of all services: the real SDKs, against a server of our own."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from agent.model_server import ModelServer, Refuse, Say, Step, Use, use
from billhook.agent import models
from billhook.agent.conversation import Message, Text, ToolUse, Usage, assistant, user
from billhook.agent.models import (
    UNREADABLE,
    Anthropic,
    Completion,
    Model,
    ModelError,
    ModelRequest,
    OpenAI,
    ToolSpec,
    completed,
    open_model,
)
from billhook.core.errors import UsageError
from billhook.session import ToolResult

KEY = "sk-secret-0123456789"
BASH = ToolSpec("Bash", "Runs a command.", {"type": "object", "properties": {"command": {"type": "string"}}})
ASKED = ModelRequest("Be brief.", (user("list the files"),), (BASH,))
SOON = {"retry-after-ms": "1"}

T = TypeVar("T")

both = pytest.mark.parametrize("service", ["anthropic", "openai"])


def environment(service: str, url: str) -> dict[str, str]:
    path = "" if service == "anthropic" else "/v1"
    return {f"{service.upper()}_API_KEY": KEY, f"{service.upper()}_BASE_URL": url + path}


def client(service: str, server: ModelServer, *, max_retries: int = 2, timeout: float = 20) -> Anthropic | OpenAI:
    kind = Anthropic if service == "anthropic" else OpenAI
    return kind("m-1", environment(service, server.url), max_retries=max_retries, timeout=timeout)


def with_model(model: Model, work: Callable[[Model], Awaitable[T]]) -> T:
    async def run() -> T:
        try:
            return await work(model)
        finally:
            await model.close()

    return asyncio.run(run())


def ask(service: str, server: ModelServer, request: ModelRequest = ASKED, **options: Any) -> Completion:
    return with_model(client(service, server, **options), lambda model: model.complete(request, lambda piece: None))


def ask_again(service: str, server: ModelServer, told: list[str]) -> Completion:
    """As the agent's loop does."""
    return with_model(client(service, server), lambda model: completed(model, ASKED, told.append, told.append))


def answer(service: str, *steps: Step, request: ModelRequest = ASKED, **options: Any) -> Completion:
    with ModelServer(*steps) as server:
        return ask(service, server, request, **options)


def refusal(service: str, *steps: Step, **options: Any) -> ModelError:
    with pytest.raises(ModelError) as caught:
        answer(service, *steps, **options)
    assert KEY not in str(caught.value) and KEY not in caught.value.details
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    return caught.value


@both
def test_text_comes_in_pieces_and_in_order(service: str) -> None:
    """Each piece is shown as it arrives, and the message has all of them, with their cost."""
    reported: list[str] = []
    with ModelServer(Say(("All ", "is ", "well."), usage=(123, 45))) as server:
        done = with_model(client(service, server), lambda model: model.complete(ASKED, reported.append))
    assert reported == ["All ", "is ", "well."]
    assert done == Completion(assistant("All is well."), Usage(123, 45))


@both
def test_tools_are_used(service: str) -> None:
    """Several uses in one answer, with text before them, arrive whole and in order."""
    first, second = use("Bash", {"command": "ls 'ä'"}, "a"), use("Read", {"file_path": "x", "deep": {"n": [1]}}, "b")
    done = answer(service, Say(("Looking.",), (first, second, Use("TodoRead", "", "c"))))
    assert done.message == assistant(
        "Looking.",
        ToolUse("a", "Bash", {"command": "ls 'ä'"}),
        ToolUse("b", "Read", {"file_path": "x", "deep": {"n": [1]}}),
        ToolUse("c", "TodoRead", {}),
    )


UNREADABLE_ARGUMENTS = (
    '{"command": "rm -rf /tmp/x',
    '["ls"]',
    "null",
    '{"command": "ls", "command": "rm -rf /"}',
    '{"n": NaN}',
    '{"command": "ls"} {"command": "rm"}',
)


@both
def test_arguments_that_cant_be_read_run_nothing(service: str) -> None:
    """The use has a name that no tool has, and holds what the model wrote; its neighbour stays as it is."""
    uses = [Use("Bash", arguments, f"u{number}") for number, arguments in enumerate(UNREADABLE_ARGUMENTS)]
    *broken, sound = answer(service, Say(uses=(*uses, use("Read", {"x": 1}, "b")))).message.tool_uses
    assert [one.id for one in broken] == [one.id for one in uses]
    assert {one.name for one in broken} == {UNREADABLE} and {one.input["tool"] for one in broken} == {"Bash"}
    assert tuple(one.input["arguments"] for one in broken) == UNREADABLE_ARGUMENTS
    assert all(one.input["fault"].startswith("the arguments are not ") for one in broken)
    assert sound == ToolUse("b", "Read", {"x": 1})


@both
def test_a_use_without_a_good_name_runs_nothing(service: str) -> None:
    """It can't be read either, and the odd name is not sent back as one."""
    done = answer(service, Say(uses=(Use("", "{}", "a"), Use("Bash<|end|>", "{}", "b"), Use("Bash", "{}", "c"))))
    assert [one.name for one in done.message.tool_uses] == [UNREADABLE, UNREADABLE, "Bash"]


@both
def test_ids_that_the_conversation_has_had_are_changed(service: str) -> None:
    """Some services give the same ids in each answer, or none; ours are unique."""
    before = (user("x"), assistant(ToolUse("use_1", "Bash", {})), user(ToolResult("use_1", "ok")))
    request = ModelRequest("", before, (BASH,))
    done = answer(service, Say(uses=(use("Bash"), use("Bash", id=""), use("Bash", id=""))), request=request)
    ids = [one.id for one in done.message.tool_uses]
    assert len({*ids, "use_1", ""}) == 5


CUT = {"anthropic": "max_tokens", "openai": "length"}


@both
def test_text_that_was_cut_off_is_kept(service: str) -> None:
    """A long text up to the limit is better than none."""
    assert answer(service, Say(("long",), stop=CUT[service])).message == assistant("long")


@both
@pytest.mark.parametrize(
    "arguments", ['{"command": "rm -rf /tmp/x', '{"command": "rm"}', ""], ids=["half", "whole", ""]
)
def test_a_use_that_was_cut_off_is_not_run(service: str, arguments: str) -> None:
    """Not even if what came looks whole; the uses before it were complete."""
    last = Use("Bash", arguments, "b")
    done = answer(service, Say(("I go.",), (use("Read", {"x": 1}, "a"), last), stop=CUT[service]))
    assert done.message == assistant("I go.", ToolUse("a", "Read", {"x": 1}))
    for texts in ((), ("I go.",)):
        assert refusal(service, Say(texts, (last,), stop=CUT[service])).kind == "max_output_tokens"


@both
def test_an_answer_that_is_over_before_it_began(service: str) -> None:
    """All of the limit went into thoughts."""
    error = refusal(service, Say(stop=CUT[service]))
    assert error.kind == "max_output_tokens"
    assert "limit of output tokens" in error.message


REFUSED = {"anthropic": "refusal", "openai": "content_filter"}


@both
def test_a_model_that_declines_runs_nothing(service: str) -> None:
    """Its text is kept, its uses are not; without text the call has failed."""
    reported = Say(("I won't.",), (use("Bash", {"command": "ls"}),), stop=REFUSED[service])
    declined = answer(service, reported)
    assert declined.message == assistant("I won't.")
    assert declined.left_out == f"{service} declined to continue: Bash was not called"
    assert "declined" in refusal(service, Say(uses=(use("Bash"),), stop=REFUSED[service])).message


@both
def test_it_tries_again(service: str) -> None:
    """What may pass is tried again, with the same request, and the answer is that of the last try."""
    steps = [Refuse(status, headers=SOON) for status in (429, 500, 503, 529, 408)]
    with ModelServer(*steps, Say(("ok",))) as server:
        assert ask(service, server, max_retries=5).message == assistant("ok")
        assert len(server.received) == 6 and server.bodies[0] == server.bodies[5]


@both
def test_it_does_not_try_for_ever(service: str) -> None:
    """After its tries the error is that of the last one."""
    with ModelServer(*[Refuse(529, "overloaded_error", headers=SOON)] * 9) as server:
        with pytest.raises(ModelError) as caught:
            ask(service, server, max_retries=3)
        assert caught.value.kind == "overloaded" and len(server.received) == 4


@both
@pytest.mark.parametrize("status", [400, 401, 403, 404, 413])
def test_what_wont_pass_is_tried_once(service: str, status: int) -> None:
    """Asking again for what is refused only costs time."""
    with ModelServer(*[Refuse(status, headers=SOON)] * 3) as server:
        with pytest.raises(ModelError):
            ask(service, server)
        assert len(server.received) == 1


PLAIN = {
    400: "invalid_request",
    401: "authentication_failed",
    402: "billing_error",
    403: "authentication_failed",
    404: "model_not_found",
    413: "invalid_request",
    418: "unknown",
    429: "rate_limit",
    500: "server_error",
    502: "server_error",
    503: "overloaded",
    529: "overloaded",
}


@both
@pytest.mark.parametrize(
    "body", ["<html>Sorry</html>", '"no"', '{"error": "no"}', "[]"], ids=["html", "text", "e", "[]"]
)
def test_a_status_alone_is_enough(service: str, body: str) -> None:
    """A proxy's answer has no error that we know, and still a kind."""

    async def kinds(model: Model) -> dict[int, str]:
        return {status: (await failing(model, status)).kind for status in PLAIN}

    async def failing(model: Model, status: int) -> ModelError:
        with pytest.raises(ModelError, match=rf"^{service} .*\({status}\)") as caught:
            await model.complete(ASKED, lambda piece: None)
        return caught.value

    with ModelServer(*(Refuse(status, body=body) for status in PLAIN)) as server:
        assert with_model(client(service, server, max_retries=0), kinds) == PLAIN


@both
def test_the_key_is_in_no_message(service: str) -> None:
    """Even if the service repeats it."""
    error = refusal(service, Refuse(401, "x", f"Incorrect key provided: {KEY}"))
    assert error.message == f"{service} rejected the key (401): Incorrect key provided: ***"
    assert error.hint


@both
def test_a_short_key_masks_nothing(service: str) -> None:
    """What a local service takes for a key, such as `k`, is in many a word of an error."""
    with ModelServer(Refuse(401, "x", "unknown key")) as server:
        model = open_model(f"{service}:m", {**environment(service, server.url), f"{service.upper()}_API_KEY": "k"})
        with pytest.raises(ModelError, match=r": unknown key\n"):
            with_model(model, lambda model: model.complete(ASKED, lambda piece: None))


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "_FIRST", 0.001)


@both
@pytest.mark.parametrize("fault", ["cut", "quiet end", "garbage", "error"])
def test_an_answer_that_breaks_off_unheard_is_asked_for_again(service: str, fault: Any, quick: None) -> None:
    """Nothing of it was shown or used: the next answer counts, and the user is not told."""
    told: list[str] = []
    with ModelServer(Say(uses=(use("Bash", {"command": "ls"}),), fault=fault), Say(("ok",))) as server:
        assert ask_again(service, server, told).message == assistant("ok")
        assert len(server.received) == 2 and server.bodies[0] == server.bodies[1]
    assert told == ["ok"]


@both
def test_it_does_not_ask_for_ever_for_what_breaks_off(service: str, quick: None) -> None:
    """After three more attempts the error is that of the last one."""
    with ModelServer(*[Say(fault="error")] * 9) as server:
        with pytest.raises(ModelError) as caught:
            ask_again(service, server, [])
        assert caught.value.kind == "overloaded" and len(server.received) == 4


@both
def test_a_person_is_told_that_an_answer_broke_off(service: str, quick: None) -> None:
    """And gets another."""
    reported: list[str] = []
    with ModelServer(Say(("I start",), fault="error"), Say(("I begin ", "again."))) as server:
        done = ask_again(service, server, reported)
    assert done.message == assistant("I begin again.")
    told = f"{service} is overloaded: too much to do; the answer so far is discarded and requested again"
    assert reported == ["I start", told, "I begin ", "again."]


@both
@pytest.mark.parametrize("uses", [(), (use("Bash", {"command": "ls"}),)], ids=["text", "use"])
@pytest.mark.parametrize("fault", ["cut", "quiet end", "garbage"])
def test_an_answer_that_breaks_off_is_none(service: str, fault: Any, uses: tuple[Use, ...]) -> None:
    """Nothing of it is used, however complete a use may look."""
    error = refusal(service, Say(("I start",), uses, fault=fault))
    assert error.kind == "server_error"
    assert error.message.startswith(f"{service} closed the connection")


@both
def test_an_error_in_the_middle_of_an_answer(service: str) -> None:
    """The status was good, and the kind is that of the error."""
    error = refusal(service, Say(("I start",), fault="error"))
    assert (error.kind, error.details) == ("overloaded", "too much to do")


@both
def test_no_server(service: str) -> None:
    """A server that isn't there."""
    with ModelServer() as server:
        gone = client(service, server, max_retries=0)
    with pytest.raises(ModelError, match=f"^{service} can't be reached: ") as caught:
        with_model(gone, lambda model: model.complete(ASKED, lambda piece: None))
    assert caught.value.kind == "server_error"


@both
@pytest.mark.parametrize("url", ["localhost:1", "ftp://x", "http://", "http://[", "x"])
def test_an_invalid_base_url(service: str, url: str) -> None:
    """It is refused before anything is sent to it, and not shown: it may hold a password."""
    env = {**environment(service, ""), f"{service.upper()}_BASE_URL": url}
    with pytest.raises(
        UsageError, match=f"^{service.upper()}_BASE_URL is not the address of a service\n\nhint: set it like "
    ):
        open_model(f"{service}:m", env)


@both
def test_a_stalled_answer_ends_after_its_time(service: str) -> None:
    """When nothing comes for too long, the call fails."""
    error = refusal(service, Say(("I start",), fault="stall"), timeout=0.3)
    assert error.kind == "server_error"
    assert error.message.startswith(f"{service} did not answer in time")


@both
def test_cancelling_ends_the_answer(service: str) -> None:
    """The pieces so far were shown, and the connection is closed at once."""
    reported: list[str] = []

    async def leave(model: Model) -> None:
        begun = asyncio.Event()

        def hear(piece: str) -> None:
            reported.append(piece)
            begun.set()

        task = asyncio.create_task(model.complete(ASKED, hear))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(server.closed.wait, 10)

    with ModelServer(Say(("I start",), fault="stall")) as server:
        with_model(client(service, server), leave)
    assert reported == ["I start"]


@both
def test_an_error_of_the_listener_is_its_own(service: str) -> None:
    """Who can't show a piece hears of it, and the answer ends."""

    def broken(piece: str) -> None:
        raise BrokenPipeError("no reader")

    async def leave(model: Model) -> None:
        with pytest.raises(BrokenPipeError, match="no reader"):
            await model.complete(ASKED, broken)
        assert await asyncio.to_thread(server.closed.wait, 10)

    with ModelServer(Say(("I start",), fault="stall")) as server:
        with_model(client(service, server), leave)


@both
def test_several_tasks_ask_at_once(service: str) -> None:
    """Each gets an answer of its own."""

    async def work(model: Model) -> list[Completion]:
        return await asyncio.gather(*(model.complete(ASKED, lambda piece: None) for _ in range(8)))

    with ModelServer(*[Say((str(number),)) for number in range(8)]) as server:
        done = with_model(client(service, server), work)
    assert sorted(one.message.text for one in done) == list("01234567")


@both
def test_text_that_is_no_utf8_can_be_sent(service: str) -> None:
    """Halves of characters in what a tool printed become question marks."""
    history = (user("\ud800"), assistant(ToolUse("a", "Bash", {"\udc00": "\udfff"})), user(ToolResult("a", "x\udc80")))
    with ModelServer() as server:
        ask(service, server, ModelRequest("\ud800", history, (BASH,)))
        sent = str(server.bodies[0])
    assert "x?" in sent and "\\ud" not in sent.lower()


@both
@pytest.mark.parametrize("key", ["sk-ä", "sk-a b\x07", "a\nb"])
def test_an_invalid_key(service: str, key: str) -> None:
    """A key that can't be sent is refused before anything is, and not shown."""
    with pytest.raises(UsageError, match="contains a character that is not allowed in a key") as caught:
        open_model(f"{service}:m", {f"{service.upper()}_API_KEY": key})
    assert key not in str(caught.value)


@both
def test_a_key_is_looked_for_before_the_sdk(service: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without one there is no use in a package, which need not be there."""
    monkeypatch.setitem(sys.modules, service, None)
    with pytest.raises(UsageError, match=f"^no key: {service.upper()}_API_KEY is not set"):
        open_model(f"{service}:m", {})
    with pytest.raises(UsageError, match="needs the package"):
        open_model(f"{service}:m", environment(service, "http://localhost"))


NAMES: dict[str, tuple[str, dict[str, str], str]] = {
    "a name": ("anthropic:a:b", {"ANTHROPIC_API_KEY": "k", "MODEL_ID": "other"}, "anthropic:a:b"),
    "MODEL_ID": ("anthropic:", {"ANTHROPIC_API_KEY": "k", "MODEL_ID": "mine"}, "anthropic:mine"),
    "no colon": ("openai", {"OPENAI_API_KEY": "k", "MODEL_ID": "mine"}, "openai:mine"),
    "a default": ("anthropic", {"ANTHROPIC_API_KEY": "k"}, "anthropic:claude-sonnet-5-5"),
    "a token": ("", {"ANTHROPIC_AUTH_TOKEN": "k", "MODEL_ID": "mine"}, "anthropic:mine"),
    "the key that is set": ("", {"OPENAI_API_KEY": "k", "MODEL_ID": "mine"}, "openai:mine"),
    "both keys": ("", {"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k", "MODEL_ID": "mine"}, "anthropic:mine"),
    "an empty key": ("", {"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "", "MODEL_ID": "mine"}, "openai:mine"),
}


@pytest.mark.parametrize(("name", "env", "model"), NAMES.values(), ids=NAMES)
def test_which_model_a_name_is(name: str, env: dict[str, str], model: str) -> None:
    """The name, then MODEL_ID, then a default; the service is the one whose key is set."""
    assert open_model(name, env).name == model


@both
def test_a_project_s_env_file_is_not_read(service: str, tmp_path: Path) -> None:
    """Neither by us nor by the SDKs: a project must not choose where a conversation is sent, or with which key."""
    with ModelServer() as server, ModelServer() as thief:
        named = environment(service, thief.url)
        lines = [f"{name}={value}" for name, value in {**named, "MODEL_ID": "theirs"}.items()]
        (tmp_path / ".env").write_text("\n".join(lines), "utf-8")
        env = {**os.environ, **environment(service, server.url), "MODEL_ID": "ours"}
        assert in_a_process(service, tmp_path, env) == ("done\n", "")
        assert (len(server.received), thief.received) == (1, [])
        assert server.bodies[0]["model"] == "ours"
        without = {name: value for name, value in env.items() if name not in (*named, "MODEL_ID")}
        assert "UsageError: no model" in in_a_process("", tmp_path, without)[1]
        assert thief.received == []


def in_a_process(name: str, folder: Path, env: dict[str, str]) -> tuple[str, str]:
    """A model's answer to `hi`, in a separate process in this folder, and its errors."""
    code = (
        "import asyncio, os\nfrom billhook.agent.models import open_model\n"
        "from billhook.agent.models import ModelRequest as Request\nfrom billhook.agent.conversation import user\n"
        f"model = open_model({name!r}, os.environ)\n"
        "print(asyncio.run(model.complete(Request('', (user('hi'),)), lambda piece: None)).message.text)\n"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=60)
    return done.stdout, done.stderr


def merged_history() -> tuple[Message, ...]:
    """Two messages of one role in a row, empty texts, and text before the results of tools."""
    return (
        user("", "one"),
        user("two"),
        assistant(""),
        assistant("  \n", ToolUse("a", "Bash", {"command": "ls"})),
        assistant(Text("and"), ToolUse("b", "Read", {})),
        user("note"),
        user(ToolResult("a", "files"), ToolResult("b", "no such file", is_error=True)),
        user(" "),
    )
