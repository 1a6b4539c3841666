"""Deletion of namespaces: their Pods are deleted first, then all other objects, and then they are finalized.

The remaining objects are listed from the server and not from a cache: if a namespace were removed too early, objects in
it would be unreachable.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple

from steersman.client import ApiError, MethodNotAllowed, NotFound
from steersman.controller import Result
from steersman.k8s import Namespace
from steersman.k8s.core_v1 import NamespaceCondition, NamespaceStatus
from steersman.models import encode
from steersman.operator import Context, Operator
from steersman_cluster.controllers.discovery import Served, served_kinds

__all__ = ["Remaining", "conditions_of", "register"]

FINALIZER = "kubernetes"
_SUCCESS_CONDITIONS = {
    "NamespaceDeletionDiscoveryFailure": ("ResourcesDiscovered", "All resources successfully discovered"),
    "NamespaceDeletionGroupVersionParsingFailure": (
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    "NamespaceDeletionContentFailure": (
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    "NamespaceContentRemaining": ("ContentRemoved", "All content successfully removed"),
    "NamespaceFinalizersRemaining": ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
}


class Remaining(NamedTuple):
    """The state of a namespace after deleting: remaining objects by kind, finalizers, and errors."""

    objects: Mapping[str, int]
    finalizers: Mapping[str, int]
    undiscovered: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


def register(operator: Operator) -> None:
    """Declare the controller."""
    operator.controller(where=_is_terminating, terminating=True, workers=8)(reconcile)


def _is_terminating(namespace: Namespace) -> bool:
    return namespace.metadata.deletion_timestamp is not None


async def reconcile(namespace: Namespace, ctx: Context) -> Result | None:
    """Delete the objects in a namespace, and finalize it when nothing is left."""
    finalizers = namespace.spec.finalizers
    if not _is_terminating(namespace) or FINALIZER not in finalizers:
        return None
    kinds, undiscovered = await served_kinds(ctx.client)
    mine = [k for k in kinds if k.view.info.namespaced and {"delete", "list"} <= k.verbs]
    pods = [kind for kind in mine if kind.group_resource == ("", "pods")]
    left = _together(pods, [await _empty(kind, namespace.metadata.name, ctx) for kind in pods], undiscovered)
    if left.objects:  # OrderedNamespaceDeletion (KEP-5080); the conditions do not count the remaining Pods, as upstream
        return _waiting(namespace, left._replace(objects={}, finalizers={}), ctx)
    others = [kind for kind in mine if kind not in pods]
    answers = await asyncio.gather(*(_empty(kind, namespace.metadata.name, ctx) for kind in others))
    rest = _together(others, answers, undiscovered)
    left = rest._replace(problems=(*left.problems, *rest.problems))
    if not left.objects and not left.undiscovered and not left.problems:
        await _finalize(namespace, ctx)
        return None
    return _waiting(namespace, left, ctx)


def _waiting(namespace: Namespace, left: Remaining, ctx: Context) -> Result:
    """Return the status of a namespace that still has content, and the time of the next attempt."""
    conditions = conditions_of(namespace.status.conditions, left, ctx.now())
    status = NamespaceStatus(phase="Terminating", conditions=conditions)
    return Result(status=status, requeue_after=0.2 if ctx.request is None or ctx.request.attempt < 3 else 1.0)


class _DeleteResult(NamedTuple):
    objects: int
    finalizers: Counter[str]
    problem: str = ""


async def _empty(kind: Served, namespace: str, ctx: Context) -> _DeleteResult:
    """Delete all objects of one kind, and return the remaining ones."""
    info = kind.view.info
    try:
        page = await ctx.client.list(kind.view, namespace=namespace, resource_version=None)
        if not page.items:
            return _DeleteResult(0, Counter())
        if "deletecollection" in kind.verbs:
            await ctx.client.delete_collection(kind.view, namespace=namespace, propagation="Background")
        else:
            for item in page.items:
                await ctx.client.delete(kind.view, item.metadata.name, namespace=namespace, missing_ok=True)
        page = await ctx.client.list(kind.view, namespace=namespace)
    except (NotFound, MethodNotAllowed):
        return _DeleteResult(0, Counter())
    except ApiError as problem:
        return _DeleteResult(0, Counter(), f"{info.plural}: {problem}")
    return _DeleteResult(len(page.items), Counter(f for item in page.items for f in item.metadata.finalizers))


def _together(kinds: Iterable[Served], answers: Iterable[_DeleteResult], undiscovered: Iterable[str]) -> Remaining:
    objects: dict[str, int] = {}
    finalizers: Counter[str] = Counter()
    problems: list[str] = []
    for kind, answer in zip(kinds, answers, strict=True):
        if answer.objects:
            objects[f"{kind.view.info.plural}.{kind.view.info.group}"] = answer.objects
        finalizers.update(answer.finalizers)
        if answer.problem:
            problems.append(answer.problem)
    return Remaining(objects, finalizers, tuple(undiscovered), tuple(problems))


def conditions_of(old: Iterable[NamespaceCondition], left: Remaining, now: datetime) -> tuple[NamespaceCondition, ...]:
    """The five conditions of a namespace that is being deleted."""
    said = {name: ("False", reason, message) for name, (reason, message) in _SUCCESS_CONDITIONS.items()}
    if left.undiscovered:
        message = f"Discovery failed for some groups, {len(left.undiscovered)} failing: {', '.join(left.undiscovered)}"
        said["NamespaceDeletionDiscoveryFailure"] = ("True", "DiscoveryFailed", message)
    if left.problems:
        count, texts = len(left.problems), ", ".join(sorted(left.problems))
        message = f"Failed to delete all resource types, {count} remaining: {texts}"
        said["NamespaceDeletionContentFailure"] = ("True", "ContentDeletionFailed", message)
    if left.objects:
        parts = sorted(f"{name} has {count} resource instances" for name, count in left.objects.items())
        message = f"Some resources are remaining: {', '.join(parts)}"
        said["NamespaceContentRemaining"] = ("True", "SomeResourcesRemain", message)
    if left.finalizers:
        parts = sorted(f"{name} in {count} resource instances" for name, count in left.finalizers.items())
        message = f"Some content in the namespace has finalizers remaining: {', '.join(parts)}"
        said["NamespaceFinalizersRemaining"] = ("True", "SomeFinalizersRemain", message)
    known = {c.type: c for c in old}
    found: list[NamespaceCondition] = [c for c in known.values() if c.type not in said]
    for name, (status, reason, message) in said.items():
        before = known.get(name)
        same = before is not None and before.status == status
        when = before.last_transition_time if before is not None and same else now.replace(microsecond=0)
        found.append(
            NamespaceCondition(type=name, status=status, reason=reason, message=message, last_transition_time=when)
        )
    return tuple(found)


async def _finalize(namespace: Namespace, ctx: Context) -> None:
    left = [f for f in namespace.spec.finalizers if f != FINALIZER]
    body = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": namespace.metadata.name, "uid": namespace.metadata.uid},
        "spec": {"finalizers": left},
    }
    try:
        path = f"/api/v1/namespaces/{namespace.metadata.name}/finalize"
        await ctx.client.raw.request("PUT", path, body=encode(body))
    except NotFound:
        return
