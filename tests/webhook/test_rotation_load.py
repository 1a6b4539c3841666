"""Rotation under load: authorities change and replicas restart while an API server asks; every request is answered.

The API server reaches the replicas as in a cluster: by a Service, verifying its name, over connections that it keeps.
A forwarder stands for the Service's endpoints; one that is about to stop is taken out first.
"""

import asyncio
import itertools
import os
from contextlib import suppress

import pytest

from steersman import Operator, replace
from steersman.client import Client
from steersman.k8s import ConfigMap
from steersman.models import dynamic
from steersman.operator import Settings
from steersman.operator.run import Replica
from steersman.testing import eventually
from steersman.webhook import ClientConfig, configurations

from .certificate_environment import CertificateEnvironment, soon

pytestmark = pytest.mark.parametrize("server", ["embedded", pytest.param("real", marks=pytest.mark.realcluster)])

CONCURRENT_WRITERS = 16
REQUESTS = int(os.environ.get("STEERSMAN_ROTATION_REQUESTS", "400"))
"""At least so many; 10,000 are for a machine that has time."""


class Endpoints:
    """Forwards connections to those replicas that take new ones."""

    def __init__(self):
        self.ports = []
        self.turns = itertools.count()
        self.opened = 0
        self.tasks = set()

    async def start(self):
        self.server = await asyncio.start_server(self.forward, "127.0.0.1", 0)
        return self.server.sockets[0].getsockname()[1]

    async def forward(self, reader, writer):
        self.opened += 1
        task = asyncio.current_task()
        self.tasks.add(task)
        ends = [writer]
        try:
            port = self.ports[next(self.turns) % len(self.ports)]
            there, here = await asyncio.open_connection("127.0.0.1", port)
            ends.append(here)
            await asyncio.gather(self.copy(reader, here), self.copy(there, writer))
        finally:
            for end in ends:
                end.close()
            self.tasks.discard(task)

    async def copy(self, source, target):
        with suppress(OSError):
            while data := await source.read(65536):
                target.write(data)
                await target.drain()
        target.close()

    async def close(self):
        self.server.close()
        tasks = list(self.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # in which the transports close


def marking(name):
    operator = Operator(name)

    @operator.mutator(on="create")
    async def mark(obj: ConfigMap) -> ConfigMap:
        return replace(obj, data={**obj.data, "seen": "yes"})

    return operator


class Replicas:
    """Replicas of one operator in this loop, of which one at a time is replaced."""

    def __init__(self, operator, config, settings, endpoints):
        self.operator, self.config, self.settings, self.endpoints = operator, config, settings, endpoints
        self.running, self.tasks = [], []

    async def add(self):
        stop = asyncio.Event()
        replica = Replica(self.operator, self.config, self.settings)
        task = asyncio.create_task(replica.run(stop))
        self.tasks.append((stop, task))

        def serves():
            if task.done():
                task.result()
            return replica._webhooks is not None and replica._webhooks._server is not None

        await soon(serves)
        port = replica._webhooks._server.address[1]
        self.endpoints.ports.append(port)
        self.running.append((port, stop, task))

    async def end_oldest(self):
        port, stop, task = self.running.pop(0)
        self.endpoints.ports.remove(port)
        stop.set()
        await task

    async def end(self):
        for stop, _ in self.tasks:
            stop.set()
        await asyncio.gather(*(task for _, task in self.tasks))


@pytest.mark.slow
async def test_rotation_under_load_fails_no_request(server, cluster):
    """H1: two authorities follow the first while replicas restart; no request fails, and none goes unseen."""
    wanted, config, namespace = REQUESTS, cluster.config, cluster.namespace
    async with Client(config) as client:
        environment = CertificateEnvironment(client, namespace)
        environment.service = f"{environment.name}-webhook"
        endpoints = Endpoints()
        port = await endpoints.start()
        operator = marking(environment.name)
        settings = Settings(
            leader_elect=False,
            lease_namespace=namespace,
            namespaces=(namespace,),
            metrics_bind_address="0",
            health_probe_bind_address="0",
            webhook_bind_address="127.0.0.1:0",
            webhook_mode="cluster",
            webhook_cert_settle=1.0,
            gc_tuning=False,
        )
        replicas = Replicas(operator, config, settings, endpoints)
        try:
            for _ in range(2):
                await replicas.add()
            await register(environment, operator, port)
            await answered(client, namespace)
            counted = await under_load(client, namespace, wanted, disturb(environment, replicas, wanted))
            assert counted >= wanted
            assert endpoints.opened > 6
        finally:
            await environment.end()
            await endpoints.close()
            await replicas.end()


async def register(environment, operator, port):
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": environment.service, "namespace": environment.namespace},
        "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]},
    }
    await environment.client.create(service)
    where = ClientConfig(service=(environment.namespace, environment.service, port))
    (document,) = configurations(operator.webhook_rules, name=operator.name, client_config=where)
    for webhook in document["webhooks"]:
        webhook["namespaceSelector"] = {"matchLabels": {"kubernetes.io/metadata.name": environment.namespace}}
    view = dynamic(document["apiVersion"], document["kind"], namespaced=False)
    await environment.client.create(document, kind=view)
    environment.made.append((view, document["metadata"]["name"]))


def configmap(namespace, name):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}}


async def answered(client, namespace):
    """Wait until the configuration is in force, and its bundle has been injected."""

    async def seen():
        made = await client.create(configmap(namespace, "first"), dry_run=True)
        return (made.body.get("data") or {}).get("seen") == "yes"

    await eventually(seen, within=30)


async def under_load(client, namespace, wanted, disturbance):
    """Ask, sixteen at a time, at least `wanted` times and until the disturbance is over."""
    pause = 0.1 if wanted < 5000 else 0.0  # a rotation takes its time, however few are wanted
    count, over = itertools.count(1), asyncio.create_task(disturbance(lambda: done))
    done = 0

    async def ask():
        nonlocal done
        while done < wanted or not over.done():
            made = await client.create(configmap(namespace, f"m-{next(count)}"), dry_run=True)
            assert made.body["data"] == {"seen": "yes"}
            done += 1
            if done > wanted // 2 and not over.done():
                await asyncio.sleep(pause)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(CONCURRENT_WRITERS):
                group.create_task(ask())
            group.create_task(_finish(over))
    finally:
        over.cancel()
    return done


async def _finish(over):
    await over


def disturb(environment, replicas, wanted):
    async def go(done):
        for turn in range(2):
            await soon(lambda turn=turn: done() >= wanted * (turn + 1) // 4)
            rotating = asyncio.create_task(environment.rotate())
            while not rotating.done():
                await replicas.add()
                await replicas.end_oldest()
            await rotating
            await replicas.add()
            await replicas.end_oldest()

    return go
