"""The scheduler compared with kube-scheduler: spreading, preemption, and conditions of unschedulable Pods."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from steersman.client import ApiError, Client
from steersman.k8s import PriorityClass
from steersman.models import ObjectMeta
from steersman.testing import ControlPlane, available
from steersman_cluster.controllers.thread import running

from .pairs import VIEWS, Pair
from .test_controllers import POD, condition

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
ZONES = {"node-1": "a", "node-2": "a", "node-3": "b"}
CLASSES = {"low": 10, "middle": 100, "high": 1000}
PLACED = (*POD, "spec.nodeName", "metadata.uid", "status.startTime")


@pytest.fixture(scope="module")
def planes() -> Iterator[tuple[Any, Any]]:
    """One cluster with our scheduler, one with the real one, each with three nodes in two zones."""
    if (reason := available("kube-controller-manager", "kube-scheduler")) is not None:
        pytest.skip(reason)
    with (
        ControlPlane.start(controller_manager=False, scheduler=False) as ours,
        ControlPlane.start(controller_manager=True, scheduler=True) as real,
    ):
        for plane in (ours, real):
            for name, zone in ZONES.items():
                plane.add_node(name, cpu="8", memory="16Gi", pods=500, labels={ZONE: zone, HOST: name})
        with running(ours.config, options={"serviceaccount": {"ca_bundle": "x"}}):
            yield ours, real


@pytest.fixture(autouse=True)
async def room(pair: Pair) -> AsyncIterator[None]:
    """The nodes are empty again after each test."""
    yield

    async def clear(client: Client) -> None:
        while pods := (await client.list(VIEWS["pods"], namespace=pair.namespace)).items:
            for item in pods:
                await client.delete(VIEWS["pods"], item.metadata.name, namespace=pair.namespace, missing_ok=True)
            await asyncio.sleep(0.05)

    await pair.each(clear)


def pod(name: str, cpu: str = "10m", labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "web:1", "resources": {"requests": {"cpu": cpu}}}
    whole = {"containers": [container], "terminationGracePeriodSeconds": 0, **spec}
    return {"metadata": {"name": name, "labels": labels or {"app": "web"}}, "spec": whole}


def spread(key: str = ZONE, when: str = "DoNotSchedule", **more: Any) -> list[dict[str, Any]]:
    selector = {"matchLabels": {"app": "web"}}
    return [{"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": when, "labelSelector": selector, **more}]


def scheduled(value: str = "True") -> Any:
    return condition("PodScheduled", value)


async def classes(pair: Pair) -> None:
    """The PriorityClasses of this module, made once."""

    async def make(client: Client) -> None:
        known = {item.metadata.name for item in (await client.list(PriorityClass)).items}
        for name, value in CLASSES.items():
            if name not in known:
                await client.create(PriorityClass(metadata=ObjectMeta(name=name), value=value))

    await pair.each(make)
    for name in CLASSES:
        await admitted(pair, name)


async def admitted(pair: Pair, name: str) -> None:
    """Wait until both API servers admit Pods of a PriorityClass; the real one looks it up in a cache."""
    view = VIEWS["pods"]
    whole = {**pod("tried", priorityClassName=name), "apiVersion": "v1", "kind": "Pod"}
    whole["metadata"]["namespace"] = pair.namespace

    async def tried(client: Client) -> bool:
        try:
            await client.create(whole, kind=view, dry_run=True)
        except ApiError as problem:
            if problem.code != 403:
                raise
            return False
        return True

    await pair.each(lambda client: pair.eventually(client, tried))


async def places(pair: Pair, by: dict[str, str]) -> list[Counter[str]]:
    """Return the number of Pods by place, in both clusters."""

    async def count(client: Client) -> Counter[str]:
        page = await client.list(VIEWS["pods"], namespace=pair.namespace)
        return Counter(by[item.body["spec"]["nodeName"]] for item in page.items)

    return await pair.each(count)


async def test_pods_are_spread_over_zones(pair: Pair):
    for index in range(4):
        await pair.create("pods", pod(f"web-{index}", topologySpreadConstraints=spread()))
        await pair.settle("pods", f"web-{index}", scheduled())
    assert await places(pair, ZONES) == [Counter(a=2, b=2)] * 2


async def test_pods_of_a_service_are_spread_by_default(pair: Pair):
    """Where the least loaded node would be in the zone that has more of them."""
    service = {"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}}
    await pair.create("services", service)
    for index in range(3):
        there = {"nodeSelector": {HOST: "node-3"}}
        await pair.create("pods", pod(f"other-{index}", "100m", {"app": "other"}, **there))
        await pair.settle("pods", f"other-{index}", scheduled())
    for index in range(2):
        await pair.create("pods", pod(f"web-{index}"))
        await pair.settle("pods", f"web-{index}", scheduled())
    assert await places(pair, {name: f"{zone}" for name, zone in ZONES.items()}) == [Counter(a=1, b=4)] * 2


async def test_spreading_that_only_prefers_hinders_nobody(pair: Pair):
    constraint = spread(HOST, "ScheduleAnyway")
    for index in range(3):
        await pair.create("pods", pod(f"web-{index}", topologySpreadConstraints=constraint))
        await pair.settle("pods", f"web-{index}", scheduled())
    hosts = dict.fromkeys(ZONES, "")
    assert await places(pair, {name: name for name in hosts}) == [Counter(dict.fromkeys(ZONES, 1))] * 2


@pytest.mark.parametrize(
    ("first", "constraint"),
    [
        (0, spread("example.com/rack")),
        (1, spread(nodeAffinityPolicy="Ignore")),
        (1, spread(HOST, nodeAffinityPolicy="Ignore")),
        (1, spread(HOST, minDomains=4)),
        (0, spread() + spread("example.com/rack")),
    ],
    ids=["no such label", "skew", "hosts", "too few domains", "two constraints"],
)
async def test_a_pod_that_would_be_one_too_many_waits(pair: Pair, first: int, constraint: list[dict[str, Any]]):
    there = {"nodeSelector": {HOST: "node-1"}}
    for index in range(first):
        await pair.create("pods", pod(f"web-{index}", **there))
        await pair.settle("pods", f"web-{index}", scheduled())
    await pair.create("pods", pod("last", topologySpreadConstraints=constraint, **there))
    await pair.settle("pods", "last", scheduled("False"))
    await pair.same("pods", ignore=POD)


async def test_a_more_important_pod_takes_the_room_of_the_least_important(pair: Pair):
    await classes(pair)
    there = {"nodeSelector": {HOST: "node-2"}}
    for name in ("low", "middle"):
        await pair.create("pods", pod(name, "3", priorityClassName=name, **there))
        await pair.settle("pods", name, scheduled())
    await pair.create("pods", pod("important", "4", priorityClassName="high", **there))
    await pair.settle("pods", "important", scheduled())
    await pair.same("pods", ignore=PLACED)


async def test_a_pod_that_is_in_the_way_goes_where_it_is_missed_least(pair: Pair):
    await classes(pair)
    for index, name in enumerate(("middle", "low", "middle")):
        there = {"nodeSelector": {HOST: f"node-{index + 1}"}}
        await pair.create("pods", pod(f"{name}-{index}", "6", priorityClassName=name, **there))
        await pair.settle("pods", f"{name}-{index}", scheduled())
    await pair.create("pods", pod("important", "5", priorityClassName="high"))
    await pair.settle("pods", "important", scheduled())
    await pair.same("pods", ignore=PLACED)


@pytest.mark.parametrize(
    "spec",
    [
        {"priorityClassName": "low"},
        {"priorityClassName": "high", "preemptionPolicy": "Never"},
        {"priorityClassName": "high", "nodeSelector": {"no": "where"}},
        {"priorityClassName": "high", "cpu": "9"},
    ],
    ids=["not important enough", "never", "nowhere", "too big"],
)
async def test_a_pod_for_which_nobody_would_leave_waits(pair: Pair, spec: dict[str, Any]):
    await classes(pair)
    for index in range(3):
        there = {"nodeSelector": {HOST: f"node-{index + 1}"}}
        await pair.create("pods", pod(f"full-{index}", "6", priorityClassName="middle", **there))
        await pair.settle("pods", f"full-{index}", scheduled())
    if spec.get("preemptionPolicy"):
        name = f"never-{pair.namespace}"
        made = PriorityClass(metadata=ObjectMeta(name=name), value=500, preemption_policy="Never")
        await pair.each(lambda client: client.create(made))
        await admitted(pair, name)
        spec = {"priorityClassName": name}
    await pair.create("pods", pod("last", **{"cpu": "5", **spec}))
    await pair.settle("pods", "last", scheduled("False"))
    await pair.same("pods", ignore=POD)


def with_ports(name: str, *ports: dict[str, Any], **spec: Any) -> dict[str, Any]:
    whole = pod(name, **spec)
    whole["spec"]["containers"][0]["ports"] = [{"containerPort": 80, **port} for port in ports]
    return whole


@pytest.mark.parametrize(
    ("taken", "wanted"),
    [
        ({"hostPort": 8080}, {"hostPort": 8080}),
        ({"hostPort": 8080, "hostIP": "10.0.0.9"}, {"hostPort": 8080}),
        ({"hostPort": 8080}, {"hostPort": 8080, "hostIP": "10.0.0.9"}),
    ],
    ids=["same port", "all addresses wanted", "all addresses taken"],
)
async def test_a_pod_waits_for_a_free_host_port(pair: Pair, taken: dict[str, Any], wanted: dict[str, Any]):
    there = {"nodeSelector": {HOST: "node-1"}}
    await pair.create("pods", with_ports("first", taken, **there))
    await pair.settle("pods", "first", scheduled())
    await pair.create("pods", with_ports("second", wanted, **there))
    await pair.settle("pods", "second", scheduled("False"))
    await pair.same("pods", ignore=POD)
    await pair.delete("pods", "first")
    await pair.settle("pods", "second", scheduled())


async def test_other_ports_protocols_and_addresses_do_not_conflict(pair: Pair):
    there = {"nodeSelector": {HOST: "node-1"}}
    ports = [{"hostPort": 8080, "hostIP": "10.0.0.9"}, {"hostPort": 8080, "hostIP": "10.0.0.8"}, {"hostPort": 8081}]
    for index, port in enumerate([*ports, {"hostPort": 8081, "protocol": "UDP"}]):
        await pair.create("pods", with_ports(f"web-{index}", port, **there))
        await pair.settle("pods", f"web-{index}", scheduled())


async def test_running_pods_keep_others_away_by_their_anti_affinity(pair: Pair):
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "loud"}}}
    exclusive = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    await pair.create("pods", pod("alone", affinity=exclusive, nodeSelector={ZONE: "a"}))
    await pair.settle("pods", "alone", scheduled())
    await pair.create("pods", pod("loud", labels={"app": "loud"}, nodeSelector={ZONE: "a"}))
    await pair.settle("pods", "loud", scheduled("False"))
    await pair.create("pods", pod("elsewhere", labels={"app": "loud"}))
    await pair.settle("pods", "elsewhere", scheduled())
    await pair.create("pods", pod("other", nodeSelector={ZONE: "a"}))
    await pair.settle("pods", "other", scheduled())
    await pair.same("pods", ignore=(*POD, "spec.nodeName", "metadata.uid", "status.startTime"))
