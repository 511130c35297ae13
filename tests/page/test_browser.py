"""The page in a real browser, with real traffic."""

import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from approvals.asking import decision, question, reason, waiting
from billhook.approvals import channels
from billhook.approvals.channels import LinkOwner
from billhook.approvals.queue import Questions, is_watched
from daemon.running import Home, Reply, eventually, home_in
from page.visiting import visitor, write_log

playwright = pytest.importorskip("playwright.sync_api", reason="scripts/browser installs it")
CHROMIUM = shutil.which("chromium-headless-shell")
AXE = Path(sys.prefix) / "axe-core" / "axe.min.js"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CHROMIUM or not AXE.exists(), reason="scripts/browser installs them"),
]

VIEWS = ("now", "timeline", "hooks", "insights", "health")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
DESKTOP, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}
IMAGES = Path(__file__).parents[2] / "docs" / "images"
HOOKS = """\
approvals: {time: 60s, channels: []}
hooks:
  ask-before-push: {events: PreToolUse, if: "Bash(git push *)", ask: A push leaves this machine}
  no-deploy: {events: PreToolUse, if: "Bash(deploy *)", deny: deployments need a person}
  style: {events: PostToolUse, match: Edit|Write, run: "true"}
  broken-notes: {events: PostToolUse, match: Bash, run: "exit 7"}
"""
COMMANDS = ("git status", "npm test", "deploy production", "ls -la src", "cat .env", "pytest -q tests/test_cart.py")
EVIL = '<img src=x onerror="window.pwned=1"><script>window.pwned=1</script>\'"><svg onload=window.pwned=1>'

Page = Any


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """A daemon that has had some traffic."""
    with home_in(tmp_path_factory.mktemp("browser")) as one:
        one.own(HOOKS)
        one.start()
        traffic(one)
        yield one


@pytest.fixture
def page(chromium: Any, home: Home) -> Iterator[Page]:
    with opened(chromium, home) as one:
        yield one


class opened:  # noqa: N801 (a context manager)
    """A page that is logged in. Errors of scripts and dialogs fail the test."""

    def __init__(self, chromium: Any, home: Home, size: dict[str, int] = DESKTOP, scheme: str = "light") -> None:
        self.context = chromium.new_context(viewport=size, color_scheme=scheme)
        self.context.add_init_script(path=AXE)
        self.context.set_default_timeout(20_000)
        self.errors: list[str] = []
        self.page = self.context.new_page()
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", lambda told: self.errors.append(told.text) if told.type == "error" else None)
        self.page.on("dialog", lambda dialog: self.errors.append(dialog.message))
        guest = visitor(home)
        self.page.goto(f"{guest.base}/ui/#code={guest.code}")
        self.page.wait_for_selector(".state.live")

    def __enter__(self) -> Page:
        return self.page

    def __exit__(self, *error: object) -> None:
        self.context.close()
        assert self.errors == []


def traffic(home: Home, sessions: int = 3, commands: tuple[str, ...] = COMMANDS) -> None:
    for number in range(sessions):
        who: dict[str, Any] = {"session_id": f"{number}b8e2f0e-5a0f-4b0f-9a53-0a2d7f6e1b1{number}"}
        home.ask(home.event("SessionStart", source="startup", **who))
        home.ask(home.event("UserPromptSubmit", prompt="Fix the rounding error in the cart total", **who))
        for place, command in enumerate(commands):
            call = {"tool_input": {"command": command}, "tool_use_id": f"t{number}{place}", **who}
            if not home.ask(home.event(**call)).denied:
                home.ask(home.event("PostToolUse", tool_response={"stdout": "ok"}, **call))
            file = {"tool_name": "Edit", "tool_input": {"file_path": str(home.project / "src" / "cart.py")}, **who}
            home.ask(home.event(**file))
            home.ask(home.event("PostToolUse", tool_response={"ok": True}, **file))


def show(page: Page, view: str) -> None:
    """Open a view, and wait until it has its content."""
    page.click(f"nav a[data-view={view}]")
    page.wait_for_selector(f"main.{view}")
    page.wait_for_selector("main > [role=status].empty", state="detached", timeout=60_000)


