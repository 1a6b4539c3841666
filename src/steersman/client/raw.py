"""Requests at the level of bytes: everything that is true of all of them, and nothing about objects.

Here are authentication (a 401 renews the credentials once), impersonation, retries (A6), warnings, metrics, the write
gate (L2) and the mapping of refusals to errors. Verbs stand above, transports below. No header and no body is ever
logged or put into an error.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from email.utils import parsedate_to_datetime
from functools import partial
from types import TracebackType
from urllib.parse import urlsplit

from steersman.client.config import Config
from steersman.client.errors import ApiError, ClientError, ResponseError, TransportError, UpgradeRefused, api_error
from steersman.client.hooks import READS, WriteGate
from steersman.client.metrics import HostMetrics
from steersman.client.retry import RetryPolicy, is_idempotent, retry_delay
from steersman.client.slots import Slots
from steersman.client.transport.base import Headers, Query, Response, StreamResponse, Transport, WebSocket
from steersman.client.warnings import WarningHandler, WarningOnce, log_warning
from steersman.telemetry.clock import Now, utc_now
from steersman.telemetry.log import get_logger

__all__ = ["JSON", "Raw"]

JSON = "application/json"

_LONGEST_ERROR = 1 << 20
_LONG_AGO = float("-inf")

_log = get_logger("client")


class Raw:
    """One API server as whom the configuration says, in bytes. Made by `Client`; safe for many tasks of one loop."""

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
        """Checked before each attempt of each write; may be set later."""
        self._config = config
        self._transport = transport
        self._send = transport.request
        self._retries = retries or RetryPolicy()
        self._slots = Slots(max_in_flight)
        self._time: Callable[[], float] = self._first_time
        self._warn = WarningOnce(on_warning)
        self._rng = rng or random.Random()  # noqa: S311 - jitter, not a secret
        self._now = now
        self._metrics = HostMetrics(urlsplit(config.server).netloc)
        impersonation = config.impersonate.headers() if config.impersonate is not None else ()
        self._fixed = (("User-Agent", user_agent), *impersonation)
        self._credentials: Mapping[str, str] = {}
        self._credentials_until = _LONG_AGO
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
        """Send a request until it is answered or there is no point in trying again; returns a 2xx response.

        `timeout` is seconds for each attempt, waiting for a free slot not counted. `idempotent` overrides the judgement
        of `is_idempotent`. Raises the `ApiError` that fits a refusal, `TransportError` when no answer came,
        `CredentialError` when there are no credentials, and whatever the write gate raises.
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
                    credentials = await self._ask_credentials()
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
                delay = self._delay(problem, retries, attempt, time() - started, idempotent, method)
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
        idempotent: bool,
        method: str,
    ) -> float | None:
        delay = retry_delay(
            retries or self._retries, problem, attempt=attempt, elapsed=elapsed, idempotent=idempotent, rng=self._rng
        )
        if delay is not None:
            self._metrics.retried(problem.code if isinstance(problem, ApiError) else 0, method)
            _log.debug("request is tried again", problem=str(problem), seconds=round(delay, 3), attempt=attempt)
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
        """Open a response that is read as it comes (watch, log); a 2xx response, or an error as `request` raises.

        Retried for nothing but renewed credentials, because whoever watches has a back-off and a position of its
        own. Does not take one of the slots for requests. Silence for `idle_timeout` seconds raises `TransportTimeout`.
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
                    stack.push_async_callback(_close, response)
                    return stack.pop_all(), response
                if response.status != 401 or refused or not await self._renewed(credentials):
                    raise self._refusal(response.status, response.headers, await _start_of(response), request)
                refused = True

    async def websocket(
        self, path: str, *, protocols: Sequence[str], query: Query = (), timeout: float = 30.0
    ) -> WebSocket:
        """Open a web socket (exec, attach, port-forward). It counts as a write: the gate is asked."""
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
            except UpgradeRefused as problem:
                if problem.status == 401 and not refused and await self._renewed(credentials):
                    refused = True
                elif problem.status >= 400:
                    raise api_error(
                        problem.status, problem.body, request=f"GET {path}", content_type=problem.content_type
                    ) from None
                else:
                    raise

    def _first_time(self) -> float:
        # Asking for the running loop is a system call on some Pythons, so it is done once: a client is of one loop.
        self._time = asyncio.get_running_loop().time
        return self._time()

    async def _ask_credentials(self) -> Mapping[str, str]:
        """The credentials, which need not be asked for again as long as the authenticator says so."""
        auth = self._config.auth
        credentials = await auth.headers()
        if credentials is not self._credentials:
            self._credentials = credentials
            self._headers.clear()
        self._credentials_until = getattr(auth, "fresh_until", _LONG_AGO)
        return credentials

    def _make_headers(self, accept: str, content_type: str) -> tuple[tuple[str, str], ...]:
        own = [("Accept", accept)] if accept else []
        if content_type:
            own.append(("Content-Type", content_type))
        headers = self._headers[accept, content_type] = (*self._fixed, *self._credentials.items(), *own)
        return headers

    async def _headers_for(self, accept: str, content_type: str) -> tuple[tuple[str, str], ...]:
        await self._ask_credentials()
        return self._headers.get((accept, content_type)) or self._make_headers(accept, content_type)

    async def _renewed(self, refused: Mapping[str, str]) -> bool:
        try:
            auth = self._config.auth
            if await auth.headers() is not refused:
                return True  # somebody else's 401 has renewed them since
            certificate = auth.client_certificate()
            return await auth.headers(refresh=True) is not refused or auth.client_certificate() is not certificate
        finally:
            self._credentials_until = _LONG_AGO  # only now: others may have asked for the old ones meanwhile

    async def _pass_gate(self, method: str, path: str) -> None:
        assert self.gate is not None
        waiting = self.gate.check(method, path)
        if waiting is not None:
            await waiting

    def _refusal(self, status: int, headers: Headers, body: bytes, request: str) -> ClientError:
        if status < 400:
            return ResponseError(f"{request}: unexpected answer {status}: no API server redirects, is there a proxy?")
        after = _seconds(headers.get("Retry-After"), self._now)
        # A Status speaks for itself: only for what is none, the headers are worth being decoded.
        kind = "" if body.startswith(b"{") else headers.get("Content-Type") or ""
        return api_error(status, body, request=request, content_type=kind, retry_after=after)


class _Stream:
    """`async with` it: the response that `begin` gets, and what is to be left afterwards."""

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


async def _close(response: StreamResponse) -> None:
    """End chunks that are an async generator, as those of stand-ins are; real ones end with their connection."""
    close = getattr(response.chunks, "aclose", None)
    if close is not None:
        await close()


async def _start_of(response: StreamResponse) -> bytes:
    body = bytearray()
    async for chunk in response.chunks:
        body += chunk
        if len(body) >= _LONGEST_ERROR:
            break
    return bytes(body)


def _seconds(value: str | None, now: Now) -> float | None:
    """`Retry-After` as seconds from now; `None` where it is absent or unreadable (RFC 9110 §10.2.3)."""
    if value is None:
        return None
    value = value.strip()
    if value.isdecimal() and value.isascii():
        return float(value)
    try:
        return max(0.0, (parsedate_to_datetime(value) - now()).total_seconds())
    except (ValueError, TypeError):
        return None
