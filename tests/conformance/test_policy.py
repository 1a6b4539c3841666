"""Disruption budgets, autoscalers, limits and quotas on both servers."""

import pytest

from tests.cluster.kinds import cases

from .harness import Both
from .kinds import play, sequences


@pytest.mark.parametrize("requests", sequences([*cases.POLICIES]))
async def test_policies_behave_alike(both: Both, requests: list[cases.Case]):
    await play(both, requests)
