"""Who asks to hear no warnings hears none."""

import pytest

from steersman_cluster.api.inprocess import InProcessTransport
from steersman_cluster.cluster import ADMIN

from .conftest import Door


@pytest.mark.parametrize(("quiet", "told"), [(False, 1), (True, 0)])
async def test_a_quiet_client_hears_of_nothing_that_is_deprecated(door: Door, quiet: bool, told: int):

    transport = InProcessTransport(door.cluster.server, ADMIN, quiet=quiet)
    answer = await transport.request("GET", "/api/v1/endpoints", headers=(), timeout=5.0)
    assert answer.status == 200
    assert len(answer.headers.get_all("Warning")) == told
