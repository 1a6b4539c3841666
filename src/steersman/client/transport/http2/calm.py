"""How much a server may ask of its client for nothing (CVE-2019-9512, 9515, 9518; RFC 9113 §10.5).

A server may ask how its client is, and change its mind on settings; it may not keep a client busy with that, nor with
frames that are empty. What counts is how many come one after the other, in which time, while nothing useful does.
"""

from __future__ import annotations

from typing import Final

__all__ = ["Calm", "FloodError"]

_MOST: Final = 1000
_SECONDS: Final = 10.0


class FloodError(ValueError):
    """The server keeps its client busy for nothing."""


class Calm:
    """`count` each frame that brings nothing; set `times` to 0 when one brings something."""

    __slots__ = ("_since", "times")

    def __init__(self) -> None:
        self.times = 0
        self._since = 0.0

    def count(self, now: float) -> None:
        """Raises `FloodError` when it is more than enough."""
        if not self.times:
            self._since = now
        self.times += 1
        if self.times > _MOST:
            if now < self._since + _SECONDS:
                raise FloodError("the server keeps its client busy with frames that bring nothing")
            self.times = 0
