"""One reconcile of a Broker: Finalize, PreConfig, Sync, Status."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace

from steersman import Context, MergePatch, Result, key_of
from steersman.k8s import Pod, StatefulSet
from steersman.models import is_true

from rocketmq import nameservers, quorum
from rocketmq.access import Servers, servers
from rocketmq.api.v1.broker_types import Broker, BrokerStatus
from rocketmq.api.v1.controller_types import Controller
from rocketmq.api.v1.nameservice_types import NameService
from rocketmq.brokers import children
from rocketmq.brokers.autoscaling import Scaling, autoscale
from rocketmq.brokers.children import RESTART_HASH
from rocketmq.brokers.effects import Effects, broker_address
from rocketmq.brokers.names import GROUP_LABEL, MEMBER_LABEL, Member, group_name, labels_for, members_of
from rocketmq.brokers.observation import GroupState, MemberState, Observation
from rocketmq.brokers.plan import plan
from rocketmq.brokers.reports import answering, lag_of, observe_group, sync_states
from rocketmq.brokers.settings import Endpoints
from rocketmq.brokers.status import status
from rocketmq.finalize import finalize
from rocketmq.metrics import METRICS

__all__ = ["reconcile_broker"]

BUSY_SECONDS = 1.0
"""Time until the next reconcile during a change."""
STEADY_SECONDS = 10.0
"""Time until the next reconcile of a Broker without changes."""


async def reconcile_broker(broker: Broker, ctx: Context) -> Result:
    """Perform the next steps towards the spec of a Broker, and report its status."""
    ended = await finalize(broker, broker.spec.broker_image, labels_for(broker.metadata.name), ctx)
    if ended is not None:
        return ended
    source = servers()
    endpoints = endpoints_of(broker, ctx)
    await pre_config(broker, endpoints, ctx)
    seen = await observe(broker, endpoints, source, ctx)
    todo = plan(broker, seen, endpoints)
    effects = Effects(broker, ctx, source, endpoints)
    problems = await effects.perform(todo.steps)
    todo = replace(todo, waiting=effects.waiting or todo.waiting)
    joined = todo.joined | effects.joined
    scaling = autoscale(broker, seen)
    await _scale(broker, scaling, ctx)
    after = status(broker, seen, todo, joined, endpoints, problems, scaling.below_since)
    METRICS.record(key_of(broker), broker.status, after, seen)
    _report(broker.status, after, ctx)
    busy = bool(todo.steps or problems or todo.waiting) or after.phase != "Running"
    return Result(requeue_after=BUSY_SECONDS if busy else STEADY_SECONDS, status=after)


async def _scale(broker: Broker, scaling: Scaling, ctx: Context) -> None:
    """Write the number of groups that autoscaling chose to `spec.size`."""
    if scaling.size == broker.spec.size:
        return
    metadata = {"resourceVersion": broker.metadata.resource_version}
    await ctx.patch(broker, MergePatch({"metadata": metadata, "spec": {"size": scaling.size}}))
    up = scaling.size > broker.spec.size
    ctx.log.info("groups_scaled", before=broker.spec.size, after=scaling.size, reason=scaling.reason)
    ctx.event("ScaledUp" if up else "ScaledDown", f"{broker.spec.size} to {scaling.size} groups: {scaling.reason}")


def endpoints_of(broker: Broker, ctx: Context) -> Endpoints:
    """Return the stable DNS names of the name servers and controllers for the members."""
    spec, name = broker.spec, broker.metadata.name
    found: tuple[str, ...] = spec.name_servers
    if not found:
        service = ctx.get(NameService, spec.name_service or name)
        found = nameservers.stable_addresses(service) if service is not None else broker.status.name_servers
    controller = ctx.get(Controller, spec.controller or name) if spec.cluster_mode == "CONTROLLER" else None
    return Endpoints(found, quorum.stable_addresses(controller) if controller is not None else ())


async def pre_config(broker: Broker, endpoints: Endpoints, ctx: Context) -> None:
    """Apply the Service, and the ConfigMap and the budget of each group."""
    await ctx.apply(children.service(broker))
    for group in range(broker.spec.size):
        await ctx.apply(children.config_map(broker, group, endpoints))
        await ctx.apply(children.budget(broker, group))


async def observe(broker: Broker, endpoints: Endpoints, source: Servers, ctx: Context) -> Observation:
    """Return all groups of the spec, and those that are being removed."""
    name = broker.metadata.name
    sets = {_member(each): each for each in ctx.list(StatefulSet, labels=labels_for(name))}
    pods = {pod.metadata.name: pod for pod in ctx.list(Pod, labels=labels_for(name))}
    wanted = {member for group in range(broker.spec.size) for member in members_of(broker, group)}
    states: dict[int, list[MemberState]] = {}
    for member in sorted(wanted | set(sets)):
        state = _state(broker, member, sets.get(member), pods.get(member.pod(name)), endpoints)
        states.setdefault(member.group, []).append(state)
    masters = {each.name: each.master for each in broker.status.groups}
    found = await asyncio.gather(
        *(
            observe_group(
                source,
                index,
                members,
                {each.member: broker_address(broker, each.member) for each in members},
                _believed(masters.get(group_name(name, index), ""), name, members),
            )
            for index, members in sorted(states.items())
        )
    )
    groups = await _with_controllers(broker, found, endpoints, source)
    groups = await _with_lag(broker, groups, source)
    return Observation(tuple(groups), ctx.now(), await answering(source, endpoints.name_servers))


def _member(child: StatefulSet) -> Member:
    return Member(int(child.metadata.labels[GROUP_LABEL]), int(child.metadata.labels[MEMBER_LABEL]))


def _believed(pod: str, name: str, members: Iterable[MemberState]) -> Member | None:
    return next((each.member for each in members if each.member.pod(name) == pod), None)


def _state(
    broker: Broker, member: Member, child: StatefulSet | None, pod: Pod | None, endpoints: Endpoints
) -> MemberState:
    if child is None:
        return MemberState(member)
    annotations = child.metadata.annotations
    wanted = children.stateful_set(broker, member, endpoints).metadata.annotations[RESTART_HASH]
    current = pod is not None and pod.metadata.annotations.get(RESTART_HASH) == annotations.get(RESTART_HASH)
    ready = pod is not None and pod.metadata.deletion_timestamp is None and _is_ready(pod)
    return MemberState(member, exists=True, outdated=annotations.get(RESTART_HASH) != wanted, ready=current and ready)


def _is_ready(pod: Pod) -> bool:
    return bool(pod.status and is_true(pod.status.conditions or (), "Ready"))


async def _with_controllers(
    broker: Broker, groups: Iterable[GroupState], endpoints: Endpoints, source: Servers
) -> list[GroupState]:
    found = list(groups)
    if broker.spec.cluster_mode != "CONTROLLER":
        return found
    names = tuple(group_name(broker.metadata.name, group.index) for group in found)
    known = await sync_states(source, endpoints.controllers, names)
    listed: list[GroupState] = []
    for group, name in zip(found, names, strict=True):
        state = known.get(name)
        addresses = {each.address for each in state.in_sync} if state is not None else set[str]()
        in_sync = frozenset(each.member for each in group.members if each.address in addresses)
        elected = [each.member for each in group.members if state is not None and each.address == state.master_address]
        listed.append(replace(group, in_sync=in_sync, elected=elected[0] if elected else None))
    return listed


async def _with_lag(broker: Broker, groups: list[GroupState], source: Servers) -> list[GroupState]:
    """Return the groups, with the lag of those that are being removed."""
    masters = {group.index: broker_address(broker, group.master.member) for group in groups if group.master is not None}
    found: list[GroupState] = []
    for group in groups:
        lag: int | None = None
        if group.index >= broker.spec.size and group.index in masters:
            others = [address for index, address in masters.items() if index != group.index]
            lag = await lag_of(source, masters[group.index], others)
        found.append(replace(group, lag=lag))
    return found


def _report(before: BrokerStatus, after: BrokerStatus, ctx: Context) -> None:
    """Log each change of a master or of the name servers."""
    known = {each.name: each.master for each in before.groups}
    for group in after.groups:
        old = known.get(group.name, "")
        if group.master != old:
            ctx.log.info("master_changed", group=group.name, before=old, after=group.master, epoch=group.epoch)
            ctx.event("MasterChanged", f"group {group.name}: {group.master} is the master")
    if before.name_servers != after.name_servers:
        ctx.log.info("name_servers_changed", before=before.name_servers, after=after.name_servers)
