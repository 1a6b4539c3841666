"""A real name server and a real broker of RocketMQ on loopback, for tests."""

import asyncio
import contextlib
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

from rocketmq.remoting import BrokerAdmin, Connection, NameServerAdmin, RemotingError

VERSION = "5.5.0"
START_SECONDS = 90
STOP_SECONDS = 20
POLL_SECONDS = 0.1


@dataclass(frozen=True)
class Servers:
    """The addresses of a name server and of the master of the broker group `group-a` of the cluster `test`."""

    name_server: str
    broker: str


def unavailable() -> str:
    """Return why the servers cannot run on this machine; empty if they can."""
    missing = [tool for tool in ("java", "mvn") if shutil.which(tool) is None]
    return f"{' and '.join(missing)} not installed" if missing else ""


NEEDS_SERVERS = pytest.mark.skipif(bool(unavailable()), reason=unavailable() or "available")
"""Skips a test where the servers cannot run."""


def server_files() -> ModuleType:
    """Return the module of `hack/rocketmq.py`, which is not part of a package."""
    path = Path(__file__).parent.parent / "hack" / "rocketmq.py"
    spec = importlib.util.spec_from_file_location("rocketmq_server_files", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextlib.contextmanager
def running(directory: Path, jars: Path) -> Iterator[Servers]:
    """Run a name server and a broker until the block ends."""
    files = server_files()
    # The broker's second port is its first port minus two; the HA port listens on every address.
    name_port, ha_port, broker_port = free_ports(3)
    with contextlib.ExitStack() as stack:
        stack.enter_context(_process(files.name_server(jars, directory / "name-server", name_port)))
        settings = {
            "namesrvAddr": f"127.0.0.1:{name_port}",
            "brokerClusterName": "test",
            "brokerName": "group-a",
            "haListenPort": ha_port,
            # On a busy machine, requests wait for longer than the default of 200 ms.
            "waitTimeMillsInSendQueue": 10_000,
            "waitTimeMillsInPullQueue": 10_000,
        }
        stack.enter_context(_process(files.broker(jars, directory / "broker", broker_port, settings)))
        servers = Servers(f"127.0.0.1:{name_port}", f"127.0.0.1:{broker_port}")
        asyncio.run(_ready(servers))
        yield servers


def free_ports(count: int) -> list[int]:
    """Return ports that are free on every address, and for which the port minus two is also free."""
    found: list[int] = []
    taken: set[int] = set()
    while len(found) < count:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("", 0))
            port = first.getsockname()[1]
            try:
                second.bind(("", port - 2))
            except OSError:
                continue
        if not {port, port - 2} & taken:
            found.append(port)
            taken |= {port, port - 2}
    return found


async def until(probe: Callable[[], Awaitable[bool]], what: str, seconds: float = START_SECONDS) -> None:
    """Wait until a probe of a real server returns true; a failing request counts as false."""
    deadline = asyncio.get_running_loop().time() + seconds
    while True:
        with contextlib.suppress(RemotingError):
            if await probe():
                return
        assert asyncio.get_running_loop().time() < deadline, f"{what} within {seconds} seconds"
        await asyncio.sleep(POLL_SECONDS)


async def _ready(servers: Servers) -> None:
    async def registered() -> bool:
        async with await Connection.open(servers.name_server) as connection:
            return "group-a" in (await NameServerAdmin(connection).cluster_info()).groups

    async def sampled() -> bool:
        async with await Connection.open(servers.broker) as connection:
            return bool(await BrokerAdmin(connection).runtime_info())

    await until(registered, "the broker registers with the name server")
    # A broker refuses requests for its runtime information during its first second, before its first samples.
    await until(sampled, "the broker takes its first samples")


@contextlib.contextmanager
def _process(command: list[str]) -> Iterator[None]:
    log = Path(command[-1]).with_name("output.log")
    with open(log, "wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
    try:
        yield
    finally:
        # The store is no longer needed, and a graceful shutdown of the broker takes many seconds.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(STOP_SECONDS)
