"""A cluster whose Pods have networks of their own, where this machine allows it."""

import asyncio
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from steersman.testing import EmbeddedCluster
from steersman.testing.node_faults import NodeFaults
from steersman_cluster.nodes.network.cluster_network import NetworkError
from steersman_cluster.nodes.network.detection import start_network

from .web import PROGRAM, Pods


@cache
def unavailable() -> str:
    """Return why this machine has no network namespaces for Pods; empty if it has."""

    async def attempt() -> None:
        await (await start_network()).close()

    try:
        asyncio.run(attempt())
    except NetworkError as problem:
        return problem.strerror or str(problem)
    return ""


@pytest.fixture(scope="package")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The images file; skips the test where Pods cannot have networks of their own."""
    if reason := unavailable():
        pytest.skip(reason)
    directory = tmp_path_factory.mktemp("images")
    (directory / "web.py").write_text(PROGRAM)
    path = directory / "images.yaml"
    path.write_text(f"images:\n  web: {{command: [{sys.executable}, {directory / 'web.py'}]}}\n")
    return path


@pytest.fixture(scope="package")
def cluster(images: Path) -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster.start(nodes=2, node_kind="process", images=images, network="namespaces") as made:
        yield made


@pytest.fixture
def pods(cluster: EmbeddedCluster, request: pytest.FixtureRequest) -> Iterator[Pods]:
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower())[:50].strip("-")
    cluster.create_namespace(name)
    with cluster.test(name):
        yield Pods(cluster, name)
    cluster.delete_namespace(name)


@pytest.fixture
def node_faults(pods: Pods) -> Iterator[NodeFaults]:
    made = NodeFaults(pods.cluster)
    yield made
    made.heal()
