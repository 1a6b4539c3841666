"""Credentials in files that others rotate: tokens and client certificates.

A file is looked at again at most once a minute and after a 401; a rotation that cannot be read, or is seen
half-done, keeps the last good credentials. The files are small and local, so they are read in place: handing them
to a thread would cost more than the read.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping
from pathlib import Path

from steersman.client.config.base import NO_HEADERS, ClientCertificate
from steersman.client.config.errors import ConfigError
from steersman.client.config.refresh import bearer
from steersman.telemetry.log import get_logger

_log = get_logger("client.config")

_INTERVAL = 50.0
"""Seconds between two looks at a file: within the minute that kubelet allows, as client-go does."""


def check_token(token: str, *, source: str = "", entry: str = "", field: str = "token") -> str:
    """The token without surrounding white space. Raises `ConfigError` when it cannot stand in a header."""
    token = token.strip()
    problem = ""
    if not token:
        problem = "the token is empty"
    elif not token.isascii() or not token.isprintable() or " " in token:
        problem = "the token holds characters that cannot stand in an HTTP header"
    if problem:
        raise ConfigError(problem, source=source, entry=entry, field=field, hint="paste the token again")
    return token


def read_bytes(path: Path, *, source: str = "", entry: str = "", field: str = "") -> bytes:
    """The file's content. Raises `ConfigError` that says why it could not be read."""
    try:
        return path.read_bytes()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else "unusable path"
        problem = f"cannot read {path}: {why}"
        hint = "correct the path or the file's permissions"
        raise ConfigError(problem, source=source, entry=entry, field=field, hint=hint) from None


def read_token(path: Path, *, source: str = "", entry: str = "", field: str = "tokenFile") -> str:
    """The token in a file. Raises `ConfigError`."""
    text = read_bytes(path, source=source, entry=entry, field=field).decode("utf-8", "replace")
    return check_token(text, source=source or str(path), entry=entry, field=field)


class FileAuth:
    """An `Authenticator` over synchronous readers of a token and of a client certificate, either may be absent.

    The readers raise `ConfigError`; at construction it propagates, later it is logged once per cause
    and the last good value stays in use. `fallback` is the token to use while the file has none yet.
    """

    def __init__(
        self,
        *,
        token: Callable[[], str] | None = None,
        certificate: Callable[[], ClientCertificate] | None = None,
        headers: Mapping[str, str] = NO_HEADERS,
        fallback: str | None = None,
    ) -> None:
        self._read_token = token
        self._read_certificate = certificate
        self._headers = headers
        self._certificate: ClientCertificate | None = None
        self.fresh_until = -math.inf
        self._complaint = ""
        try:
            self._read()
        except ConfigError:
            if fallback is None:
                raise
            self._headers = bearer(fallback)

    async def headers(self, *, refresh: bool = False) -> Mapping[str, str]:
        """See `Authenticator.headers`; never raises."""
        now = asyncio.get_running_loop().time()
        if refresh or now >= self.fresh_until:
            self.fresh_until = now + _INTERVAL
            self._reread()
        return self._headers

    def client_certificate(self) -> ClientCertificate | None:
        """See `Authenticator.client_certificate`."""
        return self._certificate

    def _reread(self) -> None:
        try:
            self._read()
        except ConfigError as error:
            if str(error) != self._complaint:
                self._complaint = str(error)
                _log.warning("keeping the last good credentials", error=self._complaint)
        else:
            self._complaint = ""

    def _read(self) -> None:
        if self._read_certificate is not None:
            certificate = self._read_certificate()
            if certificate != self._certificate:
                self._certificate = certificate
        if self._read_token is not None:
            headers = bearer(self._read_token())
            if headers != self._headers:
                self._headers = headers


class StaticAuth:
    """An `Authenticator` whose credentials never change: a token, a password, certificate data."""

    fresh_until = math.inf

    def __init__(self, headers: Mapping[str, str], certificate: ClientCertificate | None = None) -> None:
        self._headers = headers
        self._certificate = certificate

    async def headers(self, *, refresh: bool = False) -> Mapping[str, str]:
        """See `Authenticator.headers`; never raises."""
        return self._headers

    def client_certificate(self) -> ClientCertificate | None:
        """See `Authenticator.client_certificate`."""
        return self._certificate
