"""The load that both servers get: plain HTTP/1.1 over TLS on kept-alive connections, nothing retried, nothing lost.

Every answer is checked; one that is not what was asked for ends the run with a BenchmarkError.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from benchmarks.embedded_servers import Server
from benchmarks.harness import BenchmarkError

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
JSON, MERGE, APPLY = "application/json", "application/merge-patch+json", "application/apply-patch+yaml"


@dataclass(frozen=True)
class Ask:
    """One request, and the code that must come back."""

    method: str
    path: str
    body: bytes = b""
    media: str = JSON
    code: int = 200

    def encode(self) -> bytes:
        length = f"Content-Type: {self.media}\r\nContent-Length: {len(self.body)}\r\n" if self.body else ""
        head = (
            f"{self.method} {self.path} HTTP/1.1\r\nHost: bench\r\nUser-Agent: bench\r\nAccept: {JSON}\r\n{length}\r\n"
        )
        return head.encode() + self.body


class Connection:
    """One request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, server: Server) -> Connection:
        # Certificates of both servers name 127.0.0.1.
        made = await asyncio.open_connection(server.host, server.port, ssl=server.tls, limit=2**22)
        return cls(*made)

    async def ask(self, ask: Ask) -> bytes:
        """The body of the answer."""
        code, chunked, length = await self._head(ask)
        body = (
            b"".join([chunk async for chunk in self._chunks()]) if chunked else await self._reader.readexactly(length)
        )
        if code != ask.code:
            raise BenchmarkError(f"{ask.method} {ask.path} was answered with {code}: {body[:500]!r}")
        return body

    async def watch(self, path: str) -> AsyncIterator[bytes]:
        """The lines of a watch, for as long as it lasts."""
        code, chunked, _ = await self._head(Ask("GET", path))
        if code != 200 or not chunked:
            raise BenchmarkError(f"GET {path} was answered with {code}")
        rest = b""
        async for chunk in self._chunks():
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                yield line

    async def close(self) -> None:
        self._writer.close()
        with suppress(OSError, ssl.SSLError):
            await self._writer.wait_closed()

    async def _head(self, ask: Ask) -> tuple[int, bool, int]:
        self._writer.write(ask.encode())
        head = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        code = int(head[9:12])
        length = head.partition(b"content-length:")[2].partition(b"\r\n")[0]
        return code, b"transfer-encoding: chunked" in head, int(length or 0)

    async def _chunks(self) -> AsyncIterator[bytes]:
        while size := int(await self._reader.readline(), 16):
            chunk = await self._reader.readexactly(size + 2)
            yield chunk[:-2]
        await self._reader.readline()


@asynccontextmanager
async def connections(server: Server, count: int) -> AsyncIterator[list[Connection]]:
    """So many connections, opened one after the other."""
    made = [await Connection.open(server) for _ in range(count)]
    try:
        yield made
    finally:
        for connection in made:
            await connection.close()


async def in_flight(made: Sequence[Connection], asks: Iterable[Ask]) -> None:
    """All requests, as many at once as there are connections."""
    waiting = iter(asks)

    async def work(connection: Connection) -> None:
        for ask in waiting:
            await connection.ask(ask)

    async with asyncio.TaskGroup() as group:
        for connection in made:
            group.create_task(work(connection))


async def timed(connection: Connection, ask: Ask, count: int, check: Callable[[Any], bool]) -> list[float]:
    """Seconds of each of `count` requests, one after the other, sorted."""
    taken: list[float] = []
    for _ in range(count):
        started = time.perf_counter()
        body = await connection.ask(ask)
        taken.append(time.perf_counter() - started)
        if len(taken) == 1 and not check(json.loads(body)):
            raise BenchmarkError(f"{ask.method} {ask.path} answered something else: {body[:300]!r}")
    return sorted(taken)


def configmap(number: int, value: str = "0", *, manifest: bool = False, size: int = 0) -> bytes:
    """A small ConfigMap; `manifest` adds apiVersion and kind, `size` so many bytes of data."""
    obj: dict[str, Any] = {"metadata": {"name": f"map-{number}", "labels": {"app": f"a{number % 50}"}}}
    obj["data"] = {"key": value, "other": "x" * size or "y"}
    if manifest:
        obj = {"apiVersion": "v1", "kind": "ConfigMap", **obj}
    return json.dumps(obj).encode()


def deployment(name: str, replicas: int) -> bytes:
    labels = {"app": name}
    container = {"name": "main", "image": "registry.example/app:1"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return json.dumps({"metadata": {"name": name, "labels": labels}, "spec": spec}).encode()
