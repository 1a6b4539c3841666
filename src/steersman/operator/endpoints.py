"""The HTTP servers of a replica: probes, and metrics over plain HTTP or over TLS with authorization.

Secure metrics follow controller-runtime: the API server reviews the bearer token (TokenReview), and its user must be
allowed to `get` the non-resource URL `/metrics` (SubjectAccessReview). Allowed tokens are cached for a minute, denied
ones for ten seconds.
"""

from __future__ import annotations

import asyncio
import hashlib
import ssl
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, cast

from steersman.client import Client, ClientError
from steersman.models import dynamic
from steersman.operator.health import Health
from steersman.operator.http_server import Answer, Route, ThreadServer, Visit
from steersman.operator.settings import Settings, SettingsError, parse_address
from steersman.pki.child_process import call_in_child_process
from steersman.pki.files import as_file
from steersman.pki.self_signed import self_signed
from steersman.pki.sockets import ClosingSocket
from steersman.telemetry.clock import utc_now
from steersman.telemetry.exposition import exposition
from steersman.telemetry.log import get_logger

__all__ = ["Certificates", "MetricsAuthorizer", "metrics_route", "serve_metrics", "serve_probes"]

log = get_logger("server")

_GRANTED_FOR: Final = 60.0
_REFUSED_FOR: Final = 10.0
_REMEMBERED: Final = 1000
_REVIEW_TIMEOUT: Final = 10.0

_TOKEN_REVIEW = dynamic("authentication.k8s.io/v1", "TokenReview", namespaced=False)
_ACCESS_REVIEW = dynamic("authorization.k8s.io/v1", "SubjectAccessReview", namespaced=False)


def metrics_route() -> Route:
    """Return `/metrics` in the format that the scraper requests."""

    def route(visit: Visit) -> Answer:
        body, content_type = exposition(visit.headers.get("accept", ""))
        return Answer(200, body, content_type)

    return route


def serve_probes(health: Health, settings: Settings) -> ThreadServer | None:
    """Start the probe server; returns `None` if the settings turn it off. Raises `BindError`."""
    address = parse_address(settings.health_probe_bind_address)
    if address is None:
        return None
    server = ThreadServer(address, health.routes(), name="probe", setting="--health-probe-bind-address")
    log.info("probes_served", address=str(server.address))
    return server


def serve_metrics(client: Client, settings: Settings) -> ThreadServer | None:
    """Start the metrics server; returns `None` if the settings turn it off. Raises `BindError` and `SettingsError`."""
    address = parse_address(settings.metrics_bind_address)
    if address is None:
        return None
    route, tls = metrics_route(), None
    if settings.metrics_secure:
        directory = Path(settings.metrics_cert_dir) if settings.metrics_cert_dir else None
        tls = Certificates(directory).context
        route = MetricsAuthorizer(client, asyncio.get_running_loop()).guard(route)
    server = ThreadServer(address, {"/metrics": route}, name="metrics", setting="--metrics-bind-address", tls=tls)
    log.info("metrics_served", address=str(server.address), secure=settings.metrics_secure)
    return server


class Certificates:
    """The certificate of a server: from a directory, read again after a change, or self-signed for the first client."""

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self._version: object = None
        self._lock = threading.Lock()
        self._context: ssl.SSLContext | None = None
        if directory is not None:
            self.context()  # Report invalid files at the start.

    def context(self) -> ssl.SSLContext:
        """Return the TLS context for the next connection."""
        with self._lock:
            version = self._current()
            if self._context is None or version != self._version:
                try:
                    self._context = self._load()
                    self._version = version
                except (OSError, ValueError) as problem:  # ssl.SSLError is an OSError
                    if self._context is None:
                        raise SettingsError(
                            f"--metrics-cert-dir {self._directory}: tls.crt and tls.key cannot be used: {problem}"
                        ) from None
                    log.warning("certificate_rejected", error=str(problem))
            return self._context

    def _current(self) -> object:
        if self._directory is None:
            return None
        try:
            return tuple((self._directory / name).stat().st_mtime_ns for name in ("tls.crt", "tls.key"))
        except OSError:
            return None

    def _load(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.sslsocket_class = ClosingSocket
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if self._directory is not None:
            context.load_cert_chain(self._directory / "tls.crt", self._directory / "tls.key")
            return context
        with as_file(b"".join(call_in_child_process(self_signed, utc_now()))) as path:
            context.load_cert_chain(path)
        return context


class MetricsAuthorizer:
    """Checks with the API server whether the user of a token may read metrics; called from the server's threads."""

    def __init__(
        self, client: Client, loop: asyncio.AbstractEventLoop, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._client = client
        self._loop = loop
        self._clock = clock
        self._known: OrderedDict[bytes, tuple[float, Answer | None]] = OrderedDict()
        self._lock = threading.Lock()

    def guard(self, route: Route) -> Route:
        """Wrap `route` with the check of the permission."""

        def guarded(visit: Visit) -> Answer:
            refusal = self.authorize(visit.headers.get("authorization", ""), visit.path)
            return route(visit) if refusal is None else refusal

        return guarded

    def authorize(self, authorization: str, path: str) -> Answer | None:
        """Return `None` for an authorized request, else the error response."""
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            return Answer(401, b"a bearer token is needed\n", headers={"WWW-Authenticate": "Bearer"})
        slot = hashlib.sha256(f"{path}\0{token}".encode()).digest()
        with self._lock:
            known = self._known.get(slot)
            if known is not None and self._clock() < known[0]:
                return known[1]
        try:
            verdict = asyncio.run_coroutine_threadsafe(self._review(token.strip(), path), self._loop).result(
                _REVIEW_TIMEOUT
            )
        except (ClientError, TimeoutError) as problem:
            log.warning("metrics_authorization_failed", error=str(problem) or "no answer in time")
            return Answer(503, b"the API server could not be asked\n")
        with self._lock:
            self._known[slot] = (self._clock() + (_GRANTED_FOR if verdict is None else _REFUSED_FOR), verdict)
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return verdict

    async def _review(self, token: str, path: str) -> Answer | None:
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        status = _status(await self._client.create(review, kind=_TOKEN_REVIEW))
        if not status.get("authenticated"):
            return Answer(401, b"the token was refused\n", headers={"WWW-Authenticate": "Bearer"})
        user = cast("Mapping[str, Any]", status.get("user") or {})
        access: dict[str, Any] = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": user.get("username", ""),
                "uid": user.get("uid", ""),
                "groups": user.get("groups") or [],
                "extra": user.get("extra") or {},
                "nonResourceAttributes": {"path": path, "verb": "get"},
            },
        }
        if _status(await self._client.create(access, kind=_ACCESS_REVIEW)).get("allowed"):
            return None
        return Answer(403, f"{user.get('username', '')} may not get {path}\n".encode())


def _status(review: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", review.body.get("status") or {})
