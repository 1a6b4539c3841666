"""Strategic merge patch, with the types of built-in kinds. Outcomes are those of kube-apiserver 1.36."""

import copy
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steersman_cluster.errors import APIError
from steersman_cluster.patch import strategic, undecodable
from steersman_cluster.schema import builtin, decode

POD = builtin("", "v1", "Pod")


def pod(**spec):
    return {"metadata": {"name": "x", "labels": {"a": "b"}, "finalizers": ["x/a", "x/b"]}, "spec": spec}


def names(doc):
    return [item["name"] for item in doc["spec"]["containers"]]


TWO = pod(containers=[{"name": "a", "image": "1", "env": [{"name": "A", "value": "1"}]}, {"name": "b", "image": "2"}])


def spec(**fields):
    return {"spec": fields}


def test_items_merge_by_their_key_and_the_document_stays():
    before = copy.deepcopy(TWO)
    patched = strategic(TWO, spec(containers=[{"name": "b", "image": "3", "tty": True}]), POD)
    assert sorted(patched["spec"]["containers"], key=lambda item: item["name"]) == [
        TWO["spec"]["containers"][0],
        {"name": "b", "image": "3", "tty": True},
    ]
    assert before == TWO


def test_new_items_come_first_as_on_the_server():
    assert names(strategic(TWO, spec(containers=[{"name": "c"}]), POD)) == ["c", "a", "b"]
    assert names(strategic(TWO, spec(containers=[{"name": "b"}]), POD)) == ["a", "b"]


def test_an_order_can_be_asked_for():
    patch = {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}], "containers": [{"name": "b", "image": "3"}]}
    patched = strategic(TWO, spec(**patch), POD)
    assert names(patched) == ["b", "a"]
    assert patched["spec"]["containers"][0]["image"] == "3"


def test_an_order_alone_moves_items():
    order = {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}
    assert names(strategic(TWO, spec(**order), POD)) == ["b", "a"]


def test_items_are_deleted_and_lists_replaced_by_directive():
    assert names(strategic(TWO, spec(containers=[{"name": "a", "$patch": "delete"}]), POD)) == ["b"]
    replaced = strategic(TWO, spec(containers=[{"$patch": "replace"}, {"name": "q"}]), POD)
    assert replaced["spec"]["containers"] == [{"name": "q"}]


def test_nested_lists_merge_too():
    patch = spec(containers=[{"name": "a", "env": [{"name": "A", "$patch": "delete"}, {"name": "B", "value": "2"}]}])
    patched = strategic(TWO, patch, POD)
    assert patched["spec"]["containers"][0]["env"] == [{"name": "B", "value": "2"}]


def test_atomic_lists_are_replaced():
    doc = pod(containers=[{"name": "a", "command": ["x", "y"]}])
    patched = strategic(doc, spec(containers=[{"name": "a", "command": ["z"]}]), POD)
    assert patched["spec"]["containers"][0]["command"] == ["z"]


