"""The explorer finds bugs of real operators, re-created from their public issues, and none in the correct twins."""

from __future__ import annotations

import pytest

from steersman.testing.explore import thorough

from .public_bugs import (
    cassandra_398,
    cassandra_407,
    casskop_370,
    mongodb_797,
    rabbitmq_782,
    xtradb_1043,
    zookeeper_312,
)
from .public_bugs.bug import Bug, exploration

BUGS = {
    module.__name__.rpartition(".")[2]: module.BUG
    for module in (
        cassandra_398, cassandra_407, casskop_370, mongodb_797, rabbitmq_782, xtradb_1043, zookeeper_312,
    )
}  # fmt: skip


SEEDS = 10 if thorough() else 1


@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS.values(), ids=BUGS)
def test_the_explorer_finds_the_public_bug_within_a_minute(bug: Bug) -> None:
    result = exploration(bug, correct=False, budget="60s").explore()
    assert result.failures, f"{bug.issue}: {result.as_json()}"
    assert result.failures[0].plan.faults, f"the reference run fails: {result.failures[0].findings}"


@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS.values(), ids=BUGS)
def test_the_correct_operator_has_no_finding(bug: Bug) -> None:
    """Single faults with one seed; `make explore` has ten seeds, and adds pairs of faults."""
    result = exploration(bug, correct=True, seeds=SEEDS, budget="300s", pairs=thorough()).explore()
    assert [f"{f.plan}: {'; '.join(map(str, f.findings))}" for f in result.failures] == []
    assert result.seeds == SEEDS
