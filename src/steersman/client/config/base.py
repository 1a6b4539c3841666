"""The values that describe an API server and the identity of the client.

A transport is built from a `Config`, which is frozen; credentials that change while a program runs (tokens, client
certificates) belong to its `Authenticator`. The module reads no files and opens no connections; no repr has a secret.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Protocol, runtime_checkable
from urllib.parse import quote, urlsplit

from steersman.client.config.errors import ConfigError

NO_HEADERS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, eq=False)
class ClientCertificate:
    """A client certificate chain and its private key, both PEM. Equal when the certificate and key are the same."""

    cert_pem: bytes = field(repr=False)
    key_pem: bytes = field(repr=False)

    @cached_property
    def version(self) -> str:
        """A short fingerprint of the certificate and the key. Safe to log."""
        return hashlib.sha256(self.cert_pem + b"\0" + self.key_pem).hexdigest()[:16]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ClientCertificate) and self.version == other.version

    def __hash__(self) -> int:
        return hash(self.version)

    def __repr__(self) -> str:
        return f"ClientCertificate(version={self.version!r})"


@dataclass(frozen=True)
class TlsConfig:
    """The verification of the server's certificate.

    `ca_pem` None means the system's trust store. `server_name` replaces the URL's host for SNI and verification.
    `insecure` disables verification and cannot be combined with `ca_pem` (like kubectl).
    """

    ca_pem: bytes | None = field(default=None, repr=False)
    server_name: str | None = None
    insecure: bool = False

    def __post_init__(self) -> None:
        if self.insecure and self.ca_pem is not None:
            raise ConfigError(
                "a certificate authority and insecure-skip-tls-verify exclude each other",
                field="insecure-skip-tls-verify",
                hint="remove insecure-skip-tls-verify (recommended) or the certificate authority",
            )


@dataclass(frozen=True)
class Impersonation:
    """Another user to act as (`kubectl --as`). The groups, the uid and the extra need a user."""

    user: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])

    def headers(self) -> tuple[tuple[str, str], ...]:
        """Return the `Impersonate-*` headers as pairs, because each group is a header of its own."""
        pairs = [("Impersonate-User", self.user)]
        if self.uid:
            pairs.append(("Impersonate-Uid", self.uid))
        pairs.extend(("Impersonate-Group", group) for group in self.groups)
        for key, values in self.extra.items():
            # The API server percent-decodes the key and lower-cases it; a header name may have token characters only.
            name = "Impersonate-Extra-" + quote(key, safe="!#$&'*+-.^_`|~")
            pairs.extend((name, value) for value in values)
        return tuple(pairs)


@runtime_checkable
class Authenticator(Protocol):
    """Provides the credentials of each request. Concurrent callers share one refresh; calls are cheap otherwise."""

    fresh_until: float
    """The event loop's time in seconds until which `headers` returns its last result and need not be called, unless a
    request was refused with 401; `-math.inf` to be called before each request."""

    async def headers(self, *, refresh: bool = False) -> Mapping[str, str]:
        """Return headers that authenticate a request. Call it before each request; do not change the mapping.

        The same mapping object is returned until the credentials change. After a 401 call it with `refresh=True`:
        concurrent callers share one refresh. If the mapping and the client certificate are still the refused objects
        (`is`), a retry is pointless. Raises `CredentialError`.
        """
        ...

    def client_certificate(self) -> ClientCertificate | None:
        """Return the current client certificate. Call it after `headers`, which obtains a new one.

        The same object is returned until the certificate changes: compare with `is`, and open new connections if it
        differs. It reads at most a small local file, and never raises.
        """
        ...


class Anonymous:
    """No credentials (`http://` to `kubectl proxy`, or an anonymous user)."""

    fresh_until: float = math.inf

    async def headers(self, *, refresh: bool = False) -> Mapping[str, str]:
        """Return no headers."""
        return NO_HEADERS

    def client_certificate(self) -> ClientCertificate | None:
        """Return None."""
        return None


ANONYMOUS = Anonymous()


@dataclass(frozen=True)
class Config:
    """The address of an API server and the identity. Use `load_config`, `in_cluster_config` or `Config.for_url`.

    `server` is a URL with scheme http or https, an optional path, and no trailing slash. `proxy` is the URL of the
    proxy, with the environment already considered, or None. `impersonate.headers()` are sent with every request.
    """

    server: str
    tls: TlsConfig = TlsConfig()
    auth: Authenticator = field(default=ANONYMOUS, repr=False)
    namespace: str = "default"
    proxy: str | None = field(default=None, repr=False)
    impersonate: Impersonation | None = None
    context: str = ""
    disable_compression: bool = False

    @classmethod
    def for_url(cls, url: str, *, namespace: str = "default") -> Config:
        """Return the configuration of a server without credentials, such as `kubectl proxy` at `http://127.0.0.1:8001`.

        Raises `ConfigError` if the URL has no host or a scheme other than http and https.
        """
        return cls(server=check_server(url), namespace=namespace)


def check_server(url: str, *, source: str = "", entry: str = "", field: str = "server") -> str:
    """Return the server URL without trailing slash. Raises `ConfigError` if it is invalid."""
    hint = "write https://host:port"
    if not url.strip():
        raise ConfigError("the server is empty", source=source, entry=entry, field=field, hint=hint)
    try:
        parts = urlsplit(url.strip())
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise ConfigError("not a valid URL", source=source, entry=entry, field=field, hint=hint) from None
    if "://" not in url:
        problem = "the server URL has no scheme"
    elif parts.scheme not in ("http", "https"):
        problem = f"unsupported scheme {parts.scheme!r}"
    elif not host:
        problem = "the server URL has no host"
    elif parts.query or parts.fragment:
        problem = "the server URL must not have a query or fragment"
    elif parts.username is not None:
        problem = "the server URL must not hold credentials"
        hint = "put them into the user entry"
    else:
        return url.strip().rstrip("/")
    raise ConfigError(problem, source=source, entry=entry, field=field, hint=hint)
