"""Writes of which only the managed fields are compared, and their custom resource."""

import asyncio
import random
from typing import Any

from .harness import APPLY, MERGE, STRATEGIC, Answer, Both, compare

CONFIG_MAPS = "/api/v1/namespaces/{ns}/configmaps"
DEPLOYMENTS = "/apis/apps/v1/namespaces/{ns}/deployments"

_SPEC: dict[str, Any] = {
    "type": "object",
    "properties": {
        "n": {"type": "integer"},
        "s": {"type": "string"},
        "atom": {
            "type": "object",
            "x-kubernetes-map-type": "atomic",
            "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        },
        "map": {"type": "object", "additionalProperties": {"type": "string"}},
        "maps": {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "properties": {"x": {"type": "string"}, "y": {"type": "integer"}},
            },
        },
        "set": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "list": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k", "p"],
            "items": {
                "type": "object",
                "required": ["k"],
                "properties": {
                    "k": {"type": "string"},
                    "p": {"type": "string", "default": "TCP"},
                    "v": {"type": "integer"},
                    "inner": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "integer"}},
                },
            },
        },
        "plain": {"type": "array", "items": {"type": "string"}},
        "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "nested": {
            "type": "object",
            "properties": {
                "a": {"type": "object", "properties": {"b": {"type": "string"}, "c": {"type": "string"}}},
            },
        },
    },
}
_STATUS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "ready": {"type": "boolean"},
        "conditions": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
            "items": {
                "type": "object",
                "required": ["type"],
                "properties": {"type": {"type": "string"}, "status": {"type": "string"}},
            },
        },
    },
}


async def define(both: Both) -> str:
    """Install the custom resource under a group of its own on both servers; returns the path of its collection."""
    group = f"{both.namespace}.example.com"
    await both.each(
        "POST",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"foos.{group}"},
            "spec": {
                "group": group,
                "scope": "Namespaced",
                "names": {"plural": "foos", "singular": "foo", "kind": "Foo", "listKind": "FooList"},
                "versions": [
                    {
                        "name": "v1",
                        "served": True,
                        "storage": True,
                        "subresources": {"status": {}},
                        "schema": {
                            "openAPIV3Schema": {
                                "type": "object",
                                "properties": {"spec": _SPEC, "status": _STATUS},
                            }
                        },
                    }
                ],
            },
        },
    )
    path = f"/apis/{group}/v1/namespaces/{{ns}}/foos"
    probe = {"apiVersion": f"{group}/v1", "kind": "Foo", "metadata": {"name": "probe"}}
    async with asyncio.timeout(90):
        while True:
            answers = await both.each("PATCH", f"{path}/probe?fieldManager=probe&dryRun=All", probe, content_type=APPLY)
            if all(answer.code < 300 for answer in answers):
                return path
            await asyncio.sleep(0.05)


async def same(both: Both, method: str, path: str, body: Any = None, **options: Any) -> Answer:
    """As `Both.same`, with conflicts in any order, and 500s of bad input as 400s."""
    ignore = options.pop("ignore", ())
    embedded, real = await both.each(method, path, body, **options)
    if real.code == 500:
        assert embedded.code == 400, embedded
        assert embedded["message"] == real["message"]
        return embedded
    message = real.body.get("message", "") if isinstance(real.body, dict) else ""
    if message.startswith("Apply failed with"):
        # The order of conflicts differs from request to request on the real server.
        assert sorted(embedded["message"].split("\n")[1:]) == sorted(message.split("\n")[1:]), (embedded, real)
        ignore = (*ignore, "message", "details.causes")
    compare(f"{method} {path}", embedded, real, ignore)
    return embedded


async def apply(both: Both, path: str, body: Any, manager: str, *, force: bool = False, **options: Any) -> Answer:
    """Apply on both and compare."""
    query = f"fieldManager={manager}&force={str(force).lower()}"
    return await same(both, "PATCH", f"{path}?{query}", body, content_type=APPLY, **options)


async def merge(both: Both, path: str, body: Any, manager: str, **options: Any) -> Answer:
    """A JSON merge patch on both."""
    return await same(both, "PATCH", f"{path}?fieldManager={manager}", body, content_type=MERGE, **options)


