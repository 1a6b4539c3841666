"""The CRDs on the session's cluster."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# A busy machine can be slow, and no property test measures speed.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

PROJECT = Path(__file__).parent.parent
CRDS = PROJECT / "config" / "crd" / "bases"


@pytest.fixture
def api(cluster):
    """A cluster with the operator's kinds."""
    cluster.apply(CRDS)
    return cluster


def pytest_collection_modifyitems(config, items):
    """Skip tests that take minutes, except in `make soak`."""
    if "soak" in (config.getoption("-m") or ""):
        return
    for item in items:
        if item.get_closest_marker("soak"):
            item.add_marker(pytest.mark.skip(reason="takes minutes: make soak"))
