"""Random objects of a kind, and tests that its conversions lose no data in both directions.

    test_conversions_lose_nothing = round_trips("myapp:operator")

Objects are generated from the types of a class: every field absent or present, within its limits. Needs `hypothesis`,
which reduces a failing object to the smallest one. No cluster is needed.
"""

from __future__ import annotations

import asyncio
import difflib
import inspect
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import inspect as types

from steersman.models import Duration, Quantity, Resource, View, from_dict, info_of
from steersman.models.patterns import noted_patterns
from steersman.models.times import MicroTime
from steersman.regex import compile_matcher
from steersman.testing.running import operator_of
from steersman.webhook.conversion import Conversion, conversion_paths, convert, missing

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

__all__ = ["objects", "round_trip", "round_trips", "spec_fields"]

_TEXT: Final = "abcdefghijklmnopqrstuvwxyz0123456789-"
_WORDS: Final = ("a", "b-1", "example.com/x")
_INT: Final = 2**31 - 1


def objects(kind: type[Resource], overrides: Mapping[str, SearchStrategy[Any]] | None = None) -> SearchStrategy[Any]:
    """Objects of a class, with names, labels and annotations of their own.

    Strings match the patterns of their fields. CEL rules, and other rules that only the API server knows, are ignored.

    Args:
        kind: The class.
        overrides: Strategies for the wire values of fields, by path, in wire names or Python names:
            `{"spec.maxSize": st.just(9)}` or `{"spec.max_size": …}`. `[]` stands for each item of a list and `{}` for
            each value of a map: `spec.ports[].name`.

    Raises:
        ValueError: A path names no field of the class, or one that is never generated, such as `status`.
    """
    from hypothesis import strategies as st

    info = info_of(kind)
    described = types.type_info(kind)
    assert isinstance(described, types.StructType)
    given = {wire_path(kind, path): strategy for path, strategy in (overrides or {}).items()}
    labels = st.dictionaries(st.sampled_from(_WORDS), st.sampled_from(["", "x", "y-2"]), max_size=2)
    metadata = st.fixed_dictionaries(
        {
            "name": st.text(_TEXT[:26], min_size=1, max_size=8),
            **{path.removeprefix("metadata."): one for path, one in given.items() if path.startswith("metadata.")},
        },
        optional={key: labels for key in ("labels", "annotations") if f"metadata.{key}" not in given},
    )
    parts: dict[str, SearchStrategy[Any]] = {
        "apiVersion": st.just(info.api_version),
        "kind": st.just(info.kind),
        "metadata": given.get("metadata", metadata),
    }
    optional: dict[str, SearchStrategy[Any]] = {}
    for field in described.fields:
        name = field.encode_name
        if name in ("apiVersion", "kind", "metadata", "status"):
            continue  # `wire_path` refuses overrides of the other metadata fields.
        target = parts if field.required or name == "spec" else optional
        target[name] = _of(field.type, name, given)
    return st.fixed_dictionaries(parts, optional=optional).map(lambda plain: from_dict(kind, plain))


def spec_fields(
    kind: type[Resource], overrides: Mapping[str, SearchStrategy[Any]] | None = None
) -> tuple[dict[str, SearchStrategy[Any]], frozenset[str]]:
    """Return strategies for the wire values of the fields of `spec`, and the names of those that are required.

    Args:
        kind: The class.
        overrides: As for `objects`.

    Raises:
        ValueError: As for `objects`; or the class has no `spec`.
    """
    given = {wire_path(kind, path): strategy for path, strategy in (overrides or {}).items()}
    described = types.type_info(kind)
    assert isinstance(described, types.StructType)
    specs = [field.type for field in described.fields if field.encode_name == "spec"]
    structs = [one for one in _members(specs) if isinstance(one, types.StructType)]
    if not structs:
        raise ValueError(f"{kind.__name__} has no spec with fields")
    fields = structs[0].fields
    found = {field.encode_name: _of(field.type, f"spec.{field.encode_name}", given) for field in fields}
    return found, frozenset(field.encode_name for field in fields if field.required)


