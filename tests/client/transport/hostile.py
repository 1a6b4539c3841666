"""A server that does what no server should: each path is one way to misbehave. Plain sockets, loopback only."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

OK = b"HTTP/1.1 200 OK\r\n"


class HostileServer:
    """Counts the requests by path; answers each by the script of its path."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.heads: list[bytes] = []
        self.bodies: list[bytes] = []

    def requests(self, path: str) -> int:
        return sum(1 for head in self.heads if head.split(b" ")[1].split(b"?")[0].decode() == path)


async def _read_request(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    length = 0
    for line in head.split(b"\r\n"):
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    return head, await reader.readexactly(length)


async def _misbehave(path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """Answer; True when the connection may be used again."""
    write = writer.write
    match path:
        case "/ok":
            write(OK + b"Content-Length: 2\r\nWarning: 299 - \"a\"\r\nWarning: 299 - \"b\"\r\n\r\nok")
            return True
        case "/empty":
            write(b"HTTP/1.1 204 No Content\r\n\r\n")
            return True
        case "/redirect":
            write(b"HTTP/1.1 307 Temporary Redirect\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n")
            return True
        case "/gone-before-the-head":
            pass
        case "/reset-before-the-head":
            writer.transport.abort()
        case "/reset-in-the-body":
            write(OK + b"Content-Length: 1000\r\n\r\nabc")
            await writer.drain()
            writer.transport.abort()
        case "/truncated":
            write(OK + b"Content-Length: 1000\r\n\r\nabc")
        case "/truncated-chunks":
            write(OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
        case "/bad-chunk-size":
            write(OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n")
        case "/two-lengths":
            write(OK + b"Content-Length: 3\r\nContent-Length: 30\r\n\r\nabc")
        case "/not-http":
            write(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")
        case "/half-a-head":
            write(b"HTTP/1.1 200 OK\r\nContent-Le")
        case "/oversized-header":
            write(OK + b"X-Large: " + b"x" * (2 << 20) + b"\r\nContent-Length: 0\r\n\r\n")
        case "/never-ending-head":
            with suppress(ConnectionError):
                write(OK)
                while True:
                    write(b"X-More: " + b"x" * 1000 + b"\r\n")
                    await writer.drain()
        case "/slow-head":
            with suppress(ConnectionError):
                for byte in OK + b"X-Slow: 1\r\n" * 1000:
                    write(bytes((byte,)))
                    await writer.drain()
                    await asyncio.sleep(0.05)
        case "/slow-body":
            with suppress(ConnectionError):
                write(OK + b"Content-Length: 100000\r\n\r\n")
                while True:
                    write(b"x")
                    await writer.drain()
                    await asyncio.sleep(0.05)
        case "/silent":
            await reader.read()
        case "/smuggled":
            # A whole second response after the first: it belongs to nobody.
            write(OK + b"Content-Length: 2\r\n\r\nok" + OK + b"Content-Length: 6\r\n\r\nforged")
            return True
        case "/length-and-chunks":
            write(OK + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n")
        case "/stream":
            write(OK + b"Transfer-Encoding: chunked\r\n\r\n")
            for number in range(3):
                write(b"2\r\n%d\n\r\n" % number)
                await writer.drain()
                await reader.readexactly(0)
                await asyncio.sleep(0.02)
            write(b"0\r\n\r\n")
            return True
        case "/stream-then-silence":
            write(OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\n0\n\r\n")
            await reader.read()
        case _:
            write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
            return True
    return False


@asynccontextmanager
async def hostile_server() -> AsyncIterator[HostileServer]:
    tasks: set[asyncio.Task[None]] = set()
    hostile = HostileServer("")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            while True:
                head, body = await _read_request(reader)
                hostile.heads.append(head)
                hostile.bodies.append(body)
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
    hostile.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield hostile
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
