"""Routes a request for a resource to its verb: allowed verbs, options, bodies.

The verbs are implemented in `reads`, `writes`, `deletes` and the handlers of subresources.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, cast

from steersman_cluster import fields, schema
from steersman_cluster.admission import CREATE, Write
from steersman_cluster.api import bodies
from steersman_cluster.api import metadata as metas
from steersman_cluster.api.builtins import groups
from steersman_cluster.api.components import COMPONENT_STATUSES, get_component, list_components
from steersman_cluster.api.connect import pod_connections
from steersman_cluster.api.deletes import RETURNED
from steersman_cluster.api.interfaces import Call, Change, Handler, Outcome, ResourceType, Server, Subresource
from steersman_cluster.api.patches import APPLY, check_media, transform_of
from steersman_cluster.api.reads import present
from steersman_cluster.api.requests.field_selectors import parse_fields
from steersman_cluster.api.requests.messages import Request, Response
from steersman_cluster.api.requests.negotiation import Form, form_of
from steersman_cluster.api.requests.options import (
    DeleteOptions,
    WriteOptions,
    agent_of,
    delete_options,
    list_options,
    write_options,
)
from steersman_cluster.api.requests.request_info import RequestInfo
from steersman_cluster.api.subresources.scale import serve_scale
from steersman_cluster.errors import APIError, bad_request, method_not_supported, unknown_path
from steersman_cluster.kinds.registry import strategy_for
from steersman_cluster.objects import Object, meta, name_of
from steersman_cluster.strategy import User, WriteContext

__all__ = ["Verbs", "not_allowed"]

_NO_TABLES: Final = frozenset(("ephemeralcontainers",))
"""Sub-resources that are objects of their own kind, and have no table on the real server."""
_COLLECTION: Final = frozenset(("list", "watch", "create", "deletecollection"))
_PROXY_METHODS: Final = frozenset(("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"))
_ITEM: Final = frozenset(("get", "update", "patch", "delete"))
_TOKEN_SECONDS: Final = 3600
_UNTRACKED: Final = frozenset(("selfsubjectreviews", "selfsubjectrulesreviews"))


class Verbs:
    """Serves the resources of one API server."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._bodies: dict[tuple[ResourceType, str], ResourceType] = {}

    async def serve(self, request: Request, info: RequestInfo, user: User, warnings: list[str]) -> Response:
        """Answer a request for a resource. Raises `APIError`."""
        resource = self._server.registry.find(info.group, info.version, info.resource)
        if resource is None:
            if info.group in groups():
                raise unknown_path()
            return _page_not_found()
        if resource.strategy.deprecation:
            warnings.append(resource.strategy.deprecation)
        namespace = info.namespace if resource.namespaced else ""
        if not _has_path(resource, info):
            if resource.definition is not None:
                return _page_not_found()
            raise unknown_path()
        if info.subresource:
            return await self._subresource(request, info, resource, namespace, user, warnings)
        _check_verb(request, info, resource)
        if info.verb == "patch":
            check_media(bodies.media_type(request.headers.get("Content-Type")), custom=resource.definition is not None)
        form = self._form(request, resource, watch=info.verb == "watch", item=info.item)
        return await self._verb(request, info, resource, namespace, user, warnings, form)

    async def _verb(
        self,
        request: Request,
        info: RequestInfo,
        resource: ResourceType,
        namespace: str,
        user: User,
        warnings: list[str],
        form: Form,
    ) -> Response:
        match info.verb:
            case "get" | "list" | "watch":
                return await self._read(request, info, resource, namespace, form)
            case "create":
                return await self._create(request, info, resource, namespace, user, warnings, form)
            case "update" | "patch":
                outcome = await self._update(request, info, resource, namespace, user, warnings)
                return self._answer(resource, outcome, form)
            case "delete":
                return await self._delete(request, info, resource, namespace, user, form, warnings)
            case _:
                return await self._delete_all(request, resource, namespace, user, form, warnings)

    # Reads.

    async def _read(
        self, request: Request, info: RequestInfo, resource: ResourceType, namespace: str, form: Form
    ) -> Response:
        reads = self._server.reads
        include = request.params.get("includeObject") if form.shape == "Table" else ""
        if include not in ("", "None", "Metadata", "Object"):
            text = "must be 'Metadata', 'Object', 'None', or empty"
            raise bad_request(
                f'Unable to convert to Table as requested: includeObject: Invalid value: "{include}": {text}'
            )
        computed = resource.stored_at == COMPONENT_STATUSES
        if self._server.metrics.serves(resource):
            name = info.name if info.verb == "get" else ""
            options = list_options(request.params, watch=False)
            return self._server.metrics.read(resource, namespace, name, options, form, include)
        if info.verb == "get":
            if computed:
                return get_component(reads, resource, info.name, form, include)
            if resource.converts:
                await reads.prepare(resource, namespace, info.name)
            return reads.get(resource, namespace, info.name, form, include)
        options = replace(list_options(request.params, watch=info.verb == "watch"), as_of=request.as_of)
        if info.verb == "watch":
            if info.name and "fieldSelector" not in request.params:
                # The watch of one object, by the paths of old.
                options = replace(options, fields=parse_fields(f"metadata.name={info.name}"))
            return reads.watch(resource, namespace, options, form, include)
        if computed:
            return list_components(reads, resource, options, form, include)
        if resource.converts:
            await reads.prepare(resource, namespace)
        return reads.list(resource, namespace, options, form, include)

    # Writes.

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
        server = self._server
        options = write_options(request.params, agent_of(request), "CreateOptions")
        media = bodies.media_type(request.headers.get("Content-Type"))
        obj = bodies.decode_body(request.body, media, resource, options.validation, warnings)()
        context = server.context(user, dry_run=options.dry_run)
        if resource.handler is not None:
            call = self._call(request, info, resource, namespace, user, obj, context, warnings)
            made = await self._handle(call, resource, resource.handler, options)
            return made if isinstance(made, Response) else self._handler_response(resource, made, form, 201)
        change = Change(resource, namespace, "", user, options, context, warnings=warnings)
        return self._answer(resource, await server.writer.create(change, obj), form)

    async def _update(
        self,
        request: Request,
        info: RequestInfo,
        resource: ResourceType,
        namespace: str,
        user: User,
        warnings: list[str],
    ) -> Outcome:
        server = self._server
        patching = info.verb == "patch"
        media = bodies.media_type(request.headers.get("Content-Type"))
        apply = patching and media == APPLY
        kind = "PatchOptions" if patching else "UpdateOptions"
        options = write_options(request.params, agent_of(request), kind, apply=apply)
        context = server.context(user, subresource=info.subresource, dry_run=options.dry_run)
        change = Change(
            resource, namespace, info.name, user, options, context, info.subresource, warnings, apply=apply, kind=kind
        )
        if patching:
            return await server.writer.update(change, transform_of(change, request.body, media))
        again = bodies.decode_body(request.body, media, resource, options.validation, warnings)
        first = [again()]
        metadata = first[0].setdefault("metadata", {})
        metas.place(resource, namespace, metadata)
        metas.check_name(info.name, metadata)

        def replaced(_present: Object | None) -> Object:
            return first.pop() if first else again()

        return await server.writer.update(change, replaced, replace=True)

    def _answer(self, resource: ResourceType, outcome: Outcome, form: Form) -> Response:
        status = 201 if outcome.created else 200
        if outcome.body is not None and form.plain:
            return Response(status, outcome.body + b"\n")
        return self._server.reads.shaped(resource, outcome.obj, form, "", status)

    # Deletes.

    async def _delete(
        self, request: Request, info: RequestInfo, resource: ResourceType, namespace: str, user: User, form: Form,
        warnings: list[str],
    ) -> Response:  # fmt: skip
        server = self._server
        options = self._delete_options(request)
        _warn_of_orphans(resource, options, warnings)
        context = server.context(user, dry_run=options.dry_run)
        left = await server.deleter.delete(resource, namespace, info.name, options, user, context)
        status = 202 if not left.gone and options.orphan is False else 200
        if not left.gone or (resource.group, resource.plural) in RETURNED:
            return server.reads.shaped(resource, left.obj, form, "", status)
        body: Object = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "details": _details(resource, left.obj),
        }
        return present(body, Form(form.media), status)

    async def _delete_all(
        self, request: Request, resource: ResourceType, namespace: str, user: User, form: Form, warnings: list[str]
    ) -> Response:
        server = self._server
        selection = list_options(request.params)
        options = self._delete_options(request)
        _warn_of_orphans(resource, options, warnings)
        if resource.converts:
            await server.reads.prepare(resource, namespace)
        items, metadata = server.reads.page(resource, namespace, selection)
        answer = server.reads.listed(resource, items, metadata, form)
        context = server.context(user, dry_run=options.dry_run)
        for item in items:
            try:
                await server.deleter.delete(
                    resource, item.namespace, item.name, options, user, context, collection=True
                )
            except APIError as problem:
                if problem.reason != "NotFound":
                    raise
        return answer

    def _delete_options(self, request: Request) -> DeleteOptions:
        if not request.body:
            return delete_options(request.params, None)
        try:
            body = bodies.read(request.body, bodies.media_type(request.headers.get("Content-Type")))
            found = bodies.settle_options(body.value)
        except ValueError as problem:
            raise bad_request(str(problem)) from None
        return delete_options(request.params, found)

    # Sub-resources.

    async def _subresource(
        self, request: Request, info: RequestInfo, resource: ResourceType, namespace: str, user: User,
        warnings: list[str],
    ) -> Response:  # fmt: skip
        server = self._server
        declared = resource.subresources.get(info.subresource)
        if declared is None or (info.rest and info.subresource != "proxy"):
            if resource.definition is not None:
                return _page_not_found()
            raise unknown_path()
        _check_subresource_verb(request, info, resource, declared)
        if info.subresource == "proxy" and declared.handler is not None:
            context = server.context(user, subresource=info.subresource)
            call = self._call(request, info, resource, namespace, user, None, context, warnings)
            await pod_connections.admit(call)
            proxied = await declared.handler(call)
            assert isinstance(proxied, Response)
            return proxied
        form = self._form(request, resource, tables=declared.handler is None and info.subresource not in _NO_TABLES)
        if declared.handler is None and info.subresource != "scale":
            if info.verb == "get":
                return await self._read(request, info, resource, namespace, form)
            outcome = await self._update(request, info, resource, namespace, user, warnings)
            return self._answer(resource, outcome, form)
        options = WriteOptions()
        if info.verb == "create" and info.subresource not in pod_connections.CONNECTS:
            options = write_options(request.params, agent_of(request), "CreateOptions")
        context = server.context(user, subresource=info.subresource, dry_run=options.dry_run)
        call = self._call(request, info, resource, namespace, user, None, context, warnings)
        if declared.handler is None:
            made = await serve_scale(call)
        elif info.verb == "create" and info.subresource not in pod_connections.CONNECTS:
            kind = self._kind_of_body(resource, info.subresource, declared)
            media = bodies.media_type(request.headers.get("Content-Type"))
            call.body = bodies.decode_body(request.body, media, kind, options.validation, warnings)()
            made = await self._handle(call, kind, declared.handler, options)
        else:
            await pod_connections.admit(call)
            made = await declared.handler(call)
        if isinstance(made, Response):
            return made
        return self._handler_response(resource, made, form, 201 if info.verb == "create" else 200)

    def _handler_response(self, resource: ResourceType, made: Object, form: Form, status: int) -> Response:
        """An answer that a handler made, in the form that was asked for; a Status is always whole."""
        if made.get("kind") == "Status":
            return present(made, Form(form.media), status)
        kind = str(made.get("kind"))
        group, _, version = str(made.get("apiVersion")).rpartition("/")
        own = replace(resource, kind=kind, strategy=strategy_for(group, version, kind))
        return self._server.reads.shaped(own, made, form, status=status)

    def _kind_of_body(self, resource: ResourceType, subresource: str, declared: Subresource) -> ResourceType:
        """Return the resource type of a subresource's body."""
        found = self._bodies.get((resource, subresource))
        if found is None:
            group, version, kind = declared.group or "", declared.version or "v1", declared.kind or resource.kind
            shape = schema.builtin(group, version, kind)
            found = replace(resource, group=group, version=version, kind=kind, type=shape)
            self._bodies[resource, subresource] = found
        return found

    async def _handle(
        self, call: Call, kind: ResourceType, handler: Handler, options: WriteOptions
    ) -> Object | Response:
        """Have a body that is not stored admitted and answered."""
        server, body = self._server, cast(Object, call.body)
        metadata = body.setdefault("metadata", {})
        if not metadata.get("managedFields"):
            metadata.pop("managedFields", None)
        if call.subresource == "token":
            spec = cast(Object, body.setdefault("spec", {}))
            if spec.get("expirationSeconds") is None:
                spec["expirationSeconds"] = _TOKEN_SECONDS
        elif call.subresource != "binding" and call.resource.plural != "bindings":
            metas.wipe_system_fields(metadata)
        metas.place(call.resource, call.namespace, metadata)
        if call.resource.plural not in _UNTRACKED:
            fields.track(
                None,
                body,
                kind.type,
                manager=options.manager,
                api_version=kind.api_version,
                time=call.context.now,
                subresource=call.subresource,
            )
        write = Write(
            operation=CREATE,
            group=call.resource.group,
            version=call.resource.version,
            kind=kind.kind,
            resource=call.resource.plural,
            namespace=call.namespace,
            name=call.name or name_of(body),
            obj=body,
            old=None,
            user=call.user,
            context=call.context,
            subresource=call.subresource,
            options=options.shown("CreateOptions"),
            dry_run=options.dry_run,
            kind_group=kind.group,
            kind_version=kind.version,
            warnings=call.warnings,
        )
        if server.admission.needs_async(write):
            await server.admission.mutate(write)
            await server.admission.validate(write)
        else:
            server.admission.mutate_now(write)
            server.admission.validate_now(write)
        call.body = cast(Object, write.obj)
        return await handler(call)

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
            self._server,
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
            self._server.reader,
            context,
            info.rest,
            warnings,
        )

    def _form(
        self,
        request: Request,
        resource: ResourceType,
        *,
        watch: bool = False,
        item: bool = True,
        tables: bool = True,
    ) -> Form:
        accept = request.headers.get("Accept") or ""
        listing = request.method == "GET" and not item
        custom, tables = resource.definition is not None, tables and resource.handler is None
        form = form_of(accept, custom=custom, watch=watch, listing=listing, tables=tables)
        if isinstance(form, APIError):
            raise form
        return form


