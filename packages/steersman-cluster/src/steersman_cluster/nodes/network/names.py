"""The DNS records of a cluster: those of Services, endpoints and Pods. Pure functions.

Source: Kubernetes DNS-Based Service Discovery, version 1.1.0.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Final

from steersman_cluster.nodes.network.addresses import PODS
from steersman_cluster.nodes.network.services import ServiceName, ServiceStore, cluster_addresses, is_headless
from steersman_cluster.objects import Object, dig

__all__ = ["ZONE", "Answer", "Record", "lookup"]

ZONE: Final = "cluster.local"
_MAX_ALIASES: Final = 8


@dataclass(frozen=True, slots=True)
class Record:
    """A resource record: an absolute name without the final dot, a type, and the text of its data."""

    name: str
    type: str
    data: str


@dataclass(frozen=True, slots=True)
class Answer:
    """The records for a question; `exists` is false for a name that does not exist."""

    exists: bool
    records: tuple[Record, ...] = ()
    additional: tuple[Record, ...] = ()


_NO_NAME: Final = Answer(exists=False)
_NO_DATA: Final = Answer(exists=True)


def lookup(store: ServiceStore, name: str, kind: str) -> Answer:
    """Return the answer for an absolute name, without its final dot, and a record type such as `A`."""
    name = name.lower()
    if name.endswith(".in-addr.arpa"):
        return _reverse(store, name, kind)
    if name == ZONE:
        return _NO_DATA
    if not name.endswith(f".{ZONE}"):
        return _NO_NAME
    labels = name.removesuffix(f".{ZONE}").split(".")
    if labels == ["dns-version"]:
        return Answer(exists=True, records=(Record(name, "TXT", '"1.1.0"'),) if kind == "TXT" else ())
    if labels[-1] == "pod":
        return _pod(name, labels, kind)
    if labels[-1] != "svc":
        return _NO_NAME
    match labels[:-1]:
        case []:
            return _NO_DATA
        case [namespace]:
            return _NO_DATA if namespace in store.namespaces else _NO_NAME
        case [*rest, service, namespace]:
            return _service(store, name, (namespace, service), rest, kind)
        case _:
            return _NO_NAME


def _pod(name: str, labels: list[str], kind: str) -> Answer:
    if len(labels) != 3:
        return _NO_DATA if len(labels) < 3 else _NO_NAME
    try:
        address = ipaddress.IPv4Address(labels[0].replace("-", "."))
    except ValueError:
        return _NO_NAME
    if address not in PODS:
        return _NO_NAME
    return Answer(exists=True, records=(Record(name, "A", str(address)),) if kind == "A" else ())


def _service(store: ServiceStore, name: str, key: ServiceName, rest: list[str], kind: str) -> Answer:
    service = store.services.get(key)
    if service is None:
        return _NO_NAME
    if dig(service, "spec", "type") == "ExternalName":
        return _external(store, name, service, kind) if not rest else _NO_NAME
    if len(rest) == 2 and rest[0].startswith("_") and rest[1].startswith("_"):
        return _srv(store, name, key, service, kind, port=rest[0][1:], protocol=rest[1][1:])
    if not rest:
        if kind == "SRV":
            return _srv(store, name, key, service, kind)
        if is_headless(service):
            addresses = [endpoint["addresses"][0] for endpoint, _ in store.ready_endpoints(key)]
            if not addresses:
                return _NO_NAME
        else:
            addresses = cluster_addresses(service)
        return Answer(
            exists=True, records=tuple(Record(name, "A", a) for a in dict.fromkeys(addresses)) if kind == "A" else ()
        )
    if len(rest) == 1 and is_headless(service):
        found = [e["addresses"][0] for e, _ in store.ready_endpoints(key) if host_label(e) == rest[0]]
        if found:
            return Answer(
                exists=True, records=tuple(Record(name, "A", a) for a in dict.fromkeys(found)) if kind == "A" else ()
            )
    return _NO_NAME


def host_label(endpoint: Object) -> str:
    """Return the first label of an endpoint's name: its hostname, or its address with dashes."""
    return endpoint.get("hostname") or endpoint["addresses"][0].replace(".", "-")


def _external(store: ServiceStore, name: str, service: Object, kind: str) -> Answer:
    target = str(dig(service, "spec", "externalName", default="")).rstrip(".").lower()
    records, seen = [Record(name, "CNAME", f"{target}.")], {name}
    while kind != "CNAME" and target not in seen and len(seen) < _MAX_ALIASES:
        seen.add(target)
        found = lookup(store, target, "CNAME")
        if not found.records:
            records += lookup(store, target, kind).records
            break
        records += found.records
        target = found.records[0].data.rstrip(".")
    return Answer(exists=True, records=tuple(records))


def _srv(
    store: ServiceStore, name: str, key: ServiceName, service: Object, kind: str, *, port: str = "", protocol: str = ""
) -> Answer:
    base = f"{key[1]}.{key[0]}.svc.{ZONE}"

    def wanted(one: Object) -> bool:
        same_name = (one.get("name") or "").lower() == port
        return bool(one.get("port")) and (
            not port or (same_name and (one.get("protocol") or "TCP").lower() == protocol)
        )

    targets: list[tuple[str, int, str]] = []
    if is_headless(service):
        for endpoint, ports in store.ready_endpoints(key):
            host, address = f"{host_label(endpoint)}.{base}", endpoint["addresses"][0]
            targets += [(host, one["port"], address) for one in ports if wanted(one)]
    else:
        for address in cluster_addresses(service):
            targets += [(base, one["port"], address) for one in service["spec"].get("ports") or () if wanted(one)]
    if not targets:
        return _NO_NAME
    if kind != "SRV":
        return _NO_DATA
    weight = max(1, 100 // len(targets))
    records = (Record(name, "SRV", f"0 {weight} {number} {host}.") for host, number, _ in targets)
    additional = (Record(host, "A", address) for host, _, address in targets)
    return Answer(exists=True, records=tuple(dict.fromkeys(records)), additional=tuple(dict.fromkeys(additional)))


def _reverse(store: ServiceStore, name: str, kind: str) -> Answer:
    try:
        address = str(ipaddress.IPv4Address(".".join(reversed(name.removesuffix(".in-addr.arpa").split(".")))))
    except ValueError:
        return _NO_NAME
    targets: list[str] = []
    for (namespace, service_name), service in store.services.items():
        base = f"{service_name}.{namespace}.svc.{ZONE}"
        if address in cluster_addresses(service):
            targets.append(base)
        elif is_headless(service):
            endpoints = store.ready_endpoints((namespace, service_name))
            targets += [f"{host_label(e)}.{base}" for e, _ in endpoints if e["addresses"][0] == address]
    if not targets:
        return _NO_NAME
    return Answer(
        exists=True, records=tuple(Record(name, "PTR", f"{target}.") for target in targets) if kind == "PTR" else ()
    )
