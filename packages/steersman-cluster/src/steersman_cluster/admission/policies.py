"""ValidatingAdmissionPolicies: CEL rules for writes, applied to the objects that their bindings match.

They are evaluated synchronously on the final object, before the validating webhooks. Texts follow the API server's
`admission/plugin/policy`. The variable `authorizer.requestResource` is not available.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from steersman_cluster.admission.bound_policies import BoundPolicies, ConfigurationError
from steersman_cluster.admission.conditions import ConditionError, Expressions, conditions_match
from steersman_cluster.admission.lookups import Lookups
from steersman_cluster.admission.matching import (
    Equivalent,
    Equivalents,
)
from steersman_cluster.admission.write import Write
from steersman_cluster.auth.rbac import Authorizer
from steersman_cluster.errors import APIError
from steersman_cluster.json_access import get_object, get_objects, get_strings
from steersman_cluster.objects import Object, name_of
from steersman_cluster.strategy import Reader

__all__ = ["Policies"]

_RESOURCES = ("validatingadmissionpolicies", "validatingadmissionpolicybindings")
_MESSAGE_LIMIT_BYTES = 5 * 1024
_CODES = {"Unauthorized": 401, "Forbidden": 403, "RequestEntityTooLarge": 413, "Invalid": 422}


@dataclass(frozen=True, slots=True)
class _Fault:
    """A violation of a policy."""

    message: str
    reason: str = ""
    index: int = 0


class Policies(BoundPolicies):
    """The ValidatingAdmissionPolicies of one API server."""

    def __init__(
        self,
        reader: Reader,
        lookups: Lookups,
        equivalents: Equivalents | None = None,
        authorizer: Authorizer | None = None,
    ) -> None:
        super().__init__(reader, lookups, _RESOURCES, equivalents, authorizer)

    def check(self, write: Write) -> None:
        """Refuse, warn or audit a write that violates a policy, as its binding says. Raises `APIError`."""
        for policy, binding, seen in self.matching(write):
            self._check_bound(policy, binding, seen, write)

    def _check_bound(self, policy: Object, binding: Object, seen: Equivalent, write: Write) -> None:
        spec = get_object(policy, "spec")
        fails = spec.get("failurePolicy") != "Ignore"
        origin = f"ValidatingAdmissionPolicy '{name_of(policy)}' with binding '{name_of(binding)}'"
        try:
            params = self.params(spec, get_object(get_object(binding, "spec"), "paramRef"), write)
        except ConfigurationError as error:
            if fails:
                raise _denied(write, f"{origin} denied request: failed to configure binding: {error}", "") from None
            return
        actions = get_strings(get_object(binding, "spec"), "validationActions")
        for param in params:
            for fault in self._errors(policy, spec, param, seen, write, fails=fails):
                if "Warn" in actions:
                    write.warnings.append(f"Validation failed for {origin}: {fault.message}")
                if "Audit" in actions:
                    annotation = {
                        "message": fault.message,
                        "policy": name_of(policy),
                        "binding": name_of(binding),
                        "expressionIndex": fault.index,
                        "validationActions": actions,
                    }
                    key = "validation.policy.admission.k8s.io/validation_failure"
                    write.audit_annotations.setdefault(key, json.dumps([annotation], separators=(",", ":")))
                if "Deny" in actions:
                    raise _denied(write, f"{origin} denied request: {fault.message}", fault.reason)

    def _errors(
        self, policy: Object, spec: Object, param: Object | None, seen: Equivalent, write: Write, *, fails: bool
    ) -> list[_Fault]:
        bound = self.variables(param, seen, write)
        try:
            conditions = get_objects(spec, "matchConditions")
            if conditions and not conditions_match(conditions, bound):
                return []
            found = _broken(spec, bound, fails=fails)
            _annotate(policy, spec, bound, write)
            return found
        except ConditionError as error:
            return [_Fault(str(error))] if fails else []


def _broken(spec: Object, bound: Mapping[str, Any], *, fails: bool) -> list[_Fault]:
    """The validations that do not hold. Raises `ConditionError` where they cost too much."""
    from steersman_cluster import cel  # late, as in `conditions`

    validations, variables = get_objects(spec, "validations"), get_objects(spec, "variables")
    budget = cel.Budget(cel.OBJECT_BUDGET)
    expressions = Expressions(bound, budget, variables)
    results: list[tuple[bool, str]] = []
    for validation in validations:
        expression = validation.get("expression") or ""
        try:
            results.append((expressions.evaluate(expression) is True, ""))
        except ValueError as error:
            results.append((False, f"expression '{expression}' resulted in error: {error}"))
    try:
        messages, stopped = _messages(validations, Expressions(bound, budget, variables)), ""
    except ConditionError as error:
        messages, stopped = [""] * len(validations), f"failed messageExpression: {error}"
    found: list[_Fault] = []
    for index, (validation, (holds, error)) in enumerate(zip(validations, results, strict=True)):
        if error or stopped:
            found += [_Fault(error or stopped, index=index)] if fails else []
        elif not holds:
            message = messages[index] or (validation.get("message") or "").strip()
            message = message or f"failed expression: {(validation.get('expression') or '').strip()}"
            found.append(_Fault(message, validation.get("reason") or "Invalid", index))
    return found


def _messages(validations: Sequence[Object], expressions: Expressions) -> list[str]:
    """The messages that are made by expressions, "" where there is none. All count towards the budget."""
    found: list[str] = []
    for validation in validations:
        made: Any = None
        if expression := validation.get("messageExpression"):
            with suppress(ValueError):
                made = expressions.evaluate(expression)
        text = made.strip() if isinstance(made, str) else ""
        found.append("" if "\n" in text or len(text.encode()) > _MESSAGE_LIMIT_BYTES else text)
    return found


def _annotate(policy: Object, spec: Object, bound: Mapping[str, Any], write: Write) -> None:
    from steersman_cluster import cel

    expressions = Expressions(bound, cel.Budget(cel.OBJECT_BUDGET), get_objects(spec, "variables"))
    for annotation in get_objects(spec, "auditAnnotations"):
        try:
            value = expressions.evaluate(annotation.get("valueExpression") or "")
        except ValueError:
            continue
        if isinstance(value, str) and value.strip():
            write.audit_annotations.setdefault(f"{name_of(policy)}/{annotation.get('key')}", value.strip()[:10240])


def _denied(write: Write, message: str, reason: str) -> APIError:
    error = write.forbidden(message, {"message": message})
    reason = reason or "Invalid"
    return APIError(_CODES.get(reason, 422), reason, error.message, error.details)
