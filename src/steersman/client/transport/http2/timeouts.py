"""The timeouts of an HTTP/2 connection: one timer for the deadlines of all its streams, and for the PING.

If a connection with open streams receives nothing for some time, it sends a PING, and it is closed if there is no
response. The timer runs only while streams are open; a stream that ends in time needs no work here.
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from steersman.client.errors import ConnectionLostError, TransportError, TransportTimeoutError
from steersman.client.transport.http2.frames import CANCEL, PING, RST_STREAM, frame, number_frame
from steersman.client.transport.http2.stream import NO_DEADLINE, Stream

__all__ = ["StreamTimeouts", "TimedConnection"]

_PING_AFTER_SECONDS: Final = 30.0
"""Time without received data after which a PING is sent; like client-go."""
_PING_TIMEOUT_SECONDS: Final = 15.0
"""Time after a PING at which the connection is closed; like client-go."""


class TimedConnection(Protocol):
    """The attributes of the connection that its timeouts use."""

    last_received: float
    streams: dict[int, Stream]

    @property
    def lost(self) -> bool:
        """Whether the connection is closed."""
        ...

    def put(self, data: bytes) -> None:
        """Send frames at the end of this pass of the event loop."""
        ...

    def end(self, stream: Stream, problem: TransportError) -> None:
        """End a stream whose response will not be complete."""
        ...

    def abort(self, problem: TransportError) -> None:
        """Close the connection at once."""
        ...


class StreamTimeouts:
    """Ends streams at their deadlines. Call `schedule` for a deadline that is earlier than `due`."""

    __slots__ = ("_connection", "_loop", "_ping_sent_at", "due", "timer")

    def __init__(self, connection: TimedConnection, loop: asyncio.AbstractEventLoop) -> None:
        self._connection = connection
        self._loop = loop
        self._ping_sent_at = NO_DEADLINE
        self.due = NO_DEADLINE
        self.timer: asyncio.TimerHandle | None = None

    def schedule(self, when: float) -> None:
        """Check the deadlines at `when`, or earlier."""
        when = min(when, self._loop.time() + _PING_AFTER_SECONDS)
        if self.timer is not None:
            self.timer.cancel()
        self.due = when
        self.timer = self._loop.call_at(when, self._check)

    def ping_acknowledged(self) -> None:
        """Note the server's response to a PING."""
        self._ping_sent_at = NO_DEADLINE

    def stop(self) -> None:
        """Cancel the timer of a closed connection."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def _check(self) -> None:
        connection = self._connection
        self.timer, self.due = None, NO_DEADLINE
        now = self._loop.time()
        streams = connection.streams
        for stream in [stream for stream in streams.values() if stream.deadline <= now]:
            connection.put(number_frame(RST_STREAM, stream.id, CANCEL))
            connection.end(stream, TransportTimeoutError(f"{stream.label}: no response in time"))
        if not streams or connection.lost:
            return
        last_received = connection.last_received
        if last_received >= self._ping_sent_at:  # any received data proves that the connection works
            self._ping_sent_at = NO_DEADLINE
        if self._ping_sent_at + _PING_TIMEOUT_SECONDS <= now:
            why = f"the connection broke: no response to a PING within {_PING_TIMEOUT_SECONDS:g} s"
            connection.abort(ConnectionLostError(why))
            return
        if last_received + _PING_AFTER_SECONDS <= now and self._ping_sent_at == NO_DEADLINE:
            self._ping_sent_at = now
            connection.put(frame(PING, 0, 0, bytes(8)))
        if self._ping_sent_at != NO_DEADLINE:
            ping_due = self._ping_sent_at + _PING_TIMEOUT_SECONDS
        else:
            ping_due = last_received + _PING_AFTER_SECONDS
        self.schedule(min([ping_due, *(stream.deadline for stream in streams.values())]))