def violations(page: Page) -> list[str]:
    """What axe-core finds, with the elements."""
    found = page.evaluate("axe.run()")["violations"]
    return [f"{one['id']}: {[node['target'] for node in one['nodes']][:3]}" for one in found]


class Caller:
    """An agent that waits for the answer to a push."""

    def __init__(self, home: Home, branch: str) -> None:
        command = {"command": f"git push origin {branch}"}
        self.event = home.event(tool_input=command, permission_mode="dontAsk")
        self.reply: Reply | None = None
        self._thread = threading.Thread(target=self._ask, args=(home,))
        self._thread.start()
        waiting(home)

    def _ask(self, home: Home) -> None:
        self.reply = home.ask(self.event)

    def answered(self) -> Reply:
        self._thread.join(60)
        assert self.reply is not None
        return self.reply


# -- login


def test_code_leaves_the_address(chromium: Any, home: Home) -> None:
    """The code is gone from the address and the history; a used link shows how to get another."""
    guest = visitor(home)
    context = chromium.new_context()
    page = context.new_page()
    page.goto(f"{guest.base}/ui/#code={guest.code}")
    page.wait_for_selector(".state.live")
    assert guest.code not in page.url and page.evaluate("history.length") <= 2
    other = chromium.new_context().new_page()
    other.goto(f"{guest.base}/ui/#code={guest.code}")
    assert "billhook ui" in other.text_content(".blank")
    context.close()
    other.context.close()


# -- views


@pytest.mark.parametrize("view", VIEWS)
def test_views(page: Page, view: str) -> None:
    """Every view shows what it promises."""
    show(page, view)
    expected = {
        "now": ".session >> nth=2",
        "timeline": ".row.deny",
        "hooks": "td >> text=no-deploy",
        "insights": "svg.days rect.deny",
        "health": ".findings .badge.allow",
    }
    assert page.wait_for_selector(expected[view])


def test_live(page: Page, home: Home) -> None:
    """New events appear in Now and in the timeline without a reload."""
    home.ask(home.event(session_id="live-session", tool_input={"command": "echo live-now"}))
    page.wait_for_selector(".session >> text=echo live-now")
    show(page, "timeline")
    page.wait_for_selector(".row >> text=echo live-now")
    home.ask(home.event(session_id="live-session", tool_input={"command": "deploy live-later"}))
    page.wait_for_selector(".chunk.new .row.deny >> text=deploy live-later")
    page.fill("input[type=search]", "live-filtered")
    page.wait_for_selector(".more >> text=No event matches.")
    home.ask(home.event(session_id="live-session", tool_input={"command": "echo live-filtered"}))
    page.wait_for_selector(".row >> text=echo live-filtered")


def test_filters(page: Page) -> None:
    """Filters are in the address, so that a reload and a link show the same."""
    show(page, "timeline")
    page.select_option("select[aria-label=Decision]", "deny")
    page.wait_for_selector(".row:not(.deny)", state="detached")  # also while the filtered rows are loaded
    page.wait_for_selector(".row.deny >> nth=2")
    assert page.locator(".row:not(.deny)").count() == 0 and "decision=deny" in page.url
    page.reload()
    page.wait_for_selector(".row.deny")
    assert page.locator(".row:not(.deny)").count() == 0


def test_a_session_stays_live(page: Page, home: Home) -> None:
    """Its page needs no request for each new event."""
    home.ask(home.event(session_id="one-session", tool_input={"command": "echo first"}))
    page.click(".session >> text=echo first")
    page.wait_for_selector(".row >> text=echo first")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    for session, word in (("other-session", "elsewhere"), ("one-session", "second")):
        home.ask(home.event(session_id=session, tool_input={"command": f"echo {word}"}))
    page.wait_for_selector(".chunk.new >> text=echo second")
    assert page.locator(".row").count() == 2 and asked == []


def test_open_questions_of_a_session(page: Page, home: Home) -> None:
    """The list of sessions shows which of them wait for a person."""
    home.ask(home.event(tool_input={"command": "echo before"}))
    page.wait_for_selector(".session >> text=echo before")
    caller = Caller(home, "waiting")
    page.wait_for_selector(".session:has-text('echo before') em.waiting >> text=1 waiting")
    page.click("text=Allow once")
    caller.answered()
    page.wait_for_selector("em.waiting", state="detached")


