"""When an HTTP/2 connection leaves its socket alone: while nobody waits for anything that it brings.

kube-apiserver sends each object of a watch's initial content, and each event, in a frame and a TLS record of its own.
Who takes them in pauses now and then, so that some gather (`cache.reading`); then they shall gather in the kernel, and
not wake the process one by one.
"""

from __future__ import annotations

import asyncio
from typing import Final

__all__ = ["Pause"]

_LONGEST: Final = 0.005
"""Seconds after which the socket is read again, whoever waits: the server may ask how its client is."""


class Pause:
    """`begin` stops reading, `end` goes on: whoever begins to wait for something says so, where `timer` is set."""

    __slots__ = ("_loop", "_transport", "timer")

    def __init__(self, loop: asyncio.AbstractEventLoop, transport: asyncio.Transport) -> None:
        self._loop = loop
        self._transport = transport
        self.timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Read nothing for a while."""
        if self.timer is None:
            self._transport.pause_reading()
            self.timer = self._loop.call_later(_LONGEST, self.end)

    def end(self) -> None:
        """Read on."""
        self.stop()
        self._transport.resume_reading()

    def stop(self) -> None:
        """The connection is gone."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
