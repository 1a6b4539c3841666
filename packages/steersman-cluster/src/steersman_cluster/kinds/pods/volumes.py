"""Validation of the volumes of a Pod: one source each, with valid fields; and the set of volumes that can be mounted.

Common sources are validated in full, those of retired drivers for their required fields. Follows
pkg/apis/core/validation, including its irregular paths.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from steersman_cluster.errors import FieldError, duplicate, field_forbidden, field_invalid, required
from steersman_cluster.json_access import get_list, get_object
from steersman_cluster.kinds import formats
from steersman_cluster.kinds import names as check
from steersman_cluster.kinds.claims import claim_spec_errors
from steersman_cluster.kinds.pods.environment import field_ref_errors, resource_ref_errors
from steersman_cluster.objects import Object, Path

__all__ = ["volume_errors"]

_MODE = "must be a number between 0 and 0777 (octal), both inclusive"
_PATH_TYPES = ("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket")
_FILE_FIELDS = ("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid")
_ONE = "may not specify more than 1 volume type"
_KIND_PATHS = {"downwardAPI": "downwarAPI", "cephfs": "cephFS"}
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")


def volume_errors(
    found: list[FieldError], volumes: Sequence[Object], path: Path, name: str, *, is_pod: bool
) -> Mapping[str, Object]:
    """Check all volumes; returns those in order, by name. `name` is the Pod's, "" where it is not known."""
    good: dict[str, Object] = {}
    created = {f"{name}-{item.get('name') or ''}" for item in volumes if item.get("ephemeral") is not None and name}
    for index, volume in enumerate(volumes):
        at, own = path.at(index), volume.get("name") or ""
        before = len(found)
        _source(found, volume, at, own, name, is_pod=is_pod)
        found += check.dns_label(at / "name", own) if own else [required(at / "name")]
        if own in good:
            found.append(duplicate(at / "name", own))
        if len(found) == before:
            good[own] = volume
        claim = get_object(volume, "persistentVolumeClaim").get("claimName")
        if claim in created:
            text = "must not reference a PVC that gets created for an ephemeral volume"
            found.append(field_invalid(at / "persistentVolumeClaim" / "claimName", claim, text))
    return good


def _source(found: list[FieldError], volume: Object, path: Path, own: str, pod: str, *, is_pod: bool) -> None:
    given = 0
    for kind in _KINDS if len(volume) > 2 else volume:
        if kind == "name" or (source := volume.get(kind)) is None:
            continue
        given += 1
        if given > 1 and kind != "emptyDir":
            found.append(field_forbidden(path / _KIND_PATHS.get(kind, kind), _ONE))
            continue
        if kind == "image":
            if is_pod and not source.get("reference"):
                found.append(required(path / "image" / "reference"))
            found += check.enum(path / "image" / "pullPolicy", source.get("pullPolicy"), _PULL_POLICIES)
        elif (rule := _KINDS.get(kind)) is not None:
            rule(found, source, path / ("persistentDisk" if kind == "gcePersistentDisk" else kind))
        if kind == "ephemeral" and pod and own:
            claim = f"{pod}-{own}"
            found += [
                field_invalid(path / "name", own, f'PVC name "{claim}": {text}')
                for text in formats.dns_subdomain(claim)
            ]
    if not given:
        found.append(required(path, "must specify a volume type"))


def _empty_dir(found: list[FieldError], source: Object, path: Path) -> None:
    limit = check.amount(source["sizeLimit"]) if source.get("sizeLimit") else None
    if limit is not None and limit < 0:
        found.append(field_forbidden(path / "sizeLimit", "SizeLimit field must be a valid resource quantity"))


def _host_path(found: list[FieldError], source: Object, path: Path) -> None:
    if not (place := source.get("path")):
        found.append(required(path / "path"))
        return
    _no_backsteps(found, place, path / "path")
    found += check.enum(path / "type", source.get("type") or "", _PATH_TYPES)


def _no_backsteps(found: list[FieldError], place: str, path: Path) -> None:
    if ".." in place.split("/"):
        found.append(field_invalid(path, place, "must not contain '..'"))


def _local_path(found: list[FieldError], place: str, path: Path) -> None:
    """Relative, below its start, and no name that kubelets keep for themselves."""
    if place.startswith("/"):
        found.append(field_invalid(path, place, "must be a relative path"))
    _no_backsteps(found, place, path)
    if place.startswith("..") and not place.startswith("../"):
        found.append(field_invalid(path, place, "must not start with '..'"))


def _mode(found: list[FieldError], mode: int | None, path: Path) -> None:
    if mode is not None and not 0 <= mode <= 0o777:
        found.append(field_invalid(path, mode, _MODE))


def _items(found: list[FieldError], items: Sequence[Object], path: Path) -> None:
    for index, item in enumerate(items):
        _item(found, item, path.at(index))


def _secret(found: list[FieldError], source: Object, path: Path) -> None:
    if not source.get("secretName"):
        found.append(required(path / "secretName"))
    _mode(found, source.get("defaultMode"), path / "defaultMode")
    _items(found, get_list(source, "items"), path / "items")


def _config_map(found: list[FieldError], source: Object, path: Path) -> None:
    if not source.get("name"):
        found.append(required(path / "name"))
    _mode(found, source.get("defaultMode"), path / "defaultMode")
    _items(found, get_list(source, "items"), path / "items")


def _downward(found: list[FieldError], source: Object, path: Path) -> None:
    _mode(found, source.get("defaultMode"), path / "defaultMode")
    for item in get_list(source, "items"):
        _file(found, item, path)


