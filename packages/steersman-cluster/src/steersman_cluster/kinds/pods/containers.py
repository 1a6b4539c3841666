"""Validation of containers: names, images, ports, mounts, policies, and rules for init containers.

Pure functions over defaulted specs. They add to a list of errors in the API server's order and words.
Follows pkg/apis/core/validation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from steersman_cluster.errors import (
    FieldError,
    duplicate,
    field_forbidden,
    field_invalid,
    not_supported,
    required,
    too_many,
)
from steersman_cluster.json_access import get_list, get_object
from steersman_cluster.kinds import formats
from steersman_cluster.kinds import names as check
from steersman_cluster.kinds.pods.environment import env_errors, env_from_errors
from steersman_cluster.kinds.pods.probes import lifecycle_errors, probes_errors
from steersman_cluster.kinds.pods.resources import resource_errors
from steersman_cluster.objects import Object, Path

__all__ = ["Volumes", "container_errors", "ephemeral_errors", "host_port_conflicts", "init_errors", "security_errors"]

Volumes = Mapping[str, Object]
"""The volumes of a Pod that are in order, by name."""

_PROTOCOLS = ("SCTP", "TCP", "UDP")
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
_PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
_RECURSIVE = ("Disabled", "Enabled", "IfPossible")
_RESTARTS = ("Always", "Never", "OnFailure")
_UNIQUE = "must be unique"
_NOT_IN_INIT = "may not be set for init containers without restartPolicy=Always"
_PROFILE = ("type", "localhostProfile")
_CONTEXT = (
    "capabilities", "privileged", "seLinuxOptions", "windowsOptions", "runAsUser", "runAsGroup", "runAsNonRoot",
    "readOnlyRootFilesystem", "allowPrivilegeEscalation", "procMount", "seccompProfile", "appArmorProfile",
)  # fmt: skip
_NOT_IN_EPHEMERAL = (
    "ports", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle", "resources", "resizePolicy",
)  # fmt: skip


def container_errors(
    found: list[FieldError], containers: Sequence[Object], volumes: Volumes, path: Path, spec: Object
) -> None:
    """The regular containers; there must be one."""
    if not containers:
        found.append(required(path))
        return
    seen: set[str] = set()
    grace = spec.get("terminationGracePeriodSeconds")
    for index, container in enumerate(containers):
        at = path.at(index)
        _common(found, container, volumes, at, spec)
        name = container.get("name") or ""
        if name in seen:
            found.append(duplicate(at / "name", name))
        seen.add(name)
        if (lifecycle := container.get("lifecycle")) is not None:
            lifecycle_errors(found, lifecycle, grace, at / "lifecycle")
        probes_errors(found, container, grace, at)
        if "restartPolicy" in container or "restartPolicyRules" in container:
            _restart(found, container, at)
    host_port_conflicts(found, containers, path)


def init_errors(
    found: list[FieldError], containers: Sequence[Object], volumes: Volumes, path: Path, spec: Object
) -> None:
    """Init containers, and the sidecars among them."""
    seen = {item.get("name") or "" for item in get_list(spec, "containers")}
    grace = spec.get("terminationGracePeriodSeconds")
    for index, container in enumerate(containers):
        at = path.at(index)
        _common(found, container, volumes, at, spec)
        if "restartPolicy" in container or "restartPolicyRules" in container:
            _restart(found, container, at)
        name = container.get("name") or ""
        if name in seen:
            found.append(duplicate(at / "name", name))
        elif name:
            seen.add(name)
        host_port_conflicts(found, [container], path)
        if container.get("restartPolicy") == "Always":
            if (lifecycle := container.get("lifecycle")) is not None:
                lifecycle_errors(found, lifecycle, grace, at / "lifecycle")
            probes_errors(found, container, grace, at)
            continue
        found += [
            field_forbidden(at / field, _NOT_IN_INIT)
            for field in ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
            if container.get(field) is not None
        ]
        for number, policy in enumerate(get_list(container, "resizePolicy")):
            if policy.get("restartPolicy") == "RestartContainer":
                text = "must not be set to 'RestartContainer' for non-sidecar initContainers"
                where = (at / "resizePolicy").at(number) / "restartPolicy"
                found.append(field_invalid(where, "RestartContainer", text))


def ephemeral_errors(
    found: list[FieldError], containers: Sequence[Object], volumes: Volumes, path: Path, spec: Object
) -> None:
    """Containers added to a running Pod for debugging."""
    others = {item.get("name") for field in ("containers", "initContainers") for item in spec.get(field) or ()}
    seen: set[str] = set()
    for index, container in enumerate(containers):
        at = path.at(index)
        _common(found, container, volumes, at, spec)
        name = container.get("name") or ""
        if name in others or name in seen:
            found.append(duplicate(at / "name", name))
        seen.add(name)
        target = container.get("targetContainerName")
        if target and target not in others:
            found.append(check.not_found(at / "targetContainerName", target))
        for field in _NOT_IN_EPHEMERAL:
            if container.get(field):
                text = "cannot be set for an Ephemeral Container"
                found.append(field_forbidden(at / field, text))
        for number, mount in enumerate(get_list(container, "volumeMounts")):
            where = (at / "volumeMounts").at(number)
            if mount.get("subPath"):
                found.append(field_forbidden(where / "subPath", "cannot be set for an Ephemeral Container"))
            if mount.get("subPathExpr"):
                found.append(field_forbidden(where / "subPathExpr", "cannot be set for an Ephemeral Container"))


def _common(found: list[FieldError], container: Object, volumes: Volumes, path: Path, spec: Object) -> None:  # noqa: C901
    if name := container.get("name"):
        found += check.dns_label(path / "name", name)
    else:
        found.append(required(path / "name"))
    if not container.get("image"):
        found.append(required(path / "image"))
    if (policy := container.get("terminationMessagePolicy")) not in _MESSAGE_POLICIES:
        found.append(not_supported(path / "terminationMessagePolicy", policy, _MESSAGE_POLICIES))
    if ports := container.get("ports"):
        _ports(found, ports, path / "ports")
    if variables := container.get("env"):
        env_errors(found, variables, path / "env")
    if sources := container.get("envFrom"):
        env_from_errors(found, sources, path / "envFrom")
    if mounts := container.get("volumeMounts"):
        _mounts(found, mounts, container, volumes, path / "volumeMounts")
    if devices := container.get("volumeDevices"):
        _devices(found, devices, container, volumes, path / "volumeDevices")
    if (pull := container.get("imagePullPolicy")) not in _PULL_POLICIES:
        found.append(not_supported(path / "imagePullPolicy", pull, _PULL_POLICIES))
    if resources := container.get("resources"):
        claims = {claim.get("name") or "" for claim in get_list(spec, "resourceClaims")}
        resource_errors(found, resources, path / "resources", claims)
    if policies := container.get("resizePolicy"):
        _resize(found, policies, path / "resizePolicy", spec)
    if context := container.get("securityContext"):
        security_errors(found, context, path / "securityContext", host_users=spec.get("hostUsers") is not False)


def _ports(found: list[FieldError], ports: Sequence[Object], path: Path) -> None:
    seen: set[str] = set()
    for index, port in enumerate(ports):
        at = path.at(index)
        if name := port.get("name"):
            if texts := formats.port_name(name):
                found += [field_invalid(at / "name", name, text) for text in texts]
            elif name in seen:
                found.append(duplicate(at / "name", name))
            else:
                seen.add(name)
        if number := port.get("containerPort"):
            if not 0 < number < 65536:
                found += check.port_number(at / "containerPort", number)
        else:
            found.append(required(at / "containerPort"))
        if (number := port.get("hostPort")) and not 0 < number < 65536:
            found += check.port_number(at / "hostPort", number)
        if (protocol := port.get("protocol")) not in _PROTOCOLS:
            found.append(not_supported(at / "protocol", protocol, _PROTOCOLS))


def host_port_conflicts(found: list[FieldError], containers: Sequence[Object], path: Path) -> None:
    """Two containers of a Pod cannot listen on one port of the host."""
    seen: set[str] = set()
    for index, container in enumerate(containers):
        for number, port in enumerate(get_list(container, "ports")):
            if host := port.get("hostPort"):
                text = f"{port.get('protocol') or ''}/{port.get('hostIP') or ''}/{host}"
                if text in seen:
                    found.append(duplicate((path.at(index) / "ports").at(number) / "hostPort", text))
                seen.add(text)


def _mounts(found: list[FieldError], mounts: Sequence[Object], container: Object, volumes: Volumes, path: Path) -> None:  # noqa: C901
    devices = {item.get("name") or "": item.get("devicePath") or "" for item in get_list(container, "volumeDevices")}
    points: set[str] = set()
    for index, mount in enumerate(mounts):
        at, name, point = path.at(index), mount.get("name") or "", mount.get("mountPath") or ""
        if not name:
            found.append(required(at / "name"))
        if name not in volumes:
            found.append(check.not_found(at / "name", name))
        if not point:
            found.append(required(at / "mountPath"))
        if point in points:
            found.append(field_invalid(at / "mountPath", point, _UNIQUE))
        points.add(point)
        if name in devices:
            found.append(field_invalid(at / "name", name, "must not already exist in volumeDevices"))
        if point in devices.values():
            found.append(field_invalid(at / "mountPath", point, "must not already exist as a path in volumeDevices"))
        if inner := mount.get("subPath"):
            found += descending_path(path / "subPath", inner)
        if expression := mount.get("subPathExpr"):
            if inner:
                text = "subPathExpr and subPath are mutually exclusive"
                found.append(field_invalid(at / "subPathExpr", expression, text))
            found += descending_path(path / "subPathExpr", expression)
        if (propagation := mount.get("mountPropagation")) is not None:
            _propagation(found, propagation, container, path / "mountPropagation")
        if (recursive := mount.get("recursiveReadOnly")) is not None:
            _recursive(found, recursive, mount, path / "recursiveReadOnly")


def _propagation(found: list[FieldError], propagation: str, container: Object, path: Path) -> None:
    found += check.enum(path, propagation, _PROPAGATIONS)
    context: Object = container.get("securityContext") or {}
    if propagation == "Bidirectional" and not context.get("privileged"):
        found.append(
            field_forbidden(path, "Bidirectional mount propagation is available only to privileged containers")
        )


def _recursive(found: list[FieldError], recursive: str, mount: Object, path: Path) -> None:
    if recursive in ("Enabled", "IfPossible"):
        if not mount.get("readOnly"):
            found.append(field_forbidden(path, "may only be specified when readOnly is true"))
        if mount.get("mountPropagation") not in (None, "None"):
            found.append(field_forbidden(path, "may only be specified when mountPropagation is None or not specified"))
    else:
        found += check.enum(path, recursive, _RECURSIVE)


def descending_path(path: Path, value: str) -> list[FieldError]:
    """A path that stays below where it starts."""
    found = [field_invalid(path, value, "must be a relative path")] if value.startswith("/") else []
    if ".." in value.split("/"):
        found.append(field_invalid(path, value, "must not contain '..'"))
    return found


def _devices(  # noqa: C901
    found: list[FieldError], devices: Sequence[Object], container: Object, volumes: Volumes, path: Path
) -> None:
    mounts = {item.get("name") or "": item.get("mountPath") or "" for item in get_list(container, "volumeMounts")}
    names: set[str] = set()
    places: set[str] = set()
    for index, device in enumerate(devices):
        at, name, place = path.at(index), device.get("name") or "", device.get("devicePath") or ""
        if not name:
            found.append(required(at / "name"))
        if name in names:
            found.append(field_invalid(at / "name", name, _UNIQUE))
        if (volume := volumes.get(name)) is None:
            found.append(check.not_found(at / "name", name))
        elif "persistentVolumeClaim" not in volume and "ephemeral" not in volume:
            text = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            found.append(field_invalid(at / "name", name, text))
        if not place:
            found.append(required(at / "devicePath"))
        if place in places:
            found.append(field_invalid(at / "devicePath", place, _UNIQUE))
        if ".." in place.split("/"):
            found.append(field_invalid(at / "devicePath", place, "can not contain backsteps ('..')"))
        else:
            places.add(place)
        if name in mounts:
            found.append(field_invalid(at / "name", name, "must not already exist in volumeMounts"))
        if place in mounts.values():
            found.append(field_invalid(at / "devicePath", place, "must not already exist as a path in volumeMounts"))
        if name:
            names.add(name)


def _resize(found: list[FieldError], policies: Sequence[Object], path: Path, spec: Object) -> None:
    seen: set[str] = set()
    for index, policy in enumerate(policies):
        name, restart = policy.get("resourceName") or "", policy.get("restartPolicy") or ""
        if name in seen:
            found.append(duplicate(path.at(index), name))
        seen.add(name)
        found += [required(path)] if not name else check.enum(path, name, ("cpu", "memory"))
        found += [required(path)] if not restart else check.enum(path, restart, ("NotRequired", "RestartContainer"))
        if spec.get("restartPolicy") == "Never" and restart != "NotRequired":
            text = "must be 'NotRequired' when pod `restartPolicy` is 'Never'"
            found.append(field_invalid(path, restart, text))


def _restart(found: list[FieldError], container: Object, path: Path) -> None:
    policy, rules = container.get("restartPolicy"), get_list(container, "restartPolicyRules")
    if policy is None:
        if rules:
            text = "must specify restartPolicy when restart rules are used"
            found.append(required(path / "restartPolicy", text))
            return
    else:
        found += check.enum(path / "restartPolicy", policy, _RESTARTS)
    if len(rules) > 20:
        found.append(too_many(path / "restartPolicyRules", len(rules), 20))
    for index, rule in enumerate(rules):
        at = (path / "restartPolicyRules").at(index)
        found += check.enum(at / "action", rule.get("action") or "", ("Restart", "RestartAllContainers"))
        if (codes := rule.get("exitCodes")) is None:
            found.append(required(at / "exitCodes", "must be specified"))
            continue
        found += check.enum(at / "exitCodes" / "operator", codes.get("operator") or "", ("In", "NotIn"))
        if len(get_list(codes, "values")) > 255:
            found.append(too_many(at / "exitCodes" / "values", len(codes["values"]), 255))


def security_errors(found: list[FieldError], context: Object, path: Path, *, host_users: bool) -> None:
    """Append the errors of a container's security context to `found`."""
    for field in ("runAsUser", "runAsGroup"):
        if (number := context.get(field)) is not None:
            found += check.in_range(path / field, number, 0, 2147483647)
    if (mount := context.get("procMount")) is not None:
        found += check.enum(path / "procMount", mount, ("Default", "Unmasked"))
        if host_users and mount == "Unmasked":
            text = "`hostUsers` must be false to use `Unmasked`"
            found.append(field_invalid(path / "procMount", mount, text))
    seccomp_errors(found, context.get("seccompProfile"), path / "seccompProfile")
    if context.get("allowPrivilegeEscalation") is False:
        if context.get("privileged"):
            text = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
            found.append(field_invalid(path, _shown_context(context), text))
        added: Sequence[Any] = get_object(context, "capabilities").get("add") or ()
        if "CAP_SYS_ADMIN" in added:
            text = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
            found.append(field_invalid(path, _shown_context(context), text))
    apparmor_errors(found, context.get("appArmorProfile"), path / "appArmorProfile")


