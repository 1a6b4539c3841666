"""The processes of containers: their start, streams, signals and exit.

The launcher starts each process as the leader of a session. In a sandbox, the kernel kills the rest of the PID
namespace when its first process ends. Without a sandbox, the process group is killed.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import signal
import struct
import termios
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, cast

from steersman_cluster.kubelet import STDERR, STDOUT
from steersman_cluster.nodes.process import cleanup
from steersman_cluster.nodes.process.command import Identity, Sandbox, error_of, launch

__all__ = ["Exit", "Process", "Session", "children_of", "exit_of", "spawn"]

_CHUNK: Final = 64 * 1024
Exit = tuple[int, int]
"""Exit code and signal."""


def exit_of(returncode: int) -> Exit:
    """Return the exit code as a container runtime reports it, 128 + n after signal n, and the signal."""
    return (128 - returncode, -returncode) if returncode < 0 else (returncode, 0)


def children_of(pid: int) -> list[int]:
    """Return the direct children of a process."""
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return []
    return [int(child) for child in text.split()]


def consumed(pid: int) -> tuple[float, int]:
    """Return the CPU time in seconds and the resident memory in bytes of a process and its descendants."""
    ticks = pages = 0
    waiting = [pid]
    while waiting:
        process = waiting.pop()
        with suppress(OSError, ValueError, IndexError):
            # The name is in parentheses and can contain any character; the numbers follow it.
            fields = Path(f"/proc/{process}/stat").read_text(errors="replace").rpartition(")")[2].split()
            ticks += sum(int(field) for field in fields[11:15])
            pages += int(fields[21])
        waiting += children_of(process)
    return ticks / os.sysconf("SC_CLK_TCK"), pages * os.sysconf("SC_PAGE_SIZE")


def resize(fd: int, columns: int, rows: int) -> None:
    """Set the size of a terminal."""
    with suppress(OSError):
        fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


class Process:
    """A process and its three streams; `on_output` is called with all output, in order."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        on_output: Callable[[int, bytes], None],
        on_exit: Callable[[Exit], None],
        *,
        terminal: int | None,
    ) -> None:
        self.process = process
        self.listeners: set[asyncio.Queue[tuple[int, bytes] | None]] = set()
        """The queues of attached sessions, which receive all new output, and `None` at the end."""
        self._on_output = on_output
        self._terminal = terminal
        self._roomy: asyncio.Future[None] | None = None
        """Done when a full terminal accepts more input; `None` while no write waits."""
        if terminal is not None:
            os.set_blocking(terminal, False)
        self._ended: asyncio.Future[Exit] = asyncio.get_running_loop().create_future()
        self._on_exit = on_exit
        self._task = asyncio.create_task(self._watch(), name=f"process {process.pid}")

    @property
    def pid(self) -> int:
        """The process ID."""
        return self.process.pid

    @property
    def ended(self) -> bool:
        """Whether the process has ended."""
        return self._ended.done()

    async def wait(self) -> Exit:
        """Wait for the end of the process and of its output; returns exit code and signal."""
        return await asyncio.shield(self._ended)

    async def _watch(self) -> None:
        readers: list[asyncio.Task[None]] = []
        if self._terminal is not None:
            readers.append(asyncio.create_task(self._pump_terminal(self._terminal)))
        else:
            for stream, reader in ((STDOUT, self.process.stdout), (STDERR, self.process.stderr)):
                if reader is not None:
                    readers.append(asyncio.create_task(self._pump(stream, reader)))
        code = await self.process.wait()
        kill_group(self.pid, signal.SIGKILL)
        if readers:
            # A process that has left the group can keep the pipes open without a limit.
            _, late = await asyncio.wait(readers, timeout=1.0)
            for task in late:
                task.cancel()
        close_pipes(self.process)
        if self._terminal is not None:
            self._has_room()
            # After this, the descriptor's number can belong to another file.
            terminal, self._terminal = self._terminal, None
            os.close(terminal)
        for listener in self.listeners:
            listener.put_nowait(None)
        self._ended.set_result(exit_of(code))
        self._on_exit(exit_of(code))

    async def _pump(self, stream: int, reader: asyncio.StreamReader) -> None:
        while chunk := await reader.read(_CHUNK):
            self._output(stream, chunk)

    async def _pump_terminal(self, fd: int) -> None:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader()
        transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(os.dup(fd), "rb", 0)
        )
        try:
            with suppress(OSError):  # A terminal reports its end as an error.
                await self._pump(STDOUT, reader)
        finally:
            transport.close()

    def _output(self, stream: int, chunk: bytes) -> None:
        self._on_output(stream, chunk)
        for listener in self.listeners:
            listener.put_nowait((stream, chunk))

    async def write(self, data: bytes) -> None:
        """Write to the standard input; does nothing if it is closed."""
        if self._terminal is not None:
            await self._type(data)
            return
        stdin = self.process.stdin
        if stdin is not None and not stdin.is_closing():
            with suppress(ConnectionError):
                stdin.write(data)
                await stdin.drain()

    async def close_stdin(self) -> None:
        """Close the standard input."""
        if self._terminal is not None:
            await self._type(b"\x04")
        elif self.process.stdin is not None:
            self.process.stdin.close()

    async def _type(self, data: bytes) -> None:
        """Write to the terminal as fast as its program reads; drop the rest when the program has ended."""
        rest = memoryview(data)
        while rest and self._terminal is not None:
            try:
                rest = rest[os.write(self._terminal, rest) :]
            except BlockingIOError:
                await self._room()
            except OSError:
                return

    async def _room(self) -> None:
        """Wait until the terminal accepts more input or is closed."""
        terminal = self._terminal
        if terminal is None:
            return
        if self._roomy is None:
            self._roomy = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().add_writer(terminal, self._has_room)
        await asyncio.shield(self._roomy)

    def _has_room(self) -> None:
        if self._roomy is not None and self._terminal is not None:
            asyncio.get_running_loop().remove_writer(self._terminal)
            self._roomy.set_result(None)
            self._roomy = None

    def resize(self, columns: int, rows: int) -> None:
        """Set the size of the terminal, if there is one."""
        if self._terminal is not None:
            resize(self._terminal, columns, rows)

    def signal(self, number: int, *, sandboxed: bool) -> None:
        """Signal the container's own process: in a sandbox the grandchild, below monitor and init."""
        if self.ended:
            return
        if sandboxed:
            for init in children_of(self.pid):
                for app in children_of(init):
                    with suppress(ProcessLookupError, PermissionError):
                        os.kill(app, number)
            return
        # Not the group: in a container, only the first process receives the signal.
        with suppress(ProcessLookupError, PermissionError):
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill the process group immediately."""
        if not self.ended:
            kill_group(self.pid, signal.SIGKILL)


def close_pipes(process: asyncio.subprocess.Process) -> None:
    """Close this side of the pipes of an ended process; its child processes can keep the other side open."""
    cast(Any, process)._transport.close()


def kill_group(pid: int, number: int) -> None:
    """Signal a process group, if it still exists."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


