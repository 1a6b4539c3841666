"""Deployments and ReplicaSets, from the user's side of the API server."""

from typing import Any

import pytest

from steersman.k8s import Deployment, Node, Pod, ReplicaSet
from steersman.models import MergePatch, get_condition

LABELS = {"app": "web"}


def template(image: str = "web:1", labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"labels": labels or LABELS},
        "spec": {"containers": [{"name": "main", "image": image}], **spec},
    }


def deployment(name: str = "web", replicas: int = 3, image: str = "web:1", **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": LABELS},
            "template": template(image),
            **spec,
        },
    }


def rolled_out(image: str | None = None):
    def check(d: Deployment) -> bool:
        s, n = d.status, d.spec.replicas
        current = image is None or d.spec.template.spec.containers[0].image == image
        done = (s.updated_replicas or 0) == (s.replicas or 0) == (s.available_replicas or 0) == n
        return current and done and s.observed_generation == d.metadata.generation

    return check


def image(pod: Pod) -> str:
    return pod.spec.containers[0].image or ""


async def test_a_deployment_brings_up_its_pods(lab):
    await lab.create(Deployment, deployment())
    d = await lab.until(Deployment, "web", rolled_out())
    (rs,) = await lab.list(ReplicaSet)
    pods = await lab.list(Pod)
    assert len(pods) == 3
    assert all(p.metadata.labels["pod-template-hash"] == rs.metadata.labels["pod-template-hash"] for p in pods)
    assert all(p.metadata.name.startswith(f"{rs.metadata.name}-") for p in pods)
    d = await lab.until(
        Deployment, "web", lambda d: get_condition(d.status.conditions, "Progressing").reason[:3] == "New"
    )
    available, progressing = (get_condition(d.status.conditions, t) for t in ("Available", "Progressing"))
    assert (available.status, available.reason) == ("True", "MinimumReplicasAvailable")
    assert progressing.message == f'ReplicaSet "{rs.metadata.name}" has successfully progressed.'
    assert d.metadata.annotations["deployment.kubernetes.io/revision"] == "1"


@pytest.mark.slow
async def test_a_new_template_rolls_out_and_an_old_one_rolls_back_to_its_replica_set(lab):
    await lab.create(Deployment, deployment(replicas=4))
    await lab.until(Deployment, "web", rolled_out())
    (first,) = await lab.list(ReplicaSet)
    await lab.patch(Deployment, "web", {"spec": {"template": template("web:2")}})
    await lab.until(Deployment, "web", rolled_out("web:2"))
    assert len(await lab.list(ReplicaSet)) == 2
    await lab.patch(Deployment, "web", {"spec": {"template": template("web:1")}})
    d = await lab.until(Deployment, "web", rolled_out("web:1"))
    back = await lab.until(ReplicaSet, first.metadata.name, lambda rs: rs.status.ready_replicas == 4)
    assert back.metadata.uid == first.metadata.uid
    assert back.metadata.annotations["deployment.kubernetes.io/revision"] == "3"
    assert back.metadata.annotations["deployment.kubernetes.io/revision-history"] == "1"
    assert d.metadata.annotations["deployment.kubernetes.io/revision"] == "3"


async def test_a_recreated_deployment_never_runs_two_templates(lab):
    await lab.create(Deployment, deployment(strategy={"type": "Recreate"}))
    await lab.until(Deployment, "web", rolled_out())
    await lab.patch(Deployment, "web", {"spec": {"template": template("web:2")}})
    seen: set[frozenset[str]] = set()

    async def look():
        seen.add(frozenset(map(image, await lab.list(Pod))))
        return rolled_out("web:2")(await lab.get(Deployment, "web"))

    await lab.eventually(look, "rolled out")
    assert frozenset({"web:1", "web:2"}) not in seen


async def test_a_paused_deployment_scales_but_does_not_roll_out(lab):
    await lab.create(Deployment, deployment(replicas=2))
    await lab.until(Deployment, "web", rolled_out())
    await lab.patch(Deployment, "web", {"spec": {"paused": True, "template": template("web:2"), "replicas": 3}})
    d = await lab.until(Deployment, "web", lambda d: d.status.available_replicas == 3)
    assert {image(p) for p in await lab.list(Pod)} == {"web:1"}
    condition = get_condition(d.status.conditions, "Progressing")
    assert (condition.status, condition.reason) == ("Unknown", "DeploymentPaused")
    await lab.patch(Deployment, "web", {"spec": {"paused": False}})
    await lab.until(Deployment, "web", rolled_out("web:2"))
    assert {image(p) for p in await lab.list(Pod)} == {"web:2"}


