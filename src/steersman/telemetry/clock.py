"""The wall clock, which functions take as an argument. Monotonic time is the event loop's `loop.time()`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeAlias

__all__ = ["Now", "utc_now"]

Now: TypeAlias = Callable[[], datetime]


def utc_now() -> datetime:
    """Return the current time as an aware datetime in UTC."""
    return datetime.now(UTC)
