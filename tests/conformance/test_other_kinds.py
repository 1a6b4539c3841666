"""Webhooks, networking, nodes and the rarer kinds on both servers."""

import pytest
from tests.devcluster.kinds import cases

from .harness import Both
from .kinds import play, sequences


@pytest.mark.parametrize("requests", sequences([*cases.HOOK_CASES, *cases.NETWORK, *cases.REST]))
async def test_rarer_kinds_behave_alike(both: Both, requests: list[cases.Case]):
    await play(both, requests)
