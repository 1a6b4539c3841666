"""Configurations of admission webhooks, and admission policies: defaults and form.

Expressions are compiled where they are used; here they are only required to be there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from steersman.devcluster.errors import ErrorType, FieldError, field_invalid, required, too_many
from steersman.devcluster.kinds import columns, formats
from steersman.devcluster.kinds import meta as metadata
from steersman.devcluster.kinds import names as check
from steersman.devcluster.kinds.parts import items, part, word
from steersman.devcluster.kinds.plain import Plain
from steersman.devcluster.objects import Object, Path
from steersman.devcluster.strategy import Column, WriteContext

__all__ = ["STRATEGIES", "AdmissionPolicy", "WebhookConfiguration", "rule_faults", "webhook_service", "webhook_url"]

_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_FORM = "; desired format: https://host[/path]"


class WebhookConfiguration(Plain):
    unconditional_update = False

    namespaced = False
    generation = True
    reinvoked = False
    """Whether webhooks may be asked again, as mutating ones may."""
    columns = (columns.NAME, Column("Webhooks", "integer", description="How many webhooks."), columns.AGE)

    def row(self, obj: Object, now: float) -> list[Any]:
        return [columns.name(obj), len(items(obj, "webhooks")), columns.age(obj, now)]

    def default(self, obj: Object) -> None:
        for hook in items(obj, "webhooks"):
            hook.setdefault("failurePolicy", "Fail")
            hook.setdefault("matchPolicy", "Equivalent")
            hook.setdefault("namespaceSelector", {})
            hook.setdefault("objectSelector", {})
            hook.setdefault("timeoutSeconds", 10)
            if self.reinvoked:
                hook.setdefault("reinvocationPolicy", "Never")
            if (service := part(hook, "clientConfig").get("service")) is not None:
                service.setdefault("port", 443)
            for rule in items(hook, "rules"):
                rule.setdefault("scope", "*")

    def faults(self, obj: Object) -> list[FieldError]:
        found: list[FieldError] = []
        seen: set[str] = set()
        for index, hook in enumerate(items(obj, "webhooks")):
            path, name = Path("webhooks").at(index), word(hook, "name")
            found += self._hook(path, hook)
            found += _versions(path / "admissionReviewVersions", items(hook, "admissionReviewVersions"))
            if name and name in seen:
                found.append(FieldError(ErrorType.DUPLICATE, path / "name", name))
            seen.add(name)
        return found

    def validate_update(self, obj: Object, old: Object, ctx: WriteContext) -> list[FieldError]:
        return metadata.repeated_create(obj, old, False, self.name_rule) + self.faults(obj)

    def _hook(self, path: Path, hook: Object) -> list[FieldError]:
        found = _full_name(path / "name", word(hook, "name"))
        for index, rule in enumerate(items(hook, "rules")):
            found += rule_faults((path / "rules").at(index), rule)
        for field, known in (("failurePolicy", ("Fail", "Ignore")), ("matchPolicy", ("Equivalent", "Exact"))):
            if (value := hook.get(field)) is not None:
                found += check.enum(path / field, value, known)
        effects = hook.get("sideEffects")
        if effects is None:
            found.append(required(path / "sideEffects", "must specify one of None, NoneOnDryRun"))
        else:
            found += check.enum(path / "sideEffects", effects, ("None", "NoneOnDryRun"))
        seconds = hook.get("timeoutSeconds")
        if seconds is not None and not 1 <= seconds <= 30:
            text = "the timeout value must be between 1 and 30 seconds"
            found.append(field_invalid(path / "timeoutSeconds", seconds, text))
        for field in ("namespaceSelector", "objectSelector"):
            found += check.label_selector(path / field, hook.get(field))
        if (again := hook.get("reinvocationPolicy")) is not None:
            found += check.enum(path / "reinvocationPolicy", again, ("IfNeeded", "Never"))
        found += _client(path / "clientConfig", part(hook, "clientConfig"))
        return found + _conditions(path / "matchConditions", items(hook, "matchConditions"))


def _full_name(path: Path, name: str) -> list[FieldError]:
    if not name:
        return [required(path)]
    if texts := formats.dns_subdomain(name):
        return [field_invalid(path, name, ",".join(texts))]
    if name.count(".") < 2:
        text = "should be a domain with at least three segments separated by dots"
        return [field_invalid(path, name, text)]
    return []


def rule_faults(path: Path, rule: Object) -> list[FieldError]:
    """Operations, groups, versions, resources and scope that a webhook or policy is for."""
    found: list[FieldError] = []
    operations = items(rule, "operations")
    found += _starred(path / "operations", operations, "operations")
    for index, operation in enumerate(operations):
        found += check.enum((path / "operations").at(index), operation, _OPERATIONS)
    found += _starred(path / "apiGroups", items(rule, "apiGroups"), "API groups")
    versions = items(rule, "apiVersions")
    found += _starred(path / "apiVersions", versions, "API versions")
    found += [required((path / "apiVersions").at(index)) for index, version in enumerate(versions) if not version]
    found += _resources(path / "resources", items(rule, "resources"))
    if (scope := rule.get("scope")) is not None:
        found += check.enum(path / "scope", scope, ("*", "Cluster", "Namespaced"))
    return found


def _starred(path: Path, values: Sequence[str], what: str) -> list[FieldError]:
    if not values:
        return [required(path)]
    if len(values) > 1 and "*" in values:
        return [field_invalid(path, list(values), f"if '*' is present, must not specify other {what}")]
    return []


def _resources(path: Path, resources: Sequence[str]) -> list[FieldError]:
    found = [] if resources else [required(path)]
    all_of: set[str] = set()
    any_with: set[str] = set()
    for index, text in enumerate(resources):
        resource, slash, sub = text.partition("/")
        if not text:
            found.append(required(path.at(index)))
        if not slash:
            continue
        if resource in all_of:
            complaint = f"if '{resource}/*' is present, must not specify {text}"
            found.append(field_invalid(path.at(index), text, complaint))
        if sub in any_with:
            found.append(field_invalid(path.at(index), text, f"if '*/{sub}' is present, must not specify {text}"))
        if sub == "*":
            all_of.add(resource)
        if resource == "*":
            any_with.add(sub)
    if len(resources) > 1 and "*/*" in resources:
        text = "if '*/*' is present, must not specify other resources"
        found.append(field_invalid(path, list(resources), text))
    if "*" in resources and any(text != "*" and "/" not in text for text in resources):
        text = "if '*' is present, must not specify other resources without subresources"
        found.append(field_invalid(path, list(resources), text))
    return found


def _client(path: Path, config: Object) -> list[FieldError]:
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        return [required(path, "exactly one of url or service is required")]
    return webhook_url(path / "url", url) if url is not None else webhook_service(path / "service", service or {})


def webhook_url(path: Path, url: str) -> list[FieldError]:
    """An https URL of a host and a path, nothing else."""
    try:
        parsed = urlsplit(url)
    except ValueError as error:
        return [required(path, f"url must be a valid URL: {error}{_FORM}")]
    found: list[FieldError] = []
    if parsed.scheme != "https":
        found.append(field_invalid(path, parsed.scheme, f"'https' is the only allowed URL scheme{_FORM}"))
    host = parsed.netloc.rpartition("@")[2]
    if not host:
        found.append(field_invalid(path, host, f"host must be specified{_FORM}"))
    if "@" in parsed.netloc:
        # What the user put there may be a password, hence never shown.
        found.append(field_invalid(path, "<redacted>", "user information is not permitted in the URL"))
    if parsed.fragment:
        found.append(field_invalid(path, parsed.fragment, "fragments are not permitted in the URL"))
    if parsed.query:
        found.append(field_invalid(path, parsed.query, "query parameters are not permitted in the URL"))
    return found


def webhook_service(path: Path, service: Object) -> list[FieldError]:
    """The Service a webhook is behind, as admission and conversion webhooks name it."""
    found = [required(path / field) for field in ("name", "namespace") if not service.get(field)]
    port = service.get("port", 443)
    if texts := formats.port_number(port):
        found.append(field_invalid(path / "port", port, f"port is not valid: {', '.join(texts)}"))
    url = word(service, "path")
    if url in ("", "/"):
        return found
    if url == "//":
        return [*found, field_invalid(path / "path", url, "segment[0] may not be empty")]
    if not url.startswith("/"):
        found.append(field_invalid(path / "path", url, "must start with a '/'"))
    for index, step in enumerate(url[1:].removesuffix("/").split("/")):
        texts = formats.dns_subdomain(step) if step else ()
        if not step:
            found.append(field_invalid(path / "path", url, f"segment[{index}] may not be empty"))
        found += [field_invalid(path / "path", url, f"segment[{index}]: {text}") for text in texts]
    return found


def _versions(path: Path, versions: Sequence[str]) -> list[FieldError]:
    if not versions:
        return [required(path, "must specify one of v1, v1beta1")]
    found: list[FieldError] = []
    for index, version in enumerate(versions):
        if version in versions[:index]:
            found.append(field_invalid(path.at(index), version, "duplicate version"))
        else:
            found += check.dns1035_label(path.at(index), version)
    if not {"v1", "v1beta1"} & set(versions):
        found.append(field_invalid(path, list(versions), "must include at least one of v1, v1beta1"))
    return found


def _conditions(path: Path, conditions: Sequence[Object]) -> list[FieldError]:
    found = [too_many(path, len(conditions), 64)] if len(conditions) > 64 else []
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        at, name = path.at(index), word(condition, "name")
        if not word(condition, "expression").strip():
            found.append(required(at / "expression"))
        found += check.qualified_name(at / "name", name) if name else [required(at / "name")]
        if name and name in seen:
            found.append(FieldError(ErrorType.DUPLICATE, at / "name", name))
        seen.add(name)
    return found


class MutatingWebhookConfiguration(WebhookConfiguration):
    reinvoked = True


class AdmissionPolicy(Plain):
    """ValidatingAdmissionPolicy and MutatingAdmissionPolicy, of which only the form is kept."""

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
        spec = part(obj, "spec")
        kind = spec.get("paramKind")
        shown = f"{word(kind, 'apiVersion')}/{word(kind, 'kind')}" if kind else columns.UNSET
        return [columns.name(obj), len(items(spec, self.what)), shown, columns.age(obj, now)]

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        spec.setdefault("failurePolicy", "Fail")
        if (match := spec.get("matchConstraints")) is not None:
            default_match(match)

    def prepare_create(self, obj: Object, ctx: WriteContext) -> None:
        super().prepare_create(obj, ctx)
        if self.what == "validations":
            obj["status"] = {}

    def faults(self, obj: Object) -> list[FieldError]:
        spec, path = part(obj, "spec"), Path("spec")
        match = spec.get("matchConstraints")
        found = [required(path / "matchConstraints")] if match is None else _match(path / "matchConstraints", match)
        if self.what == "validations" and not spec.get("validations") and not spec.get("auditAnnotations"):
            text = "validations or auditAnnotations must contain at least one item"
            found += [required(path / field, text) for field in ("validations", "auditAnnotations")]
        if self.what == "mutations" and not spec.get("mutations"):
            found.append(required(path / "mutations", "mutations must contain at least one item"))
        if (policy := spec.get("failurePolicy")) is not None:
            found += check.enum(path / "failurePolicy", policy, ("Fail", "Ignore"))
        for index, validation in enumerate(items(spec, "validations")):
            at = (path / "validations").at(index)
            if not word(validation, "expression").strip():
                found.append(required(at / "expression", "expression is not specified"))
        return found + _conditions(path / "matchConditions", items(spec, "matchConditions"))


def default_match(match: Object) -> None:
    """Fill in what a policy's `matchResources` leaves open."""
    match.setdefault("matchPolicy", "Equivalent")
    match.setdefault("namespaceSelector", {})
    match.setdefault("objectSelector", {})
    for rule in (*items(match, "resourceRules"), *items(match, "excludeResourceRules")):
        rule.setdefault("scope", "*")


