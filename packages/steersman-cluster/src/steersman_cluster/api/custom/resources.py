"""The resource types of a CustomResourceDefinition: one for each served version."""

from __future__ import annotations

from typing import cast

from steersman_cluster.api.interfaces import ResourceType, Subresource
from steersman_cluster.crd import FINALIZER, CustomStrategy
from steersman_cluster.objects import Object, dig, meta
from steersman_cluster.schema import custom

__all__ = ["resource_types"]

_VERBS = frozenset(("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"))


def _storage_version(definition: Object) -> str:
    """Return the version in which the objects are stored."""
    return next(version["name"] for version in definition["spec"]["versions"] if version.get("storage") is True)


def resource_types(definition: Object) -> list[ResourceType]:
    """Return the resource types to register for a valid definition; none while its names are not accepted.

    The names are those of `status.acceptedNames`. While the definition is terminating, its objects can be read and
    deleted, but not created.
    """
    spec = cast(Object, definition["spec"])
    names = cast(Object, dig(definition, "status", "acceptedNames", default={}))
    if not names.get("plural") or not names.get("kind"):
        return []
    terminating = meta(definition).get("deletionTimestamp") and FINALIZER in (meta(definition).get("finalizers") or [])
    verbs = _VERBS - {"create"} if terminating else _VERBS
    preserve = spec.get("preserveUnknownFields") is True
    found: list[ResourceType] = []
    for version in cast("list[Object]", spec["versions"]):
        if version.get("served") is not True:
            continue
        strategy = CustomStrategy(definition, version)
        subresources: dict[str, Subresource] = {}
        if strategy.has_status:
            subresources["status"] = Subresource()
        if strategy.scale is not None:
            subresources["scale"] = Subresource(group="autoscaling", version="v1", kind="Scale")
        found.append(
            ResourceType(
                group=spec["group"],
                version=version["name"],
                plural=names["plural"],
                singular=names.get("singular") or "",
                kind=names["kind"],
                namespaced=spec["scope"] == "Namespaced",
                verbs=verbs,
                strategy=strategy,
                type=custom(dig(version, "schema", "openAPIV3Schema"), preserve=preserve),
                short_names=tuple(names.get("shortNames") or ()),
                categories=tuple(names.get("categories") or ()),
                subresources=subresources,
                storage_version=_storage_version(definition),
                definition=definition,
            )
        )
    return found
