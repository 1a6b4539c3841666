"""The kinds on an API server: samples, defaults, refusals and the scale subresource."""

from __future__ import annotations

from pathlib import Path

import pytest
from steersman.testing import CallError

from rocketmq.api.v1.broker_types import BrokerSpec, in_sync_replicas

SAMPLES = sorted(
    path
    for path in (Path(__file__).parent.parent / "config" / "samples").glob("*.yaml")
    if path.stem != "kustomization"
)
PLURALS = {
    "Broker": "brokers",
    "Console": "consoles",
    "Controller": "controllers",
    "NameService": "nameservices",
    "RocketMQCluster": "rocketmqclusters",
    "TopicTransfer": "topictransfers",
}
CLAIMS = [{"metadata": {"name": "store"}, "spec": {"accessModes": ["ReadWriteOnce"]}}]
BROKER = {"brokerImage": "b", "replicaPerGroup": 2, "storageMode": "EmptyDir"}
CONTROLLER = {"controllerImage": "c", "storageMode": "EmptyDir"}
NAME_SERVICE = {"nameServiceImage": "n"}
TRANSFER = {"topic": "orders", "sourceCluster": "green", "targetCluster": "blue"}
CLUSTER = {"nameService": NAME_SERVICE, "broker": BROKER}
PORTS_DIFFER = "must be six different ports"


