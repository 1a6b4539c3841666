"""Warnings of the API server (`Warning: 299 - "…"`, RFC 7234 section 5.5, KEP-1693), each reported once.

They are about deprecated versions, unknown fields with `fieldValidation=Warn`, or risky settings. A controller would
repeat them with every request, so each text is reported once per client.
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
_MAX_REMEMBERED_TEXTS = 1000

_log = get_logger("client")


def parse_warnings(headers: Iterable[str]) -> list[str]:
    """Return the texts of the warnings with code 299; other codes are about HTTP caches."""
    return [
        _ESCAPE.sub(r"\1", text)
        for header in headers
        for code, _agent, text in _WARNING.findall(header)
        if code == "299"
    ]


def log_warning(text: str, request: str) -> None:
    """Log a warning; the default handler."""
    _log.warning("api_server_warning", warning=text, request=request)


class WarningOnce:
    """Reports each text once. After a thousand texts it forgets them, to limit its memory."""

    def __init__(self, handler: WarningHandler) -> None:
        self._handler = handler
        self._reported: set[str] = set()

    def __call__(self, headers: Iterable[str], request: str) -> None:
        """Report the new texts among the values of `Warning` headers."""
        for text in parse_warnings(headers):
            if text in self._reported:
                continue
            if len(self._reported) >= _MAX_REMEMBERED_TEXTS:
                self._reported.clear()
            self._reported.add(text)
            self._handler(text, request)
