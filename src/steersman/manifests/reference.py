"""The API reference of custom resources as Markdown, from their CRDs: fields, types, rules and descriptions.

Each object has a section with a table of fields and links. Kubernetes' own types are named, not described. Equal CRDs
give equal text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, cast

from steersman.manifests.schemas.node import Node
from steersman.manifests.schemas.types import SchemaBuilder
from steersman.models import Resource

__all__ = ["foreign_types", "reference", "undescribed"]

Schema = Mapping[str, Any]
Foreign = Mapping[tuple[str, str], Mapping[str, str]]
"""By CRD name and version: the paths of Kubernetes' own types and their names."""

_SIZES: Final = (("Length", "characters"), ("Items", "items"), ("Properties", "entries"))
_SERVERS: Final = ("apiVersion", "kind", "metadata")


def foreign_types(classes: Iterable[type[Resource]]) -> dict[tuple[str, str], dict[str, str]]:
    """Return the paths at which the schemas of classes embed Kubernetes' own types."""
    found: dict[tuple[str, str], dict[str, str]] = {}
    for cls in classes:
        info = cls.__resource__
        places = found.setdefault((info.crd_name, info.version), {})
        for path, node in SchemaBuilder().resource(cls).walk():
            if owner := _owner(node):
                places[_joined(path)] = owner
    return found


def undescribed(classes: Iterable[type[Resource]]) -> list[str]:
    """Return kinds and fields without a docstring, with file and line, except Kubernetes' own types."""
    found: dict[str, None] = {}
    for cls in classes:
        for path, node in SchemaBuilder().resource(cls).walk():
            description = node.keywords.get("description") or node.described_by_type
            if (
                description
                or path[-1:] in (("[]",), ("{}",))
                or _is_generated(node)
                or (len(path) == 1 and path[0] != "spec")
            ):
                continue
            what = "the class" if not path else "the field"
            found[f"{node.origin}: {what} has no docstring, and so no description"] = None
    return list(found)


def _is_generated(node: Node) -> bool:
    file = node.origin.file.replace("\\", "/")
    return "/steersman/k8s/" in file or "/steersman/models/" in file


def _owner(node: Node) -> str:
    """Return the built-in class that has the fields of an object."""
    owners = {
        child.origin.owner for child in node.properties.values() if "/k8s/" in child.origin.file.replace("\\", "/")
    }
    meta = {child.origin.owner for child in node.properties.values() if child.origin.file.endswith("/models/meta.py")}
    return next(iter(sorted(owners or meta)), "")


def _joined(path: Iterable[str]) -> str:
    text = ""
    for step in path:
        text += step if step in ("[]", "{}") else f".{step}"
    return text.lstrip(".")


def reference(
    crds: Iterable[Mapping[str, Any]], foreign: Foreign | None = None, *, title: str = "API reference"
) -> str:
    """Return the Markdown of all kinds, by group and name, with the served versions in the order of the CRD."""
    found = sorted(crds, key=lambda crd: (crd["spec"]["group"], crd["spec"]["names"]["kind"]))
    lines = [f"# {title}", ""]
    for crd in found:
        for version in _served(crd):
            name = f"{crd['spec']['names']['kind']} {crd['spec']['group']}/{version['name']}"
            lines.append(
                f"- [{crd['spec']['names']['kind']}](#{_anchor(name)}) `{crd['spec']['group']}/{version['name']}`"
            )
    lines.append("")
    for crd in found:
        for version in _served(crd):
            key = (str(crd["metadata"]["name"]), str(version["name"]))
            lines += _kind(crd["spec"], version, (foreign or {}).get(key, {}))
    return "\n".join(lines).rstrip() + "\n"


def _served(crd: Mapping[str, Any]) -> list[Schema]:
    return [version for version in crd["spec"]["versions"] if version.get("served", True)]


def _kind(spec: Schema, version: Schema, foreign: Mapping[str, str]) -> Iterator[str]:
    kind, api_version = spec["names"]["kind"], f"{spec['group']}/{version['name']}"
    wrapper: Schema = version.get("schema") or {}
    schema = cast(Schema, wrapper.get("openAPIV3Schema") or {})
    yield f"## {kind} {api_version}"
    yield ""
    if version.get("deprecated"):
        yield f"**Deprecated:** {version.get('deprecationWarning') or 'use another version'}."
        yield ""
    if text := str(schema.get("description", "")).strip():
        yield text
        yield ""
    names = [f"`{name}`" for name in (spec["names"]["plural"], *(spec["names"].get("shortNames") or ()))]
    scope = "one namespace" if spec["scope"] == "Namespaced" else "the whole cluster"
    subresources = sorted(cast(Schema, version.get("subresources") or {}))
    more = f"; sub-resources {', '.join(f'`{s}`' for s in subresources)}" if subresources else ""
    yield f"kubectl knows it as {', '.join(names)}. It belongs to {scope}{more}."
    yield ""
    yield from _rules(schema, "")
    yield from _object(schema, "", f"{kind} {api_version}", foreign)


