"""The number of groups for the current load: messages per second and disk usage. Pure functions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime, timedelta

from rocketmq.api.v1.broker_types import Broker
from rocketmq.brokers.observation import MemberState, Observation

__all__ = ["Scaling", "autoscale"]

STABILIZATION_SECONDS = 600
"""Time for which fewer groups must be sufficient before a group is removed."""
SPARE_SHARE = 0.8
"""A group is removed only if the other groups then stay below this share of the targets."""


@dataclass(frozen=True)
class Scaling:
    """The desired number of groups, the reason, and the time since which fewer groups are sufficient."""

    size: int
    below_since: datetime | None = None
    reason: str = ""


def autoscale(broker: Broker, seen: Observation) -> Scaling:
    """Return the desired number of groups of a Broker; its current number while it must not change.

    Groups are added immediately: as many as the message rate needs, or one if disk usage exceeds its target. One group
    at a time is removed, after fewer groups were sufficient for `STABILIZATION_SECONDS`. The number does not change
    while a group is new, is being removed or has no master, because the load of the others is then not representative.
    """
    spec, size = broker.spec.autoscaling, broker.spec.size
    if not spec.enabled or spec.min_groups is None or spec.max_groups is None:
        return Scaling(size)
    bounded = min(max(size, spec.min_groups), spec.max_groups)
    if bounded != size:
        return Scaling(bounded, reason=f"minGroups is {spec.min_groups} and maxGroups is {spec.max_groups}")
    masters = _masters(broker, seen)
    if masters is None:
        return Scaling(size)
    rate, disk = sum(each.put_tps for each in masters), sum(each.disk_percent for each in masters)
    wanted, reason = _wanted(broker, rate, disk)
    if wanted > size:
        more = min(wanted, spec.max_groups)
        return Scaling(more, reason=reason if more > size else "")
    if size > spec.min_groups and _fits(broker, rate, disk, size - 1):
        since = broker.status.below_since or seen.now
        if seen.now - since >= timedelta(seconds=STABILIZATION_SECONDS):
            return Scaling(size - 1, reason=f"{rate:.0f} messages per second and the disks fit {size - 1} groups")
        return Scaling(size, since)
    return Scaling(size)


def _masters(broker: Broker, seen: Observation) -> tuple[MemberState, ...] | None:
    """Return the masters of all groups, or `None` while the groups change."""
    joined = sum(each.joined for each in broker.status.groups)
    masters = [seen.group(index).master for index in range(broker.spec.size)]
    found = tuple(each for each in masters if each is not None)
    leaving = any(group.exists for group in seen.groups if group.index >= broker.spec.size)
    return None if leaving or joined < broker.spec.size or len(found) < broker.spec.size else found


def _wanted(broker: Broker, rate: float, disk: float) -> tuple[int, str]:
    spec, size = broker.spec.autoscaling, broker.spec.size
    by_rate = math.ceil(rate / spec.target_put_tps) if spec.target_put_tps else 0
    by_disk = size + 1 if disk / size > spec.target_disk_percent else 0
    if by_rate >= by_disk:
        return by_rate, f"{rate:.0f} messages per second need {by_rate} groups"
    return by_disk, f"the disks are {disk / size:.0f} % full on average"


def _fits(broker: Broker, rate: float, disk: float, size: int) -> bool:
    spec = broker.spec.autoscaling
    by_rate = not spec.target_put_tps or rate <= SPARE_SHARE * spec.target_put_tps * size
    return by_rate and disk <= SPARE_SHARE * spec.target_disk_percent * size
