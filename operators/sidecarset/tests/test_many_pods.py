"""Many Pods and overlapping SidecarSets: order, counts, and roll-outs while Pods fail and vanish.

`STEERSMAN_SIDECARSET_PODS` says how many Pods; 1000 is what the operator is made for.
"""

import os
import random

import pytest
from steersman.testing import eventually

from .support import container, images, names, pod, recorded, sidecarset

COUNT = int(os.environ.get("STEERSMAN_SIDECARSET_PODS", "30"))
SETS = ("crowd-a", "crowd-b", "crowd-c")


def is_ready(pod):
    conditions = pod.get("status", {}).get("conditions", ())
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def overlapping(**strategy):
    return [
        sidecarset(name, container(f"{name}-2", "busybox:1.35"), container(f"{name}-1"), updateStrategy=strategy)
        for name in reversed(SETS)
    ]


@pytest.mark.slow
def test_overlapping_sets_are_injected_once_in_order_and_counted_exactly(scenario, running):
    scenario.make(*overlapping())
    made = scenario.create(*(pod(f"p{n:04}") for n in range(COUNT)))
    wanted = ["main", *(f"{name}-{n}" for name in SETS for n in (2, 1))]
    assert all(names(each) == wanted for each in made)
    assert all(sorted(recorded(each)) == list(SETS) for each in made)
    for name in SETS:
        scenario.counts(name, COUNT, COUNT, COUNT)
    for each in made[::2]:
        scenario.cluster.delete("pod", each["metadata"]["name"])
    left = COUNT - len(made[::2])
    for name in SETS:
        scenario.counts(name, left, left, left)


@pytest.mark.slow
def test_a_roll_out_keeps_its_bounds_while_pods_fail_and_vanish(scenario, running):
    most, partition = max(2, COUNT // 20), COUNT // 10
    scenario.make(*overlapping(maxUnavailable=most, partition=partition))
    scenario.create(*(pod(f"p{n:04}") for n in range(COUNT)))
    name, changed = SETS[1], f"{SETS[1]}-2"
    scenario.counts(name, COUNT, COUNT, COUNT)
    chance = random.Random(5)
    alive = {f"p{n:04}" for n in range(COUNT)}
    failed = set()
    scenario.change(name, containers=[container(changed, "busybox:1.36"), container(f"{name}-1")])
    broken_bounds = []

    def over():
        for _ in range(min(len(alive) - COUNT * 3 // 4, 1 + COUNT // 100)):
            gone = chance.choice(sorted(alive - failed))
            alive.discard(gone)
            scenario.cluster.delete("pod", gone)
        if len(failed) < 2:
            broken = chance.choice(sorted(alive - failed))
            failed.add(broken)
            set_ready(scenario, broken, False)
        pods = scenario.pods()
        new = sum(images(p)[changed] == "busybox:1.36" for p in pods)
        down = {p["metadata"]["name"] for p in pods if not is_ready(p)}
        if len(pods) - new < partition or len(down - failed) > most:
            broken_bounds.append(f"{len(pods)} Pods, {new} of them new, {sorted(down - failed)} down")
        status = scenario.cluster.get("sidecarset", name)["status"]
        done = len(pods) - new == partition and status["updatedPods"] == new and len(pods) == len(alive)
        return done and len(alive) <= COUNT * 3 // 4

    eventually(over, within=240, what="all but those that partition keeps have the new image")
    assert broken_bounds == []
    for each in failed & {p["metadata"]["name"] for p in scenario.pods()}:
        set_ready(scenario, each, True)
    left = len(alive)
    scenario.change(name, updateStrategy={"partition": 0})
    scenario.counts(name, left, left, left)
    assert {images(p)[changed] for p in scenario.pods()} == {"busybox:1.36"}
    for other in (SETS[0], SETS[2]):
        scenario.counts(other, left, left, left)


def set_ready(scenario, name, value):
    """What a kubelet, or the controller of nodes, says of a Pod."""
    path = f"/api/v1/namespaces/{scenario.cluster.namespace}/pods/{name}/status"
    condition = {"type": "Ready", "status": str(value), "lastTransitionTime": "2024-01-01T00:00:00Z"}
    with scenario.cluster.session() as api:
        api.call(
            "PATCH",
            path,
            {"status": {"conditions": [condition]}},
            content_type="application/strategic-merge-patch+json",
        )
