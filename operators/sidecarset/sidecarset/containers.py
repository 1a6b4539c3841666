"""Validates containers of a SidecarSet like the API server validates those of a Pod.

An invalid container would prevent the creation of every Pod that it is injected into. The rules and messages are those
of the API server (pkg/apis/core/validation); the tests compare them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from steersman import FieldError, Quantity

__all__ = ["errors_of"]

Object = Mapping[str, Any]

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with"
    " an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is"
    " '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and"
    " end with an alphanumeric character (e.g. 'example.com', regex used for validation is"
    " '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_VARIABLE_TEXT = "a valid environment variable name must consist only of printable ASCII characters other than '='"
_PORT_TEXT = "must be between 1 and 65535, inclusive"
_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_SOURCES_TEXT = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
_FIELDS = (
    "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
    "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
)  # fmt: skip
_RESOURCES = ("cpu", "memory", "ephemeral-storage")
_ACTIONS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_SECONDS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")


def errors_of(containers: Sequence[Object], path: str) -> Iterator[FieldError]:
    """Return the errors of containers in their JSON form, with defaults."""
    if not containers:
        yield FieldError.required(path)
    names: set[str] = set()
    for index, container in enumerate(containers):
        at = f"{path}[{index}]"
        yield from _container(container, at)
        name = container.get("name") or ""
        if name in names:
            yield FieldError.duplicate(f"{at}.name", name)
        names.add(name)
    yield from _host_ports(containers, path)


def _container(container: Object, at: str) -> Iterator[FieldError]:
    yield from _label(container.get("name") or "", f"{at}.name")
    if not container.get("image"):
        yield FieldError.required(f"{at}.image")
    yield from _one_of(container, "terminationMessagePolicy", ("File", "FallbackToLogsOnError"), at)
    yield from _one_of(container, "imagePullPolicy", ("Always", "IfNotPresent", "Never"), at)
    yield from _ports(container.get("ports") or (), f"{at}.ports")
    yield from _env(container.get("env") or (), f"{at}.env")
    yield from _env_from(container.get("envFrom") or (), f"{at}.envFrom")
    yield from _mounts(container, at)
    yield from _resources(container.get("resources") or {}, f"{at}.resources")
    yield from _security(container.get("securityContext") or {}, f"{at}.securityContext")
    lifecycle: Object = container.get("lifecycle") or {}
    for name in ("postStart", "preStop"):
        if (hook := lifecycle.get(name)) is not None:
            yield from _action(hook, f"{at}.lifecycle.{name}")
    for name in _PROBES:
        if (probe := container.get(name)) is not None:
            yield from _probe(name, probe, f"{at}.{name}")
    if "restartPolicy" in container:
        yield from _one_of(container, "restartPolicy", ("Always", "Never", "OnFailure"), at)


def _label(value: str, at: str) -> Iterator[FieldError]:
    if not value:
        yield FieldError.required(at)
        return
    if not _LABEL.fullmatch(value):
        yield FieldError.invalid(at, value, "must not contain dots" if _SUBDOMAIN.fullmatch(value) else _LABEL_TEXT)
    if len(value) > 63:
        yield FieldError.invalid(at, value, "must be no more than 63 characters")


def _subdomain(value: str, at: str) -> Iterator[FieldError]:
    if not _SUBDOMAIN.fullmatch(value):
        yield FieldError.invalid(at, value, _SUBDOMAIN_TEXT)
    if len(value) > 253:
        yield FieldError.invalid(at, value, "must be no more than 253 characters")


def _one_of(container: Object, name: str, supported: Sequence[str], at: str) -> Iterator[FieldError]:
    value = container.get(name)
    if value not in supported:
        yield FieldError.not_supported(f"{at}.{name}", value, supported)


def _ports(ports: Sequence[Object], path: str) -> Iterator[FieldError]:
    names: set[str] = set()
    for index, port in enumerate(ports):
        at = f"{path}[{index}]"
        if name := port.get("name"):
            problems = list(_port_name(name))
            yield from (FieldError.invalid(f"{at}.name", name, problem) for problem in problems)
            if not problems and name in names:
                yield FieldError.duplicate(f"{at}.name", name)
            names.add(name)
        number = port.get("containerPort")
        if not number:
            yield FieldError.required(f"{at}.containerPort")
        elif not 0 < number < 65536:
            yield FieldError.invalid(f"{at}.containerPort", number, _PORT_TEXT)
        if (number := port.get("hostPort")) and not 0 < number < 65536:
            yield FieldError.invalid(f"{at}.hostPort", number, _PORT_TEXT)
        yield from _one_of(port, "protocol", ("SCTP", "TCP", "UDP"), at)


def _port_name(name: str) -> Iterator[str]:
    if len(name) > 15:
        yield "must be no more than 15 characters"
    if not re.fullmatch("[-a-z0-9]+", name):
        yield "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"
    if not re.search("[a-z]", name):
        yield "must contain at least one letter (a-z)"
    if "--" in name:
        yield "must not contain consecutive hyphens"
    if name.startswith("-") or name.endswith("-"):
        yield "must not begin or end with a hyphen"


def _host_ports(containers: Sequence[Object], path: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, container in enumerate(containers):
        for number, port in enumerate(container.get("ports") or ()):
            if host := port.get("hostPort"):
                text = f"{port.get('protocol') or ''}/{port.get('hostIP') or ''}/{host}"
                if text in seen:
                    yield FieldError.duplicate(f"{path}[{index}].ports[{number}].hostPort", text)
                seen.add(text)


def _is_variable(name: str) -> bool:
    return name.isascii() and name.isprintable() and "=" not in name


def _env(variables: Sequence[Object], path: str) -> Iterator[FieldError]:
    for index, variable in enumerate(variables):
        at = f"{path}[{index}]"
        name = variable.get("name")
        if not name:
            yield FieldError.required(f"{at}.name")
        elif not _is_variable(name):
            yield FieldError.invalid(f"{at}.name", name, _VARIABLE_TEXT)
        source = variable.get("valueFrom")
        if source is None:
            continue
        given = [kind for kind in _SOURCES if source.get(kind) is not None]
        for kind in given:
            yield from _source(kind, source[kind], f"{at}.valueFrom.{kind}")
        if not given:
            yield FieldError.invalid(f"{at}.valueFrom", "", _SOURCES_TEXT)
        elif variable.get("value"):
            yield FieldError.invalid(f"{at}.valueFrom", "", "may not be specified when `value` is not empty")
        elif len(given) > 1:
            yield FieldError.invalid(f"{at}.valueFrom", "", "may not have more than one field specified at a time")


def _source(kind: str, source: Object, at: str) -> Iterator[FieldError]:
    if kind in ("configMapKeyRef", "secretKeyRef"):
        yield from _subdomain(source.get("name") or "", f"{at}.name")
        key = source.get("key") or ""
        if not key:
            yield FieldError.required(f"{at}.key")
        elif not re.fullmatch(r"[-._a-zA-Z0-9]+", key):
            text = (
                "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or"
                " 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
            )
            yield FieldError.invalid(f"{at}.key", key, text)
    elif kind == "fieldRef":
        field = source.get("fieldPath") or ""
        if not field:
            yield FieldError.required(f"{at}.fieldPath")
        elif not re.fullmatch(r"metadata\.(labels|annotations)\['[^']+'\]", field) and field not in _FIELDS:
            yield FieldError.not_supported(f"{at}.fieldPath", field, _FIELDS)
    elif kind == "fileKeyRef":  # This needs a volume of the Pod, and a SidecarSet has none.
        yield _not_found(f"{at}.volumeName", source.get("volumeName") or "")


def _env_from(sources: Sequence[Object], path: str) -> Iterator[FieldError]:
    for index, source in enumerate(sources):
        at = f"{path}[{index}]"
        prefix = source.get("prefix")
        if prefix and not _is_variable(prefix):
            yield FieldError.invalid(f"{at}.prefix", prefix, _VARIABLE_TEXT)
        given = [kind for kind in ("configMapRef", "secretRef") if source.get(kind) is not None]
        for kind in given:
            if name := source[kind].get("name"):
                yield from _subdomain(name[:-1] + "a" if name.endswith("-") else name, f"{at}.{kind}.name")
            else:
                yield FieldError.required(f"{at}.{kind}.name")
        if not given:
            yield FieldError.invalid(path, "", "must specify one of: `configMapRef` or `secretRef`")
        elif len(given) > 1:
            yield FieldError.invalid(path, "", "may not have more than one field specified at a time")


def _not_found(at: str, value: str) -> FieldError:
    return FieldError(at, "FieldValueNotFound", f'Not found: "{value}"')


def _mounts(container: Object, at: str) -> Iterator[FieldError]:
    """Refuse mounts: a SidecarSet has no volumes, and the volumes of the Pods are unknown."""
    for field, place in (("volumeMounts", "mountPath"), ("volumeDevices", "devicePath")):
        for index, mount in enumerate(container.get(field) or ()):
            where = f"{at}.{field}[{index}]"
            if not mount.get("name"):
                yield FieldError.required(f"{where}.name")
            yield _not_found(f"{where}.name", mount.get("name") or "")
            if not mount.get(place):
                yield FieldError.required(f"{where}.{place}")


def _resources(resources: Object, at: str) -> Iterator[FieldError]:
    limits: Mapping[str, str] = resources.get("limits") or {}
    requests: Mapping[str, str] = resources.get("requests") or {}
    for name, amount in limits.items():
        yield from _amount(name, amount, f"{at}.limits[{name}]")
    for name, amount in requests.items():
        yield from _amount(name, amount, f"{at}.requests[{name}]")
        native = "/" not in name and not name.startswith("hugepages-")
        limit = limits.get(name)
        if limit is None:
            if not native:
                yield FieldError.required(f"{at}.limits", "Limit must be set for non overcommitable resources")
        elif not native and Quantity(amount) != Quantity(limit):
            yield FieldError.invalid(f"{at}.requests", amount, f"must be equal to {name} limit of {limit}")
        elif native and Quantity(amount) > Quantity(limit):
            text = f"must be less than or equal to {name} limit of {limit}"
            yield FieldError.invalid(f"{at}.requests", amount, text)
    every = {*limits, *requests}
    if any(name.startswith("hugepages-") for name in every) and not every & {"cpu", "memory"}:
        yield FieldError.forbidden(at, "HugePages require cpu or memory")
    for index, claim in enumerate(resources.get("claims") or ()):
        # A SidecarSet has no resourceClaims either.
        yield _not_found(f"{at}.claims[{index}].name", claim.get("name") or "")


def _amount(name: str, amount: str, at: str) -> Iterator[FieldError]:
    if "/" not in name and name not in _RESOURCES and not name.startswith("hugepages-"):
        yield FieldError.invalid(at, name, "must be a standard resource type or fully qualified")
        yield FieldError.invalid(at, name, "must be a standard resource for containers")
    if Quantity(amount) < Quantity("0"):
        yield FieldError.invalid(at, amount, "must be greater than or equal to 0")


def _security(context: Object, at: str) -> Iterator[FieldError]:
    for field in ("runAsUser", "runAsGroup"):
        if (number := context.get(field)) is not None and not 0 <= number <= 2147483647:
            yield FieldError.invalid(f"{at}.{field}", number, "must be between 0 and 2147483647, inclusive")
    if context.get("allowPrivilegeEscalation") is False:
        if context.get("privileged"):
            text = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
            yield FieldError.forbidden(at, text)
        capabilities: Object = context.get("capabilities") or {}
        if "CAP_SYS_ADMIN" in (capabilities.get("add") or ()):
            text = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
            yield FieldError.forbidden(at, text)
    for field in ("seccompProfile", "appArmorProfile"):
        if (profile := context.get(field)) is not None:
            yield from _profile(profile, f"{at}.{field}", "seccomp" if field == "seccompProfile" else "AppArmor")


def _profile(profile: Object, at: str, what: str) -> Iterator[FieldError]:
    kind, local = profile.get("type") or "", profile.get("localhostProfile")
    if not kind:
        yield FieldError.required(f"{at}.type", f"type is required when {at.rpartition('.')[2]} is set")
    elif kind not in ("Localhost", "RuntimeDefault", "Unconfined"):
        yield FieldError.not_supported(f"{at}.type", kind, ("Localhost", "RuntimeDefault", "Unconfined"))
    if kind == "Localhost":
        if not local:
            yield FieldError.required(f"{at}.localhostProfile", f"must be set when {what} type is Localhost")
    elif kind and local is not None:
        yield FieldError.invalid(f"{at}.localhostProfile", local, f"can only be set when {what} type is Localhost")


def _probe(name: str, probe: Object, at: str) -> Iterator[FieldError]:
    yield from _action(probe, at)
    for field in _SECONDS:
        if (value := probe.get(field)) is not None and value < 0:
            yield FieldError.invalid(f"{at}.{field}", value, "must be greater than or equal to 0")
    grace = probe.get("terminationGracePeriodSeconds")
    if grace is not None and grace <= 0:
        yield FieldError.invalid(f"{at}.terminationGracePeriodSeconds", grace, "must be greater than 0")
    if name == "readinessProbe":
        if grace is not None:
            text = "must not be set for readinessProbes"
            yield FieldError.invalid(f"{at}.terminationGracePeriodSeconds", grace, text)
    elif probe.get("successThreshold") != 1:
        yield FieldError.invalid(f"{at}.successThreshold", probe.get("successThreshold") or 0, "must be 1")


def _action(handler: Object, at: str) -> Iterator[FieldError]:
    given = [kind for kind in _ACTIONS if handler.get(kind) is not None]
    if not given:
        yield FieldError.required(at, "must specify a handler type")
        return
    kind, action = given[0], handler[given[0]]
    where = f"{at}.{kind}"
    if kind == "exec" and not action.get("command"):
        yield FieldError.required(f"{where}.command")
    if kind in ("httpGet", "tcpSocket", "grpc"):
        yield from _target(action, where)
    if kind == "httpGet":
        yield from _one_of(action, "scheme", ("HTTP", "HTTPS"), where)
    for other in given[1:]:
        yield FieldError.forbidden(f"{at}.{other}", "may not specify more than 1 handler type")


def _target(action: Object, at: str) -> Iterator[FieldError]:
    port = action.get("port", 0)
    if isinstance(port, str):
        yield from (FieldError.invalid(f"{at}.port", port, problem) for problem in _port_name(port))
    elif not 0 < port < 65536:
        yield FieldError.invalid(f"{at}.port", port, _PORT_TEXT)
