"""The subresource `scale`: replicas and selector of any scalable kind as an `autoscaling/v1` Scale.

A Scale is not stored: a write changes the replicas of its parent and the managed fields of its parent.
"""

from __future__ import annotations

from typing import Any, Final, cast

from steersman_cluster import fields, patch, schema
from steersman_cluster.api import bodies, patches
from steersman_cluster.api import metadata as metas
from steersman_cluster.api.interfaces import Call, Change, ResourceType
from steersman_cluster.api.requests.options import agent_of, write_options
from steersman_cluster.api.views import object_of
from steersman_cluster.crd import CustomStrategy, ScalePaths
from steersman_cluster.errors import bad_request, field_invalid, invalid, not_found
from steersman_cluster.objects import Object, dig, meta

__all__ = ["serve_scale"]

_TYPE: Final = schema.builtin("autoscaling", "v1", "Scale")
_VERSION: Final = "autoscaling/v1"
_ENTRIES: Final = "managedFields"


async def serve_scale(call: Call) -> Object:
    """Get, update or patch. Raises `APIError`."""
    server, resource = call.server, call.resource
    item = server.storage.get(resource.stored_at, call.namespace, call.name)
    if item is None:
        raise not_found(resource.group, resource.plural, call.name)
    if call.verb == "get":
        if resource.converts:
            await server.conversions.prepare(resource, (item,))
        return _scale_of(resource, object_of(resource, item))
    request = call.request
    media = bodies.media_type(request.headers.get("Content-Type"))
    patching_it = call.verb == "patch"
    apply = patching_it and media == patches.APPLY
    kind = "PatchOptions" if patching_it else "UpdateOptions"
    options = write_options(request.params, agent_of(request), kind, apply=apply)
    context = server.context(call.user, subresource="scale", dry_run=options.dry_run)
    change = Change(
        resource, call.namespace, call.name, call.user, options, context, "scale", call.warnings,
        apply=apply, kind=kind, tracked=False,
    )  # fmt: skip
    wanted = _ScaleChange(change, request.body, media, patching_it=patching_it)
    change.representation = wanted
    outcome = await server.writer.update(change, wanted.transform)
    return _scale_of(resource, outcome.obj)


