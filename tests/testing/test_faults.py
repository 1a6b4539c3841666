"""Each fault as a client meets it, over TLS."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from steersman.client import NO_RETRIES, ApiError, Client, Conflict, Expired, InternalError, ServiceUnavailable
from steersman.client import TooManyRequests as Throttled
from steersman.k8s import ConfigMap
from steersman.models import MergePatch, ObjectMeta
from steersman.testing import faults as f
from steersman.testing.cluster import Cluster, PolicyRule, UnsupportedError
from steersman.testing.faults import Fault, Faults


@pytest.fixture
async def client(cluster: Cluster) -> AsyncIterator[Client]:
    async with cluster.client(user_agent="somebody", retries=NO_RETRIES) as made:
        await made.create(ConfigMap(metadata=ObjectMeta(name="web", namespace=cluster.namespace)))
        yield made


async def patched(client: Client, cluster: Cluster, value: str = "1") -> None:
    await client.patch(ConfigMap, "web", MergePatch({"data": {"a": value}}), namespace=cluster.namespace)


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (f.conflict(resource="configmaps", times=1), Conflict),
        (f.internal_error(verb="write", times=1), InternalError),
        (f.unavailable(verb="patch", name="web", times=1), ServiceUnavailable),
        (f.failing_webhook("check.example.com", times=1), InternalError),
        (f.throttled(3, times=1), Throttled),
    ],
    ids=["conflict", "500", "503", "webhook", "429"],
)
async def test_a_write_is_refused_once_and_changes_nothing(
    cluster: Cluster, client: Client, faults: Faults, fault: Fault, error: type[ApiError]
) -> None:
    faults.add(fault)
    with pytest.raises(error) as caught:
        await patched(client, cluster)

    assert (await client.get(ConfigMap, "web", namespace=cluster.namespace)).data in (None, {})
    await patched(client, cluster)
    assert faults.struck(fault) == 1
    if error is Throttled:
        assert caught.value.retry_after == 3


def test_faults_meet_an_operator_and_never_what_prepares_the_test(cluster: Cluster, faults: Faults) -> None:
    everything = f.throttled(1)
    faults.add(everything)

    rule = PolicyRule(verbs=["get"], apiGroups=[""], resources=["configmaps"])
    cluster.user_kubeconfig("eve", namespace=cluster.namespace, rules=[rule])
    cluster.service_account_kubeconfig("robot", namespace=cluster.namespace, rules=[rule])
    cluster.create_namespace(f"{cluster.namespace}-more")
    cluster.delete_namespace(f"{cluster.namespace}-more")
    with cluster.session() as session:
        session.call("GET", "/version")

    assert faults.struck(everything) == 0


async def test_a_list_that_names_a_version_is_told_that_it_expired(
    cluster: Cluster, client: Client, faults: Faults
) -> None:
    faults.add(f.gone(resource="configmaps"))
    with pytest.raises(Expired):
        await client.list(ConfigMap, namespace=cluster.namespace, resource_version="1")


async def test_answers_come_late(cluster: Cluster, client: Client, faults: Faults) -> None:
    faults.add(f.latency(0.2, verb="get"))
    began = time.monotonic()
    await client.get(ConfigMap, "web", namespace=cluster.namespace)
    assert time.monotonic() - began >= 0.2


@asynccontextmanager
async def watch(client: Client, cluster: Cluster) -> AsyncIterator[AsyncIterator[bytes]]:
    """Yield the further events of an open watch."""
    path = f"/api/v1/namespaces/{cluster.namespace}/configmaps"
    version = (await client.list(ConfigMap, namespace=cluster.namespace)).resource_version
    async with client.raw.stream("GET", path, query=(("watch", "true"), ("resourceVersion", version))) as answer:
        yield answer.chunks


async def rest(chunks: AsyncIterator[bytes]) -> bytes:
    """All that comes until the watch ends by itself."""
    async with asyncio.timeout(30):
        return b"".join([chunk async for chunk in chunks])


async def test_a_watch_is_dropped(cluster: Cluster, client: Client, faults: Faults) -> None:
    faults.add(f.dropped_watch(0.1))
    async with watch(client, cluster) as chunks:
        await rest(chunks)


async def test_a_watch_is_told_that_it_expired(cluster: Cluster, client: Client, faults: Faults) -> None:
    faults.add(f.expired_watch(0.1))
    async with watch(client, cluster) as chunks:
        assert b'"code": 410' in (await rest(chunks)).splitlines()[-1]


async def test_a_watch_falls_silent(cluster: Cluster, client: Client, faults: Faults) -> None:
    faults.add(f.stalled_watch(0.0))
    async with watch(client, cluster) as chunks:
        await patched(client, cluster)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(chunks), 0.4)


async def test_reads_of_the_cache_see_the_past(cluster: Cluster, client: Client, faults: Faults) -> None:
    faults.add(f.stale_reads(60, resource="configmaps"))

    async def cached() -> str | None:
        found = await client.get(ConfigMap, "web", namespace=cluster.namespace, resource_version="0")
        return (found.data or {}).get("a")

    assert await cached() is None
    await patched(client, cluster)
    assert await cached() is None
    found = await client.get(ConfigMap, "web", namespace=cluster.namespace)
    assert (found.data or {})["a"] == "1"


async def test_chance_is_drawn_from_a_seed(cluster: Cluster, client: Client, faults: Faults) -> None:
    async def fallen() -> list[bool]:
        faults.seed(5)
        found: list[bool] = []
        for _ in range(12):
            try:
                await patched(client, cluster)
                found.append(False)
            except Conflict:
                found.append(True)
        return found

    faults.add(f.conflict(probability=0.5))
    first = await fallen()
    assert first == await fallen()
    assert set(first) == {True, False}


def test_the_tests_own_hands_meet_no_fault(cluster: Cluster, faults: Faults) -> None:
    faults.add(f.unavailable())
    cluster.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}})
    assert cluster.get("cm", "x") is not None


@pytest.mark.realcluster
def test_a_real_control_plane_has_no_faults_to_offer(cluster: Cluster) -> None:
    with pytest.raises(UnsupportedError, match="needs the embedded cluster"):
        _ = cluster.faults


async def test_events_of_a_lagging_watch_come_late_and_in_order(
    cluster: Cluster, client: Client, faults: Faults
) -> None:
    faults.add(f.stale_reads(0.3))
    found = b""
    async with watch(client, cluster) as chunks, asyncio.timeout(30):
        began = time.monotonic()
        for value in "123":
            await patched(client, cluster, value)
        while found.count(b"\n") < 3:
            found += await anext(chunks)

    assert time.monotonic() - began >= 0.3
    assert [line.count(b'"MODIFIED"') for line in found.splitlines()] == [1, 1, 1]
