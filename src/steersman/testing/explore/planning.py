"""The plans of a scenario, from the trace of its reference run, without plans that are equivalent to others."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, cast

import msgspec

from steersman.testing.explore.plans import PERTURBATIONS, Fault, Plan, PlanError
from steersman.testing.explore.state import name_pattern, normal_object
from steersman.testing.explore.trace import Commit, Trace, WriteRecord
from steersman_cluster.objects import Object

__all__ = ["Candidates", "Pruned", "candidates"]


@dataclass(frozen=True, slots=True)
class Pruned:
    """A plan that is not run, and the reason."""

    plan: Plan
    reason: str


@dataclass(frozen=True, slots=True)
class Candidates:
    """The plans to run, the most promising first, the omitted plans, and pairs for the rest of the budget."""

    plans: tuple[Plan, ...]
    pruned: tuple[Pruned, ...]
    pairs: tuple[Plan, ...]


def candidates(trace: Trace, perturb: Sequence[str], *, external: bool = False) -> Candidates:
    """Return the plans for a trace.

    Args:
        trace: The reference run.
        perturb: Names of `PERTURBATIONS`.
        external: Whether the operator changes state outside of the cluster, so that writes without effect matter.

    Raises:
        PlanError: A perturbation is unknown.
    """
    kinds: list[str] = []
    for name in perturb:
        if name not in PERTURBATIONS:
            raise PlanError(f"perturb: {name!r} is unknown; the perturbations are {', '.join(PERTURBATIONS)}")
        kinds += PERTURBATIONS[name]
    phases = [mark.at for mark in trace.marks if mark.text.startswith("settled")]
    plans: dict[str, list[Plan]] = {kind: [] for kind in kinds}
    pruned: list[Pruned] = []
    by_revision = {commit.revision: commit for commit in trace.commits}
    _of_writes(trace, by_revision, plans, pruned, external=external)
    _of_past(trace, phases, plans)
    _of_events(trace, by_revision, phases, plans, pruned)
    if "absent" in plans:
        plans["absent"] += [Plan((Fault("absent", f"S{n}"),)) for n in range(1, len(phases))]
    ordered = [plan for row in zip_longest(*plans.values()) for plan in row if plan is not None]
    return Candidates(tuple(ordered), tuple(pruned), tuple(_pairs(ordered)))


def _of_writes(
    trace: Trace, by_revision: dict[int, Commit], plans: dict[str, list[Plan]], pruned: list[Pruned], *, external: bool
) -> None:
    seen: dict[tuple[str, str], str] = {}
    previous: WriteRecord | None = None
    for write in trace.writes:
        digest = _digest(write, by_revision)
        for kind in ("crash-before", "crash-after", "lose-answer", "conflict", "pause"):
            if kind not in plans:
                continue
            plan = Plan((Fault(kind, f"W{write.number}"),))
            if not write.commits and not external and write.verb != "effect":
                pruned.append(Pruned(plan, "the write has no effect"))
            elif kind == "conflict" and write.verb not in ("update", "patch", "delete"):
                pruned.append(Pruned(plan, f"{write.verb} has no conflict"))
            elif kind == "crash-before" and not external and _adjacent(previous, write, trace):
                assert previous is not None
                pruned.append(Pruned(plan, f"equal to crash-after:W{previous.number}"))
            elif (first := seen.get((kind, digest))) is not None:
                pruned.append(Pruned(plan, f"the same difference as at {first}"))
            else:
                seen[kind, digest] = f"W{write.number}"
                plans[kind].append(plan)
        if write.commits:
            previous = write


def _adjacent(previous: WriteRecord | None, write: WriteRecord, trace: Trace) -> bool:
    """Return whether the storage did not change between `previous` and `write`."""
    if previous is None or not write.commits:
        return False
    between = range(max(previous.commits) + 1, min(write.commits))
    return not any(commit.revision in between for commit in trace.commits)


def _of_past(trace: Trace, phases: Sequence[float], plans: dict[str, list[Plan]]) -> None:
    if "past" not in plans:
        return
    effective = [write for write in trace.writes if write.commits]
    for position, write in enumerate(effective):
        earlier = {position - 1, position // 2, 0}
        for end in phases:
            if end < write.at:
                earlier.add(sum(w.at < end for w in effective) - 1)
        for index in sorted((i for i in earlier if 0 <= i < position), reverse=True):
            plans["past"].append(Plan((Fault("past", f"W{write.number}", f"W{effective[index].number}"),)))


def _of_events(
    trace: Trace,
    by_revision: dict[int, Commit],
    phases: Sequence[float],
    plans: dict[str, list[Plan]],
    pruned: list[Pruned],
) -> None:
    seen: dict[tuple[str, str, int], str] = {}
    for event in trace.events:
        phase = sum(end < event.at for end in phases) + 1
        commit = by_revision.get(event.revision)
        digest = _change(commit) if commit is not None else ""
        key = f"{event.type} {event.resource} {name_pattern(event.name)} {digest}"
        for kind in ("hold", "miss"):
            if kind not in plans:
                continue
            point = f"E{event.number}"
            found = [Plan((Fault(kind, point),))]
            found += [Plan((Fault(kind, point, f"S{n}"),)) for n in range(phase + 1, len(phases) + 1)][:2]
            if (first := seen.get((kind, key, phase))) is not None:
                pruned += [Pruned(plan, f"the same difference as at {first}") for plan in found]
            else:
                plans[kind] += found
        seen.setdefault(("hold", key, phase), f"E{event.number}")
        seen.setdefault(("miss", key, phase), f"E{event.number}")


def _digest(write: WriteRecord, by_revision: dict[int, Commit]) -> str:
    changes = [_change(by_revision[r]) for r in write.commits if r in by_revision]
    return f"{write.verb} {write.resource} {write.subresource} {name_pattern(write.name)} {changes}"


def _change(commit: Commit) -> str:
    """Return a digest of the changes of a commit, without names and times."""
    before, after = (
        normal_object(msgspec.json.decode(value), {commit.name: name_pattern(commit.name)}) if value else None
        for value in (commit.before, commit.after)
    )
    return hashlib.sha256(json.dumps(_pruned(before, after), sort_keys=True).encode()).hexdigest()[:16]


def _pruned(before: Any, after: Any) -> Any:
    """Return the parts of two values that differ."""
    if isinstance(before, dict) and isinstance(after, dict):
        old, new = cast(Object, before), cast(Object, after)
        return {k: _pruned(old.get(k), new.get(k)) for k in sorted({*old, *new}) if old.get(k) != new.get(k)}
    return [before, after]


def _pairs(plans: Sequence[Plan]) -> Iterable[Plan]:
    """Yield pairs of faults at neighbouring points, then at distant points, without pairs of equal faults."""
    writes = [p.faults[0] for p in plans if p.faults[0].kind in ("crash-after", "lose-answer", "conflict")]
    events = [p.faults[0] for p in plans if p.faults[0].kind in ("hold", "miss")]
    for distance in (1, 2, 5):
        for fault in writes:
            number = int(fault.at[1:]) + distance
            for kind in ("crash-after", "lose-answer"):
                yield Plan((fault, Fault(kind, f"W{number}")))
    for event in events:
        for fault in writes:
            yield Plan((event, fault))
