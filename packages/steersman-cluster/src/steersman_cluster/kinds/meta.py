"""ObjectMeta: validation of the metadata of new and changed objects.

The API server calls these functions for every kind. The errors of the kind's name rule come first, those that all
kinds share follow. The functions only read, except `keep_system_fields`. Follows apimachinery's
`api/validation/objectmeta.go` and `apiserver/pkg/registry/rest`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from steersman_cluster.errors import FieldError, field_forbidden, field_invalid, required
from steersman_cluster.kinds import formats
from steersman_cluster.kinds import names as check
from steersman_cluster.objects import Object, Path, meta

__all__ = [
    "finalizer_errors",
    "keep_system_fields",
    "repeated_create",
    "repeated_update",
    "validate_metadata",
    "validate_metadata_update",
]

_PATH = Path("metadata")
_OWNER_FIELDS = ("apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion")
_CHECKED = (
    "labels", "annotations", "ownerReferences", "finalizers", "generation", "name", "namespace", "uid",
    "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generateName",
)  # fmt: skip
_STANDARD_FINALIZERS = frozenset({"kubernetes", "orphan", "foregroundDeletion"})
_TIMES = ("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")
_UNIQUE_FINALIZERS = frozenset({"orphan", "foregroundDeletion"})


def validate_metadata(
    obj: Object,
    path: Path = _PATH,
    rule: str | formats.Rule = "subdomain",
    *,
    namespaced: bool = True,
    builtin: bool = True,
) -> list[FieldError]:
    """Return the errors of a new object's metadata, whose values have the right JSON types.

    A missing name is an error: names are generated before.

    Args:
        obj: The object.
        path: The path of the metadata.
        namespaced: Whether the kind is namespaced.
        rule: A rule, or the name of a rule in `formats.name_rule`.
        builtin: Whether finalizers must be qualified, as for the kinds of Kubernetes and not for custom resources.
    """
    metadata = meta(obj)
    name_rule = formats.name_rule(rule) if isinstance(rule, str) else rule
    found: list[FieldError] = []
    if prefix := metadata.get("generateName"):
        found += [field_invalid(path / "generateName", prefix, text) for text in _prefix_errors(name_rule, prefix)]
    if name := metadata.get("name"):
        if texts := name_rule(name):
            found += [field_invalid(path / "name", name, text) for text in texts]
    else:
        found.append(required(path / "name", "name or generateName is required"))
    return found + _namespace(metadata, path, namespaced=namespaced) + _common(metadata, path, builtin=builtin)


def _common(metadata: Mapping[str, Any], path: Path, *, builtin: bool) -> list[FieldError]:
    """All but names."""
    found: list[FieldError] = []
    if (generation := metadata.get("generation") or 0) < 0:
        found.append(field_invalid(path / "generation", generation, check.NOT_NEGATIVE))
    if labels := metadata.get("labels"):
        found += check.labels(path / "labels", labels)
    if annotations := metadata.get("annotations"):
        found += check.annotation_map(path / "annotations", annotations)
    if owners := metadata.get("ownerReferences"):
        found += _owners(path / "ownerReferences", owners)
    if finalizers := metadata.get("finalizers"):
        found += _finalizers(path / "finalizers", finalizers)
    if managed := metadata.get("managedFields"):
        found += _managed_fields(path / "managedFields", managed)
    if finalizers and builtin:
        found += finalizer_errors(path / "finalizers", finalizers)
    return found


def validate_metadata_update(
    new: Object, old: Object, path: Path = _PATH, *, namespaced: bool = True
) -> list[FieldError]:
    """Return the errors of the metadata of a changed object.

    Call `keep_system_fields` first, so that fields that a client left out do not count as changes. The rule for names
    is not applied again: the name cannot change, and stored objects may have names that are no longer allowed.
    """
    if meta(new).get("resourceVersion") and _same(new, old):
        # Stored values are valid, and most writes change nothing here.
        return _managed_fields(path / "managedFields", meta(new).get("managedFields") or ())
    found = validate_metadata(new, path, formats.path_segment, namespaced=namespaced, builtin=False)
    return found + _update(new, old, path)


def repeated_update(new: Object, old: Object, *, qualified: bool = True) -> list[FieldError]:
    """Return the errors that built-in kinds report a second time, which causes show twice."""
    if _same(new, old):
        return []
    found = _update(new, old, _PATH)
    if qualified and (finalizers := meta(new).get("finalizers")):
        found += finalizer_errors(_PATH / "finalizers", finalizers)
    return found


def repeated_create(
    new: Object, old: Object, rule: str, *, namespaced: bool, qualified: bool = True
) -> list[FieldError]:
    """Return the errors of kinds that validate a changed object as if it were new."""
    return [] if _same(new, old) else validate_metadata(new, _PATH, rule, namespaced=namespaced, builtin=qualified)


def finalizer_errors(path: Path, finalizers: Sequence[str]) -> list[FieldError]:
    """Finalizers that are neither Kubernetes' own nor qualified by a domain."""
    text = "name is neither a standard finalizer name nor is it fully qualified"
    return [
        field_invalid(path.at(index), finalizer, text)
        for index, finalizer in enumerate(finalizers)
        if "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS
    ]


