"""Filters and scores of nodes: names, selectors, taints, affinity and free resources.

Pure functions of Pods, nodes and sums. Every refusal is a phrase that says why, as people know them from Kubernetes'
scheduler.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from steersman.k8s import Node, Pod
from steersman.k8s.core_v1 import Taint, Toleration
from steersman.models import Quantity
from steersman.models.selectors import from_label_selector, requirement

__all__ = [
    "Amounts",
    "HostPort",
    "Placed",
    "affinity_problem",
    "anti_affinity_problem",
    "fits_empty_node",
    "has_anti_affinity",
    "host_ports_of",
    "is_shortage",
    "node_problem",
    "pod_affinity_score",
    "port_problem",
    "preference",
    "requests_of",
    "selects_node",
    "tolerates",
    "untolerated",
]

Amounts = Mapping[str, int]
"""Resources in thousandths of their unit."""
Placed = tuple[Pod, Mapping[str, str]]
"""A Pod and the labels of its node."""


def requests_of(pod: Pod) -> dict[str, int]:
    """Return the requests of a Pod: its containers or largest init container, the overhead, and one Pod."""
    total: dict[str, int] = {}
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in pod.spec.containers:
        _add(total, _milli(container.resources.requests if container.resources else {}))
    for container in pod.spec.init_containers:
        wants = _milli(container.resources.requests if container.resources else {})
        if container.restart_policy == "Always":
            _add(total, wants)
            _add(sidecars, wants)
            wants = sidecars
        else:
            wants = {name: amount + sidecars.get(name, 0) for name, amount in wants.items()}
        for name, amount in wants.items():
            peak[name] = max(peak.get(name, 0), amount)
    for name, amount in peak.items():
        total[name] = max(total.get(name, 0), amount)
    _add(total, _milli(pod.spec.overhead))
    total["pods"] = 1000
    return total


def _milli(amounts: Mapping[str, Any]) -> dict[str, int]:
    return {name: _thousandths(str(amount)) for name, amount in amounts.items()}


@lru_cache(maxsize=4096)
def _thousandths(amount: str) -> int:
    return round(Quantity(amount).as_fraction() * 1000)


def _add(total: dict[str, int], more: Amounts) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Return whether one toleration covers one taint."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return bool(toleration.key) and (toleration.value or "") == (taint.value or "")


def untolerated(
    tolerations: Iterable[Toleration], taints: Iterable[Taint], effects: Iterable[str] = ("NoSchedule", "NoExecute")
) -> Taint | None:
    """The first taint of those effects that nothing tolerates."""
    tolerations, effects = tuple(tolerations), tuple(effects)
    return next((t for t in taints if t.effect in effects and not any(tolerates(x, t) for x in tolerations)), None)


def selects_node(pod: Pod, node: Node) -> bool:
    """Return whether the Pod's node selector and required node affinity match the node."""
    labels = node.metadata.labels
    if not pod.spec.node_selector.items() <= labels.items():
        return False
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    if required is None:
        return True
    return any(_term_matches(term, node) for term in required.node_selector_terms)


def preference(pod: Pod, node: Node) -> int:
    """Return the score of the Pod's preferred node affinity: the weights of the matching terms."""
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    terms = affinity.preferred_during_scheduling_ignored_during_execution if affinity else ()
    return sum(term.weight for term in terms if _term_matches(term.preference, node))


def _term_matches(term: Any, node: Node) -> bool:
    labels = node.metadata.labels
    return bool(
        (term.match_expressions or term.match_fields)
        and all(requirement(r.key, r.operator, r.values).matches(labels) for r in term.match_expressions)
        and all(_field_matches(r, node) for r in term.match_fields)
    )


def _field_matches(rule: Any, node: Node) -> bool:
    inside = rule.key == "metadata.name" and node.metadata.name in rule.values
    return inside if rule.operator == "In" else not inside


def node_problem(pod: Pod, node: Node, used: Amounts, wants: Amounts) -> str:
    """Return why the Pod cannot run on the node; empty when it can. `used` is what bound Pods ask of it."""
    spec = node.spec
    if spec.unschedulable:
        cordon = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
        if untolerated(pod.spec.tolerations, (cordon,)) is not None:
            return "node(s) were unschedulable"
    taint = untolerated(pod.spec.tolerations, spec.taints)
    if taint is not None:
        return f"node(s) had untolerated taint(s) {{{taint.key}: {taint.value or ''}}}"
    if not selects_node(pod, node):
        return "node(s) didn't match Pod's node affinity/selector"
    allocatable = _milli(node.status.allocatable)
    short = [n for n, amount in wants.items() if amount and used.get(n, 0) + amount > allocatable.get(n, 0)]
    if short:
        return "Too many pods" if short[0] == "pods" else f"Insufficient {min(short)}"
    return ""


