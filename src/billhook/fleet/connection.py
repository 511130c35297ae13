"""Connections to the server: log in with an nkey, and talk to JetStream."""

import base64
import json
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from billhook.core.errors import BillhookError, UsageError
from billhook.core.text import install_command
from billhook.fleet import members
from billhook.fleet.members import Enrolment, FleetCredentials, FleetSubjects, inbox_prefix

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg

_TIMEOUT: Final = 5
_RETRY: Final = 1  # seconds between two attempts to connect
WRONG_LAST: Final = "wrong last sequence"  # in the error of a message that does not follow the expected one
EXPECTED_LAST: Final = "Nats-Expected-Last-Subject-Sequence"


class FleetError(BillhookError):
    """The server can't be reached, or refuses something."""


class NoAnswerError(FleetError, TimeoutError):
    """The server did not answer in time."""


async def connect(
    member: FleetCredentials,
    url: str,
    *,
    ca: str = "",
    forever: bool = False,
    on_error: Callable[[Exception], Awaitable[None]] | None = None,
    **settings: Any,
) -> "Client":
    """A connection of a member. With `forever` it never gives up, and reconnects. Raises FleetError."""
    try:
        from nats.aio.client import Client
    except ImportError:
        raise UsageError("the fleet needs the extra `fleet`", hint=install_command("fleet")) from None
    client = Client()
    client._public_nkey = members.server_key(member.seed)  # `connect` takes a seed only with one more library
    refused: list[Exception] = []

    async def note(error: Exception) -> None:
        refused.append(error)
        if on_error is not None:
            await on_error(error)

    try:
        await client.connect(
            url.split(","),
            name=f"billhook {member.name}",
            signature_cb=lambda nonce: base64.b64encode(members.sign(member.seed, nonce.encode())),
            inbox_prefix=inbox_prefix(member.name),
            tls=tls(url, ca),
            error_cb=note,
            connect_timeout=_TIMEOUT,
            allow_reconnect=forever,
            max_reconnect_attempts=-1 if forever else 1,
            reconnect_time_wait=_RETRY,
            **settings,
        )
    except Exception as error:
        with suppress(Exception):
            await client.close()
        why = next((str(one) for one in [*refused, error] if str(one)), type(error).__name__)
        raise FleetError(f"can't connect to {url}: {why}", hint="check the address, and that the server runs") from None
    return client


def tls(url: str, ca: str) -> ssl.SSLContext | None:
    """The context for `tls://`; other addresses have none."""
    return ssl.create_default_context(cafile=ca or None) if url.startswith("tls://") else None


async def member_connection(member: Enrolment, **settings: Any) -> "Client":
    """The connection of an enrolled host."""
    return await connect(member, member.url, ca=member.ca, **settings)


async def api(client: "Client", subject: str, request: Any = None) -> dict[str, Any]:
    """One request to JetStream. Raises FleetError with its answer."""
    data = b"" if request is None else json.dumps(request).encode()
    return _answer(subject, await send_request(client, f"$JS.API.{subject}", data))


async def send_request(
    client: "Client", subject: str, data: bytes = b"", headers: dict[str, str] | None = None
) -> "Msg":
    """The reply to a request. Raises FleetError."""
    from nats.errors import Error as NatsError

    try:
        return await client.request(subject, data, timeout=_TIMEOUT, headers=headers)
    except (NatsError, TimeoutError) as error:
        hint = "its servers may be choosing a new leader; also check that `billhook fleet init --url` ran"
        raise NoAnswerError(f"the fleet does not answer: {str(error) or type(error).__name__}", hint=hint) from None


def _answer(subject: str, reply: "Msg") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(reply.data)
    if "error" in found:
        raise FleetError(f"{subject}: {found['error'].get('description', found['error'])}")
    return found


async def make_streams(client: "Client", subjects: FleetSubjects, replicas: int) -> None:
    """Create the streams of an organisation, or bring them up to date."""
    for name, settings in subjects.streams(replicas).items():
        try:
            await api(client, f"STREAM.CREATE.{name}", {"name": name, **settings})
        except FleetError:
            await api(client, f"STREAM.UPDATE.{name}", {"name": name, **settings})


async def last(client: "Client", stream: str, subject: str) -> bytes | None:
    """The content of the last message of a subject; None if there is none. Raises FleetError."""
    found = await last_message(client, stream, subject)
    return None if found is None else found.data


async def last_message(client: "Client", stream: str, subject: str, before: int = 0) -> "Msg | None":
    """The last message of a subject; with `before`, the last one before that number. Raises FleetError."""
    earlier = json.dumps({"multi_last": [subject], "up_to_seq": before - 1}).encode()
    get = f"$JS.API.DIRECT.GET.{stream}"
    reply = await (send_request(client, get, earlier) if before else send_request(client, f"{get}.{subject}"))
    status = (reply.headers or {}).get("Status", "")
    if status == "404":
        return None
    if status:
        raise FleetError(f"can't read {subject}: {status} {(reply.headers or {}).get('Description', '')}")
    return reply


async def last_of_all(client: "Client", stream: str, subjects: str) -> list[bytes]:
    """The last message of every subject that matches. Raises FleetError."""
    info = await api(client, f"STREAM.INFO.{stream}", {"subjects_filter": subjects})
    found = [await last(client, stream, subject) for subject in sorted(info["state"].get("subjects") or {})]
    return [data for data in found if data is not None]


async def publish(client: "Client", subject: str, data: bytes, headers: dict[str, str] | None = None) -> dict[str, Any]:
    """Publish to a stream, and wait until it is stored. Raises FleetError."""
    return _answer(subject, await send_request(client, subject, data, headers))
