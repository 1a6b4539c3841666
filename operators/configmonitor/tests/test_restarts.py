"""Which Pods are restarted, and which are not."""

import base64

import pytest
from steersman.testing import eventually

from .support import config_map, deployment, monitor

SETTINGS = config_map("settings", colour="blue")


@pytest.fixture
def web(world):
    """Two Pods, a ConfigMap that they read, and nobody who watches it yet."""
    world.apply(SETTINGS, deployment("web"))
    return world.running(2)


def test_pods_restart_when_the_data_changes(world, running, web):
    world.apply(monitor("web"))
    world.watching("web")
    world.change("settings", colour="red")
    world.replaced(web)
    running.wait_idle()
    assert len(world.evictions(running.user)) == 2
    status = world.status("web")
    assert (status["restartedPods"], status["source"]) == (2, "ConfigMap/settings")
    assert status["lastRestartTime"]
    assert world.condition("web", "Restarting")["reason"] == "Done"
    assert world.condition("web", "Ready")["status"] == "True"


def test_binary_data_counts(world, running, web):
    world.apply(monitor("web"))
    world.watching("web")
    world.cluster.patch("configmap", "settings", {"binaryData": {"logo": base64.b64encode(b"\xff\x00").decode()}})
    world.replaced(web)


def test_labels_and_annotations_of_a_config_map_restart_nothing(world, running, web):
    world.apply(monitor("web"))
    world.watching("web")
    world.cluster.patch("configmap", "settings", {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}})
    running.wait_idle()
    assert world.evictions(running.user) == []
    assert world.pods() == web


def test_starting_the_operator_restarts_nothing(world, operator, web):
    world.apply(monitor("web"))
    for _ in range(2):
        first = operator("configmonitor:operator")
        world.watching("web")
        first.wait_idle()
        first.stop()
    assert world.pods() == web


def test_a_change_made_while_the_operator_was_down_is_noticed(world, operator, web):
    world.apply(monitor("web"))
    first = operator("configmonitor:operator")
    world.watching("web")
    first.stop()
    world.change("settings", colour="red")
    operator("configmonitor:operator")
    world.replaced(web)


def test_a_config_map_that_appears_restarts_nothing(world, running, web):
    world.apply(monitor("late", "later"))
    eventually(lambda: world.condition("late", "Ready").get("reason") == "SourceMissing", what="it is missed")
    world.apply(config_map("later", colour="blue"))
    world.watching("late")
    running.wait_idle()
    assert world.pods() == web


def test_a_config_map_that_is_made_anew_counts_by_its_data(world, running, web):
    world.apply(monitor("web"))
    world.watching("web")
    world.cluster.delete("configmap", "settings", wait=True)
    eventually(lambda: world.condition("web", "Ready").get("reason") == "SourceMissing", what="it is missed")
    world.apply(SETTINGS)
    eventually(lambda: world.condition("web", "Ready").get("status") == "True", what="it is back")
    running.wait_idle()
    assert world.pods() == web
    world.cluster.delete("configmap", "settings", wait=True)
    world.apply(config_map("settings", colour="red"))
    world.replaced(web)


@pytest.mark.slow
def test_an_immutable_config_map_is_replaced_by_delete_and_create(world, running, web):
    world.apply({**config_map("frozen", colour="blue"), "immutable": True}, monitor("web", "frozen"))
    world.watching("web")
    world.cluster.delete("configmap", "frozen", wait=True)
    world.apply({**config_map("frozen", colour="red"), "immutable": True})
    world.replaced(web)


def test_all_labels_of_the_selector_have_to_match(world, running):
    both, one = {"app": "web", "tier": "front"}, {"app": "web", "tier": "back"}
    world.apply(SETTINGS, deployment("front", 1, both), deployment("back", 1, one))
    front, back = world.running(1, "tier=front"), world.running(1, "tier=back")
    world.apply(monitor("web", labels=both))
    world.watching("web")
    world.change("settings", colour="red")
    world.replaced(front, "tier=front")
    running.wait_idle()
    assert world.pods("tier=back") == back


def test_several_monitors_restart_a_pod_once_for_a_change(world, running, web):
    names = [f"web-{number}" for number in range(6)]
    world.apply(*(monitor(name) for name in names))
    world.watching(*names)
    for number, colour in enumerate(("red", "green"), 1):
        world.change("settings", colour=colour)
        web = world.replaced(web)
        eventually(lambda: len({world.status(n)["observedHash"] for n in names}) == 1, what="all have seen it")
        running.wait_idle()
        assert len(world.evictions(running.user)) == 2 * number


