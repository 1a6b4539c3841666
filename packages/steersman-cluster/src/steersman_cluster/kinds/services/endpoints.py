"""Endpoints and EndpointSlice: where the traffic of a Service goes."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from typing import Any

from steersman_cluster.errors import FieldError, duplicate, field_invalid, required, too_many
from steersman_cluster.json_access import get_list, get_string
from steersman_cluster.kinds import columns
from steersman_cluster.kinds import names as check
from steersman_cluster.kinds.plain import Plain
from steersman_cluster.kinds.services.validation import endpoint_ip
from steersman_cluster.objects import Object, Path, labels_of, meta
from steersman_cluster.strategy import Column, WriteContext

__all__ = ["STRATEGIES", "EndpointSlice", "Endpoints"]

_PROTOCOLS = ("SCTP", "TCP", "UDP")


class Endpoints(Plain):
    """The rules of Endpoints objects."""

    create_on_update = True
    deprecation = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"
    """The warning that every response contains, reads included."""
    columns = (columns.NAME, Column("Endpoints", description="Addresses and ports."), columns.AGE)

    def row(self, obj: Object, now: float) -> list[Any]:
        shown = list(_subset_addresses(get_list(obj, "subsets")))
        return [columns.name(obj), _some(shown), columns.age(obj, now)]

    def default(self, obj: Object) -> None:
        for subset in get_list(obj, "subsets"):
            for port in get_list(subset, "ports"):
                if not port.get("protocol"):
                    port["protocol"] = "TCP"

    def errors(self, obj: Object) -> list[FieldError]:
        found: list[FieldError] = []
        for index, subset in enumerate(get_list(obj, "subsets")):
            at = Path("subsets").at(index)
            if not subset.get("addresses") and not subset.get("notReadyAddresses"):
                found.append(required(at, "must specify `addresses` or `notReadyAddresses`"))
            for field in ("addresses", "notReadyAddresses"):
                for number, address in enumerate(subset.get(field) or ()):
                    found += _address((at / field).at(number), address)
            ports: Sequence[Object] = get_list(subset, "ports")
            for number, port in enumerate(ports):
                found += _port((at / "ports").at(number), port, named=len(ports) > 1)
        return found


def _address(path: Path, address: Object) -> list[FieldError]:
    ip = get_string(address, "ip")
    found = check.ip_address(path / "ip", ip)
    if host := address.get("hostname"):
        found += check.dns_label(path / "hostname", host)
    if (node := address.get("nodeName")) is not None:
        found += check.dns_subdomain(path / "nodeName", node)
    return found + endpoint_ip(path / "ip", ip)


def _port(path: Path, port: Object, *, named: bool) -> list[FieldError]:
    name, protocol = get_string(port, "name"), get_string(port, "protocol")
    found: list[FieldError] = []
    if name:
        found += check.dns_label(path / "name", name)
    elif named:
        found.append(required(path / "name"))
    found += check.port_number(path / "port", port.get("port") or 0)
    found += check.enum(path / "protocol", protocol, _PROTOCOLS) if protocol else [required(path / "protocol")]
    if (application := port.get("appProtocol")) is not None:
        found += check.qualified_name(path / "appProtocol", application)
    return found


def _subset_addresses(subsets: Sequence[Object]) -> Iterable[str]:
    for subset in subsets:
        addresses = [get_string(address, "ip") for address in get_list(subset, "addresses")]
        ports = subset.get("ports")
        if not ports:
            yield from addresses
        for port in ports or ():
            yield from (f"[{ip}]:{port.get('port')}" if ":" in ip else f"{ip}:{port.get('port')}" for ip in addresses)


def _some(items: Sequence[str], empty: str = columns.NONE) -> str:
    """The first three, and how many more."""
    if not items:
        return empty
    more = f" + {len(items) - 3} more..." if len(items) > 3 else ""
    return f"{','.join(items[:3])}{more}"


class EndpointSlice(Plain):
    """The rules of EndpointSlice objects."""

    generation = True
    revalidated_first = True
    columns = (
        columns.NAME,
        Column("AddressType", description="IPv4, IPv6 or FQDN."),
        Column("Ports", description="The ports of every endpoint."),
        Column("Endpoints", description="The addresses."),
        columns.AGE,
    )

    def row(self, obj: Object, now: float) -> list[Any]:
        ports = [_shown_port(port) for port in get_list(obj, "ports")]
        addresses = [address for item in get_list(obj, "endpoints") for address in get_list(item, "addresses")]
        return [
            columns.name(obj),
            get_string(obj, "addressType"),
            _some(ports, columns.UNSET),
            _some(addresses, columns.UNSET),
            columns.age(obj, now),
        ]

    def default(self, obj: Object) -> None:
        for port in get_list(obj, "ports"):
            port.setdefault("name", "")
            port.setdefault("protocol", "TCP")

    def prepare_create(self, obj: Object, ctx: WriteContext) -> None:
        super().prepare_create(obj, ctx)
        _without_empty_lists(obj)
        _drop_topology(obj)

    def prepare_update(self, obj: Object, old: Object, ctx: WriteContext) -> None:
        _without_empty_lists(obj)
        count = meta(old).get("generation") or 0
        changed = self.content(obj) != self.content(old) or labels_of(obj) != labels_of(old)
        meta(obj)["generation"] = count + changed
        if obj.get("endpoints") != old.get("endpoints"):
            _drop_topology(obj)

    def validate_update(self, obj: Object, old: Object, ctx: WriteContext) -> list[FieldError]:
        # Endpoints that did not change are not validated again: older versions accepted more.
        same = obj.get("endpoints") == old.get("endpoints")
        return super().validate_update({**obj, "endpoints": []} if same else obj, old, ctx)

    def errors(self, obj: Object) -> list[FieldError]:
        kind = get_string(obj, "addressType")
        found = [required("addressType")] if not kind else check.enum("addressType", kind, ("FQDN", "IPv4", "IPv6"))
        found += _slice_ports(get_list(obj, "ports"))
        endpoints: Sequence[Object] = get_list(obj, "endpoints")
        if len(endpoints) > 1000:
            return [*found, too_many("endpoints", len(endpoints), 1000)]
        for index, endpoint in enumerate(endpoints):
            found += _endpoint(Path("endpoints").at(index), endpoint, kind)
        return found

    def changes(self, obj: Object, old: Object) -> list[FieldError]:
        return check.immutable("addressType", obj.get("addressType"), old.get("addressType"))

    def warnings(self, obj: Object, old: Object | None, ctx: WriteContext) -> Sequence[str]:
        if old is None and obj.get("addressType") == "FQDN":
            return ("spec.addressType: FQDN endpoints are deprecated",)
        return ()


def _without_empty_lists(obj: Object) -> None:
    """Normalize lists: the stored form does not distinguish an empty list from a missing one."""
    for field in ("endpoints", "ports"):
        obj[field] = obj.get(field) or None


def _drop_topology(obj: Object) -> None:
    for endpoint in get_list(obj, "endpoints"):
        endpoint.pop("deprecatedTopology", None)


def _shown_port(port: Object) -> str:
    if port.get("port") is not None:
        return str(port["port"])
    return port["name"] if port.get("name") is not None else "*"


def _slice_ports(ports: Sequence[Object]) -> list[FieldError]:
    path = Path("ports")
    if len(ports) > 20000:
        return [too_many(path, len(ports), 20000)]
    seen: set[str] = set()
    found: list[FieldError] = []
    for index, port in enumerate(ports):
        at, name = path.at(index), get_string(port, "name")
        found += check.dns_label(at / "name", name) if name else []
        found += [duplicate(at / "name", name)] if name in seen else []
        seen.add(name)
        found += check.enum(at / "protocol", get_string(port, "protocol"), _PROTOCOLS)
        if (application := port.get("appProtocol")) is not None:
            found += check.qualified_name(at / "appProtocol", application)
    return found


def _endpoint(path: Path, endpoint: Object, kind: str) -> list[FieldError]:
    addresses: Sequence[str] = get_list(endpoint, "addresses")
    at = path / "addresses"
    found: list[FieldError] = []
    if not addresses:
        found.append(required(at, "must contain at least 1 address"))
    elif len(addresses) > 100:
        found.append(too_many(at, len(addresses), 100))
    for index, address in enumerate(addresses):
        found += _typed_address(at, index, address, kind)
    if (node := endpoint.get("nodeName")) is not None:
        found += check.dns_subdomain(path / "nodeName", node)
    if (host := endpoint.get("hostname")) is not None:
        found += check.dns_label(path / "hostname", host)
    return found


def _typed_address(path: Path, index: int, address: str, kind: str) -> list[FieldError]:
    at = path.at(index)
    if kind == "FQDN":
        return check.dns_subdomain(at, address.removesuffix(".")) if address else [required(at)]
    if kind not in ("IPv4", "IPv6"):
        return []
    if found := check.ip_address(at, address):
        return found
    version = ipaddress.ip_address(address).version
    wrong = f"IPv{version}" != kind
    article = [field_invalid(path, address, f"must be an {kind} address")] if wrong else []
    return article + endpoint_ip(at, address)


STRATEGIES = {
    ("", "v1", "Endpoints"): Endpoints(),
    ("discovery.k8s.io", "v1", "EndpointSlice"): EndpointSlice(),
}
