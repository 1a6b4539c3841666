"""The types of the built-in kinds, read from `builtin.json` (`make generate`).

The file is parsed, which takes a few milliseconds, when the first type is used. Each type is built when its fields
are used.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from steersman_cluster.schema.types import ANY, ATOMIC_ANY, Type, from_openapi

__all__ = ["builtin", "custom", "definition", "kinds"]

_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
_TIME = "io.k8s.apimachinery.pkg.apis.meta.v1.Time"
_MICRO_TIME = "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime"
_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_RAW = "io.k8s.apimachinery.pkg.runtime.RawExtension"
_SCALARS = {
    _QUANTITY: ("quantity", "resource.Quantity"),
    _INT_OR_STRING: ("int-or-string", "intstr.IntOrString"),
    _TIME: ("time", "v1.Time"),
    _MICRO_TIME: ("micro-time", "v1.MicroTime"),
}


@cache
def _file() -> Mapping[str, Any]:
    return json.loads(files("steersman_cluster.schema").joinpath("builtin.json").read_bytes())


@cache
def definition(name: str) -> Type:
    """The type of an OpenAPI definition (`io.k8s.api.core.v1.PodSpec`); raises KeyError when there is none."""
    if name in _SCALARS:
        scalar, shown = _SCALARS[name]
        return Type({"go": shown}, definition, form="scalar", scalar=scalar)
    if name == _RAW:
        return ATOMIC_ANY
    node = _file()["types"][name]
    package, _, short = name.rpartition(".")
    shown = f"{package.rpartition('.')[2]}.{short}"
    return from_openapi({**node, "go": shown}, definition)


def kinds() -> list[tuple[str, str, str]]:
    """(group, version, kind) of every built-in type, those of options and lists included."""
    return [tuple(key.split("/")) for key in _file()["kinds"]]  # type: ignore[misc]


@cache
def builtin(group: str, version: str, kind: str) -> Type:
    """The type of a built-in kind; raises KeyError when it is none."""
    return definition(_file()["kinds"][f"{group}/{version}/{kind}"])


def custom(schema: Mapping[str, Any] | None, *, preserve: bool = False) -> Type:
    """The type of a custom resource's object, from the `openAPIV3Schema` of one version.

    apiVersion, kind and metadata have their own types, independent of the schema. `None` accepts any object.
    """
    if not schema:
        schema, preserve = {"type": "object"}, True
    properties = {
        **schema.get("properties", {}),
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"$ref": _META},
    }
    return from_openapi({**schema, "properties": properties}, definition, preserve=preserve) if schema else ANY
