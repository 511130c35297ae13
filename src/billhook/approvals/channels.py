"""Report a question to people: on the desktop, to an HTTP endpoint, by ntfy, by Slack; and the links in these messages.

Each message is sent in a thread of its own, once, and nothing waits for it: a channel that hangs or fails never delays
an answer that comes from somewhere else. No problem shows an address, because it may contain a secret.
"""

import hmac
import http.client
import os
import re
import shutil
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

import msgspec
from msgspec.structs import replace

from billhook.approvals import ApprovalSettings, Channel
from billhook.approvals.queue import WINDOW, QueuedQuestion
from billhook.core import client_env, strictjson
from billhook.core.errors import BillhookError, UsageError
from billhook.core.text import visible
from billhook.runners.webhook import address_problem
from billhook.store.redaction import kept_key

ANSWERS: Final = ("allow", "deny")
PATH: Final = "/approve/"
_KEY: Final = "approvals.key"


class LinkError(UsageError):
    """A link that is not valid: a wrong signature, or one that has expired."""


class LinkOwner(NamedTuple):
    """Who got a link: the channel, and the person that the configuration names for it."""

    via: str
    by: str = ""


def sign(key: bytes, id: str, answer: str, until: int, owner: LinkOwner) -> str:  # noqa: A002 (its name in the record)
    """The signature of one answer to one question."""
    signed = "\n".join((id, answer, str(until), quote(owner.via), quote(owner.by)))
    return hmac.new(key, signed.encode(), "sha256").hexdigest()


def signed_link(root: Path, base: str, id: str, until: float, owner: LinkOwner) -> str:  # noqa: A002
    """The link of a question for one channel, valid until a time. Raises StoreError."""
    key, end = signing_key(root), int(until)
    fields = {"until": end, **owner._asdict(), **{one: sign(key, id, one, end, owner) for one in ANSWERS}}
    return f"{base.rstrip('/')}{PATH}{quote(id)}?{urlencode(fields)}"


def check(root: Path, id: str, answer: str, fields: Mapping[str, str]) -> LinkOwner:  # noqa: A002
    """Check the link of an answer; returns whose it is. `fields` is the query of the link. Raises LinkError."""
    until, owner = fields.get("until", ""), LinkOwner(fields.get("via", ""), fields.get("by", ""))
    if answer not in ANSWERS or not (until.isascii() and until.isdigit() and len(until) < 16):
        raise LinkError("this link is not complete")
    right = sign(signing_key(root), id, answer, int(until), owner)
    if not hmac.compare_digest(right.encode(), fields.get(answer, "").encode("utf-8", "replace")):
        raise LinkError("the signature of this link is wrong")
    if time.time() > int(until):
        raise LinkError("this link has expired")
    return owner


def signing_key(root: Path) -> bytes:
    """The user's key for links, created if it is missing. Raises StoreError."""
    return kept_key(Path(root), _KEY)


# Messages:

_TIMEOUT: Final = 10.0
_LONGEST: Final = 1500  # characters of a call in a message; the whole call is in `billhook approvals` and on the page
_LONGEST_NOTICE: Final = 200  # the same on the desktop
_VARIABLE: Final = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_LARGEST: Final = 1 << 20
_PRIVATE: Final = ("key", "used", "answer", "by", "via", "answered", "why")


class _UnsentError(Exception):
    """Why a message could not be sent."""


class ChannelMessage(msgspec.Struct, frozen=True):
    """What one channel sends about a question."""

    question: QueuedQuestion
    channel: Channel
    link: str
    environ: Mapping[str, str]
    project_files: Sequence[str]  # files of a project that may set variables of the agent

    @property
    def title(self) -> str:
        folder = os.path.basename(self.question.project)
        return f"{self.question.agent} asks in {visible(folder).replace(chr(10), ' ')}"

    def text(self, longest: int = _LONGEST) -> str:
        """The question for people. A long call is cut, and that is visible."""
        call = visible(self.question.text)
        if len(call) > longest:
            call = f"{call[:longest]} ... ({len(call) - longest} more characters)"
        how = "" if self.link else f"billhook approvals allow {self.question.code}"
        return "\n".join(filter(None, (call, visible(self.question.reason), how)))

    def filled(self, text: str) -> str:
        """The text with its variables. Raises _UnsentError."""

        def variable(found: re.Match[str]) -> str:
            name = found[1] or found[2]
            if not self.environ.get(name):
                raise _UnsentError(f"the variable `{name}` is not set")
            if file := self._set_by_project(name):
                raise _UnsentError(f"`{name}` is not used: {file} of the project sets it, and would get the question")
            return self.environ[name]

        return _VARIABLE.sub(variable, text)

    def _set_by_project(self, name: str) -> str:
        """The file of the project from which the agent may have a variable."""
        setting = re.compile(rb"(?<!\w)%s[\"']?\s*[=:]" % re.escape(name.encode()))
        for folder in {self.question.project, self.environ.get("CLAUDE_PROJECT_DIR") or self.question.project}:
            for file in self.project_files:
                with suppress(OSError), open(os.path.join(folder, file), "rb") as stream:
                    if setting.search(stream.read(_LARGEST)):
                        return file
        return ""

    def post(self, body: bytes, headers: Mapping[str, str | bytes]) -> None:
        """Send one request to the channel's address. Raises _UnsentError."""
        url = self.filled(self.channel.to)
        if problem := address_problem(url):
            raise _UnsentError(f"the address can't be used: {problem}")
        parts = urlsplit(url)
        host, port, path = (
            parts.hostname or "",
            parts.port,
            f"{parts.path or '/'}{'?' * bool(parts.query)}{parts.query}",
        )
        connection = http.client.HTTPConnection(host, port, timeout=_TIMEOUT)
        if parts.scheme == "https":
            context = ssl.create_default_context()
            connection = http.client.HTTPSConnection(host, port, timeout=_TIMEOUT, context=context)
        try:
            connection.request("POST", path or "/", body, {"User-Agent": "billhook", **headers})
            status = connection.getresponse().status
        except (OSError, http.client.HTTPException) as error:
            raise _UnsentError(f"no answer from the server: {type(error).__name__}") from None
        finally:
            connection.close()
        if not 200 <= status < 300:
            raise _UnsentError(f"HTTP status {status}")


