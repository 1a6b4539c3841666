"""Autoscalers by metrics that a test sets, and nodes that fall silent; with controllers of their own."""

from __future__ import annotations

import os

import pytest

from steersman.client import Client
from steersman.client.config import load_config
from steersman.k8s import Deployment, HorizontalPodAutoscaler, Node, Pod
from steersman.models import get_condition
from steersman_cluster.controllers.autoscaling.metrics import SetMetrics
from steersman_cluster.controllers.thread import running

from .api_servers import plane_of
from .conftest import Lab
from .test_deployments import deployment, rolled_out, template

METRICS = SetMetrics()


@pytest.fixture(scope="module", params=["real", "embedded"])
def plane(request):
    """Like `plane` of the others, but impatient."""
    options = {"autoscaler": {"source": METRICS, "interval": 0.2}, "nodelifecycle": {"grace": 15.0}}
    with plane_of(request.param, 1) as cluster, running(cluster.config, options=options):
        yield cluster


@pytest.fixture
async def lab(plane):
    name = f"test-{os.urandom(5).hex()}"
    async with Client(load_config(plane.kubeconfig)) as client:
        await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        yield Lab(client, name, plane)
        await client.raw.request("DELETE", f"/api/v1/namespaces/{name}")


def autoscaler(metric, **spec):
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    return {
        "metadata": {"name": "web"},
        "spec": {"scaleTargetRef": target, "maxReplicas": 5, "metrics": [metric], **spec},
    }


async def test_an_autoscaler_follows_the_use_of_a_resource(lab):
    body = deployment(replicas=1)
    body["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "100m"}}
    await lab.create(Deployment, body)
    await lab.until(Deployment, "web", rolled_out())
    (pod,) = await lab.list(Pod)
    METRICS.set_usage(lab.namespace, pod.metadata.name, cpu="150m")
    target = {"type": "Utilization", "averageUtilization": 50}
    await lab.create(
        HorizontalPodAutoscaler, autoscaler({"type": "Resource", "resource": {"name": "cpu", "target": target}})
    )
    await lab.until(Deployment, "web", lambda d: d.spec.replicas == 3)
    hpa = await lab.until(HorizontalPodAutoscaler, "web", lambda h: get_condition(h.status.conditions, "ScalingActive"))
    assert get_condition(hpa.status.conditions, "ScalingActive").reason == "ValidMetricFound"
    current = hpa.status.current_metrics[0].resource.current
    assert (str(current.average_value), current.average_utilization) == ("150m", 150)


async def test_an_autoscaler_follows_an_external_number_within_its_bounds(lab):
    await lab.create(Deployment, deployment(replicas=1))
    await lab.until(Deployment, "web", rolled_out())
    METRICS.set_external(lab.namespace, "queue", 1000)
    metric = {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "10"}}
    await lab.create(HorizontalPodAutoscaler, autoscaler({"type": "External", "external": metric}))
    await lab.until(Deployment, "web", lambda d: d.spec.replicas == 5)
    hpa = await lab.until(
        HorizontalPodAutoscaler,
        "web",
        lambda h: (c := get_condition(h.status.conditions, "ScalingLimited")) and c.reason == "TooManyReplicas",
    )
    assert hpa.status.last_scale_time is not None


async def test_an_autoscaler_without_numbers_says_so_and_does_nothing(lab):
    await lab.create(Deployment, deployment(replicas=2))
    metric = {"metric": {"name": "none"}, "target": {"type": "Value", "value": "10"}}
    await lab.create(HorizontalPodAutoscaler, autoscaler({"type": "External", "external": metric}))
    hpa = await lab.until(
        HorizontalPodAutoscaler,
        "web",
        lambda h: (c := get_condition(h.status.conditions, "ScalingActive")) and c.status == "False",
    )
    assert get_condition(hpa.status.conditions, "ScalingActive").reason == "FailedGetExternalMetric"
    assert (await lab.get(Deployment, "web")).spec.replicas == 2


@pytest.mark.slow
async def test_a_silent_node_loses_its_pods(lab):
    name = f"silent-{lab.namespace}"
    now = "2020-01-01T00:00:00.000000Z"
    await lab.client.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
    ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": "2020-01-01T00:00:00Z"}
    status = {"conditions": [ready], "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}}
    from steersman.models import StrategicMergePatch

    await lab.client.patch(Node, name, StrategicMergePatch({"status": status}), subresource="status")
    lease = {"metadata": {"name": name, "namespace": "kube-node-lease"}, "spec": {"renewTime": now}}
    await lab.client.create({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", **lease})
    tolerations = [
        {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1}
        for key in ("unreachable", "not-ready")
    ]
    body = {**template(nodeName=name, tolerations=tolerations), "metadata": {"name": "lost"}}
    await lab.create(Pod, body)
    node = await lab.until(Node, name, lambda n: any(t.key == "node.kubernetes.io/unreachable" for t in n.spec.taints))
    condition = get_condition(node.status.conditions, "Ready")
    assert (condition.status, condition.reason) == ("Unknown", "NodeStatusUnknown")
    await lab.until(Pod, "lost", lambda p: p.metadata.deletion_timestamp)
    await lab.client.delete(Pod, "lost", namespace=lab.namespace, grace_period=0)
    await lab.client.delete(Node, name)
