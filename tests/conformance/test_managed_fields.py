"""Managed fields of creates, updates, patches and status writers."""

from typing import Any

import pytest

from .harness import Both
from .managed import CONFIG_MAPS, DEPLOYMENTS, apply, define, merge, same

MAP = f"{CONFIG_MAPS}/web"


def config_map(metadata: dict[str, Any] | None = None, **data: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web", **(metadata or {})}, "data": data}


KINDS: list[tuple[str, dict[str, Any]]] = [
    ("/api/v1/namespaces/{ns}/secrets", {"kind": "Secret", "data": {"a": "YQ=="}, "type": "Opaque"}),
    (
        "/api/v1/namespaces/{ns}/services",
        {"kind": "Service", "spec": {"selector": {"a": "b"}, "ports": [{"port": 80}]}},
    ),
    (
        "/api/v1/namespaces/{ns}/pods",
        {"kind": "Pod", "spec": {"containers": [{"name": "a", "image": "x", "ports": [{"containerPort": 80}]}]}},
    ),
    ("/api/v1/namespaces/{ns}/serviceaccounts", {"kind": "ServiceAccount", "secrets": [{"name": "x"}]}),
    (
        "/api/v1/namespaces/{ns}/persistentvolumeclaims",
        {
            "kind": "PersistentVolumeClaim",
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        },
    ),
    ("/apis/coordination.k8s.io/v1/namespaces/{ns}/leases", {"kind": "Lease", "spec": {"leaseDurationSeconds": 5}}),
    (
        "/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}/roles",
        {"kind": "Role", "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]},
    ),
    (
        "/apis/policy/v1/namespaces/{ns}/poddisruptionbudgets",
        {"kind": "PodDisruptionBudget", "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}},
    ),
    (
        "/apis/batch/v1/namespaces/{ns}/jobs",
        {
            "kind": "Job",
            "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "x"}]}}},
        },
    ),
    (
        DEPLOYMENTS,
        {
            "kind": "Deployment",
            "spec": {
                "selector": {"matchLabels": {"a": "b"}},
                "template": {
                    "metadata": {"labels": {"a": "b"}},
                    "spec": {"containers": [{"name": "a", "image": "x"}], "volumes": [{"name": "v", "emptyDir": {}}]},
                },
            },
        },
    ),
    (
        "/apis/autoscaling/v2/namespaces/{ns}/horizontalpodautoscalers",
        {
            "kind": "HorizontalPodAutoscaler",
            "spec": {"maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"}},
        },
    ),
]


@pytest.mark.parametrize(("path", "obj"), KINDS, ids=[obj["kind"] for _, obj in KINDS])
async def test_who_creates_owns_what_is_set_and_defaulted(both: Both, path: str, obj: dict[str, Any]):
    version = path.split("/namespaces")[0].removeprefix("/apis/").removeprefix("/api/")
    body = {"apiVersion": version, "metadata": {"name": "web", "labels": {"x": "y"}}, **obj}
    embedded, real = await both.each("POST", f"{path}?fieldManager=one", body)
    assert real.code == 201, real
    assert [entry["fieldsV1"] for entry in embedded["metadata"]["managedFields"]] == [
        entry["fieldsV1"] for entry in real["metadata"]["managedFields"]
    ]


async def test_the_user_agent_is_the_default_manager(both: Both):
    headers = {"User-Agent": "my-tool/v1.2 (linux)"}
    made = await both.same("POST", CONFIG_MAPS, config_map(a="1"), headers=headers)
    assert made["metadata"]["managedFields"][0]["manager"] == "my-tool"


async def test_long_manager_names_are_refused(both: Both):
    await both.same("POST", f"{CONFIG_MAPS}?fieldManager={'x' * 129}", config_map(a="1"))


async def test_writers_take_what_they_change(both: Both):
    await same(both, "POST", f"{CONFIG_MAPS}?fieldManager=one", config_map(a="1", b="2", c="3"))
    await same(both, "PUT", f"{MAP}?fieldManager=two", config_map({"labels": {"x": "y"}}, a="9", b="2"))
    await merge(both, MAP, {"data": {"b": None, "d": "4"}, "metadata": {"finalizers": ["x.io/a"]}}, "three")
    await merge(both, MAP, {"metadata": {"finalizers": None, "labels": None}}, "one")


async def test_a_write_of_the_same_changes_nothing(both: Both):
    made = await same(both, "POST", f"{CONFIG_MAPS}?fieldManager=one", config_map(a="1"))
    again = await same(both, "PUT", f"{MAP}?fieldManager=two", config_map(a="1"))
    assert again["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


@pytest.mark.parametrize("entries", [[], [{}]])
async def test_managers_can_be_forgotten(both: Both, entries: list[Any]):
    await both.each("POST", f"{CONFIG_MAPS}?fieldManager=one", config_map(a="1"))
    await same(both, "PUT", f"{MAP}?fieldManager=two", config_map({"managedFields": entries}, a="2"))
    await same(both, "PUT", f"{MAP}?fieldManager=two", config_map(a="3"))


ENTRY = {"manager": "me", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1"}


@pytest.mark.parametrize(
    "entry",
    [
        {**ENTRY, "fieldsV1": {"f:data": {"f:a": {}}}},
        {**ENTRY, "fieldsV1": {"f:data": {"f:a": {}}}, "time": "2020-01-01T00:00:00Z"},
        {**ENTRY, "operation": "Update", "fieldsV1": {"f:data": {"f:b": {}, ".": {}}}},
        {**ENTRY, "operation": "Foo", "fieldsV1": {}},
        {**ENTRY, "apiVersion": "", "fieldsV1": {}},
        {**ENTRY, "fieldsType": "FieldsV2", "fieldsV1": {}},
        {**ENTRY, "fieldsType": "", "fieldsV1": {}},
        {**ENTRY, "fieldsV1": {"x": {}}},
        {**ENTRY, "fieldsV1": {"k:x": {}}},
        {**ENTRY, "manager": "x" * 129, "fieldsV1": {}},
        {**ENTRY, "subresource": "x" * 300, "fieldsV1": {}},
    ],
    ids=range(11),
)
async def test_entries_that_clients_send(both: Both, entry: dict[str, Any]):
    await both.each("POST", f"{CONFIG_MAPS}?fieldManager=one", config_map(a="1"))
    await same(both, "PUT", f"{MAP}?fieldManager=two", config_map({"managedFields": [entry]}, a="1", b="2"))


async def test_the_oldest_of_many_updaters_become_ancient(both: Both):
    data = {"k0": "1"}
    await same(both, "POST", f"{CONFIG_MAPS}?fieldManager=m0", config_map(**data))
    for index in range(1, 12):
        data[f"k{index}"] = "1"
        embedded, real = await both.each("PUT", f"{MAP}?fieldManager=m{index}", config_map(**data))
    # Which are the oldest is a matter of seconds and names.
    counts = [len(answer["metadata"]["managedFields"]) for answer in (embedded, real)]
    assert counts == [10, 10]


async def test_status_writers_have_entries_of_their_own(both: Both):
    path = await define(both)
    version = path.split("/")[2] + "/v1"
    foo = {"apiVersion": version, "kind": "Foo", "metadata": {"name": "x"}, "spec": {"n": 1}, "status": {"ready": True}}
    await same(both, "POST", f"{path}?fieldManager=one", foo)
    await merge(both, f"{path}/x/status", {"status": {"ready": True}, "spec": {"n": 2}}, "one")
    await merge(both, f"{path}/x", {"status": {"ready": False}, "spec": {"n": 3}}, "two")
    await apply(both, f"{path}/x/status", {**foo, "status": {"conditions": [{"type": "A", "status": "True"}]}}, "one")
    await merge(both, f"{path}/x/status", {"status": None, "metadata": {"labels": {"a": "b"}}}, "two")


async def test_scaling_has_an_entry_of_its_own(both: Both):
    deployment = {"apiVersion": "apps/v1", **dict(KINDS)[DEPLOYMENTS], "metadata": {"name": "web"}}
    await both.each("POST", f"{DEPLOYMENTS}?fieldManager=one", deployment)
    scale = {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"name": "web", "namespace": "{ns}"},
        "spec": {"replicas": 3},
    }
    await same(both, "PUT", f"{DEPLOYMENTS}/web/scale?fieldManager=scaler", scale)
    await same(both, "GET", f"{DEPLOYMENTS}/web")
