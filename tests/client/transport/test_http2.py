"""HTTP/2 of the native transport over TLS, against a server on the `h2` library that is as strict as the RFC."""

from __future__ import annotations

import asyncio
import importlib.util
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from h2.errors import ErrorCodes
from h2.events import PingReceived
from h2.settings import SettingCodes
from hyperframe.frame import GoAwayFrame, HeadersFrame

from steersman.client.errors import ConnectError, ConnectionLostError, TransportError, TransportTimeoutError
from steersman.client.transport import NativeTransport, deliver
from steersman.client.transport.http2.stream import TASK_WAKEUP_MIN_BYTES

_spec = importlib.util.spec_from_file_location("steersman_tests_h2server", Path(__file__).with_name("h2server.py"))
assert _spec is not None
assert _spec.loader is not None
h2server = importlib.util.module_from_spec(_spec)
sys.modules[_spec.name] = h2server
_spec.loader.exec_module(h2server)
Asked, H2Server, Holds = h2server.Asked, h2server.H2Server, h2server.Holds


@pytest.fixture
async def server(tmp_path) -> AsyncIterator[H2Server]:
    async with h2server.h2_server(tmp_path) as server:
        yield server
        assert not server.problems, "the client broke a rule"


@pytest.fixture
async def transport(server) -> AsyncIterator[NativeTransport]:
    transport = NativeTransport(server.config())
    yield transport
    await transport.close()
    await server.until(lambda: all(peer.lost for peer in server.peers))
    left = [task for task in asyncio.all_tasks() if "_dial" in repr(task.get_coro())]
    assert not left


def goaway(peer, last: int, code: ErrorCodes = ErrorCodes.NO_ERROR) -> None:
    peer.raw(GoAwayFrame(0, last_stream_id=last, error_code=int(code)).serialize())


async def get(transport, path="/ok", timeout=5.0):
    return await transport.request("GET", path, timeout=timeout)


# Answers.


async def test_status_headers_and_body_come_back(server, transport):
    server.scripts["/made"] = lambda asked: asked.answer(
        b"body", 201, [("content-type", "application/json"), ("warning", "299 - a"), ("warning", "299 - b")]
    )
    response = await get(transport, "/made")
    assert (response.status, response.body) == (201, b"body")
    assert response.headers.get("Content-Type") == "application/json"
    assert list(response.headers.get_all("Warning")) == ["299 - a", "299 - b"]
    assert response.headers.get("retry-after") is None


@pytest.mark.parametrize("status", [200, 201, 202, 204, 301, 400, 401, 403, 404, 409, 410, 422, 429, 500, 503, 504])
async def test_every_status_is_an_answer(server, transport, status):
    server.scripts["/said"] = lambda asked: asked.head(status, end=True)
    assert (await get(transport, "/said")).status == status
    assert (await get(transport, "/said")).status == status


async def test_what_is_sent_is_what_was_asked_for(server):
    transport = NativeTransport(server.config())
    transport._prefix = "/prefix"
    server.scripts["/prefix/pods"] = lambda asked: asked.answer(b"ok")
    await transport.request(
        "PATCH",
        "/pods",
        query=[("label", "x in (ä)"), ("command", "a&b=c")],
        headers=[("Impersonate-Group", "one"), ("Impersonate-Group", "two"), ("Authorization", "Bearer t")],
        body=b"\x00body",
        timeout=5,
    )
    await transport.close()
    asked = server.asked[0]
    assert asked.headers == [
        (":method", "PATCH"),
        (":path", "/prefix/pods?label=x+in+%28%C3%A4%29&command=a%26b%3Dc"),
        (":scheme", "https"),
        (":authority", server.url.removeprefix("https://")),
        ("impersonate-group", "one"),
        ("impersonate-group", "two"),
        ("authorization", "Bearer t"),
        ("content-length", "5"),
    ]
    assert asked.body == b"\x00body"


@pytest.mark.parametrize("size", [0, 1, 126, 127, 128, 300, 16_384, 16_385, 60_000])
async def test_headers_of_any_length_arrive(server, transport, size):
    await transport.request("GET", "/ok", headers={"X-Long": "x" * size}, timeout=5)
    assert server.asked[0].header("x-long") == "x" * size


