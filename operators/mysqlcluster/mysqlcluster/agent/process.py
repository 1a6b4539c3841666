"""Starting, watching and stopping the database server."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

from steersman.logs import get_logger

from mysqlcluster.engines import Engine, Layout, ServerOptions

__all__ = ["CommandError", "ServerProcess", "command_environment", "run_command", "tail", "write_if_different"]

_log = get_logger("mysqlcluster.agent")

STOP_SECONDS = 20.0
RESTART_SECONDS = (0.2, 0.5, 1.0, 2.0, 5.0)
"""Delays before the server is restarted, after 1, 2, … consecutive exits; the last one repeats."""
SOCKET_BYTES = 107
"""Most bytes in the path of a UNIX socket of Linux."""
OUTPUT_BYTES = 4000
"""Most bytes from the end of a failed command's output that an error contains."""


class CommandError(RuntimeError):
    """A program of the server failed; the message contains its last output."""


class ServerProcess:
    """The server process of one member. It is restarted when it exits, until `stop`."""

    def __init__(
        self, engine: Engine, layout: Layout, options: ServerOptions, *, on_start: Callable[[], None] = lambda: None
    ) -> None:
        """Store the arguments, and start nothing.

        Args:
            engine: The flavor.
            layout: The directories.
            options: The settings of the server.
            on_start: Called before each start of the program.
        """
        self._engine = engine
        self._layout = layout
        self.options = options
        """The settings for the next start."""
        self._on_start = on_start
        self._process: asyncio.subprocess.Process | None = None
        self._watcher: asyncio.Task[None] | None = None

    @property
    def running(self) -> bool:
        """Whether the program runs."""
        return self._process is not None and self._process.returncode is None

    async def start(self) -> None:
        """Start the server and keep it running.

        Raises:
            CommandError: The path of the server's socket is too long for the kernel.
        """
        length = len(os.fsencode(self._layout.socket))
        if length > SOCKET_BYTES:
            raise CommandError(
                f"the path of the server's socket has {length} bytes and may have {SOCKET_BYTES}: "
                f"{self._layout.socket}; choose a shorter data directory"
            )
        if self._watcher is None:
            await self._spawn()
            self._watcher = asyncio.create_task(self._watch())

    async def stop(self, *, kill: bool = False) -> None:
        """Shut the server down, or kill it with SIGKILL, and wait until it has ended."""
        if self._watcher is not None:
            self._watcher.cancel()
            await asyncio.gather(self._watcher, return_exceptions=True)
            self._watcher = None
        process = self._process
        if process is None or process.returncode is not None:
            return
        if not kill:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
            try:
                async with asyncio.timeout(STOP_SECONDS):
                    await process.wait()
            except TimeoutError:
                _log.warning("server_stop_timeout", seconds=STOP_SECONDS)
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def _spawn(self) -> None:
        write_if_different(self._layout.configuration, self._engine.configuration(self._layout, self.options))
        self._layout.socket.unlink(missing_ok=True)
        self._on_start()
        self._process = await asyncio.create_subprocess_exec(
            *_dies_with_agent(self._engine.server_command(self._layout)),
            env=command_environment(self._engine, self._layout),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        _log.info("server_started", pid=self._process.pid)

    async def _watch(self) -> None:
        exits = 0
        while self._process is not None:
            started = asyncio.get_running_loop().time()
            code = await self._process.wait()
            exits = 1 if asyncio.get_running_loop().time() - started > 60 else exits + 1
            delay = RESTART_SECONDS[min(exits, len(RESTART_SECONDS)) - 1]
            _log.warning("server_exited", code=code, restart_seconds=delay)
            await asyncio.sleep(delay)
            await self._respawn()

    async def _respawn(self) -> None:
        """Start the program again; after an error, such as that of a full volume, with another attempt."""
        while True:
            try:
                return await self._spawn()
            except OSError as problem:
                delay = RESTART_SECONDS[-1]
                _log.error("server_start_failed", problem=str(problem), restart_seconds=delay)
                await asyncio.sleep(delay)


async def run_command(
    engine: Engine, layout: Layout, command: list[str], *, seconds: float, password: str = ""
) -> None:
    """Run a program of the server to its end.

    Args:
        engine: The flavor.
        layout: The directories.
        command: The program and its arguments.
        seconds: The time limit.
        password: A password for programs that read it from the environment, which only this user can read.

    Raises:
        CommandError: The program failed, or did not end within `seconds`.
    """
    process = await asyncio.create_subprocess_exec(
        *_dies_with_agent(command),
        env={**command_environment(engine, layout), **({"MYSQL_PWD": password} if password else {})},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(seconds):
            output, _ = await process.communicate()
    except BaseException as problem:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        if isinstance(problem, TimeoutError):
            raise CommandError(f"{command[0]} did not end within {seconds:.0f} s") from None
        raise
    if process.returncode:
        raise CommandError(f"{command[0]} ended with {process.returncode}: {tail(output)}")


def write_if_different(file: Path, text: str) -> None:
    """Write a private file, unless it has this text: a full volume has no space for it."""
    with contextlib.suppress(FileNotFoundError):
        if file.read_text() == text:
            return
    file.parent.mkdir(mode=0o700, exist_ok=True, parents=True)
    file.touch(mode=0o600)
    file.write_text(text)


def tail(output: bytes) -> str:
    """Return the end of an output as text."""
    return output[-OUTPUT_BYTES:].decode(errors="replace").strip()


def command_environment(engine: Engine, layout: Layout) -> dict[str, str]:
    """Return the environment of a server's programs, without variables of the agent's environment."""
    return {"HOME": str(layout.data), "LC_ALL": "C", **engine.environment(layout)}


def _dies_with_agent(command: list[str]) -> list[str]:
    """Return a command that ends with its agent, because no action can demote a server without an agent."""
    setpriv = shutil.which("setpriv", path=os.defpath + ":/usr/bin")
    return [setpriv, "--pdeathsig", "KILL", "--", *command] if setpriv else command
