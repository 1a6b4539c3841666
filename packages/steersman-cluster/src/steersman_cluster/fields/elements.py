"""Path elements: how an item of a list is named in a set of fields, and how a path reads in an error text."""

from __future__ import annotations

import json
from json.encoder import encode_basestring  # type: ignore[attr-defined]
from typing import Any, cast

from steersman_cluster.objects import from_json
from steersman_cluster.schema.types import Type

__all__ = ["ElementError", "element", "shown"]


class ElementError(ValueError):
    """The item has no path element; the text is that of structured-merge-diff."""


def element(item: Any, type: Type) -> str:
    """The path element of an item of an associative list: `k:{"name":"web"}` or `v:"x"`.

    Keys that are missing take the default of their field, and are left out where there is none.
    """
    if not type.keys:
        return _value(item)
    if not isinstance(item, dict):
        kind = "a null element" if item is None else "non-map elements"
        raise ElementError(f"associative list with keys may not have {kind}")
    entries = cast("dict[str, Any]", item)
    keys = type.keys
    if len(keys) == 1:
        value: Any = entries.get(keys[0])
        if isinstance(value, str):
            return f'k:{{"{keys[0]}":{encode_basestring(value)}}}'
    found: dict[str, Any] = {}
    for name in sorted(keys):
        if name in entries:
            found[name] = entries[name]
        elif type.item.defaults.get(name) is not None:
            found[name] = type.item.defaults[name]
    if not found:
        names = " ".join(json.dumps(name) for name in keys)
        raise ElementError(
            f"associative list with keys has an element that omits all key fields [{names}] "
            "(and doesn't have default values for any key fields)"
        )
    return f"k:{_json(found)}"


def _value(item: Any) -> str:
    if item.__class__ is str:
        return f"v:{encode_basestring(item)}"
    if isinstance(item, dict):
        raise ElementError("associative list without keys has an element that's a map type")
    if isinstance(item, list):
        raise ElementError("not supported: associative list with lists as elements")
    if item is None:
        raise ElementError("associative list without keys has an element that's an explicit null")
    return f"v:{_json(item)}"


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def shown(path: tuple[str, ...]) -> str:
    """A path as the API server's errors write it: `.spec.containers[name="web"].image`."""
    return "".join(map(_shown, path))


def _shown(step: str) -> str:
    match step[0]:
        case "f":
            return f".{step[2:]}"
        case "k":
            fields = cast("dict[str, Any]", from_json(step[2:]))
            return f"[{','.join(f'{name}={_json(value)}' for name, value in fields.items())}]"
        case "v":
            return f"[={step[2:]}]"
        case _:
            return f"[{step[2:]}]"
