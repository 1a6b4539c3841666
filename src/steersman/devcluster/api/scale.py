"""The `scale` sub-resource: replicas and selector of any scalable kind as an `autoscaling/v1` Scale."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from steersman.devcluster import schema
from steersman.devcluster.api import bodies, patching
from steersman.devcluster.api.options import write_options
from steersman.devcluster.api.resources import ResourceType
from steersman.devcluster.api.views import object_of
from steersman.devcluster.errors import bad_request, field_invalid, invalid, not_found
from steersman.devcluster.objects import Object, dig, meta

if TYPE_CHECKING:
    from steersman.devcluster.api.call import Call

__all__ = ["serve_scale"]

_KIND: Final = ("autoscaling", "v1", "Scale")


async def serve_scale(call: Call) -> Object:
    """Get, update or patch. Raises `APIError`."""
    from steersman.devcluster.api.writes import Change

    server, resource = call.server, call.resource
    item = server.storage.get(resource.stored_at, call.namespace, call.name)
    if item is None:
        raise not_found(resource.group, resource.plural, call.name)
    if call.verb == "get":
        return _scale_of(resource, object_of(resource, item))
    request = call.request
    media = bodies.media_type(request.headers.get("Content-Type"))
    agent = (request.headers.get("User-Agent") or "").partition("/")[0] or "unknown"
    kind = "PatchOptions" if call.verb == "patch" else "UpdateOptions"
    options = write_options(request.params, agent, kind, apply=media == patching.APPLY)
    context = server.context(call.user, subresource="scale", dry_run=options.dry_run)
    change = Change(resource, call.namespace, call.name, call.user, options, context, "scale", call.warnings, kind=kind)
    value, _ = bodies.parse(
        request.body, bodies.YAML if media == patching.APPLY else bodies.JSON if call.verb == "patch" else media
    )

    def transform(present: Object | None) -> Object:
        assert present is not None
        now = _scale_of(resource, present)
        wanted = _patched(now, value, media) if call.verb == "patch" else value
        if not isinstance(wanted, dict):
            raise bad_request("the body of the request is no Scale")
        scale: Object = {"kind": "Scale", "apiVersion": "autoscaling/v1", **wanted}
        if scale["kind"] != "Scale" or scale["apiVersion"] != "autoscaling/v1":
            raise bad_request(f"{scale['kind']} in version {scale['apiVersion']!r} cannot be handled as a Scale")
        found = schema.decode(scale, schema.builtin(*_KIND))
        if found.mismatch:
            raise bad_request(f'Scale in version "v1" cannot be handled as a Scale: {found.mismatch}')
        name = meta(scale).get("name")
        if name and name != call.name:
            raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({call.name})")
        replicas = dig(scale, "spec", "replicas", default=0)
        if replicas < 0:
            problem = field_invalid("spec.replicas", replicas, "must be greater than or equal to 0")
            raise invalid("autoscaling", "Scale", call.name, [problem])
        custom: Any = getattr(resource.strategy, "scale", None)
        if custom is not None:
            custom.write(present, scale)
        else:
            present["spec"]["replicas"] = replicas
        metadata = meta(present)
        for field in ("resourceVersion", "uid"):
            if meta(scale).get(field):
                metadata[field] = meta(scale)[field]
        return present

    outcome = await server.writer.update(change, transform, replace=call.verb == "update")
    return _scale_of(resource, outcome.obj)


def _patched(now: Object, value: Any, media: str) -> Any:
    from steersman.devcluster import patch

    if media == patching.JSON_PATCH:
        return patch.json_patch(now, value)
    if media == patching.STRATEGIC:
        return patch.strategic(now, value, schema.builtin(*_KIND))
    return patch.merge_patch(now, value)


def _scale_of(resource: ResourceType, obj: Object) -> Object:
    custom: Any = getattr(resource.strategy, "scale", None)
    if custom is not None:
        return custom.read(obj)
    metadata = {
        name: meta(obj)[name]
        for name in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
        if meta(obj).get(name)
    }
    status: Object = {"replicas": dig(obj, "status", "replicas", default=0)}
    selector = _selector(dig(obj, "spec", "selector"))
    if selector:
        status["selector"] = selector
    spec: Object = {}
    if (replicas := dig(obj, "spec", "replicas", default=0)) != 0:
        spec["replicas"] = replicas
    return {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status}


def _selector(selector: Any) -> str:
    if not isinstance(selector, dict):
        return ""
    labels: Any = selector.get("matchLabels", {} if "matchExpressions" in selector else selector)
    terms = [f"{key}={value}" for key, value in sorted(labels.items())]
    for rule in selector.get("matchExpressions") or []:
        key, operator, values = rule["key"], rule["operator"], ",".join(sorted(rule.get("values") or []))
        terms.append(
            {
                "In": f"{key} in ({values})",
                "NotIn": f"{key} notin ({values})",
                "Exists": key,
                "DoesNotExist": f"!{key}",
            }[operator]
        )
    return ",".join(sorted(terms))
