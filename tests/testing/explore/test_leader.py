"""Several processes of an operator: one leads, the others wait, and a deposed leader writes nothing."""

from __future__ import annotations

import pytest

from steersman.operator.leaderelection.elector import LeaderElector
from steersman.testing.explore import Outcome, Plan, ScenarioRun, explored, replay

from .planted import CLASSES, app, two_copies


@explored(jobs=1)
async def two_processes(run: ScenarioRun) -> None:
    await run.operator(lambda: CLASSES["flag_order"](True), replicas=2, settings={"leader_elect": True})
    await run.apply(app())
    await run.settled()
    await run.delete("secret", "a-password")
    await run.settled()


@explored(jobs=1)
async def changed_meanwhile(run: ScenarioRun) -> None:
    await run.operator(two_copies, replicas=2, settings={"leader_elect": True})
    await run.apply(app(1))
    await run.passes(30.0)
    await run.apply(app(2))
    await run.settled()


def run(plan: Plan) -> Outcome:
    return replay(two_processes.request(), plan)[1]


def writers(outcome: Outcome) -> list[int]:
    return [write.process for write in outcome.trace.writes]


def marks(outcome: Outcome) -> list[tuple[int, str]]:
    return [(mark.process, mark.text) for mark in outcome.trace.marks if mark.process > 0]


def test_the_queue_of_a_standby_does_not_keep_the_cluster_from_being_settled() -> None:
    outcome = run(Plan())
    assert outcome.findings == []
    assert len(outcome.states) == 2
    assert writers(outcome) == [1, 1]


def test_the_standby_takes_over_from_a_paused_leader_which_writes_nothing_afterwards() -> None:
    outcome = run(Plan.read("pause:W1"))
    assert outcome.findings == []
    assert writers(outcome) == [1, 2, 2]
    assert marks(outcome)[2:] == [
        (1, "paused for 60 s"),
        (1, "continues"),
        (1, "ends by itself: LeadershipLostError"),
        (3, "starts"),
    ]


def test_a_write_of_a_deposed_leader_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug: a process writes until it has read that another one leads, however old its lease is."""
    monkeypatch.setattr(LeaderElector, "may_write", lambda elector: elector.leading)
    monkeypatch.setattr(LeaderElector, "remaining", lambda elector: elector.timing.renew_deadline)
    _, outcome, _ = replay(changed_meanwhile.request(), Plan.read("pause:W1"))
    assert [(finding.oracle, finding.message) for finding in outcome.findings if finding.oracle != "undo"] == [
        ("leader", "process 1 wrote configmaps/default/a-second and does not hold the lease")
    ]


def test_a_correct_election_passes_where_the_write_of_a_deposed_leader_is_found() -> None:
    reference, outcome, found = replay(changed_meanwhile.request(), Plan.read("pause:W1"))
    assert (reference.findings, outcome.findings, found) == ([], [], [])


def test_the_standby_leads_after_a_crash_before_the_cluster_counts_as_settled() -> None:
    outcome = run(Plan.read("crash-after:W1"))
    assert outcome.findings == []
    writes = outcome.trace.writes
    assert [write.process == 1 for write in writes] == [True, False, False]
    settled = next(mark.at for mark in outcome.trace.marks if mark.text == "settled S1")
    assert writes[0].at + 15.0 <= writes[1].at < settled


def test_an_absent_operator_has_no_process_until_it_returns() -> None:
    outcome = run(Plan.read("absent:S1"))
    assert outcome.findings == []
    assert marks(outcome)[2:] == [(1, "crash"), (2, "crash"), (3, "starts"), (4, "starts")]


def test_one_seed_gives_one_trace_of_two_processes() -> None:
    one, two = run(Plan.read("pause:W1")), run(Plan.read("pause:W1"))
    assert one.trace == two.trace
