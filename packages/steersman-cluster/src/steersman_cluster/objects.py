"""Objects inside the embedded cluster: dicts of JSON, decoded once per request and owned by that request.

The stored form is bytes. Two requests never share a dict, so that strategies may change it in place. An object that is
read from storage for comparison (`old`) must not be changed.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any, TypeAlias, cast

__all__ = [
    "Object",
    "Path",
    "annotations_of",
    "dig",
    "from_json",
    "labels_of",
    "meta",
    "name_of",
    "namespace_of",
    "uid_of",
]

Object: TypeAlias = dict[str, Any]
"""One API object, or a part of one, as decoded JSON."""


def from_json(data: str | bytes) -> Any:
    """Return the value of JSON that came from outside. Raises `ValueError`, for deep nesting as well."""
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError("exceeded max depth") from None


class Path(str):
    """The path of a field in the API server's notation: `Path("spec") / "containers"`, `.at(0)`, `.key("a")`."""

    __slots__ = ()

    @lru_cache(maxsize=8192)  # noqa: B019 - paths are few: names of fields and small indices
    def __truediv__(self, name: str) -> Path:
        return Path(f"{self}.{name}" if self else name)

    @lru_cache(maxsize=8192)  # noqa: B019 - as above
    def at(self, index: int) -> Path:
        """The path of a list's item: `spec.containers[0]`."""
        return Path(f"{self}[{index}]")

    def key(self, key: str) -> Path:
        """The path of a map's entry: `metadata.labels[a]`."""
        return Path(f"{self}[{key}]")


def meta(obj: Object) -> Object:
    """Return the metadata of an object; an empty dict if there is none."""
    found: Object | None = obj.get("metadata")
    return found if isinstance(found, dict) else {}


def name_of(obj: Object) -> str:
    """The name, `""` where there is none."""
    return meta(obj).get("name") or ""


def namespace_of(obj: Object) -> str:
    """The namespace, `""` for cluster-scoped objects."""
    return meta(obj).get("namespace") or ""


def uid_of(obj: Object) -> str:
    """The uid, `""` where there is none."""
    return meta(obj).get("uid") or ""


def labels_of(obj: Object) -> dict[str, str]:
    """Return the labels; an empty dict if there are none."""
    return meta(obj).get("labels") or {}


def annotations_of(obj: Object) -> dict[str, str]:
    """Return the annotations; an empty dict if there are none."""
    return meta(obj).get("annotations") or {}


def dig(obj: Any, *names: str, default: Any = None) -> Any:
    """The value at the end of nested maps, or `default` where any step is missing, null or no map."""
    for name in names:
        if not isinstance(obj, dict):
            return default
        obj = cast(Object, obj).get(name)
    return default if obj is None else obj
