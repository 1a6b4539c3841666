"""Pods and workloads, created, changed, read and deleted on both servers."""

import json
from pathlib import Path
from typing import Any

import pytest

from .harness import APPLY, MERGE, STRATEGIC, Both

RECORDED = Path(__file__).parent.parent / "cluster" / "kinds" / "recorded_workloads.json"
CASES: list[dict[str, Any]] = json.loads(RECORDED.read_text())
GROUPS = {"Job": "/apis/batch/v1", "CronJob": "/apis/batch/v1"}
CORE = ("Pod", "PodTemplate", "ReplicationController")
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}}
SPEC = {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}
POD = {"metadata": {"name": "p", "labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}}


def collection(kind: str) -> str:
    root = "/api/v1" if kind in CORE else GROUPS.get(kind, "/apis/apps/v1")
    return f"{root}/namespaces/{{ns}}/{kind.lower()}s"


@pytest.mark.parametrize("case", CASES, ids=[f"{case['kind']} {case['case']}" for case in CASES])
async def test_a_new_object_gets_the_same_answer(both: Both, case: dict[str, Any]):
    await both.same("POST", collection(case["kind"]), case["sent"])


async def test_a_pod_lives_the_same_life(both: Both):
    pods = collection("Pod")
    await both.same("POST", pods, POD)
    await both.same("POST", pods, POD)
    await both.same("PATCH", f"{pods}/p", {"metadata": {"labels": {"c": "d"}}}, content_type=MERGE)
    await both.same(
        "PATCH", f"{pods}/p", {"spec": {"containers": [{"name": "c", "image": "y"}]}}, content_type=STRATEGIC
    )
    binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n1"}}
    await both.same("POST", f"{pods}/p/binding", binding)
    await both.same("POST", f"{pods}/p/binding", binding)
    running = {"status": {"phase": "Running", "podIP": "10.1.2.3", "conditions": [{"type": "Ready", "status": "True"}]}}
    await both.same("PATCH", f"{pods}/p/status", running, content_type=STRATEGIC)
    await both.same("GET", f"{pods}/p")
    await both.same("GET", f"{pods}?fieldSelector=status.phase=Running,spec.nodeName=n1")
    await both.same("GET", f"{pods}?fieldSelector=spec.bogus=1")
    await both.same("DELETE", f"{pods}/p")
    await both.same("GET", f"{pods}/p")
    await both.same("DELETE", f"{pods}/p", {"gracePeriodSeconds": 0})
    await both.same("GET", f"{pods}/p")


async def test_a_binding_that_fits_no_pod_is_refused_alike(both: Both):
    await both.same("POST", collection("Pod"), POD)
    path = f"{collection('Pod')}/p/binding"
    node = {"kind": "Node", "name": "n1"}
    await both.same("POST", path, {"metadata": {"name": "p"}, "target": {"name": ""}})
    await both.same("POST", path, {"metadata": {"name": "p"}, "target": {"kind": "X", "name": ""}})
    await both.same("POST", path, {"metadata": {"name": "q"}, "target": node})
    await both.same("POST", path, {"metadata": {"name": "p", "labels": {"l": "m"}}, "target": node})
    await both.same("GET", f"{collection('Pod')}/p")


async def test_an_unscheduled_pod_goes_at_once(both: Both):
    await both.same("POST", collection("Pod"), POD)
    await both.same("DELETE", f"{collection('Pod')}/p")
    await both.same("GET", f"{collection('Pod')}/p")


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet"])
async def test_scaling_is_the_same(both: Both, kind: str):
    path = f"{collection(kind)}/w"
    await both.same("POST", collection(kind), {"metadata": {"name": "w"}, "spec": SPEC})
    await both.same("GET", f"{path}/scale")
    await both.same("PATCH", f"{path}/scale", {"spec": {"replicas": 3}}, content_type=MERGE)
    await both.same("PATCH", f"{path}/scale", {"spec": {"replicas": -1}}, content_type=MERGE)
    await both.same("GET", path, ignore=["metadata.managedFields"])


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"])
async def test_changes_are_the_same(both: Both, kind: str):
    path = f"{collection(kind)}/w"
    await both.same("POST", collection(kind), {"metadata": {"name": "w"}, "spec": SPEC})
    image = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "y"}]}}}}
    await both.same("PATCH", path, image, content_type=STRATEGIC)
    await both.same("PATCH", path, {"metadata": {"annotations": {"k": "v"}}}, content_type=MERGE)
    await both.same("PATCH", path, {"spec": {"selector": {"matchLabels": {"a": "c"}}}}, content_type=MERGE)
    await both.same("PATCH", f"{path}/status", {"status": {"observedGeneration": 2}}, content_type=MERGE)


async def test_applying_a_deployment_is_the_same(both: Both):
    path = f"{collection('Deployment')}/w?fieldManager=m"
    applied = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "w"}, "spec": SPEC}
    await both.same("PATCH", path, applied, content_type=APPLY)
    applied["spec"] = {**SPEC, "replicas": 2}
    await both.same("PATCH", path, applied, content_type=APPLY)
