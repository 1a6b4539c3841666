"""Where the webhook server's certificate comes from: made for one run, or files that somebody renews.

Each gives the context for the next connection; connections that are open live on with theirs. Private keys never
reach a log or a repr.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Protocol

from steersman.pki import Authority, KeyPair, as_file
from steersman.telemetry.log import get_logger

__all__ = ["DirectoryCertificates", "LocalCertificates", "ServingCertificates", "context_of"]

log = get_logger("webhook")

_LOCAL_LIFETIME = timedelta(days=30)


class ServingCertificates(Protocol):
    """What the server shows; asked for each new connection, so `context` must be cheap."""

    def context(self) -> ssl.SSLContext: ...
    async def close(self) -> None: ...


def context_of(pair: KeyPair) -> ssl.SSLContext:
    """A server's context with that certificate (and what follows it in its PEM). Raises `ssl.SSLError`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    with as_file(pair.cert_pem + b"\n" + pair.key_pem) as path:
        context.load_cert_chain(path)
    return context


class LocalCertificates:
    """An authority and a certificate for one run, in memory; good for a month."""

    def __init__(self, name: str, hosts: Iterable[str]) -> None:
        authority = Authority.create(f"{name}-webhook-ca", lifetime=_LOCAL_LIFETIME)
        self.ca_bundle = authority.cert_pem
        """What the API server is to trust."""
        self._context = context_of(authority.serving(f"{name}-webhook", hosts))

    def context(self) -> ssl.SSLContext:
        return self._context

    async def close(self) -> None:
        """Nothing is kept."""


class DirectoryCertificates:
    """`tls.crt` and `tls.key` of a directory, as cert-manager leaves them; read again when they change.

    What cannot be read keeps the old one in use, and is logged. Raises OSError, at first, where there is none.
    """

    def __init__(self, directory: str | Path) -> None:
        self._directory = Path(directory)
        self._version = self._stat()
        self._context = self._load()

    def context(self) -> ssl.SSLContext:
        try:
            version = self._stat()
            if version != self._version:
                self._context = self._load()
                self._version = version
                log.info("the webhook server has a new certificate", directory=str(self._directory))
        except OSError as problem:  # ssl.SSLError is one
            log.warning("the new certificate cannot be used; keeping the old one", error=str(problem))
        return self._context

    async def close(self) -> None:
        """Nothing is kept."""

    def _stat(self) -> tuple[int, ...]:
        return tuple((self._directory / name).stat().st_mtime_ns for name in ("tls.crt", "tls.key"))

    def _load(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self._directory / "tls.crt", self._directory / "tls.key")
        return context
