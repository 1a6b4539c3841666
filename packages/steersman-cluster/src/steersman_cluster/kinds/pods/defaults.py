"""Defaults of Pod specs: containers, probes, volumes, and the deprecated aliases of fields.

A spec that was decoded (empty optional fields are gone) is changed in place. Templates get `default_spec` alone; Pods
themselves have a few defaults more (`default_pod`). Nothing is validated here and nothing refused: a value that is
odd is left for validation to complain of. Follows pkg/apis/core/v1/defaults.go and its conversions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from steersman.models import Quantity
from steersman_cluster.json_access import get_list, get_object
from steersman_cluster.objects import Object, meta

__all__ = [
    "default_claim_spec",
    "default_pod",
    "default_resources",
    "default_spec",
    "default_template",
    "drop_disabled",
    "image_tag",
]

_SUB_MILLI = re.compile(r"[nu]$|\.|[eE]-")
_TAG = re.compile(r"[\w][\w.-]{0,127}")
_OLD_ANNOTATIONS = (
    "pod.beta.kubernetes.io/init-containers",
    "pod.alpha.kubernetes.io/init-containers",
    "pod.beta.kubernetes.io/init-container-statuses",
    "pod.alpha.kubernetes.io/init-container-statuses",
)
_CONTAINERS = ("containers", "initContainers", "ephemeralContainers")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_DEFAULT_MODE = 0o644


def default_pod(pod: Object) -> None:  # noqa: C901
    """A whole Pod: its spec, and what only Pods have filled in (requests, service links, host ports)."""
    spec: Object = pod.setdefault("spec", {})
    default_spec(spec)
    for field in ("initContainers", "containers"):
        for container in spec.get(field) or ():
            resources = container["resources"]
            if limits := resources.get("limits"):
                resources["requests"] = {**limits, **get_object(resources, "requests")}
    if "resources" in spec:
        _default_pod_resources(spec)
    if spec.get("enableServiceLinks") is None:
        spec["enableServiceLinks"] = True
    if spec.get("hostNetwork"):
        _default_host_ports(spec)
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    drop_old_annotations(pod)
    if status := pod.get("status"):
        _align_addresses(status)
        for name in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"):
            for item in status.get(name) or ():
                _round(item.get("allocatedResources"))
                default_resources(item.get("resources"))


def default_template(template: Object) -> None:
    """A Pod template; its spec and old annotations."""
    default_spec(template.setdefault("spec", {}))
    drop_old_annotations(template)


def drop_old_annotations(obj: Object) -> None:
    """Forget how init containers were written before they had a field."""
    annotations = meta(obj).get("annotations")
    if annotations and any(name in annotations for name in _OLD_ANNOTATIONS):
        left = {key: value for key, value in annotations.items() if key not in _OLD_ANNOTATIONS}
        if left:
            meta(obj)["annotations"] = left
        else:
            del meta(obj)["annotations"]


def default_spec(spec: Object) -> None:
    """The spec of a Pod or of a template."""
    if not spec.get("dnsPolicy"):
        spec["dnsPolicy"] = "ClusterFirst"
    if not spec.get("restartPolicy"):
        spec["restartPolicy"] = "Always"
    if spec.get("securityContext") is None:
        spec["securityContext"] = {}
    if spec.get("terminationGracePeriodSeconds") is None:
        spec["terminationGracePeriodSeconds"] = 30
    if not spec.get("schedulerName"):
        spec["schedulerName"] = "default-scheduler"
    if account := spec.get("serviceAccountName") or spec.get("serviceAccount"):
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for field in _CONTAINERS:
        for container in spec.get(field) or ():
            _default_container(container)
    for volume in get_list(spec, "volumes"):
        _default_volume(volume)
    _round(spec.get("overhead"))
    default_resources(spec.get("resources"))


def _default_container(container: Object) -> None:  # noqa: C901
    if not container.get("imagePullPolicy"):
        container["imagePullPolicy"] = (
            "Always" if image_tag(container.get("image") or "") == "latest" else "IfNotPresent"
        )
    if not container.get("terminationMessagePath"):
        container["terminationMessagePath"] = "/dev/termination-log"
    if not container.get("terminationMessagePolicy"):
        container["terminationMessagePolicy"] = "File"
    if resources := container.get("resources"):
        default_resources(resources)
    else:
        container["resources"] = {}
    for port in get_list(container, "ports"):
        if not port.get("protocol"):
            port["protocol"] = "TCP"
    for variable in get_list(container, "env"):
        if source := variable.get("valueFrom"):
            if (field := source.get("fieldRef")) is not None:
                field.setdefault("apiVersion", "v1")
            if (divided := source.get("resourceFieldRef")) is not None:
                divided.setdefault("divisor", "0")
            if (key := source.get("fileKeyRef")) is not None:
                key.setdefault("optional", False)
    for name in _PROBES:
        if (probe := container.get(name)) is not None:
            _default_probe(probe)
    if lifecycle := container.get("lifecycle"):
        for name in ("postStart", "preStop"):
            if (hook := lifecycle.get(name)) is not None and (action := hook.get("httpGet")) is not None:
                _default_http(action)


def drop_disabled(spec: Object) -> None:
    """Remove fields of disabled features. Not a default: the writer of such a field still manages it."""
    for field in _CONTAINERS:
        for container in get_list(spec, field):
            if (lifecycle := container.get("lifecycle")) and lifecycle.pop("stopSignal", None) and not lifecycle:
                del container["lifecycle"]


def _default_probe(probe: Object) -> None:
    for name, value in (("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)):
        if not probe.get(name):
            probe[name] = value
    if (action := probe.get("httpGet")) is not None:
        _default_http(action)
    if (call := probe.get("grpc")) is not None and call.get("service") is None:
        call["service"] = ""


def _default_http(action: Object) -> None:
    if not action.get("path"):
        action["path"] = "/"
    if not action.get("scheme"):
        action["scheme"] = "HTTP"


def _default_volume(volume: Object) -> None:
    if all(value is None for name, value in volume.items() if name != "name"):
        volume["emptyDir"] = {}
        return
    for kind, source in volume.items():
        if isinstance(source, dict) and (fill := _VOLUMES.get(kind)) is not None:
            fill(source)


def _default_projection(source: Object) -> None:
    source.setdefault("defaultMode", _DEFAULT_MODE)
    for projection in get_list(source, "sources"):
        if (token := projection.get("serviceAccountToken")) is not None:
            token.setdefault("expirationSeconds", 3600)
        if (files := projection.get("downwardAPI")) is not None:
            _default_fields(get_list(files, "items"))


def _default_files(source: Object) -> None:
    source.setdefault("defaultMode", _DEFAULT_MODE)


def _default_downward(source: Object) -> None:
    source.setdefault("defaultMode", _DEFAULT_MODE)
    _default_fields(get_list(source, "items"))


def _default_fields(items: Iterable[Object]) -> None:
    for item in items:
        if (field := item.get("fieldRef")) is not None:
            field.setdefault("apiVersion", "v1")
        if (divided := item.get("resourceFieldRef")) is not None:
            divided.setdefault("divisor", "0")


def _default_image(source: Object) -> None:
    if not source.get("pullPolicy"):
        source["pullPolicy"] = "Always" if image_tag(source.get("reference") or "") == "latest" else "IfNotPresent"


def _default_claim(source: Object) -> None:
    if (template := source.get("volumeClaimTemplate")) is not None:
        default_claim_spec(template.setdefault("spec", {}))


def default_claim_spec(spec: Object) -> None:
    """The spec of a claim that a template or a volume holds."""
    if spec.get("volumeMode") is None:
        spec["volumeMode"] = "Filesystem"
    default_resources(spec.get("resources"))


def _filler(**values: Any) -> Any:
    def fill(source: Object) -> None:
        for name, value in values.items():
            source.setdefault(name, value)

    return fill


_VOLUMES: dict[str, Any] = {
    "secret": _default_files,
    "configMap": _default_files,
    "downwardAPI": _default_downward,
    "projected": _default_projection,
    "hostPath": _filler(type=""),
    "image": _default_image,
    "ephemeral": _default_claim,
    "iscsi": _filler(iscsiInterface="default"),
    "rbd": _filler(pool="rbd", user="admin", keyring="/etc/ceph/keyring"),
    "azureDisk": _filler(cachingMode="ReadWrite", fsType="ext4", readOnly=False, kind="Shared"),
    "scaleIO": _filler(storageMode="ThinProvisioned", fsType="xfs"),
}


def default_resources(resources: Object | None) -> None:
    """Requirements: amounts finer than a thousandth are rounded up."""
    if resources:
        _round(resources.get("limits"))
        _round(resources.get("requests"))


def _round(amounts: Object | None) -> None:
    if not amounts:
        return
    for name, amount in amounts.items():
        if isinstance(amount, str) and _SUB_MILLI.search(amount):
            exact = Quantity(amount)
            rounded = Quantity(f"{exact.milli()}m").with_format(exact.format)
            if rounded != exact:
                amounts[name] = str(rounded)


def _default_host_ports(spec: Object) -> None:
    for field in ("containers", "initContainers"):
        for container in spec.get(field) or ():
            for port in get_list(container, "ports"):
                if not port.get("hostPort") and port.get("containerPort"):
                    port["hostPort"] = port["containerPort"]


def _default_pod_resources(spec: Object) -> None:
    """Requests of the whole Pod follow its containers', then its limits; huge pages' limits follow the containers'."""
    resources: Object = spec["resources"]
    limits, requests = (
        dict(get_object(resources, "limits")),
        dict(get_object(resources, "requests")),
    )
    if not limits and not requests:
        return
    for name, amount in _sum(spec, "limits").items():
        if name.startswith("hugepages-") and name not in requests:
            limits.setdefault(name, amount)
    if limits:
        resources["limits"] = limits
        for name, amount in _sum(spec, "requests").items():
            if name in ("cpu", "memory"):
                requests.setdefault(name, amount)
        for name, amount in limits.items():
            if name in ("cpu", "memory") or name.startswith("hugepages-"):
                requests.setdefault(name, amount)
    if requests:
        resources["requests"] = requests


