"""Values of settings as text: addresses, durations, booleans."""

from __future__ import annotations

import re
from typing import Final

import msgspec

__all__ = ["Address", "parse_address", "parse_bool", "parse_duration"]

_ADDRESS: Final = re.compile(r"(?:\[(?P<v6>[0-9a-fA-F:.]+)\]|(?P<host>[^:\[\]]*)):(?P<port>\d{1,5})")
_NUMBER: Final = re.compile(r"\d+(\.\d+)?")
_DURATION: Final = re.compile(r"(\d+(\.\d+)?(ms|s|m|h))+")
_DURATION_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_UNIT_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_TRUE: Final = ("1", "true", "yes", "on")
_FALSE: Final = ("0", "false", "no", "off")


class Address(msgspec.Struct, frozen=True):
    """The address of a server; port 0 takes any free port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address | None:
    """Return the address of `host:port`, `:port` (all interfaces) or `[::1]:port`; `None` for `0` and empty text.

    Raises:
        ValueError: The text is not an address.
    """
    if text in ("", "0"):
        return None
    match = _ADDRESS.fullmatch(text)
    if match is None or int(match["port"]) > 65535:
        raise ValueError(
            f"{text!r} is not an address: write 127.0.0.1:8080, :8080 for all interfaces, or 0 for no server"
        )
    return Address(match["v6"] or match["host"] or "", int(match["port"]))


def parse_duration(text: str) -> float:
    """Return the seconds of `15`, `2.5`, `15s`, `1m30s`, `250ms` or `1h`.

    Raises:
        ValueError: The text is not a duration.
    """
    text = text.strip()
    if _NUMBER.fullmatch(text):
        return float(text)
    if _DURATION.fullmatch(text):
        return sum(float(number) * _UNIT_SECONDS[unit] for number, unit in _DURATION_PART.findall(text))
    raise ValueError(f"{text!r} is not a duration: write seconds (15), or 15s, 1m30s, 250ms")


def parse_bool(text: str) -> bool:
    """Return the truth of `1`, `true`, `yes`, `on` or `0`, `false`, `no`, `off`.

    Raises:
        ValueError: The text is none of them.
    """
    word = text.strip().lower()
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    raise ValueError("expected true or false")
