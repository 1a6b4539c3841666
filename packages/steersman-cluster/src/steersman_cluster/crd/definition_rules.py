"""Validation of CustomResourceDefinitions: names, versions, schemas, columns, conversion, immutable fields.

Error paths are those of the API server's internal form: values that all versions share are in `spec.validation`, and
the settings of webhooks are in `spec.conversion`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast
from urllib.parse import urlsplit

from steersman_cluster.cel.gotext import go_quote
from steersman_cluster.crd.lifecycle import established
from steersman_cluster.crd.rules import field_path
from steersman_cluster.crd.schema_rules import schema_errors
from steersman_cluster.crd.schema_validation import Schema
from steersman_cluster.errors import (
    ErrorType,
    FieldError,
    duplicate,
    field_forbidden,
    field_invalid,
    not_supported,
    required,
    too_many,
)
from steersman_cluster.kinds import formats
from steersman_cluster.objects import Object, Path, dig, meta, name_of

__all__ = ["validate_definition", "validate_definition_update"]

_SPEC = Path("spec")
_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_HOISTED = ("schema", "subresources", "additionalPrinterColumns", "selectableFields")
_APPROVED = "api-approved.kubernetes.io"
_MAX_SELECTABLE = 8
_SEE = "see https://github.com/kubernetes/enhancements/pull/1111"


def validate_definition(obj: Object) -> list[FieldError]:
    """Return the errors of a new definition."""
    found: list[FieldError] = []
    spec = cast(Object, obj.get("spec") or {})
    wanted = f"{dig(spec, 'names', 'plural', default='')}.{spec.get('group') or ''}"
    if name_of(obj) and name_of(obj) != wanted:
        found.append(field_invalid("metadata.name", name_of(obj), 'must be spec.names.plural+"."+spec.group'))
    found += _spec(spec, invalid_bundle=True)
    found += _status(obj)
    found += _approval(obj, None)
    if spec.get("preserveUnknownFields") is True:
        found.append(_preserve())
    return found


def validate_definition_update(obj: Object, old: Object, *, status_only: bool = False) -> list[FieldError]:
    """Return the errors of a changed definition; for the subresource `status`, those of the status only."""
    if status_only:
        return _names(dig(obj, "status", "acceptedNames", default={}), Path("status") / "acceptedNames")
    spec, before = cast(Object, obj.get("spec") or {}), cast(Object, old.get("spec") or {})
    bundle = dig(before, "conversion", "webhook", "clientConfig", "caBundle")
    found = _spec(spec, invalid_bundle=not established(old) or bool(bundle), before=before)
    if established(old):
        found += _same(spec, before, "scope")
        found += _same(spec, before, "names", "kind")
    found += _same(spec, before, "group")
    found += _same(spec, before, "names", "plural")
    found += _status(obj)
    found += _approval(obj, old)
    if spec.get("preserveUnknownFields") is True and before.get("preserveUnknownFields") is not True:
        found.append(_preserve())
    return found


def _preserve() -> FieldError:
    text = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
    return field_invalid("spec.preserveUnknownFields", True, text)


def _same(spec: Object, before: Object, *names: str) -> list[FieldError]:
    new, old = dig(spec, *names, default=""), dig(before, *names, default="")
    return [] if new == old else [field_invalid(".".join(("spec", *names)), new, "field is immutable")]


def _texts(rule: formats.Rule, path: Path, value: str, prefix: str = "") -> list[FieldError]:
    texts = rule(value)
    return [field_invalid(path, value, prefix + ",".join(texts))] if texts else []


def _internal(spec: Object) -> tuple[Object, list[Object]]:
    """Return the values that all versions share, and the versions without them."""
    versions = [dict(version) for version in cast("list[Object]", spec.get("versions") or [])]
    common: Object = {}
    for name in _HOISTED:
        first = versions[0].get(name) if versions else None
        if first and all(version.get(name) == first for version in versions):
            common[name] = first
            for version in versions:
                version.pop(name, None)
    return common, versions


def _spec(  # noqa: C901 - the API server's checks, one after the other
    spec: Object, *, invalid_bundle: bool, before: Object | None = None
) -> list[FieldError]:
    found: list[FieldError] = []
    group = cast(str, spec.get("group") or "")
    if not group:
        found.append(required(_SPEC / "group"))
    elif texts := formats.dns_subdomain(group):
        found.append(field_invalid(_SPEC / "group", group, ",".join(texts)))
    elif "." not in group:
        found.append(field_invalid(_SPEC / "group", group, "should be a domain with at least one dot"))
    scope = spec.get("scope") or ""
    if not scope:
        found.append(required(_SPEC / "scope"))
    elif scope not in ("Cluster", "Namespaced"):
        found.append(not_supported(_SPEC / "scope", scope, ("Cluster", "Namespaced")))
    common, versions = _internal(spec)
    if not common.get("schema"):
        for index, version in enumerate(versions):
            if not dig(version, "schema", "openAPIV3Schema"):
                found.append(required((_SPEC / "versions").at(index) / "schema" / "openAPIV3Schema"))
    for index, version in enumerate(versions):
        at = (_SPEC / "versions").at(index)
        found += _texts(formats.dns1035_label, at / "name", cast(str, version.get("name") or ""))
        found += _deprecation(version, at / "deprecationWarning")
        status = dig(common.get("subresources") or version.get("subresources") or {}, "status") is not None
        schema = common.get("schema") or version.get("schema")
        unchanged = _unchanged(version, common, before)
        found += _parts(version, at, status=status, schema=schema, before=before, unchanged=unchanged)
    found += _uniqueness(versions)
    if versions:
        found += _texts(formats.dns1035_label, _SPEC / "version", cast(str, versions[0].get("name") or ""))
    names = cast(Object, spec.get("names") or {})
    found += [
        required(_SPEC / "names" / part) for part in ("plural", "singular", "kind", "listKind") if not names.get(part)
    ]
    found += _names(names, _SPEC / "names")
    any_status = any(
        dig(version, "subresources", "status") is not None
        for version in cast("list[Object]", spec.get("versions") or [])
    )
    first = versions[0] if versions else {}
    unchanged = _unchanged(first, common, before)
    found += _parts(common, _SPEC, status=any_status, schema=common.get("schema"), before=before, unchanged=unchanged)
    found += _conversion(cast(Object, spec.get("conversion") or {}), invalid_bundle=invalid_bundle)
    return found


def _uniqueness(versions: list[Object]) -> list[FieldError]:
    found: list[FieldError] = []
    names = [version.get("name") for version in versions]
    shown = _shown(versions)
    at = _SPEC / "versions"
    if len(set(names)) != len(names):
        found.append(FieldError(ErrorType.INVALID, at, None, "must contain unique version names", shown))
    if sum(version.get("storage") is True for version in versions) != 1:
        text = "must have exactly one version marked as storage version"
        found.append(FieldError(ErrorType.INVALID, at, None, text, shown))
    return found


def _shown(versions: list[Object]) -> str:
    """Versions as Go's internal type prints as JSON, where nothing but names and flags is left in them."""
    fields = [
        {
            "Name": version.get("name") or "",
            "Served": version.get("served") is True,
            "Storage": version.get("storage") is True,
            "Deprecated": version.get("deprecated") is True,
            "DeprecationWarning": version.get("deprecationWarning"),
            "Schema": version.get("schema"),
            "Subresources": version.get("subresources"),
            "AdditionalPrinterColumns": version.get("additionalPrinterColumns"),
            "SelectableFields": version.get("selectableFields"),
        }
        for version in versions
    ]
    return json.dumps(fields, separators=(",", ":"))


