"""A replica with transactions that it has not executed, or has received in part, gets another source."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

import pytest

from mysqlcluster.actions import ConfirmComplete, Fence, Promote, SetSource
from mysqlcluster.agent.client import ActionRefusedError
from mysqlcluster.agent.session import connect
from tests.members import SECRETS, Members, application, bootstrap, members_of, run, until

pytestmark = pytest.mark.slow


@pytest.fixture(params=["mariadb-10.11", "mysql-9.7"])
def three(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Members]:
    with members_of(tmp_path, 3, server=request.param) as members:
        yield members


def source(members: Members, name: str, epoch: int, *, acknowledge: bool = True) -> SetSource:
    port = members.server_ports[name]
    return SetSource(member="m-1", epoch=epoch, source=name, host="127.0.0.1", port=port, acknowledge=acknowledge)


async def test_a_relay_log_stays_in_a_new_epoch_and_a_member_without_it_is_incomplete(three: Members):
    async with three.client() as client:
        await bootstrap(client, three)
        async with application(three, "m-0") as writer:
            await run(writer, "CREATE TABLE items (id BIGINT PRIMARY KEY)")
            primary = await client.state("m-0")
            for member in ("m-1", "m-2"):
                await until(client, member, lambda state: state.executed.contains(primary.executed))
            socket = three.directory / "m-1" / "run/server.sock"
            async with connect(socket, SECRETS["root-password"]) as blocking:
                await blocking.run("LOCK TABLES app.items READ")  # the SQL thread waits
                await run(writer, "INSERT INTO items VALUES (1)")
                wanted = (await client.state("m-0")).executed
                before = await until(client, "m-1", lambda state: state.received.contains(wanted))
                assert not before.executed.contains(wanted)

                kept = await client.act(source(three, "m-0", 2))
                assert kept.complete
                assert kept.received.contains(wanted)
                kept = await until(client, "m-1", lambda state: state.follows("m-0", 2) and state.semi_sync_replica)
                assert kept.received.contains(wanted)
                await client.act(source(three, "m-0", 2, acknowledge=False))
                silent = await until(client, "m-1", lambda state: state.io_running and not state.semi_sync_replica)
                assert (silent.complete, silent.received.contains(wanted)) == (True, True)

                with contextlib.suppress(ActionRefusedError):  # MariaDB's SQL thread stops only after it has the lock
                    await client.act(source(three, "m-2", 3))
                assert not (await client.state("m-1")).complete
        await client.act(source(three, "m-2", 3))
        await until(client, "m-1", lambda state: state.follows("m-2", 3) and state.executed.contains(wanted))
        done = await client.act(ConfirmComplete(member="m-1", epoch=3, received=str(wanted)))
        assert done.complete
        again = await client.act(source(three, "m-0", 4))
        assert again.complete  # everything was executed before the source changed


ROWS, ROW_BYTES = 16, 1 << 17
FORWARDED_BYTES = 1 << 20


class Forwarder:
    """A TCP port that forwards to a server, until a limit of bytes from the server is reached; connections stay open."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.limit: int | None = None
        self.cut = asyncio.Event()

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self._port)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._copy(reader, server_writer, limited=False))
                group.create_task(self._copy(server_reader, writer, limited=True))

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, limited: bool) -> None:
        try:
            while data := await reader.read(1 << 12):
                if limited and self.limit is not None:
                    self.limit -= len(data)
                    if self.limit < 0:
                        self.cut.set()
                        await asyncio.Event().wait()
                writer.write(data)
                await writer.drain()
        finally:
            writer.close()


@contextlib.asynccontextmanager
async def forwarder(port: int) -> AsyncGenerator[tuple[Forwarder, int]]:
    """Forward a port of loopback; the source of a replica disappears without closing the connection."""
    found = Forwarder(port)
    tasks: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.ensure_future(found.connected(reader, writer)))

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    try:
        yield found, server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.parametrize("next_action", ["SetSource", "Promote"])
async def test_a_replica_that_lost_its_source_inside_a_transaction_leaves_it_at_once(three: Members, next_action: str):
    async with three.client() as client, forwarder(three.server_ports["m-0"]) as (source_port, port):
        await bootstrap(client, three)
        async with application(three, "m-0") as writer:
            await run(writer, "CREATE TABLE items (id BIGINT PRIMARY KEY, content LONGBLOB)")
            await client.act(SetSource(member="m-1", epoch=1, source="m-0", host="localhost", port=port))
            await until(client, "m-1", lambda state: state.follows("m-0", 1) and state.semi_sync_replica)
            source_port.limit = FORWARDED_BYTES
            rows = ", ".join(f"({row}, REPEAT('x', {ROW_BYTES}))" for row in range(ROWS))
            await run(writer, f"INSERT INTO items VALUES {rows}")
            await source_port.cut.wait()
            primary = await client.state("m-0")
        fenced = await client.act(Fence(member="m-1", epoch=2))
        assert fenced.sql_running
        assert not fenced.received.contains(primary.executed)
        if next_action == "Promote":
            done = await client.act(Promote(member="m-1", epoch=2, ack_count=0))
            assert not done.read_only
        else:
            await client.act(source(three, "m-2", 2))
            done = await until(client, "m-1", lambda state: state.executed.contains(primary.executed))
        assert done.complete
