"""Credentials in files that other programs rotate: tokens and client certificates.

A file is read again at most once a minute and after a 401. If a rotated file is not readable or incomplete, the last
valid credentials stay in use. The files are small and local, so they are read in the event loop's thread: a hand-over
to another thread would cost more than the read.
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

_REREAD_INTERVAL_SECONDS = 50.0
"""Seconds between two reads of a file: within the minute that the kubelet allows, like client-go."""


def check_token(token: str, *, source: str = "", entry: str = "", field: str = "token") -> str:
    """Return the token without surrounding white space. Raises `ConfigError` if it is not valid in a header."""
    token = token.strip()
    problem = ""
    if not token:
        problem = "the token is empty"
    elif not token.isascii() or not token.isprintable() or " " in token:
        problem = "the token has characters that are not valid in an HTTP header"
    if problem:
        raise ConfigError(problem, source=source, entry=entry, field=field, hint="paste the token again")
    return token


def read_bytes(path: Path, *, source: str = "", entry: str = "", field: str = "") -> bytes:
    """Return the content of a file. Raises `ConfigError` with the reason if it cannot be read."""
    try:
        return path.read_bytes()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else "unusable path"
        problem = f"cannot read {path}: {why}"
        hint = "correct the path or the file's permissions"
        raise ConfigError(problem, source=source, entry=entry, field=field, hint=hint) from None


def read_token(path: Path, *, source: str = "", entry: str = "", field: str = "tokenFile") -> str:
    """Return the token in a file. Raises `ConfigError`."""
    text = read_bytes(path, source=source, entry=entry, field=field).decode("utf-8", "replace")
    return check_token(text, source=source or str(path), entry=entry, field=field)


class FileAuth:
    """An `Authenticator` with functions that read a token and a client certificate; either may be absent.

    The functions raise `ConfigError`. The constructor raises it too; later it is logged once per cause, and the last
    valid credentials stay in use. `fallback` is the token until the file has one.
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
            self.fresh_until = now + _REREAD_INTERVAL_SECONDS
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
                _log.warning("credentials_not_reread", error=self._complaint)
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
    """An `Authenticator` whose credentials do not change: a token, a password, certificate data."""

    fresh_until: float = math.inf

    def __init__(self, headers: Mapping[str, str], certificate: ClientCertificate | None = None) -> None:
        self._headers = headers
        self._certificate = certificate

    async def headers(self, *, refresh: bool = False) -> Mapping[str, str]:
        """See `Authenticator.headers`; never raises."""
        return self._headers

    def client_certificate(self) -> ClientCertificate | None:
        """See `Authenticator.client_certificate`."""
        return self._certificate
