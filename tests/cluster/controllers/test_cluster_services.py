"""Namespaces, endpoints, budgets, volumes, roles, CronJobs and ReplicationControllers, from the user's side."""

from steersman.client import TooManyRequests
from steersman.k8s import (
    ClusterRole,
    ConfigMap,
    CronJob,
    Deployment,
    Endpoints,
    EndpointSlice,
    Job,
    Namespace,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
    ReplicationController,
    ResourceQuota,
    Service,
)
from steersman.models import get_condition

from .test_deployments import LABELS, deployment, rolled_out, template
from .test_garbage import gone


async def test_a_deleted_namespace_is_emptied_first(lab):
    name = f"{lab.namespace}-x"
    await lab.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    held = {"name": "held", "namespace": name, "finalizers": ["example.com/wait"]}
    await lab.client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": held})
    await lab.client.delete(Namespace, name)

    def waits(ns):
        c = get_condition(ns.status.conditions, "NamespaceContentRemaining")
        return (
            c is not None and c.status == "True" and c.message.startswith("Some resources are remaining: configmaps.")
        )

    ns = await lab.until(Namespace, name, waits)
    left = get_condition(ns.status.conditions, "NamespaceFinalizersRemaining")
    assert left.message.endswith("finalizers remaining: example.com/wait in 1 resource instances")
    from steersman.models import MergePatch

    await lab.client.patch(ConfigMap, "held", MergePatch({"metadata": {"finalizers": None}}), namespace=name)
    await gone(lab, Namespace, name)


async def test_a_service_gets_endpoints_of_ready_pods(lab):
    spec = {"selector": LABELS, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]}
    await lab.create(Service, {"metadata": {"name": "web"}, "spec": spec})
    await lab.create(Deployment, deployment(replicas=2))
    await lab.until(Endpoints, "web", lambda e: e.subsets and len(e.subsets[0].addresses) == 2)

    async def two():
        slices = await lab.list(EndpointSlice)
        return (
            len(slices) == 1 and len(slices[0].endpoints) == 2 and all(e.conditions.ready for e in slices[0].endpoints)
        )

    await lab.eventually(two, "one slice with both")
    (found,) = await lab.list(EndpointSlice)
    assert found.metadata.labels["kubernetes.io/service-name"] == "web"
    assert [(p.name, p.port, p.protocol) for p in found.ports] == [("http", 8080, "TCP")]
    await lab.patch(Deployment, "web", {"spec": {"replicas": 0}})
    await lab.until(Endpoints, "web", lambda e: not e.subsets)


async def test_a_budget_counts_pods_and_refuses_evictions(lab):
    await lab.create(Deployment, deployment(replicas=2))
    await lab.until(Deployment, "web", rolled_out())
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": LABELS}}
    await lab.create(PodDisruptionBudget, {"metadata": {"name": "web"}, "spec": spec})
    b = await lab.until(PodDisruptionBudget, "web", lambda b: b.status and b.status.disruptions_allowed == 1)
    assert (b.status.current_healthy, b.status.desired_healthy, b.status.expected_pods) == (2, 1, 2)
    assert get_condition(b.status.conditions, "DisruptionAllowed").reason == "SufficientPods"
    await lab.patch(PodDisruptionBudget, "web", {"spec": {"maxUnavailable": 0}})
    await lab.until(PodDisruptionBudget, "web", lambda b: b.status.disruptions_allowed == 0)
    pod = (await lab.list(Pod))[0]
    try:
        await lab.client.evict(pod.metadata.name, namespace=lab.namespace)
    except TooManyRequests:
        return
    raise AssertionError("the eviction went through")


def claim(name="data", **spec):
    body = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec}
    return {"metadata": {"name": name}, "spec": body}


async def test_a_claim_waits_for_its_pod_and_keeps_its_volume_while_in_use(lab):
    made = await lab.create(PersistentVolumeClaim, claim(storageClassName="standard"))
    await lab.until(PersistentVolumeClaim, "data", lambda c: c.status.phase == "Pending")
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    await lab.create(Pod, {**template(volumes=[volume]), "metadata": {"name": "user"}})
    bound = await lab.until(PersistentVolumeClaim, "data", lambda c: c.status.phase == "Bound")
    assert bound.spec.volume_name == f"pvc-{made.metadata.uid}"
    assert str(bound.status.capacity["storage"]) == "1Gi"
    await lab.until(Pod, "user", lambda p: p.status.phase == "Running")
    await lab.delete(PersistentVolumeClaim, "data")
    await lab.until(PersistentVolumeClaim, "data", lambda c: c.metadata.deletion_timestamp)
    await lab.delete(Pod, "user")
    await gone(lab, PersistentVolumeClaim, "data")
    await gone(lab, PersistentVolume, f"pvc-{made.metadata.uid}")


