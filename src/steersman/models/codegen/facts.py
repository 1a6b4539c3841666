"""Facts about built-in types from the API server's OpenAPI that their Python classes do not have.

They are required fields, widths of numbers, defaults and atomic structs, for schemas that embed the types. The zero
defaults that OpenAPI has for every required field are left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, cast

from steersman.models.codegen.builder import Schema
from steersman.models.codegen.ir import ModuleDef
from steersman.models.codegen.openapi import WELL_KNOWN
from steersman.models.codegen.render import HEADER

__all__ = ["facts_of", "render_facts"]

_WIDTH = 120
_PLAIN_FORMATS = (None, "int64", "date-time", "byte", "int-or-string", "double")


def facts_of(modules: Iterable[ModuleDef], schemas: Mapping[str, Schema]) -> dict[str, dict[str, Any]]:
    """Return the facts of all generated classes by `module:Class`, and those of classes that stand for a schema."""
    named = {
        f"{module.path.rpartition('.')[2]}:{cls.ref.name}": cls.schema
        for module in modules
        for cls in module.classes.values()
    }
    ours = (item for item in WELL_KNOWN.items() if item[1].startswith("steersman.models.meta."))
    named |= {f"meta:{known.rpartition('.')[2]}": schema for schema, known in ours}
    found = {
        name: _facts(schemas[schema], lists=name.startswith("meta:"))
        for name, schema in named.items()
        if schema in schemas
    }
    return {name: facts for name, facts in sorted(found.items()) if facts}


def _facts(schema: Schema, *, lists: bool) -> dict[str, Any]:
    """Return the facts of a schema; `lists` means that its class does not declare how lists are merged."""
    required = sorted(schema.get("required", ()))
    properties: Mapping[str, Schema] = schema.get("properties", {})
    formats: dict[str, str] = {}
    defaults: dict[str, Any] = {}
    merged: dict[str, str] = {}
    for name, prop in properties.items():
        items: Schema = prop.get("items") or {}
        for place, part in ((name, prop), (f"{name}[]", items)):
            if part.get("format") not in _PLAIN_FORMATS:
                formats[place] = part["format"]
        value = prop.get("default")
        if value is not None and not isinstance(value, dict | list) and (value or name not in required):
            defaults[name] = value
        if lists and (kind := prop.get("x-kubernetes-list-type")) in ("atomic", "set"):
            merged[name] = kind
    facts: dict[str, Any] = {"required": required, "formats": formats, "defaults": defaults, "lists": merged}
    if schema.get("x-kubernetes-map-type") == "atomic":
        facts["atomic"] = True
    return {key: value for key, value in facts.items() if value}


def render_facts(facts: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the source of a module with one mapping, `FACTS`."""
    lines = [HEADER, '"""What schemas of built-in types say beyond their classes."""', ""]
    lines += ["from typing import Any", "", "FACTS: dict[str, dict[str, Any]] = {"]
    for name, value in facts.items():
        lines.append(f"    {_text(name)}: {{")
        for key, content in value.items():
            lines += _entry(key, content)
        lines.append("    },")
    return "\n".join([*lines, "}", ""])


def _entry(key: str, content: Any) -> list[str]:
    if isinstance(content, list):
        inner = [f"{_text(item)}," for item in cast("list[str]", content)]
        brackets = "[]"
    elif isinstance(content, dict):
        inner = [f"{_text(k)}: {_text(v)}," for k, v in sorted(cast("dict[str, Any]", content).items())]
        brackets = "{}"
    else:
        return [f"        {_text(key)}: {_text(content)},"]
    line = f"        {_text(key)}: {brackets[0]}{' '.join(inner)[:-1]}{brackets[1]},"
    if len(line) <= _WIDTH:
        return [line]
    return [f"        {_text(key)}: {brackets[0]}", *(f"            {one}" for one in inner), f"        {brackets[1]},"]


def _text(value: Any) -> str:
    return str(value) if isinstance(value, bool) else json.dumps(value, ensure_ascii=False)
