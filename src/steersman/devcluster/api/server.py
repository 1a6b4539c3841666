"""The core: one request in, one answer out. Identity, permission, target, handler; every refusal a Status.

It knows nothing of sockets. Everything of one server lives here: storage, registry, identities, admission; two servers
in one process share nothing.
"""

from __future__ import annotations

import json
import random
import time
import uuid
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final, cast

from steersman.devcluster import schema
from steersman.devcluster.admission import Admission
from steersman.devcluster.api import bodies
from steersman.devcluster.api.builtins import Builtins
from steersman.devcluster.api.call import Call
from steersman.devcluster.api.definitions import Definitions
from steersman.devcluster.api.deletes import RETURNED, Deleter
from steersman.devcluster.api.documents import Documents
from steersman.devcluster.api.info import RequestInfo, resolve
from steersman.devcluster.api.messages import JSON, Request, Response, failure
from steersman.devcluster.api.negotiate import Form, form_of
from steersman.devcluster.api.options import delete_options, list_options, write_options
from steersman.devcluster.api.patching import transform_of
from steersman.devcluster.api.reads import Reads, StorageReader, present
from steersman.devcluster.api.resources import Registry, ResourceType, Subresource
from steersman.devcluster.api.scale import serve_scale
from steersman.devcluster.api.writes import Change, Outcome, Writer
from steersman.devcluster.auth import Attributes, Auth
from steersman.devcluster.auth.audit import Entry, Log
from steersman.devcluster.auth.certificates import Authority
from steersman.devcluster.auth.jwt import SigningKey
from steersman.devcluster.errors import APIError, bad_request, internal, method_not_supported
from steersman.devcluster.kubelet import KubeletDirectory
from steersman.devcluster.objects import Object, dig, meta, name_of
from steersman.devcluster.storage import Event, Storage
from steersman.devcluster.strategy import User, WriteContext
from steersman.telemetry.log import get_logger

__all__ = ["APIServer"]

