"""The interface of a kubelet for the API server: logs, exec, attach, port-forward; and the directory of nodes.

A real API server speaks HTTP to kubelets. Here a node runs in the same process and is called. A `Kubelet` refuses by
`APIError`, with the texts of a kubelet. Nothing here knows of HTTP or of how a node runs its Pods.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

__all__ = ["STDERR", "STDOUT", "Connection", "ExecSession", "Kubelet", "KubeletDirectory", "LogOptions", "Usage"]

STDOUT = 1
STDERR = 2

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]
"""Both directions of a TCP connection into a Pod."""


@dataclass(frozen=True, slots=True)
class LogOptions:
    """The query parameters of `pods/log` (`PodLogOptions`), parsed."""

    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    since_seconds: int | None = None
    since_time: float | None = None
    """Seconds since the epoch."""
    tail_lines: int | None = None
    limit_bytes: int | None = None
    stream: str = "All"
    """`All`, `Stdout` or `Stderr`."""


@dataclass(frozen=True, slots=True)
class Usage:
    """The resources that a running container uses."""

    started_at: float
    """Seconds since the epoch."""
    cpu_seconds: float
    """Processor time since the start, in core-seconds."""
    memory_bytes: int
    cpu_cores: float | None = None
    """The present rate, in cores, where it is known."""
    window_seconds: float = 15.0
    """The time over which the rate is averaged."""
    assumed: bool = False
    """Whether nothing is measured or set, and the request stands for the use."""


class ExecSession(Protocol):
    """A process that is spoken to: what `exec` and `attach` give. Iterate it for its output."""

    def __aiter__(self) -> AsyncIterator[tuple[int, bytes]]:
        """Output as it comes, as (`STDOUT` or `STDERR`, bytes); ends when the process has closed both."""
        ...

    async def write(self, data: bytes) -> None:
        """Write to the standard input; data after its end is dropped."""
        ...

    async def close_stdin(self) -> None:
        """End the standard input."""
        ...

    async def resize(self, columns: int, rows: int) -> None:
        """Set the terminal's size; nothing without a terminal."""
        ...

    async def wait(self) -> int:
        """The exit code, once it has ended; 128 + n after signal n."""
        ...

    async def close(self) -> None:
        """Close the session: kill a process of `exec`, detach from one of `attach`. Safe to call twice."""
        ...


class Kubelet(Protocol):
    """One node, as the API server calls it. All raise `APIError`: 404 for Pods and containers that are not there."""

    def logs(self, namespace: str, pod: str, container: str, options: LogOptions) -> AsyncIterator[bytes]:
        """A container's log in chunks that may end anywhere; an empty container name is the Pod's only one.

        Raises at the first chunk: 400 while the container waits to start, or where there is no previous one.
        """
        ...

    async def exec(
        self, namespace: str, pod: str, container: str, command: Sequence[str], *, stdin: bool, tty: bool
    ) -> ExecSession:
        """Run a command in a running container."""
        ...

    async def attach(self, namespace: str, pod: str, container: str, *, stdin: bool, tty: bool) -> ExecSession:
        """Join the main process of a running container: its output from now on, and its input where it has one."""
        ...

    async def connect(self, namespace: str, pod: str, port: int) -> Connection:
        """A connection to a port of the Pod."""
        ...

    def usage(self, namespace: str, pod: str) -> Mapping[str, Usage]:
        """Return the usage of each running container of a Pod; nothing for a Pod of another node."""
        ...


class KubeletDirectory:
    """Finds the kubelet of a node by the node's name."""

    def __init__(self) -> None:
        self._kubelets: dict[str, Kubelet] = {}

    def register(self, node_name: str, kubelet: Kubelet) -> None:
        """Make a node known; a later registration takes the place of an earlier one."""
        self._kubelets[node_name] = kubelet

    def unregister(self, node_name: str) -> None:
        """Forget a node; nothing where it is not known."""
        self._kubelets.pop(node_name, None)

    def find(self, node_name: str) -> Kubelet | None:
        """The kubelet of a node, or `None`."""
        return self._kubelets.get(node_name)
