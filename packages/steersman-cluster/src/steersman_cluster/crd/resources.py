"""From a CustomResourceDefinition to what the API server serves: one resource type per served version."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from steersman_cluster.crd.lifecycle import FINALIZER
from steersman_cluster.crd.strategy import CustomStrategy
from steersman_cluster.objects import Object, dig, meta
from steersman_cluster.schema import custom

if TYPE_CHECKING:
    from steersman_cluster.api.resources import ResourceType

__all__ = ["resource_types", "storage_version", "strategies"]

_VERBS = frozenset(("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"))


def storage_version(definition: Object) -> str:
    """The version that objects are stored in."""
    return next(version["name"] for version in definition["spec"]["versions"] if version.get("storage") is True)


def strategies(definition: Object) -> dict[str, CustomStrategy]:
    """A strategy for each version, the served and the others, which conversion may need."""
    return {version["name"]: CustomStrategy(definition, version) for version in definition["spec"]["versions"]}


def resource_types(definition: Object) -> list[ResourceType]:
    """What to register for a definition; empty while its names are not accepted.

    Names are the accepted ones. Raises nothing for a definition that was validated. While the definition is being
    deleted, objects can be read and deleted, but not created.
    """
    # The API server's core imports this room, hence not at the top.
    from steersman_cluster.api.resources import ResourceType, Subresource

    spec = cast(Object, definition["spec"])
    names = cast(Object, dig(definition, "status", "acceptedNames", default={}))
    if not names.get("plural") or not names.get("kind"):
        return []
    ending = meta(definition).get("deletionTimestamp") and FINALIZER in (meta(definition).get("finalizers") or [])
    verbs = _VERBS - {"create"} if ending else _VERBS
    preserve = spec.get("preserveUnknownFields") is True
    found: list[ResourceType] = []
    for version in cast("list[Object]", spec["versions"]):
        if version.get("served") is not True:
            continue
        strategy = CustomStrategy(definition, version)
        doors: dict[str, Subresource] = {}
        if strategy.has_status:
            doors["status"] = Subresource()
        if strategy.scale is not None:
            doors["scale"] = Subresource(group="autoscaling", version="v1", kind="Scale")
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
                subresources=doors,
                storage_version=storage_version(definition),
                definition=definition,
            )
        )
    return found
