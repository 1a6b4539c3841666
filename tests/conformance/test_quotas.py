"""ResourceQuotas on both servers: scopes, and what Pods, claims of storage and claims of devices use."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest

from .harness import Both

QUOTAS = "/api/v1/namespaces/{ns}/resourcequotas"
PODS = "/api/v1/namespaces/{ns}/pods"
VOLUMES = "/api/v1/namespaces/{ns}/persistentvolumeclaims"
DEVICES = "/apis/resource.k8s.io/{version}/namespaces/{ns}/resourceclaims"


def selector(*rules: tuple[str, str, list[str]]) -> dict[str, Any]:
    return {"matchExpressions": [{"scopeName": n, "operator": o, **({"values": v} if v else {})} for n, o, v in rules]}


@pytest.mark.parametrize(
    "spec",
    [
        {"hard": {"pods": "1"}, "scopeSelector": selector(("Nothing", "Exists", []))},
        {"hard": {"pods": "1"}, "scopeSelector": selector(("BestEffort", "In", ["a"]))},
        {"hard": {"pods": "1"}, "scopeSelector": selector(("PriorityClass", "In", []))},
        {"hard": {"pods": "1"}, "scopeSelector": selector(("PriorityClass", "Exists", ["a"]))},
        {"hard": {"pods": "1"}, "scopeSelector": selector(("PriorityClass", "Maybe", ["a"]))},
        {"hard": {"services": "1"}, "scopeSelector": selector(("PriorityClass", "In", ["a"]))},
        {
            "hard": {"pods": "1"},
            "scopeSelector": selector(("BestEffort", "Exists", []), ("NotBestEffort", "Exists", [])),
        },
        {"hard": {"pods": "1"}, "scopes": ["CrossNamespacePodAffinity"]},
        {"hard": {"services": "1"}, "scopes": ["CrossNamespacePodAffinity"]},
        {"hard": {"persistentvolumeclaims": "1"}, "scopes": ["VolumeAttributesClass"]},
        {"hard": {"pods": "1"}, "scopes": ["VolumeAttributesClass"]},
        {"hard": {"persistentvolumeclaims": "1"}, "scopeSelector": selector(("VolumeAttributesClass", "In", ["a"]))},
    ],
)
async def test_scopes_are_refused_alike(both: Both, spec: dict[str, Any]) -> None:
    await both.same("POST", f"{QUOTAS}?dryRun=All", {"metadata": {"name": "q"}, "spec": spec})


async def limited(both: Both, **spec: Any) -> None:
    """Make a quota of which nothing is used, and wait until both servers heed it.

    The status is written as a controller writes it. A second quota, which leaves room for no ConfigMap, tells when the
    real server knows of both.
    """
    path = QUOTAS.replace("{ns}", both.namespace)
    for server in both.servers:
        for name, given in (("q", spec), ("probe", {"hard": {"configmaps": "0"}})):
            made = await server.ask("POST", path, {"metadata": {"name": name}, "spec": given})
            assert made.code == 201, made.body
            status = {"hard": given["hard"], "used": dict.fromkeys(given["hard"], "0")}
            assert (await server.ask("PUT", f"{path}/{name}/status", {**made.body, "status": status})).code == 200
        maps = f"/api/v1/namespaces/{both.namespace}/configmaps?dryRun=All"
        async with asyncio.timeout(30):
            while (await server.ask("POST", maps, {"metadata": {"name": "m"}})).code == 201:  # noqa: ASYNC110
                await asyncio.sleep(0.02)


def term(**more: Any) -> dict[str, Any]:
    return {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"a": "b"}}, **more}


REQUIRED, PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)
AFFINITIES: dict[str, dict[str, Any]] = {
    "none": {},
    "own namespace": {"podAffinity": {REQUIRED: [term()]}},
    "named namespaces": {"podAffinity": {REQUIRED: [term(namespaces=["x"])]}},
    "selected namespaces": {"podAntiAffinity": {REQUIRED: [term(namespaceSelector={})]}},
    "preferred": {"podAffinity": {PREFERRED: [{"weight": 1, "podAffinityTerm": term(namespaces=["x"])}]}},
    "preferred apart": {"podAntiAffinity": {PREFERRED: [{"weight": 1, "podAffinityTerm": term(namespaceSelector={})}]}},
}


@pytest.mark.parametrize("name", AFFINITIES)
async def test_affinity_to_other_namespaces_is_limited_alike(both: Both, name: str) -> None:
    await limited(both, hard={"pods": "0"}, scopes=["CrossNamespacePodAffinity"])
    spec = {"containers": [{"name": "a", "image": "i"}], "affinity": AFFINITIES[name]}
    await both.same("POST", f"{PODS}?dryRun=All", {"metadata": {"name": "p"}, "spec": spec})


@pytest.mark.parametrize("operator", ["In", "NotIn", "Exists", "DoesNotExist"])
@pytest.mark.parametrize("used", ["gold", "silver", ""])
async def test_classes_of_volume_attributes_are_limited_alike(both: Both, operator: str, used: str) -> None:
    values = ["gold"] if operator in ("In", "NotIn") else []
    scopes = selector(("VolumeAttributesClass", operator, values))
    await limited(both, hard={"persistentvolumeclaims": "0", "requests.storage": "1Gi"}, scopeSelector=scopes)
    spec: dict[str, Any] = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}}
    if used:
        spec["volumeAttributesClassName"] = used
    await both.same("POST", f"{VOLUMES}?dryRun=All", {"metadata": {"name": "c"}, "spec": spec})


REQUESTS: dict[str, list[dict[str, Any]]] = {
    "one": [{"name": "a", "exactly": {"deviceClassName": "gpu"}}],
    "three": [{"name": "a", "exactly": {"deviceClassName": "gpu", "count": 3}}],
    "all": [{"name": "a", "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}}],
    "another class": [{"name": "a", "exactly": {"deviceClassName": "nic", "count": 3}}],
    "together": [
        {"name": "a", "exactly": {"deviceClassName": "gpu", "count": 2}},
        {"name": "b", "exactly": {"deviceClassName": "gpu"}},
    ],
    "alternatives": [
        {
            "name": "a",
            "firstAvailable": [
                {"name": "x", "deviceClassName": "gpu", "count": 2},
                {"name": "y", "deviceClassName": "gpu", "count": 4},
                {"name": "z", "deviceClassName": "nic"},
            ],
        }
    ],
}


@pytest.mark.parametrize("version", ["v1", "v1beta1", "v1beta2"])
@pytest.mark.parametrize("name", REQUESTS)
async def test_claims_of_devices_are_limited_alike(both: Both, name: str, version: str) -> None:
    path = DEVICES.replace("{version}", version)
    if any(answer.code == 404 for answer in await both.each("GET", path)):
        await both.same("GET", path)
        return
    await limited(
        both, hard={"gpu.deviceclass.resource.k8s.io/devices": "2", "count/resourceclaims.resource.k8s.io": "5"}
    )
    requests = [
        {"name": one["name"], **one["exactly"]} if version == "v1beta1" and "exactly" in one else one
        for one in REQUESTS[name]
    ]
    body = {"metadata": {"name": "c"}, "spec": {"devices": {"requests": requests}}}
    await both.same("POST", f"{path}?dryRun=All", body)


CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"


@pytest.mark.parametrize("version", ["v1"])
async def test_claims_count_as_the_extended_resources_of_their_class_alike(both: Both, version: str) -> None:
    path = DEVICES.replace("{version}", version)
    name = f"gpu-{os.urandom(4).hex()}"
    extended = f"{name}.example.com/gpu"
    await both.each("POST", CLASSES, {"metadata": {"name": name}, "spec": {"extendedResourceName": extended}})
    try:
        implicit = f"requests.deviceclass.resource.kubernetes.io/{name}"
        await limited(both, hard={f"requests.{extended}": "2", implicit: "3"})
        for count in (2, 3, 4):
            requests = [{"name": "r", "exactly": {"deviceClassName": name, "count": count}}]
            body = {"metadata": {"name": "c"}, "spec": {"devices": {"requests": requests}}}
            await both.same("POST", f"{path}?dryRun=All", body)
    finally:
        await both.each("DELETE", f"{CLASSES}/{name}")
