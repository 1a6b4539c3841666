"""The streams of a kubelet's HTTP API: logs, exec, attach and port-forward of the Pods of one node.

The paths are those of the kubelet: `/containerLogs/NAMESPACE/POD/CONTAINER`, `/exec` and `/attach` with an optional UID
before the container, and `/portForward/NAMESPACE/POD`. Refusals are plain text, as a kubelet's.
"""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import replace
from typing import Final

from steersman_cluster.api.connect.pod_options import ExecOptions, is_on
from steersman_cluster.api.connect.streams import attach, execute, log, portforward
from steersman_cluster.api.interfaces import Call
from steersman_cluster.api.requests.messages import Response
from steersman_cluster.errors import APIError
from steersman_cluster.objects import dig, uid_of

__all__ = ["TEXT", "stream"]

TEXT: Final = "text/plain; charset=utf-8"


async def stream(call: Call, node: str, parts: list[str]) -> Response | None:
    """Return the response to a request for a stream; `None` for the other paths of a kubelet.

    Args:
        call: The request.
        node: The name of the node.
        parts: The parts of the path.
    """
    match parts:
        case ["containerLogs", namespace, pod, container]:
            found = _on_node(call, node, namespace, pod, "", container)
            return found if isinstance(found, Response) else await _plain(log(found))
        case ["exec" | "attach" as verb, namespace, pod, *uid, container] if len(uid) < 2:
            found = _on_node(call, node, namespace, pod, "".join(uid), container)
            if isinstance(found, Response):
                return found
            options = _streams(call)
            return await _plain(execute(found, options) if verb == "exec" else attach(found, options))
        case ["portForward", namespace, pod, *uid] if len(uid) < 2:
            found = _on_node(call, node, namespace, pod, "".join(uid), "")
            if isinstance(found, Response):
                return found
            return await _plain(portforward(found, "port"))
        case _:
            return None


def _on_node(call: Call, node: str, namespace: str, pod: str, uid: str, container: str) -> Call | Response:
    """Return the call as one for the Pod and the container, or the 404 for a Pod that the node does not have."""
    stored = call.reader.get("", "pods", namespace, pod)
    if stored is None or dig(stored, "spec", "nodeName") != node or (uid and uid_of(stored) != uid):
        return Response(404, f'pod "{pod}" does not exist\n'.encode(), TEXT)
    options = {**call.options, "container": container} if container else call.options
    return replace(call, namespace=namespace, name=pod, options=options)


def _streams(call: Call) -> ExecOptions:
    """Read the options of `exec` and `attach` under the names that kubelets use."""
    switches = (is_on(call, name) for name in ("input", "output", "error", "tty"))
    return ExecOptions(*switches, command=tuple(call.request.params.all("command")))


async def _plain(answer: Awaitable[Response]) -> Response:
    try:
        return await answer
    except APIError as problem:
        return Response(problem.code, f"{problem.message}\n".encode(), TEXT)