def test_event_in_full(page: Page) -> None:
    """An event shows its input, every answer, its hash, and what today's rules would decide."""
    show(page, "timeline")
    page.click(".row.deny >> nth=0")
    page.wait_for_selector(".pane h2")
    text = page.text_content(".pane")
    for part in ("deployments need a person", "no-deploy", "unchanged since it was written", "billhook allow-once"):
        assert part in text
    page.click("text=Replay with today's rules")
    page.wait_for_selector(".today .badge.deny >> nth=1", timeout=60_000)


# -- questions


@pytest.mark.parametrize("allowed", [True, False])
def test_answers(page: Page, home: Home, allowed: bool) -> None:
    """A question appears while its caller waits; the answer on the page reaches the caller."""
    caller = Caller(home, f"page-{allowed}")
    page.wait_for_selector(f".question >> text=page-{allowed}")
    assert page.title() == "(1) billhook"
    if not allowed:
        page.fill("input[aria-label='Reason for a denial']", "use a branch")
    page.click("text=Allow once" if allowed else ".question >> text=Deny")
    reply = caller.answered()
    assert decision(reply) == ("allow" if allowed else "deny")
    assert allowed or "use a branch" in reason(reply)
    page.wait_for_selector(".question", state="detached")
    eventually(lambda: page.title() == "billhook")


def test_an_open_page_is_enough(chromium: Any, tmp_path: Path) -> None:
    """Nothing is configured: a question waits while the page is open, and no longer when it is closed."""
    with home_in(tmp_path) as home:
        home.own('hooks: {push: {events: PreToolUse, if: "Bash(git push *)", ask: push?}}')
        home.start()
        with opened(chromium, home) as page:
            eventually(lambda: is_watched(home.root))
            event = home.event(tool_input={"command": "git push"}, permission_mode="dontAsk")
            with home.call(event, "--deadline", "58000") as call:
                page.wait_for_selector(".question >> text=hint: to wait longer, set `approvals:`")
                page.click("text=Allow once")
                assert decision(call.reply()) == "allow"
        eventually(lambda: not is_watched(home.root))
        assert decision(home.ask(event)) == "ask"


def test_a_question_shows_what_would_be_written(chromium: Any, tmp_path: Path) -> None:
    """The whole change, as text; a secret in it is not shown."""
    with home_in(tmp_path) as home:
        home.own("approvals: {time: 60s, channels: []}\nhooks: {edits: {events: PreToolUse, match: Edit, ask: edit?}}")
        home.start()
        secret = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"
        edit = {"file_path": str(home.project / "run.sh"), "old_string": f"TOKEN={secret}", "new_string": EVIL}
        with opened(chromium, home) as page:
            event = home.event(tool_name="Edit", tool_input=edit, permission_mode="bypassPermissions")
            with home.call(event) as call:
                text = page.text_content(".question pre")
                assert text.startswith(f"Edit: {home.project}/run.sh\n- TOKEN=[redacted") and secret not in text
                assert text.endswith(f"\n+ {EVIL}")
                assert violations(page) == []
                unharmed(page)
                page.click("text=Allow once")
                assert decision(call.reply()) == "allow"


def test_answer_from_somewhere_else(page: Page, home: Home) -> None:
    """A question that was answered elsewhere disappears."""
    caller = Caller(home, "elsewhere")
    page.wait_for_selector(".question")
    (one,) = waiting(home)
    guest = visitor(home)
    guest.login()
    assert guest.answer(one.id, True).status_code == 200
    page.wait_for_selector(".question", state="detached")
    assert decision(caller.answered()) == "allow"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_of_a_link(chromium: Any, home: Home, scheme: str) -> None:
    """On a phone it shows the whole question, and answers it without scripts."""
    one = Questions(home.root).add(question(scheme, call=f"Bash: git push {'x' * 300}", content=f"+ {EVIL}"))
    link = channels.signed_link(home.root, visitor(home).base, one.id, time.time() + 60, LinkOwner("slack", "Sue"))
    context = chromium.new_context(viewport=PHONE, color_scheme=scheme, java_script_enabled=False)
    page = context.new_page()
    page.goto(link)
    assert page.inner_text("pre").endswith(f"\n+ {EVIL}") and "claude in /p\nlist?" in page.inner_text("main")
    assert page.locator("main").bounding_box()["width"] <= PHONE["width"]
    page.click("button.allow")
    assert page.text_content("h1") == "Allowed"
    page.goto(link)
    assert "Sue (slack) answered first" in page.text_content("main")
    context.close()


