"""A real control plane for nodes to join, and a namespace for each test."""

import json
import os
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from steersman.client import Client, NotFound
from steersman.testing import Cluster, ControlPlane, available


@pytest.fixture(scope="session")
def node_cluster() -> Iterator[Cluster]:
    """kube-apiserver, etcd and the controllers, without nodes."""
    if (reason := available()) is not None:
        pytest.skip(reason)
    with ControlPlane.start(scheduler=False, ready_after=None) as plane:
        yield plane


class Api:
    """Requests in few words, in a namespace of the test's own."""

    def __init__(self, client: Client, cluster: Cluster, namespace: str) -> None:
        self.client = client
        self.cluster = cluster
        self.namespace = namespace

    async def send(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Any:
        data = None if body is None else json.dumps(body).encode()
        response = await self.client.raw.request(method, path, body=data, content_type=content_type)
        return json.loads(response.body)

    def path(self, plural: str, name: str = "") -> str:
        return f"/api/v1/namespaces/{self.namespace}/{plural}" + (f"/{name}" if name else "")

    async def create(self, plural: str, name: str, **fields: Any) -> Any:
        annotations = fields.pop("annotations", {})
        labels = fields.pop("labels", {})
        metadata = {"name": name, "annotations": annotations, "labels": labels}
        return await self.send("POST", self.path(plural), {"metadata": metadata, **fields})

    async def pod(self, name: str, node: str, *containers: dict[str, Any], **spec: Any) -> Any:
        annotations = spec.pop("annotations", {})
        spec = {"nodeName": node, "terminationGracePeriodSeconds": 2, **spec, "containers": list(containers)}
        return await self.create("pods", name, spec=spec, annotations=annotations, labels={"app": name})

    async def merge(self, plural: str, name: str, patch: Any) -> Any:
        return await self.send("PATCH", self.path(plural, name), patch, "application/merge-patch+json")

    async def get(self, plural: str, name: str) -> Any:
        try:
            return await self.send("GET", self.path(plural, name))
        except NotFound:
            return None


@pytest.fixture
async def api(node_cluster: Cluster) -> AsyncIterator[Api]:
    name = f"nodes-{os.urandom(4).hex()}"
    node_cluster.create_namespace(name)
    async with Client(node_cluster.config) as client:
        yield Api(client, node_cluster, name)
