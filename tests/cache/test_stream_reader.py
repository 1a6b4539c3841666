"""Events that come thick and fast are taken in together; a trickle, a backlog and a waiting reader are not held up."""

import asyncio

import pytest
from cache_fakeserver import FakeServer, cached, content, truth, widget_view

from steersman.cache.stream_reader import BATCH_SECONDS
from steersman.client.hooks import WriteOutcome
from steersman.models import Key
from steersman.testing import virtual_time

WIDGET = widget_view()


async def load(server, informer, rate, events):
    """Change objects at a steady rate; returns the delay of each event, and the moments at which any was told."""
    time = asyncio.get_running_loop().time
    sent, delays, moments = {}, [], set()

    def handler(change):
        if not change.initial:
            delays.append(time() - sent[change.new.resource_version])
            moments.add(time())

    informer.add_handler(handler)
    start = time()
    for i in range(events):
        await asyncio.sleep(start + i / rate - time())
        sent[server.put(f"w{i % 20}", size=i)["metadata"]["resourceVersion"]] = time()
    await asyncio.sleep(1)
    informer.remove_handler(handler)
    assert len(delays) == events
    return delays, moments


@virtual_time
async def test_events_that_come_fast_are_taken_in_together():
    """W3: each event is delivered once, in order, and at the latest at the end of its batch."""
    server = FakeServer()
    async with cached(server) as (cache, informer, _):
        await cache.wait_synced(5)
        delays, moments = await load(server, informer, 3000, 6000)
        assert len(moments) < 2000, "few turns for many events, once the rush is noticed"
        assert max(delays) <= BATCH_SECONDS + 1e-6
        assert content(informer) == truth(server)


@pytest.mark.parametrize("rate", [5, 50, 500])
def test_events_that_trickle_in_are_told_at_once(rate):
    """W3: nothing changes where gathering would not pay."""

    @virtual_time
    async def run():
        server = FakeServer()
        async with cached(server) as (cache, informer, _):
            await cache.wait_synced(5)
            delays, moments = await load(server, informer, rate, 200)
            assert max(delays) == 0
            assert len(moments) == 200

    run()


@virtual_time
async def test_after_the_rush_events_are_told_at_once_again():
    server = FakeServer()
    async with cached(server) as (cache, informer, changes):
        await cache.wait_synced(5)
        await load(server, informer, 3000, 1500)
        server.put("w0")
        await asyncio.sleep(0)
        changes.clear()
        await asyncio.sleep(1)
        server.put("w0", size=7)
        for _ in range(5):
            await asyncio.sleep(0)
        assert len(changes) == 1


@virtual_time
async def test_a_trickle_after_a_big_initial_list_is_told_at_once():
    """W3: the rate before a pause does not affect the present rate."""
    server = FakeServer()
    for i in range(5000):
        server.put(f"old{i}")
    async with cached(server) as (cache, informer, _):
        await cache.wait_synced(5)
        await asyncio.sleep(1)
        delays, _ = await load(server, informer, 500, 300)
        assert max(delays) == 0


@virtual_time
async def test_a_reader_of_an_own_write_waits_no_longer_than_the_gathering():
    """C2: and while a reader waits, events are not batched."""
    server = FakeServer()
    async with cached(server) as (cache, _, _):
        await cache.wait_synced(5)
        time = asyncio.get_running_loop().time

        async def rush():
            for i in range(6000):
                server.put(f"w{i % 20}", size=i)
                await asyncio.sleep(0.0005)

        rushing = asyncio.create_task(rush())
        await asyncio.sleep(1)
        for i in range(50):
            await asyncio.sleep(0.0137)
            key = Key("default", f"own{i}")
            [ended] = cache._observer.before_write(WIDGET.info, key, "apply")
            meta = server.put(key.name)["metadata"]
            ended(WriteOutcome(meta["uid"], meta["resourceVersion"]))
            sent = time()
            assert await cache.read_barrier(WIDGET, key)
            assert time() - sent <= BATCH_SECONDS + 1e-6
        rushing.cancel()
        await asyncio.wait([rushing])


@virtual_time
async def test_a_backlog_is_read_without_pauses():
    """W3: only a stream without ready bytes is batched; ready bytes are processed at once."""
    server = FakeServer()
    async with cached(server) as (cache, informer, _):
        await cache.wait_synced(5)
        await load(server, informer, 3000, 1500)
        time = asyncio.get_running_loop().time
        server.chop = 1000
        arrived = []
        informer.add_handler(lambda change: None if change.initial else arrived.append(time()))
        for i in range(300):
            server.put(f"late{i}")
        before = time()
        await asyncio.sleep(1)
        assert len(arrived) == 300
        assert max(arrived) - before <= 2 * BATCH_SECONDS


@pytest.mark.parametrize(("size", "gathers"), [(100_000, False), (100, True)])
def test_large_objects_of_a_list_are_taken_in_as_they_come(size, gathers):
    """W3: small ones gather, since a wake-up costs more than an object; large ones would only leave the caches."""

    @virtual_time
    async def run():
        server = FakeServer()
        for i in range(100):
            server.put(f"w{i}", note="x" * size)
        server.chop = size + 400  # each chunk ends about one object
        time = asyncio.get_running_loop().time
        async with cached(server) as (cache, informer, _):
            began = time()
            await cache.wait_synced(5)
            assert (time() - began >= 20 * BATCH_SECONDS) == gathers
            assert content(informer) == truth(server)

    run()