class _ScaleChange:
    """The transformation of a parent for a write of its Scale; admission receives the Scale."""

    kind, group, version = "Scale", "autoscaling", "v1"
    old: Object
    new: Object

    def __init__(self, change: Change, body: bytes, media: str, *, patching_it: bool) -> None:
        self._change = change
        self._media = media
        self._patching = patching_it
        resource = change.resource
        self._paths = _paths_of(resource)
        self._path = tuple(self._paths.spec.strip(".").split(".")) if self._paths else ("spec", "replicas")
        self._value: Any
        self._repeated: list[str]
        try:
            if patching_it and media != patches.APPLY:
                self._value, self._repeated = patches.document(body)
            else:
                read = bodies.read(body, bodies.YAML if patching_it else media)
                self._value, self._repeated = read.value, read.repeated
        except ValueError as problem:
            raise bad_request(str(problem)) from None

    def transform(self, present: Object | None) -> Object:
        """The parent with the replicas, the managed fields and the version that the Scale brings."""
        change, parent = self._change, cast(Object, present)
        entries: list[Object] | None = meta(parent).get(_ENTRIES)
        self.old = self._tracked(parent)
        self.new = scale = self._scale(self._tracked(parent))
        metadata = meta(scale)
        metas.place(change.resource, change.namespace, metadata)
        metas.check_name(change.name, metadata)
        _check(change, scale, self._paths)
        self.write(parent, scale)
        owner = meta(parent)
        owned = fields.from_scale(entries, metadata.get(_ENTRIES), change.resource.api_version, self._path)
        if owned:
            owner[_ENTRIES] = owned
        else:
            owner.pop(_ENTRIES, None)
        if metadata.get("uid"):
            owner["uid"] = metadata["uid"]
        if metadata.get("resourceVersion"):
            owner["resourceVersion"] = metadata["resourceVersion"]
        return parent

    def of(self, parent: Object) -> Object:
        """The Scale of a parent, without managed fields."""
        return _scale_of(self._change.resource, parent)

    def _tracked(self, parent: Object) -> Object:
        """The Scale of a parent, with the managed fields that concern it."""
        scale = _scale_of(self._change.resource, parent)
        entries: list[Object] | None = meta(parent).get(_ENTRIES)
        if shown := fields.to_scale(entries, self._path):
            scale["metadata"][_ENTRIES] = shown
        return scale

    def write(self, parent: Object, shown: Object) -> None:
        """Write the replicas of a Scale into its parent."""
        if self._paths is not None:
            self._paths.write(parent, shown)
        else:
            cast(Object, parent.setdefault("spec", {}))["replicas"] = dig(shown, "spec", "replicas", default=0)

    def normalise(self, shown: Object) -> None:
        """Check that a changed object still is a Scale. Raises `ValueError`."""
        found = schema.decode(shown, _TYPE)
        if found.mismatch:
            raise ValueError(found.mismatch)

    def _scale(self, live: Object) -> Object:
        change, options = self._change, self._change.options
        if self._patching and self._media == patches.APPLY:
            applied = self._value
            if not isinstance(applied, dict):
                raise bad_request("error decoding YAML: the body of an apply patch must be an object")
            scale = fields.apply(
                live, cast(Object, applied), _TYPE, manager=options.manager, api_version=_VERSION, kind="Scale",
                time=change.context.now, subresource="scale", force=options.force,
            )  # fmt: skip
            self._decode(scale)
            return scale
        scale = self._decode(self._patched(live) if self._patching else self._value)
        fields.track(
            live, scale, _TYPE, manager=options.manager, api_version=_VERSION, time=change.context.now,
            subresource="scale",
        )  # fmt: skip
        return scale

    def _patched(self, live: Object) -> Any:
        if self._media == patches.JSON_PATCH:
            return patch.json_patch(live, self._value)
        if self._media == patches.STRATEGIC:
            return patch.strategic(live, self._value, _TYPE)
        return patch.merge_patch(live, self._value)

    def _decode(self, value: Any) -> Object:
        if not isinstance(value, dict):
            raise bad_request("the body of the request is no Scale")
        scale: Object = schema.loads(patches.dumps({"kind": "Scale", "apiVersion": _VERSION, **value}))[0]
        if scale["kind"] != "Scale" or scale["apiVersion"] != _VERSION:
            given = scale["apiVersion"]
            raise bad_request(
                f"the API version in the data ({given}) does not match the expected API version ({_VERSION})"
            )
        found = schema.decode(scale, _TYPE)
        if found.mismatch:
            raise bad_request(f'Scale in version "v1" cannot be handled as a Scale: {found.mismatch}')
        strict = [*self._repeated, *found.unknown]
        validation = self._change.options.validation
        if strict and validation == "Strict":
            text = f"strict decoding error: {', '.join(strict)}"
            raise bad_request(f'Scale in version "v1" cannot be handled as a Scale: {text}')
        if validation == "Warn":
            self._change.warn(strict)
        return scale


def _check(change: Change, scale: Object, paths: ScalePaths | None) -> None:
    if paths is not None:
        return  # the kind's own validation looks at the paths
    replicas = dig(scale, "spec", "replicas", default=0)
    if replicas < 0:
        problem = field_invalid("spec.replicas", replicas, "must be greater than or equal to 0")
        raise invalid("autoscaling", "Scale", change.name, [problem])


def _paths_of(resource: ResourceType) -> ScalePaths | None:
    strategy = resource.strategy
    return strategy.scale if isinstance(strategy, CustomStrategy) else None


def _scale_of(resource: ResourceType, obj: Object) -> Object:
    custom = _paths_of(resource)
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
    return {"kind": "Scale", "apiVersion": _VERSION, "metadata": metadata, "spec": spec, "status": status}


def _selector(selector: Any) -> str:
    if not isinstance(selector, dict):
        return ""
    found = cast(Object, selector)
    labels: dict[str, str] = found.get("matchLabels", {} if "matchExpressions" in found else found)
    terms = [(key, f"{key}={value}") for key, value in labels.items()]
    rules: list[dict[str, Any]] = found.get("matchExpressions") or []
    for rule in rules:
        key: str = rule["key"]
        wanted: list[str] = rule.get("values") or []
        values = ",".join(sorted(wanted))
        shown: dict[str, str] = {
            "In": f"{key} in ({values})",
            "NotIn": f"{key} notin ({values})",
            "Exists": key,
            "DoesNotExist": f"!{key}",
        }
        terms.append((key, shown[rule["operator"]]))
    return ",".join(text for _, text in sorted(terms))
