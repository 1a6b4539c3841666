"""The webhooks of a replica: the server of the declared functions, and their registration at the API server.

Every replica serves them, with or without the lease (L4), before the caches are filled: a list of a kind with a
conversion webhook needs them. In a cluster the manifests contain the configurations, and the certificates come from a
Secret or a directory. Outside of it a run registers a URL with its own authority, and unregisters it at its end.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any, Final, TypeVar

from steersman.cache import Cache, Informer
from steersman.client import ApiError, Client, ClientError, Forbidden
from steersman.client.config import Config
from steersman.controller.blocking import run_blocking
from steersman.models import Key, View
from steersman.operator.cache_reader import CacheReader
from steersman.operator.declarations import WebhookDeclaration
from steersman.operator.http_server import BindError
from steersman.operator.operator import Operator
from steersman.operator.runtime import Runtime
from steersman.operator.settings import Settings, SettingsError, parse_address
from steersman.operator.tracing import Tracing
from steersman.operator.webhook_certificates import certificates_for
from steersman.pki.sockets import ClosingSocket
from steersman.telemetry.log import get_logger
from steersman.webhook.admission import Admission, AdmissionRoute, Call, Hook
from steersman.webhook.admission_review import Review, failure
from steersman.webhook.certificate_sources import LocalCertificates, ServingCertificates
from steersman.webhook.http import WebhookServer
from steersman.webhook.http_messages import Route
from steersman.webhook.reachability import PATH as PROBE
from steersman.webhook.reachability import WebhookUnreachableError, answer_probe
from steersman.webhook.registration import Registration

__all__ = ["Webhooks", "handshake"]

log = get_logger("webhook")

T = TypeVar("T")

_MAX_RETRY_SECONDS: Final = 15.0
_THREADS: Final = 16
_PROBE: Final = 2.0
"""Seconds within which the server must accept a connection to count as ready (H2)."""
_HINT: Final = (
    "Give a URL under which it reaches this process with --webhook-url (and --webhook-bind-address), run in the "
    "cluster, or serve no webhooks with --webhook-bind-address=0"
)


class Webhooks:
    """The webhooks of one replica: `start`, then `close`."""

    def __init__(
        self,
        operator: Operator,
        settings: Settings,
        config: Config,
        system: Client,
        cache: Cache,
        runtime: Runtime,
        tracing: Tracing | None,
        server_type: type[WebhookServer],
    ) -> None:
        self._operator = operator
        self._settings = settings
        self._config = config
        self._system = system
        self._cache = cache
        self._runtime = runtime
        self._tracing = tracing
        self._server_type = server_type
        self._pool: ThreadPoolExecutor | None = None
        self._server: WebhookServer | None = None
        self._certificates: ServingCertificates | None = None
        self._registration: Registration | None = None

    @property
    def wanted(self) -> bool:
        """Whether the settings name an address to serve on."""
        return self._settings.webhook_bind_address not in ("", "0")

    @property
    def reads(self) -> bool:
        """Whether a webhook reads from the cache: then every replica fills its cache."""
        return any(w.reads for w in self._operator.webhooks)

    async def start(self) -> None:
        """Start the server and the registration. Raises `BindError` and `SettingsError`."""
        address = parse_address(self._settings.webhook_bind_address)
        if address is None:
            log.warning("webhooks_not_served", reason="--webhook-bind-address is 0")
            return
        certificates = self._certificates = await certificates_for(
            self._operator, self._settings, self._config, self._system
        )
        client_ca = _client_ca(self._settings.webhook_client_ca)
        server = self._server_type(self._routes(), certificates, refuse=_refusal, client_ca=client_ca)
        try:
            await server.start(address.host, address.port)
        except (OSError, OverflowError) as problem:
            reason = (isinstance(problem, OSError) and problem.strerror) or str(problem)
            raise BindError(
                f"the webhook server cannot listen on {address}: {reason}."
                " Choose another address with --webhook-bind-address, or 0 for none"
            ) from None
        self._server = server
        host, port = server.address
        log.info("webhooks_served", address=f"{host}:{port}", paths=sorted(server.routes))
        if isinstance(certificates, LocalCertificates):
            await self._register(certificates, host, port)

    async def close(self) -> None:
        """Unregister if this run has registered the webhooks, finish running requests, and stop."""
        forgotten = await self._unregister()
        if self._server is not None:
            await self._server.close(min(5.0, self._settings.shutdown_grace), asked=not forgotten)
        if self._certificates is not None:
            await self._certificates.close()
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)

    def unready(self) -> str | None:
        """Return why the server is not reachable, after a real TLS handshake (H2). Called from the probe's thread."""
        if self._server is None:
            return "the webhook server does not listen yet"
        host, port = self._server.address
        return handshake(host if host not in ("0.0.0.0", "::", "") else "localhost", port)  # noqa: S104 - compared

    # Helpers.

    async def _register(self, certificates: LocalCertificates, host: str, port: int) -> None:
        settings = self._settings
        if settings.dry_run:
            log.warning(
                "webhooks_not_registered", reason="a dry run changes nothing, so the API server will not call them"
            )
            return
        url = settings.webhook_url or f"https://{_url_host(host)}:{port}"
        self._registration = registration = Registration(
            self._system,
            self._operator,
            url,
            certificates.ca_bundle,
            namespaces=settings.namespaces,
            namespace_selector=settings.namespace_selector or None,
        )
        try:
            await self._with_retries(registration.add)
            namespace = settings.namespaces[0] if settings.namespaces else "default"
            proved = await self._with_retries(lambda: registration.wait_until_called(namespace))
        except Forbidden as problem:
            await self._unregister()
            raise SettingsError(f"webhooks cannot be registered: {problem}. {_HINT}") from None
        except WebhookUnreachableError as problem:
            await self._unregister()  # Without the server, the API server would refuse these requests.
            raise SettingsError(f"the API server cannot call the webhooks at {url}: {problem}. {_HINT}") from None
        log.info("webhooks_registered", url=url, proved=proved)

    async def _with_retries(self, act: Callable[[], Awaitable[T]]) -> T:
        """Register, with retries while the API server is unreachable or overloaded."""
        wait = 0.5
        while True:
            try:
                return await act()
            except ClientError as problem:
                if isinstance(problem, ApiError) and problem.code < 500 and problem.code != 429:
                    raise
                log.warning("webhook_registration_failed", error=str(problem))
            await asyncio.sleep(wait)
            wait = min(2 * wait, _MAX_RETRY_SECONDS)

    async def _unregister(self) -> bool:
        """Unregister; returns whether no more requests can arrive."""
        registration, self._registration = self._registration, None
        if registration is None:
            return False
        try:
            return await registration.remove()
        except ClientError as problem:
            log.warning("webhook_removal_failed", error=str(problem))
            return False

    def _routes(self) -> dict[str, Route]:
        routes: dict[str, Route] = {PROBE: answer_probe}
        for declared in self._operator.webhooks:
            if declared.rule is not None:
                routes[declared.rule.path] = AdmissionRoute(self._hook(declared), spans=self._span)
        conversions = [(w, w.to) for w in self._operator.webhooks if w.to is not None]
        if conversions:
            from steersman.webhook.conversion_review import Conversion, ConversionRoute

            routes["/convert"] = ConversionRoute(
                [Conversion(w.kind, target, self._call(w), str(w.place)) for w, target in conversions]
            ).handle
        return routes

    def _hook(self, declared: WebhookDeclaration) -> Hook:
        rule = declared.rule
        assert rule is not None
        reads = None
        if declared.reads:
            reader = self._runtime.reader(declared.reads, f"the webhook {rule.path}")
            reads = _Reads(self._cache, reader, declared.reads)
        name, view = rule.path.removeprefix("/"), declared.sees or rule.view
        return Hook(name, rule.purpose, rule.path, view, self._call(declared), str(declared.place), reads)

    def _call(self, declared: WebhookDeclaration) -> Call:
        function, takes = declared.handler.call, declared.takes

        def arguments(obj: Any, admission: Admission) -> list[Any]:
            given = {"object": lambda: obj, "old": lambda: admission.old, "admission": lambda: admission}
            return [given[name]() for name in takes]

        if not declared.handler.is_async:

            async def in_thread(obj: Any, admission: Admission) -> Any:
                if self._pool is None:
                    self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="steersman-webhook")
                if admission is not None:  # pyright: ignore[reportUnnecessaryComparison] - conversions have none
                    admission.for_thread(asyncio.get_running_loop())
                return await run_blocking(self._pool, function, *arguments(obj, admission))

            return in_thread
        if takes == ("object",):
            return lambda obj, _admission: function(obj)
        return lambda obj, admission: function(*arguments(obj, admission))

    def _span(self, hook: Hook, review: Review) -> AbstractContextManager[Any]:
        if self._tracing is None:
            return nullcontext()
        return self._tracing.admission(hook.name, review.operation, review.kind.kind, review.namespace, review.name)


