"""Brokers with real servers on process nodes: no acknowledged message is lost."""

from __future__ import annotations

import asyncio
import contextlib
import re
import urllib.request
import zlib
from collections.abc import Iterator

import pytest
from steersman.metrics import REGISTRY
from steersman.testing import EmbeddedCluster
from steersman.testing.node_faults import NodeFaults

from rocketmq.brokers import autoscaling, effects, reconciler
from rocketmq.brokers.plan import Configure, Step
from rocketmq.remoting import BrokerAdmin, Connection, RemotingError
from rocketmq.remoting.properties import write_properties
from tests import process_cluster
from tests.process_cluster import (
    MODES,
    Ports,
    address_of,
    broker,
    create_topic,
    group_of,
    name_service,
    on_broker,
    operated,
    running,
    sends,
    started,
    status,
    until,
    wait_routed,
)
from tests.remoting_servers import NEEDS_SERVERS, server_files
from tests.scenario import replaces_lost_masters
from tests.workload import TOPIC, RouteReader, Routes, Workload

pytestmark = [pytest.mark.slow, NEEDS_SERVERS]
KIND = "brokers.rocketmq.daocloud.io"
VERSIONS = ("5.4.0", "5.5.0")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    files = server_files()
    try:
        with process_cluster.process_cluster(tmp_path_factory.mktemp("images"), versions=VERSIONS) as found:
            yield found
    except (OSError, files.ServerFilesError) as problem:
        pytest.skip(f"RocketMQ cannot run in Pods here: {problem}")


@pytest.fixture
def shop(cluster: EmbeddedCluster, request: pytest.FixtureRequest) -> Iterator[Ports]:
    with operated(cluster, f"shop-{zlib.crc32(request.node.name.encode())}") as found:
        yield found.ports


def setting(ports: Ports, address: str, name: str) -> tuple[str, str]:
    """Return a setting of a running broker and the time of its start."""

    async def read(admin: BrokerAdmin) -> tuple[str, str]:
        return (await admin.config()).get(name, ""), (await admin.runtime_info())["bootTimestamp"]

    return asyncio.run(on_broker(ports, address, read))


class ProcessTier:
    """The tier of the scenarios for process nodes."""

    def __init__(self, cluster: EmbeddedCluster, ports: Ports) -> None:
        self.cluster = cluster
        self.ports = ports

    def pause(self, pod: str) -> contextlib.AbstractContextManager[object]:
        """Stop the processes of a Pod until the block ends."""
        return NodeFaults(self.cluster).pause(pod)

    def kill(self, pod: str) -> None:
        """Kill the processes of a Pod."""
        NodeFaults(self.cluster).kill(pod, container="broker")


@pytest.mark.parametrize("mode", MODES)
def test_a_master_that_stops_answering_is_replaced_and_no_acknowledged_message_is_lost(cluster, shop, mode):
    routes = started(cluster, shop, **MODES[mode])
    replaces_lost_masters(ProcessTier(cluster, shop), routes, [("mq-0", 0), ("mq-0", 1)])


@pytest.mark.soak
def test_a_group_without_a_majority_waits_and_then_elects_a_master_without_a_restart(cluster, shop):
    routes = started(cluster, shop, **MODES["DLEDGER"])
    before = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in cluster.list("pods")}
    first, faults = group_of(cluster)["master"], NodeFaults(cluster)

    def is_elected() -> bool:
        return any(
            each["type"] == "MasterElected" and each["status"] == "True" for each in status(cluster)["conditions"]
        )

    with Workload(routes, [("mq-0", 0)]) as workload:
        sends(workload)
        with faults.pause(first):
            until(lambda: group_of(cluster)["master"] != first and is_elected(), "no other master is elected")
            sends(workload)
            second = group_of(cluster)
            (follower,) = set(second["members"]) - {first, second["master"]}
            with faults.pause(follower):
                until(lambda: not is_elected(), "a master without a majority does not step down")
                assert (
                    REGISTRY.get_sample_value(
                        "steersman_rocketmq_masters", {"broker": "mq", "namespace": cluster.namespace}
                    )
                    == 0
                )
            until(is_elected, "no master is elected when a majority runs again")
            sends(workload)
        until(lambda: running(cluster), lambda: f"the group does not heal: {status(cluster)}")
    assert before == {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in cluster.list("pods")}
    assert workload.report().sound


