"""Access to the servers of RocketMQ by their stable DNS names; each use opens and closes a connection."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

from rocketmq.remoting import BrokerAdmin, Connection, ControllerAdmin, DLedgerAdmin, NameServerAdmin

__all__ = ["RemotingServers", "Servers", "servers", "use_servers"]

CONNECT_SECONDS = 2.0
REQUEST_SECONDS = 3.0
HAND_OVER_SECONDS = 10.0
"""Timeout of requests to DLedger, which answers a leadership transfer after the next leader is elected."""


class Servers(Protocol):
    """Opens connections to servers at HOST:PORT; each `async with` raises `RemotingError` if it cannot connect."""

    def broker(self, address: str) -> AbstractAsyncContextManager[BrokerAdmin]:
        """Open a connection to a broker."""
        ...

    def name_server(self, address: str) -> AbstractAsyncContextManager[NameServerAdmin]:
        """Open a connection to a name server."""
        ...

    def controller(self, address: str) -> AbstractAsyncContextManager[ControllerAdmin]:
        """Open a connection to a controller."""
        ...

    def dledger(self, address: str, group: str, self_id: str) -> AbstractAsyncContextManager[DLedgerAdmin]:
        """Open a connection to a member of a DLedger group at its DLedger port."""
        ...


class RemotingServers:
    """Connections to servers over the network."""

    def __init__(self, reach: Callable[[str], str] = lambda address: address) -> None:
        """Store the function; connections open on demand.

        Args:
            reach: Returns the address to connect to for the address of a server.
        """
        self._reach = reach

    @asynccontextmanager
    async def broker(self, address: str) -> AsyncGenerator[BrokerAdmin]:
        """Open a connection to a broker."""
        async with await self._open(address) as connection:
            yield BrokerAdmin(connection, timeout_seconds=REQUEST_SECONDS)

    @asynccontextmanager
    async def name_server(self, address: str) -> AsyncGenerator[NameServerAdmin]:
        """Open a connection to a name server."""
        async with await self._open(address) as connection:
            yield NameServerAdmin(connection, timeout_seconds=REQUEST_SECONDS)

    @asynccontextmanager
    async def controller(self, address: str) -> AsyncGenerator[ControllerAdmin]:
        """Open a connection to a controller."""
        async with await self._open(address) as connection:
            yield ControllerAdmin(connection, timeout_seconds=REQUEST_SECONDS)

    @asynccontextmanager
    async def dledger(self, address: str, group: str, self_id: str) -> AsyncGenerator[DLedgerAdmin]:
        """Open a connection to a member of a DLedger group at its DLedger port."""
        async with await self._open(address) as connection:
            yield DLedgerAdmin(connection, group, self_id, timeout_seconds=HAND_OVER_SECONDS)

    async def _open(self, address: str) -> Connection:
        return await Connection.open(self._reach(address), timeout_seconds=CONNECT_SECONDS)


_servers: list[Servers] = [RemotingServers()]


def use_servers(source: Servers) -> None:
    """Replace the source of connections to servers in this process."""
    _servers[:] = [source]


def servers() -> Servers:
    """Return the source of connections: the network, unless `use_servers` has replaced it."""
    return _servers[0]
