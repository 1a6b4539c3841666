"""`--reload`: runs the operator as a child process and restarts it when a Python file changes.

The child is stopped with SIGTERM, as a Pod is, so that it releases its lease for the next one. If the child ends by
itself (a syntax error, an invalid setting), the next change starts a new one.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import FrameType

from steersman.extras import require

__all__ = ["child_command", "supervise"]

_GRACE = 45.0
"""Seconds for a child to stop: the grace period of reconciles, and a margin."""


def child_command(arguments: Sequence[str]) -> list[str]:
    """Return the same command without `--reload`, with the same interpreter."""
    return [sys.executable, "-m", "steersman", *(word for word in arguments if word != "--reload")]


def supervise(arguments: Sequence[str], directory: Path) -> int:
    """Run until interrupted; returns the exit code."""
    require("--reload", "dev", "watchfiles")
    from watchfiles import PythonFilter, watch

    ended = threading.Event()
    child = _Child(child_command(arguments))

    def on_signal(number: int, _frame: FrameType | None) -> None:
        ended.set()
        child.signal(number)

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        changes = watch(
            directory,
            watch_filter=PythonFilter(),
            stop_event=ended,
            rust_timeout=200,
            yield_on_timeout=True,
            raise_interrupt=False,
        )
        for change in changes:
            if ended.is_set():
                break
            if not child.started:  # Start the child after the watcher, so that no change is missed.
                child.start()
                continue
            if not change:
                child.notice_end()
                continue
            _print(f"changed: {_names((Path(path) for _, path in change), directory)}; restarting")
            child.stop()
            if not ended.is_set():
                child.start()
        return child.wait()
    finally:
        child.stop()
        for number, handler in before.items():
            signal.signal(number, handler)


class _Child:
    def __init__(
        self, command: Sequence[str], spawn: Callable[..., subprocess.Popen[bytes]] = subprocess.Popen
    ) -> None:
        self._command = list(command)
        self._spawn = spawn
        self._process: subprocess.Popen[bytes] | None = None
        self._noticed = False

    @property
    def started(self) -> bool:
        return self._process is not None

    def start(self) -> None:
        # A process group of its own: this process forwards Ctrl-C, and the second one, too.
        self._process = self._spawn(self._command, start_new_session=True, stdin=subprocess.DEVNULL)
        self._noticed = False

    def signal(self, number: int) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def notice_end(self) -> None:
        """Print once that the child has ended by itself."""
        if self._process is None or self._noticed or (code := self._process.poll()) is None:
            return
        self._noticed = True
        _print(f"the operator has ended with code {code}; waiting for a change")

    def stop(self) -> None:
        """Stop the child with SIGTERM, and after the grace period with SIGKILL."""
        if self._process is None or self._process.poll() is not None:
            return
        self._process.terminate()
        try:
            self._process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            _print("the operator does not stop; killing it")
            self._process.kill()
            self._process.wait()

    def wait(self) -> int:
        """Return the exit code of the child after SIGTERM."""
        if self._process is None:
            return 0
        try:
            code = self._process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            self.stop()
            code = 1
        return code if code >= 0 else 128 - code


def _names(paths: Iterable[Path], directory: Path) -> str:
    names = sorted({os.path.relpath(path, directory) for path in paths})
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _print(text: str) -> None:
    print(f"steersman: {text}", file=sys.stderr, flush=True)  # noqa: T201 - this is the terminal's side
