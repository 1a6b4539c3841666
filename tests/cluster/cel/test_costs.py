"""The cost of expressions at run time, and the limit at which they are stopped."""

from __future__ import annotations

import json
import tracemalloc
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from steersman_cluster.cel import ANY, CelError, CostLimitError, Meter, Program, Type, compile, from_schema  # noqa: A004
from steersman_cluster.cel.meter import GROWTH_LIMIT, PER_CALL_LIMIT, Budget

from .cost_expressions import EXPRESSIONS, SCHEMA, VALUE

RECORDED: dict[str, dict[str, int]] = json.loads(
    (Path(__file__).parent / "data/actual_costs.json").read_text(encoding="utf-8")
)
"""Costs of kube-apiserver, made by `hack/record_cel_costs.py`."""
VARIADIC = frozenset({"cidr(self.s).containsIP(self.t)", "cidr(self.s).containsCIDR(self.t)"})
"""Calls whose receiver fails: which of them evaluate their argument is a detail of how Go binds functions."""


def spent(expression: str, kind: Type, raw: frozenset[str]) -> int:
    meter = Meter()
    with suppress(CelError):
        Program(expression, {"self": kind}, raw).evaluate({"self": VALUE}, meter)
    return meter.spent


def schema_type() -> Type:
    found = from_schema(SCHEMA)
    assert found is not None
    return found


@pytest.mark.parametrize("expression", [each for each in EXPRESSIONS if each in RECORDED["typed"]])
def test_a_typed_expression_costs_what_the_api_server_counts(expression: str) -> None:
    assert spent(expression, schema_type(), frozenset({"self"})) == RECORDED["typed"][expression]


@pytest.mark.parametrize("expression", [each for each in EXPRESSIONS if each in RECORDED["dynamic"]])
def test_a_dynamic_expression_costs_what_the_api_server_counts(expression: str) -> None:
    if expression not in VARIADIC:
        assert spent(expression, ANY, frozenset()) == RECORDED["dynamic"][expression]


def test_the_record_covers_the_expressions() -> None:
    assert len(RECORDED["typed"]) > 300
    assert set(RECORDED["typed"]) | set(RECORDED["dynamic"]) <= set(EXPRESSIONS)


def run(expression: str, meter: Meter | None = None, **variables: Any) -> Any:
    return compile(expression, dict.fromkeys(variables, ANY)).evaluate(variables, meter)