def _desktop(message: ChannelMessage) -> None:
    """The programs of the recipe notify-desktop; nothing where there is neither."""
    path, title, text = message.environ.get("PATH"), message.title, message.text(_LONGEST_NOTICE)
    if program := shutil.which("notify-send", path=path):
        words = [program, "--", title, text]
    elif program := shutil.which("osascript", path=path):
        script = ("on run a", "display notification (item 2 of a) with title (item 1 of a)", "end run")
        words = [program, *(word for line in script for word in ("-e", line)), title, text]
    else:
        return
    environ, quiet = dict(message.environ), subprocess.DEVNULL
    done = subprocess.run(words, env=environ, stdin=quiet, stdout=quiet, stderr=quiet, timeout=_TIMEOUT, check=False)
    if done.returncode:
        raise _UnsentError(f"{os.path.basename(program)} ended with {done.returncode}")


def _webhook(message: ChannelMessage) -> None:
    """JSON, signed with the channel's secret: HMAC-SHA256 of `{timestamp}.{body}`."""
    question = msgspec.to_builtins(message.question)
    shown = {name: value for name, value in question.items() if name not in _PRIVATE}
    answers = {one: f"{message.link}&answer={one}" for one in ANSWERS} if message.link else None
    body = strictjson.encode({"question": shown, "link": message.link or None, "answers": answers})
    stamp = str(int(time.time()))
    key = message.filled(message.channel.secret).encode()
    signature = hmac.new(key, stamp.encode() + b"." + body, "sha256").hexdigest()
    signed = {"X-Billhook-Timestamp": stamp, "X-Billhook-Signature": f"sha256={signature}"}
    message.post(body, {"Content-Type": "application/json", **signed})


def _ntfy(message: ChannelMessage) -> None:
    headers: dict[str, str | bytes] = {"Title": message.title.encode(), "Tags": "question"}
    if message.link:
        buttons = (f"http, {one.title()}, {message.link}&answer={one}, clear=true" for one in ANSWERS)
        headers |= {"Click": message.link, "Actions": "; ".join(buttons)}
    message.post(message.text().encode(), headers)


def _slack(message: ChannelMessage) -> None:
    text = f"{message.title}\n{message.text()}".replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    link = f"\n<{message.link}|Answer>" if message.link else ""
    body: dict[str, Any] = {"text": f"{text}{link}", "unfurl_links": False, "link_names": False}
    message.post(strictjson.encode(body), {"Content-Type": "application/json"})


_SENDERS: Final[Mapping[str, Callable[[ChannelMessage], None]]] = {
    "desktop": _desktop,
    "webhook": _webhook,
    "ntfy": _ntfy,
    "slack": _slack,
}


def send(
    settings: ApprovalSettings, question: QueuedQuestion, root: Path, project_files: Sequence[str] = ()
) -> Sequence[str]:
    """Send a question to all channels. Returns a list that gets a sentence for each channel that fails. A variable that
    one of the `project_files` may have set is not used."""
    problems: list[str] = []
    environ = dict(client_env.environ())
    for channel in settings.channels:
        message = ChannelMessage(question, channel, "", environ, project_files)
        work = (message, settings.link, root, problems)
        threading.Thread(target=_send, args=work, name=f"billhook-{channel.kind}", daemon=True).start()
    return problems


def _send(message: ChannelMessage, base: str, root: Path, problems: list[str]) -> None:
    channel, question = message.channel, message.question
    try:
        owner = LinkOwner(channel.kind, channel.who)
        link = signed_link(root, base, question.id, question.until + WINDOW, owner) if base else ""
        _SENDERS[channel.kind](replace(message, link=link))
    except _UnsentError as error:
        problems.append(f"{channel.kind}: {error}")
    except BillhookError as error:
        problems.append(f"{channel.kind}: {error.message}")
    except Exception as error:
        problems.append(f"{channel.kind}: {type(error).__name__}")
