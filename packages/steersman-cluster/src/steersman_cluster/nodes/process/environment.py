"""The environment, command and downward API fields of a container, by the rules of the kubelet. Pure functions.

The order is Services, `envFrom`, `env`. A later variable replaces an earlier one, and `$(NAME)` refers to an earlier
variable.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from math import ceil

from steersman.models import Quantity
from steersman_cluster.nodes.process.images import Image
from steersman_cluster.objects import Object, annotations_of, dig, labels_of, name_of, namespace_of, uid_of

__all__ = [
    "ConfigError",
    "Facts",
    "References",
    "command_of",
    "environment_of",
    "expand",
    "field_value",
    "references_of",
    "resource_value",
    "service_variables",
]

_REFERENCE = re.compile(r"\$(?:\$|\(([^)]*)\))")
_SUBSCRIPT = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")


class ConfigError(Exception):
    """An object that a container refers to does not exist, or a value is invalid: CreateContainerConfigError."""


class Facts:
    """The facts of a Pod that its node determines."""

    def __init__(self, pod: Object, *, ip: str, host_ip: str, node: str, allocatable: Mapping[str, str]) -> None:
        self.pod = pod
        self.ip = ip
        self.host_ip = host_ip
        self.node = node
        self.allocatable = allocatable


References = Mapping[tuple[str, str], Object | None]
"""ConfigMaps and Secrets by (`configmap` or `secret`, name); `None` for objects that do not exist."""


def expand(text: str, known: Mapping[str, str]) -> str:
    """Replace `$(NAME)`; unknown names stay as they are, and `$$` is a dollar sign."""

    def replacement(found: re.Match[str]) -> str:
        if found.group(0) == "$$":
            return "$"
        return known.get(found.group(1), found.group(0))

    return _REFERENCE.sub(replacement, text)


def command_of(container: Object, image: Image, env: Mapping[str, str]) -> list[str]:
    """Return the command of a container, or that of its image, with arguments by the same rule."""
    command: list[str] = container.get("command") or []
    args: list[str] = container.get("args") or []
    first = command or list(image.command)
    rest = args or ([] if command else list(image.args))
    return [*(expand(word, env) for word in first), *(expand(word, env) for word in rest)]


def references_of(container: Object) -> set[tuple[str, str]]:
    """Return the ConfigMaps and Secrets that a container's environment refers to."""
    found: set[tuple[str, str]] = set()
    for source in container.get("envFrom") or ():
        for kind, field in (("configmap", "configMapRef"), ("secret", "secretRef")):
            if field in source:
                found.add((kind, source[field].get("name") or ""))
    for variable in container.get("env") or ():
        origin: Object = variable.get("valueFrom") or {}
        for kind, field in (("configmap", "configMapKeyRef"), ("secret", "secretKeyRef")):
            if field in origin:
                found.add((kind, origin[field].get("name") or ""))
    return found


def environment_of(
    container: Object, facts: Facts, references: References, services: Mapping[str, str], image: Image
) -> dict[str, str]:
    """Return all variables of a container; raises `ConfigError` with the kubelet's message for a missing object."""
    env: dict[str, str] = {**image.env, **services}
    for source in container.get("envFrom") or ():
        env.update(_from_source(source, references))
    own: dict[str, str] = {}
    for variable in container.get("env") or ():
        name: str = variable["name"]
        if "valueFrom" in variable:
            value = _from_origin(variable["valueFrom"], container, facts, references)
            if value is None:
                continue
        else:
            value = expand(variable.get("value") or "", {**env, **own})
        own[name] = value
    return {**env, **own}


def _from_source(source: Object, references: References) -> dict[str, str]:
    kind, field = ("configmap", "configMapRef") if "configMapRef" in source else ("secret", "secretRef")
    reference: Object = source.get(field) or {}
    name = reference.get("name") or ""
    obj = references.get((kind, name))
    if obj is None:
        if reference.get("optional"):
            return {}
        raise ConfigError(f'{kind} "{name}" not found')
    prefix = source.get("prefix") or ""
    return {f"{prefix}{key}": value for key, value in texts_of(obj).items()}


def texts_of(obj: Object) -> dict[str, str]:
    """Return the data of a ConfigMap or the decoded data of a Secret as text, without `binaryData`."""
    if obj.get("kind") != "Secret":
        return dict(obj.get("data") or {})
    return {key: value.decode("utf-8", "surrogateescape") for key, value in bytes_of(obj).items()}


