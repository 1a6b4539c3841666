"""How Pods are restarted: budgets, force, roll-outs, and what goes wrong on the way."""

import itertools

import pytest
from steersman.testing import eventually

from .support import config_map, deployment, monitor, workload

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
    monkeypatch.setattr("configmonitor.restarts.REFUSED_RETRY_SECONDS", 0.3)


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


def forbidding(namespace, operation, **match):
    """A policy that denies requests of this namespace."""
    rule = {"apiVersions": ["*"], "operations": [operation], **match}
    return [
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": f"frozen-{namespace}"},
            "spec": {
                "matchConstraints": {"resourceRules": [rule]},
                "validations": [{"expression": "false", "message": "changes are frozen until Monday"}],
            },
        },
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": f"frozen-{namespace}"},
            "spec": {
                "policyName": f"frozen-{namespace}",
                "validationActions": ["Deny"],
                "matchResources": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}},
            },
        },
    ]


@pytest.fixture
def forbid(world):
    """Has the API server deny requests until `end` is called, or the test ends."""

    class Forbid:
        made = ()

        def __call__(self, probe, operation, **match):
            self.made = forbidding(world.cluster.namespace, operation, **match)
            world.apply(*self.made)
            eventually(probe, what="the policy is in force")

        def end(self):
            for each in self.made:
                world.cluster.delete(each["kind"].lower(), each["metadata"]["name"])
            self.made = ()

    found = Forbid()
    yield found
    found.end()


def is_denied(call):
    try:
        call()
    except Exception as problem:
        return "frozen until Monday" in str(problem)
    return False


def test_an_eviction_that_a_policy_denies_is_reported_and_tried_again(world, running, web, forbid):
    def evict():
        pod = world.cluster.list("pods", labels="app=web")[0]["metadata"]["name"]
        path = f"/api/v1/namespaces/{world.cluster.namespace}/pods/{pod}/eviction?dryRun=All"
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
        world.cluster.call("POST", path, body)

    world.apply(monitor("web"))
    world.watching("web")
    forbid(lambda: is_denied(evict), "CREATE", apiGroups=[""], resources=["pods/eviction"])
    world.change("settings", colour="red")
    eventually(lambda: world.condition("web", "Restarting").get("reason") == "Refused", what="the status tells")
    message = world.condition("web", "Restarting")["message"]
    assert "2 of 2 Pods" in message
    assert "frozen until Monday" in message
    assert "frozen until Monday" in eventually(lambda: world.events("RestartRefused"), what="an Event")[0]["note"]
    assert [line for line in running.log if line["event"] == "restart_refused" and "frozen" in line["error"]]
    forbid.end()
    world.replaced(web)


def test_a_roll_out_that_a_policy_denies_is_reported_and_tried_again(world, running, web, forbid):
    numbers = itertools.count()

    def annotate():
        world.cluster.patch("deployment", "web", {"metadata": {"annotations": {"probe": str(next(numbers))}}})

    world.apply(monitor("web", strategy="rollout"))
    world.watching("web")
    forbid(lambda: is_denied(annotate), "UPDATE", apiGroups=["apps"], resources=["deployments"])
    world.change("settings", colour="red")
    eventually(lambda: world.condition("web", "Restarting").get("reason") == "Refused", what="the status tells")
    assert "Deployment web" in world.condition("web", "Restarting")["message"]
    assert "frozen until Monday" in world.condition("web", "Restarting")["message"]
    assert eventually(lambda: world.events("RestartRefused"), what="an Event")
    forbid.end()
    world.replaced(web)


def test_each_restart_is_one_line_of_the_log_that_says_why(world, running, web):
    world.apply(monitor("web"))
    world.watching("web")
    world.change("settings", colour="red")
    world.replaced(web)
    running.wait_idle()
    told = [line for line in running.log if line["event"] == "pod_evicted"]
    assert sorted(line["pod_uid"] for line in told) == sorted(web)
    assert {(line["reason"], line["source"], line["level"]) for line in told} == {
        ("config_changed", "ConfigMap/settings", "info")
    }
    assert all(line["pod"].startswith("web-") for line in told)


def test_a_forced_restart_and_a_roll_out_have_log_lines_of_their_own(world, running, web):
    world.apply(monitor("web", force=True))
    world.watching("web")
    world.change("settings", colour="red")
    second = world.replaced(web)
    running.wait_idle()
    assert sorted(line["pod_uid"] for line in running.log if line["event"] == "pod_deleted") == sorted(web)
    world.apply(monitor("web", strategy="rollout"))
    running.wait_idle()
    world.change("settings", colour="green")
    world.replaced(second)
    running.wait_idle()
    (told,) = [line for line in running.log if line["event"] == "rollout_started"]
    assert (told["owner_kind"], told["owner"], told["reason"]) == ("Deployment", "web", "config_changed")


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
