"""Who can see the page, and who can answer: codes, cookies, origins, hosts, and signed links."""

import re
import socket
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from approvals.asking import QUEUED, decision, push, question, reason, waiting
from billhook.agents.around import agent_around
from billhook.approvals import channels
from billhook.approvals.channels import LinkOwner
from billhook.approvals.queue import Questions
from billhook.cli import ui as verb
from billhook.serve import answer_links, ui
from cli.place import Place
from daemon.http_serving import heard
from daemon.running import Home, home_in
from page.visiting import Visitor, visited, visitor

API = ("now", "events", "event", "command", "live")
ABROAD = "http://evil.example"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Home, Visitor]]:
    with visited(tmp_path_factory.mktemp("page"), QUEUED) as found:
        yield found


def raw(guest: Visitor, path: str, host: str, method: str = "GET", *headers: str) -> bytes:
    """The start of a response to a request that no browser lets a page send."""
    head = "\r\n".join([f"{method} {path} HTTP/1.1", f"Host: {host}", "Connection: close", *headers, "", ""])
    with socket.create_connection(("127.0.0.1", guest.port), 20) as connection:
        connection.sendall(head.encode())
        return heard(connection)[:12]


def test_code_works_once(place: tuple[Home, Visitor]) -> None:
    """A code is exchanged for a cookie that scripts can't read and that is never sent across sites."""
    guest = visitor(place[0])
    assert guest.http.get("/ui/api/now").status_code == 401
    first = guest.login()
    assert first.status_code == 200
    assert "HttpOnly" in first.headers["set-cookie"] and "SameSite=strict" in first.headers["set-cookie"]
    assert guest.login().status_code == 401
    assert guest.get("now")["questions"] == []


def test_wrong_code(place: tuple[Home, Visitor]) -> None:
    """A wrong code, an empty one and a cookie that was made up open nothing."""
    guest = visitor(place[0])
    for code in ("wrong", "x" * 5000):
        assert guest.login(code).status_code == 401
    guest.http.cookies.set(f"billhook_{guest.port}", "made-up")
    assert guest.http.get("/ui/api/now").status_code == 401


def test_old_code(tmp_path: Path) -> None:
    """A code that is too old does not work."""
    from billhook.serve import ui

    found, seconds = ui.Login(), ui.CODE_SECONDS
    code = found.code()
    for digest in found._codes:
        found._codes[digest] -= seconds + 1
    assert found.enter(code) == ""
    assert found.enter(found.code()) != ""


def test_link_keeps_its_code_to_itself(place: tuple[Home, Visitor]) -> None:
    """The code is in the fragment, so it is in no request; neither is it in the daemon's log."""
    home, guest = place
    assert "#code=" not in guest.base and guest.code not in home.log()


@pytest.mark.parametrize("name", API)
def test_token_is_no_cookie(place: tuple[Home, Visitor], name: str) -> None:
    """Without the cookie nothing is shown, even with the token of the daemon, which agents have."""
    guest = visitor(place[0])
    token = (place[0].folder / "token").read_text().strip()
    found = guest.http.get(f"/ui/api/{name}", headers={"authorization": f"Bearer {token}"})
    assert found.status_code == 401


@pytest.mark.parametrize("name", API)
def test_another_origin(place: tuple[Home, Visitor], name: str) -> None:
    """A page of another origin is refused, with the cookie, too."""
    guest = place[1]
    for headers in ({"origin": ABROAD}, {"sec-fetch-site": "cross-site"}, {"sec-fetch-site": "same-site"}):
        assert guest.http.get(f"/ui/api/{name}", headers=headers).status_code == 403


@pytest.mark.parametrize("path", ["/ui/", "/ui/api/now", "/ui/app.js", "/ui/login"])
def test_another_host(place: tuple[Home, Visitor], path: str) -> None:
    """After DNS rebinding, the Host header has the attacker's name."""
    guest = place[1]
    for host in ("evil.example", f"evil.example:{guest.port}", "127.0.0.1", f"127.0.0.1.evil.example:{guest.port}"):
        assert raw(guest, path, host) == b"HTTP/1.1 403"


