"""Kubernetes' opaque types in expressions: quantities, URLs, addresses, semantic versions, named formats."""

from __future__ import annotations

# The values of expressions have whatever types they have; tables of functions over them cannot say more.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false
import ipaddress
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import total_ordering
from typing import Any, ClassVar, Final, TypeAlias
from urllib.parse import parse_qs, quote, unquote, urlsplit

from steersman.models import Quantity
from steersman_cluster.cel.formats import FORMATS
from steersman_cluster.cel.functions import no_overload
from steersman_cluster.cel.gotext import go_quote
from steersman_cluster.cel.values import NONE, CelError, OpaqueValue, Optional
from steersman_cluster.kinds import formats

__all__ = ["OPAQUE", "Cidr", "Ip", "NamedFormat"]

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True, order=True)
class Amount(OpaqueValue):
    """A value of the Kubernetes `quantity` library, compared by its amount."""

    cel_type: ClassVar[str] = "kubernetes.Quantity"
    value: Quantity


@dataclass(frozen=True, slots=True)
class Url(OpaqueValue):
    """A URL as Go's ParseRequestURI takes it."""

    cel_type: ClassVar[str] = "kubernetes.URL"
    text: str


@dataclass(frozen=True, slots=True)
class Ip(OpaqueValue):
    """A value of the Kubernetes `ip` library."""

    cel_type: ClassVar[str] = "net.IP"
    value: Address

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True, slots=True)
class Cidr(OpaqueValue):
    """An address with a prefix length; bits beyond the prefix are kept."""

    cel_type: ClassVar[str] = "net.CIDR"
    value: ipaddress.IPv4Interface | ipaddress.IPv6Interface

    def __str__(self) -> str:
        return str(self.value)


@total_ordering
@dataclass(frozen=True, slots=True, eq=True)
class Semver(OpaqueValue):
    """A semantic version; build metadata does not order."""

    cel_type: ClassVar[str] = "kubernetes.Semver"
    numbers: tuple[int, int, int]
    pre: tuple[str, ...] = ()

    def __lt__(self, other: Semver) -> bool:
        if self.numbers != other.numbers:
            return self.numbers < other.numbers
        if not self.pre or not other.pre:
            return bool(self.pre) and not other.pre
        return [_pre_key(part) for part in self.pre] < [_pre_key(part) for part in other.pre]


@dataclass(frozen=True, slots=True)
class NamedFormat(OpaqueValue):
    """A format to validate strings by."""

    cel_type: ClassVar[str] = "kubernetes.NamedFormat"
    name: str


def _pre_key(part: str) -> tuple[int, int, str]:
    return (0, int(part), "") if part.isdigit() else (1, 0, part)


def _quantity(text: Any) -> Amount:
    if not isinstance(text, str):
        raise no_overload("quantity", text)
    try:
        return Amount(Quantity(text))
    except ValueError:
        pass
    raise CelError(
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        if not re.fullmatch(r"[+-]?[0-9.]+[eEinumkKMGTP]*[-+]?[0-9]*", text)
        else "unable to parse quantity's suffix"
    )


def _is(parse: Callable[..., Any]) -> Callable[..., bool]:
    def call(*args: Any) -> bool:
        try:
            parse(*args)
        except CelError:
            return False
        return True

    return call


def _as_integer(amount: Amount) -> int:
    if amount.value.as_fraction().denominator != 1 or abs(int(amount.value)) >= 2**63:
        raise CelError("cannot convert value to integer")
    return int(amount.value)


def _moved(amount: Amount, other: Any, sign: int) -> Amount:
    step = other.value if isinstance(other, Amount) else Quantity(int(other))
    return Amount(amount.value + step if sign > 0 else amount.value - step)


def _order(left: Any, right: Any) -> int:
    a, b = (left.value, right.value) if isinstance(left, Amount) else (left, right)
    return 0 if a == b else -1 if a < b else 1


def _url(text: Any) -> Url:
    if not isinstance(text, str):
        raise no_overload("url", text)
    if not FORMATS["uri"](text):
        why = "empty url" if not text else "invalid URI for request"
        raise CelError(f"URL parse error during conversion from string: parse {go_quote(text)}: {why}")
    return Url(text)


def _hostname(url: Url) -> str:
    host = _host(url)
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if ":" in host else host


def _host(url: Url) -> str:
    return unquote(urlsplit(url.text).netloc.rpartition("@")[2])


def _port(url: Url) -> str:
    _, colon, port = _host(url).rpartition("]")[2].rpartition(":")
    return port if colon else ""


def _ip_value(text: Any) -> Address:
    if not isinstance(text, str):
        raise no_overload("ip", text)
    if "%" in text:
        zone = f"IP Address with zone value is not allowed, use netip.ParseAddr: {text}"
        raise CelError(f"IP Address {go_quote(text)} parse error during conversion from string: {zone}")
    try:
        value = ipaddress.ip_address(text)
    except ValueError:
        why = f"ParseAddr({go_quote(text)}): unable to parse IP"
        raise CelError(f"IP Address {go_quote(text)} parse error during conversion from string: {why}") from None
    if isinstance(value, ipaddress.IPv6Address) and value.ipv4_mapped is not None:
        why = "IPv4-mapped IPv6 address is not allowed"
        raise CelError(f"IP Address {go_quote(text)} parse error during conversion from string: {why}")
    return value


def _ip(value: Any) -> Ip:
    """`ip('10.0.0.1')`, and the receiver `cidr.ip()`."""
    return Ip(value.value.ip) if isinstance(value, Cidr) else Ip(_ip_value(value))