def create(api, kind, spec, name="mq"):
    path = f"/apis/rocketmq.daocloud.io/v1/namespaces/{api.namespace}/{PLURALS[kind]}"
    body = {"apiVersion": "rocketmq.daocloud.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}
    return api.call("POST", path, body)


def change(api, kind, spec):
    return api.patch(f"{PLURALS[kind]}.rocketmq.daocloud.io", "mq", {"spec": spec})


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_a_sample_applies_unchanged(api, sample):
    api.apply(sample)


def test_the_defaults_of_a_broker_are_the_published_ones(api):
    spec = create(api, "Broker", BROKER)["spec"]
    assert (spec["size"], spec["clusterMode"], spec["allowRestart"]) == (1, "DLEDGER", True)
    assert (spec["replicationMode"], spec["flushDiskType"]) == ("SYNC", "ASYNC")
    assert spec["autoscaling"] == {"enabled": False, "targetDiskPercent": 70}
    assert spec["ports"] == {"listen": 10911, "ha": 10912, "dledger": 40911, "controller": 9878, "metrics": 5557}


def test_one_replica_beside_the_first_member_is_the_default(api):
    spec = create(api, "Broker", {"brokerImage": "b", "storageMode": "EmptyDir", "clusterMode": "STATIC"})["spec"]
    assert spec["replicaPerGroup"] == 1


@pytest.mark.parametrize(("replicas", "numbers"), [(0, (1, 1)), (1, (2, 1)), (2, (2, 2)), (4, (2, 2))])
def test_the_defaults_of_the_in_sync_set_depend_on_the_number_of_members(replicas, numbers):
    assert in_sync_replicas(BrokerSpec(broker_image="b", replica_per_group=replicas)) == numbers


@pytest.mark.parametrize(
    ("kind", "spec", "says"),
    [
        ("Broker", BROKER | {"replicaPerGroup": 1}, "needs 3 or more members: set replicaPerGroup to 2 or 4"),
        ("Broker", BROKER | {"replicaPerGroup": 3}, "needs an odd number of members"),
        ("Broker", BROKER | {"minInSyncReplicas": 4}, "minInSyncReplicas must not be greater than the members"),
        ("Broker", BROKER | {"inSyncReplicas": 4}, "inSyncReplicas must not be greater than the members"),
        ("Broker", BROKER | {"inSyncReplicas": 1, "minInSyncReplicas": 2}, "must not be greater than inSyncReplicas"),
        ("Broker", BROKER | {"ports": {"ha": 10911}}, PORTS_DIFFER),
        ("Broker", BROKER | {"ports": {"dledger": 10909}}, PORTS_DIFFER),
        ("Broker", BROKER | {"ports": {"controller": 5557}}, PORTS_DIFFER),
        ("Broker", BROKER | {"storageMode": "HostPath"}, "needs hostPath"),
        ("Broker", BROKER | {"storageMode": "StorageClass"}, "needs volumeClaimTemplates"),
        ("Broker", BROKER | {"autoscaling": {"enabled": True}}, "minGroups and maxGroups are required"),
        ("Broker", BROKER | {"autoscaling": {"minGroups": 3, "maxGroups": 2}}, "must not be greater than maxGroups"),
        ("Broker", BROKER | {"config": {"brokerId": "0"}}, "config sets what other fields decide"),
        ("Broker", {"replicaPerGroup": 2}, "brokerImage"),
        (
            "Controller",
            CONTROLLER | {"config": {"enableElectUncleanMaster": "true"}},
            "which loses messages: remove it",
        ),
        ("Controller", CONTROLLER | {"size": 4}, "needs an odd number of members"),
        ("NameService", NAME_SERVICE | {"size": 0}, "spec.size"),
        ("TopicTransfer", TRANSFER | {"targetCluster": "green"}, "must differ"),
        ("RocketMQCluster", CLUSTER | {"broker": BROKER | {"replicaPerGroup": 3}}, "needs an odd number of members"),
        ("RocketMQCluster", CLUSTER | {"broker": BROKER | {"clusterMode": "CONTROLLER"}}, "needs controller"),
        (
            "RocketMQCluster",
            CLUSTER | {"broker": BROKER | {"clusterMode": "CONTROLLER"}, "controller": CONTROLLER | {"port": 9999}},
            "must be the same port",
        ),
    ],
)
def test_a_spec_that_contradicts_itself_is_refused_with_the_way_out(api, kind, spec, says):
    with pytest.raises(CallError) as problem:
        create(api, kind, spec)
    assert problem.value.status == 422
    assert says in str(problem.value)


@pytest.mark.parametrize(
    ("kind", "spec", "longest"),
    [
        ("Broker", BROKER, 47),
        ("Controller", CONTROLLER, 41),
        ("NameService", NAME_SERVICE, 44),
        ("RocketMQCluster", CLUSTER, 41),
    ],
)
def test_a_name_whose_children_could_not_be_created_is_refused(api, kind, spec, longest):
    create(api, kind, spec, "n" * longest)
    with pytest.raises(CallError, match=f"may have {longest} characters"):
        create(api, kind, spec, "n" * (longest + 1))


@pytest.mark.parametrize(
    ("kind", "spec", "new", "says"),
    [
        ("Broker", BROKER, {"clusterMode": "CONTROLLER"}, "the mode of existing data cannot change"),
        ("Broker", BROKER, {"storageMode": "HostPath", "hostPath": "/d"}, "the storage of existing data"),
        (
            "Broker",
            BROKER | {"clusterMode": "CONTROLLER"},
            {"replicaPerGroup": 0},
            "the group would shrink below its minInSyncReplicas",
        ),
        (
            "Broker",
            BROKER | {"clusterMode": "CONTROLLER", "replicaPerGroup": 4, "minInSyncReplicas": 4},
            {"replicaPerGroup": 2, "minInSyncReplicas": 2},
            "lower minInSyncReplicas first",
        ),
        ("Broker", BROKER, {"replicaPerGroup": 4}, "keeps its members"),
        ("Controller", CONTROLLER, {"size": 1}, "fewer members may not know every master"),
        ("TopicTransfer", TRANSFER, {"topic": "payments"}, "create another TopicTransfer"),
        ("RocketMQCluster", CLUSTER, {"broker": {"clusterMode": "STATIC"}}, "the mode of existing data"),
    ],
)
def test_a_change_that_would_lose_data_is_refused_with_the_way_out(api, kind, spec, new, says):
    create(api, kind, spec)
    with pytest.raises(CallError) as problem:
        change(api, kind, new)
    assert problem.value.status == 422
    assert says in str(problem.value)


def test_a_group_shrinks_down_to_its_min_in_sync_replicas(api):
    create(api, "Broker", BROKER | {"clusterMode": "CONTROLLER", "replicaPerGroup": 4, "minInSyncReplicas": 3})
    assert change(api, "Broker", {"replicaPerGroup": 2})["spec"]["replicaPerGroup"] == 2


@pytest.mark.parametrize(
    ("kind", "spec"), [("Broker", BROKER), ("Controller", CONTROLLER), ("NameService", NAME_SERVICE)]
)
def test_kubectl_scale_changes_the_size(api, kind, spec):
    create(api, kind, spec)
    api.scale(f"{PLURALS[kind]}.rocketmq.daocloud.io", "mq", 5)
    assert api.get(f"{PLURALS[kind]}.rocketmq.daocloud.io", "mq")["spec"]["size"] == 5
