"""After a compaction: which revisions are 410 Gone, in which words, and which are still served from the watch cache."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from typing import Any
from urllib.parse import quote

import pytest

from steersman.testing import Cluster, ControlPlane, EmbeddedCluster, available

from .conftest import server_of
from .harness import Answer, Both, Server, compare

pytestmark = pytest.mark.slow

CONFIG_MAPS = "/api/v1/namespaces/{ns}/configmaps"
EVENTS = "/api/v1/namespaces/{ns}/events"


@pytest.fixture(scope="module")
def compacting() -> Iterator[Cluster]:
    """A real server that compacts every second. It forgets the lists of the past up to 15 seconds later."""
    if (reason := available()) is not None:
        pytest.skip(reason)
    flags = ["--etcd-compaction-interval=1s"]
    with ControlPlane.start(controller_manager=False, scheduler=False, apiserver_args=flags) as plane:
        yield plane


@pytest.fixture
async def pair(embedded_cluster: Cluster, compacting: Cluster) -> AsyncIterator[Both]:
    name = f"test-{os.urandom(5).hex()}"
    async with server_of("embedded", embedded_cluster) as embedded, server_of("real", compacting) as real:
        both = Both(embedded, real, name)
        for server in both.servers:
            answer = await server.ask("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
            assert answer.code == 201
        yield both


def event(name: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "involvedObject": {"kind": "Namespace", "name": "x", "namespace": "{ns}", "apiVersion": "v1"},
    }


async def asked(both: Both, path: str, query: str, values: tuple[Any, Any]) -> Answer:
    """The same request with a value that each server gave itself; demands the same answer."""
    path = path.replace("{ns}", both.namespace)
    embedded, real = await asyncio.gather(
        *(
            server.ask("GET", f"{path}?{query.format(quote(str(value)))}")
            for server, value in zip(both.servers, values, strict=True)
        )
    )
    compare(f"{path}?{query}", embedded, real)
    return embedded


async def test_revisions_before_a_compaction_are_gone(pair: Both, embedded_cluster: EmbeddedCluster):
    first = await pair.each("POST", CONFIG_MAPS, {"metadata": {"name": "a"}})
    await pair.each("POST", CONFIG_MAPS, {"metadata": {"name": "b"}})
    happened = await pair.each("POST", EVENTS, event("a"))
    page = await pair.each("GET", f"{CONFIG_MAPS}?limit=1")
    last = await pair.each("POST", EVENTS, event("b"))
    old, of_event, latest = (
        (one["metadata"]["resourceVersion"], other["metadata"]["resourceVersion"])
        for one, other in (first, happened, last)
    )
    token = (page[0]["metadata"]["continue"], page[1]["metadata"]["continue"])
    await pair.each("POST", CONFIG_MAPS, {"metadata": {"name": "c"}})

    async def compact() -> None:
        embedded_cluster.cluster.server.storage.compact()

    embedded_cluster.run(compact)
    await compacted(pair.real, CONFIG_MAPS.format(ns=pair.namespace), latest[1])

    assert (await asked(pair, CONFIG_MAPS, "resourceVersion={}&resourceVersionMatch=Exact", old)).code == 410
    assert (await asked(pair, CONFIG_MAPS, "resourceVersion={}&limit=1", old)).code == 410
    unchanged = "/api/v1/namespaces/{ns}/secrets"
    assert (await asked(pair, unchanged, "resourceVersion={}&resourceVersionMatch=Exact", latest)).code == 410
    newer = await asked(pair, CONFIG_MAPS, "resourceVersion={}&resourceVersionMatch=NotOlderThan", old)
    assert [item["metadata"]["name"] for item in newer["items"]] == ["a", "b", "c"]

    embedded, real = await asyncio.gather(
        *(
            server.ask("GET", f"{CONFIG_MAPS.format(ns=pair.namespace)}?limit=1&continue={quote(value)}")
            for server, value in zip(pair.servers, token, strict=True)
        )
    )
    compare("a further page", embedded, real, ignore=["metadata.continue"])
    assert embedded.code == 410

    watched = await asked(pair, EVENTS, "watch=1&timeoutSeconds=1&resourceVersion={}", of_event)
    assert watched["object"]["code"] == 410
    for server, revision in zip(pair.servers, old, strict=True):
        where = f"{CONFIG_MAPS.format(ns=pair.namespace)}?watch=1&timeoutSeconds=5&resourceVersion={revision}"
        events = await server.watch(where, 2)
        assert [change["object"]["metadata"]["name"] for change in events] == ["b", "c"], server.name


async def compacted(server: Server, path: str, revision: str) -> None:
    """Wait until the real server has compacted a revision, which its watch caches trigger every 15 seconds."""
    query = f"resourceVersion={revision}&resourceVersionMatch=Exact"
    async with asyncio.timeout(90):
        while True:
            if (await server.ask("GET", f"{path}?{query}")).code == 410:
                return
            await asyncio.sleep(0.5)