def _deprecation(version: Object, path: Path) -> list[FieldError]:
    warning = version.get("deprecationWarning")
    if warning is None:
        return []
    text = cast(str, warning)
    found: list[str] = []
    if version.get("deprecated") is not True:
        found.append("can only be set for deprecated versions")
    if len(text.encode()) > 256:
        found.append("must be <= 256 characters long")
    if not text:
        found.append("must not be an empty string")
    for index, char in enumerate(text):
        if not char.isprintable():
            found.append(
                f"must only contain printable UTF-8 characters; non-printable character found at index {index}"
            )
            break
    return [field_invalid(path, text, message) for message in found]


def _unchanged(version: Object, common: Object, before: Object | None) -> bool:
    """Return whether a version has the schema that it had before."""
    if before is None:
        return False
    old_common, old = _internal(before)
    same = next((each for each in old if each.get("name") == version.get("name")), None)
    if same is None:
        return False
    return (common.get("schema") or version.get("schema")) == (old_common.get("schema") or same.get("schema"))


def _parts(
    part: Object, path: Path, *, status: bool, schema: Any, before: Object | None, unchanged: bool
) -> list[FieldError]:
    """Schema, sub-resources, columns and selectable fields, of a version or of all."""
    found: list[FieldError] = []
    top = path == _SPEC
    defined = dig(part, "schema", "openAPIV3Schema")
    if isinstance(defined, Mapping):
        at = path / ("validation" if top else "schema")
        found += schema_errors(cast(Schema, defined), at, status=status, unchanged=unchanged)
    found += _subresources(cast(Object, part.get("subresources") or {}), path / "subresources")
    for index, column in enumerate(cast("list[Object]", part.get("additionalPrinterColumns") or [])):
        found += _column(column, (path / "additionalPrinterColumns").at(index))
    fields = cast("list[Object]", part.get("selectableFields") or [])
    whole = dig(schema or {}, "openAPIV3Schema")
    if fields and isinstance(whole, Mapping):
        found += _selectable(fields, cast(Schema, whole), path / "selectableFields", before)
    return found


