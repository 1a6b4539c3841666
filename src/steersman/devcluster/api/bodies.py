"""Bodies of requests: media types, decoding, and the strict checks that `fieldValidation` asks for."""

from __future__ import annotations

from typing import Any, cast

import msgspec
import yaml

from steersman.devcluster import schema
from steersman.devcluster.api.resources import ResourceType
from steersman.devcluster.errors import APIError, bad_request, unsupported_media_type
from steersman.devcluster.objects import Object

__all__ = ["decode_object", "media_type", "parse", "settle_types"]

JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"


def media_type(header: str | None) -> str:
    """The media type without its parameters; JSON where nothing is said."""
    return (header or JSON).partition(";")[0].strip().lower()


def parse(body: bytes, kind: str, accepted: tuple[str, ...] = (JSON, YAML, PROTOBUF)) -> tuple[Any, list[str]]:
    """The value in a body, and texts about duplicate fields in it. Raises `APIError`."""
    if kind not in accepted:
        shown = ", ".join(accepted)
        text = f"the body of the request was in an unknown format - accepted media types include: {shown}"
        raise unsupported_media_type(text)
    if kind == PROTOBUF:
        from steersman.devcluster.protobuf import NotProtobuf, decode

        try:
            return decode(body), []
        except NotProtobuf as problem:
            raise bad_request(str(problem)) from None
    if kind == YAML and not body.lstrip()[:1] == b"{":
        try:
            return yaml.load(body, Loader=_Loader), []  # noqa: S506 - a safe loader
        except yaml.YAMLError as problem:
            raise bad_request(f"error converting YAML to JSON: yaml: {_first_line(problem)}") from None
    try:
        value, duplicated = schema.loads(body)
    except (ValueError, msgspec.DecodeError, RecursionError) as problem:
        raise _no_json(body, problem) from None
    return value, schema.duplicate_fields(body) if duplicated else []


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """YAML 1.1 without dates: what looks like a time is text, as it is in JSON."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, regexp) for tag, regexp in found if tag != "tag:yaml.org,2002:timestamp"]
    for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _first_line(problem: Exception) -> str:
    return str(problem).partition("\n")[0]


def _no_json(body: bytes, problem: Exception) -> APIError:
    text = body[:1].decode(errors="replace")
    if not body.strip():
        return bad_request("unexpected end of JSON input")
    if text not in '{["':
        return bad_request(f"invalid character '{text}' looking for beginning of value")
    return bad_request(f"the body is no JSON: {problem}")


def settle_types(obj: Any, resource: ResourceType, expected: str = "") -> Object:
    """Check apiVersion and kind against what the path says, or fill them in. Raises `APIError`."""
    if not isinstance(obj, dict):
        raise bad_request(
            f"couldn't get version/kind; json parse error: json: cannot unmarshal {_go(obj)} into Go value of type "
            'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
        )
    found = cast(Object, obj)
    api_version, kind = found.get("apiVersion") or resource.api_version, found.get("kind") or resource.kind
    for name, value in (("apiVersion", api_version), ("kind", kind)):
        if not isinstance(value, str):
            raise bad_request(
                f"couldn't get version/kind; json parse error: json: cannot unmarshal {_go(value)} into Go struct "
                f"field .{name} of type string"
            )
    if kind != resource.kind or api_version != resource.api_version:
        raise bad_request(_mismatch(api_version, kind, resource))
    found.pop("kind", None)
    found.pop("apiVersion", None)
    return {"kind": kind, "apiVersion": api_version, **found}


def _mismatch(api_version: str, kind: str, resource: ResourceType) -> str:
    if api_version != resource.api_version:
        return (
            f"the API version in the data ({api_version}) does not match the expected API version "
            f"({resource.api_version})"
        )
    return f'{kind} in version "{resource.version}" cannot be handled as a {resource.kind}: converting (v1.{kind}) to ({resource.kind}): unknown conversion'


def _go(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    return {str: "string", list: "array", dict: "object"}.get(type(value), "number")


def decode_object(
    value: Any, resource: ResourceType, validation: str, duplicates: list[str], warnings: list[str]
) -> Object:
    """The object in the form in which it is stored, as strictly as asked; texts go to `warnings`. Raises `APIError`."""
    obj = settle_types(value, resource)
    if resource.definition is not None:
        # A custom resource is judged by its schema, later; here only what is unknown is told.
        unknown = schema.decode_errors(obj, resource.type)[0] if validation != "Ignore" else ()
        found = schema.Decoded(tuple(unknown))
    else:
        found = schema.decode(obj, resource.type)
    if found.mismatch:
        raise bad_request(
            f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: {found.mismatch}'
        )
    problems = [*duplicates, *found.unknown]
    if problems and validation == "Strict":
        raise bad_request(
            f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: '
            f"strict decoding error: {', '.join(problems)}"
        )
    if validation == "Warn":
        warnings.extend(problems)
    return obj
