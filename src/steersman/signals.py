"""Shutdown by signals: the first one requests a graceful shutdown, a second SIGINT ends the process at once."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import Final

__all__ = ["ABORTED_EXIT_CODE", "stop_on_signals"]

ABORTED_EXIT_CODE: Final = 130


@contextmanager
def stop_on_signals(*numbers: signal.Signals) -> Generator[asyncio.Event]:
    """Yield an event that the first of the signals sets; restore the previous handlers at the end.

    The handlers are those of the process, not of the loop: they run also while something blocks the loop. A second
    SIGINT ends the process at once with exit code 130. Operators lose nothing by that: the API server holds all state,
    and leases expire.

    Args:
        numbers: The signals to handle; SIGINT and SIGTERM by default.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    received = 0

    def on_signal(number: int, _frame: FrameType | None) -> None:
        nonlocal received
        received += 1
        if received == 1:
            loop.call_soon_threadsafe(stop.set)
        elif number == signal.SIGINT:
            os.write(sys.stderr.fileno(), b"aborted\n")
            os._exit(ABORTED_EXIT_CODE)

    handled = numbers or (signal.SIGINT, signal.SIGTERM)
    previous = {number: signal.signal(number, on_signal) for number in handled}
    try:
        yield stop
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