def _file(found: list[FieldError], item: Object, path: Path) -> None:
    if not item.get("path"):
        found.append(required(path / "path"))
    _local_path(found, item.get("path") or "", path / "path")
    field, resource = item.get("fieldRef"), item.get("resourceFieldRef")
    if field is not None:
        field_ref_errors(found, field, path / "fieldRef", _FILE_FIELDS)
        if resource is not None:
            text = "fieldRef and resourceFieldRef can not be specified simultaneously"
            found.append(field_invalid(path, "resource", text))
    elif resource is not None:
        resource_ref_errors(found, resource, path / "resourceFieldRef", volume=True)
    else:
        found.append(required(path, "one of fieldRef and resourceFieldRef is required"))
    _mode(found, item.get("mode"), path / "mode")


def _projected(found: list[FieldError], source: Object, path: Path) -> None:
    _mode(found, source.get("defaultMode"), path / "defaultMode")
    seen: set[str] = set()
    for index, part in enumerate(get_list(source, "sources")):
        at, given = (path / "sources").at(index), 0
        for kind in ("secret", "configMap"):
            if (files := part.get(kind)) is None:
                continue
            given += 1
            if not files.get("name"):
                found.append(required(at / kind / "name"))
            for number, item in enumerate(get_list(files, "items")):
                _item(found, item, (at / kind / "items").at(number))
                _taken(found, seen, item.get("path"), path, files.get("name") or "")
        if (files := part.get("downwardAPI")) is not None:
            given += 1
            for item in get_list(files, "items"):
                _file(found, item, at / "downwardAPI")
                _taken(found, seen, item.get("path"), path, item.get("path"))
        if (token := part.get("serviceAccountToken")) is not None:
            given += 1
            _token(found, token, path, at / "serviceAccountToken")
        given += sum(part.get(kind) is not None for kind in ("clusterTrustBundle", "podCertificate"))
        if given > 1:
            found.append(field_forbidden(at, "may not specify more than 1 volume type per source"))


def _item(found: list[FieldError], item: Object, at: Path) -> None:
    if not item.get("key"):
        found.append(required(at / "key"))
    if not item.get("path"):
        found.append(required(at / "path"))
    _local_path(found, item.get("path") or "", at / "path")
    _mode(found, item.get("mode"), at / "mode")


def _taken(found: list[FieldError], seen: set[str], place: str | None, path: Path, shown: Any) -> None:
    if place and place in seen:
        found.append(field_invalid(path, shown, "conflicting duplicate paths"))
    elif place:
        seen.add(place)


def _token(found: list[FieldError], token: Object, path: Path, at: Path) -> None:
    seconds = token.get("expirationSeconds") or 0
    if seconds < 600:
        text = "may not specify a duration less than 10 minutes"
        found.append(field_invalid(at / "expirationSeconds", seconds, text))
    if seconds > 1 << 32:
        text = "may not specify a duration larger than 2^32 seconds"
        found.append(field_invalid(at / "expirationSeconds", seconds, text))
    if place := token.get("path"):
        _local_path(found, place, path / "path")
    else:
        found.append(required(path / "path"))


def _ephemeral(found: list[FieldError], source: Object, path: Path) -> None:
    at = path / "volumeClaimTemplate"
    if (template := source.get("volumeClaimTemplate")) is None:
        found.append(required(at))
        return
    found += claim_spec_errors(template.get("spec") or {}, at / "spec")


def _nfs(found: list[FieldError], source: Object, path: Path) -> None:
    if not source.get("server"):
        found.append(required(path / "server"))
    place = source.get("path") or ""
    if not place:
        found.append(required(path / "path"))
    if not place.startswith("/"):
        found.append(field_invalid(path / "path", place, "must be an absolute path"))


def _csi(found: list[FieldError], source: Object, path: Path) -> None:
    driver = source.get("driver") or ""
    if not driver:
        found.append(required(path / "driver"))
    if len(driver) > 63:
        found.append(check.too_long(path / "driver", 63))
    if driver:
        found += check.dns_subdomain(path / "driver", driver.lower())
    if (secret := source.get("nodePublishSecretRef")) is not None and not secret.get("name"):
        found.append(required(path / "nodePublishSecretRef" / "name"))


def _requires(*fields: str) -> Any:
    def rule(found: list[FieldError], source: Object, path: Path) -> None:
        found.extend(required(path / field) for field in fields if not source.get(field))

    return rule


_KINDS: Mapping[str, Any] = {
    "emptyDir": _empty_dir,
    "hostPath": _host_path,
    "gitRepo": _requires("repository"),
    "gcePersistentDisk": _requires("pdName"),
    "awsElasticBlockStore": _requires("volumeID"),
    "secret": _secret,
    "nfs": _nfs,
    "iscsi": _requires("targetPortal", "iqn"),
    "glusterfs": _requires("endpoints", "path"),
    "flocker": _requires(),
    "persistentVolumeClaim": _requires("claimName"),
    "rbd": _requires("monitors", "image"),
    "cinder": _requires("volumeID"),
    "cephfs": _requires("monitors"),
    "quobyte": _requires("registry", "volume"),
    "downwardAPI": _downward,
    "fc": _requires(),
    "flexVolume": _requires("driver"),
    "configMap": _config_map,
    "azureFile": _requires("secretName", "shareName"),
    "vsphereVolume": _requires("volumePath"),
    "photonPersistentDisk": _requires("pdID"),
    "portworxVolume": _requires("volumeID"),
    "azureDisk": _requires("diskName", "diskURI"),
    "storageos": _requires("volumeName"),
    "projected": _projected,
    "scaleIO": _requires("gateway", "system", "volumeName"),
    "csi": _csi,
    "ephemeral": _ephemeral,
    "image": None,
}
