"""The proxy sub-resources: an HTTP request of the client, repeated to a Pod over its node's connection.

This module chooses the Pod and the port; `upstream` forwards the request.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from steersman_cluster.api.connect import node_proxy
from steersman_cluster.api.connect.pod_options import items_of, pod_of
from steersman_cluster.api.connect.proxy_links import rewrite_response
from steersman_cluster.api.connect.streams import kubelet_of
from steersman_cluster.api.connect.upstream import repeat
from steersman_cluster.api.interfaces import Call
from steersman_cluster.api.requests.messages import Response
from steersman_cluster.errors import APIError, bad_request, not_found
from steersman_cluster.kubelet import Connection
from steersman_cluster.objects import Object, dig

__all__ = ["to_node", "to_pod", "to_service"]

KUBELET_PORT: Final = 10250
_SCHEMES: Final = ("", "http", "https")


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
    """`nodes/[scheme:]name[:port]/proxy/path`, served by the node's kubelet. Raises `APIError`."""
    _, name, port = _parts(call.name, "node")
    stored = call.reader.get("", "nodes", "", name)
    if stored is None:
        raise not_found("", "nodes", name)
    own = str(dig(stored, "status", "daemonEndpoints", "kubeletEndpoint", "Port", default=KUBELET_PORT))
    if port not in ("", own):
        raise _unreachable(f"node {name} has only the port {own} of its kubelet")
    return await node_proxy.serve(call, name)


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


async def _repeat(call: Call, pod: Object, scheme: str, port: int) -> Response:
    request = call.request
    upgrades = request.headers.get("Upgrade") is not None
    if request.method in ("GET", "HEAD") and not request.path.endswith("/") and not call.rest and not upgrades:
        query = f"?{request.query}" if request.query else ""
        return Response(301, b"", "", (("Location", f"{quote(request.path, safe='/:')}/{query}"),))
    kubelet = kubelet_of(call, dig(pod, "spec", "nodeName", default=""))

    async def connect() -> Connection:
        return await kubelet.connect(call.namespace, pod["metadata"]["name"], port)

    host = f"{call.name.split(':')[1 if scheme else 0]}:{port}"
    prefix = f"/api/v1/namespaces/{call.namespace}/{call.resource.plural}/{call.name}/proxy"
    hosts = {host, f"{dig(pod, 'status', 'podIP', default='')}:{port}", call.request.headers.get("Host") or host}
    try:
        response = await repeat(call.request, f"/{call.rest}", host, connect, secure=scheme == "https")
        return await rewrite_response(response, prefix, hosts)
    except (OSError, APIError) as problem:
        raise _unreachable(str(problem) or type(problem).__name__) from None
