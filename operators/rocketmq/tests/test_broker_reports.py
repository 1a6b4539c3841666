"""The observation of a group while the commit logs of its members grow."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from steersman.testing import virtual_time

from rocketmq.access import RemotingServers
from rocketmq.brokers.names import Member
from rocketmq.brokers.observation import GroupState, MemberState
from rocketmq.brokers.reports import observe_group
from rocketmq.remoting import BrokerAdmin
from rocketmq.topics import is_system_topic

MASTER, FOLLOWER = Member(0, 0), Member(0, 1)


class Reporting(BrokerAdmin):
    """A broker that reports the next of the given ends of its commit log in each response."""

    def __init__(self, is_master: bool, ends: Sequence[int]) -> None:
        self._id = "0" if is_master else "1"
        self._ends = list(ends)

    async def runtime_info(self) -> dict[str, str]:
        end = self._ends[0]
        self._ends = self._ends[1:] or self._ends
        return {"commitLogMaxOffset": str(end)}

    async def config(self) -> dict[str, str]:
        return {"brokerId": self._id, "brokerRole": "SYNC_MASTER" if self._id == "0" else "SLAVE"}


class ReportingServers(RemotingServers):
    """Brokers that report the ends of their commit logs, by address."""

    def __init__(self, **brokers: Reporting) -> None:
        super().__init__()
        self._brokers = brokers

    @asynccontextmanager
    async def broker(self, address: str) -> AsyncGenerator[BrokerAdmin]:
        yield self._brokers[address]


async def observed(master: Sequence[int], follower: Sequence[int]) -> GroupState:
    found = ReportingServers(master=Reporting(True, master), follower=Reporting(False, follower))
    members = [MemberState(each, exists=True, ready=True) for each in (MASTER, FOLLOWER)]
    return await observe_group(found, 0, members, {MASTER: "master", FOLLOWER: "follower"}, MASTER)


@virtual_time
async def test_a_follower_that_reaches_the_end_the_master_had_is_in_sync():
    assert (await observed([100, 150, 200], [90, 95, 100])).healthy


@virtual_time
async def test_a_follower_that_does_not_advance_is_not_in_sync():
    group = await observed([100], [90])
    assert [each.member for each in group.synchronous] == [MASTER]


def test_brokers_create_the_topics_with_the_names_of_their_group_and_cluster():
    names = frozenset({"mq-0", "mq"})
    assert all(is_system_topic(name, names) for name in ("mq-0", "mq", "mq_REPLY_TOPIC", "rmq_sys_wheel_timer"))
    assert not any(is_system_topic(name, names) for name in ("orders", "blue_REPLY_TOPIC"))
