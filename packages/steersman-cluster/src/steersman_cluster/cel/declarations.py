"""The signatures of CEL's functions and of Kubernetes' libraries as of 1.36.

One line per overload; a receiver stands before the dot; `A`, `B`, … are type parameters.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Final

from steersman_cluster.cel.types import (
    ANY,
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    UINT,
    Type,
    list_of,
    map_of,
    opaque,
    optional_of,
)

__all__ = ["Overload", "functions", "type_names"]


@dataclass(frozen=True, slots=True)
class Overload:
    """One signature; the receiver of a member is the first parameter."""

    params: tuple[Type, ...]
    result: Type
    member: bool


_SIMPLE: Final = {
    "int": INT, "uint": UINT, "double": DOUBLE, "bool": BOOL, "string": STRING, "bytes": BYTES, "null": NULL,
    "dyn": ANY, "timestamp": TIMESTAMP, "duration": DURATION, "type": Type("type"),
    "quantity": opaque("kubernetes.Quantity"), "url": opaque("kubernetes.URL"), "ip": opaque("net.IP"),
    "cidr": opaque("net.CIDR"), "semver": opaque("kubernetes.Semver"), "format": opaque("kubernetes.NamedFormat"),
    "authorizer": opaque("kubernetes.authorization.Authorizer"),
    "pathcheck": opaque("kubernetes.authorization.PathCheck"),
    "groupcheck": opaque("kubernetes.authorization.GroupCheck"),
    "resourcecheck": opaque("kubernetes.authorization.ResourceCheck"),
    "decision": opaque("kubernetes.authorization.Decision"),
}  # fmt: skip

_TEXT = """
_?_:_(bool, A, A) -> A
_&&_(bool, bool) -> bool
_||_(bool, bool) -> bool
!_(bool) -> bool
@not_strictly_false(bool) -> bool
_==_(A, A) -> bool
_!=_(A, A) -> bool
@in(A, list(A)) -> bool
@in(A, map(A, B)) -> bool
_[_](list(A), int) -> A
_[_](map(A, B), A) -> B
_[_](optional(list(A)), int) -> optional(A)
_[_](optional(map(A, B)), A) -> optional(B)
_[?_](list(A), int) -> optional(A)
_[?_](map(A, B), A) -> optional(B)
_[?_](optional(list(A)), int) -> optional(A)
_[?_](optional(map(A, B)), A) -> optional(B)
_+_(int, int) -> int
_+_(uint, uint) -> uint
_+_(double, double) -> double
_+_(string, string) -> string
_+_(bytes, bytes) -> bytes
_+_(list(A), list(A)) -> list(A)
_+_(timestamp, duration) -> timestamp
_+_(duration, timestamp) -> timestamp
_+_(duration, duration) -> duration
_-_(int, int) -> int
_-_(uint, uint) -> uint
_-_(double, double) -> double
_-_(timestamp, timestamp) -> duration
_-_(timestamp, duration) -> timestamp
_-_(duration, duration) -> duration
_*_(int, int) -> int
_*_(uint, uint) -> uint
_*_(double, double) -> double
_/_(int, int) -> int
_/_(uint, uint) -> uint
_/_(double, double) -> double
_%_(int, int) -> int
_%_(uint, uint) -> uint
-_(int) -> int
-_(double) -> double
size(string) -> int
size(bytes) -> int
size(list(A)) -> int
size(map(A, B)) -> int
string.size() -> int
bytes.size() -> int
list(A).size() -> int
map(A, B).size() -> int
dyn(A) -> dyn
type(A) -> type
bool(bool) -> bool
bool(string) -> bool
int(int) -> int
int(uint) -> int
int(double) -> int
int(string) -> int
int(timestamp) -> int
int(duration) -> int
uint(uint) -> uint
uint(int) -> uint
uint(double) -> uint
uint(string) -> uint
double(double) -> double
double(int) -> double
double(uint) -> double
double(string) -> double
string(string) -> string
string(bool) -> string
string(int) -> string
string(uint) -> string
string(double) -> string
string(bytes) -> string
string(timestamp) -> string
string(duration) -> string
string(ip) -> string
string(cidr) -> string
bytes(bytes) -> bytes
bytes(string) -> bytes
timestamp(timestamp) -> timestamp
timestamp(string) -> timestamp
timestamp(int) -> timestamp
duration(duration) -> duration
duration(string) -> duration
duration(int) -> duration
matches(string, string) -> bool
string.matches(string) -> bool
string.contains(string) -> bool
string.startsWith(string) -> bool
string.endsWith(string) -> bool
string.charAt(int) -> string
string.indexOf(string) -> int
string.indexOf(string, int) -> int
string.lastIndexOf(string) -> int
string.lastIndexOf(string, int) -> int
string.lowerAscii() -> string
string.upperAscii() -> string
string.replace(string, string) -> string
string.replace(string, string, int) -> string
string.split(string) -> list(string)
string.split(string, int) -> list(string)
string.substring(int) -> string
string.substring(int, int) -> string
string.trim() -> string
string.format(list(dyn)) -> string
list(string).join() -> string
list(string).join(string) -> string
strings.quote(string) -> string
string.find(string) -> string
string.findAll(string) -> list(string)
string.findAll(string, int) -> list(string)
list(A).indexOf(A) -> int
list(A).lastIndexOf(A) -> int
list(A).slice(int, int) -> list(A)
list(list(A)).flatten() -> list(A)
list(A).flatten() -> list(A)
list(A).flatten(int) -> list(dyn)
list(A).distinct() -> list(A)
list(A).reverse() -> list(A)
list(A).first() -> optional(A)
list(A).last() -> optional(A)
lists.range(int) -> list(int)
sets.contains(list(A), list(A)) -> bool
sets.equivalent(list(A), list(A)) -> bool
sets.intersects(list(A), list(A)) -> bool
jsonpatch.escapeKey(string) -> string
optional.of(A) -> optional(A)
optional.ofNonZeroValue(A) -> optional(A)
optional.none() -> optional(A)
optional(A).hasValue() -> bool
optional(A).value() -> A
optional(A).or(optional(A)) -> optional(A)
optional(A).orValue(A) -> A
optional.unwrap(list(optional(A))) -> list(A)
list(optional(A)).unwrapOpt() -> list(A)
url(string) -> url
isURL(string) -> bool
url.getScheme() -> string
url.getHost() -> string
url.getHostname() -> string
url.getPort() -> string
url.getEscapedPath() -> string
url.getQuery() -> map(string, list(string))
quantity(string) -> quantity
isQuantity(string) -> bool
sign(quantity) -> int
quantity.isInteger() -> bool
quantity.asInteger() -> int
quantity.asApproximateFloat() -> double
quantity.isGreaterThan(quantity) -> bool
quantity.isLessThan(quantity) -> bool
quantity.compareTo(quantity) -> int
quantity.add(quantity) -> quantity
quantity.add(int) -> quantity
quantity.sub(quantity) -> quantity
quantity.sub(int) -> quantity
ip(string) -> ip
isIP(string) -> bool
ip.isCanonical(string) -> bool
ip.family() -> int
ip.isUnspecified() -> bool
ip.isLoopback() -> bool
ip.isLinkLocalMulticast() -> bool
ip.isLinkLocalUnicast() -> bool
ip.isGlobalUnicast() -> bool
cidr(string) -> cidr
isCIDR(string) -> bool
cidr.containsIP(string) -> bool
cidr.containsIP(ip) -> bool
cidr.containsCIDR(string) -> bool
cidr.containsCIDR(cidr) -> bool
cidr.ip() -> ip
cidr.prefixLength() -> int
cidr.masked() -> cidr
semver(string) -> semver
semver(string, bool) -> semver
isSemver(string) -> bool
isSemver(string, bool) -> bool
semver.major() -> int
semver.minor() -> int
semver.patch() -> int
semver.isGreaterThan(semver) -> bool
semver.isLessThan(semver) -> bool
semver.compareTo(semver) -> int
format.named(string) -> optional(format)
format.validate(string) -> optional(list(string))
authorizer.path(string) -> pathcheck
authorizer.group(string) -> groupcheck
authorizer.serviceAccount(string, string) -> authorizer
groupcheck.resource(string) -> resourcecheck
resourcecheck.subresource(string) -> resourcecheck
resourcecheck.namespace(string) -> resourcecheck
resourcecheck.name(string) -> resourcecheck
resourcecheck.fieldSelector(string) -> resourcecheck
resourcecheck.labelSelector(string) -> resourcecheck
resourcecheck.check(string) -> decision
pathcheck.check(string) -> decision
decision.allowed() -> bool
decision.reason() -> string
decision.errored() -> bool
decision.error() -> string
"""
_QUALIFIED = frozenset({"strings.quote", "lists.range", "optional.of", "optional.ofNonZeroValue", "optional.none",
                        "optional.unwrap", "format.named", "ip.isCanonical"})  # fmt: skip
_ORDERED = ("int", "uint", "double", "string", "bool", "bytes", "timestamp", "duration")
_NUMBERS = ("int", "uint", "double")
NAMED_FORMATS: Final = (
    "dns1123Label", "dns1123Subdomain", "dns1035Label", "qualifiedName", "dns1123LabelPrefix",
    "dns1123SubdomainPrefix", "dns1035LabelPrefix", "labelValue", "uri", "uuid", "byte", "date", "datetime",
)  # fmt: skip
_LINE = re.compile(r"(?P<head>.+?)\((?P<args>[^()]*(?:\([^()]*(?:\([^()]*\)[^()]*)*\)[^()]*)*)\) -> (?P<result>.+)")


@cache
def functions() -> dict[str, list[Overload]]:  # noqa: C901
    """All overloads by name; functions with a namespace have it in their name."""
    found: dict[str, list[Overload]] = {}
    for line in _TEXT.strip().splitlines():
        _add(found, line)
    for kind in _ORDERED:
        for sign in ("<", "<=", ">", ">="):
            _add(found, f"_{sign}_({kind}, {kind}) -> bool")
        _add(found, f"list({kind}).isSorted() -> bool")
        _add(found, f"list({kind}).min() -> {kind}")
        _add(found, f"list({kind}).max() -> {kind}")
        _add(found, f"list({kind}).sort() -> list({kind})")
        if kind in ("int", "uint", "double", "duration"):
            _add(found, f"list({kind}).sum() -> {kind}")
    for left in _NUMBERS:
        for right in _NUMBERS:
            for sign in ("<", "<=", ">", ">=") if left != right else ():
                _add(found, f"_{sign}_({left}, {right}) -> bool")
    for name in ("FullYear", "Month", "DayOfYear", "DayOfMonth", "Date", "DayOfWeek"):
        _add(found, f"timestamp.get{name}() -> int")
        _add(found, f"timestamp.get{name}(string) -> int")
    for name in ("Hours", "Minutes", "Seconds", "Milliseconds"):
        _add(found, f"timestamp.get{name}() -> int")
        _add(found, f"timestamp.get{name}(string) -> int")
        _add(found, f"duration.get{name}() -> int")
    for name in NAMED_FORMATS:
        found[f"format.{name}"] = [Overload((), _SIMPLE["format"], member=False)]
    return found


@cache
def type_names() -> dict[str, Type]:
    """Return the identifiers of types, such as `int` and `list`."""
    simple = ("int", "uint", "double", "bool", "string", "bytes", "null_type", "list", "map", "type")
    return {name: Type("type", (_SIMPLE.get(name, Type(name)),)) for name in simple}


def _add(found: dict[str, list[Overload]], line: str) -> None:
    matched = _LINE.fullmatch(line)
    if matched is None:
        raise ValueError(line)
    head, args, result = matched["head"], matched["args"], _type(matched["result"])
    params = tuple(_type(part) for part in _split(args))
    receiver, dot, name = head.rpartition(".")
    qualified = head in _QUALIFIED or receiver in ("sets", "strings", "lists", "jsonpatch")
    if dot and not qualified:
        overload = Overload((_type(receiver), *params), result, member=True)
        found.setdefault(name, []).append(overload)
    else:
        found.setdefault(head, []).append(Overload(params, result, member=False))


def _split(text: str) -> list[str]:
    parts, depth, start = list[str](), 0, 0
    for index, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            parts.append(text[start:index].strip())
            start = index + 1
    if text[start:].strip():
        parts.append(text[start:].strip())
    return parts


def _type(text: str) -> Type:
    if len(text) == 1 and text.isupper():
        return Type("param", (), text)
    if text in _SIMPLE:
        return _SIMPLE[text]
    name, _, inner = text.partition("(")
    params = [_type(part) for part in _split(inner.removesuffix(")"))]
    match name:
        case "list":
            return list_of(params[0])
        case "map":
            return map_of(params[0], params[1])
        case _:
            return optional_of(params[0])
