"""In-place resizes: the decisions of a node, the state machine, and containers whose limits change while they run."""

import json
from typing import Any

import pytest

from steersman.models import Quantity
from steersman_cluster.nodes.pod_events import NotResized, Report, Resize, Resized, Start, Stop, Sync
from steersman_cluster.nodes.pod_lifecycle import begin
from steersman_cluster.nodes.pod_state import PodState, Refusal
from steersman_cluster.nodes.resizes import changed_resources, needs_restart, refusal_of
from tests.cluster.nodes.test_containers import ROOT, Place, mode, place
from tests.cluster.nodes.test_pod_lifecycle import Node

__all__ = ["mode", "place"]


def sized(name: str = "c", *, restart: str = "", **requests: str) -> dict[str, Any]:
    container: dict[str, Any] = {"name": name, "image": "i", "resources": {"requests": requests, "limits": requests}}
    if restart:
        container["resizePolicy"] = [{"resourceName": restart, "restartPolicy": "RestartContainer"}]
    return container


def pod(*containers: dict[str, Any], generation: int = 1, **spec: Any) -> dict[str, Any]:
    metadata = {"name": "p", "namespace": "d", "uid": "u", "generation": generation}
    return {"metadata": metadata, "spec": {"containers": list(containers), **spec}}


def held(*containers: dict[str, Any]) -> PodState:
    return begin(pod(*containers), 0.0, adopt=False)


def types(node: Node) -> set[str]:
    return {c["type"] for c in node.status["conditions"] if c["type"].startswith("PodResize")}


def reasons(node: Node) -> list[str]:
    return [report.reason for report in node.done(Report) if "esize" in report.reason]


def test_amounts_that_are_written_differently_are_no_change() -> None:
    before = {"requests": {"cpu": "500m", "memory": "1Gi"}}
    assert changed_resources(before, {"requests": {"cpu": "0.5", "memory": "1024Mi"}}) == frozenset()
    assert changed_resources(before, {"requests": {"cpu": "1", "memory": "1Gi"}}) == {"cpu"}
    assert changed_resources(before, {**before, "limits": {"memory": "2Gi"}}) == {"memory"}


def test_only_the_resources_that_a_policy_names_restart_their_container() -> None:
    container = sized(restart="memory", cpu="1")
    assert needs_restart(container, {"memory"})
    assert not needs_restart(container, {"cpu"})
    assert not needs_restart(sized(cpu="1"), {"cpu", "memory"})


def test_a_node_that_is_too_small_makes_a_resize_infeasible() -> None:
    refusal = refusal_of(pod(sized(cpu="3")), held(sized(cpu="1")), [], {"cpu": "2", "memory": "1Gi"})
    assert refusal == Refusal("Infeasible", "Node didn't have enough capacity: cpu, requested: 3000, capacity: 2000")


def test_other_pods_defer_a_resize_until_they_end() -> None:
    others = [held(sized(cpu="500m", memory="700Mi"))]
    wanted, allocatable = pod(sized(cpu="1", memory="512Mi")), {"cpu": "2", "memory": "1Gi"}
    before = held(sized(cpu="1", memory="256Mi"))
    refusal = refusal_of(wanted, before, others, allocatable)
    assert refusal is not None
    used, capacity = 700 << 20, 1 << 30
    text = f"memory, requested: {512 << 20}, used: {used}, capacity: {capacity}"
    assert refusal == Refusal("Deferred", f"Node didn't have enough resource: {text}")
    assert refusal_of(wanted, before, [], allocatable) is None


def test_a_resize_that_shrinks_fits_also_on_a_node_that_is_full() -> None:
    others = [held(sized(cpu="2"))]
    assert refusal_of(pod(sized(cpu="500m")), held(sized(cpu="1")), others, {"cpu": "2"}) is None


def test_a_running_container_is_resized_in_place() -> None:
    node = Node(pod(sized(cpu="1"))).ready().run()
    assert node.state()["resources"] == sized(cpu="1")["resources"]
    node.take(Sync(pod(sized(cpu="2"), generation=2)))
    assert node.done(Resize) == [Resize("c", 1, sized(cpu="2")["resources"])]
    assert types(node) == {"PodResizeInProgress"}
    assert node.state()["allocatedResources"] == {"cpu": "2"}
    assert node.state()["resources"] == sized(cpu="1")["resources"]
    node.take(Resized("c", 1, sized(cpu="2")["resources"]))
    assert node.state()["resources"] == sized(cpu="2")["resources"]
    assert types(node) == set()
    assert not node.done(Stop)
    assert reasons(node) == ["ResizeStarted", "ResizeCompleted"]


def test_a_container_restarts_for_a_resize_where_its_policy_says_so() -> None:
    node = Node(pod(sized(restart="cpu", cpu="1"), restartPolicy="OnFailure")).ready().run()
    node.done(Start)
    node.take(Sync(pod(sized(restart="cpu", cpu="2"), generation=2, restartPolicy="OnFailure")))
    assert not node.done(Resize)
    assert [stop.container for stop in node.done(Stop)] == ["c"]
    node.exits(0)
    assert node.done(Start) == [Start("c", 2)]
    assert types(node) == {"PodResizeInProgress"}
    node.run()
    assert types(node) == set()
    assert node.state()["restartCount"] == 1
    assert node.state()["resources"] == sized(cpu="2")["resources"]


