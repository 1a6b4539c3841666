"""The declarations of an operator, as frozen values: controllers, finalizers, timers, hooks, permissions, webhooks.

The decorators of `Operator` create them; the run loop and the manifest generators read them. Each has its place in the
user's code, for error messages. Nothing here runs anything.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import msgspec

from steersman.cache import IndexFunction
from steersman.controller import Backoff, Debounce
from steersman.controller.backoff import DEFAULT_BACKOFF
from steersman.controller.mappers import MapperLike
from steersman.controller.predicates import PredicateLike
from steersman.models import KindLike, View
from steersman.webhook.configuration import WebhookRule

__all__ = [
    "ControllerDeclaration",
    "DeclarationError",
    "FinalizerDeclaration",
    "Handler",
    "HookDeclaration",
    "IndexDeclaration",
    "Permission",
    "Place",
    "TimerDeclaration",
    "Watch",
    "WebhookDeclaration",
]


class DeclarationError(TypeError):
    """A declaration is invalid; the message begins with the file, the line and the name of the function."""


class Place(msgspec.Struct, frozen=True):
    """The place of a declaration in the source."""

    file: str
    line: int
    name: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.name}"

    def error(self, problem: str) -> DeclarationError:
        """Return an error with this place."""
        return DeclarationError(f"{self}: {problem}")


class Handler(msgspec.Struct, frozen=True):
    """A user's function, how to call it, and its place."""

    call: Callable[..., Any]
    is_async: bool
    """False runs it in a thread of the pool (R6)."""
    takes_object: bool
    takes_context: bool
    place: Place


class Watch:
    """Another kind whose changes lead to reconciles: `Watch(ConfigMap, to=mapper, where=predicate)`.

    `to` maps an object to keys of the reconciled kind: `to_label("app")`, `to_owner(Kind)`, or a function of the typed
    object that returns a `Key`, several or `None`. With a second parameter the function receives a `Context` with the
    reads of the controller, without a reconciled object. The kind is cached, and the controller may get and list it.
    """

    __slots__ = ("kind", "to", "where")

    def __init__(self, kind: KindLike[Any], *, to: MapperLike, where: PredicateLike | None = None) -> None:
        self.kind = kind
        self.to = to
        self.where = where

    def __repr__(self) -> str:
        return f"Watch({self.kind!r}, to={self.to!r}, where={self.where!r})"


class ControllerDeclaration(msgspec.Struct, frozen=True):
    """One controller: its kind, its function, and its watches."""

    name: str
    kind: View[Any]
    handler: Handler
    owns: tuple[View[Any], ...] = ()
    reads: tuple[View[Any], ...] = ()
    watches: tuple[Watch, ...] = ()
    where: PredicateLike | None = None
    workers: int = 4
    timeout: float | None = None
    debounce: Debounce | None = None
    backoff: Backoff = DEFAULT_BACKOFF
    terminating: bool = False
    """Whether terminating objects are reconciled, too."""

    @property
    def place(self) -> Place:
        """The place of the declaration in the source."""
        return self.handler.place


class FinalizerDeclaration(msgspec.Struct, frozen=True):
    """A finalizer of `kind`; `name` is its key in `metadata.finalizers`."""

    name: str
    kind: View[Any]
    handler: Handler

    @property
    def place(self) -> Place:
        """The place of the declaration in the source."""
        return self.handler.place


class TimerDeclaration(msgspec.Struct, frozen=True):
    """A function that the leader calls every `interval` seconds, never twice at a time."""

    name: str
    interval: float
    handler: Handler
    reads: tuple[View[Any], ...] = ()

    @property
    def place(self) -> Place:
        """The place of the declaration in the source."""
        return self.handler.place


class IndexDeclaration(msgspec.Struct, frozen=True):
    """A cache index of a kind, besides those by key, owners and labels."""

    name: str
    kind: View[Any]
    function: IndexFunction


class HookDeclaration(msgspec.Struct, frozen=True):
    """A hook that runs once: with the lease and before controllers start, or after they have stopped."""

    when: Literal["startup", "shutdown"]
    handler: Handler

    @property
    def place(self) -> Place:
        """The place of the declaration in the source."""
        return self.handler.place


class Permission(msgspec.Struct, frozen=True):
    """A permission beyond those that controllers imply."""

    verbs: tuple[str, ...]
    kind: View[Any]
    names: tuple[str, ...] = ()
    subresource: str = ""


class WebhookDeclaration(msgspec.Struct, frozen=True):
    """A function for admission (`rule` selects the requests), or for conversion of `kind` to the version `to`."""

    purpose: Literal["defaulter", "validator", "mutator", "converter"]
    kind: View[Any]
    handler: Handler
    takes: tuple[Literal["object", "old", "admission"], ...]
    """The parameters of the function, in order."""
    rule: WebhookRule | None = None
    to: View[Any] | None = None
    reads: tuple[View[Any], ...] = ()
    sees: View[Any] | None = None
    """The type of the function's argument if it is not `kind`: subresources have other kinds."""

    @property
    def place(self) -> Place:
        """The place of the declaration in the source."""
        return self.handler.place