@pytest.mark.soak
@pytest.mark.parametrize("mode", MODES)
def test_a_rolling_restart_hands_over_first_and_loses_no_acknowledged_message(cluster, shop, mode, monkeypatch):
    routes = started(cluster, shop, **MODES[mode])
    configured: list[Configure] = []

    class RecordedEffects(effects.Effects):
        async def perform(self, steps: tuple[Step, ...]) -> tuple[str, ...]:
            configured.extend(step for step in steps if isinstance(step, Configure))
            return await super().perform(steps)

    monkeypatch.setattr(reconciler, "Effects", RecordedEffects)
    before = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in cluster.list("pods")}
    members = group_of(cluster)["members"]
    with Workload(routes, [("mq-0", 0)]) as workload:
        sends(workload)
        live = {"spec": {"config": {"fileReservedTime": "31"}}}
        cluster.patch(KIND, "mq", live)
        for pod in members:
            until(
                lambda pod=pod: setting(shop, address_of(cluster, pod), "fileReservedTime")[0] == "31",
                "the live setting does not arrive",
            )
        assert before == {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in cluster.list("pods")}
        assert {name for step in configured for name in step.settings} == {"fileReservedTime"}
        configured.clear()

        cluster.patch(KIND, "mq", {"spec": {"config": {"sendMessageThreadPoolNums": "3"}}})
        until(
            lambda: (
                running(cluster)
                and all(
                    p["metadata"]["uid"] != before[p["metadata"]["name"]]
                    for p in cluster.list("pods", labels="rocketmq.daocloud.io/broker=mq")
                )
            ),
            lambda: f"the members did not all restart: {status(cluster)}",
            seconds=600,
        )
        sends(workload)
    assert configured == [], "a broker reads the right settings from its file when it starts"
    events = [e for e in cluster.list("events.events.k8s.io") if e["reason"] == "MasterHandedOver"]
    assert events
    report = workload.report()
    assert report.sound, report


@pytest.mark.soak
def test_an_upgrade_of_the_servers_loses_no_acknowledged_message_and_fails_no_send(cluster, shop):
    routes = started(cluster, shop, **MODES["DLEDGER"], brokerImage=f"rocketmq:{VERSIONS[0]}")
    assert status(cluster)["version"] == VERSIONS[0]
    first = group_of(cluster)
    with Workload(routes, [("mq-0", 0)]) as workload:
        sends(workload)
        cluster.patch(KIND, "mq", {"spec": {"brokerImage": f"rocketmq:{VERSIONS[1]}"}})
        until(
            lambda: running(cluster).get("version") == VERSIONS[1],
            lambda: f"the members do not have the new version: {status(cluster)}",
            seconds=600,
        )
        sends(workload)
    assert group_of(cluster)["master"] != first["master"], "the master restarts last, after a hand-over"
    assert workload.failed_sends == 0, f"no acknowledgement for {workload.longest_gap:.1f} s"
    report = workload.report()
    assert report.sound, report


@pytest.mark.soak
def test_the_endpoints_of_brokers_and_of_the_operator_have_the_metrics_of_the_dashboard(cluster, shop):
    routes = started(cluster, shop, clusterMode="STATIC", replicaPerGroup=0)
    lag = {"broker": "mq", "namespace": cluster.namespace, "consumer_group": "readers", "topic": TOPIC}

    def lag_now() -> float | None:
        return REGISTRY.get_sample_value("steersman_rocketmq_consumer_lag", lag)

    with Workload(routes, [("mq-0", 0)]) as workload:
        sends(workload, 20)
        assert workload.report().sound
        sends(workload, 20)
    until(lambda: (lag_now() or 0) >= 10, lambda: f"the lag is {lag_now()}")
    assert workload.report().sound
    until(lambda: lag_now() == 0, lambda: f"the lag is {lag_now()}")

    endpoint = shop(address_of(cluster, "mq-0-0-0", 5557))

    def missing() -> set[str]:
        with urllib.request.urlopen(f"http://{endpoint}/metrics", timeout=5) as answer:
            found = set(re.findall(r"^rocketmq_[a-z_]+", answer.read().decode(), re.MULTILINE))
        return {"rocketmq_messages_in_total", "rocketmq_throughput_in_total"} - found

    until(lambda: not missing(), lambda: f"the broker does not have {missing()}")


@pytest.mark.soak
def test_brokers_start_in_any_order(cluster, shop):
    cluster.apply(broker(clusterMode="STATIC", replicaPerGroup=0))
    address = address_of(cluster, "mq-0-0-0")
    until(lambda: status(cluster).get("groups", [{}])[0].get("master"), lambda: f"no master: {status(cluster)}")
    _, booted = setting(shop, address, "namesrvAddr")
    cluster.apply(name_service())
    found = until(lambda: running(cluster), lambda: f"the Broker does not run: {status(cluster)}")
    create_topic(cluster, shop, found)
    routes = Routes(shop, lambda: tuple(status(cluster).get("nameServers", ())))
    wait_routed(routes, 1)
    with Workload(routes, [("mq-0", 0)]) as workload:
        sends(workload, 20)
    assert setting(shop, address, "namesrvAddr")[1] == booted


