"""Admission policies and their bindings: defaults and validation, expressions included."""

from __future__ import annotations

import re
from typing import Any, Final

from steersman_cluster.errors import ErrorType, FieldError, field_forbidden, field_invalid, required
from steersman_cluster.json_access import get_list, get_object, get_string
from steersman_cluster.kinds import columns
from steersman_cluster.kinds import names as check
from steersman_cluster.kinds.admission.expressions import ExpressionCheck, is_identifier
from steersman_cluster.kinds.admission.webhooks import conditions, rule_errors
from steersman_cluster.kinds.plain import Plain
from steersman_cluster.objects import Object, Path, name_of
from steersman_cluster.strategy import Column, WriteContext

__all__ = ["STRATEGIES", "AdmissionPolicy", "AdmissionPolicyBinding"]

_AUDIT_EXPRESSION_MAX_BYTES: Final = 5 * 1024


class AdmissionPolicy(Plain):
    """ValidatingAdmissionPolicy and MutatingAdmissionPolicy."""

    unconditional_update = False

    namespaced = False
    generation = True
    has_status = True

    def __init__(self, what: str) -> None:
        self.what = what
        title = what.capitalize()
        self.columns = (
            columns.NAME,
            Column(title, "integer", description=f"How many {what}."),
            Column("ParamKind", description="The kind of its parameters."),
            columns.AGE,
        )

    def row(self, obj: Object, now: float) -> list[Any]:
        spec = get_object(obj, "spec")
        kind = spec.get("paramKind")
        shown = f"{get_string(kind, 'apiVersion')}/{get_string(kind, 'kind')}" if kind else columns.UNSET
        return [columns.name(obj), len(get_list(spec, self.what)), shown, columns.age(obj, now)]

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        spec.setdefault("failurePolicy", "Fail")
        if (match := spec.get("matchConstraints")) is not None:
            default_match(match)

    def prepare_create(self, obj: Object, ctx: WriteContext) -> None:
        super().prepare_create(obj, ctx)
        if self.what == "validations":
            obj["status"] = {}

    def errors(self, obj: Object) -> list[FieldError]:
        spec, path = get_object(obj, "spec"), Path("spec")
        match = spec.get("matchConstraints")
        found = [required(path / "matchConstraints")] if match is None else _match(path / "matchConstraints", match)
        if self.what == "validations" and not spec.get("validations") and not spec.get("auditAnnotations"):
            text = "validations or auditAnnotations must contain at least one item"
            found += [required(path / field, text) for field in ("validations", "auditAnnotations")]
        if self.what == "mutations":
            found += _operations(path / "matchConstraints", match or {})
        if self.what == "mutations" and not spec.get("mutations"):
            found.append(required(path / "mutations", "mutations must contain at least one item"))
        if (policy := spec.get("failurePolicy")) is not None:
            found += check.enum(path / "failurePolicy", policy, ("Fail", "Ignore"))
        return found + self._expressions(path, spec, name_of(obj))

    def _expressions(self, path: Path, spec: Object, name: str) -> list[FieldError]:
        params = spec.get("paramKind") is not None
        found = conditions(path / "matchConditions", get_list(spec, "matchConditions"), params=params)
        variables = get_list(spec, "variables")
        checks = ExpressionCheck(params=params, composed=bool(variables) or self.what == "mutations")
        for index, variable in enumerate(variables):
            found += _variable((path / "variables").at(index), variable, checks)
        if self.what == "mutations":
            for index, mutation in enumerate(get_list(spec, "mutations")):
                found += _mutation((path / "mutations").at(index), mutation, checks)
            again = get_string(spec, "reinvocationPolicy")
            at = path / "reinvocationPolicy"
            found += check.enum(at, again, ("IfNeeded", "Never")) if again else [required(at)]
            return found
        for index, validation in enumerate(get_list(spec, "validations")):
            found += _validation((path / "validations").at(index), validation, checks)
        annotations = get_list(spec, "auditAnnotations")
        for index, annotation in enumerate(annotations):
            at = (path / "auditAnnotations").at(index)
            found += _audit_annotation(at, annotation, name, checks)
            if get_string(annotation, "key") in [get_string(other, "key") for other in annotations[:index]]:
                found.append(FieldError(ErrorType.DUPLICATE, at / "key", get_string(annotation, "key")))
        return found