def bytes_of(obj: Object) -> dict[str, bytes]:
    """Return the data of a ConfigMap or Secret as bytes."""
    import base64

    data: dict[str, str] = obj.get("data") or {}
    if obj.get("kind") == "Secret":
        return {key: base64.b64decode(value) for key, value in data.items()}
    found = {key: value.encode() for key, value in data.items()}
    binary: dict[str, str] = obj.get("binaryData") or {}
    found.update({key: base64.b64decode(value) for key, value in binary.items()})
    return found


def _from_origin(origin: Object, container: Object, facts: Facts, references: References) -> str | None:
    if "fieldRef" in origin:
        return field_value(origin["fieldRef"].get("fieldPath") or "", facts)
    if "resourceFieldRef" in origin:
        return resource_value(origin["resourceFieldRef"], container, facts)
    kind, field = ("configmap", "configMapKeyRef") if "configMapKeyRef" in origin else ("secret", "secretKeyRef")
    reference: Object = origin.get(field) or {}
    name, key = reference.get("name") or "", reference.get("key") or ""
    obj = references.get((kind, name))
    if obj is None:
        if reference.get("optional"):
            return None
        raise ConfigError(f'{kind} "{name}" not found')
    values = texts_of(obj)
    if key not in values:
        if reference.get("optional"):
            return None
        shown = "Secret" if kind == "secret" else "ConfigMap"
        raise ConfigError(f"couldn't find key {key} in {shown} {namespace_of(facts.pod)}/{name}")
    return values[key]


def field_value(path: str, facts: Facts) -> str:  # noqa: C901 - one table
    """Return a field of the downward API; raises `ConfigError` for an unknown field."""
    pod = facts.pod
    match path:
        case "metadata.name":
            return name_of(pod)
        case "metadata.namespace":
            return namespace_of(pod)
        case "metadata.uid":
            return uid_of(pod)
        case "metadata.labels":
            return _lines(labels_of(pod))
        case "metadata.annotations":
            return _lines(annotations_of(pod))
        case "spec.nodeName":
            return facts.node
        case "spec.serviceAccountName":
            return dig(pod, "spec", "serviceAccountName", default="")
        case "status.podIP" | "status.podIPs":
            return facts.ip
        case "status.hostIP" | "status.hostIPs":
            return facts.host_ip
        case _:
            if (found := _SUBSCRIPT.match(path)) is not None:
                values = labels_of(pod) if found.group(1) == "labels" else annotations_of(pod)
                return values.get(found.group(2), "")
            raise ConfigError(f"unsupported fieldPath: {path}")


def _lines(values: Mapping[str, str]) -> str:
    return "\n".join(f'{key}="{_quoted(value)}"' for key, value in sorted(values.items()))


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def resource_value(reference: Object, container: Object, facts: Facts) -> str:
    """Return a request or limit in units of the divisor, rounded up; without a limit, the capacity of the node."""
    name = reference.get("containerName") or container.get("name")
    if name != container.get("name"):
        every = (*(dig(facts.pod, "spec", "initContainers") or ()), *dig(facts.pod, "spec", "containers"))
        container = next((c for c in every if c["name"] == name), container)
    side, _, resource = (reference.get("resource") or "").partition(".")
    amount = dig(container, "resources", side, resource)
    if amount is None:
        amount = facts.allocatable.get(resource, "0") if side == "limits" else "0"
    divisor = Quantity(reference.get("divisor") or "1").as_fraction() or Fraction(1)
    return str(ceil(Quantity(amount).as_fraction() / divisor))


def service_variables(services: Iterable[Object]) -> dict[str, str]:
    """Return the variables `WEB_SERVICE_HOST`, `WEB_SERVICE_PORT`, … of Services with a cluster address."""
    env: dict[str, str] = {}
    for service in services:
        spec: Object = service.get("spec") or {}
        address = spec.get("clusterIP") or ""
        ports: list[Object] = spec.get("ports") or []
        if not address or address == "None" or not ports:
            continue
        name = name_of(service).upper().replace("-", "_")
        env[f"{name}_SERVICE_HOST"] = address
        env[f"{name}_SERVICE_PORT"] = str(ports[0]["port"])
        for number, port in enumerate(ports):
            if port.get("name"):
                env[f"{name}_SERVICE_PORT_{port['name'].upper().replace('-', '_')}"] = str(port["port"])
            protocol: str = port.get("protocol") or "TCP"
            url = f"{protocol.lower()}://{address}:{port['port']}"
            if number == 0:
                env[f"{name}_PORT"] = url
            prefix = f"{name}_PORT_{port['port']}_{protocol}"
            env[prefix] = url
            env[f"{prefix}_PROTO"] = protocol.lower()
            env[f"{prefix}_PORT"] = str(port["port"])
            env[f"{prefix}_ADDR"] = address
    return env
