"""The string formats that the API server checks in custom resources; any other format is an annotation only.

Follows kube-openapi's `strfmt` registry as of Kubernetes 1.36. Names are kept without dashes, as they are compared.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable, Mapping
from datetime import date
from email.utils import parseaddr
from typing import Final
from urllib.parse import urlsplit

from steersman.regex import compile_pattern

__all__ = ["FORMATS", "check_for", "known", "parse_duration"]

_HOSTNAME = (
    r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)|"
    r"([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}([a-zA-Z\p{L}]){2,63})$"
)
_ASCII_HOSTNAME = re.compile(
    r"[a-zA-Z0-9$+<=>^`|~](-?[a-zA-Z0-9$+<=>^`|~]{0,62})?"
    r"|([a-zA-Z0-9$+<=>^`|~]([a-zA-Z0-9$+<=>^`|~-]{0,61}[a-zA-Z0-9$+<=>^`|~])?\.)+[a-zA-Z]{2,63}"
)
_TIME = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_SHORT = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SHORT_NAME = re.compile(_SHORT)
_LONG_NAME = re.compile(rf"{_SHORT}(\.{_SHORT})*")
_GO_DURATION = re.compile(r"[-+]?(?:0|(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h))+)")
_GO_PART = re.compile(r"([0-9]*\.?[0-9]*)(ns|us|µs|μs|ms|s|m|h)")
_NANOSECONDS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_WORDS = (
    (("ns", "nano"), 1),
    (("us", "µs", "micro"), 10**3),
    (("ms", "milli"), 10**6),
    (("s", "sec"), 10**9),
    (("m", "min"), 60 * 10**9),
    (("h", "hr", "hour"), 3600 * 10**9),
    (("d", "day"), 86400 * 10**9),
    (("w", "wk", "week"), 7 * 86400 * 10**9),
)
_WORD_PART = re.compile(r"(\d+)\s*([A-Za-zµ]+)", re.ASCII)
_CARD = re.compile(
    r"4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}"
    r"|(?:2131|1800|35\d{3})\d{11}|(?:5[0678]\d\d|6304|6390|67\d\d)\d{8,15}|2\d{15}"
)


def parse_duration(text: str) -> int | None:
    """Nanoseconds of a Go duration (`1h30m`) or a worded one (`3 hours`); `None` where it is neither."""
    if _GO_DURATION.fullmatch(text):
        whole = sum(int(float(number) * _NANOSECONDS[unit]) for number, unit in _GO_PART.findall(text))
        return -whole if text.startswith("-") else whole
    total, found = 0, False
    for number, word in _WORD_PART.findall(text):
        unit = word.strip().lower()
        for variants, factor in _WORDS:
            if unit in variants or unit.startswith(variants[-1]):
                total, found = total + int(number) * factor, True
    return total if found else None


def _date(text: str) -> bool:
    if not _DATE.fullmatch(text):
        return False
    try:
        date.fromisoformat(text if text[:4] != "0000" else f"2000{text[4:]}")
    except ValueError:
        return False
    return True


def _date_time(text: str) -> bool:
    day, t, rest = text.lower().partition("t")
    found = _TIME.fullmatch(rest) if t and _date(day) else None
    return found is not None and found[1] <= "23" and found[2] <= "59" and found[3] <= "59"


def _ip(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    if "%" in text:
        return None
    if ":" not in text:
        text = ".".join(part.lstrip("0") or "0" if part else part for part in text.split("."))
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _ipv4(text: str) -> bool:
    return "." in text and _ip(text) is not None


def _ipv6(text: str) -> bool:
    return ":" in text and _ip(text) is not None


def _cidr(text: str) -> bool:
    address, slash, bits = text.partition("/")
    found = _ip(address)
    if not slash or found is None or not bits.isascii() or not bits.isdigit():
        return False
    return int(bits) <= found.max_prefixlen


def _hostname(text: str) -> bool:
    if len(text.encode()) > 255 or any(len(part.encode()) > 63 for part in text.split(".")):
        return False
    if text.isascii():
        return _ASCII_HOSTNAME.fullmatch(text) is not None
    return compile_pattern(_HOSTNAME).search(text) is not None


_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~\-\u0080-\U0010ffff]+"
_ADDRESS = re.compile(rf"(?:{_ATOM}(?:\.{_ATOM})*|\"[^\"]*\")@(?:{_ATOM}(?:\.{_ATOM})*|\[[^\]]*\])")


def _email(text: str) -> bool:
    text = text.strip(" \t")
    if _ADDRESS.fullmatch(text):
        return True
    if not text.endswith(">"):
        return False
    name, address = parseaddr(text)
    return bool(_ADDRESS.fullmatch(address)) and (bool(name) or text.startswith("<"))


def _uri(text: str) -> bool:
    """As Go's ParseRequestURI takes it: absolute, or a path from the root."""
    if not text or any(ord(char) < 0x20 or ord(char) == 0x7F or char == " " for char in text):
        return False
    if re.search(r"%(?![0-9A-Fa-f]{2})", text):
        return False
    if text.startswith("/") or text == "*":
        return True
    scheme, colon, rest = text.partition(":")
    if not colon or not re.fullmatch(r"[A-Za-z][A-Za-z0-9+.\-]*", scheme) or not rest.startswith("/"):
        return False
    try:
        _ = urlsplit(text).port
    except ValueError:
        return False
    return True


