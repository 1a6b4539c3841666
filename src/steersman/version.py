"""The version of this package, below all rooms so that each can say it."""

from __future__ import annotations

__version__ = "0.1.0"
