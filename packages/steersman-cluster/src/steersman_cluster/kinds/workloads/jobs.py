"""Jobs: defaults, the selector that the server makes, columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from steersman_cluster.errors import FieldError, field_invalid, required
from steersman_cluster.json_access import get_list, get_object
from steersman_cluster.kinds import columns, formats
from steersman_cluster.kinds import meta as metadata
from steersman_cluster.kinds import names as check
from steersman_cluster.kinds.columns import AGE, NAME
from steersman_cluster.kinds.workloads.base import Workload
from steersman_cluster.kinds.workloads.columns import CONTAINERS, IMAGES, SELECTOR, container_cells, count
from steersman_cluster.kinds.workloads.job_status import status_errors
from steersman_cluster.kinds.workloads.job_validation import generated_selector_errors, job_spec_errors
from steersman_cluster.kinds.workloads.validation import NO_MATCH, is_valid_selector, matches, shown_labels
from steersman_cluster.objects import Object, Path, dig, meta
from steersman_cluster.strategy import Column, WriteContext

__all__ = ["Job", "default_failure_policy"]

_SPEC = Path("spec")
CONTROLLER_UID = "batch.kubernetes.io/controller-uid"
JOB_NAME = "batch.kubernetes.io/job-name"
_MAX_INT32 = 2147483647


class Job(Workload):
    """batch/v1 Job. By default it selects its Pods by its uid."""

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
            spec["backoffLimit"] = 6 if spec.get("backoffLimitPerIndex") is None else _MAX_INT32
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
        if not meta(obj).get("labels") and (labels := dig(obj, "spec", "template", "metadata", "labels")):
            # The API server defaults a stored object again: now the template has labels.
            meta(obj)["labels"] = dict(labels)

    def errors(self, obj: Object) -> list[FieldError]:
        spec: Object = obj["spec"]
        found = generated_selector_errors(obj) + _spec_errors(spec)
        completions = spec.get("completions") or 0
        if spec.get("completionMode") == "Indexed" and completions > 0:
            name = meta(obj).get("name") or ""
            host = f"{name}-{completions - 1}"
            if formats.dns_label(host):
                text = f"will not able to create pod with invalid DNS label: {host}"
                found.append(field_invalid("metadata.name", name, text))
        return found

    def validate_update(self, obj: Object, old: Object, ctx: WriteContext) -> list[FieldError]:
        if ctx.subresource == "status":
            return super().validate_update(obj, old, ctx)
        again = metadata.repeated_update(obj, old)
        if obj["spec"] == old["spec"]:
            return again
        spec, before = obj["spec"], old["spec"]
        return [*self.errors(obj), *again, *_spec_errors(spec), *_change_errors(spec, before, old)]

    def status_errors(self, obj: Object, old: Object, ctx: WriteContext) -> list[FieldError]:
        return status_errors(obj, old)

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
    """Set the status `True` of patterns of Pod conditions without a status."""
    for rule in dig(spec, "podFailurePolicy", "rules", default=()):
        for pattern in get_list(rule, "onPodConditions"):
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


def _spec_errors(spec: Object) -> list[FieldError]:
    found = job_spec_errors(spec, _SPEC)
    selector = spec.get("selector")
    if selector is None:
        found.append(required(_SPEC / "selector"))
    found += check.label_selector(_SPEC / "selector", selector)
    labels = dig(spec, "template", "metadata", "labels", default={})
    if is_valid_selector(selector) and not matches(selector, labels):
        found.append(field_invalid(_SPEC / "template" / "metadata" / "labels", shown_labels(labels), NO_MATCH))
    return found


def _change_errors(spec: Object, before: Object, old: Object) -> list[FieldError]:
    found: list[FieldError] = []
    if spec.get("completionMode") != "Indexed":
        found += check.immutable(_SPEC / "completions", spec.get("completions"), before.get("completions"))
    elif spec.get("completions") != before.get("completions") and spec.get("completions") != spec.get("parallelism"):
        text = "can only be modified in tandem with spec.parallelism"
        found.append(field_invalid(_SPEC / "completions", spec.get("completions"), text))
    found += check.immutable(_SPEC / "selector", spec.get("selector"), before.get("selector"))
    template, kept = spec.get("template"), before.get("template")
    if before.get("suspend") and dig(old, "status", "startTime") is None:
        template, kept = _fixed(template or {}), _fixed(kept or {})
    if template != kept:
        found.append(field_invalid(_SPEC / "template", spec.get("template"), check.IMMUTABLE))
    for field in ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"):
        found += check.immutable(_SPEC / field, spec.get(field), before.get(field))
    return found


def _fixed(template: Object) -> Object:
    """Return the immutable part of a suspended Job's template: all but scheduling and resources."""
    pod: Object = {
        key: value
        for key, value in get_object(template, "spec").items()
        if key not in ("nodeSelector", "tolerations", "schedulingGates")
    }
    if affinity := pod.get("affinity"):
        pod["affinity"] = {key: value for key, value in affinity.items() if key != "nodeAffinity"}
        if not pod["affinity"]:
            del pod["affinity"]
    for field in ("containers", "initContainers"):
        if field in pod:
            pod[field] = [{key: value for key, value in item.items() if key != "resources"} for item in pod[field]]
    return {"spec": pod}


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
