"""Several operator processes in one event loop; each can be stopped at any time, permanently or temporarily.

Every callback of a task has the context in which the task was created, and the context contains the process number. A
stopped process runs no callback: no `except`, no `finally`, no timer. So it behaves like a crashed process or a
suspended virtual machine.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from typing import Any, Final

from steersman.testing.loop import VirtualTimeLoop

__all__ = ["ProcessLoop", "current_process", "in_process", "leave_process"]

_PROCESS: Final[ContextVar[int]] = ContextVar("steersman_process", default=0)


def current_process() -> int:
    """Return the number of the process of the running callback; 0 if there is none."""
    return _PROCESS.get()


@contextmanager
def in_process(number: int) -> Generator[None]:
    """Assign the tasks and callbacks that are created in the block to a process."""
    token = _PROCESS.set(number)
    try:
        yield
    finally:
        _PROCESS.reset(token)


def leave_process() -> None:
    """Assign later tasks and callbacks of this context to no process."""
    _PROCESS.set(0)


class ProcessLoop(VirtualTimeLoop):
    """An event loop with virtual time whose processes can be stopped and continued."""

    def __init__(self, start: float = 1_000.0, **options: Any) -> None:
        self._stopped: dict[int, list[asyncio.Handle]] = {}
        super().__init__(start, **options)

    def stop_process(self, number: int) -> None:
        """Stop the callbacks of a process, except the rest of the running callback. Idempotent.

        Args:
            number: The process, as in `in_process`.
        """
        if number in self._stopped:
            return
        held = self._stopped[number] = []
        # The loop has already counted the ready callbacks of this iteration: their number must not change.
        for index, handle in enumerate(self._ready):
            if _process_of(handle) == number:
                held.append(handle)
                self._ready[index] = skipped = asyncio.Handle(_nothing, (), self)
                skipped.cancel()
        timers = [timer for timer in self._scheduled if _process_of(timer) == number]
        if timers:
            held += timers
            self._scheduled[:] = [timer for timer in self._scheduled if _process_of(timer) != number]
            heapq.heapify(self._scheduled)

    def continue_process(self, number: int) -> None:
        """Continue a stopped process; timers that became due meanwhile fire immediately.

        Args:
            number: The process, as in `in_process`.
        """
        for handle in self._stopped.pop(number, ()):
            if handle.cancelled():
                continue
            if isinstance(handle, asyncio.TimerHandle):
                heapq.heappush(self._scheduled, handle)
            else:
                self._ready.append(handle)

    def call_soon(self, callback: Callable[..., Any], *args: Any, context: Context | None = None) -> asyncio.Handle:
        """Call `callback` in the next iteration, unless its process is stopped."""
        if self._stopped:
            return self._kept(callback, args, context) or super().call_soon(callback, *args, context=context)
        return super().call_soon(callback, *args, context=context)

    def call_soon_threadsafe(
        self, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """Call `callback` from another thread, unless its process is stopped."""
        if self._stopped and (kept := self._kept(callback, args, context)) is not None:
            return kept
        return super().call_soon_threadsafe(callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Call `callback` at a time, unless its process is then stopped."""
        if not self._stopped:
            return super().call_at(when, callback, *args, context=context)
        held = self._stopped.get((context or copy_context()).get(_PROCESS, 0))
        if held is None:
            return super().call_at(when, callback, *args, context=context)
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        timer._scheduled = True  # type: ignore[attr-defined]
        held.append(timer)
        return timer

    def _kept(
        self, callback: Callable[..., Any], args: tuple[Any, ...], context: Context | None
    ) -> asyncio.Handle | None:
        held = self._stopped.get((context or copy_context()).get(_PROCESS, 0))
        if held is None:
            return None
        handle = asyncio.Handle(callback, args, self, context)
        held.append(handle)
        return handle


def _process_of(handle: asyncio.Handle) -> int:
    context: Any = handle._context  # type: ignore[attr-defined]
    return int(context.get(_PROCESS, 0))


def _nothing() -> None:
    pass