async def spawn(
    command: Sequence[str],
    env: Mapping[str, str],
    directory: str,
    *,
    on_output: Callable[[int, bytes], None],
    on_exit: Callable[[Exit], None],
    sandbox: Sandbox | None = None,
    enter: int | None = None,
    stdin: bool = False,
    tty: bool = False,
    network: Sequence[int] = (),
    identity: Identity | None = None,
    cgroups: Sequence[str] = (),
) -> Process:
    """Start a command, in a `sandbox` or in the sandbox of the process `enter`; with `tty` on a new terminal.

    `network` are descriptors of the namespaces of its network, in the order of entry. Only root can set an `identity`.
    `cgroups` are the files through which the process joins its control groups.

    Returns when the program runs. Raises `OSError` with the reason if it cannot run.
    """
    terminal = pty.openpty() if tty else None
    pipe = asyncio.subprocess.PIPE
    streams = (pipe if stdin else asyncio.subprocess.DEVNULL, pipe, pipe) if terminal is None else (terminal[1],) * 3

    async def start() -> asyncio.subprocess.Process:
        with launch(
            command,
            env,
            directory,
            sandbox=sandbox,
            enter=enter,
            terminal=tty,
            network=network,
            identity=identity,
            cgroups=cgroups,
        ) as launched:
            process = await asyncio.create_subprocess_exec(
                *launched.argv,
                env={cleanup.MARK: env[cleanup.MARK]} if cleanup.MARK in env else {},
                stdin=streams[0],
                stdout=streams[1],
                stderr=streams[2],
                pass_fds=launched.files,
                start_new_session=True,
            )
        if (problem := await error_of(launched.report)) is not None:
            await process.wait()
            close_pipes(process)
            raise problem
        return process

    try:
        process = await _start_despite_cancellation(start())
    except BaseException:
        if terminal is not None:
            os.close(terminal[0])
        raise
    finally:
        if terminal is not None:
            os.close(terminal[1])
    return Process(process, on_output, on_exit, terminal=terminal[0] if terminal is not None else None)


async def _start_despite_cancellation(
    starting: Coroutine[Any, Any, asyncio.subprocess.Process],
) -> asyncio.subprocess.Process:
    """Start a process; if the caller is cancelled, even repeatedly, no process remains."""
    task = asyncio.ensure_future(starting)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        undoing = asyncio.ensure_future(_undo(task))
        while not undoing.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([undoing])
        undoing.result()
        raise


async def _undo(starting: asyncio.Future[asyncio.subprocess.Process]) -> None:
    with suppress(OSError):
        process = await starting
        kill_group(process.pid, signal.SIGKILL)
        await process.wait()
        close_pipes(process)


class Session:
    """`ExecSession` of a new process (`exec`) or of the container's process (`attach`).

    With `feeds`, the standard input of the process closes with this session (`stdinOnce` of a container).
    """

    def __init__(
        self,
        process: Process,
        *,
        owned: bool,
        output: asyncio.Queue[tuple[int, bytes] | None],
        feeds: bool = False,
    ) -> None:
        self._process = process
        self._owned = owned
        self._feeds = owned or feeds
        self._output = output

    async def __aiter__(self) -> AsyncIterator[tuple[int, bytes]]:
        while (item := await self._output.get()) is not None:
            yield item

    async def write(self, data: bytes) -> None:
        """Write to the standard input."""
        await self._process.write(data)

    async def close_stdin(self) -> None:
        """Close the standard input, if this session feeds it."""
        if self._feeds:
            await self._process.close_stdin()

    async def resize(self, columns: int, rows: int) -> None:
        """Set the size of the terminal."""
        self._process.resize(columns, rows)

    async def wait(self) -> int:
        """Return the exit code when the process has ended."""
        return (await self._process.wait())[0]

    async def close(self) -> None:
        """End the session: kill its own process, or detach from a shared one."""
        self._process.listeners.discard(self._output)
        if self._process.ended:
            return
        if self._owned:
            self._process.kill()
            await self._process.wait()
        elif self._feeds:
            await self._process.close_stdin()
