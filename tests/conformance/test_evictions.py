"""Evictions under PodDisruptionBudgets: allowed and refused evictions, and the rest of the budget."""

from typing import Any

import pytest

from .harness import Both
from .steps import PODS, Step, play, pod

BUDGETS = "/apis/policy/v1/namespaces/{ns}/poddisruptionbudgets"
BUDGET = f"{BUDGETS}/b"


def budget(name: str = "b", **spec: Any) -> dict[str, Any]:
    selector = {"matchLabels": {"app": "a"}}
    return {"metadata": {"name": name}, "spec": {"minAvailable": 1, "selector": selector, **spec}}


def allows(disruptions: int, healthy: int = 2, desired: int = 1, observed: int = 1, **more: Any) -> Step:
    status = {"disruptionsAllowed": disruptions, "currentHealthy": healthy, "desiredHealthy": desired}
    status |= {"expectedPods": 3, "observedGeneration": observed, **more}
    return "MERGE", f"{BUDGET}/status", {"status": status}


def runs(name: str, ready: str = "True", phase: str = "Running") -> list[Step]:
    condition = {"type": "Ready", "status": ready, "lastTransitionTime": "2024-01-01T00:00:00Z"}
    status = {"phase": phase, "conditions": [condition]}
    return [
        ("POST", PODS, pod(name, labels={"app": "a"})),
        ("MERGE", f"{PODS}/{name}/status", {"status": status}),
    ]


def evict(name: str, query: str = "", **options: Any) -> Step:
    body: dict[str, Any] = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    return "POST", f"{PODS}/{name}/eviction{query}", {**body, **({"deleteOptions": options} if options else {})}


def look(name: str) -> list[Step]:
    return [("GET", BUDGET), ("GET", f"{PODS}/{name}")]


STALE = {"uid": "x"}
FAILED = {
    "type": "DisruptionAllowed",
    "status": "False",
    "reason": "SyncFailed",
    "message": "no controller",
    "lastTransitionTime": "2024-01-01T00:00:00Z",
}
SEQUENCES: dict[str, list[Step]] = {
    "nothing to evict": [evict("nope")],
    "no budget": [*runs("p"), evict("p"), ("GET", f"{PODS}/p")],
    "of another name": [
        *runs("p"),
        ("POST", f"{PODS}/p/eviction", {"metadata": {"name": "q"}}),
        ("POST", f"{PODS}/p/eviction", {"metadata": {"name": ""}}),
        ("POST", f"{PODS}/p/eviction", {}),
        ("POST", f"{PODS}/p/eviction", {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}),
    ],
    "of the old version": [
        *runs("p"),
        (
            "POST",
            f"{PODS}/p/eviction",
            {"apiVersion": "policy/v1alpha1", "kind": "Eviction", "metadata": {"name": "p"}},
        ),
        ("POST", f"{PODS}/p/eviction", {"apiVersion": "policy/v1beta1", "kind": "Eviction", "metadata": {"name": "p"}}),
        ("GET", f"{PODS}/p"),
    ],
    "methods": [*runs("p"), ("PUT", f"{PODS}/p/eviction", {"metadata": {"name": "p"}}), ("GET", f"{PODS}/p/eviction")],
    "pods that disrupt nothing": [
        ("POST", BUDGETS, budget()),
        ("POST", PODS, pod("pending", labels={"app": "a"})),
        evict("pending"),
        *runs("done", phase="Succeeded"),
        evict("done"),
        *runs("failed", phase="Failed"),
        evict("failed", preconditions=STALE),
        ("GET", f"{PODS}/failed"),
    ],
    "a budget that nobody has looked at": [("POST", BUDGETS, budget()), *runs("p"), evict("p"), *look("p")],
    "a budget with nothing left": [("POST", BUDGETS, budget()), *runs("p"), allows(0, 1, 1), evict("p"), *look("p")],
    "a budget with something left": [
        ("POST", BUDGETS, budget()),
        *runs("p"),
        *runs("q"),
        allows(2),
        evict("p"),
        *look("p"),
        evict("q"),
        *look("q"),
        *runs("r"),
        evict("r"),
    ],
    "refusals have reasons": [
        ("POST", BUDGETS, budget()),
        *runs("p"),
        allows(0, conditions=[FAILED]),
        evict("p"),
        allows(0, conditions=[{**FAILED, "reason": "Other"}]),
        evict("p"),
        allows(0, conditions=[]),
        evict("p"),
    ],
    "dry runs": [
        ("POST", BUDGETS, budget()),
        *runs("p"),
        allows(1),
        evict("p", "?dryRun=All"),
        evict("p", dryRun=["All"]),
        evict("p", "?dryRun=All", dryRun=["All"]),
        *look("p"),
    ],
    "preconditions": [
        ("POST", BUDGETS, budget()),
        *runs("p"),
        allows(5, 9),
        evict("p", preconditions=STALE),
        *look("p"),
    ],
    "options of the delete": [
        *runs("p"),
        evict("p", propagationPolicy="Nope"),
        ("GET", f"{PODS}/p"),
        evict("p", dryRun=["Nope"]),
        *runs("q"),
        evict("q", gracePeriodSeconds=-5),
        *runs("r"),
        evict("r", gracePeriodSeconds=0),
        ("GET", f"{PODS}/r"),
    ],
    "unhealthy pods": [
        ("POST", BUDGETS, budget()),
        *runs("p", ready="False"),
        allows(0, 1, 2),
        evict("p"),
        allows(0, 2, 2),
        evict("p"),
        ("POST", BUDGETS, budget("c", unhealthyPodEvictionPolicy="AlwaysAllow")),
        ("DELETE", BUDGET),
        *runs("q", ready="False"),
        evict("q"),
        ("GET", f"{BUDGETS}/c"),
    ],
    "two budgets": [
        ("POST", BUDGETS, budget()),
        ("POST", BUDGETS, budget("c")),
        *runs("p"),
        evict("p"),
    ],
    "selectors": [
        ("POST", BUDGETS, budget(selector={})),
        *runs("p"),
        evict("p"),
        ("DELETE", BUDGET),
        ("POST", BUDGETS, budget(selector=None)),
        evict("p"),
        *runs("q"),
        ("DELETE", BUDGET),
        (
            "POST",
            BUDGETS,
            budget(selector={"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["a"]}]}),
        ),
        evict("q"),
    ],
    "held pods": [
        *runs("p"),
        ("MERGE", f"{PODS}/p", {"metadata": {"finalizers": ["example.com/hold"]}}),
        evict("p"),
        ("GET", f"{PODS}/p"),
        evict("p"),
        ("MERGE", f"{PODS}/p", {"metadata": {"finalizers": None}}),
    ],
}


@pytest.mark.parametrize("name", SEQUENCES)
async def test_evictions_end_alike(both: Both, name: str):
    await play(both, *SEQUENCES[name])


async def test_an_eviction_may_be_of_one_version(both: Both):
    await play(both, *runs("p"))
    method, path, body = evict("p", preconditions={"resourceVersion": "1"})
    for answer in await both.each(method, path, body):
        assert answer.code == 409, answer.body
        assert "the ResourceVersion in the precondition (1) does not match the ResourceVersion in record" in str(
            answer.body
        )
    for server in both.servers:
        pod = await server.ask("GET", f"{PODS}/p".replace("{ns}", both.namespace))
        version = pod["metadata"]["resourceVersion"]
        method, path, body = evict("p", preconditions={"resourceVersion": version})
        answer = await server.ask(method, path.replace("{ns}", both.namespace), body)
        assert answer.code == 201, f"{server.name}: {answer.body}"
