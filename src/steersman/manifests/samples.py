"""A small example object of a kind, from its schema: what is required, and nothing else.

For places where an example must stand and nobody has written one (`config/samples` is better). Values follow the
schema's type, enum, bounds and default; texts with a pattern may need an edit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from steersman.manifests.parts import Parts
from steersman.manifests.shapes import resolved

__all__ = ["examples", "sample"]

_FORMATS: Final = {
    "date-time": "2025-01-01T00:00:00Z",
    "date": "2025-01-01",
    "duration": "1m0s",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "byte": "",
    "uri": "https://example.com",
    "email": "someone@example.com",
    "ipv4": "192.0.2.1",
    "quantity": "1",
}


def sample(crd: Mapping[str, Any], version: str) -> dict[str, Any]:
    """An example of one version of the definition; namespaced kinds are in no namespace."""
    spec = crd["spec"]
    schema = next(v["schema"]["openAPIV3Schema"] for v in spec["versions"] if v["name"] == version)
    found: dict[str, Any] = {
        "apiVersion": f"{spec['group']}/{version}",
        "kind": spec["names"]["kind"],
        "metadata": {"name": f"{spec['names']['singular']}-sample"},
    }
    properties: dict[str, Any] = schema.get("properties") or {}
    for name, value in properties.items():
        if name not in ("apiVersion", "kind", "metadata", "status") and (
            name in (schema.get("required") or ()) or name == "spec"
        ):
            found[name] = _value(value)
    return found


def examples(parts: Parts, given: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One for every version that is served, sorted."""
    written = {(one.get("apiVersion"), one.get("kind")): dict(one) for one in given}
    found: list[dict[str, Any]] = []
    for tree in parts.crds:
        crd = resolved(tree)
        for version in crd["spec"]["versions"]:
            if version["served"]:
                key = f"{crd['spec']['group']}/{version['name']}", crd["spec"]["names"]["kind"]
                found.append(written.get(key) or sample(crd, version["name"]))
    return sorted(found, key=lambda one: (one["kind"], one["apiVersion"]))


def _value(schema: Mapping[str, Any]) -> Any:
    if schema.get("default"):
        return schema["default"]
    if schema.get("enum"):
        return schema["enum"][0]
    match schema.get("type"):
        case "object":
            properties = cast("dict[str, Any]", schema.get("properties") or {})
            required = schema.get("required") or ()
            return {name: _value(value) for name, value in properties.items() if name in required}
        case "array":
            return [_value(schema["items"]) for _ in range(schema.get("minItems") or 0)]
        case "integer" | "number":
            return _number(schema)
        case "boolean":
            return False
        case "string":
            return _text(schema)
        case _:
            return 1 if schema.get("x-kubernetes-int-or-string") else {}


def _number(schema: Mapping[str, Any]) -> Any:
    least = schema.get("minimum")
    step = schema.get("multipleOf")
    value = 1 if least is None else least + (1 if schema.get("exclusiveMinimum") else 0)
    most = schema.get("maximum")
    if step:
        value = -(-value // step) * step
    return value if most is None or value <= most else most


def _text(schema: Mapping[str, Any]) -> str:
    value = _FORMATS.get(str(schema.get("format")), "example")
    least, most = schema.get("minLength") or 0, schema.get("maxLength")
    value = value.ljust(least, "x")
    return value if most is None else value[:most]
