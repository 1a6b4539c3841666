"""Runs a history: producers send numbered messages to a Broker while faults hit it, and then all are consumed."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

from steersman.testing import EmbeddedCluster
from steersman.testing.node_faults import NodeFaults

from tests.faults import Fault, FaultKind
from tests.history import Report
from tests.process_cluster import (
    Operated,
    create_routed_topic,
    group_of,
    running,
    sends,
    status,
    until,
)
from tests.workload import Routes, Workload

__all__ = ["KIND", "VERSIONS", "Finding", "Shop", "other_version", "run_history"]

KIND = "brokers.rocketmq.daocloud.io"
NAME_SERVICES = "nameservices.rocketmq.daocloud.io"
VERSIONS = ("5.4.0", "5.5.0")
"""The versions of the servers between which an upgrade changes, in both directions."""
BETWEEN_FAULTS = 50
"""Messages that are acknowledged before each fault, and after the last one."""


@dataclass(frozen=True)
class Shop:
    """A running Broker `mq` with one group, its operator, and the routes for clients."""

    cluster: EmbeddedCluster
    operator: Operated
    routes: Routes


@dataclass(frozen=True)
class Finding:
    """The result of one history."""

    report: Report
    acknowledged: int
    longest_gap_seconds: float
    """Longest time between two acknowledgements."""


def run_history(shop: Shop, topic: str, chosen: Sequence[Fault]) -> Finding:
    """Send messages to a new topic while the faults hit the group one after the other, and check that all exist."""
    create_routed_topic(shop.cluster, shop.operator.ports, shop.routes, topic)
    with Workload(shop.routes, [("mq-0", 0), ("mq-0", 1)], topic) as workload:
        for fault in chosen:
            sends(workload, BETWEEN_FAULTS)
            inject(shop, fault)
            wait_healed(shop.cluster)
        sends(workload, BETWEEN_FAULTS)
    return Finding(workload.report(), workload.count, workload.longest_gap)


def inject(shop: Shop, fault: Fault) -> None:
    """Inject a fault, kill the operator if the fault includes it, and end the fault after its time."""
    cluster, faults, group = shop.cluster, NodeFaults(shop.cluster), group_of(shop.cluster)
    others = [pod for pod in group["members"] if pod != group["master"]]
    victim = group["master"] if fault.of_master else others[0]
    rest = [pod for pod in group["members"] if pod != victim]
    match fault.kind:
        case FaultKind.KILL:
            faults.kill(victim, container="broker")
        case FaultKind.PAUSE:
            faults.pause(victim)
        case FaultKind.PARTITION:
            faults.partition(victim, rest)
        case FaultKind.PARTITION_OUT:
            faults.partition(victim, rest, one_way=True)
        case FaultKind.PARTITION_IN:
            faults.partition(rest, victim, one_way=True)
        case FaultKind.RESTART:
            _increment(cluster)
        case FaultKind.UPGRADE:
            image = cluster.get(KIND, "mq")["spec"]["brokerImage"]
            cluster.patch(KIND, "mq", {"spec": {"brokerImage": other_version(image)}})
        case FaultKind.NAME_SERVERS:
            generation = cluster.get(NAME_SERVICES, "mq")["metadata"]["generation"]
            changed = [{"name": "GENERATION", "value": str(generation)}]
            cluster.patch(NAME_SERVICES, "mq", {"spec": {"env": changed}})
    _wait(shop.operator, fault)
    faults.heal()


def _increment(cluster: EmbeddedCluster) -> None:
    """Change a setting that needs a restart."""
    name = "sendMessageThreadPoolNums"
    before = int(cluster.get(KIND, "mq")["spec"]["config"].get(name, "1"))
    cluster.patch(KIND, "mq", {"spec": {"config": {name: str(before + 1)}}})


def other_version(image: str) -> str:
    """Return the image with the other version of the servers."""
    name, _, version = image.rpartition(":")
    return f"{name}:{VERSIONS[1 - VERSIONS.index(version)]}"


def _wait(operator: Operated, fault: Fault) -> None:
    timer = threading.Event()
    before = 0.0
    if fault.operator_killed_after is not None:
        before = min(fault.operator_killed_after, fault.seconds)
        timer.wait(before)
        operator.kill()
        operator.start()
    timer.wait(fault.seconds - before)


def wait_healed(cluster: EmbeddedCluster) -> None:
    """Wait until all members are in sync and all name servers are ready."""
    until(lambda: running(cluster), lambda: f"the group does not heal: {status(cluster)}", seconds=600)
    until(lambda: _name_servers_ready(cluster), lambda: f"name servers: {status(cluster, 'nameservices')}")


def _name_servers_ready(cluster: EmbeddedCluster) -> bool:
    service = cluster.get(NAME_SERVICES, "mq")
    found = service.get("status", {})
    held = {each["type"]: each["status"] for each in found.get("conditions", ())}
    current = found.get("observedGeneration") == service["metadata"]["generation"]
    return current and held.get("Progressing") == "False"
