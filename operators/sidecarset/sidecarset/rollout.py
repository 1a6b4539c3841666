"""The rollout of a SidecarSet: the next updates of its Pods, and its status, as pure functions.

An image can change in a running Pod; other changes wait until the Pod is created again. An image change restarts a
container, so `maxUnavailable` limits the concurrent updates, and `partition` the total.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import NamedTuple

from steersman import Condition, IntOrString, JsonPatch, replace
from steersman.k8s import Pod
from steersman.models import scaled_value

from sidecarset.api.v1alpha1.sidecarset_types import SidecarSet, SidecarSetSpec, SidecarSetStatus, UpdateStrategy
from sidecarset.injection import ANNOTATION, Record, is_sidecar, record_of, records, written

__all__ = ["Plan", "State", "patch_for", "plan", "refused_status", "status_of"]


class State(Enum):
    """The state of a Pod relative to the current generation."""

    CURRENT = "has it"
    RESTARTING = "has it, and a container still runs the image before"
    SAME = "has the same containers by another generation"
    IMAGES = "differs in images only"
    RECREATE = "must be created anew"


class Seen(NamedTuple):
    pod: Pod
    state: State
    available: bool
    """Ready, without an image update in progress."""
    ready: bool


class Plan(NamedTuple):
    """The Pods to write now, and the status."""

    restamp: tuple[Pod, ...]
    """Pods that only need a record of the current generation."""
    update: tuple[Pod, ...]
    """Pods that get new images."""
    status: SidecarSetStatus


def active(pod: Pod) -> bool:
    """Return whether a Pod counts: it has not finished, and is not terminating."""
    finished = pod.status.phase in ("Succeeded", "Failed")
    return not finished and pod.metadata.deletion_timestamp is None


def ready(pod: Pod) -> bool:
    """Return whether a Pod is running and Ready."""
    return pod.status.phase == "Running" and any(
        c.type == "Ready" and c.status == "True" for c in pod.status.conditions
    )


def changing(pod: Pod, found: Iterable[Record]) -> bool:
    """Return whether the kubelet has yet to process a new image.

    For kubelets that do not report the observed generation of a Pod, the readiness counts.
    """
    status = pod.status
    if status.observed_generation is None:
        return False
    if status.observed_generation < (pod.metadata.generation or 0):
        return True
    return runs_replaced(pod, found)


def runs_replaced(pod: Pod, found: Iterable[Record]) -> bool:
    """Return whether a container still runs an image that has been replaced in the Pod's spec."""
    replaced = {name: image for record in found for name, image in record.images.items()}
    wanted = {c.name: c.image for c in pod.spec.containers}
    return any(
        _plain(each.image) == _plain(replaced[each.name]) != _plain(wanted.get(each.name) or "")
        for each in pod.status.container_statuses
        if each.name in replaced
    )


def _plain(image: str) -> str:
    """Normalize an image name: runtimes report `docker.io/library/busybox:1.36` for `busybox:1.36`."""
    short = image.removeprefix("docker.io/").removeprefix("library/")
    return short if ":" in short.rpartition("/")[2] or "@" in short else f"{short}:latest"


def look(sidecars: SidecarSet, pods: Iterable[Pod]) -> tuple[Seen, ...]:
    """Return the active matching Pods, by namespace and name."""
    now = record_of(sidecars)
    seen: list[Seen] = []
    for pod in sorted(filter(active, pods), key=lambda pod: (pod.metadata.namespace, pod.metadata.name)):
        found = records(pod)
        is_ready = ready(pod)
        state = _state(pod, sidecars.spec, found.get(sidecars.metadata.name), now)
        seen.append(Seen(pod, state, is_ready and not changing(pod, found.values()), is_ready))
    return tuple(seen)


def _state(pod: Pod, spec: SidecarSetSpec, record: Record | None, now: Record) -> State:
    if record is None:
        return State.RECREATE
    if record.hash == now.hash:  # A new SidecarSet of the same name starts at generation 1 again.
        if record.generation != now.generation:
            return State.SAME
        return State.RESTARTING if runs_replaced(pod, (record,)) else State.CURRENT
    if record.shape != now.shape:
        return State.RECREATE
    there = {c.name for c in pod.spec.containers if is_sidecar(c)}
    return State.IMAGES if all(c.name in there for c in spec.containers) else State.RECREATE


