"""Verbs that write: create, apply, patch, replace, delete, delete_collection.

Every write passes the gate (rule L2), is reported to the observers before it is sent (rule C2), and names its field
manager. With `want="metadata"` the server returns only the metadata of the object.
"""

from __future__ import annotations

import re
from typing import Any, Literal, Protocol, TypeVar, overload

from steersman.client.core import METADATA, AnyObject, Verbs, accept_for, accept_list_for, outcome_of, target_of
from steersman.client.errors import NotFound, ResponseError
from steersman.client.hooks import WriteOutcome
from steersman.client.lists import read_as, read_object
from steersman.client.options import (
    FieldValidation,
    Labels,
    Preconditions,
    Propagation,
    delete_options,
    list_query,
    write_query,
)
from steersman.client.raw import JSON
from steersman.client.status import StatusDetails
from steersman.client.transport.base import Query
from steersman.models import (
    Key,
    KindLike,
    Model,
    ObjectMeta,
    PartialObjectMetadata,
    Resource,
    ResourceInfo,
    View,
    encode,
    metadata_of,
    view_of,
)
from steersman.models.resource import is_kind

__all__ = ["Patch", "Writes"]

T = TypeVar("T")
R = TypeVar("R", bound=Resource)

APPLY = "application/apply-patch+yaml"


_ESCAPED_FOR_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ufeff]")


def yaml_safe(body: bytes) -> bytes:
    """Escape the characters of JSON that YAML treats as line breaks or refuses.

    The API server parses apply configurations as YAML, which turns a U+0085 inside a string into a space.
    """
    if body.isascii() and body.find(b"\x7f") < 0:
        return body
    return _ESCAPED_FOR_YAML.sub(lambda found: f"\\u{ord(found[0]):04x}", body.decode()).encode()


class _Deleted(Model):
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    details: StatusDetails | None = None


class Patch(Protocol):
    """One of the four kinds of patch: `JsonPatch`, `MergePatch`, `StrategicMergePatch`, `ApplyPatch`."""

    @property
    def content_type(self) -> str:
        """The media type of the patch."""
        ...

    def encode(self) -> bytes:
        """Return the body of the request."""
        ...


