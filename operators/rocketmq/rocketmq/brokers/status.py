"""The stage Status: the reported state of the groups of a Broker. Pure functions."""

from __future__ import annotations

from datetime import datetime

from steersman import Condition, Conditions
from steersman.models import merge_conditions

from rocketmq.api.v1.broker_types import Broker, BrokerStatus, GroupStatus
from rocketmq.brokers.names import LABEL, group_name
from rocketmq.brokers.observation import GroupState, Observation
from rocketmq.brokers.plan import Plan
from rocketmq.brokers.settings import Endpoints

__all__ = ["status"]


def status(
    broker: Broker,
    seen: Observation,
    done: Plan,
    joined: frozenset[int],
    endpoints: Endpoints,
    problems: tuple[str, ...],
    below_since: datetime | None = None,
) -> BrokerStatus:
    """Return the status after a reconcile.

    Args:
        broker: the Broker, with its last status.
        seen: the groups.
        done: the plan that was performed.
        joined: groups that have the topics of the others.
        endpoints: the name servers and controllers of the members.
        problems: steps that failed.
        below_since: since when fewer groups are sufficient.
    """
    known = {each.name: each for each in broker.status.groups}
    groups = tuple(
        _group(broker, group, known.get(group_name(broker.metadata.name, group.index)), done, joined)
        for group in seen.groups
        if group.exists
    )
    conditions = _conditions(broker, seen, done, joined, endpoints, problems)
    versions = {each.version for group in seen.groups for each in group.members if each.version}
    return BrokerStatus(
        observed_generation=broker.metadata.generation,
        phase=_phase(conditions),
        groups=groups,
        name_servers=endpoints.name_servers,
        nodes=tuple(
            each.member.pod(broker.metadata.name) for group in seen.groups for each in group.members if each.exists
        ),
        size=len(groups),
        selector=f"{LABEL}={broker.metadata.name}",
        version=min(versions, default=broker.status.version),
        below_since=below_since,
        conditions=merge_conditions(broker.status.conditions, conditions, seen.now, broker.metadata.generation),
    )


def _group(
    broker: Broker, group: GroupState, before: GroupStatus | None, done: Plan, joined: frozenset[int]
) -> GroupStatus:
    name = broker.metadata.name
    master = group.master.member.pod(name) if group.master is not None else ""
    old_master, epoch = (before.master, before.epoch) if before is not None else ("", 0)
    if master and master != old_master:
        epoch += 1
    return GroupStatus(
        name=group_name(name, group.index),
        # The status keeps a master that is temporarily unreachable, so that its return does not count as a change.
        master=master or old_master,
        epoch=epoch,
        in_sync=tuple(each.member.pod(name) for each in group.synchronous),
        members=tuple(each.member.pod(name) for each in group.members if each.exists),
        joined=group.index in joined,
        drain=done.drains.get(group.index),
    )


def _conditions(
    broker: Broker,
    seen: Observation,
    done: Plan,
    joined: frozenset[int],
    endpoints: Endpoints,
    problems: tuple[str, ...],
) -> Conditions:
    wanted = [seen.group(index) for index in range(broker.spec.size)]
    without = [str(group.index) for group in wanted if group.master is None]
    behind = [str(group.index) for group in wanted if not group.healthy]
    outdated = [each for group in wanted for each in group.members if each.outdated]
    joining = bool(joined) and not joined.issuperset(range(broker.spec.size))
    scaling = bool(done.drains) or joining or any(not group.exists for group in wanted)
    silent = sorted(set(endpoints.name_servers) - set(seen.name_servers))
    pending = problems[0] if problems else done.waiting
    return (
        _condition("Available", len(without) < len(wanted), "GroupsServe", "NoMaster", _list("no master", without)),
        _condition("MasterElected", not without, "AllGroups", "MissingMasters", _list("no master", without)),
        _condition("InSync", not behind, "AllMembers", "MembersBehind", _list("not in sync", behind)),
        _condition(
            "ConfigApplied",
            not outdated and not problems,
            "Complete",
            "RestartNotAllowed" if outdated and not broker.spec.allow_restart else "InProgress",
            pending or f"{len(outdated)} members must restart",
        ),
        _condition(
            "NameServersReachable",
            bool(endpoints.name_servers) and not silent,
            "AllAnswer",
            "SomeDoNotAnswer" if endpoints.name_servers else "NoNameServers",
            f"no answer from {', '.join(silent)}" if silent else f"{len(seen.name_servers)} name servers",
        ),
        _condition("Scaling", scaling, "GroupsChange", "Complete", pending or f"{len(wanted)} groups"),
    )


def _list(text: str, groups: list[str]) -> str:
    return f"groups with members {text}: {', '.join(groups)}" if groups else "all groups"


def _condition(kind: str, holds: bool, yes: str, no: str, message: str) -> Condition:
    return Condition(type=kind, status="True" if holds else "False", reason=yes if holds else no, message=message)


def _phase(conditions: Conditions) -> str:
    held = {each.type: each.status == "True" for each in conditions}
    if not held["Available"]:
        return "Pending"
    if held["Scaling"]:
        return "Scaling"
    if not held["ConfigApplied"]:
        return "Updating"
    return "Running" if held["InSync"] and held["MasterElected"] else "Degraded"
