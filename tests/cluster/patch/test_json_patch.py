"""JSON patch (RFC 6902) as the API server reads it."""

import copy
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steersman_cluster.errors import APIError
from steersman_cluster.patch import json_patch, unknown_fields

DOC = {"data": {"a": "1", "b": "2"}, "list": ["x", "y"], "a/b": {"c~d": 1}, "null": None}


@pytest.mark.parametrize(
    ("op", "changed"),
    [
        ({"op": "add", "path": "/data/c", "value": "3"}, {"data": {"a": "1", "b": "2", "c": "3"}}),
        ({"op": "add", "path": "/list/-", "value": "z"}, {"list": ["x", "y", "z"]}),
        ({"op": "add", "path": "/list/0", "value": "z"}, {"list": ["z", "x", "y"]}),
        ({"op": "add", "path": "/list/-1", "value": "z"}, {"list": ["x", "y", "z"]}),
        ({"op": "add", "path": "/new", "value": {"a": [1]}}, {"new": {"a": [1]}}),
        ({"op": "remove", "path": "/data/a"}, {"data": {"b": "2"}}),
        ({"op": "remove", "path": "/list/-1"}, {"list": ["x"]}),
        ({"op": "replace", "path": "/list/1", "value": 5}, {"list": ["x", 5]}),
        ({"op": "replace", "path": "/data/zz", "value": 5}, {"data": {"a": "1", "b": "2", "zz": 5}}),
        ({"op": "move", "from": "/data/a", "path": "/list/0"}, {"data": {"b": "2"}, "list": ["1", "x", "y"]}),
        ({"op": "copy", "from": "/data", "path": "/copy"}, {"copy": {"a": "1", "b": "2"}}),
        ({"op": "copy", "from": "/data/nope", "path": "/data/q"}, {"data": {"a": "1", "b": "2", "q": None}}),
        ({"op": "test", "path": "/a~1b/c~0d", "value": 1}, {}),
        ({"op": "test", "path": "/nope"}, {}),
        ({"op": "test", "path": "/null", "value": None}, {}),
        ({"op": "test", "path": "", "value": DOC}, {}),
    ],
)
def test_operations(op, changed):
    before = copy.deepcopy(DOC)
    assert json_patch(DOC, [op]) == {**DOC, **changed}
    assert before == DOC


@pytest.mark.parametrize(
    ("op", "why"),
    [
        ({"op": "test", "path": "/data/a", "value": "2"}, "testing value /data/a failed: test failed"),
        ({"op": "test", "path": "/data/a", "value": 1}, "testing value /data/a failed: test failed"),
        (
            {"op": "remove", "path": "/data/zz"},
            "error in remove for path: '/data/zz': Unable to remove nonexistent key: zz: missing value",
        ),
        (
            {"op": "add", "path": "/list/9", "value": 1},
            "error in add for path: '/list/9': Unable to access invalid index: 9: invalid index referenced",
        ),
        (
            {"op": "replace", "path": "/list/9", "value": 1},
            "replace operation does not apply: doc is missing key: /list/9: missing value",
        ),
        (
            {"op": "add", "path": "/nope/a", "value": 1},
            'add operation does not apply: doc is missing path: "/nope/a": missing value',
        ),
        ({"op": "foo", "path": "/data"}, "Unexpected kind: foo"),
        ({"op": "add"}, "add operation failed to decode path: missing value"),
    ],
)
def test_what_does_not_apply_is_a_422_that_does_not_say_why(op, why):
    with pytest.raises(APIError) as caught:
        json_patch(DOC, [{"op": "add", "path": "/before", "value": 1}, op])
    assert (caught.value.code, caught.value.reason) == (422, "Invalid")
    assert caught.value.message == "the server rejected our request due to an error in our request"
    assert str(caught.value.__cause__) == why
    assert "before" not in DOC


@pytest.mark.parametrize(
    ("patch", "what"),
    [
        ({}, "object into Go value of type []handlers.jsonPatchOp"),
        ("x", "string into Go value of type []handlers.jsonPatchOp"),
        ([1], "number into Go value of type handlers.jsonPatchOp"),
        ([{"op": 5}], "number into Go struct field jsonPatchOp.op of type string"),
        ([{"op": "add", "path": []}], "array into Go struct field jsonPatchOp.path of type string"),
    ],
)
def test_what_is_no_patch_is_a_400(patch, what):
    with pytest.raises(APIError) as caught:
        json_patch(DOC, patch)
    assert caught.value.code == 400
    assert caught.value.message == f"error decoding patch: json: cannot unmarshal {what}"


def test_there_is_a_limit_to_operations():
    with pytest.raises(APIError) as caught:
        json_patch({}, [{"op": "test", "path": ""}] * 10_001)
    assert caught.value.code == 413


def test_copies_may_add_three_megabytes_and_no_more():
    doc = {"a": "x" * (1 << 20)}
    copies = [{"op": "copy", "from": "/a", "path": f"/b{n}"} for n in range(3)]
    assert len(json_patch(doc, copies[:2])) == 3
    with pytest.raises(APIError) as refused:
        json_patch(doc, copies)
    assert refused.value.code == 422
    assert "accumulated size increase of copy" in str(refused.value.__cause__)


def test_a_value_that_is_copied_into_itself_again_and_again_stays_small():
    double = {"op": "copy", "from": "/list", "path": "/list/-"}
    with pytest.raises(APIError) as refused:
        json_patch(DOC, [double] * 60)
    assert "exceeding the limit 3145728" in str(refused.value.__cause__)


def test_unknown_fields_of_operations_are_named():
    ops = [{"op": "add", "path": "/a", "value": 1}, {"op": "add", "path": "/b", "bar": 1}]
    assert unknown_fields(ops) == ['json patch unknown field "[1].bar"']


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "-"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "~", "/"]), inner),
    max_leaves=8,
)
POINTERS = st.lists(st.sampled_from(["a", "b", "0", "1", "-", "-1", "~0", "~1", "x"]), max_size=3).map(
    lambda steps: "".join(f"/{step}" for step in steps)
)
OPERATIONS = st.fixed_dictionaries(
    {"op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test"])},
    optional={"path": POINTERS, "from": POINTERS, "value": VALUES},
)


@given(st.dictionaries(st.sampled_from(["a", "b"]), VALUES), st.lists(OPERATIONS, max_size=4))
def test_any_patch_applies_or_is_refused_and_never_changes_the_document(doc, ops):
    before, sent = copy.deepcopy(doc), copy.deepcopy(ops)
    with suppress(APIError):
        json_patch(doc, ops)
    assert (doc, ops) == (before, sent)


@given(st.dictionaries(st.sampled_from(["a", "b"]), VALUES), POINTERS.filter(bool), VALUES)
def test_what_was_added_can_be_tested(doc, path, value):
    if path.endswith(("/-", "/-1")):
        return
    try:
        added = json_patch(doc, [{"op": "add", "path": path, "value": value}])
    except APIError:
        return
    assert json_patch(added, [{"op": "test", "path": path, "value": value}]) == added