class Writes(Verbs):
    """The verbs that write. With `dry_run` the server processes the request but does not store the result."""

    @overload
    async def create(
        self,
        obj: R,
        *,
        kind: None = None,
        want: Literal["object"] = "object",
        dry_run: bool = False,
        field_manager: str | None = None,
        field_validation: FieldValidation | None = None,
        timeout: float = 30.0,
    ) -> R: ...
    @overload
    async def create(
        self,
        obj: AnyObject,
        *,
        kind: KindLike[Any] | None = None,
        want: Literal["metadata"],
        dry_run: bool = False,
        field_manager: str | None = None,
        field_validation: FieldValidation | None = None,
        timeout: float = 30.0,
    ) -> PartialObjectMetadata: ...
    @overload
    async def create(
        self,
        obj: AnyObject,
        *,
        kind: KindLike[T],
        want: Literal["object"] = "object",
        dry_run: bool = False,
        field_manager: str | None = None,
        field_validation: FieldValidation | None = None,
        timeout: float = 30.0,
    ) -> T: ...
    @overload
    async def create(
        self,
        obj: AnyObject,
        *,
        kind: None = None,
        want: Literal["object"] = "object",
        dry_run: bool = False,
        field_manager: str | None = None,
        field_validation: FieldValidation | None = None,
        timeout: float = 30.0,
    ) -> Any: ...
    async def create(
        self,
        obj: AnyObject,
        *,
        kind: KindLike[Any] | None = None,
        want: Literal["object", "metadata"] = "object",
        dry_run: bool = False,
        field_manager: str | None = None,
        field_validation: FieldValidation | None = None,
        timeout: float = 30.0,
    ) -> Any:
        """Create an object in its namespace, or else in that of the configuration.

        Creates are not retried after a lost connection: check whether the object exists after `ConnectionLostError`. A
        mapping is returned as a `Dynamic`, unless `kind` is given. Raises `AlreadyExists`, `Invalid` with causes,
        `Forbidden`.
        """
        target = target_of(obj, kind, self.config.namespace)
        path = target.view.info.path(target.key.namespace)
        query = write_query(
            dry_run=dry_run, field_manager=field_manager or self.field_manager, field_validation=field_validation
        )
        return await self._write(
            "POST",
            path,
            target.view,
            target.key,
            "create",
            query,
            target.encode(),
            JSON,
            want,
            timeout,
            dry_run=dry_run,
            idempotent=False,
        )

    @overload
    async def apply(
        self,
        obj: R,
        *,
        kind: None = None,
        field_manager: str | None = None,
        force: bool = False,
        subresource: str | None = None,
        want: Literal["object"] = "object",
        dry_run: bool = False,
        field_validation: FieldValidation | None = None,
        timeout: float = 30.0,
    ) -> R: ...
    @overload
    async def apply(
        self,
        obj: AnyObject,
        *,
        kind: KindLike[Any] | None = None,
        field_manager: str | None = None,
        force: bool = False,
        subresource: str | None = None,
        want: Literal["metadata"],
        dry_run: bool = False,
        field_validation: FieldValidation | None = None,
        timeout: float = 30.0,
    ) -> PartialObjectMetadata: ...
    @overload
    async def apply(
        self,
        obj: AnyObject,
        *,
        kind: KindLike[T],
        field_manager: str | None = None,
        force: bool = False,
        subresource: str | None = None,
        want: Literal["object"] = "object",
        dry_run: bool = False,
        field_validation: FieldValidation | None = None,
        timeout: float = 30.0,
    ) -> T: ...
    @overload
    async def apply(
        self,
        obj: AnyObject,
        *,
        kind: None = None,
        field_manager: str | None = None,
        force: bool = False,
        subresource: str | None = None,
        want: Literal["object"] = "object",
        dry_run: bool = False,
        field_validation: FieldValidation | None = None,
        timeout: float = 30.0,
    ) -> Any: ...
    async def apply(
        self,
        obj: AnyObject,
        *,
        kind: KindLike[Any] | None = None,
        field_manager: str | None = None,
        force: bool = False,
        subresource: str | None = None,
        want: Literal["object", "metadata"] = "object",
        dry_run: bool = False,
        field_validation: FieldValidation | None = None,
        timeout: float = 30.0,
    ) -> Any:
        """Server-side apply (KEP-555): `obj` has the fields that the field manager declares; creates a missing object.

        Fields that this manager applied before and that `obj` does not have are removed. Raises `Conflict` if another
        manager owns a field with another value, unless `force` is set. A resourceVersion in `obj` is an optimistic
        lock.
        """
        target = target_of(obj, kind, self.config.namespace)
        info = target.view.info
        if not target.key.name:
            raise ValueError(
                f"apply {info.kind}: metadata.name is missing: apply needs a name, create() may generate one"
            )
        path = info.path(target.key.namespace, target.key.name, subresource)
        query = write_query(
            dry_run=dry_run,
            field_manager=field_manager or self.field_manager,
            field_validation=field_validation,
            force=force,
        )
        return await self._write(
            "PATCH",
            path,
            target.view,
            target.key,
            "apply",
            query,
            yaml_safe(target.encode()),
            APPLY,
            want,
            timeout,
            dry_run=dry_run,
            idempotent=True,
        )

    @overload
    async def patch(
        self,
        kind: KindLike[T],
        name: str,
        patch: Patch,
        *,
        namespace: str | None = None,
        subresource: str | None = None,
        want: Literal["object"] = "object",
        dry_run: bool = False,
        field_manager: str | None = None,
        field_validation: FieldValidation | None = None,
        force: bool = False,
        timeout: float = 30.0,
    ) -> T: ...
    @overload
    async def patch(
        self,
        kind: KindLike[Any],
        name: str,
        patch: Patch,
        *,
        namespace: str | None = None,
        subresource: str | None = None,
        want: Literal["metadata"],
        dry_run: bool = False,
        field_manager: str | None = None,
        field_validation: FieldValidation | None = None,
        force: bool = False,
        timeout: float = 30.0,
    ) -> PartialObjectMetadata: ...
    @overload
    async def patch(
        self,
        kind: KindLike[Any],
        name: str,
        patch: Patch,
        *,
        namespace: str | None = None,
        subresource: str | None = None,
        want: Literal["version"],
        dry_run: bool = False,
        field_manager: str | None = None,
        field_validation: FieldValidation | None = None,
        force: bool = False,
        timeout: float = 30.0,
    ) -> WriteOutcome: ...
    def patch(
        self,
        kind: KindLike[Any],
        name: str,
        patch: Patch,
        *,
        namespace: str | None = None,
        subresource: str | None = None,
        want: Literal["object", "metadata", "version"] = "object",
        dry_run: bool = False,
        field_manager: str | None = None,
        field_validation: FieldValidation | None = None,
        force: bool = False,
        timeout: float = 30.0,
    ) -> Any:
        """Patch an object; the class of `patch` is the patch type. `force` applies to apply patches only.

        `want` selects the decoded part of the response: the object, its metadata, or only its uid and resourceVersion.

        Raises `NotFound`, `Invalid` (also if a `test` of a JSON patch fails), `Conflict` (the object does not have the
        patch's resourceVersion), `UnsupportedMediaType` (a strategic merge patch of a custom resource).
        """
        # Not a coroutine, because the call returns one: reconciles that write a status end here.
        view = view_of(kind)
        info = view.info
        if not name:
            raise ValueError(f"patch {info.kind}: the name is empty")
        key = Key(self.namespace_for(info, namespace), name)
        content_type = patch.content_type
        applies = content_type == APPLY
        query = write_query(
            field_manager or self.field_manager, field_validation, dry_run=dry_run, force=force and applies
        )
        path = info.path(key.namespace, name, subresource)
        body = patch.encode()
        if applies:
            body = yaml_safe(body)
        return self._write(
            "PATCH",
            path,
            view,
            key,
            "patch",
            query,
            body,
            content_type,
            want,
            timeout,
            dry_run=dry_run,
            idempotent=None,
        )

    async def replace(
        self,
        obj: R,
        *,
        subresource: str | None = None,
        dry_run: bool = False,
        field_manager: str | None = None,
        field_validation: FieldValidation | None = None,
        timeout: float = 30.0,
    ) -> R:
        """Replace a whole object; its resourceVersion is required and is an optimistic lock.

        Fields that the class of `obj` does not have are lost: prefer `apply` or `patch` (rule A3). Raises `ValueError`
        without a resourceVersion and `Conflict` if the object has changed.
        """
        target = target_of(obj, None, self.config.namespace)
        info = target.view.info
        if not target.key.name or not target.resource_version:
            raise ValueError(
                f"replace {info.kind} {target.key}: metadata.name or metadata.resourceVersion is missing: "
                "replace what you have read, or use apply()"
            )
        path = info.path(target.key.namespace, target.key.name, subresource)
        query = write_query(
            dry_run=dry_run, field_manager=field_manager or self.field_manager, field_validation=field_validation
        )
        return await self._write(
            "PUT",
            path,
            target.view,
            target.key,
            "update",
            query,
            target.encode(),
            JSON,
            "object",
            timeout,
            dry_run=dry_run,
            idempotent=True,
        )

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

    async def _write(
        self,
        method: str,
        path: str,
        view: View[Any],
        key: Key,
        verb: str,
        query: Query,
        body: bytes,
        content_type: str,
        want: str,
        timeout: float,
        *,
        dry_run: bool,
        idempotent: bool | None,
    ) -> Any:
        ended = self.announce(view.info, key, verb, dry_run=dry_run)
        outcome: WriteOutcome | None = None
        try:
            response = await self.raw.request(
                method,
                path,
                query=query,
                body=body,
                accept=accept_for(view) if want == "object" else METADATA,
                content_type=content_type,
                timeout=timeout,
                idempotent=idempotent,
            )
            data = response.body
            if want == "version":
                outcome = outcome_of(data)
                return outcome
            if want == "metadata":
                try:
                    answer = read_as(PartialObjectMetadata, data, f"{method} {path}")
                except ResponseError:
                    outcome = outcome_of(data)
                    raise
                outcome = WriteOutcome(answer.metadata.uid, answer.metadata.resource_version)
                return answer
            if ended:
                outcome = outcome_of(data)
        finally:
            self.report(ended, outcome)
        return read_object(view, data, f"{method} {path}")


def _deletion(body: bytes) -> WriteOutcome:
    """Return the result of a delete: a Status means that the object was removed, an object that it still exists."""
    answer = read_as(_Deleted, body, "DELETE")
    if answer.kind == "Status":
        return WriteOutcome(answer.details.uid if answer.details else "", "", deleted=True)
    metadata = answer.metadata
    waits_for_nothing = metadata.deletion_grace_period_seconds == 0 and not metadata.finalizers
    gone = metadata.deletion_timestamp is None or waits_for_nothing
    return WriteOutcome(metadata.uid, metadata.resource_version, deleted=gone)
