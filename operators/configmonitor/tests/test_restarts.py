"""Which Pods are restarted, and which are not."""

import base64

import pytest
from steersman.testing import eventually

from .support import config_map, deployment, monitor

SETTINGS = config_map("settings", colour="blue")


@pytest.fixture
def web(scenario):
    """Two Pods, a ConfigMap that they read, and no monitor yet."""
    scenario.apply(SETTINGS, deployment("web"))
    return scenario.running(2)


def test_pods_restart_when_the_data_changes(scenario, running, web):
    scenario.apply(monitor("web"))
    scenario.watching("web")
    scenario.change("settings", colour="red")
    scenario.replaced(web)
    running.wait_idle()
    assert len(scenario.evictions(running.user)) == 2
    status = scenario.status("web")
    assert (status["restartedPods"], status["source"]) == (2, "ConfigMap/settings")
    assert status["lastRestartTime"]
    assert scenario.condition("web", "Restarting")["reason"] == "Done"
    assert scenario.condition("web", "Ready")["status"] == "True"


def test_binary_data_counts(scenario, running, web):
    scenario.apply(monitor("web"))
    scenario.watching("web")
    scenario.cluster.patch("configmap", "settings", {"binaryData": {"logo": base64.b64encode(b"\xff\x00").decode()}})
    scenario.replaced(web)


def test_labels_and_annotations_of_a_config_map_restart_nothing(scenario, running, web):
    scenario.apply(monitor("web"))
    scenario.watching("web")
    scenario.cluster.patch("configmap", "settings", {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}})
    running.wait_idle()
    assert scenario.evictions(running.user) == []
    assert scenario.pods() == web


def test_starting_the_operator_restarts_nothing(scenario, operator, web):
    scenario.apply(monitor("web"))
    for _ in range(2):
        first = operator("configmonitor:operator")
        scenario.watching("web")
        first.wait_idle()
        first.stop()
    assert scenario.pods() == web


def test_a_change_made_while_the_operator_was_down_is_noticed(scenario, operator, web):
    scenario.apply(monitor("web"))
    first = operator("configmonitor:operator")
    scenario.watching("web")
    first.stop()
    scenario.change("settings", colour="red")
    operator("configmonitor:operator")
    scenario.replaced(web)


def test_a_config_map_that_appears_restarts_nothing(scenario, running, web):
    scenario.apply(monitor("late", "later"))
    eventually(lambda: scenario.condition("late", "Ready").get("reason") == "SourceMissing", what="it is missed")
    scenario.apply(config_map("later", colour="blue"))
    scenario.watching("late")
    running.wait_idle()
    assert scenario.pods() == web


def test_a_config_map_that_is_made_anew_counts_by_its_data(scenario, running, web):
    scenario.apply(monitor("web"))
    scenario.watching("web")
    scenario.cluster.delete("configmap", "settings", wait=True)
    eventually(lambda: scenario.condition("web", "Ready").get("reason") == "SourceMissing", what="it is missed")
    scenario.apply(SETTINGS)
    eventually(lambda: scenario.condition("web", "Ready").get("status") == "True", what="it is back")
    running.wait_idle()
    assert scenario.pods() == web
    scenario.cluster.delete("configmap", "settings", wait=True)
    scenario.apply(config_map("settings", colour="red"))
    scenario.replaced(web)


@pytest.mark.slow
def test_an_immutable_config_map_is_replaced_by_delete_and_create(scenario, running, web):
    scenario.apply({**config_map("frozen", colour="blue"), "immutable": True}, monitor("web", "frozen"))
    scenario.watching("web")
    scenario.cluster.delete("configmap", "frozen", wait=True)
    scenario.apply({**config_map("frozen", colour="red"), "immutable": True})
    scenario.replaced(web)


def test_all_labels_of_the_selector_have_to_match(scenario, running):
    both, one = {"app": "web", "tier": "front"}, {"app": "web", "tier": "back"}
    scenario.apply(SETTINGS, deployment("front", 1, both), deployment("back", 1, one))
    front, back = scenario.running(1, "tier=front"), scenario.running(1, "tier=back")
    scenario.apply(monitor("web", labels=both))
    scenario.watching("web")
    scenario.change("settings", colour="red")
    scenario.replaced(front, "tier=front")
    running.wait_idle()
    assert scenario.pods("tier=back") == back


def test_several_monitors_restart_a_pod_once_for_a_change(scenario, running, web):
    names = [f"web-{number}" for number in range(6)]
    scenario.apply(*(monitor(name) for name in names))
    scenario.watching(*names)
    for number, colour in enumerate(("red", "green"), 1):
        scenario.change("settings", colour=colour)
        web = scenario.replaced(web)
        eventually(lambda: len({scenario.status(n)["observedHash"] for n in names}) == 1, what="all have seen it")
        running.wait_idle()
        assert len(scenario.evictions(running.user)) == 2 * number


