"""Requests of clients in the same process: those that wait for something have a timeout, the others need no timer."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from steersman.client.errors import TransportTimeoutError
from steersman_cluster.api.inprocess import InProcessTransport
from steersman_cluster.api.requests.messages import Request, Response


class Server:
    """An API server whose requests are answered by a function."""

    def __init__(self, answer: Callable[[Request], Awaitable[Response]]) -> None:
        self.handle = answer


def transport(answer: Callable[[Request], Awaitable[Response]]) -> InProcessTransport:
    server: Any = Server(answer)
    return InProcessTransport(server)


async def get(answer: Callable[[Request], Awaitable[Response]], timeout: float = 60.0) -> bytes:
    return (await transport(answer).request("GET", "/a%20b", query={"x": "1"}, timeout=timeout)).body


async def test_a_request_has_its_decoded_path_and_its_query() -> None:
    async def answer(request: Request) -> Response:
        return Response(200, f"{request.path} {request.query} {request.params.get('x')}".encode())

    assert await get(answer) == b"/a b x=1 1"


async def test_a_request_that_waits_for_nothing_starts_no_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    async def answer(_: Request) -> Response:
        return Response(200, b"at once")

    monkeypatch.setattr(asyncio, "timeout", None)
    assert await get(answer) == b"at once"


async def test_a_request_that_waits_continues_with_what_it_waited_for() -> None:
    async def answer(_: Request) -> Response:
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[bytes] = loop.create_future()
        loop.call_soon(ready.set_result, b"later")
        first = await ready
        failing: asyncio.Future[bytes] = loop.create_future()
        loop.call_soon(failing.set_exception, ValueError("refused"))
        with pytest.raises(ValueError, match="refused"):
            await failing
        return Response(200, first)

    assert await get(answer) == b"later"


async def test_a_request_that_never_ends_is_cancelled_at_its_timeout() -> None:
    cancelled: list[bool] = []

    async def answer(_: Request) -> Response:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise
        return Response()

    with pytest.raises(TransportTimeoutError, match=r"no answer within 0\.01 s"):
        await get(answer, timeout=0.01)
    assert cancelled == [True]


async def test_a_streamed_answer_is_read_as_a_whole() -> None:
    async def chunks() -> Any:
        yield b"one "
        await asyncio.get_running_loop().run_in_executor(None, lambda: None)
        yield b"two"

    async def answer(_: Request) -> Response:
        return Response(stream=chunks())

    assert await get(answer) == b"one two"
