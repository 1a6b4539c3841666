"""Network namespaces and TUN devices by system calls: no tools, no netlink library."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import socket
import struct
from collections.abc import Generator, Sequence

__all__ = ["CLONE_NEWNET", "CLONE_NEWUSER", "create", "enter_new", "entered", "own"]

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
MTU = 9000
_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
_SIOCADDRT, _SIOCSIFFLAGS, _SIOCSIFADDR, _SIOCSIFNETMASK, _SIOCSIFMTU = 0x890B, 0x8914, 0x8916, 0x891C, 0x8922
_IFF_UP, _IFF_RUNNING, _RTF_UP = 0x1, 0x40, 0x1
_SYSCTLS = {
    "net/ipv4/ip_unprivileged_port_start": "0",
    "net/ipv4/ping_group_range": "0 2147483647",
    "net/ipv6/conf/all/disable_ipv6": "0",
    "net/ipv6/conf/eth0/disable_ipv6": "1",
}

_libc = ctypes.CDLL(None, use_errno=True)


def _call(name: str, *arguments: int) -> None:
    if getattr(_libc, name)(*arguments) < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def enter_new(flags: int) -> None:
    """Move this process into new namespaces; a new user namespace maps its user to root."""
    user, group = os.geteuid(), os.getegid()
    _call("unshare", flags)
    if flags & CLONE_NEWUSER:
        for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)


def own(kind: str) -> int:
    """Return a descriptor of this process's namespace of a kind (`net`, `user`)."""
    return os.open(f"/proc/self/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC)


@contextlib.contextmanager
def entered(namespace: int, home: int) -> Generator[None]:
    """Enter another network namespace for the time of a block."""
    _call("setns", namespace, CLONE_NEWNET)
    try:
        yield
    finally:
        _call("setns", home, CLONE_NEWNET)


def create(home: int, addresses: Sequence[bytes]) -> tuple[int, int]:
    """Return a new network namespace and its TUN device, which has these addresses and the default route."""
    _call("unshare", CLONE_NEWNET)
    try:
        namespace = own("net")
        try:
            return namespace, configure(addresses)
        except BaseException:
            os.close(namespace)
            raise
    finally:
        _call("setns", home, CLONE_NEWNET)


def configure(addresses: Sequence[bytes]) -> int:
    """Set up loopback and `eth0` in the current network namespace; return the TUN device of `eth0`."""
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH14x", b"eth0", _IFF_TUN | _IFF_NO_PI))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
            _up(control, b"lo")
            fcntl.ioctl(control, _SIOCSIFMTU, struct.pack("16si12x", b"eth0", MTU))
            for number, address in enumerate(addresses):
                label = b"eth0" if number == 0 else b"eth0:%d" % number
                fcntl.ioctl(control, _SIOCSIFADDR, _with_address(label, address))
                fcntl.ioctl(control, _SIOCSIFNETMASK, _with_address(label, b"\xff\xff\xff\xff"))
            _up(control, b"eth0")
            _default_route(control)
        for name, value in _SYSCTLS.items():
            with contextlib.suppress(OSError), open(f"/proc/sys/{name}", "w") as file:
                file.write(value)
    except BaseException:
        os.close(device)
        raise
    return device


def _with_address(name: bytes, address: bytes) -> bytes:
    return struct.pack("16sHH4s16x", name, socket.AF_INET, 0, address)


def _up(control: socket.socket, name: bytes) -> None:
    fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sH14x", name, _IFF_UP | _IFF_RUNNING))


def _default_route(control: socket.socket) -> None:
    """Add the default route through `eth0` (struct rtentry of a 64-bit kernel)."""
    name = ctypes.create_string_buffer(b"eth0")
    anywhere = struct.pack("HH4s8x", socket.AF_INET, 0, b"\0\0\0\0")
    entry = struct.pack(
        "L16s16s16sHhLPhPLLH",
        *(0, anywhere, anywhere, anywhere, _RTF_UP, 0, 0, 0, 0, ctypes.addressof(name), 0, 0, 0),
    )
    fcntl.ioctl(control, _SIOCADDRT, entry)
