"""A change restarts each selected Pod once, also if the operator ends in between."""

from steersman.testing import eventually
from steersman.testing.faults import throttled

OBJECTS = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: web}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {colour: blue}
---
apiVersion: monitors.example.com/v1
kind: ConfigMonitor
metadata: {name: web}
spec: {configMap: settings, podSelector: {app: web}}
"""


def pods(cluster):
    return {pod["metadata"]["uid"] for pod in cluster.list("pods", labels="app=web")}


def started(cluster):
    """Apply the objects, and return the uids of the Pods once their data is observed."""
    cluster.apply(OBJECTS)
    cluster.wait("deployment", "web", "Available")
    cluster.wait("configmonitor", "web", lambda found: found.get("status", {}).get("observedHash"))
    return pods(cluster)


def test_a_change_restarts_each_pod_once(cluster, operator):
    running = operator("monitors:operator")
    before = started(cluster)
    cluster.patch("configmap", "settings", {"data": {"colour": "red"}})
    eventually(lambda: len(pods(cluster)) == 2 and not pods(cluster) & before, within=30, what="two other Pods")
    cluster.wait("configmonitor", "web", lambda found: not found["status"].get("pending"))
    after = pods(cluster)
    running.wait_idle()
    assert pods(cluster) == after


def test_a_label_of_the_config_map_restarts_nothing(cluster, operator):
    running = operator("monitors:operator")
    before = started(cluster)
    cluster.patch("configmap", "settings", {"metadata": {"labels": {"seen": "yes"}}})
    running.wait_idle()
    assert pods(cluster) == before


def test_an_eviction_that_a_budget_refuses_is_tried_again(cluster, operator, faults):
    operator("monitors:operator")
    before = started(cluster)
    refused = throttled(1, resource="pods/eviction", times=2)
    faults.add(refused)
    cluster.patch("configmap", "settings", {"data": {"colour": "red"}})
    eventually(lambda: len(pods(cluster)) == 2 and not pods(cluster) & before, within=60, what="two other Pods")
    assert faults.struck(refused) == 2
