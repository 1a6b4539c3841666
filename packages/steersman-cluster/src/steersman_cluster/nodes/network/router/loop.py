"""The main loop of the router: reads packets from devices and commands from the cluster, until the cluster ends.

Commands and responses are JSON, each after its length in four bytes, on a socket pair. Responses can carry descriptors
(SCM_RIGHTS). The program ends when the connection ends.
"""

from __future__ import annotations

import array
import ctypes
import json
import os
import random
import select
import signal
import socket
import struct
import time
from typing import Any

from . import namespaces
from .devices import Devices
from .faults import rule_of
from .routing import Router
from .services import service_of

__all__ = ["serve"]

_PR_SET_PDEATHSIG = 1
_EXPIRE_SECONDS = 10.0
_KINDS = {"tcp": socket.SOCK_STREAM, "udp": socket.SOCK_DGRAM}


class Control:
    """Performs commands."""

    def __init__(self, devices: Devices, poll: select.epoll) -> None:
        self._devices = devices
        self._poll = poll

    def perform(self, command: dict[str, Any]) -> tuple[dict[str, Any], list[int], list[socket.socket]]:
        """Perform a command; return the response, and its descriptors and sockets."""
        router = self._devices.router
        match command.pop("what"):
            case "add":
                addresses = [bytes.fromhex(address) for address in command["addresses"]]
                namespace, device = namespaces.create(self._devices.home, addresses)
                self._devices.add(namespace, device, addresses, command["node"])
                self._poll.register(device, select.EPOLLIN)
                return {}, [namespace], []
            case "remove":
                self._devices.remove(bytes.fromhex(command["address"]))
            case "socket":
                within = bytes.fromhex(command["within"]) if command["within"] else None
                bound = (command["host"], command["port"]) if command["host"] else None
                made = self._devices.open_socket(within, _KINDS[command["kind"]], bound, listen=command["listen"])
                return {}, [made.fileno()], [made]
            case "service":
                entries = {bytes.fromhex(key): service_of(fields) for key, fields in command["entries"].items()}
                router.services.set(command["name"], entries)
            case "policies":
                router.policies.set(command["pods"])
            case "faults":
                router.faults.rules = tuple(map(rule_of, command["rules"]))
            case other:
                raise ValueError(f"no such command: {other}")
        return {}, [], []


def _answer(connection: socket.socket, answer: dict[str, Any], descriptors: list[int]) -> None:
    data = json.dumps(answer).encode()
    message = struct.pack("!I", len(data)) + data
    ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
    sent = connection.sendmsg([message], ancillary)
    if sent < len(message):
        connection.sendall(message[sent:])


def _commands(connection: socket.socket, buffer: bytearray) -> list[dict[str, Any]] | None:
    """Return the received commands; `None` at the end of the connection."""
    data = connection.recv(1 << 20)
    if not data:
        return None
    buffer += data
    found: list[dict[str, Any]] = []
    while len(buffer) >= 4 and len(buffer) >= 4 + (size := int.from_bytes(buffer[:4])):
        found.append(json.loads(bytes(buffer[4 : 4 + size])))
        del buffer[: 4 + size]
    return found


def _perform(connection: socket.socket, control: Control, command: dict[str, Any]) -> None:
    try:
        answer, descriptors, sockets = control.perform(command)
    except (OSError, ValueError, KeyError, TypeError) as problem:
        number = problem.errno if isinstance(problem, OSError) else None
        text = (problem.strerror if isinstance(problem, OSError) else None) or str(problem)
        _answer(connection, {"error": text, "errno": number}, [])
        return
    _answer(connection, answer, descriptors)
    for one in sockets:
        one.close()


def _set_up(connection: socket.socket, settings: dict[str, Any]) -> Devices:
    """Create the namespaces of the cluster and the port of the gateway, and send both to the cluster."""
    flags = namespaces.CLONE_NEWNET | (namespaces.CLONE_NEWUSER if os.geteuid() else 0)
    namespaces.enter_new(flags)
    # After the change of user namespace, which clears it.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0)
    home = namespaces.own("net")
    addresses = [bytes.fromhex(address) for address in settings["addresses"]]
    device = namespaces.configure(addresses)
    devices = Devices(Router(addresses[0], random.Random(settings["seed"])), home)  # noqa: S311 - no secrets
    devices.add(home, device, addresses, "")
    user = [namespaces.own("user")] if flags & namespaces.CLONE_NEWUSER else []
    _answer(connection, {"ready": True}, [home, *user])
    return devices


def serve(descriptor: int, settings: dict[str, Any]) -> None:
    """Route until the connection ends. Errors of the start are sent on the connection."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    connection = socket.socket(fileno=descriptor)
    try:
        devices = _set_up(connection, settings)
    except OSError as problem:
        where = f": {problem.filename}" if problem.filename else ""
        _answer(connection, {"error": f"{problem.strerror or problem}{where}", "errno": problem.errno}, [])
        return
    poll = select.epoll()
    poll.register(connection, select.EPOLLIN)
    for device in devices.ports:
        poll.register(device, select.EPOLLIN)
    control, buffer, expire_at = Control(devices, poll), bytearray(), time.monotonic() + _EXPIRE_SECONDS
    wait: float | None = None
    while True:
        ready = poll.poll(_EXPIRE_SECONDS if wait is None else min(wait, _EXPIRE_SECONDS))
        now = time.monotonic()
        for file, _ in ready:
            if file != connection.fileno():
                devices.receive(file, now)
                continue
            commands = _commands(connection, buffer)
            if commands is None:
                return
            for command in commands:
                _perform(connection, control, command)
        if now >= expire_at:
            devices.router.flows.expire(now)
            devices.router.services.expire(now)
            devices.router.policies.expire(now)
            expire_at = now + _EXPIRE_SECONDS
        wait = devices.flush(time.monotonic())
