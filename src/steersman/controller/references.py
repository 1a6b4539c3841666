"""Object references: how one object names another, for Events and for fields of API types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from steersman.models import info_of

if TYPE_CHECKING:
    from steersman.k8s.core_v1 import ObjectReference

__all__ = ["group_version_kind", "object_reference"]


def group_version_kind(obj: Any) -> tuple[str, str]:
    """Return `apiVersion` and `kind` of an object, typed or dynamic."""
    if hasattr(obj, "__resource__"):
        info = info_of(obj)
        return info.api_version, info.kind
    return str(obj.api_version), str(obj.kind)


def object_reference(obj: Any, *, field_path: str = "") -> ObjectReference:
    """Return a reference to an object, for fields such as `targetRef` of endpoints or `regarding` of Events.

    Args:
        obj: The object, typed or dynamic.
        field_path: The part of the object, such as `spec.containers{app}`.
    """
    from steersman.k8s.core_v1 import ObjectReference  # the models of the core kinds take time to load

    api_version, kind = group_version_kind(obj)
    metadata = obj.metadata
    return ObjectReference(
        api_version=api_version,
        kind=kind,
        namespace=metadata.namespace or None,
        name=metadata.name,
        uid=metadata.uid or None,
        resource_version=metadata.resource_version or None,
        field_path=field_path or None,
    )
