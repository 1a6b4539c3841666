"""The HTTPS API of one node's kubelet: clients are authenticated and authorized by the API server.

As in webhook mode, a client certificate of the cluster or a bearer token identifies the user, anonymous requests are
refused, and the user needs the verb on a sub-resource of the Node: `nodes/stats`, `nodes/metrics`, `nodes/log`,
`nodes/pods`, `nodes/healthz`, or `nodes/proxy` for everything else.

Source: Kubernetes, kubelet authentication and authorization; KEP-2862, fine-grained kubelet API authorization.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from steersman.telemetry.log import get_logger
from steersman_cluster.api.connect import node_proxy
from steersman_cluster.api.connect.node_streams import TEXT
from steersman_cluster.api.interfaces import Call
from steersman_cluster.api.requests.messages import Request, Response
from steersman_cluster.auth import Attributes
from steersman_cluster.auth.authentication import ANONYMOUS
from steersman_cluster.errors import APIError
from steersman_cluster.strategy import User

if TYPE_CHECKING:
    from steersman_cluster.api.server import APIServer

__all__ = ["KubeletServer", "subresources_of"]

_VERBS: Final = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_FINE_GRAINED: Final = {"pods": "pods", "runningpods": "pods", "healthz": "healthz", "configz": "configz"}
_SUBRESOURCES: Final = {"stats": "stats", "metrics": "metrics", "logs": "log", "checkpoint": "checkpoint"}

_log = get_logger("nodes")


def subresources_of(path: str) -> tuple[str, ...]:
    """Return the sub-resources of Nodes of which a user needs one for a path of a kubelet."""
    first = path.strip("/").split("/")[0]
    if first in _SUBRESOURCES:
        return (_SUBRESOURCES[first],)
    return (_FINE_GRAINED[first], "proxy") if first in _FINE_GRAINED else ("proxy",)


class KubeletServer:
    """Answers the requests to the kubelet of one node."""

    def __init__(self, server: APIServer, node: str) -> None:
        self._server = server
        self._node = node

    async def handle(self, request: Request) -> Response:
        """Return the response to a request; never raises, but for cancellation."""
        try:
            user = self._server.auth.authenticator.authenticate(request.headers, request.peer)
            if user == ANONYMOUS:
                return Response(401, b"Unauthorized", TEXT)
            if (refusal := self._refusal(user, request)) is not None:
                return refusal
            return await node_proxy.serve(self._call(user, request), self._node)
        except APIError as problem:
            return Response(problem.code, f"{problem.message}\n".encode(), TEXT)
        except Exception:  # noqa: BLE001 - a defect must not end the connection without a response
            _log.exception("kubelet_request_failed", node=self._node, path=request.path)
            return Response(500, b"Internal Server Error\n", TEXT)

    def _refusal(self, user: User, request: Request) -> Response | None:
        verb, wanted = _VERBS.get(request.method, ""), subresources_of(request.path)
        authorizer = self._server.auth.authorizer
        for subresource in wanted:
            attributes = Attributes(verb, "", "v1", "nodes", subresource, "", self._node)
            if authorizer.authorize(user, attributes)[0]:
                return None
        text = f"Forbidden (user={user.name}, verb={verb}, resource=nodes, subresource(s)=[{' '.join(wanted)}])\n"
        return Response(403, text.encode(), TEXT)

    def _call(self, user: User, request: Request) -> Call:
        server = self._server
        resource = server.registry.find("", "v1", "nodes")
        assert resource is not None
        return Call(
            server=server,
            request=request,
            user=user,
            resource=resource,
            verb=_VERBS.get(request.method, ""),
            namespace="",
            name=self._node,
            subresource="proxy",
            body=None,
            options=dict(request.params.pairs),
            dry_run=False,
            reader=server.reader,
            context=server.context(user),
            rest=request.path.lstrip("/"),
        )
