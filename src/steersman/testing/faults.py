"""Faults that a test injects: conflicts, expired versions, throttling, errors, latency, broken and late watches.

A fault is a frozen value with a matcher. Faults apply in front of the embedded API server, to all clients, over TLS and
in process. They do not apply to the cluster's own controllers and nodes, nor to requests of the test
(`cluster.apply` and others), unless `user` names them. Probabilities use a seeded generator.

    def test_it(cluster, operator, faults):
        faults.add(conflict(resource="apps", times=3), unavailable(verb="list", probability=0.5))
"""

from __future__ import annotations

import asyncio
import json
import random
import threading
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from steersman.client.transport.base import close_chunks

if TYPE_CHECKING:
    from steersman_cluster.api.requests.messages import Request, Response
    from steersman_cluster.api.requests.request_info import RequestInfo
    from steersman_cluster.api.server import APIServer

__all__ = [
    "Fault",
    "Faults",
    "Match",
    "conflict",
    "dropped_watch",
    "expired_watch",
    "failing_webhook",
    "gone",
    "internal_error",
    "latency",
    "refused",
    "stale_reads",
    "stalled_watch",
    "throttled",
    "unavailable",
]

_WRITES: Final = ("create", "update", "patch", "delete", "deletecollection")
_SYSTEM_USERS: Final = ("system:kube-", "system:node:", "system:serviceaccount:kube-system:")
USER_AGENT: Final = "steersman-test"
"""The User-Agent of the test's own requests; faults apply to them only with their user."""

