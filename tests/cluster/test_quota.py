"""The usage of quotas: requests as the scheduler counts them, counts, Services, claims and scopes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steersman.models.quantity import Quantity
from steersman_cluster.quota import CLAIMS, applies, devices_of, missing, names_of, printed, usage


def container(name="c", cpu=None, **more):
    resources = {"requests": {"cpu": cpu}} if cpu else {}
    return {"name": name, "resources": resources, **more}


def pod(*containers, init=(), **spec):
    return {"kind": "Pod", "spec": {"containers": list(containers), "initContainers": list(init), **spec}}


def used(obj, name, resource="pods"):
    found = usage("", resource, obj).get(name)
    return None if found is None else str(found)


def test_containers_add_up_and_the_largest_init_container_counts():
    two = (container("a", "200m"), container("b", "300m"))
    assert used(pod(*two), "requests.cpu") == "500m"
    assert used(pod(*two, init=[container("i", "1")]), "cpu") == "1"
    sidecar = container("s", "100m", restartPolicy="Always")
    assert used(pod(*two, init=[sidecar, container("i", "100m")]), "cpu") == "600m"
    assert used(pod(*two, overhead={"cpu": "50m"}), "cpu") == "550m"


def test_a_pod_that_has_ended_uses_nothing_but_its_object():
    ended = {**pod(container("a", "1")), "status": {"phase": "Succeeded"}}
    assert {name: str(amount) for name, amount in usage("", "pods", ended).items()} == {"count/pods": "1"}


def test_services_count_by_their_type():
    spec = {"type": "LoadBalancer", "ports": [{"port": 1}, {"port": 2}]}
    assert used({"spec": spec}, "services.nodeports", "services") == "2"
    assert used({"spec": spec}, "services.loadbalancers", "services") == "1"
    without = {**spec, "allocateLoadBalancerNodePorts": False}
    assert used({"spec": without}, "services.nodeports", "services") == "0"
    assert used({"spec": {"type": "ClusterIP"}}, "services.nodeports", "services") is None


def test_claims_count_for_their_class():
    claim = {"spec": {"storageClassName": "gold", "resources": {"requests": {"storage": "5Gi"}}}}
    assert used(claim, "requests.storage", "persistentvolumeclaims") == "5Gi"
    assert used(claim, "gold.storageclass.storage.k8s.io/requests.storage", "persistentvolumeclaims") == "5Gi"


def test_who_must_say_what_they_ask_for():
    assert missing(["requests.cpu", "pods"], pod(container("a"), container("b", "1"))) == (
        "must specify requests.cpu for: a"
    )
    assert missing(["pods", "count/pods"], pod(container("a"))) == ""


@pytest.mark.parametrize(
    ("scope", "obj", "fits"),
    [
        ("BestEffort", pod(container()), True),
        ("BestEffort", pod(container(cpu="1")), False),
        ("NotBestEffort", pod(container(cpu="1")), True),
        ("Terminating", pod(container(), activeDeadlineSeconds=5), True),
        ("NotTerminating", pod(container(), activeDeadlineSeconds=5), False),
    ],
)
def test_scopes(scope, obj, fits):
    assert applies({"spec": {"scopes": [scope]}}, obj) is fits


def test_a_scope_of_priority_classes():
    rule = {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}
    quota = {"spec": {"scopeSelector": {"matchExpressions": [rule]}}}
    assert applies(quota, pod(container(), priorityClassName="high"))
    assert not applies(quota, pod(container()))


def test_names_belong_to_their_resource():
    hard = ["pods", "count/deployments.apps", "requests.nvidia.com/gpu", "services.nodeports", "limits.memory", "odd"]
    assert names_of(hard, "", "pods") == ["limits.memory", "pods", "requests.nvidia.com/gpu"]
    assert names_of(hard, "apps", "deployments") == ["count/deployments.apps"]


@given(st.lists(st.integers(0, 10_000), max_size=6), st.lists(st.integers(0, 10_000), max_size=4))
def test_a_pod_uses_what_its_containers_ask_or_its_largest_init_container(running, starting):
    made = pod(
        *(container(str(n), f"{milli}m") for n, milli in enumerate(running)),
        init=[container(f"i{n}", f"{milli}m") for n, milli in enumerate(starting)],
    )
    expected = max([sum(running), *starting])
    found = usage("", "pods", made).get("cpu", Quantity(0))
    assert found == Quantity(f"{expected}m")


def test_amounts_are_printed_by_name():
    assert printed({"pods": Quantity(2), "cpu": Quantity("500m")}) == "cpu=500m,pods=2"


CLASS = {"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "example.com/gpu"}}
IMPLICIT = "requests.deviceclass.resource.kubernetes.io/gpu"


def device_claim(name="c", count=2, owner=None):
    metadata = {"name": name}
    if owner is not None:
        metadata["annotations"] = {"resource.kubernetes.io/extended-resource-claim": "true"}
        metadata["ownerReferences"] = [{"apiVersion": "v1", "kind": "Pod", "controller": True, **owner}]
    exactly = {"deviceClassName": "gpu", "count": count}
    return {"kind": "ResourceClaim", "metadata": metadata, "spec": {"devices": {"requests": [{"exactly": exactly}]}}}


def used_devices(claim, *pods, claims=(), classes=(CLASS,)):
    found = usage(*CLAIMS, claim, devices_of(classes, pods, list(claims)))
    return {name: str(amount) for name, amount in found.items() if name.startswith("requests.")}


def test_a_claim_of_devices_counts_as_the_extended_resource_of_its_class():
    assert used_devices(device_claim()) == {IMPLICIT: "2", "requests.example.com/gpu": "2"}
    assert used_devices(device_claim(), classes=({"metadata": {"name": "gpu"}, "spec": {}},)) == {IMPLICIT: "2"}


def test_a_claim_that_was_made_for_a_pod_counts_only_what_the_pod_does_not_request():
    requests = {"resources": {"requests": {"example.com/gpu": "1"}}}
    owner_pod = {**pod({"name": "c", **requests}), "metadata": {"name": "p", "uid": "1"}}
    made = device_claim(owner={"name": "p", "uid": "1"})
    assert used_devices(made, owner_pod) == {IMPLICIT: "2", "requests.example.com/gpu": "1"}
    another = device_claim(owner={"name": "p", "uid": "2"})
    assert used_devices(another, owner_pod)["requests.example.com/gpu"] == "2"
    older = device_claim("a", owner={"name": "p", "uid": "1"})
    older["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    assert used_devices(made, owner_pod, claims=[older])["requests.example.com/gpu"] == "2"


def test_names_of_extended_resources_count_for_claims_if_a_class_stands_for_them():
    hard = ["requests.example.com/gpu", "requests.example.com/other", IMPLICIT, "pods"]
    assert names_of(hard, *CLAIMS, devices_of([CLASS], [], [])) == sorted([IMPLICIT, "requests.example.com/gpu"])
    assert names_of(hard, *CLAIMS) == []
