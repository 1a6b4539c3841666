"""Role-based access control: the permissions of users, from the stored roles and bindings.

The index is read once and then follows the writes of roles and bindings. Decisions are cached per user, namespace and
resource until a relevant role or binding changes, so that a common request costs one lookup. There are no timeouts: a
write takes effect when its event is delivered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from steersman_cluster.auth.attributes import Attributes, forbidden_error
from steersman_cluster.auth.rules import allows, allows_resource
from steersman_cluster.errors import APIError
from steersman_cluster.json_access import get_object, get_objects
from steersman_cluster.objects import Object, dig, name_of, namespace_of
from steersman_cluster.strategy import Reader, User

__all__ = ["GROUP", "MASTERS", "Authorizer"]

GROUP = "rbac.authorization.k8s.io"
MASTERS = "system:masters"
"""The group with all permissions."""

_ROLES = ("roles", "clusterroles")
_BINDINGS = ("rolebindings", "clusterrolebindings")
_MAX_CACHED_DECISIONS = 20_000


@dataclass(frozen=True, slots=True)
class _Binding:
    """One subject of one binding."""

    name: str
    role_kind: str
    role: str
    shown: str
    position: int


@dataclass(slots=True)
class _Bindings:
    """The bindings of one namespace or of the cluster by subject, and the cached decisions that depend on each."""

    by_subject: dict[str, list[_Binding]] = field(default_factory=dict[str, list[_Binding]])
    subjects: dict[str, list[str]] = field(default_factory=dict[str, list[str]])

    def put(self, binding: Object, namespace: str) -> None:
        name = name_of(binding)
        self.drop(name)
        reference = get_object(binding, "roleRef")
        kind, role = reference.get("kind") or "", reference.get("name") or ""
        keys: list[str] = []
        for position, subject in enumerate(get_objects(binding, "subjects")):
            key, shown = _subject(subject, namespace)
            if key in keys or not key:
                continue
            keys.append(key)
            self.by_subject.setdefault(key, []).append(_Binding(name, kind, role, shown, position))
        if keys:
            self.subjects[name] = keys

    def drop(self, name: str) -> None:
        for key in self.subjects.pop(name, ()):
            kept = [binding for binding in self.by_subject[key] if binding.name != name]
            if kept:
                self.by_subject[key] = kept
            else:
                del self.by_subject[key]

    def of(self, user: User) -> list[_Binding]:
        """The bindings that apply to a user, by name; each once, with the first subject that applies."""
        found: dict[str, _Binding] = {}
        for key in (f"u:{user.name}", *(f"g:{group}" for group in user.groups)):
            for binding in self.by_subject.get(key, ()):
                known = found.get(binding.name)
                if known is None or binding.position < known.position:
                    found[binding.name] = binding
        return [found[name] for name in sorted(found)]


def _subject(subject: Object, namespace: str) -> tuple[str, str]:
    """Return the index key and the display name of a subject; nothing for a subject that matches no user."""
    name = subject.get("name") or ""
    match subject.get("kind"):
        case "User":
            return f"u:{name}", f'User "{name}"'
        case "Group":
            return f"g:{name}", f'Group "{name}"'
        case "ServiceAccount":
            home = subject.get("namespace") or namespace
            if home:
                return f"u:system:serviceaccount:{home}:{name}", f'ServiceAccount "{name}/{home}"'
        case _:
            pass
    return "", ""


@dataclass(frozen=True, slots=True)
class _Decision:
    """The permission for one verb on one resource: all names or some."""

    reason: str | None
    by_name: dict[str, str]
    refusal: str


class Authorizer:
    """Decides by RBAC, and by nothing else; members of `system:masters` may do everything.

    Tell it of every change of a role or binding by `changed`. Not thread-safe: it lives on the API server's loop.
    """

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._roles: dict[tuple[str, str], list[Object]] = {}
        self._cluster = _Bindings()
        self._namespaces: dict[str, _Bindings] = {}
        self._decisions: dict[str, dict[tuple[str, ...] | tuple[object, ...], _Decision]] = {}
        self._loaded = False

    def reload(self) -> None:
        """Forget everything; the next decision reads all roles and bindings."""
        self._loaded = False
        self._decisions.clear()

    def changed(self, resource: str, namespace: str, name: str) -> None:
        """A role or binding was written or deleted. Other resources are ignored; it is cheap for them."""
        if resource in _ROLES:
            if self._loaded:
                self._put_role(namespace, name, self._reader.get(GROUP, resource, namespace, name))
        elif resource in _BINDINGS:
            if self._loaded:
                self._put_binding(resource, namespace, name)
        else:
            return
        if namespace:
            self._decisions.pop(namespace, None)
        else:
            self._decisions.clear()

    def authorize(self, user: User, attributes: Attributes) -> tuple[bool, str]:
        """Return whether a user may do it, and the reason: which binding allows it, or which roles were not found."""
        if MASTERS in user.groups:
            return True, ""
        if not attributes.is_resource:
            return self._authorize_path(user, attributes)
        known = self._decisions.get(attributes.namespace)
        if known is None:
            known = self._decisions[attributes.namespace] = {}
        key = (
            user.name,
            user.groups,
            attributes.verb,
            attributes.group,
            attributes.resource,
            attributes.subresource,
        )
        decision = known.get(key)
        if decision is None:
            if len(known) >= _MAX_CACHED_DECISIONS:
                known.clear()
            decision = known[key] = self._decide(user, attributes)
        if decision.by_name and (reason := decision.by_name.get(attributes.name)) is not None:
            return True, reason
        if decision.reason is not None:
            return True, decision.reason
        return False, decision.refusal

    def check(self, user: User, attributes: Attributes) -> None:
        """Raise the 403 that the API server answers with, where a user may not do it."""
        allowed, reason = self.authorize(user, attributes)
        if not allowed:
            raise forbidden_error(user, attributes, reason)

    def rules_for(self, user: User, namespace: str) -> tuple[list[Object], list[str]]:
        """All rules that apply to a user in a namespace (`""`: the cluster's only), and the roles not found."""
        errors: list[str] = []
        return [rule for _, rule in self._visit(user, namespace, errors)], errors

    def role_rules(self, reference: Object, namespace: str) -> list[Object]:
        """The rules of the role that a binding in `namespace` refers to. Raises not found where there is none."""
        kind, name = reference.get("kind") or "", reference.get("name") or ""
        found = self._role(kind, name, namespace)
        if found is None:
            raise _role_not_found(kind, name)
        return found

    def _authorize_path(self, user: User, attributes: Attributes) -> tuple[bool, str]:
        errors: list[str] = []
        for source, rule in self._visit(user, "", errors):
            if allows(rule, attributes):
                return True, source
        return False, _refusal(errors)

    def _decide(self, user: User, attributes: Attributes) -> _Decision:
        errors: list[str] = []
        by_name: dict[str, str] = {}
        wanted = (attributes.verb, attributes.group, attributes.resource, attributes.subresource)
        for source, rule in self._visit(user, attributes.namespace, errors):
            if not allows_resource(rule, *wanted):
                continue
            names = rule.get("resourceNames")
            if not names:
                return _Decision(source, by_name, "")
            for name in names:
                by_name.setdefault(name, source)
        return _Decision(None, by_name, _refusal(errors))

    def _visit(self, user: User, namespace: str, errors: list[str]) -> Iterator[tuple[str, Object]]:
        self._load()
        for binding in self._cluster.of(user):
            source = f'RBAC: allowed by ClusterRoleBinding "{binding.name}"'
            yield from self._rules_of(binding, source, "", errors)
        if namespace and (bindings := self._namespaces.get(namespace)) is not None:
            for binding in bindings.of(user):
                source = f'RBAC: allowed by RoleBinding "{binding.name}/{namespace}"'
                yield from self._rules_of(binding, source, namespace, errors)

    def _rules_of(
        self, binding: _Binding, source: str, namespace: str, errors: list[str]
    ) -> Iterator[tuple[str, Object]]:
        found = self._role(binding.role_kind, binding.role, namespace)
        if found is None:
            errors.append(_role_not_found(binding.role_kind, binding.role).message)
            return
        reason = f'{source} of {binding.role_kind} "{binding.role}" to {binding.shown}'
        for rule in found:
            yield reason, rule

    def _role(self, kind: str, name: str, namespace: str) -> list[Object] | None:
        self._load()
        if kind == "ClusterRole":
            return self._roles.get(("", name))
        return self._roles.get((namespace, name)) if kind == "Role" and namespace else None

    def _load(self) -> None:
        if self._loaded:
            return
        self._loaded = True
        self._roles, self._cluster, self._namespaces = {}, _Bindings(), {}
        for resource in _ROLES:
            for role in self._reader.list(GROUP, resource):
                self._put_role(namespace_of(role), name_of(role), role)
        for binding in self._reader.list(GROUP, "clusterrolebindings"):
            self._cluster.put(binding, "")
        for binding in self._reader.list(GROUP, "rolebindings"):
            namespace = namespace_of(binding)
            self._namespaces.setdefault(namespace, _Bindings()).put(binding, namespace)

    def _put_role(self, namespace: str, name: str, role: Object | None) -> None:
        if role is None:
            self._roles.pop((namespace, name), None)
        else:
            self._roles[namespace, name] = dig(role, "rules", default=[])

    def _put_binding(self, resource: str, namespace: str, name: str) -> None:
        binding = self._reader.get(GROUP, resource, namespace, name)
        home = self._cluster if not namespace else self._namespaces.setdefault(namespace, _Bindings())
        if binding is None:
            home.drop(name)
        else:
            home.put(binding, namespace)
        if namespace and not home.subjects:
            del self._namespaces[namespace]


def _role_not_found(kind: str, name: str) -> APIError:
    # Singular, as the lister of the real one has it.
    resource = f"{kind.lower() or 'role'}.{GROUP}"
    details: Object = {"name": name, "group": GROUP, "kind": kind.lower()}
    return APIError(404, "NotFound", f'{resource} "{name}" not found', details)


def _refusal(errors: Iterable[str]) -> str:
    texts = list(dict.fromkeys(errors))
    if not texts:
        return ""
    joined = ", ".join(texts)
    return f"RBAC: {joined}" if len(texts) == 1 else f"RBAC: [{joined}]"
