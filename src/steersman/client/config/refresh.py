"""Credentials that expire: caching, one refresh for all callers, and limits on refreshes.

`RefreshingAuth` returns a cached mapping until it expires, then runs one refresh for all waiting callers. The time is
the event loop's, so a change of the wall clock has no effect; if the server refuses a token, the 401 refreshes it.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from steersman.client.config.base import NO_HEADERS, ClientCertificate
from steersman.client.config.errors import CredentialError

_LEEWAY_SECONDS = 10.0
"""Time before expiry at which credentials are renewed (less for short-lived ones)."""
_MIN_REFRESH_INTERVAL_SECONDS = 5.0
"""Time after a refresh within which a 401 is taken to be about the previous credentials."""
_FAILURE_MEMORY_SECONDS = 1.0
"""Time for which callers get the error of a failed refresh, so that a burst of calls starts one process."""


@dataclass(frozen=True)
class Credentials:
    """The credentials that a source returns. `lifetime` is in seconds from now; None means until refused."""

    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    certificate: ClientCertificate | None = None
    lifetime: float | None = None


def bearer(token: str) -> dict[str, str]:
    """Return the Authorization header of a token."""
    return {"Authorization": f"Bearer {token}"}


class Obtain(Protocol):
    """The source of the credentials."""

    async def __call__(self, *, forced: bool) -> Credentials:
        """Obtain credentials; `forced` is true if the API server has rejected the present ones."""
        ...


class RefreshingAuth:
    """An `Authenticator` that calls an asynchronous `obtain(forced=…)`.

    At most one call of `obtain` runs at a time; it is cancelled when all its callers are cancelled. After a failed
    refresh, credentials that are still valid stay in use. Use it from one event loop at a time.
    """

    def __init__(self, obtain: Obtain) -> None:
        self._obtain = obtain
        self._headers: Mapping[str, str] = NO_HEADERS
        self._certificate: ClientCertificate | None = None
        self.fresh_until = -math.inf
        self._valid_until = -math.inf
        self._refreshed_at = -math.inf
        self._failed_at = -math.inf
        self._failure: CredentialError | None = None
        self._refreshing: asyncio.Task[None] | None = None
        self._waiting = 0

    async def headers(self, *, refresh: bool = False) -> Mapping[str, str]:
        """See `Authenticator.headers`. Raises `CredentialError` if there are no valid credentials."""
        now = asyncio.get_running_loop().time()
        if not refresh:
            if now < self.fresh_until:
                return self._headers
        elif now < self._refreshed_at + _MIN_REFRESH_INTERVAL_SECONDS:
            return self._headers
        return await self._refreshed(now, forced=refresh)

    def client_certificate(self) -> ClientCertificate | None:
        """See `Authenticator.client_certificate`."""
        return self._certificate

    async def _refreshed(self, now: float, *, forced: bool) -> Mapping[str, str]:
        if self._failure is not None and now < self._failed_at + _FAILURE_MEMORY_SECONDS:
            if now < self._valid_until and not forced:
                return self._headers
            raise _copy_of(self._failure)
        await self._await_refresh(forced=forced)
        if self._failure is not None:
            if asyncio.get_running_loop().time() < self._valid_until and not forced:
                return self._headers
            raise _copy_of(self._failure)
        return self._headers

    async def _await_refresh(self, *, forced: bool) -> None:
        loop = asyncio.get_running_loop()
        refreshing = self._refreshing
        if refreshing is None or refreshing.done() or refreshing.get_loop() is not loop:
            refreshing = self._refreshing = loop.create_task(self._refresh(forced=forced), name="refresh credentials")
            self._waiting = 0
        self._waiting += 1
        try:
            await asyncio.shield(refreshing)
        except asyncio.CancelledError:
            if self._waiting == 1 and not refreshing.done():
                refreshing.cancel()
                self._refreshing = None  # a cancelled refresh must not be joined
            raise
        finally:
            self._waiting -= 1

    async def _refresh(self, *, forced: bool) -> None:
        loop = asyncio.get_running_loop()
        try:
            new = await self._obtain(forced=forced)
        except CredentialError as error:
            self._failure, self._failed_at = error, loop.time()
            return
        now = self._refreshed_at = loop.time()
        self._failure = None
        if new.headers != self._headers:
            self._headers = new.headers
        if new.certificate != self._certificate:
            self._certificate = new.certificate
        if new.lifetime is None:
            self.fresh_until = self._valid_until = math.inf
        else:
            self._valid_until = now + new.lifetime
            leeway = min(_LEEWAY_SECONDS, new.lifetime / 10)
            self.fresh_until = now + max(_FAILURE_MEMORY_SECONDS, new.lifetime - leeway)


def _copy_of(error: CredentialError) -> CredentialError:
    # Every waiter raises its own instance: a shared one would collect all their tracebacks.
    return CredentialError(error.problem, source=error.source, entry=error.entry, field=error.field, hint=error.hint)