def _same(new: Object, old: Object) -> bool:
    """Return whether no validated field changed; stored values are valid."""
    after, before = meta(new), meta(old)
    return all(after.get(field) == before.get(field) for field in _CHECKED)


def _update(new: Object, old: Object, path: Path) -> list[FieldError]:
    found: list[FieldError] = []
    after, before = meta(new), meta(old)
    if before.get("deletionTimestamp") is not None:
        found += _new_finalizers(path / "finalizers", after, before)
    found += _kept(path, after, before)
    if labels := after.get("labels"):
        found += check.labels(path / "labels", labels)
    if annotations := after.get("annotations"):
        found += check.annotation_map(path / "annotations", annotations)
    if owners := after.get("ownerReferences"):
        found += _owners(path / "ownerReferences", owners)
    if managed := after.get("managedFields"):
        found += _managed_fields(path / "managedFields", managed)
    return found


def keep_system_fields(new: Object, old: Object) -> None:
    """Give a changed object the metadata that no update changes, as far as the client left it out or may not set it.

    The uid is kept only when missing (another one is an error), the creation and deletion timestamps always.
    """
    after, before = meta(new), meta(old)
    if not after.get("uid") and "uid" in before:
        after["uid"] = before["uid"]
    for field in ("creationTimestamp", "deletionTimestamp"):
        if before.get(field) is not None:
            after[field] = before[field]
    if before.get("deletionGracePeriodSeconds") is not None and after.get("deletionGracePeriodSeconds") is None:
        after["deletionGracePeriodSeconds"] = before["deletionGracePeriodSeconds"]


def _new_finalizers(path: Path, after: Object, before: Object) -> list[FieldError]:
    extra = sorted(set(after.get("finalizers") or ()) - set(before.get("finalizers") or ()))
    if not extra:
        return []
    text = f"no new finalizers can be added if the object is being deleted, found new finalizers {_go_strings(extra)}"
    return [field_forbidden(path, text)]


def _kept(path: Path, after: Object, before: Object) -> list[FieldError]:
    """The immutable fields of metadata."""
    found: list[FieldError] = []
    if not after.get("resourceVersion"):
        found.append(field_invalid(path / "resourceVersion", "", "must be specified for an update"))
    if (after.get("generation") or 0) < (before.get("generation") or 0):
        found.append(field_invalid(path / "generation", after.get("generation") or 0, "must not be decremented"))
    names = [field for field in ("name", "namespace", "uid") if (after.get(field) or "") != (before.get(field) or "")]
    found += [field_invalid(path / field, after.get(field) or "", check.IMMUTABLE) for field in names]
    times = [field for field in _TIMES if after.get(field) != before.get(field)]
    return found + [field_invalid(path / field, after.get(field), check.IMMUTABLE) for field in times]


def _prefix_errors(name_rule: formats.Rule, prefix: str) -> Sequence[str]:
    """A prefix may end in a dash, since more will follow."""
    if name_rule is formats.path_segment:
        return [text for text in name_rule(f"{prefix}a") if text]
    if len(prefix) > 1 and prefix.endswith("-"):
        prefix = f"{prefix[:-2]}a"
    return name_rule(prefix)


