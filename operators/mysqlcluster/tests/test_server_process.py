"""The server process of a member."""

from pathlib import Path

import pytest

from mysqlcluster.agent.process import CommandError, ServerProcess
from mysqlcluster.engines import Layout, ServerOptions, engine_of


async def test_a_data_directory_with_too_long_a_path_for_the_socket_is_refused(tmp_path: Path) -> None:
    data = tmp_path / ("d" * 90)
    server = ServerProcess(engine_of("mariadb"), Layout(tmp_path, data), ServerOptions(server_id=1, name="db-0"))
    with pytest.raises(CommandError, match="choose a shorter data directory"):
        await server.start()
    assert not data.exists()
