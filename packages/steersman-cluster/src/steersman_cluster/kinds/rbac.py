"""Validation of roles and bindings. `auth.escalation` checks the permission to write them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from steersman_cluster.errors import FieldError, field_invalid, not_supported, required
from steersman_cluster.json_access import get_list, get_object, get_string
from steersman_cluster.kinds import columns
from steersman_cluster.kinds import names as check
from steersman_cluster.kinds.plain import CREATED_AT, Plain
from steersman_cluster.objects import Object, Path, meta
from steersman_cluster.strategy import Column, WriteContext

__all__ = ["STRATEGIES", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"]

_GROUP = "rbac.authorization.k8s.io"


class Role(Plain):
    """The rules of Role objects."""

    create_on_update = True
    name_rule = "path"
    revalidated_first = True
    columns = (columns.NAME, CREATED_AT)

    def default(self, obj: Object) -> None:
        obj.setdefault("rules", None)

    def prepare_create(self, obj: Object, ctx: WriteContext) -> None:
        super().prepare_create(obj, ctx)
        obj["rules"] = obj.get("rules") or None

    def prepare_update(self, obj: Object, old: Object, ctx: WriteContext) -> None:
        super().prepare_update(obj, old, ctx)
        obj["rules"] = obj.get("rules") or None

    def row(self, obj: Object, now: float) -> list[Any]:
        return [columns.name(obj), meta(obj).get("creationTimestamp")]

    def errors(self, obj: Object) -> list[FieldError]:
        rules = enumerate(get_list(obj, "rules"))
        return [error for index, rule in rules for error in self._rule(Path("rules").at(index), rule)]

    def _rule(self, path: Path, rule: Object) -> list[FieldError]:
        found: list[FieldError] = []
        if not rule.get("verbs"):
            found.append(required(path / "verbs", "verbs must contain at least one value"))
        if urls := rule.get("nonResourceURLs"):
            at = path / "nonResourceURLs"
            if self.namespaced:
                found.append(field_invalid(at, urls, "namespaced rules cannot apply to non-resource URLs"))
            if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
                text = "rules cannot apply to both regular resources and non-resource URLs"
                found.append(field_invalid(at, urls, text))
            return found
        if not rule.get("apiGroups"):
            found.append(required(path / "apiGroups", "resource rules must supply at least one api group"))
        if not rule.get("resources"):
            found.append(required(path / "resources", "resource rules must supply at least one resource"))
        return found


class ClusterRole(Role):
    """The rules of ClusterRole objects."""

    namespaced = False

    def errors(self, obj: Object) -> list[FieldError]:
        found = super().errors(obj)
        aggregation = obj.get("aggregationRule")
        if aggregation is None:
            return found
        path, selectors = Path("aggregationRule.clusterRoleSelectors"), get_list(aggregation, "clusterRoleSelectors")
        if not selectors:
            text = "at least one clusterRoleSelector required if aggregationRule is non-nil"
            found.append(required(path, text))
        for index, selector in enumerate(selectors):
            found += check.label_selector(path.at(index), selector)
        return found


class RoleBinding(Plain):
    """The rules of RoleBinding objects."""

    create_on_update = True
    name_rule = "path"
    revalidated_first = True
    roles: Sequence[str] = ("Role", "ClusterRole")
    columns = (
        columns.NAME,
        Column("Role", description="The granted role."),
        columns.AGE,
        Column("Users", description="To which users.", priority=1),
        Column("Groups", description="To which groups.", priority=1),
        Column("ServiceAccounts", description="To which ServiceAccounts.", priority=1),
    )

    def row(self, obj: Object, now: float) -> list[Any]:
        role, subjects = get_object(obj, "roleRef"), get_list(obj, "subjects")
        users = [get_string(s, "name") for s in subjects if s.get("kind") == "User"]
        groups = [get_string(s, "name") for s in subjects if s.get("kind") == "Group"]
        accounts = [
            f"{get_string(s, 'namespace')}/{get_string(s, 'name')}"
            for s in subjects
            if s.get("kind") == "ServiceAccount"
        ]
        return [
            columns.name(obj),
            f"{get_string(role, 'kind')}/{get_string(role, 'name')}",
            columns.age(obj, now),
            ", ".join(users),
            ", ".join(groups),
            ", ".join(accounts),
        ]

    def default(self, obj: Object) -> None:
        reference = obj.setdefault("roleRef", {})
        reference["apiGroup"] = get_string(reference, "apiGroup") or _GROUP
        for subject in get_list(obj, "subjects"):
            if not subject.get("apiGroup") and subject.get("kind") in ("User", "Group"):
                subject["apiGroup"] = _GROUP

    def errors(self, obj: Object) -> list[FieldError]:
        reference, path = get_object(obj, "roleRef"), Path("roleRef")
        found: list[FieldError] = []
        if (group := get_string(reference, "apiGroup")) != _GROUP:
            found.append(not_supported(path / "apiGroup", group, (_GROUP,)))
        found += check.enum(path / "kind", get_string(reference, "kind"), self.roles)
        name = get_string(reference, "name")
        found += check.path_segment(path / "name", name) if name else [required(path / "name")]
        for index, subject in enumerate(get_list(obj, "subjects")):
            found += self._subject(Path("subjects").at(index), subject)
        return found

    def _subject(self, path: Path, subject: Object) -> list[FieldError]:
        kind, name, group = get_string(subject, "kind"), get_string(subject, "name"), get_string(subject, "apiGroup")
        found = [] if name else [required(path / "name")]
        if kind == "ServiceAccount":
            found += check.dns_subdomain(path / "name", name) if name else []
            if group:
                found.append(not_supported(path / "apiGroup", group, ("",)))
            if not self.namespaced and not subject.get("namespace"):
                found.append(required(path / "namespace"))
        elif kind in ("User", "Group"):
            if group != _GROUP:
                found.append(not_supported(path / "apiGroup", group, (_GROUP,)))
        else:
            found.append(not_supported(path / "kind", kind, ("ServiceAccount", "User", "Group")))
        return found

    def changes(self, obj: Object, old: Object) -> list[FieldError]:
        if obj.get("roleRef") == old.get("roleRef"):
            return []
        reference = get_object(obj, "roleRef")
        names = (("APIGroup", "apiGroup"), ("Kind", "kind"), ("Name", "name"))
        shown = {name: get_string(reference, field) for name, field in names}
        return [field_invalid("roleRef", shown, "cannot change roleRef")]


class ClusterRoleBinding(RoleBinding):
    """The rules of ClusterRoleBinding objects."""

    namespaced = False
    roles = ("ClusterRole",)


STRATEGIES = {
    (_GROUP, "v1", "Role"): Role(),
    (_GROUP, "v1", "ClusterRole"): ClusterRole(),
    (_GROUP, "v1", "RoleBinding"): RoleBinding(),
    (_GROUP, "v1", "ClusterRoleBinding"): ClusterRoleBinding(),
}
