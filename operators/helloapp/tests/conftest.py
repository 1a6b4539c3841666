"""The cluster that these tests run on: embedded unless `--cluster=real` or `--cluster=kubeconfig` asks for another."""

from collections.abc import Iterator

import pytest

from steersman.testing.controlplane_cluster import Cluster


@pytest.fixture(scope="session")
def control_plane(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    asked = any(word.startswith("--cluster") for word in request.config.invocation_params.args)
    kind, _, path = str(request.config.getoption("--cluster")).partition("=")
    if kind == "kubeconfig":
        from steersman.testing.controlplane import ControlPlane

        with ControlPlane.existing(path or None) as cluster:
            yield cluster
    elif kind == "real" and asked:
        from steersman.testing.controlplane import ControlPlane

        with ControlPlane.start() as plane:
            plane.add_node("node-1")
            yield plane
    else:
        from steersman.testing.embedded import EmbeddedCluster

        with EmbeddedCluster.start() as embedded:
            yield embedded
