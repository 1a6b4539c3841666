"""The example does what its first line says."""

import datetime

from steersman.testing import eventually

SETTINGS = """
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, annotations: {restarter.example.com/pods: app=web}}
data: {colour: COLOUR}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: web}]}
"""


def pods(cluster):
    found = cluster.list("pods", labels="app=web")
    return {p["metadata"]["uid"] for p in found if not p["metadata"].get("deletionTimestamp")}


def seen(cluster):
    return cluster.get("configmap", "settings")["metadata"]["annotations"].get("restarter.example.com/seen")


def older_than(cluster, uids):
    """Creation has a resolution of a second: wait until the clock shows a later one than that of all Pods."""
    born = max(p["metadata"]["creationTimestamp"] for p in cluster.list("pods") if p["metadata"]["uid"] in uids)
    return f"{datetime.datetime.now(datetime.UTC):%Y-%m-%dT%H:%M:%SZ}" > born


def test_pods_restart_when_the_config_map_changes_and_at_no_other_time(cluster, operator):
    cluster.apply(SETTINGS.replace("COLOUR", "blue"))
    before = eventually(lambda: found if len(found := pods(cluster)) == 2 else None, what="two Pods")
    running = operator("restarter:operator")
    first = eventually(lambda: seen(cluster), what="it has been seen")
    running.wait_idle()
    assert pods(cluster) == before
    eventually(lambda: older_than(cluster, before), what="the next second")

    cluster.apply(SETTINGS.replace("COLOUR", "red"))
    eventually(lambda: len(found := pods(cluster)) == 2 and not found & before, what="two new Pods")
    running.wait_idle()
    after = pods(cluster)
    assert seen(cluster) != first
    running.stop()
    again = operator("restarter:operator")
    again.wait_idle()
    assert pods(cluster) == after
