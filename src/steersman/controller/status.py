"""Writes status: only if it changes, in one request, to the object that was read (A2, A3).

The patch is the smallest merge patch from the old to the new status. It has the uid, so that another object of the same
name is never changed. It has the resourceVersion if it replaces a list, because a merge patch cannot merge lists.
"""

from __future__ import annotations

from typing import Any, Final, Protocol, TypeVar, cast

import msgspec

from steersman.client.errors import NotFound
from steersman.controller.protocols import Entry
from steersman.controller.request import Result, StatusWritten, TerminalError
from steersman.controller.status_diff import difference
from steersman.controller.status_patch import StatusPatch
from steersman.models import (
    Condition,
    KindLike,
    PartialObjectMetadata,
    Resource,
    encode,
    metadata_of,
    replace,
)
from steersman.models.conditions import merge_conditions
from steersman.models.memo import Memo
from steersman.telemetry.clock import Now, utc_now

__all__ = ["NoStatusSubresourceError", "PatchClient", "patch_status", "prepare_status", "write_status"]

R = TypeVar("R", bound=Resource)


class PatchClient(Protocol):
    """The part of a client that writes of status and finalizers use."""

    async def patch(
        self,
        kind: KindLike[Any],
        name: str,
        patch: Any,
        *,
        namespace: str | None = None,
        subresource: str | None = None,
        want: Any = "object",
        field_manager: str | None = None,
    ) -> Any:
        """Patch one object."""
        ...


class StatusClient(PatchClient, Protocol):
    """The part of a client that `patch_status` uses."""

    async def get(self, kind: KindLike[Any], name: str, *, namespace: str | None = None) -> Any:
        """Return one object."""
        ...


class NoStatusSubresourceError(TerminalError):
    """The CustomResourceDefinition has no status subresource, but the class has a status; a retry does not help."""

    def __init__(self, kind: str, crd: str) -> None:
        super().__init__(
            f"the CustomResourceDefinition {crd} has no status subresource, so the status of {kind} cannot be "
            "written: add `subresources: {status: {}}` to its version, for example with `steersman manifests`",
            reason="NoStatusSubresource",
        )


def prepare_status(old: Any, new: Any, generation: int, now: Now) -> Any:
    """Return `new` with transition times from `old`, and with `observedGeneration` if it is unset."""
    observes, has_conditions = _conventions[new.__class__]
    changes: dict[str, Any] = {}
    if observes and not new.observed_generation and generation:
        changes["observed_generation"] = generation
    if has_conditions and (conditions := new.conditions) and isinstance(conditions[0], Condition):
        before = getattr(old, "conditions", ()) if type(old) is type(new) else ()
        merged = merge_conditions(before, conditions, now(), generation)
        if merged != conditions:
            changes["conditions"] = merged
    return replace(new, **changes) if changes else new


def _conventions_of(kind: type[Any]) -> tuple[bool, bool]:
    fields: tuple[str, ...] = kind.__struct_fields__
    return "observed_generation" in fields, "conditions" in fields


_conventions: Final[Memo[Any, tuple[bool, bool]]] = Memo(_conventions_of, 4096)


def status_patch(obj: Any, old: Any, new: Any) -> StatusPatch | None:
    """Return the patch of `/status`, or `None` if nothing changes."""
    body, lists = difference(old, new)
    if not body:
        return None
    uid, version = obj.metadata.uid, obj.metadata.resource_version
    metadata: dict[str, Any] = {"uid": uid} if uid else {}
    if version and lists:
        metadata["resourceVersion"] = version
    return StatusPatch(encode({"metadata": metadata, "status": body} if metadata else {"status": body}))


async def _exists(client: StatusClient, obj: Resource) -> bool:
    metadata = obj.metadata
    try:
        found: PartialObjectMetadata = await client.get(
            metadata_of(type(obj)), metadata.name, namespace=metadata.namespace
        )
    except NotFound:
        return False
    return found.metadata.uid == metadata.uid


async def write_status(
    client: StatusClient,
    obj: Resource,
    status: Any,
    *,
    now: Now = utc_now,
    field_manager: str | None = None,
    after: float | None = None,
    before: Entry | None = None,
) -> Result | None:
    """Write the status at the end of a reconcile that runs again in `after` seconds.

    `before` is the entry of `obj`, from which the event of the write is recognised. Returns a `StatusWritten`, or a
    `Result` or `None` if the object is deleted.
    """
    kind = obj.__class__
    info = kind.__resource__
    if not info.has_status or "status" not in kind.__struct_fields__:
        raise TypeError(f"{info.kind} has no status: give the class a `status` field, or return nothing")
    metadata = obj.metadata
    old: Any = getattr(obj, "status")  # noqa: B009 - `Resource` itself has no status
    if isinstance(status, msgspec.Struct):
        status = prepare_status(old, status, metadata.generation, now)
    patch = status_patch(obj, old, status)
    if patch is None:
        return StatusWritten(after, old, resource_version=metadata.resource_version)
    try:
        answer = await client.patch(
            kind,
            metadata.name,
            patch,
            namespace=metadata.namespace,
            subresource="status",
            want="version",
            field_manager=field_manager,
        )
    except NotFound as problem:
        # The response is the same for a missing subresource and a missing object.
        if await _exists(client, obj):
            raise NoStatusSubresourceError(info.kind, info.crd_name) from problem
        return None if after is None else Result(after)
    version = answer.resource_version
    if version == metadata.resource_version:
        before = None
    return StatusWritten(after, status, resource_version=version, uid=metadata.uid, before=before)


async def patch_status(
    client: StatusClient,
    obj: R,
    status: Any,
    *,
    now: Now = utc_now,
    field_manager: str | None = None,
) -> R | None:
    """Write `status` to an object; nothing is sent if it is unchanged.

    Sets `observed_generation` if the type has it and it is unset. Keeps the transition times of conditions whose status
    is unchanged. Returns `obj` with the new status, or `None` if the object is deleted.

    Raises:
        Conflict: The patch replaces a list, and the object has changed since it was read.
        NoStatusSubresourceError: The CustomResourceDefinition has no status subresource.
        TypeError: The class has no status.
    """
    written = await write_status(client, obj, status, now=now, field_manager=field_manager)
    if not isinstance(written, StatusWritten):
        return None
    metadata = obj.metadata
    if written.resource_version == metadata.resource_version and written.status is cast(Any, obj).status:
        return obj
    metadata = replace(metadata, resource_version=written.resource_version)
    return replace(obj, metadata=metadata, status=written.status)
