"""The node of the session, and the measured values of the run."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from steersman.testing.cluster import Cluster
from steersman.testing.real_node import RealNode
from tests.node.measurements import Measurements

_WITH_OPERATORS: Final = ("test_mysqlcluster.py", "test_rocketmq.py")
"""Modules that import an operator, which registers its metrics and extends the path of imports."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import modules with operators only for a real node, so that they change no other test."""
    return True if collection_path.name in _WITH_OPERATORS and config.getoption("--cluster") != "node" else None


@pytest.fixture(scope="session")
def measurements() -> Iterator[Measurements]:
    """The measured values; the page is written at the end of the run."""
    values = Measurements()
    yield values
    values.write()


@pytest.fixture(scope="session")
def node(request: pytest.FixtureRequest, measurements: Measurements) -> RealNode:
    """The session's cluster, which is a real node."""
    began = time.monotonic()
    cluster: Cluster = request.getfixturevalue("control_plane")
    assert isinstance(cluster, RealNode)
    measurements.seconds("start of the cluster until the node and DNS are ready", time.monotonic() - began, 15)
    return cluster
