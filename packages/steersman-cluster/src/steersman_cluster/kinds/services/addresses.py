"""Allocation of cluster IPs, IP families and node ports of Services from fixed ranges.

Allocated values are read from the stored Services at each allocation, which is part of one synchronous write, so that
there is no second record of them. The cluster has one family, IPv4.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence

from steersman_cluster.errors import APIError, ErrorType, FieldError, field_invalid, internal, invalid
from steersman_cluster.json_access import get_list, get_object, get_string
from steersman_cluster.kinds import names as check
from steersman_cluster.objects import Object, Path, name_of, uid_of
from steersman_cluster.strategy import WriteContext

__all__ = [
    "NODE_PORTS",
    "SERVICE_RANGE",
    "allocate",
    "has_node_ports",
    "is_external",
    "is_headless",
    "needs_health_check",
    "related_errors",
]

SERVICE_RANGE = ipaddress.IPv4Network("10.0.0.0/16")
NODE_PORTS = range(30000, 32768)
_SPEC = Path("spec")
_NUMERALS = {character: value for value, character in enumerate("bcdfghjklmnpqrstvwxz2456789")}
_POLICIES = ("PreferDualStack", "RequireDualStack", "SingleStack")


def is_headless(spec: Object) -> bool:
    """Return whether a Service has `clusterIP: None`."""
    return spec.get("clusterIPs") == ["None"]


def is_external(spec: Object) -> bool:
    """Return whether a Service can be reached from outside of the cluster."""
    kind = spec.get("type")
    return kind in ("LoadBalancer", "NodePort") or (kind == "ClusterIP" and bool(spec.get("externalIPs")))


def has_node_ports(spec: Object) -> bool:
    """Return whether node ports are given out."""
    kind = spec.get("type")
    return kind == "NodePort" or (kind == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is not False)


def needs_health_check(spec: Object) -> bool:
    """Return whether a Service needs a health check node port."""
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def allocate(obj: Object, old: Object | None, ctx: WriteContext) -> None:
    """Allocate the families, addresses and ports of a new or changed Service.

    Raises:
        APIError: A value is allocated, out of range, or of a family that the cluster lacks (422).
    """
    spec: Object = obj["spec"]
    before: Object = get_object(old or {}, "spec")
    if spec.get("type") != "ExternalName" and not _settled(spec, before):
        _families(obj, spec, old)
        _addresses(obj, spec, before, ctx)
    if spec.get("type") in ("NodePort", "LoadBalancer"):
        _node_ports(obj, spec, before, ctx)
    if needs_health_check(spec) and not needs_health_check(before):
        taken = _taken_ports(obj, ctx)
        if not (port := spec.get("healthCheckNodePort")):
            spec["healthCheckNodePort"] = _free_port(taken, ctx)
        elif (text := _port_refusal(port, taken)) is not None:
            # The API server answers 500 here; what a client sent wrong is no internal error.
            raise _refused(obj, [field_invalid(_SPEC / "healthCheckNodePort", port, text)])


def _settled(spec: Object, before: Object) -> bool:
    """Return whether a dual-stack Service stays as it is; it never is changed unasked."""
    fields = ("type", "ipFamilyPolicy", "clusterIP", "clusterIPs", "ipFamilies")
    return spec.get("ipFamilyPolicy") == "PreferDualStack" and all(spec.get(f) == before.get(f) for f in fields)


def _families(obj: Object, spec: Object, old: Object | None) -> None:
    before: Object = get_object(old or {}, "spec")
    bare = spec.get("clusterIP") == "None" and not spec.get("selector")
    if spec.get("ipFamilyPolicy") is None:
        fallback = "RequireDualStack" if bare else "SingleStack"
        spec["ipFamilyPolicy"] = before.get("ipFamilyPolicy") or fallback
    found = related_errors(spec)
    if not found:
        found = _policy_errors(spec, before)
    if found:
        raise _refused(obj, found)
    families: list[str] = spec.setdefault("ipFamilies", [])
    if bare:
        if not families:
            families.append("IPv4")
        if len(families) < 2 and spec["ipFamilyPolicy"] != "SingleStack":
            families.append("IPv6" if families[0] == "IPv4" else "IPv4")
        return
    if spec["ipFamilyPolicy"] == "RequireDualStack":
        text = "this cluster is not configured for dual-stack services"
        found.append(field_invalid(_SPEC / "ipFamilyPolicy", spec["ipFamilyPolicy"], text))
    found += [
        field_invalid((_SPEC / "ipFamilies").at(index), family, "not configured on this cluster")
        for index, family in enumerate(families)
        if family != "IPv4"
    ]
    if found:
        raise _refused(obj, found)
    if not families:
        families.append("IPv4")


def _policy_errors(spec: Object, before: Object) -> list[FieldError]:
    """Resolve policy, addresses and families; infer families from addresses that the cluster supports."""
    policy, path = spec["ipFamilyPolicy"], _SPEC / "ipFamilyPolicy"
    addresses, families = get_list(spec, "clusterIPs"), get_list(spec, "ipFamilies")
    found: list[FieldError] = []
    if before and policy == "SingleStack":
        if len(addresses) > 1 and addresses == before.get("clusterIPs"):
            addresses = spec["clusterIPs"] = addresses[:1]
        if len(families) > 1 and families == before.get("ipFamilies"):
            families = spec["ipFamilies"] = families[:1]
    if policy == "SingleStack":
        allowed = "must be 'RequireDualStack' or 'PreferDualStack' when multiple"
        if len(addresses) == 2:
            found.append(field_invalid(path, policy, f"{allowed} cluster IPs are specified"))
        if len(families) == 2:
            found.append(field_invalid(path, policy, f"{allowed} IP families are specified"))
    for index, address in enumerate(addresses):
        if address == "None" or index < len(families):
            continue
        if ":" in address:
            at = (_SPEC / "clusterIPs").at(index)
            found.append(field_invalid(at, addresses, "IPv6 is not configured on this cluster"))
        else:
            families = spec["ipFamilies"] = [*families, "IPv4"]
    return found


def related_errors(spec: Object) -> list[FieldError]:
    """The consistent values of `clusterIP`, `clusterIPs`, `ipFamilies` and `ipFamilyPolicy`."""
    if spec.get("type") == "ExternalName":
        return []
    path = _SPEC / "clusterIPs"
    one, many = get_string(spec, "clusterIP"), get_list(spec, "clusterIPs")
    families: Sequence[str] = get_list(spec, "ipFamilies")
    found: list[FieldError] = []
    if one and not many:
        found.append(FieldError(ErrorType.REQUIRED, path))
    elif one and many[0] != one:
        found.append(field_invalid(path, many, "first value must match `clusterIP`"))
    elif many and not one:
        found.append(field_invalid(path, many, "must be empty when `clusterIP` is not specified"))
    found += _family_errors(families)
    if (policy := spec.get("ipFamilyPolicy")) is not None:
        found += check.enum(_SPEC / "ipFamilyPolicy", policy, _POLICIES)
    bad = _address_errors(path, many)
    found += bad
    if len(many) > 2:
        found.append(field_invalid(path, many, "may only hold up to 2 values"))
    if bad:
        return found
    if len(many) > 1 and len({":" in address for address in many}) < 2:
        found.append(field_invalid(path, many, "may specify no more than one IP for each IP family"))
    return found if is_headless(spec) else found + _mismatches(path, many, families)


def _family_errors(families: Sequence[str]) -> list[FieldError]:
    found: list[FieldError] = []
    for index, family in enumerate(families):
        at = (_SPEC / "ipFamilies").at(index)
        found += check.enum(at, family, ("IPv4", "IPv6"))
        if family in families[:index]:
            found.append(FieldError(ErrorType.DUPLICATE, at, family))
    return found


def _mismatches(path: Path, many: Sequence[str], families: Sequence[str]) -> list[FieldError]:
    return [
        field_invalid(path.at(index), address, f"expected an {family} value as indicated by `ipFamilies[{index}]`")
        for index, (address, family) in enumerate(zip(many, families, strict=False))
        if (family == "IPv4" and ":" in address) or (family == "IPv6" and ":" not in address)
    ]


def _address_errors(path: Path, many: Sequence[str]) -> list[FieldError]:
    found: list[FieldError] = []
    for index, address in enumerate(many):
        if index or address != "None":
            found += check.ip_address(path.at(index), address)
        elif len(many) > 1:
            found.append(field_invalid(path, list(many), "'None' must be the first and only value"))
    return found


def _addresses(obj: Object, spec: Object, before: Object, ctx: WriteContext) -> None:
    if is_headless(spec) or is_headless(before):
        return
    if before and before.get("type") != "ExternalName":
        return
    wanted: list[str] = get_list(spec, "clusterIPs")
    taken = {address for other in _others(obj, ctx) for address in get_list(other, "clusterIPs")}
    if not wanted:
        spec["clusterIPs"] = [_free_address(taken, ctx)]
        spec["clusterIP"] = spec["clusterIPs"][0]
        return
    for address in wanted:
        if (text := _address_refusal(address, taken)) is not None:
            detail = f"failed to allocate IP {address}: {text}"
            raise _refused(obj, [field_invalid(_SPEC / "clusterIPs", wanted, detail)])


def _address_refusal(address: str, taken: set[str]) -> str | None:
    parsed = ipaddress.ip_address(address)
    if parsed not in SERVICE_RANGE:
        return "the provided network does not match the current range"
    if parsed in (SERVICE_RANGE.network_address, SERVICE_RANGE.broadcast_address):
        return f"the provided IP ({address}) is not in the valid range. The range of valid IPs is {SERVICE_RANGE}"
    return "provided IP is already allocated" if str(parsed) in taken else None


def _free_address(taken: set[str], ctx: WriteContext) -> str:
    size = SERVICE_RANGE.num_addresses
    # The lowest addresses are reserved for explicit requests, as in the API server's allocator.
    start = 256 + _number(ctx) % (size - 512)
    for offset in range(size - 512):
        address = str(SERVICE_RANGE[256 + (start - 256 + offset) % (size - 512)])
        if address not in taken:
            return address
    raise internal("failed to allocate a serviceIP: range is full")


def _node_ports(obj: Object, spec: Object, before: Object, ctx: WriteContext) -> None:
    own = {port["nodePort"] for port in get_list(before, "ports") if port.get("nodePort")}
    ports_in_use = _NodePorts(obj, _taken_ports(obj, ctx) | own, ctx)
    ports: Sequence[Object] = get_list(spec, "ports")
    given: dict[int, int] = {}
    for index, port in enumerate(ports):
        number, shared = port.get("nodePort") or 0, given.get(port.get("port", 0))
        if number and number in own:
            pass
        elif number and not (before and number in given.values()) and number != shared:
            ports_in_use.take(index, number)
        elif not number and has_node_ports(spec):
            # Ports of one number share a node port (DNS over TCP and UDP), be it asked for or not.
            number = 0 if before else shared or 0
            if not number and not before and (number := _requested_port(port, ports)):
                ports_in_use.take(index, number)
            number = number or ports_in_use.free()
            port["nodePort"] = number
        if number:
            given.setdefault(port.get("port", 0), number)


def _requested_port(port: Object, ports: Sequence[Object]) -> int:
    return next((o["nodePort"] for o in ports if o.get("port") == port.get("port") and o.get("nodePort")), 0)


class _NodePorts:
    """The node ports of one write: those of others, and those just given."""

    def __init__(self, obj: Object, taken: set[int], ctx: WriteContext) -> None:
        self._obj, self._taken, self._ctx = obj, taken, ctx

    def take(self, index: int, number: int) -> None:
        if (text := _port_refusal(number, self._taken)) is not None:
            at = (_SPEC / "ports").at(index) / "nodePort"
            raise _refused(self._obj, [field_invalid(at, number, text)])
        self._taken.add(number)

    def free(self) -> int:
        number = _free_port(self._taken, self._ctx)
        self._taken.add(number)
        return number


def _port_refusal(number: int, taken: set[int]) -> str | None:
    if number not in NODE_PORTS:
        limits = f"{NODE_PORTS.start}-{NODE_PORTS.stop - 1}"
        return f"provided port is not in the valid range. The range of valid ports is {limits}"
    return "provided port is already allocated" if number in taken else None


def _free_port(taken: set[int], ctx: WriteContext) -> int:
    start = _number(ctx)
    for offset in range(len(NODE_PORTS)):
        port = NODE_PORTS[(start + offset) % len(NODE_PORTS)]
        if port not in taken:
            return port
    raise internal("failed to allocate a nodePort: range is full")


def _taken_ports(obj: Object, ctx: WriteContext) -> set[int]:
    taken: set[int] = set()
    for spec in _others(obj, ctx):
        taken.update(port["nodePort"] for port in get_list(spec, "ports") if port.get("nodePort"))
        if spec.get("healthCheckNodePort"):
            taken.add(spec["healthCheckNodePort"])
    return taken


def _others(obj: Object, ctx: WriteContext) -> Iterable[Object]:
    """The specs of all Services but this one."""
    uid = uid_of(obj)
    for other in ctx.reader.list("", "services"):
        if uid_of(other) != uid:
            yield get_object(other, "spec")


def _number(ctx: WriteContext) -> int:
    """A number from the write's own randomness, so that tests can repeat it."""
    total = 0
    for character in ctx.random(8):
        total = total * len(_NUMERALS) + _NUMERALS.get(character, 0)
    return total


def _refused(obj: Object, found: Sequence[FieldError]) -> APIError:
    return invalid("", "Service", name_of(obj), found)
