"""Access to the servers of RocketMQ by their stable names; a connection lasts for one exchange of requests."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

from rocketmq.remoting import BrokerAdmin, Connection, ControllerAdmin, DLedgerAdmin, NameServerAdmin

__all__ = ["RemotingServers", "Servers", "servers", "use_servers"]

CONNECT_SECONDS = 2.0
REQUEST_SECONDS = 3.0
HAND_OVER_SECONDS = 10.0
"""Timeout of the requests to DLedger, which answers a hand-over when the next leader is elected."""


class Servers(Protocol):
    """Opens servers at addresses of the form HOST:PORT; every method raises `RemotingError` on entering."""

    def broker(self, address: str) -> AbstractAsyncContextManager[BrokerAdmin]:
        """Open a broker."""
        ...

    def name_server(self, address: str) -> AbstractAsyncContextManager[NameServerAdmin]:
        """Open a name server."""
        ...

    def controller(self, address: str) -> AbstractAsyncContextManager[ControllerAdmin]:
        """Open a controller."""
        ...

    def dledger(self, address: str, group: str, self_id: str) -> AbstractAsyncContextManager[DLedgerAdmin]:
        """Open a member of a DLedger group at its DLedger port."""
        ...


class RemotingServers:
    """Servers over the network."""

    def __init__(self, reach: Callable[[str], str] = lambda address: address) -> None:
        """Prepare.

        Args:
            reach: Returns the address to connect to for the address of a server.
        """
        self._reach = reach

    @asynccontextmanager
    async def broker(self, address: str) -> AsyncGenerator[BrokerAdmin]:
        """Open a broker."""
        async with await self._open(address) as connection:
            yield BrokerAdmin(connection, timeout_seconds=REQUEST_SECONDS)

    @asynccontextmanager
    async def name_server(self, address: str) -> AsyncGenerator[NameServerAdmin]:
        """Open a name server."""
        async with await self._open(address) as connection:
            yield NameServerAdmin(connection, timeout_seconds=REQUEST_SECONDS)

    @asynccontextmanager
    async def controller(self, address: str) -> AsyncGenerator[ControllerAdmin]:
        """Open a controller."""
        async with await self._open(address) as connection:
            yield ControllerAdmin(connection, timeout_seconds=REQUEST_SECONDS)

    @asynccontextmanager
    async def dledger(self, address: str, group: str, self_id: str) -> AsyncGenerator[DLedgerAdmin]:
        """Open a member of a DLedger group at its DLedger port."""
        async with await self._open(address) as connection:
            yield DLedgerAdmin(connection, group, self_id, timeout_seconds=HAND_OVER_SECONDS)

    async def _open(self, address: str) -> Connection:
        return await Connection.open(self._reach(address), timeout_seconds=CONNECT_SECONDS)


_servers: list[Servers] = [RemotingServers()]


def use_servers(source: Servers) -> None:
    """Let the operator reach servers through `source` from now on."""
    _servers[:] = [source]


def servers() -> Servers:
    """Return the servers in use: those over the network, until `use_servers` is called."""
    return _servers[0]
