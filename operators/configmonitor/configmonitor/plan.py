"""Selects the Pods to restart for a change: pure functions of the state in the API server.

Each Pod is restarted once per change, even if several ConfigMonitors select it. The first ConfigMonitor that observes
the change records the uids of its Pods in its status; all of its other Pods are newer than the change. The other
ConfigMonitors of the same object skip both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from steersman.k8s import Pod

from configmonitor.api.v1.configmonitor_types import ConfigMonitor, PendingPod, Restart

__all__ = ["Seen", "matches", "restart_for", "runs"]


class Seen(NamedTuple):
    """The content of the watched object, and the resourceVersion in which it was observed."""

    hash: str
    version: str


def matches(selector: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    """Return whether an object with these labels has all labels of the selector."""
    return all(labels.get(key) == value for key, value in selector.items())


def runs(pod: Pod) -> bool:
    """Return whether a Pod may have read configuration: it has not finished and is not terminating."""
    return pod.metadata.deletion_timestamp is None and pod.status.phase not in ("Succeeded", "Failed")


def restart_for(monitor: ConfigMonitor, seen: Seen, pods: Iterable[Pod], siblings: Iterable[ConfigMonitor]) -> Restart:
    """Return the restart of a monitor for a change; `siblings` are the monitors of the same object.

    `siblings` must be read after `pods`: a replacement of a restarted Pod is never visible before the status of the
    monitor that restarted it.
    """
    taken = [s.status.restart for s in siblings if s.metadata.uid != monitor.metadata.uid]
    charged = [r for r in taken if r is not None and _is_for(r, seen, monitor.status.observed_version)]
    waiting = {pod.uid for restart in charged for pod in restart.pending}
    selector = monitor.spec.pod_selector
    chosen = [
        PendingPod(name=pod.metadata.name, uid=pod.metadata.uid or "")
        for pod in pods
        if runs(pod)
        and matches(selector, pod.metadata.labels)
        and (pod.metadata.uid in waiting or not any(matches(r.selector, pod.metadata.labels) for r in charged))
    ]
    chosen.sort(key=lambda pod: pod.name)
    return Restart(hash=seen.hash, version=seen.version, selector=selector, total=len(chosen), pending=tuple(chosen))


def _is_for(restart: Restart, seen: Seen, since: str) -> bool:
    """Return whether a restart belongs to this change, and not to an earlier one with the same content."""
    if restart.hash != seen.hash:
        return False
    try:
        return int(restart.version) > int(since)
    except ValueError:
        return False
