"""Validation rules of custom resources: both servers say yes, and no in the same words."""

import copy

import pytest

from .crd_cases import VALUES, obj
from .harness import MERGE, Both
from .test_crds import PATH, named
from .test_custom_resources import serve


@pytest.mark.parametrize("name", sorted(name for name in VALUES if name.startswith("rule")))
async def test_rules_are_answered_alike(both: Both, name: str) -> None:
    schema, values = VALUES[name]
    made = named(f"cel{name}", obj({name: schema}))
    path = await serve(both, made)
    try:
        for value in values:
            sent = {"apiVersion": "example.com/v1", "kind": made["spec"]["names"]["kind"], "metadata": {"name": "x"}}
            await both.same("POST", f"{path}?dryRun=All", {**sent, "spec": {name: copy.deepcopy(value)}})
    finally:
        await both.each("DELETE", f"{PATH}/{made['metadata']['name']}")


async def test_a_transition_rule_sees_the_old_value(both: Both) -> None:
    rule = {"rule": "self >= oldSelf", "message": "may only grow"}
    made = named(
        "growing", obj({"a": {"type": "integer", "x-kubernetes-validations": [rule]}, "b": {"type": "integer"}})
    )
    path = await serve(both, made)
    try:
        sent = {"apiVersion": "example.com/v1", "kind": "Growing", "metadata": {"name": "x"}, "spec": {"a": 5}}
        await both.same("POST", path, sent)
        await both.same("PATCH", f"{path}/x", {"spec": {"a": 4}}, content_type=MERGE)
        await both.same("PATCH", f"{path}/x", {"spec": {"a": 6}}, content_type=MERGE)
    finally:
        await both.each("DELETE", f"{PATH}/growing.example.com")
