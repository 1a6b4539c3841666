"""`Model`: the frozen struct that every API type is built from.

A model is a msgspec struct: immutable, keyword-only, camelCase on the wire, invisible to the garbage
collector. Its wire rule is Kubernetes' own: *absent* is `None` or an empty collection, and scalars are
always written, `0` and `False` included. Nothing here talks to a server or knows of kinds.
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
    """A mapping that refuses every change; what `Mapping` fields of a model hold.

    It is a `dict` so that msgspec and `json` encode it natively. Hashable when its values are.
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


_UNKNOWN_ARGUMENT: Final = re.compile(r"('\w+') is an invalid keyword argument for StructMeta.__new__\(\)")
EMPTY: Final[FrozenDict[Any, Any]] = FrozenDict()
"""The one empty mapping: the default of every `Mapping` field, so that empty means absent by identity."""

field = msgspec.field

_SCALARS = (bool, int, float, str, enum.Enum)
_FieldType = type(msgspec.field(default=None))


def _always_written(value: object) -> Any:
    # msgspec's omit_defaults leaves out a field that *is* its default. A factory is never the value itself, so a
    # scalar behind one is always written; repeat().__next__ is the cheapest constant factory CPython has.
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
    """The annotations of a class body; names that are not defined yet are forward references.

    From Python 3.14 on (PEP 649) the body holds a function that makes them instead.
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


def _discreet_reprs(hidden: frozenset[str]) -> dict[str, Any]:
    """`__repr__`, and `__rich_repr__` for rich and its tracebacks, that do not show some fields."""

    def __rich_repr__(self: Any) -> Iterator[tuple[str, object]]:
        for name in self.__struct_fields__:
            yield name, _Redacted() if name in hidden else getattr(self, name)

    def __repr__(self: Any) -> str:
        return f"{type(self).__name__}({', '.join(f'{n}={v!r}' for n, v in __rich_repr__(self))})"

    return {"__repr__": __repr__, "__rich_repr__": __rich_repr__}


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(msgspec.field,))
class ModelMeta(msgspec.StructMeta):
    """msgspec's metaclass plus our wire rule; lets options such as `kw_only` be inherited."""

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
            namespace.update(_discreet_reprs(frozenset(hidden)))
        options.setdefault("kw_only", True)
        try:
            cls = super().__new__(mcls, name, bases, namespace, **options)
        except TypeError as wrong:
            problem = _UNKNOWN_ARGUMENT.sub(r"there is no class argument \1", str(wrong))
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
    """A frozen, keyword-only value with camelCase wire names.

    Use `tuple[X, ...] = ()` for lists and `Mapping[str, X] = EMPTY` for maps. Unknown fields of the wire are
    ignored on decoding, and never lost on writing because writes are patches. The class option
    `omit_empty=True` makes empty strings, zeros and `False` absent as well, as Go's `omitempty` does;
    `hidden=("data",)` keeps the values of fields out of `repr()`.
    """


def replace(model: M, /, **changes: Any) -> M:
    """A copy of `model` with some fields changed; raises `TypeError` for names it does not have."""
    return msgspec.structs.replace(model, **changes)


def fields_of(model: type[msgspec.Struct]) -> tuple[msgspec.structs.FieldInfo, ...]:
    """The fields of a model class in their declared order, with wire names (`encode_name`)."""
    return msgspec.structs.fields(model)