def test_an_expression_may_spend_the_limit_and_not_one_unit_more() -> None:
    # Each item costs 5: the condition 2, the accumulator, the item and the comparison one each. 2 are for the rest.
    items = list(range((PER_CALL_LIMIT - 3) // 5))
    meter = Meter()
    assert run("self.all(i, i >= 0)", meter, self=items) is True
    assert meter.spent == 5 * len(items) + 2
    with pytest.raises(CostLimitError, match=r"^operation cancelled: actual cost limit exceeded$"):
        run("self.all(i, i >= 0)", self=[*items, 1, 2])


@pytest.mark.parametrize(
    "expression",
    [
        "self.all(i, i >= 0) || true",
        "true || self.all(i, i >= 0) ? self.all(i, i >= 0) || true : false",
        "self.exists(i, self.all(j, j >= 0) || true)",
        "self.all(i, self.all(j, j >= 0) || i / 0 == 0)",
        "self.map(i, self.all(j, j >= 0) || i / 0 == 0).size() > 0",
    ],
)
def test_nothing_forgives_an_expression_that_is_too_expensive(expression: str) -> None:
    with pytest.raises(CostLimitError):
        run(expression, self=list(range(250_000)))


def grown(start: str, step: str, times: int = 12) -> str:
    """A chain of `map`s, each of which makes `step` of its item `a`."""
    return f"[{start}]" + f".map(a, {step})" * times


EIGHT = "[a, a, a, a, a, a, a, a]"
GROWING = {
    "texts joined to themselves": grown("'abcdefghijklmnop'", "a + a + a + a + a + a + a + a"),
    "lists joined to themselves": grown("[1, 2, 3]", "a + a + a + a + a + a + a + a"),
    "a nested list compared with another": f"{grown('[1]', EIGHT)} == {grown('[1]', EIGHT)}",
    "a nested list searched for itself": grown("[1]", EIGHT) + ".all(a, a in [a])",
    "a nested list flattened": grown("[1]", EIGHT) + ".flatten(20).size() == 0",
    "a nested list printed": f"'%s'.format([{grown('[1]', EIGHT)}]) == ''",
    "a nested list searched": f"{grown('[1]', EIGHT)}.indexOf({grown('[1]', EIGHT)}[0]) == 0",
    "a nested map compared": grown("{'a': 1}", "{'b': a, 'c': a, 'd': a, 'e': a}", 15) + ".all(a, a == a)",
    "a text between all characters": "self.replace('', self).replace('', self).size() > 0",
    "a text between all characters, often": "lists.range(1000).all(i, self.replace('', self).size() > 0)",
    "a long separator": "lists.range(10000).map(i, 'x').join(self).size() > 0",
    "a long separator, often": "lists.range(100).all(i, lists.range(1000).map(j, 'x').join(self).size() > 0)",
    "a format of one text, often": "lists.range(1000).all(i, '%s%s%s%s'.format([self, self, self, self]).size() > 0)",
    "a range": "lists.range(9000000000000000000).size() > 0",
    "ranges": "lists.range(1000).map(i, lists.range(90000)).size() > 0",
    "many digits": "lists.range(1000).all(i, '%.999999f'.format([1.5]).size() > 0)",
    "members of each other": "lists.range(80000).distinct().size() > 0",
}


@pytest.mark.parametrize("what", GROWING)
def test_what_grows_without_bound_is_stopped_before_memory_is_gone(what: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(CostLimitError):
            run(GROWING[what], Meter(Budget(PER_CALL_LIMIT, growth=200_000)), self="x" * 20_000)
        assert tracemalloc.get_traced_memory()[1] < 30_000_000
    finally:
        tracemalloc.stop()


def test_a_precision_of_many_digits_is_refused() -> None:
    with pytest.raises(CelError, match="error while parsing precision"):
        run("'%.99999999999999999999f'.format([1.5])")


def test_growth_counts_for_all_expressions_of_one_budget() -> None:
    budget = Budget(10 * PER_CALL_LIMIT)
    for _ in range(GROWTH_LIMIT // 2_000_000):
        assert run("(self + self).size() > 0", Meter(budget), self=[0] * 999_999) is True
    with pytest.raises(CostLimitError):
        run("(self + self).size() > 0", Meter(budget), self=[0] * 1_000_000)


def test_lists_are_collected_in_linear_time() -> None:
    assert run("self.map(i, i).size()", self=[0] * 70_000) == 70_000  # a copy for each item would take minutes


def test_large_sets_are_compared_in_linear_time() -> None:
    schema = {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}
    kind = from_schema({"type": "object", "properties": {"a": schema, "b": schema}})
    assert kind is not None
    items = [f"item {n}" for n in range(30_000)]
    program = Program("self.a == self.b && self.a + self.b == self.a", {"self": kind}, frozenset({"self"}))
    assert program.evaluate({"self": {"a": items, "b": items[::-1]}}) is True


def test_an_optional_is_asked_for_another_only_where_it_is_none() -> None:
    assert run("self[?0].orValue(1 / 0)", self=[3]) == 3
    assert run("self[?0].or(optional.of(1 / 0)).value()", self=[3]) == 3
    with pytest.raises(CelError, match="division by zero"):
        run("self[?1].orValue(1 / 0)", self=[3])


def test_a_named_value_is_evaluated_once_and_only_where_it_is_read() -> None:
    once, thrice, never = Meter(), Meter(), Meter()
    assert run("self.?a.optMap(v, v).value()", once, self={"a": 2}) == 2
    assert run("self.?a.optMap(v, v + v + v).value()", thrice, self={"a": 2}) == 6
    assert run("self.?a.optMap(v, 1).value()", never, self={"a": 2}) == 1
    assert thrice.spent == once.spent + 4  # two more readings of the variable and two sums
    assert never.spent == once.spent - 4  # one reading, and the value: two steps and a call
    assert run("self.?a.optMap(v, [1, 2].map(i, v + i)).value()", self={"a": 2}) == [3, 4]


def test_a_failed_item_does_not_end_the_loop_that_collects() -> None:
    meter = Meter()
    with pytest.raises(CelError, match="division by zero"):
        run("self.map(i, 1 / i)", meter, self=[0, 1, 2])
    assert meter.spent == 1 + 3 * (12 + 2) + 1
