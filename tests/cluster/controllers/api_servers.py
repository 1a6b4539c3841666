"""The two sorts of API servers that the controllers are tested on, neither with controllers of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from steersman.client.config import load_config
from steersman.testing import ControlPlane, available

NODES = {"cpu": "8", "memory": "16Gi", "pods": "2000"}


class Embedded:
    """The embedded cluster in a thread: a kubeconfig, and nodes `node-1` and so on."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig
        self.config = load_config(kubeconfig)


@contextmanager
def embedded(nodes: int) -> Iterator[Embedded]:
    from steersman_cluster.cluster import DevCluster, Options

    loop = asyncio.new_event_loop()
    started, stop = threading.Event(), asyncio.Event()
    found: list[Any] = []

    async def live() -> None:
        options = Options(controllers=False, nodes=nodes, ready_after=0.0, capacity=NODES)
        async with DevCluster.start(options) as cluster:
            found.append(cluster.kubeconfig)
            started.set()
            await stop.wait()

    def work() -> None:
        try:
            loop.run_until_complete(live())
        except BaseException as problem:
            found.append(problem)
        finally:
            started.set()
            loop.close()

    thread = threading.Thread(target=work, name="embedded")
    thread.start()
    started.wait(30)
    try:
        if isinstance(found[0], BaseException):
            raise found[0]
        yield Embedded(Path(found[0]))
    finally:
        if thread.is_alive():
            loop.call_soon_threadsafe(stop.set)
        thread.join(30)
    if isinstance(found[-1], BaseException):
        raise found[-1]


@contextmanager
def plane_of(kind: str, nodes: int) -> Iterator[Any]:
    """An API server of a sort, with nodes whose Pods become ready at once."""
    if kind == "embedded":
        with embedded(nodes) as cluster:
            yield cluster
        return
    if (reason := available()) is not None:
        pytest.skip(reason)
    with ControlPlane.start(controller_manager=False, scheduler=False) as cluster:
        for number in range(1, nodes + 1):
            name = f"node-{number}"
            cluster.add_node(name, cpu="8", memory="16Gi", pods=2000, labels={"kubernetes.io/hostname": name})
        yield cluster
