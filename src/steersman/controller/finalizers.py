"""Finalizers: cleanup that the garbage collector cannot do (A5).

Finalizers run in a fixed order, and each one takes as many reconciles as it needs.

A finalizer is written in a reconcile of its own before the first side effect, so it covers everything that later
reconciles create. It is removed by a JSON patch that tests the removed value. The object's list of finalizers is the
only state. A crash repeats at most the current cleanup, which must be idempotent.
"""

from __future__ import annotations

import enum
import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from steersman.client.errors import Conflict, Invalid, NotFound
from steersman.controller.request import RequeueError, Result
from steersman.controller.status import PatchClient
from steersman.models import HasMetadata, Resource, info_of
from steersman.models.patches import JsonPatch, pointer
from steersman.models.resource import view_of_object

__all__ = ["Finalizer", "FinalizerOutcome", "FinalizerState", "add_finalizers", "remove_finalizer", "run_finalizers"]

T = TypeVar("T")
_LIST = pointer("metadata", "finalizers")


class Finalizer(msgspec.Struct, Generic[T], frozen=True):
    """A finalizer's name, such as `apps.example.com/bucket`, and its cleanup.

    `cleanup` returns `None` when it is complete. It returns `Result(requeue_after=…)` or raises `RequeueError` to be
    called again. It may run any number of times.
    """

    name: str
    cleanup: Callable[[T], Awaitable[Result | None] | Result | None]

    def __post_init__(self) -> None:
        domain, slash, path = self.name.partition("/")
        if not (slash and path and "." in domain):
            raise ValueError(f"finalizer {self.name!r}: use a qualified name such as 'apps.example.com/cleanup'")


class FinalizerState(enum.Enum):
    """The outcome of `run_finalizers`."""

    READY = "ready"
    """All finalizers are set and the object is not being deleted: reconcile it."""
    ADDED = "added"
    """Finalizers were added: end this reconcile, another one follows."""
    PENDING = "pending"
    """The object is being deleted and the cleanup is not complete: end this reconcile and run again."""
    DONE = "done"
    """The object is being deleted and all cleanups are complete: nothing to do."""


class FinalizerOutcome(msgspec.Struct, frozen=True):
    """The state, and the seconds until the next run."""

    state: FinalizerState
    requeue_after: float | None = None


async def run_finalizers(
    client: PatchClient, obj: Any, finalizers: Sequence[Finalizer[Any]], *, field_manager: str | None = None
) -> FinalizerOutcome:
    """Add missing finalizers, or run the cleanups of an object that is being deleted.

    Call this first in each reconcile of a kind with finalizers. Cleanups run in the order of `finalizers`, each after
    the previous ones are complete. An exception of a cleanup is raised, and its finalizer stays.
    """
    metadata = obj.metadata
    present: tuple[str, ...] = metadata.finalizers
    if metadata.deletion_timestamp is None:
        missing = [f.name for f in finalizers if f.name not in present]
        if not missing:
            return FinalizerOutcome(FinalizerState.READY)
        await add_finalizers(client, obj, missing, field_manager=field_manager)
        return FinalizerOutcome(FinalizerState.ADDED)
    for finalizer in finalizers:
        if finalizer.name not in present:
            continue
        answer = finalizer.cleanup(obj)
        result = await answer if inspect.isawaitable(answer) else answer
        if result is not None and result.requeue_after is not None:
            return FinalizerOutcome(FinalizerState.PENDING, result.requeue_after)
        present = await remove_finalizer(client, obj, finalizer.name, present=present, field_manager=field_manager)
    return FinalizerOutcome(FinalizerState.DONE)


async def add_finalizers(
    client: PatchClient, obj: Resource, names: Sequence[str], *, field_manager: str | None = None
) -> None:
    """Add finalizers to an object in one request; an object that is being deleted stays unchanged.

    Raises:
        RequeueError: The object has changed since it was read; the patch tests uid and resourceVersion.
    """
    metadata = obj.metadata
    if metadata.deletion_timestamp is not None or not names:
        return
    patch = JsonPatch().test(pointer("metadata", "uid"), metadata.uid)
    patch = patch.test(pointer("metadata", "resourceVersion"), metadata.resource_version)
    patch = patch.add(_LIST, [*metadata.finalizers, *names])
    await _patch(client, obj, patch, field_manager)


async def remove_finalizer(
    client: PatchClient,
    obj: HasMetadata,
    name: str,
    *,
    present: Sequence[str] | None = None,
    field_manager: str | None = None,
) -> tuple[str, ...]:
    """Remove a finalizer if it is set, and return the remaining ones.

    Args:
        client: Sends the patch.
        obj: The object as it was read.
        name: The finalizer.
        present: The current finalizers, if they differ from those of `obj`.
        field_manager: The field manager of the patch.

    Raises:
        RequeueError: The object has changed since it was read; the patch tests the uid and the removed value.
    """
    finalizers = tuple(obj.metadata.finalizers if present is None else present)
    if name not in finalizers:
        return finalizers
    index = finalizers.index(name)
    entry = pointer("metadata", "finalizers", index)
    patch = JsonPatch().test(pointer("metadata", "uid"), obj.metadata.uid).test(entry, name).remove(entry)
    await _patch(client, obj, patch, field_manager)
    return finalizers[:index] + finalizers[index + 1 :]


async def _patch(client: PatchClient, obj: Any, patch: JsonPatch, field_manager: str | None) -> None:
    info, metadata = info_of(obj), obj.metadata
    try:
        await client.patch(
            view_of_object(obj),
            metadata.name,
            patch,
            namespace=metadata.namespace,
            want="metadata",
            field_manager=field_manager,
        )
    except NotFound:
        return  # the object is deleted
    except (Invalid, Conflict) as problem:
        # A failed test of a JSON patch is a 422 without causes; validation errors name fields.
        if isinstance(problem, Conflict) or _is_failed_test(problem):
            raise RequeueError(f"{info.kind} {metadata.name} has changed since it was read") from problem
        raise


def _is_failed_test(problem: Invalid) -> bool:
    return not any(cause.field for cause in problem.causes)
