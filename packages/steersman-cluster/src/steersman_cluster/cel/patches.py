"""The types of patch expressions: `Object{…}`, `Object.spec{…}` and `JSONPatch{…}` of MutatingAdmissionPolicies.

Objects have any fields, of dynamic types. Follows apiserver's `cel/mutation`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from steersman_cluster.cel.syntax import UInt
from steersman_cluster.cel.types import ANY, STRING, Type
from steersman_cluster.cel.values import CelError, Duration, Timestamp

__all__ = ["JSON_PATCH", "OBJECT", "Message", "field_of", "is_message", "json_of", "message", "name_errors"]

_JSON_PATCH_FIELDS: Final = {"op": STRING, "path": STRING, "from": STRING, "value": ANY}


def message(name: str) -> Type:
    """Return the type of a message."""
    return Type("message", (), name)


OBJECT: Final = message("Object")
JSON_PATCH: Final = message("JSONPatch")


def is_message(name: str) -> bool:
    """Return whether patch expressions may construct a type of this name."""
    return name in ("Object", "JSONPatch") or name.startswith("Object.")


def field_of(kind: Type, name: str) -> Type | None:
    """Return the type of a message's field; `None` for a field that it does not have."""
    return _JSON_PATCH_FIELDS.get(name) if kind.name == "JSONPatch" else ANY


class Message(dict[str, Any]):
    """A constructed message: its fields, and the name of its type."""

    def __init__(self, name: str, fields: Mapping[str, Any]) -> None:
        super().__init__(fields)
        self.name = name


def json_of(value: Any) -> Any:
    """Return a value as JSON. Raises `CelError` for maps with keys that are no strings."""
    match value:
        case UInt():
            return int(value)
        case Timestamp() | Duration():
            return str(value)
        case bytes():
            import base64

            return base64.b64encode(value).decode()
        case dict():
            found = cast("dict[Any, Any]", value)
            for key in found:
                if not isinstance(key, str):
                    raise CelError(f'map key "{key}" is not a string')
            return {key: json_of(item) for key, item in found.items()}
        case list():
            return [json_of(item) for item in cast("list[Any]", value)]
        case _:
            return value


def name_errors(value: Any) -> list[str]:
    """Return the errors of the names of constructed types: each is the path of its fields from `Object` on."""
    return list(_name_errors(value, value.name)) if isinstance(value, Message) else []


def _name_errors(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, Message):
        if value.name != path:
            yield (
                f'unexpected type name "{value.name}", expected "{path}", which matches field name path from root '
                "Object type"
            )
        for name, item in value.items():
            yield from _name_errors(item, f"{path}.{name}")
    elif isinstance(value, dict):
        for item in cast("dict[Any, Any]", value).values():
            yield from _name_errors(item, path)
    elif isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from _name_errors(item, path)
