"""Which Pods are restarted for a change: pure functions of what the API server has.

Each Pod is restarted once per change, however many ConfigMonitors select it. The first of them that sees the change
lists the Pods it finds, by uid, in its status; from then on every Pod that it selects is on that list or is newer than
the change, and the other ConfigMonitors of the same object leave both alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from steersman.k8s import Pod

from configmonitor.api.v1.configmonitor_types import ConfigMonitor, PendingPod, Restart

__all__ = ["Seen", "matches", "restart_for", "runs"]


class Seen(NamedTuple):
    """The content of the watched object, and in which state of it that was seen."""

    hash: str
    version: str


def matches(selector: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    """Whether an object with these labels has all labels of the selector."""
    return all(labels.get(key) == value for key, value in selector.items())


def runs(pod: Pod) -> bool:
    """Whether a Pod may hold configuration: it has not ended and is not about to."""
    return pod.metadata.deletion_timestamp is None and pod.status.phase not in ("Succeeded", "Failed")


def restart_for(monitor: ConfigMonitor, seen: Seen, pods: Iterable[Pod], siblings: Iterable[ConfigMonitor]) -> Restart:
    """The restart that a monitor owes for a change; `siblings` are the monitors of the same object.

    `siblings` must have been read after `pods`: what replaces a restarted Pod is never seen earlier than the status of
    the monitor that restarted it.
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
    """Whether a restart is for this very change, and not for an earlier one to the same content."""
    if restart.hash != seen.hash:
        return False
    try:
        return int(restart.version) > int(since)
    except ValueError:
        return False
