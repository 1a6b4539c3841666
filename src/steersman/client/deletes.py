"""Verbs that delete: delete, delete_collection. They pass the gate and are reported as writes are."""

from __future__ import annotations

from typing import Any, TypeVar

from steersman.client.core import Verbs, accept_list_for, target_of
from steersman.client.errors import NotFound
from steersman.client.hooks import WriteOutcome
from steersman.client.lists import read_as
from steersman.client.options import Labels, Preconditions, Propagation, delete_options, list_query
from steersman.client.status import StatusDetails
from steersman.models import Key, KindLike, Model, ObjectMeta, Resource, ResourceInfo, encode, metadata_of, view_of
from steersman.models.resource import is_kind

__all__ = ["Deletes"]

T = TypeVar("T")


class _Deleted(Model):
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    details: StatusDetails | None = None


class Deletes(Verbs):
    """The verbs that delete. With `dry_run` the server processes the request but deletes nothing."""

    async def delete(
        self,
        what: KindLike[T] | Resource,
        name: str = "",
        *,
        namespace: str | None = None,
        propagation: Propagation | None = None,
        preconditions: Preconditions | None = None,
        grace_period: int | None = None,
        dry_run: bool = False,
        missing_ok: bool = False,
        timeout: float = 30.0,
    ) -> bool:
        """Delete an object; return True if it was removed, False if finalizers delay the removal.

        The object is given itself or by kind and name. The uid of an object that was read is a precondition, so that a
        newer object of the same name is not deleted (`Conflict`). `grace_period` is in seconds. Raises `NotFound`
        unless `missing_ok` is set (then True is returned).
        """
        if is_kind(what):
            info = view_of(what).info
            key, uid = Key(self.namespace_for(info, namespace), name), ""
        else:
            target = target_of(what, None, self.config.namespace)
            info, key, uid = target.view.info, target.key, target.uid
            if name or namespace:
                raise TypeError("delete(object) takes name and namespace from the object: leave them out")
        if not key.name:
            raise ValueError(f"delete {info.kind}: the name is empty; use delete_collection() for many")
        if preconditions is None and uid:
            preconditions = Preconditions(uid=uid)
        options = delete_options(
            propagation=propagation, preconditions=preconditions, grace_period=grace_period, dry_run=dry_run
        )
        try:
            return await self._delete(info, key, options, preconditions, timeout, dry_run=dry_run)
        except NotFound as missing:
            if missing_ok and not missing.kind_is_missing:
                return True
            raise

    async def _delete(
        self,
        info: ResourceInfo,
        key: Key,
        options: dict[str, Any],
        preconditions: Preconditions | None,
        timeout: float,
        *,
        dry_run: bool,
    ) -> bool:
        ended = self.announce(info, key, "delete", dry_run=dry_run)
        outcome: WriteOutcome | None = None
        try:
            response = await self.raw.request(
                "DELETE",
                info.path(key.namespace, key.name),
                body=encode(options) if options else None,
                timeout=timeout,
                # Without a uid, a second attempt could delete a new object of the same name.
                idempotent=bool(preconditions and preconditions.uid),
            )
            outcome = _deletion(response.body)
            return outcome.deleted
        finally:
            self.report(ended, outcome)

    async def delete_collection(
        self,
        kind: KindLike[Any],
        *,
        namespace: str | None = None,
        labels: Labels = None,
        fields: Labels = None,
        propagation: Propagation | None = None,
        grace_period: int | None = None,
        dry_run: bool = False,
        timeout: float = 60.0,
    ) -> None:
        """Delete all objects that match the selectors, in a namespace (by default that of the configuration).

        The server deletes them one by one and stops at the first refusal. Without selectors all objects are deleted.
        """
        info = view_of(kind).info
        key = Key(self.list_namespace(info, namespace), "")
        options = delete_options(propagation=propagation, grace_period=grace_period, dry_run=dry_run)
        ended = self.announce(info, key, "delete", dry_run=dry_run)
        try:
            await self.raw.request(
                "DELETE",
                info.path(key.namespace),
                query=list_query(labels=labels, fields=fields),
                body=encode(options) if options else None,
                accept=accept_list_for(metadata_of(view_of(kind))),
                timeout=timeout,
            )
        finally:
            self.report(ended, None)


def _deletion(body: bytes) -> WriteOutcome:
    """Return the result of a delete: a Status means that the object was removed, an object that it still exists."""
    answer = read_as(_Deleted, body, "DELETE")
    if answer.kind == "Status":
        return WriteOutcome(answer.details.uid if answer.details else "", "", deleted=True)
    metadata = answer.metadata
    waits_for_nothing = metadata.deletion_grace_period_seconds == 0 and not metadata.finalizers
    gone = metadata.deletion_timestamp is None or waits_for_nothing
    return WriteOutcome(metadata.uid, metadata.resource_version, deleted=gone)