def test_lists_of_primitives_merge_and_lose_items():
    assert strategic(TWO, {"metadata": {"finalizers": ["x/c"]}}, POD)["metadata"]["finalizers"] == ["x/c", "x/a", "x/b"]
    left = strategic(TWO, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x/a"]}}, POD)
    assert left["metadata"]["finalizers"] == ["x/b"]


def test_maps_merge_or_are_replaced_or_emptied():
    assert strategic(TWO, {"metadata": {"labels": {"c": "d", "a": None}}}, POD)["metadata"]["labels"] == {"c": "d"}
    replaced = strategic(TWO, {"metadata": {"labels": {"$patch": "replace", "c": "d"}}}, POD)
    assert replaced["metadata"]["labels"] == {"c": "d"}
    assert strategic(TWO, {"metadata": {"labels": {"$patch": "delete"}}}, POD)["metadata"]["labels"] == {}
    assert "labels" not in strategic(TWO, {"metadata": {"labels": None}}, POD)["metadata"]


def test_retained_keys_drop_all_others():
    doc = pod(volumes=[{"name": "v", "emptyDir": {}}])
    volume = {"name": "v", "$retainKeys": ["name", "configMap"], "configMap": {"name": "m"}}
    patched = strategic(doc, spec(volumes=[volume]), POD)
    assert patched["spec"]["volumes"] == [{"name": "v", "configMap": {"name": "m"}}]


def test_null_is_no_patch():
    assert strategic(TWO, None, POD) is TWO


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        (spec(containers=[{"image": "z"}]), "map: map[image:z] does not contain declared merge key: name"),
        (spec(containers=[{"name": "a", "$patch": "foo"}]), "unknown patch type: foo in map: map[$patch:foo name:a]"),
        ({"$patch": "merge"}, "unknown patch type: merge in map: map[$patch:merge]"),
        (spec(containers=[{"$patch": "merge"}]), "merging lists cannot yet be specified in the patch"),
        ({"metadata": {"$setElementOrder/finalizers": "x"}}, "expected a []interface {}, but received a string"),
        ({"metadata": {"$deleteFromPrimitiveList": ["x"]}}, "invalid patch format of primitive list"),
        (
            {"metadata": {"$setElementOrder/foo": ["x"]}},
            'unable to find api field in struct ObjectMeta for the json field "foo"',
        ),
        (
            spec(**{"$setElementOrder/containers": [{"name": "b"}], "containers": [{"name": "a", "image": "k"}]}),
            "The order in patch list:\n[map[image:k name:a]]\n doesn't match $setElementOrder list:\n[map[name:b]]\n",
        ),
        ([1], "json: cannot unmarshal array into Go value of type map[string]interface {}"),
    ],
)
def test_malformed_patches_are_refused_in_the_servers_words(patch, message):
    with pytest.raises(APIError) as caught:
        strategic(TWO, patch, POD)
    assert (caught.value.code, caught.value.message) == (400, message)


def test_keys_that_are_not_retained_are_refused():
    doc = pod(volumes=[{"name": "v", "emptyDir": {}}])
    with pytest.raises(APIError, match="invalid patch format of retainKeys"):
        strategic(doc, spec(volumes=[{"name": "v", "$retainKeys": ["name"], "configMap": {}}]), POD)


def test_what_cannot_be_decoded_quotes_the_patch():
    error = undecodable("map[spec:map[replicas:x]]", "unrecognized type: int32")
    assert error.message == (
        ' "" is invalid: patch: Invalid value: "map[spec:map[replicas:x]]": unrecognized type: int32'
    )
    assert error.status["details"]["causes"][0]["field"] == "patch"


CONTAINERS = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from("abcd")},
        optional={
            "image": st.sampled_from("xyz"),
            "env": st.lists(
                st.fixed_dictionaries({"name": st.sampled_from("AB"), "value": st.sampled_from("12")}),
                unique_by=lambda item: item["name"],
            ),
        },
    ),
    unique_by=lambda item: item["name"],
    max_size=4,
)
ITEMS = st.one_of(
    CONTAINERS,
    st.lists(st.fixed_dictionaries({"name": st.sampled_from("abcd"), "$patch": st.just("delete")}), max_size=2),
)


@given(CONTAINERS, ITEMS)
def test_a_patch_twice_is_a_patch_once(old, items):
    once = strategic(pod(containers=old), spec(containers=items), POD)
    assert strategic(once, spec(containers=items), POD) == once


@given(CONTAINERS, CONTAINERS)
def test_a_merge_loses_no_item(old, new):
    merged = strategic(pod(containers=old), spec(containers=new), POD)
    assert set(names(merged)) == {item["name"] for item in old + new}
    assert len(names(merged)) == len(set(names(merged)))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["delete", "replace", "merge", "a"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "containers", "env", "$patch", "$retainKeys", "$setElementOrder/env", "spec"]),
            inner,
        )
    ),
    max_leaves=12,
)


@given(JSON)
def test_any_patch_applies_or_is_refused(patch):
    with suppress(APIError):
        decode(copy.deepcopy(strategic(TWO, {"spec": patch}, POD)), POD)