# -- hostile text


def test_hostile_text_stays_text(chromium: Any, tmp_path: Path) -> None:
    """Markup in every field that agents, hooks and files can fill is shown as text."""
    with home_in(tmp_path) as home:
        home.project = home.project.parent / "<img src=x onerror=pwned=1>"
        home.project.mkdir()
        name = EVIL.replace('"', "'")
        home.own(
            "approvals: {time: 60s, channels: []}\nhooks:\n"
            f"  '{EVIL.replace(chr(39), '')[:60]}': {{events: PreToolUse, if: 'Bash(deploy *)', deny: \"{name}\"}}\n"
            f"  asks: {{events: PreToolUse, if: 'Bash(git push *)', ask: \"{name}\"}}\n"
            f"  fails: {{events: PreToolUse, match: Read, run: \"echo '<script>pwned=1</script>' >&2; exit 7\"}}\n"
        )
        home.file("<script>pwned=1</script>.py", "")
        home.file("hooks.yaml", f'hooks:\n  "{name}":\n    events: PreToolUse\n    run: "./<b>.sh {name}"\n')
        home.start()
        evil = {"session_id": EVIL, "transcript_path": EVIL}
        home.ask(home.event(tool_input={"command": f"deploy {EVIL}", EVIL: EVIL}, **evil))
        home.ask(home.event(tool_name="Read", tool_input={"file_path": f"/{EVIL}"}, permission_mode=EVIL, **evil))
        home.ask(home.event(tool_name=EVIL, tool_input={"x": EVIL}, **evil))
        home.ask(home.event("UserPromptSubmit", prompt=EVIL, **evil))
        with opened(chromium, home) as page:
            caller = Caller(home, "'{}'".format(EVIL.replace("'", "")))
            page.wait_for_selector(".question pre >> text=onerror")
            for view in VIEWS:
                show(page, view)
                unharmed(page)
            show(page, "timeline")
            for number in range(page.locator(".row").count()):
                page.locator(".row").nth(number).click()
                page.wait_for_selector(".pane h2")
                unharmed(page)
            assert "onerror" in page.text_content("main")
            show(page, "now")
            page.click("text=Deny")
            assert decision(caller.answered()) == "deny"
            unharmed(page)


def unharmed(page: Page) -> None:
    assert page.evaluate("window.pwned") is None
    foreign = "img:not([src='icon.svg']), script:not([src='app.js']), svg[onload], [onerror], [style]"
    assert page.locator(foreign).count() == 0


# -- other pages in the same browser

ATTACK = """
async ([base, id]) => {
  const body = JSON.stringify({ id, allow: true });
  const include = { credentials: "include" };
  const seen = [];
  const attempt = async (work) => { try { seen.push(await work()); } catch (error) { seen.push(error.name); } };
  const text = (options, path) => async () => (await fetch(base + path, { ...include, ...options })).text();
  await attempt(text({}, "/ui/api/now"));
  await attempt(text({ method: "POST", body, headers: { "content-type": "application/json" } }, "/ui/api/answer"));
  await attempt(text({ method: "POST", body, headers: { "content-type": "text/plain" } }, "/ui/api/answer"));
  await attempt(text({ method: "POST", body, mode: "no-cors" }, "/ui/api/answer"));
  await attempt(() => navigator.sendBeacon(base + "/ui/api/answer", new Blob([body], { type: "text/plain" })) && "");
  await attempt(() => new Promise((done) => {
    const script = Object.assign(document.createElement("script"), { src: base + "/ui/api/now" });
    script.onload = () => done("LOADED");
    script.onerror = () => done("");
    document.head.append(script);
  }));
  await attempt(() => new Promise((done) => {
    const source = new EventSource(base + "/ui/api/live", { withCredentials: true });
    source.onopen = () => done("LOADED");
    source.onerror = () => done("");
  }));
  const frame = Object.assign(document.createElement("iframe"), { src: base + "/ui/", name: "frame" });
  document.body.append(frame);
  const form = Object.assign(document.createElement("form"), { method: "POST", action: base + "/ui/api/answer",
    target: "frame", enctype: "text/plain" });
  form.append(Object.assign(document.createElement("input"), { name: body.slice(0, -1) + ',"x":"', value: '"}' }));
  document.body.append(form);
  form.submit();
  await new Promise((done) => { frame.onload = done; setTimeout(done, 2000); });
  return seen;
}
"""