def _namespace(metadata: Mapping[str, Any], path: Path, *, namespaced: bool) -> list[FieldError]:
    namespace = metadata.get("namespace") or ""
    if not namespaced:
        return [field_forbidden(path / "namespace", "not allowed on this type")] if namespace else []
    if not namespace:
        return [required(path / "namespace")]
    return check.dns_label(path / "namespace", namespace)


def _owners(path: Path, owners: Sequence[Object]) -> list[FieldError]:
    found: list[FieldError] = []
    controller = ""
    for owner in owners:
        found += _owner(path, owner)
        if owner.get("controller") is not True:
            continue
        this = f"{owner.get('kind') or ''}/{owner.get('name') or ''}"
        if controller:
            text = (
                'Only one reference can have Controller set to true. Found "true" in references for '
                f"{controller} and {this}"
            )
            found.append(field_invalid(path, [_ordered_owner(item) for item in owners], text))
        else:
            controller = this
    return found


def _owner(path: Path, owner: Object) -> list[FieldError]:
    found: list[FieldError] = []
    api_version, kind = owner.get("apiVersion") or "", owner.get("kind") or ""
    if not _has_version(api_version):
        found.append(field_invalid(path / "apiVersion", api_version, "version must not be empty"))
    empty = [field for field in ("kind", "name", "uid") if not owner.get(field)]
    found += [field_invalid(path / field, "", "must not be empty") for field in empty]
    if api_version == "v1" and kind == "Event":
        text = "/v1, Kind=Event is disallowed from being an owner"
        found.append(field_invalid(path, _ordered_owner(owner), text))
    return found


def _has_version(api_version: str) -> bool:
    # A malformed apiVersion reads as empty, as `schema.FromAPIVersionAndKind` has it.
    return bool(api_version) and api_version.count("/") <= 1 and not api_version.endswith("/")


def _ordered_owner(owner: Object) -> Object:
    return {
        field: owner.get(field, "")
        for field in _OWNER_FIELDS
        if field in owner or field in ("apiVersion", "kind", "name", "uid")
    }


def _finalizers(path: Path, finalizers: Sequence[str]) -> list[FieldError]:
    found: list[FieldError] = []
    for finalizer in finalizers:
        found += check.qualified_name(path, finalizer)
    if _UNIQUE_FINALIZERS.issubset(finalizers):
        text = "finalizer orphan and foregroundDeletion cannot be both set"
        found.append(field_invalid(path, list(finalizers), text))
    return found


def _managed_fields(path: Path, entries: Sequence[Object]) -> list[FieldError]:
    found: list[FieldError] = []
    for index, entry in enumerate(entries):
        operation, fields_type = entry.get("operation") or "", entry.get("fieldsType") or ""
        manager, subresource = entry.get("manager") or "", entry.get("subresource") or ""
        if operation not in ("Apply", "Update"):
            found.append(field_invalid(path.at(index) / "operation", operation, "must be `Apply` or `Update`"))
        if fields_type and fields_type != "FieldsV1":
            found.append(field_invalid(path.at(index) / "fieldsType", fields_type, "must be `FieldsV1`"))
        if len(manager) > 32:
            found += _manager_size(path.at(index) / "manager", manager)
        if not manager.isprintable():
            found += _unprintable(path.at(index) / "manager", manager)
        if len(subresource) > 256:
            found.append(check.too_long(path.at(index) / "subresource", 256))
    return found


def _manager_size(path: Path, manager: str) -> list[FieldError]:
    return [check.too_long(path, 128)] if len(manager.encode()) > 128 else []


def _unprintable(path: Path, manager: str) -> list[FieldError]:
    position, found = 0, cast(list[FieldError], [])
    for character in manager:
        if not character.isprintable():
            text = f"invalid character U+{ord(character):04X} (at position {position})"
            found.append(field_invalid(path, manager, text))
        position += len(character.encode("utf-8", "surrogatepass"))
    return found


def _go_strings(values: Sequence[str]) -> str:
    """A slice of strings as Go's `%#v` prints it."""
    return f"[]string{{{', '.join(json.dumps(value, ensure_ascii=False) for value in values)}}}"
