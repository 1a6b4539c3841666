"""JSON patch, JSON merge patch and strategic merge patch: outcomes and refusals."""

from typing import Any

import pytest

from .harness import JSON_PATCH, MERGE, STRATEGIC, Both
from .managed import CONFIG_MAPS, DEPLOYMENTS, define, same

MAP = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {
        "name": "web",
        "labels": {"a": "b"},
        "annotations": {"a/b": "1"},
        "finalizers": ["x.io/a", "x.io/b"],
    },
    "data": {"a": "1", "b": "2"},
}
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "labels": {"a": "b"}, "finalizers": ["x.io/a", "x.io/b"]},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"a": "b"}},
        "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {
                "containers": [
                    {
                        "name": "a",
                        "image": "i",
                        "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
                        "ports": [{"containerPort": 80}],
                    },
                    {"name": "b", "image": "j"},
                ],
                "volumes": [{"name": "v", "emptyDir": {}}],
            },
        },
    },
}


def op(name: str, path: Any = None, **more: Any) -> dict[str, Any]:
    found = {"op": name, **({} if path is None else {"path": path}), **more}
    return {"from" if key == "source" else key: value for key, value in found.items()}


JSON_PATCHES: list[Any] = [
    [op("add", "/data/c", value="3")],
    [op("add", "/data/a", value="3")],
    [op("add", "/metadata/finalizers/-", value="x.io/c")],
    [op("add", "/metadata/finalizers/0", value="x.io/c")],
    [op("add", "/metadata/finalizers/9", value="x.io/c")],
    [op("add", "/metadata/finalizers/x", value="x.io/c")],
    [op("add", "/metadata/annotations/a~1c", value="2")],
    [op("add", "/nope/a", value="2")],
    [op("add", "/foo", value=3)],
    [op("add", "/foo", value=3, bar=1)],
    [op("add", "/data", value=None)],
    [op("add")],
    [op("add", "data", value="x")],
    [op("add", 5, value="x")],
    [op("remove", "/data/a")],
    [op("remove", "/data/zz")],
    [op("remove", "/metadata/finalizers/-1")],
    [op("remove", "/metadata/finalizers/5")],
    [op("replace", "/data/a", value="9")],
    [op("replace", "/data/zz", value="9")],
    [op("replace", "/data/a", value="1")],
    [op("replace", "/metadata/finalizers/7", value="9")],
    [op("replace", "", value={})],
    [op("replace", "", value=5)],
    [op("test", "/data/a", value="1"), op("remove", "/data/a")],
    [op("test", "/data/a", value="2"), op("remove", "/data/a")],
    [op("test", "/nope")],
    [op("test", "/nope", value=None)],
    [op("test", "", value={})],
    [op("move", "/data/q", source="/data/a")],
    [op("move", "/data/q", source="/data/nope")],
    [op("copy", "/data/q", source="/data/a")],
    [op("copy", "/data/q", source="/data/nope")],
    [op("copy", "/data/q")],
    [op("foo", "/data/a")],
    [op("replace", "/metadata/name", value="other")],
    [op("replace", "/kind", value="Secret")],
    [{"op": 5, "path": "/data/a"}],
    [],
    {},
    "5",
    "null",
    "{",
    [1],
    ["x"],
    [None],
    [{"op": "copy", "from": "/metadata", "path": "/metadata/more"}] * 40,
    [{"op": "add", "path": "/data/long", "value": "x" * 700_000}]
    + [{"op": "copy", "from": "/data/long", "path": "/data/same"}] * 5,
]


@pytest.mark.parametrize("patch", JSON_PATCHES, ids=range(len(JSON_PATCHES)))
async def test_json_patch(both: Both, patch: Any):
    await both.each("POST", f"{CONFIG_MAPS}?fieldManager=one", MAP)
    # What cannot be decoded is quoted whole, with the server's own version and uid in it.
    quoted = ("message", "details.causes") if any(op.get("path") == "/kind" for op in _operations(patch)) else ()
    await same(both, "PATCH", f"{CONFIG_MAPS}/web?fieldManager=two", patch, content_type=JSON_PATCH, ignore=quoted)


def _operations(patch: Any) -> list[dict[str, Any]]:
    return [op for op in patch if isinstance(op, dict)] if isinstance(patch, list) else []


MERGE_PATCHES: list[Any] = [
    {"data": {"a": "5"}},
    {"data": {"c": "5"}},
    {"data": {"a": None}},
    {"data": None},
    {"data": {}},
    {},
    {"foo": 1},
    {"metadata": {"finalizers": None}},
    {"metadata": {"finalizers": ["x.io/c"]}},
    {"metadata": {"labels": {"x": None, "y": "z"}}},
    {"metadata": {"labels": {"a": None}}},
    {"metadata": {"name": "other"}},
    {"metadata": {"resourceVersion": "1"}},
    {"metadata": {"uid": "x"}},
    {"metadata": None},
    {"immutable": True},
    {"binaryData": {"q": "YQ=="}},
    "[1]",
    "5",
    "null",
    '"x"',
    "{",
    '{"data":{"a":"1","a":"2"}}',
]


@pytest.mark.parametrize("patch", MERGE_PATCHES, ids=range(len(MERGE_PATCHES)))
async def test_merge_patch(both: Both, patch: Any):
    await both.each("POST", f"{CONFIG_MAPS}?fieldManager=one", MAP)
    await same(both, "PATCH", f"{CONFIG_MAPS}/web?fieldManager=two", patch, content_type=MERGE)


