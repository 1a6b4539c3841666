"""DaemonSets: one Pod on each eligible node.

A Pod is tied to its node by an affinity term and bound by the scheduler. Nodes that do not match the Pod, or whose
taints it does not tolerate, get none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from steersman.controller import RequeueError, Result
from steersman.k8s import ControllerRevision, DaemonSet, Node, Pod
from steersman.k8s.apps_v1 import DaemonSetStatus
from steersman.k8s.core_v1 import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodTemplateSpec,
    Toleration,
)
from steersman.models import ALL_NAMESPACES, Key, key_of, replace, scaled_value
from steersman.operator import Context, Operator, Watch
from steersman_cluster.controllers.creation import create_pods
from steersman_cluster.controllers.pods import (
    is_available,
    is_ready,
    phase_of,
    pod_from_template,
    seconds_to_available,
)
from steersman_cluster.controllers.scheduling.node_fit import selects_node, tolerates, untolerated
from steersman_cluster.controllers.workloads.adoption import claimed, watch_orphans
from steersman_cluster.controllers.workloads.revisions import REVISION_LABEL, current_revision, prune

__all__ = ["TOLERATIONS", "Plan", "plan", "pod_for_node", "register", "should_run", "target_node"]

TOLERATIONS = tuple(
    Toleration(key=f"node.kubernetes.io/{name}", operator="Exists", effect=effect)
    for name, effect in (
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    )
)
_NETWORK = Toleration(key="node.kubernetes.io/network-unavailable", operator="Exists", effect="NoSchedule")
_GENERATION = "deprecated.daemonset.template.generation"


def _all_sets(_: Node, ctx: Context) -> Iterable[Key]:
    return [key_of(ds) for ds in ctx.list(DaemonSet, namespace=ALL_NAMESPACES)]


def register(operator: Operator) -> None:
    """Declare the controller."""
    operator.controller(
        owns=[Pod, ControllerRevision],
        reads=[DaemonSet],
        watches=[Watch(Node, to=_all_sets), watch_orphans(Pod, DaemonSet)],
        terminating=True,
    )(reconcile)


def pod_for_node(ds: DaemonSet, template: PodTemplateSpec, revision: str, node: str) -> Pod:
    """The Pod of a node: the template, tied to the node by name, and tolerant of what nodes go through."""
    pod = pod_from_template(template, ds)
    name = NodeSelectorRequirement(key="metadata.name", operator="In", values=(node,))
    affinity = pod.spec.affinity or Affinity()
    of_node = affinity.node_affinity or NodeAffinity()
    required = of_node.required_during_scheduling_ignored_during_execution
    terms = required.node_selector_terms if required else ()
    tied = tuple(replace(term, match_fields=(name,)) for term in terms) or (NodeSelectorTerm(match_fields=(name,)),)
    of_node = replace(
        of_node, required_during_scheduling_ignored_during_execution=NodeSelector(node_selector_terms=tied)
    )
    wanted = (*TOLERATIONS, _NETWORK) if pod.spec.host_network else TOLERATIONS
    more = tuple(t for t in wanted if t not in pod.spec.tolerations)
    labels = {**pod.metadata.labels, REVISION_LABEL: revision}
    if (generation := ds.metadata.annotations.get(_GENERATION)) is not None:
        labels["pod-template-generation"] = generation
    return replace(
        pod,
        metadata=replace(pod.metadata, labels=labels),
        spec=replace(
            pod.spec,
            affinity=replace(affinity, node_affinity=of_node),
            tolerations=(*pod.spec.tolerations, *more),
        ),
    )


def target_node(pod: Pod) -> str:
    """The node of a daemon Pod, bound or not yet."""
    if pod.spec.node_name:
        return pod.spec.node_name
    of_node = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    required = of_node.required_during_scheduling_ignored_during_execution if of_node else None
    for term in required.node_selector_terms if required else ():
        for field in term.match_fields:
            if field.key == "metadata.name" and field.values:
                return field.values[0]
    return ""


def should_run(ds: DaemonSet, node: Node) -> tuple[bool, bool]:
    """Return whether a Pod belongs on the node, and whether one that is there may stay."""
    pod = pod_for_node(ds, ds.spec.template, "", node.metadata.name)
    if pod.spec.node_name and pod.spec.node_name != node.metadata.name:
        return False, False
    if not selects_node(pod, node):
        return False, False
    taints = node.spec.taints
    if untolerated(pod.spec.tolerations, taints) is None:
        return True, True
    fatal = [t for t in taints if t.effect == "NoExecute" and not any(tolerates(x, t) for x in pod.spec.tolerations)]
    return False, not fatal


class Plan(NamedTuple):
    """The Pods to create, by node, and the Pods to delete."""

    create: tuple[str, ...]
    delete: tuple[Pod, ...]
    failed: tuple[Pod, ...]


def plan(ds: DaemonSet, nodes: Sequence[Node], by_node: dict[str, list[Pod]]) -> Plan:
    """One Pod on every node that should have one; the oldest stays where there are several."""
    create: list[str] = []
    delete: list[Pod] = []
    failed: list[Pod] = []
    known = {node.metadata.name for node in nodes}
    for node in nodes:
        name = node.metadata.name
        pods = by_node.get(name, [])
        run, stay = should_run(ds, node)
        broken = [p for p in pods if phase_of(p) in ("Failed", "Succeeded") and p.metadata.deletion_timestamp is None]
        living = [p for p in pods if p.metadata.deletion_timestamp is None and p not in broken]
        failed += broken
        if run and not pods:
            create.append(name)
        elif stay:
            living.sort(key=lambda p: (p.metadata.creation_timestamp, p.metadata.name))
            current = [p for p in living if is_ready(p)] or living
            if len(living) > 1 and not _surges(ds):
                delete += [p for p in living if p is not current[0]]
        else:
            delete += living
    for name, pods in by_node.items():
        if name not in known:
            delete += [p for p in pods if p.metadata.deletion_timestamp is None]
    return Plan(tuple(create), tuple(delete), tuple(failed))


def _limits(ds: DaemonSet, wanted: int) -> tuple[int, int]:
    """Return the numbers of nodes that may have two Pods, and none, during an update."""
    rolling = ds.spec.update_strategy.rolling_update if ds.spec.update_strategy else None
    surge = scaled_value((rolling.max_surge if rolling else None) or 0, wanted, round_up=True)
    value = rolling.max_unavailable if rolling and rolling.max_unavailable is not None else 1
    down = scaled_value(value, wanted, round_up=True)
    return surge, down if surge or down else 1


def _surges(ds: DaemonSet) -> bool:
    return _limits(ds, 100)[0] > 0


def update(ds: DaemonSet, wanted: Sequence[str], by_node: dict[str, list[Pod]], revision: str, now: datetime) -> Plan:
    """The next step of a rolling update: which old Pods go, and on which nodes a new one comes beside the old."""
    surge, down = _limits(ds, len(wanted))
    ready = ds.spec.min_ready_seconds or 0
    create: list[str] = []
    candidates: list[Pod] = []
    broken: list[Pod] = []
    unavailable = surging = 0
    for node in wanted:
        living = [p for p in by_node.get(node, []) if p.metadata.deletion_timestamp is None]
        new = next((p for p in living if p.metadata.labels.get(REVISION_LABEL) == revision), None)
        old = next((p for p in living if p.metadata.labels.get(REVISION_LABEL) != revision), None)
        serves = any(is_available(p, ready, now) for p in living)
        if not serves:
            unavailable += 1
        if old is None:
            continue
        if surge:
            if new is not None:
                surging += 1
                if is_available(new, ready, now):
                    broken.append(old)  # its successor serves
            elif not is_available(old, ready, now):
                create.append(node)
            else:
                candidates.append(old)
        elif not serves:
            broken.append(old)
        else:
            candidates.append(old)
    if surge:
        room = max(0, surge - surging)
        return Plan((*create, *map(target_node, candidates[:room])), tuple(broken), ())
    return Plan((), (*broken, *candidates[: max(0, down - unavailable)]), ())


async def reconcile(ds: DaemonSet, ctx: Context) -> Result:
    """Place, give up and update Pods, then count."""
    await claimed(ctx, ds, Pod)
    revision, history = await current_revision(ctx, ds, ds.status.collision_count or 0)
    digest = revision.metadata.labels[REVISION_LABEL]
    nodes = ctx.list(Node)
    if ds.metadata.deletion_timestamp is None:
        step = plan(ds, nodes, _by_node(ctx))
        await _carry_out(ds, step, digest, ctx)
        if not step.create and not step.delete and ds.spec.update_strategy.type == "RollingUpdate":
            wanted = [node.metadata.name for node in nodes if should_run(ds, node)[0]]
            await _carry_out(ds, update(ds, wanted, _by_node(ctx), digest, ctx.now()), digest, ctx)
    pods = ctx.list(Pod, owned=True)
    used = {pod.metadata.labels.get(REVISION_LABEL) for pod in pods}
    in_use = [r.metadata.name for r in history if r.metadata.labels.get(REVISION_LABEL) in used]
    await prune(ctx, history, [*in_use, revision.metadata.name], ds.spec.revision_history_limit)
    status = daemon_status(ds, nodes, _by_node(ctx), digest, ctx.now())
    return Result(status=status, requeue_after=seconds_to_available(pods, ds.spec.min_ready_seconds or 0, ctx.now()))


def _by_node(ctx: Context) -> dict[str, list[Pod]]:
    found: dict[str, list[Pod]] = {}
    for pod in ctx.list(Pod, owned=True):
        found.setdefault(target_node(pod), []).append(pod)
    return found


async def _carry_out(ds: DaemonSet, step: Plan, digest: str, ctx: Context) -> None:
    for pod in step.failed:
        where = f"{ds.metadata.namespace}/{pod.metadata.name} on node {target_node(pod)}"
        message = f"Found failed daemon pod {where}, will try to kill it"
        ctx.event("FailedDaemonPod", message, type="Warning", action="Delete")
    for pod in (*step.delete, *step.failed):
        if await ctx.delete(pod):
            ctx.event("SuccessfulDelete", f"Deleted pod: {pod.metadata.name}", action="Delete")
    problem = await create_pods(ctx, [pod_for_node(ds, ds.spec.template, digest, node) for node in step.create])
    if problem is not None:
        ctx.event("FailedCreate", f"Error creating: {problem}", type="Warning", action="Create")
        raise RequeueError(f"not all Pods could be made: {problem}", after=1.0)


def daemon_status(
    ds: DaemonSet, nodes: Sequence[Node], by_node: dict[str, list[Pod]], digest: str, now: datetime
) -> DaemonSetStatus:
    """Count nodes: those that should have a Pod, and what theirs are like; and those that should not."""
    desired = scheduled = misscheduled = ready = available = updated = 0
    for node in nodes:
        pods = by_node.get(node.metadata.name, [])
        if not should_run(ds, node)[0]:
            misscheduled += bool(pods)
            continue
        desired += 1
        if not pods:
            continue
        scheduled += 1
        eldest = min(pods, key=lambda p: (p.metadata.creation_timestamp, p.metadata.name))
        ready += is_ready(eldest)
        available += is_available(eldest, ds.spec.min_ready_seconds or 0, now)
        updated += any(p.metadata.labels.get(REVISION_LABEL) == digest for p in pods)
    return DaemonSetStatus(
        observed_generation=ds.metadata.generation,
        desired_number_scheduled=desired,
        current_number_scheduled=scheduled,
        number_misscheduled=misscheduled,
        number_ready=ready,
        number_available=available or None,
        number_unavailable=(desired - available) or None,
        updated_number_scheduled=updated or None,
        collision_count=ds.status.collision_count,
        conditions=ds.status.conditions,
    )
