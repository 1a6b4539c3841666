"""Evictions: deletes of Pods that PodDisruptionBudgets may refuse (`pods/eviction`, policy/v1).

As on the API server, Pods that are not running are deleted at once. Others take one disruption from their budget, which
records the name of the Pod, so that the disruption controller counts it until the Pod is gone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final, cast

from steersman.models.selectors import from_requirements
from steersman_cluster.api.connect.pod_options import items_of, pod_of
from steersman_cluster.api.interfaces import Call, Change
from steersman_cluster.api.requests.messages import Response, json_response
from steersman_cluster.api.requests.options import DeleteOptions, WriteOptions, delete_options
from steersman_cluster.errors import APIError, bad_request, conflict, forbidden, too_many_requests
from steersman_cluster.objects import Object, dig, labels_of, meta, name_of
from steersman_cluster.strategy import User

__all__ = ["evict"]

_EVICTED: Final[Object] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
_SERVER: Final = User("system:apiserver", groups=("system:masters", "system:authenticated"))
_VIOLATED: Final = "Cannot evict pod as it would violate the pod's disruption budget."
_MAX_DISRUPTED_PODS: Final = 2000
"""Evictions that a budget remembers until the disruption controller has seen them."""


async def evict(call: Call) -> Response:
    """POST of an Eviction. Raises `APIError`: 429 where a budget refuses it for now."""
    body = cast(Object, call.body)
    if name_of(body) != call.name:
        raise bad_request("name in URL does not match name in Eviction object")
    sent = cast(Object, dig(body, "deleteOptions", default={}))
    options = _options(call, sent)
    pod = pod_of(call)
    if not _disrupts_nothing(pod):
        await _use_budget(call, pod, options)
    options = _marked(call, options)
    delete_options(call.request.params, sent)  # the delete refuses invalid options
    call.server.deleter.delete_now(call.resource, call.namespace, call.name, options, call.context)
    return json_response(_EVICTED, 201)


def _options(call: Call, sent: Object) -> DeleteOptions:
    """The options of the delete, as they are."""
    asked = [str(value) for value in cast("list[Any]", sent.get("dryRun") or [])]
    if asked and call.dry_run and asked != ["All"]:
        raise APIError(500, "", f"Non-matching dry-run options in request and content: [All] and [{' '.join(asked)}]")
    return DeleteOptions(
        dry_run=bool(asked) or call.dry_run,
        grace=sent.get("gracePeriodSeconds"),
        policy=str(sent.get("propagationPolicy") or ""),
        orphan=sent.get("orphanDependents"),
        uid=dig(sent, "preconditions", "uid"),
        version=dig(sent, "preconditions", "resourceVersion"),
    )


def _disrupts_nothing(pod: Object) -> bool:
    """Return whether a Pod does not run, or ends already."""
    phase = dig(pod, "status", "phase", default="Pending")
    return bool(meta(pod).get("deletionTimestamp")) or phase in ("Pending", "Succeeded", "Failed")


def _marked(call: Call, options: DeleteOptions) -> DeleteOptions:
    """Set the condition DisruptionTarget of the Pod; returns the delete options for its present version.

    Raises:
        APIError: The Pod is another one of the same name (409).
    """
    if options.dry_run:
        return options
    pod = pod_of(call)
    _check(pod, options)
    _mark(pod, call.context.now)
    item = call.server.storage.put(call.resource.stored_at, call.namespace, call.name, pod)
    return replace(options, version=str(item.revision)) if options.version else options


def _check(pod: Object, options: DeleteOptions) -> None:
    uid, version = meta(pod).get("uid"), meta(pod).get("resourceVersion")
    if options.uid and options.uid != uid:
        why = f"the UID in the precondition ({options.uid}) does not match the UID in record ({uid}). "
        raise conflict("", "Pod", name_of(pod), f"{why}The object might have been deleted and then recreated")
    if options.version and options.version != version:
        why = f"the ResourceVersion in the precondition ({options.version}) does not match the ResourceVersion in "
        raise conflict("", "Pod", name_of(pod), f"{why}record ({version}). The object might have been modified")


def _mark(pod: Object, now: str) -> None:
    conditions: list[Object] = pod.setdefault("status", {}).setdefault("conditions", [])
    kept = [condition for condition in conditions if condition.get("type") != "DisruptionTarget"]
    before = next((condition for condition in conditions if condition.get("type") == "DisruptionTarget"), Object())
    condition: Object = {
        "type": "DisruptionTarget",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": before["lastTransitionTime"] if before.get("status") == "True" else now,
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }
    pod["status"]["conditions"] = [*kept, condition]


# Budgets.


async def _use_budget(call: Call, pod: Object, options: DeleteOptions) -> None:
    """Take one disruption from the Pod's budget. Raises `APIError` where there is none to take."""
    found = call.reader.list("policy", "poddisruptionbudgets", call.namespace)
    budgets = [budget for budget in found if _selects(budget, pod)]
    if len(budgets) > 1:
        text = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        raise APIError(500, "", text)
    if not budgets:
        return
    budget = budgets[0]
    if not _ready(pod):
        healthy, desired = _count(budget, "currentHealthy"), _count(budget, "desiredHealthy")
        always = dig(budget, "spec", "unhealthyPodEvictionPolicy") == "AlwaysAllow"
        if always or healthy >= desired > 0:
            return  # unhealthy Pods do not count
    _check_budget(budget)
    if not options.dry_run:
        await _take(call, name_of(budget))