def _simple_path(text: str, path: Path) -> list[FieldError]:
    if not text.startswith("."):
        return [field_invalid(path, text, "must be a simple json path starting with .")]
    return []


def _subresources(node: Object, path: Path) -> list[FieldError]:
    scale = node.get("scale")
    if not isinstance(scale, Mapping):
        return []
    paths, found = cast("Mapping[str, str]", scale), list[FieldError]()
    for name, root in (("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")):
        at, text = path / f"scale.{name}", paths.get(name) or ""
        if not text:
            found.append(required(at))
        elif wrong := _simple_path(text, at):
            found += wrong
        elif not text.startswith(root):
            found.append(field_invalid(at, text, f"should be a json path under {root[:-1]}"))
    if text := paths.get("labelSelectorPath"):
        at = path / "scale.labelSelectorPath"
        if wrong := _simple_path(text, at):
            found += wrong
        elif not text.startswith((".spec.", ".status.")):
            found.append(field_invalid(at, text, "should be a json path under either .spec or .status"))
    return found


def _column(column: Object, path: Path) -> list[FieldError]:
    found: list[FieldError] = []
    if not column.get("name"):
        found.append(required(path / "name"))
    kind, shape, json_path = column.get("type") or "", column.get("format") or "", column.get("jsonPath") or ""
    text = f"must be one of {','.join(_COLUMN_TYPES)}"
    if not kind:
        found.append(required(path / "type", text))
    elif kind not in _COLUMN_TYPES:
        found.append(field_invalid(path / "type", kind, text))
    if shape and shape not in _COLUMN_FORMATS:
        found.append(field_invalid(path / "format", shape, f"must be one of {','.join(_COLUMN_FORMATS)}"))
    if not json_path:
        found.append(required(path / "JSONPath"))
    else:
        found += _simple_path(json_path, path / "JSONPath")
    return found


