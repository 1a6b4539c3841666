"""Properties of Pods for controllers: active, ready, available, order of deletion.

Pure functions of a Pod and the time; the rules are those of the workload controllers of Kubernetes. Nothing here
reads a cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from steersman.controller import owner_reference
from steersman.k8s import Pod
from steersman.k8s.core_v1 import PodCondition, PodTemplateSpec
from steersman.models import ObjectMeta

__all__ = [
    "NODE_INDEX",
    "ORPHANS",
    "UNBOUND",
    "deletion_order",
    "is_active",
    "is_available",
    "is_ready",
    "node_of",
    "orphaned_in",
    "phase_of",
    "pod_condition",
    "pod_from_template",
    "ready_since",
    "seconds_to_available",
]

NODE_INDEX = "node"
"""Finds Pods by the name of their node; those that have none under `UNBOUND`."""
ORPHANS = "orphans"
"""Index objects without a controller by namespace, as candidates for adoption."""
UNBOUND = "<none>"

_EPOCH = datetime.fromtimestamp(0, UTC)
_COST = "controller.kubernetes.io/pod-deletion-cost"


def node_of(pod: Pod) -> str:
    """The index function of `NODE_INDEX`."""
    return pod.spec.node_name or UNBOUND


def orphaned_in(obj: Any) -> str | None:
    """The index function of `ORPHANS`."""
    return None if any(o.controller for o in obj.metadata.owner_references) else obj.metadata.namespace


def phase_of(pod: Pod) -> str:
    """Return the phase of a Pod, Pending by default."""
    return pod.status.phase or "Pending"


def pod_condition(pod: Pod, type: str) -> PodCondition | None:
    """Return the condition of a type, whatever its status."""
    return next((c for c in pod.status.conditions if c.type == type), None)


def is_active(pod: Pod) -> bool:
    """Neither finished nor on its way out."""
    return pod.metadata.deletion_timestamp is None and phase_of(pod) not in ("Succeeded", "Failed")


def is_ready(pod: Pod) -> bool:
    """Return whether the condition Ready of a Pod is True."""
    condition = pod_condition(pod, "Ready")
    return condition is not None and condition.status == "True"


def ready_since(pod: Pod) -> datetime | None:
    """Return the time since which a Pod is ready, or `None` if it is not."""
    condition = pod_condition(pod, "Ready")
    return condition.last_transition_time if condition is not None and condition.status == "True" else None


def is_available(pod: Pod, min_ready_seconds: int, now: datetime) -> bool:
    """Ready for at least so many seconds."""
    if not is_ready(pod):
        return False
    since = ready_since(pod)
    return not min_ready_seconds or (since is not None and since + timedelta(seconds=min_ready_seconds) <= now)


def seconds_to_available(pods: Iterable[Pod], min_ready_seconds: int, now: datetime) -> float | None:
    """Return when the next ready Pod becomes available; `None` when there is nothing to wait for."""
    waits = [
        (since + timedelta(seconds=min_ready_seconds) - now).total_seconds()
        for pod in pods
        if (since := ready_since(pod)) is not None and not is_available(pod, min_ready_seconds, now)
    ]
    return max(0.0, min(waits)) + 0.01 if waits else None


def deletion_order(pods: Iterable[Pod], peers: Mapping[str, int], now: datetime) -> list[Pod]:
    """Pods in the order in which they are given up; `peers` counts the workload's active Pods by node.

    Those that serve least go first: not bound, not running, not ready, of lower deletion cost, on crowded nodes,
    ready for a shorter time, restarted more often, younger.
    """

    def rank(pod: Pod) -> tuple[Any, ...]:
        ready, node = is_ready(pod), pod.spec.node_name
        return (
            bool(node),
            ("Pending", "Unknown", "Running").index(phase_of(pod)),
            ready,
            _cost(pod),
            -peers.get(node or "", 0),
            _age(ready_since(pod), now) if ready else 0,  # by powers of two, so that the choice is spread
            -max((c.restart_count or 0 for c in pod.status.container_statuses), default=0),
            -(pod.metadata.creation_timestamp or _EPOCH).timestamp(),
            pod.metadata.name,
        )

    return sorted(pods, key=rank)


def _age(since: datetime | None, now: datetime) -> int:
    return int((now - (since or now)).total_seconds()).bit_length()


def _cost(pod: Pod) -> int:
    try:
        return int(pod.metadata.annotations.get(_COST, "0"))
    except ValueError:
        return 0


def pod_from_template(template: PodTemplateSpec, owner: Any, **metadata: Any) -> Pod:
    """The Pod of a template, controlled by `owner`; a name is generated from the owner's unless one is given."""
    of = template.metadata or ObjectMeta()
    values: dict[str, Any] = {
        "namespace": owner.metadata.namespace,
        "labels": of.labels,
        "annotations": of.annotations,
        "finalizers": of.finalizers,
        "owner_references": (owner_reference(owner),),
        **metadata,
    }
    if "name" not in values:
        values.setdefault("generate_name", f"{owner.metadata.name}-")
    return Pod(metadata=ObjectMeta(**values), spec=template.spec)
