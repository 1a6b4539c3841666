"""The RBAC objects of an operator: ServiceAccount, roles and bindings, and roles for its users.

With `namespaces`, the operator gets a Role in each of them instead of a ClusterRole; a namespaced operator with
cluster-scoped kinds keeps a ClusterRole for those.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from steersman.k8s.rbac_v1 import PolicyRule
from steersman.manifests.kinds import classes_of
from steersman.manifests.permissions.rules import (
    EVENT_RULES,
    LEASE_RULES,
    METRICS_RULES,
    certificate_rules,
    definition_rules,
    injection_rules,
    merged,
    rules_for,
)
from steersman.models import Resource, ResourceInfo, replace, to_dict, view_of
from steersman.operator.operator import Operator

__all__ = ["rbac", "user_roles"]

_RBAC: Final = "rbac.authorization.k8s.io"
_LABELS: Final = "app.kubernetes.io"
_CLUSTER_EVENTS_NAMESPACE: Final = "default"
"""The namespace of Events about cluster-scoped objects."""
_USERS: Final = {
    "admin": (("*",), "every verb"),
    "editor": (("create", "delete", "get", "list", "patch", "update", "watch"), "all but handing out permissions"),
    "viewer": (("get", "list", "watch"), "reading"),
}


def rbac(
    operator: Operator,
    *,
    namespace: str | None = None,
    namespaces: Sequence[str] = (),
    namespace_selector: bool = False,
    secure_metrics: bool = False,
    webhook_certificates: bool = False,
    install_crds: bool = False,
) -> list[dict[str, Any]]:
    """Return Namespace, ServiceAccount, roles and bindings of an operator, in the order of their dependencies.

    Args:
        operator: The operator.
        namespace: The namespace that it runs in; `<name>-system` by default.
        namespaces: The namespaces that it watches; all if empty.
        namespace_selector: Whether it selects namespaces by labels.
        secure_metrics: Whether it authorizes readers of its metrics.
        webhook_certificates: Whether its replicas create the webhooks' certificates.
        install_crds: Whether it installs its CRDs.
    """
    home = namespace or f"{operator.name}-system"
    rules = rules_for(operator, namespace_selector=namespace_selector)
    account = {"kind": "ServiceAccount", "name": operator.name, "namespace": home}
    out: list[dict[str, Any]] = [
        _object("v1", "Namespace", home, None, operator),
        _object("v1", "ServiceAccount", operator.name, home, operator),
    ]
    if namespaces:
        inside, outside = _split(rules, _cluster_scoped(operator, namespace_selector=namespace_selector))
        for where in dict.fromkeys(namespaces):
            out += _granted(operator, operator.name, inside, account, where)
        if outside:
            out += _granted(operator, operator.name, outside, account, None)
        if _has_cluster_scoped_objects(operator):
            out += _granted(operator, f"{operator.name}-events", EVENT_RULES, account, _CLUSTER_EVENTS_NAMESPACE)
    else:
        out += _granted(operator, operator.name, rules, account, None)
    out += _granted(operator, f"{operator.name}-leader-election", LEASE_RULES, account, home)
    if webhook_certificates and operator.webhooks:
        name = f"{operator.name}-webhook-certificates"
        out += _granted(operator, name, certificate_rules(f"{operator.name}-webhook-cert"), account, home)
        out += _granted(operator, name, _injection(operator), account, None)
    installs = definition_rules(sorted({cls.__resource__.crd_name for cls in classes_of(operator)}))
    if install_crds and installs:
        out += _granted(operator, f"{operator.name}-crds", installs, account, None)
    if secure_metrics:
        out += _granted(operator, f"{operator.name}-metrics-auth", METRICS_RULES, account, None)
        reader = PolicyRule(non_resource_urls=("/metrics",), verbs=("get",))
        out.append(_role(operator, f"{operator.name}-metrics-reader", [reader], None))
    return out


def user_roles(source: Operator | Iterable[type[Resource]], *, aggregate: bool = True) -> list[dict[str, Any]]:
    """Return the ClusterRoles `<plural>-admin`, `-editor` and `-viewer` for every kind of an operator, sorted by name.

    `aggregate` adds them to the cluster's admin, edit and view roles.
    """
    infos = {cls.__resource__.crd_name: cls.__resource__ for cls in classes_of(source)}
    out: list[dict[str, Any]] = []
    for _, info in sorted(infos.items()):
        for who, (verbs, _) in _USERS.items():
            role = _role(None, f"{info.crd_name}-{who}", _user_rules(info, verbs), None)
            if aggregate:
                target = {"admin": "admin", "editor": "edit", "viewer": "view"}[who]
                role["metadata"]["labels"] = {f"rbac.authorization.k8s.io/aggregate-to-{target}": "true"}
            out.append(role)
    return sorted(out, key=lambda role: str(role["metadata"]["name"]))


def _injection(operator: Operator) -> list[PolicyRule]:
    kinds = {rule.mutating for rule in operator.webhook_rules}
    return injection_rules(
        mutating=[f"{operator.name}-mutating"] if True in kinds else (),
        validating=[f"{operator.name}-validating"] if False in kinds else (),
        crds={w.kind.info.crd_name for w in operator.webhooks if w.purpose == "converter"},
    )


def _user_rules(info: ResourceInfo, verbs: tuple[str, ...]) -> list[PolicyRule]:
    rules = [PolicyRule(api_groups=(info.group,), resources=(info.plural,), verbs=verbs)]
    if info.has_status:
        rules.append(PolicyRule(api_groups=(info.group,), resources=(f"{info.plural}/status",), verbs=("get",)))
    if info.scale is not None:
        scaling = ("get", "patch", "update") if len(verbs) != 3 else ("get",)
        rules.append(PolicyRule(api_groups=(info.group,), resources=(f"{info.plural}/scale",), verbs=scaling))
    return merged(rules)


def _has_cluster_scoped_objects(operator: Operator) -> bool:
    """Return whether the operator reconciles or owns cluster-scoped objects, for which it writes Events."""
    views = [view for controller in operator.controllers for view in (controller.kind, *controller.owns)]
    return any(not view.info.namespaced for view in views)


def _cluster_scoped(operator: Operator, *, namespace_selector: bool) -> set[tuple[str, str]]:
    views = [*operator.kinds(), *(p.kind for p in operator.permissions)]
    found = {(v.info.group, v.info.plural) for v in map(view_of, views) if not v.info.namespaced}
    return found | {("", "namespaces")} if namespace_selector else found


def _split(rules: Iterable[PolicyRule], wide: set[tuple[str, str]]) -> tuple[list[PolicyRule], list[PolicyRule]]:
    """Return the rules for namespaced resources, and those for cluster-scoped ones."""
    inside: list[PolicyRule] = []
    outside: list[PolicyRule] = []
    for rule in rules:
        group = rule.api_groups[0] if rule.api_groups else ""
        outer = tuple(r for r in rule.resources if (group, r.partition("/")[0]) in wide)
        inner = tuple(r for r in rule.resources if r not in outer)
        if inner:
            inside.append(replace(rule, resources=inner))
        if outer or rule.non_resource_urls:
            outside.append(replace(rule, resources=outer))
    return merged(inside), merged(outside)


def _granted(
    operator: Operator, name: str, rules: Sequence[PolicyRule], account: dict[str, str], namespace: str | None
) -> list[dict[str, Any]]:
    binding = _object(f"{_RBAC}/v1", "RoleBinding" if namespace else "ClusterRoleBinding", name, namespace, operator)
    binding["roleRef"] = {"apiGroup": _RBAC, "kind": "Role" if namespace else "ClusterRole", "name": name}
    binding["subjects"] = [dict(account)]
    return [_role(operator, name, rules, namespace), binding]


def _role(operator: Operator | None, name: str, rules: Sequence[PolicyRule], namespace: str | None) -> dict[str, Any]:
    role = _object(f"{_RBAC}/v1", "Role" if namespace else "ClusterRole", name, namespace, operator)
    role["rules"] = [to_dict(rule) for rule in rules]
    return role


def _object(api_version: str, kind: str, name: str, namespace: str | None, operator: Operator | None) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    if operator is not None:
        metadata["labels"] = {f"{_LABELS}/managed-by": "steersman", f"{_LABELS}/name": operator.name}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}
