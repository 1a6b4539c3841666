"""Logs, exec, attach and port-forward of Pods, and proxies to them: from the API server to a node's kubelet.

Web sockets carry one channel per message's first byte (v4 and v5.channel.k8s.io); kubectl's port-forward carries
SPDY/3.1 inside. What a kubelet refuses is refused before the connection is upgraded.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from steersman.devcluster import spdy
from steersman.devcluster.api.messages import Response, Socket
from steersman.devcluster.errors import APIError, bad_request, internal, not_found
from steersman.devcluster.kubelet import STDERR, STDOUT, Connection, ExecSession, Kubelet, LogOptions
from steersman.devcluster.objects import Object, dig

if TYPE_CHECKING:
    from steersman.devcluster.api.call import Call

__all__ = ["attach", "execute", "log", "portforward", "proxy_node", "proxy_pod", "proxy_service"]

_CHANNELS: Final = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_TUNNEL: Final = "SPDY/3.1+portforward.k8s.io"
_ERROR, _RESIZE, _CLOSE = 3, 4, 255
_CHUNK: Final = 64 * 1024
_SUCCESS: Final = json.dumps({"metadata": {}, "status": "Success"}).encode()


def _pod(call: Call) -> Object:
    found = call.reader.get("", "pods", call.namespace, call.name)
    if found is None:
        raise not_found("", "pods", call.name)
    return found


def _kubelet(call: Call, pod: Object) -> Kubelet:
    node = dig(pod, "spec", "nodeName", default="")
    if not node:
        raise bad_request(f"pod {call.name} does not have a host assigned")
    kubelet = call.server.kubelets.find(node)
    if kubelet is None:
        raise internal(f'error dialing backend: no kubelet answers for node "{node}"')
    return kubelet


def _container(call: Call, pod: Object, what: str = "container") -> str:
    """The container that is meant: the only one where none is named."""
    named = call.options.get("container", "")
    spec: Object = pod["spec"]
    everything = [
        c["name"] for part in ("containers", "initContainers", "ephemeralContainers") for c in spec.get(part) or []
    ]
    if named:
        if named not in everything:
            raise bad_request(f"container {named} is not valid for pod {call.name}")
        return named
    default = dig(pod, "metadata", "annotations", "kubectl.kubernetes.io/default-container")
    if default in everything:
        return default
    main = [c["name"] for c in spec["containers"]]
    if len(main) != 1 or len(everything) != 1:
        init = [c["name"] for c in spec.get("initContainers") or []]
        text = f"a container name must be specified for pod {call.name}, choose one of: [{' '.join(main)}]"
        raise bad_request(f"{text} or one of the init containers: [{' '.join(init)}]" if init else text)
    return main[0]


def _truth(call: Call, name: str) -> bool:
    return call.options.get(name, "").lower() in ("true", "1")


def _number(call: Call, name: str) -> int | None:
    text = call.options.get(name, "")
    if not text:
        return None
    try:
        number = int(text)
    except ValueError:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None
    if number < 0:
        from steersman.devcluster.errors import field_invalid, invalid

        problem = field_invalid(name, number, "must be greater than or equal to 0")
        raise invalid("", "PodLogOptions", call.name, [problem])
    return number


async def log(call: Call) -> Response:
    """GET of a container's log, as a stream."""
    pod = _pod(call)
    container = _container(call, pod)
    since = call.options.get("sinceTime")
    options = LogOptions(
        follow=_truth(call, "follow"),
        previous=_truth(call, "previous"),
        timestamps=_truth(call, "timestamps"),
        since_seconds=_number(call, "sinceSeconds"),
        since_time=datetime.fromisoformat(since.replace("Z", "+00:00")).timestamp() if since else None,
        tail_lines=_number(call, "tailLines"),
        limit_bytes=_number(call, "limitBytes"),
        stream=call.options.get("stream") or "All",
    )
    chunks = _kubelet(call, pod).logs(call.namespace, call.name, container, options)
    # The kubelet refuses at the first chunk: that must become a Status, not a broken stream.
    try:
        first = await anext(chunks, b"")
    except StopAsyncIteration:
        first = b""

    async def stream() -> AsyncIterator[bytes]:
        if first:
            yield first
        async for chunk in chunks:
            yield chunk

    return Response(200, content_type="text/plain", stream=stream())


