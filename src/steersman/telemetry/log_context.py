"""The fields of all log lines of a reconcile."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any

__all__ = ["CONTEXT", "context_fields"]

CONTEXT: ContextVar[Callable[[], Mapping[str, Any]] | None] = ContextVar("steersman_log_context", default=None)
"""Returns the values of a line when it is written, for loops whose values change more often than they log."""


def context_fields() -> Mapping[str, Any]:
    """Return the values of the current context."""
    ask = CONTEXT.get()
    return {} if ask is None else ask()
