"""Commands and ports of Pods over SPDY/3.1, for kubectl before 1.31 and client-go.

The session uses an upgraded connection or, for kubectl's port-forward, a WebSocket. For a command the client opens one
stream for each of error, stdin, stdout, stderr and resize that it requests, and output starts when all are open. For a
port it opens pairs of an error and a data stream; each pair is a connection.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Final

from steersman_cluster import spdy
from steersman_cluster.api.connect.channels import CHUNK, Connect, ending, resized
from steersman_cluster.api.connect.pod_options import ExecOptions
from steersman_cluster.api.requests.messages import Socket
from steersman_cluster.errors import APIError
from steersman_cluster.kubelet import STDERR, STDOUT, Connection, ExecSession

__all__ = ["EXEC_PROTOCOL", "FORWARD_PROTOCOL", "TUNNEL", "exchange", "forward"]

EXEC_PROTOCOL: Final = "v4.channel.k8s.io"
FORWARD_PROTOCOL: Final = "portforward.k8s.io"
TUNNEL: Final = "SPDY/3.1+portforward.k8s.io"
"""The web socket protocol that has SPDY inside."""
_STREAMS_SECONDS: Final = 30.0
"""Seconds for a client to open the streams that it asked for."""


class _Session:
    """A SPDY session on a socket: reads it to its end, and hands its events to `on`."""

    def __init__(self, socket: Socket) -> None:
        self._socket = socket
        self._session = spdy.Session()
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Run until the client disconnects or violates SPDY."""
        try:
            while (message := await self._socket.receive()) is not None:
                for event in self._session.feed(message):
                    await self.on(event)
                await self.flush()
        except (OSError, spdy.SpdyError):
            pass
        finally:
            for task in tuple(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await self.ended()
            with suppress(OSError):
                await self._socket.close()

    async def on(self, event: spdy.Event) -> None:
        """Something happened."""
        raise NotImplementedError

    async def ended(self) -> None:
        """End the session and release its streams."""
        raise NotImplementedError

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something beside the reading, for as long as that goes on."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def send(self, stream: int, data: bytes, *, last: bool = False) -> None:
        """Send on a stream; nothing where the client has not opened it."""
        if stream:
            self._session.send(stream, data, last=last)
            await self.flush()

    async def flush(self) -> None:
        if out := self._session.pending():
            with suppress(OSError):
                await self._socket.send(out)


# Commands.


async def exchange(socket: Socket, session: ExecSession, options: ExecOptions) -> None:
    """Both directions of a command until it ends or the client goes."""
    await _Command(socket, session, options).run()


class _Command(_Session):
    def __init__(self, socket: Socket, session: ExecSession, options: ExecOptions) -> None:
        super().__init__(socket)
        self._command = session
        self._streams: dict[str, int] = {}
        self._wanted = {"error"}
        self._wanted |= {name for name in ("stdin", "stdout", "stderr") if getattr(options, name)}
        if options.tty:
            self._wanted = (self._wanted | {"resize"}) - {"stderr"}
        self._all = asyncio.Event()
        self.start(self._output())

    async def on(self, event: spdy.Event) -> None:
        match event:
            case spdy.Opened(stream=stream, headers=headers, last=last):
                kind = next((value for name, value in headers.items() if name.lower() == "streamtype"), "")
                self._session.accept(stream)
                self._streams[kind] = stream
                if self._wanted <= self._streams.keys():
                    self._all.set()
                if last and kind == "stdin":
                    await self._command.close_stdin()
            case spdy.Data(stream=stream, body=body, last=last) if stream == self._streams.get("stdin"):
                if body:
                    await self._command.write(body)
                if last:
                    await self._command.close_stdin()
            case spdy.Data(stream=stream, body=body) if stream == self._streams.get("resize"):
                for line in body.splitlines():
                    await resized(self._command, line)
            case _:
                pass

    async def ended(self) -> None:
        await self._command.close()

    async def _output(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_STREAMS_SECONDS):
                await self._all.wait()
        streams = {STDOUT: self._streams.get("stdout", 0), STDERR: self._streams.get("stderr", 0)}
        async for channel, data in self._command:
            await self.send(streams.get(channel, 0), data)
        code = await self._command.wait()
        for stream in streams.values():
            await self.send(stream, b"", last=True)
        await self.send(self._streams.get("error", 0), json.dumps(ending(code)).encode(), last=True)
        self._session.close()
        await self.flush()
        with suppress(OSError):
            await self._socket.close()


# Ports.


async def forward(socket: Socket, connect: Connect) -> None:
    """As many connections as the client opens, until it goes."""
    await _Forward(socket, connect).run()


class _Forward(_Session):
    def __init__(self, socket: Socket, connect: Connect) -> None:
        super().__init__(socket)
        self._connect = connect
        self._errors: dict[str, int] = {}
        self._connections: dict[int, Connection] = {}
        self._early: dict[int, list[spdy.Data]] = {}

    async def on(self, event: spdy.Event) -> None:
        match event:
            case spdy.Opened(stream=stream, headers=headers):
                self._session.accept(stream)
                headers = {name.lower(): value for name, value in headers.items()}
                if headers.get("streamtype") == "error":
                    self._errors[headers.get("requestid", "")] = stream
                else:
                    self._early[stream] = []
                    self.start(self._open(stream, headers))
            case spdy.Data(stream=stream):
                if stream in self._early:
                    self._early[stream].append(event)
                elif (connection := self._connections.get(stream)) is not None:
                    await _pass_on(connection, event)
            case spdy.Reset(stream=stream):
                if (connection := self._connections.pop(stream, None)) is not None:
                    connection[1].close()
            case _:
                pass

    async def ended(self) -> None:
        for _, writer in self._connections.values():
            writer.close()

    async def _open(self, stream: int, headers: dict[str, str]) -> None:
        error = self._errors.pop(headers.get("requestid", ""), 0)
        port = headers.get("port", "")
        try:
            connection = await self._connect(int(port))
        except (APIError, OSError, ValueError) as problem:
            self._early.pop(stream, None)
            await self.send(error, f"error forwarding port {port} to pod: {problem}".encode(), last=True)
            await self.send(stream, b"", last=True)
            return
        for event in self._early.pop(stream, []):
            await _pass_on(connection, event)
        self._connections[stream] = connection
        with suppress(OSError):
            while data := await connection[0].read(CHUNK):
                await self.send(stream, data)
        self._connections.pop(stream, None)
        connection[1].close()
        await self.send(stream, b"", last=True)
        await self.send(error, b"", last=True)


async def _pass_on(connection: Connection, event: spdy.Data) -> None:
    writer = connection[1]
    with suppress(OSError):
        if event.body:
            writer.write(event.body)
            await writer.drain()
        if event.last and writer.can_write_eof():
            writer.write_eof()