def _object(schema: Schema, path: str, top: str, foreign: Mapping[str, str]) -> Iterator[str]:
    """Yield the table of an object, then the sections of its objects."""
    properties: Mapping[str, Schema] = schema.get("properties") or {}
    rows = {name: child for name, child in properties.items() if path or name not in _SERVERS}
    if not rows:
        return
    yield "| field | type | description |"
    yield "|---|---|---|"
    below: list[tuple[str, Schema]] = []
    for name, child in rows.items():
        inner, place = _innermost(child, f"{path}.{name}".lstrip("."))
        own = bool(inner.get("properties")) and place not in foreign
        if own:
            below.append((place, inner))
        shown = _type(child, f"{path}.{name}".lstrip("."), foreign)
        link = f"[{shown}](#{_anchor(f'{top} {place}')})" if own else shown
        need = "**required**" if name in (schema.get("required") or ()) else ""
        yield f"| `{name}` | {link} | {'<br>'.join(filter(None, (need, _cell(child))))} |"
    yield ""
    for place, inner in below:
        yield f"### {top} {place}"
        yield ""
        yield from _rules(inner, place)
        yield from _object(inner, place, top, foreign)


def _innermost(schema: Schema, path: str) -> tuple[Schema, str]:
    """Return the schema and path of the innermost items of nested lists and maps."""
    while True:
        values = schema.get("additionalProperties")
        if schema.get("type") == "array" and isinstance(schema.get("items"), Mapping):
            schema, path = cast(Schema, schema["items"]), f"{path}[]"
        elif isinstance(values, Mapping):
            schema, path = cast(Schema, values), f"{path}{{}}"
        else:
            return schema, path


def _type(schema: Schema, path: str, foreign: Mapping[str, str]) -> str:
    values = schema.get("additionalProperties")
    if owner := foreign.get(path):
        return f"{owner} (Kubernetes)"
    if schema.get("x-kubernetes-int-or-string"):
        return "quantity" if "[KMGTPE]i" in str(schema.get("pattern", "")) else "integer or string"
    if schema.get("type") == "array":
        kind = "set of " if schema.get("x-kubernetes-list-type") == "set" else "list of "
        return kind + _type(cast(Schema, schema.get("items") or {}), f"{path}[]", foreign)
    if isinstance(values, Mapping):
        return f"map of {_type(cast(Schema, values), f'{path}{{}}', foreign)}"
    if schema.get("x-kubernetes-embedded-resource"):
        return "any Kubernetes object"
    kind = str(schema.get("type", "")) or "anything"
    name = schema.get("format")
    return f"{kind} ({name})" if name and name not in ("int64", "int32", "double") else kind


def _cell(schema: Schema) -> str:
    """Return description and constraints for a cell of the table."""
    text = re.sub(r"\s*\n\s*\n\s*", "<br>", str(schema.get("description", "")).strip())
    parts = [_escaped(re.sub(r"\s+", " ", text)), *_constraints(schema)]
    parts += [
        f"Rule: {_escaped(_rule(rule))}." for rule in schema.get("x-kubernetes-validations") or () if _simple(schema)
    ]
    return "<br>".join(part for part in parts if part)


def _simple(schema: Schema) -> bool:
    """Return whether the rules are shown in the cell, because the object has no section."""
    return not schema.get("properties")


def _constraints(schema: Schema) -> Iterator[str]:
    if "default" in schema:
        yield f"Default: {_code(json.dumps(schema['default'], ensure_ascii=False))}."
    yield from _allowed(schema)
    if keys := schema.get("x-kubernetes-list-map-keys"):
        yield f"Unique by {', '.join(_code(key) for key in keys)}."
    inner, _ = _innermost(schema, "")
    if inner is not schema and not inner.get("properties") and (each := " ".join(_allowed(inner))):
        yield f"Each: {each[0].lower()}{each[1:]}"
    if schema.get("nullable"):
        yield "May be null."


def _allowed(schema: Schema) -> Iterator[str]:
    if values := schema.get("enum"):
        yield f"One of {', '.join(_code(str(value)) for value in values)}."
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None:
        yield f"{'More than' if schema.get('exclusiveMinimum') else 'At least'} {low}."
    if high is not None:
        yield f"{'Less than' if schema.get('exclusiveMaximum') else 'At most'} {high}."
    if (step := schema.get("multipleOf")) is not None:
        yield f"A multiple of {step}."
    for word, what in _SIZES:
        if size := _size(schema.get(f"min{word}"), schema.get(f"max{word}"), what):
            yield size
    known = schema.get("x-kubernetes-int-or-string") or schema.get("format")
    if (pattern := schema.get("pattern")) and not known:
        yield f"Matches {_code(str(pattern))}."


def _size(fewest: int | None, most: int | None, what: str) -> str:
    if fewest and most is not None:
        return f"{fewest} to {most} {what}."
    word, count = ("At least", fewest) if fewest else ("At most", most)
    if count is None or not (fewest or most is not None):
        return ""
    one = {"characters": "character", "items": "item", "entries": "entry"}[what]
    return f"{word} {count} {one if count == 1 else what}."


def _rules(schema: Schema, path: str) -> Iterator[str]:
    rules: list[Schema] = list(schema.get("x-kubernetes-validations") or ())
    for rule in rules:
        yield f"- {_rule(rule)}"
    if rules:
        yield ""


def _rule(rule: Schema) -> str:
    message = str(rule.get("message", "")).strip()
    return message or _code(str(rule.get("rule", "")))


def _code(text: str) -> str:
    return f"`` {text} ``" if "`" in text else f"`{_escaped(text)}`"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


def _anchor(heading: str) -> str:
    """Return GitHub's anchor of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
