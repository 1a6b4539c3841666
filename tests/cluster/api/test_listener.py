"""The HTTPS listener with clients that are slow, send invalid data, are many, or disconnect."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from steersman.listener import ConnectionLimits
from steersman_cluster.api import http, watches
from steersman_cluster.api.http import HTTPSServer
from steersman_cluster.cluster import DevCluster, Options, serving_context

from .conftest import MAPS, Listener


async def eventually(condition: Any) -> None:
    async with asyncio.timeout(90):
        while not condition():  # noqa: ASYNC110 - of the server's inside, which has no event for tests
            await asyncio.sleep(0.005)


def config_map(name: str, size: int = 1) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": {"a": "x" * size}}


async def test_a_connection_carries_one_request_after_the_other(listener: Listener):
    async with listener.connection() as connection:
        for number in range(3):
            await connection.request("POST", MAPS, config_map(f"m{number}"))
            assert (await connection.answer())[0] == 201
        await connection.request("GET", MAPS)
        status, body = await connection.answer()
        assert (status, len(body["items"])) == (200, 3)


async def test_requests_may_be_sent_before_earlier_ones_are_answered(listener: Listener):
    async with listener.connection() as connection:
        for number in range(5):
            await connection.request("POST", MAPS, config_map(f"m{number}"))
        for number in range(5):
            status, body = await connection.answer()
            assert (status, body["metadata"]["name"]) == (201, f"m{number}")


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_over_three_mebibytes_is_refused_and_not_kept(listener: Listener, chunked: bool):
    body = b'{"metadata":{"name":"big"},"data":{"a":"' + b"x" * (4 * 1024 * 1024) + b'"}}'
    async with listener.connection() as connection:
        head = f"POST {MAPS} HTTP/1.1\r\nHost: c\r\nContent-Type: application/json\r\n".encode()
        try:
            if chunked:
                await connection.send(head + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % len(body) + body)
            else:
                await connection.send(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        except ConnectionError:
            pass  # it was refused before it was sent
        status, refusal = await connection.answer()
        assert status == 413
        assert refusal["reason"] == "RequestEntityTooLarge"
        assert refusal["message"] == "Request entity too large: limit is 3145728"
        assert await connection.ended()


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01 nonsense\r\n\r\n",
        b"GET /version HTTP/1.1\r\n\r\n",
        b"GET /version HTTP/1.1\r\nHost: c\r\nX-A: " + b"a" * 2_000_000 + b"\r\n\r\n",
        b"POST /api HTTP/1.1\r\nHost: c\r\nContent-Length: -5\r\n\r\n",
        b"POST /api HTTP/1.1\r\nHost: c\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n",
    ],
    ids=["garbage", "no host", "long header", "negative length", "bad chunk"],
)
async def test_a_request_that_is_not_http_gets_an_error_and_the_connection_ends(
    listener: Listener, data: bytes, caplog: pytest.LogCaptureFixture
):
    async with listener.connection() as connection:
        await connection.send(data)
        status, _ = await connection.answer()
        assert status == 400
        assert await connection.ended()
    assert (await listener.ask("GET", "/version"))[0] == 200
    assert not caplog.records


@pytest.mark.parametrize(
    "target", ["*", "version", "//", "/%zz", "/api/v1/namespaces/%00", "/api/v1/namespaces/%ff/pods"]
)
async def test_strange_targets_are_refused_without_an_internal_error(listener: Listener, target: str):
    async with listener.connection() as connection:
        await connection.request("GET", target)
        status, _ = await connection.head()
        assert status < 500


async def test_a_body_that_does_not_arrive_times_out(listener: Listener, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(http, "BODY_SECONDS", 0.05)
    async with listener.connection() as connection:
        await connection.send(f"POST {MAPS} HTTP/1.1\r\nHost: c\r\nContent-Length: 100\r\n\r\n{{".encode())
        status, refusal = await connection.answer()
        assert (status, refusal["reason"]) == (408, "Timeout")
        assert await connection.ended()


async def test_a_client_that_leaves_in_the_middle_of_its_body_leaves_nothing_behind(listener: Listener):
    async with listener.connection() as connection:
        await connection.send(f"POST {MAPS} HTTP/1.1\r\nHost: c\r\nContent-Length: 100\r\n\r\n{{".encode())
    assert (await listener.ask("GET", MAPS))[1]["items"] == []


async def test_plain_http_gets_no_answer_and_hurts_nobody(listener: Listener):
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.cluster.port)
    writer.write(b"GET /version HTTP/1.1\r\nHost: c\r\n\r\n")
    async with asyncio.timeout(90):
        assert b"200" not in await reader.read()
    writer.close()
    assert (await listener.ask("GET", "/version"))[0] == 200


async def test_who_shows_no_certificate_is_anonymous(listener: Listener):
    async with listener.connection(anonymous=True) as connection:
        await connection.request("GET", "/version")
        assert (await connection.answer())[0] == 200
        await connection.request("GET", MAPS)
        status, refusal = await connection.answer()
        assert status == 403
        assert 'User "system:anonymous" cannot list resource "configmaps"' in refusal["message"]


async def test_long_selectors_pass(listener: Listener):
    names = ",".join(f"name-{number:05}" for number in range(5000))
    async with listener.connection() as connection:
        await connection.request("GET", f"{MAPS}?labelSelector=app%20in%20({names})")
        assert (await connection.answer())[0] == 200


# Watches.


async def test_a_watch_ends_with_its_client(listener: Listener):
    async with listener.connection() as connection:
        await connection.request("GET", f"{MAPS}?watch=1")
        assert (await connection.head())[0] == 200
        await eventually(lambda: len(listener.server.watches) == 1)
    await eventually(lambda: not listener.server.watches)


async def test_a_watch_ends_with_its_cluster_and_at_once():
    async with DevCluster.start(Options(controllers=False, nodes=0)) as cluster:
        listener = Listener(cluster)
        async with listener.connection() as connection:
            await connection.request("GET", f"{MAPS}?watch=1")
            await connection.head()
            await eventually(lambda: cluster.server.watches)
            loop = asyncio.get_running_loop()
            before = loop.time()
            await cluster.close()
            assert await connection.ended()
            assert loop.time() - before < 0.5


async def test_a_watch_ends_after_the_seconds_it_asked_for(listener: Listener):
    async with listener.connection() as connection:
        await connection.request("GET", f"{MAPS}?watch=1&timeoutSeconds=1")
        await connection.head()
        assert await connection.line() is None


@pytest.mark.slow
async def test_a_hundred_watchers_lose_nothing(listener: Listener):
    count = 60
    seen: list[list[tuple[str, str]]] = []
    ready = asyncio.Semaphore(0)

    async def watch() -> None:
        async with listener.connection() as connection:
            await connection.request("GET", f"{MAPS}?watch=1")
            await connection.head()
            ready.release()
            events = await connection.events(count)
            seen.append([(e["type"], e["object"]["metadata"]["resourceVersion"]) for e in events])

    watchers = [asyncio.create_task(watch()) for _ in range(100)]
    for _ in watchers:
        await ready.acquire()
    await eventually(lambda: len(listener.server.watches) == 100)
    async with listener.connection() as connection:
        for number in range(count):
            await connection.request(
                "PUT" if number >= 20 else "POST", _path(number), config_map(f"m{number % 20}", number)
            )
        for _ in range(count):
            assert (await connection.answer())[0] in (200, 201)
    await asyncio.gather(*watchers)
    assert len(seen) == 100
    assert all(events == seen[0] for events in seen)
    versions = [int(version) for _, version in seen[0]]
    assert versions == sorted(set(versions))
    assert [kind for kind, _ in seen[0]] == ["ADDED"] * 20 + ["MODIFIED"] * (count - 20)


def _path(number: int) -> str:
    return MAPS if number < 20 else f"{MAPS}/m{number % 20}"


async def test_a_watcher_that_does_not_read_is_disconnected_alone(listener: Listener, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(watches, "MAX_PENDING_EVENTS", 50)
    async with listener.connection() as lazy, listener.connection() as eager, listener.connection() as writer:
        for connection in (lazy, eager):
            await connection.request("GET", f"{MAPS}?watch=1")
            await connection.head()
        await eventually(lambda: len(listener.server.watches) == 2)
        assert isinstance(lazy.writer.transport, asyncio.Transport)
        lazy.writer.transport.pause_reading()
        await writer.request("POST", MAPS, config_map("m"))
        await writer.answer()
        assert len(await eager.events(1)) == 1
        for number in range(300):
            await writer.request("PUT", f"{MAPS}/m", config_map("m", 100_000 + number))
            assert (await writer.answer())[0] == 200
            assert len(await eager.events(1)) == 1
        lazy.writer.transport.resume_reading()
        await eventually(lambda: len(listener.server.watches) == 1)


# The end.


async def test_a_cluster_leaves_no_task_and_no_thread_behind():
    tasks, threads = len(asyncio.all_tasks()), threading.active_count()
    async with DevCluster.start(Options(controllers=False, nodes=0)) as cluster:
        assert (await Listener(cluster).ask("GET", "/version"))[0] == 200
    await asyncio.sleep(0)
    assert len(asyncio.all_tasks()) == tasks
    assert threading.active_count() == threads


async def test_a_cluster_comes_back_on_its_port_with_all_it_had():
    async with DevCluster.start(Options(controllers=False, nodes=0)) as cluster:
        listener, port = Listener(cluster), cluster.port
        assert (await listener.ask("POST", MAPS, config_map("m")))[0] == 201
        await cluster.unlisten()
        with pytest.raises(ConnectionRefusedError):
            await listener.ask("GET", MAPS)
        await cluster.listen(port)
        assert cluster.port == port
        assert (await listener.ask("GET", f"{MAPS}/m"))[0] == 200


async def test_a_port_that_is_taken_is_refused():
    async with DevCluster.start(Options(controllers=False, nodes=0)) as cluster:
        with pytest.raises(OSError, match="Address already in use"):
            async with DevCluster.start(Options(controllers=False, nodes=0, port=cluster.port)):
                pass


@asynccontextmanager
async def guarded(limits: ConnectionLimits) -> AsyncIterator[tuple[Listener, HTTPSServer]]:
    """A server with limits on its connections."""
    async with DevCluster.start(Options(controllers=False, nodes=0)) as cluster:
        await cluster.unlisten()
        front = HTTPSServer(cluster.server, serving_context(cluster.authority), limits)
        cluster.port = await front.start("127.0.0.1", 0)
        try:
            yield Listener(cluster), front
        finally:
            await front.close()


@pytest.mark.parametrize("sent", [b"", b"GET", b"GET /api HTTP/1.1\r\nHost: c\r\nX-Long: "])
async def test_a_connection_without_a_whole_request_head_is_closed_in_time(sent: bytes):
    async with guarded(ConnectionLimits(head_seconds=0.3)) as (listener, front), listener.connection() as connection:
        await connection.send(sent)
        assert await connection.ended()
        await eventually(lambda: front.listener.connections == 0)


async def test_a_connection_that_has_sent_a_request_outlives_the_first_heads_time():
    async with guarded(ConnectionLimits(head_seconds=0.3)) as (listener, front):
        async with listener.connection() as slow, listener.connection() as busy:
            await busy.request("GET", "/version")
            assert (await busy.answer())[0] == 200
            assert await slow.ended()
            await busy.request("GET", "/version")
            assert (await busy.answer())[0] == 200
            assert front.listener.connections == 1
        await eventually(lambda: front.listener.connections == 0)


async def test_idle_connections_give_way_to_new_ones_and_never_keep_them_out():
    async with guarded(ConnectionLimits(waiting=8)) as (listener, front), AsyncExitStack() as stack:
        busy = await stack.enter_async_context(listener.connection())
        await busy.request("GET", "/version")
        await busy.answer()
        idle = [await stack.enter_async_context(listener.connection(anonymous=True)) for _ in range(40)]
        assert front.listener.waiting <= 8
        assert await idle[0].ended()
        for connection in (busy, await stack.enter_async_context(listener.connection())):
            await connection.request("GET", "/version")
            assert (await connection.answer())[0] == 200


async def test_connections_that_never_begin_the_handshake_give_way_as_well():
    async with guarded(ConnectionLimits(waiting=8)) as (listener, front):
        silent = [await asyncio.open_connection("127.0.0.1", listener.cluster.port) for _ in range(40)]
        assert (await listener.ask("GET", "/version"))[0] == 200
        assert front.listener.waiting <= 8
        for _, writer in silent:
            writer.close()
        await eventually(lambda: front.listener.connections == 0)


async def test_connections_beyond_the_limit_wait_until_one_has_ended():
    async with guarded(ConnectionLimits(connections=2)) as (listener, front):
        async with listener.connection() as first, listener.connection() as second:
            for connection in (first, second):
                await connection.request("GET", "/version")
                await connection.answer()
            third = asyncio.create_task(listener.ask("GET", "/version"))
            await eventually(lambda: front.listener.connections == 2)
            assert not third.done()
        assert (await third)[0] == 200


async def test_what_does_not_speak_tls_leaves_nothing_behind():
    async with guarded(ConnectionLimits()) as (listener, front):
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.cluster.port)
        writer.write(b"GET / HTTP/1.0\r\n\r\n")
        await reader.read()
        writer.close()
        await eventually(lambda: front.listener.connections == 0)
