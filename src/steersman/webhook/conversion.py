"""The conversion of one object between versions of its kind: the sequence of converters, and the data to keep.

Metadata is kept byte for byte, except labels and annotations that a converter changes, and so are fields that the class
of the source version does not have. The converters are the user's functions; this module does no I/O.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import msgspec
from msgspec import Raw

from steersman.models import Dynamic, ObjectMeta, View, encode, to_dict
from steersman.models.jsonpatch import same

__all__ = ["Conversion", "ConversionError", "conversion_paths", "convert", "missing"]

Object = dict[str, Any]


class ConversionError(Exception):
    """An object cannot be converted; the message is for the client of the API server."""


@dataclass(frozen=True, slots=True)
class Conversion:
    """One declared converter between two versions of a kind."""

    source: View[Any]
    target: View[Any]
    call: Callable[[Any, Any], Awaitable[Any]]
    """Called with the object and `None`, like the functions of admission webhooks."""
    place: str = ""


ConversionPath = tuple[Conversion, ...]


def conversion_paths(conversions: Iterable[Conversion]) -> Mapping[tuple[str, str, str], ConversionPath]:
    """Return the shortest sequence of converters for each (kind, source apiVersion, target apiVersion)."""
    edges: dict[tuple[str, str], list[Conversion]] = {}
    for conversion in conversions:
        info = conversion.source.info
        edges.setdefault((info.kind, info.api_version), []).append(conversion)
    found: dict[tuple[str, str, str], ConversionPath] = {}
    for kind, start in edges:
        waiting: deque[tuple[str, ConversionPath]] = deque([(start, ())])
        seen = {start}
        while waiting:
            version, path = waiting.popleft()
            for conversion in edges.get((kind, version), ()):
                target = conversion.target.info.api_version
                if target not in seen:
                    seen.add(target)
                    found[kind, start, target] = (*path, conversion)
                    waiting.append((target, (*path, conversion)))
    return found


def missing(conversions: Sequence[Conversion]) -> list[str]:
    """Return the conversions without a sequence of converters, such as `Cron: v1 → v2`; empty if there are none."""
    known = conversion_paths(conversions)
    versions: dict[str, dict[str, str]] = {}
    for conversion in conversions:
        for info in (conversion.source.info, conversion.target.info):
            versions.setdefault(info.kind, {})[info.api_version] = info.version
    return [
        f"{kind}: {short} → {other_short}"
        for kind, named in versions.items()
        for version, short in named.items()
        for other, other_short in named.items()
        if version != other and (kind, version, other) not in known
    ]


async def convert(raw: bytes, path: ConversionPath) -> bytes:
    """Convert an object with a sequence of converters.

    Raises:
        DecodeError: The object does not fit the class of its version.
        ConversionError: A converter returned an invalid result.
        Exception: Exceptions of the converters are raised unchanged.
    """
    members: dict[str, Raw] = msgspec.json.decode(raw, type=dict[str, Raw])
    first = obj = path[0].source.decode(raw)
    for conversion in path:
        obj = await conversion.call(obj, None)
        if not isinstance(obj, conversion.target.type):
            wanted = conversion.target.type.__name__
            raise ConversionError(f"{conversion.place} returned a {type(obj).__name__}, not a {wanted}")
    result = to_dict(obj)
    info = path[-1].target.info
    _drop_defaults(result, obj, members)
    plain = cast("Object", msgspec.json.decode(raw))
    _keep_unknown(result, plain, first)
    result["apiVersion"], result["kind"] = info.api_version, info.kind
    result["metadata"] = _metadata(members.get("metadata"), first.metadata, obj.metadata)
    return encode(result)


def _metadata(raw: Raw | None, before: ObjectMeta, after: ObjectMeta) -> Any:
    """Return the original metadata, with the labels and annotations that a converter changed."""
    given = Raw(b"{}") if raw is None else raw
    if after == ObjectMeta():
        return given  # the converter did not set metadata
    for name in ("name", "namespace", "uid"):
        if getattr(before, name) != getattr(after, name):
            raise ConversionError(f"a converter must not change metadata.{name}")
    if before.labels == after.labels and before.annotations == after.annotations:
        return given
    members: dict[str, Any] = dict(msgspec.json.decode(given, type=dict[str, Raw]))
    for name in ("labels", "annotations"):
        if getattr(before, name) != getattr(after, name):
            members.pop(name, None)
            if value := getattr(after, name):
                members[name] = dict(value)
    return members


def _drop_defaults(result: Object, obj: Any, members: Mapping[str, Raw]) -> None:
    """Remove defaults of the target's class that the object does not have, such as an empty `status`."""
    if isinstance(obj, Dynamic):
        return
    for field in msgspec.structs.fields(obj):
        name = field.encode_name
        if name in ("metadata", "spec") or name in members or name not in result:
            continue
        if field.default is not msgspec.NODEFAULT and same(to_dict(field.default), result[name]):
            del result[name]


def _keep_unknown(result: Any, raw: Any, view: Any) -> None:
    """Copy members of `raw` that the class of `view` does not have to the same place of `result`."""
    if isinstance(raw, dict) and isinstance(result, dict):
        source, target = cast("Object", raw), cast("Object", result)
        if isinstance(view, msgspec.Struct):
            _keep_unknown_fields(target, source, view)
        elif isinstance(view, Mapping):
            values = cast("Mapping[str, Any]", view)
            for name in source.keys() & values.keys() & target.keys():
                _keep_unknown(target[name], source[name], values[name])
    elif isinstance(view, tuple | list) and isinstance(raw, list) and isinstance(result, list):
        _keep_unknown_items(cast("list[Any]", result), cast("list[Any]", raw), cast("Sequence[Any]", view))


def _keep_unknown_fields(target: Object, source: Object, view: msgspec.Struct) -> None:
    known = {field.encode_name: field.name for field in msgspec.structs.fields(view)}
    for name, value in source.items():
        if name not in known:
            target.setdefault(name, value)
        elif name in target and name != "metadata":
            _keep_unknown(target[name], value, getattr(view, known[name]))


def _keep_unknown_items(result: list[Any], raw: list[Any], view: Sequence[Any]) -> None:
    if len(raw) != len(view) or not view or not isinstance(view[0], msgspec.Struct | Mapping):
        return
    named = _by_name(result)
    origins = _by_name(raw)
    if named is not None and origins is not None:
        for position, name in enumerate(origins):
            if name in named:
                _keep_unknown(named[name], raw[position], view[position])
    elif len(result) == len(raw):
        for position, item in enumerate(result):
            _keep_unknown(item, raw[position], view[position])


def _by_name(items: list[Any]) -> dict[str, Any] | None:
    """Return the items by their `name`, or None if an item has none or two have the same."""
    found: dict[str, Any] = {}
    for item in items:
        name = cast("Object", item).get("name") if isinstance(item, dict) else None
        if not isinstance(name, str) or name in found:
            return None
        found[name] = item
    return found
