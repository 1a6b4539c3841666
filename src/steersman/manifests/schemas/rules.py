"""CEL rules: those of users, and those of markers (one-of, immutability).

The rules are text. The check of a manifest compiles them if it has a CEL implementation.
"""

from __future__ import annotations

import re
from typing import Any, Final, cast

from steersman.manifests.errors import Problems
from steersman.manifests.schemas.fields import origin_of
from steersman.manifests.schemas.node import Node
from steersman.models.markers import CEL, AtLeastOneOf, AtMostOneOf, ExactlyOneOf

__all__ = ["add_class_rules", "add_immutables", "cel_name", "check_cost", "one_of_rules", "rule_of", "wire_steps"]

_RESERVED: Final = frozenset({
    "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let",
    "loop", "package", "namespace", "return", "var", "void", "while",
})  # fmt: skip
_REASONS: Final = ("FieldValueInvalid", "FieldValueForbidden", "FieldValueRequired", "FieldValueDuplicate")


def cel_name(name: str) -> str:
    """Return a property name as CEL needs it: reserved words and punctuation are escaped like in the API server."""
    if name in _RESERVED:
        return f"__{name}__"
    escaped = name.replace("__", "__underscores__").replace(".", "__dot__").replace("-", "__dash__")
    return escaped.replace("/", "__slash__")


def rule_of(marker: CEL, node: Node, problems: Problems) -> dict[str, Any]:  # noqa: C901 - one line per field
    """Return the entry of `x-kubernetes-validations` for a rule on a node."""
    rule: dict[str, Any] = {"rule": marker.rule}
    if not marker.rule.strip():
        problems.add(node.origin, "CEL: the rule is empty")
    if marker.message:
        rule["message"] = marker.message
    if marker.message_expression:
        rule["messageExpression"] = marker.message_expression
    if marker.reason:
        if marker.reason not in _REASONS:
            problems.add(node.origin, f"CEL: reason {marker.reason!r} is none of {', '.join(_REASONS)}")
        rule["reason"] = marker.reason
    if marker.field_path:
        steps = wire_steps(node, marker.field_path)
        if steps is None:
            problems.add(node.origin, f"CEL: field_path {marker.field_path!r} does not exist in the schema")
        else:
            rule["fieldPath"] = "".join(f".{step}" if _PLAIN.fullmatch(step) else f"['{step}']" for step in steps)
    if marker.optional_old_self is not None:
        rule["optionalOldSelf"] = marker.optional_old_self
    if "\n" in marker.rule.strip() and not (marker.message or marker.message_expression):
        problems.add(node.origin, "CEL: a rule of several lines needs a message")
    if "\n" in marker.message:
        problems.add(node.origin, "CEL: the message must be a single line")
    return rule


_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def wire_steps(node: Node, path: str) -> list[str] | None:
    """Return the JSON names of a dotted path of Python or JSON names; `None` if a field does not exist."""
    steps: list[str] = []
    for step in path.strip(".").split("."):
        found = node.child(step)
        if found is not None:
            wire, node = found
        elif node.values is not None:
            wire, node = step, node.values
        else:
            return None
        steps.append(wire)
    return steps


def one_of_rules(
    marker: ExactlyOneOf | AtMostOneOf | AtLeastOneOf, node: Node, problems: Problems
) -> list[dict[str, Any]]:
    """Return the rules of a one-of marker."""
    names: list[str] = []
    for name in marker.names:
        found = node.child(name)
        if found is None:
            problems.add(node.origin, f"{type(marker).__name__}: the field {name!r} does not exist")
        elif found[0] in node.required or "default" in found[1].keywords:
            problems.add(node.origin, f"{type(marker).__name__}: {name!r} is always set; give it the default None")
        else:
            names.append(found[0])
    if len(names) < len(marker.names):
        return []
    # Sums of numbers instead of a filtered list: the API server estimates a too high cost for a filter in an unbounded
    # list.
    present = [f"has(self.{cel_name(name)})" for name in names]
    total = " + ".join(f"({test} ? 1 : 0)" for test in present)
    match marker:
        case ExactlyOneOf():
            rule, words = f"{total} == 1", "exactly one"
        case AtMostOneOf():
            rule, words = f"{total} <= 1", "at most one"
        case AtLeastOneOf():
            rule, words = " || ".join(present), "at least one"
    return [{"rule": rule, "message": f"{words} of {', '.join(names)} must be set"}]


def add_class_rules(node: Node, cls: type, problems: Problems) -> None:
    """Add `__rules__` of a class and its bases, those of bases first."""
    described = Node(node.keywords, origin_of(cls), node.properties, node.names, node.required, values=node.values)
    for base in reversed(cls.__mro__):
        rules: Any = base.__dict__.get("__rules__", ())
        for marker in cast("tuple[Any, ...]", rules if isinstance(rules, tuple) else (rules,)):
            match marker:
                case CEL():
                    node.rules.append(rule_of(marker, described, problems))
                case ExactlyOneOf() | AtMostOneOf() | AtLeastOneOf():
                    node.rules += one_of_rules(marker, described, problems)
                case _:
                    problems.add(described.origin, f"__rules__ holds CEL(…) and …OneOf(…), not {marker!r}")


def add_immutables(node: Node) -> None:
    """Add rules that optional immutable fields are not removed, which a rule on the field itself cannot detect."""
    for name, child in node.properties.items():
        immutable = any(rule["rule"] == "self == oldSelf" for rule in child.rules)
        if immutable and name not in node.required and "default" not in child.keywords:
            text = f"self.{cel_name(name)}"
            rule = f"!has(old{text[0].upper()}{text[1:]}) || has({text})"
            node.rules.append({"rule": rule, "message": f"{name} is immutable"})


def check_cost(node: Node, problems: Problems, *, unbounded: bool = False) -> None:
    """Report rules that the API server refuses as too expensive: comparisons of unbounded texts in unbounded lists."""
    k = node.keywords
    endless = node.type == "string" and not ({"maxLength", "enum", "format"} & k.keys())
    if unbounded and endless and any(rule["rule"] == "self == oldSelf" for rule in node.rules):
        problems.add(
            node.origin, "Immutable: it needs a MaxLength, and the list or map around it MaxItems or MaxProperties"
        )
    for child in node.properties.values():
        check_cost(child, problems, unbounded=unbounded)
    if node.items is not None:
        check_cost(node.items, problems, unbounded=unbounded or "maxItems" not in k)
    if node.values is not None:
        check_cost(node.values, problems, unbounded=unbounded or "maxProperties" not in k)
