"""Patches: functions that make the new object from the present one, built from a request's body.

Errors of the patch itself are raised when it is parsed, those of its result when it is applied. Texts follow the API
server's patch handler.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple, cast

import msgspec

from steersman_cluster import fields, patch, schema
from steersman_cluster.api.custom.bodies import decode_custom, integers
from steersman_cluster.api.interfaces import Change
from steersman_cluster.api.requests.go_json import json_error
from steersman_cluster.api.requests.yaml_bodies import parse_yaml
from steersman_cluster.errors import APIError, bad_request, not_found, unsupported_media_type
from steersman_cluster.objects import Object
from steersman_cluster.schema.literals import converted, finite

__all__ = [
    "APPLY",
    "JSON_PATCH",
    "MERGE_PATCH",
    "STRATEGIC",
    "check_media",
    "document",
    "dumps",
    "reset_of",
    "transform_of",
]

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"
APPLY: Final = "application/apply-patch+yaml"

_META_ORDER: Final = (
    "name", "generateName", "namespace", "selfLink", "uid", "resourceVersion", "generation", "creationTimestamp",
    "deletionTimestamp", "deletionGracePeriodSeconds", "labels", "annotations", "ownerReferences", "finalizers",
    "managedFields",
)  # fmt: skip

Transform = Callable[[Object | None], Object]


def check_media(media: str, *, custom: bool) -> None:
    """Refuse media types that are not patches; custom resources have no strategic merge patch."""
    if custom:
        accepted = (JSON_PATCH, MERGE_PATCH, APPLY)
        if media not in accepted:
            text = "the body of the request was in an unknown format - accepted media types include: "
            raise unsupported_media_type(text + ", ".join(accepted))
    elif media not in (JSON_PATCH, MERGE_PATCH, STRATEGIC, APPLY):
        raise APIError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})


def transform_of(change: Change, body: bytes, media: str) -> Transform:
    """Return the transformation of a patch. Raises `APIError` for an invalid body."""
    check_media(media, custom=change.resource.definition is not None)
    if media == APPLY:
        return _applying(change, body)
    return _patching(change, body, media)


def document(data: bytes) -> tuple[Any, list[str]]:
    """A JSON document and texts about repeated keys. Raises `ValueError` with Go's text."""
    try:
        value, repeated = schema.loads(data, unstructured=True)
    except (ValueError, RecursionError) as problem:
        raise ValueError(json_error(data) or str(problem)) from None
    return value, schema.duplicate_fields(data) if repeated else []


# Server-side apply.


def _applying(change: Change, body: bytes) -> Transform:
    resource, options = change.resource, change.options
    value, repeated = _applied(body)

    def transform(present: Object | None) -> Object:
        made = fields.apply(
            present,
            value,
            resource.type,
            manager=options.manager,
            api_version=resource.api_version,
            kind=resource.kind,
            time=change.context.now,
            subresource=change.subresource,
            force=options.force,
            reset=reset_of(change),
            versions=change.versions,
        )
        # The result may share parts with the stored object; from here on the request owns it.
        fresh = cast(Object, schema.loads(dumps(made))[0])
        if repeated and options.validation == "Strict":
            shown = "\n  ".join(repeated)
            raise bad_request(
                f"error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  {shown}"
            )
        if options.validation == "Warn":
            change.warn(repeated)
        found = _decode(change, converted(fresh), telling=False)
        if found.mismatch:
            raise fields.unconvertible(value, found.converted or found.mismatch)
        return fresh

    return transform


def _applied(body: bytes) -> tuple[Object, list[str]]:
    value: Any = None
    try:
        value, again = schema.loads(body, unstructured=True) if body[:1] == b"{" else (None, True)
    except ValueError:
        again = True  # YAML that only begins like JSON
    try:
        value, repeated = parse_yaml(body) if again else (value, [])
    except ValueError as problem:
        raise bad_request(f"error decoding YAML: error converting YAML to JSON: {problem}") from None
    if value is None:
        value = {}
    if not isinstance(value, dict):
        shown = {str: "string", list: "array", bool: "bool"}.get(cast("type[Any]", type(value)), "number")
        raise bad_request(
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal "
            f"{shown} into Go value of type map[string]interface {{}}"
        )
    return cast(Object, value), repeated


