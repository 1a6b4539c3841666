"""Plans that begin as forks of the reference, and end when they equal it, have the results of complete runs."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest

from steersman import Context, Operator
from steersman.k8s import ConfigMap
from steersman.models import ObjectMeta
from steersman.testing.explore import Outcome, Plan, Request, ScenarioRun, explore, explored, running
from steersman.testing.explore.decorator import thorough
from steersman.testing.explore.planning import candidates
from steersman.testing.explore.running import Runner

from .planted import CLASSES, App, app
from .test_planted import exploration


def plans_of(request: Request, reference: Outcome) -> list[Plan]:
    """Return all plans with one fault and some with two, or a third of them unless STEERSMAN_EXPLORE_ALL is set."""
    found = candidates(reference.trace, request.perturb, external=request.external)
    pairs = list(found.pairs)
    plans = [*found.plans, *pairs[:: max(1, len(pairs) // 10)]]
    return plans if thorough() else plans[::3]


def complete_and_forked(request: Request, plans: list[Plan] | None = None) -> list[tuple[Outcome, Outcome]]:
    """Return the outcomes of plans in complete runs, and in forks of the reference."""
    with Runner(request.job, 1) as runner:
        reference = runner.run(Plan())
        plans = plans or plans_of(request, reference)
        complete = {plan: runner.run(plan) for plan in plans}
        runner.converge(reference)
        forked = {outcome.plan: outcome for outcome in runner.run_all(plans, jobs=1)}
    assert forked.keys() == complete.keys()
    return [(complete[plan], forked[plan]) for plan in plans]


def without_addresses(outcome: Outcome) -> list[tuple[str, str, float, int]]:
    """Return the findings without the addresses in memory that pytest adds to the messages of assertions."""
    return [(one.oracle, one.message.partition("\n")[0], one.at, one.revision) for one in outcome.findings]


def assert_same(complete: Outcome, forked: Outcome) -> None:
    assert without_addresses(forked) == without_addresses(complete)
    assert forked.end == complete.end
    assert forked.states == complete.states
    assert forked.injected == complete.injected
    for kind in ("writes", "events", "commits", "reconciles"):
        records = getattr(forked.trace, kind)
        expected = getattr(complete.trace, kind)
        assert records == expected[: len(records)], kind
        assert forked.converged or len(records) == len(expected)


@pytest.mark.slow
@pytest.mark.parametrize("correct", [True, False], ids=["correct", "bug"])
@pytest.mark.parametrize("name", CLASSES)
def test_each_plan_has_the_result_of_a_complete_run(name: str, correct: bool) -> None:
    for complete, forked in complete_and_forked(exploration(name, correct=correct).request()):
        assert_same(complete, forked)


def test_plans_of_each_kind_have_the_results_of_complete_runs() -> None:
    plans = [
        Plan.read(text)
        for text in (
            "crash-after:W1",
            "lose-answer:W2",
            "conflict:W2",
            "hold:E1",
            "absent:S1",
            "crash-after:W1+hold:E4",
        )
    ]
    pairs = complete_and_forked(exploration("flag_order", correct=True).request(), plans)
    for complete, forked in pairs:
        assert_same(complete, forked)
    assert [forked.converged for _, forked in pairs][:2] == [1, 1]


def test_a_point_that_only_another_fault_leads_to_is_reached_from_the_start_of_the_scenario() -> None:
    plans = [Plan.read("crash-after:W90"), Plan.read("crash-after:W1")]
    pairs = complete_and_forked(exploration("flag_order", correct=True).request(), plans)
    assert [forked.injected for _, forked in pairs] == [False, True]
    for complete, forked in pairs:
        assert_same(complete, forked)


@pytest.mark.slow
def test_a_pair_that_is_left_out_has_the_end_of_the_reference() -> None:
    request = exploration("flag_order", correct=True, perturb=("crash", "conflict")).request()
    result = explore(request)
    assert not result.failures
    assert result.reference is not None
    left_out = [one.plan for one in result.pruned if one.reason == "equal to a plan with one fault"]
    assert len(left_out) > 3
    with Runner(request.job, 1) as runner:
        for plan in left_out[:: len(left_out) // 3]:
            outcome = runner.run(plan)
            assert outcome.findings == []
            assert outcome.end == result.reference.end


def remembers(correct: bool) -> Operator:
    """Deletes its child when `replicas` is 0; the bug remembers the child in a variable only."""
    operator = Operator("remembers")
    children: set[str] = set()

    @operator.controller(owns=[ConfigMap])
    async def reconcile(obj: App, ctx: Context) -> None:
        name = str(obj.metadata.name)
        exists = ctx.get(ConfigMap, name) is not None
        if obj.spec.replicas and not exists:
            await ctx.apply(ConfigMap(metadata=ObjectMeta(name=name), data={"a": "b"}))
            children.add(name)
        elif not obj.spec.replicas and (exists if correct else name in children):
            await ctx.delete(ConfigMap, name)

    return operator


def forgetful(correct: bool) -> Request:
    @explored(jobs=1, plans=("crash-after:W1",))
    async def life(run: ScenarioRun) -> None:
        await run.operator(lambda: remembers(correct))
        await run.apply(app(1))
        await run.settled()
        await run.apply(app(0))
        await run.settled()

    return life.explored.request()


def test_a_run_whose_operator_has_other_variables_is_not_ended_early() -> None:
    """Both runs have the same objects after the first step, but the restarted operator has forgotten its child."""
    result = explore(forgetful(correct=False))
    assert [str(failure.plan) for failure in result.failures] == ["crash-after:W1"]
    assert "configmaps/default/a: exists, not in the reference" in result.failures[0].findings[0].message


def test_the_plans_of_an_operator_without_forks_have_the_same_results(monkeypatch: pytest.MonkeyPatch) -> None:
    request = exploration("flag_order", correct=True).request()
    plans = [Plan.read(text) for text in ("crash-after:W1", "hold:E1")]
    forked = [pair[1] for pair in complete_and_forked(request, plans)]
    monkeypatch.setattr(running, "forks", lambda: False)
    with Runner(request.job, 1) as runner:
        runner.converge(runner.run(Plan()))
        alone = list(runner.run_all(plans, jobs=1))
    for one, two in zip(forked, alone, strict=True):
        assert (one.findings, one.end, one.states, one.converged) == (two.findings, two.end, two.states, two.converged)
        assert one.trace == two.trace


def children() -> set[int]:
    """Return the processes of this one, also those that have ended and that nobody has waited for."""
    found: set[int] = set()
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(file.read_text().rpartition(")")[2].split()[1]) == os.getpid():
                found.add(int(file.parent.name))
    return found


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the processes are read from /proc")
def test_an_exploration_that_ends_at_its_first_failure_leaves_no_process() -> None:
    before = children()
    result = exploration("generate_name", correct=False).explore()
    assert result.failures
    assert children() <= before
