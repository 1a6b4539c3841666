"""Validation rules (`x-kubernetes-validations`) of a structural schema, compiled once, run wherever they apply.

A walker goes only where rules are. Rules that read `oldSelf` run on updates where the old value can be found;
an unchanged value's failure is forgiven (KEP-4008). Texts are the API server's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, cast

from steersman_cluster.cel.gotext import go_quote, go_value
from steersman_cluster.cel.meter import OBJECT_BUDGET, Budget, Meter
from steersman_cluster.cel.program import CompileError, Program
from steersman_cluster.cel.types import STRING, Type, from_schema, optional_of
from steersman_cluster.cel.values import NONE, CelError, CostLimitError, Optional, converter
from steersman_cluster.crd.correlation import ABSENT, correlate_index, correlate_key
from steersman_cluster.crd.schema_validation import Schema, same
from steersman_cluster.errors import ErrorType, FieldError
from steersman_cluster.objects import Path

__all__ = ["Rule", "RuleError", "Rules", "compile_rules", "field_path"]

_ROOT = Path("")
_MESSAGE_LIMIT = 5 * 1024
_REASONS = {
    "FieldValueForbidden": ErrorType.FORBIDDEN,
    "FieldValueRequired": ErrorType.REQUIRED,
    "FieldValueDuplicate": ErrorType.DUPLICATE,
}
_OVERLOAD_TEXT = "call arguments did not match a supported operator, function or macro signature for rule"
_OUT_OF_BUDGET = "failed due to running out of cost budget, no further validation rules will be run"
_TOO_EXPENSIVE = "no further validation rules will be run due to call cost exceeds limit for"


class Validation:
    """One validation of an object: the errors found so far, and the budget that is left."""

    __slots__ = ("budget", "errors")

    def __init__(self) -> None:
        self.errors: list[FieldError] = []
        self.budget = Budget(OBJECT_BUDGET)

    @property
    def stopped(self) -> bool:
        """Return whether a rule spent too much, after which none is run."""
        return self.budget.left < 0

    def stop(self, error: FieldError) -> None:
        """Add the last error."""
        self.errors.append(error)
        self.budget.left = -1


class Walk(Protocol):
    """Validates the values of one schema."""

    def __call__(self, path: Path, value: Any, old: Any, validation: Validation, *, unchanged: bool) -> None:
        """Add the errors of a value to `validation`; `unchanged` tells whether the list around it is unchanged."""
        ...


class RuleError(ValueError):
    """A rule cannot be compiled; `part` is the field of the rule that is at fault."""

    def __init__(self, part: str, message: str) -> None:
        super().__init__(message)
        self.part = part


class Rule:
    """One rule of one schema node. Raises RuleError where it does not compile."""

    def __init__(self, node: Mapping[str, Any], kind: Type, schema_type: str) -> None:
        self.text = cast(str, node.get("rule") or "").strip()
        self.optional = node.get("optionalOldSelf") is True
        self.schema_type = schema_type
        variables = {"self": kind, "oldSelf": optional_of(kind) if self.optional else kind}
        self.program = _compile("rule", cast(str, node.get("rule") or ""), variables, "compilation failed: ")
        if self.program.result.kind != "bool":
            raise RuleError("rule", "cel expression must evaluate to a bool")
        self.transition = "oldSelf" in self.program.uses
        expression = cast(str, node.get("messageExpression") or "")
        self.expression: Program | None = None
        if expression:
            compiled = _compile("messageExpression", expression, variables, "messageExpression compilation failed: ")
            if compiled.result.kind != STRING.kind:
                raise RuleError("messageExpression", "messageExpression must evaluate to a string")
            self.expression = compiled
        self.message = cast(str, node.get("message") or "").strip()
        self.reason = _REASONS.get(cast(str, node.get("reason") or ""), ErrorType.INVALID)
        self.path = cast(str, node.get("fieldPath") or "")
        self._convert = converter(kind)

    def run(self, path: Path, value: Any, old: Any, validation: Validation, ratchets: Callable[[], bool]) -> None:
        """Add the error of a value that breaks the rule, or of a rule that costs too much."""
        if self.transition and (old is ABSENT or old is None) and not self.optional:
            return
        scope: dict[str, Any] = {"self": value}
        meter = Meter(validation.budget)
        holds, failed = False, None
        try:
            if self.transition:
                scope["oldSelf"] = self._old(old)
            holds = self.program.evaluate(scope, meter) is True
        except CelError as error:
            failed = error
        if not validation.budget.spend(meter.spent):
            validation.stop(_error(ErrorType.INVALID, path, self.schema_type, f"validation {_OUT_OF_BUDGET}"))
        elif failed is not None:
            self._failed(path, failed, validation)
        elif not holds:
            self._broken(path, value, scope, validation, ratchets)

    def _failed(self, path: Path, error: CelError, validation: Validation) -> None:
        shown, text = self.message or self.text, str(error)
        if isinstance(error, CostLimitError):
            validation.stop(
                _error(ErrorType.INVALID, path, self.schema_type, f"'{text}': {_TOO_EXPENSIVE} rule: {shown}")
            )
            return
        overload = text.startswith("no such overload")
        detail = f"'{text}': {_OVERLOAD_TEXT}: {shown}" if overload else f"{text} evaluating rule: {shown}"
        validation.errors.append(_error(ErrorType.INVALID, path, self.schema_type, detail))

    def _broken(
        self, path: Path, value: Any, scope: dict[str, Any], validation: Validation, ratchets: Callable[[], bool]
    ) -> None:
        place = Path(f"{path}{self.path}" if path else self.path.removeprefix(".")) if self.path else path
        is_ratcheted = not self.transition and ratchets()
        try:
            detail = self._detail(scope, validation.budget)
        except _StoppedError as stopped:
            validation.budget.left = -1
            if not is_ratcheted:
                validation.errors.append(_error(ErrorType.INVALID, place, self.schema_type, str(stopped)))
            return
        if not is_ratcheted:
            omitted = self.schema_type in ("object", "array")
            shown = "" if self.reason is ErrorType.DUPLICATE else detail
            validation.errors.append(_error(self.reason, place, value, shown, omit=omitted))

    def _old(self, old: Any) -> Any:
        if not self.optional:
            return old
        if old is ABSENT or old is None:
            return NONE
        return Optional(self._convert(old) if self._convert is not None else old)

    def _detail(self, scope: dict[str, Any], budget: Budget) -> str:
        """The message; raises `_StoppedError` where the expression for it costs too much."""
        text = "" if self.expression is None else self._evaluated(self.expression, scope, budget)
        if text and "\n" not in text and len(text.encode()) <= _MESSAGE_LIMIT:
            return text
        return self.message or f"failed rule: {self.text}"

    def _evaluated(self, expression: Program, scope: dict[str, Any], budget: Budget) -> str:
        meter = Meter(budget)
        text, failed = "", None
        try:
            text = str(expression.evaluate(scope, meter)).strip()
        except CelError as error:
            failed = error
        if not budget.spend(meter.spent):
            raise _StoppedError(f"messageExpression evaluation {_OUT_OF_BUDGET}")
        if isinstance(failed, CostLimitError):
            raise _StoppedError(f"{_TOO_EXPENSIVE} messageExpression: {go_quote(expression.expression)}")
        return text


class _StoppedError(Exception):
    """The cost of a message expression exceeds a limit, which the text names."""


def _error(kind: ErrorType, path: Path, value: Any, detail: str, *, omit: bool = False) -> FieldError:
    if omit and kind in (ErrorType.INVALID, ErrorType.DUPLICATE):
        return _OmittedFieldError(kind, path or Path("<nil>"), None, detail)
    return FieldError(kind, path or Path("<nil>"), value, detail, go_value(value))


class _OmittedFieldError(FieldError):
    """An error that does not show its value, since it may be large."""

    __slots__ = ()

    @property
    def body(self) -> str:
        prefix = "Invalid value" if self.type is ErrorType.INVALID else "Duplicate value"
        return f"{prefix}: {self.detail}" if self.detail else prefix


def _compile(part: str, text: str, variables: Mapping[str, Type], prefix: str) -> Program:
    raw = frozenset({"self"}) | ({"oldSelf"} if variables["oldSelf"].kind != "optional" else frozenset[str]())
    try:
        return Program(text, variables, raw)
    except CompileError as error:
        raise RuleError(part, f"{prefix}{error}") from None


class Rules:
    """The compiled rules of one schema."""

    def __init__(self, walk: Walk) -> None:
        self._walk = walk

    def validate(self, obj: Any, old: Any, path: Path = _ROOT) -> list[FieldError]:
        """Return the errors of a value within the cost budget; `old` is ABSENT on create."""
        validation = Validation()
        self._walk(path, obj, old, validation, unchanged=False)
        return validation.errors


def compile_rules(schema: Schema, *, root: bool = True) -> Rules | None:
    """Return the rules of a valid schema; `None` if it has none. `root` marks a whole resource."""
    walk = _node(schema, schema, from_schema(schema, root=root), root=root)
    return Rules(walk) if walk is not None else None


def _node(  # noqa: C901 - one closure, made of what the node has
    rules_of: Schema, schema: Schema, kind: Type | None, *, root: bool = False
) -> Walk | None:
    """The walker of one node; `rules_of` differs from `schema` inside of allOf, where types come from outside."""
    own: list[Rule] = []
    if kind is not None:
        schema_type = cast(str, schema.get("type") or ("object" if root else ""))
        written = cast("Iterable[Mapping[str, Any]]", rules_of.get("x-kubernetes-validations") or ())
        own = [Rule(node, kind, schema_type) for node in written if cast(str, node.get("rule") or "").strip()]
    fields = _fields(rules_of, schema)
    each = _inner(rules_of, schema, "items")
    rest = _inner(rules_of, schema, "additionalProperties")
    every = [
        found
        for node in cast("Iterable[Schema]", rules_of.get("allOf") or ())
        if (found := _node(node, schema, kind, root=root)) is not None
    ]
    if not own and not fields and each is None and rest is None and not every:
        return None
    properties = cast("Mapping[str, Any]", schema.get("properties") or {})

    def walk(path: Path, value: Any, old: Any, validation: Validation, *, unchanged: bool) -> None:
        if value is None:
            return
        if own:
            _run_rules(own, path, value, old, validation, unchanged=unchanged)
        for other in every:
            if validation.stopped:
                return
            other(path, value, old, validation, unchanged=unchanged)
        for child, place, item, before, whole in _parts(path, value, old, unchanged=unchanged):
            if validation.stopped:
                return
            child(place, item, before, validation, unchanged=whole)

    def _parts(path: Path, value: Any, old: Any, *, unchanged: bool) -> Iterator[tuple[Walk, Path, Any, Any, bool]]:
        """The parts of a value that have rules: walkers, paths, values, old values, and whether all is unchanged."""
        if isinstance(value, dict):
            values = cast("dict[str, Any]", value)
            for name, child in fields.items():
                if name in values:
                    yield child, path / name, values[name], correlate_key(schema, old, name), unchanged
            if rest is not None:
                for name, item in values.items():
                    if name not in properties:
                        yield rest, path.key(name), item, correlate_key(schema, old, name), unchanged
        elif each is not None and isinstance(value, list):
            items = cast("list[Any]", value)
            # Items of other lists have no identity: they are unchanged when the whole list is.
            whole = old is not ABSENT and schema.get("x-kubernetes-list-type") != "map" and same(items, old)
            for index, item in enumerate(items):
                yield each, path.at(index), item, correlate_index(schema, items, old, index), whole

    return walk


def _run_rules(own: list[Rule], path: Path, value: Any, old: Any, validation: Validation, *, unchanged: bool) -> None:
    if validation.budget.left <= 0:
        schema_type = own[0].schema_type
        validation.stop(_error(ErrorType.INVALID, path, schema_type, f"validation {_OUT_OF_BUDGET}"))

    def ratchets() -> bool:
        return same(value, old) if old is not ABSENT else unchanged

    for rule in own:
        if validation.stopped:
            return
        rule.run(path, value, old, validation, ratchets)


def _fields(rules_of: Schema, schema: Schema) -> dict[str, Walk]:
    found: dict[str, Walk] = {}
    types = cast("Mapping[str, Schema]", schema.get("properties") or {})
    for name, node in cast("Mapping[str, Schema]", rules_of.get("properties") or {}).items():
        if name in types:
            walk = _node(node, types[name], from_schema(types[name], name))
            if walk is not None:
                found[name] = walk
    return found


def _inner(rules_of: Schema, schema: Schema, part: str) -> Walk | None:
    node, shape = rules_of.get(part), schema.get(part)
    if not isinstance(node, Mapping) or not isinstance(shape, Mapping):
        return None
    inner = cast(Schema, shape)
    return _node(cast(Schema, node), inner, from_schema(inner))


def field_path(path: str, schema: Schema) -> tuple[str, Schema]:  # noqa: C901
    """The path of a rule's `fieldPath` as errors write it, and the schema there; raises ValueError."""
    node, shown = schema, ""
    tokens: Sequence[str] = re.findall(r"'(?:[^'\\]|\\.)*'|[.\[\]]|[^.\[\]']+", path)
    index = 0
    while index < len(tokens):
        token = tokens[index]
        bracket = token == "["  # noqa: S105
        if token not in (".", "["):
            raise ValueError(f"expected [ or . but got: {token}")
        if index + 1 >= len(tokens):
            raise ValueError("unexpected end of JSON path")
        name = tokens[index + 1]
        if bracket:
            if len(name) < 2 or name[0] != "'" or name[-1] != "'":
                raise ValueError(f"expected single quoted string but got {name}")
            name = re.sub(r"\\(.)", r"\1", name[1:-1])
            if index + 2 >= len(tokens):
                raise ValueError("unexpected end of JSON path")
            if tokens[index + 2] != "]":
                raise ValueError(f"expected ] but got {tokens[index + 2]}")
        index += 3 if bracket else 2
        properties = node.get("properties")
        more = node.get("additionalProperties")
        if properties is not None:
            if name not in properties:
                raise ValueError("does not refer to a valid field")
            node, shown = cast(Schema, properties[name]), f"{shown}.{name}"
        elif isinstance(more, Mapping):
            node, shown = cast(Schema, more), f"{shown}[{name}]"
        else:
            raise ValueError("does not refer to a valid field")
    return shown, node