def test_monitors_of_one_config_map_restart_what_each_selects(world, running):
    world.apply(SETTINGS, deployment("web"), deployment("api"))
    web, api = world.running(2), world.running(2, "app=api")
    world.apply(monitor("web"), monitor("api", labels={"app": "api"}))
    world.watching("web", "api")
    world.change("settings", colour="red")
    world.replaced(web)
    world.replaced(api, "app=api")
    running.wait_idle()
    assert len(world.evictions(running.user)) == 4


def test_a_pod_that_reads_several_config_maps_restarts_for_each(world, running, web):
    world.apply(config_map("more", a="1"), monitor("one"), monitor("two", "more"))
    world.watching("one", "two")
    world.change("more", a="2")
    web = world.replaced(web)
    running.wait_idle()
    world.change("settings", colour="red")
    world.replaced(web)
    running.wait_idle()
    assert len(world.evictions(running.user)) == 4


def test_changes_that_are_made_together_are_one_restart(world, running, web, monkeypatch):
    monkeypatch.setattr("configmonitor.controllers.configmonitor_controller.SETTLE_SECONDS", 1.0)
    names = [f"part-{number}" for number in range(4)]
    world.apply(*(config_map(name, a="1") for name in names), *(monitor(name, name) for name in names))
    world.watching(*names)
    world.apply(*(config_map(name, a="2") for name in names))
    world.replaced(web)
    for name in names:
        eventually(lambda name=name: world.condition(name, "Restarting").get("reason") == "Done", what="all are done")
    assert len(world.evictions(running.user)) == 2


def test_a_secret_is_watched_and_its_hash_tells_nothing_quickly(world, running, web):
    world.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "password"}, "stringData": {"p": "one"}})
    world.apply(monitor("web", secret="password"))
    world.watching("web")
    world.change("password", "secret", p="two")
    world.replaced(web)
    assert world.status("web")["source"] == "Secret/password"
    assert world.status("web")["observedHash"].startswith("scrypt:")
    assert "two" not in str(running.log)


def test_the_lower_case_alias_works_and_is_told_to_be_deprecated(world, running, web):
    world.apply(monitor("old", configmap="settings"))
    world.watching("old")
    world.change("settings", colour="red")
    world.replaced(web)
    (event,) = eventually(lambda: world.events("DeprecatedField"), what="a warning")
    assert "write spec.configMap" in event["note"]


@pytest.mark.slow
def test_watching_something_else_restarts_nothing(world, running, web):
    world.apply(config_map("other", colour="green"), monitor("web"))
    world.watching("web")
    world.apply(monitor("web", "other"))
    eventually(lambda: world.status("web").get("source") == "ConfigMap/other", what="it watches the other one")
    running.wait_idle()
    assert world.pods() == web


def test_finished_pods_are_left_alone(world, running):
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
    world.apply(SETTINGS, pod)
    eventually(lambda: world.cluster.get("pod", "done")["status"].get("phase") == "Succeeded", what="it has ended")
    world.apply(monitor("web"))
    world.watching("web")
    world.change("settings", colour="red")
    eventually(lambda: world.condition("web", "Restarting").get("reason") == "NothingToDo", what="nothing to do")
    assert world.evictions(running.user) == []


def test_a_selector_that_matches_nothing_is_told(world, running):
    world.apply(SETTINGS, monitor("web", labels={"app": "nobody"}))
    eventually(lambda: world.condition("web", "PodsSelected").get("status") == "False", what="a condition")
    assert "app=nobody" in world.condition("web", "PodsSelected")["message"]


def test_events_tell_the_monitor_and_the_pods(world, running, web):
    world.apply(monitor("web"))
    world.watching("web")
    world.change("settings", colour="red")
    world.replaced(web)
    told = eventually(lambda: found if len(found := world.events("ConfigChanged")) >= 3 else None, what="three events")
    assert {(e["regarding"]["kind"], e["regarding"].get("uid")) for e in told} >= {("Pod", uid) for uid in web}
    assert any(e["regarding"]["kind"] == "ConfigMonitor" for e in told)


def test_restarts_and_changes_are_counted(world, running, web):
    from steersman.metrics import REGISTRY

    def counted():
        changes = REGISTRY.get_sample_value("configmonitor_changes_total", {"kind": "ConfigMap"}) or 0
        return changes, REGISTRY.get_sample_value("configmonitor_restarts_total", {"how": "evict"}) or 0

    world.apply(monitor("web"))
    world.watching("web")
    changes, restarts = counted()
    world.change("settings", colour="red")
    world.replaced(web)
    running.wait_idle()
    assert counted() == (changes + 1, restarts + 2)