async def _take(call: Call, budget: str) -> None:

    server = call.server
    resource = server.registry.find("policy", "v1", "poddisruptionbudgets")
    assert resource is not None
    context = server.context(_SERVER, subresource="status")
    options = WriteOptions(manager="kube-apiserver")
    change = Change(
        resource, call.namespace, budget, _SERVER, options, context, "status", kind="UpdateOptions"
    )  # fmt: skip

    def take(present: Object | None) -> Object:
        found = cast(Object, present)
        _check_budget(found)
        status = found["status"]
        status["disruptionsAllowed"] -= 1
        if status["disruptionsAllowed"] == 0:
            _none_left(status, context.now)
        status.setdefault("disruptedPods", {})[call.name] = context.now
        return found

    await server.writer.update(change, take)


def _none_left(status: Object, now: str) -> None:
    conditions: list[Object] = status.setdefault("conditions", [])
    condition = next((c for c in conditions if c.get("type") == "DisruptionAllowed"), None)
    if condition is None:
        condition = cast(Object, {"type": "DisruptionAllowed"})
        conditions.append(condition)
    if condition.get("status") != "False":
        condition["lastTransitionTime"] = now
    condition |= {
        "status": "False",
        "observedGeneration": status.get("observedGeneration", 0),
        "reason": "InsufficientPods",
        "message": "",
    }


def _check_budget(budget: Object) -> None:
    """Refuse if the budget allows no disruption, or if its status is not observed yet."""
    name = name_of(budget)
    if _count(budget, "observedGeneration") < (meta(budget).get("generation") or 0):
        raise _refused(f"The disruption budget {name} is still being processed by the server.", 10)
    allowed = _count(budget, "disruptionsAllowed")
    if allowed < 0:
        raise forbidden("policy", "poddisruptionbudget", name, "pdb disruptions allowed is negative")
    if len(dig(budget, "status", "disruptedPods", default={})) > _MAX_DISRUPTED_PODS:
        why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        raise forbidden("policy", "poddisruptionbudget", name, why)
    if allowed == 0:
        raise _refused(_why_none(budget), 0)


def _why_none(budget: Object) -> str:
    begin = f"The disruption budget {name_of(budget)}"
    conditions = items_of(budget, "status", "conditions")
    condition = next((c for c in conditions if c.get("type") == "DisruptionAllowed"), Object())
    message, reason = condition.get("message"), condition.get("reason")
    told = condition.get("status") == "False" and bool(message)
    healthy, desired = _count(budget, "currentHealthy"), _count(budget, "desiredHealthy")
    if told and reason == "SyncFailed":
        return f"{begin} does not allow evicting pods currently because it failed sync: {message}"
    if healthy <= desired:
        return f"{begin} needs {desired} healthy pods and has {healthy} currently"
    if told:
        return f"{begin} does not allow evicting pods currently ({reason}): {message}"
    return f"{begin} does not allow evicting pods currently"


def _refused(why: str, seconds: int) -> APIError:
    error = too_many_requests(_VIOLATED, seconds)
    error.details = {**(error.details or {}), "causes": [{"reason": "DisruptionBudget", "message": why}]}
    return error


def _count(budget: Object, name: str) -> int:
    return int(dig(budget, "status", name, default=0))


def _ready(pod: Object) -> bool:
    conditions = items_of(pod, "status", "conditions")
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)


class _Requirement:
    def __init__(self, raw: Object) -> None:
        self.key, self.operator, self.values = raw["key"], raw["operator"], tuple(raw.get("values") or ())


def _selects(budget: Object, pod: Object) -> bool:
    selector = dig(budget, "spec", "selector")
    if selector is None:
        return False
    labels = labels_of(pod)
    if any(labels.get(key) != value for key, value in dig(selector, "matchLabels", default={}).items()):
        return False
    rules = [_Requirement(raw) for raw in items_of(selector, "matchExpressions")]
    return not rules or from_requirements(rules).matches(labels)
