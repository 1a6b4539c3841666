"""Histories of messages on real brokers under faults: every acknowledged message is consumed, in order.

`HISTORY_RUNS` is the number of seeds of each mode.
"""

from __future__ import annotations

import contextlib
import os
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence

import pytest
from steersman.testing import EmbeddedCluster
from steersman.testing.node_faults import NodeFaults

from rocketmq.brokers import reconciler
from tests import process_cluster
from tests.faults import Fault, FaultKind, faults_of
from tests.operator_crashes import CrashPoints
from tests.process_cluster import (
    MODES,
    Operated,
    create_topic,
    group_of,
    operated,
    running,
    sends,
    started,
    status,
    until,
    wait_routed,
)
from tests.remoting_servers import server_files, unavailable
from tests.workload import Routes, Workload

RUNS = int(os.environ.get("HISTORY_RUNS", "1"))
FAULTS = 3
SHORT_SEED = 2
WITH_SERVERS = pytest.mark.skipif(bool(unavailable()), reason=unavailable() or "available")
KIND = "brokers.rocketmq.daocloud.io"


@pytest.fixture(scope="module", params=MODES)
def shop(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[EmbeddedCluster, Operated, Routes]]:
    """A Broker of each mode, with one group for the faults of all seeds."""
    files = server_files()
    with contextlib.ExitStack() as stack:
        try:
            cluster = stack.enter_context(process_cluster.process_cluster(tmp_path_factory.mktemp("images"), nodes=3))
        except (OSError, files.ServerFilesError) as problem:
            pytest.skip(f"RocketMQ cannot run in Pods here: {problem}")
        found = stack.enter_context(operated(cluster, f"histories-{zlib.crc32(request.param.encode())}"))
        yield cluster, found, started(cluster, found.ports, **MODES[request.param])


def whole(cluster: EmbeddedCluster) -> None:
    until(lambda: running(cluster), lambda: f"the group does not heal: {status(cluster)}")


def inject(cluster: EmbeddedCluster, operator: Operated, fault: Fault, number: int) -> None:
    """Inject a fault, kill the operator if the fault includes it, and heal the fault."""
    faults, group = NodeFaults(cluster), group_of(cluster)
    others = [pod for pod in group["members"] if pod != group["master"]]
    victim = group["master"] if fault.of_master else others[0]
    timer = threading.Event()
    match fault.kind:
        case FaultKind.KILL:
            faults.kill(victim, container="broker")
        case FaultKind.PAUSE:
            faults.pause(victim)
        case FaultKind.PARTITION:
            faults.partition(victim, [pod for pod in group["members"] if pod != victim])
        case FaultKind.RESTART:
            cluster.patch(KIND, "mq", {"spec": {"config": {"sendMessageThreadPoolNums": str(2 + number)}}})
    before = 0.0
    if fault.operator_killed_after is not None:
        before = min(fault.operator_killed_after, fault.seconds)
        timer.wait(before)
        operator.kill()
        operator.start()
    timer.wait(fault.seconds - before)
    faults.heal()


def check_history(shop: tuple[EmbeddedCluster, Operated, Routes], seed: int, chosen: Sequence[Fault]) -> None:
    """Send numbered messages while faults hit the group, and check that all are consumed in order."""
    cluster, operator, routes = shop
    topic = f"orders-{seed}-{len(chosen)}"
    create_topic(cluster, operator.ports, status(cluster), topic)
    wait_routed(routes, 1, topic)
    told = "; ".join(map(str, chosen))
    with Workload(routes, [("mq-0", 0), ("mq-0", 1)], topic) as workload:
        for number, fault in enumerate(chosen):
            sends(workload, 50)
            inject(cluster, operator, fault, seed * FAULTS + number)
            whole(cluster)
        sends(workload, 50)
    report = workload.report()
    print(
        f"seed {seed}: {told}: {workload.count} acknowledged, {report.duplicates} twice, gap {workload.longest_gap:.1f} s"
    )
    assert report.sound, (told, report)


@pytest.mark.slow
@WITH_SERVERS
def test_a_short_history_loses_no_acknowledged_message(shop: tuple[EmbeddedCluster, Operated, Routes]):
    chosen = faults_of(SHORT_SEED, 2, longest_seconds=4)
    assert {(each.kind, each.of_master) for each in chosen} == {(FaultKind.KILL, True), (FaultKind.PARTITION, True)}
    assert all(each.operator_killed_after is not None for each in chosen)
    check_history(shop, SHORT_SEED, chosen)


@pytest.mark.soak
@pytest.mark.slow
@WITH_SERVERS
@pytest.mark.parametrize("seed", range(RUNS))
def test_no_acknowledged_message_is_lost(shop: tuple[EmbeddedCluster, Operated, Routes], seed: int):
    check_history(shop, seed, faults_of(seed, FAULTS))


@pytest.mark.soak
@pytest.mark.slow
@WITH_SERVERS
def test_the_operator_is_killed_before_and_after_each_step_and_no_acknowledged_message_is_lost(
    shop: tuple[EmbeddedCluster, Operated, Routes], monkeypatch: pytest.MonkeyPatch
):
    cluster, operator, routes = shop
    points = CrashPoints()
    monkeypatch.setattr(reconciler, "Effects", points.effects())
    before = member_pods(cluster)

    def reached(holds: Callable[[], object], what: str) -> None:
        def held() -> object:
            points.kill_held(operator)
            return holds()

        until(held, lambda: f"{what}, the operator was killed at {points.reached}: {status(cluster)}", seconds=600)

    with Workload(routes, [("mq-0", 0)]) as workload:
        sends(workload)
        changed = {"fileReservedTime": "33", "sendMessageThreadPoolNums": "7"}
        cluster.patch(KIND, "mq", {"spec": {"config": changed}})
        reached(
            lambda: running(cluster) and not set(before.values()) & set(member_pods(cluster).values()),
            "the members do not restart",
        )
        cluster.patch(KIND, "mq", {"spec": {"size": 2}})
        reached(lambda: len(running(cluster).get("groups", ())) == 2, "the second group does not join")
        cluster.patch(KIND, "mq", {"spec": {"size": 1}})
        reached(lambda: len(running(cluster).get("groups", ())) == 1, "the second group does not leave")
        sends(workload)
    report = workload.report()
    assert report.sound, report
    steps = ("ApplyMember", "Configure", "CopyTo", "HandOver", "RemoveGroup")
    assert points.reached == {(step, when) for step in steps for when in ("before", "after")}


def member_pods(cluster: EmbeddedCluster) -> dict[str, str]:
    """Return the uid of the Pod of each member."""
    pods = cluster.list("pods", labels="rocketmq.daocloud.io/broker=mq")
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in pods}


def test_a_seed_chooses_the_same_faults_each_time():
    assert faults_of(7, FAULTS) == faults_of(7, FAULTS)
    assert faults_of(7, FAULTS) != faults_of(8, FAULTS)


def test_the_seeds_of_the_long_run_have_every_kind_of_fault_with_and_without_the_operator():
    chosen = [fault for seed in range(50) for fault in faults_of(seed, FAULTS)]
    found = {(fault.kind, fault.of_master, fault.operator_killed_after is None) for fault in chosen}
    assert len(found) == len(FaultKind) * 2 * 2
