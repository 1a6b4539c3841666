"""Sources of the webhook server's certificate: created for one run, or files that another program renews.

Each source returns the TLS context for the next connection; open connections keep theirs. Private keys are never part
of a log or a repr.
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
    """Provides the server's TLS context for each new connection, so `context` must be fast."""

    def context(self) -> ssl.SSLContext:
        """Return the context for the next connection."""
        ...

    async def close(self) -> None:
        """Stop background work."""
        ...


def context_of(pair: KeyPair) -> ssl.SSLContext:
    """Return a server context with a certificate (and its chain in the PEM). Raises `ssl.SSLError`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    with as_file(pair.cert_pem + b"\n" + pair.key_pem) as path:
        context.load_cert_chain(path)
    return context


class LocalCertificates:
    """An authority and a certificate for one run, in memory, valid for a month."""

    def __init__(self, name: str, hosts: Iterable[str]) -> None:
        authority = Authority.create(f"{name}-webhook-ca", lifetime=_LOCAL_LIFETIME)
        self.ca_bundle = authority.cert_pem
        """The CA bundle for the API server."""
        self._context = context_of(authority.serving(f"{name}-webhook", hosts))

    def context(self) -> ssl.SSLContext:
        """Return the context of the run."""
        return self._context

    async def close(self) -> None:
        """Do nothing: there is no background work."""


class DirectoryCertificates:
    """`tls.crt` and `tls.key` of a directory, as cert-manager writes them; read again when they change.

    If changed files cannot be read, the old certificate stays in use and the error is logged. The constructor raises
    OSError if there is no certificate.
    """

    def __init__(self, directory: str | Path) -> None:
        self._directory = Path(directory)
        self._version = self._stat()
        self._context = self._load()

    def context(self) -> ssl.SSLContext:
        """Return the context, with the files read again if they have changed."""
        try:
            version = self._stat()
            if version != self._version:
                self._context = self._load()
                self._version = version
                log.info("serving_certificate_loaded", directory=str(self._directory))
        except OSError as problem:  # ssl.SSLError is one
            log.warning("serving_certificate_not_loaded", error=str(problem))
        return self._context

    async def close(self) -> None:
        """Do nothing: there is no background work."""

    def _stat(self) -> tuple[int, ...]:
        return tuple((self._directory / name).stat().st_mtime_ns for name in ("tls.crt", "tls.key"))

    def _load(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self._directory / "tls.crt", self._directory / "tls.key")
        return context
