"""`Model`: the frozen struct that is the base of every API type.

A model is a msgspec struct: immutable, keyword-only, camelCase in JSON, not tracked by the garbage collector. Its JSON
form follows Kubernetes: `None` and empty collections are absent, and scalars are always written, also `0` and `False`.
"""

from __future__ import annotations

import enum
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from itertools import repeat
from types import UnionType
from typing import (
    Annotated,
    Any,
    Final,
    NoReturn,
    TypeVar,
    Union,
    cast,
    dataclass_transform,
    get_args,
    get_origin,
)

import msgspec

from steersman.models.declaring import ModelDeclarationError
from steersman.models.patterns import refuse_patterns

__all__ = ["EMPTY", "FrozenDict", "Model", "ModelMeta", "field", "fields_of", "replace"]

K = TypeVar("K")
V = TypeVar("V")
M = TypeVar("M", bound=msgspec.Struct)


def _refuse(self: object, *_args: object, **_kwargs: object) -> NoReturn:
    raise TypeError("API objects are immutable: build a new mapping, for example {**labels, 'key': 'value'}")


class FrozenDict(dict[K, V]):
    """A mapping that refuses every change; the value of `Mapping` fields of a model.

    It is a `dict`, so that msgspec and `json` encode it natively. It is hashable if its values are.
    """

    __slots__ = ()

    __setitem__ = __delitem__ = __ior__ = _refuse  # type: ignore[assignment]
    clear = pop = popitem = setdefault = update = _refuse  # type: ignore[assignment]

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __repr__(self) -> str:
        return repr(dict(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenDict, (dict(self),)

    def __copy__(self) -> FrozenDict[K, V]:
        return self

    def __deepcopy__(self, _memo: object) -> FrozenDict[K, V]:
        return self


_UNKNOWN_ARGUMENT: Final = re.compile(  # the second is Python 3.13's
    r"('\w+') is an invalid keyword argument for StructMeta.__new__\(\)"
    r"|StructMeta.__new__\(\) got an unexpected keyword argument ('\w+')"
)
EMPTY: Final[FrozenDict[Any, Any]] = FrozenDict()
"""The empty mapping: the default of every `Mapping` field, so that an empty field is detected by identity."""

field = msgspec.field

_SCALARS = (bool, int, float, str, enum.Enum)
_FieldType = type(msgspec.field(default=None))


def _always_written(value: object) -> Any:
    # msgspec's omit_defaults omits a field that *is* its default. The result of a factory never is the default, so
    # such a scalar is always written; repeat().__next__ is the fastest constant factory in CPython.
    return repeat(value).__next__


def _with_written_default(value: object) -> object:
    if isinstance(value, _SCALARS):
        return msgspec.field(default_factory=_always_written(value))
    if isinstance(value, _FieldType):
        spec = cast(Any, value)
        if isinstance(spec.default, _SCALARS):
            return msgspec.field(default_factory=_always_written(spec.default), name=spec.name)
        default: object = spec.default
        if isinstance(default, dict):
            return msgspec.field(default=FrozenDict(cast("dict[Any, Any]", default)) or EMPTY, name=spec.name)
    return value


_MAPPING_TEXT = re.compile(r"(typing\.|collections\.abc\.|Annotated\[|Optional\[|None \| )*(Mapping|dict|Dict)\[")


def _is_mapping(annotation: object) -> bool:
    if isinstance(annotation, str):
        return _MAPPING_TEXT.match(annotation) is not None
    origin = get_origin(annotation)
    if origin is Union or origin is UnionType or origin is Annotated:
        return any(_is_mapping(a) for a in get_args(annotation))
    plain = origin or annotation
    return isinstance(plain, type) and issubclass(plain, Mapping)


def own_annotations(namespace: Mapping[str, Any]) -> dict[str, Any]:
    """Return the annotations of a class body; names that are not defined yet are forward references.

    Since Python 3.14 (PEP 649) the body has a function that creates them.
    """
    written = namespace.get("__annotations__")
    if written is not None or sys.version_info < (3, 14):
        return written or {}
    import annotationlib

    annotate = annotationlib.get_annotate_from_class_namespace(namespace)
    if annotate is None:
        return {}
    return annotationlib.call_annotate_function(annotate, annotationlib.Format.FORWARDREF)


def _freezer(names: tuple[str, ...], then: Callable[[Any], None] | None) -> Callable[[Any], None]:
    set_field = msgspec.structs.force_setattr

    def __post_init__(self: Any) -> None:
        for name in names:
            value: Any = getattr(self, name)
            if value is EMPTY or value is None:
                continue
            kind = value.__class__
            if kind is dict or (kind is not FrozenDict and issubclass(kind, Mapping)):
                set_field(self, name, FrozenDict(value) if value else EMPTY)
        if then is not None:
            then(self)

    return __post_init__


class _Redacted:
    def __repr__(self) -> str:
        return "…"


def _redacted_reprs(hidden: frozenset[str]) -> dict[str, Any]:
    """Return `__repr__`, and `__rich_repr__` for rich and its tracebacks, without the values of some fields."""

    def __rich_repr__(self: Any) -> Iterator[tuple[str, object]]:
        for name in self.__struct_fields__:
            yield name, _Redacted() if name in hidden else getattr(self, name)

    def __repr__(self: Any) -> str:
        return f"{type(self).__name__}({', '.join(f'{n}={v!r}' for n, v in __rich_repr__(self))})"

    return {"__repr__": __repr__, "__rich_repr__": __rich_repr__}


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(msgspec.field,))
class ModelMeta(msgspec.StructMeta):
    """msgspec's metaclass with the JSON rules of models; options such as `kw_only` are inherited."""

    def __new__(
        mcls: type[ModelMeta],
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        *,
        omit_empty: bool | None = None,
        hidden: tuple[str, ...] = (),
        **options: Any,
    ) -> ModelMeta:
        """Create the class, after replacing mapping defaults and defaults which would hide that a field was set."""
        inherited = any(getattr(base, "__omit_empty__", False) for base in bases)
        omits = inherited if omit_empty is None else omit_empty
        annotations = own_annotations(namespace)
        own_mappings = [n for n, a in annotations.items() if _is_mapping(a)]
        for field_name in annotations:
            if field_name not in namespace:
                continue
            default = namespace[field_name]
            if field_name in own_mappings and isinstance(default, dict):
                namespace[field_name] = FrozenDict(cast("dict[Any, Any]", default)) or EMPTY
            elif not omits:
                namespace[field_name] = _with_written_default(default)
        mappings = (*(n for b in bases for n in getattr(b, "__mapping_fields__", ())), *own_mappings)
        then = namespace.get("__post_init__")
        if own_mappings or (mappings and then is not None):
            namespace["__post_init__"] = _freezer(tuple(dict.fromkeys(mappings)), then)
        if hidden:
            namespace.update(_redacted_reprs(frozenset(hidden)))
        options.setdefault("kw_only", True)
        try:
            cls = super().__new__(mcls, name, bases, namespace, **options)
        except TypeError as wrong:
            problem = _UNKNOWN_ARGUMENT.sub(r"there is no class argument \1\2", str(wrong))
            raise ModelDeclarationError(f"class {name}: {problem}") from wrong
        cls.__mapping_fields__ = tuple(dict.fromkeys(mappings))  # type: ignore[attr-defined]
        cls.__omit_empty__ = omits  # type: ignore[attr-defined]
        refuse_patterns(cls, annotations)
        return cls


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(msgspec.field,))
class Model(
    msgspec.Struct,
    metaclass=ModelMeta,
    frozen=True,
    kw_only=True,
    rename="camel",
    omit_defaults=True,
    repr_omit_defaults=True,
    gc=False,
):
    """A frozen, keyword-only value with camelCase JSON names.

    Use `tuple[X, ...] = ()` for lists and `Mapping[str, X] = EMPTY` for maps. Unknown JSON fields are ignored when an
    object is decoded, and not lost by writes, because writes are patches. The class option `omit_empty=True` also omits
    empty strings, zeros and `False`, like Go's `omitempty`; `hidden=("data",)` hides the values of fields in `repr()`.
    """


def replace(model: M, /, **changes: Any) -> M:
    """Return a copy of `model` with some fields changed. Raises `TypeError` for unknown names."""
    return msgspec.structs.replace(model, **changes)


def fields_of(model: type[msgspec.Struct]) -> tuple[msgspec.structs.FieldInfo, ...]:
    """Return the fields of a model class in order of declaration, with JSON names (`encode_name`)."""
    return msgspec.structs.fields(model)
