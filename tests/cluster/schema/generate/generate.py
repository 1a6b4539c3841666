"""Write `schema/builtin.json`: the types of all built-in kinds, without prose.

Two sources meet: the OpenAPI v3 documents of a real API server (list types, merge keys, defaults) and what Go's
reflection says of the same structs (`main.go`: Go's type names, as they stand in error texts, and what encoding
leaves out when empty). Run: `go run . > facts.json`, then `generate.py <directory of documents> facts.json <output>`.
"""

import json
import sys
from pathlib import Path
from typing import Any

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


def main(documents: Path, facts_file: Path, output: Path) -> None:
    facts: Facts = json.loads(facts_file.read_text())
    by_definition = {definition_name(name): name for name in facts}
    types: dict[str, Any] = {}
    kinds: dict[str, str] = {}
    for path in sorted(documents.glob("*.json")):
        if path.name == "index.json":
            continue
        for name, schema in json.loads(path.read_text()).get("components", {}).get("schemas", {}).items():
            out = node_of(schema)
            go_fields = fields_of(by_definition.get(name, ""), facts)
            if "properties" in schema:
                properties: dict[str, Any] = {}
                for field, node in sorted(schema["properties"].items()):
                    properties[field] = node_of(node)
                    if field in go_fields:
                        fact = go_fields[field]
                        properties[field]["go"] = fact["t"]
                        properties[field]["empty"] = emptiness(fact)
                        if "embedded" in fact:
                            properties[field]["embedded"] = fact["embedded"]
                out["properties"] = properties
            types.setdefault(name, out)
            for gvk in schema.get("x-kubernetes-group-version-kind", ()):
                kinds.setdefault(f"{gvk['group']}/{gvk['version']}/{gvk['kind']}", name)
    text = json.dumps({"kinds": kinds, "types": types}, sort_keys=True, separators=(",", ":"))
    output.write_text(text + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]))