def test_name_servers_are_replaced_without_a_restart_of_a_broker(cluster, shop):
    routes = started(cluster, shop, clusterMode="STATIC", replicaPerGroup=0)
    address = address_of(cluster, "mq-0-0-0")
    _, booted = setting(shop, address, "namesrvAddr")
    with Workload(routes, [("mq-0", 0)]) as workload:
        sends(workload)
        other = name_service() | {"metadata": {"name": "other"}}
        cluster.apply(other)
        cluster.patch(KIND, "mq", {"spec": {"nameService": "other"}})
        new = f"other-namesrv-0.other-namesrv.{cluster.namespace}.svc:9876"
        until(lambda: setting(shop, address, "namesrvAddr")[0] == new, "the broker does not learn its name server")
        until(lambda: running(cluster) and status(cluster)["nameServers"] == [new], "the status names the old one")

        async def registered() -> bool:
            with contextlib.suppress(Exception):
                return bool((await routes.route(TOPIC)).queues)
            return False

        until(lambda: asyncio.run(registered()), "the broker does not register with its new name server")
        cluster.delete("nameservices.rocketmq.daocloud.io", "mq")
        sends(workload)
    assert setting(shop, address, "namesrvAddr")[1] == booted
    assert workload.attempts_failed == 0
    assert workload.report().sound


@pytest.mark.soak
def test_name_servers_restart_one_by_one_and_no_send_fails(cluster, shop):
    routes = started(cluster, shop, clusterMode="STATIC", replicaPerGroup=0, servers=name_service(2))
    before = name_server_pods(cluster)
    assert len(before) == 2
    _, booted = setting(shop, address_of(cluster, "mq-0-0-0"), "namesrvAddr")
    with Workload(routes, [("mq-0", 0)]) as workload, RouteReader(routes, "mq-0") as routing:
        sends(workload)
        changed = {"spec": {"env": [{"name": "GENERATION", "value": "2"}]}}
        cluster.patch("nameservices.rocketmq.daocloud.io", "mq", changed)
        until(
            lambda: len(now := name_server_pods(cluster)) == 2 and not set(now) & set(before),
            "the name servers do not restart",
        )
        until(lambda: running(cluster), lambda: f"the Broker does not run: {status(cluster)}")
        routing.stop()
        sends(workload)
    assert setting(shop, address_of(cluster, "mq-0-0-0"), "namesrvAddr")[1] == booted
    assert workload.attempts_failed == 0
    assert routing.found > 0
    assert routing.missed == 0, "a client that starts during the restarts gets no route"
    assert workload.report().sound


def name_server_pods(cluster: EmbeddedCluster) -> list[str]:
    """Return the uids of the ready Pods of the NameService."""
    return [
        pod["metadata"]["uid"]
        for pod in cluster.list("pods", labels="rocketmq.daocloud.io/nameservice=mq")
        if any(each["type"] == "Ready" and each["status"] == "True" for each in pod["status"].get("conditions", ()))
    ]


@pytest.mark.soak
def test_a_new_group_of_dledger_elects_a_master_and_takes_messages(cluster, shop):
    routes = started(cluster, shop, **MODES["DLEDGER"])
    with Workload(routes, [("mq-0", 0)]) as first:
        sends(first)
        cluster.patch(KIND, "mq", {"spec": {"size": 2}})
        until(
            lambda: len(running(cluster).get("groups", ())) == 2,
            lambda: f"the second group does not join: {status(cluster)}",
        )
        for pod in group_of(cluster, 1)["members"]:  # any of them can be the next master
            assert TOPIC in asyncio.run(on_broker(shop, address_of(cluster, pod), BrokerAdmin.topic_configs)), pod
        wait_routed(routes, 2)
        with Workload(routes, [("mq-1", 0)]) as second:
            sends(second)
        sends(first)
    assert [first.report().sound, second.report().sound] == [True, True]


