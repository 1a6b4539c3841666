"""Requests and responses of the webhook server, independent of its HTTP implementation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

import msgspec

__all__ = ["Route", "WebhookRequest", "WebhookResponse"]


class WebhookRequest:
    """One complete request. Header names are in lower case."""

    __slots__ = ("_certificate", "body", "headers", "method", "path", "query")

    def __init__(
        self,
        method: str,
        path: str,
        query: str,
        headers: Mapping[str, str],
        body: bytes,
        certificate: Callable[[], bytes | None] = lambda: None,
    ) -> None:
        self.method = method
        self.path = path
        self.query = query
        self.headers = headers
        self.body = body
        self._certificate = certificate

    @property
    def client_certificate(self) -> bytes | None:
        """The client's certificate (DER), verified by TLS; `None` if the client sent none."""
        return self._certificate()

    def __repr__(self) -> str:
        return f"<{self.method} {self.path}, {len(self.body)} bytes>"


class WebhookResponse(msgspec.Struct, frozen=True):
    """A response with a JSON body."""

    status: int
    body: bytes
    retry_after: int = 0
    """The Retry-After header in seconds; 0 for none."""


Route: TypeAlias = Callable[[WebhookRequest], Awaitable[WebhookResponse]]
