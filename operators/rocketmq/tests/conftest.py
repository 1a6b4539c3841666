"""The CRDs on the session's cluster."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# A busy machine is slow at times; no property test is about speed.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

CRDS = Path(__file__).parent.parent / "config" / "crd" / "bases"


@pytest.fixture
def api(cluster):
    """A cluster with the operator's kinds."""
    cluster.apply(CRDS)
    return cluster