class _Reads:
    """The reads of a webhook from the cache."""

    def __init__(self, cache: Cache, reader: CacheReader, views: Sequence[View[Any]]) -> None:
        self._cache = cache
        self._reader = reader
        self._kinds = {view.info.gvk for view in views}
        self._synced = False

    def get(self, view: View[Any], key: Key) -> Any:
        return self._reader.get(view, key)

    def list(self, view: View[Any], namespace: str, labels: Any, owner: str | None) -> tuple[Any, ...]:
        return self._reader.list(view, namespace, labels, owner)

    async def ready(self) -> None:
        """Wait until the cache has synced; the timeout of the request limits the wait."""
        if not self._synced:
            await self._cache.wait_synced(None, self._informers())
            self._synced = True

    def _informers(self) -> Iterable[Informer]:
        return [i for i in self._cache.informers if i.info.gvk in self._kinds]


def _client_ca(path: str | None) -> bytes | None:
    """Return the certificates of the file; raises `SettingsError` if there are none."""
    if path is None:
        return None
    try:
        data = Path(path).read_bytes()
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(cadata=data.decode("ascii"))
    except (OSError, ValueError) as problem:
        raise SettingsError(f"--webhook-client-ca {path}: it has no certificates: {problem}") from None
    return data


def _refusal(code: int, text: str) -> bytes:
    reasons = {400: "BadRequest", 404: "NotFound", 405: "MethodNotAllowed", 413: "RequestEntityTooLarge"}
    return failure(code, reasons.get(code, "InternalError" if code >= 500 else "BadRequest"), text)


def _url_host(host: str) -> str:
    if host in ("0.0.0.0", "::", ""):  # noqa: S104 - compared, not bound
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host


def handshake(host: str, port: int) -> str | None:
    """Return why a TLS connection fails; `None` if it succeeds. Blocks for a moment."""
    import socket

    # This checks only that a TLS server listens; the API server verifies its certificate.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.sslsocket_class = ClosingSocket
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with socket.create_connection((host, port), _PROBE) as plain, context.wrap_socket(plain) as tls:
            with suppress(OSError):
                tls.unwrap()
            return None
    except OSError as problem:
        return f"the webhook server accepts no TLS connection: {problem}"
