"""The number of groups that the load calls for: by messages per second and by use of the disk. Pure functions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime, timedelta

from rocketmq.api.v1.broker_types import Broker
from rocketmq.brokers.observation import MemberState, Observation

__all__ = ["Scaling", "autoscale"]

STABILIZATION_SECONDS = 600
"""Time that fewer groups must be enough before one leaves."""
SPARE_SHARE = 0.8
"""Share of the targets that the groups which stay may reach when one leaves."""


@dataclass(frozen=True)
class Scaling:
    """The number of groups to have, why, and since when fewer would be enough."""

    size: int
    below_since: datetime | None = None
    reason: str = ""


def autoscale(broker: Broker, seen: Observation) -> Scaling:
    """Return the number of groups of a Broker; its present number while it must not change.

    Groups are added at once, as many as the rate of messages needs, or one when the disks are fuller than their target.
    One group at a time leaves, after fewer groups were enough for `STABILIZATION_SECONDS`. Nothing changes while a
    group is new, leaves or has no master, because the load of the others is then no measure.
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
