"""Server-side apply. Outcomes and texts are those of kube-apiserver 1.36."""

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steersman_cluster.errors import APIError
from steersman_cluster.fields import LAST_APPLIED, apply, track
from steersman_cluster.schema import builtin, custom

CONFIG_MAP = builtin("", "v1", "ConfigMap")
POD = builtin("", "v1", "Pod")
FOO = custom(
    {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "n": {"type": "integer"},
                    "atom": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": {}},
                    "map": {"type": "object", "additionalProperties": {"type": "string"}},
                    "set": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
                    "list": {
                        "type": "array",
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["k"],
                        "items": {
                            "type": "object",
                            "properties": {"k": {"type": "string"}, "v": {"type": "integer"}, "w": {"type": "integer"}},
                        },
                    },
                },
            }
        },
    }
)


def foo(**spec):
    return {"apiVersion": "x/v1", "kind": "Foo", "metadata": {"name": "x"}, "spec": spec}


def do(live, applied, manager="me", second=0, type=FOO, **options):
    time = f"2030-01-01T00:00:{second:02}Z"
    return apply(live, applied, type, manager=manager, api_version="x/v1", kind="Foo", time=time, **options)


def owners(obj):
    return {entry["manager"]: entry["fieldsV1"] for entry in obj["metadata"].get("managedFields", ())}


def refusal(*arguments, **options):
    with pytest.raises(APIError) as caught:
        do(*arguments, **options)
    return caught.value


def test_applying_to_nothing_creates_what_is_applied():
    made = do(None, foo(n=1, map={"a": "1"}))
    assert made["spec"] == {"n": 1, "map": {"a": "1"}}
    assert made["metadata"]["managedFields"] == [
        {
            "manager": "me",
            "operation": "Apply",
            "apiVersion": "x/v1",
            "time": "2030-01-01T00:00:00Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:spec": {"f:map": {"f:a": {}}, "f:n": {}}},
        }
    ]


def test_two_managers_share_what_they_agree_on():
    one = do(None, foo(n=1), "one")
    two = do(one, foo(n=1), "two", 1)
    assert owners(two) == {"one": {"f:spec": {"f:n": {}}}, "two": {"f:spec": {"f:n": {}}}}
    assert "time" not in two["metadata"]["managedFields"][0]  # The server, too, gives no time where nothing changed.


def test_the_same_again_changes_nothing():
    one = do(None, foo(n=1, set=["a"]), "one")
    assert do(one, foo(n=1, set=["a"]), "one", 9) == one


def test_a_conflict_names_manager_and_field():
    error = refusal(do(None, foo(n=1), "one"), foo(n=2), "two")
    assert (error.code, error.reason) == (409, "Conflict")
    assert error.message == 'Apply failed with 1 conflict: conflict with "one": .spec.n'
    assert error.status["details"] == {
        "causes": [{"reason": "FieldManagerConflict", "message": 'conflict with "one"', "field": ".spec.n"}]
    }


def test_several_conflicts_are_grouped_by_manager():
    live = foo(n=1, list=[{"k": "a", "v": 1}])
    track(None, live, FOO, manager="kubectl", api_version="x/v1", time="2030-01-01T00:00:00Z")
    error = refusal(live, foo(n=2, list=[{"k": "a", "v": 2}]), "two")
    assert error.message == (
        'Apply failed with 2 conflicts: conflicts with "kubectl" using x/v1:\n- .spec.list[k="a"].v\n- .spec.n'
    ) or error.message == (
        'Apply failed with 2 conflicts: conflicts with "kubectl" using x/v1:\n- .spec.n\n- .spec.list[k="a"].v'
    )


def test_writers_by_sub_resource_are_named_with_it():
    live = foo(n=1)
    track(None, live, FOO, manager="m", api_version="x/v1", time="2030-01-01T00:00:00Z", subresource="status")
    error = refusal(live, foo(n=2))
    assert error.message.endswith('conflict with "m" with subresource "status" using x/v1: .spec.n')


def test_force_takes_the_field_over():
    forced = do(do(None, foo(n=1, map={"a": "1"}), "one"), foo(n=2), "two", 1, force=True)
    assert forced["spec"]["n"] == 2
    assert owners(forced) == {"one": {"f:spec": {"f:map": {"f:a": {}}}}, "two": {"f:spec": {"f:n": {}}}}


