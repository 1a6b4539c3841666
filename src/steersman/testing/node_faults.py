"""Faults of Pods that run as processes on the embedded cluster: partitions, delays, losses, pauses, kills, lost nodes.

    def test_the_cluster_survives_a_partition(cluster):
        faults = NodeFaults(cluster)
        with faults.partition("db-0", ["db-1", "db-2"]):
            ...

Targets are names of Pods in the test's namespace, `NAMESPACE/POD`, `node/NAME`, `apiserver`, and `*` for everything.
A network fault follows a Pod of a name to its next address; it does not affect probes and port-forwarding.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:
    from steersman.client.local_port import LocalPort
    from steersman.testing.cluster import Cluster
    from steersman.testing.embedded import EmbeddedCluster

__all__ = ["ActiveFault", "NodeFaults", "forwarded"]

_PATH: Final = "/steersman.dev/faults"
_EVERYTHING: Final = "*"
_WHOLE: Final = ("apiserver", _EVERYTHING)

Targets = str | Sequence[str]


class ActiveFault:
    """A fault that lasts until `end`, or until the end of a `with` block."""

    def __init__(self, end: Callable[[], object]) -> None:
        self._end = end
        self._ended = False

    def end(self) -> None:
        """End the fault. Safe to call twice."""
        if not self._ended:
            self._ended = True
            self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()


class NodeFaults:
    """Begins faults on a cluster with process nodes; network faults need `network="namespaces"`.

    All methods raise `CallError` with the reason: 404 for a Pod or node that does not exist, 400 for a verb that this
    cluster cannot perform.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def partition(self, source: Targets, destination: Targets = _EVERYTHING, *, one_way: bool = False) -> ActiveFault:
        """Drop all packets between two sides; with `one_way` only those from `source` to `destination`."""
        return self._network("partition", source, destination, one_way=one_way)

    def delay(
        self,
        source: Targets,
        destination: Targets = _EVERYTHING,
        *,
        seconds: float,
        jitter_seconds: float = 0.0,
        one_way: bool = False,
    ) -> ActiveFault:
        """Delay packets between two sides, in each direction, by `seconds` and up to `jitter_seconds` more."""
        return self._network(
            "delay", source, destination, one_way=one_way, seconds=seconds, jitterSeconds=jitter_seconds
        )

    def drop(
        self, source: Targets, destination: Targets = _EVERYTHING, *, share: float, one_way: bool = False
    ) -> ActiveFault:
        """Drop a share of the packets between two sides, from 0 to 1, at random."""
        return self._network("drop", source, destination, one_way=one_way, share=share)

    def pause(self, pod: Targets, *, container: str = "") -> ActiveFault:
        """Stop the processes of a Pod without a signal to them (SIGSTOP), until `resume` or the end of the fault."""
        return self._begin("pause", pod, container=container)

    def resume(self, pod: Targets, *, container: str = "") -> None:
        """Resume the processes of a Pod."""
        self._post("resume", pod, container=container)

    def kill(self, pod: Targets, *, container: str = "") -> None:
        """Kill the containers of a Pod (SIGKILL); its restart policy applies."""
        self._post("kill", pod, container=container)

    def node_loss(self, node: Targets) -> ActiveFault:
        """Simulate the loss of a node: no heartbeat, no network, stopped processes; the Node becomes Ready=Unknown.

        At the end of the fault the node returns as after a power failure: its containers have ended and start again.
        """
        return self._begin("node-loss", _nodes(node))

    def node_return(self, node: Targets) -> None:
        """Return a lost node to the cluster; its containers have ended and start again."""
        self._post("node-return", _nodes(node))

    def heal(self) -> None:
        """End all faults of the cluster."""
        self._cluster.call("DELETE", _PATH)

    def list(self) -> list[dict[str, Any]]:
        """Return the active faults."""
        return self._cluster.call("GET", _PATH)["faults"]

    def _network(
        self, verb: str, source: Targets, destination: Targets, *, one_way: bool, **fields: float
    ) -> ActiveFault:
        return self._begin(verb, source, destinations=self._targets(destination), oneWay=one_way, **fields)

    def _begin(self, verb: str, sources: Targets, **fields: Any) -> ActiveFault:
        identity = self._post(verb, sources, **fields)

        def end() -> None:
            if any(fault["id"] == identity for fault in self.list()):
                self._cluster.call("DELETE", f"{_PATH}/{identity}")

        return ActiveFault(end)

    def _post(self, verb: str, sources: Targets, **fields: Any) -> str:
        body = {"verb": verb, "sources": self._targets(sources), **fields}
        return self._cluster.call("POST", _PATH, body)["id"]

    def _targets(self, targets: Targets) -> Sequence[str]:
        """Return targets, with the test's namespace for names of Pods without one."""
        every = [targets] if isinstance(targets, str) else targets
        return [one if one in _WHOLE or "/" in one else f"{self._cluster.namespace}/{one}" for one in every]


def _nodes(nodes: Targets) -> Sequence[str]:
    return [f"node/{name.removeprefix('node/')}" for name in ([nodes] if isinstance(nodes, str) else nodes)]


@contextmanager
def forwarded(
    cluster: EmbeddedCluster, pod: str, port: int, *, namespace: str | None = None
) -> Generator[tuple[str, int]]:
    """Return a local host and port that forward to a Pod's port, also after a new Pod with its name."""
    from steersman_cluster import forwarding

    place = namespace or cluster.namespace

    async def begin() -> LocalPort:
        return await forwarding.forward(cluster.cluster, place, pod, port)

    made = cluster.run(begin)
    try:
        yield made.address
    finally:
        cluster.run(made.close)
