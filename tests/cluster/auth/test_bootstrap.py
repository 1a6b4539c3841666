"""The objects of a fresh cluster are those of a real one."""

import pytest

from codegen import bootstrap
from steersman.testing import available
from steersman_cluster.auth import bootstrap_objects

from .conftest import NOW


def test_objects_are_complete_and_each_call_makes_new_ones():
    first, again = bootstrap_objects(NOW), bootstrap_objects(NOW)
    assert {item.name for item in first if item.resource == "namespaces"} == {
        "default",
        "kube-node-lease",
        "kube-public",
        "kube-system",
    }
    assert all(item.object["metadata"]["creationTimestamp"] == NOW for item in first)
    assert not {item.object["metadata"]["uid"] for item in first} & {item.object["metadata"]["uid"] for item in again}


def test_aggregated_roles_are_filled_or_left_to_the_controller():
    def view(aggregated: bool):
        found = bootstrap_objects(NOW, aggregated=aggregated)
        return next(item.object["rules"] for item in found if (item.resource, item.name) == ("clusterroles", "view"))

    assert view(False) is None
    assert any("pods" in rule["resources"] for rule in view(True))


@pytest.mark.realcluster
@pytest.mark.skipif(available() is not None, reason=str(available()))
def test_the_recorded_objects_are_those_of_the_real_server():
    recorded = {
        (entry["group"], entry["resource"], item["metadata"].get("namespace", ""), item["metadata"]["name"]): item
        for entry in bootstrap.record()
        for item in entry["items"]
    }
    shipped = {
        (item.group, item.resource, item.namespace, item.name): bootstrap.plain(item.object)
        for item in bootstrap_objects(NOW, aggregated=False)
    }
    assert shipped.keys() == recorded.keys()
    for key, obj in shipped.items():
        for field in ("kind", "apiVersion"):
            obj.pop(field)
        if key[1] != "flowschemas":  # their status changes while the server starts
            assert obj == {name: value for name, value in recorded[key].items() if name not in ("kind", "apiVersion")}
