"""The pytest plugin: a control plane for the session, a namespace for each test.

Loaded by every pytest run on the machine that has Steersman installed, so it imports nothing until a fixture
is used. Tests marked `realcluster`, or using `control_plane`, skip with the reason where there is none; with
`STEERSMAN_REQUIRE_CONTROLPLANE=1` they fail instead, so that CI cannot pass by skipping.

    @pytest.mark.realcluster("kube-controller-manager")  # envtest has none
    def test_it(control_plane, namespace):
        control_plane.kubectl("apply", "-n", namespace, "-f", "samples/")
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from steersman.testing.controlplane import Cluster

_REQUIRE = "STEERSMAN_REQUIRE_CONTROLPLANE"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--cluster`."""
    parser.getgroup("steersman").addoption(
        "--cluster",
        default="real",
        metavar="real|kubeconfig[=PATH]",
        help="What `control_plane` is: `real` starts a control plane of our own (the default); `kubeconfig` uses "
        "the cluster of $KUBECONFIG or ~/.kube/config, `kubeconfig=PATH` that of PATH. Use a cluster that may be "
        "written to.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker and check the option, so that a typing error is told at once."""
    config.addinivalue_line(
        "markers",
        "realcluster(*components): needs a real kube-apiserver, and the components named (kube-controller-manager, "
        "kube-scheduler), which envtest lacks; skipped with a reason where there are none",
    )
    choice = str(config.getoption("--cluster"))
    if choice != "real" and choice.partition("=")[0] != "kubeconfig":
        raise pytest.UsageError(f"--cluster={choice}: expected `real`, `kubeconfig` or `kubeconfig=PATH`")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip or fail marked tests that have no cluster to run on."""
    marker = item.get_closest_marker("realcluster")
    if marker is not None and item.config.getoption("--cluster") == "real":
        _demand_binaries(*marker.args)


@pytest.fixture(scope="session")
def control_plane(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A real control plane with one node, or the existing cluster that `--cluster` names.

    Shared by the whole session: use a namespace of your own, and make your own `ControlPlane` to break things.
    """
    kind, _, path = str(request.config.getoption("--cluster")).partition("=")
    if kind == "real":
        _demand_binaries()
    from steersman.testing.controlplane import ControlPlane

    if kind == "kubeconfig":
        with ControlPlane.existing(path or None) as cluster:
            yield cluster
        return
    with ControlPlane.start() as plane:
        plane.add_node("node-1")
        yield plane


@pytest.fixture
def namespace(control_plane: Cluster) -> Iterator[str]:
    """A fresh namespace, deleted after the test (the deletion is not waited for)."""
    name = f"test-{os.urandom(5).hex()}"
    control_plane.create_namespace(name)
    yield name
    control_plane.delete_namespace(name)


def _demand_binaries(*components: str) -> None:
    from steersman.testing.controlplane_binaries import available

    if (reason := available(*components)) is None:
        return
    if os.environ.get(_REQUIRE, "") not in ("", "0"):
        pytest.fail(f"{_REQUIRE} is set, and: {reason}", pytrace=False)
    pytest.skip(reason)
