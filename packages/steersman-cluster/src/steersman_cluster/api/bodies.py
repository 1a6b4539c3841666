"""Bodies of requests: media types, decoding, and the strict checks of `fieldValidation`.

Refusals have the texts of the API server's decoders. A decoded object is in the form in which it is stored.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, cast

import msgspec

from steersman_cluster import schema
from steersman_cluster.api.custom.bodies import decode_custom, integers
from steersman_cluster.api.interfaces import ResourceType
from steersman_cluster.api.requests.go_json import json_error
from steersman_cluster.errors import APIError, bad_request, unsupported_media_type
from steersman_cluster.objects import Object

__all__ = ["Body", "decode_body", "decode_object", "media_type", "read", "settle_options", "settle_types"]

JSON: Final = "application/json"
YAML: Final = "application/yaml"
PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
_ACCEPTED: Final = (JSON, YAML, PROTOBUF)
_CUSTOM: Final = (JSON, YAML)
_STRUCT: Final = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
)
INTERNAL: Final = {"": "core"}
"""Go packages of groups that are not called as their group begins."""
_OLD_EVICTIONS: Final = "policy/v1beta1"
"""Taken as well: what `kubectl drain` and others sent for years, with the same fields."""
_DELETE_OPTIONS: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"
_SCHEME: Final = "pkg/runtime/scheme.go:111"
_FLOAT: Final = re.compile(rb"[0-9](?:\.[0-9]|[eE])")
_SUMMARY: Final = 30


class Body(msgspec.Struct, frozen=True):
    """A body that was parsed: its value, texts about repeated keys, and the bytes it came in."""

    value: Any
    repeated: list[str]
    data: bytes = b""
    is_json: bool = False


def media_type(header: str | None) -> str:
    """Return the media type without its parameters; JSON by default."""
    if header is None or header == JSON:
        return JSON
    return header.partition(";")[0].strip().lower() or JSON


def read(data: bytes, kind: str, *, custom: bool = False, literal: bool = False) -> Body:
    """Parse a body, with numbers as literals for `schema.decode` where that is asked.

    Raises 415 for other media types, and `ValueError` with the decoder's text.
    """
    if kind == JSON:
        try:
            value, repeated = schema.loads(data, literal=literal)
        except (ValueError, RecursionError) as problem:
            raise ValueError(_no_json(data, problem)) from None
        return Body(value, schema.duplicate_fields(data) if repeated else [], data, is_json=True)
    accepted = _CUSTOM if custom else _ACCEPTED
    if kind not in accepted:
        shown = ", ".join(accepted)
        raise unsupported_media_type(
            f"the body of the request was in an unknown format - accepted media types include: {shown}"
        )
    if kind == PROTOBUF:
        from steersman_cluster.protobuf import NotProtobufError, decode

        try:
            return Body(decode(data), [], data)
        except NotProtobufError as problem:
            raise ValueError(str(problem)) from None
    from steersman_cluster.api.requests.yaml_bodies import parse_yaml

    try:
        value, repeated_keys = parse_yaml(data)
    except ValueError as problem:
        raise ValueError(
            f"couldn't get version/kind; json parse error: error converting YAML to JSON: {problem}"
        ) from None
    return Body(value, repeated_keys, data)


def _no_json(data: bytes, problem: Exception) -> str:
    try:
        data.decode()
    except UnicodeDecodeError:
        # Go decodes such text with replacement characters; a refusal is safer.
        return "couldn't get version/kind; json parse error: the body is no UTF-8"
    return f"couldn't get version/kind; json parse error: {json_error(data) or problem}"


def decode_body(
    data: bytes, kind: str, resource: ResourceType, validation: str, warnings: list[str]
) -> Callable[[], Object]:
    """Decode the body of a create or an update; returns a function that yields the object for each attempt.

    Errors about unknown and duplicate fields are added to `warnings`.

    Raises:
        APIError: The body is not an object of the kind.
    """
    try:
        body = read(data, kind, custom=resource.definition is not None, literal=resource.definition is None)
        settled = settle_types(body.value, resource)
    except ValueError as problem:
        raise _unrecognised(resource.kind, str(problem), data) from None
    first: list[Object] = [_finish(settled, resource, validation, body, warnings)]

    def again() -> Object:
        # The first attempt may have it, further ones need it as it was sent.
        if first:
            return first.pop()
        fresh = read(data, kind, custom=resource.definition is not None, literal=resource.definition is None)
        return _finish(settle_types(fresh.value, resource), resource, "Ignore", fresh, [])

    return again


def _finish(obj: Object, resource: ResourceType, validation: str, body: Body, warnings: list[str]) -> Object:
    if resource.definition is not None and _FLOAT.search(body.data):
        integers(obj)
    # Only JSON preserves the order of duplicate and unknown fields; for YAML, the duplicate ones come first.
    return decode_object(obj, resource, validation, body.repeated, warnings, body.data if body.is_json else b"")


def _unrecognised(kind: str, why: str, data: bytes) -> APIError:
    if not data:
        summary = "<empty>"
    else:
        text = data[:_SUMMARY].decode(errors="replace") if data[:1] == b"{" else data[:_SUMMARY].hex()
        summary = f"{text} ..." if len(data) > _SUMMARY else text
    return bad_request(f"the object provided is unrecognized (must be of type {kind}): {why} ({summary})")


def settle_types(value: Any, resource: ResourceType) -> Object:
    """Check apiVersion and kind against the path, or fill them in.

    Raises:
        APIError: The kind is another one.
        ValueError: The object has no kind; the message is that of the decoder.
    """
    if value is None:
        value = {}
    if not isinstance(value, dict):
        raise _no_object(value)
    found = cast(Object, value)
    api_version, kind = found.pop("apiVersion", None), found.pop("kind", None)
    if (api_version is None or api_version == "") and (kind is None or kind == ""):
        api_version, kind = resource.api_version, resource.kind
    elif api_version != resource.api_version or kind != resource.kind:
        api_version, kind = _checked_types(api_version, kind, resource)
    return {"kind": kind, "apiVersion": api_version, **found}


def _no_object(value: Any) -> ValueError:
    what = f"json: cannot unmarshal {_go_type(value)} into Go value of type {_STRUCT}"
    return ValueError(f"couldn't get version/kind; json parse error: {what}")


def settle_options(value: Any) -> Object:
    """DeleteOptions from a body. Raises `ValueError` with the decoder's text."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _no_object(value)
    found = cast(Object, value)
    kind, api_version = found.pop("kind", None), found.pop("apiVersion", None)
    if kind not in (None, "", "DeleteOptions"):
        raise ValueError(f'no kind "{kind}" is registered for version "{api_version or "v1"}" in scheme "{_SCHEME}"')
    if mismatch := schema.decode(found, schema.definition(_DELETE_OPTIONS)).mismatch:
        raise ValueError(mismatch)
    found.pop("kind", None)
    found.pop("apiVersion", None)
    return found


