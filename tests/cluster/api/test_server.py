"""The whole server: its state after requests, and that no request leads to an internal error."""

import asyncio
import json

from steersman.testing import virtual_time
from steersman_cluster.cluster import DevCluster, Options

from .conftest import MAPS, Listener
from .direct import Direct

SERVICES = "/api/v1/namespaces/default/services"


async def test_the_service_of_the_api_server_comes_back(listener: Listener):
    async with listener.connection() as connection:
        await connection.request("GET", f"{SERVICES}?watch=1")
        await connection.head()
        first = (await connection.events(1))[0]
        assert first["object"]["spec"]["clusterIP"] == "10.0.0.1"
        assert (await listener.ask("DELETE", f"{SERVICES}/kubernetes"))[0] == 200
        deleted, added = await connection.events(2)
        assert (deleted["type"], added["type"]) == ("DELETED", "ADDED")
        assert added["object"]["metadata"]["uid"] != first["object"]["metadata"]["uid"]


async def test_no_other_service_gets_its_address(listener: Listener):
    body = {"metadata": {"name": "mine"}, "spec": {"clusterIP": "10.0.0.1", "ports": [{"port": 1}]}}
    status, refusal = await listener.ask("POST", SERVICES, body)
    assert (status, refusal["reason"]) == (422, "Invalid")
    assert "provided IP is already allocated" in refusal["message"]


@virtual_time
async def test_bookmarks_tell_how_far_a_quiet_watch_is() -> None:
    loop = asyncio.get_running_loop()
    options = Options(listen=False, controllers=False, nodes=0)
    async with DevCluster.start(options, now=loop.time) as cluster, cluster.client() as client:
        query = (("watch", "1"), ("allowWatchBookmarks", "true"), ("timeoutSeconds", "150"), ("resourceVersion", "1"))
        path = "/api/v1/namespaces/default/configmaps"
        start, told = loop.time(), []
        async with client.raw.stream("GET", path, query=query, idle_timeout=90) as answer:
            other = json.dumps({"metadata": {"name": "other"}}).encode()
            await client.raw.request("POST", "/api/v1/namespaces/kube-system/secrets", body=other)
            async for chunk in answer.chunks:
                event = json.loads(chunk)
                told.append((round(loop.time() - start), event["type"]))
                assert event["object"]["metadata"]["resourceVersion"] == str(cluster.server.storage.revision)
        assert told == [(60, "BOOKMARK"), (120, "BOOKMARK"), (148, "BOOKMARK")]
        assert round(loop.time() - start) == 150


@virtual_time
async def test_no_bookmark_follows_the_end_of_a_watch() -> None:
    server = Direct()
    assert (await server.ask("POST", MAPS, {"metadata": {"name": "a"}})).status == 201
    watch = await server.watch(MAPS, allowWatchBookmarks="true", timeoutSeconds="150")
    assert [event["type"] for event in await watch.next()] == ["ADDED"]
    for ending in server.api.watches:
        ending.end()
    assert (await server.ask("POST", MAPS, {"metadata": {"name": "b"}})).status == 201
    await asyncio.sleep(70)  # the first bookmark would be due after 60 seconds
    assert await watch.rest() == []
