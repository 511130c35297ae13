"""An agent tries to answer its own question: on the page, by a link, with the daemon's socket, in a terminal."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from approvals.asking import QUEUED, push, waiting
from billhook.agents.around import agent_around
from billhook.approvals import channels
from billhook.approvals.channels import LinkOwner
from billhook.approvals.queue import Questions
from daemon.running import Home, home_in
from page.visiting import Visitor, visitor

pytestmark = pytest.mark.skipif(bool(agent_around()), reason="inside an agent, a person can't answer either")

_SOCKET = """
import socket, sys
with socket.socket(socket.AF_UNIX) as daemon:
    daemon.connect(sys.argv[1])
    daemon.sendall(b"bh\\0u\\0\\0\\0\\0")
    print(b"".join(iter(lambda: daemon.recv(65536), b"")).decode("latin-1"))
"""
_POST = """
import json, sys
import httpx
url, body, headers = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])
print(httpx.post(url, json=body, headers=headers, trust_env=False).text)
"""
_TERMINAL = """
import pty, sys
pty.spawn(sys.argv[1:])
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Home, Visitor]]:
    """A daemon, and a browser that is logged in."""
    with home_in(tmp_path_factory.mktemp("answers")) as home:
        home.own(QUEUED)
        home.file("claude", '"$@"\n')
        home.start()
        guest = visitor(home)
        guest.login()
        yield home, guest


def by_the_agent(home: Home, code: str, *words: str, clean: bool = False) -> str:
    """What a program prints that an agent has started; `clean`: without its variables, in a session of its own."""
    program = [sys.executable, "-c", code, *words]
    hidden = ["env", "-i", f"BILLHOOK_HOME={home.root}", "setsid", "--wait"] if clean else []
    argv = ["sh", str(home.project / "claude"), *hidden, *program]
    done = subprocess.run(argv, env=home.env(), cwd=home.project, capture_output=True, timeout=60, check=False)
    return done.stdout.decode()


@pytest.mark.parametrize("clean", [False, True])
def test_the_socket_gives_an_agent_no_link(place: tuple[Home, Visitor], clean: bool) -> None:
    home, _ = place
    socket = str(home.folder / "s")
    found = by_the_agent(home, _SOCKET, socket, clean=clean)
    assert "this runs inside Claude Code" in found and "#code=" not in found


@pytest.mark.parametrize("clean", [False, True])
def test_a_stolen_cookie_and_a_stolen_link_answer_nothing(place: tuple[Home, Visitor], clean: bool) -> None:
    """The daemon looks which program sends the answer. The question stays open, and the person can answer."""
    home, guest = place
    (cookie,) = guest.http.cookies.jar
    headers = json.dumps({**guest.own, "cookie": f"{cookie.name}={cookie.value}"})
    with home.call(push(home, f"git push {clean}")) as call:
        (one,) = waiting(home)
        body = json.dumps({"id": one.id, "allow": True})
        assert "only a person" in by_the_agent(home, _POST, f"{guest.base}/ui/api/answer", body, headers, clean=clean)
        link = channels.signed_link(home.root, guest.base, one.id, time.time() + 60, LinkOwner("ntfy"))
        assert "only a person" in by_the_agent(home, _POST, f"{link}&answer=allow", "{}", "{}", clean=clean)
        assert Questions(home.root).pending() == [one]
        assert guest.answer(one.id, False).status_code == 200
        call.reply()


@pytest.mark.parametrize("clean", [False, True])
def test_a_terminal_of_the_agent_answers_nothing(place: tuple[Home, Visitor], clean: bool) -> None:
    home, guest = place
    with home.call(push(home, f"git push {clean} terminal")) as call:
        (one,) = waiting(home)
        words = [sys.executable, "-m", "billhook", "approvals", "allow", one.code]
        assert "refused here" in by_the_agent(home, _TERMINAL, *words, clean=clean)
        assert Questions(home.root).pending() == [one]
        assert guest.answer(one.id, False).status_code == 200
        call.reply()


def test_the_file_for_the_browser_is_removed(place: tuple[Home, Visitor]) -> None:
    """With the first login, so that nothing is left to read."""
    home, _ = place
    file = home.folder / "page.html"
    file.write_text("#code=x")
    guest = visitor(home)
    assert guest.login("wrong").status_code == 401 and file.exists()
    assert guest.login().status_code == 200 and not file.exists()
