"""Prevention of privilege escalation: a role or binding grants only permissions that its writer has.

The verbs `escalate` and `bind` lift this rule. The API server checks it on each write of a role or binding, after
admission and before validation.
"""

from __future__ import annotations

from steersman_cluster.auth.attributes import Attributes, quoted
from steersman_cluster.auth.rbac import GROUP, MASTERS, Authorizer
from steersman_cluster.auth.rules import compact, describe, missing
from steersman_cluster.errors import APIError, forbidden, not_found
from steersman_cluster.json_access import get_object, get_objects
from steersman_cluster.objects import Object, dig, meta, name_of
from steersman_cluster.strategy import User

__all__ = ["check_escalation"]

_EVERYTHING: list[Object] = [
    {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
    {"verbs": ["*"], "nonResourceURLs": ["*"]},
]


def check_escalation(
    authorizer: Authorizer,
    user: User,
    resource: str,
    namespace: str,
    obj: Object,
    old: Object | None = None,
    name: str = "",
) -> None:
    """Refuse to store a role or binding that gives more than its writer has. For other resources it does nothing.

    `name` is the one in the request's path (empty on create). A write that changes only owner references and
    finalizers is let through, so that the garbage collector can work.
    """
    if MASTERS in user.groups or (old is not None and _only_collected(obj, old)):
        return
    if resource in ("roles", "clusterroles"):
        _check_role(authorizer, user, Attributes("escalate", GROUP, "*", resource, "", namespace, name), obj, old)
    elif resource in ("rolebindings", "clusterrolebindings"):
        _check_binding(authorizer, user, resource, namespace, obj)


def _check_role(authorizer: Authorizer, user: User, escalate: Attributes, obj: Object, old: Object | None) -> None:
    if authorizer.authorize(user, escalate)[0]:
        return
    resource, namespace = escalate.resource, escalate.namespace
    _check_rules(authorizer, user, resource, namespace, name_of(obj), get_objects(obj, "rules"))
    if any(_aggregates(item) for item in (obj, old) if item is not None) and _not_held(
        authorizer, user, namespace, _EVERYTHING
    ):
        why = "must have cluster-admin privileges to use the aggregationRule"
        raise forbidden(GROUP, resource, name_of(obj), why)


def _check_binding(authorizer: Authorizer, user: User, resource: str, namespace: str, obj: Object) -> None:
    reference = get_object(obj, "roleRef")
    kind, name = reference.get("kind"), reference.get("name") or ""
    if kind not in ("Role", "ClusterRole"):
        return  # validation refuses it
    target = "roles" if kind == "Role" else "clusterroles"
    group = reference.get("apiGroup") or GROUP
    if authorizer.authorize(user, Attributes("bind", group, "*", target, "", namespace, name))[0]:
        return
    try:
        wanted = authorizer.role_rules(reference, namespace)
    except APIError as error:
        if error.code != 404:
            raise
        # The real server names the binding's resource here, not the role's.
        raise not_found(GROUP, resource, name) from None
    _check_rules(authorizer, user, resource, namespace, name_of(obj), wanted)


def _check_rules(
    authorizer: Authorizer, user: User, resource: str, namespace: str, name: str, wanted: list[Object]
) -> None:
    why = _not_held(authorizer, user, namespace, wanted)
    if why:
        raise forbidden(GROUP, resource, name, why)


def _not_held(authorizer: Authorizer, user: User, namespace: str, wanted: list[Object]) -> str:
    """Return the permissions in `wanted` that a user lacks, as a text; empty if none."""
    held, errors = authorizer.rules_for(user, namespace)
    lacking = missing(held, wanted)
    if not lacking:
        return ""
    shown = "\n".join(sorted({describe(rule) for rule in compact(lacking)}))
    groups = " ".join(quoted(group) for group in user.groups)
    text = (
        f"user {quoted(user.name)} (groups=[{groups}]) is attempting to grant RBAC permissions not currently held:"
        f"\n{shown}"
    )
    return f"{text}; resolution errors: [{' '.join(errors)}]" if errors else text


def _aggregates(role: Object) -> bool:
    return bool(dig(role, "aggregationRule", "clusterRoleSelectors"))


_COLLECTED = ("ownerReferences", "finalizers", "managedFields")


def _only_collected(obj: Object, old: Object) -> bool:
    if {key: value for key, value in obj.items() if key != "metadata"} != {
        key: value for key, value in old.items() if key != "metadata"
    }:
        return False
    return {key: value for key, value in meta(obj).items() if key not in _COLLECTED} == {
        key: value for key, value in meta(old).items() if key not in _COLLECTED
    }
