"""Managed fields through /scale. Outcomes are those of kube-apiserver 1.36."""

from steersman_cluster.fields import from_scale, to_scale, track
from steersman_cluster.schema import builtin

SCALE = builtin("autoscaling", "v1", "Scale")
TIME = "2030-01-01T00:00:00Z"


def entry(manager, fields, operation="Apply", **more):
    return {
        "manager": manager,
        "operation": operation,
        "apiVersion": "apps/v1",
        **({"time": TIME} if operation == "Apply" else {}),
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": fields},
        **more,
    }


OWNER = entry("owner", {"f:replicas": {}, "f:paused": {}})
OTHER = entry("other", {"f:paused": {}})


def scaled(entries, replicas, manager):
    """The parent's entries after a write to its Scale."""
    live = {"metadata": {"name": "x", "managedFields": to_scale(entries)}, "spec": {"replicas": 1}}
    new = {"metadata": {"name": "x"}, "spec": {"replicas": replicas}}
    track(live, new, SCALE, manager=manager, api_version="autoscaling/v1", time=TIME, subresource="scale")
    return from_scale(entries, new["metadata"]["managedFields"], "apps/v1")


def test_a_scale_shows_who_owns_the_replicas():
    assert to_scale([OWNER, OTHER]) == [
        {**OWNER, "apiVersion": "autoscaling/v1", "fieldsV1": {"f:spec": {"f:replicas": {}}}}
    ]
    assert to_scale(None) == []


def test_scaling_takes_the_replicas():
    taken = entry("scaler", {"f:replicas": {}}, "Update", subresource="scale")
    assert scaled([OWNER], 5, "scaler") == [entry("owner", {"f:paused": {}}), taken]
    assert scaled([entry("owner", {"f:paused": {}}), taken], 7, "scaler")[1] == taken


def test_scaling_to_the_same_leaves_the_owner():
    assert scaled([OWNER, OTHER], 1, "scaler") == [OTHER, OWNER]


def test_replicas_may_be_elsewhere():
    fields = {"f:size": {}}
    path = ("spec", "size")
    shown = to_scale([entry("one", fields)], path)
    assert shown[0]["fieldsV1"] == {"f:spec": {"f:replicas": {}}}
    assert from_scale([entry("one", fields)], shown, "apps/v1", path) == [entry("one", fields)]
