"""Says what went wrong in users' predicates and mappers, with a traceback, but not fifty thousand times.

The first failure of a kind is logged at once; within the next half minute the same one is only counted, and the
next line says how many were left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from steersman.telemetry.log import Logger

__all__ = ["Complaints"]

_QUIET = 30.0


class Complaints:
    """Logs exceptions, at most one per `(what, exception type)` every 30 seconds of `now`."""

    def __init__(self, log: Logger, now: Callable[[], float]) -> None:
        self._log = log
        self._now = now
        self._seen: dict[tuple[str, type], tuple[float, int]] = {}

    def raised(self, what: str, problem: Exception, **context: Any) -> None:
        """Report that `what` raised `problem`; call it from an `except` block."""
        key = what, type(problem)
        now = self._now()
        last, left_out = self._seen.get(key, (-_QUIET, 0))
        if now - last < _QUIET and key in self._seen:
            self._seen[key] = last, left_out + 1
            return
        self._seen[key] = now, 0
        if left_out:
            context["left_out"] = left_out
        self._log.exception(f"{what} raised {type(problem).__name__}", error=str(problem), **context)
