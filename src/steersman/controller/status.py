"""Writing status: only when it changes, in one request, against the object that was read (A2, A3).

The patch is the smallest merge patch from the status as read to the status as wanted. It carries the uid, so that a
namesake is never written to, and the resourceVersion when it replaces a list, since a merge patch cannot merge lists.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeVar, cast

import msgspec

from steersman.client.errors import NotFound
from steersman.controller.request import TerminalError
from steersman.models import (
    Condition,
    KindLike,
    PartialObjectMetadata,
    Resource,
    info_of,
    metadata_of,
    replace,
    to_dict,
)
from steersman.models.conditions import merge_conditions
from steersman.models.patches import MergePatch
from steersman.telemetry.clock import Now, utc_now

__all__ = ["NoStatusSubresource", "PatchClient", "patch_status", "prepared"]

R = TypeVar("R", bound=Resource)


class PatchClient(Protocol):
    """What writers of status and finalizers need of the client."""

    async def patch(
        self,
        kind: KindLike[Any],
        name: str,
        patch: Any,
        namespace: str | None = None,
        *,
        subresource: str | None = None,
        want: Any = "object",
        field_manager: str | None = None,
    ) -> Any: ...


class StatusClient(PatchClient, Protocol):
    """What `patch_status` needs of the client."""

    async def get(self, kind: KindLike[Any], name: str, namespace: str | None = None) -> Any: ...


class NoStatusSubresource(TerminalError):  # noqa: N818 - says what is missing
    """The kind in the cluster has no status sub-resource, though the class has a status. Retrying cannot help."""

    def __init__(self, kind: str, crd: str) -> None:
        super().__init__(
            f"the CustomResourceDefinition {crd} has no status sub-resource, so the status of {kind} cannot be "
            "written: add `subresources: {status: {}}` to its version, for example with `steersman manifests`",
            reason="NoStatusSubresource",
        )


def prepared(old: Any, new: Any, generation: int, now: Now) -> Any:
    """`new` as it is written: transition times kept from `old`, `observedGeneration` filled in where it is open."""
    fields: tuple[str, ...] = getattr(new, "__struct_fields__", ())
    changes: dict[str, Any] = {}
    if "observed_generation" in fields and not new.observed_generation:
        changes["observed_generation"] = generation
    conditions = getattr(new, "conditions", None) if "conditions" in fields else None
    if conditions and isinstance(conditions[0], Condition):
        before = getattr(old, "conditions", ()) if type(old) is type(new) else ()
        merged = merge_conditions(before, conditions, now(), generation)
        if merged != conditions:
            changes["conditions"] = merged
    return replace(new, **changes) if changes else new


def _has_list(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(_has_list(v) for v in cast("Mapping[str, Any]", value).values())
    return isinstance(value, list)


def status_patch(obj: Any, old: Any, new: Any) -> MergePatch | None:
    """The patch of `/status`, or None when there is nothing to write."""
    before, after = (to_dict(v) if v is not None else {} for v in (old, new))
    body = cast("dict[str, Any]", MergePatch.diff(before, after).body)
    if not body:
        return None
    metadata: dict[str, Any] = {"uid": obj.metadata.uid} if obj.metadata.uid else {}
    if obj.metadata.resource_version and _touches_list(before, body):
        metadata["resourceVersion"] = obj.metadata.resource_version
    return MergePatch({"metadata": metadata, "status": body} if metadata else {"status": body})


def _touches_list(before: Any, body: Mapping[str, Any]) -> bool:
    """Whether the patch replaces or removes a list."""
    present = cast("Mapping[str, Any]", before if isinstance(before, Mapping) else {})
    for name, value in body.items():
        if _has_list(value) or (value is None and _has_list(present.get(name))):
            return True
        if isinstance(value, Mapping) and _touches_list(present.get(name), cast("Mapping[str, Any]", value)):
            return True
    return False


async def _exists(client: StatusClient, obj: Resource) -> bool:
    metadata = obj.metadata
    try:
        found: PartialObjectMetadata = await client.get(
            metadata_of(type(obj)), metadata.name, metadata.namespace or None
        )
    except NotFound:
        return False
    return found.metadata.uid == metadata.uid


async def patch_status(
    client: StatusClient,
    obj: R,
    status: Any,
    *,
    now: Now = utc_now,
    field_manager: str | None = None,
) -> R | None:
    """Write `status` to the object as it was read; nothing is sent when it is that already.

    Fills in `observed_generation` where the type has it and it is left open, and keeps the transition times of
    conditions whose status stays. Returns `obj` with the status that is live, or None when the object is gone.
    Raises `Conflict` when lists are replaced and the object has changed since, `NoStatusSubresource` when the
    cluster's CustomResourceDefinition does not have one, `TypeError` when the class has no status.
    """
    info = info_of(obj)
    if not info.has_status or "status" not in getattr(type(obj), "__struct_fields__", ()):
        raise TypeError(f"{info.kind} has no status: give the class a `status` field, or return nothing")
    old: Any = cast(Any, obj).status
    if isinstance(status, msgspec.Struct):
        status = prepared(old, status, obj.metadata.generation, now)
    patch = status_patch(obj, old, status)
    if patch is None:
        return obj
    metadata = obj.metadata
    try:
        answer = await client.patch(
            type(obj),
            metadata.name,
            patch,
            metadata.namespace or None,
            subresource="status",
            want="metadata",
            field_manager=field_manager,
        )
    except NotFound as problem:
        # A missing sub-resource and a missing object are answered in the same words.
        if await _exists(client, obj):
            raise NoStatusSubresource(info.kind, info.crd_name) from problem
        return None
    written = replace(metadata, resource_version=answer.metadata.resource_version)
    return replace(obj, metadata=written, status=status)
