"""What a group of brokers must survive, on every kind of cluster that runs Pods.

`Tier` is what differs between process nodes and a real node.
"""

from __future__ import annotations

import contextlib
from typing import Any, Protocol

from steersman.testing import Cluster

from .process_cluster import group_of, running, sends, status, until
from .workload import Routes, Workload


class Tier(Protocol):
    """A cluster that runs the operator and its Pods."""

    @property
    def cluster(self) -> Cluster:
        """The cluster, in the namespace of the test."""
        ...

    def ports(self, address: str) -> str:
        """Return an address of this machine that leads to a server at HOST:PORT in the cluster."""
        ...

    def pause(self, pod: str) -> contextlib.AbstractContextManager[object]:
        """Stop the broker of a Pod with SIGSTOP until the block ends."""
        ...

    def kill(self, pod: str) -> None:
        """Kill the broker of a Pod with SIGKILL."""
        ...


def replaces_lost_masters(tier: Tier, routes: Routes, lanes: list[tuple[str, int]]) -> float:
    """Pause a master, kill and delete the next one, and send messages meanwhile; none that is acknowledged is lost.

    Returns:
        The longest time without an acknowledgement while the first master was paused, in seconds.
    """
    cluster = tier.cluster
    first = group_of(cluster)
    with Workload(routes, lanes) as workload:
        sends(workload)
        workload.forget_gaps()
        with tier.pause(first["master"]):
            until(lambda: group_of(cluster)["master"] != first["master"], "no other member became the master")
            sends(workload)
        gap = workload.longest_gap
        wait_running(cluster, "the old master does not follow")
        second = group_of(cluster)
        assert second["epoch"] > first["epoch"]
        tier.kill(second["master"])
        cluster.delete("pods", second["master"])
        sends(workload)
        wait_running(cluster, "the killed master does not come back")
        sends(workload)
    report = workload.report()
    assert report.sound, report
    return gap


def wait_running(cluster: Cluster, problem: str) -> dict[str, Any]:
    """Wait until all members of all groups are in sync, and return the status."""
    return until(lambda: running(cluster), lambda: f"{problem}: {status(cluster)}")