def _operations(path: Path, match: Object) -> list[FieldError]:
    """Errors of the rules of a mutating policy, which changes no object that is deleted."""
    at = path / "resourceRules" / "operations"
    found: list[FieldError] = []
    for rule in get_list(match, "resourceRules"):
        for operation in get_list(rule, "operations"):
            found += check.enum(at, operation, ("*", "CONNECT", "CREATE", "UPDATE"))
    return found


def _param_reference(path: Path, reference: Object) -> list[FieldError]:
    name, selector = get_string(reference, "name"), reference.get("selector")
    both = "name and selector are mutually exclusive"
    found: list[FieldError] = []
    if name and selector is not None:
        found.append(field_forbidden(path / "name", both))
    if selector is not None:
        found += check.label_selector(path / "selector", selector)
        if name:
            found.append(field_forbidden(path / "selector", both))
    if not name and selector is None:
        found.append(required(path, "one of name or selector must be specified"))
    action = get_string(reference, "parameterNotFoundAction")
    at = path / "parameterNotFoundAction"
    found += check.enum(at, action, ("Deny", "Allow")) if action else [required(at)]
    return found


def _variable(path: Path, variable: Object, checks: ExpressionCheck) -> list[FieldError]:
    name, expression = get_string(variable, "name"), get_string(variable, "expression")
    found: list[FieldError] = []
    if not name.strip():
        found.append(required(path / "name", "name is not specified"))
    elif not is_identifier(name):
        found.append(field_invalid(path / "name", name, "must be a valid CEL identifier"))
    if not expression.strip():
        return [*found, required(path / "expression", "expression is not specified")]
    return found + checks.declare(path / "expression", name, expression)


def _validation(path: Path, validation: Object, checks: ExpressionCheck) -> list[FieldError]:
    found: list[FieldError] = []
    expression, message = get_string(validation, "expression"), get_string(validation, "message")
    if expression.strip():
        found += checks.check(path / "expression", expression, "bool")
    else:
        found.append(required(path / "expression", "expression is not specified"))
    if composed := get_string(validation, "messageExpression"):
        at = path / "messageExpression"
        if composed.strip():
            found += checks.check(at, composed, "string", authorizer=False)
        else:
            found.append(field_invalid(at, composed, "must be non-empty if specified"))
    if message and not message.strip():
        found.append(field_invalid(path / "message", message, "must be non-empty if specified"))
    elif re.search(r"[\n\r]", message.strip()):
        found.append(field_invalid(path / "message", message, "must not contain line breaks"))
    if (reason := validation.get("reason")) is not None:
        known = ("Forbidden", "Invalid", "RequestEntityTooLarge")
        found += check.enum(path / "reason", reason, known)
    return found


def _audit_annotation(path: Path, annotation: Object, name: str, checks: ExpressionCheck) -> list[FieldError]:
    key, expression = get_string(annotation, "key"), get_string(annotation, "valueExpression")
    found: list[FieldError] = []
    if name:
        found += check.qualified_name(path / "key", f"{name}/{key}")
    else:
        found.append(field_invalid(path / "key", key, "requires metadata.name be non-empty"))
    at = path / "valueExpression"
    if not expression.strip():
        found.append(required(at, "valueExpression is not specified"))
    elif len(expression.strip()) > _AUDIT_EXPRESSION_MAX_BYTES:
        found.append(required(at, f"must not exceed {_AUDIT_EXPRESSION_MAX_BYTES} bytes in length"))
    else:
        found += checks.check(at, expression.strip(), "string", "null_type", shown=expression)
    return found


def _mutation(path: Path, mutation: Object, checks: ExpressionCheck) -> list[FieldError]:
    kinds = {"ApplyConfiguration": ("applyConfiguration", "Object"), "JSONPatch": ("jsonPatch", "list(JSONPatch)")}
    kind = get_string(mutation, "patchType")
    if not kind:
        return [required(path / "patchType")]
    if kind not in kinds:
        return check.enum(path / "patchType", kind, tuple(kinds))
    field, result = kinds[kind]
    found: list[FieldError] = []
    if mutation.get(field) is None:
        found.append(required(path / field, f"must be specified when patchType is {kind}"))
    elif expression := get_string(get_object(mutation, field), "expression").strip():
        found += checks.check(path / field / "expression", expression, result, patches=True)
    else:
        found.append(required(path / field / "expression"))
    (other,) = [name for name, _ in kinds.values() if name != field]
    if mutation.get(other) is not None:
        found.append(field_invalid(path / other, f"{{{other}}}", f"must not be specified when patchType is {kind}"))
    return found


