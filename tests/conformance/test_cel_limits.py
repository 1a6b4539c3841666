"""The limits of expressions that cost too much: rules, policies and match conditions, on both servers.

`costing(units)` is an expression that spends within six units of what it is asked for, so that a difference in what any
of its parts costs shows as a difference in where a server stops.
"""

from __future__ import annotations

import asyncio
import copy
from typing import Any

import pytest

from steersman_cluster.cel import Meter, Program, from_schema

from .crd_cases import obj
from .harness import Both
from .test_crds import PATH, named
from .test_custom_resources import serve

POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
MAPS = "/api/v1/namespaces/{ns}/configmaps"
CALL = 1_000_000
REPEATED = 100


_TEXT = "x" * 500
_CONTAINS = f"lists.range({{}}).all(i, '{_TEXT}'.contains('{_TEXT}'))"
"""2504 for each item, and 13: one for the item, three for the turn of the loop, and 50 times 50 for the call."""
_SMALL = "lists.range({}).all(i, i >= 0)"
"""6 for each item, and 13."""


def costing(units: int) -> str:
    """An expression that is true and costs `units`, or up to five less.

    The real server's time grows with the square of the steps in a loop: few expensive ones are faster than many.
    """
    large = (units - 26 - 6) // 2504
    return f"({_CONTAINS.format(large)} && {_SMALL.format((units - 26 - 2504 * large) // 6)})"


def rule(expression: str, **more: str) -> dict[str, Any]:
    return {"rule": expression, **more}


TEXT = {"type": "string", "maxLength": 10}
RULES: dict[str, list[dict[str, Any]]] = {
    "almost": [rule(costing(CALL))],
    "more": [rule(costing(CALL + 6))],
    "moreandothers": [rule("self == 'y'"), rule(costing(CALL + 6), message="mine"), rule("self == 'z'")],
    "forgiven": [rule(f"{costing(CALL + 6)} || true")],
    "many": [*[rule(costing(900_000))] * 11, rule("self == 'y'")],
    "toomany": [*[rule(costing(900_000))] * 12, rule("self == 'y'")],
    "exactly": [*[rule(costing(CALL))] * 10, rule("self == 'y'")],
    "message": [rule("self == 'y'", messageExpression=f"{costing(CALL + 6)} ? 'a' : 'b'"), rule("self == 'z'")],
    "cheapmessage": [rule("self == 'y'", messageExpression=f"{costing(CALL)} ? 'a' : 'b'"), rule("self == 'z'")],
    "messages": [
        *[rule(costing(900_000))] * 10,
        rule("self == 'y'", messageExpression=f"{costing(CALL)} ? 'a' : 'b'"),
        rule("self == 'z'", messageExpression=f"{costing(900_000)} ? 'a' : 'b'"),
    ],
}


@pytest.mark.parametrize("name", RULES)
async def test_rules_are_stopped_alike(both: Both, name: str) -> None:
    made = named(f"limit{name}", obj({"text": {**TEXT, "x-kubernetes-validations": RULES[name]}, "b": TEXT}))
    path = await serve(both, made)
    try:
        sent = {"apiVersion": "example.com/v1", "kind": made["spec"]["names"]["kind"], "metadata": {"name": "x"}}
        await both.same("POST", f"{path}?dryRun=All", {**sent, "spec": {"text": "x"}})
    finally:
        await both.each("DELETE", f"{PATH}/{made['metadata']['name']}")


async def test_rules_below_one_that_was_stopped_are_not_run(both: Both) -> None:
    dear = {**TEXT, "x-kubernetes-validations": [rule(costing(CALL + 6))]}
    items = {"type": "array", "maxItems": 3, "items": dear}
    whole = {**obj({"list": items}), "x-kubernetes-validations": [rule("self.list.size() > 5")]}
    made = named("limitbelow", obj({"a": whole}))
    path = await serve(both, made)
    try:
        sent = {"apiVersion": "example.com/v1", "kind": "Limitbelow", "metadata": {"name": "x"}}
        await both.same("POST", f"{path}?dryRun=All", {**sent, "spec": {"a": {"list": ["x", "y", "z"]}}})
    finally:
        await both.each("DELETE", f"{PATH}/{made['metadata']['name']}")


COUNTED = [
    "self.s.startsWith('abcdefghijklm')",
    "self.s.contains('abcdefghijklm')",
    "self.s.matches('^[a-z]+$')",
    "self.s == 'abcdefghijklmnopqrst'",
    "(self.s + self.s).size() > 0",
    "self.l.exists(x, x == 'cc')",
    "self.l.map(x, x + 'd').size() == 3",
    "self.l.filter(x, x != 'a').size() == 2",
    "'cc' in self.l",
    "self.o.a == 'x' ? self.l[0] == 'a' : false",
    "has(self.o.a) && !has(self.o.b)",
    "self.?o.?b.orValue('c') == 'c'",
    "self.l.distinct().sort().size() == 3",
    "quantity('1Mi').isGreaterThan(quantity('1k'))",
    "cidr('10.0.0.0/8').containsIP('10.1.2.3')",
    "self.l.join('-').size() > 3",
]


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, len(COUNTED), 4))
async def test_each_function_is_stopped_at_the_same_item(both: Both, start: int) -> None:
    """A hundred repetitions cost all that is left for a call, and two more cost too much: a unit would show."""
    expressions = COUNTED[start : start + 4]
    self_type = obj({"s": {"type": "string", "maxLength": 20}, "l": {"type": "array", "maxItems": 3, "items": TEXT}})
    self_type["properties"]["o"] = obj({"a": TEXT, "b": TEXT})
    value = {"s": "abcdefghijklmnopqrst", "l": ["a", "bb", "cc"], "o": {"a": "x"}}
    properties: dict[str, Any] = {}
    for at, expression in enumerate(expressions):
        before = costing(CALL - cost(f"lists.range({REPEATED}).all(i, {expression})", self_type, value))
        for name, count in ((f"a{at}", REPEATED), (f"b{at}", REPEATED + 2)):
            repeated = f"{before} && lists.range({count}).all(i, {expression})"
            properties[name] = {**copy.deepcopy(self_type), "x-kubernetes-validations": [rule(repeated)]}
    made = named(f"limitcount{start}", obj(properties))
    path = await serve(both, made)
    try:
        sent = {"apiVersion": "example.com/v1", "kind": made["spec"]["names"]["kind"], "metadata": {"name": "x"}}
        for name in properties:
            answer = await both.same("POST", f"{path}?dryRun=All", {**sent, "spec": {name: value}})
            assert answer.code == (201 if name.startswith("a") else 422), answer
    finally:
        await both.each("DELETE", f"{PATH}/{made['metadata']['name']}")


