"""Server-side apply: merging, ownership, conflicts, giving up; with chosen and with random sequences."""

import json
from typing import Any

import pytest

from .harness import Both
from .managed import CONFIG_MAPS, DEPLOYMENTS, Dice, apply, define, merge, same, strategic

MAP = f"{CONFIG_MAPS}/web"
DEPLOYMENT = f"{DEPLOYMENTS}/web"


def config_map(**data: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web"}, "data": data}


def deployment(*containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": list(containers)}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template, **spec},
    }


async def test_apply_creates_and_applies_again_without_change(both: Both):
    first = await apply(both, MAP, config_map(a="1"), "one")
    again = await apply(both, MAP, config_map(a="1"), "one")
    assert first.code == 201
    assert again["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


async def test_two_managers_share_and_give_up(both: Both):
    await apply(both, MAP, config_map(a="1"), "one")
    await apply(both, MAP, config_map(a="1", b="2"), "two")
    await apply(both, MAP, config_map(), "one")
    last = await apply(both, MAP, config_map(b="2"), "two")
    assert last["data"] == {"b": "2"}


async def test_conflicts_name_their_managers(both: Both):
    await apply(both, MAP, config_map(a="1", b="1"), "one")
    await same(both, "PUT", f"{MAP}?fieldManager=writer", config_map(a="2", b="1"))
    refused = await apply(both, MAP, config_map(a="3", b="3"), "two")
    assert refused.code == 409
    single = await both.same(
        "PATCH", f"{MAP}?fieldManager=two", config_map(b="3"), content_type="application/apply-patch+yaml"
    )
    assert single["message"] == 'Apply failed with 1 conflict: conflict with "one": .data.b'


async def test_force_takes_over(both: Both):
    await apply(both, MAP, config_map(a="1"), "one")
    taken = await apply(both, MAP, config_map(a="2"), "two", force=True)
    assert taken["data"] == {"a": "2"}
    await apply(both, MAP, config_map(a="3"), "one")


async def test_untracked_objects_were_somebodys_before_their_first_apply(both: Both):
    created = {**config_map(a="1"), "metadata": {"name": "web"}}
    await same(both, "POST", f"{CONFIG_MAPS}?fieldManager=one", created)
    forgotten = {**config_map(a="1"), "metadata": {"name": "web", "managedFields": [{}]}}
    await same(both, "PUT", f"{MAP}?fieldManager=one", forgotten)
    refused = await apply(both, MAP, config_map(a="2"), "two")
    assert refused.code == 409
    await apply(both, MAP, config_map(a="2"), "two", force=True)


async def test_kubectl_takes_over_from_its_client_side_apply(both: Both):
    last = json.dumps(config_map(a="1", b="2"))
    annotated = config_map(a="1", b="2")
    annotated["metadata"] = {"name": "web", "annotations": {"kubectl.kubernetes.io/last-applied-configuration": last}}
    await same(both, "POST", f"{CONFIG_MAPS}?fieldManager=kubectl-client-side-apply", annotated)
    taken = await apply(both, MAP, config_map(a="5", b="2"), "kubectl")
    assert taken["data"]["a"] == "5"


async def test_containers_and_their_lists_have_owners_each(both: Both):
    web = {"name": "a", "image": "x", "ports": [{"containerPort": 80}], "env": [{"name": "A", "value": "1"}]}
    await apply(both, DEPLOYMENT, deployment(web, replicas=1), "one")
    mine = {"name": "a", "env": [{"name": "B", "value": "2"}], "ports": [{"containerPort": 80, "protocol": "UDP"}]}
    await apply(both, DEPLOYMENT, deployment(mine, {"name": "b", "image": "y"}), "two")
    await apply(both, DEPLOYMENT, deployment({"name": "a", "image": "x"}), "one")
    left = await apply(both, DEPLOYMENT, deployment({"name": "b", "image": "y"}), "two")
    assert [item["name"] for item in left["spec"]["template"]["spec"]["containers"]] == ["a", "b"]


async def test_a_field_that_was_scaled_conflicts(both: Both):
    await apply(both, DEPLOYMENT, deployment({"name": "a", "image": "x"}, replicas=1), "one")
    await merge(both, DEPLOYMENT, {"spec": {"replicas": 5}}, "scaler")
    refused = await apply(both, DEPLOYMENT, deployment({"name": "a", "image": "x"}, replicas=1), "one")
    assert refused["message"] == 'Apply failed with 1 conflict: conflict with "scaler" using apps/v1: .spec.replicas'
    left = await apply(both, DEPLOYMENT, deployment({"name": "a", "image": "x"}), "one")
    assert left["spec"]["replicas"] == 5


A = {"name": "a", "image": "x"}
BODIES: list[Any] = [
    deployment(A, foo=1),
    deployment(A, replicas="x"),
    deployment(A, replicas=[1]),
    deployment(A, paused={"a": 1}),
    deployment(A, A),
    deployment({"name": "a", "foo": 1}),
    deployment({"name": "a", "image": 5}),
    deployment({"name": "a", "image": ["x"]}),
    deployment({"name": "a", "command": "x"}),
    deployment({"name": "a", "command": [1, {}]}),
    deployment({"name": "a", "ports": [{"containerPort": "x"}]}),
    {**deployment(A), "spec": "x"},
    {**deployment(A), "spec": {"template": {"spec": {"containers": {}}}}},
    {**deployment(A), "spec": {"template": {"spec": {"containers": [None]}}}},
    {**deployment(A), "metadata": {"name": "web", "labels": {"a": 1}}},
    {**deployment(A), "metadata": {"name": "web", "labels": "a"}},
    {**deployment(A), "metadata": {"name": "web", "finalizers": ["a/a", "a/a"]}},
    {**deployment(A), "metadata": {"name": "web", "finalizers": [{}]}},
    {**deployment(A), "metadata": {"name": "web", "managedFields": []}},
    {**deployment(A), "apiVersion": "apps/v2"},
    {**deployment(A), "kind": "Foo"},
    {**deployment(A), "metadata": {"name": "other"}},
    {**deployment(A), "bar": 1},
    deployment({"image": "x"}),
    "x",
    "[1]",
    "{",
]


@pytest.mark.parametrize("body", BODIES, ids=range(len(BODIES)))
async def test_what_cannot_be_applied_is_refused_alike(both: Both, body: Any):
    await apply(both, DEPLOYMENT, body, "one")


@pytest.mark.parametrize("query", ["", "?fieldManager=", f"?fieldManager={'x' * 129}", "?fieldManager=a&force=maybe"])
async def test_apply_needs_a_manager(both: Both, query: str):
    await both.same("PATCH", f"{MAP}{query}", config_map(a="1"), content_type="application/apply-patch+yaml")


async def test_applied_text_may_be_yaml(both: Both):
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: web\ndata:\n  a: '1'\n"
    assert (await apply(both, MAP, text, "one"))["data"] == {"a": "1"}


async def test_dry_run_applies_nothing(both: Both):
    await both.same(
        "PATCH", f"{MAP}?fieldManager=one&dryRun=All", config_map(a="1"), content_type="application/apply-patch+yaml"
    )
    await both.same("GET", MAP)


@pytest.mark.parametrize("seed", range(12))
async def test_random_custom_resources(both: Both, seed: int):
    dice = Dice(seed)
    path = await define(both)
    version = path.split("/")[2] + "/v1"
    foo = f"{path}/x"
    await apply(both, foo, {"apiVersion": version, "kind": "Foo", "metadata": {"name": "x"}, "spec": dice.foo()}, "m1")
    for _ in range(14):
        manager = dice.random.choice(["m1", "m2", "m3"])
        match dice.random.choice(["apply", "apply", "apply", "merge", "status"]):
            case "apply":
                body = {"apiVersion": version, "kind": "Foo", "metadata": dice.metadata("x"), "spec": dice.foo()}
                await apply(both, foo, body, manager, force=dice.maybe())
            case "merge":
                patch = {key: (value if dice.maybe(0.7) else None) for key, value in dice.foo().items()}
                await merge(both, foo, {"spec": patch}, manager)
            case _:
                status = {
                    "ready": dice.maybe(),
                    "conditions": [{"type": kind, "status": "True"} for kind in dice.some("XYZ", 2)],
                }
                body = {"apiVersion": version, "kind": "Foo", "metadata": {"name": "x"}, "status": status}
                await apply(both, f"{foo}/status", body, manager, force=True)


@pytest.mark.parametrize("seed", range(12))
async def test_random_deployments(both: Both, seed: int):
    dice = Dice(seed)
    await apply(both, DEPLOYMENT, dice.deployment("web"), "m1")
    for _ in range(10):
        manager = dice.random.choice(["m1", "m2", "kubectl"])
        match dice.random.choice(["apply", "apply", "strategic", "put"]):
            case "apply":
                await apply(both, DEPLOYMENT, dice.deployment("web"), manager, force=dice.maybe(0.7))
            case "strategic":
                await strategic(both, DEPLOYMENT, {"spec": {"template": {"spec": dice.pod()}}}, manager)
            case _:
                await same(both, "PUT", f"{DEPLOYMENT}?fieldManager={manager}", dice.deployment("web"))
