"""A run carries out its plan, and a failure shows the smallest one."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from steersman.cache.immutability import is_immutable
from steersman.testing.explore import ExploredError, Outcome, Plan, ScenarioRun, explored, replay
from steersman.testing.explore.running import Runner

from .planted import CLASSES, app


@explored(jobs=1)
async def records_late(run: ScenarioRun) -> None:
    await run.operator(lambda: CLASSES["generate_name"](False))
    await run.apply(app())
    await run.settled()


def run(plan: str) -> Outcome:
    return replay(records_late.request(), Plan.read(plan))[1]


def test_a_crash_ends_a_process_and_another_one_starts() -> None:
    outcome = run("crash-after:W1")
    assert [mark.text for mark in outcome.trace.marks] == ["starts", "crash", "starts", "settled S1"]
    first = outcome.trace.writes[0]
    assert (first.code, first.ended) == (201, 0.0)
    assert [write.process for write in outcome.trace.writes] == [1, 2, 2]


def test_a_crash_before_a_write_stores_nothing() -> None:
    outcome = run("crash-before:W1")
    assert outcome.trace.writes[0].commits == ()
    assert [write.process for write in outcome.trace.writes] == [1, 2, 2]


def test_a_run_beside_threads_which_is_no_fork_has_the_same_trace() -> None:
    forked = run("crash-before:W1")
    ended = threading.Event()
    thread = threading.Thread(target=ended.wait)
    thread.start()
    try:
        beside = run("crash-before:W1")
    finally:
        ended.set()
        thread.join()
    assert beside.trace == forked.trace


def test_a_lost_response_is_an_error_of_a_write_that_is_stored() -> None:
    outcome = run("lose-answer:W1")
    assert len(outcome.trace.writes[0].commits) == 1
    assert "ConnectionLostError" in outcome.trace.reconciles[0].error


def test_a_conflict_stores_nothing() -> None:
    write = run("conflict:W2").trace.writes[1]
    assert (write.code, write.commits) == (409, ())


@pytest.mark.parametrize(("kind", "fate"), [("hold", "held"), ("miss", "missed")])
def test_late_and_missed_events_arrive_when_the_cluster_is_settled(kind: str, fate: str) -> None:
    outcome = run(f"{kind}:E1")
    assert outcome.trace.events[0].fate == fate
    assert outcome.trace.reconciles[0].began - outcome.trace.events[0].at >= 9


def test_a_restarted_operator_can_see_the_past() -> None:
    outcome = run("past:W2..W1")
    assert any("sees revision" in mark.text for mark in outcome.trace.marks)
    assert outcome.injected


def test_one_seed_gives_one_trace() -> None:
    one, two = run("crash-after:W1"), run("crash-after:W1")
    assert one.trace == two.trace


def test_what_a_run_had_to_prepare_for_built_in_kinds_is_ready_for_the_next_one() -> None:
    is_immutable.cache_clear()
    sizes: list[int] = []
    with Runner(records_late.request().job, 1) as runner:
        for _ in range(2):
            runner.run(Plan())
            sizes.append(is_immutable.cache_info().currsize)
    assert sizes[0] == sizes[1] > 0


def test_a_failure_names_the_smallest_plan_and_how_to_replay_it() -> None:
    test = explored(jobs=1, plans=("crash-after:W1+lose-answer:W3",))(records_late.explored.scenario)
    with pytest.raises(ExploredError) as caught:
        test()
    text = str(caught.value)
    assert "does not survive the plan crash-after:W1\n" in text
    assert "the operator crashes after `create configmaps/default/child-" in text
    assert "STEERSMAN_EXPLORE_PLAN='crash-after:W1'" in text
    assert "configmaps/default/child-*: 2 objects, 1 in the reference" in text


def test_former_replica_sets_are_not_compared() -> None:
    @explored(jobs=1)
    async def two_images(run: ScenarioRun) -> None:
        for image in ("nginx:1.27", "nginx:1.28"):
            await run.apply(deployment(image))
            await run.settled()

    outcome = replay(two_images.request(), Plan())[1]
    for state in outcome.states:
        assert state is not None
        assert sum(len(texts) for key, texts in state.items() if key.startswith("replicasets.apps/")) == 1


def deployment(image: str) -> dict[str, Any]:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": image}]}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}


def test_an_object_that_does_not_exist_can_only_be_deleted_while_a_fault_lasts() -> None:
    @explored(jobs=1)
    async def deletes_the_child(run: ScenarioRun) -> None:
        await run.operator(lambda: CLASSES["flag_order"](True))
        await run.apply(app())
        await run.settled()
        await run.delete("configmap", "missing")
        await run.settled()

    reference, late, _ = replay(deletes_the_child.request(), Plan.read("hold:E1..S2"))
    assert "NotFound" in reference.findings[0].message
    assert not any(finding.oracle == "scenario" for finding in late.findings)
