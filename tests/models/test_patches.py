import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steersman.models import (
    ApplyPatch,
    JsonPatch,
    MergePatch,
    Model,
    PatchError,
    StrategicMergePatch,
    pointer,
)
from steersman.models.patches import split_pointer

scalars = (
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(-2, 2, allow_nan=False) | st.text("ab~/", max_size=3)
)
documents = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("ab~/", max_size=2), inner, max_size=4),
    max_leaves=12,
)


def without_nulls(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=2), inner, max_size=3)


objects = st.dictionaries(
    st.text("ab", max_size=2),
    st.recursive(st.booleans() | st.integers(0, 2) | st.text("ab", max_size=1), without_nulls, max_leaves=8),
    max_size=4,
)


def canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


@given(documents, documents)
def test_the_difference_applied_is_the_target(before: Any, after: Any):
    original = copy.deepcopy(before)

    patch = JsonPatch.diff(before, after)

    assert canonical_numbers(patch.apply(before)) == canonical_numbers(after)
    assert canonical(before) == canonical(original), "the document was modified"
    assert JsonPatch.decode(patch.encode()) == patch


def canonical_numbers(value: Any) -> str:
    """JSON knows one kind of number: 1.0 is 1."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, list):
        return f"[{','.join(map(canonical_numbers, value))}]"
    if isinstance(value, dict):
        return f"{{{','.join(f'{k!r}:{canonical_numbers(v)}' for k, v in sorted(value.items()))}}}"
    return repr(value)


@given(documents)
def test_equal_documents_differ_in_nothing(document: Any):
    assert not JsonPatch.diff(document, copy.deepcopy(document))


@given(objects, objects)
def test_the_merge_difference_applied_is_the_target(before: Any, after: Any):
    patch = MergePatch.diff(before, after)

    assert patch.apply(before) == after
    assert bool(patch) is (canonical(before) != canonical(after))


def test_a_difference_is_small():
    before = {"spec": {"ports": [{"name": "a"}, {"name": "b"}, {"name": "c"}], "old": 1}}
    after = {"spec": {"ports": [{"name": "a"}, {"name": "c"}], "new": True}}

    assert json.loads(JsonPatch.diff(before, after).encode()) == [
        {"op": "remove", "path": "/spec/old"},
        {"op": "remove", "path": "/spec/ports/1"},
        {"op": "add", "path": "/spec/new", "value": True},
    ]


RFC_6902 = [
    ({"foo": "bar"}, [{"op": "add", "path": "/baz", "value": "qux"}], {"baz": "qux", "foo": "bar"}),
    ({"foo": ["bar", "baz"]}, [{"op": "add", "path": "/foo/1", "value": "qux"}], {"foo": ["bar", "qux", "baz"]}),
    ({"baz": "qux", "foo": "bar"}, [{"op": "remove", "path": "/baz"}], {"foo": "bar"}),
    ({"foo": ["bar", "qux", "baz"]}, [{"op": "remove", "path": "/foo/1"}], {"foo": ["bar", "baz"]}),
    ({"baz": "qux"}, [{"op": "replace", "path": "/baz", "value": "boo"}], {"baz": "boo"}),
    (
        {"foo": {"bar": "baz", "waldo": "fred"}, "qux": {"corge": "grault"}},
        [{"op": "move", "from": "/foo/waldo", "path": "/qux/thud"}],
        {"foo": {"bar": "baz"}, "qux": {"corge": "grault", "thud": "fred"}},
    ),
    (
        {"foo": ["all", "grass", "cows", "eat"]},
        [{"op": "move", "from": "/foo/1", "path": "/foo/3"}],
        {"foo": ["all", "cows", "eat", "grass"]},
    ),
    ({"baz": "qux"}, [{"op": "test", "path": "/baz", "value": "qux"}], {"baz": "qux"}),
    ({"foo": "bar"}, [{"op": "add", "path": "/child", "value": {"a": {}}}], {"foo": "bar", "child": {"a": {}}}),
    ({"/": 9, "~1": 10}, [{"op": "test", "path": "/~01", "value": 10}], {"/": 9, "~1": 10}),
    ({"foo": ["bar"]}, [{"op": "add", "path": "/foo/-", "value": ["abc"]}], {"foo": ["bar", ["abc"]]}),
    ({"foo": None}, [{"op": "test", "path": "/foo", "value": None}], {"foo": None}),
    ({"foo": 1}, [{"op": "test", "path": "/foo", "value": 1.0}], {"foo": 1}),
    ({"foo": 1}, [{"op": "replace", "path": "", "value": [1]}], [1]),
    ({"foo": [1]}, [{"op": "copy", "from": "/foo", "path": "/bar"}], {"foo": [1], "bar": [1]}),
]


@pytest.mark.parametrize(("document", "operations", "expected"), RFC_6902)
def test_json_patches_do_what_the_rfc_shows(document: Any, operations: Any, expected: Any):
    assert JsonPatch.decode(json.dumps(operations).encode()).apply(document) == expected


@pytest.mark.parametrize(
    ("patch", "where", "message"),
    [
        (JsonPatch().test("/spec/size", 2), "/spec/size", "test failed"),
        (JsonPatch().test("/spec/on", 1), "/spec/on", "test failed"),
        (JsonPatch().remove("/spec/none"), "/spec/none", "there is no 'none'"),
        (JsonPatch().replace("/spec/none", 1), "/spec/none", "there is no 'none'"),
        (JsonPatch().add("/none/at/all", 1), "/none/at/all", "there is no 'none'"),
        (JsonPatch().add("/spec/list/3", 1), "/spec/list/3", "beyond the list's end"),
        (JsonPatch().add("/spec/list/01", 1), "/spec/list/01", "not an index"),
        (JsonPatch().remove("/spec/list/-"), "/spec/list/-", "not an index"),
        (JsonPatch().add("/spec/size/a", 1), "/spec/size/a", "neither object nor list"),
        (JsonPatch().move("/spec", "/spec/a"), "/spec/a", "into itself"),
        (JsonPatch().remove(""), "", "whole document"),
        (JsonPatch().add("spec", 1), "spec", "begins with '/'"),
    ],
)
def test_a_patch_that_does_not_fit_names_the_pointer(patch: JsonPatch, where: str, message: str):
    with pytest.raises(PatchError, match=message) as caught:
        patch.apply({"spec": {"size": 1, "on": True, "list": [1]}})

    assert caught.value.pointer == where


@pytest.mark.parametrize("body", [b"{", b"{}", b'[{"op":"frobnicate","path":"/a"}]', b'[{"op":"add"}]'])
def test_a_body_that_is_no_json_patch_is_refused(body: bytes):
    with pytest.raises(PatchError, match="not a JSON patch"):
        JsonPatch.decode(body)


def test_an_operation_without_its_value_is_refused():
    with pytest.raises(PatchError, match="needs a value"):
        JsonPatch.decode(b'[{"op":"add","path":"/a"}]').apply({})


RFC_7386 = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    (["a", "b"], ["c", "d"], ["c", "d"]),
    ({"a": "foo"}, None, None),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]


@pytest.mark.parametrize(("document", "patch", "expected"), RFC_7386)
def test_merge_patches_do_what_the_rfc_shows(document: Any, patch: Any, expected: Any):
    assert MergePatch(patch).apply(document) == expected


def test_a_merge_patch_that_would_need_null_is_refused():
    with pytest.raises(PatchError, match="cannot set null") as caught:
        MergePatch.diff({"a": {"b": 1}}, {"a": {"b": None}})

    assert caught.value.pointer == "/a/b"


@given(st.lists(st.text("a~/01", max_size=4), max_size=4))
def test_pointers_escape_and_split(steps: list[str]):
    assert split_pointer(pointer(*steps)) == tuple(steps)


class Spec(Model):
    size: int = 1
    ready_replicas: int | None = None


def test_models_are_compared_by_their_wire_form():
    assert json.loads(JsonPatch.diff(Spec(), Spec(size=2, ready_replicas=1)).encode()) == [
        {"op": "replace", "path": "/size", "value": 2},
        {"op": "add", "path": "/readyReplicas", "value": 1},
    ]
    assert MergePatch.diff(Spec(), Spec()).body == {}


def test_each_kind_of_patch_has_its_content_type():
    assert [p.content_type for p in (JsonPatch(), MergePatch({}), StrategicMergePatch({}), ApplyPatch(Spec()))] == [
        "application/json-patch+json",
        "application/merge-patch+json",
        "application/strategic-merge-patch+json",
        "application/apply-patch+yaml",
    ]
    assert ApplyPatch(Spec()).encode() == b'{"size":1}'


def test_a_patch_does_not_show_what_it_carries():
    assert "hunter2" not in repr(MergePatch({"data": "hunter2"})) + repr(JsonPatch().add("/data", "hunter2"))
