"""MutatingAdmissionPolicies: the same changes and refusals on both servers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from .harness import Both
from .test_admission import HOOKS

MAPS = "/api/v1/namespaces/{ns}/configmaps"
PODS = "/api/v1/namespaces/{ns}/pods"
CONTAINER = {"name": "a", "image": "i"}
POD = {"metadata": {"name": "p", "labels": {"a": "b"}}, "spec": {"containers": [CONTAINER]}}


def apply(expression: str) -> dict[str, Any]:
    return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}


def patches(expression: str) -> dict[str, Any]:
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}


LABEL = apply("Object{metadata: Object.metadata{labels: {'by': 'policy'}}}")
SIDECAR = apply(
    "Object{spec: Object.spec{containers: [Object.spec.containers{name: 'side', image: 's', args: ['x']}]}}"
)
SPECS: dict[str, dict[str, Any]] = {
    "label": {"mutations": [LABEL]},
    "sidecar": {"mutations": [apply(
        "Object{spec: Object.spec{containers: [Object.spec.containers{name: 'side', image: 's'}]}}"
    )]},
    "atomic": {"mutations": [SIDECAR]},
    "unknown field": {"mutations": [apply("Object{spec: Object.spec{nothing: 1}}")]},
    "wrong type": {"mutations": [apply("Object{spec: Object.spec{nodeName: 1}}")]},
    "wrong name": {"mutations": [apply("Object{spec: Object.metadata{nodeName: 'x'}}")]},
    "failing": {"mutations": [apply("Object{spec: Object.spec{nodeName: object.spec.nothing}}")]},
    "failing, ignored": {
        "failurePolicy": "Ignore",
        "mutations": [apply("Object{spec: Object.spec{nodeName: object.spec.nothing}}")],
    },
    "one of two fails": {"mutations": [apply("Object{spec: Object.spec{nodeName: object.spec.nothing}}"), LABEL]},
    "patch": {"mutations": [patches("[JSONPatch{op: 'add', path: '/metadata/labels/x', value: 'y'}]")]},
    "patch with a key": {"mutations": [patches(
        "[JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('e.x/y'), value: object.metadata.name}]"
    )]},
    "patch of an object": {"mutations": [patches(
        "[JSONPatch{op: 'add', path: '/spec/containers/-', value: Object{name: 'c', image: 'd', env:"
        " [Object.env{name: 'E', value: 'F'}]}}]"
    )]},
    "test that holds": {"mutations": [patches(
        "[JSONPatch{op: 'test', path: '/metadata/labels/a', value: 'b'},"
        " JSONPatch{op: 'remove', path: '/metadata/labels/a'}]"
    )]},
    "test that fails": {"mutations": [patches(
        "[JSONPatch{op: 'test', path: '/metadata/labels/a', value: 'c'},"
        " JSONPatch{op: 'remove', path: '/metadata/labels/a'}]"
    )]},
    "missing path": {"mutations": [patches("[JSONPatch{op: 'remove', path: '/nothing'}]")]},
    "unknown operation": {"mutations": [patches("[JSONPatch{op: 'merge', path: '/metadata/labels'}]")]},
    "no object": {"mutations": [patches("[JSONPatch{op: 'replace', path: '/spec', value: 5}]")]},
    "variables": {
        "variables": [{"name": "x", "expression": "object.metadata.name + '-x'"}],
        "mutations": [apply("Object{metadata: Object.metadata{labels: {'by': variables.x}}}")],
    },
    "condition": {
        "matchConditions": [{"name": "c", "expression": "object.metadata.name == 'q'"}],
        "mutations": [LABEL],
    },
    "failing condition": {
        "matchConditions": [{"name": "c", "expression": "object.metadata.nothing == 'q'"}],
        "mutations": [LABEL],
    },
    "in order": {"mutations": [
        patches("[JSONPatch{op: 'add', path: '/metadata/labels/n', value: '1'}]"),
        patches("[JSONPatch{op: 'add', path: '/metadata/labels/m', value: object.metadata.labels.n + '2'}]"),
    ]},
}  # fmt: skip


class Policies:
    """Policies of one test on both servers; waits until the real server evaluates them."""

    def __init__(self, both: Both) -> None:
        self.both = both
        self._made: list[str] = []

    async def register(self, *specs: dict[str, Any], params: dict[str, Any] | None = None) -> None:
        probe = {"mutations": [patches("[JSONPatch{op: 'add', path: '/metadata/labels', value: {'seen': 'yes'}}]")]}
        for index, spec in enumerate((*specs, probe)):
            name = f"{self.both.namespace}-{index}"
            last = spec is probe
            match = {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": self.both.namespace}},
                "resourceRules": [{
                    "operations": ["CREATE", "UPDATE"], "apiGroups": [""], "apiVersions": ["v1"],
                    "resources": ["secrets"] if last else ["pods", "configmaps"],
                }],
            }  # fmt: skip
            body = {"matchConstraints": match, "reinvocationPolicy": "Never", **spec}
            if params is not None and not last:
                body["paramKind"] = {"apiVersion": "v1", "kind": "ConfigMap"}
            binding: dict[str, Any] = {"policyName": name}
            if params is not None and not last:
                binding["paramRef"] = params
            for kind, given in (("policies", body), ("policybindings", binding)):
                await self.both.each(
                    "POST", f"{HOOKS}/mutatingadmission{kind}", {"metadata": {"name": name}, "spec": given}
                )
                self._made.append(f"{HOOKS}/mutatingadmission{kind}/{name}")
        secret = {"metadata": {"generateName": "probe-"}}
        path = f"/api/v1/namespaces/{self.both.namespace}/secrets?dryRun=All"
        for server in self.both.servers:
            async with asyncio.timeout(90):
                while "labels" not in (await server.ask("POST", path, secret)).body["metadata"]:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)

    async def close(self) -> None:
        for path in self._made:
            await self.both.each("DELETE", path)


@pytest.fixture
async def policies(both: Both):
    made = Policies(both)
    yield made
    await made.close()


@pytest.mark.parametrize("name", SPECS)
async def test_a_pod_is_changed_or_refused_alike(both: Both, policies: Policies, name: str) -> None:
    await policies.register(SPECS[name])
    await both.same("POST", f"{PODS}?dryRun=All", POD)


async def test_policies_are_evaluated_again_when_they_wish(both: Both, policies: Policies) -> None:
    """The real server evaluates policies in any order: in either, the second round sees what the first one made."""
    expression = "Object{metadata: Object.metadata{labels: {'seen': has(object.metadata.labels.late) ? 'late' : 'no'}}}"
    late = apply("Object{metadata: Object.metadata{labels: {'late': 'yes'}}}")
    again = {"reinvocationPolicy": "IfNeeded"}
    await policies.register({**again, "mutations": [apply(expression)]}, {"mutations": [late]})
    await both.same("POST", f"{PODS}?dryRun=All", POD)


@pytest.mark.parametrize("action", ["Deny", "Allow"])
async def test_policies_read_their_parameters(both: Both, policies: Policies, action: str) -> None:
    spec = {"mutations": [apply("Object{metadata: Object.metadata{labels: {'from': params.data.label}}}")]}
    reference = {"name": "settings", "parameterNotFoundAction": action}
    await policies.register(spec, params=reference)
    await both.same("POST", f"{PODS}?dryRun=All", POD)
    settings = {"metadata": {"name": "settings"}, "data": {"label": "here"}}
    await both.each("POST", MAPS, settings)


async def test_updates_are_changed_alike(both: Both, policies: Policies) -> None:
    body = {"metadata": {"name": "m"}, "data": {"a": "b"}}
    await both.each("POST", MAPS, body)
    await policies.register(
        {"mutations": [apply("Object{data: {'old': string(oldObject == null ? 'none' : oldObject.data.a)}}")]}
    )
    await both.same("PUT", f"{MAPS}/m", {"metadata": {"name": "m"}, "data": {"a": "c"}})
    await both.same("PATCH", f"{MAPS}/m", {"data": {"x": "y"}}, content_type="application/merge-patch+json")