async def execute(call: Call) -> Response:
    """A command in a container, over a web socket."""
    pod = _pod(call)
    command = call.request.params.all("command")
    if not command:
        raise bad_request("you must specify at least one command for the container")
    kubelet, container = _kubelet(call, pod), _container(call, pod)
    stdin, tty = _truth(call, "stdin"), _truth(call, "tty")
    _must_upgrade(call)
    session = await kubelet.exec(call.namespace, call.name, container, command, stdin=stdin, tty=tty)
    return Response(101, serve=lambda socket: _talk(socket, session), protocols=_CHANNELS)


async def attach(call: Call) -> Response:
    """A container's main process, over a web socket."""
    pod = _pod(call)
    kubelet, container = _kubelet(call, pod), _container(call, pod)
    stdin, tty = _truth(call, "stdin"), _truth(call, "tty")
    _must_upgrade(call)
    session = await kubelet.attach(call.namespace, call.name, container, stdin=stdin, tty=tty)
    return Response(101, serve=lambda socket: _talk(socket, session), protocols=_CHANNELS)


def _must_upgrade(call: Call) -> None:
    upgrade = (call.request.headers.get("Upgrade") or "").lower()
    if upgrade != "websocket":
        raise bad_request(
            "Upgrade request required"
            if not upgrade
            else f"unable to upgrade: {upgrade} is not served, use a WebSocket"
        )


async def _talk(socket: Socket, session: ExecSession) -> None:
    """Both directions of a session until it ends or the client goes."""
    reader = asyncio.ensure_future(_input(socket, session))
    try:
        async for channel, data in session:
            await socket.send(bytes((channel if channel in (STDOUT, STDERR) else STDOUT,)) + data)
        code = await session.wait()
        await socket.send(bytes((_ERROR,)) + _ending(code))
    finally:
        reader.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await reader
        await session.close()
        with suppress(Exception):
            await socket.close()


async def _input(socket: Socket, session: ExecSession) -> None:
    while (message := await socket.receive()) is not None:
        if not message:
            continue
        channel, data = message[0], message[1:]
        if channel == 0 and data:
            await session.write(data)
        elif channel == _RESIZE:
            with suppress(ValueError, KeyError, TypeError):
                size = json.loads(data)
                await session.resize(int(size["Width"]), int(size["Height"]))
        elif channel == _CLOSE and data == b"\x00":
            await session.close_stdin()
    await session.close()


def _ending(code: int) -> bytes:
    if code == 0:
        return _SUCCESS
    return json.dumps(
        {
            "metadata": {},
            "status": "Failure",
            "message": f"command terminated with non-zero exit code: command terminated with exit code {code}",
            "reason": "NonZeroExitCode",
            "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
        }
    ).encode()


# Port-forward.


async def portforward(call: Call) -> Response:
    """Connections to ports of a Pod, over one web socket."""
    pod = _pod(call)
    kubelet = _kubelet(call, pod)
    phase = dig(pod, "status", "phase", default="Pending")
    _must_upgrade(call)
    if phase != "Running":
        raise bad_request(f"unable to forward port because pod is not running. Current status={phase}")
    ports = [int(p) for text in call.request.params.all("ports") for p in text.split(",") if p.isdecimal()]

    async def connect(port: int) -> Connection:
        return await kubelet.connect(call.namespace, call.name, port)

    async def serve(socket: Socket) -> None:
        if socket.protocol == _TUNNEL:
            await _Tunnel(socket, connect).run()
        else:
            await _forward(socket, connect, ports)

    return Response(101, serve=serve, protocols=(_TUNNEL, "v4.channel.k8s.io", "v4.base64.channel.k8s.io"))


