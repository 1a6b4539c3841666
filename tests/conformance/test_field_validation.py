"""Strict decoding: unknown and repeated fields, values of the wrong type, and what decoding makes of odd values."""

import json
from typing import Any

import pytest

from .harness import Both
from .managed import CONFIG_MAPS, DEPLOYMENTS, define

SPEC = ("spec", "template", "spec")
CONTAINER = (*SPEC, "containers", 0)


def deployment() -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "a", "image": "i", "ports": [{"containerPort": 80}]}]},
            },
        },
    }


def put(path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    obj = deployment()
    found: Any = obj
    for step in path[:-1]:
        found = found[step]
    found[path[-1]] = value
    return obj


MISMATCHES: list[tuple[tuple[Any, ...], Any]] = [
    (("spec", "replicas"), "x"),
    (("spec", "replicas"), 1.5),
    (("spec", "replicas"), True),
    (("spec", "replicas"), 99999999999),
    (("spec", "paused"), 1),
    (("spec", "minReadySeconds"), {}),
    (("spec",), []),
    (("metadata",), "x"),
    (("metadata", "labels"), {"a": 1}),
    (("metadata", "labels"), [1]),
    (("metadata", "creationTimestamp"), 4),
    (("metadata", "creationTimestamp"), "x"),
    (("metadata", "creationTimestamp"), "2020-13-01T00:00:00Z"),
    (("metadata", "creationTimestamp"), "2020-01-01T00:00:00"),
    (("spec", "strategy"), {"rollingUpdate": {"maxSurge": True}}),
    (("spec", "strategy"), {"rollingUpdate": {"maxSurge": 1.5}}),
    ((*SPEC, "containers"), {}),
    ((*SPEC, "nodeSelector"), {"a": {}}),
    ((*SPEC, "tolerations"), [[]]),
    ((*SPEC, "hostNetwork"), "x"),
    ((*SPEC, "securityContext"), {"runAsUser": "x"}),
    ((*SPEC, "volumes"), [{"name": "a", "hostPath": 4}]),
    ((*CONTAINER, "command"), "x"),
    ((*CONTAINER, "command"), [1]),
    ((*CONTAINER, "ports"), [{"containerPort": "5"}]),
    ((*CONTAINER, "ports"), [{"containerPort": 5, "protocol": 5}]),
    ((*CONTAINER, "livenessProbe"), {"httpGet": {"port": []}}),
    ((*CONTAINER, "resources"), {"limits": {"cpu": "abc"}}),
    ((*CONTAINER, "resources"), {"limits": {"cpu": "1kk"}}),
    ((*CONTAINER, "resources"), {"limits": {"cpu": True}}),
]


@pytest.mark.parametrize(("path", "value"), MISMATCHES, ids=range(len(MISMATCHES)))
async def test_values_of_the_wrong_type(both: Both, path: tuple[Any, ...], value: Any):
    await both.same("POST", f"{DEPLOYMENTS}?dryRun=All", put(path, value))


UNKNOWN: list[tuple[tuple[Any, ...], Any]] = [
    (("foo",), 1),
    (("spec", "foo"), {"a": 1}),
    (("metadata", "foo"), None),
    ((*SPEC, "foo"), []),
    ((*CONTAINER, "foo"), 1),
    ((*CONTAINER, "ports", 0, "foo"), "x"),
    (("spec", "Replicas"), 1),
    ((*SPEC, "volumes"), [{"name": "a", "emptyDir": {"foo": 1}}]),
    ((*CONTAINER, "resources"), {"limits": {}, "foo": 1}),
]


@pytest.mark.parametrize("validation", ["Strict", "Warn", "Ignore"])
@pytest.mark.parametrize(("path", "value"), UNKNOWN, ids=range(len(UNKNOWN)))
async def test_unknown_fields(both: Both, path: tuple[Any, ...], value: Any, validation: str):
    await both.same("POST", f"{DEPLOYMENTS}?dryRun=All&fieldValidation={validation}", put(path, value))


@pytest.mark.parametrize("validation", ["Strict", "Warn", "Ignore"])
async def test_repeated_and_unknown_fields_together(both: Both, validation: str):
    obj = put((*CONTAINER, "foo"), 1)
    obj["spec"]["bar"] = {"a": 1}
    obj["zz"] = 2
    text = json.dumps(obj)
    text = text.replace('"replicas": 2', '"replicas": 2, "replicas": 3').replace(
        '"image": "i"', '"image":"i","image":"j"'
    )
    await both.same("POST", f"{DEPLOYMENTS}?dryRun=All&fieldValidation={validation}", text)


async def test_unknown_validation_is_refused(both: Both):
    await both.same("POST", f"{DEPLOYMENTS}?fieldValidation=Maybe", deployment())


@pytest.mark.parametrize("validation", ["Strict", "Warn", "Ignore"])
@pytest.mark.parametrize("verb", ["PUT", "merge", "strategic", "json"])
async def test_unknown_fields_of_updates(both: Both, verb: str, validation: str):
    await both.each("POST", DEPLOYMENTS, deployment())
    path = f"{DEPLOYMENTS}/web?dryRun=All&fieldValidation={validation}"
    match verb:
        case "PUT":
            await both.same("PUT", path, put(("spec", "foo"), 1), ignore=["metadata.managedFields"])
        case "json":
            patch: Any = [{"op": "add", "path": "/spec/foo", "value": 1, "bar": 2}]
            await both.same(
                "PATCH", path, patch, content_type="application/json-patch+json", ignore=["message", "details.causes"]
            )
        case _:
            kind = "merge-patch" if verb == "merge" else "strategic-merge-patch"
            await both.same(
                "PATCH",
                path,
                {"spec": {"foo": 1}},
                content_type=f"application/{kind}+json",
                ignore=["message", "details.causes"],
            )


@pytest.mark.parametrize("validation", ["Strict", "Warn", "Ignore"])
async def test_unknown_fields_of_custom_resources(both: Both, validation: str):
    path = await define(both)
    version = path.split("/")[2] + "/v1"
    foo = {"apiVersion": version, "kind": "Foo", "metadata": {"name": "x", "foo": 1}, "spec": {"n": 1, "q": 1}, "z": 1}
    text = json.dumps(foo).replace('"n": 1', '"n": 1, "n": 2')
    await both.same("POST", f"{path}?dryRun=All&fieldValidation={validation}", text)


ODD: list[tuple[str, dict[str, Any]]] = [
    (CONFIG_MAPS, {"kind": "ConfigMap", "metadata": {"labels": {"a": None}, "annotations": {}}, "data": {"a": None}}),
    (CONFIG_MAPS, {"kind": "ConfigMap", "data": None, "immutable": None}),
    ("/api/v1/namespaces/{ns}/secrets", {"kind": "Secret", "data": {"a": None, "b": "", "c": "YWFh\nYWFh"}}),
    ("/api/v1/namespaces/{ns}/secrets", {"kind": "Secret", "data": {"a": "!!"}}),
    ("/api/v1/namespaces/{ns}/secrets", {"kind": "Secret", "data": {"a": "YQ="}}),
    ("/api/v1/namespaces/{ns}/secrets", {"kind": "Secret", "data": {"a": "YWFhYQ"}}),
    ("/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}/roles", {"kind": "Role"}),
    ("/api/v1/namespaces/{ns}/serviceaccounts", {"kind": "ServiceAccount", "secrets": [], "imagePullSecrets": []}),
    (
        "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases",
        {"kind": "Lease", "spec": {"renewTime": "2020-01-01T00:00:00.500000+02:00", "leaseDurationSeconds": 5}},
    ),
    (
        "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases",
        {"kind": "Lease", "spec": {"renewTime": "2020-01-01T00:00:00Z"}},
    ),
    (
        "/api/v1/namespaces/{ns}/resourcequotas",
        {"kind": "ResourceQuota", "spec": {"hard": {"cpu": "1500m", "memory": "1024Mi", "pods": 3}}},
    ),
]


@pytest.mark.parametrize(("path", "obj"), ODD, ids=range(len(ODD)))
async def test_odd_values_become_what_go_makes_of_them(both: Both, path: str, obj: dict[str, Any]):
    version = path.split("/namespaces")[0].removeprefix("/apis/").removeprefix("/api/")
    body = {"apiVersion": version, **obj, "metadata": {"name": "web", **obj.get("metadata", {})}}
    await both.same("POST", path, body)


BROKEN = ["", "{", "[]", "5", "null", '"x"', "{}", '{"kind":"Deployment"}', '{"apiVersion":"apps/v1"}', '{"a":1}}']


@pytest.mark.parametrize("body", BROKEN, ids=range(len(BROKEN)))
async def test_bodies_that_are_no_objects(both: Both, body: str):
    await both.same("POST", f"{DEPLOYMENTS}?dryRun=All", body)