def test_other_pages_can_not_answer_or_read(chromium: Any, home: Home) -> None:
    """Another port of this machine is the same site, so the browser sends the cookie. Every way is refused."""
    with opened(chromium, home) as page, attacker() as there:
        caller = Caller(home, "csrf")
        (one,) = waiting(home)
        base = page.url.partition("/ui/")[0]
        for origin in (there, there.replace("127.0.0.1", "localhost")):
            evil = page.context.new_page()
            evil.goto(origin)
            seen = evil.evaluate(ATTACK, [base, one.id])
            assert len(seen) == 7 and set(seen) <= {"", "TypeError"}, seen
            evil.close()
        assert waiting(home) == [one]
        page.click("text=Deny")
        assert decision(caller.answered()) == "deny"


def test_dns_rebinding(chromium: Any, home: Home) -> None:
    """A name of the attacker that leads to this machine gets nothing, not even the page's files."""
    rule = "--host-resolver-rules=MAP evil.example 127.0.0.1"
    browser = chromium.browser_type.launch(executable_path=CHROMIUM, args=[*FLAGS, rule])
    page = browser.new_page()
    guest = visitor(home)
    for path in ("/ui/", "/ui/api/now", "/ui/app.js", f"/ui/#code={guest.code}"):
        response = page.goto(f"http://evil.example:{guest.port}{path}")
        assert response.status == 403 and "another host" in response.text(), path
    browser.close()
    assert guest.login().status_code == 200  # the code was not used


