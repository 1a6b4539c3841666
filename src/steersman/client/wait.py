"""Waiting until an object meets a condition, with one list and then a watch, without polling.

A condition is a function of the object, or of `None` if the object does not exist. The wait continues after lost
connections and expired versions. After a timeout, the error describes the last state of the object.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import Any, TypeAlias, TypeVar, cast

from steersman.client.core import target_of
from steersman.client.errors import (
    ClientError,
    Expired,
    ServerTimeout,
    ServiceUnavailable,
    TooManyRequests,
    TransportError,
    WaitTimeoutError,
)
from steersman.client.reads import Reads
from steersman.models import DecodeError, Dynamic, Key, KindLike, View, view_of
from steersman.models.resource import is_kind

__all__ = ["WaitCondition", "Waits", "condition_is", "condition_true", "deleted", "exists"]

T = TypeVar("T")

WaitCondition: TypeAlias = Callable[[Any], bool]
"""Called with the object, or with `None` if it does not exist; True ends the wait."""

_RETRY_DELAY_SECONDS = 0.5
_PASSING = (TransportError, Expired, TooManyRequests, ServiceUnavailable, ServerTimeout)


def exists(obj: Any) -> bool:
    """Return whether the object exists."""
    return obj is not None


def deleted(obj: Any) -> bool:
    """Return whether the object does not exist."""
    return obj is None


def condition_is(type: str, status: str) -> WaitCondition:
    """Return a check for a condition in `status.conditions` with that status, observed at the current generation."""

    def check(obj: Any) -> bool:
        if obj is None:
            return False
        generation = obj.metadata.generation
        for found in _conditions(obj):
            if found["type"] == type:
                seen = found["observed"]
                return found["status"] == status and (seen is None or seen >= generation)
        return False

    check.__name__ = f"condition {type}={status}"
    return check


def condition_true(type: str) -> WaitCondition:
    """Return a check that the condition `type` is True: `condition_true("Ready")`."""
    return condition_is(type, "True")


class Waits(Reads):
    """The verb that waits."""

    async def wait_for(
        self,
        what: KindLike[T] | T,
        condition: WaitCondition,
        timeout: float = 60.0,
        *,
        name: str = "",
        namespace: str | None = None,
    ) -> T | None:
        """Wait until an object meets a condition; return its last state, `None` if it does not exist.

        `what` is an object, or a kind with `name` and `namespace`. If an object with a uid is given, a newer object of
        the same name counts as its absence. The condition is called for each state that the watch delivers; states
        between two events may be missed.

        Raises:
            WaitTimeoutError: The condition was not met within `timeout` seconds; the message has the last state.
            ApiError: The server refused the request, for example with `Forbidden`.
        """
        if is_kind(what):
            view: View[Any] = view_of(what)
            key, uid = Key(self.namespace_for(view.info, namespace), name), ""
        else:
            target = target_of(what, None, self.config.namespace)
            view, key, uid = target.view, target.key, target.uid
            if isinstance(what, Dynamic):
                view = View(view.info, Dynamic, "dynamic")
        if not key.name:
            raise ValueError(f"wait for {view.info.kind}: pass name=…, or an object that has a name")
        last = _LastSeen()
        limit = asyncio.timeout(timeout)
        try:
            async with limit:
                return await self._wait(view, key, uid, condition, last)
        except TimeoutError:
            if not limit.expired():
                raise
            name = getattr(condition, "__name__", repr(condition))
            raise WaitTimeoutError(
                f"{view.info.kind} {key}: waited {timeout:g} s for {name}; last seen: {last.describe()}"
            ) from last.problem

    async def _wait(self, view: View[Any], key: Key, uid: str, condition: WaitCondition, last: _LastSeen) -> Any:
        one = f"metadata.name={key.name}"
        while True:
            try:
                page = await self.list(view, namespace=key.namespace, fields=one)
                if page.undecodable:
                    raise page.undecodable[0].error
                if last.check(page.items[0] if page.items else None, uid, condition):
                    return last.obj
                version = page.resource_version
                async with aclosing(
                    self.watch(view, namespace=key.namespace, fields=one, resource_version=version)
                ) as events:
                    async for event in events:
                        obj = None if event.type == "DELETED" else event.object
                        if last.check(obj, uid, condition):
                            return last.obj
            except _PASSING as problem:
                last.problem = problem
            await asyncio.sleep(_RETRY_DELAY_SECONDS)


class _LastSeen:
    def __init__(self) -> None:
        self.obj: Any = None
        self.looked = False
        self.problem: ClientError | DecodeError | None = None

    def check(self, obj: Any, uid: str, condition: WaitCondition) -> bool:
        if obj is not None and uid and obj.metadata.uid != uid:
            obj = None
        self.obj = obj
        self.looked = True
        self.problem = None
        return condition(obj)

    def describe(self) -> str:
        if self.looked:
            seen = "no object of that name" if self.obj is None else _describe(self.obj)
            return f"{seen}, then: {self.problem}" if self.problem else seen
        return f"no object, because of: {self.problem}" if self.problem else "nothing yet"


def _describe(obj: Any) -> str:
    """Return version, phase and conditions, which hold no secrets; never the rest of the object."""
    metadata = obj.metadata
    parts = [f"resourceVersion {metadata.resource_version}"]
    if metadata.deletion_timestamp is not None:
        held = ", ".join(metadata.finalizers)
        parts.append(f"being deleted, held by {held}" if held else "being deleted")
    phase = _field(_field(obj, "status"), "phase")
    if phase:
        parts.append(f"phase {phase}")
    for found in _conditions(obj):
        why = ": ".join(str(part) for part in (found["reason"], found["message"]) if part)
        parts.append(f"{found['type']}={found['status']}" + (f" ({why})" if why else ""))
    return "; ".join(parts)


def _conditions(obj: Any) -> list[dict[str, Any]]:
    conditions = _field(_field(obj, "status"), "conditions") or ()
    return [
        {
            "type": _field(found, "type"),
            "status": _field(found, "status"),
            "reason": _field(found, "reason"),
            "message": _field(found, "message"),
            "observed": _field(found, "observed_generation", "observedGeneration"),
        }
        for found in conditions
    ]


def _field(value: Any, name: str, wire_name: str = "") -> Any:
    if isinstance(value, Dynamic):
        value = value.body
    if isinstance(value, dict):
        return cast("dict[str, Any]", value).get(wire_name or name)
    return getattr(value, name, None)
