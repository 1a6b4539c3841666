"""StatefulSets and DaemonSets: identities, order, volumes, one Pod a node."""

from steersman.k8s import ControllerRevision, DaemonSet, PersistentVolumeClaim, Pod, StatefulSet

from .test_deployments import LABELS, image, template


def stateful(replicas=3, **spec):
    return {
        "metadata": {"name": "db"},
        "spec": {
            "replicas": replicas,
            "serviceName": "db",
            "selector": {"matchLabels": LABELS},
            "template": template(),
            **spec,
        },
    }


CLAIM = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}


def ready(count):
    return lambda s: s.status.ready_replicas == count and s.status.observed_generation == s.metadata.generation


async def names(lab, kind):
    return [o.metadata.name for o in await lab.list(kind) if o.metadata.deletion_timestamp is None]


async def test_a_stateful_set_makes_its_pods_in_order_with_names_and_claims(lab):
    await lab.create(StatefulSet, stateful(volumeClaimTemplates=[CLAIM]))
    s = await lab.until(StatefulSet, "db", ready(3))
    pods = await lab.list(Pod)
    assert [p.metadata.name for p in pods] == ["db-0", "db-1", "db-2"]
    assert [p.spec.hostname for p in pods] == ["db-0", "db-1", "db-2"]
    created = [int(p.metadata.resource_version) for p in pods]
    assert await names(lab, PersistentVolumeClaim) == ["data-db-0", "data-db-1", "data-db-2"]
    assert pods[1].spec.volumes[0].persistent_volume_claim.claim_name == "data-db-1"
    assert pods[0].metadata.labels["apps.kubernetes.io/pod-index"] == "0"
    assert s.status.current_revision == s.status.update_revision
    assert created == sorted(created)


async def test_a_stateful_set_updates_from_the_last_pod_down_to_its_partition(lab):
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
    await lab.create(StatefulSet, stateful(updateStrategy=strategy))
    await lab.until(StatefulSet, "db", ready(3))
    await lab.patch(StatefulSet, "db", {"spec": {"template": template("web:2")}})
    await lab.until(StatefulSet, "db", lambda s: s.status.updated_replicas == 2 and s.status.ready_replicas == 3)
    assert [image(p) for p in await lab.list(Pod)] == ["web:1", "web:2", "web:2"]
    s = await lab.get(StatefulSet, "db")
    assert s.status.current_revision != s.status.update_revision
    await lab.patch(StatefulSet, "db", {"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}})
    s = await lab.until(StatefulSet, "db", lambda s: s.status.current_revision == s.status.update_revision)
    assert [image(p) for p in await lab.list(Pod)] == ["web:2"] * 3
    assert len(await lab.list(ControllerRevision)) == 2


async def test_claims_go_with_what_the_retention_policy_says(lab):
    policy = {"whenScaled": "Delete", "whenDeleted": "Delete"}
    body = stateful(2, volumeClaimTemplates=[CLAIM], persistentVolumeClaimRetentionPolicy=policy)
    await lab.create(StatefulSet, body)
    await lab.until(StatefulSet, "db", ready(2))
    await lab.patch(StatefulSet, "db", {"spec": {"replicas": 1}})

    async def one():
        return await names(lab, PersistentVolumeClaim) == ["data-db-0"] and await names(lab, Pod) == ["db-0"]

    await lab.eventually(one, "the second claim is gone")
    await lab.delete(StatefulSet, "db")

    async def none():
        return not await names(lab, PersistentVolumeClaim)

    await lab.eventually(none, "no claim is left")


async def test_a_parallel_stateful_set_does_not_wait(lab):
    body = stateful(podManagementPolicy="Parallel")
    body["spec"]["template"]["spec"]["nodeSelector"] = {"no": "where"}
    await lab.create(StatefulSet, body)

    async def three():
        return await names(lab, Pod) == ["db-0", "db-1", "db-2"]

    await lab.eventually(three, "all three at once")


async def test_a_stateful_set_updated_on_delete_waits_for_the_user(lab):
    await lab.create(StatefulSet, stateful(1, updateStrategy={"type": "OnDelete"}))
    await lab.until(StatefulSet, "db", ready(1))
    await lab.patch(StatefulSet, "db", {"spec": {"template": template("web:2")}})
    await lab.until(StatefulSet, "db", lambda s: s.status.update_revision != s.status.current_revision)
    assert [image(p) for p in await lab.list(Pod)] == ["web:1"]
    await lab.delete(Pod, "db-0")
    await lab.until(Pod, "db-0", lambda p: image(p) == "web:2")


def daemon(**spec):
    body = {"selector": {"matchLabels": LABELS}, "template": template(), **spec}
    return {"metadata": {"name": "agent"}, "spec": body}


async def test_a_daemon_set_runs_once_on_every_node(lab):
    await lab.create(DaemonSet, daemon())
    ds = await lab.until(DaemonSet, "agent", lambda d: d.status.number_available == 2)
    assert sorted(p.spec.node_name for p in await lab.list(Pod)) == ["node-1", "node-2"]
    s = ds.status
    assert (s.desired_number_scheduled, s.current_number_scheduled, s.number_ready) == (2, 2, 2)
    assert s.updated_number_scheduled == 2


async def test_a_daemon_set_is_updated_node_by_node(lab):
    await lab.create(DaemonSet, daemon())
    await lab.until(DaemonSet, "agent", lambda d: d.status.number_available == 2)
    await lab.patch(DaemonSet, "agent", {"spec": {"template": template("web:2")}})

    async def new():
        pods = [p for p in await lab.list(Pod) if p.metadata.deletion_timestamp is None]
        d = await lab.get(DaemonSet, "agent")
        return [image(p) for p in pods] == ["web:2"] * 2 and d.status.number_available == 2

    await lab.eventually(new, "both are new")


async def test_a_daemon_set_keeps_off_nodes_that_do_not_match(lab):
    body = daemon()
    body["spec"]["template"]["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "node-2"}
    await lab.create(DaemonSet, body)
    await lab.until(DaemonSet, "agent", lambda d: d.status.number_ready == d.status.desired_number_scheduled == 1)
    assert [p.spec.node_name for p in await lab.list(Pod)] == ["node-2"]
