"""The CRD on the session's cluster, and what tests of SidecarSets have in common."""

from __future__ import annotations

import pytest

from .world import CRD, World


@pytest.fixture
def world(cluster):
    cluster.apply(CRD)
    made = World(cluster)
    yield made
    made.clean()


@pytest.fixture
def running(world, operator):
    """The operator, with just the permissions it declares."""
    return operator("sidecarset:operator")
