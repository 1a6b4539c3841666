"""Warnings about valid but unusual Pods and templates: duplicates, deprecated fields, fractional amounts.

They go out as `Warning` headers and refuse nothing. Follows pkg/api/pod/warnings.go.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from steersman.models import Quantity
from steersman_cluster.json_access import get_list, get_object
from steersman_cluster.kinds import formats
from steersman_cluster.kinds.pods.security_profiles import APPARMOR, APPARMOR_DEPRECATED, profile_of
from steersman_cluster.objects import Object, Path, annotations_of, meta

__all__ = ["name_warnings", "seccomp_warnings", "spec_warnings", "template_warnings"]

_DEPRECATED_LABELS = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": 'deprecated since v1.17; use "topology.kubernetes.io/region" instead',
    "failure-domain.beta.kubernetes.io/zone": 'deprecated since v1.17; use "topology.kubernetes.io/zone" instead',
    "beta.kubernetes.io/instance-type": 'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead',
}
_VOLUMES = {
    "photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
    "gitRepo": "deprecated in v1.11, and disabled by default in v1.33+",
    "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
    "flocker": "deprecated in v1.22, non-functional in v1.25+",
    "storageos": "deprecated in v1.22, non-functional in v1.25+",
    "quobyte": "deprecated in v1.22, non-functional in v1.25+",
    "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
    "cephfs": "deprecated in v1.28, non-functional in v1.31+",
    "rbd": "deprecated in v1.28, non-functional in v1.31+",
}
_SECCOMP = "container.seccomp.security.alpha.kubernetes.io/"
_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")


def name_warnings(obj: Object, where: str = "Pod names and hostnames") -> Sequence[str]:
    """Return a warning for a name that is not a DNS label, because host names of Pods derive from it."""
    name = meta(obj).get("name") or ""
    if not (texts := formats.dns_label(name)):
        return ()
    return (
        f"metadata.name: this is used in {where}, which can result in surprising behavior; "
        f"a DNS label is recommended: [{' '.join(texts)}]",
    )


def template_warnings(path: Path, template: Object | None) -> Sequence[str]:
    """Return the warnings for a Pod template at a path."""
    if not template:
        return ()
    spec = get_object(template, "spec")
    metadata = path / "metadata"
    profiles = [*seccomp_warnings(metadata, template, spec), *_apparmor_warnings(metadata, template, spec)]
    return [*profiles, *spec_warnings(path / "spec", spec)]


def _apparmor_warnings(path: Path, template: Object, spec: Object) -> Iterator[str]:
    """Return the warnings for AppArmor annotations without the equal field; `path` is that of the metadata."""
    annotations = annotations_of(template)
    of_pod = get_object(spec, "securityContext").get("appArmorProfile")
    for field in _CONTAINERS:
        for container in get_list(spec, field):
            key = f"{APPARMOR}{container.get('name')}"
            own = get_object(container, "securityContext").get("appArmorProfile")
            if key in annotations and own is None and (of_pod is None or of_pod != profile_of(annotations[key])):
                yield f"{(path / 'annotations').key(key)}: {APPARMOR_DEPRECATED}"


def seccomp_warnings(path: Path, obj: Object, spec: Object) -> Iterator[str]:
    """Return the warnings for seccomp annotations without the field; `path` is that of the metadata."""
    annotations = annotations_of(obj)
    if not any("seccomp" in key for key in annotations):
        return
    holders = [("seccomp.security.alpha.kubernetes.io/pod", spec)]
    for field in _CONTAINERS:
        holders += [(f"{_SECCOMP}{item.get('name')}", item) for item in get_list(spec, field)]
    for key, holder in holders:
        if key in annotations and get_object(holder, "securityContext").get("seccompProfile") is None:
            at = (path / "annotations").key(key)
            yield f'{at}: non-functional in v1.27+; use the "seccompProfile" field instead'


def spec_warnings(path: Path, spec: Object) -> Sequence[str]:
    """Return the deprecation and misuse warnings of a Pod spec, for `Warning` headers."""
    return list(_all(path, spec))


def _all(path: Path, spec: Object) -> Iterator[str]:  # noqa: C901
    for key in get_object(spec, "nodeSelector"):
        if key in _DEPRECATED_LABELS:
            yield f"{(path / 'nodeSelector').key(key)}: {_DEPRECATED_LABELS[key]}"
    for index, item in enumerate(get_list(spec, "topologySpreadConstraints")):
        at, key = (path / "topologySpreadConstraints").at(index), item.get("topologyKey")
        if key in _DEPRECATED_LABELS:
            yield f"{at / 'topologyKey'}: {key} is {_DEPRECATED_LABELS[key]}"
        if item.get("labelSelector") is None:
            yield f"{at / 'labelSelector'}: a null labelSelector results in matching no pod"
    for index, volume in enumerate(get_list(spec, "volumes")):
        for kind in volume:
            if kind in _VOLUMES:
                shown = "storageOS" if kind == "storageos" else kind
                yield f"{(path / 'volumes').at(index) / shown}: {_VOLUMES[kind]}"
    yield from _duplicates(path, spec)
    containers = [
        ((path / field).at(index), container)
        for field in _CONTAINERS
        for index, container in enumerate(spec.get(field) or ())
    ]
    for at, container in containers:
        yield from _container(at, container)
    yield from _ports(containers)
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        at = path / "terminationGracePeriodSeconds"
        yield f"{at}: must be >= 0; negative values are invalid and will be treated as 1"


def _duplicates(path: Path, spec: Object) -> Iterator[str]:
    for field, name in (("hostAliases", "ip"), ("imagePullSecrets", "name")):
        seen: set[str] = set()
        for index, item in enumerate(spec.get(field) or ()):
            value = item.get(name) or ""
            if value in seen:
                yield f"{(path / field).at(index) / name}: duplicate {name} {json.dumps(value)}"
            seen.add(value)
    for index, item in enumerate(get_list(spec, "imagePullSecrets")):
        if not item.get("name"):
            yield f'{(path / "imagePullSecrets").at(index) / "name"}: invalid empty name ""'


def _container(path: Path, container: Object) -> Iterator[str]:
    resources: Object = container.get("resources") or {}
    for name in ("memory", "ephemeral-storage"):
        for kind in ("limits", "requests"):
            given: Object = resources.get(kind) or {}
            amount: str | None = given.get(name)
            if amount and not amount.isdecimal() and Quantity(amount).milli() % 1000:
                at = (path / "resources" / kind).key(name)
                yield f'{at}: fractional byte value "{amount}" is invalid, must be an integer'
    seen: set[str] = set()
    for index, variable in enumerate(get_list(container, "env")):
        name = variable.get("name") or ""
        value, reference = variable.get("value") or "", f"$({name})"
        if name in seen and (variable.get("valueFrom") is not None or value == reference or reference not in value):
            at = (path / "env").at(index)
            yield f"{at}: hides previous definition of {json.dumps(name)}, which may be dropped when using apply"
        seen.add(name)


def _ports(containers: Sequence[tuple[Path, Object]]) -> Iterator[str]:
    seen: dict[tuple[int, str], list[tuple[Path, Object]]] = {}
    names: dict[str, Path] = {}
    again: list[str] = []
    for path, container in containers:
        for index, port in enumerate(get_list(container, "ports")):
            at = (path / "ports").at(index)
            others = seen.setdefault((port.get("containerPort") or 0, port.get("protocol") or ""), [])
            for where, other in others:
                yield from _overlap(at, port, where, other)
            others.append((at, port))
            if (name := port.get("name")) and name in names:
                first = names[name]
                again.append(
                    f"{at}: duplicate port name {json.dumps(name)} with {first}, "
                    f"services and probes that select ports by name will use {first}"
                )
            elif name:
                names[name] = at
    yield from again


def _overlap(at: Path, port: Object, where: Path, other: Object) -> Iterator[str]:
    address, host = port.get("hostIP") or "", port.get("hostPort") or 0
    other_address, other_host = other.get("hostIP") or "", other.get("hostPort") or 0
    if (address, host) == (other_address, other_host):
        yield f"{at}: duplicate port definition with {where}"
    elif not host or not other_host:
        yield f"{at}: overlapping port definition with {where}"
    elif host == other_host and bool(address) != bool(other_address):
        yield f"{at}: dangerously ambiguous port definition with {where}"