def default_match(match: Object) -> None:
    """Fill in what a policy's `matchResources` leaves open."""
    match.setdefault("matchPolicy", "Equivalent")
    match.setdefault("namespaceSelector", {})
    match.setdefault("objectSelector", {})
    for rule in (*get_list(match, "resourceRules"), *get_list(match, "excludeResourceRules")):
        rule.setdefault("scope", "*")


def _match(path: Path, match: Object) -> list[FieldError]:
    found = _match_errors(path, match)
    return found if match.get("resourceRules") else [*found, required(path / "resourceRules")]


def _match_errors(path: Path, match: Object) -> list[FieldError]:
    found: list[FieldError] = []
    if (policy := match.get("matchPolicy")) is not None:
        found += check.enum(path / "matchPolicy", policy, ("Equivalent", "Exact"))
    for field in ("namespaceSelector", "objectSelector"):
        found += check.label_selector(path / field, match.get(field))
    for field in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(get_list(match, field)):
            found += rule_errors((path / field).at(index), rule)
    return found


class AdmissionPolicyBinding(Plain):
    """The rules of AdmissionPolicyBinding objects."""

    unconditional_update = False

    namespaced = False
    generation = True
    columns = (
        columns.NAME,
        Column("PolicyName", description="Which policy."),
        Column("ParamRef", description="Which parameters."),
        columns.AGE,
    )

    def __init__(self, *, acts: bool) -> None:
        self._acts = acts

    def row(self, obj: Object, now: float) -> list[Any]:
        spec = get_object(obj, "spec")
        reference = spec.get("paramRef")
        shown = columns.UNSET
        if reference is not None:
            name, namespace = get_string(reference, "name"), get_string(reference, "namespace")
            shown = f"{namespace}/{name}" if namespace else f"*/{name}"
        return [columns.name(obj), get_string(spec, "policyName"), shown, columns.age(obj, now)]

    def default(self, obj: Object) -> None:
        if (match := get_object(obj, "spec").get("matchResources")) is not None:
            default_match(match)

    def errors(self, obj: Object) -> list[FieldError]:
        spec, path = get_object(obj, "spec"), Path("spec")
        policy = get_string(spec, "policyName")
        found = check.dns_subdomain(path / "policyName", policy) if policy else [required(path / "policyName")]
        if (reference := spec.get("paramRef")) is not None:
            found += _param_reference(path / "paramRef", reference)
        if (match := spec.get("matchResources")) is not None:
            found += _match_errors(path / "matchResources", match)
        if self._acts:
            return found + self._actions(path / "validationActions", spec)
        return found + _operations(path / "matchResources", get_object(spec, "matchResources"))

    def _actions(self, path: Path, spec: Object) -> list[FieldError]:
        actions = get_list(spec, "validationActions")
        if not actions:
            return [required(path, "at least one validation action is required")]
        found: list[FieldError] = []
        for index, action in enumerate(actions):
            found += check.enum(path.at(index), action, ("Audit", "Deny", "Warn"))
            if action in actions[:index]:
                found.append(FieldError(ErrorType.DUPLICATE, path.at(index), action))
        if {"Deny", "Warn"} <= set(actions):
            text = "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)"  # noqa: E501
            found.append(field_invalid(path, actions, text))
        return found


_GROUP = "admissionregistration.k8s.io"

STRATEGIES = {
    (_GROUP, "v1", "ValidatingAdmissionPolicy"): AdmissionPolicy("validations"),
    (_GROUP, "v1", "ValidatingAdmissionPolicyBinding"): AdmissionPolicyBinding(acts=True),
    (_GROUP, "v1", "MutatingAdmissionPolicy"): AdmissionPolicy("mutations"),
    (_GROUP, "v1", "MutatingAdmissionPolicyBinding"): AdmissionPolicyBinding(acts=False),
}