def test_what_is_given_up_goes_unless_another_has_it():
    live = do(None, foo(n=1, map={"a": "1", "b": "2"}), "one")
    live = do(live, foo(map={"a": "1"}), "two", 1)
    left = do(live, foo(), "one", 2)
    assert left["spec"] == {"map": {"a": "1"}}
    assert owners(left)["two"] == {"f:spec": {"f:map": {"f:a": {}}}}


def test_what_a_writer_added_stays():
    live = do(None, foo(list=[{"k": "a", "v": 1}]), "one")
    live["metadata"]["uid"] = "u"
    written = copy.deepcopy(live)
    written["spec"]["list"].append({"k": "b", "v": 2})
    track(live, written, FOO, manager="writer", api_version="x/v1", time="2030-01-01T00:00:01Z")
    left = do(written, foo(n=1), "one", 2)
    assert left["spec"] == {"n": 1, "list": [{"k": "b", "v": 2}]}


def test_items_of_lists_have_owners_each():
    one = do(None, foo(list=[{"k": "a", "v": 1}], set=["x"]), "one")
    two = do(one, foo(list=[{"k": "b", "v": 2}, {"k": "a", "w": 3}], set=["y"]), "two", 1)
    assert two["spec"]["list"] == [{"k": "b", "v": 2}, {"k": "a", "v": 1, "w": 3}]
    assert two["spec"]["set"] == ["x", "y"]
    assert owners(two)["one"]["f:spec"]["f:list"] == {'k:{"k":"a"}': {".": {}, "f:k": {}, "f:v": {}}}
    left = do(two, foo(), "two", 2)
    assert left["spec"] == {"list": [{"k": "a", "v": 1}], "set": ["x"]}


def test_atomic_maps_are_owned_as_one():
    one = do(None, foo(atom={"a": 1}), "one")
    assert owners(one) == {"one": {"f:spec": {"f:atom": {}}}}
    assert refusal(one, foo(atom={"b": 1}), "two").message.endswith(": .spec.atom")
    assert do(one, foo(atom={"b": 1}), "one", 1)["spec"]["atom"] == {"b": 1}


def test_the_system_fields_are_nobodys():
    applied = foo(n=1)
    applied["metadata"].update(namespace="d", labels={"a": "b"}, creationTimestamp=None)
    assert owners(do(None, applied))["me"] == {"f:metadata": {"f:labels": {"f:a": {}}}, "f:spec": {"f:n": {}}}


def test_reset_fields_are_not_owned():
    assert owners(do(None, foo(n=1, map={"a": "1"}), reset={"f:spec": {"f:map": {}}})) == {
        "me": {"f:spec": {"f:n": {}}}
    }


def test_untracked_objects_have_been_somebodys_before():
    live = foo(n=1)
    live["metadata"]["uid"] = "u"
    error = refusal(live, foo(n=2))
    assert error.message.endswith('conflict with "before-first-apply" using x/v1: .spec.n')
    forced = do(live, foo(n=2), force=True)
    assert owners(forced) == {"before-first-apply": {"f:spec": {}}, "me": {"f:spec": {"f:n": {}}}}


def test_kubectl_takes_over_what_it_applied_from_the_client():
    live = foo(n=1, map={"a": "1"})
    live["metadata"]["annotations"] = {LAST_APPLIED: json.dumps(foo(n=1, map={"a": "1"}))}
    track(None, live, FOO, manager="kubectl-client-side-apply", api_version="x/v1", time="2030-01-01T00:00:00Z")
    taken = do(live, foo(n=2, map={"a": "1"}), "kubectl", 1)
    assert taken["spec"]["n"] == 2
    assert json.loads(taken["metadata"]["annotations"][LAST_APPLIED]) == foo(n=2, map={"a": "1"})
    live["spec"]["n"] = 5
    assert refusal(live, foo(n=2), "kubectl").code == 409


