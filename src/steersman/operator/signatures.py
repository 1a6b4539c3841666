"""Reads the signature of a user's function: its place, its kind, and whether its parameters fit.

A wrong signature is reported at the import of the module, with file, line and name, and not at the first event.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, TypeAlias, cast

from steersman.models import Dynamic, PartialObjectMetadata, Resource, View, view_of
from steersman.operator.declarations import Handler, Place

__all__ = ["Purpose", "converted", "handler_of", "kind_of", "place_of", "reviewed", "views_of", "webhook_handler"]

Purpose: TypeAlias = Literal["defaulter", "validator", "mutator", "converter"]
_METHODS: Final[dict[Purpose, str]] = {
    "defaulter": "default",
    "validator": "validate",
    "mutator": "mutate",
    "converter": "convert",
}
"""The method of a class or instance that is used as a webhook."""
Shape = Literal["object", "context", "free"]
"""`(obj, ctx)` or `(obj)`; `(ctx)` or `()`; any."""


def place_of(what: Any) -> Place:
    """Return the place of a function or class in the source, as precise as Python knows it."""
    target: Any = what if inspect.isclass(what) or inspect.isroutine(what) else cast(Any, type(what))
    function: Any = inspect.unwrap(target)
    name = getattr(function, "__qualname__", repr(what)).removeprefix("<locals>.")
    code = getattr(function, "__code__", None)
    if isinstance(code, types.CodeType):
        return Place(code.co_filename, code.co_firstlineno, name)
    try:
        return Place(inspect.getsourcefile(target) or "?", inspect.getsourcelines(target)[1], name)
    except (OSError, TypeError):
        return Place("?", 0, name)


def handler_of(what: Any, shape: Shape, *, method: str = "reconcile") -> Handler:
    """Return the handler of a function, an instance, or a class with `reconcile`; raises `DeclarationError`."""
    place = place_of(what)
    function = _callable(what, method, place)
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        raise place.error("is a generator; write `async def` with `return`, not `yield`")
    is_async = inspect.iscoroutinefunction(function)
    parameters = list(inspect.signature(function).parameters.values())
    for p in parameters:
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            raise place.error(f"takes *{p.name}: write the parameters out, {_expected(shape)}")
        if p.kind is p.KEYWORD_ONLY and p.default is p.empty:
            raise place.error(f"requires the keyword {p.name}: {_expected(shape)}")
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    wanted = [p for p in parameters if p.kind in positional and p.default is p.empty]
    most = {"object": 2, "context": 1, "free": 2}[shape]
    least = 1 if shape == "object" else 0
    if not least <= len(wanted) <= most:
        raise place.error(f"takes {len(wanted)} parameters: {_expected(shape)}")
    takes_context = len(wanted) == (2 if shape == "object" else 1)
    if takes_context and shape != "free":
        _check_context(function, wanted[-1], place, is_async=is_async)
    return Handler(function, is_async, takes_object=shape == "object", takes_context=takes_context, place=place)


def webhook_handler(what: Any, purpose: Purpose) -> tuple[Handler, tuple[Literal["object", "old", "admission"], ...]]:
    """Return the handler and parameters of a webhook: `(obj[, old][, ctx: Admission])`, `old` for validators only."""
    from steersman.webhook.admission import Admission

    place = place_of(what)
    function = _callable(what, _METHODS[purpose], place)
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        raise place.error("is a generator; write `async def` with `return`, not `yield`")
    expected = {
        "converter": "expected `(obj: Old)`",
        "validator": "expected `(obj: Kind)`, and after it `old: Kind | None` and `ctx: Admission` if wanted",
    }.get(purpose, "expected `(obj: Kind)` or `(obj: Kind, ctx: Admission)`")
    parameters = list(inspect.signature(function).parameters.values())
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters) or any(
        p.kind is p.KEYWORD_ONLY and p.default is p.empty for p in parameters
    ):
        raise place.error(f"has a parameter that is not available: {expected}")
    wanted = [p for p in parameters if p.default is p.empty]
    hints = _annotations(function, place)
    takes: list[Literal["object", "old", "admission"]] = ["object"]
    takes.extend("admission" if hints.get(p.name) is Admission else "old" for p in wanted[1:])
    allowed: dict[str, Any] = {
        "converter": (("object",),),
        "validator": (("object",), ("object", "old"), ("object", "admission"), ("object", "old", "admission")),
    }
    if not wanted or tuple(takes) not in allowed.get(purpose, (("object",), ("object", "admission"))):
        raise place.error(f"takes {len(wanted)} parameters: {expected}")
    handler = Handler(
        function,
        is_async=inspect.iscoroutinefunction(function),
        takes_object=True,
        takes_context="admission" in takes,
        place=place,
    )
    return handler, tuple(takes)


def kind_of(handler: Handler, kind: Any = None) -> View[Any]:
    """Return the kind of the first parameter, or `kind` if the annotation is a dynamic or metadata view."""
    parameters = list(inspect.signature(handler.call).parameters.values())
    annotation = _annotations(handler.call, handler.place).get(parameters[0].name) if parameters else None
    if kind is not None:
        view = _view(kind, handler.place)
        if isinstance(annotation, type) and annotation not in (view.type, object) and annotation is not Any:
            raise handler.place.error(
                f"kind= says {view.type.__name__}, but the first parameter is annotated {annotation.__name__}"
            )
        return view
    name = parameters[0].name if parameters else "?"
    if annotation is None:
        raise handler.place.error(
            f"the first parameter, {name!r}, selects the kind: annotate it, for example `{name}: HelloApp`"
        )
    if annotation in (Dynamic, PartialObjectMetadata):
        raise handler.place.error(
            f"{annotation.__name__} does not name a kind: pass kind=dynamic('group/v1', 'Kind') or metadata_of(Kind)"
        )
    if not (isinstance(annotation, type) and issubclass(annotation, Resource)):
        shown = getattr(cast(Any, annotation), "__name__", repr(cast(Any, annotation)))
        raise handler.place.error(f"the first parameter is annotated {shown}, which is not a Resource class")
    return _view(annotation, handler.place)


def converted(handler: Handler, source: Any, target: Any) -> tuple[View[Any], View[Any]]:
    """Return the versions that a converter converts from and to.

    Raises:
        DeclarationError: The annotations and arguments do not name two versions of one kind.
    """
    place = handler.place
    old = kind_of(handler, source)
    if target is None:
        target = _annotations(handler.call, place).get("return")
        if not (isinstance(target, type) and issubclass(target, Resource)):
            raise place.error("annotate the result with the version that it converts to, or pass target=")
    new = _view(target, place, "target")
    if (old.info.group, old.info.kind) != (new.info.group, new.info.kind):
        raise place.error(f"converts between versions of one kind, not {old.info.gvk} and {new.info.gvk}")
    if old.info.version == new.info.version:
        raise place.error(f"converts {old.info.version} to itself")
    return old, new


def reviewed(handler: Handler, kind: Any, subresources: Sequence[str]) -> tuple[View[Any], View[Any]]:
    """Return the kind of the reviewed requests, and the view of the objects that the function receives.

    They differ only for subresources, whose requests may carry another kind, which the annotation names.
    """
    if kind is None or not subresources or "" in subresources:
        view = kind_of(handler, kind)
        return view, view
    view = _view(kind, handler.place)
    parameters = list(inspect.signature(handler.call).parameters.values())
    annotation = _annotations(handler.call, handler.place).get(parameters[0].name)
    if annotation in (Dynamic, PartialObjectMetadata):
        return view, View(view.info, annotation, "dynamic" if annotation is Dynamic else "metadata")
    return view, view if annotation is None else _view(annotation, handler.place)


def views_of(kinds: Any, what: str, place: Place) -> tuple[View[Any], ...]:
    """Return the views of a list of kinds; raises `DeclarationError` with the name of the argument."""
    if isinstance(kinds, type | View | str) or not isinstance(kinds, list | tuple | set | frozenset):
        raise place.error(f"{what}= takes a list of kinds, for example {what}=[Deployment]")
    views = [_view(kind, place, what) for kind in list(cast("list[Any]", kinds))]
    return tuple(dict.fromkeys(views))


def _view(kind: Any, place: Place, what: str = "kind") -> View[Any]:
    try:
        return view_of(kind)
    except TypeError as problem:
        raise place.error(f"{what}=: {problem}") from None


def _callable(what: Any, method: str, place: Place) -> Callable[..., Any]:
    if inspect.isclass(what):
        if not callable(getattr(what, method, None)):
            raise place.error(f"is a class without a `{method}` method")
        try:
            what = cast(Any, what)()
        except TypeError as problem:
            raise place.error(f"cannot be made without arguments ({problem}); pass an instance instead") from None
    if inspect.isroutine(what):
        return what
    bound = getattr(what, method, None)
    if callable(bound):
        return bound
    raise place.error(f"is neither a function nor something with a `{method}` method")


def _check_context(function: Callable[..., Any], parameter: inspect.Parameter, place: Place, *, is_async: bool) -> None:
    from steersman.operator.context import Context, SyncContext

    annotation = _annotations(function, place).get(parameter.name)
    wanted = Context if is_async else SyncContext
    if annotation in (Context, SyncContext) and annotation is not wanted:
        raise place.error(
            f"is {'async' if is_async else 'a plain `def`, which runs in a thread'}, so its {parameter.name!r} is a"
            f" {wanted.__name__}, not a {annotation.__name__}"
        )


def _annotations(function: Callable[..., Any], place: Place) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function)
    except NameError as problem:
        raise place.error(
            f"an annotation cannot be resolved: {problem}. Import the name at run time, outside `if TYPE_CHECKING`"
        ) from None
    except Exception as problem:  # noqa: BLE001 - whatever an annotation raises is the user's to see
        raise place.error(f"an annotation cannot be resolved: {type(problem).__name__}: {problem}") from None


def _expected(shape: Shape) -> str:
    return {
        "object": "expected `(obj: Kind, ctx: Context)` or `(obj: Kind)`",
        "context": "expected `(ctx: Context)` or no parameter",
        "free": "expected at most two parameters",
    }[shape]