@pytest.mark.parametrize("size", [0, 1, 16_384, 16_385, 65_535, 65_536, 1_000_000])
async def test_bodies_of_any_size_arrive(server, transport, size):
    body = bytes(size)
    response = await transport.request("POST", "/ok", body=body, timeout=5)
    assert response.body == b"ok"
    assert server.asked[0].body == body
    assert server.asked[0].header("content-length") == str(size)


async def test_a_large_answer_comes_whole(server, transport):
    body = bytes(range(256)) * 80_000
    server.scripts["/large"] = lambda asked: asked.answer(body)
    assert (await get(transport, "/large")).body == body


async def test_interim_answers_and_trailers_are_passed_over(server, transport):
    def script(asked: Asked) -> None:
        asked.peer.h2.send_headers(asked.stream, [(":status", "103"), ("link", "</a>")])
        asked.answer(b"real", 202, trailers=[("grpc-status", "0")])

    server.scripts["/early"] = script
    response = await get(transport, "/early")
    assert (response.status, response.body) == (202, b"real")
    assert response.headers.get("link") is None


@pytest.mark.parametrize("name", ["Connection", "Host", "Upgrade", "Transfer-Encoding", "Keep-Alive"])
async def test_headers_of_a_connection_are_not_sent(server, transport, name):
    with pytest.raises(TransportError, match="belongs to a connection"):
        await transport.request("GET", "/ok", headers={name: "x"}, timeout=5)
    assert (await get(transport)).body == b"ok"


@pytest.mark.parametrize("name", [":path", "a:b", "a b", "", "a\r\nb"])
async def test_what_is_no_name_of_a_header_is_not_sent(server, transport, name):
    with pytest.raises(TransportError, match="header"):
        await transport.request("GET", "/ok", headers={name: "x"}, timeout=5)
    assert not server.asked


# One connection for all.


async def test_all_requests_share_one_connection(server, transport):
    server.scripts["/together"] = lambda asked: (
        [other.answer(b"%d" % other.stream) for other in server.asked] if server.requests("/together") == 50 else None
    )
    answers = await asyncio.gather(*(get(transport, "/together") for _ in range(50)))
    assert sorted(int(answer.body) for answer in answers) == list(range(1, 101, 2))
    assert server.connections == 1


async def test_more_requests_than_streams_take_further_connections_and_use_them_again(server, transport):
    server.settings[SettingCodes.MAX_CONCURRENT_STREAMS] = 100
    for _ in range(3):
        server.asked.clear()
        asking = [asyncio.create_task(get(transport, "/silent")) for _ in range(300)]
        await server.until(lambda: len(server.asked) == 300)
        for asked in server.asked:
            asked.answer(b"ok")
        assert {answer.body for answer in await asyncio.gather(*asking)} == {b"ok"}
    assert server.connections == 3


@pytest.mark.parametrize("limit", [1, 2])
async def test_requests_beyond_a_limit_that_was_not_known_yet_are_asked_anew(server, transport, limit):
    server.settings[SettingCodes.MAX_CONCURRENT_STREAMS] = limit
    server.settings_late = True
    asking = [asyncio.create_task(transport.request("POST", "/silent", body=b"%d" % n, timeout=5)) for n in range(12)]
    await server.until(lambda: sum(asked.ended for asked in server.asked) == 12)
    assert sum(len(peer.refused) for peer in server.peers) >= 12 - limit
    for asked in server.asked:
        asked.answer(asked.body)
    answers = await asyncio.gather(*asking)
    assert [answer.body for answer in answers] == [b"%d" % n for n in range(12)], "each is served once"
    assert server.connections == 12 // limit


async def test_a_reader_that_does_not_read_holds_up_itself_only(server, transport):
    size = 16 << 20
    server.scripts["/flood"] = lambda asked: asked.answer(b"x" * size)
    async with transport.stream("GET", "/flood", connect_timeout=5, idle_timeout=5) as response:
        flooding = server.asked[0]
        await server.until(lambda: flooding.peer.h2.local_flow_control_window(flooding.stream) == 0)
        assert server.connections == 1
        assert flooding.peer.waiting, "the server must wait"
        for _ in range(3):
            assert (await get(transport)).body == b"ok"
        assert sum([len(chunk) async for chunk in response.chunks]) == size
    assert server.connections == 1