_SAFE: Final = "bcdfghjklmnpqrstvwxz2456789"
_NOT_FOUND: Final = b"404 page not found\n"
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
        service_accounts: bool = True,
        taint_nodes: bool = False,
        audit: Log | None = None,
    ) -> None:
        self.storage = storage or Storage()
        self.registry = Registry()
        self.reader = StorageReader(self.storage)
        self.now = now
        self.random = rng or random.Random()  # noqa: S311 - names, not secrets
        self.kubelets = KubeletDirectory()
        self.auth = Auth(self.reader, authority=authority, key=key, static=tokens, now=now)
        self.admission = Admission(
            self.reader,
            authorizer=self.auth.authorizer,
            taint_nodes=taint_nodes,
            service_accounts=service_accounts,
        )
        self.audit = audit
        self.watches: set[Any] = set()
        self.address = "https://127.0.0.1:6443"
        """Where the server listens; what its documents say."""
        self.builtins = Builtins(self)
        self.builtins.register()
        self.definitions = Definitions(self)
        self.documents = Documents(self)
        self.reads = Reads(self)
        self.writer = Writer(self)
        self.deleter = Deleter(self)
        self.storage.on_change(self._changed)
        self.builtins.bootstrap(aggregated=aggregated)
        self.definitions.restore()

    async def close(self) -> None:
        """End all watches and the connections to webhooks."""
        for watch in tuple(self.watches):
            watch.end()
        await self.admission.close()

    # The door.

    async def handle(self, request: Request) -> Response:
        """Answer a request; never raises, but for cancellation."""
        info = resolve(request.method, request.path, request.params)
        warnings: list[str] = []
        try:
            return _warned(await self._serve(request, info, warnings), warnings)
        except APIError as problem:
            status = failure(problem)
            if (token := getattr(problem, "continue_", None)) is not None:
                body = problem.status
                body["metadata"] = {"continue": token}
                status = present(body, Form(), problem.code)
            return _warned(status, warnings)
        except Exception as problem:  # noqa: BLE001 - a bug of ours must not end the connection without a Status
            _log.exception("a request failed unexpectedly", method=request.method, path=request.path)
            return failure(internal(f"{type(problem).__name__}: see the log of the embedded cluster"))

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
            self.auth.authorize(user, attributes)
            response = await (
                self._resource(request, info, user, warnings) if info.resource else self.documents.serve(request)
            )
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
                entry.request(json.loads(request.body))
        return entry

    async def _resource(self, request: Request, info: RequestInfo, user: User, warnings: list[str]) -> Response:
        resource = self.registry.find(info.group, info.version, info.resource)
        if resource is None:
            return Response(404, _NOT_FOUND, "text/plain; charset=utf-8")
        deprecation = getattr(resource.strategy, "deprecation", "")
        if deprecation:
            warnings.append(deprecation)
        namespace = info.namespace if resource.namespaced else ""
        if (
            resource.namespaced
            and not namespace
            and (info.name and info.verb not in ("list", "watch", "deletecollection"))
        ):
            return Response(404, _NOT_FOUND, "text/plain; charset=utf-8")
        if info.subresource:
            door = resource.subresources.get(info.subresource)
            if door is None:
                return Response(404, _NOT_FOUND, "text/plain; charset=utf-8")
            return await self._door(request, info, resource, door, namespace, user, warnings)
        if info.verb not in resource.verbs:
            raise method_not_supported(resource.group, resource.plural, info.verb)
        form = self._form(request, resource, watch=info.verb == "watch")
        include = request.params.get("includeObject") if form.shape == "Table" else ""
        match info.verb:
            case "get":
                return self.reads.get(resource, namespace, info.name, form, include)
            case "list":
                return self.reads.list(resource, namespace, list_options(request.params), form, include)
            case "watch":
                options = list_options(request.params, watch=True)
                return self.reads.watch(resource, namespace, options, form, include)
            case "create":
                return await self._create(request, info, resource, namespace, user, warnings, form)
            case "update" | "patch":
                outcome = await self._update(request, info, resource, namespace, user, warnings)
                return self._answer(resource, outcome, form)
            case "delete":
                return await self._delete(request, info, resource, namespace, user, form)
            case "deletecollection":
                return await self._delete_all(request, info, resource, namespace, user, form)
            case _:
                raise method_not_supported(resource.group, resource.plural, info.verb)

    # Verbs.

    async def _create(
        self,
        request: Request,
        info: RequestInfo,
        resource: ResourceType,
        namespace: str,
        user: User,
        warnings: list[str],
        form: Form,
    ) -> Response:
        options = write_options(request.params, _agent(request), "CreateOptions")
        value, duplicates = bodies.parse(request.body, bodies.media_type(request.headers.get("Content-Type")))
        obj = bodies.decode_object(value, resource, options.validation, duplicates, warnings)
        if resource.namespaced and not namespace:
            namespace = str(meta(obj).get("namespace") or "")
            if not namespace:
                raise bad_request("an empty namespace may not be set during creation")
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        context = self.context(user, dry_run=options.dry_run)
        if resource.handler is not None:
            call = self._call(request, info, resource, namespace, user, obj, context, warnings)
            made = await resource.handler(call)
            return made if isinstance(made, Response) else present(made, form, 201)
        change = Change(resource, namespace, "", user, options, context, warnings=warnings)
        return self._answer(resource, await self.writer.create(change, obj), form)

    async def _update(
        self,
        request: Request,
        info: RequestInfo,
        resource: ResourceType,
        namespace: str,
        user: User,
        warnings: list[str],
    ) -> Outcome:
        patching = info.verb == "patch"
        media = bodies.media_type(request.headers.get("Content-Type"))
        apply = patching and media in ("application/apply-patch+yaml", "application/apply-patch+cbor")
        kind = "PatchOptions" if patching else "UpdateOptions"
        options = write_options(request.params, _agent(request), kind, apply=apply)
        context = self.context(user, subresource=info.subresource, dry_run=options.dry_run)
        change = Change(
            resource, namespace, info.name, user, options, context, info.subresource, warnings, apply=apply, kind=kind
        )
        if patching:
            transform = transform_of(self, change, request.body, media)
            return await self.writer.update(change, transform)
        value, duplicates = bodies.parse(request.body, media)
        obj = bodies.decode_object(value, resource, options.validation, duplicates, warnings)
        first = [obj]

        def replaced(_present: Object | None) -> Object:
            # The first attempt may have it, further ones need it as it was sent.
            return first.pop() if first else bodies.decode_object(value, resource, "Ignore", [], [])

        return await self.writer.update(change, replaced, replace=True)

    async def _delete(
        self,
        request: Request,
        info: RequestInfo,
        resource: ResourceType,
        namespace: str,
        user: User,
        form: Form,
    ) -> Response:
        sent = self._delete_body(request)
        options = delete_options(request.params, sent)
        context = self.context(user, dry_run=options.dry_run)
        left = await self.deleter.delete(resource, namespace, info.name, options, user, context, sent)
        if not left.gone or (resource.group, resource.plural) in RETURNED:
            return self.reads.shaped(resource, left.obj, form)
        status: Object = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "details": _details(resource, left.obj),
        }
        return present(status, form if not form.shape else Form(form.media))

    async def _delete_all(
        self,
        request: Request,
        info: RequestInfo,
        resource: ResourceType,
        namespace: str,
        user: User,
        form: Form,
    ) -> Response:
        sent = self._delete_body(request)
        options = delete_options(request.params, sent)
        selection = list_options(request.params)
        self.reads.check_fields(resource, selection)
        context = self.context(user, dry_run=options.dry_run)
        deleted: list[Object] = []
        for item in self.reads.items(resource, namespace, selection):
            try:
                left = await self.deleter.delete(resource, item.namespace, item.name, options, user, context, sent)
            except APIError as problem:
                if problem.reason == "NotFound":
                    continue
                raise
            deleted.append(left.obj)
        if resource.definition is None:
            for obj in deleted:
                obj.pop("kind", None)
                obj.pop("apiVersion", None)
        body: Object = {
            "kind": resource.list_kind,
            "apiVersion": resource.api_version,
            "metadata": {"resourceVersion": str(self.storage.revision)},
            "items": deleted,
        }
        return present(body, form if not form.shape else Form(form.media))

    def _delete_body(self, request: Request) -> Object:
        if not request.body.strip():
            return {}
        value, _ = bodies.parse(request.body, bodies.media_type(request.headers.get("Content-Type")))
        if not isinstance(value, dict):
            raise bad_request("the body of a delete must be DeleteOptions")
        found = cast(Object, value)
        kind = found.get("kind")
        if kind not in (None, "", "DeleteOptions"):
            raise bad_request(f"cannot delete with a body of kind {kind}: expected DeleteOptions")
        return {key: item for key, item in found.items() if key not in ("kind", "apiVersion")}

    # Sub-resources.

    async def _door(
        self,
        request: Request,
        info: RequestInfo,
        resource: ResourceType,
        door: Subresource,
        namespace: str,
        user: User,
        warnings: list[str],
    ) -> Response:
        if info.verb not in door.verbs:
            raise method_not_supported(resource.group, f"{resource.plural}/{info.subresource}", info.verb)
        form = self._form(request, resource)
        if door.handler is None and info.subresource != "scale":
            if info.verb == "get":
                return self.reads.get(resource, namespace, info.name, form, "")
            outcome = await self._update(request, info, resource, namespace, user, warnings)
            return self._answer(resource, outcome, form)
        context = self.context(user, subresource=info.subresource, dry_run="dryRun" in request.params)
        body: Object | None = None
        if request.body.strip() and info.verb == "create":
            value, _ = bodies.parse(request.body, bodies.media_type(request.headers.get("Content-Type")))
            if not isinstance(value, dict):
                raise bad_request("the body of the request is no object")
            body = cast(Object, value)
        call = self._call(request, info, resource, namespace, user, body, context, warnings)
        made = await (serve_scale(call) if door.handler is None else door.handler(call))
        if isinstance(made, Response):
            return made
        return present(made, Form(form.media), 201 if info.verb == "create" else 200)

    def _call(
        self,
        request: Request,
        info: RequestInfo,
        resource: ResourceType,
        namespace: str,
        user: User,
        body: Object | None,
        context: WriteContext,
        warnings: list[str],
    ) -> Call:
        return Call(
            self,
            request,
            user,
            resource,
            info.verb,
            namespace,
            info.name,
            info.subresource,
            body,
            dict(request.params.pairs),
            context.dry_run,
            self.reader,
            context,
            info.rest,
            warnings,
        )

    # What other rooms ask.

    def context(self, user: User, *, subresource: str = "", dry_run: bool = False) -> WriteContext:
        """The circumstances of a write that happens now."""
        now = datetime.fromtimestamp(self.now(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return WriteContext(user, now, self.reader, self.random_text, subresource, dry_run)

    def random_text(self, size: int) -> str:
        """Characters for generated names."""
        return "".join(self.random.choices(_SAFE, k=size))

    def new_uid(self) -> str:
        """A uid that was never given before (RFC 9562, version 4)."""
        return str(uuid.UUID(int=self.random.getrandbits(128), version=4))

    def normalise(self, resource: ResourceType, obj: Object) -> None:
        """Decode and default what a webhook made, in place; raises `ValueError` for what is no such object."""
        if resource.definition is None:
            found = schema.decode(obj, resource.type)
            if found.mismatch:
                raise ValueError(found.mismatch)
        resource.strategy.default(obj)

    def finished(self, resource: ResourceType, obj: Object) -> bool:
        """Whether an object that is being deleted has nothing left that holds it."""
        metadata = meta(obj)
        if metadata.get("deletionTimestamp") is None or metadata.get("finalizers"):
            return False
        return not metadata.get("deletionGracePeriodSeconds") and not self.holds(resource, obj)

    def holds(self, resource: ResourceType, obj: Object) -> bool:
        """Whether a kind's own finalizers hold an object (Namespaces have theirs in the spec)."""
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
        self.auth.changed(group, plural, item.namespace, item.name)
        self.admission.changed(group, plural, item.namespace, item.name)
        if group == "apiextensions.k8s.io":
            self.definitions.changed(event)
        elif event.type == "DELETED" and "." in group:
            self.definitions.gone(event)

    # Parts.

    def _form(self, request: Request, resource: ResourceType, *, watch: bool = False) -> Form:
        form = form_of(request.headers.get("Accept") or "", custom=resource.definition is not None, watch=watch)
        if isinstance(form, APIError):
            raise form
        return form

    def _answer(self, resource: ResourceType, outcome: Outcome, form: Form) -> Response:
        status = 201 if outcome.created else 200
        return self.reads.shaped(resource, outcome.obj, form, "", status)


def _record(entry: Entry, response: Response) -> None:
    """The end of a request in the audit log; bodies only where they are wanted or tell a name."""
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
    entry.complete(response.status, body if isinstance(body, dict) else None)


def _agent(request: Request) -> str:
    agent = request.headers.get("User-Agent") or ""
    return agent.partition("/")[0][:128] or "unknown"


def _details(resource: ResourceType, obj: Object) -> Object:
    details: Object = {"name": name_of(obj)}
    if resource.group:
        details["group"] = resource.group
    details["kind"] = resource.plural
    details["uid"] = meta(obj).get("uid")
    return details


def _warned(response: Response, warnings: Iterable[str]) -> Response:
    texts = dict.fromkeys(warnings)
    if texts:
        response.headers = (*response.headers, *(("Warning", f"299 - {_quoted(text)}") for text in texts))
    return response


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else " " for c in escaped) + '"'
