"""Failures of a Job's Pods: which count, which end an index, and when an index is tried again. Pure functions.

How often an index has failed stands in an annotation of the Pod that works on it. So a Pod that failed keeps its
finalizer until the one that replaces it is there, or its index is over. Follows KEP-3850 and KEP-3329.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta

from steersman.k8s import Job, Pod
from steersman_cluster.controllers.pods import phase_of
from steersman_cluster.controllers.workloads import job_status as tally
from steersman_cluster.controllers.workloads.job_status import Verdict

__all__ = [
    "action_of",
    "annotations_of",
    "awaiting",
    "counts",
    "failed_indexes",
    "has_failed_job",
    "is_per_index",
    "retry_index_at",
    "verdict_of_indexes",
]

COUNT = "batch.kubernetes.io/job-index-failure-count"
IGNORED = "batch.kubernetes.io/job-index-ignored-failure-count"


def is_per_index(job: Job) -> bool:
    """Return whether each index has a limit of its own."""
    return tally.is_indexed(job) and job.spec.backoff_limit_per_index is not None


def action_of(job: Job, pod: Pod) -> str:
    """Return the action of the failure policy for a failed Pod; "" without a matching rule."""
    if not job.spec.pod_failure_policy or phase_of(pod) != "Failed":
        return ""
    rule, _ = tally.failure_rule(job, pod)
    return rule.action if rule is not None else ""


def counts(job: Job, pod: Pod) -> bool:
    """Return whether a Pod's failure counts towards limits."""
    return tally.has_failed(job, pod) and action_of(job, pod) != "Ignore"


def has_failed_job(job: Job, pods: Sequence[Pod]) -> Verdict | None:
    """The end that a failed Pod brings about by the failure policy."""
    for pod in pods:
        if action_of(job, pod) == "FailJob":
            return Verdict("FailureTarget", "PodFailurePolicy", tally.failure_rule(job, pod)[1])
    return None


def failed_indexes(job: Job, fresh: Sequence[Pod]) -> set[int]:
    """Return the failed indexes: those of the status, and those whose Pod exceeded the backoff limit.

    `fresh` are the tracked Pods that the status does not contain yet.
    """
    found = {n for n in tally.indexes_in(job.status.failed_indexes) if n < (job.spec.completions or 0)}
    for pod in fresh:
        index = _index(job, pod)
        if index is not None and _ends_index(job, pod):
            found.add(index)
    return found


def _ends_index(job: Job, pod: Pod) -> bool:
    if action_of(job, pod) == "FailIndex":
        return True
    return counts(job, pod) and _number(pod, COUNT) >= (job.spec.backoff_limit_per_index or 0)


def verdict_of_indexes(job: Job, done: Collection[int], failed: Collection[int]) -> Verdict | None:
    """Return whether given up indexes end the Job."""
    most = job.spec.max_failed_indexes
    if most is not None and len(failed) > most:
        text = "Job has exceeded the specified maximal number of failed indexes"
        return Verdict("FailureTarget", "MaxFailedIndexesExceeded", text)
    if failed and len(failed) + len(done) >= (job.spec.completions or 0):
        return Verdict("FailureTarget", "FailedIndexes", "Job has failed indexes")
    return None


def awaiting(job: Job, fresh: Sequence[Pod], settled: Collection[int | None]) -> Mapping[int, Pod]:
    """The last failed Pod of each index that is to be tried again; `settled` are the indexes that are not."""
    found: dict[int, Pod] = {}
    for pod in fresh:
        index = _index(job, pod)
        if index is None or index in settled:
            continue
        if tally.has_failed(job, pod) and (index not in found or _order(pod) >= _order(found[index])):
            found[index] = pod
    return found


def annotations_of(job: Job, replaced: Pod | None) -> dict[str, str]:
    """Return the annotations that carry the failures of an index to its next Pod."""
    if replaced is None:
        return {COUNT: "0"}
    counted = action_of(job, replaced) != "Ignore"
    failed, ignored = _number(replaced, COUNT) + counted, _number(replaced, IGNORED) + (not counted)
    return {COUNT: str(failed), **({IGNORED: str(ignored)} if ignored else {})}


def retry_index_at(replaced: Pod | None, base: float, longest: float = 600.0) -> datetime | None:
    """Return when an index may be tried again: each failure doubles the wait. `None` is at once."""
    ended = tally.ended_at(replaced) if replaced is not None else None
    if replaced is None or ended is None:
        return None
    return ended + timedelta(seconds=min(longest, base * 2 ** min(_failures(replaced), 30)))


def _failures(pod: Pod) -> int:
    return _number(pod, COUNT) + _number(pod, IGNORED)


def _order(pod: Pod) -> tuple[int, float]:
    ended = tally.ended_at(pod)
    return _failures(pod), ended.timestamp() if ended else 0.0


def _index(job: Job, pod: Pod) -> int | None:
    index = tally.index_of(pod)
    return index if index is not None and index < (job.spec.completions or 0) else None


def _number(pod: Pod, annotation: str) -> int:
    text = pod.metadata.annotations.get(annotation, "")
    return int(text) if text.isdecimal() and len(text) < 10 else 0
