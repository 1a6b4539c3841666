"""PodDisruptionBudgets: current and desired healthy Pods, and the number of allowed disruptions.

For a percentage or `maxUnavailable`, the expected number of Pods is the scale of their controllers, so that missing
Pods count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from steersman.client import ApiError
from steersman.controller import Result, controller_of
from steersman.k8s import Deployment, Pod, PodDisruptionBudget, ReplicaSet
from steersman.k8s.policy_v1 import PodDisruptionBudgetStatus
from steersman.models import Condition, Key, LabelSelector, OwnerReference, key_of, lookup, scaled_value
from steersman.models.selectors import from_label_selector
from steersman.operator import Context, Operator, Watch
from steersman_cluster.controllers.pods import is_active, is_ready, phase_of

__all__ = ["budget_status", "desired_healthy", "register"]

_DELETION_TIMEOUT = timedelta(minutes=2)


def register(operator: Operator) -> None:
    """Declare the controller."""
    operator.controller(
        name="disruption",
        reads=[PodDisruptionBudget, ReplicaSet, Deployment],
        watches=[Watch(Pod, to=_to_budgets)],
    )(reconcile)


def _to_budgets(pod: Pod, ctx: Context) -> list[Key]:
    budgets = ctx.list(PodDisruptionBudget, namespace=pod.metadata.namespace)
    return [key_of(b) for b in budgets if from_label_selector(_selector(b)).matches(pod.metadata.labels)]


def _selector(budget: PodDisruptionBudget) -> LabelSelector | None:
    return budget.spec.selector


async def reconcile(budget: PodDisruptionBudget, ctx: Context) -> Result:
    """Return the status: the counts of Pods and the allowed disruptions."""
    selector = _selector(budget)
    pods = ctx.list(Pod, labels=from_label_selector(selector)) if selector is not None else ()
    living = [p for p in pods if phase_of(p) not in ("Succeeded", "Failed")]
    try:
        expected = await _expected(budget, living, ctx)
    except LookupError as problem:
        message = f"Failed to calculate the number of expected pods: {problem}"
        ctx.event("CalculateExpectedPodCountFailed", message, type="Warning", action="Sync")
        return Result(status=_failed(budget, str(problem)), requeue_after=5.0)
    status = budget_status(budget, living, expected, ctx.now())
    waiting = min(status.disrupted_pods.values(), default=None)
    after = (waiting + _DELETION_TIMEOUT - ctx.now()).total_seconds() + 0.1 if waiting else None
    return Result(status=status, requeue_after=after)


async def _expected(budget: PodDisruptionBudget, pods: Sequence[Pod], ctx: Context) -> int:
    """Return the expected number of Pods: the present ones for an absolute minimum, else the desired ones."""
    spec = budget.spec
    if spec.max_unavailable is None and not isinstance(spec.min_available, str):
        return len(pods)
    scales: dict[str, int] = {}
    asked: set[str] = set()
    for pod in pods:
        owner = controller_of(pod)
        if owner is None:
            raise LookupError(f"found no controller ref for pod {pod.metadata.name!r}")
        if owner.uid not in asked:
            asked.add(owner.uid)
            uid, replicas = await _scale(owner, pod.metadata.namespace, ctx)
            scales[uid] = replicas
    return sum(scales.values())


async def _scale(owner: OwnerReference, namespace: str, ctx: Context) -> tuple[str, int]:
    """Return the uid and the desired replicas of the controller that scales a Pod: for ReplicaSets their Deployment."""
    if owner.kind == "ReplicaSet":
        rs = ctx.get(ReplicaSet, owner.name)
        above = controller_of(rs) if rs is not None else None
        if above is not None and above.kind == "Deployment" and (d := ctx.get(Deployment, above.name)) is not None:
            return d.metadata.uid, 1 if d.spec.replicas is None else d.spec.replicas
    try:
        kind = lookup(owner.api_version, owner.kind) or await ctx.client.resolve(owner.api_version, owner.kind)
        return owner.uid, (await ctx.client.get_scale(kind, owner.name, namespace=namespace)).replicas
    except ApiError:
        group = owner.api_version.rpartition("/")[0]
        resource = f"{owner.kind.lower()}s.{group}" if group else f"{owner.kind.lower()}s"
        raise LookupError(f"{resource} does not implement the scale subresource") from None


def desired_healthy(budget: PodDisruptionBudget, expected: int) -> int:
    """Return the number of Pods that must stay healthy."""
    spec = budget.spec
    if spec.max_unavailable is not None:
        return max(0, expected - scaled_value(spec.max_unavailable, expected, round_up=True))
    if spec.min_available is not None:
        return scaled_value(spec.min_available, expected, round_up=True)
    return 0


def budget_status(
    budget: PodDisruptionBudget, pods: Sequence[Pod], expected: int, now: datetime
) -> PodDisruptionBudgetStatus:
    """Count the healthy Pods; those that are being evicted are not, for as long as that may take."""
    disrupted = _still_disrupted(budget.status.disrupted_pods, pods, now)
    healthy = sum(is_active(p) and is_ready(p) and p.metadata.name not in disrupted for p in pods)
    desired = desired_healthy(budget, expected)
    allowed = max(0, healthy - desired) if expected > 0 else 0
    condition = Condition(
        type="DisruptionAllowed",
        status="True" if allowed else "False",
        reason="SufficientPods" if allowed else "InsufficientPods",
        observed_generation=budget.metadata.generation,
    )
    return PodDisruptionBudgetStatus(
        current_healthy=healthy,
        desired_healthy=desired,
        disruptions_allowed=allowed,
        expected_pods=expected,
        disrupted_pods=disrupted,
        observed_generation=budget.metadata.generation,
        conditions=(condition,),
    )


def _still_disrupted(noted: Mapping[str, datetime], pods: Sequence[Pod], now: datetime) -> dict[str, datetime]:
    alive = {p.metadata.name for p in pods if p.metadata.deletion_timestamp is None}
    return {name: when for name, when in noted.items() if name in alive and when + _DELETION_TIMEOUT > now}


def _failed(budget: PodDisruptionBudget, problem: str) -> PodDisruptionBudgetStatus:
    condition = Condition(
        type="DisruptionAllowed",
        status="False",
        reason="SyncFailed",
        message=problem,
        observed_generation=budget.metadata.generation,
    )
    old = budget.status
    return PodDisruptionBudgetStatus(
        current_healthy=old.current_healthy or 0,
        desired_healthy=old.desired_healthy or 0,
        disruptions_allowed=0,
        expected_pods=old.expected_pods or 0,
        observed_generation=budget.metadata.generation,
        conditions=(condition,),
    )
