"""Members with real servers on loopback: agent processes, each with its own data directory and ports."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import aiomysql
import pytest

from mysqlcluster import actions
from mysqlcluster.agent.client import AgentClient
from mysqlcluster.credentials import revision
from mysqlcluster.observation import MemberState

ROOT = Path(__file__).parents[1]
SECRETS = {
    "agent-token": "token-of-the-cluster",
    "root-password": "root-pass'word\"",
    "replication-password": "replication-password",
    "application-password": "application-password",
    "exporter-password": "exporter-password",
}
REVISION = revision({key: value.encode() for key, value in SECRETS.items()})
SMALL_SERVERS: Mapping[str, Mapping[str, str]] = {
    "mariadb": {"innodb_log_file_size": "8M"},
    "mysql": {"innodb_redo_log_capacity": "8M"},
}
"""Settings of each flavor with which the data of a server needs little disk space; the default redo logs have 100 MB."""
WAIT_SECONDS = 180.0
"""Time limit of a condition: a busy machine copies data and starts servers slowly."""
ACTION_SECONDS = 120.0
"""Time limit of an action: a busy machine initializes a database slowly."""


@lru_cache
def server_root(server: str = "mariadb-10.11") -> Path:
    """Return the files of a server, or skip the test."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "hack/servers.py"), server], capture_output=True, text=True, timeout=600
    )
    if done.returncode:
        pytest.skip(done.stderr.strip())
    return Path(done.stdout.strip())