def _internal(value: Object, fields: Sequence[str]) -> Object:
    """A value as the API server's internal type, which refusals show."""
    return {field[0].upper() + field[1:]: value.get(field) for field in fields}


def _shown_context(context: Object) -> Object:
    shown = _internal(context, _CONTEXT)
    for field in ("SeccompProfile", "AppArmorProfile"):
        if shown[field] is not None:
            shown[field] = _internal(shown[field], _PROFILE)
    if shown["Capabilities"] is not None:
        shown["Capabilities"] = _internal(shown["Capabilities"], ("add", "drop"))
    return {("SELinuxOptions" if name == "SeLinuxOptions" else name): value for name, value in shown.items()}


def seccomp_errors(found: list[FieldError], profile: Object | None, path: Path) -> None:
    """A seccomp profile: a file is named for `Localhost` and for nothing else."""
    if profile is None:
        return
    kind = profile.get("type") or ""
    if not kind:
        found.append(required(path / "type", "type is required when seccompProfile is set"))
        return
    local = profile.get("localhostProfile")
    if kind == "Localhost":
        if local is None:
            text = "must be set when seccomp type is Localhost"
            found.append(required(path / "localhostProfile", text))
        else:
            found += descending_path(path / "localhostProfile", local)
    else:
        found += check.enum(path / "type", kind, ("Localhost", "RuntimeDefault", "Unconfined"))
        if local is not None:
            text = "can only be set when seccomp type is Localhost"
            found.append(field_invalid(path / "localhostProfile", _internal(profile, _PROFILE), text))


def apparmor_errors(found: list[FieldError], profile: Object | None, path: Path) -> None:
    """An AppArmor profile: one is named for `Localhost` and for nothing else."""
    if profile is None:
        return
    kind, local = profile.get("type") or "", profile.get("localhostProfile")
    if kind == "Localhost":
        if local is None:
            found.append(required(path / "localhostProfile", "must be set when AppArmor type is Localhost"))
        else:
            if local.strip() != local:
                text = "must not be padded with whitespace"
                found.append(field_invalid(path / "localhostProfile", local, text))
            elif not local:
                text = "must be set when AppArmor type is Localhost"
                found.append(required(path / "localhostProfile", text))
            if len(local) > 4095:
                found.append(check.too_long(path / "localhostProfile", 4095))
        return
    if kind in ("RuntimeDefault", "Unconfined"):
        if local is not None:
            text = "can only be set when AppArmor type is Localhost"
            found.append(field_invalid(path / "localhostProfile", local, text))
    elif not kind:
        found.append(required(path / "type", "type is required when appArmorProfile is set"))
    else:
        found += check.enum(path / "type", kind, ("Localhost", "RuntimeDefault", "Unconfined"))
