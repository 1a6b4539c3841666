"""Jobs: defaults, the selector that the server makes, columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from steersman.devcluster.kinds import columns
from steersman.devcluster.kinds.columns import AGE, NAME
from steersman.devcluster.kinds.workload_base import Workload
from steersman.devcluster.kinds.workload_cells import CONTAINERS, IMAGES, SELECTOR, container_cells, count
from steersman.devcluster.objects import Object, dig, meta
from steersman.devcluster.strategy import Column, WriteContext

__all__ = ["Job", "default_failure_policy"]

CONTROLLER_UID = "batch.kubernetes.io/controller-uid"
JOB_NAME = "batch.kubernetes.io/job-name"
_MOST = 2147483647


class Job(Workload):
    """batch/v1 Job. Unless told otherwise, it selects its Pods by its own uid."""

    empty_status = {}
    selectable = ("status.successful",)
    columns = (
        NAME,
        Column("Status", description="Status of the job."),
        Column("Completions", description="How many Pods succeeded, of how many that should."),
        Column("Duration", description="Time required to complete the job."),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    )

    def default_own(self, obj: Object, spec: Object) -> None:
        if spec.get("parallelism") is None:
            if spec.get("completions") is None:
                spec["completions"] = 1
            spec["parallelism"] = 1
        if spec.get("backoffLimit") is None:
            spec["backoffLimit"] = 6 if spec.get("backoffLimitPerIndex") is None else _MOST
        labels = dig(spec, "template", "metadata", "labels")
        if labels and not meta(obj).get("labels"):
            # The very same map: what the selector adds to the template's labels shows here too, as on the real server.
            obj.setdefault("metadata", {})["labels"] = labels
        if spec.get("completionMode") is None:
            spec["completionMode"] = "NonIndexed"
        if spec.get("suspend") is None:
            spec["suspend"] = False
        if spec.get("podReplacementPolicy") is None:
            failed = spec.get("podFailurePolicy") is not None
            spec["podReplacementPolicy"] = "Failed" if failed else "TerminatingOrFailed"
        if spec.get("manualSelector") is None:
            spec["manualSelector"] = False
        default_failure_policy(spec)

    def prepare_create(self, obj: Object, ctx: WriteContext) -> None:
        super().prepare_create(obj, ctx)
        if not dig(obj, "spec", "manualSelector", default=False):
            _select_by_uid(obj)

    def fields(self, obj: Object) -> Mapping[str, str]:
        return {"status.successful": str(count(obj, "status", "succeeded"))}

    def row(self, obj: Object, now: float) -> list[Any]:
        return [
            columns.name(obj),
            _state(obj),
            _completions(obj),
            _duration(obj, now),
            columns.age(obj, now),
            *container_cells(dig(obj, "spec", "template", "spec", "containers")),
            columns.label_selector(dig(obj, "spec", "selector")),
        ]


def default_failure_policy(spec: Object) -> None:
    """Patterns of Pod conditions mean `True` where they do not say."""
    for rule in dig(spec, "podFailurePolicy", "rules", default=()):
        for pattern in rule.get("onPodConditions") or ():
            if not pattern.get("status"):
                pattern["status"] = "True"


def _select_by_uid(obj: Object) -> None:
    name, uid = meta(obj).get("name") or "", meta(obj).get("uid") or ""
    metadata: Object = obj["spec"]["template"].setdefault("metadata", {})
    labels: dict[str, str] = metadata.get("labels") or {}
    metadata["labels"] = labels
    for key, value in (("job-name", name), (JOB_NAME, name), ("controller-uid", uid), (CONTROLLER_UID, uid)):
        labels.setdefault(key, value)
    selector: Object = obj["spec"].get("selector") or {}
    obj["spec"]["selector"] = selector
    match: dict[str, str] = selector.get("matchLabels") or {}
    selector["matchLabels"] = match
    match.setdefault(CONTROLLER_UID, uid)


def _completions(obj: Object) -> str:
    done, wanted = count(obj, "status", "succeeded"), dig(obj, "spec", "completions")
    if wanted is not None:
        return f"{done}/{wanted}"
    at_once = count(obj, "spec", "parallelism")
    return f"{done}/1 of {at_once}" if at_once > 1 else f"{done}/1"


def _duration(obj: Object, now: float) -> str:
    started = columns.seconds_of(dig(obj, "status", "startTime"))
    if started is None:
        return ""
    ended = columns.seconds_of(dig(obj, "status", "completionTime"))
    return columns.duration((now if ended is None else ended) - started)


def _state(obj: Object) -> str:
    conditions: Iterable[Object] = dig(obj, "status", "conditions", default=())
    states: dict[str, str] = {}
    for item in conditions:
        states.setdefault(item.get("type") or "", item.get("status") or "")
    for kind in ("Complete", "Failed"):
        if states.get(kind) == "True":
            return kind
    if meta(obj).get("deletionTimestamp"):
        return "Terminating"
    for kind in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if states.get(kind) == "True":
            return kind
    return "Running"