async def test_a_stream_is_handed_on_as_it_comes(server, transport):
    server.scripts["/watch"] = lambda asked: asked.answer(b"0\n", end=False)
    async with transport.stream("GET", "/watch", connect_timeout=5, idle_timeout=5) as response:
        chunks = aiter(response.chunks)
        for n in range(5):
            assert await anext(chunks) == b"%d\n" % n
            server.asked[0].say(b"%d\n" % (n + 1))
        server.asked[0].say(b"", end=True)
        assert [chunk async for chunk in chunks] == [b"5\n"]


async def test_what_pours_is_taken_where_it_arrives_and_wakes_no_task(server, transport):
    """Each event of a quiet watch costs one pass of the loop; bytes that are not consumed wait for the next reader."""
    server.scripts["/watch"] = lambda asked: asked.answer(b"0\n", end=False)
    tasks: list[object] = []
    taken: asyncio.Queue[bytes] = asyncio.Queue()

    def take(chunk: bytes) -> bool:
        tasks.append(asyncio.current_task())
        taken.put_nowait(chunk)
        return chunk == b"2\n"

    async with transport.stream("GET", "/watch", connect_timeout=5, idle_timeout=5) as response:
        delivery = asyncio.create_task(deliver(response.chunks, take))
        for n in range(3):
            assert await taken.get() == b"%d\n" % n
            server.asked[0].say(b"%d\n" % (n + 1))
        assert await delivery
        assert tasks[1:] == [None, None], "the first may have been there before anybody asked"
        server.asked[0].say(b"", end=True)
        assert not await deliver(response.chunks, take)
    assert taken.get_nowait() == b"3\n"


async def test_large_pieces_that_pour_are_taken_in_by_the_task(server, transport):
    """After the reuse of their buffers, and in order with chunks that are consumed on arrival."""
    server.scripts["/watch"] = lambda asked: asked.answer(b"0\n", end=False)
    heard, tasks = bytearray(), []
    some = asyncio.Event()

    def take(chunk: bytes) -> bool:
        heard.extend(chunk)
        tasks.append((len(chunk), asyncio.current_task()))
        some.set()
        return heard.endswith(b"end\n")

    async with transport.stream("GET", "/watch", connect_timeout=5, idle_timeout=5) as response:
        delivery = asyncio.create_task(deliver(response.chunks, take))
        await some.wait()
        said = [b"%d" % (n % 10) * (14_000 if n % 3 else 5) + b"\n" for n in range(40)] + [b"end\n"]
        for text in said:
            server.asked[0].say(text)
        assert await delivery
    assert bytes(heard) == b"0\n" + b"".join(said)
    assert all(task is delivery for size, task in tasks if size >= TASK_WAKEUP_MIN_BYTES)


async def test_a_taker_may_cancel_who_waits_for_it(server, transport):
    """As a handler does that closes the cache: the connection serves others all the same."""
    server.scripts["/watch"] = lambda asked: asked.answer(b"0\n", end=False)
    async with transport.stream("GET", "/watch", connect_timeout=5, idle_timeout=5) as response:
        began = asyncio.Event()

        def take(chunk: bytes) -> bool:
            began.set()
            return chunk == b"1\n" and delivery.cancel()

        delivery = asyncio.create_task(deliver(response.chunks, take))
        await began.wait()
        server.asked[0].say(b"1\n")
        with pytest.raises(asyncio.CancelledError):
            await delivery
        assert (await get(transport)).body == b"ok"
    assert server.connections == 1


# Room for bodies.


@pytest.mark.parametrize("window", [1, 1000, 16_384])
async def test_a_body_larger_than_the_window_waits_for_room(server, transport, window):
    server.settings[SettingCodes.INITIAL_WINDOW_SIZE] = window
    await get(transport)  # the settings are known
    body = bytes(range(256)) * (window // 32 or 1)
    await transport.request("PUT", "/ok", body=body, timeout=5)
    assert server.asked[-1].body == body


async def test_a_window_that_changes_in_flight_is_kept_to(server, transport):
    server.settings[SettingCodes.INITIAL_WINDOW_SIZE] = 0
    server.at_head["/upload"] = lambda asked: None
    await get(transport)
    body = bytes(range(256)) * 400
    uploading = asyncio.create_task(transport.request("PUT", "/upload", body=body, timeout=5))
    await server.until(lambda: server.requests("/upload"))
    asked = server.asked[-1]
    server.gives_room = False
    for window in (10_000, 30_000, 20_000, 5_000):
        asked.peer.h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: window})
        asked.peer.flush()
        await server.until(lambda window=window: asked.peer.h2.local_settings.initial_window_size == window)
    assert len(asked.body) == 30_000
    assert (await get(transport)).body == b"ok", "a request without a body needs no room"
    asked.peer.h2.increment_flow_control_window(200_000, asked.stream)
    asked.peer.h2.increment_flow_control_window(200_000)
    asked.peer.flush()
    await server.until(lambda: asked.ended)
    asked.answer(b"ok")
    assert (await uploading).body == b"ok"
    assert asked.body == body


