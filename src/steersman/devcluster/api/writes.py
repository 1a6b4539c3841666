"""Creates, updates and patches: from a decoded body to a committed object, by the API server's order of steps.

Between reading the present object and committing the new one nothing is awaited, unless a webhook wants to see the
write: then the present object is read again before the commit, and the write starts over where it has changed.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from steersman.devcluster import fields
from steersman.devcluster.admission import CREATE, UPDATE, Write
from steersman.devcluster.api.options import WriteOptions
from steersman.devcluster.api.patching import reset_of
from steersman.devcluster.api.resources import ResourceType
from steersman.devcluster.api.views import object_of
from steersman.devcluster.auth import check_escalation
from steersman.devcluster.errors import (
    APIError,
    FieldError,
    already_exists,
    bad_request,
    conflict,
    field_invalid,
    invalid,
    not_found,
)
from steersman.devcluster.kinds import meta as metas
from steersman.devcluster.objects import Object, Path, meta
from steersman.devcluster.storage import Item
from steersman.devcluster.strategy import User, WriteContext

if TYPE_CHECKING:
    from steersman.devcluster.api.server import APIServer

__all__ = ["Change", "Outcome", "Writer"]

_MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"
_ATTEMPTS = 8
_LONGEST_BASE = 58


@dataclass(slots=True)
class Change:
    """One write and its circumstances."""

    resource: ResourceType
    namespace: str
    name: str
    user: User
    options: WriteOptions
    context: WriteContext
    subresource: str = ""
    warnings: list[str] = field(default_factory=list[str])
    annotations: dict[str, str] = field(default_factory=dict[str, str])
    apply: bool = False
    kind: str = "CreateOptions"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a write left."""

    obj: Object
    created: bool = False
    item: Item | None = None
    """The stored form; `None` in a dry run."""


