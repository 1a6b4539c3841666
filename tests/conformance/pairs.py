"""One scenario on two clusters: with the controllers of Kubernetes, and with ours."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

import pytest

from steersman.client import ApiError, Client
from steersman.models import Dynamic, MergePatch, dynamic, encode

from .harness import _differences, normalise

__all__ = ["VIEWS", "Pair"]

VIEWS = {
    "deployments": dynamic("apps/v1", "Deployment"),
    "replicasets": dynamic("apps/v1", "ReplicaSet"),
    "statefulsets": dynamic("apps/v1", "StatefulSet"),
    "daemonsets": dynamic("apps/v1", "DaemonSet"),
    "controllerrevisions": dynamic("apps/v1", "ControllerRevision"),
    "jobs": dynamic("batch/v1", "Job"),
    "cronjobs": dynamic("batch/v1", "CronJob"),
    "pods": dynamic("v1", "Pod"),
    "services": dynamic("v1", "Service"),
    "endpoints": dynamic("v1", "Endpoints"),
    "endpointslices": dynamic("discovery.k8s.io/v1", "EndpointSlice"),
    "configmaps": dynamic("v1", "ConfigMap"),
    "serviceaccounts": dynamic("v1", "ServiceAccount"),
    "poddisruptionbudgets": dynamic("policy/v1", "PodDisruptionBudget"),
    "persistentvolumeclaims": dynamic("v1", "PersistentVolumeClaim"),
    "replicationcontrollers": dynamic("v1", "ReplicationController"),
}
_HASH = re.compile(r"\b(web|db|agent|work-\d)-[bcdfghjklmnpqrstvwxz2456789]{5,10}(-[a-z0-9]{5})?\b")


class Pair:
    """The same namespace in both clusters."""

    def __init__(self, clients: list[Client], namespace: str) -> None:
        self.clients = clients
        self.namespace = namespace

    async def each(self, action: Callable[[Client], Any]) -> list[Any]:
        return list(await asyncio.gather(*(action(client) for client in self.clients)))

    async def create(self, plural: str, body: dict[str, Any]) -> None:
        view = VIEWS[plural]
        whole = {**body, "apiVersion": view.info.api_version, "kind": view.info.kind}
        whole["metadata"] = {**body["metadata"], "namespace": self.namespace}
        await self.each(lambda client: client.create(whole, kind=view))

    async def patch(self, plural: str, name: str, body: Any) -> None:
        await self.each(lambda client: client.patch(VIEWS[plural], name, MergePatch(body), namespace=self.namespace))

    async def delete(self, plural: str, name: str) -> None:
        await self.each(
            lambda client: client.delete(VIEWS[plural], name, namespace=self.namespace, propagation="Background")
        )

    async def settle(self, plural: str, name: str, check: Callable[[Dynamic], Any]) -> None:
        """Wait until an object fits in both clusters."""

        async def wait(client: Client) -> None:
            for _ in range(600):
                try:
                    found = await client.get(VIEWS[plural], name, namespace=self.namespace)
                    if check(found):
                        return
                except ApiError as problem:
                    if problem.code != 404:
                        raise
                await asyncio.sleep(0.05)
            pytest.fail(f"{client}: {plural}/{name} does not settle: {encode(found).decode()}")

        await self.each(wait)

    async def eventually(self, client: Client, look: Callable[[Client], Any]) -> Any:
        """Wait until `await look(client)` is true, and return it."""
        for _ in range(600):
            if found := await look(client):
                return found
            await asyncio.sleep(0.05)
        pytest.fail(f"{client}: {look.__qualname__} does not become true")

    async def same(self, *plurals: str, ignore: tuple[str, ...] = ()) -> None:
        """Demand that the objects of these kinds end up the same."""
        problem: AssertionError | None = None
        for _ in range(100):
            try:
                await self._compare(plurals, ignore)
            except AssertionError as found:
                problem = found
                await asyncio.sleep(0.1)
            else:
                return
        assert problem is not None
        raise problem

    async def _compare(self, plurals: tuple[str, ...], ignore: tuple[str, ...]) -> None:
        for plural in plurals:
            ours, real = await self.each(lambda client, plural=plural: self._all(client, plural, ignore))
            different = list(_differences(ours, real, plural))
            assert not different, "\n".join(different)

    async def _all(self, client: Client, plural: str, ignore: tuple[str, ...]) -> list[Any]:
        page = await client.list(VIEWS[plural], namespace=self.namespace)
        return sorted((_plain(item.body, ignore) for item in page.items), key=str)


def _plain(body: Any, ignore: tuple[str, ...]) -> Any:
    """An object without what differs between any two runs: hashes, names, times, addresses, versions."""
    whole = _renamed(normalise(dict(body)))
    whole["metadata"].pop("managedFields", None)
    whole["metadata"].pop("generation", None)
    whole.get("status", {}).pop("observedGeneration", None)
    for path in ignore:
        _drop(whole, path.split("."))
    conditions = whole.get("status", {}).get("conditions")
    if conditions:
        whole["status"]["conditions"] = sorted(conditions, key=lambda c: c["type"])
    return whole


def _drop(value: Any, path: list[str]) -> None:
    if isinstance(value, list):
        for item in value:
            _drop(item, path)
    elif isinstance(value, dict) and len(path) == 1:
        value.pop(path[0], None)
    elif isinstance(value, dict):
        for name in list(value) if path[0] == "*" else [path[0]]:
            _drop(value.get(name), path[1:])


def _renamed(value: Any) -> Any:
    if isinstance(value, dict):
        hashes = ("pod-template-hash", "controller-revision-hash", "controller.kubernetes.io/hash")
        return {k: "<hash>" if k in hashes else _renamed(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_renamed(item) for item in value]
    return _HASH.sub(r"\1-<hash>", value) if isinstance(value, str) else value
