"""Patches: from a request's body to a function that makes the new object of the present one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from steersman.devcluster import fields, patch, schema
from steersman.devcluster.api import bodies
from steersman.devcluster.errors import bad_request, unsupported_media_type
from steersman.devcluster.objects import Object

if TYPE_CHECKING:
    from steersman.devcluster.api.server import APIServer
    from steersman.devcluster.api.writes import Change

__all__ = ["transform_of"]

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"


def transform_of(server: APIServer, change: Change, body: bytes, media: str) -> Callable[[Object | None], Object]:
    """What the patch does. Raises `APIError` for bodies that are no such patch."""
    custom = change.resource.definition is not None
    accepted = (JSON_PATCH, MERGE_PATCH, APPLY) if custom else (JSON_PATCH, MERGE_PATCH, STRATEGIC, APPLY)
    if media not in accepted:
        offered = ", ".join(accepted if custom else (*accepted, "application/apply-patch+cbor"))
        text = f"the body of the request was in an unknown format - accepted media types include: {offered}"
        raise unsupported_media_type(text)
    if media == APPLY:
        value, duplicates = bodies.parse(body, bodies.YAML)
        return _applying(change, value, duplicates)
    value, duplicates = bodies.parse(body, bodies.JSON)
    return _patching(change, value, media, duplicates)


def _applying(change: Change, value: Any, duplicates: list[str]) -> Callable[[Object | None], Object]:
    resource, options = change.resource, change.options
    if not isinstance(value, dict):
        raise bad_request("error decoding YAML: the body of an apply patch must be an object")
    strict = _unknown(change, cast(Object, value)) + duplicates
    if strict and options.validation == "Strict":
        raise bad_request(f"strict decoding error: {', '.join(strict)}")
    if options.validation == "Warn":
        change.warnings.extend(strict)

    def transform(present: Object | None) -> Object:
        applied = cast(Object, schema.loads(_dumps(value))[0])
        applied.setdefault("metadata", {}).setdefault("name", change.name)
        if resource.namespaced:
            applied["metadata"].setdefault("namespace", change.namespace)
        if applied["metadata"].get("name") != change.name:
            raise bad_request(
                f"name in request ({change.name}) does not match name in object ({applied['metadata'].get('name')})"
            )
        made = fields.apply(
            present,
            applied,
            resource.type,
            manager=options.manager,
            api_version=resource.api_version,
            kind=resource.kind,
            time=change.context.now,
            subresource=change.subresource,
            force=options.force,
            reset=reset_of(change),
        )
        return _decoded(change, made, [])

    return transform


def _dumps(value: Any) -> bytes:
    import msgspec

    return msgspec.json.encode(value)


def _patching(change: Change, value: Any, media: str, duplicates: list[str]) -> Callable[[Object | None], Object]:
    resource = change.resource

    def transform(present: Object | None) -> Object:
        assert present is not None
        if media == JSON_PATCH:
            made = patch.json_patch(present, value)
        elif media == MERGE_PATCH:
            made = patch.merge_patch(present, value)
        else:
            made = patch.strategic(present, value, resource.type)
        if not isinstance(made, dict):
            raise bad_request(f"the patch does not leave an object of {resource.kind}")
        # The result may share parts with the patch, which a further attempt needs as it is.
        fresh = cast(Object, schema.loads(_dumps(made))[0])
        return _decoded(change, fresh, duplicates)

    return transform


def _decoded(change: Change, made: Object, duplicates: list[str]) -> Object:
    warnings: list[str] = []
    obj = bodies.decode_object(made, change.resource, change.options.validation, duplicates, warnings)
    known = set(change.warnings)
    change.warnings.extend(text for text in warnings if text not in known)
    return obj


def _unknown(change: Change, value: Object) -> list[str]:
    return list(schema.decode_errors(value, change.resource.type)[0])


def reset_of(change: Change) -> fields.FieldSet:
    """The fields that this door cannot change."""
    strategy = change.resource.strategy
    if not strategy.has_status:
        return fields.EMPTY
    if change.subresource == "status":
        return CUSTOM_STATUS if change.resource.definition is not None else STATUS
    return MAIN


MAIN: fields.FieldSet = {"f:status": {}}
STATUS: fields.FieldSet = {"f:spec": {}}
CUSTOM_STATUS: fields.FieldSet = {"f:metadata": {}, "f:spec": {}}
