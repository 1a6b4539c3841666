"""Webhook servers without sockets: the embedded API server calls the operator in the same process and loop.

A simulation has no network. Handlers, reviews, patches, denials and registration are the real ones; only the
connection and its TLS are missing.
"""

from __future__ import annotations

from collections.abc import Mapping

from steersman.webhook.http import WebhookServer
from steersman.webhook.http_messages import WebhookRequest
from steersman_cluster.admission.webhook_calls import InProcessWebhook, WebhookCaller

__all__ = ["inprocess_server"]

_FIRST_PORT = 9443


def inprocess_server(
    caller: WebhookCaller, started: dict[tuple[str, int], InProcessWebhook] | None = None
) -> type[WebhookServer]:
    """Return a class of webhook servers that `caller` calls without a connection.

    Each server gets the configured address; port 0 stands for the next free port of this address.

    Args:
        caller: The API server's caller of webhooks.
        started: Receives the servers that have started.
    """

    class InProcessServer(WebhookServer):
        async def start(self, host: str, port: int) -> None:
            address = host, port or _free_port(caller, host)
            if address in caller.in_process:
                raise OSError(f"{host}:{port} is in use")
            self._address = address
            caller.in_process[address] = handler = self._called
            if started is not None:
                started[address] = handler

        async def close(self, grace: float = 5.0, *, asked: bool = True) -> None:
            if self._address is not None:
                caller.in_process.pop(self._address, None)

        async def _called(self, path: str, query: str, headers: Mapping[str, str], body: bytes) -> tuple[int, bytes]:
            lowered = {name.lower(): value for name, value in headers.items()}
            response = await self.answer(WebhookRequest("POST", path, query, lowered, body))
            return response.status, response.body

    return InProcessServer


def _free_port(caller: WebhookCaller, host: str) -> int:
    port = _FIRST_PORT
    while (host, port) in caller.in_process:
        port += 1
    return port
