"""Validation of the spec of a Pod or template, in the API server's order and with its texts.

Parts have modules of their own: containers, probes, volumes, scheduling. Here is how they come together, and what
concerns the Pod as a whole. Follows `ValidatePodSpec` of pkg/apis/core/validation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from steersman_cluster.errors import FieldError, duplicate, field_forbidden, field_invalid, required
from steersman_cluster.json_access import get_list
from steersman_cluster.kinds import formats
from steersman_cluster.kinds import names as check
from steersman_cluster.kinds.pods.containers import (
    apparmor_errors,
    container_errors,
    ephemeral_errors,
    init_errors,
    seccomp_errors,
)
from steersman_cluster.kinds.pods.scheduling import affinity_errors, spread_errors, toleration_errors
from steersman_cluster.kinds.pods.security_profiles import profile_conflicts, profile_errors
from steersman_cluster.kinds.pods.volumes import volume_errors
from steersman_cluster.objects import Object, Path, dig

__all__ = ["annotation_errors", "spec_errors", "template_errors"]

_RESTARTS = ("Always", "OnFailure", "Never")
_DNS = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_MAX_INT32 = 2147483647
_SYSCTL = r"^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$"
_MIRROR = "kubernetes.io/config.mirror"
_COST = "controller.kubernetes.io/pod-deletion-cost"


def template_errors(template: Object, path: Path) -> list[FieldError]:
    """A Pod template, beyond what its owner demands of it."""
    metadata: Object = template.get("metadata") or {}
    spec: Object = template.get("spec") or {}
    annotations = metadata.get("annotations")
    found = check.labels(path / "labels", metadata.get("labels"))
    if annotations:
        found += check.annotation_map(path / "annotations", annotations)
        found += annotation_errors(annotations, spec, path / "annotations")
    spec_errors(found, spec, path / "spec", "", is_pod=False)
    if annotations:
        found += profile_conflicts(annotations, spec, path / "spec")
    if spec.get("ephemeralContainers"):
        text = "ephemeral containers not allowed in pod template"
        found.append(field_forbidden(path / "spec" / "ephemeralContainers", text))
    return found


def annotation_errors(annotations: Mapping[str, str], spec: Object, path: Path) -> list[FieldError]:
    """Annotations that mean something to Pods."""
    found: list[FieldError] = []
    if _MIRROR in annotations and not spec.get("nodeName"):
        text = "must set spec.nodeName if mirror pod annotation is set"
        found.append(field_invalid(path.key(_MIRROR), annotations[_MIRROR], text))
    if (cost := annotations.get(_COST)) is not None and not _is_cost(cost):
        found.append(field_invalid(path.key(_COST), cost, "must be a 32bit integer"))
    return found + profile_errors(annotations, spec, path)


def _is_cost(text: str) -> bool:
    digits = text.removeprefix("-")
    if not digits.isdecimal() or (digits.startswith("0") and text != "0"):
        return False
    return -_MAX_INT32 - 1 <= int(text) <= _MAX_INT32


def spec_errors(found: list[FieldError], spec: Object, path: Path, name: str, *, is_pod: bool) -> None:  # noqa: C901
    """The spec; `name` is the Pod's, where it is one and it is known."""
    volumes = volume_errors(found, get_list(spec, "volumes"), path / "volumes", name, is_pod=is_pod)
    _claims(found, spec, path / "resourceClaims")
    container_errors(found, get_list(spec, "containers"), volumes, path / "containers", spec)
    if containers := spec.get("initContainers"):
        init_errors(found, containers, volumes, path / "initContainers", spec)
    if containers := spec.get("ephemeralContainers"):
        ephemeral_errors(found, containers, volumes, path / "ephemeralContainers", spec)
    if spec.get("hostNetwork"):
        _host_ports(found, spec, path / "containers", is_pod=is_pod)
    if (policy := spec.get("restartPolicy")) not in _RESTARTS:
        found += check.enum(path / "restartPolicy", policy, _RESTARTS)
    if (policy := spec.get("dnsPolicy")) not in _DNS:
        found += check.enum(path / "dnsPolicy", policy, _DNS)
    if selector := spec.get("nodeSelector"):
        found += check.labels(path / "nodeSelector", selector)
    if context := spec.get("securityContext"):
        _security(found, context, spec, path / "securityContext")
    if affinity := spec.get("affinity"):
        affinity_errors(found, affinity, path / "affinity")
    _dns(found, spec, path / "dnsConfig")
    for index, gate in enumerate(get_list(spec, "readinessGates")):
        at = (path / "readinessGates").at(index)
        found += check.qualified_name(at / "conditionType", gate.get("conditionType") or "")
    _gates(found, spec, path / "schedulingGates")
    if constraints := spec.get("topologySpreadConstraints"):
        spread_errors(found, constraints, path / "topologySpreadConstraints")
    if spec.get("hostUsers") is False:
        for field in ("hostPID", "hostIPC"):
            if spec.get(field):
                found.append(field_forbidden(path / f"H{field[1:]}", "when `hostUsers` is false"))
    _names(found, spec, path)
    if tolerations := spec.get("tolerations"):
        toleration_errors(found, tolerations, path / "tolerations")
    for index, alias in enumerate(get_list(spec, "hostAliases")):
        at = (path / "hostAliases").at(index)
        found += check.ip_address(at / "ip", alias.get("ip") or "")
        for number, host in enumerate(get_list(alias, "hostnames")):
            found += check.dns_subdomain((at / "hostnames").at(number), host)
    _classes(found, spec, path)


