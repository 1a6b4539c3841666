"""Informers that are removed at run time: a namespace that leaves a selector, a kind without readers."""

import asyncio

import pytest
from cache_fakeserver import FakeServer, cached, change_names, widget_view

from steersman.cache import Cache, NotCachedError
from steersman.cache.informer import Scope
from steersman.client.hooks import WriteOutcome
from steersman.models import ALL_NAMESPACES, Key
from steersman.telemetry.registry import REGISTRY
from steersman.testing import virtual_time

WIDGET = widget_view()
A = Key("x", "a")


async def two_namespaces():
    """A started cache over the namespaces x and y, each with one object, and its servers."""
    servers = {}
    cache = Cache(None, sources=lambda _info, scope: servers.setdefault(scope, FakeServer()))
    informers = {space: cache.informer(WIDGET, namespace=space) for space in ("x", "y")}
    await cache.start()
    for space in ("x", "y"):
        servers[Scope(space)].put("a", space)
    await cache.wait_synced(5)
    return cache, informers, {scope.namespace: server for scope, server in servers.items()}


@virtual_time
async def test_a_dropped_informer_is_neither_watched_nor_read():
    """C6: reads of its scope are refused again; those of others go on."""
    cache, informers, servers = await two_namespaces()
    heard = []
    informers["x"].add_handler(heard.append)
    assert len(cache.list(WIDGET, namespace=ALL_NAMESPACES)) == 2
    cache.drop(informers["x"])
    cache.drop(informers["x"])
    servers["x"].put("b", "x")
    servers["y"].put("b", "y")
    await asyncio.sleep(100)
    assert servers["x"].streams == []
    assert change_names(heard) == ["add a"]
    assert cache.informers == (informers["y"],)
    assert not cache.caches(WIDGET, namespace="x")
    with pytest.raises(NotCachedError):
        cache.get(WIDGET, A)
    assert {o.metadata.namespace for o in cache.list(WIDGET, namespace=ALL_NAMESPACES)} == {"y"}
    assert not informers["x"].synced
    assert len(servers["y"].streams) == 1
    cache.drop(informers["y"])
    with pytest.raises(NotCachedError):
        cache.list(WIDGET, namespace=ALL_NAMESPACES)
    await cache.close()


@virtual_time
async def test_a_dropped_informer_can_be_declared_again():
    """W11: the same arguments then make a new informer, with a store and handlers of its own."""
    cache, informers, servers = await two_namespaces()
    cache.drop(informers["x"])
    servers["x"].put("b", "x")
    again = cache.informer(WIDGET, namespace="x")
    assert again is not informers["x"]
    heard = []
    again.add_handler(heard.append)
    await cache.wait_synced(5)
    assert change_names(heard) == ["add a", "add b"]
    assert cache.get(WIDGET, A) is not None
    await cache.close()


@virtual_time
async def test_a_handler_may_drop_its_informer_in_the_middle_of_a_chunk():
    """C3: neither the next handler nor the next event of that chunk is delivered."""
    server = FakeServer()
    async with cached(server) as (cache, informer, _):
        await cache.wait_synced(5)
        heard = []

        def dropping(change):
            heard.append(change.key.name)
            cache.drop(informer)

        informer.add_handler(dropping)
        informer.add_handler(heard.append)
        for name in "abc":
            server.put(name)
        await asyncio.sleep(5)
        assert heard == ["a"]
        assert server.streams == []
        informer.add_handler(heard.append)
        assert heard == ["a"]


@virtual_time
async def test_a_handler_may_drop_its_informer_while_the_first_list_is_told():
    """C3: the rest of the list is not delivered, and no reader waits for it."""
    server = FakeServer()
    for i in range(2500):
        server.put(f"w{i}")
    async with cached(server) as (cache, informer, changes):
        informer.add_handler(lambda change: cache.drop(informer) if change.key.name == "w1200" else None)
        waiting = asyncio.create_task(cache.wait_synced(60, [informer]))
        await waiting
        assert not informer.synced
        await asyncio.sleep(5)
        told = {c.key.name for c in changes}
        assert "w1200" in told
        assert len(told) < 2500


@virtual_time
async def test_nobody_waits_for_a_write_to_arrive_in_a_dropped_informer():
    """C2: its readers go on at once."""
    cache, informers, servers = await two_namespaces()
    servers["x"].silence()
    [ended] = cache._observer.before_write(WIDGET.info, A, "apply")
    meta = servers["x"].put("a", "x", size=2)["metadata"]
    ended(WriteOutcome(meta["uid"], meta["resourceVersion"]))
    [late] = cache._observer.before_write(WIDGET.info, A, "apply")
    reader = asyncio.create_task(cache.read_barrier(WIDGET, A, timeout=1000))
    await asyncio.sleep(1)
    assert not reader.done()
    cache.drop(informers["x"])
    assert await reader is True
    late(WriteOutcome(meta["uid"], "999"))
    assert not cache.outstanding(WIDGET, A)
    await cache.close()


@virtual_time
async def test_a_dropped_informer_is_measured_no_more_until_it_is_declared_again():
    cache, informers, _ = await two_namespaces()
    labels = {"kind": "Widget.widgets.example.com", "scope": "namespace=x"}

    def objects():
        return REGISTRY.get_sample_value("steersman_informer_objects", labels)

    assert objects() == 1
    cache.drop(informers["x"])
    assert objects() is None
    cache.informer(WIDGET, namespace="x")
    await cache.wait_synced(5)
    assert objects() == 1
    await cache.close()


@virtual_time
async def test_an_informer_can_be_dropped_before_the_cache_starts():
    server = FakeServer()
    async with cached(server, start=False) as (cache, informer, _):
        cache.drop(informer)
        await cache.start()
        await asyncio.sleep(5)
        assert server.log == []
