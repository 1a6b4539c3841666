"""Requests as bytes: the behavior that all requests share, without objects.

It implements authentication (a 401 renews the credentials once), impersonation, retries (rule A6), warnings, metrics,
the write gate (rule L2) and the mapping of error responses to exceptions. Headers and bodies are never logged and are
never part of an error.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import partial
from types import TracebackType
from urllib.parse import urlsplit

from steersman.client.config import Config
from steersman.client.errors import ApiError, ClientError, ResponseError, TransportError, UpgradeRefusedError, api_error
from steersman.client.hooks import READS, WriteGate
from steersman.client.metrics import HostMetrics
from steersman.client.retry import RetryPolicy, is_idempotent, retry_delay
from steersman.client.slots import Slots
from steersman.client.transport.base import (
    Headers,
    Query,
    Response,
    StreamResponse,
    Transport,
    WebSocket,
    close_chunks,
)
from steersman.client.warnings import WarningHandler, WarningOnce, log_warning
from steersman.telemetry.clock import Now, utc_now
from steersman.telemetry.log import get_logger

__all__ = ["JSON", "Raw"]

JSON = "application/json"

_MAX_ERROR_BYTES = 1 << 20
_EXPIRED = float("-inf")

_log = get_logger("client")


class Raw:
    """Sends requests to one API server with one identity. It is safe for many tasks of one event loop."""

    def __init__(
        self,
        config: Config,
        transport: Transport,
        *,
        user_agent: str,
        gate: WriteGate | None = None,
        retries: RetryPolicy | None = None,
        max_in_flight: int = 128,
        on_warning: WarningHandler = log_warning,
        rng: random.Random | None = None,
        now: Now = utc_now,
    ) -> None:
        self.gate = gate
        """Called before each attempt of each write; can be set later."""
        self._config = config
        self._transport = transport
        self._send = transport.request
        self._retries = retries or RetryPolicy()
        self._slots = Slots(max_in_flight)
        self._time: Callable[[], float] = self._initial_time
        self._warn = WarningOnce(on_warning)
        self._rng = rng or random.Random()  # noqa: S311 - jitter, not a secret
        self._now = now
        self._metrics = HostMetrics(urlsplit(config.server).netloc)
        impersonation = config.impersonate.headers() if config.impersonate is not None else ()
        self._fixed = (("User-Agent", user_agent), *impersonation)
        self._credentials: Mapping[str, str] = {}
        self._credentials_until = _EXPIRED
        self._headers: dict[tuple[str, str], tuple[tuple[str, str], ...]] = {}

    async def request(  # noqa: C901 - each request is here: one coroutine, in the order in which it happens
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        body: bytes | None = None,
        accept: str = JSON,
        content_type: str = JSON,
        timeout: float = 30.0,
        idempotent: bool | None = None,
        retries: RetryPolicy | None = None,
    ) -> Response:
        """Send a request, retry it if the policy allows that, and return a 2xx response.

        Args:
            method: The HTTP method.
            path: The absolute, percent-encoded path.
            query: The query parameters.
            body: The request body.
            accept: The Accept header.
            content_type: The type of the body.
            timeout: Seconds for each attempt, without the time that it waits for a free slot.
            idempotent: Whether a retry is safe; by default the result of `is_idempotent`.
            retries: The retry policy of this request.

        Raises:
            ApiError: The server refused the request; the class depends on the Status.
            TransportError: No response arrived.
            CredentialError: There are no credentials.
            Exception: Exceptions of the write gate are raised unchanged.
        """
        time, slots = self._time, self._slots
        sends = content_type if body is not None else ""
        started = sent = time()
        attempt = 1
        refused: Mapping[str, str] | None = None
        while True:
            try:
                credentials = self._credentials
                if sent >= self._credentials_until:
                    credentials = await self._get_credentials()
                    sent = time()
                headers = self._headers.get((accept, sends)) or self._make_headers(accept, sends)
                if self.gate is not None and method not in READS:
                    waiting = self.gate.check(method, path)
                    if waiting is not None:
                        await waiting
                        sent = time()
                if not slots.take():
                    await slots.wait()
                    sent = time()
                code = 0
                try:
                    response = await self._send(method, path, query=query, headers=headers, body=body, timeout=timeout)
                    code = response.status
                finally:
                    slots.give()
                    self._metrics.done(code, method, time() - sent)
                if (warning := response.headers.get("Warning")) is not None and warning:
                    self._warn(response.headers.get_all("Warning"), f"{method} {path}")
                if 200 <= code < 300:
                    return response
                if code == 401 and refused is None and await self._renewed(credentials):
                    refused, sent = credentials, time()
                    continue
                raise self._refusal(code, response.headers, response.body, f"{method} {path}")
            except ClientError as problem:
                if idempotent is None:
                    idempotent = is_idempotent(method, content_type)
                delay = self._delay(problem, retries, attempt, time() - started, method, idempotent=idempotent)
                if delay is None:
                    raise
            await asyncio.sleep(delay)
            attempt, refused, sent = attempt + 1, None, time()

    def _delay(
        self,
        problem: ClientError,
        retries: RetryPolicy | None,
        attempt: int,
        elapsed: float,
        method: str,
        *,
        idempotent: bool,
    ) -> float | None:
        delay = retry_delay(
            retries or self._retries, problem, attempt=attempt, elapsed=elapsed, idempotent=idempotent, rng=self._rng
        )
        if delay is not None:
            self._metrics.retried(problem.code if isinstance(problem, ApiError) else 0, method)
            _log.debug("request_retried", error=str(problem), delay_seconds=round(delay, 3), attempt=attempt)
        return delay

    def stream(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        body: bytes | None = None,
        accept: str = JSON,
        content_type: str = JSON,
        connect_timeout: float = 30.0,
        idle_timeout: float = 60.0,
    ) -> AbstractAsyncContextManager[StreamResponse]:
        """Open a 2xx response that is read in pieces (watch, log); raises errors like `request`.

        Only a 401 is retried, after the credentials were renewed, because the caller of a watch has a backoff and a
        resourceVersion of its own. The stream does not take one of the slots for requests. `TransportTimeoutError` is
        raised after `idle_timeout` seconds without data.
        """
        sends = content_type if body is not None else ""
        return _Stream(partial(self._begin, method, path, query, body, accept, sends, connect_timeout, idle_timeout))

    async def _begin(
        self,
        method: str,
        path: str,
        query: Query,
        body: bytes | None,
        accept: str,
        sends: str,
        connect_timeout: float,
        idle_timeout: float,
    ) -> tuple[AsyncExitStack, StreamResponse]:
        time = self._time
        request = f"{method} {path}"
        refused = False
        while True:
            headers = await self._headers_for(accept, sends)
            credentials = self._credentials
            if method not in READS and self.gate is not None:
                await self._pass_gate(method, path)
            started = time()
            async with AsyncExitStack() as stack:
                opening = self._transport.stream(
                    method,
                    path,
                    query=query,
                    headers=headers,
                    body=body,
                    connect_timeout=connect_timeout,
                    idle_timeout=idle_timeout,
                )
                try:
                    response = await stack.enter_async_context(opening)
                except TransportError:
                    self._metrics.done(0, method, time() - started)
                    raise
                self._metrics.done(response.status, method, time() - started)
                if response.headers.get("Warning"):
                    self._warn(response.headers.get_all("Warning"), request)
                if 200 <= response.status < 300:
                    stack.push_async_callback(close_chunks, response.chunks)
                    return stack.pop_all(), response
                if response.status != 401 or refused or not await self._renewed(credentials):
                    raise self._refusal(response.status, response.headers, await _first_bytes(response), request)
                refused = True

    async def websocket(
        self, path: str, *, protocols: Sequence[str], query: Query = (), timeout: float = 30.0
    ) -> WebSocket:
        """Open a WebSocket (exec, attach, port-forward). It counts as a write, so the gate is called."""
        if self.gate is not None:
            await self._pass_gate("POST", path)
        refused = False
        while True:
            headers = await self._headers_for("", "")
            credentials = self._credentials
            try:
                return await self._transport.websocket(
                    path, query=query, headers=headers, protocols=protocols, timeout=timeout
                )
            except UpgradeRefusedError as problem:
                if problem.status == 401 and not refused and await self._renewed(credentials):
                    refused = True
                elif problem.status >= 400:
                    raise api_error(
                        problem.status, problem.body, request=f"GET {path}", content_type=problem.content_type
                    ) from None
                else:
                    raise

    def _initial_time(self) -> float:
        # Getting the running loop is a system call on some Pythons, so it is done once: a client belongs to one loop.
        self._time = asyncio.get_running_loop().time
        return self._time()

    async def _get_credentials(self) -> Mapping[str, str]:
        """Return the credentials, and remember how long the authenticator allows to reuse them."""
        auth = self._config.auth
        credentials = await auth.headers()
        if credentials is not self._credentials:
            self._credentials = credentials
            self._headers.clear()
        self._credentials_until = auth.fresh_until
        return credentials

    def _make_headers(self, accept: str, content_type: str) -> tuple[tuple[str, str], ...]:
        own = [("Accept", accept)] if accept else []
        if content_type:
            own.append(("Content-Type", content_type))
        headers = self._headers[accept, content_type] = (*self._fixed, *self._credentials.items(), *own)
        return headers

    async def _headers_for(self, accept: str, content_type: str) -> tuple[tuple[str, str], ...]:
        await self._get_credentials()
        return self._headers.get((accept, content_type)) or self._make_headers(accept, content_type)

    async def _renewed(self, refused: Mapping[str, str]) -> bool:
        try:
            auth = self._config.auth
            if await auth.headers() is not refused:
                return True  # another request has renewed them after its own 401
            certificate = auth.client_certificate()
            return await auth.headers(refresh=True) is not refused or auth.client_certificate() is not certificate
        finally:
            self._credentials_until = (
                _EXPIRED  # at the end, because other requests may have read the old ones meanwhile
            )

    async def _pass_gate(self, method: str, path: str) -> None:
        assert self.gate is not None
        waiting = self.gate.check(method, path)
        if waiting is not None:
            await waiting

    def _refusal(self, status: int, headers: Headers, body: bytes, request: str) -> ClientError:
        if status < 400:
            return ResponseError(f"{request}: unexpected status {status}: API servers do not redirect; check the proxy")
        after = _seconds(headers.get("Retry-After"), self._now)
        # The Content-Type only matters if the body is not a Status.
        kind = "" if body.startswith(b"{") else headers.get("Content-Type") or ""
        return api_error(status, body, request=request, content_type=kind, retry_after=after)


class _Stream:
    """The context manager of a stream: opens the response with `begin` and closes it at the end."""

    __slots__ = ("_begin", "_begun")

    def __init__(self, begin: Callable[[], Awaitable[tuple[AsyncExitStack, StreamResponse]]]) -> None:
        self._begin = begin
        self._begun: AsyncExitStack | None = None

    async def __aenter__(self) -> StreamResponse:
        self._begun, response = await self._begin()
        return response

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        assert self._begun is not None
        return await self._begun.__aexit__(kind, problem, traceback)


async def _first_bytes(response: StreamResponse) -> bytes:
    body = bytearray()
    async for chunk in response.chunks:
        body += chunk
        if len(body) >= _MAX_ERROR_BYTES:
            break
    return bytes(body)


def _seconds(value: str | None, now: Now) -> float | None:
    """Return `Retry-After` as seconds from now; `None` if it is absent or invalid (RFC 9110 section 10.2.3)."""
    if value is None:
        return None
    value = value.strip()
    if value.isdecimal() and value.isascii():
        return float(value)
    from email.utils import parsedate_to_datetime  # the API server sends seconds

    try:
        return max(0.0, (parsedate_to_datetime(value) - now()).total_seconds())
    except (ValueError, TypeError):
        return None
