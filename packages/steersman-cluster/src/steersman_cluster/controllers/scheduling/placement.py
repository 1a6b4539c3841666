"""One scheduling decision: feasible nodes, the best of them, and preemption if there are none.

Pure: a decision uses the nodes and Pods of one moment and writes nothing. Preemption follows kube-scheduler: the fewest
violated budgets, then the lowest priorities of victims, then the fewest victims.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from steersman.k8s import Node, Pod, PodDisruptionBudget
from steersman.models.selectors import from_label_selector
from steersman_cluster.controllers.scheduling import node_fit
from steersman_cluster.controllers.scheduling.node_fit import Amounts, requests_of
from steersman_cluster.controllers.scheduling.topology_spread import Bound, Spread, default_spread_scores

__all__ = ["NOT_HELPFUL", "Placement", "Problem", "Victims", "least_disruptive", "priority_of", "unplaced"]

NOT_HELPFUL = "Preemption is not helpful for scheduling"
NO_VICTIMS = "No preemption victims found for incoming pod"
_MAX_TIME = datetime.max.replace(tzinfo=UTC)


class Problem(NamedTuple):
    """The reason why a node is infeasible, and whether preemption could change it."""

    text: str
    might_fit: bool


class Victims(NamedTuple):
    """The Pods that must leave a node, the most important first, and how many of them break a budget."""

    node: str
    pods: Sequence[Pod]
    broken: int = 0


def priority_of(pod: Pod) -> int:
    """Return the priority of a Pod, 0 by default."""
    return pod.spec.priority or 0


class Placement:
    """The nodes for one Pod.

    Args:
        pod: The Pod to place.
        nodes: All nodes.
        used: Returns the amounts that are booked on a node.
        bound: Returns the Pods that have a node.
        exclusive: Those of them with required anti-affinity.
        peers: The number of Pods on each node that the Pod is spread with by default.
    """

    def __init__(
        self,
        pod: Pod,
        nodes: Sequence[Node],
        used: Callable[[str], Amounts],
        bound: Callable[[], Sequence[Bound]],
        exclusive: Sequence[Bound] = (),
        peers: Mapping[str, int] | None = None,
    ) -> None:
        self.pod = pod
        self.nodes = nodes
        self._used = used
        self._wants = requests_of(pod)
        self._ports = node_fit.host_ports_of(pod)
        self._exclusive = exclusive
        self._default_spread_scores = default_spread_scores(nodes, peers or {})
        self._labels = {node.metadata.name: node.metadata.labels for node in nodes}
        affinity = pod.spec.affinity
        self._has_pod_affinity = affinity is not None and bool(affinity.pod_affinity or affinity.pod_anti_affinity)
        self._scores_nodes = self._has_pod_affinity or bool(pod.spec.topology_spread_constraints)
        self._list = bound
        self._known: Sequence[Bound] | None = None
        self._spread = Spread(pod, nodes, self._bound) if self._scores_nodes else None

    @property
    def _bound(self) -> Sequence[Bound]:
        if self._known is None:
            self._known = self._list()
        return self._known

    def problem(self, node: Node, gone: Collection[Pod] = ()) -> Problem | None:
        """Return why the node cannot take the Pod, supposed that some Pods had left it; `None` when it can."""
        name = node.metadata.name
        used = self._used(name)
        if gone:
            left = Counter(used)
            for pod in gone:
                left.subtract(requests_of(pod))
            used = left
        if text := node_fit.node_problem(self.pod, node, used, self._wants):
            return Problem(text, node_fit.is_shortage(text) and node_fit.fits_empty_node(node, self._wants))
        uids = {pod.metadata.uid for pod in gone}
        if self._ports and (text := self._port_problem(name, uids)):
            return Problem(text, might_fit=True)
        excluded = node_fit.anti_affinity_problem(
            self.pod, node, self._placed(item for item in self._exclusive if item[0].metadata.uid not in uids)
        )
        if not self._scores_nodes:
            return Problem(excluded, might_fit=True) if excluded else None
        spread, bound = self._spread, self._bound
        if gone:
            bound = [item for item in bound if item[0].metadata.uid not in uids]
            spread = Spread(self.pod, self.nodes, bound)
        if spread is not None and (text := spread.problem(node)):
            return Problem(text, not text.endswith(")"))
        if self._has_pod_affinity and (text := node_fit.affinity_problem(self.pod, node, self._placed(bound))):
            return Problem(text, "anti-affinity" in text)
        return Problem(excluded, might_fit=True) if excluded else None

    def _port_problem(self, node: str, gone: Collection[str]) -> str:
        others = (pod for pod, at in self._bound if at == node and pod.metadata.uid not in gone)
        return node_fit.port_problem(self._ports, (port for pod in others for port in node_fit.host_ports_of(pod)))

    def _placed(self, bound: Iterable[Bound]) -> list[tuple[Pod, Mapping[str, str]]]:
        return [(pod, self._labels.get(name, {})) for pod, name in bound]

    def best(self, nodes: Iterable[Node]) -> str:
        """The name of the best of some nodes that all can take the Pod; the least loaded where all else is equal."""
        others = self._placed(self._bound) if self._has_pod_affinity else ()

        def rank(node: Node) -> tuple[int, int, float, str]:
            preferred = node_fit.preference(self.pod, node) + node_fit.pod_affinity_score(self.pod, node, others)
            spread_score = self._spread.spread_score(node) if self._spread is not None else 0
            spread_score += self._default_spread_scores.get(node.metadata.name, 0)
            return -preferred, spread_score, self._used(node.metadata.name).get("pods", 0), node.metadata.name

        return min(rank(node) for node in nodes)[-1]

    def victims(self, node: Node, budgets: Sequence[PodDisruptionBudget]) -> Victims | str:
        """Return the fewest and least important victims on a node that make room, or the reason for none."""
        mine = priority_of(self.pod)
        below = [pod for pod, at in self._bound if at == node.metadata.name and priority_of(pod) < mine]
        if not below:
            return NO_VICTIMS
        if (problem := self.problem(node, below)) is not None:
            return problem.text
        below.sort(key=_descending_priority)
        protected = _protected(below, budgets)
        gone = list(below)
        broken = 0
        for pod in (*protected, *(pod for pod in below if pod not in protected)):
            spared = [other for other in gone if other is not pod]
            if self.problem(node, spared) is None:
                gone = spared
            elif pod in protected:
                broken += 1
        return Victims(node.metadata.name, gone, broken)


def least_disruptive(found: Sequence[Victims]) -> Victims | None:
    """The victims that are missed the least."""

    def disruption(victims: Victims) -> tuple[int, int, int, int, float]:
        priorities = [priority_of(pod) for pod in victims.pods]
        top = max(priorities)
        first = min(_started(pod) for pod in victims.pods if priority_of(pod) == top)
        return victims.broken, top, sum(n + 2**31 for n in priorities), len(priorities), -first.timestamp()

    return min(found, key=disruption, default=None)


def _started(pod: Pod) -> datetime:
    return pod.status.start_time or _MAX_TIME


def _descending_priority(pod: Pod) -> tuple[int, datetime]:
    return -priority_of(pod), _started(pod)


def _protected(pods: Iterable[Pod], budgets: Sequence[PodDisruptionBudget]) -> list[Pod]:
    """Return the victims whose eviction violates a budget, given the eviction of those before them."""
    left = [b.status.disruptions_allowed or 0 for b in budgets]
    found: list[Pod] = []
    for pod in pods:
        breaks = False
        for index, budget in enumerate(budgets):
            if budget.metadata.namespace != pod.metadata.namespace or not pod.metadata.labels:
                continue
            selector: Any = budget.spec.selector
            if selector is None or not from_label_selector(selector).matches(pod.metadata.labels):
                continue
            if pod.metadata.name not in budget.status.disrupted_pods:
                left[index] -= 1
                breaks = breaks or left[index] < 0
        if breaks:
            found.append(pod)
    return found


def unplaced(count: int, problems: Iterable[str], helped: Mapping[str, int] | None) -> str:
    """Return the message for an unschedulable Pod; `helped` counts nodes by the failure of preemption."""
    text = f"0/{count} nodes are available: {_counted(Counter(problems))}."
    if helped is None:
        return text
    why = _counted(helped)
    return f"{text} no new claims to deallocate, preemption: 0/{count} nodes are available: {why}."


def _counted(reasons: Mapping[str, int]) -> str:
    return ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))
