"""Simulated nodes under a real control plane, and under the embedded one on virtual time."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from steersman.client import Client
from steersman_cluster import nodes
from steersman_cluster.errors import APIError
from steersman_cluster.kubelet import LogOptions
from steersman_cluster.nodes.behaviour import PREFIX, seconds

from .conftest import Api
from .test_process import ready, until, waits

C = {"name": "c", "image": "app:1"}


@pytest.fixture
async def node(api: Api) -> AsyncIterator[nodes.SimulatedNode]:
    name = f"{api.namespace}-node"
    async with await nodes.start(api.client, names=(name,), defaults=nodes.Defaults(ready_after=0.01)) as handles:
        yield handles[name]
    await api.client.raw.request("DELETE", f"/api/v1/nodes/{name}")


async def pod_until(api: Api, name: str, holds: Callable[[Any], Any]) -> Any:
    read: Callable[[], Awaitable[Any]] = lambda: api.get("pods", name)  # noqa: E731
    return await until(read, lambda pod: pod is not None and holds(pod["status"]))


async def test_a_node_registers_ready_and_keeps_a_lease(api: Api, node: nodes.SimulatedNode) -> None:
    found = await api.send("GET", f"/api/v1/nodes/{node.name}")
    assert {c["type"]: c["status"] for c in found["status"]["conditions"]}["Ready"] == "True"
    path = f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{node.name}"
    assert (await api.send("GET", path))["spec"]["holderIdentity"] == node.name


async def test_pods_become_ready_and_go_when_deleted(api: Api, node: nodes.SimulatedNode) -> None:
    await api.pod("a", node.name, C)
    pod = await pod_until(api, "a", ready)
    status = pod["status"]
    assert status["phase"] == "Running"
    assert all(status[name] for name in ("podIP", "hostIP", "startTime"))
    assert status["containerStatuses"][0]["started"] is True
    await api.send("DELETE", api.path("pods", "a"))
    await until(lambda: api.get("pods", "a"), lambda found: found is None)


@pytest.mark.parametrize(
    ("annotations", "policy", "holds"),
    [
        ({}, "Never", lambda s: s["phase"] == "Succeeded"),
        ({"exit-code": "3"}, "Never", lambda s: s["phase"] == "Failed"),
        ({"fail": "broken"}, "Never", lambda s: s["phase"] == "Failed" and "broken" in str(s)),
        ({"crash-loop": "true"}, "Always", waits("CrashLoopBackOff")),
        ({"image-pull-error": "gone"}, "Always", waits("ImagePullBackOff")),
        ({"never-ready": "true"}, "Always", lambda s: s["phase"] == "Running" and not ready(s)),
        ({"start-error.c": "no"}, "Always", lambda s: "StartError" in str(s)),
        ({"exit-after.other": "0"}, "Always", ready),
    ],
)
async def test_annotations_say_what_a_pod_does(
    api: Api, node: nodes.SimulatedNode, annotations: dict[str, str], policy: str, holds: Callable[[Any], Any]
) -> None:
    asked = {PREFIX + name: value for name, value in annotations.items()}
    await api.pod("a", node.name, C, annotations=asked, restartPolicy=policy)
    await pod_until(api, "a", holds)


async def test_an_annotation_that_goes_takes_its_effect_along(api: Api, node: nodes.SimulatedNode) -> None:
    await api.pod("a", node.name, C, annotations={PREFIX + "never-ready": "true"})
    await pod_until(api, "a", lambda s: s.get("phase") == "Running")
    await api.merge("pods", "a", {"metadata": {"annotations": {PREFIX + "never-ready": None}}})
    await pod_until(api, "a", ready)


async def test_a_test_may_fail_evict_and_unready_pods(api: Api, node: nodes.SimulatedNode) -> None:
    for name in ("a", "b"):
        await api.pod(name, node.name, C)
        await pod_until(api, name, ready)
    node.set_ready(api.namespace, "a", ready=False)
    await pod_until(api, "a", lambda s: not ready(s))
    node.fail_pod(api.namespace, "a", exit_code=9, message="by hand")
    pod = await pod_until(api, "a", lambda s: s["containerStatuses"][0]["restartCount"] == 1)
    assert pod["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 9
    node.evict(api.namespace, "b")
    await pod_until(api, "b", lambda s: (s["phase"], s.get("reason")) == ("Failed", "Evicted"))
    with pytest.raises(KeyError):
        node.evict(api.namespace, "nobody")


async def test_a_lost_node_is_silent_and_catches_up(api: Api, node: nodes.SimulatedNode) -> None:
    await node.lose()
    await api.pod("late", node.name, C)
    found = await api.send("GET", f"/api/v1/nodes/{node.name}")
    assert {c["type"]: c["status"] for c in found["status"]["conditions"]}["Ready"] == "Unknown"
    assert (await api.get("pods", "late"))["status"]["phase"] == "Pending"
    await node.recover()
    await pod_until(api, "late", ready)


async def test_logs_and_commands_are_canned(api: Api, node: nodes.SimulatedNode) -> None:
    await api.pod("a", node.name, C, annotations={PREFIX + "logs": "one\ntwo"})
    await pod_until(api, "a", ready)
    chunks = [c async for c in node.kubelet.logs(api.namespace, "a", "", LogOptions(tail_lines=1))]
    assert b"".join(chunks) == b"two\n"
    session = await node.kubelet.exec(api.namespace, "a", "", ["sh", "-c", "exit 4"], stdin=False, tty=False)
    assert await session.wait() == 4
    with pytest.raises(APIError, match="not found"):
        await node.kubelet.exec(api.namespace, "nobody", "", ["true"], stdin=False, tty=False)


async def test_usage_is_what_was_set_else_what_is_requested(api: Api, node: nodes.SimulatedNode) -> None:
    await api.pod("a", node.name, {**C, "resources": {"requests": {"cpu": "100m"}}})
    await pod_until(api, "a", ready)
    assert node.usage(api.namespace, "a")["c"]["cpu"] == "100m"
    node.set_usage(api.namespace, "a", cpu="900m")
    assert node.usage(api.namespace, "a")["c"]["cpu"] == "900m"


async def test_a_restarted_node_leaves_running_pods_alone(api: Api) -> None:
    name = f"{api.namespace}-again"
    async with await nodes.start(api.client, names=(name,)):
        await api.pod("a", name, C)
        before = await pod_until(api, "a", ready)
    async with Client(api.client.config) as client, await nodes.start(client, names=(name,)):
        await api.pod("b", name, C)
        await pod_until(api, "b", ready)
    after = await api.get("pods", "a")
    assert after["status"]["containerStatuses"] == before["status"]["containerStatuses"]


@pytest.mark.parametrize(
    ("text", "value"),
    [("2", 2.0), ("0.5", 0.5), ("500ms", 0.5), ("1m30s", 90.0), ("x", None), ("-1", None), ("1y", None)],
)
def test_times_are_seconds_or_durations(text: str, value: float | None) -> None:
    assert seconds(text) == value
