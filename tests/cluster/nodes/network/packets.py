"""IPv4 packets for tests, built and checked without the code under test."""

import socket
import struct


def checksum(data: bytes) -> int:
    """The Internet checksum of RFC 1071."""
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def _pseudo(source: bytes, destination: bytes, protocol: int, size: int) -> bytes:
    return source + destination + struct.pack("!BBH", 0, protocol, size)


def _packet(source: str, destination: str, protocol: int, content: bytes, checksum_at: int) -> bytes:
    ours, theirs = socket.inet_aton(source), socket.inet_aton(destination)
    number = checksum(_pseudo(ours, theirs, protocol, len(content)) + content)
    content = content[:checksum_at] + struct.pack("!H", number) + content[checksum_at + 2 :]
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(content), 7, 0, 64, protocol, 0, ours, theirs)
    return head[:10] + struct.pack("!H", checksum(head)) + head[12:] + content


def tcp(source: tuple[str, int], destination: tuple[str, int], flags: int = 2, data: bytes = b"odd") -> bytes:
    """A TCP segment; SYN without other flags."""
    segment = struct.pack("!HHIIBBHHH", source[1], destination[1], 1, 0, 5 << 4, flags, 1000, 0, 0) + data
    return _packet(source[0], destination[0], 6, segment, 16)


def udp(source: tuple[str, int], destination: tuple[str, int], data: bytes = b"data") -> bytes:
    """A UDP datagram."""
    datagram = struct.pack("!HHHH", source[1], destination[1], 8 + len(data), 0) + data
    return _packet(source[0], destination[0], 17, datagram, 6)


def is_sound(packet: bytes) -> bool:
    """Whether all checksums of a packet fit."""
    if checksum(packet[:20]):
        return False
    content = packet[20:]
    if packet[9] == 1:
        return not checksum(content)
    return not checksum(_pseudo(packet[12:16], packet[16:20], packet[9], len(content)) + content)


def ends(packet: bytes) -> tuple[tuple[str, int], tuple[str, int]]:
    """Source and destination of a TCP or UDP packet."""
    source, destination = struct.unpack("!HH", packet[20:24])
    return (socket.inet_ntoa(packet[12:16]), source), (socket.inet_ntoa(packet[16:20]), destination)
