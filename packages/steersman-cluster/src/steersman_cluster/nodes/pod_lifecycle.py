"""The Pod life cycle as a pure state machine: `step(state, event, now) -> (state, effects)`.

First the event changes the state (`pod_reactions`), then the next effects are derived from it (`pod_progress`): init
containers in order, sidecars before the other containers, restarts after a backoff, stops within the grace period. The
rules are those of the kubelet (kuberuntime's computePodActions). No clock, no I/O.
"""

from __future__ import annotations

from dataclasses import replace

from steersman_cluster.nodes.pod_events import (
    Effect,
    Event,
)
from steersman_cluster.nodes.pod_progress import advance
from steersman_cluster.nodes.pod_reactions import react
from steersman_cluster.nodes.pod_state import (
    PodState,
    Preparation,
    containers_of,
)
from steersman_cluster.nodes.pod_transition import FIRST_BACKOFF, LONGEST_BACKOFF, PodTransition
from steersman_cluster.objects import Object

__all__ = ["FIRST_BACKOFF", "LONGEST_BACKOFF", "begin", "step"]


def begin(pod: Object, now: float, *, adopt: bool) -> PodState:
    """Return the state of a Pod that is new to this node.

    A Pod with a status continues: with `adopt` its running containers still run, without it they ended with their node.
    """
    pod_state = PodState(pod, containers_of(pod.get("spec") or {}), now)
    status: Object = pod.get("status") or {}
    if status.get("phase") in ("Succeeded", "Failed"):
        pod_state = replace(pod_state, finished=status["phase"])
    fields = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
    known = {s["name"]: s for field in fields for s in status.get(field) or ()}
    if not known:
        return pod_state
    from steersman_cluster.nodes.status import remembered, seconds_of

    containers = tuple(remembered(c, known.get(c.name), now, adopt=adopt) for c in pod_state.containers)
    begun = seconds_of(status.get("startTime")) or now
    adopted = adopt and bool(status.get("podIP"))
    return replace(
        pod_state,
        containers=containers,
        begun_at=begun,
        ip=(status.get("podIP") or "") if adopted else "",
        prepared=Preparation.DONE if adopted else Preparation.NO,
    )


def step(pod_state: PodState, event: Event, now: float) -> tuple[PodState, tuple[Effect, ...]]:
    """Apply an event and return the effects; events of earlier attempts and unknown containers are ignored."""
    transition = PodTransition(pod_state, now)
    react(transition, event)
    advance(transition)
    return transition.result()