@pytest.mark.parametrize("patch", [{"data": {"a": 1}}, {"data": "x"}, {"binaryData": {"q": "!!"}}, {"data": {"z": {}}}])
async def test_merge_patches_that_cannot_be_decoded(both: Both, patch: Any):
    await both.each("POST", f"{CONFIG_MAPS}?fieldManager=one", MAP)
    # The message quotes the whole document, with its version and in Go's order.
    refused = await same(
        both, "PATCH", f"{CONFIG_MAPS}/web", patch, content_type=MERGE, ignore=["message", "details.causes"]
    )
    assert refused["message"].startswith(' "" is invalid: patch: Invalid value: "{')


def pod(**spec: Any) -> dict[str, Any]:
    return {"spec": {"template": {"spec": spec}}}


STRATEGIC_PATCHES: list[Any] = [
    {"spec": {"replicas": 5}},
    {"spec": {"replicas": None}},
    pod(containers=[{"name": "a", "image": "z"}]),
    pod(containers=[{"name": "c", "image": "z"}]),
    pod(containers=[{"name": "c", "image": "c"}, {"name": "a", "image": "z"}]),
    pod(containers=[{"name": "b", "$patch": "delete"}]),
    pod(containers=[{"$patch": "replace"}, {"name": "q", "image": "w"}]),
    pod(**{"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}], "containers": [{"name": "b", "image": "k"}]}),
    pod(**{"$setElementOrder/containers": [{"name": "b"}], "containers": [{"name": "a", "image": "k"}]}),
    pod(**{"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}),
    pod(containers=[{"image": "z"}]),
    pod(containers=["x"]),
    pod(containers=[["x"]]),
    pod(containers=[{"name": "a", "$patch": "foo"}]),
    pod(containers=None),
    pod(containers=[{"name": "a", "env": None}]),
    pod(containers=[{"name": "a", "env": [{"name": "B", "$patch": "delete"}, {"name": "C", "value": "3"}]}]),
    pod(containers=[{"name": "a", "ports": [{"containerPort": 80, "protocol": "UDP"}]}]),
    pod(containers=[{"name": "a", "command": ["x"]}]),
    pod(containers=[{"name": "a", "resources": {"limits": {"cpu": "2000m"}}}]),
    pod(containers=[{"name": "a", "foo": 1}]),
    pod(containers=[{"name": "n", "image": "x", "$setElementOrder/env": [{"name": "A"}], "env": [{"name": "A"}]}]),
    pod(volumes=[{"name": "v", "$retainKeys": ["name", "configMap"], "configMap": {"name": "m"}}]),
    pod(volumes=[{"name": "v", "$retainKeys": ["name"], "configMap": {"name": "m"}}]),
    pod(volumes=[{"name": "v", "configMap": {"name": "m"}}]),
    pod(tolerations=[{"key": "a", "operator": "Exists"}]),
    pod(imagePullSecrets=[{"name": "p"}]),
    {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}},
    {"spec": {"strategy": {"type": "Recreate"}}},
    {"spec": {"selector": {"matchLabels": {"a": "c"}}}},
    {"spec": {"template": {"$patch": "delete"}}},
    {"spec": None},
    {"spec": {"foo": {"a": 1}}},
    {"foo": 1},
    {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x.io/a"]}},
    {"metadata": {"$deleteFromPrimitiveList": ["x"]}},
    {"metadata": {"finalizers": ["x.io/c"]}},
    {"metadata": {"$setElementOrder/finalizers": ["x.io/c", "x.io/a"], "finalizers": ["x.io/c"]}},
    {"metadata": {"$setElementOrder/finalizers": "x"}},
    {"metadata": {"$setElementOrder/foo": ["x"]}},
    {"metadata": {"labels": {"a": None, "n": "1"}}},
    {"metadata": {"labels": {"$patch": "replace", "z": "1", "a": "b"}}},
    {"metadata": {"annotations": None}},
    {"metadata": {"ownerReferences": [{"uid": "u", "name": "n", "kind": "K", "apiVersion": "v1"}]}},
    {"$patch": "delete"},
    {"$patch": "merge"},
    "[1]",
    "5",
    "null",
    '"x"',
    "{",
]


@pytest.mark.parametrize("patch", STRATEGIC_PATCHES, ids=range(len(STRATEGIC_PATCHES)))
async def test_strategic_patch(both: Both, patch: Any):
    await both.each("POST", f"{DEPLOYMENTS}?fieldManager=one", DEPLOYMENT)
    await same(both, "PATCH", f"{DEPLOYMENTS}/web?fieldManager=two", patch, content_type=STRATEGIC)


@pytest.mark.parametrize("kind", [JSON_PATCH, MERGE, STRATEGIC])
async def test_patching_nothing(both: Both, kind: str):
    await both.same("PATCH", f"{CONFIG_MAPS}/nope", [] if kind == JSON_PATCH else {}, content_type=kind)


@pytest.mark.parametrize("kind", ["application/json", "text/plain", "application/xml"])
async def test_unknown_kinds_of_patches(both: Both, kind: str):
    await both.each("POST", CONFIG_MAPS, MAP)
    await both.same("PATCH", f"{CONFIG_MAPS}/web", {}, content_type=kind)


async def test_custom_resources_have_no_strategic_patch(both: Both):
    path = await define(both)
    version = path.split("/")[2] + "/v1"
    await both.each("POST", path, {"apiVersion": version, "kind": "Foo", "metadata": {"name": "x"}})
    await both.same("PATCH", f"{path}/x", {"spec": {}}, content_type=STRATEGIC)
    await same(both, "PATCH", f"{path}/x?fieldManager=m", {"spec": {"n": 1, "foo": 2}}, content_type=MERGE)
    await same(both, "PATCH", f"{path}/x?fieldManager=m", [op("add", "/spec/s", value="x")], content_type=JSON_PATCH)
