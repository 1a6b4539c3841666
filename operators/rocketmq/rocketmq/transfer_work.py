"""The work of each phase of a TopicTransfer. Each phase is idempotent, so a transfer resumes after an interruption."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from rocketmq.access import Servers
from rocketmq.api.v1.topictransfer_types import Phase, TopicTransfer
from rocketmq.remoting import BrokerAdmin, ClusterInfo, Permission, RemotingError, TopicConfig
from rocketmq.topics import copy_groups
from rocketmq.transfers import Drain, Outcome, is_drained

__all__ = ["TransferWork"]

NOTHING = Outcome()


class TransferWork:
    """The servers of one transfer.

    Args:
        transfer: the TopicTransfer.
        servers: gives access to the servers.
        name_servers: the addresses of the name servers that both clusters register with.
    """

    def __init__(self, transfer: TopicTransfer, servers: Servers, name_servers: tuple[str, ...]) -> None:
        self._transfer = transfer
        self._topic = transfer.spec.topic
        self._servers = servers
        self._name_servers = name_servers

    async def perform(self, phase: Phase, now: datetime) -> Outcome:
        """Perform the work of one phase.

        Raises:
            RemotingError: a server refuses, or does not answer in time.
        """
        info = await self._cluster_info()
        spec = self._transfer.spec
        sources, problem = _masters(info, spec.source_cluster)
        targets, other = _masters(info, spec.target_cluster)
        if problem or other:
            return Outcome(problem or other)
        match phase:
            case "CopyGroups":
                return await self._copy_groups(sources, targets)
            case "CreateTopic":
                return await self._create_topic(sources, targets)
            case "StopWrite":
                return await self._stop_write(sources)
            case "Drain":
                return Outcome(drain=await self._drain(sources))
            case "DeleteSource":
                return await self._delete(sources, spec.source_cluster)
            case "Undo":
                return await self._undo(targets, now)
            case "" | "Prepare" | "Done":
                return await self._prepare(sources, targets)

    async def _cluster_info(self) -> ClusterInfo:
        problem = RemotingError("no name server is known")
        for address in self._name_servers:
            try:
                async with self._servers.name_server(address) as name_server:
                    return await name_server.cluster_info()
            except RemotingError as error:
                problem = error
        raise problem

    async def _config(self, broker: BrokerAdmin) -> TopicConfig | None:
        return (await broker.topic_configs()).get(self._topic)

    async def _prepare(self, sources: tuple[str, ...], targets: tuple[str, ...]) -> Outcome:
        """Read the permission of the source, and whether the transfer will create the topic on the target.

        The status stores this before the topic is created, so that an interrupted transfer can be undone.
        """
        found = [config for address in sources if (config := await self._config_at(address)) is not None]
        if not found:
            return Outcome(f"cluster {self._transfer.spec.source_cluster} has no topic {self._topic}")
        there = [address for address in targets if await self._config_at(address) is not None]
        return Outcome(permission=int(found[0].permission), created=not there)

    async def _config_at(self, address: str) -> TopicConfig | None:
        async with self._servers.broker(address) as broker:
            return await self._config(broker)

    async def _copy_groups(self, sources: tuple[str, ...], targets: tuple[str, ...]) -> Outcome:
        for source in sources:
            async with self._servers.broker(source) as old:
                for target in targets:
                    async with self._servers.broker(target) as new:
                        await copy_groups(old, new)
        return NOTHING

    async def _create_topic(self, sources: tuple[str, ...], targets: tuple[str, ...]) -> Outcome:
        """Create the topic on every master of the target with the settings of the first source that has it."""
        found = [config for address in sources if (config := await self._config_at(address)) is not None]
        if not found:
            return Outcome(f"cluster {self._transfer.spec.source_cluster} has no topic {self._topic}")
        permission = Permission(self._transfer.status.permission or int(Permission.READ | Permission.WRITE))
        for target in targets:
            async with self._servers.broker(target) as broker:
                if await self._config(broker) is None:
                    await broker.put_topic(replace(found[0], permission=permission))
        return NOTHING

    async def _stop_write(self, brokers: tuple[str, ...]) -> Outcome:
        for address in brokers:
            async with self._servers.broker(address) as broker:
                config = await self._config(broker)
                if config is not None and Permission.WRITE in config.permission:
                    await broker.put_topic(replace(config, permission=config.permission & ~Permission.WRITE))
        return NOTHING

    async def _drain(self, brokers: tuple[str, ...]) -> Drain:
        """Return the remaining messages of the topic on some brokers.

        A consumer group that has read the topic on one broker counts on all brokers, even without offsets there.
        """
        readers: set[str] = set()
        end = lag = 0
        for address in brokers:
            async with self._servers.broker(address) as broker:
                for group in await broker.subscription_groups():
                    stats = await broker.consumer_stats(group)
                    if any(queue.topic == self._topic for queue in stats.queues):
                        readers.add(group)
        for address in brokers:
            async with self._servers.broker(address) as broker:
                if await self._config(broker) is None:
                    continue
                end += await broker.topic_end(self._topic)
                for group in sorted(readers):
                    lag += (await broker.consumer_stats(group, self._topic)).lag
        return Drain(end, lag, len(readers))

    async def _delete(self, brokers: tuple[str, ...], cluster: str) -> Outcome:
        for address in brokers:
            async with self._servers.broker(address) as broker:
                await broker.delete_topic(self._topic)
        for address in self._name_servers:
            async with self._servers.name_server(address) as name_server:
                await name_server.delete_topic(self._topic, cluster)
        return NOTHING

    async def _undo(self, targets: tuple[str, ...], now: datetime) -> Outcome:
        """Delete the topic on the target, if the transfer has created it and no message remains there."""
        if not self._transfer.status.created:
            return NOTHING
        await self._stop_write(targets)
        drain = await self._drain(targets)
        if is_drained(self._transfer, "Undo", drain, now):
            return await self._delete(targets, self._transfer.spec.target_cluster)
        return Outcome(drain=drain)


def _masters(info: ClusterInfo, cluster: str) -> tuple[tuple[str, ...], str]:
    """Return the addresses of the masters of a cluster, and why they are not available."""
    names = info.clusters.get(cluster, ())
    if not names:
        return (), f"the name servers know no cluster {cluster}"
    groups = [info.groups[name] for name in sorted(names) if name in info.groups]
    without = [group.name for group in groups if 0 not in group.addresses]
    if without:
        return (), f"group {without[0]} of cluster {cluster} has no master"
    return tuple(group.addresses[0] for group in groups), ""
