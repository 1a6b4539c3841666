"""exec, attach and port-forward over WebSockets (KEP-4006), without SPDY.

exec and attach use the protocol `v5.channel.k8s.io`, or v4 with older servers: the first byte of each message is its
channel. Port-forwarding uses `v4.channel.k8s.io`, which API servers pass on to the kubelet, with one WebSocket for each
forwarded connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Literal, TypeAlias

import msgspec

from steersman.client.core import Verbs
from steersman.client.errors import ClientError, ConnectionLostError, ResponseError, error_from_status
from steersman.client.local_port import LocalPort
from steersman.client.pods import POD
from steersman.client.status import Status
from steersman.client.transport.base import WebSocket
from steersman.models import DecodeError, decode, encode
from steersman.telemetry.log import get_logger

__all__ = ["ExecResult", "ExecSession", "Forwarding", "Streams", "exit_code_of"]

Output: TypeAlias = Literal["stdout", "stderr"]

_EXEC_PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_FORWARD_PROTOCOLS = ("v4.channel.k8s.io",)
_STDIN, _STDOUT, _STDERR, _ERROR, _RESIZE, _CLOSE = 0, 1, 2, 3, 4, 255
_CHUNK_BYTES = 1 << 15

_log = get_logger("client")


class ExecResult(msgspec.Struct, frozen=True, kw_only=True):
    """The output of a command and its exit code. The output is not part of the `repr`."""

    stdout: bytes
    stderr: bytes
    exit_code: int

    def __repr__(self) -> str:
        return f"<exit code {self.exit_code}, {len(self.stdout)} + {len(self.stderr)} bytes>"


def exit_code_of(status: Status) -> int:
    """Return the exit code in the final Status of a command. Raises `ApiError` if the command did not run."""
    if status.status == "Success":
        return 0
    for cause in status.details.causes:
        if cause.reason == "ExitCode" and cause.message.isdecimal():
            return int(cause.message)
    raise error_from_status(status, "exec")


class ExecSession:
    """A running command. Iteration yields its output as `("stdout" | "stderr", bytes)`; then `exit_code` is set."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket
        self._exit_code: int | None = None

    @property
    def exit_code(self) -> int:
        """The exit code. Raises `ValueError` before the output has been read to its end."""
        if self._exit_code is None:
            raise ValueError("the command has not ended: read its output to the end first")
        return self._exit_code

    async def write(self, data: bytes) -> None:
        """Write to the command's standard input."""
        for start in range(0, len(data), _CHUNK_BYTES):
            await self._socket.send(bytes((_STDIN,)) + data[start : start + _CHUNK_BYTES])

    async def close_stdin(self) -> None:
        """Close the command's standard input. Raises `ResponseError` if the server supports only v4, which cannot."""
        if self._socket.protocol != _EXEC_PROTOCOLS[0]:
            raise ResponseError("exec: this server cannot close standard input (v5.channel.k8s.io, Kubernetes 1.30)")
        await self._socket.send(bytes((_CLOSE, _STDIN)))

    async def resize(self, columns: int, rows: int) -> None:
        """Send the terminal's size."""
        await self._socket.send(bytes((_RESIZE,)) + encode({"Width": columns, "Height": rows}))

    async def __aiter__(self) -> AsyncIterator[tuple[Output, bytes]]:
        while (message := await self._socket.receive()) is not None:
            if not message:
                continue
            channel, data = message[0], message[1:]
            if channel == _ERROR:
                self._exit_code = exit_code_of(_status(data))
            elif data and channel in (_STDOUT, _STDERR):
                yield ("stdout" if channel == _STDOUT else "stderr"), data
        if self._exit_code is None:
            raise ConnectionLostError("exec: the connection ended before the command; the command may still run")


def _status(data: bytes) -> Status:
    try:
        return decode(Status, data)
    except DecodeError as problem:
        raise ResponseError(f"exec: the final message of the command is not a Status: {problem}") from problem


