"""Values as Go prints them in error texts."""

from __future__ import annotations

import json
import math
from typing import Any

__all__ = ["go_float", "go_quote", "go_value"]

_ESCAPES = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    '"': '\\"',
    "\\": "\\\\",
}


def go_quote(text: str) -> str:
    """A string as `%q` prints it."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    parts: list[str] = []
    for char in text:
        code = ord(char)
        if char in _ESCAPES:
            parts.append(_ESCAPES[char])
        elif char.isprintable():
            parts.append(char)
        elif code < 0x80:
            parts.append(f"\\x{code:02x}")
        else:
            parts.append(f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}")
    return f'"{"".join(parts)}"'


def go_float(number: float) -> str:
    """A float as `%v` prints it: shortest digits, an exponent below 1e-4 and from 1e21 on."""
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "+Inf" if number > 0 else "-Inf"
    number = float(number)
    if number == 0:
        return "-0" if math.copysign(1, number) < 0 else "0"
    mantissa, _, exponent = f"{number!r}".partition("e")
    digits = mantissa.replace(".", "").replace("-", "").lstrip("0").rstrip("0") or "0"
    power = math.floor(math.log10(abs(number))) if not exponent else int(exponent)
    if -4 <= power < 21:
        text = f"{number:.{max(0, len(digits) - 1 - power)}f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    sign = "-" if number < 0 else ""
    tail = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{tail}e{'-' if power < 0 else '+'}{abs(power):02d}"


def go_value(value: Any) -> str:
    """A bad value as field errors show it."""
    match value:
        case str():
            return go_quote(value)
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return go_float(value)
        case _:
            text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
            return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