def dumps(value: Any) -> bytes:
    """Return a value as JSON."""
    return msgspec.json.encode(value)


# JSON, merge and strategic patches.

_EXACT: Final[msgspec.json.Decoder[Any]] = msgspec.json.Decoder(float_hook=finite)
_CONVERTED: Final[msgspec.json.Decoder[Any]] = msgspec.json.Decoder(float_hook=lambda text: converted(finite(text)))
"""The decoders of patched documents: numbers as they are, and as Go converts those of an unstructured object."""


def _copy(value: Any, decoder: msgspec.json.Decoder[Any]) -> Any:
    """Return a copy that shares no parts with the value."""
    try:
        return decoder.decode(dumps(value))
    except RecursionError:
        raise ValueError("exceeded max depth") from None


def _patching(change: Change, body: bytes, media: str) -> Transform:
    resource, validation = change.resource, change.options.validation
    parsed: list[tuple[Any, list[str]]] = []

    def transform(present: Object | None) -> Object:
        if present is None:
            raise not_found(resource.group, resource.plural, change.name)
        if not parsed:
            # Not before: the error for a missing object comes first.
            try:
                parsed.append(document(body))
            except ValueError as problem:
                why = str(problem)
                if media == JSON_PATCH:
                    why = why.replace("into Go value of type", "into Go struct field jsonPatchOp.value of type")
                raise bad_request(f"{'' if media == STRATEGIC else 'error decoding patch: '}{why}") from None
        value, repeated = parsed[0]
        strict: list[str] = list(repeated)
        made: Any
        if media == JSON_PATCH:
            made = patch.json_patch(present, value)
            strict = [*patch.unknown_fields(value), *(f"json patch {text}" for text in repeated)]
        elif media == MERGE_PATCH:
            made = patch.merge_patch(present, value)
        else:
            made = patch.strategic(present, value, resource.type)
        if not isinstance(made, dict):
            raise bad_request(f"the patch does not leave an object of {resource.kind}")
        # The result may share parts with the patch, which a further attempt needs as it is.
        untouched = _Untouched.of(change, media, present, cast(Object, made))
        changed = untouched.removed_from(cast(Object, made))
        fresh = cast(Object, _copy(changed, _CONVERTED if media == STRATEGIC else _EXACT))
        quoted = partial(_quoted, media, value, cast(Object, made))
        _same_kind(change, fresh, quoted)
        found = _decode(change, fresh, telling=validation != "Ignore")
        if found.mismatch:
            why = found.converted if media == STRATEGIC else found.mismatch
            raise patch.undecodable(quoted(), why or found.mismatch)
        _check_strict_errors(change, [*strict, *found.unknown], quoted)
        return untouched.added_to(fresh, cast(Object, made))

    return transform


class _Untouched(NamedTuple):
    """The parts of a built-in object that a patch leaves as they are stored, which need no decoding."""

    parts: Object
    managed: list[Object] | None
    """The managed fields."""

    @classmethod
    def of(cls, change: Change, media: str, present: Object, made: Object) -> _Untouched:
        """Compare an object with the result of a patch."""
        if change.resource.definition is not None or media == JSON_PATCH:  # a JSON patch may change parts in place
            return cls({}, None)
        parts = {key: made[key] for key in ("spec", "status") if key in made and made[key] is present.get(key)}
        metadata, stored = made.get("metadata"), present.get("metadata")
        if not isinstance(metadata, dict) or not isinstance(stored, dict):
            return cls(parts, None)
        managed: Any = cast(Object, metadata).get("managedFields")
        return cls(parts, managed if managed and managed is cast(Object, stored).get("managedFields") else None)

    def removed_from(self, made: Object) -> Object:
        """Return the result of the patch without these parts."""
        found = {key: part for key, part in made.items() if key not in self.parts}
        if self.managed is not None:
            found["metadata"] = {key: part for key, part in made["metadata"].items() if key != "managedFields"}
        return found

    def added_to(self, fresh: Object, made: Object) -> Object:
        """Return the decoded rest with these parts, in the order of the result of the patch."""
        if self.managed is not None:
            metadata = {**fresh["metadata"], "managedFields": self.managed}
            fresh["metadata"] = _in_order_of(made["metadata"], metadata)
        return _in_order_of(made, {**fresh, **self.parts}) if self.parts else fresh


