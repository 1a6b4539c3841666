"""What one controller may read from the cache, and how a list by labels avoids a scan.

The first list by an exact label declares an index of that label, so that every later one costs as much as it finds:
a reconcile that lists its own Pods must not become slower with everybody else's.
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

__all__ = ["BARRIER", "LabelIndexes", "Labels", "Reach"]

T = TypeVar("T")

Labels: TypeAlias = Mapping[str, str] | str | Selector | LabelSelector
"""Exact pairs, a selector's text (`app=web,tier in (a,b)`), a parsed one, or an object's `LabelSelector`."""

BARRIER: Final = 5.0
"""Seconds that a read waits at most for the echo of an own write."""

_TELL_LITTLE: Final = frozenset(
    f"app.kubernetes.io/{name}" for name in ("managed-by", "part-of", "component", "name", "version")
)
"""Labels that many objects share; indexed only where there is no better one."""


class LabelIndexes:
    """Indexes of single labels, declared when they are first wanted; one of these per cache."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._functions: dict[str, Callable[[PartialObjectMetadata], str]] = {}

    def best(self, view: View[Any], selector: Selector) -> tuple[str, str] | None:
        """The index and value that narrow a list by `selector` most; `None` where no label is given exactly."""
        exact = [(r.key, value) for r in selector if (value := selector.exact(r.key))]
        if not exact:
            return None
        label, value = min(exact, key=lambda pair: pair[0] in _TELL_LITTLE)
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


class Reach:
    """Which kinds one controller may read from the cache: those it declares, whose sync it awaits (C3, C6).

    The kind that it reconciles is not among them unless it says so: each reconcile is given its object, and only who
    reads others of its kind need wait for the status writes of all other workers (C2).
    """

    def __init__(self, cache: Cache, indexes: LabelIndexes, views: Iterable[View[Any]], whose: str) -> None:
        self._cache = cache
        self._indexes = indexes
        self.whose = whose
        self.views = tuple(views)
        self._kinds: frozenset[GVK] = frozenset(v.info.gvk for v in self.views)
        self._whole: frozenset[GVK] = frozenset(v.info.gvk for v in self.views if v.form != "metadata")

    def get(self, view: View[T], key: Key) -> T | None:
        """See `Context.get`."""
        self._check(view)
        try:
            return self._cache.get(view, key)
        except NotCachedError:
            raise self._elsewhere(key.namespace) from None

    def list(
        self,
        view: View[T],
        namespace: str,
        labels: Labels | None,
        owner: str | None,
        index: tuple[str, str] | None = None,
    ) -> tuple[T, ...]:
        """See `Context.list`; an empty `namespace` means all."""
        self._check(view, "owns" if owner is not None else "reads")
        selector = selector_of(labels)
        if index is None and owner is None and selector is not None:
            index = self._indexes.best(view, selector)
        try:
            return self._cache.list(
                view, namespace=namespace or ALL_NAMESPACES, labels=selector, owner=owner, index=index
            )
        except NotCachedError:
            if not namespace:  # no namespace matches the operator's selector at the moment
                return ()
            raise self._elsewhere(namespace) from None

    def _elsewhere(self, namespace: str) -> NotCachedError:
        return NotCachedError(
            f"{self.whose} does not work in namespace {namespace!r}: add it to the operator's namespaces, or read from"
            " the API server with `await ctx.fetch(…)`"
        )

    def _check(self, view: View[Any], word: str = "reads") -> None:
        if view.info.gvk not in self._kinds:
            raise NotCachedError(
                f"{self.whose} does not declare that it {word} {view.info.kind}: add it to"
                f" {word}=[{view.info.kind}], or read it from the API server with `await ctx.fetch(…)`"
            )
        if view.form != "metadata" and view.info.gvk not in self._whole:
            raise NotCachedError(
                f"{self.whose} declares that it reads only the metadata of {view.info.kind}: add {view.info.kind} to"
                " reads=[…], look at metadata_of(…), or read it from the API server with `await ctx.fetch(…)`"
            )

    async def settled(self) -> None:
        """Wait until reads of these kinds are no older than any write of ours that has ended (C2)."""
        for view in self.views:
            if self._cache.outstanding(view):
                await self._cache.read_barrier(view, timeout=BARRIER)


def selector_of(labels: Labels | None) -> Selector | None:
    """What `labels` mean; `None` for everything. Raises `SelectorError` for what is no selector."""
    if not labels:
        return None
    if isinstance(labels, str):
        return parse_labels(labels)
    if isinstance(labels, Selector):
        return labels
    if isinstance(labels, LabelSelector):
        return from_label_selector(labels)
    return from_labels(labels)
