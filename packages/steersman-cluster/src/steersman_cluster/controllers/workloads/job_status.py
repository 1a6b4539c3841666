"""The state of a Job: counted Pods, completed indexes, and whether it is finished. Pure functions.

A Pod counts once: its uid is noted in the status before its finalizer goes, and added up when the finalizer is gone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from steersman.k8s import Job, Pod
from steersman.k8s.batch_v1 import JobCondition, PodFailurePolicyRule
from steersman.models import replace
from steersman_cluster.controllers.pods import is_active, phase_of

__all__ = [
    "FINALIZER",
    "INDEX",
    "Verdict",
    "condition_of",
    "decided",
    "ended_at",
    "failure_rule",
    "finished_at",
    "has_failed",
    "index_of",
    "indexes_in",
    "is_finished",
    "is_indexed",
    "limits_met",
    "missing_indexes",
    "replaces_failed_only",
    "retry_at",
    "success",
    "text_of",
    "wanted_active",
    "with_condition",
]

FINALIZER = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"


def is_indexed(job: Job) -> bool:
    """Return whether the Pods of a Job have completion indexes."""
    return job.spec.completion_mode == "Indexed"


def condition_of(job: Job | Sequence[JobCondition], type: str) -> JobCondition | None:
    """Return the condition of a type if its status is True."""
    conditions = job.status.conditions if isinstance(job, Job) else job
    return next((c for c in conditions if c.type == type and c.status == "True"), None)


def is_finished(job: Job) -> bool:
    """Return whether a Job is complete or failed."""
    return condition_of(job, "Complete") is not None or condition_of(job, "Failed") is not None


def finished_at(job: Job) -> datetime | None:
    """Return the time at which a Job completed or failed."""
    over = condition_of(job, "Complete") or condition_of(job, "Failed")
    return over.last_transition_time if over else None


def has_failed(job: Job, pod: Pod) -> bool:
    """Return whether a Pod failed, or is terminating and the Job does not wait for its failure."""
    if phase_of(pod) == "Failed":
        return True
    leaving = pod.metadata.deletion_timestamp is not None and phase_of(pod) != "Succeeded"
    return leaving and not replaces_failed_only(job)


def replaces_failed_only(job: Job) -> bool:
    """Return whether a Pod that is on its way out is replaced only when it has ended."""
    return job.spec.pod_replacement_policy == "Failed" or job.spec.pod_failure_policy is not None


def index_of(pod: Pod) -> int | None:
    """The completion index of a Pod."""
    text = pod.metadata.annotations.get(INDEX, "")
    return int(text) if text.isdecimal() else None


def indexes_in(text: str | None) -> set[int]:
    """Return the numbers of `1,3-5`; invalid parts are ignored."""
    found: set[int] = set()
    for part in filter(None, (text or "").split(",")):
        first, _, last = part.partition("-")
        if first.isdecimal() and (not last or last.isdecimal()):
            found.update(range(int(first), int(last or first) + 1))
    return found


def text_of(indexes: Iterable[int]) -> str:
    """Numbers as `1,3-5`; two in a row are written with a dash from three on, as `1,2`."""
    runs: list[list[int]] = []
    for n in sorted(indexes):
        if runs and n == runs[-1][-1] + 1:
            runs[-1].append(n)
        else:
            runs.append([n])
    return ",".join(f"{r[0]}" if len(r) == 1 else f"{r[0]}{',' if len(r) == 2 else '-'}{r[-1]}" for r in runs)


def missing_indexes(job: Job, over: Collection[int], working: Iterable[Pod], count: int) -> list[int]:
    """The first `count` indexes that are neither over nor being worked on."""
    busy = {index_of(pod) for pod in working}
    free = (n for n in range(job.spec.completions or 0) if n not in over and n not in busy)
    return [n for n, _ in zip(free, range(count), strict=False)]


def wanted_active(job: Job, succeeded: int, active: int) -> int:
    """Return the number of Pods that should run now."""
    parallelism = 1 if job.spec.parallelism is None else job.spec.parallelism
    if job.spec.completions is None:
        return active if succeeded else parallelism  # a work queue: after one success none is started
    return max(0, min(parallelism, job.spec.completions - succeeded))


def retry_at(pods: Sequence[Pod], base: float, longest: float = 600.0) -> datetime | None:
    """Return when the next Pod may be tried: each failure since the last success doubles the wait."""
    ended = sorted(((when, phase_of(pod)) for pod in pods if (when := ended_at(pod)) is not None), key=lambda e: e[0])
    failures = 0
    for _, phase in reversed(ended):
        if phase == "Succeeded":
            break
        failures += 1
    if not failures:
        return None
    return ended[-1][0] + timedelta(seconds=min(longest, base * 2 ** min(failures - 1, 30)))


def ended_at(pod: Pod) -> datetime | None:
    """Return when the last container of a Pod ended."""
    if is_active(pod):
        return None
    ends = [
        c.state.terminated.finished_at
        for c in pod.status.container_statuses
        if c.state and c.state.terminated and c.state.terminated.finished_at
    ]
    return max(
        ends, default=pod.metadata.deletion_timestamp or pod.status.start_time or pod.metadata.creation_timestamp
    )


def failure_rule(job: Job, pod: Pod) -> tuple[PodFailurePolicyRule | None, str]:
    """Return the first rule of the failure policy that matches a failed Pod, and the message."""
    policy = job.spec.pod_failure_policy
    statuses = (*pod.status.container_statuses, *pod.status.init_container_statuses)
    name = f"{pod.metadata.namespace}/{pod.metadata.name}"
    for index, rule in enumerate(policy.rules if policy else ()):
        if rule.on_exit_codes is not None:
            wanted = rule.on_exit_codes
            for status in statuses:
                ended = status.state.terminated if status.state else None
                named = not wanted.container_name or wanted.container_name == status.name
                if ended is None or not ended.exit_code or not named:
                    continue
                if (ended.exit_code in wanted.values) == (wanted.operator == "In"):
                    message = (
                        f"Container {status.name} for pod {name} failed with exit code {ended.exit_code} matching "
                        f"{rule.action} rule at index {index}"
                    )
                    return rule, message
        for pattern in rule.on_pod_conditions:
            conditions = pod.status.conditions
            if any(c.type == pattern.type and c.status == (pattern.status or "True") for c in conditions):
                return rule, f"Pod {name} has condition {pattern.type} matching {rule.action} rule at index {index}"
    return None, ""


class Verdict(NamedTuple):
    """The end of a Job, with the reason: `type` is SuccessCriteriaMet or FailureTarget."""

    type: str
    reason: str
    message: str


def decided(job: Job) -> Verdict | None:
    """Return the decision that the status records, which stays."""
    for way in ("SuccessCriteriaMet", "FailureTarget"):
        if (known := condition_of(job, way)) is not None:
            return Verdict(way, known.reason or "", known.message or "")
    return None


def limits_met(job: Job, pods: Sequence[Pod], failed: int, now: datetime) -> Verdict | None:
    """Return whether there were too many failures, or the time is over."""
    limit = 6 if job.spec.backoff_limit is None else job.spec.backoff_limit
    if failed > limit or _restarts_exceed(job, pods, limit):
        return Verdict("FailureTarget", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    started, deadline = job.status.start_time, job.spec.active_deadline_seconds
    if started and deadline is not None and not job.spec.suspend and started + timedelta(seconds=deadline) <= now:
        return Verdict("FailureTarget", "DeadlineExceeded", "Job was active longer than specified deadline")
    return None


def success(job: Job, pods: Sequence[Pod], succeeded: int, done: set[int]) -> Verdict | None:
    """Return whether enough has succeeded."""
    if met := _policy_met(job, done):
        return Verdict("SuccessCriteriaMet", "SuccessPolicy", met)
    active = any(map(is_active, pods))
    complete = succeeded > 0 and not active if job.spec.completions is None else succeeded >= job.spec.completions
    if complete and (job.spec.completions is None or not active or succeeded >= job.spec.completions):
        return Verdict("SuccessCriteriaMet", "CompletionsReached", "Reached expected number of succeeded pods")
    return None


def _restarts_exceed(job: Job, pods: Sequence[Pod], limit: int) -> bool:
    """Pods that restart in place are counted by their containers' restarts."""
    if job.spec.template.spec.restart_policy != "OnFailure":
        return False
    restarts = sum(
        status.restart_count or 0
        for pod in pods
        if pod.status and phase_of(pod) in ("Running", "Pending")
        for status in (*pod.status.container_statuses, *pod.status.init_container_statuses)
    )
    return restarts > 0 if limit == 0 else restarts >= limit


def _policy_met(job: Job, done: set[int]) -> str:
    policy = job.spec.success_policy if is_indexed(job) and done else None
    for number, rule in enumerate(policy.rules if policy else ()):
        wanted = indexes_in(rule.succeeded_indexes) if rule.succeeded_indexes is not None else None
        among = done if wanted is None else done & wanted
        enough = rule.succeeded_count is not None and len(among) >= rule.succeeded_count
        if wanted != set() and (enough or wanted == among):
            return f"Matched rules at index {number}"
    return ""


def with_condition(
    conditions: tuple[JobCondition, ...], type: str, status: str, reason: str, message: str, now: datetime
) -> tuple[JobCondition, ...]:
    """Return `conditions` with a condition added or changed; unchanged if it is equal."""
    known = next((c for c in conditions if c.type == type), None)
    if known is not None and known.status == status:
        return conditions
    now = now.replace(microsecond=0)
    made = JobCondition(
        type=type, status=status, reason=reason, message=message, last_probe_time=now, last_transition_time=now
    )
    if known is None:
        return (*conditions, made) if status == "True" else conditions
    return tuple(replace(made) if c.type == type else c for c in conditions)