def _selectable(fields: list[Object], schema: Schema, path: Path, before: Object | None) -> list[FieldError]:
    found: list[FieldError] = []
    seen: set[str] = set()
    for index, field in enumerate(fields):
        at, text = path.at(index) / "jsonPath", cast(str, field.get("jsonPath") or "")
        if not text:
            found.append(required(at))
            continue
        try:
            if "[" in text:
                raise ValueError("array notation is not allowed")
            shown, node = field_path(text, schema)
        except ValueError as error:
            found.append(field_invalid(at, text, f"is an invalid path: {error}"))
            continue
        if shown.split(".")[1] == "metadata":
            found.append(field_invalid(at, text, "must not point to fields in metadata"))
        if node.get("type") not in ("string", "boolean", "integer"):
            message = (
                "must point to a field of type string, boolean or integer. "
                "Enum string fields and strings with formats are allowed."
            )
            found.append(field_invalid(at, text, message))
        if shown in seen:
            found.append(duplicate(at, text))
        seen.add(shown)
    if len(seen) > _MAX_SELECTABLE and not _kept(fields, before):
        found.append(too_many(path, len(seen), _MAX_SELECTABLE))
    return found


def _kept(fields: list[Object], before: Object | None) -> bool:
    versions = cast("list[Object]", (before or {}).get("versions") or [])
    return any(version.get("selectableFields") == fields for version in versions)


def _names(names: Object, path: Path) -> list[FieldError]:
    found: list[FieldError] = []
    mixed = "may have mixed case, but should otherwise match: "
    for part in ("plural", "singular"):
        if value := cast(str, names.get(part) or ""):
            found += _texts(formats.dns1035_label, path / part, value)
    for part in ("kind", "listKind"):
        value = cast(str, names.get(part) or "")
        if value and (texts := formats.dns1035_label(value.lower())):
            found.append(field_invalid(path / part, value, mixed + ",".join(texts)))
    for index, name in enumerate(cast("Sequence[str]", names.get("shortNames") or ())):
        found += _texts(formats.dns1035_label, (path / "shortNames").at(index), name)
    if names.get("kind") and names.get("kind") == names.get("listKind"):
        found.append(field_invalid(path / "listKind", names["listKind"], "kind and listKind may not be the same"))
    for index, name in enumerate(cast("Sequence[str]", names.get("categories") or ())):
        found += _texts(formats.dns1035_label, (path / "categories").at(index), name)
    return found


def _conversion(conversion: Object, *, invalid_bundle: bool) -> list[FieldError]:
    path = _SPEC / "conversion"
    strategy = conversion.get("strategy") or ""
    webhook = cast("Object | None", conversion.get("webhook"))
    client = cast("Object | None", (webhook or {}).get("clientConfig"))
    versions = cast("list[str]", (webhook or {}).get("conversionReviewVersions") or [])
    if not strategy:
        return [required(path / "strategy")]
    found: list[FieldError] = []
    if strategy not in ("None", "Webhook"):
        found.append(not_supported(path / "strategy", strategy, ("None", "Webhook")))
    if strategy != "Webhook":
        text = "should not be set when strategy is not set to Webhook"
        if client is not None:
            found.append(field_forbidden(path / "webhookClientConfig", text))
        if versions:
            found.append(field_forbidden(path / "conversionReviewVersions", text))
        return found
    at = path / "webhookClientConfig"
    if client is None:
        found.append(required(at, "required when strategy is set to Webhook"))
    else:
        found += _client(client, at, invalid_bundle=invalid_bundle)
    return found + _review_versions(versions, path / "conversionReviewVersions")


def _client(client: Object, path: Path, *, invalid_bundle: bool) -> list[FieldError]:
    found: list[FieldError] = []
    url, service = client.get("url"), cast("Object | None", client.get("service"))
    if (url is None) == (service is None):
        found.append(required(path, "exactly one of url or service is required"))
    elif service is None:
        found += _url(cast(str, url), path / "url")
    else:
        at = path / "service"
        if not service.get("name"):
            found.append(required(at / "name", "service name is required"))
        if not service.get("namespace"):
            found.append(required(at / "namespace", "service namespace is required"))
        if texts := formats.port_number(cast(int, service.get("port", 443))):
            found.append(field_invalid(at / "port", service.get("port"), f"port is not valid: {','.join(texts)}"))
    bundle = client.get("caBundle")
    if bundle and not invalid_bundle and "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t" not in cast(str, bundle)[:64]:
        text = "unable to load root certificates: unable to parse bytes as PEM block"
        found.append(field_invalid(path / "caBundle", bundle, text))
    return found


