"""The subresource `binding`, which sets the node of a Pod."""

from __future__ import annotations

from typing import cast

from steersman_cluster.api.interfaces import Call, Change
from steersman_cluster.api.requests.messages import Response, json_response
from steersman_cluster.api.requests.options import write_options
from steersman_cluster.errors import (
    APIError,
    FieldError,
    bad_request,
    conflict,
    not_supported,
    required,
)
from steersman_cluster.objects import Object, dig, meta, name_of

__all__ = ["bind"]

_SUCCESS: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}


async def bind(call: Call) -> Response:
    """POST of a Binding: the Pod gets its node, once. Raises `APIError`."""
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
    for gone in ("reason", "message", "observedGeneration"):
        scheduled.pop(gone, None)
