"""From declarations to live parts: informers for every kind and namespace, controllers with their sources.

With a namespace selector the set of namespaces changes while the operator runs: informers are added as namespaces
come, and dropped as they go. Objects of a namespace that has gone are reconciled no more; they are not deleted.
"""

from __future__ import annotations

from collections.abc import Iterable
from inspect import signature
from random import Random
from typing import Any

from steersman.cache import Cache, Change, Informer
from steersman.controller import Controller, Source, to_controller
from steersman.controller.mappers import MapperLike, MapTo, to_self
from steersman.controller.predicates import PredicateLike
from steersman.models import View, metadata_of, view_of
from steersman.operator.context import Context
from steersman.operator.declarations import ControllerDeclaration
from steersman.operator.operator import Operator
from steersman.operator.reconciler import Reconciler
from steersman.operator.runtime import Runtime
from steersman.operator.settings import Settings
from steersman.telemetry.log import get_logger

__all__ = ["ControllerSet", "RunningController"]

log = get_logger("operator")


class RunningController:
    """One controller with what belongs to it."""

    def __init__(
        self, declaration: ControllerDeclaration, controller: Controller, reconciler: Reconciler, context: Context
    ) -> None:
        self.declaration = declaration
        self.controller = controller
        self.reconciler = reconciler
        self.informers: list[Informer] = []
        self._context = context

    @property
    def feeds(self) -> list[tuple[View[Any], MapperLike, PredicateLike | None]]:
        """What leads to reconciles: kind, mapping, filter."""
        d = self.declaration
        owned: list[tuple[View[Any], MapperLike, PredicateLike | None]] = [
            (view, to_controller(d.kind), None) for view in d.owns
        ]
        watched: list[tuple[View[Any], MapperLike, PredicateLike | None]] = [
            (view_of(w.kind), _bound(w.to, self._context), w.where) for w in d.watches
        ]
        return [(d.kind, to_self, d.where), *owned, *watched]


class ControllerSet:
    """All controllers of an operator over one cache, in the namespaces of the settings."""

    def __init__(self, operator: Operator, cache: Cache, runtime: Runtime, settings: Settings, *, rng: Random) -> None:
        self._operator = operator
        self._cache = cache
        self._rng = rng
        self.wired = [self._wire(c, runtime, settings) for c in operator.controllers]
        self.everything = runtime.reader(operator.kinds(), f"operator {operator.name}")
        self._attached: dict[str, list[Informer]] = {}
        self._sources: dict[str, list[tuple[Controller, Source]]] = {}
        self.namespaces: Informer | None = None
        """Watches the namespaces of the selector, if there is one."""
        if settings.namespace_selector:
            from steersman.k8s import Namespace

            self._attach(None, cluster_scoped_only=True)
            self.namespaces = cache.informer(metadata_of(Namespace), labels=settings.namespace_selector)
            self.namespaces.add_handler(self._namespace_changed)
        elif settings.namespaces:
            self._attach(None, cluster_scoped_only=True)
            for namespace in dict.fromkeys(settings.namespaces):
                self._attach(namespace)
        else:
            self._attach(None)

    def _wire(self, declared: ControllerDeclaration, runtime: Runtime, settings: Settings) -> RunningController:
        views = [*declared.owns, *declared.reads, *(view_of(w.kind) for w in declared.watches)]
        of_kind = [c for c in self._operator.controllers if c.kind.info.gvk == declared.kind.info.gvk]
        finalizers = [f for f in self._operator.finalizers if f.kind.info.gvk == declared.kind.info.gvk]
        reader = runtime.reader(views, f"controller {declared.name}")
        own = finalizers if of_kind[0] is declared else ()
        reconciler = Reconciler(declared, own, runtime, reader, alone=len(of_kind) == 1)
        controller = Controller(
            declared.name,
            reconciler.reconcile,
            kind=declared.kind.info.kind,
            workers=settings.workers or declared.workers,
            timeout=declared.timeout,
            debounce=declared.debounce,
            backoff=declared.backoff,
            rng=self._rng,
        )
        readable = runtime.reader([*views, declared.kind], reader.user)  # mappers look for the reconciled kind
        return RunningController(declared, controller, reconciler, Context(runtime, readable))

    def _attach(self, namespace: str | None, *, cluster_scoped_only: bool = False) -> None:
        """Cache every declared kind in a namespace (`None`: in all), and feed the controllers from it."""
        scoped = namespace is not None

        def wanted(view: View[Any]) -> bool:
            return view.info.namespaced == scoped if scoped or cluster_scoped_only else True

        attached = self._attached.setdefault(namespace or "", [])
        sources = self._sources.setdefault(namespace or "", [])
        for wired in self.wired:
            for view, to, where in wired.feeds:
                if wanted(view):
                    informer = self._informer(view, namespace, attached)
                    if informer not in wired.informers:
                        wired.informers.append(informer)
                    source = Source(informer, name=view.info.kind, to=to, where=where, view=view)
                    wired.controller.watch(source)
                    sources.append((wired.controller, source))
            for view in wired.declaration.reads:
                if wanted(view) and (informer := self._informer(view, namespace, attached)) not in wired.informers:
                    wired.informers.append(informer)
        for view in self._operator.kinds():
            if wanted(view):
                self._informer(view, namespace, attached)

    def _informer(self, view: View[Any], namespace: str | None, attached: list[Informer]) -> Informer:
        informer = self._cache.informer(view, namespace=namespace)
        if informer not in attached:
            attached.append(informer)
            for index in self._operator.indexes:
                if index.kind.info.gvk == view.info.gvk:
                    self._cache.informer(index.kind, namespace=namespace, indexes={index.name: index.function})
        return informer

    def _namespace_changed(self, change: Change) -> None:
        name = change.key.name
        if change.type == "delete":
            gone = self._attached.pop(name, [])
            for wired in self.wired:
                wired.informers = [i for i in wired.informers if i not in gone]
            for controller, source in self._sources.pop(name, []):
                controller.unwatch(source)
            for informer in gone:
                self._cache.drop(informer)
            log.info("left a namespace", namespace=name)
        elif name not in self._attached:
            self._attach(name)
            log.info("entered a namespace", namespace=name)

    def close(self) -> None:
        for wired in self.wired:
            wired.reconciler.close()


def _bound(to: MapperLike, context: Context) -> MapperLike:
    """The mapper with its context, where it asks for one."""
    if isinstance(to, MapTo) or not callable(to):
        return to
    required = [p for p in signature(to).parameters.values() if p.default is p.empty and p.kind is not p.VAR_POSITIONAL]
    if len(required) < 2:
        return to
    function: Any = to

    def with_context(obj: Any) -> Any:
        return function(obj, context)

    return with_context


def unsynced(informers: Iterable[Informer]) -> list[Informer]:
    """Those whose first content is not there yet."""
    return [i for i in informers if not i.synced]
