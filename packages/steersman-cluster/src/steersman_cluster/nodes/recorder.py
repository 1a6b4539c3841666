"""Events as a kubelet records them: core/v1, with the field path of the container and a count of repetitions.

Recording is synchronous and never fails; one task writes. Status writes have priority over Events. If Events arrive
faster than they can be written, the oldest ones are dropped.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any, Final

import msgspec

from steersman.client import ApiError, Client, ClientError
from steersman.telemetry.log import get_logger
from steersman_cluster.nodes.status import time_of
from steersman_cluster.objects import Object, meta, name_of, namespace_of, uid_of

__all__ = ["Recorder"]

_WAITING: Final = 1000
_KNOWN: Final = 4096
_MERGE = "application/merge-patch+json"

_log = get_logger("nodes")


class Recorder:
    """Records events about Pods and Nodes; `clock` gives seconds since the epoch."""

    def __init__(self, client: Client, clock: Callable[[], float]) -> None:
        self._client = client
        self._clock = clock
        self._waiting: deque[tuple[str, Object, Object]] = deque(maxlen=_WAITING)
        self._known: OrderedDict[tuple[str, ...], tuple[str, int]] = OrderedDict()
        self._more = asyncio.Event()
        self._count = 0

    def record(self, node: str, regarding: Object, type: str, reason: str, message: str, field_path: str = "") -> None:
        """Record an Event about an object, as the kubelet of `node`."""
        reference: Object = {
            "kind": regarding.get("kind") or "Pod",
            "apiVersion": regarding.get("apiVersion") or "v1",
            "name": name_of(regarding),
            "uid": uid_of(regarding),
        }
        if namespace := namespace_of(regarding):
            reference["namespace"] = namespace
        if version := meta(regarding).get("resourceVersion"):
            reference["resourceVersion"] = version
        if field_path:
            reference["fieldPath"] = field_path
        now = time_of(self._clock())
        event: Object = {
            "involvedObject": reference,
            "type": type,
            "reason": reason,
            "message": message[:1024],
            "source": {"component": "kubelet", "host": node},
            "reportingComponent": "kubelet",
            "reportingInstance": node,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        self._waiting.append((namespace or "default", reference, event))
        self._more.set()

    async def run(self) -> None:
        """Write the recorded Events, until cancelled."""
        while True:
            await self._more.wait()
            while self._waiting:
                await self._write(*self._waiting.popleft())
            self._more.clear()

    async def _write(self, namespace: str, reference: Object, event: Object) -> None:
        same = (reference["uid"], reference.get("fieldPath", ""), event["type"], event["reason"], event["message"])
        known = self._known.get(same)
        path = f"/api/v1/namespaces/{namespace}/events"
        try:
            if known is not None:
                name, count = known[0], known[1] + 1
                body: Any = {"count": count, "lastTimestamp": event["lastTimestamp"]}
                await self._send("PATCH", f"{path}/{name}", body, _MERGE)
            else:
                self._count += 1
                name, count = f"{reference['name'][:200]}.{hash(same) & 0xFFFFFFFF:08x}{self._count:06x}", 1
                await self._send("POST", path, {**event, "metadata": {"name": name, "namespace": namespace}})
        except ApiError as problem:
            # A terminating namespace accepts no Events, and an old Event can have expired; both can be ignored.
            self._known.pop(same, None)
            _log.debug("event_not_written", reason=event["reason"], problem=str(problem))
            return
        except ClientError as problem:
            _log.debug("event_not_written", reason=event["reason"], problem=str(problem))
            return
        self._known[same] = (name, count)
        self._known.move_to_end(same)
        if len(self._known) > _KNOWN:
            self._known.popitem(last=False)

    async def _send(self, method: str, path: str, body: Object, content_type: str = "application/json") -> None:
        data = msgspec.json.encode(body)
        await self._client.raw.request(method, path, body=data, content_type=content_type, timeout=10.0)
