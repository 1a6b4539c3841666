"""Faults of Pods that a seed chooses, and the history of writes on a cluster of Pods while they happen."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from enum import Enum

from steersman.testing import Cluster
from steersman.testing.node_faults import NodeFaults

from .scenario import KIND, Database, Writers, check_history, until

__all__ = ["FaultKind", "PodFault", "Result", "faults_of", "run_history"]

FAULTS = 3
CLAIM = "persistentvolumeclaims"


class FaultKind(Enum):
    KILL = "kill -9 of"
    PAUSE = "SIGSTOP of"
    PARTITION = "partition of"
    PARTITION_OUT = "loss of packets from"
    PARTITION_IN = "loss of packets to"
    POD = "deletion of the Pod of"
    VOLUME = "deletion of the Pod and the claim of"


@dataclass(frozen=True)
class PodFault:
    """One fault of a member."""

    kind: FaultKind
    of_primary: bool
    seconds: float
    """Time until a pause or a partition ends."""

    def __str__(self) -> str:
        lasts = self.kind.value.startswith(("SIGSTOP", "partition", "loss"))
        victim = "the primary" if self.of_primary else "a replica"
        return f"{self.kind.value} {victim}{f' for {self.seconds:.1f} s' if lasts else ''}"


@dataclass(frozen=True)
class Result:
    """The outcome of one history without a violation."""

    faults: tuple[PodFault, ...]
    acknowledged: int
    longest_gap_seconds: float


def faults_of(seed: int, count: int = FAULTS, longest_seconds: float = 12.0) -> tuple[PodFault, ...]:
    """Return the faults of a seed; two thirds of them concern the primary."""
    chance = random.Random(seed)
    return tuple(
        PodFault(chance.choice(tuple(FaultKind)), chance.random() < 2 / 3, chance.uniform(1.0, longest_seconds))
        for _ in range(count)
    )


def run_history(database: Database, faults: tuple[PodFault, ...]) -> Result:
    """Write during the faults, let the cluster heal after each, and check all members.

    Raises:
        AssertionError: A write is lost, a failed one is present, members differ, or the cluster does not heal.
    """
    began = time.monotonic()
    with Writers(database) as writers:
        writers.wait_acknowledged()
        for fault in faults:
            _inject(database, fault)
            database.wait_healthy()
            writers.wait_acknowledged()
        gap = writers.longest_gap(since=began)
    check_history(database, writers)
    return Result(faults, writers.acknowledged, gap)


def _inject(database: Database, fault: PodFault) -> None:
    status = database.wait_healthy()
    members = [each["name"] for each in status["members"]]
    replicas = [name for name in members if name != status["primary"]]
    victim = status["primary"] if fault.of_primary else replicas[-1]
    others = [name for name in members if name != victim]
    nodes = NodeFaults(database.cluster)
    match fault.kind:
        case FaultKind.KILL:
            nodes.kill(victim, container="mysql")
        case FaultKind.PAUSE:
            with nodes.pause(victim):
                time.sleep(fault.seconds)
        case FaultKind.PARTITION:
            with nodes.partition(victim, others):
                time.sleep(fault.seconds)
        case FaultKind.PARTITION_OUT:
            with nodes.partition(victim, others, one_way=True):
                time.sleep(fault.seconds)
        case FaultKind.PARTITION_IN:
            with nodes.partition(others, victim, one_way=True):
                time.sleep(fault.seconds)
        case FaultKind.POD:
            replace_pod(database.cluster, victim)
        case FaultKind.VOLUME:
            replace_pod(database.cluster, victim, volume=True)


def replace_pod(cluster: Cluster, pod: str, *, volume: bool = False) -> None:
    """Delete a Pod, with its claim if `volume` is set, and wait until the StatefulSet has created another one."""
    former = cluster.get("pods", pod)
    assert former is not None
    claim = f"data-{pod}"
    bound = cluster.get(CLAIM, claim) if volume else None
    if volume:
        assert bound is not None
        cluster.delete(CLAIM, claim)  # the claim ends after its Pod
    cluster.delete("pods", pod)

    def replaced() -> bool:
        found = cluster.get("pods", pod)
        if found is None or found["metadata"]["uid"] == former["metadata"]["uid"]:
            return False
        now = cluster.get(CLAIM, claim) if bound else None
        if bound and (now is None or now["metadata"]["uid"] == bound["metadata"]["uid"]):
            # The StatefulSet has created the Pod before the former claim was gone: the Pod waits for a new claim.
            cluster.delete("pods", pod)
            return False
        return True

    until(replaced, lambda: f"{pod} was not replaced: {cluster.get(KIND, pod.rpartition('-')[0])}")
