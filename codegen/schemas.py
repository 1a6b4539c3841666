"""Generates the types of all built-in kinds, without descriptions, for the embedded API server.

OpenAPI v3 documents give list types, merge keys and defaults. Reflection in Go (`golang/main.go`) gives the names of
Go types, which error messages contain, and the fields that encoding leaves out when they are empty.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from codegen.sources import CLUSTER, ROOT, api_documents, run_go

__all__ = ["generate"]

TARGET: Final = CLUSTER / "schema" / "builtin.json"
REFLECTION: Final = ROOT / "codegen" / "golang" / "main.go"
KEPT = (
    "type",
    "format",
    "default",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
    "x-kubernetes-patch-merge-key",
    "x-kubernetes-patch-strategy",
)
Facts = dict[str, dict[str, Any]]


def definition_name(go: str) -> str:
    """k8s.io/api/core/v1.Pod -> io.k8s.api.core.v1.Pod."""
    host, _, rest = go.partition("/")
    return ".".join([*reversed(host.split(".")), *rest.split("/")])


def fields_of(name: str, facts: Facts) -> dict[str, Any]:
    """The fields of a struct with those of its embedded structs, which remember the embedding."""
    found: dict[str, Any] = {}
    for field, fact in facts.get(name, {}).items():
        if not field.startswith("~"):
            found[field] = fact
            continue
        for inner, inner_fact in fields_of(fact["ref"], facts).items():
            path = field[1:] if "embedded" not in inner_fact else f"{field[1:]}.{inner_fact['embedded']}"
            found.setdefault(inner, {**inner_fact, "embedded": path})
    return found


def node_of(node: dict[str, Any]) -> dict[str, Any]:
    """A schema node without descriptions, enums and wrappers."""
    if "allOf" in node:
        node = {**node["allOf"][0], **{key: value for key, value in node.items() if key != "allOf"}}
    out = {key: node[key] for key in KEPT if key in node}
    if "$ref" in node:
        out["$ref"] = node["$ref"].rpartition("/")[2]
    if "items" in node:
        out["items"] = node_of(node["items"])
    if "additionalProperties" in node:
        out["additionalProperties"] = node_of(node["additionalProperties"])
    return out


def emptiness(fact: dict[str, Any]) -> str:
    """How encoding treats the zero value: `drop`, `null` (pointers: only nil is dropped), `keep`."""
    nilable = fact["kind"] in ("ptr", "interface")
    if fact["zero"]:
        return "drop"
    if fact["omit"]:
        return "nil" if nilable else "keep" if fact["kind"] == "struct" else "drop"
    return "keep-nil" if nilable else "keep"


def generate() -> dict[Path, bytes]:
    """Return the types and kinds, by path."""
    facts: Facts = json.loads(run_go(REFLECTION))
    by_definition = {definition_name(name): name for name in facts}
    types: dict[str, Any] = {}
    kinds: dict[str, str] = {}
    for document in api_documents().values():
        for name, schema in json.loads(document).get("components", {}).get("schemas", {}).items():
            types.setdefault(name, type_of(schema, fields_of(by_definition.get(name, ""), facts)))
            for gvk in schema.get("x-kubernetes-group-version-kind", ()):
                kinds.setdefault(f"{gvk['group']}/{gvk['version']}/{gvk['kind']}", name)
    text = json.dumps({"kinds": kinds, "types": types}, sort_keys=True, separators=(",", ":"))
    return {TARGET: (text + "\n").encode()}


def type_of(schema: dict[str, Any], go_fields: dict[str, Any]) -> dict[str, Any]:
    """Return one type: the node of its schema, with the facts of Go about its fields."""
    out = node_of(schema)
    if "properties" not in schema:
        return out
    properties: dict[str, Any] = {}
    for field, node in sorted(schema["properties"].items()):
        properties[field] = node_of(node)
        if (fact := go_fields.get(field)) is not None:
            properties[field]["go"] = fact["t"]
            properties[field]["empty"] = emptiness(fact)
            if "embedded" in fact:
                properties[field]["embedded"] = fact["embedded"]
    out["properties"] = properties
    return out
