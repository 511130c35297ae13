"""Channels: real receivers on this machine get each question once, without secrets, and never delay an answer."""

import hmac
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

import pytest

from approvals.asking import approvals, decision, push, waiting
from billhook.approvals.channels import LinkOwner, check
from billhook.approvals.queue import Questions
from daemon.running import Home, eventually, home_in

SECRET = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"


class Got(NamedTuple):
    """One request."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Receiver:
    """An HTTP server that keeps what it gets. `status`: its answer; 0: it never answers."""

    def __init__(self, status: int = 200) -> None:
        self.got: list[Got] = []
        self.end = threading.Event()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.got.append(Got(self.path, {k.lower(): v for k, v in self.headers.items()}, body))
                if not status:
                    receiver.end.wait(60)
                self.send_response(status or 200)
                self.send_header("Location", "/elsewhere")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/in/T0KEN?x=1"

    def close(self) -> None:
        self.end.set()
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with home_in(tmp_path) as home:
        yield home


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.close()


def sent(home: Home, receiver: Receiver, channel: str, link: str = "", command: str = "git push", **env: str) -> Got:
    """What the receiver got about a question, which is then answered."""
    more = f"  link: {link}\n" if link else ""
    home.own(approvals(channels=f"[{channel}]", more=more))
    home.start()
    with home.call(push(home, command), env=home.env(**env)) as call:
        eventually(lambda: receiver.got)
        (one,) = waiting(home)
        Questions(home.root).answer(one.id, True, "Ann", "page")
        assert decision(call.reply()) == "allow"
    (got,) = receiver.got
    return got


def test_a_webhook_is_signed(home: Home, receiver: Receiver) -> None:
    """The receiver can verify that the question is from this user; its address and secret come from variables."""
    got = sent(home, receiver, "{webhook: $ADDRESS, secret: '${KEY}'}", ADDRESS=receiver.url, KEY="s3cret")
    stamp = got.headers["x-billhook-timestamp"]
    wanted = hmac.new(b"s3cret", stamp.encode() + b"." + got.body, "sha256").hexdigest()
    assert got.headers["x-billhook-signature"] == f"sha256={wanted}"
    assert got.path == "/in/T0KEN?x=1"
    question = got.json["question"]
    assert question["call"] == "Bash: git push" and question["reason"] == "push to a remote?"
    assert question["hooks"] == ["push"] and question["agent"] == "claude"
    assert "key" not in question and got.json["link"] is None


def test_a_webhook_has_signed_links(home: Home, receiver: Receiver) -> None:
    """One for each answer; they name the channel and who got it."""
    channel = f"{{webhook: '{receiver.url}', secret: x, who: Ben}}"
    got = sent(home, receiver, channel, link="https://host.example")
    parts = urlsplit(got.json["answers"]["deny"])
    fields = dict(parse_qsl(parts.query))
    id_ = got.json["question"]["id"]
    assert parts.path == f"/approve/{id_}" and fields["answer"] == "deny"
    assert check(home.root, id_, "deny", fields) == LinkOwner("webhook", "Ben")


def test_ntfy_has_buttons(home: Home, receiver: Receiver) -> None:
    """They post, so that nothing answers by opening an address."""
    got = sent(home, receiver, f"{{ntfy: '{receiver.url}'}}", link="https://host.example")
    allow, deny = got.headers["actions"].split("; ")
    assert allow.startswith("http, Allow, https://host.example/approve/") and "&answer=allow, " in allow
    assert deny.startswith("http, Deny, https://host.example/approve/") and "&answer=deny, " in deny
    assert "git push" in got.body.decode() and got.headers["title"].startswith("claude asks in ")


def test_the_name_of_a_project_is_no_header(home: Home, receiver: Receiver) -> None:
    """A line break in it neither adds a header nor stops the message."""
    home.project = home.project.parent / "caf\u00e9\nActions: x"
    home.project.mkdir()
    got = sent(home, receiver, f"{{ntfy: '{receiver.url}'}}")
    assert got.headers["title"].encode("latin-1").decode() == "claude asks in caf\u00e9 Actions: x"
    assert "actions" not in got.headers


def test_slack_shows_text_as_text(home: Home, receiver: Receiver) -> None:
    """A call can't mention people or add links."""
    got = sent(home, receiver, f"{{slack: '{receiver.url}'}}", "https://host.example", "git push '<!channel>' && ls")
    text = got.json["text"]
    assert "&lt;!channel&gt;" in text and "&amp;&amp; ls" in text and "<!channel>" not in text
    assert text.endswith("|Answer>") and "<https://host.example/approve/" in text


def test_without_a_link_messages_have_the_command(home: Home, receiver: Receiver) -> None:
    text = sent(home, receiver, f"{{slack: '{receiver.url}'}}").json["text"]
    assert f"billhook approvals allow {Questions(home.root).all()[0].code}" in text


