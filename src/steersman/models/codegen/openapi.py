"""Converts OpenAPI v3 documents of an API server, with its aggregated discovery, to modules: one per group version."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from steersman.models.codegen.builder import Builder, Schema
from steersman.models.codegen.ir import ModuleDef, Ref, ResourceDef

__all__ = ["WELL_KNOWN", "modules_from_openapi"]

_META = "io.k8s.apimachinery.pkg.apis.meta.v1"
_CRD = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1"

WELL_KNOWN: dict[str, str] = {
    **{
        f"{_META}.{name}": f"steersman.models.meta.{name}"
        for name in (
            "Condition",
            "LabelSelector",
            "LabelSelectorRequirement",
            "ListMeta",
            "ObjectMeta",
            "OwnerReference",
        )
    },
    f"{_META}.Time": "datetime.datetime",
    f"{_META}.MicroTime": "steersman.models.times.MicroTime",
    f"{_META}.Duration": "steersman.models.times.Duration",
    f"{_META}.FieldsV1": "typing.Any",
    f"{_META}.Patch": "typing.Any",
    "io.k8s.apimachinery.pkg.api.resource.Quantity": "steersman.models.quantity.Quantity",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": "steersman.models.intstr.IntOrString",
    "io.k8s.apimachinery.pkg.runtime.RawExtension": "typing.Any",
    f"{_CRD}.JSON": "typing.Any",
    f"{_CRD}.JSONSchemaPropsOrArray": "JSONSchemaProps | tuple[JSONSchemaProps, ...]",
    f"{_CRD}.JSONSchemaPropsOrBool": "JSONSchemaProps | bool",
    f"{_CRD}.JSONSchemaPropsOrStringArray": "JSONSchemaProps | tuple[str, ...]",
    f"{_CRD}.CustomResourceSubresourceStatus": "typing.Any",
}
"""Schemas that are existing types, or plain data."""

_HIDDEN = {"io.k8s.api.core.v1.Secret": ("data", "stringData")}
_IDENTITY = frozenset({"apiVersion", "kind", "metadata"})


def modules_from_openapi(
    documents: Iterable[Mapping[str, Any]],
    discovery: Iterable[Mapping[str, Any]] = (),
    *,
    package: str,
    library: str = "steersman.k8s",
) -> list[ModuleDef]:
    """Return the modules of all schemas in `documents`, in `package`.

    `discovery` has `APIGroupDiscoveryList`s; the plurals of kinds that it does not serve as resources are guessed.
    Built-in types are imported from `library` unless `package` is the library. List kinds are left out.
    """
    schemas: dict[str, Schema] = {}
    for document in documents:
        schemas.update(document.get("components", {}).get("schemas", {}))
    served = _served(discovery)
    homes = {name: Ref(_module(name, package, library), name.rpartition(".")[2]) for name in schemas}
    builder = Builder(schemas, well_known=WELL_KNOWN, homes=homes, hidden=_HIDDEN)
    for name in sorted(schemas):
        home = homes[name]
        if not home.module.startswith(f"{package}."):
            continue
        group_version = home.module.rpartition(".")[2].replace("_", "/")
        module = builder.module(home.module, f"The types of {group_version}.")
        schema = schemas[name]
        if (known := WELL_KNOWN.get(name)) is not None:
            if known.startswith("steersman.models.meta."):
                module.reexports[home.name] = Ref("steersman.models.meta", home.name)
            continue
        if _is_list(schema) or not schema.get("properties"):
            continue
        kind = _kind(schema, served)
        cls = builder.define(home, schema, name=name, skip=_IDENTITY if kind else frozenset())
        cls.resource = kind
        for f in cls.fields:
            # Go embeds spec and status by value, so the server always sends them.
            if kind and f.wire in ("spec", "status") and f.struct and f.default == "None":
                f.annotation, f.default, f.wants_instance = f.annotation.removesuffix(" | None"), None, True
    builder.finish()
    return [module for module in builder.modules.values() if module.classes or module.reexports]


def _module(schema_name: str, package: str, library: str) -> str:
    *_, area, version, _kind = schema_name.split(".")
    own = package if package == library or not schema_name.startswith("io.k8s.") else library
    return f"{own}.{area.replace('-', '_')}_{version}"


def _is_list(schema: Schema) -> bool:
    properties = schema.get("properties", {})
    return "items" in properties and "metadata" in properties and bool(_gvks(schema))


def _gvks(schema: Schema) -> list[Mapping[str, str]]:
    return list(schema.get("x-kubernetes-group-version-kind", ()))


def _kind(schema: Schema, served: Mapping[tuple[str, str, str], ResourceDef]) -> ResourceDef | None:
    gvks = _gvks(schema)
    metadata = schema.get("properties", {}).get("metadata", {})
    if len(gvks) != 1 or "ObjectMeta" not in str(metadata):
        return None
    group, version, kind = gvks[0]["group"], gvks[0]["version"], gvks[0]["kind"]
    return served.get((group, version, kind)) or ResourceDef(group, version, kind)


def _served(discovery: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str, str], ResourceDef]:
    found: dict[tuple[str, str, str], ResourceDef] = {}
    for document in discovery:
        for item in document["items"]:
            group = item.get("metadata", {}).get("name", "")
            for served in item["versions"]:
                for resource in served.get("resources", ()):
                    kind = resource["responseKind"]["kind"]
                    subresources = {s["subresource"] for s in resource.get("subresources", ())}
                    found[group, served["version"], kind] = ResourceDef(
                        group=group,
                        version=served["version"],
                        kind=kind,
                        plural=resource["resource"],
                        singular=resource.get("singularResource") or None,
                        short_names=tuple(resource.get("shortNames", ())),
                        categories=tuple(resource.get("categories", ())),
                        namespaced=resource["scope"] == "Namespaced",
                        has_status="status" in subresources,
                        scale=("spec.replicas", "status.replicas", None) if "scale" in subresources else None,
                    )
    return found