class Writer:
    """Writes objects for one API server."""

    def __init__(self, server: APIServer) -> None:
        self._server = server
        self._storage = server.storage

    # Create.

    async def create(self, change: Change, obj: Object) -> Outcome:
        """Store a new object. Raises `APIError`."""
        base = meta(obj).get("generateName") if not meta(obj).get("name") else None
        for attempt in range(_ATTEMPTS):
            candidate = copy.deepcopy(obj) if base and attempt < _ATTEMPTS - 1 else obj
            try:
                return await self._create(change, candidate)
            except APIError as problem:
                if not base or problem.reason != "AlreadyExists" or attempt == _ATTEMPTS - 1:
                    raise
        raise AssertionError("unreachable")

    async def _create(self, change: Change, obj: Object) -> Outcome:
        resource, context, server = change.resource, change.context, self._server
        strategy = resource.strategy
        metadata = obj.setdefault("metadata", {})
        self._place(change, metadata)
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = str(metadata["generateName"])[:_LONGEST_BASE] + context.random(5)
        for name in ("resourceVersion",):
            if metadata.get(name):
                raise bad_request("resourceVersion should not be set on objects to be created")
        if not change.apply:
            metadata.pop("managedFields", None)
        strategy.default(obj)
        if not change.apply:
            fields.track(
                None,
                obj,
                resource.type,
                manager=change.options.manager,
                api_version=resource.api_version,
                time=context.now,
                subresource=change.subresource,
                reset=reset_of(change),
            )
        managed = metadata.get("managedFields")
        write = self._write(change, CREATE, obj, None)
        if server.admission.needs_async(write):
            await server.admission.mutate(write)
        else:
            server.admission.mutate_now(write)
        obj = self._admitted(change, write, managed)
        metadata = meta(obj)
        for name in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"):
            metadata.pop(name, None)
        metadata["uid"] = server.new_uid()
        metadata["creationTimestamp"] = context.now
        if resource.group == "rbac.authorization.k8s.io":
            check_escalation(
                server.auth.authorizer, change.user, resource.plural, change.namespace, obj, None, change.name
            )
        strategy.prepare_create(obj, context)
        problems = metas.validate_metadata(
            obj,
            _METADATA,
            resource.namespaced,
            strategy.name_rule,
            builtin=getattr(strategy, "qualified_finalizers", False),
        )
        problems += strategy.validate_create(obj, context)
        self._refuse(change, obj, problems)
        change.warnings.extend(strategy.warnings(obj, None, context))
        if server.admission.needs_async(write):
            await server.admission.validate(write)
        else:
            server.admission.validate_now(write)
        change.annotations.update(write.audit_annotations)
        name = str(metadata.get("name") or "")
        if self._storage.get(resource.stored_at, change.namespace, name) is not None:
            raise already_exists(resource.group, resource.plural, name)
        if change.options.dry_run:
            return Outcome(obj, True)
        return Outcome(obj, True, self._commit(change, obj))

    # Update and patch.

    async def update(
        self, change: Change, transform: Callable[[Object | None], Object], *, replace: bool = False
    ) -> Outcome:
        """Change an object: `transform` makes the new one of the present one (`None` where there is none).

        `replace` says that the client sent a whole object (PUT), so that a stale version is refused. Raises `APIError`.
        """
        resource = change.resource
        for _ in range(_ATTEMPTS):
            item = self._storage.get(resource.stored_at, change.namespace, change.name)
            if item is None:
                if not change.apply and not (replace and resource.strategy.create_on_update):
                    raise not_found(resource.group, resource.plural, change.name)
                if change.subresource:
                    raise not_found(resource.group, resource.plural, change.name)
                obj = transform(None)
                if meta(obj).get("uid"):
                    raise self._stale_uid(change, str(meta(obj)["uid"]), "")
                meta(obj).pop("resourceVersion", None)
                try:
                    return await self._create(change, obj)
                except APIError as problem:
                    if problem.reason != "AlreadyExists":
                        raise
                    continue  # somebody was faster: now it is an update
            outcome = await self._update(change, item, transform, replace=replace)
            if outcome is not None:
                return outcome
        raise conflict(resource.group, resource.plural, change.name, _MODIFIED)

    async def _update(  # noqa: C901 - the API server's order of steps, one after the other
        self, change: Change, item: Item, transform: Callable[[Object | None], Object], *, replace: bool
    ) -> Outcome | None:
        resource, context, server = change.resource, change.context, self._server
        strategy = resource.strategy
        old = object_of(resource, item)
        obj = transform(object_of(resource, item))
        metadata = obj.setdefault("metadata", {})
        self._place(change, metadata)
        self._same_name(change, metadata, item)
        version = metadata.get("resourceVersion")
        uid = metadata.get("uid")
        if uid and uid != meta(old).get("uid"):
            raise self._stale_uid(change, str(uid), str(meta(old).get("uid")))
        if version and version != meta(old).get("resourceVersion"):
            raise conflict(resource.group, resource.plural, change.name, _MODIFIED)
        if not version:
            if replace and not strategy.unconditional_update:
                problem = field_invalid("metadata.resourceVersion", 0, "must be specified for an update")
                problem = field_invalid("metadata.resourceVersion", "", "must be specified for an update")
                raise invalid(resource.group, resource.kind, change.name, [problem])
            metadata["resourceVersion"] = meta(old).get("resourceVersion")
        strategy.default(obj)
        # A binding has no manager: it goes past the update path on the real server.
        if not change.apply and change.subresource != "binding":
            fields.track(
                old,
                obj,
                resource.type,
                manager=change.options.manager,
                api_version=resource.api_version,
                time=context.now,
                subresource=change.subresource,
                reset=reset_of(change),
            )
        managed = metadata.get("managedFields")
        write = self._write(change, UPDATE, obj, old)
        waits = server.admission.needs_async(write)
        if waits:
            await server.admission.mutate(write)
        else:
            server.admission.mutate_now(write)
        obj = self._admitted(change, write, managed)
        metas.keep_system_fields(obj, old)
        if resource.group == "rbac.authorization.k8s.io":
            check_escalation(
                server.auth.authorizer, change.user, resource.plural, change.namespace, obj, old, change.name
            )
        strategy.prepare_update(obj, old, context)
        if "generation" in meta(old) and not strategy.generation:
            meta(obj).setdefault("generation", meta(old)["generation"])
        problems = metas.validate_metadata_update(obj, old, _METADATA, resource.namespaced)
        problems += strategy.validate_update(obj, old, context)
        self._refuse(change, obj, problems)
        change.warnings.extend(strategy.warnings(obj, old, context))
        if waits:
            await server.admission.validate(write)
        else:
            server.admission.validate_now(write)
        change.annotations.update(write.audit_annotations)
        if waits and self._storage.get(resource.stored_at, change.namespace, change.name) is not item:
            return None  # it changed while a webhook looked: once more, from the start
        fields.settle(old, obj)
        if server.finished(resource, obj):
            if change.options.dry_run:
                return Outcome(obj)
            if obj != old:
                self._commit(change, obj)
            self._storage.delete(resource.stored_at, change.namespace, change.name)
            return Outcome(obj)
        if obj == old:
            return Outcome(obj, False, item)
        if change.options.dry_run:
            return Outcome(obj)
        return Outcome(obj, False, self._commit(change, obj))

    # Parts.

    def _commit(self, change: Change, obj: Object) -> Item:
        resource = change.resource
        stored = resource.strategy.to_storage(obj)
        item = self._storage.put(resource.stored_at, change.namespace, str(meta(obj)["name"]), stored)
        if stored is not obj:
            meta(obj)["resourceVersion"] = str(item.revision)
        return item

    def _place(self, change: Change, metadata: Object) -> None:
        """The namespace of the path is the object's."""
        namespace = metadata.get("namespace")
        if not change.resource.namespaced:
            return
        if not namespace:
            metadata["namespace"] = change.namespace
        elif namespace != change.namespace:
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")

    def _same_name(self, change: Change, metadata: Object, item: Item) -> None:
        name = metadata.get("name")
        if name and name != item.name and not change.apply and change.kind == "UpdateOptions":
            raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({change.name})")
        if not name:
            metadata["name"] = item.name

    def _stale_uid(self, change: Change, wanted: str, found: str) -> APIError:
        why = f"Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}"
        return conflict(change.resource.group, change.resource.plural, change.name, why)

    def _write(self, change: Change, operation: str, obj: Object, old: Object | None) -> Write:
        resource = change.resource
        return Write(
            operation=operation,
            group=resource.group,
            version=resource.version,
            kind=resource.kind,
            resource=resource.plural,
            namespace=change.namespace,
            name=change.name,
            obj=obj,
            old=old,
            user=change.user,
            context=change.context,
            subresource=change.subresource,
            options=self._options(change),
            dry_run=change.options.dry_run,
            normalise=lambda made: self._server.normalise(resource, made),
            warnings=change.warnings,
        )

    def _options(self, change: Change) -> Object:
        options: Object = {"kind": change.kind, "apiVersion": "meta.k8s.io/v1"}
        if change.options.dry_run:
            options["dryRun"] = ["All"]
        if change.options.manager:
            options["fieldManager"] = change.options.manager
        if change.options.validation != "Warn":
            options["fieldValidation"] = change.options.validation
        if change.options.force:
            options["force"] = True
        return options

    def _admitted(self, change: Change, write: Write, managed: Any) -> Object:
        """What admission left, with managed fields that can be read."""
        obj = cast(Object, write.obj)
        now = meta(obj).get("managedFields")
        if now is not managed and now != managed and (why := fields.invalid_entries(now)):
            meta(obj)["managedFields"] = managed
            change.warnings.append(
                ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated "
                f"mutating admission controller; please fix your requests: {why}"
            )
        return obj

    def _refuse(self, change: Change, obj: Object, problems: list[FieldError]) -> None:
        if problems:
            resource = change.resource
            name = str(meta(obj).get("name") or meta(obj).get("generateName") or "")
            # Events of events.k8s.io are refused under the name of the group that stores them.
            group = getattr(resource.strategy, "status_group", resource.group)
            raise invalid(group, resource.kind, name, problems)


_METADATA = Path("metadata")
