"""One NATS server for all tests of the fleet; each test has an organisation's hosts of its own."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from billhook.fleet import server
from billhook.fleet.connection import FleetError, connect, publish
from billhook.fleet.members import Enrolment, enrol, read_credentials
from billhook.fleet.policy import PolicyDocument, signed
from billhook.fleet.server import DevCluster, FleetFolder

RULES = "hooks:\n  no-push:\n    events: PreToolUse\n    if: Bash(git push *)\n    deny: pull requests only\n"


class Fleet:
    """A running cluster, and what a test does with it."""

    def __init__(self, cluster: DevCluster) -> None:
        self.cluster = cluster
        self.folder = cluster.folder
        self._hosts = 0
        self._sequence = 0

    @property
    def record(self) -> FleetFolder:
        return self.cluster.fleet

    def host(self, root: Path, **settings: Any) -> Enrolment:
        """A new host, enrolled in a state root."""
        self._hosts += 1
        name = f"h{self._hosts}"
        tags = settings.pop("tags", ())
        self.cluster.write(server.add_member(self.folder, self.record, name, tags=tags))
        given = read_credentials(self.folder / f"{name}.creds")
        fields = {each: getattr(given, each) for each in given.__struct_fields__}
        member = Enrolment(**fields, url=self.cluster.url, **settings)
        enrol(root, member)
        self.wait_for(name)
        return member

    def wait_for(self, name: str) -> None:
        """Until the servers know a new member: they read their configuration again, and end connections meanwhile."""
        from nats.errors import Error

        known = 0
        for _ in range(200):
            try:
                self.run(lambda client: client.flush(2), name)
                known += 1
            except (FleetError, Error):
                known = 0
            if known == 2:
                return
            time.sleep(0.02)
        raise AssertionError(f"the server does not know {name}")

    def run(self, work: Callable[[Any], Awaitable[Any]], name: str = "admin") -> Any:
        """Do some work over a connection of a member."""

        async def connected() -> Any:
            client = await connect(read_credentials(self.folder / f"{name}.creds"), self.cluster.url)
            try:
                return await work(client)
            finally:
                await client.close()

        return asyncio.run(connected())

    def document(self, rules: str = RULES, **fields: Any) -> PolicyDocument:
        """The next policy."""
        self._sequence = fields.pop("sequence", self._sequence + 1)
        return PolicyDocument(self.record.org, self._sequence, rules, **fields)

    def publish(self, rules: str = RULES, **fields: Any) -> PolicyDocument:
        """Sign and publish the next policy."""
        document = self.document(rules, **fields)
        data = signed(document, server.signing_seed(self.folder))
        self.run(lambda client: publish(client, self.record.subjects.policy, data))
        return document


@pytest.fixture(scope="session")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A fleet with one server."""
    cluster = DevCluster(tmp_path_factory.mktemp("fleet"), org="acme", nodes=1)
    try:
        cluster.start()
        yield Fleet(cluster)
    finally:
        cluster.stop()
