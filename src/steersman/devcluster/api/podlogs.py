"""Logs of Pods, and which of a Pod's containers is meant: the same rules for logs, exec and attach.

Options are judged before the Pod is looked at, as in the API server's `PodLogOptions`. What the log says is the
node's business.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from steersman.devcluster.api.messages import Params, Response
from steersman.devcluster.api.options import number_of
from steersman.devcluster.errors import (
    FieldError,
    bad_request,
    field_forbidden,
    field_invalid,
    internal,
    invalid,
    not_found,
)
from steersman.devcluster.kubelet import LogOptions
from steersman.devcluster.objects import Object, dig

if TYPE_CHECKING:
    from steersman.devcluster.api.call import Call

__all__ = ["container_of", "log"]

_STREAMS: Final = ("All", "Stdout", "Stderr")


def container_of(name: str, named: str, pod: Object) -> str:
    """The container of a Pod that is meant: the only one where none is named. Raises a 400."""
    spec: Object = pod["spec"]
    everything: list[Object] = [
        container
        for part in ("initContainers", "containers", "ephemeralContainers")
        for container in spec.get(part) or []
    ]
    names = [str(container["name"]) for container in everything]
    if named:
        if named not in names:
            raise bad_request(f"container {named} is not valid for pod {name}")
        return named
    main: list[Object] = spec.get("containers") or []
    if len(main) != 1:
        raise bad_request(f"a container name must be specified for pod {name}, choose one of: [{' '.join(names)}]")
    return str(main[0]["name"])


async def log(call: Call) -> Response:
    """GET of a container's log, as a stream; empty while the Pod is on no node."""
    options = _options(call.name, call.request.params)
    pod = call.reader.get("", "pods", call.namespace, call.name)
    if pod is None:
        raise not_found("", "pods", call.name)
    container = container_of(call.name, call.request.params.get("container"), pod)
    node = dig(pod, "spec", "nodeName", default="")
    if not node:
        return Response(204, b"", "")
    kubelet = call.server.kubelets.find(node)
    if kubelet is None:
        raise internal(f'error dialing backend: no kubelet answers for node "{node}"')
    chunks = kubelet.logs(call.namespace, call.name, container, options)
    # The kubelet refuses at the first chunk: that must become a Status, not a broken stream.
    first = await anext(aiter(chunks), b"")

    async def stream() -> AsyncIterator[bytes]:
        if first:
            yield first
        async for chunk in chunks:
            yield chunk

    return Response(200, content_type="text/plain", stream=stream())


def _options(name: str, params: Params) -> LogOptions:
    since_seconds, tail, limit = (number_of(params, each) for each in ("sinceSeconds", "tailLines", "limitBytes"))
    since_time = _moment(params.get("sinceTime"))
    stream = params.get("stream") or "All"
    problems: list[FieldError] = []
    if tail is not None and tail < 0:
        problems.append(field_invalid("tailLines", tail, "must be greater than or equal to 0"))
    if limit is not None and limit < 1:
        problems.append(field_invalid("limitBytes", limit, "must be greater than 0"))
    if since_seconds is not None and since_time is not None:
        problems.append(field_forbidden("[]", "at most one of `sinceTime` or `sinceSeconds` may be specified"))
    elif since_seconds is not None and since_seconds < 1:
        problems.append(field_invalid("sinceSeconds", since_seconds, "must be greater than 0"))
    if problems:
        raise invalid("", "PodLogOptions", name, problems)
    if stream not in _STREAMS:
        raise bad_request(f"stream {stream!r} is not one of {', '.join(_STREAMS)}")
    return LogOptions(
        follow=_truth(params, "follow"),
        previous=_truth(params, "previous"),
        timestamps=_truth(params, "timestamps"),
        since_seconds=since_seconds,
        since_time=since_time,
        tail_lines=tail,
        limit_bytes=limit,
        stream=stream,
    )


def _truth(params: Params, name: str) -> bool:
    return params.get(name).lower() in ("true", "1")


def _moment(text: str) -> float | None:
    if not text:
        return None
    try:
        found: Any = datetime.fromisoformat(text)
        if found.tzinfo is None:
            raise ValueError("no time zone")
        return float(found.timestamp())
    except (ValueError, OverflowError):
        shape = "2006-01-02T15:04:05Z07:00"
        raise bad_request(f'parsing time "{text}" as "{shape}": cannot parse "{text}" as "2006"') from None
