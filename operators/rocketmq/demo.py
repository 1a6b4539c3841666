"""Shows brokers that survive the loss of their master and grow by a group: real RocketMQ on the embedded cluster.

    make demo OPERATOR=rocketmq

It needs Linux, root, Java 17, 2 GB of memory, and Maven, which downloads the servers once.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE)]

from steersman.logs import configure  # noqa: E402
from steersman.testing import EmbeddedCluster  # noqa: E402
from steersman.testing.node_faults import NodeFaults  # noqa: E402

from tests.history import check  # noqa: E402
from tests.process_cluster import (  # noqa: E402
    MODES,
    Ports,
    broker,
    create_topic,
    group_of,
    name_service,
    operated,
    process_cluster,
    running,
    status,
    wait_routed,
)
from tests.remoting_servers import unavailable  # noqa: E402
from tests.workload import Consumer, Routes, Workload  # noqa: E402

KIND = "brokers.rocketmq.daocloud.io"
FIRST, SECOND = [("mq-0", 0), ("mq-0", 1)], [("mq-1", 0), ("mq-1", 1)]
WAIT_SECONDS = 240.0
TICK_SECONDS = 0.25


class Story:
    """Prints each change of the Broker, with the numbers of sent and consumed messages."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self._cluster = cluster
        self._started = time.monotonic()
        self._told = ""
        self._pause = threading.Event()
        self.producers: list[Workload] = []
        self.consumers: list[Consumer] = []

    def say(self, text: str) -> None:
        print(f"{time.monotonic() - self._started:6.1f} s  {text}", flush=True)

    def until(self, holds: Callable[[], Any], what: str) -> Any:
        """Print each change until a condition holds, and return its value."""
        deadline = time.monotonic() + WAIT_SECONDS
        while not (found := holds()):
            self._tell()
            if time.monotonic() > deadline:
                sys.exit(f"✘ it took too long until {what}")
            self._pause.wait(TICK_SECONDS)
        self._tell()
        return found

    def _tell(self) -> None:
        state = status(self._cluster)
        groups = ", ".join(
            f"{each['name']}: master {each.get('master') or '-'}, {len(each.get('inSync', ()))} in sync"
            for each in state.get("groups", ())
        )
        line = f"{state.get('phase', 'Pending'):<9} {groups}"
        if line != self._told:
            self._told = line
            sent, read = sum(each.count for each in self.producers), sum(each.count for each in self.consumers)
            self.say(f"{line}{f'   sent {sent}, consumed {read}' if self.producers else ''}")


def show(cluster: EmbeddedCluster, ports: Ports, stack: contextlib.ExitStack) -> None:
    """Start a group of three, stop its master, add a group, and check the messages that were consumed."""
    story = Story(cluster)
    story.say("applying a NameService, and a Broker of mode DLEDGER with one group of three members")
    cluster.apply(name_service())
    cluster.apply(broker(**MODES["DLEDGER"]))
    create_topic(cluster, ports, story.until(lambda: running(cluster), "the group runs"))
    routes = Routes(ports, lambda: tuple(status(cluster).get("nameServers", ())))
    wait_routed(routes, 1)
    _start(story, routes, FIRST, stack)
    story.until(lambda: story.consumers[0].count > 200, "messages are consumed")

    master, producers = group_of(cluster)["master"], story.producers[0]
    story.say(f"SIGSTOP of the master, {master}; a killed one restarts before the others elect a master")
    producers.forget_gaps()
    with NodeFaults(cluster).pause(master):
        story.until(lambda: group_of(cluster)["master"] != master, "another member is the master")
        sent = producers.count
        story.until(lambda: producers.count > sent + 100, "messages are acknowledged again")
        story.say(f"messages are acknowledged again; the longest gap was {producers.longest_gap:.1f} s")
        story.say(f"kill -9 of the old master, {master}")
        NodeFaults(cluster).kill(master, container="broker")
    story.until(lambda: running(cluster), "the old master follows")

    story.say("kubectl scale broker mq --replicas=2")
    cluster.patch(KIND, "mq", {"spec": {"size": 2}})
    story.until(lambda: len(running(cluster).get("groups", ())) == 2, "the second group has joined")
    wait_routed(routes, 2)
    _start(story, routes, SECOND, stack)
    story.until(lambda: story.consumers[1].count > 200, "the second group takes messages")
    _check(story)


def _start(story: Story, routes: Routes, lanes: list[tuple[str, int]], stack: contextlib.ExitStack) -> None:
    story.producers.append(stack.enter_context(Workload(routes, lanes)))
    story.consumers.append(stack.enter_context(Consumer(routes, lanes)))


def _check(story: Story) -> None:
    for each in story.producers:
        each.stop()
    acknowledged = {lane: numbers for each in story.producers for lane, numbers in each.acknowledged.items()}
    consumed = {lane: numbers for each in story.consumers for lane, numbers in each.consumed.items()}
    with contextlib.suppress(SystemExit):
        story.until(lambda: not check(acknowledged, consumed).lost, "all messages are consumed")
    report = check(acknowledged, consumed)
    total = sum(map(len, acknowledged.values()))
    story.say(
        f"{total} acknowledged, {len(report.lost)} lost, {len(report.disordered)} out of order, {report.duplicates} twice"
    )
    if not report.sound:
        sys.exit("✘ acknowledged messages were lost or out of order")
    print("✔ the brokers lost their master and grew by a group, and no acknowledged message was lost")


@contextlib.contextmanager
def started() -> Generator[tuple[EmbeddedCluster, Ports, contextlib.ExitStack]]:
    """Start the cluster, and the operator in this process."""
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
        cluster = stack.enter_context(process_cluster(Path(directory), nodes=3))
        found = stack.enter_context(operated(cluster, "demo"))
        yield cluster, found.ports, stack.enter_context(contextlib.ExitStack())


def main() -> None:
    configure(level="error")
    if problem := unavailable():
        sys.exit(f"this demo cannot run here: {problem}")
    try:
        with started() as (cluster, ports, stack):
            show(cluster, ports, stack)
    except OSError as problem:
        sys.exit(f"this demo cannot run here: {problem}")


if __name__ == "__main__":
    main()
