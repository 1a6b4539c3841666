"""A cluster of an API server alone, and connections that send any bytes."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from steersman.pki import as_file
from steersman_cluster.cluster import DevCluster, Options

MAPS = "/api/v1/namespaces/default/configmaps"


class RawConnection:
    """One TLS connection, byte by byte."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def request(self, method: str, path: str, body: Any = None, *headers: str) -> None:
        """Send a whole request."""
        data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        lines = [f"{method} {path} HTTP/1.1", "Host: cluster", f"Content-Length: {len(data)}", *headers]
        if data:
            lines.append("Content-Type: application/json")
        await self.send("\r\n".join([*lines, "", ""]).encode() + data)

    async def head(self) -> tuple[int, dict[str, str]]:
        """Status and headers of the next answer."""
        text = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        status, *lines = text.strip().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        return int(status.split()[1]), headers

    async def answer(self) -> tuple[int, Any]:
        """Status and body of the next answer."""
        status, headers = await self.head()
        body = await self.reader.readexactly(int(headers.get("content-length", "0")))
        return status, json.loads(body) if headers["content-type"] == "application/json" else body.decode()

    async def line(self) -> Any:
        """The next line of a chunked stream; None at its end."""
        size = int(await self.reader.readline(), 16)
        data = await self.reader.readexactly(size)
        await self.reader.readexactly(2)
        return [json.loads(line) for line in data.splitlines()] if size else None

    async def events(self, count: int) -> list[Any]:
        """So many events of a watch."""
        found: list[Any] = []
        while len(found) < count:
            found += await self.line() or pytest.fail(f"the watch ended after {len(found)} events")
        return found

    async def ended(self) -> bool:
        """Whether the server closes the connection; bytes that arrive before are discarded."""
        try:
            while await self.reader.read(65536):
                pass
        except ConnectionError:
            pass
        return True

    async def close(self) -> None:
        self.writer.close()
        try:
            async with asyncio.timeout(2):
                await self.writer.wait_closed()
        except (OSError, TimeoutError):
            pass


class Listener:
    """Connections to one cluster, as its administrator unless `anonymous`."""

    def __init__(self, cluster: DevCluster) -> None:
        self.cluster = cluster
        self.server = cluster.server

    def context(self, *, anonymous: bool = False) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=self.cluster.authority.cert_pem.decode())
        if not anonymous:
            pair = self.cluster.authority.client("kubernetes-admin", ("system:masters",))
            with as_file(pair.key_pem + pair.cert_pem) as path:
                context.load_cert_chain(path)
        return context

    @asynccontextmanager
    async def connection(self, *, anonymous: bool = False) -> AsyncIterator[RawConnection]:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self.cluster.port, ssl=self.context(anonymous=anonymous), limit=2**20
        )
        connection = RawConnection(reader, writer)
        try:
            async with asyncio.timeout(90):
                yield connection
        finally:
            await connection.close()

    async def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """One request on a connection of its own."""
        async with self.connection() as connection:
            await connection.request(method, path, body)
            return await connection.answer()


@pytest.fixture
async def listener() -> AsyncIterator[Listener]:
    async with DevCluster.start(Options(controllers=False, nodes=0)) as cluster:
        yield Listener(cluster)
