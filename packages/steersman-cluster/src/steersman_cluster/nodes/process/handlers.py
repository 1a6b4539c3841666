"""Probes and lifecycle actions: exec, httpGet, tcpSocket, grpc and sleep.

The outcome of a probe is a pair: whether it succeeded, and the message for the Unhealthy event.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

import aiohttp

from steersman.version import KUBERNETES_VERSION
from steersman_cluster.kubelet import Connection
from steersman_cluster.nodes.network.addresses import is_inside
from steersman_cluster.nodes.network.cluster_network import ClusterNetwork
from steersman_cluster.nodes.process import grpc_health
from steersman_cluster.objects import Object

__all__ = ["Counter", "Outcome", "act", "port_of"]

Outcome = tuple[bool, str]
_USER_AGENT: Final = f"kube-probe/{KUBERNETES_VERSION.rpartition('.')[0]}"
Execute = Callable[[Sequence[str]], Awaitable[tuple[int, str]]]
"""Runs a command in the container; returns its exit code and output."""

_MAX_OUTPUT_CHARACTERS: Final = 1024


@dataclass(frozen=True, slots=True)
class Counter:
    """Counts consecutive outcomes; `verdict` is the result of the probe, `None` before a threshold is reached."""

    successes: int
    failures: int
    verdict: bool | None = None
    run: int = 0
    last: bool | None = None

    def take(self, *, passed: bool) -> Counter:
        """Return the counter after one more outcome."""
        run = self.run + 1 if passed == self.last else 1
        enough = run >= (self.successes if passed else self.failures)
        return replace(self, run=run, last=passed, verdict=passed if enough else self.verdict)


def port_of(container: Object, port: Any) -> int:
    """Return a port by number or by name of a container port; raises `ValueError`."""
    if isinstance(port, int):
        return port
    text = str(port)
    if text.isdecimal():
        return int(text)
    for known in container.get("ports") or ():
        if known.get("name") == text:
            return int(known["containerPort"])
    raise ValueError(f"couldn't find port: {text}")


async def act(
    action: Object,
    container: Object,
    ip: str,
    execute: Execute,
    timeout: float,
    network: ClusterNetwork | None = None,
) -> Outcome:
    """Perform the action of a probe or lifecycle handler within `timeout` seconds, in the `network` of the Pod."""
    try:
        async with asyncio.timeout(timeout):
            if "exec" in action:
                code, output = await execute(action["exec"].get("command") or [])
                return code == 0, output[-_MAX_OUTPUT_CHARACTERS:]
            if "httpGet" in action:
                return await _http(action["httpGet"], container, ip, network)
            if "tcpSocket" in action:
                return await _tcp(action["tcpSocket"], container, ip, network)
            if "grpc" in action:
                return await _grpc(action["grpc"], ip, network)
            if "sleep" in action:
                await asyncio.sleep(float(action["sleep"].get("seconds") or 0))
                return True, ""
    except TimeoutError:
        if "exec" in action:
            return (
                False,
                f"command timed out: {' '.join(action['exec'].get('command') or [])!r} timed out after {timeout:g}s",
            )
        return False, f"{_target(action, container, ip)}: context deadline exceeded"
    except ValueError as problem:
        return False, str(problem)
    return False, "no handler that a node knows"


def _target(action: Object, container: Object, ip: str) -> str:
    if "httpGet" in action:
        with suppress(ValueError):
            return f'Get "{_url(action["httpGet"], container, ip)}"'
    return "dial tcp"


def _url(get: Object, container: Object, ip: str) -> str:
    host = get.get("host") or ip
    path: str = get.get("path") or "/"
    scheme = (get.get("scheme") or "HTTP").lower()
    return f"{scheme}://{host}:{port_of(container, get.get('port'))}{path if path.startswith('/') else f'/{path}'}"


async def _http(get: Object, container: Object, ip: str, network: ClusterNetwork | None) -> Outcome:
    url = _url(get, container, ip)
    headers = {"User-Agent": _USER_AGENT, "Accept": "*/*", "Connection": "close"}
    headers.update({h["name"]: h.get("value") or "" for h in get.get("httpHeaders") or ()})
    try:
        factory = network.socket_for if network is not None else None
        connector = aiohttp.TCPConnector(ssl=False, force_close=True, socket_factory=factory)
        async with (
            aiohttp.ClientSession(connector=connector) as session,
            session.get(url, headers=headers, allow_redirects=False) as response,
        ):
            if 200 <= response.status < 400:
                return True, ""
            return False, f"HTTP probe failed with statuscode: {response.status}"
    except (aiohttp.ClientError, OSError) as problem:
        return False, f'Get "{url}": {_network(problem)}'


def _network(problem: BaseException) -> str:
    text = str(problem)
    refused = "Connect call failed" in text or "refused" in text.lower()
    return f"connect: connection refused ({text})" if refused else text or type(problem).__name__


async def _connected(host: str, port: int, network: ClusterNetwork | None) -> Connection:
    """Connect to an address, through `network` if the address belongs to it. Raises `OSError`."""
    if network is not None and is_inside(host):
        return await network.connect(host, port)
    return await asyncio.open_connection(host, port)


async def _tcp(socket: Object, container: Object, ip: str, network: ClusterNetwork | None) -> Outcome:
    host, port = socket.get("host") or ip, port_of(container, socket.get("port"))
    try:
        _, writer = await _connected(host, port, network)
    except OSError as problem:
        return False, f"dial tcp {host}:{port}: {_network(problem)}"
    writer.close()
    return True, ""


async def _grpc(health: Object, ip: str, network: ClusterNetwork | None) -> Outcome:
    port = int(health["port"])
    try:
        reader, writer = await _connected(ip, port, network)
        try:
            problem = await grpc_health.check(reader, writer, health.get("service") or "", f"{ip}:{port}")
        finally:
            writer.close()
    except OSError as failure:
        return False, f'failed to connect service "{ip}:{port}": {_network(failure)}'
    return not problem, problem
