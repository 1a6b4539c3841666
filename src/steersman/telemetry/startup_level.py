"""The log level that a program sets before it imports `log`, whose import takes a tenth of a second."""

from __future__ import annotations

__all__ = ["level"]

level: str | None = None
"""The level with which `log` calls `configure` at its import; `None` for no call."""
