"""Deletes: at once, or marked and kept for as long as a grace period or a finalizer asks.

Follows apiserver's `registry.Store.Delete` and `rest.BeforeDelete`; Namespaces and definitions have their own first
step, as there.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from steersman_cluster.admission import DELETE, Write
from steersman_cluster.api.interfaces import Deleted, ResourceType, Server
from steersman_cluster.api.requests.options import DeleteOptions
from steersman_cluster.api.views import object_of
from steersman_cluster.api.writes import MODIFIED
from steersman_cluster.errors import conflict, not_found
from steersman_cluster.objects import Object, meta, uid_of
from steersman_cluster.storage import Item
from steersman_cluster.strategy import Strategy, User, WriteContext

__all__ = ["RETURNED", "Deleted", "Deleter"]

_ATTEMPTS: Final = 8
_FOREGROUND: Final = "foregroundDeletion"
_ORPHAN: Final = "orphan"
_ORPHANED: Final = frozenset((("", "replicationcontrollers"), ("batch", "jobs")))
"""Kinds that orphan their dependents by default, as before the garbage collector existed."""
_UNCOLLECTED: Final = frozenset((("", "events"), ("events.k8s.io", "events")))
"""Kinds without dependents: no propagation policy leaves a finalizer on them."""
_DELETED_IN_TWO_STEPS: Final = frozenset((("", "namespaces"), ("apiextensions.k8s.io", "customresourcedefinitions")))

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
"""Kinds for which the response of a delete is the object instead of a Status."""


class Deleter:
    """Deletes objects for one API server."""

    def __init__(self, server: Server) -> None:
        self._server = server

    async def delete(
        self,
        resource: ResourceType,
        namespace: str,
        name: str,
        options: DeleteOptions,
        user: User,
        context: WriteContext,
        *,
        collection: bool = False,
    ) -> Deleted:
        """Delete one object. Raises `APIError`."""
        server = self._server
        for _ in range(_ATTEMPTS):
            item = server.storage.get(resource.stored_at, namespace, name)
            if item is None:
                raise not_found(resource.group, resource.plural, name)
            if resource.converts:
                await server.conversions.prepare(resource, (item,))
            obj = object_of(resource, item)
            _check_preconditions(resource, name, obj, options)
            write = Write(
                operation=DELETE,
                group=resource.group,
                version=resource.version,
                kind=resource.kind,
                resource=resource.plural,
                namespace=namespace,
                name="" if collection else name,
                obj=None,
                old=object_of(resource, item),
                user=user,
                context=context,
                options=options.shown(),
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
        raise conflict(resource.group, resource.plural, name, MODIFIED)

    def delete_now(
        self, resource: ResourceType, namespace: str, name: str, options: DeleteOptions, context: WriteContext
    ) -> Deleted:
        """Delete one object that admission has allowed already. Raises `APIError`."""
        item = self._server.storage.get(resource.stored_at, namespace, name)
        if item is None:
            raise not_found(resource.group, resource.plural, name)
        obj = object_of(resource, item)
        _check_preconditions(resource, name, obj, options)
        return self._delete(resource, item, obj, options, context)

    def _delete(
        self, resource: ResourceType, item: Item, obj: Object, options: DeleteOptions, context: WriteContext
    ) -> Deleted:
        metadata = meta(obj)
        if (resource.group, resource.plural) in _DELETED_IN_TWO_STEPS:
            if metadata.get("deletionTimestamp") is None:
                return self._begin(resource, item, obj, options, context)
            if self._server.holds(resource, obj):
                return Deleted(obj, gone=False)
        if type(resource.strategy).grace is not Strategy.grace:
            found = self._gracefully(resource, item, obj, options, context)
            if found is not None:
                return found
        return self._at_once(resource, item, obj, options, context)

    def _begin(
        self, resource: ResourceType, item: Item, obj: Object, options: DeleteOptions, context: WriteContext
    ) -> Deleted:
        """The first step of a Namespace or a definition: marked, and kept until it is empty."""
        metadata = meta(obj)
        metadata["deletionTimestamp"] = context.now
        if resource.plural == "namespaces":
            _set_finalizers(resource, metadata, options)
        self._server.ending(resource, obj, context)
        self._keep(resource, item, obj, options)
        return Deleted(obj, gone=False)

    def _gracefully(
        self, resource: ResourceType, item: Item, obj: Object, options: DeleteOptions, context: WriteContext
    ) -> Deleted | None:
        """A kind that ends in its own time (Pods): `None` where it is to go at once after all."""
        metadata = meta(obj)
        asked = None if options.grace is None else max(options.grace, 1 if options.grace < 0 else 0)
        left = metadata.get("deletionGracePeriodSeconds")
        if metadata.get("deletionTimestamp") is not None:
            if not left:
                return None
            if asked is None or asked >= left:
                return Deleted(obj, gone=False, pending=True)
            moment = max(
                _timestamp(metadata["deletionTimestamp"]) + timedelta(seconds=asked - left), _timestamp(context.now)
            )
            if asked and moment == _timestamp(context.now):
                asked = 1
            metadata["deletionTimestamp"] = _text(moment)
            metadata["deletionGracePeriodSeconds"] = grace = asked
        else:
            grace = resource.strategy.grace(obj, asked)
            metadata["deletionTimestamp"] = _text(_timestamp(context.now) + timedelta(seconds=grace))
            metadata["deletionGracePeriodSeconds"] = grace
            if metadata.get("generation"):
                metadata["generation"] += 1
        _set_finalizers(resource, metadata, options)
        self._keep(resource, item, obj, options)
        if grace or metadata.get("finalizers"):
            return Deleted(obj, gone=False)
        return self._remove(resource, item, obj, options)

    def _at_once(
        self, resource: ResourceType, item: Item, obj: Object, options: DeleteOptions, context: WriteContext
    ) -> Deleted:
        metadata = meta(obj)
        _set_finalizers(resource, metadata, options)
        if not metadata.get("finalizers"):
            return self._remove(resource, item, obj, options)
        if metadata.get("deletionTimestamp") is None:
            metadata["deletionTimestamp"] = context.now
            if metadata.get("generation"):
                metadata["generation"] += 1
        metadata["deletionGracePeriodSeconds"] = 0
        self._keep(resource, item, obj, options)
        return Deleted(obj, gone=False)

    def _keep(self, resource: ResourceType, item: Item, obj: Object, options: DeleteOptions) -> None:
        if options.dry_run or obj == object_of(resource, item):
            return
        # What a delete changes is metadata and status marks that all versions have alike.
        stored = resource.strategy.to_storage(obj)
        if resource.converts:
            stored = {**item.object(), "metadata": obj["metadata"]}
        kept = self._server.storage.put(resource.stored_at, item.namespace, item.name, stored)
        meta(obj)["resourceVersion"] = str(kept.revision)

    def _remove(self, resource: ResourceType, item: Item, obj: Object, options: DeleteOptions) -> Deleted:
        if not options.dry_run:
            last = self._server.storage.delete(resource.stored_at, item.namespace, item.name)
            if last is not None:
                meta(obj)["resourceVersion"] = str(last.revision)
            if (resource.group, resource.plural) == ("", "services"):
                self._server.storage.delete(("", "endpoints"), item.namespace, item.name)
        return Deleted(obj, gone=True)


def _check_preconditions(resource: ResourceType, name: str, obj: Object, options: DeleteOptions) -> None:
    uid, version = uid_of(obj), str(meta(obj).get("resourceVersion"))
    wrong_uid = options.uid is not None and options.uid != uid
    if not wrong_uid and (options.version is None or options.version == version):
        return
    what, wanted, found = ("UID", options.uid, uid) if wrong_uid else ("ResourceVersion", options.version, version)
    if (resource.group, resource.plural) in _DELETED_IN_TWO_STEPS:
        why = f"Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}"
        raise conflict(resource.group, resource.plural, name, why)
    what_happened = "deleted and then recreated" if wrong_uid else "modified"
    why = (
        f"the {what} in the precondition ({wanted}) does not match the {what} in record ({found}). "
        f"The object might have been {what_happened}"
    )
    raise conflict(resource.group, resource.kind, name, why)


def _set_finalizers(resource: ResourceType, metadata: Object, options: DeleteOptions) -> None:
    """Set the finalizers that select how dependents are deleted."""
    place = (resource.group, resource.plural)
    before: list[str] = list(metadata.get("finalizers") or ())
    if place in _UNCOLLECTED:
        wanted = ""
    elif options.orphan is not None:
        wanted = _ORPHAN if options.orphan else (_FOREGROUND if resource.plural == "namespaces" else "")
    elif options.policy:
        wanted = {"Orphan": _ORPHAN, "Foreground": _FOREGROUND}.get(options.policy, "")
    else:
        wanted = next((name for name in before if name in (_ORPHAN, _FOREGROUND)), "")
        if not wanted and place in _ORPHANED:
            wanted = _ORPHAN
    after = [name for name in before if name not in (_ORPHAN, _FOREGROUND)]
    if wanted:
        after.append(wanted)
    if set(after) == set(before):
        return
    if after:
        metadata["finalizers"] = after
    else:
        metadata.pop("finalizers", None)


def _timestamp(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
