"""Finalizers: cleaning up what the garbage collector cannot, in fixed order, in as many passes as it takes (A5).

A finalizer is written before the first side effect and in a pass of its own, so that whatever a later pass creates is
already covered. It is removed by a JSON patch that tests what it removes. The only state is the object's own list of
finalizers: a crash between any two steps repeats at most the cleanup that was under way, which therefore must be
idempotent.
"""

from __future__ import annotations

import enum
import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeVar, cast

import msgspec

from steersman.client.errors import Conflict, Invalid, NotFound
from steersman.controller.request import RequeueError, Result
from steersman.controller.status import PatchClient
from steersman.models import HasMetadata, Resource, info_of
from steersman.models.patches import JsonPatch, pointer

__all__ = ["Finalizer", "FinalizerOutcome", "FinalizerState", "add_finalizers", "remove_finalizer", "run_finalizers"]

T = TypeVar("T")
_LIST = pointer("metadata", "finalizers")


class Finalizer(msgspec.Struct, Generic[T], frozen=True):
    """A name such as `apps.example.com/bucket`, and what to clean up before the object may go.

    `cleanup` returns None when everything is gone, or `Result(requeue_after=…)` (or raises `RequeueError`) when it must
    look again. It may run any number of times.
    """

    name: str
    cleanup: Callable[[T], Awaitable[Result | None] | Result | None]

    def __post_init__(self) -> None:
        domain, slash, path = self.name.partition("/")
        if not (slash and path and "." in domain):
            raise ValueError(f"finalizer {self.name!r}: use a qualified name such as 'apps.example.com/cleanup'")


class FinalizerState(enum.Enum):
    """What a pass over the finalizers came to."""

    READY = "ready"
    """All are in place and the object lives: reconcile it."""
    ADDED = "added"
    """They were written in this pass: end it, the next one reconciles."""
    PENDING = "pending"
    """The object is being deleted and cleanup goes on: end the pass, look again."""
    DONE = "done"
    """The object is being deleted and none of ours is left: nothing more to do."""


class FinalizerOutcome(msgspec.Struct, frozen=True):
    """The state, and in how many seconds to look again."""

    state: FinalizerState
    requeue_after: float | None = None


async def run_finalizers(
    client: PatchClient, obj: Any, finalizers: Sequence[Finalizer[Any]], *, field_manager: str | None = None
) -> FinalizerOutcome:
    """Do what the object's finalizers need now; call it first in every reconcile of a kind that has any.

    Cleanups run in the order of `finalizers`, each only when those before it are done. Raises what a cleanup raises;
    nothing is removed then.
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
    """Write finalizers to an object as it was read, in one request.

    The patch tests uid and resourceVersion, so an object that has changed since, or is being deleted by now, is not
    touched: that raises `RequeueError`. Does nothing to an object that is known to be going, or gone.
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
    """Remove a finalizer and return those that are left; does nothing when it is not there.

    `present` is the list of the object as it is now, if it is not the one `obj` was read with. The patch tests that
    the uid and the entry are those that were read: otherwise `RequeueError`.
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
            cast("type[Any]", type(obj)),
            metadata.name,
            patch,
            metadata.namespace or None,
            want="metadata",
            field_manager=field_manager,
        )
    except NotFound:
        return  # gone: there is nothing to hold any more
    except (Invalid, Conflict) as problem:
        # A failed test of a JSON patch is a 422 without causes; a real complaint names fields.
        if isinstance(problem, Conflict) or _is_failed_test(problem):
            raise RequeueError(f"{info.kind} {metadata.name} has changed since it was read") from problem
        raise


def _is_failed_test(problem: Invalid) -> bool:
    return not any(cause.field for cause in problem.causes)