async def test_a_claim_takes_the_smallest_volume_that_fits_and_a_retained_one_stays(lab):
    for size in ("5Gi", "2Gi", "512Mi"):
        spec = {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": "/tmp/x"},
            "storageClassName": lab.namespace,
        }
        name = f"{lab.namespace}-{size.lower()}"
        await lab.create(PersistentVolume, {"metadata": {"name": name}, "spec": spec})
        await lab.until(PersistentVolume, name, lambda v: v.status.phase == "Available")
    await lab.create(PersistentVolumeClaim, claim(storageClassName=lab.namespace))
    bound = await lab.until(PersistentVolumeClaim, "data", lambda c: c.status.phase == "Bound")
    assert bound.spec.volume_name == f"{lab.namespace}-2gi"
    await lab.delete(PersistentVolumeClaim, "data")
    await lab.until(PersistentVolume, f"{lab.namespace}-2gi", lambda v: v.status.phase == "Released")
    for size in ("5gi", "2gi", "512mi"):
        await lab.client.delete(PersistentVolume, f"{lab.namespace}-{size}")
        await gone(lab, PersistentVolume, f"{lab.namespace}-{size}")


async def test_a_cluster_role_gathers_the_rules_of_others(lab):
    label = f"gather-{lab.namespace}"
    selector = {"clusterRoleSelectors": [{"matchLabels": {label: "yes"}}]}
    await lab.create(ClusterRole, {"metadata": {"name": label}, "aggregationRule": selector, "rules": []})
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
    part = {"metadata": {"name": f"{label}-part", "labels": {label: "yes"}}, "rules": [rule]}
    await lab.create(ClusterRole, part)
    await lab.until(ClusterRole, label, lambda r: len(r.rules) == 1 and r.rules[0].resources == ("pods",))
    await lab.client.delete(ClusterRole, f"{label}-part")
    await lab.until(ClusterRole, label, lambda r: not r.rules)
    await lab.client.delete(ClusterRole, label)


async def test_a_cron_job_starts_jobs_and_keeps_the_last_few(lab):
    pod = {"containers": [{"name": "main", "image": "work:1"}], "restartPolicy": "Never"}
    spec = {
        "schedule": "@every 1s",
        "successfulJobsHistoryLimit": 1,
        "jobTemplate": {"spec": {"template": {"spec": pod}}},
    }
    cj = await lab.create(CronJob, {"metadata": {"name": "tick"}, "spec": spec})
    (job,) = (await lab.eventually(lambda: lab.list(Job), "a Job"))[:1]
    assert job.metadata.owner_references[0].uid == cj.metadata.uid
    assert "batch.kubernetes.io/cronjob-scheduled-timestamp" in job.metadata.annotations
    await lab.until(CronJob, "tick", lambda c: c.status.last_schedule_time and c.status.last_successful_time)
    await lab.delete(CronJob, "tick", propagation="Background")

    async def none():
        return not await lab.list(Job)

    await lab.eventually(none, "its Jobs go with it")


async def test_a_quota_with_a_scope_counts_the_pods_in_the_scope(lab):
    for scope in ("BestEffort", "NotBestEffort"):
        spec = {"hard": {"pods": "5"}, "scopes": [scope]}
        await lab.create(ResourceQuota, {"metadata": {"name": scope.lower()}, "spec": spec})
    await lab.create(Pod, {"metadata": {"name": "modest"}, "spec": {"containers": [{"name": "a", "image": "a"}]}})
    await lab.until(ResourceQuota, "besteffort", lambda quota: str(quota.status.used.get("pods")) == "1")
    await lab.until(ResourceQuota, "notbesteffort", lambda quota: str(quota.status.used.get("pods")) == "0")


async def test_a_replication_controller_keeps_its_pods(lab):
    body = {"replicas": 2, "selector": LABELS, "template": template()}
    await lab.create(ReplicationController, {"metadata": {"name": "rc"}, "spec": body})
    await lab.until(ReplicationController, "rc", lambda r: r.status.ready_replicas == 2)
