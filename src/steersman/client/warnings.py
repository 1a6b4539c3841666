"""Warnings of the API server (`Warning: 299 - "…"`, RFC 7234 §5.5, KEP-1693): each told once.

Deprecated versions, unknown fields under `fieldValidation=Warn`, risky settings. A controller would repeat them with
every request, so each text is passed on once per client.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TypeAlias

from steersman.telemetry.log import get_logger

__all__ = ["WarningHandler", "WarningOnce", "log_warning", "parse_warnings"]

WarningHandler: TypeAlias = Callable[[str, str], None]
"""Called with the text of a warning and the request it came with (`PATCH /apis/…`)."""

_WARNING = re.compile(r'(\d{3}) (\S+) "((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(r"\\(.)")
_MOST = 1000

_log = get_logger("client")


def parse_warnings(headers: Iterable[str]) -> list[str]:
    """The texts of all warnings with code 299; others are for caches."""
    return [
        _ESCAPE.sub(r"\1", text)
        for header in headers
        for code, _agent, text in _WARNING.findall(header)
        if code == "299"
    ]


def log_warning(text: str, request: str) -> None:
    """The default handler: one line at level warning."""
    _log.warning("the API server warns", warning=text, request=request)


class WarningOnce:
    """Passes each text on once; forgets everything when it has heard a thousand, to stay small."""

    def __init__(self, handler: WarningHandler) -> None:
        self._handler = handler
        self._told: set[str] = set()

    def __call__(self, headers: Iterable[str], request: str) -> None:
        for text in parse_warnings(headers):
            if text in self._told:
                continue
            if len(self._told) >= _MOST:
                self._told.clear()
            self._told.add(text)
            self._handler(text, request)
