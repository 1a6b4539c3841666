"""Names of the children of a Broker, of its groups and of their members."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rocketmq.api.v1.broker_types import Broker, members_per_group

__all__ = [
    "GROUP_LABEL",
    "LABEL",
    "MEMBER_LABEL",
    "Member",
    "group_name",
    "host",
    "host_of_pod",
    "labels_for",
    "members_of",
    "service_name",
]

LABEL = "rocketmq.daocloud.io/broker"
"""The label with the name of the Broker of a child."""
GROUP_LABEL = "rocketmq.daocloud.io/group"
"""The label with the number of the group."""
MEMBER_LABEL = "rocketmq.daocloud.io/member"
"""The label with the number of the member within its group."""


@dataclass(frozen=True, order=True)
class Member:
    """A member of a group: the number of the group and of the member, from 0."""

    group: int
    index: int

    def stateful_set(self, broker: str) -> str:
        """Return the name of the StatefulSet, which has one Pod."""
        return f"{broker}-{self.group}-{self.index}"

    def pod(self, broker: str) -> str:
        """Return the name of the Pod."""
        return f"{self.stateful_set(broker)}-0"


def group_name(broker: str, group: int) -> str:
    """Return the name of a group in RocketMQ, which is also the name of its ConfigMap."""
    return f"{broker}-{group}"


def service_name(broker: str) -> str:
    """Return the name of the headless Service of all members."""
    return f"{broker}-brokers"


def host(broker: Broker, member: Member) -> str:
    """Return the stable DNS name of a member."""
    return host_of_pod(broker, member.pod(broker.metadata.name))


def host_of_pod(broker: Broker, pod: str) -> str:
    """Return the stable DNS name of a Pod of the Broker."""
    return f"{pod}.{service_name(broker.metadata.name)}.{broker.metadata.namespace}.svc"


def labels_for(broker: str, member: Member | None = None) -> Mapping[str, str]:
    """Return the labels of all members, or those of one."""
    of_all = {LABEL: broker}
    if member is None:
        return of_all
    return {**of_all, GROUP_LABEL: str(member.group), MEMBER_LABEL: str(member.index)}


def members_of(broker: Broker, group: int) -> tuple[Member, ...]:
    """Return the members of a group according to the spec."""
    return tuple(Member(group, index) for index in range(members_per_group(broker.spec)))
