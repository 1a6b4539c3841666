"""Restarts of Pods: budgets, force, roll-outs, and failures."""

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
def web(scenario):
    scenario.apply(SETTINGS, deployment("web"))
    return scenario.running(2)


def budget_is_known(scenario):
    eventually(
        lambda: (
            (found := scenario.cluster.get("pdb", "web")["status"]).get("observedGeneration")
            and found["expectedPods"] == 2
        ),
        what="the budget counts its Pods",
    )


def test_a_budget_that_forbids_is_told_and_waited_for(scenario, running, web):
    scenario.apply(budget(maxUnavailable=0), monitor("web"))
    budget_is_known(scenario)
    scenario.watching("web")
    scenario.change("settings", colour="red")
    eventually(lambda: scenario.condition("web", "Restarting").get("reason") == "Hindered", what="it is told")
    message = scenario.condition("web", "Restarting")["message"]
    assert "2 of 2 Pods" in message
    assert "disruption budget web" in message
    assert eventually(lambda: scenario.events("RestartHindered"), what="an Event")
    assert scenario.pods() == web
    scenario.cluster.patch("pdb", "web", {"spec": {"maxUnavailable": 2}})
    scenario.replaced(web)
    running.wait_idle()
    assert len(scenario.evictions(running.user)) == 2
    assert scenario.status("web")["restartedPods"] == 2


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
def forbid(scenario):
    """Has the API server deny requests until `end` is called, or the test ends."""

    class Forbid:
        made = ()

        def __call__(self, probe, operation, **match):
            self.made = forbidding(scenario.cluster.namespace, operation, **match)
            scenario.apply(*self.made)
            eventually(probe, what="the policy is in force")

        def end(self):
            for each in self.made:
                scenario.cluster.delete(each["kind"].lower(), each["metadata"]["name"])
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


def test_an_eviction_that_a_policy_denies_is_reported_and_tried_again(scenario, running, web, forbid):
    def evict():
        pod = scenario.cluster.list("pods", labels="app=web")[0]["metadata"]["name"]
        path = f"/api/v1/namespaces/{scenario.cluster.namespace}/pods/{pod}/eviction?dryRun=All"
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
        scenario.cluster.call("POST", path, body)

    scenario.apply(monitor("web"))
    scenario.watching("web")
    forbid(lambda: is_denied(evict), "CREATE", apiGroups=[""], resources=["pods/eviction"])
    scenario.change("settings", colour="red")
    eventually(lambda: scenario.condition("web", "Restarting").get("reason") == "Refused", what="the status tells")
    message = scenario.condition("web", "Restarting")["message"]
    assert "2 of 2 Pods" in message
    assert "frozen until Monday" in message
    assert "frozen until Monday" in eventually(lambda: scenario.events("RestartRefused"), what="an Event")[0]["note"]
    assert [line for line in running.log if line["event"] == "restart_refused" and "frozen" in line["error"]]
    forbid.end()
    scenario.replaced(web)


def test_a_roll_out_that_a_policy_denies_is_reported_and_tried_again(scenario, running, web, forbid):
    numbers = itertools.count()

    def annotate():
        scenario.cluster.patch("deployment", "web", {"metadata": {"annotations": {"probe": str(next(numbers))}}})

    scenario.apply(monitor("web", strategy="rollout"))
    scenario.watching("web")
    forbid(lambda: is_denied(annotate), "UPDATE", apiGroups=["apps"], resources=["deployments"])
    scenario.change("settings", colour="red")
    eventually(lambda: scenario.condition("web", "Restarting").get("reason") == "Refused", what="the status tells")
    assert "Deployment web" in scenario.condition("web", "Restarting")["message"]
    assert "frozen until Monday" in scenario.condition("web", "Restarting")["message"]
    assert eventually(lambda: scenario.events("RestartRefused"), what="an Event")
    forbid.end()
    scenario.replaced(web)


def test_each_restart_is_one_line_of_the_log_that_says_why(scenario, running, web):
    scenario.apply(monitor("web"))
    scenario.watching("web")
    scenario.change("settings", colour="red")
    scenario.replaced(web)
    running.wait_idle()
    told = [line for line in running.log if line["event"] == "pod_evicted"]
    assert sorted(line["pod_uid"] for line in told) == sorted(web)
    assert {(line["reason"], line["source"], line["level"]) for line in told} == {
        ("config_changed", "ConfigMap/settings", "info")
    }
    assert all(line["pod"].startswith("web-") for line in told)