def free_ports(count: int) -> list[int]:
    """Return unused ports of loopback."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


class Members:
    """The agents of one cluster, as processes that a test can kill, stop and pause."""

    def __init__(
        self,
        directory: Path,
        count: int,
        root: Path,
        *,
        flavor: str = "mariadb",
        archiver_url: str = "",
        certificates: Mapping[str, bytes] | None = None,
    ) -> None:
        self.server = root.name.rpartition("-")[0]
        directory.mkdir(exist_ok=True)
        self.directory = directory
        self.root = str(root)
        self.flavor = flavor
        self.server_settings = SMALL_SERVERS[flavor]
        self.names = [f"m-{ordinal}" for ordinal in range(count)]
        ports = free_ports(3 * count)
        self.agent_ports = dict(zip(self.names, ports[:count], strict=True))
        self.server_ports = dict(zip(self.names, ports[count : 2 * count], strict=True))
        self.metrics_ports = dict(zip(self.names, ports[2 * count :], strict=True))
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        secrets = directory / "secrets"
        secrets.mkdir()
        self.write_secrets(SECRETS)
        self.tls = directory / "tls" if certificates else None
        if certificates:
            self.write_certificates(certificates)
        urls = {name: self.url(name) for name in self.names}
        for number, name in enumerate(self.names, 1):
            settings = {
                "member": name,
                "serverId": number,
                "flavor": flavor,
                "serverSettings": self.server_settings,
                "rootDirectory": str(root),
                "dataDirectory": str(directory / name),
                "secretsDirectory": str(secrets),
                "serverPort": self.server_ports[name],
                "agentPort": self.agent_ports[name],
                "metricsPort": self.metrics_ports[name],
                "peers": urls,
                "archiverUrl": archiver_url,
                "tlsDirectory": str(self.tls or ""),
            }
            (directory / f"{name}.json").write_text(json.dumps(settings))

    def write_secrets(self, values: Mapping[str, str]) -> None:
        """Replace the mounted Secret of all members."""
        for key, value in values.items():
            fresh = self.directory / "secret.new"
            fresh.write_text(value)
            fresh.rename(self.directory / "secrets" / key)

    def write_certificates(self, content: Mapping[str, bytes]) -> None:
        """Replace the mounted certificates of all members at once, as the kubelet does."""
        assert self.tls is not None
        fresh = Path(tempfile.mkdtemp(dir=self.directory, prefix="tls-"))
        for name, value in content.items():
            (fresh / name).write_bytes(value)
        link = self.directory / "tls.new"
        link.symlink_to(fresh)
        link.rename(self.tls)

    def url(self, name: str) -> str:
        origin = "https://localhost" if self.tls else "http://127.0.0.1"
        return f"{origin}:{self.agent_ports[name]}"

    def start(self, *names: str) -> None:
        for name in names or self.names:
            log = (self.directory / f"{name}.log").open("ab")
            with log:
                self._processes[name] = subprocess.Popen(
                    [sys.executable, "-m", "mysqlcluster.agent", str(self.directory / f"{name}.json")],
                    cwd=ROOT,
                    env={**os.environ, "PYTHONPATH": str(ROOT)},
                    stdout=log,
                    stderr=log,
                )

    def client(self) -> AgentClient:
        authority = (self.tls / "ca.crt").read_text() if self.tls else ""
        return AgentClient(self.url, lambda: SECRETS["agent-token"], authority, action_seconds=ACTION_SECONDS)

    def server_pid(self, name: str) -> int:
        return int((self.directory / name / "run/server.pid").read_text())

    def kill_server(self, name: str) -> None:
        self._signal_server(name, signal.SIGKILL)

    def _signal_server(self, name: str, number: int) -> None:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # between two starts of the server
            os.kill(self.server_pid(name), number)

    def kill(self, name: str) -> None:
        """Kill the agent and its server with SIGKILL, as when a node is lost."""
        process = self._processes.pop(name)
        self.kill_server(name)
        process.kill()
        process.wait()

    def lose_volume(self, name: str) -> None:
        """Kill a member and delete its data, as when its Pod and its claim are deleted."""
        self.kill(name)
        for content in (self.directory / name).iterdir():
            shutil.rmtree(content) if content.is_dir() else content.unlink()

    def stop(self, name: str) -> None:
        """Stop the agent with SIGTERM, as the deletion of a Pod does."""
        process = self._processes.pop(name)
        process.terminate()
        process.wait(60)

    def pause(self, name: str) -> None:
        """Stop the agent and the server with SIGSTOP."""
        self._signal_server(name, signal.SIGSTOP)
        self._processes[name].send_signal(signal.SIGSTOP)

    def resume(self, name: str) -> None:
        self._processes[name].send_signal(signal.SIGCONT)
        self._signal_server(name, signal.SIGCONT)

    def close(self) -> None:
        for process in self._processes.values():
            process.send_signal(signal.SIGCONT)
            process.terminate()
        for name, process in self._processes.items():
            self._signal_server(name, signal.SIGCONT)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def logs(self) -> str:
        return "\n".join(file.read_text(errors="replace")[-3000:] for file in sorted(self.directory.glob("*.log")))


@contextlib.contextmanager
def members_of(
    directory: Path,
    count: int,
    *,
    server: str = "mariadb-10.11",
    archiver_url: str = "",
    certificates: Mapping[str, bytes] | None = None,
) -> Iterator[Members]:
    """Run the agents of a cluster within a `with` block."""
    flavor = server.partition("-")[0]
    members = Members(
        directory, count, server_root(server), flavor=flavor, archiver_url=archiver_url, certificates=certificates
    )
    try:
        members.start()
        yield members
    finally:
        members.close()


async def until(
    client: AgentClient, member: str, holds: Callable[[MemberState], bool], seconds: float = WAIT_SECONDS
) -> MemberState:
    """Return the state of a member when a condition holds."""
    state = await client.state(member)
    try:
        async with asyncio.timeout(seconds):
            while not holds(state):
                await asyncio.sleep(0.05)
                state = await client.state(member)
    except TimeoutError:
        raise AssertionError(f"{member} did not come so far: {state}") from None
    return state


async def bootstrap(client: AgentClient, members: Members, epoch: int = 1) -> None:
    """Make the first member the primary and the others its replicas, with semi-synchronous replication."""
    primary, *replicas = members.names
    for name in members.names:
        await until(client, name, lambda state: state.reachable)
    await client.act(actions.Initialize(member=primary, epoch=epoch))
    await client.act(actions.Promote(member=primary, epoch=epoch, ack_count=0))
    await client.act(actions.CreateAccounts(member=primary, epoch=epoch, revision=REVISION))
    for name in replicas:
        await client.act(actions.Clone(member=name, epoch=epoch, source=primary))
    for name in replicas:
        await until(client, name, lambda state: state.initialized and not state.clone.running)
        await follow(client, members, name, primary, epoch)
    if replicas:
        await client.act(actions.SetAckCount(member=primary, epoch=epoch, ack_count=1))


async def follow(client: AgentClient, members: Members, name: str, source: str, epoch: int) -> None:
    """Make a member replicate from another, and wait until it does."""
    action = actions.SetSource(
        member=name, epoch=epoch, source=source, host="127.0.0.1", port=members.server_ports[source]
    )
    await client.act(action)
    await until(client, name, lambda state: state.follows(source, epoch) and state.semi_sync_replica)


@contextlib.asynccontextmanager
async def application(
    members: Members, name: str, password: str = SECRETS["application-password"]
) -> AsyncGenerator[Any]:
    """Connect with the application's account."""
    connection = await aiomysql.connect(
        host="127.0.0.1",
        port=members.server_ports[name],
        user="app",
        password=password,
        db="app",
        autocommit=True,
        connect_timeout=2,
    )
    try:
        yield connection
    finally:
        connection.close()


async def run(connection: Any, statement: str, *arguments: Any) -> list[tuple[Any, ...]]:
    """Run one statement and return its rows."""
    async with connection.cursor() as cursor:
        await cursor.execute(statement, arguments or None)
        return list(await cursor.fetchall())