def _warn_of_orphans(resource: ResourceType, options: DeleteOptions, warnings: list[str]) -> None:
    """Warn that a deleted Job orphans its Pods by default."""
    if (resource.group, resource.plural) == ("batch", "jobs") and not options.policy and options.orphan is None:
        warnings.append(
            "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove "
            "them or set propagationPolicy=Orphan to suppress this warning"
        )


def _has_path(resource: ResourceType, info: RequestInfo) -> bool:
    """Return whether there is such a path at all: namespaced resources have two, and items only in namespaces."""
    if resource.namespaced:
        return bool(info.namespace) or not info.item
    return not info.namespace or (resource.plural == "namespaces" and info.namespace == info.name)


def _check_verb(request: Request, info: RequestInfo, resource: ResourceType) -> None:
    custom = resource.definition is not None
    if request.method == "HEAD" and not custom:
        raise not_allowed()
    fits = info.verb in (_ITEM if info.item else _COLLECTION)
    if fits and resource.namespaced and not info.namespace and info.verb not in ("list", "watch"):
        fits = False
    if fits and info.verb in resource.verbs:
        return
    unwatched = info.verb == "watch" and "list" in resource.verbs
    raise method_not_supported(resource.group, resource.plural, info.verb) if custom or unwatched else not_allowed()


def _check_subresource_verb(request: Request, info: RequestInfo, resource: ResourceType, declared: Subresource) -> None:
    if info.subresource == "proxy" and request.method in _PROXY_METHODS:
        return
    custom = resource.definition is not None
    if info.verb not in declared.verbs or (request.method == "HEAD" and not custom):
        raise method_not_supported(resource.group, resource.plural, info.verb) if custom else not_allowed()
    if info.verb == "patch":
        check_media(bodies.media_type(request.headers.get("Content-Type")), custom=custom)


def not_allowed() -> APIError:
    """Return the error of the API server for a method that a path does not support."""
    return APIError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {})


def _details(resource: ResourceType, obj: Object) -> Object:
    details: Object = {"name": name_of(obj)}
    if resource.group:
        details["group"] = resource.group
    details["kind"] = resource.plural
    details["uid"] = meta(obj).get("uid")
    return details


def _page_not_found() -> Response:
    return Response(404, b"404 page not found\n", "text/plain; charset=utf-8")
