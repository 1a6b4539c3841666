"""Formats of texts: names, labels, ports, addresses, with the API server's error texts.

A rule takes a text and returns its errors, an empty sequence for a valid one. `names` adds the path of the field.
Follows apimachinery's `util/validation` and `api/validate/content`.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final, TypeAlias

__all__ = [
    "Rule",
    "c_identifier",
    "cidr",
    "config_map_key",
    "dns1035_label",
    "dns_label",
    "dns_subdomain",
    "dns_subdomain_underscore",
    "env_var_name",
    "http_header_name",
    "in_range",
    "ip_address",
    "label_key",
    "label_value",
    "name_rule",
    "path_segment",
    "percent",
    "port_name",
    "port_number",
    "regex_hint",
    "wildcard_subdomain",
]

Rule: TypeAlias = Callable[[str], Sequence[str]]
"""Returns the errors of a text."""

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_UNDERSCORE_LABEL = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_UNDERSCORE_SUBDOMAIN = rf"{_UNDERSCORE_LABEL}(\.{_UNDERSCORE_LABEL})*"
_LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_WILDCARD = rf"\*\.{_SUBDOMAIN}"
_KEY = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = f"({_KEY})?"
_C_IDENTIFIER = "[A-Za-z_][A-Za-z0-9_]*"
_CONFIG_KEY = "[-._a-zA-Z0-9]+"
_ENV_NAME = "[-._a-zA-Z][-._a-zA-Z0-9]*"
_HEADER = "[-A-Za-z0-9]+"
_PERCENT = "[0-9]+%"

_IS_LABEL: Final = re.compile(_LABEL).fullmatch
_IS_SUBDOMAIN: Final = re.compile(_SUBDOMAIN).fullmatch
_IS_UNDERSCORE_SUBDOMAIN: Final = re.compile(_UNDERSCORE_SUBDOMAIN).fullmatch
_IS_LABEL_1035: Final = re.compile(_LABEL_1035).fullmatch
_IS_WILDCARD: Final = re.compile(_WILDCARD).fullmatch
_IS_KEY: Final = re.compile(_KEY).fullmatch
_IS_VALUE: Final = re.compile(_VALUE).fullmatch
_IS_C_IDENTIFIER: Final = re.compile(_C_IDENTIFIER).fullmatch
_IS_CONFIG_KEY: Final = re.compile(_CONFIG_KEY).fullmatch
_IS_ENV_NAME: Final = re.compile(_ENV_NAME).fullmatch
_IS_HEADER: Final = re.compile(_HEADER).fullmatch
_IS_PERCENT: Final = re.compile(_PERCENT).fullmatch

_LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character"
)
_SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character"
)
_UNDERSCORE_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', "
    "and must start and end with an alphanumeric character"
)
_LABEL_1035_TEXT = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
    "start with an alphabetic character, and end with an alphanumeric character"
)
_WILDCARD_TEXT = (
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, "
    "which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character"
)
_KEY_TEXT = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
)
_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character"
)
_C_IDENTIFIER_TEXT = (
    "a valid C identifier must start with alphabetic character or '_', "
    "followed by a string of alphanumeric characters or '_'"
)
_ENV_TEXT = "a valid environment variable name must consist only of printable ASCII characters other than '='"


def regex_hint(text: str, pattern: str, *examples: str) -> str:
    """Return an error with examples and the expression, in the words of the API server."""
    hint = f"regex used for validation is '{pattern}'"
    if not examples:
        return f"{text} ({hint})"
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{text} (e.g. {shown}{hint})"


def _at_most(length: int, unit: str = "characters") -> str:
    return f"must be no more than {length} {unit}"


def _size(value: str) -> int:
    return len(value) if value.isascii() else len(value.encode("utf-8", "surrogatepass"))


@lru_cache(maxsize=8192)
def dns_label(value: str) -> Sequence[str]:
    """RFC 1123 label: at most 63 of a-z, 0-9 and `-`."""
    found: list[str] = []
    if _size(value) > 63:
        found.append(_at_most(63))
    if not _IS_LABEL(value):
        dotted = _IS_SUBDOMAIN(value) is not None
        found.append("must not contain dots" if dotted else regex_hint(_LABEL_TEXT, _LABEL, "my-name", "123-abc"))
    return tuple(found)


@lru_cache(maxsize=8192)
def dns_subdomain(value: str) -> Sequence[str]:
    """RFC 1123 subdomain: labels with dots, at most 253 characters; what most names follow."""
    found: list[str] = []
    if _size(value) > 253:
        found.append(_at_most(253))
    if not _IS_SUBDOMAIN(value):
        found.append(regex_hint(_SUBDOMAIN_TEXT, _SUBDOMAIN, "example.com"))
    return tuple(found)


def dns_subdomain_underscore(value: str) -> Sequence[str]:
    """A subdomain whose labels may contain underscores."""
    found: list[str] = []
    if _size(value) > 253:
        found.append(_at_most(253))
    if not _IS_UNDERSCORE_SUBDOMAIN(value):
        found.append(regex_hint(_UNDERSCORE_TEXT, _UNDERSCORE_SUBDOMAIN, "example.com"))
    return found


@lru_cache(maxsize=1024)
def dns1035_label(value: str) -> Sequence[str]:
    """RFC 1035 label: as `dns_label`, and starts with a letter."""
    found: list[str] = []
    if _size(value) > 63:
        found.append(_at_most(63))
    if not _IS_LABEL_1035(value):
        found.append(regex_hint(_LABEL_1035_TEXT, _LABEL_1035, "my-name", "abc-123"))
    return tuple(found)


def wildcard_subdomain(value: str) -> Sequence[str]:
    """Return the errors of a DNS name that starts with `*.`."""
    found: list[str] = []
    if _size(value) > 253:
        found.append(_at_most(253))
    if not _IS_WILDCARD(value):
        found.append(regex_hint(_WILDCARD_TEXT, _WILDCARD, "*.example.com"))
    return found


@lru_cache(maxsize=8192)
def label_key(value: str) -> Sequence[str]:
    """A qualified name: an optional subdomain, `/`, and a name of at most 63 characters."""
    prefix, slash, name = value.rpartition("/")
    found: list[str] = []
    hint = regex_hint(_KEY_TEXT, _KEY, "MyName", "my.name", "123-abc")
    if "/" in prefix:
        return (f"a valid label key {hint} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",)
    if slash and not prefix:
        found.append("prefix part must be non-empty")
    elif slash:
        # The content package, which has this rule, counts bytes; the others count characters.
        found += [
            f"prefix part {text.replace('characters', 'bytes', 1) if 'no more than' in text else text}"
            for text in dns_subdomain(prefix)
        ]
    if not name:
        found.append("name part must be non-empty")
    elif _size(name) > 63:
        found.append(f"name part {_at_most(63, 'bytes')}")
    if not _IS_KEY(name):
        found.append(f"name part {hint}")
    return tuple(found)


@lru_cache(maxsize=8192)
def label_value(value: str) -> Sequence[str]:
    """The value of a label: empty, or at most 63 characters of a name."""
    found: list[str] = []
    if _size(value) > 63:
        found.append(_at_most(63, "bytes"))
    if not _IS_VALUE(value):
        found.append(regex_hint(_VALUE_TEXT, _VALUE, "MyValue", "my_value", "12345"))
    return tuple(found)


def path_segment(value: str) -> Sequence[str]:
    """A name that may stand in a URL path: all but `.`, `..`, and what holds `/` or `%`."""
    if value in (".", ".."):
        return (f"may not be '{value}'",)
    if "/" not in value and "%" not in value:
        return ()
    return [f"may not contain '{character}'" for character in "/%" if character in value]


def c_identifier(value: str) -> Sequence[str]:
    """A name of the language C."""
    if _IS_C_IDENTIFIER(value):
        return ()
    return (regex_hint(_C_IDENTIFIER_TEXT, _C_IDENTIFIER, "my_name", "MY_NAME", "MyName"),)


def _relative(value: str) -> list[str]:
    if value in (".", ".."):
        return [f"must not be '{value}'"]
    return ["must not start with '..'"] if value.startswith("..") else []


@lru_cache(maxsize=4096)
def config_map_key(value: str) -> Sequence[str]:
    """A key of a ConfigMap or Secret, which may become a file name."""
    found: list[str] = []
    if _size(value) > 253:
        found.append(_at_most(253))
    if not _IS_CONFIG_KEY(value):
        text = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
        found.append(regex_hint(text, _CONFIG_KEY, "key.name", "KEY_NAME", "key-name"))
    return (*found, *_relative(value))


def env_var_name(value: str) -> Sequence[str]:
    """The name of an environment variable, as relaxed since Kubernetes 1.34: printable ASCII but `=`."""
    if not value:
        return ("environment variable name must be non-empty",)
    if not value.isascii() or "=" in value or not value.isprintable():
        return (_ENV_TEXT,)
    return ()


def http_header_name(value: str) -> Sequence[str]:
    """Return the errors of an HTTP header name, as probes and lifecycle handlers use it."""
    if _IS_HEADER(value):
        return ()
    text = "a valid HTTP header must consist of alphanumeric characters or '-'"
    return (regex_hint(text, _HEADER, "X-Header-Name"),)


def percent(value: str) -> Sequence[str]:
    """A whole percentage such as `25%`."""
    if _IS_PERCENT(value):
        return ()
    text = "a valid percent string must be a numeric string followed by an ending '%'"
    return (regex_hint(text, _PERCENT, "1%", "93%"),)


def in_range(value: int, low: int, high: int) -> Sequence[str]:
    """Return an error message if a number is outside of the bounds."""
    return () if low <= value <= high else (f"must be between {low} and {high}, inclusive",)


def port_number(value: int) -> Sequence[str]:
    """Return an error message if a number is not a port."""
    return in_range(value, 1, 65535)


@lru_cache(maxsize=1024)
def port_name(value: str) -> Sequence[str]:
    """An IANA service name: at most 15 characters, a letter among them."""
    found: list[str] = []
    if _size(value) > 15:
        found.append(_at_most(15))
    if not re.fullmatch("[-a-z0-9]+", value):
        found.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", value):
        found.append("must contain at least one letter (a-z)")
    if "--" in value:
        found.append("must not contain consecutive hyphens")
    if value.startswith("-") or value.endswith("-"):
        found.append("must not begin or end with a hyphen")
    return tuple(found)


def ip_address(value: str) -> Sequence[str]:
    """An IP address as older fields take it: any notation, but no leading zeros and no IPv4 inside of IPv6."""
    try:
        address = ipaddress.ip_address(value) if "%" not in value else None
    except ValueError:
        address = None
    if address is None:
        if re.fullmatch(r"\d{1,3}(\.\d{1,3}){3}", value) and all(int(part) < 256 for part in value.split(".")):
            return ("must not have leading 0s",)
        return ("must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",)
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return ("must not be an IPv4-mapped IPv6 address",)
    return ()


def canonical_ip_address(value: str) -> Sequence[str]:
    """An IP address in the one notation that Go prints."""
    if errors := ip_address(value):
        return errors
    canonical = str(ipaddress.ip_address(value))
    return () if value == canonical else (f'must be in canonical form ("{canonical}")',)


def cidr(value: str) -> Sequence[str]:
    """A CIDR as older fields take it: a network, with no bits beyond the prefix."""
    bad = ("must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",)
    address, slash, bits = value.partition("/")
    if not slash or not bits.isascii() or not bits.isdigit():
        return bad
    errors = ip_address(address)
    if errors and "leading" not in errors[0]:
        return bad if "valid" in errors[0] else ("must not have an IPv4-mapped IPv6 address",)
    if int(bits) > (128 if ":" in address else 32):
        return bad
    if errors or (len(bits) > 1 and bits[0] == "0"):
        return ("must not have leading 0s in IP or prefix length",)
    try:
        ipaddress.ip_network(value)
    except ValueError:
        return ("must not have bits set beyond the prefix length",)
    return ()


_NAME_RULES: Final[dict[str, Rule]] = {
    "subdomain": dns_subdomain,
    "label": dns_label,
    "label1035": dns1035_label,
    "path": path_segment,
    "ip": canonical_ip_address,
}


def name_rule(rule: str) -> Rule:
    """Return the check for a value of `Strategy.name_rule`."""
    return _NAME_RULES[rule]