async def test_old_replica_sets_go_beyond_the_history_limit(lab):
    await lab.create(Deployment, deployment(replicas=1, revisionHistoryLimit=1))
    for n in range(2, 5):
        await lab.until(Deployment, "web", rolled_out(f"web:{n - 1}"))
        await lab.patch(Deployment, "web", {"spec": {"template": template(f"web:{n}")}})
    await lab.until(Deployment, "web", rolled_out("web:4"))

    async def two():
        sets = await lab.list(ReplicaSet)
        revisions = {rs.metadata.annotations["deployment.kubernetes.io/revision"] for rs in sets}
        return revisions == {"3", "4"}

    await lab.eventually(two, "only the newest two are left")


@pytest.mark.slow
async def test_a_rollout_that_does_not_move_exceeds_its_deadline(lab):
    body = deployment(replicas=1, progressDeadlineSeconds=1)
    body["spec"]["template"]["spec"]["nodeSelector"] = {"no": "where"}
    await lab.create(Deployment, body)
    d = await lab.until(
        Deployment, "web", lambda d: (c := get_condition(d.status.conditions, "Progressing")) and c.status == "False"
    )
    condition = get_condition(d.status.conditions, "Progressing")
    assert condition.reason == "ProgressDeadlineExceeded"
    assert condition.message.endswith("has timed out progressing.")
    assert get_condition(d.status.conditions, "Available").reason == "MinimumReplicasUnavailable"


async def test_a_replica_set_replaces_a_deleted_pod_and_gives_up_surplus(lab):
    spec = {"replicas": 3, "selector": {"matchLabels": LABELS}, "template": template()}
    await lab.create(ReplicaSet, {"metadata": {"name": "rs"}, "spec": spec})
    await lab.until(ReplicaSet, "rs", lambda rs: rs.status.ready_replicas == 3)
    victim = (await lab.list(Pod))[0].metadata.name
    await lab.delete(Pod, victim)
    await lab.eventually(lambda: _names(lab, 3, without=victim), "three others")
    await lab.patch(ReplicaSet, "rs", {"spec": {"replicas": 1}})
    await lab.eventually(lambda: _names(lab, 1), "one left")
    await lab.until(ReplicaSet, "rs", lambda rs: rs.status.replicas == 1)


async def _names(lab, count: int, without: str = "") -> bool:
    names = [p.metadata.name for p in await lab.list(Pod) if p.metadata.deletion_timestamp is None]
    return len(names) == count and without not in names


async def test_a_replica_set_adopts_what_matches_and_releases_what_does_not(lab):
    stray = await lab.create(Pod, {**template(), "metadata": {"name": "stray", "labels": LABELS}})
    spec = {"replicas": 2, "selector": {"matchLabels": LABELS}, "template": template()}
    rs = await lab.create(ReplicaSet, {"metadata": {"name": "rs"}, "spec": spec})
    adopted = await lab.until(Pod, "stray", lambda p: p.metadata.owner_references)
    assert adopted.metadata.uid == stray.metadata.uid
    assert adopted.metadata.owner_references[0].uid == rs.metadata.uid
    await lab.until(ReplicaSet, "rs", lambda rs: rs.status.replicas == 2)
    await lab.eventually(lambda: _names(lab, 2), "no more Pods than asked for")
    await lab.patch(Pod, "stray", {"metadata": {"labels": {"app": "other"}}})
    await lab.until(Pod, "stray", lambda p: not p.metadata.owner_references)
    await lab.eventually(lambda: _names(lab, 3), "another Pod in its place")


async def test_a_pod_goes_where_it_prefers_to_be(lab):
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["node-2"]}]}
    preferred = [{"weight": 5, "preference": term}]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    for name in ("one", "two", "three"):
        spec = {**template()["spec"], "affinity": affinity}
        await lab.create(Pod, {"metadata": {"name": name}, "spec": spec})
        await lab.until(Pod, name, lambda p: p.spec.node_name == "node-2")


async def test_a_pod_that_fits_nowhere_says_why_and_is_bound_when_it_fits(lab):
    pod = {"metadata": {"name": "picky"}, "spec": {**template()["spec"], "nodeSelector": {"disk": "fast"}}}
    await lab.create(Pod, pod)
    waiting = await lab.until(Pod, "picky", lambda p: get_condition(p.status.conditions, "PodScheduled"))
    condition = get_condition(waiting.status.conditions, "PodScheduled")
    assert (condition.status, condition.reason) == ("False", "Unschedulable")
    assert condition.message.startswith("0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector.")
    await lab.client.patch(Node, "node-2", MergePatch({"metadata": {"labels": {"disk": "fast"}}}))
    try:
        await lab.until(Pod, "picky", lambda p: p.spec.node_name == "node-2")
    finally:
        await lab.client.patch(Node, "node-2", MergePatch({"metadata": {"labels": {"disk": None}}}))