def test_monitors_of_one_config_map_restart_what_each_selects(scenario, running):
    scenario.apply(SETTINGS, deployment("web"), deployment("api"))
    web, api = scenario.running(2), scenario.running(2, "app=api")
    scenario.apply(monitor("web"), monitor("api", labels={"app": "api"}))
    scenario.watching("web", "api")
    scenario.change("settings", colour="red")
    scenario.replaced(web)
    scenario.replaced(api, "app=api")
    running.wait_idle()
    assert len(scenario.evictions(running.user)) == 4


def test_a_pod_that_reads_several_config_maps_restarts_for_each(scenario, running, web):
    scenario.apply(config_map("more", a="1"), monitor("one"), monitor("two", "more"))
    scenario.watching("one", "two")
    scenario.change("more", a="2")
    web = scenario.replaced(web)
    running.wait_idle()
    scenario.change("settings", colour="red")
    scenario.replaced(web)
    running.wait_idle()
    assert len(scenario.evictions(running.user)) == 4


def test_changes_that_are_made_together_are_one_restart(scenario, running, web, monkeypatch):
    monkeypatch.setattr("configmonitor.controllers.configmonitor_controller.SETTLE_SECONDS", 1.0)
    names = [f"part-{number}" for number in range(4)]
    scenario.apply(*(config_map(name, a="1") for name in names), *(monitor(name, name) for name in names))
    scenario.watching(*names)
    scenario.apply(*(config_map(name, a="2") for name in names))
    scenario.replaced(web)
    for name in names:
        eventually(
            lambda name=name: scenario.condition(name, "Restarting").get("reason") == "Done", what="all are done"
        )
    assert len(scenario.evictions(running.user)) == 2


def test_a_secret_is_watched_and_its_hash_tells_nothing_quickly(scenario, running, web):
    scenario.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "password"}, "stringData": {"p": "one"}})
    scenario.apply(monitor("web", secret="password"))
    scenario.watching("web")
    scenario.change("password", "secret", p="two")
    scenario.replaced(web)
    assert scenario.status("web")["source"] == "Secret/password"
    assert scenario.status("web")["observedHash"].startswith("scrypt:")
    assert "two" not in str(running.log)


def test_the_lower_case_alias_works_and_is_told_to_be_deprecated(scenario, running, web):
    scenario.apply(monitor("old", configmap="settings"))
    scenario.watching("old")
    scenario.change("settings", colour="red")
    scenario.replaced(web)
    (event,) = eventually(lambda: scenario.events("DeprecatedField"), what="a warning")
    assert "write spec.configMap" in event["note"]


@pytest.mark.slow
def test_watching_something_else_restarts_nothing(scenario, running, web):
    scenario.apply(config_map("other", colour="green"), monitor("web"))
    scenario.watching("web")
    scenario.apply(monitor("web", "other"))
    eventually(lambda: scenario.status("web").get("source") == "ConfigMap/other", what="it watches the other one")
    running.wait_idle()
    assert scenario.pods() == web


def test_finished_pods_are_left_alone(scenario, running):
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "done",
            "labels": {"app": "web"},
            "annotations": {"simulate.steersman.dev/exit-code": "0"},
        },
        "spec": {"restartPolicy": "Never", "containers": [{"name": "app", "image": "app"}]},
    }
    scenario.apply(SETTINGS, pod)
    eventually(lambda: scenario.cluster.get("pod", "done")["status"].get("phase") == "Succeeded", what="it has ended")
    scenario.apply(monitor("web"))
    scenario.watching("web")
    scenario.change("settings", colour="red")
    eventually(lambda: scenario.condition("web", "Restarting").get("reason") == "NothingToDo", what="nothing to do")
    assert scenario.evictions(running.user) == []


def test_a_selector_that_matches_nothing_is_told(scenario, running):
    scenario.apply(SETTINGS, monitor("web", labels={"app": "nobody"}))
    eventually(lambda: scenario.condition("web", "PodsSelected").get("status") == "False", what="a condition")
    assert "app=nobody" in scenario.condition("web", "PodsSelected")["message"]


def test_events_tell_the_monitor_and_the_pods(scenario, running, web):
    scenario.apply(monitor("web"))
    scenario.watching("web")
    scenario.change("settings", colour="red")
    scenario.replaced(web)
    told = eventually(
        lambda: found if len(found := scenario.events("ConfigChanged")) >= 3 else None, what="three events"
    )
    assert {(e["regarding"]["kind"], e["regarding"].get("uid")) for e in told} >= {("Pod", uid) for uid in web}
    assert any(e["regarding"]["kind"] == "ConfigMonitor" for e in told)


def test_restarts_and_changes_are_counted(scenario, running, web):
    from steersman.metrics import REGISTRY

    def counted():
        changes = REGISTRY.get_sample_value("configmonitor_changes_total", {"kind": "ConfigMap"}) or 0
        return changes, REGISTRY.get_sample_value("configmonitor_restarts_total", {"how": "evict"}) or 0

    scenario.apply(monitor("web"))
    scenario.watching("web")
    changes, restarts = counted()
    scenario.change("settings", colour="red")
    scenario.replaced(web)
    running.wait_idle()
    assert counted() == (changes + 1, restarts + 2)
