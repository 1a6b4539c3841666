"""Validation rules (`x-kubernetes-validations`) of a structural schema, compiled once, run wherever they apply.

A walker goes only where rules are. Rules that read `oldSelf` run on updates where the old value can be found;
an unchanged value's failure is forgiven (KEP-4008). Texts are the API server's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, cast

from steersman.devcluster.cel.gotext import go_value
from steersman.devcluster.cel.program import CompileError, Program
from steersman.devcluster.cel.types import STRING, Type, from_schema, optional_of
from steersman.devcluster.cel.values import NONE, CelError, Optional, converter
from steersman.devcluster.crd.checking import Schema, same
from steersman.devcluster.crd.correlation import ABSENT, correlate_index, correlate_key
from steersman.devcluster.errors import ErrorType, FieldError
from steersman.devcluster.objects import Path

__all__ = ["Rule", "RuleError", "Rules", "compile_rules", "field_path"]

_ROOT = Path("")
_MESSAGE_LIMIT = 5 * 1024
_REASONS = {
    "FieldValueForbidden": ErrorType.FORBIDDEN,
    "FieldValueRequired": ErrorType.REQUIRED,
    "FieldValueDuplicate": ErrorType.DUPLICATE,
}
_OVERLOAD_TEXT = "call arguments did not match a supported operator, function or macro signature for rule"
Walk: TypeAlias = Callable[[Path, Any, Any, bool, list[FieldError]], None]
"""Path, value, old value, whether the whole is unchanged, and where errors go."""


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

    def run(self, path: Path, value: Any, old: Any, found: list[FieldError], forgiven: Callable[[], bool]) -> None:
        """Append the error of a value that breaks the rule."""
        if self.transition and (old is ABSENT or old is None) and not self.optional:
            return
        scope: dict[str, Any] = {"self": value}
        try:
            if self.transition:
                scope["oldSelf"] = self._old(old)
            if self.program.evaluate(scope) is True:
                return
        except CelError as error:
            shown = self.message or self.text
            text = str(error)
            detail = f"'{text}': {_OVERLOAD_TEXT}: {shown}" if text.startswith("no such overload") else ""
            found.append(
                _error(ErrorType.INVALID, path, self.schema_type, detail or f"{text} evaluating rule: {shown}")
            )
            return
        if not self.transition and forgiven():
            return
        place = Path(f"{path}{self.path}" if path else self.path.removeprefix(".")) if self.path else path
        omitted = self.schema_type in ("object", "array")
        detail = "" if self.reason is ErrorType.DUPLICATE else self._detail(scope)
        found.append(_error(self.reason, place, value, detail, omit=omitted))

    def _old(self, old: Any) -> Any:
        if not self.optional:
            return old
        if old is ABSENT or old is None:
            return NONE
        return Optional(self._convert(old) if self._convert is not None else old)

    def _detail(self, scope: dict[str, Any]) -> str:
        if self.expression is not None:
            try:
                text = str(self.expression.evaluate(scope)).strip()
            except CelError:
                text = ""
            if text and "\n" not in text and len(text.encode()) <= _MESSAGE_LIMIT:
                return text
        return self.message or f"failed rule: {self.text}"


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
        """What the rules say of a value; `old` is ABSENT on create."""
        found: list[FieldError] = []
        self._walk(path, obj, old, False, found)
        return found


def compile_rules(schema: Schema, *, root: bool = True) -> Rules | None:
    """The rules of a schema that was accepted; `None` where it has none. `root` says that it is a whole resource's."""
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

    def walk(path: Path, value: Any, old: Any, unchanged: bool, found: list[FieldError]) -> None:  # noqa: C901
        if value is None:
            return
        if own:
            known = old is not ABSENT

            def forgiven() -> bool:
                return same(value, old) if known else unchanged

            for rule in own:
                rule.run(path, value, old, found, forgiven)
        for other in every:
            other(path, value, old, unchanged, found)
        if isinstance(value, dict):
            values = cast("dict[str, Any]", value)
            for name, child in fields.items():
                if name in values:
                    child(path / name, values[name], correlate_key(schema, old, name), unchanged, found)
            if rest is not None:
                for name, item in values.items():
                    if name not in properties:
                        rest(path.key(name), item, correlate_key(schema, old, name), unchanged, found)
        elif each is not None and isinstance(value, list):
            items = cast("list[Any]", value)
            # Items of other lists have no identity: they are unchanged when the whole list is.
            whole = old is not ABSENT and schema.get("x-kubernetes-list-type") != "map" and same(items, old)
            for index, item in enumerate(items):
                each(path.at(index), item, correlate_index(schema, items, old, index), whole, found)

    return walk


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
