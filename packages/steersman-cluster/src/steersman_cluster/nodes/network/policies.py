"""The NetworkPolicies for the router: the allowed connections of each Pod that a policy selects. Pure functions.

Source: Kubernetes API reference, NetworkPolicy v1. The semantics are additive: a connection is allowed if any policy
allows it, and Pods that no policy selects allow everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from steersman.models.selectors import Selector, requirement
from steersman_cluster.nodes.network.addresses import packed
from steersman_cluster.nodes.network.services import PROTOCOLS
from steersman_cluster.objects import Object, dig, labels_of, namespace_of

__all__ = ["PolicyStore", "allowed_of"]

Name = tuple[str, str]
"""Namespace and name."""
_LAST_PORT: Final = 65535


@dataclass(slots=True)
class PolicyStore:
    """The objects from which the rules are computed."""

    policies: dict[Name, Object] = field(default_factory=dict[Name, Object])
    pods: dict[Name, Object] = field(default_factory=dict[Name, Object])
    namespaces: dict[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    """The labels of each namespace."""

    def selected(self, namespace: str, selector: Object | None) -> list[Object]:
        """Return the Pods of a namespace that a selector matches, without Pods on the host network."""
        wanted = selector_of(selector)
        return [
            pod
            for (place, _), pod in self.pods.items()
            if place == namespace and address_of(pod) and wanted.matches(labels_of(pod))
        ]


def address_of(pod: Object) -> str:
    """Return the IPv4 address of a Pod that is in the Pod network and has not ended; empty for others."""
    if dig(pod, "spec", "hostNetwork") or dig(pod, "status", "phase") in ("Succeeded", "Failed"):
        return ""
    address: str = dig(pod, "status", "podIP", default="")
    return "" if ":" in address else address


def selector_of(selector: Object | None) -> Selector:
    """Return a label selector; an empty one matches everything."""
    given = selector or {}
    labels: Mapping[str, str] = given.get("matchLabels") or {}
    found = [requirement(key, "In", (value,)) for key, value in labels.items()]
    expressions: list[Object] = given.get("matchExpressions") or []
    found += [requirement(e["key"], e["operator"], tuple(e.get("values") or ())) for e in expressions]
    return Selector(found)


def allowed_of(store: PolicyStore) -> dict[str, dict[str, Any]]:
    """Return, by address in hexadecimal, the rules for `ingress` and `egress` of each Pod that a policy selects."""
    found: dict[str, dict[str, Any]] = {}
    for policy in store.policies.values():
        spec: Object = policy.get("spec") or {}
        namespace = namespace_of(policy)
        types: list[str] = spec.get("policyTypes") or ["Ingress", *(["Egress"] if spec.get("egress") else [])]
        for pod in store.selected(namespace, spec.get("podSelector")):
            rules = found.setdefault(packed(address_of(pod)).hex(), {})
            for direction, other in (("ingress", "from"), ("egress", "to")):
                if direction.capitalize() in types:
                    for rule in spec.get(direction) or ():
                        rules.setdefault(direction, []).extend(_rules(store, namespace, pod, rule, other))
                    rules.setdefault(direction, [])
    return found


def _rules(store: PolicyStore, namespace: str, pod: Object, rule: Object, other: str) -> Iterable[dict[str, Any]]:
    peers: list[Object] = rule.get(other) or []
    ports: list[Object] = rule.get("ports") or []
    if not peers:
        yield {"addresses": None, "networks": [], "ports": _ports(ports, pod if other == "from" else None)}
        return
    for peer in peers:
        if "ipBlock" in peer:
            block: Object = peer["ipBlock"]
            network = [block["cidr"], list(block.get("except") or ())]
            yield {"addresses": [], "networks": [network], "ports": _ports(ports, pod if other == "from" else None)}
            continue
        for one in _peers(store, namespace, peer):
            target = pod if other == "from" else one
            yield {"addresses": [packed(address_of(one)).hex()], "networks": [], "ports": _ports(ports, target)}


def _peers(store: PolicyStore, namespace: str, peer: Object) -> Iterable[Object]:
    places = [namespace]
    if peer.get("namespaceSelector") is not None:
        wanted = selector_of(peer["namespaceSelector"])
        places = [name for name, labels in store.namespaces.items() if wanted.matches(labels)]
    for place in places:
        yield from store.selected(place, peer.get("podSelector"))


def _ports(ports: Iterable[Object], target: Object | None) -> list[list[int]] | None:
    """Return protocol, first and last port of each entry; `None` for all. Names are those of the target's ports."""
    found: list[list[int]] = []
    for entry in ports:
        protocol = PROTOCOLS.get(entry.get("protocol") or "TCP")
        if protocol is None:
            continue
        port = entry.get("port")
        if port is None:
            found.append([protocol, 0, _LAST_PORT])
        elif isinstance(port, int):
            found.append([protocol, port, entry.get("endPort") or port])
        else:
            found += [[protocol, number, number] for number in _named(target, port, entry.get("protocol") or "TCP")]
    return found if ports else None


def _named(target: Object | None, name: str, protocol: str) -> list[int]:
    containers: list[Object] = dig(target, "spec", "containers", default=[]) if target is not None else []
    every = (port for container in containers for port in container.get("ports") or ())
    return [p["containerPort"] for p in every if p.get("name") == name and (p.get("protocol") or "TCP") == protocol]