def _mac(text: str) -> bool:
    for pattern in (r"([0-9a-fA-F]{2}:)+[0-9a-fA-F]{2}", r"([0-9a-fA-F]{2}-)+[0-9a-fA-F]{2}"):
        if re.fullmatch(pattern, text):
            return len(text) in (17, 23, 59)
    return re.fullmatch(r"([0-9a-fA-F]{4}\.){2,}[0-9a-fA-F]{4}", text) is not None and len(text) in (14, 19, 49)


def _base64(text: str) -> bool:
    if not text:
        return False
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _isbn10(text: str) -> bool:
    digits = re.sub(r"[\s-]+", "", text)
    if not re.fullmatch(r"(?:[0-9]{9}X|[0-9]{10})", digits):
        return False
    total = sum((10 - index) * (10 if char == "X" else int(char)) for index, char in enumerate(digits))
    return total % 11 == 0


def _isbn13(text: str) -> bool:
    digits = re.sub(r"[\s-]+", "", text)
    if not re.fullmatch(r"[0-9]{13}", digits):
        return False
    return sum(int(char) * (3 if index % 2 else 1) for index, char in enumerate(digits)) % 10 == 0


def _credit_card(text: str) -> bool:
    digits = re.sub(r"[^0-9]+", "", text)
    if not _CARD.fullmatch(digits):
        return False
    total = 0
    for index, char in enumerate(reversed(digits)):
        value = int(char) * (2 if index % 2 else 1)
        total += value - 9 if value > 9 else value
    return total % 10 == 0


def _rgb(text: str) -> bool:
    part = r"(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])"
    return re.fullmatch(rf"rgb\(\s*{part}\s*,\s*{part}\s*,\s*{part}\s*\)", text) is not None


def _expression(pattern: str) -> Callable[[str], bool]:
    matches = re.compile(pattern, re.ASCII | re.IGNORECASE).fullmatch
    return lambda text: matches(text) is not None


_HEX4 = "[0-9a-f]{4}"
FORMATS: Final[Mapping[str, Callable[[str], bool]]] = {
    "bsonobjectid": _expression("[0-9a-f]{24}"),
    "uri": _uri,
    "email": _email,
    "hostname": _hostname,
    "ipv4": _ipv4,
    "ipv6": _ipv6,
    "cidr": _cidr,
    "mac": _mac,
    "uuid": _expression(f"[0-9a-f]{{8}}-?{_HEX4}-?{_HEX4}-?{_HEX4}-?[0-9a-f]{{12}}"),
    "uuid3": _expression(f"[0-9a-f]{{8}}-?{_HEX4}-?3[0-9a-f]{{3}}-?{_HEX4}-?[0-9a-f]{{12}}"),
    "uuid4": _expression(f"[0-9a-f]{{8}}-?{_HEX4}-?4[0-9a-f]{{3}}-?[89ab][0-9a-f]{{3}}-?[0-9a-f]{{12}}"),
    "uuid5": _expression(f"[0-9a-f]{{8}}-?{_HEX4}-?5[0-9a-f]{{3}}-?[89ab][0-9a-f]{{3}}-?[0-9a-f]{{12}}"),
    "isbn": lambda text: _isbn10(text) or _isbn13(text),
    "isbn10": _isbn10,
    "isbn13": _isbn13,
    "creditcard": _credit_card,
    "ssn": _expression(r"\d{3}[- ]?\d{2}[- ]?\d{4}"),
    "hexcolor": _expression("#?([0-9a-f]{3}|[0-9a-f]{6})"),
    "rgbcolor": _rgb,
    "byte": _base64,
    "password": lambda text: True,
    "date": _date,
    "duration": lambda text: parse_duration(text) is not None,
    "datetime": _date_time,
    "k8sshortname": lambda text: len(text) <= 63 and _SHORT_NAME.fullmatch(text) is not None,
    "k8slongname": lambda text: len(text) <= 253 and _LONG_NAME.fullmatch(text) is not None,
}


def known(kind: str, shape: str) -> bool:
    """Return whether the API server validates a `format` for a type; "" stands for none or several types."""
    match kind:
        case "" | "string":
            return shape.replace("-", "") in FORMATS
        case "integer":
            return shape in ("int32", "int64")
        case "number":
            return shape in ("float", "double")
        case _:
            return False


def check_for(shape: str) -> Callable[[str], bool] | None:
    """The check of a string format, `None` where nothing is checked."""
    return FORMATS.get(shape.replace("-", ""))
