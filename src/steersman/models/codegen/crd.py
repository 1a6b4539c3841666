"""CustomResourceDefinitions to modules: one per group and version, one class per kind and nested object."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from steersman.models.codegen.builder import Builder, CodegenError
from steersman.models.codegen.ir import ModuleDef, Ref, ResourceDef

__all__ = ["modules_from_crds"]


def modules_from_crds(crds: Iterable[Mapping[str, Any]], *, package: str) -> list[ModuleDef]:
    """The modules of all versions of `crds`, named after the first label of the group and the version.

    Raises `CodegenError` for anything but `apiextensions.k8s.io/v1`, and for versions without a schema.
    """
    builder = Builder({}, well_known={}, homes={})
    for crd in sorted(crds, key=lambda c: str(c.get("metadata", {}).get("name", ""))):
        _add(builder, crd, package)
    builder.finish()
    return list(builder.modules.values())


def _add(builder: Builder, crd: Any, package: str) -> None:
    name: str = crd.get("metadata", {}).get("name", "?")
    if (crd.get("apiVersion"), crd.get("kind")) != ("apiextensions.k8s.io/v1", "CustomResourceDefinition"):
        raise CodegenError(f"{name}: not an apiextensions.k8s.io/v1 CustomResourceDefinition")
    spec = crd["spec"]
    group, names = spec["group"], spec["names"]
    for version in spec["versions"]:
        wrapper: dict[str, Any] = version.get("schema") or {}
        schema = wrapper.get("openAPIV3Schema")
        if schema is None:
            raise CodegenError(f"{name}: version {version['name']} has no schema.openAPIV3Schema")
        path = f"{package}.{group.split('.')[0].replace('-', '_')}_{version['name']}"
        builder.module(path, f"The types of {group}/{version['name']}.")
        cls = builder.define(Ref(path, names["kind"]), schema, skip=frozenset({"apiVersion", "kind", "metadata"}))
        subresources: dict[str, Any] = version.get("subresources") or {}
        scale: dict[str, str] | None = subresources.get("scale")
        cls.resource = ResourceDef(
            group=group,
            version=version["name"],
            kind=names["kind"],
            plural=names["plural"],
            singular=names.get("singular"),
            short_names=tuple(names.get("shortNames") or ()),
            categories=tuple(names.get("categories") or ()),
            namespaced=spec["scope"] == "Namespaced",
            has_status="status" in subresources,
            scale=_scale(scale) if scale else None,
        )
        for f in cls.fields:
            if f.wire in ("spec", "status") and f.struct and f.default == "None":
                f.annotation, f.default, f.wants_instance = f.annotation.removesuffix(" | None"), None, True


def _scale(paths: Mapping[str, str]) -> tuple[str, str, str | None]:
    selector = paths.get("labelSelectorPath", "").removeprefix(".")
    spec, status = paths["specReplicasPath"], paths["statusReplicasPath"]
    return spec.removeprefix("."), status.removeprefix("."), selector or None
