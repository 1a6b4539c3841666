"""Patterns of fields: checked by RE2 at declaration, and matched by RE2 after an object is decoded.

msgspec would match them with Python's `re`, which backtracks: one string could block the event loop for hours. So
`Pattern(…)` is a note that msgspec stores and ignores. `checker_of` returns a function that checks the strings of a
decoded value against the notes of its type; types without patterns have none and no cost.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final, TypeAlias, cast, get_args

import msgspec
from msgspec import inspect as types

from steersman.models.declaring import ModelDeclarationError

__all__ = ["RE2_SYNTAX", "checker_of", "noted_patterns", "pattern_note", "patterns_of", "refuse_patterns"]

_FRAMEWORK: Final = "steersman."
"""Modules of Steersman, in which models have no patterns and are not searched."""
RE2_SYNTAX: Final = "patterns are RE2, as on the API server: no look-around, back-references or possessive repetition"
"""The hint of errors about patterns that RE2 refuses."""
_NOTE: Final = "steersman.pattern:"
"""Prefix of keys of `msgspec.Meta.extra` with a regular expression: a field may have several."""

Check: TypeAlias = Callable[[Any], None]
_Place: TypeAlias = str
"""The place of a type for errors: ``class AppSpec: field 'image'``."""


def pattern_note(regex: str) -> msgspec.Meta:
    """Return the annotation of a string that matches `regex`, for `patterns_of` and `checker_of`."""
    if not isinstance(regex, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"Pattern({regex!r}): a regular expression is a string")
    return msgspec.Meta(extra={f"{_NOTE}{regex}": True}, extra_json_schema={"pattern": regex})


def patterns_of(marker: object) -> tuple[str, ...]:
    """Return the regular expressions of one item of `Annotated[…]`, also of pydantic and annotated-types."""
    own = getattr(marker, "pattern", None)
    if own is not None:
        return (str(own),)
    return noted_patterns(marker) if isinstance(marker, msgspec.Meta) else ()


def refuse_patterns(cls: type, annotations: Mapping[str, Any]) -> None:
    """Raise `ModelDeclarationError` for an annotation of `cls` with a pattern that RE2 refuses.

    Annotations with names that are not defined yet are checked at the first decoding, by `checker_of`.
    """
    if cls.__module__.startswith(_FRAMEWORK):
        return
    for name, annotation in annotations.items():
        place = f"class {cls.__name__}: field {name!r}"
        for marker in _metas(_evaluated(annotation, cls)):
            try:
                if marker.pattern is not None:
                    _refuse_own(place, marker.pattern)
                for regex in patterns_of(marker):
                    _matcher_of(regex, place)
            except TypeError as wrong:
                raise ModelDeclarationError(str(wrong)) from None


def _evaluated(annotation: Any, cls: type) -> Any:
    if not isinstance(annotation, str):
        return annotation
    module = sys.modules.get(cls.__module__)
    try:
        return eval(annotation, vars(module) if module else {}, {cls.__name__: cls})  # noqa: S307 - as `typing` does
    except Exception:  # noqa: BLE001 - a name that is defined later, or an error that msgspec describes
        return None


def _metas(annotation: Any) -> Iterator[msgspec.Meta]:
    for part in (*get_args(annotation), *getattr(annotation, "__metadata__", ())):
        if isinstance(part, msgspec.Meta):
            yield part
        else:
            yield from _metas(part)


def _matcher_of(regex: str, place: _Place) -> Callable[[str], bool]:
    from steersman.regex import compile_matcher  # RE2 is loaded only for patterns

    try:
        return compile_matcher(regex)
    except ValueError as problem:
        raise TypeError(f"{place}: Pattern({regex!r}): {problem}; {RE2_SYNTAX}") from None


def _refuse_own(place: _Place, regex: str) -> None:
    raise TypeError(
        f"{place}: msgspec.Meta(pattern=…) is matched by an engine that backtracks; write Pattern({regex!r})"
    )


class _MismatchError(Exception):
    """A string does not match; its containers add their steps, innermost first."""

    def __init__(self, regex: str) -> None:
        super().__init__(regex)
        self.regex = regex
        self.steps: list[str] = []

    def as_validation_error(self) -> msgspec.ValidationError:
        """Return the error as msgspec would raise it."""
        path = "".join(reversed(self.steps))
        before, key, after = path.rpartition("\0")  # the step for the key of a map
        where = f"`key` in `${before}`" if key and not after else f"`${path}`"
        return msgspec.ValidationError(f"Expected `str` matching regex {self.regex!r} - at {where}")


def checker_of(kind: Any) -> Check | None:
    """Return a function that raises `msgspec.ValidationError` for a decoded value with a string that does not match.

    Returns `None` for a type without patterns. Raises `TypeError`, with class and field, for a pattern that RE2
    refuses.
    """
    if getattr(kind, "__module__", "").startswith(_FRAMEWORK):
        return None
    found = types.type_info(kind)
    owners = _owners(found, f"type {getattr(kind, '__name__', kind)}")
    if not owners:
        return None
    check = _Maker(owners).check(found, f"type {getattr(kind, '__name__', kind)}")
    return None if check is None else partial(_checked, check)


def _checked(check: Check, value: Any) -> None:
    try:
        check(value)
    except _MismatchError as problem:
        raise problem.as_validation_error() from None


def _children(node: types.Type) -> list[tuple[types.Type, _Place]]:
    """Return the types that a type consists of, each with its field, or `""`."""
    match node:
        case types.Metadata():
            return [(node.type, "")]
        case types.UnionType():
            return [(each, "") for each in node.types]
        case types.CollectionType():
            return [(node.item_type, "")]
        case types.TupleType():
            return [(each, "") for each in node.item_types]
        case types.DictType() | types.FrozenDictType():
            return [(node.key_type, ""), (node.value_type, "")]
        case types.StructType() | types.DataclassType() | types.TypedDictType() | types.NamedTupleType():
            if node.cls.__module__.startswith(_FRAMEWORK):
                return []
            return [(field.type, f"class {node.cls.__name__}: field {field.name!r}") for field in node.fields]
        case _:
            return []


def noted_patterns(bearer: msgspec.Meta | types.Metadata) -> tuple[str, ...]:
    """Return the regular expressions that `pattern_note` added to a type."""
    extra = cast("Mapping[str, Any]", cast(Any, bearer).extra or {})
    return tuple(key.removeprefix(_NOTE) for key in extra if key.startswith(_NOTE))


def _owners(root: types.Type, place: _Place) -> dict[int, types.Type]:
    """Return the parts of a type that contain patterns, directly or indirectly, by identity."""
    parents: dict[int, list[types.Type]] = {}
    with_patterns: list[types.Type] = []
    seen: dict[int, types.Type] = {}
    todo = [(root, place)]
    while todo:
        node, place = todo.pop()
        if id(node) in seen:
            continue
        seen[id(node)] = node
        if isinstance(node, types.StrType) and node.pattern is not None:
            _refuse_own(place, node.pattern)
        if isinstance(node, types.Metadata) and (noted := noted_patterns(node)):
            with_patterns.append(node)
            if not _is_text(node.type):
                raise TypeError(f"{place}: Pattern({noted[0]!r}) is for strings")
        for child, field in _children(node):
            parents.setdefault(id(child), []).append(node)
            todo.append((child, field or place))
    found: dict[int, types.Type] = {}
    while with_patterns:
        node = with_patterns.pop()
        if id(node) not in found:
            found[id(node)] = node
            with_patterns += parents.get(id(node), ())
    return found


def _is_text(node: types.Type) -> bool:
    match node:
        case types.StrType():
            return True
        case types.Metadata():
            return _is_text(node.type)
        case types.UnionType():
            return any(map(_is_text, node.types))
        case _:
            return False


class _Maker:
    """Creates the checks of the parts of a type; `owners` are the parts with patterns."""

    def __init__(self, owners: Mapping[int, types.Type]) -> None:
        self._owners = owners
        self._fields: dict[int, Check] = {}

    def check(self, node: types.Type, place: _Place) -> Check | None:
        """Return the check of one part; `None` if it has no pattern."""
        if id(node) not in self._owners:
            return None
        match node:
            case types.Metadata():
                own = [partial(_text, regex, _matcher_of(regex, place)) for regex in noted_patterns(node)]
                return _all([*own, self.check(node.type, place)])
            case types.UnionType():
                return _all([self.check(each, place) for each in node.types])
            case types.CollectionType():
                return partial(_items, check) if (check := self.check(node.item_type, place)) else None
            case types.TupleType():
                return partial(_places, [self.check(each, place) for each in node.item_types])
            case types.DictType() | types.FrozenDictType():
                return partial(_entries, self.check(node.key_type, place), self.check(node.value_type, place))
            case types.StructType() | types.DataclassType() | types.TypedDictType() | types.NamedTupleType():
                return self._struct(node)
            case _:
                return None

    def _struct(
        self, node: types.StructType | types.DataclassType | types.TypedDictType | types.NamedTupleType
    ) -> Check:
        if (known := self._fields.get(id(node))) is not None:
            return known
        fields: list[_Field] = []
        keyed = isinstance(node, types.TypedDictType)
        made = self._fields[id(node)] = partial(_keys if keyed else _fields, dict if keyed else node.cls, fields)
        for field in node.fields:  # after `made` is stored, because a type may contain itself
            check = self.check(field.type, f"class {node.cls.__name__}: field {field.name!r}")
            if check is not None:
                fields.append(_Field(field, check))
        return made


def _all(checks: list[Check | None]) -> Check | None:
    some = [each for each in checks if each is not None]
    return some[0] if len(some) == 1 else partial(_each, some) if some else None


def _each(checks: list[Check], value: Any) -> None:
    for check in checks:
        check(value)


def _text(regex: str, matches: Callable[[str], bool], value: Any) -> None:
    if isinstance(value, str) and not matches(value):
        raise _MismatchError(regex)


def _items(check: Check, value: Any) -> None:
    if not isinstance(value, list | tuple | set | frozenset):
        return
    checked = 0
    try:
        for item in cast("list[Any]", value):
            check(item)
            checked += 1
    except _MismatchError as problem:
        problem.steps.append(f"[{checked}]" if isinstance(value, list | tuple) else "[...]")
        raise


def _places(checks: list[Check | None], value: Any) -> None:
    if not isinstance(value, tuple):
        return
    for index, (check, item) in enumerate(zip(checks, cast("tuple[Any, ...]", value), strict=False)):
        if check is not None:
            _step(check, item, f"[{index}]")


def _entries(key_check: Check | None, value_check: Check | None, value: Any) -> None:
    if not isinstance(value, Mapping):
        return
    for key, item in cast("Mapping[str, Any]", value).items():
        if key_check is not None:
            _step(key_check, key, "\0")
        if value_check is not None:
            _step(value_check, item, "[...]")


def _step(check: Check, value: Any, step: str) -> None:
    try:
        check(value)
    except _MismatchError as problem:
        problem.steps.append(step)
        raise


class _Field:
    """A field with a check: its names and its default."""

    __slots__ = ("_info", "check", "name")

    def __init__(self, info: types.Field, check: Check) -> None:
        self._info = info
        self.name = info.name
        self.check = check

    def refused(self, value: Any, problem: _MismatchError) -> None:
        """Raise `problem` with the step to the field, unless the value is the default, which is not checked."""
        default = self._info.default
        if default is msgspec.NODEFAULT and self._info.default_factory is not msgspec.NODEFAULT:
            default = self._info.default_factory()
        if default is not msgspec.NODEFAULT and value == default:
            return
        problem.steps.append(f".{self._info.encode_name}")
        raise problem


def _fields(cls: type, fields: list[_Field], value: Any) -> None:
    if not isinstance(value, cls):
        return
    for field in fields:
        item = getattr(value, field.name)
        try:
            field.check(item)
        except _MismatchError as problem:
            field.refused(item, problem)


def _keys(cls: type, fields: list[_Field], value: Any) -> None:
    if not isinstance(value, cls):
        return
    for field in fields:
        if (item := value.get(field.name)) is not None:
            try:
                field.check(item)
            except _MismatchError as problem:
                field.refused(item, problem)
