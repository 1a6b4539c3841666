"""`Operator`: one object that describes an operator, from which everything else is derived.

It collects declarations and does nothing: importing a module with an operator touches no cluster, no file and no
loop, so that the CLI can read it to run it, and tools to derive CRDs and RBAC from it. Decorators return the
function unchanged, ready to be tested.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar, cast, overload

from steersman.cache import IndexFunction
from steersman.controller import Debounce
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
    WebhookDeclaration,
)
from steersman.operator.signatures import handler_of, kind_of, reviewed, views_of, webhook_handler
from steersman.webhook.admission import Purpose
from steersman.webhook.configuration import WebhookOptions, WebhookRule, path_of

__all__ = ["Operator"]

F = TypeVar("F", bound=Callable[..., Any])

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_FINALIZER = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?")
_VERBS = {"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "*"}
_OPERATIONS = {"create", "update", "delete", "connect"}
_OPTIONS = WebhookOptions()


class Operator:
    """The description of an operator: `operator = Operator("demo-operator")`.

    `name` is a DNS label; it names the lease, the field manager (unless `field_manager` is given) and the Events'
    reporter. Changing the field manager of a deployed operator leaves fields behind that nobody owns. Raises
    `DeclarationError`, here and in all decorators, with the place in the source.
    """

    def __init__(self, name: str, *, field_manager: str | None = None) -> None:
        if not _NAME.fullmatch(name):
            raise DeclarationError(
                f"Operator({name!r}): the name must be a DNS label: lower-case letters, digits and '-', at most 63"
            )
        self.name = name
        self.field_manager = field_manager or name
        self._controllers: dict[str, ControllerDeclaration] = {}
        self._finalizers: list[FinalizerDeclaration] = []
        self._timers: dict[str, TimerDeclaration] = {}
        self._hooks: list[HookDeclaration] = []
        self._indexes: dict[tuple[GVK, str], IndexDeclaration] = {}
        self._permissions: list[Permission] = []
        self._webhooks: list[WebhookDeclaration] = []

    def __repr__(self) -> str:
        return f"<Operator {self.name}: {', '.join(self._controllers) or 'no controllers'}>"

    @property
    def controllers(self) -> tuple[ControllerDeclaration, ...]:
        return tuple(self._controllers.values())

    @property
    def finalizers(self) -> tuple[FinalizerDeclaration, ...]:
        """In the order in which they run."""
        return tuple(self._finalizers)

    @property
    def timers(self) -> tuple[TimerDeclaration, ...]:
        return tuple(self._timers.values())

    @property
    def hooks(self) -> tuple[HookDeclaration, ...]:
        return tuple(self._hooks)

    @property
    def indexes(self) -> tuple[IndexDeclaration, ...]:
        return tuple(self._indexes.values())

    @property
    def permissions(self) -> tuple[Permission, ...]:
        return tuple(self._permissions)

    @property
    def webhooks(self) -> tuple[WebhookDeclaration, ...]:
        return tuple(self._webhooks)

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
        deleting: bool = False,
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
        deleting: bool = False,
    ) -> Any:
        """Declare a controller; the kind is the annotation of the function's first parameter.

        `async def reconcile(obj: Kind, ctx: Context)` returns nothing, a status, or `Result(…)`; a plain `def` runs
        in a thread pool and gets a `SyncContext`; a class (made once, without arguments) or an instance with a
        `reconcile` method works too.

        `owns` watches children by controller reference and allows writing them; `reads` caches kinds for `ctx.get`
        and `ctx.list`, the reconciled kind too if others of it are read; `watches` maps changes of other kinds.
        `where` filters changes of the reconciled kind. `timeout` (seconds) ends one reconcile with a retry.
        `debounce` waits for so many quiet seconds before reconciling, at most ten times as long. `name` is the kind
        in lower case by default; a second controller of a kind needs one. `kind` is for dynamic and metadata views.
        `deleting` has objects reconciled that are being deleted, too; without it only finalizers see those.

        The status that the function returns does not wake it again; an explicit write to the object does.
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
                deleting=deleting,
            )
            return function

        return declare if reconcile is None else declare(reconcile)

    def finalizer(self, name: str, *, kind: KindLike[Any] | None = None) -> Callable[[F], F]:
        """Declare what must happen before an object may go: `@operator.finalizer("apps.example.com/backup")`.

        The finalizer is added before the first reconcile of an object, and removed when the function returns. It is
        called again after `RequeueError`, any other exception, or a `Result` with `requeue_after`, and must bear being
        called twice. Several finalizers of a kind run one after the other, in the order of their declaration.
        """

        def declare(function: F) -> F:
            handler = handler_of(function, "object", method="finalize")
            if not _FINALIZER.fullmatch(name):
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
        """Declare that objects of `kind` are found by `function`'s value: `ctx.list(Pod, index=("node", "node-1"))`.

        `function` is pure, takes the object in the view of `kind`, and returns a value, several or `None`. The kind is
        to be declared by a controller or timer as well. Raises `DeclarationError` when the name is taken for the kind.
        """
        view = view_of(kind)
        known = self._indexes.get((view.info.gvk, name))
        if known is not None and known.function is not function:
            raise DeclarationError(f"index {name!r} of {view.info.kind} is declared already, by another function")
        self._indexes[view.info.gvk, name] = IndexDeclaration(name, view, function)

    def every(
        self, seconds: float, *, name: str | None = None, reads: Sequence[KindLike[Any]] = ()
    ) -> Callable[[F], F]:
        """Declare a timer: called every `seconds` on the leader, first after one interval, never twice at once."""

        def declare(function: F) -> F:
            handler = handler_of(function, "context", method="tick")
            if not seconds > 0:
                raise handler.place.error(f"every({seconds!r}): seconds, more than 0")
            declared = name or handler.place.name.rpartition(".")[2]
            if (before := self._timers.get(declared)) is not None:
                raise handler.place.error(f"a timer named {declared!r} is already declared at {before.place}")
            views = views_of(reads, "reads", handler.place)
            self._timers[declared] = TimerDeclaration(declared, float(seconds), handler, views)
            return function

        return declare

    def on_startup(self, function: F) -> F:
        """Call once, when this replica leads and before its controllers start. A failure ends the process."""
        self._hooks.append(HookDeclaration("startup", handler_of(function, "context")))
        return function

    def on_shutdown(self, function: F) -> F:
        """Call once, after the controllers have stopped and before the lease is released. Failures are logged."""
        self._hooks.append(HookDeclaration("shutdown", handler_of(function, "context")))
        return function

    def permit(
        self, verbs: str | Iterable[str], kind: KindLike[Any], *, names: Iterable[str] = (), subresource: str = ""
    ) -> None:
        """Declare a permission that no controller implies: `operator.permit("get create", Secret, names=["ca"])`."""
        words = tuple(verbs.replace(",", " ").split()) if isinstance(verbs, str) else tuple(verbs)
        unknown = [word for word in words if word not in _VERBS]
        if not words or unknown:
            raise DeclarationError(f"permit({verbs!r}): verbs are {', '.join(sorted(_VERBS))}")
        self._permissions.append(Permission(words, view_of(kind), tuple(names), subresource))

    @overload
    def defaults(self, function: F, /) -> F: ...
    @overload
    def defaults(
        self,
        function: None = None,
        /,
        *,
        on: str | Iterable[str] = ("create", "update"),
        reads: Sequence[KindLike[Any]] = (),
        name: str = "",
        options: WebhookOptions = ...,
    ) -> Callable[[F], F]: ...
    def defaults(
        self,
        function: Any = None,
        /,
        *,
        on: str | Iterable[str] = ("create", "update"),
        reads: Sequence[KindLike[Any]] = (),
        name: str = "",
        options: WebhookOptions = _OPTIONS,
    ) -> Any:
        """Declare a defaulting webhook of an own kind: `(obj: Kind[, ctx: Admission]) -> Kind | None`.

        What the function returns replaces the object, `None` leaves it; fields that the class does not know stay. It
        must be idempotent: the API server may call it again. Raises `DeniedError` or `Invalid` to refuse. Defaults that
        depend on nothing belong to the fields of the class, where they cost no request.
        """
        declare = self._admission("defaults", None, on, reads, name, options)
        return declare if function is None else declare(function)

    @overload
    def validates(self, function: F, /) -> F: ...
    @overload
    def validates(
        self,
        function: None = None,
        /,
        *,
        kind: KindLike[Any] | None = None,
        on: str | Iterable[str] = ("create", "update"),
        reads: Sequence[KindLike[Any]] = (),
        name: str = "",
        options: WebhookOptions = ...,
    ) -> Callable[[F], F]: ...
    def validates(
        self,
        function: Any = None,
        /,
        *,
        kind: KindLike[Any] | None = None,
        on: str | Iterable[str] = ("create", "update"),
        reads: Sequence[KindLike[Any]] = (),
        name: str = "",
        options: WebhookOptions = _OPTIONS,
    ) -> Any:
        """Declare a validating webhook of any kind: `(new: Kind[, old: Kind | None][, ctx: Admission])`.

        It refuses by raising `Invalid` with a `FieldError` for each field, or `DeniedError`; it may return warnings,
        which the client is shown. `old` is `None` for creates; for deletes the first argument is the object that goes.
        Rules that the schema or CEL can say belong there, where they cost no request.

        Requests of a sub-resource (in `options`) bring its own kind of object: `kind=Deployment` with `scale` brings a
        `Scale`, as the annotation says, and `kind=Pod` with `eviction` an `Eviction`.
        """
        declare = self._admission("validates", kind, on, reads, name, options)
        return declare if function is None else declare(function)

    def mutates(
        self,
        kind: KindLike[Any],
        *,
        on: str | Iterable[str] = ("create", "update"),
        reads: Sequence[KindLike[Any]] = (),
        name: str = "",
        options: WebhookOptions = _OPTIONS,
    ) -> Callable[[F], F]:
        """Declare a mutating webhook of any kind: `@operator.mutates(Pod, on="create")`.

        The function is that of `defaults`. `reads` names kinds that `ctx.get` and `ctx.list` answer from the cache, on
        every replica, leader or not. `options` says which requests come (selectors, match conditions, sub-resources)
        and what is done when nobody answers. `name` tells two webhooks of one kind apart.
        """
        return self._admission("mutates", kind, on, reads, name, options)

    def converts(self, source: KindLike[Any], target: KindLike[Any]) -> Callable[[F], F]:
        """Declare how objects of one version become those of another: `(obj: Source) -> Target`, both of one kind.

        One function a direction. Versions without a function of their own are reached through others: give every
        version a pair with one hub. Metadata is carried over as it is; of it, only labels and annotations may change.
        """

        def declare(function: F) -> F:
            handler, takes = webhook_handler(function, "converts")
            place = handler.place
            old, new = views_of([source], "converts", place)[0], views_of([target], "converts", place)[0]
            if (old.info.group, old.info.kind) != (new.info.group, new.info.kind):
                raise place.error(f"converts between versions of one kind, not {old.info.gvk} and {new.info.gvk}")
            if old.info.version == new.info.version:
                raise place.error(f"converts {old.info.version} to itself")
            for before in self._webhooks:
                if before.purpose == "converts" and (before.kind.info.gvk, before.to and before.to.info.gvk) == (
                    old.info.gvk,
                    new.info.gvk,
                ):
                    raise place.error(f"this conversion is already declared at {before.place}")
            self._webhooks.append(WebhookDeclaration("converts", old, handler, takes, to=new))
            return function

        return declare

    def _admission(
        self,
        purpose: Purpose,
        kind: KindLike[Any] | None,
        on: str | Iterable[str],
        reads: Sequence[KindLike[Any]],
        name: str,
        options: WebhookOptions,
    ) -> Callable[[F], F]:
        operations = tuple(on.replace(",", " ").split()) if isinstance(on, str) else tuple(on)

        def declare(function: F) -> F:
            handler, takes = webhook_handler(function, purpose)
            place = handler.place
            view, seen = reviewed(handler, kind, purpose, options.subresources)
            if unknown := [word for word in operations if word not in _OPERATIONS]:
                raise place.error(f"on={unknown[0]!r}: operations are {', '.join(sorted(_OPERATIONS))}")
            if not operations:
                raise place.error("on=: at least one operation")
            if purpose != "validates" and "delete" in operations:
                raise place.error("on='delete': what is being deleted cannot be changed; use validates")
            if problem := options.problem(purpose != "validates"):
                raise place.error(problem)
            if name and not _NAME.fullmatch(name):
                raise place.error(f"name={name!r}: lower-case letters, digits and '-'")
            path = path_of(purpose, view.info, options.subresources) + (f"-{name}" if name else "")
            for before in self._webhooks:
                if before.rule is not None and before.rule.path == path:
                    raise place.error(f"{path} is already declared at {before.place}; give this one a name=")
            rule = WebhookRule(purpose, view, operations, path, options)
            read = views_of(reads, "reads", place)
            self._webhooks.append(WebhookDeclaration(purpose, view, handler, takes, rule, None, read, seen))
            return function

        return declare

    @property
    def webhook_rules(self) -> tuple[WebhookRule, ...]:
        """What the API server is to ask, for its webhook configurations."""
        return tuple(w.rule for w in self._webhooks if w.rule is not None)

    def kinds(self) -> tuple[View[Any], ...]:
        """Every kind that is cached while the operator runs."""
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
        """Raise `DeclarationError` for what can only be judged as a whole, such as having nothing to do."""
        if not (self._controllers or self._timers or self._webhooks):
            raise DeclarationError(
                f"operator {self.name!r} has no controller, no timer and no webhook; declare one with"
                " @operator.controller, in a module that is imported together with the operator"
            )
        conversions = [w for w in self._webhooks if w.purpose == "converts"]
        if conversions:
            from steersman.webhook.conversion import Conversion, missing

            found = missing([Conversion(w.kind, cast(Any, w.to), w.handler.call, str(w.place)) for w in conversions])
            if found:  # objects that are stored in the one version could not be read in the other
                raise conversions[0].place.error(f"no conversion leads the way {', '.join(found)}: declare it, too")
        reconciled = {c.kind.info.gvk for c in self.controllers}
        for f in self._finalizers:
            if f.kind.info.gvk not in reconciled:
                raise f.place.error(
                    f"finalizer {f.name!r} needs a controller for {f.kind.info.kind} in the same operator"
                )