@pytest.mark.soak
def test_a_new_group_has_the_topics_of_the_others_and_leaves_when_consumers_have_read_it(cluster, shop):
    routes = started(cluster, shop, clusterMode="STATIC", replicaPerGroup=0)
    cluster.patch(KIND, "mq", {"spec": {"size": 2}})
    found = until(
        lambda: len((state := running(cluster)).get("groups", ())) == 2 and state,
        lambda: f"the second group does not join: {status(cluster)}",
    )
    assert [group["joined"] for group in found["groups"]] == [True, True]
    new = address_of(cluster, found["groups"][1]["master"])

    async def names(admin: BrokerAdmin) -> tuple[set[str], set[str]]:
        return set(await admin.topic_configs()), set(await admin.subscription_groups())

    topics, groups = asyncio.run(on_broker(shop, new, names))
    assert TOPIC in topics
    assert "readers" in groups

    async def permission() -> int:
        with contextlib.suppress(RemotingError):
            return next((int(q.permission) for q in (await routes.route(TOPIC)).queues if q.broker == "mq-1"), 0)
        return 0

    until(lambda: asyncio.run(permission()) == 6, "producers do not see the second group")
    with Workload(routes, [("mq-1", 0)]) as leaving, Workload(routes, [("mq-0", 0)]) as staying:
        sends(leaving)
        assert leaving.report().sound
        sends(leaving)
        cluster.patch(KIND, "mq", {"spec": {"size": 1}})
        until(lambda: asyncio.run(permission()) == 4, "producers still see the group as writable")
        leaving.stop()

        def waits_for_consumers() -> bool:
            (scaling,) = (each for each in status(cluster)["conditions"] if each["type"] == "Scaling")
            return "consumers have read" in scaling["message"] and len(status(cluster)["groups"]) == 2

        until(waits_for_consumers, lambda: f"the group does not wait: {status(cluster)}")
        assert cluster.get("statefulsets", "mq-1-0")
        report = leaving.report()
        assert report.sound, report
        sends(staying)
        until(
            lambda: len(running(cluster).get("groups", ())) == 1,
            lambda: f"the drained group does not leave: {status(cluster)}",
        )
        sends(staying)
    assert cluster.get("statefulsets", "mq-1-0") is None
    assert staying.report().sound
    assert cluster.get("persistentvolumeclaims", "store-mq-1-0-0"), "the claim of a group that left is kept"


@pytest.mark.soak
def test_groups_are_added_for_the_rate_of_messages_and_for_full_disks_and_leave_with_the_load(
    cluster, shop, monkeypatch
):
    monkeypatch.setattr(autoscaling, "STABILIZATION_SECONDS", 5)
    # All groups share the disk of this machine, where other files also need space.
    monkeypatch.setattr(autoscaling, "SPARE_SHARE", 3.0)
    limits = {"enabled": True, "minGroups": 1, "maxGroups": 2, "targetPutTps": 2, "targetDiskPercent": 95}
    routes = started(cluster, shop, clusterMode="STATIC", replicaPerGroup=0, autoscaling=limits)

    def has_groups(count: int) -> None:
        until(
            lambda: len(running(cluster).get("groups", ())) == count,
            lambda: f"there are not {count} groups: {status(cluster)}",
        )

    with Workload(routes, [("mq-0", 0)]) as workload:
        has_groups(2)
        by_disk = {"minGroups": 2, "maxGroups": 3, "targetPutTps": 100_000, "targetDiskPercent": 1}
        cluster.patch(KIND, "mq", {"spec": {"autoscaling": by_disk}})
        has_groups(3)
        cluster.patch(KIND, "mq", {"spec": {"autoscaling": {"targetDiskPercent": 95}}})
        has_groups(2)
        sends(workload)
    assert workload.report().sound
    reasons = [each["note"] for each in cluster.list("events.events.k8s.io") if each["reason"].startswith("Scaled")]
    assert [sum(text in each for each in reasons) for text in ("second need", "% full", "fit 2 groups")] == [1, 1, 1]


@pytest.mark.soak
def test_the_checker_finds_the_loss_of_an_unclean_election_after_asynchronous_replication(cluster, shop):
    routes = started(
        cluster, shop, **MODES["CONTROLLER"], replicationMode="ASYNC", config={"haMaxTimeSlaveNotCatchup": "3000"}
    )
    first = group_of(cluster)["master"]
    (other,) = (pod for pod in group_of(cluster)["members"] if pod != first)
    asyncio.run(allow_unclean_masters(shop, f"mq-controller-0.mq-controller.{cluster.namespace}.svc:9878"))
    faults = NodeFaults(cluster)
    with Workload(routes, [("mq-0", 0)]) as workload:
        sends(workload)
        with faults.partition(first, other):
            until(lambda: group_of(cluster)["inSync"] == [first], "the replica without a network stays in sync")
            sends(workload)
            workload.stop()
            with faults.pause(first):
                until(lambda: group_of(cluster)["master"] == other, "no unclean master is elected")
    until(lambda: running(cluster), lambda: f"the group did not come back: {status(cluster)}")
    # Replicas copy the settings of topics at intervals, so the new master may lack the topic.
    create_topic(cluster, shop, status(cluster))
    wait_routed(routes, 1)
    assert workload.report().lost


async def allow_unclean_masters(ports: Ports, controller: str) -> None:
    """Change the setting in the running controller only, because the operator never writes it."""
    update_controller_config = 1009
    async with await Connection.open(ports(controller)) as connection:
        await connection.request(update_controller_config, {}, write_properties({"enableElectUncleanMaster": "true"}))