async def test_bodies_together_keep_to_the_room_of_the_connection(server, transport):
    server.gives_room = False
    server.at_head["/upload"] = lambda asked: None
    uploading = [
        asyncio.create_task(transport.request("PUT", "/upload", body=bytes([n]) * 30_000, timeout=5)) for n in range(4)
    ]
    await server.until(lambda: sum(len(asked.body) for asked in server.asked) == 65_535)
    peer = server.peers[0]
    peer.h2.increment_flow_control_window(100_000)
    peer.flush()
    await server.until(lambda: len(server.asked) == 4 and all(asked.ended for asked in server.asked))
    for n, asked in enumerate(server.asked):
        assert asked.body == bytes([n]) * 30_000
        asked.answer(b"ok")
    await asyncio.gather(*uploading)


async def test_an_answer_before_the_body_was_heard_is_the_answer(server, transport):
    server.settings[SettingCodes.INITIAL_WINDOW_SIZE] = 100

    def script(asked: Asked) -> None:
        asked.answer(b"too large", 413)
        asked.break_off(ErrorCodes.NO_ERROR)

    server.at_head["/upload"] = script
    server.gives_room = False
    await get(transport)
    response = await transport.request("PUT", "/upload", body=bytes(100_000), timeout=5)
    assert (response.status, response.body) == (413, b"too large")
    assert (await get(transport)).body == b"ok"
    assert server.connections == 1


# Leaving.


async def test_a_request_that_is_cancelled_tells_the_server_and_leaves_the_connection(server, transport):
    asking = asyncio.create_task(get(transport, "/silent"))
    await server.until(lambda: server.asked)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await server.until(lambda: server.asked[0].reset == ErrorCodes.CANCEL)
    assert (await get(transport)).body == b"ok"
    assert server.connections == 1


async def test_a_stream_that_is_left_tells_the_server_and_leaves_the_connection(server, transport):
    server.scripts["/watch"] = lambda asked: asked.answer(b"0\n", end=False)
    async with transport.stream("GET", "/watch", connect_timeout=5, idle_timeout=5) as response:
        await anext(aiter(response.chunks))
    server.asked[0].say(b"late")
    await server.until(lambda: server.asked[0].reset == ErrorCodes.CANCEL)
    assert (await get(transport)).body == b"ok"
    assert server.connections == 1


async def test_a_stream_that_was_read_to_its_end_is_not_cancelled(server, transport):
    server.scripts["/list"] = lambda asked: asked.answer(b"all")
    async with transport.stream("GET", "/list", connect_timeout=5, idle_timeout=5) as response:
        assert [chunk async for chunk in response.chunks] == [b"all"]
    await get(transport)
    assert server.asked[0].reset is None


async def test_one_request_that_times_out_leaves_the_others_alone(server, transport):
    server.scripts["/hopeless"] = lambda asked: None
    patient = asyncio.create_task(get(transport, "/silent"))
    await server.until(lambda: server.asked)
    with pytest.raises(TransportTimeoutError, match="GET /hopeless"):
        await get(transport, "/hopeless", timeout=0.02)
    await server.until(lambda: [one.reset for one in server.asked[1:]] == [ErrorCodes.CANCEL])
    server.asked[0].answer(b"at last")
    assert (await patient).body == b"at last"
    assert server.connections == 1


