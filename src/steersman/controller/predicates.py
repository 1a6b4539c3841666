"""Predicates: decide which changes lead to a reconcile; they compose with `&`, `|` and `~`.

A *change predicate* (`generation_changed`, `created`) compares the old and the new state. A *state predicate*
(`namespace("prod")`, `labelled("app=web")`, `where(fn)`) tests one state; a change passes if the new **or** the old
state does, so an object that leaves the set is reconciled once more. A composition of state predicates is a state
predicate: `~paused` passes when an object is paused and when it is resumed. Predicates save work; correctness must not
depend on them.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeAlias

from steersman.controller.protocols import Change, Entry
from steersman.models import View

if TYPE_CHECKING:
    from steersman.models.selectors import Selector

__all__ = [
    "Predicate",
    "PredicateLike",
    "annotations_changed",
    "created",
    "deleted",
    "generation_changed",
    "labelled",
    "labels_changed",
    "namespace",
    "resource_version_changed",
    "updated",
    "where",
]

OnChange: TypeAlias = Callable[[Change], bool]
OnState: TypeAlias = Callable[[Entry], bool]
AnyView: TypeAlias = View[Any] | None


class Predicate:
    """A predicate on changes; composes with `&`, `|`, `~` and with functions of the typed object."""

    __slots__ = ("_build", "_name", "_of_state")

    def __init__(self, name: str, build: Callable[[AnyView], Any], *, of_state: bool = False) -> None:
        self._name = name
        self._build = build
        self._of_state = of_state

    def compile(self, view: AnyView = None) -> OnChange:
        """Return the predicate as a function; functions of `where` receive objects in `view`."""
        return _on_either(self._build(view)) if self._of_state else self._build(view)

    def __call__(self, change: Change) -> bool:
        """Return whether the change is to be reconciled."""
        return self.compile()(change)

    def __and__(self, other: PredicateLike) -> Predicate:
        return _combine("&", self, _predicate(other))

    def __rand__(self, other: PredicateLike) -> Predicate:
        return _combine("&", _predicate(other), self)

    def __or__(self, other: PredicateLike) -> Predicate:
        return _combine("|", self, _predicate(other))

    def __ror__(self, other: PredicateLike) -> Predicate:
        return _combine("|", _predicate(other), self)

    def __invert__(self) -> Predicate:
        def build(view: AnyView) -> Any:
            inner = self._build(view)

            def denied(subject: Any) -> bool:
                return not inner(subject)

            return denied

        return Predicate(f"~{self._name}", build, of_state=self._of_state)

    def __bool__(self) -> bool:
        raise TypeError(f"{self!r}: compose predicates with &, | and ~, not with and, or and not")

    def __repr__(self) -> str:
        return self._name


PredicateLike: TypeAlias = Predicate | Callable[[Any], bool]
"""A predicate, or a function of the typed object."""


def _predicate(value: PredicateLike) -> Predicate:
    if isinstance(value, Predicate):
        return value
    if callable(value):
        return where(value)
    raise TypeError(f"{value!r} is not a predicate: pass one, or a function of the object that returns a bool")


def _on_either(state_passes: OnState) -> OnChange:
    def passes(change: Change) -> bool:
        new, old = change.new, change.old
        return (new is not None and state_passes(new)) or (old is not None and state_passes(old))

    return passes


def _combine(operator: str, left: Predicate, right: Predicate) -> Predicate:
    of_state = left._of_state and right._of_state  # pyright: ignore[reportPrivateUsage]

    def build(view: AnyView) -> Any:
        if of_state:
            a, b = left._build(view), right._build(view)  # pyright: ignore[reportPrivateUsage]
        else:
            a, b = left.compile(view), right.compile(view)

        def both(subject: Any) -> bool:
            return a(subject) and b(subject)

        def either(subject: Any) -> bool:
            return a(subject) or b(subject)

        return both if operator == "&" else either

    return Predicate(f"({left!r} {operator} {right!r})", build, of_state=of_state)


def _change(name: str, test: OnChange) -> Predicate:
    return Predicate(name, lambda _view: test)


def _state(name: str, test: OnState) -> Predicate:
    return Predicate(name, lambda _view: test, of_state=True)


def _differs(name: str, of: Callable[[Entry], object]) -> Predicate:
    def test(change: Change) -> bool:
        old, new = change.old, change.new
        return old is None or new is None or of(old) != of(new)

    return _change(name, test)


created = _change("created", lambda change: change.type == "add")
updated = _change("updated", lambda change: change.type == "update")
deleted = _change("deleted", lambda change: change.type == "delete")


def _another_generation(change: Change) -> bool:
    old, new = change.old, change.new
    return old is None or new is None or not new.as_desired(old)


generation_changed = _change("generation_changed", _another_generation)
"""Passes changes of the spec, adds, deletes, and the start of a deletion. Kinds without a generation, such as
ConfigMap, never pass an update: use `resource_version_changed` for them."""

labels_changed = _differs("labels_changed", lambda entry: entry.metadata().labels)
annotations_changed = _differs("annotations_changed", lambda entry: entry.metadata().annotations)
resource_version_changed = _differs("resource_version_changed", attrgetter("resource_version"))
"""Passes every change of the object; filters resyncs out."""


def namespace(*names: str) -> Predicate:
    """Pass objects in one of these namespaces."""
    wanted = frozenset(names)
    return _state(f"namespace({', '.join(map(repr, names))})", lambda entry: entry.key.namespace in wanted)


def labelled(selector: str | Selector) -> Predicate:
    """Pass objects whose labels match; an object that stops matching passes once more.

    Raises:
        ValueError: The selector is invalid.
    """
    from steersman.models.selectors import parse_labels  # few operators select by label; the parser loads on demand

    parsed = parse_labels(selector) if isinstance(selector, str) else selector
    return _state(f"labelled({str(parsed)!r})", lambda entry: parsed.matches(entry.metadata().labels))


def where(test: Callable[[Any], bool]) -> Predicate:
    """Pass objects for which a function returns true; it receives the object in the view of the source."""
    name = getattr(test, "__name__", repr(test))

    def build(view: AnyView) -> OnState:
        if view is None:
            raise TypeError(f"where({name}) needs a kind to decode: use it in a source, or compile(view)")
        return lambda entry: bool(test(entry.object(view)))

    return Predicate(f"where({name})", build, of_state=True)
