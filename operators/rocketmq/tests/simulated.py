"""Servers of RocketMQ in memory, in mode CONTROLLER, behind the interface `rocketmq.access.Servers`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from rocketmq.remoting import ControllerMetadata, RemotingError, Replica, SubscriptionGroup, SyncState, TopicConfig

from .java_properties import load_properties

__all__ = ["SimulatedBroker", "SimulatedServers"]

Effect = Callable[[str, Callable[[], None]], Any]
"""Performs a change as a coroutine, such as `ScenarioRun.effect`."""


@dataclass
class SimulatedBroker:
    """One broker; topics and messages survive a restart of its Pod."""

    address: str
    pod: str = ""
    """The uid of the Pod that runs it."""
    settings: dict[str, str] = field(default_factory=dict[str, str])
    topics: dict[str, TopicConfig] = field(default_factory=dict[str, TopicConfig])
    groups: dict[str, SubscriptionGroup] = field(default_factory=dict[str, SubscriptionGroup])
    offset: int = 0
    """The end of its commit log."""


class SimulatedServers:
    """The servers of all ready Pods. A broker that is not ready does not answer and is not in sync.

    The first ready member of a group becomes its master. When the master stops, the controllers elect the next member
    that has all of its messages.

    Args:
        pods: Returns the Pods of the cluster.
        config: Returns the data of a ConfigMap.
        effect: Performs each change that an admin command makes.
    """

    def __init__(
        self,
        pods: Callable[[], list[dict[str, Any]]],
        config: Callable[[str], Mapping[str, str]],
        effect: Effect,
    ) -> None:
        self._pods = pods
        self._config = config
        self.effect = effect
        self.brokers: dict[str, SimulatedBroker] = {}
        self.masters: dict[str, str] = {}
        """The address of the master of each group."""
        self.epochs: dict[str, int] = {}
        self.acknowledged: dict[str, int] = {}
        """The number of messages of each group that a producer knows to be stored."""

    def refresh(self) -> None:
        """Start brokers in new Pods, replicate messages, and elect masters of groups that have none."""
        up = self._up()
        for host, pod in up.items():
            metadata = pod["metadata"]
            if not host.startswith("shop-") or "rocketmq.daocloud.io/group" not in metadata["labels"]:
                continue
            broker = self.brokers.setdefault(host, SimulatedBroker(host))
            if broker.pod != metadata["uid"]:
                group = f"shop-{metadata['labels']['rocketmq.daocloud.io/group']}"
                broker.pod = metadata["uid"]
                broker.settings = load_properties(self._config(group)[f"{metadata['name']}.conf"])
        for group in {broker.settings["brokerName"] for broker in self.brokers.values()}:
            members = self.members(group)
            alive = [each for each in members if each.address in up]
            master = self.masters.get(group)
            if alive and master not in {each.address for each in alive}:
                newest = max(each.offset for each in members)
                complete = [each for each in alive if each.offset == newest]
                if complete:
                    self.elect(group, complete[0].address)
            if self.masters.get(group) in up:
                source = self.brokers[self.masters[group]]
                for each in alive:
                    each.offset = source.offset
                    each.topics, each.groups = dict(source.topics), dict(source.groups)

    def members(self, group: str) -> list[SimulatedBroker]:
        """Return the brokers of a group, in order."""
        found = [each for each in self.brokers.values() if each.settings["brokerName"] == group]
        return sorted(found, key=lambda each: each.address)

    def elect(self, group: str, address: str) -> None:
        """Make a member the master of its group."""
        self.masters[group] = address
        self.epochs[group] = self.epochs.get(group, 0) + 1

    def send(self, group: str) -> bool:
        """Send a message to a group, and return whether it is acknowledged by all members that are in sync."""
        self.refresh()
        if self.masters.get(group) not in self._up():
            return False
        self.brokers[self.masters[group]].offset += 1
        self.refresh()
        self.acknowledged[group] = self.acknowledged.get(group, 0) + 1
        return True

    def reached(self, address: str) -> SimulatedBroker:
        """Return a broker; raises `RemotingError` if its Pod is not ready."""
        self.refresh()
        host = address.partition(".")[0]
        if host not in self._up() or host not in self.brokers:
            raise RemotingError(f"{address}: connection refused")
        return self.brokers[host]

    def _up(self) -> dict[str, dict[str, Any]]:
        return {
            pod["metadata"]["name"]: pod
            for pod in self._pods()
            if "deletionTimestamp" not in pod["metadata"]
            and any(
                one["type"] == "Ready" and one["status"] == "True"
                for one in pod.get("status", {}).get("conditions", ())
            )
        }

    # The interface `Servers`.

    @asynccontextmanager
    async def broker(self, address: str) -> AsyncGenerator[Any]:
        """Connect to a broker."""
        self.reached(address)
        yield _BrokerAdmin(self, address)

    @asynccontextmanager
    async def name_server(self, address: str) -> AsyncGenerator[Any]:
        """Connect to a name server."""
        self._pod_of(address)
        yield _NameServerAdmin()

    @asynccontextmanager
    async def controller(self, address: str) -> AsyncGenerator[Any]:
        """Connect to a controller; the first one that is ready leads."""
        self._pod_of(address)
        leader = min(name for name in self._up() if name.startswith("shop-controller-"))
        yield _ControllerAdmin(self, address, leader=address.startswith(f"{leader}."))

    def dledger(self, address: str, group: str, self_id: str) -> Any:
        """Raise an error: no group is in mode DLEDGER."""
        raise RemotingError(f"{address}: no DLedger group")

    def _pod_of(self, address: str) -> None:
        if address.partition(".")[0] not in self._up():
            raise RemotingError(f"{address}: connection refused")


class _BrokerAdmin:
    def __init__(self, servers: SimulatedServers, address: str) -> None:
        self._servers = servers
        self._address = address

    @property
    def _broker(self) -> SimulatedBroker:
        return self._servers.reached(self._address)

    async def _change(self, what: str, perform: Callable[[], None]) -> None:
        await self._servers.effect(f"{what} of {self._broker.address}", perform)

    async def runtime_info(self) -> dict[str, str]:
        return {"commitLogMaxOffset": str(self._broker.offset), "brokerVersionDesc": "V5_5_0"}

    async def config(self) -> dict[str, str]:
        broker = self._broker
        master = self._servers.masters.get(broker.settings["brokerName"]) == broker.address
        role = {"brokerId": "0", "brokerRole": "SYNC_MASTER"} if master else {"brokerId": "1", "brokerRole": "SLAVE"}
        return {**broker.settings, **role, "brokerIP1": broker.address}

    async def update_config(self, settings: Mapping[str, str]) -> None:
        unchanged = sorted(name for name, value in settings.items() if self._broker.settings.get(name) == value)
        assert not unchanged, f"{self._broker.address} already has {unchanged}"
        await self._change(f"settings {', '.join(sorted(settings))}", lambda: self._broker.settings.update(settings))

    async def topic_configs(self) -> dict[str, TopicConfig]:
        return dict(self._broker.topics)

    async def put_topic(self, topic: TopicConfig) -> None:
        await self._change(f"topic {topic.name}", lambda: self._broker.topics.update({topic.name: topic}))

    async def subscription_groups(self) -> dict[str, SubscriptionGroup]:
        return dict(self._broker.groups)

    async def put_subscription_group(self, group: SubscriptionGroup) -> None:
        await self._change(f"group {group.name}", lambda: self._broker.groups.update({group.name: group}))

    async def topic_end(self, topic: str) -> int:
        return self._broker.offset


class _NameServerAdmin:
    async def cluster_info(self) -> None:
        return None


class _ControllerAdmin:
    def __init__(self, servers: SimulatedServers, address: str, *, leader: bool) -> None:
        self._servers = servers
        self._address = address
        self._leader = leader

    async def metadata(self) -> ControllerMetadata:
        return ControllerMetadata("n0", self._address, self._leader)

    async def sync_state(self, groups: tuple[str, ...]) -> dict[str, SyncState]:
        self._servers.refresh()
        found: dict[str, SyncState] = {}
        for group in groups:
            members = self._servers.members(group)
            master = self._servers.masters.get(group)
            if master is None:
                continue
            end = self._servers.brokers[master].offset
            replicas = [
                (each, Replica(number, f"{each.address}:{each.settings['listenPort']}", alive=True))
                for number, each in enumerate(members, 1)
            ]
            in_sync = tuple(replica for each, replica in replicas if each.offset == end and self._alive(each))
            behind = tuple(replica for each, replica in replicas if replica not in in_sync)
            master_address = f"{master}:{self._servers.brokers[master].settings['listenPort']}"
            found[group] = SyncState(1, master_address, self._servers.epochs[group], in_sync, behind)
        return found

    async def elect_master(self, cluster: str, group: str, broker_id: int, now_ms: int) -> None:
        member = self._servers.members(group)[broker_id - 1]
        await self._servers.effect(f"elect {member.address}", lambda: self._servers.elect(group, member.address))

    def _alive(self, broker: SimulatedBroker) -> bool:
        try:
            return self._servers.reached(broker.address) is broker
        except RemotingError:
            return False
