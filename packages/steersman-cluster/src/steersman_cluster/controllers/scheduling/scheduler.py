"""The scheduler: binds each pending Pod to the best feasible node, and preempts Pods of lower priority.

What bound Pods ask of their nodes is kept in a ledger that follows the watch, so a decision costs as much as there
are nodes, not Pods. A decision is recorded before its binding is sent, so that two Pods cannot get the same resources.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from steersman.cache import Change
from steersman.client import Conflict, NotFound
from steersman.controller import RequeueError
from steersman.k8s import Node, PersistentVolumeClaim, Pod, PodDisruptionBudget, StorageClass
from steersman.models import ALL_NAMESPACES, Key, MergePatch, StrategicMergePatch, encode, key_of
from steersman.operator import Context, Operator, Watch
from steersman_cluster.controllers.pods import NODE_INDEX, UNBOUND, phase_of, pod_condition
from steersman_cluster.controllers.scheduling.node_fit import Amounts, has_anti_affinity, requests_of
from steersman_cluster.controllers.scheduling.placement import (
    NOT_HELPFUL,
    Placement,
    Victims,
    least_disruptive,
    priority_of,
    unplaced,
)
from steersman_cluster.controllers.scheduling.topology_spread import Bound, PodGroup, group_of
from steersman_cluster.controllers.storage.claims import SELECTED_NODE, claims_of, waits_for_consumer

__all__ = ["NodeUsage", "Scheduler", "register"]

NAME = "default-scheduler"
NOT_ELIGIBLE = "no new claims to deallocate, preemption: not eligible due to preemptionPolicy=Never."
_PREEMPTED = "PreemptionByScheduler"
_TIME = "%Y-%m-%dT%H:%M:%SZ"


class NodeUsage:
    """The requests of the Pods on each node, by the uid of the Pod."""

    def __init__(self) -> None:
        self._pods: dict[str, tuple[str, Amounts, PodGroup | None]] = {}
        self._groups: dict[PodGroup, Counter[str]] = {}
        self._used: dict[str, Counter[str]] = {}
        self.exclusive: dict[str, Bound] = {}
        """The bound Pods with required anti-affinity, by uid."""

    def __contains__(self, uid: object) -> bool:
        return uid in self._pods

    def used(self, node: str) -> Amounts:
        """Return the resources that the Pods of a node request."""
        return self._used.get(node) or Counter()

    def node_of(self, pod: Pod) -> str:
        """The node that a Pod has, or is about to have."""
        return pod.spec.node_name or self._pods.get(pod.metadata.uid, ("",))[0]

    def peers(self, pod: Pod) -> Mapping[str, int]:
        """The number of Pods of the same group on each node."""
        group = group_of(pod)
        return self._groups.get(group, {}) if group is not None else {}

    def add(self, uid: str, node: str, amounts: Amounts, group: PodGroup | None = None) -> None:
        """Count a Pod on a node, instead of where it was counted before."""
        if self._pods.get(uid, ("",))[0] == node:
            return
        self.remove(uid)
        self._pods[uid] = node, amounts, group
        if group is not None:
            self._groups.setdefault(group, Counter())[node] += 1
        self._used.setdefault(node, Counter()).update(amounts)

    def remove(self, uid: str) -> None:
        """Remove the booking of a Pod."""
        self.exclusive.pop(uid, None)
        if (known := self._pods.pop(uid, None)) is not None:
            node, amounts, group = known
            self._used[node].subtract(amounts)
            if group is not None:
                self._remove_from_group(group, node)

    def _remove_from_group(self, group: PodGroup, node: str) -> None:
        counts = self._groups[group]
        counts[node] -= 1
        if not counts[node]:
            del counts[node]
        if not counts:
            del self._groups[group]

    def follow(self, change: Change) -> None:
        """Keep up with the watch; a handler of the Pods' informer."""
        if change.new is None:
            self.remove(change.entry.uid)
            return
        pod = change.new.object(Pod)
        if phase_of(pod) in ("Succeeded", "Failed"):
            self.remove(change.new.uid)
        elif pod.spec.node_name:
            self.count(pod, pod.spec.node_name)

    def count(self, pod: Pod, node: str) -> None:
        """Book a Pod on a node."""
        self.add(pod.metadata.uid, node, requests_of(pod), group_of(pod))
        if has_anti_affinity(pod):
            self.exclusive[pod.metadata.uid] = pod, node


