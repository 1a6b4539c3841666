"""A planned election of another master: the former master acknowledges no message that its successor lacks."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from steersman.testing import virtual_time

from rocketmq.brokers.elections import MIN_IN_SYNC, Election
from rocketmq.remoting import ControllerMetadata, RemotingError, Replica, SyncState

OLD, NEW, CONTROLLER = "old:10911", "new:10911", "controller:9878"
READS_UNTIL_FOLLOWING = 3
"""Reads of its settings after which the former master has learned of the election."""


class Broker:
    """A broker; a producer sends a message to the master before each admin command."""

    def __init__(self, group: Group, address: str) -> None:
        self.group = group
        self.address = address
        self.settings = {MIN_IN_SYNC: "1", "brokerRole": "SLAVE", "brokerIP1": address[:3], "listenPort": "10911"}
        self.end = 0

    async def config(self) -> dict[str, str]:
        self.group.produce()
        self.group.learn(self)
        return dict(self.settings)

    async def runtime_info(self) -> dict[str, str]:
        self.group.produce()
        return {"commitLogMaxOffset": str(self.end)}

    async def update_config(self, settings: Mapping[str, str]) -> None:
        self.group.produce()
        if not self.group.ignores_settings:
            self.settings |= settings


class Group:
    """A master with one replica, as brokers of 5.4 and 5.5 behave when the replica ends its connection."""

    def __init__(self) -> None:
        self.old, self.new = Broker(self, OLD), Broker(self, NEW)
        self.old.settings["brokerRole"] = "SYNC_MASTER"
        self.connected = True
        self.stalled = False
        """Whether the replica gets no messages although it is connected."""
        self.ignores_settings = False
        self.in_sync = (Replica(1, OLD, alive=True), Replica(2, NEW, alive=True))
        self.acknowledged = 0
        self.elected = 0
        self.reads = 0

    def produce(self) -> None:
        """Send a message to the former master, which acknowledges it when all members of its in-sync set have it."""
        if self.old.settings["brokerRole"] == "SLAVE":
            return
        if int(self.old.settings[MIN_IN_SYNC]) > (2 if self.connected else 1):
            return
        self.old.end += 1
        if self.connected and not self.stalled:
            self.new.end = self.old.end
        if not (self.connected and self.stalled):
            self.acknowledged = self.old.end

    def learn(self, broker: Broker) -> None:
        if broker is self.old and self.elected:
            self.reads += 1
            if self.reads >= READS_UNTIL_FOLLOWING:
                broker.settings["brokerRole"] = "SLAVE"

    # The interface `Servers`, and that of the controller.

    @asynccontextmanager
    async def broker(self, address: str) -> AsyncGenerator[Any]:
        yield self.old if address == OLD else self.new

    @asynccontextmanager
    async def controller(self, address: str) -> AsyncGenerator[Any]:
        yield self

    async def metadata(self) -> ControllerMetadata:
        return ControllerMetadata("n0", CONTROLLER, is_leader=True)

    async def sync_state(self, groups: tuple[str, ...]) -> dict[str, SyncState]:
        return dict.fromkeys(groups, SyncState(1, OLD, 1, self.in_sync, ()))

    async def elect_master(self, cluster: str, group: str, broker_id: int, now_ms: int) -> None:
        self.elected = broker_id
        self.connected = False

    async def elect(self) -> None:
        servers: Any = self
        await Election(servers, (CONTROLLER,), "mq", "mq-0", OLD, NEW, min_in_sync="1").perform(0)


@virtual_time
async def test_the_former_master_acknowledges_no_message_that_its_successor_lacks():
    group = Group()
    await group.elect()
    assert group.elected == 2
    assert group.reads == READS_UNTIL_FOLLOWING
    assert 0 < group.acknowledged <= group.new.end
    assert group.old.settings[MIN_IN_SYNC] == "1", "it accepts messages when it becomes the master again"


def stall(group: Group) -> None:
    group.stalled = True


def leave(group: Group) -> None:
    group.in_sync = group.in_sync[:1]


def ignore(group: Group) -> None:
    group.ignores_settings = True


@pytest.mark.parametrize(
    ("trouble", "message"),
    [
        (stall, "new:10911 has not reached the end"),
        (leave, "new:10911 is not in the in-sync set of mq-0"),
        (ignore, "old:10911 does not accept minInSyncReplicas=1000"),
    ],
    ids=["behind", "not in sync", "ignored setting"],
)
@virtual_time
async def test_no_other_master_is_elected_if_messages_could_be_lost(trouble: Callable[[Group], None], message: str):
    group = Group()
    trouble(group)
    with pytest.raises(RemotingError, match=message):
        await group.elect()
    assert group.elected == 0
