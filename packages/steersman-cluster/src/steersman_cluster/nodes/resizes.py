"""In-place resizes of containers: what changes, whether it fits on the node, and whether it needs a restart.

The container's spec holds the allocated resources; `Container.actual` those in effect. Pure functions.

Source: KEP-1287, in-place update of Pod resources.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any, Final

from steersman.models import Quantity
from steersman_cluster.nodes.pod_state import Container, PodState, Refusal, Role, containers_of
from steersman_cluster.objects import Object, dig, meta

__all__ = ["allocated_requests", "changed_resources", "needs_restart", "refusal_of", "resources_of", "summary"]

_RESIZABLE: Final = ("cpu", "memory")


def resources_of(container: Object) -> Object:
    """Return the requests and limits of a container spec; empty if it has none."""
    return container.get("resources") or {}


def changed_resources(before: Object, after: Object) -> frozenset[str]:
    """Return which of `cpu` and `memory` differ in requests or limits; equal amounts may be written differently."""
    return frozenset(
        name
        for name in _RESIZABLE
        for kind in ("requests", "limits")
        if _amount(dig(before, kind, name)) != _amount(dig(after, kind, name))
    )


def needs_restart(container: Object, changed: Iterable[str]) -> bool:
    """Return whether the resize policy of a container demands a restart for the change of these resources."""
    policies: list[Object] = container.get("resizePolicy") or []
    restarts = {policy.get("resourceName") for policy in policies if policy.get("restartPolicy") == "RestartContainer"}
    return not restarts.isdisjoint(changed)


def allocated_requests(pod_state: PodState) -> dict[str, Fraction]:
    """Return the cpu and memory that a node has allocated to a Pod; nothing for a Pod that is finished."""
    return {} if pod_state.finished else _requests(pod_state.containers)


def refusal_of(
    pod: Object, held: PodState, others: Iterable[PodState], allocatable: Mapping[str, str]
) -> Refusal | None:
    """Return why a node cannot allocate the requested resources of a Pod; `None` if it can, or if nothing changes.

    Args:
        pod: The Pod with the requested resources.
        held: The state of the Pod with the allocated resources.
        others: The other Pods of the node.
        allocatable: The allocatable resources of the node.

    Returns:
        A refusal with the reason Infeasible if the node is too small, or Deferred if other Pods use too much.
    """
    spec: Object = pod.get("spec") or {}
    allocated = {container.name: container.spec for container in held.containers}
    asked: list[Object] = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    if all(resources_of(one) == resources_of(allocated.get(one["name"], one)) for one in asked):
        return None
    before, after = allocated_requests(held), _requests(containers_of(spec))
    growing = [name for name in _RESIZABLE if after.get(name, 0) > before.get(name, 0)]
    capacity = {name: _amount(allocatable.get(name)) for name in growing}
    for name in growing:
        if after[name] > (limit := capacity[name] or Fraction(0)):
            text = f"requested: {_message_amount(name, after[name])}, capacity: {_message_amount(name, limit)}"
            return Refusal("Infeasible", f"Node didn't have enough capacity: {name}, {text}")
    used: dict[str, Fraction] = {}
    for other in others if growing else ():
        for name, amount in allocated_requests(other).items():
            used[name] = used.get(name, Fraction(0)) + amount
    for name in growing:
        taken, limit = used.get(name, Fraction(0)), capacity[name] or Fraction(0)
        if taken + after[name] > limit:
            amounts = (_message_amount(name, after[name]), _message_amount(name, taken), _message_amount(name, limit))
            text = "requested: {}, used: {}, capacity: {}".format(*amounts)
            return Refusal("Deferred", f"Node didn't have enough resource: {name}, {text}")
    return None


def summary(pod: Object, error: str = "") -> str:
    """Return the requested resources of a Pod in the format of the kubelet's Events about resizes."""
    spec: Object = pod.get("spec") or {}
    found: Object = {
        kind: [{"name": c["name"], "resources": resources_of(c)} for c in spec[kind]]
        for kind in ("initContainers", "containers")
        if spec.get(kind)
    }
    found["generation"] = meta(pod).get("generation") or 0
    if error:
        found["error"] = error
    return json.dumps(found, separators=(",", ":"))


def _amount(quantity: Any) -> Fraction | None:
    return None if quantity is None else Quantity(str(quantity)).as_fraction()


def _message_amount(name: str, amount: Fraction) -> int:
    """Return an amount as in the kubelet's messages: millicores of cpu, bytes of memory."""
    return int(amount * 1000) if name == "cpu" else int(amount)


def _requests(containers: Iterable[Container]) -> dict[str, Fraction]:
    """Return the sums of containers and sidecars, or of the largest init container with the sidecars before it."""
    running, peak = dict.fromkeys(_RESIZABLE, Fraction(0)), dict.fromkeys(_RESIZABLE, Fraction(0))
    for container in containers:
        for name in _RESIZABLE:
            amount = _amount(dig(container.spec, "resources", "requests", name)) or Fraction(0)
            if container.role is Role.INIT:
                peak[name] = max(peak[name], running[name] + amount)
            elif container.role is not Role.EPHEMERAL:
                running[name] += amount
    return {name: max(running[name], peak[name]) for name in _RESIZABLE}
