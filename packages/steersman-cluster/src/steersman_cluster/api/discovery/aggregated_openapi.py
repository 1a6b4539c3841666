"""OpenAPI documents of aggregated servers: where a server has the one of a version, and how it is merged."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import urlsplit

from steersman_cluster.json_access import get_object, get_string
from steersman_cluster.objects import Object

__all__ = ["checked_document", "document_place", "without_conflicts"]

_REFERENCE = re.compile(rb'("#/definitions/)([^"]+)(")')


def document_place(index: bytes, group: str, version: str) -> tuple[str, str] | None:
    """Return the path and query of a version's document by the server's index; `None` if the index has none.

    Raises:
        ValueError: The index is not a JSON object, or the place is not a path of the server.
    """
    entry = get_object(get_object(_object(index), "paths"), f"apis/{group}/{version}")
    address = get_string(entry, "serverRelativeURL")
    if not address:
        return None
    parts = urlsplit(address)
    if parts.scheme or parts.netloc or not parts.path.startswith("/openapi/v3/"):
        raise ValueError(f"the OpenAPI document of {group}/{version} is at {address!r}, outside of /openapi/v3/")
    return parts.path, parts.query


def checked_document(body: bytes) -> bytes:
    """Return a document that has paths and schemas. Raises `ValueError` for another one."""
    document = _object(body)
    schemas = get_object(get_object(document, "components"), "schemas")
    for name, parts in (("paths", document.get("paths")), ("schemas", schemas)):
        if not isinstance(parts, dict) or not all(isinstance(p, dict) for p in cast(Object, parts).values()):
            raise ValueError(f"the {name} of the OpenAPI document are not objects")
    if "schemas" not in get_object(document, "components"):
        document["components"] = {**get_object(document, "components"), "schemas": {}}
        return json.dumps(document).encode()
    return body


def without_conflicts(document: bytes, definitions: Mapping[str, Any]) -> bytes:
    """Rename the schemas of a document of version 2 whose names other definitions have with another content.

    The names get the suffix `_v2`, `_v3` and so on, as kube-openapi does when it merges documents.
    """
    schemas: Object = json.loads(document)["components"]["schemas"]
    renamed: dict[str, str] = {}
    for name, schema in schemas.items():
        if definitions.get(name, schema) != schema:
            number = 2
            while f"{name}_v{number}" in definitions or f"{name}_v{number}" in schemas:
                number += 1
            renamed[name] = f"{name}_v{number}"
    if not renamed:
        return document
    text = _REFERENCE.sub(
        lambda found: found[1] + renamed.get(found[2].decode(), found[2].decode()).encode() + found[3], document
    )
    whole: Object = json.loads(text)
    whole["components"]["schemas"] = {
        renamed.get(name, name): schema for name, schema in whole["components"]["schemas"].items()
    }
    return json.dumps(whole).encode()


def _object(body: bytes) -> Object:
    try:
        document: Any = json.loads(body)
    except RecursionError:
        raise ValueError("the document is nested too deeply") from None
    if not isinstance(document, dict):
        raise ValueError("the document is not an object")
    return cast(Object, document)
