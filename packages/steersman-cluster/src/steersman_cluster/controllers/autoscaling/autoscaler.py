"""HorizontalPodAutoscalers: the number of replicas follows metrics, within limits of number and rate.

Each metric makes a proposal and the largest wins; one that cannot be had only keeps the others from scaling down. What
the numbers are comes from a `MetricsSource`: metrics.k8s.io, unless a test sets them.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from fractions import Fraction
from typing import Any, NamedTuple

from steersman.client import ApiError, Client
from steersman.controller import Result
from steersman.k8s import HorizontalPodAutoscaler, Pod
from steersman.k8s.autoscaling_v2 import (
    ContainerResourceMetricStatus,
    ExternalMetricStatus,
    HorizontalPodAutoscalerCondition,
    HorizontalPodAutoscalerStatus,
    MetricSpec,
    MetricStatus,
    MetricValueStatus,
    ObjectMetricStatus,
    PodsMetricStatus,
    ResourceMetricStatus,
)
from steersman.models import Key, Quantity, Selector, View, key_of, lookup, parse_labels, view_of
from steersman.operator import Context, Operator
from steersman_cluster.controllers.autoscaling.metrics import MetricsApi, MetricsSource, MetricsUnavailableError
from steersman_cluster.controllers.autoscaling.scaling import (
    History,
    bounded,
    by_average,
    by_ratio,
    stabilised,
    usage_ratio,
)
from steersman_cluster.controllers.pods import is_active, is_ready

__all__ = ["Proposal", "register"]


class Proposal(NamedTuple):
    """The number of replicas that one metric proposes."""

    replicas: int
    metric: str
    status: MetricStatus


def register(operator: Operator, *, source: MetricsSource | None = None, interval: float = 15.0) -> None:
    """Declare the controller; it asks `source` (the cluster's metrics API by default) every `interval` seconds."""
    operator.controller(name="horizontalpodautoscaler", reads=[Pod])(Autoscaler(source, interval).reconcile)


class Autoscaler:
    """Reconciles autoscalers and keeps the history of their recommendations."""

    def __init__(self, source: MetricsSource | None, interval: float) -> None:
        self._source = source
        self._interval = interval
        self._history: dict[Key, History] = {}

    async def reconcile(self, hpa: HorizontalPodAutoscaler, ctx: Context) -> Result:
        """Look at the metrics and take one step."""
        source = self._source or MetricsApi(ctx.client)
        work = _Reconcile(hpa, ctx, source, self._history.setdefault(key_of(hpa), History([], [], [])))
        return Result(status=await work.status(), requeue_after=self._interval)


class _Reconcile:
    """One look at one autoscaler."""

    def __init__(self, hpa: HorizontalPodAutoscaler, ctx: Context, source: MetricsSource, history: History) -> None:
        self.hpa = hpa
        self.spec = hpa.spec
        self.ctx = ctx
        self.source = source
        self.history = history
        self.now: datetime = ctx.now()
        self.old = hpa.status
        self.conditions = self.old.conditions
        self.problems: list[tuple[str, str]] = []

    async def status(self) -> HorizontalPodAutoscalerStatus:
        """Compute the replicas, scale the target, and return the status."""
        target = self.spec.scale_target_ref
        try:
            view = await _view(target.api_version or "", target.kind, self.ctx.client)
            scale = await self.ctx.client.get_scale(view, target.name, namespace=self.hpa.metadata.namespace)
        except ApiError as problem:
            message = f"the HPA controller was unable to get the target's current scale: {problem}"
            self._set_condition("AbleToScale", "False", "FailedGetScale", message)
            self.ctx.event("FailedGetScale", str(problem), type="Warning", action="Scale")
            return self._result(self.old.current_replicas or 0, self.old.desired_replicas, self.old.current_metrics)
        self._set_condition(
            "AbleToScale", "True", "SucceededGetScale", "the HPA controller was able to get the target's current scale"
        )
        present, least = scale.replicas, 1 if self.spec.min_replicas is None else self.spec.min_replicas
        if present == 0 and least != 0:
            message = "scaling is disabled since the replica count of the target is zero"
            self._set_condition("ScalingActive", "False", "ScalingDisabled", message)
            return self._result(scale.current_replicas, 0, ())
        proposals: tuple[Proposal, ...] = ()
        if present > self.spec.max_replicas:
            wanted, why = self.spec.max_replicas, "Current number of replicas above Spec.MaxReplicas"
        elif present < least:
            wanted, why = least, "Current number of replicas below Spec.MinReplicas"
        else:
            proposals = await self._proposals(present, scale.selector)
            if not proposals or (self.problems and max(proposals).replicas < present):
                reason, message = self.problems[0] if self.problems else ("InvalidMetricSourceType", "no metrics")
                told = f"the HPA was unable to compute the replica count: {message}"
                self._set_condition("ScalingActive", "False", reason, told)
                for reason, message in self.problems:
                    self.ctx.event(reason, message, type="Warning", action="Scale")
                return self._result(scale.current_replicas, present, tuple(p.status for p in proposals))
            wanted, why = self._decide(proposals, present, least)
        if wanted != present:
            await self._scale(view, target.name, present, wanted, why)
        return self._result(
            scale.current_replicas, wanted, tuple(p.status for p in proposals), scaled=wanted != present
        )

    def _decide(self, proposals: Sequence[Proposal], present: int, least: int) -> tuple[int, str]:
        best = max(proposals, key=lambda p: p.replicas)
        message = f"the HPA was able to successfully calculate a replica count from {best.metric}"
        self._set_condition("ScalingActive", "True", "ValidMetricFound", message)
        when, behavior = self.now.timestamp(), self.spec.behavior
        settled, reason, message = stabilised(best.replicas, present, behavior, self.history, when)
        self._set_condition("AbleToScale", "True", reason, message)
        step = bounded(settled, present, least, self.spec.max_replicas, behavior, self.history, when)
        self._set_condition("ScalingLimited", str(step.limited), step.reason, step.message)
        why = f"{best.metric} above target" if step.replicas > present else "All metrics below target"
        return step.replicas, why

    async def _scale(self, view: View[Any], name: str, present: int, wanted: int, why: str) -> None:
        await self.ctx.client.set_scale(view, name, wanted, namespace=self.hpa.metadata.namespace)
        changes = self.history.ups if wanted > present else self.history.downs
        changes.append((self.now.timestamp(), abs(wanted - present)))
        del changes[:-100]
        message = f"the HPA controller was able to update the target scale to {wanted}"
        self._set_condition("AbleToScale", "True", "SucceededRescale", message)
        self.ctx.event("SuccessfulRescale", f"New size: {wanted}; reason: {why}", action="Scale")

    async def _proposals(self, present: int, selector: str) -> tuple[Proposal, ...]:
        parsed = parse_labels(selector)
        pods = [pod for pod in self.ctx.list(Pod, labels=parsed) if is_active(pod)] if selector else []
        found: list[Proposal] = []
        for metric in self.spec.metrics:
            try:
                found.append(await self._propose(metric, present, parsed, pods))
            except MetricsUnavailableError as problem:
                reason = f"FailedGet{metric.type}Metric"
                self.problems.append((reason, str(problem)))
        return tuple(found)

    async def _propose(self, metric: MetricSpec, present: int, selector: Selector, pods: Sequence[Pod]) -> Proposal:
        namespace = self.hpa.metadata.namespace
        match metric.type:
            case "Resource" | "ContainerResource":
                return await self._by_resource(metric, present, selector, pods)
            case "Pods":
                assert metric.pods is not None
                name, target = metric.pods.metric.name, metric.pods.target.average_value or Quantity(1)
                values = await self.source.pods(namespace, selector, name)
                ready = [pod.metadata.name for pod in pods if is_ready(pod)]
                missing = [pod.metadata.name for pod in pods]
                ratio, _, replicas = usage_ratio(values, target.as_fraction(), ready, missing, present)
                average = Quantity(Fraction(ratio * target.as_fraction()))
                current = MetricValueStatus(average_value=average)
                status = PodsMetricStatus(metric=metric.pods.metric, current=current)
                return Proposal(replicas, f"pods metric {name}", MetricStatus(type="Pods", pods=status))
            case "Object":
                assert metric.object is not None
                of = metric.object
                value = await self.source.object(
                    namespace, of.described_object.kind, of.described_object.name, of.metric.name
                )
                replicas, current = _by_target(value, of.target, present, sum(map(is_ready, pods)))
                status = ObjectMetricStatus(described_object=of.described_object, metric=of.metric, current=current)
                return Proposal(
                    replicas,
                    f"{of.described_object.kind} metric {of.metric.name}",
                    MetricStatus(type="Object", object=status),
                )
            case "External":
                assert metric.external is not None
                external = metric.external
                value = await self.source.external(namespace, external.metric.name)
                replicas, current = _by_target(value, external.target, present, sum(map(is_ready, pods)))
                status = ExternalMetricStatus(metric=external.metric, current=current)
                name = f"external metric {external.metric.name}(&LabelSelector{{}})"
                return Proposal(replicas, name, MetricStatus(type="External", external=status))
            case _:
                raise MetricsUnavailableError(f"unknown metric source type {metric.type!r}")

    async def _by_resource(self, metric: MetricSpec, present: int, selector: Selector, pods: Sequence[Pod]) -> Proposal:
        container = metric.container_resource
        source = metric.resource or container
        assert source is not None
        usage = await self.source.resource(
            self.hpa.metadata.namespace, selector, source.name, container.container if container else ""
        )
        ready = [pod.metadata.name for pod in pods if is_ready(pod)]
        missing = [pod.metadata.name for pod in pods]
        mine = {name: usage[name] for name in missing if name in usage}
        if not mine:
            raise MetricsUnavailableError(
                f"failed to get {source.name} usage: no metrics returned from resource metrics API"
            )
        average = Quantity(Fraction(sum((q.as_fraction() for q in mine.values()), Fraction(0)) / len(mine)))
        utilization = None
        if source.target.average_value is not None:
            target = source.target.average_value.as_fraction()
            name = f"{source.name} resource"
        else:
            requested = _requests(pods, source.name, container.container if container else None)
            share = Fraction(source.target.average_utilization or 80, 100)
            target = requested * share
            utilization = int(100 * average.as_fraction() / requested)
            name = f"{source.name} resource utilization (percentage of request)"
        _, _, replicas = usage_ratio(mine, target, ready, missing, present)
        current = MetricValueStatus(average_value=average, average_utilization=utilization)
        if container is not None:
            of = ContainerResourceMetricStatus(name=source.name, container=container.container, current=current)
            return Proposal(replicas, name, MetricStatus(type="ContainerResource", container_resource=of))
        return Proposal(
            replicas,
            name,
            MetricStatus(type="Resource", resource=ResourceMetricStatus(name=source.name, current=current)),
        )

    def _set_condition(self, type: str, status: str, reason: str, message: str) -> None:
        known = next((c for c in self.conditions if c.type == type), None)
        same = known is not None and known.status == status
        when = known.last_transition_time if known is not None and same else self.now.replace(microsecond=0)
        made = HorizontalPodAutoscalerCondition(
            type=type, status=status, reason=reason, message=message, last_transition_time=when
        )
        others = tuple(c for c in self.conditions if c.type != type)
        if known is None:
            self.conditions = (*others, made)
        else:
            self.conditions = tuple(made if c.type == type else c for c in self.conditions)

    def _result(
        self, current: int, desired: int, metrics: tuple[MetricStatus, ...], *, scaled: bool = False
    ) -> HorizontalPodAutoscalerStatus:
        return HorizontalPodAutoscalerStatus(
            observed_generation=self.hpa.metadata.generation or None,
            last_scale_time=self.now.replace(microsecond=0) if scaled else self.old.last_scale_time,
            current_replicas=current or None,
            desired_replicas=desired,
            current_metrics=metrics,
            conditions=self.conditions,
        )


def _by_target(value: Quantity, target: Any, present: int, ready: int) -> tuple[int, MetricValueStatus]:
    """The proposal of a single number: shared by all replicas, or held at a value."""
    if target.type == "AverageValue":
        replicas = by_average(value.as_fraction(), target.average_value.as_fraction(), present)
        share = Quantity(Fraction(value.as_fraction() / present)) if present else value
        return replicas, MetricValueStatus(average_value=share)
    ratio = Fraction(value.as_fraction() / target.value.as_fraction())
    return by_ratio(ratio, ready, present), MetricValueStatus(value=value)


def _requests(pods: Sequence[Pod], resource: str, container: str | None) -> Fraction:
    """The average request of a Pod; raises `MetricsUnavailableError` where one has none."""
    total = Fraction(0)
    for pod in pods:
        for each in pod.spec.containers:
            if container is not None and each.name != container:
                continue
            amount = each.resources.requests.get(resource) if each.resources else None
            if amount is None:
                name = f"{resource} in container {each.name} of Pod {pod.metadata.name}"
                raise MetricsUnavailableError(f"failed to get {resource} utilization: missing request for {name}")
            total += amount.as_fraction()
    if not pods or not total:
        raise MetricsUnavailableError(f"failed to get {resource} utilization: no Pods request any")
    return total / len(pods)


async def _view(api_version: str, kind: str, client: Client) -> View[Any]:
    known = lookup(api_version, kind)
    return view_of(known) if known is not None else await client.resolve(api_version, kind)
