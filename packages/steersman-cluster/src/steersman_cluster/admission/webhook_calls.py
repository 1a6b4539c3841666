"""Calls of webhooks over HTTPS: addresses, trusted certificates, responses and error texts.

A `url` is called with a clean path, and redirects are followed, as Go's HTTP client does. A `service` is looked up in
a table of the cluster's owner, then among the EndpointSlices and Endpoints of the Service; its certificate must be
valid for `<name>.<namespace>.svc`. Error texts are those of the API server's Go client.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import errno
import io
import ipaddress
import json
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast
from urllib.parse import SplitResult, urlsplit, urlunsplit

from steersman_cluster.admission.redirects import Call, RedirectError, cleaned, redirected
from steersman_cluster.json_access import get_object, get_objects, get_strings
from steersman_cluster.objects import Object, labels_of
from steersman_cluster.strategy import Reader

if TYPE_CHECKING:
    import aiohttp

__all__ = ["CallError", "InProcessWebhook", "WebhookCaller"]

_MAX_CACHED_CONTEXTS = 256
_LARGEST_ANSWER = 64 << 20
_HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json, */*",
    "User-Agent": "kube-apiserver-admission",
}


class CallError(Exception):
    """The call of a webhook failed; the text is the part after `failed to call webhook: `."""

    def __init__(self, text: str, *, prepared: bool = True) -> None:
        super().__init__(text)
        self.prepared = prepared
        """False where the call could not even be prepared."""


InProcessWebhook: TypeAlias = Callable[[str, str, Mapping[str, str], bytes], Awaitable[tuple[int, bytes]]]
"""A webhook server in this process: takes path, query, headers and body, and returns the status code and the body."""


@dataclass(frozen=True, slots=True)
class _Server:
    """The addresses and the trusted certificates of the webhooks of one configuration."""

    context: ssl.SSLContext
    name: str | None = None
    """The name in the certificate, where it is not that of the URL."""
    address: str = ""
    """Host and port of the process that serves it, where they are not those of the URL."""


class WebhookCaller:
    """Calls webhooks; keeps connections and TLS contexts. Close it with the API server.

    `services` maps `(namespace, name)` or `(namespace, name, port)` of a Service to `(host, port)`. `in_process` maps
    `(host, port)` to a webhook server in this process, which is called without a connection and without TLS.
    """

    def __init__(
        self, reader: Reader, services: Mapping[tuple[str, str] | tuple[str, str, int], tuple[str, int]] | None = None
    ) -> None:
        self.services: dict[tuple[str, str] | tuple[str, str, int], tuple[str, int]] = dict(services or {})
        self.in_process: dict[tuple[str, int], InProcessWebhook] = {}
        self._reader = reader
        self._contexts: dict[str, ssl.SSLContext] = {}
        self._session: aiohttp.ClientSession | None = None
        self.socket_factory: Callable[[Any], socket.socket] | None = None
        """Makes the sockets of connections, from an entry of `getaddrinfo`; `None` for sockets of this process."""

    async def close(self) -> None:
        """Close all connections; later calls open new ones."""
        if self._session is not None:
            session, self._session = self._session, None
            await session.close()

    async def call(self, config: Object, body: Object, timeout: float) -> Any:
        """POST `body` to the webhook of a `clientConfig` and return the decoded answer; `timeout` in seconds.

        Raises `CallError`, in the API server's words, for anything but a 2xx answer in JSON.
        """
        context = self._context(config.get("caBundle") or "")
        service = get_object(config, "service")
        if service:
            host = f"{service.get('name')}.{service.get('namespace')}.svc"
            shown_port = service.get("port") or 443
            shown = cleaned(f"https://{host}:{shown_port}/{service.get('path') or ''}")
            try:
                address, port = self.resolve(service)
            except CallError as problem:
                raise CallError(f"Post {json.dumps(_call_url(shown, timeout))}: {problem}") from None
            return await self._post(shown, _Server(context, host, f"{_bracketed(address)}:{port}"), body, timeout)
        return await self._post(cleaned(config.get("url") or ""), _Server(context), body, timeout)

    async def _post(self, url: str, server: _Server, body: Object, timeout: float) -> Any:
        """POST, and follow redirects; all of it within the timeout."""
        data = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
        call = Call("POST", _call_url(url, timeout), data)
        host, followed = urlsplit(call.url).netloc, 0
        try:
            async with asyncio.timeout(timeout):
                while True:
                    at = server.address if server.address and urlsplit(call.url).netloc == host else ""
                    status, location, content = await self._exchange(call, server, at)
                    following = redirected(call, status, location, followed)
                    if following is None:
                        return _decoded(status, content)
                    call, followed = following, followed + 1
        except TimeoutError:
            raise CallError(f"Post {json.dumps(call.url)}: context deadline exceeded") from None
        except RedirectError as problem:
            raise CallError(f"Post {json.dumps(problem.url)}: {problem}") from None

    async def _exchange(self, call: Call, server: _Server, at: str) -> tuple[int, str, bytes]:
        """Send one request, to the address `at` where there is one; the status, the Location and the content."""
        split = urlsplit(call.url)
        headers = {**_HEADERS} if call.data is not None else {"User-Agent": _HEADERS["User-Agent"]}
        if server.name is not None:
            headers["Host"] = server.name
        if at:
            split = split._replace(netloc=at)
        if (handler := self.in_process.get((split.hostname or "", split.port or 443))) is not None:
            return await _handled(handler, split, headers, call)
        import aiohttp  # slow to load, and few clusters call a webhook
        from yarl import URL

        url, name = urlunsplit(split), server.name or split.hostname or ""
        try:
            async with self._sessions().request(
                call.method,
                URL(url, encoded=True),
                # As a stream: aiohttp warns that long bytes would block the loop.
                data=io.BytesIO(call.data) if call.data is not None else None,
                headers=headers,
                ssl=server.context,
                server_hostname=name,
                allow_redirects=False,
            ) as answer:
                content = await answer.content.read(_LARGEST_ANSWER)
                return answer.status, answer.headers.get("Location") or "", content
        except TimeoutError:
            raise
        except aiohttp.ClientConnectorCertificateError as error:
            text = await _certificate_text(error.certificate_error, url, name)
            raise CallError(f"Post {json.dumps(call.url)}: {text}") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise CallError(f"Post {json.dumps(call.url)}: {_go_error_text(error, url)}") from None

    def _sessions(self) -> aiohttp.ClientSession:
        import aiohttp

        if self._session is None:
            # No total timeout: each call has its own.
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=30, socket_factory=self.socket_factory),
                timeout=aiohttp.ClientTimeout(total=None),
            )
        return self._session

    def _context(self, bundle: str) -> ssl.SSLContext:
        context = self._contexts.get(bundle)
        if context is None:
            if len(self._contexts) >= _MAX_CACHED_CONTEXTS:
                self._contexts.clear()
            try:
                authorities = base64.b64decode(bundle, validate=True).decode("ascii") if bundle else None
                context = ssl.create_default_context(cadata=authorities or None)
                # Go takes every certificate of the bundle as a trust anchor, and Python's strict checks are not Go's.
                context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
                context.verify_flags &= ~ssl.VERIFY_X509_STRICT
            except (binascii.Error, UnicodeDecodeError, ssl.SSLError):
                text = "could not get REST client: unable to load root certificates: unable to parse bytes as PEM block"
                raise CallError(text, prepared=False) from None
            self._contexts[bundle] = context
        return context

    def resolve(self, service: Object) -> tuple[str, int]:
        """Return host and port of a ready endpoint of a Service. Raises `CallError` where there is none."""
        namespace, name = service.get("namespace") or "", service.get("name") or ""
        port: int = service.get("port") or 443
        for key in ((namespace, name, port), (namespace, name)):
            if (found := self.services.get(key)) is not None:
                return found
        stored = self._reader.get("", "services", namespace, name)
        if stored is None:
            raise CallError(f'service "{name}" not found')
        spec = get_object(stored, "spec")
        if spec.get("type") == "ExternalName":
            return str(spec.get("externalName") or ""), port
        wanted = next((item for item in get_objects(spec, "ports") if item.get("port") == port), None)
        if wanted is None:
            raise CallError(f'no service port {port} found for service "{name}"')
        for slice_ in self._reader.list("discovery.k8s.io", "endpointslices", namespace):
            if labels_of(slice_).get("kubernetes.io/service-name") == name and (
                found := _ready_in_slice(slice_, wanted.get("name") or "")
            ):
                return found
        endpoints = self._reader.get("", "endpoints", namespace, name)
        if endpoints is not None and (found := _ready_in_endpoints(endpoints, wanted.get("name") or "")):
            return found
        raise CallError(f'no endpoints available for service "{name}"')


def _ready_in_slice(slice_: Object, port_name: str) -> tuple[str, int] | None:
    port = next((item["port"] for item in get_objects(slice_, "ports") if (item.get("name") or "") == port_name), None)
    for endpoint in get_objects(slice_, "endpoints"):
        addresses = get_strings(endpoint, "addresses")
        if port and addresses and get_object(endpoint, "conditions").get("ready") is not False:
            return addresses[0], port
    return None


def _ready_in_endpoints(endpoints: Object, port_name: str) -> tuple[str, int] | None:
    for subset in get_objects(endpoints, "subsets"):
        port = next(
            (item["port"] for item in get_objects(subset, "ports") if (item.get("name") or "") == port_name), None
        )
        for address in get_objects(subset, "addresses"):
            if port:
                return str(address.get("ip")), port
    return None


async def _handled(
    handler: InProcessWebhook, split: SplitResult, headers: Mapping[str, str], call: Call
) -> tuple[int, str, bytes]:
    status, content = await handler(split.path, split.query, headers, call.data or b"")
    return status, "", content


def _decoded(status: int, content: bytes) -> Any:
    try:
        decoded: Any = json.loads(content)
    except ValueError:
        decoded = None
    if 200 <= status < 300:
        if not isinstance(decoded, dict):
            raise CallError(_not_json())
        return _known(cast(Object, decoded))
    if isinstance(decoded, dict):
        said = cast(Object, decoded)
        if (said.get("apiVersion"), said.get("kind")) == ("v1", "Status") and said.get("status") != "Success":
            raise CallError(str(said.get("message") or "unknown"))
    raise CallError(_status_text(status, content))


_REVIEWS: Final = {("admission.k8s.io", "AdmissionReview"), ("apiextensions.k8s.io", "ConversionReview")}


def _known(answer: Object) -> Object:
    version, kind = answer.get("apiVersion") or "", answer.get("kind") or ""
    if kind and version and (version.partition("/")[0], kind) not in _REVIEWS:
        scheme = "pkg/runtime/scheme.go:111"
        raise CallError(f'no kind "{kind}" is registered for version "{version}" in scheme "{scheme}"')
    return answer


def _not_json() -> str:
    # The real server reads YAML, where any text is a string.
    wanted = 'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
    return f"couldn't get version/kind; json parse error: json: cannot unmarshal string into Go value of type {wanted}"


_STATUS_TEXTS = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    409: "the server reported a conflict",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, but may still be processing the request",
}


def _status_text(status: int, content: bytes) -> str:
    text = content.decode(errors="replace").strip() or "unknown"
    if status in (403, 406, 415):
        return text
    if status in _STATUS_TEXTS:
        return _STATUS_TEXTS[status]
    if status >= 500:
        return f"an error on the server ({json.dumps(text)}) has prevented the request from succeeding"
    return f"the server responded with the status code {status} but did not return more information"


def _call_url(url: str, timeout: float) -> str:
    return f"{url}{'&' if '?' in url else '?'}timeout={_seconds(timeout)}s"


def _seconds(timeout: float) -> int:
    return max(1, -int(-timeout // 1))


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def _go_error_text(error: Exception, url: str) -> str:
    """An error in the words of Go's HTTP client."""
    import aiohttp

    split = urlsplit(url)
    where = f"{split.hostname}:{split.port or 443}"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"dial tcp: lookup {split.hostname}: no such host"
    if isinstance(error, aiohttp.ClientConnectorSSLError):
        return "tls: first record does not look like a TLS handshake"
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    number = cause.errno if isinstance(cause, OSError) else None
    if number == errno.ECONNREFUSED:
        return f"dial tcp {where}: connect: connection refused"
    if number == errno.ENETUNREACH:
        return f"dial tcp {where}: connect: network is unreachable"
    if number == errno.EHOSTUNREACH:
        return f"dial tcp {where}: connect: no route to host"
    if isinstance(error, aiohttp.ServerDisconnectedError) or number == errno.ECONNRESET:
        return "EOF"
    return str(error) or type(error).__name__


