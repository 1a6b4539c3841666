"""metrics.k8s.io: what Pods use, measured on process nodes and annotated on simulated ones, as clients read it."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest

from steersman.client import Client, MethodNotAllowed, NotFound
from steersman.k8s import Deployment, HorizontalPodAutoscaler, Pod
from steersman.models import Quantity
from steersman.testing import Cluster, ControlPlane, EmbeddedCluster
from steersman_cluster.cli.host import ready
from steersman_cluster.cluster import DevCluster, Options
from steersman_cluster.nodes.behaviour import PREFIX
from steersman_cluster.nodes.process.images import HOST_IMAGE
from steersman_cluster.nodes.process.meter import Meter

METRICS = "/apis/metrics.k8s.io/v1beta1"
PODS = f"{METRICS}/namespaces/default/pods"
USES = {PREFIX + "cpu": "250m", PREFIX + "memory": "64Mi"}


@pytest.fixture
async def cluster() -> AsyncIterator[DevCluster]:
    async with DevCluster.start(Options(ready_after=0.0)) as started:
        await ready(started)
        yield started


async def until(holds: Callable[[], Awaitable[bool]], within: float = 90.0) -> None:
    async with asyncio.timeout(within):
        while not await holds():  # noqa: ASYNC110 - the API has no event for it
            await asyncio.sleep(0.02)


async def ask(client: Client, path: str, **query: str) -> dict[str, Any]:
    return json.loads((await client.raw.request("GET", path, query=tuple(query.items()))).body)


async def run(client: Client, name: str, *, annotations: dict[str, str] | None = None, **container: Any) -> None:
    """Create a Pod and wait until it runs."""
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": name}, "annotations": annotations or {}},
        "spec": {"containers": [{"name": "main", "image": HOST_IMAGE, **container}]},
    }
    await client.raw.request("POST", "/api/v1/namespaces/default/pods", body=json.dumps(body).encode())

    async def runs() -> bool:
        return (await client.get(Pod, name, namespace="default")).status.phase == "Running"

    await until(runs)


async def test_a_simulated_pod_uses_what_its_annotations_say(cluster: DevCluster) -> None:
    async with cluster.client() as client:
        await run(client, "told", annotations=USES)
        await run(client, "silent")
        found = await ask(client, PODS)
        assert (found["kind"], found["apiVersion"]) == ("PodMetricsList", "metrics.k8s.io/v1beta1")
        (pod,) = found["items"]
        assert pod["metadata"]["name"] == "told"
        assert pod["metadata"]["labels"] == {"app": "told"}
        assert pod["containers"] == [{"name": "main", "usage": {"cpu": "250m", "memory": "64Mi"}}]
        assert pod["window"] == "15s"
        assert "kind" not in pod
        one = await ask(client, f"{PODS}/told")
        assert (one["kind"], one["containers"]) == ("PodMetrics", pod["containers"])
        node = await ask(client, f"{METRICS}/nodes/node-1")
        assert node["usage"] == {"cpu": "250m", "memory": "64Mi"}
        assert node["metadata"]["labels"]["kubernetes.io/hostname"] == "node-1"


async def test_annotations_take_effect_at_once_and_speak_of_single_containers(cluster: DevCluster) -> None:
    async with cluster.client() as client:
        await run(client, "told", annotations=USES | {PREFIX + "cpu.main": "1"})
        assert (await ask(client, f"{PODS}/told"))["containers"][0]["usage"] == {"cpu": "1", "memory": "64Mi"}
        changed = {"metadata": {"annotations": {PREFIX + "cpu.main": "no quantity", PREFIX + "memory": None}}}
        await client.raw.request(
            "PATCH",
            "/api/v1/namespaces/default/pods/told",
            body=json.dumps(changed).encode(),
            content_type="application/merge-patch+json",
        )

        async def is_read() -> bool:
            return (await ask(client, f"{PODS}/told"))["containers"][0]["usage"] == {"cpu": "250m", "memory": "0"}

        await until(is_read)


async def test_metrics_are_selected_by_labels_and_namespace_and_never_written(cluster: DevCluster) -> None:
    async with cluster.client() as client:
        await run(client, "a", annotations=USES)
        await run(client, "b", annotations=USES)

        async def names(path: str, **query: str) -> list[str]:
            return [item["metadata"]["name"] for item in (await ask(client, path, **query))["items"]]

        assert await names(PODS, labelSelector="app=b") == ["b"]
        assert await names(PODS, fieldSelector="metadata.name=a") == ["a"]
        assert await names(f"{METRICS}/pods") == ["a", "b"]
        assert await names(f"{METRICS}/namespaces/kube-system/pods") == []
        with pytest.raises(NotFound, match=r'podmetrics\.metrics\.k8s\.io "default/c" not found'):
            await ask(client, f"{PODS}/c")
        with pytest.raises(NotFound, match=r'nodemetrics\.metrics\.k8s\.io "nowhere" not found'):
            await ask(client, f"{METRICS}/nodes/nowhere")
        for path, query in ((f"{PODS}/a", {}), (PODS, {"watch": "true"})):
            with pytest.raises(MethodNotAllowed):
                await client.raw.request("GET" if query else "DELETE", path, query=tuple(query.items()))


async def test_the_api_is_discovered_and_readers_of_a_namespace_may_read_it(cluster: DevCluster) -> None:
    async with cluster.client() as client:
        assert {r.name: r.kind for r in await client.discover("metrics.k8s.io/v1beta1")} == {
            "nodes": "NodeMetrics",
            "pods": "PodMetrics",
        }
        service = await ask(client, "/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.metrics.k8s.io")
        assert service["status"]["conditions"][0]["status"] == "True"

        async def is_aggregated() -> bool:
            role = await ask(client, "/apis/rbac.authorization.k8s.io/v1/clusterroles/view")
            return any("metrics.k8s.io" in rule["apiGroups"] for rule in role["rules"])

        await until(is_aggregated)
        documents = (await ask(client, "/openapi/v3"))["paths"]
        assert "apis/apps/v1" in documents


async def test_without_nodes_there_is_no_metrics_api() -> None:
    async with DevCluster.start(Options(nodes=0, controllers=False)) as bare, bare.client() as client:
        with pytest.raises(NotFound):
            await ask(client, f"{METRICS}/nodes")


@pytest.mark.slow
async def test_an_autoscaler_follows_the_annotated_use_of_pods(cluster: DevCluster) -> None:
    labels = {"app": "web"}
    template = {
        "metadata": {"labels": labels, "annotations": {PREFIX + "cpu": "150m"}},
        "spec": {"containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "100m"}}}]},
    }
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    scaled = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "maxReplicas": 3,
        "metrics": [
            {
                "type": "Resource",
                "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
            }
        ],
    }
    async with cluster.client() as client:
        for path, kind, body in (
            ("/apis/apps/v1/namespaces/default/deployments", "Deployment", spec),
            ("/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers", "HorizontalPodAutoscaler", scaled),
        ):
            document = {"kind": kind, "metadata": {"name": "web"}, "spec": body}
            await client.raw.request("POST", path, body=json.dumps(document).encode())

        async def is_scaled() -> bool:
            return (await client.get(Deployment, "web", namespace="default")).spec.replicas == 3

        await until(is_scaled)  # the controller looks every 15 seconds
        hpa = await client.get(HorizontalPodAutoscaler, "web", namespace="default")
        assert str(hpa.status.current_metrics[0].resource.current.average_value) == "150m"


@pytest.mark.slow
async def test_a_process_node_measures_the_processes_of_a_container() -> None:
    busy = (
        "import subprocess, sys; subprocess.run([sys.executable, '-c', 'x = bytearray(80 << 20)\\nwhile True: pass'])"
    )
    async with DevCluster.start(Options(node_kind="process")) as cluster, cluster.client() as client:
        await ready(cluster)
        await run(client, "busy", command=[sys.executable, "-c", busy])
        await run(client, "idle", command=["sleep", "1000"])

        async def used(name: str) -> tuple[Quantity, Quantity]:
            (container,) = (await ask(client, f"{PODS}/{name}"))["containers"]
            return Quantity(container["usage"]["cpu"]), Quantity(container["usage"]["memory"])

        async def is_measured() -> bool:
            cpu, memory = await used("busy")
            return memory > Quantity("80Mi") and cpu > Quantity("50m")

        await until(is_measured, within=120.0)
        assert (await used("idle"))[1] < Quantity("40Mi")
        node = (await ask(client, f"{METRICS}/nodes/node-1"))["usage"]
        assert Quantity(node["memory"]) > Quantity("80Mi")


class TestTheMeter:
    def test_the_first_window_begins_with_the_container(self) -> None:
        assert Meter(100.0).take(104.0, 2.0) == (0.5, 4.0)

    def test_later_windows_begin_at_a_sample_that_is_old_enough(self) -> None:
        meter = Meter(0.0)
        meter.take(60.0, 60.0)
        assert meter.take(65.0, 60.0)[1] == 65.0
        assert meter.take(75.0, 63.0) == (0.2, 15.0)

    def test_time_of_processes_that_left_the_tree_is_not_negative_use(self) -> None:
        meter = Meter(0.0)
        meter.take(20.0, 10.0)
        assert meter.take(40.0, 1.0)[0] == 0


@pytest.fixture(scope="module")
def plane() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster.start() as started:
        yield started


@pytest.mark.realcluster
def test_kubectl_top_shows_pods_containers_and_nodes(plane: EmbeddedCluster) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "told", "namespace": "default", "annotations": USES},
        "spec": {"containers": [{"name": "main", "image": "x"}]},
    }
    plane.kubectl("apply", "-f", "-", input=json.dumps(pod))
    plane.kubectl("wait", "--for=condition=Ready", "pod/told", "--timeout=60s")

    def lines(*words: str) -> list[list[str]]:
        return [line.split() for line in plane.kubectl(*words).splitlines()]

    assert lines("top", "pod") == [["NAME", "CPU(cores)", "MEMORY(bytes)"], ["told", "250m", "64Mi"]]
    assert lines("top", "pod", "--containers")[1] == ["told", "main", "250m", "64Mi"]
    (_, node) = lines("top", "node")
    assert (node[0], node[1], node[3]) == ("node-1", "250m", "64Mi")
    assert lines("get", "podmetrics")[1][:3] == ["told", "250m", "64Mi"]
    assert lines("get", "pods")[1][:2] == ["told", "1/1"], "pods without a group are those of the core"


@pytest.mark.slow
@pytest.mark.realcluster("kube-controller-manager")
@pytest.mark.parametrize("start", [lambda: EmbeddedCluster.start(nodes=0), ControlPlane.start])
def test_an_autoscaler_without_a_metrics_api_says_so(start: Callable[[], Cluster]) -> None:
    """The text is that of the real controller."""
    target = {"type": "Utilization", "averageUtilization": 50}
    scaler = {
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "maxReplicas": 3,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
        },
    }
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    spec = {"selector": {"matchLabels": {"app": "web"}}, "template": template}
    path = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
    with start() as plane:
        web = {"kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}
        plane.call("POST", "/apis/apps/v1/namespaces/default/deployments", web)
        plane.call("POST", path, scaler)

        def active() -> dict[str, str]:
            conditions = (plane.call("GET", f"{path}/web").get("status") or {}).get("conditions") or ()
            return next((c for c in conditions if c["type"] == "ScalingActive"), {})

        deadline = time.monotonic() + 120
        while not (found := active()):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        plane.kubectl("wait", "--for=jsonpath={.status.conditions[1].reason}=FailedGetResourceMetric", "hpa/web")
        events = plane.call("GET", "/api/v1/namespaces/default/events")["items"]
    why = (
        "failed to get cpu utilization: unable to get metrics for resource cpu: unable to fetch metrics from resource"
        " metrics API: the server could not find the requested resource (get pods.metrics.k8s.io)"
    )
    assert found["reason"] == "FailedGetResourceMetric"
    assert found["message"] == f"the HPA was unable to compute the replica count: {why}"
    assert why in [e["message"] for e in events if e["reason"] == "FailedGetResourceMetric"]
