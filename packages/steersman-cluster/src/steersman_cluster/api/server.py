"""The API server: authentication, authorization, routing and handlers of one request; refusals are Statuses.

The server is independent of sockets. It owns storage, registry, identities and admission; two servers in one process
share nothing.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final, cast

import msgspec

from steersman.pki import Authority
from steersman.telemetry.log import get_logger
from steersman_cluster import schema
from steersman_cluster.admission import Admission
from steersman_cluster.api.aggregation import Aggregation
from steersman_cluster.api.builtins import Builtins
from steersman_cluster.api.custom.conversions import Conversions
from steersman_cluster.api.custom.definitions import Definitions
from steersman_cluster.api.deletes import Deleter
from steersman_cluster.api.discovery.documents import Documents
from steersman_cluster.api.event_expiry import EventExpiry
from steersman_cluster.api.extensions import PREFIX, Extension, extended
from steersman_cluster.api.interfaces import OpenWatch, Registry, ResourceType
from steersman_cluster.api.kubernetes_service import KubernetesService
from steersman_cluster.api.pod_metrics import PodMetrics
from steersman_cluster.api.reads import Reads, StorageReader, present
from steersman_cluster.api.requests.messages import JSON, Request, Response, failure
from steersman_cluster.api.requests.negotiation import Form, form_of
from steersman_cluster.api.requests.request_info import RequestInfo, resolve
from steersman_cluster.api.served_versions import ServedVersions
from steersman_cluster.api.verbs import Verbs
from steersman_cluster.api.writes import Writer
from steersman_cluster.auth import Attributes, Auth
from steersman_cluster.auth.audit import Entry, Log
from steersman_cluster.auth.jwt import SigningKey
from steersman_cluster.errors import APIError, bad_request, internal
from steersman_cluster.kubelet import KubeletDirectory
from steersman_cluster.objects import Object, dig, from_json, meta, name_of
from steersman_cluster.storage import Event, Storage
from steersman_cluster.strategy import User, WriteContext

__all__ = ["APIServer"]

_INTERACTIVE_AGENTS: Final = ("curl", "Wget", "Mozilla/5.0")
_SAFE: Final = "bcdfghjklmnpqrstvwxz2456789"
_log = get_logger("apiserver")


class APIServer:
    """A Kubernetes API server. Belongs to the thread of one event loop.

    `now` is the wall clock in seconds since the epoch, `rng` what names and uids are drawn from.
    """

    def __init__(
        self,
        storage: Storage | None = None,
        *,
        authority: Authority | None = None,
        key: SigningKey | None = None,
        tokens: dict[str, User] | None = None,
        now: Callable[[], float] = time.time,
        rng: random.Random | None = None,
        aggregated: bool = True,
        service_accounts: bool | None = None,
        taint_nodes: bool | None = None,
        audit: Log | None = None,
    ) -> None:
        self.storage = storage or Storage(now=now)
        self.registry = Registry()
        self.reader = StorageReader(self.storage)
        self.now = now
        self._second, self._shown = -1, ""  # the present second, as it was last written
        self.random = rng or random.Random()  # noqa: S311 - names, not secrets
        self.kubelets = KubeletDirectory()
        self.auth = Auth(self.reader, authority=authority, key=key, static=tokens, now=now)
        self.admission = Admission(
            self.reader,
            authorizer=self.auth.authorizer,
            equivalents=ServedVersions(self),
            taint_nodes=not aggregated if taint_nodes is None else taint_nodes,
            service_accounts=aggregated if service_accounts is None else service_accounts,
        )
        self.audit = audit
        self.watches: set[OpenWatch] = set()
        self.address = "https://127.0.0.1:6443"
        """The URL of the server, which its documents contain."""
        self.key_set_address = ""
        """The URL at which verifiers of tokens fetch the keys; empty for `address`."""
        self.builtins = Builtins(self)
        self.kubernetes = KubernetesService(self)
        self.builtins.register()
        self.definitions = Definitions(self)
        self.aggregation = Aggregation(self)
        self.documents = Documents(self)
        self.extensions: dict[str, Extension] = {}
        """By the part of the path that follows `/steersman.dev/`."""
        self.conversions = Conversions(self)
        self.verbs = Verbs(self)
        self.reads = Reads(self)
        self.metrics = PodMetrics(self)
        self.writer = Writer(self)
        self.deleter = Deleter(self)
        self.event_expiry = EventExpiry(self.storage, now)
        self.storage.on_change(self._changed)
        self.builtins.bootstrap(aggregated=aggregated)
        self.definitions.restore()

    async def close(self) -> None:
        """End all watches and the connections to webhooks."""
        for watch in tuple(self.watches):
            watch.end()
        await self.aggregation.close()
        await self.admission.close()

    # Requests.

    async def handle(self, request: Request) -> Response:
        """Answer a request; never raises, but for cancellation."""
        self.event_expiry.expire()
        info = resolve(request.method, request.path, request.params)
        warnings: list[str] = []
        try:
            response = _warned(await self._serve(request, info, warnings), warnings)
        except APIError as problem:
            response = _warned(self._refusal(request, problem), warnings)
        except RecursionError:  # an object that is nested deeper than Python recurses
            return failure(bad_request("exceeded max depth"))
        except Exception as problem:  # noqa: BLE001 - a bug of ours must not end the connection without a Status
            _log.exception("request_failed", method=request.method, path=request.path)
            return failure(internal(f"{type(problem).__name__}: see the log of the embedded cluster"))
        if response.content_type == JSON and response.body and _is_interactive(request):
            response.body = msgspec.json.format(response.body, indent=2) + b"\n"
        return response

    def _refusal(self, request: Request, problem: APIError) -> Response:
        """The Status of a refusal, in the media type that was asked for."""
        accept = request.headers.get("Accept") or ""
        form = form_of(accept) if "yaml" in accept or "protobuf" in accept else None
        if form is None or isinstance(form, APIError) or form.media == JSON:
            return failure(problem)
        response = present(problem.status, Form(form.media), problem.code)
        response.headers = problem.headers
        return response

    async def _serve(self, request: Request, info: RequestInfo, warnings: list[str]) -> Response:
        if info.resource:
            attributes = Attributes(
                info.verb, info.group, info.version, info.resource, info.subresource, info.namespace, info.name
            )
        else:
            attributes = Attributes(info.verb, path=request.path)
        requester, user = self.auth.identify(request.headers, attributes, request.peer)
        entry = self._recorded(request, attributes, requester, user) if self.audit is not None else None
        try:
            if entry is not None:
                entry.authorized(self.auth.authorizer.authorize(user, attributes))
            self.auth.authorize(user, attributes)
            aggregated = await self.aggregation.serve(request, user)
            if aggregated is not None:
                response = aggregated
            elif info.resource:
                response = await self.verbs.serve(request, info, user, warnings)
            elif request.path.startswith(PREFIX):
                response = await extended(self.extensions, request)
            else:
                response = await self.documents.serve(request)
        except APIError as problem:
            if entry is not None:
                entry.complete(problem.code, problem.status)
            raise
        if entry is not None:
            _record(entry, response)
        return response

    def _recorded(self, request: Request, attributes: Attributes, requester: User, user: User) -> Entry | None:
        assert self.audit is not None
        entry = self.audit.begin(
            requester,
            attributes,
            uri=f"{request.path}?{request.query}" if request.query else request.path,
            acting_as=user,
            source=(request.source,) if request.source else (),
            user_agent=request.headers.get("User-Agent") or "",
        )
        if entry is not None and entry.wants_request and request.body:
            with suppress(ValueError):
                entry.request(from_json(request.body))
        return entry

    # The interface for the parts of the server.

    def context(self, user: User, *, subresource: str = "", dry_run: bool = False) -> WriteContext:
        """The circumstances of a write that happens now."""
        second = int(self.now())
        if second != self._second:
            self._second, self._shown = second, datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return WriteContext(user, self._shown, self.reader, self.random_text, subresource, dry_run)

    def random_text(self, size: int) -> str:
        """Characters for generated names."""
        return "".join(self.random.choices(_SAFE, k=size))

    def new_uid(self) -> str:
        """A uid that was never given before (RFC 9562, version 4)."""
        return str(uuid.UUID(int=self.random.getrandbits(128), version=4))

    def normalise(self, resource: ResourceType, obj: Object) -> None:
        """Decode and default an object of a webhook, in place. Raises `ValueError` for an invalid one."""
        if resource.definition is None:
            found = schema.decode(obj, resource.type)
            if found.mismatch:
                raise ValueError(found.mismatch)
        resource.strategy.default(obj)

    def finished(self, resource: ResourceType, obj: Object, old: Object) -> bool:
        """Return whether an object that was being deleted before this write has nothing left that holds it."""
        before = meta(old)
        if before.get("deletionTimestamp") is None or meta(obj).get("finalizers"):
            return False
        return not before.get("deletionGracePeriodSeconds") and not self.holds(resource, obj)

    def holds(self, resource: ResourceType, obj: Object) -> bool:
        """Return whether a kind's own finalizers hold an object (Namespaces have theirs in the spec)."""
        return resource.group == "" and resource.plural == "namespaces" and bool(dig(obj, "spec", "finalizers"))

    def ending(self, resource: ResourceType, obj: Object, context: WriteContext) -> None:
        """A kind's own marks on an object that begins to be deleted."""
        if resource.plural == "namespaces" and resource.group == "":
            obj.setdefault("status", {})["phase"] = "Terminating"
        elif resource.plural == "customresourcedefinitions" and resource.group == "apiextensions.k8s.io":
            self.definitions.ending(obj, context.now)

    def _changed(self, event: Event) -> None:
        group, plural = event.resource
        item = event.item
        self.event_expiry.written(event)
        self.aggregation.changed(event)
        self.auth.changed(group, plural, item.namespace, item.name)
        self.admission.changed(group, plural, item.namespace, item.name)
        if group == "apiextensions.k8s.io":
            self.definitions.changed(event)
        elif event.type == "DELETED":
            if "." in group:
                self.definitions.gone(event)
            if self.kubernetes.restores(event.resource, item.namespace, item.name):
                # After this call, because watches must receive the deletion first.
                asyncio.get_running_loop().call_soon(self.kubernetes.store)


def _record(entry: Entry, response: Response) -> None:
    """Complete the audit entry of a request; bodies are decoded only if they are recorded or contain the name."""
    if response.stream is not None or response.serve is not None:
        entry.started(response.status)
        entry.complete(response.status)
        return
    body: Any = None
    if response.content_type == JSON and (entry.wants_response or response.status == 201):
        with suppress(ValueError):
            body = json.loads(response.body)
        if isinstance(body, dict) and response.status == 201:
            entry.named(name_of(cast(Object, body)))
    entry.complete(response.status, cast(Object, body) if isinstance(body, dict) else None)


def _is_interactive(request: Request) -> bool:
    """Return whether people will look at the answer: they asked for it, or use a browser or the like."""
    if request.params and (asked := request.params.get("pretty")):
        return asked in ("1", "t", "T", "TRUE", "true", "True")
    return (request.headers.get("User-Agent") or "").startswith(_INTERACTIVE_AGENTS)


def _warned(response: Response, warnings: list[str]) -> Response:
    if warnings:
        texts = dict.fromkeys(warnings)
        response.headers = (*response.headers, *(("Warning", f"299 - {_quoted(text)}") for text in texts))
    return response


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else " " for c in escaped) + '"'