def test_a_refused_resize_leaves_the_allocated_resources_and_says_why() -> None:
    node = Node(pod(sized(cpu="1"))).ready().run()
    refusal = Refusal("Deferred", "too little")
    for _ in range(2):
        node.take(Sync(pod(sized(cpu="2"), generation=2), refusal))
    condition = node.condition("PodResizePending")
    assert (condition["status"], condition["reason"], condition["message"]) == ("True", "Deferred", "too little")
    assert node.state()["allocatedResources"] == {"cpu": "1"}
    assert not node.done(Resize)
    assert reasons(node) == ["ResizeDeferred"]
    node.take(Sync(pod(sized(cpu="2"), generation=2)))
    assert types(node) == {"PodResizeInProgress"}
    assert len(node.done(Resize)) == 1


def test_a_resize_that_fails_shows_its_error_and_is_tried_again() -> None:
    node = Node(pod(sized(cpu="1"))).ready().run()
    node.take(Sync(pod(sized(cpu="2"), generation=2)))
    node.done(Resize)
    node.take(NotResized("c", 1, "below current usage"))
    condition = node.condition("PodResizeInProgress")
    assert (condition["reason"], condition["message"]) == ("Error", "below current usage")
    assert not node.done(Resize)
    node.after(5)
    assert len(node.done(Resize)) == 1
    node.take(NotResized("c", 1, "below current usage"))
    assert reasons(node) == ["ResizeStarted", "ResizeError"]
    node.after(5).take(Resized("c", 1, sized(cpu="2")["resources"]))
    assert types(node) == set()


def test_a_change_during_a_resize_is_made_after_it() -> None:
    node = Node(pod(sized(cpu="1"))).ready().run()
    node.take(Sync(pod(sized(cpu="2"), generation=2)))
    node.take(Sync(pod(sized(cpu="3"), generation=3)))
    assert len(node.done(Resize)) == 1
    node.take(Resized("c", 1, sized(cpu="2")["resources"]))
    assert node.done(Resize) == [Resize("c", 1, sized(cpu="3")["resources"])]
    assert types(node) == {"PodResizeInProgress"}


def test_a_container_that_waits_starts_with_its_new_resources() -> None:
    node = Node(pod(sized(cpu="1"))).ready().run().exits(1)
    node.run().exits(1)
    node.take(Sync(pod(sized(cpu="2"), generation=2)))
    assert not node.done(Resize)
    assert types(node) == set()
    assert node.state()["resources"] == sized(cpu="2")["resources"]


async def resize(place: Place, name: str, *containers: dict[str, Any]) -> None:
    body = json.dumps({"spec": {"containers": list(containers)}}).encode()
    path = f"/api/v1/namespaces/default/pods/{name}/resize"
    kind = "application/strategic-merge-patch+json"
    await place.client.raw.request("PATCH", path, body=body, content_type=kind)


def amounts(**amounts: str) -> dict[str, Any]:
    return {"resources": {"requests": amounts, "limits": amounts}}


@ROOT
@pytest.mark.parametrize("mode", ["namespaces"], indirect=True)
async def test_the_limits_of_a_running_container_change_without_a_restart(place: Place) -> None:
    if not place.limits:
        pytest.skip("this process may not make control groups")
    before, after = amounts(cpu="100m", memory="64Mi"), amounts(cpu="200m", memory="96Mi")
    await place.pod("p", {"command": ["/bin/sleep", "1000"], **before})
    status = await place.until("p", lambda s: s.get("phase") == "Running")
    assert status["containerStatuses"][0]["resources"] == before["resources"]
    script = "cat /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null || cat /sys/fs/cgroup/memory.max"
    assert await place.run("p", "/bin/sh", "-c", script) == (0, f"{64 << 20}\n")
    await resize(place, "p", {"name": "c", **after})
    status = await place.until("p", lambda s: s["containerStatuses"][0]["resources"] == after["resources"])
    assert await place.run("p", "/bin/sh", "-c", script) == (0, f"{96 << 20}\n")
    assert status["containerStatuses"][0]["restartCount"] == 0
    assert status["containerStatuses"][0]["allocatedResources"] == after["resources"]["requests"]
    settled = await place.until("p", lambda s: not any("PodResize" in c["type"] for c in s["conditions"]))
    assert settled["observedGeneration"] == 2


@pytest.mark.parametrize("mode", ["plain"], indirect=True)
async def test_a_deferred_resize_happens_when_another_pod_makes_room(place: Place) -> None:
    capacity = place.node.agent.registrations["node-1"].info.capacity
    half, more = amounts(memory=f"{_mebibytes(capacity) // 2}Mi"), amounts(memory=f"{_mebibytes(capacity) * 3 // 4}Mi")
    for name in ("p", "other"):
        await place.pod(name, {"command": ["/bin/sleep", "1000"], **half})
        await place.until(name, lambda s: s.get("phase") == "Running")
    await resize(place, "p", {"name": "c", **more})
    pending = await place.until("p", lambda s: any(c["type"] == "PodResizePending" for c in s["conditions"]))
    (condition,) = (c for c in pending["conditions"] if c["type"] == "PodResizePending")
    assert condition["reason"] == "Deferred"
    assert pending["containerStatuses"][0]["allocatedResources"] == half["resources"]["requests"]
    await place.send("DELETE", "/api/v1/namespaces/default/pods/other")
    status = await place.until("p", lambda s: s["containerStatuses"][0]["resources"] == more["resources"])
    await place.until("p", lambda s: not any("PodResize" in c["type"] for c in s["conditions"]))
    assert status["containerStatuses"][0]["restartCount"] == 0


def _mebibytes(capacity: Any) -> int:
    return int(Quantity(str(capacity["memory"])).as_fraction()) >> 20
