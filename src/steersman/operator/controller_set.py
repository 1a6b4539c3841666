"""`ControllerSet`: the informers and controllers of an operator, created from its declarations.

With a namespace selector the set of namespaces changes while the operator runs: a namespace that starts to match gets
informers, and those of a namespace that stops to match are dropped. Objects there are no longer reconciled, and remain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
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
    """A controller with its declaration, its reconciler and its informers."""

    def __init__(
        self,
        declaration: ControllerDeclaration,
        controller: Controller,
        reconciler: Reconciler,
        mapper_context: Callable[[Any], Context],
    ) -> None:
        self.declaration = declaration
        self.controller = controller
        self.reconciler = reconciler
        self.informers: list[Informer] = []
        self._mapper_context = mapper_context

    @property
    def sources(self) -> list[tuple[View[Any], MapperLike, PredicateLike | None]]:
        """The kinds whose changes start reconciles, each with its mapper and predicate."""
        d = self.declaration
        owned: list[tuple[View[Any], MapperLike, PredicateLike | None]] = [
            (view, to_controller(d.kind), None) for view in d.owns
        ]
        watched: list[tuple[View[Any], MapperLike, PredicateLike | None]] = [
            (view_of(w.kind), _bound(w.to, self._mapper_context), w.where) for w in d.watches
        ]
        return [(d.kind, to_self, d.where), *owned, *watched]


class ControllerSet:
    """All controllers of an operator over one cache, in the namespaces of the settings."""

    def __init__(self, operator: Operator, cache: Cache, runtime: Runtime, settings: Settings, *, rng: Random) -> None:
        self._operator = operator
        self._cache = cache
        self._rng = rng
        self.controllers = [self._build(c, runtime, settings) for c in operator.controllers]
        self.reader = runtime.reader(operator.kinds(), f"operator {operator.name}")
        self._attached: dict[str, list[Informer]] = {}
        self._sources: dict[str, list[tuple[Controller, Source]]] = {}
        self.namespaces: Informer | None = None
        """The informer of the namespaces that match the selector, if there is one."""
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

    def _build(self, declared: ControllerDeclaration, runtime: Runtime, settings: Settings) -> RunningController:
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
        reconciler.add = controller.queue.add
        mapper_reader = runtime.reader([*views, declared.kind], reader.user)  # Mappers look for the reconciled kind.

        contexts: dict[str, Context] = {}

        def mapper_context(obj: Any) -> Context:
            namespace = obj.metadata.namespace
            if namespace not in contexts:
                contexts.clear()  # Changes of one namespace mostly follow each other.
                contexts[namespace] = Context(runtime, mapper_reader, namespace=namespace)
            return contexts[namespace]

        return RunningController(declared, controller, reconciler, mapper_context)

    def _attach(self, namespace: str | None, *, cluster_scoped_only: bool = False) -> None:
        """Add informers and sources for every declared kind in a namespace; `None` means all namespaces."""
        scoped = namespace is not None

        def wanted(view: View[Any]) -> bool:
            return view.info.namespaced == scoped if scoped or cluster_scoped_only else True

        attached = self._attached.setdefault(namespace or "", [])
        sources = self._sources.setdefault(namespace or "", [])
        for running in self.controllers:
            for view, to, where in running.sources:
                if wanted(view):
                    informer = self._informer(view, namespace, attached)
                    if informer not in running.informers:
                        running.informers.append(informer)
                    source = Source(informer, name=view.info.kind, to=to, where=where, view=view)
                    running.controller.watch(source)
                    sources.append((running.controller, source))
            for view in running.declaration.reads:
                if wanted(view) and (informer := self._informer(view, namespace, attached)) not in running.informers:
                    running.informers.append(informer)
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
            for running in self.controllers:
                running.informers = [i for i in running.informers if i not in gone]
            for controller, source in self._sources.pop(name, []):
                controller.unwatch(source)
            for informer in gone:
                self._cache.drop(informer)
            log.info("namespace_left", namespace=name)
        elif name not in self._attached:
            self._attach(name)
            log.info("namespace_entered", namespace=name)

    def close(self) -> None:
        """Release the threads of the reconcilers."""
        for running in self.controllers:
            running.reconciler.close()


def _bound(to: MapperLike, context_for: Callable[[Any], Context]) -> MapperLike:
    """Return a mapper of one argument; a mapper with a second parameter receives a `Context`."""
    if isinstance(to, MapTo) or not callable(to):
        return to
    required = [p for p in signature(to).parameters.values() if p.default is p.empty and p.kind is not p.VAR_POSITIONAL]
    if len(required) < 2:
        return to
    function: Any = to

    def with_context(obj: Any) -> Any:
        return function(obj, context_for(obj))

    return with_context


def unsynced(informers: Iterable[Informer]) -> list[Informer]:
    """Return the informers that have not synced."""
    return [i for i in informers if not i.synced]
