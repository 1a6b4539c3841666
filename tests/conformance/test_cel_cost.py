"""The estimated cost of rules: both servers accept and refuse the same ones, by the same factor.

The server shows a cost with six digits where it is a little above the limit; each expression stands in a list that is
just long enough for that, so that equal texts mean equal estimates.
"""

from __future__ import annotations

import asyncio
import copy
from typing import Any

import pytest

from steersman_cluster.cel.sizes import sizes_of
from steersman_cluster.cel.types import from_schema
from steersman_cluster.crd.costs import RULE_LIMIT
from steersman_cluster.crd.definition_rules import validate_definition, validate_definition_update
from steersman_cluster.crd.rules import Rule

from .cost_cases import EXPRESSIONS, ITEM
from .crd_cases import definition, obj
from .harness import Both

PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CHUNK = 20


def cost_of(expression: str) -> int:
    kind, sizes = from_schema(ITEM), sizes_of(ITEM)
    assert kind is not None
    assert sizes is not None
    return Rule({"rule": expression}, kind, "object").program.cost(sizes)


def listed(*rules: dict[str, Any], most: int | None) -> dict[str, Any]:
    """A list of `ITEM`s with these rules, at most so many."""
    items = {**ITEM, "x-kubernetes-validations": list(rules)}
    shown: dict[str, Any] = {
        "type": "array",
        "items": items,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["s"],
    }
    return shown if most is None else {**shown, "maxItems": most}


def made(properties: dict[str, Any]) -> dict[str, Any]:
    return copy.deepcopy(definition(obj({"spec": obj(properties)})))


@pytest.mark.parametrize("start", range(0, len(EXPRESSIONS), CHUNK))
async def test_an_expression_costs_as_much_on_both(both: Both, start: int) -> None:
    async def ask(expression: str) -> None:
        cost = cost_of(expression)
        most = max(1, -(-RULE_LIMIT * 11 // 10 // max(cost, 1)))
        answer = await both.same("POST", f"{PATH}?dryRun=All", made({"items": listed({"rule": expression}, most=most)}))
        assert answer.code == (422 if cost else 201), expression

    await asyncio.gather(*(ask(expression) for expression in EXPRESSIONS[start : start + CHUNK]))


CHEAP = {"rule": "self.n > 1"}
DEAR = {"rule": "self.open.exists(x, x > self.n)"}

TEXT = {"type": "string", "maxLength": 5, "x-kubernetes-validations": [{"rule": "self == 'abcdefgh'"}]}


@pytest.mark.parametrize(
    "properties",
    [
        {"items": listed(CHEAP, most=None)},
        {"items": listed({"rule": "self.s == self.t"}, most=None)},
        {"one": {**ITEM, "x-kubernetes-validations": [DEAR]}},
        {"a": listed(DEAR, CHEAP, DEAR, most=2)},
        {"many": {**ITEM, "x-kubernetes-validations": [*[DEAR] * 9, CHEAP]}},
        {"one": {**ITEM, "x-kubernetes-validations": [{**CHEAP, "messageExpression": "self.texts.join(self.free)"}]}},
        {"map": {"type": "object", "additionalProperties": {**ITEM, "x-kubernetes-validations": [CHEAP]}}},
        {
            "map": {
                "type": "object",
                "maxProperties": 30,
                "additionalProperties": {"type": "array", "maxItems": 300_000, "items": TEXT},
            }
        },
        {
            "texts": {
                "type": "array",
                "items": {"type": "string", "x-kubernetes-validations": [{"rule": "self != 'a'"}]},
            }
        },
        {
            "raw": {
                "type": "object",
                "x-kubernetes-embedded-resource": True,
                "x-kubernetes-preserve-unknown-fields": True,
                "x-kubernetes-validations": [{"rule": "self.metadata.name.matches('" + "a" * 200 + "')"}],
            }
        },
        {"bad": {**ITEM, "x-kubernetes-validations": [{"rule": "self.nothing"}, DEAR]}},
    ],
    ids=[
        "cheap in an endless list",
        "texts in an endless list",
        "dear once",
        "dear in lists",
        "many that are dear together",
        "messages",
        "endless map",
        "nested bounds",
        "texts of a list",
        "an embedded object",
        "one that does not compile beside",
    ],
)
async def test_budgets_are_the_same(both: Both, properties: dict[str, Any]) -> None:
    await both.same("POST", f"{PATH}?dryRun=All", made(properties))


def test_a_schema_that_has_not_changed_keeps_its_dear_rules() -> None:
    dear = made({"one": {**ITEM, "x-kubernetes-validations": [DEAR]}})
    dear["status"] = {"storedVersions": ["v1"]}
    assert "estimated rule cost exceeds budget" in str([error.body for error in validate_definition(dear)])
    renamed = copy.deepcopy(dear)
    renamed["metadata"]["labels"] = {"new": "label"}
    assert "budget" not in str([error.body for error in validate_definition_update(renamed, dear)])
