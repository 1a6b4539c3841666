"""Deletes: at once, or marked and kept for as long as a grace period or a finalizer asks."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from steersman.devcluster.admission import DELETE, Write
from steersman.devcluster.api.options import DeleteOptions
from steersman.devcluster.api.resources import ResourceType
from steersman.devcluster.api.views import object_of
from steersman.devcluster.errors import conflict, not_found
from steersman.devcluster.objects import Object, meta, uid_of
from steersman.devcluster.storage import Item
from steersman.devcluster.strategy import User, WriteContext

if TYPE_CHECKING:
    from steersman.devcluster.api.server import APIServer

__all__ = ["RETURNED", "Deleted", "Deleter"]

_MODIFIED: Final = "the object has been modified; please apply your changes to the latest version and try again"
_ATTEMPTS: Final = 8

RETURNED: Final = frozenset(
    (
        *(("", name) for name in (
            "namespaces", "persistentvolumeclaims", "persistentvolumes", "pods", "podtemplates", "resourcequotas",
            "serviceaccounts", "services",
        )),
        *(("storage.k8s.io", name) for name in (
            "csidrivers", "csinodes", "storageclasses", "volumeattachments", "volumeattributesclasses",
        )),
        *(("resource.k8s.io", name) for name in (
            "deviceclasses", "resourceclaims", "resourceclaimtemplates", "resourceslices",
        )),
    )
)  # fmt: skip
"""Kinds whose deletes are answered with the object, not with a Status."""


@dataclass(frozen=True, slots=True)
class Deleted:
    """What a delete left: the object's last state, and whether it is gone."""

    obj: Object
    gone: bool


class Deleter:
    """Deletes objects for one API server."""

    def __init__(self, server: APIServer) -> None:
        self._server = server

    async def delete(
        self,
        resource: ResourceType,
        namespace: str,
        name: str,
        options: DeleteOptions,
        user: User,
        context: WriteContext,
        sent: Object,
    ) -> Deleted:
        """Delete one object. Raises `APIError`."""
        server = self._server
        for _ in range(_ATTEMPTS):
            item = server.storage.get(resource.stored_at, namespace, name)
            if item is None:
                raise not_found(resource.group, resource.plural, name)
            obj = object_of(resource, item)
            self._preconditions(resource, name, obj, options)
            write = Write(
                operation=DELETE,
                group=resource.group,
                version=resource.version,
                kind=resource.kind,
                resource=resource.plural,
                namespace=namespace,
                name=name,
                obj=None,
                old=object_of(resource, item),
                user=user,
                context=context,
                options={"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", **sent},
                dry_run=options.dry_run,
            )
            if server.admission.needs_async(write):
                await server.admission.mutate(write)
                await server.admission.validate(write)
                if server.storage.get(resource.stored_at, namespace, name) is not item:
                    continue
            else:
                server.admission.mutate_now(write)
                server.admission.validate_now(write)
            return self._delete(resource, item, obj, options, context)
        raise conflict(resource.group, resource.plural, name, _MODIFIED)

    def _preconditions(self, resource: ResourceType, name: str, obj: Object, options: DeleteOptions) -> None:
        if options.uid is not None and options.uid != uid_of(obj):
            why = f"Precondition failed: UID in precondition: {options.uid}, UID in object meta: {uid_of(obj)}"
            raise conflict(resource.group, resource.plural, name, why)
        version = meta(obj).get("resourceVersion")
        if options.version is not None and options.version != version:
            why = (
                f"Precondition failed: ResourceVersion in precondition: {options.version}, "
                f"ResourceVersion in object meta: {version}"
            )
            raise conflict(resource.group, resource.plural, name, why)

    def _delete(
        self, resource: ResourceType, item: Item, obj: Object, options: DeleteOptions, context: WriteContext
    ) -> Deleted:
        server, metadata = self._server, meta(obj)
        before = object_of(resource, item)
        grace = resource.strategy.grace(obj, options.grace)
        changed = _set_finalizers(metadata, options.policy)
        deleting = metadata.get("deletionTimestamp") is not None
        if deleting:
            left = metadata.get("deletionGracePeriodSeconds") or 0
            if options.grace is not None and grace < left:
                metadata["deletionTimestamp"] = _after(context.now, grace)
                metadata["deletionGracePeriodSeconds"] = grace
            grace = metadata.get("deletionGracePeriodSeconds") or 0
        if not deleting:
            server.ending(resource, obj, context)
        if not (grace > 0 or metadata.get("finalizers") or server.holds(resource, obj)):
            if options.dry_run:
                return Deleted(obj, True)
            last = server.storage.delete(resource.stored_at, item.namespace, item.name)
            gone = object_of(resource, last) if last is not None else obj
            if resource.strategy.graceful:
                # The answer tells of the deletion as if there had been time for it; watchers see what was stored.
                _mark(metadata, context.now, grace, deleting)
                meta(gone).update({name: metadata[name] for name in _MARKS if name in metadata})
            return Deleted(gone, True)
        _mark(metadata, context.now, grace, deleting)
        if options.dry_run or (obj == before and not changed):
            return Deleted(obj, False)
        stored = resource.strategy.to_storage(obj)
        kept = server.storage.put(resource.stored_at, item.namespace, item.name, stored)
        metadata["resourceVersion"] = str(kept.revision)
        return Deleted(obj, False)


_MARKS = ("deletionTimestamp", "deletionGracePeriodSeconds", "generation")


def _mark(metadata: Object, now: str, grace: int, deleting: bool) -> None:
    """Say when an object goes, once."""
    if deleting:
        return
    metadata["deletionTimestamp"] = _after(now, grace)
    metadata["deletionGracePeriodSeconds"] = grace
    if metadata.get("generation"):
        metadata["generation"] += 1


def _set_finalizers(metadata: Object, policy: str) -> bool:
    """Say by finalizers what is to become of the dependents; whether that changed anything."""
    before: list[str] = list(metadata.get("finalizers") or ())
    if not policy:
        return False
    after = [name for name in before if name not in ("foregroundDeletion", "orphan")]
    if policy == "Foreground":
        after.append("foregroundDeletion")
    elif policy == "Orphan":
        after.append("orphan")
    if sorted(after) == sorted(before):
        return False
    if after:
        metadata["finalizers"] = after
    else:
        metadata.pop("finalizers", None)
    return True


def _after(now: str, seconds: int) -> str:
    moment = datetime.fromisoformat(now.replace("Z", "+00:00")) + timedelta(seconds=seconds)
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
