"""Create, read, update, delete: names, preconditions, life cycles, dry runs, subresources. Both alike."""

import asyncio
from typing import Any

import pytest

from .harness import Answer, Both, compare
from .steps import CLUSTER_ROLES, CONFIG_MAPS, DEPLOYMENTS, PODS, Step, config_map, deployment, play, pod

MAP = f"{CONFIG_MAPS}/web"
POD = f"{PODS}/web"
WEB = f"{DEPLOYMENTS}/web"
OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "u"}
OTHER_OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "b", "uid": "v"}
FINALIZER = {"finalizers": ["example.com/hold"]}
ROLE = {"metadata": {"name": "t-{ns}"}, "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]}

SEQUENCES: dict[str, list[Step]] = {
    "create twice": [("POST", CONFIG_MAPS, config_map()), ("POST", CONFIG_MAPS, config_map())],
    "generated names": [
        ("POST", CONFIG_MAPS, {"metadata": {"generateName": "a-"}}),
        ("POST", CONFIG_MAPS, {"metadata": {"generateName": "a-", "name": "fixed"}}),
        ("POST", CONFIG_MAPS, {"metadata": {"generateName": "x" * 58}, "data": {}}),
        ("POST", CONFIG_MAPS, {"metadata": {"generateName": ""}}),
        ("POST", f"{CONFIG_MAPS}?dryRun=All", {"metadata": {"generateName": "dry-"}}),
    ],
    "system fields of new objects are the server's": [
        (
            "POST",
            CONFIG_MAPS,
            config_map(
                uid="x",
                creationTimestamp="2020-01-01T00:00:00Z",
                deletionTimestamp="2020-01-01T00:00:00Z",
                deletionGracePeriodSeconds=5,
                selfLink="/x",
                generation=7,
            ),
        ),
        ("POST", DEPLOYMENTS, deployment(generation=7)),
    ],
    "mismatching namespaces": [
        ("POST", CONFIG_MAPS, config_map(namespace="other")),
        ("POST", CONFIG_MAPS, config_map()),
        ("PUT", MAP, config_map(namespace="other")),
        ("MERGE", MAP, {"metadata": {"namespace": "other"}}),
        ("APPLY", f"{MAP}?fieldManager=a", config_map(namespace="other")),
        ("POST", CLUSTER_ROLES, {**ROLE, "metadata": {"name": "t-{ns}", "namespace": "other"}}),
        ("DELETE", f"{CLUSTER_ROLES}/t-{{ns}}"),
    ],
    "mismatching names": [
        ("POST", CONFIG_MAPS, config_map()),
        ("PUT", MAP, config_map("other")),
        ("PUT", MAP, {"metadata": {}}),
        ("PUT", MAP, {}),
        ("MERGE", MAP, {"metadata": {"name": "other"}}),
        ("MERGE", MAP, {"metadata": {"name": None}}),
        ("APPLY", f"{MAP}?fieldManager=a", config_map("other")),
    ],
    "kinds and versions": [
        ("POST", CONFIG_MAPS, {**config_map(), "kind": "Secret"}),
        ("POST", CONFIG_MAPS, {**config_map(), "kind": "Nope"}),
        ("POST", CONFIG_MAPS, {**config_map(), "apiVersion": "v2"}),
        ("POST", CONFIG_MAPS, {**config_map(), "apiVersion": "apps/v1"}),
        ("POST", CONFIG_MAPS, {**config_map(), "apiVersion": "a/b/c"}),
        ("POST", CONFIG_MAPS, deployment()),
        ("POST", DEPLOYMENTS, {**deployment(), "apiVersion": "apps/v1beta1"}),
        ("POST", DEPLOYMENTS, {**deployment(), "apiVersion": "apps/v2"}),
        ("POST", DEPLOYMENTS, {**deployment(), "kind": ""}),
        ("POST", CONFIG_MAPS, {**config_map(), "kind": 5}),
        ("POST", CONFIG_MAPS, {**config_map(), "apiVersion": {}}),
    ],
    "updates of what is not there": [
        ("PUT", MAP, config_map()),
        ("PUT", MAP, config_map(uid="x")),
        ("MERGE", MAP, {}),
        ("JSONPATCH", MAP, []),
        ("STRATEGIC", MAP, {}),
        ("MERGE", MAP, "{"),
        ("GET", MAP),
        ("DELETE", MAP),
        ("PUT", f"{WEB}/status", deployment()),
        ("MERGE", f"{WEB}/scale", {"spec": {"replicas": 1}}),
        ("GET", f"{WEB}/scale"),
    ],
    "put creates some kinds": [
        ("PUT", "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases/web", {"metadata": {"name": "web"}}),
        ("PUT", "/api/v1/namespaces/{ns}/events/web", {"metadata": {"name": "web"}, "involvedObject": {}}),
        ("PUT", "/api/v1/namespaces/{ns}/limitranges/web", {"metadata": {"name": "web"}}),
        ("PUT", "/api/v1/namespaces/{ns}/services/web", {"metadata": {"name": "web"},
            "spec": {"clusterIP": "None", "ports": [{"port": 1}]}}),
        ("PUT", "/api/v1/namespaces/{ns}/endpoints/web", {"metadata": {"name": "web"}}),
        ("PUT", f"{CLUSTER_ROLES}/t-{{ns}}", ROLE),
        ("DELETE", f"{CLUSTER_ROLES}/t-{{ns}}"),
        ("PUT", "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases/b", {"metadata": {"name": "b", "uid": "x"}}),
        ("PUT", "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases/c?dryRun=All", {"metadata": {"name": "c"}}),
        ("GET", "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases/c"),
    ],
    "stale versions": [
        ("POST", CONFIG_MAPS, config_map()),
        ("PUT", MAP, config_map(resourceVersion="1")),
        ("PUT", MAP, config_map(resourceVersion="0", data={"a": "1"})),
        ("MERGE", MAP, {"metadata": {"resourceVersion": "1"}}),
        ("APPLY", f"{MAP}?fieldManager=a", config_map(resourceVersion="1")),
        ("PUT", "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases/web", {"metadata": {"name": "web"}}),
        ("PUT", "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases/web", {"metadata": {"name": "web"}}),
    ],
    "other uids": [
        ("POST", CONFIG_MAPS, config_map()),
        ("PUT", MAP, config_map(uid="x")),
        ("MERGE", MAP, {"metadata": {"uid": "x"}}),
        ("APPLY", f"{MAP}?fieldManager=a", config_map(uid="x")),
        ("APPLY", f"{CONFIG_MAPS}/new?fieldManager=a", config_map("new", uid="x")),
    ],
    "finalizers hold": [
        ("POST", CONFIG_MAPS, config_map(**FINALIZER)),
        ("DELETE", MAP),
        ("GET", MAP),
        ("DELETE", MAP),
        ("MERGE", MAP, {"data": {"still": "writable"}}),
        ("MERGE", MAP, {"metadata": {"finalizers": ["example.com/hold", "example.com/new"]}}),
        ("MERGE", MAP, {"metadata": {"deletionTimestamp": None}}),
        ("POST", CONFIG_MAPS, config_map()),
        ("MERGE", MAP, {"metadata": {"finalizers": []}}),
        ("GET", MAP),
        ("POST", CONFIG_MAPS, config_map()),
    ],
    "finalizers of a deployment count the generation": [
        ("POST", DEPLOYMENTS, deployment(**FINALIZER)),
        ("DELETE", WEB),
        ("DELETE", WEB),
        ("MERGE", WEB, {"metadata": {"finalizers": None}}),
        ("GET", WEB),
    ],
    "foreground": [
        ("POST", DEPLOYMENTS, deployment()),
        ("DELETE", WEB, {"propagationPolicy": "Foreground"}),
        ("GET", WEB),
        ("DELETE", WEB, {"propagationPolicy": "Background"}),
        ("GET", WEB),
    ],
    "orphan": [
        ("POST", DEPLOYMENTS, deployment()),
        ("DELETE", f"{WEB}?propagationPolicy=Orphan"),
        ("GET", WEB),
        ("DELETE", f"{WEB}?propagationPolicy=Foreground"),
        ("MERGE", WEB, {"metadata": {"finalizers": []}}),
        ("GET", WEB),
    ],
    "background": [
        ("POST", DEPLOYMENTS, deployment()),
        ("DELETE", WEB, {"propagationPolicy": "Background"}),
        ("GET", WEB),
    ],
    "orphanDependents": [
        ("POST", DEPLOYMENTS, deployment(**FINALIZER)),
        ("DELETE", WEB, {"orphanDependents": True}),
        ("DELETE", WEB, {"orphanDependents": False}),
        ("DELETE", f"{WEB}?orphanDependents=true"),
        ("DELETE", WEB, {"orphanDependents": True, "propagationPolicy": "Orphan"}),
    ],
    "a foreground finalizer that the client set": [
        ("POST", DEPLOYMENTS, deployment(finalizers=["foregroundDeletion"])),
        ("DELETE", WEB),
        ("POST", CONFIG_MAPS, config_map(finalizers=["orphan"])),
        ("DELETE", MAP),
    ],
    "jobs orphan by themselves": [
        (
            "POST",
            "/apis/batch/v1/namespaces/{ns}/jobs",
            {
                "metadata": {"name": "web"},
                "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "i"}]}}},
            },
        ),
        ("DELETE", "/apis/batch/v1/namespaces/{ns}/jobs/web"),
        ("GET", "/apis/batch/v1/namespaces/{ns}/jobs/web"),
    ],
    "events have no dependents": [
        ("POST", "/api/v1/namespaces/{ns}/events", {"metadata": {"name": "web"},
            "involvedObject": {"namespace": "{ns}"}}),
        ("DELETE", "/api/v1/namespaces/{ns}/events/web?propagationPolicy=Foreground"),
        ("GET", "/api/v1/namespaces/{ns}/events/web"),
    ],
    "preconditions": [
        ("POST", CONFIG_MAPS, config_map()),
        ("DELETE", MAP, {"preconditions": {"uid": "x"}}),
        ("DELETE", f"{CONFIG_MAPS}/nope", {"preconditions": {"uid": "x"}}),
        ("DELETE", "/api/v1/namespaces/{ns}", {"preconditions": {"uid": "x"}}),
    ],
    "bad delete options": [
        ("POST", CONFIG_MAPS, config_map()),
        ("DELETE", MAP, {"propagationPolicy": "Never"}),
        ("DELETE", f"{MAP}?propagationPolicy=Never"),
        ("DELETE", f"{MAP}?gracePeriodSeconds=soon"),
        ("DELETE", MAP, {"gracePeriodSeconds": "5"}),
        ("DELETE", MAP, {"gracePeriodSeconds": 1.5}),
        ("DELETE", MAP, {"dryRun": ["Some"]}),
        ("DELETE", f"{MAP}?dryRun=Some"),
        ("DELETE", MAP, []),
        ("DELETE", MAP, "{"),
        ("DELETE", MAP, "null"),
        ("DELETE", MAP, {"kind": "ConfigMap", "apiVersion": "v1"}),
    ],
    "delete options of other kinds are taken": [
        ("POST", CONFIG_MAPS, config_map()),
        ("DELETE", MAP, {"kind": "DeleteOptions", "apiVersion": "v1", "unknown": 1}),
    ],
    "dry runs leave nothing": [
        ("POST", f"{CONFIG_MAPS}?dryRun=All", config_map()),
        ("GET", MAP),
        ("POST", CONFIG_MAPS, config_map()),
        ("PUT", f"{MAP}?dryRun=All", config_map(data={"a": "1"})),
        ("MERGE", f"{MAP}?dryRun=All", {"data": {"a": "1"}}),
        ("JSONPATCH", f"{MAP}?dryRun=All", [{"op": "add", "path": "/data", "value": {"a": "1"}}]),
        ("STRATEGIC", f"{MAP}?dryRun=All", {"data": {"a": "1"}}),
        ("APPLY", f"{MAP}?dryRun=All&fieldManager=a", config_map(data={"b": "1"})),
        ("APPLY", f"{CONFIG_MAPS}/new?dryRun=All&fieldManager=a", config_map("new")),
        ("DELETE", f"{MAP}?dryRun=All"),
        ("DELETE", MAP, {"dryRun": ["All"]}),
        ("DELETE", f"{CONFIG_MAPS}?dryRun=All"),
        ("GET", CONFIG_MAPS),
        ("POST", f"{CONFIG_MAPS}?dryRun=Some", config_map("b")),
        ("POST", f"{CONFIG_MAPS}?dryRun=All&dryRun=All", config_map("b")),
        ("POST", f"{CONFIG_MAPS}?dryRun=", config_map("b")),
        ("DELETE", "/api/v1/namespaces/{ns}?dryRun=All"),
        ("POST", PODS + "?dryRun=All", pod()),
        ("POST", PODS, pod()),
        ("DELETE", POD + "?dryRun=All"),
        ("DELETE", POD + "?dryRun=All&gracePeriodSeconds=0"),
        ("GET", POD),
    ],
    "bad write options": [
        ("POST", f"{CONFIG_MAPS}?fieldManager={'x' * 129}", config_map()),
        ("POST", f"{CONFIG_MAPS}?fieldManager=%01", config_map()),
        ("POST", f"{CONFIG_MAPS}?fieldManager=a%20b", config_map("spaced")),
        ("POST", f"{CONFIG_MAPS}?fieldValidation=maybe", config_map()),
        ("POST", CONFIG_MAPS, config_map()),
        ("MERGE", f"{MAP}?force=true", {}),
        ("MERGE", f"{MAP}?force=false", {}),
        ("APPLY", MAP, config_map()),
        ("APPLY", f"{MAP}?fieldManager=", config_map()),
    ],
    "pods end in their own time": [
        ("POST", PODS, pod(spec={"nodeName": "n"})),
        ("DELETE", f"{POD}?gracePeriodSeconds=50"),
        ("DELETE", f"{POD}?gracePeriodSeconds=60"),
        ("DELETE", f"{POD}?gracePeriodSeconds=20"),
        ("DELETE", POD),
        ("DELETE", f"{POD}?gracePeriodSeconds=-1"),
        ("GET", POD),
        ("DELETE", f"{POD}?gracePeriodSeconds=0"),
        ("GET", POD),
    ],
    "pods without a node end at once": [
        ("POST", PODS, pod()),
        ("DELETE", POD),
        ("GET", POD),
        ("POST", PODS, pod(**FINALIZER)),
        ("DELETE", POD),
        ("MERGE", POD, {"metadata": {"finalizers": None}}),
        ("GET", POD),
    ],
    "pods with a finalizer and a node": [
        ("POST", PODS, pod(spec={"nodeName": "n"}, **FINALIZER)),
        ("DELETE", POD),
        ("MERGE", POD, {"metadata": {"finalizers": None}}),
        ("GET", POD),
        ("DELETE", f"{POD}?gracePeriodSeconds=0"),
        ("GET", POD),
    ],
    "namespaces end in steps": [
        ("DELETE", "/api/v1/namespaces/{ns}"),
        ("DELETE", "/api/v1/namespaces/{ns}"),
        ("POST", CONFIG_MAPS, config_map()),
        ("GET", "/api/v1/namespaces/{ns}"),
        ("PUT", "/api/v1/namespaces/{ns}/finalize", {"metadata": {"name": "{ns}"}, "spec": {"finalizers": []}}),
        ("GET", "/api/v1/namespaces/{ns}"),
    ],
    "writes into a namespace that is not there": [
        ("POST", "/api/v1/namespaces/nope-nope/configmaps", config_map()),
        ("POST", "/api/v1/namespaces/nope-nope/configmaps?dryRun=All", config_map()),
        ("GET", "/api/v1/namespaces/nope-nope/configmaps"),
        ("GET", "/api/v1/namespaces/nope-nope/configmaps/web"),
        ("DELETE", "/api/v1/namespaces/nope-nope/configmaps"),
        ("APPLY", "/api/v1/namespaces/nope-nope/configmaps/web?fieldManager=a", config_map()),
    ],
    "deletecollection selects": [
        ("POST", CONFIG_MAPS, config_map("a", labels={"app": "x"})),
        ("POST", CONFIG_MAPS, config_map("b", labels={"app": "y"})),
        ("POST", CONFIG_MAPS, config_map("c", labels={"app": "x"}, **FINALIZER)),
        ("POST", CONFIG_MAPS, config_map("d")),
        ("DELETE", f"{CONFIG_MAPS}?labelSelector=app%3Dx"),
        ("GET", CONFIG_MAPS),
        ("DELETE", f"{CONFIG_MAPS}?fieldSelector=metadata.name%3Db"),
        ("DELETE", f"{CONFIG_MAPS}?labelSelector=%3D%3D"),
        ("DELETE", f"{CONFIG_MAPS}?fieldSelector=data%3Db"),
        ("DELETE", f"{CONFIG_MAPS}?limit=1"),
        ("DELETE", CONFIG_MAPS, {"propagationPolicy": "Nope"}),
        ("DELETE", CONFIG_MAPS, {"propagationPolicy": "Foreground"}),
        ("GET", CONFIG_MAPS),
    ],
    "deletecollection of kinds that return objects": [
        ("POST", PODS, pod("a", spec={"nodeName": "n"})),
        ("POST", PODS, pod("b")),
        ("DELETE", PODS),
        ("GET", PODS),
    ],
    "no-op writes": [
        ("POST", CONFIG_MAPS, config_map(data={"a": "1"})),
        ("PUT", MAP, config_map(data={"a": "1"})),
        ("MERGE", MAP, {}),
        ("MERGE", MAP, {"data": {"a": "1"}}),
        ("STRATEGIC", MAP, {"data": {"a": "1"}}),
        ("JSONPATCH", MAP, []),
        ("JSONPATCH", MAP, [{"op": "test", "path": "/data/a", "value": "1"}]),
        ("GET", MAP),
    ],
    "subresources keep the rest": [
        ("POST", DEPLOYMENTS, {**deployment(), "status": {"replicas": 9}}),
        ("MERGE", WEB, {"status": {"replicas": 9}}),
        ("MERGE", f"{WEB}/status", {"spec": {"replicas": 9}, "status": {"replicas": 3}}),
        ("MERGE", f"{WEB}/status", {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}}),
        ("MERGE", WEB, {"spec": {"replicas": 2}}),
        ("GET", f"{WEB}/status"),
        ("PUT", f"{WEB}/status", {**deployment(), "status": {"observedGeneration": 1}}),
        ("JSONPATCH", f"{WEB}/status", [{"op": "remove", "path": "/status/observedGeneration"}]),
        ("GET", f"{WEB}/scale"),
        ("MERGE", f"{WEB}/scale", {"spec": {"replicas": 7}}),
        ("PUT", f"{WEB}/scale", {"metadata": {"name": "web"}, "spec": {"replicas": 8}}),
        ("PUT", f"{WEB}/scale", {"metadata": {"name": "web", "resourceVersion": "1"}, "spec": {"replicas": 8}}),
        ("PUT", f"{WEB}/scale", {"metadata": {"name": "other"}, "spec": {"replicas": 8}}),
        ("PUT", f"{WEB}/scale", {"metadata": {"name": "web"}, "spec": {"replicas": -1}}),
        ("PUT", f"{WEB}/scale", {"metadata": {"name": "web"}, "spec": {"replicas": "1"}}),
        ("MERGE", f"{WEB}/scale?dryRun=All", {"spec": {"replicas": 70}}),
        ("APPLY", f"{WEB}/scale?fieldManager=a&force=true",
         {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": {"name": "web"}, "spec": {"replicas": 5}}),
        ("DELETE", f"{WEB}/status"),
        ("POST", f"{WEB}/status", deployment()),
        ("DELETE", f"{WEB}/scale"),
        ("GET", f"{WEB}/nothing"),
        ("GET", WEB),
    ],
    "repeated owners": [
        ("POST", CONFIG_MAPS, config_map(ownerReferences=[OWNER] * 2)),
        ("PUT", MAP, config_map(ownerReferences=[OWNER] * 2)),
        ("MERGE", MAP, {"metadata": {"ownerReferences": [OTHER_OWNER] * 3}}),
    ],
    "definitions": [
        ("GET", "/apis/example.com/v1/foos"),
        ("DELETE", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/nope.example.com"),
    ],
    "the same object in two versions": [
        ("POST", "/apis/autoscaling/v1/namespaces/{ns}/horizontalpodautoscalers",
         {"metadata": {"name": "web"}, "spec": {"maxReplicas": 3, "scaleTargetRef": {"kind": "X", "name": "x"},
                                               "targetCPUUtilizationPercentage": 50}}),
        ("GET", "/apis/autoscaling/v2/namespaces/{ns}/horizontalpodautoscalers/web"),
        ("GET", "/apis/autoscaling/v1/namespaces/{ns}/horizontalpodautoscalers"),
        ("DELETE", "/apis/autoscaling/v2/namespaces/{ns}/horizontalpodautoscalers/web"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("steps", [pytest.param(steps, id=name) for name, steps in SEQUENCES.items()])
async def test_a_sequence_is_answered_alike(both: Both, steps: list[Step]):
    await play(both, *steps)


async def test_versions_of_what_did_not_change_stay(both: Both):
    (first,) = await play(both, ("POST", CONFIG_MAPS, config_map(data={"a": "1"})))
    for step in SEQUENCES["no-op writes"][1:]:
        (answer,) = await play(both, step)
        assert answer["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


async def test_a_version_is_a_precondition_of_a_delete(both: Both):
    embedded, real = await both.each("POST", CONFIG_MAPS, config_map())

    async def delete(options: str, *values: Any) -> None:
        answers = await asyncio.gather(
            *(
                server.ask("DELETE", MAP.replace("{ns}", both.namespace), {"preconditions": {options: value}})
                for server, value in zip(both.servers, values, strict=True)
            )
        )
        assert answers[0].code == answers[1].code

    await delete("resourceVersion", "1", "1")
    await delete("uid", embedded["metadata"]["uid"], real["metadata"]["uid"])
    await play(both, ("GET", MAP))


@pytest.mark.parametrize("how", ["delete", "grace 0", "finalizer"])
async def test_a_deleted_pod_is_told_to_watchers_alike(both: Both, how: str):
    held = FINALIZER if how == "finalizer" else {}
    spec = {"nodeName": "n"} if how == "grace 0" else {}
    await play(both, ("POST", PODS, pod(spec=spec, **held)))
    before = [answer["metadata"]["resourceVersion"] for answer in await both.each("GET", PODS)]
    await play(both, ("DELETE", POD))
    if how == "grace 0":
        await play(both, ("DELETE", f"{POD}?gracePeriodSeconds=0"))
    elif how == "finalizer":
        await play(both, ("MERGE", POD, {"metadata": {"finalizers": None}}))
    path = f"{PODS}?watch=1&timeoutSeconds=1&resourceVersion=".replace("{ns}", both.namespace)
    embedded, real = await asyncio.gather(
        *(server.watch(path + version, 20) for server, version in zip(both.servers, before, strict=True))
    )
    compare(how, Answer(200, embedded), Answer(200, real))
    assert embedded[-1]["type"] == "DELETED"


@pytest.mark.parametrize("version", ["5", "0", "x", ""])
async def test_a_dry_run_of_a_create_keeps_its_version(both: Both, version: str):
    answer = await both.same("POST", f"{CONFIG_MAPS}?dryRun=All", config_map(resourceVersion=version))
    assert (answer.code, answer["metadata"].get("resourceVersion", "")) == (201, version)
    await both.same("GET", MAP)
