"""Wall-clock time as a value that is passed in. Monotonic time is the event loop's own `loop.time()`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeAlias

__all__ = ["Now", "utc_now"]

Now: TypeAlias = Callable[[], datetime]


def utc_now() -> datetime:
    """The current time, aware, in UTC."""
    return datetime.now(UTC)
