"""Volumes, claims and storage classes on both servers."""

import pytest

from tests.cluster.kinds import cases

from .harness import Both
from .kinds import play, sequences


@pytest.mark.parametrize("requests", sequences([*cases.VOLUMES]))
async def test_volumes_behave_alike(both: Both, requests: list[cases.Case]):
    await play(both, requests)
