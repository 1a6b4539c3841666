"""The permissions that an operator needs, derived from its declarations: merged, sorted, and minimal.

| declared | allowed |
|---|---|
| a controller's kind, `reads`, `watches`, a timer's or webhook's `reads` | get, list, watch |
| `owns` | the same, and create, patch, delete; server-side apply is a patch that may create |
| a status sub-resource of a reconciled kind | patch of `…/status` |
| a finalizer | patch of the kind |
| `owns`, since its references block the owner's deletion | update of the owner's `…/finalizers` |
| `permit(…)` | the given permission |
| Events | create, patch |

No rule has a wildcard, except from `permit`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, Final

from steersman.k8s.rbac_v1 import PolicyRule
from steersman.models import ResourceInfo, View, view_of
from steersman.operator.operator import Operator

__all__ = [
    "EVENT_RULES",
    "LEASE_RULES",
    "METRICS_RULES",
    "certificate_rules",
    "definition_rules",
    "injection_rules",
    "merged",
    "rules_for",
]

_READ: Final = ("get", "list", "watch")
_WRITE: Final = ("create", "delete", "patch")


def _rule(group: str, resource: str, verbs: Iterable[str], names: Iterable[str] = ()) -> PolicyRule:
    return PolicyRule(
        api_groups=(group,), resources=(resource,), verbs=tuple(verbs), resource_names=tuple(sorted(set(names)))
    )


EVENT_RULES: Final = (_rule("events.k8s.io", "events", ("create", "patch")),)
"""Events are written in the namespace of their object, and in `default` for cluster-scoped objects."""
LEASE_RULES: Final = (_rule("coordination.k8s.io", "leases", ("create", "get", "patch")),)
"""Leader election, in the operator's own namespace."""
METRICS_RULES: Final = (
    _rule("authentication.k8s.io", "tokenreviews", ("create",)),
    _rule("authorization.k8s.io", "subjectaccessreviews", ("create",)),
)
"""The permissions to authenticate and authorize readers of secure metrics."""


def certificate_rules(secret: str, *, prepared: bool = False) -> list[PolicyRule]:
    """Return the permissions for self-managed webhook certificates in the operator's namespace: a Secret and a Lease.

    Both have the name `secret`. RBAC cannot limit create to a name; a Secret that is created in advance (`prepared`)
    needs no create.
    """
    rules = [
        _rule("", "secrets", ("get", "patch"), (secret,)),
        _rule("coordination.k8s.io", "leases", ("create",)),
        _rule("coordination.k8s.io", "leases", ("get", "patch"), (secret,)),
    ]
    if not prepared:
        rules.append(_rule("", "secrets", ("create",)))
    return merged(rules)


def injection_rules(
    *, mutating: Iterable[str] = (), validating: Iterable[str] = (), crds: Iterable[str] = ()
) -> list[PolicyRule]:
    """Return the permissions to inject the CA bundle: get and patch of these configurations and CRDs."""
    wanted = (
        ("admissionregistration.k8s.io", "mutatingwebhookconfigurations", tuple(mutating)),
        ("admissionregistration.k8s.io", "validatingwebhookconfigurations", tuple(validating)),
        ("apiextensions.k8s.io", "customresourcedefinitions", tuple(crds)),
    )
    return merged(_rule(group, plural, ("get", "patch"), names) for group, plural, names in wanted if names)


def definition_rules(crds: Iterable[str]) -> list[PolicyRule]:
    """Return the permissions to install CRDs: get and patch of these, and create, which RBAC cannot limit to names."""
    names = tuple(crds)
    if not names:
        return []
    group, plural = "apiextensions.k8s.io", "customresourcedefinitions"
    return merged([_rule(group, plural, ("create",)), _rule(group, plural, ("get", "patch"), names)])


def rules_for(operator: Operator, *, namespace_selector: bool = False) -> list[PolicyRule]:
    """Return the permissions for the operator's work, Events included; leases and metrics have separate roles.

    `namespace_selector` adds reading of Namespaces, for operators that select namespaces by labels.
    """
    rules: list[PolicyRule] = list(EVENT_RULES)
    for controller in operator.controllers:
        info = controller.kind.info
        rules.append(_on(controller.kind, _READ))
        if info.has_status:
            rules.append(_rule(info.group, f"{info.plural}/status", ("patch",)))
        rules += [_on(view, (*_READ, *_WRITE)) for view in controller.owns]
        if controller.owns:
            rules.append(_rule(info.group, f"{info.plural}/finalizers", ("update",)))
        rules += [_on(view, _READ) for view in controller.reads]
        rules += [_on(view_of(watch.kind), _READ) for watch in controller.watches]
    for finalizer in operator.finalizers:
        rules.append(_on(finalizer.kind, ("patch",)))
    for reader in (*operator.timers, *operator.webhooks):
        rules += [_on(view, _READ) for view in reader.reads]
    for permission in operator.permissions:
        info = permission.kind.info
        resource = f"{info.plural}/{permission.subresource}" if permission.subresource else info.plural
        rules += _permitted(info, resource, permission.verbs, permission.names)
    if namespace_selector:
        rules.append(_rule("", "namespaces", ("list", "watch")))
    return merged(rules)


def _on(view: View[Any], verbs: Iterable[str]) -> PolicyRule:
    return _rule(view.info.group, view.info.plural, verbs)


def _permitted(info: ResourceInfo, resource: str, verbs: tuple[str, ...], names: tuple[str, ...]) -> list[PolicyRule]:
    """Return one rule, or two with names: RBAC cannot limit create to names."""
    free = [v for v in verbs if v in ("create", "deletecollection")] if names else []
    named = [v for v in verbs if v not in free]
    found = [_rule(info.group, resource, named, names)] if named else []
    return [*found, _rule(info.group, resource, free)] if free else found


def merged(rules: Iterable[PolicyRule]) -> list[PolicyRule]:
    """Return the same permissions in as few rules as possible per API group; sorted, so that the output is stable."""
    verbs: dict[tuple[str, str, tuple[str, ...]], set[str]] = defaultdict(set)
    urls: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for rule in rules:
        if rule.non_resource_urls:
            urls[tuple(sorted(rule.non_resource_urls))].update(rule.verbs)
        for group in rule.api_groups:
            for resource in rule.resources:
                verbs[group, resource, rule.resource_names].update(rule.verbs)
    for (group, resource, names), allowed in verbs.items():
        if names:  # permissions without names include those with names
            allowed -= verbs.get((group, resource, ()), set())
    together: dict[tuple[str, tuple[str, ...], tuple[str, ...]], list[str]] = defaultdict(list)
    for (group, resource, names), allowed in verbs.items():
        if allowed:
            words = ("*",) if "*" in allowed else tuple(sorted(allowed))
            together[group, words, names].append(resource)
    found = [
        PolicyRule(api_groups=(group,), resources=tuple(sorted(resources)), verbs=words, resource_names=names)
        for (group, words, names), resources in together.items()
    ]
    found.sort(key=lambda r: (r.api_groups, r.resources, r.resource_names, r.verbs))
    return found + [
        PolicyRule(non_resource_urls=paths, verbs=tuple(sorted(words))) for paths, words in sorted(urls.items())
    ]
