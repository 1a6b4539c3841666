"""Reads OpenAPI version 2 as protobuf, by the numbers of gnostic's fields and by nothing of the server's."""

from typing import Any

from steersman_cluster.protobuf.wire import fields_in

__all__ = ["VERBS", "shape", "swagger"]

VERBS = {"get": 2, "put": 3, "post": 4, "delete": 5, "options": 6, "head": 7, "patch": 8}


def swagger(packed: bytes) -> dict[str, Any]:
    """The schemas by name in their `shape`, and the identifiers of operations by path and verb."""
    document = _fields(packed)
    return {
        "definitions": {name: _shape(schema) for name, schema in (_named(item) for item in _fields(document[9][0])[1])},
        "paths": {
            path: {
                verb: _fields(_fields(item)[number][0])[5][0].decode()
                for verb, number in VERBS.items()
                if number in _fields(item)
            }
            for path, item in (_named(item) for item in _fields(document[8][0])[2])
        },
    }


def shape(schema: dict[str, Any]) -> Any:
    """The compared parts of a schema: types, references, texts, required fields, and nested schemas."""
    additional = schema.get("additionalProperties")
    types = schema.get("type", [])
    return (
        schema.get("$ref", ""),
        schema.get("format", ""),
        schema.get("description", ""),
        tuple(schema.get("required", ())),
        tuple([types] if isinstance(types, str) else types),
        shape(schema["items"]) if schema.get("items") else None,
        shape(additional) if isinstance(additional, dict) else additional,
        {name: shape(inner) for name, inner in schema.get("properties", {}).items()},
        "default" in schema,
        sorted(name for name in schema if name.startswith("x-")),
    )


def _shape(packed: bytes) -> Any:
    found = _fields(packed)

    def text(number: int) -> str:
        return found[number][0].decode() if number in found else ""

    additional: Any = None
    if 21 in found:
        choice = _fields(found[21][0])
        additional = _shape(choice[1][0]) if 1 in choice else bool(choice[2][0])
    properties = [_named(item) for item in _fields(found[25][0]).get(1, [])] if 25 in found else []
    return (
        text(1),
        text(2),
        text(4),
        tuple(name.decode() for name in found.get(19, ())),
        tuple(name.decode() for name in _fields(found[22][0])[1]) if 22 in found else (),
        _shape(_fields(found[23][0])[1][0]) if 23 in found else None,
        additional,
        {name: _shape(inner) for name, inner in properties},
        5 in found,
        sorted(_named(item)[0] for item in found.get(31, ())),
    )


def _fields(packed: Any) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = {}
    for number, _, value in fields_in(packed):
        found.setdefault(number, []).append(value)
    return found


def _named(packed: bytes) -> tuple[str, bytes]:
    found = _fields(packed)
    return found[1][0].decode(), found.get(2, [b""])[0]
