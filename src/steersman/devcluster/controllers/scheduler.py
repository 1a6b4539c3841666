"""The scheduler: binds each pending Pod to the least loaded node that can run it.

What bound Pods ask of their nodes is kept in a ledger that follows the watch, so a decision costs as much as there
are nodes, not Pods. A decision is booked before its binding is sent, so no two Pods get the same room.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from steersman.cache import Change
from steersman.client import Conflict, NotFound
from steersman.controller import Retry
from steersman.devcluster.controllers.claims import SELECTED_NODE, claims_of, waits_for_consumer
from steersman.devcluster.controllers.fitting import Amounts, affinity_problem, node_problem, preference, requests_of
from steersman.devcluster.controllers.pods import NODE_INDEX, UNBOUND, phase_of, pod_condition
from steersman.k8s import Node, PersistentVolumeClaim, Pod, StorageClass
from steersman.models import Key, MergePatch, StrategicMergePatch, encode, key_of
from steersman.operator import ALL_NAMESPACES, Context, Operator, Watch

__all__ = ["Ledger", "Scheduler", "register"]

NAME = "default-scheduler"


class Ledger:
    """What the Pods on each node ask for, by the uid of the Pod."""

    def __init__(self) -> None:
        self._booked: dict[str, tuple[str, Amounts]] = {}
        self._used: dict[str, Counter[str]] = {}

    def used(self, node: str) -> Amounts:
        return self._used.get(node) or Counter()

    def book(self, uid: str, node: str, amounts: Amounts) -> None:
        """Count a Pod on a node, instead of where it was counted before."""
        if self._booked.get(uid, ("",))[0] == node:
            return
        self.release(uid)
        self._booked[uid] = node, amounts
        self._used.setdefault(node, Counter()).update(amounts)

    def release(self, uid: str) -> None:
        """Count a Pod no more."""
        if (known := self._booked.pop(uid, None)) is not None:
            self._used[known[0]].subtract(known[1])

    def follow(self, change: Change) -> None:
        """Keep up with the watch; a handler of the Pods' informer."""
        if change.new is None:
            self.release(change.entry.uid)
            return
        pod = change.new.object(Pod)
        if phase_of(pod) in ("Succeeded", "Failed"):
            self.release(change.new.uid)
        elif pod.spec.node_name:
            self.book(change.new.uid, pod.spec.node_name, requests_of(pod))


class Scheduler:
    """Reconciles Pods that have no node."""

    def __init__(self) -> None:
        self.ledger = Ledger()

    async def start(self, ctx: Context) -> None:
        """Fill the ledger before the first decision."""
        ctx.cache.informer(Pod).add_handler(self.ledger.follow)

    async def reconcile(self, pod: Pod, ctx: Context) -> None:
        """Bind the Pod, or say why it cannot be."""
        if not _waits(pod):
            return
        if (gates := pod.spec.scheduling_gates) and gates:
            return
        missing, waiting = self._claims(pod, ctx)
        node, message = (None, missing) if missing else self.choose(pod, ctx)
        if node is None:
            await _unschedulable(pod, ctx, message)
            return
        if waiting:
            await _select_node(waiting, node, ctx)  # their binding brings the Pod back here
            return
        self.ledger.book(pod.metadata.uid, node, requests_of(pod))
        try:
            await _bind(pod, node, ctx)
        except BaseException as problem:
            self.ledger.release(pod.metadata.uid)
            if isinstance(problem, Conflict | NotFound):
                raise Retry(f"the Pod changed meanwhile: {problem}", after=0.2) from None
            raise
        where = f"Successfully assigned {pod.metadata.namespace}/{pod.metadata.name} to {node}"
        ctx.event("Scheduled", where, action="Binding")

    def choose(self, pod: Pod, ctx: Context) -> tuple[str | None, str]:
        """The node for a Pod, or `None` and why there is none."""
        wants = requests_of(pod)
        nodes = ctx.list(Node)
        spec: Any = pod.spec
        selective = spec.affinity is not None and (spec.affinity.pod_affinity or spec.affinity.pod_anti_affinity)
        others = [p for p in ctx.list(Pod, namespace=ALL_NAMESPACES) if p.spec.node_name] if selective else ()
        labels = {node.metadata.name: node.metadata.labels for node in nodes}
        problems: Counter[str] = Counter()
        fitting: list[tuple[int, float, str]] = []
        for node in nodes:
            name = node.metadata.name
            used = self.ledger.used(name)
            problem = node_problem(pod, node, used, wants)
            if not problem and selective:
                problem = affinity_problem(pod, node, others, lambda n: labels.get(n, {}))
            if problem:
                problems[problem] += 1
            else:
                fitting.append((-preference(pod, node), used.get("pods", 0), name))
        if fitting:
            return min(fitting)[2], ""
        if not nodes:
            return None, "no nodes available to schedule pods"
        reasons = ", ".join(sorted(f"{count} {reason}" for reason, count in problems.items()))
        return None, (
            f"0/{len(nodes)} nodes are available: {reasons}. no new claims to deallocate, preemption: "
            f"0/{len(nodes)} nodes are available: {len(nodes)} Preemption is not helpful for scheduling."
        )

    def _claims(self, pod: Pod, ctx: Context) -> tuple[str, list[PersistentVolumeClaim]]:
        """What is wrong with the volume claims of a Pod, and those that wait to be told a node."""
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


async def _unschedulable(pod: Pod, ctx: Context, message: str) -> None:
    known = pod_condition(pod, "PodScheduled")
    if known is not None and known.status == "False" and known.message == message:
        return
    changed = known is None or known.status != "False"
    condition: dict[str, Any] = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    condition |= {"message": message, "observedGeneration": pod.metadata.generation}
    if changed:
        condition["lastTransitionTime"] = ctx.now().strftime("%Y-%m-%dT%H:%M:%SZ")
    body = {"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [condition]}}
    try:
        await ctx.patch(pod, StrategicMergePatch(body), subresource="status")
    except (NotFound, Conflict):
        return
    ctx.event("FailedScheduling", message, type="Warning", action="Scheduling")


def _all_waiting(_: Any, ctx: Context) -> Iterable[Key]:
    """Every Pod without a node: room may have come."""
    return [key_of(pod) for pod in ctx.list(Pod, index=(NODE_INDEX, UNBOUND), namespace=ALL_NAMESPACES)]


def _frees_room(pod: Pod) -> bool:
    return bool(pod.spec.node_name) and phase_of(pod) in ("Succeeded", "Failed")


def register(operator: Operator) -> None:
    """Declare the controller."""
    scheduler = Scheduler()
    operator.on_startup(scheduler.start)
    from steersman.controller import created, deleted, where

    operator.controller(
        name="scheduler",
        reads=[Pod, StorageClass],
        watches=[
            Watch(Node, to=_all_waiting),
            Watch(Pod, to=_all_waiting, where=deleted | (where(_frees_room) & ~created)),
            Watch(PersistentVolumeClaim, to=_all_waiting),
        ],
        where=_waits,
        workers=8,
    )(scheduler.reconcile)
