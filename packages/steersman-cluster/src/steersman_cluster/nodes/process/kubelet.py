"""The kubelet of process nodes: logs from their files, exec and attach to their processes, ports of their address."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence

from steersman_cluster.errors import APIError
from steersman_cluster.kubelet import Connection, LogOptions, Usage
from steersman_cluster.nodes.agent import Agent
from steersman_cluster.nodes.logs import LogLine, selected, shown, wanted
from steersman_cluster.nodes.lookup import container_for_logs, not_running, pod_on, running_container
from steersman_cluster.nodes.process.container_run import Run
from steersman_cluster.nodes.process.logfile import read_log
from steersman_cluster.nodes.process.path_lookup import LaunchError
from steersman_cluster.nodes.process.processes import Session, consumed
from steersman_cluster.nodes.process.runtime import ProcessRuntime

__all__ = ["ProcessKubelet"]


class ProcessKubelet:
    """Implements `Kubelet` over the processes of a runtime."""

    def __init__(self, agent: Agent, runtime: ProcessRuntime) -> None:
        self._agent = agent
        self._runtime = runtime

    async def logs(self, namespace: str, pod: str, container: str, options: LogOptions) -> AsyncIterator[bytes]:
        """Yield the log of the current or the previous run; with `follow` until that run ends."""
        node_pod = pod_on(self._agent, namespace, pod)
        found = container_for_logs(node_pod, container, previous=options.previous)
        resources = self._runtime.resources.get(node_pod.uid)
        if resources is None:
            return
        home = resources.directory / "containers" / found.name
        run = resources.runs.get(found.name)
        attempt = run.attempt if run is not None else found.attempt
        # A container that waits for its restart has the log of its last run as the current log.
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
        node_pod = pod_on(self._agent, namespace, pod)
        found = running_container(node_pod, container)
        resources = self._runtime.resources.get(node_pod.uid)
        run = resources.runs.get(found.name) if resources is not None else None
        if run is None or run.process.ended:
            raise not_running(node_pod, found.name)
        return run

    async def exec(
        self, namespace: str, pod: str, container: str, command: Sequence[str], *, stdin: bool, tty: bool
    ) -> Session:
        """Run a command in the container's sandbox; raises 500 with the runtime's message if it cannot run."""
        run = self._run(namespace, pod, container)
        output: asyncio.Queue[tuple[int, bytes] | None] = asyncio.Queue()

        def on_output(stream: int, data: bytes) -> None:
            output.put_nowait((stream, data))

        try:
            process = await self._runtime.commands.open(run, command, on_output, stdin=stdin, tty=tty)
        except (OSError, LaunchError) as problem:
            said = (problem.strerror if isinstance(problem, OSError) else None) or problem
            raise APIError(
                500, "InternalError", f"Internal error occurred: error executing command in container: {said}"
            ) from None
        if process.ended:
            output.put_nowait(None)
        else:
            # `on_output` already passes the output to the queue; a listener would pass it a second time.
            waiting = asyncio.ensure_future(process.wait())
            waiting.add_done_callback(lambda _: output.put_nowait(None))
        return Session(process, owned=True, output=output)

    async def attach(self, namespace: str, pod: str, container: str, *, stdin: bool, tty: bool) -> Session:
        """Attach to the container's own process."""
        run = self._run(namespace, pod, container)
        output: asyncio.Queue[tuple[int, bytes] | None] = asyncio.Queue()
        run.process.listeners.add(output)
        feeds = stdin and bool(run.container.get("stdinOnce"))
        return Session(run.process, owned=False, output=output, feeds=feeds)

    async def connect(self, namespace: str, pod: str, port: int) -> Connection:
        """Connect to the Pod's address, or else to localhost, because some programs listen only there; raises 500."""
        node_pod = pod_on(self._agent, namespace, pod)
        if not node_pod.pod_state.ip:
            raise APIError(500, "InternalError", f"pod {pod} has no address yet")
        network = self._runtime.network
        problem: OSError | None = None
        for host in (node_pod.pod_state.ip, "127.0.0.1"):
            try:
                if network is not None:
                    return await network.connect(host, port, within=node_pod.pod_state.ip)
                return await asyncio.open_connection(host, port)
            except OSError as error:
                problem = error
        raise APIError(500, "InternalError", f"failed to connect to port {port} of pod {pod}: {problem}")

    def usage(self, namespace: str, pod: str) -> dict[str, Usage]:
        """Return the CPU time, the current CPU rate and the resident memory of each container."""
        node_pod = self._agent.find(namespace, pod)
        resources = self._runtime.resources.get(node_pod.uid) if node_pod is not None else None
        found: dict[str, Usage] = {}
        for name, run in (resources.runs if resources is not None else {}).items():
            container = node_pod.pod_state.container(name) if node_pod is not None else None
            if container is not None and container.started_at and not run.process.ended:
                cpu_seconds, memory = consumed(run.process.pid)
                cores, window = run.meter.take(time.monotonic(), cpu_seconds)
                found[name] = Usage(container.started_at, cpu_seconds, memory, cores, window)
        return found
