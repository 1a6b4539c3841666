"""The operator survives crashes, lost responses, conflicts and late events while servers in memory fail over."""

from __future__ import annotations

from typing import Any

import pytest
from steersman.client import ConnectionLostError
from steersman.testing.explore import ScenarioRun, explored

import mysqlcluster
from mysqlcluster.actions import Action
from mysqlcluster.agents import ActionError
from mysqlcluster.connections import use_agents
from mysqlcluster.gtid import GtidSet
from mysqlcluster.observation import MemberState, Role

from .simulated import ORIGIN, SimulatedServers


def cluster(size: int) -> dict[str, Any]:
    return {
        "apiVersion": "database.example.com/v1alpha1",
        "kind": "MySQLCluster",
        "metadata": {"name": "db"},
        "spec": {"size": size, "flavor": "mariadb"},
    }


class ExploredServers(SimulatedServers):
    """Servers whose actions are points at which the operator can crash."""

    def __init__(self, run: ScenarioRun, *names: str) -> None:
        super().__init__(*names)
        self._run = run

    async def act(self, action: Action) -> MemberState:
        """Perform an action; raises `ActionError` if the answer is lost."""
        answer: list[MemberState | ActionError] = []

        def perform() -> None:
            try:
                self.perform(action)
            except ActionError as problem:
                answer.append(problem)

        try:
            await self._run.effect(f"{type(action).__name__} {action.member}", perform)
        except ConnectionLostError as lost:
            raise ActionError(str(lost)) from lost
        if answer and isinstance(answer[0], ActionError):
            raise answer[0]
        return await self.state(action.member)

    def check(self) -> None:
        """Assert that at most one server accepts writes, and that it has all acknowledged transactions."""
        primaries = [
            each
            for name, each in self.members.items()
            if name not in self.down and each.role is Role.PRIMARY and not each.read_only
        ]
        assert len(primaries) <= 1, [each.name for each in primaries]
        acknowledged = GtidSet({ORIGIN: [(1, self.acknowledged)]}) if self.acknowledged else GtidSet({})
        assert all(each.executed.contains(acknowledged) for each in primaries)


async def life(run: ScenarioRun) -> None:
    """Create a cluster, lose the primary, get it back, and delete the cluster.

    The finding `undo` is not asked for: each change of the quorum removes the role label of the primary for a moment.
    Each change of the quorum has a number, the epoch, which is higher after a crash. While events are late there may
    be no primary that accepts a transaction; what was acknowledged must not be lost.
    """
    servers = ExploredServers(run, "db-0", "db-1", "db-2")
    use_agents(servers)
    await run.operator(mysqlcluster.operator)
    await run.apply(cluster(3))
    await run.settled()
    servers.write()
    servers.check()
    servers.crash("db-0")
    await run.settled()
    servers.check()
    servers.write()
    servers.start("db-0")
    await run.settled()
    servers.check()
    written = servers.write()
    assert written or run.states[-1] is None, "no primary accepts a transaction"
    await run.delete("mysqlcluster.database.example.com", "db")
    await run.settled()


@pytest.mark.slow
@explored(long=True, budget="150s", allow=("undo",), mask=("epoch",), perturb=("crash", "lost-answer", "conflict"))
async def test_a_failover_survives_crashes_lost_answers_and_conflicts(run: ScenarioRun) -> None:
    await life(run)


@pytest.mark.slow
@explored(long=True, budget="150s", allow=("undo", "end-state"), perturb=("lag", "miss"))
async def test_a_failover_survives_late_and_missed_events(run: ScenarioRun) -> None:
    """The end differs: an operator that learns late of the cluster cannot start it while a server is down."""
    await life(run)