def _checked_types(api_version: Any, kind: Any, resource: ResourceType) -> tuple[str, str]:
    for name, given in (("apiVersion", api_version), ("kind", kind)):
        if given is not None and not isinstance(given, str):
            raise ValueError(
                f"couldn't get version/kind; json parse error: json: cannot unmarshal {_go_type(given)} into Go struct "
                f"field .{name} of type string"
            )
    if str(api_version or "").count("/") > 1:
        raise ValueError(f"unexpected GroupVersion string: {api_version}")
    api_version, kind = api_version or resource.api_version, kind or resource.kind
    if api_version == resource.api_version and kind == resource.kind:
        return api_version, kind
    if kind == resource.kind == "Eviction" and api_version == _OLD_EVICTIONS:
        return resource.api_version, kind
    raise bad_request(_mismatch(api_version, kind, resource))


def _mismatch(api_version: str, kind: str, resource: ResourceType) -> str:
    group, _, version = api_version.rpartition("/")
    what = f'{kind} in version "{version}" cannot be handled as a {resource.kind}'
    if resource.definition is not None:
        if kind != resource.kind or group != resource.group:
            wanted = f"{resource.group}/{resource.version}, Kind={resource.kind}"
            return f"{what}: unable to decode {group or ''}/{version}, Kind={kind} as {wanted}"
        return _other_version(api_version, resource)
    if (kind == resource.kind and group != resource.group) or (group, version, kind) not in schema.kinds():
        if kind == resource.kind and _was_served(group, version, resource):
            return _other_version(api_version, resource)
        return f'{what}: no kind "{kind}" is registered for version "{api_version}" in scheme "{_SCHEME}"'
    if kind != resource.kind:
        internal = INTERNAL.get(resource.group, resource.group.partition(".")[0])
        return f"{what}: converting ({version}.{kind}) to ({internal}.{resource.kind}): unknown conversion"
    return _other_version(api_version, resource)


def _other_version(api_version: str, resource: ResourceType) -> str:
    return (
        f"the API version in the data ({api_version}) does not match the expected API version ({resource.api_version})"
    )


def _was_served(group: str, version: str, resource: ResourceType) -> bool:
    """Versions that are known to the API server still, but served no more."""
    if resource.group == "apps":
        return (group, version) in (("apps", "v1beta1"), ("apps", "v1beta2"), ("extensions", "v1beta1"))
    return group == resource.group and version.startswith("v") and version != resource.version and "beta" in version


def _go_type(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    return {str: "string", list: "array", dict: "object"}.get(cast("type[Any]", type(value)), "number")


def decode_object(
    obj: Object, resource: ResourceType, validation: str, repeated: list[str], warnings: list[str], data: bytes = b""
) -> Object:
    """Decode an object in place, as strictly as asked; texts go to `warnings`. Raises `APIError`."""
    if resource.definition is not None:
        found = decode_custom(obj, resource, telling=validation != "Ignore")
    else:
        found = schema.decode(obj, resource.type)
    if found.mismatch:
        raise bad_request(
            f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: {found.mismatch}'
        )
    if (not found.unknown and not repeated) or validation == "Ignore":
        return obj
    problems = [*repeated, *found.unknown]
    if repeated and found.unknown and data and resource.definition is None:
        problems = schema.strict_errors(data, resource.type)
    if validation == "Strict":
        raise bad_request(
            f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: '
            f"strict decoding error: {', '.join(problems)}"
        )
    warnings.extend(problems)
    return obj
