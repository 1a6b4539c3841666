"""ValidatingAdmissionPolicies: rules in CEL that a write must keep, bound to what they concern by bindings.

Evaluated on the finished object before the validating webhooks, and at once: no write waits for them. Texts follow
the API server's `admission/plugin/policy`. Expressions are not offered `authorizer.requestResource`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from steersman.devcluster.admission.access import Access
from steersman.devcluster.admission.conditions import ConditionError, Expressions, conditions_match
from steersman.devcluster.admission.lookups import Lookups
from steersman.devcluster.admission.matching import (
    Equivalent,
    Equivalents,
    converted,
    is_exempt,
    matches_objects,
    matching_resource,
)
from steersman.devcluster.admission.review import question
from steersman.devcluster.admission.write import Write
from steersman.devcluster.auth.rbac import Authorizer
from steersman.devcluster.auth.reading import part, parts, strings
from steersman.devcluster.auth.rules import selects
from steersman.devcluster.errors import APIError
from steersman.devcluster.objects import Object, labels_of, name_of
from steersman.devcluster.strategy import Reader

__all__ = ["Policies"]

_GROUP = "admissionregistration.k8s.io"
_POLICIES, _BINDINGS = "validatingadmissionpolicies", "validatingadmissionpolicybindings"
_MESSAGE_LIMIT_BYTES = 5 * 1024
_CODES = {"Unauthorized": 401, "Forbidden": 403, "RequestEntityTooLarge": 413, "Invalid": 422}


class _ConfigurationError(Exception):
    """A binding that cannot be followed."""


@dataclass(frozen=True, slots=True)
class _Fault:
    """Why a policy refuses."""

    message: str
    reason: str = ""
    index: int = 0


class Policies:
    """The policies of one API server; read once, then following changes."""

    def __init__(
        self,
        reader: Reader,
        lookups: Lookups,
        equivalents: Equivalents | None = None,
        authorizer: Authorizer | None = None,
    ) -> None:
        self._reader = reader
        self._lookups = lookups
        self._equivalents = equivalents
        self._authorizer = authorizer
        self._known: list[tuple[Object, list[Object]]] | None = None

    def changed(self, resource: str) -> None:
        """A policy or binding was written or deleted."""
        if resource in (_POLICIES, _BINDINGS):
            self._known = None

    def check(self, write: Write) -> None:
        """Refuse a write that breaks a policy, warn of it or record it, as the binding wants. Raises `APIError`."""
        known = self._all()
        if not known or is_exempt(write):
            return
        for policy, bindings in known:
            seen = self._matching(part(part(policy, "spec"), "matchConstraints"), write)
            if seen is None:
                continue
            for binding in bindings:
                resources = part(part(binding, "spec"), "matchResources")
                if not resources or self._matching(resources, write) is not None:
                    self._check_bound(policy, binding, seen, write)

    def needs_webhook(self, write: Write) -> bool:
        """Return whether a policy matches another version of the object that only a webhook converts to."""
        return any(True for _ in self._versions_by_webhook(write))

    async def prepare(self, write: Write) -> None:
        """Convert the object for the policies that match versions that only a webhook converts to."""
        for seen in self._versions_by_webhook(write):
            key = (seen.group, seen.version, seen.resource)
            if key not in write.converted and self._equivalents is not None:
                write.converted[key] = await converted(write, seen, self._equivalents)

    def _versions_by_webhook(self, write: Write) -> Iterator[Equivalent]:
        known = self._all()
        if not known or self._equivalents is None or is_exempt(write):
            return
        for policy, _ in known:
            seen = self._matching(part(part(policy, "spec"), "matchConstraints"), write)
            if seen is not None and not _is_own(seen, write) and self._equivalents.needs_webhook(seen):
                yield seen

    def _all(self) -> list[tuple[Object, list[Object]]]:
        if self._known is None:
            bound: dict[str, list[Object]] = {}
            for binding in sorted(self._reader.list(_GROUP, _BINDINGS), key=name_of):
                bound.setdefault(part(binding, "spec").get("policyName") or "", []).append(binding)
            self._known = [
                (policy, bound[name_of(policy)])
                for policy in sorted(self._reader.list(_GROUP, _POLICIES), key=name_of)
                if name_of(policy) in bound
            ]
        return self._known

    def _matching(self, criteria: Object, write: Write) -> Equivalent | None:
        """The version in which criteria want to see a write; `None` where they do not concern it."""
        policy = criteria.get("matchPolicy")
        excluded = {"rules": _named(criteria, "excludeResourceRules", write), "matchPolicy": policy}
        if matching_resource(excluded, write, self._equivalents) is not None:
            return None
        if parts(criteria, "resourceRules"):
            wanted = {"rules": _named(criteria, "resourceRules", write), "matchPolicy": policy}
            seen = matching_resource(wanted, write, self._equivalents)
        else:
            seen = Equivalent(write.group, write.version, write.resource, write.kind)
        if seen is None or not matches_objects(criteria, write, self._namespace_labels(criteria, write)):
            return None
        return seen

    def _namespace_labels(self, criteria: Object, write: Write) -> dict[str, str] | None:
        if not criteria.get("namespaceSelector") or not write.effective_namespace:
            return None
        if write.resource == "namespaces" and not write.group:
            return dict(labels_of(write.obj or write.old or {}))
        return self._lookups.namespace_labels(write.namespace)

    def _check_bound(self, policy: Object, binding: Object, seen: Equivalent, write: Write) -> None:
        spec = part(policy, "spec")
        fails = spec.get("failurePolicy") != "Ignore"
        origin = f"ValidatingAdmissionPolicy '{name_of(policy)}' with binding '{name_of(binding)}'"
        try:
            params = self._params(spec, part(part(binding, "spec"), "paramRef"), write)
        except _ConfigurationError as error:
            if fails:
                raise _denied(write, f"{origin} denied request: failed to configure binding: {error}", "") from None
            return
        actions = strings(part(binding, "spec"), "validationActions")
        for param in params:
            for fault in self._faults(policy, spec, param, seen, write, fails=fails):
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

    def _faults(
        self, policy: Object, spec: Object, param: Object | None, seen: Equivalent, write: Write, *, fails: bool
    ) -> list[_Fault]:
        bound = self._seen_by_expressions(param, seen, write)
        try:
            conditions = parts(spec, "matchConditions")
            if conditions and not conditions_match(conditions, bound):
                return []
            found = _broken(spec, bound, fails=fails)
            _annotate(policy, spec, bound, write)
            return found
        except ConditionError as error:
            return [_Fault(str(error))] if fails else []

    def _seen_by_expressions(self, param: Object | None, seen: Equivalent, write: Write) -> dict[str, Any]:
        request: Object = question("", write, seen, None, None)["request"]
        for field in ("uid", "object", "oldObject"):
            request.pop(field, None)
        obj, old = self._versioned(seen, write)
        in_namespace = write.namespace and not (write.resource == "namespaces" and not write.group)
        bound: dict[str, Any] = {
            "object": obj,
            "oldObject": old,
            "request": request,
            "params": param,
            "namespaceObject": self._lookups.namespace(write.namespace) if in_namespace else None,
        }
        if self._authorizer is not None:
            bound["authorizer"] = Access(self._authorizer, write.user)
        return bound

    def _versioned(self, seen: Equivalent, write: Write) -> tuple[Object | None, Object | None]:
        """Object and old object in the version that the policy matches."""
        if _is_own(seen, write) or self._equivalents is None:
            return write.obj, write.old
        if known := write.converted.get((seen.group, seen.version, seen.resource)):
            return known
        convert = self._equivalents.convert_now
        obj, old = write.obj, write.old
        return None if obj is None else convert(obj, seen), None if old is None else convert(old, seen)

    def _params(self, spec: Object, reference: Object, write: Write) -> list[Object | None]:
        kind = part(spec, "paramKind")
        if not kind or not reference:
            return [None]
        group, _, version = (kind.get("apiVersion") or "").rpartition("/")
        resource, namespaced = self._resource_of(group, version, kind.get("kind") or "")
        namespace = ""
        if namespaced:
            namespace = reference.get("namespace") or write.effective_namespace
            if not namespace:
                text = "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
                raise _ConfigurationError(text)
        elif reference.get("namespace"):
            raise _ConfigurationError("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
        if name := reference.get("name"):
            one = self._reader.get(group, resource, namespace, name)
            found = [] if one is None else [one]
        else:
            selector = part(reference, "selector")
            found = [
                item for item in self._reader.list(group, resource, namespace) if selects(selector, labels_of(item))
            ]
        if not found and reference.get("parameterNotFoundAction") == "Deny":
            raise _ConfigurationError("no params found for policy binding with `Deny` parameterNotFoundAction")
        return list(found)

    def _resource_of(self, group: str, version: str, kind: str) -> tuple[str, bool]:
        """Where objects of a kind are stored, and whether in namespaces."""
        if (group, kind) in (("", "ConfigMap"), ("", "Secret")):
            return f"{kind.lower()}s", True
        for definition in self._reader.list("apiextensions.k8s.io", "customresourcedefinitions"):
            spec = part(definition, "spec")
            names = part(spec, "names")
            if spec.get("group") == group and names.get("kind") == kind:
                return names.get("plural") or "", spec.get("scope") == "Namespaced"
        raise _ConfigurationError(f"paramKind kind `{group}/{version}, Kind={kind}` not known")


def _is_own(seen: Equivalent, write: Write) -> bool:
    return (seen.group, seen.version) == (write.group, write.version)


def _named(criteria: Object, field: str, write: Write) -> list[Object]:
    """The rules that have no `resourceNames`, or have this object's."""
    name = write.shown_name()
    return [rule for rule in parts(criteria, field) if not rule.get("resourceNames") or name in rule["resourceNames"]]


def _broken(spec: Object, bound: Mapping[str, Any], *, fails: bool) -> list[_Fault]:
    """The validations that do not hold. Raises `ConditionError` where they cost too much."""
    from steersman.devcluster import cel  # late, as in `conditions`

    validations, variables = parts(spec, "validations"), parts(spec, "variables")
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
    from steersman.devcluster import cel

    expressions = Expressions(bound, cel.Budget(cel.OBJECT_BUDGET), parts(spec, "variables"))
    for annotation in parts(spec, "auditAnnotations"):
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
