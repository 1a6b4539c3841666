"""The kubelet of process nodes: logs from their files, exec and attach to their processes, ports of their address."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence

from steersman_cluster.errors import APIError
from steersman_cluster.kubelet import Connection, LogOptions, Usage
from steersman_cluster.nodes.agent import Agent
from steersman_cluster.nodes.finding import container_for_logs, not_running, pod_on, running_container
from steersman_cluster.nodes.logs import LogLine, selected, shown, wanted
from steersman_cluster.nodes.process.logfile import read_log
from steersman_cluster.nodes.process.running import Session, consumed
from steersman_cluster.nodes.process.runtime import ProcessRuntime, Run
from steersman_cluster.nodes.process.view import LaunchError

__all__ = ["ProcessKubelet"]


class ProcessKubelet:
    """Implements `Kubelet` over the processes of a runtime."""

    def __init__(self, agent: Agent, runtime: ProcessRuntime) -> None:
        self._agent = agent
        self._runtime = runtime

    async def logs(self, namespace: str, pod: str, container: str, options: LogOptions) -> AsyncIterator[bytes]:
        """The log of the present or the previous run; with `follow` until that run ends."""
        held = pod_on(self._agent, namespace, pod)
        found = container_for_logs(held, container, previous=options.previous)
        ground = self._runtime.grounds.get(held.uid)
        if ground is None:
            return
        home = ground.directory / "containers" / found.name
        run = ground.runs.get(found.name)
        attempt = run.attempt if run is not None else found.attempt
        # A container that waits for its restart shows its last run, unless the one before that is asked for.
        attempt = attempt - 1 if options.previous and found.exit is None else attempt
        live: asyncio.Queue[LogLine | None] | None = None
        if options.follow and run is not None and run.attempt == attempt and not run.log.closed:
            live = asyncio.Queue()
            run.log.followers.add(live)
        try:
            sent = 0
            for chunk in selected(read_log(home / f"{attempt}.log"), options, self._agent.clock()):
                sent += len(chunk)
                yield chunk
            while live is not None and (line := await live.get()) is not None:
                if not wanted(line, options, self._agent.clock()):
                    continue
                chunk = shown(line, options)
                if options.limit_bytes is not None:
                    chunk = chunk[: options.limit_bytes - sent]
                sent += len(chunk)
                if chunk:
                    yield chunk
                if options.limit_bytes is not None and sent >= options.limit_bytes:
                    return
        finally:
            if live is not None and run is not None:
                run.log.followers.discard(live)

    def _run(self, namespace: str, pod: str, container: str) -> Run:
        held = pod_on(self._agent, namespace, pod)
        found = running_container(held, container)
        ground = self._runtime.grounds.get(held.uid)
        run = ground.runs.get(found.name) if ground is not None else None
        if run is None or run.process.ended:
            raise not_running(held, found.name)
        return run

    async def exec(
        self, namespace: str, pod: str, container: str, command: Sequence[str], *, stdin: bool, tty: bool
    ) -> Session:
        """Run a command in the container's sandbox; raises 500 with the runtime's text where it cannot be run."""
        run = self._run(namespace, pod, container)
        output: asyncio.Queue[tuple[int, bytes] | None] = asyncio.Queue()

        def hear(stream: int, data: bytes) -> None:
            output.put_nowait((stream, data))

        try:
            process = await self._runtime.open(run, command, hear, stdin=stdin, tty=tty)
        except (OSError, LaunchError) as problem:
            said = (problem.strerror if isinstance(problem, OSError) else None) or problem
            raise APIError(
                500, "InternalError", f"Internal error occurred: error executing command in container: {said}"
            ) from None
        if process.ended:
            output.put_nowait(None)
        else:
            # The queue hears the output once, through `hear`; as a listener it would hear it twice.
            waiting = asyncio.ensure_future(process.wait())
            waiting.add_done_callback(lambda _: output.put_nowait(None))
        return Session(process, owned=True, output=output)

    async def attach(self, namespace: str, pod: str, container: str, *, stdin: bool, tty: bool) -> Session:
        """Join the container's own process."""
        run = self._run(namespace, pod, container)
        output: asyncio.Queue[tuple[int, bytes] | None] = asyncio.Queue()
        run.process.listeners.add(output)
        feeds = stdin and bool(run.container.get("stdinOnce"))
        return Session(run.process, owned=False, output=output, feeds=feeds)

    async def connect(self, namespace: str, pod: str, port: int) -> Connection:
        """Connect to the Pod's address, or to localhost, where some programs listen only; raises 500 for neither."""
        held = pod_on(self._agent, namespace, pod)
        if not held.life.ip:
            raise APIError(500, "InternalError", f"pod {pod} has no address yet")
        network = self._runtime.network
        problem: OSError | None = None
        for host in (held.life.ip, "127.0.0.1"):
            try:
                if network is not None:
                    return await network.connect(host, port, within=held.life.ip)
                return await asyncio.open_connection(host, port)
            except OSError as error:
                problem = error
        raise APIError(500, "InternalError", f"failed to connect to port {port} of pod {pod}: {problem}")

    def usage(self, namespace: str, pod: str) -> dict[str, Usage]:
        """The processor time, the present rate of it, and the resident memory of the containers' processes."""
        held = self._agent.find(namespace, pod)
        ground = self._runtime.grounds.get(held.uid) if held is not None else None
        found: dict[str, Usage] = {}
        for name, run in (ground.runs if ground is not None else {}).items():
            container = held.life.container(name) if held is not None else None
            if container is not None and container.started_at and not run.process.ended:
                cpu_seconds, memory = consumed(run.process.pid)
                cores, window = run.meter.take(time.monotonic(), cpu_seconds)
                found[name] = Usage(container.started_at, cpu_seconds, memory, cores, window)
        return found
