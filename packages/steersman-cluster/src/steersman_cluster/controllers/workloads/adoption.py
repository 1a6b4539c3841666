"""Adoption and release: a workload controls the objects that its selector matches.

Orphans that match the selector are adopted, and controlled objects that no longer match are released. Both are patches
with the uid, so that a new object of the same name is never changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from steersman.client import Conflict, Invalid, NotFound
from steersman.controller import controller_of, owner_reference
from steersman.controller.ownership import wire_reference
from steersman.models import Key, LabelSelector, MergePatch, Selector, key_of
from steersman.models.selectors import NOTHING, from_label_selector
from steersman.operator import Context, Watch
from steersman_cluster.controllers.pods import ORPHANS

__all__ = ["claimed", "selector_of", "watch_orphans"]

T = TypeVar("T")


def selector_of(owner: Any) -> Selector:
    """Return the selector of the owner; an empty or missing one selects nothing."""
    selector: LabelSelector | None = owner.spec.selector
    if selector is None or not (selector.match_labels or selector.match_expressions):
        return NOTHING
    return from_label_selector(selector)


async def claimed(
    ctx: Context,
    owner: Any,
    kind: type[T],
    *,
    accepts: Callable[[T], bool] = lambda _: True,
    selector: Selector | None = None,
) -> tuple[T, ...]:
    """Return the objects of `kind` that `owner` controls, after adopting and releasing.

    The cost is proportional to the result and the orphans of the namespace. A terminating owner adopts nothing.

    Args:
        ctx: The context of the reconcile.
        owner: The controlling object.
        kind: The kind of the controlled objects.
        accepts: Whether an orphan with matching labels is adopted.
        selector: The selector; that of the owner by default.
    """
    selector = selector_of(owner) if selector is None else selector
    mine: list[T] = []
    for obj in ctx.list(kind, owned=True):
        found: Any = obj
        reference = controller_of(found)
        if reference is None or reference.uid != owner.metadata.uid:
            continue
        if selector.matches(found.metadata.labels):
            mine.append(obj)
        elif owner.metadata.deletion_timestamp is None:
            await _release(ctx, owner, found)
    if owner.metadata.deletion_timestamp is None:
        for obj in ctx.list(kind, index=(ORPHANS, owner.metadata.namespace)):
            candidate: Any = obj
            fits = candidate.metadata.deletion_timestamp is None and selector.matches(candidate.metadata.labels)
            if fits and accepts(obj) and (adopted := await _adopt(ctx, owner, candidate)) is not None:
                mine.append(adopted)
    return tuple(mine)


async def _adopt(ctx: Context, owner: Any, obj: Any) -> Any:
    references = [*map(wire_reference, obj.metadata.owner_references), wire_reference(owner_reference(owner))]
    return await _patch_owners(ctx, obj, references)


async def _release(ctx: Context, owner: Any, obj: Any) -> None:
    left = [wire_reference(o) for o in obj.metadata.owner_references if o.uid != owner.metadata.uid]
    await _patch_owners(ctx, obj, left)


async def _patch_owners(ctx: Context, obj: Any, references: list[Any]) -> Any:
    """Return the patched object; `None` after a conflict."""
    metadata = {
        "uid": obj.metadata.uid,
        "resourceVersion": obj.metadata.resource_version,
        "ownerReferences": references or None,
    }
    try:
        return await ctx.patch(obj, MergePatch({"metadata": metadata}))
    except (NotFound, Conflict, Invalid):
        return None


def watch_orphans(child: type[Any], owner: type[Any]) -> Watch:
    """Return a watch on objects without a controller; a change reconciles the owners that might adopt them.

    Args:
        child: The kind of the orphans.
        owner: The kind of the owners, with a selector.
    """
    return Watch(child, to=_to_matching(owner), where=_is_orphan)


def _is_orphan(obj: Any) -> bool:
    return controller_of(obj) is None


def _to_matching(kind: type[Any]) -> Callable[[Any, Context], Iterable[Key]]:
    """A mapper to the owners of `kind` that might adopt an orphan."""

    def to(obj: Any, ctx: Context) -> Iterable[Key]:
        if controller_of(obj) is not None or obj.metadata.deletion_timestamp is not None:
            return ()
        owners = ctx.list(kind, namespace=obj.metadata.namespace)
        return [key_of(owner) for owner in owners if selector_of(owner).matches(obj.metadata.labels)]

    return to
