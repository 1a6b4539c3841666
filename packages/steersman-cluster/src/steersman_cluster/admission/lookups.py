"""Cached lookups of the plug-ins: namespaces, classes, limits; a write of the object invalidates them.

The API server reports each committed change, which invalidates the cached objects; there are no timeouts.
"""

from __future__ import annotations

from steersman_cluster.json_access import get_object
from steersman_cluster.objects import Object, annotations_of, meta, name_of
from steersman_cluster.strategy import Reader

__all__ = ["Lookups"]

_DEFAULT_CLASS = {
    "storageclasses": (
        "storageclass.kubernetes.io/is-default-class",
        "storageclass.beta.kubernetes.io/is-default-class",
    ),
    "ingressclasses": ("ingressclass.kubernetes.io/is-default-class",),
}
_WATCHED = {
    *("namespaces", "priorityclasses", "storageclasses", "ingressclasses"),
    *("limitranges", "resourcequotas", "serviceaccounts"),
}


class Lookups:
    """Remembered reads. The objects are shared: they must not be changed."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self._objects: dict[tuple[str, str, str], Object] = {}
        self._priorities: dict[str, Object] | None = None
        self._defaults: dict[str, str] = {}
        self._limits: dict[str, list[Object]] = {}
        self._quotas: dict[str, list[Object]] = {}

    def changed(self, resource: str, namespace: str, name: str) -> None:
        """An object was written or deleted."""
        if resource not in _WATCHED:
            return
        match resource:
            case "priorityclasses":
                self._priorities = None
            case "limitranges":
                self._limits.pop(namespace, None)
            case "resourcequotas":
                self._quotas.pop(namespace, None)
            case "namespaces" | "serviceaccounts":
                self._objects.pop((resource, namespace, name), None)
            case _:
                self._defaults.pop(resource, None)

    def namespace(self, name: str) -> Object | None:
        """Return the cached Namespace, or `None`."""
        return self._get("namespaces", "", name)

    def service_account(self, namespace: str, name: str) -> Object | None:
        """Return the cached ServiceAccount, or `None`."""
        return self._get("serviceaccounts", namespace, name)

    def priority_class(self, name: str) -> Object | None:
        """Return the PriorityClass by its name, or `None`."""
        return self._priority_classes().get(name)

    def default_priority_class(self) -> Object | None:
        """Return the PriorityClass with `globalDefault`; of several the one with the lowest value."""
        found = [item for item in self._priority_classes().values() if item.get("globalDefault")]
        return min(found, key=lambda item: item.get("value") or 0) if found else None

    def default_class(self, group: str, resource: str) -> str:
        """The name of the class that is marked as default, of several the newest; empty where there is none."""
        known = self._defaults.get(resource)
        if known is None:
            marks = _DEFAULT_CLASS[resource]
            found = [
                item
                for item in self.reader.list(group, resource)
                if any(annotations_of(item).get(mark) == "true" for mark in marks)
            ]
            # The newest first, of equally old ones by name.
            found.sort(key=name_of)
            found.sort(key=lambda item: meta(item).get("creationTimestamp") or "", reverse=True)
            known = self._defaults[resource] = name_of(found[0]) if found else ""
        return known

    def limit_ranges(self, namespace: str) -> list[Object]:
        """The LimitRanges of a namespace, by name."""
        known = self._limits.get(namespace)
        if known is None:
            known = self._limits[namespace] = sorted(self.reader.list("", "limitranges", namespace), key=name_of)
        return known

    def quotas(self, namespace: str) -> list[Object]:
        """The ResourceQuotas of a namespace, by name."""
        known = self._quotas.get(namespace)
        if known is None:
            known = self._quotas[namespace] = sorted(self.reader.list("", "resourcequotas", namespace), key=name_of)
        return known

    def namespace_labels(self, name: str) -> dict[str, str] | None:
        """The labels of a Namespace; `None` where it does not exist."""
        found = self.namespace(name)
        return None if found is None else get_object(meta(found), "labels")

    def _get(self, resource: str, namespace: str, name: str) -> Object | None:
        key = (resource, namespace, name)
        known = self._objects.get(key)
        if known is None:
            known = self.reader.get("", resource, namespace, name)
            if known is None:
                return None
            self._objects[key] = known
        return known

    def _priority_classes(self) -> dict[str, Object]:
        if self._priorities is None:
            self._priorities = {
                name_of(item): item for item in self.reader.list("scheduling.k8s.io", "priorityclasses")
            }
        return self._priorities
