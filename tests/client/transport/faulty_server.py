"""A server that does what no server should: each path is one way to misbehave. Plain sockets, loopback only."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

OK = b"HTTP/1.1 200 OK\r\n"


class FaultyServer:
    """Counts the requests by path; answers each by the script of its path."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.heads: list[bytes] = []
        self.bodies: list[bytes] = []
        self.connections = 0

    def requests(self, path: str) -> int:
        return sum(1 for head in self.heads if head.split(b" ")[1].split(b"?")[0].decode() == path)


async def _read_request(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    length = 0
    for line in head.split(b"\r\n"):
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    return head, await reader.readexactly(length)


REUSABLE = {
    "/ok": OK + b'Content-Length: 2\r\nWarning: 299 - "a"\r\nWarning: 299 - "b"\r\n\r\nok',
    "/empty": b"HTTP/1.1 204 No Content\r\n\r\n",
    "/redirect": b"HTTP/1.1 307 Temporary Redirect\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
    # A complete second response after the first: no request belongs to it.
    "/smuggled": OK + b"Content-Length: 2\r\n\r\nok" + OK + b"Content-Length: 6\r\n\r\nforged",
}
THEN_CLOSED = {
    "/gone-before-the-head": b"",
    "/truncated": OK + b"Content-Length: 1000\r\n\r\nabc",
    "/truncated-chunks": OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
    "/bad-chunk-size": OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n",
    "/two-lengths": OK + b"Content-Length: 3\r\nContent-Length: 30\r\n\r\nabc",
    "/not-http": b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
    "/half-a-head": b"HTTP/1.1 200 OK\r\nContent-Le",
    "/oversized-header": OK + b"X-Large: " + b"x" * (2 << 20) + b"\r\nContent-Length: 0\r\n\r\n",
    "/length-and-chunks": OK + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    "/stream": OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\n0\n\r\n2\r\n1\n\r\n2\r\n2\n\r\n0\r\n\r\n",
}
THEN_CLOSED["/flood"] = OK + b"Transfer-Encoding: chunked\r\n\r\n" + (b"10000\r\n" + b"x" * 65536 + b"\r\n") * 128
THEN_CLOSED["/flood"] += b"0\r\n\r\n"
THEN_RESET = {
    "/reset-before-the-head": b"",
    "/reset-in-the-body": OK + b"Content-Length: 1000\r\n\r\nabc",
}
THEN_SILENT = {
    "/silent": b"",
    "/stream-then-silence": OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\n0\n\r\n",
}
DRIPPED = {
    "/slow-head": (OK, b"X-Slow: 1\r\n", 0.05),
    "/slow-body": (OK + b"Content-Length: 100000\r\n\r\n", b"x", 0.05),
    "/never-ending-head": (OK, b"X-More: " + b"x" * 1000 + b"\r\n", 0.0),
}


async def _misbehave(path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """Answer; True when the connection may be used again."""
    if path in DRIPPED:
        start, drop, pause = DRIPPED[path]
        writer.write(start)
        with suppress(ConnectionError):
            while True:
                writer.write(drop)
                await writer.drain()
                await asyncio.sleep(pause)
    for answers in (THEN_CLOSED, THEN_RESET, THEN_SILENT):
        if path in answers:
            writer.write(answers[path])
            await writer.drain()
            if answers is THEN_RESET:
                writer.transport.abort()
            elif answers is THEN_SILENT:
                await reader.read()
            return False
    writer.write(REUSABLE.get(path, b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"))
    return True


@asynccontextmanager
async def faulty_server() -> AsyncIterator[FaultyServer]:
    tasks: set[asyncio.Task[None]] = set()
    faulty = FaultyServer("")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        faulty.connections += 1
        try:
            while True:
                head, body = await _read_request(reader)
                faulty.heads.append(head)
                faulty.bodies.append(body)
                path = head.split(b" ")[1].split(b"?")[0].decode()
                if not await _misbehave(path, reader, writer):
                    return
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            tasks.discard(task)
            writer.close() if writer.get_extra_info("ssl_object") is None else writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1 << 22)
    faulty.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield faulty
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
