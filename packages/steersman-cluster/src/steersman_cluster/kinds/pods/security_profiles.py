"""Security profiles in the annotations of Pods and templates, where they stood before there were fields.

AppArmor annotations are copied to fields when a Pod is created, and must agree with them. Seccomp annotations have no
effect, but must be valid and agree with the fields.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Final

from steersman_cluster.errors import FieldError, field_forbidden, field_invalid
from steersman_cluster.json_access import get_list, get_object
from steersman_cluster.kinds.pods.containers import apparmor_errors, descending_path
from steersman_cluster.objects import Object, Path, annotations_of

__all__ = [
    "APPARMOR",
    "APPARMOR_DEPRECATED",
    "apparmor_warnings",
    "profile_change_errors",
    "profile_conflicts",
    "profile_errors",
    "profile_of",
    "set_apparmor_fields",
]

APPARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"
_SECCOMP_POD: Final = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP: Final = "container.seccomp.security.alpha.kubernetes.io/"
_LOCALHOST: Final = "localhost/"
_CONTAINERS: Final = ("initContainers", "containers", "ephemeralContainers")
_TYPES: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "apparmor": {"Unconfined": ("unconfined",), "RuntimeDefault": ("runtime/default",)},
    "seccomp": {"Unconfined": ("unconfined",), "RuntimeDefault": ("runtime/default", "docker/default")},
}
APPARMOR_DEPRECATED: Final = 'deprecated since v1.30; use the "appArmorProfile" field instead'


def profile_of(annotation: str) -> Object | None:
    """Return the AppArmor profile of an annotation as a field; None for an invalid one."""
    for kind, texts in _TYPES["apparmor"].items():
        if annotation in texts:
            return {"type": kind}
    local = annotation.removeprefix(_LOCALHOST)
    if local and local != annotation:
        return {"type": "Localhost", "localhostProfile": local}
    return None


def set_apparmor_fields(pod: Object) -> None:
    """Copy the AppArmor annotations of a new Pod to the containers that have no profile."""
    for container, profile in _copied(pod):
        if profile is not None:
            container.setdefault("securityContext", {})["appArmorProfile"] = profile


def apparmor_warnings(pod: Object) -> Iterator[str]:
    """Return the warnings for AppArmor annotations of a new Pod without the field, before they are copied."""
    for container, _ in _copied(pod):
        yield f"{Path('metadata.annotations').key(APPARMOR + container['name'])}: {APPARMOR_DEPRECATED}"


def _copied(pod: Object) -> Iterator[tuple[Object, Object | None]]:
    """The containers with a profile in an annotation and none in a field, each with that profile if it is valid."""
    annotations, spec = annotations_of(pod), get_object(pod, "spec")
    if _is_windows(spec) or not any(key.startswith(APPARMOR) for key in annotations):
        return
    of_pod = get_object(spec, "securityContext").get("appArmorProfile")
    for field in _CONTAINERS:
        for container in get_list(spec, field):
            annotation = annotations.get(f"{APPARMOR}{container.get('name')}")
            if annotation is None or get_object(container, "securityContext").get("appArmorProfile") is not None:
                continue
            profile = profile_of(annotation)
            if profile is not None and not _is_valid(profile):
                profile = None
            if profile is None or profile != of_pod:
                yield container, profile


def _is_valid(profile: Object) -> bool:
    found: list[FieldError] = []
    apparmor_errors(found, profile, Path(""))
    return not found


def _is_windows(spec: Object) -> bool:
    return get_object(spec, "os").get("name") == "windows"


def profile_errors(annotations: Mapping[str, str], spec: Object, path: Path) -> list[FieldError]:
    """Profiles in annotations that are not valid, or of containers that are not there; `path` is that of the map."""
    found: list[FieldError] = []
    for key in sorted(annotations, key=lambda key: (key != _SECCOMP_POD, key)):
        if key == _SECCOMP_POD or key.startswith(_SECCOMP):
            found += _seccomp_errors(annotations[key], path / key)
    names = {container.get("name") for field in _CONTAINERS for container in get_list(spec, field)}
    for key in sorted(annotations):
        if not key.startswith(APPARMOR):
            continue
        name, profile = key.removeprefix(APPARMOR), annotations[key]
        if name not in names:
            found.append(field_invalid(path.key(key), name, "container not found"))
        if profile and profile not in ("runtime/default", "unconfined") and not profile.startswith(_LOCALHOST):
            text = f"invalid AppArmor profile name: {json.dumps(profile, ensure_ascii=False)}"
            found.append(field_invalid(path.key(key), profile, text))
    return found


def _seccomp_errors(profile: str, path: Path) -> list[FieldError]:
    if profile in ("runtime/default", "docker/default", "unconfined"):
        return []
    if profile.startswith(_LOCALHOST):
        return descending_path(path, profile.removeprefix(_LOCALHOST))
    return [field_invalid(path, profile, "must be a valid seccomp profile")]


def profile_conflicts(annotations: Mapping[str, str], spec: Object, path: Path) -> list[FieldError]:
    """Profiles in annotations that differ from those in the fields; `path` is the spec's."""
    found: list[FieldError] = []
    context = get_object(spec, "securityContext")
    at = path / "securityContext" / "seccompProfile"
    found += _conflict("seccomp", annotations.get(_SECCOMP_POD), context.get("seccompProfile"), at)
    containers = [
        (
            (path / field).at(index) / "securityContext",
            container.get("name"),
            get_object(container, "securityContext"),
        )
        for field in _CONTAINERS
        for index, container in enumerate(get_list(spec, field))
    ]
    for at, name, own in containers:
        annotation = annotations.get(f"{_SECCOMP}{name}")
        found += _conflict("seccomp", annotation, own.get("seccompProfile"), at / "seccompProfile")
    if _is_windows(spec):
        return found
    for at, name, own in containers:
        profile = own.get("appArmorProfile") or context.get("appArmorProfile")
        found += _conflict("apparmor", annotations.get(f"{APPARMOR}{name}"), profile, at / "appArmorProfile")
    return found


def _conflict(what: str, annotation: str | None, profile: Object | None, path: Path) -> list[FieldError]:
    if annotation is None or profile is None:
        return []
    kind = str(profile.get("type") or "")
    different = [field_forbidden(path / "type", f"{what} type in annotation and field must match")]
    if kind == "Localhost":
        if not annotation.startswith(_LOCALHOST):
            return different
        if annotation.removeprefix(_LOCALHOST) != profile.get("localhostProfile"):
            text = f"{what} profile in annotation and field must match"
            return [field_forbidden(path / "localhostProfile", text)]
        return []
    return different if kind in _TYPES[what] and annotation not in _TYPES[what][kind] else []


def profile_change_errors(new: Mapping[str, str], old: Mapping[str, str], path: Path) -> list[FieldError]:
    """AppArmor annotations of a Pod that are set, changed or removed by an update; `path` is that of the map."""
    changed = [key for key in sorted({*new, *old}) if key.startswith(APPARMOR) and new.get(key) != old.get(key)]
    return [
        field_forbidden(path.key(key), f"may not {'remove or update' if key in old else 'add'} AppArmor annotations")
        for key in changed
    ]
