"""`/approve/ID` of the daemon: a small page for a signed link, without scripts and without a login.

The signature is all that counts, so it also works through a proxy of the user. GET shows the question; POST answers it.
"""

import html
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from billhook.agents.around import agent_at_port
from billhook.approvals import channels
from billhook.approvals.queue import AnsweredError, Questions
from billhook.core.errors import BillhookError, UsageError
from billhook.core.functions import in_thread
from billhook.serve.http.access import STRICT


def route(root: Path) -> Route:
    """The route of all links."""

    async def answered(request: Request) -> Response:
        fields, id_ = dict(request.query_params), request.path_params["id"]
        answer = fields.pop("answer", "")
        try:
            if request.method == "POST":
                owner = channels.check(root, id_, answer, fields)
                await refuse_agents(request)
                await in_thread(lambda: Questions(root).answer(id_, answer == "allow", owner.by, owner.via))
                return _sheet(200, "Allowed" if answer == "allow" else "Denied", "You can close this page.")
            channels.check(root, id_, "allow", fields)
            return _question(root, id_, fields)
        except AnsweredError as error:
            return _sheet(409, "Already answered", error.message)
        except BillhookError as error:
            return _sheet(403, "This link does not work", error.message)

    return Route(f"{channels.PATH}{{id}}", answered, methods=["GET", "POST"])


async def refuse_agents(request: Request) -> None:
    """Raises UsageError if an agent runs the program that sends an answer, as far as this machine shows that."""
    client, port = request.client, request.scope["server"][1]
    if client and (agent := await in_thread(lambda: agent_at_port(client.port, port))):
        message = f"only a person can answer, and this program was started by {agent}"
        raise UsageError(message, hint="answer in a browser that you have started yourself, or in a terminal")


def _question(root: Path, id_: str, fields: Mapping[str, str]) -> Response:
    """The question with two buttons. Raises AnsweredError."""
    one = Questions(root).find(id_)
    if one is None or one.state == "expired":
        return _sheet(404 if one is None else 410, "This question is over", "The agent can repeat the call.")
    if one.answer:
        raise AnsweredError(one)
    buttons = "".join(
        f'<button class="{word}" formaction="?{html.escape(urlencode({**fields, "answer": word}))}">'
        f"{word.title()}</button>"
        for word in channels.ANSWERS
    )
    late = "The call was denied meanwhile; if you allow it, the agent can repeat it." if one.state == "late" else ""
    about = "\n".join(filter(None, [f"{one.agent} in {one.project}", one.reason, late]))
    return _sheet(200, "Allow this call?", about, f'<pre tabindex="0">{html.escape(one.text)}</pre>', buttons)


def _sheet(status: int, title: str, text: str, content: str = "", buttons: str = "") -> Response:
    """`content` and `buttons` are HTML."""
    body = (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f'<title>{title} - billhook</title><link rel="stylesheet" href="app.css"><body class="sheet"><main>'
        f'<h1>{title}</h1>{content}<p>{html.escape(text)}</p><form method="post">{buttons}</form></main></body></html>'
    )
    return Response(body, status, headers={**STRICT, "content-type": "text/html; charset=utf-8"})
