"""An in-process client can drop the warnings of the server."""

import pytest

from steersman_cluster.api.inprocess import InProcessTransport
from steersman_cluster.cluster import ADMIN

from .conftest import Listener


@pytest.mark.parametrize(("drop_warnings", "count"), [(False, 1), (True, 0)])
async def test_a_client_that_drops_warnings_gets_none(listener: Listener, drop_warnings: bool, count: int) -> None:
    transport = InProcessTransport(listener.cluster.server, ADMIN, drop_warnings=drop_warnings)
    answer = await transport.request("GET", "/api/v1/endpoints", headers=(), timeout=5.0)
    assert answer.status == 200
    assert len(answer.headers.get_all("Warning")) == count
