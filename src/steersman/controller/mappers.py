"""Mappers: return the keys to reconcile when an object changes.

A mapper runs in the call that processes the watch event. It is synchronous and may read the cache but do no I/O. It is
called with the old and the new state of each change; a key that both return is reconciled once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from steersman.controller.protocols import Entry
from steersman.models import Key, View, info_of

__all__ = [
    "MapTo",
    "Mapper",
    "MapperLike",
    "mapper",
    "to_annotation",
    "to_controller",
    "to_label",
    "to_owner",
    "to_self",
]

Mapper: TypeAlias = Callable[[Entry], Iterable[Key]]
"""Returns the keys to reconcile for one state of an object."""


class MapTo:
    """A mapper of this module, which receives entries; a user's function receives the typed object."""

    __slots__ = ("_name", "_run")

    def __init__(self, name: str, run: Mapper) -> None:
        self._name = name
        self._run = run

    def __call__(self, entry: Entry) -> Iterable[Key]:
        """Return the keys to reconcile for one state of an object."""
        return self._run(entry)

    def __repr__(self) -> str:
        return self._name


MapperLike: TypeAlias = MapTo | Callable[..., "Iterable[Key] | Key | None"]
"""A mapper of this module, or a function of the typed object that returns a key, keys or `None`."""

to_self = MapTo("to_self", lambda entry: (entry.key,))
"""Maps to the object itself."""


def to_owner(kind: Any, *, controller: bool = False) -> MapTo:
    """Map to the owners of `kind`, compared by API group and kind, so that all versions match (A4).

    Owners are in the namespace of the object or cluster-scoped. A key has no uid; the reconcile reads the owner and
    checks it.
    """
    info = info_of(kind)
    group, name, namespaced = info.group, info.kind, info.namespaced

    def run(entry: Entry) -> Iterable[Key]:
        for owner in entry.owners:
            same = owner.kind == name and owner.api_version.rpartition("/")[0] == group
            if same and (owner.controller or not controller):
                yield Key(entry.key.namespace if namespaced else "", owner.name)

    return MapTo(f"{'to_controller' if controller else 'to_owner'}({name})", run)


def to_controller(kind: Any) -> MapTo:
    """Map to the controlling owner if it is of `kind`."""
    return to_owner(kind, controller=True)


def _named_by(what: str, field: str, namespace: str | None) -> MapTo:
    def run(entry: Entry) -> Iterable[Key]:
        metadata = entry.metadata()
        value = (metadata.labels if what == "label" else metadata.annotations).get(field)
        if value:
            yield _key(value, entry.key.namespace if namespace is None else namespace)

    return MapTo(f"to_{what}({field!r})", run)


def _key(value: str, namespace: str) -> Key:
    explicit, slash, name = value.rpartition("/")
    return Key(explicit, name) if slash else Key(namespace, name)


def to_label(label: str, *, namespace: str | None = None) -> MapTo:
    """Map to the object that a label names, in the same namespace or in `namespace` (`""` if cluster-scoped)."""
    return _named_by("label", label, namespace)


def to_annotation(annotation: str, *, namespace: str | None = None) -> MapTo:
    """Map to the object that an annotation names, as `name` or `namespace/name`."""
    return _named_by("annotation", annotation, namespace)


def mapper(to: MapperLike, view: View[Any] | None) -> Mapper:
    """Return a `Mapper` for a mapper or a function, which receives objects in `view`.

    Raises:
        TypeError: `to` is neither, or a function without a view.
    """
    if isinstance(to, MapTo):
        return to
    if not callable(to):
        raise TypeError(f"{to!r} is not a mapper: pass to_self, to_owner(Kind), … or a function of the object")
    if view is None:
        raise TypeError(f"mapper {to!r} takes an object: its source needs a view to decode one")
    function, typed = to, view

    def run(entry: Entry) -> Iterable[Key]:
        found = function(entry.object(typed))
        if found is None:
            return ()
        return (found,) if isinstance(found, Key) else found

    return run
