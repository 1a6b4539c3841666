"""The built-in controllers survive crashes, lost responses, conflicts, and late and missed events."""

from __future__ import annotations

from typing import Any

import pytest

from steersman.testing.explore import DEFAULT_PERTURB, Plan, ScenarioRun, State, explored, replay, thorough
from steersman.testing.explore.decorator import Explored
from steersman_cluster.controllers.operator import NAME, operator

CLUSTER = {"controllers": False}
REGRESSIONS = [
    ("statefulset", "conflict:W9"),  # the phase of a PersistentVolume stayed Pending
    ("statefulset", "hold:E1"),  # a Pod stayed pending after the StorageClass of its claim appeared
    ("job", "hold:E2"),  # the condition PodScheduled kept a generation after the Pod was bound
    ("job", "hold:E9"),  # a Job created a Pod too many while the events of Pods were late
    ("daemonset", "miss:E12"),  # a DaemonSet created its revision again and again while the cache was behind
    ("daemonset", "hold:E5"),  # a DaemonSet created a second Pod for a node while the events of Pods were late
    ("replicaset", "hold:E4"),  # so did a ReplicaSet
    ("replicationcontroller", "hold:E4"),  # and a ReplicationController
    ("deployment", "hold:E5"),  # a Service got a second EndpointSlice while the events of slices were late
    ("deployment", "hold:E31"),  # the condition Progressing named the former ReplicaSet after a rollout
    ("deployment", "hold:E12..S3"),  # a slice that follows late events is not changed back by the controller
]
ACCOUNT = f"system:serviceaccount:default:{NAME}"
ADMINISTRATOR = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "controllers-administer"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
    "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": "default"}],
}
LABELS = {"app": "web"}
COUNTED = ("pods", "endpointslices.discovery.k8s.io")
REPLICAS = {
    "DaemonSet": ("daemonsets.apps", "", 1),  # the cluster has one node
    "Job": ("jobs.batch", "parallelism", 1),
    "ReplicaSet": ("replicasets.apps", "replicas", 1),
    "ReplicationController": ("replicationcontrollers", "replicas", 1),
    "Service": ("services", "", 1),
}
"""By kind: its resource, and the field of its specification with the number of Pods or slices and the default of it."""


def template(image: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "web", "image": image}], **spec}}


def workload(kind: str, image: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": LABELS}, "template": template(image), **spec},
    }


SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "web"},
    "spec": {"selector": LABELS, "ports": [{"port": 80}]},
}
CLAIM = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}


def job(name: str, **spec: Any) -> dict[str, Any]:
    pod = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "job"}]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"completions": 2, "template": pod, **spec},
    }


async def controllers(run: ScenarioRun) -> None:
    await run.apply(ADMINISTRATOR)
    await run.operator(lambda: operator(without=("autoscaler", "aggregation", "serviceaccount")))


async def of_a_deployment(run: ScenarioRun) -> None:
    await controllers(run)
    await run.apply(SERVICE, workload("Deployment", "web:1", replicas=2))
    await run.settled()
    await run.apply(workload("Deployment", "web:2", replicas=2))
    await run.settled()
    await run.delete("deployment", "web")
    await run.settled()


async def of_a_stateful_set(run: ScenarioRun) -> None:
    await controllers(run)
    spec = {"serviceName": "web", "volumeClaimTemplates": [CLAIM]}
    await run.apply(workload("StatefulSet", "web:1", replicas=2, **spec))
    await run.settled()
    await run.apply(workload("StatefulSet", "web:2", replicas=1, **spec))
    await run.settled()
    await run.delete("statefulset", "web")
    await run.settled()


async def of_a_daemon_set(run: ScenarioRun) -> None:
    await controllers(run)
    await run.apply(workload("DaemonSet", "web:1"))
    await run.settled()
    await run.apply(workload("DaemonSet", "web:2"))
    await run.settled()
    await run.delete("daemonset", "web")
    await run.settled()


async def of_a_job(run: ScenarioRun) -> None:
    await controllers(run)
    await run.apply(job("once"))
    await run.settled()
    await run.delete("job", "once", propagation="Background")
    await run.settled()


