"""The pytest plugin: a cluster for the session, a namespace for each test, operators with their own users.

Every pytest run loads it if Steersman is installed, so it imports nothing until a fixture is used. The default cluster
is the embedded one; `--cluster` selects another. Tests marked `realcluster` run on a real kube-apiserver with
`--cluster=real` or `STEERSMAN_REQUIRE_CONTROLPLANE=1`; with the latter, a missing one fails the tests instead of
skipping them. With `realcluster = "available"` in the pytest configuration they run on any available one. Tests marked
`node` need a kubelet with containers, and run with `--cluster=node` (Linux, as root).

    def test_it(cluster, operator):
        cluster.apply("config/crd", "samples/app.yaml")
        operator("myapp.operator:operator")
        cluster.wait("deployment", "app", "Available")
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from steersman.testing.controlplane.control_plane import Cluster
    from steersman.testing.faults import Faults
    from steersman.testing.running import Operators

_REQUIRE = "STEERSMAN_REQUIRE_CONTROLPLANE"
_INI = "realcluster"
_CHOICES = "`embedded`, `real`, `node`, `kubeconfig` or `kubeconfig=PATH`"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option `--cluster`, and `realcluster` of the configuration file."""
    parser.addini(
        _INI,
        default="asked",
        help="When tests marked `realcluster` run: `asked`, with --cluster=real, --cluster=kubeconfig or "
        f"{_REQUIRE}=1 (the default), or `available`, wherever there is a kube-apiserver to run.",
    )
    parser.getgroup("steersman").addoption(
        "--cluster",
        default="embedded",
        metavar="embedded|real|node|kubeconfig[=PATH]",
        help="What `cluster` is: `embedded` runs one in this process (the default); `real` starts a kube-apiserver of "
        "our own; `node` starts one with a kubelet and containers (Linux, as root); `kubeconfig` uses the "
        "cluster of $KUBECONFIG or ~/.kube/config, `kubeconfig=PATH` that of PATH. Use a cluster that may be written "
        "to.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers and check the option, so that a wrong value fails at once."""
    config.addinivalue_line(
        "markers",
        "realcluster(*components): needs a real kube-apiserver, and the components named (kube-controller-manager, "
        "kube-scheduler), which envtest lacks; skipped with a reason where there are none, and without --cluster=real",
    )
    config.addinivalue_line(
        "markers",
        "cluster(fresh=True, nodes=1, ready_after=0.0, …): a whole embedded cluster, or control plane with "
        "--cluster=real, for this test alone; the words are those of its `start`",
    )
    config.addinivalue_line(
        "markers",
        "node: needs a kubelet with containers; skipped without --cluster=node",
    )
    choice = str(config.getoption("--cluster"))
    if choice not in ("embedded", "real", "node") and choice.partition("=")[0] != "kubeconfig":
        raise pytest.UsageError(f"--cluster={choice}: expected {_CHOICES}")
    if (when := str(config.getini(_INI))) not in ("asked", "available"):
        raise pytest.UsageError(f"{_INI} = {when}: expected `asked` or `available`")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give tests marked `realcluster` the real control plane, independent of the cluster of other tests."""
    marked = any(mark.name == "realcluster" for mark in metafunc.definition.iter_markers())
    if marked and "control_plane" in metafunc.fixturenames and metafunc.config.getoption("--cluster") == "embedded":
        metafunc.parametrize("control_plane", ["real"], indirect=True, ids=[pytest.HIDDEN_PARAM], scope="session")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip or fail marked tests if there is no cluster for them."""
    if item.get_closest_marker("node") is not None and item.config.getoption("--cluster") != "node":
        pytest.skip("needs a real node: run pytest --cluster=node, on Linux as root")
    marker = item.get_closest_marker("realcluster")
    if marker is None:
        return
    cluster = str(item.config.getoption("--cluster"))
    if cluster == "embedded" and not _required() and item.config.getini(_INI) == "asked":
        pytest.skip(f"needs a real kube-apiserver: run pytest --cluster=real, or set {_REQUIRE}=1")
    if not cluster.startswith("kubeconfig"):
        _demand_binaries(*marker.args)


@pytest.fixture(scope="session")
def _clusters() -> Iterator[_Shared]:
    """The clusters of the session by kind; each starts at its first use."""
    with ExitStack() as stack:
        yield _Shared(stack)


@pytest.fixture(scope="session")
def control_plane(request: pytest.FixtureRequest, _clusters: _Shared) -> Cluster:
    """The session's cluster with one node: embedded, or as `--cluster` selects; the real one in `realcluster` tests.

    All tests share it: use a separate namespace, and a separate cluster for disruptive tests.
    """
    return _clusters.get(str(getattr(request, "param", None) or request.config.getoption("--cluster")))


@pytest.fixture
def namespace(control_plane: Cluster) -> Iterator[str]:
    """A new namespace, deleted after the test without waiting for the end of the deletion."""
    with _namespace_of(control_plane) as name:
        yield name


@pytest.fixture
def cluster(request: pytest.FixtureRequest, _clusters: _Shared) -> Iterator[Cluster]:
    """The cluster of the session, with a new namespace in `cluster.namespace`.

    `@pytest.mark.cluster(fresh=True)` gives a test a separate cluster. Faults end with the test, and `cluster.audit`
    begins with it.
    """
    marker = request.node.get_closest_marker("cluster")
    options: dict[str, Any] = {} if marker is None else dict(marker.kwargs)
    choice = str(request.config.getoption("--cluster"))
    if choice == "embedded" and request.node.get_closest_marker("realcluster") is not None:
        choice = "real"
    with ExitStack() as stack:
        if marker is not None and options.pop("fresh", True):
            found = stack.enter_context(_start(choice, **options))
        else:
            found = _clusters.get(choice)
        stack.enter_context(found.test(stack.enter_context(_namespace_of(found))))
        yield found


@pytest.fixture
def faults(cluster: Cluster) -> Faults:
    """The faults on the embedded cluster during this test; see `steersman.testing.faults`."""
    return cluster.faults


@pytest.fixture
def operator(request: pytest.FixtureRequest, cluster: Cluster) -> Iterator[Operators]:
    """Runs operators during the test.

    `handle = operator("myapp.operator:operator", namespaces=…, settings=…)` starts one. Each runs in a separate thread,
    as a ServiceAccount with exactly the permissions that the operator declares. A request that lacks a permission fails
    the test. The namespace is `cluster.namespace` by default.
    """
    from steersman.testing.running import Operators

    if "namespace" in request.fixturenames:  # The namespace must outlive the operators in it, with their roles.
        request.getfixturevalue("namespace")
    running = Operators(cluster)
    try:
        yield running
    finally:
        running.close()
    if problem := running.verdict():
        pytest.fail(problem, pytrace=False)


class _Shared:
    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._started: dict[str, Cluster] = {}

    def get(self, choice: str) -> Cluster:
        if choice not in self._started:
            if choice == "real":
                _demand_binaries()
            elif choice == "node":
                _demand_node()
            self._started[choice] = self._stack.enter_context(_start(choice))
        return self._started[choice]


def _start(choice: str, **options: Any) -> Cluster:
    """Start a cluster of the selected kind; the caller closes it."""
    from steersman.extras import require

    if choice == "embedded":
        require("the fixture `cluster`", "dev", "steersman_cluster", otherwise="run pytest --cluster=kubeconfig")
        from steersman.testing.embedded import EmbeddedCluster

        return EmbeddedCluster.start(**options)
    if choice == "node":
        from steersman.testing.real_node import RealNode

        if "nodes" in options:
            pytest.skip("a real node is one node: a test of several needs --cluster=embedded or --cluster=real")
        return RealNode.start(**options)
    from steersman.testing.controlplane.control_plane import ControlPlane

    kind, _, path = choice.partition("=")
    if kind == "kubeconfig":
        if options:
            pytest.skip("a cluster of the test's own needs --cluster=embedded or --cluster=real")
        return ControlPlane.existing(path or None)
    nodes = options.pop("nodes", 1)
    plane = ControlPlane.start(**options)
    for number in range(1, nodes + 1):
        plane.add_node(f"node-{number}")
    return plane


class _namespace_of:  # noqa: N801 - used like a function
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._name = f"test-{os.urandom(5).hex()}"

    def __enter__(self) -> str:
        self._cluster.create_namespace(self._name)
        return self._name

    def __exit__(self, *_: object) -> None:
        self._cluster.delete_namespace(self._name)


def _required() -> bool:
    return os.environ.get(_REQUIRE, "") not in ("", "0")


def _demand_binaries(*components: str) -> None:
    from steersman.testing.controlplane.binaries import available

    if (reason := available(*components)) is None:
        return
    if _required():
        pytest.fail(f"{_REQUIRE} is set, and: {reason}", pytrace=False)
    pytest.skip(reason)


def _demand_node() -> None:
    from steersman.testing.real_node import unavailable

    if (reason := unavailable()) is not None:
        pytest.fail(f"--cluster=node: {reason}", pytrace=False)
