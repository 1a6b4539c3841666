"""Doors of Pods that change more than themselves: binding to a node, and eviction under PodDisruptionBudgets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from steersman.devcluster.api.messages import Response, json_response
from steersman.devcluster.api.options import delete_options, write_options
from steersman.devcluster.api.views import object_of
from steersman.devcluster.errors import (
    APIError,
    FieldError,
    bad_request,
    conflict,
    field_invalid,
    internal,
    invalid,
    not_found,
    not_supported,
    required,
    too_many_requests,
)
from steersman.devcluster.objects import Object, dig, labels_of, meta, name_of
from steersman.models.selectors import from_requirements

if TYPE_CHECKING:
    from steersman.devcluster.api.call import Call

__all__ = ["bind", "evict"]

_SUCCESS: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}


async def bind(call: Call) -> Response:
    """POST of a Binding: the Pod gets its node, once. Raises `APIError`."""
    from steersman.devcluster.api.writes import Change

    body = call.body or {}
    server = call.server
    resource = server.registry.find("", "v1", "pods")
    assert resource is not None
    name = call.name or name_of(body)
    if call.name and name_of(body) != call.name:
        raise bad_request("name in URL does not match name in Binding object")
    target = cast(Object, body.get("target") or {})
    problems: list[FieldError] = []
    if target.get("kind") not in (None, "", "Node"):
        problems.append(not_supported("target.kind", target.get("kind"), ("Node", "<empty>")))
    if not target.get("name"):
        problems.append(required("target.name", ""))
    if problems:
        # The real server answers these without a reason, as an error of its own.
        texts = [problem.message for problem in problems]
        raise APIError(500, "", texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")
    options = write_options(call.request.params, "", "CreateOptions")
    context = server.context(call.user, subresource="binding", dry_run=options.dry_run)
    # A binding has no manager: it goes past the update path on the real server, and past its admission.
    change = Change(
        resource, call.namespace, name, call.user, options, context, "binding", call.warnings, tracked=False
    )

    def transform(present: Object | None) -> Object:
        pod = cast(Object, present)
        wanted = meta(body).get("uid")
        if wanted and wanted != meta(pod).get("uid"):
            why = f"Precondition failed: UID in precondition: {wanted}, UID in object meta: {meta(pod).get('uid')}"
            key = f"/registry/pods/{call.namespace}/{name}"
            why = f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: {why}"
            raise conflict("", "pods", name, why)
        if meta(pod).get("deletionTimestamp"):
            raise conflict("", "pods/binding", name, f"pod {name} is being deleted, cannot be assigned to a host")
        node = dig(pod, "spec", "nodeName")
        if node:
            raise conflict("", "pods/binding", name, f'pod {name} is already assigned to node "{node}"')
        if dig(pod, "spec", "schedulingGates"):
            raise conflict("", "pods/binding", name, f"pod {name} has non-empty .spec.schedulingGates")
        _assign(pod, str(target["name"]), body, context.now)
        return pod

    await server.writer.update(change, transform)
    return json_response({**_SUCCESS, "code": 201}, 201)


def _assign(pod: Object, node: str, binding: Object, now: str) -> None:
    """Give a Pod its node, in place, and what else a binding brings."""
    pod["spec"]["nodeName"] = node
    for field in ("annotations", "labels"):
        if added := meta(binding).get(field):
            meta(pod).setdefault(field, {}).update(added)
    pod.get("status", {}).pop("nominatedNodeName", None)
    conditions: list[Object] = pod.setdefault("status", {}).setdefault("conditions", [])
    scheduled = next((c for c in conditions if c["type"] == "PodScheduled"), None)
    if scheduled is None:
        scheduled = cast(Object, {"type": "PodScheduled"})
        conditions.append(scheduled)
    if scheduled.get("status") != "True":
        scheduled["lastTransitionTime"] = now
    scheduled.setdefault("lastProbeTime", None)
    scheduled["status"] = "True"
    for gone in ("reason", "message"):
        scheduled.pop(gone, None)


async def evict(call: Call) -> Response:
    """POST of an Eviction: a delete that PodDisruptionBudgets may refuse for now. Raises `APIError`."""
    body = call.body or {}
    server = call.server
    resource = call.resource
    if name_of(body) != call.name:
        raise bad_request("name in URL does not match name in Eviction object")
    sent = cast(Object, body.get("deleteOptions") or {})
    sent = {key: value for key, value in sent.items() if key not in ("kind", "apiVersion")}
    options = delete_options(call.request.params, sent or None)
    item = server.storage.get(resource.stored_at, call.namespace, call.name)
    if item is None:
        raise not_found("", "pods", call.name)
    pod = object_of(resource, item)
    context = server.context(call.user, subresource="eviction", dry_run=options.dry_run or call.dry_run)
    if not _ignores_budgets(pod):
        await _take_from_budget(call, pod, context.now)
    await server.deleter.delete(resource, call.namespace, call.name, options, call.user, context)
    return json_response({**_SUCCESS, "code": 201}, 201)


def _ignores_budgets(pod: Object) -> bool:
    """Pods that do not run, or end already, disrupt nothing."""
    if meta(pod).get("deletionTimestamp"):
        return True
    return dig(pod, "status", "phase", default="Pending") in ("Pending", "Succeeded", "Failed")


def _healthy(pod: Object) -> bool:
    conditions: list[Any] = dig(pod, "status", "conditions", default=[])
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)


class _Rule:
    def __init__(self, raw: Object) -> None:
        self.key, self.operator, self.values = raw["key"], raw["operator"], tuple(raw.get("values") or ())


def _selects(budget: Object, pod: Object) -> bool:
    selector = dig(budget, "spec", "selector")
    if selector is None:
        return False
    labels = labels_of(pod)
    wanted: dict[str, str] = selector.get("matchLabels") or {}
    if any(labels.get(key) != value for key, value in wanted.items()):
        return False
    raw_rules: list[Object] = selector.get("matchExpressions") or []
    rules = [_Rule(raw) for raw in raw_rules]
    return not rules or from_requirements(rules).matches(labels)


async def _take_from_budget(call: Call, pod: Object, now: str) -> None:
    server = call.server
    budgets = [b for b in server.reader.list("policy", "poddisruptionbudgets", call.namespace) if _selects(b, pod)]
    if len(budgets) > 1:
        raise internal(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        )
    if not budgets:
        return
    budget = budgets[0]
    status = cast(Object, budget.setdefault("status", {}))
    if not _healthy(pod):
        policy = dig(budget, "spec", "unhealthyPodEvictionPolicy", default="IfHealthyBudget")
        enough = (
            status.get("currentHealthy", 0) >= status.get("desiredHealthy", 0) and status.get("desiredHealthy", 0) > 0
        )
        if policy == "AlwaysAllow" or enough:
            return
    name = name_of(budget)
    if status.get("observedGeneration", 0) < (meta(budget).get("generation") or 0):
        raise _refused(f"The disruption budget {name} is still being processed by the server.", name, 10)
    allowed = status.get("disruptionsAllowed", 0)
    if allowed < 0:
        problem = field_invalid("status.disruptionsAllowed", allowed, "pdb disruptions allowed is negative")
        raise invalid("policy", "PodDisruptionBudget", name, [problem])
    if allowed == 0:
        text = (
            f"The disruption budget {name} needs {status.get('desiredHealthy', 0)} healthy pods and has "
            f"{status.get('currentHealthy', 0)} currently"
        )
        raise _refused(text, name, 0)
    if call.dry_run:
        return
    status["disruptionsAllowed"] = allowed - 1
    status.setdefault("disruptedPods", {})[name_of(pod)] = now
    server.storage.put(("policy", "poddisruptionbudgets"), call.namespace, name, budget)


def _refused(why: str, name: str, seconds: int) -> APIError:
    error = too_many_requests("Cannot evict pod as it would violate the pod's disruption budget.", seconds)
    details = error.details if error.details is not None else {}
    details["causes"] = [{"reason": "DisruptionBudget", "message": why}]
    error.details = details
    return error