class Scheduler:
    """Reconciles Pods that have no node."""

    def __init__(self) -> None:
        self.usage = NodeUsage()
        self._nominated: dict[str, tuple[Pod, str]] = {}

    async def start(self, ctx: Context) -> None:
        """Fill the ledger before the first decision."""
        ctx.cache.informer(Pod).add_handler(self.usage.follow)
        ctx.cache.informer(Pod).add_handler(self._follow)

    def _follow(self, change: Change) -> None:
        """Remove a reservation that is used or given up."""
        if change.entry.uid in self._nominated and (change.new is None or change.new.object(Pod).spec.node_name):
            del self._nominated[change.entry.uid]

    async def reconcile(self, pod: Pod, ctx: Context) -> None:
        """Bind the Pod, or set its condition PodScheduled with the reason."""
        if not _waits(pod):
            return
        if (gates := pod.spec.scheduling_gates) and gates:
            return
        if pod.metadata.uid in self.usage:
            return  # it is bound, and the watch has not delivered that yet: its own booking must not keep it out
        missing, waiting = self._claims(pod, ctx)
        node, message, victims = (None, missing, None) if missing else self.place(pod, ctx)
        if node is None:
            if victims is not None and self._waits_for_capacity(pod, ctx):
                return
            if victims is not None:
                await self._preempt(pod, victims, ctx)
            await _unschedulable(pod, ctx, message, victims.node if victims is not None else "")
            return
        if waiting:
            await _select_node(waiting, node, ctx)  # their binding brings the Pod back here
            return
        self.usage.count(pod, node)
        try:
            await _bind(pod, node, ctx)
        except BaseException as problem:
            self.usage.remove(pod.metadata.uid)
            if isinstance(problem, Conflict | NotFound):
                raise RequeueError(f"the Pod changed meanwhile: {problem}", after=0.2) from None
            raise
        where = f"Successfully assigned {pod.metadata.namespace}/{pod.metadata.name} to {node}"
        ctx.event("Scheduled", where, action="Binding")

    def place(self, pod: Pod, ctx: Context) -> tuple[str | None, str, Victims | None]:
        """Return the node for a Pod, or the reason for none and the victims of preemption."""
        nodes = ctx.list(Node)
        if not nodes:
            return None, "no nodes available to schedule pods", None
        placing = Placement(
            pod,
            nodes,
            lambda name: self._used(name, pod),
            lambda: self._bound(ctx),
            tuple(self.usage.exclusive.values()),
            self.usage.peers(pod),
        )
        problems = {node.metadata.name: placing.problem(node) for node in nodes}
        if fitting := [node for node in nodes if problems[node.metadata.name] is None]:
            return placing.best(fitting), "", None
        refused = {name: problem for name, problem in problems.items() if problem is not None}
        texts = [problem.text for problem in refused.values()]
        if pod.spec.preemption_policy == "Never":
            return None, f"{unplaced(len(nodes), texts, None)} {NOT_ELIGIBLE}", None
        budgets = ctx.list(PodDisruptionBudget, namespace=ALL_NAMESPACES)
        hopeful = [node for node in nodes if refused[node.metadata.name].might_fit]
        found = [placing.victims(node, budgets) for node in hopeful]
        if (victims := least_disruptive([each for each in found if not isinstance(each, str)])) is not None:
            return None, unplaced(len(nodes), texts, None), victims
        helped = Counter(each for each in found if isinstance(each, str))
        helped[NOT_HELPFUL] += len(nodes) - len(hopeful)
        return None, unplaced(len(nodes), texts, +helped), None

    def _used(self, node: str, pod: Pod) -> Amounts:
        """Return the requests on a node, with the reservations of Pods of at least the same priority."""
        used = self.usage.used(node)
        mine, uid = priority_of(pod), pod.metadata.uid
        kept = [p for p, at in self._nominated.values() if at == node and priority_of(p) >= mine]
        others = [p for p in kept if p.metadata.uid != uid]
        if not others:
            return used
        total = Counter(used)
        for other in others:
            total.update(requests_of(other))
        return total

    def _bound(self, ctx: Context) -> list[Bound]:
        pods = ((pod, self.usage.node_of(pod)) for pod in ctx.list(Pod, namespace=ALL_NAMESPACES))
        return [(pod, node) for pod, node in pods if node and phase_of(pod) not in ("Succeeded", "Failed")]

    def _waits_for_capacity(self, pod: Pod, ctx: Context) -> bool:
        """Return whether victims of this Pod's preemption are terminating."""
        node = pod.status.nominated_node_name
        if not node:
            return False
        mine = priority_of(pod)
        leaving = (p for p, at in self._bound(ctx) if at == node and p.metadata.deletion_timestamp is not None)
        return any(priority_of(p) < mine and _is_preempted(p) for p in leaving)

    async def _preempt(self, pod: Pod, victims: Victims, ctx: Context) -> None:
        """Evict the victims and reserve the resources of the node for this Pod."""
        self._nominated[pod.metadata.uid] = pod, victims.node
        for victim in victims.pods:
            if await _evict(victim, ctx):
                told = f"Preempted by pod {pod.metadata.uid} on node {victims.node}"
                ctx.event("Preempted", told, action="Preempting", about=victim)

    def _claims(self, pod: Pod, ctx: Context) -> tuple[str, list[PersistentVolumeClaim]]:
        """Return the errors of the volume claims of a Pod, and the claims that wait for a node."""
        waiting: list[PersistentVolumeClaim] = []
        for whole in claims_of(pod):
            name = whole.partition("/")[2]
            claim = ctx.get(PersistentVolumeClaim, name)
            if claim is None:
                return f'persistentvolumeclaim "{name}" not found', []
            if claim.metadata.deletion_timestamp is not None:
                return f'persistentvolumeclaim "{name}" is being deleted', []
            if claim.status.phase == "Bound":
                continue
            of = claim.spec.storage_class_name or ""
            if not waits_for_consumer(ctx.get(StorageClass, of) if of else None):
                return "pod has unbound immediate PersistentVolumeClaims", []
            waiting.append(claim)
        return "", waiting