def _url(url: str, path: Path) -> list[FieldError]:
    form, found = "; desired format: https://host[/path]", list[FieldError]()
    try:
        parts = urlsplit(url)
    except ValueError as error:
        return [required(path, f"url must be a valid URL: {error}{form}")]
    if parts.scheme != "https":
        found.append(field_invalid(path, parts.scheme, f"'https' is the only allowed URL scheme{form}"))
    if not parts.netloc:
        found.append(field_invalid(path, "", f"host must be specified{form}"))
    if parts.username is not None:
        found.append(field_invalid(path, parts.username, "user information is not permitted in the URL"))
    if parts.fragment:
        found.append(field_invalid(path, parts.fragment, "fragments are not permitted in the URL"))
    if parts.query:
        found.append(field_invalid(path, parts.query, "query parameters are not permitted in the URL"))
    return found


def _review_versions(versions: list[str], path: Path) -> list[FieldError]:
    if not versions:
        return [required(path)]
    found: list[FieldError] = []
    for index, version in enumerate(versions):
        if version in versions[:index]:
            found.append(field_invalid(path.at(index), version, "duplicate version"))
        else:
            found += [field_invalid(path.at(index), version, text) for text in formats.dns1035_label(version)]
    if not {"v1", "v1beta1"} & set(versions):
        found.append(field_invalid(path, versions, "must include at least one of v1, v1beta1"))
    return found


def _status(obj: Object) -> list[FieldError]:
    status = cast(Object, obj.get("status") or {})
    found = _names(cast(Object, status.get("acceptedNames") or {}), Path("status") / "acceptedNames")
    path = Path("status") / "storedVersions"
    stored = cast("list[str]", status.get("storedVersions") or [])
    if not stored:
        error = FieldError(ErrorType.INVALID, path, None, "must have at least one stored version", "null")
        return [*found, error]
    versions = cast("list[Object]", dig(obj, "spec", "versions", default=[]))
    names = {version.get("name") for version in versions}
    for version in versions:
        if version.get("storage") is True and version.get("name") not in stored:
            found.append(field_invalid(path, stored, f"must have the storage version {version.get('name')}"))
    for index, name in enumerate(stored):
        if name not in names:
            text = (
                f"missing from spec.versions; {name} was previously a storage version, and must remain in "
                "spec.versions until a storage migration ensures no data remains persisted in "
                f"{name} and removes {name} from status.storedVersions"
            )
            found.append(field_invalid(path.at(index), name, text))
    return found


def _approval(obj: Object, old: Object | None) -> list[FieldError]:
    group = cast(str, dig(obj, "spec", "group", default=""))
    if not re.search(r"(^|\.)(k8s|kubernetes)\.io$", group):
        return []
    path = (Path("metadata") / "annotations").key(_APPROVED)
    state, reason = _approval_state(obj)
    if state in ("approved", "bypassed") or (old is not None and _approval_state(old)[0] == state):
        return []
    if state == "missing":
        return [required(path, reason)]
    return [field_invalid(path, dig(obj, "metadata", "annotations", _APPROVED), reason)]


def _approval_state(obj: Object) -> tuple[str, str]:
    annotations = cast("Mapping[str, str]", meta(obj).get("annotations") or {})
    value = annotations.get(_APPROVED)
    if not value:
        text = f"protected groups must have approval annotation {go_quote(_APPROVED)}, {_SEE}"
        return "missing", text
    if value.startswith("unapproved"):
        return "bypassed", f"not approved: {go_quote(value)}"
    parts = urlsplit(value)
    if parts.netloc and parts.scheme:
        return "approved", f"approved in {value}"
    what = f"protected groups must have approval annotation {go_quote(_APPROVED)}"
    text = f'{what} with either a URL or a reason starting with "unapproved", {_SEE}'
    return "invalid", text