def _of(described: types.Type, path: str, overrides: Mapping[str, SearchStrategy[Any]]) -> SearchStrategy[Any]:  # noqa: C901
    """Return a strategy for the JSON values of a type."""
    from hypothesis import strategies as st

    if (override := overrides.get(path)) is not None:
        return override
    match described:
        case types.Metadata():
            regexes = noted_patterns(described)
            return _matching(described.type, regexes, path) if regexes else _of(described.type, path, overrides)
        case types.BoolType():
            return st.booleans()
        case types.IntType():
            low = described.ge if described.ge is not None else _next(described.gt, 1)
            high = described.le if described.le is not None else _next(described.lt, -1)
            step = described.multiple_of or 1
            low, high = -_INT if low is None else low, _INT if high is None else high
            return st.integers(-(-low // step), high // step).map(lambda n: n * step)
        case types.FloatType():
            return st.integers(-1000, 1000).map(lambda n: n / 8)
        case types.StrType():
            longest = min(described.max_length or 16, 16 + (described.min_length or 0))
            return st.text(_TEXT, min_size=described.min_length or 0, max_size=longest)
        case types.LiteralType():
            return st.sampled_from(described.values)
        case types.EnumType():
            return st.sampled_from([each.value for each in described.cls])
        case types.ListType() | types.VarTupleType() | types.SetType() | types.FrozenSetType():
            item = _of(described.item_type, f"{path}[]", overrides)
            low, high = described.min_length or 0, described.max_length
            return st.lists(item, min_size=low, max_size=min(high if high is not None else low + 3, low + 3))
        case types.DictType():
            value = _of(described.value_type, f"{path}{{}}", overrides)
            low = described.min_length or 0
            return st.dictionaries(st.text(_TEXT[:26], min_size=1, max_size=6), value, min_size=low, max_size=low + 2)
        case types.UnionType():
            chosen = [t for t in described.types if not isinstance(t, types.NoneType)]
            return st.one_of([_of(t, path, overrides) for t in chosen])
        case types.StructType():
            return _struct(described, path, overrides)
        case types.DateTimeType():
            return st.datetimes(min_value=_moment(1990), max_value=_moment(2030)).map(
                lambda t: f"{t:%Y-%m-%dT%H:%M:%SZ}"
            )
        case types.BytesType():
            return st.sampled_from(["", "YQ==", "/wA="])
        case types.CustomType():
            return _custom(described.cls)
        case types.AnyType():
            return st.sampled_from([{}, {"a": 1}, {"b": ["x", {"c": True}]}])
        case _:
            raise TypeError(f"{path}: no random values are known of {described}; give a strategy in overrides=")


def _struct(
    described: types.StructType, path: str, overrides: Mapping[str, SearchStrategy[Any]]
) -> SearchStrategy[Any]:
    from hypothesis import strategies as st

    required: dict[str, SearchStrategy[Any]] = {}
    optional: dict[str, SearchStrategy[Any]] = {}
    for field in described.fields:
        at = f"{path}.{field.encode_name}"
        # Deferred, because types may be recursive.
        made = st.deferred(lambda field=field, at=at: _of(field.type, at, overrides))
        (required if field.required else optional)[field.encode_name] = made
    return st.fixed_dictionaries(required, optional=optional)


def wire_path(kind: type[Resource], path: str) -> str:
    """Return the path of a field in wire names, of one in wire names or Python names.

    Raises:
        ValueError: The class has no such field, or `objects` never generates it.
    """
    first = path.partition(".")[0]
    if first in ("apiVersion", "api_version", "kind", "status") or (
        first == "metadata" and (path.count(".") > 1 or path.endswith(("[]", "{}")))
    ):
        raise ValueError(f"overrides: {path!r} of {kind.__name__} is never generated; remove it")
    found, at = [types.type_info(kind)], ""
    for step in path.split("."):
        name = step.rstrip("[]{}")
        fields = [field for one in _members(found) if isinstance(one, types.StructType) for field in one.fields]
        chosen = [field for field in fields if name in (field.encode_name, field.name)]
        if not chosen:
            names = sorted({field.encode_name for field in fields})
            hint = difflib.get_close_matches(name, names, 1) or names
            raise ValueError(
                f"overrides: {path!r}: {kind.__name__} has no field {at + name!r}; "
                + (f"did you mean {', '.join(map(repr, hint))}?" if hint else f"{at.rstrip('.')!r} has no fields")
            )
        found = [field.type for field in chosen]
        at += chosen[0].encode_name
        rest = step[len(name) :]
        while rest:
            found = [inner for one in _members(found) if (inner := _inner(one, rest[:2])) is not None]
            if not found:
                raise ValueError(f"overrides: {path!r}: {kind.__name__} has no {rest[:2]} at {at!r}")
            at, rest = at + rest[:2], rest[2:]
        at += "."
    return at.removesuffix(".")


def _members(described: Iterable[types.Type]) -> Iterator[types.Type]:
    """Yield types without their metadata, and the members of unions."""
    for one in described:
        match one:
            case types.Metadata():
                yield from _members([one.type])
            case types.UnionType():
                yield from _members(one.types)
            case _:
                yield one


def _inner(described: types.Type, suffix: str) -> types.Type | None:
    """Return the type of the items of a list (`[]`) or of the values of a map (`{}`)."""
    match described:
        case types.ListType() | types.VarTupleType() | types.SetType() | types.FrozenSetType() if suffix == "[]":
            return described.item_type
        case types.DictType() if suffix == "{}":
            return described.value_type
        case _:
            return None


def _custom(cls: type) -> SearchStrategy[Any]:
    from hypothesis import strategies as st

    known: dict[type, tuple[Any, ...]] = {
        Quantity: ("0", "1", "250m", "1Gi", "1500"),
        Duration: ("0s", "1m30s", "100ms", "1h0m0s"),
        MicroTime: ("2024-01-02T03:04:05.000006Z",),
    }
    if cls not in known:
        raise TypeError(f"no random values are known of {cls.__name__}; give a strategy in overrides=")
    return st.sampled_from(known[cls])


def _next(bound: int | None, step: int) -> int | None:
    return None if bound is None else bound + step


def _matching(described: types.Type, regexes: tuple[str, ...], path: str) -> SearchStrategy[Any]:
    """Return a strategy for strings that match all patterns, of a type that also allows other values."""
    from hypothesis import strategies as st

    text = next(t for t in _flat(described) if isinstance(t, types.StrType))
    try:
        drawn = st.from_regex(re.compile(regexes[0]))
    except re.error as problem:
        unknown = f"{path}: no random values are known of the pattern {regexes[0]!r} ({problem})"
        raise TypeError(f"{unknown}; give a strategy in overrides=") from None
    matchers = [compile_matcher(regex) for regex in regexes]
    # Python's `$` also matches before a final line feed, RE2's does not.
    return drawn.filter(lambda value: _fits(text, value) and all(matches(value) for matches in matchers))


def _flat(described: types.Type) -> Iterator[types.Type]:
    match described:
        case types.Metadata():
            yield from _flat(described.type)
        case types.UnionType():
            for each in described.types:
                yield from _flat(each)
        case _:
            yield described


def _fits(text: types.StrType, value: str) -> bool:
    high = text.max_length if text.max_length is not None else 1 << 20
    return (text.min_length or 0) <= len(value) <= high and "\n" not in value


def _moment(year: int) -> Any:
    from datetime import datetime

    return datetime(year, 1, 1)  # noqa: DTZ001 - hypothesis requires bounds without a zone


def conversions_of(operator: Any) -> list[Conversion]:
    """The conversions that an operator declares, callable without a cluster."""
    found: list[Conversion] = []
    for declared in operator_of(operator).webhooks:
        if (target := declared.to) is not None:
            function = declared.handler.call

            async def call(obj: Any, _: Any, function: Callable[[Any], Any] = function) -> Any:
                returned = function(obj)
                return await returned if inspect.isawaitable(returned) else returned

            found.append(Conversion(declared.kind, target, call, str(declared.place)))
    return found


def round_trip(operator: Any, obj: Any, through: type[Resource] | View[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the JSON of an object converted to the version `through`, and of the result converted back.

    Raises `LookupError` if a conversion is missing, and the errors of the conversions.
    """
    known = conversion_paths(conversions_of(operator))
    info, other = info_of(obj), info_of(through)
    try:
        there = known[info.kind, info.api_version, other.api_version]
        back = known[info.kind, other.api_version, info.api_version]
    except KeyError as problem:
        raise LookupError(f"there is no chain of conversions: {problem}") from None

    async def go() -> tuple[bytes, bytes]:
        seen = await convert(msgspec.json.encode(_plain(obj)), there)
        return seen, await convert(seen, back)

    seen, again = asyncio.run(go())
    return json.loads(seen), json.loads(again)


def _plain(obj: Any) -> dict[str, Any]:
    from steersman.models import to_dict

    return to_dict(obj)


def round_trips(
    operator: Any,
    *,
    overrides: Mapping[type[Resource], Mapping[str, SearchStrategy[Any]]] | None = None,
    examples: int = 50,
    lossy: Iterable[tuple[str, str]] = (),
) -> Callable[..., None]:
    """Return a pytest test with one case per pair of versions: random objects are equal after both conversions.

    `operator` is an operator, a module that has one, or `"module:attribute"`. `lossy` names directions, such as
    `("v1", "v1alpha1")`, that may lose data; `overrides` are those of `objects`, for each class.

    Raises:
        ValueError: The operator converts nothing or lacks a direction, or an override names a class that it does not
            convert or a field that the class does not have.
    """
    import pytest
    from hypothesis import given, settings

    found = conversions_of(operator)
    if not found:
        raise ValueError("this operator declares no conversions: use @operator.converter")
    if gaps := missing(found):
        raise ValueError(f"there are no conversions {'; '.join(gaps)}")
    views = {(c.source.info.kind, c.source.info.version): c.source for c in found}
    for kind, paths in (overrides or {}).items():
        if all(view.type is not kind for view in views.values()):
            names = ", ".join(sorted({view.type.__name__ for view in views.values()}))
            raise ValueError(f"overrides: this operator does not convert {kind.__name__}, but {names}")
        for path in paths:
            wire_path(kind, path)
    skipped = set(lossy)
    cases = [
        pytest.param(one, other, id=f"{kind}-{version}-{other_version}")
        for (kind, version), one in views.items()
        for (other_kind, other_version), other in views.items()
        if kind == other_kind and version != other_version and (version, other_version) not in skipped
        if one.form == "typed"
    ]

    @pytest.mark.parametrize(("source", "through"), cases)
    def test(source: View[Any], through: View[Any]) -> None:
        chosen = (overrides or {}).get(source.type)

        @settings(max_examples=examples, deadline=None)
        @given(objects(source.type, chosen))
        def comes_back(obj: Any) -> None:
            seen, again = round_trip(operator, obj, through)
            before = _plain(obj)
            assert again == before, f"as {through.info.version} it was {json.dumps(seen)}"

        comes_back()

    return test
