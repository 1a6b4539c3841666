"""Aggregated API servers: requests to the group and version of an APIService go to its Service.

The API server authenticates and authorizes a request, then forwards it with the user in headers and a client
certificate of an authority of its own, which the ConfigMap `extension-apiserver-authentication` tells the other server
to trust. Discovery and OpenAPI of this server include those of the others.

Source: the design of the aggregation layer (kube-aggregator).
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import ssl
from collections.abc import Mapping
from contextlib import suppress
from socket import AF_INET, SOCK_STREAM
from typing import Any, Final, cast
from urllib.parse import parse_qsl, quote

from steersman.pki import Authority, as_file
from steersman.telemetry.log import get_logger
from steersman_cluster.admission.webhook_calls import CallError
from steersman_cluster.api.connect.upstream import Upstream, repeat
from steersman_cluster.api.discovery.aggregated_openapi import checked_document, document_place
from steersman_cluster.api.interfaces import Server
from steersman_cluster.api.requests.messages import Params, Request, RequestHeaders, Response
from steersman_cluster.errors import APIError
from steersman_cluster.json_access import get_list, get_object, get_string
from steersman_cluster.kubelet import Connection
from steersman_cluster.objects import Object, name_of
from steersman_cluster.storage import Event
from steersman_cluster.strategy import User

__all__ = ["Aggregation", "discovered"]

_APISERVICES: Final = ("apiregistration.k8s.io", "apiservices")
_CONFIG_MAP: Final = "extension-apiserver-authentication"
_CLIENT_NAME: Final = "front-proxy-client"
_CHECK_SECONDS: Final = 5.0
_UNAVAILABLE_SECONDS: Final = 1.0
"""The time between checks of a server that is available, and of one that is not."""
_OPENAPI_SECONDS: Final = 60.0
_MAX_DOCUMENT_BYTES: Final = 4 * 1024 * 1024
_SELF: Final = User("system:kube-aggregator", groups=("system:masters",))
_log = get_logger("apiserver")


class Aggregation:
    """The aggregated APIs of one API server."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._authority: Authority | None = None
        self._services: dict[tuple[str, str], str] = {}
        """The names of APIServices with a Service by group and version."""
        self._checks: dict[str, asyncio.Task[None]] = {}
        self._resources: dict[tuple[str, str], list[Object]] = {}
        """The resources in the discovery documents of the available servers."""
        self._documents: dict[tuple[str, str], bytes] = {}
        """The OpenAPI documents of the available servers."""
        self._contexts: dict[str, ssl.SSLContext] = {}
        self.serial = 0
        """Changes with the aggregated resources and documents."""

    def publish(self, clients: Authority, front_proxy: Authority) -> None:
        """Tell servers which certificates to trust, and serve the stored APIServices from now on.

        Args:
            clients: The authority of the certificates of clients.
            front_proxy: The authority of the certificate with which this server names users to other servers.
        """
        self._authority = front_proxy
        data = {
            "client-ca-file": clients.cert_pem.decode(),
            "requestheader-client-ca-file": front_proxy.cert_pem.decode(),
            "requestheader-allowed-names": json.dumps([_CLIENT_NAME]),
            "requestheader-username-headers": '["X-Remote-User"]',
            "requestheader-uid-headers": '["X-Remote-Uid"]',
            "requestheader-group-headers": '["X-Remote-Group"]',
            "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
        }
        server = self._server
        place = ("", "configmaps")
        stored = server.storage.get(place, "kube-system", _CONFIG_MAP)
        found: Object | None = stored.object() if stored is not None else None
        if found is None:
            made = {"uid": server.new_uid(), "creationTimestamp": server.context(_SELF).now}
            found = {"metadata": {"name": _CONFIG_MAP, "namespace": "kube-system", **made}}
        if found.get("data") != data:
            server.storage.put(
                place, "kube-system", _CONFIG_MAP, {"apiVersion": "v1", "kind": "ConfigMap", **found, "data": data}
            )
        for service in server.reader.list(*_APISERVICES, ""):
            self._update_service(service)

    async def close(self) -> None:
        """Stop the checks of availability."""
        checks = list(self._checks.values())
        for check in checks:
            check.cancel()
        if checks:
            await asyncio.wait(checks)

    def changed(self, event: Event) -> None:
        """Handle a stored change of an object."""
        if event.resource != _APISERVICES or self._authority is None:
            return
        if event.type == "DELETED":
            self._forget(event.item.name)
        else:
            self._update_service(event.item.object())

    def _update_service(self, service: Object) -> None:
        name, spec = name_of(service), get_object(service, "spec")
        if spec.get("service") is None:
            self._forget(name)
            return
        self._services[get_string(spec, "group"), get_string(spec, "version")] = name
        if name not in self._checks:
            check = asyncio.get_running_loop().create_task(self._check(name), name=f"availability of {name}")
            self._checks[name] = check

    def _forget(self, name: str) -> None:
        for key in [key for key, known in self._services.items() if known == name]:
            del self._services[key]
            self._list(key, [])
            self._describe(key, None)
        if (check := self._checks.pop(name, None)) is not None:
            check.cancel()

    # Discovery.

    def groups(self) -> list[str]:
        """Return the groups that available servers serve."""
        return sorted({group for group, _ in self._resources})

    def versions(self, group: str) -> list[str]:
        """Return the versions of a group that available servers serve."""
        return [version for known, version in self._resources if known == group]

    def resources(self, group: str, version: str) -> list[Object]:
        """Return the entries of a version in the discovery of its server, an `APIResourceList`."""
        return self._resources.get((group, version), [])

    def documents(self) -> dict[tuple[str, str], bytes]:
        """Return the OpenAPI documents of version 3 of available servers by group and version."""
        return self._documents

    def _describe(self, key: tuple[str, str], document: bytes | None) -> None:
        if self._documents.get(key) != document:
            self.serial += 1
            self._documents.pop(key, None)
            if document is not None:
                self._documents[key] = document

    def _list(self, key: tuple[str, str], resources: list[Object]) -> None:
        if self._resources.get(key, []) != resources:
            self.serial += 1
            self._resources.pop(key, None)
            if resources:
                self._resources[key] = resources

    # Availability.

    async def _check(self, name: str) -> None:
        """Check a server until its APIService is deleted, and write the condition."""
        describe_at = 0.0
        while (service := self._stored(name)) is not None:
            spec = get_object(service, "spec")
            key = get_string(spec, "group"), get_string(spec, "version")
            path = f"/apis/{key[0]}/{key[1]}"
            try:
                resources = await self._discover(service, path)
            except (APIError, OSError, ValueError) as problem:
                self._set_available(
                    name, available=False, message=f"failing or missing response from {path}: {problem}"
                )
                self._list(key, [])
                self._describe(key, None)
                describe_at = 0.0
                await asyncio.sleep(_UNAVAILABLE_SECONDS)
            else:
                self._list(key, resources)
                self._set_available(name, available=True, message="all checks passed")
                if (now := asyncio.get_running_loop().time()) >= describe_at:
                    describe_at = now + _OPENAPI_SECONDS
                    self._describe(key, await self._document(service, key))
                await asyncio.sleep(_CHECK_SECONDS)

    async def _discover(self, service: Object, path: str) -> list[Object]:
        """Return the entries of the server's `APIResourceList`. Raises `ValueError` for another answer."""
        document: Any = json.loads(await self._fetch(service, path))
        if not isinstance(document, dict):
            raise ValueError("the document is not an object")
        return [one for one in get_list(cast(Object, document), "resources") if isinstance(one, dict)]

    async def _document(self, service: Object, key: tuple[str, str]) -> bytes | None:
        """Return the OpenAPI document of a group and version; `None` if the server has no valid one."""
        try:
            place = document_place(await self._fetch(service, "/openapi/v3"), *key)
            return checked_document(await self._fetch(service, *place)) if place is not None else None
        except (APIError, OSError, ValueError) as problem:
            _log.debug("aggregated_openapi_unavailable", group=key[0], version=key[1], problem=str(problem))
            return None

    async def _fetch(self, service: Object, path: str, query: str = "") -> bytes:
        """Return a document of a server. Raises `ValueError` for another answer, and the errors of `_forward`."""
        request = Request("GET", path, Params(parse_qsl(query)), _NoHeaders(), query=query)
        response = await self._forward(request, _SELF, service)
        body = bytearray(response.body)
        if response.stream is not None:
            async for chunk in response.stream:
                body += chunk
                if len(body) > _MAX_DOCUMENT_BYTES:
                    raise ValueError("the document is too long")
        if response.status != 200:
            raise ValueError(f"bad status: {response.status}")
        return bytes(body)

    def _stored(self, name: str) -> Object | None:
        return self._server.reader.get(*_APISERVICES, "", name)

    def _set_available(self, name: str, *, available: bool, message: str) -> None:
        service = self._stored(name)
        if service is None:
            return
        status = "True" if available else "False"
        conditions: list[Object] = list(get_list(get_object(service, "status"), "conditions"))
        old = next((c for c in conditions if c.get("type") == "Available"), None)
        if old is not None and (old.get("status"), old.get("message")) == (status, message):
            return
        now = self._server.context(_SELF).now
        since = old.get("lastTransitionTime") if old is not None and old.get("status") == status else now
        reason = "Passed" if available else "FailedDiscoveryCheck"
        new = {"type": "Available", "status": status, "lastTransitionTime": since, "reason": reason, "message": message}
        others = [c for c in conditions if c.get("type") != "Available"]
        service["status"] = {**get_object(service, "status"), "conditions": [new, *others]}
        self._server.storage.put(_APISERVICES, "", name, service)

    # Requests.

    async def serve(self, request: Request, user: User) -> Response | None:
        """Return the response of an aggregated server; `None` for a path that this server serves itself.

        Raises:
            APIError: The server is not available.
        """
        if not self._services or not request.path.startswith("/apis/"):
            return None
        _, _, group, version, *_ = (*request.path.split("/"), "", "")
        name = self._services.get((group, version))
        service = self._stored(name) if name is not None else None
        if service is None:
            return None
        try:
            return await self._forward(request, user, service)
        except (OSError, ValueError) as problem:
            _log.debug("aggregated_request_failed", apiservice=name, problem=str(problem))
            raise APIError(503, "ServiceUnavailable", f"error trying to reach service: {problem}") from None

    async def _forward(self, request: Request, user: User, service: Object) -> Response:
        spec = get_object(service, "spec")
        target = get_object(spec, "service")
        name = f"{get_string(target, 'name')}.{get_string(target, 'namespace')}.svc"
        try:
            host, port = self._server.admission.caller.resolve(target)
        except CallError as problem:
            raise ConnectionError(str(problem)) from None
        upstream = Upstream(name, self._context(spec), _identity(user))
        return await repeat(request, request.path, name, lambda: self._connect(host, port), upstream=upstream)

    async def _connect(self, host: str, port: int) -> Connection:
        factory = self._server.admission.caller.socket_factory
        if factory is None:
            return await asyncio.open_connection(host, port)
        made = factory((AF_INET, SOCK_STREAM, 0, "", (host, port)))
        try:
            await asyncio.get_running_loop().sock_connect(made, (host, port))
            return await asyncio.open_connection(sock=made)
        except BaseException:
            made.close()
            raise

    def _context(self, spec: Object) -> ssl.SSLContext:
        """Return the TLS context for a server. Raises `ValueError` for an invalid bundle."""
        insecure, bundle = spec.get("insecureSkipTLSVerify") is True, get_string(spec, "caBundle")
        key = "insecure" if insecure else bundle
        context = self._contexts.get(key)
        if context is None:
            try:
                authorities = base64.b64decode(bundle, validate=True).decode("ascii") if bundle else None
                context = ssl.create_default_context(cadata=authorities or None)
            except (binascii.Error, UnicodeDecodeError, ssl.SSLError):
                raise ValueError("spec.caBundle holds no certificates") from None
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
            context.verify_flags &= ~ssl.VERIFY_X509_STRICT
            if insecure:
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
            assert self._authority is not None
            pair = self._authority.client(_CLIENT_NAME)
            with as_file(pair.cert_pem + pair.key_pem) as path:
                context.load_cert_chain(path)
            self._contexts = {**self._contexts, key: context} if len(self._contexts) < 64 else {key: context}
        return context


