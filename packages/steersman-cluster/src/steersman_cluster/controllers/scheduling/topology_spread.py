"""Topology spread: how evenly a Pod's likes must lie over zones, hosts or whatever a node's label names.

Pure functions of a Pod, nodes and bound Pods. Follows KEP-895 with node inclusion policies (KEP-3094) and minDomains
(KEP-3022).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from steersman.k8s import Node, Pod
from steersman.models.selectors import from_label_selector
from steersman_cluster.controllers.scheduling.node_fit import selects_node, untolerated

__all__ = ["Bound", "PodGroup", "Spread", "default_spread_scores", "group_of"]

Bound: TypeAlias = "tuple[Pod, str]"
"""A Pod and the name of its node."""
PodGroup: TypeAlias = "tuple[str, object]"
"""Pods that are spread by default: a namespace, and the controller that owns them, or the labels that they share."""
_ZONE = "topology.kubernetes.io/zone"
_OWNERS = frozenset({"ReplicationController", "ReplicaSet", "StatefulSet"})
_MISMATCH = "node(s) didn't match pod topology spread constraints"


def group_of(pod: Pod) -> PodGroup | None:
    """Return the group that a Pod is spread with by default; `None` for a Pod with constraints of its own.

    kube-scheduler selects these Pods by the selectors of their Services and controller. Pods of one controller, and
    Pods without one that have the same labels, are the Pods that such selectors have in common.
    """
    if pod.spec.topology_spread_constraints:
        return None
    owner = next((each for each in pod.metadata.owner_references if each.controller), None)
    if owner is not None:
        return (pod.metadata.namespace, owner.uid) if owner.kind in _OWNERS else None
    return (pod.metadata.namespace, frozenset(pod.metadata.labels.items())) if pod.metadata.labels else None


def default_spread_scores(nodes: Sequence[Node], peers: Mapping[str, int]) -> Mapping[str, int]:
    """Return how crowded each node is by Pods of one group: those on the node, and those in its zone.

    `peers` is the number of these Pods by node. Stands for the default constraints of kube-scheduler, which prefer
    even numbers on hosts and in zones.
    """
    if not peers:
        return {}
    zones: Counter[str] = Counter()
    for node in nodes:
        if zone := node.metadata.labels.get(_ZONE):
            zones[zone] += peers.get(node.metadata.name, 0)
    return {
        node.metadata.name: peers.get(node.metadata.name, 0) + zones[node.metadata.labels.get(_ZONE, "")]
        for node in nodes
    }


class Spread:
    """The constraints of one Pod over the present nodes and Pods."""

    def __init__(self, pod: Pod, nodes: Sequence[Node], bound: Sequence[Bound]) -> None:
        constraints = pod.spec.topology_spread_constraints
        self._hard = [
            _Count(c, pod, nodes, bound, _keys(constraints, hard=True))
            for c in constraints
            if c.when_unsatisfiable == "DoNotSchedule"
        ]
        self._soft = [
            _Count(c, pod, nodes, bound, _keys(constraints, hard=False))
            for c in constraints
            if c.when_unsatisfiable != "DoNotSchedule"
        ]

    def problem(self, node: Node) -> str:
        """Return why a constraint keeps the Pod off the node; empty when none does."""
        for count in self._hard:
            if count.key not in node.metadata.labels:
                return f"{_MISMATCH} (missing required label)"
            if count.skew(node) > count.most:
                return _MISMATCH
        return ""

    def spread_score(self, node: Node) -> int:
        """Return the score of the node by the constraints with `ScheduleAnyway`."""
        return sum(count.skew(node) for count in self._soft)


def _keys(constraints: Sequence[Any], *, hard: bool) -> set[str]:
    return {c.topology_key for c in constraints if (c.when_unsatisfiable == "DoNotSchedule") is hard}


class _Count:
    """Return the number of matching Pods in each domain of one constraint."""

    def __init__(
        self, constraint: Any, pod: Pod, nodes: Sequence[Node], bound: Sequence[Bound], keys: set[str]
    ) -> None:
        self.key: str = constraint.topology_key
        self.most: int = constraint.max_skew
        selector = from_label_selector(constraint.label_selector)
        same = {key: pod.metadata.labels[key] for key in constraint.match_label_keys if key in pod.metadata.labels}

        def is_like(labels: Mapping[str, str]) -> bool:
            return constraint.label_selector is not None and selector.matches(labels) and same.items() <= labels.items()

        self._itself = int(is_like(pod.metadata.labels))
        places = {n.metadata.name: n.metadata.labels[self.key] for n in nodes if _counts(constraint, pod, n, keys)}
        self._found: dict[str, int] = dict.fromkeys(places.values(), 0)
        for other, name in bound:
            likely = name in places and other.metadata.namespace == pod.metadata.namespace
            if likely and other.metadata.deletion_timestamp is None and is_like(other.metadata.labels):
                self._found[places[name]] += 1
        few = len(self._found) < (constraint.min_domains or 1)
        self._least = 0 if few else min(self._found.values())

    def skew(self, node: Node) -> int:
        """Return the skew of the node's domain with the Pod in it."""
        return self._found.get(node.metadata.labels.get(self.key, ""), 0) + self._itself - self._least


def _counts(constraint: Any, pod: Pod, node: Node, keys: set[str]) -> bool:
    """Return whether a node is a place at all."""
    if not keys <= node.metadata.labels.keys():
        return False
    if constraint.node_affinity_policy != "Ignore" and not selects_node(pod, node):
        return False
    return constraint.node_taints_policy != "Honor" or untolerated(pod.spec.tolerations, node.spec.taints) is None