async def strategic(both: Both, path: str, body: Any, manager: str, **options: Any) -> Answer:
    """A strategic merge patch on both."""
    return await same(both, "PATCH", f"{path}?fieldManager={manager}", body, content_type=STRATEGIC, **options)


class Dice:
    """Random objects of one seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def maybe(self, probability: float = 0.5) -> bool:
        return self.random.random() < probability

    def some(self, items: Any, most: int) -> list[Any]:
        return self.random.sample(items, self.random.randint(0, most))

    def metadata(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = {"name": name}
        if self.maybe(0.3):
            found["labels"] = {key: self.random.choice("12") for key in "ab" if self.maybe()}
        if self.maybe(0.2):
            found["annotations"] = {key: self.random.choice("12") for key in ("x/y", "z") if self.maybe()}
        return found

    def foo(self) -> dict[str, Any]:
        """The spec of a custom resource."""
        pick = self.random.choice
        makers = {
            "n": lambda: self.random.randint(0, 3),
            "s": lambda: pick("abc"),
            "atom": lambda: {key: pick("xy") for key in "ab" if self.maybe()},
            "map": lambda: {key: pick("xy") for key in "abc" if self.maybe()},
            "maps": lambda: {key: pick([{"x": pick("pq")}, {"y": 1}, {}]) for key in "ab" if self.maybe()},
            "set": lambda: self.some("abcd", 3),
            "list": lambda: [
                {"k": key, "p": pick(["TCP", "UDP"]), **pick([{"v": 1}, {"v": 2}, {"inner": [1, 10]}, {"inner": []}])}
                for key in self.some("abc", 3)
            ],
            "plain": lambda: [pick("ab") for _ in range(self.random.randint(0, 2))],
            "any": lambda: pick([{}, {"q": 1}, {"q": {"r": [1, 2]}}, {"q": [1], "z": "s"}, {"q": "t", "m": {"n": {}}}]),
            "nested": lambda: pick([{}, {"a": {}}, {"a": {"b": "1"}}, {"a": {"c": "2", "b": "2"}}]),
        }  # fmt: skip
        return {key: make() for key, make in makers.items() if self.maybe(0.35)}

    def pod(self) -> dict[str, Any]:
        """The spec of a Pod that validation takes."""
        pick = self.random.choice
        spec: dict[str, Any] = {"containers": [self.container(name) for name in self.random.sample("abc", 2)]}
        if self.maybe(0.3):
            spec["nodeSelector"] = {key: pick("12") for key in "ab" if self.maybe()}
        if self.maybe(0.2):
            spec["tolerations"] = [{"key": pick("ab"), "operator": "Exists"}]
        if self.maybe(0.3):
            spec["volumes"] = [{"name": name, "emptyDir": {}} for name in self.some("uvw", 2)]
        if self.maybe(0.2):
            spec["imagePullSecrets"] = [{"name": name} for name in self.some("pq", 2)]
        return spec

    def container(self, name: str) -> dict[str, Any]:
        pick = self.random.choice
        found: dict[str, Any] = {"name": name, "image": pick(["x:1", "y:1"])}
        if self.maybe(0.4):
            found["env"] = [{"name": key, "value": pick("12")} for key in self.some("ABC", 3)]
        if self.maybe(0.4):
            found["ports"] = [{"containerPort": port, "protocol": "TCP"} for port in self.some([80, 443, 9000], 2)]
        if self.maybe(0.3):
            found["resources"] = pick([{}, {"limits": {"cpu": "1000m"}}, {"requests": {"memory": "1Gi"}}])
        if self.maybe(0.2):
            found["readinessProbe"] = {"httpGet": {"path": f"/{pick('ab')}", "port": 80}}
        return found

    def deployment(self, name: str) -> dict[str, Any]:
        spec: dict[str, Any] = {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": self.pod()},
        }
        if self.maybe(0.4):
            spec["replicas"] = self.random.randint(0, 3)
        return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": self.metadata(name), "spec": spec}
