"""Checks the API server's audit log: which Pods had to restart, which did, and which should not have.

The clock is the resourceVersion, which orders all writes of a cluster. Pods belong to StatefulSets, so that the next
Pod has the same name: a slot. The check needs the bodies of writes in the log, and assumes of the operator only
that it writes `status.restart` before it restarts Pods.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from steersman.testing import AuditEvent


@dataclass(frozen=True)
class Monitor:
    """A ConfigMonitor: its source and its selector, which do not change during the test."""

    name: str
    source: str
    selector: Mapping[str, str]

    def selects(self, labels: Mapping[str, str]) -> bool:
        return self.selector.items() <= labels.items()


@dataclass
class PodRecord:
    """One Pod: from its creation to, perhaps, its eviction."""

    slot: str
    uid: str
    created_at: int
    labels: Mapping[str, str]
    evictions: list[int] = field(default_factory=list)
    """Places in the log."""


@dataclass
class RestartHistory:
    """The Pods, changes and plans of an audit log."""

    pod_records: dict[str, PodRecord] = field(default_factory=dict)
    changes: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    """By ConfigMap: the resourceVersions of its changes."""
    plans: dict[str, list[tuple[int, int, int]]] = field(default_factory=lambda: defaultdict(list))
    """By monitor: the version of the ConfigMap that it acted upon, when it said so, and where in the log."""
    deletions: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)

    @property
    def evictions(self) -> int:
        return sum(len(record.evictions) for record in self.pod_records.values())


class _HistoryBuilder:
    """Adds the writes of the log to the history, one after the other."""

    def __init__(self, operators: Sequence[str]) -> None:
        self.history = RestartHistory()
        self._operators = operators
        self._data: dict[str, Any] = {}

    def note(self, place: int, event: AuditEvent) -> None:
        body: Any = event.raw.get("responseObject") or {}
        metadata: Any = body.get("metadata") or {}
        match event.resource, event.subresource, event.verb:
            case "configmaps", "", "create" | "patch" | "update":
                self._config(metadata, body["data"])
            case "pods", "", "create":
                created_at = int(metadata["resourceVersion"])
                record = PodRecord(metadata["name"], metadata["uid"], created_at, metadata.get("labels") or {})
                self.history.pod_records[record.uid] = record
            case "pods", "eviction", "create" if event.user in self._operators:
                self._eviction(place, event)
            case "pods", "", "delete" if event.user in self._operators:
                self.history.deletions.append(event.name)
            case "configmonitors", "status", "patch":
                # The request body: the response has only metadata, because the operator requests no more.
                self._plan(place, metadata, event.raw["requestObject"].get("status") or {})
            case _:
                pass

    def _config(self, metadata: Any, data: Any) -> None:
        name = metadata["name"]
        if name in self._data and self._data[name] != data:
            self.history.changes[name].append(int(metadata["resourceVersion"]))
        self._data[name] = data

    def _eviction(self, place: int, event: AuditEvent) -> None:
        uid = event.raw["requestObject"]["deleteOptions"]["preconditions"]["uid"]
        if uid in self.history.pod_records:
            self.history.pod_records[uid].evictions.append(place)
        else:
            self.history.unknown.append(event.name)

    def _plan(self, place: int, metadata: Any, change: Any) -> None:
        """A merge patch of the status; it names the version only where that is another than before."""
        if version := (change.get("restart") or {}).get("version"):
            plan = (int(version), int(metadata["resourceVersion"]), place)
            plans = self.history.plans[metadata["name"]]
            if not plans or plans[-1][0] != plan[0]:
                plans.append(plan)


def read_history(events: Iterable[AuditEvent], operators: Sequence[str]) -> RestartHistory:
    """The facts of a log; `operators` are the user names of the operator's processes."""
    builder = _HistoryBuilder(operators)
    for place, event in enumerate(events):
        if event.stage == "ResponseComplete" and event.code in (200, 201) and event.is_write:
            builder.note(place, event)
    return builder.history


def violations(history: RestartHistory, monitors: Sequence[Monitor]) -> list[str]:
    """Everything that should not be so: Pods that were missed, restarted twice for a change, or for nothing."""
    wrong = [f"{name} was deleted, not evicted" for name in history.deletions]
    wrong += [f"{name}: evicted under a uid that never was" for name in history.unknown]
    slots: dict[str, list[PodRecord]] = defaultdict(list)
    for record in history.pod_records.values():
        slots[record.slot].append(record)
    for slot, pod_records in slots.items():
        concerned = [m for m in monitors if m.selects(pod_records[0].labels)]
        wrong += [f"{slot}: {what}" for what in _of_slot(history, pod_records, concerned)]
    return wrong


def _of_slot(history: RestartHistory, pod_records: Sequence[PodRecord], concerned: Sequence[Monitor]) -> Iterator[str]:
    changes = [(source, change) for source in {m.source for m in concerned} for change in history.changes[source]]
    seen: list[tuple[int, int]] = []
    for source, change in changes:
        # When, and where in the log, the first monitor that selects this slot said that it acts upon the change.
        plans = [plan for m in concerned if m.source == source for plan in history.plans[m.name]]
        first = min(((at, place) for version, at, place in plans if version >= change), default=None)
        if first is None:
            yield f"no monitor has acted upon the change of {source} at {change}"
        else:
            seen.append(first)
    for record in pod_records:
        if len(record.evictions) > 1:
            yield f"{record.uid} was evicted {len(record.evictions)} times"
        for place in record.evictions:
            # A Pod that is younger than the plan for a change has not been restarted for that change.
            if not any(at > record.created_at and planned < place for at, planned in seen):
                yield f"{record.uid}, born at {record.created_at}, was restarted for no change"
    last = max((change for _, change in changes), default=0)
    if max(record.created_at for record in pod_records) < last:
        yield f"has not been restarted since the change at {last}"
