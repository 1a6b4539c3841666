"""The proxy sub-resources: an HTTP request of the client, repeated to a Pod over its node's connection.

Bodies of requests are whole, those of answers are passed on as they come, however long that takes. Only plain HTTP is
spoken to Pods, and connections are not upgraded.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import httptools

from steersman.devcluster.api.messages import Response
from steersman.devcluster.api.podoptions import items_of, pod_of
from steersman.devcluster.api.streams import kubelet_of
from steersman.devcluster.errors import APIError, bad_request, not_found
from steersman.devcluster.kubelet import Connection
from steersman.devcluster.objects import Object, dig

if TYPE_CHECKING:
    from steersman.devcluster.api.call import Call

__all__ = ["to_node", "to_pod", "to_service"]

_HOP: Final = frozenset(
    (
        "authorization", "connection", "content-length", "host", "keep-alive", "proxy-authenticate",
        "proxy-authorization", "te", "trailer", "transfer-encoding", "upgrade",
    )
)  # fmt: skip
_SCHEMES: Final = ("", "http", "https")
_FIRST_WORD: Final = 30.0
"""Seconds for a Pod to begin its answer."""
_CHUNK: Final = 64 * 1024


async def to_pod(call: Call) -> Response:
    """`pods/[scheme:]name[:port]/proxy/path`. Raises `APIError`."""
    scheme, name, port = _parts(call.name, "pod")
    pod = pod_of(call, name)
    if not port:
        ports = [port for container in items_of(pod, "spec", "containers") for port in items_of(container, "ports")]
        port = str(ports[0]["containerPort"]) if ports else "80"
    if not dig(pod, "status", "podIP"):
        raise bad_request("address not allowed")
    if not port.isdecimal():
        raise _unreachable(f"lookup tcp/{port}: unknown port")
    return await _repeat(call, pod, scheme, int(port))


async def to_service(call: Call) -> Response:
    """`services/[scheme:]name[:port]/proxy/path`, to a ready Pod behind the Service. Raises `APIError`."""
    scheme, name, port = _parts(call.name, "service")
    if port.isdecimal():
        service = call.reader.get("", "services", call.namespace, name)
        if service is None:
            raise not_found("", "services", name)
        declared = [p for p in items_of(service, "spec", "ports") if p.get("port") == int(port)]
        if not declared:
            raise _unavailable(f'no service port {int(port)} found for service "{name}"')
        port = declared[0].get("name") or ""
    endpoints = call.reader.get("", "endpoints", call.namespace, name)
    if endpoints is None:
        raise not_found("", "services", name)
    subsets = items_of(endpoints, "subsets")
    if not subsets:
        raise _unavailable(f'no endpoints available for service "{name}"')
    for subset in subsets:
        number = next((int(p["port"]) for p in items_of(subset, "ports") if (p.get("name") or "") == port), 0)
        for address in items_of(subset, "addresses") if number else []:
            target = dig(address, "targetRef", default={})
            pod = call.reader.get("", "pods", call.namespace, str(target.get("name") or ""))
            if pod is not None and target.get("kind") == "Pod":
                return await _repeat(call, pod, scheme, number)
    raise _unavailable(f'no endpoints available for service "{call.name}"')


async def to_node(call: Call) -> Response:
    """`nodes/name/proxy/path`: kubelets here have no HTTP API. Raises `APIError`."""
    _, name, _ = _parts(call.name, "node")
    if call.reader.get("", "nodes", "", name) is None:
        raise not_found("", "nodes", name)
    raise _unreachable("the nodes of an embedded cluster serve no HTTP")


def _parts(name: str, kind: str) -> tuple[str, str, str]:
    """Scheme, name and port of `[scheme:]name[:port]`."""
    match name.split(":"):
        case [only] if only:
            return "", only, ""
        case [first, port] if first:
            return "", first, port
        case [scheme, middle, port] if middle and scheme in _SCHEMES:
            return scheme, middle, port
        case _:
            raise bad_request(f'invalid {kind} request "{name}"')


def _unavailable(text: str) -> APIError:
    return APIError(503, "ServiceUnavailable", text)


def _unreachable(text: str) -> APIError:
    return _unavailable(f"error trying to reach service: {text}")


class _Answer:
    """What httptools tells of an answer while it is read."""

    def __init__(self) -> None:
        self.headers: list[tuple[str, str]] = []
        self.begun = False
        self.done = False
        self._body = bytearray()

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.decode("latin-1"), value.decode("latin-1")))

    def on_headers_complete(self) -> None:
        self.begun = True

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        self.done = True

    def taken(self) -> bytes:
        """What came of the body since the last call."""
        body = bytes(self._body)
        self._body.clear()
        return body


async def _repeat(call: Call, pod: Object, scheme: str, port: int) -> Response:
    kubelet = kubelet_of(call, dig(pod, "spec", "nodeName", default=""))
    if scheme == "https":
        raise _unreachable("an embedded cluster speaks only plain http to Pods")
    try:
        async with asyncio.timeout(_FIRST_WORD):
            connection = await kubelet.connect(call.namespace, pod["metadata"]["name"], port)
            try:
                return await _exchange(call, connection, port)
            except BaseException:
                connection[1].close()
                raise
    except (OSError, TimeoutError, httptools.HttpParserError, APIError) as problem:
        raise _unreachable(str(problem) or type(problem).__name__) from None


async def _exchange(call: Call, connection: Connection, port: int) -> Response:
    reader, writer = connection
    request = call.request
    path = quote(f"/{call.rest}", safe="/!$&'()*+,;=:@~-._") + (f"?{request.query}" if request.query else "")
    lines = [f"{request.method} {path} HTTP/1.1", f"Host: {call.name.split(':')[0]}:{port}", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in request.headers.items() if name.lower() not in _HOP]
    if request.body:
        lines.append(f"Content-Length: {len(request.body)}")
    writer.write("\r\n".join([*lines, "", ""]).encode("latin-1", "replace") + request.body)
    answer = _Answer()
    parser = httptools.HttpResponseParser(answer)
    while not answer.begun:
        data = await reader.read(_CHUNK)
        if not data:
            raise ConnectionError("EOF")
        parser.feed_data(data)
    kind = next((value for name, value in answer.headers if name.lower() == "content-type"), "")
    kept = tuple((name, value) for name, value in answer.headers if name.lower() not in (*_HOP, "content-type"))
    status = parser.get_status_code()
    if answer.done or request.method == "HEAD" or status in (204, 304):
        writer.close()
        return Response(status, answer.taken(), kind, kept)
    return Response(status, b"", kind, kept, stream=_rest(parser, answer, connection))


async def _rest(parser: httptools.HttpResponseParser, answer: _Answer, connection: Connection) -> AsyncIterator[bytes]:
    """The body as it comes; it ends early where the Pod ends it early."""
    reader, writer = connection
    try:
        while True:
            if body := answer.taken():
                yield body
            if answer.done:
                return
            try:
                data = await reader.read(_CHUNK)
                if not data:
                    return
                parser.feed_data(data)
            except (OSError, httptools.HttpParserError):
                return
    finally:
        writer.close()
