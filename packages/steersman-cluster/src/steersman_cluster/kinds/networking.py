"""Ingress, IngressClass, NetworkPolicy, ServiceCIDR and IPAddress."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Any

from steersman_cluster.errors import (
    ErrorType,
    FieldError,
    field_forbidden,
    field_invalid,
    not_supported,
    required,
)
from steersman_cluster.json_access import get_list, get_object, get_string
from steersman_cluster.kinds import columns, formats
from steersman_cluster.kinds import meta as metadata
from steersman_cluster.kinds import names as check
from steersman_cluster.kinds.plain import Plain
from steersman_cluster.kinds.services.validation import port_or_name
from steersman_cluster.objects import Object, Path, annotations_of, dig
from steersman_cluster.strategy import Column, WriteContext

__all__ = ["STRATEGIES", "Ingress", "IngressClass", "NetworkPolicy"]

_SPEC = Path("spec")
_CLASS_ANNOTATION = "kubernetes.io/ingress.class"
_DEFAULT_CLASS = "ingressclass.kubernetes.io/is-default-class"
_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
_FORBIDDEN_IN_PATHS = ("//", "/./", "/../", "%2f", "%2F")
_FORBIDDEN_AT_END = ("/..", "/.")


class Ingress(Plain):
    """The rules of Ingress objects."""

    generation = True
    has_status = True
    columns = (
        columns.NAME,
        Column("Class", description="Which controller serves it."),
        Column("Hosts", description="The hosts it serves."),
        Column("Address", description="Where it is served."),
        Column("Ports", description="The ports it is served at."),
        columns.AGE,
    )

    def row(self, obj: Object, now: float) -> list[Any]:
        spec = get_object(obj, "spec")
        ingresses: Sequence[Object] = dig(obj, "status", "loadBalancer", "ingress", default=[])
        addresses = {get_string(item, "ip") or get_string(item, "hostname") for item in ingresses} - {""}
        name = spec.get("ingressClassName")
        return [
            columns.name(obj),
            columns.NONE if name is None else name,
            _shown_hosts(get_list(spec, "rules")),
            ",".join(sorted(addresses)),
            "80, 443" if spec.get("tls") else "80",
            columns.age(obj, now),
        ]

    def prepare_create(self, obj: Object, ctx: WriteContext) -> None:
        super().prepare_create(obj, ctx)
        obj["status"] = {"loadBalancer": {}}

    def errors(self, obj: Object) -> list[FieldError]:
        spec = get_object(obj, "spec")
        found: list[FieldError] = []
        default = spec.get("defaultBackend")
        if not spec.get("rules") and default is None:
            text = "either `defaultBackend` or `rules` must be specified"
            found.append(field_invalid(_SPEC, None, text))
        if default is not None:
            found += _backend(_SPEC / "defaultBackend", default)
        for index, rule in enumerate(get_list(spec, "rules")):
            found += _rule((_SPEC / "rules").at(index), rule)
        for index, tls in enumerate(get_list(spec, "tls")):
            found += _tls((_SPEC / "tls").at(index), tls)
        if (name := spec.get("ingressClassName")) is not None:
            found += check.dns_subdomain(_SPEC / "ingressClassName", name)
        return found

    def validate_create(self, obj: Object, ctx: WriteContext) -> list[FieldError]:
        annotation, name = annotations_of(obj).get(_CLASS_ANNOTATION), dig(obj, "spec", "ingressClassName")
        found = self.errors(obj)
        if annotation is not None and name is not None and annotation != name:
            path = Path("metadata.annotations").key(_CLASS_ANNOTATION)
            text = "must match `ingressClassName` when both are specified"
            found.append(field_invalid(path, annotation, text))
        return found

    def warnings(self, obj: Object, old: Object | None, ctx: WriteContext) -> Sequence[str]:
        if old is not None or _CLASS_ANNOTATION not in annotations_of(obj):
            return ()
        return (f"annotation \"{_CLASS_ANNOTATION}\" is deprecated, please use 'spec.ingressClassName' instead",)


def _shown_hosts(rules: Sequence[Object]) -> str:
    hosts = [host for rule in rules if (host := get_string(rule, "host"))]
    more = f" + {len(hosts) - 3} more..." if len(hosts) > 3 else ""
    return f"{','.join(hosts[:3])}{more}" if hosts else "*"


def _host(path: Path, host: str) -> list[FieldError]:
    rule = formats.wildcard_subdomain if "*" in host else formats.dns_subdomain
    return check.check(rule, path, host)


def _rule(path: Path, rule: Object) -> list[FieldError]:
    host, http = get_string(rule, "host"), rule.get("http")
    found: list[FieldError] = []
    if host and not formats.ip_address(host):
        found.append(field_invalid(path / "host", host, "must be a DNS name, not an IP address"))
    elif host:
        found += _host(path / "host", host)
    if http is None:
        return found
    paths: Sequence[Object] = get_list(http, "paths")
    at = path / "http" / "paths"
    if not paths:
        found.append(required(at))
    for index, item in enumerate(paths):
        found += _path(at.at(index), item)
    return found


def _path(path: Path, item: Object) -> list[FieldError]:
    kind, text = item.get("pathType"), get_string(item, "path")
    found: list[FieldError] = []
    if kind is None:
        return [required(path / "pathType", "pathType must be specified")]
    if kind not in _PATH_TYPES:
        found.append(not_supported(path / "pathType", kind, _PATH_TYPES))
    elif kind == "ImplementationSpecific":
        if text and not text.startswith("/"):
            found.append(field_invalid(path / "path", text, "must be an absolute path"))
    else:
        if not text.startswith("/"):
            found.append(field_invalid(path / "path", text, "must be an absolute path"))
        elif text:
            odd = [f"must not contain '{part}'" for part in _FORBIDDEN_IN_PATHS if part in text]
            odd += [f"cannot end with '{part}'" for part in _FORBIDDEN_AT_END if text.endswith(part)]
            found += [field_invalid(path / "path", text, problem) for problem in odd]
    return found + _backend(path / "backend", get_object(item, "backend"))


def _backend(path: Path, backend: Object) -> list[FieldError]:
    service, resource = backend.get("service"), backend.get("resource")
    if service is None and resource is None:
        return [field_invalid(path, "", "resource or service backend is required")]
    if service is not None and resource is not None:
        return [field_invalid(path, "", "cannot set both resource and service backends")]
    if resource is not None:
        return [required(path / "resource" / f) for f in ("kind", "name") if not resource.get(f)]
    target: Object = service or {}
    name, port = get_string(target, "name"), get_object(target, "port")
    at = path / "service"
    found = check.dns_label(at / "name", name) if name else [required(at / "name")]
    if get_string(port, "name") and port.get("number"):
        found.append(field_invalid(path, "", "cannot set both port name & port number"))
    elif get_string(port, "name"):
        found += check.port_name(at / "port" / "name", port["name"])
    elif port.get("number"):
        found += check.port_number(at / "port" / "number", port["number"])
    else:
        found.append(required(path, "port name or number is required"))
    return found


def _tls(path: Path, tls: Object) -> list[FieldError]:
    found: list[FieldError] = []
    for index, host in enumerate(get_list(tls, "hosts")):
        found += _host((path / "hosts").at(index), host)
    if secret := get_string(tls, "secretName"):
        found += check.dns_subdomain(path / "secretName", secret)
    return found


class IngressClass(Plain):
    """The rules of IngressClass objects."""

    namespaced = False
    generation = True
    columns = (
        columns.NAME,
        Column("Controller", description="The controller of the class."),
        Column("Parameters", description="Where its parameters are."),
        columns.AGE,
    )
    revalidated = False

    def row(self, obj: Object, now: float) -> list[Any]:
        spec = get_object(obj, "spec")
        default = " (default)" if annotations_of(obj).get(_DEFAULT_CLASS) == "true" else ""
        parameters = spec.get("parameters")
        shown = columns.NONE
        if parameters is not None:
            group = f".{parameters['apiGroup']}" if parameters.get("apiGroup") is not None else ""
            shown = f"{get_string(parameters, 'kind')}{group}/{get_string(parameters, 'name')}"
        return [columns.name(obj) + default, get_string(spec, "controller"), shown, columns.age(obj, now)]

    def default(self, obj: Object) -> None:
        if (parameters := get_object(obj, "spec").get("parameters")) is not None:
            parameters["scope"] = get_string(parameters, "scope") or "Cluster"

    def errors(self, obj: Object) -> list[FieldError]:
        spec = get_object(obj, "spec")
        return _controller(get_string(spec, "controller")) + _parameters(spec.get("parameters"))

    def validate_update(self, obj: Object, old: Object, ctx: WriteContext) -> list[FieldError]:
        spec, before = get_object(obj, "spec"), get_object(old, "spec")
        found = metadata.repeated_update(obj, old)
        found += check.immutable(_SPEC / "controller", spec.get("controller"), before.get("controller"))
        return found + _parameters(spec.get("parameters"))


def _controller(controller: str) -> list[FieldError]:
    path = _SPEC / "controller"
    if not controller:
        return [required(path)]
    found = [check.too_long(path, 250)] if len(controller) > 250 else []
    host, slash, rest = controller.partition("/")
    if not slash or not host or not rest:
        return [*found, field_invalid(path, controller, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    return found + check.dns_subdomain(path, host)


def _parameters(parameters: Object | None) -> list[FieldError]:
    if parameters is None:
        return []
    path, scope, namespace = _SPEC / "parameters", get_string(parameters, "scope"), parameters.get("namespace")
    found: list[FieldError] = []
    if group := get_string(parameters, "apiGroup"):
        found += check.dns_subdomain(path / "apiGroup", group)
    for field in ("kind", "name"):
        value = get_string(parameters, field)
        found += check.path_segment(path / field, value) if value else [required(path / field)]
    if scope not in ("Cluster", "Namespace"):
        found.append(not_supported(path / "scope", scope, ("Cluster", "Namespace")))
    elif scope == "Namespace":
        text = "`parameters.scope` is set to 'Namespace'"
        found += [] if namespace else [required(path / "namespace", text)]
    elif namespace is not None:
        text = "`parameters.scope` is set to 'Cluster'"
        found.append(field_forbidden(path / "namespace", text))
    return found


class NetworkPolicy(Plain):
    """The rules of NetworkPolicy objects."""

    generation = True
    revalidated = False
    columns = (columns.NAME, Column("Pod-Selector", description="Which Pods it is for."), columns.AGE)

    def row(self, obj: Object, now: float) -> list[Any]:
        selector = get_object(get_object(obj, "spec"), "podSelector")
        return [columns.name(obj), columns.label_selector(selector), columns.age(obj, now)]

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        spec.setdefault("podSelector", {})
        for rule in (*get_list(spec, "ingress"), *get_list(spec, "egress")):
            for port in get_list(rule, "ports"):
                port.setdefault("protocol", "TCP")
        if not spec.get("policyTypes"):
            spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]

    def errors(self, obj: Object) -> list[FieldError]:
        spec = get_object(obj, "spec")
        found = check.label_selector(_SPEC / "podSelector", spec.get("podSelector"))
        for direction, peers in (("ingress", "from"), ("egress", "to")):
            for index, rule in enumerate(get_list(spec, direction)):
                at = (_SPEC / direction).at(index)
                for number, port in enumerate(get_list(rule, "ports")):
                    found += _policy_port((at / "ports").at(number), port)
                for number, peer in enumerate(get_list(rule, peers)):
                    found += _peer((at / peers).at(number), peer)
        kinds = get_list(spec, "policyTypes")
        if len(kinds) > 2:
            text = "may not specify more than two policyTypes"
            return [*found, field_invalid(_SPEC / "policyTypes", kinds, text)]
        for index, kind in enumerate(kinds):
            found += check.enum((_SPEC / "policyTypes").at(index), kind, ("Ingress", "Egress"))
        return found


def _policy_port(path: Path, port: Object) -> list[FieldError]:
    found: list[FieldError] = []
    if (protocol := port.get("protocol")) is not None:
        found += check.enum(path / "protocol", protocol, ("TCP", "UDP", "SCTP"))
    number, last = port.get("port"), port.get("endPort")
    if number is not None:
        found += port_or_name(path / "port", number)
    if last is None:
        return found
    at = path / "endPort"
    if number is None:
        found.append(field_invalid(at, last, "may not be specified when `port` is not specified"))
    elif isinstance(number, str):
        found.append(field_invalid(at, last, "may not be specified when `port` is non-numeric"))
    else:
        if last < number:
            found.append(field_invalid(at, last, "must be greater than or equal to `port`"))
        found += check.port_number(at, last)
    return found


def _peer(path: Path, peer: Object) -> list[FieldError]:
    found: list[FieldError] = []
    given = 0
    for field in ("podSelector", "namespaceSelector"):
        if peer.get(field) is not None:
            given += 1
            found += check.label_selector(path / field, peer[field])
    if (block := peer.get("ipBlock")) is not None:
        given += 1
        found += _block(path / "ipBlock", block)
    if not given:
        found.append(required(path, "must specify a peer"))
    elif given > 1 and block is not None:
        found.append(field_forbidden(path, "may not specify both ipBlock and another peer"))
    return found


def _block(path: Path, block: Object) -> list[FieldError]:
    cidr = get_string(block, "cidr")
    if not cidr:
        return [required(path / "cidr")]
    found = check.cidr(path / "cidr", cidr)
    if found:
        return found
    whole = ipaddress.ip_network(cidr)
    for index, text in enumerate(get_list(block, "except")):
        at = (path / "except").at(index)
        bad = check.cidr(at, text)
        if not bad:
            inner = ipaddress.ip_network(text)
            # Of two networks of one version, one holds the other or they are apart.
            inside = inner.version == whole.version and inner.network_address in whole
            if not inside or inner.prefixlen <= whole.prefixlen:
                bad = [field_invalid(at, text, "must be a strict subset of `cidr`")]
        found += bad
    return found


class ServiceCIDR(Plain):
    namespaced = False
    has_status = True
    columns = (columns.NAME, Column("CIDRs", description="The ranges."), columns.AGE)

    def row(self, obj: Object, now: float) -> list[Any]:
        return [columns.name(obj), ",".join(get_list(get_object(obj, "spec"), "cidrs")), columns.age(obj, now)]

    def prepare_create(self, obj: Object, ctx: WriteContext) -> None:
        obj["status"] = {}

    def errors(self, obj: Object) -> list[FieldError]:
        path, ranges = _SPEC / "cidrs", get_list(get_object(obj, "spec"), "cidrs")
        if not ranges:
            return [required(path, "at least one CIDR required")]
        if len(ranges) > 2:
            return [field_invalid(path, ranges, "may only hold up to 2 values")]
        found: list[FieldError] = []
        for index, text in enumerate(ranges):
            found += check.cidr(path.at(index), text)
        return found

    def changes(self, obj: Object, old: Object) -> list[FieldError]:
        return check.immutable(_SPEC / "cidrs", dig(obj, "spec", "cidrs"), dig(old, "spec", "cidrs"))


class IPAddress(Plain):
    namespaced = False
    name_rule = "ip"
    columns = (columns.NAME, Column("ParentRef", description="The object that uses the address."))

    def row(self, obj: Object, now: float) -> list[Any]:
        parent = get_object(get_object(obj, "spec"), "parentRef")
        names = [get_string(parent, field) for field in ("group", "resource", "namespace", "name")]
        resource = f"{names[1]}.{names[0]}" if names[0] else names[1]
        # The age has no column, as it has none in the API server.
        shown = "/".join(filter(None, [resource, names[2], names[3]]))
        return [columns.name(obj), shown, columns.age(obj, now)]

    def errors(self, obj: Object) -> list[FieldError]:
        parent = get_object(obj, "spec").get("parentRef")
        path = _SPEC / "parentRef"
        if parent is None:
            return [required(path)]
        return [FieldError(ErrorType.REQUIRED, path / f) for f in ("resource", "name") if not parent.get(f)]

    def changes(self, obj: Object, old: Object) -> list[FieldError]:
        return check.immutable(_SPEC / "parentRef", dig(obj, "spec", "parentRef"), dig(old, "spec", "parentRef"))


_GROUP = "networking.k8s.io"

STRATEGIES = {
    (_GROUP, "v1", "Ingress"): Ingress(),
    (_GROUP, "v1", "IngressClass"): IngressClass(),
    (_GROUP, "v1", "NetworkPolicy"): NetworkPolicy(),
    (_GROUP, "v1", "ServiceCIDR"): ServiceCIDR(),
    (_GROUP, "v1", "IPAddress"): IPAddress(),
}