async def of_a_cron_job(run: ScenarioRun) -> None:
    await controllers(run)
    spec = {"schedule": "*/5 * * * *", "jobTemplate": {"spec": job("unused")["spec"]}}
    await run.apply({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "often"}, "spec": spec})
    await run.passes(301.0)
    await run.settled()
    await run.delete("cronjob", "often")
    await run.settled()


async def of_a_replica_set(run: ScenarioRun) -> None:
    await controllers(run)
    await run.apply(workload("ReplicaSet", "web:1", replicas=2))
    await run.settled()
    await run.apply(workload("ReplicaSet", "web:1", replicas=3))
    await run.settled()
    await run.delete("replicaset", "web")
    await run.settled()


async def of_a_replication_controller(run: ScenarioRun) -> None:
    await controllers(run)
    metadata, pods = {"name": "web"}, template("web:1")
    body: dict[str, Any] = {"apiVersion": "v1", "kind": "ReplicationController", "metadata": metadata}
    await run.apply({**body, "spec": {"replicas": 2, "selector": LABELS, "template": pods}})
    await run.settled()
    await run.apply({**body, "spec": {"replicas": 1, "selector": LABELS, "template": pods}})
    await run.settled()
    await run.delete("replicationcontroller", "web", propagation="Background")
    await run.settled()


LIVES = {
    "deployment": of_a_deployment, "statefulset": of_a_stateful_set, "daemonset": of_a_daemon_set, "job": of_a_job,
    "cronjob": of_a_cron_job, "replicaset": of_a_replica_set, "replicationcontroller": of_a_replication_controller,
}  # fmt: skip


DEPENDS_ON_EVENTS = {"statefulset": ("persistentvolumeclaims", "persistentvolumes")}
"""By life, kinds that are not compared after late events: there are no claims of Pods that were not created."""


def no_surplus(state: State) -> str:
    """A Pod or EndpointSlice that a controller creates is none too many, also while the controller sees late events."""
    if state.event is None or state.event.type != "ADDED" or state.changed not in COUNTED:
        return ""
    namespace = state.event.item.namespace
    created: Any = state.event.item.object()
    owner = next((one for one in created["metadata"].get("ownerReferences", ()) if one.get("controller")), None)
    if owner is None or owner["kind"] not in REPLICAS:
        return ""
    resource, field, default = REPLICAS[owner["kind"]]
    found: Any = state.get(resource, owner["name"], namespace=namespace)
    if found is None or found["metadata"]["uid"] != owner["uid"]:
        return ""
    wanted = found["spec"].get(field, default)
    peers: list[Any] = state.list(state.changed, namespace=namespace)
    active = sum(is_active(one) and owner in one["metadata"].get("ownerReferences", ()) for one in peers)
    return (
        f"{owner['kind']} {owner['name']} has {active} {state.changed} instead of {wanted}" if active > wanted else ""
    )


def is_active(obj: dict[str, Any]) -> bool:
    phase = obj.get("status", {}).get("phase")
    return "deletionTimestamp" not in obj["metadata"] and phase not in ("Succeeded", "Failed")


def exploration(life: str, perturb: tuple[str, ...] = DEFAULT_PERTURB, **options: Any) -> Explored:
    made: Explored = explored(cluster=CLUSTER, perturb=perturb, **options)(LIVES[life]).explored
    made.always(no_surplus)
    return made


@pytest.mark.slow
@pytest.mark.skipif(not thorough(), reason="explores for minutes: make explore")
@pytest.mark.parametrize("perturb", [("crash", "lost-answer", "conflict"), ("lag", "miss")], ids=["writes", "events"])
@pytest.mark.parametrize("life", LIVES)
def test_controllers_end_as_without_faults(life: str, perturb: tuple[str, ...]) -> None:
    ignored = DEPENDS_ON_EVENTS.get(life, ()) if "lag" in perturb else ()
    result = exploration(life, perturb, budget="60s", ignore=ignored).explore()
    assert [f"{f.plan}: {'; '.join(map(str, f.findings))}" for f in result.failures] == []


@pytest.mark.slow
@pytest.mark.parametrize(("life", "plan"), REGRESSIONS)
def test_a_plan_that_found_a_bug_passes(life: str, plan: str) -> None:
    _, outcome, found = replay(exploration(life).request(), Plan.read(plan))
    assert outcome.injected
    assert found == []