class Forwarding:
    """A port of a Pod that is open locally at `host:port` until the context ends."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port

    def __repr__(self) -> str:
        return f"<forwarding at {self.host}:{self.port}>"


class Streams(Verbs):
    """The verbs that keep a connection to a container open."""

    async def exec(
        self,
        name: str,
        command: Sequence[str],
        *,
        namespace: str | None = None,
        container: str | None = None,
        stdin: bytes | None = None,
        timeout: float = 60.0,
    ) -> ExecResult:
        """Run a command in a container and wait for its end; raises `TimeoutError` after `timeout` seconds.

        A non-zero exit code is a result, not an error. The command runs without a shell: pass `["sh", "-c", "…"]` for
        one.
        """
        out: dict[str, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}
        async with (
            asyncio.timeout(timeout),
            self.open_exec(name, command, namespace=namespace, container=container, stdin=stdin is not None) as session,
        ):
            if stdin is not None:
                await session.write(stdin)
                await session.close_stdin()
            async for stream, data in session:
                out[stream] += data
            return ExecResult(stdout=bytes(out["stdout"]), stderr=bytes(out["stderr"]), exit_code=session.exit_code)

    @asynccontextmanager
    async def open_exec(
        self,
        name: str,
        command: Sequence[str],
        *,
        namespace: str | None = None,
        container: str | None = None,
        stdin: bool = False,
        tty: bool = False,
    ) -> AsyncGenerator[ExecSession]:
        """Run a command, with access to its input and output. Leaving the context closes the connection."""
        if isinstance(command, str) or not command:
            raise ValueError(f"exec: command={command!r}: pass a list of words, for example ['ls', '-l']")
        query = [*(("command", word) for word in command), *_attach_query(container, stdin=stdin, tty=tty)]
        async with self._session(name, namespace, "exec", query) as session:
            yield session

    @asynccontextmanager
    async def open_attach(
        self,
        name: str,
        *,
        namespace: str | None = None,
        container: str | None = None,
        stdin: bool = False,
        tty: bool = False,
    ) -> AsyncGenerator[ExecSession]:
        """Attach to a container's main process. Leaving the context closes the connection; the process continues."""
        async with self._session(name, namespace, "attach", _attach_query(container, stdin=stdin, tty=tty)) as session:
            yield session

    @asynccontextmanager
    async def _session(
        self, name: str, namespace: str | None, subresource: str, query: Sequence[tuple[str, str]]
    ) -> AsyncGenerator[ExecSession]:
        path = POD.path(self.namespace_for(POD, namespace), name, subresource)
        socket = await self.raw.websocket(path, query=query, protocols=_EXEC_PROTOCOLS)
        try:
            yield ExecSession(socket)
        finally:
            await socket.close()

    @asynccontextmanager
    async def port_forward(
        self, name: str, port: int, *, namespace: str | None = None, local_port: int = 0, host: str = "127.0.0.1"
    ) -> AsyncGenerator[Forwarding]:
        """Listen on a local port and forward each connection to a port of a Pod until the context ends.

        `local_port` 0 selects a free port, see `Forwarding.port`. A connection that the Pod refuses is closed, and the
        reason is logged. The default `host` is the loopback address.
        """
        path = POD.path(self.namespace_for(POD, namespace), name, "portforward")

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await self._forward(path, port, reader, writer)
            except ClientError as problem:
                _log.warning("forwarded_connection_failed", pod=name, port=port, error=str(problem))

        opened = await LocalPort.open(serve, host, local_port)
        try:
            yield Forwarding(host, opened.address[1])
        finally:
            await opened.close()

    async def _forward(self, path: str, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        socket = await self.raw.websocket(path, query=(("ports", str(port)),), protocols=_FORWARD_PROTOCOLS)
        upward = asyncio.create_task(_send_up(reader, socket))
        try:
            await _send_down(socket, writer, path)
        finally:
            upward.cancel()
            with suppress(asyncio.CancelledError, ClientError, OSError):
                await upward
            await socket.close()


async def _send_up(reader: asyncio.StreamReader, socket: WebSocket) -> None:
    while data := await reader.read(_CHUNK_BYTES):
        await socket.send(b"\0" + data)
    await socket.close()


async def _send_down(socket: WebSocket, writer: asyncio.StreamWriter, path: str) -> None:
    greeted: set[int] = set()
    with suppress(ConnectionResetError, BrokenPipeError):
        while (message := await socket.receive()) is not None:
            if not message:
                continue
            channel, data = message[0], message[1:]
            if channel not in greeted:  # the first message of each channel is the port in two bytes
                greeted.add(channel)
                data = data[2:]
            if channel == 1 and data:
                raise ResponseError(f"{path}: {data[:300].decode('utf-8', 'replace').strip()}")
            if channel == 0 and data:
                writer.write(data)
                await writer.drain()


def _attach_query(container: str | None, *, stdin: bool, tty: bool) -> list[tuple[str, str]]:
    query = [("stdout", "true"), ("stderr", "false" if tty else "true")]
    if stdin:
        query.append(("stdin", "true"))
    if tty:
        query.append(("tty", "true"))
    if container:
        query.append(("container", container))
    return query
