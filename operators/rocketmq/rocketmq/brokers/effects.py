"""Performs the steps of a plan: writes to the API server, and admin commands."""

from __future__ import annotations

from collections.abc import Mapping

from steersman import Context
from steersman.k8s import ConfigMap, PodDisruptionBudget, StatefulSet

from rocketmq.access import Servers
from rocketmq.api.v1.broker_types import Broker
from rocketmq.brokers.children import stateful_set
from rocketmq.brokers.elections import MIN_IN_SYNC, Election
from rocketmq.brokers.names import Member, group_name, host, labels_for, members_of
from rocketmq.brokers.plan import ApplyMember, Configure, CopyTo, HandOver, RemoveGroup, RemoveMember, Step
from rocketmq.brokers.settings import Endpoints, is_applied, settings_of
from rocketmq.remoting import RemotingError
from rocketmq.topics import copy_topics, read_copies

__all__ = ["Effects", "broker_address"]


def broker_address(broker: Broker, member: Member) -> str:
    """Return the address of a member's broker."""
    return f"{host(broker, member)}:{broker.spec.ports.listen}"


class Effects:
    """The effects of one reconcile of a Broker."""

    def __init__(self, broker: Broker, ctx: Context, servers: Servers, endpoints: Endpoints) -> None:
        self._broker = broker
        self._ctx = ctx
        self._servers = servers
        self._endpoints = endpoints
        self.joined: set[int] = set()
        """The groups of which each member has the topics of the other groups."""
        self.waiting = ""
        """The condition that a group waits for before it joins."""

    async def perform(self, steps: tuple[Step, ...]) -> tuple[str, ...]:
        """Perform the steps in order and return the error messages; the next reconcile repeats failed steps."""
        problems: list[str] = []
        for step in steps:
            try:
                await self._perform(step)
            except RemotingError as problem:
                problems.append(f"{type(step).__name__}: {problem}")
                self._ctx.log.warning("step_failed", step=type(step).__name__, error=str(problem))
        return tuple(problems)

    async def _perform(self, step: Step) -> None:
        match step:
            case ApplyMember(member, reason):
                await self._apply(member, reason)
            case RemoveMember(member):
                await self._ctx.delete(StatefulSet, member.stateful_set(self._broker.metadata.name))
                self._ctx.log.info("member_removed", group=member.group, member=member.index, reason="fewer_replicas")
            case HandOver(master, to):
                await self._hand_over(master, to)
            case Configure(member, settings):
                await self._configure(member, settings)
            case CopyTo(source, target, group):
                await self._copy(source, target, group)
            case RemoveGroup(group):
                await self._remove_group(group)

    async def _apply(self, member: Member, reason: str) -> None:
        child = stateful_set(self._broker, member, self._endpoints)
        before = self._ctx.get(StatefulSet, child.metadata.name)
        await self._ctx.apply(child)
        event = "member_created" if before is None else "member_restarted"
        self._ctx.log.info(event, group=member.group, member=member.index, reason=reason)
        self._ctx.event("Created" if before is None else "Restarted", f"member {child.metadata.name}: {reason}")

    async def _configure(self, member: Member, settings: Mapping[str, str]) -> None:
        async with self._servers.broker(broker_address(self._broker, member)) as admin:
            await admin.update_config(settings)
            after = await admin.config()
        ignored = sorted(name for name, value in settings.items() if not is_applied(value, after.get(name)))
        if ignored:
            pairs = ", ".join(f"{name}={settings[name]} (it has {after.get(name, 'no value')})" for name in ignored)
            pod = member.pod(self._broker.metadata.name)
            raise RemotingError(f"{pod} does not accept {pairs}: correct spec.config")
        self._ctx.log.info("config_applied", group=member.group, member=member.index, keys=sorted(settings))

    async def _copy(self, source: Member, target: Member, group: int) -> None:
        """Copy topics and subscription groups; the group has joined when its replicas have them too."""
        addresses = broker_address(self._broker, source), broker_address(self._broker, target)
        async with self._servers.broker(addresses[0]) as old, self._servers.broker(addresses[1]) as new:
            copied = await copy_topics(old, new)
            of_master = await read_copies(new, copied)
            for member in members_of(self._broker, group):
                if member == target:
                    continue
                async with self._servers.broker(broker_address(self._broker, member)) as replica:
                    if await read_copies(replica, copied) != of_master:
                        pod = member.pod(self._broker.metadata.name)
                        self.waiting = f"group {group} joins when {pod} has copied the topics of its master"
                        return
        topics, groups = len(copied.topics), len(copied.groups)
        self.joined.add(group)
        self._ctx.log.info("group_joined", group=group, source=addresses[0], topics=topics, subscription_groups=groups)
        self._ctx.event("GroupJoined", f"group {group} has {topics} topics and {groups} subscription groups")

    async def _hand_over(self, master: Member, to: Member) -> None:
        if self._broker.spec.cluster_mode == "DLEDGER":
            await self._transfer(master, to)
        else:
            await self._elect(master, to)
        self._ctx.log.info("master_handed_over", group=master.group, master=master.index, to=to.index)
        self._ctx.event("MasterHandedOver", f"group {master.group}: member {to.index} follows member {master.index}")

    async def _transfer(self, master: Member, to: Member) -> None:
        group = group_name(self._broker.metadata.name, master.group)
        address = f"{host(self._broker, master)}:{self._broker.spec.ports.dledger}"
        async with self._servers.dledger(address, group, f"n{master.index}") as admin:
            await admin.transfer_leadership(f"n{to.index}", await admin.term(f"n{to.index}"))

    async def _elect(self, master: Member, to: Member) -> None:
        name = self._broker.metadata.name
        election = Election(
            servers=self._servers,
            controllers=self._endpoints.controllers,
            cluster=self._broker.spec.cluster_name or name,
            group=group_name(name, to.group),
            master=broker_address(self._broker, master),
            successor=broker_address(self._broker, to),
            min_in_sync=settings_of(self._broker, master, self._endpoints)[MIN_IN_SYNC],
        )
        await election.perform(int(self._ctx.now().timestamp() * 1000))

    async def _remove_group(self, group: int) -> None:
        name = self._broker.metadata.name
        for child in self._ctx.list(StatefulSet, labels={**labels_for(name), "rocketmq.daocloud.io/group": str(group)}):
            await self._ctx.delete(child)
        await self._ctx.delete(PodDisruptionBudget, group_name(name, group))
        await self._ctx.delete(ConfigMap, group_name(name, group))
        self._ctx.log.info("group_removed", group=group, reason="drained")
        self._ctx.event("GroupRemoved", f"group {group} was drained and removed")
