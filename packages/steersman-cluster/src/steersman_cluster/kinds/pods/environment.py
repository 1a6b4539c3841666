"""Validation of environment variables and of references to fields of the Pod."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from steersman.models import Quantity
from steersman_cluster.errors import FieldError, field_invalid, not_supported, required
from steersman_cluster.kinds import formats
from steersman_cluster.kinds import names as check
from steersman_cluster.objects import Object, Path

__all__ = ["env_errors", "env_from_errors", "field_ref_errors", "file_ref_errors", "resource_ref_errors"]

_ENV_FIELDS = (
    "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
    "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
)  # fmt: skip
_CONVERTED = frozenset((*_ENV_FIELDS, "metadata.annotations", "metadata.labels", "spec.restartPolicy",
    "spec.schedulerName", "spec.hostNetwork", "status.phase", "status.nominatedNodeName", "spec.host"))  # fmt: skip
_RESOURCES = (
    "limits.cpu", "limits.ephemeral-storage", "limits.memory",
    "requests.cpu", "requests.ephemeral-storage", "requests.memory",
)  # fmt: skip
_HUGE_PAGE_PREFIXES = ("limits.hugepages-", "requests.hugepages-")
_BYTES = frozenset(("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"))
_BYTES_TEXT = "1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei"
_SUBSCRIPT = re.compile(r"(.*)\['(.*)'\]", re.DOTALL)
_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_NO_SOURCE = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
_PRINTABLE = "a valid environment variable name must consist only of printable ASCII characters other than '='"


def env_errors(found: list[FieldError], variables: Sequence[Object], path: Path) -> None:
    """The variables of one container."""
    for index, variable in enumerate(variables):
        name = variable.get("name")
        if not name:
            found.append(required(path.at(index) / "name"))
        elif not name.isascii() or not name.isprintable() or "=" in name:
            found.append(field_invalid(path.at(index) / "name", name, _PRINTABLE))
        if (source := variable.get("valueFrom")) is not None:
            _source(found, source, path.at(index) / "valueFrom", has_value=bool(variable.get("value")))


def _source(found: list[FieldError], source: Object, path: Path, *, has_value: bool) -> None:
    given = 0
    for kind in _SOURCES:
        if (reference := source.get(kind)) is None:
            continue
        given += 1
        at = path / kind
        if kind == "fieldRef":
            field_ref_errors(found, reference, at, _ENV_FIELDS)
        elif kind == "resourceFieldRef":
            resource_ref_errors(found, reference, at, volume=False)
        elif kind == "fileKeyRef":
            file_ref_errors(found, reference, at)
        else:
            _key_ref(found, reference, at)
    if not given:
        found.append(field_invalid(path, "", _NO_SOURCE))
    elif has_value:
        found.append(field_invalid(path, "", "may not be specified when `value` is not empty"))
    elif given > 1:
        found.append(field_invalid(path, "", "may not have more than one field specified at a time"))


def _key_ref(found: list[FieldError], reference: Object, path: Path) -> None:
    found += check.dns_subdomain(path / "name", reference.get("name") or "")
    if key := reference.get("key"):
        found += check.check(formats.config_map_key, path / "key", key)
    else:
        found.append(required(path / "key"))


def file_ref_errors(found: list[FieldError], reference: Object, path: Path) -> None:
    """A key in a file that an init container writes."""
    if not (key := reference.get("key")):
        found.append(required(path / "key"))
    elif not key.isascii() or not key.isprintable() or "=" in key:
        found.append(field_invalid(path / "key", key, _PRINTABLE))
    if volume := reference.get("volumeName"):
        found += check.dns_label(path / "volumeName", volume)
    else:
        found.append(required(path / "volumeName"))
    if not (file := reference.get("path")):
        found.append(required(path / "path"))
    elif ".." in file.split("/"):
        found.append(field_invalid(path / "path", file, "must not contain '..'"))


def field_ref_errors(found: list[FieldError], reference: Object, path: Path, allowed: Collection[str]) -> None:
    """A field of the Pod itself; labels and annotations may be asked for one key."""
    version, field = reference.get("apiVersion") or "", reference.get("fieldPath") or ""
    if not version:
        found.append(required(path / "apiVersion"))
        return
    if not field:
        found.append(required(path / "fieldPath"))
        return
    subscript = _SUBSCRIPT.fullmatch(field)
    base = subscript[1] if subscript else field
    if version != "v1":
        text = f"error converting fieldPath: unsupported pod version: {version}"
        found.append(field_invalid(path / "fieldPath", field, text))
        return
    if (subscript and base not in ("metadata.annotations", "metadata.labels")) or base not in _CONVERTED:
        what = "does not support subscript" if subscript and base in _CONVERTED else "not supported"
        text = (
            f"field label does not support subscript: {field}"
            if what.startswith("does")
            else (f"field label not supported: {field}")
        )
        found.append(field_invalid(path / "fieldPath", field, f"error converting fieldPath: {text}"))
        return
    if base == "spec.host":
        base = "spec.nodeName"
    if subscript:
        key = subscript[2].lower() if base == "metadata.annotations" else subscript[2]
        found += check.qualified_name(path, key)
    elif base not in allowed:
        found.append(not_supported(path / "fieldPath", base, sorted(allowed)))


def resource_ref_errors(found: list[FieldError], reference: Object, path: Path, *, volume: bool) -> None:
    """A container's limit or request, divided by an amount."""
    resource = reference.get("resource") or ""
    if volume and not reference.get("containerName"):
        found.append(required(path / "containerName"))
    elif not resource:
        found.append(required(path / "resource"))
    elif resource not in _RESOURCES and not resource.startswith(_HUGE_PAGE_PREFIXES):
        found.append(not_supported(path / "resource", resource, _RESOURCES))
    divisor = reference.get("divisor")
    if not divisor or divisor == "0" or not Quantity(divisor):
        return
    for suffix, allowed, shown, what in (
        ("cpu", {"1m", "1"}, "1m and 1", "cpu resource"),
        ("memory", _BYTES, _BYTES_TEXT, "memory resource"),
        ("ephemeral-storage", _BYTES, _BYTES_TEXT, "local ephemeral storage resource"),
    ):
        if resource in (f"limits.{suffix}", f"requests.{suffix}") and divisor not in allowed:
            text = f"only divisor's values {shown} are supported with the {what}"
            found.append(field_invalid(path / "divisor", resource, text))
    if resource.startswith(_HUGE_PAGE_PREFIXES) and divisor not in _BYTES:
        text = f"only divisor's values {_BYTES_TEXT} are supported with the hugepages resource"
        found.append(field_invalid(path / "divisor", resource, text))


def env_from_errors(found: list[FieldError], sources: Sequence[Object], path: Path) -> None:
    """Whole ConfigMaps and Secrets as variables."""
    for index, source in enumerate(sources):
        at, given = path.at(index), 0
        prefix = source.get("prefix")
        if prefix and (not prefix.isascii() or not prefix.isprintable() or "=" in prefix):
            found.append(field_invalid(at / "prefix", prefix, _PRINTABLE))
        for kind in ("configMapRef", "secretRef"):
            if (reference := source.get(kind)) is None:
                continue
            given += 1
            if name := reference.get("name"):
                # A prefix was once allowed here, so a dash at the end is.
                shown = name[:-1] + "a" if name.endswith("-") else name
                found += [field_invalid(at / kind / "name", name, text) for text in formats.dns_subdomain(shown)]
            else:
                found.append(required(at / kind / "name"))
        if not given:
            found.append(field_invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"))
        elif given > 1:
            found.append(field_invalid(path, "", "may not have more than one field specified at a time"))
