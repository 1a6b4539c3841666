"""The controllers against an API server: real or embedded, in a thread of their own, with two pretended nodes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from steersman.client import ApiError, Client
from steersman.client.config import load_config
from steersman.k8s import ServiceAccount
from steersman.models import JsonPatch, MergePatch, key_of
from steersman_cluster.controllers.thread import running

from .api_servers import plane_of

CA = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"


class Lab:
    """One namespace, and the words of the tests."""

    def __init__(self, client: Client, namespace: str, plane: Any) -> None:
        self.client = client
        self.namespace = namespace
        self.plane = plane

    async def create(self, kind: Any, body: dict[str, Any]) -> Any:
        info = kind.__resource__
        metadata = {**({"namespace": self.namespace} if info.namespaced else {}), **body.get("metadata", {})}
        body = {**body, "apiVersion": info.api_version, "kind": info.kind, "metadata": metadata}
        return await self.client.create(body, kind=kind)

    async def get(self, kind: Any, name: str) -> Any:
        return await self.client.get(kind, name, namespace=self.namespace)

    async def find(self, kind: Any, name: str) -> Any:
        """The object, or `None`."""
        try:
            return await self.get(kind, name)
        except ApiError as problem:
            if problem.code != 404:
                raise
            return None

    async def list(self, kind: Any, **selectors: Any) -> list[Any]:
        page = await self.client.list(kind, namespace=self.namespace, **selectors)
        return sorted(page.items, key=key_of)

    async def patch(self, kind: Any, name: str, body: Any, **options: Any) -> Any:
        patch = JsonPatch(body) if isinstance(body, list) else MergePatch(body)
        return await self.client.patch(kind, name, patch, namespace=self.namespace, **options)

    async def delete(self, kind: Any, name: str, **options: Any) -> None:
        await self.client.delete(kind, name, namespace=self.namespace, **options)

    async def until(self, kind: Any, name: str, condition: Callable[[Any], Any], what: str = "") -> Any:
        """Wait until an object exists and fits; fails with how it is."""
        seen: list[Any] = []

        async def look() -> Any:
            obj = await self.find(kind, name)
            seen[:] = [obj]
            return obj if obj is not None and condition(obj) else None

        return await self.eventually(look, lambda: f"{kind.__name__} {name} {what}: {seen[0]!r}")

    async def eventually(self, look: Callable[[], Any], what: str | Callable[[], str], within: float = 120.0) -> Any:
        """Wait for what a function (which may be async) says; fails with `what`."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within
        while True:
            found = look()
            if asyncio.iscoroutine(found):
                found = await found
            if found:
                return found
            assert loop.time() < deadline, f"after {within:g} s still not: {what() if callable(what) else what}"
            await asyncio.sleep(0.04)


@pytest.fixture(scope="session", params=["real", "embedded"])
def plane(request: pytest.FixtureRequest) -> Iterator[Any]:
    """An API server without controllers; ours run against it."""
    options = {"serviceaccount": {"ca_bundle": CA}}
    with plane_of(request.param, 2) as cluster, running(cluster.config, options=options):
        yield cluster


@pytest.fixture
async def lab(plane: Any) -> AsyncIterator[Lab]:
    name = f"test-{os.urandom(5).hex()}"
    async with Client(load_config(plane.kubeconfig)) as client:
        lab = Lab(client, name, plane)
        await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        await lab.until(ServiceAccount, "default", lambda _: True)
        yield lab
        await client.raw.request("DELETE", f"/api/v1/namespaces/{name}")