Handle = Callable[["Request"], Awaitable["Response"]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """Selects requests; empty fields match all. `verb` may list several verbs (`"create patch"`), or be `"write"`.

    `resource` is the plural, `pods/status` a subresource; a resource without one matches its subresources, too.
    `times` limits the number of affected requests, `after` skips as many requests first, `probability` is the share of
    the matching requests.
    """

    verb: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""
    user: str = ""
    times: int | None = None
    after: int = 0
    probability: float = 1.0

    def covers(self, info: RequestInfo, user: str, agent: str) -> bool:
        """Return whether the fields match a request, without probability and counts."""
        plural, _, subresource = self.resource.partition("/")
        verbs = _WRITES if self.verb == "write" else self.verb.replace(",", " ").split()
        return (
            (not verbs or info.verb in verbs)
            and (not plural or info.resource == plural)
            and (not subresource or info.subresource == subresource)
            and (not self.namespace or info.namespace == self.namespace)
            and (not self.name or info.name == self.name)
            and (
                user == self.user if self.user else not (user.startswith(_SYSTEM_USERS) or agent.startswith(USER_AGENT))
            )
        )


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: an error or delay, and the requests that it affects. Created by the functions of this module."""

    what: str
    match: Match
    code: int = 0
    reason: str = ""
    message: str = ""
    retry_after: float | None = None
    seconds: float = 0.0


def _match(given: dict[str, Any], verb: str = "") -> Match:
    words: dict[str, Any] = {"verb": verb, **given}
    return Match(**words)


def conflict(**match: Any) -> Fault:
    """Return the fault of 409 Conflict for writes, as after a concurrent write."""
    return Fault("answer", _match(match, "update patch delete"), 409, "Conflict", (
        "Operation cannot be fulfilled: the object has been modified; "
        "please apply your changes to the latest version and try again"
    ))  # fmt: skip


def gone(**match: Any) -> Fault:
    """Return the fault of 410 Expired for lists and watches with a resourceVersion, as after a compaction."""
    return Fault("answer", _match(match, "list watch"), 410, "Expired", (
        "The resourceVersion for the provided watch is too old."
    ))  # fmt: skip


def throttled(retry_after: float = 1.0, **match: Any) -> Fault:
    """Return the fault of 429 TooManyRequests with `Retry-After` (whole seconds)."""
    return Fault("answer", Match(**match), 429, "TooManyRequests", (
        "the server has received too many requests and has asked us to try again later"
    ), retry_after)  # fmt: skip


def internal_error(**match: Any) -> Fault:
    """Return the fault of 500 InternalError; the request is not processed."""
    return Fault("answer", Match(**match), 500, "InternalError", "Internal error occurred: injected by the test")


def unavailable(**match: Any) -> Fault:
    """Return the fault of 503 ServiceUnavailable; the request is not processed."""
    return Fault(
        "answer", Match(**match), 503, "ServiceUnavailable", "the server is currently unable to handle the request"
    )


def refused(**match: Any) -> Fault:
    """Return the fault of 403 Forbidden, as after the removal of a role."""
    return Fault("answer", Match(**match), 403, "Forbidden", "forbidden: injected by the test")


def failing_webhook(name: str = "webhook.example.com", **match: Any) -> Fault:
    """Return the fault of 500 for writes, as of an unreachable admission webhook with failurePolicy Fail."""
    return Fault("answer", _match(match, "create update patch"), 500, "InternalError", (
        f'Internal error occurred: failed calling webhook "{name}": failed to call webhook: '
        f'Post "https://{name}:443/?timeout=10s": context deadline exceeded'
    ))  # fmt: skip


def latency(seconds: float, **match: Any) -> Fault:
    """Return the fault that delays responses by `seconds`; the request is processed without a delay."""
    return Fault("latency", Match(**match), seconds=seconds)


def dropped_watch(after: float = 0.0, **match: Any) -> Fault:
    """Return the fault that closes the connection of a watch after `seconds`, as a load balancer does."""
    return Fault("drop", _match({**match, "verb": "watch"}), seconds=after)


def expired_watch(after: float = 0.0, **match: Any) -> Fault:
    """Return the fault that ends a watch with 410 after `seconds`, so that the client must list again."""
    return Fault("expire", _match({**match, "verb": "watch"}), seconds=after)


def stalled_watch(after: float = 0.0, **match: Any) -> Fault:
    """Return the fault that stops the events and bookmarks of a watch after `seconds`; the connection stays open."""
    return Fault("stall", _match({**match, "verb": "watch"}), seconds=after)


def stale_reads(lag: float, **match: Any) -> Fault:
    """Return the fault of a watch cache that lags by `lag` seconds.

    Events of watches come late by that time, and gets and lists with `resourceVersion=0` return earlier responses.
    """
    return Fault("stale", _match(match, "get list watch"), seconds=lag)


class Faults:
    """The active faults of one embedded cluster, and the number of requests that each affected. Thread-safe."""

    def __init__(self, seed: int = 0) -> None:
        self._lock = threading.Lock()
        self._faults: list[Fault] = []
        self._met: Counter[int] = Counter()
        self._struck: Counter[int] = Counter()
        self._past: dict[str, deque[tuple[float, Any]]] = {}
        self.seed(seed)

    def seed(self, seed: int) -> None:
        """The seed of probabilities; the same seed and the same requests give the same faults."""
        self._random = random.Random(seed)  # noqa: S311 - reproducible on purpose

    def add(self, *faults: Fault) -> None:
        """Add faults. If several match a request, the first one with a response counts; delays add up."""
        with self._lock:
            self._faults += faults

    def remove(self, *faults: Fault) -> None:
        """Remove faults; watches that they already changed stay so."""
        with self._lock:
            for fault in faults:
                with suppress(ValueError):
                    self._faults.remove(fault)

    def clear(self) -> None:
        """Remove all faults."""
        with self._lock:
            for known in (self._faults, self._past, self._met, self._struck):
                known.clear()

    def struck(self, fault: Fault) -> int:
        """Return the number of requests that a fault affected."""
        return self._struck[id(fault)]

    # The API server's side.

    def intercept(self, server: APIServer) -> None:
        """Handle every request to `server` first."""
        inner = server.handle

        async def handle(request: Request) -> Response:
            return await inner(request) if not self._faults else await self._serve(server, inner, request)

        server.handle = handle  # type: ignore[method-assign]

    async def _serve(self, server: APIServer, inner: Handle, request: Request) -> Response:
        from steersman_cluster.api.requests.request_info import resolve

        info = resolve(request.method, request.path, request.params)
        chosen = self._chosen(info, _user_of(server, request, info), request.headers.get("User-Agent") or "")
        for fault in chosen:
            if fault.what == "answer":
                return _answer(fault)
        response: Response | None = None
        for fault in chosen:
            if fault.what == "stale" and request.params.get("resourceVersion") == "0" and info.verb != "watch":
                response = await self._stale_response(inner, request, fault.seconds)
        if response is None:
            response = await inner(request)
        for fault in chosen:
            if fault.what == "latency":
                await asyncio.sleep(fault.seconds)
            elif response.stream is not None and response.status == 200:
                response.stream = _CHANGED[fault.what](response.stream, fault.seconds)
        return response

    def _chosen(self, info: RequestInfo, user: str, agent: str) -> list[Fault]:
        found: list[Fault] = []
        with self._lock:
            for fault in self._faults:
                match = fault.match
                if not match.covers(info, user, agent):
                    continue
                self._met[id(fault)] += 1
                if self._met[id(fault)] <= match.after:
                    continue
                if match.times is not None and self._struck[id(fault)] >= match.times:
                    continue
                if match.probability < 1.0 and self._random.random() >= match.probability:
                    continue
                self._struck[id(fault)] += 1
                found.append(fault)
        return found

    async def _stale_response(self, inner: Handle, request: Request, lag: float) -> Response:
        """Return the newest earlier response to the request that is old enough, or else the oldest one."""
        now = asyncio.get_running_loop().time()
        answers = self._past.setdefault(f"{request.path}?{request.query}", deque(maxlen=1000))
        answers.append((now, await inner(request)))
        while len(answers) > 1 and answers[1][0] <= now - lag:
            answers.popleft()
        return answers[0][1]


def _user_of(server: APIServer, request: Request, info: RequestInfo) -> str:
    from steersman_cluster.auth import Attributes
    from steersman_cluster.errors import APIError

    attributes = Attributes(info.verb, path=request.path)
    try:
        return server.auth.identify(request.headers, attributes, request.peer)[1].name
    except APIError:
        return ""  # The server's own error response.


def _answer(fault: Fault) -> Response:
    from steersman_cluster.api.requests.messages import failure
    from steersman_cluster.errors import APIError

    details: dict[str, Any] | None = None
    headers: tuple[tuple[str, str], ...] = ()
    if fault.retry_after is not None:
        seconds = max(1, round(fault.retry_after))
        details, headers = {"retryAfterSeconds": seconds}, (("Retry-After", str(seconds)),)
    return failure(APIError(fault.code, fault.reason, fault.message, details, headers))


async def _dropped(chunks: AsyncIterator[bytes], seconds: float) -> AsyncIterator[bytes]:
    async for chunk in _until(chunks, seconds):
        yield chunk


async def _expired(chunks: AsyncIterator[bytes], seconds: float) -> AsyncIterator[bytes]:
    async for chunk in _until(chunks, seconds):
        yield chunk
    status: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "The resourceVersion for the provided watch is too old.",
        "reason": "Expired",
        "code": 410,
    }
    yield json.dumps({"type": "ERROR", "object": status}).encode() + b"\n"


async def _stalled(chunks: AsyncIterator[bytes], seconds: float) -> AsyncIterator[bytes]:
    async for chunk in _until(chunks, seconds):
        yield chunk
    await asyncio.get_running_loop().create_future()  # Until the client disconnects.


async def _late(chunks: AsyncIterator[bytes], seconds: float) -> AsyncIterator[bytes]:
    """Yield all items `seconds` later, in order."""
    clock = asyncio.get_running_loop().time
    waiting: asyncio.Queue[tuple[float, bytes | None]] = asyncio.Queue()

    async def read() -> None:
        async for chunk in chunks:
            waiting.put_nowait((clock() + seconds, chunk))
        waiting.put_nowait((clock() + seconds, None))

    reading = asyncio.create_task(read(), name="late watch")
    try:
        while True:
            due, chunk = await waiting.get()
            await asyncio.sleep(max(0.0, due - clock()))
            if chunk is None:
                return
            yield chunk
    finally:
        reading.cancel()
        with suppress(asyncio.CancelledError):
            await reading
        await close_chunks(chunks)


async def _until(chunks: AsyncIterator[bytes], seconds: float) -> AsyncIterator[bytes]:
    """Yield the items of the first `seconds`; then close the stream of the server, too."""
    deadline = asyncio.get_running_loop().time() + seconds
    try:
        while True:
            async with asyncio.timeout_at(deadline):
                chunk = await anext(chunks, None)
            if chunk is None:
                return
            yield chunk
    except TimeoutError:
        return
    finally:
        await close_chunks(chunks)


_CHANGED: Final[dict[str, Callable[[AsyncIterator[bytes], float], AsyncIterator[bytes]]]] = {
    "drop": _dropped,
    "expire": _expired,
    "stall": _stalled,
    "stale": _late,
}
