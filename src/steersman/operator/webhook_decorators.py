"""The decorators of an operator that declare webhooks: defaulter, validator, mutator, converter."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar, cast, overload

from steersman.models import KindLike
from steersman.operator.declarations import WebhookDeclaration
from steersman.operator.names import OPERATOR_NAME
from steersman.operator.signatures import converted, reviewed, views_of, webhook_handler
from steersman.webhook.configuration import Purpose, WebhookOptions, WebhookRule, path_of

__all__ = ["WebhookDecorators"]

F = TypeVar("F", bound=Callable[..., Any])

_OPERATIONS = {"create", "update", "delete", "connect"}
_DEFAULT_OPERATIONS = ("create", "update")
_OPTIONS = WebhookOptions()


class WebhookDecorators:
    """The part of `Operator` that declares webhooks.

    A decorator is used without arguments or with keywords. The kind is the annotation of the function's first
    parameter. The arguments of all three admission decorators are the same:

    - `kind`: the kind, where the annotation does not name it, and for subresources.
    - `on`: the operations: "create", "update", "delete" (validators only), "connect"; a string or several.
    - `reads`: kinds that `ctx.get` and `ctx.list` read from the cache, on every replica.
    - `name`: tells two webhooks of one kind apart.
    - `options`: selectors, match conditions, subresources, timeout and failure policy.
    """

    def __init__(self) -> None:
        self._webhooks: list[WebhookDeclaration] = []

    @property
    def webhooks(self) -> tuple[WebhookDeclaration, ...]:
        """The declared webhooks, in the order of their declaration."""
        return tuple(self._webhooks)

    @property
    def webhook_rules(self) -> tuple[WebhookRule, ...]:
        """The requests that the API server sends to the admission webhooks."""
        return tuple(w.rule for w in self._webhooks if w.rule is not None)

    @overload
    def defaulter(self, function: F, /) -> F: ...
    @overload
    def defaulter(
        self,
        function: None = None,
        /,
        *,
        kind: KindLike[Any] | None = None,
        on: str | Iterable[str] = _DEFAULT_OPERATIONS,
        reads: Sequence[KindLike[Any]] = (),
        name: str = "",
        options: WebhookOptions = ...,
    ) -> Callable[[F], F]: ...
    def defaulter(
        self,
        function: Any = None,
        /,
        *,
        kind: KindLike[Any] | None = None,
        on: str | Iterable[str] = _DEFAULT_OPERATIONS,
        reads: Sequence[KindLike[Any]] = (),
        name: str = "",
        options: WebhookOptions = _OPTIONS,
    ) -> Any:
        """Declare a defaulting webhook of a kind of the operator: `(obj: Kind[, ctx: Admission]) -> Kind | None`.

        The returned object replaces the request's, `None` keeps it; fields that the class does not declare are kept.
        The function must be idempotent, because the API server may call it again, and may raise `DeniedError` or
        `Invalid`. Constant defaults belong to the fields of the class, where they cost no request.

        Raises:
            DeclarationError: The function or an argument cannot be used.
        """
        declare = self._admission("defaulter", kind, on, reads, name, options)
        return declare if function is None else declare(function)

    @overload
    def validator(self, function: F, /) -> F: ...
    @overload
    def validator(
        self,
        function: None = None,
        /,
        *,
        kind: KindLike[Any] | None = None,
        on: str | Iterable[str] = _DEFAULT_OPERATIONS,
        reads: Sequence[KindLike[Any]] = (),
        name: str = "",
        options: WebhookOptions = ...,
    ) -> Callable[[F], F]: ...
    def validator(
        self,
        function: Any = None,
        /,
        *,
        kind: KindLike[Any] | None = None,
        on: str | Iterable[str] = _DEFAULT_OPERATIONS,
        reads: Sequence[KindLike[Any]] = (),
        name: str = "",
        options: WebhookOptions = _OPTIONS,
    ) -> Any:
        """Declare a validating webhook: `(new: Kind[, old: Kind | None][, ctx: Admission]) -> list[str] | None`.

        The function raises `Invalid` with a `FieldError` for each field, or `DeniedError`, to deny the request. It may
        return warnings for the client. `old` is `None` for creates; for deletes the first argument is the deleted
        object. Rules that the schema or CEL can express belong there, where they cost no request.

        A request of a subresource (`options`) carries an object of another kind, which the annotation names:
        `kind=Deployment` with `scale` carries a `Scale`, `kind=Pod` with `eviction` an `Eviction`.

        Raises:
            DeclarationError: The function or an argument cannot be used.
        """
        declare = self._admission("validator", kind, on, reads, name, options)
        return declare if function is None else declare(function)

    @overload
    def mutator(self, function: F, /) -> F: ...
    @overload
    def mutator(
        self,
        function: None = None,
        /,
        *,
        kind: KindLike[Any] | None = None,
        on: str | Iterable[str] = _DEFAULT_OPERATIONS,
        reads: Sequence[KindLike[Any]] = (),
        name: str = "",
        options: WebhookOptions = ...,
    ) -> Callable[[F], F]: ...
    def mutator(
        self,
        function: Any = None,
        /,
        *,
        kind: KindLike[Any] | None = None,
        on: str | Iterable[str] = _DEFAULT_OPERATIONS,
        reads: Sequence[KindLike[Any]] = (),
        name: str = "",
        options: WebhookOptions = _OPTIONS,
    ) -> Any:
        """Declare a mutating webhook of any kind: `@operator.mutator(on="create")` on `(pod: Pod) -> Pod | None`.

        The function is like that of `defaulter`.

        Raises:
            DeclarationError: The function or an argument cannot be used.
        """
        declare = self._admission("mutator", kind, on, reads, name, options)
        return declare if function is None else declare(function)

    @overload
    def converter(self, function: F, /) -> F: ...
    @overload
    def converter(
        self,
        function: None = None,
        /,
        *,
        source: KindLike[Any] | None = None,
        target: KindLike[Any] | None = None,
    ) -> Callable[[F], F]: ...
    def converter(
        self,
        function: Any = None,
        /,
        *,
        source: KindLike[Any] | None = None,
        target: KindLike[Any] | None = None,
    ) -> Any:
        """Declare the conversion from one version of a kind to another: `(obj: Source) -> Target`.

        The versions are the annotations of parameter and result. Each direction is a function of its own. Versions
        without a direct function are converted through others, so one hub with a pair of functions for every other
        version is enough. Metadata is copied; a function may change only its labels and annotations.

        Args:
            function: The function, where the decorator is used without arguments.
            source: The version that is converted, if the annotation does not name it.
            target: The version of the result, if the annotation does not name it.

        Raises:
            DeclarationError: The function or the versions cannot be used.
        """

        def declare(function: Any) -> Any:
            handler, takes = webhook_handler(function, "converter")
            old, new = converted(handler, source, target)
            for before in self._webhooks:
                if before.purpose == "converter" and (before.kind.info.gvk, before.to and before.to.info.gvk) == (
                    old.info.gvk,
                    new.info.gvk,
                ):
                    raise handler.place.error(f"this conversion is already declared at {before.place}")
            self._webhooks.append(WebhookDeclaration("converter", old, handler, takes, to=new))
            return function

        return declare if function is None else declare(function)

    def _check_conversions(self) -> None:
        conversions = [w for w in self._webhooks if w.purpose == "converter"]
        if not conversions:
            return
        from steersman.webhook.conversion_review import Conversion, missing

        found = missing([Conversion(w.kind, cast(Any, w.to), w.handler.call, str(w.place)) for w in conversions])
        if found:  # Objects that are stored in one version could not be read in the other.
            raise conversions[0].place.error(f"there is no conversion {', '.join(found)}: declare it")

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
            view, seen = reviewed(handler, kind, options.subresources)
            if unknown := [word for word in operations if word not in _OPERATIONS]:
                raise place.error(f"on={unknown[0]!r}: operations are {', '.join(sorted(_OPERATIONS))}")
            if not operations:
                raise place.error("on=: at least one operation")
            if purpose != "validator" and "delete" in operations:
                raise place.error("on='delete': a deleted object cannot be changed; use a validator")
            if problem := options.problem(mutating=purpose != "validator"):
                raise place.error(problem)
            if name and not OPERATOR_NAME.fullmatch(name):
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
