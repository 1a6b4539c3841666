"""Embedded resources (`x-kubernetes-embedded-resource`): they need an apiVersion, a kind and good metadata."""

from __future__ import annotations

from typing import Any, cast

from steersman_cluster.crd.list_types import Walk, walk_schema
from steersman_cluster.crd.schema_validation import Schema
from steersman_cluster.errors import FieldError, field_invalid, required
from steersman_cluster.kinds import formats
from steersman_cluster.kinds.meta import validate_metadata
from steersman_cluster.objects import Object, Path

__all__ = ["compile_embedded"]


def compile_embedded(schema: Schema) -> Walk | None:
    """The check of all embedded resources below a schema; `None` where there are none."""
    return walk_schema(schema, lambda node: _resource if node.get("x-kubernetes-embedded-resource") is True else None)


def _resource(path: Path, value: Any, found: list[FieldError]) -> None:
    if not isinstance(value, dict):
        return
    obj = cast(Object, value)
    found += [required(path / name) for name in ("apiVersion", "kind") if name not in obj]
    if "apiVersion" in obj:
        found += _api_version(path / "apiVersion", obj["apiVersion"])
    if "kind" in obj:
        found += _kind(path / "kind", obj["kind"])
    metadata = obj.get("metadata")
    if isinstance(metadata, dict):
        checked = dict(cast(Object, metadata))
        checked.setdefault("name", "fakename")
        found += validate_metadata(
            {"metadata": checked}, path / "metadata", "path", namespaced=bool(checked.get("namespace"))
        )


def _api_version(path: Path, value: Any) -> list[FieldError]:
    if not isinstance(value, str):
        return [field_invalid(path, value, "must be a string")]
    if not value:
        return [field_invalid(path, value, "must not be empty")]
    if value.count("/") > 1:
        return [field_invalid(path, value, f"unexpected GroupVersion string: {value}")]
    return []


def _kind(path: Path, value: Any) -> list[FieldError]:
    if not isinstance(value, str):
        return [field_invalid(path, value, "must be a string")]
    if not value:
        return [field_invalid(path, value, "must not be empty")]
    if texts := formats.dns1035_label(value.lower()):
        return [field_invalid(path, value, f"may have mixed case, but should otherwise match: {','.join(texts)}")]
    return []
