"""The rollout of a Deployment from one ReplicaSet to another, as pure functions.

Counts only; nothing here reads or writes. The arithmetic is that of Kubernetes: surge is rounded up, unavailability
down, and one of them is at least one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from steersman.k8s import Deployment, ReplicaSet
from steersman.k8s.core_v1 import PodTemplateSpec
from steersman.models import IntOrString, ObjectMeta, replace, scaled_value

__all__ = [
    "DESIRED",
    "HASH_LABEL",
    "MAX",
    "REVISION",
    "REVISION_HISTORY",
    "RolloutLimits",
    "active",
    "annotations_for",
    "is_saturated",
    "is_scaling_event",
    "new_set_of",
    "new_size",
    "old_sizes",
    "proportional_sizes",
    "replicas_of",
    "revision_of",
    "rollout_limits",
    "same_template",
    "total",
]

HASH_LABEL = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
REVISION_HISTORY = "deployment.kubernetes.io/revision-history"
DESIRED = "deployment.kubernetes.io/desired-replicas"
MAX = "deployment.kubernetes.io/max-replicas"
_NOT_COPIED = frozenset(
    (
        "kubectl.kubernetes.io/last-applied-configuration",
        REVISION,
        REVISION_HISTORY,
        DESIRED,
        MAX,
        "deprecated.deployment.rollback.to",
    )
)
_HISTORY_LENGTH = 2000
_EPOCH = datetime.fromtimestamp(0, UTC)


def replicas_of(obj: Deployment | ReplicaSet) -> int:
    """Return the wanted number of replicas, 1 by default."""
    return 1 if obj.spec.replicas is None else obj.spec.replicas


def total(sets: Iterable[ReplicaSet]) -> int:
    """Return the sum of the wanted replicas."""
    return sum(map(replicas_of, sets))


def active(sets: Iterable[ReplicaSet]) -> list[ReplicaSet]:
    """Return the ReplicaSets with actual or desired Pods."""
    return [rs for rs in sets if replicas_of(rs) > 0]


def by_age(rs: ReplicaSet) -> tuple[datetime, str]:
    return rs.metadata.creation_timestamp or _EPOCH, rs.metadata.name


def revision_of(rs: ReplicaSet) -> int:
    """The revision that the ReplicaSet last had; 0 where there is none."""
    text = rs.metadata.annotations.get(REVISION, "")
    return int(text) if text.isdecimal() else 0


class RolloutLimits(NamedTuple):
    """The numbers of Pods that a rollout may have above and below the desired number."""

    surge: int
    unavailable: int


def rollout_limits(d: Deployment) -> RolloutLimits:
    """The limits of a rolling update as numbers; both 0 for other strategies."""
    strategy, replicas = d.spec.strategy, replicas_of(d)
    if strategy.type != "RollingUpdate":
        return RolloutLimits(0, 0)
    rolling = strategy.rolling_update
    surge_text: IntOrString = rolling.max_surge if rolling and rolling.max_surge is not None else 0
    down_text: IntOrString = rolling.max_unavailable if rolling and rolling.max_unavailable is not None else 0
    surge = scaled_value(surge_text, replicas, round_up=True)
    unavailable = scaled_value(down_text, replicas, round_up=False)
    if surge == 0 and unavailable == 0:
        unavailable = 1  # percentages of few replicas round to nothing, and nothing would ever move
    return RolloutLimits(surge, min(unavailable, replicas))


def same_template(one: PodTemplateSpec, other: PodTemplateSpec) -> bool:
    """Return whether two templates make the same Pods; the hash label is not part of that."""
    return one.spec == other.spec and _without_hash(one.metadata) == _without_hash(other.metadata)


def _without_hash(metadata: ObjectMeta | None) -> ObjectMeta:
    metadata = metadata or ObjectMeta()
    labels = {key: value for key, value in metadata.labels.items() if key != HASH_LABEL}
    return replace(metadata, labels=labels, creation_timestamp=None)


def new_set_of(d: Deployment, sets: Iterable[ReplicaSet]) -> ReplicaSet | None:
    """The ReplicaSet of the Deployment's present template; the oldest, where there are several."""
    return next((rs for rs in sorted(sets, key=by_age) if same_template(rs.spec.template, d.spec.template)), None)


def new_size(d: Deployment, sets: Sequence[ReplicaSet], new: int) -> int:
    """Return the replicas of the new ReplicaSet, which has `new`, within the surge."""
    wanted = replicas_of(d)
    if d.spec.strategy.type == "Recreate":
        return wanted
    if new >= wanted:
        return wanted
    room = wanted + rollout_limits(d).surge - total(sets)
    return new + max(0, min(room, wanted - new))


