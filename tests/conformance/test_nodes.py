"""The same simulated node on both servers: its writes have the same responses, and the objects are equal."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

from steersman.client import Client, NotFound
from steersman.testing import Cluster
from steersman_cluster import nodes
from steersman_cluster.nodes.behaviour import PREFIX

from .harness import Both

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


class Place:
    """One server with a simulated node of its own."""

    def __init__(self, client: Client, namespace: str, node: nodes.SimulatedNode) -> None:
        self.client = client
        self.node = node
        self.pods = f"/api/v1/namespaces/{namespace}/pods"

    async def create(self, name: str, spec: dict[str, Any], annotations: dict[str, str]) -> None:
        spec = {**spec, "nodeName": self.node.name, "automountServiceAccountToken": False}
        body = {"metadata": {"name": name, "annotations": annotations}, "spec": spec}
        await self.client.raw.request("POST", self.pods, body=json.dumps(body).encode())

    async def status(self, name: str) -> Any:
        try:
            return json.loads((await self.client.raw.request("GET", f"{self.pods}/{name}")).body)["status"]
        except NotFound:
            return None

    async def settled(self, name: str, text: str) -> Any:
        """The status once it has `text` in it, without times and uids."""
        async with asyncio.timeout(90):
            while text not in json.dumps(await self.status(name)):  # noqa: ASYNC110 - another process is watched
                await asyncio.sleep(0.05)
            await asyncio.sleep(0.2)
            found = json.dumps(await self.status(name), sort_keys=True)
        return json.loads(re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "<uid>", _TIME.sub("<time>", found)))


@pytest.fixture
async def places(both: Both, embedded_cluster: Cluster, real_cluster: Cluster) -> AsyncIterator[list[Place]]:
    name = f"{both.namespace}-node"
    found: list[Place] = []
    started: list[nodes.Nodes] = []
    clients = [Client(embedded_cluster.config), Client(real_cluster.config)]
    try:
        for client in clients:
            handles = await nodes.start(client, names=(name,), events=False)
            started.append(handles)
            found.append(Place(client, both.namespace, handles[name]))
        yield found
    finally:
        for handles in started:
            await handles.close()
        for client in clients:
            await client.close()


C = {"name": "c", "image": "app:1"}


@pytest.mark.parametrize(
    ("spec", "annotations", "text"),
    [
        ({"containers": [C]}, {}, '"ready": true'),
        ({"containers": [C], "restartPolicy": "Never"}, {}, "PodCompleted"),
        ({"containers": [C], "restartPolicy": "Never"}, {"exit-code": "2"}, "PodFailed"),
        ({"containers": [C]}, {"crash-loop": "true"}, "CrashLoopBackOff"),
        ({"containers": [C]}, {"image-pull-error": "none"}, "ImagePullBackOff"),
        ({"containers": [C], "initContainers": [{"name": "i", "image": "x"}]}, {}, '"ready": true, "restartCount": 0'),
        ({"containers": [C], "readinessGates": [{"conditionType": "a/b"}]}, {}, "ReadinessGatesNotReady"),
        ({"containers": [C], "activeDeadlineSeconds": 1}, {}, "DeadlineExceeded"),
    ],
)
async def test_a_pod_on_a_node_looks_the_same(
    places: list[Place], spec: dict[str, Any], annotations: dict[str, str], text: str
) -> None:
    asked = {PREFIX + name: value for name, value in annotations.items()}
    for place in places:
        await place.create("p", spec, asked)
    embedded, real = [await place.settled("p", text) for place in places]
    assert embedded == real


async def test_a_deleted_pod_goes_on_both(places: list[Place]) -> None:
    for place in places:
        await place.create("p", {"containers": [C]}, {})
        await place.settled("p", '"ready": true')
        await place.client.raw.request("DELETE", f"{place.pods}/p")
        async with asyncio.timeout(90):
            while await place.status("p") is not None:  # noqa: ASYNC110 - another process is watched
                await asyncio.sleep(0.05)
