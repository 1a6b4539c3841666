"""What users do with kubectl, as plain API calls on any cluster: apply, read, patch, scale, delete; synchronous."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from steersman.client import Client, NotFound
from steersman.client.config import load_config
from steersman.k8s import Deployment, Pod
from steersman.manifest_files import Manifest, load, parse, read
from steersman.models import MergePatch

from helloapp.api.v1.helloapp_types import HelloApp

T = TypeVar("T")


class Objects:
    """A namespace as the owner of `kubeconfig` may see and change it."""

    def __init__(self, kubeconfig: Path, namespace: str = "default") -> None:
        self.kubeconfig, self.namespace = kubeconfig, namespace

    def run(self, act: Callable[[Client], Awaitable[T]]) -> T:
        """One act with a client of its own, so that no connection outlives a killed API server."""

        async def go() -> T:
            async with Client(load_config(self.kubeconfig), field_manager="tester") as client:
                return await act(client)

        return asyncio.run(go())

    def apply(self, *what: Path | str | Mapping[str, Any]) -> None:
        """Apply files, directories, YAML texts or objects, in an order that works; raises for any that fails."""
        manifests: list[Manifest] = []
        for one in what:
            if isinstance(one, Path):
                found, problems = read([one])
                assert not problems, problems
                manifests += found
            else:
                manifests += parse(one, "text") if isinstance(one, str) else [Manifest("test", dict(one))]

        async def go(client: Client) -> None:
            async for outcome in load(client, manifests, namespace=self.namespace, force=True):
                assert outcome.action != "failed", f"{outcome.reference}: {outcome.error}"

        self.run(go)

    def get(self, kind: type[T], name: str) -> T | None:
        """An object, or None."""

        async def go(client: Client) -> T | None:
            try:
                return await client.get(kind, name, namespace=self.namespace)
            except NotFound:
                return None

        return self.run(go)

    def there(self, kind: type[T], name: str) -> T:
        """An object that must be there."""
        return self.run(lambda client: client.get(kind, name, namespace=self.namespace))

    def list(self, kind: type[T]) -> list[T]:
        """All of a kind."""

        async def go(client: Client) -> list[T]:
            return list((await client.list(kind, namespace=self.namespace)).items)

        return self.run(go)

    def patch(self, kind: type[Any], name: str, change: Mapping[str, Any]) -> None:
        """A merge patch."""
        self.run(lambda client: client.patch(kind, name, MergePatch(change), namespace=self.namespace))

    def scale(self, kind: type[Any], name: str, replicas: int) -> None:
        """Through the scale sub-resource, as `kubectl scale` does."""
        self.run(lambda client: client.set_scale(kind, name, replicas, namespace=self.namespace))

    def delete(self, kind: type[Any], name: str, *, propagation: Any = "Background") -> None:
        """Delete; does not wait."""
        self.run(lambda client: client.delete(kind, name, namespace=self.namespace, propagation=propagation))

    def settled(self, name: str, size: int) -> bool:
        """Whether HelloApp, its status, Deployment and Pods agree on `size`."""
        app, deployment = self.get(HelloApp, name), self.get(Deployment, name)
        if app is None or deployment is None:
            return False
        pods = sorted(p.metadata.name for p in self.list(Pod) if p.metadata.deletion_timestamp is None)
        return (
            deployment.spec.replicas == size
            and len(pods) == size
            and list(app.status.pods) == pods
            and app.status.ready_replicas == size
            and app.status.observed_generation == app.metadata.generation
            and [c.status for c in app.status.conditions if c.type == "Ready"] == ["True"]
        )
