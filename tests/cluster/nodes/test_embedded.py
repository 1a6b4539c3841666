"""Simulated nodes inside the embedded cluster, in one process and on virtual time."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from steersman.client import Client
from steersman.testing import virtual_time
from steersman_cluster.cluster import DevCluster, Options
from steersman_cluster.nodes.behaviour import PREFIX

PODS = 1000


async def _phases(client: Client) -> list[Any]:
    answer = await client.raw.request("GET", "/api/v1/namespaces/default/pods")
    return [item["status"] for item in json.loads(answer.body)["items"]]


def _ready(status: Any) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions") or ())


@pytest.mark.slow
@virtual_time
async def test_a_thousand_pods_become_ready_with_a_handful_of_tasks() -> None:
    loop = asyncio.get_running_loop()
    options = Options(listen=False, controllers=False, nodes=2, ready_after=30.0)
    async with DevCluster.start(options, now=loop.time) as cluster, cluster.client() as client:
        account = json.dumps({"metadata": {"name": "default"}}).encode()
        await client.raw.request("POST", "/api/v1/namespaces/default/serviceaccounts", body=account)
        for number in range(PODS):
            spec = {"nodeName": f"node-{number % 2 + 1}", "containers": [{"name": "c", "image": "i"}]}
            body = json.dumps({"metadata": {"name": f"p{number}"}, "spec": spec}).encode()
            await client.raw.request("POST", "/api/v1/namespaces/default/pods", body=body)
        assert len(asyncio.all_tasks()) < 60
        await asyncio.sleep(10)
        statuses = await _phases(client)
        assert {s["phase"] for s in statuses} == {"Running"}
        assert not any(_ready(s) for s in statuses)
        await asyncio.sleep(30)
        statuses = await _phases(client)
        assert len(statuses) == PODS
        assert all(_ready(s) for s in statuses)
        assert len({s["podIP"] for s in statuses}) == PODS


@asynccontextmanager
async def cluster_of_one() -> AsyncIterator[Client]:
    """A cluster with a simulated node, without controllers; on virtual time."""
    loop = asyncio.get_running_loop()
    options = Options(listen=False, controllers=False)
    async with DevCluster.start(options, now=loop.time) as cluster, cluster.client() as client:
        account = json.dumps({"metadata": {"name": "default"}}).encode()
        await client.raw.request("POST", "/api/v1/namespaces/default/serviceaccounts", body=account)
        yield client


async def create(client: Client, name: str, container: Any, annotations: Any = None, **spec: Any) -> None:
    fields = {"nodeName": "node-1", **spec, "containers": [{"name": "c", "image": "i", **container}]}
    body = {"metadata": {"name": name, "annotations": annotations or {}}, "spec": fields}
    await client.raw.request("POST", "/api/v1/namespaces/default/pods", body=json.dumps(body).encode())


@virtual_time
async def test_a_simulated_crash_shows_the_end_of_its_log_where_the_container_asks_for_it() -> None:
    annotations = {PREFIX + "crash-loop": "true", PREFIX + "logs": "starting\nKeyError: DATABASE"}
    async with cluster_of_one() as client:
        await create(client, "p", {"terminationMessagePolicy": "FallbackToLogsOnError"}, annotations)
        await asyncio.sleep(5)
        (status,) = await _phases(client)
        (container,) = status["containerStatuses"]
        assert container["state"]["waiting"]["reason"] == "CrashLoopBackOff"
        assert container["lastState"]["terminated"]["message"] == "starting\nKeyError: DATABASE\n"


@virtual_time
async def test_a_simulated_pod_runs_the_ephemeral_container_that_is_added_to_it() -> None:
    path = "/api/v1/namespaces/default/pods/p"
    async with cluster_of_one() as client:
        await create(client, "p", {})
        await asyncio.sleep(1)
        made = json.loads((await client.raw.request("GET", path)).body)
        made["spec"]["ephemeralContainers"] = [{"name": "debug", "image": "busybox"}]
        await client.raw.request("PUT", f"{path}/ephemeralcontainers", body=json.dumps(made).encode())
        await asyncio.sleep(1)
        (status,) = await _phases(client)
        assert _ready(status)
        (ephemeral,) = status["ephemeralContainerStatuses"]
        assert (ephemeral["name"], ephemeral["image"], list(ephemeral["state"])) == ("debug", "busybox", ["running"])


async def _revision(client: Client) -> int:
    answer = await client.raw.request("GET", "/api/v1/namespaces/default/pods", query={"limit": "1"})
    return int(json.loads(answer.body)["metadata"]["resourceVersion"])


@virtual_time
async def test_a_pod_that_is_ready_at_once_takes_a_single_write_of_its_status() -> None:
    loop = asyncio.get_running_loop()
    options = Options(listen=False, controllers=False, ready_after=0.0)
    async with DevCluster.start(options, now=loop.time) as cluster, cluster.client() as client:
        account = json.dumps({"metadata": {"name": "default"}}).encode()
        await client.raw.request("POST", "/api/v1/namespaces/default/serviceaccounts", body=account)
        before = await _revision(client)
        for number in range(10):
            await create(client, f"p{number}", {})
        await asyncio.sleep(1)
        assert all(map(_ready, await _phases(client)))
        creation, status, events = 1, 1, 3  # the Events Pulled, Created and Started
        assert await _revision(client) - before == 10 * (creation + status + events)