def test_answer_needs_the_origin(place: tuple[Home, Visitor]) -> None:
    """What changes something needs the page's own Origin: forms and scripts of other pages can't answer."""
    guest = place[1]
    body = {"id": "x", "allow": True}
    for headers in ({}, {"origin": ABROAD}, {"origin": "null"}, {"origin": f"http://localhost:{guest.port}"}):
        found = guest.http.post("/ui/api/answer", json=body, headers=headers)
        assert found.status_code == 403
    form = guest.http.post("/ui/api/answer", data={"id": "x", "allow": "true"}, headers=guest.own)
    assert form.status_code == 415


def test_login_from_another_page(place: tuple[Home, Visitor]) -> None:
    """Another page can't log a browser in."""
    guest = visitor(place[0])
    assert guest.login(origin=ABROAD).status_code == 403
    assert guest.http.post("/ui/login", json={"code": guest.code}).status_code == 403


def test_page_opens_from_anywhere(place: tuple[Home, Visitor]) -> None:
    """A link in a file or a mail opens the page; a frame or a script of another page does not."""
    guest = place[1]
    opened = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    assert guest.http.get("/ui/", headers=opened).status_code == 200
    assert guest.http.get("/ui/", headers={**opened, "sec-fetch-dest": "iframe"}).status_code == 403
    assert guest.http.get("/ui/api/now", headers=opened).status_code == 403


def test_policy_of_every_response(place: tuple[Home, Visitor]) -> None:
    """Scripts and styles come from files of the page only, and no other page may embed it."""
    guest = place[1]
    for path in ("/ui/", "/ui/app.css", "/ui/parts.js", "/ui/api/now", "/approve/x"):
        headers = guest.http.get(path).headers
        assert "default-src 'none'; script-src 'self'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff" and headers["cache-control"] == "no-store"


def test_files_of_the_page_only(place: tuple[Home, Visitor]) -> None:
    """No path leads out of the folder."""
    guest = place[1]
    for path in ("/ui/../__init__.py", "/ui/%2e%2e/login.py", "/ui//etc/passwd", "/ui/static", "/ui/x.js"):
        host = f"127.0.0.1:{guest.port}"
        assert raw(guest, path, host)[-3:] in (b"404", b"401")


@pytest.mark.parametrize("allow", [True, False])
def test_answer_on_the_page(place: tuple[Home, Visitor], allow: bool) -> None:
    """A caller waits until the page answers; the second answer is told who was first."""
    home, guest = place
    with home.call(push(home, f"git push origin a{allow}")) as call:
        (one,) = waiting(home)
        shown = next(each for each in guest.get("now")["questions"] if each["id"] == one.id)
        assert shown["state"] == "waiting" and "git push" in shown["call"] and "key" not in shown
        assert guest.answer(one.id, allow, why="use a branch").status_code == 200
        reply = call.reply()
    assert decision(reply) == ("allow" if allow else "deny")
    assert allow or "use a branch" in reason(reply)
    late = guest.answer(one.id, not allow)
    assert late.status_code == 409 and "answered first" in late.json()["error"]["message"]


def test_invalid_answer(place: tuple[Home, Visitor]) -> None:
    """An unknown question and a wrong type are errors, and no answers."""
    guest = place[1]
    assert guest.answer("unknown", True).status_code == 400
    found = guest.http.post("/ui/api/answer", json={"id": "x", "allow": "yes"}, headers=guest.own)
    assert found.status_code == 400


# -- signed links


def signed(home: Home, guest: Visitor, id_: str, seconds: float = 60) -> str:
    return channels.signed_link(home.root, guest.base, id_, time.time() + seconds, LinkOwner("ntfy", "Ada"))


def test_link_shows_and_answers(place: tuple[Home, Visitor]) -> None:
    """GET shows the question and answers nothing; POST answers it, once, for who got the link."""
    home, guest = place
    one = Questions(home.root).add(question("link", seconds=60, call="Bash: <script>alert(1)</script>"))
    link = signed(home, guest, one.id)
    for _ in range(2):
        shown = guest.http.get(link)
        assert shown.status_code == 200 and "&lt;script&gt;" in shown.text and "<script" not in shown.text
    found = Questions(home.root).find(one.id)
    assert found is not None and found.state == "waiting"
    assert guest.http.post(f"{link}&answer=deny", headers={"origin": "https://ntfy.sh"}).status_code == 200
    found = Questions(home.root).find(one.id)
    assert found is not None and (found.answer, found.by, found.via) == ("deny", "Ada", "ntfy")
    assert guest.http.post(f"{link}&answer=allow").status_code == 409