async def test_closing_ends_requests_and_streams_with_an_error(server):
    transport = NativeTransport(server.config())
    server.scripts["/watch"] = lambda asked: asked.answer(b"0\n", end=False)

    async def watch() -> None:
        async with transport.stream("GET", "/watch", connect_timeout=5, idle_timeout=5) as response:
            async for _ in response.chunks:
                pass

    open_ones = [asyncio.create_task(get(transport, "/silent")), asyncio.create_task(watch())]
    await server.until(lambda: len(server.asked) == 2)
    await transport.close()
    for problem in await asyncio.gather(*open_ones, return_exceptions=True):
        assert isinstance(problem, TransportError)
    await server.until(lambda: server.peers[0].lost)


# The server breaks off, or goes.


async def test_a_refused_request_was_never_begun(server, transport):
    server.scripts["/refused"] = lambda asked: asked.break_off(ErrorCodes.REFUSED_STREAM)
    await get(transport)
    with pytest.raises(ConnectError, match=r"POST /refused: .*refused"):
        await transport.request("POST", "/refused", body=b"{}", timeout=5)
    assert server.requests("/refused") == 1
    assert (await get(transport)).body == b"ok"


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("code", [ErrorCodes.INTERNAL_ERROR, ErrorCodes.CANCEL, ErrorCodes.NO_ERROR])
async def test_a_request_that_was_broken_off_may_have_been_done(server, transport, code, begun):
    def script(asked: Asked) -> None:
        if begun:
            asked.answer(b"some", end=False)
        asked.break_off(code)

    server.scripts["/broken"] = script
    with pytest.raises(ConnectionLostError, match=rf"POST /broken: .*{code.name}"):
        await transport.request("POST", "/broken", body=b"{}", timeout=5)
    assert server.requests("/broken") == 1
    assert (await get(transport)).body == b"ok"
    assert server.connections == 1


async def test_a_stream_that_was_broken_off_does_not_look_whole(server, transport):
    def script(asked: Asked) -> None:
        asked.answer(b"some", end=False)
        asked.break_off(ErrorCodes.INTERNAL_ERROR)

    server.scripts["/watch"] = script

    async def read() -> list[bytes]:
        async with transport.stream("GET", "/watch", connect_timeout=5, idle_timeout=5) as response:
            return [chunk async for chunk in response.chunks]

    with pytest.raises(ConnectionLostError, match="INTERNAL_ERROR"):
        await read()


async def test_a_server_that_leaves_finishes_what_it_has_begun(server, transport):
    server.scripts["/watch"] = lambda asked: asked.answer(b"0\n", end=False)
    async with transport.stream("GET", "/watch", connect_timeout=5, idle_timeout=5) as response:
        chunks = aiter(response.chunks)
        await anext(chunks)
        goaway(server.peers[0], server.asked[0].stream)
        server.asked[0].say(b"1\n")
        assert await anext(chunks) == b"1\n"  # and so before the GOAWAY has been received
        assert (await get(transport)).body == b"ok"
        assert server.connections == 2
        assert not server.peers[0].lost
        server.asked[0].say(b"", end=True)
        assert [chunk async for chunk in chunks] == []
    await server.until(lambda: server.peers[0].lost)
    assert (await get(transport)).body == b"ok"
    assert server.connections == 2


async def test_what_a_leaving_server_has_not_begun_is_asked_elsewhere(server, transport):
    def script(asked: Asked) -> None:
        if asked.peer is server.peers[0]:
            goaway(asked.peer, asked.stream - 2)
        else:
            asked.answer(b"done")

    server.scripts["/write"] = script
    await get(transport)
    response = await transport.request("POST", "/write", body=b"{}", timeout=5)
    assert response.body == b"done"
    assert [bytes(asked.body) for asked in server.asked[1:]] == [b"{}", b"{}"]
    await server.until(lambda: server.peers[0].lost)


async def test_a_server_that_always_leaves_is_given_up(server, transport):
    transport._pool.max_attempts = 3
    server.scripts["/write"] = lambda asked: goaway(asked.peer, 0, ErrorCodes.ENHANCE_YOUR_CALM)
    with pytest.raises(ConnectError, match=r"POST /write: the server sent GOAWAY .ENHANCE_YOUR_CALM."):
        await transport.request("POST", "/write", body=b"{}", timeout=5)
    assert server.requests("/write") == 3
    with pytest.raises(ConnectError, match="GET /write"):
        async with transport.stream("GET", "/write", connect_timeout=5, idle_timeout=5):
            pass
    assert server.requests("/write") == 6


