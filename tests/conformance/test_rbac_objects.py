"""Roles and bindings as objects on both servers."""

import pytest

from tests.cluster.kinds import cases

from .harness import Both
from .kinds import play, sequences


@pytest.mark.parametrize("requests", sequences([*cases.RBAC_CASES]))
async def test_roles_and_bindings_behave_alike(both: Both, requests: list[cases.Case]):
    await play(both, requests)
