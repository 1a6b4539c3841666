"""How long a webhook may think, of what the API server says that it waits (`?timeout=10s`)."""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qs

from steersman.models.memo import Memo

__all__ = ["LEAST", "time_to_answer"]

_LONGEST: Final = 30.0
"""Seconds that the API server waits at most."""
_SHARE: Final = 0.1
LEAST: Final = 0.25
"""Seconds that are left for the way at least, unless they are more than half of all."""
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0}


def time_to_answer(query: str, default: float) -> float:
    """Seconds until an answer must be under way; `default` is what the server waits where it says nothing sensible.

    A tenth of the server's patience is left for the way there and back, a quarter of a second where that is more (a TLS
    handshake on a busy machine takes longer than a tenth of one), and never more than half of it.
    """
    patience = _said[query] or default
    return patience - min(max(_SHARE * patience, LEAST), patience / 2)


def _patience(query: str) -> float:
    """What the server says; 0 where it says nothing sensible."""
    for text in parse_qs(query).get("timeout", ()):
        number = text.rstrip("ms")
        try:
            seconds = float(number) * _UNITS.get(text[len(number) :], 0.0)
        except ValueError:
            continue
        if seconds > 0:
            return min(seconds, _LONGEST)
    return 0.0


_said: Final = Memo(_patience, 64)  # each request brings the query, and nearly always the same