def _identity(user: User) -> tuple[tuple[str, str], ...]:
    """Return the headers that identify the user to the other server."""
    pairs = [("X-Remote-User", user.name)]
    pairs += [("X-Remote-Uid", user.uid)] if user.uid else []
    pairs += [("X-Remote-Group", group) for group in user.groups]
    extra: Mapping[str, tuple[str, ...]] = user.extra
    pairs += [(f"X-Remote-Extra-{quote(key, safe='')}", value) for key, values in extra.items() for value in values]
    with suppress(UnicodeEncodeError):
        return tuple((name, value.encode("ascii").decode()) for name, value in pairs)
    return tuple((name, quote(value, safe=" :/@")) for name, value in pairs)


class _NoHeaders(RequestHeaders):
    """The headers of a request of this server itself."""

    def get(self, name: str, /) -> str | None:
        """Return what this server accepts."""
        return "application/json" if name.lower() == "accept" else None

    def items(self) -> list[tuple[str, str]]:
        """Return all names and values."""
        return [("Accept", "application/json")]


def discovered(resources: list[Object]) -> list[Object]:
    """Return the resources of an `APIResourceList` as an `APIGroupDiscoveryList` has them."""
    found: dict[str, Object] = {}
    for one in sorted(resources, key=lambda r: get_string(r, "name").count("/")):
        plural, _, subresource = get_string(one, "name").partition("/")
        kind = {
            "group": get_string(one, "group"),
            "version": get_string(one, "version"),
            "kind": get_string(one, "kind"),
        }
        if not subresource:
            entry: Object = {
                "resource": plural,
                "responseKind": kind,
                "scope": "Namespaced" if one.get("namespaced") else "Cluster",
                "singularResource": get_string(one, "singularName"),
                "verbs": get_list(one, "verbs"),
            }
            for field in ("shortNames", "categories"):
                if one.get(field):
                    entry[field] = get_list(one, field)
            found[plural] = entry
        elif plural in found:
            entry = {"subresource": subresource, "responseKind": kind, "verbs": get_list(one, "verbs")}
            found[plural].setdefault("subresources", []).append(entry)
    return list(found.values())