def _match(path: Path, match: Object) -> list[FieldError]:
    found = [] if match.get("resourceRules") else [required(path / "resourceRules")]
    for field in ("namespaceSelector", "objectSelector"):
        found += check.label_selector(path / field, match.get(field))
    for field in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(items(match, field)):
            found += rule_faults((path / field).at(index), rule)
    return found


class AdmissionPolicyBinding(Plain):
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
        spec = part(obj, "spec")
        reference = spec.get("paramRef")
        shown = columns.UNSET
        if reference is not None:
            name, namespace = word(reference, "name"), word(reference, "namespace")
            shown = f"{namespace}/{name}" if namespace else f"*/{name}"
        return [columns.name(obj), word(spec, "policyName"), shown, columns.age(obj, now)]

    def default(self, obj: Object) -> None:
        if (match := part(obj, "spec").get("matchResources")) is not None:
            default_match(match)

    def faults(self, obj: Object) -> list[FieldError]:
        spec, path = part(obj, "spec"), Path("spec")
        policy = word(spec, "policyName")
        found = check.dns_subdomain(path / "policyName", policy) if policy else [required(path / "policyName")]
        return found + (self._actions(path / "validationActions", spec) if self._acts else [])

    def _actions(self, path: Path, spec: Object) -> list[FieldError]:
        actions = items(spec, "validationActions")
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
    (_GROUP, "v1", "ValidatingWebhookConfiguration"): WebhookConfiguration(),
    (_GROUP, "v1", "MutatingWebhookConfiguration"): MutatingWebhookConfiguration(),
    (_GROUP, "v1", "ValidatingAdmissionPolicy"): AdmissionPolicy("validations"),
    (_GROUP, "v1", "ValidatingAdmissionPolicyBinding"): AdmissionPolicyBinding(acts=True),
    (_GROUP, "v1", "MutatingAdmissionPolicy"): AdmissionPolicy("mutations"),
    (_GROUP, "v1", "MutatingAdmissionPolicyBinding"): AdmissionPolicyBinding(acts=False),
}
