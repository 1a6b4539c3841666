"""The state of `steersman dev` as plain data: objects and children, queues, recent reconciles, Events, log.

The session updates it, the view draws it. Summaries of objects are pure functions of their JSON.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

__all__ = ["Branch", "DevState", "EventLine", "Queue", "Ran", "forest", "log_line", "summary"]

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Branch:
    """An object and its dependents."""

    kind: str
    namespace: str
    name: str
    said: str
    tone: str
    """`good`, `bad`, `busy` or empty."""
    children: tuple[Branch, ...] = ()


@dataclass(frozen=True, slots=True)
class Queue:
    """The queue and the workers of a controller."""

    controller: str
    depth: int
    active: int
    workers: int
    reconciles: int
    errors: int


@dataclass(frozen=True, slots=True)
class Ran:
    """One finished reconcile."""

    at: str
    controller: str
    key: str
    seconds: float
    ok: bool
    result: str


@dataclass(frozen=True, slots=True)
class EventLine:
    """One Event of the cluster."""

    at: str
    warning: bool
    about: str
    reason: str
    message: str


@dataclass(slots=True)
class DevState:
    """All data that the view draws."""

    target: str
    kubeconfig: str = ""
    url: str = ""
    log_file: str = ""
    """The path of the complete log."""
    operator: str = "starting"
    running: bool = False
    roots: tuple[Branch, ...] = ()
    queues: tuple[Queue, ...] = ()
    ran: deque[Ran] = field(default_factory=lambda: deque[Ran](maxlen=50))
    events: tuple[EventLine, ...] = ()
    log: deque[str] = field(default_factory=lambda: deque[str](maxlen=500))
    version: int = 0
    """The number of changes; the view draws each state once."""

    def changed(self) -> None:
        """Count a change, so that the view is drawn again."""
        self.version += 1

    def report(self, line: bytes, now: str) -> None:
        """Apply one report of the operator's process."""
        try:
            said: dict[str, Any] = json.loads(line)
        except ValueError:
            return
        if "queues" in said:
            self.queues = tuple(
                Queue(name, *(int(q.get(f, 0)) for f in ("depth", "active", "workers", "reconciles", "errors")))
                for name, q in sorted(cast("dict[str, dict[str, float]]", said["queues"]).items())
            )
            if self.queues and not self.running:
                self.running, self.operator = True, "running"
        else:
            key = f"{said['namespace']}/{said['name']}" if said["namespace"] else said["name"]
            self.ran.append(Ran(now, said["controller"], key, said["seconds"], said["ok"], said["result"]))
        self.changed()


def forest(roots: Iterable[Object], others: Iterable[Object]) -> tuple[Branch, ...]:
    """Return the root objects with all their dependents, by owner references."""
    owned: dict[str, list[Object]] = {}
    for obj in others:
        for owner in obj["metadata"].get("ownerReferences") or ():
            owned.setdefault(owner["uid"], []).append(obj)

    def grow(obj: Object, seen: frozenset[str]) -> Branch:
        metadata = obj["metadata"]
        uid = metadata.get("uid", "")
        below = () if uid in seen else tuple(grow(child, seen | {uid}) for child in owned.get(uid, ()))
        said, tone = summary(obj)
        return Branch(obj["kind"], metadata.get("namespace", ""), metadata["name"], said, tone, below)

    return tuple(grow(root, frozenset()) for root in roots)


def summary(obj: Mapping[str, Any]) -> tuple[str, str]:
    """Return a short description of an object's state, and its level."""
    metadata, spec = obj["metadata"], cast("dict[str, Any]", obj.get("spec") or {})
    status = cast("dict[str, Any]", obj.get("status") or {})
    if metadata.get("deletionTimestamp"):
        held = metadata.get("finalizers") or ()
        return ("being deleted" + (f", held by {', '.join(held)}" if held else "")), "busy"
    match obj["kind"]:
        case "Pod":
            return _pod(status)
        case "Deployment" | "ReplicaSet" | "StatefulSet":
            ready, wanted = int(status.get("readyReplicas") or 0), int(spec.get("replicas", 1))
            return f"{ready}/{wanted} ready", "good" if ready == wanted else "busy"
        case "DaemonSet":
            ready, wanted = int(status.get("numberReady") or 0), int(status.get("desiredNumberScheduled") or 0)
            return f"{ready}/{wanted} ready", "good" if ready == wanted else "busy"
        case "Job":
            done, failed = int(status.get("succeeded") or 0), int(status.get("failed") or 0)
            return f"{done} succeeded" + (f", {failed} failed" if failed else ""), "bad" if failed else ""
        case _:
            return _custom(status)


def _pod(status: Mapping[str, Any]) -> tuple[str, str]:
    containers: list[dict[str, Any]] = status.get("containerStatuses") or []
    ready = sum(bool(c.get("ready")) for c in containers)
    states: list[dict[str, dict[str, str]]] = [c.get("state") or {} for c in containers]
    waiting = [state["waiting"].get("reason", "") for state in states if state.get("waiting")]
    phase = str(status.get("phase") or "Pending")
    told = next((w for w in waiting if w not in ("", "ContainerCreating", "PodInitializing")), "") or phase
    restarts = sum(int(c.get("restartCount") or 0) for c in containers)
    said = f"{told} {ready}/{len(containers)}" + (f", {restarts} restarts" if restarts else "")
    if phase == "Failed" or told != phase:
        return said, "bad"
    return said, "good" if phase == "Succeeded" or (containers and ready == len(containers)) else "busy"


def _custom(status: Mapping[str, Any]) -> tuple[str, str]:
    """Return the conditions, then the scalar values of the status."""
    conditions = cast("list[dict[str, Any]]", status.get("conditions") or [])
    words = [f"{c.get('type')}={c.get('status')}" for c in conditions[:2]]
    words += [f"{key} {value}" for key, value in status.items() if _is_plain(value) and key != "observedGeneration"][:3]
    if not conditions:
        return ", ".join(words), ""
    main = next((c for c in conditions if c.get("type") in ("Ready", "Available")), conditions[0])
    return ", ".join(words), {"True": "good", "False": "bad"}.get(str(main.get("status")), "busy")


def _is_plain(value: Any) -> bool:
    return isinstance(value, (bool, int, float)) or (isinstance(value, str) and 0 < len(value) <= 24)


def log_line(line: str) -> str:
    """Return a line of the operator's JSON log as text; other lines unchanged."""
    if not line.startswith("{"):
        return line
    try:
        said: dict[str, Any] = json.loads(line)
        head = f"{str(said.pop('timestamp'))[11:19]} {said.pop('level'):<7} {said.pop('event')}"
    except (ValueError, KeyError, TypeError):
        return line
    trace = said.pop("exception", "")
    for dull in ("component", "reconcile_id", "reasons"):
        said.pop(dull, None)
    tail = "  ".join(f"{key}={value}" for key, value in said.items())
    return f"{head}  {tail}".rstrip() + (f"\n{trace}" if trace else "")
