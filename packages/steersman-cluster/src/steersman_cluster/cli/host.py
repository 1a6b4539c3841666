"""Runs an embedded cluster in this process until a signal: name, start, record, kubeconfig context, shutdown.

Foreground and detached clusters run in the same way; their records differ in one flag.
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from steersman.cache.memory import ProcessMemory
from steersman.signals import stop_on_signals
from steersman.version import __version__
from steersman_cluster.cli.user_kubeconfig import context_name, merge, take_out
from steersman_cluster.detached import Claim, Record, claim

if TYPE_CHECKING:
    from steersman_cluster.cluster import DevCluster, Options

__all__ = ["STOP_SIGNALS", "ClusterStartError", "Hosted", "host", "ready", "started"]

STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""The signals that end a cluster; SIGHUP is sent when the terminal closes."""

READY_SECONDS = 30.0


class ClusterStartError(Exception):
    """The cluster cannot be started; the message says what failed and what to do."""


@dataclass(frozen=True, slots=True)
class Hosted:
    """The arguments of `host`."""

    name: str
    options: Options
    merge_into: Path | None = None
    detached: bool = False


def host(wanted: Hosted, show: Callable[[Record], None]) -> int:
    """Run the cluster until SIGINT or SIGTERM; `show` is called when it is ready. Returns the exit code."""
    with claim(wanted.name) as mine:
        return asyncio.run(_host(wanted, mine, show))


async def _host(wanted: Hosted, mine: Claim, show: Callable[[Record], None]) -> int:
    options = replace(wanted.options, kubeconfig=mine.kubeconfig)
    record = Record(
        name=wanted.name,
        pid=os.getpid(),
        steersman=__version__,
        started=time.time(),
        detached=wanted.detached,
        kubeconfig=str(mine.kubeconfig),
        data=_absolute(options.data),
        nodes=options.nodes,
        node_kind=options.node_kind,
        controllers=options.controllers,
        audit_log=_absolute(options.audit_path),
        log=str(mine.directory / "log") if wanted.detached else None,
    )
    mine.record(record)
    with ExitStack() as stack:
        stop = stack.enter_context(stop_on_signals(*STOP_SIGNALS))
        stopped = asyncio.create_task(stop.wait())
        starting = asyncio.create_task(started(options))
        await asyncio.wait({stopped, starting}, return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            starting.cancel()
            with suppress(asyncio.CancelledError):
                await starting
            return 130
        cluster = starting.result()
        try:
            context = ""
            if wanted.merge_into is not None:
                context = context_name(wanted.name)
                merge(wanted.merge_into, mine.kubeconfig, context)
                stack.callback(take_out, wanted.merge_into, context)
            async with cluster.client() as client:
                version = (await client.server_version()).git_version
            record = replace(
                record, ready=True, url=cluster.url, kubernetes=version, merged=_absolute(wanted.merge_into),
                context=context,
            )  # fmt: skip
            mine.record(record)
            show(record)
            ProcessMemory().caches_synced()
            await stopped
        finally:
            stopped.cancel()
            await cluster.close()
    return 0


async def started(options: Options) -> DevCluster:
    """Start a cluster and return it when Pods can be created. Raises `ClusterStartError` and closes it on failure."""
    from steersman_cluster.cluster import DevCluster
    from steersman_cluster.nodes.process.images import HOST_IMAGE, ImageError, Images
    from steersman_cluster.storage import DataError

    try:
        Images(options.images).find(
            HOST_IMAGE
        )  # nodes read the file with the first Pod; its errors belong to the start
        cluster = DevCluster(options)
    except (DataError, ImageError) as problem:
        raise ClusterStartError(str(problem)) from None
    except OSError as problem:
        raise ClusterStartError(f"{problem.filename or 'a file'} cannot be written: {problem.strerror}") from None
    try:
        await cluster.open()
        await ready(cluster)
    except OSError as problem:
        await cluster.close()
        raise ClusterStartError(_about(problem, options)) from None
    except BaseException:
        await cluster.close()
        raise
    return cluster


async def ready(cluster: DevCluster) -> None:
    """Wait until the controllers do their work: the namespace `default` has its ServiceAccount."""
    from steersman.client.errors import NotFound
    from steersman.k8s import ServiceAccount

    if not cluster.options.controllers:
        return
    loop = asyncio.get_running_loop()
    deadline = loop.time() + READY_SECONDS
    async with cluster.client() as client:
        while True:
            try:
                await client.get(ServiceAccount, "default", namespace="default")
            except NotFound:
                if loop.time() > deadline:
                    raise ClusterStartError(
                        f"the built-in controllers are not ready after {READY_SECONDS:g} s"
                    ) from None
                await asyncio.sleep(0.02)
            else:
                return


def _about(problem: OSError, options: Options) -> str:
    if problem.errno == errno.EADDRINUSE:
        return f"port {options.port} on {options.host} is taken: choose another --port, or leave it out for a free one"
    if problem.errno == errno.EACCES and options.port and options.port < 1024:
        return f"port {options.port} may not be listened on by this user: choose a --port above 1023"
    if problem.filename:
        return f"{problem.filename}: {problem.strerror}"
    return f"the cluster cannot start: {problem.strerror or problem}"


def _absolute(path: Path | None) -> str | None:
    return None if path is None else str(path.absolute())
