"""A store in memory that reads as the API server's does, and tells `Auth` of changes."""

import copy
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest

from steersman_cluster.auth import Auth, bootstrap_objects
from steersman_cluster.strategy import User, WriteContext

Object = dict[str, Any]
NOW = "2026-01-01T00:00:00Z"
RBAC = "rbac.authorization.k8s.io"


class Store:
    """Objects by group, resource, namespace and name."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str, str], Object] = {}
        self.auth: Auth | None = None

    def get(self, group: str, resource: str, namespace: str, name: str) -> Object | None:
        return copy.deepcopy(self.objects.get((group, resource, namespace, name)))

    def list(self, group: str, resource: str, namespace: str = "") -> Iterable[Object]:
        return [
            copy.deepcopy(item)
            for key, item in self.objects.items()
            if key[:2] == (group, resource) and (not namespace or key[2] == namespace)
        ]

    def put(self, group: str, resource: str, obj: Object) -> Object:
        metadata = obj["metadata"]
        key = (group, resource, metadata.get("namespace", ""), metadata["name"])
        metadata.setdefault("uid", f"uid-{len(self.objects)}")
        self.objects[key] = obj
        self._tell(*key)
        return obj

    def delete(self, group: str, resource: str, namespace: str, name: str) -> None:
        del self.objects[group, resource, namespace, name]
        self._tell(group, resource, namespace, name)

    def role(self, name: str, *rules: Object, namespace: str = "") -> None:
        resource = "roles" if namespace else "clusterroles"
        metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
        self.put(RBAC, resource, {"metadata": metadata, "rules": list(rules)})

    def bind(self, name: str, role: str, *subjects: Object, namespace: str = "", kind: str = "") -> None:
        resource = "rolebindings" if namespace else "clusterrolebindings"
        metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
        reference = {"kind": kind or ("Role" if namespace else "ClusterRole"), "name": role, "apiGroup": RBAC}
        self.put(RBAC, resource, {"metadata": metadata, "roleRef": reference, "subjects": list(subjects)})

    def account(self, name: str, namespace: str = "default") -> Object:
        return self.put("", "serviceaccounts", {"metadata": {"name": name, "namespace": namespace}})

    def _tell(self, group: str, resource: str, namespace: str, name: str) -> None:
        if self.auth is not None:
            self.auth.changed(group, resource, namespace, name)


@dataclass
class Clock:
    seconds: float = 1_800_000_000.0

    def __call__(self) -> float:
        return self.seconds


@dataclass
class Call:
    """A request to a handler."""

    context: WriteContext
    user: User
    body: Object | None = None
    namespace: str = ""
    name: str = ""
    more: Object = field(default_factory=dict)


def user(name: str, *groups: str) -> User:
    return User(name, groups=(*groups, "system:authenticated"))


def subject(name: str) -> Object:
    return {"kind": "User", "apiGroup": RBAC, "name": name}


def rule(verbs: str, resources: str, group: str = "", names: str = "") -> Object:
    made: Object = {"verbs": verbs.split(), "apiGroups": [group], "resources": resources.split()}
    return {**made, "resourceNames": names.split()} if names else made


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def auth(store: Store, clock: Clock) -> Auth:
    """Authorisation over the store, without any role."""
    store.auth = Auth(store, now=clock)
    return store.auth


@pytest.fixture
def fresh(store: Store, auth: Auth) -> Auth:
    """Authorisation as in a fresh cluster."""
    for item in bootstrap_objects(NOW):
        store.put(item.group, item.resource, item.object)
    return auth
