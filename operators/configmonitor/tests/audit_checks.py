"""Reads the API server's audit log as a judge: which Pods had to restart, which did, and which should not have.

The clock is the resourceVersion, which orders all writes of a cluster. Pods belong to StatefulSets, so that what comes
in a Pod's place has its name: a slot. Needs the bodies of writes in the log. Knows nothing of how the operator works
but that it writes `status.restart` before it acts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from steersman.testing import AuditEvent


@dataclass(frozen=True)
class Monitor:
    """Who watches what and selects whom; does not change during the trial."""

    name: str
    source: str
    selector: Mapping[str, str]

    def selects(self, labels: Mapping[str, str]) -> bool:
        return self.selector.items() <= labels.items()


@dataclass
class Life:
    """One Pod: from its creation to, perhaps, its eviction."""

    slot: str
    uid: str
    born: int
    labels: Mapping[str, str]
    evictions: list[int] = field(default_factory=list)
    """Places in the log."""


@dataclass
class Case:
    """What the log says."""

    lives: dict[str, Life] = field(default_factory=dict)
    changes: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    """By ConfigMap: the resourceVersions of its changes."""
    plans: dict[str, list[tuple[int, int, int]]] = field(default_factory=lambda: defaultdict(list))
    """By monitor: the version of the ConfigMap that it acted upon, when it said so, and where in the log."""
    deletions: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)

    @property
    def evictions(self) -> int:
        return sum(len(life.evictions) for life in self.lives.values())


class _Clerk:
    """Writes down one answered write after the other."""

    def __init__(self, operators: Sequence[str]) -> None:
        self.case = Case()
        self._operators = operators
        self._data: dict[str, Any] = {}

    def note(self, place: int, event: AuditEvent) -> None:
        body: Any = event.raw.get("responseObject") or {}
        metadata: Any = body.get("metadata") or {}
        match event.resource, event.subresource, event.verb:
            case "configmaps", "", "create" | "patch" | "update":
                self._config(metadata, body["data"])
            case "pods", "", "create":
                born = int(metadata["resourceVersion"])
                life = Life(metadata["name"], metadata["uid"], born, metadata.get("labels") or {})
                self.case.lives[life.uid] = life
            case "pods", "eviction", "create" if event.user in self._operators:
                self._eviction(place, event)
            case "pods", "", "delete" if event.user in self._operators:
                self.case.deletions.append(event.name)
            case "configmonitors", "status", "patch":
                # What was sent: of the answer the operator asks for no more than the metadata.
                self._plan(place, metadata, event.raw["requestObject"].get("status") or {})
            case _:
                pass

    def _config(self, metadata: Any, data: Any) -> None:
        name = metadata["name"]
        if name in self._data and self._data[name] != data:
            self.case.changes[name].append(int(metadata["resourceVersion"]))
        self._data[name] = data

    def _eviction(self, place: int, event: AuditEvent) -> None:
        uid = event.raw["requestObject"]["deleteOptions"]["preconditions"]["uid"]
        if uid in self.case.lives:
            self.case.lives[uid].evictions.append(place)
        else:
            self.case.unknown.append(event.name)

    def _plan(self, place: int, metadata: Any, change: Any) -> None:
        """A merge patch of the status; it names the version only where that is another than before."""
        if version := (change.get("restart") or {}).get("version"):
            plan = (int(version), int(metadata["resourceVersion"]), place)
            plans = self.case.plans[metadata["name"]]
            if not plans or plans[-1][0] != plan[0]:
                plans.append(plan)


def hear(events: Iterable[AuditEvent], operators: Sequence[str]) -> Case:
    """The facts of a log; `operators` are the user names of the operator's processes."""
    clerk = _Clerk(operators)
    for place, event in enumerate(events):
        if event.stage == "ResponseComplete" and event.code in (200, 201) and event.is_write:
            clerk.note(place, event)
    return clerk.case


def verdict(case: Case, monitors: Sequence[Monitor]) -> list[str]:
    """Everything that should not be so: Pods that were missed, restarted twice for a change, or for nothing."""
    wrong = [f"{name} was deleted, not evicted" for name in case.deletions]
    wrong += [f"{name}: evicted under a uid that never was" for name in case.unknown]
    slots: dict[str, list[Life]] = defaultdict(list)
    for life in case.lives.values():
        slots[life.slot].append(life)
    for slot, lives in slots.items():
        concerned = [m for m in monitors if m.selects(lives[0].labels)]
        wrong += [f"{slot}: {what}" for what in _of_slot(case, lives, concerned)]
    return wrong


def _of_slot(case: Case, lives: Sequence[Life], concerned: Sequence[Monitor]) -> Iterator[str]:
    changes = [(source, change) for source in {m.source for m in concerned} for change in case.changes[source]]
    seen: list[tuple[int, int]] = []
    for source, change in changes:
        # When, and where in the log, the first monitor that selects this slot said that it acts upon the change.
        plans = [plan for m in concerned if m.source == source for plan in case.plans[m.name]]
        first = min(((at, place) for version, at, place in plans if version >= change), default=None)
        if first is None:
            yield f"nobody has acted upon the change of {source} at {change}"
        else:
            seen.append(first)
    for life in lives:
        if len(life.evictions) > 1:
            yield f"{life.uid} was evicted {len(life.evictions)} times"
        for place in life.evictions:
            # A Pod that is younger than the plan for a change has not been restarted for that change.
            if not any(at > life.born and planned < place for at, planned in seen):
                yield f"{life.uid}, born at {life.born}, was restarted for no change"
    last = max((change for _, change in changes), default=0)
    if max(life.born for life in lives) < last:
        yield f"has not been restarted since the change at {last}"
