"""`Client`: the verbs of the Kubernetes API for typed objects, dynamic objects or metadata only.

    async with Client(load_config()) as client:
        pod = await client.get(Pod, "web", namespace="default")
        async for app in client.iterate(HelloApp, namespace=ALL_NAMESPACES):
            ...

It has no cache and keeps no objects. One client serves all tasks of one event loop.
"""

from __future__ import annotations

import platform
import random
import sys
from types import TracebackType
from typing import Self

from steersman.client.config import Config
from steersman.client.deletes import Deletes
from steersman.client.discovery import Discovery
from steersman.client.hooks import WriteGate
from steersman.client.raw import Raw
from steersman.client.retry import RetryPolicy
from steersman.client.streams import Streams
from steersman.client.subresources import Subresources
from steersman.client.transport import Transport, transport_for
from steersman.client.wait import Waits
from steersman.client.warnings import WarningHandler, log_warning
from steersman.client.writes import Writes
from steersman.telemetry.clock import Now, utc_now
from steersman.version import __version__

__all__ = ["Client", "default_user_agent"]


def default_user_agent() -> str:
    """Return `steersman/<version> (<system>/<machine>) python/<version>`, like client-go."""
    return (
        f"steersman/{__version__} ({sys.platform}/{platform.machine()}) "
        f"python/{sys.version_info.major}.{sys.version_info.minor}"
    )


class Client(Waits, Writes, Deletes, Subresources, Streams, Discovery):
    """A client of one API server with one identity. Use it as an async context manager, or call `close`.

    There is no rate limit, because API Priority and Fairness in the server limits requests better.

    Args:
        config: The server, the credentials and the default namespace.
        transport: The transport; by default the best one for the configuration.
        user_agent: The User-Agent header.
        field_manager: The default field manager of writes.
        gate: Called before each write; it may refuse or delay the write.
        retries: The retry policy of requests.
        max_in_flight: Requests that run at the same time, without streams.
        on_warning: Called with each new warning of the API server.
        rng: The source of jitter.
        now: The wall clock.
    """

    def __init__(
        self,
        config: Config,
        *,
        transport: Transport | None = None,
        user_agent: str | None = None,
        field_manager: str = "steersman",
        gate: WriteGate | None = None,
        retries: RetryPolicy | None = None,
        max_in_flight: int = 128,
        on_warning: WarningHandler = log_warning,
        rng: random.Random | None = None,
        now: Now = utc_now,
    ) -> None:
        self._transport = transport or transport_for(config)
        raw = Raw(
            config,
            self._transport,
            user_agent=user_agent or default_user_agent(),
            gate=gate,
            retries=retries,
            max_in_flight=max_in_flight,
            on_warning=on_warning,
            rng=rng,
            now=now,
        )
        super().__init__(raw, config, field_manager=field_manager, observers=[])

    @classmethod
    def from_config(cls, config: Config) -> Self:
        """Return a client with default settings."""
        return cls(config)

    async def close(self) -> None:
        """Close every connection. Streams that are still read end with a `TransportError`. Safe to call twice."""
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<Client of {self.config.server}>"