def _in_order_of(first: Object, found: Object) -> Object:
    """Return an object with its fields in the order of another one, new fields last."""
    return {key: found[key] for key in dict.fromkeys((*first, *found)) if key in found}


def _quoted(media: str, value: Any, made: Object) -> Any:
    """Return what refusals of a patched document quote."""
    return patch.go_text(value) if media == STRATEGIC else _in_go_order(made)


def _check_strict_errors(change: Change, strict: list[str], quoted: Callable[[], Any]) -> None:
    """Refuse, or warn of, what strict decoding finds."""
    validation = change.options.validation
    if strict and validation == "Strict":
        raise patch.undecodable(quoted(), f"strict decoding error: {', '.join(strict)}")
    if strict and validation == "Warn":
        change.warn(strict)


def _in_go_order(obj: Object) -> Object:
    """Metadata as Go writes it, for texts that quote an object."""
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict):
        return obj
    found = cast(Object, metadata)
    ordered = {name: found[name] for name in _META_ORDER if name in found}
    return {**obj, "metadata": {**ordered, **found}}


def _same_kind(change: Change, made: Object, quoted: Callable[[], Any]) -> None:
    resource = change.resource
    kind, api_version = made.get("kind"), made.get("apiVersion")
    if kind == resource.kind and api_version == resource.api_version:
        return
    from steersman_cluster.api.bodies import settle_types

    try:
        settled = settle_types(dict(made), resource)
    except ValueError as problem:
        raise patch.undecodable(quoted(), str(problem)) from None
    except APIError as problem:
        raise patch.undecodable(
            quoted(), problem.message.partition("cannot be handled as a ")[2].partition(": ")[2] or problem.message
        ) from None
    made["kind"], made["apiVersion"] = settled["kind"], settled["apiVersion"]


def _decode(change: Change, obj: Object, *, telling: bool) -> schema.Decoded:
    resource = change.resource
    if resource.definition is not None:
        integers(obj)
        return decode_custom(obj, resource, telling=telling)
    return schema.decode(obj, resource.type)


def reset_of(change: Change) -> fields.FieldSet:
    """Return the fields that the subresource cannot change, as the strategies of the API server list them."""
    resource = change.resource
    if change.subresource == "status":
        if resource.definition is not None:
            return _STATUS_ONLY
        return _STATUS_RESET_FIELDS.get((resource.group, resource.plural), _STATUS)
    return _MAIN if resource.strategy.has_status else fields.EMPTY


_MAIN: Final[fields.FieldSet] = {"f:status": {}}
_STATUS: Final[fields.FieldSet] = {"f:spec": {}}
_STATUS_ONLY: Final[fields.FieldSet] = {"f:metadata": {}, "f:spec": {}}
_STATUS_RESET_FIELDS: Final[Mapping[tuple[str, str], fields.FieldSet]] = {
    ("apps", "deployments"): {"f:spec": {}, "f:metadata": {"f:labels": {}}},
    ("", "pods"): {"f:spec": {}, "f:metadata": {"f:deletionTimestamp": {}, "f:ownerReferences": {}}},
    ("networking.k8s.io", "servicecidrs"): _STATUS_ONLY,
    ("resource.k8s.io", "resourceclaims"): _STATUS_ONLY,
    ("storage.k8s.io", "volumeattachments"): _STATUS_ONLY,
    ("flowcontrol.apiserver.k8s.io", "flowschemas"): _STATUS_ONLY,
    ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"): _STATUS_ONLY,
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"): _STATUS_ONLY,
    ("apiextensions.k8s.io", "customresourcedefinitions"): _STATUS_ONLY,
}
