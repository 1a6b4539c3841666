"""Compile checks of the CEL expressions in admission policies and match conditions.

Follows Kubernetes' `pkg/apis/admissionregistration/validation` and apiserver's `admission/plugin/cel`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Final

from steersman_cluster.errors import FieldError, field_invalid
from steersman_cluster.objects import Path

if TYPE_CHECKING:
    from steersman_cluster.cel import Type

__all__ = ["ExpressionCheck", "is_identifier"]

_IDENTIFIER: Final = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*")
_RESERVED: Final = frozenset({
    "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let",
    "loop", "package", "namespace", "return", "var", "void", "while",
})  # fmt: skip


def is_identifier(name: str) -> bool:
    """Return whether a name is an identifier of CEL."""
    return _IDENTIFIER.fullmatch(name) is not None and name not in _RESERVED


class ExpressionCheck:
    """Checks the expressions of one policy or webhook.

    Args:
        params: Whether the variable `params` is declared.
        composed: Whether expressions may read `variables`.
    """

    def __init__(self, *, params: bool = False, composed: bool = False) -> None:
        self._params = params
        self._composed: dict[str, Type] | None = {} if composed else None

    def check(
        self,
        path: Path,
        expression: str,
        *results: str,
        shown: str | None = None,
        authorizer: bool = True,
        patches: bool = False,
    ) -> list[FieldError]:
        """Return the error of an expression that does not compile, or has none of these result types (all, without).

        `shown` is the text that the error quotes, where that is not the compiled one.
        """
        errors, _ = self._compiled(path, expression, results, shown, authorizer=authorizer, patches=patches)
        return errors

    def declare(self, path: Path, name: str, expression: str) -> list[FieldError]:
        """Check the expression of a variable, and declare it for the expressions after it."""
        from steersman_cluster import cel

        errors, result = self._compiled(path, expression, (), None, authorizer=True, patches=False)
        if self._composed is not None:
            self._composed[name] = result or cel.ANY
        return errors

    def _compiled(
        self,
        path: Path,
        expression: str,
        results: Sequence[str],
        shown: str | None,
        *,
        authorizer: bool,
        patches: bool,
    ) -> tuple[list[FieldError], Type | None]:
        from steersman_cluster import cel  # late, for CEL is large and most clusters have no policy

        quoted = expression if shown is None else shown
        try:
            program = cel.compile(expression, self._variables(authorizer=authorizer), patches=patches)
        except cel.CompileError as error:
            return [field_invalid(path, quoted, f"compilation failed: {error}")], None
        result = program.result
        if results and result.kind not in results and str(result) not in results:
            wanted = results[0] if len(results) == 1 else f"one of [{' '.join(results)}]"
            return [field_invalid(path, quoted, f"must evaluate to {wanted} but got {result}")], result
        return [], result

    def _variables(self, *, authorizer: bool) -> Mapping[str, Type]:
        from steersman_cluster import cel

        found = dict(_declared())
        if self._params:
            found["params"] = cel.ANY
        if authorizer:
            found["authorizer"] = cel.opaque("kubernetes.authorization.Authorizer")
        if self._composed is not None:
            found["variables"] = cel.object_of("kubernetes.variables", dict(self._composed))
        return found


@cache
def _declared() -> Mapping[str, Type]:
    """The variables that every expression has."""
    from steersman_cluster import cel
    from steersman_cluster.cel.types import TIMESTAMP

    text, texts = cel.STRING, cel.list_of(cel.STRING)
    words = cel.map_of(text, text)

    def record(name: str, /, **fields: Type) -> Type:
        return cel.object_of(f"kubernetes.{name}", fields)

    kind = record("GroupVersionKind", group=text, version=text, kind=text)
    resource = record("GroupVersionResource", group=text, version=text, resource=text)
    user = record("UserInfo", username=text, uid=text, groups=texts, extra=cel.map_of(text, texts))
    request = record(
        "AdmissionRequest", kind=kind, resource=resource, subResource=text, requestKind=kind, requestResource=resource,
        requestSubResource=text, name=text, namespace=text, operation=text, userInfo=user, dryRun=cel.BOOL,
        options=cel.ANY,
    )  # fmt: skip
    condition = record(
        "NamespaceCondition", status=text, type=text, lastTransitionTime=TIMESTAMP, message=text, reason=text
    )
    metadata = record(
        "NamespaceMetadata", name=text, generateName=text, namespace=text, labels=words, annotations=words, UID=text,
        creationTimestamp=TIMESTAMP, deletionGracePeriodSeconds=cel.INT, deletionTimestamp=TIMESTAMP,
        generation=cel.INT, resourceVersion=text, finalizers=texts,
    )  # fmt: skip
    status = record("NamespaceStatus", conditions=cel.list_of(condition), phase=text)
    namespace = record("Namespace", metadata=metadata, spec=record("NamespaceSpec", finalizers=texts), status=status)
    return {"object": cel.ANY, "oldObject": cel.ANY, "namespaceObject": namespace, "request": request}