def _claims(found: list[FieldError], spec: Object, path: Path) -> None:
    seen: set[str] = set()
    for index, claim in enumerate(get_list(spec, "resourceClaims")):
        at, name = path.at(index), claim.get("name") or ""
        if not name:
            found.append(required(at / "name"))
        elif name in seen:
            found.append(duplicate(at / "name", name))
        else:
            found += check.dns_label(at / "name", name)
            seen.add(name)


def _host_ports(found: list[FieldError], spec: Object, path: Path, *, is_pod: bool) -> None:
    text = "must match `containerPort` when `hostNetwork` is true"
    for index, container in enumerate(get_list(spec, "containers")):
        for number, port in enumerate(get_list(container, "ports")):
            host = port.get("hostPort") or 0
            if (is_pod or host) and host != (port.get("containerPort") or 0):
                found.append(field_invalid((path.at(index) / "ports").at(number) / "hostPort", host, text))


def _security(found: list[FieldError], context: Object, spec: Object, path: Path) -> None:  # noqa: C901
    for field in ("fsGroup", "runAsUser", "runAsGroup"):
        if (number := context.get(field)) is not None:
            found += check.in_range(path / field, number, 0, _MAX_INT32)
    for index, group in enumerate(get_list(context, "supplementalGroups")):
        found += check.in_range((path / "supplementalGroups").at(index), group, 0, _MAX_INT32)
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        text = "ShareProcessNamespace and HostPID cannot both be enabled"
        found.append(field_invalid(path / "shareProcessNamespace", True, text))
    seen: set[str] = set()
    for index, item in enumerate(get_list(context, "sysctls")):
        at, name = (path / "sysctls").at(index) / "name", item.get("name") or ""
        if not name:
            found.append(required(at))
        elif not re.fullmatch(_SYSCTL[1:-1], name) or len(name) > 253:
            text = f"must have at most 253 characters and match regex {_SYSCTL}"
            found.append(field_invalid(at, name, text))
        elif name in seen:
            found.append(duplicate(at, name))
        seen.add(name)
    if (policy := context.get("fsGroupChangePolicy")) is not None:
        found += check.enum(path / "fsGroupChangePolicy", policy, ("Always", "OnRootMismatch"))
    seccomp_errors(found, context.get("seccompProfile"), path / "seccompProfile")
    apparmor_errors(found, context.get("appArmorProfile"), path / "appArmorProfile")
    if (policy := context.get("supplementalGroupsPolicy")) is not None:
        found += check.enum(path / "supplementalGroupsPolicy", policy, ("Merge", "Strict"))


def _dns(found: list[FieldError], spec: Object, path: Path) -> None:  # noqa: C901
    config: Object | None = spec.get("dnsConfig")
    if spec.get("dnsPolicy") == "None":
        if config is None:
            found.append(required(path, "must provide `dnsConfig` when `dnsPolicy` is None"))
            return
        if not config.get("nameservers"):
            text = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            found.append(required(path / "nameservers", text))
            return
    if config is None:
        return
    servers: list[str] = config.get("nameservers") or []
    searches: list[str] = config.get("searches") or []
    if len(servers) > 3:
        found.append(field_invalid(path / "nameservers", servers, "must not have more than 3 nameservers"))
    for index, server in enumerate(servers):
        found += check.ip_address((path / "nameservers").at(index), server)
    if len(searches) > 32:
        found.append(field_invalid(path / "searches", searches, "must not have more than 32 search paths"))
    if len(" ".join(searches)) > 2048:
        text = "must not have more than 2048 characters (including spaces) in the search list"
        found.append(field_invalid(path / "searches", searches, text))
    for index, search in enumerate(searches):
        if search != ".":
            at = (path / "searches").at(index)
            found += check.check(formats.dns_subdomain_underscore, at, search.removesuffix("."))
    for index, option in enumerate(get_list(config, "options")):
        if not option.get("name"):
            found.append(required((path / "options").at(index), "must not be empty"))


def _gates(found: list[FieldError], spec: Object, path: Path) -> None:
    seen: set[str] = set()
    for index, gate in enumerate(get_list(spec, "schedulingGates")):
        name = gate.get("name") or ""
        found += check.qualified_name(path.at(index), name)
        if name in seen:
            found.append(duplicate(path.at(index), name))
        seen.add(name)


def _names(found: list[FieldError], spec: Object, path: Path) -> None:
    if (name := spec.get("hostnameOverride")) is not None:
        at = path / "hostnameOverride"
        if spec.get("setHostnameAsFQDN"):
            found.append(field_forbidden(at, "may not be specified when setHostnameAsFQDN is true"))
        if spec.get("hostNetwork"):
            found.append(field_forbidden(at, "may not be specified when hostNetwork is true"))
        if len(name) > 64:
            found.append(check.too_long(at, 64))
        found += check.dns_subdomain(at, name)
    for field in ("serviceAccountName", "nodeName"):
        if name := spec.get(field):
            found += check.dns_subdomain(path / field, name)
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= _MAX_INT32:
        found += check.in_range(path / "activeDeadlineSeconds", deadline, 1, _MAX_INT32)
    for field in ("hostname", "subdomain"):
        if name := spec.get(field):
            found += check.dns_label(path / field, name)


def _classes(found: list[FieldError], spec: Object, path: Path) -> None:
    if name := spec.get("priorityClassName"):
        found += check.dns_subdomain(path / "priorityClassName", name)
    if (name := spec.get("runtimeClassName")) is not None:
        found += check.dns_subdomain(path / "runtimeClassName", name)
    if (policy := spec.get("preemptionPolicy")) is not None:
        found += check.enum(path / "preemptionPolicy", policy, ("PreemptLowerPriority", "Never"))
    if (system := dig(spec, "os", "name")) is not None:
        found += check.enum(path / "os", system, ("linux", "windows"))
    elif "os" in spec:
        found.append(required(path / "os" / "name"))
