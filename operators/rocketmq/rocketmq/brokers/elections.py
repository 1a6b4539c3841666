"""The planned election of another master in mode CONTROLLER.

Brokers of 5.4 and 5.5 remove a replica from their in-sync set when its connection ends, before the controllers know it.
The elected replica ends its connection, so its former master would acknowledge messages that no other member has, until
it learns of the election. It must refuse messages during that time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from rocketmq.access import Servers
from rocketmq.remoting import BrokerAdmin, ControllerAdmin, RemotingError

__all__ = ["MIN_IN_SYNC", "REFUSE_MESSAGES", "Election"]

MIN_IN_SYNC = "minInSyncReplicas"
"""The setting with the size of the in-sync set below which a master of mode CONTROLLER refuses messages."""
REFUSE_MESSAGES = "1000"
"""A value of `minInSyncReplicas` that no in-sync set has."""
POLL_SECONDS = 0.1
UNCHANGED_READS = 3
"""Consecutive reads in which both members have the same end, so that no message from before is still being stored."""
CATCH_UP_SECONDS = 5.0
"""Time in which the successor must reach the end of the master's commit log."""
FOLLOW_SECONDS = 10.0
"""Time in which the former master must follow the elected one. Brokers ask the controllers every 5 seconds."""


@dataclass(frozen=True)
class Election:
    """An election of the successor of a master.

    If it fails, the former master refuses messages until a later reconcile applies the settings of the spec.
    """

    servers: Servers
    controllers: tuple[str, ...]
    cluster: str
    """The name of the RocketMQ cluster."""
    group: str
    """The name of the broker group."""
    master: str
    """The address of the master's broker."""
    successor: str
    """The address of the successor's broker."""
    min_in_sync: str
    """The value of `minInSyncReplicas` in the spec."""

    async def perform(self, now_ms: int) -> None:
        """Make the master refuse messages, elect the successor when it has all of them, and wait for the new roles.

        Args:
            now_ms: the Unix time in milliseconds.

        Raises:
            RemotingError: a server does not answer or refuses a command, the successor is not in the in-sync set or
                does not reach the end of the master's commit log, or the former master does not follow it.
        """
        async with (
            self.servers.broker(self.master) as old,
            self.servers.broker(self.successor) as new,
            self._leader() as controller,
        ):
            successor_id = await self._id_of(controller, new)
            await self._refuse_messages(old)
            await self._catch_up(old, new)
            await controller.elect_master(self.cluster, self.group, successor_id, now_ms)
            await self._follow(old)
            await old.update_config({MIN_IN_SYNC: self.min_in_sync})

    @asynccontextmanager
    async def _leader(self) -> AsyncGenerator[ControllerAdmin]:
        for address in self.controllers:
            async with AsyncExitStack() as stack:
                try:
                    controller = await stack.enter_async_context(self.servers.controller(address))
                    is_leader = (await controller.metadata()).is_leader
                except RemotingError:
                    continue
                if is_leader:
                    yield controller
                    return
        raise RemotingError(f"no controller of {', '.join(self.controllers)} leads")

    async def _id_of(self, controller: ControllerAdmin, successor: BrokerAdmin) -> int:
        """Return the number that the controllers gave to the successor."""
        config = await successor.config()
        registered = f"{config.get('brokerIP1', '')}:{config.get('listenPort', '')}"
        state = (await controller.sync_state((self.group,))).get(self.group)
        ids = [each.broker_id for each in (state.in_sync if state else ()) if each.address == registered]
        if not ids:
            raise RemotingError(f"{registered} is not in the in-sync set of {self.group}")
        return ids[0]

    async def _refuse_messages(self, master: BrokerAdmin) -> None:
        if (await master.config()).get(MIN_IN_SYNC) != REFUSE_MESSAGES:
            await master.update_config({MIN_IN_SYNC: REFUSE_MESSAGES})
        if (await master.config()).get(MIN_IN_SYNC) != REFUSE_MESSAGES:
            raise RemotingError(f"{self.master} does not accept {MIN_IN_SYNC}={REFUSE_MESSAGES}")

    async def _catch_up(self, master: BrokerAdmin, successor: BrokerAdmin) -> None:
        """Wait until the successor has all messages of the master, which stores no more."""
        deadline = _now() + CATCH_UP_SECONDS
        seen: list[str] = []
        while len(seen) < UNCHANGED_READS:
            end, reached = await _end_of(master), await _end_of(successor)
            seen = [*seen, end] if end == reached and set(seen) <= {end} else []
            if _now() > deadline:
                raise RemotingError(f"{self.successor} has not reached the end {end} of {self.master}: {reached}")
            await asyncio.sleep(POLL_SECONDS)

    async def _follow(self, former: BrokerAdmin) -> None:
        deadline = _now() + FOLLOW_SECONDS
        while (await former.config()).get("brokerRole") != "SLAVE":
            if _now() > deadline:
                raise RemotingError(f"{self.master} does not follow {self.successor}, which was elected")
            await asyncio.sleep(POLL_SECONDS)


def _now() -> float:
    return asyncio.get_running_loop().time()


async def _end_of(broker: BrokerAdmin) -> str:
    return (await broker.runtime_info()).get("commitLogMaxOffset", "")