def cost(expression: str, kind: dict[str, Any], value: Any) -> int:
    found = from_schema(kind)
    assert found is not None
    meter = Meter()
    assert Program(expression, {"self": found}, frozenset({"self"})).evaluate({"self": value}, meter) is True
    return meter.spent


def guarded(expression: str) -> str:
    """An expression that objects named `probe` do not evaluate."""
    return f"object.metadata.name == 'probe' || {expression}"


def validations(*expressions: str, **more: str) -> list[dict[str, Any]]:
    return [{"expression": guarded(each), **more} for each in expressions]


SPECS: dict[str, dict[str, Any]] = {
    "almost": {"validations": validations(costing(CALL - 6), "object.metadata.name == 'y'")},
    "more": {"validations": validations(costing(CALL + 6), "object.metadata.name == 'y'")},
    "ignored": {"failurePolicy": "Ignore", "validations": validations(costing(CALL + 6))},
    "toomany": {"validations": validations(*[costing(900_000)] * 12)},
    "toomanyignored": {"failurePolicy": "Ignore", "validations": validations(*[costing(900_000)] * 12)},
    "many": {"validations": validations(*[costing(900_000)] * 11, "object.metadata.name == 'y'")},
    "messages": {
        "validations": validations(
            *[costing(900_000)] * 9,
            "object.metadata.name == 'y'",
            messageExpression=f"{guarded(costing(900_000))} ? 'made' : 'other'",
        )
    },
    "message": {
        "validations": validations(
            "object.metadata.name == 'y'",
            messageExpression=f"{guarded(costing(CALL + 6))} ? 'made' : 'other'",
            message="plain",
        )
    },
    "variable": {
        "variables": [{"name": "dear", "expression": guarded(costing(CALL + 6))}],
        "validations": validations("variables.dear", "variables.dear || true"),
    },
    "variables": {
        "variables": [{"name": f"v{n}", "expression": guarded(costing(900_000))} for n in range(12)],
        "validations": validations(" && ".join(f"variables.v{n}" for n in range(12))),
    },
    "unread": {
        "variables": [{"name": f"v{n}", "expression": guarded(costing(900_000))} for n in range(12)],
        "validations": validations("variables.v3 && object.metadata.name == 'y'"),
    },
    "conditions": {
        "matchConditions": [{"name": f"c{n}", "expression": guarded(costing(900_000))} for n in range(3)],
        "validations": validations("true"),
    },
    "falsecondition": {
        "matchConditions": [
            {"name": "false", "expression": guarded("false")},
            *({"name": f"c{n}", "expression": guarded(costing(900_000))} for n in range(3)),
        ],
        "validations": validations("false"),
    },
    "fewconditions": {
        "matchConditions": [{"name": f"c{n}", "expression": guarded(costing(900_000))} for n in range(2)],
        "validations": validations("object.metadata.name == 'y'"),
    },
    "condition": {
        "matchConditions": [{"name": "c", "expression": guarded(costing(CALL + 6))}],
        "validations": validations("true"),
    },
    "annotations": {
        "auditAnnotations": [
            {"key": f"k{n}", "valueExpression": f"{guarded(costing(900_000))} ? 'a' : 'b'"} for n in range(12)
        ],
        "validations": validations("object.metadata.name == 'y'"),
    },
}


def policy(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    everything = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    probe = {"expression": "object.metadata.name != 'probe'", "message": "probed"}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [everything]},
            **spec,
            "validations": [probe, *spec["validations"]],
        },
    }


def binding(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {
            "policyName": name,
            "validationActions": ["Deny"],
            "matchResources": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "{ns}"}}},
        },
    }


async def refused_by_both(both: Both) -> None:
    for _ in range(200):
        answers = await both.each("POST", f"{MAPS}?dryRun=All", {"metadata": {"name": "probe"}})
        if all(answer.code in (403, 422) for answer in answers):
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"the policy is not in force: {answers}")


@pytest.mark.parametrize("case", SPECS)
async def test_policies_are_stopped_alike(both: Both, case: str) -> None:
    name = f"limits-{case}-{both.namespace}"
    await both.each("POST", POLICIES, policy(name, SPECS[case]))
    await both.each("POST", BINDINGS, binding(name))
    try:
        await refused_by_both(both)
        await both.same("POST", f"{MAPS}?dryRun=All", {"metadata": {"name": "x"}})
    finally:
        await both.each("DELETE", f"{BINDINGS}/{name}")
        await both.each("DELETE", f"{POLICIES}/{name}")
