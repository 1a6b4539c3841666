"""How a program wants to log, said before anything is loaded that logs: loading that takes a tenth of a second."""

from __future__ import annotations

__all__ = ["level"]

level: str | None = None
"""With which level `log.configure` is called as soon as `log` is loaded; `None` leaves that to others."""
