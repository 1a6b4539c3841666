"""Columns and cells of `kubectl get` for Pods.

Pure functions of an object and of the time. Words, order and odd cases follow pkg/printers/internalversion.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from steersman_cluster.json_access import get_list, get_object
from steersman_cluster.kinds import columns
from steersman_cluster.kinds.columns import AGE, NAME, NONE
from steersman_cluster.objects import Object, dig, meta
from steersman_cluster.strategy import Column

__all__ = ["POD_COLUMNS", "pod_row"]

POD_COLUMNS = (
    NAME,
    Column("Ready", description="The aggregate readiness state of this pod for accepting traffic."),
    Column("Status", description="The aggregate status of the containers in this pod."),
    Column("Restarts", description="How often containers of this pod were restarted, and when last."),
    AGE,
    Column("IP", description="The pod's address.", priority=1),
    Column("Node", description="The node on which the pod is scheduled.", priority=1),
    Column("Nominated Node", description="The node for which the pod preempts others.", priority=1),
    Column("Readiness Gates", description="How many of the conditions beyond its containers are true.", priority=1),
)


def pod_row(pod: Object, now: float) -> list[Any]:
    """Return the cells of a Pod in `POD_COLUMNS`, with kubectl's computed status."""
    spec: Object = pod.get("spec") or {}
    status: Object = pod.get("status") or {}
    ready, total, reason, restarts = _summary(pod, spec, status, now)
    addresses: Sequence[Object] = get_list(status, "podIPs")
    return [
        columns.name(pod),
        f"{ready}/{total}",
        reason,
        restarts,
        columns.age(pod, now),
        (addresses[0].get("ip") if addresses else "") or NONE,
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        _gates(spec, status),
    ]


def _gates(spec: Object, status: Object) -> str:
    gates: Sequence[Object] = get_list(spec, "readinessGates")
    if not gates:
        return NONE
    states: dict[str, str] = {}
    for condition in get_list(status, "conditions"):
        states.setdefault(condition.get("type"), condition.get("status"))
    true = sum(states.get(gate.get("conditionType") or "") == "True" for gate in gates)
    return f"{true}/{len(gates)}"


def _summary(pod: Object, spec: Object, status: Object, now: float) -> tuple[int, int, str, str]:
    phase = status.get("phase") or ""
    reason = status.get("reason") or phase
    conditions: Sequence[Object] = get_list(status, "conditions")
    if any(item.get("type") == "PodScheduled" and item.get("reason") == "SchedulingGated" for item in conditions):
        reason = "SchedulingGated"
    sidecars = {item.get("name") for item in get_list(spec, "initContainers") if item.get("restartPolicy") == "Always"}
    total = len(get_list(spec, "containers")) + len(sidecars)
    init: list[Object] = status.get("initContainerStatuses") or []
    waiting, ready = _initializing(init, sidecars, len(get_list(spec, "initContainers")))
    counted = init
    if waiting and not _is_true(conditions, "Initialized"):
        reason = waiting
    else:
        running: list[Object] = status.get("containerStatuses") or []
        counted = [item for item in init if item.get("name") in sidecars] + running
        reason, more = _running(running, waiting or reason, conditions)
        ready += more
    if meta(pod).get("deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            reason = "Unknown"
        elif phase not in ("Succeeded", "Failed"):
            reason = "Terminating"
    return ready, total, reason, _restarts(counted, now, stop=counted is init, sidecars=sidecars)


def _initializing(statuses: Sequence[Object], sidecars: set[Any], total: int) -> tuple[str, int]:
    """Return the text of initialization, "" when it is complete, and the number of ready sidecars."""
    ready = 0
    for index, item in enumerate(statuses):
        state: Object = item.get("state") or {}
        ended, waiting = state.get("terminated"), state.get("waiting")
        if ended is not None and not ended.get("exitCode"):
            continue
        if item.get("name") in sidecars and item.get("started"):
            ready += bool(item.get("ready"))
            continue
        if ended is not None:
            return f"Init:{_end(ended)}", ready
        if waiting and waiting.get("reason") and waiting["reason"] != "PodInitializing":
            return f"Init:{waiting['reason']}", ready
        return f"Init:{index}/{total}", ready
    return "", ready


def _running(statuses: Sequence[Object], reason: str, conditions: Sequence[Object]) -> tuple[str, int]:
    running, failed, ready = False, "", 0
    for item in reversed(statuses):
        state: Object = item.get("state") or {}
        if get_object(state, "waiting").get("reason"):
            reason = state["waiting"]["reason"]
        elif (ended := state.get("terminated")) is not None:
            reason = _end(ended)
            if ended.get("exitCode"):
                failed = reason
        elif item.get("ready") and state.get("running") is not None:
            running = True
            ready += 1
    if reason == "Completed":
        if running and _is_true(conditions, "Ready"):
            reason = "Running"
        elif failed:
            reason = failed
        elif running:
            reason = "NotReady"
    return reason, ready


def _end(ended: Object) -> str:
    if ended.get("reason"):
        return ended["reason"]
    if ended.get("signal"):
        return f"Signal:{ended['signal']}"
    return f"ExitCode:{ended.get('exitCode') or 0}"


def _is_true(conditions: Iterable[Object], kind: str) -> bool:
    return any(item.get("type") == kind and item.get("status") == "True" for item in conditions)


def _restarts(statuses: Sequence[Object], now: float, *, stop: bool, sidecars: set[Any]) -> str:
    """Return the restarts of containers and the time of the last; for init containers up to the current one."""
    total, last = 0, None
    for item in statuses:
        total += item.get("restartCount") or 0
        ended = dig(item, "lastState", "terminated", "finishedAt")
        at = columns.seconds_of(ended)
        if at is not None and (last is None or at > last):
            last = at
        if stop and not _is_past(item, sidecars):
            break
    return f"{total} ({columns.duration(now - last)} ago)" if total and last is not None else str(total)


def _is_past(item: Object, sidecars: set[Any]) -> bool:
    ended = dig(item, "state", "terminated")
    if ended is not None and not ended.get("exitCode"):
        return True
    return item.get("name") in sidecars and bool(item.get("started"))
