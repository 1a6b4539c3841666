"""Services and their endpoints on both servers."""

import pytest
from tests.devcluster.kinds import cases

from .harness import Both
from .kinds import play, sequences


@pytest.mark.parametrize("requests", sequences([*cases.SERVICES]))
async def test_services_behave_alike(both: Both, requests: list[cases.Case]):
    await play(both, requests)
