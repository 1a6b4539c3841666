"""How Pods are restarted: budgets, force, roll-outs, and what goes wrong on the way."""

import pytest

from steersman.testing import eventually

from .world import config_map, deployment, monitor, workload

SETTINGS = config_map("settings", colour="blue")
ANNOTATION = "configmonitor.magalix.com/configmap.settings"


def budget(**spec):
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec},
    }


@pytest.fixture(autouse=True)
def _tries_again_soon(monkeypatch):
    monkeypatch.setattr("configmonitor.restarting.LATER", 0.3)


@pytest.fixture
def web(world):
    world.apply(SETTINGS, deployment("web"))
    return world.running(2)


def budget_is_known(world):
    eventually(
        lambda: (
            (found := world.cluster.get("pdb", "web")["status"]).get("observedGeneration")
            and found["expectedPods"] == 2
        ),
        what="the budget counts its Pods",
    )


def test_a_budget_that_forbids_is_told_and_waited_for(world, running, web):
    world.apply(budget(maxUnavailable=0), monitor("web"))
    budget_is_known(world)
    world.watching("web")
    world.change("settings", colour="red")
    eventually(lambda: world.condition("web", "Restarting").get("reason") == "Hindered", what="it is told")
    message = world.condition("web", "Restarting")["message"]
    assert "2 of 2 Pods" in message
    assert "disruption budget web" in message
    assert eventually(lambda: world.events("RestartHindered"), what="an Event")
    assert world.pods() == web
    world.cluster.patch("pdb", "web", {"spec": {"maxUnavailable": 2}})
    world.replaced(web)
    running.wait_idle()
    assert len(world.evictions(running.user)) == 2
    assert world.status("web")["restartedPods"] == 2


def test_a_budget_of_one_restarts_pods_one_after_the_other(world, running, web):
    world.apply(budget(maxUnavailable=1), monitor("web"))
    budget_is_known(world)
    world.watching("web")
    world.change("settings", colour="red")
    world.replaced(web)
    running.wait_idle()
    assert len(world.evictions(running.user)) == 2


def test_force_does_not_ask_the_budget(world, running, web):
    world.apply(budget(maxUnavailable=0), monitor("web", force=True))
    budget_is_known(world)
    world.watching("web")
    world.change("settings", colour="red")
    world.replaced(web)


def test_what_a_budget_holds_back_goes_on_after_a_restart_of_the_operator(world, operator, web):
    world.apply(budget(maxUnavailable=0), monitor("web"))
    budget_is_known(world)
    first = operator("configmonitor:operator")
    world.watching("web")
    world.change("settings", colour="red")
    eventually(lambda: world.condition("web", "Restarting").get("reason") == "Hindered", what="it is told")
    first.stop()
    world.cluster.delete("pdb", "web", wait=True)
    operator("configmonitor:operator")
    world.replaced(web)
    eventually(lambda: world.condition("web", "Restarting").get("reason") == "Done", what="it is done")


def test_a_second_change_while_pods_wait_is_one_restart(world, running, web):
    world.apply(budget(maxUnavailable=0), monitor("web"))
    budget_is_known(world)
    world.watching("web")
    for colour in ("red", "green"):
        before = world.status("web")["observedHash"]
        world.change("settings", colour=colour)
        eventually(lambda before=before: world.status("web")["observedHash"] != before, what="it is seen")
    world.cluster.delete("pdb", "web", wait=True)
    world.replaced(web)
    running.wait_idle()
    assert len(world.evictions(running.user)) == 2


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "DaemonSet"])
def test_a_rollout_changes_the_template_once(world, running, kind):
    spec = {"Deployment": {"replicas": 2}, "StatefulSet": {"replicas": 2, "serviceName": "web"}}.get(kind, {})
    names = ("one", "two")
    world.apply(
        SETTINGS, workload(kind, "web", {"app": "web"}, **spec), *(monitor(n, strategy="rollout") for n in names)
    )
    before = world.running(spec.get("replicas", 1))
    world.watching(*names)
    world.change("settings", colour="red")
    world.replaced(before)
    eventually(lambda: len({world.status(n)["observedHash"] for n in names}) == 1, what="both have seen it")
    running.wait_idle()
    template = world.cluster.get(kind.lower(), "web")["spec"]["template"]
    assert template["metadata"]["annotations"] == {ANNOTATION: world.status("one")["observedHash"]}
    revisions = "replicasets" if kind == "Deployment" else "controllerrevisions"
    assert len(world.cluster.list(revisions)) == 2
    assert world.evictions(running.user) == []


def test_a_rollout_leaves_nobody_out(world, running):
    """Pods without an owner that rolls out, and those of an owner that waits for deletions, are evicted."""
    bare = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "bare", "labels": {"app": "web"}},
        "spec": {"terminationGracePeriodSeconds": 0, "containers": [{"name": "app", "image": "app"}]},
    }
    lazy = workload(
        "StatefulSet", "lazy", {"app": "web"}, replicas=1, serviceName="x", updateStrategy={"type": "OnDelete"}
    )
    world.apply(SETTINGS, bare, lazy, monitor("web", strategy="rollout"))
    world.running(2)
    world.watching("web")
    world.change("settings", colour="red")
    eventually(lambda: sorted(world.evictions(running.user)) == ["bare", "lazy-0"], what="both are evicted")


@pytest.mark.slow
@pytest.mark.parametrize("cut", [True, False])
def test_failures_of_the_api_restart_no_pod_twice(world, faults, running, web, cut):
    from steersman.testing.faults import conflict, dropped_watch, internal_error, throttled, unavailable

    world.apply(monitor("web"), monitor("too"))
    world.watching("web", "too")
    faults.add(
        internal_error(resource="pods", verb="create", times=2),
        throttled(1, resource="pods", verb="list", times=1),
        conflict(resource="configmonitors", times=2),
        unavailable(resource="configmonitors", verb="patch", times=1),
        *([dropped_watch(0.1, times=4)] if cut else []),
    )
    world.change("settings", colour="red")
    world.replaced(web)
    eventually(lambda: world.condition("web", "Restarting").get("status") == "False", what="web is done")
    eventually(lambda: world.condition("too", "Restarting").get("status") == "False", what="too is done")
    running.wait_idle()
    assert len(world.evictions(running.user)) == 2
