"""Producers that send numbered messages to the masters that name servers report, and a consumer of all messages."""

from __future__ import annotations

import abc
import asyncio
import contextlib
import threading
import time
from collections.abc import Callable
from typing import Self

from rocketmq.remoting import Connection, MessageClient, NameServerAdmin, RemotingError, TopicRoute

from .history import Report, check

TOPIC = "orders"
REQUEST_SECONDS = 3.0
PAUSE_SECONDS = 0.02
RETRY_SECONDS = 0.2
SEND_SECONDS = 12.0
"""Time in which a message must be acknowledged, including repeated attempts."""
CONSUME_SECONDS = 300.0
"""Time in which reading of all lanes is repeated. New name servers have all routes after two intervals of brokers, and a
busy machine answers slowly."""

DELIVERY_SECONDS = 60.0
"""Time after which a message that was acknowledged and not consumed is lost."""


class Routes:
    """The master of each group, from a name server, with an address that this process can connect to."""

    def __init__(self, ports: Callable[[str], str], name_servers: Callable[[], tuple[str, ...]]) -> None:
        self._ports = ports
        self._name_servers = name_servers

    async def route(self, topic: str) -> TopicRoute:
        """Return the route of a topic from the first name server that answers."""
        problem: Exception = RemotingError("no name servers are known")
        for address in self._name_servers():
            try:
                async with await Connection.open(self._ports(address), timeout_seconds=1) as connection:
                    return await NameServerAdmin(connection, timeout_seconds=2).topic_route(topic)
            except RemotingError as error:
                problem = error
        raise problem

    async def master(self, topic: str, group: str) -> str:
        """Return the address of a group's master."""
        for found in (await self.route(topic)).groups:
            if found.name == group and 0 in found.addresses:
                return await asyncio.to_thread(self._ports, found.addresses[0])
        raise RemotingError(f"group {group} has no master")


