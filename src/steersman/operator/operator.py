"""`Operator`: the description of an operator, from which everything else is derived.

An `Operator` collects declarations and starts nothing. Importing a module with an operator opens no connection, reads
no file and needs no event loop, so that the CLI can run it and tools can derive CRDs and RBAC rules from it.
Decorators return the function unchanged, so that tests can call it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar, overload

from steersman.cache import IndexFunction
from steersman.controller import Backoff, Debounce
from steersman.controller.backoff import DEFAULT_BACKOFF
from steersman.controller.predicates import PredicateLike
from steersman.models import GVK, KindLike, View, view_of
from steersman.operator.declarations import (
    ControllerDeclaration,
    DeclarationError,
    FinalizerDeclaration,
    HookDeclaration,
    IndexDeclaration,
    Permission,
    TimerDeclaration,
    Watch,
)
from steersman.operator.names import FINALIZER_NAME, OPERATOR_NAME
from steersman.operator.signatures import handler_of, kind_of, views_of
from steersman.operator.webhook_decorators import WebhookDecorators

__all__ = ["Operator"]

F = TypeVar("F", bound=Callable[..., Any])

_VERBS = {
    "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "*",
    "bind", "escalate", "impersonate", "use",
}  # fmt: skip


class Operator(WebhookDecorators):
    """The description of an operator: `operator = Operator("demo-operator")`.

    Changing the field manager of a deployed operator leaves fields in the cluster that no manager removes.

    Args:
        name: A DNS label. It names the lease and the reporter of Events.
        field_manager: The field manager of all writes; `name` by default.

    Raises:
        DeclarationError: Here and in all decorators, with the place in the source.
    """

    def __init__(self, name: str, *, field_manager: str | None = None) -> None:
        if not OPERATOR_NAME.fullmatch(name):
            raise DeclarationError(
                f"Operator({name!r}): the name must be a DNS label: lower-case letters, digits and '-', at most 63"
            )
        super().__init__()
        self.name = name
        self.field_manager = field_manager or name
        self._controllers: dict[str, ControllerDeclaration] = {}
        self._finalizers: list[FinalizerDeclaration] = []
        self._timers: dict[str, TimerDeclaration] = {}
        self._hooks: list[HookDeclaration] = []
        self._indexes: dict[tuple[GVK, str], IndexDeclaration] = {}
        self._permissions: list[Permission] = []

    def __repr__(self) -> str:
        return f"<Operator {self.name}: {', '.join(self._controllers) or 'no controllers'}>"

    @property
    def controllers(self) -> tuple[ControllerDeclaration, ...]:
        """The declared controllers."""
        return tuple(self._controllers.values())

    @property
    def finalizers(self) -> tuple[FinalizerDeclaration, ...]:
        """The functions in the order in which they run."""
        return tuple(self._finalizers)

    @property
    def timers(self) -> tuple[TimerDeclaration, ...]:
        """The declared timers."""
        return tuple(self._timers.values())

    @property
    def hooks(self) -> tuple[HookDeclaration, ...]:
        """The declared hooks for startup and shutdown."""
        return tuple(self._hooks)

    @property
    def indexes(self) -> tuple[IndexDeclaration, ...]:
        """The declared indexes of the cache."""
        return tuple(self._indexes.values())

    @property
    def permissions(self) -> tuple[Permission, ...]:
        """The declared permissions."""
        return tuple(self._permissions)

    @overload
    def controller(self, reconcile: F, /) -> F: ...
    @overload
    def controller(
        self,
        reconcile: None = None,
        /,
        *,
        name: str | None = None,
        kind: KindLike[Any] | None = None,
        owns: Sequence[KindLike[Any]] = (),
        reads: Sequence[KindLike[Any]] = (),
        watches: Sequence[Watch] = (),
        where: PredicateLike | None = None,
        workers: int = 4,
        timeout: float | None = None,
        debounce: Debounce | float | None = None,
        backoff: Backoff = DEFAULT_BACKOFF,
        terminating: bool = False,
    ) -> Callable[[F], F]: ...
    def controller(
        self,
        reconcile: Any = None,
        /,
        *,
        name: str | None = None,
        kind: KindLike[Any] | None = None,
        owns: Sequence[KindLike[Any]] = (),
        reads: Sequence[KindLike[Any]] = (),
        watches: Sequence[Watch] = (),
        where: PredicateLike | None = None,
        workers: int = 4,
        timeout: float | None = None,
        debounce: Debounce | float | None = None,
        backoff: Backoff = DEFAULT_BACKOFF,
        terminating: bool = False,
    ) -> Any:
        """Declare a controller of the kind that annotates the function's first parameter.

        `async def reconcile(obj: Kind, ctx: Context)` returns `None`, a status or a `Result`. A plain `def` runs in a
        thread and receives a `SyncContext`. A class (instantiated once, without arguments) or an instance with a
        `reconcile` method works too. The status that the function returns does not start another reconcile.

        Args:
            reconcile: The function, where the decorator is used without arguments.
            name: The name in logs and metrics; by default the kind in lower case. A second controller of a kind needs
                one.
            kind: The kind, for functions of `Dynamic` or `PartialObjectMetadata`.
            owns: Kinds of children: their changes start a reconcile of their controller, and the operator may write
                them.
            reads: Kinds that `ctx.get` and `ctx.list` read from the cache. The reconciled kind is one of them only if
                it is listed.
            watches: Other kinds whose changes start reconciles.
            where: A predicate for changes of the reconciled kind.
            workers: The number of concurrent reconciles.
            timeout: Seconds after which a reconcile is cancelled and retried.
            debounce: Seconds without a change before a reconcile starts (at most ten times as long), or a `Debounce`.
            backoff: The delays before the retries of a failed reconcile.
            terminating: Whether terminating objects are reconciled, too. Finalizers are called for them anyway.

        Raises:
            DeclarationError: The function or an argument cannot be used.
        """

        def declare(function: Any) -> Any:
            handler = handler_of(function, "object")
            place = handler.place
            view = kind_of(handler, kind)
            declared = name or view.info.kind.lower()
            if (before := self._controllers.get(declared)) is not None:
                raise place.error(
                    f"a controller named {declared!r} is already declared at {before.place}; give this one a name="
                )
            if workers < 1:
                raise place.error(f"workers={workers}: at least 1")
            if not isinstance(backoff, Backoff):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise place.error(f"backoff= takes Backoff(base=…, cap=…), not {backoff!r}")
            for label, seconds in (("timeout", timeout), ("debounce", debounce)):
                if isinstance(seconds, int | float) and seconds <= 0:
                    raise place.error(f"{label}={seconds:g}: seconds, more than 0")
            quiet = Debounce(debounce, 10 * debounce) if isinstance(debounce, int | float) else debounce
            for watch in watches:
                if not isinstance(watch, Watch):  # pyright: ignore[reportUnnecessaryIsInstance]
                    raise place.error(f"watches= takes Watch(Kind, to=…), not {watch!r}")
                views_of([watch.kind], "watches", place)
            self._controllers[declared] = ControllerDeclaration(
                name=declared,
                kind=view,
                handler=handler,
                owns=views_of(owns, "owns", place),
                reads=views_of(reads, "reads", place),
                watches=tuple(watches),
                where=where,
                workers=workers,
                timeout=timeout,
                debounce=quiet,
                backoff=backoff,
                terminating=terminating,
            )
            return function

        return declare if reconcile is None else declare(reconcile)

    def finalizer(self, name: str, *, kind: KindLike[Any] | None = None) -> Callable[[F], F]:
        """Declare a finalizer: `@operator.finalizer("example.com/backup")` on `(obj: Kind, ctx: Context)`.

        The finalizer is added before the first reconcile of an object, and removed when the function returns. The
        function is called again after an exception or a `Result` with `requeue_after`, and must be idempotent. Several
        finalizers of a kind run in the order of their declaration.

        Args:
            name: The key in `metadata.finalizers`, as `domain/name`.
            kind: The kind, if the annotation of the first parameter does not name it.

        Raises:
            DeclarationError: The name, the kind or the function cannot be used.
        """

        def declare(function: F) -> F:
            handler = handler_of(function, "object", method="finalize")
            if not FINALIZER_NAME.fullmatch(name):
                raise handler.place.error(f"finalizer {name!r}: write domain/name, such as 'example.com/cleanup'")
            for before in self._finalizers:
                if before.name == name and before.kind.info.gvk == kind_of(handler, kind).info.gvk:
                    raise handler.place.error(f"finalizer {name!r} is already declared at {before.place}")
            view = kind_of(handler, kind)
            if view.form != "typed":
                raise handler.place.error("finalizers need a Resource class; a dynamic kind has none")
            self._finalizers.append(FinalizerDeclaration(name, view, handler))
            return function

        return declare

    def index(self, name: str, kind: KindLike[Any], function: IndexFunction) -> None:
        """Declare an index of the cache, for `ctx.list(Pod, index=("node", "node-1"))`.

        Args:
            name: The name of the index.
            kind: The kind, which a controller, timer or webhook declares, too.
            function: A pure function of an object in the view of `kind`; returns a value, several, or `None`.

        Raises:
            DeclarationError: The kind has another index of that name.
        """
        view = view_of(kind)
        known = self._indexes.get((view.info.gvk, name))
        if known is not None and known.function is not function:
            raise DeclarationError(f"index {name!r} of {view.info.kind} is declared already, by another function")
        self._indexes[view.info.gvk, name] = IndexDeclaration(name, view, function)

    def timer(
        self, interval: float, *, name: str | None = None, reads: Sequence[KindLike[Any]] = ()
    ) -> Callable[[F], F]:
        """Declare a timer: `@operator.timer(60.0)` on `async def check(ctx: Context)`.

        The leader calls the function, first after one interval, and never twice at a time.

        Args:
            interval: Seconds between the starts of two calls.
            name: The name in logs and metrics; by default that of the function.
            reads: Kinds that `ctx.get` and `ctx.list` read from the cache.

        Raises:
            DeclarationError: The function or an argument cannot be used.
        """

        def declare(function: F) -> F:
            handler = handler_of(function, "context", method="tick")
            if not interval > 0:
                raise handler.place.error(f"timer({interval!r}): seconds, more than 0")
            declared = name or handler.place.name.rpartition(".")[2]
            if (before := self._timers.get(declared)) is not None:
                raise handler.place.error(f"a timer named {declared!r} is already declared at {before.place}")
            views = views_of(reads, "reads", handler.place)
            self._timers[declared] = TimerDeclaration(declared, float(interval), handler, views)
            return function

        return declare

    def on_startup(self, function: F) -> F:
        """Declare a function that the leader calls once before its controllers start; a failure ends the process."""
        self._hooks.append(HookDeclaration("startup", handler_of(function, "context")))
        return function

    def on_shutdown(self, function: F) -> F:
        """Declare a function that the leader calls once after its controllers have stopped; failures are logged."""
        self._hooks.append(HookDeclaration("shutdown", handler_of(function, "context")))
        return function

    def permit(
        self, verbs: str | Iterable[str], kind: KindLike[Any], *, names: Iterable[str] = (), subresource: str = ""
    ) -> None:
        """Declare a permission that no controller implies: `operator.permit("get create", Secret, names=["ca"])`.

        Args:
            verbs: Verbs of the API, separated by spaces or commas, or as a list; `bind`, `escalate`, `impersonate` and
                `use` are those of RBAC.
            kind: The kind.
            names: The names of objects, to limit the permission to them.
            subresource: The subresource, such as `status` or `scale`.

        Raises:
            DeclarationError: A verb does not exist.
        """
        words = tuple(verbs.replace(",", " ").split()) if isinstance(verbs, str) else tuple(verbs)
        unknown = [word for word in words if word not in _VERBS]
        if not words or unknown:
            raise DeclarationError(f"permit({verbs!r}): verbs are {', '.join(sorted(_VERBS))}")
        self._permissions.append(Permission(words, view_of(kind), tuple(names), subresource))

    def kinds(self) -> tuple[View[Any], ...]:
        """Return every kind that is cached while the operator runs."""
        found: dict[Any, View[Any]] = {}
        for c in self.controllers:
            for view in (c.kind, *c.owns, *c.reads, *(view_of(w.kind) for w in c.watches)):
                found.setdefault((view.info.gvk, view.form), view)
        for f in self._finalizers:
            found.setdefault((f.kind.info.gvk, f.kind.form), f.kind)
        for reader in (*self.timers, *self._webhooks):
            for view in reader.reads:
                found.setdefault((view.info.gvk, view.form), view)
        return tuple(found.values())

    def check(self) -> None:
        """Check the declarations as a whole.

        Raises:
            DeclarationError: There is nothing to run, a conversion is missing, or a finalizer has no controller.
        """
        if not (self._controllers or self._timers or self._webhooks):
            raise DeclarationError(
                f"operator {self.name!r} has no controller, no timer and no webhook; declare one with"
                " @operator.controller, in a module that is imported together with the operator"
            )
        self._check_conversions()
        reconciled = {c.kind.info.gvk for c in self.controllers}
        for f in self._finalizers:
            if f.kind.info.gvk not in reconciled:
                raise f.place.error(
                    f"finalizer {f.name!r} needs a controller for {f.kind.info.kind} in the same operator"
                )
