"""`CacheReader`: the reads from the cache that one controller declares, and the indexes of labels.

The first list by an exact label declares an index of that label, so that the cost of later lists grows with the number
of matches and not with the number of objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias, TypeVar

from steersman.cache import Cache, NotCachedError
from steersman.models import (
    ALL_NAMESPACES,
    GVK,
    Key,
    LabelSelector,
    PartialObjectMetadata,
    Selector,
    View,
    metadata_of,
    parse_labels,
)
from steersman.models.selectors import from_label_selector, from_labels

__all__ = ["READ_BARRIER_SECONDS", "CacheReader", "LabelIndexes", "Labels"]

T = TypeVar("T")

Labels: TypeAlias = Mapping[str, str] | str | Selector | LabelSelector
"""Exact labels, the text of a selector (`app=web,tier in (a,b)`), a parsed selector, or a `LabelSelector`."""

READ_BARRIER_SECONDS: Final = 5.0
"""The longest wait of a read for an own write."""

_COMMON_LABELS: Final = frozenset(
    f"app.kubernetes.io/{name}" for name in ("managed-by", "part-of", "component", "name", "version")
)
"""Labels that many objects share; an index of them is used only if the selector has no other label."""


class LabelIndexes:
    """Indexes of single labels of one cache, declared at their first use."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._functions: dict[str, Callable[[PartialObjectMetadata], str]] = {}

    def best(self, view: View[Any], selector: Selector) -> tuple[str, str] | None:
        """Return the most selective index and value for `selector`; `None` if it has no exact label."""
        exact = [(r.key, value) for r in selector if (value := selector.exact(r.key))]
        if not exact:
            return None
        label, value = min(exact, key=lambda pair: pair[0] in _COMMON_LABELS)
        return self._index(view, label), value

    def _index(self, view: View[Any], label: str) -> str:
        name = f"label {label}"
        function = self._functions.get(name)
        if function is None:
            function = self._functions[name] = lambda obj: obj.metadata.labels.get(label, "")
        for informer in self._cache.informers:
            if informer.info.gvk == view.info.gvk and not informer.has_index(name):
                informer.declare_index(name, function, metadata_of(view))
        return name


class CacheReader:
    """The reads of one controller: kinds that it declares, whose sync it awaits (C3, C6).

    The reconciled kind is one of them only if it is listed in `reads`. A reconcile receives its object, and only a
    controller that reads other objects of its kind has to wait for the status writes of its other workers (C2).

    Args:
        cache: The cache.
        indexes: The indexes of labels of the cache.
        views: The declared kinds.
        user: The name of the controller, timer, hook or webhook in errors.
    """

    def __init__(self, cache: Cache, indexes: LabelIndexes, views: Iterable[View[Any]], user: str) -> None:
        self._cache = cache
        self._indexes = indexes
        self.user = user
        self.views = tuple(views)
        self._kinds: frozenset[GVK] = frozenset(v.info.gvk for v in self.views)
        self._whole: frozenset[GVK] = frozenset(v.info.gvk for v in self.views if v.form != "metadata")

    def get(self, view: View[T], key: Key) -> T | None:
        """Return an object or `None`; see `Context.get`."""
        self._check(view)
        try:
            return self._cache.get(view, key)
        except NotCachedError:
            raise self._outside_namespaces(key.namespace) from None

    def list(
        self,
        view: View[T],
        namespace: str,
        labels: Labels | None,
        owner: str | None,
        index: tuple[str, str] | None = None,
    ) -> tuple[T, ...]:
        """Return objects; see `Context.list`. An empty `namespace` means all namespaces of the operator."""
        self._check(view, "owns" if owner is not None else "reads")
        selector = selector_of(labels)
        if index is None and owner is None and selector is not None:
            index = self._indexes.best(view, selector)
        try:
            return self._cache.list(
                view, namespace=namespace or ALL_NAMESPACES, labels=selector, owner=owner, index=index
            )
        except NotCachedError:
            if not namespace:  # No namespace matches the operator's selector now.
                return ()
            raise self._outside_namespaces(namespace) from None

    def _outside_namespaces(self, namespace: str) -> NotCachedError:
        return NotCachedError(
            f"{self.user} does not work in namespace {namespace!r}: add it to the operator's namespaces, or read from"
            " the API server with `await ctx.fetch(…)`"
        )

    def _check(self, view: View[Any], argument: str = "reads") -> None:
        if view.info.gvk not in self._kinds:
            raise NotCachedError(
                f"{self.user} does not declare that it {argument} {view.info.kind}: add it to"
                f" {argument}=[{view.info.kind}], or read it from the API server with `await ctx.fetch(…)`"
            )
        if view.form != "metadata" and view.info.gvk not in self._whole:
            raise NotCachedError(
                f"{self.user} declares that it reads only the metadata of {view.info.kind}: add {view.info.kind} to"
                " reads=[…], look at metadata_of(…), or read it from the API server with `await ctx.fetch(…)`"
            )

    async def wait_for_own_writes(self) -> None:
        """Wait until reads of these kinds include every finished write of this process (C2)."""
        for view in self.views:
            if self._cache.outstanding(view):
                await self._cache.read_barrier(view, timeout=READ_BARRIER_SECONDS)


def selector_of(labels: Labels | None) -> Selector | None:
    """Return the parsed selector; `None` selects everything.

    Raises:
        SelectorError: The text is not a selector.
    """
    if not labels:
        return None
    if isinstance(labels, str):
        return parse_labels(labels)
    if isinstance(labels, Selector):
        return labels
    if isinstance(labels, LabelSelector):
        return from_label_selector(labels)
    return from_labels(labels)
