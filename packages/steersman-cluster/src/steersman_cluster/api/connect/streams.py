"""The subresources of Pods that connect to the kubelet: logs, exec, attach and port-forward.

The API server or the kubelet refuses invalid requests before the connection is upgraded. After that the client's
protocol decides: `channels` for web sockets, `tunnels` for SPDY.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Final, cast

from steersman_cluster.api.connect import channels, tunnels
from steersman_cluster.api.connect.pod_options import (
    ExecOptions,
    container_of,
    exec_options,
    log_options,
    pod_of,
    ports_of,
)
from steersman_cluster.api.interfaces import Call
from steersman_cluster.api.requests.messages import Response, Socket
from steersman_cluster.errors import APIError, bad_request, not_found
from steersman_cluster.kubelet import STDERR, STDOUT, Connection, ExecSession, Kubelet
from steersman_cluster.objects import Object, dig

__all__ = ["attach", "execute", "kubelet_of", "log", "portforward"]

_SPDY: Final = "spdy/3.1"
_REFUSAL_SECONDS: Final = 0.05
"""Seconds that a kubelet has for refusing a log with a Status."""


def kubelet_of(call: Call, node: str) -> Kubelet:
    """The kubelet of a node. Raises 404 where there is no such node, 500 where nothing answers for it."""
    kubelet = call.server.kubelets.find(node)
    if kubelet is None:
        if call.reader.get("", "nodes", "", node) is None:
            raise not_found("", "nodes", node)
        raise APIError(500, "InternalError", f"error dialing backend: no kubelet answers for node {node}")
    return kubelet


def _host(call: Call, pod: Object) -> Kubelet:
    node = dig(pod, "spec", "nodeName", default="")
    if not node:
        raise bad_request(f"pod {call.name} does not have a host assigned")
    return kubelet_of(call, node)


async def log(call: Call) -> Response:
    """GET of a container's log, as a stream; nothing of a Pod that is on no node. Raises `APIError`."""
    options = log_options(call)
    pod = pod_of(call)
    container = container_of(call, pod)
    node = dig(pod, "spec", "nodeName", default="")
    if not node:
        return Response(204, b"", "")
    chunks = kubelet_of(call, node).logs(call.namespace, call.name, container, options)
    # The kubelet refuses at the first chunk: that must become a Status, not a broken stream. While it has nothing to
    # say, as of a log that is followed and still empty, the answer begins without it.
    first = asyncio.ensure_future(anext(chunks, b""))
    await asyncio.wait((first,), timeout=_REFUSAL_SECONDS)
    if first.done() and (problem := first.exception()) is not None:
        raise problem
    shown = _log(first, chunks)
    if (call.request.headers.get("Upgrade") or "").lower() == "websocket":
        return Response(101, serve=lambda socket: channels.copy(socket, shown), protocols=channels.LOG_PROTOCOLS)
    return Response(200, content_type="text/plain", stream=shown)


async def _log(first: asyncio.Future[bytes], chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    try:
        yield await first
        async for chunk in chunks:
            yield chunk
    finally:
        first.cancel()
        if isinstance(chunks, AsyncGenerator):
            await cast("AsyncGenerator[bytes]", chunks).aclose()


async def execute(call: Call, options: ExecOptions | None = None) -> Response:
    """Run a command in a container; without `options` they are those of the query. Raises `APIError`."""
    options = options or exec_options(call)
    pod = pod_of(call)
    container = container_of(call, pod)
    kubelet = _host(call, pod)
    spdy = _upgrades_to_spdy(call)
    if not options.command:
        raise bad_request("you must specify at least one command for the container")
    _need_streams(options)
    session = await kubelet.exec(
        call.namespace, call.name, container, options.command, stdin=options.stdin, tty=options.tty
    )
    return _session_response(session, options, spdy=spdy)


async def attach(call: Call, options: ExecOptions | None = None) -> Response:
    """Join a container's main process; without `options` they are those of the query. Raises `APIError`."""
    options = options or exec_options(call)
    pod = pod_of(call)
    container = container_of(call, pod)
    kubelet = _host(call, pod)
    spdy = _upgrades_to_spdy(call)
    _need_streams(options)
    session = await kubelet.attach(call.namespace, call.name, container, stdin=options.stdin, tty=options.tty)
    return _session_response(session, options, spdy=spdy)


async def portforward(call: Call, parameter: str = "ports") -> Response:
    """Connect to ports of a Pod, which a query parameter names for web sockets. Raises `APIError`."""
    ports = ports_of(call, parameter)
    pod = pod_of(call)
    kubelet = _host(call, pod)
    spdy = _upgrades_to_spdy(call)

    async def connect(port: int) -> Connection:
        return await kubelet.connect(call.namespace, call.name, port)

    if spdy:
        return Response(101, serve=lambda socket: tunnels.forward(socket, connect), tunnel=tunnels.FORWARD_PROTOCOL)

    async def serve(socket: Socket) -> None:
        if socket.protocol == tunnels.TUNNEL:
            await tunnels.forward(socket, connect)
        else:
            await channels.forward(socket, connect, ports)

    return Response(101, serve=serve, protocols=(tunnels.TUNNEL, *channels.FORWARD_PROTOCOLS))


def _need_streams(options: ExecOptions) -> None:
    if not (options.stdin or options.stdout or options.stderr):
        raise bad_request("you must specify at least 1 of stdin, stdout, stderr")


def _session_response(session: ExecSession, options: ExecOptions, *, spdy: bool) -> Response:
    if spdy:
        return Response(
            101, serve=lambda socket: tunnels.exchange(socket, session, options), tunnel=tunnels.EXEC_PROTOCOL
        )
    requested = [channel for channel, wanted in ((STDOUT, options.stdout), (STDERR, options.stderr)) if wanted]
    return Response(
        101, serve=lambda socket: channels.exchange(socket, session, requested), protocols=channels.EXEC_PROTOCOLS
    )


def _upgrades_to_spdy(call: Call) -> bool:
    """Return whether the client requests SPDY instead of a WebSocket. Raises `APIError` (400) for neither."""
    upgrade = (call.request.headers.get("Upgrade") or "").lower()
    if not upgrade:
        raise bad_request("Upgrade request required")
    if upgrade not in ("websocket", _SPDY):
        raise bad_request(f"unable to upgrade: {upgrade} is not served, use a web socket or SPDY/3.1")
    return upgrade == _SPDY
