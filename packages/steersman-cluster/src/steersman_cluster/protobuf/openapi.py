"""OpenAPI version 2 as protobuf: the document of gnostic's `openapi.v2.Document`, which kubectl and client-go read.

Messages are tables of fields by their JSON name. What JSON leaves open (defaults, enumerations, extensions) is text in
YAML in this format, and JSON is YAML.

Source: github.com/google/gnostic-models, openapiv2/OpenAPIv2.proto
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, cast

from steersman_cluster.objects import Object
from steersman_cluster.protobuf.wire import DOUBLE, VARINT, delimited, tag, varint

__all__ = ["OPENAPI_MEDIA_TYPE", "OPENAPI_MEDIA_TYPES", "definition_field", "document", "path_field"]

OPENAPI_MEDIA_TYPE: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
"""The media type of answers."""
OPENAPI_MEDIA_TYPES: Final = ("application/com.github.proto-openapi.spec.v2@v1.0+protobuf", OPENAPI_MEDIA_TYPE)
"""The accepted media types; the first is deprecated and is the one that kubectl sends."""

_Encode = Callable[[int, Any], bytes]
"""Encodes a value as the field of that number."""
_Fields = Mapping[str, tuple[int, _Encode]]


def document(info: Object, paths: Iterable[bytes], definitions: Iterable[bytes]) -> bytes:
    """The whole document of its title and version, of `path_field`s and of `definition_field`s."""
    return (
        _text(1, "2.0")
        + delimited(2, _text(1, info["title"]) + _text(2, info["version"]))
        + delimited(8, b"".join(paths))
        + delimited(9, b"".join(definitions))
    )


def path_field(path: str, item: Object) -> bytes:
    """One path with its operations, as a field of the document's paths."""
    return delimited(2, _text(1, path) + delimited(2, _message(_PATH_ITEM, 10, item)))


def definition_field(name: str, schema: Object) -> bytes:
    """One schema, as a field of the document's definitions."""
    return delimited(1, _text(1, name) + _schema(2, schema))


def _text(number: int, value: Any) -> bytes:
    return delimited(number, str(value).encode()) if value else b""


def _boolean(number: int, value: Any) -> bytes:
    return tag(number, VARINT) + b"\x01" if value else b""


def _integer(number: int, value: Any) -> bytes:
    return tag(number, VARINT) + varint(int(value)) if value else b""


def _double(number: int, value: Any) -> bytes:
    return tag(number, DOUBLE) + struct.pack("<d", value) if value else b""


def _any(number: int, value: Any) -> bytes:
    return delimited(number, delimited(2, json.dumps(value, ensure_ascii=False).encode() + b"\n"))


def _repeated(encode: _Encode) -> _Encode:
    def field(number: int, value: Any) -> bytes:
        return b"".join(encode(number, item) for item in cast("list[Any]", value))

    return field


def _strings(number: int, value: Any) -> bytes:
    return b"".join(delimited(number, str(item).encode()) for item in cast("list[Any]", value))


def _message(fields: _Fields, extensions: int, value: Mapping[str, Any]) -> bytes:
    """A message; names that begin with `x-` are extensions, under that field's number. Unknown names are left out."""
    parts: list[bytes] = []
    for name, content in value.items():
        if (known := fields.get(name)) is not None:
            parts.append(known[1](known[0], content))
        elif name.startswith("x-"):
            parts.append(delimited(extensions, _text(1, name) + _any(2, content)))
    return b"".join(parts)


def _schema(number: int, value: Any) -> bytes:
    return delimited(number, _message(_SCHEMA, 31, value))


def _properties(number: int, value: Any) -> bytes:
    named = (delimited(1, _text(1, name) + _schema(2, schema)) for name, schema in cast(Object, value).items())
    return delimited(number, b"".join(named))


def _additional(number: int, value: Any) -> bytes:
    return delimited(number, _boolean(2, value) if isinstance(value, bool) else _schema(1, value))


def _items(number: int, value: Any) -> bytes:
    schemas = cast("list[Any]", value) if isinstance(value, list) else [value]
    return delimited(number, b"".join(_schema(1, schema) for schema in schemas))


def _types(number: int, value: Any) -> bytes:
    return delimited(number, _strings(1, value if isinstance(value, list) else [value]))


def _operation(number: int, value: Any) -> bytes:
    return delimited(number, _message(_OPERATION, 13, value))


def _responses(number: int, value: Any) -> bytes:
    named: list[bytes] = []
    for code, response in cast(Object, value).items():
        body = _text(1, response.get("description"))
        if "schema" in response:
            body += delimited(2, _schema(1, response["schema"]))
        named.append(delimited(1, _text(1, code) + delimited(2, delimited(1, body))))
    return delimited(number, b"".join(named))


def _parameter(number: int, value: Any) -> bytes:
    """A parameter of an operation: a reference, a body, or the query's or the path's."""
    if "$ref" in value:
        return delimited(number, delimited(2, _text(1, value["$ref"])))
    match value["in"]:
        case "body":
            made = delimited(1, _message(_BODY, 6, value))
        case "query":
            made = delimited(2, delimited(3, _message(_QUERY, 23, value)))
        case "path":
            made = delimited(2, delimited(4, _message(_PATH, 22, value)))
        case _:
            return b""
    return delimited(number, delimited(1, made))


_BODY: Final[_Fields] = {
    "description": (1, _text),
    "name": (2, _text),
    "in": (3, _text),
    "required": (4, _boolean),
    "schema": (5, _schema),
}
_NAMED: Final[_Fields] = {
    "required": (1, _boolean),
    "in": (2, _text),
    "description": (3, _text),
    "name": (4, _text),
}
_QUERY: Final[_Fields] = {**_NAMED, "type": (6, _text), "format": (7, _text), "uniqueItems": (20, _boolean)}
_PATH: Final[_Fields] = {**_NAMED, "type": (5, _text), "format": (6, _text), "uniqueItems": (19, _boolean)}
_OPERATION: Final[_Fields] = {
    "tags": (1, _strings),
    "summary": (2, _text),
    "description": (3, _text),
    "operationId": (5, _text),
    "produces": (6, _strings),
    "consumes": (7, _strings),
    "parameters": (8, _repeated(_parameter)),
    "responses": (9, _responses),
    "schemes": (10, _strings),
    "deprecated": (11, _boolean),
}
_PATH_ITEM: Final[_Fields] = {
    "get": (2, _operation),
    "put": (3, _operation),
    "post": (4, _operation),
    "delete": (5, _operation),
    "options": (6, _operation),
    "head": (7, _operation),
    "patch": (8, _operation),
    "parameters": (9, _repeated(_parameter)),
}
_SCHEMA: Final[_Fields] = {
    "$ref": (1, _text),
    "format": (2, _text),
    "title": (3, _text),
    "description": (4, _text),
    "default": (5, _any),
    "multipleOf": (6, _double),
    "maximum": (7, _double),
    "exclusiveMaximum": (8, _boolean),
    "minimum": (9, _double),
    "exclusiveMinimum": (10, _boolean),
    "maxLength": (11, _integer),
    "minLength": (12, _integer),
    "pattern": (13, _text),
    "maxItems": (14, _integer),
    "minItems": (15, _integer),
    "uniqueItems": (16, _boolean),
    "maxProperties": (17, _integer),
    "minProperties": (18, _integer),
    "required": (19, _strings),
    "enum": (20, _repeated(_any)),
    "additionalProperties": (21, _additional),
    "type": (22, _types),
    "items": (23, _items),
    "allOf": (24, _repeated(_schema)),
    "properties": (25, _properties),
    "example": (30, _any),
}
