"""Tracking of writers other than apply. Outcomes are those of kube-apiserver 1.36."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steersman_cluster.errors import APIError
from steersman_cluster.fields import settle, track
from steersman_cluster.schema import builtin, custom, decode

CONFIG_MAP = builtin("", "v1", "ConfigMap")
DEPLOYMENT = builtin("apps", "v1", "Deployment")


def time(second):
    return f"2030-01-01T00:00:{second:02}Z"


def config_map(**data):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "uid": "u"}, "data": data}


def write(before, after, manager, second=0, type=CONFIG_MAP, **options):
    """The object after a write that leaves `after`."""
    after = copy.deepcopy(after)
    if before is not None:
        after["metadata"].setdefault("managedFields", copy.deepcopy(before["metadata"].get("managedFields")))
        if after["metadata"]["managedFields"] is None:
            del after["metadata"]["managedFields"]
    track(before, after, type, manager=manager, api_version="v1", time=time(second), **options)
    return after


def owners(obj):
    return {entry["manager"]: entry["fieldsV1"] for entry in obj["metadata"].get("managedFields", ())}


def test_a_creator_owns_what_it_sets_and_nothing_of_the_system():
    created = write(None, config_map(a="1"), "creator")
    assert created["metadata"]["managedFields"] == [
        {
            "manager": "creator",
            "operation": "Update",
            "apiVersion": "v1",
            "time": time(0),
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {".": {}, "f:a": {}}},
        }
    ]


def test_structs_that_go_always_has_are_no_members():
    obj = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "x", "labels": {"a": "b"}},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}},
            "template": {"spec": {"containers": [{"name": "a", "image": "i", "ports": [{"containerPort": 80}]}]}},
        },
    }
    decode(obj, DEPLOYMENT)
    created = write(None, obj, "creator", type=DEPLOYMENT, reset={"f:status": {}})
    port = {".": {}, "f:containerPort": {}}
    container = {
        ".": {},
        "f:image": {},
        "f:name": {},
        "f:ports": {".": {}, 'k:{"containerPort":80,"protocol":"TCP"}': port},
        "f:resources": {},
    }
    assert owners(created)["creator"] == {
        "f:metadata": {"f:labels": {".": {}, "f:a": {}}},
        "f:spec": {
            "f:selector": {},
            "f:strategy": {"f:rollingUpdate": {".": {}, "f:maxSurge": {}}, "f:type": {}},
            "f:template": {"f:spec": {"f:containers": {'k:{"name":"a"}': container}}},
        },
    }


def test_custom_resources_start_from_nothing():
    foo = custom(
        {"type": "object", "properties": {"spec": {"type": "object", "properties": {"n": {"type": "integer"}}}}}
    )
    created = write(None, {"metadata": {"name": "x"}, "spec": {"n": 1}}, "creator", type=foo)
    assert owners(created) == {"creator": {"f:spec": {".": {}, "f:n": {}}}}


def test_a_changed_field_changes_hands():
    created = write(None, config_map(a="1", b="2"), "creator")
    changed = write(created, config_map(a="9", b="2"), "editor", 1)
    assert owners(changed) == {"creator": {"f:data": {".": {}, "f:b": {}}}, "editor": {"f:data": {"f:a": {}}}}


def test_a_removed_field_belongs_to_nobody():
    created = write(None, config_map(a="1", b="2"), "creator")
    changed = write(created, config_map(b="2"), "editor", 1)
    assert owners(changed) == {"creator": {"f:data": {".": {}, "f:b": {}}}}


def test_a_manager_that_has_nothing_left_goes():
    created = write(None, config_map(a="1"), "creator")
    cleared = config_map()
    del cleared["data"]
    assert "managedFields" not in write(created, cleared, "editor", 1)["metadata"]


def test_a_write_without_change_leaves_entries_and_times():
    created = write(None, config_map(a="1"), "creator")
    again = write(created, config_map(a="1"), "other", 1)
    assert again["metadata"]["managedFields"] == created["metadata"]["managedFields"]


def test_every_change_moves_the_time_of_its_writer():
    created = write(None, config_map(a="1"), "creator")
    changed = write(created, config_map(a="2"), "creator", 5)
    assert [entry["time"] for entry in changed["metadata"]["managedFields"]] == [time(5)]
    assert owners(changed) == owners(created)


def test_entries_come_by_operation_time_and_name():
    one = write(None, config_map(a="1"), "c", 1)
    two = write(one, config_map(a="1", b="1"), "b", 2)
    three = write(two, config_map(a="1", b="1", c="1"), "a", 2)
    assert [entry["manager"] for entry in three["metadata"]["managedFields"]] == ["c", "a", "b"]


def test_sub_resources_have_entries_of_their_own_and_cannot_send_entries():
    created = write(None, config_map(a="1"), "m")
    sent = config_map(a="2")
    sent["metadata"]["managedFields"] = []
    changed = write(created, sent, "m", 1, subresource="status")
    assert [entry.get("subresource") for entry in changed["metadata"]["managedFields"]] == [None, "status"]


@pytest.mark.parametrize("entries", [[], [{}]])
def test_a_client_may_forget_all_managers(entries):
    created = write(None, config_map(a="1"), "creator")
    sent = config_map(a="2")
    sent["metadata"]["managedFields"] = entries
    assert "managedFields" not in write(created, sent, "editor")["metadata"]


def test_an_untracked_object_stays_untracked():
    untracked = config_map(a="1")
    assert "managedFields" not in write(untracked, config_map(a="2"), "editor")["metadata"]


@pytest.mark.parametrize(
    "entry",
    [
        {"operation": "Foo", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {}},
        {"operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": {}},
        {"operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV2", "fieldsV1": {}},
        {"operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"x": {}}},
        {"operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": "x"},
    ],
)
def test_invalid_entries_of_a_client_are_ignored(entry):
    created = write(None, config_map(a="1"), "creator")
    sent = config_map(a="1")
    sent["metadata"]["managedFields"] = [entry]
    assert owners(write(created, sent, "editor", 1)) == owners(created)


def test_valid_entries_of_a_client_replace_those_that_are_stored():
    created = write(None, config_map(a="1"), "creator")
    sent = config_map(a="1")
    mine = {
        "manager": "me",
        "operation": "Apply",
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:data": {"f:a": {}}},
    }
    sent["metadata"]["managedFields"] = [mine]
    assert write(created, sent, "editor", 1)["metadata"]["managedFields"] == [mine]


def test_the_eleventh_updater_makes_the_oldest_ancient():
    obj = write(None, config_map(k0="1"), "m00")
    data = {"k0": "1"}
    for index in range(1, 12):
        data[f"k{index}"] = "1"
        obj = write(obj, config_map(**data), f"m{index:02}", index)
    managers = [entry["manager"] for entry in obj["metadata"]["managedFields"]]
    assert managers == ["ancient-changes", *(f"m{index:02}" for index in range(3, 12))]
    assert owners(obj)["ancient-changes"] == {"f:data": {".": {}, "f:k0": {}, "f:k1": {}, "f:k2": {}}}


def test_other_versions_see_the_change_in_their_own_fields():
    entry = {"manager": "old", "operation": "Update", "apiVersion": "v0", "fieldsType": "FieldsV1"}
    before = config_map(a="1")
    before["metadata"]["managedFields"] = [
        {**entry, "fieldsV1": {"f:stuff": {"f:a": {}, "f:b": {}}}},
        {**entry, "manager": "gone", "apiVersion": "v-1", "fieldsV1": {"f:stuff": {"f:b": {}}}},
    ]
    old = custom({"properties": {"stuff": {"type": "object", "additionalProperties": {"type": "string"}}}})

    def versions(obj, api_version):
        return ({"metadata": obj["metadata"], "stuff": obj["data"]}, old) if api_version == "v0" else None

    changed = write(before, config_map(a="2", b="1"), "new", versions=versions)
    assert owners(changed) == {"new": {"f:data": {"f:a": {}, "f:b": {}}}}


def test_times_alone_make_no_write():
    before = write(None, config_map(a="1"), "m")
    after = copy.deepcopy(before)
    after["metadata"]["managedFields"][0]["time"] = time(9)
    settle(before, after)
    assert after == before
    after["metadata"]["managedFields"][0]["time"] = time(9)
    after["data"]["a"] = "2"
    settle(before, after)
    assert after["metadata"]["managedFields"][0]["time"] == time(9)


DATA = st.dictionaries(st.sampled_from("abc"), st.sampled_from("12"), max_size=3)


@given(st.lists(st.tuples(st.sampled_from(["x", "y", "z"]), DATA), min_size=1, max_size=6))
def test_every_field_has_one_updater_and_it_is_who_changed_it_last(writes):
    obj, expected = None, {}
    for second, (manager, data) in enumerate(writes):
        old = obj["data"] if obj else {}
        expected = {key: expected[key] for key in data if key in expected}
        expected.update({key: manager for key in data if data[key] != old.get(key)})
        obj = write(obj, config_map(**data), manager, second)
    found = {
        field[2:]: name for name, fields in owners(obj).items() for field in fields.get("f:data", {}) if field != "."
    }
    if "managedFields" in obj["metadata"]:
        assert found == expected


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["manager", "operation", "apiVersion", "time", "fieldsType", "fieldsV1", "f:a", "k:{}", "."]
            ),
            inner | st.sampled_from(["Apply", "Update", "FieldsV1", "v1"]),
        )
    ),
    max_leaves=10,
)


@given(JSON | st.lists(JSON))
def test_whatever_a_client_sends_as_entries_is_taken_or_ignored(entries):
    foo = custom(None)
    created = write(None, {"metadata": {"name": "x"}, "spec": {"n": 1}}, "creator", type=foo)
    sent = {"metadata": {"name": "x", "managedFields": entries}, "spec": {"n": 2}}
    assert "editor" in owners(write(created, sent, "editor", 1, type=foo)) or entries in ([{}], [None])


def test_objects_that_are_too_deep_are_refused():
    deep = {}
    for _ in range(5000):
        deep = {"a": deep}
    with pytest.raises(APIError, match="exceeded max depth"):
        track(None, {"metadata": {}, "spec": deep}, custom(None), manager="m", api_version="v1", time=time(0))


def test_writers_of_the_same_fields_share_a_set_that_later_writes_do_not_change():
    first = write(None, config_map(a="1", b="2"), "one")
    second = write(None, config_map(b="3", a="4"), "one")
    before = copy.deepcopy(first)
    taken = write(second, config_map(a="5", b="3"), "two", 1)
    assert owners(first) == owners(second) == owners(before)
    assert owners(taken) == {"one": {"f:data": {".": {}, "f:b": {}}}, "two": {"f:data": {"f:a": {}}}}
