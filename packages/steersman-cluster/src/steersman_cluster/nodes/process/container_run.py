"""The state of one run of a container: its process, log, environment, control groups and tasks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from steersman_cluster.nodes.process.cgroups import ContainerGroup
from steersman_cluster.nodes.process.command import Identity
from steersman_cluster.nodes.process.logfile import LogFile
from steersman_cluster.nodes.process.meter import Meter
from steersman_cluster.nodes.process.processes import Process
from steersman_cluster.objects import Object

__all__ = ["Run"]


@dataclass
class Run:
    """One run of a container."""

    container: Object
    attempt: int
    process: Process
    log: LogFile
    env: dict[str, str]
    directory: str
    message_file: Path
    namespaces: Sequence[int] = ()
    """Descriptors of the namespaces of the Pod's network."""
    identity: Identity | None = None
    """The user of the processes, if the node can set it."""
    group: ContainerGroup | None = None
    """The control groups, if the container has limits and the node can set them."""
    meter: Meter = field(default_factory=lambda: Meter(time.monotonic()))
    stop_signal: int = 15
    """The signal that stops the container."""
    started_up: asyncio.Event = field(default_factory=asyncio.Event)
    tasks: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])
    stopping: asyncio.Task[None] | None = None