@pytest.mark.parametrize("where", ["between", "in the head", "in the body", "in a frame of the body"])
async def test_a_connection_that_breaks_is_lost_to_all_who_wait(server, transport, where):
    def script(asked: Asked) -> None:
        if where == "in the head":
            asked.peer.raw(HeadersFrame(asked.stream, b"\x88" * 50, flags=["END_HEADERS"]).serialize()[:30])
        elif where != "between":
            asked.answer(b"some", end=False)
            if where == "in a frame of the body":
                asked.peer.raw(b"\x00\x00\x64\x00\x00" + asked.stream.to_bytes(4, "big") + b"beginning")
        asked.peer.transport.close()

    server.scripts["/broken"] = script
    other = asyncio.create_task(get(transport, "/silent"))
    await server.until(lambda: server.asked)
    with pytest.raises(ConnectionLostError, match=r"POST /broken: .*broke"):
        await transport.request("POST", "/broken", body=b"{}", timeout=5)
    with pytest.raises(ConnectionLostError, match=r"GET /silent: .*broke"):
        await other
    assert server.requests("/broken") == 1
    assert (await get(transport)).body == b"ok"


async def test_a_ping_is_answered(server, transport):
    await get(transport)
    server.peers[0].h2.ping(b"12345678")
    server.peers[0].flush()
    await server.until(lambda: any(type(event).__name__ == "PingAckReceived" for event in server.peers[0].frames))
    assert not any(isinstance(event, PingReceived) for event in server.peers[0].frames)


# Connecting.


async def test_a_rotated_certificate_is_presented_while_a_watch_goes_on(server):
    holds = Holds(h2server.client_certificate("jane"))
    transport = NativeTransport(server.config(holds))
    server.scripts["/watch"] = lambda asked: asked.answer(b"0\n", end=False)
    server.scripts["/who"] = lambda asked: asked.answer(asked.peer.user.encode())
    assert (await get(transport, "/who")).body == b"jane"
    async with transport.stream("GET", "/watch", connect_timeout=5, idle_timeout=5) as response:
        chunks = aiter(response.chunks)
        await anext(chunks)
        holds.certificate = h2server.client_certificate("john")
        answers = await asyncio.gather(*(get(transport, "/who") for _ in range(5)))
        assert {answer.body for answer in answers} == {b"john"}
        assert server.connections == 2
        server.asked[1].say(b"1\n", end=True)
        assert [chunk async for chunk in chunks] == [b"1\n"]
    await server.until(lambda: server.peers[0].lost)
    assert (await get(transport, "/who")).body == b"john"
    assert server.connections == 2
    await transport.close()


async def test_a_certificate_that_rotates_during_the_handshake_is_not_used_any_more(server):
    holds = Holds(h2server.client_certificate("jane"))
    transport = NativeTransport(server.config(holds))
    server.scripts["/who"] = lambda asked: asked.answer(asked.peer.user.encode())
    first = asyncio.create_task(get(transport, "/who"))
    for _ in range(3):
        await asyncio.sleep(0)
    holds.certificate = h2server.client_certificate("john")
    second = asyncio.create_task(get(transport, "/who"))
    assert [answer.body for answer in await asyncio.gather(first, second)] == [b"john", b"john"]
    await transport.close()


async def test_an_old_connection_that_nobody_uses_is_replaced(server, transport):
    await get(transport)
    transport._pool._shared.idle_since -= 61
    await get(transport)
    assert server.connections == 2
    await server.until(lambda: server.peers[0].lost)
    assert not server.peers[1].lost


