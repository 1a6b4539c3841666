"""The time for a webhook's response, from the timeout that the API server sends (`?timeout=10s`)."""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qs

from steersman.models.memo import Memo

__all__ = ["MIN_RESERVED_SECONDS", "response_timeout"]

_MAX_TIMEOUT_SECONDS: Final = 30.0
"""The longest timeout of the API server."""
_RESERVED_SHARE: Final = 0.1
MIN_RESERVED_SECONDS: Final = 0.25
"""The least time that is reserved for the network, unless it is more than half of the timeout."""
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0}


def response_timeout(query: str, default: float) -> float:
    """Return the seconds within which a webhook must respond; `default` applies if the server sends no valid timeout.

    A tenth of the server's timeout is reserved for the network, at least a quarter of a second (a TLS handshake on a
    busy machine can take longer than a tenth of a second), and at most half of the timeout.
    """
    timeout = _timeouts[query] or default
    return timeout - min(max(_RESERVED_SHARE * timeout, MIN_RESERVED_SECONDS), timeout / 2)


def _server_timeout(query: str) -> float:
    """Return the server's timeout in seconds; 0 if it is missing or invalid."""
    for text in parse_qs(query).get("timeout", ()):
        number = text.rstrip("ms")
        try:
            seconds = float(number) * _UNITS.get(text[len(number) :], 0.0)
        except ValueError:
            continue
        if seconds > 0:
            return min(seconds, _MAX_TIMEOUT_SECONDS)
    return 0.0


_timeouts: Final = Memo(_server_timeout, 64)  # nearly all requests have the same query