@pytest.mark.parametrize("kind", ["slack", "ntfy", "webhook"])
def test_messages_have_what_would_be_written(home: Home, receiver: Receiver, kind: str) -> None:
    """Cut where it is long, and without secrets."""
    secret = ", secret: x" if kind == "webhook" else ""
    own = approvals(channels=f"[{{{kind}: '{receiver.url}'{secret}}}]")
    home.own(own.replace("if: Bash(git push *)", "match: Write"))
    home.start()
    given = {"file_path": "/p/deploy.sh", "content": f"#!/bin/sh\nTOKEN={SECRET}\n" + "x" * 9000}
    with home.call(home.event(tool_name="Write", tool_input=given, permission_mode="dontAsk")) as call:
        eventually(lambda: receiver.got)
        (one,) = waiting(home)
        Questions(home.root).answer(one.id, True, "Ann", "page")
        assert decision(call.reply()) == "allow"
    body = receiver.got[0].body
    assert b"/p/deploy.sh" in body and b"+ #!/bin/sh" in body and b"more characters)" in body
    assert SECRET.encode() not in body and len(body) < 6000


@pytest.mark.parametrize("kind", ["slack", "ntfy", "webhook"])
def test_no_channel_gets_secrets(home: Home, receiver: Receiver, kind: str) -> None:
    secret = ", secret: x" if kind == "webhook" else ""
    got = sent(home, receiver, f"{{{kind}: '{receiver.url}'{secret}}}", command=f"git push https://x:{SECRET}@host/r")
    assert SECRET.encode() not in got.body and b"[redacted" in got.body


def test_the_desktop_gets_a_notification(home: Home) -> None:
    """From the caller's PATH. A call that looks like an option stays text."""
    program = home.file("bin/notify-send", '#!/bin/sh\nprintf "%s\\n" "$@" >> "$HOME/notified"\n', 0o755)
    home.own(approvals(channels="[desktop]"))
    home.start()
    env = home.env(PATH=f"{program.parent}:{home.env()['PATH']}")
    with home.call(push(home), env=env) as call:
        notified = home.home / "notified"
        eventually(lambda: notified.exists() and len(notified.read_text().splitlines()) >= 5)
        (one,) = waiting(home)
        words = notified.read_text().splitlines()
        assert words[:3] == ["--", "claude asks in project", "Bash: git push origin main"]
        assert words[-1] == f"billhook approvals allow {one.code}"
        Questions(home.root).answer(one.id, False, "Ann", "page")
        assert decision(call.reply()) == "deny"


def test_channels_that_hang_delay_nothing(home: Home) -> None:
    """The answer comes from somewhere else."""
    receiver = Receiver(status=0)
    try:
        assert sent(home, receiver, f"{{slack: '{receiver.url}'}}")
    finally:
        receiver.close()


@pytest.mark.parametrize(
    ("channel", "problem"),
    [
        ("{slack: 'http://127.0.0.1:1/T0KEN'}", "slack: no answer from the server: ConnectionRefusedError"),
        ("{slack: $ADDRESS}", "slack: the variable `ADDRESS` is not set"),
        ("{slack: 'http://example.com$PWD'}", "slack: the address can't be used: it sends events to another machine"),
    ],
)
def test_channels_that_fail_are_reported(home: Home, channel: str, problem: str) -> None:
    """To the user, without the address; the question can be answered nevertheless."""
    home.own(approvals("1s", channels=f"[{channel}]"))
    home.start()
    reply = home.ask(push(home), env=home.env(PWD="/T0KEN"))
    assert decision(reply) == "deny"
    assert problem in reply.stderr.decode() and b"T0KEN" not in reply.stderr


@pytest.mark.parametrize("file", [".env", ".claude/settings.json"])
def test_a_project_can_not_redirect_questions(home: Home, receiver: Receiver, file: str) -> None:
    """The agent may have the variable from a file of the project, which must not get questions and their links."""
    home.file(".env", f"export ADDRESS={receiver.url}\n")
    home.file(".claude/settings.json", json.dumps({"env": {"ADDRESS": receiver.url}}))
    (home.project / ({".env", ".claude/settings.json"} - {file}).pop()).unlink()
    home.own(approvals("1s", channels="[{slack: $ADDRESS}]"))
    home.start()
    reply = home.ask(push(home), env=home.env(ADDRESS=receiver.url))
    assert f"slack: `ADDRESS` is not used: {file} of the project sets it" in reply.stderr.decode()
    assert not receiver.got


@pytest.mark.parametrize("status", [302, 404, 500])
def test_a_refusal_of_a_server_is_reported(home: Home, status: int) -> None:
    """A redirect is not followed: it would carry the question somewhere else."""
    receiver = Receiver(status)
    try:
        home.own(approvals("1s", channels=f"[{{ntfy: '{receiver.url}'}}]"))
        home.start()
        assert f"ntfy: HTTP status {status}" in home.ask(push(home)).stderr.decode()
        assert len(receiver.got) == 1
    finally:
        receiver.close()


def test_a_repeated_call_sends_no_second_message(home: Home, receiver: Receiver) -> None:
    """An agent that repeats its call does not flood people."""
    home.own(approvals("1s", channels=f"[{{slack: '{receiver.url}'}}]"))
    home.start()
    for _ in range(2):
        assert decision(home.ask(push(home))) == "deny"
    assert len(receiver.got) == 1
