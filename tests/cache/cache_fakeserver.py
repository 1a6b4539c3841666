"""A deterministic API server for one kind: a history of writes, served as lists and watches with Kubernetes' semantics.

Progress is counted in resourceVersions and triggered by the test; time is the loop's virtual time. The test injects
faults: `refuse` for requests, `break_streams` for open streams.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from steersman.client.errors import error_from_status
from steersman.client.status import Status

KIND = ("widgets.example.com/v1", "Widget")


def status(code: int, reason: str = "", message: str = "", **details: Any) -> dict[str, Any]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message or reason,
        "details": details,
    }


def api_error(code: int, reason: str = "", message: str = "", retry_after: float | None = None):
    return error_from_status(Status(code=code, reason=reason, message=message or reason), "GET /widgets", retry_after)


def line(type: str, obj: Any) -> bytes:
    return json.dumps({"type": type, "object": obj}, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


@dataclass
class Stream:
    version: int
    wake: asyncio.Event
    broken: Exception | None = None
    ended: bool = False
    silent: bool = False
    outbox: list[bytes] = field(default_factory=list)


class FakeServer:
    """One collection with its history. `log` records every request that arrived."""

    def __init__(self, *, watch_list: bool = True, page: int | None = None, bookmark_every: float = 60.0) -> None:
        self.version = 100
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}
        self.history: list[tuple[int, str, dict[str, Any]]] = []
        self.compacted = 0
        self.watch_list = watch_list
        self.page = page
        self.bookmark_every = bookmark_every
        self.log: list[str] = []
        self.refusals: list[Exception] = []
        self.refuse_lists: list[Exception] = []
        self.refuse_watches: list[Exception] = []
        self.served = True
        self.streams: list[Stream] = []
        self.tokens: dict[str, tuple[int, list[dict[str, Any]], int]] = {}
        self.chop: int | None = None
        self.lag = 0
        self._uids = 0

    # Writing.

    def _next_check(self) -> int:
        self.version += 1
        return self.version

    def put(self, name: str, namespace: str = "default", /, **spec: Any) -> dict[str, Any]:
        """Create or update."""
        key = (namespace, name)
        old = self.objects.get(key)
        version = self._next_check()
        if old is None:
            self._uids += 1
            uid = f"00000000-0000-4000-8000-{self._uids:012d}"
        else:
            uid = old["metadata"]["uid"]
        metadata: dict[str, Any] = {
            "name": name,
            "namespace": namespace,
            "uid": uid,
            "resourceVersion": str(version),
            "generation": 1 if old is None else old["metadata"]["generation"] + 1,
            "managedFields": [{"manager": "test", "operation": "Update", "fieldsV1": {"f:spec": {}}}],
        }
        for extra in ("labels", "ownerReferences", "deletionTimestamp", "annotations"):
            if extra in spec:
                metadata[extra] = spec.pop(extra)
        obj = {"apiVersion": KIND[0], "kind": KIND[1], "metadata": metadata, "spec": spec}
        self.objects[key] = obj
        self._record(version, "ADDED" if old is None else "MODIFIED", obj)
        return obj

    def put_raw(self, obj: dict[str, Any]) -> None:
        """Store an object as it is, whatever its types."""
        version = self._next_check()
        obj["metadata"].setdefault("uid", f"raw-{version}")
        obj["metadata"]["resourceVersion"] = str(version)
        key = (obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
        self._record(version, "MODIFIED" if key in self.objects else "ADDED", obj)
        self.objects[key] = obj

    def delete(self, name: str, namespace: str = "default") -> int:
        obj = self.objects.pop((namespace, name))
        version = self._next_check()
        last = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(version)}}
        self._record(version, "DELETED", last)
        return version

    def _record(self, version: int, type: str, obj: dict[str, Any]) -> None:
        self.history.append((version, type, obj))
        self._wake()

    def compact(self, upto: int | None = None) -> None:
        """Forget the history up to a version, as etcd and the watch cache do."""
        self.compacted = self.version if upto is None else upto
        self.history = [h for h in self.history if h[0] > self.compacted]
        self.tokens.clear()

    def remove_definition(self) -> None:
        """Delete the CRD: its objects go first, then the kind."""
        for namespace, name in list(self.objects):
            self.delete(name, namespace)
        self.served = False
        for stream in self.streams:
            stream.ended = True
        self._wake()

    # Faults.

    def break_streams(self, problem: Exception | None = None) -> None:
        """End every open stream: in order, or with an error."""
        for stream in self.streams:
            stream.broken, stream.ended = problem, True
        self._wake()

    def silence(self) -> None:
        """Half-open TCP: the present streams say nothing any more."""
        for stream in self.streams:
            stream.silent = True

    def say(self, data: bytes) -> None:
        """Send bytes on every open stream."""
        for stream in self.streams:
            stream.outbox.append(data)
        self._wake()

    def _wake(self) -> None:
        for stream in self.streams:
            stream.wake.set()

    def _refuse(self, *queues: list[Exception]) -> None:
        for queue in (self.refusals, *queues):
            if queue:
                raise queue.pop(0)
        if not self.served:
            raise api_error(404, "NotFound", "404 page not found")

    # Serving (the ListWatch protocol).

    async def list_page(self, *, limit: int, continue_: str, resource_version: str, match: str) -> bytes:
        self.log.append(f"list rv={resource_version!r} {'continue' if continue_ else 'first'}")
        await asyncio.sleep(0.01)
        self._refuse(self.refuse_lists)
        if continue_:
            if continue_ not in self.tokens:
                raise api_error(410, "Expired", "The provided continue parameter is too old")
            version, items, at = self.tokens[continue_]
        else:
            version, items, at = self.version - self.lag, self._as_of(self.version - self.lag), 0
        limit = self.page or limit
        metadata: dict[str, Any] = {"resourceVersion": str(version)}
        if at + limit < len(items):
            token = f"{version}:{at + limit}"
            self.tokens[token] = (version, items, at + limit)
            metadata["continue"] = token
        body = {"kind": "WidgetList", "apiVersion": KIND[0], "metadata": metadata, "items": items[at : at + limit]}
        return json.dumps(body, separators=(",", ":")).encode()

    def _as_of(self, version: int) -> list[dict[str, Any]]:
        objects = dict(self.objects)
        for at, event, obj in reversed(self.history):
            if at <= version:
                break
            key = (obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
            before = [
                o
                for v, t, o in self.history
                if v < at
                and t != "DELETED"
                and o["metadata"]["name"] == key[1]
                and o["metadata"].get("namespace", "") == key[0]
            ]
            if event == "ADDED":
                objects.pop(key, None)
            elif before:
                objects[key] = before[-1]
        return [objects[k] for k in sorted(objects)]

    @asynccontextmanager
    async def watch(
        self, *, resource_version: str, send_initial_events: bool, timeout: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        self.log.append(f"watch rv={resource_version!r} initial={send_initial_events}")
        await asyncio.sleep(0.01)
        self._refuse(self.refuse_watches)
        if send_initial_events and not self.watch_list:
            raise api_error(422, "Invalid", "sendInitialEvents is forbidden for watch unless the WatchList feature")
        start = int(resource_version) if resource_version else self.version
        if not send_initial_events and start < self.compacted:
            raise api_error(410, "Expired", f"too old resource version: {start}")
        stream = Stream(start, asyncio.Event())
        if send_initial_events:
            stream.version = self.version - self.lag
            stream.outbox += [line("ADDED", o) for o in self._as_of(stream.version)]
            stream.outbox.append(self.bookmark(stream.version, ends_initial_events=True))
        self.streams.append(stream)
        try:
            yield self._chunks(stream, timeout)
        finally:
            self.streams.remove(stream)

    def bookmark(self, version: int, *, ends_initial_events: bool = False) -> bytes:
        metadata: dict[str, Any] = {"resourceVersion": str(version), "creationTimestamp": None}
        if ends_initial_events:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        return line("BOOKMARK", {"kind": KIND[1], "apiVersion": KIND[0], "metadata": metadata, "spec": {"size": 0}})

    async def _chunks(self, stream: Stream, timeout: float) -> AsyncIterator[bytes]:  # noqa: C901
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        bookmark_at = min(loop.time() + self.bookmark_every, deadline - 2)
        while True:
            stream.wake.clear()
            if not stream.silent:
                if stream.version < self.compacted and not stream.outbox:
                    yield line("ERROR", status(410, "Expired", "too old resource version"))
                    return
                news = [(v, t, o) for v, t, o in self.history if v > stream.version]
                data = b"".join(stream.outbox) + b"".join(line(t, o) for _, t, o in news)
                stream.outbox.clear()
                if news:
                    stream.version = news[-1][0]
                if loop.time() >= bookmark_at:
                    data += self.bookmark(stream.version)
                    bookmark_at = min(loop.time() + self.bookmark_every, max(deadline - 2, loop.time() + 1))
                if data:
                    size = self.chop or len(data)
                    for at in range(0, len(data), size):
                        yield data[at : at + size]
                if stream.ended:
                    if stream.broken is not None:
                        raise stream.broken
                    return
                if loop.time() >= deadline:
                    return
            until = 10_000.0 if stream.silent else min(bookmark_at, deadline) - loop.time()
            try:
                async with asyncio.timeout(max(0.0, until)):
                    await stream.wake.wait()
            except TimeoutError:
                continue


def widget_view():
    """The dynamic view of what the server serves."""
    from steersman.models import dynamic

    return dynamic("widgets.example.com/v1", "Widget")


@asynccontextmanager
async def cached(server: FakeServer, *, start: bool = True, seed: int = 1, **declaration: Any):
    """A started cache over `server`; yields it, its informer and the list of all changes."""
    import random

    from steersman.cache import Cache

    cache = Cache(None, sources=lambda _info, _scope: server, rng=random.Random(seed))
    informer = cache.informer(widget_view(), **declaration)
    changes: list[Any] = []
    informer.add_handler(changes.append)
    if start:
        await cache.start()
    try:
        yield cache, informer, changes
    finally:
        await cache.close()


def change_names(changes: list[Any]) -> list[str]:
    """Changes as short words: "add a", "update a", "delete a"."""
    return [f"{c.type} {c.key.name}" for c in changes]


def content(informer: Any) -> dict[tuple[str, str], str]:
    """Return the content of an informer as versions by key."""
    return {tuple(e.key): f"{e.uid}@{e.resource_version}" for e in informer.entries()}


def truth(server: FakeServer) -> dict[tuple[str, str], str]:
    """Return the content of the server in the same form."""
    return {k: f"{o['metadata']['uid']}@{o['metadata']['resourceVersion']}" for k, o in server.objects.items()}
