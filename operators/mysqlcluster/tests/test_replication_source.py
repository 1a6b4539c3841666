"""A replica that has received and not executed a transaction gets a source: the transaction is not forgotten."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from mysqlcluster.actions import ConfirmComplete, SetSource
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
