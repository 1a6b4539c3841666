"""The CRD on the session's cluster, and what tests of SidecarSets have in common."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

from .support import CRD, Scenario

# A busy machine is slow at times, above all when Hypothesis first looks at all of Unicode; no test is about speed.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


@pytest.fixture
def scenario(cluster):
    cluster.apply(CRD)
    made = Scenario(cluster)
    yield made
    made.clean()


@pytest.fixture
def running(scenario, operator):
    """The operator, with just the permissions it declares."""
    return operator("sidecarset:operator")
