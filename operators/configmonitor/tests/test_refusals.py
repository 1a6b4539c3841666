"""Refused objects and the messages."""

import pytest
from steersman.testing import eventually

from .support import PROJECT, config_map, deployment, monitor


def refused(scenario, spec):
    made = {"apiVersion": "magalix.com/v1", "kind": "ConfigMonitor", "metadata": {"name": "bad"}, "spec": spec}
    with pytest.raises(Exception) as caught:  # noqa: PT011 - the text is judged below
        scenario.apply(made)
    return str(caught.value)


SELECTOR = {"podSelector": {"app": "web"}}


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({**SELECTOR}, "Give configMap, or secret"),
        ({**SELECTOR, "configMap": "a", "configmap": "a"}, "configmap is the deprecated spelling of configMap"),
        ({**SELECTOR, "configMap": "a", "secret": "b"}, "a ConfigMonitor watches one object"),
        ({**SELECTOR, "configmap": "a", "secret": "b"}, "a ConfigMonitor watches one object"),
        ({**SELECTOR, "configMap": "elsewhere/a"}, "restarts Pods of its own namespace only"),
        ({**SELECTOR, "secret": "elsewhere/a"}, "restarts Pods of its own namespace only"),
        ({**SELECTOR, "configMap": "Upper"}, "spec.configMap"),
        ({**SELECTOR, "configMap": ""}, "spec.configMap"),
        ({"configMap": "a"}, "spec.podSelector"),
        ({"configMap": "a", "podSelector": {}}, "spec.podSelector"),
        ({"configMap": "a", "podSelector": {"app": "no spaces"}}, "spec.podSelector.app"),
        ({"configMap": "a", "podSelector": {"matchLabels": {"app": "web"}}}, "spec.podSelector.matchLabels"),
        ({**SELECTOR, "configMap": "a", "strategy": "reboot"}, "spec.strategy"),
    ],
)
def test_bad_specs_are_refused_by_the_api_server(scenario, spec, words):
    assert words in refused(scenario, spec)


def test_the_samples_apply_as_they_are_and_watch(scenario, running):
    scenario.apply(PROJECT / "demo" / "flaskapp.yaml", PROJECT / "config" / "samples")
    scenario.watching("flakapp-config-monitor", "flaskapp-config-monitor")


def test_a_selector_that_matches_the_operator_is_refused(scenario, operator, monkeypatch):
    scenario.apply(config_map("settings", colour="blue"), deployment("operator", 1, {"app": "operator"}))
    (uid,) = scenario.running(1, "app=operator")
    own = next(p for p in scenario.cluster.list("pods") if p["metadata"]["uid"] == uid)
    monkeypatch.setenv("POD_NAME", own["metadata"]["name"])
    monkeypatch.setenv("res_namespace", scenario.cluster.namespace)
    running = operator("configmonitor:operator")
    scenario.apply(monitor("itself", labels={"app": "operator"}), monitor("others"))
    eventually(lambda: scenario.condition("itself", "Ready").get("reason") == "SelectsOperator", what="it is refused")
    scenario.watching("others")
    scenario.change("settings", colour="red")
    eventually(lambda: scenario.condition("others", "Restarting").get("reason") == "NothingToDo", what="others see it")
    running.wait_idle()
    assert scenario.evictions(running.user) == []
    assert eventually(lambda: scenario.events("SelectsOperator"), what="an Event")
