"""The observation of all members."""

from __future__ import annotations

import pytest

from mysqlcluster.agents import LOST_SECONDS, SHORT_WAIT_SECONDS, observe
from mysqlcluster.machine.state import ClusterState, Kind, Step, Transition
from mysqlcluster.observation import MemberState, unreachable

MEMBERS = ("m-0", "m-1", "m-2")


class Reports:
    def __init__(self) -> None:
        self.asked: list[tuple[str, float | None]] = []

    async def state(self, member: str, seconds: float | None = None) -> MemberState:
        self.asked.append((member, seconds))
        return unreachable(member)


async def asked_during(
    transition: Transition | None, now: float = 100.0, primary: str = "m-0"
) -> list[tuple[str, float | None]]:
    reports = Reports()
    await observe(reports, MEMBERS, ClusterState(primary=primary, epoch=2, transition=transition), now)
    return reports.asked


async def test_the_primary_is_read_after_the_replicas():
    assert await asked_during(None) == [("m-1", None), ("m-2", None), ("m-0", None)]


@pytest.mark.parametrize("step", [Step.FENCE, Step.APPLY, Step.PROMOTE])
async def test_a_failover_waits_little_for_the_primary_that_it_leaves(step: Step):
    failover = Transition(Kind.FAILOVER, step, 3, source="m-0", started_at=99.0)
    assert await asked_during(failover) == [("m-1", None), ("m-2", None), ("m-0", LOST_SECONDS)]
    late = 99.0 + SHORT_WAIT_SECONDS
    assert await asked_during(failover, late) == [("m-1", None), ("m-2", None), ("m-0", None)]


@pytest.mark.parametrize(
    ("kind", "step"), [(Kind.FAILOVER, Step.SUSPECT), (Kind.SWITCHOVER, Step.FENCE), (Kind.SWITCHOVER, Step.PROMOTE)]
)
async def test_a_primary_that_may_continue_has_time_to_answer(kind: Kind, step: Step):
    assert (await asked_during(Transition(kind, step, 3, source="m-0", started_at=99.0)))[-1] == ("m-0", None)


async def test_the_new_primary_has_time_to_answer():
    failover = Transition(Kind.FAILOVER, Step.REPOINT, 3, source="m-0", target="m-1", started_at=99.0)
    assert await asked_during(failover, primary="m-1") == [("m-0", LOST_SECONDS), ("m-2", None), ("m-1", None)]
    returned = Transition(Kind.FAILOVER, Step.PROMOTE, 3, source="m-0", target="m-0", started_at=99.0)
    assert (await asked_during(returned))[-1] == ("m-0", None)
