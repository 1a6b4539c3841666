"""Verbs that write objects: create, apply, patch, replace.

Every write passes the gate (rule L2), is reported to the observers before it is sent (rule C2), and names its field
manager. With `want="metadata"` the server returns only the metadata of the object.
"""

from __future__ import annotations

import re
from typing import Any, Literal, Protocol, TypeVar, overload

from steersman.client.core import METADATA, AnyObject, Verbs, accept_for, outcome_of, target_of
from steersman.client.errors import ResponseError
from steersman.client.hooks import WriteOutcome
from steersman.client.lists import read_as, read_object
from steersman.client.options import (
    FieldValidation,
    write_query,
)
from steersman.client.raw import JSON
from steersman.client.transport.base import Query
from steersman.models import (
    Key,
    KindLike,
    PartialObjectMetadata,
    Resource,
    View,
    view_of,
)

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
