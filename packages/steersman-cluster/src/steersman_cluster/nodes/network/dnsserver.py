"""The cluster's DNS server: serves `names` on sockets of the cluster's network, over UDP and TCP (RFC 1035)."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from typing import Any, Final

import dns.exception
import dns.flags
import dns.message
import dns.opcode
import dns.rcode
import dns.rdatatype
import dns.rrset

from steersman_cluster.nodes.network.names import ZONE, Record, lookup
from steersman_cluster.nodes.network.services import ServiceStore

__all__ = ["DNSServer", "answer"]

TTL_SECONDS: Final = 5
_MAX_UDP_BYTES: Final = 512
_MAX_EDNS_BYTES: Final = 4096
_TCP_SECONDS: Final = 10.0
_MAX_TCP_CONNECTIONS: Final = 128


def answer(store: ServiceStore, query: bytes, *, max_bytes: int = 65535) -> bytes | None:
    """Return the response to a query, truncated to `max_bytes`; `None` for an invalid query."""
    try:
        message = dns.message.from_wire(query)
    except (dns.exception.DNSException, ValueError):
        return None
    if message.flags & dns.flags.QR:
        return None
    response = dns.message.make_response(message, recursion_available=True)
    if message.opcode() != dns.opcode.QUERY or len(message.question) != 1:
        response.set_rcode(dns.rcode.NOTIMP)
        return response.to_wire()
    question = message.question[0]
    name, kind = question.name.to_text(omit_final_dot=True), dns.rdatatype.to_text(question.rdtype)
    found = lookup(store, name, kind)
    response.flags |= dns.flags.AA
    for section, records in ((response.answer, found.records), (response.additional, found.additional)):
        section.extend(_rrset(record) for record in records)
    if not found.exists:
        response.set_rcode(dns.rcode.NXDOMAIN)
    if not found.records:
        response.authority.append(_start_of_authority())
    limit = max_bytes
    if max_bytes <= _MAX_UDP_BYTES and message.edns >= 0:
        limit = min(max(_MAX_UDP_BYTES, message.payload), _MAX_EDNS_BYTES)
    try:
        return response.to_wire(max_size=limit)
    except dns.exception.TooBig:
        short = dns.message.make_response(message, recursion_available=True)
        short.flags |= dns.flags.TC | dns.flags.AA
        return short.to_wire()


def _rrset(record: Record) -> dns.rrset.RRset:
    return dns.rrset.from_text(f"{record.name}.", TTL_SECONDS, "IN", record.type, record.data)


def _start_of_authority() -> dns.rrset.RRset:
    data = f"ns.dns.{ZONE}. hostmaster.{ZONE}. 1 7200 1800 86400 {TTL_SECONDS}"
    return dns.rrset.from_text(f"{ZONE}.", TTL_SECONDS, "IN", "SOA", data)


class _Datagrams(asyncio.DatagramProtocol):
    def __init__(self, store: ServiceStore) -> None:
        self._store = store
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str | Any, int]) -> None:
        response = answer(self._store, data, max_bytes=_MAX_UDP_BYTES)
        if response is not None:
            self._transport.sendto(response, addr)


class DNSServer:
    """Serves one store on two sockets; `start`, then `close`."""

    def __init__(self, store: ServiceStore) -> None:
        self._store = store
        self._datagrams: asyncio.DatagramTransport | None = None
        self._server: asyncio.Server | None = None
        self._connections = 0

    async def start(self, datagrams: socket.socket, stream: socket.socket) -> None:
        """Serve on a bound UDP socket and a listening TCP socket, which are closed at the end."""
        loop = asyncio.get_running_loop()
        self._datagrams, _ = await loop.create_datagram_endpoint(lambda: _Datagrams(self._store), sock=datagrams)
        self._server = await asyncio.start_server(self._stream, sock=stream)

    async def close(self) -> None:
        """Stop serving. Safe to call twice."""
        if self._datagrams is not None:
            self._datagrams.close()
            self._datagrams = None
        if self._server is not None:
            self._server.close()
            self._server = None

    async def _stream(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        try:
            with suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
                while self._connections <= _MAX_TCP_CONNECTIONS:
                    async with asyncio.timeout(_TCP_SECONDS):
                        query = await reader.readexactly(int.from_bytes(await reader.readexactly(2)))
                        response = answer(self._store, query)
                        if response is None:
                            return
                        writer.write(len(response).to_bytes(2) + response)
                        await writer.drain()
        finally:
            self._connections -= 1
            writer.close()
