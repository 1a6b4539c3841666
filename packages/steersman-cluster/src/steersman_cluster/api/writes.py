"""Creates, updates and patches: from a decoded body to a stored object, in the API server's order of steps.

Between the read of the present object and the write of the new one there is no await, unless a webhook matches the
write: then the present object is read again before the write, which starts over if it has changed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

from steersman_cluster import fields
from steersman_cluster.admission import CREATE, UPDATE, Write
from steersman_cluster.api import metadata as metas
from steersman_cluster.api.interfaces import Change, Outcome, ResourceType, Server, Transform, WriteVersions
from steersman_cluster.api.patches import reset_of
from steersman_cluster.api.versions import ObjectVersions
from steersman_cluster.api.views import object_of
from steersman_cluster.auth import check_escalation
from steersman_cluster.errors import (
    APIError,
    FieldError,
    already_exists,
    conflict,
    field_invalid,
    invalid,
    not_found,
)
from steersman_cluster.kinds import meta as rules
from steersman_cluster.objects import Object, Path, meta
from steersman_cluster.storage import Item

__all__ = ["MODIFIED", "Writer"]

MODIFIED: Final = "the object has been modified; please apply your changes to the latest version and try again"
_ATTEMPTS: Final = 8
_METADATA: Final = Path("metadata")
_RBAC: Final = "rbac.authorization.k8s.io"


def _exists(resource: ResourceType, item: Item) -> APIError:
    problem = already_exists(resource.group, resource.plural, item.name)
    if meta(item.object()).get("deletionTimestamp"):
        problem.message = f"object is being deleted: {problem.message}"
    return problem


class Writer:
    """Writes objects for one API server."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._storage = server.storage

    # Create.

    async def create(self, change: Change, obj: Object) -> Outcome:
        """Store a new object. Raises `APIError`."""
        metadata = obj.setdefault("metadata", {})
        metas.wipe_system_fields(metadata)
        metas.place(change.resource, change.namespace, metadata)
        change.warn(metas.without_repeated_owners(metadata))
        change.resource.strategy.default(obj)
        if not metadata.get("managedFields"):
            metadata.pop("managedFields", None)
        await self._track(change, None, obj)
        return await self._create(change, obj)

    async def _create(self, change: Change, obj: Object) -> Outcome:
        """Admit, complete, validate and store a new object that is decoded, defaulted and tracked."""
        resource, context, server = change.resource, change.context, self._server
        strategy = resource.strategy
        write = self._write(change, CREATE, obj, None)
        waits = server.admission.needs_async(write)
        managed = meta(obj).get("managedFields")
        if waits:
            await server.admission.mutate(write)
        else:
            server.admission.mutate_now(write)
        obj = self._admitted(change, write, managed)
        metadata = cast(Object, obj["metadata"])
        metas.fill_system_fields(metadata, server.new_uid(), context.now)
        taken = metas.generate_name(metadata, context.random, lambda name: self._has(resource, change.namespace, name))
        if resource.group == _RBAC:
            self._check_escalation(change, obj, None)
        change.warn(strategy.early_warnings(obj))
        strategy.prepare_create(obj, context)
        self._refuse(change, obj, self._create_problems(change, obj))
        change.warn(strategy.warnings(obj, None, context))
        if waits:
            await server.admission.validate(write)
        else:
            server.admission.validate_now(write)
        change.annotations.update(write.audit_annotations)
        name = str(metadata.get("name") or "")
        if not change.options.dry_run:
            # The storage refuses and assigns versions, and a dry run ends before it.
            if metas.has_version(metadata):
                raise metas.version_on_create()
            metadata.pop("resourceVersion", None)
        stored = resource.strategy.to_storage(obj)
        if resource.converts:
            stored = await server.conversions.to_storage(resource, stored)
        if taken:
            raise metas.no_unique_name(resource, name)
        if (present := self._storage.get(resource.stored_at, change.namespace, name)) is not None:
            raise _exists(resource, present)
        body = self._commit(change, obj, stored) if not change.options.dry_run else None
        return Outcome(obj, created=True, body=body)

    def _create_problems(self, change: Change, obj: Object) -> list[FieldError]:
        resource = change.resource
        strategy = resource.strategy
        problems = rules.validate_metadata(
            obj,
            _METADATA,
            strategy.name_rule,
            namespaced=resource.namespaced,
            builtin=strategy.qualified_finalizers,
        )
        problems += strategy.validate_create(obj, change.context)
        return problems

    # Update and patch.

    async def update(self, change: Change, transform: Transform, *, replace: bool = False) -> Outcome:
        """Change an object. `replace` says that the client sent a whole object (PUT). Raises `APIError`."""
        resource = change.resource
        for _ in range(_ATTEMPTS):
            item = self._storage.get(resource.stored_at, change.namespace, change.name)
            if item is not None:
                if resource.converts:
                    await self._server.conversions.prepare(resource, (item,))
                outcome = await self._update(change, item, transform, replace=replace)
            else:
                outcome = await self._create_by_update(change, transform, replace=replace)
            if outcome is not None:
                return outcome
        raise conflict(resource.group, resource.plural, change.name, MODIFIED)

    async def _create_by_update(self, change: Change, transform: Transform, *, replace: bool) -> Outcome | None:
        """PUT and apply of an object that is not there; `None` where it came to be meanwhile."""
        resource = change.resource
        missing = not_found(resource.group, resource.plural, change.name)
        if change.subresource or not (change.apply or (replace and resource.strategy.create_on_update)):
            raise missing
        obj = await self._versions(change).run(lambda: transform(None))
        metadata = obj.setdefault("metadata", {})
        if uid := metadata.get("uid"):
            if replace:
                raise self._precondition(change, str(uid), "")
            why = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            raise conflict(resource.group, resource.plural, change.name, why)
        self._check_target(change, metadata)
        resource.strategy.default(obj)
        if not change.apply:
            await self._track(change, None, obj)
        self._authorize_create(change)
        metadata.pop("resourceVersion", None)
        made = Change(
            resource, change.namespace, change.name, change.user, change.options, change.context,
            warnings=change.warnings, annotations=change.annotations, apply=change.apply,
        )  # fmt: skip
        try:
            return await self._create(made, obj)
        except APIError as problem:
            if problem.reason == "AlreadyExists":
                return None
            raise

    async def _update(  # noqa: C901 - the API server's order of steps, one after the other
        self, change: Change, item: Item, transform: Transform, *, replace: bool
    ) -> Outcome | None:
        resource, context, server = change.resource, change.context, self._server
        strategy = resource.strategy
        old = object_of(resource, item)
        obj = await self._versions(change).run(lambda: transform(object_of(resource, item)))
        metadata = obj.setdefault("metadata", {})
        if replace and (uid := metadata.get("uid")) and uid != meta(old).get("uid"):
            raise self._precondition(change, str(uid), str(meta(old).get("uid")))
        self._check_target(change, metadata)
        if replace:
            change.warn(metas.without_repeated_owners(metadata))
        strategy.default(obj)
        if change.tracked and not change.apply:
            await self._track(change, old, obj)
        write = self._write(change, UPDATE, obj, old)
        waits = server.admission.needs_async(write)
        managed = metadata.get("managedFields")
        if waits:
            await server.admission.mutate(write)
        else:
            server.admission.mutate_now(write)
        obj = (
            self._admitted(change, write, managed)
            if change.representation is None
            else self._merged(change, write, obj)
        )
        self._check_version(change, obj, old)
        rules.keep_system_fields(obj, old)
        if resource.group == _RBAC:
            self._check_escalation(change, obj, old)
        if "generation" in meta(old):
            meta(obj)["generation"] = meta(old)["generation"]
        else:
            meta(obj).pop("generation", None)
        strategy.prepare_update(obj, old, context)
        self._refuse(change, obj, self._update_problems(change, obj, old))
        change.warn(strategy.warnings(obj, old, context))
        fields.settle(old, obj)
        if change.representation is not None:
            write.obj, write.old = change.representation.of(obj), change.representation.of(old)
        if waits:
            await server.admission.validate(write)
        else:
            server.admission.validate_now(write)
        change.annotations.update(write.audit_annotations)
        stored = strategy.to_storage(obj) if obj != old else None
        if stored is not None and resource.converts:
            stored = await server.conversions.to_storage(resource, stored)
            waits = True
        if waits and self._storage.get(resource.stored_at, change.namespace, change.name) is not item:
            return None  # it changed while a webhook looked: once more, from the start
        if change.options.dry_run:
            return Outcome(obj)
        body = None
        if server.finished(resource, obj, old):
            self._storage.delete(resource.stored_at, change.namespace, change.name)
        elif stored is not None:
            body = self._commit(change, obj, stored)
        return Outcome(obj, body=body)

    def _update_problems(self, change: Change, obj: Object, old: Object) -> list[FieldError]:
        problems = rules.validate_metadata_update(obj, old, _METADATA, namespaced=change.resource.namespaced)
        problems += change.resource.strategy.validate_update(obj, old, change.context)
        return problems

    # Parts.

    def _has(self, resource: ResourceType, namespace: str, name: str) -> bool:
        return self._storage.get(resource.stored_at, namespace, name) is not None

    def _commit(self, change: Change, obj: Object, stored: Object) -> bytes | None:
        """Store an object, and return its JSON if it is stored as it is served."""
        resource = change.resource
        item = self._storage.put(resource.stored_at, change.namespace, str(meta(obj)["name"]), stored)
        if stored is obj:
            return item.value
        meta(obj)["resourceVersion"] = str(item.revision)
        return None

    def _versions(self, change: Change) -> WriteVersions:
        if change.versions is None:
            server = self._server
            change.versions = ObjectVersions(server.registry, change.resource, server.conversions.to_version)
        return change.versions

    async def _track(self, change: Change, old: Object | None, obj: Object) -> None:
        versions = self._versions(change)
        await versions.run(
            lambda: fields.track(
                old,
                obj,
                change.resource.type,
                manager=change.options.manager,
                api_version=change.resource.api_version,
                time=change.context.now,
                subresource=change.subresource,
                reset=reset_of(change),
                versions=versions,
            )
        )

    def _check_target(self, change: Change, metadata: Object) -> None:
        """The object is the one of the path. Raises a 400."""
        metas.place(change.resource, change.namespace, metadata)
        metas.check_name(change.name, metadata)

    def _check_version(self, change: Change, obj: Object, old: Object) -> None:
        """A version that the client sent must be the present one. Raises a 409, and a 422 where one is a must."""
        resource, metadata = change.resource, meta(obj)
        version = metas.version_of(metadata)
        if version:
            if str(version) != meta(old).get("resourceVersion"):
                raise conflict(resource.group, resource.plural, change.name, MODIFIED)
            return
        if not resource.strategy.unconditional_update:
            problem = field_invalid("metadata.resourceVersion", 0, "must be specified for an update")
            raise invalid(resource.group, resource.plural, change.name, [problem])
        metadata["resourceVersion"] = meta(old).get("resourceVersion")

    def _check_escalation(self, change: Change, obj: Object, old: Object | None) -> None:
        authorizer = self._server.auth.authorizer
        check_escalation(authorizer, change.user, change.resource.plural, change.namespace, obj, old, change.name)

    def _authorize_create(self, change: Change) -> None:
        """Check the permission to create for an update that creates the object."""
        from steersman_cluster.auth import Attributes

        resource = change.resource
        self._server.auth.authorize(
            change.user,
            Attributes("create", resource.group, resource.version, resource.plural, "", change.namespace, change.name),
        )

    def _precondition(self, change: Change, wanted: str, found: str) -> APIError:
        resource = change.resource
        why = f"Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}"
        key = "/".join(part for part in ("/registry", resource.plural, change.namespace, change.name) if part)
        why = f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: {why}"
        return conflict(resource.group, resource.plural, change.name, why)

    def _write(self, change: Change, operation: str, obj: Object, old: Object | None) -> Write:
        resource, shown = change.resource, change.representation
        normalise: Callable[[Object], None] = lambda made: self._server.normalise(resource, made)  # noqa: E731
        if shown is not None:
            obj, old, normalise = shown.new, shown.old, shown.normalise
        return Write(
            operation=operation,
            group=resource.group,
            version=resource.version,
            kind=resource.kind if shown is None else shown.kind,
            kind_group=None if shown is None else shown.group,
            kind_version=None if shown is None else shown.version,
            resource=resource.plural,
            namespace=change.namespace,
            name=change.name or str(meta(obj).get("name") or ""),
            obj=obj,
            old=old,
            user=change.user,
            context=change.context,
            subresource=change.subresource,
            options=change.options.shown("CreateOptions" if operation == CREATE else "UpdateOptions"),
            dry_run=change.options.dry_run,
            normalise=normalise,
            warnings=change.warnings,
        )

    def _merged(self, change: Change, write: Write, parent: Object) -> Object:
        """The parent with what admission changed in its representation."""
        if change.representation is not None and write.obj is not None:
            change.representation.write(parent, write.obj)
        return parent

    def _admitted(self, change: Change, write: Write, managed: Any) -> Object:
        """Return the object after admission, with valid managed fields."""
        obj = cast(Object, write.obj)
        metadata = obj.setdefault("metadata", {})
        now = metadata.get("managedFields")
        if now is not managed and now != managed and (why := fields.invalid_entries(now)):
            metadata["managedFields"] = managed
            change.warnings.append(
                ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated "
                f"mutating admission controller; please fix your requests: {why}"
            )
        change.warn(metas.without_repeated_owners(metadata, admitted=True))
        return obj

    def _refuse(self, change: Change, obj: Object, problems: list[FieldError]) -> None:
        if problems:
            resource = change.resource
            # Events of events.k8s.io are refused under the name of the group that stores them.
            group = resource.strategy.status_group
            raise invalid(
                resource.group if group is None else group, resource.kind, str(meta(obj).get("name") or ""), problems
            )
