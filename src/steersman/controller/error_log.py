"""Logs errors of users' predicates and mappers, at a limited rate.

The first error is logged with a traceback. Equal errors in the next 30 seconds are counted, and the next log line has
their number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from steersman.telemetry.log import Logger

__all__ = ["ErrorLog"]

_INTERVAL_SECONDS = 30.0


class ErrorLog:
    """Logs at most one exception per function and exception type every 30 seconds of `now`."""

    def __init__(self, log: Logger, now: Callable[[], float]) -> None:
        self._log = log
        self._now = now
        self._seen: dict[tuple[str, str, type], tuple[float, int]] = {}

    def log(self, event: str, function: str, problem: Exception, **context: Any) -> None:
        """Log that `function` raised `problem`; call this from an `except` block."""
        key = event, function, type(problem)
        now = self._now()
        last, suppressed = self._seen.get(key, (-_INTERVAL_SECONDS, 0))
        if now - last < _INTERVAL_SECONDS and key in self._seen:
            self._seen[key] = last, suppressed + 1
            return
        self._seen[key] = now, 0
        if suppressed:
            context["suppressed"] = suppressed
        error = f"{type(problem).__name__}: {problem}"
        self._log.exception(event, function=function, error=error, **context)