async def _certificate_text(error: Exception, url: str, host: str) -> str:
    prefix = "tls: failed to verify certificate: x509: "
    # The codes of OpenSSL's X509_V_ERR_*: the name does not match, the address does not, and the time is over.
    match getattr(error, "verify_code", 0):
        case 62 | 64:
            return prefix + _name_text(await _shown_names(url, host), host)
        case 9 | 10:
            return f"{prefix}certificate has expired or is not yet valid"
        case _:
            return f"{prefix}certificate signed by unknown authority"


async def _shown_names(url: str, host: str) -> tuple[list[str], list[str]]:
    """The names and addresses of the certificate that a server shows; nothing is sent to it."""
    from cryptography import x509

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    split = urlsplit(url)
    try:
        async with asyncio.timeout(2):
            _, writer = await asyncio.open_connection(
                split.hostname, split.port or 443, ssl=context, server_hostname=host
            )
            try:
                der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
            finally:
                writer.close()
        names = x509.load_der_x509_certificate(der).extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except (OSError, ValueError, x509.ExtensionNotFound):
        return [], []
    addresses = [str(address) for address in names.value.get_values_for_type(x509.IPAddress)]
    return names.value.get_values_for_type(x509.DNSName), addresses


def _name_text(shown: tuple[list[str], list[str]], host: str) -> str:
    names, addresses = shown
    try:
        ipaddress.ip_address(host)
    except ValueError:
        if not names:
            return f"certificate is not valid for any names, but wanted to match {host}"
        return f"certificate is valid for {', '.join(names)}, not {host}"
    if not addresses:
        return f"cannot validate certificate for {host} because it doesn't contain any IP SANs"
    return f"certificate is valid for {', '.join(addresses)}, not {host}"
