"""The proxy sub-resources: an HTTP request of the client, repeated to a Pod over its node's connection."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import httptools

from steersman.devcluster.api.messages import Response
from steersman.devcluster.errors import APIError, bad_request, internal, not_found
from steersman.devcluster.objects import Object, dig

if TYPE_CHECKING:
    from steersman.devcluster.api.call import Call

__all__ = ["to_pod", "to_service"]

_HOP = frozenset(("connection", "upgrade", "host", "authorization", "content-length", "transfer-encoding", "te"))
_SECONDS = 30.0


def _parts(name: str) -> tuple[str, str, str]:
    """Scheme, name and port of `[scheme:]name[:port]`."""
    parts = name.split(":")
    if len(parts) == 1:
        return "http", parts[0], ""
    if len(parts) == 2:
        return "http", parts[0], parts[1]
    return parts[0] or "http", parts[1], parts[2]


async def to_pod(call: Call) -> Response:
    """Repeat the request to a Pod. Raises `APIError`."""
    scheme, name, port = _parts(call.name)
    pod = call.reader.get("", "pods", call.namespace, name)
    if pod is None:
        raise not_found("", "pods", name)
    number = _port_of(pod, port)
    return await _repeat(call, pod, scheme, number)


async def to_service(call: Call) -> Response:
    """Repeat the request to the first ready Pod behind a Service. Raises `APIError`."""
    scheme, name, port = _parts(call.name)
    service = call.reader.get("", "services", call.namespace, name)
    if service is None:
        raise not_found("", "services", name)
    wanted = _service_port(service, port)
    if wanted is None:
        raise APIError(503, "ServiceUnavailable", f'no service port "{port}" found for service "{name}"')
    for one in call.reader.list("discovery.k8s.io", "endpointslices", call.namespace):
        if dig(one, "metadata", "labels", "kubernetes.io/service-name") != name:
            continue
        number = next(
            (p["port"] for p in one.get("ports") or [] if (p.get("name") or "") == (wanted.get("name") or "")), 0
        )
        for endpoint in one.get("endpoints") or []:
            target = endpoint.get("targetRef") or {}
            ready = dig(endpoint, "conditions", "ready", default=True)
            pod = call.reader.get("", "pods", call.namespace, target.get("name", "")) if ready and number else None
            if pod is not None:
                return await _repeat(call, pod, scheme, number)
    raise APIError(503, "ServiceUnavailable", f'no endpoints available for service "{call.name}"')


def _port_of(pod: Object, port: str) -> int:
    declared = [p for c in pod["spec"]["containers"] for p in c.get("ports") or []]
    if not port:
        return declared[0]["containerPort"] if declared else 80
    if port.isdecimal():
        return int(port)
    for found in declared:
        if found.get("name") == port:
            return found["containerPort"]
    raise bad_request(f"pod has no port named {port}")


def _service_port(service: Object, port: str) -> Object | None:
    ports: list[Object] = dig(service, "spec", "ports", default=[])
    if not port and len(ports) == 1:
        return ports[0]
    for found in ports:
        if found.get("name") == port or str(found.get("port")) == port:
            return found
    return None


class _Answer:
    def __init__(self) -> None:
        self.headers: list[tuple[str, str]] = []
        self.body = bytearray()
        self.done = False

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.decode("latin-1"), value.decode("latin-1")))

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.done = True


async def _repeat(call: Call, pod: Object, scheme: str, port: int) -> Response:
    node = dig(pod, "spec", "nodeName", default="")
    kubelet = call.server.kubelets.find(node)
    if kubelet is None:
        raise APIError(503, "ServiceUnavailable", "error trying to reach service: the Pod is on no node")
    if scheme != "http":
        raise internal("error trying to reach service: only http is proxied by the embedded cluster")
    request = call.request
    try:
        async with asyncio.timeout(_SECONDS):
            reader, writer = await kubelet.connect(call.namespace, pod["metadata"]["name"], port)
            try:
                return await _exchange(call, request, reader, writer, port)
            finally:
                writer.close()
    except (OSError, TimeoutError, httptools.HttpParserError) as problem:
        text = f"error trying to reach service: {problem or type(problem).__name__}"
        raise APIError(503, "ServiceUnavailable", text) from None


async def _exchange(
    call: Call, request: Any, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int
) -> Response:
    path = f"/{call.rest}" + (f"?{request.query}" if request.query else "")
    lines = [f"{request.method} {path} HTTP/1.1", f"Host: {call.name}:{port}", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in request.headers.items() if name.lower() not in _HOP]
    if request.body:
        lines.append(f"Content-Length: {len(request.body)}")
    writer.write("\r\n".join([*lines, "", ""]).encode("latin-1") + request.body)
    answer = _Answer()
    parser = httptools.HttpResponseParser(answer)
    while not answer.done and (data := await reader.read(65536)):
        parser.feed_data(data)
    status = parser.get_status_code()
    kind = next((v for n, v in answer.headers if n.lower() == "content-type"), "text/plain")
    kept = tuple((n, v) for n, v in answer.headers if n.lower() not in (*_HOP, "content-type"))
    return Response(status, bytes(answer.body), kind, kept)