def _cidr(text: Any) -> Cidr:
    if not isinstance(text, str):
        raise no_overload("cidr", text)
    address, slash, bits = text.partition("/")
    try:
        if not slash or not re.fullmatch(r"0|[1-9][0-9]*", bits):
            raise ValueError
        return Cidr(ipaddress.ip_interface(f"{_ip_value(address)}/{bits}"))
    except (ValueError, CelError):
        raise CelError(f"network address parse error during conversion from string: {text}") from None


def _inside(cidr: Cidr, other: Any) -> bool:
    address = other.value if isinstance(other, Ip) else _ip_value(other)
    return address.version == cidr.value.version and address in cidr.value.network


def _within(cidr: Cidr, other: Any) -> bool:
    inner = other if isinstance(other, Cidr) else _cidr(other)
    if inner.value.version != cidr.value.version or inner.value.network.prefixlen < cidr.value.network.prefixlen:
        return False
    return inner.value.ip in cidr.value.network


def _global(ip: Ip) -> bool:
    value = ip.value
    broadcast = value == ipaddress.IPv4Address("255.255.255.255")
    return not (broadcast or value.is_unspecified or value.is_loopback or value.is_multicast or value.is_link_local)


_IDENTIFIER = "(?:0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_SEMVER = re.compile(
    rf"(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(?:-({_IDENTIFIER}(?:\.{_IDENTIFIER})*))?"
    r"(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
)


def _semver(text: Any, normalize: bool = False) -> Semver:  # noqa: FBT001, FBT002 - arguments of CEL are positional
    if normalize:
        text = re.sub(r"^v", "", text)
        head = re.match(r"[0-9.]*", text)
        numbers = [str(int(part)) for part in (head[0] if head else "").split(".") if part]
        text = ".".join([*numbers, "0", "0"][: max(3, len(numbers))]) + text[head.end() if head else 0 :]
    found = _SEMVER.fullmatch(text)
    if found is None:
        raise CelError("No Major.Minor.Patch elements found")
    return Semver((int(found[1]), int(found[2]), int(found[3])), tuple(found[4].split(".")) if found[4] else ())


def _simple(name: str, text: str) -> formats.Rule:
    return lambda value: () if FORMATS[name](value) else (text,)


def _prefix(rule: formats.Rule) -> formats.Rule:
    return lambda value: rule(value.removesuffix("-") if value.endswith("-") else value)


_NAMED: Final[Mapping[str, formats.Rule]] = {
    "dns1123Label": formats.dns_label,
    "dns1123Subdomain": formats.dns_subdomain,
    "dns1035Label": formats.dns1035_label,
    "qualifiedName": formats.label_key,
    "dns1123LabelPrefix": _prefix(formats.dns_label),
    "dns1123SubdomainPrefix": _prefix(formats.dns_subdomain),
    "dns1035LabelPrefix": _prefix(formats.dns1035_label),
    "labelValue": formats.label_value,
    "uri": _simple("uri", "invalid URI for request"),
    "uuid": _simple("uuid", "does not match the UUID format"),
    "byte": _simple("byte", "invalid base64"),
    "date": _simple("date", "invalid date"),
    "datetime": _simple("datetime", "invalid datetime"),
}


def _validate(form: NamedFormat, text: str) -> Optional:
    errors = list(_NAMED[form.name](text))
    return Optional(errors) if errors else NONE


def _named(name: str) -> Callable[[], NamedFormat]:
    found = NamedFormat(name)
    return lambda: found


OPAQUE: Final[Mapping[str, Callable[..., Any]]] = {
    "quantity": _quantity,
    "isQuantity": _is(_quantity),
    "sign": lambda amount: (amount.value > 0) - (amount.value < 0),
    "isInteger": _is(_as_integer),
    "asInteger": _as_integer,
    "asApproximateFloat": lambda amount: float(amount.value),
    "isGreaterThan": lambda left, right: _order(left, right) > 0,
    "isLessThan": lambda left, right: _order(left, right) < 0,
    "compareTo": _order,
    "add": lambda left, right: _moved(left, right, 1),
    "sub": lambda left, right: _moved(left, right, -1),
    "url": _url,
    "isURL": _is(_url),
    "getScheme": lambda url: urlsplit(url.text).scheme,
    "getHost": _host,
    "getHostname": _hostname,
    "getPort": _port,
    "getEscapedPath": lambda url: quote(urlsplit(url.text).path, safe="/%!$&'()*+,;=:@~-._"),
    "getQuery": lambda url: parse_qs(urlsplit(url.text).query, keep_blank_values=True),
    "ip": _ip,
    "isIP": _is(_ip),
    "ip.isCanonical": lambda text: str(_ip_value(text)) == text,
    "family": lambda ip: ip.value.version,
    "isUnspecified": lambda ip: ip.value.is_unspecified,
    "isLoopback": lambda ip: ip.value.is_loopback,
    "isLinkLocalMulticast": lambda ip: (
        ip.value in ipaddress.ip_network("224.0.0.0/24" if ip.value.version == 4 else "ff02::/16")
    ),
    "isLinkLocalUnicast": lambda ip: ip.value.is_link_local,
    "isGlobalUnicast": _global,
    "cidr": _cidr,
    "isCIDR": _is(_cidr),
    "containsIP": _inside,
    "containsCIDR": _within,
    "prefixLength": lambda cidr: cidr.value.network.prefixlen,
    "masked": lambda cidr: Cidr(
        ipaddress.ip_interface(f"{cidr.value.network.network_address}/{cidr.value.network.prefixlen}")
    ),
    "semver": _semver,
    "isSemver": _is(_semver),
    "major": lambda version: version.numbers[0],
    "minor": lambda version: version.numbers[1],
    "patch": lambda version: version.numbers[2],
    "format.named": lambda name: Optional(NamedFormat(name)) if name in _NAMED else NONE,
    "validate": _validate,
    **{f"format.{name}": _named(name) for name in _NAMED},
}
