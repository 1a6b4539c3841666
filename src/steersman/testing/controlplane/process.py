"""Child processes that end with their parent: the components of a test control plane.

Each component runs in its own process group (the test run receives Ctrl-C and stops its children in order), writes to
a log file, and is killed by the kernel when the test run ends, even by SIGKILL.
"""

from __future__ import annotations

import contextlib
import os
import random
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# The kernel sends the death signal at the end of the *thread* that forked the child, not of the process. Tests also
# call from short-lived threads (asyncio.to_thread), so one thread that lives as long as the process forks all.
_spawner = ThreadPoolExecutor(max_workers=1, thread_name_prefix="steersman-spawner")

# Runs in the child, before it becomes the component. `preexec_fn` would do the same, but is not safe with threads.
# If the parent has already ended, the signal would never come: exit at once.
_DIE_WITH_PARENT = """
import ctypes, os, signal, sys
ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGKILL, 0, 0, 0)
if os.getppid() != int(sys.argv[1]):
    sys.exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""

_TAIL_BYTES = 4096


_END_SECONDS = 10.0
"""The longest wait for the end of a killed process."""


class ComponentError(RuntimeError):
    """A component of the control plane ended or did not become ready; the message has the end of its log."""


class Component:
    """One child process with its log.

    `stop()` is idempotent and returns after the end of the process.
    """

    def __init__(
        self, name: str, command: Sequence[str | Path], *, log: Path, env: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.log = log
        arguments = [str(part) for part in command]
        if sys.platform == "linux":
            arguments = [sys.executable, "-I", "-S", "-c", _DIE_WITH_PARENT, str(os.getpid()), *arguments]
        self._process = _spawner.submit(self._spawn, arguments, dict(env or {})).result()

    def _spawn(self, arguments: list[str], env: dict[str, str]) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return subprocess.Popen(  # noqa: S603 - the commands are our own
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.log.parent,
                env={"PATH": os.defpath, **env},
                process_group=0,
            )

    @property
    def pid(self) -> int:
        """The process id, which is also the id of its process group."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    def kill(self) -> None:
        """Kill the component and its children with SIGKILL, and wait for their end."""
        with contextlib.ExitStack() as stack:
            handles = [handle for pid in _members(self.pid) if (handle := _handle(pid)) is not None]
            for handle in handles:
                stack.callback(os.close, handle)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            self._process.wait()
            # A child of the component is not a child of this process, so `wait` does not apply to it. Its ports are
            # free when its process descriptor is readable.
            for handle in handles:
                ended = select.poll()
                ended.register(handle, select.POLLIN)
                ended.poll(_END_SECONDS * 1000)

    def stop(self, *, grace: float = 0.0) -> None:
        """SIGTERM, wait `grace` seconds, then SIGKILL; without grace, SIGKILL at once."""
        if self.running and grace > 0:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(grace)
        self.kill()

    def check(self) -> None:
        """Raise `ComponentError` if the process has ended."""
        if (status := self._process.poll()) is not None:
            raise ComponentError(f"{self.name} ended with status {status}.\n{self.tail()}")

    def tail(self) -> str:
        """The end of the component's log."""
        with self.log.open("rb") as log:
            log.seek(max(0, self.log.stat().st_size - _TAIL_BYTES))
            text = log.read().decode(errors="replace").strip()
        return f"The end of {self.log}:\n{text}" if text else f"{self.log} is empty."


def _members(group: int) -> list[int]:
    """Return the processes of a process group, on Linux; elsewhere none."""
    found: list[int] = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # The fields after the name, which may have spaces: state, parent, process group.
            if int(stat.read_text(errors="replace").rpartition(")")[2].split()[2]) == group:
                found.append(int(stat.parent.name))
    return found


def _handle(pid: int) -> int | None:
    """Return a process descriptor, or None if the process has ended."""
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        return None


def wait_until(
    ready: Callable[[], bool],
    *,
    what: str,
    deadline: float,
    components: Sequence[Component] = (),
    interval: float = 0.05,
) -> None:
    """Poll `ready` until it returns true; raise `ComponentError` at `deadline` or when a component ends.

    `deadline` is a time of `time.monotonic`. The error names `what` and shows the end of each log.
    """
    while not ready():
        for component in components:
            component.check()
        if time.monotonic() >= deadline:
            tails = "\n".join(component.tail() for component in components)
            raise ComponentError(f"{what} is not ready in time.\n{tails}")
        time.sleep(interval)


def free_ports(count: int, *, rng: random.Random | None = None) -> list[int]:
    """Choose free loopback ports below the range from which the kernel takes ports for outgoing connections.

    A restarted server needs its port again; a port of the ephemeral range may then be the local port of another
    connection.
    """
    rng = rng or random.Random()  # noqa: S311 - not a secret
    held: list[socket.socket] = []
    try:
        for _ in range(1000):
            listener = socket.socket()
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind(("127.0.0.1", rng.randrange(20000, 32000)))
            except OSError:
                listener.close()
                continue
            held.append(listener)
            if len(held) == count:
                return [int(sock.getsockname()[1]) for sock in held]
    finally:
        for sock in held:
            sock.close()
    raise OSError("found no free ports between 20000 and 31999 on 127.0.0.1")