def test_a_forced_restart_and_a_roll_out_have_log_lines_of_their_own(scenario, running, web):
    scenario.apply(monitor("web", force=True))
    scenario.watching("web")
    scenario.change("settings", colour="red")
    second = scenario.replaced(web)
    running.wait_idle()
    assert sorted(line["pod_uid"] for line in running.log if line["event"] == "pod_deleted") == sorted(web)
    scenario.apply(monitor("web", strategy="rollout"))
    running.wait_idle()
    scenario.change("settings", colour="green")
    scenario.replaced(second)
    running.wait_idle()
    (told,) = [line for line in running.log if line["event"] == "rollout_started"]
    assert (told["owner_kind"], told["owner"], told["reason"]) == ("Deployment", "web", "config_changed")


def test_a_budget_of_one_restarts_pods_one_after_the_other(scenario, running, web):
    scenario.apply(budget(maxUnavailable=1), monitor("web"))
    budget_is_known(scenario)
    scenario.watching("web")
    scenario.change("settings", colour="red")
    scenario.replaced(web)
    running.wait_idle()
    assert len(scenario.evictions(running.user)) == 2


def test_force_does_not_ask_the_budget(scenario, running, web):
    scenario.apply(budget(maxUnavailable=0), monitor("web", force=True))
    budget_is_known(scenario)
    scenario.watching("web")
    scenario.change("settings", colour="red")
    scenario.replaced(web)


def test_what_a_budget_holds_back_goes_on_after_a_restart_of_the_operator(scenario, operator, web):
    scenario.apply(budget(maxUnavailable=0), monitor("web"))
    budget_is_known(scenario)
    first = operator("configmonitor:operator")
    scenario.watching("web")
    scenario.change("settings", colour="red")
    eventually(lambda: scenario.condition("web", "Restarting").get("reason") == "Hindered", what="it is told")
    first.stop()
    scenario.cluster.delete("pdb", "web", wait=True)
    operator("configmonitor:operator")
    scenario.replaced(web)
    eventually(lambda: scenario.condition("web", "Restarting").get("reason") == "Done", what="it is done")


def test_a_second_change_while_pods_wait_is_one_restart(scenario, running, web):
    scenario.apply(budget(maxUnavailable=0), monitor("web"))
    budget_is_known(scenario)
    scenario.watching("web")
    for colour in ("red", "green"):
        before = scenario.status("web")["observedHash"]
        scenario.change("settings", colour=colour)
        eventually(lambda before=before: scenario.status("web")["observedHash"] != before, what="it is seen")
    scenario.cluster.delete("pdb", "web", wait=True)
    scenario.replaced(web)
    running.wait_idle()
    assert len(scenario.evictions(running.user)) == 2


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "DaemonSet"])
def test_a_rollout_changes_the_template_once(scenario, running, kind):
    spec = {"Deployment": {"replicas": 2}, "StatefulSet": {"replicas": 2, "serviceName": "web"}}.get(kind, {})
    names = ("one", "two")
    scenario.apply(
        SETTINGS, workload(kind, "web", {"app": "web"}, **spec), *(monitor(n, strategy="rollout") for n in names)
    )
    before = scenario.running(spec.get("replicas", 1))
    scenario.watching(*names)
    scenario.change("settings", colour="red")
    scenario.replaced(before)
    eventually(lambda: len({scenario.status(n)["observedHash"] for n in names}) == 1, what="both have seen it")
    running.wait_idle()
    template = scenario.cluster.get(kind.lower(), "web")["spec"]["template"]
    assert template["metadata"]["annotations"] == {ANNOTATION: scenario.status("one")["observedHash"]}
    revisions = "replicasets" if kind == "Deployment" else "controllerrevisions"
    assert len(scenario.cluster.list(revisions)) == 2
    assert scenario.evictions(running.user) == []


def test_a_rollout_leaves_nobody_out(scenario, running):
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
    scenario.apply(SETTINGS, bare, lazy, monitor("web", strategy="rollout"))
    scenario.running(2)
    scenario.watching("web")
    scenario.change("settings", colour="red")
    eventually(lambda: sorted(scenario.evictions(running.user)) == ["bare", "lazy-0"], what="both are evicted")


@pytest.mark.slow
@pytest.mark.parametrize("cut", [True, False])
def test_failures_of_the_api_restart_no_pod_twice(scenario, faults, running, web, cut):
    from steersman.testing.faults import conflict, dropped_watch, internal_error, throttled, unavailable

    scenario.apply(monitor("web"), monitor("too"))
    scenario.watching("web", "too")
    faults.add(
        internal_error(resource="pods", verb="create", times=2),
        throttled(1, resource="pods", verb="list", times=1),
        conflict(resource="configmonitors", times=2),
        unavailable(resource="configmonitors", verb="patch", times=1),
        *([dropped_watch(0.1, times=4)] if cut else []),
    )
    scenario.change("settings", colour="red")
    scenario.replaced(web)
    eventually(lambda: scenario.condition("web", "Restarting").get("status") == "False", what="web is done")
    eventually(lambda: scenario.condition("too", "Restarting").get("status") == "False", what="too is done")
    running.wait_idle()
    assert len(scenario.evictions(running.user)) == 2
