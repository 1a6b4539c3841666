"""The transport of one process of the explored operator, which counts requests and injects the faults of a plan.

A request of a crashed process never returns. A write whose response is lost is stored, and the client gets a connection
error. Events of a watch can be late or lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from contextvars import ContextVar
from typing import Final
from urllib.parse import unquote

import msgspec

from steersman.client.errors import ConnectionLostError
from steersman.client.transport.base import HeaderPairs, Query, RequestHeaders, Response, StreamResponse, WebSocket
from steersman.testing.explore.director import Director, View
from steersman.testing.explore.trace import UNCOUNTED, WriteRecord
from steersman_cluster.api.inprocess import InProcessTransport
from steersman_cluster.api.requests.messages import Params
from steersman_cluster.api.requests.request_info import RequestInfo, resolve

__all__ = ["CURRENT_WRITE", "ExploredTransport", "resource_name"]

CURRENT_WRITE: Final[ContextVar[WriteRecord | None]] = ContextVar("steersman_write", default=None)
"""The write of the operator that the API server is performing."""
_WRITES: Final = frozenset({"create", "update", "patch", "delete", "deletecollection"})
_EXPIRED: Final = msgspec.json.encode({
    "type": "ERROR",
    "object": {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 410, "reason": "Expired",
        "message": "The resourceVersion for the provided watch is too old.",
    },
}) + b"\n"  # fmt: skip
_CONFLICT: Final = msgspec.json.encode({
    "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 409, "reason": "Conflict",
    "message": "Operation cannot be fulfilled: the object has been modified; "
    "please apply your changes to the latest version and try again",
})  # fmt: skip


class _Metadata(msgspec.Struct, gc=False):
    name: str = ""
    namespace: str = ""
    resourceVersion: str = "0"  # noqa: N815 - the name in the API
    annotations: dict[str, str] | None = None


class _Object(msgspec.Struct, gc=False):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


class _Frame(msgspec.Struct, gc=False):
    type: str
    object: _Object


_decode_frame: Final = msgspec.json.Decoder(_Frame).decode


def resource_name(group: str, plural: str) -> str:
    """Return the name of a resource: `pods`, or `apps.example.com` with its group."""
    return f"{plural}.{group}" if group else plural


class ExploredTransport:
    """A transport of one process of the operator.

    Args:
        inner: The transport to the API server.
        director: Counts the requests and decides on their faults.
        process: The number of the process.
        latency: Seconds of virtual time that each request takes.
    """

    def __init__(self, inner: InProcessTransport, director: Director, process: int, latency: float) -> None:
        self._inner = inner
        self._director = director
        self._process = process
        self._latency = latency

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        headers: RequestHeaders = (),
        body: bytes | None = None,
        timeout: float,
    ) -> Response:
        """Send a request; see `Transport.request`."""
        info = _info(method, path, query)
        loop = asyncio.get_running_loop()
        if info.verb not in _WRITES or info.resource in UNCOUNTED:
            await asyncio.sleep(self._latency)
            return await self._inner.request(method, path, query=query, headers=headers, body=body, timeout=timeout)
        write = WriteRecord(
            0, self._process, loop.time(), info.verb, resource_name(info.group, info.resource), info.subresource,
            info.namespace, info.name,
        )  # fmt: skip
        fault = self._director.begin(write)
        # Half of the latency is before the write is stored, half after it. A stopped process stays in its sleep.
        await asyncio.sleep(self._latency / 2)
        if fault is not None and fault.kind == "conflict":
            write.code, write.ended = 409, loop.time()
            return Response(409, HeaderPairs((("Content-Type", "application/json"),)), _CONFLICT)
        token = CURRENT_WRITE.set(write)
        try:
            response = await self._inner.request(method, path, query=query, headers=headers, body=body, timeout=timeout)
        finally:
            CURRENT_WRITE.reset(token)
        write.code = response.status
        write.revision = self._inner.revision
        self._director.end(write, fault)
        await asyncio.sleep(self._latency / 2)
        write.ended = loop.time()
        if fault is not None and fault.kind == "lose-answer":
            raise ConnectionLostError(f"{method} {path}: the connection broke before the response arrived")
        return response

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        headers: RequestHeaders = (),
        body: bytes | None = None,
        connect_timeout: float,
        idle_timeout: float,
    ) -> AsyncGenerator[StreamResponse]:
        """Open a stream; see `Transport.stream`."""
        await asyncio.sleep(self._latency)
        info = _info(method, path, query)
        async with self._inner.stream(
            method,
            path,
            query=query,
            headers=headers,
            body=body,
            connect_timeout=connect_timeout,
            idle_timeout=idle_timeout,
        ) as response:
            if info.verb != "watch" or response.status != 200:
                yield response
                return
            initial = dict(_pairs(query)).get("sendInitialEvents") == "true"
            frames = self._watched(response.chunks, resource_name(info.group, info.resource), initial=initial)
            async with aclosing(frames):
                yield StreamResponse(response.status, response.headers, frames)

    async def _watched(self, chunks: AsyncIterator[bytes], resource: str, *, initial: bool) -> AsyncGenerator[bytes]:
        arrived: asyncio.Queue[bytes | None] = asyncio.Queue()
        view = View(resource, self._process, arrived.put_nowait, [])
        self._director.open(view, as_of=self._inner.as_of)

        async def read() -> None:
            listing = initial
            try:
                async for chunk in chunks:
                    for line in chunk.splitlines(keepends=True):
                        frame = _decode_frame(line)
                        metadata = frame.object.metadata
                        if listing:
                            arrived.put_nowait(line)
                            listing = "k8s.io/initial-events-end" not in (metadata.annotations or {})
                        else:
                            revision = int(metadata.resourceVersion or 0)
                            self._director.event(view, frame.type, metadata.namespace, metadata.name, revision, line)
            finally:
                arrived.put_nowait(b"")

        reading = asyncio.create_task(read(), name=f"watch {resource}")
        try:
            while (line := await arrived.get()) != b"":
                yield _EXPIRED if line is None else line
            await reading
        finally:
            self._director.close(view)
            reading.cancel()
            await asyncio.wait([reading])

    async def websocket(
        self, path: str, *, query: Query = (), headers: RequestHeaders = (), protocols: Sequence[str], timeout: float
    ) -> WebSocket:
        """Open a WebSocket; see `Transport.websocket`."""
        await asyncio.sleep(self._latency)
        return await self._inner.websocket(path, query=query, headers=headers, protocols=protocols, timeout=timeout)

    async def close(self) -> None:
        """Close the transport; see `Transport.close`."""
        await self._inner.close()


def _pairs(query: Query) -> tuple[tuple[str, str], ...]:
    return tuple(query.items() if isinstance(query, Mapping) else query)


def _info(method: str, path: str, query: Query) -> RequestInfo:
    return resolve(method, unquote(path), Params(_pairs(query)))
