"""Findings: what a run shows that a correct operator never does, and the oracles that read a finished trace."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any, Final, cast

import msgspec

from steersman.testing.explore.state import IGNORED, State
from steersman.testing.explore.trace import Commit, Trace
from steersman_cluster.objects import Object, dig
from steersman_cluster.storage import Storage

__all__ = ["ORACLES", "Finding", "failing", "is_custom", "leaks", "undone", "unready_children"]

ORACLES: Final = (
    "end-state", "leak", "invariant", "leader", "hot-loop", "not-settled", "undo", "status", "failing",
    "operator-ended", "scenario", "history",
)  # fmt: skip
"""The kinds of findings; `explored(allow=…)` turns one off."""
_CUSTOM: Final = "."
_CLUSTER_KINDS: Final = frozenset(
    {
        "customresourcedefinitions.apiextensions.k8s.io",
        "mutatingwebhookconfigurations.admissionregistration.k8s.io",
        "validatingwebhookconfigurations.admissionregistration.k8s.io",
    }
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One violation.

    Args:
        oracle: One of `ORACLES`.
        message: The problem, with the object.
        at: The virtual time in seconds.
        revision: The commit that shows it; 0 for the end of the run.
    """

    oracle: str
    message: str
    at: float = 0.0
    revision: int = 0

    def __str__(self) -> str:
        return f"{self.oracle}: {self.message}"


def leaks(trace: Trace, storage: Storage, ignore: frozenset[str]) -> list[str]:
    """Return the objects that the operator created and that still exist, if the scenario's own objects are all gone."""
    alive = {c.object: c for c in trace.commits if c.type == "ADDED"}
    for commit in trace.commits:
        if commit.type == "DELETED":
            alive.pop(commit.object, None)
    custom = [
        c for c in alive.values() if c.process == -1 and _CUSTOM in c.resource and not c.resource.endswith(".k8s.io")
        and c.resource.partition(".")[2] not in ("apps", "batch", "policy", "autoscaling")
    ]  # fmt: skip
    if custom or not any(c.process == -1 and c.type in ("MODIFIED", "DELETED") for c in trace.commits):
        return []
    if not _deleted_by_scenario(trace):
        return []
    return [
        c.object for c in alive.values()
        if c.process > 0 and c.resource not in IGNORED and c.resource not in ignore and c.resource not in _CLUSTER_KINDS
    ]  # fmt: skip


def _deleted_by_scenario(trace: Trace) -> bool:
    created = {c.object for c in trace.commits if c.process == -1 and c.type == "ADDED" and is_custom(c.resource)}
    return any(c.type == "DELETED" and c.object in created for c in trace.commits)


def is_custom(resource: str) -> bool:
    """Return whether a resource or kind with its group, such as `apps.example.com`, is not one of Kubernetes itself."""
    group = resource.partition(".")[2]
    return "." in group and not group.endswith(".k8s.io")


def undone(trace: Trace) -> list[tuple[str, int]]:
    """Return the objects whose specification the operator changed and changed back, with the revision of the latter."""
    by_object: dict[str, list[Commit]] = defaultdict(list)
    asked = [c.revision for c in trace.commits if c.process == -1]
    for commit in trace.commits:
        if commit.resource not in IGNORED:
            by_object[commit.object].append(commit)
    found: list[tuple[str, int]] = []
    for name, commits in by_object.items():
        if sum(c.process > 0 for c in commits) < 2:
            continue
        history: list[tuple[bytes, Commit]] = []
        for commit in commits:
            if commit.type == "DELETED":
                history.clear()
                continue
            content = _content(commit.after)
            if not history or history[-1][0] != content:
                history.append((content, commit))
            if len(history) < 3:
                continue
            if _is_undone(history[-3:], asked):
                found.append((name, commit.revision))
                break
    return found


def _is_undone(history: list[tuple[bytes, Commit]], asked: list[int]) -> bool:
    """Return whether the third state is the first one again, by the operator, and the scenario has not changed it."""
    (first, start), (_, middle), (last, end) = history
    if first != last or middle.process <= 0 or end.process <= 0:
        return False
    return not any(start.revision < revision < end.revision for revision in asked)


def failing(trace: Trace) -> list[str]:
    """Return the reconciles that still fail: the last one of each existing object, if it ended with an error.

    A reconcile without the lease does not count, because another process reconciles the object.
    """
    alive: set[str] = set()
    for commit in trace.commits:
        key = "/".join(part for part in (commit.namespace, commit.name) if part)
        (alive.discard if commit.type == "DELETED" else alive.add)(key)
    judged = (r for r in trace.reconciles if r.key in alive and not r.error.startswith("NotLeaderError"))
    last = {(r.controller, r.key): r for r in judged}
    return [
        f"{r.controller} {r.key} fails: {r.error}"
        for r in last.values()
        if r.error and not r.error.startswith(("RequeueError", "CancelledError"))
    ]


def _content(value: bytes) -> bytes:
    obj: dict[str, Any] = msgspec.json.decode(value)
    obj.pop("status", None)
    metadata = obj.pop("metadata", {})
    kept = {key: metadata[key] for key in ("labels", "annotations") if key in metadata}
    return msgspec.json.encode([obj, kept], order="sorted")


def unready_children(state: State, storage: Storage) -> list[str]:
    """Return the custom objects whose condition `Ready` or `Available` is true while a workload of theirs is not."""
    workloads = _workloads(state)
    custom = [f"{plural}.{group}" for group, plural in storage.resources() if is_custom(f"{plural}.{group}")]
    found: list[str] = []
    for resource in custom:
        for obj in state.list(resource):
            for kind, child in workloads.get(obj["metadata"]["uid"], ()) if _claims_ready(obj) else ():
                wanted = child.get("spec", {}).get("replicas", 1)
                ready = child.get("status", {}).get("readyReplicas", 0)
                if ready < wanted:
                    found.append(
                        f"{resource} {obj['metadata']['name']} is Ready, but {kind} {child['metadata']['name']} has "
                        f"{ready} of {wanted} ready replicas"
                    )
    return found


def _workloads(state: State) -> dict[str, list[tuple[str, dict[str, Any]]]]:
    """Return the workloads with their resources, by the uid of the controlling owner."""
    found: dict[str, list[tuple[str, dict[str, Any]]]] = defaultdict(list)
    for resource in ("deployments.apps", "statefulsets.apps"):
        for obj in state.list(resource):
            for owner in obj["metadata"].get("ownerReferences", ()):
                if owner.get("controller"):
                    found[owner["uid"]].append((resource, obj))
    return found


def _claims_ready(obj: Object) -> bool:
    conditions: Any = dig(obj, "status", "conditions")
    if not isinstance(conditions, list):
        return False
    found = [cast(Object, one) for one in cast(list[Any], conditions) if isinstance(one, dict)]
    return any(one.get("type") in ("Ready", "Available") and one.get("status") == "True" for one in found)