async def _select_node(claims: Iterable[PersistentVolumeClaim], node: str, ctx: Context) -> None:
    for claim in claims:
        if SELECTED_NODE not in claim.metadata.annotations:
            metadata = {"uid": claim.metadata.uid, "annotations": {SELECTED_NODE: node}}
            await ctx.patch(claim, MergePatch({"metadata": metadata}))


def _waits(pod: Pod) -> bool:
    spec = pod.spec
    ours = not spec.node_name and (spec.scheduler_name or NAME) == NAME
    return ours and pod.metadata.deletion_timestamp is None and phase_of(pod) == "Pending"


async def _bind(pod: Pod, node: str, ctx: Context) -> None:
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod.metadata.name, "namespace": pod.metadata.namespace, "uid": pod.metadata.uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    path = f"/api/v1/namespaces/{pod.metadata.namespace}/pods/{pod.metadata.name}/binding"
    await ctx.client.raw.request("POST", path, body=encode(binding))


async def _evict(pod: Pod, ctx: Context) -> bool:
    """Mark a Pod as preempted and delete it; false when it is gone already."""
    if pod.metadata.deletion_timestamp is not None:
        return False
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": _PREEMPTED,
        "message": f"{NAME}: preempting to accommodate a higher priority pod",
        "lastTransitionTime": ctx.now().strftime(_TIME),
        "observedGeneration": pod.metadata.generation,
    }
    body = {"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [condition]}}
    try:
        await ctx.patch(pod, StrategicMergePatch(body), subresource="status")
    except (NotFound, Conflict):
        return False
    return await ctx.delete(pod)


def _is_preempted(pod: Pod) -> bool:
    condition = pod_condition(pod, "DisruptionTarget")
    return condition is not None and condition.status == "True" and condition.reason == _PREEMPTED


async def _unschedulable(pod: Pod, ctx: Context, message: str, nominated: str = "") -> None:
    known = pod_condition(pod, "PodScheduled")
    same = (pod.status.nominated_node_name or "") == nominated
    if known is not None and known.status == "False" and known.message == message and same:
        return
    condition: dict[str, Any] = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    condition |= {"message": message, "observedGeneration": pod.metadata.generation}
    if known is None or known.status != "False":
        condition["lastTransitionTime"] = ctx.now().strftime(_TIME)
    status: dict[str, Any] = {"conditions": [condition]}
    if not same:
        status["nominatedNodeName"] = nominated or None
    body = {"metadata": {"uid": pod.metadata.uid}, "status": status}
    try:
        await ctx.patch(pod, StrategicMergePatch(body), subresource="status")
    except NotFound:
        return
    except Conflict as problem:
        raise RequeueError(f"the Pod changed meanwhile: {problem}", after=0.2) from None
    ctx.event("FailedScheduling", message, type="Warning", action="Scheduling")


def _all_waiting(_: Any, ctx: Context) -> Iterable[Key]:
    """Return all Pods without a node, because resources may have become free."""
    return [key_of(pod) for pod in ctx.list(Pod, index=(NODE_INDEX, UNBOUND), namespace=ALL_NAMESPACES)]


def _frees_capacity(pod: Pod) -> bool:
    return bool(pod.spec.node_name) and phase_of(pod) in ("Succeeded", "Failed")


def register(operator: Operator) -> None:
    """Declare the controller."""
    scheduler = Scheduler()
    operator.on_startup(scheduler.start)
    from steersman.controller import created, deleted, where

    operator.controller(
        name="scheduler",
        reads=[Pod, StorageClass, PodDisruptionBudget],
        watches=[
            Watch(Node, to=_all_waiting),
            Watch(Pod, to=_all_waiting, where=deleted | (where(_frees_capacity) & ~created)),
            Watch(PersistentVolumeClaim, to=_all_waiting),
            Watch(StorageClass, to=_all_waiting),
        ],
        where=_waits,
        workers=8,
    )(scheduler.reconcile)
