"""Names: converts camelCase JSON names to snake_case Python names, and back like msgspec."""

from __future__ import annotations

import builtins
import keyword
import re

__all__ = ["class_name", "python_name", "wire_by_rename"]

_WORD = re.compile(r"[A-Z]+s(?![a-z])|[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+|[0-9]+")
_RESERVED = frozenset({"field", "mro"})
_IN_ANNOTATIONS = frozenset({"tuple", "str", "int", "float", "bool", "bytes", "datetime"})
"""Names that a field must not have, because annotations of its class use them for types."""

_TAKEN = frozenset(dir(builtins)) | {
    "EMPTY", "Annotated", "Any", "Atomic", "IntOrString", "ListMap", "Mapping", "MicroTime", "Model", "PatchStrategy",
    "Quantity", "Resource", "Scale", "Set",
}  # fmt: skip
"""Names that generated modules import or that are builtins."""


def python_name(wire: str) -> str:
    """Return the Python name: `clusterIPs` → `cluster_ips`, `continue` → `continue_`, `$ref` → `ref`."""
    words = _WORD.findall(wire)
    name = "_".join(word.lower() for word in words) or "value"
    if name[0].isdigit():
        name = f"n{name}"
    return f"{name}_" if keyword.iskeyword(name) or name in _RESERVED | _IN_ANNOTATIONS else name


def wire_by_rename(name: str) -> str:
    """Return the JSON name that `rename="camel"` derives from a Python name."""
    first, *rest = name.split("_")
    return first + "".join(part.title() for part in rest)


def class_name(*parts: str) -> str:
    """Return a class name from JSON names: `class_name("HelloApp", "spec")` is `HelloAppSpec`."""
    name = "".join(part[:1].upper() + part[1:] for part in (w for p in parts for w in re.split(r"[\W_]+", p)))
    if name[:1].isdigit():
        name = f"N{name}"
    return f"{name}Kind" if keyword.iskeyword(name) or name in _TAKEN else name
