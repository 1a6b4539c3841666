"""Expressions of policies and match conditions: what does not compile is refused alike on both servers."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from .harness import Both
from .test_admission import HOOKS

MATCH = {"resourceRules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}]}
EXPRESSIONS = [
    "true",
    " object.metadata.name == 'x' ",
    "object.metadata.name ==",
    "nothing == 1",
    "1 + 1",
    "object.metadata.name",
    "request.nothing == 'a'",
    "request.userInfo.groups.exists(g, g == 'a')",
    "request.kind.group == 1",
    "namespaceObject.metadata.labels['a'] == 'b'",
    "namespaceObject.metadata.uid == 'a'",
    "namespaceObject.status.conditions.all(c, c.lastTransitionTime > timestamp('2020-01-01T00:00:00Z'))",
    "authorizer.group('').resource('pods').check('get').allowed()",
    "authorizer.nothing()",
    "params.x == 1",
    "variables.x == 1",
    "Object{} == object",
    "jsonpatch.escapeKey('a/b') == 'a~1b'",
    "object.spec.replicas > 1 &&\n  nothing()",
]


def hook(conditions: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "name": "a.example.com",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "clientConfig": {"url": "https://127.0.0.1:1/x"},
        "rules": MATCH["resourceRules"],
        "matchConditions": conditions,
    }


@pytest.mark.parametrize("expression", EXPRESSIONS)
async def test_match_conditions_of_webhooks_are_refused_alike(both: Both, expression: str) -> None:
    body = {"metadata": {"name": "bad"}, "webhooks": [hook([{"name": "c", "expression": expression}])]}
    for kind in ("validating", "mutating"):
        await both.same("POST", f"{HOOKS}/{kind}webhookconfigurations?dryRun=All", body)


@pytest.mark.parametrize("params", [True, False])
@pytest.mark.parametrize("expression", EXPRESSIONS)
async def test_expressions_of_policies_are_refused_alike(both: Both, expression: str, params: bool) -> None:
    spec: dict[str, Any] = {"matchConstraints": MATCH}
    if params:
        spec["paramKind"] = {"apiVersion": "v1", "kind": "ConfigMap"}
    made = {
        "matchConditions": [{"name": "c", "expression": expression}],
        "validations": [{"expression": expression, "messageExpression": expression}],
        "auditAnnotations": [{"key": "k", "valueExpression": expression}],
    }
    for field, value in made.items():
        sent = {"validations": [{"expression": "true"}], **spec, field: value}
        await both.same(
            "POST", f"{HOOKS}/validatingadmissionpolicies?dryRun=All", {"metadata": {"name": "bad"}, "spec": sent}
        )


VALIDATING: dict[str, dict[str, Any]] = {
    "variables": {
        "variables": [{"name": "x", "expression": "1"}, {"name": "y", "expression": "variables.x + 1"}],
        "validations": [{"expression": "variables.y == 2"}],
    },
    "later variable": {
        "variables": [{"name": "x", "expression": "variables.y"}, {"name": "y", "expression": "1"}],
        "validations": [{"expression": "variables.y == 1"}],
    },
    "unknown variable": {
        "variables": [{"name": "x", "expression": "1"}],
        "validations": [{"expression": "variables.z == 1"}],
    },
    "names": {
        "variables": [{"name": "", "expression": ""}, {"name": "in", "expression": " "}, {"name": "a-b"}],
        "validations": [{"expression": "true"}],
    },
    "type of a variable": {
        "variables": [{"name": "x", "expression": "[1]"}],
        "validations": [{"expression": "variables.x == 'a'"}],
    },
    "messages": {
        "validations": [
            {"expression": " ", "message": " ", "messageExpression": " ", "reason": "Nothing"},
            {"expression": "true", "message": "a\nb", "messageExpression": "1", "reason": "Forbidden"},
            {"expression": "true", "messageExpression": "authorizer == null ? 'a' : 'b'"},
        ]
    },
    "annotations": {
        "auditAnnotations": [
            {"key": "a b", "valueExpression": ""},
            {"key": "k", "valueExpression": "null"},
            {"key": "k", "valueExpression": "'a'"},
            {"key": "m", "valueExpression": "1"},
        ]
    },
}


@pytest.mark.parametrize("name", VALIDATING)
async def test_validating_policies_are_refused_alike(both: Both, name: str) -> None:
    body = {"metadata": {"name": "bad"}, "spec": {"matchConstraints": MATCH, **VALIDATING[name]}}
    await both.same("POST", f"{HOOKS}/validatingadmissionpolicies?dryRun=All", body)


MUTATIONS: dict[str, dict[str, Any]] = {
    "none": {},
    "type": {"patchType": "Merge"},
    "missing": {"patchType": "JSONPatch"},
    "missing apply": {"patchType": "ApplyConfiguration"},
    "both": {
        "patchType": "JSONPatch",
        "jsonPatch": {"expression": "[]"},
        "applyConfiguration": {"expression": "Object{}"},
    },
    "empty": {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": " "}},
    "empty patch": {"patchType": "JSONPatch", "jsonPatch": {"expression": ""}},
    "result": {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object.spec{}"}},
    "map": {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "{'a': 1}"}},
    "patch result": {"patchType": "JSONPatch", "jsonPatch": {"expression": "JSONPatch{op: 'add'}"}},
    "patch field": {"patchType": "JSONPatch", "jsonPatch": {"expression": "[JSONPatch{op: 1}]"}},
    "object": {
        "patchType": "ApplyConfiguration",
        "applyConfiguration": {"expression": "Object{spec: Object.spec{replicas: 1}, ?metadata: optional.none()}"},
    },
    "other type": {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Thing{}"}},
    "patches": {
        "patchType": "JSONPatch",
        "jsonPatch": {
            "expression": "[JSONPatch{op: 'test', path: '/a', value: 1},"
            " JSONPatch{op: 'add', path: '/m/' + jsonpatch.escapeKey('a/b'), value: Object{a: [1]}}]"
        },
    },
}


@pytest.mark.parametrize("name", MUTATIONS)
async def test_mutating_policies_are_refused_alike(both: Both, name: str) -> None:
    spec = {"matchConstraints": MATCH, "reinvocationPolicy": "Never", "mutations": [MUTATIONS[name]]}
    body = {"metadata": {"name": "bad"}, "spec": spec}
    await both.same("POST", f"{HOOKS}/mutatingadmissionpolicies?dryRun=All", body)


async def test_mutating_policies_match_creates_and_updates_only(both: Both) -> None:
    rules = copy.deepcopy(MATCH)
    rules["resourceRules"][0]["operations"] = ["CREATE", "DELETE"]
    mutation = MUTATIONS["object"]
    for again in ("", "Sometimes", "IfNeeded"):
        spec = {"matchConstraints": rules, "reinvocationPolicy": again, "mutations": [mutation]}
        await both.same(
            "POST", f"{HOOKS}/mutatingadmissionpolicies?dryRun=All", {"metadata": {"name": "bad"}, "spec": spec}
        )


@pytest.mark.parametrize(
    "reference",
    [
        {},
        {"name": "x"},
        {"name": "x", "parameterNotFoundAction": "Maybe"},
        {"name": "x", "selector": {}, "parameterNotFoundAction": "Deny"},
        {"selector": {"matchLabels": {"a b": "c"}}, "parameterNotFoundAction": "Allow"},
    ],
)
async def test_references_to_parameters_are_refused_alike(both: Both, reference: dict[str, Any]) -> None:
    for kind, more in (("validating", {"validationActions": ["Deny"]}), ("mutating", {})):
        spec = {"policyName": "p", "paramRef": reference, **more}
        path = f"{HOOKS}/{kind}admissionpolicybindings?dryRun=All"
        await both.same("POST", path, {"metadata": {"name": "bad"}, "spec": spec})


@pytest.mark.parametrize("more", [{"matchPolicy": "Maybe"}, {"resourceRules": []}, MATCH])
async def test_matches_of_bindings_are_refused_alike(both: Both, more: dict[str, Any]) -> None:
    rules = copy.deepcopy(more)
    for rule in rules.get("resourceRules", []):
        rule["operations"] = ["DELETE"]
    spec = {"policyName": "p", "matchResources": rules}
    path = f"{HOOKS}/mutatingadmissionpolicybindings?dryRun=All"
    await both.same("POST", path, {"metadata": {"name": "bad"}, "spec": spec})
