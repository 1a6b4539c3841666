"""The operator survives crashes, lost responses, conflicts and late events while brokers in memory change masters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from steersman.client import ConnectionLostError
from steersman.testing.explore import ScenarioRun, explored

import rocketmq
from rocketmq.access import use_servers
from rocketmq.remoting import RemotingError

from .simulated import SimulatedServers


def cluster(image: str, groups: int) -> dict[str, Any]:
    return {
        "apiVersion": "rocketmq.daocloud.io/v1",
        "kind": "RocketMQCluster",
        "metadata": {"name": "shop"},
        "spec": {
            "nameService": {"size": 1, "nameServiceImage": "rocketmq"},
            "broker": {
                "clusterMode": "CONTROLLER",
                "brokerImage": image,
                "size": groups,
                "replicaPerGroup": 2,
                "storageMode": "EmptyDir",
            },
            "controller": {"size": 1, "controllerImage": "rocketmq", "storageMode": "EmptyDir"},
        },
    }


def servers_in(run: ScenarioRun) -> SimulatedServers:
    async def effect(target: str, perform: Callable[[], None]) -> None:
        try:
            await run.effect(target, perform)
        except ConnectionLostError as lost:
            raise RemotingError(str(lost)) from lost

    def data(name: str) -> dict[str, str]:
        found = run.state.get("configmaps", name)
        return found["data"] if found is not None else {}

    return SimulatedServers(lambda: run.state.list("pods", namespace="default"), data, effect)


async def life(run: ScenarioRun) -> None:
    """Create a cluster, restart its brokers with another image, and delete it."""
    servers = servers_in(run)
    use_servers(servers)
    await run.operator(rocketmq.operator)
    await run.apply(cluster("rocketmq:1", 1))
    await run.settled()
    servers.send("shop-0")
    await run.apply(cluster("rocketmq:2", 1))
    await run.settled()
    servers.send("shop-0")
    for group, number in servers.acknowledged.items():
        assert servers.brokers[servers.masters[group]].offset >= number, f"{group} has lost messages"
    await run.delete("rocketmqcluster", "shop")
    await run.settled()


@pytest.mark.slow
@explored(long=True, budget="150s", perturb=("crash", "lost-answer", "conflict"))
async def test_an_update_of_brokers_survives_crashes_lost_answers_and_conflicts(run: ScenarioRun) -> None:
    await life(run)


@pytest.mark.slow
@explored(
    long=True,
    budget="300s",
    stabilization=30.0,
    mask=("observedGeneration", "epoch", "master"),
    perturb=("lag", "miss"),
)
async def test_an_update_of_brokers_survives_late_and_missed_events(run: ScenarioRun) -> None:
    """Conditions that did not change keep the generation in which they were set; a master changes only in an update.

    A step is settled after thirty seconds, because a member is available only ten seconds after it is ready.
    """
    await life(run)
