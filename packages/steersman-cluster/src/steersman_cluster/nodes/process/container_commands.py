"""Additional commands in a running container: those of probes, hooks and `kubectl exec`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from steersman_cluster.nodes.process.container_launch import check_values
from steersman_cluster.nodes.process.container_run import Run
from steersman_cluster.nodes.process.path_lookup import LaunchError
from steersman_cluster.nodes.process.processes import Process, children_of, spawn
from steersman_cluster.nodes.process.sandbox import Mode

__all__ = ["ContainerCommands"]

_SANDBOX_CHECKS: Final = 3000
"""The number of checks, one each 10 ms, before a sandbox that is not ready counts as failed."""


class ContainerCommands:
    """Starts commands in the running containers of a node."""

    def __init__(self, mode: Mode) -> None:
        self._mode: Mode = mode
        self._processes: list[Process] = []

    async def close(self) -> None:
        """Kill the commands that still run."""
        running = [process for process in self._processes if not process.ended]
        for process in running:
            process.kill()
        for process in running:
            await process.wait()

    async def open(
        self, run: Run, command: Sequence[str], on_output: Callable[[int, bytes], None], *, stdin: bool, tty: bool
    ) -> Process:
        """Start a command in a running container; raises `LaunchError` if the container has ended."""
        env = {**run.env, "TERM": "xterm"} if tty else run.env
        check_values(command, env, run.directory)
        enter = None if self._mode == "plain" else await self._inside(run)
        process = await spawn(
            command,
            env,
            run.directory,
            enter=enter,
            on_output=on_output,
            on_exit=lambda _: None,
            stdin=stdin,
            tty=tty,
            network=run.namespaces,
            identity=run.identity,
            cgroups=run.group.entries if run.group is not None else (),
        )
        self._processes = [*(one for one in self._processes if not one.ended), process]
        return process

    async def _inside(self, run: Run) -> int:
        """Wait for the sandbox, which takes milliseconds to seconds, and return the container's own process."""
        for _ in range(_SANDBOX_CHECKS):
            for init in children_of(run.process.pid):
                for app in children_of(init):
                    return app
            if run.process.ended:
                break
            await asyncio.sleep(0.01)
        raise LaunchError(f'container not found ("{run.container["name"]}")')

    def executor(self, run: Run) -> Callable[[Sequence[str]], Coroutine[Any, Any, tuple[int, str]]]:
        """Return a function that runs a command in a container and returns its exit code and output."""

        async def execute(command: Sequence[str]) -> tuple[int, str]:
            output = bytearray()

            def on_output(_: int, data: bytes) -> None:
                output.extend(data)

            try:
                process = await self.open(run, command, on_output, stdin=False, tty=False)
            except LaunchError as problem:
                return 126, str(problem)
            except OSError as problem:
                return 126, problem.strerror or str(problem)
            try:
                code, _ = await process.wait()
            finally:
                process.kill()
            return code, output.decode(errors="replace")

        return execute
