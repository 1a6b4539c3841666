"""An operator on a real API server, in the test's own event loop."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from steersman import Operator, run_operator
from steersman.client import Client
from steersman.client.config import load_config
from steersman.models import info_of
from steersman.operator import Settings
from steersman.telemetry.log import configure


def crd(kind: Any, *, status: bool = True) -> dict[str, Any]:
    """A CustomResourceDefinition that takes anything."""
    info = info_of(kind)
    version: dict[str, Any] = {
        "name": info.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
    }
    if status:
        version["subresources"] = {"status": {}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": info.crd_name},
        "spec": {
            "group": info.group,
            "scope": "Namespaced" if info.namespaced else "Cluster",
            "names": {"plural": info.plural, "kind": info.kind, "singular": info.singular},
            "versions": [version],
        },
    }


async def eventually(condition: Callable[[], Any], what: str, within: float = 120.0) -> Any:
    """Wait for a condition (which may be async) on real time; fails with `what`."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within
    while True:
        found = condition()
        if asyncio.iscoroutine(found):
            found = await found
        if found:
            return found
        assert loop.time() < deadline, f"after {within:g} s still not: {what}"
        await asyncio.sleep(0.03)


class Environment:
    """A cluster with a namespace for the test, and operators in it."""

    def __init__(self, control_plane: Any, namespace: str, client: Client, log: io.StringIO) -> None:
        self.plane = control_plane
        self.namespace = namespace
        self.client = client
        self.log = log
        self.eventually = eventually
        self._running: list[tuple[Operator, asyncio.Event, asyncio.Task[None]]] = []
        self._forgiven: list[asyncio.Task[None]] = []

    async def install(self, kind: Any, *, status: bool = True) -> None:
        """Install the kind's CRD and wait until it is served."""
        await asyncio.to_thread(self.plane.kubectl, "apply", "-f", "-", input=json.dumps(crd(kind, status=status)))
        await asyncio.to_thread(
            self.plane.kubectl, "wait", "--for=condition=Established", f"crd/{info_of(kind).crd_name}"
        )

    def settings(self, **changes: Any) -> Settings:
        values: dict[str, Any] = {
            "namespaces": (self.namespace,),
            "lease_namespace": self.namespace,
            "metrics_bind_address": "0",
            "health_probe_bind_address": "0",
            "gc_tuning": False,
            "shutdown_grace": 5.0,
        }
        return Settings(**(values | changes))

    @asynccontextmanager
    async def running(
        self, operator: Operator, *, kubeconfig: Any = None, **changes: Any
    ) -> AsyncIterator[asyncio.Task[None]]:
        """A replica for the time of a block; `await env.stop(operator)` ends the oldest one of an operator early."""
        stop = asyncio.Event()
        config = load_config(kubeconfig or self.plane.kubeconfig)
        task = asyncio.create_task(run_operator(operator, config, self.settings(**changes), stop=stop))
        self._running.append((operator, stop, task))
        try:
            yield task
        finally:
            stop.set()
            async with asyncio.timeout(90):
                await asyncio.gather(task, return_exceptions=True)
            self._running = [r for r in self._running if r[2] is not task]
        if task not in self._forgiven:
            await task

    async def stop(self, operator: Operator) -> None:
        """Shut a running replica down and wait for its end."""
        for known, stop, task in self._running:
            if known is operator:
                stop.set()
                await task

    def forgive(self, task: asyncio.Task[None]) -> None:
        """This replica is meant to end with an error."""
        self._forgiven.append(task)


@pytest.fixture
async def env(control_plane: Any, namespace: str) -> AsyncIterator[Environment]:
    log = io.StringIO()
    configure(level="info", format="json", stream=log)
    async with Client(load_config(control_plane.kubeconfig)) as client:
        yield Environment(control_plane, namespace, client, log)
    configure()
    print(log.getvalue())
