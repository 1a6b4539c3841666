"""Serves custom resources by their CustomResourceDefinitions; a written definition takes effect at once."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from steersman_cluster import crd
from steersman_cluster.api.custom.resources import resource_types
from steersman_cluster.api.interfaces import ResourceType, Server
from steersman_cluster.objects import Object, dig, meta, name_of
from steersman_cluster.storage import Event, GroupResource
from steersman_cluster.strategy import User

__all__ = ["Definitions"]

_PLACE: Final = ("apiextensions.k8s.io", "customresourcedefinitions")
_SYSTEM: Final = User("system:apiserver", groups=("system:masters",))


class Definitions:
    """Follows the CustomResourceDefinitions of one API server."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._served: dict[str, list[ResourceType]] = {}

    def restore(self) -> None:
        """Serve the resources of the stored definitions."""
        for item in self._server.storage.items(_PLACE):
            self._serve(item.object())

    def changed(self, event: Event) -> None:
        """A definition was written or is gone."""
        definition = event.item.object()
        if event.type == "DELETED":
            self._serve_not(name_of(definition))
        group = dig(definition, "spec", "group")
        everything = [item.object() for item in self._server.storage.items(_PLACE)]
        now = self._server.context(_SYSTEM).now
        for other in everything:
            if dig(other, "spec", "group") != group:
                continue
            status = crd.accept(other, everything, now)
            if status is not None:
                # This write triggers the next call, until there is nothing left to write.
                self._server.storage.put(_PLACE, "", name_of(other), {**other, "status": status})
                break
        if event.type != "DELETED":
            current = self._server.storage.get(_PLACE, "", event.item.name)
            if current is not None and current.revision == event.item.revision:
                self._serve(definition)
                if self._is_ending(definition):
                    self._clean_up(definition)

    def _serve(self, definition: Object) -> None:
        """Serve the resources of a definition; watches of its previous version end, so that clients reconnect."""
        registry, name = self._server.registry, name_of(definition)
        served = self._served.get(name, [])
        changed = not served or _content(served[0].definition) != _content(definition)
        if not changed and not self._is_ending(definition):
            return
        found = resource_types(definition) if crd.established(definition) else []
        kept = {(t.group, t.version, t.plural) for t in found}
        for old in served:
            if (old.group, old.version, old.plural) not in kept:
                registry.unregister(old.group, old.version, old.plural)
        found = [_with_definition(new, definition) for new in found]
        for new in found:
            registry.register(new)
        self._served[name] = found
        if changed:
            self._end_watches(served)

    def _serve_not(self, name: str) -> None:
        served = self._served.pop(name, [])
        for old in served:
            self._server.registry.unregister(old.group, old.version, old.plural)
        self._end_watches(served)

    def _end_watches(self, served: list[ResourceType]) -> None:
        """End the watches of a definition's objects after they have sent their pending events."""
        if served:
            for watch in tuple(self._server.watches):
                if watch.stored_at == served[0].stored_at:
                    watch.end()

    # Deletion: a definition waits for its objects.

    def ending(self, definition: Object, now: str) -> None:
        """A definition begins to be deleted: its finalizer holds it until its objects are gone."""
        crd.deleting(definition, now)

    def _clean_up(self, definition: Object) -> None:
        """Delete the objects of a definition that ends, in one pass, and the definition with the last of them."""
        storage = self._server.storage
        names = dig(definition, "status", "acceptedNames", default={}) or definition["spec"]["names"]
        place = (str(definition["spec"]["group"]), str(names["plural"]))
        now = self._server.context(_SYSTEM).now
        for item in storage.items(place):
            obj = item.object()
            if not meta(obj).get("finalizers"):
                storage.delete(place, item.namespace, item.name)
            elif not meta(obj).get("deletionTimestamp"):
                meta(obj).update(deletionTimestamp=now, deletionGracePeriodSeconds=0)
                storage.put(place, item.namespace, item.name, obj)
        self._finish(place, name_of(definition))

    def _finish(self, place: GroupResource, name: str) -> None:
        """Remove the finalizer of a definition that ends when none of its objects is left."""
        storage = self._server.storage
        if storage.count(place):
            return
        current = storage.get(_PLACE, "", name)
        if current is None or not self._is_ending(current.object()):
            return
        last = current.object()
        before: list[str] = meta(last).get("finalizers") or []
        kept = [name for name in before if name != crd.FINALIZER]
        if kept:
            if len(kept) != len(before):
                meta(last)["finalizers"] = kept
                storage.put(_PLACE, "", name_of(last), last)
            return
        storage.delete(_PLACE, "", name_of(last))

    def gone(self, event: Event) -> None:
        """An object is gone; perhaps its definition waits for that."""
        for name, types in tuple(self._served.items()):
            if types and types[0].stored_at == event.resource:
                self._finish(event.resource, name)
                return

    def _is_ending(self, definition: Object) -> bool:
        return bool(meta(definition).get("deletionTimestamp")) and crd.FINALIZER in (
            meta(definition).get("finalizers") or ()
        )


def _content(definition: Object | None) -> tuple[object, object]:
    """Return the parts of a definition that determine the form of its objects."""
    return dig(definition, "spec"), dig(definition, "status", "acceptedNames")


def _with_definition(resource: ResourceType, definition: Object) -> ResourceType:
    return replace(resource, definition=definition, converts=crd.needs_webhook(definition))
