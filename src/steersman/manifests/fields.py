"""The fields of a type that a schema is made from: models and other msgspec structs, dataclasses, pydantic models.

One shape for all of them, `Field`: its Python and wire name, its annotation with markers, its default. Pydantic is
recognised by its protocol and never imported.
"""

from __future__ import annotations

import dataclasses
import inspect
from dataclasses import dataclass
from typing import Annotated, Any, Final, TypeVar, cast, get_args, get_origin, get_type_hints

import msgspec

from steersman.manifests.errors import Origin
from steersman.manifests.source import source_of

__all__ = ["MISSING", "Field", "doc_of", "fields_of_type", "has_fields", "is_builtin", "is_pydantic", "origin_of"]

MISSING: Final = object()
"""The default of a field that has none."""


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    wire: str
    hint: Any
    default: Any
    doc: str
    origin: Origin
    zero_is_absent: bool = False
    """Empty strings, zeros and `False` are not written, or are Go's; a schema has no default for them."""


def is_pydantic(kind: Any) -> bool:
    return isinstance(kind, type) and hasattr(kind, "model_fields") and hasattr(kind, "model_validate")


def has_fields(kind: Any) -> bool:
    """Whether a type is an object with named fields."""
    if not isinstance(kind, type):
        return False
    cls = cast("type[Any]", kind)
    return issubclass(cls, msgspec.Struct) or dataclasses.is_dataclass(cls) or is_pydantic(cls)


def is_builtin(kind: type) -> bool:
    """Whether a type is Kubernetes' own: its defaults are Go's zero values and no defaults of a schema."""
    return kind.__module__.startswith(("steersman.k8s", "steersman.models."))


def origin_of(kind: type, name: str = "") -> Origin:
    """Where a class stands, or the class of its ancestry that declares a field."""
    if name:
        for cls in kind.__mro__:
            if name in inspect.get_annotations(cls):
                source = source_of(cls)
                found = source.fields.get(name)
                return Origin(kind.__name__, name, source.file, found.line if found else source.line)
    source = source_of(kind)
    return Origin(kind.__name__, name, source.file, source.line)


def doc_of(kind: type) -> str:
    """The class's own docstring, neither inherited nor made by `@dataclass`."""
    doc = kind.__dict__.get("__doc__") or ""
    if not isinstance(doc, str) or (dataclasses.is_dataclass(kind) and doc.startswith(f"{kind.__name__}(")):
        return ""
    return inspect.cleandoc(doc)


def fields_of_type(kind: Any) -> list[Field]:
    """The fields of a class, or of a parametrised generic one, in their order. Raises `NameError` for what an
    annotation names and the module does not have."""
    cls = cast("type[Any]", get_origin(kind) or kind)
    variables = dict(zip(getattr(cls, "__parameters__", ()), get_args(kind), strict=False))
    if is_pydantic(cls):
        return [_from_pydantic(cls, name, info) for name, info in cast(Any, cls).model_fields.items()]
    hints = get_type_hints(cls, include_extras=True)
    found: list[Field] = []
    if issubclass(cls, msgspec.Struct):
        for f in msgspec.structs.fields(cls):
            default = MISSING if f.required else f.default
            if default is msgspec.NODEFAULT:
                default = f.default_factory()
            found.append(_field(cls, f.name, f.encode_name, hints[f.name], default, variables))
        return found
    for f in dataclasses.fields(cls):
        default = MISSING if f.default is dataclasses.MISSING else f.default
        if f.default_factory is not dataclasses.MISSING:
            default = f.default_factory()
        found.append(_field(cls, f.name, f.name, hints[f.name], default, variables))
    return found


def _field(cls: type, name: str, wire: str, hint: Any, default: Any, variables: dict[Any, Any]) -> Field:
    zero = bool(getattr(cls, "__omit_empty__", False)) or is_builtin(cls)
    return Field(name, wire, substitute(hint, variables), default, _doc_of_field(cls, name), origin_of(cls, name), zero)


def _from_pydantic(cls: type, name: str, info: Any) -> Field:
    hint = Annotated[(info.annotation, *info.metadata)] if info.metadata else info.annotation
    default = MISSING if info.is_required() else info.get_default(call_default_factory=True)
    wire = info.serialization_alias or info.alias or name
    doc = info.description or _doc_of_field(cls, name)
    return Field(name, wire, hint, default, doc, origin_of(cls, name))


def _doc_of_field(cls: type, name: str) -> str:
    for base in cls.__mro__:
        if name in inspect.get_annotations(base):
            found = source_of(base).fields.get(name)
            return found.doc if found else ""
    return ""


def substitute(hint: Any, variables: dict[Any, Any]) -> Any:
    """A hint with type variables replaced."""
    if not variables:
        return hint
    if isinstance(hint, TypeVar):
        return variables.get(hint, Any)
    parameters = getattr(hint, "__parameters__", ())
    return hint[tuple(variables.get(p, Any) for p in parameters)] if parameters else hint
