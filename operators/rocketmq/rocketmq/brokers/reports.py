"""Reads the reports of the members of a Broker through the admin protocol."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace

from rocketmq.access import Servers
from rocketmq.brokers.names import Member
from rocketmq.brokers.observation import GroupState, MemberState
from rocketmq.remoting import BrokerAdmin, RemotingError, SyncState
from rocketmq.remoting.errors import DocumentError

__all__ = ["answering", "lag_of", "observe_group", "observe_member", "sync_states"]

SCHEDULE_PREFIX = "scheduleMessageOffset_"
CATCH_UP_SECONDS = (0.1, 0.2, 0.4, 0.8)
"""Delays before members that are behind the master are read again.

A follower learns from the next message which messages the group has acknowledged, so under load its end is always a
little behind. It is in sync when it reaches the end that the master had at the first read.
"""


async def observe_group(
    servers: Servers,
    index: int,
    pods: Sequence[MemberState],
    addresses: Mapping[Member, str],
    believed_master: Member | None,
) -> GroupState:
    """Return the group with the reports of its members.

    The presumed master is read before the others, so that their offsets are compared with an earlier one. If another
    member reports that it is the master, all others are read again after it. Members that are behind are read again a
    few times, so that they can reach the end that the master had.
    """
    members = {each.member: each for each in pods}
    first = believed_master if believed_master in members else next(iter(members), None)
    if first is not None:
        members[first] = await observe_member(servers, members[first], addresses[first])
    await _refresh(servers, members, addresses, first)
    master = GroupState(index, tuple(members.values())).master
    if master is not None and master.member != first:
        await _refresh(servers, members, addresses, master.member)
    if master is not None:
        await _let_catch_up(servers, members, addresses, master)
    return GroupState(index, tuple(members[member] for member in sorted(members)))


async def _let_catch_up(
    servers: Servers, members: dict[Member, MemberState], addresses: Mapping[Member, str], master: MemberState
) -> None:
    for pause in CATCH_UP_SECONDS:
        behind = [each.member for each in members.values() if each.usable and each.offset < master.offset]
        if not behind:
            return
        await asyncio.sleep(pause)
        await _ask(servers, members, addresses, behind)


async def _refresh(
    servers: Servers, members: dict[Member, MemberState], addresses: Mapping[Member, str], besides: Member | None
) -> None:
    await _ask(servers, members, addresses, [member for member in members if member != besides])


async def _ask(
    servers: Servers, members: dict[Member, MemberState], addresses: Mapping[Member, str], others: Sequence[Member]
) -> None:
    found = await asyncio.gather(*(observe_member(servers, members[each], addresses[each]) for each in others))
    members.update(zip(others, found, strict=True))


async def observe_member(servers: Servers, state: MemberState, address: str) -> MemberState:
    """Return the state of a member with the report of its broker; without the report if the broker does not answer."""
    silent = replace(state, answers=False, is_master=False)
    if not state.exists:
        return silent
    try:
        async with servers.broker(address) as broker:
            info, config = await broker.runtime_info(), await broker.config()
            return reported(state, info, config)
    except RemotingError:
        return silent


def reported(state: MemberState, info: Mapping[str, str], config: Mapping[str, str]) -> MemberState:
    """Return the state of a member with the responses of its broker.

    The broker reports its message rate over 10, 60 and 600 seconds; the state has the rate over 60 seconds.

    Raises:
        DocumentError: a response has no end of the commit log.
    """
    if not info.get("commitLogMaxOffset", "").isdecimal():
        raise DocumentError("the runtime information has no commitLogMaxOffset")
    delayed = sum(_behind(value) for name, value in info.items() if name.startswith(SCHEDULE_PREFIX))
    return replace(
        state,
        answers=True,
        is_master=config.get("brokerId") == "0" and config.get("brokerRole") != "SLAVE",
        offset=int(info["commitLogMaxOffset"]),
        settings=config,
        version=info.get("brokerVersionDesc", "").removeprefix("V").replace("_", "."),
        address=f"{config.get('brokerIP1', '')}:{config.get('listenPort', '')}",
        put_tps=_number("".join(info.get("putTps", "").split(" ")[1:2])),
        disk_percent=100 * _number(info.get("commitLogDiskRatio", "")),
        delayed=delayed + max(0, int(_number(info.get("timerCongestNum", "")))),
    )


def _behind(value: str) -> int:
    """Return the number of messages between the two offsets of a delay level, as in `3,5`."""
    first, _, last = value.partition(",")
    return max(0, int(_number(last)) - int(_number(first)))


def _number(text: str) -> float:
    with contextlib.suppress(ValueError):
        return float(text)
    return 0.0


async def lag_of(servers: Servers, master: str, others: Sequence[str]) -> int | None:
    """Return the number of messages of one broker that consumers have not read; `None` if a broker does not answer.

    A consumer group that has not read from the broker has no offsets there. So the topics of a group are those for
    which it has offsets on any broker.

    Args:
        servers: gives access to the brokers.
        master: the address of the broker.
        others: the addresses of the masters of the other groups.
    """
    try:
        read: dict[str, set[str]] = {}
        for address in (master, *others):
            async with servers.broker(address) as broker:
                for group in await broker.subscription_groups():
                    found = await broker.consumer_stats(group)
                    read.setdefault(group, set()).update(queue.topic for queue in found.queues)
        async with servers.broker(master) as broker:
            topics = await broker.topic_configs()
            wanted = [(group, topic) for group, found in read.items() for topic in found if topic in topics]
            return await _total(broker, wanted)
    except RemotingError:
        return None


async def _total(broker: BrokerAdmin, wanted: Sequence[tuple[str, str]]) -> int:
    total = 0
    for group, topic in wanted:
        total += (await broker.consumer_stats(group, topic)).lag
    return total


async def answering(servers: Servers, name_servers: Sequence[str]) -> tuple[str, ...]:
    """Return the name servers that answer."""

    async def probe(address: str) -> bool:
        try:
            async with servers.name_server(address) as name_server:
                await name_server.cluster_info()
        except RemotingError:
            return False
        return True

    found = await asyncio.gather(*map(probe, name_servers))
    return tuple(address for address, answers in zip(name_servers, found, strict=True) if answers)


async def sync_states(servers: Servers, controllers: Sequence[str], groups: tuple[str, ...]) -> dict[str, SyncState]:
    """Return the state of the groups from the leading controller; empty if there is no leader."""
    for address in controllers:
        with contextlib.suppress(RemotingError):
            async with servers.controller(address) as controller:
                if (await controller.metadata()).is_leader:
                    return await controller.sync_state(groups)
    return {}
