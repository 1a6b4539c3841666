"""The controllers against kube-controller-manager and kube-scheduler: one scenario, two clusters, one outcome.

Both clusters have a real API server and pretended nodes; one runs the real controllers, the other ours. What is
compared is where things end: objects and statuses, without what differs between any two runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from steersman.client import Client
from steersman.models import Dynamic, MergePatch

from .pairs import VIEWS, Pair

JOB = ("status.ready",)
LABELS = {"app": "web"}


def template(image: str = "web:1", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "main", "image": image}], **spec}}


def workload(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": LABELS}, "template": template(), **spec}}


def status(**wanted: Any) -> Callable[[Dynamic], bool]:
    def check(obj: Dynamic) -> bool:
        have = obj.get("status", default={})
        current = have.get("observedGeneration", obj.metadata.generation) == obj.metadata.generation
        return current and all(have.get(name) == value for name, value in wanted.items())

    return check


def condition(type: str, value: str, reason: str = "") -> Callable[[Dynamic], bool]:
    def check(obj: Dynamic) -> bool:
        conditions = obj.get("status", "conditions", default=())
        return any(c["type"] == type and c["status"] == value and reason in c.get("reason", "") for c in conditions)

    return check


POD = (
    "spec.serviceAccount",
    "spec.serviceAccountName",
    "status.podIP",
    "status.podIPs",
    "status.hostIP",
    "status.hostIPs",
    "spec.volumes",
    "spec.containers.volumeMounts",
)


async def test_a_new_deployment(pair):
    await pair.create("deployments", workload("web", replicas=2))
    await pair.settle("deployments", "web", condition("Progressing", "True", "NewReplicaSetAvailable"))
    await pair.same("deployments", "replicasets")
    await pair.same("pods", ignore=POD)


async def test_a_rollout_and_its_undoing(pair):
    await pair.create("deployments", workload("web", replicas=3))
    await pair.settle("deployments", "web", condition("Progressing", "True", "NewReplicaSetAvailable"))
    await pair.patch("deployments", "web", {"spec": {"template": template("web:2")}})
    await pair.settle("deployments", "web", status(updatedReplicas=3, replicas=3, availableReplicas=3))
    await pair.same("deployments", "replicasets")
    await pair.patch("deployments", "web", {"spec": {"template": template("web:1")}})
    await pair.settle("deployments", "web", status(updatedReplicas=3, replicas=3, availableReplicas=3))
    await pair.same("deployments", "replicasets")


async def test_a_paused_and_scaled_deployment(pair):
    await pair.create("deployments", workload("web", replicas=1))
    await pair.settle("deployments", "web", condition("Progressing", "True", "NewReplicaSetAvailable"))
    await pair.patch("deployments", "web", {"spec": {"paused": True, "replicas": 3, "template": template("web:2")}})
    await pair.settle("deployments", "web", status(availableReplicas=3))
    await pair.settle("deployments", "web", condition("Progressing", "Unknown", "DeploymentPaused"))
    await pair.same("deployments", "replicasets")


async def test_a_deployment_that_is_stuck(pair):
    body = workload("web", replicas=1, progressDeadlineSeconds=1, template=template(nodeSelector={"no": "where"}))
    await pair.create("deployments", body)
    await pair.settle("deployments", "web", condition("Progressing", "False", "ProgressDeadlineExceeded"))
    await pair.same("deployments", "replicasets", ignore=("status.conditions.lastUpdateTime",))
    await pair.same("pods", ignore=(*POD, "status.conditions.observedGeneration"))


async def test_a_stateful_set(pair):
    await pair.create("statefulsets", workload("db", replicas=2, serviceName="db"))
    await pair.settle("statefulsets", "db", status(readyReplicas=2, availableReplicas=2, updatedReplicas=2))
    await pair.same("statefulsets", "controllerrevisions")
    await pair.same("pods", ignore=POD)
    await pair.patch("statefulsets", "db", {"spec": {"template": template("web:2"), "replicas": 1}})
    await pair.settle("statefulsets", "db", status(replicas=1, updatedReplicas=1, readyReplicas=1))
    await pair.same("statefulsets")


async def test_a_daemon_set(pair):
    await pair.create("daemonsets", workload("agent"))
    await pair.settle("daemonsets", "agent", status(numberAvailable=1))
    await pair.same("daemonsets", "controllerrevisions")
    await pair.same("pods", ignore=(*POD, "spec.affinity", "metadata.labels.pod-template-generation"))


async def test_a_job_that_completes(pair):
    pod = {"containers": [{"name": "main", "image": "work:1"}], "restartPolicy": "Never"}
    await pair.create("jobs", {"metadata": {"name": "work"}, "spec": {"completions": 2, "template": {"spec": pod}}})
    await pair.settle("jobs", "work", condition("Complete", "True"))
    await pair.same("jobs")
    await pair.same("pods", ignore=POD)


async def test_an_indexed_job(pair):
    pod = {"containers": [{"name": "main", "image": "work:1"}], "restartPolicy": "Never"}
    spec = {"completions": 3, "parallelism": 3, "completionMode": "Indexed", "template": {"spec": pod}}
    await pair.create("jobs", {"metadata": {"name": "work"}, "spec": spec})
    await pair.settle("jobs", "work", condition("Complete", "True"))
    await pair.same("jobs")
    await pair.same("pods", ignore=POD)


async def test_a_suspended_job(pair):
    pod = {"containers": [{"name": "main", "image": "work:1"}], "restartPolicy": "Never"}
    await pair.create("jobs", {"metadata": {"name": "work"}, "spec": {"suspend": True, "template": {"spec": pod}}})
    await pair.settle("jobs", "work", condition("Suspended", "True"))
    await pair.same("jobs")


async def test_a_job_past_its_deadline(pair):
    pod = {"containers": [{"name": "m", "image": "w"}], "restartPolicy": "Never", "nodeSelector": {"no": "where"}}
    spec = {"activeDeadlineSeconds": 1, "template": {"spec": pod}}
    await pair.create("jobs", {"metadata": {"name": "work"}, "spec": spec})
    await pair.settle("jobs", "work", condition("Failed", "True"))
    await pair.same("jobs", "pods")


def indexed_job(**spec: Any) -> dict[str, Any]:
    """A Job whose Pods run nowhere, so that the test says how they end."""
    pod = {"containers": [{"name": "m", "image": "w"}], "restartPolicy": "Never", "nodeSelector": {"no": "where"}}
    whole = {"completions": 3, "parallelism": 3, "completionMode": "Indexed", "template": {"spec": pod}, **spec}
    return {"metadata": {"name": "work"}, "spec": whole}


async def end(pair: Pair, index: int, code: int) -> None:
    """Let the Pod that works on an index end with an exit code, in both clusters."""
    ended = {"exitCode": code, "finishedAt": "2026-01-01T00:00:00Z", "startedAt": "2026-01-01T00:00:00Z"}
    container = {"name": "m", "image": "w", "imageID": "", "ready": False, "restartCount": 0}
    status = {"containerStatuses": [{**container, "state": {"terminated": ended}}]}
    status["phase"] = "Failed" if code else "Succeeded"

    async def act(client: Client) -> None:
        name = await working(pair, client, index)
        await client.patch(
            VIEWS["pods"], name, MergePatch({"status": status}), namespace=pair.namespace, subresource="status"
        )

    await pair.each(act)


def _seen(pod: Dynamic) -> bool:
    """Whether a Pod waits, and the scheduler has said so: of one that ends before, it says nothing."""
    conditions = pod.get("status", "conditions", default=())
    scheduled = bool(pod.get("spec", "nodeName")) or any(c["type"] == "PodScheduled" for c in conditions)
    return scheduled and pod.get("status", "phase") == "Pending"


async def working(pair: Pair, client: Client, index: int) -> str:
    """The name of the Pod that works on an index."""
    label = f"batch.kubernetes.io/job-completion-index={index}"
    for _ in range(300):
        page = await client.list(VIEWS["pods"], namespace=pair.namespace, labels=label)
        if names := [pod.metadata.name for pod in page.items if _seen(pod)]:
            return names[0]
        await asyncio.sleep(0.1)
    pytest.fail(f"{client}: no Pod works on index {index}")


async def test_an_index_that_fails_too_often_is_given_up(pair):
    await pair.create("jobs", indexed_job(backoffLimitPerIndex=0))
    await end(pair, 1, 1)
    await pair.settle("jobs", "work", lambda job: job.body["status"].get("failedIndexes") == "1")
    await pair.same("jobs", ignore=JOB)
    await end(pair, 0, 0)
    await end(pair, 2, 0)
    await pair.settle("jobs", "work", condition("Failed", "True"))
    await pair.same("jobs")
    await pair.same("pods", ignore=POD)


async def test_an_index_is_tried_again_by_itself(pair):
    await pair.create("jobs", indexed_job(backoffLimitPerIndex=1))
    await end(pair, 1, 1)
    await end(pair, 1, 1)
    await end(pair, 0, 0)
    await end(pair, 2, 0)
    await pair.settle("jobs", "work", condition("Failed", "True"))
    await pair.same("jobs")
    await pair.same("pods", ignore=POD)


async def test_too_many_failed_indexes_end_a_job(pair):
    await pair.create("jobs", indexed_job(backoffLimitPerIndex=0, maxFailedIndexes=0))
    await end(pair, 2, 1)
    await pair.settle("jobs", "work", condition("Failed", "True"))
    await pair.same("jobs")


async def test_a_failure_policy_fails_an_index_ignores_and_fails_the_job(pair):
    rules = [
        {"action": action, "onExitCodes": {"operator": "In", "values": [code]}}
        for action, code in (("FailIndex", 41), ("Ignore", 42), ("FailJob", 43))
    ]
    await pair.create("jobs", indexed_job(backoffLimitPerIndex=3, podFailurePolicy={"rules": rules}))
    await end(pair, 0, 41)
    await pair.settle("jobs", "work", lambda job: job.body["status"].get("failedIndexes") == "0")
    await end(pair, 1, 42)
    await pair.each(lambda client: working(pair, client, 1))
    await end(pair, 2, 43)
    await pair.settle("jobs", "work", condition("Failed", "True"))
    await pair.same("jobs")


async def test_a_success_policy_ends_a_job_and_what_still_runs(pair):
    policy = {"rules": [{"succeededIndexes": "2"}, {"succeededIndexes": "0-1", "succeededCount": 1}]}
    await pair.create("jobs", indexed_job(successPolicy=policy))
    await end(pair, 1, 0)
    await pair.settle("jobs", "work", condition("Complete", "True"))
    await pair.same("jobs")
    await pair.same("pods", ignore=POD)


async def test_a_pod_that_leaves_is_not_replaced_before_it_has_ended(pair):
    # On a node without a kubelet: a Pod that leaves and never had one is ended by the garbage collector of Pods.
    body = indexed_job(podReplacementPolicy="Failed", completions=1, parallelism=1)
    body["spec"]["template"]["spec"] |= {"nodeSelector": None, "nodeName": "silent"}
    body["spec"]["template"]["metadata"] = {"finalizers": ["example.com/kept"]}
    await pair.each(lambda client: client.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "silent"}}))
    await pair.create("jobs", body)

    async def leave(client: Client) -> None:
        await client.delete(VIEWS["pods"], await working(pair, client, 0), namespace=pair.namespace)

    await pair.each(leave)
    await pair.settle("jobs", "work", status(terminating=1))
    await pair.same("jobs", ignore=JOB)
    await pair.same("pods", ignore=POD)
    await end(pair, 0, 1)
    await pair.settle("jobs", "work", status(terminating=0, failed=1))
    await pair.same("jobs", ignore=JOB)


async def test_endpoints_of_a_service(pair):
    spec = {"selector": LABELS, "ports": [{"name": "http", "port": 80, "targetPort": 8080}], "clusterIP": "None"}
    await pair.create("services", {"metadata": {"name": "web", "labels": {"a": "b"}}, "spec": spec})
    await pair.same("endpoints", "endpointslices", ignore=("metadata.annotations",))
    await pair.create("replicasets", workload("web", replicas=1))
    await pair.settle("replicasets", "web", status(readyReplicas=1))
    addresses = ("metadata.annotations", "endpoints.addresses", "subsets.addresses.ip")
    await pair.same("endpoints", "endpointslices", ignore=addresses)


async def test_a_budget(pair):
    await pair.create("deployments", workload("web", replicas=3))
    await pair.settle("deployments", "web", status(availableReplicas=3))
    spec = {"minAvailable": "50%", "selector": {"matchLabels": LABELS}}
    await pair.create("poddisruptionbudgets", {"metadata": {"name": "web"}, "spec": spec})
    await pair.settle("poddisruptionbudgets", "web", status(disruptionsAllowed=1))
    await pair.same("poddisruptionbudgets")


async def test_a_claim_that_nothing_fits(pair):
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "none"}
    await pair.create("persistentvolumeclaims", {"metadata": {"name": "data"}, "spec": spec})
    await pair.settle("persistentvolumeclaims", "data", status(phase="Pending"))
    await pair.same("persistentvolumeclaims")


async def test_a_replication_controller(pair):
    spec = {"replicas": 2, "selector": LABELS, "template": template()}
    await pair.create("replicationcontrollers", {"metadata": {"name": "web"}, "spec": spec})
    await pair.settle("replicationcontrollers", "web", status(readyReplicas=2))
    await pair.same("replicationcontrollers")


async def test_a_namespace_begins_the_same(pair):
    await pair.same("serviceaccounts")
    await pair.same("configmaps", ignore=("data",))