def old_sizes(d: Deployment, old: Sequence[ReplicaSet], new: ReplicaSet) -> dict[str, int]:
    """The sizes that old ReplicaSets may shrink to now: first replicas that do not serve, then the oldest sets."""
    sizes = {rs.metadata.name: replicas_of(rs) for rs in sorted(active(old), key=by_age)}
    available = {rs.metadata.name: rs.status.available_replicas or 0 for rs in old}
    least = replicas_of(d) - rollout_limits(d).unavailable
    starting = replicas_of(new) - (new.status.available_replicas or 0)
    budget = sum(sizes.values()) + replicas_of(new) - least - starting
    for name, size in sizes.items():
        if budget <= 0:
            return sizes
        idle = max(0, min(budget, size - available[name]))
        sizes[name] -= idle
        budget -= idle
    budget = sum(available.values()) + (new.status.available_replicas or 0) - least
    for name, size in sizes.items():
        step = max(0, min(size, budget))
        sizes[name] -= step
        budget -= step
    return sizes


def is_scaling_event(d: Deployment, sets: Iterable[ReplicaSet]) -> bool:
    """Return whether the wanted number of replicas changed since the ReplicaSets were sized."""
    desired = (rs.metadata.annotations.get(DESIRED, "") for rs in active(sets))
    return any(text.isdecimal() and int(text) != replicas_of(d) for text in desired)


def is_saturated(d: Deployment, rs: ReplicaSet | None) -> bool:
    """Return whether one ReplicaSet holds all that is wanted, and it serves."""
    if rs is None or rs.metadata.annotations.get(DESIRED) != str(replicas_of(d)):
        return False
    return replicas_of(rs) == replicas_of(d) == (rs.status.available_replicas or 0)


def proportional_sizes(d: Deployment, sets: Sequence[ReplicaSet]) -> dict[str, int]:
    """Sizes of all active ReplicaSets when a Deployment is scaled in mid-rollout: each by its share.

    Larger sets first; of equal ones the newer when growing, the older when shrinking. The largest takes what rounding
    leaves over.
    """
    wanted = replicas_of(d)
    allowed = wanted + rollout_limits(d).surge if wanted > 0 else 0
    to_add = allowed - total(active(sets))
    newest_first = to_add > 0
    ordered = sorted(active(sets), key=by_age, reverse=newest_first)
    ordered.sort(key=replicas_of, reverse=True)
    sizes: dict[str, int] = {}
    added = 0
    for rs in ordered:
        share = 0
        if to_add != added:
            share = _share(d, rs)
            share = min(share, to_add - added) if to_add > 0 else max(share, to_add - added)
        share = 0 if to_add == 0 else share
        sizes[rs.metadata.name] = replicas_of(rs) + share
        added += share
    if ordered and to_add:
        first = ordered[0].metadata.name
        sizes[first] = max(0, sizes[first] + to_add - added)
    return sizes


def _share(d: Deployment, rs: ReplicaSet) -> int:
    if replicas_of(d) == 0:
        return -replicas_of(rs)
    text = rs.metadata.annotations.get(MAX, "")
    before = int(text) if text.isdecimal() and int(text) else d.status.replicas or 0
    if not before:
        return 0
    scaled = replicas_of(rs) * (replicas_of(d) + rollout_limits(d).surge) / before
    return int(scaled + 0.5) - replicas_of(rs)


def annotations_for(d: Deployment, rs: Mapping[str, str], revision: int, *, exists: bool) -> dict[str, str]:
    """The annotations of the new ReplicaSet, given those that it has: the Deployment's, revision and sizes."""
    found = {**rs, **{key: value for key, value in d.metadata.annotations.items() if key not in _NOT_COPIED}}
    before = rs.get(REVISION, "")
    if not before.isdecimal() or int(before) < revision:
        found[REVISION] = str(revision)
        if before.isdecimal():
            past = [*filter(None, rs.get(REVISION_HISTORY, "").split(",")), before]
            while len(",".join(past)) > _HISTORY_LENGTH:
                past.pop(0)
            found[REVISION_HISTORY] = ",".join(past)
    if not exists:
        found |= size_annotations(d)
    return found


def size_annotations(d: Deployment) -> dict[str, str]:
    """Return the annotations with the size of the Deployment for which a ReplicaSet was scaled."""
    return {DESIRED: str(replicas_of(d)), MAX: str(replicas_of(d) + rollout_limits(d).surge)}