def test_link_through_a_proxy(place: tuple[Home, Visitor]) -> None:
    """The page of a link and its style are served under the user's own address; nothing else is."""
    home, guest = place
    one = Questions(home.root).add(question("proxy"))
    path = signed(home, guest, one.id).removeprefix(guest.base)
    style = re.search(r'rel="stylesheet" href="([^"]+)"', guest.http.get(path).text)
    assert style and raw(guest, f"/approve/{style[1]}", "host.example")[-3:] == b"200"
    assert raw(guest, path, "host.example")[-3:] == b"200" and raw(guest, "/ui/app.css", "host.example")[-3:] == b"403"


def test_link_that_was_changed(place: tuple[Home, Visitor]) -> None:
    """A wrong signature, an old link and an answer that was not signed do nothing, and show nothing."""
    home, guest = place
    one = Questions(home.root).add(question("changed", call="Bash: a secret plan"))
    link, old = signed(home, guest, one.id), signed(home, guest, one.id, -5)
    for changed in (link.replace("allow=", "allow=0"), link.replace("by=Ada", "by=Bob"), old, link.split("?")[0]):
        for response in (guest.http.get(changed), guest.http.post(f"{changed}&answer=allow")):
            assert response.status_code == 403 and "secret plan" not in response.text
    assert guest.http.post(f"{link}&answer=maybe").status_code == 403
    found = Questions(home.root).find(one.id)
    assert found is not None and not found.answer


# -- the command


def test_ui_prints_a_link(tmp_path: Path) -> None:
    """`billhook ui` starts the daemon and prints a link that works; the file for the browser is private."""
    with home_in(tmp_path / "page") as home:
        (tmp_path / "typed").mkdir()
        browser = home.file("browser", '#!/bin/sh\ncp "${1#file://}" "$HOME/opened"\n', 0o755)
        typed = Place(tmp_path / "typed")
        ended = typed.typing("ui", answers=[], BILLHOOK_HOME=str(home.root), BROWSER=str(browser))
        link = next(word for word in ended.out.split() if "/ui/#code=" in word)
        assert stat.S_IMODE((home.folder / "page.html").stat().st_mode) == 0o600
        assert link in (home.folder / "page.html").read_text()
        assert Visitor(link).login().status_code == 200
        assert (
            f"{link.partition('/ui/')[0]} (for the page that `billhook ui` opened)"
            in home.billhook("daemon", "status", env=home.env(COLUMNS="200")).stdout
        )


def test_ui_in_an_agent(tmp_path: Path) -> None:
    """An agent gets no link: it could answer its own questions."""
    with home_in(tmp_path) as home:
        refused = home.billhook("ui", "--json", env=home.env(CLAUDECODE="1"))
        assert refused.returncode == 2 and "refused here" in refused.stderr
        assert home.status() is None


@pytest.mark.parametrize("option", ["--json", "--no-open"])
def test_ui_without_a_terminal(tmp_path: Path, option: str) -> None:
    """Its link may be piped, for example over ssh; it is refused only inside an agent."""
    if agent := agent_around():
        pytest.skip(f"the page is for people: this runs inside {agent}")
    with home_in(tmp_path) as home:
        shown = home.billhook("ui", option)
        assert (shown.returncode, shown.stderr) == (0, "") and "/ui/#code=" in shown.stdout


def test_the_page_is_small() -> None:
    """At most 1,500 lines of Python, HTML, CSS and scripts, without the library: the page, that of a signed link, and
    the verb."""
    package = Path(ui.__file__).parent
    files = [*package.glob("*.py"), *package.glob("static/*.*"), Path(answer_links.__file__), Path(verb.__file__)]
    own = [file for file in files if file.suffix in (".py", ".html", ".css", ".js") and file.name != "preact.js"]
    assert sum(len(file.read_text().splitlines()) for file in own) <= 1500


def test_no_html_from_text() -> None:
    """No script makes HTML of a string: the library makes text nodes of texts."""
    for file in (Path(ui.__file__).parent / "static").glob("*.js"):
        if file.name != "preact.js":
            text = file.read_text()
            assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|new Function", text), (
                file
            )
            assert "dangerouslySet" not in text and not re.search(r"href=(?!\"#|\$\{(?:address\(|link\}))", text), file