class Client(abc.ABC):
    """A client of a topic that runs in a thread of its own from the start of a block to its end."""

    def __init__(self, routes: Routes, topic: str) -> None:
        self._routes = routes
        self._topic = topic
        self._ending = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop the client."""
        self._ending.set()
        self._thread.join(30)

    @abc.abstractmethod
    async def _run(self) -> None:
        """Run until `_ending` is set."""


class RouteReader(Client):
    """Reads the route of the topic again and again, and counts the reads without a master."""

    def __init__(self, routes: Routes, group: str, topic: str = TOPIC) -> None:
        super().__init__(routes, topic)
        self._group = group
        self.found = 0
        self.missed = 0

    async def _run(self) -> None:
        while not self._ending.is_set():
            try:
                await self._routes.master(self._topic, self._group)
                self.found += 1
            except RemotingError:
                self.missed += 1
            await asyncio.sleep(RETRY_SECONDS)


class Workload(Client):
    """One producer for each queue of each group; a lane is a group and a queue."""

    def __init__(
        self,
        routes: Routes,
        lanes: list[tuple[str, int]],
        topic: str = TOPIC,
        *,
        attempt_seconds: float = REQUEST_SECONDS,
    ) -> None:
        super().__init__(routes, topic)
        self._lanes = lanes
        self._attempt_seconds = attempt_seconds
        self.acknowledged: dict[str, list[int]] = {f"{group}/{queue}": [] for group, queue in lanes}
        self.longest_gap = 0.0
        self.last = time.monotonic()
        self.attempts_failed = 0
        """Attempts to send that were not acknowledged, and were repeated."""
        self.failed_sends = 0
        """Messages that were not acknowledged within `SEND_SECONDS`, including repeated attempts."""

    @property
    def count(self) -> int:
        """The number of acknowledged messages."""
        return sum(map(len, self.acknowledged.values()))

    def forget_gaps(self) -> None:
        """Reset the longest time without an acknowledgement."""
        self.longest_gap, self.last = 0.0, time.monotonic()

    async def _run(self) -> None:
        await asyncio.gather(*(self._lane(group, queue) for group, queue in self._lanes))

    async def _lane(self, group: str, queue: int) -> None:
        number, begun = 0, time.monotonic()
        while not self._ending.is_set():
            with contextlib.suppress(RemotingError, OSError):
                address = await self._routes.master(self._topic, group)
                async with await Connection.open(address, timeout_seconds=1) as connection:
                    client = MessageClient(connection, timeout_seconds=self._attempt_seconds)
                    while not self._ending.is_set():
                        await client.send(
                            self._topic,
                            queue,
                            b"%d" % number,
                            broker=group,
                            group="producers",
                            born_ms=int(time.time() * 1000),
                        )
                        self._acknowledge(f"{group}/{queue}", number)
                        self.failed_sends += time.monotonic() - begun > SEND_SECONDS
                        number += 1
                        await asyncio.sleep(PAUSE_SECONDS)
                        begun = time.monotonic()
                break
            self.attempts_failed += 1
            await asyncio.sleep(RETRY_SECONDS)

    def _acknowledge(self, lane: str, number: int) -> None:
        now = time.monotonic()
        self.longest_gap, self.last = max(self.longest_gap, now - self.last), now
        self.acknowledged[lane].append(number)

    def report(self) -> Report:
        """Consume all queues, and return the check of the messages that were acknowledged before.

        The queues are consumed again while messages are missing, because a broker indexes a message some time after its
        acknowledgement.
        """
        acknowledged = {lane: tuple(numbers) for lane, numbers in self.acknowledged.items()}
        deadline = time.monotonic() + DELIVERY_SECONDS
        while True:
            found = check(acknowledged, asyncio.run(self._consume()))
            if not found.lost or time.monotonic() > deadline:
                return found
            time.sleep(RETRY_SECONDS)

    async def _consume(self) -> dict[str, list[int]]:
        """Return the numbers of each lane; a lane is read again if its group has no master or no route for a moment."""
        deadline = time.monotonic() + CONSUME_SECONDS
        return {f"{group}/{queue}": await self._numbers_until(deadline, group, queue) for group, queue in self._lanes}

    async def _numbers_until(self, deadline: float, group: str, queue: int) -> list[int]:
        while True:
            try:
                return await self.numbers(group, queue)
            except RemotingError as problem:
                if time.monotonic() > deadline:
                    text = f"{group}/{queue} cannot be read for {CONSUME_SECONDS:.0f} seconds: {problem}"
                    raise RemotingError(text) from problem
            await asyncio.sleep(RETRY_SECONDS)

    async def numbers(self, group: str, queue: int) -> list[int]:
        """Return all numbers of a lane, and commit the offsets of the consumer group.

        Raises:
            RemotingError: the group has no master, or its master does not answer.
        """
        address = await self._routes.master(self._topic, group)
        async with await Connection.open(address, timeout_seconds=2) as connection:
            client = MessageClient(connection)
            numbers: list[int] = []
            offset = 0
            while True:
                got = await client.pull(self._topic, queue, offset, broker=group, group="readers")
                numbers += [int(message.body) for message in got.messages]
                await client.commit(self._topic, queue, got.next_offset, group="readers")
                if got.next_offset >= got.max_offset and not got.messages:
                    return numbers
                offset = got.next_offset


class Consumer(Client):
    """Reads lanes from their first messages on, and commits the offsets of its consumer group."""

    def __init__(self, routes: Routes, lanes: list[tuple[str, int]], topic: str = TOPIC) -> None:
        super().__init__(routes, topic)
        self._lanes = lanes
        self.consumed: dict[str, list[int]] = {f"{group}/{queue}": [] for group, queue in lanes}

    @property
    def count(self) -> int:
        """The number of consumed messages."""
        return sum(map(len, self.consumed.values()))

    async def _run(self) -> None:
        await asyncio.gather(*(self._lane(group, queue) for group, queue in self._lanes))

    async def _lane(self, group: str, queue: int) -> None:
        numbers, offset = self.consumed[f"{group}/{queue}"], 0
        while not self._ending.is_set():
            with contextlib.suppress(RemotingError, OSError):
                address = await self._routes.master(self._topic, group)
                async with await Connection.open(address, timeout_seconds=1) as connection:
                    client = MessageClient(connection, timeout_seconds=REQUEST_SECONDS)
                    while not self._ending.is_set():
                        got = await client.pull(self._topic, queue, offset, broker=group, group="readers")
                        numbers += [int(message.body) for message in got.messages]
                        offset = got.next_offset
                        await client.commit(self._topic, queue, offset, group="readers")
                        await asyncio.sleep(PAUSE_SECONDS if got.messages else RETRY_SECONDS)
            await asyncio.sleep(RETRY_SECONDS)
