"""The quick check and the explanation agree, for any schema and any value."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steersman_cluster.crd.pruning import compile_shape, copy_json
from steersman_cluster.crd.schema_errors import explain
from steersman_cluster.crd.schema_validation import compile_check

NAMES = st.sampled_from(["a", "b", "c"])
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-12, 12),
    st.floats(-12, 12, width=16),
    st.sampled_from(["", "a", "bb", "x1", "2024-01-01"]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=8,
)


def limits(low: str, high: str) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional={low: st.integers(0, 3), high: st.integers(0, 3)})


NUMBERS = st.builds(
    lambda kind, extra: {"type": kind, **extra},
    st.sampled_from(["integer", "number"]),
    st.fixed_dictionaries(
        {},
        optional={
            "minimum": st.integers(-5, 5),
            "maximum": st.integers(-5, 5),
            "exclusiveMinimum": st.booleans(),
            "multipleOf": st.sampled_from([1, 2, 0.5]),
            "format": st.sampled_from(["int32", "int64", "float", "double", "x"]),
            "enum": st.lists(st.integers(-3, 3), min_size=1, max_size=2),
            "nullable": st.booleans(),
        },
    ),
)
STRINGS = st.builds(
    lambda extra, size: {"type": "string", **extra, **size},
    st.fixed_dictionaries(
        {},
        optional={
            "pattern": st.sampled_from(["^a", "[0-9]$"]),
            "format": st.sampled_from(["date", "ipv4", "byte", "nope"]),
            "enum": st.lists(st.sampled_from(["", "a", "bb"]), min_size=1, max_size=2),
            "nullable": st.booleans(),
        },
    ),
    limits("minLength", "maxLength"),
)
LEAVES = st.one_of(NUMBERS, STRINGS, st.just({"type": "boolean"}), st.just({"x-kubernetes-int-or-string": True}))


def nodes(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    lists = st.builds(
        lambda items, size: {"type": "array", "items": items, **size}, inner, limits("minItems", "maxItems")
    )
    maps = st.builds(
        lambda more, size: {"type": "object", "additionalProperties": more, **size},
        inner,
        limits("minProperties", "maxProperties"),
    )
    structs = st.builds(
        lambda fields, needed, composed: {"type": "object", "properties": fields, "required": needed, **composed},
        st.dictionaries(NAMES, inner, max_size=3),
        st.lists(NAMES, max_size=2, unique=True),
        st.dictionaries(
            st.sampled_from(["anyOf", "oneOf", "allOf"]),
            st.lists(
                st.fixed_dictionaries({"required": st.lists(NAMES, min_size=1, max_size=1)}), min_size=1, max_size=2
            ),
            max_size=1,
        ),
    )
    return st.one_of(lists, maps, structs)


SCHEMAS = st.recursive(LEAVES, nodes, max_leaves=6)


@settings(max_examples=400, deadline=None)
@given(SCHEMAS, VALUES)
def test_the_quick_check_says_no_exactly_where_there_is_something_to_explain(
    schema: dict[str, Any], value: Any
) -> None:
    assert compile_check(schema)(value) == (not explain(schema, value))


@settings(max_examples=200, deadline=None)
@given(SCHEMAS, VALUES)
def test_what_did_not_change_is_forgiven_on_update(schema: dict[str, Any], value: Any) -> None:
    assert explain(schema, value, old=copy_json(value)) == []


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.dictionaries(NAMES, SCHEMAS, max_size=3), st.dictionaries(NAMES, VALUES, max_size=3))
def test_shaping_twice_changes_nothing_more(properties: dict[str, Any], value: dict[str, Any]) -> None:
    shape = compile_shape({"type": "object", "properties": properties})
    obj = {"apiVersion": "v1", "kind": "X", "metadata": {"name": "x"}, **value}
    shape(obj)
    once = copy_json(obj)
    shape(obj)
    assert obj == once
    assert set(obj) <= {"apiVersion", "kind", "metadata", *properties}
