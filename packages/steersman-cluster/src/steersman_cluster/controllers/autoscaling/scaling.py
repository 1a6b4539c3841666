"""Computation of replicas for HorizontalPodAutoscalers: from a metric to a proposal, from proposals to a step.

Pure functions of numbers and histories. The tolerance ignores small differences, stabilization uses recent
recommendations, and policies limit the change per period.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from math import ceil
from typing import NamedTuple

from steersman.k8s.autoscaling_v2 import HorizontalPodAutoscalerBehavior, HPAScalingPolicy, HPAScalingRules
from steersman.models import Quantity

__all__ = ["History", "Step", "bounded", "by_average", "by_ratio", "limited", "rules_of", "stabilised"]

_TOLERANCE = Fraction(1, 10)
_DESIRED = "the desired replica count"


def by_ratio(ratio: Fraction, ready: int, present: int, tolerance: Fraction = _TOLERANCE) -> int:
    """Replicas so that the ratio of use to target becomes 1; `present` when it is near enough."""
    if abs(ratio - 1) <= tolerance:
        return present
    return ceil(ratio * ready)


def by_average(total: Fraction, target: Fraction, present: int, tolerance: Fraction = _TOLERANCE) -> int:
    """Replicas so that each has `target` of a total; `present` when it is near enough."""
    if present and abs(total / (target * present) - 1) <= tolerance:
        return present
    return ceil(total / target)


def usage_ratio(
    usage: Mapping[str, Quantity], target: Fraction, ready: Iterable[str], missing: Iterable[str], present: int
) -> tuple[Fraction, int, int]:
    """The ratio of use to target, over how many Pods, and the proposal.

    Pods without numbers are taken for idle when scaling up and for at their target when scaling down, so that not
    knowing never moves anything.
    """
    known = {name: usage[name].as_fraction() for name in ready if name in usage}
    absent = [name for name in missing if name not in known]
    if not known:
        return Fraction(1), 0, present
    ratio = sum(known.values(), Fraction(0)) / (target * len(known))
    if not absent:
        return ratio, len(known), by_ratio(ratio, len(known), present)
    filler = target if ratio < 1 else Fraction(0)
    count = len(known) + len(absent)
    cautious = (sum(known.values(), Fraction(0)) + filler * len(absent)) / (target * count)
    turned = (ratio > 1) != (cautious > 1)
    return ratio, len(known), present if turned else by_ratio(cautious, count, present)


class History(NamedTuple):
    """Recent recommendations (time in seconds, replicas) and changes (time in seconds, difference)."""

    recommendations: list[tuple[float, int]]
    ups: list[tuple[float, int]]
    downs: list[tuple[float, int]]


class Step(NamedTuple):
    """The number of replicas, and the limit that applied."""

    replicas: int
    limited: bool
    reason: str
    message: str


_UP = HPAScalingRules(
    stabilization_window_seconds=0,
    select_policy="Max",
    policies=(
        HPAScalingPolicy(type="Pods", value=4, period_seconds=15),
        HPAScalingPolicy(type="Percent", value=100, period_seconds=15),
    ),
)
_DOWN = HPAScalingRules(
    stabilization_window_seconds=300,
    select_policy="Max",
    policies=(HPAScalingPolicy(type="Percent", value=100, period_seconds=15),),
)


def rules_of(behavior: HorizontalPodAutoscalerBehavior | None) -> tuple[HPAScalingRules, HPAScalingRules]:
    """The rules for scaling up and down, with defaults filled in."""
    up = behavior.scale_up if behavior and behavior.scale_up else _UP
    down = behavior.scale_down if behavior and behavior.scale_down else _DOWN
    return up, down


def _window(rules: HPAScalingRules, default: int) -> int:
    return default if rules.stabilization_window_seconds is None else rules.stabilization_window_seconds


def stabilised(
    desired: int, present: int, behavior: HorizontalPodAutoscalerBehavior | None, history: History, now: float
) -> tuple[int, str, str]:
    """The recommendation that its recent past bears out, with reason and message of AbleToScale."""
    up, down = rules_of(behavior)
    up_window, down_window = _window(up, 0), _window(down, 300)
    lowest = min([desired, *(n for at, n in history.recommendations if at > now - up_window)])
    highest = max([desired, *(n for at, n in history.recommendations if at > now - down_window)])
    history.recommendations[:] = [
        (at, n) for at, n in history.recommendations if at > now - max(up_window, down_window, 1)
    ]
    history.recommendations.append((now, desired))
    settled = max(present, lowest) if lowest > present else min(present, highest)
    if settled != desired:
        if desired < settled:
            message = "recent recommendations were higher than current one, applying the highest recent recommendation"
            return settled, "ScaleDownStabilized", message
        message = "recent recommendations were lower than current one, applying the lowest recent recommendation"
        return settled, "ScaleUpStabilized", message
    return settled, "ReadyForNewScale", "recommended size matches current size"


def limited(rules: HPAScalingRules, present: int, changes: Sequence[tuple[float, int]], now: float, *, up: bool) -> int:
    """The furthest that the policies let the number go now."""
    if rules.select_policy == "Disabled":
        return present
    bounds: list[int] = []
    for policy in rules.policies or (_UP if up else _DOWN).policies:
        recent = sum(n for at, n in changes if at > now - policy.period_seconds)
        start = present - recent if up else present + recent
        if policy.type == "Pods":
            bounds.append(start + policy.value if up else start - policy.value)
        elif up:
            bounds.append(ceil(Fraction(start * (100 + policy.value), 100)))
        else:
            bounds.append(start * (100 - policy.value) // 100)
    widest = max if (rules.select_policy != "Min") == up else min
    bound = widest(bounds)
    return max(present, bound) if up else min(present, bound)


def bounded(
    desired: int,
    present: int,
    least: int,
    most: int,
    behavior: HorizontalPodAutoscalerBehavior | None,
    history: History,
    now: float,
) -> Step:
    """The next number of replicas: the desired one within policies, minimum and maximum."""
    up, down = rules_of(behavior)
    if desired > present:
        reach = limited(up, present, history.ups, now, up=True)
        if reach < min(desired, most):
            return Step(
                reach,
                limited=True,
                reason="ScaleUpLimit",
                message=f"{_DESIRED} is increasing faster than the maximum scale rate",
            )
    elif desired < present:
        reach = limited(down, present, history.downs, now, up=False)
        if reach > max(desired, least):
            return Step(
                reach,
                limited=True,
                reason="ScaleDownLimit",
                message=f"{_DESIRED} is decreasing faster than the maximum scale rate",
            )
    if desired > most:
        return Step(
            most, limited=True, reason="TooManyReplicas", message=f"{_DESIRED} is more than the maximum replica count"
        )
    if desired < least:
        return Step(
            least, limited=True, reason="TooFewReplicas", message=f"{_DESIRED} is less than the minimum replica count"
        )
    return Step(
        desired, limited=False, reason="DesiredWithinRange", message="the desired count is within the acceptable range"
    )
