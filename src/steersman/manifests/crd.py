"""CustomResourceDefinitions from `Resource` classes: names, versions, subresources, columns, conversion.

Several classes of one kind are its versions. Equal classes give equal data; nothing is sent. Definitions that the API
server would refuse are refused here, with the place in the source. `check` can add checks, such as those of the
embedded cluster, which also compiles CEL.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from steersman.manifests.errors import Origin, Problems
from steersman.manifests.schemas.fields import origin_of
from steersman.manifests.schemas.node import Node, copy_of, render
from steersman.manifests.schemas.paths import PathError, find, node_at
from steersman.manifests.schemas.types import SchemaBuilder
from steersman.models import Column, Resource, ResourceInfo

__all__ = ["MAX_BYTES", "Check", "Conversion", "definitions", "schema_of"]

Check: TypeAlias = Callable[[Mapping[str, Any]], Iterable[tuple[str, str]]]
"""An additional check of a CRD: yields the field path and the text of each error."""

MAX_BYTES: Final = 262_144
"""The size that `kubectl apply` can store in its annotation; it cannot apply larger CRDs."""
_LIMITS: Final = (None, 512, 256, 128, 64, 0)
_MAX_SELECTABLE: Final = 8
_PROTECTED: Final = (".k8s.io", ".kubernetes.io")
"""Groups whose CRDs need an approval of the Kubernetes API review."""
_COLUMN_TYPES: Final = ("integer", "number", "string", "boolean", "date")
_COLUMN_FORMATS: Final = ("", "int32", "int64", "float", "double", "byte", "date", "date-time", "password")
_VERSION: Final = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")


@dataclass(frozen=True, slots=True)
class Conversion:
    """The Service that converts between the versions of a kind; an empty `ca_bundle` (base64) is injected later."""

    service: str
    namespace: str
    path: str = "/convert"
    port: int = 443
    ca_bundle: str = ""

    def render(self) -> dict[str, Any]:
        """Return `spec.conversion`."""
        service = {"name": self.service, "namespace": self.namespace, "path": self.path, "port": self.port}
        client: dict[str, Any] = {"service": service}
        if self.ca_bundle:
            client["caBundle"] = self.ca_bundle
        return {"strategy": "Webhook", "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]}}


def schema_of(kind: type[Resource], *, max_description: int | None = None) -> dict[str, Any]:
    """Return the OpenAPI v3 schema of one class. Raises `ManifestError`."""
    builder = SchemaBuilder()
    node = builder.resource(kind)
    builder.problems.check()
    return render(node, max_description)


def definitions(
    classes: Iterable[type[Resource]],
    *,
    max_description: int | None = None,
    conversions: Mapping[tuple[str, str], Conversion] | None = None,
    check: Check | None = None,
) -> list[dict[str, Any]]:
    """Return the CRDs of classes, sorted by name.

    Args:
        classes: The classes; those of one kind are its versions.
        max_description: Limit of a description in characters; longer ones are cut at the end of a sentence. By
            default descriptions are cut only as much as the size limit `MAX_BYTES` needs.
        conversions: Conversion webhooks by group and kind.
        check: An additional check of each CRD.

    Raises:
        ManifestError: Some declarations are invalid; the message has all problems.
    """
    problems = Problems()
    by_kind: dict[tuple[str, str], list[type[Resource]]] = {}
    for cls in dict.fromkeys(classes):
        info = cls.__resource__
        by_kind.setdefault((info.group, info.kind), []).append(cls)
    _check_names(by_kind, problems)
    made = [
        _definition(versions, max_description, (conversions or {}).get(key), check, problems)
        for key, versions in by_kind.items()
    ]
    problems.check()
    return sorted(made, key=lambda crd: str(crd["metadata"]["name"]))


def _check_names(by_kind: Mapping[tuple[str, str], Sequence[type[Resource]]], problems: Problems) -> None:
    taken: dict[tuple[str, str], str] = {}
    for (group, kind), versions in by_kind.items():
        info = versions[0].__resource__
        for name in dict.fromkeys((info.plural, info.singular, *info.short_names)):
            other = taken.setdefault((group, name), kind)
            if other != kind:
                problems.add(
                    origin_of(versions[0]),
                    f"the name {name!r} is also the name of {other}: names are unique in a group",
                )


def _definition(
    classes: list[type[Resource]],
    max_description: int | None,
    conversion: Conversion | None,
    check: Check | None,
    problems: Problems,
) -> dict[str, Any]:
    classes = sorted(classes, key=lambda cls: _priority(cls.__resource__.version))
    info = classes[0].__resource__
    _check_versions(classes, problems)
    before = len(problems)
    builder = SchemaBuilder(problems)
    roots = [_prepared(builder.resource(cls), cls, problems) for cls in classes]

    def whole(limit: int | None) -> dict[str, Any]:
        return _assembled(
            info, [_version(c, r, limit, problems) for c, r in zip(classes, roots, strict=True)], conversion
        )

    limits = _LIMITS if max_description is None else (max_description,)
    crd: dict[str, Any] = {}
    size = 0
    for limit in limits:
        crd = whole(limit)
        size = len(json.dumps(crd, separators=(",", ":"), ensure_ascii=False).encode())
        if size <= MAX_BYTES:
            break
    else:
        problems.add(
            origin_of(classes[0]),
            f"the CRD has {size:,} bytes, more than the {MAX_BYTES:,} that kubectl apply supports: shorten"
            " descriptions, or mark large embedded types Schemaless",
        )
    if check is not None and len(problems) == before:
        for path, text in check(crd):
            problems.add(_place(path, crd, roots, classes), f"{path}: {text}")
    return crd


def _check_versions(classes: Sequence[type[Resource]], problems: Problems) -> None:
    first = classes[0]
    stored = [cls for cls in classes if cls.__resource__.storage]
    if len(stored) != 1:
        names = ", ".join(f"{c.__name__} ({c.__resource__.version})" for c in (stored or classes))
        problems.add(
            origin_of(classes[-1]),
            f"{'more than one' if stored else 'no'} version is stored: {names}; give all but one storage=False",
        )
    if not any(cls.__resource__.served for cls in classes):
        problems.add(origin_of(first), "no version is served")
    seen: dict[str, type[Resource]] = {}
    for cls in classes:
        info, other = cls.__resource__, seen.setdefault(cls.__resource__.version, cls)
        if other is not cls:
            problems.add(origin_of(cls), f"version {info.version} of {info.kind} is {other.__name__} already")
        for what in ("plural", "singular", "list_kind", "short_names", "categories", "namespaced"):
            mine, theirs = getattr(info, what), getattr(first.__resource__, what)
            if mine != theirs:
                problems.add(
                    origin_of(cls), f"{what}={mine!r}, but {first.__name__} says {theirs!r}: versions share their names"
                )
        if not info.group:
            problems.add(origin_of(cls), "group= is missing: the core group is Kubernetes' own")
        elif f".{info.group}".endswith(_PROTECTED):
            problems.add(origin_of(cls), f"group={info.group!r} is Kubernetes' own; use a domain of yours")
        if info.deprecated is not None and len(info.deprecated) > 256:
            problems.add(origin_of(cls), "deprecated= has more than 256 characters")


def _prepared(root: Node, cls: type[Resource], problems: Problems) -> Node:
    """Return the schema with the constraints of other parts of the CRD: replicas of a scale are int32."""
    scale = cls.__resource__.scale
    if scale is None:
        return root
    origin = origin_of(cls)
    for label, path, top in (("spec", scale.spec, ".spec."), ("status", scale.status, ".status.")):
        try:
            found = find(root, path)
        except PathError as problem:
            problems.add(origin, f"Scale({label}=…): {problem}")
            continue
        if not found.path.startswith(top) or not found.simple:
            problems.add(origin, f"Scale({label}=…): path {path!r} must be a plain path below {top[1:-1]}")
        elif found.type != "integer":
            problems.add(origin, f"Scale({label}=…): {path} must be an int")
        else:
            _narrow(root, found.path[1:].split("."))
    return root


def _narrow(root: Node, steps: list[str]) -> None:
    node = root
    for step in steps:
        if step not in node.properties:
            return
        node.properties = dict(node.properties)  # a class that is used twice shares its nodes
        below = node.properties[step]
        node.properties[step] = node = copy_of(below, below.origin)
    if node.keywords.get("format") == "int64":
        node.keywords["format"] = "int32"


def _version(cls: type[Resource], root: Node, limit: int | None, problems: Problems) -> dict[str, Any]:
    info, origin = cls.__resource__, origin_of(cls)
    version: dict[str, Any] = {"name": info.version, "served": info.served, "storage": info.storage}
    if info.deprecated is not None:
        version["deprecated"] = True
        if info.deprecated:
            version["deprecationWarning"] = info.deprecated
    version["schema"] = {"openAPIV3Schema": render(root, limit)}
    subresources: dict[str, Any] = {}
    if info.has_status:
        subresources["status"] = {}
    if info.scale is not None:
        subresources["scale"] = _scale(root, info, origin, problems)
    if subresources:
        version["subresources"] = subresources
    if info.columns:
        version["additionalPrinterColumns"] = _columns(root, info.columns, origin, problems)
    if fields := _selectable(root, origin, problems):
        version["selectableFields"] = fields
    return version


def _scale(root: Node, info: ResourceInfo, origin: Origin, problems: Problems) -> dict[str, str]:
    assert info.scale is not None
    out: dict[str, str] = {}
    wanted = (
        ("specReplicasPath", info.scale.spec),
        ("statusReplicasPath", info.scale.status),
        ("labelSelectorPath", info.scale.selector),
    )
    for name, path in wanted:
        if not path:
            continue
        try:
            found = find(root, path)
        except PathError as problem:
            if name == "labelSelectorPath":
                problems.add(origin, f"Scale(selector=…): {problem}")
            continue
        if name == "labelSelectorPath" and (
            found.type != "string" or not found.simple or not found.path.startswith((".status.", ".spec."))
        ):
            problems.add(origin, f"Scale(selector=…): {path} must be a str below status or spec")
        out[name] = found.path
    return out


def _columns(root: Node, columns: Sequence[Column], origin: Origin, problems: Problems) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    for column in columns:
        where = f"Column({column.name!r})"
        try:
            found = find(root, column.path)
        except PathError as problem:
            problems.add(origin, f"{where}: {problem}")
            continue
        kind = column.type or found.type
        if kind not in _COLUMN_TYPES:
            problems.add(origin, f"{where}: type {kind!r} must be one of {', '.join(_COLUMN_TYPES)}")
        elif found.node is not None and found.node.type and not _fits(kind, found.type):
            problems.add(origin, f"{where}: type {kind!r}, but {column.path} is {found.type}")
        if column.format not in _COLUMN_FORMATS:
            problems.add(origin, f"{where}: format {column.format!r} is none of {', '.join(_COLUMN_FORMATS[1:])}")
        entry: dict[str, Any] = {"name": column.name, "type": kind, "jsonPath": found.path}
        extras = {"format": column.format, "description": column.description, "priority": column.priority}
        entry |= {name: value for name, value in extras.items() if value}
        out.append(entry)
    names = [c.name for c in columns]
    for name in dict.fromkeys(n for n in names if names.count(n) > 1):
        problems.add(origin, f"Column({name!r}) occurs twice")
    if not any(entry["jsonPath"] == ".metadata.creationTimestamp" for entry in out):
        out.append({"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"})
    return out


def _fits(column: str, found: str) -> bool:
    return column == found or column == "string" or (column == "number" and found == "integer")


def _selectable(root: Node, origin: Origin, problems: Problems) -> list[dict[str, str]]:
    paths: list[str] = []
    for path, node in root.walk():
        if not node.selectable:
            continue
        if "[]" in path or "{}" in path:
            problems.add(node.origin, "Selectable: a field in a list or map has no path of its own")
        else:
            paths.append("." + ".".join(path))
    if len(paths) > _MAX_SELECTABLE:
        problems.add(origin, f"{len(paths)} fields are Selectable; a kind may have at most {_MAX_SELECTABLE}")
    return [{"jsonPath": path} for path in paths]


def _assembled(info: ResourceInfo, versions: list[dict[str, Any]], conversion: Conversion | None) -> dict[str, Any]:
    names: dict[str, Any] = {
        "kind": info.kind,
        "listKind": info.list_kind,
        "plural": info.plural,
        "singular": info.singular,
    }
    if info.short_names:
        names["shortNames"] = list(info.short_names)
    if info.categories:
        names["categories"] = list(info.categories)
    spec: dict[str, Any] = {
        "group": info.group,
        "names": names,
        "scope": "Namespaced" if info.namespaced else "Cluster",
        "versions": versions,
    }
    if conversion is not None:
        spec["conversion"] = conversion.render()
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": info.crd_name},
        "spec": spec,
    }


def _priority(version: str) -> tuple[int, int, int, str]:
    """Return a sort key for Kubernetes' order of versions: v2, v1, v1beta2, v1beta1, v1alpha1, then all others."""
    match = _VERSION.fullmatch(version)
    if match is None:
        return 3, 0, 0, version
    stage = {None: 0, "beta": 1, "alpha": 2}[match[2]]
    return stage, -int(match[1]), -int(match[3] or 0), version


def _place(path: str, crd: Mapping[str, Any], roots: Sequence[Node], classes: Sequence[type[Resource]]) -> Origin:
    tokens = [t for t in re.split(r"[.\[\]]+", path) if t]
    index = int(tokens[2]) if tokens[:2] == ["spec", "versions"] and len(tokens) > 2 and tokens[2].isdigit() else 0
    index = min(index, len(roots) - 1)
    if "openAPIV3Schema" in tokens:
        return node_at(roots[index], tokens[tokens.index("openAPIV3Schema") + 1 :])
    return origin_of(classes[index])
