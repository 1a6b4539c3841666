"""Histories of messages on real brokers under the faults of seeds: every acknowledged message is consumed, in order.

`HISTORY_RUNS` is the number of seeds of each mode.
"""

from __future__ import annotations

import contextlib
import os
import threading
import zlib
from collections.abc import Iterator

import pytest
from steersman.testing import EmbeddedCluster
from steersman.testing.node_faults import NodeFaults

from tests import process_cluster
from tests.faults import Fault, FaultKind, faults_of
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
KIND = "brokers.rocketmq.daocloud.io"


@pytest.fixture(scope="module", params=MODES)
def shop(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[EmbeddedCluster, Operated, Routes]]:
    """A Broker of each mode, whose group takes the faults of all seeds."""
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
    """Inject a fault, kill the operator on the way, and heal."""
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


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(RUNS))
@pytest.mark.slow
@pytest.mark.skipif(bool(unavailable()), reason=unavailable() or "available")
def test_no_acknowledged_message_is_lost(shop: tuple[EmbeddedCluster, Operated, Routes], seed: int):
    cluster, operator, routes = shop
    topic = f"orders-{seed}"
    create_topic(cluster, operator.ports, status(cluster), topic)
    wait_routed(routes, 1, topic)
    chosen = faults_of(seed, FAULTS)
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


def test_a_seed_chooses_the_same_faults_each_time():
    assert faults_of(7, FAULTS) == faults_of(7, FAULTS)
    assert faults_of(7, FAULTS) != faults_of(8, FAULTS)


def test_the_seeds_of_the_long_run_have_every_kind_of_fault_with_and_without_the_operator():
    chosen = [fault for seed in range(50) for fault in faults_of(seed, FAULTS)]
    found = {(fault.kind, fault.of_master, fault.operator_killed_after is None) for fault in chosen}
    assert len(found) == len(FaultKind) * 2 * 2
