"""`ctx.evict`: evictions that respect disruption budgets, on a cluster."""

import pytest

from steersman import Context, Model, Operator, Resource
from steersman.client import TooManyRequests
from steersman.k8s import Pod


class DrainSpec(Model):
    pod: str = ""


class DrainStatus(Model):
    result: str = ""


class Drain(Resource, group="tests.steersman.dev", version="v1"):
    spec: DrainSpec = DrainSpec()
    status: DrainStatus = DrainStatus()


def draining() -> Operator:
    app = Operator("drains")
    app.permit("get", Pod)
    app.permit("create", Pod, subresource="eviction")

    @app.controller
    async def reconcile(drain: Drain, ctx: Context) -> DrainStatus:
        pod = await ctx.fetch(Pod, drain.spec.pod)
        assert pod is not None
        try:
            first = await ctx.evict(pod, grace_period=0)
        except TooManyRequests as refused:
            return DrainStatus(result=f"refused: {refused.status.message}")
        return DrainStatus(result=f"{first}, {await ctx.evict(pod)}")

    return app


@pytest.fixture
def drained(cluster, operator):
    pod = {"image": "registry.example/web:1", "name": "web"}
    cluster.apply(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "web", "labels": {"app": "web"}},
            "spec": {"containers": [pod]},
        }
    )
    cluster.wait("pod", "web", "Ready")

    def drain(name):
        app = draining()
        from steersman.manifests import crds

        cluster.apply(*crds(app))
        operator(app)
        drain = {"apiVersion": "tests.steersman.dev/v1", "kind": "Drain", "metadata": {"name": name}}
        cluster.apply({**drain, "spec": {"pod": "web"}})
        found = cluster.wait("drain", name, lambda drain: drain.get("status", {}).get("result"))
        return found["status"]["result"]

    return drain


def test_an_evicted_pod_is_gone_and_a_second_eviction_says_so(drained, cluster):
    assert drained("once") == "True, False"
    assert cluster.get("pod", "web") is None


def test_a_disruption_budget_refuses_the_eviction(drained, cluster):
    cluster.apply(
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "web"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
        }
    )
    cluster.wait("poddisruptionbudget", "web", lambda pdb: pdb.get("status", {}).get("expectedPods") == 1)
    assert drained("refused").startswith("refused: Cannot evict pod")
    assert cluster.get("pod", "web") is not None