def _sum(spec: Object, which: str) -> dict[str, str]:
    """Return the requests of all containers: sidecars run beside the containers, other init containers before them."""
    total: dict[str, Quantity] = {}
    for container in get_list(spec, "containers"):
        _add(total, container["resources"].get(which))
    sidecars: dict[str, Quantity] = {}
    most: dict[str, Quantity] = {}
    for container in get_list(spec, "initContainers"):
        amounts = container["resources"].get(which)
        if container.get("restartPolicy") == "Always":
            _add(total, amounts)
            _add(sidecars, amounts)
            peak = dict(sidecars)
        else:
            peak = dict(sidecars)
            _add(peak, amounts)
        for name, amount in peak.items():
            most[name] = max(amount, most[name]) if name in most else amount
    for name, amount in most.items():
        total[name] = max(amount, total[name]) if name in total else amount
    return {name: str(amount) for name, amount in total.items()}


def _add(total: dict[str, Quantity], amounts: Object | None) -> None:
    for name, amount in amounts.items() if amounts else ():
        total[name] = total[name] + Quantity(amount) if name in total else Quantity(amount)


def _align_addresses(status: Object) -> None:
    """`podIP` and the first of `podIPs` are the same; where they differ, the older field wins."""
    address, addresses = status.get("podIP"), status.get("podIPs")
    if address and (not addresses or addresses[0].get("ip") != address):
        status["podIPs"] = [{"ip": address}]
    elif addresses and not address and addresses[0].get("ip"):
        status["podIP"] = addresses[0]["ip"]


def image_tag(image: str) -> str:
    """The tag of an image's name; `latest` where it has neither tag nor digest, `""` where it has a digest alone."""
    name, _, digest = image.partition("@")
    head, colon, tag = name.rpartition(":")
    if colon and head and "/" not in tag:
        return tag if _TAG.fullmatch(tag) else ""
    return "" if digest or not name else "latest"
