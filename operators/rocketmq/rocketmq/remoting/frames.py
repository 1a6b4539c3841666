"""Frames of the remoting protocol: length, serialization type and header length, JSON header, body."""

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

MAX_FRAME_BYTES = 16 * 1024 * 1024
MAX_HEADER_BYTES = 64 * 1024
RESPONSE_FLAG = 1
ONEWAY_FLAG = 2
JSON_SERIALIZATION = 0


class FrameError(ValueError):
    """The peer sent bytes that are not a frame of the protocol; the connection is no longer usable."""


@dataclass(frozen=True)
class Command:
    """A request or a response; `code` is a request code or a response code."""

    code: int
    opaque: int
    flag: int = 0
    remark: str = ""
    fields: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes = b""


def encode(command: Command) -> bytes:
    """Return the frame of a command.

    Raises:
        FrameError: the header or the frame exceeds the limits of the parser.
    """
    header = json.dumps(
        {
            "code": command.code,
            "language": "OTHER",
            "version": 0,
            "opaque": command.opaque,
            "flag": command.flag,
            "remark": command.remark,
            "extFields": dict(command.fields),
            "serializeTypeCurrentRPC": "JSON",
        },
        separators=(",", ":"),
    ).encode()
    length = 4 + len(header) + len(command.body)
    if len(header) > MAX_HEADER_BYTES or length > MAX_FRAME_BYTES:
        raise FrameError(f"the frame of request {command.code} has {length} bytes; at most {MAX_FRAME_BYTES} are sent")
    return struct.pack(">II", length, len(header)) + header + command.body


class FrameParser:
    """Splits a stream of bytes into commands; it buffers at most one frame beyond the given bytes."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Command]:
        """Return the commands that are complete.

        Raises:
            FrameError: a length exceeds its limit, or the header is not valid.
        """
        self._buffer += data
        commands: list[Command] = []
        while len(self._buffer) >= 8:
            length, word = struct.unpack_from(">II", self._buffer)
            size = _header_bytes(length, word)
            if len(self._buffer) < 4 + length:
                break
            header, body = bytes(self._buffer[8 : 8 + size]), bytes(self._buffer[8 + size : 4 + length])
            del self._buffer[: 4 + length]
            commands.append(_command(header, body))
        return commands


def _header_bytes(length: int, word: int) -> int:
    serialization, size = word >> 24, word & 0xFFFFFF
    if serialization != JSON_SERIALIZATION:
        raise FrameError(f"serialization {serialization} of a header is not supported; only JSON (0) is")
    if length > MAX_FRAME_BYTES or size > MAX_HEADER_BYTES or size + 4 > length:
        raise FrameError(f"a frame of {length} bytes with a header of {size} bytes is not valid")
    return size


def _command(header: bytes, body: bytes) -> Command:
    try:
        loaded: object = json.loads(header)
    except (ValueError, RecursionError) as error:
        raise FrameError("the header of a frame is not JSON") from error
    if not isinstance(loaded, dict):
        raise FrameError("the header of a frame is not a JSON object")
    values = cast("dict[str, object]", loaded)
    fields: object = values.get("extFields") or {}
    if not isinstance(fields, dict):
        raise FrameError("extFields in the header of a frame is not an object")
    return Command(
        code=_integer(values, "code"),
        opaque=_integer(values, "opaque"),
        flag=_integer(values, "flag"),
        remark=str(values.get("remark") or ""),
        fields={key: _text(value) for key, value in cast("dict[str, object]", fields).items() if value is not None},
        body=body,
    )


def _integer(values: Mapping[str, object], name: str) -> int:
    value = values.get(name)
    # bool is a subclass of int, but true and false are not numbers of the protocol.
    if not isinstance(value, int) or isinstance(value, bool) or not -(2**31) <= value < 2**31:
        raise FrameError(f"{name} in the header of a frame is not an integer of 32 bits")
    return value


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
