"""JSON merge patch (RFC 7386)."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steersman_cluster.errors import APIError
from steersman_cluster.patch import merge_patch

# The examples of RFC 7386, appendix A, whose outcome is an object.
EXAMPLES = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]


@pytest.mark.parametrize(("doc", "patch", "expected"), EXAMPLES)
def test_the_examples_of_the_rfc(doc, patch, expected):
    before = copy.deepcopy(doc)
    assert merge_patch(doc, patch) == expected
    assert doc == before


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        ([1], "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"),
        (5, "error decoding patch: json: cannot unmarshal number into Go value of type map[string]interface {}"),
        (None, "Invalid JSON Patch"),
    ],
)
def test_a_patch_is_an_object(patch, message):
    with pytest.raises(APIError) as caught:
        merge_patch({}, patch)
    assert (caught.value.code, caught.value.message) == (400, message)


KEYS = st.sampled_from(["a", "b", "c"])
VALUES = st.recursive(
    st.integers(0, 3) | st.lists(st.integers(0, 3), max_size=2),
    lambda inner: st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)
PATCHES = st.dictionaries(KEYS, st.recursive(st.none() | st.integers(0, 3), lambda i: st.dictionaries(KEYS, i)))


def difference(old, new):
    """The smallest patch from one object to another."""
    patch = {key: None for key in old if key not in new}
    for key, value in new.items():
        if key not in old:
            patch[key] = value
        elif isinstance(value, dict) and isinstance(old[key], dict):
            patch[key] = difference(old[key], value)
        elif value != old[key]:
            patch[key] = value
    return patch


@given(st.dictionaries(KEYS, VALUES), st.dictionaries(KEYS, VALUES))
def test_the_difference_of_two_objects_leads_from_one_to_the_other(old, new):
    assert merge_patch(old, difference(old, new)) == new


@given(st.dictionaries(KEYS, VALUES), PATCHES)
def test_a_patch_twice_is_a_patch_once(doc, patch):
    once = merge_patch(doc, patch)
    assert merge_patch(once, patch) == once
