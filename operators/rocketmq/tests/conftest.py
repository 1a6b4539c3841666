"""The CRDs on the session's cluster."""

from pathlib import Path

import pytest

CRDS = Path(__file__).parent.parent / "config" / "crd" / "bases"


@pytest.fixture
def api(cluster):
    """A cluster with the operator's kinds."""
    cluster.apply(CRDS)
    return cluster