def plan(sidecars: SidecarSet, pods: Iterable[Pod]) -> Plan:
    """Return the next updates.

    At no time are more than `maxUnavailable` Pods unavailable because of them, and at least `partition` Pods keep
    their images, independent of changes in other Pods.
    """
    seen = look(sidecars, pods)
    strategy = sidecars.spec.update_strategy
    if strategy.type == "NotUpdate":
        return Plan((), (), status_of(sidecars, seen))
    restamp = tuple(each.pod for each in seen if each.state is State.SAME)
    return Plan(restamp, _to_update(seen, strategy), status_of(sidecars, seen))


def _to_update(seen: Sequence[Seen], strategy: UpdateStrategy) -> tuple[Pod, ...]:
    total = len(seen)
    old = sum(each.state in (State.IMAGES, State.RECREATE) for each in seen)
    may_change = old - share(strategy.partition, total)
    may_break = share(strategy.max_unavailable, total) - sum(not each.available for each in seen)
    found: list[Pod] = []
    # Unavailable Pods come first: a new image may repair them, and cannot make them less available.
    for each in sorted(seen, key=lambda each: each.available):
        if each.state is not State.IMAGES or may_change <= 0:
            continue
        if each.available:
            if may_break <= 0:
                continue
            may_break -= 1
        may_change -= 1
        found.append(each.pod)
    return tuple(found)


def share(value: IntOrString, total: int) -> int:
    """Return a number of Pods, or a share of them rounded up; never negative, and 0 for an invalid value."""
    try:
        return max(0, scaled_value(value, total, round_up=True))
    except ValueError:
        return 0


def patch_for(sidecars: SidecarSet, pod: Pod) -> JsonPatch:
    """Return the patch of a Pod to the current images and generation; it fails for another Pod of the name."""
    found = records(pod)
    images = {c.name: c.image for c in sidecars.spec.containers}
    patch = JsonPatch().test("/metadata/uid", pod.metadata.uid)
    before: dict[str, str] = {}
    for index, container in enumerate(pod.spec.containers):
        image = images.get(container.name)
        if image is None or image == container.image or not is_sidecar(container):
            continue
        before[container.name] = container.image or ""
        patch = patch.test(f"/spec/containers/{index}/name", container.name)
        patch = patch.replace(f"/spec/containers/{index}/image", image)
    found[sidecars.metadata.name] = replace(record_of(sidecars), images=before)
    at = "/metadata/annotations/" + ANNOTATION.replace("/", "~1")
    return patch.test(at, pod.metadata.annotations[ANNOTATION]).replace(at, written(found))


def status_of(sidecars: SidecarSet, seen: Sequence[Seen]) -> SidecarSetStatus:
    """Return the status: counts, and the condition with the reason for waiting."""
    counts = {state: sum(each.state is state for each in seen) for state in State}
    return SidecarSetStatus(
        observed_generation=sidecars.metadata.generation,
        matched_pods=len(seen),
        updated_pods=counts[State.CURRENT],
        ready_pods=sum(each.ready for each in seen),
        waiting_pods=counts[State.RECREATE],
        conditions=(_updated(sidecars.spec.update_strategy, len(seen), counts),),
    )


def refused_status(status: SidecarSetStatus, denied: Sequence[str]) -> SidecarSetStatus:
    """Return the status when the API server denies writes; `denied` has its message for each of them."""
    message = f"the API server denies the update of {len(denied)} Pods: {denied[0]}"
    condition = Condition(type="Updated", status="False", reason="UpdateRefused", message=message)
    return replace(status, conditions=(condition,))


def _updated(strategy: UpdateStrategy, total: int, counts: dict[State, int]) -> Condition:
    old, waiting = counts[State.SAME] + counts[State.IMAGES] + counts[State.RESTARTING], counts[State.RECREATE]
    if not old and not waiting:
        return Condition(
            type="Updated", status="True", reason="UpToDate", message=f"all of {total} Pods are up to date"
        )
    if strategy.type == "NotUpdate":
        message = f"{old + waiting} of {total} Pods are left as they are: updateStrategy is NotUpdate"
        return Condition(type="Updated", status="False", reason="NotUpdate", message=message)
    parts = [f"{waiting} of {total} Pods get the current containers when they are created anew"] if waiting else []
    if counts[State.IMAGES]:
        kept = share(strategy.partition, total)
        parts.append(f"{counts[State.IMAGES]} have older images" + (f", partition keeps {kept}" if kept else ""))
    if counts[State.RESTARTING]:
        parts.append(f"{counts[State.RESTARTING]} still run the image before the new one")
    reason = "WaitingForRecreation" if waiting and not counts[State.IMAGES] else "RollingUpdate"
    return Condition(type="Updated", status="False", reason=reason, message="; ".join(parts) or "generations are noted")
