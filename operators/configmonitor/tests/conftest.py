"""The CRD on the session's cluster, and what tests of ConfigMonitors have in common."""

from __future__ import annotations

import pytest

from steersman.testing.controlplane_cluster import UnsupportedError

from .world import CRD, World


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    """Operators in this process do not wait between looking and acting."""
    monkeypatch.setattr("configmonitor.controller.SETTLE", 0.001)


@pytest.fixture
def world(cluster):
    cluster.apply(CRD)
    return World(cluster)


@pytest.fixture
def running(world, operator):
    """The operator, with just the permissions it declares."""
    return operator("configmonitor:operator")


@pytest.fixture
def faults(cluster):
    """What goes wrong here; not every cluster can be told to."""
    try:
        return cluster.faults
    except UnsupportedError as reason:
        pytest.skip(str(reason))


def pytest_collection_modifyitems(config, items):
    """What takes minutes runs when it is asked for."""
    if "chaos" not in (config.getoption("-m") or ""):
        for item in items:
            if item.get_closest_marker("chaos"):
                item.add_marker(pytest.mark.skip(reason="takes minutes: pytest -m chaos"))
