"""The controllers against kube-controller-manager and kube-scheduler: one scenario, two clusters, one outcome.

Both clusters have a real API server and pretended nodes; one runs the real controllers, the other ours. What is
compared is where things end: objects and statuses, without what differs between any two runs.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from steersman.client import ApiError, Client
from steersman.client.config import load_config
from steersman.devcluster.controllers.thread import running
from steersman.models import Dynamic, MergePatch, dynamic, encode
from steersman.testing.controlplane import ControlPlane, available

from .harness import _differences, normalise

VIEWS = {
    "deployments": dynamic("apps/v1", "Deployment"),
    "replicasets": dynamic("apps/v1", "ReplicaSet"),
    "statefulsets": dynamic("apps/v1", "StatefulSet"),
    "daemonsets": dynamic("apps/v1", "DaemonSet"),
    "controllerrevisions": dynamic("apps/v1", "ControllerRevision"),
    "jobs": dynamic("batch/v1", "Job"),
    "cronjobs": dynamic("batch/v1", "CronJob"),
    "pods": dynamic("v1", "Pod"),
    "services": dynamic("v1", "Service"),
    "endpoints": dynamic("v1", "Endpoints"),
    "endpointslices": dynamic("discovery.k8s.io/v1", "EndpointSlice"),
    "configmaps": dynamic("v1", "ConfigMap"),
    "serviceaccounts": dynamic("v1", "ServiceAccount"),
    "poddisruptionbudgets": dynamic("policy/v1", "PodDisruptionBudget"),
    "persistentvolumeclaims": dynamic("v1", "PersistentVolumeClaim"),
    "replicationcontrollers": dynamic("v1", "ReplicationController"),
}
JOB = ("status.ready",)
LABELS = {"app": "web"}
_HASH = re.compile(r"\b(web|db|agent|work-\d)-[bcdfghjklmnpqrstvwxz2456789]{5,10}(-[a-z0-9]{5})?\b")


@pytest.fixture(scope="module")
def planes() -> Iterator[tuple[Any, Any]]:
    """One cluster with our controllers, one with the real ones."""
    if (reason := available("kube-controller-manager", "kube-scheduler")) is not None:
        pytest.skip(reason)
    with (
        ControlPlane.start(controller_manager=False, scheduler=False) as ours,
        ControlPlane.start(controller_manager=True, scheduler=True) as real,
    ):
        for plane in (ours, real):
            plane.add_node("node-1", cpu="8", memory="16Gi", pods=500)
        with running(ours.config, options={"serviceaccount": {"ca_bundle": "x"}}):
            yield ours, real


class Pair:
    """The same namespace in both clusters."""

    def __init__(self, clients: list[Client], namespace: str) -> None:
        self.clients = clients
        self.namespace = namespace

    async def each(self, action: Callable[[Client], Any]) -> list[Any]:
        return list(await asyncio.gather(*(action(client) for client in self.clients)))

    async def create(self, plural: str, body: dict[str, Any]) -> None:
        view = VIEWS[plural]
        whole = {**body, "apiVersion": view.info.api_version, "kind": view.info.kind}
        whole["metadata"] = {**body["metadata"], "namespace": self.namespace}
        await self.each(lambda client: client.create(whole, kind=view))

    async def patch(self, plural: str, name: str, body: Any) -> None:
        await self.each(lambda client: client.patch(VIEWS[plural], name, MergePatch(body), self.namespace))

    async def delete(self, plural: str, name: str) -> None:
        await self.each(lambda client: client.delete(VIEWS[plural], name, self.namespace, propagation="Background"))

    async def settle(self, plural: str, name: str, check: Callable[[Dynamic], Any]) -> None:
        """Wait until an object fits in both clusters."""

        async def wait(client: Client) -> None:
            for _ in range(600):
                try:
                    found = await client.get(VIEWS[plural], name, self.namespace)
                    if check(found):
                        return
                except ApiError as problem:
                    if problem.code != 404:
                        raise
                await asyncio.sleep(0.05)
            pytest.fail(f"{client}: {plural}/{name} does not settle: {encode(found).decode()}")

        await self.each(wait)

    async def same(self, *plurals: str, ignore: tuple[str, ...] = ()) -> None:
        """Demand that the objects of these kinds end up the same."""
        problem: AssertionError | None = None
        for _ in range(100):
            try:
                await self._compare(plurals, ignore)
            except AssertionError as found:
                problem = found
                await asyncio.sleep(0.1)
            else:
                return
        assert problem is not None
        raise problem

    async def _compare(self, plurals: tuple[str, ...], ignore: tuple[str, ...]) -> None:
        for plural in plurals:
            ours, real = await self.each(lambda client, plural=plural: self._all(client, plural, ignore))
            different = list(_differences(ours, real, plural))
            assert not different, "\n".join(different)

    async def _all(self, client: Client, plural: str, ignore: tuple[str, ...]) -> list[Any]:
        page = await client.list(VIEWS[plural], self.namespace)
        return sorted((_plain(item.body, ignore) for item in page.items), key=str)


def _plain(body: Any, ignore: tuple[str, ...]) -> Any:
    """An object without what differs between any two runs: hashes, names, times, addresses, versions."""
    whole = _renamed(normalise(dict(body)))
    whole["metadata"].pop("managedFields", None)
    whole["metadata"].pop("generation", None)
    whole.get("status", {}).pop("observedGeneration", None)
    for path in ignore:
        _drop(whole, path.split("."))
    conditions = whole.get("status", {}).get("conditions")
    if conditions:
        whole["status"]["conditions"] = sorted(conditions, key=lambda c: c["type"])
    return whole


def _drop(value: Any, path: list[str]) -> None:
    if isinstance(value, list):
        for item in value:
            _drop(item, path)
    elif isinstance(value, dict) and len(path) == 1:
        value.pop(path[0], None)
    elif isinstance(value, dict):
        for name in list(value) if path[0] == "*" else [path[0]]:
            _drop(value.get(name), path[1:])


def _renamed(value: Any) -> Any:
    if isinstance(value, dict):
        hashes = ("pod-template-hash", "controller-revision-hash", "controller.kubernetes.io/hash")
        return {k: "<hash>" if k in hashes else _renamed(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_renamed(item) for item in value]
    return _HASH.sub(r"\1-<hash>", value) if isinstance(value, str) else value


@pytest.fixture
async def pair(planes: tuple[Any, Any]) -> AsyncIterator[Pair]:
    name = f"test-{os.urandom(5).hex()}"
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(Client(load_config(plane.kubeconfig))) for plane in planes]
        pair = Pair(clients, "same")
        pair.namespace = name
        for client in clients:
            await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        await pair.settle("serviceaccounts", "default", lambda _: True)
        await pair.settle("configmaps", "kube-root-ca.crt", lambda _: True)
        yield pair
        for client in clients:
            await client.raw.request("DELETE", f"/api/v1/namespaces/{name}")


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
        await client.patch(VIEWS["pods"], name, MergePatch({"status": status}), pair.namespace, subresource="status")

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
        page = await client.list(VIEWS["pods"], pair.namespace, labels=label)
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
        await client.delete(VIEWS["pods"], await working(pair, client, 0), pair.namespace)

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