@pytest.mark.parametrize(
    ("applied", "message"),
    [
        ({**foo(), "kind": "Bar"}, "invalid object type: x/v1, Kind=Bar"),
        ({**foo(), "apiVersion": "v2"}, "invalid object type: /v2, Kind=Foo"),
        ({**foo(), "metadata": {"name": "x", "managedFields": []}}, "metadata.managedFields must be nil"),
        (foo(q=1), "failed to create typed patch object (/x; x/v1, Kind=Foo): .spec.q: field not declared in schema"),
        (
            foo(n="x"),
            "failed to create typed patch object (/x; x/v1, Kind=Foo): "
            ".spec.n: expected numeric (int or float), got string",
        ),
        (
            foo(set=["a", "a"]),
            'failed to create typed patch object (/x; x/v1, Kind=Foo): .spec.set: duplicate entries for key [="a"]',
        ),
        (
            foo(list=[{"v": 1}], map={"a": 5}),
            "failed to create typed patch object (/x; x/v1, Kind=Foo): errors:\n"
            '  .spec.list: element 0: associative list with keys has an element that omits all key fields ["k"]'
            " (and doesn't have default values for any key fields)\n"
            "  .spec.map.a: expected string, got &value.valueUnstructured{Value:5}",
        ),
        (foo(map=[]), "failed to create typed patch object (/x; x/v1, Kind=Foo): .spec.map: expected map, got &{[]}"),
    ],
)
def test_malformed_objects_are_refused_in_the_servers_words(applied, message):
    error = refusal(None, applied)
    assert (error.code, error.message) == (400, message)


def test_pods_merge_by_their_types():
    def pod(**spec):
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": spec}

    def applied(live, manager, **spec):
        return apply(live, pod(**spec), POD, manager=manager, api_version="v1", kind="Pod", time="2030-01-01T00:00:00Z")

    live = applied(None, "one", containers=[{"name": "a", "image": "1", "ports": [{"containerPort": 80}]}])
    live["metadata"]["uid"] = "u"
    live = applied(live, "two", containers=[{"name": "a", "env": [{"name": "A", "value": "1"}]}])
    assert live["spec"]["containers"] == [
        {"name": "a", "image": "1", "ports": [{"containerPort": 80}], "env": [{"name": "A", "value": "1"}]}
    ]
    left = applied(live, "two")
    assert left["spec"]["containers"] == [{"name": "a", "image": "1", "ports": [{"containerPort": 80}]}]


SPECS = st.fixed_dictionaries(
    {},
    optional={
        "n": st.integers(0, 2),
        "atom": st.dictionaries(st.sampled_from("ab"), st.integers(0, 1), max_size=2),
        "map": st.dictionaries(st.sampled_from("abc"), st.sampled_from("12"), min_size=1, max_size=3),
        # Empty associative lists have no owner: an object that has only these counts as untracked.
        "set": st.lists(st.sampled_from("abcd"), unique=True, min_size=1, max_size=3),
        "list": st.lists(
            st.fixed_dictionaries(
                {"k": st.sampled_from("abc")}, optional={"v": st.integers(0, 1), "w": st.integers(0, 1)}
            ),
            unique_by=lambda item: item["k"],
            min_size=1,
            max_size=3,
        ),
    },
)
STEPS = st.lists(st.tuples(st.sampled_from(["x", "y", "z"]), SPECS), min_size=1, max_size=6)


def contains(live, applied):
    """Whether the live value has all that is applied."""
    if isinstance(applied, dict):
        return all(key in live and contains(live[key], value) for key, value in applied.items())
    if isinstance(applied, list):
        items = {item["k"] if isinstance(item, dict) else item: item for item in live}
        return all(contains(items[item["k"]], item) if isinstance(item, dict) else item in items for item in applied)
    return live == applied


@given(STEPS)
def test_what_is_applied_by_force_is_there_afterwards_and_again_is_the_same(steps):
    live = None
    for second, (manager, spec) in enumerate(steps):
        sent = copy.deepcopy(spec)
        live = do(live, foo(**spec), manager, second, force=True)
        assert sent == spec
        assert contains(live["spec"], {key: value for key, value in spec.items() if key != "atom"})
        assert live["spec"].get("atom") == spec["atom"] if "atom" in spec else True
        again = do(live, foo(**spec), manager, 59, force=True)
        assert again["spec"] == live["spec"]
        assert owners(again) == owners(live)


@given(STEPS)
def test_nothing_is_left_when_all_appliers_give_up(steps):
    live = None
    for second, (manager, spec) in enumerate(steps):
        live = do(live, foo(**spec), manager, second, force=True)
    for manager in ("x", "y", "z"):
        live = do(live, foo(), manager, 50, force=True)
    leaves = {key: value for key, value in live.get("spec", {}).items() if value not in ({}, [])}
    assert leaves == {}
