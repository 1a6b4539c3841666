"""IPv4 packets as bytes: the fields that routing needs, address translation, and ICMP errors (RFC 791, 792, 1624)."""

from __future__ import annotations

import struct

__all__ = [
    "ICMP",
    "TCP",
    "UDP",
    "ends_connection",
    "flow_key",
    "reply_key",
    "starts_connection",
    "translate",
    "unreachable",
]

ICMP, TCP, UDP = 1, 6, 17
NET_UNREACHABLE, HOST_UNREACHABLE, PORT_UNREACHABLE, PROHIBITED = 0, 1, 3, 13
MIN_HEADER_BYTES = 20
_FIN, _SYN, _RST, _ACK = 1, 2, 4, 16
_CHECKSUM_OFFSET = {TCP: 16, UDP: 6}


def flow_key(packet: bytes) -> bytes | None:
    """Return protocol, addresses and ports as 13 bytes; `None` for a packet without ports or a later fragment."""
    if packet[9] not in _CHECKSUM_OFFSET or packet[6] & 0x1F or packet[7]:
        return None
    ports = (packet[0] & 15) * 4
    if len(packet) < ports + 8:
        return None
    return packet[9:10] + packet[12:20] + packet[ports : ports + 4]


def reply_key(key: bytes) -> bytes:
    """Return the key of the replies to packets with this key."""
    return key[0:1] + key[5:9] + key[1:5] + key[11:13] + key[9:11]


def _flags(packet: bytes) -> int:
    offset = (packet[0] & 15) * 4 + 13
    return packet[offset] if packet[9] == TCP and len(packet) > offset else 0


def starts_connection(packet: bytes) -> bool:
    """Return whether this is the first segment of a TCP connection."""
    return _flags(packet) & (_SYN | _ACK | _RST) == _SYN


def ends_connection(packet: bytes) -> bool:
    """Return whether this segment ends a TCP connection in its direction."""
    return bool(_flags(packet) & (_FIN | _RST))


def _words(data: bytes) -> int:
    """Return the sum of 16-bit words; an odd byte is padded with zero."""
    padded = data if len(data) % 2 == 0 else data + b"\0"
    return sum(struct.unpack(f"!{len(padded) // 2}H", padded))


def _fold(total: int) -> int:
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def _adjusted(checksum: int, old: bytes, new: bytes) -> int:
    """Return the checksum after words have changed from `old` to `new` (RFC 1624, equation 3)."""
    inverted = sum(~word & 0xFFFF for word in struct.unpack(f"!{len(old) // 2}H", old))
    return ~_fold((~checksum & 0xFFFF) + inverted + _words(new)) & 0xFFFF


def translate(packet: bytes, key: bytes) -> bytes:
    """Return the packet with the addresses and ports of `key`, and with valid checksums."""
    changed = bytearray(packet)
    ports = (packet[0] & 15) * 4
    old, new = packet[12:20], key[1:9]
    changed[12:20] = new
    struct.pack_into("!H", changed, 10, _adjusted(int.from_bytes(packet[10:12]), old, new))
    checksum_at = ports + _CHECKSUM_OFFSET[packet[9]]
    before = int.from_bytes(packet[checksum_at : checksum_at + 2])
    old_ports, new_ports = packet[ports : ports + 4], key[9:13]
    changed[ports : ports + 4] = new_ports
    if packet[9] == TCP or before:  # A UDP checksum of zero means that there is none.
        after = _adjusted(before, old + old_ports, new + new_ports)
        struct.pack_into("!H", changed, checksum_at, 0xFFFF if packet[9] == UDP and after == 0 else after)
    return bytes(changed)


def unreachable(packet: bytes, source: bytes, code: int) -> bytes | None:
    """Return the ICMP error "destination unreachable" for a packet; `None` if RFC 1122 forbids one."""
    header = (packet[0] & 15) * 4
    if packet[9] == ICMP and (len(packet) <= header or packet[header] != 8):
        return None
    if packet[6] & 0x1F or packet[7]:
        return None
    body = struct.pack("!BBHI", 3, code, 0, 0) + packet[: header + 8]
    body = body[:2] + struct.pack("!H", ~_fold(_words(body)) & 0xFFFF) + body[4:]
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(body), 0, 0, 64, ICMP, 0, source, packet[12:16])
    return head[:10] + struct.pack("!H", ~_fold(_words(head)) & 0xFFFF) + head[12:] + body