class _Tunnel:
    """SPDY in a web socket: pairs of streams, one for errors and one for data, each pair a connection."""

    def __init__(self, socket: Socket, connect: Any) -> None:
        self._socket = socket
        self._connect = connect
        self._session = spdy.Session()
        self._errors: dict[str, int] = {}
        self._connections: dict[int, Connection] = {}
        self._early: dict[int, list[spdy.Data]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Until the client goes."""
        try:
            while (message := await self._socket.receive()) is not None:
                try:
                    events = self._session.feed(message)
                except spdy.Malformed:
                    return
                for event in events:
                    await self._on(event)
                await self._flush()
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            for _, writer in self._connections.values():
                writer.close()
            with suppress(Exception):
                await self._socket.close()

    async def _flush(self) -> None:
        if out := self._session.pending():
            await self._socket.send(out)

    async def _on(self, event: spdy.Event) -> None:
        match event:
            case spdy.Opened(stream=stream, headers=headers):
                self._session.accept(stream)
                headers = {name.lower(): value for name, value in headers.items()}
                if headers.get("streamtype") == "error":
                    self._errors[headers.get("requestid", "")] = stream
                else:
                    self._early[stream] = []
                    task = asyncio.ensure_future(self._open(stream, headers))
                    self._tasks.add(task)
                    task.add_done_callback(self._tasks.discard)
            case spdy.Data(stream=stream):
                if stream in self._early:
                    self._early[stream].append(event)
                elif (connection := self._connections.get(stream)) is not None:
                    await self._pass_on(connection, event)
            case spdy.Reset(stream=stream):
                if (connection := self._connections.pop(stream, None)) is not None:
                    connection[1].close()
            case _:
                pass

    async def _pass_on(self, connection: Connection, event: spdy.Data) -> None:
        writer = connection[1]
        with suppress(OSError):
            if event.body:
                writer.write(event.body)
                await writer.drain()
            if event.last and writer.can_write_eof():
                writer.write_eof()

    async def _open(self, stream: int, headers: dict[str, str]) -> None:
        error = self._errors.pop(headers.get("requestid", ""), 0)
        port = headers.get("port", "")
        try:
            connection = await self._connect(int(port))
        except (APIError, OSError, ValueError) as problem:
            self._early.pop(stream, None)
            self._session.send(error, f"error forwarding port {port} to pod: {problem}".encode(), last=True)
            self._session.send(stream, b"", last=True)
            await self._flush()
            return
        for event in self._early.pop(stream, []):
            await self._pass_on(connection, event)
        self._connections[stream] = connection
        with suppress(OSError):
            while data := await connection[0].read(_CHUNK):
                self._session.send(stream, data)
                await self._flush()
        self._connections.pop(stream, None)
        connection[1].close()
        self._session.send(stream, b"", last=True)
        self._session.send(error, b"", last=True)
        await self._flush()


async def _forward(socket: Socket, connect: Any, ports: list[int]) -> None:
    """Two channels a port: data and errors; each begins with the port's number."""
    connections: dict[int, Connection] = {}
    tasks: list[asyncio.Task[None]] = []
    try:
        for index, port in enumerate(ports):
            for channel in (2 * index, 2 * index + 1):
                await socket.send(bytes((channel,)) + port.to_bytes(2, "little"))
            try:
                connections[2 * index] = await connect(port)
            except (APIError, OSError) as problem:
                await socket.send(bytes((2 * index + 1,)) + f"error forwarding port {port}: {problem}".encode())
                continue
            tasks.append(asyncio.ensure_future(_pump(socket, 2 * index, connections[2 * index])))
        while (message := await socket.receive()) is not None:
            connection = connections.get(message[0]) if message else None
            if connection is not None:
                connection[1].write(message[1:])
                with suppress(OSError):
                    await connection[1].drain()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for _, writer in connections.values():
            writer.close()


async def _pump(socket: Socket, channel: int, connection: Connection) -> None:
    while data := await connection[0].read(_CHUNK):
        await socket.send(bytes((channel,)) + data)
    await socket.close()


# Proxies.


async def proxy_pod(call: Call) -> Response:
    """Any HTTP request to a port of a Pod: `pods/[scheme:]name[:port]/proxy/path`."""
    from steersman.devcluster.api.proxy import to_pod

    return await to_pod(call)


async def proxy_service(call: Call) -> Response:
    """The same to a Pod behind a Service."""
    from steersman.devcluster.api.proxy import to_service

    return await to_service(call)


async def proxy_node(call: Call) -> Response:
    """Kubelets here have no HTTP API of their own."""
    raise internal("error trying to reach service: the nodes of the embedded cluster serve no HTTP")
