"""Flood protection: limits on frames that cost the client work and bring no part of a response.

A server may send PINGs, SETTINGS and empty frames, but not so many that the client is busy with them. The guard counts
the frames without progress since the last useful one, and the time in which they arrived.

Source: CVE-2019-9512, CVE-2019-9515, CVE-2019-9518; RFC 9113 section 10.5
"""

from __future__ import annotations

from typing import Final

__all__ = ["FloodError", "FloodGuard"]

_MAX_OVERHEAD_FRAMES: Final = 1000
_WINDOW_SECONDS: Final = 10.0


class FloodError(ValueError):
    """The server sent too many frames that bring no part of a response."""


class FloodGuard:
    """Call `count` for each frame without progress, and set `overhead_frames` to 0 after a useful frame."""

    __slots__ = ("_since", "overhead_frames")

    def __init__(self) -> None:
        self.overhead_frames = 0
        self._since = 0.0

    def count(self, now: float) -> None:
        """Count a frame without progress. Raises `FloodError` above the limit."""
        if not self.overhead_frames:
            self._since = now
        self.overhead_frames += 1
        if self.overhead_frames > _MAX_OVERHEAD_FRAMES:
            if now < self._since + _WINDOW_SECONDS:
                raise FloodError(
                    f"the server sent more than {_MAX_OVERHEAD_FRAMES} frames in {_WINDOW_SECONDS:g} s"
                    " that bring no part of a response"
                )
            self.overhead_frames = 0
