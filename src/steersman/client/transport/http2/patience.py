"""How long an HTTP/2 connection waits: one timer for the deadlines of all its streams, and for its own silence.

A connection that is silent while somebody waits is asked (PING) whether it still lives, and given up when it does not
answer. The timer is only there while streams are; a deadline that is met costs nothing.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from steersman.client.errors import ConnectionLost, TransportTimeout
from steersman.client.transport.http2.frames import CANCEL, PING, RST_STREAM, frame, number_frame
from steersman.client.transport.http2.stream import NEVER

if TYPE_CHECKING:
    from steersman.client.transport.http2.connection import Http2Connection

__all__ = ["Patience"]

_PING_AFTER: Final = 30.0
_PING_LIMIT: Final = 15.0
"""Seconds of silence before a connection is asked, and until it is given up; client-go's numbers."""


class Patience:
    """`wake_at` whenever a deadline is sooner than `due`; it looks who has waited too long."""

    __slots__ = ("_connection", "_loop", "_pinged", "due", "timer")

    def __init__(self, connection: Http2Connection, loop: asyncio.AbstractEventLoop) -> None:
        self._connection = connection
        self._loop = loop
        self._pinged = NEVER
        self.due = NEVER
        self.timer: asyncio.TimerHandle | None = None

    def wake_at(self, when: float) -> None:
        """Look at `when`, or sooner."""
        when = min(when, self._connection.now() + _PING_AFTER)
        if self.timer is not None:
            self.timer.cancel()
        self.due = when
        self.timer = self._loop.call_at(when, self._look)

    def answered(self) -> None:
        """The server has answered a PING."""
        self._pinged = NEVER

    def stop(self) -> None:
        """Nobody waits any more."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def _look(self) -> None:
        connection = self._connection
        self.timer, self.due = None, NEVER
        now = connection.now()
        streams = connection.streams
        for stream in [stream for stream in streams.values() if stream.deadline <= now]:
            connection.put(number_frame(RST_STREAM, stream.id, CANCEL))
            connection.end(stream, TransportTimeout(f"{stream.what}: no answer in time"))
        if not streams or connection.lost:
            return
        heard = connection.heard
        if heard >= self._pinged:  # not the answer perhaps, but a sign of life
            self._pinged = NEVER
        if self._pinged + _PING_LIMIT <= now:
            why = f"the connection broke: a ping was not answered within {_PING_LIMIT:g} s"
            connection.abort(ConnectionLost(why))
            return
        if heard + _PING_AFTER <= now and self._pinged == NEVER:
            self._pinged = now
            connection.put(frame(PING, 0, 0, bytes(8)))
        asked = self._pinged + _PING_LIMIT if self._pinged != NEVER else heard + _PING_AFTER
        self.wake_at(min([asked, *(stream.deadline for stream in streams.values())]))
