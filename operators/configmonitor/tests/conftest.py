"""The CRD on the session's cluster, and what tests of ConfigMonitors have in common."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings
from steersman.testing import UnsupportedError

from .support import CRD, Scenario

# A busy machine is slow at times, above all when Hypothesis first looks at all of Unicode; no test is about speed.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    """Operators in this process do not wait between looking and acting."""
    monkeypatch.setattr("configmonitor.controllers.configmonitor_controller.SETTLE_SECONDS", 0.001)


@pytest.fixture
def scenario(cluster):
    if cluster.get("crd", "configmonitors.magalix.com") is None:
        cluster.apply(CRD)
    return Scenario(cluster)


@pytest.fixture
def running(scenario, operator):
    """The operator, with just the permissions it declares."""
    return operator("configmonitor:operator")


@pytest.fixture
def faults(cluster):
    """The injected faults; not every cluster supports them."""
    try:
        return cluster.faults
    except UnsupportedError as reason:
        pytest.skip(str(reason))


def pytest_collection_modifyitems(config, items):
    """What takes minutes runs when it is asked for, what needs a control plane of its own where one must be."""
    asked = "chaos" in (config.getoption("-m") or "")
    real = asked or config.getoption("--cluster") != "embedded" or os.environ.get("STEERSMAN_REQUIRE_CONTROLPLANE")
    for item in items:
        if item.get_closest_marker("chaos") and not asked:
            item.add_marker(pytest.mark.skip(reason="takes minutes: pytest -m chaos"))
        elif item.get_closest_marker("realcluster") and not real:
            item.add_marker(pytest.mark.skip(reason="beside --cluster=real or STEERSMAN_REQUIRE_CONTROLPLANE=1"))
