"""Two servers for the session: the embedded one in a thread, and a real kube-apiserver with etcd."""

import asyncio
import os
import ssl
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import aiohttp
import pytest

from steersman.client import Client
from steersman.client.config import load_config
from steersman.testing import Cluster, ControlPlane, available
from steersman_cluster.controllers.thread import running

from .harness import Both, Server
from .pairs import Pair

KNOWN_GAPS: dict[str, str] = {}
"""Cases that fail, and why; docs/conformance.md has them too. One that passes must leave this list."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "/conformance/" not in str(item.path):
            continue
        item.add_marker(pytest.mark.realcluster)
        if (why := KNOWN_GAPS.get(item.name)) is not None:
            item.add_marker(pytest.mark.xfail(reason=why, strict=True))


@pytest.fixture(scope="session")
def real_cluster() -> Iterator[Cluster]:
    """kube-apiserver and etcd, without controllers: nothing changes but by the test."""
    if (reason := available()) is not None:
        pytest.skip(reason)
    with ControlPlane.start(controller_manager=False, scheduler=False) as plane:
        yield plane


@pytest.fixture(scope="session")
def embedded_cluster() -> Iterator[Cluster]:
    """The embedded API server, without controllers and nodes."""
    from steersman.testing import EmbeddedCluster

    with EmbeddedCluster.start(controllers=False, nodes=0) as cluster:
        yield cluster


@pytest.fixture
async def both(embedded_cluster: Cluster, real_cluster: Cluster) -> AsyncIterator[Both]:
    """Both servers, and a namespace with a default ServiceAccount on each."""
    name = f"test-{os.urandom(5).hex()}"
    async with server_of("embedded", embedded_cluster) as embedded, server_of("real", real_cluster) as real:
        pair = Both(embedded, real, name)
        for server in pair.servers:
            await _made(server, "/api/v1/namespaces", name)
            await _made(server, f"/api/v1/namespaces/{name}/serviceaccounts", "default")
        yield pair


async def _made(server: Server, path: str, name: str) -> None:
    """Make an object before the test begins.

    The real server may still enforce a policy or a webhook that the test before has taken away: ask until it is over.
    """
    async with asyncio.timeout(90):
        while (answer := await server.ask("POST", path, {"metadata": {"name": name}})).code not in (201, 409):
            assert answer.code in (403, 404, 500), f"{server.name}: {path} {name}: {answer.body}"
            await asyncio.sleep(0.1)


@pytest.fixture
async def real(real_cluster: Cluster) -> AsyncIterator[Server]:
    """The real server alone."""
    async with server_of("real", real_cluster) as server:
        yield server


@asynccontextmanager
async def server_of(name: str, cluster: Cluster) -> AsyncIterator[Server]:
    config = cluster.config
    assert config.tls.ca_pem is not None
    context = ssl.create_default_context(cadata=config.tls.ca_pem.decode())
    headers = await config.auth.headers()
    if (certificate := config.auth.client_certificate()) is not None:
        with tempfile.NamedTemporaryFile() as pem:
            pem.write(certificate.cert_pem + certificate.key_pem)
            pem.flush()
            context.load_cert_chain(pem.name)
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=context, limit=0), headers=headers, auto_decompress=True
    ) as session:
        yield Server(name, config.server.rstrip("/"), session)


@pytest.fixture(scope="module")
def planes() -> Iterator[tuple[Any, Any]]:
    """One cluster with our controllers, one with the real ones."""
    if (reason := available("kube-controller-manager", "kube-scheduler")) is not None:
        pytest.skip(reason)
    with (
        ControlPlane.start(controller_manager=False, scheduler=False) as ours,
        ControlPlane.start(controller_manager=True, scheduler=True) as real,
    ):
        for plane in (ours, real):
            plane.add_node("node-1", cpu="8", memory="16Gi", pods=500)
        with running(ours.config, options={"serviceaccount": {"ca_bundle": "x"}}):
            yield ours, real


@pytest.fixture
async def pair(planes: tuple[Any, Any]) -> AsyncIterator[Pair]:
    name = f"test-{os.urandom(5).hex()}"
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(Client(load_config(plane.kubeconfig))) for plane in planes]
        pair = Pair(clients, "same")
        pair.namespace = name
        for client in clients:
            await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        await pair.settle("serviceaccounts", "default", lambda _: True)
        await pair.settle("configmaps", "kube-root-ca.crt", lambda _: True)
        yield pair
        for client in clients:
            await client.raw.request("DELETE", f"/api/v1/namespaces/{name}")