def is_shortage(problem: str) -> bool:
    """Return whether a problem of a node is one that goes when Pods go."""
    return problem.startswith(("Insufficient ", "Too many pods"))


def fits_empty_node(node: Node, wants: Amounts) -> bool:
    """Return whether an empty node has the resources that a Pod requests."""
    allocatable = _milli(node.status.allocatable)
    return all(amount <= allocatable.get(name, 0) for name, amount in wants.items())


HostPort = tuple[str, str, int]
"""Host address, protocol and port."""
_ANY_ADDRESS = ("0.0.0.0", "::")  # noqa: S104 - compared, not bound


def host_ports_of(pod: Pod) -> tuple[HostPort, ...]:
    """Return the host ports of the containers and sidecars of a Pod."""
    sidecars = [c for c in pod.spec.init_containers if c.restart_policy == "Always"]
    return tuple(
        (port.host_ip or _ANY_ADDRESS[0], port.protocol or "TCP", port.host_port)
        for container in (*pod.spec.containers, *sidecars)
        for port in container.ports
        if port.host_port
    )


def port_problem(wanted: Iterable[HostPort], taken: Iterable[HostPort]) -> str:
    """Return why host ports are not free on a node; empty if they are."""
    taken = tuple(taken)
    for address, protocol, port in wanted:
        for other, other_protocol, other_port in taken:
            same = address == other or address in _ANY_ADDRESS or other in _ANY_ADDRESS
            if same and (protocol, port) == (other_protocol, other_port):
                return "node(s) didn't have free ports for the requested pod ports"
    return ""


def has_anti_affinity(pod: Pod) -> bool:
    """Return whether a Pod has required anti-affinity, which excludes others from its topology."""
    anti = pod.spec.affinity.pod_anti_affinity if pod.spec.affinity else None
    return anti is not None and bool(anti.required_during_scheduling_ignored_during_execution)


def anti_affinity_problem(pod: Pod, node: Node, others: Iterable[Placed]) -> str:
    """Return why the required anti-affinity of other Pods excludes the Pod from a node; empty if it does not."""
    for other, labels in others:
        if not has_anti_affinity(other):
            continue
        affinity: Any = other.spec.affinity
        for term in affinity.pod_anti_affinity.required_during_scheduling_ignored_during_execution:
            key = term.topology_key
            together = key in labels and labels[key] == node.metadata.labels.get(key)
            if together and _matches(term, other, pod):
                return "node(s) didn't satisfy existing pods anti-affinity rules"
    return ""


def affinity_problem(pod: Pod, node: Node, others: Iterable[Placed]) -> str:
    """Return why required affinity between Pods keeps the Pod off the node; empty when nothing does."""
    affinity = pod.spec.affinity
    others = list(others)
    if affinity and affinity.pod_affinity:
        for term in affinity.pod_affinity.required_during_scheduling_ignored_during_execution:
            if not any(_together(term, pod, other, node) for other in others):
                itself = from_label_selector(term.label_selector).matches(pod.metadata.labels)
                none_matches = not any(_matches(term, pod, other) for other, _ in others)
                if not (itself and none_matches and term.topology_key in node.metadata.labels):
                    return "node(s) didn't match pod affinity rules"
    if affinity and affinity.pod_anti_affinity:
        for term in affinity.pod_anti_affinity.required_during_scheduling_ignored_during_execution:
            if any(_together(term, pod, other, node) for other in others):
                return "node(s) didn't match pod anti-affinity rules"
    return ""


def pod_affinity_score(pod: Pod, node: Node, others: Iterable[Placed]) -> int:
    """Return the score of preferred affinity between Pods: the weights of affinity minus those of anti-affinity."""
    affinity = pod.spec.affinity
    if affinity is None:
        return 0
    near = affinity.pod_affinity.preferred_during_scheduling_ignored_during_execution if affinity.pod_affinity else ()
    avoided = affinity.pod_anti_affinity
    far = avoided.preferred_during_scheduling_ignored_during_execution if avoided else ()
    found = 0
    for other in others:
        found += sum(term.weight for term in near if _together(term.pod_affinity_term, pod, other, node))
        found -= sum(term.weight for term in far if _together(term.pod_affinity_term, pod, other, node))
    return found


def _matches(term: Any, pod: Pod, other: Pod) -> bool:
    namespaces = term.namespaces or (pod.metadata.namespace,)
    if term.namespace_selector is None and other.metadata.namespace not in namespaces:
        return False
    return from_label_selector(term.label_selector).matches(other.metadata.labels)


def _together(term: Any, pod: Pod, other: Placed, node: Node) -> bool:
    if not _matches(term, pod, other[0]):
        return False
    key = term.topology_key
    return key in node.metadata.labels and other[1].get(key) == node.metadata.labels[key]