@contextmanager
def attacker() -> Iterator[str]:
    """An empty page at another port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(b"<!doctype html><title>x</title><body>")

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (its name there)
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


# -- keyboard, sizes, accessibility


def test_keyboard(page: Page) -> None:
    """Everything works without a mouse."""
    page.keyboard.press("2")
    page.wait_for_selector("main.timeline .row")
    page.keyboard.press("j")
    page.keyboard.press("j")
    second = page.locator(".row").nth(1).get_attribute("data-id")
    assert page.evaluate("document.activeElement.dataset.id") == second
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    page.wait_for_selector(".pane h2")
    assert page.evaluate("document.activeElement.tagName") == "H2"
    page.keyboard.press("Escape")
    page.wait_for_selector(".pane", state="hidden")
    first = page.locator(".row").nth(0).get_attribute("data-id")
    assert page.evaluate("document.activeElement.dataset.id") == first
    page.keyboard.press("/")
    page.keyboard.type("deploy?j")
    assert page.input_value("input[type=search]") == "deploy?j"
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    page.wait_for_selector("dialog[open]")
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog[open]", state="detached")
    page.keyboard.press("5")
    page.wait_for_selector("main.health")


def test_keyboard_answers(page: Page, home: Home) -> None:
    """A question can be answered with the keyboard alone."""
    caller = Caller(home, "keyboard")
    page.wait_for_selector(".question")
    page.keyboard.press("j")
    for _ in range(10):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent") == "Allow once":
            break
    page.keyboard.press("Enter")
    assert decision(caller.answered()) == "allow"


@pytest.mark.parametrize("view", VIEWS)
def test_phone(chromium: Any, home: Home, view: str) -> None:
    """On a phone nothing is wider than the screen, and an open event fills it."""
    with opened(chromium, home, PHONE) as page:
        show(page, view)
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
        assert page.evaluate("document.querySelector('main').scrollWidth") <= PHONE["width"]
        if view == "timeline":
            page.click(".row >> nth=0")
            page.wait_for_selector(".pane h2")
            assert page.locator(".pane").bounding_box()["width"] > PHONE["width"] * 0.9


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_accessible(chromium: Any, home: Home, scheme: str, size: dict[str, int]) -> None:
    """axe-core finds nothing: in every view, with a question, with an open event, with the list of keys."""
    with opened(chromium, home, size, scheme) as page:
        caller = Caller(home, f"axe-{scheme}-{size['width']}")
        page.wait_for_selector(".question")
        for view in VIEWS:
            show(page, view)
            assert violations(page) == [], view
        show(page, "timeline")
        page.click(".row.deny >> nth=0")
        page.wait_for_selector(".pane h2")
        assert violations(page) == []
        page.click("#help")
        assert violations(page) == []
        page.keyboard.press("Escape")
        (one,) = waiting(home)
        base = page.url.partition("/ui/")[0]
        other = page.context.new_page()
        other.goto(channels.signed_link(home.root, base, one.id, one.until, LinkOwner("ntfy")))
        assert violations(other) == []
        show(page, "now")
        page.click("text=Deny")
        caller.answered()


def test_dark_and_light(chromium: Any, home: Home) -> None:
    """The page is like the system."""
    colours = []
    for scheme in ("light", "dark"):
        with opened(chromium, home, scheme=scheme) as page:
            colours.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert colours == ["rgb(247, 248, 248)", "rgb(19, 22, 26)"]


def test_many_tabs(chromium: Any, home: Home) -> None:
    """Tabs share one connection: an eighth tab is as live as the first, also after the first is closed."""
    with opened(chromium, home) as first:
        tabs = []
        for _ in range(7):
            tabs.append(first.context.new_page())
            tabs[-1].goto(first.url)
            tabs[-1].wait_for_selector(".state.live")
        home.ask(home.event(session_id="tabs", tool_input={"command": "echo seen-by-all"}))
        for tab in (first, *tabs):
            tab.wait_for_selector(".session >> text=echo seen-by-all")
        first.close()
        home.ask(home.event(session_id="tabs", tool_input={"command": "echo seen-by-the-others"}))
        for tab in tabs:
            tab.wait_for_selector(".session >> text=echo seen-by-the-others")


# -- 100,000 events


def test_long_log(chromium: Any, tmp_path: Path) -> None:
    """The first paint has what is visible and a little more; scrolling loads the rest; a filter finds old events."""
    with home_in(tmp_path) as home:
        write_log(home, 100_000)
        home.start()
        home.ask(home.event(tool_input={"command": "ls"}))
        with opened(chromium, home) as page:
            show(page, "timeline")
            page.wait_for_selector(".row")
            assert page.locator(".row").count() <= 200
            for _ in range(5):
                many = page.locator(".row").count()
                page.evaluate("document.querySelector('.column').scrollTo(0, 1e9)")
                page.wait_for_selector(f".row >> nth={many}", state="attached")
            page.fill("input[type=search]", "step-4321 ")
            page.fill("input[type=search]", "step-4321")
            page.wait_for_selector(".row >> text=make step-4321", timeout=60_000)


# -- pictures for the docs


def test_screenshots(chromium: Any, tmp_path: Path) -> None:
    """The pictures in docs/ui.md can be made; `scripts/browser --screenshots` replaces them."""
    folder = IMAGES if os.environ.get("BILLHOOK_SCREENSHOTS") else tmp_path / "images"
    folder.mkdir(exist_ok=True)
    base = Path("/tmp/shop-ui") if folder == IMAGES else tmp_path / "place"
    shutil.rmtree(base, ignore_errors=True)
    with home_in(base) as home:
        home.project = base / "shop"
        home.project.mkdir()
        home.own(HOOKS)
        home.start()
        traffic(home, 4)
        for name, size, scheme in (("", DESKTOP, "light"), ("-dark", DESKTOP, "dark"), ("-phone", PHONE, "light")):
            with opened(chromium, home, size, scheme) as page:
                caller = Caller(home, "feature/cart")
                page.wait_for_selector(".question")
                picture(page, folder / f"ui-now{name}.png")
                page.click("text=Allow once")
                caller.answered()
                for view in VIEWS[1:]:
                    show(page, view)
                    if view == "timeline":
                        page.click(".row.deny >> nth=0")
                        page.wait_for_selector(".pane h2")
                    if not name or view in ("timeline", "insights"):
                        picture(page, folder / f"ui-{view}{name}.png")
    shutil.rmtree(base, ignore_errors=True)
    assert len(list(folder.glob("ui-*.png"))) >= 9


def picture(page: Page, path: Path) -> None:
    page.wait_for_timeout(300)  # until the colour of new rows has faded
    page.screenshot(path=path)