async def test_closing_while_connecting_is_no_cancellation_of_who_waits():
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        config = h2server.Config(
            server=f"https://127.0.0.1:{deaf.getsockname()[1]}",
            tls=h2server.TlsConfig(ca_pem=h2server.AUTHORITY.cert_pem),
            auth=Holds(),
        )
        transport = NativeTransport(config)
        waiting = [asyncio.create_task(get(transport)) for _ in range(3)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await transport.close()
        for task in waiting:
            with pytest.raises(TransportError, match=r"GET /ok: the client is closed"):
                await task
            assert not task.cancelled()


async def test_who_gives_up_connecting_does_not_end_it_for_the_others(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        server = H2Server()
        server.url = f"https://127.0.0.1:{listening.getsockname()[1]}"
        transport = NativeTransport(server.config())
        hasty = asyncio.create_task(get(transport, timeout=0.02))
        cancelled = asyncio.create_task(get(transport))
        patient = asyncio.create_task(get(transport))
        with pytest.raises(ConnectError, match=r"GET /ok: cannot connect: no response within 0\.02 s"):
            await hasty
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        context = h2server.server_context(tmp_path, ["h2"])
        listener = await asyncio.get_running_loop().create_server(
            lambda: h2server.Peer(server), sock=listening, ssl=context
        )
        assert (await patient).body == b"ok"
        assert server.connections == 1
        await transport.close()
        await server.until(lambda: server.peers[0].lost)
        listener.close()


async def test_a_server_that_closes_during_the_handshake_fails_all_who_wait_at_once():
    accepted = 0

    async def close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal accepted
        accepted += 1
        await reader.read(1)
        writer.close()

    async with await asyncio.start_server(close, "127.0.0.1", 0) as listener:
        config = h2server.Config(
            server=f"https://127.0.0.1:{listener.sockets[0].getsockname()[1]}",
            tls=h2server.TlsConfig(ca_pem=h2server.AUTHORITY.cert_pem),
            auth=Holds(),
        )
        transport = NativeTransport(config)
        asking = [transport.request("POST", f"/{n}", body=b"{}", timeout=5) for n in range(5)]
        problems = await asyncio.gather(*asking, return_exceptions=True)
        await transport.close()
    assert accepted == 1
    for n, problem in enumerate(problems):
        assert isinstance(problem, ConnectError)
        assert str(problem).startswith(f"POST /{n}: cannot connect")


async def test_a_server_that_closes_after_the_handshake_is_not_asked_for_ever(server, transport):
    server.closes_at_once = True
    with pytest.raises((ConnectError, ConnectionLostError), match="GET /ok"):
        await get(transport)
    assert server.connections <= 2


@pytest.mark.parametrize("protocols", [[], ["http/1.1"]], ids=["no ALPN", "HTTP/1.1 chosen"])
async def test_a_server_without_http2_gets_connections_side_by_side(tmp_path, protocols):
    arrived: list[asyncio.StreamWriter] = []
    serving: set[asyncio.Task[None] | None] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.add(asyncio.current_task())
        await reader.readuntil(b"\r\n\r\n")
        arrived.append(writer)
        if len(arrived) == 5:  # the responses begin after all requests have arrived
            for other in arrived:
                other.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        await reader.read()
        writer.transport.abort()

    context = h2server.server_context(tmp_path, protocols)
    listener = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    config = h2server.Config(
        server=f"https://127.0.0.1:{listener.sockets[0].getsockname()[1]}",
        tls=h2server.TlsConfig(ca_pem=h2server.AUTHORITY.cert_pem),
        auth=Holds(),
    )
    transport = NativeTransport(config)
    answers = await asyncio.gather(*(get(transport) for _ in range(5)))
    assert [answer.body for answer in answers] == [b"ok"] * 5
    await transport.close()
    listener.close()
    await asyncio.gather(*[task for task in serving if task])


async def test_a_server_that_learns_http2_meanwhile_is_spoken_to_in_it(tmp_path):
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 3\r\n\r\nold")
        await writer.drain()
        writer.transport.abort()

    context = h2server.server_context(tmp_path, ["http/1.1"])
    listener = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    port = listener.sockets[0].getsockname()[1]
    server = H2Server()
    server.url = f"https://127.0.0.1:{port}"
    transport = NativeTransport(server.config())
    assert (await get(transport)).body == b"old"
    listener.close()
    await listener.wait_closed()
    context = h2server.server_context(tmp_path, ["h2"])
    listener = await asyncio.get_running_loop().create_server(
        lambda: h2server.Peer(server), "127.0.0.1", port, ssl=context
    )
    for _ in range(10):
        assert (await get(transport)).body == b"ok"
    assert server.connections == 1
    await transport.close()
    await server.until(lambda: server.peers[0].lost)
    listener.close()


async def test_a_server_is_not_asked_for_http2_where_it_is_not_wanted(server):
    transport = NativeTransport(server.config(), http2=False)
    with pytest.raises(TransportError):
        await get(transport)
    await transport.close()
    assert not server.asked
    server.problems.clear()
